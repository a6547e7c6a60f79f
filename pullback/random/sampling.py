"""The laws that take no parameters but limits, and what is chosen uniformly: bits, numbers, normal ones and their kin."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.api.compiled import jit
from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.dtypes import FLOAT32, INT32, DType, DTypeLike, accumulation_dtype, default_dtype, in_words, kind, requested
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.source import at_user_line
from pullback.core.tracing import Tracer
from pullback.core.types import Shape, ShapeLike
from pullback.lax.elementwise import clz, erf, nextafter, shift_left, shift_right_logical
from pullback.lax.elementwise import complex as joined
from pullback.lax.sorting import top_k
from pullback.numpy.axes import normal_axis
from pullback.numpy.creation import checked_shape
from pullback.numpy.dtypes import finfo, iinfo
from pullback.numpy.elementary import exp, expm1, log, log1p, sqrt
from pullback.numpy.factories import named
from pullback.numpy.logic import clip, less, where
from pullback.numpy.promotion import broadcast, broadcast_shapes, in_dtype, literal_of, number_or_operand, real_dtype, strong
from pullback.numpy.promotion import operand as as_operand
from pullback.numpy.reductions import argmax
from pullback.numpy.shaping import moveaxis
from pullback.ops import random as primitives
from pullback.ops.convert import bitcast_convert_type, convert_element_type
from pullback.ops.error_functions import log_ndtr
from pullback.ops.generators import BY_DTYPE, UINT32
from pullback.ops.literals import literal
from pullback.ops.stop_gradient import stop_gradient
from pullback.random.keys import divided, sampler


def checked_dtype(name: str, dtype: DTypeLike, kinds: str = "f") -> DType:
    """The dtype that was asked for, by default the default one of the first kind, if it is of one of the kinds."""
    found = default_dtype(kinds[0]) if dtype is None else requested(dtype)
    if kind(found) not in kinds:
        raise DtypeError(f"{name} draws numbers of a dtype that is {in_words(kinds)}, not {found.name}.{at_user_line()}")
    return found


def fitting(name: str, own: Shape, shape: ShapeLike | None) -> Shape:
    """The shape of a result, by default the common one of the parameters, which must broadcast to it."""
    sizes = own if shape is None else checked_shape(shape, name)
    if broadcast_shapes(name, own, sizes) != sizes:
        raise ShapeError(
            f"{name}: parameters of shape {own} do not broadcast to shape={sizes}. Leave shape out, or give it axes for"
            f" theirs.{at_user_line()}"
        )
    return sizes


def parameters(name: str, shape: ShapeLike | None, dtype: DType, *values: ArrayLike) -> tuple[Shape, list[Array]]:
    """The shape of a result, by default the common one of the parameters, to which these must broadcast; and the parameters in
    its dtype, each of that shape or 0-d."""
    given = [strong(in_dtype(number_or_operand(value, name), dtype)) for value in values]
    own = broadcast_shapes(name, (), *[value.type.shape for value in given])
    sizes = fitting(name, own, shape)
    return sizes, [value if not value.type.shape else broadcast(value, sizes) for value in given]


def drawn(key: Any, law: str, shape: Shape, dtype: DType) -> Array:
    """Numbers of a law, one from each block of the key's bits."""
    return primitives.draw(key, law=law, shape=shape, dtype=dtype)


def drawn_above_zero(key: Any, shape: Shape, dtype: DType) -> Array:
    """Uniform numbers for a logarithm: where all bits are 0, half of the smallest number that has another."""
    unit = drawn(key, "uniform", shape, dtype)
    return where(unit == 0, literal_of(0.5 * float(finfo(dtype).eps), dtype), unit)


