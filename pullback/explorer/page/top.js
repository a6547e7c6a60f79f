/** The top of the page, and the legend at its end. */

import { METRICS, metricsThere } from "./costs.js";
import { describeAgain } from "./inspector.js";
import { ROLES, ROLE_WORDS, model } from "./model.js";
import { go, onLayout, paneOf, stagesShown, togglePane } from "./layout.js";
import { search } from "./search.js";
import { element, later, state } from "./state.js";
import { escaped, grouped, tag } from "./text.js";
import { otherTheme } from "./theme.js";

export function writeTop() {
  const { data } = model;
  document.title = `${data.title || "A program"} · pullback explorer`;
  element("title").innerHTML = `${escaped(data.title || "A program")}<code>${escaped(data.call || "")}</code>`;
  element("stages").innerHTML = stagesShown().map(stageButton).join("");
  element("stages").addEventListener("click", (event) => {
    const button = event.target.closest("[data-stage]");
    if (button) togglePane(button.dataset.stage);
  });
  onLayout(() => {
    for (const button of element("stages").querySelectorAll("button"))
      button.setAttribute("aria-pressed", Boolean(paneOf(button.dataset.stage)));
  });
  element("metric").innerHTML = metricsThere()
    .map((name) => `<option value="${name}">${METRICS[name].name}</option>`)
    .join("");
  element("metric").addEventListener("change", (event) => setMetric(event.target.value));
  element("names").addEventListener("click", () => setMaths(!state.maths));
  element("theme").addEventListener("click", () => {
    otherTheme();
    changed();
  });
  element("ask").addEventListener("click", () => element("help").showModal());
  element("help").addEventListener("click", (event) => event.target === element("help") && element("help").close());
  element("find").addEventListener("input", (event) => search(event.target.value));
  writeFind();
}

const APART = ["costs", "flame"];

function stageButton(stage, number) {
  const joint = number ? tag("i", { class: APART.includes(stage.kind) ? "apart" : "" }) : "";
  const key = number < 10 ? ` (${(number + 1) % 10})` : "";
  const count = stage.count === undefined ? "" : tag("small", {}, grouped(stage.count));
  const attributes = { "data-stage": stage.id, "aria-pressed": "false", title: stage.by + key };
  return joint + tag("button", attributes, escaped(stage.name) + count);
}

/** What was found in the values, if anything was looked for and found: one click leads there. */
function writeFind() {
  if (!model.found) return;
  const banner = element("banner");
  banner.hidden = false;
  banner.innerHTML = `<b class="bad">!</b> ${escaped(model.found.headline)}`;
  banner.addEventListener("click", () => go(model.found.place));
}

export function writeLegend() {
  const used = new Set();
  let kept = false;
  let donated = false;
  for (const stage of model.stages) {
    for (const row of stage.rows) {
      used.add(row.role);
      kept ||= Boolean(row.kept);
      donated ||= Boolean(row.donated);
    }
  }
  const entry = (filter, mark, words, classes = "") =>
    `<button data-find="is:${filter}" class="${classes}" title="Find them">${mark}${words}</button>`;
  const entries = ROLES.filter((role) => used.has(role)).map((role) => entry(role, "<i></i>", ROLE_WORDS[role], `is-${role}`));
  if (kept) entries.push(entry("kept", '<i class="kept">g</i>', "kept for the backward pass"));
  if (donated) entries.push(entry("donated", '<span class="donated">◆</span>', "donated"));
  const batched = model.stages.some((stage) => stage.vars.some(([, , axes]) => axes && axes.length));
  const axes = batched
    ? '<span class="optional"><b class="batchaxis">32</b> batch axis &nbsp;<b class="otheraxis">64</b> other axes</span>'
    : "";
  element("legend").innerHTML =
    `${entries.join("")}${axes}<span class="grow"></span><span class="hint"><kbd>/</kbd> search &nbsp;<kbd>?</kbd> keys</span>`;
  element("legend").addEventListener("click", (event) => {
    const button = event.target.closest("[data-find]");
    const find = element("find");
    if (!button) return;
    find.value = find.value === button.dataset.find ? "" : button.dataset.find;
    search(find.value);
  });
}

const settingListeners = [];

/** Called when the figures, the names or the theme change. */
export const onSetting = (listener) => settingListeners.push(listener);

export function changed() {
  for (const listener of settingListeners) listener();
  later();
}

export function setMetric(metric) {
  state.metric = metric;
  element("metric").value = metric;
  for (const pane of state.panes) pane.writeHead();
  changed();
}

export function nextMetric() {
  const there = metricsThere();
  setMetric(there[(there.indexOf(state.metric) + 1) % there.length]);
}

export function setMaths(on) {
  state.maths = on;
  element("names").textContent = on ? "Names: maths" : "Names: printed";
  element("names").setAttribute("aria-pressed", on);
  describeAgain();
  changed();
}
