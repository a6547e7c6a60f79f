/** The details below the panes: of what is chosen or pointed at, else what each step did. */

import { METRICS, comparedStages, lineCosts } from "./costs.js";
import { ROLE_WORDS, model } from "./model.js";
import { below, firstAbove, reach, startsOf } from "./relations.js";
import { plainText, shortText } from "./rows.js";
import { element, state } from "./state.js";
import { python } from "./syntax.js";
import { brief, byteText, escaped, grouped, lineText, percent, plural, span, tag, timeText } from "./text.js";
import { valuesHtml } from "./values.js";

const LONGEST_CHAIN = 12;
const MOST_RUNS = 40; // rows of a frame that are listed

/** A button that leads to a row. */
const goTo = (place, html, name) => tag("button", { "data-go": place, class: name }, html);
const link = (place) => goTo(place, codeOf(place), "link");
const codeOf = (place) => tag("code", {}, escaped(shortText(model.stageAt(place), model.rowAt[place])));

const soft = (text) => span("soft", escaped(text));
const aside = (text) => tag("p", { class: "soft" }, text);
const paragraph = (html, name) => (html ? tag("p", { class: name }, html) : "");
const heading = (text, name) => tag("h3", { class: name }, escaped(text));
const list = (items) => tag("ol", {}, items.join(""));
const sections = (...contents) => contents.map((html) => tag("section", {}, html)).join("");

/** Facts as names and what is known of them. */
const factsHtml = (facts) =>
  tag("dl", {}, facts.map(([what, html]) => tag("dt", {}, escaped(what)) + tag("dd", {}, html)).join(""));

export function describe(target) {
  const details = element("details");
  if (target === null) {
    details.dataset.shows = "story";
    details.innerHTML = storyHtml();
  } else if (target.kind === "frame") {
    details.dataset.shows = "frame";
    details.innerHTML = frameDetails(model.flame.frames[target.number]);
  } else {
    details.dataset.shows = "row";
    details.innerHTML = rowDetails(target.place);
  }
}

export const describeAgain = () => describe(state.kept || state.pointed);

// ---- nothing chosen

function storyHtml() {
  const names = ["What each step did", "equations", "FLOPs", "peak", ""];
  const head = tag("tr", {}, names.map((name) => tag("th", {}, name)).join(""));
  const rows = model.stages.filter((stage) => stage.kind !== "source").map(storyRow);
  const table = tag("table", {}, tag("thead", {}, head) + tag("tbody", {}, rows.join("")));
  return tag("section", {}, table);
}

function storyRow(stage) {
  const backend = stage.backend || {};
  const peak = (stage.peak && stage.peak[1]) || backend.peak || backend.temp;
  const count = stage.count === undefined ? "" : grouped(stage.count);
  const cells = [stage.name, count, brief(stage.flops || backend.flops), peak ? byteText(peak) : ""];
  const words = tag("td", { class: "words" }, escaped((stage.deltas || []).join(" ")));
  return tag("tr", {}, cells.map((cell) => tag("td", {}, escaped(cell))).join("") + words);
}

// ---- a row

function rowDetails(place) {
  const stage = model.stageAt(place);
  const row = model.rowAt[place];
  const chain = chainOf(place);
  const found = model.found && model.found.place === place ? model.found : null;
  const itself = [
    heading(stage.name),
    paragraph(escaped(plainText(stage, row)), "equation"),
    found ? paragraph(tag("b", { class: "bad" }, escaped(found.headline))) : "",
    paragraph(escaped(row.note || "")),
    row.into === undefined ? "" : paragraph(mergedHtml(row)),
    factsHtml(factsOf(stage, row, place - stage.start)),
  ];
  const origin = heading("Where it comes from") + list(chain.map((at) => chainItem(at, at === place)));
  const story = found && found.story ? heading("What happened") + tag("pre", { class: "story" }, escaped(found.story)) : "";
  return sections(itself.join(""), origin + descendantsHtml(place), story + ruleHtml(place, chain));
}

const mergedHtml = (row) => `The same as an ${goTo(model.placeOfId.get(row.into), "earlier equation", "link")}: done once.`;

function factsOf(stage, row, index) {
  const facts = [];
  const add = (what, html) => facts.push([what, html]);
  const { flops, bytes, time } = stage.figures;
  if (row.role in ROLE_WORDS) add("origin", span(`tag is-${row.role}`, ROLE_WORDS[row.role]));
  if (row.value) add("values", valuesHtml(row, (row.out || []).map((variable) => stage.vars[variable][1])));
  if (model.deadLines.has(row.id)) add("use", "no result needs what this line computes");
  if (stage.kind === "source") facts.push(...lineFacts(row));
  if (flops[index] || bytes[index]) {
    add("FLOPs", `${grouped(flops[index])} ${stage.flops ? soft(`${percent(flops[index], stage.flops)} of this stage`) : ""}`);
    const intensity = bytes[index] ? soft(`${(flops[index] / bytes[index]).toFixed(2)} FLOPs a byte`) : "";
    add("bytes moved", `${byteText(bytes[index])} ${intensity}`);
  }
  if (time[index]) {
    const rate = flops[index] ? soft(`${brief(flops[index] / time[index])} FLOPs a second`) : "";
    add("measured time", `${timeText(time[index])} ${rate}`);
  }
  if (row.times) add("runs", plural(row.times, "time"));
  if (row.live !== undefined) add("live memory", memoryHtml(stage, row));
  if (row.kept) add("kept for", keptHtml(stage, row));
  if (row.donated) add("memory", donationHtml(row));
  if (row.shard) add("sharding", tag("code", {}, escaped(row.shard)));
  if (row.head && stage.equations[index]) add("holds", plural(stage.equations[index], "equation"));
  return facts;
}

