"""Reading parts of an array: `x[index]`, `take`, `take_along_axis`.

An index is read once, into an `Index`: which slice of every axis is static, and which axes integer arrays choose from.
Static parts become `slice`, `rev` and `reshape`; arrays of integers a `gather`; 0-d traced integers a `dynamic_slice`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.core.array import Array, ArrayLike, find_converter, host_of
from pullback.core.dtypes import BOOL, default_dtype, kind
from pullback.core.errors import ConcretizationError, ShapeError, TracerIntegerConversionError
from pullback.core.lazy import lazy_module
from pullback.core.tracing import Tracer, innermost_staging
from pullback.core.types import Shape, array_type
from pullback.numpy.axes import normal_axis
from pullback.numpy.creation import array, full
from pullback.numpy.promotion import (
    at_user_line,
    broadcast,
    broadcast_shapes,
    fill_number,
    in_dtype,
    literal_of,
    operand,
)
from pullback.ops import arithmetic, compare
from pullback.ops import shape as shapes
from pullback.ops.create import iota
from pullback.ops.dynamic import dynamic_slice
from pullback.ops.index import gather, scatter
from pullback.ops.windows import GatherDimensionNumbers, ScatterDimensionNumbers, mode_name

loops = lazy_module("pullback.api.loops")

_BASIC = frozenset({int, slice, type(None), type(Ellipsis)})


class Span(NamedTuple):
    """A slice of an axis with its bounds worked out: `length` elements from `start`, `step` apart."""

    start: int
    step: int
    length: int

    def places(self) -> np.ndarray[Any, Any]:
        return self.start + self.step * np.arange(self.length)


class Index:
    """An index, read against the shape of the array that it is for.

    Attributes:
        axes: for each axis of the array, with new axes of size 1 put in: a `Span`, an int, or an array of integers.
        shape: the array's shape with the new axes.
        chosen: the axes that arrays of integers (and, with these, ints) choose from; empty for a basic index.
        where: at which axis of the result the common shape of the index arrays stands.
        wraps: whether negative places count from the end; else they are out of bounds.
    """

    def __init__(self, index: Any, shape: Shape, mode: str | None = None, wraps: bool = True) -> None:
        entries, dots = _expand(index if isinstance(index, tuple) else (index,), shape)
        self.wraps = wraps
        self.axes: list[Any] = []
        sizes: list[int] = []
        rest = iter(shape)
        for entry in entries:
            if entry is None:
                self.axes.append(Span(0, 1, 1))
                sizes.append(1)
                continue
            size = next(rest)
            sizes.append(size)
            self.axes.append(_read_entry(entry, size, len(self.axes), shape, mode, wraps))
        self.shape = tuple(sizes)
        arrays = [i for i, one in enumerate(self.axes) if not isinstance(one, (Span, int))]
        self.chosen = [i for i, one in enumerate(self.axes) if not isinstance(one, Span)] if arrays else []
        adjacent = self.chosen == list(range(self.chosen[0], self.chosen[-1] + 1)) if self.chosen else True
        if self.chosen and self.chosen[0] < dots <= self.chosen[-1]:  # `...` separates, even where it stands for no axis
            adjacent = False
        self.where = sum(isinstance(one, Span) for one in self.axes[: self.chosen[0]]) if self.chosen and adjacent else 0

    def spans(self) -> list[Span]:
        return [one for one in self.axes if isinstance(one, Span)]

    def refuse_outside(self) -> None:
        """Raise IndexError for known indices that are out of bounds; what happens at traced ones is for `mode` to say."""
        for axis in self.chosen:
            entry, size = self.axes[axis], self.shape[axis]
            if entry.__class__ is Array and entry.type.size:
                host = np.asarray(host_of(entry))
                low, high = int(host.min()), int(host.max())
                if low < (-size if self.wraps else 0) or high >= size:
                    raise IndexError(
                        f"Index {high if high >= size else low} is out of bounds for axis {axis} of size {size} of an array of"
                        f" shape {self.shape}. To have such places clipped, filled or left out, use x.at[index] with a mode."
                        f"{at_user_line()}"
                    )

    def common(self) -> tuple[list[Any], Shape]:
        """The index arrays for the chosen axes, negative places made positive, and the shape that they broadcast to."""
        arrays = []
        for axis in self.chosen:
            entry = self.axes[axis]
            entry = array(entry, default_dtype("i")) if isinstance(entry, int) else entry
            arrays.append(from_end(entry, self.shape[axis]) if self.wraps else entry)
        shape = broadcast_shapes("indexing", *[one.type.shape for one in arrays])
        return arrays, shape


def from_end(index: Any, size: int) -> Any:
    """Places along an axis of a size, with negative ones counted from its end."""
    dtype = index.type.dtype
    if kind(dtype) == "u":
        return index
    if size > np.iinfo(dtype).max:
        index = in_dtype(index, default_dtype("i"))
        dtype = index.type.dtype
    if index.__class__ is Array and innermost_staging() is None:
        host = np.asarray(host_of(index))
        return Array(index.type, np.where(host < 0, host + dtype.type(size), host)) if np.any(host < 0) else index
    negative = compare.lt(index, literal_of(0, dtype))
    return compare.select(negative, arithmetic.add(index, literal_of(size, dtype)), index)


def _is_mask(entry: Any) -> bool:
    if isinstance(entry, bool):
        return True
    return getattr(entry, "dtype", None) == BOOL


def _expand(index: tuple[Any, ...], shape: Shape) -> tuple[list[Any], int]:
    """An index with an entry for every axis: masks made into integers, `...` into full slices; and where `...` stood."""
    given = [_without_lists(entry) for entry in index]
    used = sum([0 if one is None or one is Ellipsis else one.ndim if _is_mask(one) else 1 for one in given])
    if sum(one is Ellipsis for one in given) > 1:
        raise IndexError(f"An index may have one '...' only.{at_user_line()}")
    if used > len(shape):
        raise IndexError(f"Too many indices: {used} for an array of shape {shape} of {len(shape)} axes.{at_user_line()}")
    entries: list[Any] = []
    axis = dots = 0
    for entry in given if any(one is Ellipsis for one in given) else [*given, Ellipsis]:
        if entry is Ellipsis:
            dots = len(entries)
            entries += [slice(None)] * (len(shape) - used)
            axis += len(shape) - used
        elif _is_mask(entry):
            if entry.shape != shape[axis : axis + entry.ndim]:
                raise IndexError(f"A mask of shape {entry.shape} does not fit an array of shape {shape}.{at_user_line()}")
            entries += [found.astype(default_dtype("i")) for found in np.nonzero(entry)]
            axis += entry.ndim
        else:
            entries.append(entry)
            axis += entry is not None
    return entries, dots


def _without_lists(entry: Any) -> Any:
    """An entry of an index: sequences as arrays, and a mask, whose elements must be known, as a NumPy array."""
    if isinstance(entry, (list, tuple, range)):
        entry = array(entry) if has_tracer(entry) else np.asarray(entry)
        entry = entry.astype(np.int32) if entry.size == 0 else entry
    if not _is_mask(entry):
        return entry
    if isinstance(entry, Tracer):
        raise TracerIntegerConversionError(
            f"An array was indexed with a traced mask of type {entry.type} in"
            f" {entry.owner.describe()}: how many elements it chooses is not known. Keep the shape with"
            f" pb.numpy.where(mask, x, 0), or sum with sum(x, where=mask).{at_user_line()}"
        )
    mask = np.asarray(entry)
    if mask.ndim == 0:
        raise IndexError(f"True or False is an index by itself only, not among others; add an axis with None.{at_user_line()}")
    return mask


def has_tracer(entry: Any) -> bool:
    return any(isinstance(one, (Tracer, Array)) or (isinstance(one, (list, tuple)) and has_tracer(one)) for one in entry)


def _read_entry(entry: Any, size: int, axis: int, shape: Shape, mode: str | None, wraps: bool) -> Any:
    """One entry of an index: a `Span`, a non-negative int, or an array of integers."""
    if isinstance(entry, slice):
        return _span(entry, size)
    converter = find_converter(type(entry))
    if isinstance(entry, (int, np.integer)) or (converter is None and hasattr(entry, "__index__")):
        number = operator.index(entry)
        if not (-size if wraps else 0) <= number < size:
            if mode is not None:  # which says what is to happen there: as much at the nearest place outside as further out
                return array(size if number >= size else -size - 1)
            raise IndexError(
                f"Index {number} is out of bounds for axis {axis} of size {size} of an array of shape {shape}.{at_user_line()}"
            )
        return number % size
    if converter is not None and not isinstance(entry, (float, complex)):
        value = operand(entry, "indexing")
        if kind(value.type.dtype) not in "iu":
            raise IndexError(
                f"An array is indexed with integers, bools, slices, None and ..., but one entry is {value.type}."
                f" Convert it with .astype(int).{at_user_line()}"
            )
        return value
    raise IndexError(f"An array is indexed with integers, bools, slices, None and ..., not {entry!r}.{at_user_line()}")


def _span(entry: slice, size: int) -> Span:
    try:
        start, stop, step = entry.indices(size)
    except (TypeError, TracerIntegerConversionError) as error:
        if any(isinstance(part, Tracer) for part in (entry.start, entry.stop, entry.step)):
            raise TracerIntegerConversionError(
                "A slice has traced bounds, so its length is not known. If the length is static, use"
                f" pb.lax.dynamic_slice_in_dim(x, start, length).{at_user_line()}"
            ) from None
        raise IndexError(f"A slice takes integers as bounds: {error}.{at_user_line()}") from None
    return Span(start, step, len(range(start, stop, step)))


# ---- reading --------------------------------------------------------------------------------------------------------


def get_item(x: Any, index: Any) -> Any:
    """x[index], as NumPy has it. Known integers out of bounds raise IndexError; traced ones are moved inside."""
    found = _read_by_numpy(x, index)
    if found is not None:
        return found
    if _is_mask(index) and not isinstance(index, Tracer) and np.ndim(index) == 0:
        # as NumPy: an axis of one element, or of none
        return get_item(x, None) if index else get_item(get_item(x, None), slice(0))
    return read(x, Index(index, x.type.shape))


def _read_by_numpy(x: Any, index: Any) -> Array | None:
    """The fast path: x[index] of values in NumPy memory at known places that there are; None if it is another."""
    if x.__class__ is Array and x._host is not None and innermost_staging() is None:
        known = numpy_index(index, "ib")
        if known is not None:
            try:
                out = x._host[known]  # type: ignore[index]
            except IndexError:
                return None  # the general path says what is wrong, and where
            if out.size:  # where nothing is read, NumPy lets pass what is out of bounds, and masks of other shapes
                if not out.flags.c_contiguous:
                    out = out.copy()
                return Array(array_type(out.shape, x.type.dtype, x.type.weak), out)
    return None


def numpy_index(index: Any, kinds: str = "") -> Any:
    """An index of ints, slices of ints, None, `...`, and known arrays with dtypes of these kinds, as NumPy takes it; None for
    another, and for arrays in which NumPy allows more: without elements, unsigned (not to be among the kinds), a 0-d mask."""
    if index.__class__ is int:
        return index
    entries = index if index.__class__ is tuple else (index,)
    for place, entry in enumerate(entries):
        if entry.__class__ is slice:
            for part in (entry.start, entry.stop, entry.step):
                if part is not None and part.__class__ is not int:
                    return None
        elif entry.__class__ not in _BASIC:
            if entry.__class__ is not Array and entry.__class__ is not np.ndarray:
                return None
            kind_of = entry.dtype.kind
            found = host_of(entry) if entry.__class__ is Array and kind_of in kinds else entry
            if kind_of not in kinds or not found.size or (kind_of == "b" and not found.ndim):
                return None
            entries = (*entries[:place], found, *entries[place + 1 :])
    return entries


def read(x: Any, index: Index, mode: str | None = None, fill_value: Any = None) -> Any:
    """The part of x that an index names. Without a mode, known places out of bounds raise IndexError, others are clipped."""
    if mode is None:
        index.refuse_outside()
        mode = "clip"
    shape = index.shape
    if x.type.shape != shape:
        x = shapes.reshape(x, new_sizes=shape)
    spans = [
        one if isinstance(one, Span) else Span(one, 1, 1) if isinstance(one, int) and not index.chosen else Span(0, 1, size)
        for one, size in zip(index.axes, shape)
    ]
    x = _sliced(x, spans)
    if not index.chosen:
        dropped = tuple([i for i, one in enumerate(index.axes) if isinstance(one, int)])
        return shapes.squeeze(x, dimensions=dropped) if dropped else x
    arrays, common = index.common()
    if not common and mode == "clip":
        return _read_one(x, index, arrays)
    vectors = index_vectors(arrays, common)
    kept = [i for i in range(len(shape)) if i not in index.chosen]
    offset = [i for i in range(len(kept) + len(common)) if not index.where <= i < index.where + len(common)]
    numbers = GatherDimensionNumbers(tuple(offset), tuple(index.chosen), tuple(index.chosen))
    sizes = tuple([1 if i in index.chosen else size for i, size in enumerate(x.type.shape)])
    if 0 in [x.type.shape[i] for i in index.chosen]:
        raise_empty = vectors.type.size > 0
        if raise_empty:
            raise IndexError(f"An axis of size 0 has no elements to choose from: {x.type}.{at_user_line()}")
        out_shape = [x.type.shape[i] for i in kept]
        out_shape[index.where : index.where] = common
        return shapes.reshape(x, new_sizes=tuple(out_shape))
    params: dict[str, Any] = {"dimension_numbers": numbers, "slice_sizes": sizes, "mode": mode}
    if fill_value is not None:
        params["fill_value"] = fill_number(fill_value, x.type.dtype, "take")
    return gather(x, vectors, **params)


def _sliced(x: Any, spans: Sequence[Span]) -> Any:
    """x cut to a span of each axis."""
    shape = x.type.shape
    if all(span == (0, 1, size) for span, size in zip(spans, shape)):
        return x
    starts, stops, strides = [], [], []
    for span in spans:
        step = abs(span.step)
        low = span.start if span.step > 0 else span.start + span.step * (span.length - 1)
        low = low if span.length else 0
        starts.append(low)
        stops.append(low + (span.length - 1) * step + 1 if span.length else 0)
        strides.append(step)
    if not (all(a == 0 for a in starts) and tuple(stops) == shape and all(s == 1 for s in strides)):
        plain = all(s == 1 for s in strides)
        x = shapes.slice(x, start_indices=tuple(starts), limit_indices=tuple(stops), strides=None if plain else tuple(strides))
    backward = tuple([i for i, span in enumerate(spans) if span.step < 0 and span.length > 1])
    return shapes.rev(x, dimensions=backward) if backward else x


def _read_one(x: Any, index: Index, arrays: Sequence[Any]) -> Any:
    """One place along each chosen axis: a window of x, without these axes."""
    widest = max((one.type.dtype for one in arrays), key=lambda dtype: dtype.itemsize)
    dtype = widest if all(one.type.dtype is widest for one in arrays) else default_dtype("i")
    places = dict(zip(index.chosen, [in_dtype(one, dtype) for one in arrays]))
    starts = [places.get(i, literal_of(0, dtype)) for i in range(x.type.ndim)]
    sizes = tuple([1 if i in places else size for i, size in enumerate(x.type.shape)])
    if 0 in [x.type.shape[i] for i in places]:
        raise IndexError(f"An axis of size 0 has no elements to choose from: {x.type}.{at_user_line()}")
    return shapes.squeeze(dynamic_slice(x, *starts, slice_sizes=sizes), dimensions=tuple(index.chosen))


def index_vectors(arrays: Sequence[Any], common: Shape) -> Any:
    """Index arrays, broadcast to a common shape and stacked along a new last axis."""
    dtype = arrays[0].type.dtype
    if any(one.type.dtype is not dtype for one in arrays):
        dtype = default_dtype("i")
    columns = [shapes.reshape(broadcast(in_dtype(one, dtype), common), new_sizes=(*common, 1)) for one in arrays]
    return columns[0] if len(columns) == 1 else shapes.concatenate(*columns, dimension=len(common))


# ---- functions ------------------------------------------------------------------------------------------------------


def known_size(size: Any, name: str) -> int | None:
    """How many elements a function is to return whose result would depend on the values; None if nothing is said."""
    if size is None:
        return None
    number = operator.index(size)
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
    length = mask.type.size
    rank = arithmetic.sub(running_count(mask), literal_of(1, dtype))  # of each true element among them
    where = compare.select(mask, rank, literal_of(count, dtype))  # others are out of bounds, and dropped
    vectors = shapes.reshape(where, new_sizes=(length, 1))
    start, numbers = full((count,), fill, dtype), iota(dtype=dtype, shape=(length,), dimension=0)
    points = ScatterDimensionNumbers((), (0,), (0,))
    return scatter(start, vectors, numbers, dimension_numbers=points, mode="fill", unique_indices=True)


def running_count(mask: Any) -> Any:
    """How many elements of a vector of bools are true, up to each and with it."""
    counted = in_dtype(mask, default_dtype("i"))
    return loops.associative_scan(arithmetic.add, counted) if mask.type.size else counted


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
        IndexError: `indices` are not integers; or one is out of bounds, and `mode="raise"`.
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
    flags("take", unique_indices=unique_indices, indices_are_sorted=indices_are_sorted)
    a = operand(a, "take")
    places = array(indices, copy=False)
    if kind(places.type.dtype) not in "iu":
        raise IndexError(f"take takes integers as indices, but got {places.type}. Convert with .astype(int).{at_user_line()}")
    if axis is None:
        a, axis = shapes.reshape(a, new_sizes=(a.type.size,)) if a.type.ndim != 1 else a, 0
    along = normal_axis(axis, a.type.ndim, "take")
    if mode not in (None, "fill", "clip", "wrap", "raise"):
        raise ValueError(f"take takes mode='fill', 'clip', 'wrap' or 'raise', not {mode!r}.")
    if fill_value is not None and mode not in (None, "fill"):
        raise ValueError(f"take(fill_value={fill_value!r}) needs mode='fill'; with mode={mode!r} nothing is filled.")
    if mode == "wrap":
        places = in_dtype(places, default_dtype("i")) % a.type.shape[along]
    if mode == "raise":
        check_known(places, "take")
    entries = (slice(None),) * along + (places,)
    found = _read_by_numpy(a, entries) if mode != "clip" and fill_value is None else None
    if found is not None:
        return found
    index = Index(entries, a.type.shape, wraps=mode != "clip")
    return read(a, index, {None: "fill", "wrap": "clip", "raise": None}.get(mode, mode), fill_value)


def check_known(places: Any, name: str) -> None:
    """Refuse traced indices where those out of bounds are to raise an error."""
    if isinstance(places, Tracer):
        raise ConcretizationError(
            f"{name} cannot tell whether traced indices, {places.type}, are within bounds: choose another mode than 'raise'."
            f"{at_user_line()}"
        )


def flags(name: str, **given: Any) -> tuple[bool, ...]:
    """Promises that are given as arguments of `name`: bools, known ones."""
    for argument, value in given.items():
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name} takes {argument}=True or False, not {value!r}.{at_user_line()}")
    return tuple([bool(value) for value in given.values()])


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
    return read(a, Index(entries, a.type.shape, wraps=wraps), mode_name("take_along_axis", mode) or "fill", fill_value)


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
    mask, a = array(condition), operand(a, "compress")
    mask = compare.ne(mask, literal_of(0, mask.type.dtype))
    if mask.type.ndim != 1:
        raise ShapeError(f"compress takes a condition of one axis, but got one of {mask.type}.{at_user_line()}")
    if axis is None:
        a, axis = shapes.reshape(a, new_sizes=(a.type.size,)), 0
    along = normal_axis(axis, a.type.ndim, "compress")
    length = a.type.shape[along]
    if isinstance(mask, Tracer) and mask.type.size > length:
        raise ShapeError(f"compress takes a condition of at most {length} elements, but got {mask.type}.{at_user_line()}")
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
    mask = operand(condition, "extract")
    flat = shapes.reshape(mask, new_sizes=(mask.type.size,))
    return compress(flat, operand(arr, "extract"), size=size, fill_value=fill_value)
