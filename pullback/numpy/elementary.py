"""Powers, exponentials, logarithms, trigonometric and hyperbolic functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.dtypes import BOOL, default_dtype, is_inexact, kind
from pullback.numpy.factories import Unary, binary, named, unary
from pullback.numpy.promotion import (
    PYTHON_SCALARS,
    literal_of,
    operand,
    promote,
    refuse_complex,
    strong,
    to_common_dtype,
    to_common_shape,
    to_inexact,
    weak_pair,
)
from pullback.ops import arithmetic, bitwise, compare, exponential, hyperbolic, powers, trigonometric
from pullback.ops.convert import convert_element_type

# ---- powers and roots -------------------------------------------------------------------------------------------------

sqrt = unary("sqrt", powers.sqrt, np.sqrt, "The square root of x; NaN of a negative real number.")
cbrt = unary("cbrt", powers.cbrt, np.cbrt, "The cube root of x, of negative numbers too.")


def square(x: ArrayLike, /) -> Array:
    """x * x, in the dtype of x."""
    x = operand(x, "square")
    return bitwise.and_(x, x) if x.type.dtype is BOOL else powers.square(x)


def power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x to the power of y.

    A whole Python number y is applied by repeated squaring, which is exact in its derivatives for every x. Integers to an
    integer array are taken modulo the range of their dtype; a negative power of an integer is 0, unless its base is 1 or -1.

    Arguments:
        x, y: arrays or numbers whose shapes broadcast.

    Returns:
        An array of the broadcast shape, in the common dtype.

    Raises:
        DtypeError: an integer array to a negative Python number.

    Example:
        >>> import pullback as pb
        >>> pb.numpy.power(pb.numpy.asarray([1.0, 2.0, 3.0]), 2)
        [1. 4. 9.]:f32[3]:cpu(0)
    """
    if not isinstance(x, PYTHON_SCALARS) and y.__class__ in (int, float):
        x = operand(x, "power", "argument 0")
        dtype = x.type.dtype
        if dtype is BOOL:
            x = convert_element_type(x, new_dtype=default_dtype("i"))
            dtype = x.type.dtype
        if (y.__class__ is int and kind(dtype) in "iufc" and -128 <= y <= 128) or (
            is_inexact(dtype) and -8 <= y <= 8 and y == math.floor(y)
        ):
            return powers.square(x) if y == 2 else powers.integer_pow(x, y=int(y))
    if y.__class__ not in PYTHON_SCALARS:
        y = operand(y, "power", "argument 1")
    weak = weak_pair(y)[1]  # a number to an array is as strong as the array is
    x, y = promote("power", x, y)
    dtype = x.type.dtype
    if is_inexact(dtype):
        out = powers.pow(x, y)
    else:
        out = bitwise.or_(x, bitwise.not_(y)) if dtype is BOOL else _integer_power(x, y)
    return out if weak else strong(out)


pow = power


def _integer_power(x: Any, y: Any) -> Any:
    """x ** y for integers of one dtype: the product of x^(2^i) over the bits i that are set in y."""
    dtype = x.type.dtype
    zero, one = literal_of(0, dtype), literal_of(1, dtype)
    result: Any = one
    factor, rest = x, y
    for _ in range(8 * dtype.itemsize):
        bit = compare.ne(bitwise.and_(rest, one), zero)
        result = arithmetic.mul(result, compare.select(bit, factor, one))
        factor = arithmetic.mul(factor, factor)
        rest = bitwise.shift_right_logical(rest, one)
    if kind(dtype) == "u":
        return result
    unit = compare.eq(arithmetic.mul(x, x), one)
    return compare.select(bitwise.and_(compare.lt(y, zero), bitwise.not_(unit)), zero, result)


