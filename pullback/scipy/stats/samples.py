"""Statistics of samples: ranks, the commonest value, the error of a mean, and kernel density estimates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from pullback import lax, random
from pullback.api.mapping import vmap
from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.errors import ShapeError
from pullback.core.source import api_class
from pullback.core.trees import register_node
from pullback.lax.linalg import cholesky, triangular_solve
from pullback.nn.normalizing import logsumexp
from pullback.numpy.axes import normal_axis
from pullback.numpy.creation import diagonal, ones_like
from pullback.numpy.elementary import exp, log, sqrt
from pullback.numpy.logic import isnan, where
from pullback.numpy.mapped import apply_along_axis
from pullback.numpy.products import tensordot
from pullback.numpy.promotion import at_user_line, operand, refuse_complex, to_inexact
from pullback.numpy.reductions import any as any_of
from pullback.numpy.reductions import argmax, nanstd, std
from pullback.numpy.reductions import sum as total
from pullback.numpy.shaping import atleast_2d, concatenate, expand_dims, moveaxis
from pullback.numpy.sorting import searchsorted, sort
from pullback.scipy.special.probability import ndtr


def _check_policy(name: str, nan_policy: str, known: tuple[str, ...] = ("propagate",)) -> None:
    if nan_policy not in known:
        raise ValueError(f"{name} takes nan_policy={' or '.join(map(repr, known))}, not {brief(nan_policy)}.{at_user_line()}")


def rankdata(a: ArrayLike, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate") -> Array:
    """The ranks of the elements, from 1; where one is NaN, all are.

    Arguments:
        a: an array of any shape, real.
        method: what equal elements get: the "average" of their ranks, the "min", the "max", the same rank with no gap behind
            them ("dense"), or ranks in their order ("ordinal").
        axis: the axis along which to rank; all elements by default, as a vector.
        nan_policy: must be "propagate".

    Returns:
        A floating array of the shape of a, or a vector.

    Raises:
        LeafError: a is neither an array nor a number.
        AxisError: a has no such axis.
        ValueError: another method or policy.

    Example:
        >>> pb.scipy.stats.rankdata(pnp.array([3, 1, 4, 1]))
        [3.  1.5 4.  1.5]:f32[4]:cpu(0)
    """
    a = operand(a, "rankdata")
    refuse_complex("rankdata", a)
    _check_policy("rankdata", nan_policy)
    if method not in _RANKS:
        raise ValueError(f"rankdata takes method={', '.join(map(repr, _RANKS))}, not {brief(method)}.{at_user_line()}")

    def ranked(x: Any) -> Any:
        out = to_inexact(_RANKS[method](x, sort(x)), "rankdata")
        return where(any_of(isnan(x)), math.nan, out) if x.dtype.kind in "fV" else out

    return ranked(a.reshape(-1)) if axis is None else apply_along_axis(ranked, axis, a)


def _dense(x: Any, ordered: Any) -> Any:
    new = concatenate([ordered[:1] == ordered[:1], ordered[1:] != ordered[:-1]])
    return lax.cumsum(new.astype("int32"))[searchsorted(ordered, x)] if x.shape[0] else searchsorted(ordered, x)


def _ordinal(x: Any, ordered: Any) -> Any:
    places = lax.iota("int32", x.shape[0])
    _, order = lax.sort_key_val(x, places, is_stable=True)
    return places.at[order].set(places + 1)


_RANKS: dict[str, Callable[..., Any]] = {
    "average": lambda x, ordered: (searchsorted(ordered, x) + 1 + searchsorted(ordered, x, side="right")) / 2,
    "min": lambda x, ordered: searchsorted(ordered, x) + 1,
    "max": lambda x, ordered: searchsorted(ordered, x, side="right"),
    "dense": _dense,
    "ordinal": _ordinal,
}


class ModeResult(NamedTuple):
    """The commonest values, and how often they occur."""

    mode: Any
    count: Any


def mode(a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False) -> ModeResult:
    """The commonest value along an axis, the smallest of equally common ones, and how often it occurs.

    Arguments:
        a: an array of any shape, real.
        axis: an axis; None for all elements.
        nan_policy: must be "propagate".
        keepdims: keep the axis, of size 1.

    Returns:
        A named tuple of two arrays, `mode`, in the dtype of a, and `count`.

    Raises:
        LeafError: a is neither an array nor a number.
        AxisError: a has no such axis.
        ValueError: another policy.
        ShapeError: there are no elements along the axis.

    Example:
        >>> pb.scipy.stats.mode(pnp.array([3, 1, 4, 1]))
        ModeResult(mode=1:i32[]:cpu(0), count=2:i32[]:cpu(0))
    """
    a = operand(a, "mode")
    refuse_complex("mode", a)
    _check_policy("mode", nan_policy)
    rank = a.ndim
    axis, a = (0, a.reshape(-1)) if axis is None else (normal_axis(axis, rank, "mode"), a)
    if not a.shape[axis]:
        raise ShapeError(f"mode takes at least one element, but got {a.type}.{at_user_line()}")

    def commonest(x: Any) -> tuple[Any, Any]:
        ordered = sort(x)
        counts = searchsorted(ordered, ordered, side="right") - searchsorted(ordered, ordered)
        at = argmax(counts)
        return ordered[at], counts[at]

    rows = moveaxis(a, axis, -1)
    found = [each.reshape(rows.shape[:-1]) for each in vmap(commonest)(rows.reshape(-1, rows.shape[-1]))]
    if keepdims:
        found = [each.reshape((1,) * rank) if a.ndim != rank else expand_dims(each, axis) for each in found]
    return ModeResult(*found)


def sem(a: ArrayLike, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False) -> Array:
    """The standard error of the mean: the standard deviation over the root of how many there are.

    Arguments:
        a: an array of any shape.
        axis: an axis; None for all elements.
        ddof: what is subtracted from the number of elements, in the standard deviation.
        nan_policy: "propagate", or "omit" to leave NaN out.
        keepdims: keep the axis, of size 1.

    Returns:
        An array without the axis, of a floating dtype.

    Raises:
        LeafError: a is neither an array nor a number.
        AxisError: a has no such axis.
        ValueError: another policy.

    Example:
        >>> pb.scipy.stats.sem(pnp.array([1.0, 2.0, 3.0, 4.0]))
        0.6454972:f32[]:cpu(0)
    """
    a = to_inexact(a, "sem")
    _check_policy("sem", nan_policy, ("propagate", "omit"))
    spread = (nanstd if nan_policy == "omit" else std)(a, axis, ddof=ddof, keepdims=keepdims)
    known = total(where(isnan(a) if nan_policy == "omit" else False, 0.0, ones_like(a)), axis, keepdims=keepdims)
    return spread / sqrt(known)


@api_class
class gaussian_kde:
    """A kernel density estimate: the mean of normal densities around the points of a sample.

    Arguments:
        dataset: the sample, an array (n,) of numbers or (d, n) of vectors.
        bw_method: the width of a kernel in units of the sample's covariance: "scott" (the default), "silverman", a number, or a
            function of the estimate.
        weights: an array (n,) of weights of the points; equal by default.

    Attributes:
        dataset: the sample, (d, n). weights: the weights, of sum 1. covariance: that of a kernel. neff: the effective number of
            points. d, n: the sizes. factor: the width.

    Raises:
        ShapeError: there are less than two points, or the weights are of another size.
        ValueError: another `bw_method`.

    Example:
        >>> kde = pb.scipy.stats.gaussian_kde(pnp.array([0.0, 1.0, 1.5, 4.0]))
        >>> kde.evaluate(pnp.array([1.0, 10.0]))
        [2.1149439e-01 1.5427034e-06]:f32[2]:cpu(0)
    """

    def __init__(self, dataset: ArrayLike, bw_method: Any = None, weights: ArrayLike | None = None) -> None:
        data = atleast_2d(to_inexact(dataset, "gaussian_kde"))
        refuse_complex("gaussian_kde", data)
        self.dataset, (self.d, self.n) = data, data.shape
        given = ones_like(data[0]) if weights is None else to_inexact(weights, "gaussian_kde").astype(data.dtype)
        if self.n < 2 or given.shape != (self.n,):
            raise ShapeError(f"gaussian_kde takes two points or more and a weight for each, not {data.type}.{at_user_line()}")
        self.weights = given / total(given)
        self.neff = 1 / total(self.weights**2)
        rules = {"scott": self.neff ** (-1 / (self.d + 4)), "silverman": (self.neff * (self.d + 2) / 4) ** (-1 / (self.d + 4))}
        named = bw_method is None or isinstance(bw_method, str)
        factor: Any = rules.get(bw_method or "scott") if named else bw_method(self) if callable(bw_method) else bw_method
        if factor is None:
            raise ValueError(
                f"gaussian_kde takes bw_method='scott', 'silverman', a number or a function, not {brief(bw_method)}."
            )
        self.factor = factor
        off = data - (data @ self.weights)[:, None]
        self.covariance = (off * self.weights) @ off.T / (1 - 1 / self.neff) * factor**2
        self._root = cholesky(self.covariance)

    def logpdf(self, x: ArrayLike) -> Array:
        """The logarithm of the density.

        Arguments:
            x: points, an array (d, m), or (m,) of numbers.

        Returns:
            An array (m,).

        Example:
            >>> pb.scipy.stats.gaussian_kde(pnp.array([0.0, 1.0, 1.5, 4.0])).logpdf(100.0)
            [-2...]:f32[1]:cpu(0)
        """
        points: Any = atleast_2d(to_inexact(x, "gaussian_kde"))
        points = points.reshape(self.d, 1) if points.shape == (1, self.d) and self.d > 1 else points
        return self._log_mixture(points, self._root)

    def _log_mixture(self, points: Any, root: Any) -> Array:
        """The logarithm of the density of the sample's points with normal variables added to them, given a root of their
        covariance."""
        if points.shape[0] != self.d:
            raise ShapeError(f"This gaussian_kde is of {self.d} dimensions, but got points {points.type}.{at_user_line()}")
        white = [triangular_solve(root, each, left_side=True, lower=True) for each in (self.dataset, points)]
        apart = total((white[0][:, :, None] - white[1][:, None, :]) ** 2, axis=0)
        size = total(log(diagonal(root))) + 0.5 * self.d * math.log(2 * math.pi)
        return logsumexp(-0.5 * apart, axis=0, b=self.weights[:, None]) - size

    def evaluate(self, points: ArrayLike) -> Array:
        """The density.

        Arguments:
            points: an array (d, m), or (m,) of numbers.

        Returns:
            An array (m,).

        Example:
            >>> pb.scipy.stats.gaussian_kde(pnp.array([0.0, 1.0, 1.5, 4.0])).evaluate(1.0)
            [0.2...]:f32[1]:cpu(0)
        """
        return exp(self.logpdf(points))

    pdf = __call__ = evaluate

    def resample(self, key: Any, shape: tuple[int, ...] = ()) -> Array:
        """Draws from the density.

        Arguments:
            key: a key of `pullback.random`. shape: how many to draw.

        Returns:
            An array (d, *shape).

        Example:
            >>> kde = pb.scipy.stats.gaussian_kde(pnp.array([0.0, 1.0, 1.5, 4.0]))
            >>> kde.resample(pb.random.key(0), (3,)).shape
            (1, 3)
        """
        first, last = random.split(key)
        which = searchsorted(
            lax.cumsum(self.weights)[:-1], random.uniform(first, shape, dtype=self.dataset.dtype), side="right"
        )
        noise = random.normal(last, (self.d, *shape), dtype=self.dataset.dtype)
        return self.dataset[:, which] + tensordot(self._root, noise, axes=1)

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Array:
        """The probability between two numbers, of an estimate of one dimension.

        Arguments:
            low, high: numbers.

        Returns:
            A 0-d array.

        Example:
            >>> pb.scipy.stats.gaussian_kde(pnp.array([0.0, 1.0, 1.5, 4.0])).integrate_box_1d(-100.0, 100.0)
            1.0:f32[]:cpu(0)
        """
        if self.d != 1:
            raise ShapeError(f"integrate_box_1d is of one dimension, but this estimate has {self.d}.{at_user_line()}")
        edges = [(to_inexact(edge, "integrate_box_1d") - self.dataset[0]) / self._root[0, 0] for edge in (low, high)]
        return total(self.weights * (ndtr(edges[1]) - ndtr(edges[0])))

    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Array:
        """The integral of the density times that of a normal distribution.

        Arguments:
            mean: an array (d,), or a number. cov: an array (d, d), or a number.

        Returns:
            A 0-d array.

        Example:
            >>> pb.scipy.stats.gaussian_kde(pnp.array([0.0, 1.0, 1.5, 4.0])).integrate_gaussian(1.0, 0.5)
            0.1...:f32[]:cpu(0)
        """
        root = cholesky(self.covariance + to_inexact(cov, "integrate_gaussian"))
        return exp(self._log_mixture(to_inexact(mean, "integrate_gaussian").reshape(-1, 1), root))[0]

    def integrate_kde(self, other: gaussian_kde) -> Array:
        """The integral of the product of two densities.

        Arguments:
            other: a kernel density estimate of as many dimensions.

        Returns:
            A 0-d array.

        Example:
            >>> kde = pb.scipy.stats.gaussian_kde(pnp.array([0.0, 1.0, 1.5, 4.0]))
            >>> kde.integrate_kde(kde)
            0.1...:f32[]:cpu(0)
        """
        return total(other.weights * exp(self._log_mixture(other.dataset, cholesky(self.covariance + other.covariance))))


def _rebuilt(metadata: Any, children: Any) -> gaussian_kde:
    made = object.__new__(gaussian_kde)
    made.__dict__.update(zip(metadata[0], children), d=metadata[1], n=metadata[2])
    return made


_PARTS = ("dataset", "weights", "covariance", "factor", "neff", "_root")
register_node(gaussian_kde, lambda kde: ([getattr(kde, part) for part in _PARTS], (_PARTS, kde.d, kde.n)), _rebuilt)
