"""Comparisons, questions about numbers, bits, and the choices that conditions make."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.dtypes import BOOL, DTYPES, KEY, is_inexact, kind
from pullback.numpy.arithmetic import absolute, add, maximum, minimum, multiply
from pullback.numpy.dtypes import finfo
from pullback.numpy.eager import by_numpy
from pullback.numpy.factories import Binary, Unary, about, apply_binary, binary, named, unary
from pullback.numpy.promotion import (
    NATIVE_FLOATS,
    at_user_line,
    in_dtype,
    literal_of,
    number_or_operand,
    operand,
    promote,
    refuse_complex,
    refuse_out,
    strong,
    tell_ranks,
    to_common_dtype,
    to_common_shape,
    to_one_shape,
)
from pullback.ops import arithmetic, bitwise, compare, powers, rounding
from pullback.ops import complex as complexes
from pullback.ops.convert import bitcast_convert_type, convert_element_type

# ---- comparisons ------------------------------------------------------------------------------------------------------

# fmt: off
equal = binary("equal", compare.eq, """Whether x equals y.

    Example:
        >>> pnp.equal(pnp.array([1.0, pnp.nan]), pnp.array([1.0, pnp.nan]))
        [ True False]:bool[2]:cpu(0)
    """, compares=True)
not_equal = binary("not_equal", compare.ne, """Whether x differs from y; NaN does from everything.

    Example:
        >>> pnp.not_equal(pnp.array([1, 2]), 2)
        [ True False]:bool[2]:cpu(0)
    """, compares=True)
less = binary("less", compare.lt, """Whether x is less than y.

    Example:
        >>> pnp.less(pnp.array([1.0, 2.0, pnp.nan]), 2)
        [ True False False]:bool[3]:cpu(0)
    """, compares=True)
less_equal = binary("less_equal", compare.le, """Whether x is at most y.

    Example:
        >>> pnp.less_equal(pnp.array([1.0, 2.0, pnp.nan]), 2)
        [ True  True False]:bool[3]:cpu(0)
    """, compares=True)
greater = binary("greater", compare.gt, """Whether x is greater than y.

    Example:
        >>> pnp.greater(pnp.array([[1], [3]]), pnp.array([1, 2]))
        [[False False]
         [ True  True]]:bool[2,2]:cpu(0)
    """, compares=True)
greater_equal = binary("greater_equal", compare.ge, """Whether x is at least y.

    Example:
        >>> pnp.greater_equal(3, pnp.array([2, 3, 4]))
        [ True  True False]:bool[3]:cpu(0)
    """, compares=True)
# fmt: on


# ---- bits and logic ---------------------------------------------------------------------------------------------------

# fmt: off
bitwise_and = binary("bitwise_and", bitwise.and_, """The bits that x and y both have; of bools, x and y.

    Example:
        >>> pnp.bitwise_and(0b1100, 0b1010)
        8:i32[]:cpu(0)
        >>> pnp.bitwise_and(pnp.array([True, False]), True)
        [ True False]:bool[2]:cpu(0)
    """)
bitwise_or = binary("bitwise_or", bitwise.or_, """The bits that x or y has; of bools, x or y.

    Example:
        >>> pnp.bitwise_or(pnp.array([0b1100, 0]), 0b1010)
        [14 10]:i32[2]:cpu(0)
    """)
bitwise_xor = binary("bitwise_xor", bitwise.xor, """The bits that only one of x and y has.

    Example:
        >>> pnp.bitwise_xor(pnp.array([0b1100, 0]), 0b1010)
        [ 6 10]:i32[2]:cpu(0)
    """)
bitwise_not = bitwise_invert = invert = unary("invert", bitwise.not_, """The bits that x does not have.

    Example:
        >>> pnp.invert(pnp.array([0, 5]))
        [-1 -6]:i32[2]:cpu(0)
        >>> pnp.invert(pnp.array([True, False]))
        [False  True]:bool[2]:cpu(0)
    """, inexact=False)
# fmt: on


def bitwise_count(x: ArrayLike, /) -> Array:
    """How many bits of the absolute value of x are set, as uint8.

    Arguments:
        x: an array or a number, of any shape, integer or bool.

    Returns:
        An array of the shape of x, of uint8.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: x is of floating or complex numbers.

    Example:
        >>> pnp.bitwise_count(pnp.array([7, -7, 0]))
        [3 3 0]:u8[3]:cpu(0)
    """
    x = operand(x, "bitwise_count")
    size = convert_element_type(x, new_dtype=DTYPES["uint8"]) if x.type.dtype is BOOL else absolute(x)
    return strong(convert_element_type(bitwise.population_count(size), new_dtype=DTYPES["uint8"]))


def left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x moved y bits up; zeros come in.

    Arguments:
        x, y: arrays or numbers, integer or bool, whose shapes broadcast.

    Returns:
        An array of the broadcast shape, in the common dtype; of bools, int32.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not broadcast.
        DtypeError: an operand is of floating or complex numbers.

    Example:
        >>> pnp.left_shift(pnp.array([1, -3]), 2)
        [  4 -12]:i32[2]:cpu(0)
    """
    return bitwise.shift_left(*promote("left_shift", x, y, numeric=True))


