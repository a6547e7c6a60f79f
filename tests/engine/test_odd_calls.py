"""Calls of compiled functions and of callbacks that are unusual: odd names, structures, statics, numbers."""

from __future__ import annotations

import copy
import functools
import pickle
import sys
import threading
from dataclasses import InitVar, dataclass

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.api import dispatch
from pullback.core.bounded import Bounded


def nested(x, depth=230):
    return functools.reduce(lambda inner, _: (inner,), range(depth), x)


@dataclass
class Checked:
    x: object

    def __post_init__(self):
        assert self.x.ndim == 1


@pytest.mark.parametrize(
    "function", [lambda x: Checked(x), lambda x: {"a": [Checked(x)]}, nested], ids=["class", "in it", "deep"]
)
def test_results_of_any_structure(function):
    compiled, x = pb.jit(function), pnp.ones(2)
    for _ in range(3):
        assert repr(compiled(x)) == repr(function(x))


@pytest.mark.parametrize("count", [40, 300])
def test_many_arrays_in_and_out(count):
    xs = [np.float32(i) * pnp.ones(2) for i in range(count)]  # not on the device yet
    compiled = pb.jit(lambda xs: [2.0 * x for x in xs])
    for _ in range(3):
        assert all(np.array_equal(y, 2.0 * np.asarray(x)) for x, y in zip(xs, compiled(xs), strict=True))
        xs = [*compiled(xs)[:-1], pnp.ones(2)]


def test_an_argument_may_have_any_name():
    compiled = pb.jit(lambda **named: named["self"])
    assert float(compiled(self=1.0)) == 1.0
    assert float(compiled.lower(self=1.0).compile()(self=1.0)) == 1.0


def test_debug_print_takes_any_names(capsys):
    pb.debug.print("{format} {function}", format=pnp.ones(1), function=pnp.zeros(1), ordered=True)
    assert capsys.readouterr().out == "[1.] [0.]\n"
    pb.debug.callback(lambda function: print(function), function=pnp.ones(1), ordered=True)
    assert capsys.readouterr().out == "[1.]\n"


# ---- static and donated arguments -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [{"static_argnums": 0, "donate_argnums": 0}, {"static_argnames": "n", "donate_argnames": "n"}],
    ids=["number", "name"],
)
def test_what_is_static_cannot_be_donated(given):
    with pytest.raises(pb.errors.StaticArgumentError, match="donate"):
        pb.jit(lambda n, x: x * n, **given)


def test_numbers_of_arguments_may_be_numpys():
    assert float(pb.jit(lambda x, n: x**n, static_argnums=np.int64(1))(3.0, 2)) == 9.0


@pytest.mark.parametrize("numbers", [1.0, "x", [0.5], True])
def test_numbers_of_arguments_that_are_none(numbers):
    with pytest.raises(pb.errors.StaticArgumentError, match="static_argnums must be ints, but got"):
        pb.jit(lambda x, n: x**n, static_argnums=numbers)


def test_a_compiled_function_cannot_be_transformed():
    compiled = pb.jit(lambda x: x * 2.0).lower(np.float32(1.0)).compile()
    for transformation, x in ((pb.grad, np.float32(1.0)), (pb.jit, np.float32(1.0)), (pb.vmap, np.ones(2, np.float32))):
        with pytest.raises(TypeError, match="was compiled ahead of time, so it cannot be transformed"):
            transformation(compiled)(x)


def test_compiled_functions_know_their_static_arguments():
    compiled = pb.jit(lambda x, n: x**n, static_argnums=1).lower(2.0, 3).compile()
    assert float(compiled(2.0, 3)) == float(compiled(2.0)) == 8.0
    with pytest.raises(pb.errors.StaticArgumentError, match="other static arguments"):
        compiled(2.0, 4)


X = np.ones(3, np.float32)
LOWERED_WITH = {  # which are static, the arguments, and calls that leave them out or repeat them
    "first": (dict(static_argnums=0), (3, X, X), {}, [((X, X), {}), ((3, X, X), {})]),
    "middle": (dict(static_argnums=1), (X, 3, X), {}, [((X, X), {}), ((X, 3, X), {})]),
    "last": (dict(static_argnums=-1), (X, X, 3), {}, [((X, X), {}), ((X, X, 3), {})]),
    "by name": (dict(static_argnames="c"), (X, X), {"c": 3}, [((X, X), {}), ((X, X), {"c": 3})]),
    "two": (dict(static_argnums=(0, 2)), (2, X), {"c": 1}, [((X,), {}), ((X,), {"c": 1}), ((2, X), {"c": 1})]),
    "all": (dict(static_argnums=(0, 1, 2)), (1, 2, 2), {}, [((), {}), ((1, 2, 2), {})]),
}
OTHERS = {
    "first": [((4, X, X), {}), ((3.0, X, X), {})],
    "middle": [((X, 4, X), {}), ((X, X, 3), {})],
    "last": [((X, X, 4), {}), ((3, X, X), {})],
    "by name": [((X, X), {"c": 4}), ((X, X, 4), {})],
    "two": [((X,), {"c": 2}), ((3, X), {"c": 1}), ((2, X), {"c": 2})],
    "all": [((1, 2, 3), {}), ((), {"c": 3})],
}


