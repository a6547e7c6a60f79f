"""Exponentials and logarithms."""

from __future__ import annotations

import math

import numpy as np

from pullback.core.primitive import primitive
from pullback.ops.arithmetic import add, div, mul, sub
from pullback.ops.compare import eq, ne, select
from pullback.ops.literals import literal
from pullback.ops.pointwise import Elementwise


@primitive
class exp(Elementwise):
    """e to the power of x."""

    cost = 8
    kinds = "fc"
    evaluate = np.exp
    lower = "stablehlo.exponential"

    def partials(out, x):
        return (out,)

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {}


@primitive
class exp2(Elementwise):
    """2 to the power of x."""

    cost = 8
    kinds = "fc"
    evaluate = np.exp2

    def lower(write, x):
        return write.elementwise("stablehlo.power", write.constant(2, x.type), x)

    def partials(out, x):
        return (mul(out, literal(math.log(2), out)),)

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {}


@primitive
class expm1(Elementwise):
    """e to the power of x, minus 1, exact to the last bits where x is small."""

    cost = 8
    kinds = "fc"
    evaluate = np.expm1
    lower = "stablehlo.exponential_minus_one"

    def partials(out, x):
        return (add(out, literal(1, out)),)

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {}


@primitive
class log(Elementwise):
    """The natural logarithm of x; NaN of a negative real number."""

    cost = 8
    kinds = "fc"
    evaluate = np.log
    lower = "stablehlo.log"

    def partials(out, x):
        return (div(literal(1, x), x),)

    def samples(rng):
        yield (0.5 + rng.random((2, 3)),), {}


def lower_log1p(write, x):
    """log1p in StableHLO. XLA's own misses by up to 60 ulps in float64, so there it is log(1 + x) where 1 + x loses little, and
    near 0, with s = x / (2 + x), the series of 2 artanh(s) = 2 s + 2 s (s^2/3 + s^4/5 + ...). Source: DLMF 4.6.5.
    """
    if x.dtype != np.float64:
        return write.elementwise("stablehlo.log_plus_one", x)

    def number(value):
        return write.constant(value, x.type)

    far = write.elementwise("stablehlo.log", write.elementwise("stablehlo.add", number(1), x))
    s = write.elementwise("stablehlo.divide", x, write.elementwise("stablehlo.add", number(2), x))
    squared = write.elementwise("stablehlo.multiply", s, s)
    total = number(1 / 23)
    for odd in range(21, 1, -2):
        total = write.elementwise("stablehlo.multiply", total, squared)
        total = write.elementwise("stablehlo.add", total, number(1 / odd))
    double = write.elementwise("stablehlo.add", s, s)
    rest = write.elementwise("stablehlo.multiply", write.elementwise("stablehlo.multiply", double, squared), total)
    near = write.elementwise("stablehlo.add", double, rest)
    above, below = write.compare("GT", x, number(-0.3)), write.compare("LT", x, number(0.42))
    return write.select(write.elementwise("stablehlo.and", above, below), near, far)


@primitive
class log1p(Elementwise):
    """The natural logarithm of 1 + x, exact to the last bits where x is small."""

    cost = 8
    kinds = "fc"
    evaluate = np.log1p
    lower = lower_log1p

    def partials(out, x):
        return (div(literal(1, x), add(x, literal(1, x))),)

    def samples(rng):
        yield (rng.random((2, 3)) - 0.5,), {}


def _logistic(x):
    one = x.dtype.type(1)
    return one / (one + np.exp(-x))


@primitive
class logistic(Elementwise):
    """1 / (1 + exp(-x)), the logistic sigmoid."""

    cost = 12
    kinds = "fc"
    evaluate = _logistic
    lower = "stablehlo.logistic"

    def partials(out, x):
        return (mul(out, sub(literal(1, out), out)),)

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {}


def _lower_log_of_sum(write, x, y, unit):
    """m + log1p(exp(-unit |x - y|)) / unit, where m is the larger one; x + y where x - y is NaN, as of equal infinities."""
    large, difference = write.elementwise("stablehlo.maximum", x, y), write.elementwise("stablehlo.subtract", x, y)
    distance = write.elementwise("stablehlo.negate", write.elementwise("stablehlo.abs", difference))
    scaled = write.elementwise("stablehlo.multiply", distance, write.like(x, unit))
    rest = lower_log1p(write, write.elementwise("stablehlo.exponential", scaled))
    total = write.elementwise("stablehlo.add", large, write.elementwise("stablehlo.divide", rest, write.like(x, unit)))
    unclear = write.compare("NE", difference, difference)
    return write.select(unclear, write.elementwise("stablehlo.add", x, y), total)


def _shares_of_sum(x, y, unit):
    """b^x / (b^x + b^y) and b^y / (b^x + b^y), where b = e^unit: they depend smoothly on x - y, and are halves where x = y."""

    def share(x, y):
        difference = sub(x, y)
        settled = select(eq(x, y), select(ne(difference, difference), literal(0, x), difference), difference)  # inf - inf
        return logistic(settled if unit == 1 else mul(settled, literal(unit, x)))

    return lambda: share(x, y), lambda: share(y, x)


@primitive
class logaddexp(Elementwise):
    """log(exp(x) + exp(y)), without overflow."""

    kinds = "f"
    evaluate = np.logaddexp

    def lower(write, x, y):
        return _lower_log_of_sum(write, x, y, 1)

    def partials(out, x, y):
        return _shares_of_sum(x, y, 1)

    def samples(rng):
        yield (rng.normal(size=(2, 3)), rng.normal(size=(2, 3))), {}
        yield (rng.normal(size=(2, 3)), rng.normal()), {}


@primitive
class logaddexp2(Elementwise):
    """log2(2**x + 2**y), without overflow."""

    kinds = "f"
    evaluate = np.logaddexp2

    def lower(write, x, y):
        return _lower_log_of_sum(write, x, y, math.log(2))

    def partials(out, x, y):
        return _shares_of_sum(x, y, math.log(2))

    def samples(rng):
        yield (rng.normal(size=(2, 3)), rng.normal(size=(2, 3))), {}
        yield (rng.normal(size=(2, 3)), rng.normal()), {}