def float_power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x to the power of y, in floating point: integers become the default floating dtype."""
    x, y = to_common_shape("float_power", *to_common_dtype("float_power", x, y, inexact=True))
    return powers.pow(x, y)


def hypot(x: ArrayLike, y: ArrayLike, /) -> Array:
    """sqrt(|x|^2 + |y|^2), without overflow on the way; its derivative at the origin is 0."""
    x, y = to_common_shape("hypot", *to_common_dtype("hypot", x, y, inexact=True))
    refuse_complex("hypot", x)
    return powers.hypot(x, y)


# ---- exponentials and logarithms --------------------------------------------------------------------------------------

exp = unary("exp", exponential.exp, np.exp, "e to the power of x.")
exp2 = unary("exp2", exponential.exp2, exponential.exp2.evaluate, "2 to the power of x.")
expm1 = unary(
    "expm1", exponential.expm1, exponential.expm1.evaluate, "e to the power of x, minus 1, exact to the last bits near 0."
)
log = unary("log", exponential.log, np.log, "The natural logarithm of x; NaN of a negative real number.")
log1p = unary(
    "log1p", exponential.log1p, exponential.log1p.evaluate, "The natural logarithm of 1 + x, exact to the last bits near 0."
)


def _logarithm(name: str, base: int) -> Unary:
    def function(x: Any, /) -> Any:
        x = exponential.log(to_inexact(x, name))
        return strong(arithmetic.div(x, literal_of(math.log(base), x.type.dtype)))

    return named(function, name, f"The logarithm of x to base {base}.")


log2, log10 = _logarithm("log2", 2), _logarithm("log10", 10)
logaddexp = binary("logaddexp", hyperbolic.logaddexp, np.logaddexp, "log(exp(x) + exp(y)), without overflow.", inexact=True)
logaddexp2 = binary("logaddexp2", hyperbolic.logaddexp2, np.logaddexp2, "log2(2**x + 2**y), without overflow.", inexact=True)


# ---- trigonometric and hyperbolic functions ---------------------------------------------------------------------------

sin = unary("sin", trigonometric.sin, np.sin, "Sine of x, in radians.")
cos = unary("cos", trigonometric.cos, np.cos, "Cosine of x, in radians.")
tan = unary("tan", trigonometric.tan, np.tan, "Tangent of x, in radians.")
arcsin = asin = unary("arcsin", trigonometric.asin, np.arcsin, "The angle in [-pi/2, pi/2] whose sine is x; NaN if |x| > 1.")
arccos = acos = unary("arccos", trigonometric.acos, np.arccos, "The angle in [0, pi] whose cosine is x; NaN if |x| > 1.")
arctan = atan = unary("arctan", trigonometric.atan, np.arctan, "The angle in [-pi/2, pi/2] whose tangent is x.")
arctan2 = atan2 = binary(
    "arctan2", trigonometric.atan2, np.arctan2, "The angle in [-pi, pi] of the point (y, x): arctan(x / y) with its quadrant,"
    " where x is the ordinate and y the abscissa.", inexact=True,
)  # fmt: skip
sinh = unary("sinh", hyperbolic.sinh, np.sinh, "Hyperbolic sine of x.")
cosh = unary("cosh", hyperbolic.cosh, np.cosh, "Hyperbolic cosine of x.")
tanh = unary("tanh", hyperbolic.tanh, np.tanh, "Hyperbolic tangent of x.")
arcsinh = asinh = unary("arcsinh", hyperbolic.asinh, np.arcsinh, "The number whose hyperbolic sine is x.")
arccosh = acosh = unary("arccosh", hyperbolic.acosh, np.arccosh, "The number >= 0 whose hyperbolic cosine is x; NaN if x < 1.")
arctanh = atanh = unary("arctanh", hyperbolic.atanh, np.arctanh, "The number whose hyperbolic tangent is x; NaN if |x| > 1.")


def _converts(name: str, factor: float, doc: str) -> Unary:
    def function(x: Any, /) -> Any:
        x = to_inexact(x, name)
        return arithmetic.mul(x, literal_of(factor, x.type.dtype))

    return named(function, name, doc)


deg2rad = _converts("deg2rad", math.pi / 180, "Degrees to radians.")
rad2deg = _converts("rad2deg", 180 / math.pi, "Radians to degrees.")
radians, degrees = deg2rad, rad2deg


def sinc(x: ArrayLike, /) -> Array:
    """sin(pi x) / (pi x), and 1 at 0; its derivatives of every order are those of this function, near 0 too."""
    return trigonometric.sinc(to_inexact(x, "sinc"), n=0)
