"""From a Program to the text of a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.native import loops  # noqa: F401  (adds its rules)
from pullback.native.arrays import Memory, store
from pullback.native.emit import Arrays, Emitter, kind_of
from pullback.native.graph import ELEMENTS, Graph, record
from pullback.native.ir import Code, Module, Value
from pullback.program.program import Program

_PARAMETERS = "ptr noalias %results, ptr noalias %operands, ptr noalias %workspace, ptr %poll, i64 %begin, i64 %end"
_ATTRIBUTES = """
attributes #0 = {{ nounwind "prefer-vector-width"="{bits}" }}
attributes #1 = {{ noinline nounwind "prefer-vector-width"="{bits}" }}
"""


def kernel_text(graph: Graph, vector_bytes: int) -> tuple[str, list[np.ndarray[Any, Any]], int, float]:
    """The text of a graph's kernel, the arrays that it takes behind its inputs, its workspace in bytes, and its weight."""
    module = Module(vector_bytes)
    code = Code(module)

    def pointer(table: str, place: int) -> Value:
        return code.load(code.offset(Value(table, "ptr"), [(place, 8)]), "ptr", constant=True)

    arrays: Arrays = {}
    for i, name in enumerate(graph.inputs):
        arrays[name.name] = Memory(pointer("%operands", i), name.shape, kind_of(name), constant=True)
    constants: Arrays = {}
    passed: list[np.ndarray[Any, Any]] = []
    for known, array in graph.constants.items():
        if array.shape and array.size:
            place = len(graph.inputs) + len(passed)
            constants[known] = Memory(pointer("%operands", place), array.shape, ELEMENTS[array.dtype.name], constant=True)
            passed.append(np.ascontiguousarray(array))
    it = Emitter(code, constants)
    targets: dict[str, Value] = {}
    copies = []
    for i, name in enumerate(graph.outputs):
        target = pointer("%results", i)
        if name.name in targets or name.name in arrays or name.name in graph.constants:
            copies.append((i, target))
        else:
            targets[name.name] = target
    outs = it.emit(graph, arrays, targets)
    for i, target in copies:
        store(code, outs[i], target)
    code.lines.append("ret i32 0")
    if code.stops:
        code.lines += ["stop:", "ret i32 1"]
    head = f"define i32 @kernel({_PARAMETERS}) #0 {{\n{code.body()}\n}}\n"
    text = head + module.text() + _ATTRIBUTES.format(bits=8 * vector_bytes)
    return text, passed, code.workspace, code.weight


def kernel_of(program: Program, vector_bytes: int = 64) -> tuple[str, list[np.ndarray[Any, Any]], int, float]:
    return kernel_text(record(program), vector_bytes)
