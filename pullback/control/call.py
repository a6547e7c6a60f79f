"""call: run a Program as one operation. It is what `jit` becomes inside other transformations.

Each rule derives another Program from the one that the call holds, and calls that; derived Programs are remembered with the
one that they came from, so that nesting transformations stays linear in the size of the function.
"""

from __future__ import annotations

from typing import Any

from pullback.core.axes import axis_owner
from pullback.core.primitive import Rules, primitive
from pullback.core.program import Program
from pullback.core.tracing import bind, bind_at
from pullback.core.types import is_unknown
from pullback.core.zero import ZERO
from pullback.engine.compile import execute
from pullback.transforms.derive import (
    batch_program,
    jet_operands,
    jet_program,
    jet_results,
    jvp_program,
    linearize_program,
    transpose_program,
)


@primitive
class call(Rules):
    """Apply `program` to the operands."""

    multiple_results = True
    on_arrays = True
    symbolic_zeros = True

    def result_type(*types, program):
        return program.output_types

    def evaluate(*arrays, program):
        return tuple(execute(program, arrays))

    def lower(write, *values, program):
        return write.call(program, *values)

    def jvp(primals, tangents, *, program):
        active = tuple([t is not ZERO for t in tangents])
        pushed, nonzero = jvp_program(program, active)
        outs = bind_call(pushed, [*primals, *[t for t in tangents if t is not ZERO]])
        values, found = outs[: len(program.outputs)], iter(outs[len(program.outputs) :])
        return values, tuple([next(found) if flag else ZERO for flag in nonzero])

    def jet(primals, series, *, program):
        active = tuple([tuple([term is not ZERO for term in terms]) for terms in series])
        pushed, nonzero = jet_program(program, active)
        return jet_results(bind_call(pushed, jet_operands(primals, series, active)), nonzero)

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

    def vectorize(size, args, axes, *, program):
        batched, out_axes = batch_program(program, size, tuple(axes))
        return bind_call(batched, args), out_axes


def bind_call(program: Program, args: Any) -> Any:
    """Call a Program: as `call(*args, program=program)`, also where only a named axis of an enclosing vmap concerns it."""
    primitive: Any = call
    owners = [axis_owner(name) for name in program.axis_names]
    if not owners:
        return bind(primitive, tuple(args), {"program": program})
    return bind_at(max(owners, key=lambda trace: trace.birth), primitive, tuple(args), {"program": program})
