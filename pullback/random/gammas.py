"""The gamma distribution, and those that are made of it: beta, Dirichlet, chi-squared, F, Student's t, and numbers in balls.

A gamma number is found by rejection, so it is no smooth formula in the shape parameter a. Its derivative is that of the
quantile at a fixed probability (the implicit reparameterization of Figurnov, Mohamed and Mnih, arXiv:1805.08498).
"""

from __future__ import annotations

import functools
from typing import Any

from pullback.api.compiled import jit
from pullback.api.custom import custom_jvp, custom_vmap
from pullback.api.loops import while_loop
from pullback.api.mapping import vmap
from pullback.api.scans import map as each_alone
from pullback.core.array import Array, ArrayLike
from pullback.core.dtypes import DTypeLike
from pullback.core.errors import ShapeError
from pullback.core.source import at_user_line
from pullback.core.types import ShapeLike
from pullback.lax.elementwise import digamma
from pullback.lax.special import random_gamma_grad
from pullback.numpy.arithmetic import absolute
from pullback.numpy.creation import checked_shape
from pullback.numpy.elementary import exp, log, sqrt
from pullback.numpy.logic import where
from pullback.numpy.promotion import broadcast, literal_of
from pullback.numpy.promotion import operand as as_operand
from pullback.numpy.reductions import max as largest
from pullback.numpy.reductions import sum as total
from pullback.ops.generators import BY_DTYPE
from pullback.ops.stop_gradient import stop_gradient
from pullback.random.distributions import distribution
from pullback.random.keys import divided, sampler
from pullback.random.sampling import checked_dtype, drawn, parameters, rademacher


def _one(key: Any, a: Array, logarithm: bool) -> Array:
    """A gamma number, or its logarithm, for one shape parameter. Source: Marsaglia and Tsang, "A simple method for generating
    gamma variables" (2000)."""
    dtype = a.dtype
    zero, one, third = [literal_of(number, dtype) for number in (0.0, 1.0, 1 / 3)]
    large = a >= 1
    d = where(large, a, a + one) - third
    c = third / sqrt(d)

    def propose(state: Any) -> Any:
        key, other = divided(state[0])
        x = drawn(other, "normal", (), dtype)
        return key, x, one + x * c

    def step(state: Any) -> Any:
        key, for_x, for_u = divided(state[0], (3,))
        _, x, v = while_loop(lambda state: state[2] <= 0, propose, (for_x, zero, -one))
        return key, x * x, v * v * v, drawn(for_u, "uniform", (), dtype)

    def rejected(state: Any) -> Array:
        _, square, v, u = state
        return (u >= 1 - 0.0331 * (square * square)) & (log(u) >= square * 0.5 + d * ((1 - v) + log(v)))

    key, other = divided(key)
    v = while_loop(rejected, step, (key, zero, one, literal_of(2.0, dtype)))[2]
    if not logarithm:
        return d * v * where(large, one, (one - drawn(other, "uniform", (), dtype)) ** (1 / a))
    smaller = -drawn(other, "exponential", (), dtype)
    return log(d) + log(v) + where(large | (smaller == 0), zero, smaller * (1 / a))


def _one_by_one(logarithm: bool) -> Any:
    """Of keys of streams: each number by itself, in a batch too, as in JAX. Together, all would take the first key's bits."""

    @custom_vmap
    def alone(keys: Array, a: Array) -> Array:
        pairs = keys.reshape(-1), a.reshape(-1)
        return each_alone(lambda pair: _one(pair[0], pair[1], logarithm), pairs).reshape(a.shape)

    @alone.def_vmap
    def rule(size: int, batched: Any, *args: Array) -> Any:
        return alone(*[x if own else broadcast(x, (size, *x.shape)) for own, x in zip(batched, args)]), True

    return alone


@functools.partial(jit, static_argnames="logarithm")
def _many(key: Any, a: Array, *, logarithm: bool) -> Array:
    flat = a.reshape(-1)
    keys = divided(key, flat.shape)
    if BY_DTYPE[keys.type.dtype].streams:
        return _one_by_one(logarithm)(keys, flat).reshape(a.shape)
    return vmap(lambda one, each: _one(one, each, logarithm))(keys, flat).reshape(a.shape)


@functools.partial(custom_jvp, nondiff_argnums=(0,))
def _gamma(logarithm: bool, key: Array, a: Array) -> Array:
    made: Array = _many(key, a, logarithm=logarithm)
    return made


