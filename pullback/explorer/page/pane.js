/** A pane: the heading of a stage, and one view of it. */

import { CostListing } from "./costlisting.js";
import { comparedStages, lineMetric, sortCosts } from "./costs.js";
import { FlameView } from "./flame.js";
import { GraphView, graphRefusal } from "./graph.js";
import { Listing } from "./listing.js";
import { model } from "./model.js";
import { announce, element, later, scrollInside, state } from "./state.js";
import { brief, byteText, escaped, grouped, tag, timeText } from "./text.js";

const SLIP = 5; // pixels that the mouse may move in a click

export class Pane {
  /** @param actions what the page does: point, keep, close, move, drop, viewed */
  constructor(stage, actions) {
    this.stage = stage;
    this.actions = actions;
    this.cursor = 0; // the slot that the keyboard is at
    this.box = document.createElement("section");
    this.box.className = "pane";
    this.box.dataset.stage = stage.id;
    this.box.dataset.kind = stage.kind;
    this.box.setAttribute("aria-label", stage.name);
    this.box.innerHTML = headHtml(stage) + (stage.kind === "costs" ? costHeading(stage) : "");
    this.setView(
      stage.kind === "flame" ? new FlameView(this) : stage.kind === "costs" ? new CostListing(this) : new Listing(this),
    );
    this.listenToHead();
    this.writeHead();
  }

  /** Whether bands join its rows to those of its neighbours. */
  get links() {
    return this.view instanceof Listing && this.stage.kind !== "costs";
  }

  setView(view) {
    if (this.view) this.view.box.remove();
    this.view = view;
    this.box.append(view.box);
    this.box.classList.toggle("graph", view instanceof GraphView);
    const { body } = view;
    body.addEventListener("focus", () => {
      state.active = this;
      later();
    });
    body.addEventListener("mousemove", (event) => {
      if (event.buttons || holdsSelection(element("panes"))) return; // pointing writes rows anew, with what is selected
      const found = view.targetAt(event);
      this.actions.point(found && found.target);
    });
    body.addEventListener("mouseleave", () => holdsSelection(element("panes")) || this.actions.point(null));
    // Not "click" and "dblclick": the row under the mouse may have been written anew since the button went down.
    let down = null;
    body.addEventListener("pointerdown", (event) => (down = event.button === 0 ? event : null));
    body.addEventListener("pointerup", (event) => {
      if (down && Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) < SLIP) this.click(event);
      down = null;
    });
    body.addEventListener("mousedown", (event) => {
      if (event.detail !== 2 || !view.zoom) return;
      down = null; // the second click of a double click keeps or lets go of nothing
      view.zoom(view.targetAt(event));
    });
  }

  click(event) {
    const found = this.view.targetAt(event);
    if (!found) return;
    state.active = this;
    this.cursor = found.slot;
    if (found.folds) this.view.fold(this.view.visible[found.slot]);
    else this.actions.keep(found.target, this);
  }

  /** Rows, or a graph of them. */
  toggleGraph() {
    if (this.view instanceof GraphView) return this.leaveGraph("");
    const refusal = graphRefusal(this);
    if (refusal) this.tell(refusal);
    else this.changeView(new GraphView(this), "");
  }

  leaveGraph(why) {
    this.changeView(new Listing(this), why);
  }

  changeView(view, words) {
    const focused = this.box.contains(document.activeElement);
    const row = this.view.visible[this.cursor];
    this.setView(view);
    this.cursor = view.slotOfIndex(row); // a graph unfolds arguments
    this.tell(words);
    this.view.show(this.cursor);
    if (focused) this.view.body.focus({ preventScroll: true });
    this.actions.viewed();
    later();
  }

  /** Says something in the place of what the transformation did, until the next time. */
  tell(text) {
    this.told = text;
    if (text) announce(text);
    this.writeHead();
  }

  focus() {
    state.active = this;
    this.view.body.focus({ preventScroll: true });
    this.bringIntoView();
  }

  bringIntoView() {
    scrollInside(element("panes"), this.box);
  }

  writeHead() {
    if (this.stage.kind === "costs") {
      sortCosts(this.stage);
      this.box.style.setProperty("--columns", this.stage.columns.length);
      this.box.querySelector(".costhead").outerHTML = costHeading(this.stage);
      this.view.refold();
    }
    this.box.querySelector(".sums").innerHTML = sumsOf(this.stage)
      .map((sum) => `<span>${sum}</span>`)
      .join("");
    const words = this.box.querySelector(".words");
    words.textContent = words.title = this.told || wordsOf(this.stage);
    words.classList.toggle("told", Boolean(this.told));
  }

  listenToHead() {
    const head = this.box.querySelector(".head");
    const { stage, box, actions } = this;
    head.addEventListener("click", (event) => {
      const button = event.target.closest("[data-do]");
      const what = button && button.dataset.do;
      if (what === "close") actions.close(stage.id);
      else if (what === "graph") this.toggleGraph();
      else if (what) actions.move(this, what === "left" ? -1 : 1);
    });
    head.addEventListener("dragstart", (event) => {
      event.dataTransfer.setData("text/plain", stage.id);
      box.classList.add("moving");
    });
    head.addEventListener("dragend", () => box.classList.remove("moving"));
    box.addEventListener("dragover", (event) => event.preventDefault());
    box.addEventListener("drop", (event) => {
      event.preventDefault();
      actions.drop(event.dataTransfer.getData("text/plain"), this);
    });
  }
}

