"""Compiling in two tiers: what runs when, who waits, what fails, and what is forgotten. The thread waits at a gate."""

from __future__ import annotations

import _thread
import contextlib
import copy
import functools
import gc
import itertools
import os
import pickle
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from processes import run

import pullback as pb
import pullback.numpy as pnp
from pullback.core.array import as_array, host_of
from pullback.core.dtypes import DTYPES, kind
from pullback.core.errors import DtypeError
from pullback.core.primitive import Primitive
from pullback.core.tracing import type_of
from pullback.engine import strategy, tiers, xla
from pullback.engine.backend import Executable
from pullback.engine.tiers import Tiered
from pullback.engine.xla import XlaExecutable
from pullback.native.checked import apart
from pullback.native.choice import native_mode
from pullback.testing import all_primitives
from pullback.testing.values import in_dtype, is_generic

X = np.linspace(-2, 2, 30, dtype=np.float32).reshape(5, 6)


def smooth(x: Any) -> Any:
    """Elementwise functions, a product, sums: floats that need not be the same to the last bit at both levels."""
    return pnp.sum(pnp.tanh(x @ x.T) / (1.0 + pnp.exp(-x[:, :5])), axis=0)


def executable(f: Any) -> Executable:
    """That of the only signature."""
    (signature,) = f._signatures.values()
    return signature.executable  # type: ignore[no-any-return]


def is_quick(f: Any) -> bool:
    return isinstance(executable(f), Tiered)


class Gate:
    """Where the thread waits before it compiles.

    Attributes:
        reached: the Programs' names. opened: that it need not wait. fails: what it raises instead of compiling. on_the_way:
            called first.
    """

    def __init__(self, compile: Callable[[XlaExecutable], Executable]) -> None:
        self.compile, self.reached, self.opened = compile, list[str](), threading.Event()
        self.arrived = threading.Semaphore(0)
        self.fails: BaseException | None = None
        self.on_the_way: Callable[[], Any] = lambda: None

    def pass_through(self, quick: XlaExecutable) -> Executable:
        self.reached.append(quick.program().name)
        self.on_the_way()
        self.arrived.release()
        self.opened.wait()
        if self.fails is not None:
            raise self.fails
        return self.compile(quick)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate(XlaExecutable.best)
    monkeypatch.setattr(XlaExecutable, "best", lambda quick: made.pass_through(quick))
    yield made
    made.opened.set()
    thread = tiers._background.thread
    if thread is not None:
        thread.join()


# ---- when -----------------------------------------------------------------------------------------------------------------


def test_from_the_first_call_to_the_best_code(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "LEAST_SECONDS", np.inf)  # however slow the calls are here, they are counted
    f = pb.jit(smooth, tiered=True)
    assert f.explain(X).now == "The first call compiles it quickly, unless its best code is kept from before."
    first = f(X)
    assert is_quick(f) and "after 100 calls" in f.explain(X).now and not gate.reached
    f(X)
    waiting = executable(f)
    assert isinstance(waiting, Tiered) and waiting.calls == 2 and waiting.shown.quick
    for _ in range(tiers.MANY_CALLS - 3):
        f(X)
    assert not gate.reached and not waiting.begun
    f(X)
    gate.arrived.acquire()
    assert waiting.begun and f.explain(X).now.endswith("while the best code is compiled in the background.")
    assert f.explain(X).tier == "xla" and str(f.explain(X)).endswith("in the background.")
    np.testing.assert_array_equal(f(X), first)  # still of the quick code
    gate.opened.set()
    f.block_until_compiled()
    assert not is_quick(f) and not executable(f).quick and f.explain(X).now == "The best code runs it."
    np.testing.assert_array_equal(f(X), pb.jit(smooth)(X))
    assert gate.reached == ["smooth"]
    fast = f._fast_paths
    f(X)
    f(X)
    assert f._fast_paths and fast == []  # only of the best code


