/** The details below the panes: of what is chosen or pointed at, else what each step did. */

import { METRICS, comparedStages, lineCosts } from "./costs.js";
import { ROLE_WORDS, model } from "./model.js";
import { below, firstAbove, reach, startsOf } from "./relations.js";
import { plainText, shortText } from "./rows.js";
import { element, state } from "./state.js";
import { python } from "./syntax.js";
import { brief, byteText, escaped, grouped, percent, plural, timeText } from "./text.js";
import { valuesHtml } from "./values.js";

const LONGEST_CHAIN = 12;

/** A button that leads to a row. */
const goTo = (place, html, classes = "") => `<button data-go="${place}" class="${classes}">${html}</button>`;

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
  const rows = model.stages.filter((stage) => stage.kind !== "source").map((stage) => {
    const flops = stage.flops || (stage.backend && stage.backend.flops) || 0;
    const peak = (stage.peak && stage.peak[1]) || (stage.backend && (stage.backend.peak || stage.backend.temp)) || 0;
    const cells = [stage.name, stage.count === undefined ? "" : grouped(stage.count), brief(flops), peak ? byteText(peak) : ""];
    return `<tr>${cells.map((cell) => `<td>${escaped(cell)}</td>`).join("")}<td class="words">${escaped((stage.deltas || []).join(" "))}</td></tr>`;
  });
  return `<section tabindex="-1"><table><thead><tr><th>What each step did</th><th>equations</th><th>FLOPs</th><th>peak</th><th></th></tr></thead><tbody>${rows.join("")}</tbody></table></section>`;
}

// ---- a row

function rowDetails(place) {
  const stage = model.stageAt(place), row = model.rowAt[place], index = place - stage.start, chain = chainOf(place);
  const facts = factsOf(stage, row, index).map(([what, html]) => `<dt>${what}</dt><dd>${html}</dd>`).join("");
  const into = row.into === undefined ? "" : `<p>The same as an ${goTo(model.placeOfId.get(row.into), "earlier equation", "link")}: done once.</p>`;
  const found = model.data.find && model.data.find.row === row.id ? `<p><b class="bad">${escaped(model.data.find.text)}</b></p>` : "";
  return `<section><h3>${escaped(stage.name)}</h3><p class="equation">${escaped(plainText(stage, row))}</p>${found}${
    row.note ? `<p>${escaped(row.note)}</p>` : ""}${into}<dl>${facts}</dl></section>
    <section><h3>Where it comes from</h3><ol>${chain.map((at) => chainItem(at, at === place)).join("")}</ol>${descendantsHtml(place)}</section>
    <section>${ruleHtml(place, chain)}</section>`;
}

function factsOf(stage, row, index) {
  const facts = [], soft = (text) => ` <span class="soft">${escaped(text)}</span>`, { flops, bytes, time } = stage.figures;
  const add = (what, html) => facts.push([what, html]);
  if (row.role in ROLE_WORDS) add("origin", `<span class="tag is-${row.role}">${ROLE_WORDS[row.role]}</span>`);
  if (row.value) add("values", valuesHtml(row));
  if (stage.kind === "source") {
    for (const metric of ["flops", "time"]) {
      for (const compared of comparedStages()) {
        const amount = lineCosts(compared, metric).sums.get(row.id);
        if (amount) add(`${METRICS[metric].name}, ${escaped(compared.name)}`, escaped(METRICS[metric].full(amount)));
      }
    }
  }
  if (flops[index] || bytes[index]) {
    add("FLOPs", grouped(flops[index]) + (stage.flops ? soft(`${percent(flops[index], stage.flops)} of this stage`) : ""));
    add("bytes moved", escaped(byteText(bytes[index])) + (bytes[index] ? soft(`${(flops[index] / bytes[index]).toFixed(2)} FLOPs a byte`) : ""));
  }
  if (time[index]) {
    const rate = flops[index] ? soft(`${brief(flops[index] / time[index])} FLOPs a second`) : "";
    add("measured time", escaped(timeText(time[index])) + rate);
  }
  if (row.times) add("runs", plural(row.times, "time"));
  if (row.live !== undefined) add("live memory", memoryHtml(stage, row, soft));
  if (row.kept) add("kept for", keptHtml(stage, row, soft));
  if (row.donated !== undefined && row.donated !== false) add("memory", donationHtml(row));
  if (row.shard) add("sharding", `<code>${escaped(row.shard)}</code>`);
  if (row.head) add("holds", plural(stage.equations[index], "equation"));
  return facts;
}

function memoryHtml(stage, row, soft) {
  const held = row.held ? soft(`${byteText(row.held)} of it waiting for the backward pass`) : "";
  return escaped(byteText(row.live)) + held + (stage.peak && stage.peak[0] === row.id ? " <b>the peak</b>" : "");
}

