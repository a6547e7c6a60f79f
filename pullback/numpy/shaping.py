"""Moving elements about: new shapes, new orders, joining and cutting."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief, counted
from pullback.core.dtypes import DTypeLike
from pullback.core.errors import AxisError, ShapeError
from pullback.core.tracing import Tracer
from pullback.core.types import ArrayType, Shape, ShapeLike
from pullback.numpy.axes import Axis, normal_axes, normal_axis, several, whole
from pullback.numpy.creation import array, checked_shape, full
from pullback.numpy.eager import by_numpy
from pullback.numpy.promotion import at_user_line, broadcast, operand, refuse_out, to_common_dtype
from pullback.numpy.promotion import broadcast_shapes as common_shape
from pullback.numpy.taking import take
from pullback.ops import scans
from pullback.ops import shape as shapes


@by_numpy(np.reshape)
def reshape(a: ArrayLike, shape: ShapeLike, order: str = "C", *, copy: bool | None = None) -> Array:
    """The elements of a, in row-major order, in another shape.

    Arguments:
        a: an array or a number.
        shape: an int or a sequence of ints; one of them may be -1, and is found from the others.
        order: "C" for row-major order, "F" for column-major.
        copy: True for an array that outlives the donation of `a`; None or False to share its memory.

    Returns:
        An array of the shape, in the dtype of `a`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shape has another number of elements.
        ValueError: another `order`.

    Example:
        >>> pnp.reshape(pnp.arange(6), (2, -1))
        [[0 1 2]
         [3 4 5]]:i32[2,3]:cpu(0)
        >>> pnp.reshape(pnp.arange(6), (2, 3), order="F")
        [[0 2 4]
         [1 3 5]]:i32[2,3]:cpu(0)
    """
    a = operand(a, "reshape")
    wanted = list(checked_shape(shape, "reshape", least=-1))
    if wanted.count(-1) == 1:
        known = math.prod(size for size in wanted if size != -1)
        wanted[wanted.index(-1)] = a.type.size // known if known else -1
    if wanted.count(-1) > 1:
        raise ShapeError(f"reshape finds one size by itself, but {shape} has -1 {wanted.count(-1)} times.{at_user_line()}")
    if -1 in wanted or math.prod(wanted) != a.type.size:
        raise ShapeError(
            f"reshape cannot give {a.type}, which has {counted(a.type.size, 'element')}, the shape {shape}. Sizes must"
            " multiply to that"
            f" number.{at_user_line()}"
        )
    copy = None if copy is None else bool(copy)
    if order not in ("C", "F"):
        raise ValueError(
            f"reshape takes order='C' or 'F', not {brief(order)}: arrays have no other memory order.{at_user_line()}"
        )
    if order == "F":
        return transpose(shapes.reshape(transpose(a), new_sizes=tuple(reversed(wanted))))
    if tuple(wanted) == a.type.shape:
        return a.alias() if copy and isinstance(a, Array) else a
    return shapes.reshape(a, new_sizes=tuple(wanted))


def ndim(a: Any) -> int:
    """How many axes an array has; of nested lists, how deep they are.

    Arguments:
        a: an array, a number, or nested sequences of these; or an ArrayType.

    Returns:
        An int.

    Raises:
        LeafError: something in `a` is neither an array nor a number.

    Example:
        >>> pnp.ndim(pnp.zeros((2, 3))), pnp.ndim(4.0)
        (2, 0)
    """
    return len(shape(a))


def shape(a: Any) -> Shape:
    """How large the axes of an array are.

    Arguments:
        a: an array, a number, or nested sequences of these; or an ArrayType.

    Returns:
        A tuple of ints.

    Raises:
        LeafError: something in `a` is neither an array nor a number.

    Example:
        >>> pnp.shape(pnp.zeros((2, 3))), pnp.shape([1, 2])
        ((2, 3), (2,))
    """
    return a.shape if isinstance(a, np.ndarray) else _type_of(a).shape  # NumPy's arrays may hold what is no number


def _type_of(a: Any) -> ArrayType:
    return a if isinstance(a, ArrayType) else array(a, copy=False).type


def size(a: Any, axis: Axis = None) -> int:
    """How many elements an array has, in all or along axes.

    Arguments:
        a: an array, a number, or nested sequences of these; or an ArrayType.
        axis: the axis or axes; all of them by default.

    Returns:
        An int.

    Raises:
        LeafError: something in `a` is neither an array nor a number.
        AxisError: the array has no such axis, or one is given twice.

    Example:
        >>> pnp.size(pnp.zeros((2, 3))), pnp.size(pnp.zeros((2, 3)), 1)
        (6, 3)
    """
    found = _type_of(a)
    return math.prod([found.shape[i] for i in normal_axes(axis, found, "size")])


def iterable(y: Any) -> bool:
    """Whether one can iterate over a value: an array of one axis or more, a list, ...

    Arguments:
        y: anything.

    Returns:
        A bool.

    Example:
        >>> pnp.iterable(pnp.zeros(3)), pnp.iterable(pnp.zeros(())), pnp.iterable("abc")
        (True, False, True)
    """
    return np.iterable(y)


@by_numpy(np.ravel)
def ravel(a: ArrayLike, order: str = "C") -> Array:
    """The elements of a as a vector, in row-major order ("F": column-major).

    Arguments:
        a: an array or a number.
        order: "C" for row-major order, "F" for column-major.

    Returns:
        A vector, in the dtype of `a`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ValueError: another `order`.

    Example:
        >>> pnp.ravel(pnp.array([[1, 2], [3, 4]]))
        [1 2 3 4]:i32[4]:cpu(0)
        >>> pnp.ravel(pnp.array([[1, 2], [3, 4]]), "F")
        [1 3 2 4]:i32[4]:cpu(0)
    """
    return reshape(a, -1 if operand(a, "ravel").type.size else 0, order)


@by_numpy(np.transpose)
def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """The axes of a in another order; reversed, if none is given.

    Arguments:
        a: an array or a number.
        axes: each axis once, in the order of the result; reversed by default.

    Returns:
        An array in the dtype of `a`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: `axes` are not each axis once.

    Example:
        >>> pnp.transpose(pnp.array([[1, 2, 3], [4, 5, 6]]))
        [[1 4]
         [2 5]
         [3 6]]:i32[3,2]:cpu(0)
        >>> pnp.transpose(pnp.zeros((2, 3, 4)), (1, 2, 0)).shape
        (3, 4, 2)
    """
    a = operand(a, "transpose")
    ndim = a.type.ndim
    order = tuple(reversed(range(ndim))) if axes is None else tuple([normal_axis(axis, ndim, "transpose") for axis in axes])
    if sorted(order) != list(range(ndim)):
        raise AxisError(f"transpose takes each axis of {a.type} once, but got {axes}.{at_user_line()}")
    return a if order == tuple(range(ndim)) else shapes.transpose(a, permutation=order)


permute_dims = transpose


@by_numpy(np.matrix_transpose)
def matrix_transpose(x: ArrayLike, /) -> Array:
    """The last two axes exchanged.

    Arguments:
        x: an array of shape (..., rows, columns).

    Returns:
        An array of shape (..., columns, rows), in the dtype of x.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: x has fewer than two axes.

    Example:
        >>> pnp.matrix_transpose(pnp.zeros((5, 2, 3))).shape
        (5, 3, 2)
    """
    x = operand(x, "matrix_transpose")
    if x.type.ndim < 2:
        raise ShapeError(f"matrix_transpose takes a matrix, or a stack of them, but got {x.type}.{at_user_line()}")
    return swapaxes(x, -1, -2)


@by_numpy(np.moveaxis)
def moveaxis(a: ArrayLike, source: ShapeLike, destination: ShapeLike) -> Array:
    """Axes moved to other places; the rest keep their order.

    Arguments:
        a: an array.
        source, destination: an axis, or as many axes of `a` as of the result.

    Returns:
        An array in the dtype of `a`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: an axis that the array does not have or that is given twice; or not as many destinations as sources.

    Example:
        >>> pnp.moveaxis(pnp.zeros((2, 3, 4)), 0, -1).shape
        (3, 4, 2)
        >>> pnp.moveaxis(pnp.zeros((2, 3, 4)), (0, 1), (1, 2)).shape
        (4, 2, 3)
    """
    a = operand(a, "moveaxis")
    ndim = a.type.ndim
    origin, target = [[normal_axis(axis, ndim, "moveaxis") for axis in several(x)] for x in (source, destination)]
    if len(origin) != len(target) or len(set(origin)) != len(origin) or len(set(target)) != len(target):
        raise AxisError(
            f"moveaxis takes as many different destinations as sources, but got {source} and {destination}.{at_user_line()}"
        )
    order = [axis for axis in range(ndim) if axis not in origin]
    for place, axis in sorted(zip(target, origin)):
        order.insert(place, axis)
    return transpose(a, order)


@by_numpy(np.swapaxes)
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Two axes exchanged.

    Arguments:
        a: an array.
        axis1, axis2: the two axes.

    Returns:
        An array in the dtype of `a`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis.

    Example:
        >>> pnp.swapaxes(pnp.zeros((2, 3, 4)), 0, 2).shape
        (4, 3, 2)
    """
    a = operand(a, "swapaxes")
    order = list(range(a.type.ndim))
    first, second = (normal_axis(axis, a.type.ndim, "swapaxes") for axis in (axis1, axis2))
    order[first], order[second] = second, first
    return transpose(a, order)


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """An axis moved to before another one.

    Arguments:
        a: an array.
        axis: the axis to move.
        start: the axis before which it is put; the number of axes, for the last place.

    Returns:
        An array in the dtype of `a`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis.

    Example:
        >>> pnp.rollaxis(pnp.zeros((2, 3, 4)), 2).shape
        (4, 2, 3)
    """
    a = operand(a, "rollaxis")
    axis = normal_axis(axis, a.type.ndim, "rollaxis")
    start = start + a.type.ndim if start < 0 else start
    return moveaxis(a, axis, start - 1 if axis < start else start)


