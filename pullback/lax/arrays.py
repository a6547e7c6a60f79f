"""The other primitives as functions, with the signatures that they are known by."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.dtypes import DTypeLike, default_dtype, in_words, kind, requested
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.modes import overriding
from pullback.core.trees import array_leaves, unflatten
from pullback.core.types import ShapeLike
from pullback.lax.elementwise import lifted
from pullback.lax.packing import read_as
from pullback.numpy import creation, indexing, shaping
from pullback.numpy.axes import normal_axis
from pullback.numpy.factories import named
from pullback.numpy.promotion import at_user_line, check_precision, flags, in_dtype, literal_of, pair, to_common_dtype
from pullback.numpy.promotion import operand as as_operand
from pullback.ops import broadcast as broadcasts
from pullback.ops import contract, convert, create, dynamic, reduce
from pullback.ops import shape as shapes
from pullback.ops.stop_gradient import stop_gradient as _stop_gradient


def refuse_sharding(name: str, sharding: Any) -> None:
    """Refuse to spread a result over several devices."""
    if sharding is not None:
        raise NotImplementedError(f"{name} computes on one device: leave out its sharding, {brief(sharding)}.{at_user_line()}")


def stop_gradient(x: Any) -> Any:
    """x, as a constant to differentiation: its derivative is zero. Takes trees.

    Arguments:
        x: a tree of arrays and numbers.

    Returns:
        The same tree.

    Raises:
        LeafError: a leaf is neither an array nor a number.

    Example:
        >>> pb.grad(lambda x: x * lax.stop_gradient(x))(3.0)
        3.0:f32[]:cpu(0)
    """
    leaves, structure = array_leaves(x, lambda: "stop_gradient's argument")
    return unflatten(structure, [_stop_gradient(leaf) for leaf in leaves])


def reshape(
    operand: ArrayLike, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None, *, out_sharding: None = None
) -> Array:
    """The elements, in row-major order (of the axes taken in the order `dimensions`), in another shape.

    Arguments:
        operand: an array or a number.
        new_sizes: a sequence of ints, as many elements in all; none of them is -1, which `pullback.numpy.reshape` takes.
        dimensions: each axis once, in the order in which the elements are read; None for that of the array.
        out_sharding: None: there is one device.

    Returns:
        An array of the shape `new_sizes`, in the dtype of the operand.

    Raises:
        LeafError: `operand` is neither an array nor a number.
        ShapeError: the shape has another number of elements.

    Example:
        >>> lax.reshape(pnp.array([[1, 2, 3], [4, 5, 6]]), (3, 2))
        [[1 2]
         [3 4]
         [5 6]]:i32[3,2]:cpu(0)
        >>> lax.reshape(pnp.array([[1, 2, 3], [4, 5, 6]]), (6,), dimensions=(1, 0))
        [1 4 2 5 3 6]:i32[6]:cpu(0)
    """
    refuse_sharding("reshape", out_sharding)
    x = as_operand(operand, "reshape")
    if dimensions is not None:
        x = transpose(x, dimensions)
    return shapes.reshape(x, new_sizes=creation.checked_shape(new_sizes, "reshape"))


def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Array:
    """The axes in another order.

    Arguments:
        operand: an array or a number.
        permutation: each axis once, in the order of the result.

    Returns:
        An array in the dtype of the operand.

    Raises:
        LeafError: `operand` is neither an array nor a number.
        AxisError: the permutation has not each axis once.

    Example:
        >>> lax.transpose(pnp.array([[1, 2, 3], [4, 5, 6]]), (1, 0))
        [[1 4]
         [2 5]
         [3 6]]:i32[3,2]:cpu(0)
    """
    return shapes.transpose(as_operand(operand, "transpose"), permutation=tuple(map(operator.index, permutation)))


def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Without these axes of size 1.

    Arguments:
        array: an array or a number.
        dimensions: axes of size 1.

    Returns:
        An array in the dtype of the given one.

    Raises:
        LeafError: `array` is neither an array nor a number.
        AxisError: the array has no such axis.
        ShapeError: an axis is not of size 1.

    Example:
        >>> lax.squeeze(pnp.zeros((1, 3, 1)), (0, -1)).shape
        (3,)
    """
    x = as_operand(array, "squeeze")
    return shapes.squeeze(x, dimensions=tuple(normal_axis(axis, x.type.ndim, "squeeze") for axis in dimensions))


