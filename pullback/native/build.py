"""From a Program to the text of a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.native import along, index, kept, loops, selection, windows  # noqa: F401  (they add their rules)
from pullback.native.arrays import Memory, store
from pullback.native.compile import Target
from pullback.native.emit import Arrays, Emitter, kind_of
from pullback.native.graph import Graph, element
from pullback.native.ir import Code, Module, Value
from pullback.native.kept import Text
from pullback.native.kernel import PARALLEL, Kernel
from pullback.native.rows import Plan, plan
from pullback.native.tiles import emit_by_rows
from pullback.native.totals import Division, chunk_of, sums
from pullback.program.program import Program

_PARAMETERS = "ptr %results, ptr noalias %operands, ptr noalias %workspace, ptr %poll, i64 %begin, i64 %end"
# With a frame pointer LLVM can align the stack, so that no vector that it puts there lies across two lines of the cache.
_ATTRIBUTES = """
attributes #0 = {{ nounwind "prefer-vector-width"="{bits}" "frame-pointer"="all" }}
attributes #1 = {{ noinline nounwind "prefer-vector-width"="{bits}" "frame-pointer"="all" }}
attributes #2 = {{ alwaysinline nounwind }}
"""


# What every call for a part of the rows does again is counted so many times against dividing them.
CALLS = 32


def build(program: Program, graph: Graph, processor: Target) -> Kernel:
    """The kernel of a Program, whose graph this is, for a processor. Raises `Refused` where an operation has no native code."""
    by_rows = plan(graph, processor.vector_bytes)
    key = kept.key(graph, processor)
    text = kept.read(key)
    if text is None:
        text = _text(graph, processor, by_rows)
        kept.write(key, text)
    return Kernel(
        source=text.source,
        inputs=tuple(program.input_types),
        outputs=tuple(program.output_types),
        constants=tuple([np.ascontiguousarray(array) for array in _passed(graph).values()]),
        workspace=text.workspace,
        shared=text.shared,
        blocks=text.blocks,
        weight=text.weight,
        sorting=text.sorting,
        by_rows=by_rows is not None,
    )


def _passed(graph: Graph) -> dict[str, np.ndarray[Any, Any]]:
    """The constants that are operands of the kernel, behind its inputs."""
    return {name: array for name, array in graph.constants.items() if array.shape and array.size}


def _text(graph: Graph, processor: Target, by_rows: Plan | None) -> Text:
    """The text, of what is heavy divided among threads. How, depends on what it weighs only where rows are added up."""
    if by_rows is None:
        return _written(graph, processor, None, None)[0]
    blocks = by_rows.rows // by_rows.block
    chunk = 1 if blocks > 1 and not sums(graph, by_rows.flags) else None
    text, repeated = _written(graph, processor, by_rows, chunk)
    if text.weight < PARALLEL:
        return text
    better: int | None = None
    if text.weight - CALLS * repeated >= PARALLEL:
        better = chunk_of(graph, by_rows, text.weight, processor.vector_bytes)
    if better is not None and better >= blocks:
        better = None
    if better == chunk:
        return text
    return _written(graph, processor, by_rows, better)[0]._replace(weight=text.weight, sorting=text.sorting)


def _written(graph: Graph, processor: Target, by_rows: Plan | None, chunk: int | None) -> tuple[Text, float]:
    """A text, of which a call does some of the chunks of so many blocks of rows, or all of it; and what that weighs which every
    call does."""
    module = Module(processor.vector_bytes, processor.fma, processor.avx512)
    code = Code(module)

    def place(table: str, number: int) -> Value:
        return code.offset(Value(table, "ptr"), [(number, 8)])

    def pointer(table: str, number: int) -> Value:
        return code.load(place(table, number), "ptr", constant=True)

    arrays: Arrays = {}
    for i, name in enumerate(graph.inputs):
        arrays[name.name] = Memory(pointer("%operands", i), name.shape, kind_of(name), constant=True)
    constants: Arrays = {}
    for i, (known, array) in enumerate(_passed(graph).items(), len(graph.inputs)):
        constants[known] = Memory(pointer("%operands", i), array.shape, element(array.dtype) or "", constant=True)
    it = Emitter(code, constants)
    targets: dict[str, Value] = {}
    copies = []
    for i, name in enumerate(graph.outputs):
        target = pointer("%results", i)
        if name.name in targets or name.name in arrays or name.name in graph.constants:
            copies.append((name, target))
        else:
            targets[name.name] = target
    shared, repeated, blocks = 0, 0.0, 1
    if by_rows is None:
        it.emit(graph, arrays, targets)
    else:
        division = None
        if chunk is not None:
            count = len(graph.outputs)
            division = Division(chunk, pointer("%results", count), place("%results", count + 1), bool(copies))
            blocks = -(-(by_rows.rows // by_rows.block) // chunk)
        shared, repeated = emit_by_rows(it, graph, by_rows, arrays, targets, division)
    for name, target in copies:
        if name.name in targets:
            arrays[name.name] = Memory(targets[name.name], name.shape, kind_of(name))
        store(code, it.read(name, arrays, graph), target)
    code.lines.append("ret i32 0")
    if code.stops:
        code.lines += ["stop:", "ret i32 1"]
    text = module.text(f"define i32 @kernel({_PARAMETERS})", code.body())
    source = text + _ATTRIBUTES.format(bits=8 * module.vector_bytes)
    return Text(source, code.workspace, code.weight, it.sorting, shared, blocks), repeated
