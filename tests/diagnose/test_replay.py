"""replay: a Program run on NumPy, equation by equation, gives what eager evaluation gives, to the last bit."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.diagnose.recording import MOST_CAUGHT
from pullback.diagnose.replay import ROWS
from pullback.explorer.checked import check_page

_SPEC = importlib.util.spec_from_file_location(
    "random_cases", pathlib.Path(__file__).parent.parent / "differential" / "generate.py"
)
assert _SPEC is not None and _SPEC.loader is not None
random_cases = importlib.util.module_from_spec(_SPEC)
sys.modules["random_cases"] = random_cases  # where its NamedTuples look for themselves
_SPEC.loader.exec_module(random_cases)


class Eager:
    """The library without compilation."""

    def __getattr__(self, name: str) -> Any:
        return getattr(pb, name)

    @staticmethod
    def jit(function: Any) -> Any:
        return function


def bits(value: Any) -> bytes:
    return np.asarray(pb.random.key_data(value) if "key" in str(value.dtype) else value).tobytes()


def same(found: Any, expected: Any) -> None:
    found, expected = pb.tree.leaves(found), pb.tree.leaves(expected)
    assert [x.dtype for x in found] == [x.dtype for x in expected]
    assert [x.shape for x in found] == [x.shape for x in expected]
    assert [bits(x) for x in found] == [bits(x) for x in expected]


# Of seed 5, those of the first 60 cases that have all the derivatives that they ask for.
@pytest.mark.parametrize("number", range(60))
def test_random_programs_under_random_stacks(number: int) -> None:
    case = random_cases.draw(5, number)
    with pb.default_bits(64):
        function = random_cases.stacked(Eager(), case)
        x = pnp.asarray(case.x)
        same(pb.replay(function, x).result, function(x))
        jitted = random_cases.stacked(pb, case)
        np.testing.assert_allclose(pb.replay(jitted, x).result, jitted(x), rtol=1e-6 if x.dtype == "float32" else 1e-12)


@pytest.mark.campaign
@pytest.mark.parametrize("number", range(60, 1000))
def test_random_programs_campaign(number: int) -> None:
    case = random_cases.draw(5, number)
    with pb.default_bits(64):
        function, x = random_cases.stacked(Eager(), case), pnp.asarray(case.x)
        try:
            expected = function(x)
        except pb.errors.GradientError:  # of a function without such a derivative
            with pytest.raises(pb.errors.GradientError):
                pb.replay(function, x)
            return
        same(pb.replay(function, x).result, expected)


def newton(x: Any) -> Any:
    def solve(f: Any, guess: Any) -> Any:
        return pb.lax.fori_loop(0, 20, lambda _, y: y - f(y) / pb.grad(f)(y), guess)

    def tangent_solve(g: Any, y: Any) -> Any:
        return y / g(1.0)

    return pb.lax.custom_root(lambda y: y * y - x, x, solve, tangent_solve)


def linear(b: Any) -> Any:
    matrix = pnp.array([[3.0, 1.0], [1.0, 2.0]])
    return pb.lax.custom_linear_solve(
        lambda x: matrix @ x,
        b,
        lambda matvec, b: pb.lax.fori_loop(0, 9, lambda _, x: x + 0.2 * (b - matvec(x)), b),
        symmetric=True,
    )


def loops(x: Any) -> Any:
    def step(carry: Any, y: Any) -> Any:
        carry = pb.lax.cond(pnp.sum(carry) > 1.0, lambda c: c * y, lambda c: c + y, carry)
        return carry, pnp.sin(carry)

    carry, ys = pb.lax.scan(step, x, pnp.arange(4.0), reverse=True)
    return pb.lax.while_loop(lambda c: pnp.sum(c) < 50.0, lambda c: c * 2.0 + 1.0, pnp.abs(carry)), ys


def drawn(key: Any) -> Any:
    def step(key: Any, _: Any) -> Any:
        key, own = pb.random.split(key)
        return key, pb.random.normal(own, (3,))

    return pb.lax.scan(step, key, None, length=4)


@pb.custom_jvp
def softened(x: Any) -> Any:
    return pnp.sqrt(x * x + 1.0)


softened.defjvp(lambda primals, tangents: (softened(primals[0]), tangents[0] * primals[0] / softened(primals[0])))

V = np.float32([0.5, -1.5])
CALLS: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "no equations": (lambda x: x, (V,), ""),
    "a number": (lambda x: x * pnp.sin(x), (3,), ""),
    "a constant": (lambda x: x + pnp.arange(2.0), (V,), ""),
    "a tree": (lambda p: {"y": p["w"] * p["b"]}, ({"w": V, "b": 2.0},), ""),
    "loops": (loops, (V,), ""),
    "loops, batched": (loops, (np.stack([V, -V, V * 9]),), "vmap"),
    "loops, pushed forward": (loops, (V, V), "jvp"),
    "loops, each element its own branch": (loops, (np.stack([V, -V]),), "vmap(strategy='map')"),
    "a root": (newton, (np.float32(2.0),), "value_and_grad"),
    "a linear system": (lambda b: pnp.sum(linear(b)), (V,), "grad"),
    "a batch of linear systems": (lambda b: pnp.sum(linear(b)), (np.stack([V, 2 * V]),), "grad,vmap"),
    "a checkpoint": (lambda x: pnp.sum(pnp.sin(pnp.sin(x))), (V,), "checkpoint,grad"),
    "a custom function": (lambda x: pnp.sum(softened(x)), (V,), "grad"),
    "a Jacobian": (lambda x: pnp.outer(x, x), (V,), "jacrev,jacfwd"),
    "keys": (drawn, (pb.random.key(3),), ""),
    "bfloat16": (lambda x: pnp.sum(pnp.exp(x)), (V.astype("bfloat16"),), "grad"),
    "float8": (lambda x: x * 2 + x, (pnp.asarray(V, dtype="float8_e4m3fn"),), ""),
    "complex": (lambda x: pnp.exp(x) * x, (V + 1j * V[::-1],), "vmap"),
    "integers": (lambda x: (x // 3, x % 3, x << 1), (np.arange(-4, 5),), "vmap"),
    "bools": (lambda x: pnp.any(x) & ~pnp.all(x), (np.array([True, False]),), ""),
    "no elements": (lambda x: (pnp.sum(x), pnp.sin(x)), (np.zeros((0, 3), "f4"),), ""),
    "a loop of no steps": (lambda x: pb.lax.scan(lambda c, y: (c + y, c), x, pnp.zeros((0, 2))), (V,), ""),
    "a named axis": (lambda x: pb.lax.psum(x, "i"), (V,), "vmap(axis_name='i')"),
    "a sharded map": (
        lambda x: pb.shard_map(lambda y: y * 2.0, mesh=pb.make_mesh((1,), ("d",)), in_specs=pb.P("d"), out_specs=pb.P("d"))(x),
        (V,),
        "",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_is_what_eager_evaluation_gives(name: str) -> None:
    function, args, apply = CALLS[name]
    args = pb.tree.map(lambda x: pnp.asarray(x) if isinstance(x, np.ndarray) else x, args)
    with pb.default_bits(32):
        transformed = pb.api.applied.apply_transformations(function, apply)
        same(pb.replay(function, *args, apply=apply).result, transformed(*args))


def test_a_program_is_run_as_it_is() -> None:
    program = pb.xpr(loops, V)
    run = pb.replay(program, pnp.asarray(V))
    same(run.result, program(pnp.asarray(V)))
    inner = {one.id for held in program.subprograms() for one in held.equations}
    assert {one.id for one in program.equations} <= run.values.keys() and run.values.keys() & inner


def test_static_arguments_and_what_is_no_array_are_handed_on() -> None:
    def f(x: Any, n: int, mode: str = "power", *, fn: Any = None) -> Any:
        for _ in range(n):
            x = x * 2.0 if mode == "double" else x * x
        return x if fn is None else fn(x)

    jitted = pb.jit(f, static_argnums=1, static_argnames=("mode", "fn"))
    same(pb.replay(jitted, pnp.array(3.0), 2, "double").result, pnp.array(12.0))
    same(pb.replay(jitted, pnp.array(3.0), 2, apply="grad").result, pb.grad(lambda x: x**4)(pnp.array(3.0)))
    same(pb.replay(jitted, pnp.array(3.0), 2, mode="double", fn=pnp.sin).result, pnp.sin(pnp.array(12.0)))
    assert pb.find_nan(jitted, pnp.array(3.0), 2, mode="double") is None
    same(pb.replay(lambda x, how: x + len(how), pnp.array(1.0), "four").result, pnp.array(5.0))
    with pytest.raises(pb.errors.LeafError, match=r"p\['how'\] is 'four' of type str"):
        pb.replay(lambda p: p["x"], {"x": 1.0, "how": "four"})


# ---- values ---------------------------------------------------------------------------------------------------------------


def test_values_are_those_of_each_equation_over_all_steps() -> None:
    def f(x: Any) -> Any:
        return pb.lax.scan(lambda c, y: (c + y, c * 10.0), x, pnp.array([1.0, 2.0, 3.0]))

    run = pb.replay(f, pnp.float32(0.5))
    by_name = {one.equation.primitive.name: one for one in run.equations}
    assert list(by_name) == ["scan", "add", "mul"]
    added, scaled = by_name["add"].outputs[0], by_name["mul"].outputs[0]
    assert (added.times, added.minimum, added.maximum, added.mean) == (3, 1.5, 6.5, pytest.approx((1.5 + 3.5 + 6.5) / 3))
    assert (scaled.minimum, scaled.maximum, scaled.sample) == (5.0, 35.0, [5.0])
    assert (by_name["add"].depth, by_name["add"].place, by_name["add"].times) == (1, "step 0 of scan", 3)
    assert len(by_name["scan"].outputs) == 2 and by_name["scan"].seconds >= by_name["add"].seconds >= 0


def test_what_is_not_finite_is_counted_apart() -> None:
    x = pnp.array([0.0, 1.0, -1.0, 4.0])
    (logged,) = pb.replay(pnp.log, x).equations
    stats = logged.outputs[0]
    assert (stats.nan, stats.inf, stats.maximum, stats.mean) == (1, 1, pytest.approx(np.log(4)), pytest.approx(np.log(4) / 2))
    assert stats.minimum == -np.inf
    text = json.dumps(logged.data(), allow_nan=False)
    assert '"min": "-inf"' in text and '"nan": 1' in text


OF_DTYPES: dict[str, tuple[Any, Any, str]] = {
    "keys": (pb.random.key(0), None, "random keys"),
    "bools": (pnp.array([True, False]), False, "False .. True, mean 0.5"),
    "narrow integers": (pnp.asarray([1, 3], dtype="int4"), 1, "1 .. 3, mean 2.0"),
    "complex": (pnp.array([3 + 4j, 0j]), 0.0, "size 0.0 .. 5.0, mean 1.5+2j"),
    "bfloat16": (pnp.asarray([1.0, 2.0], dtype="bfloat16"), 1.0, "1.0 .. 2.0, mean 1.5"),
    "large numbers": (pnp.array([3e38, 3e38], dtype="float32"), float(np.float32(3e38)), "3e+38 .. 3e+38, mean 3e+38"),
    "nothing": (pnp.zeros((2, 0)), None, "no elements"),
    "NaN alone": (pnp.array([np.nan]), None, "NaN"),
}


@pytest.mark.parametrize("name", OF_DTYPES)
def test_values_of_all_dtypes(name: str) -> None:
    value, least, text = OF_DTYPES[name]
    stats = pb.replay(lambda x: pb.lax.optimization_barrier(x), value).equations[0].outputs[0]
    assert (stats.minimum, str(stats)) == (least, text)
    json.dumps(stats.data(), allow_nan=False)


def test_it_prints_each_equation_with_its_line() -> None:
    text = str(pb.replay(lambda x: pnp.sum(pnp.sin(x)), pnp.zeros(3), apply="grad,jit"))
    assert "call" in text and "cos" in text and pathlib.Path(__file__).name in text
    assert "sin" not in text  # which a gradient does not need


def test_a_long_listing_is_cut() -> None:
    def f(x: Any) -> Any:
        for _ in range(ROWS + 7):
            x = x + 1.0
        return x

    assert "... and 7 more" in str(pb.replay(f, 0.0))


def test_show_prints_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    pb.replay(lambda x: pb.lax.fori_loop(0, 2, lambda i, y: y * 3.0, x), 1.0, show=True)
    lines = [line for line in capsys.readouterr().out.splitlines() if "mul" in line]
    assert len(lines) == 2 and "3.0  # step 0 of scan" in lines[0] and "9.0  # step 1 of scan" in lines[1]


# ---- what is caught ---------------------------------------------------------------------------------------------------------


def test_limits_catch_values_outside_and_nan() -> None:
    def f(x: Any) -> Any:
        return pb.lax.scan(lambda c, y: (pnp.sqrt(c - y), None), x, pnp.array([1.0, 1.0, 1.0]))[0]

    run = pb.replay(f, 4.0, limits=(0.0, 100.0))
    assert [(one.equation.primitive.name, one.place) for one in run.caught] == [
        ("sub", "step 2 of scan"),
        ("sqrt", "step 2 of scan"),
        ("scan", ""),
    ]
    assert "outside 0.0 .. 100.0" in str(run)


def test_watch_is_given_each_equation_with_its_results() -> None:
    seen = []

    def watch(equation: pb.Program, values: tuple[Any, ...]) -> bool:
        seen.append((equation.primitive.name, [value.shape for value in values]))
        return equation.primitive.name == "reduce_sum"

    run = pb.replay(lambda x: pnp.sum(pnp.sin(x)), pnp.zeros(3), watch=watch)
    assert seen == [("sin", [(3,)]), ("reduce_sum", [()])]
    assert [one.why for one in run.caught] == ["watched"]


def test_only_so_much_is_kept_of_what_is_caught() -> None:
    run = pb.replay(lambda x: pb.lax.fori_loop(0, MOST_CAUGHT, lambda i, y: y + 1.0, x), 0.0, watch=lambda *_: True)
    assert len(run.caught) == MOST_CAUGHT < run.all_caught


def test_what_a_watch_raises_comes_out() -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    for watch, error in ((lambda *_: 1 / 0, ZeroDivisionError), (interrupt, KeyboardInterrupt)):
        with pytest.raises(error):
            pb.replay(lambda x: pb.lax.fori_loop(0, 3, lambda i, y: y * 2.0, x), 1.0, watch=watch)
        assert float(pb.jit(pnp.sin)(0.5)) == pytest.approx(np.sin(0.5))


# ---- what is wrong ----------------------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no function": ({"fun": 3}, TypeError, "takes a function"),
    "a type": ({"args": (pb.ArrayType((3,)),)}, pb.errors.LeafError, "x is the type f32"),
    "a text for a flag": ({"show": "yes"}, TypeError, "show must be True or False"),
    "no limits": ({"limits": 3}, TypeError, "a pair of numbers"),
    "limits the wrong way": ({"limits": (2, 1)}, TypeError, "the smaller one first"),
    "watch": ({"watch": 3}, TypeError, "watch takes a function"),
    "tolerance": ({"tolerance": -1.0}, TypeError, "0 or more"),
    "a line without operations": ({"stop_at": 1}, ValueError, "no operation comes from line 1.*test_replay.py"),
    "no line": ({"stop_at": "model.py"}, ValueError, '"model.py:12"'),
    "no lines": ({"stop_at": []}, ValueError, "names no line"),
    "nothing is caught": ({"stop_at": "caught"}, ValueError, "watch=... or limits=..."),
    "tolerance of nothing": ({"tolerance": 0.1}, ValueError, "compare=True"),
    "debugger for nothing": ({"debugger": print}, ValueError, "stop_at=..."),
    "another thing": ({"stop_at": 1.5}, TypeError, "a line's number"),
    "no transformation": ({"apply": "gard"}, ValueError, "Did you mean 'grad'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name: str) -> None:
    given, error, text = WRONG[name]
    given = {"fun": lambda x: pnp.sin(x), "args": (1.0,), **given}
    with pytest.raises(error, match=text):
        pb.replay(given.pop("fun"), *given.pop("args"), **given)


def test_it_runs_on_values_only() -> None:
    with pytest.raises(pb.errors.EscapedTracerError, match="argument x is a traced one"):
        pb.jit(lambda y: pb.replay(lambda x: x + 1.0, y).result)(1.0)


def test_inside_a_traced_function_it_runs_on_what_is_known() -> None:
    seen = []

    @pb.jit
    def f(x: Any) -> Any:
        seen.append(float(pb.replay(pnp.sin, 0.5).result))
        return x

    f(1.0)
    assert seen == [float(pnp.sin(0.5))]
    assert len(pb.xpr(f, 1.0).equations) <= 1


def test_places_that_are_made_inside() -> None:
    def f(x: Any) -> Any:
        total = pb.new_ref(pnp.zeros(2))

        def body(_: Any, c: Any) -> Any:
            total[...] = total[...] + c
            return c * 2.0

        pb.lax.fori_loop(0, 3, body, x)
        return total[...]

    assert np.asarray(pb.replay(f, pnp.asarray(V), compare=True).result).tolist() == [3.5, -10.5]


ON_DEVICES = """
import numpy as np, pullback as pb, pullback.numpy as pnp
mesh = pb.make_mesh((4,), ("d",))
x = pb.device_put(pnp.arange(8.0), pb.NamedSharding(mesh, pb.P("d")))
def f(x):
    total = pb.shard_map(lambda y: pb.lax.psum(y * 2.0, "d"), mesh=mesh, in_specs=pb.P("d"), out_specs=pb.P())(x)
    return pnp.sum(total * pnp.sum(x))