def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """With new axes of size 1.

    Arguments:
        array: an array or a number.
        dimensions: where the new axes lie in the result.

    Returns:
        An array in the dtype of the given one.

    Raises:
        LeafError: `array` is neither an array nor a number.
        AxisError: the result has no such axis, or one is given twice.

    Example:
        >>> lax.expand_dims(pnp.zeros(3), (0, 2)).shape
        (1, 3, 1)
    """
    return shaping.expand_dims(array, tuple(dimensions))


def concatenate(operands: Sequence[Any], dimension: int) -> Array:
    """Arrays of one dtype joined along an axis.

    Arguments:
        operands: a sequence of arrays of one dtype, whose shapes agree in all other axes.
        dimension: the axis.

    Returns:
        An array of the same dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes differ; `pullback.numpy.concatenate` promotes.
        ShapeError: the other axes differ, there is no such axis, or there are no operands.

    Example:
        >>> lax.concatenate([pnp.array([1, 2]), pnp.array([3])], 0)
        [1 2 3]:i32[3]:cpu(0)
    """
    parts = [as_operand(x, "concatenate") for x in operands]
    if not parts:
        raise ShapeError(f"concatenate takes at least one array.{at_user_line()}")
    return shapes.concatenate(*parts, dimension=dimension)


def broadcast(operand: ArrayLike, sizes: Sequence[int], *, out_sharding: None = None) -> Array:
    """Repeated along new axes in front.

    Arguments:
        operand: an array or a number.
        sizes: the sizes of the new axes.
        out_sharding: None: there is one device.

    Returns:
        An array of shape (*sizes, *shape), in the dtype of the operand.

    Raises:
        LeafError: `operand` is neither an array nor a number.
        ShapeError: the shape has a negative size.

    Example:
        >>> lax.broadcast(pnp.array([1, 2]), (2,))
        [[1 2]
         [1 2]]:i32[2,2]:cpu(0)
    """
    refuse_sharding("broadcast", out_sharding)
    x = as_operand(operand, "broadcast")
    shape = (*creation.checked_shape(sizes, "broadcast"), *x.type.shape)
    return broadcast_in_dim(x, shape, tuple(range(len(shape) - x.type.ndim, len(shape))))


def broadcast_in_dim(
    operand: ArrayLike, shape: Sequence[int], broadcast_dimensions: Sequence[int], *, out_sharding: None = None
) -> Array:
    """In a larger shape: axis i becomes axis `broadcast_dimensions[i]`.

    Arguments:
        operand: an array or a number.
        shape: the shape of the result.
        broadcast_dimensions: for each axis of the operand an axis of the result, of its size, unless it is of size 1.
        out_sharding: None: there is one device.

    Returns:
        An array of the shape, in the dtype of the operand.

    Raises:
        LeafError: `operand` is neither an array nor a number.
        ShapeError: the sizes or the axes do not fit.

    Example:
        >>> lax.broadcast_in_dim(pnp.array([1, 2]), (2, 3), (0,))
        [[1 1 1]
         [2 2 2]]:i32[2,3]:cpu(0)
        >>> pnp.broadcast_to(pnp.array([[1], [2]]), (2, 3))
        [[1 1 1]
         [2 2 2]]:i32[2,3]:cpu(0)
    """
    refuse_sharding("broadcast_in_dim", out_sharding)
    x = as_operand(operand, "broadcast_in_dim")
    places = tuple(map(operator.index, broadcast_dimensions))
    order = tuple(sorted(range(len(places)), key=places.__getitem__))
    if len(order) == x.type.ndim and order != tuple(range(len(order))):
        x, places = shapes.transpose(x, permutation=order), tuple([places[axis] for axis in order])
    return broadcasts.broadcast_in_dim(x, shape=tuple(map(operator.index, shape)), broadcast_dimensions=places)


def convert_element_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """In another dtype; an integer that does not fit into it keeps its low bits.

    Arguments:
        operand: an array or a number.
        new_dtype: a dtype.

    Returns:
        An array of the shape of the operand.

    Raises:
        LeafError: `operand` is neither an array nor a number.
        DtypeError: `new_dtype` is no dtype.

    Example:
        >>> lax.convert_element_type(pnp.array([1.7, -1.7]), pnp.int32)
        [ 1 -1]:i32[2]:cpu(0)
    """
    wanted = requested(new_dtype)
    if operand.__class__ is int and not -(2**31) <= operand < 2**31:  # wider than integers may be by default
        fits = kind(wanted) in "iu" and -(2**63) <= operand < 2**64
        return creation.asarray(np.asarray(operand).astype(wanted) if fits else operand, wanted)
    x = as_operand(operand, "convert_element_type")
    return x if x.type.dtype is wanted and not x.type.weak else convert.convert_element_type(x, new_dtype=wanted)


