/** The rows of a pane as a graph, of what is small enough: a folded heading is one node, so that folding makes it so. */

import { FoldedRows } from "./folding.js";
import { layOut } from "./layers.js";
import { HERE, NEAR } from "./relations.js";
import { edgesOf, labelOf, nodesOf } from "./nodes.js";
import { plainText, roleClass, spokenText } from "./rows.js";
import { later, scrollInside, state } from "./state.js";
import { rowTarget } from "./targets.js";
import { classes, escaped, grouped, tag } from "./text.js";

const MOST_NODES = 150;
const NODE = { height: 36, letter: 7.3, padding: 22, least: 46, firstLine: 15.5, secondLine: 29 };
const GAPS = { across: 14, down: 30, bend: 6 };
const MARGIN_AROUND = 14;
const FEW_ARGUMENTS = 12;
const LEAST_SCALE = 0.62; // letters stay readable; what is wider scrolls

/** Why a pane has no graph, in words; null if it has one. */
export function graphRefusal(pane) {
  if (pane.stage.kind !== "program" && pane.stage.kind !== "text") return "This stage is not a graph.";
  const nodes = nodesOf(pane.stage, pane.view.visible).length;
  if (nodes <= MOST_NODES) return nodes ? null : "There is nothing to draw.";
  return tooMany(nodes);
}

const tooMany = (nodes) =>
  `A graph has at most ${MOST_NODES} nodes, and ${grouped(nodes)} rows are shown here. Fold some of them first: z folds all.`;

export class GraphView extends FoldedRows {
  constructor(pane) {
    super(pane);
    this.box.classList.add("graphfield");
    this.box.innerHTML = `<div class="body" tabindex="0" role="tree"></div>`;
    this.body = this.box.firstElementChild;
    this.body.setAttribute("aria-label", `${this.stage.name}, as a graph`);
    this.refold();
  }

  refold() {
    super.refold();
    this.nodes = nodesOf(this.stage, this.visible);
    if (this.nodes.length > MOST_NODES) return this.pane.leaveGraph(tooMany(this.nodes.length)); // something was unfolded
    this.drawn = null;
    this.nodeAt = new Map(this.nodes.map((slot, node) => [slot, node]));
    later();
  }

  /** A few arguments stand near their uses; many of them stay one node. */
  unfolded() {
    const { stage } = this;
    const folded = super.unfolded();
    const few = (index) => stage.rows[index].head === "args" && stage.span(index) <= FEW_ARGUMENTS;
    const closed = folded.filter((index) => few(index) && stage.closed[index]);
    const all = folded.length + closed.reduce((sum, index) => sum + stage.span(index), 0);
    if (all > MOST_NODES) return folded;
    for (const index of closed) stage.closed[index] = 0;
    return super.unfolded();
  }

  get pageSize() {
    return 10;
  }

  /** Open headings are not drawn: the cursor passes over them. */
  step(slot, by) {
    const direction = Math.sign(by);
    const left = [...this.nodes].sort((a, b) => a - b);
    const ahead = direction > 0 ? left.filter((node) => node > slot) : left.filter((node) => node < slot).reverse();
    return ahead.length ? ahead[Math.min(ahead.length, Math.abs(by)) - 1] : this.nodeAt.has(slot) ? slot : left[0];
  }

  targetAt(event) {
    const group = event.target.closest(".node");
    if (!group) return null;
    const slot = Number(group.dataset.slot);
    return { slot, folds: false, target: rowTarget(this.placeOf(slot)) };
  }

  /** A double click folds or unfolds. */
  zoom(found) {
    if (found && this.folds(found.slot)) this.fold(this.visible[found.slot]);
  }

  show(slot) {
    if (this.drawn === null) this.render();
    const group = this.groups[this.nodeAt.get(slot)];
    if (group) scrollInside(this.body, group);
  }

  yOf() {
    return -1;
  }

