"""Moving elements about without changing them: reshape, transpose, join, cut, pad, reverse."""

from __future__ import annotations

import builtins
import itertools
import math
import operator

import numpy as np

from pullback.core.brief import counted
from pullback.core.dtypes import BOOL
from pullback.core.errors import AxisError, ShapeError
from pullback.core.primitive import primitive
from pullback.core.tracing import type_of
from pullback.core.types import Shape, is_unknown
from pullback.ops.arithmetic import sub
from pullback.ops.broadcast import broadcast_in_dim, reduce_sum, repeated
from pullback.ops.compare import select
from pullback.ops.create import full
from pullback.ops.families import Moving, all_but, check_axes, only_the_last, up, without
from pullback.ops.literals import literal
from pullback.ops.pointwise import same_dtype
from pullback.stablehlo.writer import TensorType, i64s


def in_front(x, axis, size):
    """x with a batch axis in front, repeated along it if it has none."""
    return x if axis == 0 else repeated(x, size)


@primitive
class reshape(Moving):
    """The elements of x, in their order, in the shape `new_sizes`."""

    alias = True
    keeps_ones = True
    simplify = only_the_last

    def result_type(x, *, new_sizes: tuple[int, ...]):
        if math.prod(new_sizes) != x.size or any(size < 0 for size in new_sizes):
            raise ShapeError(
                f"reshape cannot give {x}, which has {counted(x.size, 'element')}, the shape {tuple(new_sizes)}. Sizes must"
                " multiply to"
                " that number."
            )
        return x.with_shape(tuple(new_sizes))

    def evaluate(x, *, new_sizes):
        return x.reshape(new_sizes)

    def lower(write, x, *, new_sizes):
        return write.op("stablehlo.reshape", [x])

    def transpose(cotangent, x, *, new_sizes):
        return (reshape(cotangent, new_sizes=x.shape),)

    def axis_map(x, *, new_sizes):
        places = dict(zip(itertools.accumulate(new_sizes, operator.mul, initial=1), enumerate(new_sizes)))
        before = itertools.accumulate(x.shape, operator.mul, initial=1)
        same = [(axis, places.get(count)) for axis, (count, size) in enumerate(zip(before, x.shape)) if size > 1]
        return ({axis: found[0] for axis, found in same if found is not None and found[1] == x.shape[axis]},)

    def vectorize(size, args, axes, *, new_sizes):
        return reshape(*args, new_sizes=(size, *new_sizes)), 0

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {"new_sizes": (3, 2)}
        yield (rng.normal(size=(1,)),), {"new_sizes": ()}
        yield (rng.normal(size=(2, 0)),), {"new_sizes": (0, 3)}


@primitive
class transpose(Moving):
    """x with its axes in another order: axis i of the result is axis `permutation[i]` of x."""

    keeps_ones = True

    def result_type(x, *, permutation: tuple[int, ...]):
        if sorted(permutation) != list(range(x.ndim)):
            raise AxisError(
                f"transpose takes an order of all {counted(x.ndim, 'axis')} of {x}, but got permutation={permutation}."
            )
        return x.with_shape(tuple(x.shape[axis] for axis in permutation))

    def simplify(equation, known):
        (x,), permutation = equation.inputs, equation.params["permutation"]
        inner = known.maker(x, transpose)
        if inner is not None:
            (x,) = inner.inputs
            permutation = tuple([inner.params["permutation"][axis] for axis in permutation])
        if permutation == tuple(range(len(permutation))):
            return x
        return None if inner is None else equation.replace(inputs=(x,), params={"permutation": permutation})

    def evaluate(x, *, permutation):
        return x.transpose(permutation)

    def lower(write, x, *, permutation):
        return write.op("stablehlo.transpose", [x], permutation=i64s(permutation))

    def transpose(cotangent, x, *, permutation):
        return (transpose(cotangent, permutation=inverse(permutation)),)

    def axis_map(x, *, permutation):
        return ({axis: place for place, axis in enumerate(permutation)},)

    def vectorize(size, args, axes, *, permutation):
        return transpose(*args, permutation=(0, *up(permutation))), 0

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {"permutation": (1, 0)}
        yield (rng.normal(size=(2, 3, 0)),), {"permutation": (2, 0, 1)}