def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """The bits read as another dtype.

    Arguments:
        operand: an array or a number.
        new_dtype: a dtype; of a wider or narrower one, several elements make one, or one several, along the last axis. Of
            integers of 2 and 4 bits, the first one lies in the lowest bits of a byte.

    Returns:
        An array of that dtype.

    Raises:
        LeafError: `operand` is neither an array nor a number.
        DtypeError: one of the dtypes is neither integer nor floating.
        ShapeError: a wider dtype, and a last axis that is not as large as the elements that make one.

    Example:
        >>> lax.bitcast_convert_type(pnp.array([1.0, -0.0]), pnp.int32)
        [ 1065353216 -2147483648]:i32[2]:cpu(0)
    """
    x, wanted = as_operand(operand, "bitcast_convert_type"), requested(new_dtype)
    if "s" in (kind(x.type.dtype), kind(wanted)):
        return read_as(x, wanted)
    return convert.bitcast_convert_type(x, new_dtype=wanted)


def iota(dtype: DTypeLike, size: int) -> Array:
    """0, 1, 2, ..., size - 1.

    Arguments:
        dtype: a dtype of numbers.
        size: an int.

    Returns:
        A vector.

    Raises:
        ShapeError: the shape has a negative size.
        DtypeError: `dtype` is bool, or no dtype.

    Example:
        >>> lax.iota(pnp.float32, 3)
        [0. 1. 2.]:f32[3]:cpu(0)
    """
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype: DTypeLike, shape: Sequence[int], dimension: int, *, out_sharding: None = None) -> Array:
    """An array that counts along one axis.

    Arguments:
        dtype: a dtype of numbers.
        shape: a sequence of ints.
        dimension: the axis.
        out_sharding: None: there is one device.

    Returns:
        An array of the shape.

    Raises:
        ShapeError: the shape has a negative size.
        DtypeError: `dtype` is bool, or no dtype.
        AxisError: the shape has no such axis.

    Example:
        >>> lax.broadcasted_iota(pnp.int32, (2, 3), 1)
        [[0 1 2]
         [0 1 2]]:i32[2,3]:cpu(0)
    """
    refuse_sharding("broadcasted_iota", out_sharding)
    return create.iota(dtype=requested(dtype), shape=creation.checked_shape(shape, "iota"), dimension=dimension)


def full(shape: Sequence[int], fill_value: ArrayLike, dtype: DTypeLike = None, *, sharding: None = None) -> Array:
    """An array filled with one value.

    Arguments:
        shape: a sequence of ints.
        fill_value: a number or an array that broadcasts to the shape.
        dtype: by default that of `fill_value`.
        sharding: None: there is one device.

    Returns:
        An array of the shape.

    Raises:
        ShapeError: the shape has a negative size, or `fill_value` does not broadcast to it.

    Example:
        >>> lax.full((2,), 0.5)
        [0.5 0.5]:f32[2]:cpu(0)
    """
    refuse_sharding("full", sharding)
    return creation.full(tuple(shape), fill_value, dtype)


def full_like(
    x: ArrayLike, fill_value: ArrayLike, dtype: DTypeLike = None, shape: ShapeLike | None = None, sharding: None = None
) -> Array:
    """An array of the shape and dtype of x, filled with one value.

    Arguments:
        x: an array or a number.
        fill_value: a number or an array that broadcasts to the shape.
        dtype, shape: in place of those of x.
        sharding: None: there is one device.

    Returns:
        An array of that shape and dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        ShapeError: the shape has a negative size, or `fill_value` does not broadcast to it.

    Example:
        >>> lax.full_like(pnp.array([1, 2]), 7)
        [7 7]:i32[2]:cpu(0)
    """
    refuse_sharding("full_like", sharding)
    return creation.full_like(x, fill_value, dtype, shape)


def pad(operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[int, int, int]]) -> Array:
    """With (low, high, interior) elements added along each axis; negative ones take elements away.

    Arguments:
        operand: an array or a number.
        padding_value: a number or a 0-d array of its dtype.
        padding_config: (low, high, interior) for each axis: how many elements come before, behind and between.

    Returns:
        An array of the dtype of the operand.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes differ.
        ShapeError: not one triple for each axis, or a negative size would be left.

    Example:
        >>> lax.pad(pnp.array([1, 2, 3]), 0, [(1, 0, 1)])
        [0 1 0 2 0 3]:i32[6]:cpu(0)
        >>> lax.pad(pnp.array([1, 2, 3]), 0, [(-1, 2, 0)])
        [2 3 0 0]:i32[4]:cpu(0)
    """
    x, value = lifted("pad", (operand, padding_value))
    config = tuple([tuple(one) for one in padding_config])
    if any([len(one) != 3 for one in config]):
        raise ShapeError(f"pad takes (low, high, interior) for each axis, but got {brief(padding_config)}.{at_user_line()}")
    return shapes.pad(x, value, padding_config=config)