@pytest.mark.parametrize("which", LOWERED_WITH)
def test_static_arguments_may_be_left_out_of_a_compiled_function(which):
    def function(a, b, c):
        return a + b + c + X

    static, args, kwargs, calls = LOWERED_WITH[which]
    compiled = pb.jit(function, **static).lower(*args, **kwargs).compile()
    for some, named in calls:
        np.testing.assert_array_equal(compiled(*some, **named), function(*args, **kwargs))
    for some, named in OTHERS[which]:
        with pytest.raises(pb.errors.StaticArgumentError, match="other static arguments"):
            compiled(*some, **named)


def test_a_lowered_function_says_why_it_is_not_pickled():
    lowered = pb.jit(pb.numpy.sin).lower(X)
    for made in (lowered, lowered.compile()):
        for attempt in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError, match=f"A {type(made).__name__} cannot be pickled"):
                attempt(made)
        assert copy.copy(made) is made
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(made.program))(X), pb.numpy.sin(X))


@dataclass(frozen=True)
class Settings:
    n: InitVar[int]

    def __post_init__(self, n):
        object.__setattr__(self, "m", n + 1)


@pytest.mark.parametrize("static", [pb.ArrayType((3,), "float32"), Settings(2)], ids=["type", "dataclass"])
def test_lower_leaves_static_arguments_as_they_are(static):
    seen = []
    pb.jit(lambda x, s: seen.append(s) or x, static_argnums=1).lower(pb.ArrayType((), "float32"), static)
    pb.jit(lambda x, s: seen.append(s) or x, static_argnames="s").lower(pb.ArrayType((), "float32"), s=static)
    assert seen[0] is static and seen[1] is static


def test_a_compiled_partial_is_pickled():
    assert float(pickle.loads(pickle.dumps(pb.jit(functools.partial(pow, 2.0))))(3.0)) == 8.0


def test_an_array_donated_twice_among_many():
    step = pb.jit(lambda xs: [x + 1.0 for x in xs], donate_argnums=0)
    xs = step(step([pnp.zeros(2) for _ in range(200)]))
    assert [float(x[0]) for x in step([xs[0], *xs])] == [3.0] * 201
    with pytest.raises(pb.errors.DonatedBufferError):
        xs[0] + 1.0


# ---- what callbacks are given, and return -----------------------------------------------------------------------------------

ANY = pb.ArrayType((), "float32")


@pytest.mark.parametrize("run", [lambda f: f, pb.jit], ids=["eager", "jit"])
def test_callbacks_get_copies_of_their_own(run):
    kinds = []

    def double(x, w):
        kinds.extend([type(x), type(w)])
        w *= x
        return w

    def in_place(x):
        x[...] = 7.0

    mapped = pb.vmap(lambda x, w: pb.pure_callback(double, ANY, x, w, vmap_method="sequential"), in_axes=(0, None))
    assert run(mapped)(pnp.array([2.0, 3.0, 4.0]), pnp.float32(1.0)).tolist() == [2.0, 3.0, 4.0]
    x = pnp.ones(3)
    run(lambda x: pb.debug.callback(in_place, x))(x)
    pb.vmap(run(lambda x: pb.debug.callback(lambda x: kinds.append(type(x)), x)))(x)
    assert x.tolist() == [1.0] * 3 and set(kinds) == {np.ndarray}


@pytest.mark.parametrize("value, dtype, fits", [
    (2**40, "int32", False), (2**70, "int64", False), (-1, "uint8", False), (300, "int8", False), (200, "uint8", True),
    (-(2**31), "int32", True), (2**63, "uint64", True), (True, "int32", True), (3, "float32", True),
])  # fmt: skip
def test_python_integers_from_callbacks_fit_or_are_refused(value, dtype, fits):
    def call(x):
        return pb.pure_callback(lambda x: value, pb.ArrayType((), dtype), x)

    for run in (call, pb.jit(call)):
        if fits:
            assert run(1.0).item() == value
        else:
            with pytest.raises(pb.errors.DtypeError, match="does not fit"):
                run(1.0)


# ---- threads -------------------------------------------------------------------------------------------------------------


def test_a_full_cache_serves_many_threads():
    """Making room met `dictionary changed size during iteration`."""
    errors, kept = [], Bounded(16)

    def fill(k):
        try:
            for i in range(4000):
                kept[k, i] = kept.setdefault((k, -i), i)
        except BaseException as error:
            errors.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=fill, args=(k,)) for k in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert errors == [] and len(kept) <= 16 + 6


def test_what_is_compiled_ahead_of_time_runs_on_known_values_wherever_it_is_called():
    compiled = pb.jit(lambda x: x + 1).lower(pb.ArrayType((3,), "float32")).compile()
    assert pb.jit(lambda y: y + compiled(np.ones(3, "f4")))(pnp.ones(3, "float32")).tolist() == [3.0] * 3
    assert pb.vmap(lambda y: y + compiled(np.ones(3, "f4")))(pnp.arange(2.0)).tolist() == [[2.0] * 3, [3.0] * 3]
    with pytest.raises(TypeError, match="cannot be transformed"):
        pb.jit(compiled)(pnp.ones(3, "float32"))


