/** Reads the data of the page, and refuses what the rest of the page could not show truthfully. */

const FORMAT = "pullback.explorer";
const VERSION = 1;
const KINDS = ["source", "program", "text"];
const AT_MOST = 8; // problems that are told

/** What is wrong with the data: a sentence, and a list of particulars. */
export class DataError extends Error {
  constructor(sentence, particulars = []) {
    super(sentence);
    this.particulars = particulars;
  }
}

export function readData(text) {
  let data;
  try {
    data = JSON.parse(text);
  } catch (error) {
    throw new DataError("The data of this page are damaged: they are not JSON.", [error.message]);
  }
  if (data === null || typeof data !== "object" || data.format !== FORMAT) {
    throw new DataError(`This page holds no data of the format ${FORMAT}.`);
  }
  if (data.version !== VERSION) {
    throw new DataError(
      `The data have version ${JSON.stringify(data.version)} of the format; this page reads version ${VERSION}.`,
      ["Make the page again with the version of pullback that made its data."],
    );
  }
  const problems = problemsOf(data);
  if (problems.length) throw new DataError("The data of this page are damaged.", problems);
  return data;
}

function problemsOf(data) {
  const problems = [];
  const say = (text) => problems.length < AT_MOST && problems.push(text);
  if (!Array.isArray(data.stages) || !data.stages.length) return ["There are no stages."];
  const ids = new Set();
  const names = new Set();
  for (const stage of data.stages) {
    if (stage === null || typeof stage !== "object" || typeof stage.id !== "string" || !Array.isArray(stage.rows)) {
      return ["A stage lacks its id or its rows."];
    }
    if (names.has(stage.id)) say(`Two stages have the id "${stage.id}".`);
    names.add(stage.id);
    if (!KINDS.includes(stage.kind)) say(`Stage "${stage.id}" is of kind ${JSON.stringify(stage.kind)}.`);
    stage.rows.forEach((row, index) => {
      if (row === null || typeof row !== "object") return say(`Row ${index} of stage "${stage.id}" is not an object.`);
      if (!Number.isInteger(row.id)) return say(`Row ${index} of stage "${stage.id}" has no id.`);
      if (ids.has(row.id)) say(`Two rows have the id ${row.id}.`);
      ids.add(row.id);
    });
  }
  if (problems.length) return problems;
  for (const stage of data.stages) checkStage(stage, ids, data.rules || [], say);
  const named = (id) => ids.has(id);
  if (data.find && !named(data.find.row)) say(`What was found names row ${data.find.row}, which is not there.`);
  for (const frame of (data.profile && data.profile.rows) || []) {
    if (!(frame.from || []).every(named)) say(`"${frame.name}" of the profile names a row that is not there.`);
  }
  return problems;
}

function checkStage(stage, ids, rules, say) {
  const variables = (stage.vars || []).length;
  const isVariable = (atom) => Number.isInteger(atom) && atom >= 0 && atom < variables;
  const ends = []; // of the rows that hold the one at hand
  stage.rows.forEach((row, index) => {
    const tell = (problem) => say(`Row ${row.id} of stage "${stage.id}" ${problem}`); // no text is made of rows without one
    while (ends.length && index > ends[ends.length - 1]) ends.pop();
    const end = index + (row.span || 0);
    if (end >= stage.rows.length || (ends.length && end > ends[ends.length - 1])) tell("holds rows beyond its end.");
    if (row.span) ends.push(end);
    if (!isOfAKind(row)) tell("is of no kind.");
    if (row.op !== undefined && !(Array.isArray(row.out) && Array.isArray(row.in))) tell("lacks its results or operands.");
    if (row.arg !== undefined && !Array.isArray(row.out)) tell("is an input without a variable.");
    for (const atoms of [row.out, row.in, row.ret]) {
      if (!Array.isArray(atoms)) continue;
      for (const atom of atoms) {
        if ((typeof atom === "number" || atoms === row.out) && !isVariable(atom))
          tell(`names variable ${JSON.stringify(atom)}, which is not there.`);
      }
    }
    for (const edge of row.from || []) {
      if (!Array.isArray(edge) || !ids.has(edge[0])) tell("comes from a row that is not there.");
      else if (edge[1] >= rules.length) tell("names a rule that is not there.");
    }
    if (stage.kind === "source") return;
    for (const key of ["line", "into"])
      if (row[key] !== undefined && !ids.has(row[key])) tell(`names row ${row[key]} as its ${key}, which is not there.`);
  });
  if (stage.peak && !ids.has(stage.peak[0])) say(`The peak of stage "${stage.id}" is at a row that is not there.`);
}

const isOfAKind = (row) =>
  row.op !== undefined || row.arg !== undefined || row.ret !== undefined || row.text !== undefined || row.head !== undefined;
