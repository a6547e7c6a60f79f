"""Order: the values along an axis in rising order, and the places that they come from.

NaN comes last, the zeros of both signs are equal, and equal elements keep their order. Complex numbers are in the order of
their real parts, then of their imaginary ones; those with a NaN come behind, as NumPy has them.

A million float32 numbers take XLA for the CPU 240 ms, NumPy 3 to 30 (by vector instructions, if it has them for the processor)
and the native tier 5 to 8. So XLA sorts up to `FEW` elements in what it runs; more are sorted by a call of the native tier's
code, or of NumPy where there is no such tier. A program that calls NumPy is not kept on disk. Exported ones leave it to XLA.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.core.brief import counted
from pullback.core.dtypes import INT32, INT64, accumulation_dtype, canonical, kind
from pullback.core.errors import ShapeError
from pullback.core.primitive import Rules, primitive
from pullback.core.tracing import type_of
from pullback.core.types import array_type
from pullback.ops.families import all_but, check_axes, check_kinds, on_host
from pullback.ops.formulas import Written
from pullback.ops.index import gather, take
from pullback.ops.pointwise import same_dtype
from pullback.ops.shape import in_front, reshape
from pullback.ops.shape import slice as slice_of
from pullback.ops.windows import GatherDimensionNumbers, written
from pullback.stablehlo.writer import TensorType, i64s

FEW = 2048
_SMALL = 256  # up to here a stable sort of NumPy's is no slower than another


def _bits(x):
    """The bits of x, as signed integers."""
    dtype = np.dtype(f"i{x.dtype.itemsize}")
    return Written(x.write, x.write.bitcast(x.value, dtype)) if isinstance(x, Written) else x.view(dtype)


def _rank(x):
    """Integers that are in the order of real numbers; equal for equal ones, and the largest for NaN."""
    if x.dtype.kind in "iu":
        return x
    if x.dtype.kind == "b":
        return x.astype(np.int8)
    if x.dtype.itemsize == 1:
        x = x.astype(np.float32)
    infinite, bits = np.asarray(np.inf, x.dtype).view(f"i{x.dtype.itemsize}")[()], _bits(x)
    last = np.iinfo(bits.dtype).max
    turned = bits ^ (-(bits < 0).astype(bits.dtype) & last)  # negative numbers fall as their bits rise; -0 becomes -1
    return np.where(bits & last > infinite, bits.dtype.type(last), turned + (turned == -1).astype(bits.dtype))


_PLACE = (1 << 32) - 1


def _placed(rank, places):
    """A rank of up to 32 bits and a place in one number, which sorts as the rank does, and then as the place."""
    return rank.astype(np.int64) - (1 << 31 if rank.dtype.kind == "u" else 0) << 32 | places


def _ranks(x, descending=False):
    """Integers, one after the other, that are in the order of the elements; their complements if it is to be falling."""
    if x.dtype.kind == "c":
        missing = 2 * np.isnan(x.real).astype(np.int8) + np.isnan(x.imag).astype(np.int8)
        found = [missing, _rank(x.real), _rank(x.imag)]
    else:
        found = [_rank(x)]
    return [~rank for rank in found] if descending else found


# ---- on NumPy arrays ------------------------------------------------------------------------------------------------


def _sorted(x, axis):
    if x.dtype.kind in "biu":
        return np.sort(x, axis)
    if x.dtype.kind != "c" and x.dtype.itemsize < 4:
        return _sorted(x.astype(np.float32), axis).astype(x.dtype)
    if x.dtype.kind == "c" or x.size <= _SMALL:
        return np.sort(x, axis, kind="stable")
    out = np.sort(x, axis)  # which exchanges zeros of both signs, if there are
    zeros = out[out.searchsorted(0) : out.searchsorted(0, "right")] if x.ndim == 1 else x[x == 0]
    return np.sort(x, axis, kind="stable") if np.signbit(zeros).any() else out


def _places(ranks, count):
    """The places of the elements in rising order along the last axis, the first `count` of them."""
    rank, size = ranks[0], ranks[0].shape[-1]
    if len(ranks) > 1:
        return np.lexsort(ranks[::-1], axis=-1)[..., :count]
    if rank.dtype.itemsize == 8:  # numbered: how many different ranks there are before each one
        found = np.argsort(rank, axis=-1)
        ordered = np.take_along_axis(rank, found, -1)
        rank = np.zeros(rank.shape, np.int64)
        np.cumsum(ordered[..., 1:] != ordered[..., :-1], axis=-1, out=rank[..., 1:])
        if (rank[..., -1] == size - 1).all():
            return found[..., :count]
        both = _placed(rank, found)
    else:
        both = _placed(rank, np.arange(size))
    if count < size // 8:
        both = np.partition(both, count, axis=-1)[..., :count]
    both.sort(axis=-1)
    return both[..., :count] & _PLACE


# ---- in StableHLO ---------------------------------------------------------------------------------------------------


def _written_sort(write, operands, axis, keys=1):
    """The operands in the order of the first `keys` of them."""
    with write.region([TensorType((), x.dtype) for x in operands for _ in range(2)]) as region:
        pairs = [region.arguments[i : i + 2] for i in range(0, 2 * keys, 2)]
        *others, (x, y) = pairs
        before = write.compare("LT", x, y)
        for x, y in others[::-1]:
            before = write.select(write.compare("EQ", x, y), before, write.compare("LT", x, y))
        region.returns(before)
    types = [x.type for x in operands]
    return write.many("stablehlo.sort", operands, types, [region.text], dimension=f"{axis} : i64", is_stable="true")


def _counted(write, shape, axis, dtype):
    return write.op("stablehlo.iota", [], TensorType(shape, dtype), iota_dimension=f"{axis} : i64")


def _first(write, places):
    """The first of some places, as many as the operation gives, in its dtype."""
    wanted = write.result_type
    cut = {"start_indices": i64s([0] * len(wanted.shape)), "limit_indices": i64s(wanted.shape)}
    return write.op("stablehlo.slice", [write.convert(places, wanted.dtype)], **cut, strides=i64s([1] * len(wanted.shape)))


def _too_long(write, x):
    return write.platform == "cpu" and not write.portable and math.prod(x.shape) > FEW


def _recorded(write, keys, values, shape, **params):
    """The first elements of arrays in the order of keys, as many as there are in a shape. The native tier knows where NaN goes;
    of complex numbers it is given the parts."""
    found = [_ranks(Written(write, key)) if key.dtype.kind == "c" else [Written(write, key)] for key in keys]
    operands = [rank.value for ranks in found for rank in ranks]
    types = [TensorType(shape, x.dtype) for x in values]
    return write.many("ordered", [*operands, *values], types, keys=len(operands), **params)


def _recorded_sort(write, x, *, dimension):
    return _recorded(write, [x], [x], x.shape, dimension=dimension, descending=False)[0]


def _recorded_order(write, *keys, dimension, index_dtype, descending=False, count=None):
    places = _counted(write, keys[0].shape, dimension, INT32)
    wanted = write.result_type
    (found,) = _recorded(write, keys, [places], wanted.shape, dimension=dimension, descending=descending)
    return write.convert(found, wanted.dtype)


def _elsewhere(primitive, write, *operands, **params):
    """The native tier sorts, if it may; else NumPy does."""
    found = write.offload(operands)
    return on_host(primitive, write, *operands, **params) if found is None else found[0]


def _sort_cost(operands, results, *, dimension, **params):
    (x, *_) = operands
    return x.size * math.log2(max(x.shape[dimension], 1))  # comparisons


class Ordering(Rules):
    """Something about the order of elements along the axis `dimension`."""

    quiet = True
    cost = _sort_cost

    def axis_map(*operands, dimension, **params):
        return [all_but(x, (dimension,)) for x in operands]

    def vectorize(primitive, size, args, axes, *, dimension, **params):
        args = [in_front(arg, axis, size) for arg, axis in zip(args, axes)]
        return primitive(*args, dimension=dimension + 1, **params), 0


@primitive
class sort(Ordering):
    """The elements along the axis `dimension` in rising order, NaN last."""

    def result_type(primitive, x, *, dimension: int):
        check_kinds(primitive, x)
        check_axes("sort", (dimension,), x)
        return x

    def evaluate(x, *, dimension):
        return _sorted(x, dimension)

    def lower(write, x, *, dimension):
        if _too_long(write, x):
            return _elsewhere(sort, write, x, dimension=dimension)
        if x.dtype.kind == "c":
            ranks = [rank.value for rank in _ranks(Written(write, x))]
            return _written_sort(write, [*ranks, x], dimension, len(ranks))[-1]
        if kind(x.dtype) != "f":
            return _written_sort(write, [x], dimension)[0]
        # XLA is fast where all that is asked is whether x < y: NaN is sorted as infinity, and put back at the end
        wide = write.convert(x, accumulation_dtype(x.dtype))
        present = write.compare("EQ", wide, wide)
        (out,) = _written_sort(write, [write.select(present, wide, write.like(wide, np.inf))], dimension)
        counts = write.reduce("stablehlo.add", write.convert(present, INT32), 0, (dimension,))
        others = [axis for axis in range(len(x.shape)) if axis != dimension]
        counts = write.broadcast(counts, x.shape, others)
        there = write.compare("LT", _counted(write, x.shape, dimension, INT32), counts)
        return write.convert(write.select(there, out, write.like(wide, np.nan)), x.dtype)

    platforms = {"native": _recorded_sort}  # noqa: RUF012  (a rule, not a default)

    def jvp(primals, tangents, *, dimension):
        (x,), (t,) = primals, tangents
        places = order(x, dimension=dimension, index_dtype=INT32)
        return take_along(x, places, dimension), take_along(t, places, dimension)

    def samples(rng):
        yield (rng.normal(size=(2, 5)),), {"dimension": 1}
        yield (np.array([[0.5, 3.0], [-2.5, 1.5], [1.0, 0.0]]),), {"dimension": 0}
        yield (rng.normal(size=(0, 2)),), {"dimension": 0}


@primitive
class order(Ordering):
    """The places along the axis `dimension` of the elements in rising order: by the first operand, where that is equal by the
    next. `descending`: in falling order, in which equal elements keep their order too. The first `count` places, or all."""

    def result_type(primitive, *keys, dimension: int, index_dtype, descending: bool = False, count: int | None = None):
        check_kinds(primitive, *keys)
        check_axes("order", (dimension,), keys[0])
        if any(key.shape != keys[0].shape for key in keys):
            raise ShapeError(f"order takes operands of one shape, but got {', '.join(map(str, keys))}.")
        shape = list(keys[0].shape)
        if count is not None:
            if not 0 <= count <= shape[dimension]:
                raise ShapeError(
                    f"order cannot find {counted(count, 'element')} along axis {dimension} of {keys[0]}. Ask for as many as"
                    " there are, at"
                    " most."
                )
            shape[dimension] = count
        return array_type(tuple(shape), canonical(index_dtype))

    def evaluate(*keys, dimension, index_dtype, descending=False, count=None):
        if len(keys) == 1 and keys[0].size <= _SMALL and keys[0].dtype.kind in "biufc" and not descending and count is None:
            return np.argsort(keys[0], dimension, kind="stable").astype(index_dtype)
        keys = [np.moveaxis(key, dimension, -1) for key in keys]
        ranks = [rank for key in keys for rank in _ranks(key, descending)]
        found = _places(ranks, ranks[0].shape[-1] if count is None else count)
        return np.moveaxis(found.astype(index_dtype), -1, dimension)

    def lower(write, *keys, **params):
        shape, dimension = keys[0].shape, params["dimension"]
        if _too_long(write, keys[0]):
            return _elsewhere(order, write, *keys, **params)
        ranks = [rank.value for key in keys for rank in _ranks(Written(write, key), params.get("descending", False))]
        if len(ranks) == 1 and ranks[0].dtype.itemsize < 8:  # with its place in one number: XLA sorts those faster
            both = _placed(Written(write, ranks[0]), Written(write, _counted(write, shape, dimension, INT64)))
            places = (Written(write, *_written_sort(write, [both.value], dimension)) & _PLACE).value
        else:
            places = _written_sort(write, [*ranks, _counted(write, shape, dimension, INT32)], dimension, len(ranks))[-1]
        return _first(write, places)

    platforms = {"native": _recorded_order}  # noqa: RUF012  (a rule, not a default)

    def samples(rng):
        params = {"dimension": 1, "index_dtype": INT32}
        yield (np.array([[0.5, 4.0, -1.0, 0.5], [2.0, -0.0, 0.0, -3.0]]),), params
        yield (np.array([[1.0, 1.0, 0.0, 1.0]]), np.array([[2.0, 1.0, 5.0, 1.0]])), {**params, "descending": True, "count": 3}
        yield (rng.normal(size=(0, 2)),), {"dimension": 0, "index_dtype": INT64}


def take_along(x: Any, places: Any, axis: int) -> Any:
    """The elements of x at places along an axis that are known to be within it; along the others, the two run together."""
    shape = type_of(places).shape
    if 0 in shape:
        return slice_of(x, start_indices=(0,) * len(shape), limit_indices=shape)
    if len(shape) == 1:
        return take(x, places, 0)
    others = tuple([i for i in range(len(shape)) if i != axis])
    numbers = GatherDimensionNumbers((), (axis,), (axis,), others, others)
    vectors = reshape(places, new_sizes=(*shape, 1))
    return gather(x, vectors, dimension_numbers=numbers, slice_sizes=(1,) * len(shape), mode="promise_in_bounds")


@primitive
class search(Rules):
    """Where v would be put into `a`, which rises along its last axis: how many of its elements are smaller than each element of
    v; with `right`, how many are no larger. NaN is larger than all numbers."""

    quiet = True

    def cost(operands, results, **params):
        return results[0].size * operands[0].shape[-1].bit_length()  # the halvings of the sorted values

    def result_type(primitive, a, v, *, right: bool, index_dtype):
        check_kinds(primitive, a, v)
        same_dtype("search", (a, v))
        check_axes("search", (0,), a)
        return array_type((*a.shape[:-1], *v.shape[a.ndim - 1 :]), canonical(index_dtype))

    def evaluate(a, v, *, right, index_dtype):
        if a.dtype.kind != "c" and (a.dtype.kind == "V" or a.dtype.itemsize < 4):
            a, v = [x if x.dtype.kind in "biu" else x.astype(np.float32) for x in (a, v)]
        side, batch = "right" if right else "left", a.shape[:-1]
        out = np.empty((*batch, *v.shape[len(batch) :]), index_dtype)
        for at in np.ndindex(batch):
            out[at] = np.searchsorted(a[at], v[at], side)
        return out

    def lower(write, a, v, *, right, index_dtype):
        """For all of v at once, the number bit by bit, from the highest on: a bit stays if that many elements are smaller."""
        size, batch = a.shape[-1], len(a.shape) - 1
        counts = TensorType(write.result_type.shape, INT32)
        if not size or 0 in counts.shape:
            return write.constant(0, write.result_type)
        numbers = GatherDimensionNumbers((), (batch,), (batch,), tuple(range(batch)), tuple(range(batch)))

        def step(values):
            bit, found = values
            more = Written(write, found) + Written(write, write.broadcast(bit, counts.shape))
            at = write.op("stablehlo.reshape", [(np.minimum(more, size) - 1).value], TensorType((*counts.shape, 1), INT32))
            given = {"dimension_numbers": written("gather", numbers, at), "slice_sizes": i64s([1] * (batch + 1))}
            x, y = Written(write, write.op("stablehlo.gather", [a, at], v.type, **given)), Written(write, v)
            smaller = (x <= y) | (y != y) if right else (x < y) | ((y != y) & (x == x))
            kept = np.where(smaller & (more <= size), more, Written(write, found))
            return [write.elementwise("stablehlo.divide", bit, write.constant(np.int32(2))), kept.value]

        start = [write.constant(np.int32(1 << size.bit_length() >> 1)), write.constant(0, counts)]
        more = write.while_loop(start, lambda values: write.compare("GT", values[0], write.constant(np.int32(0))), step)
        return write.convert(more[1], index_dtype)

    def vectorize(size, args, axes, **params):
        a, v = [in_front(arg, axis, size) for arg, axis in zip(args, axes)]
        return search(a, v, **params), 0

    def samples(rng):
        for right in (False, True):
            params = {"right": right, "index_dtype": INT32}
            yield (np.array([-1.0, 0.0, 0.0, 2.0, 3.0]), np.array([[0.0, -2.0, 2.5], [3.0, 4.0, 2.0]])), params
            yield (np.zeros(0), np.array([1.0])), params
