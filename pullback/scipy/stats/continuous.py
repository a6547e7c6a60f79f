"""Distributions of real numbers. Each says which formulas it has; `distribution.py` derives the others."""

from __future__ import annotations

import math
from typing import Any

from pullback.nn.activations import log_sigmoid
from pullback.numpy.arithmetic import maximum, minimum, sign
from pullback.numpy.elementary import arctan2, cos, exp, expm1, log, log1p, sqrt, tan
from pullback.numpy.logic import where
from pullback.ops.incomplete import gamma_density
from pullback.scipy.special.gammas import (
    betainc,
    betaincc,
    betainccinv,
    betaincinv,
    betaln,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
    gammaln,
)
from pullback.scipy.special.integrals import i0e
from pullback.scipy.special.probability import expit, exprel, log_ndtr, logit, ndtr, ndtri, xlog1py, xlogy
from pullback.scipy.stats.distribution import Distribution

INF = math.inf


def from_zero(*shapes: Any) -> tuple[float, float]:
    return 0.0, INF


def unit(*shapes: Any) -> tuple[float, float]:
    return 0.0, 1.0


def positive(*shapes: Any) -> Any:
    """Whether all shape parameters are positive."""
    fine = shapes[0] > 0
    for shape in shapes[1:]:
        fine = fine & (shape > 0)
    return fine


def _by_side(x: Any, at: float, below: Any, above: Any) -> Any:
    """below(x) where x is less than a number, above(x) elsewhere; each sees that number in place of what is not its own."""
    low = x < at
    return where(low, below(where(low, x, at)), above(where(low, at, x)))


norm = Distribution(
    "norm", "The normal distribution, exp(-x^2 / 2) / sqrt(2 pi).", "", symmetric=True,
    logpdf=lambda y: -0.5 * y * y - 0.5 * math.log(2 * math.pi), cdf=ndtr, logcdf=log_ndtr, ppf=ndtri,
    entropy=lambda: 0.5 * math.log(2 * math.pi * math.e),
)  # fmt: skip
uniform = Distribution(
    "uniform", "The uniform distribution on [0, 1].", "", support=unit,
    logpdf=lambda y: 0 * y, cdf=lambda y: y, ppf=lambda q: q, entropy=lambda: 0.0,
)  # fmt: skip
expon = Distribution(
    "expon", "The exponential distribution, exp(-x) for x >= 0.", "", support=from_zero,
    logpdf=lambda y: -y, logsf=lambda y: -y, ppf=lambda q: -log1p(-q), isf=lambda q: -log(q), entropy=lambda: 1.0,
)  # fmt: skip
laplace = Distribution(
    "laplace", "Laplace's distribution, exp(-|x|) / 2.", "", symmetric=True,
    logpdf=lambda y: -abs(y) - math.log(2),
    cdf=lambda y: _by_side(y, 0.0, lambda y: 0.5 * exp(y), lambda y: 1 - 0.5 * exp(-y)),
    logcdf=lambda y: _by_side(y, 0.0, lambda y: y - math.log(2), lambda y: log1p(-0.5 * exp(-y))),
    ppf=lambda q: _by_side(q, 0.5, lambda q: log(2 * q), lambda q: -log(2 * (1 - q))), entropy=lambda: 1 + math.log(2),
)  # fmt: skip
logistic = Distribution(
    "logistic", "The logistic distribution, 1 / (4 cosh(x / 2)^2).", "", symmetric=True,
    logpdf=lambda y: log_sigmoid(y) + log_sigmoid(-y), cdf=expit, logcdf=log_sigmoid, ppf=logit, entropy=lambda: 2.0,
)  # fmt: skip
cauchy = Distribution(
    "cauchy", "Cauchy's distribution, 1 / (pi (1 + x^2)).", "", symmetric=True,
    logpdf=lambda y: -math.log(math.pi) - _log1p_square(y), cdf=lambda y: arctan2(1.0, -y) / math.pi,
    ppf=lambda q: where(abs(q - 0.5) < 0.25, tan(math.pi * (q - 0.5)), _minus_cotangent(q)),
    entropy=lambda: math.log(4 * math.pi),
)  # fmt: skip


def _log_of_gumbel(y: Any) -> Any:
    """log(1 - exp(-exp(y))), about y where that is far below 0."""
    return _by_side(y, 0.0, lambda y: y + log(exprel(-exp(y))), lambda y: log1p(-exp(-exp(y))))


