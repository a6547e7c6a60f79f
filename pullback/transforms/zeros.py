"""What is known to be zero: so a rule may return it as a tangent, and a linear function may add it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array
from pullback.core.dtypes import is_inexact
from pullback.core.types import ArrayType
from pullback.core.zero import zeros
from pullback.ops.broadcast import broadcast_in_dim
from pullback.program.equation import Atom, remembered
from pullback.program.program import Equation, Literal, Program, Variable
from pullback.transforms.batch import Batched
from pullback.transforms.stage import Staged


def is_zero(value: Any) -> bool:
    """Whether a value is known to be zero: from its elements, or, while a Program is being staged, from what made it."""
    value = _staged(value)
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


def may_be_zero(value: Any) -> bool:
    """Whether a value is zero as far as anyone can tell: what `is_zero` says, except that an operation of a user's that has a
    transpose rule, and so is linear in operands that nothing names, counts as linear in one that is zero."""
    if is_zero(value):
        return True
    value = _staged(value)
    if not isinstance(value, Staged):
        return False
    trace, known = value.owner, set(value.owner.zeros)
    _add_zeros(known, trace.equations, [], True)
    return value.variable in known


def _staged(value: Any) -> Any:
    """What is below batches and derivatives: an Array, or what a Program records."""
    while isinstance(value, Batched) or hasattr(value, "primal"):
        value = value.value if isinstance(value, Batched) else value.primal
    return value


def _is_known(atom: Atom, known: set[Variable]) -> bool:
    """Whether an atom is a literal zero, or among the variables that are known to be zero."""
    return not np.any(atom.value.host) if isinstance(atom, Literal) else atom in known


def _add_zeros(
    known: set[Variable],
    equations: Sequence[Equation],
    constants: Iterable[tuple[Variable, Array]],
    perhaps: bool = False,
) -> None:
    """Add the variables that are zero where those already among `known` are, since linear operations keep zeros, and products
    have one factor of it; if `perhaps`, also those that `may_be_zero`."""
    known.update([variable for variable, array in constants if not np.any(array.host)])
    for equation in equations:
        primitive, program = equation.primitive, equation.params.get("program")
        own = [_is_known(x, known) for x in equation.inputs]
        if primitive.wiring is not None:
            found = _zero_results(primitive.wiring, equation.params, own, perhaps)
        elif isinstance(program, Program) and program.input_types == tuple([x.type for x in equation.inputs]):  # a call
            found = _zero_outputs(program, tuple(own), perhaps)
        elif own and (
            (primitive.bilinear and any(own))
            or (primitive.linear and all([zero for zero, flag in zip(own, primitive.linear_flags(len(own))) if flag]))
            or (perhaps and _may_keep_zero(equation, own))
        ):
            found = [True] * len(equation.outputs)
        else:
            continue
        known.update([out for out, flag in zip(equation.outputs, found) if flag])


def _may_keep_zero(equation: Equation, zero: Sequence[bool]) -> bool:
    """Whether an equation applies an operation that has a transpose rule, and says not in what it is linear, to a zero."""
    primitive = equation.primitive
    known = primitive.linear or primitive.bilinear or primitive.partials or not primitive.transpose
    return not known and any([flag and is_inexact(x.type.dtype) for x, flag in zip(equation.inputs, zero)])


@remembered
def _zero_outputs(program: Program, zero: tuple[bool, ...], perhaps: bool) -> list[bool]:
    """Which outputs of a Program are zero where the flagged inputs are."""
    known = {x for x, flag in zip(program.inputs, zero) if flag}
    _add_zeros(known, program.equations, program.constants, perhaps)
    return [_is_known(x, known) for x in program.outputs]


def _zero_results(wiring: Any, params: dict[str, Any], zero: Sequence[bool], perhaps: bool) -> list[bool]:
    """Which results of an operation that holds Programs are zero where the flagged operands are: by all of the Programs, and in
    a loop's carry from its start on."""
    programs = params[wiring.programs]
    programs = programs if programs.__class__ is tuple else (programs,)
    own = zero[wiring.lead :]
    first = len(own) if wiring.consts is None else params[wiring.consts]
    count = len(own) - first if wiring.test is not None else 0 if wiring.carry is None else params[wiring.carry]
    carry = own[first : first + count]
    while True:
        given = (*own[:first], *carry, *own[first + count :])
        outs = [all(flags) for flags in zip(*[_zero_outputs(program, given, perhaps) for program in programs])]
        stays = [a and b for a, b in zip(carry, outs)]
        if stays == carry:
            return [*carry, *outs[count:]]
        carry = stays


def zero_of(type: ArrayType) -> Any:
    """Zeros of a type as an operation, which a Program records instead of holding them."""
    return broadcast_in_dim(zeros(type.with_shape(())), shape=type.shape, broadcast_dimensions=())