def inverse(permutation):
    """The order that undoes `permutation`."""
    return tuple([permutation.index(axis) for axis in range(len(permutation))])


@primitive
class squeeze(Moving):
    """x without the axes `dimensions`, each of size 1."""

    alias = True

    def result_type(x, *, dimensions: tuple[int, ...]):
        check_axes("squeeze", dimensions, x)
        if any(x.shape[axis] != 1 for axis in dimensions):
            raise ShapeError(f"squeeze takes away axes of size 1, but axes {tuple(dimensions)} of {x} are not all of size 1.")
        return x.without(dimensions)

    def evaluate(x, *, dimensions):
        return x.squeeze(dimensions)

    def lower(write, x, *, dimensions):
        return write.op("stablehlo.reshape", [x])

    def transpose(cotangent, x, *, dimensions):
        return (reshape(cotangent, new_sizes=x.shape),)

    def axis_map(x, *, dimensions):
        return (without(x, dimensions),)

    def vectorize(size, args, axes, *, dimensions):
        return squeeze(*args, dimensions=up(dimensions)), 0

    def samples(rng):
        yield (rng.normal(size=(2, 1, 3, 1)),), {"dimensions": (1, 3)}


@primitive
class concatenate(Moving):
    """The operands one after the other along axis `dimension`."""

    def result_type(*operands, dimension: int):
        common = same_dtype("concatenate", operands)
        first = operands[0]
        if not 0 <= dimension < first.ndim or any(
            type.without([dimension]).shape != first.without([dimension]).shape for type in operands
        ):
            raise ShapeError(
                f"concatenate takes arrays that differ in axis {dimension} alone, but got {', '.join(map(str, operands))}."
            )
        total = sum(type.shape[dimension] for type in operands)
        return common.with_shape((*first.shape[:dimension], total, *first.shape[dimension + 1 :]))

    def evaluate(*operands, dimension):
        return np.concatenate(operands, axis=dimension)

    def lower(write, *operands, dimension):
        return write.op("stablehlo.concatenate", operands, dimension=f"{dimension} : i64")

    def transpose(cotangent, *operands, dimension):
        found, at = [], 0
        for operand in operands:
            type = type_of(operand)
            start, end = [0] * type.ndim, list(type.shape)
            start[dimension], end[dimension] = at, at + type.shape[dimension]
            at = end[dimension]
            piece = slice(cotangent, start_indices=tuple(start), limit_indices=tuple(end)) if is_unknown(operand) else None
            found.append(piece)
        return tuple(found)

    def axis_map(*operands, dimension):
        return [all_but(x, (dimension,)) for x in operands]

    def vectorize(size, args, axes, *, dimension):
        return concatenate(*[in_front(x, axis, size) for x, axis in zip(args, axes)], dimension=dimension + 1), 0

    def samples(rng):
        yield (rng.normal(size=(2, 3)), rng.normal(size=(2, 1)), rng.normal(size=(2, 0))), {"dimension": 1}
        yield (rng.normal(size=(2,)),), {"dimension": 0}


