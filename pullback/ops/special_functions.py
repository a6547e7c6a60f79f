"""Bessel functions, integrals of exponentials and angles, hypergeometric functions, and what has x log(y) in it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.core.primitive import primitive
from pullback.ops.arithmetic import add, div, mul, neg, sub
from pullback.ops.arithmetic import max as larger
from pullback.ops.chebyshev import I0E_FAR, I0E_NEAR, I1E_FAR, I1E_NEAR, chebyshev, in_double
from pullback.ops.compare import eq, lt, select
from pullback.ops.error_functions import erf, gaussian
from pullback.ops.exponential import exp, log, log1p, log1p_formula
from pullback.ops.formulas import lowered
from pullback.ops.gamma_functions import OnHost, betaln, digamma, digamma_gap, no_slope
from pullback.ops.incomplete import beta_density, beta_sensitivity, gamma_density, gamma_sensitivity
from pullback.ops.literals import literal
from pullback.ops.pointwise import Function, OfFraction, OfTwo
from pullback.ops.powers import sqrt, square
from pullback.ops.scipy_functions import special
from pullback.ops.trigonometric import cos, sin, sinc

# ---- averages over [0, u] -----------------------------------------------------------------------------------------------

_POINTS, _SHARES = np.polynomial.legendre.leggauss(16)
_POINTS, _SHARES = 0.5 + 0.5 * _POINTS, 0.5 * _SHARES


def _average(x, n, radius, derivative, integral):
    """The n-th derivative of f(x) = G(x) / x, where G(0) = 0: near 0 the average of s^n g^(n)(s x) over s in [0, 1], g = G', in
    which nothing cancels, by Gauss and Legendre's rule; elsewhere from x f = G, differentiated: x f_n + n f_(n-1) = G^(n).

    Arguments:
        derivative: gives g^(n) of numbers. integral: gives G^(n) of x.
    """
    near = sum([share * point**n * derivative(point * x) for point, share in zip(_POINTS.tolist(), _SHARES.tolist())])
    divisor = np.where(x == 0, 1, x)
    far = 0 * x
    for k in range(n + 1):
        far = (integral(k) - k * far) / divisor
    return np.where(np.abs(x) < radius, near, far) if n else np.where(x == 0, derivative(0 * x), integral(0) / divisor)


@primitive
class exprel(Function):
    """The n-th derivative of (exp(x) - 1) / x, which is 1 at 0."""

    cost = 60
    kinds = "f"

    @in_double
    def evaluate(x, *, n):
        out = _average(x, n, 0.5 * (n + 1), np.exp, lambda k: np.exp(x) if k else np.expm1(x))
        return np.where(x == np.inf, x, out)

    def partials(out, x, *, n):
        return (exprel(x, n=n + 1),)

    def samples(rng):
        for n in range(3):
            yield (np.array([[0.0, 1e-4, -0.3], [0.7, -1.5, 4.0]]),), {"n": n}


@primitive
class log1p_ratio(Function):
    """The n-th derivative of log(1 + x) / x, which is 1 at 0."""

    cost = 60
    kinds = "f"

    @in_double
    def evaluate(x, *, n):
        def of_logarithm(k):
            return log1p_formula(x) if k == 0 else -math.factorial(k - 1) * np.power(-1 / (1 + x), k)

        out = _average(x, n, 0.4, lambda v: (-1) ** n * math.factorial(n) * np.power(1 + v, -1.0 - n), of_logarithm)
        return np.where(x == np.inf, 0, out)

    def partials(out, x, *, n):
        return (log1p_ratio(x, n=n + 1),)

    def samples(rng):
        for n in range(3):
            yield (np.array([[0.0, 1e-4, -0.3], [0.7, -0.5, 4.0]]),), {"n": n}


# ---- Bessel functions ---------------------------------------------------------------------------------------------------

_ive, _jv, _LOW = special("ive", 2), special("jv", 2), (special("i0e"), special("i1e"))


def _unscaled(out, x):
    """exp(|x|) times a value, in halves, of which neither overflows before the product does."""
    half = np.exp(0.5 * np.abs(x))
    return np.where(np.isinf(x), np.copysign(np.inf, out), out * half * half)


def _bessel_i(x, n, scaled):
    """I_0 or I_1 by their series for |x| up to 8 and beyond."""
    size = np.abs(x)
    near, far = np.minimum(size, 8), np.maximum(size, 8)
    inner, outer = (I1E_NEAR, I1E_FAR) if n else (I0E_NEAR, I0E_FAR)
    low, high = chebyshev(inner, 0.25 * near - 1), chebyshev(outer, 16 / far - 1) / np.sqrt(far)
    out = np.where(size <= 8, low * near if n else low, high)
    out = out if scaled else _unscaled(out, size)
    return np.where(np.isnan(x), x, np.copysign(out, x) if n else out)


@primitive
class bessel_i(Function):
    """The modified Bessel function I_n of whole order n >= 0; where `scaled`, exp(-|x|) times it."""

    cost = 190
    kinds = "f"

    @in_double
    def evaluate(x, *, n, scaled):
        out = _LOW[n](x) if n < 2 else np.where(np.isinf(x), 0, _ive(np.float64(n), x))
        return out if scaled else _unscaled(out, x)

    def lower(primitive, write, x, *, n, scaled):
        rule = lowered(in_double(_bessel_i)) if n < 2 else OnHost.lower.__get__(primitive)
        return rule(write, x, n=n, scaled=scaled)

    def partials(out, x, *, n, scaled):
        if scaled:
            return (scaled_slope(x, n=n, order=1),)
        later = bessel_i(x, n=n + 1, scaled=False)
        return (mul(literal(0.5, x), add(bessel_i(x, n=n - 1, scaled=False), later)) if n else later,)

    def samples(rng):
        for n in range(3):
            yield (4 * rng.normal(size=(2, 3)),), {"n": n, "scaled": n != 1}


_VERSED = 2 * np.sin(np.arange(31) * (math.pi / 60)) ** 2  # 1 - cos(v) at v = 0, pi/30, ..., pi


@primitive
class scaled_slope(Function):
    """A derivative of exp(-|x|) I_n(x): from the mean of cos(n v) exp(-x (1 - cos(v))) over v by the trapezoidal rule, in which
    nothing cancels; beyond x = 30 by Hankel's series. Source: DLMF 10.32.3 and 10.40.1."""

    cost = 300
    kinds = "f"

    @in_double
    def evaluate(x, *, n, order):
        size = np.abs(x)
        weights = np.cos(np.arange(31) * (n * math.pi / 30)) * (-_VERSED) ** order / 30
        weights[[0, -1]] *= 0.5
        near = np.minimum(size, 30)
        near = sum([weight * np.exp(near * -versed) for weight, versed in zip(weights.tolist(), _VERSED.tolist())])
        inverse, terms = 1 / np.maximum(size, 30), [1 / math.sqrt(2 * math.pi)]
        for k in range(1, 21):
            terms.append(terms[-1] * ((2 * k - 1) ** 2 - 4 * n * n) / (8 * k))
        far = 0 * inverse
        for k in range(20, -1, -1):
            far = far * inverse + terms[k] * math.prod([-0.5 - k - i for i in range(order)])
        out = np.where(size < 30, near, far * np.sqrt(inverse) * np.power(inverse, order))
        return out * np.sign(x) if (n + order) % 2 else out

    def partials(out, x, *, n, order):
        return (scaled_slope(x, n=n, order=order + 1),)

    def samples(rng):
        for n in range(2):
            yield (np.array([[0.3, 1.0, -2.5], [7.0, -20.0, 40.0]]),), {"n": n, "order": 1}