@sampler
def bits(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = None) -> Array:
    """Random bits: whole numbers, each of a dtype's equally likely.

    Arguments:
        key: a key.
        shape: the shape of the result.
        dtype: an unsigned integer dtype; by default that of 32 bits, or 64 where those are the default.

    Returns:
        An array of that shape and dtype.

    Raises:
        LeafError: no key. ShapeError: several keys, or no shape.
        DtypeError: another dtype.

    Example:
        >>> pb.random.bits(pb.random.key(0), (2,), "uint8")
        [167 146]:u8[2]:cpu(0)
    """
    return drawn(key, "bits", checked_shape(shape, "bits"), checked_dtype("bits", dtype, "u"))


@sampler
def uniform(
    key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = None, minval: ArrayLike = 0.0, maxval: ArrayLike = 1.0
) -> Array:
    """Numbers from `minval` up to `maxval`, which is not reached but by rounding; differentiable with respect to both.

    Arguments:
        key: a key.
        shape: the shape of the result.
        dtype: a floating dtype; by default the default one.
        minval, maxval: numbers, or arrays that broadcast to the shape.

    Returns:
        An array of that shape and dtype.

    Raises:
        LeafError: no key. ShapeError: several keys, or shapes that do not fit.
        DtypeError: another dtype.

    Example:
        >>> pb.random.uniform(pb.random.key(0), (2,))
        [0.947667  0.9785799]:f32[2]:cpu(0)
    """
    wanted = checked_dtype("uniform", dtype)
    sizes = checked_shape(shape, "uniform")
    if minval.__class__ in (int, float) and maxval.__class__ in (int, float):
        if (minval, maxval) == (0, 1):
            return drawn(key, "uniform", sizes, wanted)
        low, high = literal_of(minval, wanted), literal_of(maxval, wanted)
    else:
        sizes, (low, high) = parameters("uniform", sizes, wanted, minval, maxval)
    return primitives.spread(drawn(key, "uniform", sizes, wanted), low, high)


@sampler
def normal(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = None) -> Array:
    """Numbers of the standard normal distribution, by the inverse of its distribution function. Complex ones have two parts of
    variance 1/2.

    Arguments:
        key: a key.
        shape: the shape of the result.
        dtype: a floating or complex dtype; by default the default floating one.

    Returns:
        An array of that shape and dtype.

    Raises:
        LeafError: no key. ShapeError: several keys, or no shape.
        DtypeError: another dtype.

    Example:
        >>> pb.random.normal(pb.random.key(0), (2,))
        [1.6226422 2.0252647]:f32[2]:cpu(0)
    """
    sizes, wanted = checked_shape(shape, "normal"), checked_dtype("normal", dtype, "fc")
    if kind(wanted) == "f":
        return drawn(key, "normal", sizes, wanted)
    keys = divided(key)
    parts = [drawn(keys[i], "normal", sizes, real_dtype(wanted)) for i in range(2)]
    return joined(*parts) / math.sqrt(2)


_LAW = """    Arguments:
        key: a key.
        shape: the shape of the result.
        dtype: a floating dtype; by default the default one.

    Returns:
        An array of that shape and dtype.

    Raises:
        LeafError: no key. ShapeError: several keys, or no shape.
        DtypeError: another dtype."""


def _of_law(name: str, doc: str) -> Callable[..., Array]:
    def sample(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = None) -> Array:
        return drawn(key, name, checked_shape(shape, name), checked_dtype(name, dtype))

    return sampler(named(sample, name, doc, _LAW, "pullback.random"))


