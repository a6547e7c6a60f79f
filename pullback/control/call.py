"""call: run a Program as one operation. It is what `jit` becomes inside other transformations.

Each rule derives another Program from the one that the call holds, and calls that; derived Programs are remembered with the
one that they came from, so that nesting transformations stays linear in the size of the function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.core.array import Array
from pullback.core.axes import axis_owner
from pullback.core.errors import ProgramError
from pullback.core.execution import engine
from pullback.core.primitive import Rules, primitive
from pullback.core.tracing import bind, bind_at
from pullback.core.types import ArrayType, is_unknown
from pullback.core.zero import ZERO
from pullback.program.interpret import interpret
from pullback.program.program import Atom, Equation, Literal, Program, Variable, programs_in
from pullback.transforms.derive import (
    active_terms,
    batch_program,
    jet_program,
    jvp_program,
    linearize_program,
    nonzero_orders,
    series_of,
    transpose_program,
)
from pullback.transforms.sparsity import sparsity_of_any


@primitive
class call(Rules):
    """Apply `program` to the operands."""

    multiple_results = True
    on_arrays = True
    needs_axis = True
    symbolic_zeros = True

    def result_type(*types, program):
        return program.output_types

    def evaluate(*arrays, program):
        return tuple(engine().run_program(program, arrays))

    def lower(write, *values, program):
        return write.call(program, *values)

    def jvp(primals, tangents, *, program):
        active = tuple([t is not ZERO for t in tangents])
        pushed, nonzero = jvp_program(program, active)
        outs = bind_call(pushed, [*primals, *[t for t in tangents if t is not ZERO]])
        values, found = outs[: len(program.outputs)], iter(outs[len(program.outputs) :])
        return values, tuple([next(found) if flag else ZERO for flag in nonzero])

    def jet(primals, series, *, program):
        active = nonzero_orders(series)
        pushed, nonzero = jet_program(program, active)
        outs = bind_call(pushed, [*primals, *active_terms(primals, series, active)])
        count = len(program.outputs)
        return outs[:count], series_of(outs[count:], nonzero)

    def linearize(primals, active, *, program):
        linearized = linearize_program(program, active)
        outs = bind_call(linearized.forward, primals)
        count = len(program.outputs)
        residuals = [outs[i] if kind == "output" else primals[i] for kind, i in linearized.residuals]

        def push(*tangents):
            found = iter(bind_call(linearized.tangent, [*residuals, *tangents]))
            return tuple([next(found) if flag else ZERO for flag in linearized.nonzero])

        return tuple(outs[:count]), push

    def transpose(cotangents, *operands, program):
        unknown = tuple([is_unknown(operand) for operand in operands])
        transposed, nonzero = transpose_program(program, unknown)
        outs = bind_call(transposed, [*[x for x in operands if not is_unknown(x)], *cotangents])
        found = iter(outs)
        solved = iter([next(found) if flag else None for flag in nonzero])
        return tuple([next(solved) if flag else None for flag in unknown])

    def sparsity(which, operands, *, program):
        return sparsity_of_any([program], which, operands)

    def vectorize(batch, args, axes, *, program):
        batched, out_axes = batch_program(program, batch, tuple(axes))
        return bind_call(batched, args), out_axes


def bind_call(program: Program, args: Any) -> Any:
    """Call a Program: as `call(*args, program=program)`, also where only a named axis of an enclosing vmap concerns it."""
    return bind_holder(call, *args, program=program)


def check_operands(name: str, types: Sequence[ArrayType], takes: Sequence[ArrayType]) -> None:
    """Raise unless operands are what a Program takes; a weak one may stand for a strong one, and the other way around."""
    if len(types) != len(takes) or any([a is not b and a.strong() is not b.strong() for a, b in zip(types, takes)]):
        given, wanted = (", ".join(map(str, row)) for row in (types, takes))
        raise ProgramError(f"{name} holds a Program that takes ({wanted}), but its operands are ({given}).")


def bind_holder(holder: Any, *args: Any, **params: Any) -> Any:
    """Apply a primitive that holds Programs, also where only a named axis of an enclosing vmap concerns one of them."""
    names = [name for program in programs_in(params) for name in program.axis_names]
    if not names:
        return bind(holder, args, params)
    return bind_at(max([axis_owner(name) for name in names], key=lambda trace: trace.birth), holder, args, params)


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
