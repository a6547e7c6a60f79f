"""Kernels write within their own arrays only, and read nothing that they have not written: every primitive on its samples."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kernels import FILLS, beyond_arrays, kernel_of, native, run
from test_samples import REFUSED, SAMPLED, applied, cases_of, is_refused, is_widenable, widened

import pullback as pb
import pullback.numpy as pnp
from pullback.core.array import as_array
from pullback.core.primitive import Primitive

AT_ONCE = 4  # cases in one program
BYTES = 512  # of an operand: its arrays are too large for registers, and there are several vectors of each


@pytest.mark.parametrize("p", [p for p in SAMPLED if REFUSED.get(p.name) != "*"], ids=lambda p: p.name)
def test_samples(p: Primitive) -> None:
    cases = [case for case in cases_of(p) if not is_refused(p, case)][:AT_ONCE]
    cases = [widened(p, case, BYTES) if is_widenable(p, case) else case for case in cases]

    def function(*xs: Any) -> list[Any]:
        given = iter(xs)
        outs = [applied(p, case.params)(*itertools.islice(given, len(case.args))) for case in cases]
        return pb.tree.leaves(outs)  # type: ignore[no-any-return]

    native(function, *itertools.chain(*[case.args for case in cases]))


def test_what_is_written_beyond_an_array_is_seen() -> None:
    """The array that a sum is made of is said to be shorter than it is."""
    x = as_array(np.arange(4000, dtype=np.float32).reshape(40, 100))
    kernel = kernel_of(lambda x: [pnp.cumsum(pnp.exp(x * 1e-4), 0) @ x.T], x)
    run(kernel, [x])
    lines = [line for line in kernel.source.splitlines() if line.startswith("; array from")]
    assert lines
    for line in lines:
        begin, end = (int(word) for word in line.split() if word.isdigit())
        shorter = kernel.source.replace(line, f"; array from {begin} to {end - 4}")
        with pytest.raises(AssertionError, match=str(end - 4)):
            run(replace(kernel, source=shorter), [x])


def test_bytes_between_arrays() -> None:
    source, fill = "; array from 4 to 6\n; array from 8 to 9\n", FILLS[0]
    memory = bytearray([fill] * 12)
    memory[4:6], memory[8:9] = b"\0\0", b"\0"
    assert beyond_arrays(source, bytes(memory), fill) == []
    memory[3] = memory[6] = memory[11] = 0
    assert beyond_arrays(source, bytes(memory), fill) == [3, 6, 11]
