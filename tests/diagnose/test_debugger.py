"""replay in the debugger: where it stops, and what is there."""

from __future__ import annotations

import bdb
import io
import pathlib
import pdb  # noqa: T100
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.diagnose.debugger import Debugger

SCALE = 3.0
HERE = pathlib.Path(__file__).name


def layer(w: Any, h: Any) -> Any:
    z = h @ w
    return pnp.tanh(z)


def loss(w: Any, x: Any) -> Any:
    h = layer(w, x)
    y = h * SCALE

    def step(c: Any, t: Any) -> Any:
        c = pnp.sin(c) * t
        return c, pnp.sum(c)

    last, sums = pb.lax.scan(step, y, pnp.arange(3.0))
    return pnp.sum(last) + pnp.sum(sums)


@pytest.fixture(autouse=True)
def _no_breakpoints() -> Iterator[None]:
    """Python keeps breakpoints for the whole process."""
    yield
    bdb.Breakpoint.clearBreakpoints()


W, X = pnp.full((2, 2), 0.5), pnp.array([1.0, 2.0])


def line(text: str) -> int:
    """The number of the first line of this file that has a text."""
    lines = pathlib.Path(__file__).read_text().splitlines()
    return next(number for number, one in enumerate(lines, 1) if text in one)


def session(commands: str, function: Any = loss, args: Any = (W, X), **options: Any) -> str:
    """What the debugger says to these commands, one a line."""
    out = io.StringIO()
    options.setdefault("stop_at", line("y = h * SCALE"))
    pb.replay(function, *args, debugger=lambda: Debugger(io.StringIO(commands), out), **options)
    return out.getvalue()


def test_it_stops_once_the_line_has_run_with_the_users_names() -> None:
    text = session("p y\np h.shape, x\np SCALE\nc\n")
    assert f"{HERE}({line('y = h * SCALE')})loss()" in text and "-> y = h * SCALE" in text
    y = pb.replay(lambda w, x: layer(w, x) * SCALE, W, X).result
    assert repr(y) in text and "((2,), [1. 2.]:f32[2]:cpu(0))" in text and "3.0" in text
    assert text.count("this line has run") == 1


def test_the_stack_is_that_of_the_users_functions() -> None:
    text = session("w\np z, h\nu\np w\np h\nd\np z\nll\nc\n", stop_at=f"{HERE}:{line('z = h @ w')}")
    stack = text[text.index("(Pdb)") :]
    assert stack.index("loss()") < stack.index("layer()") and "pullback/" not in stack.replace(str(pathlib.Path(__file__)), "")
    assert "[[0.5 0.5]" in text  # w, in the caller
    assert "*** NameError: name 'h' is not defined" in text  # which the caller has not yet
    assert "def layer" in text and "return pnp.tanh(z)" in text and "def loss" not in text
    assert text.count("[1.5 1.5]:f32[2]:cpu(0)") == 2


def test_values_and_equations_are_those_of_the_line() -> None:
    text = session("p len(values), len(equations), equations[0].primitive.name, values[0].shape\nc\n")
    assert "(1, 1, 'mul', (2,))" in text


def test_it_stops_in_each_step_of_a_loop() -> None:
    at = line("c = pnp.sin(c) * t")
    text = session("p float(t), c.shape\nc\n" * 3, stop_at=at)
    assert [f"({float(i)}, (2,))" in text for i in range(4)] == [True, True, True, False]
    assert [f"in step {i} of scan" in text for i in range(4)] == [True, True, True, False]
    assert text.count("-> c = pnp.sin(c) * t") == 3


def test_it_stops_in_the_backward_pass_too() -> None:
    text = session("c\n" * 9, apply="grad", stop_at=line("y = h * SCALE"))
    forward, backward = text.split("this line has run")[1:]
    assert "(cotangent)" in backward and "(cotangent)" not in forward


