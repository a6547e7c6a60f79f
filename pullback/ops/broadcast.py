"""Repeating an array along new axes, and summing over axes: each is the other's transpose."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from pullback.core.brief import counted
from pullback.core.dtypes import accumulation_dtype
from pullback.core.errors import ShapeError
from pullback.core.primitive import primitive
from pullback.core.tracing import Tracer, type_of
from pullback.ops.families import Moving, Reduction, numbered, reducing, up


@primitive
class broadcast_in_dim(Moving):
    """x in a larger `shape`: its axis i becomes axis `broadcast_dimensions[i]`; it is repeated along the others, and along
    those where x has size 1."""

    def result_type(x, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]):
        if len(broadcast_dimensions) != x.ndim:
            fault = f"broadcast_dimensions names {counted(len(broadcast_dimensions), 'axis')}, not {x.ndim}"
        elif not all(0 <= axis < len(shape) for axis in broadcast_dimensions):
            fault = f"broadcast_dimensions goes out of bounds, for {counted(len(shape), 'axis')} of the result"
        elif any(a >= b for a, b in pairwise(broadcast_dimensions)):
            fault = "broadcast_dimensions must rise, and name each axis once"
        else:
            fits = [size in (1, shape[axis]) for size, axis in zip(x.shape, broadcast_dimensions)]
            fault = "" if all(fits) else f"axis {fits.index(False)} is neither 1 nor what it is to become"
        if fault:
            raise ShapeError(f"broadcast_in_dim of {x} to shape {shape} with its axes at {broadcast_dimensions}: {fault}.")
        return x.with_shape(tuple(shape))

    def simplify(equation, known):
        (x,), (out,) = equation.inputs, equation.outputs
        if x.type is out.type:
            return x
        inner = known.maker(x, broadcast_in_dim)
        if inner is None:
            return None
        axes = tuple([equation.params["broadcast_dimensions"][axis] for axis in inner.params["broadcast_dimensions"]])
        return equation.replace(inputs=inner.inputs, params={**equation.params, "broadcast_dimensions": axes})

    def evaluate(x, *, shape, broadcast_dimensions):
        unit = [1] * len(shape)
        for size, axis in zip(x.shape, broadcast_dimensions):
            unit[axis] = size
        return np.broadcast_to(x.reshape(unit), shape)

    def lower(write, x, *, shape, broadcast_dimensions):
        return write.broadcast(x, shape, broadcast_dimensions)

    def transpose(cotangent, x, *, shape, broadcast_dimensions):
        kept = {axis for size, axis in zip(x.shape, broadcast_dimensions) if size == shape[axis]}
        total = reduce_sum(cotangent, axes=tuple(axis for axis in range(len(shape)) if axis not in kept))
        if type_of(total).shape == x.shape:
            return (total,)
        kept_axes = tuple(i for i, axis in enumerate(broadcast_dimensions) if axis in kept)
        return (broadcast_in_dim(total, shape=x.shape, broadcast_dimensions=kept_axes),)

    def axis_map(x, *, shape, broadcast_dimensions):
        return ({axis: place for axis, place in enumerate(broadcast_dimensions) if x.shape[axis] == shape[place]},)

    def vectorize(size, args, axes, *, shape, broadcast_dimensions):
        return broadcast_in_dim(*args, shape=(size, *shape), broadcast_dimensions=(0, *up(broadcast_dimensions))), 0

    def samples(rng):
        yield (rng.normal(size=(3,)),), {"shape": (2, 3), "broadcast_dimensions": (1,)}
        yield (rng.normal(size=(2, 1)),), {"shape": (4, 2, 3), "broadcast_dimensions": (1, 2)}
        yield (rng.normal(size=()),), {"shape": (0, 2), "broadcast_dimensions": ()}


def repeated(x: Any, size: int) -> Any:
    """A batch of `size` elements that are all x, its axis in front."""
    inner = type_of(x).shape
    batch = broadcast_in_dim(x, shape=(size, *inner), broadcast_dimensions=tuple(range(1, len(inner) + 1)))
    if isinstance(batch, Tracer):
        batch.note_batch(frozenset({0}))
    return batch


@primitive
class reduce_sum(Reduction):
    """Sum over `axes`, which vanish. Integers wrap around as their dtype does."""

    kinds = "iufc"
    linear = True
    keeps_ones = True
    accumulation = accumulation_dtype
    evaluate, lower = reducing(np.add, "stablehlo.add", 0)

    def transpose(cotangent, x, *, axes):
        kept = tuple(axis for axis in range(x.ndim) if axis not in axes)
        return (broadcast_in_dim(cotangent, shape=x.shape, broadcast_dimensions=kept),)

    def sparsity(which, operands, *, axes):
        (x,) = operands
        kept = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
        totals = np.arange(math.prod(kept)).reshape(kept)
        return np.broadcast_to(totals, x.shape).reshape(-1), numbered(x).reshape(-1)

    def samples(rng):
        yield (rng.normal(size=(2, 3, 4)),), {"axes": (0, 2)}
        yield (rng.normal(size=(3,)),), {"axes": (0,)}
        yield (rng.normal(size=(2, 0)),), {"axes": (1,)}
        yield (rng.normal(size=(2, 3)),), {"axes": ()}
