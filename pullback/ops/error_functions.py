"""The error function and its kin: the normal distribution's probabilities, their logarithms and quantiles."""

from __future__ import annotations

import math

import numpy as np

from pullback.core.primitive import primitive
from pullback.ops.arithmetic import mul, neg, sub
from pullback.ops.chebyshev import ERFCX, ERFCX_DEFECT, chebyshev, in_double
from pullback.ops.compare import clamp
from pullback.ops.exponential import exp, log1p_formula
from pullback.ops.formulas import Written, lowered, operation
from pullback.ops.gamma_functions import OnHost
from pullback.ops.literals import literal
from pullback.ops.pointwise import Function, OfFraction
from pullback.ops.powers import square
from pullback.ops.scipy_functions import special

_erf, _erfcx, _erfinv, _ndtri = special("erf"), special("erfcx"), special("erfinv"), special("ndtri")


def _exp_of_square(x, factor, bits=20, terms=3, most=40):
    """exp(factor x^2), of a factor like -1 or 0.5, to the last digits where x^2 is large.

    x is h + d with an h so short that h^2 is exact, and x^2 = h^2 + d (x + h). Of the second term's exponential the first terms
    of Taylor's series are enough. Beyond `most` all are 0 or infinite.
    """
    size = np.minimum(np.abs(x), most)
    head = np.floor(size * 2**bits) * 2**-bits
    whole, rest = np.exp(factor * (head * head)), factor * ((size - head) * (size + head))
    series = 1.0
    for k in range(terms, 1, -1):
        series = 1 + rest * (1 / k) * series
    product = whole + whole * (rest * series)
    return product if factor < 0 else np.where(whole == np.inf, whole, product)


def _scaled_erfc(size):
    """exp(x^2) erfc(x) of numbers x >= 0."""
    if not isinstance(size, Written):
        return _erfcx(size)
    return chebyshev(ERFCX, 1 - 7.5 / (size + 3.75)) / (1 + 2 * size)


def _erfc(x):
    tail = _exp_of_square(x, -1) * _scaled_erfc(np.abs(x))
    return np.where(x < 0, 2 - tail, tail)


def _ndtr(x):
    """Of x / sqrt(2) the square would be wrong in the digits that x / sqrt(2) rounds off: here it is that of x."""
    tail = 0.5 * _exp_of_square(x, -0.5) * _scaled_erfc(np.abs(x) * math.sqrt(0.5))
    return np.where(x > 0, 1 - tail, tail)


def _log_ndtr(x):
    scaled = 0.5 * _scaled_erfc(np.abs(x) * math.sqrt(0.5))
    below = np.log(scaled) - 0.5 * (x * x)
    return np.where(x < 0, below, log1p_formula(-_exp_of_square(x, -0.5) * scaled))


def _hazard(x):
    """Where x is positive, the density over 1 - its tail; elsewhere both have the factor exp(-x^2/2), which cancels."""
    scaled = _scaled_erfc(np.abs(x) * math.sqrt(0.5))
    bell = _exp_of_square(x, -0.5)
    return math.sqrt(2 / math.pi) * np.where(x > 0, bell / (2 - bell * scaled), 1 / scaled)


def _defect(size):
    """1/sqrt(pi) - x exp(x^2) erfc(x) of numbers x >= 0."""
    shifted = 1 + 2 * size
    return chebyshev(ERFCX_DEFECT, 1 - 7.5 / (size + 3.75)) / shifted / shifted


def _excess(x):
    """Where x and the hazard have the other sign, they have a factor in common: nothing cancels."""
    z = np.abs(np.minimum(x, 0)) * math.sqrt(0.5)
    return np.where(x < 0, math.sqrt(2) * _defect(z) / _scaled_erfc(z), x + _hazard(x))


def _erf_inv(x):
    """XLA's, which takes log(1 - x^2) with the error of x^2; where that is felt, with a step of Newton's on erfc = 1 - |x|."""
    rough, size = operation("chlo.erf_inv", x), np.abs(x)
    outer = (size > 0.5) & (size < 1)
    start = np.where(outer, np.abs(rough), 0)
    better = start + 0.5 * math.sqrt(math.pi) * (_scaled_erfc(start) - (1 - size) * np.exp(start * start))
    return np.where(outer, np.where(x < 0, -better, better), rough)


@primitive
class gaussian(Function):
    """exp(-rate x^2), to the last digits where it is small."""

    cost = 35
    kinds = "f"

    def evaluate(x, *, rate):
        if isinstance(x, Written) and x.dtype != np.float64:  # the compiler's exponential takes a fourth of the time in float32
            return _exp_of_square(x.astype(np.float32), -rate, bits=8, terms=5, most=16).astype(x.dtype)
        return in_double(_exp_of_square)(x, factor=-rate)

    def partials(out, x, *, rate):  # beyond |x| = 40 it is 0 in every dtype: x is held there, so that 0 never meets infinity
        return (mul(mul(literal(-2 * rate, x), clamp(literal(-40, x), x, literal(40, x))), out),)

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {"rate": 1}
        yield (rng.normal(size=(2, 3)),), {"rate": 0.5}