@by_numpy(np.expand_dims)
def expand_dims(a: ArrayLike, axis: Axis) -> Array:
    """New axes of size 1 at the places `axis` of the result.

    Arguments:
        a: an array or a number.
        axis: an int or a sequence of ints, counted in the result.

    Returns:
        An array in the dtype of `a`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the result has no such axis, or one is given twice.

    Example:
        >>> pnp.expand_dims(pnp.zeros(3), 0).shape, pnp.expand_dims(pnp.zeros(3), (0, -1)).shape
        ((1, 3), (1, 3, 1))
    """
    a = operand(a, "expand_dims")
    places = several(axis)
    ndim = a.type.ndim + len(places)
    new = {normal_axis(place, ndim, "expand_dims") for place in places}
    if len(new) != len(places):
        raise AxisError(f"expand_dims was given a repeated axis: {axis}. Name each once.{at_user_line()}")
    rest = iter(a.type.shape)
    return shapes.reshape(a, new_sizes=tuple([1 if i in new else next(rest) for i in range(ndim)]))


@by_numpy(np.squeeze)
def squeeze(a: ArrayLike, axis: Axis = None) -> Array:
    """Without the axes of size 1; or without those of `axis`, which must be of size 1.

    Arguments:
        a: an array or a number.
        axis: an int or a sequence of ints; every axis of size 1 by default.

    Returns:
        An array in the dtype of `a`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis, or one is given twice.
        ShapeError: one of the axes is not of size 1.

    Example:
        >>> pnp.squeeze(pnp.zeros((1, 3, 1))).shape, pnp.squeeze(pnp.zeros((1, 3, 1)), axis=0).shape
        ((3,), (3, 1))
    """
    a = operand(a, "squeeze")
    if axis is None:
        axes = tuple([i for i, size in enumerate(a.type.shape) if size == 1])
    else:
        axes = normal_axes(axis, a.type, "squeeze")
        if any(a.type.shape[i] != 1 for i in axes):
            raise ShapeError(f"squeeze removes axes of size 1, but {a.type} has others at {axis}.{at_user_line()}")
    return shapes.squeeze(a, dimensions=axes) if axes else a


