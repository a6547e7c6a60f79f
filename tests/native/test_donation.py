"""Donated arguments of native functions: gone when the call has succeeded, as where XLA runs them, and whole until then."""

from __future__ import annotations

import ctypes
import gc
import signal
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from handwritten_kernels import adding_one, at_once, descriptor_of, endless, needs_entry
from programs import unlike

import pullback as pb
import pullback.numpy as pnp
from pullback.core.array import Array, is_deleted
from pullback.core.dtypes import FLOAT8_NAMES, SHORT_NAMES, kind
from pullback.native import choice, entry
from pullback.native.choice import native_mode
from pullback.native.executable import NativeExecutable

pytestmark = [needs_entry, pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")]

NUMBERS = [dtype for dtype in SHORT_NAMES if kind(dtype) in "biufc" and dtype.name not in FLOAT8_NAMES]


@dataclass
class State:
    weights: Any
    count: Any = 1.0


def made(value: float = 2.0, size: int = 3) -> Array:
    """An Array that nothing else has."""
    return pnp.asarray(np.full(size, value, np.float32))


@pytest.mark.parametrize("shape", [(), (3, 5), (0,), (2, 0, 3)], ids=str)
@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda dtype: dtype.name)
def test_each_dtype_in_each_shape(dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    flip = pb.jit(lambda x: pnp.where(x == 0, pnp.ones_like(x), pnp.zeros_like(x)), donate_argnums=0)
    for _ in range(3):
        x = pnp.asarray(values)
        assert flip.explain(x).tier == "native"
        out = flip(x)
        assert is_deleted(x) and out.type is x.type
        assert (np.asarray(out) == (values == 0).astype(dtype)).all()


def spent(state: Any, x: Any) -> Any:
    leaves = pb.tree.leaves(state)
    return pb.tree.map(lambda leaf: leaf * 2.0 + x, state), sum(leaves[1:], leaves[0])


# How a function is jitted, and what a call is given: the same arguments are to be gone, and the same to stay, as by XLA.
Call = Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]
CALLS: dict[str, tuple[dict[str, Any], Call]] = {
    "an array": ({"donate_argnums": 0}, lambda: ((made(), 1.0), {})),
    "the other one": ({"donate_argnums": 1}, lambda: ((made(), made(3.0)), {})),
    "the last": ({"donate_argnums": -1}, lambda: ((made(), made(3.0)), {})),
    "both": ({"donate_argnums": (0, 1)}, lambda: ((made(), made(3.0)), {})),
    "by name": ({"donate_argnames": "state"}, lambda: ((), {"state": made(), "x": made(3.0)})),
    "by name, passed by place": ({"donate_argnames": "state"}, lambda: ((made(), made(3.0)), {})),
    "a list": ({"donate_argnums": 0}, lambda: (([made(), made(3.0)], made(4.0)), {})),
    "a dict": ({"donate_argnums": 0}, lambda: (({"a": made(), "b": (made(3.0), None)}, 1.0), {})),
    "a dataclass": ({"donate_argnums": 0}, lambda: ((State(made()), made(4.0)), {})),
    "many": ({"donate_argnums": 0}, lambda: (([made(i) for i in range(150)], made(4.0)), {})),
    "with static": ({"donate_argnums": 0, "static_argnums": 1}, lambda: ((made(), 3), {})),
    "of NumPy": ({"donate_argnums": (0, 1)}, lambda: ((np.ones(3, np.float32), np.float32(2.0)), {})),
    "of NumPy, in strides": ({"donate_argnums": (0, 1)}, lambda: ((np.ones(6, np.float32)[::2], made()), {})),
    "numbers": ({"donate_argnums": (0, 1)}, lambda: ((2.0, 3), {})),
    "a weak number": ({"donate_argnums": (0, 1)}, lambda: ((pnp.asarray(2.0) + 0, made()), {})),
    "from XLA": ({"donate_argnums": 0}, lambda: ((pb.jit(lambda x: x * 2.0, native=False)(np.ones(3, np.float32)), 1.0), {})),
}


