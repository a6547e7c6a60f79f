"""The incomplete gamma and beta functions, with their derivatives with respect to every argument, of every order.

Both are integrals of a density p. Their derivatives with respect to its parameters are integrals of p times a polynomial in
the derivatives of log p, which are known: its `moment`. On the side of the median where x lies, the first of these polynomials
keeps its sign, so nothing cancels; the integral is a sum over fixed nodes, with every element's own scale.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from pullback.core.primitive import primitive
from pullback.ops.arithmetic import add, div, mul, neg, sub
from pullback.ops.chebyshev import in_double
from pullback.ops.compare import eq, gt, select
from pullback.ops.exponential import log, log1p
from pullback.ops.gamma_functions import OnHost, digamma, lgamma, polygamma, stirling_rest
from pullback.ops.literals import literal
from pullback.ops.scipy_functions import special

_betainc, _betaincc, _psi = special("betainc", 3), special("betaincc", 3), special("psi")
_gammainc, _gammaincc = special("gammainc", 2), special("gammaincc", 2)


def _double_exponential(step, low):
    """Nodes and weights for integrals of f(w) from 0 to infinity, of f that fall as exp(-w): w = exp(s - exp(-s)), s in steps.

    Source: Takahasi and Mori, "Double exponential formulas for numerical integration", Publ. RIMS 9 (1974), section 3.
    """
    s = np.arange(low / step, 4.5 / step) * step
    nodes = np.exp(s - np.exp(-s))
    return nodes[:, None], step * nodes * (1 + np.exp(-s))


_FEW, _MANY = _double_exponential(1 / 8, -3.75), _double_exponential(1 / 16, -5.75)
_AT_ONCE = 512  # elements whose integrands are in memory together


def moment(orders, cumulant, plus=np.add, times=np.multiply):
    """The derivative of a density p with respect to its parameters, over p; `orders` says how often with respect to each.

    It follows from those of log p, which are `cumulant(orders)`: d p = p d log p, differentiated by Leibniz's rule. None is 1.
    """
    which = next((i for i, order in enumerate(orders) if order), None)
    if which is None:
        return None
    once = [int(i == which) for i in range(len(orders))]
    rest = [order - one for order, one in zip(orders, once)]
    total = None
    for more in itertools.product(*[range(order + 1) for order in rest]):
        term = cumulant(tuple([k + one for k, one in zip(more, once)]))
        factor = moment(tuple([order - k for order, k in zip(rest, more)]), cumulant, plus, times)
        ways = math.prod([math.comb(order, k) for order, k in zip(rest, more)])
        term = term if factor is None else times(term, factor)
        for _ in range(ways):
            total = term if total is None else plus(total, term)
    return total


def _integral(integrand, hard, *operands):
    """The integral from 0 to infinity of `integrand(w, *operands)`, element by element; with more nodes where it is `hard`."""
    flat = [np.broadcast_to(operand, hard.shape).reshape(-1) for operand in operands]
    out = np.empty(hard.size)
    for which, (nodes, weights) in ((hard, _MANY), (~hard, _FEW)):
        (chosen,) = np.nonzero(which.reshape(-1))
        for start in range(0, len(chosen), _AT_ONCE):
            part = chosen[start : start + _AT_ONCE]
            out[part] = weights @ integrand(nodes, *[operand[part] for operand in flat])
    return out.reshape(hard.shape)


def _order(n, x):
    """The n-th derivative of log Gamma on NumPy arrays, n >= 1."""
    return _psi(x) if n == 1 else polygamma.evaluate(x, n=n - 1)


def _order_of(n, x):
    """The same on any values."""
    return digamma(x) if n == 1 else polygamma(x, n=n - 1)


def _valued(inside, out):
    return np.where(inside, out, np.nan)


def _scaled(size, factor):
    """Their product, 0 at the ends, where the size is 0 and the factor may be infinite."""
    zero = literal(0, size)
    return select(eq(size, zero), zero, mul(size, factor))


# ---- gamma ------------------------------------------------------------------------------------------------------------


@primitive
class gamma_density(OnHost):
    """x^(a-1) exp(-x) / Gamma(a), the density of the gamma distribution.

    For a >= 10 by Stirling's series, as exp(-a (m - log(1 + m))), m = x/a - 1: there the large terms have cancelled.
    """

    @in_double
    def evaluate(a, x):
        m = (x - a) / a
        s = m / (2 + m)  # m - log(1 + m) = m s - 2 (s^3/3 + s^5/5 + ...)
        squared, series = s * s, 0 * s
        for odd in range(21, 1, -2):
            series = series * squared + 1 / odd
        near = m * s - 2 * s * squared * series
        deficit = np.where(np.abs(m) < 0.4, near, m - np.log1p(m))
        large = np.exp(-a * deficit - stirling_rest(np.where(a >= 10, a, 10))) * np.sqrt(a / (2 * math.pi)) / x
        small = np.exp(np.where(a == 1, 0, (a - 1) * np.log(x)) - x - lgamma.evaluate(a))
        out = np.where((a >= 10) & (x > 0), large, small)
        return _valued((a > 0) & (x >= 0), np.where(x == np.inf, 0, out))

    def partials(out, a, x):
        def by_x():
            growth = _gamma_growth(a, x)
            return select(gt(a, literal(2, a)), _scaled(out, growth), mul(out, growth))

        return lambda: _scaled(out, _gamma_cumulant(a, x)((1,))), by_x

    def samples(rng):
        yield (0.5 + 2 * rng.random((2, 3)), 0.5 + 2 * rng.random((2, 3))), {}
        yield (12.5, 8 + 9 * rng.random((2, 3))), {}


def _gamma_cumulant(a, x):
    """The derivatives of the density's logarithm with respect to a."""
    return lambda orders: sub(log(x), digamma(a)) if orders == (1,) else neg(_order_of(orders[0], a))