@by_numpy(np.broadcast_to)
def broadcast_to(array: ArrayLike, shape: ShapeLike) -> Array:
    """The array repeated along new axes in front, and along axes of size 1, to a shape.

    Arguments:
        array: an array or a number.
        shape: an int or a sequence of ints.

    Returns:
        An array of the shape, in the dtype of the given one.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the array does not broadcast to it.

    Example:
        >>> pnp.broadcast_to(pnp.array([1, 2]), (2, 2))
        [[1 2]
         [1 2]]:i32[2,2]:cpu(0)
    """
    array = operand(array, "broadcast_to")
    sizes = checked_shape(shape, "broadcast_to")
    if array.type.shape == sizes:
        return array
    if len(sizes) < array.type.ndim or common_shape("broadcast_to", array.type.shape, sizes) != sizes:
        raise ShapeError(
            f"broadcast_to cannot make {array.type} of shape {sizes}: aligned at their last axes, its sizes must be equal to"
            f" those, or 1.{at_user_line()}"
        )
    return broadcast(array, sizes)


def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """The arrays broadcast to their common shape.

    Arguments:
        args: arrays or numbers; each keeps its dtype.

    Returns:
        A list of arrays of one shape.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pnp.broadcast_arrays(pnp.array([1, 2]), 0.5)
        [[1 2]:i32[2]:cpu(0), [0.5 0.5]:f32[2]:cpu(0)]
    """
    values = [operand(arg, "broadcast_arrays") for arg in args]
    shapes = [value.type.shape for value in values]
    shape = common_shape("broadcast_arrays", *shapes) if values else ()
    return [broadcast(value, shape) for value in values]


def broadcast_shapes(*args: ShapeLike) -> Shape:
    """The shape that arrays of these shapes broadcast to.

    Arguments:
        args: shapes: ints or sequences of ints.

    Returns:
        A tuple of ints.

    Raises:
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pnp.broadcast_shapes((4, 1), (3,), 1)
        (4, 3)
    """
    return common_shape("broadcast_shapes", *[checked_shape(shape, "broadcast_shapes") for shape in args]) if args else ()


# ---- joining ----------------------------------------------------------------------------------------------------------


_SEQUENCES = (list, tuple, range)


def _parts(name: str, arrays: Any) -> list[Any]:
    """The operands of a joining function: an array's first axis, or a sequence's elements, in their common dtype."""
    if isinstance(arrays, (Array, Tracer)) or hasattr(arrays, "ndim"):
        arrays = operand(arrays, name)
        return list(unstack(arrays))
    values = [array(value) if isinstance(value, _SEQUENCES) else value for value in arrays]
    if not values:
        raise ShapeError(f"{name} takes at least one array.{at_user_line()}")
    return list(to_common_dtype(name, *values))


