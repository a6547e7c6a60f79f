/** The flame graph of measured time: each frame as wide as its time, above those that it called. */

import { model } from "./model.js";
import { HERE, NEAR, related, strengthAt } from "./relations.js";
import { ROLES } from "./model.js";
import { later, state } from "./state.js";
import { frameTarget } from "./targets.js";
import { classes, escaped, percent, tag, timeText } from "./text.js";

const FRAME = 22; // pixels
const ROOM = 26; // pixels that a name needs
const NARROWEST = 0.0008; // of the width; narrower frames are not drawn

/** The stage of the flame graph: its rows are frames. Null if nothing was measured. */
export function flameStage() {
  const { profile } = model.data;
  if (!profile || !Array.isArray(profile.rows) || !profile.rows.length) return null;
  const frames = framesOf(profile.rows);
  const roots = frames.filter((frame) => frame.parent < 0);
  const total =
    Math.max(
      profile.total || 0,
      roots.reduce((sum, frame) => sum + frame.time, 0),
    ) || 1;
  const widest = frames.reduce((best, frame) => (frame.own > best.own ? frame : best), frames[0]);
  return {
    id: "profile",
    name: profile.name || "Time",
    by: profile.by || "measured",
    kind: "flame",
    rows: [],
    start: 0,
    frames,
    total,
    deltas: [
      `${widest.name} takes most by itself: ${timeText(widest.own)}, ${percent(widest.own, total)}.`,
      "Space, or a double click, zooms.",
    ],
  };
}

/** Frames in the order of the profile, each with its start, its parent, and the time that none of its own frames has. */
function framesOf(rows) {
  const frames = [];
  const open = [];
  let end = 0; // of the roots so far
  rows.forEach((row, number) => {
    const depth = Math.max(0, Math.min(row.depth || 0, open.length));
    const time = Math.max(0, row.time || 0);
    open.length = depth;
    const parent = depth ? open[depth - 1] : -1;
    const frame = { number, name: String(row.name), time, depth, parent, used: 0, own: time };
    frame.start = parent < 0 ? end : frames[parent].start + frames[parent].used;
    if (parent < 0) end += time;
    else {
      frames[parent].used += time;
      frames[parent].own = Math.max(0, frames[parent].own - time);
    }
    frame.starts = (row.from || []).map((id) => model.placeOfId.get(id));
    frame.role = commonRole(frame.starts);
    frames.push(frame);
    open.push(number);
  });
  return frames;
}

/** The role of most rows of a frame; none where they are of many kinds. */
function commonRole(starts) {
  const counts = new Map();
  for (const place of starts) {
    const { role } = model.rowAt[place];
    counts.set(role, (counts.get(role) || 0) + 1);
  }
  return ROLES.find((role) => counts.get(role) > starts.length / 2) || "";
}

export class FlameView {
  constructor(pane) {
    this.pane = pane;
    this.stage = pane.stage;
    this.whole = { start: 0, time: this.stage.total };
    this.window = this.whole; // what fills the width
    this.box = document.createElement("div");
    this.box.className = "field flamefield";
    this.box.innerHTML = `<div class="body" tabindex="0" role="tree"></div>`;
    this.body = this.box.firstElementChild;
    this.body.setAttribute("aria-label", `${this.stage.name}: frames`);
  }

  get size() {
    return this.stage.frames.length;
  }

  get visible() {
    return this.stage.frames.map((frame) => frame.number);
  }

  get pageSize() {
    return 10;
  }

  step(slot, by) {
    return Math.max(0, Math.min(this.size - 1, slot + by));
  }

  refold() {}

  folds() {
    return false;
  }

  foldAll() {
    this.zoomTo(null);
  }

  foldAround(slot) {
    this.zoomTo(this.window === this.stage.frames[slot] ? null : slot);
  }

  open() {}

  holds() {
    return false;
  }

  slotOf() {
    return -1;
  }

  targetOf(slot) {
    return frameTarget(slot, this.stage.frames[slot].starts);
  }

  targetAt(event) {
    const found = event.target.closest(".frame");
    if (!found) return null;
    const slot = Number(found.dataset.number);
    return { slot, folds: false, target: this.targetOf(slot) };
  }

  zoom(found) {
    if (found) this.foldAround(found.slot);
    else this.zoomTo(null);
  }

  get zoomed() {
    return this.window !== this.whole;
  }

  zoomTo(slot) {
    this.window = slot === null ? this.whole : this.stage.frames[slot];
    later();
  }

  show(slot) {
    const frame = this.stage.frames[slot];
    const top = frame.depth * FRAME;
    if (!this.inWindow(frame)) this.zoomTo(null);
    if (top < this.body.scrollTop) this.body.scrollTop = top;
    if (top > this.body.scrollTop + this.body.clientHeight - FRAME)
      this.body.scrollTop = top - this.body.clientHeight + 2 * FRAME;
  }

  inWindow(frame) {
    const { start, time } = this.window;
    return frame.start < start + time && frame.start + frame.time > start;
  }

  strength(slot) {
    if (!related) return 0;
    return this.stage.frames[slot].starts.reduce((best, place) => Math.max(best, strengthAt(place)), 0);
  }

  render() {
    const { start, time } = this.window;
    const html = [];
    for (const frame of this.stage.frames) {
      if (!this.inWindow(frame) || frame.time < time * NARROWEST) continue;
      const left = Math.max(0, (frame.start - start) / time);
      const right = Math.min(1, (frame.start + frame.time - start) / time);
      html.push(this.frameHtml(frame, left, right - left));
    }
    const text = html.join("");
    if (text !== this.drawn) {
      this.body.innerHTML = text;
      this.drawn = text;
    }
    this.body.setAttribute("aria-activedescendant", `frame-${this.pane.cursor}`);
  }

  renderForPrint() {
    this.render();
    return 0;
  }

  /** A frame that is pointed at stands out from those in it, which run the same rows. */
  isHere(frame, strength) {
    const shown = state.kept || state.pointed;
    return shown && shown.kind === "frame" ? shown.number === frame.number : strength === HERE;
  }

  frameHtml(frame, left, width) {
    const strength = this.strength(frame.number);
    const kept = Boolean(state.kept && state.kept.kind === "frame" && state.kept.number === frame.number);
    const roomy = width * this.body.clientWidth >= ROOM;
    const words = `${frame.name}, ${timeText(frame.time) || "0 s"}, ${percent(frame.time, this.stage.total)}`;
    const attributes = {
      class: classes(
        "frame",
        frame.role && `is-${frame.role}`,
        this.isHere(frame, strength) ? "here" : strength >= NEAR && "near",
        this.pane === state.active && frame.number === this.pane.cursor && "cursor",
        !roomy && "narrow",
      ),
      id: `frame-${frame.number}`,
      "data-number": frame.number,
      role: "treeitem",
      "aria-level": frame.depth + 1,
      "aria-selected": String(kept),
      "aria-label": words,
      title: words,
      style: `left:${(left * 100).toFixed(3)}%;width:${(width * 100).toFixed(3)}%;top:${frame.depth * FRAME}px`,
    };
    const text = `${tag("span", {}, escaped(frame.name))} ${tag("small", {}, timeText(frame.time))}`;
    return tag("div", attributes, roomy ? text : "");
  }
}