def test_calls_that_take_long_count_more(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 2.0**-5
        return now[0]

    monkeypatch.setattr(tiers, "perf_counter", clock)
    f = pb.jit(smooth, tiered=True)
    f(X)  # by this clock it took a 32nd of a second to compile, and each call takes as long
    waiting = executable(f)
    assert isinstance(waiting, Tiered) and waiting.worth == tiers.LEAST_SECONDS
    f(X)
    f(X)
    assert not waiting.begun and waiting.seconds == 3 / 32
    f(X)
    assert waiting.begun and waiting.calls == 4


def test_calls_that_return_before_they_have_run_count_by_their_work(gate: Gate) -> None:
    x = np.ones((800, 800), np.float32)
    f = pb.jit(lambda x: x @ x, tiered=True)
    assert float(f(x)[0, 0]) == 800.0
    waiting = executable(f)
    assert isinstance(waiting, Tiered) and waiting.shown.runner() is None  # it is the other client's
    assert waiting.seconds >= 2 * 800**3 / tiers.SPEED
    gate.opened.set()
    f.block_until_compiled()
    assert not is_quick(f) and float(f(x)[0, 0]) == 800.0


def test_what_is_there_already_is_used_at_once(gate: Gate) -> None:
    gate.opened.set()
    pb.jit(smooth)(X)
    in_memory = pb.jit(smooth, tiered=True)
    in_memory(X)
    assert not is_quick(in_memory)
    pb.clear_caches()  # but not the disk's
    before = pb.cache_info()
    on_disk = pb.jit(smooth, tiered=True)
    on_disk(X)
    after = pb.cache_info()
    assert not is_quick(on_disk) and after.disk_hits == before.disk_hits + 1 and after.compiled == before.compiled
    assert not gate.reached


def test_the_best_code_is_on_disk_for_the_next_process(own_cache: Any) -> None:
    f = pb.jit(smooth, tiered=True)
    f(X)
    f.block_until_compiled()
    pb.clear_caches()
    again = pb.jit(smooth, tiered=True)
    again(X)
    assert not is_quick(again)


@pytest.mark.parametrize("mode", ["on", "always", "check"])
def test_native_code_is_the_best_from_the_first_call_on(mode: str, gate: Gate) -> None:
    with native_mode(mode):
        f = pb.jit(lambda x: x * 2.0 + 1.0, tiered=True)
        np.testing.assert_array_equal(f(X), X * 2 + 1)
        assert is_quick(f) == (mode == "check")  # XLA's half is compiled quickly there
        gate.opened.set()
        f.block_until_compiled()
        np.testing.assert_array_equal(f(X), X * 2 + 1)
        assert not is_quick(f) and not executable(f).quick and f.explain(X).tier == "native" and f.explain(X).now == ""
        assert gate.reached == ["<lambda>"] * (mode == "check")


def test_mixed_programs() -> None:
    with native_mode("on"):
        x = np.linspace(0, 1, 600 * 600, dtype=np.float32).reshape(600, 600)
        f = pb.jit(lambda x: pnp.sin(x @ x) @ x, tiered=True)
        first = np.asarray(f(x))
        assert is_quick(f) and f.explain(x).tier == "mixed"
        f.block_until_compiled()
        assert not is_quick(f)
        np.testing.assert_allclose(f(x), first, rtol=1e-2, atol=1e-2)


def test_the_mode_of_the_calls_holds_while_the_best_code_is_compiled(gate: Gate) -> None:
    modes = []
    gate.on_the_way = lambda: modes.append((pb.core.modes.current_mode().native, pb.core.modes.current_mode().bits))
    gate.opened.set()
    with pb.default_bits(64), native_mode("off"):
        f = pb.jit(lambda x: x + pnp.ones(3), tiered=True)
        assert f(1.0).dtype == np.float64
    f.block_until_compiled()
    assert modes == [("off", 64)]


# ---- what --------------------------------------------------------------------------------------------------------------------

VARIOUS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "a number": (lambda x: x * 2.0, (3.0,), {}),
    "no elements": (lambda x: (pnp.sum(x), x + 1), (np.zeros((0, 3), np.int32),), {}),
    "no results": (lambda x: (), (1.0,), {}),
    "a tree": (lambda tree: {"sum": tree["a"][0] + tree["b"], "none": None}, ({"a": [X], "b": 2.0},), {}),
    "static": (lambda x, n, *, flag: x**n if flag else x, (X, 3), {"static_argnums": 1, "static_argnames": "flag"}),
    "keys": (lambda seed: pb.random.bits(pb.random.key(seed), (9,)), (7,), {}),
    "a callback": (lambda x: pb.pure_callback(np.sin, pb.ArrayType(X.shape, "float32"), x), (X,), {}),
    "LAPACK": (lambda x: pnp.linalg.svd(x)[1], (X,), {}),
    "a loop": (lambda x: pb.lax.scan(lambda c, y: (c + pnp.sin(y), c), x[0], x), (X,), {}),
    "options of XLA's": (smooth, (X,), {"compiler_options": {"xla_llvm_disable_expensive_passes": True}}),
    "unused": (lambda x, y: x + 1, (X, X), {}),
    "unused but kept": (lambda x, y: x + 1, (X, X), {"keep_unused": True}),
}