def test_next_goes_on_to_the_next_line() -> None:
    text = session("n\nn\nn\nc\n")
    places = [one for one in text.splitlines() if one.startswith("-> ")]
    assert places[:4] == [
        "-> y = h * SCALE",
        "-> c = pnp.sin(c) * t",
        "-> return c, pnp.sum(c)",
        "-> c = pnp.sin(c) * t",
    ]


def test_breakpoints_are_set_while_it_runs_with_their_conditions() -> None:
    at = line("return c, pnp.sum(c)")
    text = session(f"b {__file__}:{at}\nc\nc\nc\nc\n")
    assert text.count("-> return c, pnp.sum(c)") == 3
    bdb.Breakpoint.clearBreakpoints()
    text = session(f"b {__file__}:{at}, float(t) == 2\nc\nc\n")
    assert text.count("-> return c, pnp.sum(c)") == 1 and "in step 2 of scan" in text
    bdb.Breakpoint.clearBreakpoints()
    text = session(f"b {__file__}:{at}, len(values) > 1\nc\nc\n")
    assert "-> return c, pnp.sum(c)" not in text


def test_a_batch_has_its_axes() -> None:
    text = session("p y.shape\nc\n", args=(W, pnp.stack([X, X, X])), apply="vmap(in_axes=(None, 0))")
    assert "(3, 2)" in text


def test_in_compiled_code_too() -> None:
    text = session("p y.shape\nc\n", args=(W, pnp.stack([X, X, X])), apply="vmap(in_axes=(None, 0)),jit")
    assert "(3, 2)" in text


def test_it_stops_at_what_is_caught() -> None:
    text = session("p y\nc\n" + "c\n" * 20, stop_at="caught", limits=(-2.0, 2.0))
    assert "outside -2.0 .. 2.0: #" in text and "-> y = h * SCALE" in text


def test_it_stops_where_a_nan_is_made() -> None:
    def f(x: Any) -> Any:
        y = pnp.log(x)
        z = y - 1.0
        return pnp.sum(z * pnp.sqrt(z))

    text = session("p y\nc\np z\nc\n", f, (pnp.array([-1.0, 1.0]),), stop_at="nan")
    assert text.count("NaN is made") == 1 and "-> y = pnp.log(x)" in text and "[nan  0.]" in text
    text = session("c\n", f, (pnp.array([5.0]),), stop_at=["nan", line("z = y - 1.0")])
    assert "NaN is made" not in text and "-> z = y - 1.0" in text


def test_where_nan_is_asked_for_it_does_not_stop_at_what_is_caught() -> None:
    def function(x: Any) -> Any:
        y = x * 10.0
        return pnp.log(x) + y

    said = session("p y\nc\n", function, (-1.0,), stop_at="nan", limits=(-1.0, 1.0))
    assert said.count("return pnp.log(x) + y") == 2 and "outside" not in said and "-10.0" in said
    said = session("c\n" * 4, function, (-1.0,), stop_at="caught", limits=(-1.0, 1.0))
    assert "NaN is made" not in said and said.count("outside -1.0 .. 1.0") == 3


def test_the_arguments_of_a_function_are_shown() -> None:
    said = session("args\nu\na\nc\n", stop_at=line("z = h @ w"))
    assert "w = [[0.5 0.5]" in said and "h = [1. 2.]" in said and "x = [1. 2.]" in said
    said = session("a\nc\n", lambda *xs: pnp.sin(xs[0]), (1.0,), stop_at=line("lambda *xs: pnp.sin"))
    assert "none that is known" in said


@pb.custom_vjp
def floor(x: Any, low: Any) -> Any:
    return pnp.maximum(x, low)


def floor_forward(x: Any, low: Any) -> Any:
    return pnp.maximum(x, low), (x, low)


def floor_backward(kept: Any, cotangent: Any) -> Any:
    x, low = kept
    mask = pnp.where(x > low, 1.0, 0.0)
    return cotangent * mask, None


floor.defvjp(floor_forward, floor_backward)


def with_floor(x: Any) -> Any:
    y = floor(x, 0.0)
    return pnp.sum(y * y)


