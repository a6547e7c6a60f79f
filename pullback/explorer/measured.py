"""Measured time on a page: the flame graph of `pb.profile`, its frames connected with the rows of the equations."""

from __future__ import annotations

from typing import Any

from pullback.analysis.profile import profile
from pullback.api.functions import Function
from pullback.core.trees import kind_of
from pullback.explorer.page_data import PageData
from pullback.explorer.stages import ProgramStage
from pullback.program.printing import share_counts


def add_profile(page: PageData, stage: ProgramStage, fun: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Run the Program of a stage under XLA's profiler, and add what took how long.

    Arguments:
        args, kwargs: what the transformed function is called with; they need values.
    """
    leaves = kind_of(fun).flatten((args, kwargs))[0]
    found = profile(stage.program, *leaves)
    rows: dict[int, int] = {}  # by the ids of equations of what ran, those of rows
    for program in share_counts(found.program)[0]:
        for equation in program.equations:
            shown = page.found(stage.id, equation)
            if shown:
                rows[equation.id] = shown[0]["id"]
    flame = found.flame()
    flame["rows"][0]["name"] = page.data["call"]
    for frame in flame["rows"]:
        frame["from"] = list(dict.fromkeys([rows[id] for id in frame["from"] if id in rows]))
    page.data["profile"] = {**flame, "name": "Time", "by": f"XLA's operations, measured in {found.runs} runs"}
