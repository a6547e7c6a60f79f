/** The rows of a pane, of which only those in view exist: a Program may have 100,000 of them. */

import { METRICS, comparedStages, lineCosts, lineMetric } from "./costs.js";
import { FoldedRows } from "./folding.js";
import { model } from "./model.js";
import { HERE, NEAR } from "./relations.js";
import { cellsHtml, figureHtml, roleClass, spokenText } from "./rows.js";
import { later, state } from "./state.js";
import { ROW, drawStrip, stripScale } from "./strip.js";
import { pythonLines } from "./syntax.js";
import { rowTarget } from "./targets.js";
import { classes, escaped, span, tag } from "./text.js";

const BEYOND = 6; // rows above and below the view that are there too
export const MOST_PRINTED = 6000; // about a hundred sheets

export class Listing extends FoldedRows {
  constructor(pane) {
    super(pane);
    this.drawn = null; // the rows that are written, and the slot of the first
    const inner = tag("div", { class: "space" }) + tag("div", { class: "layer", role: "presentation" });
    this.box.innerHTML =
      tag("div", { class: "body", tabindex: 0, role: "tree" }, inner) +
      tag("canvas", { class: "strip", "aria-hidden": "true" });
    this.body = this.box.querySelector(".body");
    this.layer = this.box.querySelector(".layer");
    this.strip = this.box.querySelector(".strip");
    this.body.setAttribute("aria-label", this.stage.name);
    if (this.stage.typeWidth) this.body.style.setProperty("--type-width", this.stage.typeWidth);
    this.body.addEventListener("scroll", later, { passive: true });
    this.followStrip();
    this.stage.donations ??= donationsOf(this.stage);
    this.refold();
  }

  refold() {
    super.refold();
    this.box.querySelector(".space").style.height = `${this.size * ROW + 8}px`;
  }

  /** What is under the mouse. A variable means the row that makes it. */
  targetAt(event) {
    const slot = Math.floor((event.clientY - this.body.getBoundingClientRect().top + this.body.scrollTop) / ROW);
    if (slot < 0 || slot >= this.visible.length) return null;
    const under = document.elementFromPoint(event.clientX, event.clientY) || event.target;
    const token = under.closest(".variable");
    const { stage } = this;
    let place = this.placeOf(slot);
    let variable = null;
    if (token && stage.kind === "program") {
      variable = { stage, name: Number(token.dataset.variable) };
      if (stage.makerOf[variable.name] >= 0) place = stage.start + stage.makerOf[variable.name];
    } else if (token) variable = { stage, name: token.dataset.variable };
    const folds = under.closest("[data-fold]") !== null || (this.folds(slot) && Boolean(stage.rows[this.visible[slot]].head));
    return { slot, folds, target: rowTarget(place, variable) };
  }

  /** @param y where in the view it shall stand; without it, the view moves as little as it must */
  show(slot, y) {
    const height = this.body.clientHeight;
    const top = slot * ROW;
    if (y !== undefined) this.body.scrollTop = top - Math.max(0, Math.min(y, height - 2 * ROW));
    else if (top < this.body.scrollTop + ROW) this.body.scrollTop = top - 2 * ROW;
    else if (top > this.body.scrollTop + height - 2 * ROW) this.body.scrollTop = top - height + 3 * ROW;
  }

  /** Its top in the view, in pixels. */
  yOf(slot) {
    return slot * ROW - this.body.scrollTop;
  }

  get pageSize() {
    return Math.max(1, Math.floor(this.body.clientHeight / ROW) - 2);
  }

  // ---- drawing

  render() {
    const top = this.body.scrollTop;
    const height = this.body.clientHeight;
    this.renderRows(Math.max(0, Math.floor(top / ROW) - BEYOND), Math.min(this.size, Math.ceil((top + height) / ROW) + BEYOND));
    drawStrip(this, this.strip);
  }

  /** For paper. Returns how many rows are left out. */
  renderForPrint() {
    this.renderRows(0, Math.min(this.size, MOST_PRINTED));
    return Math.max(0, this.size - MOST_PRINTED);
  }

