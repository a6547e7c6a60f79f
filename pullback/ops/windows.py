"""Windows: which elements of an array the dimension numbers of a gather or scatter point to.

Dimension numbers are XLA's (openxla.org/stablehlo/spec, gather and scatter), with the index vector always the last axis of
`indices`. A *window* is the block of `slice_sizes` that one index vector points to; its axes of the operand are kept, or
dropped (`collapsed`), or run along with axes of `indices` (`batching`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from pullback.core.brief import brief, counted
from pullback.core.dtypes import DType, integer_limits, kind
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.types import ArrayType
from pullback.ops.families import up
from pullback.stablehlo.writer import listed

MODES = ("clip", "fill", "promise_in_bounds")


class GatherScatterMode(Enum):
    """What happens to a window that does not lie within the array.

    Attributes:
        CLIP: it is moved inside. FILL_OR_DROP: what is read there is filled, what is written there left out.
        PROMISE_IN_BOUNDS: there is none; a broken promise reads the nearest window, and writes nothing.

    Example:
        >>> x = pnp.array([1.0, 2.0])
        >>> x.at[7].get(mode=lax.GatherScatterMode.CLIP), x.at[7].set(0.0, mode=lax.GatherScatterMode.FILL_OR_DROP)
        (2.0:f32[]:cpu(0), [1. 2.]:f32[2]:cpu(0))
    """

    CLIP = "clip"
    FILL_OR_DROP = "fill"
    PROMISE_IN_BOUNDS = "promise_in_bounds"

    @staticmethod
    def from_any(s: str | GatherScatterMode | None) -> GatherScatterMode:
        """The mode that a string names; None stands for FILL_OR_DROP.

        Arguments:
            s: "clip", "fill", "drop" or "promise_in_bounds"; a mode; or None.

        Returns:
            A `GatherScatterMode`.

        Raises:
            ValueError: no mode has that name.

        Example:
            >>> lax.GatherScatterMode.from_any("drop")
            <GatherScatterMode.FILL_OR_DROP: 'fill'>
        """
        return GatherScatterMode(mode_name("GatherScatterMode.from_any", s) or "fill")


def mode_name(name: str, mode: Any) -> Any:
    """A mode as users give it as primitives take it, one of MODES; None stays None."""
    found = {"drop": "fill"}.get(mode, mode) if isinstance(mode, str) else getattr(mode, "value", mode)
    if found is not None and (found.__class__ is not str or found not in MODES):
        raise ValueError(
            f"{name} takes mode='fill', 'drop', 'clip' or 'promise_in_bounds', or a GatherScatterMode, not {brief(mode)}."
        )
    return found


class GatherDimensionNumbers(NamedTuple):
    """Which axes are which in a gather; and in a scatter, where they tell how it would be read back.

    Attributes:
        offset_dims: the axes of the result that lie within a window.
        collapsed_slice_dims: the axes of the operand, 1 wide in a window, that are dropped.
        start_index_map: the axis of the operand that each element of an index vector counts along.
        operand_batching_dims, start_indices_batching_dims: the axes of the operand that run along with axes of the indices.

    Example:
        >>> rows = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
        >>> lax.gather(pnp.array([[1, 2], [3, 4]]), pnp.array([[1]]), rows, slice_sizes=(1, 2))
        [[3 4]]:i32[1,2]:cpu(0)
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()

    def kept(self, ndim: int) -> list[int]:
        """The axes of the operand that the windows keep.

        Arguments:
            ndim: how many axes the operand has.

        Returns:
            A list of ints.

        Example:
            >>> lax.GatherDimensionNumbers((1,), (0,), (0,)).kept(2)
            [1]
        """
        return [
            axis for axis in range(ndim) if axis not in self.collapsed_slice_dims and axis not in self.operand_batching_dims
        ]

    def as_scatter(self) -> ScatterDimensionNumbers:
        """The scatter that writes where this gather reads.

        Returns:
            A `ScatterDimensionNumbers`.

        Example:
            >>> lax.GatherDimensionNumbers((1,), (0,), (0,)).as_scatter().inserted_window_dims
            (0,)
        """
        return ScatterDimensionNumbers(*self)


class ScatterDimensionNumbers(NamedTuple):
    """Which axes are which in a scatter.

    Attributes:
        update_window_dims: the axes of the updates that lie within a window.
        inserted_window_dims: the axes of the operand, 1 wide in a window, that the updates lack.
        scatter_dims_to_operand_dims: the axis of the operand that each element of an index vector counts along.
        operand_batching_dims, scatter_indices_batching_dims: the axes of the operand that run along with axes of the indices.

    Example:
        >>> rows = lax.ScatterDimensionNumbers((1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
        >>> rows.as_gather().offset_dims
        (1,)
    """

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()

    def as_gather(self) -> GatherDimensionNumbers:
        """The gather that reads where this scatter writes.

        Returns:
            A `GatherDimensionNumbers`.

        Example:
            >>> lax.ScatterDimensionNumbers((1,), (0,), (0,)).as_gather().offset_dims
            (1,)
        """
        return GatherDimensionNumbers(*self)


