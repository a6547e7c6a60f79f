"""Bits packed into bytes, and unpacked."""

from __future__ import annotations

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.dtypes import DTYPES, kind
from pullback.core.errors import DtypeError
from pullback.numpy.axes import normal_axis
from pullback.numpy.eager import by_numpy
from pullback.numpy.logic import bitwise_and, right_shift
from pullback.numpy.padding import pad
from pullback.numpy.promotion import at_user_line, in_dtype, operand
from pullback.numpy.shaping import moveaxis, ravel, reshape

_BYTE = DTYPES["uint8"]


def _place_values(bitorder: str, name: str) -> np.ndarray:
    if bitorder not in ("big", "little"):
        raise ValueError(f"{name} takes bitorder='big' or 'little', not {bitorder!r}.{at_user_line()}")
    return np.arange(8, dtype=np.uint8)[:: -1 if bitorder == "big" else 1]


@by_numpy(np.packbits)
def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Eight bits in each byte: of an array along an axis, whose elements count as 1 unless they are 0.

    Arguments:
        a: an array of bools or integers.
        axis: the axis; None to flatten the array first.
        bitorder: "big" if the first bit is the highest, or "little".

    Returns:
        An array of uint8; at the end of the axis, zeros fill the last byte.

    Raises:
        LeafError: `a` is neither an array nor a number.
        DtypeError: it is neither of bools nor of integers.
        AxisError: the array has no such axis.
        ValueError: another `bitorder`.

    Example:
        >>> pnp.packbits(pnp.array([1, 0, 1, 0, 0, 0, 0, 0, 1]))
        [160 128]:u8[2]:cpu(0)
    """
    x = operand(a, "packbits")
    if kind(x.type.dtype) not in "biu":
        raise DtypeError(f"packbits takes bools or integers, but got {x.type}.{at_user_line()}")
    values = _place_values(bitorder, "packbits")
    if axis is None:
        x, axis = ravel(x), 0
    bits = moveaxis(in_dtype(x != 0, _BYTE), normal_axis(axis, x.type.ndim, "packbits"), -1)
    *rest, count = bits.type.shape
    padded = pad(bits, [(0, 0)] * len(rest) + [(0, -count % 8)])
    groups = reshape(padded, (*rest, -(-count // 8), 8)) << values
    return moveaxis(groups.sum(-1, dtype=_BYTE), -1, axis)


@by_numpy(np.unpackbits)
def unpackbits(a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Array:
    """The bits of bytes, one after the other along an axis.

    Arguments:
        a: an array of uint8.
        axis: the axis; None to flatten the array first.
        count: how many bits to return: with more than there are, zeros follow; of a negative one, all but so many.
        bitorder: "big" if the highest bit comes first, or "little".

    Returns:
        An array of uint8, of zeros and ones.

    Raises:
        LeafError: `a` is neither an array nor a number.
        DtypeError: it is not of uint8.
        AxisError: the array has no such axis.
        ValueError: another `bitorder`.

    Example:
        >>> pnp.unpackbits(pnp.array([5], pnp.uint8))
        [0 0 0 0 0 1 0 1]:u8[8]:cpu(0)
    """
    x = operand(a, "unpackbits")
    if x.type.dtype is not _BYTE:
        raise DtypeError(f"unpackbits takes uint8, but got {x.type}.{at_user_line()}")
    values = _place_values(bitorder, "unpackbits")
    if axis is None:
        x, axis = ravel(x), 0
    groups = moveaxis(x, normal_axis(axis, x.type.ndim, "unpackbits"), -1)[..., None]
    bits = reshape(bitwise_and(right_shift(groups, values), np.uint8(1)), (*groups.type.shape[:-2], 8 * groups.type.shape[-2]))
    if count is not None:
        size = bits.type.shape[-1]
        wanted = max(count + size, 0) if count < 0 else count
        bits = pad(bits[..., :wanted], [(0, 0)] * (bits.type.ndim - 1) + [(0, max(wanted - size, 0))])
    return moveaxis(bits, -1, axis)