gumbel_r = Distribution(
    "gumbel_r", "Gumbel's distribution of the largest, exp(-x - exp(-x)).", "",
    logpdf=lambda y: -maximum(y, -1e4) - exp(-y), logcdf=lambda y: -exp(-y), logsf=lambda y: _log_of_gumbel(-y),
    ppf=lambda q: -log(-log(q)), isf=lambda q: -log(-log1p(-q)), entropy=lambda: 1.5772156649015329,
)  # fmt: skip
gumbel_l = Distribution(
    "gumbel_l", "Gumbel's distribution of the smallest, exp(x - exp(x)).", "",
    logpdf=lambda y: minimum(y, 1e4) - exp(y), logsf=lambda y: -exp(y), logcdf=_log_of_gumbel,
    ppf=lambda q: log(-log1p(-q)), isf=lambda q: log(-log(q)), entropy=lambda: 1.5772156649015329,
)  # fmt: skip
gamma = Distribution(
    "gamma", "The gamma distribution, x^(a-1) exp(-x) / gamma(a) for x >= 0.", "a", support=from_zero, valid=positive,
    logpdf=lambda y, a: xlogy(a - 1, y) - y - gammaln(a), pdf=lambda y, a: gamma_density(a, y), cdf=lambda y, a: gammainc(a, y),
    sf=lambda y, a: gammaincc(a, y), ppf=lambda q, a: gammaincinv(a, q), isf=lambda q, a: gammainccinv(a, q),
)  # fmt: skip
chi2 = Distribution(
    "chi2", "The chi-squared distribution of df degrees of freedom: twice a gamma variable with a = df / 2.", "df",
    support=from_zero, valid=positive, logpdf=lambda y, df: gamma.logpdf(0.5 * y, 0.5 * df) - math.log(2),  # type: ignore[attr-defined]
    pdf=lambda y, df: 0.5 * gamma.pdf(0.5 * y, 0.5 * df), cdf=lambda y, df: gammainc(0.5 * df, 0.5 * y),  # type: ignore[attr-defined]
    sf=lambda y, df: gammaincc(0.5 * df, 0.5 * y), ppf=lambda q, df: 2 * gammaincinv(0.5 * df, q),
    isf=lambda q, df: 2 * gammainccinv(0.5 * df, q),
)  # fmt: skip


beta = Distribution(
    "beta", "The beta distribution, x^(a-1) (1-x)^(b-1) / beta(a, b) for 0 <= x <= 1.", "a b", support=unit, valid=positive,
    logpdf=lambda y, a, b: xlogy(a - 1, y) + xlog1py(b - 1, -y) - betaln(a, b), cdf=lambda y, a, b: betainc(a, b, y),
    sf=lambda y, a, b: betaincc(a, b, y), ppf=lambda q, a, b: betaincinv(a, b, q), isf=lambda q, a, b: betainccinv(a, b, q),
)  # fmt: skip


def _minus_cotangent(q: Any) -> Any:
    """-1 / tan(pi q), of a q outside (1/4, 3/4), by the nearer end."""
    low = q < 0.5
    return where(low, -1.0, 1.0) / tan(math.pi * where(abs(q - 0.5) < 0.25, 0.25, where(low, q, 1 - q)))


def _log1p_square(y: Any) -> Any:
    """log(1 + y^2), also of a y whose square is not a finite number."""
    large = abs(y) > 1
    far = where(large, y, 1.0)
    return 2 * log(abs(far)) + log1p(where(large, 1 / far, y) ** 2)


def _log_peak(df: Any) -> Any:
    """The logarithm of the density of Student's distribution at 0."""
    return -0.5 * log(df) - betaln(0.5 * df, 0.5)


def _lower_t(y: Any, df: Any) -> Any:
    """The probability of less than y of Student's distribution, from that of df / (df + y^2), a beta variable, or of the rest;
    near 0, where its slope would be 0 times infinity, from the density."""
    ratio = y * y / df
    middle, far = ratio <= 1e-18, ratio >= 1
    near = where(middle | far, 0.5, ratio)
    tail = 0.5 * where(
        far, betainc(0.5 * df, 0.5, 1 / (1 + where(far, ratio, 1.0))), betaincc(0.5, 0.5 * df, near / (1 + near))
    )
    return where(middle, 0.5 + y * exp(_log_peak(df)), where(y < 0, tail, 1 - tail))


