"""The text form of a page: what each stage did, and the stages as lines, in colour on a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pullback.core.brief import counted
from pullback.explorer.words import sized

Spans = list[tuple[str, str]]
"""A line: pieces of text, each with the name of its style; "" for none."""

# The styles in the words of rich. Roles are also told by a letter, so that nothing is said by colour alone.
STYLES = {
    "heading": "bold",
    "soft": "dim",
    "primal": "",
    "tangent": "cyan",
    "cotangent": "red",
    "residual": "magenta",
    "batch": "bold blue",
    "axis": "bright_magenta",
    "dead": "dim strike",
    "kept": "bold magenta",
}
LETTERS = {"primal": " ", "tangent": "t", "cotangent": "c", "residual": "r", "batch": "b", "dead": "x"}
LEGEND = (
    "t tangent, c cotangent, r only there for a derivative, b batch plumbing, x dead or merged, * kept for the backward pass"
)
_SIZES = re.compile(r"\[([\d,]*)\]")


def summary(data: Mapping[str, Any]) -> list[Spans]:
    """A line for each stage: how many equations, what they cost, the peak of memory, and what the transformation did; and what
    was found in the values."""
    lines: list[Spans] = [[(data["title"], "heading"), (f"  {data['call']}", "soft")]]
    table = [("", "equations", "FLOPs", "peak")]
    stages = [stage for stage in data["stages"] if stage["kind"] != "source"]
    for stage in stages:
        flops = f"{stage['flops']:,.0f}" if "flops" in stage else ""
        peak = sized(stage["peak"][1]) if "peak" in stage else ""
        table.append((f"{stage['name']} ({stage['id']})", f"{stage.get('count', 0):,}", flops, peak))
    widths = [max([len(row[i]) for row in table]) for i in range(4)]
    for row, stage in zip(table, [{}, *stages]):
        cells = f"{row[0]:<{widths[0]}}" + "".join([f"  {cell:>{width}}" for cell, width in zip(row[1:], widths[1:])])
        lines.append([(cells, "soft" if not stage else ""), (f"  {' '.join(stage.get('deltas', ()))}", "soft")])
    found = data["find"]["text"].splitlines() if "find" in data else []
    return [*lines, *[[(line, "")] for line in found]]


def listing(data: Mapping[str, Any], stages: Iterable[str]) -> Iterator[Spans]:
    """Stages as lines: a mark for the role, names, types with the sizes of batch axes in their colour, operations, lines."""
    lines = [row for one in data["stages"] if one["kind"] == "source" for row in one["rows"] if "line" in row]
    places = {row["id"]: f"{row['file']}:{row['line']}" if "file" in row else f"line {row['line']}" for row in lines}
    shown = {stage["id"]: stage for stage in data["stages"]}
    for id in stages:
        stage = shown[id]
        yield [(f"{stage['name']}", "heading"), (f"  {stage['by']}", "soft")]
        for delta in stage.get("deltas", ()):
            yield [(f"  {delta}", "soft")]
        if stage["kind"] == "source":
            for row in stage["rows"]:
                yield [(f"{row.get('line', ''):>5}  ", "soft"), (row["text"], "")]
        else:
            yield from _Stage(stage, places).lines()
        yield []


class _Stage:
    def __init__(self, stage: Mapping[str, Any], places: Mapping[int, str]) -> None:
        self.stage, self.places = stage, places
        self.variables = stage.get("vars", ())

    def lines(self) -> Iterator[Spans]:
        rows = self.stage["rows"]
        ends: list[int] = []  # where the rows end that hold the next one
        place = 0
        while place < len(rows):
            row = rows[place]
            while ends and place >= ends[-1]:
                ends.pop()
            line = self.line(row, "  " * len(ends))
            if line is not None:
                yield line
            if row.get("head") == "copy" and not row["label"].startswith("1 "):  # repetitions show their first copy
                place += 1 + row["span"]
                continue
            if row.get("span"):
                ends.append(place + 1 + row["span"])
            place += 1

    def line(self, row: Mapping[str, Any], indent: str) -> Spans | None:
        if "head" in row:
            if row["head"] == "copy":
                return None
            if row["head"] == "repeat":
                each = counted(row["period"], "equation")
                each = "each" if row["label"] == each else f"{each} each"
                told = f"  {each}; the first of {row['count']} is shown"
                return [(f"  {indent}", ""), (f"x{row['count']} {row['label']}", "heading"), (told, "soft")]
            return [(f"  {indent}", ""), (row["label"], "heading")]
        if "text" in row:
            return [(f"{LETTERS.get(row.get('role', ''), ' ')} {indent}", "soft"), (row["text"].strip(), row.get("role", ""))]
        if "arg" in row:
            named = [(f"  {row['arg']}", "soft")] if row["arg"] else []
            return [(f"  {indent}", ""), *self.declared(row), *named]
        if "ret" in row:
            return [(f"  {indent}", ""), ("return ", "soft"), (" ".join([self.atom(atom) for atom in row["ret"]]), "")]
        return self.equation(row, indent)

    def equation(self, row: Mapping[str, Any], indent: str) -> Spans:
        role = row["role"]
        params = ", ".join([f"{name}={value}" for name, value in row.get("params", ())])
        spans = [(f"{LETTERS[role]} {indent}", role), *self.declared(row), (" = ", ""), (row["op"], role)]
        if params:
            spans.append((f"[{params}]", "soft"))
        spans.append(("".join([f" {self.atom(atom)}" for atom in row["in"]]), ""))
        if "trips" in row:
            spans.append((f"  {counted(row['trips'], 'step')}", "soft"))
        if row.get("line") in self.places:
            spans.append((f"  # {self.places[row['line']]}", "soft"))
        return spans

    def declared(self, row: Mapping[str, Any]) -> Spans:
        spans: Spans = []
        for place, number in enumerate(row["out"]):
            name, type, *batch = self.variables[number]
            kept = place in row.get("kept", ())
            spans.append((f"{', ' if place else ''}{name}{'*' if kept else ''}", "kept" if kept else ""))
            spans += [(":", ""), *_type(type, batch[0] if batch else ())]
        return spans

    def atom(self, atom: int | str) -> str:
        return atom if isinstance(atom, str) else str(self.variables[atom][0])


def _type(type: str, batch: Iterable[int]) -> Spans:
    """A type, the sizes of batch axes and of other axes in their styles."""
    found = _SIZES.search(type)
    if found is None or not found[1]:
        return [(type, "soft")]
    spans: Spans = [(f"{type[: found.start()]}[", "soft")]
    for axis, size in enumerate(found[1].split(",")):
        spans += [(",", "soft")] if axis else []
        spans.append((size, "batch" if axis in batch else "axis"))
    return [*spans, (f"]{type[found.end() :]}", "soft")]
