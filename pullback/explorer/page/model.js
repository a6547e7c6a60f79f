/** The data made ready: one numbering of all rows, their nesting, and sums for headings.
 *
 * A row is known by its `place`, its number over all stages; by its `index` in its own stage; and, in a pane, by its
 * `slot` among the rows that folding leaves visible. Columns of figures are typed arrays: a page can hold 100,000 rows. */

import { grouped, plural } from "./text.js";

export const ROLES = ["primal", "tangent", "cotangent", "residual", "batch", "dead"];
export const ROLE_WORDS = {
  primal: "primal",
  tangent: "tangent",
  cotangent: "cotangent",
  residual: "for the derivative",
  batch: "batch plumbing",
  dead: "dead or merged",
};

const ADDED = ["flops", "bytes", "time"]; // a heading's figure is the sum of those that it holds
const GREATEST = ["live", "held"]; // it is the greatest of them
const MANY_ARGUMENTS = 5;
const LONG_COPY = 130;

export let model = null;

export function buildModel(data) {
  model = new Model(data);
  return model;
}

class Model {
  constructor(data) {
    this.data = data;
    this.rules = data.rules || [];
    this.stages = [];
    this.byId = new Map();
    let start = 0;
    for (const given of data.stages) {
      const stage = new Stage(given, this.stages.length, start);
      start += stage.rows.length;
      this.stages.push(stage);
      this.byId.set(stage.id, stage);
    }
    this.count = start;
    this.rowAt = new Array(start);
    this.stageNumber = new Uint16Array(start);
    this.placeOfId = new Map();
    for (const stage of this.stages) {
      stage.rows.forEach((row, index) => {
        const place = stage.start + index;
        this.rowAt[place] = row;
        this.stageNumber[place] = stage.number;
        if (row.id !== undefined) this.placeOfId.set(row.id, place);
      });
    }
    this.found = foundIn(data.find, this.placeOfId);
    this.source = this.stages.find((stage) => stage.kind === "source") || null;
    this.deadLines = deadLines(this.byId.get("base"));
    this.timed = this.stages.some((stage) => stage.rows.some((row) => row.time));
    this.valued = this.stages.some((stage) => stage.values || stage.rows.some((row) => row.value));
  }

  stageAt(place) {
    return this.stages[this.stageNumber[place]];
  }
}

class Stage {
  constructor(given, number, start) {
    Object.assign(this, given);
    this.by = given.by || "";
    this.given = given.rows;
    this.number = number;
    this.start = start;
    this.rows = withArgumentHeadings(given.rows, 0, given.rows.length);
    this.vars = given.vars || [];
    this.nest();
    this.addUp();
    this.followMemory();
    this.findMakers();
  }

  /** Depth and parent of each row, its position among its siblings, and what is folded at first. */
  nest() {
    const { rows } = this;
    const size = rows.length;
    this.depth = new Int16Array(size);
    this.parent = new Int32Array(size).fill(-1);
    this.closed = new Uint8Array(size);
    this.sibling = new Int32Array(size);
    this.counts = new Int32Array(size + 1); // of the rows that each holds, at its index and 1; first, of those that none holds
    const open = [];
    for (let index = 0; index < size; index++) {
      while (open.length && index > open[open.length - 1].end) open.pop();
      const holder = open.length ? open[open.length - 1].index : -1;
      const row = rows[index];
      this.parent[index] = holder;
      // What forward and backward hold stands at the margin too.
      if (holder >= 0) this.depth[index] = this.depth[holder] + (rows[holder].head === "part" ? 0 : 1);
      this.sibling[index] = ++this.counts[holder + 1];
      if (row.span) open.push({ index, end: index + row.span });
      this.closed[index] = this.startsClosed(row, index) ? 1 : 0;
    }
  }

  startsClosed(row, index) {
    if (!row.span) return false;
    if (row.head === "args" || this.id === "optimized") return true;
    return row.head === "copy" && (this.sibling[index] > 1 || row.span >= LONG_COPY);
  }