def outcome(which: str, mode: str) -> list[Any]:
    options, call = CALLS[which]
    with native_mode(mode):
        step, seen = pb.jit(spent, **options), []
        for _ in range(4):
            args, kwargs = call()
            assert step.explain(*args, **kwargs).tier == ("xla" if mode == "off" else "native")
            given = pb.tree.leaves((args, kwargs))
            out = pb.tree.leaves(step(*args, **kwargs))
            seen.append(([np.asarray(y).tolist() for y in out], [x.__class__ is Array and is_deleted(x) for x in given]))
    return seen


@pytest.mark.parametrize("which", CALLS)
def test_what_is_gone_is_what_is_gone_by_xla(which: str) -> None:
    expected = outcome(which, "off")
    assert outcome(which, "on") == outcome(which, "always") == outcome(which, "check") == expected
    assert any(expected[0][1]) != (which in ("of NumPy", "numbers"))


def shared(x: Array) -> Array:
    return Array(x.type, x._host, x._buffer)


SEEN = {
    "another array": shared,
    "an alias": lambda x: x.alias(),
    "a view": lambda x: x.view(),
    "a NumPy array": np.asarray,
    "a dlpack capsule": lambda x: np.from_dlpack(x),
    "XLA's buffer": lambda x: pb.jit(lambda x: (x, x + 1.0), native=False)(x)[0],
}


@pytest.mark.parametrize("which", SEEN)
def test_what_else_sees_donated_memory_keeps_its_values(which: str) -> None:
    step = pb.jit(lambda x: x * 2.0, donate_argnums=0)
    for value in (2.0, 3.0, 4.0):
        x = made(value)
        seen = SEEN[which](x)
        assert step(x).tolist() == [2.0 * value] * 3 and is_deleted(x)
        assert np.asarray(seen).tolist() == [value] * 3


@pytest.mark.parametrize("again", [lambda x: x, shared, lambda x: x.alias()], ids=["itself", "another", "an alias"])
@pytest.mark.parametrize("donated", [0, 1, (0, 1)], ids=str)
def test_an_array_that_is_passed_twice(donated: Any, again: Any) -> None:
    step = pb.jit(lambda x, y: (x * 2.0 + y, y * 3.0), donate_argnums=donated)
    for value in (1.0, 2.0, 3.0):
        x = made(value)
        args = (x, again(x))
        first, second = step(*args)
        assert first.tolist() == second.tolist() == [3.0 * value] * 3
        places = {donated} if donated.__class__ is int else {*donated}
        same = args[0] is args[1]
        assert [is_deleted(arg) for arg in args] == [same or i in places for i in range(2)]


def test_constants_are_never_given_away() -> None:
    step = pb.jit(lambda x: x * 2.0, donate_argnums=0)
    for _ in range(5):
        one = pb.grad(lambda a: a)(1.0)
        assert float(step(one)) == 2.0 and float(one) == 1.0
    closed = made()
    add = pb.jit(lambda x: x + closed, donate_argnums=0)
    for _ in range(3):
        assert add(closed.alias()).tolist() == [4.0] * 3


def test_arrays_that_are_referred_to_weakly_are_gone_too() -> None:
    step = pb.jit(lambda x: x * 2.0, donate_argnums=0)
    for _ in range(3):
        x = made()
        seen = weakref.ref(x)
        step(x)
        assert seen() is x and is_deleted(x)


def test_an_argument_that_was_donated_before_is_named_and_costs_the_others_nothing() -> None:
    step = pb.jit(spent, donate_argnums=(0, 1))
    for _ in range(3):
        step(State(made(), made()), made())
    gone = made()
    gone.delete()
    for state, x, path in [(State(made(), gone), made(), r"state\.count"), (State(made(), made()), gone, "x")]:
        with pytest.raises(pb.errors.DonatedBufferError, match=f"Argument {path} of .* donated before"):
            step(state, x)
        assert state.weights.tolist() == [2.0] * 3 and (x is gone or x.tolist() == [2.0] * 3)


