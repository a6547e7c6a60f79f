"""Numbers evenly spaced between two ends: in themselves, in their logarithms, or by a common factor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike, scalar_kind
from pullback.core.dtypes import FLOAT32, FLOAT64, INT32, RANK, DTypeLike, default_dtype, is_inexact, kind, requested
from pullback.numpy.arithmetic import add, multiply, sign, subtract, true_divide
from pullback.numpy.axes import normal_axis
from pullback.numpy.creation import checked_shape, refuse_device, refuse_dropped_part
from pullback.numpy.eager import by_numpy
from pullback.numpy.elementary import log10, power
from pullback.numpy.logic import where
from pullback.numpy.promotion import (
    PYTHON_SCALARS,
    broadcast,
    broadcast_shapes,
    in_dtype,
    literal_of,
    number_or_operand,
    real_dtype,
    strong,
    to_common_dtype,
    to_common_shape,
)
from pullback.numpy.shaping import moveaxis, reshape
from pullback.ops import compare, powers, rounding
from pullback.ops import shape as shapes
from pullback.ops.create import iota


def _linspace_of_numbers(start: float, stop: float, num: int = 50, endpoint: bool = True) -> Any:
    """`linspace` of Python's real numbers, in the same steps on NumPy."""
    parts = num - 1 if endpoint else num
    if num < 2 or parts >= 1 << 24:  # up to which the floating dtypes count
        raise ValueError("for the general path")
    dtype = default_dtype("f")
    first, last = dtype.type(start), dtype.type(stop)
    low = first * dtype.type(0.5)
    step = (last * dtype.type(0.5) - low) / dtype.type(parts)
    values = np.arange(num, dtype=dtype)
    values *= step
    values += low
    values *= dtype.type(2)
    if endpoint:
        values[-1] = last
    return values


@by_numpy(_linspace_of_numbers, frozenset())
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """`num` numbers evenly spaced from `start` to `stop`.

    Arguments:
        start, stop: numbers, or arrays that broadcast; the new axis goes to `axis` of the result.
        num: how many.
        endpoint: whether `stop` is the last number.
        retstep: whether to return the spacing as well.
        dtype: by default the common dtype of the ends, floating or complex.
        axis: where the new axis lies in the result.
        device: None, or the device that arrays are made on; `pb.device_put` moves arrays to others.

    Returns:
        An array of shape (num, ...); or the pair of it and the spacing.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not broadcast.
        AxisError: the array has no such axis.
        DtypeError: the dtypes have no common one; the ends are complex, and `dtype` is not.
        ValueError: a device other than that on which arrays are made.
        ShapeError: `num` is negative.

    Example:
        >>> pnp.linspace(0, 1, 5)
        [0.   0.25 0.5  0.75 1.  ]:f32[5]:cpu(0)
        >>> pnp.linspace(0.0, 1.0, 4, endpoint=False, retstep=True)
        ([0.   0.25 0.5  0.75]:f32[4]:cpu(0), 0.25:f32[]:cpu(0))
        >>> pnp.linspace(pnp.array([0.0, 10.0]), 1.0, 3, axis=1)
        [[ 0.   0.5  1. ]
         [10.   5.5  1. ]]:f32[2,3]:cpu(0)
    """
    refuse_device(device, "linspace")
    (count,) = checked_shape(num, "linspace")
    start, stop = to_common_dtype("linspace", *[_at_once(end, dtype, "linspace") for end in (start, stop)], inexact=True)
    found = start.type.dtype
    wanted = found if dtype is None else requested(dtype)
    refuse_dropped_part(kind(found), wanted, "linspace: complex ends do not fit into {}; take their .real.")
    shape = broadcast_shapes("linspace", start.type.shape, stop.type.shape)
    parts = count - 1 if endpoint else count
    if found.itemsize <= 2:  # which cannot count as far
        start, stop = in_dtype(start, FLOAT32), in_dtype(stop, FLOAT32)
    # in halves, since the lowest and the highest number of a dtype are further apart than its numbers reach
    low, high = multiply(start, 0.5), multiply(stop, 0.5)
    step = true_divide(subtract(high, low), float(parts) if parts > 0 else float("nan"))
    counted = iota(dtype=real_dtype(start.type.dtype), shape=(count, *shape), dimension=0)
    low, high = [broadcast(end, (count, *shape)) if shape else end for end in (low, stop)]
    # whole steps give whole numbers, exactly, which a weighted mean of the ends does not
    values = multiply(add(low, multiply(counted, step)), 2.0) if count > 1 else broadcast(start, (count, *shape))
    if endpoint and count > 1:
        last = compare.eq(counted, literal_of(count - 1, counted.type.dtype))
        values = compare.select(last, in_dtype(high, values.type.dtype), values)
    if kind(wanted) in "iu":
        values = rounding.floor(values)
    values = strong(in_dtype(values, wanted))
    along = normal_axis(axis, values.type.ndim, "linspace")
    if along:
        order = (*range(1, along + 1), 0, *range(along + 1, values.type.ndim))
        values = shapes.transpose(values, permutation=order)
    if not retstep:
        return values
    return values, strong(in_dtype(multiply(step, 2.0) if parts > 0 else literal_of(math.nan, found), found))


