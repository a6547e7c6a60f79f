"""Sums, products and extremes within segments: of the parts of an array along its first axis that have one number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.api.custom import custom_jvp
from pullback.core.array import Array, ArrayLike, host_of
from pullback.core.brief import brief
from pullback.core.dtypes import INT32, in_words, is_inexact, kind
from pullback.core.errors import DtypeError, ShapeError, TracerIntegerConversionError
from pullback.core.tracing import Tracer
from pullback.numpy.creation import arange, full
from pullback.numpy.factories import named
from pullback.numpy.logic import where
from pullback.numpy.promotion import at_user_line, operand
from pullback.numpy.reductions import max as max_of
from pullback.numpy.reductions import min as min_of
from pullback.numpy.reductions import prod
from pullback.numpy.reductions import sum as sum_of
from pullback.numpy.updates import Updater
from pullback.ops.reduce import highest, lowest
from pullback.ops.windows import GatherScatterMode

_SECTIONS = """    Arguments:
        data: an array ({}), of at least one axis.
        segment_ids: integers, as many as there are parts along the first axis of the data: the number of the segment of each.
        num_segments: how many segments there are; the largest number and one, by default. Needed where the numbers are traced.
        indices_are_sorted: a promise that the numbers rise, of which nothing is made.
        unique_indices: a promise that none comes twice.
        bucket_size: combine so many parts at a time, and then what that gives.
        mode: what to do with numbers that no segment has, negative ones among them: "drop" (the default) or "fill" leaves their
            parts out, "clip" takes the nearest, "promise_in_bounds" says that there are none; or a `lax.GatherScatterMode`.

    Returns:
        An array of shape (num_segments, *data.shape[1:]), in the dtype of the data.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the data are of another dtype, or the numbers are not integers.
        ShapeError: not one number for each part, or a negative number of segments.
        TracerIntegerConversionError: traced numbers, and no `num_segments`.
        ValueError: an unknown mode."""


def _segmented(name: str, method: str, reduce: Any, start: Any, kinds: str, text: str, example: str) -> Callable[..., Array]:
    def function(
        data: ArrayLike,
        segment_ids: ArrayLike,
        num_segments: int | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        bucket_size: int | None = None,
        mode: Any = None,
    ) -> Array:
        x, numbers = operand(data, name), operand(segment_ids, name)
        if kind(x.type.dtype) not in kinds or kind(numbers.type.dtype) not in "iu":
            raise DtypeError(
                f"{name} takes {in_words(kinds)} data and integer segment_ids, but got {x.type} and {numbers.type}."
                f" Convert with .astype().{at_user_line()}"
            )
        if numbers.type.ndim != 1 or x.type.shape[:1] != numbers.type.shape:
            raise ShapeError(f"{name} takes a number for each part of {x.type}, but got {numbers.type}.{at_user_line()}")
        how = {"indices_are_sorted": indices_are_sorted, "unique_indices": unique_indices, "mode": mode or "drop"}
        count = _count(name, numbers, num_segments)

        def combined(x: Any, numbers: Any) -> Any:
            size, shape = numbers.type.size, (count, *x.type.shape[1:])
            if bucket_size is None:
                place = Updater(full(shape, start(x.type.dtype), x.type.dtype))[numbers]
                return getattr(place, method)(x, wrap_negative_indices=False, **how)
            if bucket_size < 1:
                raise ShapeError(f"{name} takes a bucket_size of at least 1, not {bucket_size}.{at_user_line()}")
            empty = full((-(-size // bucket_size), *shape), start(x.type.dtype), x.type.dtype)
            place = Updater(empty)[arange(size) // bucket_size, numbers]
            return reduce(getattr(place, method)(x, wrap_negative_indices=False, **how), axis=0).astype(x.type.dtype)

        if method == "multiply" and is_inexact(x.type.dtype) and not unique_indices:
            return _product(combined, x, numbers, count, how["mode"])
        return combined(x, numbers)

    return named(function, name, text + "\n\n    Example:" + example, _SECTIONS.format(in_words(kinds)), "pullback")


def _count(name: str, numbers: Any, given: Any) -> int:
    if given is None:
        if isinstance(numbers, Tracer):
            raise TracerIntegerConversionError(
                f"{name} was given traced numbers of segments, {numbers.type}: how many segments there are is not known. Say it"
                f" with num_segments=.{at_user_line()}"
            )
        return int(host_of(numbers).max(initial=-1)) + 1
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given < 0:
        raise ShapeError(f"{name} takes num_segments as an int that is not negative, but got {brief(given)}.{at_user_line()}")
    return int(given)


def _product(combined: Any, x: Any, numbers: Any, count: int, mode: Any) -> Any:
    """The products of segments. The derivative with respect to an element is the product of the others, without dividing by
    zeros: that of those that are not zero, times the zero among them, if there is one, which is 0 but has a derivative.

    The numbers are an operand of the rule, which calls this function again: what closes over traced values is traced at once,
    rule in rule without an end.
    """
    product = custom_jvp(combined)

    def rule(primals: Any, tangents: Any) -> Any:
        (x, numbers), (t, _) = primals, tangents
        zero = x == 0
        rest = where(zero, 1, x)

        def total(part: Any) -> Any:
            return segment_sum(part, numbers, count, mode=mode)

        def of_each(segments: Any) -> Any:
            how = {"mode": mode} if mode in ("clip", GatherScatterMode.CLIP) else {"fill_value": 0}
            return Updater(segments)[numbers].get(wrap_negative_indices=False, **how)

        zeros = where(zero, x, 0)
        among, nothing = of_each(total(zero.astype(INT32))) - zero, of_each(total(zeros)) - zeros  # among the others
        least = where(among == 0, 1, where(among == 1, nothing, 0))
        return product(x, numbers), total(t * least * of_each(_product(combined, rest, numbers, count, mode)) / rest)

    product.defjvp(rule)
    return product(x, numbers)


# fmt: off
segment_sum = _segmented("segment_sum", "add", sum_of, lambda dtype: 0, "iufc", "The sum of each segment; 0 of empty ones.", """
        >>> pb.segment_sum(pnp.array([1.0, 2.0, 3.0]), pnp.array([0, 0, 2]))
        [3. 0. 3.]:f32[3]:cpu(0)
    """)
segment_prod = _segmented(
    "segment_prod", "multiply", prod, lambda dtype: 1, "iufc", """The product of each segment; 1 of empty ones.

    The first two derivatives are right where elements are zero, too.""", """
        >>> pb.segment_prod(pnp.array([2, 3, 4]), pnp.array([0, 0, 2]), num_segments=4)
        [6 1 4 1]:i32[4]:cpu(0)
    """)
segment_min = _segmented("segment_min", "min", min_of, highest, "biuf", """The smallest element of each segment.

    Of empty segments, the largest number there is.""", """
        >>> pb.segment_min(pnp.array([2.0, 3.0, 4.0]), pnp.array([0, 0, 2]))
        [ 2. inf  4.]:f32[3]:cpu(0)
    """)
segment_max = _segmented("segment_max", "max", max_of, lowest, "biuf", """The largest element of each segment.

    Of empty segments, the smallest number there is.""", """
        >>> pb.segment_max(pnp.array([2, 3, 4]), pnp.array([0, 0, 1]))
        [3 4]:i32[2]:cpu(0)
    """)
# fmt: on
