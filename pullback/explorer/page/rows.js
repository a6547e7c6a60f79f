/** One row: as HTML for a pane, and as plain text. */

import { METRICS } from "./costs.js";
import { ROLE_WORDS, ROLES, model } from "./model.js";
import { nameOf } from "./names.js";
import { state } from "./state.js";
import { foreign, python } from "./syntax.js";
import { escaped, grouped, plural } from "./text.js";
import { briefValue, hasInfinity, hasNan } from "./values.js";

const MOST_RESULTS = 3; // that a row names
const BAR_WIDTH = 38; // pixels of the line under a figure
const BAR_LEAST = 0.03;

// Parameters that the type of the result says already.
const IN_THE_TYPE = new Set([
  "broadcast_dimensions", "dimension_numbers", "dtype", "early_exit", "length", "new_dtype", "new_sizes", "num_carry", "num_consts",
  "shape", "sizes", "slice_sizes", "unroll", "weak",
]);

export const TRIANGLE = '<svg viewBox="0 0 8 8" aria-hidden="true"><path d="M2 .6 6.4 4 2 7.4z" fill="currentColor"/></svg>';

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
  const stage = model.stageAt(place), row = model.rowAt[place], words = [plainText(stage, row)];
  if (row.role in ROLE_WORDS) words.push(ROLE_WORDS[row.role]);
  if (row.kept) words.push("kept for the backward pass");
  if (hasNan(row)) words.push("holds NaN");
  return words.join(", ");
}

// ---- HTML

export const roleClass = (row) => (ROLES.includes(row.role) ? ` is-${row.role}` : "");

const variableHtml = (stage, atom, on, kept) =>
  typeof atom === "number"
    ? `<span class="variable${on === atom ? " on" : ""}${kept ? " kept" : ""}" data-variable="${atom}">${escaped(nameOf(stage, atom))}</span>`
    : `<span class="literal">${escaped(atom)}</span>`;

/** @param on the variable under the mouse */
export function codeHtml(stage, row, on) {
  if (row.text !== undefined) return stage.kind === "source" ? python(row.text) : foreign(row.text.trimStart(), on);
  const kept = (variable) => Array.isArray(row.kept) && row.kept.includes(row.out.indexOf(variable));
  if (row.arg !== undefined) {
    return `<span class="name">${row.out.map((variable) => variableHtml(stage, variable, on, kept(variable))).join(" ")}</span> <span class="quiet">${escaped(row.arg) || "input"}</span>`;
  }
  if (row.ret) return `<span class="name quiet">in</span> ${row.ret.map((atom) => variableHtml(stage, atom, on)).join(" ")}`;
  const used = row.out.length > 1 ? row.out.filter((variable) => stage.vars[variable][0] !== "_") : row.out;
  const shown = (used.length ? used : row.out.slice(0, 1)).slice(0, MOST_RESULTS);
  const results = shown.map((variable) => variableHtml(stage, variable, on, kept(variable))).join(" ");
  const more = used.length > MOST_RESULTS ? " …" : "";
  const trips = row.trips ? `<span class="trips">×${escaped(grouped(row.trips))}</span> ` : "";
  const operands = row.in.map((atom) => variableHtml(stage, atom, on)).join(" ");
  return `<span class="name">${results}${more}${shown.length > 1 ? " " : ""}</span> <span class="operation">${escaped(row.op)}</span> ${trips}${operands}${tellingParameters(row)}`;
}


function tellingParameters(row) {
  const told = (row.params || []).filter(([name]) => !IN_THE_TYPE.has(name) && name !== "reverse").map(([name, value]) => `${name}=${value}`);
  if ((row.params || []).some(([name, value]) => name === "reverse" && value === "True")) told.push("reversed");
  return told.length ? `  <span class="quiet">${escaped(told.join(", "))}</span>` : "";
}

/** `f32[32,10]`, with its batch axes set apart from the others. */
export function typeHtml([, type, batchAxes]) {
  const text = String(type), open = text.indexOf("["), close = text.lastIndexOf("]");
  if (open < 0 || close <= open + 1) return escaped(text);
  const axes = text.slice(open + 1, close).split(",").map((size, axis) => `<b${batchAxes && batchAxes.includes(axis) ? ' class="batch"' : ""}>${escaped(size)}</b>`);
  return `${escaped(text.slice(0, open))}[${axes.join(",")}]${escaped(text.slice(close + 1))}`;
}

function rowType(stage, row) {
  if (!stage.vars.length || row.head) return "";
  const results = row.out || [];
  return `<span class="type">${results.length === 1 ? typeHtml(stage.vars[results[0]]) : results.length ? `${results.length} values` : ""}</span>`;
}

function headingHtml(stage, index) {
  const row = stage.rows[index], equations = stage.equations[index];
  let text = row.head === "repeat" ? `<span class="count">×${escaped(row.count)}</span>${escaped(row.label)}` : escaped(row.label);
  if (equations && row.head !== "args") {
    text += `<small>${plural(row.head === "repeat" ? row.period || equations : equations, "equation")}${row.head === "repeat" ? " each" : ""}</small>`;
    if (stage.closed[index]) text += mixHtml(stage.rolesIn(index));
  }
  return text;
}

/** Of what a folded heading holds, the share of each role. */
const mixHtml = (counts) =>
  `<span class="mix" aria-hidden="true">${ROLES.filter((role) => counts[role]).map((role) => `<i class="is-${role}" style="flex:${counts[role]}"></i>`).join("")}</span>`;

export function figureHtml(amount, most, text) {
  const share = most ? Math.min(1, amount / most) : 0;
  const width = share < BAR_LEAST ? 0 : Math.round(share * BAR_WIDTH);
  return `<span class="figure${share > 0.5 ? " big" : ""}" style="--share:${width}">${text}</span>`;
}

function rowFigure(stage, index, row) {
  if (state.metric === "none") return "";
  if (state.metric === "values") return `<span class="figure wider">${briefValue(row)}</span>`;
  const amount = stage.figures[state.metric][index];
  return figureHtml(amount, row.head || row.span ? 0 : stage.greatest[state.metric], METRICS[state.metric].short(amount));
}

/** The cells of a row of a Program, of StableHLO, or of XLA's program. */
export function cellsHtml(stage, index, on) {
  const row = stage.rows[index], depth = Math.min(stage.depth[index], 9);
  const indent = depth ? ` style="margin-left:${depth * 11}px"` : "";
  const fold = `<span class="fold"${indent}${row.span ? ' data-fold="1"' : ""}>${row.span ? TRIANGLE : ""}</span>`;
  const code = `<span class="code">${row.head ? headingHtml(stage, index) : codeHtml(stage, row, on)}</span>`;
  const marks = `${hasNan(row) ? '<span class="bad">NaN</span>' : hasInfinity(row) ? '<span class="bad">inf</span>' : ""}${
    row.note && stage.kind === "program" ? '<span class="note"></span>' : ""}${row.donated ? '<span class="donated" title="donated">◆</span>' : ""}`;
  let end = "";
  if (stage.kind === "program") end = rowType(stage, row) + rowFigure(stage, index, row);
  else if (stage.id === "optimized") end = `<span class="figure">${originOf(row)}</span>`;
  return `${fold}<span class="bar"></span>${code}${marks}${end}`;
}

/** How much XLA's compiler merged into a step, or that nobody knows. */
function originOf(row) {
  const merged = /=/.test(row.text || "") ? (row.from || []).length : 0;
  return merged > 1 ? `of ${merged}` : row.note && !merged ? "unknown" : "";
}