@primitive
class slice(Moving):
    """The elements of x from `start_indices` up to `limit_indices`, in steps of `strides` (1 by default)."""

    def traffic(operands, results, **params):
        return 2 * results[0].nbytes

    def result_type(x, *, start_indices: Shape, limit_indices: Shape, strides: Shape | None = None):
        steps = strides or (1,) * x.ndim
        fits = len(start_indices) == len(limit_indices) == len(steps) == x.ndim
        if not fits or not all(
            0 <= start <= limit <= size and step > 0
            for start, limit, step, size in zip(start_indices, limit_indices, steps, x.shape)
        ):
            raise ShapeError(
                f"slice cannot take from {tuple(start_indices)} to {tuple(limit_indices)} in steps of {tuple(steps)} of {x}."
            )
        return x.with_shape(
            tuple(-(-(limit - start) // step) for start, limit, step in zip(start_indices, limit_indices, steps))
        )

    def evaluate(x, *, start_indices, limit_indices, strides=None):
        return x[tuple(map(builtins.slice, start_indices, limit_indices, strides or (1,) * x.ndim))]

    def lower(write, x, *, start_indices, limit_indices, strides=None):
        steps = strides or (1,) * len(x.shape)
        given = {"start_indices": i64s(start_indices), "limit_indices": i64s(limit_indices), "strides": i64s(steps)}
        return write.op("stablehlo.slice", [x], **given)

    def transpose(cotangent, x, *, start_indices, limit_indices, strides=None):
        sizes = type_of(cotangent).shape
        config = [
            (start, full_size - start - (1 + (size - 1) * step if size else 0), step - 1)
            for start, full_size, size, step in zip(start_indices, x.shape, sizes, strides or (1,) * x.ndim)
        ]
        return (pad(cotangent, literal(0, cotangent), padding_config=tuple(config)),)

    def axis_map(x, *, start_indices, limit_indices, strides=None):
        steps = strides or (1,) * x.ndim
        places = enumerate(zip(start_indices, limit_indices, steps, x.shape))
        return (all_but(x, [axis for axis, (*taken, size) in places if taken != [0, size, 1]]),)

    def vectorize(size, args, axes, *, start_indices, limit_indices, strides=None):
        steps = None if strides is None else (1, *strides)
        return slice(*args, start_indices=(0, *start_indices), limit_indices=(size, *limit_indices), strides=steps), 0

    def samples(rng):
        yield (rng.normal(size=(4, 5)),), {"start_indices": (1, 0), "limit_indices": (3, 5), "strides": None}
        yield (rng.normal(size=(7, 5)),), {"start_indices": (1, 0), "limit_indices": (6, 4), "strides": (2, 3)}
        yield (rng.normal(size=(4,)),), {"start_indices": (2,), "limit_indices": (2,), "strides": (1,)}


@primitive
class pad(Moving):
    """x with `value` around and between its elements. `padding_config` has a triple for each axis: how many before the
    first, after the last (negative: that many are cut off), and between two."""

    def result_type(x, value, *, padding_config: tuple[tuple[int, int, int], ...]):
        common = same_dtype("pad", (x, value))
        if value.shape:
            raise ShapeError(f"pad takes one number as padding_value, 0-d, but got {value}.")
        if len(padding_config) != x.ndim:
            raise ShapeError(
                f"pad takes (low, high, interior) for each of {counted(x.ndim, 'axis')} of {x}, but"
                f" padding_config={padding_config} has"
                f" {len(padding_config)}."
            )
        if any(between < 0 for _, _, between in padding_config):
            raise ShapeError(f"pad puts 0 or more between two elements, but got {padding_config}, (low, high, interior) each.")
        shape = tuple(padded_size(size, *config) for size, config in zip(x.shape, padding_config))
        if any(size < 0 for size in shape):
            raise ShapeError(
                f"pad cannot cut more off {x} than it has: padding_config={padding_config}. Its negative numbers must be"
                " smaller."
            )
        return common.with_shape(shape)

    def evaluate(x, value, *, padding_config):
        starts = [builtins.max(low, 0) for low, _, _ in padding_config]
        stops = [start + padded_size(size, 0, 0, each[2]) for start, size, each in zip(starts, x.shape, padding_config)]
        grown = [stop + builtins.max(high, 0) for stop, (_, high, _) in zip(stops, padding_config)]
        out = np.empty(grown, x.dtype)
        out[...] = value
        out[tuple(map(builtins.slice, starts, stops, [between + 1 for _, _, between in padding_config]))] = x
        cuts = [(builtins.max(-low, 0), size - builtins.max(-high, 0)) for size, (low, high, _) in zip(grown, padding_config)]
        return out[tuple([builtins.slice(*cut) for cut in cuts])]

    def lower(write, x, value, *, padding_config):
        low, high, between = ([config[i] for config in padding_config] for i in range(3))
        cut = [0] * len(low)
        if write.partitioned and any([one < 0 < gap for one, gap in zip(low, between)]):
            cut = [builtins.max(-one, 0) for one in low]  # XLA's partitioner ends the process unless they are cut off later
            low = [one + off for one, off in zip(low, cut)]
        given = {"edge_padding_low": i64s(low), "edge_padding_high": i64s(high), "interior_padding": i64s(between)}
        if not any(cut):
            return write.op("stablehlo.pad", [x, value], **given)
        sizes = [padded_size(size, *config) for size, config in zip(x.shape, zip(low, high, between))]
        out = write.op("stablehlo.pad", [x, value], TensorType(tuple(sizes), x.dtype), **given)
        ends = {"start_indices": i64s(cut), "limit_indices": i64s(sizes), "strides": i64s([1] * len(cut))}
        return write.op("stablehlo.slice", [out], **ends)

    def transpose(cotangent, x, value, *, padding_config):
        inner = unpad(cotangent, type_of(x).shape, padding_config)
        if not is_unknown(value):
            return inner, None
        axes = tuple(range(type_of(cotangent).ndim))
        rest = sub(reduce_sum(cotangent, axes=axes), reduce_sum(inner, axes=axes))
        return inner if is_unknown(x) else None, rest

    def axis_map(x, value, *, padding_config):
        return all_but(x, [axis for axis, config in enumerate(padding_config) if any(config)]), {}

    def vectorize(size, args, axes, *, padding_config):
        x, value = args
        batched = ((0, 0, 0), *padding_config)
        x = in_front(x, axes[0], size)
        if axes[1] is None:
            return pad(x, value, padding_config=batched), 0
        around = pad(full(type_of(x).shape, False, BOOL), literal(True, full((), False, BOOL)), padding_config=batched)
        shape = type_of(around).shape
        values = broadcast_in_dim(value, shape=shape, broadcast_dimensions=(0,))
        return select(around, values, pad(x, literal(0, x), padding_config=batched)), 0

    def samples(rng):
        yield (rng.normal(size=(2, 3)), rng.normal()), {"padding_config": ((1, 2, 0), (0, 1, 2))}
        yield (rng.normal(size=(4, 3)), rng.normal()), {"padding_config": ((-1, 2, 1), (2, -1, 0))}
        yield (rng.normal(size=(0,)), rng.normal()), {"padding_config": ((1, 2, 3),)}


def padded_size(size, low, high, between):
    """The size of an axis after padding."""
    return low + high + size + builtins.max(size - 1, 0) * between


def unpad(cotangent, shape, padding_config):
    """The elements of a padded array that came from the array of `shape`; 0 for those that were cut off."""
    cut = pad(cotangent, literal(0, cotangent), padding_config=tuple((-low, -high, 0) for low, high, _ in padding_config))
    steps = tuple(between + 1 for _, _, between in padding_config)
    if all(step == 1 for step in steps):
        return cut
    return slice(cut, start_indices=(0,) * len(shape), limit_indices=type_of(cut).shape, strides=steps)


@primitive
class rev(Moving):
    """x with the order of its elements reversed along the axes `dimensions`."""

    keeps_ones = True

    def result_type(x, *, dimensions: tuple[int, ...]):
        check_axes("rev", dimensions, x)
        return x

    def evaluate(x, *, dimensions):
        return np.flip(x, dimensions)

    def lower(write, x, *, dimensions):
        return write.op("stablehlo.reverse", [x], dimensions=i64s(dimensions))

    def transpose(cotangent, x, *, dimensions):
        return (rev(cotangent, dimensions=dimensions),)

    def axis_map(x, *, dimensions):
        return (all_but(x, dimensions),)

    def vectorize(size, args, axes, *, dimensions):
        return rev(*args, dimensions=up(dimensions)), 0

    def samples(rng):
        yield (rng.normal(size=(2, 3, 2)),), {"dimensions": (0, 2)}
        yield (rng.normal(size=(2, 3)),), {"dimensions": ()}
