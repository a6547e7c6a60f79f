"""Powers, exponentials, logarithms, trigonometric and hyperbolic functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.dtypes import is_inexact, kind
from pullback.numpy.eager import by_numpy
from pullback.numpy.factories import FLOATING, Unary, about, binary, named, unary
from pullback.numpy.promotion import (
    NATIVE_FLOATS,
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
from pullback.ops import complex as complexes

# ---- powers and roots -------------------------------------------------------------------------------------------------

# fmt: off
sqrt = unary("sqrt", powers.sqrt, """The square root of x; NaN of a negative real number.

    Example:
        >>> pnp.sqrt(pnp.array([4, 2, -1]))
        [2.        1.4142135       nan]:f32[3]:cpu(0)
        >>> pb.grad(pnp.sqrt)(0.0)
        inf:f32[]:cpu(0)
    """)
cbrt = unary("cbrt", powers.cbrt, """The cube root of x, of negative numbers too.

    Example:
        >>> pnp.cbrt(pnp.array([8.0, -27.0]))
        [ 2. -3.]:f32[2]:cpu(0)
    """)
# fmt: on


@by_numpy(np.square, NATIVE_FLOATS)
def square(x: ArrayLike, /) -> Array:
    """x * x, in the dtype of x; of bools, as integers.

    Arguments:
        x: an array or a number, of any shape and dtype.

    Returns:
        An array of the shape of x.

    Raises:
        LeafError: an operand is neither an array nor a number.

    Example:
        >>> pnp.square(pnp.array([-3, 4]))
        [ 9 16]:i32[2]:cpu(0)
    """
    return powers.square(*promote("square", x, numeric=True))


def _power_on_host(x: Any, y: Any) -> Any:
    if x.__class__ in PYTHON_SCALARS or y.__class__ in PYTHON_SCALARS:
        raise TypeError  # powers with a Python number are other primitives
    return powers.pow.evaluate(x, y)


@by_numpy(_power_on_host, NATIVE_FLOATS)
def power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x to the power of y.

    A whole Python number y is applied by repeated squaring, which is exact in its derivatives for every x. Integers to an
    integer array are taken modulo the range of their dtype; a negative power of an integer is 0, unless its base is 1 or -1.

    Arguments:
        x, y: arrays or numbers whose shapes broadcast.

    Returns:
        An array of the broadcast shape, in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not broadcast.
        DtypeError: the dtypes have no common one.

    Example:
        >>> pnp.power(pnp.array([1.0, 2.0, 3.0]), 2)
        [1. 4. 9.]:f32[3]:cpu(0)
        >>> pnp.power(pnp.array([2, 1]), pnp.array([-1, -1]))
        [0 1]:i32[2]:cpu(0)
    """
    if not isinstance(x, PYTHON_SCALARS) and y.__class__ in (bool, int, float):
        (x,) = promote("power", operand(x, "power", "argument 0"), numeric=True)
        dtype, y = x.type.dtype, int(y) if y.__class__ is bool else y
        if (y.__class__ is int and kind(dtype) in "iufc" and -128 <= y <= 128) or (
            is_inexact(dtype) and -8 <= y <= 8 and y == math.floor(y)
        ):
            return powers.square(x) if y == 2 else powers.integer_pow(x, y=int(y))
    if y.__class__ not in PYTHON_SCALARS:
        y = operand(y, "power", "argument 1")
    weak = weak_pair(y)[1]  # a number to an array is as strong as the array is
    x, y = promote("power", x, y, numeric=True)
    out = powers.pow(x, y) if is_inexact(x.type.dtype) else _integer_power(x, y)
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
    unit = bitwise.or_(compare.eq(x, one), compare.eq(x, literal_of(-1, dtype)))  # x * x is 1 for others too, modulo the range
    return compare.select(bitwise.and_(compare.lt(y, zero), bitwise.not_(unit)), zero, result)