@primitive
class bessel_j(OnHost):
    """The Bessel function J_n of whole order n >= 0."""

    @in_double
    def evaluate(x, *, n):
        return _jv(np.float64(n), x)

    def partials(out, x, *, n):
        later = bessel_j(x, n=n + 1)
        return (mul(literal(0.5, x), sub(bessel_j(x, n=n - 1), later)) if n else neg(later),)

    def samples(rng):
        yield (4 * rng.normal(size=(2, 3)),), {"n": 0}
        yield (4 * rng.normal(size=(2, 3)),), {"n": 2}


# ---- functions of one number, whose derivatives are elementary ----------------------------------------------------------


def _of_one(name, doc, slope, evaluate=None):
    """A function of one positive number that SciPy evaluates, given its derivative."""
    rules = {
        "__doc__": doc,
        "evaluate": in_double(evaluate or special(name)),
        "partials": lambda out, x: (slope(x),),
        "samples": lambda rng: iter([((0.3 + 2 * rng.random((2, 3)),), {})]),
    }
    return primitive(type(name, (OnHost,), rules))


def _half_turns(x):
    """pi x^2 / 2."""
    return mul(literal(math.pi / 2, x), square(x))


def _minus_log_ratio(x):
    """log(x) / (1 - x), near 0 from log(x), as x - 1 would round x away."""
    one = literal(1, x)
    small = lt(x, literal(0.25, x))
    near = div(log(select(small, x, one)), sub(one, select(small, x, literal(0, x))))
    return select(small, near, neg(log1p_ratio(sub(select(small, one, x), one), n=0)))


