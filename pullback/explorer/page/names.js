/** Names of variables: as printed, or as mathematics.
 *
 * As mathematics a value keeps the name of the user's Program in all stages; its tangent has a dot, its cotangent a bar, what
 * only a derivative needs a prime, and batch plumbing a raised b. Several of a name are numbered below the line. */

import { model } from "./model.js";
import { firstAbove } from "./relations.js";
import { state } from "./state.js";

const DOT = "\u0307";
const DOT_AFTER = "\u02d9";
const BAR = "\u0304";
const PRIME = "\u2032";
const RAISED_B = "\u1d47";
const MARK = { tangent: DOT, cotangent: BAR, residual: PRIME };
const UNUSED = "_";

const subscript = (number) => String(number).replace(/\d/g, (digit) => String.fromCharCode(0x2080 + Number(digit)));
const withoutMarks = (name) => name.replace(/[\u0307\u02d9\u0304\u2032\u1d47\u2080-\u2089]/g, "");
const withoutNumber = (name) => name.replace(/[\u2080-\u2089]/g, "");

function marked(name, role) {
  const letter = name.slice(0, 1);
  const rest = name.slice(1);
  if (role === "tangent" && (letter === "i" || letter === "j")) return letter + DOT_AFTER + rest; // they have a dot already
  return letter + (MARK[role] || "") + rest;
}

const isTangent = (row) => row !== undefined && (row.role === "tangent" || (row.arg || "").startsWith("d "));
const roleOf = (row) => (isTangent(row) ? "tangent" : row.role);

/** Of a stage's variables, the names as mathematics; made when they are first asked for. */
function mathNames(stage) {
  if (stage.mathNames) return stage.mathNames;
  const names = (stage.mathNames = stage.vars.map(([name]) => String(name)));
  if (stage.id === "base") return names;
  const used = new Map();
  stage.rows.forEach((row, index) => {
    (row.out || []).forEach((variable, position) => {
      if (names[variable] === UNUSED) return;
      // A name that stays as it was printed may be the derived one of another variable.
      const name = derivedName(stage, row, index, position) ?? names[variable];
      const key = `${enclosing(stage, index)} ${withoutNumber(name)}`;
      const times = (used.get(key) || 0) + 1;
      used.set(key, times);
      names[variable] = times === 1 ? name : withoutNumber(name) + subscript(times);
    });
  });
  return names;
}

function derivedName(stage, row, index, position) {
  const place = firstAbove(stage.start + index);
  if (place < 0) return null;
  const parent = model.rowAt[place];
  const before = model.stageAt(place);
  const role = roleOf(row);
  if (!parent.out || !parent.out.length || before === stage) return null;
  let of = parent.out[Math.min(position, parent.out.length - 1)];
  if (role === "cotangent" && isTangent(parent)) {
    // The transpose of  ẏ = A ẋ  gives the cotangent of x.
    const operand = (parent.in || []).find((atom) => typeof atom === "number" && isTangent(before.rows[before.makerOf[atom]]));
    if (operand !== undefined) of = operand;
  }
  const name = mathNames(before)[of];
  if (name === UNUSED) return null;
  if (role === "batch") return withoutMarks(name) + RAISED_B;
  return role in MARK && role !== roleOf(parent) ? marked(withoutMarks(name), role) : name;
}

/** The equation or branch in whose body a row stands: names hold within it. */
function enclosing(stage, index) {
  let holder = stage.parent[index];
  while (holder >= 0 && stage.rows[holder].op === undefined && stage.rows[holder].head !== "body")
    holder = stage.parent[holder];
  return holder;
}

export const nameOf = (stage, variable) => (state.maths ? mathNames(stage)[variable] : stage.vars[variable][0]);