def _gamma_growth(a, x):
    """That with respect to x: (a - 1) / x - 1."""
    one, less = literal(1, a), sub(a, literal(1, a))
    return sub(select(eq(less, literal(0, a)), literal(0, x), div(less, x)), one)


@primitive
class gamma_sensitivity(OnHost):
    """The n-th derivative of igamma(a, x) with respect to a, n >= 1, over the density at x.

    Where x is below exp(digamma(a)), by t = x exp(-w); else as minus the integral from x on, t = x + w.
    """

    @in_double
    def evaluate(a, x, *, n):
        a, x = np.broadcast_arrays(a, x)
        inside = (a > 0) & (x >= 0)
        a, x = np.where(inside, a, 1.0), np.where(inside, x, 1.0)
        known = [None, *[_order(k, a) for k in range(1, n + 1)]]
        below = np.log(x) < known[1]
        with np.errstate(all="ignore"):
            above = np.minimum(1 / np.maximum(1 - np.maximum(a - 1, 0) / x, 0), np.sqrt(x) + 1)
            rate = np.where(below, 1 / (np.maximum(a - x, 0) + np.sqrt(a)), above)

        def integrand(w, a, x, below, rate, *known):
            w = w * rate
            size = np.where(below, -a * w - x * np.expm1(-w), (a - 1) * np.log1p(w / x) - w)
            log_t = np.where(below, np.log(x) - w, np.log(x + w))
            weight = moment((n,), lambda orders: log_t - known[0] if orders == (1,) else -known[orders[0] - 1])
            return np.exp(size) * weight

        out = _integral(integrand, a < 0.5, a, x, below, rate, *known[1:]) * np.where(below, x, -1) * rate
        return _valued(inside, np.where(x == 0, 0, np.where(x == np.inf, 0, out)))

    def partials(out, a, x, *, n):
        cumulant = _gamma_cumulant(a, x)
        return (
            lambda: sub(gamma_sensitivity(a, x, n=n + 1), mul(out, cumulant((1,)))),
            lambda: sub(moment((n,), cumulant, add, mul), mul(out, _gamma_growth(a, x))),
        )

    def samples(rng):
        yield (0.5 + 2 * rng.random((2, 3)), 0.5 + 2 * rng.random((2, 3))), {"n": 1}


def _itself(value):
    return value


def _igamma_partials(signed):
    def partials(out, a, x):
        return lambda: signed(igamma_grad_a(a, x)), lambda: signed(gamma_density(a, x))

    return partials


def igamma_grad_a(a: Any, x: Any) -> Any:
    """The derivative of igamma with respect to a."""
    return _scaled(gamma_sensitivity(a, x, n=1), gamma_density(a, x))


class _OfShape(OnHost):
    """A function of a shape parameter and a variable, both positive."""

    def samples(rng):
        yield (0.5 + 2 * rng.random((2, 3)), 0.5 + 2 * rng.random((2, 3))), {}
        yield (1.5, 0.5 + 2 * rng.random((2, 3))), {}


@primitive
class igamma(_OfShape):
    """The integral of t^(a-1) exp(-t) from 0 to x, over Gamma(a): the gamma distribution's probability up to x."""

    evaluate = in_double(_gammainc)
    partials = _igamma_partials(_itself)


@primitive
class igammac(_OfShape):
    """1 - igamma(a, x), to the last digits where x is large."""

    evaluate = in_double(_gammaincc)
    partials = _igamma_partials(neg)


# ---- beta -------------------------------------------------------------------------------------------------------------


class _OfShapes(OnHost):
    """A function of two shape parameters, and a number between 0 and 1."""

    def samples(rng):
        yield (0.5 + 2 * rng.random(3), 0.5 + 2 * rng.random(3), 0.1 + 0.8 * rng.random(3)), {}
        yield (0.5, 0.5 + 2 * rng.random(3), 0.1 + 0.8 * rng.random(3)), {}