  renderRows(first, last) {
    const html = [];
    for (let slot = first; slot < last; slot++) html.push(this.rowHtml(slot));
    this.layer.style.transform = `translateY(${first * ROW}px)`;
    this.write(html, first);
    const cursor = this.pane.cursor;
    if (cursor >= first && cursor < last) this.body.setAttribute("aria-activedescendant", this.idOf(cursor));
    else this.body.removeAttribute("aria-activedescendant");
  }

  /** Where the same rows are in view as before, only those are written anew that changed: a selection of text goes on. */
  write(html, first) {
    const { drawn } = this;
    if (drawn && drawn.first === first && drawn.html.length === html.length) {
      html.forEach((row, place) => {
        if (row !== drawn.html[place]) this.layer.children[place].outerHTML = row;
      });
    } else this.layer.innerHTML = html.join("");
    this.drawn = { first, html };
  }

  idOf(slot) {
    return `row-${this.stage.kind === "costs" ? "costs" : this.stage.number}-${this.visible[slot]}`;
  }

  rowHtml(slot) {
    const { stage } = this;
    const index = this.visible[slot];
    const row = stage.rows[index];
    const variable = state.pointed && state.pointed.variable;
    const on = variable && variable.stage === stage ? variable.name : null;
    const attributes = {
      class: classes(
        model.deadLines.has(row.id) ? "is-dead" : roleClass(row),
        row.head && "heading",
        row.head === "part" && "part",
      ),
      "aria-level": stage.depth[index] + 1,
      "aria-posinset": stage.sibling[index],
      "aria-setsize": stage.counts[stage.parent[index] + 1],
      "aria-expanded": stage.span(index) ? String(!stage.closed[index]) : undefined,
    };
    const cells = stage.kind === "source" ? this.sourceCells(row, index) : cellsHtml(stage, index, on);
    return this.wrapped(slot, row, attributes, cells);
  }

  wrapped(slot, row, attributes, cells) {
    const place = this.placeOf(slot);
    const strength = this.strength(slot);
    const names = classes(
      "row",
      attributes.class,
      strength === HERE ? "here" : strength === NEAR ? "near" : strength && "kin",
      state.hits && state.hits.set.has(place) && "hit",
      this.pane === state.active && slot === this.pane.cursor && "cursor",
    );
    const common = {
      id: this.idOf(slot),
      role: "treeitem",
      "aria-selected": String(Boolean(state.kept && state.kept.place === place)),
      "aria-label": spokenText(place),
      title: row.note,
    };
    return tag("div", { ...attributes, ...common, class: names }, cells);
  }

  sourceCells(row, index) {
    this.coloured ||= pythonLines(this.stage.rows);
    const code = this.coloured[index];
    const start = code.search(/\S/); // the indentation is not struck out
    const struck = model.deadLines.has(row.id) ? code.slice(0, start) + tag("s", {}, code.slice(start)) : code;
    return lineCells(row, struck, model.costs ? comparedStages().slice(-1) : []);
  }

  // ---- the strip scrolls too

  followStrip() {
    let dragging = false;
    const jump = (event) => {
      this.body.scrollTop = (event.offsetY / stripScale(this.size, this.body.clientHeight)) * ROW - this.body.clientHeight / 2;
    };
    this.strip.addEventListener("pointerdown", (event) => {
      this.strip.setPointerCapture(event.pointerId);
      dragging = true;
      jump(event);
    });
    this.strip.addEventListener("pointermove", (event) => dragging && jump(event));
    this.strip.addEventListener("pointerup", () => (dragging = false));
    this.strip.addEventListener("pointercancel", () => (dragging = false));
  }
}

/** The rows of a stage that give memory away, or take what was given. */
function donationsOf(stage) {
  const found = [];
  stage.rows.forEach((row, index) => {
    if (row.donated) found.push(index);
  });
  return found.length ? found : false;
}

/** The cells of a source line, with what it costs in some stages. */
export function lineCells(row, code, columns) {
  const figures = state.metric === "none" ? [] : columns.map((stage) => lineFigure(stage, row));
  return span("lineno", escaped(row.line || "")) + span("code", code) + span("end", figures.join(""));
}

function lineFigure(stage, row) {
  const { sums, most } = lineCosts(stage, lineMetric());
  const amount = sums.get(row.id) || 0;
  return figureHtml(amount, most, METRICS[lineMetric()].short(amount));
}
