"""call: run a Program as one operation. It is what `jit` becomes inside other transformations.

Every rule derives another Program from the one that the call holds, and calls that; derived Programs are remembered with the
one that they came from, so that nesting transformations stays linear in the size of the function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.control.holder import Holder, Wiring, bind_holder, check_operands
from pullback.core.array import Array
from pullback.core.execution import engine
from pullback.core.primitive import primitive
from pullback.program.interpret import interpret
from pullback.program.program import Atom, Equation, Literal, Program, Variable, run


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
    if not any(equation.primitive is call for equation in program.equations):
        return program
    equations: list[Equation] = []
    constants: dict[int, tuple[Variable, Array]] = {}
    batch_axes: dict[Variable, Any] = {}

    def atom(value: Atom | Array) -> Atom:
        if not isinstance(value, Array):
            return value
        if not value.type.shape:
            return Literal(value)
        return constants.setdefault(id(value), (Variable(value.type), value))[0]

    def place(equation: Equation, operands: Sequence[Atom | Array]) -> Any:
        if equation.primitive is call:
            called = equation.params["program"]
            known.update(called.batch_axes)
            return interpret(called, operands, place)
        outputs = tuple([Variable(out.type) for out in equation.outputs])
        batch_axes.update((new, known[old]) for new, old in zip(outputs, equation.outputs) if old in known)
        equations.append(equation.replace(tuple([atom(operand) for operand in operands]), outputs))
        return outputs if equation.primitive.multiple_results else outputs[0]

    known = dict(program.batch_axes)
    outputs = [atom(out) for out in interpret(program, program.inputs, place)]
    return Program(program.inputs, equations, outputs, constants.values(), program.name, {**program.batch_axes, **batch_axes})