@by_numpy(np.concatenate)
def concatenate(arrays: ArrayLike | Sequence[Any], axis: int | None = 0, dtype: DTypeLike = None) -> Array:
    """Arrays joined along an axis that they have; None flattens them first.

    Arguments:
        arrays: a sequence of arrays or of lists of numbers; of an array, those along its first axis.
        axis: the axis; None to flatten them first.
        dtype: by default their common dtype.

    Returns:
        An array.

    Raises:
        LeafError: one of them is neither an array nor a list of numbers.
        ShapeError: their other axes differ, they are 0-d, or there are none.
        AxisError: the array has no such axis.
        DtypeError: the dtypes have no common one.

    Example:
        >>> pnp.concatenate([pnp.array([1, 2]), pnp.array([0.5])])
        [1.  2.  0.5]:f32[3]:cpu(0)
        >>> pnp.concatenate([pnp.ones((2, 1)), pnp.zeros((2, 2))], axis=1)
        [[1. 0. 0.]
         [1. 0. 0.]]:f32[2,3]:cpu(0)
    """
    return _joined("concatenate", _parts("concatenate", arrays), axis, dtype)


concat = concatenate


def _joined(name: str, parts: list[Any], axis: int | None, dtype: Any = None) -> Any:
    if axis is None:
        parts, axis = [ravel(part) for part in parts], 0
    if not parts[0].type.shape:
        raise ShapeError(
            f"{name} joins along an axis, but got 0-d arrays. Use stack; or, to join arrays, give them as one list,"
            f" {name}([x, y]).{at_user_line()}"
        )
    along = normal_axis(axis, parts[0].type.ndim, name)
    kinds = {(*part.type.shape[:along], *part.type.shape[along + 1 :]) for part in parts}
    if len(kinds) > 1 or len({part.type.ndim for part in parts}) > 1:
        raise ShapeError(
            f"{name} along axis {axis} needs arrays that agree in all other axes, but got"
            f" {', '.join(str(part.type) for part in parts)}.{at_user_line()}"
        )
    out = parts[0] if len(parts) == 1 else shapes.concatenate(*parts, dimension=along)
    return out if dtype is None else out.astype(dtype)


@by_numpy(np.stack)
def stack(arrays: ArrayLike | Sequence[Any], axis: int = 0, out: None = None, dtype: DTypeLike = None) -> Array:
    """Arrays of one shape, along a new axis.

    Arguments:
        arrays: a sequence of arrays, numbers or lists of numbers.
        axis: where the new axis lies in the result.
        out: None: arrays are immutable.
        dtype: by default their common dtype.

    Returns:
        An array with one axis more.

    Raises:
        TypeError: `out` is not None.
        LeafError: one of them is neither an array nor a list of numbers.
        ShapeError: their shapes differ, or there are none.
        AxisError: the array has no such axis.
        DtypeError: the dtypes have no common one.

    Example:
        >>> pnp.stack([1.0, 2.0])
        [1. 2.]:f32[2]:cpu(0)
        >>> pnp.stack([pnp.array([1, 2]), pnp.array([3, 4])], axis=1)
        [[1 3]
         [2 4]]:i32[2,2]:cpu(0)
    """
    refuse_out("stack", out)
    parts = _parts("stack", arrays)
    if len({part.type.shape for part in parts}) > 1:
        raise ShapeError(
            f"stack takes arrays of one shape, but got {', '.join(str(part.type) for part in parts)}.{at_user_line()}"
        )
    return _joined("stack", [expand_dims(part, axis) for part in parts], axis, dtype)


@by_numpy(np.vstack)
def vstack(tup: ArrayLike | Sequence[Any], dtype: DTypeLike = None) -> Array:
    """Arrays on top of each other: joined along the first axis; vectors are rows.

    Arguments:
        tup: a sequence of arrays, numbers or lists of numbers.
        dtype: by default their common dtype.

    Returns:
        An array of two axes or more.

    Raises:
        LeafError: one of them is neither an array nor a list of numbers.
        ShapeError: their other axes differ, or there are none.
        DtypeError: the dtypes have no common one.

    Example:
        >>> pnp.vstack([[1, 2], [3, 4]])
        [[1 2]
         [3 4]]:i32[2,2]:cpu(0)
    """
    return _joined("vstack", [atleast_2d(part) for part in _parts("vstack", tup)], 0, dtype)


@by_numpy(np.hstack)
def hstack(tup: ArrayLike | Sequence[Any], dtype: DTypeLike = None) -> Array:
    """Arrays side by side: joined along the second axis; vectors along their only one.

    Arguments:
        tup: a sequence of arrays, numbers or lists of numbers.
        dtype: by default their common dtype.

    Returns:
        An array of one axis or more.

    Raises:
        LeafError: one of them is neither an array nor a list of numbers.
        ShapeError: their other axes differ, or there are none.
        DtypeError: the dtypes have no common one.

    Example:
        >>> pnp.hstack([[1, 2], [3]])
        [1 2 3]:i32[3]:cpu(0)
        >>> pnp.hstack([pnp.ones((2, 1)), pnp.zeros((2, 2))]).shape
        (2, 3)
    """
    parts = [atleast_1d(part) for part in _parts("hstack", tup)]
    return _joined("hstack", parts, 0 if parts[0].type.ndim == 1 else 1, dtype)