@pytest.mark.parametrize("name", VARIOUS)
def test_both_executables_compute_the_function(name: str) -> None:
    function, args, options = VARIOUS[name]
    named = {"flag": True} if name == "static" else {}
    expected = pb.tree.leaves(function(*args, **named))
    f = pb.jit(function, tiered=True, **options)
    quick = pb.tree.leaves(f(*args, **named))
    f.block_until_compiled()
    best = pb.tree.leaves(f(*args, **named))
    assert not is_quick(f)
    for one, other, wanted in zip(quick, best, expected, strict=True):
        assert one.type == other.type
        exact = one.dtype.kind in "biu"
        for seen in (one, other):
            np.testing.assert_allclose(seen, wanted, rtol=0 if exact else 1e-4, atol=0 if exact else 1e-5)


def cases() -> Iterator[tuple[Primitive, list[Any], dict[str, Any]]]:
    """The first sample of every primitive: as it is if it is of certain dtypes, else in each of these that it takes."""
    for p in all_primitives():
        for args, params in itertools.islice(p.samples(np.random.default_rng(0)) if p.samples else (), 1):
            if not is_generic(args):
                yield p, [as_array(np.asarray(arg)) for arg in args], params
                continue
            for dtype in (DTYPES[name] for name in ("bool", "int32", "float32", "complex64") if kind(DTYPES[name]) in p.kinds):
                typed = in_dtype(args, dtype)
                with contextlib.suppress(DtypeError):  # of this kind, but not of all its dtypes
                    if typed is not None and (p.result_type is None or p.result_type(*map(type_of, typed), **params)):
                        yield p, typed, params


CASES = [case for case in cases() if (case[0].name, case[1][0].dtype if case[1] else None) != ("clamp", np.bool_)]  # not XLA's
AT_ONCE = 40  # in one program: XLA takes most of the time


@pytest.mark.parametrize("start", range(0, len(CASES), AT_ONCE))
def test_what_no_rounding_is_part_of_does_not_change(start: int) -> None:
    """Floats may differ as those of two tiers may, all else is the same."""
    chosen = CASES[start : start + AT_ONCE]

    @functools.partial(pb.jit, tiered=True)
    def all_of_them(operands: list[Any]) -> list[Any]:
        return [p(*args, **params) for args, (p, _, params) in zip(operands, chosen, strict=True)]

    operands = [args for _, args, _ in chosen]
    quick = all_of_them(operands)
    assert is_quick(all_of_them)
    all_of_them.block_until_compiled()
    best = all_of_them(operands)
    assert not is_quick(all_of_them)
    for (primitive, _, _), one, other in zip(chosen, quick, best, strict=True):
        for mine, theirs in zip(pb.tree.leaves(one), pb.tree.leaves(other), strict=True):
            found = apart(np.asarray(host_of(mine)), np.asarray(host_of(theirs)))  # of integers: any difference
            assert found is None, (primitive.name, found)