def _at_once(value: Any, dtype: DTypeLike, name: str) -> Any:
    """A Python number in the dtype that is asked for, if it goes into that, before it loses digits in the default one."""
    value = number_or_operand(value, name)
    fits = value.__class__ in PYTHON_SCALARS and dtype is not None and is_inexact(requested(dtype))
    return literal_of(value, requested(dtype)) if fits and RANK[scalar_kind(value)] <= RANK[kind(requested(dtype))] else value


def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike = None,
    axis: int = 0,
) -> Array:
    """`num` numbers evenly spaced in their logarithm, from base**start to base**stop.

    Arguments:
        start, stop: exponents: numbers, or arrays that broadcast.
        num: how many.
        endpoint: whether base**stop is the last number.
        base: a number, or an array that broadcasts.
        dtype: by default the common dtype, floating or complex.
        axis: where the new axis lies in the result.

    Returns:
        An array of shape (num, ...).

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not broadcast.
        DtypeError: the dtypes have no common one.
        AxisError: the result has no such axis.
        ShapeError: `num` is negative.

    Example:
        >>> pnp.logspace(0, 3, 4)
        [   1.   10.  100. 1000.]:f32[4]:cpu(0)
        >>> pnp.logspace(0, 2, 3, base=2)
        [1. 2. 4.]:f32[3]:cpu(0)
    """
    first, last = [_at_once(end, dtype, "logspace") for end in (start, stop)]
    exponents = linspace(first, last, num, endpoint, axis=axis)
    values = powers.pow(*to_common_shape("logspace", *to_common_dtype("logspace", base, exponents)))
    return values if dtype is None else strong(in_dtype(values, requested(dtype)))


def geomspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, dtype: DTypeLike = None, axis: int = 0
) -> Array:
    """`num` numbers from `start` to `stop`, each the one before it times the same factor.

    Arguments:
        start, stop: the ends: numbers, or arrays that broadcast; both positive, both negative, or complex (which wind about 0
            on the shorter way).
        num: how many.
        endpoint: whether `stop` is the last number.
        dtype: by default the common dtype of the ends, floating or complex.
        axis: where the new axis lies in the result.

    Returns:
        An array of shape (num, ...); NaN where an end is 0, or one is positive and the other negative.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not broadcast, or `num` is negative.
        DtypeError: the dtypes have no common one.
        AxisError: the result has no such axis.

    Example:
        >>> pnp.geomspace(1, 1000, 4)
        [   1.   10.  100. 1000.]:f32[4]:cpu(0)
        >>> pnp.geomspace(-1, -8, 4, dtype=int)
        [-1 -2 -4 -8]:i32[4]:cpu(0)
    """
    ends = to_common_dtype("geomspace", *[_at_once(end, dtype, "geomspace") for end in (start, stop)], inexact=True)
    wanted = ends[0].type.dtype if dtype is None else requested(dtype)
    precise = FLOAT64 if kind(wanted) in "iu" else FLOAT32  # before they are rounded down to whole numbers
    first, last = [one if one.type.dtype.itemsize >= precise.itemsize else in_dtype(one, precise) for one in ends]
    direction = sign(first)
    low, high = [log10(true_divide(end, direction)) for end in (first, last)]
    exponents = linspace(low, high, num, endpoint)
    between = multiply(direction, power(10.0, exponents))
    if kind(wanted) in "iu":
        between = multiply(between, 1 + 1e-13)  # what lacks a rounding error of a whole number is that number
    places = reshape(iota(dtype=INT32, shape=(between.type.shape[0],), dimension=0), (-1, *[1] * (between.type.ndim - 1)))
    first, last = [broadcast(end, between.type.shape) for end in (first, last)]
    values = where(places == 0, first, where(places == num - 1, last, between) if endpoint else between)
    return moveaxis(strong(in_dtype(values, wanted)), 0, axis)
