"""Discrete cosine transforms of type 2, and their inverses, by Fourier transforms of the same size.

Source: J. Makhoul, "A fast cosine transform in one and two dimensions" (1980).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief, counted
from pullback.core.dtypes import kind
from pullback.core.errors import ShapeError
from pullback.numpy.axes import normal_axis, several
from pullback.numpy.complexes import imag, real
from pullback.numpy.fft import transforms
from pullback.numpy.promotion import at_user_line, in_dtype
from pullback.numpy.shaping import concatenate, moveaxis
from pullback.numpy.taking import take
from pullback.ops import shape as shapes
from pullback.ops.complex import complex as join
from pullback.ops.formulas import COMPLEX_DTYPE


def _cosine(name: str, x: Any, type: int, s: Any, axes: Any, norm: str | None, back: bool) -> Array:
    """The transform, or its inverse, along several axes, of the sizes s."""
    if operator.index(type) != 2:
        raise NotImplementedError(f"{name} makes transforms of type 2, not {brief(type)}.{at_user_line()}")
    if norm not in (None, "backward", "ortho"):
        raise ValueError(f"{name} takes norm='backward' or 'ortho', not {brief(norm)}.{at_user_line()}")
    z = transforms.to_transform(x, name)
    if kind(z.type.dtype) == "c":
        return join(*[_cosine(name, part, type, s, axes, norm, back) for part in (real(z), imag(z))])
    sizes = None if s is None else [operator.index(size) for size in several(s)]
    if axes is None and sizes is not None and len(sizes) > z.type.ndim:
        raise ShapeError(f"{name} takes at most {counted(z.type.ndim, 'size')} for {z.type}, not s={s}.{at_user_line()}")
    if axes is None:
        axes = range(z.type.ndim) if sizes is None else range(z.type.ndim - len(sizes), z.type.ndim)
    along = [normal_axis(axis, z.type.ndim, name) for axis in several(axes)] if not isinstance(axes, range) else list(axes)
    sizes = [z.type.shape[axis] for axis in along] if sizes is None else sizes
    if len(sizes) != len(along) or min([*sizes, *[z.type.shape[axis] for axis in along], 1]) < 1:
        raise ShapeError(f"{name} of {z.type} takes a size of 1 or more for each of the axes {along}, not {s}.{at_user_line()}")
    for axis, size in zip(along, sizes):
        z = moveaxis(z, axis, -1)
        config = [(0, 0, 0)] * (z.type.ndim - 1) + [(0, size - z.type.shape[-1], 0)]
        z = shapes.pad(z, in_dtype(0, z.type.dtype), padding_config=tuple(config)) if any(config[-1]) else z
        z = moveaxis((_back if back else _there)(z, size, norm == "ortho"), -1, axis)
    return z


def _weights(size: int, ortho: bool) -> Any:
    """What turns the transform of the reordered elements into that of cosines: a phase for each frequency."""
    scale = np.full(size, np.sqrt(1 / (2 * size)) if ortho else 1.0)
    scale[0] *= np.sqrt(0.5) if ortho else 1.0
    return 2 * scale * np.exp(-0.5j * np.pi * np.arange(size) / size)


def _there(x: Array, size: int, ortho: bool) -> Array:
    order = np.concatenate([np.arange(0, size, 2), np.arange(1, size, 2)[::-1]])  # the even places, then the odd ones backwards
    found = transforms.fft(take(x, order, -1))
    return real(found * _weights(size, ortho).astype(found.type.dtype))


def _back(x: Array, size: int, ortho: bool) -> Array:
    # X_k = Re(w_k V_k) and the same of N - k give w_k V_k = X_k - i X_(N - k)
    dtype = COMPLEX_DTYPE[x.type.dtype]
    weights = _weights(size, ortho)
    fair = x * (1 / np.abs(weights)).astype(x.type.dtype)
    mirrored = concatenate([fair[..., :1] * 0, fair[..., :0:-1]], -1)
    found = transforms.ifft(join(fair, -mirrored) * np.exp(0.5j * np.pi * np.arange(size) / size).astype(dtype))
    places = np.arange(size)
    return take(real(found), np.where(places % 2, size - 1 - places // 2, places // 2), -1)


def dct(x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The discrete cosine transform along an axis: y_k = 2 times the sum over j of x_j cos(pi k (2 j + 1) / (2 n)).

    Arguments:
        x: an array.
        type: 2.
        n: how many elements to transform: x is cut or continued by zeros; by default as many as there are.
        axis: the axis.
        norm: "backward", the default; or "ortho", by which the transform is orthogonal.

    Returns:
        An array, floating or complex.

    Raises:
        LeafError: x is neither an array nor a number. AxisError: there is no such axis.
        ShapeError: n is less than 1. ValueError: an unknown norm. NotImplementedError: another type.

    Example:
        >>> pb.scipy.fft.dct(pnp.array([1.0, 2.0, 3.0])).round(3)
        [12.    -3.464  0.   ]:f32[3]:cpu(0)
    """
    return _cosine("dct", x, type, n, axis, norm, False)