def test_donated_arguments_are_gone_whoever_runs() -> None:
    f = pb.jit(lambda x, y: x + y, donate_argnums=0, tiered=True)
    for _ in range(2):
        x = pb.device_put(X)
        x = pb.jit(lambda x: x * 2.0)(x)
        np.testing.assert_array_equal(f(x, X), X * 2 + X)
        with pytest.raises(pb.errors.DonatedBufferError):
            f(x, X)
        f.block_until_compiled()


def test_effects_happen_once_a_call(capfd: pytest.CaptureFixture[str]) -> None:
    f = pb.jit(lambda x: pb.debug.print("seen {}", x), tiered=True)
    for _ in range(2):
        f(1)
        f.block_until_compiled()
    assert capfd.readouterr().out == "seen 1\nseen 1\n"


def test_an_exception_in_a_callback_is_not_a_failure_to_compile() -> None:
    def refuse(x: Any) -> Any:
        raise ZeroDivisionError("none today")

    f = pb.jit(lambda x: pb.pure_callback(refuse, pb.ArrayType((), "float32"), x), tiered=True)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="none today"):
            f(1.0)
        f.block_until_compiled()


def test_refs() -> None:
    total = pb.new_ref(pnp.zeros(()))

    @functools.partial(pb.jit, tiered=True)
    def add(x: Any) -> None:
        total[...] = total[...] + x

    add(1.0)
    add.block_until_compiled()
    add(2.0)
    assert float(total[...]) == 3.0


def test_inside_other_functions_it_is_a_part_of_them(gate: Gate) -> None:
    f = pb.jit(smooth, tiered=True)
    np.testing.assert_allclose(pb.jit(f)(X), smooth(X), rtol=1e-5)
    np.testing.assert_allclose(pb.vmap(f)(X[None])[0], smooth(X), rtol=1e-5)
    assert pb.grad(lambda x: pnp.sum(f(x)))(X).shape == X.shape
    assert executable(f) is None  # nothing was compiled for it
    outer = pb.jit(lambda x: f(x) + 1.0, tiered=True)
    outer(X)
    gate.opened.set()
    outer.block_until_compiled()
    assert not is_quick(outer) and executable(f) is None


def test_ahead_of_time_it_is_the_best_code() -> None:
    f = pb.jit(smooth, tiered=True)
    f(X)
    compiled = f.lower(X).compile()
    assert not compiled._signature.executable.quick and is_quick(f)  # type: ignore[union-attr]
    np.testing.assert_array_equal(compiled(X), pb.jit(smooth, native=False)(X))
    assert compiled.as_text() == pb.jit(smooth).lower(X).compile().as_text()


@functools.partial(pb.jit, tiered=True)
def by_name(x: Any) -> Any:
    return x + 1.0


def test_pickles_and_copies_begin_anew() -> None:
    f = pb.jit(smooth, tiered=True)
    f(X)
    for made in (copy.copy(f), pickle.loads(pickle.dumps(f))):
        assert made is not f and made._options.tiered and not made._signatures
    assert pickle.loads(pickle.dumps(by_name)) is by_name


def test_options_that_contradict_it() -> None:
    with pytest.raises(ValueError, match=r"tiered=True, or quick=True, not both"):
        pb.jit(smooth, tiered=True, quick=True)
    with pytest.raises(ValueError, match=r"tiered=True, or 'xla_backend_optimization_level', not both"):
        pb.jit(smooth, tiered=True, compiler_options={"xla_backend_optimization_level": 2})


def test_functions_without_tiers_have_the_best_code() -> None:
    f = pb.jit(smooth)
    f.block_until_compiled()
    f(X)
    before = executable(f)
    f.block_until_compiled()
    assert executable(f) is before and not before.quick and f.explain(X).now == ""


# ---- threads, failures, and what is forgotten --------------------------------------------------------------------------------


def test_each_result_is_of_one_executable() -> None:
    quick, best = [np.asarray(pb.jit(smooth, quick=level)(X)).tobytes() for level in (True, False)]
    pb.clear_caches()
    f = pb.jit(smooth, tiered=True)
    seen: list[set[bytes]] = [set() for _ in range(8)]
    swapped = threading.Event()

    def call(which: int) -> None:
        last = 5
        while last:
            last -= swapped.is_set()
            seen[which].add(np.asarray(f(X)).tobytes())

    threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    f(X)
    f.block_until_compiled()
    swapped.set()
    for thread in threads:
        thread.join()
    assert set.union(*seen) <= {quick, best} and all(best in one for one in seen)


