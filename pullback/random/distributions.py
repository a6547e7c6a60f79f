"""Distributions with parameters, each of which follows from those of `sampling`: formulas in their numbers.

Where a formula is smooth in a parameter, so is the number that is drawn: its derivative with key and bits held fast.
"""

from __future__ import annotations

from pullback.core.array import Array, ArrayLike
from pullback.core.dtypes import DTypeLike
from pullback.core.types import ShapeLike
from pullback.numpy.arithmetic import floor
from pullback.numpy.creation import checked_shape
from pullback.numpy.elementary import exp, log, log1p, sqrt, square
from pullback.numpy.logic import where
from pullback.numpy.promotion import broadcast_shapes, to_inexact
from pullback.numpy.promotion import in_dtype as converted
from pullback.numpy.reductions import sum as total
from pullback.random.keys import F, divided, sampler
from pullback.random.sampling import checked_dtype, drawn, drawn_above_zero, normal, parameters, rademacher

_COMMON = """
        shape: the shape of the result, to which the parameters broadcast; by default their common shape.
        dtype: a floating dtype, in which the parameters are taken; by default the default one.

    Returns:
        An array of that shape and dtype.

    Raises:
        LeafError: no key. ShapeError: several keys, or shapes that do not fit.
        DtypeError: another dtype.

    Example:"""


def distribution(function: F) -> F:
    """A `sampler` whose docstring names its own parameters alone: what all distributions share is added before its example."""
    function.__doc__ = (function.__doc__ or "").replace("\n\n    Example:", _COMMON)
    return sampler(function)


def counting(function: F) -> F:
    """As `distribution`, of whole numbers."""
    function.__doc__ = (function.__doc__ or "").replace(
        "\n\n    Example:", _COMMON.replace("a floating dtype, in which the parameters are taken;", "an integer dtype;")
    )
    return sampler(function)


