"""The data of a page under construction: rows with ids of their own, rules, and where in the data each equation is."""

from __future__ import annotations

import inspect
import itertools
import pathlib
import textwrap
from collections.abc import Sequence
from typing import Any

import pullback
from pullback.core.primitive import Primitive
from pullback.core.source import CodeSource, Source
from pullback.explorer.lines import SourceLines
from pullback.program.batching import batch_axes_of
from pullback.program.equation import Equation, Graph, Made, Variable

VERSION = 1
LONGEST_RULE = 40  # lines of a rule's source that are shown
_PACKAGE = pathlib.Path(pullback.__file__).parent

Row = dict[str, Any]


class PageData:
    """What becomes one page, as docs/explorer-format.md describes it.

    Attributes:
        data: the data so far. lines: the user's lines that are shown.
        rows: by the id of a stage and that of an equation, the rows that the equation became.
        results: by the id of such a row, the variables of the equation's results.
        axes: the batch axes of variables. What is simplified has the variables that it had before, and may lack those by which
            their axes were known.
    """

    def __init__(self, title: str, call: str, outside: CodeSource | None = None, entry: CodeSource | None = None) -> None:
        self.data: dict[str, Any] = {"format": "pullback.explorer", "version": VERSION, "title": title, "call": call}
        self.data |= {"file": "", "rules": [], "stages": []}
        self.rows: dict[str, dict[int, list[Row]]] = {}
        self.results: dict[int, tuple[Variable, ...]] = {}
        self.axes: dict[Variable, frozenset[int]] = {}
        self.lines = SourceLines(outside, entry)
        self._next = itertools.count(1).__next__
        self.children: dict[str, dict[int, list[Row]]] = {}  # of stages, by the ids of the rows before
        self.rule_numbers: dict[tuple[str, str], int] = {}

    def row(self, **fields: Any) -> Row:
        """A new row."""
        return {"id": self._next(), **fields}

    def stage(self, id: str, **fields: Any) -> dict[str, Any]:
        """A new stage, behind those that there are."""
        made = {"id": id, **fields}
        self.data["stages"].append(made)
        self.rows[id] = {}
        return made

    def note_batch_axes(self, program: Graph) -> None:
        """Add those of the variables of a Program."""
        for variable, axes in batch_axes_of(program).items():
            self.axes[variable] = self.axes.get(variable, axes) | axes

    def placed(self, stage: str, equation: Equation, row: Row) -> None:
        """Note that an equation became a row of a stage."""
        self.rows[stage].setdefault(equation.id, []).append(row)
        self.results[row["id"]] = equation.outputs

    def found(self, stage: str, equation: Equation | None) -> list[Row]:
        """The rows of a stage that an equation is, or was derived from, by way of whatever Programs lie between."""
        known = self.rows.get(stage, {})
        while equation is not None:
            if rows := known.get(equation.id):
                return rows
            equation = equation.origin
        return []

    def derived(self, stage: str, parents: Sequence[Row]) -> list[Row]:
        """The rows of a stage, which is there as a whole, that came from any of some rows."""
        if stage not in self.children:
            found = self.children[stage] = {}
            for rows in self.rows[stage].values():
                for row in rows:
                    for parent, _ in row["from"]:
                        found.setdefault(parent, []).append(row)
        known = self.children[stage]
        return [row for parent in parents for row in known.get(parent["id"], ())]

    def add_source(self, sources: list[Source]) -> None:
        """Show the user's functions that have these lines."""
        rows = self.lines.read(sources, self.row)
        self.data["file"] = self.lines.title
        self.stage("source", name="Source", by="your function", kind="source", rows=rows)

    def rule(self, made: Made, equation: Equation) -> int:
        """The place among the page's rules of the one by which an equation was made."""
        primitive = made.primitive
        if primitive is None:
            primitive = equation.primitive if equation.origin is None else equation.origin.primitive
        field = _field(primitive, made.rule)
        key = (primitive.name, field)
        if key not in self.rule_numbers:
            self.rule_numbers[key] = len(self.data["rules"])
            self.data["rules"].append(_described(primitive, field))
        return self.rule_numbers[key]


# What derives a rule where a primitive does not have it, first choice first.
_INSTEAD = {
    "jvp": ("partials", "linear", "expand"),
    "linearize": ("partials", "linear", "jvp", "expand"),
    "partials": ("jvp",),
    "transpose": ("partials", "expand"),
    "vectorize": ("expand",),
}


def _field(primitive: Primitive, rule: str) -> str:
    """The field of a primitive that a rule is, or follows from."""
    for name in (rule, *_INSTEAD.get(rule, ())):
        if getattr(primitive, name, None):
            return name
    return rule


def _described(primitive: Primitive, field: str) -> dict[str, str]:
    """A rule: its name, where it stands, and its source."""
    entry = {"name": f"{primitive.name}.{field}"}
    found = getattr(primitive, field, None)
    if found is None:
        return entry
    if not callable(found):
        return {**entry, "text": f"{field} = {found!r}"}
    function = inspect.unwrap(getattr(found, "func", found))
    try:
        lines, first = inspect.getsourcelines(function)
        file = pathlib.Path(inspect.getfile(function))
    except (OSError, TypeError):  # a function in C, or one that was made without a file
        return entry
    shown = textwrap.dedent("".join(lines[:LONGEST_RULE])).rstrip()
    more = len(lines) - LONGEST_RULE
    where = file.relative_to(_PACKAGE.parent).as_posix() if file.is_relative_to(_PACKAGE) else file.name
    return {**entry, "at": f"{where}:{first}", "text": f"{shown}\n... {more} more lines" if more > 0 else shown}
