/** The keyboard: everything that the mouse can do. */

import { keep, letGo, point } from "./choice.js";
import { model } from "./model.js";
import { go, goDown, goUp, movePane, reveal, stagesShown, togglePane } from "./layout.js";
import { nextHit, search } from "./search.js";
import { element, later, state } from "./state.js";
import { rowTarget } from "./targets.js";
import { changed, nextMetric, setMaths } from "./top.js";
import { otherTheme } from "./theme.js";

const SIDEWAYS = 60; // pixels

function moveCursor(pane, slot) {
  if (!pane.view.size) return;
  pane.cursor = slot;
  pane.view.show(slot);
  point(pane.view.targetOf(slot));
  later();
}

/** Along lines that are wider than their pane. */
const sideways = (by) => (pane) => {
  pane.view.body.scrollLeft += by * SIDEWAYS;
};

const steps = (by) => (pane) => moveCursor(pane, pane.view.step(pane.cursor, by));
const pages = (by) => (pane) => moveCursor(pane, pane.view.step(pane.cursor, by * pane.view.pageSize));

function toPane(by) {
  return (pane) => {
    const next = state.panes[state.panes.indexOf(pane) + by];
    if (!next) return;
    next.focus();
    moveCursor(next, Math.min(next.cursor, next.view.size - 1));
  };
}

function toHit(step) {
  const place = nextHit(step);
  if (place < 0) return;
  reveal(place);
  if (!state.kept) point(rowTarget(place));
  later();
}

/** Calls an action with the row that the cursor is at; in the flame graph, with the first row of the frame. */
const onRow = (action) => (pane) => {
  const target = pane.view.size ? pane.view.targetOf(pane.cursor) : null;
  const place = target && (target.place ?? target.starts[0]);
  if (place !== null && place !== undefined) action(place);
};

/** From the inside out: a zoom, what is kept, what is pointed at. */
function escape(pane) {
  if (pane.view.zoomed) pane.view.zoomTo(null);
  else if (state.kept) letGo();
  else point(null);
}

function toggleDetails() {
  const hidden = !element("details").hidden;
  element("details").hidden = element("divider").hidden = hidden;
  later();
}

function toggleFlame() {
  if (model.flame) togglePane(model.flame.id);
}

const KEYS = {
  ArrowDown: steps(1),
  j: steps(1),
  ArrowUp: steps(-1),
  k: steps(-1),
  PageDown: pages(1),
  PageUp: pages(-1),
  Home: (pane) => moveCursor(pane, pane.view.step(pane.cursor, -Infinity)),
  End: (pane) => moveCursor(pane, pane.view.step(pane.cursor, Infinity)),
  ArrowRight: toPane(1),
  l: toPane(1),
  ArrowLeft: toPane(-1),
  h: toPane(-1),
  ">": sideways(1),
  "<": sideways(-1),
  "Shift ArrowRight": (pane) => movePane(pane, 1),
  "Shift ArrowLeft": (pane) => movePane(pane, -1),
  Enter: (pane) => pane.view.size && keep(pane.view.targetOf(pane.cursor), pane),
  " ": (pane) => pane.view.size && pane.view.foldAround(pane.cursor),
  z: (pane) => pane.view.foldAll(true),
  Z: (pane) => pane.view.foldAll(false),
  u: onRow(goUp),
  o: onRow(goDown),
  p: (pane) => pane.stage.peak && go(model.placeOfId.get(pane.stage.peak[0])),
  "!": () => model.found && go(model.found.place),
  g: (pane) => pane.toggleGraph(),
  f: toggleFlame,
  "/": () => element("find").focus(),
  n: () => toHit(1),
  N: () => toHit(-1),
  w: (pane) => {
    pane.box.classList.toggle("wide");
    later();
  },
  c: nextMetric,
  m: () => setMaths(!state.maths),
  d: () => {
    otherTheme();
    changed();
  },
  i: toggleDetails,
  "?": () => element("help").showModal(),
  Escape: escape,
};

const SCROLLING = new Set(["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "PageUp", "PageDown", "Home", "End", " "]);

/** A long rule, or a long story, is scrolled as anything else where the focus is in the details. */
const scrollsDetails = (event) => SCROLLING.has(event.key) && element("details").contains(event.target);

function whileTyping(event) {
  if (event.key === "Enter") toHit(event.shiftKey ? -1 : 1);
  else if (event.key === "Escape") {
    element("find").value = "";
    search("");
    state.active.focus();
  } else return;
  event.preventDefault();
}

function onKey(event) {
  document.body.classList.add("keys"); // the cursor shows while keys are used
  if (event.ctrlKey || event.metaKey || event.altKey || element("help").open) return;
  if (event.target === element("find")) return whileTyping(event);
  if (event.target.tagName === "SELECT") return;
  if (event.target.tagName === "BUTTON" && (event.key === "Enter" || event.key === " ")) return;
  if (scrollsDetails(event)) return;
  const pane = state.active;
  const digit = "1234567890".indexOf(event.key);
  const arrow = event.shiftKey && event.key.startsWith("Arrow");
  const action = KEYS[arrow ? `Shift ${event.key}` : event.key];
  if (action) action(pane);
  else if (digit >= 0 && stagesShown()[digit]) togglePane(stagesShown()[digit].id);
  else return;
  event.preventDefault();
}

export function followKeys() {
  addEventListener("keydown", onKey);
  addEventListener("pointerdown", () => document.body.classList.remove("keys"));
}