def test_wrong_arguments_are_not_given_away() -> None:
    step = pb.jit(lambda x, y: x + y, donate_argnums=(0, 1))
    step(made(), made())
    x = made()
    with pytest.raises((TypeError, ValueError)):
        step(x, made(size=4))
    with pytest.raises(TypeError):
        step(x, "y")
    assert x.tolist() == [2.0] * 3


def test_nothing_is_donated_under_other_transformations() -> None:
    give, x = pb.jit(lambda x: x * 2.0, donate_argnums=0), made()
    give(made())
    pb.grad(lambda x: pnp.sum(give(x)))(x)
    pb.vmap(give)(x)
    pb.jit(lambda x: give(x))(x)
    pb.jvp(give, (x,), (x,))
    assert x.tolist() == [2.0] * 3


def test_a_loops_carry_is_donated() -> None:
    def run(state: Any, xs: Any) -> Any:
        return pb.lax.scan(lambda state, x: (State(state.weights * 0.5 + x, state.count + 1.0), state.weights), state, xs)

    step, xs = pb.jit(run, donate_argnums=0), np.arange(12, dtype=np.float32).reshape(4, 3)
    for _ in range(3):
        state = State(made(), pnp.asarray(np.float32(0)))
        assert step.explain(state, xs).tier == "native"
        weights = np.full(3, 2.0)
        seen = []
        for x in xs:
            seen.append(weights)
            weights = weights * 0.5 + x
        last, stacked = step(state, xs)
        assert is_deleted(state.weights) and is_deleted(state.count)
        np.testing.assert_allclose(last.weights, weights)
        np.testing.assert_allclose(stacked, seen)
        assert float(last.count) == 4.0


def test_ctrl_c_in_a_loop_leaves_what_was_donated() -> None:
    def forever(state: Any) -> Any:
        return pb.lax.while_loop(lambda state: state["x"][0] < 1e30, lambda state: {"x": state["x"] * 1.0}, state)

    step, state = pb.jit(forever, donate_argnums=0), {"x": made()}
    assert step({"x": made(2e30)})["x"].tolist() == made(2e30).tolist()
    before = signal.signal(signal.SIGALRM, lambda *ignored: signal.raise_signal(signal.SIGINT))
    try:
        for _ in range(3):
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with pytest.raises(KeyboardInterrupt):
                step(state)
            assert state["x"].tolist() == [2.0] * 3
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def refusing_to_delete() -> Iterator[None]:
    """What the entry calls for an Array that something refers to weakly."""

    def delete(array: Array) -> None:
        raise KeyError("not now")

    table, place = entry._entry().addresses["table"], entry.TABLE.index("delete")
    word = ctypes.c_uint64.from_address(table + entry.WORD * place)
    before, word.value = word.value, id(delete)
    yield
    word.value = before


def test_an_error_while_memory_is_given_up_is_raised(refusing_to_delete: None) -> None:
    step, x = pb.jit(lambda x: x * 2.0, donate_argnums=0), made()
    step(made())
    seen, counts = weakref.ref(x), []
    for _ in range(5):
        with pytest.raises(KeyError, match="not now"):
            step(x)
        gc.collect()
        counts.append((sys.getrefcount(x), sys.getrefcount(pb.ArrayType((3,), "float32"))))
    assert seen() is x and counts[1:] == counts[:-1]


def test_lack_of_memory_leaves_what_was_donated() -> None:
    type = pb.ArrayType((8,), "float32")
    kernel = choice.Kernel(adding_one().source, (type,), (type,), workspace=1 << 60)
    x = made(size=8)
    with pytest.raises(MemoryError):
        NativeExecutable(kernel, (True,))([x])
    assert x.tolist() == [2.0] * 8


def test_a_kernel_with_the_lock_that_stops_leaves_what_was_donated() -> None:
    x = pnp.asarray(np.float32(1))
    executable = NativeExecutable(endless(0.0), (True,))
    before = signal.signal(signal.SIGALRM, lambda *ignored: signal.raise_signal(signal.SIGINT))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(KeyboardInterrupt):
            executable([x])
    finally:
        signal.signal(signal.SIGALRM, before)
    assert float(x) == 1.0