def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """In reverse order along axes.

    Arguments:
        operand: an array or a number.
        dimensions: the axes.

    Returns:
        An array of the shape and dtype of the operand.

    Raises:
        LeafError: `operand` is neither an array nor a number.
        ShapeError: the array has no such axis (negative ones do not count from the end), or one is given twice.

    Example:
        >>> lax.rev(pnp.array([[1, 2], [3, 4]]), (1,))
        [[2 1]
         [4 3]]:i32[2,2]:cpu(0)
    """
    return shapes.rev(as_operand(operand, "rev"), dimensions=tuple(dimensions))


def slice(
    operand: ArrayLike, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = None
) -> Array:
    """The elements from start to limit along each axis, every stride-th.

    Arguments:
        operand: an array or a number.
        start_indices, limit_indices: for each axis an int, within the array; negative ones do not count from the end.
        strides: for each axis an int above 0; None for 1.

    Returns:
        An array of the dtype of the operand.

    Raises:
        LeafError: `operand` is neither an array nor a number.
        ShapeError: not an int for each axis, or the part is not within the array.

    Example:
        >>> lax.slice(pnp.arange(6), (1,), (6,), (2,)), pnp.arange(6)[1:6:2]
        ([1 3 5]:i32[3]:cpu(0), [1 3 5]:i32[3]:cpu(0))
    """
    return shapes.slice(
        as_operand(operand, "slice"),
        start_indices=tuple(start_indices),
        limit_indices=tuple(limit_indices),
        strides=None if strides is None else tuple(strides),
    )


def _along(operand: ArrayLike, axis: int, name: str) -> tuple[Array, int]:
    """An operand, and an axis of it, counted from the front."""
    x = as_operand(operand, name)
    return x, normal_axis(axis, x.type.ndim, name)


def slice_in_dim(operand: ArrayLike, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0) -> Array:
    """`slice` along one axis; None for its start or end, and negative indices count from the end.

    Arguments:
        operand: an array.
        start_index, limit_index: ints, or None for the start or end; negative ones count from the end.
        stride: an int above 0.
        axis: the axis.

    Returns:
        An array of the dtype of the operand.

    Raises:
        LeafError: `operand` is neither an array nor a number.
        AxisError: the array has no such axis.
        ValueError: a stride of 0.

    Example:
        >>> lax.slice_in_dim(pnp.arange(5), 1, -1), pnp.arange(5)[1:-1]
        ([1 2 3]:i32[3]:cpu(0), [1 2 3]:i32[3]:cpu(0))
    """
    x, along = _along(operand, axis, "slice_in_dim")
    if stride == 0:
        raise ValueError(f"slice_in_dim takes a stride above 0, but got {stride}.{at_user_line()}")
    start, stop, step = builtins.slice(start_index, limit_index, stride).indices(x.type.shape[along])
    starts = [start if i == along else 0 for i in range(x.type.ndim)]
    stops = [max(start, stop) if i == along else size for i, size in enumerate(x.type.shape)]
    steps = [step if i == along else 1 for i in range(x.type.ndim)]
    return slice(x, starts, stops, steps if step != 1 else None)


