"""Complex numbers: parts, conjugates, angles."""

from __future__ import annotations

import math

from pullback.core.array import Array, ArrayLike
from pullback.core.dtypes import kind
from pullback.numpy.creation import zeros_like
from pullback.numpy.promotion import literal_of, operand, strong, to_inexact
from pullback.ops import arithmetic, trigonometric
from pullback.ops import complex as complexes


def real(x: ArrayLike, /) -> Array:
    """The real part of x; x itself if it is real."""
    x = operand(x, "real")
    return complexes.real(x) if kind(x.type.dtype) == "c" else x


def imag(x: ArrayLike, /) -> Array:
    """The imaginary part of x; zeros if it is real."""
    x = operand(x, "imag")
    if kind(x.type.dtype) == "c":
        return complexes.imag(x)
    return zeros_like(x)


def conjugate(x: ArrayLike, /) -> Array:
    """The complex conjugate of x; x itself if it is real."""
    x = operand(x, "conj")
    return complexes.conj(x) if kind(x.type.dtype) == "c" else x


conj = conjugate


def angle(z: ArrayLike, deg: bool = False) -> Array:
    """The angle in (-pi, pi] of a complex number; in degrees if `deg`."""
    z = to_inexact(z, "angle")
    found = (
        trigonometric.atan2(imag(z), real(z)) if kind(z.type.dtype) == "c" else strong(trigonometric.atan2(zeros_like(z), z))
    )
    return arithmetic.mul(found, literal_of(180 / math.pi, found.type.dtype)) if deg else found
