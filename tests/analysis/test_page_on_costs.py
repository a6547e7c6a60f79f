"""docs/costs.md: its examples run, and its figures are those of the rules."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

import pullback as pb
from pullback.analysis.compiled import MOST_EQUATIONS
from pullback.testing import all_primitives

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "costs.md"


def runner() -> Any:
    spec = importlib.util.spec_from_file_location("tutorial_runner", TESTS / "tutorials" / "tutorial_runner.py")
    assert spec is not None and spec.loader is not None
    running = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(running)
    return running


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