@pytest.mark.parametrize("array", [pnp.ones, lambda size: np.ones(size, np.float32)], ids=["arrays", "of NumPy"])
def test_signatures_in_turn_are_each_prepared_once(array, monkeypatch):
    """More of them than are looked through at each call: buckets of lengths, say."""
    made = []
    finding = dispatch._finding
    monkeypatch.setattr(dispatch, "_finding", lambda *given: made.append(1) or finding(*given))
    total = pb.jit(lambda x, y: x.sum() + y)
    for turn in range(6):
        for size in range(1, 13):
            assert float(total(array(size), float(turn))) == size + turn
    assert len(made) == 12


@pytest.mark.parametrize(
    "name", ["float32", "float64", "int32", "uint8", "bool", "float16", "bfloat16", "complex64", "longlong"]
)
def test_scalars_of_numpy_are_recognised_at_once(name):
    kind = pb.ArrayType((), name).dtype.type if name != "longlong" else np.longlong
    same = pb.jit(lambda x: (x, 1.0))
    results = [same(kind(number)) for number in (0, 1, 1, 0, 1)]
    assert len(same._fast_paths) == 1
    for (found, _), number in zip(results, (0, 1, 1, 0, 1), strict=True):
        assert found.dtype == np.dtype(kind) and not found.type.weak and np.asarray(found) == kind(number)
    assert same(1.0)[0].type.weak and not same(kind(1))[0].type.weak


def test_calls_of_one_signature_in_all_forms():
    double = pb.jit(lambda x: x * 2.0)
    given = [1.0, pnp.asarray(3.0), np.ones(2, np.float32), 5.0 * pnp.ones(2), np.full(2, 7.0, ">f4"), np.float32(9.0)]
    for turn in range(1, 5):
        for x in given:
            assert np.array_equal(double(x * turn), 2.0 * turn * np.asarray(x))
    large = [np.full(1 << 15, i, np.float32) for i in range(12)]  # more than a path may keep
    for turn in range(4):
        assert [float(double(x[: turn + 100 * 200])[-1]) for x in large] == [2.0 * i for i in range(12)]


def test_what_is_compiled_ahead_of_time_closes_over_no_traced_value():
    def through(y):
        jitted = pb.jit(lambda x: x * y)
        assert jitted.eval_shape(1.0).shape == ()
        return jitted.lower(1.0).compile()(2.0)

    for transformation, x in ((pb.grad, 3.0), (pb.jit, 3.0), (pb.vmap, pnp.ones(3))):
        with pytest.raises(pb.errors.EscapedTracerError, match=r"lower of .*: pass the value as an argument"):
            transformation(through)(x)


class Anything:
    """Has whatever attribute it is asked for, as a proxy of a remote object has."""

    def __getattr__(self, name):
        return Anything()

    def __call__(self, *args):
        return args[0] * 3.0


class Named:
    def __init__(self, name):
        self.__name__ = name

    __call__ = Anything.__call__


ODDLY_NAMED = [Named("3d-conv"), Named("main"), Named(""), Named("\u03bb"), Named(None), Named(5), Anything()]


@pytest.mark.parametrize("function", ODDLY_NAMED, ids=lambda f: repr(f.__name__) if isinstance(f, Named) else "anything")
def test_a_function_may_have_any_name_or_none(function):
    inner = pb.jit(function)
    assert float(inner(2.0)) == 6.0 and float(pb.grad(function)(2.0)) == 3.0
    assert float(pb.jit(lambda x: inner(x) + inner(2.0 * x))(1.0)) == 9.0
    assert "stablehlo" in pb.jit(lambda x: inner(x)).lower(1.0).as_text()
    assert [float(y) for y in pb.lax.map(function, pnp.ones(2))] == [3.0, 3.0]
    rules = pb.custom_jvp(function)
    rules.defjvp(lambda primals, tangents: (function(*primals), tangents[0] * 5.0))
    assert float(pb.grad(pb.jit(rules))(1.0)) == 5.0
    with pytest.raises(pb.errors.GradientError):
        pb.grad(function)(np.ones(2))


def test_what_is_compiled_ahead_of_time_takes_weak_and_strong_numbers():
    for given in (1.0, np.float32(1.0), pnp.asarray(1.0), pnp.ones((), "float32")):
        compiled = pb.jit(lambda x: x + 1).lower(given).compile()
        assert [float(compiled(x)) for x in (2.0, np.float32(2.0), pnp.asarray(2.0), pnp.full((), 2, "float32"))] == [3.0] * 4
        for wrong, error in [
            (2, pb.errors.DtypeError),
            (np.float64(2.0), pb.errors.DtypeError),
            (pnp.ones(1), pb.errors.ShapeError),
        ]:
            with pytest.raises(error, match=r"was compiled for other arguments: x is .* where it was compiled for"):
                compiled(wrong)
