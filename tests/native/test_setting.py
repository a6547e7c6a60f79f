"""Who runs a Program: what the setting does to functions that were called before, and what is compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from handwritten_kernels import needs_entry

import pullback as pb
from pullback.native import choice
from pullback.native.checked import apart
from pullback.native.choice import MODES, native_mode
from pullback.native.kernel import MAX_ARRAYS

pytestmark = needs_entry

F8 = np.arange(8, dtype=np.float32)


@pytest.mark.parametrize("argument, made", [(F8, lambda x: x + 1.0), ({"x": F8}, lambda x: {"y": x["x"] + 1.0})])
def test_the_setting_holds_for_functions_that_were_called_before(argument: Any, made: Any) -> None:
    function = pb.jit(made)
    for mode in (*MODES, *MODES):
        with native_mode(mode):
            for _ in range(3):
                (found,) = pb.tree.leaves(function(argument))
                assert (found._buffer is None) == (function.explain(argument).tier == "native") == (mode != "off")
            assert (found.host == F8 + 1).all()


def test_a_setting_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="off, on, check, always, not 'fast'"):
        native_mode("fast")


def test_a_setting_holds_in_decorated_functions_and_does_nothing_by_itself() -> None:
    @pb.native_mode("off")
    def tier() -> str:
        return pb.jit(lambda x: x + 1.0).explain(F8).tier

    assert pb.native_mode is native_mode and (tier(), pb.jit(lambda x: x + 1.0).explain(F8).tier) == ("xla", "native")
    with pytest.warns(RuntimeWarning, match=r"native_mode\('off'\) did nothing: .* PULLBACK_NATIVE=off"):
        pb.native_mode("off")


@pytest.mark.parametrize("function", [lambda f, x: f(x), lambda f, x: f({"x": x})], ids=["alone", "in a dict"])
@pytest.mark.parametrize("mode", MODES)
def test_each_number_that_overflows_warns(mode: str, function: Any) -> None:
    double = pb.jit(lambda x: pb.tree.leaves(x)[0] * 2.0)
    largest = float(np.finfo(np.float32).max)
    with native_mode(mode):
        for x in (1.0, 1e300, -1e39, 1e300, 1e300, 1e300):
            if abs(x) > largest:
                with pytest.warns(RuntimeWarning, match="overflow encountered"):
                    found = function(double, x)
            else:
                found = function(double, x)
            assert float(found) == (2.0 if x == 1.0 else np.copysign(np.inf, x))
        for x in (largest, -largest, np.inf, -np.inf) * 4:
            assert float(function(double, x)) == np.copysign(np.inf, x)
        assert np.isnan(float(function(double, float("nan"))))


def halved_loop(x: Any) -> Any:
    return pb.lax.fori_loop(0, 3000, lambda i, c: c * 0.999 + pb.numpy.sin(x), x)


ABSTRACT = {
    "a loop": halved_loop,
    "its gradient": pb.grad(lambda x: pb.numpy.sum(halved_loop(x))),
    "jit": pb.jit(halved_loop),
    "a loop of known numbers": lambda x: x + halved_loop(F8),
    "a primitive's own rule": lambda x: pb.numpy.sort(pb.numpy.exp(x)) @ pb.numpy.tanh(x),
}


@pytest.mark.parametrize("name", ABSTRACT)
def test_what_is_traced_does_not_depend_on_the_setting(name: str) -> None:
    programs, types = [], []
    for mode in MODES:
        with native_mode(mode):
            programs.append(pb.xpr(ABSTRACT[name], F8))
            types.append(pb.eval_shape(ABSTRACT[name], F8))
    assert all(one == programs[0] and one.text() == programs[0].text() for one in programs) and len(set(types)) == 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("native", [True, False])
def test_what_is_compiled_ahead_of_time_is_xlas(mode: str, native: bool) -> None:
    function = pb.jit(lambda x: x + 1.0, native=native)
    with native_mode(mode):
        compiled = function.lower(F8).compile()
        assert str(compiled.explain()) == "xla: it was compiled ahead of time."
        assert (compiled(F8).host == F8 + 1).all() and compiled(F8)._buffer is not None


def test_nothing_is_measured_that_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []
    monkeypatch.setattr(choice, "_largest_product", lambda *args: measured.append(args) or (0, 0))
    for mode, often in (("always", 0), ("on", 1)):
        with native_mode(mode):
            choice.choose(pb.xpr(lambda x: x @ x, F8))
        assert len(measured) == often


def test_functions_of_very_many_arrays_are_xlas() -> None:
    arguments = [np.float32(1)] * (MAX_ARRAYS // 2 + 1)
    function = pb.jit(lambda *numbers: numbers)
    assert "4098 arrays, of at most 4096" in function.explain(*arguments).reason
    assert len(function(*arguments)) == len(arguments)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "dtype, mine, theirs, same",
    [
        ("complex64", [1 + 1j, NAN], [1 + 1j, complex(NAN, NAN)], True),
        ("complex64", [complex(INF, NAN)], [complex(INF, 0)], True),
        ("complex64", [1 + 1e-6j], [1], True),
        ("complex64", [1 + 1e-2j], [1], False),
        ("complex128", [1 + 1e-6j], [1], False),
        ("complex64", [NAN], [1], False),
        ("complex64", [complex(INF, 0)], [1], False),
        ("float8_e4m3fn", [1.0, NAN], [1.125, NAN], True),
        ("float8_e4m3fn", [1.0], [4.0], False),
        ("float32", [INF], [-INF], False),
        ("int32", [1], [2], False),
        ("bool", [True], [True], True),
    ],
)
def test_what_counts_as_the_same(dtype: str, mine: Any, theirs: Any, same: bool) -> None:
    kind = pb.ArrayType((), dtype).dtype
    assert (apart(np.array(mine, kind), np.array(theirs, kind)) is None) == same
