/** Bands in the gaps between neighbouring panes, which join the rows that are related. */

import { NEAR, above, related, strengthAt } from "./relations.js";
import { model } from "./model.js";
import { element, state } from "./state.js";
import { ROW } from "./strip.js";
import { colour, freshCanvas } from "./theme.js";

const MOST_ROWS = 120; // of a pane whose links are looked for
const MOST_BANDS = 90;
const CROWDED = 20;
const INSET = 3; // pixels

export function drawLinks() {
  const main = element("panes");
  const canvas = element("links");
  const width = main.scrollWidth;
  const height = main.clientHeight;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = freshCanvas(canvas, width, height);
  if (!related) return;
  context.fillStyle = colour.glow;
  for (let position = 0; position + 1 < state.panes.length; position++) {
    const left = state.panes[position];
    const right = state.panes[position + 1];
    if (left.links && right.links) drawBands(context, main, left, right, pairsOf(left, right));
  }
}

/** The related rows of two panes of which one came from the other, as pairs of slots. */
function pairsOf(left, right) {
  const flipped = left.stage.number > right.stage.number;
  const [earlier, later] = flipped ? [right, left] : [left, right];
  const pairs = new Map();
  const first = later.stage.start;
  const end = first + later.stage.rows.length;
  let tried = 0;
  for (let place = first; place < end && tried < MOST_ROWS; place++) {
    if (strengthAt(place) < NEAR) continue;
    tried++;
    for (const ancestor of ancestorsIn(place, earlier.stage)) {
      const slots = [earlier.view.slotOf(ancestor), later.view.slotOf(place)];
      if (flipped) slots.reverse();
      pairs.set(slots.join(), slots);
    }
  }
  return [...pairs.values()];
}

/** The related ancestors of a row in a stage, by way of the stages between. */
function ancestorsIn(place, stage) {
  const stack = [place];
  const seen = new Set();
  const found = [];
  while (stack.length) {
    const at = stack.pop();
    for (let edge = above.start[at]; edge < above.start[at + 1]; edge++) {
      const parent = above.list[edge];
      const number = model.stageNumber[parent];
      if (seen.has(parent)) continue;
      seen.add(parent);
      if (number === stage.number) {
        if (strengthAt(parent) >= NEAR) found.push(parent);
      } else if (number > stage.number) stack.push(parent);
    }
  }
  return found;
}

function drawBands(context, main, left, right, pairs) {
  const frame = main.getBoundingClientRect();
  const shift = main.scrollLeft - frame.left;
  const from = left.box.getBoundingClientRect().right + shift;
  const to = right.box.getBoundingClientRect().left + shift;
  const middle = (from + to) / 2;
  const edges = (pane, slot) => {
    const view = pane.view.body.getBoundingClientRect();
    const top = view.top - frame.top + pane.view.yOf(slot);
    const clamped = (y) => Math.max(view.top - frame.top, Math.min(view.bottom - frame.top, y));
    const [high, low] = [clamped(top + INSET), clamped(top + ROW - INSET)];
    return { high, low, hidden: low - high < 1, above: top < view.top - frame.top };
  };
  context.globalAlpha = pairs.length > CROWDED ? 0.2 : 0.36;
  const leaving = new Set(); // of the bands that leave the view, one for each row and edge
  let drawn = 0;
  for (const [leftSlot, rightSlot] of pairs) {
    if (drawn > MOST_BANDS) break;
    const a = edges(left, leftSlot);
    const b = edges(right, rightSlot);
    if (a.hidden && b.hidden) continue;
    if (a.hidden || b.hidden) {
      const key = b.hidden ? `${leftSlot} to ${b.above}` : `${a.above} to ${rightSlot}`;
      if (leaving.has(key)) continue;
      leaving.add(key);
    }
    drawn++;
    context.beginPath();
    context.moveTo(from, a.high);
    context.bezierCurveTo(middle, a.high, middle, b.high, to, b.high);
    context.lineTo(to, Math.max(b.low, b.high + 1));
    context.bezierCurveTo(
      middle,
      Math.max(b.low, b.high + 1),
      middle,
      Math.max(a.low, a.high + 1),
      from,
      Math.max(a.low, a.high + 1),
    );
    context.fill();
  }
  context.globalAlpha = 1;
}
