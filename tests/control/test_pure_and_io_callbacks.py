"""pure_callback and io_callback: what they return, how often and in what order they are called, and what is refused."""

from __future__ import annotations

import bdb
import gc
import io
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.api.branches import cond
from pullback.api.loops import scan, while_loop

VECTOR = pb.ArrayType((3,), "float32")
NUMBER = pb.ArrayType((), "float32")
X = np.array([3.0, 1.0, 2.0], np.float32)


def sort(x: Any, **options: Any) -> Any:
    return pb.pure_callback(np.sort, pb.ArrayType(x.shape, x.dtype), x, **options)


WRAPPED: dict[str, Callable[[Any], Any]] = {
    "eager": lambda f: f,
    "jit": pb.jit,
    "jit in jit": lambda f: pb.jit(lambda x: pb.jit(f)(x)),
}

# ---- values --------------------------------------------------


@pytest.mark.parametrize("wrapped", WRAPPED)
def test_results_and_arguments_are_trees(wrapped: str) -> None:
    def split(pair: Any, scale: Any) -> Any:
        assert all(type(leaf) is np.ndarray for leaf in (*pair["x"], scale))
        return {"low": pair["x"][0] * scale, "high": (pair["x"][1].astype(np.int8), True)}

    announced = {"low": VECTOR, "high": (pb.ArrayType((2,), "int8"), pb.ArrayType((), bool))}
    f = WRAPPED[wrapped](lambda x: pb.pure_callback(split, announced, {"x": [x, np.arange(2)]}, scale=2.0))
    found = f(X)
    np.testing.assert_array_equal(found["low"], X * 2)
    assert [str(leaf.type) for leaf in pb.tree.leaves(found)] == ["i8[2]", "bool[]", "f32[3]"]


@pytest.mark.parametrize("wrapped", WRAPPED)
def test_the_function_has_its_own_copies(wrapped: str) -> None:
    kept = []

    def spoil(x: Any) -> Any:
        x[:] = 7.0
        kept.append(x)
        return x

    x = X.copy()
    y = WRAPPED[wrapped](lambda x: pb.pure_callback(spoil, VECTOR, x))(x)
    np.testing.assert_array_equal(x, X)
    kept[0][:] = 8.0
    np.testing.assert_array_equal(y, np.full(3, 7.0))


def test_python_numbers_take_the_announced_dtype() -> None:
    assert str(pb.pure_callback(lambda: 3, NUMBER)) == "3.0:f32[]:cpu(0)"
    with pytest.raises(pb.errors.DtypeError):
        pb.pure_callback(lambda: 3.5, pb.ArrayType((), "int32"))


METHODS = {
    "sequential": ([(3,), (3,)], [(), ()]),
    "expand_dims": ([(2, 3)], [(1,)]),
    "broadcast_all": ([(2, 3)], [(2,)]),
}


@pytest.mark.parametrize("wrapped", WRAPPED)
@pytest.mark.parametrize("method", METHODS)
def test_vmap(method: str, wrapped: str) -> None:
    shapes: list[Any] = []

    def function(x: Any, s: Any) -> Any:
        shapes.append((x.shape, s.shape))
        return np.sort(x, axis=-1) * np.asarray(s)[..., None]

    batch = np.stack([X, -X])
    f = pb.vmap(lambda x: pb.pure_callback(function, VECTOR, x, np.float32(2.0), vmap_method=method))
    np.testing.assert_array_equal(WRAPPED[wrapped](f)(batch), np.sort(batch, axis=-1) * 2)
    assert shapes == list(zip(*METHODS[method]))


@pytest.mark.parametrize("method", METHODS)
def test_vmap_twice(method: str) -> None:
    batch = np.arange(24, dtype="float32").reshape(2, 4, 3)[:, :, ::-1]
    f = pb.vmap(pb.vmap(lambda x: pb.pure_callback(lambda x: np.sort(x, axis=-1), VECTOR, x, vmap_method=method)))
    np.testing.assert_array_equal(pb.jit(f)(batch), np.sort(batch, axis=-1))
    empty = pb.vmap(lambda x: sort(x, vmap_method=method))(np.zeros((0, 3)))
    assert empty.shape == (0, 3)


def test_vmap_of_what_is_not_batched_calls_it_once() -> None:
    calls = []
    f = lambda x: x + pb.pure_callback(lambda: (calls.append(0), np.float32(1.0))[1], NUMBER)  # noqa: E731
    np.testing.assert_array_equal(pb.vmap(f)(X), X + 1)
    assert len(calls) == 1


# ---- how often, and in what order --------------------------------------------------


