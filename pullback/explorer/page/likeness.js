/** What is kept, told so that it is found in a page that was made anew: ids and names of variables may be others there. */

import { letGo } from "./choice.js";
import { choose } from "./layout.js";
import { model } from "./model.js";
import { state } from "./state.js";

/** What a row does, and the line that it was written in. */
function words(stage, row) {
  const line = stage.kind === "source" ? undefined : model.rowAt[model.placeOfId.get(row.line)];
  return [row.op, row.arg, row.text, row.label, line && line.text].map((word) => word ?? "").join("\n");
}

/** Of what is kept: its stage, its words, and how many rows before it have the same. Null where nothing is kept. */
export function likeness() {
  const place = state.kept && state.kept.place;
  if (place === null) return null;
  const stage = model.stageAt(place);
  const own = words(stage, model.rowAt[place]);
  const before = stage.rows.slice(0, place - stage.start);
  return { stage: stage.id, words: own, nth: before.filter((row) => words(stage, row) === own).length };
}

/** Keeps the row that has a likeness; nothing where there is none. */
export function keepLike(told) {
  const stage = model.byId.get(told.stage);
  const alike = [];
  if (stage) stage.rows.forEach((row, index) => words(stage, row) === told.words && alike.push(stage.start + index));
  if (told.nth in alike) choose(alike[told.nth]);
  else if (state.kept) letGo();
}
