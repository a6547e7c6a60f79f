"""From a Program to the text of a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.native import along, index, loops, windows  # noqa: F401  (they add their rules)
from pullback.native.arrays import Memory, store
from pullback.native.compile import Target
from pullback.native.emit import Arrays, Emitter, kind_of
from pullback.native.graph import Graph, element
from pullback.native.ir import Code, Module, Value
from pullback.native.kernel import Kernel
from pullback.native.rows import Plan, plan
from pullback.native.tiles import emit_by_rows
from pullback.native.totals import Division, chunk_of
from pullback.program.program import Program

_PARAMETERS = "ptr %results, ptr noalias %operands, ptr noalias %workspace, ptr %poll, i64 %begin, i64 %end"
# With a frame pointer LLVM can align the stack, so that no vector that it puts there lies across two lines of the cache.
_ATTRIBUTES = """
attributes #0 = {{ nounwind "prefer-vector-width"="{bits}" "frame-pointer"="all" }}
attributes #1 = {{ noinline nounwind "prefer-vector-width"="{bits}" "frame-pointer"="all" }}
"""


# Above this weight rows are divided among threads; what every call does again is counted against it so many times.
PARALLEL = 250_000
CALLS = 32


def build(program: Program, graph: Graph, processor: Target) -> Kernel:
    """The kernel of a Program, whose graph this is, for a processor. Raises `Refused` where an operation has no native code."""
    by_rows = plan(graph, processor.vector_bytes)
    writing = _Writing(graph, processor, by_rows, None)
    weight = writing.code.weight
    if by_rows is not None and weight - CALLS * writing.repeated >= PARALLEL:
        blocks = by_rows.rows // by_rows.block
        chunk = chunk_of(graph, by_rows, weight, processor.vector_bytes)
        if chunk < blocks:
            return _Writing(graph, processor, by_rows, chunk).kernel(program, -(-blocks // chunk), weight)
    return writing.kernel(program, 1)


class _Writing:
    """A graph's kernel, as it is written."""

    def __init__(self, graph: Graph, processor: Target, by_rows: Plan | None, chunk: int | None) -> None:
        self.module = Module(processor.vector_bytes, processor.fma, processor.avx512)
        self.code = code = Code(self.module)
        self.by_rows, self.shared, self.repeated = by_rows, 0, 0.0
        arrays: Arrays = {}
        for i, name in enumerate(graph.inputs):
            arrays[name.name] = Memory(self.pointer("%operands", i), name.shape, kind_of(name), constant=True)
        constants: Arrays = {}
        self.passed: list[np.ndarray[Any, Any]] = []
        for known, array in graph.constants.items():
            if array.shape and array.size:
                pointer = self.pointer("%operands", len(graph.inputs) + len(self.passed))
                constants[known] = Memory(pointer, array.shape, element(array.dtype) or "", constant=True)
                self.passed.append(np.ascontiguousarray(array))
        it = Emitter(code, constants)
        targets: dict[str, Value] = {}
        copies = []
        for i, name in enumerate(graph.outputs):
            target = self.pointer("%results", i)
            if name.name in targets or name.name in arrays or name.name in graph.constants:
                copies.append((name, target))
            else:
                targets[name.name] = target
        if by_rows is None:
            it.emit(graph, arrays, targets)
        else:
            division = None
            if chunk is not None:
                shared, done = self.pointer("%results", len(graph.outputs)), self.place("%results", len(graph.outputs) + 1)
                division = Division(chunk, shared, done, bool(copies))
            self.shared, self.repeated = emit_by_rows(it, graph, by_rows, arrays, targets, division)
        for name, target in copies:
            if name.name in targets:
                arrays[name.name] = Memory(targets[name.name], name.shape, kind_of(name))
            store(code, it.read(name, arrays, graph), target)
        code.lines.append("ret i32 0")
        if code.stops:
            code.lines += ["stop:", "ret i32 1"]

    def pointer(self, table: str, place: int) -> Value:
        return self.code.load(self.place(table, place), "ptr", constant=True)

    def place(self, table: str, place: int) -> Value:
        return self.code.offset(Value(table, "ptr"), [(place, 8)])

    def kernel(self, program: Program, blocks: int, weight: float | None = None) -> Kernel:
        text = f"define i32 @kernel({_PARAMETERS}) #0 {{\n{self.code.body()}\n}}\n"
        return Kernel(
            source=text + self.module.text() + _ATTRIBUTES.format(bits=8 * self.module.vector_bytes),
            inputs=tuple(program.input_types),
            outputs=tuple(program.output_types),
            constants=tuple(self.passed),
            workspace=self.code.workspace,
            shared=self.shared,
            blocks=blocks,
            weight=self.code.weight if weight is None else weight,
            by_rows=self.by_rows is not None,
        )
