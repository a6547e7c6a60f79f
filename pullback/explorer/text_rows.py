"""StableHLO, and what XLA made of it, as rows: each operation with the equations that it came from, by the ids in its name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from pullback.analysis.compiled import has_loops
from pullback.analysis.hlo import HOLDERS, called_in, computations_of, operations_of
from pullback.core.brief import counted
from pullback.engine.backend import Executable
from pullback.engine.compile import lower_to_text, numbered_executable
from pullback.explorer.page_data import PageData, Row
from pullback.program.program import Program
from pullback.program.provenance import numbered_name

_LOCATION = re.compile(r' loc\("(?:[^"\\]|\\.)*?#(\d+)"\("(?:[^"\\]|\\.)*"(?::\d+)*\)\)')
_NAMED = re.compile(r"%([\w.\-]+)")
_DETAILS = re.compile(r", (?:metadata|backend_config|frontend_attributes)=\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}")
_LAYOUT = re.compile(r"(\w\[[\d,]*\])\{[\d,]*(?::[^}]*)?\}")
_COPYING = re.compile(r" (?:copy|bitcast|transpose)\(|calls=%wrapped_(?:copy|transpose)")
_TRIVIAL = re.compile(r" (?:parameter|tuple|get-tuple-element|constant|bitcast)\(")


def add_compiled(page: PageData, program: Program, of: str) -> None:
    """Compile a Program, and add a stage of StableHLO and one of what XLA made of it.

    Arguments:
        of: the id of the stage that shows the Program.
    """
    source = lower_to_text(program, located=numbered_name)
    executable, optimized = numbered_executable(program)
    origins = {id: rows[0] for id, rows in page.rows[of].items()}
    stage = page.stage("stablehlo", name="StableHLO", by="jit, lowered", kind="text")
    stage["rows"] = _nested([_stablehlo_row(page, line, origins) for line in source.rstrip("\n").split("\n")])
    stage["count"] = sum([" = " in row["text"] for row in stage["rows"]])
    stage["deltas"] = [f"{counted(stage['count'], 'operation')} for {counted(len(page.rows[of]), 'equation')}."]
    stage = _add_optimized(page, optimized, origins)
    stage["backend"] = _figures(executable)
    if has_loops(program):
        stage["deltas"].append("XLA's FLOPs and bytes count one step of each loop.")


def _stablehlo_row(page: PageData, line: str, origins: dict[int, Row]) -> Row:
    found = _LOCATION.search(line)
    row = page.row(text=_LOCATION.sub("", line).rstrip())
    parent = None if found is None else origins.get(int(found[1]))
    if parent is not None:
        _descend(row, [parent])
    return row


def _descend(row: Row, parents: Sequence[Row]) -> None:
    """A row of text came from rows of equations."""
    row["from"] = [[parent["id"], -1] for parent in parents]
    row["role"] = Counter([parent["role"] for parent in parents]).most_common(1)[0][0]
    lines = {parent.get("line") for parent in parents}
    if len(lines) == 1 and None not in lines:
        row["line"] = parents[0]["line"]


def _nested(rows: list[Row]) -> list[Row]:
    """Text rows whose braces hold others, indented by them. What is said of an operation with regions stands behind the last of
    these: it is true of the rows that open them, too."""
    opened: list[list[int]] = []  # for each brace that is open, the rows that opened the regions of its operation so far
    for i, row in enumerate(rows):
        text = row["text"].strip()
        while (shorter := re.sub(r"\{[^{}]*\}|\"[^\"]*\"", "", text)) != text:
            text = shorter
        opens, closes = text.count("{"), text.count("}")
        regions = opened.pop() if closes and opened else []
        if regions:
            start = regions[-1]
            rows[start]["span"] = i - start - (opens > 0)
        row["text"] = "  " * len(opened) + row["text"].strip()
        if opens:
            opened.append([*regions, i])
        else:
            told: Row = {name: row[name] for name in ("from", "role", "line") if name in row}
            for place in regions:
                rows[place].update(told)
    return rows


# ---- what XLA made of it ------------------------------------------------------------------------------------------------


def _add_optimized(page: PageData, text: str, origins: dict[int, Row]) -> dict[str, Any]:
    stage = page.stage("optimized", name="Optimized", by="jit, compiled by XLA", kind="text")
    rows = _Optimized(page, text, origins).entry()
    arguments = [row for row in rows if not row["text"].startswith(" ") and " parameter(" in row["text"]]
    given = {row["id"] for row in arguments}
    head = [page.row(head="args", label=counted(len(arguments), "argument"), span=len(arguments)), *arguments]
    stage["rows"] = [*(head if arguments else []), *[row for row in rows if row["id"] not in given]]
    steps = [row for row in rows if row.get("main") and not _TRIVIAL.search(row["text"])]
    stage["count"] = len(steps)
    merged = sum([len(row.get("from", ())) > 1 for row in steps])
    unknown = sum(["from" not in row for row in steps])
    told = [f"{merged:,} merged from several equations"] if merged else []
    told += [f"{unknown:,} that XLA does not tell the origin of"] if unknown else []
    stage["deltas"] = [counted(len(steps), "step") + (f"; {', '.join(told)}." if told else ".")]
    return stage


def _figures(executable: Executable) -> dict[str, float]:
    """What the compiler itself says of the program; it counts the body of a loop once."""
    costs, memory = executable.cost_analysis(), executable.memory_analysis()
    temporary = memory.get("temp_size_in_bytes", 0)
    arrays = sum([memory.get(f"{name}_size_in_bytes", 0) for name in ("argument", "output")])
    known = {"flops": costs.get("flops", 0.0), "bytes": costs.get("bytes accessed", 0.0)}
    return {**{name: max(0.0, value) for name, value in known.items()}, "temp": temporary, "peak": arrays + temporary}


class _Optimized:
    """Optimized HLO as rows: the entry computation, and under each operation the computations that it calls."""

    def __init__(self, page: PageData, text: str, origins: dict[int, Row]) -> None:
        self.page, self.origins = page, origins
        self.computations, self.main = computations_of(text)
        self.shown: set[str] = set()
        self.operations = operations_of(text)

    def entry(self) -> list[Row]:
        return self.rows(self.main, 0, True)

    def rows(self, name: str, depth: int, runs: bool) -> list[Row]:
        """The operations of a computation; one that is called several times is shown where that is first.

        Arguments:
            runs: whether they are steps, each of which runs by itself; those of a fusion run as one.
        """
        self.shown.add(name)
        found: list[Row] = []
        made: dict[str, list[Row]] = {}  # by the name of a value, the equations that it came from
        for line in self.computations.get(name, ()):
            text = _LAYOUT.sub(r"\1", _DETAILS.sub("", line.strip()))
            row = self.page.row(text="  " * depth + text)
            value, *read = _NAMED.findall(text)
            holds = runs and self.operations[value].opcode in HOLDERS
            if runs:
                row["main"] = True
            shown = [name for name in dict.fromkeys(called_in(line)) if name in self.computations and name not in self.shown]
            inner = [one for name in shown for one in self.rows(name, depth + 1, holds)]
            parents = made[value] = self.parents(value, text, [made.get(one, []) for one in read], row)
            if parents:
                _descend(row, parents)
            if inner:
                row["span"] = len(inner)
            found += [row, *inner]
        return found

    def parents(self, name: str, text: str, read: list[list[Row]], row: Row) -> list[Row]:
        """The equations that an operation came from; what is to be said of that becomes the row's note."""
        parents = [self.origins[id] for id in self.operations[name].equations if id in self.origins]
        if len(parents) > 1:
            row["note"] = f"Merged from {len(parents)} equations."
        elif not parents and _COPYING.search(text) and read and read[0]:
            row["note"] = "A copy that XLA made."
            return read[0]
        elif not parents and not _TRIVIAL.search(text):
            row["note"] = "Unknown: XLA made this, and does not tell for which equation."
        return parents
