/** On paper: all rows of the panes that are open, as they are folded. What is left out is said. */

import { MOST_PRINTED } from "./listing.js";
import { later, state } from "./state.js";
import { grouped, plural } from "./text.js";

export function followPrinting() {
  addEventListener("beforeprint", () => {
    for (const pane of state.panes) {
      const left = pane.view.renderForPrint();
      if (left) leaveOut(pane, left);
    }
  });
  addEventListener("afterprint", () => {
    for (const note of document.querySelectorAll(".leftout")) note.remove();
    later();
  });
}

function leaveOut(pane, left) {
  const note = document.createElement("p");
  note.className = "leftout";
  note.textContent =
    `${plural(left, "more row")} of ${pane.stage.name} not printed: at most ${grouped(MOST_PRINTED)} are. ` +
    "Fold what you do not need, and print again.";
  pane.box.append(note);
}
