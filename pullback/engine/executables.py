"""Executables: what XLA made of a Program, and how it is run."""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from pullback.core.array import Array, PlacedArray, host_of, is_deleted, later_array, later_buffer
from pullback.core.errors import ProgramError
from pullback.engine.backend import CompileOptions, Executable, buffer_of, placement
from pullback.engine.failures import original
from pullback.engine.jaxlib import jaxlib
from pullback.engine.lower import Lowered
from pullback.program.program import Program
from pullback.program.provenance import name_stack

# On the CPU, programs that cost each device this much or more, some 10 ms, run beside Python. For shorter ones it takes too
# long to hand the work to another thread, and to learn that it has been done: 60 to 100 us, more where the processor has other
# work.
LONG_FLOPS = 500_000_000
LONG_BYTES = 500_000_000


def kept_inputs(program: Program, options: CompileOptions, donated: tuple[bool, ...]) -> tuple[int, ...]:
    """The numbers of the inputs that an executable takes: those that the Program reads, and those that are donated to it."""
    if options.keep_unused:
        return tuple(range(len(program.inputs)))
    read = {id(atom) for equation in program.equations for atom in equation.inputs}
    read.update(map(id, program.outputs))
    given = donated or (False,) * len(program.inputs)
    return tuple([i for i, variable in enumerate(program.inputs) if given[i] or id(variable) in read])


class XlaExecutable(Executable):
    """What XLA made of a Program. XLA checks nothing of what it is given."""

    def __init__(
        self,
        there: Any,
        raw: Any,
        lowered: Lowered,
        program: Program,
        options: CompileOptions,
        donated: tuple[bool, ...],
    ) -> None:
        self.backend = there
        self.later = there.later
        self.raw = raw
        self._program = weakref.ref(program)  # which remembers what was made of it: a cycle would outlive both
        self.options = options
        self.quick = options.quick
        self.lowered = lowered if options.tiered else None  # the best executable's is the same
        self.donated = donated
        self.output_types = program.output_types
        kept = kept_inputs(program, options, donated)
        self.kept = kept if len(kept) < len(program.inputs) else None
        self.given = [donated[i] for i in kept] if any(donated) else []  # of what it takes, what is donated
        self.gives_all = all(self.given)
        self.index = there.devices.index(options.device)
        self.constants, self.handlers = self._ends(lowered)
        self.result_class = self.result_class_of(options)
        self.calls_host = bool(lowered.callbacks)
        self.copies = self.later or self.calls_host
        self.shown: str | None = None
        self._execute = execute = raw.execute_sharded
        constants, handlers = self.constants, self.handlers
        self._run_quietly: Callable[[list[Any]], Sequence[Any]] = (
            (lambda buffers: execute([*constants, *buffers]).consume_with_handlers(handlers))
            if constants
            else (lambda buffers: execute(buffers).consume_with_handlers(handlers))
        )

    def result_class_of(self, options: CompileOptions) -> type[Array]:
        return PlacedArray if options.committed else Array

    def _ends(self, lowered: Lowered) -> tuple[list[Any], list[Any]]:
        """The buffers of the constants, and what makes array objects of the results."""
        there, sharding = self.backend, self.backend.shardings[self.index]
        handlers = [jaxlib().result_handler(there.aval(type), sharding) for type in self.output_types]
        return [there.buffer_of(array, self.index) for array in lowered.constants], handlers

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        if self.kept is not None:
            for array in filter(is_deleted, arrays):
                host_of(array)  # raises, though it may not be read
            arrays = [arrays[i] for i in self.kept]
        if self.given:
            pairs = zip(arrays, self.given, strict=True)
            return self.run([array if given else self.backend.buffer_of(array, self.index) for array, given in pairs])
        if placement.several or self.later:
            return self.run([self.backend.buffer_of(array, self.index) for array in arrays])
        return self.run([b if (b := a._buffer) is not None else buffer_of(a, self.backend, self.index) for a in arrays])

    def run(self, buffers: list[Any]) -> list[Array]:
        """Run on device buffers, all of this device; and on Arrays where they are donated."""
        make = later_array if self.later else self.result_class
        return [make(type, None, out) for type, out in zip(self.output_types, self._runner()(buffers))]

    def runner(self) -> Callable[[list[Any]], Sequence[Any]] | None:
        return None if self.later else self._runner()

    def _runner(self) -> Callable[[list[Any]], Sequence[Any]]:
        return self._run_donating if self.given else self._executor()

    def inlined(self) -> tuple[str, dict[str, Any]] | None:
        if self.later or self.given or self.calls_host:
            return super().inlined()
        buffers = "[*constants, *buffers]" if self.constants else "buffers"
        names = {"execute": self._execute, "handlers": self.handlers, "constants": self.constants}
        return f"execute({buffers}).consume_with_handlers(handlers)", names

    def _executor(self) -> Callable[[list[Any]], Sequence[Any]]:
        return self._run_calling if self.calls_host else self._run_quietly

    def _run_calling(self, buffers: list[Any]) -> Sequence[Any]:
        """Run what calls Python functions: what one of them raises is raised as itself."""
        try:
            return self._execute([*self.constants, *buffers]).consume_with_handlers(self.handlers)  # type: ignore[no-any-return]
        except Exception as error:
            failure = original(error)
            if failure is None:
                raise
        raise failure

    def _run_donating(self, given: list[Any]) -> Sequence[Any]:
        """Run on buffers, and on Arrays in the places of donated arguments, which nobody can use afterwards.

        XLA will write to their memory, so an Array gives its own only if nothing else can see it: no host array, no other
        Array, no other argument. Otherwise it gives a copy. A constant that many share has a host array.
        """
        arrays = given if self.gives_all else list(itertools.compress(given, self.given))
        own = list(map(later_buffer, arrays)) if self.later else [array._buffer for array in arrays]
        seen = list(map(sys.getrefcount, own))  # by the Array, by `own`, and by this call; None by very many
        hosts = [array for array in arrays if array._host is not None]
        if hosts or max(seen) > 3:
            for i, (array, count) in enumerate(zip(arrays, seen)):
                if count > 3 or array._host is not None:
                    own[i] = self.backend.put(host_of(array), array.type, self.index, copy=True)
        if self.gives_all:
            buffers = own
        else:
            theirs = iter(own)
            buffers = [next(theirs) if donated else buffer for buffer, donated in zip(given, self.given)]
        try:
            return self._executor()(buffers)
        finally:
            for array in arrays:
                if array._host is None:
                    array._buffer = array._later = None
                else:
                    array.delete()

    def program(self) -> Program:
        if (found := self._program()) is None:
            raise ProgramError("The Program of this executable is gone, and with it what could be shown. Keep it.")
        return found

    def best(self) -> Executable:
        options = self.options._replace(quick=False, tiered=False)
        return self if self.lowered is None else self.backend.executable(self.lowered, self.program(), options, self.donated)

    def optimized_text(self) -> str:
        # `raw` may have been compiled for an equal Program of another name, at other lines
        if self.shown is None:
            self.shown = self.backend.optimized_text(self.program(), self.options, self.donated, name_stack)
        return self.shown

    def cost_analysis(self) -> dict[str, float]:
        return dict(self.raw.cost_analysis())

    def memory_analysis(self) -> dict[str, int]:
        stats = self.raw.get_compiled_memory_stats()
        names = [name for name in dir(stats) if name.endswith("_in_bytes")]
        return {name: int(getattr(stats, name)) for name in names}
