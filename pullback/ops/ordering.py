"""Floats as integers in the same order, by which devices find extremes together: XLA's own extremes between them lose NaN."""

from __future__ import annotations

import numpy as np

from pullback.core.dtypes import kind

WIDE = {4: (np.dtype(np.float32), np.dtype(np.int32)), 8: (np.dtype(np.float64), np.dtype(np.int64))}


def in_order(write, x, operation):
    """Floats as integers in the same order, in which NaN is beyond all others."""
    floats, integers = WIDE[max(4, x.dtype.itemsize)]
    value = write.convert(x, floats)
    number = reflected(write, write.bitcast(value, integers))
    limits = np.iinfo(integers)
    beyond = write.like(number, limits.max if operation == "stablehlo.maximum" else limits.min)
    return write.select(write.compare("NE", value, value), beyond, number)


def from_order(write, number, dtype):
    """The floats that `in_order` made integers of."""
    floats, _ = WIDE[number.dtype.itemsize]
    return write.convert(write.bitcast(reflected(write, number), floats), dtype)


def reflected(write, number):
    """The bits of a float as an integer that rises with it, and back: negative ones are turned around."""
    turned = write.elementwise("stablehlo.xor", number, write.like(number, np.iinfo(number.dtype).max))
    return write.select(write.compare("LT", number, write.like(number, 0)), turned, number)


def extreme(write, operation, x, first, axes):
    """The extreme along `axes`, or `first` of none; NaN if there is one, however x is divided among devices."""
    if not write.partitioned or kind(x.dtype) != "f":
        return write.reduce(operation, x, first, axes)
    number = in_order(write, x, operation)
    floats, integers = WIDE[number.dtype.itemsize]
    bits = np.asarray(first).astype(floats).view(integers)[()]
    start = bits if bits >= 0 else bits ^ np.iinfo(integers).max
    return from_order(write, write.reduce(operation, number, start, axes), x.dtype)