def test_arrays_of_other_types_that_are_converted_are_gone() -> None:
    executable = NativeExecutable(adding_one(), (True,))
    weak = Array(pb.ArrayType((8,), "float32", weak=True), np.zeros(8, np.float32))
    assert executable([weak])[0].tolist() == [1.0] * 8 and is_deleted(weak)


def test_descriptors_of_other_donations_are_others() -> None:
    kernel, function = adding_one(), pb.jit(lambda x: x)
    for donated in ((), (True,), (), (True,)):
        assert NativeExecutable(kernel, donated).install(function, False)
    assert function._descriptor.length == 2 and descriptor_of(kernel).donated == ()


def test_many_calls_leave_nothing() -> None:
    step, tree = pb.jit(lambda x: x + 1.0, donate_argnums=0), pb.jit(lambda s: [x + 1.0 for x in s], donate_argnums=0)
    watched = [pb.ArrayType((3,), "float32"), Array, np.ndarray, np.dtype(np.float32), None]

    def calls(times: int) -> None:
        x, s = made(), [made(), made()]
        for i in range(times):
            keep = weakref.ref(x) if i % 2 else None
            x, s = step(x), tree(s)
        assert keep is not None and x.tolist() == [times + 2.0] * 3

    calls(100)
    gc.collect()
    held = [sys.getrefcount(one) for one in watched]
    calls(5000)
    gc.collect()
    assert [sys.getrefcount(one) for one in watched] == pytest.approx(held, abs=20)


def test_memory_is_freed_when_the_call_ends() -> None:
    step, x = pb.jit(lambda x: x + 1.0, donate_argnums=0), made()
    step(made())
    memory = weakref.ref(x._host)
    step(x)
    assert memory() is None


def test_eight_threads_give_their_own_and_the_same() -> None:
    step, wrong, common = pb.jit(lambda x: x + 1.0, donate_argnums=0), [], [made() for _ in range(300)]
    step(made())

    def work(seed: int) -> None:
        x = made(seed)
        for i in range(300):
            x = step(x)
            try:
                if step(common[i]).tolist() != [3.0] * 3:
                    wrong.append(i)
            except pb.errors.DonatedBufferError:
                if not is_deleted(common[i]):
                    wrong.append(i)
        if x.tolist() != [seed + 300.0] * 3:
            wrong.append(x)

    at_once(work)
    assert wrong == [] and all(map(is_deleted, common))


def test_both_tiers_are_compared_and_the_argument_is_gone() -> None:
    function = pb.jit(lambda x: pnp.sin(x), donate_argnums=0)
    with native_mode("check"):
        for _ in range(3):
            x = made()
            assert np.allclose(function(x), np.sin(2.0)) and is_deleted(x)
        with pytest.raises(pb.errors.DonatedBufferError, match="Argument x of"):
            function(x)

    with native_mode("check"), pytest.raises(pb.errors.TierMismatch):
        pb.jit(unlike(), donate_argnums=0)(made())


def test_unused_donations_are_reported() -> None:
    with pytest.warns(UserWarning, match=r"Some donated buffers were not usable, .*: float32\[3\]"):
        function = pb.jit(lambda x: x.sum(), donate_argnums=0)
        assert function.explain(made()).tier == "native" and float(function(made())) == 6.0


def test_large_passes_over_donated_memory_are_xlas() -> None:
    limit = choice.GIVEN // 8

    def ordered(x: Any) -> Any:
        return pnp.sin(x) / pnp.linalg.norm(x, axis=-1, keepdims=True)

    for count, tier in [(limit, "native"), (2 * limit, "mixed")]:
        type = pb.ArrayType((count // 64, 64), "float64")
        assert pb.jit(ordered).explain(type).tier == "native"
        found = pb.jit(ordered, donate_argnums=0).explain(type)
        assert found.tier == tier and (tier == "native" or f"{8 * count:,} bytes" in found.reason)
    assert pb.jit(lambda x: ordered(x)[0], donate_argnums=0).explain(type).tier == "native"  # which no result is like
