"""Exponentials and logarithms."""

from __future__ import annotations

import math

import numpy as np

from pullback.core.primitive import primitive
from pullback.ops.arithmetic import add, div, mul
from pullback.ops.formulas import by_kind, exp2_by_parts, expm1_by_parts, log1p_by_parts, lowered
from pullback.ops.literals import literal
from pullback.ops.pointwise import Function, OfFraction, OfPositive


@primitive
class exp(Function):
    """e to the power of x."""

    cost = 8
    transcendental = True
    evaluate = np.exp

    def partials(out, x):
        return (out,)


@primitive
class exp2(Function):
    """2 to the power of x."""

    cost = 8
    transcendental = True
    evaluate = by_kind(np.exp2, exp2_by_parts)

    def partials(out, x):
        return (mul(out, literal(math.log(2), out)),)


@primitive
class expm1(Function):
    """e to the power of x, minus 1, exact to the last bits where x is small."""

    cost = 8
    transcendental = True
    evaluate = by_kind(np.expm1, expm1_by_parts)

    def partials(out, x):
        return (exp(x),)


@primitive
class log(OfPositive):
    """The natural logarithm of x; NaN of a negative real number."""

    cost = 8
    transcendental = True
    evaluate = np.log

    def partials(out, x):
        return (div(literal(1, x), x),)


def log1p_formula(x):
    """log1p of real numbers. XLA's own misses by up to 60 ulps in float64, so there it is log(1 + x) where 1 + x loses little,
    and near 0, with s = x / (2 + x), the series of 2 artanh(s) = 2 s + 2 s (s^2/3 + s^4/5 + ...). Source: DLMF 4.6.5.
    """
    if x.dtype != np.float64:
        return np.log1p(x)
    s = x / (2 + x)
    squared = s * s
    total = 1 / 23
    for odd in range(21, 1, -2):
        total = total * squared + 1 / odd
    near = (s + s) + (s + s) * squared * total
    return np.where((x > -0.3) & (x < 0.42), near, np.log(1 + x))


@primitive
class log1p(OfFraction):
    """The natural logarithm of 1 + x, exact to the last bits where x is small."""

    cost = 8
    transcendental = True
    evaluate = by_kind(np.log1p, log1p_by_parts)
    lower = lowered(by_kind(log1p_formula, log1p_by_parts))

    def partials(out, x):
        return (div(literal(1, x), add(x, literal(1, x))),)
