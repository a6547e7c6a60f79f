"""Distributions of real numbers. Each says which formulas it has; `distribution.py` derives the others."""

from __future__ import annotations

import math
from typing import Any

from pullback.nn.activations import log_sigmoid
from pullback.numpy.arithmetic import maximum, minimum, sign
from pullback.numpy.elementary import arctan2, cos, exp, expm1, log, log1p, sqrt, tan
from pullback.numpy.logic import where
from pullback.ops.incomplete import gamma_density
from pullback.scipy.special.gammas import betainc, betaincinv, betaln, gammainc, gammaincc, gammainccinv, gammaincinv, gammaln
from pullback.scipy.special.integrals import i0e
from pullback.scipy.special.probability import expit, log_ndtr, logit, ndtr, ndtri, xlog1py, xlogy
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
    cdf=lambda y: where(y < 0, 0.5 * exp(minimum(y, 0.0)), 1 - 0.5 * exp(-maximum(y, 0.0))),
    logcdf=lambda y: where(y < 0, y - math.log(2), log1p(-0.5 * exp(-maximum(y, 0.0)))),
    ppf=lambda q: where(q < 0.5, log(2 * minimum(q, 0.5)), -log(2 * (1 - maximum(q, 0.5)))), entropy=lambda: 1 + math.log(2),
)  # fmt: skip
logistic = Distribution(
    "logistic", "The logistic distribution, 1 / (4 cosh(x / 2)^2).", "", symmetric=True,
    logpdf=lambda y: log_sigmoid(y) + log_sigmoid(-y), cdf=expit, logcdf=log_sigmoid, ppf=logit, entropy=lambda: 2.0,
)  # fmt: skip
cauchy = Distribution(
    "cauchy", "Cauchy's distribution, 1 / (pi (1 + x^2)).", "", symmetric=True,
    logpdf=lambda y: -math.log(math.pi) - log1p(y * y), cdf=lambda y: arctan2(1.0, -y) / math.pi,
    ppf=lambda q: where(abs(q - 0.5) < 0.25, tan(math.pi * (q - 0.5)), _minus_cotangent(q)),
    entropy=lambda: math.log(4 * math.pi),
)  # fmt: skip
gumbel_r = Distribution(
    "gumbel_r", "Gumbel's distribution of the largest, exp(-x - exp(-x)).", "",
    logpdf=lambda y: -maximum(y, -1e4) - exp(-y), logcdf=lambda y: -exp(-y), ppf=lambda q: -log(-log(q)),
    isf=lambda q: -log(-log1p(-q)), entropy=lambda: 1.5772156649015329,
)  # fmt: skip
gumbel_l = Distribution(
    "gumbel_l", "Gumbel's distribution of the smallest, exp(x - exp(x)).", "",
    logpdf=lambda y: minimum(y, 1e4) - exp(y), logsf=lambda y: -exp(y), ppf=lambda q: log(-log1p(-q)),
    isf=lambda q: log(-log(q)), entropy=lambda: 1.5772156649015329,
)  # fmt: skip
gamma = Distribution(
    "gamma", "The gamma distribution, x^(a-1) exp(-x) / gamma(a) for x >= 0.", "a", support=from_zero, valid=positive,
    logpdf=lambda y, a: xlogy(a - 1, y) - y - gammaln(a), pdf=lambda y, a: gamma_density(a, y), cdf=lambda y, a: gammainc(a, y),
    sf=lambda y, a: gammaincc(a, y), ppf=lambda q, a: gammaincinv(a, q), isf=lambda q, a: gammainccinv(a, q),
)  # fmt: skip
chi2 = Distribution(
    "chi2", "The chi-squared distribution of df degrees of freedom: twice a gamma variable with a = df / 2.", "df",
    support=from_zero, valid=positive, logpdf=lambda y, df: gamma.logpdf(0.5 * y, 0.5 * df) - math.log(2),  # type: ignore[attr-defined]
    pdf=lambda y, df: 0.5 * gamma_density(0.5 * df, 0.5 * y), cdf=lambda y, df: gammainc(0.5 * df, 0.5 * y),
    sf=lambda y, df: gammaincc(0.5 * df, 0.5 * y), ppf=lambda q, df: 2 * gammaincinv(0.5 * df, q),
    isf=lambda q, df: 2 * gammainccinv(0.5 * df, q),
)  # fmt: skip


def _upper_beta(y: Any, a: Any, b: Any) -> Any:
    """The probability of more than y of a beta variable, of which 1 - y would round away the digits of a small y."""
    lower = betainc(a, b, where(y < 0.5, y, 0.25))
    small = (y < 0.5) & (lower < 0.99)
    return where(small, 1 - lower, betainc(b, a, where(small, 0.5, 1 - y)))


beta = Distribution(
    "beta", "The beta distribution, x^(a-1) (1-x)^(b-1) / beta(a, b) for 0 <= x <= 1.", "a b", support=unit, valid=positive,
    logpdf=lambda y, a, b: xlogy(a - 1, y) + xlog1py(b - 1, -y) - betaln(a, b), cdf=lambda y, a, b: betainc(a, b, y),
    sf=_upper_beta, ppf=lambda q, a, b: betaincinv(a, b, q),
    isf=lambda q, a, b: 1 - betaincinv(b, a, q),
)  # fmt: skip


def _minus_cotangent(q: Any) -> Any:
    """-1 / tan(pi q), of a q outside (1/4, 3/4), by the nearer end."""
    low = q < 0.5
    return where(low, -1.0, 1.0) / tan(math.pi * where(abs(q - 0.5) < 0.25, 0.25, where(low, q, 1 - q)))


def _lower_t(y: Any, df: Any) -> Any:
    """The probability of less than y of Student's distribution, from that of df / (df + y^2), a beta variable."""
    ratio = y * y / df
    near, far = 0.5 * betainc(0.5, 0.5 * df, ratio / (1 + ratio)), 0.5 * betainc(0.5 * df, 0.5, 1 / (1 + ratio))
    return where(ratio < 1, 0.5 + sign(y) * near, where(y < 0, far, 1 - far))


def _t_quantile(q: Any, df: Any) -> Any:
    tail = minimum(q, 1 - q)
    x = betaincinv(0.5 * df, 0.5, 2 * tail)
    return sign(q - 0.5) * sqrt(df * (1 - x) / x)


t = Distribution(
    "t", "Student's distribution of df degrees of freedom.", "df", symmetric=True, valid=positive,
    logpdf=lambda y, df: -0.5 * (df + 1) * log1p(y * y / df) - 0.5 * log(df) - betaln(0.5 * df, 0.5),
    cdf=_lower_t, ppf=_t_quantile,
)  # fmt: skip
pareto = Distribution(
    "pareto", "Pareto's distribution, b / x^(b+1) for x >= 1.", "b", support=lambda b: (1.0, INF), valid=positive,
    logpdf=lambda y, b: log(b) - (b + 1) * log(y), logsf=lambda y, b: -b * log(y), ppf=lambda q, b: exp(-log1p(-q) / b),
    isf=lambda q, b: exp(-log(q) / b),
)  # fmt: skip
gennorm = Distribution(
    "gennorm", "The generalized normal distribution, beta / (2 gamma(1 / beta)) exp(-|x|^beta).", "beta", symmetric=True,
    valid=positive, logpdf=lambda y, beta: log(0.5 * beta) - gammaln(1 / beta) - abs(y) ** beta,
    cdf=lambda y, beta: 0.5 * where(y < 0, gammaincc(1 / beta, abs(y) ** beta), 1 + gammainc(1 / beta, abs(y) ** beta)),
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