@by_numpy(np.dstack)
def dstack(tup: ArrayLike | Sequence[Any], dtype: DTypeLike = None) -> Array:
    """Arrays behind each other: joined along the third axis.

    Arguments:
        tup: a sequence of arrays, numbers or lists of numbers.
        dtype: by default their common dtype.

    Returns:
        An array of three axes or more.

    Raises:
        LeafError: one of them is neither an array nor a list of numbers.
        ShapeError: their other axes differ, or there are none.
        DtypeError: the dtypes have no common one.

    Example:
        >>> pnp.dstack([[1, 2], [3, 4]])
        [[[1 3]
          [2 4]]]:i32[1,2,2]:cpu(0)
    """
    return _joined("dstack", [atleast_3d(part) for part in _parts("dstack", tup)], 2, dtype)


@by_numpy(np.column_stack)
def column_stack(tup: ArrayLike | Sequence[Any]) -> Array:
    """Vectors as the columns of a matrix; matrices side by side.

    Arguments:
        tup: a sequence of vectors, matrices, numbers or lists of numbers.

    Returns:
        A matrix.

    Raises:
        LeafError: one of them is neither an array nor a list of numbers.
        ShapeError: their first axes differ, or there are none.
        DtypeError: the dtypes have no common one.

    Example:
        >>> pnp.column_stack([[1, 2], [3, 4]])
        [[1 3]
         [2 4]]:i32[2,2]:cpu(0)
    """
    parts = [expand_dims(atleast_1d(part), 1) if part.type.ndim < 2 else part for part in _parts("column_stack", tup)]
    return _joined("column_stack", parts, 1)


def append(arr: ArrayLike, values: ArrayLike | Sequence[Any], axis: int | None = None) -> Array:
    """`values` joined to the end of an array; both are flattened unless an axis is given.

    Arguments:
        arr, values: arrays or lists of numbers.
        axis: the axis along which to join them; None to flatten both first.

    Returns:
        An array, in the common dtype.

    Raises:
        LeafError: one of them is neither an array nor a list of numbers.
        ShapeError: their other axes differ.
        AxisError: the array has no such axis.
        DtypeError: the dtypes have no common one.

    Example:
        >>> pnp.append(pnp.array([[1, 2]]), [3])
        [1 2 3]:i32[3]:cpu(0)
        >>> pnp.append(pnp.array([[1, 2]]), [[3, 4]], axis=0)
        [[1 2]
         [3 4]]:i32[2,2]:cpu(0)
    """
    return concatenate([arr, values], axis)


def atleast_1d(*arys: ArrayLike) -> Any:
    """The arrays, each with one axis or more.

    Arguments:
        arys: arrays, numbers or lists of numbers; each keeps its dtype.

    Returns:
        An array; a list, of several.

    Raises:
        LeafError: an operand is neither an array nor a number.

    Example:
        >>> pnp.atleast_1d(3.0)
        [3.]:f32[1]:cpu(0)
    """
    return _each_reshaped("atleast_1d", arys, lambda shape: shape or (1,))


def atleast_2d(*arys: ArrayLike) -> Any:
    """The arrays, each with two axes or more; new ones stand in front.

    Arguments:
        arys: arrays, numbers or lists of numbers; each keeps its dtype.

    Returns:
        An array; a list, of several.

    Raises:
        LeafError: an operand is neither an array nor a number.

    Example:
        >>> pnp.atleast_2d([1, 2])
        [[1 2]]:i32[1,2]:cpu(0)
        >>> [each.shape for each in pnp.atleast_2d(1.0, pnp.zeros((2, 3, 4)))]
        [(1, 1), (2, 3, 4)]
    """
    return _each_reshaped("atleast_2d", arys, lambda shape: (1,) * (2 - len(shape)) + shape)


def atleast_3d(*arys: ArrayLike) -> Any:
    """The arrays, each with three axes or more; a vector becomes (1, n, 1), a matrix (n, m, 1).

    Arguments:
        arys: arrays, numbers or lists of numbers; each keeps its dtype.

    Returns:
        An array; a list, of several.

    Raises:
        LeafError: an operand is neither an array nor a number.

    Example:
        >>> pnp.atleast_3d([1, 2]).shape, pnp.atleast_3d(pnp.zeros((2, 3))).shape
        ((1, 2, 1), (2, 3, 1))
    """
    return _each_reshaped(
        "atleast_3d", arys, lambda shape: {0: (1, 1, 1), 1: (1, *shape, 1), 2: (*shape, 1)}.get(len(shape), shape)
    )


