"""The laws that take no parameters but limits, and what is chosen uniformly: bits, numbers, normal ones and their kin."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.array import Array, ArrayLike
from pullback.core.dtypes import DType, DTypeLike, default_dtype, in_words, kind, requested
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.source import at_user_line
from pullback.core.types import Shape, ShapeLike
from pullback.lax import complex as joined
from pullback.numpy.creation import checked_shape
from pullback.numpy.promotion import broadcast, broadcast_shapes, in_dtype, number_or_operand, real_dtype
from pullback.ops import random as primitives
from pullback.random.keys import divided, sampler


def checked_dtype(name: str, dtype: DTypeLike, kinds: str = "f") -> DType:
    """The dtype that was asked for, by default the default one of the first kind, if it is of one of the kinds."""
    found = default_dtype(kinds[0]) if dtype is None else requested(dtype)
    if kind(found) not in kinds:
        raise DtypeError(f"{name} draws numbers of a dtype that is {in_words(kinds)}, not {found.name}.{at_user_line()}")
    return found


def parameters(name: str, shape: ShapeLike | None, dtype: DType, *values: ArrayLike) -> tuple[Shape, list[Array]]:
    """The shape of a result, by default the common one of the parameters, to which these must broadcast; and the parameters in
    its dtype, each of that shape or 0-d."""
    given = [in_dtype(number_or_operand(value, name), dtype) for value in values]
    own = broadcast_shapes(name, (), *[value.type.shape for value in given])
    sizes = own if shape is None else checked_shape(shape, name)
    if broadcast_shapes(name, own, sizes) != sizes:
        raise ShapeError(f"{name}: parameters of shape {own} do not broadcast to shape={sizes}.{at_user_line()}")
    return sizes, [value if not value.type.shape else broadcast(value, sizes) for value in given]


def drawn(key: Any, law: str, shape: Shape, dtype: DType) -> Array:
    """Numbers of a law, one from each block of the key's bits."""
    return primitives.draw(key, law=law, shape=shape, dtype=dtype)


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
    sizes, (low, high) = parameters("uniform", checked_shape(shape, "uniform"), wanted, minval, maxval)
    unit = drawn(key, "uniform", sizes, wanted)
    if minval.__class__ in (int, float) and maxval.__class__ in (int, float) and (minval, maxval) == (0, 1):
        return unit
    return primitives.spread(unit, low, high)


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