/** Whether text in a box is selected, as to be copied. */
function holdsSelection(box) {
  const selection = getSelection();
  return !selection.isCollapsed && box.contains(selection.anchorNode);
}

const GRAPH_ICON = `<svg viewBox="0 0 12 12" width="11" height="11" fill="currentColor" aria-hidden="true">
  <path d="M6 2.5V6M6 6 2.7 9.3M6 6l3.3 3.3" stroke="currentColor" fill="none"/>
  <circle cx="6" cy="2" r="1.7"/><circle cx="2.4" cy="9.8" r="1.7"/><circle cx="9.6" cy="9.8" r="1.7"/></svg>`;

function headHtml(stage) {
  const button = (what, title, content) => tag("button", { "data-do": what, title, "aria-label": title }, content);
  const buttons = [
    stage.kind === "program" || stage.kind === "text" ? button("graph", "Graph or rows (g)", GRAPH_ICON) : "",
    button("left", "Move left (Shift ←)", "‹"),
    button("right", "Move right (Shift →)", "›"),
    button("close", "Hide", "×"),
  ];
  const name = tag("h2", {}, escaped(stage.name) + tag("span", {}, escaped(stage.by)) + buttons.join(""));
  return tag("div", { class: "head", draggable: "true" }, name + tag("div", { class: "sums" }) + tag("p", { class: "words" }));
}

function costHeading(stage) {
  const names = ["source line", ...stage.columns.map((column) => column.name)];
  return tag("div", { class: "costhead" }, names.map((name) => tag("span", {}, escaped(name))).join(""));
}

const METRIC_WORDS = { flops: "FLOPs", bytes: "bytes moved", time: "measured time" };

function sumsOf(stage) {
  const bold = (figure, what) => `<b>${escaped(figure)}</b> ${what}`;
  const sums = [];
  if (stage.kind === "program") {
    sums.push(bold(grouped(stage.count ?? stage.rows.filter((row) => row.op !== undefined).length), "equations"));
    if (stage.flops) sums.push(bold(brief(stage.flops), "FLOPs"));
    if (stage.peak) sums.push(`peak <b>${escaped(byteText(stage.peak[1]))}</b>`);
    if (stage.time) sums.push(bold(timeText(stage.time), ""));
  } else if (stage.kind === "text") {
    if (stage.count !== undefined) sums.push(bold(grouped(stage.count), stage.id === "optimized" ? "steps" : "operations"));
  } else if (stage.kind === "source") {
    sums.push(escaped(model.data.file || ""));
    if (model.costs && state.metric !== "none") {
      const last = comparedStages().at(-1);
      if (last) sums.push(`<span class="right">${METRIC_WORDS[lineMetric()]}, ${escaped(last.name)}</span>`);
    }
  } else if (stage.kind === "costs")
    sums.push(lineMetric() === "time" ? "measured" : `${METRIC_WORDS[lineMetric()]}, analytic`);
  else sums.push(bold(timeText(stage.total), "in all"));
  if (stage.backend) {
    const { flops, temp, peak } = stage.backend;
    if (flops) sums.push(bold(brief(flops), "FLOPs"));
    if (temp) sums.push(`temporary <b>${escaped(byteText(temp))}</b>`);
    else if (peak) sums.push(`peak <b>${escaped(byteText(peak))}</b>`);
  }
  return sums;
}

function wordsOf(stage) {
  if (stage.kind === "source")
    return stage.rows.length ? "Point at a line to see what became of it." : "No operation was written in a line of yours.";
  return (stage.deltas || []).join(" ");
}
