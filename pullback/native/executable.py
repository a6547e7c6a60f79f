"""A kernel behind the interface of back ends: what `jit` runs, and what ahead-of-time compilation shows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, host_of
from pullback.core.errors import ProgramError
from pullback.core.modes import current_mode
from pullback.engine.backend import Executable
from pullback.native import compile as compiling
from pullback.native.entry import Call, Descriptor, NativeCallable, install
from pullback.native.kernel import SECONDS_A_WEIGHT, Kernel

MAX_DESCRIPTORS = 32  # of one function: the entry looks through them, some 10 ns each


class NativeExecutable(Executable):
    """A kernel, compiled. Unlike XLA's executables it takes host memory, and holds nothing of the Program it was made of.

    Arrays that are donated give up their memory when a call has succeeded; one that is stopped leaves them as they are. The
    kernel itself never writes to it: results have memory of their own.
    """

    __slots__ = ("_call", "code", "donated", "kernel")
    installs = True

    def __init__(self, kernel: Kernel, donated: tuple[bool, ...] = ()) -> None:
        self.copies = False
        self.result_class = Array
        self.kernel = kernel
        self.donated = donated
        self.code = compiling.loaded(kernel.source)
        self._call = self.call_or(None)

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        made = self._call(*arrays)
        return list(self._converted(arrays) if made is None else made)

    def runner(self) -> None:
        return None

    def call_or(self, otherwise: Any, calls: Any = None) -> Call:
        """The kernel as a function of Arrays, NumPy's arrays and numbers, which returns `otherwise` if they are not of the
        types that it takes."""
        return Call(self._descriptor(calls=calls), lambda *args: otherwise)

    def install(self, into: NativeCallable, makes_tuple: bool, calls: Any = None) -> bool:
        mode, first = current_mode(), into._descriptor
        wanted, one = (self.kernel, mode, makes_tuple, self.donated), first
        while one is not None and (one.kernel, one.mode, one.makes_tuple, one.donated) != wanted:
            one = one.next
        if one is None:
            if first is not None and first.length >= MAX_DESCRIPTORS:
                return False
            install(into, self._descriptor(makes_tuple, first, calls))
        return True

    def _descriptor(self, makes_tuple: bool = True, next: Descriptor | None = None, calls: Any = None) -> Descriptor:
        return Descriptor(self.kernel, self.code, current_mode(), makes_tuple, next, self.donated, calls)

    def _converted(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Run on Arrays that are weak where the kernel's inputs are not, or the other way round, and on those of other classes
        than Array: their values are those of the moment, in memory that is borrowed."""
        expected = self.kernel.inputs
        if [array.type.strong() for array in arrays] != [type.strong() for type in expected]:
            raise ProgramError(f"A kernel takes {expected}, but was called with {tuple([array.type for array in arrays])}.")
        plain = [Array(type, np.asarray(host_of(array), order="C")) for array, type in zip(arrays, expected, strict=True)]
        made: tuple[Array, ...] | None = self._call(*plain)
        if made is None:
            raise ProgramError(f"A kernel for {expected} does not take {arrays}: their memory is not as their types say.")
        for array in itertools.compress(arrays, self.donated):
            array.delete()
        return made

    def optimized_text(self) -> str:
        return compiling.optimised_text(self.kernel.source)

    def cost_analysis(self) -> dict[str, float]:
        weight = self.kernel.weight
        sizes = [type.nbytes for type in (*self.kernel.inputs, *self.kernel.outputs)]
        return {"instructions": weight, "optimal_seconds": weight * SECONDS_A_WEIGHT, "bytes accessed": float(sum(sizes))}

    def memory_analysis(self) -> dict[str, int]:
        return {
            "generated_code_size_in_bytes": self.code.size,
            "argument_size_in_bytes": sum([type.nbytes for type in self.kernel.inputs]),
            "output_size_in_bytes": sum([type.nbytes for type in self.kernel.outputs]),
            "temp_size_in_bytes": self.kernel.workspace,
        }
