/** Colours for source code: Python, and the text of StableHLO and of XLA's own programs. */

import { classes, escaped, span, tag } from "./text.js";

const KEYWORDS =
  "and as assert async await break class continue def del elif else except finally for from global if import in is lambda " +
  "nonlocal not or pass raise return try while with yield None True False";
const LETTER = String.raw`[\p{L}\p{M}\p{N}_]`; // of a name: \b and \w know ASCII alone
const PYTHON = new RegExp(
  [
    String.raw`(?<string>[rbfuRBFU]{0,2}(?:"""[^]*?"""|'''[^]*?'''|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'))`,
    String.raw`(?<comment>#.*)`,
    String.raw`(?<!${LETTER})(?<keyword>${KEYWORDS.replaceAll(" ", "|")})(?!${LETTER})`,
    String.raw`(?<=\bdef )(?<defined>${LETTER}+)`,
    String.raw`(?<!${LETTER})(?<number>\d[\w.]*)`,
  ].join("|"),
  "gu",
);
const FOREIGN = new RegExp(
  [
    String.raw`(?<name>%[\w.\-#]+|@[\w.]+)`,
    String.raw`"?(?:stablehlo|func|chlo|mhlo)\.(?<operation>\w+)"?`,
    String.raw`(?<type>tensor<[^>]*>|\b(?:pred|bf16|[fsuc]\d+)\[[\d,]*\](?:\{[\d,]*\})?)`,
    String.raw`(?<=[\])}] )(?<step>[a-z][\w\-]*)(?=\()`,
  ].join("|"),
  "g",
);

/** The pieces of a text between the matches of a pattern, and the matches, each made into HTML. */
function coloured(text, pattern, piece, between) {
  let html = "";
  let last = 0;
  for (const match of text.matchAll(pattern)) {
    html += between(text.slice(last, match.index)) + piece(match.groups, match[0]);
    last = match.index + match[0].length;
  }
  return html + between(text.slice(last));
}

const token = (groups, whole) =>
  span(
    Object.keys(groups).find((name) => groups[name] !== undefined),
    escaped(whole),
  );

export const python = (text) => coloured(text, PYTHON, token, escaped);

// Whole strings, the beginning of one that goes on in the next line, and comments.
const STRINGS = /"""[^]*?"""|'''[^]*?'''|"""|'''|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|#.*/g;
const asString = (text) => (text ? span("string", escaped(text)) : "");

/** Lines of a file, where a string may go over several of them. A line that does not follow the last one begins anew. */
export function pythonLines(rows) {
  let quotes = null;
  let line = null; // the quotes that a string waits for
  return rows.map((row) => {
    const text = row.text || "";
    if (row.line !== line + 1) quotes = null;
    line = row.line;
    let start = 0; // of the code
    if (quotes !== null) {
      const end = text.indexOf(quotes);
      if (end < 0) return asString(text);
      start = end + quotes.length;
      quotes = null;
    }
    const code = text.slice(start);
    const begins = [...code.matchAll(STRINGS)].find(([whole]) => whole === '"""' || whole === "'''");
    if (!begins) return asString(text.slice(0, start)) + python(code);
    [quotes] = begins;
    return asString(text.slice(0, start)) + python(code.slice(0, begins.index)) + asString(code.slice(begins.index));
  });
}

const quiet = (text) => (text ? span("quiet", escaped(text)) : "");

/** @param on the name under the mouse, whose other occurrences are marked */
export function foreign(text, on) {
  return coloured(
    text,
    FOREIGN,
    (groups, whole) => {
      if (groups.name)
        return tag("span", { class: classes("variable", on === whole && "on"), "data-variable": whole }, escaped(whole));
      if (groups.type) return span("quiet", escaped(whole));
      return span("operation", escaped(groups.operation || groups.step));
    },
    quiet,
  );
}

/** Of a line of foreign text, the name that it defines, those that it uses, and its operation. */
export function foreignParts(text) {
  const groups = [...text.matchAll(FOREIGN)].map((match) => match.groups);
  const names = groups.map(({ name }) => name).filter((name) => name && name.startsWith("%"));
  const plain = names.map((name) => name.split("#")[0]);
  const operation = groups.map((group) => group.operation || group.step).find(Boolean) || null;
  const defines = /^\s*(?:ROOT\s+)?%[\w.\-#]+(?::\d+)?\s*=/.test(text);
  return { defined: defines ? plain[0] : null, used: defines ? plain.slice(1) : plain, operation };
}
