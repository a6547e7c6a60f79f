"""What is known to be zero: so a rule may return it as a tangent, and a linear function may add it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array
from pullback.core.types import ArrayType
from pullback.core.zero import zeros
from pullback.ops.broadcast import broadcast_in_dim
from pullback.program.program import Equation, Literal, Program, Variable
from pullback.transforms.batch import Batched
from pullback.transforms.stage import Staged


def is_zero(value: Any) -> bool:
    """Whether a value is known to be zero: from its elements, or, while a Program is being staged, from what made it."""
    while isinstance(value, Batched) or hasattr(value, "primal"):
        value = value.value if isinstance(value, Batched) else value.primal
    if isinstance(value, Array):
        return not np.any(value.host)
    if not isinstance(value, Staged):
        return False
    trace = value.owner  # it only grows, so each equation is looked at once
    seen, done = trace.seen
    if done < len(trace.equations) or seen < len(trace.constants):
        _add_zeros(trace.zeros, trace.equations[done:], [*trace.constants.values()][seen:])
        trace.seen = len(trace.constants), len(trace.equations)
    return value.variable in trace.zeros


def _add_zeros(known: set[Variable], equations: Sequence[Equation], constants: Iterable[tuple[Variable, Array]]) -> None:
    """Add the variables that are zero where those already among `known` are, since linear operations keep zeros, and products
    have one factor of it."""
    known.update([variable for variable, array in constants if not np.any(array.host)])
    for equation in equations:
        primitive, program = equation.primitive, equation.params.get("program")
        own = [not np.any(x.value.host) if isinstance(x, Literal) else x in known for x in equation.inputs]
        if isinstance(program, Program) and program.input_types == tuple([x.type for x in equation.inputs]):  # a call
            inner = {x for x, flag in zip(program.inputs, own) if flag}
            _add_zeros(inner, program.equations, program.constants)
            found = [not np.any(x.value.host) if isinstance(x, Literal) else x in inner for x in program.outputs]
            known.update([out for out, flag in zip(equation.outputs, found) if flag])
        elif own and (
            (primitive.bilinear and any(own))
            or (primitive.linear and all([zero for zero, flag in zip(own, primitive.linear_flags(len(own))) if flag]))
        ):
            known.update(equation.outputs)


def zero_of(type: ArrayType) -> Any:
    """Zeros of a type as an operation, which a Program records instead of holding them."""
    return broadcast_in_dim(zeros(type.with_shape(())), shape=type.shape, broadcast_dimensions=())