def float_power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x to the power of y, in floating point: integers become the default floating dtype.

    Arguments:
        x, y: arrays or numbers whose shapes broadcast.

    Returns:
        An array of the broadcast shape, of a floating or complex dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not broadcast.
        DtypeError: the dtypes have no common one.

    Example:
        >>> pnp.float_power(pnp.array([2, 3]), -1)
        [0.5        0.33333334]:f32[2]:cpu(0)
    """
    x, y = to_common_shape("float_power", *to_common_dtype("float_power", x, y, inexact=True))
    return powers.pow(x, y)


def hypot(x: ArrayLike, y: ArrayLike, /) -> Array:
    """sqrt(|x|^2 + |y|^2), without overflow on the way; its derivative at the origin is 0.

    Arguments:
        x, y: real arrays or numbers whose shapes broadcast.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not broadcast.
        DtypeError: an operand is complex, or the dtypes have no common one.

    Example:
        >>> pnp.hypot(3.0, 4.0)
        5.0:f32[]:cpu(0)
        >>> pnp.hypot(pnp.array([1e30, 0.0]), pnp.array([1e30, -pnp.inf]))
        [1.4142135e+30           inf]:f32[2]:cpu(0)
    """
    x, y = to_common_shape("hypot", *to_common_dtype("hypot", x, y, inexact=True))
    refuse_complex("hypot", x)
    return powers.hypot(x, y)


# ---- exponentials and logarithms --------------------------------------------------------------------------------------

# fmt: off
exp = unary("exp", exponential.exp, """e to the power of x.

    Example:
        >>> pnp.exp(pnp.array([0.0, 1.0, -pnp.inf]))
        [1.       2.718282 0.      ]:f32[3]:cpu(0)
    """)
exp2 = unary("exp2", exponential.exp2, """2 to the power of x.

    Example:
        >>> pnp.exp2(pnp.array([3, -1]))
        [8.  0.5]:f32[2]:cpu(0)
    """)
expm1 = unary("expm1", exponential.expm1, """e to the power of x, minus 1, exact to the last bits near 0.

    Example:
        >>> pnp.expm1(pnp.array([1e-10, 0.0]))
        [1.e-10 0.e+00]:f32[2]:cpu(0)
    """)
log = unary("log", exponential.log, """The natural logarithm of x; NaN of a negative real number.

    Example:
        >>> pnp.log(pnp.array([1.0, 0.0, -1.0]))
        [  0. -inf  nan]:f32[3]:cpu(0)
    """)
log1p = unary("log1p", exponential.log1p, """The natural logarithm of 1 + x, exact to the last bits near 0.

    Example:
        >>> pnp.log1p(pnp.array([1e-10, -1.0]))
        [1.e-10   -inf]:f32[2]:cpu(0)
    """)
# fmt: on


def _logarithm(name: str, base: int, doc: str) -> Unary:
    def by_base(x: Any) -> Any:
        return arithmetic.div(x, literal_of(math.log(base), x.type.dtype))

    def function(x: Any, /) -> Any:
        x = exponential.log(to_inexact(x, name))
        given = [complexes.real(x), complexes.imag(x)] if x.type.dtype.kind == "c" else [x]
        parts: list[Any] = [arithmetic.div(part, literal_of(math.log(base), part.type.dtype)) for part in given]
        return strong(complexes.complex(*parts) if len(parts) == 2 else parts[0])

    return named(function, name, doc, about(1, FLOATING))


# fmt: off
log2 = _logarithm("log2", 2, """The logarithm of x to base 2; NaN of a negative real number.

    Example:
        >>> pnp.log2(pnp.array([8, 1, 0]))
        [  3.   0. -inf]:f32[3]:cpu(0)
    """)
log10 = _logarithm("log10", 10, """The logarithm of x to base 10; NaN of a negative real number.

    Example:
        >>> pnp.log10(pnp.array([1000.0, 0.1]))
        [ 3. -1.]:f32[2]:cpu(0)
    """)
logaddexp = binary("logaddexp", hyperbolic.logaddexp, """log(exp(x) + exp(y)), without overflow.

    Example:
        >>> pnp.logaddexp(1000.0, 1000.0)
        1000.6932:f32[]:cpu(0)
        >>> pnp.logaddexp(-pnp.inf, 0.0)
        0.0:f32[]:cpu(0)
    """, inexact=True)
logaddexp2 = binary("logaddexp2", hyperbolic.logaddexp2, """log2(2**x + 2**y), without overflow.

    Example:
        >>> pnp.logaddexp2(pnp.array([3.0, 200.0]), 3.0)
        [  4. 200.]:f32[2]:cpu(0)
    """, inexact=True)
# fmt: on


# ---- trigonometric and hyperbolic functions ---------------------------------------------------------------------------

# fmt: off
sin = unary("sin", trigonometric.sin, """Sine of x, in radians.

    Example:
        >>> pnp.sin(pnp.array([0.0, pnp.pi / 2]))
        [0. 1.]:f32[2]:cpu(0)
        >>> pb.grad(pnp.sin)(0.0)
        1.0:f32[]:cpu(0)
    """)
cos = unary("cos", trigonometric.cos, """Cosine of x, in radians.

    Example:
        >>> pnp.cos(pnp.array([0, 1]))
        [1.        0.5403023]:f32[2]:cpu(0)
    """)
tan = unary("tan", trigonometric.tan, """Tangent of x, in radians.

    Example:
        >>> pnp.tan(pnp.array([0.0, pnp.pi / 4]))
        [0. 1.]:f32[2]:cpu(0)
    """)
arcsin = asin = unary("arcsin", trigonometric.asin, """The angle in [-pi/2, pi/2] whose sine is x; NaN if |x| > 1.

    Example:
        >>> pnp.asin(pnp.array([1.0, -0.5, 2.0]))
        [ 1.5707964 -0.5235988        nan]:f32[3]:cpu(0)
    """)
arccos = acos = unary("arccos", trigonometric.acos, """The angle in [0, pi] whose cosine is x; NaN if |x| > 1.

    Example:
        >>> pnp.acos(pnp.array([1.0, -1.0, 2.0]))
        [0.        3.1415927       nan]:f32[3]:cpu(0)
    """)
arctan = atan = unary("arctan", trigonometric.atan, """The angle in [-pi/2, pi/2] whose tangent is x.

    Example:
        >>> pnp.atan(pnp.array([1.0, -pnp.inf]))
        [ 0.7853982 -1.5707964]:f32[2]:cpu(0)
    """)
arctan2 = atan2 = binary("arctan2", trigonometric.atan2,
    """The angle in [-pi, pi] of the point (y, x): arctan(x / y) with its quadrant, where x is the ordinate and y the abscissa.

    Example:
        >>> pnp.atan2(pnp.array([1.0, -1.0]), -1.0)
        [ 2.3561945 -2.3561945]:f32[2]:cpu(0)
        >>> pnp.atan2(0.0, 0.0)
        0.0:f32[]:cpu(0)
    """, inexact=True)
sinh = unary("sinh", hyperbolic.sinh, """Hyperbolic sine of x.

    Example:
        >>> pnp.sinh(pnp.array([0.0, 1.0]))
        [0.        1.1752012]:f32[2]:cpu(0)
    """)
cosh = unary("cosh", hyperbolic.cosh, """Hyperbolic cosine of x.

    Example:
        >>> pnp.cosh(pnp.array([0.0, 1.0]))
        [1.        1.5430806]:f32[2]:cpu(0)
    """)
tanh = unary("tanh", hyperbolic.tanh, """Hyperbolic tangent of x.

    Example:
        >>> pnp.tanh(pnp.array([0.5, 100.0]))
        [0.4621172 1.       ]:f32[2]:cpu(0)
    """)
arcsinh = asinh = unary("arcsinh", hyperbolic.asinh, """The number whose hyperbolic sine is x.

    Example:
        >>> pnp.asinh(pnp.array([1.0, -1e20]))
        [  0.8813736 -46.744846 ]:f32[2]:cpu(0)
    """)
arccosh = acosh = unary("arccosh", hyperbolic.acosh, """The number >= 0 whose hyperbolic cosine is x; NaN if x < 1.

    Example:
        >>> pnp.acosh(pnp.array([1.0, 2.0, 0.5]))
        [0.       1.316958      nan]:f32[3]:cpu(0)
    """)
arctanh = atanh = unary("arctanh", hyperbolic.atanh, """The number whose hyperbolic tangent is x; NaN if |x| > 1.

    Example:
        >>> pnp.atanh(pnp.array([0.5, 1.0, 2.0]))
        [0.54930615        inf        nan]:f32[3]:cpu(0)
    """)
# fmt: on


def _converts(name: str, factor: float, doc: str) -> Unary:
    def function(x: Any, /) -> Any:
        x = to_inexact(x, name)
        return arithmetic.mul(x, literal_of(factor, x.type.dtype))

    return named(function, name, doc, about(1, FLOATING))


# fmt: off
deg2rad = _converts("deg2rad", math.pi / 180, """Degrees to radians.

    Example:
        >>> pnp.deg2rad(pnp.array([180, 90]))
        [3.1415927 1.5707964]:f32[2]:cpu(0)
    """)
rad2deg = _converts("rad2deg", 180 / math.pi, """Radians to degrees.

    Example:
        >>> pnp.rad2deg(pnp.array([pnp.pi, -1.0]))
        [180.      -57.29578]:f32[2]:cpu(0)
    """)
# fmt: on
radians, degrees = deg2rad, rad2deg


def sinc(x: ArrayLike, /) -> Array:
    """sin(pi x) / (pi x), and 1 at 0; its derivatives of every order are those of this function, near 0 too.

    Arguments:
        x: an array or a number, of any shape.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.

    Example:
        >>> pnp.sinc(pnp.array([0.0, 0.5, 1.5]))
        [ 1.          0.63661975 -0.21220659]:f32[3]:cpu(0)
        >>> pb.grad(pnp.sinc)(0.0)
        -0.0:f32[]:cpu(0)
    """
    return trigonometric.sinc(to_inexact(x, "sinc"), n=0)