@primitive
class erf(Function):
    """The error function, 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x."""

    cost = 16
    transcendental = True
    kinds = "f"
    evaluate = _erf
    lower = "chlo.erf"

    def partials(out, x):
        return (mul(literal(2 / math.sqrt(math.pi), x), gaussian(x, rate=1)),)


@primitive
class erfc(Function):
    """1 - erf(x), exact to the last bits where x is large."""

    cost = 120
    kinds = "f"
    evaluate = in_double(_erfc)

    def partials(out, x):
        return (mul(literal(-2 / math.sqrt(math.pi), x), gaussian(x, rate=1)),)


@primitive
class erfcx(Function):
    """exp(x^2) erfc(x), which falls as 1 / (x sqrt(pi)) where x is large."""

    cost = 120
    kinds = "f"

    @in_double
    def evaluate(x):
        scaled = _scaled_erfc(np.abs(x))
        return np.where(x < 0, 2 * _exp_of_square(x, 1) - scaled, scaled)

    def partials(out, x):
        return (erfcx_slope(x, n=1),)


@primitive
class erfcx_slope(Function):
    """The n-th derivative of erfcx, n >= 1: y' = 2 x y - 2/sqrt(pi), differentiated. Where x is large this cancels, and each is
    the one before times -2 k r_k, where 1 / r_(k-1) = 2 x + 2 k r_k. Source: DLMF 7.18.13, of repeated integrals of erfc."""

    cost = 220
    kinds = "f"

    @in_double
    def evaluate(x, *, n):
        negative = np.minimum(x, 0)
        below = negative * erfcx.evaluate(negative) - 1 / math.sqrt(math.pi)
        known = [erfcx.evaluate(x), 2 * np.where(x < 0, below, -_defect(np.abs(x)))]
        for k in range(1, n):
            known.append(2 * (x * known[k] + k * known[k - 1]))
        large, far = np.maximum(x, 2), known[1]
        ratio = 1 / (large + np.sqrt(large * large + 2 * (60 + n)))
        for k in range(59 + n, 1, -1):
            ratio = 0.5 / (large + (k + 1) * ratio)
            far = far * (-2 * k * ratio) if k <= n else far
        return np.where(x > 2, far, known[n])

    def partials(out, x, *, n):
        return (erfcx_slope(x, n=n + 1),)

    def samples(rng):
        for n in (1, 2):
            yield (3 * rng.normal(size=(2, 3)),), {"n": n}


@primitive
class erf_inv(OfFraction):
    """The y whose erf is x, for x between -1 and 1."""

    cost = 200
    kinds = "f"
    lower = lowered(in_double(_erf_inv))

    def evaluate(x):
        return np.copysign(_erfinv(x), x)  # SciPy's loses the sign of zero

    def partials(out, x):
        return (mul(literal(math.sqrt(math.pi) / 2, x), exp(square(out))),)


@primitive
class ndtr(Function):
    """The probability that a normal variable is at most x."""

    cost = 120
    kinds = "f"
    evaluate = in_double(_ndtr)

    def partials(out, x):
        return (mul(literal(1 / math.sqrt(2 * math.pi), x), gaussian(x, rate=0.5)),)


@primitive
class log_ndtr(Function):
    """log(ndtr(x)), to the last digits on both sides."""

    cost = 200
    kinds = "f"
    evaluate = in_double(_log_ndtr)

    def partials(out, x):
        return (normal_hazard(x),)


@primitive
class normal_hazard(Function):
    """The derivative of log_ndtr: the normal density over ndtr(x), about -x where x is large and negative."""

    cost = 120
    kinds = "f"
    evaluate = in_double(_hazard)

    def partials(out, x):
        return (neg(mul(out, normal_excess(x))),)


@primitive
class normal_excess(Function):
    """x + normal_hazard(x), about -1/x where x is large and negative."""

    cost = 280
    kinds = "f"
    evaluate = in_double(_excess)

    def partials(out, x):
        return (sub(literal(1, x), mul(normal_hazard(x), out)),)


@primitive
class ndtri(OnHost):
    """The x whose ndtr is p, for p between 0 and 1."""

    cost = 300
    kinds = "f"
    evaluate = in_double(_ndtri)

    def partials(out, p):
        return (mul(literal(math.sqrt(2 * math.pi), p), exp(mul(literal(0.5, out), square(out)))),)

    def samples(rng):
        yield (0.05 + 0.9 * rng.random((2, 3)),), {}
