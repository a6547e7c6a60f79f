"""only_where: keeps what a select throws away out of derivatives.

Under vmap a branch that an example did not choose, and a step after its loop has ended, are computed all the same, and a select
drops the results. Their derivatives are multiplied by zero on the way back, which is not enough: zero times infinity is not a
number. So what goes into such a computation goes through `only_where`, the identity, whose derivative is *selected* to be zero.
"""

from __future__ import annotations

from typing import Any

from pullback.core.dtypes import is_inexact
from pullback.core.primitive import Rules, primitive
from pullback.core.tracing import type_of
from pullback.ops.broadcast import broadcast_in_dim
from pullback.ops.compare import select
from pullback.ops.literals import literal
from pullback.transforms.batch import repeated


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

    def vectorize(size, args, axes):
        return only_where(*[value if axis == 0 else repeated(value, size) for value, axis in zip(args, axes)]), 0


def chosen(which: Any, new: Any, old: Any) -> Any:
    """`new` where `which` holds, else `old`; the axes of `which` are the first ones of `new`."""
    shape, depth = type_of(new).shape, type_of(which).ndim
    if len(shape) > depth:
        which = broadcast_in_dim(which, shape=shape, broadcast_dimensions=tuple(range(depth)))
    return select(which, new, old)


def guarded(which: Any, value: Any, batched: bool, size: int) -> tuple[Any, bool]:
    """A value on its way into something that only counts for some examples, and whether it is a batch now.

    Values that all examples share are guarded if they are 0-d, which costs nothing; a large one would have to be repeated.
    """
    type = type_of(value)
    if not is_inexact(type.dtype) or (not batched and type.shape):
        return value, batched
    return only_where(which, value if batched else repeated(value, size)), True
