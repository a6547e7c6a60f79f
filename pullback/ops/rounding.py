"""Rounding to whole numbers, and the question whether a number is finite."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from pullback.core.dtypes import FLOAT32
from pullback.core.primitive import primitive
from pullback.core.zero import ZERO
from pullback.ops.pointwise import Function, Predicate


class Step(Function):
    """A function of a real number that is constant but for its jumps."""

    kinds = "f"

    def partials(out, x, **params):
        return (ZERO,)

    def samples(rng):
        yield (3 * rng.normal(size=(2, 3)),), {}


@primitive
class floor(Step):
    """The largest whole number that is not above x."""

    evaluate = np.floor


@primitive
class ceil(Step):
    """The smallest whole number that is not below x."""

    evaluate = np.ceil


def _away_from_zero(x):
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole)


@primitive
class round(Step):
    """The whole number nearest to x; halves go to the even one, or, by `rounding_method="away_from_zero"`, to the larger."""

    def evaluate(x, *, rounding_method="to_nearest_even"):
        return np.rint(x) if rounding_method == "to_nearest_even" else _away_from_zero(x)

    def lower(write, x, *, rounding_method="to_nearest_even"):
        short = "even" if rounding_method == "to_nearest_even" else "afz"
        return write.elementwise(f"stablehlo.round_nearest_{short}", x)

    def samples(rng):
        yield (3 * rng.normal(size=(2, 3)),), {"rounding_method": "to_nearest_even"}
        yield (3 * rng.normal(size=(2, 3)),), {"rounding_method": "away_from_zero"}


@primitive
class is_finite(Predicate):
    """Whether x is neither infinite nor NaN."""

    kinds = "f"
    evaluate = np.isfinite

    def samples(rng):
        yield (np.array([1.5, np.inf, -np.inf, np.nan, 0.0]),), {}


def _in_fewer_bits(x, *, exponent_bits, mantissa_bits):
    fraction, exponent = np.frexp(x.astype(np.float64))
    bias, own = 2 ** (exponent_bits - 1) - 1, exponent_bits == ml_dtypes.finfo(x.dtype).nexp
    last = (np.maximum(exponent, 2 - bias) if own else exponent) - mantissa_bits - 1
    if mantissa_bits == 0:  # the last bit, which is to be even, is that of the exponent
        down = (np.abs(fraction) == 0.75) & (exponent % 2 == 0) & (exponent == last + 1)
        fraction = np.where(down, fraction / 1.5, fraction)
    rounded = np.ldexp(np.rint(np.ldexp(fraction, exponent - last)), last)
    size = np.abs(rounded)
    rounded = np.where(size >= np.ldexp(1.0, bias) * 2, np.copysign(np.inf, rounded), rounded)
    if not own:
        rounded = np.where(size < np.ldexp(1.0, 1 - bias), np.copysign(0.0, rounded), rounded)
    return np.where(np.isfinite(x), rounded, x).astype(x.dtype)


@primitive
class reduce_precision(Function):
    """x rounded to a float with `exponent_bits` and `mantissa_bits`, half to even, what is subnormal there to 0, unless
    these exponents are the dtype's own. Its derivative is rounded likewise, as if rounding were linear."""

    kinds = "f"
    linear = True
    evaluate = _in_fewer_bits

    def lower(write, x, *, exponent_bits, mantissa_bits):
        # XLA would round what is subnormal in float16 as coarsely as it is there
        value = write.convert(x, FLOAT32) if x.dtype == np.float16 and exponent_bits > 5 else x
        given = {"exponent_bits": f"{exponent_bits} : i32", "mantissa_bits": f"{mantissa_bits} : i32"}
        return write.convert(write.op("stablehlo.reduce_precision", [value], value.type, **given), x.dtype)

    def transpose(cotangent, x, *, exponent_bits, mantissa_bits):
        return (reduce_precision(cotangent, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits),)

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {"exponent_bits": 11, "mantissa_bits": 52}
