"""Choosing among the elements of an array: permutations, and samples with and without replacement."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import counted
from pullback.core.dtypes import INT32, kind
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.source import at_user_line
from pullback.core.types import Shape, ShapeLike
from pullback.lax.arrays import broadcasted_iota
from pullback.lax.sorting import top_k
from pullback.numpy.axes import normal_axis
from pullback.numpy.creation import arange, checked_shape
from pullback.numpy.elementary import log
from pullback.numpy.promotion import operand as as_operand
from pullback.numpy.promotion import to_inexact
from pullback.numpy.scans import cumsum
from pullback.numpy.sorting import searchsorted
from pullback.numpy.taking import take, take_along_axis
from pullback.ops.generators import UINT32
from pullback.ops.sort import order, take_along
from pullback.random.keys import divided, sampler
from pullback.random.sampling import drawn, gumbel, randint


def _shuffled(key: Any, shape: Shape, axis: int) -> Array:
    """The places along an axis in random order, each row in its own: sorted by random numbers, often enough that ties do not
    count."""
    places = None
    for _ in range(math.ceil(3 * math.log(max(1, math.prod(shape))) / math.log(np.iinfo(UINT32).max))):
        key, other = divided(key)
        found = order(drawn(other, "bits", shape, UINT32), dimension=axis, index_dtype=INT32)
        places = found if places is None else take_along(places, found, axis)
    return broadcasted_iota(INT32, shape, axis) if places is None else places


def _population(name: str, a: ArrayLike, axis: int) -> tuple[Array, int]:
    """What is chosen from, 0, 1, ... for a number, and along which axis."""
    x = as_operand(a, name)
    if x.type.shape:
        return x, normal_axis(axis, x.type.ndim, name)
    if kind(x.type.dtype) not in "iu":
        raise DtypeError(f"{name} takes an array, or the whole number of its elements, but got {x.type}.{at_user_line()}")
    return arange(a, dtype=int), normal_axis(axis, 1, name)


@sampler
def permutation(key: ArrayLike, x: ArrayLike, axis: int = 0, independent: bool = False) -> Array:
    """An array's elements in random order along an axis.

    Arguments:
        key: a key.
        x: an array; or a number n, for 0, 1, ..., n - 1.
        axis: the axis.
        independent: whether each row along the axis gets an order of its own.

    Returns:
        An array of the shape and dtype of x.

    Raises:
        LeafError: no key. ShapeError: several keys. AxisError: no such axis.
        DtypeError: a number that is not whole. TracerIntegerConversionError: a traced number.

    Example:
        >>> pb.random.permutation(pb.random.key(0), 5)
        [0 1 4 3 2]:i32[5]:cpu(0)
    """
    array, along = _population("permutation", x, axis)
    shape = array.type.shape
    if independent:
        return take_along_axis(array, _shuffled(key, shape, along), axis=along)
    return take(array, _shuffled(key, (shape[along],), 0), axis=along)


@sampler
def choice(
    key: ArrayLike,
    a: ArrayLike,
    shape: ShapeLike = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """Elements, or slices along an axis, that are chosen at random.

    Arguments:
        key: a key.
        a: an array; or a number n, for 0, 1, ..., n - 1.
        shape: the shape of the draws, which takes the place of the axis.
        replace: whether an element may be chosen more than once.
        p: the probability of each element, a vector; by default all are equally likely.
        axis: the axis.
        mode: of `gumbel`, by which elements with probabilities are chosen without replacement.

    Returns:
        An array of the dtype of a.

    Raises:
        LeafError: no key. ShapeError: several keys, or a p of another size. AxisError: no such axis.
        ValueError: nothing to choose from; or, without `replace`, more draws than elements, or than p is
            positive for (where p is known).

    Example:
        >>> pb.random.choice(pb.random.key(0), pnp.array([2.5, 3.5, 4.5]), (4,))
        [3.5 2.5 4.5 3.5]:f32[4]:cpu(0)
        >>> pb.random.choice(pb.random.key(0), 10, (4,), replace=False)
        [0 1 8 5]:i32[4]:cpu(0)
    """
    array, along = _population("choice", a, axis)
    sizes = checked_shape(shape, "choice")
    count, draws = array.type.shape[along], math.prod(sizes)
    if draws and (count == 0 or (draws > count and not replace)):
        without = "" if replace else " without replacement"
        raise ValueError(f"choice cannot draw {draws} of {counted(count, 'element')}{without}. Ask for fewer.{at_user_line()}")
    chance = None if p is None else to_inexact(p, "choice")
    if chance is not None and chance.type.shape != (count,):
        raise ShapeError(
            f"choice: p has the shape {chance.type.shape}, but a value is drawn of {counted(count, 'element')}.{at_user_line()}"
        )
    if isinstance(chance, Array) and not replace and (possible := np.count_nonzero(np.asarray(chance.host) > 0)) < draws:
        raise ValueError(
            f"choice cannot draw {draws} elements without replacement, since p is positive for {possible} only.{at_user_line()}"
        )
    if not draws:
        places = arange(0)
    elif chance is None:
        places = randint(key, (draws,), 0, count) if replace else _shuffled(key, (count,), 0)[:draws]
    elif replace:
        sums = cumsum(chance)
        places = searchsorted(sums, sums[-1] * (1 - drawn(key, "uniform", (draws,), chance.type.dtype)))
    else:
        places = top_k(gumbel(key, (count,), chance.type.dtype, mode) + log(chance), draws)[1]
    shape = array.type.shape
    return take(array, places, axis=along).reshape((*shape[:along], *sizes, *shape[along + 1 :]))