@pytest.mark.parametrize(("what", "times"), [("pure", 0), ("io", 1)])
def test_what_nobody_uses(what: str, times: int) -> None:
    calls = []
    function = {"pure": pb.pure_callback, "io": pb.io_callback}[what]

    @pb.jit
    def f(x: Any) -> Any:
        function(lambda x: (calls.append(0), x)[1], VECTOR, x)
        return x + 1.0

    f(X)
    assert len(calls) == times


@pytest.mark.parametrize(("what", "times"), [("pure", 1), ("io", 2)])
def test_two_calls_that_are_the_same(what: str, times: int) -> None:
    calls = []

    def note(x: Any) -> Any:
        calls.append(0)
        return x

    function = {"pure": pb.pure_callback, "io": pb.io_callback}[what]
    pb.jit(lambda x: function(note, VECTOR, x) + function(note, VECTOR, x))(X)
    assert len(calls) == times


def storyteller(seen: list[Any]) -> Callable[[Any], Any]:
    """A function with loops in loops, branches and an inner jit, each of which says where it is."""

    def say(word: str, x: Any) -> None:
        pb.io_callback(lambda v: seen.append((word, int(v))), None, x, ordered=True)

    def inner(x: Any, i: Any) -> Any:
        say("inner", x + i)
        return x, None

    def step(x: Any, i: Any) -> Any:
        say("step", x)
        scan(inner, x, np.arange(2, dtype="int32"))
        cond(x > 11, lambda: say("big", x), lambda: say("small", x))
        say("end", x)
        return x + 1, None

    def grow(x: Any) -> Any:
        say("while", x)
        return x + 50

    def told(x: Any) -> Any:
        say("start", x)
        y, _ = scan(step, x, None, 3)
        pb.jit(lambda y: say("jit", y))(y)
        y = while_loop(lambda y: y < 100, grow, y)
        say("stop", x)
        return y

    return told


def the_story(x: int) -> list[Any]:
    lines: list[Any] = [("start", x)]
    for y in range(x, x + 3):
        lines += [("step", y), ("inner", y), ("inner", y + 1), ("big" if y > 11 else "small", y), ("end", y)]
    lines.append(("jit", x + 3))
    lines += [("while", y) for y in range(x + 3, 100, 50)]
    return [*lines, ("stop", x)]


@pytest.mark.parametrize("wrapped", WRAPPED)
def test_order(wrapped: str) -> None:
    seen: list[Any] = []
    f = WRAPPED[wrapped](storyteller(seen))
    for _ in range(3):
        seen.clear()
        assert int(f(np.int32(10))) == 113
        assert seen == the_story(10)


@pytest.mark.parametrize("wrapped", WRAPPED)
def test_pure_calls_in_functions_of_their_own_beside_io_in_loops(wrapped: str) -> None:
    seen: list[float] = []
    more = pb.jit(lambda x: pb.pure_callback(lambda v: v + 1, NUMBER, x))
    twice = pb.jit(lambda x: pb.pure_callback(lambda v: v * 2, NUMBER, x))

    def step(c: Any, _: Any) -> Any:
        c = more(c)
        pb.io_callback(lambda v: seen.append(float(v)), None, c)
        return while_loop(lambda y: y < 3, lambda y: twice(more(y)), twice(c)), None

    f = WRAPPED[wrapped](lambda x: twice(scan(step, more(x), None, 3)[0]))
    assert float(f(np.float32(1.0))) == 60.0
    assert seen == [3.0, 7.0, 15.0]


def test_order_under_vmap() -> None:
    seen: list[int] = []
    f = pb.vmap(lambda x: pb.io_callback(lambda v: seen.append(int(v)), None, x, ordered=True))
    pb.jit(f)(np.arange(5))
    assert seen == [0, 1, 2, 3, 4]


def test_io_results_enter_the_computation_once() -> None:
    numbers = iter(range(100))

    def draw(x: Any, _: Any) -> Any:
        return x + pb.io_callback(lambda: np.float32(next(numbers)), NUMBER), None

    assert float(pb.jit(lambda x: scan(draw, x, None, 5)[0])(0.0)) == 0 + 1 + 2 + 3 + 4
    slope = pb.grad(pb.checkpoint(lambda x: pnp.sin(x * pb.io_callback(lambda: np.float32(next(numbers)), NUMBER))))(1.0)
    np.testing.assert_allclose(slope, 5 * np.cos(5.0), rtol=1e-5)
    assert next(numbers) == 6


# ---- mistakes --------------------------------------------------

WRONG = {
    "shape": (lambda x: x[:2], pb.errors.ShapeError, r"result\['y'\] of the callback .* has shape \(2,\).*f32\[3\]"),
    "dtype": (
        lambda x: x.astype("float64"),
        pb.errors.DtypeError,
        r"result\['y'\] of the callback .* has dtype float64.*astype",
    ),
    "structure": (lambda x: [x], pb.errors.StructureError, "output is a list where result_shape_dtypes has a dict"),
    "none": (lambda x: None, pb.errors.StructureError, "output is None where"),
}


