"""The error function and its kin, and the logarithm of the gamma function with its derivatives."""

from __future__ import annotations

import math

import numpy as np

from pullback.core.dtypes import accumulation_dtype
from pullback.core.primitive import primitive
from pullback.ops.arithmetic import mul, neg
from pullback.ops.compare import clamp
from pullback.ops.exponential import exp
from pullback.ops.formulas import lowered, operation
from pullback.ops.literals import literal
from pullback.ops.pointwise import Function, OfFraction, OfPositive
from pullback.ops.powers import square
from pullback.ops.scipy_functions import polygamma_on_host, special


def _bell(x, factor):
    """factor exp(-x^2). Beyond |x| = 30 that is 0 in every dtype, so x is held there: no derivative meets 0 times infinity."""
    return mul(literal(factor, x), exp(neg(square(clamp(literal(-30, x), x, literal(30, x))))))


_erfinv, _gammaln = special("erfinv"), special("gammaln")


@primitive
class erf(Function):
    """The error function, 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x."""

    cost = 16
    kinds = "f"
    evaluate = special("erf")
    lower = "chlo.erf"

    def partials(out, x):
        return (_bell(x, 2 / math.sqrt(math.pi)),)


@primitive
class erfc(Function):
    """1 - erf(x), exact to the last bits where x is large."""

    cost = 16
    kinds = "f"
    evaluate = special("erfc")

    def lower(write, x):
        wide = write.convert(x, accumulation_dtype(x.dtype))  # XLA has none of float8
        return write.convert(write.elementwise("chlo.erfc", wide), x.dtype)

    def partials(out, x):
        return (_bell(x, -2 / math.sqrt(math.pi)),)


@primitive
class erf_inv(OfFraction):
    """The y whose erf is x, for x between -1 and 1."""

    cost = 20
    kinds = "f"

    lower = "chlo.erf_inv"

    def evaluate(x):
        return np.copysign(_erfinv(x), x)  # SciPy's loses the sign of zero

    def partials(out, x):
        return (mul(literal(math.sqrt(math.pi) / 2, x), exp(square(out))),)


@primitive
class lgamma(OfPositive):
    """log |Gamma(x)|; infinite at both infinities, as C99 has it."""

    cost = 40
    kinds = "f"

    lower = "chlo.lgamma"

    def evaluate(x):
        return np.where(x == -np.inf, np.abs(x), _gammaln(x))

    def partials(out, x):
        return (digamma(x),)


@primitive
class digamma(OfPositive):
    """The derivative of log Gamma: infinite at 0, with the sign opposite to that zero's; NaN at negative whole numbers."""

    cost = 40
    kinds = "f"
    evaluate = special("psi")

    def lower(write, x):
        return lowered(lambda x: np.where(x == 0, -1 / x, operation("chlo.digamma", x)))(write, x)

    def partials(out, x):
        return (polygamma(x, n=1),)


@primitive
class polygamma(Function):
    """The n-th derivative of digamma, n >= 1."""

    cost = 40
    kinds = "f"

    def evaluate(x, *, n):
        return polygamma_on_host(x, n)

    def lower(write, x, *, n):
        return write.op("chlo.polygamma", [write.constant(n, x.type), x])

    def partials(out, x, *, n):
        return (polygamma(x, n=n + 1),)

    def samples(rng):
        yield (1 + 2 * rng.random((2, 3)),), {"n": 1}
        yield (1 + 2 * rng.random((2, 3)),), {"n": 2}
