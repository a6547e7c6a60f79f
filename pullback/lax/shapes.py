"""Shapes: axes merged, arrays cut apart and put together, and the shapes that meet."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.dtypes import DType, DTypeLike
from pullback.core.errors import ShapeError
from pullback.core.types import Shape, ShapeLike
from pullback.lax.arrays import concatenate, refuse_sharding
from pullback.lax.elementwise import lifted
from pullback.numpy import creation, shaping
from pullback.numpy.axes import normal_axis
from pullback.numpy.promotion import at_user_line
from pullback.numpy.promotion import broadcast as broadcast_to
from pullback.numpy.promotion import operand as as_operand
from pullback.ops import shape as shapes


def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Neighbouring axes merged into one.

    Arguments:
        operand: an array.
        start_dimension, stop_dimension: the first of these axes, and the one behind the last; None for all that follow, and
            negative ones count from the end.

    Returns:
        An array in the dtype of the operand.

    Raises:
        LeafError: `operand` is neither an array nor a number.
        ShapeError: the array has no such axes, or they end before they begin.

    Example:
        >>> lax.collapse(pnp.zeros((2, 3, 4)), 0, 2).shape, lax.collapse(pnp.zeros((2, 3, 4)), 1).shape
        ((6, 4), (2, 12))
    """
    x = as_operand(operand, "collapse")
    start, stop, _ = slice(start_dimension, stop_dimension).indices(x.type.ndim)
    if not start <= stop or not -x.type.ndim <= start_dimension <= x.type.ndim:
        raise ShapeError(
            f"collapse cannot merge axes {start_dimension} to {stop_dimension} of {x.type}. The first must not come after the"
            f" second, and both must be axes of it.{at_user_line()}"
        )
    shape = x.type.shape
    merged = int(np.prod(shape[start:stop], dtype=np.int64))
    return shapes.reshape(x, new_sizes=(*shape[:start], merged, *shape[stop:]))


def split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    """Cut into parts of these sizes along an axis.

    Arguments:
        operand: an array.
        sizes: ints, whose sum is the size of the axis.
        axis: the axis.

    Returns:
        A list of arrays in the dtype of the operand.

    Raises:
        LeafError: `operand` is neither an array nor a number.
        AxisError: the array has no such axis.
        ShapeError: another sum, or a negative size.

    Example:
        >>> lax.split(pnp.arange(5), [2, 3])
        [[0 1]:i32[2]:cpu(0), [2 3 4]:i32[3]:cpu(0)]
    """
    x = as_operand(operand, "split")
    along = normal_axis(axis, x.type.ndim, "split")
    parts = creation.checked_shape(tuple(sizes), "split")
    if sum(parts) != x.type.shape[along]:
        raise ShapeError(f"split takes sizes whose sum is that of axis {axis} of {x.type}, but got {parts}.{at_user_line()}")
    ends = np.cumsum(parts, dtype=np.int64).tolist()
    return [shaping.cut(x, along, end - size, end) for size, end in zip(parts, ends)]


def stack(operands: Sequence[ArrayLike], axis: int = 0) -> Array:
    """Arrays of one shape and dtype, along a new axis.

    Arguments:
        operands: a sequence of arrays of one shape and dtype; Python numbers take the others' dtype.
        axis: where the new axis lies in the result.

    Returns:
        An array with one axis more.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes differ; `pullback.numpy.stack` promotes.
        ShapeError: the shapes differ, or there are no operands.
        AxisError: the result has no such axis.

    Example:
        >>> lax.stack([pnp.array([1, 2]), pnp.array([3, 4])], axis=1)
        [[1 3]
         [2 4]]:i32[2,2]:cpu(0)
    """
    if not len(operands):
        raise ShapeError(f"stack takes at least one array.{at_user_line()}")
    parts = lifted("stack", tuple(operands))
    if len({part.type.shape for part in parts}) > 1:
        given = ", ".join([str(part.type) for part in parts])
        raise ShapeError(f"stack takes arrays of one shape, but got {given}.{at_user_line()}")
    along = normal_axis(axis, parts[0].type.ndim + 1, "stack")
    return concatenate([shaping.expand_dims(part, along) for part in parts], along)


