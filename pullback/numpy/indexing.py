"""Reading parts of an array: `x[index]`.

An index is read once, into an `Index`: which slice of every axis is static, and which axes integer arrays choose from.
Static parts become `slice`, `rev` and `reshape`; arrays of integers a `gather`; 0-d traced integers a `dynamic_slice`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.core.array import Array, find_converter, host_of
from pullback.core.brief import brief
from pullback.core.dtypes import BOOL, INT32, INT64, default_dtype, kind
from pullback.core.errors import IndexDtypeError, NonConcreteBooleanIndexError, TracerIntegerConversionError
from pullback.core.modes import current_mode
from pullback.core.tracing import Tracer, innermost_staging
from pullback.core.types import Shape, array_type
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
from pullback.ops.dynamic import dynamic_slice
from pullback.ops.index import gather
from pullback.ops.windows import GatherDimensionNumbers, default_fill

_WHOLE = frozenset({int, slice})  # an index of one of these NumPy can be given as it is
_BASIC = _WHOLE | {type(None), type(Ellipsis)}


class Span(NamedTuple):
    """A slice of an axis with its bounds worked out: `length` elements from `start`, `step` apart."""

    start: int
    step: int
    length: int

    def places(self) -> np.ndarray[Any, Any]:
        return self.start + self.step * np.arange(self.length)


class _Truth(NamedTuple):
    """True or False among the entries of an index: an axis of size 1, from which it chooses its element once, or not at all."""

    places: np.ndarray[Any, Any]


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
        refuse_list(index)
        entries, dots = _expand(index if isinstance(index, tuple) else (index,), shape)
        self.wraps = wraps
        self.axes: list[Any] = []
        sizes: list[int] = []
        rest = iter(shape)
        for entry in entries:
            if entry is None or entry.__class__ is _Truth:
                self.axes.append(Span(0, 1, 1) if entry is None else array(entry.places, default_dtype("i")))
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


def signed(index: Any) -> Any:
    """Places that int64 holds: larger ones, of uint64, are out of bounds anyway."""
    dtype = index.type.dtype
    if dtype.name != "uint64":
        return index
    return in_dtype(arithmetic.min(index, literal_of(2**63 - 1, dtype)), INT64)


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
        raise IndexError(
            f"Too many indices: {used} for an array of shape {shape}, which takes {len(shape)} at most.{at_user_line()}"
        )
    entries: list[Any] = []
    axis = dots = 0
    for entry in given if any(one is Ellipsis for one in given) else [*given, Ellipsis]:
        if entry is Ellipsis:
            dots = len(entries)
            entries += [slice(None)] * (len(shape) - used)
            axis += len(shape) - used
        elif _is_mask(entry):
            own = shape[axis : axis + entry.ndim]
            if entry.shape != own and all(size in (0, full) for size, full in zip(entry.shape, own)):
                entry = np.zeros(own, bool)  # a mask without elements chooses none, as NumPy has it
            if entry.shape != own:
                raise IndexError(
                    f"A mask of shape {entry.shape} does not fit an array of shape {shape}: along axes that it chooses from, it"
                    f" must have their sizes, here {own}.{at_user_line()}"
                )
            places: list[Any] = [one.astype(default_dtype("i")) for one in np.nonzero(entry)] if entry.ndim else []
            entries += places or [_Truth(np.zeros(int(entry), np.int64))]
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
        raise NonConcreteBooleanIndexError(
            f"An array was indexed with a traced mask of type {entry.type} in"
            f" {entry.owner.describe()}: how many elements it chooses is not known. Keep the shape with"
            f" pb.numpy.where(mask, x, 0), sum with sum(x, where=mask), or say how many elements there are to be, with"
            f" pb.numpy.compress(mask, x, size=n) or x[pb.numpy.nonzero(mask, size=n)].{at_user_line()}"
        )
    return np.asarray(entry)


def refuse_list(index: Any) -> None:
    """Refuse a list as an index, where the mode says so."""
    if isinstance(index, (list, range)) and not current_mode().lists:
        raise TypeError(
            f"A list is no index here, since it may stand for an array or for a tuple: make one of them of {brief(index)}, by"
            f" asarray or by tuple.{at_user_line()}"
        )


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
            if mode is not None:  # which says what is to happen there; as much further out than int32 tells
                return array(max(min(number, 2**31 - 1), -(2**31)))
            raise IndexError(
                f"Index {number} is out of bounds for axis {axis} of size {size} of an array of shape {shape}.{at_user_line()}"
            )
        return number % size
    if converter is not None and not isinstance(entry, (float, complex)):
        value = operand(entry, "indexing")
        if kind(value.type.dtype) not in "iu":
            raise IndexDtypeError(
                f"An array is indexed with integers, bools, slices, None and ..., but one entry is {value.type}."
                f" Convert it with .astype(int).{at_user_line()}"
            )
        return signed(value)
    raise IndexDtypeError(
        f"An array is indexed with integers, bools, slices, None and ..., not {brief(entry)}.{at_user_line()}"
    )


def _span(entry: slice, size: int) -> Span:
    try:
        start, stop, step = entry.indices(size)
    except (TypeError, TracerIntegerConversionError) as error:
        if traced := [part for part in (entry.start, entry.stop, entry.step) if isinstance(part, Tracer)]:
            made = f" ({where})" if (where := traced[0].where()) else ""
            raise TracerIntegerConversionError(
                f"A slice has a traced bound, of type {traced[0].type}{made} in {traced[0].owner.describe()}, so its length is"
                " not known. If the length is static, use pb.lax.dynamic_slice_in_dim(x, start, length); or"
                f" {traced[0].cure()}.{at_user_line()}"
            ) from None
        raise IndexError(f"A slice takes integers as bounds: {error}.{at_user_line()}") from None
    return Span(start, step, len(range(start, stop, step)))


# ---- reading --------------------------------------------------------------------------------------------------------


def get_item(x: Any, index: Any) -> Any:
    """x[index], as NumPy has it. Known integers out of bounds raise IndexError, but in the mode that clamps; traced ones are
    moved inside."""
    found = read_by_numpy(x, index)
    if found is not None:
        return found
    if _is_mask(index) and not isinstance(index, Tracer) and np.ndim(index) == 0:
        # as NumPy: an axis of one element, or of none
        return get_item(x, None) if index else get_item(get_item(x, None), slice(0))
    mode = "promise_in_bounds" if current_mode().clamps else None
    return read(x, Index(index, x.type.shape, mode), mode)


def read_by_numpy(x: Any, index: Any) -> Array | None:
    """The fast path: x[index] of values in NumPy memory at known places that there are; None if it is another."""
    if x.__class__ is Array and innermost_staging() is None and (host := x._host) is not None:
        known = index if index.__class__ in _WHOLE else numpy_index(index, "ib")
        if known is not None:
            try:
                out = host[known]  # type: ignore[index]
            except (IndexError, TypeError):
                return None  # the general path says what is wrong, and where
            if 0 not in (shape := out.shape):  # of nothing, NumPy lets pass what is out of bounds, and masks of other shapes
                if not out.flags.c_contiguous:
                    out = out.copy()
                return Array(array_type(shape, (type := x.type).dtype, type.weak), out)
    return None


def numpy_index(index: Any, kinds: str = "") -> Any:
    """An index of ints, slices of ints, None, `...`, and known arrays with dtypes of these kinds, as NumPy takes it; None for
    another, and for arrays in which NumPy allows more: without elements, unsigned (not to be among the kinds), a 0-d mask."""
    entries = index if index.__class__ is tuple else (index,)
    for place, entry in enumerate(entries):
        cls = entry.__class__
        if cls is slice:
            for part in (entry.start, entry.stop, entry.step):
                if part is not None and part.__class__ is not int:
                    return None
        elif cls is Array or cls is np.ndarray:
            kind_of = (entry.type if cls is Array else entry).dtype.kind
            if kind_of not in kinds:
                return None
            found = host_of(entry) if cls is Array else entry
            if not found.size or (kind_of == "b" and not found.ndim):
                return None
            entries = (*entries[:place], found, *entries[place + 1 :])
        elif cls not in _BASIC and not isinstance(entry, np.integer):
            return None
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
    if not common and mode != "fill":
        return _read_one(x, index, arrays)
    vectors = index_vectors(arrays, common)
    kept = [i for i in range(len(shape)) if i not in index.chosen]
    offset = [i for i in range(len(kept) + len(common)) if not index.where <= i < index.where + len(common)]
    numbers = GatherDimensionNumbers(tuple(offset), tuple(index.chosen), tuple(index.chosen))
    sizes = tuple([1 if i in index.chosen else size for i, size in enumerate(x.type.shape)])
    if 0 in [x.type.shape[i] for i in index.chosen]:
        out_shape = [x.type.shape[i] for i in kept]
        out_shape[index.where : index.where] = common
        if 0 in out_shape:
            return shapes.reshape(x, new_sizes=tuple(out_shape))
        if mode != "fill":
            raise IndexError(
                f"An axis of size 0 has no elements to choose from: {x.type}. Look at x.size before.{at_user_line()}"
            )
        filling = default_fill(x.type.dtype) if fill_value is None else fill_number(fill_value, x.type.dtype, "take")
        return full(tuple(out_shape), filling, x.type.dtype)
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
    dtype = _meeting(arrays)
    places = dict(zip(index.chosen, [in_dtype(one, dtype) for one in arrays]))
    starts = [places.get(i, literal_of(0, dtype)) for i in range(x.type.ndim)]
    sizes = tuple([1 if i in places else size for i, size in enumerate(x.type.shape)])
    if 0 in [x.type.shape[i] for i in places]:
        raise IndexError(f"An axis of size 0 has no elements to choose from: {x.type}. Look at x.size before.{at_user_line()}")
    return shapes.squeeze(dynamic_slice(x, *starts, slice_sizes=sizes), dimensions=tuple(index.chosen))


def _meeting(arrays: Sequence[Any]) -> Any:
    """An integer dtype that holds the indices of each array."""
    dtypes = {one.type.dtype for one in arrays}
    if len(dtypes) == 1:
        return dtypes.pop()
    return INT64 if any([dtype.itemsize + (dtype.kind == "u") > 4 for dtype in dtypes]) else INT32


def index_vectors(arrays: Sequence[Any], common: Shape) -> Any:
    """Index arrays, broadcast to a common shape and stacked along a new last axis."""
    dtype = _meeting(arrays)
    columns = [shapes.reshape(broadcast(in_dtype(one, dtype), common), new_sizes=(*common, 1)) for one in arrays]
    return columns[0] if len(columns) == 1 else shapes.concatenate(*columns, dimension=len(common))
