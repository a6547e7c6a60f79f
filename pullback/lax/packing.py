"""Integers of 2 and 4 bits, packed into bytes: the first one in the lowest bits."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from pullback.core.dtypes import DType, integer_limits, kind
from pullback.core.errors import DtypeError, ShapeError
from pullback.numpy.promotion import at_user_line, in_dtype
from pullback.numpy.shaping import reshape, stack
from pullback.ops.convert import bitcast_convert_type

UINT8 = np.dtype(np.uint8)


def bits_of(dtype: DType) -> int:
    """How many bits of memory an element has, packed."""
    return int(integer_limits(dtype).bits) if kind(dtype) == "s" else 8 * dtype.itemsize


def read_as(x: Any, dtype: DType) -> Any:
    """`bitcast_convert_type`, from or to integers of 2 and 4 bits."""
    old, new = bits_of(x.type.dtype), bits_of(dtype)
    if old == new:  # which wraps, as bits do
        return in_dtype(x, dtype)
    if kind(x.type.dtype) == "s":
        count = new // old
        if not x.type.shape or x.type.shape[-1] != count or new < 8:
            what = f"a last axis of size {count}" if new >= 8 else "a dtype of whole bytes"
            error = ShapeError if new >= 8 else DtypeError
            raise error(f"bitcast_convert_type to {dtype.name} needs {what}, but got {x.type}.{at_user_line()}")
        parts = reshape(in_dtype(x, UINT8), (*x.type.shape[:-1], new // 8, 8 // old)) & (2**old - 1)
        packed = functools.reduce(operator.or_, [parts[..., i] << (i * old) for i in range(8 // old)])
        return bitcast_convert_type(packed[..., 0] if new == 8 else packed, new_dtype=dtype)
    if kind(x.type.dtype) in "bck" or old % 8:
        raise DtypeError(f"bitcast_convert_type takes integers and floats, but got {x.type} and {dtype.name}.{at_user_line()}")
    packed = bitcast_convert_type(x, new_dtype=UINT8)
    parts = stack([packed >> (i * new) for i in range(8 // new)], -1)
    return in_dtype(reshape(parts, (*x.type.shape, old // new)), dtype)
