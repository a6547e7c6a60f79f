"""Whole numbers and their divisors; floating-point numbers taken apart into mantissa and exponent, and put together again."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.array import Array, ArrayLike
from pullback.core.dtypes import DTYPES, INT32, DType, accumulation_dtype, kind
from pullback.core.errors import DtypeError
from pullback.numpy.arithmetic import absolute, floor_divide, multiply
from pullback.numpy.attached import attach
from pullback.numpy.dtypes import finfo, iinfo
from pullback.numpy.factories import COMMON, about, binary, named
from pullback.numpy.logic import clip, isfinite, left_shift, right_shift, signbit, where
from pullback.numpy.promotion import at_user_line, in_dtype, operand, refuse_complex, to_inexact
from pullback.ops import arithmetic, bitwise, divisors
from pullback.ops.barrier import optimization_barrier
from pullback.ops.convert import bitcast_convert_type, convert_element_type

# fmt: off
gcd = binary("gcd", divisors.gcd, """The greatest whole number that divides x and y; gcd(x, 0) is |x|, and gcd(0, 0) is 0.

    Example:
        >>> pnp.gcd(pnp.array([12, -7, 0]), 18)
        [ 6  1 18]:i32[3]:cpu(0)
    """)
# fmt: on


def _lcm(x: Any, y: Any, /) -> Any:
    divisor = gcd(x, y)
    return multiply(floor_divide(absolute(x), where(divisor == 0, 1, divisor)), absolute(y))


# fmt: off
lcm = named(_lcm, "lcm", """The least whole number, not negative, that x and y divide; 0 where one of them is.

    Example:
        >>> pnp.lcm(pnp.array([4, -6, 0]), 6)
        [12  6  0]:i32[3]:cpu(0)
    """, about(2, COMMON, "bool, floating or complex"))
# fmt: on
attach(gcd, identity=0)
attach(lcm)


def _bits_dtype(dtype: DType) -> DType:
    return DTYPES[f"int{8 * dtype.itemsize}"]


def _exponent(x: Any) -> Any:
    """The e of x = m 2^e with 0.5 <= |m| < 1, read from the bits of x; 0 where x is zero, infinite or NaN."""
    info, dtype = finfo(x.type.dtype), _bits_dtype(x.type.dtype)
    bits = bitcast_convert_type(absolute(x), new_dtype=dtype)
    field = right_shift(bits, info.nmant)
    length = info.bits - bitwise.clz(bits)  # of the mantissa of a subnormal number
    found = where(field == 0, length + info.minexp - info.nmant, field + info.minexp)
    return where((x == 0) | ~isfinite(x), 0, found)


def _power_of_two(exponent: Any, dtype: DType) -> Any:
    """2^exponent in a dtype, for exponents that it has, of subnormal numbers too."""
    info = finfo(dtype)
    exponent = in_dtype(exponent, _bits_dtype(dtype))
    small = clip(exponent + (info.nmant - info.minexp), 0, info.nmant)
    normal = left_shift(clip(exponent - (info.minexp - 1), 0, 2**info.nexp - 2), info.nmant)
    return bitcast_convert_type(where(exponent < info.minexp, left_shift(1, small), normal), new_dtype=dtype)


def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 * 2**x2, rounded once.

    Arguments:
        x1: an array or a number, real. x2: whole numbers. Their shapes broadcast.

    Returns:
        An array of the broadcast shape, in the dtype of x1, if that is floating, else in the default one.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: x1 is complex, or x2 not whole.
        ShapeError: the shapes of numbers and exponents do not fit.

    Example:
        >>> pnp.ldexp(pnp.array([0.75, -1.0]), pnp.array([2, -1]))
        [ 3.  -0.5]:f32[2]:cpu(0)
    """
    x, n = to_inexact(x1, "ldexp"), operand(x2, "ldexp")
    refuse_complex("ldexp", x)
    if kind(n.type.dtype) not in "iub":
        raise DtypeError(f"ldexp takes whole exponents, but got {n.type}. Convert with .astype(int).{at_user_line()}")
    own, wide = x.type.dtype, accumulation_dtype(x.type.dtype)
    info = finfo(wide)
    if kind(n.type.dtype) != "b":
        limits, reach = iinfo(n.type.dtype), 3 * info.maxexp  # beyond it is nothing but zero and infinity
        n = clip(n, max(limits.min, -reach), min(limits.max, reach))
    # XLA makes one factor of constant ones, which the dtype may not have: so it is not to know them
    (n,), out = optimization_barrier(in_dtype(n, INT32)), in_dtype(x, wide, x.type.weak)
    parts = []
    for _ in range(3):  # powers of two that the dtype has
        parts.append(clip(n, info.minexp, info.maxexp - 1))
        n = n - parts[-1]
    for part in reversed(parts):  # the smallest exponent first: only the last product may be rounded
        factor = _power_of_two(part, wide)
        out = multiply(out, convert_element_type(factor, new_dtype=wide, weak=True) if x.type.weak else factor)
    return in_dtype(out, own, x.type.weak)


def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """The mantissa m and the exponent e of x = m * 2**e, with 0.5 <= |m| < 1; of 0, infinity and NaN the number itself, and 0.

    Compiled code takes subnormal numbers as zeros, as all arithmetic of XLA's on CPUs does.

    Arguments:
        x: an array or a number, real.

    Returns:
        Two arrays of the shape of x: mantissas, in its dtype if that is floating, else in the default one; exponents, of int32.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pnp.frexp(pnp.array([8.0, -0.75, 0.0]))
        ([ 0.5  -0.75  0.  ]:f32[3]:cpu(0), [4 0 0]:i32[3]:cpu(0))
        >>> pb.grad(lambda x: pnp.frexp(x)[0])(8.0)
        0.0625:f32[]:cpu(0)
    """
    x = to_inexact(x, "frexp")
    refuse_complex("frexp", x)
    exponent = in_dtype(_exponent(in_dtype(x, accumulation_dtype(x.type.dtype))), INT32)
    return ldexp(x, -exponent), exponent


def spacing(x: ArrayLike, /) -> Array:
    """The distance from x to the next number of its dtype away from 0, with the sign of x; NaN where x is not finite.

    Arguments:
        x: an array or a number, real.

    Returns:
        An array of the shape of x, in its dtype if that is floating, else in the default one. Its derivative is zero.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pnp.spacing(pnp.array([1.0, -1000.0]))
        [ 1.1920929e-07 -6.1035156e-05]:f32[2]:cpu(0)
    """
    x = to_inexact(x, "spacing")
    refuse_complex("spacing", x)
    info = finfo(x.type.dtype)
    exponent = where(x == 0, info.minexp, _exponent(x))
    size = _power_of_two(clip(exponent, info.minexp + 1, None) - (1 + info.nmant), x.type.dtype)
    size = where(absolute(x) == info.max, math.inf, where(isfinite(x), size, math.nan))
    return where(signbit(x) & (x != 0), arithmetic.neg(size), size)