def _t_quantile(q: Any, df: Any) -> Any:
    middle = abs(q - 0.5) < 1e-9
    tail = 2 * where(middle, 0.25, minimum(q, 1 - q))
    x, rest = betaincinv(0.5 * df, 0.5, tail), betainccinv(0.5, 0.5 * df, tail)
    far = x < 0.5
    ratio = where(far, (1 - x) / where(far, x, 0.5), rest / (1 - where(far, 0.5, rest)))
    return where(middle, (q - 0.5) * exp(-_log_peak(df)), sign(q - 0.5) * sqrt(df * ratio))


t = Distribution(
    "t", "Student's distribution of df degrees of freedom.", "df", symmetric=True, valid=positive,
    logpdf=lambda y, df: _log_peak(df) - 0.5 * (df + 1) * _log1p_square(y / sqrt(df)),
    cdf=_lower_t, ppf=_t_quantile,
)  # fmt: skip
pareto = Distribution(
    "pareto", "Pareto's distribution, b / x^(b+1) for x >= 1.", "b", support=lambda b: (1.0, INF), valid=positive,
    logpdf=lambda y, b: log(b) - (b + 1) * log(y), logsf=lambda y, b: -b * log(y), ppf=lambda q, b: exp(-log1p(-q) / b),
    isf=lambda q, b: exp(-log(q) / b),
)  # fmt: skip


def _lower_gennorm(y: Any, beta: Any) -> Any:
    """From a gamma variable; near 0, where its slope would be 0 times infinity, from the density."""
    power = abs(y) ** beta
    middle = power <= 1e-18
    size = where(middle, 1.0, power)
    apart = where(y < 0, gammaincc(1 / beta, size), 1 + gammainc(1 / beta, size))
    return where(middle, 0.5 + y * 0.5 * beta / exp(gammaln(1 / beta)), 0.5 * apart)


gennorm = Distribution(
    "gennorm", "The generalized normal distribution, beta / (2 gamma(1 / beta)) exp(-|x|^beta).", "beta", symmetric=True,
    valid=positive, logpdf=lambda y, beta: log(0.5 * beta) - gammaln(1 / beta) - abs(y) ** beta, cdf=_lower_gennorm,
)  # fmt: skip
vonmises = Distribution(
    "vonmises", "Von Mises's distribution of angles, exp(kappa cos(x)) / (2 pi i0(kappa)).", "kappa",
    valid=lambda kappa: kappa >= 0,
    logpdf=lambda y, kappa: kappa * (cos(y) - 1) - math.log(2 * math.pi) - log(i0e(kappa)),
)  # fmt: skip
wrapcauchy = Distribution(
    "wrapcauchy", "Cauchy's distribution wrapped around the circle, for 0 <= x <= 2 pi.", "c",
    support=lambda c: (0.0, 2 * math.pi), valid=lambda c: (c > 0) & (c < 1),
    logpdf=lambda y, c: log((1 - c) * (1 + c)) - math.log(2 * math.pi) - log(1 + c * c - 2 * c * cos(y)),
)  # fmt: skip


def _log_mass(a: Any, b: Any) -> Any:
    """The logarithm of the normal probability between a and b, by the tails that are small."""
    flipped = a > 0
    a, b = where(flipped, -b, a), where(flipped, -a, b)
    apart = b > 0  # then a <= 0 < b
    one_side = log_ndtr(where(apart, 0.0, b))
    one_side = one_side + log(-expm1(minimum(log_ndtr(where(apart, -1.0, a)) - one_side, 0.0)))
    return where(apart, log1p(-ndtr(where(apart, a, -1.0)) - ndtr(-where(apart, b, 1.0))), one_side)


truncnorm = Distribution(
    "truncnorm", "The normal distribution between a and b, in units of the scale from loc.", "a b", support=lambda a, b: (a, b),
    valid=lambda a, b: a < b, logpdf=lambda y, a, b: norm.logpdf(y) - _log_mass(a, b),  # type: ignore[attr-defined]
    logcdf=lambda y, a, b: _log_mass(a, y) - _log_mass(a, b), logsf=lambda y, a, b: _log_mass(y, b) - _log_mass(a, b),
)  # fmt: skip