  render() {
    const key = `${state.maths} ${this.body.clientWidth}`;
    if (this.drawn !== key) {
      this.draw();
      this.drawn = key;
    }
    this.nodes.forEach((slot, node) => {
      const strength = this.strength(slot);
      const { classList } = this.groups[node];
      const place = this.placeOf(slot);
      classList.toggle("here", strength === HERE);
      classList.toggle("near", strength === NEAR);
      classList.toggle("kin", strength > 0 && strength < NEAR);
      classList.toggle("hit", Boolean(state.hits && state.hits.set.has(place)));
      classList.toggle("cursor", this.pane === state.active && slot === this.pane.cursor);
      this.groups[node].setAttribute("aria-selected", Boolean(state.kept && state.kept.place === place));
    });
    this.edges.forEach(([from, to], edge) => {
      // What goes into the chosen node and comes out of it, and what joins its relatives.
      const ends = [this.strength(this.nodes[from]), this.strength(this.nodes[to])];
      this.lines[edge].classList.toggle("near", Math.max(...ends) === HERE || Math.min(...ends) >= NEAR);
    });
    const cursor = this.nodeAt.get(this.pane.cursor);
    if (cursor !== undefined) this.body.setAttribute("aria-activedescendant", this.idOf(cursor));
    else this.body.removeAttribute("aria-activedescendant");
  }

  renderForPrint() {
    this.render();
    return 0;
  }

  idOf(node) {
    return `node-${this.stage.number}-${node}`;
  }

  draw() {
    const labels = this.nodes.map((slot) => labelOf(this.stage, this.visible[slot]));
    const sizes = labels.map(({ does, makes }) => ({
      width: Math.max(NODE.least, Math.max(does.length, makes.length * 0.92) * NODE.letter + NODE.padding),
      height: NODE.height,
    }));
    this.edges = edgesOf(this.stage, this);
    const plan = layOut(
      sizes,
      this.edges.map(([from, to]) => [from, to]),
      GAPS,
    );
    const width = plan.width + 2 * MARGIN_AROUND;
    const height = plan.height + 2 * MARGIN_AROUND;
    const scale = Math.min(1, Math.max(LEAST_SCALE, (this.body.clientWidth - 4) / width));
    const lines = plan.paths.map((points, edge) =>
      tag("path", { class: classes("edge", this.edges[edge][2] && "inside"), d: pathOf(points) }),
    );
    const boxes = plan.nodes.map((centre, node) => this.nodeHtml(node, centre, sizes[node], labels[node]));
    const svg = {
      class: "drawing",
      width: Math.ceil(width * scale),
      height: Math.ceil(height * scale),
      viewBox: [-MARGIN_AROUND, -MARGIN_AROUND, width, height].join(" "),
      role: "presentation",
    };
    const group = (parts) => tag("g", { role: "presentation" }, parts.join(""));
    this.body.innerHTML = tag("svg", svg, group(lines) + group(boxes));
    this.groups = [...this.body.querySelectorAll(".node")];
    this.lines = [...this.body.querySelectorAll(".edge")];
    this.body.scrollLeft = (this.body.scrollWidth - this.body.clientWidth) / 2;
  }

  nodeHtml(node, centre, size, label) {
    const slot = this.nodes[node];
    const index = this.visible[slot];
    const row = this.stage.rows[index];
    const folded = this.stage.span(index) && this.stage.closed[index];
    const attributes = {
      class: classes("node", roleClass(row), folded && "folded", row.kept && "kept"),
      id: this.idOf(node),
      "data-slot": slot,
      role: "treeitem",
      "aria-label": spokenText(this.stage.start + index),
      transform: `translate(${(centre.x - size.width / 2).toFixed(1)} ${(centre.y - size.height / 2).toFixed(1)})`,
    };
    const middle = (size.width / 2).toFixed(1);
    const parts = [
      tag("title", {}, escaped(plainText(this.stage, row))),
      tag("rect", { width: size.width.toFixed(1), height: size.height, rx: 7 }),
      tag("text", { class: "above", x: middle, y: NODE.firstLine }, escaped(label.does)),
      tag("text", { class: "below", x: middle, y: NODE.secondLine }, escaped(label.makes)),
    ];
    return tag("g", attributes, parts.join(""));
  }
}

/** A smooth line down through some points. */
function pathOf(points) {
  let path = `M${points[0].x.toFixed(1)} ${points[0].y.toFixed(1)}`;
  for (let step = 1; step < points.length; step++) {
    const from = points[step - 1];
    const to = points[step];
    const middle = ((from.y + to.y) / 2).toFixed(1);
    path += `C${from.x.toFixed(1)} ${middle} ${to.x.toFixed(1)} ${middle} ${to.x.toFixed(1)} ${to.y.toFixed(1)}`;
  }
  return path;
}