@pytest.mark.parametrize("wrapped", WRAPPED)
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("function", [pb.pure_callback, pb.io_callback])
def test_another_result_than_was_announced(function: Any, wrong: str, wrapped: str) -> None:
    wraps, error, message = WRONG[wrong]

    def returned(x: Any) -> Any:
        out = wraps(x)
        return {"y": out} if isinstance(out, np.ndarray) else out

    with pytest.raises(error, match=message):
        WRAPPED[wrapped](lambda x: function(returned, {"y": VECTOR}, x)["y"])(X)


class Mine(Exception):
    pass


@pytest.mark.parametrize("wrapped", WRAPPED)
@pytest.mark.parametrize("function", [pb.pure_callback, pb.io_callback])
def test_exceptions_come_out_as_themselves(function: Any, wrapped: str) -> None:
    def deep(x: Any) -> Any:
        raise Mine("here")

    def raising(x: Any) -> Any:
        return deep(x)

    f = WRAPPED[wrapped](lambda x: function(raising, VECTOR, x) + 1.0)
    for _ in range(2):
        with pytest.raises(Mine, match="here") as caught:
            f(X)
        names = [entry.name for entry in caught.traceback]
        assert names[-2:] == ["raising", "deep"]
        assert all("pullback/" not in str(entry.path) for entry in caught.traceback)


def test_the_first_of_several_failures_is_raised() -> None:
    def fail(number: int) -> Any:
        def function(x: Any) -> Any:
            raise Mine(number)

        return function

    @pb.jit
    def f(x: Any) -> Any:
        pb.io_callback(fail(1), None, x)
        pb.io_callback(fail(2), None, x)
        return x

    for _ in range(2):
        with pytest.raises(Mine, match="1"):
            f(X)


DERIVATIVES = {
    "grad": lambda f: pb.grad(lambda x: pnp.sum(f(x)))(X),
    "grad of jit": lambda f: pb.grad(lambda x: pnp.sum(pb.jit(f)(x)))(X),
    "jvp": lambda f: pb.jvp(f, (X,), (X,)),
}


@pytest.mark.parametrize("how", DERIVATIVES)
@pytest.mark.parametrize("function", [pb.pure_callback, pb.io_callback])
def test_a_derivative_is_refused(function: Any, how: str) -> None:
    with pytest.raises(pb.errors.GradientError, match=r"_callback of sort has no derivative.*custom_jvp"):
        DERIVATIVES[how](lambda x: function(np.sort, VECTOR, x))


def test_where_there_is_nothing_to_differentiate() -> None:
    def f(x: Any) -> Any:
        order = pb.pure_callback(lambda x: np.argsort(x).astype("int32"), pb.ArrayType((3,), "int32"), x)
        offset = pb.pure_callback(np.sort, VECTOR, pb.stop_gradient(x))
        return pnp.sum(x * order + offset)

    np.testing.assert_array_equal(pb.grad(f)(X), np.argsort(X))


def test_what_is_refused() -> None:
    with pytest.raises(pb.errors.MissingRule, match=r"vmap of pure_callback\(sort\).*vmap_method='sequential'"):
        pb.vmap(sort)(np.ones((2, 3)))
    with pytest.raises(ValueError, match="'legacy_vectorized' is not supported"):
        sort(X, vmap_method="legacy_vectorized")
    with pytest.raises(ValueError, match="must be None or one of 'sequential'"):
        sort(X, vmap_method="fast")
    with pytest.raises(pb.errors.LeafError, match=r"result\[0\] is 3"):
        pb.pure_callback(np.sort, [3], X)
    with pytest.raises(TypeError, match="takes a function"):
        pb.pure_callback(3, VECTOR, X)  # type: ignore[arg-type]
    for function in (pb.pure_callback, pb.io_callback):
        with pytest.raises(NotImplementedError, match="sharding"):
            function(np.sort, VECTOR, X, sharding="all")


# ---- callbacks that use pullback --------------------------------------------------

REENTRY = {
    "eager": "lambda v: np.asarray(pb.numpy.sin(v) * 2)",
    "compiled": "lambda v: np.asarray(pb.jit(lambda x: pb.numpy.sin(x) * 2)(v))",
    "large products": "lambda v: (np.asarray(big(np.ones((400, 400), 'float32'))), np.sin(v) * 2)[1]",
    "grad": "lambda v: np.asarray(pb.grad(lambda x: -2 * pb.numpy.sum(pb.numpy.cos(x)))(v))",
    "callback": "lambda v: np.asarray(pb.jit(lambda x: pb.pure_callback(lambda w: np.sin(w) * 2, x, x))(v))",
    "itself": "lambda v: np.asarray(f(v - 100)) if v[0] > 50 else np.sin(v) * 2",
    "thread": "lambda v: pool.submit(lambda: np.asarray(pb.jit(lambda x: pb.numpy.sin(x) * 2)(v))).result()",
}