def test_it_stops_in_a_rule_below_what_that_is_applied_to() -> None:
    options = {"function": with_floor, "args": (pnp.array([1.0, -1.0]),), "apply": "grad"}
    said = session("p values\nargs\nu\np x, y\nc\n", stop_at=line("mask = pnp.where"), **options)
    assert "floor_backward()" in said and "-> mask = pnp.where(x > low, 1.0, 0.0)" in said
    assert "none that is known" in said  # the parameters of the call are not those of the rule
    assert "with_floor()" in said and "-> y = floor(x, 0.0)" in said
    assert "([ 1. -1.]:f32[2]:cpu(0), [1. 0.]:f32[2]:cpu(0))" in said
    said = session("c\n" * 3, stop_at=line("y = floor(x, 0.0)"), **options)
    assert said.count("-> y = floor(x, 0.0)") == 2  # forward and backward: the rules belong to the line that calls


def test_a_line_of_a_caller_stops_once_for_all_that_it_calls() -> None:
    text = session("p h\nc\n", stop_at=line("h = layer(w, x)"))
    assert text.count("this line has run") == 1 and "dot_general" in text and "tanh" in text
    assert "[0.9051482 0.9051482]" in text


def test_quit_ends_the_replay() -> None:
    tracing = sys.gettrace()
    with pytest.raises(bdb.BdbQuit):
        session("q\n")
    with pytest.raises(bdb.BdbQuit):
        session("")  # the end of the input
    assert sys.gettrace() is tracing
    assert float(pb.replay(pnp.sin, 0.0).result) == 0.0


def test_an_error_at_the_prompt_goes_on() -> None:
    assert "*** ZeroDivisionError" in session("p 1 / 0\nc\n")


def test_several_lines() -> None:
    text = session("c\n" * 5, stop_at=[line("y = h * SCALE"), f"{HERE}:{line('return pnp.sum(last)')}"])
    assert "-> y = h * SCALE" in text and "-> return pnp.sum(last) + pnp.sum(sums)" in text


def test_names_of_tuples_and_of_lambdas() -> None:
    def f(x: Any) -> Any:
        last, sums = pb.lax.scan(lambda c, t: (c * t, c + t), x, pnp.arange(1.0, 4.0))
        both = last + pnp.sum(sums)
        return both

    text = session("p last\np sums\nc\n", f, (2.0,), stop_at=line("both = last + pnp.sum"))
    assert "12.0" in text and "[3. 4. 7.]" in text


def test_names_of_an_earlier_step_are_gone() -> None:
    def step(c: Any, t: Any) -> Any:
        first = c * t
        second = first + 1.0
        return second, first

    text = session(
        "p first\np second\nc\n" * 2, lambda x: pb.lax.scan(step, x, pnp.arange(2.0)), (X,), stop_at=line("first = c * t")
    )
    assert text.count("*** NameError: name 'second' is not defined") == 2


class Model:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    def apply(self, x: Any, *, shift: Any) -> Any:
        return x * self.scale + shift


def test_parameters_of_methods_and_given_by_name() -> None:
    def f(x: Any) -> Any:
        moved = pnp.sin(x)
        return pnp.sum(Model(2.0).apply(pnp.cos(x), shift=moved))

    text = session("p x\np shift\nu\np moved\nc\n", f, (pnp.zeros(2),), stop_at=line("return x * self.scale + shift"))
    assert "[1. 1.]:f32[2]" in text and text.count("[0. 0.]:f32[2]") == 2


def test_a_serialized_program_stops_too() -> None:
    program = pb.xpr(loss, W, X)
    primitives = {one.primitive.name: one.primitive for part in (program, *program.subprograms()) for one in part.equations}
    again = pb.Program.from_json(program.to_json(), primitives)
    text = session("p values[0].shape\nc\n", again)
    assert "-> y = h * SCALE" in text and "(2,)" in text


def test_a_debugger_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match=r"replay's debugger must make a pullback\.diagnose\.debugger\.Debugger"):
        pb.replay(loss, W, X, stop_at=line("y = h * SCALE"), debugger=pdb.Pdb)
