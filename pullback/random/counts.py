"""Numbers of events: Poisson, binomial and multinomial distributions, by loops that end when every number is accepted."""

from __future__ import annotations

import functools
import math
from typing import Any

from pullback.api.compiled import jit
from pullback.api.loops import scan, while_loop
from pullback.core.array import Array, ArrayLike
from pullback.core.dtypes import FLOAT32, INT32, DType, DTypeLike
from pullback.core.errors import ShapeError
from pullback.core.source import at_user_line
from pullback.core.types import ShapeLike
from pullback.numpy.arithmetic import absolute, ceil, floor
from pullback.numpy.creation import array, full, zeros
from pullback.numpy.dtypes import iinfo
from pullback.numpy.elementary import log, log1p, sqrt
from pullback.numpy.logic import clip, isinf, where
from pullback.numpy.promotion import broadcast, in_dtype, to_common_dtype, to_inexact
from pullback.numpy.reductions import any as some
from pullback.numpy.scans import cumsum
from pullback.numpy.shaping import flip, moveaxis
from pullback.ops.random import log_factorial
from pullback.random.distributions import counting
from pullback.random.keys import divided, sampler
from pullback.random.sampling import checked_dtype, drawn, parameters


@counting
def poisson(key: ArrayLike, lam: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Array:
    """Numbers of the Poisson distribution: of events that are independent of each other, in a given time.

    Arguments:
        key: a key.
        lam: the mean, taken in float32; of NaN or a negative number the result is -1.

    Example:
        >>> pb.random.poisson(pb.random.key(0), 3.0, (4,))
        [0 0 4 4]:i32[4]:cpu(0)

    Source: Knuth, "The Art of Computer Programming", volume 2, 3.4.1, where lam < 10; otherwise Hörmann, "The transformed
    rejection method for generating Poisson random variables" (1993), algorithm PTRS.
    """
    wanted = checked_dtype("poisson", dtype, "iu")
    sizes, (lam,) = parameters("poisson", shape, FLOAT32, lam)
    made: Array = _poisson(key, broadcast(lam, sizes), dtype=wanted)
    return made


@functools.partial(jit, static_argnames="dtype")
def _poisson(key: Any, lam: Array, *, dtype: DType) -> Array:
    few, endless = (lam != lam) | (lam < 10), lam == math.inf
    counted = _by_products(key, where(few, lam, 0), dtype)
    rejected = _by_rejection(key, where(few | endless, 1e5, lam), dtype)
    found = where(few, counted, where(endless, int(iinfo(dtype).max), rejected))
    return where(lam == 0, 0, found)


def _by_products(key: Any, lam: Array, dtype: DType) -> Array:
    """How many uniform numbers can be multiplied before the product falls below exp(-lam)."""

    def step(state: Any) -> Any:
        count, key, total = state
        key, other = divided(key)
        count = where(total > -lam, count + 1, count)
        return count, key, total + log(drawn(other, "uniform", lam.shape, FLOAT32))

    start = zeros(lam.shape, dtype), key, zeros(lam.shape, FLOAT32)
    return while_loop(lambda state: some(state[2] > -lam), step, start)[0] - 1


def _accepted(propose: Any, key: Any, like: Array) -> Array:
    """In each place the last proposal that is accepted, until there is one in all; `propose(u, v)`, of two uniform numbers,
    returns it, and whether it is. (The last: while others wait, a place goes on, as JAX's do.)"""

    def step(state: Any) -> Any:
        found, done, key = state
        key, *others = divided(key, (3,))
        number, accept = propose(*[drawn(other, "uniform", like.shape, like.dtype) for other in others])
        return where(accept, number, found), done | accept, key

    start = full(like.shape, -1, like.dtype), full(like.shape, False), key
    end: Array = while_loop(lambda state: some(~state[1]), step, start)[0]
    return end


def _deviance(k: Array, mean: Array) -> Array:
    """k log(k / mean) - k + mean, without loss of digits: by how much k is less likely than the mean, where both are large."""
    step = (k - mean) / mean
    return mean * ((1 + step) * log1p(step) - step)


def _by_rejection(key: Any, lam: Array, dtype: DType) -> Array:
    b = 0.931 + 2.53 * sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    limit = 0.9277 - 3.6224 / (b - 2)
    log_lam = log(lam)

    def propose(u: Array, v: Array) -> tuple[Array, Array]:
        u = u - 0.5
        edge = 0.5 - absolute(u)
        k = floor((2 * a / edge + b) * u + lam + 0.43)
        s = log(v * inverse_alpha / (a / (edge * edge) + b))
        t = where(lam < 1e4, -lam + k * log_lam - log_factorial(k + 1), -_deviance(k, lam) - 0.5 * log(2 * math.pi * k))
        rejected = (k < 0) | ((edge < 0.013) & (v > edge))
        return k, ((edge >= 0.07) & (v <= limit)) | (~rejected & (s <= t))

    return in_dtype(_accepted(propose, key, lam), dtype)


@sampler
def binomial(key: ArrayLike, n: ArrayLike, p: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Array:
    """Numbers of the binomial distribution: of successes in n trials.

    Arguments:
        key: a key.
        n: how many trials; NaN or a negative number gives NaN, infinity infinity.
        p: the probability of success in one.
        shape: the shape of the result, to which the parameters broadcast; by default their common shape.
        dtype: a floating dtype; by default the default one.

    Returns:
        An array of that shape and dtype, of whole numbers.

    Raises:
        LeafError: no key. ShapeError: several keys, or shapes that do not fit.
        DtypeError: another dtype.

    Example:
        >>> pb.random.binomial(pb.random.key(0), 20.0, 0.3, (4,))
        [6. 4. 6. 5.]:f32[4]:cpu(0)

    Source: where n p <= 10 sums of geometric numbers; otherwise Hörmann, "The generation of binomial random variates" (1993),
    algorithm BTRS.
    """
    wanted = checked_dtype("binomial", dtype)
    chance = to_inexact(p, "binomial")
    sizes, (count, chance) = parameters("binomial", shape, chance.type.dtype, n, chance)
    made: Array = _binomial(key, broadcast(count, sizes), broadcast(chance, sizes), dtype=wanted)
    return made


@functools.partial(jit, static_argnames="dtype")
def _binomial(key: Any, count: Array, p: Array, *, dtype: DType) -> Array:
    rare = p < 0.5
    q = where(rare, p, 1.0 - p)
    senseless, endless, wrong = (count != count) | (count < 0), isinf(count), (q != q) | (q < 0)
    q = where(wrong, 0.01, q)
    few = senseless | (count * q <= 10.0)
    count = floor(count)
    sums = _by_waiting(key, where(few, count, 0.0), q)
    rejected = _by_squeezing(key, where(few | endless, 1e4, count), where(few | endless, 0.5, q))
    found = in_dtype(where(few, sums, rejected), dtype)
    found = where(endless & ~(wrong | senseless), math.inf, where(wrong | senseless, math.nan, found))
    return where(rare | senseless | wrong | endless, found, in_dtype(count, dtype) - found)


def _by_waiting(key: Any, count: Array, p: Array) -> Array:
    """How many waiting times, of geometric distribution, there are within `count` trials."""
    scale = log1p(-p)

    def step(state: Any) -> Any:
        found, total, key = state
        other, key = divided(key)
        found = where(total <= count, found + 1, found)
        return found, total + ceil(log(drawn(other, "uniform", p.shape, p.dtype)) / scale), key

    nothing = zeros(p.shape, p.dtype)
    return while_loop(lambda state: some(state[1] <= count), step, (nothing, nothing, key))[0] - 1


# log k! less Stirling's formula for it, log sqrt(2 pi) + (k + 1/2) log(k + 1) - (k + 1), for k = 0, ..., 9
_REMAINDERS = [math.lgamma(k + 1) - 0.5 * math.log(2 * math.pi) - (k + 0.5) * math.log(k + 1) + (k + 1) for k in range(10)]


def _remainder(k: Array) -> Array:
    """What Stirling's formula for log k! lacks."""
    inverse = 1 / ((k + 1) * (k + 1))
    series = (1 / 12 - (1 / 360 - inverse / 1260) * inverse) / (k + 1)
    return where(k <= 9, array(_REMAINDERS, k.dtype)[in_dtype(clip(k, 0.0, 9.0), INT32)], series)


def _by_squeezing(key: Any, count: Array, p: Array) -> Array:
    deviation = sqrt(count * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = count * p + 0.5
    limit = 0.92 - 4.2 / b
    r = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = floor((count + 1) * p)
    many = deviation > 300

    def unlikely(k: Array) -> Array:
        return _deviance(k, count * p) + _deviance(count - k, count * (1 - p)) + 0.5 * log(k / mode * ((count - k) / count))

    def propose(u: Array, v: Array) -> tuple[Array, Array]:
        u = u - 0.5
        edge = 0.5 - absolute(u)
        k = floor((2 * a / edge + b) * u + c)
        bound = (
            (mode + 0.5) * log((mode + 1) / (r * (count - mode + 1)))
            + (count + 1) * log((count - mode + 1) / (count - k + 1))
            + (k + 0.5) * log(r * (count - k + 1) / (k + 1))
            + _remainder(mode)
            + _remainder(count - mode)
            - _remainder(k)
            - _remainder(count - k)
        )
        bound = where(many, unlikely(mode) - unlikely(k), bound)
        accepted = log(v * alpha / (a / (edge * edge) + b)) <= bound
        return k, ((edge >= 0.07) & (v <= limit)) | ((k >= 0) & (k <= count) & accepted)

    return _accepted(propose, key, count)


@sampler
def multinomial(
    key: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    *,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = None,
    unroll: int | bool = 1,
) -> Array:
    """How often each outcome comes in n trials.

    Arguments:
        key: a key.
        n: how many trials: a number, or an array that broadcasts to the shape without its last axis.
        p: the probabilities of the outcomes, along the last axis.
        shape: the shape of the result, whose last axis is that of p; by default p's.
        dtype: a floating dtype; by default the default one.
        unroll: how many outcomes a step of the compiled loop has, as of `pb.lax.scan`.

    Returns:
        An array of that shape and dtype, of whole numbers.

    Raises:
        LeafError: no key. ShapeError: several keys, or shapes that do not fit.
        DtypeError: another dtype.

    Example:
        >>> pb.random.multinomial(pb.random.key(0), 100, pnp.array([0.2, 0.3, 0.5]))
        [14. 25. 61.]:f32[3]:cpu(0)
    """
    count, chance = to_common_dtype("multinomial", n, p, inexact=True)
    wanted = checked_dtype("multinomial", dtype)
    sizes, (chance,) = parameters("multinomial", chance.type.shape if shape is None else shape, chance.type.dtype, chance)
    if not sizes:
        raise ShapeError(f"multinomial takes probabilities along an axis, but p is {chance.type}.{at_user_line()}")
    _, (count,) = parameters("multinomial", sizes[:-1], chance.type.dtype, count)
    chances = moveaxis(broadcast(chance, sizes), -1, 0)
    rest = flip(cumsum(flip(chances, 0), 0), 0)

    def draw(left: Array, given: Any) -> tuple[Array, Array]:
        share, other = given
        found = binomial(other, left, clip(share, 0.0, 1.0), dtype=left.dtype)
        return left - found, found

    given = chances / where(rest == 0, 1, rest), divided(key, (sizes[-1],))
    return in_dtype(moveaxis(scan(draw, broadcast(count, sizes[:-1]), given, unroll=unroll)[1], 0, -1), wanted)