spence = _of_one("spence", "The dilogarithm of 1 - x: the integral of log(t) / (1 - t) from 1 to x.", _minus_log_ratio)
expi = _of_one("expi", "The integral of exp(t) / t from minus infinity to x.", lambda x: div(exp(x), x))
exp1 = _of_one("exp1", "The integral of exp(-t) / t from x to infinity.", lambda x: neg(div(exp(neg(x)), x)))
sine_integral = _of_one(
    "sine_integral", "The integral of sin(t) / t from 0 to x.", lambda x: sinc(mul(literal(1 / math.pi, x), x), n=0),
    special("sici", part=0),
)  # fmt: skip
cosine_integral = _of_one(
    "cosine_integral", "The integral of cos(t) / t, from infinity to x.", lambda x: div(cos(x), x), special("sici", part=1)
)
fresnel_s = _of_one(
    "fresnel_s", "The integral of sin(pi t^2 / 2) from 0 to x.", lambda x: sin(_half_turns(x)), special("fresnel", part=0)
)
fresnel_c = _of_one(
    "fresnel_c", "The integral of cos(pi t^2 / 2) from 0 to x.", lambda x: cos(_half_turns(x)), special("fresnel", part=1)
)
dawsn: Any = _of_one("dawsn", "exp(-x^2) times the integral of exp(t^2) from 0 to x.", lambda x: dawsn_slope(x, n=1))


@primitive
class dawsn_slope(OnHost):
    """The n-th derivative of dawsn, n >= 1: y' = 1 - 2 x y, differentiated; beyond |x| = 7, where that cancels, by the series
    of (2k-1)!! / (2^(k+1) x^(2k+1)). Source: DLMF 7.12.1, on the imaginary axis."""

    @in_double
    def evaluate(x, *, n):
        known = [_dawsn(x), 1 - 2 * x * _dawsn(x)]
        for k in range(1, n):
            known.append(-2 * (x * known[k] + k * known[k - 1]))
        inverse = 1 / np.where(np.abs(x) > 7, x, 7)
        far = 0 * inverse
        for k in range(25, -1, -1):
            odd = math.prod(range(1, 2 * k, 2)) / 2 ** (k + 1)
            far = far * inverse * inverse + odd * math.prod([-1 - 2 * k - i for i in range(n)])
        return np.where(np.abs(x) > 7, far * inverse ** (n + 1), known[n])

    def partials(out, x, *, n):
        return (dawsn_slope(x, n=n + 1),)

    def samples(rng):
        yield (4 * rng.normal(size=3),), {"n": 1}


_dawsn = special("dawsn")


@primitive
class wofz(OnHost):
    """exp(-z^2) erfc(-i z), Faddeeva's function."""

    kinds = "c"
    evaluate = special("wofz")

    def partials(out, z):
        return (sub(literal(2j / math.sqrt(math.pi), z), mul(literal(2, z), mul(z, out))),)

    def samples(rng):
        yield (rng.normal(size=3) + 1j * rng.random(3),), {}


# ---- of several numbers -------------------------------------------------------------------------------------------------


_expn: Any = special("expn", 2)


@primitive
class expn(OnHost):
    """The integral of exp(-x t) / t^n from 1 to infinity, of whole n >= 0."""

    evaluate = in_double(lambda n, x: np.where(n == np.floor(n), _expn(np.floor(n), x), np.nan))

    def partials(out, n, x):
        one, first = literal(1, n), eq(n, literal(0, n))

        def by_x():  # -E_(n-1), where E_0 = exp(-x) / x
            at_zero = div(mul(exp(neg(x)), add(one, div(one, x))), x)
            return neg(select(first, at_zero, expn(select(first, one, sub(n, one)), x)))

        return no_slope("expn", "n"), by_x


@primitive
class owens_t(OnHost):
    """The integral of exp(-h^2 (1 + t^2) / 2) / (2 pi (1 + t^2)) over t from 0 to a, of Owen."""

    evaluate = in_double(special("owens_t", 2))

    def partials(out, h, a):
        def by_h():
            tail = erf(mul(mul(a, h), literal(math.sqrt(0.5), h)))
            return mul(literal(-0.5 / math.sqrt(2 * math.pi), h), mul(gaussian(h, rate=0.5), tail))

        def by_a():
            both = mul(gaussian(h, rate=0.5), gaussian(mul(a, h), rate=0.5))
            return div(both, mul(literal(2 * math.pi, a), add(literal(1, a), square(a))))

        return by_h, by_a

    def samples(rng):
        yield (rng.normal(size=3), rng.normal(size=3)), {}


