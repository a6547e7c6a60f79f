"""The gamma function's logarithm, the derivatives of that, and Hurwitz's zeta function."""

from __future__ import annotations

import math

import numpy as np

from pullback.core.errors import GradientError
from pullback.core.primitive import primitive
from pullback.core.source import at_user_line
from pullback.ops.arithmetic import add, div, mul, neg, sub
from pullback.ops.chebyshev import DIGAMMA, DIGAMMA_ROOT, LGAMMA, chebyshev, in_double
from pullback.ops.exponential import log, log1p_formula
from pullback.ops.families import on_host
from pullback.ops.formulas import lowered
from pullback.ops.literals import literal
from pullback.ops.pointwise import Elementwise, Formula, OfPositive
from pullback.ops.powers import pow as power_of
from pullback.ops.scipy_functions import special

_gammaln, _psi, _zeta = special("gammaln"), special("psi"), special("zeta", 2)

# B_2k / (2k) for k = 1, 2, ...: of Stirling's series and its derivative. Source: DLMF 5.11.1, 5.11.2.
_STIRLING = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
LEAST = 10  # from where on these eight terms do
TINY = 1e-30  # below which Gamma(x) is 1 / x to all digits; x sin(pi x), by which others are reflected, would become 0 there


def stirling_rest(x):
    """log Gamma(x) - (x - 1/2) log(x) + x - log(2 pi) / 2, for x >= 10: the sum of B_2k / (2k (2k-1) x^(2k-1))."""
    squared, total = 1 / (x * x), 0 * x
    for k in range(len(_STIRLING), 0, -1):
        total = total * squared + _STIRLING[k - 1] / (2 * k - 1)
    return total / x


def _stepped(x, low, neutral):
    """x brought into [low, low + 1) by whole steps, for x between low - 2 and 10, and the numbers x - 1, x - 2, ... or x, x + 1
    that were passed on the way down or up, `neutral` where they were not."""
    down, up = [], []
    for _ in range(LEAST - 1):
        far = x >= low + 1
        x = np.where(far, x - 1, x)
        down.append(np.where(far, x, neutral))
    for _ in range(2):
        far = x < low
        up.append(np.where(far, x, neutral))
        x = np.where(far, x + 1, x)
    return x, down, up


def _lgamma_near(x, base, up):
    """log Gamma(base) - log(up), where base - 2 is x - 2, x - 1 or x without a rounding error: it is a factor of the result."""
    off = np.where(x < 0.5, x, np.where(x < 1.5, x - 1, base - 2))
    return off * chebyshev(LGAMMA, off + off) - np.log(up)


def _lgamma(x):
    """By Stirling's series, or from log Gamma near 2 by Gamma(x + 1) = x Gamma(x); and of negative numbers by reflection."""
    size = np.abs(x)
    inside = np.where(size < LEAST, size, 1)
    base, down, up = _stepped(inside, 1.5, 1)
    near = _lgamma_near(inside, base, up[0]) + np.log(math.prod(down)) - np.log(up[1])
    large = np.where(size < LEAST, LEAST, size)
    far = large * (np.log(large) - 1) - 0.5 * np.log(large) + (0.5 * math.log(2 * math.pi) + stirling_rest(large))
    out = np.where(size < LEAST, near, np.where(size == np.inf, np.inf, far))
    turned = np.sin(math.pi * np.abs(x - np.rint(x)))  # exact: x + 0.5 is rounded from 2^52 on
    reflected = np.where(size < TINY, -np.log(size), np.log(math.pi / np.where(size < TINY, 1, size * turned)) - out)
    return np.where(np.isnan(x), x, np.where((x <= 0) & (x == np.rint(x)), np.inf, np.where(x < 0, reflected, out)))


def _digamma(x):
    """As `_lgamma`, from the series around its root."""
    turned = x - np.rint(x)
    whole = np.where(x < 0, 1 - x, x)
    base, down, up = _stepped(np.where(whole < LEAST, whole, 1), 1, np.inf)
    factor = chebyshev(DIGAMMA, 2 * base - 3)
    near = (base - DIGAMMA_ROOT[0]) * factor - DIGAMMA_ROOT[1] * factor  # XLA would add the two parts of the root first
    near = near + sum([1 / step for step in down]) - 1 / up[0]
    large = np.where(whole < LEAST, LEAST, whole)
    squared, rest = 1 / (large * large), 0 * large
    for k in range(len(_STIRLING), 0, -1):
        rest = (rest + _STIRLING[k - 1]) * squared
    far = np.log(large) - 0.5 / large - rest
    out = np.where(whole < LEAST, near, far)
    cotangent = np.where(turned == 0, np.nan, math.pi / np.tan(math.pi * turned))
    return np.where(x == 0, -1 / x, np.where(x < 0, out - cotangent, np.where(x == np.inf, x, out)))


