"""docs/costs.md: its examples run, and its figures are those of the rules."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from running import runner

import pullback as pb
from pullback.analysis.compiled import MOST_EQUATIONS
from pullback.testing import all_primitives

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "costs.md"


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    running = runner()
    shown = list(running.outputs(PAGE))
    assert len(shown) == 3
    for step, printed in shown:
        assert running.matches(step.expected or "", printed), f"costs.md:{step.line} printed\n{printed}"


def test_the_estimates_that_it_names_are_those_of_the_rules() -> None:
    by_name = {p.name: p for p in all_primitives()}
    said = dict(re.findall(r"(\d+) for `(\w+)`", PAGE.read_text()))
    assert said == {"4": "sqrt", "8": "exp", "12": "sin", "20": "pow"}
    assert all([by_name[name].cost == int(number) for number, name in said.items()])


def test_the_number_of_equations_up_to_which_xla_is_asked() -> None:
    assert f"functions of up to {MOST_EQUATIONS} equations" in PAGE.read_text()
    assert f"no more than {MOST_EQUATIONS} equations" in (pb.cost.__doc__ or "")
    assert f"no more than {MOST_EQUATIONS} equations" in (pb.memory.__doc__ or "")


def test_the_data_are_what_the_page_says() -> None:
    x = pb.ArrayType((4, 4), "float32")
    page = PAGE.read_text().split("## As data")[1]
    costs, memory = page.split("| of memory | |")
    for table, part, lists in (
        (pb.cost(pb.grad(square), x), costs, ("equations",)),
        (pb.memory(pb.grad(square), x, donate_argnums=0), memory, ("values", "residuals", "donated")),
    ):
        found = json.loads(table.to_json())
        keys = {*found} - {"format", "version", "name"}
        keys |= {key for name in lists for key in found[name][0]} - {"name"}
        keys |= {*found.get("total", {})}
        said = {*re.findall(r"`(\w+)`", part)}
        assert keys <= said, keys - said


def square(x: Any) -> Any:
    return pb.numpy.sum(pb.numpy.sin(x @ x) ** 2)
