"""Arrays made from nothing: counted or filled."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.core.array import from_python
from pullback.core.dtypes import BOOL, DType, canonical
from pullback.core.errors import AxisError, DtypeError
from pullback.core.primitive import Rules, primitive
from pullback.core.types import Shape, array_type
from pullback.ops.broadcast import broadcast_in_dim
from pullback.ops.literals import within


@primitive
class iota(Rules):
    """An array whose elements count 0, 1, 2, ... along one axis."""

    cost = 0
    quiet = True

    def result_type(*, dtype, shape, dimension):
        dtype = canonical(dtype)
        if dtype is BOOL:
            raise DtypeError("iota counts, so it cannot make an array of bools. Choose a dtype of numbers.")
        if not 0 <= dimension < len(shape):
            raise AxisError(
                f"iota cannot count along axis {dimension} of an array of shape {shape}: it must be one of its axes, counted"
                " from 0."
            )
        return array_type(tuple(shape), dtype)

    def evaluate(*, dtype, shape, dimension):
        counted = np.arange(shape[dimension]).astype(dtype)
        if len(shape) == 1:
            return counted
        out = np.empty(shape, dtype)
        out[...] = counted.reshape([-1 if axis == dimension else 1 for axis in range(len(shape))])
        return out

    def lower(write, *, dtype, shape, dimension):
        return write.op("stablehlo.iota", [], iota_dimension=f"{dimension} : i64")

    def samples(rng):
        yield (), {"dtype": canonical("float32"), "shape": (4,), "dimension": 0}
        yield (), {"dtype": canonical("int32"), "shape": (2, 3), "dimension": 1}
        yield (), {"dtype": canonical("bfloat16"), "shape": (2, 0), "dimension": 0}


def full(shape: Shape, value: complex, dtype: DType) -> Any:
    """An array of a shape and dtype filled with one number."""
    return broadcast_in_dim(from_python(within(value, dtype), dtype), shape=shape, broadcast_dimensions=())