def index_in_dim(operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """One index along an axis, which is kept (of size 1) or not.

    Arguments:
        operand: an array.
        index: an int; a negative one counts from the end.
        axis: the axis.
        keepdims: whether the axis is kept, of size 1.

    Returns:
        An array of the dtype of the operand.

    Raises:
        LeafError: `operand` is neither an array nor a number.
        AxisError: the array has no such axis.
        IndexError: the index is out of bounds.

    Example:
        >>> lax.index_in_dim(pnp.array([[1, 2], [3, 4]]), -1)
        [[3 4]]:i32[1,2]:cpu(0)
        >>> lax.index_in_dim(pnp.array([[1, 2], [3, 4]]), -1, keepdims=False)
        [3 4]:i32[2]:cpu(0)
    """
    x, along = _along(operand, axis, "index_in_dim")
    size = x.type.shape[along]
    if not -size <= index < size:
        raise IndexError(
            f"index_in_dim: index {index} is out of bounds for axis {axis} of {x.type}: it must be one of -{x.type.shape[axis]}"
            f" to {x.type.shape[axis] - 1}."
        )
    out = shaping.cut(x, along, index % size, index % size + 1)
    return out if keepdims else shapes.squeeze(out, dimensions=(along,))


def _starts(x: Any, start_indices: Any, name: str, negative: Any) -> list[Any]:
    """Start indices, with negative ones counted from the end where `negative` allows that: all of them, or each."""
    wraps = [negative] * x.type.ndim if isinstance(negative, bool) or not isinstance(negative, Sequence) else list(negative)
    for wrap in wraps:
        flags(name, allow_negative_indices=wrap)
    given = shaping.unstack(start_indices) if getattr(start_indices, "ndim", 0) == 1 else list(start_indices)
    if len(given) != x.type.ndim or len(wraps) != x.type.ndim:
        raise ShapeError(f"{name} takes a start for each axis of {x.type}, but got {len(given)}.")
    dtype = default_dtype("i")
    out = []
    for start, size, wrap in zip(given, x.type.shape, wraps):
        if isinstance(start, int):
            out.append(literal_of(start + size if start < 0 and wrap else start, dtype))
        else:
            place = as_operand(start, name)
            if kind(place.type.dtype) not in "iu":
                raise DtypeError(
                    f"{name} takes integer start indices, but got {place.type}. Convert with .astype(int).{at_user_line()}"
                )
            place = indexing.signed(place)
            place = indexing.from_end(place, size) if wrap else place
            out.append(place if place.type.dtype.itemsize > 2 else in_dtype(place, dtype))
    return out


def dynamic_slice(
    operand: ArrayLike,
    start_indices: ArrayLike | Sequence[ArrayLike],
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """A block of fixed sizes at traced start indices; it is moved inside where it would not fit.

    Arguments:
        operand: an array.
        start_indices: for each axis an integer, or a vector of these; negative ones count from the end.
        slice_sizes: for each axis an int.
        allow_negative_indices: whether negative ones count from the end, for each axis or for all; else they are moved inside.

    Returns:
        An array of the shape `slice_sizes`, in the dtype of the operand.

    Raises:
        LeafError: `operand` is neither an array nor a number.
        ShapeError: not one start and size for each axis, or a size beyond the array's.
        DtypeError: a start is not an integer.

    Example:
        >>> lax.dynamic_slice(pnp.arange(5), (1,), (3,))
        [1 2 3]:i32[3]:cpu(0)
        >>> lax.dynamic_slice(pnp.arange(5), (4,), (3,))
        [2 3 4]:i32[3]:cpu(0)
    """
    x = as_operand(operand, "dynamic_slice")
    return dynamic.dynamic_slice(
        x,
        *_starts(x, start_indices, "dynamic_slice", allow_negative_indices),
        slice_sizes=creation.checked_shape(tuple(slice_sizes), "dynamic_slice"),
    )


def dynamic_slice_in_dim(
    operand: ArrayLike, start_index: ArrayLike, slice_size: int, axis: int = 0, *, allow_negative_indices: bool = True
) -> Array:
    """`dynamic_slice` along one axis.

    Arguments:
        operand: an array.
        start_index: an integer; a negative one counts from the end.
        slice_size: an int.
        axis: the axis.
        allow_negative_indices: whether negative ones count from the end; else they are moved inside.

    Returns:
        An array of the dtype of the operand.

    Raises:
        LeafError: `operand` is neither an array nor a number.
        AxisError: the array has no such axis.
        ShapeError: the size is beyond the array's.
        DtypeError: the start is not an integer.

    Example:
        >>> pb.jit(lambda x, i: lax.dynamic_slice_in_dim(x, i, 2))(pnp.arange(5), 3)
        [3 4]:i32[2]:cpu(0)
    """
    x, along = _along(operand, axis, "dynamic_slice_in_dim")
    starts = [start_index if i == along else 0 for i in range(x.type.ndim)]
    return dynamic_slice(
        x,
        starts,
        [slice_size if i == along else size for i, size in enumerate(x.type.shape)],
        allow_negative_indices=allow_negative_indices,
    )


def dynamic_index_in_dim(
    operand: ArrayLike, index: ArrayLike, axis: int = 0, keepdims: bool = True, *, allow_negative_indices: bool = True
) -> Array:
    """One traced index along an axis.

    Arguments:
        operand: an array.
        index: an integer; a negative one counts from the end.
        axis: the axis.
        keepdims: whether the axis is kept, of size 1.
        allow_negative_indices: whether negative ones count from the end; else they are moved inside.

    Returns:
        An array of the dtype of the operand.

    Raises:
        LeafError: `operand` is neither an array nor a number.
        AxisError: the array has no such axis.
        DtypeError: the index is not an integer.

    Example:
        >>> lax.dynamic_index_in_dim(pnp.array([[1, 2], [3, 4]]), 1, axis=1, keepdims=False)
        [2 4]:i32[2]:cpu(0)
    """
    x, along = _along(operand, axis, "dynamic_index_in_dim")
    out = dynamic_slice_in_dim(x, index, 1, along, allow_negative_indices=allow_negative_indices)
    return out if keepdims else shapes.squeeze(out, dimensions=(along,))


def dynamic_update_slice(
    operand: ArrayLike,
    update: ArrayLike,
    start_indices: ArrayLike | Sequence[ArrayLike],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """The array with a block replaced, at traced start indices.

    Arguments:
        operand: an array.
        update: an array of its dtype and of as many axes, none of them larger.
        start_indices: for each axis an integer, or a vector of these; negative ones count from the end.
        allow_negative_indices: whether negative ones count from the end, for each axis or for all; else they are moved inside.

    Returns:
        An array of the shape and dtype of the operand.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: not one start for each axis, or the update is too large.
        DtypeError: a start is not an integer, or the dtypes differ.

    Example:
        >>> lax.dynamic_update_slice(pnp.arange(5), pnp.array([10, 11]), (1,))
        [ 0 10 11  3  4]:i32[5]:cpu(0)
        >>> lax.dynamic_update_slice(pnp.arange(5), pnp.array([10, 11]), (4,))
        [ 0  1  2 10 11]:i32[5]:cpu(0)
    """
    x = as_operand(operand, "dynamic_update_slice")
    starts = _starts(x, start_indices, "dynamic_update_slice", allow_negative_indices)
    return dynamic.dynamic_update_slice(x, as_operand(update, "dynamic_update_slice"), *starts)


def dynamic_update_slice_in_dim(
    operand: ArrayLike, update: ArrayLike, start_index: ArrayLike, axis: int, *, allow_negative_indices: bool = True
) -> Array:
    """`dynamic_update_slice` along one axis.

    Arguments:
        operand: an array.
        update: an array of its dtype and of as many axes, none of them larger.
        start_index: an integer; a negative one counts from the end.
        axis: the axis.
        allow_negative_indices: whether negative ones count from the end; else they are moved inside.

    Returns:
        An array of the shape and dtype of the operand.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis.
        ShapeError: the update is too large.
        DtypeError: the start is not an integer, or the dtypes differ.

    Example:
        >>> lax.dynamic_update_slice_in_dim(pnp.zeros((2, 3)), pnp.ones((2, 1)), 1, axis=1)
        [[0. 1. 0.]
         [0. 1. 0.]]:f32[2,3]:cpu(0)
    """
    x, along = _along(operand, axis, "dynamic_update_slice_in_dim")
    return dynamic_update_slice(
        x, update, [start_index if i == along else 0 for i in range(x.type.ndim)], allow_negative_indices=allow_negative_indices
    )


def dynamic_update_index_in_dim(
    operand: ArrayLike, update: ArrayLike, index: ArrayLike, axis: int, *, allow_negative_indices: bool = True
) -> Array:
    """The array with one index along an axis replaced.

    Arguments:
        operand: an array.
        update: an array of its dtype, without the axis or with size 1 there.
        index: an integer; a negative one counts from the end.
        axis: the axis.
        allow_negative_indices: whether negative ones count from the end; else they are moved inside.

    Returns:
        An array of the shape and dtype of the operand.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis.
        ShapeError: the update is too large.
        DtypeError: the index is not an integer, or the dtypes differ.

    Example:
        >>> lax.dynamic_update_index_in_dim(pnp.array([[1, 2], [3, 4]]), pnp.array([7, 8]), 1, axis=1)
        [[1 7]
         [3 8]]:i32[2,2]:cpu(0)
    """
    x, along = _along(operand, axis, "dynamic_update_index_in_dim")
    new = as_operand(update, "dynamic_update_index_in_dim")
    if new.type.ndim < x.type.ndim:
        new = shaping.expand_dims(new, along)
    return dynamic_update_slice_in_dim(x, new, index, along, allow_negative_indices=allow_negative_indices)


def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
    *,
    out_sharding: None = None,
) -> Array:
    """Sums of products over pairs of axes: `dimension_numbers` is ((contracting of lhs, of rhs), (batch of lhs, of rhs)).

    `precision` is a lower bound: None, "default", "high" or "highest" (of both operands, or a pair). Products on the CPU are
    computed in the full precision of their dtype.

    Arguments:
        lhs, rhs: arrays. Of different dtypes, they are converted to the common one, floating ones to `preferred_element_type`.
        dimension_numbers: ((contracting axes of lhs, of rhs), (batch axes of lhs, of rhs)).
        precision: checked, and without effect: products are computed in the full precision of their dtype.
        preferred_element_type: the dtype to accumulate in, and of the result; by default the common one.
        out_sharding: None: there is one device.

    Returns:
        An array of the batch axes, the other axes of lhs, and those of rhs.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one (float8).
        ShapeError: the sizes of paired axes differ.
        ValueError: an unknown `precision`.

    Example:
        >>> x, y = pnp.ones((5, 2, 3)), pnp.ones((5, 3, 4))
        >>> lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))).shape, pnp.matmul(x, y).shape
        ((5, 2, 4), (5, 2, 4))
    """
    refuse_sharding("dot_general", out_sharding)
    check_precision(precision, "dot_general")
    contracting, batch = pair("dot_general", "dimension_numbers", dimension_numbers)
    left, right = pair("dot_general", "the contracting axes", contracting)
    left_batch, right_batch = pair("dot_general", "the batch axes", batch)
    numbers = ((tuple(left), tuple(right)), (tuple(left_batch), tuple(right_batch)))
    params = {} if preferred_element_type is None else {"preferred_element_type": requested(preferred_element_type)}
    x, y = lifted("dot_general", (lhs, rhs))
    if x.type.dtype is not y.type.dtype:
        wanted = params.get("preferred_element_type", x.type.dtype)
        floats = params and kind(x.type.dtype) == kind(y.type.dtype) == kind(wanted) == "f"
        with overriding(promotion="standard"):  # it takes two dtypes by itself
            x, y = (in_dtype(x, wanted), in_dtype(y, wanted)) if floats else to_common_dtype("dot_general", x, y)
    return contract.dot_general(x, y, dimension_numbers=numbers, **params)


def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
    out_sharding: None = None,
) -> Array:
    """The product of vectors and matrices; with `dimension_numbers`, `dot_general`.

    Arguments:
        lhs, rhs: vectors or matrices; with `dimension_numbers`, arrays. Of different dtypes, as for `dot_general`.
        dimension_numbers: as for `dot_general`.
        precision: checked, and without effect: products are computed in the full precision of their dtype.
        preferred_element_type: the dtype to accumulate in, and of the result; by default the common one.
        out_sharding: None: there is one device.

    Returns:
        An array of the other axes of lhs, and those of rhs.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one (float8).
        ShapeError: an operand is neither a vector nor a matrix, or the sizes of paired axes differ.
        ValueError: an unknown `precision`.

    Example:
        >>> lax.dot(pnp.array([[1.0, 2.0], [3.0, 4.0]]), pnp.array([1.0, 1.0]))
        [3. 7.]:f32[2]:cpu(0)
    """
    refuse_sharding("dot", out_sharding)
    x, y = lifted("dot", (lhs, rhs))
    if dimension_numbers is None:
        if not 1 <= x.type.ndim <= 2 or not 1 <= y.type.ndim <= 2:
            raise ShapeError(f"dot takes vectors and matrices, but got {x.type} and {y.type}.")
        dimension_numbers = (((x.type.ndim - 1,), (0,)), ((), ()))
    return dot_general(x, y, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: Any = None) -> Array:
    """Matrix products along equal leading axes.

    Arguments:
        lhs, rhs: arrays of shapes (..., n, k) and (..., k, m) with equal leading axes.
        precision: checked, and without effect: products are computed in the full precision of their dtype.

    Returns:
        An array of shape (..., n, m).

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one (float8).
        ShapeError: the leading axes or the sizes k differ.
        ValueError: an unknown `precision`.

    Example:
        >>> lax.batch_matmul(pnp.ones((5, 2, 3)), pnp.ones((5, 3, 4))).shape
        (5, 2, 4)
    """
    x, y = lifted("batch_matmul", (lhs, rhs))
    batch = tuple(range(x.type.ndim - 2))
    return dot_general(x, y, (((x.type.ndim - 1,), (x.type.ndim - 2,)), (batch, batch)), precision)


def argmax(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """The index along an axis of the first largest element.

    Arguments:
        operand: an array.
        axis: the axis.
        index_dtype: the dtype of the result, of integers.

    Returns:
        An array without the axis.

    Raises:
        LeafError: `operand` is neither an array nor a number.
        AxisError: the array has no such axis.
        ShapeError: there are no elements along it.
        DtypeError: the operand is complex, `index_dtype` is not one of integers, or the indices do not fit into it.

    Example:
        >>> lax.argmax(pnp.array([[1, 7], [7, 2]]), 1, pnp.int32)
        [1 0]:i32[2]:cpu(0)
    """
    return _position("argmax", reduce.argmax, operand, axis, index_dtype)


def argmin(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """The index along an axis of the first smallest element.

    Arguments:
        operand: an array.
        axis: the axis.
        index_dtype: the dtype of the result, of integers.

    Returns:
        An array without the axis.

    Raises:
        LeafError: `operand` is neither an array nor a number.
        AxisError: the array has no such axis.
        ShapeError: there are no elements along it.
        DtypeError: the operand is complex, `index_dtype` is not one of integers, or the indices do not fit into it.

    Example:
        >>> lax.argmin(pnp.array([[1, 7], [7, 2]]), 1, pnp.uint8)
        [0 1]:u8[2]:cpu(0)
    """
    return _position("argmin", reduce.argmin, operand, axis, index_dtype)


def _position(name: str, primitive: Any, operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    x, along = _along(operand, axis, name)
    dtype = requested(index_dtype)
    if kind(dtype) not in "iu":
        raise DtypeError(f"{name} gives indices: index_dtype is a dtype of integers, not {dtype.name}.{at_user_line()}")
    if x.type.shape[along] - 1 > np.iinfo(dtype).max:
        raise DtypeError(
            f"{name} along axis {axis} of {x.type} has indices that do not fit into {dtype.name}. Choose a wider"
            f" index_dtype.{at_user_line()}"
        )
    return primitive(x, axis=along, index_dtype=dtype)


_REDUCTION = """    Arguments:
        operand: an array ({}).
        axes: the axes to reduce, a sequence of ints.

    Returns:
        An array without these axes, in the dtype of the operand.

    Raises:
        LeafError: `operand` is neither an array nor a number.
        DtypeError: it is of another dtype.
        ShapeError: an axis that the array does not have (negative ones do not count from the end), or one given twice."""


def _reduction(name: str, primitive: Any, example: str) -> Callable[[ArrayLike, Sequence[int]], Array]:
    def function(operand: Any, axes: Sequence[int]) -> Any:
        return primitive(as_operand(operand, name), axes=tuple(axes))

    return named(function, name, primitive.__doc__ + example, _REDUCTION.format(in_words(primitive.kinds)), "pullback.lax")


# fmt: off
reduce_sum = _reduction("reduce_sum", broadcasts.reduce_sum, """

    Example:
        >>> lax.reduce_sum(pnp.array([[1, 2], [3, 4]]), (0,))
        [4 6]:i32[2]:cpu(0)
        >>> narrow = pnp.array([100, 100], pnp.int8)
        >>> lax.reduce_sum(narrow, (0,)), pnp.sum(narrow)
        (-56:i8[]:cpu(0), 200:i32[]:cpu(0))
    """)
reduce_prod = _reduction("reduce_prod", reduce.reduce_prod, """

    Example:
        >>> lax.reduce_prod(pnp.array([[1, 2], [3, 4]]), (1,))
        [ 2 12]:i32[2]:cpu(0)
    """)
reduce_max = _reduction("reduce_max", reduce.reduce_max, """

    Example:
        >>> lax.reduce_max(pnp.array([[1, 7], [9, 2]]), (0,))
        [9 7]:i32[2]:cpu(0)
        >>> lax.reduce_max(pnp.zeros(0), (0,))
        -inf:f32[]:cpu(0)
    """)
reduce_min = _reduction("reduce_min", reduce.reduce_min, """

    Example:
        >>> lax.reduce_min(pnp.array([[1, 7], [9, 2]]), (0, 1))
        1:i32[]:cpu(0)
    """)
reduce_and = _reduction("reduce_and", reduce.reduce_and, """

    Example:
        >>> lax.reduce_and(pnp.array([[True, False], [True, True]]), (1,))
        [False  True]:bool[2]:cpu(0)
    """)
reduce_or = _reduction("reduce_or", reduce.reduce_or, """

    Example:
        >>> lax.reduce_or(pnp.array([0b0001, 0b1000]), (0,))
        9:i32[]:cpu(0)
    """)
reduce_xor = _reduction("reduce_xor", reduce.reduce_xor, """

    Example:
        >>> lax.reduce_xor(pnp.array([0b0011, 0b0110]), (0,))
        5:i32[]:cpu(0)
    """)
# fmt: on
