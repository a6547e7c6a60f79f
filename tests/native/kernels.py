"""A function as a kernel of the native tier that is compiled and run by itself, in memory that ends where nobody may read."""

from __future__ import annotations

import ctypes
import functools
import mmap
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from pullback.core.array import as_array
from pullback.core.tracing import type_of
from pullback.native.build import build
from pullback.native.compile import Target
from pullback.native.kernel import Kernel
from pullback.native.record import record
from pullback.testing.values import host
from pullback.transforms.stage import stage

Arrays = list[np.ndarray[Any, Any]]
PAGE = mmap.PAGESIZE
WIDE = Target("x86_64-unknown-linux-gnu", "x86-64-v4")  # as kernels are written for it; they run on any processor

_mprotect = ctypes.CDLL(None).mprotect
_mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


@functools.cache
def _machine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple()
    return lambda: target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=1, jit=True)


class Guarded:
    """Memory of so many bytes that is followed by a page that may not be touched."""

    def __init__(self, size: int, align: int) -> None:
        pages = -(-size // PAGE) * PAGE
        self.map = mmap.mmap(-1, pages + PAGE)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.size = size
        _mprotect(self.start + pages, PAGE, 0)
        self.address = (self.start + pages - size) // align * align
        ctypes.memset(self.address, 0xCB, size)

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
    return build(program, record(program), WIDE)


def run(kernel: Kernel, args: Sequence[Any], ranges: Sequence[tuple[int, int]] = ()) -> Arrays:
    """What a kernel computes: twice, so that nothing may be left of the first time. It is called for each of these ranges of
    blocks, or once for all."""
    module = llvm.parse_assembly(kernel.source)
    module.verify()
    machine = _machine()()
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    llvm.create_pass_builder(machine, options).getModulePassManager().run(module, llvm.create_pass_builder(machine, options))
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    call = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4, ctypes.c_int64, ctypes.c_int64)
    compiled = call(engine.get_function_address("kernel"))
    results: Arrays = []
    for _ in range(2):
        operands = [_held(array) for array in (*[host(as_array(arg)) for arg in args], *kernel.constants)]
        outs = [Guarded(type.nbytes, _alignment(type.dtype)) for type in kernel.outputs]
        shared = Guarded(kernel.shared, 64)
        addresses = [[one.address for one in held] for held in (outs, operands)]
        addresses[0] += [shared.address, 0]
        tables = [(ctypes.c_void_p * (len(held) + 1))(*held) for held in addresses]
        for begin, end in ranges or [(0, kernel.blocks)]:
            workspace = Guarded(kernel.workspace, 64)
            assert compiled(*tables, workspace.address, None, begin, end) == 0
        results = [
            np.frombuffer(out.bytes(), type.dtype).reshape(type.shape) if out.size else np.empty(type.shape, type.dtype)
            for out, type in zip(outs, kernel.outputs)
        ]
    return results


def native(function: Callable[..., Any], *args: Any) -> Arrays:
    """The results of a flat function by the native tier."""
    return run(kernel_of(function, *args), args)
