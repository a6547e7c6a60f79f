"""What a select throws away must not be noticed: neither in derivatives (`only_where`) nor by what it does (`effects_where`).

Under vmap a branch that a batch element did not choose, and a step after its loop has ended, are computed all the same, and a
select drops the results. The backward pass multiplies their derivatives by zero, which is not enough: zero times infinity is
not a number. So what goes into such a computation goes through `only_where`, the identity, whose derivative is *selected* to
be zero. And its callbacks, and what it says of its progress, are told for which batch elements they are meant: they do nothing
for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.control.callback import callback, check, io_callback
from pullback.control.holder import bind_holder, held_by, split
from pullback.control.progress import NOBODY, progress
from pullback.core.array import HostArray
from pullback.core.axes import Axis
from pullback.core.dtypes import is_inexact
from pullback.core.errors import MissingRule
from pullback.core.primitive import Rules, primitive
from pullback.core.tracing import Tracer, bind, type_of
from pullback.core.types import ArrayType, array_type
from pullback.ops.broadcast import broadcast_in_dim, repeated
from pullback.ops.compare import select
from pullback.ops.dynamic import dynamic_slice
from pullback.ops.literals import literal
from pullback.ops.reduce import argmax, reduce_or
from pullback.program.equality import Keyed
from pullback.program.equation import Equation, remembered
from pullback.program.interpret import bind_equation
from pullback.program.program import Program
from pullback.transforms.derive import Flags, batch_program, stage_closed
from pullback.transforms.simplify import has_effect
from pullback.transforms.stage import replay

INT32 = np.dtype(np.int32)


@primitive
class only_where(Rules):
    """x. Its derivative is zero where `which` does not hold; the axes of `which` are the first ones of x."""

    def result_type(which, x):
        return x

    def evaluate(which, x):
        return x

    def lower(write, which, x):
        return x

    def jvp(primals, tangents):
        (which, x), (_, tangent) = primals, tangents
        return only_where(which, x), chosen(which, tangent, literal(0, tangent))

    def transpose(cotangent, which, x):
        return None, chosen(which, cotangent, literal(0, cotangent))

    def vectorize(size, args, axes):
        return only_where(*[value if axis == 0 else repeated(value, size) for value, axis in zip(args, axes)]), 0


def chosen(which: Any, new: Any, old: Any) -> Any:
    """`new` where `which` holds, else `old`; the axes of `which` are the first ones of `new`."""
    shape, depth = type_of(new).shape, type_of(which).ndim
    if len(shape) > depth:
        which = broadcast_in_dim(which, shape=shape, broadcast_dimensions=tuple(range(depth)))
    return select(which, new, old)


def run_guarded(
    program: Program, batch: Axis, which: Any, values: Sequence[Any], flags: Flags, outs: Flags, reverse: bool = True
) -> tuple[Any, ...]:
    """A Program's results on a batch of which only the elements count for which `which` holds; `outs` carry the batch."""
    values, flags = guarded(which, values, flags, batch.size, reverse)
    if program.effects:
        program, values, flags = effects_where(program), [which, *values], (1, *flags)
    return replay(batch_program(program, batch, flags, outs)[0], values)


def guarded(which: Any, values: Sequence[Any], batched: Flags, size: int, reverse: bool = True) -> tuple[list[Any], Flags]:
    """The operands of a computation that counts for some batch elements only, and which of them are batches now.

    What each batch element has of its own goes through `only_where`, and so does a 0-d value that all share, once it is
    repeated. An array that all share would cost too much to repeat. Its cotangent is a sum over the batch, in which an element
    that does not count contributes 0 times a derivative; so those elements compute with the operands of one that does count,
    whose derivative is as good as that one's. Where no element counts, the array's derivative is selected to be zero. This is
    for reverse mode only (`reverse`): in forward mode the final select drops such a tangent unseen.
    """
    kinds = [is_inexact(type_of(value).dtype) for value in values]
    shared = [
        reverse and inexact and not own and isinstance(value, Tracer) and type_of(value).ndim > 0
        for value, own, inexact in zip(values, batched, kinds)
    ]
    replaces = any(shared) and size > 0
    anyone = reduce_or(which, axes=(0,)) if any(shared) else None
    first = argmax(which, axis=0, index_dtype=INT32) if replaces else None
    found: list[Any] = []
    flags: list[int] = []
    for value, own, inexact, everyones in zip(values, batched, kinds, shared):
        if everyones:
            value = only_where(anyone, value)
        elif own and replaces:
            value = chosen(which, value, _everywhere(value, first))
        if inexact and (own or not type_of(value).ndim):
            value, own = only_where(which, value if own else repeated(value, size)), 1
        found.append(value)
        flags.append(own)
    return found, tuple(flags)


def _everywhere(batch: Any, index: Any) -> Any:
    """A batch of which every element is the one at `index`."""
    shape = type_of(batch).shape
    starts = [index, *[literal(0, index)] * (len(shape) - 1)]
    return broadcast_in_dim(
        dynamic_slice(batch, *starts, slice_sizes=(1, *shape[1:])), shape=shape, broadcast_dimensions=tuple(range(len(shape)))
    )


# ---- effects ----------------------------------------------------------------------------------------------------------


class CalledWhere(Keyed):
    """A callback's function, called only where its first argument holds; elsewhere its results are zeros."""

    __slots__ = ("debug", "function", "names", "types")

    def __init__(self, function: Any, types: Sequence[ArrayType]) -> None:
        self.key = function, types
        self.function, self.types = self.key
        self.names = getattr(function, "names", ())
        self.debug = getattr(function, "debug", False)  # of a check

    def __call__(self, which: HostArray, *leaves: HostArray) -> Sequence[Any]:
        return self.function(*leaves) if which else [np.zeros(type.shape, type.dtype) for type in self.types]

    def __repr__(self) -> str:
        return repr(self.function)


@remembered
def effects_where(program: Program) -> Program:
    """A Program that takes one more operand, a bool, before the others, and has effects only where that holds."""

    def guarded_effects(which: Any, *args: Any) -> Sequence[Any]:
        def apply(equation: Equation, operands: list[Any]) -> Any:
            return _applied_where(which, equation, operands) if has_effect(equation) else bind_equation(equation, operands)

        return replay(program, args, apply)

    types = [array_type((), np.dtype(bool)), *program.input_types]
    return stage_closed(guarded_effects, types, program.name, program)


def _applied_where(which: Any, equation: Equation, operands: list[Any]) -> Any:
    primitive, params = equation.primitive, equation.params
    if primitive in (callback, check, io_callback):
        function = CalledWhere(params["function"], params.get("types", ()))
        levels = tuple([(size, (False, *flags)) for size, flags in params.get("levels", ())])
        return bind(primitive, [which, *operands], {**params, "function": function, "levels": levels})
    if primitive is progress:
        done, total = operands
        return bind(progress, [select(which, done, literal(NOBODY, done)), total], params)
    if primitive.prune is None:  # then its rules would have to change as well
        raise MissingRule(
            f"{primitive.name} has an effect, inside a branch or loop that runs for some elements of a batch only"
            f" (at {equation.source}), and it cannot be kept from happening for the others. Use"
            ' vmap(..., strategy="map"), which takes the batch elements one by one, or move the effect out of it.'
        )
    held = held_by(primitive, params)
    lead, own = split(operands, held.wiring.lead)
    test = None if held.test is None else effects_where(held.test)
    params = held.on([effects_where(inner) for inner in held.programs], test=test, consts=held.consts + 1)
    return bind_holder(primitive, *lead, which, *own, **params)