  addUp() {
    const { rows, parent } = this;
    const size = rows.length;
    this.figures = {};
    for (const name of [...ADDED, ...GREATEST]) {
      const column = (this.figures[name] = new Float64Array(size));
      for (let index = 0; index < size; index++) column[index] = rows[index][name] || 0;
    }
    this.equations = new Int32Array(size);
    for (let index = size - 1; index >= 0; index--) {
      const holder = parent[index];
      if (rows[index].op !== undefined) this.equations[index]++;
      if (holder < 0) continue;
      this.equations[holder] += this.equations[index];
      // A loop's own figures are those of all its steps already; only headings add.
      if (rows[holder].head) for (const name of ADDED) this.figures[name][holder] += this.figures[name][index];
      for (const name of GREATEST) this.figures[name][holder] = Math.max(this.figures[name][holder], this.figures[name][index]);
    }
    this.greatest = { flops: 1, bytes: 1, time: 1e-12, live: (this.peak && this.peak[1]) || 1 };
    for (let index = 0; index < size; index++) {
      if (rows[index].op === undefined || rows[index].span) continue;
      for (const name of ADDED) this.greatest[name] = Math.max(this.greatest[name], this.figures[name][index]);
    }
  }

  /** For the strip: rows that compute nothing show the memory of the next one that does, results that of the last. */
  followMemory() {
    const { rows } = this;
    const size = rows.length;
    this.liveAt = this.figures.live.slice();
    this.heldAt = this.figures.held.slice();
    const copy = (to, from) => {
      this.liveAt[to] = this.liveAt[from];
      this.heldAt[to] = this.heldAt[from];
    };
    for (let index = size - 2; index >= 0; index--)
      if (rows[index].op === undefined && !rows[index].ret) copy(index, index + 1);
    for (let index = 1; index < size; index++) if (rows[index].ret) copy(index, index - 1);
  }

  findMakers() {
    this.makerOf = new Int32Array(this.vars.length).fill(-1); // the index of the row that defines a variable
    let most = 0; // results of one row
    this.rows.forEach((row, index) => {
      for (const variable of row.out || []) this.makerOf[variable] = index;
      most = Math.max(most, row.out ? row.out.length : 0);
    });
    const lengths = this.vars
      .slice(0, 4000)
      .map(([, type]) => String(type).length)
      .sort((a, b) => a - b);
    const several = most > 1 ? resultsText(most).length : 0;
    const usual = lengths[Math.floor(lengths.length * 0.99)] || 6;
    this.typeWidth = lengths.length ? Math.min(14, Math.max(usual, several)) + 0.8 : 0;
  }

  /** How many rows of each role a heading holds. */
  rolesIn(index) {
    this.mixes ||= new Map();
    if (!this.mixes.has(index)) {
      const counts = Object.fromEntries(ROLES.map((role) => [role, 0]));
      for (let held = index + 1; held <= index + this.rows[index].span; held++) {
        const { role } = this.rows[held];
        if (role in counts) counts[role]++;
      }
      this.mixes.set(index, counts);
    }
    return this.mixes.get(index);
  }

  span(index) {
    return this.rows[index].span || 0;
  }
}

/** What stands in the place of a type where a row has several results. */
export const resultsText = (count) => `${grouped(count)} values`;

/** What was looked for and found: its row, the line that says so, and the lines that tell how it came about. */
function foundIn(find, placeOfId) {
  if (!find) return null;
  const [headline, ...story] = String(find.text).split("\n");
  const indent = Math.min(...story.filter((line) => line.trim()).map((line) => line.search(/\S/)), 99);
  return { place: placeOfId.get(find.row), headline, story: story.map((line) => line.slice(indent)).join("\n") };
}

/** The ids of the source lines of which no result needs anything. */
function deadLines(base) {
  const dead = new Set();
  const needed = new Set();
  for (const row of base ? base.rows : []) if (row.op !== undefined) (row.role === "dead" ? dead : needed).add(row.line);
  return new Set([...dead].filter((line) => line !== undefined && !needed.has(line)));
}

/** Five arguments or more get a heading of their own, which starts folded. */
function withArgumentHeadings(rows, from, to) {
  const made = [];
  for (let index = from; index < to;) {
    let end = index;
    while (end < to && rows[end].arg !== undefined && !rows[end].span) end++;
    if (end > index) {
      if (end - index >= MANY_ARGUMENTS) made.push({ head: "args", label: plural(end - index, "argument"), span: end - index });
      for (; index < end; index++) made.push(rows[index]);
      continue;
    }
    const row = rows[index];
    const span = row.span || 0;
    const inner = span ? withArgumentHeadings(rows, index + 1, index + 1 + span) : [];
    made.push(inner.length === span ? row : { ...row, span: inner.length });
    for (const held of inner) made.push(held);
    index += 1 + span;
  }
  return made;
}
