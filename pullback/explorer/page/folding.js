/** Which rows of a stage a pane shows, and where: what rows and graphs have in common. */

import { NEAR, related, strengthAt } from "./relations.js";
import { later } from "./state.js";
import { rowTarget } from "./targets.js";

export class FoldedRows {
  constructor(pane) {
    this.pane = pane;
    this.stage = pane.stage;
    this.visible = []; // the indices of the rows that folding leaves
    this.box = document.createElement("div");
    this.box.className = "field";
  }

  get size() {
    return this.visible.length;
  }

  /** The slot that an arrow key leads to. */
  step(slot, by) {
    return Math.max(0, Math.min(this.size - 1, slot + by));
  }

  // ---- folding

  refold() {
    const { pane } = this;
    const chosen = this.visible[pane.cursor];
    this.visible = this.unfolded();
    if (chosen !== undefined) pane.cursor = this.slotOfIndex(chosen);
  }

  unfolded() {
    const { stage } = this;
    const visible = [];
    for (let index = 0; index < stage.rows.length; index++) {
      visible.push(index);
      if (stage.closed[index]) index += stage.span(index);
    }
    return visible;
  }

  folds(slot) {
    return this.stage.span(this.visible[slot]) > 0;
  }

  /** @param closed what it shall be; without it, the other of what it is */
  fold(index, closed) {
    if (!this.stage.span(index)) return;
    this.stage.closed[index] = closed === undefined ? 1 - this.stage.closed[index] : Number(closed);
    this.refold();
    later();
  }

  /** Forward and backward stay open while there is anything else to fold. */
  foldAll(closed) {
    const { rows, closed: now } = this.stage;
    const others = rows.some((row, index) => row.span && row.head !== "part" && !now[index]);
    rows.forEach((row, index) => {
      if (row.span && !(closed && others && row.head === "part")) now[index] = Number(closed);
    });
    this.refold();
    later();
  }

  /** Folds the row, or what holds it. */
  foldAround(slot) {
    const index = this.visible[slot];
    this.fold(this.stage.span(index) ? index : Math.max(0, this.stage.parent[index]));
  }

  // ---- places

  placeOf(slot) {
    return this.stage.start + this.visible[slot];
  }

  /** Where a row is among the visible ones, or the heading that hides it. */
  slotOfIndex(index) {
    let low = 0;
    let high = this.visible.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.visible[middle] <= index) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  slotOf(place) {
    return this.holds(place) ? this.slotOfIndex(place - this.stage.start) : -1;
  }

  holds(place) {
    return place >= this.stage.start && place < this.stage.start + this.stage.rows.length;
  }

  targetOf(slot) {
    return rowTarget(this.placeOf(slot));
  }

  /** Opens what hides a row. */
  open(place) {
    const { stage } = this;
    let changed = false;
    for (let holder = stage.parent[place - stage.start]; holder >= 0; holder = stage.parent[holder]) {
      if (stage.closed[holder]) {
        stage.closed[holder] = 0;
        changed = true;
      }
    }
    if (changed) this.refold();
  }

  /** How a visible row is related to what is pointed at; a folded one speaks for what it hides. */
  strength(slot) {
    if (!related) return 0;
    const place = this.placeOf(slot);
    const index = this.visible[slot];
    let best = strengthAt(place);
    if (!this.stage.closed || !this.stage.closed[index]) return best;
    const end = place + this.stage.span(index);
    for (let held = place + 1; held <= end && best < NEAR; held++) best = Math.max(best, strengthAt(held));
    return best;
  }
}
