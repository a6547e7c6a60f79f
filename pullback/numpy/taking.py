"""Elements at indices, and where conditions hold: `take`, `take_along_axis`, `compress`, `extract`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike, host_of
from pullback.core.brief import brief, counted
from pullback.core.dtypes import default_dtype, kind
from pullback.core.errors import ConcretizationError, IndexDtypeError, ShapeError, TracerIntegerConversionError
from pullback.core.lazy import lazy_module
from pullback.core.tracing import Tracer
from pullback.numpy.arithmetic import remainder
from pullback.numpy.axes import normal_axis, whole
from pullback.numpy.creation import array, full
from pullback.numpy.indexing import Index, get_item, read, read_by_numpy
from pullback.numpy.promotion import at_user_line, broadcast_shapes, flags, in_dtype, literal_of, operand
from pullback.ops import arithmetic, compare
from pullback.ops import shape as shapes
from pullback.ops.create import iota
from pullback.ops.index import scatter
from pullback.ops.windows import ScatterDimensionNumbers, mode_name

scans = lazy_module("pullback.ops.scans")


def known_size(size: Any, name: str) -> int | None:
    """How many elements a function is to return whose result would depend on the values; None if nothing is said."""
    if size is None:
        return None
    number = whole(size, f"{name}'s size")
    if number < 0:
        raise ShapeError(f"{name} takes a size that is not negative, but got {number}.{at_user_line()}")
    return number


def true_places(mask: Any, size: Any, name: str, fill: int = 0) -> Any:
    """The places where a vector of bools is true: the first `size` of them, and `fill` where there are fewer."""
    count, dtype = known_size(size, name), default_dtype("i")
    if not isinstance(mask, Tracer):
        (found,) = np.nonzero(host_of(mask))
        if count is not None:
            found = np.concatenate([found[:count], np.full(max(count - found.size, 0), fill)])
        return array(found, dtype)
    if count is None:
        raise TracerIntegerConversionError(
            f"{name} was given a traced mask of type {mask.type} in {mask.owner.describe()}: how many elements it chooses is"
            f" not known. Say how many to return, with size=.{at_user_line()}"
        )
    if not count:
        return full((0,), fill, dtype)
    length = mask.type.size
    rank = arithmetic.sub(running_count(mask), literal_of(1, dtype))  # of each true element among them
    where = compare.select(mask, rank, literal_of(count, dtype))  # others are out of bounds, and dropped
    vectors = shapes.reshape(where, new_sizes=(length, 1))
    start, numbers = full((count,), fill, dtype), iota(dtype=dtype, shape=(length,), dimension=0)
    points = ScatterDimensionNumbers((), (0,), (0,))
    return scatter(start, vectors, numbers, dimension_numbers=points, mode="fill", unique_indices=True)


def as_mask(condition: Any) -> Any:
    """Conditions as bools: numbers count as true unless they are 0. What is known is not traced."""
    mask = array(condition)
    if isinstance(mask, Tracer):
        return mask if kind(mask.type.dtype) == "b" else compare.ne(mask, literal_of(0, mask.type.dtype))
    return array(np.asarray(host_of(mask)) != 0)


def running_count(mask: Any) -> Any:
    """How many elements of a vector of bools are true, up to each and with it."""
    return scans.cumsum(in_dtype(mask, default_dtype("i")), axis=0)


def take(
    a: ArrayLike,
    indices: ArrayLike | Sequence[Any],
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The elements of a at `indices` along an axis; of the flattened array, without one.

    Arguments:
        a: an array or a number.
        indices: integers, of any shape; negative ones count from the end.
        axis: the axis; None for the flattened array.
        out: None: arrays are immutable.
        mode: what to do with indices out of bounds: "fill" (the default: `fill_value`, or else NaN, of integers the smallest
            number, of unsigned ones the largest), "clip" to the nearest, with negative ones taken for 0, "wrap", or "raise",
            for indices that are known.
        unique_indices, indices_are_sorted: promises that no index comes twice, and that they rise. Nothing is made of them.
        fill_value: a number or a 0-d array, for "fill".

    Returns:
        An array in the dtype of `a`, with the axes of `indices` in place of `axis`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis.
        IndexDtypeError: `indices` are not integers. IndexError: one is out of bounds, and `mode="raise"`; or the axis
            has no elements.
        TypeError: `out` is given.
        ValueError: an unknown `mode`, or a `fill_value` in another mode than "fill".
        ConcretizationError: `mode="raise"`, and traced indices.

    Example:
        >>> pnp.take(pnp.array([10, 20, 30]), pnp.array([2, 0]))
        [30 10]:i32[2]:cpu(0)
        >>> pnp.take(pnp.array([1.0, 2.0]), pnp.array([1, 5])), pnp.take(pnp.array([1.0, 2.0]), 5, mode="clip")
        ([ 2. nan]:f32[2]:cpu(0), 2.0:f32[]:cpu(0))
    """
    if out is not None:
        raise TypeError(f"take cannot write into `out`: arrays are immutable. Use the result.{at_user_line()}")
    if unique_indices is not False or indices_are_sorted is not False:
        flags("take", unique_indices=unique_indices, indices_are_sorted=indices_are_sorted)
    a = operand(a, "take")
    places = array(indices, copy=False)
    if kind(places.type.dtype) not in "iu":
        raise IndexDtypeError(
            f"take takes integers as indices, but got {places.type}. Convert with .astype(int).{at_user_line()}"
        )
    if axis is None:
        a, axis = shapes.reshape(a, new_sizes=(a.type.size,)) if a.type.ndim != 1 else a, 0
    along = normal_axis(axis, a.type.ndim, "take")
    if mode not in (None, "fill", "clip", "wrap", "raise"):
        raise ValueError(f"take takes mode='fill', 'clip', 'wrap' or 'raise', not {brief(mode)}.")
    if fill_value is not None and mode not in (None, "fill"):
        raise ValueError(f"take(fill_value={brief(fill_value)}) needs mode='fill'; with mode={brief(mode)} nothing is filled.")
    if places.type.size and not a.type.shape[along]:
        raise IndexError(
            f"take of {counted(places.type.size, 'element')} from an axis without any: {a.type}, axis {along}.{at_user_line()}"
        )
    if mode == "wrap":
        places = wrapped(places, a.type.shape[along])
    if mode == "raise":
        check_known(places, "take")
    entries = (slice(None),) * along + (places,)
    found = read_by_numpy(a, entries) if mode != "clip" and fill_value is None else None
    if found is not None:
        return found
    index = Index(entries, a.type.shape, wraps=mode != "clip")
    return read(a, index, {None: "fill", "wrap": "clip", "raise": None}.get(mode, mode), fill_value)


