"""docs/native.md runs, prints what it shows, and tells the numbers of the tier."""

from __future__ import annotations

import math
import pathlib
import re
from collections.abc import Callable

import pytest
from running import runner
from test_samples import REFUSED

from pullback.engine import tiers
from pullback.native import choice, clusters, flow, ir, kernel
from pullback.native.checked import TOLERANCE
from pullback.native.ir import UNKNOWN_TRIPS
from pullback.native.kernel import PARALLEL, SECONDS_A_WEIGHT
from pullback.native.math import FUNCTIONS
from pullback.ops.reduce import MANY
from pullback.ops.sort import FEW

TESTS = pathlib.Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "native.md"
TEXT = " ".join(PAGE.read_text().split())


def test_the_page_runs() -> None:
    running = runner()
    for step, printed in running.outputs(PAGE):
        assert running.matches(step.expected or "", printed), f"native.md:{step.line} printed\n{printed}"


def rows() -> dict[str, tuple[float, ...]]:
    found = re.findall(r"^\| `([\w.]+)` \| ([\d.]+) \| ([\d.]+) \|$", PAGE.read_text(), re.M)
    return {name: (float(of_f64), float(of_f32)) for name, of_f64, of_f32 in found}


def test_the_table_of_functions() -> None:
    assert rows() == {name.removeprefix("chlo."): function.ulps for name, function in FUNCTIONS.items()}


def test_the_table_of_what_is_refused() -> None:
    table = PAGE.read_text().partition("| what is refused |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", table)) == set(REFUSED)


SAID: dict[str, Callable[[], float]] = {  # what stands around a number: what it must be
    r"\((\d+) times where that is not known\)": lambda: UNKNOWN_TRIPS,
    r"\(([\d.]+) s at least\)": lambda: tiers.LEAST_SECONDS,
    r"or there have been (\d+),": lambda: tiers.MANY_CALLS,
    r"at ([\d.]+) ns each": lambda: round(SECONDS_A_WEIGHT * 1e9, 6),
    r"More than ([\de]+) floating-point": lambda: choice.MOST_FLOPS,
    r"of a number, are more than ([\d,]+)": lambda: choice.LARGE_PRODUCT,
    r"\(so (\d+)³ in float32": lambda: math.floor((choice.LARGE_PRODUCT / 4) ** (1 / 3) + 1e-9),
    r"and (\d+)³ in float64": lambda: math.floor((choice.LARGE_PRODUCT / 8) ** (1 / 3)),
    r"float64; ([\d,]+) in the step": lambda: choice.LARGE_STEP,
    r"convolution of more than ([\d,]+)": lambda: choice.LARGE_WINDOWS,
    r"code of more than ([\d,]+) instructions": lambda: ir.MOST_LINES,
    r"more than (\d+) arrays as arguments": lambda: kernel.MAX_ARRAYS,
    r"transpose of more than ([\d,]+)": lambda: choice.LARGE_TRANSPOSE,
    r"more than ([\d,]+) bytes can lie": lambda: choice.GIVEN,
    r"A weight of at most ([\d,]+) \(some": lambda: choice.LIGHT,
    r"or of ([\d,]+) where there is a convolution": lambda: choice.WINDOWS,
    r"that weighs less than ([\d,]+):": lambda: choice.KEYED,
    r"step weighs at most ([\d,]+)": lambda: choice.LIGHT_STEP,
    r"arrays of more than ([\d,]+) bytes together": lambda: choice.COPIED,
    r"A weight of at most ([\d,]+) \(on two": lambda: choice.ALONE,
    r"no less than ([\d,]+)": lambda: choice.LIGHT,
    r"its weight is above ([\d,]+)": lambda: PARALLEL,
    r"on at least (\d+) elements": lambda: clusters.LEAST,
    r"sorts of more than (\d+) elements": lambda: FEW,
    r"among (\d+) floating-point": lambda: MANY,
    r"at most (\d+) are added": lambda: flow._TERMS,
    r"more than ([\de-]+) of the largest": lambda: TOLERANCE["float32"],
    r"\(([\de-]+) in float64": lambda: TOLERANCE["float64"],
    r"([\de-]+) in float16": lambda: TOLERANCE["float16"],
    r"([\de-]+) in bfloat16": lambda: TOLERANCE["bfloat16"],
}


@pytest.mark.parametrize("pattern", SAID)
def test_numbers(pattern: str) -> None:
    (said,) = re.findall(pattern, TEXT)
    assert float(said.replace(",", "")) == SAID[pattern]()


def test_every_mode_is_described() -> None:
    assert set(re.findall(r"\| `PULLBACK_NATIVE=(\w+)` \|", TEXT)) == set(choice.MODES)
