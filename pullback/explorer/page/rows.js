/** One row: as HTML for a pane, and as plain text. */

import { METRICS } from "./costs.js";
import { ROLE_WORDS, ROLES, model, resultsText } from "./model.js";
import { nameOf } from "./names.js";
import { state } from "./state.js";
import { foreign, python } from "./syntax.js";
import { classes, escaped, grouped, plural, span, tag } from "./text.js";
import { briefValue, hasInfinity, hasNan } from "./values.js";

const MOST_RESULTS = 3; // that a row names
const BAR_WIDTH = 38; // pixels of the line under a figure
const BAR_LEAST = 0.03;
const INDENT = 11; // pixels
const MOST_INDENTS = 9;

// Parameters that the type of the result says already.
const IN_THE_TYPE = new Set([
  "broadcast_dimensions",
  "dimension_numbers",
  "dtype",
  "early_exit",
  "length",
  "new_dtype",
  "new_sizes",
  "num_carry",
  "num_consts",
  "shape",
  "sizes",
  "slice_sizes",
  "unroll",
  "weak",
]);

const TRIANGLE = '<svg viewBox="0 0 8 8" aria-hidden="true"><path d="M2 .6 6.4 4 2 7.4z" fill="currentColor"/></svg>';

export const parametersText = (row) => (row.params || []).map(([name, value]) => `${name}=${value}`).join(", ");

// ---- plain text

export function plainText(stage, row) {
  const typed = (variable) => `${nameOf(stage, variable)}:${stage.vars[variable][1]}`;
  const atom = (operand) => (typeof operand === "number" ? nameOf(stage, operand) : operand);
  if (row.text !== undefined) return row.text.trim();
  if (row.head) return (row.count ? `×${row.count} ` : "") + row.label;
  if (row.arg !== undefined) return `${row.out.map(typed).join(", ")}  ${row.arg}`.trim();
  if (row.ret) return `in ${row.ret.map(atom).join(" ")}`;
  const parameters = row.params && row.params.length ? `[${parametersText(row)}]` : "";
  return `${row.out.map(typed).join(", ")} = ${row.op}${parameters} ${row.in.map(atom).join(" ")}`.trim();
}

/** Without types and parameters. */
export function shortText(stage, row) {
  if (row.op === undefined) return plainText(stage, row);
  const atom = (operand) => (typeof operand === "number" ? nameOf(stage, operand) : operand);
  return `${row.out.slice(0, 2).map(atom).join(" ")} = ${row.op} ${row.in.map(atom).join(" ")}`;
}

/** For those who hear the page. */
export function spokenText(place) {
  const stage = model.stageAt(place);
  const row = model.rowAt[place];
  const words = [plainText(stage, row)];
  if (row.role in ROLE_WORDS) words.push(ROLE_WORDS[row.role]);
  if (row.kept) words.push("kept for the backward pass");
  if (hasNan(row)) words.push("holds NaN");
  return words.join(", ");
}

// ---- HTML

export const roleClass = (row) => (ROLES.includes(row.role) ? `is-${row.role}` : "");

function atomHtml(stage, atom, on, kept) {
  if (typeof atom !== "number") return span("literal", escaped(atom));
  const names = classes("variable", on === atom && "on", kept && "kept");
  return tag("span", { class: names, "data-variable": atom }, escaped(nameOf(stage, atom)));
}

const atomsHtml = (stage, atoms, on) => atoms.map((atom) => atomHtml(stage, atom, on)).join(" ");

/** @param on the variable under the mouse */
function codeHtml(stage, row, on) {
  if (row.text !== undefined) return stage.kind === "source" ? python(row.text) : foreign(row.text.trimStart(), on);
  if (row.arg !== undefined) return `${resultsHtml(stage, row, row.out, on)} ${span("quiet", escaped(row.arg || "input"))}`;
  if (row.ret) return `${span("name quiet", "in")} ${atomsHtml(stage, row.ret, on)}`;
  const used = row.out.length > 1 ? row.out.filter((variable) => stage.vars[variable][0] !== "_") : row.out;
  const results = resultsHtml(stage, row, used.length ? used : row.out.slice(0, 1), on);
  const trips = row.trips ? `${span("trips", `×${grouped(row.trips)}`)} ` : "";
  return `${results} ${span("operation", escaped(row.op))} ${trips}${atomsHtml(stage, row.in, on)}${tellingParameters(row)}`;
}