def counting(places: Any, size: int) -> Any:
    """Places in a dtype that can count so many elements: their own, if it can."""
    return places if size <= np.iinfo(places.type.dtype).max else in_dtype(places, default_dtype("i"))


def wrapped(places: Any, size: int) -> Any:
    """Places along an axis of a size, where those out of bounds count on from the other end."""
    return remainder(counting(places, size), size)


def check_known(places: Any, name: str) -> None:
    """Refuse traced indices where those out of bounds are to raise an error."""
    if isinstance(places, Tracer):
        raise ConcretizationError(
            f"{name} cannot tell whether traced indices, {places.type}, are within bounds: choose another mode than 'raise'."
            f"{at_user_line()}"
        )


def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike | Sequence[Any],
    axis: int | None = -1,
    mode: Any = None,
    fill_value: ArrayLike | None = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Array:
    """The elements of an array at `indices` along one axis; along the others, array and indices run together.

    Arguments:
        arr: an array.
        indices: integers, of as many axes as the array; sizes other than along `axis` broadcast.
        axis: the axis; None for the flattened array.
        mode: what to do with those out of bounds: "fill" (the default: NaN), "clip" to the nearest, or
            "promise_in_bounds", that there are none; or a `lax.GatherScatterMode`.
        fill_value: a number or a 0-d array, for "fill".
        wrap_negative_indices: whether negative ones count from the end; they do by default.

    Returns:
        An array of the shape of the indices, broadcast with the array's; in the array's dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis.
        ShapeError: the shapes do not broadcast.
        ShapeError: the indices have not as many axes as the array.
        IndexError: they are not integers.
        ValueError: an unknown `mode`.

    Example:
        >>> x = pnp.array([[3, 1], [2, 5]])
        >>> pnp.take_along_axis(x, pnp.array([[1], [0]]), axis=1)
        [[1]
         [2]]:i32[2,1]:cpu(0)
    """
    wraps = wrap_negative_indices is None or flags("take_along_axis", wrap_negative_indices=wrap_negative_indices)[0]
    a, entries = along_axis("take_along_axis", arr, indices, axis)
    how = mode_name("take_along_axis", mode) or "fill"
    found = read_by_numpy(a, entries) if wraps and fill_value is None else None
    return read(a, Index(entries, a.type.shape, wraps=wraps), how, fill_value) if found is None else found


