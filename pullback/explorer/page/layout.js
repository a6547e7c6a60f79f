/** Which panes there are, in which order; and going to a row, wherever it is. */

import { align, keep, point } from "./choice.js";
import { model } from "./model.js";
import { Pane } from "./pane.js";
import { below, firstAbove, neighbours } from "./relations.js";
import { searchAgain } from "./search.js";
import { element, later, state } from "./state.js";
import { rowTarget, sameTarget } from "./targets.js";

const layoutListeners = [];

/** Called when panes come, go or move. */
export const onLayout = (listener) => layoutListeners.push(listener);

/** What one can open, in the order of the bar: the stages, then costs and the flame graph. */
export const stagesShown = () => [...model.stages, model.costs, model.flame].filter(Boolean);

const actions = {
  point,
  keep,
  close: (id) => togglePane(id),
  move: movePane,
  viewed: tellLayout,
  drop(id, before) {
    const from = paneOf(id);
    if (!from || from === before) return;
    state.panes.splice(state.panes.indexOf(from), 1);
    state.panes.splice(state.panes.indexOf(before), 0, from);
    arrange();
  },
};

export const paneOf = (id) => state.panes.find((pane) => pane.stage.id === id);

export function openPanes(ids) {
  for (const pane of state.panes) pane.box.remove();
  state.panes = ids.map(
    (id) =>
      new Pane(
        stagesShown().find((stage) => stage.id === id),
        actions,
      ),
  );
  state.active = state.panes[Math.min(1, state.panes.length - 1)];
  arrange();
}

function arrange() {
  for (const pane of state.panes) element("panes").append(pane.box);
  searchAgain();
  tellLayout();
  later();
}

function tellLayout() {
  for (const listener of layoutListeners) listener();
}

/** Shows a stage at its place in the order of making, or hides it. The last one stays. */
export function togglePane(id) {
  const position = state.panes.findIndex((pane) => pane.stage.id === id);
  if (position >= 0) {
    if (state.panes.length === 1) return;
    const [gone] = state.panes.splice(position, 1);
    const focused = gone.box.contains(document.activeElement);
    gone.box.remove();
    if (state.active === gone) {
      state.active = state.panes[Math.min(position, state.panes.length - 1)];
      if (focused) state.active.focus();
    }
    return arrange();
  }
  const order = stagesShown();
  const rank = (stage) => order.indexOf(stage);
  const stage = order.find((one) => one.id === id);
  const made = new Pane(stage, actions);
  const before = state.panes.findIndex((pane) => rank(pane.stage) > rank(stage));
  state.panes.splice(before < 0 ? state.panes.length : before, 0, made);
  arrange();
  made.bringIntoView();
  if (state.kept) align(made, made.view.body.clientHeight / 3);
}

export function movePane(pane, step) {
  const from = state.panes.indexOf(pane);
  const to = from + step;
  if (to < 0 || to >= state.panes.length) return;
  state.panes.splice(from, 1);
  state.panes.splice(to, 0, pane);
  arrange();
  pane.focus();
}

/** Opens what is needed to see a row, and puts the cursor there. */
export function reveal(place) {
  const stage = model.stageAt(place);
  if (!paneOf(stage.id)) togglePane(stage.id);
  const pane = paneOf(stage.id);
  state.active = pane;
  pane.view.open(place);
  pane.cursor = pane.view.slotOf(place);
  pane.view.show(pane.cursor);
  pane.bringIntoView();
  return pane;
}

/** Shows a row and keeps it. The focus stays where it is: in a document of several pages it may be elsewhere. */
export function choose(place) {
  const pane = reveal(place);
  const target = rowTarget(place);
  if (!sameTarget(state.kept, target)) keep(target, pane);
  return pane;
}

/** Goes to a row and keeps it. */
export const go = (place) => choose(place).focus();

export function goUp(place) {
  const parent = firstAbove(place);
  if (parent >= 0) go(parent);
}

/** To the first descendant in a pane, else to the first of all. */
export function goDown(place) {
  const children = [...neighbours(below, place)];
  const open = new Set(state.panes.map((pane) => pane.stage));
  const next = children.find((child) => open.has(model.stageAt(child))) ?? children[0];
  if (next !== undefined) go(next);
}
