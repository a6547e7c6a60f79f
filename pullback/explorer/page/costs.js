/** Costs by source line, and the figures that rows can show. */

import { model } from "./model.js";
import { state } from "./state.js";
import { brief, byteText, lineName, percent, timeText } from "./text.js";

const COMPARED = ["base", "grad", "vmap"];
const MOST_COLUMNS = 4;

export const METRICS = {
  flops: { name: "FLOPs", short: brief, full: (amount) => amount.toLocaleString("en") },
  bytes: { name: "Bytes moved", short: brief, full: byteText },
  live: { name: "Live memory", short: brief, full: byteText },
  time: { name: "Measured time", short: timeText, full: timeText },
  values: { name: "Values" },
  none: { name: "No figures" },
};

export function metricsThere() {
  return Object.keys(METRICS).filter((name) => (name === "time" ? model.timed : name === "values" ? model.valued : true));
}

/** The stages whose costs by line are compared: of a page without those usual ones, the first few Programs; of measured times,
 * those that have some. */
export function comparedStages(metric = lineMetric()) {
  const programs = model.stages.filter((stage) => stage.kind === "program");
  if (metric === "time") return programs.filter(isTimed).slice(0, MOST_COLUMNS);
  const usual = COMPARED.map((id) => model.byId.get(id)).filter((stage) => stage && stage.kind === "program");
  return usual.length > 1 || programs.length < 2 ? usual.slice(0, MOST_COLUMNS) : programs.slice(0, MOST_COLUMNS);
}

const isTimed = (stage) => (stage.timed ??= stage.rows.some((row) => row.time));

/** The figure by which lines are compared: memory and values do not add up by line. */
export const lineMetric = () => (["bytes", "time"].includes(state.metric) ? state.metric : "flops");

/** What the equations of each source line cost in a stage: a Map from the id of the line's row. */
export function lineCosts(stage, metric) {
  stage.lineCosts ||= {};
  if (stage.lineCosts[metric]) return stage.lineCosts[metric];
  const sums = new Map();
  stage.rows.forEach((row, index) => {
    // What an equation that holds others costs is in those that it holds.
    if (row.op === undefined || row.span || row.line === undefined) return;
    sums.set(row.line, (sums.get(row.line) || 0) + stage.figures[metric][index]);
  });
  let total = 0;
  let most = 0;
  for (const sum of sums.values()) {
    total += sum;
    most = Math.max(most, sum);
  }
  return (stage.lineCosts[metric] = { sums, total, most });
}

/** The pane of costs: the source lines that cost anything, the most expensive first. Its rows are indices of source rows. */
export function costStage() {
  const columns = comparedStages();
  if (!model.source || !columns.length) return null;
  const stage = {
    id: "costs",
    name: "Costs",
    by: "by source line",
    kind: "costs",
    columns,
    rows: [],
    deltas: [],
    start: model.source.start,
  };
  sortCosts(stage);
  return stage;
}

/** Puts the lines in order by the figure that rows show, and the stages that have it side by side. */
export function sortCosts(stage) {
  stage.columns = comparedStages();
  const last = stage.columns[stage.columns.length - 1];
  const { sums, total } = lineCosts(last, lineMetric());
  const { rows } = model.source;
  const cost = (index) => sums.get(rows[index].id) || 0;
  stage.rows = rows
    .map((row, index) => index)
    .filter((index) => stage.columns.some((column) => lineCosts(column, lineMetric()).sums.get(rows[index].id)))
    .sort((a, b) => cost(b) - cost(a));
  const first = rows[stage.rows[0]];
  const what = { flops: "FLOPs", bytes: "bytes", time: "time of operations that were not merged" }[lineMetric()];
  stage.deltas =
    first === undefined || !total
      ? []
      : [`${lineName(first)} costs most in “${last.name}”: ${percent(sums.get(first.id), total)} of the ${what}.`];
}