@primitive
class beta_density(_OfShapes):
    """x^(a-1) (1-x)^(b-1) Gamma(a+b) / (Gamma(a) Gamma(b)), the density of the beta distribution."""

    @in_double
    def evaluate(a, b, x):
        bulk = np.where(a == 1, 0, (a - 1) * np.log(x)) + np.where(b == 1, 0, (b - 1) * np.log1p(-x))
        out = np.exp(bulk - _betaln(a, b))
        return _valued((a > 0) & (b > 0) & (x >= 0) & (x <= 1), out)

    def partials(out, a, b, x):
        cumulant = _beta_cumulant(a, b, x)
        return (
            lambda: _scaled(out, cumulant((1, 0))),
            lambda: _scaled(out, cumulant((0, 1))),
            lambda: mul(out, _beta_growth(a, b, x)),
        )


_betaln = special("betaln", 2)


def _beta_cumulant(a, b, x):
    def cumulant(orders):
        common = _order_of(sum(orders), add(a, b))
        if orders == (1, 0):
            return add(sub(log(x), digamma(a)), common)
        if orders == (0, 1):
            return add(sub(log1p(neg(x)), digamma(b)), common)
        own = a if not orders[1] else b if not orders[0] else None
        return common if own is None else sub(common, _order_of(sum(orders), own))

    return cumulant


def _beta_growth(a, b, x):
    one, zero = literal(1, x), literal(0, x)
    first, last = sub(a, one), sub(b, one)
    return sub(select(eq(first, zero), zero, div(first, x)), select(eq(last, zero), zero, div(last, sub(one, x))))


@primitive
class beta_sensitivity(OnHost):
    """The derivative of betainc(a, b, x) of order `orders` with respect to a and b, over the density at x.

    Where x is below the mean, by t = x exp(-w); else, with the two sides exchanged, as minus the integral from x on.
    """

    @in_double
    def evaluate(a, b, x, *, orders):
        a, b, x = np.broadcast_arrays(a, b, x)
        inside = (a > 0) & (b > 0) & (x >= 0) & (x <= 1)
        a, b, x = np.where(inside, a, 1.0), np.where(inside, b, 1.0), np.where(inside, x, 0.5)
        below = x * (a + b) < a
        c, d = np.where(below, a, b), np.where(below, b, a)  # of the side where x lies, and of the other
        y, z = np.where(below, x, 1 - x), np.where(below, 1 - x, x)
        more = np.maximum(d - 1, 0)
        rate = 1 / (np.maximum(c - more * y / z, 0) + np.sqrt(more * y) / z)
        kinds = [(k, way) for k in range(1, sum(orders) + 1) for way in range(3)]
        known = [_order(k, (a, b, a + b)[way]) for k, way in kinds]

        def integrand(w, below, c, d, y, z, rate, *known):
            of = dict(zip(kinds, known))
            w = w * rate
            u = y * np.exp(-w)
            size = np.exp((d - 1) * np.log1p(-y * np.expm1(-w) / z) - c * w)
            near, far = np.log(y) - w, np.log1p(-u)

            def cumulant(orders):
                total = sum(orders)
                if 0 not in orders:
                    return of[total, 2]
                way = int(orders[0] == 0)
                first = np.where(below, far if way else near, near if way else far) if total == 1 else 0.0
                return first - of[total, way] + of[total, 2]

            return size * moment(orders, cumulant)

        out = _integral(integrand, np.minimum(a, b) < 0.5, below, c, d, y, z, rate, *known) * np.where(below, y, -y) * rate
        return _valued(inside, np.where((x == 0) | (x == 1), 0, out))

    def partials(out, a, b, x, *, orders):
        cumulant, (i, j) = _beta_cumulant(a, b, x), orders
        return (
            lambda: sub(beta_sensitivity(a, b, x, orders=(i + 1, j)), mul(out, cumulant((1, 0)))),
            lambda: sub(beta_sensitivity(a, b, x, orders=(i, j + 1)), mul(out, cumulant((0, 1)))),
            lambda: sub(moment(orders, cumulant, add, mul), mul(out, _beta_growth(a, b, x))),
        )

    def samples(rng):
        yield (0.5 + 2 * rng.random(3), 0.5 + 2 * rng.random(3), 0.1 + 0.8 * rng.random(3)), {"orders": (1, 0)}
        yield (0.5 + 2 * rng.random(3), 0.5 + 2 * rng.random(3), 0.1 + 0.8 * rng.random(3)), {"orders": (0, 1)}


def _betainc_partials(signed):
    def partials(out, a, b, x):
        def slope(orders):
            return lambda: signed(_scaled(beta_sensitivity(a, b, x, orders=orders), beta_density(a, b, x)))

        return slope((1, 0)), slope((0, 1)), lambda: signed(beta_density(a, b, x))

    return partials


@primitive
class betainc(_OfShapes):
    """The integral of t^(a-1) (1-t)^(b-1) from 0 to x, over that up to 1: the beta distribution's probability up to x."""

    evaluate = in_double(_betainc)
    partials = _betainc_partials(_itself)


@primitive
class betaincc(_OfShapes):
    """1 - betainc(a, b, x), to the last digits where it is small."""

    evaluate = in_double(_betaincc)
    partials = _betainc_partials(neg)