/** Which equations of the backward pass use what is kept. */
function keptHtml(stage, row, soft) {
  const kept = new Set(Array.isArray(row.kept) ? row.kept.map((position) => row.out[position]) : row.out);
  const users = [];
  stage.rows.forEach((user, index) => {
    if (user.role === "cotangent" && (user.in || []).some((atom) => kept.has(atom))) users.push(stage.start + index);
  });
  if (!users.length) return "the backward pass";
  const told = users.slice(0, 2).map((place) => goTo(place, `<code>${escaped(shortText(stage, model.rowAt[place]))}</code>`, "link")).join("; ");
  return told + (users.length > 2 ? soft(`and ${users.length - 2} more`) : "");
}

/** An input that is given away, or an equation whose result takes the memory of one. */
function donationHtml(row) {
  const from = typeof row.donated === "number" ? model.placeOfId.get(row.donated) : undefined;
  if (from === undefined) return "donated: a result may take its place";
  return `taken from ${goTo(from, `<code>${escaped(shortText(model.stageAt(from), model.rowAt[from]))}</code>`, "link")}, which is donated`;
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
  const stage = model.stageAt(place), row = model.rowAt[place], rule = ruleOf(place);
  const line = stage.kind === "source" && row.line ? `<span>${escaped(row.line)}: </span>` : "";
  const by = rule ? ` <span>by ${escaped(rule.name)}</span>` : "";
  return `<li>${goTo(place, `<span>${escaped(stage.name)}</span><code>${line}${escaped(shortText(stage, row))}${by}</code>`, itself ? "itself" : "")}</li>`;
}

function descendantsHtml(place) {
  const byStage = new Map();
  for (const found of reach(startsOf(place), below)) {
    const stage = model.stageAt(found);
    if (!byStage.has(stage)) byStage.set(stage, []);
    byStage.get(stage).push(found);
  }
  if (!byStage.size) return "";
  const items = [...byStage].sort(([a], [b]) => a.number - b.number).map(([stage, places]) => {
    places.sort((a, b) => a - b);
    const count = places.length > 1 ? `<span>${grouped(places.length)}: </span>` : "";
    const text = places.slice(0, 3).map((at) => shortText(stage, model.rowAt[at])).join("; ");
    return `<li>${goTo(places[0], `<span>${escaped(stage.name)}</span><code>${count}${escaped(text)}</code>`)}</li>`;
  });
  return `<h3 class="second">What became of it</h3><ol>${items.join("")}</ol>`;
}

function ruleHtml(place, chain) {
  const ruled = [...chain].reverse().find((at) => ruleOf(at));
  if (ruled === undefined) {
    return `<h3>The rule</h3><p class="soft">${chain.length > 1 ? "Carried over as it is." : "This is where it starts."}</p>`;
  }
  const rule = ruleOf(ruled), stage = ruled === place ? "" : `${escaped(model.stageAt(ruled).name)} · `;
  return `<h3>The rule: ${escaped(rule.name)}</h3><p class="soft">${stage}${rule.at ? `<code>${escaped(rule.at)}</code>` : ""}</p><pre>${python(rule.text || "")}</pre>`;
}

// ---- a frame of the flame graph

function frameDetails(frame) {
  const total = model.flame.total, facts = [["time", `${escaped(timeText(frame.time) || "0 s")} <span class="soft">${percent(frame.time, total)} of all</span>`]];
  facts.push(["by itself", `${escaped(timeText(frame.own) || "0 s")} <span class="soft">${percent(frame.own, total)}</span>`]);
  const flops = frame.starts.reduce((sum, place) => sum + (model.rowAt[place].flops || 0), 0);
  if (flops) facts.push(["FLOPs", `${grouped(flops)}${frame.time ? ` <span class="soft">${brief(flops / frame.time)} a second</span>` : ""}`]);
  const items = frame.starts.slice(0, 40).map((place) => chainItem(place, false)).join("");
  const more = frame.starts.length > 40 ? `<p class="soft">and ${frame.starts.length - 40} more</p>` : "";
  const origin = frame.starts.length ? chainOf(frame.starts[0]) : [];
  return `<section><h3>${escaped(model.flame.name)}</h3><p class="equation">${escaped(frame.name)}</p><dl>${facts.map(([what, html]) => `<dt>${what}</dt><dd>${html}</dd>`).join("")}</dl></section>
    <section><h3>What runs in it</h3><ol>${items}</ol>${more || (items ? "" : '<p class="soft">Nothing of the Program: this is time of the machine around it.</p>')}</section>
    <section>${origin.length ? `<h3>Where it comes from</h3><ol>${origin.map((at) => chainItem(at, false)).join("")}</ol>` : ""}</section>`;
}