def right_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x moved y bits down: copies of the sign bit come in where the dtype is signed, zeros where it is not.

    Arguments:
        x, y: arrays or numbers, integer or bool, whose shapes broadcast.

    Returns:
        An array of the broadcast shape, in the common dtype; of bools, int32.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not broadcast.
        DtypeError: an operand is of floating or complex numbers.

    Example:
        >>> pnp.right_shift(pnp.array([8, -8]), 1)
        [ 4 -4]:i32[2]:cpu(0)
        >>> pnp.right_shift(pnp.array([248], pnp.uint8), 1)
        [124]:u8[1]:cpu(0)
    """
    x, y = promote("right_shift", x, y, numeric=True)
    shift = bitwise.shift_right_arithmetic if kind(x.type.dtype) == "i" else bitwise.shift_right_logical
    return shift(x, y)


bitwise_left_shift = left_shift
bitwise_right_shift = right_shift


def _logical(name: str, primitive: Any, doc: str) -> Binary:
    def function(x: Any, y: Any, /) -> Any:
        return primitive(*to_common_shape(name, as_predicate(x, name), as_predicate(y, name)))

    return by_numpy(getattr(np, name))(named(function, name, doc, about(2, ", of bools.", promotes=False)))


# fmt: off
logical_and = _logical("logical_and", bitwise.and_, """Whether x and y both hold; numbers count as true unless they are 0.

    Example:
        >>> pnp.logical_and(pnp.array([0.0, 0.5]), True)
        [False  True]:bool[2]:cpu(0)
    """)
logical_or = _logical("logical_or", bitwise.or_, """Whether x or y holds; numbers count as true unless they are 0.

    Example:
        >>> pnp.logical_or(pnp.array([0, 2]), 0)
        [False  True]:bool[2]:cpu(0)
    """)
logical_xor = _logical("logical_xor", bitwise.xor,
    """Whether exactly one of x and y holds; numbers count as true unless they are 0.

    Example:
        >>> pnp.logical_xor(pnp.array([0, 1, 2]), 1)
        [ True False False]:bool[3]:cpu(0)
    """)
# fmt: on


@by_numpy(np.logical_not)
def logical_not(x: ArrayLike, /) -> Array:
    """Whether x does not hold, elementwise; numbers count as true unless they are 0.

    Arguments:
        x: an array or a number, of any shape and dtype.

    Returns:
        An array of the shape of x, of bools.

    Raises:
        LeafError: an operand is neither an array nor a number.

    Example:
        >>> pnp.logical_not(pnp.array([0.0, 0.5, pnp.nan]))
        [ True False False]:bool[3]:cpu(0)
    """
    return bitwise.not_(as_predicate(x, "logical_not"))


# ---- questions about numbers ------------------------------------------------------------------------------------------


@by_numpy(np.isfinite)
def isfinite(x: ArrayLike, /) -> Array:
    """Whether x is neither infinite nor NaN, elementwise; of a complex number, whether both parts are.

    Arguments:
        x: an array or a number, of any shape and dtype.

    Returns:
        An array of the shape of x, of bools.

    Raises:
        LeafError: an operand is neither an array nor a number.

    Example:
        >>> pnp.isfinite(pnp.array([1.0, pnp.inf, pnp.nan]))
        [ True False False]:bool[3]:cpu(0)
    """
    x = operand(x, "isfinite")
    dtype = x.type.dtype
    if kind(dtype) == "f":
        return rounding.is_finite(x)
    if kind(dtype) == "c":
        return bitwise.and_(rounding.is_finite(complexes.real(x)), rounding.is_finite(complexes.imag(x)))
    return compare.eq(x, x)


@by_numpy(np.isnan)
def isnan(x: ArrayLike, /) -> Array:
    """Whether x is not a number, elementwise.

    Arguments:
        x: an array or a number, of any shape and dtype.

    Returns:
        An array of the shape of x, of bools.

    Raises:
        LeafError: an operand is neither an array nor a number.

    Example:
        >>> pnp.isnan(pnp.array([1.0, pnp.inf, pnp.nan]))
        [False False  True]:bool[3]:cpu(0)
    """
    x = operand(x, "isnan")
    return compare.ne(x, x)


@by_numpy(np.isinf)
def isinf(x: ArrayLike, /) -> Array:
    """Whether x is infinite, elementwise; of a complex number, whether one of its parts is.

    Arguments:
        x: an array or a number, of any shape and dtype.

    Returns:
        An array of the shape of x, of bools.

    Raises:
        LeafError: an operand is neither an array nor a number.

    Example:
        >>> pnp.isinf(pnp.array([1.0, -pnp.inf, pnp.nan]))
        [False  True False]:bool[3]:cpu(0)
    """
    x = operand(x, "isinf")
    dtype = x.type.dtype
    if kind(dtype) == "f":
        return compare.eq(complexes.abs(x), literal_of(math.inf, dtype))
    if kind(dtype) == "c":
        return bitwise.or_(isinf(complexes.real(x)), isinf(complexes.imag(x)))
    return compare.ne(x, x)


def _is_infinity(name: str, infinity: float, doc: str) -> Unary:
    def function(x: Any, /, out: None = None) -> Any:
        refuse_out(name, out)
        x = operand(x, name)
        refuse_complex(name, x)
        return compare.eq(x, literal_of(infinity, x.type.dtype)) if kind(x.type.dtype) == "f" else compare.ne(x, x)

    return named(function, name, doc, about(1, ", of bools.", "complex", out=True))


# fmt: off
isposinf = _is_infinity("isposinf", math.inf, """Whether x is plus infinity, elementwise.

    Example:
        >>> pnp.isposinf(pnp.array([pnp.inf, -pnp.inf]))
        [ True False]:bool[2]:cpu(0)
    """)
isneginf = _is_infinity("isneginf", -math.inf, """Whether x is minus infinity, elementwise.

    Example:
        >>> pnp.isneginf(pnp.array([pnp.inf, -pnp.inf]))
        [False  True]:bool[2]:cpu(0)
    """)
# fmt: on


@by_numpy(np.signbit)
def signbit(x: ArrayLike, /) -> Array:
    """Whether the sign bit of x is set, elementwise: true for -0.0 as well, and for NaN that has it.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of bools.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: an operand is complex.

    Example:
        >>> pnp.signbit(pnp.array([-1.0, -0.0, 0.0]))
        [ True  True False]:bool[3]:cpu(0)
    """
    x = operand(x, "signbit")
    refuse_complex("signbit", x)
    dtype = x.type.dtype
    if kind(dtype) == "f" and finfo(dtype).min < 0:
        dtype = DTYPES[f"int{8 * dtype.itemsize}"]
        x = bitcast_convert_type(x, new_dtype=dtype)
    return compare.lt(x, literal_of(0, dtype))


def copysign(x: ArrayLike, y: ArrayLike, /) -> Array:
    """|x| with the sign of y.

    Arguments:
        x, y: real arrays or numbers whose shapes broadcast.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not broadcast.
        DtypeError: an operand is complex, or the dtypes have no common one.

    Example:
        >>> pnp.copysign(pnp.array([1, -2]), -0.0)
        [-1. -2.]:f32[2]:cpu(0)
    """
    x, y = to_common_shape("copysign", *to_common_dtype("copysign", x, y, inexact=True))
    refuse_complex("copysign", x)
    size = complexes.abs(x if y.type.weak else strong(x))
    return compare.select(signbit(y), arithmetic.neg(size), size)


def heaviside(x: ArrayLike, y: ArrayLike, /) -> Array:
    """0 where x is negative, y where it is 0, and 1 where it is positive.

    Arguments:
        x, y: real arrays or numbers whose shapes broadcast.

    Returns:
        An array of the broadcast shape, of a floating dtype; NaN where x is.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not broadcast.
        DtypeError: an operand is complex, or the dtypes have no common one.

    Example:
        >>> pnp.heaviside(pnp.array([-2.0, 0.0, 3.0]), 0.5)
        [0.  0.5 1. ]:f32[3]:cpu(0)
    """
    x, y = to_one_shape("heaviside", *to_common_dtype("heaviside", x, y, inexact=True))
    refuse_complex("heaviside", x)
    dtype = x.type.dtype
    zero, one = literal_of(0, dtype), literal_of(1, dtype)
    step = compare.select(compare.lt(x, zero), zero, compare.select(compare.gt(x, zero), one, y))
    return compare.select(compare.ne(x, x), x, step)


def nextafter(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The number of the common dtype that comes next after x on the way to y.

    Arguments:
        x, y: real arrays or numbers whose shapes broadcast.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not broadcast.
        DtypeError: an operand is complex, or the dtypes have no common one.

    Example:
        >>> pnp.nextafter(1.0, 2.0) - 1.0
        1.1920929e-07:f32[]:cpu(0)
        >>> pnp.nextafter(0.0, 1.0)
        1e-45:f32[]:cpu(0)
    """
    return apply_binary("nextafter", powers.nextafter, x, y, True)