exponential = _of_law(
    "exponential",
    """Numbers of the exponential distribution of mean 1, with density exp(-x) for x >= 0.

    Example:
        >>> pb.random.exponential(pb.random.key(0), (2,))
        [2.950128  3.8434246]:f32[2]:cpu(0)
    """,
)
laplace = _of_law(
    "laplace",
    """Numbers of the Laplace distribution, with density exp(-|x|) / 2.

    Example:
        >>> pb.random.laplace(pb.random.key(0), (2,))
        [-2.2569816 -3.1502788]:f32[2]:cpu(0)
    """,
)
logistic = _of_law(
    "logistic",
    """Numbers of the logistic distribution, whose distribution function is 1 / (1 + exp(-x)).

    Example:
        >>> pb.random.logistic(pb.random.key(0), (2,))
        [2.896376  3.8217716]:f32[2]:cpu(0)
    """,
)
cauchy = _of_law(
    "cauchy",
    """Numbers of the Cauchy distribution, with density 1 / (pi (1 + x^2)), which has no mean.

    Example:
        >>> pb.random.cauchy(pb.random.key(0), (2,))
        [ 6.0274944 14.837895 ]:f32[2]:cpu(0)
    """,
)


@sampler
def gumbel(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = None, mode: str | None = None) -> Array:
    """Numbers of the Gumbel distribution, with distribution function exp(-exp(-x)): the largest of many exponential ones.

    Arguments:
        key: a key.
        shape: the shape of the result.
        dtype: a floating dtype; by default the default one.
        mode: "low" (None), from one random number; "high", from two, so that large values are not cut off where one number has
            no more digits, at 16.6 in float32; "highest", in float32 from 64 bits, so that small values are exact too, and else
            as "high".

    Returns:
        An array of that shape and dtype.

    Raises:
        LeafError: no key. ShapeError: several keys, or no shape.
        DtypeError: another dtype. ValueError: another mode.

    Example:
        >>> pb.random.gumbel(pb.random.key(0), (2,))
        [2.9233725 3.8326178]:f32[2]:cpu(0)
    """
    sizes, wanted = checked_shape(shape, "gumbel"), checked_dtype("gumbel", dtype)
    if mode not in (None, "low", "high", "highest"):
        raise ValueError(f"gumbel takes mode='low', 'high' or 'highest', not {brief(mode)}.{at_user_line()}")
    if mode == "highest" and wanted is FLOAT32:
        return _gumbel_of_64_bits(key, sizes=sizes)
    return (
        _gumbel_of_two(key, sizes=sizes, dtype=wanted) if mode in ("high", "highest") else drawn(key, "gumbel", sizes, wanted)
    )


@functools.partial(jit, static_argnames=("sizes", "dtype"), native=False)  # to JAX's last bit
def _gumbel_of_two(key: Any, *, sizes: Shape, dtype: DType) -> Array:
    limits = finfo(dtype)
    pair = drawn(key, "uniform", (2, *sizes), dtype)
    fine = pair[0] + literal_of(2.0**-limits.nmant, dtype) * pair[1] + literal_of(float(limits.tiny), dtype)
    return -log(-log1p(-where(pair[0] >= 0.5, pair[0], fine)))


@functools.partial(jit, static_argnames="sizes", native=False)
def _gumbel_of_64_bits(key: Any, *, sizes: Shape) -> Array:
    """Of a fraction of 64 bits where that is below a half, else of what is left to 1; each cut to the digits of float32."""
    one, (high, low) = np.uint32(1), drawn(key, "bits", (2, *sizes), UINT32)
    small = high < np.uint32(1 << 31)
    high, low = where(small, high, ~high + in_dtype(low == 0, UINT32)), where(small, low, ~low + one)
    zeros, more = clz(high), clz(low)
    above = shift_left(high, zeros) | shift_right_logical(low, np.uint32(32) - zeros)  # by 32 bits is 0
    empty = zeros == np.uint32(32)
    digits = where(empty, shift_left(low, more), above)
    exponent = np.uint32(126) - where(empty, np.uint32(32) + more, zeros)
    bits = shift_left(exponent, np.uint32(23)) | shift_right_logical(digits, np.uint32(8)) & np.uint32((1 << 23) - 1)
    x = bitcast_convert_type(bits, new_dtype=FLOAT32)
    return -log(-where(small, log1p(-x), log(x)))