for apply in ("", "grad,jit"):
    run = pb.replay(f, x, apply=apply, compare=True)
    expected = pb.api.applied.apply_transformations(f, apply)(x)
    assert np.array_equal(np.asarray(run.result), np.asarray(expected)) and not run.comparison, run
assert pb.find_nan(f, x) is None
on_third = pb.device_put(pnp.arange(8.0), pb.devices()[2])
assert not pb.replay(pnp.sin, on_third, compare=True).comparison
"""


def test_arrays_on_devices() -> None:
    environment = {**os.environ, "PULLBACK_CPU_DEVICES": "4"}
    done = subprocess.run([sys.executable, "-W", "error", "-c", ON_DEVICES], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_callbacks_run_in_order() -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        def step(c: Any, y: Any) -> Any:
            pb.debug.callback(lambda value: seen.append(float(value)), c)
            return c + y, None

        return pb.lax.scan(step, x, pnp.arange(3.0))[0]

    pb.replay(f, 1.0)
    assert seen == [1.0, 1.0, 2.0]


SEEN: list[float] = []


def noted(x: Any) -> Any:
    pb.debug.callback(lambda v: SEEN.append(float(v)), x)
    return x * 2.0


EFFECTS: dict[str, tuple[Any, str, Any, list[float]]] = {
    "once": (noted, "", 1.5, [1.5]),
    "in a jitted function": (lambda x: pb.jit(noted)(x), "", 1.5, [1.5]),
    "in steps": (lambda x: pb.lax.scan(lambda c, y: (noted(c), y), x, None, length=3), "", 1.0, [1.0, 2.0, 4.0]),
    "in an open loop": (lambda x: pb.lax.while_loop(lambda c: noted(c) < 8.0, noted, x), "", 1.0, [1.0, 1.0, 2.0, 2.0, 4.0]),
    "in a branch": (lambda x: pb.lax.cond(x > 0, noted, lambda y: y, x), "", 1.0, [1.0]),
    "of a gradient": (lambda x: noted(x) ** 2, "grad", 1.0, [1.0]),
    "of a batch": (noted, "vmap", np.float32([1, 2]), [1.0, 2.0]),
}


@pytest.mark.parametrize("name", EFFECTS)
def test_what_is_done_for_its_effect_is_done_once(name: str) -> None:
    function, apply, x, calls = EFFECTS[name]
    runs: list[Any] = [
        lambda: pb.replay(function, x, apply=apply, compare=True),
        lambda: pb.find_nan(function, x, apply=apply, backward=False if name == "in an open loop" else None),
        lambda: pb.explore(function, x, apply=apply, values=True, compile=False),
    ]
    for run in runs:
        SEEN.clear()
        run()
        assert calls == SEEN


def test_a_finding_of_a_checking_block_repeats_no_effect() -> None:
    SEEN.clear()
    with pytest.raises(pb.errors.NotFinite), pb.checking(nan="error"):
        pb.jit(lambda x: pnp.log(noted(x)))(-1.0)
    assert SEEN == [-1.0]


@pytest.mark.parametrize("first", [True, False])
def test_copies_of_an_equation_of_which_one_has_fewer_results_have_their_own_values(first: bool) -> None:
    """Of a jitted function that is called twice, one call may leave a result unused, which dead code takes out of its copy."""

    @pb.jit
    def layer(x: Any) -> Any:
        return pb.lax.cond(x > 0, lambda v: (pnp.sin(v), v * 1000.0), lambda v: (v, v), x)

    def f(x: Any) -> Any:
        calls = [lambda: layer(x), lambda: (0.0, layer(x + 1.0)[1])]
        (a, b), (c, d) = [call() for call in (calls if first else calls[::-1])]
        return a + b + c + d

    x = np.float32(1.0)
    (cond,) = [one for one in pb.replay(f, x).equations if one.equation.primitive.name == "cond"]
    values = [stats.data() for stats in cond.outputs]
    assert [(one["min"], one["max"]) for one in values] == [(np.sin(x), np.sin(x)), (1000.0, 2000.0)]
    page = pb.explore(f, x, values=True, compile=False).data
    check_page(page)
    rows = [row for row in page["stages"][-1]["rows"] if row.get("op") == "cond"]
    large = [row["value"][-1] if isinstance(row["value"], list) else row["value"] for row in rows]
    assert len(rows) == 2 and [(one["min"], one["max"]) for one in large] == [(1000.0, 2000.0)] * 2
