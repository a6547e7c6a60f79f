/** Text as HTML, and figures as people read them. */

const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

/** Everything that comes from the data passes through here before it becomes part of the page. */
export const escaped = (text) => String(text).replace(/[&<>"']/g, (character) => ENTITIES[character]);

/** An element as HTML. Its attributes are escaped, and left out where they are undefined or empty; its content is HTML. */
export function tag(name, attributes, content = "") {
  let html = `<${name}`;
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== "") html += ` ${key}="${escaped(value)}"`;
  }
  return `${html}>${content}</${name}>`;
}

export const span = (classes, content) => tag("span", { class: classes }, content);

/** Names of classes, of which some may be absent. */
export const classes = (...names) => names.filter(Boolean).join(" ");

export const grouped = (number) => Number(number).toLocaleString("en");

export function plural(number, noun) {
  const ending = number === 1 ? "" : /(s|x|ch|sh)$/.test(noun) ? "es" : "s";
  return `${grouped(number)} ${noun}${ending}`;
}

/** A count in at most four characters: 12, 3.4k, 120M. Nothing for zero, so that empty cells stay quiet. */
export function brief(number) {
  if (!number) return "";
  const units = ["", "k", "M", "G", "T", "P"];
  let unit = 0;
  while (number >= 999.5 && unit < units.length - 1) {
    number /= 1000;
    unit++;
  }
  return (unit > 0 && number < 9.95 ? number.toFixed(1) : String(Math.round(number))) + units[unit];
}

export function byteText(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (bytes >= 999.95 && unit < units.length - 1) {
    bytes /= 1000;
    unit++;
  }
  return `${unit ? bytes.toFixed(1) : Math.round(bytes)} ${units[unit]}`;
}

export function timeText(seconds) {
  if (!seconds) return "";
  for (const [unit, factor] of [
    ["s", 1],
    ["ms", 1e3],
    ["µs", 1e6],
  ]) {
    const amount = seconds * factor;
    if (amount >= 0.9995) return `${amount < 9.95 ? amount.toFixed(1) : Math.round(amount)} ${unit}`;
  }
  return `${Math.max(1, Math.round(seconds * 1e9))} ns`;
}

/** A value of an array, with about four digits. */
export function valueText(value) {
  if (typeof value !== "number") return value === null || value === undefined ? "none" : String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  const size = Math.abs(value);
  return size >= 1e-3 && size < 1e5 ? String(Number(value.toPrecision(4))) : value.toExponential(2).replace("e+", "e");
}

/** Where a row of the source stands: its line, or that in one of several files. */
export const lineText = (row) => (row.file ? `${row.file}:${row.line}` : String(row.line));
export const lineName = (row) => (row.file ? lineText(row) : `Line ${row.line}`);

export function percent(part, whole) {
  if (!whole) return "";
  const share = (100 * part) / whole;
  return `${share < 10 ? share.toFixed(1) : Math.round(share)} %`;
}
