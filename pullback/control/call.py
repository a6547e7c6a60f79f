"""call: run a Program as one operation. It is what `jit` becomes inside other transformations.

Every rule derives another Program from the one that the call holds, and calls that; derived Programs are remembered with the
one that they came from, so that nesting transformations stays linear in the size of the function.
"""

from __future__ import annotations

from typing import Any

from pullback.control.holder import Holder, Wiring, bind_holder, check_operands
from pullback.core.execution import engine
from pullback.core.primitive import primitive
from pullback.program.interpret import bind_equation, run
from pullback.program.program import Equation, Program
from pullback.transforms.derive import stage_closed


@primitive
class call(Holder):
    """Apply `program` to the operands."""

    wiring = Wiring("program")

    def result_type(*types, program: Program):
        check_operands("call", types, program.input_types)
        return program.output_types

    def evaluate(*arrays, program):
        return tuple(engine().run_program(program, arrays))

    def lower(write, *values, program):
        return write.call(program, *values)

    def expand(*values, program):
        return run(program, values)


def bind_call(program: Program, args: Any) -> Any:
    """Call a Program: as `call(*args, program=program)`, also where only a named axis of an enclosing vmap concerns it."""
    return bind_holder(call, *args, program=program)


def inlined(program: Program) -> Program:
    """The Program with the equations of those that it calls in the place of the calls."""
    if not any([equation.primitive is call for equation in program.equations]):
        return program

    def apply(equation: Equation, operands: list[Any]) -> Any:
        return (
            run(equation.params["program"], operands, apply)
            if equation.primitive is call
            else bind_equation(equation, operands)
        )

    return stage_closed(lambda *args: run(program, args, apply), program.input_types, program.name, program)