@pytest.mark.parametrize("strict", [False, True])
def test_a_failure_is_told_once_and_the_quick_code_stays(gate: Gate, strict: bool) -> None:
    gate.fails = RuntimeError("no room")
    gate.opened.set()
    f = pb.jit(smooth, tiered=True)
    first = f(X)
    says = r"best code of jit\(smooth\) could not be compiled.*RuntimeError: no room"
    if strict:  # warnings are errors: the next call raises it, the one after that goes on
        with pytest.raises(RuntimeWarning, match=says) as caught:
            f.block_until_compiled()
        assert caught.traceback[-1].path.name == "test_tiers.py"
    else:
        with pytest.warns(RuntimeWarning, match=says) as told:
            f.block_until_compiled()
        assert told[0].filename == __file__
    np.testing.assert_array_equal(f(X), first)
    assert f.explain(X).now.endswith("the best code could not be compiled: RuntimeError: no room.")
    f.block_until_compiled()
    assert len(gate.reached) == 1
    np.testing.assert_allclose(f.lower(X).compile()(X), first, rtol=1e-5)


def test_ctrl_c_while_waiting_for_the_best_code(gate: Gate) -> None:
    f = pb.jit(smooth, tiered=True)
    f(X)
    gate.on_the_way = _thread.interrupt_main
    with pytest.raises(KeyboardInterrupt):
        f.block_until_compiled()
    assert is_quick(f)
    gate.opened.set()
    f.block_until_compiled()
    assert not is_quick(f) and len(gate.reached) == 1


def test_who_waits_for_the_best_code_may_wait_for_a_while_only(gate: Gate) -> None:
    f = pb.jit(smooth, tiered=True)
    f.block_until_compiled(timeout=0)  # there is nothing to wait for
    f(X)
    f(X.astype(np.float64))
    for timeout in (0, 0.01):
        with pytest.raises(TimeoutError, match=rf"best code of smooth \(.*\) is not there after {timeout} s"):
            f.block_until_compiled(timeout=timeout)
    assert all(isinstance(one.executable, Tiered) and one.executable.begun for one in f._signatures.values())
    gate.opened.set()
    f.block_until_compiled(timeout=1e9)
    assert len(gate.reached) == 2 and f.explain(X).now == f.explain(X.astype(np.float64)).now == "The best code runs it."
    for enough in (np.float32(3), np.int64(3), np.inf, 10**400):
        f.block_until_compiled(timeout=enough)
    wrong: Any
    for wrong in (-1, np.nan, "1", 1j, np.complex64(1), [1]):
        with pytest.raises(ValueError, match="seconds, 0 or more"):
            pb.jit(smooth).block_until_compiled(timeout=wrong)


def test_it_is_lowered_and_shown_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lowered = []
    lower = xla.lower_program

    def counted(program: Any, *rest: Any) -> Any:
        lowered.append(program.name)
        return lower(program, *rest)

    monkeypatch.setattr(xla, "lower_program", counted)
    f = pb.jit(smooth, tiered=True)
    f(X)
    f.block_until_compiled()
    assert lowered == ["smooth"] and not is_quick(f)
    pb.clear_caches()
    shown = pb.jit(lambda x: smooth(x) * 2.0, tiered=True, show_graph=True)
    capsys.readouterr()
    shown(X)
    assert is_quick(shown)
    shown.block_until_compiled()
    assert not is_quick(shown) and capsys.readouterr().out.count("StableHLO:") == 1


