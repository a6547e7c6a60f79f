"""Arithmetic of two numbers, and rounding: thin layers over one or a few primitives."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.dtypes import BOOL, accumulation_dtype, default_dtype, is_inexact, kind
from pullback.numpy.axes import whole
from pullback.numpy.eager import by_numpy
from pullback.numpy.factories import COMMON, Binary, Unary, about, binary, named, unary
from pullback.numpy.promotion import (
    NATIVE_FLOATS,
    in_dtype,
    literal_of,
    operand,
    promote,
    refuse_complex,
    refuse_out,
    to_inexact,
)
from pullback.ops import arithmetic, compare, division, rounding
from pullback.ops import complex as complexes
from pullback.ops.convert import convert_element_type

# ---- arithmetic -------------------------------------------------------------------------------------------------------

# fmt: off
add = binary("add", arithmetic.add, """x + y; of bools, x or y.

    Example:
        >>> pnp.add(pnp.array([1, 2]), 0.5)
        [1.5 2.5]:f32[2]:cpu(0)
        >>> pnp.add(True, True)
        True:bool[]:cpu(0)
    """)
subtract = binary("subtract", arithmetic.sub, """x - y.

    Example:
        >>> pnp.subtract(pnp.array([[1], [2]]), pnp.array([1, 2]))
        [[ 0 -1]
         [ 1  0]]:i32[2,2]:cpu(0)
    """)
multiply = binary("multiply", arithmetic.mul, """x * y; of bools, x and y.

    Example:
        >>> pnp.multiply(pnp.array([1.0, 2.0]), 3)
        [3. 6.]:f32[2]:cpu(0)
    """)
true_divide = binary("true_divide", arithmetic.div, """x / y.

    Example:
        >>> pnp.divide(pnp.array([1, -1, 0]), 0)
        [ inf -inf  nan]:f32[3]:cpu(0)
    """, inexact=True)
divide = true_divide
maximum = binary("maximum", arithmetic.max, """The larger of x and y; NaN if one is. Of 0.0 and -0.0, either.

    Example:
        >>> pnp.maximum(pnp.array([1.0, 5.0, pnp.nan]), 2.0)
        [ 2.  5. nan]:f32[3]:cpu(0)
        >>> pb.grad(lambda x: pnp.maximum(x, 2.0))(2.0)  # where they are equal, half of the derivative goes to each
        0.5:f32[]:cpu(0)
    """)
minimum = binary("minimum", arithmetic.min, """The smaller of x and y; NaN if one is. Of 0.0 and -0.0, either.

    Example:
        >>> pnp.minimum(pnp.array([1.0, 5.0, pnp.nan]), 2.0)
        [ 1.  2. nan]:f32[3]:cpu(0)
    """)
negative = unary("negative", arithmetic.neg, """-x.

    Example:
        >>> pnp.negative(pnp.array([1, -2]))
        [-1  2]:i32[2]:cpu(0)
    """, inexact=False)
sign = by_numpy(np.sign, NATIVE_FLOATS)(unary("sign", complexes.sign,
    """-1, 0 or 1 by the sign of x; of a complex number, x / |x|.

    Example:
        >>> pnp.sign(pnp.array([-2.5, 0.0, 7.0]))
        [-1.  0.  1.]:f32[3]:cpu(0)
    """, inexact=False))
# fmt: on


def positive(x: ArrayLike, /) -> Array:
    """+x: x itself, as an array.

    Arguments:
        x: an array or a number, of any shape and dtype.

    Returns:
        x as an array, in its dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.

    Example:
        >>> pnp.positive(-3)
        -3:i32[]:cpu(0)
    """
    return operand(x, "positive")


@by_numpy(np.absolute, NATIVE_FLOATS)
def absolute(x: ArrayLike, /) -> Array:
    """|x|; of a complex number, its magnitude, which is real.

    Arguments:
        x: an array or a number, of any shape.

    Returns:
        An array of the shape of x, and of its dtype (float32 for complex64, float64 for complex128).

    Raises:
        LeafError: an operand is neither an array nor a number.

    Example:
        >>> pnp.absolute(pnp.array([-1.5, 2.0]))
        [1.5 2. ]:f32[2]:cpu(0)
        >>> pnp.absolute(3 + 4j)
        5.0:f32[]:cpu(0)
    """
    x = operand(x, "absolute")
    return x if kind(x.type.dtype) in "bu" else complexes.abs(x)


abs = absolute


@by_numpy(np.fabs, NATIVE_FLOATS)
def fabs(x: ArrayLike, /) -> Array:
    """|x| of a real number; integers become the default floating dtype.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: an operand is complex.

    Example:
        >>> pnp.fabs(pnp.array([-1, 2]))
        [1. 2.]:f32[2]:cpu(0)
    """
    x = to_inexact(x, "fabs")
    refuse_complex("fabs", x)
    return complexes.abs(x)


@by_numpy(division.floor_of_floats, NATIVE_FLOATS)
def floor_divide(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The largest whole number that is not above x / y.

    Of integers, division by 0 gives what XLA gives: -1 and the correction for signs. Where an operand is infinite, the result
    is the quotient itself, as the Array API standard has it: inf // 2.0 is inf, and 1.0 // -inf is -0.0. (NumPy has NaN for
    the first and -1.0 for the second.)

    Arguments:
        x, y: real arrays or numbers whose shapes broadcast.

    Returns:
        An array of the broadcast shape, in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not broadcast.
        DtypeError: an operand is complex, or the dtypes have no common one.

    Example:
        >>> pnp.floor_divide(pnp.array([7, -7]), 2)
        [ 3 -4]:i32[2]:cpu(0)
        >>> pnp.floor_divide(pnp.array([7.0, 1.0]), pnp.array([-2.0, 0.0]))
        [-4. inf]:f32[2]:cpu(0)
    """
    return division.floor_divide(*promote("floor_divide", x, y, numeric=True))


