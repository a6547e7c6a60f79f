"""Complex numbers: parts, conjugates, angles."""

from __future__ import annotations

import math

from pullback.core.array import Array, ArrayLike
from pullback.core.dtypes import kind
from pullback.numpy.creation import zeros_like
from pullback.numpy.promotion import literal_of, operand, strong, to_inexact
from pullback.ops import arithmetic, bitwise, compare, trigonometric
from pullback.ops import complex as complexes


def real(x: ArrayLike, /) -> Array:
    """The real part of x; x itself if it is real.

    Arguments:
        x: an array or a number, of any shape and dtype.

    Returns:
        An array of the shape of x, real.

    Raises:
        LeafError: an operand is neither an array nor a number.

    Example:
        >>> pnp.real(pnp.array([1 + 2j, 3]))
        [1. 3.]:f32[2]:cpu(0)
    """
    x = operand(x, "real")
    return complexes.real(x) if kind(x.type.dtype) == "c" else x


def imag(x: ArrayLike, /) -> Array:
    """The imaginary part of x; zeros if it is real.

    Arguments:
        x: an array or a number, of any shape and dtype.

    Returns:
        An array of the shape of x, real.

    Raises:
        LeafError: an operand is neither an array nor a number.

    Example:
        >>> pnp.imag(pnp.array([1 + 2j, 3]))
        [2. 0.]:f32[2]:cpu(0)
        >>> pnp.imag(2.0)
        0.0:f32[]:cpu(0)
    """
    x = operand(x, "imag")
    if kind(x.type.dtype) == "c":
        return complexes.imag(x)
    return zeros_like(x)


def conjugate(x: ArrayLike, /) -> Array:
    """The complex conjugate of x; x itself if it is real.

    Arguments:
        x: an array or a number, of any shape and dtype.

    Returns:
        An array of the shape of x, in its dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.

    Example:
        >>> pnp.conj(pnp.array([1 + 2j, 3]))
        [1.-2.j 3.-0.j]:c64[2]:cpu(0)
    """
    x = operand(x, "conj")
    return complexes.conj(x) if kind(x.type.dtype) == "c" else x


conj = conjugate


def iscomplex(x: ArrayLike) -> Array:
    """Whether x has an imaginary part other than 0, elementwise.

    Arguments:
        x: an array or a number, of any shape and dtype.

    Returns:
        An array of the shape of x, of bools.

    Raises:
        LeafError: an operand is neither an array nor a number.

    Example:
        >>> pnp.iscomplex(pnp.array([1 + 1j, 2 + 0j]))
        [ True False]:bool[2]:cpu(0)
    """
    part = imag(x)
    return compare.ne(part, literal_of(0, part.type.dtype))


def isreal(x: ArrayLike) -> Array:
    """Whether x has no imaginary part other than 0, elementwise.

    Arguments:
        x: an array or a number, of any shape and dtype.

    Returns:
        An array of the shape of x, of bools.

    Raises:
        LeafError: an operand is neither an array nor a number.

    Example:
        >>> pnp.isreal(pnp.array([1 + 1j, 2 + 0j]))
        [False  True]:bool[2]:cpu(0)
    """
    return bitwise.not_(iscomplex(x))


def angle(z: ArrayLike, deg: bool = False) -> Array:
    """The angle in (-pi, pi] of a complex number; in degrees if `deg`.

    Arguments:
        z: an array or a number, of any shape, real or complex.
        deg: whether to measure in degrees.

    Returns:
        An array of the shape of z, real and floating.

    Raises:
        LeafError: an operand is neither an array nor a number.

    Example:
        >>> pnp.angle(pnp.array([1.0, -1.0, 1j]))
        [0.        3.1415927 1.5707964]:f32[3]:cpu(0)
        >>> pnp.angle(1 + 1j, deg=True)
        45.0:f32[]:cpu(0)
    """
    z = to_inexact(z, "angle")
    found = (
        trigonometric.atan2(imag(z), real(z)) if kind(z.type.dtype) == "c" else strong(trigonometric.atan2(zeros_like(z), z))
    )
    return arithmetic.mul(found, literal_of(180 / math.pi, found.type.dtype)) if deg else found