def unstack(x: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    """The parts of an array along an axis, which vanishes.

    Arguments:
        x: an array.
        axis: the axis.

    Returns:
        A tuple of arrays in the dtype of x.

    Raises:
        LeafError: x is neither an array nor a number.
        AxisError: the array has no such axis.

    Example:
        >>> lax.unstack(pnp.array([[1, 2], [3, 4]]), axis=1)
        ([1 3]:i32[2]:cpu(0), [2 4]:i32[2]:cpu(0))
    """
    return shaping.unstack(x, axis=axis)


def tile(operand: ArrayLike, reps: Sequence[int]) -> Array:
    """The array laid side by side along each axis.

    Arguments:
        operand: an array.
        reps: for each axis an int: how many times.

    Returns:
        An array in the dtype of the operand.

    Raises:
        LeafError: `operand` is neither an array nor a number.
        ShapeError: not one int for each axis, or a negative one.

    Example:
        >>> lax.tile(pnp.array([1, 2]), [2])
        [1 2 1 2]:i32[4]:cpu(0)
    """
    x, times = as_operand(operand, "tile"), tuple(reps)
    if len(times) != x.type.ndim:
        raise ShapeError(
            f"tile takes an int for each axis of {x.type}, but got {brief(times)}; pb.numpy.tile takes others.{at_user_line()}"
        )
    return shaping.tile(x, times)


def broadcast_shapes(*shapes: ShapeLike) -> Shape:
    """The shape that arrays of these shapes broadcast to.

    Arguments:
        shapes: shapes: ints, or sequences of ints.

    Returns:
        A tuple of ints.

    Raises:
        ShapeError: there is none.

    Example:
        >>> lax.broadcast_shapes((2, 1), (3,))
        (2, 3)
    """
    return shaping.broadcast_shapes(*shapes)


def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """With as many axes, by new ones of size 1 in front; what has as many or more stays as it is.

    Arguments:
        x: an array or a number.
        rank: an int.

    Returns:
        An array in the dtype of x.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> lax.broadcast_to_rank(pnp.ones(3), 2).shape
        (1, 3)
    """
    x = as_operand(x, "broadcast_to_rank")
    missing = operator.index(rank) - x.type.ndim
    return shapes.reshape(x, new_sizes=(1,) * missing + x.type.shape) if missing > 0 else x


def broadcast_like(arr: ArrayLike, like_arr: ArrayLike) -> Array:
    """A number, or an array, in the shape of another array; they have that shape already, or none.

    Arguments:
        arr: an array or a number.
        like_arr: the other array.

    Returns:
        An array in the shape of `like_arr`, in the dtype of `arr`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: `arr` has another shape, and is not 0-d.

    Example:
        >>> lax.broadcast_like(1, pnp.zeros((2, 3)))
        [[1 1 1]
         [1 1 1]]:i32[2,3]:cpu(0)
    """
    x, like = as_operand(arr, "broadcast_like"), as_operand(like_arr, "broadcast_like")
    if x.type.shape not in ((), like.type.shape):
        raise ShapeError(
            f"broadcast_like takes a number or an array of shape {like.type.shape}, but got {x.type}.{at_user_line()}"
        )
    return broadcast_to(x, like.type.shape)


def empty(shape: ShapeLike, dtype: DTypeLike, *, out_sharding: None = None) -> Array:
    """An array whose elements are not to be relied on; they are zeros.

    Arguments:
        shape: an int or a sequence of ints.
        dtype: a dtype.
        out_sharding: None: there is one device.

    Returns:
        An array of that shape and dtype.

    Raises:
        ShapeError: the shape has a negative size.
        DtypeError: `dtype` is none.

    Example:
        >>> lax.empty((2,), pnp.float32).shape
        (2,)
    """
    refuse_sharding("empty", out_sharding)
    return creation.empty(shape, dtype)


def dtype(x: Any) -> DType:
    """The dtype of an array, or the one that a number becomes.

    Arguments:
        x: an array or a number.

    Returns:
        A dtype.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> lax.dtype(1.0)
        dtype('float32')
    """
    return as_operand(x, "dtype").type.dtype