@sampler
def truncated_normal(
    key: ArrayLike, lower: ArrayLike, upper: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None
) -> Array:
    """Numbers of the standard normal distribution between two limits; differentiable with respect to these. They are JAX's, but
    where one limit is 3 or more, or the other -3 or less: there JAX's numbers lose their digits.

    Arguments:
        key: a key.
        lower, upper: the limits, which are not reached: numbers, or arrays that broadcast to the shape.
        shape: the shape of the result; by default the common one of the limits.
        dtype: a floating dtype; by default the default one.

    Returns:
        An array of that shape and dtype.

    Raises:
        LeafError: no key. ShapeError: several keys, or shapes that do not fit.
        DtypeError: another dtype.

    Example:
        >>> pb.random.truncated_normal(pb.random.key(0), -2.0, 2.0, (2,))
        [1.4559592 1.7147487]:f32[2]:cpu(0)
    """
    wanted = checked_dtype("truncated_normal", dtype)
    sizes, limits = parameters("truncated_normal", shape, wanted, lower, upper)
    known = not isinstance(lower, Tracer) and not isinstance(upper, Tracer)
    tails = not known or bool(np.any(np.asarray(upper, wanted) <= -3) or np.any(np.asarray(lower, wanted) >= 3))
    made: Array = _truncated_normal(key, *limits, sizes=sizes, tails=tails)
    return made


@functools.partial(jit, static_argnames=("sizes", "tails"))
def _truncated_normal(key: Any, lower: Array, upper: Array, *, sizes: Shape, tails: bool) -> Array:
    """`tails` is whether limits may lie in one: what that takes is most of what there is to compile."""
    root, one = literal(math.sqrt(2), lower), literal(1, lower)
    unit = drawn(key, "uniform", sizes, lower.dtype)
    between = clip(primitives.spread(unit, erf(lower / root), erf(upper / root)), nextafter(-one, one), nextafter(one, -one))
    inside = [
        nextafter(stop_gradient(limit), literal(infinity, limit)) for limit, infinity in ((lower, math.inf), (upper, -math.inf))
    ]
    central = root * primitives.quantile(between)
    if not tails:
        return clip(central, *inside)
    left, right = upper <= -3, lower >= 3
    near, far = where(left, -upper, where(right, lower, 3.0)), where(left, -lower, where(right, upper, 4.0))
    tail = in_dtype(_in_the_tail(unit, near, far), lower.dtype)
    return clip(where(left, -tail, where(right, tail, central)), *inside)


def _in_the_tail(unit: Array, near: Array, far: Array) -> Array:
    """Normal numbers between two limits of 3 and more, whose distribution function is 1 in its last bits: by Newton's method
    for the logarithm of what is above a number, from x^2 / 2, which that tends to."""
    unit, near, far = [in_dtype(x, accumulation_dtype(x.dtype)) for x in (unit, near, far)]
    endless = far == math.inf
    above = log_ndtr(-near)
    lower = log1p(unit * where(endless, -1.0, expm1(log_ndtr(-where(endless, 4.0, far)) - above)))
    x = sqrt(near * near - 2 * lower)
    for _ in range(3):
        here = log_ndtr(-x)
        x = x + (here - above - lower) * exp(here + x * x / 2 + 0.5 * math.log(2 * math.pi))
    return x


