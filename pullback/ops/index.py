"""Reading and writing at computed places: gather, and the scatters that are its transpose and its kin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.core.brief import counted
from pullback.core.dtypes import INT32, accumulation_dtype, kind
from pullback.core.errors import GradientError, ShapeError
from pullback.core.primitive import Rules, primitive
from pullback.core.tracing import type_of
from pullback.core.types import Shape, is_unknown
from pullback.core.zero import ZERO
from pullback.ops.arithmetic import div, mul
from pullback.ops.barrier import computed_once
from pullback.ops.compare import eq, select
from pullback.ops.convert import convert_element_type
from pullback.ops.create import full, iota
from pullback.ops.families import in_reals, numbered, places
from pullback.ops.formulas import OPERATIONS
from pullback.ops.literals import literal
from pullback.ops.pointwise import each_alone, same_dtype
from pullback.ops.shape import in_front, reshape
from pullback.ops.shape import slice as slice_of
from pullback.ops.windows import (
    GatherDimensionNumbers,
    ScatterDimensionNumbers,
    batched_numbers,
    check_indices,
    clamped_indices,
    default_fill,
    index_limits,
    plain_axis,
    wide_indices,
    window_layout,
    window_places,
    written,
)
from pullback.stablehlo.writer import i64s


@primitive
class gather(Rules):
    """Windows of `operand`, each of `slice_sizes`, where the index vectors along the last axis of `indices` say.

    A window that does not fit is moved inside (mode `clip`), or filled with `fill_value` (mode `fill`; NaN by default, for
    integers an extreme one); `promise_in_bounds` says that there is none.
    """

    cost = 0
    quiet = True
    symbolic_zeros = True

    def traffic(operands, results, **params):
        return operands[1].nbytes + min(operands[0].nbytes, results[0].nbytes) + results[0].nbytes

    def result_type(operand, indices, *, dimension_numbers, slice_sizes: Shape, mode: str = "clip", fill_value=None):
        check_indices("gather", operand, indices, dimension_numbers, slice_sizes, mode)
        window = iter([slice_sizes[axis] for axis in dimension_numbers.kept(operand.ndim)])
        batch = iter(indices.shape[:-1])
        ndim = indices.ndim - 1 + len(dimension_numbers.offset_dims)
        shape = [next(window) if axis in dimension_numbers.offset_dims else next(batch) for axis in range(ndim)]
        return operand.with_shape(tuple(shape))

    def evaluate(operand, indices, *, dimension_numbers, slice_sizes, mode="clip", fill_value=None):
        shape = operand.shape
        axis = plain_axis(dimension_numbers, slice_sizes, shape, indices.ndim - 1)
        if axis is not None:
            return _take_host(operand, indices[..., 0], axis, mode, fill_value)
        at, inside = window_places(indices, dimension_numbers, slice_sizes, shape, mode)
        kept = dimension_numbers.kept(len(shape))
        whole = [axis for axis in kept if slice_sizes[axis] == shape[axis]]  # these need no index arrays
        chosen = [axis for axis in range(len(shape)) if axis not in whole]
        batch = indices.ndim - 1
        partial = [axis for axis in kept if axis not in whole]
        if chosen:
            lead = (*indices.shape[:-1], *[slice_sizes[axis] for axis in partial])
            flat = [at[axis].squeeze(tuple(batch + kept.index(i) for i in whole)) for axis in chosen]
            flat[0] = np.broadcast_to(flat[0], lead)
            out = np.transpose(operand, chosen + whole)[tuple(flat)]
        else:
            out = np.broadcast_to(operand, (*indices.shape[:-1], *shape))
        order = partial + whole
        out = np.transpose(out, [*range(batch), *[batch + order.index(axis) for axis in kept]])
        if inside is not None:
            out = _filled(out, inside, len(kept), fill_value)
        layout = window_layout(dimension_numbers, out.ndim)
        return out.transpose(np.argsort(layout)) if layout != list(range(out.ndim)) else out

    def lower(write, operand, indices, *, dimension_numbers, slice_sizes, mode="clip", fill_value=None):
        numbers = dimension_numbers
        result = write.result_type
        indices = wide_indices(write, indices)
        text = written("gather", numbers, indices)
        sizes = i64s(slice_sizes)
        out = write.op("stablehlo.gather", [operand, indices], result, dimension_numbers=text, slice_sizes=sizes)
        if mode != "fill":
            return out
        limits = index_limits(write, indices, numbers, slice_sizes, operand.shape)
        above = write.compare("GE", indices, write.constant(0, indices.type))
        inside = write.elementwise("stablehlo.and", above, write.compare("LE", indices, limits))
        inside = write.reduce("stablehlo.and", inside, True, (len(indices.shape) - 1,))
        batch = [axis for axis in range(len(result.shape)) if axis not in numbers.offset_dims]
        value = default_fill(result.dtype) if fill_value is None else fill_value
        return write.select(write.broadcast(inside, result.shape, batch), out, write.constant(value, result))

    def jvp(primals, tangents, **params):
        (operand, indices), (t, _) = primals, tangents
        out = gather(operand, indices, **params)
        return out, ZERO if t is ZERO else gather(t, indices, **{**params, "fill_value": 0})

    def transpose(cotangent, operand, indices, *, dimension_numbers, slice_sizes, mode="clip", fill_value=None):
        if not is_unknown(operand):
            return None, None
        start = full(operand.shape, 0, operand.dtype)
        return scatter_add(start, indices, cotangent, dimension_numbers=dimension_numbers.as_scatter(), mode=mode), None

    def vectorize(size, args, axes, *, dimension_numbers, slice_sizes, mode="clip", fill_value=None):
        operand_batched, indices_batched = axes[0] == 0, axes[1] == 0
        sizes = slice_sizes
        if operand_batched:
            sizes = (min(1, size) if indices_batched else size, *sizes)
        numbers = batched_numbers(dimension_numbers, operand_batched, indices_batched)
        return gather(*args, dimension_numbers=numbers, slice_sizes=sizes, mode=mode, fill_value=fill_value), 0

    def sparsity(which, operands, **params):
        operand, indices = operands
        if not isinstance(indices, np.ndarray):
            return None
        return places(gather.evaluate(numbered(operand), indices, **{**params, "fill_value": -1}))

    def samples(rng):
        table = rng.normal(size=(4, 3))
        rows = {"dimension_numbers": GatherDimensionNumbers((1,), (0,), (0,)), "slice_sizes": (1, 3)}
        for mode in ("clip", "fill"):
            yield (table, np.array([[0], [3], [1], [3], [9], [-1]])), {**rows, "mode": mode, "fill_value": None}
        points = {"dimension_numbers": GatherDimensionNumbers((), (0, 1), (1, 0)), "slice_sizes": (1, 1)}
        yield (table, np.array([[[2, 3], [0, 1]], [[1, 1], [0, 1]]])), points
        windows = {"dimension_numbers": GatherDimensionNumbers((0, 2), (), (0, 1)), "slice_sizes": (2, 2)}
        yield (table, np.array([[0, 1], [2, 0], [9, 9]])), {**windows, "mode": "fill", "fill_value": 0}
        along = {"dimension_numbers": GatherDimensionNumbers((), (1,), (1,), (0,), (0,)), "slice_sizes": (1, 1)}
        yield (table, rng.integers(0, 3, (4, 2, 1))), {**along, "mode": "promise_in_bounds"}


def _take_host(operand, indices, axis, mode, fill_value):
    """The commonest gather: whole slices along one axis."""
    out = np.take(operand, indices, axis, mode="clip")
    if mode == "fill":
        out = _filled(out, (indices >= 0) & (indices < operand.shape[axis]), operand.ndim - 1 - axis, fill_value)
    return out


def _filled(out, inside, ndim, fill_value):
    """What was gathered, and the fill value where a window, of `ndim` axes, does not lie inside."""
    if inside.all():
        return out
    value = default_fill(out.dtype) if fill_value is None else fill_value
    return np.where(inside.reshape(inside.shape + (1,) * ndim), out, np.asarray(value).astype(out.dtype))


def take(operand: Any, indices: Any, axis: int, mode: str = "clip", fill_value: Any = None) -> Any:
    """The slices of `operand` along `axis` at integer `indices` of any shape, whose axes take the place of that axis."""
    shape, places = type_of(operand).shape, type_of(indices).shape
    offset = (*range(axis), *range(axis + len(places), len(shape) - 1 + len(places)))
    numbers = GatherDimensionNumbers(offset, (axis,), (axis,))
    sizes = (*shape[:axis], 1, *shape[axis + 1 :])
    vectors = indices[..., None] if isinstance(indices, np.ndarray) else reshape(indices, new_sizes=(*places, 1))
    return gather(operand, vectors, dimension_numbers=numbers, slice_sizes=sizes, mode=mode, fill_value=fill_value)


# ---- scatters -------------------------------------------------------------------------------------------------------


def update_sizes(operand: Any, updates: Any, numbers: GatherDimensionNumbers) -> tuple[int, ...]:
    """The size of a window along each axis of the operand."""
    sizes = [min(1, size) if axis in numbers.operand_batching_dims else 1 for axis, size in enumerate(operand.shape)]
    for axis, at in zip(numbers.kept(len(operand.shape)), numbers.offset_dims):
        sizes[axis] = updates.shape[at]
    return tuple(sizes)


class Scatter(Rules):
    """Combines `updates` into `operand` at the windows that `indices` point to. Those that do not fit are dropped, except in
    mode `clip`, which moves them inside. `unique_indices` promises that no two windows overlap."""

    quiet = True
    in_place = (0,)

    def cost(primitive, operands, results, **params):
        return operands[2].size * in_reals(operands[2], product=not primitive.linear)  # each is combined with an element

    def traffic(operands, results, **params):
        _, indices, updates = operands
        return indices.nbytes + 3 * updates.nbytes  # they are read, and what they are combined with is read and written

    def result_type(primitive, operand, indices, updates, *, dimension_numbers, mode: str = "clip", unique_indices=False):
        numbers = dimension_numbers.as_gather()
        common = same_dtype(primitive.name, (operand, updates))
        ndim = indices.ndim - 1 + len(numbers.offset_dims)
        where = f"{primitive.name} of {updates} into {operand}: the updates take"
        if indices.ndim and updates.ndim != ndim:
            raise ShapeError(
                f"{where} {counted(ndim, 'axis')}, one for each of {indices} but its last, and update_window_dims."
            )
        inside = all(0 <= axis < ndim for axis in numbers.offset_dims)
        sizes = update_sizes(operand, updates, numbers) if inside else ()
        check_indices(primitive.name, operand, indices, numbers, sizes, mode, scatter=True)
        for axis, size in zip(window_layout(numbers, ndim), indices.shape[:-1]):
            if updates.shape[axis] != size:
                raise ShapeError(f"{where} {size} windows along axis {axis}, as many as {indices} points to.")
        return operand if common.weak else operand.strong()

    def vectorize(primitive, size, args, axes, *, dimension_numbers, mode="clip", unique_indices=False):
        operand, indices, updates = args
        numbers = batched_numbers(dimension_numbers.as_gather(), True, axes[1] == 0).as_scatter()
        operand, updates = in_front(operand, axes[0], size), in_front(updates, axes[2], size)
        return primitive(operand, indices, updates, dimension_numbers=numbers, mode=mode, unique_indices=unique_indices), 0

    def sparsity(primitive, which, operands, *, dimension_numbers, mode="clip", unique_indices=False):
        operand, indices, updates = operands
        if which == 0:
            return each_alone(0, [operand])
        if not isinstance(indices, np.ndarray):
            return None
        numbers = dimension_numbers.as_gather()
        sizes = update_sizes(operand, updates, numbers)
        place = {"dimension_numbers": numbers, "slice_sizes": sizes, "mode": "clip" if mode == "clip" else "fill"}
        return places(gather.evaluate(numbered(operand), indices, fill_value=-1, **place))[::-1]

    def samples(rng):
        yield from separate_windows(rng)
        windows = ScatterDimensionNumbers((0, 2), (), (1, 0))  # which overlap
        params = {"dimension_numbers": windows, "mode": "fill", "unique_indices": False}
        indices = np.array([[1, 0], [0, 2], [1, 1], [5, 0]])
        yield (rng.normal(size=(4, 3)), indices, rng.normal(size=(2, 4, 2))), params


def separate_windows(rng):
    """Samples in which no windows overlap."""
    rows = ScatterDimensionNumbers((1,), (0,), (0,))
    for mode, indices in (("clip", [[2], [0], [9]]), ("fill", [[2], [-1], [0]])):
        params = {"dimension_numbers": rows, "mode": mode, "unique_indices": True}
        yield (rng.normal(size=(4, 3)), np.array(indices), rng.normal(size=(3, 3))), params
    along = ScatterDimensionNumbers((), (1,), (1,), (0,), (0,))
    indices = np.array([[[0], [2]], [[1], [0]], [[2], [1]], [[0], [1]]])
    params = {"dimension_numbers": along, "mode": "promise_in_bounds", "unique_indices": True}
    yield (rng.normal(size=(4, 3)), indices, rng.normal(size=(4, 2))), params


def combining(combine, name):
    """The evaluation and the lowering rule of a scatter that combines by a ufunc, and by the operation of that name; both are
    None where the updates are put in place."""

    def evaluate(primitive, operand, indices, updates, *, dimension_numbers, mode="clip", unique_indices=False):
        wide = primitive.accumulation and primitive.accumulation(operand.dtype)
        numbers = dimension_numbers.as_gather()
        sizes = update_sizes(operand, updates, numbers)
        at, inside = window_places(indices, numbers, sizes, operand.shape, "clip" if mode == "clip" else "fill")
        values = updates.transpose(window_layout(numbers, updates.ndim))
        flat = np.zeros((), np.int64)
        for place, size in zip(at, operand.shape):
            flat = flat * size + place
        flat = np.broadcast_to(flat, values.shape)
        if inside is not None and not inside.all():
            flat, values = flat[inside], values[inside]
        out = np.array(operand, wide, order="C")
        target, flat, values = out.reshape(-1), flat.reshape(-1), values.reshape(-1)
        if combine is None:
            target[flat] = values
        else:
            combine.at(target, flat, values.astype(out.dtype, copy=False))
        return out.astype(operand.dtype, copy=False)

    def lower(primitive, write, operand, indices, updates, *, dimension_numbers, mode="clip", unique_indices=False):
        dtype = operand.dtype
        wide = primitive.accumulation(dtype) if primitive.accumulation else dtype
        operand, updates = write.convert(operand, wide), write.convert(updates, wide)
        numbers = dimension_numbers.as_gather()
        indices = wide_indices(write, indices)
        if mode == "clip":
            sizes = update_sizes(operand, updates, numbers)
            indices = clamped_indices(write, indices, numbers, sizes, operand.shape)
        if write.partitioned:  # XLA's partitioner fills uneven parts up with windows at 0, and combines what is in them
            batch = len(indices.shape) - 1
            indices = write.whole(indices, range(batch), always=False)
            updates = write.whole(updates, window_layout(numbers, len(updates.shape))[:batch], always=False)
        text = written("scatter", dimension_numbers, indices).replace("operand_batching_dims", "input_batching_dims")
        how = OPERATIONS[combine] if combine and kind(wide) == "c" else name  # XLA's extremes compare real parts alone
        body, given = write.combiner(how, wide), {"scatter_dimension_numbers": text}
        out = write.many("stablehlo.scatter", [operand, indices, updates], [operand.type], [body], **given)[0]
        return write.convert(out, dtype)

    return evaluate, lower


def gathered_back(
    array: Any, indices: Any, like: Any, *, dimension_numbers: Any, mode: str = "clip", unique_indices: bool = False
) -> Any:
    """What stands at the windows of a scatter, in the shape of its updates; 0 for windows that were dropped."""
    numbers = dimension_numbers.as_gather()
    sizes = update_sizes(type_of(array), type_of(like), numbers)
    mode = "clip" if mode == "clip" else "fill"
    return gather(array, indices, dimension_numbers=numbers, slice_sizes=sizes, mode=mode, fill_value=0)


@primitive
class scatter_add(Scatter):
    """`operand` with `updates` added at the windows that `indices` point to; windows that overlap add up."""

    linear = ("operand", "updates")
    accumulation = accumulation_dtype
    evaluate, lower = combining(np.add, "stablehlo.add")

    def transpose(cotangent, operand, indices, updates, *, dimension_numbers, mode="clip", unique_indices=False):
        found = None
        if is_unknown(updates):
            found = gathered_back(cotangent, indices, updates, dimension_numbers=dimension_numbers, mode=mode)
        return cotangent if is_unknown(operand) else None, None, found


@primitive
class scatter(Scatter):
    """`operand` with `updates` put in place at the windows that `indices` point to; where windows overlap, the last wins."""

    cost = 0  # type: ignore[assignment]
    linear = ("operand", "updates")
    evaluate, lower = combining(None, None)

    def traffic(operands, results, **params):
        return operands[1].nbytes + 2 * operands[2].nbytes

    def transpose(cotangent, operand, indices, updates, *, dimension_numbers, mode="clip", unique_indices=False):
        params = {"dimension_numbers": dimension_numbers, "mode": mode, "unique_indices": unique_indices}
        update_type = type_of(updates)
        kept = found = None
        if is_unknown(operand):
            kept = scatter(cotangent, indices, full(update_type.shape, 0, type_of(cotangent).dtype), **params)
        if is_unknown(updates):
            found = gathered_back(cotangent, indices, updates, **params)
            if not unique_indices:  # of the updates of one element only the last counts: number them, and see whose is there
                numbered = iota(dtype=INT32, shape=(update_type.size + 1,), dimension=0)
                numbered = slice_of(numbered, start_indices=(1,), limit_indices=(update_type.size + 1,), strides=None)
                numbered = reshape(numbered, new_sizes=update_type.shape)
                winners = scatter(full(type_of(cotangent).shape, 0, INT32), indices, numbered, **params)
                standing = gathered_back(winners, indices, updates, **params)
                found = select(eq(standing, numbered), found, literal(0, found))
        return kept, None, found


def _alone(indices, numbers):
    """Whether there is one window at most in each element of the batch."""
    sizes = type_of(indices).shape[:-1]
    return math.prod([n for axis, n in enumerate(sizes) if axis not in numbers.as_gather().start_indices_batching_dims]) <= 1


@primitive
class scatter_mul(Scatter):
    """`operand` multiplied by `updates` at the windows that `indices` point to. It has a derivative with respect to
    its updates only where `unique_indices` promises that no windows overlap."""

    symbolic_zeros = True
    accumulation = accumulation_dtype
    samples = separate_windows
    evaluate, lower = combining(np.multiply, "stablehlo.multiply")

    def jvp(primals, tangents, **params):
        (operand, indices, updates), (t, _, t_updates) = primals, tangents
        out = scatter_mul(operand, indices, updates, **params)
        if t is ZERO and t_updates is ZERO:
            return out, ZERO
        total = full(type_of(out).shape, 0, type_of(out).dtype)
        if t is not ZERO:
            ones = full(type_of(out).shape, 1, type_of(out).dtype)
            total = mul(t, scatter_mul(ones, indices, updates, **params))
        if t_updates is not ZERO:
            if not (params.get("unique_indices") or _alone(indices, params["dimension_numbers"])):
                raise GradientError(
                    "scatter_mul (.at[...].multiply) has a derivative with respect to its updates only if no two of them"
                    " go to the same element: promise that with unique_indices=True, or multiply by an array made with"
                    " .at[...].set instead."
                )
            before = gathered_back(operand, indices, updates, **params)
            total = scatter_add(total, indices, mul(before, t_updates), **params)
        return out, total


class ScatterExtreme(Scatter):
    """Keeps an extreme; where several of operand and updates are it, they share the derivative equally."""

    def samples(rng):
        for (operand, indices, updates), params in Scatter.samples(rng):
            values = rng.permutation(operand.size + updates.size) / 4.0  # no two of which are close
            yield (
                (values[: operand.size].reshape(operand.shape), indices, values[operand.size :].reshape(updates.shape)),
                params,
            )

    def jvp(primitive, primals, tangents, **params):
        (operand, indices, updates), (t, _, t_updates) = primals, tangents
        operand, updates = computed_once(operand), computed_once(updates)
        out = primitive(operand, indices, updates, **params)
        dtype = type_of(out).dtype
        kept = convert_element_type(eq(operand, out), new_dtype=dtype)
        chosen = convert_element_type(eq(updates, gathered_back(out, indices, updates, **params)), new_dtype=dtype)
        count = scatter_add(kept, indices, chosen, **params)
        return out, div(scatter_add(mul(t, kept), indices, mul(t_updates, chosen), **params), count)


@primitive
class scatter_min(ScatterExtreme):
    """The smaller of `operand` and `updates` at the windows that `indices` point to."""

    evaluate, lower = combining(np.minimum, "stablehlo.minimum")


@primitive
class scatter_max(ScatterExtreme):
    """The larger of `operand` and `updates` at the windows that `indices` point to."""

    evaluate, lower = combining(np.maximum, "stablehlo.maximum")