def check_indices(
    name: str,
    operand: ArrayType,
    indices: ArrayType,
    numbers: GatherDimensionNumbers,
    sizes: Any,
    mode: str,
    scatter: bool = False,
) -> None:
    """Raise an error unless dimension numbers, slice sizes and mode fit the operand and the indices."""
    if kind(indices.dtype) not in "iu":
        raise DtypeError(f"{name} takes integer indices, but got {indices}.")
    if mode not in MODES:
        raise ValueError(f"{name} takes mode={', '.join(map(repr, MODES))}, not {brief(mode)}.")
    named = numbers.as_scatter() if scatter else numbers
    for fault in _faults(operand, indices, numbers, sizes, named._fields):
        given = f"slice_sizes={tuple(sizes)}" if not scatter else f"windows of {tuple(sizes)}"
        raise ShapeError(f"{name} of {operand} at {indices}: {fault}. Given were {named} and {given}.")


def _faults(operand: ArrayType, indices: ArrayType, numbers: Any, sizes: Any, names: Sequence[str]) -> Iterator[str]:
    """What does not fit, in words; each is looked for once there is nothing before it."""
    if not indices.ndim:
        yield "indices without axes hold no index vectors, which lie along their last axis"
    offset, collapsed, mapped, batching, places = names
    spaces = {
        offset: ("the result" if "offset" in offset else "the updates", indices.ndim - 1 + len(numbers.offset_dims)),
        collapsed: ("the operand", operand.ndim),
        mapped: ("the operand", operand.ndim),
        batching: ("the operand", operand.ndim),
        places: ("the indices (the last one holds the index vectors)", indices.ndim - 1),
    }
    for (field, (whose, ndim)), axes in zip(spaces.items(), numbers):
        if not all(0 <= axis < ndim for axis in axes):
            yield f"{field}={axes} goes out of bounds, for {ndim} axes of {whose}"
        if len({*axes}) != len(axes):
            yield f"{field}={axes} names an axis more than once"
        if field in (offset, collapsed, batching) and [*axes] != sorted(axes):
            yield f"{field}={axes} is not in rising order"
    for field, axes in ((collapsed, numbers.collapsed_slice_dims), (mapped, numbers.start_index_map)):
        if both := {*axes} & {*numbers.operand_batching_dims}:
            yield f"axis {min(both)} of the operand is in {field} and in {batching}, and may be in one of them"
    if len(numbers.operand_batching_dims) != len(numbers.start_indices_batching_dims):
        yield f"{batching} and {places} pair axes with each other, but are of different lengths"
    for axis, other in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims):
        if operand.shape[axis] != indices.shape[other]:
            yield (
                f"{batching} and {places} pair axes of equal size, but axis {axis} of the operand is of size"
                f" {operand.shape[axis]}, and axis {other} of the indices of size {indices.shape[other]}"
            )
    if indices.shape[-1] != len(numbers.start_index_map):
        yield (
            f"the index vectors have {counted(indices.shape[-1], 'element')}, but {mapped}={numbers.start_index_map} says"
            f" {counted(len(numbers.start_index_map), 'axis')}"
        )
    if len(numbers.offset_dims) != len(numbers.kept(operand.ndim)):
        yield (
            f"{offset} places {counted(len(numbers.offset_dims), 'axis')} of the windows, of which"
            f" {len(numbers.kept(operand.ndim))} remain"
            f" of the operand's {operand.ndim} without {collapsed} and {batching}"
        )
    if len(sizes) != operand.ndim:
        yield f"a window has a size along each of the {operand.ndim} axes of the operand, and not {len(sizes)} of them"
    for axis, (size, whole) in enumerate(zip(sizes, operand.shape)):
        if not 0 <= size <= whole:
            yield f"a window of size {size} along axis {axis} is not within the operand's {whole}"
        if size != 1 and axis in numbers.collapsed_slice_dims:
            yield f"axis {axis}, in {collapsed}, can be dropped from windows of size 1 along it, but they are of size {size}"
        if size != min(1, whole) and axis in numbers.operand_batching_dims:
            yield f"axis {axis}, in {batching}, takes windows of size 1 along it, but they are of size {size}"


