"""Families of operations: each derives most of an operation's rules from a fact or two about it.

The convention of batching: a batched value carries its batch axis first, always; so every `vectorize` rule only shifts by one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core.dtypes import NO_NUMBERS, in_words, kind
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.primitive import Primitive, Rules
from pullback.core.types import ArrayType
from pullback.ops.formulas import OPERATIONS


def up(axes: Any) -> tuple[int, ...]:
    """Axes as they are once a batch axis stands in front."""
    return tuple([axis + 1 for axis in axes])


def check_kinds(primitive: Primitive, *types: ArrayType) -> None:
    """Raise `DtypeError` unless every type is of one of the kinds that a primitive takes."""
    if not all([kind(type.dtype) in primitive.kinds for type in types]):
        cure = NO_NUMBERS.capitalize() if any(kind(type.dtype) == "k" for type in types) else "Convert with .astype()."
        raise DtypeError(
            f"{primitive.name} takes {in_words(primitive.kinds)} operands, but got {', '.join(map(str, types))}. {cure}"
        )


def in_reals(type: ArrayType, product: bool = True) -> int:
    """How many operations on real numbers the product, or the sum, of two numbers of a type is."""
    return 1 if kind(type.dtype) != "c" else 6 if product else 2


def of_products(cost: Any) -> Any:
    """A cost rule of sums of products: as many operations as the rule says of real numbers, four times as many of others."""

    @functools.wraps(cost)
    def rule(operands, results, **params):
        return cost(operands, results, **params) * (4 if kind(operands[0].dtype) == "c" else 1)

    return rule


class Linear(Rules):
    """Linear in its only operand: the tangent goes through the operation itself. Needs `transpose`."""

    linear = True
    quiet = True


class Moving(Linear):
    """Linear, and each element of the result is an element of an operand, or zero."""

    cost = 0

    def sparsity(primitive, which, operands, **params):
        numbers = [numbered(x) if i == which else np.full(x.shape, -1) for i, x in enumerate(operands)]
        return places(primitive.evaluate(*numbers, **params))


def numbered(x):
    """The numbers 0, 1, 2, ... in the shape of x."""
    return np.arange(math.prod(x.shape)).reshape(x.shape)


def places(numbers):
    """Where elements have gone, given their numbers in those places and -1 in others: a pair (result, element) for each."""
    results = np.flatnonzero(numbers.reshape(-1) >= 0)
    return results, numbers.reshape(-1)[results]


def only_the_last(equation, known, may_skip=lambda before: True):
    """The `simplify` rule of an operation of one operand that, done again, makes the first time superfluous, if it may be
    skipped; and that does nothing to what has the type already."""
    (x,), (out,) = equation.inputs, equation.outputs
    if x.type is out.type:
        return x
    before = known.maker(x, equation.primitive)
    if before is None or not may_skip(before):
        return None
    (source,) = before.inputs
    return source if source.type is out.type else equation.replace(inputs=(source,))


def all_but(x: ArrayType, axes: Sequence[int]) -> dict[int, int]:
    """An axis map for an operation that leaves all axes of an operand alone but `axes`, and where they are."""
    return {axis: axis for axis in range(x.ndim) if axis not in axes}


def without(x: ArrayType, axes: Sequence[int]) -> dict[int, int]:
    """An axis map for an operation that takes the axes `axes` away, and leaves the others alone."""
    return {axis: place for place, axis in enumerate([axis for axis in range(x.ndim) if axis not in axes])}


class Reduction(Rules):
    """Combines the elements along `axes`, which vanish. Needs `evaluate`, `lower`, and a derivative."""

    quiet = True

    def cost(primitive, operands, results, **params):
        fewer = max(operands[0].size - results[0].size, 0)  # of n numbers, n - 1 are combined with another one
        return fewer * in_reals(operands[0], product=not primitive.linear)

    def axis_map(x, *, axes):
        return (without(x, axes),)

    def result_type(primitive, x, *, axes: tuple[int, ...]):
        check_kinds(primitive, x)
        check_axes(primitive.name, axes, x)
        return x.without(axes)

    def vectorize(primitive, size, args, axes_in, *, axes):
        return primitive(*args, axes=up(axes)), 0


def on_host(primitive, write, *operands, **params):
    """The lowering rule of what compiled code leaves to `evaluate`: the program calls Python, and is not kept on disk."""
    results = write.result_types

    def evaluated(*values):
        with np.errstate(all="ignore"):
            out = primitive.evaluate(*values, **params)
        outs = out if primitive.multiple_results else (out,)
        return [np.asarray(value, type.dtype) for value, type in zip(outs, results, strict=True)]

    found = write.host_call(evaluated, operands, results, pure=True)
    return found if primitive.multiple_results else found[0]


# From so many elements on, 32-bit numbers that NumPy would add one after another are added in 64 bits.
MANY = 1024
_WIDER = {np.dtype("float32"): np.dtype("float64"), np.dtype("complex64"): np.dtype("complex128")}


def adds_pairwise(x, axes):
    """Whether NumPy adds up `axes` in pairs, with an error that grows as the logarithm of their size: along contiguous memory
    only. Otherwise it grows as the size, and the sum of two million float32 numbers may be wrong in its second digit."""
    return x.flags.c_contiguous and all([axis >= x.ndim - len(axes) for axis in axes])


def reducing(combine, name, start):
    """The evaluation and the lowering rule of a reduction by a ufunc, and by the operation of that name: in the dtype that the
    primitive says, rounded once. `start` is the neutral element, or makes it for a dtype, where the ufunc knows none."""

    reduce, adds, makes_start = combine.reduce, combine is np.add, callable(start)

    def evaluate(primitive, x, *, axes):
        own, accumulation = x.dtype, primitive.accumulation
        wide = accumulation(own) if accumulation else own
        if adds and x.size > MANY and not adds_pairwise(x, axes):
            wide = _WIDER.get(wide, wide)
        out = reduce(x, axes, wide, initial=start(wide)[()]) if makes_start else reduce(x, axes, wide)
        return out if wide is own else out.astype(own)

    def lower(primitive, write, x, *, axes):
        wide = primitive.accumulation(x.dtype) if primitive.accumulation else x.dtype
        first = start(wide) if makes_start else start
        how = OPERATIONS[combine] if kind(wide) == "c" else name  # XLA's extremes of complex numbers compare real parts alone
        x, own = write.convert(x, wide), x.dtype
        if callable(how) or (how in _BITWISE and (kind(wide) != "b" or combine is np.bitwise_xor)):
            x = write.whole(x, axes)  # between devices XLA cannot combine like this
        return write.convert(write.reduce(how, x, first, axes), own)

    return evaluate, lower


_BITWISE = ("stablehlo.and", "stablehlo.or", "stablehlo.xor")


def check_axes(name: str, axes: tuple[int, ...], type: ArrayType) -> None:
    """Raise `ShapeError` unless `axes` are different axes of `type`, counted from the front."""
    if len(set(axes)) != len(axes) or not all(0 <= axis < type.ndim for axis in axes):
        raise ShapeError(f"{name} takes different axes between 0 and {type.ndim - 1} of {type}, but got axes={axes}.")
