/** The search: words that all have to be in a row, and filters such as `is:cotangent` and `line:12`. */

import { ROLES, model } from "./model.js";
import { parametersText } from "./rows.js";
import { announce, element, later, state } from "./state.js";
import { brief, grouped, plural } from "./text.js";
import { hasInfinity, hasNan } from "./values.js";

const FILTERS = {
  kept: (row) => row.kept,
  noted: (row) => row.note,
  donated: (row) => row.donated,
  sharded: (row) => row.shard,
  nan: hasNan,
  inf: hasInfinity,
  unknown: (row, stage) => stage.id === "optimized" && row.main && !(row.from || []).length,
  ...Object.fromEntries(ROLES.map((role) => [role, (row) => row.role === role])),
};

let texts = null; // what is searched, of each row; made at the first search
let position = -1; // of the match that one is at

function textOf(place) {
  const row = model.rowAt[place];
  const stage = model.stageAt(place);
  if (row.text !== undefined) return row.text.toLowerCase();
  if (row.head) return `${row.count ? `×${row.count} x${row.count} ` : ""}${row.label}`.toLowerCase();
  const results = (row.out || []).map((variable) => stage.vars[variable].slice(0, 2).join(":")).join(" ");
  const literals = (row.in || row.ret || []).filter((atom) => typeof atom === "string");
  return [results, row.op ?? row.arg ?? "in", parametersText(row), ...literals].join(" ").toLowerCase();
}

/** What a word asks of a row: a function of the row, its stage and its place; null if no such filter is known. */
function test(word) {
  const [, kind, value] = /^(is|line|in):(.*)$/.exec(word) || [];
  if (kind === "is") return value in FILTERS ? (place) => FILTERS[value](model.rowAt[place], model.stageAt(place)) : null;
  if (kind === "line") return /^\d+$/.test(value) ? lineTest(Number(value)) : null;
  if (kind === "in") return stageTest(value);
  return (place) => texts[place].includes(word);
}

/** The rows of the stage of an id, or of a name. */
function stageTest(value) {
  const stage = model.stages.find(({ id, name }) => [id.toLowerCase(), name.toLowerCase()].includes(value));
  return stage ? (place) => model.stageAt(place) === stage : null;
}

/** A source line, and the equations that were written there. */
function lineTest(line) {
  const ids = new Set(model.source ? model.source.rows.filter((row) => row.line === line).map((row) => row.id) : []);
  return (place) => {
    const row = model.rowAt[place];
    return model.stageAt(place) === model.source ? ids.has(row.id) : ids.has(row.line);
  };
}

export function search(text) {
  const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const found = element("found");
  position = -1;
  if (!words.length) {
    state.hits = null;
    found.textContent = found.title = "";
    return later();
  }
  texts ||= Array.from({ length: model.count }, (_, place) => textOf(place));
  const tests = words.map(test);
  const unknown = words.filter((word, number) => !tests[number]);
  const list = [];
  if (!unknown.length) {
    for (let place = 0; place < model.count; place++) if (tests.every((holds) => holds(place))) list.push(place);
  }
  state.hits = { list, set: new Set(list), shown: inPanes(list) };
  const { shown } = state.hits;
  found.textContent = unknown.length
    ? "unknown"
    : list.length
      ? grouped(shown.length) + (shown.length < list.length ? ` of ${brief(list.length)}` : "")
      : "none";
  found.title = unknown.length
    ? `${unknown.join(" ")}: there are is:${Object.keys(FILTERS).join(", is:")}, line:12, in:${stageIds()}`
    : `${plural(shown.length, "match")} in these panes, ${grouped(list.length)} in all stages`;
  announce(found.title);
  later();
}

const stageIds = () => model.stages.map((stage) => stage.id).join(", in:");

function inPanes(list) {
  const open = new Set(state.panes.map((pane) => pane.stage));
  return list.filter((place) => open.has(model.stageAt(place)));
}

/** After panes came or went. */
export function searchAgain() {
  if (state.hits) search(element("find").value);
}

/** @returns the next match in the panes, or -1 */
export function nextHit(step) {
  if (!state.hits || !state.hits.shown.length) return -1;
  const { shown } = state.hits;
  position = position < 0 ? (step > 0 ? 0 : shown.length - 1) : (position + step + shown.length) % shown.length;
  element("found").textContent = `${position + 1}/${grouped(shown.length)}`;
  return shown[position];
}