def along_axis(name: str, arr: Any, indices: Any, axis: Any) -> tuple[Any, tuple[Any, ...]]:
    """An array, flattened where there is no axis, and the index of the elements at `indices` along an axis of it."""
    a, places = operand(arr, name), operand(indices, name)
    if axis is None:
        a, axis = shapes.reshape(a, new_sizes=(a.type.size,)), 0
    along = normal_axis(axis, a.type.ndim, name)
    if places.type.ndim != a.type.ndim:
        raise ShapeError(f"{name} takes indices with as many axes as {a.type}, but got {places.type}.{at_user_line()}")
    others = [[1 if i == along else size for i, size in enumerate(one.type.shape)] for one in (a, places)]
    common = broadcast_shapes(name, *map(tuple, others))
    entries: list[Any] = [places if i == along else None for i in range(a.type.ndim)]
    for i, (size, length) in enumerate(zip(a.type.shape, common)):
        if i != along:
            counted = np.arange(length) if size != 1 else np.zeros(length, int)
            unit = [length if j == i else 1 for j in range(a.type.ndim)]
            entries[i] = counted.reshape(unit).astype(default_dtype("i"))
    return a, tuple(entries)


def compress(
    condition: ArrayLike | Sequence[bool],
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
    out: None = None,
) -> Array:
    """The elements of a (along `axis`, or of the flattened array) where a condition is true.

    Arguments:
        condition: a vector of bools (numbers count as true unless they are 0).
        a: an array or a number.
        axis: the axis; None for the flattened array.
        size: how many elements to return: the first ones; if there are fewer, `fill_value` follows. Needed where the
            condition is traced.
        fill_value: a number or a 0-d array.
        out: None: arrays are immutable.

    Returns:
        An array in the dtype of `a`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis.
        ShapeError: the condition has not one axis, or more elements than the array.
        IndexError: it is true beyond the array.
        TracerIntegerConversionError: it is traced, and there is no `size`.
        TypeError: `out` is given.

    Example:
        >>> pnp.compress([True, False, True], pnp.array([1, 2, 3]))
        [1 3]:i32[2]:cpu(0)
        >>> pb.jit(lambda x: pnp.compress(x > 1, x, size=3, fill_value=-1))(pnp.array([1, 2, 3]))
        [ 2  3 -1]:i32[3]:cpu(0)
    """
    if out is not None:
        raise TypeError(f"compress cannot write into `out`: arrays are immutable. Use the result.{at_user_line()}")
    mask, a = as_mask(condition), operand(a, "compress")
    if mask.type.ndim != 1:
        raise ShapeError(f"compress takes a condition of one axis, but got one of {mask.type}.{at_user_line()}")
    if axis is None:
        a, axis = shapes.reshape(a, new_sizes=(a.type.size,)), 0
    along = normal_axis(axis, a.type.ndim, "compress")
    length = a.type.shape[along]
    if isinstance(mask, Tracer) and mask.type.size > length:
        raise ShapeError(
            f"compress takes a condition of at most {counted(length, 'element')}, but got {mask.type}.{at_user_line()}"
        )
    entries = (slice(None),) * along
    if size is None:
        return get_item(a, (*entries, true_places(mask, None, "compress")))
    places = true_places(mask, size, "compress", length)
    return read(a, Index((*entries, places), a.type.shape), "fill", fill_value)


def extract(condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0) -> Array:
    """The elements of an array where a condition is true, as a vector.

    Arguments:
        condition: an array of bools (numbers count as true unless they are 0), of as many elements as `arr`.
        arr: an array or a number.
        size: how many elements to return: the first ones; if there are fewer, `fill_value` follows. Needed where the
            condition is traced.
        fill_value: a number or a 0-d array.

    Returns:
        A vector in the dtype of `arr`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        IndexError: the condition is true beyond the array.
        TracerIntegerConversionError: it is traced, and there is no `size`.

    Example:
        >>> x = pnp.array([[1, 2], [3, 4]])
        >>> pnp.extract(x % 2 == 0, x)
        [2 4]:i32[2]:cpu(0)
    """
    mask = as_mask(condition)
    if isinstance(mask, Tracer):
        flat: Any = shapes.reshape(mask, new_sizes=(mask.type.size,))
    else:
        flat = array(np.ravel(host_of(mask)))
    return compress(flat, operand(arr, "extract"), size=size, fill_value=fill_value)