@pytest.mark.parametrize("mode", ["off", "on", "always", "check"])
def test_what_it_closed_over_may_be_donated_before_the_best_code_is_compiled(mode: str, gate: Gate) -> None:
    with native_mode(mode):
        kept = pb.jit(lambda x: x * 2.0)(np.ones((300, 300), np.float32))
        f = pb.jit(lambda x: pnp.fft.fft(x @ kept).real, tiered=True)
        first = f(X[:1, :1] + np.ones((300, 300), np.float32))
        give = pb.jit(lambda x: x + 1.0, donate_argnums=0)
        give(kept)
        assert kept.is_deleted() and is_quick(f)
        gate.opened.set()
        f.block_until_compiled()
        assert not is_quick(f)
        np.testing.assert_allclose(f(X[:1, :1] + np.ones((300, 300), np.float32)), first, rtol=1e-4, atol=1e-2)


def test_what_is_gone_is_not_compiled(gate: Gate) -> None:
    first, second, third = [pb.jit(lambda x, i=i: smooth(x) + i, tiered=True) for i in range(3)]
    for f in (first, second, third):
        f(X)
        tiers._background.submit(executable(f))  # type: ignore[arg-type]
    gate.arrived.acquire()  # the first is being compiled
    gone = weakref.ref(executable(second))
    del second, f
    gc.collect()
    assert gone() is None
    gate.opened.set()
    third.block_until_compiled()
    assert len(gate.reached) == 2  # the first, and the third


@pytest.mark.parametrize("clear", [lambda f: f.clear_cache(), lambda f: pb.clear_caches()], ids=["clear_cache", "clear_caches"])
def test_caches_are_cleared_while_the_best_code_is_compiled(gate: Gate, clear: Callable[[Any], None]) -> None:
    f = pb.jit(smooth, tiered=True)
    first = f(X)
    tiers._background.submit(executable(f))  # type: ignore[arg-type]
    gate.arrived.acquire()
    gone = weakref.ref(executable(f))
    clear(f)
    gc.collect()
    assert gone() is None and not f._signatures
    gate.opened.set()
    np.testing.assert_allclose(f(X), first, rtol=1e-5)
    f.block_until_compiled()
    assert not is_quick(f)


def test_the_child_of_a_fork_begins_again(gate: Gate) -> None:
    f = pb.jit(smooth, tiered=True)
    f(X)
    waiting, forked = executable(f), tiers._Background()
    assert isinstance(waiting, Tiered)
    forked.waiting.append(weakref.ref(waiting))
    waiting.begun = True
    forked.reset()
    assert not waiting.begun and not forked.waiting and "after 100 calls" in f.explain(X).now
    gate.opened.set()
    f.block_until_compiled()
    assert not is_quick(f)


def test_the_quick_executable_is_let_go() -> None:
    f = pb.jit(lambda x: smooth(x) + 3.0, tiered=True)
    f(X)
    waiting = executable(f)
    assert isinstance(waiting, Tiered)
    quick = weakref.ref(waiting.shown)
    del waiting
    f.block_until_compiled()
    gc.collect()
    assert quick() is None


def test_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any) -> None:
        raise RuntimeError("can't start new thread")

    f = pb.jit(smooth, tiered=True)
    f(X)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.warns(RuntimeWarning, match="can't start new thread"):
            f.block_until_compiled()
    assert f(X).shape == (5,)


HEAD = """
import os, sys, threading, warnings
import numpy as np
import pullback as pb
from pullback.engine import tiers, xla
pnp = pb.numpy
best, begun, gate = xla.XlaExecutable.best, threading.Event(), threading.Event()
def gated(quick):
    begun.set()
    gate.wait()
    return best(quick)
def make(i):
    return pb.jit(lambda x: pnp.sum(pnp.tanh(x @ x.T) + i, axis=0), tiered=True)
def begin(f):
    f(x)
    tiers._background.submit(next(iter(f._signatures.values())).executable)
x = np.ones((5, 5), np.float32)
xla.XlaExecutable.best = gated
f, g = make(1), make(2)
begin(f)
begun.wait()
begin(g)
"""
ENDS = {
    # The thread is joined after the functions of concurrent.futures' threads have ended, and before those of `atexit`
    "the interpreter ends": "threading._register_atexit(gate.set)",
    "the interpreter ends by an exception": "threading._register_atexit(gate.set); sys.exit(0)",
    "a call when it ends": """
import atexit
def late():
    f(x)
    h = make(3)
    h(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there is nobody left to compile for
        h.block_until_compiled()
    h(x)
atexit.register(late)
threading._register_atexit(gate.set)
""",
    "a thread that goes on waits for it": """
def wait():
    f.block_until_compiled()
    g.block_until_compiled()
    assert f.explain(x).now == g.explain(x).now == "The best code runs it."
threading.Thread(target=wait).start()
threading._register_atexit(gate.set)
""",
    "a fork": """
warnings.simplefilter("ignore")
os.register_at_fork(before=gate.set)  # it comes before ours, which waits for the thread
child = os.fork()
if child == 0:
    done = "best code runs" in g.explain(x).now  # if it had its turn before the fork
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        g.block_until_compiled()  # XLA's threads are not here
    g(x)
    os._exit(7 if done or "spawn" in str(caught[0].message) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
f.block_until_compiled()
g.block_until_compiled()
""",
}


