"""call: run a Program as one operation. It is what `jit` becomes inside other transformations.

Every rule derives another Program from the one that the call holds, and calls that; derived Programs are remembered with the
one that they came from, so that nesting transformations stays linear in the size of the function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.control.holder import Holder, Wiring, bind_holder
from pullback.core.primitive import primitive
from pullback.core.tracing import bind
from pullback.engine.compile import execute
from pullback.program.program import Program, Variable
from pullback.transforms.stage import replaying, stage


@primitive
class call(Holder):
    """Apply `program` to the operands."""

    wiring = Wiring("program")

    def result_type(*types, program):
        return program.output_types

    def evaluate(*arrays, program):
        return tuple(execute(program, arrays))

    def lower(write, *values, program):
        return write.call(program, *values)


def bind_call(program: Program, args: Any) -> Any:
    """Call a Program: as `call(*args, program=program)`, also where only a named axis of an enclosing vmap concerns it."""
    return bind_holder(call, *args, program=program)


def inlined(program: Program) -> Program:
    """The Program with the equations of those that it calls in the place of the calls."""

    def without_calls(program: Program, args: Sequence[Any]) -> list[Any]:
        values: dict[Any, Any] = dict(program.constants)
        values.update(zip(program.inputs, args, strict=True))
        for equation in program.equations:
            ins = [values[atom] if isinstance(atom, Variable) else atom.value for atom in equation.inputs]
            if equation.primitive is call:
                out = without_calls(equation.params["program"], ins)
            else:
                with replaying(equation):
                    out = bind(equation.primitive, ins, equation.params)
            outs = out if equation.primitive.multiple_results else (out,)
            values.update(zip(equation.outputs, outs, strict=True))
        return [values[atom] if isinstance(atom, Variable) else atom.value for atom in program.outputs]

    if not any(equation.primitive is call for equation in program.equations):
        return program
    return stage(lambda *args: without_calls(program, args), program.input_types, name=program.name)[0]
