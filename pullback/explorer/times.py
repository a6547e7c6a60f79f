"""Measured times: of equations, of what XLA made of them, and as a flame graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pullback.analysis.profile import profile
from pullback.core.array import Array
from pullback.explorer.page_data import PageData, Row
from pullback.explorer.stages import ProgramStage
from pullback.program.equation import Equation
from pullback.program.printing import share_counts


def add_times(page: PageData, stage: ProgramStage, leaves: Sequence[Array]) -> None:
    """Run a stage's Program as XLA compiles it, and note how long its parts take.

    An operation that XLA merged of several equations has a time, and its equations have none of their own.
    """
    found = profile(stage.program, *leaves)
    equations = {one.id: one for program in share_counts(found.program)[0] for one in program.equations}
    steps = _steps(page)
    for measured in found.rows:
        rows = _rows(page, stage, equations, measured.equations)
        if len(rows) == 1 and "op" in rows[0]:
            rows[0]["time"] = rows[0].get("time", 0.0) + measured.median
        if measured.name in steps:
            steps[measured.name]["time"] = measured.median
    for made in page.data["stages"]:
        if made["id"] == stage.id:
            made["time"] = found.total.median
    flame = found.flame()
    for frame in flame["rows"]:
        frame["from"] = [row["id"] for row in _rows(page, stage, equations, frame["from"])]
    flame["rows"][0]["name"] = page.data["call"]
    page.data["profile"] = {**flame, "name": "Time", "by": f"XLA's operations, measured in {found.runs} runs"}


def _rows(page: PageData, stage: ProgramStage, equations: Mapping[int, Equation], ids: Sequence[int]) -> list[Row]:
    """The rows of the stage for equations of the Program that ran, which repeats it."""
    found = {row["id"]: row for id in ids for row in page.found(stage.id, equations.get(id))[:1]}
    return [*found.values()]


def _steps(page: PageData) -> dict[str, Row]:
    """The operations of the optimized program, by XLA's names."""
    named: dict[str, Row] = {}
    for made in page.data["stages"]:
        if made["id"] == "optimized":
            for row in made["rows"]:
                head, equals, _ = row.get("text", "").strip().removeprefix("ROOT ").partition(" = ")
                if equals:
                    named[head.removeprefix("%")] = row
    return named