def idct(x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `dct` along an axis.

    Arguments:
        x: an array.
        type: 2.
        n: how many elements to transform: x is cut or continued by zeros; by default as many as there are.
        axis: the axis.
        norm: "backward", the default; or "ortho", by which the transform is orthogonal.

    Returns:
        An array, floating or complex.

    Raises:
        LeafError: x is neither an array nor a number. AxisError: there is no such axis.
        ShapeError: n is less than 1. ValueError: an unknown norm. NotImplementedError: another type.

    Example:
        >>> pb.scipy.fft.idct(pb.scipy.fft.dct(pnp.array([1.0, 2.0, 4.0]))).round(3)
        [1. 2. 4.]:f32[3]:cpu(0)
    """
    return _cosine("idct", x, type, n, axis, norm, True)


def dctn(
    x: ArrayLike, type: int = 2, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Array:
    """The discrete cosine transform over several axes.

    Arguments:
        x: an array.
        type: 2.
        s: for each axis, how many elements to transform: x is cut or continued by zeros; by default as many as there are.
        axes: the axes; by default the last ones, as many as `s` has, or all.
        norm: "backward", the default; or "ortho", by which the transform is orthogonal.

    Returns:
        An array, floating or complex.

    Raises:
        LeafError: x is neither an array nor a number. AxisError: there is no such axis.
        ShapeError: sizes below 1, or not one for each axis. ValueError: an unknown norm. NotImplementedError: another type.

    Example:
        >>> pb.scipy.fft.dctn(pnp.ones((2, 2))).round(3)
        [[16.  0.]
         [ 0.  0.]]:f32[2,2]:cpu(0)
    """
    return _cosine("dctn", x, type, s, axes, norm, False)


def idctn(
    x: ArrayLike, type: int = 2, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Array:
    """The inverse of `dctn` over several axes.

    Arguments:
        x: an array.
        type: 2.
        s: for each axis, how many elements to transform: x is cut or continued by zeros; by default as many as there are.
        axes: the axes; by default the last ones, as many as `s` has, or all.
        norm: "backward", the default; or "ortho", by which the transform is orthogonal.

    Returns:
        An array, floating or complex.

    Raises:
        LeafError: x is neither an array nor a number. AxisError: there is no such axis.
        ShapeError: sizes below 1, or not one for each axis. ValueError: an unknown norm. NotImplementedError: another type.

    Example:
        >>> pb.scipy.fft.idctn(pnp.array([[16.0, 0.0], [0.0, 0.0]])).round(3)
        [[1. 1.]
         [1. 1.]]:f32[2,2]:cpu(0)
    """
    return _cosine("idctn", x, type, s, axes, norm, True)
