"""Arrays with some elements put in other places: put, place, fill_diagonal, choose; elements deleted and inserted; blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike, host_of
from pullback.core.brief import brief, counted
from pullback.core.dtypes import default_dtype, kind
from pullback.core.errors import ShapeError, TracerIntegerConversionError
from pullback.core.modes import current_mode
from pullback.core.tracing import Tracer
from pullback.core.types import ShapeLike
from pullback.numpy.arithmetic import remainder
from pullback.numpy.axes import normal_axis
from pullback.numpy.creation import arange, array, checked_shape, zeros
from pullback.numpy.eager import by_numpy
from pullback.numpy.grids import coordinates
from pullback.numpy.logic import where
from pullback.numpy.promotion import (
    at_user_line,
    broadcast,
    broadcast_shapes,
    check_written,
    in_dtype,
    number_or_operand,
    operand,
    storable,
    strong,
    to_common_dtype,
)
from pullback.numpy.shaping import broadcast_arrays, concatenate, moveaxis, ravel, reshape, stack
from pullback.numpy.sorting import argsort
from pullback.numpy.taking import along_axis, check_known, running_count, take, take_along_axis, true_places, wrapped
from pullback.numpy.updates import Updater


def _refuse_in_place(name: str, inplace: Any) -> None:
    if inplace is not False:
        raise ValueError(
            f"{name} cannot change an array in place: arrays are immutable. Write x = {name}(x, ..., inplace=False), which"
            f" returns a new one.{at_user_line()}"
        )


def _values(given: Any, x: Any, name: str, converts: bool = False) -> Any:
    """What is to be put into an array, in its dtype; strict promotion refuses others, unless it `converts`."""
    values = array(given) if isinstance(given, (list, tuple)) else number_or_operand(given, name, "the values")
    if not converts:
        check_written(name, x, values)
    nothing = getattr(values, "size", 1) == 0
    return in_dtype(values if nothing else storable(values, x.type.dtype, name + " of {}"), x.type.dtype)


def _cycled(values: Any, count: int) -> Any:
    """So many elements of a vector, which begins again where it ends."""
    return take(values, np.arange(count) % values.type.size)


def put(
    a: ArrayLike,
    ind: ArrayLike | Sequence[int],
    v: ArrayLike | Sequence[Any],
    mode: str | None = None,
    *,
    inplace: bool = True,
) -> Array:
    """The array with `v` at places of the flattened array.

    Arguments:
        a: an array.
        ind: integers; negative ones count from the end.
        v: values, which begin again where there are fewer than places.
        mode: what to do with places out of bounds: by default known ones raise an error, and of traced ones the nearest are
            taken; "clip" takes the nearest (0, of negative ones), "wrap" counts on from the other end, "raise" refuses traced
            ones.
        inplace: to be False: arrays are immutable, and a new one is returned.

    Returns:
        An array of the shape and dtype of `a`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        IndexError: an index is out of bounds, or no integer.
        ValueError: `inplace` is not False, or an unknown mode.
        DtypeError: the array cannot hold the values.

    Example:
        >>> pnp.put(pnp.zeros((2, 2)), pnp.array([0, 3]), pnp.array([1.0, 2.0]), inplace=False)
        [[1. 0.]
         [0. 2.]]:f32[2,2]:cpu(0)
    """
    _refuse_in_place("put", inplace)
    x, places = operand(a, "put"), ravel(array(ind))
    values = ravel(_values(v, x, "put"))
    if mode not in (None, "raise", "clip", "wrap"):
        raise ValueError(f"put takes mode='raise', 'clip' or 'wrap', not {brief(mode)}.{at_user_line()}")
    if not places.type.size or not values.type.size:
        return x
    if mode == "raise":
        check_known(places, "put")
    places = wrapped(places, x.type.size) if mode == "wrap" else places
    how = "clip" if mode == "clip" or isinstance(places, Tracer) or current_mode().clamps else None
    flat, new = Updater(ravel(x))[places], _cycled(values, places.type.size)
    return reshape(flat.set(new, mode=how, wrap_negative_indices=mode != "clip"), x.type.shape)


def put_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike | Sequence[Any],
    axis: int | None,
    inplace: bool = True,
    *,
    mode: Any = None,
) -> Array:
    """The array with `values` at `indices` along one axis; along the others, array and indices run together.

    Arguments:
        arr: an array.
        indices: integers, of as many axes as the array; sizes other than along `axis` broadcast.
        values: an array or a number that broadcasts to the indices.
        axis: the axis; None for the flattened array.
        inplace: to be False: arrays are immutable, and a new one is returned.
        mode: what to do with places out of bounds, as of `x.at[...]`: by default known ones raise an error, and traced ones are
            left out.

    Returns:
        An array of the shape and dtype of the array.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis.
        ShapeError: the shapes do not broadcast, or the indices have not as many axes as the array.
        IndexError: an index is out of bounds, or no integer.
        ValueError: `inplace` is not False, or an unknown mode.
        DtypeError: the array cannot hold the values.

    Example:
        >>> pnp.put_along_axis(pnp.zeros((2, 3)), pnp.array([[1], [2]]), 5.0, axis=1, inplace=False)
        [[0. 5. 0.]
         [0. 0. 5.]]:f32[2,3]:cpu(0)
    """
    _refuse_in_place("put_along_axis", inplace)
    x, entries = along_axis("put_along_axis", arr, indices, axis)
    return reshape(Updater(x)[entries].set(values, mode=mode), operand(arr, "put_along_axis").type.shape)


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike | Sequence[Any], *, inplace: bool = True) -> Array:
    """The array with `vals` at the places where a mask is true, one after the other.

    Arguments:
        arr: an array.
        mask: an array of bools (numbers count as true unless they are 0), of as many elements.
        vals: values, which begin again where there are fewer than places.
        inplace: to be False: arrays are immutable, and a new one is returned.

    Returns:
        An array of the shape and dtype of the array.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the mask has another number of elements.
        ValueError: `inplace` is not False, or there are no values.
        DtypeError: the array cannot hold the values.

    Example:
        >>> x = pnp.arange(5)
        >>> pnp.place(x, x > 1, pnp.array([10, 20]), inplace=False)
        [ 0  1 10 20 10]:i32[5]:cpu(0)
    """
    _refuse_in_place("place", inplace)
    x, chosen = operand(arr, "place"), ravel(operand(mask, "place")) != 0
    values = ravel(_values(vals, x, "place"))
    if chosen.type.size != x.type.size:
        raise ShapeError(f"place takes a mask of {counted(x.type.size, 'element')}, but got {chosen.type}.{at_user_line()}")
    if not values.type.size:
        raise ValueError(f"place takes at least one value.{at_user_line()}")
    new = take(values, remainder(running_count(chosen) - 1, values.type.size))
    return where(reshape(chosen, x.type.shape), reshape(new, x.type.shape), x)


def fill_diagonal(a: ArrayLike, val: ArrayLike | Sequence[Any], wrap: bool = False, *, inplace: bool = True) -> Array:
    """The array with `val` on its main diagonal.

    Arguments:
        a: an array of at least two axes; of more, of one size.
        val: a number, or values, which begin again where there are fewer than places.
        wrap: whether the diagonal of a matrix with more rows than columns begins again below, with a row between.
        inplace: to be False: arrays are immutable, and a new one is returned.

    Returns:
        An array of the shape and dtype of `a`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: fewer than two axes, or more than two of different sizes.
        ValueError: `inplace` is not False.
        DtypeError: the array cannot hold the values.

    Example:
        >>> pnp.fill_diagonal(pnp.zeros((2, 3)), 5.0, inplace=False)
        [[5. 0. 0.]
         [0. 5. 0.]]:f32[2,3]:cpu(0)
    """
    _refuse_in_place("fill_diagonal", inplace)
    x = operand(a, "fill_diagonal")
    shape = x.type.shape
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
        raise ShapeError(f"fill_diagonal takes a matrix, or more axes of one size, but got {x.type}.{at_user_line()}")
    step = sum([math.prod(shape[axis + 1 :]) for axis in range(len(shape))])
    end = shape[1] ** 2 if len(shape) == 2 and not wrap else x.type.size
    places = np.arange(0, min(end, x.type.size), step)
    return put(x, places, _values(val, x, "fill_diagonal"), inplace=False)


def _chosen(a: Any, choices: Any, out: None = None, mode: Any = "raise") -> Any:
    """The fast path: some choices of one dtype."""
    if len({one.dtype for one in choices}) > 1:
        raise TypeError
    return np.choose(a, choices, mode=mode)


@by_numpy(_chosen)
def choose(a: ArrayLike | Sequence[Any], choices: Any, out: None = None, mode: str = "raise") -> Array:
    """For each place, the element there of the array that `a` numbers.

    Arguments:
        a: integers.
        choices: a sequence of arrays, or an array, whose first axis numbers them. Everything broadcasts.
        out: None: arrays are immutable.
        mode: for numbers that no array has: "raise", of known ones; "wrap", to count on from the other end; "clip" to the
            nearest.

    Returns:
        An array of the broadcast shape, in the common dtype of the choices.

    Raises:
        DtypeError: `a` are not integers, or the choices have no common dtype.
        ShapeError: the shapes do not broadcast.
        ValueError: a number is out of bounds; there are no choices; an unknown mode.
        ConcretizationError: traced numbers, and `mode="raise"`.
        TypeError: `out` is given.

    Example:
        >>> pnp.choose(pnp.array([0, 2, 1]), [pnp.array([1, 2, 3]), 10, 100])
        [  1 100  10]:i32[3]:cpu(0)
    """
    if out is not None:
        raise TypeError(f"choose cannot write into `out`: arrays are immutable. Use the result.{at_user_line()}")
    parts = [array(one) if isinstance(one, (list, tuple)) else one for one in choices]
    if not parts:
        raise ValueError(f"choose takes at least one choice.{at_user_line()}")
    (which,) = coordinates("choose", [a], [len(parts)], mode)
    which, *values = broadcast_arrays(which, *to_common_dtype("choose", *parts))
    return take_along_axis(strong(stack(values)), which[None], 0)[0]


# ---- fewer elements, and more ---------------------------------------------------------------------------------------


def _flattened(name: str, arr: Any, axis: Any) -> tuple[Any, int]:
    x = operand(arr, name)
    if axis is None:
        return ravel(x), 0
    return x, normal_axis(axis, x.type.ndim, name)


def delete(
    arr: ArrayLike, obj: ArrayLike | Sequence[Any] | slice, axis: int | None = None, *, assume_unique_indices: bool = False
) -> Array:
    """The array without some of its parts along an axis.

    Arguments:
        arr: an array.
        obj: which: a slice, integers, or bools that are known; negative integers count from the end.
        axis: the axis; None to flatten the array first.
        assume_unique_indices: a promise that no integer comes twice, with which they may be traced. One may always be.

    Returns:
        An array in the dtype of the given one.

    Raises:
        LeafError: `arr` is neither an array nor a number.
        AxisError: the array has no such axis.
        IndexError: an index is out of bounds, or not of these kinds.
        TracerIntegerConversionError: several traced integers, and no promise.

    Example:
        >>> pnp.delete(pnp.arange(5), pnp.array([0, -1]))
        [1 2 3]:i32[3]:cpu(0)
    """
    x, along = _flattened("delete", arr, axis)
    size = x.type.shape[along]
    if isinstance(obj, Tracer) and kind(obj.type.dtype) != "b":
        if obj.type.size != 1 and assume_unique_indices is not True:
            raise TracerIntegerConversionError(
                f"delete was given traced integers of type {obj.type}: how many remain depends on whether one comes twice. If"
                f" none does, promise it with assume_unique_indices=True.{at_user_line()}"
            )
        stays = Updater(zeros(size, bool))[ravel(obj)].set(True) == False  # noqa: E712
        return take(x, true_places(stays, max(size - obj.type.size, 0), "delete"), along)
    if isinstance(obj, Tracer):
        true_places(obj, None, "delete")  # raises, with the cure
    known = obj if isinstance(obj, slice) else np.asarray(obj)
    known = known if isinstance(known, slice) or known.size else np.zeros(0, np.int64)
    try:
        return take(x, np.delete(np.arange(size), known), along)
    except (IndexError, ValueError) as error:
        raise IndexError(
            f"delete along an axis of size {size}: {error}. Indices must be from {-size} to {size - 1}.{at_user_line()}"
        ) from None


def insert(
    arr: ArrayLike, obj: ArrayLike | Sequence[int] | slice, values: ArrayLike | Sequence[Any], axis: int | None = None
) -> Array:
    """The array with values put in before some places along an axis.

    Arguments:
        arr: an array.
        obj: before which places: an integer, several, or a slice; negative ones count from the end. Traced ones out of bounds
            are moved inside.
        values: what comes there. At one place, as many parts as there are along the axis; else one for each place.
        axis: the axis; None to flatten the array first.

    Returns:
        An array in the dtype of the given one.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis.
        IndexError: an index is out of bounds, or no integer.
        ShapeError: the values do not broadcast.
        DtypeError: the array cannot hold the values.

    Example:
        >>> pnp.insert(pnp.array([1, 2, 3]), 1, pnp.array([10, 20]))
        [ 1 10 20  2  3]:i32[5]:cpu(0)
        >>> pnp.insert(pnp.array([[1, 2], [3, 4]]), pnp.array([0, 2]), 9, axis=1)
        [[9 1 2 9]
         [9 3 4 9]]:i32[2,4]:cpu(0)
    """
    x, along = _flattened("insert", arr, axis)
    shape, size, dtype = x.type.shape, x.type.shape[along], default_dtype("i")
    places = array(np.arange(size)[obj] if isinstance(obj, slice) else obj)
    places = true_places(places, None, "insert") if kind(places.type.dtype) == "b" else places
    if kind(places.type.dtype) not in "iu" and places.type.size:
        raise IndexError(f"insert takes integers as indices, but got {places.type}.{at_user_line()}")
    mode = "clip" if isinstance(places, Tracer) else "raise"
    (at,) = coordinates("insert", [places if places.type.size else np.zeros(0, dtype)], [size + 1], mode, size)
    new = _values(values, x, "insert", converts=True)
    new = reshape(new, (1,) * (x.type.ndim - new.type.ndim) + new.type.shape)
    if places.type.ndim == 0:
        new = moveaxis(new, 0, along)
    count = new.type.shape[along] if places.type.size == 1 else places.type.size
    wide = (*shape[:along], count, *shape[along + 1 :])
    if broadcast_shapes("insert", new.type.shape, wide) != wide:
        raise ShapeError(f"insert takes values that broadcast to {wide}, but got {new.type}.{at_user_line()}")
    total, joined = size + count, concatenate([x, broadcast(new, wide)], along)
    if not isinstance(at, Tracer):
        known = np.broadcast_to(np.ravel(host_of(at)), (count,))
        return take(joined, np.insert(np.arange(size), known, np.arange(size, total)), along)
    at = broadcast(in_dtype(ravel(at), dtype), (count,))
    at = at + argsort(argsort(at))  # so many of what is put in come before each
    is_new = Updater(zeros(total, bool))[at].set(True)
    numbers = Updater(zeros(total, dtype))[at].set(arange(size, total))
    return take(joined, where(is_new, numbers, running_count(is_new == False) - 1), along)  # noqa: E712


@by_numpy(np.resize)
def resize(a: ArrayLike, new_shape: ShapeLike) -> Array:
    """The elements in another shape, of any size: they begin again where there are too few. An empty array gives zeros.

    Arguments:
        a: an array or a number.
        new_shape: an int or a sequence of ints.

    Returns:
        An array in the dtype of `a`.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: a negative size.

    Example:
        >>> pnp.resize(pnp.array([1, 2, 3]), (2, 4))
        [[1 2 3 1]
         [2 3 1 2]]:i32[2,4]:cpu(0)
    """
    flat, shape = ravel(operand(a, "resize")), checked_shape(new_shape, "resize")
    return reshape(_cycled(flat, math.prod(shape)), shape) if flat.type.size else zeros(shape, flat.type.dtype)


def block(arrays: Any) -> Array:
    """An array put together from nested lists of blocks: those of the innermost lists lie along the last axis.

    Arguments:
        arrays: an array, or a list of such, nested to one depth; missing axes in front have size 1.

    Returns:
        An array in the common dtype.

    Raises:
        ShapeError: the lists are of different depths, empty, or the blocks do not fit.
        TypeError: a tuple among the lists.

    Example:
        >>> pnp.block([[pnp.eye(2), pnp.zeros((2, 1))], [pnp.ones((1, 3))]])
        [[1. 0. 0.]
         [0. 1. 0.]
         [1. 1. 1.]]:f32[3,3]:cpu(0)
    """
    leaves: list[Any] = []

    def collected(tree: Any, depth: int) -> int:
        if isinstance(tree, tuple):
            raise TypeError(f"block takes lists, but a tuple is among them; make it a list.{at_user_line()}")
        if not isinstance(tree, list):
            leaves.append(operand(tree, "block"))
            return depth
        depths = {collected(one, depth + 1) for one in tree}
        if len(depths) != 1:
            raise ShapeError(f"block takes lists nested to one depth, with something in each of them.{at_user_line()}")
        return depths.pop()

    depth = collected(arrays, 0)
    ndim = max(depth, *[leaf.type.ndim for leaf in leaves])
    parts = iter(to_common_dtype("block", *leaves))

    def joined(tree: Any, left: int) -> Any:
        if not left:
            part = next(parts)
            return reshape(part, (1,) * (ndim - part.type.ndim) + part.type.shape)
        return concatenate([joined(one, left - 1) for one in tree], -left)

    return joined(arrays, depth)