_hyp1f1 = special("hyp1f1", 3)


@primitive
class hyp1f1(OnHost):
    """Kummer's confluent hypergeometric function, the sum of (a)_k / (b)_k x^k / k!."""

    @in_double
    def evaluate(a, b, x):  # SciPy's does not end where x is huge: there it is x^-a times a constant, or infinite
        return _hyp1f1(a, b, np.clip(x, -1e8, 1e8)) * np.power(np.maximum(np.abs(x), 1e8) / 1e8, -a)

    def partials(out, a, b, x):
        one = literal(1, a)

        def by_x():
            return mul(div(a, b), hyp1f1(add(a, one), add(b, one), x))

        return no_slope("hyp1f1", "a"), no_slope("hyp1f1", "b"), by_x


@primitive
class hyp2f1(OnHost):
    """Gauss's hypergeometric function, the sum of (a)_k (b)_k / (c)_k x^k / k!, continued beyond |x| = 1."""

    evaluate = in_double(special("hyp2f1", 4))

    def partials(out, a, b, c, x):
        one = literal(1, a)

        def by_x():
            return mul(div(mul(a, b), c), hyp2f1(add(a, one), add(b, one), add(c, one), x))

        return *[no_slope("hyp2f1", name) for name in "abc"], by_x


_binom = special("binom", 2)


@primitive
class binomial(OnHost):
    """Gamma(n + 1) / (Gamma(k + 1) Gamma(n - k + 1)): how many subsets of k elements a set of n has."""

    @in_double
    def evaluate(n, k):  # SciPy's loses digits where n is large, unless it multiplies the factors
        least = np.minimum(k, n - k)
        large = (n > 300) & (least > 0) & ((least >= 20) | (k != np.floor(k)))
        m, few = np.where(large, n, 2.0), np.where(large, least, 1.0)
        return np.where(large, np.exp(-betaln.evaluate(m - few + 1, few + 1)) / (m + 1), _binom(n, k))

    def partials(out, n, k):
        one = literal(1, n)
        rest = add(sub(n, k), one)
        return lambda: neg(mul(out, digamma_gap(rest, k, n=0))), lambda: mul(out, sub(digamma(rest), digamma(add(k, one))))

    def samples(rng):
        yield (3 + 2 * rng.random(3), 1 + 2 * rng.random(3)), {}


@primitive
class poch(OnHost):
    """Gamma(z + m) / Gamma(z), the rising factorial of Pochhammer."""

    evaluate = in_double(special("poch", 2))

    def partials(out, z, m):
        return lambda: neg(mul(out, digamma_gap(z, m, n=0))), lambda: mul(out, digamma(add(z, m)))

    def samples(rng):
        yield (0.5 + rng.random(3), 0.5 + rng.random(3)), {}


@primitive
class gammaincinv(OnHost):
    """The x at which igamma(a, x), or igammac if `upper`, is p. Its derivatives are those of an implicit function."""

    @in_double
    def evaluate(a, p, *, upper):
        return (_gammainccinv if upper else _gammaincinv)(a, p)

    def partials(out, a, p, *, upper):
        sign = literal(-1 if upper else 1, p)
        return lambda: neg(gamma_sensitivity(a, out, n=1)), lambda: div(sign, gamma_density(a, out))

    def samples(rng):
        for upper in (False, True):
            yield (0.5 + 2 * rng.random(3), 0.1 + 0.8 * rng.random(3)), {"upper": upper}


_gammaincinv, _gammainccinv = special("gammaincinv", 2), special("gammainccinv", 2)


@primitive
class betaincinv(OnHost):
    """The x at which betainc(a, b, x), or betaincc if `upper`, is p."""

    @in_double
    def evaluate(a, b, p, *, upper):
        return (_betainccinv if upper else _betaincinv)(a, b, p)

    def partials(out, a, b, p, *, upper):
        return (
            lambda: neg(beta_sensitivity(a, b, out, orders=(1, 0))),
            lambda: neg(beta_sensitivity(a, b, out, orders=(0, 1))),
            lambda: div(literal(-1 if upper else 1, p), beta_density(a, b, out)),
        )

    def samples(rng):
        for upper in (False, True):
            yield (0.5 + 2 * rng.random(3), 0.5 + 2 * rng.random(3), 0.1 + 0.8 * rng.random(3)), {"upper": upper}


_betaincinv, _betainccinv = special("betaincinv", 3), special("betainccinv", 3)


