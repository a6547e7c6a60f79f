/** What becomes of rows in a graph: which of them are nodes, what stands in these, and which are joined. */

import { plainText } from "./rows.js";
import { foreignParts } from "./syntax.js";
import { plural } from "./text.js";

const LONGEST = 26; // letters

/** The slots that become nodes: all rows but open headings and lines of text that compute nothing. */
export function nodesOf(stage, visible) {
  const nodes = [];
  visible.forEach((index, slot) => {
    if (isNode(stage, index)) nodes.push(slot);
  });
  return nodes;
}

function isNode(stage, index) {
  const row = stage.rows[index];
  if (row.text !== undefined) return foreignParts(row.text).defined !== null || /\breturn\b/.test(row.text);
  return !row.head || Boolean(row.span && stage.closed[index]);
}

/** The two lines of a node: what it does, and what it makes. */
export function labelOf(stage, index) {
  const [does, makes] = linesOf(stage, index, stage.rows[index]);
  return { does: clipped(does), makes: clipped(makes) };
}

const clipped = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);

function linesOf(stage, index, row) {
  if (row.text !== undefined) {
    const { operation, defined } = foreignParts(row.text);
    return [operation || "return", defined || ""];
  }
  if (row.head) {
    const equations = stage.equations[index] ? plural(stage.equations[index], "equation") : "folded";
    return [(row.count ? `×${row.count} ` : "") + row.label, equations];
  }
  if (row.ret) return ["results", row.ret.length > 3 ? plural(row.ret.length, "value") : plainText(stage, row).slice(3)];
  const makes = row.out.length === 1 ? `${plainText(stage, { ret: row.out }).slice(3)} ${stage.vars[row.out[0]][1]}` : "";
  const does = row.arg === undefined ? row.op + (row.trips ? ` ×${row.trips}` : "") : row.arg || "input";
  return [String(does), makes || plural(row.out.length, "value")];
}

/** Who uses whose result, as [node, node, whether the second is inside the first].
 *
 * @param view the rows of the pane, as FoldedRows, with its nodes */
export function edgesOf(stage, view) {
  const edges = new Map();
  const { nodes, nodeAt, visible } = view;
  const nodeOf = (index) => nodeAt.get(view.slotOfIndex(index));
  const join = (from, to, inside) => {
    if (from !== undefined && nodes[from] < nodes[to]) edges.set(`${from} ${to}`, [from, to, inside]);
  };
  const textMaker = new Map(); // the node that defines a name of foreign text
  nodes.forEach((slot, node) => {
    const index = visible[slot];
    const end = stage.closed[index] ? index + stage.span(index) : index;
    for (let held = index; held <= end; held++) {
      const row = stage.rows[held];
      for (const maker of makersOf(stage, row)) if (maker < index || maker > end) join(nodeOf(maker), node, false);
      if (row.text === undefined) continue;
      const { defined, used } = foreignParts(row.text);
      for (const name of used) join(textMaker.get(name), node, false);
      if (defined) textMaker.set(defined, node);
    }
    // The inputs of a body that is open hang on the equation that holds it.
    const holder = stage.rows[index].arg === undefined ? -1 : equationAround(stage, index);
    if (holder >= 0) join(nodeOf(holder), node, true);
  });
  return [...edges.values()];
}

/** The rows that define what a row uses. */
function makersOf(stage, row) {
  const atoms = [...(row.in || []), ...(row.ret || [])];
  return atoms.map((atom) => (typeof atom === "number" ? stage.makerOf[atom] : -1)).filter((maker) => maker >= 0);
}

function equationAround(stage, index) {
  let holder = stage.parent[index];
  while (holder >= 0 && stage.rows[holder].op === undefined) holder = stage.parent[holder];
  return holder;
}
