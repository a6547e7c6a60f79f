"""Distributions of whole numbers, and joint distributions."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.array import Array
from pullback.core.dtypes import kind
from pullback.lax.linalg import cholesky, triangular_solve
from pullback.numpy.creation import arange, diagonal
from pullback.numpy.elementary import exp, log, sqrt
from pullback.numpy.logic import where
from pullback.numpy.promotion import at_user_line, broadcast_shapes, in_dtype, operand, to_common_dtype
from pullback.numpy.reductions import all as all_of
from pullback.numpy.reductions import sum as total
from pullback.numpy.shaping import broadcast_to, concatenate
from pullback.scipy.special.gammas import betaln, gammaincc, gammaln
from pullback.scipy.special.probability import xlog1py, xlogy
from pullback.scipy.stats.continuous import from_zero, positive, unit
from pullback.scipy.stats.distribution import Distribution, Joint

INF = math.inf


def _up_to(n: Any, *shapes: Any) -> tuple[Any, Any]:
    return 0.0, n


def _probability(*shapes: Any) -> Any:
    """Whether the last shape parameter is a probability."""
    return (shapes[-1] >= 0) & (shapes[-1] <= 1)


def _log_choose(n: Any, k: Any) -> Any:
    return -log(n + 1) - betaln(n - k + 1, k + 1)


def _poisson_entropy(mu: Any) -> Any:
    """By its sum where mu is small; else by its asymptotic series. Source: Evans, Boersma, Blachman and Jagers, "The entropy of
    a Poisson distribution", SIAM Review 30 (1988), 314-317."""
    near, far = where(mu < 50, mu, 1.0), where(mu < 50, 50.0, mu)
    k = arange(2, 150, dtype=mu.dtype)
    log_factorial = gammaln(k + 1)
    terms = total(exp(xlogy(k, near[..., None]) - near[..., None] - log_factorial) * log_factorial, axis=-1)
    rest = (1 / 12 + (1 / 24 + (19 / 360 + (9 / 80 + 863 / 2520 / far) / far) / far) / far) / far
    return where(mu < 50, near - xlogy(near, near) + terms, 0.5 * log(2 * math.pi * math.e * far) - rest)


bernoulli = Distribution(
    "bernoulli", "1 with probability p, else 0.", "p", discrete=True, support=unit, valid=_probability,
    logpmf=lambda k, p: xlogy(k, p) + xlog1py(1 - k, -p), cdf=lambda k, p: where(k < 1, 1 - p, 1.0),
    ppf=lambda q, p: where(q <= 1 - p, 0.0, 1.0),
)  # fmt: skip
binom = Distribution(
    "binom", "How many of n trials succeed, each with probability p.", "n p", discrete=True, support=_up_to, valid=_probability,
    logpmf=lambda k, n, p: _log_choose(n, k) + xlogy(k, p) + xlog1py(n - k, -p),
)  # fmt: skip
betabinom = Distribution(
    "betabinom", "How many of n trials succeed, with a probability that is a beta variable.", "n a b", discrete=True,
    support=_up_to, valid=lambda n, a, b: positive(a, b),
    logpmf=lambda k, n, a, b: _log_choose(n, k) + betaln(k + a, n - k + b) - betaln(a, b),
)  # fmt: skip
geom = Distribution(
    "geom", "Which trial is the first that succeeds, each with probability p.", "p", discrete=True,
    support=lambda p: (1.0, INF), valid=_probability, logpmf=lambda k, p: xlog1py(k - 1, -p) + log(p),
)  # fmt: skip
nbinom = Distribution(
    "nbinom", "How many trials fail before n succeed, each with probability p.", "n p", discrete=True, support=from_zero,
    valid=_probability, logpmf=lambda k, n, p: -log(k + n) - betaln(n, k + 1) + n * log(p) + xlog1py(k, -p),
)  # fmt: skip
poisson = Distribution(
    "poisson", "Poisson's distribution, mu^k exp(-mu) / k!.", "mu", discrete=True, support=from_zero,
    valid=lambda mu: mu >= 0, logpmf=lambda k, mu: xlogy(k, mu) - mu - gammaln(k + 1),
    cdf=lambda k, mu: gammaincc(k + 1, mu), entropy=_poisson_entropy,
)  # fmt: skip


def _multinomial(x: Any, n: Any, p: Any) -> Array:
    (p,) = to_common_dtype("multinomial", p, inexact=True)
    counts = [operand(count, "multinomial") for count in (x, n)]
    counts = [in_dtype(count, p.type.dtype) if kind(count.type.dtype) in "biu" else count for count in counts]
    x, n, p = to_common_dtype("multinomial", *counts, p)
    out = gammaln(n + 1) + total(xlogy(x, p) - gammaln(x + 1), axis=-1)
    return where(total(x, axis=-1) == n, out, -INF)


def _dirichlet(x: Any, alpha: Any) -> Array:
    x, alpha = to_common_dtype("dirichlet", x, alpha, inexact=True)
    if x.ndim and alpha.shape[0] == x.shape[0] + 1:  # the last component is what is left
        x = concatenate([x, 1 - total(x, axis=0, keepdims=True)], axis=0)
    terms = alpha.reshape(alpha.shape + (1,) * (x.ndim - 1)) if alpha.ndim == 1 else alpha
    inside = (abs(total(x, axis=0) - 1) < 1e-3) & all_of(x >= 0, axis=0)
    out = total(xlogy(terms - 1, x), axis=0) + gammaln(total(alpha, axis=0)) - total(gammaln(alpha), axis=0)
    return where(inside, out, -INF)


def _multivariate_normal(x: Any, mean: Any, cov: Any, allow_singular: None = None) -> Array:
    if allow_singular:
        raise NotImplementedError(f"multivariate_normal.logpdf takes covariances with a Cholesky factor only.{at_user_line()}")
    x, mean, cov = to_common_dtype("multivariate_normal", x, mean, cov, inexact=True)
    off, size = x - mean, mean.shape[-1] if mean.ndim else 1
    if cov.ndim:
        factor = cholesky(cov)
        batch = broadcast_shapes("multivariate_normal", off.shape[:-1], cov.shape[:-2])
        factor, off = broadcast_to(factor, (*batch, size, size)), broadcast_to(off, (*batch, size))
        white = triangular_solve(factor, off[..., None], left_side=True, lower=True)[..., 0]
        log_det = 2 * total(log(diagonal(factor, axis1=-2, axis2=-1)), axis=-1)
    else:
        white, log_det = off / sqrt(cov), size * log(cov)
    squared = total(white * white, axis=-1) if mean.ndim else white * white
    return -0.5 * (squared + log_det + size * math.log(2 * math.pi))


multinomial = Joint(
    "multinomial", "How often each of several outcomes of probabilities p occurs in n trials.", "pmf", _multinomial
)
dirichlet = Joint("dirichlet", "Dirichlet's distribution of probabilities, with concentrations alpha.", "pdf", _dirichlet)
multivariate_normal = Joint(
    "multivariate_normal", "The normal distribution of vectors, of a mean and a covariance.", "pdf", _multivariate_normal
)