@primitive
class legendre(OnHost):
    """The Legendre function of order m and degree n at cos(theta), normalised over the sphere, with Condon and Shortley's sign.

    Its derivative joins the neighbouring orders, with no singularity at the poles. Source: DLMF 14.10, normalised.
    """

    @in_double
    def evaluate(n, m, theta):
        return np.where(np.abs(m) > n, 0, _legendre(n.astype(np.int64), m.astype(np.int64), theta))

    def partials(out, n, m, theta):
        one = literal(1, n)

        def by_theta():
            zero = literal(0, n)  # beyond |m| = n there is none
            up = sqrt(larger(mul(sub(n, m), add(add(n, m), one)), zero))
            down = sqrt(larger(mul(add(n, m), add(sub(n, m), one)), zero))
            up, down = mul(up, legendre(n, add(m, one), theta)), mul(down, legendre(n, sub(m, one), theta))
            return mul(literal(0.5, theta), sub(up, down))

        return no_slope("sph_harm_y", "n"), no_slope("sph_harm_y", "m"), by_theta


_legendre = special("sph_legendre_p", 3, part=0)


# ---- x log(y) -----------------------------------------------------------------------------------------------------------


def _times_logarithm(logarithm, shift):
    """Evaluation and partials of x log(shift + y), which is 0 where x is 0, unless y is NaN."""

    def evaluate(x, y):
        return np.where((x == 0) & (y == y), 0, x * logarithm.evaluate(y))

    def partials(out, x, y):
        zero = literal(0, x)
        inner, nothing = add(y, literal(shift, y)), eq(x, zero)

        def by_x():  # where both are 0, which is no point of continuity, it is 0
            ends = select(nothing, eq(inner, zero), eq(x, literal(math.nan, x)))
            return logarithm(select(ends, literal(1 - shift, y), y))

        def by_y():  # for every x, 0 too, it varies with x at the rate 1 / (shift + y)
            return div(x, select(nothing, select(eq(inner, zero), literal(1, y), inner), inner))

        return by_x, by_y

    return evaluate, partials


@primitive
class xlogy(OfTwo):
    """x log(y), and 0 where x is 0."""

    cost = 14
    kinds = "f"
    evaluate, partials = _times_logarithm(log, 0)

    def samples(rng):
        yield (rng.normal(size=(2, 3)), 0.5 + rng.random((2, 3))), {}


@primitive
class xlog1py(OfTwo):
    """x log(1 + y), and 0 where x is 0."""

    cost = 14
    kinds = "f"
    evaluate, partials = _times_logarithm(log1p, 1)
    lower = lowered(lambda x, y: np.where((x == 0) & (y == y), 0, x * log1p_formula(y)))

    def samples(rng):
        yield (rng.normal(size=(2, 3)), rng.random((2, 3))), {}


@primitive
class rel_entr(OfTwo):
    """x log(x / y) where both are positive, 0 where x is 0 and y is not negative, else infinite."""

    cost = 100
    kinds = "f"

    @in_double
    def evaluate(x, y):
        ratio = np.where((x > 0) & (y > 0), x, 1) / np.where((x > 0) & (y > 0), y, 1)
        near = log1p_formula(np.where((x > 0) & (y > 0), (x - y) / y, 0))  # where x and y are close, their ratio is rounded
        apart = np.where((ratio > 1e-300) & (ratio < 1e300), np.log(ratio), np.log(x) - np.log(y))
        out = x * np.where(np.abs(ratio - 1) < 0.3, near, apart)
        out = np.where((x > 0) & (y > 0), out, np.where((x == 0) & (y >= 0), 0 * ratio, np.inf))
        return np.where((x == x) & (y == y), out, np.nan)

    def partials(out, x, y):
        one = literal(1, x)
        return lambda: add(sub(log(x), log(y)), one), lambda: neg(div(x, select(eq(x, literal(0, x)), one, y)))

    def samples(rng):
        yield (0.5 + rng.random((2, 3)), 0.5 + rng.random((2, 3))), {}


@primitive
class logit(OfFraction):
    """log(x / (1 - x)); between 1/4 and 3/4, where 2 x - 1 is exact, as 2 artanh(2 x - 1)."""

    cost = 120
    kinds = "f"

    @in_double
    def evaluate(x):
        middle = np.abs(x - 0.5) <= 0.25
        u = np.where(middle, x + x - 1, 0)
        near = log1p_formula(u) - log1p_formula(-u)
        return np.where(middle, near, np.log(x) - log1p_formula(-np.where(middle, 0, x)))

    def partials(out, x):
        return (div(literal(1, x), mul(x, sub(literal(1, x), x))),)

    def samples(rng):
        yield (0.1 + 0.8 * rng.random((2, 3)),), {}
