"""The hyperbolic functions and their inverses; the logistic function, and what it is the derivative of."""

from __future__ import annotations

import math

import numpy as np

from pullback.core.primitive import primitive
from pullback.core.tracing import type_of
from pullback.ops.arithmetic import add, div, mul, sub
from pullback.ops.compare import eq, ne, select
from pullback.ops.exponential import log1p_formula
from pullback.ops.formulas import by_kind, by_parts, joined, log1p_by_parts, lowered, tanh_by_parts, wide
from pullback.ops.literals import literal
from pullback.ops.pointwise import Function, OfFraction, OfTwo
from pullback.ops.powers import hypot, one_minus_square, rsqrt, square, vanishing


@primitive
class sinh(Function):
    """Hyperbolic sine."""

    cost = 12
    transcendental = True
    evaluate = np.sinh

    def partials(out, x):
        return (cosh(x),)


@primitive
class cosh(Function):
    """Hyperbolic cosine."""

    cost = 12
    transcendental = True
    evaluate = np.cosh

    def partials(out, x):
        return (sinh(x),)


@primitive
class tanh(Function):
    """Hyperbolic tangent."""

    cost = 12
    transcendental = True
    evaluate = by_kind(np.tanh, tanh_by_parts)

    def partials(out, x):
        return (sech_squared(x),)


def _decaying(x):
    """e^-|x|; of a complex number e^-x or e^x, the one that is not large."""
    return np.exp(np.where(x.real < 0, x, -x) if x.dtype.kind == "c" else -np.abs(x))


@primitive
class sech_squared(Function):
    """1 / cosh(x)^2, the derivative of tanh: to the last digits everywhere, where 1 - tanh(x)^2 would lose those of large x."""

    cost = 12

    @wide
    def evaluate(x):
        decaying = _decaying(x + x)
        return 4 * decaying / np.square(1 + decaying)

    def partials(out, x):
        return (mul(literal(-2, x), mul(tanh(x), out)),)


@primitive
class logistic(Function):
    """1 / (1 + exp(-x)), the logistic sigmoid."""

    cost = 12
    transcendental = True

    @wide
    def evaluate(x):
        decaying = _decaying(x)
        return np.where(x.real < 0, decaying, 1) / (1 + decaying)

    lower = by_parts("stablehlo.logistic", evaluate)

    def partials(out, x):
        return (mul(literal(0.25, x), sech_squared(mul(literal(0.5, x), x))),)


@primitive
class asinh(Function):
    """The number whose hyperbolic sine is x."""

    cost = 16
    transcendental = True
    evaluate = np.arcsinh

    def partials(out, x):
        if type_of(x).dtype.kind == "c":
            return (rsqrt(add(square(x), literal(1, x))),)
        return (div(literal(1, x), hypot(x, literal(1, x))),)


@primitive
class acosh(Function):
    """The number, at least 0, whose hyperbolic cosine is x."""

    cost = 16
    transcendental = True
    evaluate = np.arccosh

    def partials(out, x):
        return (mul(rsqrt(sub(x, literal(1, x))), rsqrt(add(x, literal(1, x)))),)

    def samples(rng):
        yield (1.5 + rng.random((2, 3)),), {}


@lowered
def _lower_atanh(x):
    """sign(x) log1p(2 |x| / (1 - |x|)) / 2 in float64, on the better log1p."""
    if x.dtype != np.float64:
        return np.arctanh(x)
    size = np.abs(x)
    return np.copysign(0.5 * log1p_formula((size + size) / (1 - size)), x)


@primitive
class atanh(OfFraction):
    """The number whose hyperbolic tangent is x."""

    cost = 16
    transcendental = True
    evaluate = np.arctanh
    lower = by_parts(_lower_atanh, np.arctanh)

    def partials(out, x):
        return (vanishing(lambda x: div(literal(1, x), one_minus_square(x)), x),)


def _log_of_sum(x, y, unit):
    """m + log1p(exp(-unit |x - y|)) / unit, where m is the larger one; x + y where x - y is NaN, as of equal infinities."""
    difference = x - y
    out = np.maximum(x, y) + log1p_formula(np.exp(-unit * np.abs(difference))) / unit
    return np.where(np.isnan(difference), x + y, out)


def _complex_log_of_sum(x, y, unit):
    """As `_log_of_sum`, by the larger one in the order of complex numbers; the angle times `unit` lies in (-pi, pi]."""
    large = np.maximum(x, y)
    rest = log1p_by_parts(np.exp(np.where(x == y, 0, np.minimum(x, y) - large) * unit))
    turned = large.imag * unit  # brought into range first: beside a large angle the digits of the other would be lost
    turned = np.where(np.abs(turned) <= math.pi, turned, np.arctan2(np.sin(turned), np.cos(turned)))
    angle = turned + rest.imag
    wrapped = angle - 2 * math.pi * np.ceil((angle - math.pi) / (2 * math.pi))
    return joined(large.real + rest.real / unit, np.where(np.abs(angle) <= math.pi, angle, wrapped) / unit)


def summing_exponentials(ufunc, unit):
    """Evaluation, lowering and partials of log_b(b^x + b^y), where b = e^unit; of real numbers it is the ufunc.

    The derivatives b^x / (b^x + b^y) and b^y / (b^x + b^y) depend smoothly on x - y, and are halves where x = y.
    """

    def of_complex(x, y):
        return _complex_log_of_sum(x, y, unit)

    def share(x, y):
        difference = sub(x, y)
        settled = select(eq(x, y), select(ne(difference, difference), literal(0, x), difference), difference)  # inf - inf
        return logistic(settled if unit == 1 else mul(settled, literal(unit, x)))

    def partials(out, x, y):
        return lambda: share(x, y), lambda: share(y, x)

    of_real = wide(lambda x, y: _log_of_sum(x, y, unit))
    return by_kind(ufunc, of_complex), lowered(by_kind(of_real, of_complex)), partials


@primitive
class logaddexp(OfTwo):
    """log(exp(x) + exp(y)), without overflow."""

    cost = 24
    kinds = "fc"
    evaluate, lower, partials = summing_exponentials(np.logaddexp, 1)


@primitive
class logaddexp2(OfTwo):
    """log2(2**x + 2**y), without overflow."""

    cost = 24
    kinds = "fc"
    evaluate, lower, partials = summing_exponentials(np.logaddexp2, math.log(2))
