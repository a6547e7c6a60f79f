/** What a replay found in an equation's results: range, mean, NaN and infinity. */

import { escaped, grouped, plural, span, tag, valueText } from "./text.js";

/** Of a row with several results, one summary each; null where there is none. */
const valuesOf = (row) => (row.value ? (Array.isArray(row.value) ? row.value : [row.value]).filter(Boolean) : []);
export const hasNan = (row) => valuesOf(row).some((value) => value.nan > 0);
export const hasInfinity = (row) => valuesOf(row).some((value) => value.inf > 0);

/** For a row: the range, or what is wrong. */
export function briefValue(row) {
  const [value] = valuesOf(row);
  if (!value) return "";
  if (value.nan) return `<b class="bad">NaN</b>`;
  if (value.inf) return `<b class="bad">inf</b>`;
  const low = shortest(value.min);
  const high = shortest(value.max);
  return escaped(low === high ? low : `${low}\u2009…\u2009${high}`); // thin spaces
}

function shortest(value) {
  if (typeof value !== "number") return valueText(value);
  if (Number.isInteger(value) && Math.abs(value) < 1000) return String(value);
  const size = Math.abs(value);
  return (size >= 0.01 && size < 1000 ? String(Number(value.toPrecision(2))) : value.toExponential(0)).replace("e+", "e");
}

const WIDTH = 190; // pixels
const MARGIN = 5;

/** A line from the least to the greatest value, with zero and the mean marked on it. */
function rangeDrawing({ min, max, mean }) {
  if (typeof min !== "number" || typeof max !== "number") return "";
  const low = Math.min(min, 0);
  const high = Math.max(max, 0);
  const width = high - low || 1;
  const across = (value) => (MARGIN + ((value - low) / width) * (WIDTH - 2 * MARGIN)).toFixed(1);
  const circle = typeof mean === "number" ? `<circle cx="${across(mean)}" cy="9" r="3.5"/>` : "";
  return (
    `<svg class="range" width="${WIDTH}" height="18" role="img" aria-label="from ${valueText(min)} to ${valueText(max)}">` +
    `<path class="axis" d="M${MARGIN} 9H${WIDTH - MARGIN}"/><path class="zero" d="M${across(0)} 4V14"/>` +
    `<path class="extent" d="M${across(min)} 9H${across(max)}"/>${circle}</svg>`
  );
}

/** @param types those of the results, in their order */
export function valuesHtml(row, types) {
  const values = Array.isArray(row.value) ? row.value : [row.value];
  return values.map((value, place) => (value ? summaryHtml(value, /^~?c\d/.test(types[place])) : "")).join("");
}

function summaryHtml(value, complex) {
  let text = rangeText(value, complex);
  const bad = [];
  if (value.nan) bad.push(tag("b", { class: "bad" }, `${grouped(value.nan)} NaN`));
  if (value.inf) bad.push(tag("b", { class: "bad" }, `${grouped(value.inf)} infinite`));
  if (bad.length) text += ` ${bad.join(", ")}${value.count === undefined ? "" : ` of ${grouped(value.count)}`}`;
  return tag("div", { class: "values" }, rangeDrawing(value) + tag("div", {}, text) + sampleHtml(value));
}

function rangeText({ min, max, mean, nan, inf, count }, complex) {
  if (count === 0) return "there are no elements";
  if (nan + inf === count) return "none is finite";
  if (min === undefined) return plural(count, "element"); // of keys, which are no numbers
  if (min === max) return escaped(valueText(min));
  const told = [complex ? "in absolute value" : "", mean === undefined ? "" : `mean ${valueText(mean)}`].filter(Boolean);
  return `${escaped(`${valueText(min)} … ${valueText(max)}`)} ${span("soft", escaped(told.join(", ")))}`;
}

function sampleHtml({ sample, count }) {
  if (!Array.isArray(sample) || !sample.length) return "";
  const items = sample.map((item) => escaped(valueText(item))).join(" ");
  return tag("code", { class: "sample" }, items + (count > sample.length ? " …" : ""));
}
