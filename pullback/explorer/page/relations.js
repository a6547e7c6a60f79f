/** Who came from whom, and what is related to the row that one points at.
 *
 * The `from` of all rows becomes two lists in compressed form: the parents of the row at `place` are
 * `above.list[above.start[place] ... above.start[place + 1] - 1]`, its children are in `below` alike. */

import { model } from "./model.js";

export const HERE = 4; // the thing itself
export const NEAR = 3; // its ancestors and descendants
const KIN = 2; // what else came from the same equation

const MOST_ROOTS = 40; // of one thing; with more of them everything would be kin
const MOST_STARTS = 4000;

export let above = null;
export let below = null;
export let related = false; // whether anything is pointed at

let marks; // the strength of each row, with the number of the turn in which it was marked
let turn = 0;
let seenIn; // the visit in which each row was met last
let visits = 0;

export function connect() {
  const { count, rowAt, placeOfId } = model;
  above = { start: new Int32Array(count + 1), list: null };
  below = { start: new Int32Array(count + 1), list: null };
  for (let place = 0; place < count; place++) {
    const from = rowAt[place].from || [];
    above.start[place + 1] = above.start[place] + from.length;
    for (const [id] of from) below.start[placeOfId.get(id) + 1]++;
  }
  for (let place = 0; place < count; place++) below.start[place + 1] += below.start[place];
  above.list = new Int32Array(above.start[count]);
  below.list = new Int32Array(above.start[count]);
  const next = below.start.slice();
  for (let place = 0, edge = 0; place < count; place++) {
    for (const [id] of rowAt[place].from || []) {
      const parent = placeOfId.get(id);
      above.list[edge++] = parent;
      below.list[next[parent]++] = place;
    }
  }
  marks = new Int32Array(count);
  seenIn = new Int32Array(count);
}

export const firstAbove = (place) => (above.start[place] < above.start[place + 1] ? above.list[above.start[place]] : -1);
export const neighbours = (edges, place) => edges.list.subarray(edges.start[place], edges.start[place + 1]);

/** All rows that can be reached from some, without those, in the order in which they are met. */
export function reach(starts, edges) {
  visits++;
  const queue = [...starts];
  const found = [];
  for (const place of starts) seenIn[place] = visits;
  while (queue.length) {
    const place = queue.pop();
    for (let edge = edges.start[place]; edge < edges.start[place + 1]; edge++) {
      const next = edges.list[edge];
      if (seenIn[next] === visits) continue;
      seenIn[next] = visits;
      found.push(next);
      queue.push(next);
    }
  }
  return found;
}

/** What pointing at a row means: itself, or for a heading what it holds. */
export function startsOf(place) {
  const row = model.rowAt[place];
  if (!row.head) return [place];
  const starts = [];
  const end = place + (row.span || 0);
  for (let held = place + 1; held <= end && starts.length < MOST_STARTS; held++) {
    const inner = model.rowAt[held];
    if (inner.op !== undefined || inner.arg !== undefined || inner.text !== undefined) starts.push(held);
  }
  return starts;
}

export const strengthAt = (place) => (marks[place] >> 3 === turn ? marks[place] & 7 : 0);

function raise(places, strength) {
  for (const place of places) if (strengthAt(place) < strength) marks[place] = (turn << 3) | strength;
}

/** Marks what is related to some rows, in all stages. */
export function relate(starts) {
  turn++;
  related = starts.length > 0;
  if (!related) return;
  raise(starts, HERE);
  const ancestors = reach(starts, above);
  raise(ancestors, NEAR);
  raise(reach(starts, below), NEAR);
  if (model.stageAt(starts[0]).kind === "source") return; // all that a line became is near already
  const roots = ancestors.filter((place) => model.stageAt(place).id === "base");
  if (roots.length && roots.length < MOST_ROOTS) raise(reach(roots, below), KIN);
}
