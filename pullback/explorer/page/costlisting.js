/** The pane of costs lists source lines: its rows are indices of rows of the source. */

import { sortCosts } from "./costs.js";
import { Listing, lineCells } from "./listing.js";
import { model } from "./model.js";
import { ROW } from "./strip.js";
import { python } from "./syntax.js";

export class CostListing extends Listing {
  unfolded() {
    sortCosts(this.stage);
    return this.stage.rows.slice();
  }

  folds() {
    return false;
  }

  fold() {}

  foldAll() {}

  foldAround() {}

  open() {}

  slotOfIndex(index) {
    return Math.max(0, this.visible.indexOf(index));
  }

  slotOf(place) {
    return this.visible.indexOf(place - this.stage.start);
  }

  holds(place) {
    return this.slotOf(place) >= 0;
  }

  targetAt(event) {
    const slot = Math.floor((event.clientY - this.body.getBoundingClientRect().top + this.body.scrollTop) / ROW);
    return slot < 0 || slot >= this.size ? null : { slot, folds: false, target: this.targetOf(slot) };
  }

  rowHtml(slot) {
    const row = model.source.rows[this.visible[slot]];
    const attributes = { "aria-level": 1, "aria-posinset": slot + 1, "aria-setsize": this.size };
    return this.wrapped(slot, row, attributes, lineCells(row, python(row.text.trim()), this.stage.columns));
  }
}