/** What a source line costs in the stages that are compared. */
function lineFacts(row) {
  const facts = [];
  for (const metric of ["flops", "time"]) {
    for (const stage of comparedStages(metric)) {
      const amount = lineCosts(stage, metric).sums.get(row.id);
      if (amount) facts.push([`${METRICS[metric].name}, ${stage.name}`, escaped(METRICS[metric].full(amount))]);
    }
  }
  return facts;
}

function memoryHtml(stage, row) {
  const held = row.held ? soft(`${byteText(row.held)} of it waiting for the backward pass`) : "";
  return `${byteText(row.live)} ${held} ${stage.peak && stage.peak[0] === row.id ? "<b>the peak</b>" : ""}`;
}

/** Which equations of the backward pass use what is kept. */
function keptHtml(stage, row) {
  const kept = new Set(Array.isArray(row.kept) ? row.kept.map((position) => row.out[position]) : row.out);
  const users = [];
  stage.rows.forEach((user, index) => {
    if (user.role === "cotangent" && (user.in || []).some((atom) => kept.has(atom))) users.push(stage.start + index);
  });
  if (!users.length) return "the backward pass";
  return users.slice(0, 2).map(link).join("; ") + (users.length > 2 ? soft(` and ${users.length - 2} more`) : "");
}

/** An input that is given away, or an equation whose result takes the memory of one. */
function donationHtml(row) {
  const from = typeof row.donated === "number" ? model.placeOfId.get(row.donated) : undefined;
  return from === undefined ? "donated: a result may take its place" : `taken from ${link(from)}, which is donated`;
}

// ---- its relations

/** The first ancestors, the source line first. */
function chainOf(place) {
  const chain = [place];
  for (let at = firstAbove(place); at >= 0 && chain.length < LONGEST_CHAIN; at = firstAbove(at)) chain.unshift(at);
  return chain;
}

/** The rule by which a row was made from the first that it comes from; null where none was applied. */
function ruleOf(place) {
  const [edge] = model.rowAt[place].from || [];
  return edge && edge[1] >= 0 ? model.rules[edge[1]] : null;
}

function chainItem(place, itself) {
  const stage = model.stageAt(place);
  const row = model.rowAt[place];
  const rule = ruleOf(place);
  const line = stage.kind === "source" && row.line ? tag("span", {}, `${escaped(lineText(row))}: `) : "";
  const by = rule ? ` ${tag("span", {}, `by ${escaped(rule.name)}`)}` : "";
  return stageItem(stage, place, line + escaped(shortText(stage, row)) + by, itself && "itself");
}

const stageItem = (stage, place, code, name) =>
  tag("li", {}, goTo(place, tag("span", {}, escaped(stage.name)) + tag("code", {}, code), name || ""));

function descendantsHtml(place) {
  const byStage = new Map();
  for (const found of reach(startsOf(place), below)) {
    const stage = model.stageAt(found);
    if (!byStage.has(stage)) byStage.set(stage, []);
    byStage.get(stage).push(found);
  }
  if (!byStage.size) return "";
  const inOrder = [...byStage].sort(([a], [b]) => a.number - b.number);
  return heading("What became of it", "second") + list(inOrder.map(([stage, places]) => descendantItem(stage, places)));
}

function descendantItem(stage, places) {
  places.sort((a, b) => a - b);
  const count = places.length > 1 ? tag("span", {}, `${grouped(places.length)}: `) : "";
  const first = places.slice(0, 3).map((place) => shortText(stage, model.rowAt[place]));
  return stageItem(stage, places[0], count + escaped(first.join("; ")));
}

function ruleHtml(place, chain) {
  const ruled = [...chain].reverse().find((at) => ruleOf(at));
  if (ruled === undefined) {
    return heading("The rule") + aside(chain.length > 1 ? "Carried over as it is." : "This is where it starts.");
  }
  const rule = ruleOf(ruled);
  const where = [ruled === place ? "" : escaped(model.stageAt(ruled).name), rule.at ? tag("code", {}, escaped(rule.at)) : ""];
  const source = tag("pre", {}, python(rule.text || ""));
  return heading(`The rule: ${rule.name}`) + aside(where.filter(Boolean).join(" · ")) + source;
}

// ---- a frame of the flame graph

function frameDetails(frame) {
  const { total, name } = model.flame;
  const facts = [
    ["time", `${timeText(frame.time) || "0 s"} ${soft(`${percent(frame.time, total)} of all`)}`],
    ["by itself", `${timeText(frame.own) || "0 s"} ${soft(percent(frame.own, total))}`],
  ];
  const flops = frame.starts.reduce((sum, place) => sum + (model.rowAt[place].flops || 0), 0);
  if (flops) facts.push(["FLOPs", `${grouped(flops)} ${frame.time ? soft(`${brief(flops / frame.time)} a second`) : ""}`]);
  const items = frame.starts.slice(0, MOST_RUNS).map((place) => chainItem(place, false));
  const more = frame.starts.length - items.length;
  let inside = list(items) + (more ? aside(`and ${more} more`) : "");
  if (!items.length) inside = aside("Nothing of the Program: this is time of the machine around it.");
  const origin = items.length ? chainOf(frame.starts[0]).map((at) => chainItem(at, false)) : [];
  return sections(
    heading(name) + paragraph(escaped(frame.name), "equation") + factsHtml(facts),
    heading("What runs in it") + inside,
    origin.length ? heading("Where it comes from") + list(origin) : "",
  );
}
