"""Cutting out and overwriting a block that begins where computed indices say, moved inside if it would stick out."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.core.brief import counted
from pullback.core.dtypes import INT64, kind
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.primitive import Rules, primitive
from pullback.core.tracing import type_of
from pullback.core.types import ArrayType, is_unknown
from pullback.ops.broadcast import broadcast_in_dim
from pullback.ops.convert import convert_element_type
from pullback.ops.create import full
from pullback.ops.families import numbered, places
from pullback.ops.index import gather, scatter
from pullback.ops.literals import literal
from pullback.ops.pointwise import each_alone, same_dtype
from pullback.ops.shape import concatenate, in_front, reshape
from pullback.ops.windows import GatherDimensionNumbers, ScatterDimensionNumbers
from pullback.stablehlo.writer import i64s


def _check_starts(name: str, x: ArrayType, starts: tuple[ArrayType, ...], sizes: tuple[int, ...]) -> None:
    if any(start.shape or kind(start.dtype) not in "iu" for start in starts):
        raise DtypeError(f"{name} takes 0-d integer indices, but got {', '.join(map(str, starts))}.")
    fits = len(starts) == len(sizes) == x.ndim and all(0 <= size <= whole for size, whole in zip(sizes, x.shape))
    if not fits:
        raise ShapeError(
            f"{name} cannot place a block of shape {tuple(sizes)} by {counted(len(starts), 'index')} in {x}. The block must"
            " fit inside,"
            " and take one index for each axis."
        )


def _block(x, starts, sizes):
    """The block as a NumPy index."""
    inside = [min(max(int(start), 0), whole - size) for start, whole, size in zip(starts, x.shape, sizes)]
    return tuple([slice(at, at + size) for at, size in zip(inside, sizes)])


def _same_dtype_starts(write, starts):
    """StableHLO wants the indices of one dtype."""
    if len({start.dtype for start in starts}) > 1:
        return [write.convert(start, INT64) for start in starts]
    return list(starts)


def _moved_inside(write, start, size, taken):
    """The beginning of a block of so many elements, moved inside an axis of that size."""
    last = min(size - taken, np.iinfo(start.dtype).max)
    return write.op("stablehlo.clamp", [write.like(start, 0), start, write.like(start, last)], start.type)


def _index_vectors(starts, axes, size):
    """Indices of which some are batched, as one index vector for each batch element."""
    columns = []
    if len({type_of(start).dtype for start in starts}) > 1:
        starts = [convert_element_type(start, new_dtype=INT64) for start in starts]
    for start, axis in zip(starts, axes):
        if axis is None:
            columns.append(broadcast_in_dim(start, shape=(size, 1), broadcast_dimensions=()))
        else:
            columns.append(reshape(start, new_sizes=(size, 1)))
    return concatenate(*columns, dimension=1)


def _zero_start(starts: Any) -> Any:
    return literal(0, starts[0]) if starts else literal(0, np.int32(0))


@primitive
class dynamic_slice(Rules):
    """The block of x of `slice_sizes` that begins at `start_indices`, one 0-d integer for each axis."""

    cost = 0
    quiet = True
    linear = ("x",)

    def traffic(operands, results, **params):
        return sum([start.nbytes for start in operands[1:]]) + 2 * results[0].nbytes

    def result_type(x, *start_indices, slice_sizes: tuple[int, ...]):
        _check_starts("dynamic_slice", x, start_indices, slice_sizes)
        return x.with_shape(tuple(slice_sizes))

    def evaluate(x, *start_indices, slice_sizes):
        return x[_block(x, start_indices, slice_sizes)]

    def lower(write, x, *start_indices, slice_sizes):
        return write.op(
            "stablehlo.dynamic_slice", [x, *_same_dtype_starts(write, start_indices)], slice_sizes=i64s(slice_sizes)
        )

    def transpose(cotangent, x, *start_indices, slice_sizes):
        start = full(x.shape, 0, x.dtype)
        return (dynamic_update_slice(start, cotangent, *start_indices), *[None] * len(start_indices))

    def vectorize(size, args, axes, *, slice_sizes):
        (x, *starts), (x_axis, *start_axes) = args, axes
        sizes = tuple(slice_sizes)
        if all(axis is None for axis in start_axes):
            return dynamic_slice(x, _zero_start(starts), *starts, slice_sizes=(size, *sizes)), 0
        vectors = _index_vectors(starts, start_axes, size)
        count = len(sizes)
        offset = tuple(range(1, count + 1))
        if x_axis is None:
            numbers = GatherDimensionNumbers(offset, (), tuple(range(count)))
        else:
            numbers = GatherDimensionNumbers(offset, (), offset, (0,), (0,))
            sizes = (min(1, size), *sizes)
        return gather(x, vectors, dimension_numbers=numbers, slice_sizes=sizes, mode="clip", fill_value=None), 0

    def sparsity(which, operands, *, slice_sizes):
        x, *starts = operands
        if not all([isinstance(start, np.ndarray) for start in starts]):
            return None
        return places(numbered(x)[_block(x, starts, slice_sizes)])

    def samples(rng):
        yield (rng.normal(size=(4, 5)), np.int32(1), np.int32(2)), {"slice_sizes": (2, 3)}
        yield (rng.normal(size=(4, 5)), np.int32(-3), np.int32(9)), {"slice_sizes": (4, 2)}
        yield (rng.normal(size=(4,)), np.int32(1)), {"slice_sizes": (0,)}


@primitive
class dynamic_update_slice(Rules):
    """x with the block that begins at `start_indices` overwritten by `update`."""

    cost = 0
    quiet = True
    in_place = (0,)
    linear = ("x", "update")

    def traffic(operands, results):
        return sum([start.nbytes for start in operands[2:]]) + 2 * operands[1].nbytes

    def result_type(x, update, *start_indices):
        common = same_dtype("dynamic_update_slice", (x, update))
        _check_starts("dynamic_update_slice", x, start_indices, update.shape)
        return common.with_shape(x.shape)

    def evaluate(x, update, *start_indices):
        out = np.array(x, order="C")
        out[_block(x, start_indices, update.shape)] = update
        return out

    def lower(write, x, update, *start_indices):
        starts = _same_dtype_starts(write, start_indices)
        if write.partitioned:  # XLA's partitioner leaves out a block that begins outside, in place of moving it inside
            starts = [_moved_inside(write, *one) for one in zip(starts, x.shape, update.shape)]
        return write.op("stablehlo.dynamic_update_slice", [x, update, *starts])

    def transpose(cotangent, x, update, *start_indices):
        kept = found = None
        if is_unknown(x):
            kept = dynamic_update_slice(cotangent, full(type_of(update).shape, 0, type_of(cotangent).dtype), *start_indices)
        if is_unknown(update):
            found = dynamic_slice(cotangent, *start_indices, slice_sizes=update.shape)
        return (kept, found, *[None] * len(start_indices))

    def vectorize(size, args, axes):
        (x, update, *starts), (x_axis, update_axis, *start_axes) = args, axes
        x, update = in_front(x, x_axis, size), in_front(update, update_axis, size)
        if all(axis is None for axis in start_axes):
            return dynamic_update_slice(x, update, _zero_start(starts), *starts), 0
        vectors = _index_vectors(starts, start_axes, size)
        window = tuple(range(1, len(starts) + 1))
        numbers = ScatterDimensionNumbers(window, (), window, (0,), (0,))
        return scatter(x, vectors, update, dimension_numbers=numbers, mode="clip", unique_indices=True), 0

    def sparsity(which, operands):
        x, update, *starts = operands
        if not all([isinstance(start, np.ndarray) for start in starts]):
            return None if which else each_alone(0, [x])  # and what is overwritten, wherever that is
        numbers = np.full(x.shape, -1) if which else numbered(x)
        numbers[_block(x, starts, update.shape)] = numbered(update) if which else -1
        return places(numbers)

    def samples(rng):
        yield (rng.normal(size=(4, 5)), rng.normal(size=(2, 3)), np.int32(1), np.int32(2)), {}
        yield (rng.normal(size=(4, 5)), rng.normal(size=(4, 2)), np.int32(-3), np.int32(9)), {}
        yield (rng.normal(size=(4,)), rng.normal(size=(0,)), np.int32(1)), {}
