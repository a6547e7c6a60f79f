"""How calls reach kernels: what is read in place, what goes the long way, what happens around calls, and that nothing leaks."""

from __future__ import annotations

import copy
import ctypes
import gc
import inspect
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from handwritten_kernels import (
    LONG,
    MISSED,
    Function,
    adding_one,
    at_once,
    call_of,
    copying,
    descriptor_of,
    elementwise,
    endless,
    function_of,
    kernel_text,
    needs_entry,
    sum_and_difference,
)
from programs import unlike

import pullback as pb
from pullback.core.array import Array, BorrowedArray
from pullback.core.axes import axis_sizes
from pullback.core.dtypes import SHORT_NAMES, kind
from pullback.core.modes import current_mode, narrowing, overriding
from pullback.engine.backend import CompileOptions, placement, preferred
from pullback.native import compile as compiling
from pullback.native import entry
from pullback.native.choice import native_mode
from pullback.native.executable import NativeExecutable
from pullback.native.graph import Refused
from pullback.native.kernel import Kernel
from pullback.program.program import Program

pytestmark = needs_entry

F8 = np.arange(8, dtype=np.float32)
NUMBERS = [dtype for dtype in SHORT_NAMES if kind(dtype) in "biufc"]


# ---- arguments ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (3, 5), (0,), (2, 0, 3), (1, 1, 1, 1, 7)], ids=str)
@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda dtype: dtype.name)
def test_each_dtype_in_each_shape_is_read_and_made(dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    given = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    type = pb.ArrayType(shape, dtype)
    function = function_of(copying(type))
    for x in (Array(type, given), given, *([given[()], Array(type, given[()])] if shape == () else [])):
        got = function(x)
        assert got.__class__ is Array and got.type is type and got._buffer is None
        assert got._host.__class__ is np.ndarray and got._host.dtype is type.dtype and got._host.shape == shape
        assert got._host.tobytes() == given.tobytes()
        assert not np.shares_memory(got._host, given)


@pytest.mark.parametrize(
    "value, type",
    [
        (1.25, pb.ArrayType((), "float32", weak=True)),
        (float(np.finfo(np.float32).max), pb.ArrayType((), "float32", weak=True)),
        (float("-inf"), pb.ArrayType((), "float32", weak=True)),
        (float("nan"), pb.ArrayType((), "float32", weak=True)),
        (-0.0, pb.ArrayType((), "float64", weak=True)),
        (0.1, pb.ArrayType((), "float64", weak=True)),
        (-(2**31), pb.ArrayType((), "int32", weak=True)),
        (2**31 - 1, pb.ArrayType((), "int32", weak=True)),
        (-(2**63), pb.ArrayType((), "int64", weak=True)),
        (True, pb.ArrayType((), "bool")),
        (False, pb.ArrayType((), "bool")),
    ],
)
def test_pythons_numbers_are_elements_of_weak_types(value: Any, type: Any) -> None:
    got = function_of(copying(type))(value)
    expected = np.asarray(value).astype(type.dtype)
    assert got.type is type and got._host.tobytes() == expected.tobytes()


def _donated() -> Array:
    x = pb.numpy.asarray(F8)
    x.delete()
    return x


class OfNumpys(np.ndarray[Any, Any]):
    """A subclass may mean anything by its elements."""


OTHERS = {
    "another dtype": lambda: F8.astype(np.float64),
    "another dtype of as many bytes": lambda: F8.astype(np.int32),
    "another byte order": lambda: F8.astype(">f4"),
    "another size": lambda: F8[:7].copy(),
    "another rank": lambda: F8.reshape(2, 4),
    "a rank too many": lambda: F8.reshape(1, 8),
    "strides": lambda: np.arange(16, dtype=np.float32)[::2],
    "backwards": lambda: F8[::-1],
    "not aligned": lambda: np.zeros(33, np.uint8)[1:].view(np.float32),
    "broadcast": lambda: np.broadcast_to(np.float32(1), (8,)),
    "a subclass": lambda: F8.view(OfNumpys),
    "masked": lambda: np.ma.masked_array(F8),
    "an object": lambda: np.array([None] * 8),
    "a list": lambda: [1.0] * 8,
    "a number": lambda: 1.0,
    "None": lambda: None,
    "a scalar": lambda: np.float32(1),
    "a weak Array": lambda: Array(pb.ArrayType((8,), "float32", weak=True), F8),
    "an Array of another size": lambda: pb.numpy.zeros(7),
    "a donated Array": _donated,
    "a borrowed Array": lambda: BorrowedArray(pb.ArrayType((8,), "float32"), F8),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_as_the_kernel_takes_it_goes_the_long_way(name: str) -> None:
    function, given = function_of(adding_one()), OTHERS[name]()
    said, args, kwargs = function(given)
    assert said == MISSED and len(args) == 1 and args[0] is given and kwargs == {}


@pytest.mark.parametrize("args, kwargs", [((), {}), ((F8, F8), {}), ((), {"x": F8}), ((F8,), {"y": 1})], ids=str)
def test_other_numbers_of_arguments_and_keywords_go_the_long_way(args: Any, kwargs: Any) -> None:
    said, got, named = function_of(adding_one())(*args, **kwargs)
    assert said == MISSED and [*map(id, got)] == [*map(id, args)] and named == kwargs


def test_a_python_integer_that_does_not_fit_goes_the_long_way() -> None:
    for dtype, value in [("int32", 2**31), ("int32", -(2**31) - 1), ("int32", 2**100), ("int64", 2**63)]:
        assert function_of(copying(pb.ArrayType((), dtype, weak=True)))(value)[0] == MISSED


def test_numbers_of_other_classes_are_not_pythons() -> None:
    weak = function_of(copying(pb.ArrayType((), "float32", weak=True)))
    assert weak(1)[0] == weak(True)[0] == weak(np.float32(1))[0] == weak(np.float64(1))[0] == MISSED
    strong = function_of(copying(pb.ArrayType((), "float32")))
    assert strong(1.0)[0] == strong(np.float64(1))[0] == strong(np.int32(1))[0] == MISSED


def test_a_numpy_array_that_cannot_be_written_to_is_read() -> None:
    given = F8.copy()
    given.flags.writeable = False
    assert (function_of(adding_one())(given)._host == F8 + 1).all()


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint32", "float32", "float64", "complex64"])
def test_arrays_that_were_unpickled_are_read(dtype: str) -> None:
    """Their dtypes are objects of their own; those of another order of bytes, or of another kind, are other dtypes."""
    x = pickle.loads(pickle.dumps(np.array([1, 0, 1], dtype)))
    assert x.dtype is not np.dtype(dtype)
    call = call_of(copying(pb.ArrayType((3,), dtype)))
    assert np.array_equal(call(x)[0].host, x)
    other = {"int64": "uint64", "bool": "uint8", "int8": "bool"}.get(dtype, np.dtype(dtype).newbyteorder(">"))
    assert call(x.astype(other)) is MISSED


def test_wide_numpy_arrays_are_not_read_where_values_become_narrow() -> None:
    type = pb.ArrayType((3,), "float64")
    with narrowing():
        function = function_of(copying(type))
        assert function(np.zeros(3))[0] == MISSED
        assert function(Array(type, np.zeros(3))).type is type  # those that exist keep their dtype


def test_values_on_a_device_are_fetched_once() -> None:
    function = function_of(adding_one())
    with native_mode("off"):
        x = pb.jit(lambda x: x * 2.0)(F8)
    assert x._host is None
    assert (function(x)._host == F8 * 2 + 1).all()
    host = x._host
    assert (function(x)._host == F8 * 2 + 1).all() and x._host is host


def test_an_array_whose_memory_is_in_another_order_is_copied_once() -> None:
    type = pb.ArrayType((3, 5), "float32")
    given = np.arange(15, dtype=np.float32).reshape(5, 3).T
    x = Array(type, given)
    assert (function_of(copying(type))(x)._host == given).all()
    assert x._host.flags.c_contiguous


def test_results_that_are_large_lie_where_xla_shares_them() -> None:
    for count in (1 << 12, 100_003):
        y = function_of(adding_one(count))(np.zeros(count, np.float32))
        assert y._host.ctypes.data % 64 == 0 and y._host.flags.c_contiguous and y._host.flags.writeable
        with native_mode("off"):
            assert (pb.jit(lambda y: y * 2.0)(y).host == 2).all()
        assert np.shares_memory(y._host, np.asarray(memoryview(y._buffer)))


SEEN = {
    "nothing": lambda y: None,
    "itself": lambda y: y,
    "an alias": lambda y: y.alias(),
    "a view": lambda y: y.view(),
    "frozen": lambda y: y.host,
    "a part": lambda y: np.asarray(y)[2:],
    "a memoryview": lambda y: memoryview(y._host)[1:],
    "dlpack": lambda y: np.from_dlpack(y),
    "XLA's": lambda y: pb.jit(lambda y: (y, y + 1.0), native=False)(y)[0],
    "a device's": lambda y: pb.device_put(y),
    "a weak reference": lambda y: weakref.ref(y._host),
}


@pytest.mark.parametrize("which", SEEN)
@pytest.mark.parametrize("chained", [False, True], ids=["apart", "one after the other"])
def test_memory_of_results_is_used_again_when_nothing_refers_to_it(which: str, chained: bool) -> None:
    function, seen, places, y = function_of(adding_one()), [], set(), None
    for i in range(8):
        y = function(y if chained and y is not None else F8 + np.float32(10 * i))
        expected = y._host.copy()
        places.add(y._host.ctypes.data)
        seen.append((SEEN[which](y), expected))
    del y
    for one, expected in seen:
        one = one() if one.__class__ is weakref.ref else one
        if one is not None:
            found = np.asarray(one)
            assert (found == expected[len(expected) - len(found) :]).all()
    assert which != "nothing" or len(places) == 2
    assert which in ("nothing", "XLA's", "a device's") or len(places) > 2  # those two copy what is small


def test_memory_of_large_results_is_given_back() -> None:
    for count, kept in [(entry.KEPT_BYTES // 4, True), (entry.KEPT_BYTES // 4 + 1, False)]:
        function = function_of(adding_one(count))
        memory = weakref.ref(function(np.zeros(count, np.float32))._host)
        assert (memory() is not None) == kept
        del function
        assert memory() is None


def test_two_results_are_a_tuple_in_their_order() -> None:
    x, y = F8, np.flip(F8).copy()
    got = call_of(sum_and_difference())(x, y)
    assert got.__class__ is tuple
    for found, expected in zip(got, (x + y, x - y), strict=True):
        assert (found._host == expected).all()


def test_kernels_without_inputs_or_results() -> None:
    scalar = pb.ArrayType((), "float32")
    made = function_of(Kernel(kernel_text("  store float 2.5, ptr %y0\n  ret i32 0\n"), (), (scalar,)))
    assert made().type is scalar and made()._host == 2.5 and made(1)[0] == MISSED
    assert call_of(Kernel(kernel_text("  ret i32 0\n"), (scalar,), ()))(np.float32(1)) == ()


def test_a_kernel_of_many_arrays() -> None:
    scalar = pb.ArrayType((), "float32")
    text = kernel_text("  %v = load float, ptr %last\n  store float %v, ptr %y0\n  ret i32 0\n").replace(
        "entry:\n", "entry:\n  %at = getelementptr ptr, ptr %operands, i64 3999\n  %last = load ptr, ptr %at\n"
    )
    many = (scalar,) * 4000
    executable = NativeExecutable(Kernel(text, many, (scalar,)))
    given = [Array(scalar, np.asarray(value, np.float32)) for value in range(4000)]
    for _ in range(10):
        assert executable(given)[0]._host == 3999
    with pytest.raises(Refused, match="at most 4096"):
        Kernel(text, many + many, (scalar,))


LAST = """
import atexit, os, sys
import numpy as np
from handwritten_kernels import adding_one, function_of
function, x = function_of(adding_one()), np.arange(8, dtype=np.float32)
class Last:
    def __del__(self, function=function, x=x, write=os.write):
        write(1, f"{function(x)._host.tolist() == (x + 1).tolist()} ".encode())
function(x)
last = Last()
sys.held = Last()
atexit.register(lambda: function(x))
"""


def test_what_a_process_does_last_may_call_kernels() -> None:
    paths = os.pathsep.join([os.path.dirname(__file__), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths}
    out = subprocess.run([sys.executable, "-c", LAST], capture_output=True, text=True, check=True, env=environment)
    assert out.stdout.split() == ["True", "True"], out.stderr


def test_constants_come_behind_the_inputs() -> None:
    type = pb.ArrayType((8,), "float32")
    table = np.array([1, 2, 4, 8, 16, 32, 64, 128], np.float32)
    kernel = Kernel(elementwise(8, "float", "  %r = fmul float %v, %w"), (type,), (type,), constants=(table,))
    assert (function_of(kernel)(F8)._host == F8 * table).all()


def test_the_descriptor_that_fits_is_found() -> None:
    sizes = [3, 8, 21, 64]
    function = function_of(*map(adding_one, sizes))
    for size in sizes:
        assert (function(np.ones(size, np.float32))._host == np.full(size, 2, np.float32)).all()
    assert function(np.ones(9, np.float32))[0] == MISSED


def test_small_numbers_are_zero_inside_and_not_outside() -> None:
    type = pb.ArrayType((1,), "float32")
    halve = function_of(Kernel(elementwise(1, "float", "  %r = fmul float %v, 0.5"), (type,), (type,)))
    tiny = np.array([np.finfo(np.float32).tiny])
    assert halve(tiny)._host[0] == 0  # as in compiled code of XLA's
    assert (tiny * np.float32(0.5))[0] > 0


# ---- around calls -----------------------------------------------------------------------------------------------------------


def test_what_is_around_a_call_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    function, direct, seen = function_of(adding_one()), call_of(adding_one()), []

    def look(tag: str) -> None:
        seen.append((tag, function(F8)[0] == MISSED, direct(F8) == MISSED))

    look("nothing")
    with overriding(bits=64):
        look("another mode")
    with overriding(bits=64), overriding(bits=32):
        look("the same mode, set again")
    pb.xpr(lambda x: (look("a trace"), x)[1], 1.0)
    pb.vmap(lambda x: (axis_sizes() and look("a named axis"), x)[1], axis_name="batch")(F8)
    pb.grad(lambda x: (look("a gradient"), x)[1])(1.0)
    monkeypatch.setattr(placement, "several", True)
    look("several devices")
    assert seen == [
        ("nothing", False, False),
        ("another mode", True, False),
        ("the same mode, set again", False, False),
        ("a trace", True, False),
        ("a named axis", True, False),
        ("a gradient", False, False),
        ("several devices", True, False),
    ]


def test_the_mode_of_the_process_is_looked_at() -> None:
    function = function_of(adding_one())
    before = pb.core.modes.set_process_mode(bits=64)
    try:
        assert function(F8)[0] == MISSED
    finally:
        pb.core.modes.set_process_mode(bits=before.bits)
    assert function(F8)[0] != MISSED


def test_what_is_retired_goes_the_long_way() -> None:
    function = function_of(adding_one())
    assert type(function) is not Function and isinstance(function, Function)
    assert type(function).__name__ == "Function" and entry.plain_class(function) is Function
    entry.retire(function)
    assert type(function) is Function and function(F8)[0] == MISSED
    entry.install(function, descriptor_of(adding_one(), makes_tuple=False))
    assert (function(F8)._host == F8 + 1).all()


def test_a_call_that_retires_its_own_function_ends_well() -> None:
    """Python code runs where values are fetched, and inside kernels that ask whether they are to stop."""
    function = function_of(endless())
    x = np.float32(1)

    def forget(*ignored: Any) -> None:
        entry.retire(function)
        gc.collect()
        raise KeyError("forgotten")

    before = signal.signal(signal.SIGALRM, forget)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(KeyError, match="forgotten"):
            function(x)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert function(x)[0] == MISSED


@pytest.mark.parametrize("weight", [0.0, LONG], ids=["with the lock", "without the lock"])
def test_a_signals_handler_has_small_numbers(weight: float) -> None:
    """Inside the kernel they are zero."""
    call, smallest, seen = call_of(endless(weight)), [5e-324], []

    def handle(*ignored: Any) -> None:
        seen.append(smallest[0] * 1.0)
        raise KeyError("enough")

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(KeyError, match="enough"):
            call(np.float32(1))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert seen == smallest and smallest[0] * 1.0 == 5e-324


def test_other_threads_run_beside_a_loop_that_was_thought_to_be_short() -> None:
    call = call_of(endless(0.0))

    def turn() -> None:
        turns.append(1)
        signal.raise_signal(signal.SIGINT)

    turns: list[int] = []
    other = threading.Timer(0.02, turn)
    other.start()
    with pytest.raises(KeyboardInterrupt):
        call(np.float32(1))
    other.join()
    assert turns == [1]


def test_a_handler_that_raises_anywhere_leaves_no_word_of_a_freed_descriptor() -> None:
    """As a signal's handler might, between any two instructions."""

    class Raised(Exception):
        pass

    def word(function: Function) -> int:
        return ctypes.c_uint64.from_address(id(function) + function._head).value

    def at(count: int) -> Any:
        left = [count]

        def trace(frame: Any, event: str, argument: Any) -> Any:
            if frame.f_code is not entry._point.__code__:
                return None
            frame.f_trace_opcodes = True
            if event == "opcode":
                left[0] -= 1
                if not left[0]:
                    raise Raised
            return trace

        return trace

    before, ended = sys.gettrace(), False
    for count in range(1, 200):
        function = function_of(adding_one())
        assert function._descriptor is not None
        freed = weakref.ref(function._descriptor)
        old = function._descriptor.address
        sys.settrace(at(count))
        try:
            entry.retire(function)
            ended = True
        except Raised:
            pass
        finally:
            sys.settrace(before)
        gc.collect()
        assert word(function) in (0, old) and (word(function) == 0 or freed() is not None)
        function(F8)
        if ended:
            break
    assert ended and count > 10


# ---- errors, and what they leave --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [0.0, LONG], ids=["with the lock", "without the lock"])
def test_ctrl_c_ends_a_long_loop(weight: float) -> None:
    call, x = call_of(endless(weight)), pb.numpy.asarray(np.float32(1))
    call_of(copying(pb.ArrayType((), "float32")))(x)  # its values are fetched
    counts = sys.getrefcount(x), sys.getrefcount(x._host), sys.getrefcount(call._descriptor)
    for _ in range(3):
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        before = signal.signal(signal.SIGALRM, lambda *ignored: signal.raise_signal(signal.SIGINT))
        try:
            with pytest.raises(KeyboardInterrupt):
                call(x)
        finally:
            signal.signal(signal.SIGALRM, before)
    assert (sys.getrefcount(x), sys.getrefcount(x._host), sys.getrefcount(call._descriptor)) == counts


def test_a_kernel_that_stops_by_itself_is_an_interrupt() -> None:
    type = pb.ArrayType((8,), "float32")
    text = adding_one().source.replace("ret i32 0", "ret i32 1")
    with pytest.raises(KeyboardInterrupt):
        call_of(Kernel(text, (type,), (type,)))(F8)


def test_lack_of_memory_is_an_error() -> None:
    type = pb.ArrayType((8,), "float32")
    call = call_of(Kernel(adding_one().source, (type,), (type,), workspace=1 << 60))
    wide = pb.ArrayType((1 << 60,), "float32")
    large = call_of(Kernel(adding_one().source, (type,), (type, wide)))
    count = sys.getrefcount(F8)
    for one in (call, large):
        with pytest.raises(MemoryError):
            one(F8)
    assert sys.getrefcount(F8) == count


def test_an_error_while_values_are_fetched_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def to_host(*ignored: Any) -> Any:
        raise OSError("the device is gone")

    with native_mode("off"):
        x = pb.jit(lambda x: x * 2.0)(F8)
    monkeypatch.setattr(type(pb.core.array.buffer_access), "to_host", to_host)
    call = call_of(sum_and_difference())
    count = sys.getrefcount(F8), sys.getrefcount(x)
    with pytest.raises(OSError, match="the device is gone"):
        call(F8, x)
    del call
    assert (sys.getrefcount(F8), sys.getrefcount(x)) == count


def test_a_long_call_that_raises_raises() -> None:
    def refuse(*args: Any) -> Any:
        raise TypeError("not so")

    with pytest.raises(TypeError, match="not so"):
        call_of(adding_one(), refuse)("x")


def _held(objects: list[Any]) -> list[int]:
    gc.collect()
    return [sys.getrefcount(one) for one in objects]


def test_a_hundred_thousand_calls_leave_nothing() -> None:
    array, number, other = pb.numpy.asarray(F8), np.float32(2), np.zeros(3)
    one, two = function_of(adding_one(), adding_one(5000)), call_of(sum_and_difference())
    scalar = function_of(copying(pb.ArrayType((), "float32")))
    large = np.zeros(5000, np.float32)
    wrong = pb.numpy.zeros(9)

    def calls(times: int) -> None:
        for _ in range(times):
            one(array)
            one(F8)
            one(large)
            two(array, F8)
            two(array, wrong)
            scalar(number)
            one(other)

    calls(1000)
    types = [pb.ArrayType((8,), "float32"), pb.ArrayType((), "float32"), F8.dtype, np.dtype(np.uint8), Array, np.ndarray]
    watched = [
        array,
        array._host,
        F8,
        number,
        other,
        large,
        wrong,
        one._descriptor,
        two._descriptor,
        current_mode(),
        *types,
        None,
    ]
    held, peak = _held(watched), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    calls(15_000)
    assert _held(watched) == pytest.approx(held, abs=20)  # pytest and Python hold some for themselves
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 2000  # kB; 15,000 arrays of 5000 would be 300,000


def test_descriptors_and_code_are_freed() -> None:
    code = []
    for size in range(2, 6):
        function = function_of(adding_one(size + 1000))
        assert function(np.zeros(size + 1000, np.float32)).shape == (size + 1000,)
        code.append(pb.core.array.WeakValueDictionary({0: function._descriptor.code}))
        del function
    gc.collect()
    assert [len(one) for one in code] == [0] * 4


def test_eight_threads_at_once() -> None:
    kernels = [adding_one(), adding_one(3000, LONG)]
    function, wrong = function_of(*kernels), []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(500):
            x = rng.random(8 if rng.random() < 0.5 else 3000, np.float32)
            if not (function(x)._host == x + np.float32(1)).all():
                wrong.append(seed)

    at_once(work)
    assert wrong == []


def test_kernels_come_and_go_while_others_call() -> None:
    function, wrong, done = function_of(adding_one()), [], threading.Event()

    def call() -> None:
        while not done.is_set():
            got = function(F8)
            if got.__class__ is Array and not (got._host == F8 + 1).all():
                wrong.append(got)

    def change() -> None:
        for turn in range(300):
            entry.install(function, descriptor_of(adding_one(), makes_tuple=False, next=function._descriptor))
            if turn % 3 == 0:
                entry.retire(function)

    callers, changers = ([threading.Thread(target=work) for _ in range(3)] for work in (call, change))
    for thread in callers + changers:
        thread.start()
    for thread in changers:
        thread.join()
    done.set()
    for thread in callers:
        thread.join()
    assert wrong == []
    entry.install(function, descriptor_of(adding_one(), makes_tuple=False))
    assert (function(F8)._host == F8 + 1).all()


def test_other_threads_run_beside_long_work() -> None:
    """With the lock held by the kernel this would never end."""
    call, ran = call_of(endless()), threading.Event()

    def stop() -> None:
        ran.set()
        signal.raise_signal(signal.SIGINT)

    threading.Timer(0.02, stop).start()
    with pytest.raises(KeyboardInterrupt):
        call(np.float32(0))
    assert ran.is_set()


def test_what_lies_elsewhere_turns_the_entry_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "_made", lambda: entry._Entry())
    assert entry.unavailable.__wrapped__() is None
    monkeypatch.setattr(entry, "_words", lambda thing, count: [0] * count)
    assert "does not lie where it has always lain" in entry.unavailable.__wrapped__()


def test_scalars_that_hold_their_elements_elsewhere_are_not_read() -> None:
    assert entry.scalar_class(np.dtype(np.float32)) is np.float32
    assert entry.scalar_class(np.dtype([("a", "i4")])) is None
    assert ctypes.string_at(id(np.float64(1.5)) + 16, 8) == np.float64(1.5).tobytes()  # what the entry relies on


# ---- jit --------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def native_additions() -> Iterator[list[Program]]:
    """Programs of one addition of 1 to 8 numbers are kernels here; the list has those that were."""
    made: list[Program] = []
    eight = pb.ArrayType((8,), "float32")

    def choose(program: Program, options: CompileOptions, donated: tuple[bool, ...]) -> NativeExecutable | None:
        simple = program.input_types == (eight,) == program.output_types
        if donated or not simple or [equation.primitive.name for equation in program.equations] != ["add"]:
            return None
        made.append(program)
        return NativeExecutable(adding_one())

    before, preferred.compile = preferred.compile, choose
    pb.clear_caches()
    try:
        yield made
    finally:
        preferred.compile = before
        pb.clear_caches()


@pb.jit
def add_one(x: Any) -> Any:
    """Adds one."""
    return x + 1.0


def test_a_jitted_function_is_the_same_function(native_additions: list[Program]) -> None:
    x = pb.numpy.asarray(F8)
    for given in (x, F8, x):
        assert (add_one(given).host == F8 + 1).all()
    assert len(native_additions) == 1 and add_one._descriptor is not None and add_one._descriptor.length == 1
    assert isinstance(add_one, type(pb.jit(abs))) and repr(add_one).startswith("<jit of ") and add_one.__doc__ == "Adds one."
    assert pickle.loads(pickle.dumps(add_one)) is add_one
    copied = copy.copy(pb.jit(lambda x: x + 1.0))
    assert (copied(x).host == F8 + 1).all() and (copy.copy(copied)(x).host == F8 + 1).all()
    assert inspect.signature(add_one) == inspect.signature(add_one.__wrapped__)
    assert callable(add_one) and (add_one.__call__(x).host == F8 + 1).all()
    assert add_one.eval_shape(x) == pb.ArrayType((8,), "float32")
    add_one.note = "kept"
    add_one.clear_cache()
    assert add_one.note == "kept" and add_one._descriptor is None and (add_one(x).host == F8 + 1).all()
    assert add_one._descriptor is not None
    pb.clear_caches()
    assert add_one._descriptor is None


def test_other_calls_of_it_go_as_before(native_additions: list[Program]) -> None:
    x = pb.numpy.asarray(F8)
    add_one(x)
    assert (add_one(x=x).host == F8 + 1).all() and (add_one(x=x).host == F8 + 1).all()
    assert (add_one(pb.numpy.zeros(3)).host == 1).all() and add_one(1.0).type == pb.ArrayType((), "float32", weak=True)
    assert (add_one(np.arange(8, dtype=np.int32)).host == F8 + 1).all()
    with pytest.raises(TypeError):
        add_one()
    with pytest.raises(TypeError):
        add_one(x, x)
    x.delete()
    with pytest.raises(pb.errors.DonatedBufferError, match="Argument x of add_one"):
        add_one(x)


def test_a_subclass_that_says_what_a_call_does_is_asked(native_additions: list[Program]) -> None:
    class Counted(pb.api.compiled.Jitted):
        calls = 0

        def __call__(self, *args: Any) -> Any:
            self.calls += 1
            return super().__call__(*args)

    counted = Counted(*pb.jit(lambda x: x + 1.0)._made_from)
    for _ in range(4):
        assert (counted(F8).host == F8 + 1).all()
    assert counted.calls == 4


def test_transformations_of_it_are_as_before(native_additions: list[Program]) -> None:
    x = pb.numpy.asarray(F8)
    add_one(x)
    assert (pb.vmap(add_one)(pb.numpy.ones((4, 8))).host == 2).all()
    assert (pb.vmap(add_one)(pb.numpy.ones((8,))).host == 2).all()
    assert (pb.grad(lambda x: add_one(x).sum())(x).host == 1).all()
    out, tangent = pb.jvp(add_one, (x,), (x,))
    assert (out.host == F8 + 1).all() and (tangent.host == F8).all()
    assert (pb.jit(lambda x: add_one(x) * 2.0)(x).host == (F8 + 1) * 2).all()
    assert "call" in str(pb.xpr(add_one, x))
    with overriding(compiles=False):
        assert (add_one(x).host == F8 + 1).all()


def test_containers_are_taken_apart_by_the_fast_path(native_additions: list[Program]) -> None:
    x = pb.numpy.asarray(F8)
    function = pb.jit(lambda tree, n: {"sum": [tree["x"] + 1.0]}, static_argnums=1)
    for given in (x, x, F8, x, F8, F8):
        assert (function({"x": given}, 3)["sum"][0].host == F8 + 1).all()
    assert len(native_additions) == 1 and len(function._fast_paths) >= 1 and function._descriptor is None


def test_static_arguments_that_are_named_or_left_out(native_additions: list[Program]) -> None:
    """The calls f(x, n=1), f(x, n=2) and f(x) have the same flat arguments."""
    function = pb.jit(lambda x, n=1: x + 1.0 if n == 1 else x + x, static_argnames="n")
    for _ in range(3):
        assert (function(F8, n=1).host == F8 + 1).all() and (function(F8).host == F8 + 1).all()
    named = pb.jit(lambda x, n=2: x + 1.0 if n == 1 else x * 2.0, static_argnames="n")
    for _ in range(3):
        assert (named(F8, n=1).host == F8 + 1).all() and (named(F8).host == F8 * 2).all()
    assert len(native_additions) > 0 and named._descriptor is None


def test_methods_bind(native_additions: list[Program]) -> None:
    class Held:
        function = pb.jit(lambda x: x + 1.0)

    held = Held.function
    held(F8)
    assert Held.function is held and held.__get__(None) is held
    with pytest.raises(TypeError):
        Held().function(F8)  # self is an argument, too


def test_an_executable_says_what_it_is(native_additions: list[Program]) -> None:
    x = pb.numpy.asarray(F8)
    compiled = add_one.lower(x).compile()
    assert (compiled(x).host == F8 + 1).all()
    executable = NativeExecutable(adding_one())
    assert "fadd" in executable.optimized_text() and "kernel" in compiling.assembly(executable.kernel.source)
    assert executable.memory_analysis()["output_size_in_bytes"] == 32 and executable.runner() is None
    assert executable.cost_analysis()["bytes accessed"] == 64
    weak = Array(pb.ArrayType((8,), "float32", weak=True), F8)
    assert executable([weak])[0].type == pb.ArrayType((8,), "float32")
    borrowed = BorrowedArray(pb.ArrayType((8,), "float32"), np.arange(16, dtype=np.float32)[::2])
    assert (executable([borrowed])[0].host == np.arange(16)[::2] + 1).all()
    with pytest.raises(pb.errors.ProgramError, match="was called with"):
        executable([pb.numpy.zeros(3)])


def test_a_loop_of_unknown_length_leaves_other_threads_their_turns() -> None:
    """It looks light, so it begins with the interpreter's lock.

    The interpreter takes the lock from nobody here (its switch interval is longer than the test), so that
    only the loop can have given it away; and a busy machine may leave the other thread waiting through a
    whole call, so there may be several.
    """

    def halved(state: Any) -> Any:
        return state[0] + 1, state[1] * 0.5

    count = pb.jit(lambda n: pb.lax.while_loop(lambda state: state[0] < n, halved, (0, 1.0)))
    assert count.explain(5).tier == "native"
    count(5)
    ended, turns = threading.Event(), []

    def other() -> None:
        while not ended.is_set():
            turns.append("turn")
            threading.Event().wait(0.001)

    thread = threading.Thread(target=other)
    interval = sys.getswitchinterval()
    try:
        thread.start()
        sys.setswitchinterval(3600.0)
        before = len(turns)
        calls = 0
        while len(turns) == before and calls < 100:
            count(100_000_000)
            calls += 1
        during = len(turns) - before
    finally:
        sys.setswitchinterval(interval)
        ended.set()
        thread.join()
    assert during


def test_a_mode_holds_for_functions_that_were_called_before() -> None:
    """Of a primitive whose rules for the two back ends differ."""

    run, x = pb.jit(unlike()), np.ones(2, np.float32)
    assert run(x)[0] == 1.0
    for _ in range(2):
        with native_mode("off"):
            assert run(x)[0] == run(x)[0] == -1.0
        with native_mode("check"), pytest.raises(pb.errors.TierMismatch):
            run(x)
        assert run(x)[0] == run(x)[0] == 1.0
