/** The strip at the edge of a pane: memory over the whole program, its peak, donated memory, what is related, what was found.
 *
 * Grey is live memory, violet what waits for the backward pass; a dot is the peak, a diamond donated memory. */

import { model } from "./model.js";
import { HERE, NEAR, related } from "./relations.js";
import { state } from "./state.js";
import { colour, freshCanvas } from "./theme.js";

export const ROW = 22; // pixels
const MARKS = 7; // pixels at the left that memory leaves free

/** Pixels of the strip for each row. */
export const stripScale = (rows, height) => (rows * ROW <= height ? ROW : height / rows);

export function drawStrip(listing, canvas) {
  const width = canvas.clientWidth;
  const height = listing.body.clientHeight;
  canvas.style.height = `${height}px`;
  const context = freshCanvas(canvas, width, height);
  const scale = stripScale(listing.visible.length, height);
  const drawing = { listing, context, width, height, scale, stage: listing.stage };
  if (listing.stage.peak && listing.stage.peak[1]) drawMemory(drawing);
  if (listing.stage.donations) drawDonations(drawing);
  if (related) drawRelated(drawing);
  if (state.hits) drawHits(drawing);
  drawThumb(drawing);
}

function drawMemory({ listing, context, width, scale, stage }) {
  const rows = listing.visible.length;
  const bins = Math.max(1, Math.min(rows, Math.ceil(rows * scale)));
  const step = (rows * scale) / bins;
  const live = new Float64Array(bins);
  const held = new Float64Array(bins);
  for (let slot = 0; slot < rows; slot++) {
    const index = listing.visible[slot];
    const bin = Math.floor((slot * bins) / rows);
    const folded = stage.closed[index] && stage.span(index) && stage.figures.live[index]; // it shows the most of what it hides
    live[bin] = Math.max(live[bin], folded ? stage.figures.live[index] : stage.liveAt[index]);
    held[bin] = Math.max(held[bin], folded ? stage.figures.held[index] : stage.heldAt[index]);
  }
  const across = (bytes) => width - (Math.min(bytes, stage.peak[1]) / stage.peak[1]) * (width - MARKS);
  for (const [bytes, paint, strength] of [
    [live, colour.primal, 0.2],
    [held, colour.residual, 0.62],
  ]) {
    context.fillStyle = paint;
    context.globalAlpha = strength;
    context.beginPath();
    context.moveTo(width, 0);
    for (let bin = 0; bin < bins; bin++) {
      context.lineTo(across(bytes[bin]), bin * step);
      context.lineTo(across(bytes[bin]), (bin + 1) * step);
    }
    context.lineTo(width, bins * step);
    context.fill();
  }
  context.globalAlpha = 1;
  const slot = listing.slotOf(model.placeOfId.get(stage.peak[0]));
  if (slot < 0) return;
  context.fillStyle = colour.cotangent;
  context.beginPath();
  context.arc(Math.max(4, across(stage.peak[1])), (slot + 0.5) * scale, 3, 0, 7);
  context.fill();
}

/** A diamond where memory is given away, and one where it is taken. */
function drawDonations({ listing, context, width, scale, stage }) {
  context.fillStyle = colour.tangent;
  for (const index of stage.donations) {
    const y = (listing.slotOf(stage.start + index) + 0.5) * scale;
    const x = width - 5;
    context.beginPath();
    for (const [dx, dy] of [
      [0, -4],
      [4, 0],
      [0, 4],
      [-4, 0],
    ])
      context.lineTo(x + dx, y + dy);
    context.fill();
  }
}

function drawRelated({ listing, context, scale }) {
  context.fillStyle = colour.glow;
  let last = -9;
  for (let slot = 0; slot < listing.visible.length; slot++) {
    const strength = listing.strength(slot);
    const y = slot * scale;
    if (strength < NEAR || y - last < 1) continue;
    context.globalAlpha = strength === HERE ? 1 : 0.75;
    context.fillRect(0, y, 4, Math.max(2, Math.min(scale, ROW)));
    last = y;
  }
  context.globalAlpha = 1;
}

function drawHits({ listing, context, scale, stage }) {
  if (stage.kind === "costs") return;
  context.fillStyle = colour.find;
  for (const place of state.hits.list) {
    if (place < stage.start || place >= stage.start + stage.rows.length) continue;
    context.fillRect(5, listing.slotOf(place) * scale, 5, Math.max(1.5, Math.min(3, scale)));
  }
}

/** Which part is in view, if not all is. */
function drawThumb({ listing, context, width, height, scale }) {
  if (scale >= ROW) return;
  const tall = Math.max(10, (height / ROW) * scale);
  const y = Math.min((listing.body.scrollTop / ROW) * scale, height - tall);
  context.fillStyle = colour.ink;
  context.globalAlpha = 0.05;
  context.fillRect(0, y, width, tall);
  context.globalAlpha = 0.45;
  context.beginPath();
  context.roundRect(width - 3, y, 3, tall, 1.5);
  context.fill();
}