@sampler
def randint(key: ArrayLike, shape: ShapeLike, minval: ArrayLike, maxval: ArrayLike, dtype: DTypeLike = None) -> Array:
    """Whole numbers from `minval` up to but not including `maxval`, equally likely: to within (maxval - minval) / 2^64.

    Arguments:
        key: a key.
        shape: the shape of the result.
        minval, maxval: whole numbers, or arrays of integers that broadcast to the shape. Where there is nothing between them,
            the result is `minval`. A `maxval` beyond the dtype stands for all of its numbers.
        dtype: an integer dtype; by default the default one.

    Returns:
        An array of that shape and dtype.

    Raises:
        LeafError: no key. ShapeError: several keys, or shapes that do not fit.
        DtypeError: another dtype. OverflowError: a limit of more than 32 bits beside an array, where 64 bits are off.

    Example:
        >>> pb.random.randint(pb.random.key(0), (4,), 0, 10)
        [9 0 2 3]:i32[4]:cpu(0)
    """
    wanted = checked_dtype("randint", dtype, "iu")
    sizes = checked_shape(shape, "randint")
    own = INT32 if wanted.itemsize < 4 else wanted
    unsigned = np.dtype(f"u{own.itemsize}")
    least, most = [int(limit) for limit in (iinfo(wanted).min, iinfo(wanted).max)]
    low: Any = minval
    high: Any = maxval
    if low.__class__ is high.__class__ is int:
        low, high = min(max(low, least), most), min(max(high, least), most + 1)
        span = literal_of(max(high - low, 1) % (1 << 8 * own.itemsize), unsigned)  # 0 for all of the dtype
        low = literal_of(low, own)
    else:
        low, high = [_whole(value) for value in (minval, maxval)]
        if wanted.itemsize < 4:
            low, high = _within(low, own, least, most), _within(high, own, least, most + 1)
        beyond = high > _within(np.asarray(iinfo(own).max, own), high.dtype)
        low, high = _within(low, own), _within(high, own)
        fitting("randint", broadcast_shapes("randint", low.type.shape, high.type.shape), sizes)
        low, high, beyond = [broadcast(value, sizes) for value in (low, high, beyond)]
        one = literal_of(1, unsigned)
        span = where(high <= low, one, convert_element_type(high - low, new_dtype=unsigned))
        span = where(beyond & (high > low), span + one, span)  # 0 for all of the dtype
    keys = divided(key)
    if BY_DTYPE[keys.type.dtype].streams:
        coarse, fine = [drawn(one, "bits", sizes, unsigned) for one in keys]
    else:
        coarse, fine = drawn(keys, "bits", sizes, unsigned)
    offset = primitives.folded(coarse, fine, span)
    return in_dtype(low + convert_element_type(offset, new_dtype=own), wanted)


def _whole(value: Any) -> Array:
    """A limit as an array of integers: a Python number that 32 bits do not hold in 64 of them."""
    large = value.__class__ is int and not -(1 << 31) <= value < 1 << 31
    found = as_operand(np.asarray(value) if large else value, "randint", "a limit")
    if large and found.type.dtype.itemsize < 8:
        raise OverflowError(
            f"randint got {value} as one limit, which 32 bits do not hold, and an array as the other, but 64 bits are off."
            " Turn them on, or give both limits as Python's integers."
        )
    return found if kind(found.type.dtype) in "iu" else in_dtype(found, default_dtype("i"))


def _within(value: Any, dtype: DType, least: int | None = None, most: int | None = None) -> Array:
    """Integers in a dtype; those that it does not hold, or that are beyond the limits, as the nearest that is."""
    found = as_operand(value, "randint")
    own, other = iinfo(found.type.dtype), iinfo(dtype)
    low, high = max(other.min if least is None else least, own.min), min(other.max if most is None else most, own.max)
    return convert_element_type(clip(found, int(low), int(high)), new_dtype=dtype)