class OnHost(Elementwise):
    """A function that SciPy evaluates, for compiled code too, which calls the host.

    Where each element chooses between series by its region, XLA would have to compute all of them for all elements, and in each
    as many terms as the slowest element needs."""

    kinds = "f"
    cost = 100
    lower = on_host


def no_slope(name, operand):
    """The entry of a partials rule for an operand in which the derivative is not known: it is refused when it is asked for."""

    def refuse():
        raise GradientError(
            f"{name} has no derivative with respect to {operand}: no closed form of it is known. Give it one by"
            f" pb.custom_jvp, or hold {operand} with pb.stop_gradient.{at_user_line()}"
        )

    return refuse


@primitive
class lgamma(OfPositive):
    """log |Gamma(x)|; infinite at both infinities, as C99 has it."""

    cost = 240
    kinds = "f"
    lower = lowered(in_double(_lgamma))

    @in_double
    def evaluate(x):  # SciPy's loses digits at the zeros 1 and 2
        out = np.where(x == -np.inf, np.inf, _gammaln(x))
        between = (x > 0.5) & (x < 2.5)
        near = x[between]
        out[between] = _lgamma_near(near, near, np.where(near < 1.5, near, 1))
        return out

    def partials(out, x):
        return (digamma(x),)


@primitive
class digamma(OfPositive):
    """The derivative of log Gamma: infinite at 0, with the sign opposite to that zero's; NaN at negative whole numbers."""

    cost = 200
    kinds = "f"
    lower = lowered(in_double(_digamma))

    @in_double
    def evaluate(x):  # SciPy's loses digits near the poles at -1, -2, ...
        out = np.asarray(_psi(x))
        turned = np.where(np.isfinite(x), x - np.rint(x), 0)
        close = (x < -0.5) & (turned != 0) & (np.abs(turned) < 0.1)
        out[close] = _psi(1 - x[close]) - math.pi / np.tan(math.pi * turned[close])
        return out

    def partials(out, x):
        return (polygamma(x, n=1),)


@primitive
class zeta(OnHost):
    """Hurwitz's zeta function, the sum of (k + q)^-x over k >= 0, for x > 1."""

    evaluate = in_double(_zeta)

    def partials(out, x, q):
        return lambda: zeta_slope(x, q), lambda: neg(mul(x, zeta(add(x, literal(1, x)), q)))

    def samples(rng):
        yield (1.5 + 2 * rng.random((2, 3)), 0.5 + 2 * rng.random((2, 3))), {}
        yield (2.5, 0.5 + 2 * rng.random((2, 3))), {}


def zeta_slope(x, q):
    """The derivative of zeta(x, q) with respect to x, by that of Euler and Maclaurin's sum, in operations that have derivatives
    again: of (q + k)^-x for k < 12, of the integral from a = q + 12 on, and of Bernoulli's terms at a. Source: DLMF 25.11.5."""
    one, total = literal(1, x), literal(0, x)
    for k in range(12):
        term = add(q, literal(k, q))
        total = sub(total, mul(log(term), power_of(term, neg(x))))
    a = add(q, literal(12, q))
    power, log_a, less = power_of(a, neg(x)), log(a), sub(x, one)
    integral = div(mul(a, power), less)  # a^(1-x) / (x-1), whose slope is -(log a + 1 / (x-1)) times it
    total = sub(total, add(mul(integral, add(log_a, div(one, less))), mul(literal(0.5, x), mul(power, log_a))))
    factor, slope = div(mul(power, x), a), neg(log_a)  # x (x+1) ... (x+2j-2) a^(-x-2j+1), and the slope of its logarithm
    slope = add(slope, div(one, x))
    for j, bernoulli in enumerate(_STIRLING, 1):
        total = add(total, mul(literal(bernoulli * 2 * j / math.factorial(2 * j), x), mul(factor, slope)))
        for more in (2 * j - 1, 2 * j):
            grown = add(x, literal(more, x))
            factor, slope = div(mul(factor, grown), a), add(slope, div(one, grown))
    return total


@primitive
class polygamma(OnHost):
    """The n-th derivative of digamma, n >= 1: (-1)^(n+1) n! zeta(n + 1, x). Source: DLMF 5.15.1."""

    @in_double
    def evaluate(x, *, n):
        return (-1.0) ** (n + 1) * math.factorial(n) * _zeta(np.float64(n + 1), x)

    def partials(out, x, *, n):
        return (polygamma(x, n=n + 1),)

    def samples(rng):
        yield (1 + 2 * rng.random((2, 3)),), {"n": 1}
        yield (1 + 2 * rng.random((2, 3)),), {"n": 2}


