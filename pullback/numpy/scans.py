"""What the elements up to each one make, and how each differs from the one before it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.dtypes import BOOL, DTypeLike, default_dtype, is_inexact, requested
from pullback.core.errors import ShapeError
from pullback.numpy.arithmetic import abs as absolute
from pullback.numpy.arithmetic import remainder, subtract
from pullback.numpy.axes import normal_axis, whole
from pullback.numpy.creation import full
from pullback.numpy.eager import by_numpy
from pullback.numpy.factories import Function, named
from pullback.numpy.logic import isnan, not_equal, where
from pullback.numpy.promotion import (
    NATIVE_FLOATS,
    at_user_line,
    flags,
    in_dtype,
    number_or_operand,
    operand,
    refuse_complex,
    refuse_out,
    strong,
    to_common_dtype,
)
from pullback.numpy.reductions import summed_dtype
from pullback.numpy.shaping import broadcast_to, concatenate, cut, ravel
from pullback.numpy.sorting import along
from pullback.ops import scans

_WIDE = """float32 numbers are added in float64, and narrower floats in float32, and
        each result is rounded once."""
_SECTIONS = """    Arguments:
        a: an array of any shape.
        axis: the axis; None, the default, for the flattened array.
        dtype: the dtype to compute in; by default the array's own, or the default integers for narrow ones and bools.
        out: None: arrays are immutable.

    Returns:
        An array of the same shape, or a vector. float32 numbers are accumulated in float64, narrower ones in float32, and
        rounded once.

    Raises:
        LeafError: `a` is neither an array nor a number.
        AxisError: the array has no such axis.
        TypeError: `out` is given."""
_STANDARD = """    Arguments:
        x: an array of any shape.
        axis: the axis, which may be left out for a vector.
        dtype: the dtype to compute in; by default the array's own, or the default integers for narrow ones and bools.
        include_initial: whether the result begins with {}, and is longer by one.

    Returns:
        An array of the same shape, but for `include_initial`.

    Raises:
        LeafError: x is neither an array nor a number.
        AxisError: the array has no such axis.
        ShapeError: it has several, and none is given."""


def _scanned(primitive: Any, a: Any, axis: int, dtype: Any) -> Any:
    wanted = summed_dtype(a.type.dtype) if dtype is None else requested(dtype)
    a = in_dtype(a, wanted)
    a = in_dtype(a, default_dtype("i")) if wanted is BOOL else a
    return strong(in_dtype(primitive(a, axis=axis, reverse=False), wanted))


def _cumulative(name: str, primitive: Any, neutral: int | None, doc: str) -> Function:
    """`neutral` is what takes the place of NaN, if it is to be left out."""

    def function(a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None) -> Array:
        refuse_out(name, out)
        x, place = along(a, axis, name)
        if neutral is not None and is_inexact(x.type.dtype):
            x = where(isnan(x), neutral, x)
        return _scanned(primitive, x, place, dtype)

    def on_host(a: Any, axis: Any = None) -> Any:
        return primitive.evaluate(a.reshape(-1) if axis is None else a, axis=0 if axis is None else axis)

    found = named(function, name, doc, _SECTIONS)
    return by_numpy(on_host, NATIVE_FLOATS)(found) if neutral is None else found


def _standard(name: str, primitive: Any, neutral: int, doc: str) -> Function:
    def function(x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike = None, include_initial: bool = False) -> Array:
        a = operand(x, name)
        if axis is None and a.type.ndim != 1:
            raise ShapeError(f"{name} of {a.type} needs an axis, since it is no vector.{at_user_line()}")
        place = normal_axis(0 if axis is None else axis, a.type.ndim, name)
        out = _scanned(primitive, a, place, dtype)
        if not flags(name, include_initial=include_initial)[0]:
            return out
        shape = out.type.shape
        return concatenate([full((*shape[:place], 1, *shape[place + 1 :]), neutral, out.type.dtype), out], place)

    return named(function, name, doc, _STANDARD.format(neutral))


# fmt: off
cumsum = _cumulative("cumsum", scans.cumsum, None, """The sums of the elements up to each one.

    Example:
        >>> pnp.cumsum(pnp.array([[1, 2], [3, 4]])), pnp.cumsum(pnp.array([[1, 2], [3, 4]]), axis=0)
        ([ 1  3  6 10]:i32[4]:cpu(0), [[1 2]
         [4 6]]:i32[2,2]:cpu(0))
    """)
cumprod = _cumulative("cumprod", scans.cumprod, None, """The products of the elements up to each one.

    Its derivative is right where elements are zero, since nothing is divided.

    Example:
        >>> pnp.cumprod(pnp.array([1.0, 2.0, 3.0]))
        [1. 2. 6.]:f32[3]:cpu(0)
    """)
nancumsum = _cumulative("nancumsum", scans.cumsum, 0, """The sums of the elements up to each one, NaN counted as 0.

    Example:
        >>> pnp.nancumsum(pnp.array([1.0, pnp.nan, 3.0]))
        [1. 1. 4.]:f32[3]:cpu(0)
    """)
nancumprod = _cumulative("nancumprod", scans.cumprod, 1, """The products of the elements up to each one, NaN counted as 1.

    Example:
        >>> pnp.nancumprod(pnp.array([2.0, pnp.nan, 3.0]))
        [2. 2. 6.]:f32[3]:cpu(0)
    """)
cumulative_sum = _standard("cumulative_sum", scans.cumsum, 0, """The sums of the elements up to each one, or before it.

    Example:
        >>> pnp.cumulative_sum(pnp.array([1, 2, 3]), include_initial=True)
        [0 1 3 6]:i32[4]:cpu(0)
    """)
cumulative_prod = _standard("cumulative_prod", scans.cumprod, 1, """The products of the elements up to each one, or before it.

    Example:
        >>> pnp.cumulative_prod(pnp.array([1, 2, 3]), include_initial=True)
        [1 1 2 6]:i32[4]:cpu(0)
    """)
# fmt: on


@by_numpy(np.diff, NATIVE_FLOATS)
def diff(a: ArrayLike, n: int = 1, axis: int = -1, prepend: ArrayLike | None = None, append: ArrayLike | None = None) -> Array:
    """Each element minus the one before it along an axis; of bools, whether they differ.

    Arguments:
        a: an array with an axis.
        n: how often to take differences.
        axis: the axis.
        prepend, append: values to put before the first and behind the last element; numbers, or arrays.

    Returns:
        An array that is shorter by n along the axis.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis.
        ValueError: n is negative.

    Example:
        >>> pnp.diff(pnp.array([1, 4, 9, 16])), pnp.diff(pnp.array([1, 4, 9, 16]), n=2)
        ([3 5 7]:i32[3]:cpu(0), [2 2]:i32[2]:cpu(0))
        >>> pnp.diff(pnp.array([1, 4]), prepend=0)
        [1 3]:i32[2]:cpu(0)
    """
    x, place = along(a, normal_axis(axis, operand(a, "diff").type.ndim, "diff"), "diff")
    if whole(n, "diff's n") < 0:
        raise ValueError(f"diff takes differences n >= 0 times, not {n}.{at_user_line()}")
    if not n:
        return x
    parts = [x if part is a else operand(part, "diff") for part in (prepend, a, append) if part is not None]
    shape = x.type.shape
    one = (*shape[:place], 1, *shape[place + 1 :])
    x = concatenate([part if part.type.ndim else broadcast_to(part, one) for part in parts], place) if len(parts) > 1 else x
    for _ in range(n):
        size = x.type.shape[place]
        later, earlier = cut(x, place, min(1, size), size), cut(x, place, 0, max(size - 1, 0))
        x = (not_equal if x.type.dtype is BOOL else subtract)(later, earlier)
    return x


def ediff1d(ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None) -> Array:
    """Each element of the flattened array minus the one before it, between other values.

    Arguments:
        ary: an array of numbers.
        to_end, to_begin: what to put behind and before the differences; arrays or numbers whose dtype that of `ary` can hold.

    Returns:
        A vector of the dtype of `ary`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: `ary` is bool.

    Example:
        >>> pnp.ediff1d(pnp.array([1, 4, 9]), to_begin=0, to_end=pnp.array([7, 8]))
        [0 3 5 7 8]:i32[5]:cpu(0)
    """
    x = ravel(operand(ary, "ediff1d"))
    steps = subtract(cut(x, 0, min(1, x.type.size), x.type.size), cut(x, 0, 0, max(x.type.size - 1, 0)))
    ends = [None if end is None else ravel(in_dtype(operand(end, "ediff1d"), x.type.dtype)) for end in (to_begin, to_end)]
    parts = [part for part in (ends[0], steps, ends[1]) if part is not None]
    return concatenate(parts) if len(parts) > 1 else steps


def unwrap(p: ArrayLike, discont: ArrayLike | None = None, axis: int = -1, period: ArrayLike = 2 * math.pi) -> Array:
    """Angles made continuous: where two of them differ by more than half a period, whole periods are added to those behind.

    Arguments:
        p: an array of real numbers.
        discont: the least difference that is a jump; half of the period by default, which is also the least that counts.
        axis: the axis.
        period: the period; 2 pi by default. That of integers may be one.

    Returns:
        An array of the shape of p, floating unless p and the period are integers.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: it is complex.
        AxisError: the array has no such axis.

    Example:
        >>> pnp.unwrap(pnp.array([0.0, 3.0, -3.0]))
        [0.        3.        3.2831852]:f32[3]:cpu(0)
        >>> pnp.unwrap(pnp.array([1, 2, 0, 1]), period=3)
        [1 2 3 4]:i32[4]:cpu(0)
    """
    p, place = along(p, normal_axis(axis, operand(p, "unwrap").type.ndim, "unwrap"), "unwrap")
    refuse_complex("unwrap", p)
    p, period = to_common_dtype("unwrap", p, number_or_operand(period, "unwrap", "period"))
    if p.type.shape[place] == 0:
        return strong(p)
    steps = diff(p, axis=place)
    if is_inexact(p.type.dtype):
        half, symmetric = period / 2, operand(True, "unwrap")
    else:
        half, symmetric = period // 2, period % 2 == 0
    wrapped = remainder(steps + half, period) - half
    wrapped = where((wrapped == -half) & (steps > 0) & symmetric, half, wrapped)
    least = half if discont is None else number_or_operand(discont, "unwrap", "discont")
    added = cumsum(where(absolute(steps) < least, 0, wrapped - steps), axis=place, dtype=p.type.dtype)
    size = p.type.shape[place]
    return strong(concatenate([cut(p, place, 0, 1), cut(p, place, 1, size) + added], place))
