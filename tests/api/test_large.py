"""The note on large programs names the line that made most equations, and the loop that it stands in."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import pullback as pb
from pullback import numpy as pnp
from pullback.api import large
from pullback.core.errors import LargeProgramWarning


def step(x: Any) -> Any:
    y = pnp.sin(x)
    return y * 0.5 + x


def one_loop(x: Any) -> Any:
    for _ in range(100):
        x = step(x)
    return x


def a_comprehension(x: Any) -> Any:
    return [x * float(i) for i in range(300)]


def a_while(x: Any) -> Any:
    i = 0
    while i < 300:
        x = x + 1.0
        i += 1
    return x


def two_loops(x: Any) -> Any:
    for _ in range(20):
        for _ in range(10):
            x = pnp.cos(x) * 2.0
    return x


def a_small_loop_in_a_large_one(x: Any) -> Any:
    for _ in range(60):
        x = layers(x)
    return x


def layers(x: Any) -> Any:
    for _ in range(4):
        x = step(x)
    return x


def recursion(x: Any, depth: int = 300) -> Any:
    return x if not depth else recursion(pnp.sin(x), depth - 1)


def a_small_loop_beside_many_lines(x: Any) -> Any:
    for _ in range(3):
        x = x + 1.0
    return one_loop(x)


def line_of(function: Callable[..., Any], text: str) -> str:
    """A line of a function's, as messages name it."""
    lines, first = inspect.getsourcelines(function)
    return f"{__file__}:{first + next(i for i, line in enumerate(lines) if text in line)} ("


MANY = {  # the function, the number of equations, who made most of them and how many, and the loops from outside in
    "one loop": (one_loop, 300, (step, "0.5", 200), [(one_loop, "step(x)")]),
    "a comprehension": (a_comprehension, 300, (a_comprehension, "float(i)", 300), None),
    "a while": (a_while, 300, (a_while, "x + 1.0", 300), None),
    "two loops": (two_loops, 400, (two_loops, "cos", 400), None),
    "in two functions": (
        a_small_loop_in_a_large_one,
        720,
        (step, "0.5", 480),
        [(a_small_loop_in_a_large_one, "layers(x)"), (layers, "step(x)")],
    ),
    "recursion": (recursion, 300, (recursion, "sin", 300), []),
    "beside another": (a_small_loop_beside_many_lines, 303, (step, "0.5", 200), [(one_loop, "step(x)")]),
}


def several_lines(x: Any) -> Any:
    for _ in range(60):
        x = x * 0.5
        x = pnp.sin(x)
        x = x + 1.0
        x = step(x)
        x = pnp.cos(x) * 2.0 + x
    return x


def test_a_loop_of_several_lines_is_named_by_all_that_it_makes() -> None:
    (note,) = noted(pb.xpr, several_lines, 1.0)
    assert "has 540 equations. 180 of them were made at" in note and line_of(several_lines, "pnp.cos") in note
    assert "That line is in a Python loop, which is recorded pass after pass, 540 equations in all." in note


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "MANY", 250)
    large._noted.clear()


def noted(function: Callable[..., Any], *args: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        function(*args)
    assert all([one.category is LargeProgramWarning and one.filename == __file__ for one in seen])
    return [str(one.message) for one in seen]


@pytest.mark.parametrize("which", MANY)
def test_the_note_names_the_line_and_its_loops(which: str) -> None:
    function, count, (maker, text, made), loops = MANY[which]
    (note,) = noted(pb.xpr, function, 1.0)
    assert f"has {count} equations. {made} of them were made at {line_of(maker, text)}" in note
    assert "pb.lax.scan" in note and "PULLBACK_LARGE_PROGRAM=0" in note
    assert ("That line is in a Python loop" in note) == (loops is None)
    places = [note.find(line_of(inside, line)) for inside, line in loops or ()]
    assert -1 not in places and places == sorted(places)
    assert ("They come through a Python loop" in note) == bool(loops)


def test_the_note_is_given_once_a_function_and_a_transformation() -> None:
    assert len(noted(pb.jit(one_loop), 1.0)) == 1
    assert noted(pb.jit(one_loop), pnp.ones(3)) == []
    assert len(noted(pb.jit(two_loops), pnp.ones(3))) == 1


def test_derivatives_count_too() -> None:
    def short(x: Any) -> Any:
        for _ in range(60):
            x = step(x)
        return x

    assert noted(pb.xpr, short, 1.0) == []
    (note,) = noted(pb.xpr, pb.grad(short), 1.0)
    assert line_of(step, "sin") in note or line_of(step, "0.5") in note


def test_what_is_one_operation_is_small() -> None:
    assert noted(pb.jit(lambda x: pb.lax.fori_loop(0, 1000, lambda i, x: step(x), x)), 1.0) == []


def test_none_are_too_many_where_the_bound_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "MANY", 0)
    assert noted(pb.xpr, one_loop, 1.0) == []


def test_the_bound_itself_is_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "MANY", 300)
    assert noted(pb.xpr, one_loop, 1.0) == []


def test_as_an_error_it_leaves_nothing_behind() -> None:
    jitted = pb.jit(lambda x: one_loop(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error", LargeProgramWarning)
        with pytest.raises(LargeProgramWarning):
            jitted(1.0)
    assert jitted(1.0).shape == ()


@pytest.mark.parametrize(
    ("value", "says"), [("7", "7"), ("0", "0"), ("many", "must be a number of equations, or 0, not 'many'")]
)
def test_the_environment_variable(value: str, says: str) -> None:
    code = "from pullback.api import large; print(large.MANY)"
    env = {**os.environ, "PULLBACK_LARGE_PROGRAM": value}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert says in done.stdout + done.stderr


def test_a_program_that_is_run_was_told_of_when_it_was_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "MANY", 10**6)
    program = pb.xpr(one_loop, 1.0)
    monkeypatch.setattr(large, "MANY", 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert float(pb.jit(program)(1.0)) == pytest.approx(float(program(1.0)))
