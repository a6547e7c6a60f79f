"""A function as a kernel of the native tier that is compiled and run by itself, in memory that ends where nobody may read.

Its own arrays lie in the workspace, each between fences: no byte of these may change, nor a result depend on what is there.
"""

from __future__ import annotations

import ctypes
import mmap
import re
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import numpy as np

from pullback.core.array import as_array
from pullback.core.tracing import type_of
from pullback.native import build as building
from pullback.native import compile as compiling
from pullback.native.compile import LoadedCode, object_code
from pullback.native.ir import Code, Value
from pullback.native.kernel import Kernel
from pullback.native.record import record
from pullback.testing.values import host
from pullback.transforms.stage import stage

Arrays = list[np.ndarray[Any, Any]]
PAGE = mmap.PAGESIZE
FENCE = 64
FILLS = 0xCB, 0x35  # of memory that nothing was written to yet

_mprotect = ctypes.CDLL(None).mprotect
_mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Guarded:
    """Memory of so many bytes that is followed by a page that may not be touched."""

    def __init__(self, size: int, align: int, fill: int = FILLS[0]) -> None:
        pages = -(-size // PAGE) * PAGE
        self.map = mmap.mmap(-1, pages + PAGE)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.size = size
        _mprotect(self.start + pages, PAGE, 0)
        self.address = (self.start + pages - size) // align * align
        ctypes.memset(self.address, fill, size)

    def bytes(self) -> bytes:
        return ctypes.string_at(self.address, self.size)


def _held(array: np.ndarray[Any, Any]) -> Guarded:
    made = Guarded(array.nbytes, _alignment(array.dtype))
    ctypes.memmove(made.address, np.ascontiguousarray(array).tobytes(), array.nbytes)
    return made


def _alignment(dtype: np.dtype[Any]) -> int:
    return dtype.itemsize // 2 if dtype.kind == "c" else 4 if dtype.itemsize > 8 or dtype.kind == "V" else dtype.itemsize


def kernel_of(function: Callable[..., Any], *args: Any) -> Kernel:
    """The kernel of a flat function, which returns a sequence of arrays."""
    program, _ = stage(function, [type_of(as_array(arg)) for arg in args])
    with mock.patch.object(building, "Code", Fenced), mock.patch.object(building.kept, "key", lambda *ignored: None):
        return building.build(program, record(program), compiling.host())


class Fenced(Code):
    """Says in a comment where in the workspace each array lies; none is on the stack."""

    def allocate(self, size: int) -> Value:
        at = self.workspace + FENCE
        self.workspace = at + -(-size // 64) * 64 + FENCE
        self.allocated.append(f"; array from {at} to {at + size}")
        return self.pure(f"getelementptr i8, ptr %workspace, i64 {at}", "ptr")


def beyond_arrays(source: str, workspace: bytes, fill: int) -> list[int]:
    """The bytes of a workspace that were changed though no array is there."""
    changed = np.frombuffer(workspace, np.uint8) != fill
    for begin, end in re.findall(r"^; array from (\d+) to (\d+)$", source, re.MULTILINE):
        changed[int(begin) : int(end)] = False
    return [int(place) for place in np.flatnonzero(changed)]


def run(kernel: Kernel, args: Sequence[Any], ranges: Sequence[tuple[int, int]] = ()) -> Arrays:
    """What a kernel computes: twice, with other bytes in its memory. It is called for each of these ranges of blocks, or
    once for all."""
    code = LoadedCode(object_code(kernel.source, kept=False), ("kernel",))
    call = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4, ctypes.c_int64, ctypes.c_int64)
    compiled = call(code.addresses["kernel"])
    found = []
    for fill in FILLS:
        operands = [_held(array) for array in (*[host(as_array(arg)) for arg in args], *kernel.constants)]
        outs = [Guarded(type.nbytes, _alignment(type.dtype), fill) for type in kernel.outputs]
        shared = Guarded(kernel.shared, 64, fill)
        addresses = [[one.address for one in held] for held in (outs, operands)]
        addresses[0] += [shared.address, 0]
        tables = [(ctypes.c_void_p * (len(held) + 1))(*held) for held in addresses]
        for begin, end in ranges or [(0, kernel.blocks)]:
            workspace = Guarded(kernel.workspace, 64, fill)
            assert compiled(*tables, workspace.address, None, begin, end) == 0
            beyond = beyond_arrays(kernel.source, workspace.bytes(), fill)
            assert not beyond, f"bytes {beyond} of the workspace were written to, where no array is"
        found.append([out.bytes() for out in outs])
    assert found[0] == found[1], "a result depends on what was in memory before"
    return [
        np.frombuffer(out, type.dtype).reshape(type.shape) if out else np.empty(type.shape, type.dtype)
        for out, type in zip(found[0], kernel.outputs)
    ]


def native(function: Callable[..., Any], *args: Any) -> Arrays:
    """The results of a flat function by the native tier."""
    return run(kernel_of(function, *args), args)