@by_numpy(np.remainder, NATIVE_FLOATS)
def remainder(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x - y * floor(x / y): what floor division leaves. It has the sign of y, as Python's `%` has; of integers, x % 0 is 0.

    Arguments:
        x, y: real arrays or numbers whose shapes broadcast.

    Returns:
        An array of the broadcast shape, in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not broadcast.
        DtypeError: an operand is complex, or the dtypes have no common one.

    Example:
        >>> pnp.remainder(pnp.array([7, -7]), 3)
        [1 2]:i32[2]:cpu(0)
        >>> pnp.remainder(5.5, -2.0)
        -0.5:f32[]:cpu(0)
    """
    return division.remainder(*promote("remainder", x, y, numeric=True))


mod = remainder


def fmod(x: ArrayLike, y: ArrayLike, /) -> Array:
    """What the division of x by y, rounded toward zero, leaves; it has the sign of x, as C's fmod has. Of integers, fmod(x, 0)
    is 0.

    Arguments:
        x, y: real arrays or numbers whose shapes broadcast.

    Returns:
        An array of the broadcast shape, in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not broadcast.
        DtypeError: an operand is complex, or the dtypes have no common one.

    Example:
        >>> pnp.fmod(pnp.array([7, -7]), 3)
        [ 1 -1]:i32[2]:cpu(0)
        >>> pnp.remainder(pnp.array([7, -7]), 3)
        [1 2]:i32[2]:cpu(0)
    """
    x, y = promote("fmod", x, y, numeric=True)
    rest, dtype = arithmetic.rem(x, y), x.type.dtype
    return rest if is_inexact(dtype) else compare.select(compare.ne(y, literal_of(0, dtype)), rest, literal_of(0, dtype))


def divmod(x: ArrayLike, y: ArrayLike, /) -> tuple[Array, Array]:
    """The pair (floor_divide(x, y), remainder(x, y)).

    Arguments:
        x, y: real arrays or numbers whose shapes broadcast.

    Returns:
        Two arrays of the broadcast shape, in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not broadcast.
        DtypeError: an operand is complex, or the dtypes have no common one.

    Example:
        >>> pnp.divmod(pnp.array([7, -7]), 2)
        ([ 3 -4]:i32[2]:cpu(0), [1 1]:i32[2]:cpu(0))
    """
    x, y = promote("divmod", x, y)
    return floor_divide(x, y), remainder(x, y)


def modf(x: ArrayLike, /, out: None = None) -> tuple[Array, Array]:
    """The fractional and the whole part of x; that of an infinite number is 0.

    Arguments:
        x: an array or a number, of any shape, real.
        out: None: arrays are immutable.

    Returns:
        Two arrays of the shape of x, of a floating dtype.

    Raises:
        TypeError: `out` is not None.
        LeafError: an operand is neither an array nor a number.
        DtypeError: an operand is complex.

    Example:
        >>> pnp.modf(pnp.array([2.5, -2.5]))
        ([ 0.5 -0.5]:f32[2]:cpu(0), [ 2. -2.]:f32[2]:cpu(0))
    """
    refuse_out("modf", out)
    x = to_inexact(x, "modf")
    zero, one, infinite = [literal_of(number, x.type.dtype) for number in (0, 1, math.inf)]
    return compare.select(compare.eq(absolute(x), infinite), zero, arithmetic.rem(x, one)), trunc(x)


def reciprocal(x: ArrayLike, /) -> Array:
    """1 / x; integers become the default floating dtype.

    Arguments:
        x: an array or a number, of any shape.

    Returns:
        An array of the shape of x, of a floating or complex dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.

    Example:
        >>> pnp.reciprocal(pnp.array([4, 0]))
        [0.25  inf]:f32[2]:cpu(0)
    """
    x = to_inexact(x, "reciprocal")
    return arithmetic.div(literal_of(1, x.type.dtype), x)


def _ignoring_nan(name: str, primitive: Any, doc: str) -> Binary:
    def function(x: Any, y: Any, /) -> Any:
        x, y = promote(name, x, y)
        return compare.select(compare.ne(x, x), y, compare.select(compare.ne(y, y), x, primitive(x, y)))

    return named(function, name, doc, about(2, COMMON))


# fmt: off
fmax = _ignoring_nan("fmax", arithmetic.max,
    """The larger of x and y; where one of them is NaN, the other. Of 0.0 and -0.0, either.

    Example:
        >>> pnp.fmax(pnp.array([1.0, pnp.nan]), pnp.array([pnp.nan, pnp.nan]))
        [ 1. nan]:f32[2]:cpu(0)
    """)
fmin = _ignoring_nan("fmin", arithmetic.min,
    """The smaller of x and y; where one of them is NaN, the other. Of 0.0 and -0.0, either.

    Example:
        >>> pnp.fmin(pnp.array([1.0, pnp.nan]), 2.0)
        [1. 2.]:f32[2]:cpu(0)
    """)
# fmt: on


# ---- rounding ---------------------------------------------------------------------------------------------------------


def _rounds(name: str, primitive: Any, doc: str) -> Unary:
    def function(x: Any, /) -> Any:
        x = operand(x, name)
        return primitive(x) if is_inexact(x.type.dtype) else x

    return by_numpy(getattr(np, name), NATIVE_FLOATS)(named(function, name, doc, about(1, ", in its dtype.", "complex")))


# fmt: off
floor = _rounds("floor", rounding.floor, """The largest whole number that is not above x. Integers and bools stay as they are.

    Example:
        >>> pnp.floor(pnp.array([1.7, -1.7]))
        [ 1. -2.]:f32[2]:cpu(0)
    """)
ceil = _rounds("ceil", rounding.ceil, """The smallest whole number that is not below x. Integers and bools stay as they are.

    Example:
        >>> pnp.ceil(pnp.array([1.2, -1.2]))
        [ 2. -1.]:f32[2]:cpu(0)
    """)
# fmt: on


@by_numpy(np.trunc, NATIVE_FLOATS)
def trunc(x: ArrayLike) -> Array:
    """x without its fractional part: the nearest whole number toward zero. Integers and bools stay as they are.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, in its dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: an operand is complex.

    Example:
        >>> pnp.trunc(pnp.array([1.7, -1.7]))
        [ 1. -1.]:f32[2]:cpu(0)
    """
    x = operand(x, "trunc")
    if not is_inexact(x.type.dtype):
        return x
    negative_ones = compare.lt(x, literal_of(0, x.type.dtype))
    return compare.select(negative_ones, rounding.ceil(x), rounding.floor(x))


fix = trunc


def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """The numbers rounded to some decimals; halves go to the even digit.

    Arguments:
        a: an array or a number.
        decimals: how many digits after the point; negative ones count to its left.
        out: None: arrays are immutable.

    Returns:
        An array of the shape and dtype of `a`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        TypeError: `out` is not None.

    Example:
        >>> pnp.round(pnp.array([0.5, 1.5, 2.5]))
        [0. 2. 2.]:f32[3]:cpu(0)
        >>> pnp.round(pnp.array([1.25, -2.57]), 1)
        [ 1.2 -2.6]:f32[2]:cpu(0)
        >>> pnp.round(pnp.array([1234, 1250]), -2)
        [1200 1200]:i32[2]:cpu(0)
    """
    refuse_out("round", out)
    x, decimals = operand(a, "round"), whole(decimals, "round's decimals")
    dtype = x.type.dtype
    if kind(dtype) == "c":
        return complexes.complex(round(complexes.real(x), decimals), round(complexes.imag(x), decimals))
    if not is_inexact(dtype):
        if decimals >= 0 or dtype is BOOL:
            return x
        if decimals < -19:  # more digits than integers have
            return multiply(x, 0)
        unit = 10.0**-decimals
        rounded = rounding.round(true_divide(x, unit))
        return convert_element_type(multiply(rounded, unit), new_dtype=dtype)
    if decimals == 0:
        return rounding.round(x)
    wide = in_dtype(x, accumulation_dtype(dtype), x.type.weak)
    info = np.finfo(wide.type.dtype)
    largest = float(info.max) if decimals < 0 else 1 / float(info.tiny)  # XLA multiplies by the reciprocal
    unit = 10.0 ** min(builtins.abs(decimals), 308)
    limit = unit if builtins.abs(decimals) <= 308 and unit <= largest else math.inf
    factor = literal_of(limit, wide.type.dtype)
    if decimals < 0:
        rounded = rounding.round(arithmetic.div(wide, factor))
        rounded = compare.select(compare.eq(rounded, literal_of(0, wide.type.dtype)), rounded, arithmetic.mul(rounded, factor))
    else:
        scaled = arithmetic.mul(wide, factor)
        rounded = arithmetic.div(rounding.round(scaled), factor)
        rounded = compare.select(rounding.is_finite(scaled), rounded, wide)  # the large have no decimals
    return in_dtype(rounded, dtype, x.type.weak)


def as_python_rounds(x: Any, ndigits: int | None = None) -> Array:
    """What `round(x, ndigits)` gives: without a number of digits integers, of the default dtype if x holds floats."""
    if ndigits is not None or kind(x.type.dtype) != "f":
        return round(x, ndigits or 0)
    return convert_element_type(round(x), new_dtype=default_dtype("i"))


around = round


@by_numpy(np.rint, NATIVE_FLOATS)
def rint(x: ArrayLike, /) -> Array:
    """The whole number nearest to x; halves go to the even one. Integers and bools stay as they are.

    Arguments:
        x: an array or a number, of any shape.

    Returns:
        An array of the shape of x, in its dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.

    Example:
        >>> pnp.rint(pnp.array([0.5, 1.5, -2.7]))
        [ 0.  2. -3.]:f32[3]:cpu(0)
    """
    return round(x)
