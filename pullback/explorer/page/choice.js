/** Pointing at things, and keeping what was pointed at. */

import { describe } from "./inspector.js";
import { model } from "./model.js";
import { relate } from "./relations.js";
import { spokenText } from "./rows.js";
import { announce, later, state } from "./state.js";
import { sameTarget, sameVariable } from "./targets.js";

const keepListeners = [];

/** Called when what is kept changes. */
export const onKeep = (listener) => keepListeners.push(listener);

const shownTarget = () => state.kept || state.pointed;

function showTarget() {
  const target = shownTarget();
  relate(target ? target.starts : []);
  describe(target);
  later();
}

/** @param target what is under the mouse or the cursor; null for nothing */
export function point(target) {
  const before = state.pointed;
  state.pointed = target;
  if (sameTarget(before, target)) {
    const variable = target && target.variable;
    if (!sameVariable(before && before.variable, variable)) later();
    return;
  }
  if (state.kept)
    later(); // what was chosen stays; only the variable under the mouse may be another
  else showTarget();
}

/** Keeps the relations of a target, and lines the panes up with it; a second time lets go. */
export function keep(target, pane) {
  if (state.kept && sameTarget(state.kept, target)) return letGo();
  state.kept = target;
  relate(target.starts);
  if (pane && target.starts.length) lineUp(target, pane);
  describe(target);
  if (target.place !== null) announce(`Kept: ${model.stageAt(target.place).name}, ${spokenText(target.place)}`);
  for (const listener of keepListeners) listener();
  later();
}

export function letGo() {
  if (state.kept) announce("Let go.");
  state.kept = null;
  showTarget();
  for (const listener of keepListeners) listener();
}

/** Brings the nearest relative in each other pane to the height of the row that was chosen. */
function lineUp(target, pane) {
  const slot = target.place === null ? -1 : pane.view.slotOf(target.place);
  const y = slot < 0 ? undefined : pane.view.yOf(slot);
  for (const other of state.panes)
    if (other !== pane) align(other, y === undefined || y < 0 ? other.view.body.clientHeight / 3 : y);
}

/** Brings the strongest relative of what is kept to a height in a pane. */
export function align(pane, y) {
  let best = -1;
  let strongest = 1;
  for (let slot = 0; slot < pane.view.size; slot++) {
    const strength = pane.view.strength(slot);
    if (strength > strongest) {
      best = slot;
      strongest = strength;
    }
  }
  if (best < 0) return;
  pane.view.show(best, y);
  pane.cursor = best;
}