def window_places(indices, numbers, sizes, shape, mode):
    """For each axis of an operand of `shape`, the index of every element of every window; and which windows lie inside.

    The index arrays broadcast to the axes of `indices` but its last, then the windows' axes. All windows lie inside, unless the
    mode is `fill`, and then the second result says which; the others are moved inside.
    """
    starts = indices.astype(np.int64)
    limits = np.array([shape[axis] - sizes[axis] for axis in numbers.start_index_map], np.int64)
    inside = ((starts >= 0) & (starts <= limits)).all(-1) if mode == "fill" else None
    starts = np.clip(starts, 0, limits)
    kept = numbers.kept(len(shape))
    ndim = starts.ndim - 1 + len(kept)

    def along(values, axis):
        return values.reshape([-1 if i == axis else 1 for i in range(ndim)])

    places = []
    for axis in range(len(shape)):
        place = np.zeros((1,) * ndim, np.int64)
        if axis in numbers.start_index_map:
            start = starts[..., numbers.start_index_map.index(axis)]
            place = start.reshape(start.shape + (1,) * len(kept))
        if axis in numbers.operand_batching_dims:
            at = numbers.start_indices_batching_dims[numbers.operand_batching_dims.index(axis)]
            place = along(np.arange(shape[axis]), at)
        if axis in kept:
            place = place + along(np.arange(sizes[axis]), starts.ndim - 1 + kept.index(axis))
        places.append(place)
    return places, inside


def plain_axis(numbers, sizes, shape, batch):
    """The axis along which a gather takes whole slices, put where that axis was; None if it does anything else."""
    if numbers.operand_batching_dims or len(numbers.start_index_map) != 1:
        return None
    (axis,) = numbers.start_index_map
    if numbers.collapsed_slice_dims != (axis,) or any(sizes[i] != shape[i] for i in range(len(shape)) if i != axis):
        return None
    return axis if numbers.offset_dims == (*range(axis), *range(axis + batch, len(shape) - 1 + batch)) else None


def window_layout(numbers, ndim):
    """The axes of a gather's result of `ndim` axes: first those of the indices, then those of the windows."""
    return [axis for axis in range(ndim) if axis not in numbers.offset_dims] + list(numbers.offset_dims)


def default_fill(dtype: DType) -> Any:
    """What `fill` puts where indices are out of range: NaN, the least signed or the largest unsigned integer (of keys, two such
    words), or True."""
    letter = kind(dtype)
    if letter in "fc":
        return np.nan
    limits = None if letter == "b" else integer_limits(np.dtype(np.uint32) if letter == "k" else dtype)
    return True if limits is None else limits.min or limits.max


def batched_numbers(numbers, operand_batched, indices_batched):
    """The dimension numbers of many gathers at once, each batched operand with its batch axis in front."""
    offset, collapsed, mapped = up(numbers.offset_dims), numbers.collapsed_slice_dims, numbers.start_index_map
    operand_batching, indices_batching = numbers.operand_batching_dims, numbers.start_indices_batching_dims
    if operand_batched:
        collapsed, mapped, operand_batching = up(collapsed), up(mapped), up(operand_batching)
    if indices_batched:
        indices_batching = up(indices_batching)
    if operand_batched and indices_batched:
        operand_batching, indices_batching = (0, *operand_batching), (0, *indices_batching)
    elif operand_batched:
        offset = (0, *offset)
    return GatherDimensionNumbers(offset, collapsed, mapped, operand_batching, indices_batching)


def written(operation, numbers, indices):
    """Dimension numbers as StableHLO has them, `#stablehlo.gather<offset_dims = [1], ...>`."""
    fields = [f"{name} = {listed(axes)}" for name, axes in numbers._asdict().items()]
    return f"#stablehlo.{operation}<{', '.join(fields)}, index_vector_dim = {len(indices.shape) - 1}>"


def wide_indices(write, indices):
    """Indices of at least 32 bits, so that every bound can be written in their dtype."""
    return indices if indices.dtype.itemsize >= 4 else write.convert(indices, np.dtype(np.int32))


def index_limits(write, indices, numbers, sizes, shape):
    """The largest start of a window along each axis that the index vectors count."""
    top = np.iinfo(indices.dtype).max
    limits = np.array([min(shape[axis] - sizes[axis], top) for axis in numbers.start_index_map], indices.dtype)
    return write.broadcast(write.constant(limits), indices.shape, (len(indices.shape) - 1,))


def clamped_indices(write, indices, numbers, sizes, shape):
    """Indices moved so that every window lies inside."""
    zero = write.constant(0, indices.type)
    return write.op("stablehlo.clamp", [zero, indices, index_limits(write, indices, numbers, sizes, shape)], indices.type)
