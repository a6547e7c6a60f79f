"""Bits packed into bytes, and unpacked."""

from __future__ import annotations

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.dtypes import BOOL, DTYPES, NO_NUMBERS, DTypeLike, kind, requested
from pullback.core.errors import DtypeError, ShapeError
from pullback.numpy.axes import normal_axis
from pullback.numpy.eager import by_numpy
from pullback.numpy.logic import bitwise_and, right_shift
from pullback.numpy.padding import pad
from pullback.numpy.promotion import at_user_line, in_dtype, operand, real_dtype, strong
from pullback.numpy.shaping import moveaxis, ravel, reshape, stack
from pullback.ops import complex as complexes
from pullback.ops.convert import bitcast_convert_type, convert_element_type

_BYTE = DTYPES["uint8"]


def viewed(x: ArrayLike, dtype: DTypeLike) -> Array:
    """The bits of an array read as another dtype, as NumPy's `view` does. Bools are bytes of 0 and 1.

    Raises `DtypeError` for random keys and narrow integers, and `ShapeError` where the last axis cannot be divided.
    """
    x, wanted = operand(x, "view"), requested(dtype)
    own, shape = x.type.dtype, x.type.shape
    if own is wanted:
        return strong(x)
    if kind(own) == "k":
        raise DtypeError(f"view of {x.type}: {NO_NUMBERS}{at_user_line()}")
    if own.itemsize != wanted.itemsize:
        count, rest = divmod(shape[-1] * own.itemsize if shape else 1, wanted.itemsize)
        if rest or not shape:
            raise ShapeError(
                f"view of {x.type} as {wanted.name}: its last axis holds no whole number of them. Pad it first.{at_user_line()}"
            )
        shape = (*shape[:-1], count)
    if own is BOOL:
        x = convert_element_type(x, new_dtype=_BYTE)
    elif kind(own) == "c":
        x = stack([complexes.real(x), complexes.imag(x)], -1)
    part = _BYTE if wanted is BOOL else real_dtype(wanted)
    wider = part.itemsize // x.type.dtype.itemsize
    x = bitcast_convert_type(reshape(x, (-1, wider) if wider > 1 else (-1,)), new_dtype=part)
    if kind(wanted) == "c":
        pairs = reshape(x, (*shape, 2))
        return complexes.complex(pairs[..., 0], pairs[..., 1])
    return convert_element_type(reshape(x, shape), new_dtype=wanted)


def _place_values(bitorder: str, name: str) -> np.ndarray:
    if bitorder not in ("big", "little"):
        raise ValueError(f"{name} takes bitorder='big' or 'little', not {brief(bitorder)}.{at_user_line()}")
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


# of no bytes, but a `count` of bits, NumPy returns what lay in memory
@by_numpy(lambda a, *how, **named: np.unpackbits(a, *how, **named) if a.size else None)
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
