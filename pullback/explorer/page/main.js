/** Opens the page. */

import { asked, isEmbedded, remember } from "./address.js";
import { letGo, onKeep } from "./choice.js";
import { costStage } from "./costs.js";
import { readData } from "./data.js";
import { followDivider } from "./divider.js";
import { showFailure } from "./failure.js";
import { flameStage } from "./flame.js";
import { describe } from "./inspector.js";
import { followKeys } from "./keys.js";
import { choose, go, onLayout, openPanes, paneOf, stagesShown } from "./layout.js";
import { keepLike, likeness } from "./likeness.js";
import { drawLinks } from "./links.js";
import { buildModel, model } from "./model.js";
import { followPrinting } from "./printing.js";
import { connect } from "./relations.js";
import { element, later, onDraw, state } from "./state.js";
import { followSystem, setTheme } from "./theme.js";
import { onSetting, setMaths, setMetric, writeLegend, writeTop } from "./top.js";

const USUAL = ["source", "base", "grad", "vmap"];
const PLAIN = ["base", "simplify"]; // Programs that no transformation of the user's made
const PANE_WIDTH = 345; // pixels that a pane needs

/** The panes that are open at first: few and wide ones, as many as there is room for. */
function firstPanes() {
  const stages = model.stages.map((stage) => stage.id);
  const usual = USUAL.filter((id) => model.byId.has(id));
  const made = model.stages.filter((stage) => stage.kind === "program" && !PLAIN.includes(stage.id)).map((stage) => stage.id);
  const last = [...usual, ...made].filter((id) => made.includes(id)).pop(); // what the transformations came to
  if (last !== undefined && !usual.includes(last)) usual.push(last);
  const room = state.embedded ? 2 : Math.max(2, Math.min(4, Math.floor((innerWidth - 20) / PANE_WIDTH)));
  const wished = usual.length > room ? [...usual.slice(0, room - 1), last ?? usual[room - 1]] : usual;
  const chosen = [...new Set([...wished, ...stages])].slice(0, Math.max(2, wished.length));
  return chosen.sort((a, b) => stages.indexOf(a) - stages.indexOf(b));
}

/** Shows what the address asks for. */
function followAddress() {
  const wanted = asked(stagesShown());
  if (state.kept) letGo();
  setTheme(wanted.theme || model.data.theme || null);
  openPanes(wanted.panes.length ? wanted.panes : firstPanes());
  setMetric(wanted.metric || "flops");
  setMaths(wanted.maths);
  for (const id of wanted.graphs) if (paneOf(id)) paneOf(id).toggleGraph();
  if (wanted.place !== null) choose(wanted.place);
}

function open() {
  const data = readData(element("data").textContent);
  buildModel(data);
  connect();
  model.costs = costStage();
  model.flame = flameStage();
  state.embedded = isEmbedded(data);
  document.documentElement.classList.toggle("embedded", state.embedded);
  writeTop();
  writeLegend();
  describe(null);
  onDraw(() => state.panes.forEach((pane) => pane.view.render()));
  onDraw(drawLinks);
  followAddress();
  addEventListener("hashchange", followAddress); // a link to another state of this page
  for (const follow of [onLayout, onKeep, onSetting]) follow(remember); // from here on the address follows
  element("details").addEventListener("click", (event) => {
    const button = event.target.closest("[data-go]");
    if (button) go(Number(button.dataset.go));
  });
  element("panes").addEventListener("scroll", later, { passive: true });
  addEventListener("resize", later);
  followKeys();
  followDivider();
  followSystem();
  followPrinting();
  window.explorer = { state, model, likeness, keepLike, ready: false };
  requestAnimationFrame(() =>
    requestAnimationFrame(() => Object.assign(window.explorer, { ready: true, milliseconds: performance.now() })),
  );
}

try {
  open();
} catch (error) {
  showFailure(error);
  window.explorer = { ready: true, failed: true };
}