@_gamma.defjvp
def _gamma_jvp(logarithm: bool, primals: Any, tangents: Any) -> tuple[Array, Array]:
    key, a = primals
    out = _gamma(logarithm, key, a)
    if not logarithm:
        return out, random_gamma_grad(a, out) * tangents[1]
    # where x is so small that P(a, x) = x^a / Gamma(a + 1), log x = (log P + log Gamma(a + 1)) / a
    tiny = out < -25
    x = exp(where(tiny, 0, out))
    slope = where(tiny, (digamma(a + 1) - out) / a, random_gamma_grad(a, x) / x)
    return out, slope * tangents[1]


def _gammas(name: str, key: Array, a: Any, shape: Any, dtype: Any, logarithm: bool = False) -> Array:
    sizes, (a,) = parameters(name, shape, checked_dtype(name, dtype), a)
    made: Array = _gamma(logarithm, key, broadcast(a, sizes))
    return made


@distribution
def gamma(key: ArrayLike, a: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Array:
    """Numbers of the gamma distribution, with density x^(a-1) exp(-x) / Gamma(a); differentiable with respect to a.

    Arguments:
        key: a key.
        a: the shape parameter, positive. Where it is small, `loggamma` tells apart numbers that are 0 here.

    Example:
        >>> pb.random.gamma(pb.random.key(0), 2.0, (2,))
        [1.5897877 1.7599413]:f32[2]:cpu(0)
    """
    return _gammas("gamma", key, a, shape, dtype)  # type: ignore[arg-type]


@distribution
def loggamma(key: ArrayLike, a: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Array:
    """Logarithms of numbers of the gamma distribution; differentiable with respect to a.

    Arguments:
        key: a key.
        a: the shape parameter, positive.

    Example:
        >>> pb.random.loggamma(pb.random.key(0), 0.01, (2,))
        [-11.478928  -9.828522]:f32[2]:cpu(0)
    """
    return _gammas("loggamma", key, a, shape, dtype, logarithm=True)  # type: ignore[arg-type]


@distribution
def beta(key: ArrayLike, a: ArrayLike, b: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Array:
    """Numbers of the beta distribution, with density in proportion to x^(a-1) (1-x)^(b-1); differentiable with respect to both.

    Arguments:
        key: a key.
        a, b: the shape parameters, positive.

    Example:
        >>> pb.random.beta(pb.random.key(0), 2.0, 3.0, (2,))
        [0.23627363 0.49045956]:f32[2]:cpu(0)
    """
    wanted = checked_dtype("beta", dtype)
    sizes, shapes = parameters("beta", shape, wanted, a, b)
    x, y = [_gammas("beta", one, each, sizes, wanted, logarithm=True) for one, each in zip(divided(key), shapes)]
    most = stop_gradient(where(x > y, x, y))
    x, y = exp(x - most), exp(y - most)
    return x / (x + y)


@sampler
def dirichlet(key: ArrayLike, alpha: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Array:
    """Vectors of the Dirichlet distribution: positive numbers whose sum is 1; differentiable with respect to alpha.

    Arguments:
        key: a key.
        alpha: the concentrations, positive, along the last axis.
        shape: the shape of the result without its last axis; by default alpha's.
        dtype: a floating dtype; by default the default one.

    Returns:
        An array of that shape, with alpha's last axis, and dtype.

    Raises:
        LeafError: no key. ShapeError: several keys, or shapes that do not fit.
        DtypeError: another dtype.

    Example:
        >>> pb.random.dirichlet(pb.random.key(0), pnp.array([1.0, 2.0, 3.0]))
        [0.1422856  0.40488264 0.45283177]:f32[3]:cpu(0)
    """
    own = as_operand(alpha, "dirichlet", "alpha").type
    if not own.shape:
        raise ShapeError(f"dirichlet takes concentrations along an axis, but alpha is {own}.{at_user_line()}")
    sizes = own.shape[:-1] if shape is None else checked_shape(shape, "dirichlet")
    x = _gammas("dirichlet", key, alpha, (*sizes, own.shape[-1]), dtype, logarithm=True)  # type: ignore[arg-type]
    x = exp(x - largest(stop_gradient(x), axis=-1, keepdims=True, initial=-float("inf")))
    return x / total(x, axis=-1, keepdims=True)


@distribution
def chisquare(key: ArrayLike, df: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Array:
    """Numbers of the chi-squared distribution: sums of squares of normal numbers; differentiable with respect to df.

    Arguments:
        key: a key.
        df: the degrees of freedom, positive.

    Example:
        >>> pb.random.chisquare(pb.random.key(0), 3.0, (2,))
        [2.205084  2.4899669]:f32[2]:cpu(0)
    """
    wanted = checked_dtype("chisquare", dtype)
    sizes, (df,) = parameters("chisquare", shape, wanted, df)
    return 2 * exp(_gammas("chisquare", key, df / 2, sizes, wanted, logarithm=True))  # type: ignore[arg-type]


@distribution
def f(key: ArrayLike, dfnum: ArrayLike, dfden: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Array:
    """Numbers of the F distribution: ratios of means of squares; differentiable with respect to both parameters.

    Arguments:
        key: a key.
        dfnum, dfden: the degrees of freedom above and below, positive.

    Example:
        >>> pb.random.f(pb.random.key(0), 3.0, 5.0, (2,))
        [2.5797071  0.19219677]:f32[2]:cpu(0)
    """
    wanted = checked_dtype("f", dtype)
    sizes, (dfnum, dfden) = parameters("f", shape, wanted, dfnum, dfden)
    below, above = divided(key)
    squares = [_gammas("f", one, df / 2, sizes, wanted, logarithm=True) for one, df in ((above, dfnum), (below, dfden))]
    return exp(squares[0] - squares[1]) * (dfden / dfnum)  # by logarithms: of few degrees both squares may be below all numbers


@distribution
def t(key: ArrayLike, df: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Array:
    """Numbers of Student's t distribution; differentiable with respect to df.

    Arguments:
        key: a key.
        df: the degrees of freedom, positive.

    Example:
        >>> pb.random.t(pb.random.key(0), 3.0, (2,))
        [ 0.69022465 -3.2393365 ]:f32[2]:cpu(0)
    """
    wanted = checked_dtype("t", dtype)
    sizes, (df,) = parameters("t", shape, wanted, df)
    first, second = divided(key)
    half = df / 2
    return drawn(first, "normal", sizes, wanted) * exp(
        (log(half) - _gammas("t", second, half, sizes, wanted, logarithm=True)) / 2
    )


@sampler
def generalized_normal(key: ArrayLike, p: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = None) -> Array:
    """Numbers with density in proportion to exp(-|x|^p); differentiable with respect to p.

    Arguments:
        key: a key.
        p: the exponent, positive.
        shape: the shape of the result.
        dtype: a floating dtype; by default the default one.

    Returns:
        An array of that shape and dtype.

    Raises:
        LeafError: no key. ShapeError: several keys, or shapes that do not fit.
        DtypeError: another dtype.

    Example:
        >>> pb.random.generalized_normal(pb.random.key(0), 4.0, (2,))
        [0.87875676 0.10257509]:f32[2]:cpu(0)
    """
    wanted = checked_dtype("generalized_normal", dtype)
    sizes, (p,) = parameters("generalized_normal", shape, wanted, p)
    first, second = divided(key)
    size = exp(_gammas("generalized_normal", first, 1 / p, sizes, wanted, logarithm=True) / p)
    return rademacher(second, sizes, wanted) * size


@sampler
def ball(key: ArrayLike, d: int, p: ArrayLike = 2, shape: ShapeLike = (), dtype: DTypeLike = None) -> Array:
    """Points that are spread evenly over the unit ball of the p-norm.

    Arguments:
        key: a key.
        d: the dimension of the space, an int.
        p: the exponent of the norm, positive.
        shape: the shape of the result without its last axis.
        dtype: a floating dtype; by default the default one.

    Returns:
        An array of the shape (*shape, d) and of that dtype.

    Raises:
        LeafError: no key. ShapeError: several keys, or no shape.
        DtypeError: another dtype.

    Example:
        >>> pb.random.ball(pb.random.key(0), 3)
        [0.91715974 0.39274207 0.0116535 ]:f32[3]:cpu(0)

    Source: Barthe, Guedon, Mendelson and Naor, "A probabilistic approach to the geometry of the l_p^n-ball" (2005).
    """
    wanted, sizes = checked_dtype("ball", dtype), checked_shape((*checked_shape(shape, "ball"), d), "ball")
    _, (p,) = parameters("ball", (), wanted, p)
    first, second = divided(key)
    g = generalized_normal(first, p, sizes, wanted)
    e = drawn(second, "exponential", sizes[:-1], wanted)
    return g / ((total(absolute(g) ** p, axis=-1) + e) ** (1 / p))[..., None]
