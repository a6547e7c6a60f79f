"""Who runs a Program: what the setting does to functions that were called before, and what is compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from handwritten_kernels import needs_entry

import pullback as pb
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