# ---- choices ----------------------------------------------------------------------------------------------------------


def as_predicate(value: Any, name: str) -> Array:
    """A condition as a bool array: numbers are true unless they are 0."""
    value = operand(value, name, "the condition")
    dtype = value.type.dtype
    return value if dtype is BOOL else compare.ne(value, literal_of(0, dtype))


@by_numpy(np.where)
def where(condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None, /) -> Array:
    """x where the condition holds, else y, elementwise; the public function, which can do more, is in `numpy/places.py`."""
    if x is None or y is None:
        raise TypeError(f"where takes the condition alone, or where(condition, x, y).{at_user_line()}")
    which = as_predicate(condition, "where")
    x, y = to_common_dtype("where", x, y)
    if x.type.shape or y.type.shape or which.type.shape:
        tell_ranks("where", [which.type.shape, x.type.shape, y.type.shape])  # the mode's rank promotion is of arithmetic
        which, x, y = to_one_shape("where", which, x, y)
    return compare.select(which, x, y)


@by_numpy(np.clip, NATIVE_FLOATS)
def clip(x: ArrayLike, /, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """x, but no less than `min` and no more than `max` (which wins where it is below `min`).

    Arguments:
        x: an array or a number, of any shape.
        min, max: bounds that broadcast with it; None for no bound.

    Returns:
        An array of the broadcast shape, in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not broadcast.
        DtypeError: the dtypes have no common one.

    Example:
        >>> pnp.clip(pnp.array([-1.0, 0.5, 2.0]), 0, 1)
        [0.  0.5 1. ]:f32[3]:cpu(0)
        >>> pnp.clip(pnp.array([5, -5]), max=3)
        [ 3 -5]:i32[2]:cpu(0)
    """
    low = operand(x, "clip") if min is None else maximum(x, min)
    return low if max is None else minimum(low, max)


def nan_to_num(
    x: ArrayLike, copy: bool = True, nan: ArrayLike = 0.0, posinf: ArrayLike | None = None, neginf: ArrayLike | None = None
) -> Array:
    """x with NaN replaced by `nan`, and infinities by `posinf` and `neginf` (by default the largest finite numbers).

    Arguments:
        x: an array or a number, of any shape and dtype.
        copy: True; arrays are immutable, so nothing is replaced in place.
        nan, posinf, neginf: numbers, or arrays that broadcast with x.

    Returns:
        An array of the shape of x, in its dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not broadcast.
        ValueError: `copy` is False.

    Example:
        >>> pnp.nan_to_num(pnp.array([1.0, pnp.nan, pnp.inf]))
        [1.0000000e+00 0.0000000e+00 3.4028235e+38]:f32[3]:cpu(0)
        >>> pnp.nan_to_num(pnp.array([1.0, pnp.nan, pnp.inf]), nan=-1.0, posinf=9.0)
        [ 1. -1.  9.]:f32[3]:cpu(0)
    """
    if not copy:
        raise ValueError(f"nan_to_num(copy=False) would write into x, but arrays are immutable.{at_user_line()}")
    x = operand(x, "nan_to_num")
    dtype = x.type.dtype
    if kind(dtype) == "c":
        parts = [nan_to_num(part, copy, nan, posinf, neginf) for part in (complexes.real(x), complexes.imag(x))]
        return complexes.complex(*parts)
    if not is_inexact(dtype):
        return x
    limits = finfo(dtype)
    given = [float(limits.max) if posinf is None else posinf, float(limits.min) if neginf is None else neginf]
    nan, posinf, neginf = [in_dtype(number_or_operand(value, "nan_to_num"), dtype) for value in (nan, *given)]
    x = where(isnan(x), nan, x)
    return strong(where(isneginf(x), neginf, where(isposinf(x), posinf, x)))


def close_on_host(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    """`isclose` of NumPy's arrays."""
    out = np.abs(a - b) <= atol + rtol * np.abs(b)
    finite = np.isfinite(a) & np.isfinite(b)
    if not finite.all():
        out = np.where(finite, out, a == b)
    return out | (np.isnan(a) & np.isnan(b)) if equal_nan else out


@by_numpy(close_on_host, NATIVE_FLOATS)
def isclose(a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-5, atol: ArrayLike = 1e-8, equal_nan: bool = False) -> Array:
    """Whether |a - b| <= atol + rtol * |b|, elementwise; infinities are close to themselves only.

    Arguments:
        a, b: arrays or numbers whose shapes broadcast; random keys are close where they are equal.
        rtol, atol: the relative and the absolute tolerance: numbers, or arrays that broadcast.
        equal_nan: whether NaN is close to NaN.

    Returns:
        An array of the broadcast shape, of bools.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not broadcast.
        DtypeError: the dtypes have no common one.

    Example:
        >>> pnp.isclose(pnp.array([1.0, 1e-9, pnp.nan]), pnp.array([1.000001, 0.0, pnp.nan]))
        [ True  True False]:bool[3]:cpu(0)
        >>> pnp.isclose(100.0, 101.0, rtol=0.02)
        True:bool[]:cpu(0)
    """
    if getattr(a, "dtype", None) is KEY and getattr(b, "dtype", None) is KEY:
        return equal(a, b)
    a, b = to_common_shape("isclose", *to_common_dtype("isclose", a, b, inexact=True))
    near = less_equal(absolute(arithmetic.sub(a, b)), add(atol, multiply(rtol, absolute(b))))
    both = bitwise.and_(isfinite(a), isfinite(b))
    out = compare.select(both, near, compare.eq(a, b))
    return bitwise.or_(out, bitwise.and_(isnan(a), isnan(b))) if equal_nan else out


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: ArrayLike = 0) -> Array:
    """For each place, the choice whose condition is the first to hold there; else `default`.

    Arguments:
        condlist: arrays of conditions (numbers count as true unless they are 0), in a sequence or an array.
        choicelist: an array or a number for each of them.
        default: an array or a number. Everything broadcasts.

    Returns:
        An array of the broadcast shape, in the common dtype of the choices.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not broadcast.
        ValueError: there is not one choice for each condition, or there is none at all.

    Example:
        >>> x = pnp.arange(5)
        >>> pnp.select([x < 2, x < 4], [x, 10 * x], -1)
        [ 0  1 20 30 -1]:i32[5]:cpu(0)
    """
    if len(condlist) != len(choicelist) or not len(condlist):
        raise ValueError(
            f"select takes conditions, and a choice for each; not {len(choicelist)} for {len(condlist)}.{at_user_line()}"
        )
    out = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist)):
        out = where(condition, choice, out)
    return operand(out, "select")