@pytest.mark.parametrize("script", ENDS)
def test_the_end_of_a_process_and_forks(script: str) -> None:
    if "fork" in script and not hasattr(os, "fork"):
        pytest.skip("there is no fork here")
    done = run(HEAD + ENDS[script])
    assert (done.returncode, done.stderr) == (0, "")


INTERRUPTED = """
import signal, time, traceback
os.dup2(2, 1)  # lines in the order in which they are written
def interrupt(main):
    def functions():
        return [frame.f_code.co_name for frame, _ in traceback.walk_stack(sys._current_frames()[main])]
    while "_shutdown" not in functions():
        pass
    while "acquire_at_end" not in functions():
        signal.pthread_kill(main, signal.SIGINT)  # again if Python's own wait, which it came just before, did not hear it
        for _ in range(1000):
            if "acquire_at_end" in functions():
                break
            time.sleep(0.01)
    gate.set()
threading.Thread(target=interrupt, args=(threading.main_thread().ident,), daemon=True).start()
finish = tiers.Tiered.finish
def told(*args):
    os.write(1, b"compiled")
    finish(*args)
tiers.Tiered.finish = told
"""


def test_ctrl_c_when_the_interpreter_ends_does_not_cut_a_compilation_short() -> None:
    done = run(HEAD + INTERRUPTED)
    assert done.returncode == 0 and done.stderr.count("KeyboardInterrupt") == 1
    assert done.stderr.rpartition("KeyboardInterrupt")[2].startswith(": \ncompiled")


def test_several_devices() -> None:
    script = """
import numpy as np
import pullback as pb
devices = pb.devices()
f = pb.jit(lambda x: pb.numpy.tanh(x) * 2.0, tiered=True)
xs = [pb.device_put(np.ones(4, np.float32), device) for device in devices]
for _ in range(2):
    for x, device in zip(xs, devices):
        assert f(x).device == device
    f.block_until_compiled()
assert len(f._signatures) == 2 and not any(one.executable.quick for one in f._signatures.values())
"""
    done = run(script, "-W", "error", PULLBACK_CPU_DEVICES="2")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("missing", range(len(xla.QUICK)))
def test_a_jaxlib_that_lacks_an_option_compiles_without_it(missing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    options = list(xla.QUICK)
    options[missing] = ("xla_that_was_removed", options[missing][1])
    monkeypatch.setattr(xla, "QUICK", tuple(options))
    monkeypatch.setattr(xla, "_missing", set())
    with native_mode("off"):
        f = pb.jit(lambda x: x @ x + missing, tiered=True)
        assert f(np.eye(2)).host.tolist() == (np.eye(2) + missing).tolist()
    assert xla._missing == {"xla_that_was_removed"}


def test_a_jaxlib_that_lacks_a_modules_option_compiles_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategy, "LIBRARY", "xla_that_was_removed")
    monkeypatch.setattr(xla, "_missing", set())
    with native_mode("off"):
        assert pb.jit(lambda x: pb.numpy.maximum(x, 2.5) - 7.25)(np.eye(2)).host.tolist() == [[-4.75] * 2] * 2
    assert xla._missing == {"xla_that_was_removed"}