function resultsHtml(stage, row, results, on) {
  const kept = (variable) => Array.isArray(row.kept) && row.kept.includes(row.out.indexOf(variable));
  const shown = results.slice(0, MOST_RESULTS).map((variable) => atomHtml(stage, variable, on, kept(variable)));
  return span("name", shown.join(" ") + (results.length > MOST_RESULTS ? " …" : "") + (shown.length > 1 ? " " : ""));
}

function tellingParameters(row) {
  const told = [];
  for (const [name, value] of row.params || []) {
    if (name === "reverse" && value === "True") told.push("reversed");
    else if (name !== "reverse" && !IN_THE_TYPE.has(name)) told.push(`${name}=${value}`);
  }
  return told.length ? `  ${span("quiet", escaped(told.join(", ")))}` : "";
}

/** `f32[32,10]`, with its batch axes set apart from the others. */
function typeHtml([, type, batchAxes]) {
  const text = String(type);
  const open = text.indexOf("[");
  const close = text.lastIndexOf("]");
  if (open < 0 || close <= open + 1) return escaped(text);
  const axisHtml = (size, axis) => tag("b", { class: batchAxes && batchAxes.includes(axis) ? "batch" : "" }, escaped(size));
  const axes = text
    .slice(open + 1, close)
    .split(",")
    .map(axisHtml);
  return `${escaped(text.slice(0, open))}[${axes.join(",")}]${escaped(text.slice(close + 1))}`;
}

function rowType(stage, row) {
  if (!stage.vars.length || row.head) return "";
  const results = row.out || [];
  if (results.length === 1) return span("type", typeHtml(stage.vars[results[0]]));
  return span("type", results.length ? resultsText(results.length) : "");
}

function headingHtml(stage, index) {
  const row = stage.rows[index];
  const repeats = row.head === "repeat";
  const count = stage.equations[index];
  const label = (repeats ? span("count", `×${escaped(row.count)}`) : "") + escaped(row.label);
  if (!count || row.head === "args") return label;
  const size = plural(repeats ? row.period || count : count, "equation");
  const equations = !repeats ? size : row.label === size ? "each" : `${size} each`;
  return `${label}${tag("small", {}, equations)}${stage.closed[index] ? mixHtml(stage.rolesIn(index)) : ""}`;
}

/** Of what a folded heading holds, the share of each role. */
function mixHtml(counts) {
  const there = ROLES.filter((role) => counts[role]);
  const shares = there.map((role) => tag("i", { class: `is-${role}`, style: `flex:${counts[role]}` }));
  return tag("span", { class: "mix", "aria-hidden": "true" }, shares.join(""));
}

export function figureHtml(amount, most, text) {
  const share = most ? Math.min(1, amount / most) : 0;
  const width = share < BAR_LEAST ? 0 : Math.round(share * BAR_WIDTH);
  return tag("span", { class: classes("figure", share > 0.5 && "big"), style: `--share:${width}` }, text);
}

function rowFigure(stage, index, row) {
  if (state.metric === "none") return "";
  if (state.metric === "values") return span("figure wider", briefValue(row));
  const amount = stage.figures[state.metric][index];
  return figureHtml(amount, row.head || row.span ? 0 : stage.greatest[state.metric], METRICS[state.metric].short(amount));
}

/** The cells of a row of a Program, of StableHLO, or of XLA's program. */
export function cellsHtml(stage, index, on) {
  const row = stage.rows[index];
  const depth = Math.min(stage.depth[index], MOST_INDENTS);
  const indent = { class: "fold", style: depth ? `margin-left:${depth * INDENT}px` : "", "data-fold": row.span ? 1 : "" };
  const code = row.head ? headingHtml(stage, index) : codeHtml(stage, row, on);
  let end = "";
  if (stage.kind === "program") end = rowType(stage, row) + rowFigure(stage, index, row);
  else if (stage.id === "optimized") {
    end = state.metric === "time" && row.time ? rowFigure(stage, index, row) : span("figure", originOf(row));
  }
  const begin = tag("span", indent, row.span ? TRIANGLE : "") + span("bar", "");
  return begin + span("code", code) + span("end", marksHtml(stage, row) + end);
}

function marksHtml(stage, row) {
  let marks = "";
  if (hasNan(row)) marks += span("bad", "NaN");
  else if (hasInfinity(row)) marks += span("bad", "inf");
  if (row.note && stage.kind === "program") marks += span("note", "");
  if (row.donated) marks += tag("span", { class: "donated", title: "donated" }, "◆");
  return marks;
}

/** How much XLA's compiler merged into a step, or that nobody knows. */
function originOf(row) {
  const merged = /=/.test(row.text || "") ? (row.from || []).length : 0;
  return merged > 1 ? `of ${merged}` : row.note && !merged ? "unknown" : "";
}