def _gamma(x):
    """By Stirling's formula, with its power, which overflows before the result does, in two halves; or from [1.5, 2.5)."""
    size = np.abs(x)
    inside = np.where(size < LEAST, size, 1)
    base, down, up = _stepped(inside, 1.5, 1)
    near = np.exp(_lgamma_near(base, base, 1 + 0 * base)) * math.prod(down) / up[0] / up[1]
    large = np.minimum(np.where(size < LEAST, LEAST, size), 200)
    half = np.power(large, 0.5 * large - 0.25)
    far = half * np.exp(-large) * half * (math.sqrt(2 * math.pi) * np.exp(stirling_rest(large)))
    out = np.where(size < LEAST, near, far)
    nearest = np.rint(x)
    even = 2 * np.floor(0.5 * nearest) == nearest
    sine = np.sin(math.pi * np.where(x == nearest, np.nan, x - nearest))
    reflected = -math.pi / (x * np.where(even, sine, -sine) * out)
    return np.where(size < TINY, 1 / x, np.where(x < 0, reflected, np.where(size > 200, np.where(x == x, np.inf, x), out)))


@primitive
class gamma(OfPositive):
    """The gamma function, (x - 1)! of whole numbers; infinite at 0, with the sign of that zero, and NaN at -1, -2, ..."""

    cost = 240
    kinds = "f"
    evaluate = in_double(special("gamma"))
    lower = lowered(in_double(_gamma))

    def partials(out, x):
        return (mul(out, digamma(x)),)


def _betaln(a, b):
    """log Gamma(a) + log Gamma(b) - log Gamma(a + b); where the larger one is at least 10 by Stirling's series, of which the
    large terms cancel: log Gamma(b) - log Gamma(a + b) = a - a log(a + b) - (b - 1/2) log(1 + a/b) + rest(b) - rest(a + b)."""
    small, large = np.minimum(a, b), np.maximum(a, b)
    turned = (small < 0) & (np.floor(small) == small) & (np.floor(large) == large) & (large > 0) & (large <= -small)
    small = np.where(turned, 1 - small - large, small)  # the poles cancel: it is the limit, (-1)^b B(1 - a - b, b)
    small, large = np.minimum(small, large), np.maximum(small, large)
    pole, infinite = (small <= 0) & (np.floor(small) == small), large == np.inf
    direct = (large < LEAST) | (large + small < LEAST)
    whole = np.where(direct | infinite, LEAST, large)
    total = whole + np.where(direct, 1, small)
    drop = (whole - 0.5) * log1p_formula(small / whole)
    rest = stirling_rest(whole) - stirling_rest(total) - drop
    least = np.where(small < LEAST, LEAST, small)
    both = 0.5 * math.log(2 * math.pi) + stirling_rest(least) - 0.5 * np.log(least) + least * np.log(least / (whole + least))
    one = _lgamma(np.where(small < LEAST, small, 1)) + small * (1 - np.log(total))
    near = _lgamma(small) + _lgamma(np.where(direct, large, 1)) - _lgamma(np.where(direct, small + large, 1))
    out = np.where(direct, near, np.where(small < LEAST, one, both) + rest)
    end = np.where(pole | (small < 0), np.inf, np.where(infinite, -np.inf, out))
    return np.where(np.isnan(small), small, np.where(pole | infinite, end, out))


@primitive
class digamma_gap(OnHost):
    """The n-th derivative of digamma at a, less that at a + b, by Stirling's series where a is large: they are close."""

    @in_double
    def evaluate(a, b, *, n):
        both = a + b
        if n:
            return polygamma.evaluate(a, n=n) - polygamma.evaluate(both, n=n)
        large = (a >= LEAST) & (both >= LEAST)
        least, most = np.where(large, a, LEAST), np.where(large, both, LEAST)
        rest = sum([c * (most ** (-2.0 * k) - least ** (-2.0 * k)) for k, c in enumerate(_STIRLING, 1)])
        share = b / least
        return np.where(large, rest - np.log1p(share) - 0.5 * share / most, digamma.evaluate(a) - digamma.evaluate(both))

    def partials(out, a, b, *, n):
        return lambda: digamma_gap(a, b, n=n + 1), lambda: neg(polygamma(add(a, b), n=n + 1))

    def samples(rng):
        for n in range(2):
            yield (0.5 + 2 * rng.random(3), 0.5 + 2 * rng.random(3)), {"n": n}


@primitive
class betaln(Formula):
    """The logarithm of the beta function, log |Gamma(a) Gamma(b) / Gamma(a + b)|."""

    kinds = "f"
    cost = 1000
    evaluate = in_double(_betaln)

    def partials(out, a, b):
        return lambda: digamma_gap(a, b, n=0), lambda: digamma_gap(b, a, n=0)

    def samples(rng):
        yield (0.5 + 2 * rng.random((2, 3)), 0.5 + 2 * rng.random((2, 3))), {}
        yield (15.5, 0.5 + 20 * rng.random((2, 3))), {}
