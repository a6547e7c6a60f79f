/** What one can point at: a row of a stage, or a frame of the flame graph; in a row, perhaps a variable. */

import { startsOf } from "./relations.js";

/** @param variable {stage, name}: its place in `vars`, or its name in foreign text */
export const rowTarget = (place, variable = null) => ({ kind: "row", place, variable, starts: startsOf(place) });

export const frameTarget = (number, starts) => ({ kind: "frame", number, place: null, variable: null, starts });

export function sameTarget(a, b) {
  if (a === null || b === null) return a === b;
  return a.kind === b.kind && a.place === b.place && a.number === b.number;
}

export const sameVariable = (a, b) => a === b || (a !== null && b !== null && a.stage === b.stage && a.name === b.name);