@distribution
def lognormal(key: ArrayLike, sigma: ArrayLike = 1.0, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Array:
    """exp(sigma z) of normal numbers z.

    Arguments:
        key: a key.
        sigma: the standard deviation of the logarithm. `dtype` may be complex.

    Example:
        >>> pb.random.lognormal(pb.random.key(0), 0.5, (2,))
        [2.2508798 2.7528381]:f32[2]:cpu(0)
    """
    wanted = checked_dtype("lognormal", dtype, "fc")
    sizes, (sigma,) = parameters("lognormal", shape, wanted, sigma)
    return exp(normal(key, sizes, wanted) * sigma)


@distribution
def pareto(key: ArrayLike, b: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Array:
    """Numbers of the Pareto distribution, with density b x^(-b - 1) for x >= 1.

    Arguments:
        key: a key.
        b: the exponent, positive.

    Example:
        >>> pb.random.pareto(pb.random.key(0), 3.0, (2,))
        [2.673467  3.6007476]:f32[2]:cpu(0)
    """
    wanted = checked_dtype("pareto", dtype)
    sizes, (b,) = parameters("pareto", shape, wanted, b)
    return exp(drawn(key, "exponential", sizes, wanted) / b)


@distribution
def rayleigh(key: ArrayLike, scale: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Array:
    """Numbers of the Rayleigh distribution, the length of a normal vector in the plane.

    Arguments:
        key: a key.
        scale: the standard deviation of each coordinate.

    Example:
        >>> pb.random.rayleigh(pb.random.key(0), 1.0, (2,))
        [0.32787833 0.20810027]:f32[2]:cpu(0)
    """
    wanted = checked_dtype("rayleigh", dtype)
    sizes, (scale,) = parameters("rayleigh", shape, wanted, scale)
    return scale * sqrt(-2 * log(drawn_above_zero(key, sizes, wanted)))


@distribution
def triangular(
    key: ArrayLike,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = None,
) -> Array:
    """Numbers of the triangular distribution: its density rises from `left` to `mode`, and falls to `right`.

    Arguments:
        key: a key.
        left, mode, right: the corners, in that order.

    Example:
        >>> pb.random.triangular(pb.random.key(0), 0.0, 1.0, 2.0, (2,))
        [1.6764787 1.7930212]:f32[2]:cpu(0)
    """
    wanted = checked_dtype("triangular", dtype)
    sizes, (left, mode, right) = parameters("triangular", shape, wanted, left, mode, right)
    u = drawn(key, "uniform", sizes, wanted)
    rising = u < (mode - left) / (right - left)
    share = where(rising, u * (mode - left), (1 - u) * (right - mode))
    return where(rising, left + (root := sqrt(share * (right - left))), right - root)


@distribution
def wald(key: ArrayLike, mean: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Array:
    """Numbers of the Wald (inverse Gaussian) distribution with scale 1: when Brownian motion that drifts reaches a place first.

    Arguments:
        key: a key.
        mean: the mean, positive.

    Example:
        >>> pb.random.wald(pb.random.key(0), 1.0, (2,))
        [0.38059756 0.4156653 ]:f32[2]:cpu(0)

    Source: Michael, Schucany and Haas, "Generating random variates using transformations with multiple roots" (1976).
    """
    wanted = checked_dtype("wald", dtype)
    sizes, (mean,) = parameters("wald", shape, wanted, mean)
    first, second = divided(key)
    w = mean * square(drawn(first, "normal", sizes, wanted))
    larger = 1 + w / 2 + sqrt(w * (1 + w / 4))  # of the two roots, times 1 / mean: from it the other, which would cancel
    return where(drawn(second, "uniform", sizes, wanted) <= larger / (larger + 1), mean / larger, mean * larger)


@counting
def geometric(key: ArrayLike, p: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Array:
    """Numbers of trials up to the first success.

    Arguments:
        key: a key.
        p: the probability of success in one trial.

    Example:
        >>> pb.random.geometric(pb.random.key(0), 0.2, (4,))
        [1 1 5 4]:i32[4]:cpu(0)
    """
    wanted = checked_dtype("geometric", dtype, "iu")
    chance = to_inexact(p, "geometric")
    sizes, (chance,) = parameters("geometric", shape, chance.type.dtype, chance)
    return converted(floor(log(drawn_above_zero(key, sizes, chance.type.dtype)) / log1p(-chance)) + 1, wanted)


@sampler
def weibull_min(
    key: ArrayLike, scale: ArrayLike, concentration: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = None
) -> Array:
    """Numbers of the Weibull distribution, with distribution function 1 - exp(-(x / scale)^concentration).

    Arguments:
        key: a key.
        scale, concentration: positive numbers, or arrays that broadcast with the shape.
        shape: the shape of what is drawn.
        dtype: a floating dtype; by default the default one.

    Returns:
        An array of that dtype, of the common shape of `shape` and the parameters.

    Raises:
        LeafError: no key. ShapeError: several keys, or shapes that do not fit.
        DtypeError: another dtype.

    Example:
        >>> pb.random.weibull_min(pb.random.key(0), 2.0, 1.5, (2,))
        [4.1139336 4.9072957]:f32[2]:cpu(0)
    """
    wanted = checked_dtype("weibull_min", dtype)
    own, (scale, concentration) = parameters("weibull_min", None, wanted, scale, concentration)
    sizes = checked_shape(shape, "weibull_min")
    broadcast_shapes("weibull_min", own, sizes)
    return drawn(key, "exponential", sizes, wanted) ** (1.0 / concentration) * scale


@sampler
def maxwell(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = None) -> Array:
    """Numbers of the Maxwell distribution: the length of a normal vector in space.

    Arguments:
        key: a key.
        shape: the shape of the result.
        dtype: a floating dtype; by default the default one.

    Returns:
        An array of that shape and dtype.

    Raises:
        LeafError: no key. ShapeError: several keys, or no shape.
        DtypeError: another dtype.

    Example:
        >>> pb.random.maxwell(pb.random.key(0), (2,))
        [2.6310966 0.9910329]:f32[2]:cpu(0)
    """
    sizes, wanted = checked_shape(shape, "maxwell"), checked_dtype("maxwell", dtype)
    return sqrt(total(square(drawn(key, "normal", (*sizes, 3), wanted)), axis=-1))


@sampler
def double_sided_maxwell(
    key: ArrayLike, loc: ArrayLike, scale: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = None
) -> Array:
    """loc + scale s m, with a sign s of its own for each number m of the Maxwell distribution.

    Arguments:
        key: a key.
        loc, scale: numbers or arrays.
        shape: what stands in front of the parameters' common shape in the result; if empty, that shape once more, as in JAX.
        dtype: a floating dtype; by default the default one.

    Returns:
        An array of that dtype.

    Raises:
        LeafError: no key. ShapeError: several keys, or shapes that do not fit.
        DtypeError: another dtype.

    Example:
        >>> pb.random.double_sided_maxwell(pb.random.key(0), 1.0, 2.0, (2,))
        [4.091442  4.1482553]:f32[2]:cpu(0)
    """
    wanted = checked_dtype("double_sided_maxwell", dtype)
    own, (loc, scale) = parameters("double_sided_maxwell", None, wanted, loc, scale)
    sizes = (checked_shape(shape, "double_sided_maxwell") or own) + own
    first, second = divided(key)
    return rademacher(second, sizes, wanted) * maxwell(first, sizes, wanted) * scale + loc
