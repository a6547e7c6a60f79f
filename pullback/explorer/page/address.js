/** The address keeps what is open and chosen, so that a page can be linked to: `#panes=base,grad&at=219&theme=dark`. */

import { metricsThere } from "./costs.js";
import { model } from "./model.js";
import { state } from "./state.js";
import { chosenTheme } from "./theme.js";

export function remember() {
  const said = new URLSearchParams();
  said.set("panes", state.panes.map((pane) => pane.stage.id).join(","));
  const kept = state.kept && state.kept.place !== null && model.rowAt[state.kept.place];
  if (kept && kept.id !== undefined) said.set("at", kept.id);
  const graphs = state.panes.filter((pane) => pane.box.classList.contains("graph")).map((pane) => pane.stage.id);
  if (graphs.length) said.set("graph", graphs.join(","));
  if (state.metric !== "flops") said.set("figures", state.metric);
  if (state.maths) said.set("names", "maths");
  if (chosenTheme()) said.set("theme", chosenTheme());
  try {
    history.replaceState(null, "", `#${said.toString().replaceAll("%2C", ",")}`);
  } catch {
    // In a notebook's frame the page has no address of its own, and nothing to remember.
  }
}

/** What the address asks for, as far as this page has it. */
export function asked(stages) {
  const said = new URLSearchParams(location.hash.slice(1));
  const ids = (key) => (said.get(key) || "").split(",").filter((id) => stages.some((stage) => stage.id === id));
  const place = model.placeOfId.get(Number(said.get("at")));
  return {
    panes: [...new Set(ids("panes"))],
    graphs: ids("graph"),
    place: said.has("at") && place !== undefined ? place : null,
    metric: metricsThere().includes(said.get("figures")) ? said.get("figures") : null,
    maths: said.get("names") === "maths",
    theme: ["light", "dark"].includes(said.get("theme")) ? said.get("theme") : null,
  };
}

/** Whether the page stands in a frame of another: `?embed`, or the data say so. */
export const isEmbedded = (data) => new URLSearchParams(location.search).has("embed") || data.inline === true;