@pytest.mark.parametrize("how", REENTRY)
def test_reentry_works(how: str) -> None:
    program = f"""
        import concurrent.futures
        import numpy as np, pullback as pb
        pool = concurrent.futures.ThreadPoolExecutor(1)
        big = pb.jit(lambda x: x @ x)
        x = np.array([101.0, 102.0], "float32")
        f = pb.jit(lambda x: pb.pure_callback({REENTRY[how]}, x, x) + 0 * x)
        for _ in range(3):
            found = f(x)
        expected = np.sin(x - 100 if {how == "itself"} else x) * 2
        np.testing.assert_allclose(found, expected, rtol=1e-4)
        print("done")
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "done\n", done.stderr


# ---- the debugger --------------------------------------------------


@pytest.mark.parametrize("wrapped", WRAPPED)
def test_breakpoint(wrapped: str) -> None:
    shown = io.StringIO()

    def f(x: Any) -> Any:
        tree = {"y": x * 2.0}
        word = "static"  # noqa: F841
        pb.debug.breakpoint(stdin=io.StringIO("p x\np tree['y'] + 1\np word\np NUMBER\nc\n"), stdout=shown)
        return tree["y"]

    assert float(WRAPPED[wrapped](f)(3.0)) == 6.0
    text = shown.getvalue()
    for expected in ("3.", "7.", "'static'", "f32[]", "test_pure_and_io_callbacks.py", "pb.debug.breakpoint("):
        assert expected in text


def test_breakpoint_reads_what_it_is_given_and_writes_to_the_terminal(capsys: Any) -> None:
    def area(radius: Any) -> Any:
        pb.debug.breakpoint(stdin=io.StringIO("p radius + 1\nc\n"))  # without stdout
        return radius * radius

    assert float(pb.jit(area)(3.0)) == 9.0
    shown = capsys.readouterr().out
    assert "4.0" in shown and "area()" in shown


def test_breakpoint_stops_in_the_users_frame_though_the_garbage_collector_runs_python_code() -> None:
    def collected(phase: str, info: Any) -> None:
        pass

    def f(x: Any) -> Any:
        pb.debug.breakpoint(stdin=io.StringIO("p x + 1\nc\n"), stdout=shown)
        return x

    thresholds = gc.get_threshold()
    gc.callbacks.append(collected)
    gc.set_threshold(1)
    try:
        for _ in range(3):
            shown = io.StringIO()
            f(3.0)
            assert "4." in shown.getvalue()
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(collected)


@pytest.mark.parametrize("wrapped", WRAPPED)
def test_quitting_the_debugger_of_a_breakpoint_ends_the_call(wrapped: str) -> None:
    f = WRAPPED[wrapped](lambda x: (pb.debug.breakpoint(stdin=io.StringIO("q\n"), stdout=io.StringIO()), x)[1])
    with pytest.raises(bdb.BdbQuit):
        f(3.0)


@pytest.mark.parametrize("wrap", [lambda h: h, pb.jit, lambda h: pb.jit(pb.jit(h))], ids=["plain", "jit", "jit of jit"])
def test_effects_of_a_jvp_rule_happen_once_however_often_the_backward_pass_runs(wrap: Any) -> None:
    seen: list[float] = []

    def helper(x: Any, tangent: Any) -> Any:
        pb.debug.callback(lambda value: seen.append(float(value)), x)
        return tangent * pb.numpy.cos(x)

    pushed = wrap(helper)
    f = pb.custom_jvp(lambda x: pb.numpy.sin(x))
    f.defjvp(lambda p, t: (pb.numpy.sin(p[0]), pushed(p[0], t[0])))
    _, pull = pb.vjp(f, 0.5)
    assert seen == [0.5]
    assert [float(pull(ct)[0]) for ct in (1.0, 2.0)] == pytest.approx([np.cos(0.5), 2 * np.cos(0.5)])
    assert seen == [0.5]


def test_a_callback_may_return_what_gives_an_array():
    class Foreign:
        def __init__(self, array):
            self.array = array

        def __array__(self):
            return self.array

    kept = np.float32([1.0, 2.0])
    found = pb.jit(lambda x: pb.pure_callback(lambda x: Foreign(kept), pb.ArrayType((2,), "float32"), x))(1.0)
    kept[:] = 0.0
    np.testing.assert_array_equal(found, [1.0, 2.0])