def _each_reshaped(name: str, arys: Sequence[Any], wanted: Callable[[Shape], Shape]) -> Any:
    values = [array(a) if isinstance(a, _SEQUENCES) else operand(a, name) for a in arys]
    out = [reshape(a, wanted(a.type.shape)) for a in values]
    return out[0] if len(out) == 1 else out


# ---- cutting ----------------------------------------------------------------------------------------------------------


def cut(a: Any, axis: int, start: int, stop: int) -> Any:
    """The elements from start to stop along one axis."""
    starts = tuple([start if i == axis else 0 for i in range(a.type.ndim)])
    stops = tuple([stop if i == axis else size for i, size in enumerate(a.type.shape)])
    return shapes.slice(a, start_indices=starts, limit_indices=stops, strides=None)


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The arrays that lie along an axis, which they do not have any more.

    Arguments:
        x: an array.
        axis: the axis.

    Returns:
        A tuple of arrays with one axis less, in the dtype of x.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis.

    Example:
        >>> pnp.unstack(pnp.array([[1, 2], [3, 4]]))
        ([1 2]:i32[2]:cpu(0), [3 4]:i32[2]:cpu(0))
        >>> first, second = pnp.unstack(pnp.array([[1, 2], [3, 4]]), axis=1)
        >>> first
        [1 3]:i32[2]:cpu(0)
    """
    x = operand(x, "unstack")
    along = normal_axis(axis, x.type.ndim, "unstack")
    return tuple([shapes.squeeze(cut(x, along, i, i + 1), dimensions=(along,)) for i in range(x.type.shape[along])])


def split(ary: ArrayLike, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Array]:
    """An array cut along an axis: into equal parts, if given an int; or at the given indices.

    Arguments:
        ary: an array.
        indices_or_sections: how many parts; or a sequence of the indices at which each but the first starts.
        axis: the axis.

    Returns:
        A list of arrays, in the dtype of `ary`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis.
        ShapeError: the axis cannot be cut into so many equal parts.
        TypeError: indices that are not integers.

    Example:
        >>> pnp.split(pnp.arange(6), 3)
        [[0 1]:i32[2]:cpu(0), [2 3]:i32[2]:cpu(0), [4 5]:i32[2]:cpu(0)]
        >>> pnp.split(pnp.arange(6), [1, 4])
        [[0]:i32[1]:cpu(0), [1 2 3]:i32[3]:cpu(0), [4 5]:i32[2]:cpu(0)]
    """
    ary = operand(ary, "split")
    size = ary.type.shape[normal_axis(axis, ary.type.ndim, "split")]
    if not np.ndim(indices_or_sections) and size % (whole(indices_or_sections, "split's number of parts") or 1):
        raise ShapeError(
            f"split cannot cut {ary.type} into {indices_or_sections} equal parts along axis {axis}. Use array_split, whose"
            f" parts may differ by one.{at_user_line()}"
        )
    return array_split(ary, indices_or_sections, axis)


def array_split(ary: ArrayLike, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Array]:
    """As `split`, but parts may differ in size by one.

    Arguments:
        ary: an array.
        indices_or_sections: how many parts; or a sequence of the indices at which each but the first starts.
        axis: the axis.

    Returns:
        A list of arrays, in the dtype of `ary`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis.
        ShapeError: fewer parts than one.
        TypeError: indices that are not integers.

    Example:
        >>> pnp.array_split(pnp.arange(5), 2)
        [[0 1 2]:i32[3]:cpu(0), [3 4]:i32[2]:cpu(0)]
    """
    ary = operand(ary, "array_split")
    along = normal_axis(axis, ary.type.ndim, "array_split")
    size = ary.type.shape[along]
    if not np.ndim(indices_or_sections):
        count = whole(indices_or_sections, "array_split's number of parts")
        if count < 1:
            raise ShapeError(
                f"array_split cannot cut an array into {counted(count, 'part')}. Ask for 1 or more.{at_user_line()}"
            )
        bounds = [i * (size // count) + min(i, size % count) for i in range(count + 1)]
    else:
        given = [whole(i, "Each place at which an array is split") for i in indices_or_sections]  # type: ignore[union-attr]
        bounds = [0, *[min(max(i + size if i < 0 else i, 0), size) for i in given], size]
    return [cut(ary, along, start, max(start, stop)) for start, stop in itertools.pairwise(bounds)]


def hsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """`split` along the second axis; of a vector, along its only one.

    Arguments:
        ary: an array.
        indices_or_sections: how many parts; or a sequence of the indices at which each but the first starts.

    Returns:
        A list of arrays, in the dtype of `ary`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis.
        ShapeError: the axis cannot be cut into so many equal parts.

    Example:
        >>> [part.shape for part in pnp.hsplit(pnp.zeros((3, 4)), 2)]
        [(3, 2), (3, 2)]
    """
    return split(ary, indices_or_sections, 0 if operand(ary, "hsplit").type.ndim == 1 else 1)


def vsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """`split` along the first axis.

    Arguments:
        ary: an array.
        indices_or_sections: how many parts; or a sequence of the indices at which each but the first starts.

    Returns:
        A list of arrays, in the dtype of `ary`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis.
        ShapeError: the axis cannot be cut into so many equal parts.

    Example:
        >>> pnp.vsplit(pnp.array([[1, 2], [3, 4]]), 2)
        [[[1 2]]:i32[1,2]:cpu(0), [[3 4]]:i32[1,2]:cpu(0)]
    """
    return split(ary, indices_or_sections, 0)


def dsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """`split` along the third axis.

    Arguments:
        ary: an array of three axes or more.
        indices_or_sections: how many parts; or a sequence of the indices at which each but the first starts.

    Returns:
        A list of arrays, in the dtype of `ary`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis.
        ShapeError: the axis cannot be cut into so many equal parts.

    Example:
        >>> [part.shape for part in pnp.dsplit(pnp.zeros((1, 2, 5)), [2])]
        [(1, 2, 2), (1, 2, 3)]
    """
    return split(ary, indices_or_sections, 2)


# ---- repeating and turning --------------------------------------------------------------------------------------------


@by_numpy(np.tile)
def tile(A: ArrayLike, reps: ShapeLike) -> Array:
    """The array laid side by side, `reps` times along each axis.

    Arguments:
        A: an array or a number.
        reps: an int or a sequence of ints, for the last axes; more of them make new axes in front.

    Returns:
        An array in the dtype of A.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: a negative number of times.

    Example:
        >>> pnp.tile(pnp.array([1, 2]), 2)
        [1 2 1 2]:i32[4]:cpu(0)
        >>> pnp.tile(pnp.array([1, 2]), (2, 1))
        [[1 2]
         [1 2]]:i32[2,2]:cpu(0)
    """
    A = operand(A, "tile")
    times = checked_shape(reps, "tile")
    ndim = max(A.type.ndim, len(times))
    shape = (1,) * (ndim - A.type.ndim) + A.type.shape
    times = (1,) * (ndim - len(times)) + times
    spread = shapes.reshape(A, new_sizes=tuple([n for size in shape for n in (1, size)]))
    wide = broadcast(spread, tuple([n for time, size in zip(times, shape) for n in (time, size)]))
    return shapes.reshape(wide, new_sizes=tuple([time * size for time, size in zip(times, shape)]))


@by_numpy(lambda a, repeats, axis=None: np.repeat(a, operator.index(repeats), axis))
def repeat(
    a: ArrayLike, repeats: ShapeLike | Array, axis: int | None = None, *, total_repeat_length: int | None = None
) -> Array:
    """Each element (or each slice along `axis`) repeated. How many there are in all must be known.

    Arguments:
        a: an array or a number.
        repeats: how often: an int for all of them, or a sequence of ints for each; traced only with `total_repeat_length`.
        axis: the axis; None to flatten the array first.
        total_repeat_length: the size of the result along the axis: it is cut off there, or filled with the last element.

    Returns:
        An array in the dtype of `a`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis.
        ShapeError: not one count for each element, or a negative one.
        TracerIntegerConversionError: a traced count, and no `total_repeat_length`.

    Example:
        >>> pnp.repeat(pnp.array([1, 2]), 2)
        [1 1 2 2]:i32[4]:cpu(0)
        >>> pnp.repeat(pnp.array([[1, 2], [3, 4]]), pnp.array([2, 1]), axis=0)
        [[1 2]
         [1 2]
         [3 4]]:i32[3,2]:cpu(0)
    """
    a = operand(a, "repeat")
    if axis is None:
        a, axis = ravel(a), 0
    along = normal_axis(axis, a.type.ndim, "repeat")
    if isinstance(repeats, Tracer) and total_repeat_length is not None:
        (length,) = checked_shape(total_repeat_length, "repeat")
        return take(a, _repeated_places(repeats, a.type.shape[along], length), along, mode="clip")
    counts = checked_shape(repeats.tolist() if isinstance(repeats, Array) else repeats, "repeat")
    shape, size = a.type.shape, a.type.shape[along]
    if len(counts) == 1 and total_repeat_length is None:
        lifted = shapes.reshape(a, new_sizes=(*shape[: along + 1], 1, *shape[along + 1 :]))
        wide = broadcast(lifted, (*shape[: along + 1], *counts, *shape[along + 1 :]))
        return shapes.reshape(wide, new_sizes=(*shape[:along], size * counts[0], *shape[along + 1 :]))
    if len(counts) not in (1, size):
        raise ShapeError(
            f"repeat was given {counted(len(counts), 'count')} for the {counted(size, 'element')} of {a.type} along {axis}."
            " Give one for all, or one"
            f" for each.{at_user_line()}"
        )
    places = np.repeat(np.arange(size), counts)
    if total_repeat_length is not None:
        (length,) = checked_shape(total_repeat_length, "repeat")
        places = np.append(places, np.full(length, size - 1))[:length]
    return take(a, places, along, mode="clip")


def _repeated_places(repeats: Any, size: int, length: int) -> Any:
    """Of each of `length` results of `repeat` the number of the element that it is: as many as end in front of it, or there."""
    if repeats.type.shape not in ((), (1,), (size,)):
        raise ShapeError(
            f"repeat was given counts of type {repeats.type} for {counted(size, 'element')}. Give one for all, or one for"
            f" each.{at_user_line()}"
        )
    ends: Any = scans.cumsum(broadcast(repeats.astype(int), (size,)), axis=0, reverse=False)
    return scans.cumsum(full((length,), 0, int).at[ends].add(1, mode="drop"), axis=0, reverse=False)


@by_numpy(np.flip)
def flip(m: ArrayLike, axis: Axis = None) -> Array:
    """The elements in reverse order along axes; along all of them by default.

    Arguments:
        m: an array or a number.
        axis: an int or a sequence of ints; all axes by default.

    Returns:
        An array of the shape and dtype of m.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis, or one is given twice.

    Example:
        >>> pnp.flip(pnp.array([[1, 2], [3, 4]]))
        [[4 3]
         [2 1]]:i32[2,2]:cpu(0)
        >>> pnp.flip(pnp.array([[1, 2], [3, 4]]), axis=0)
        [[3 4]
         [1 2]]:i32[2,2]:cpu(0)
    """
    m = operand(m, "flip")
    axes = normal_axes(axis, m.type, "flip")
    return shapes.rev(m, dimensions=axes) if axes else m


@by_numpy(np.fliplr)
def fliplr(m: ArrayLike) -> Array:
    """`flip` along the second axis.

    Arguments:
        m: an array of two axes or more.

    Returns:
        An array of the shape and dtype of m.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis.

    Example:
        >>> pnp.fliplr(pnp.array([[1, 2], [3, 4]]))
        [[2 1]
         [4 3]]:i32[2,2]:cpu(0)
    """
    return flip(m, 1)


@by_numpy(np.flipud)
def flipud(m: ArrayLike) -> Array:
    """`flip` along the first axis.

    Arguments:
        m: an array of one axis or more.

    Returns:
        An array of the shape and dtype of m.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis.

    Example:
        >>> pnp.flipud(pnp.array([[1, 2], [3, 4]]))
        [[3 4]
         [1 2]]:i32[2,2]:cpu(0)
    """
    return flip(m, 0)


@by_numpy(np.roll)
def roll(a: ArrayLike, shift: ShapeLike | Array, axis: Axis = None) -> Array:
    """The elements moved along axes; those that fall off the end come in at the start. Without axes, the array is flat.

    Arguments:
        a: an array or a number.
        shift: how far: an int, or one for each axis; it may be traced.
        axis: an int or a sequence of ints; the flattened array by default.

    Returns:
        An array of the shape and dtype of `a`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis.
        TypeError: a shift that is not an integer.
        ValueError: neither one shift nor as many as axes.

    Example:
        >>> pnp.roll(pnp.array([1, 2, 3]), 1)
        [3 1 2]:i32[3]:cpu(0)
        >>> pnp.roll(pnp.array([[1, 2], [3, 4]]), -1, axis=1)
        [[2 1]
         [4 3]]:i32[2,2]:cpu(0)
    """
    a = operand(a, "roll")
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), a.type.shape)
    axes, shifts = several(axis), several(shift)
    axes, shifts = axes * (len(shifts) if len(axes) == 1 else 1), shifts * (len(axes) if len(shifts) == 1 else 1)
    if len(shifts) != len(axes):
        raise ValueError(f"roll takes as many shifts as axes, or one, but got {shift} and {axis}.{at_user_line()}")
    for amount, one in zip(shifts, axes, strict=True):
        along = normal_axis(one, a.type.ndim, "roll")
        size = a.type.shape[along]
        if isinstance(amount, Tracer):
            index = (array(range(size)) - amount) % size
            a = a[(slice(None),) * along + (index,)]
            continue
        offset = whole(amount, "roll's shift") % size if size else 0
        if offset:
            a = shapes.concatenate(cut(a, along, size - offset, size), cut(a, along, 0, size - offset), dimension=along)
    return a


@by_numpy(np.rot90)
def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """The array turned by k quarter turns, from the first of two axes toward the second.

    Arguments:
        m: an array of two axes or more.
        k: how many quarter turns; negative ones turn the other way.
        axes: the two axes.

    Returns:
        An array in the dtype of m.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis, or the two are one.

    Example:
        >>> pnp.rot90(pnp.array([[1, 2], [3, 4]]))
        [[2 4]
         [1 3]]:i32[2,2]:cpu(0)
    """
    m = operand(m, "rot90")
    first, second = (normal_axis(axis, m.type.ndim, "rot90") for axis in axes)
    if first == second:
        raise AxisError(f"rot90 takes two different axes, but got {axes}.{at_user_line()}")
    k = whole(k, "rot90's k") % 4
    if k == 0:
        return m
    if k == 2:
        return flip(m, (first, second))
    return flip(swapaxes(m, first, second), first) if k == 1 else swapaxes(flip(m, first), first, second)