@sampler
def bernoulli(key: ArrayLike, p: ArrayLike = 0.5, shape: ShapeLike | None = None, mode: str = "low") -> Array:
    """True with probability p.

    Arguments:
        key: a key.
        p: floating-point numbers from 0 to 1, which broadcast to the shape.
        shape: the shape of the result; by default that of p.
        mode: "low", by one random number in the dtype of p; "high", by two, which tells apart smaller p.

    Returns:
        An array of bools of that shape.

    Raises:
        LeafError: no key. ShapeError: several keys, or shapes that do not fit.
        DtypeError: p is not floating. ValueError: another mode.

    Example:
        >>> pb.random.bernoulli(pb.random.key(0), 0.5, (4,))
        [False False  True  True]:bool[4]:cpu(0)
    """
    p = as_operand(p, "bernoulli", "p")
    wanted = p.type.dtype
    if kind(wanted) != "f":
        raise DtypeError(f"bernoulli takes a floating-point p, but got {p.type}.{at_user_line()}")
    if mode not in ("low", "high"):
        raise ValueError(f"bernoulli takes mode='low' or 'high', not {brief(mode)}.{at_user_line()}")
    sizes, (p,) = parameters("bernoulli", shape, wanted, p)
    if mode == "low":
        return less(drawn(key, "uniform", sizes, wanted), p)
    coarse, fine = drawn(key, "uniform", (2, *sizes), wanted)
    return less(fine * literal(2.0 ** -finfo(wanted).nmant, fine), p - coarse)


@sampler
def rademacher(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = None) -> Array:
    """1 or -1, equally likely.

    Arguments:
        key: a key.
        shape: the shape of the result.
        dtype: a dtype that has both; by default the default integer one.

    Returns:
        An array of that shape and dtype.

    Raises:
        LeafError: no key. ShapeError: several keys, or no shape.
        DtypeError: another dtype.

    Example:
        >>> pb.random.rademacher(pb.random.key(0), (4,))
        [-1 -1  1  1]:i32[4]:cpu(0)
    """
    sizes, wanted = checked_shape(shape, "rademacher"), checked_dtype("rademacher", dtype, "ifc")
    heads = less(drawn(key, "uniform", sizes, default_dtype("f")), 0.5)
    return convert_element_type(where(heads, literal_of(1, wanted), literal_of(-1, wanted)), new_dtype=wanted)


@sampler
def categorical(
    key: ArrayLike,
    logits: ArrayLike,
    axis: int = -1,
    shape: ShapeLike | None = None,
    replace: bool = True,
    mode: str | None = None,
) -> Array:
    """Numbers of classes, each as likely as exp(logit): the place of the largest of logits with Gumbel numbers added.

    Arguments:
        key: a key.
        logits: floating-point numbers: of each class along `axis` the logarithm of its probability, up to a constant.
        axis: the axis of the classes.
        shape: the shape of the result, which ends with that of the logits without `axis`; by default that is all.
        replace: whether a class may be drawn more than once, where there are several draws for the same logits.
        mode: of `gumbel`.

    Returns:
        An array of that shape, in the default integer dtype; without `replace` of int32, as JAX's.

    Raises:
        LeafError: no key. ShapeError: several keys, or a shape that does not fit.
        DtypeError: logits that are not floating.
        ValueError: without `replace` more draws than classes.

    Example:
        >>> pb.random.categorical(pb.random.key(0), pnp.log(pnp.array([0.1, 0.2, 0.7])), shape=(5,))
        [1 2 2 1 2]:i32[5]:cpu(0)
    """
    x = as_operand(logits, "categorical", "logits")
    axis = normal_axis(axis, x.type.ndim, "categorical")
    own = x.type.without([axis]).shape
    sizes = fitting("categorical", own, shape)
    lead = len(sizes) - len(own)
    classes = x.type.shape[axis]
    if replace:
        full = (*sizes[: lead + axis], classes, *sizes[lead + axis :])
        return argmax(broadcast(x, full) + gumbel(key, full, x.type.dtype, mode), axis=lead + axis)
    count = math.prod(sizes[:lead])
    if count > classes:
        raise ValueError(
            f"categorical cannot draw {count} of {classes} classes without replacement. Ask for fewer, or pass"
            f" replace=True.{at_user_line()}"
        )
    chosen = top_k(moveaxis(x + gumbel(key, x.type.shape, x.type.dtype, mode), axis, -1), count)[1]
    return moveaxis(chosen, -1, 0).reshape(sizes)
