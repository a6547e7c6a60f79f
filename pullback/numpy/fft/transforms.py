"""Fourier transforms of any size along any axes, all made of the primitive that transforms the last axes."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.dtypes import FLOAT32, DTypeLike, default_dtype, kind, requested
from pullback.core.errors import AxisError, DtypeError, ShapeError
from pullback.core.tracing import Tracer
from pullback.numpy.arithmetic import multiply, true_divide
from pullback.numpy.axes import Axis, normal_axes, normal_axis, several, whole
from pullback.numpy.complexes import conj
from pullback.numpy.creation import asarray
from pullback.numpy.eager import by_numpy
from pullback.numpy.promotion import (
    NATIVE_FLOATS,
    NATIVE_INEXACT,
    PYTHON_SCALARS,
    at_user_line,
    in_dtype,
    number_or_operand,
    operand,
    to_inexact,
)
from pullback.numpy.shaping import moveaxis, roll
from pullback.ops import fourier
from pullback.ops import shape as shapes
from pullback.ops.formulas import COMPLEX_DTYPE
from pullback.ops.fourier import FftType

NATIVE_COMPLEX = NATIVE_INEXACT - NATIVE_FLOATS  # of real numbers, NumPy's fft makes a half and mirrors it
_OTHER_WAY = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}
_BACK = (FftType.IFFT, FftType.IRFFT)


def to_transform(x: Any, name: str) -> Array:
    """An operand of a Fourier transform: floating-point or complex numbers of 32 bits or more a part."""
    value = to_inexact(operand(x, name), name)
    narrow = kind(value.type.dtype) == "f" and value.type.dtype.itemsize < 4
    return in_dtype(value, FLOAT32, value.type.weak) if narrow else value


def _transform(name: str, which: FftType, a: Any, s: Any, axes: Any, norm: str | None) -> Array:
    """A transform over several axes, of which the last is the one that real numbers lie along, made of sizes `s`."""
    x = to_transform(a, name)
    if axes is None:
        axes = range(x.type.ndim) if s is None else range(-len(s), 0)
    axes = [normal_axis(axis, x.type.ndim, name) for axis in axes]
    if len(set(axes)) != len(axes):
        raise AxisError(f"{name} was given a repeated axis: {tuple(axes)}. Name each once.{at_user_line()}")
    if norm not in _OTHER_WAY:
        raise ValueError(f"{name} takes norm='backward', 'ortho' or 'forward', not {brief(norm)}.{at_user_line()}")
    if which is FftType.RFFT:
        if kind(x.type.dtype) == "c":
            raise DtypeError(f"{name} takes real numbers, but got {x.type}. Take its .real, or use fft.{at_user_line()}")
    else:
        x = in_dtype(x, COMPLEX_DTYPE.get(x.type.dtype, x.type.dtype), x.type.weak)
    if not axes:
        return x
    own = [x.type.shape[axis] for axis in axes]
    sizes = own if s is None else [size if wanted == -1 else wanted for wanted, size in zip(map(operator.index, s), own)]
    if len(sizes) != len(axes) or (s is not None and len(s) != len(axes)):
        raise ShapeError(f"{name} takes a size for each of the axes {tuple(axes)}, not {tuple(s)}.{at_user_line()}")
    if which is FftType.IRFFT and (s is None or operator.index(s[-1]) == -1):
        sizes = [*sizes[:-1], 2 * (own[-1] - 1)]
    if s is None and which in (FftType.FFT, FftType.IFFT) and 0 in sizes:
        return x
    if min(sizes) < 1:
        raise ShapeError(f"{name} makes 1 element or more along each axis, but {tuple(sizes)} were asked for.{at_user_line()}")
    ndim, count = x.type.ndim, len(axes)
    places = list(range(ndim - count, ndim))
    x = x if axes == places else moveaxis(x, axes, places)
    taken = sizes if which is not FftType.IRFFT else [*sizes[:-1], sizes[-1] // 2 + 1]
    if tuple(taken) != x.type.shape[ndim - count :]:  # cut, or continued by zeros
        config = [(0, 0, 0)] * (ndim - count) + [(0, size - old, 0) for size, old in zip(taken, x.type.shape[ndim - count :])]
        x = shapes.pad(x, in_dtype(0, x.type.dtype), padding_config=tuple(config))
    x = _in_groups(x, which, tuple(sizes))
    x = x if axes == places else moveaxis(x, places, axes)
    power = {None: 0.0, "backward": 0.0, "ortho": 0.5, "forward": 1.0}[norm]
    return multiply(x, float(math.prod(sizes)) ** (power if which in _BACK else -power)) if power else x


def _in_groups(x: Array, which: FftType, sizes: tuple[int, ...]) -> Array:
    """The transform of the last axes, three at a time, which is what XLA does at once."""
    if len(sizes) <= 3:
        return fourier.fft(x, fft_type=which, fft_lengths=sizes)
    others, count = (FftType.IFFT if which in _BACK else FftType.FFT), len(sizes) - 3

    def rest(x: Array) -> Array:
        axes = tuple(range(x.type.ndim - len(sizes), x.type.ndim - 3))
        moved = _in_groups(moveaxis(x, axes, tuple(range(-count, 0))), others, sizes[:-3])
        return moveaxis(moved, tuple(range(-count, 0)), axes)

    x = rest(x) if which in _BACK else x
    x = fourier.fft(x, fft_type=which, fft_lengths=sizes[-3:])
    return x if which in _BACK else rest(x)


def _one_axis(name: str, which: FftType, a: Any, n: int | None, axis: int, norm: str | None) -> Array:
    if n is not None and whole(n, f"{name}'s n") < 1:
        raise ShapeError(f"{name} takes n of 1 or more, not {n}.{at_user_line()}")
    return _transform(name, which, a, None if n is None else (n,), (axis,), norm)


@by_numpy(np.fft.fft, NATIVE_COMPLEX)
def fft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The discrete Fourier transform along an axis: X_k = sum over j of x_j exp(-2 pi i j k / n).

    Arguments:
        a: an array or a number, of one axis or more; narrow floating-point numbers are transformed in float32.
        n: how many elements to transform: `a` is cut or continued by zeros; by default as many as there are.
        axis: the axis.
        norm: what the transform is divided by: "backward" (the default) divides the one back by n, "forward" the one there, and
            "ortho" both by sqrt(n).

    Returns:
        An array, complex.

    Raises:
        LeafError: `a` is neither an array nor a number.
        AxisError: there is no such axis. ShapeError: n is less than 1. ValueError: an unknown norm.

    Example:
        >>> pnp.fft.fft(pnp.array([1.0, 2.0, 3.0, 4.0]))
        [10.+0.j -2.+2.j -2.+0.j -2.-2.j]:c64[4]:cpu(0)
    """
    return _one_axis("fft", FftType.FFT, a, n, axis, norm)


@by_numpy(np.fft.ifft, NATIVE_COMPLEX)
def ifft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `fft` along an axis: x_j = 1/n times the sum over k of X_k exp(2 pi i j k / n).

    Arguments:
        a: an array or a number, of one axis or more; narrow floating-point numbers are transformed in float32.
        n: how many elements to transform: `a` is cut or continued by zeros; by default as many as there are.
        axis: the axis.
        norm: what the transform is divided by: "backward" (the default) divides the one back by n, "forward" the one there, and
            "ortho" both by sqrt(n).

    Returns:
        An array, complex.

    Raises:
        LeafError: `a` is neither an array nor a number.
        AxisError: there is no such axis. ShapeError: n is less than 1. ValueError: an unknown norm.

    Example:
        >>> pnp.fft.ifft(pnp.array([10, -2 + 2j, -2, -2 - 2j]))
        [1.+0.j 2.+0.j 3.+0.j 4.+0.j]:c64[4]:cpu(0)
    """
    return _one_axis("ifft", FftType.IFFT, a, n, axis, norm)


@by_numpy(np.fft.rfft, NATIVE_FLOATS)
def rfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The discrete Fourier transform of real numbers along an axis: the frequencies from 0 to n / 2.

    Arguments:
        a: an array or a number, of one axis or more; narrow floating-point numbers are transformed in float32.
        n: how many elements to transform: `a` is cut or continued by zeros; by default as many as there are.
        axis: the axis.
        norm: what the transform is divided by: "backward" (the default) divides the one back by n, "forward" the one there, and
            "ortho" both by sqrt(n).

    Returns:
        An array, complex, with n // 2 + 1 elements along the axis.

    Raises:
        LeafError: `a` is neither an array nor a number.
        AxisError: there is no such axis. ShapeError: n is less than 1. ValueError: an unknown norm.
        DtypeError: `a` is complex.

    Example:
        >>> pnp.fft.rfft(pnp.array([1.0, 2.0, 3.0, 4.0]))
        [10.+0.j -2.+2.j -2.+0.j]:c64[3]:cpu(0)
    """
    return _one_axis("rfft", FftType.RFFT, a, n, axis, norm)


@by_numpy(np.fft.irfft, NATIVE_COMPLEX)
def irfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `rfft` along an axis: real numbers from their frequencies up to n / 2.

    Arguments:
        a: an array or a number, of one axis or more; narrow floating-point numbers are transformed in float32.
        n: how many elements the result has; by default 2 (m - 1) for m elements, which is even.
        axis: the axis.
        norm: what the transform is divided by: "backward" (the default) divides the one back by n, "forward" the one there, and
            "ortho" both by sqrt(n).

    Returns:
        An array, real.

    Raises:
        LeafError: `a` is neither an array nor a number.
        AxisError: there is no such axis. ShapeError: n is less than 1. ValueError: an unknown norm.

    Example:
        >>> pnp.fft.irfft(pnp.array([10, -2 + 2j, -2]))
        [1. 2. 3. 4.]:f32[4]:cpu(0)
    """
    return _one_axis("irfft", FftType.IRFFT, a, n, axis, norm)


@by_numpy(np.fft.hfft, NATIVE_COMPLEX)
def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The discrete Fourier transform of numbers whose second half mirrors the first, conjugated: it is real.

    Arguments:
        a: an array: the first half.
        n: how many elements the result has; by default 2 (m - 1) for m elements, which is even.
        axis: the axis.
        norm: "backward" (the default), "ortho" or "forward", as for `fft`.

    Returns:
        An array, real.

    Raises:
        LeafError: `a` is neither an array nor a number.
        AxisError: there is no such axis. ShapeError: n is less than 1. ValueError: an unknown norm.

    Example:
        >>> pnp.fft.hfft(pnp.array([1.0, 2.0, 3.0]))
        [ 8. -2.  0. -2.]:f32[4]:cpu(0)
    """
    return _one_axis("hfft", FftType.IRFFT, conj(operand(a, "hfft")), n, axis, _turned(norm, "hfft"))


@by_numpy(np.fft.ihfft, NATIVE_FLOATS)
def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `hfft`: the first half of the inverse transform of real numbers.

    Arguments:
        a: an array, real.
        n: how many elements to transform: `a` is cut or continued by zeros; by default as many as there are.
        axis: the axis.
        norm: "backward" (the default), "ortho" or "forward", as for `fft`.

    Returns:
        An array, complex, with n // 2 + 1 elements along the axis.

    Raises:
        LeafError: `a` is neither an array nor a number.
        DtypeError: `a` is complex.
        AxisError: there is no such axis. ShapeError: n is less than 1. ValueError: an unknown norm.

    Example:
        >>> pnp.fft.ihfft(pnp.array([8.0, -2.0, 0.0, -2.0])).real
        [1. 2. 3.]:f32[3]:cpu(0)
    """
    return conj(_one_axis("ihfft", FftType.RFFT, a, n, axis, _turned(norm, "ihfft")))


def _turned(norm: str | None, name: str) -> str:
    try:
        return _OTHER_WAY[norm]
    except (KeyError, TypeError):
        raise ValueError(f"{name} takes norm='backward', 'ortho' or 'forward', not {brief(norm)}.{at_user_line()}") from None


def fftn(a: ArrayLike, s: Sequence[int] | None = None, axes: Axis = None, norm: str | None = None) -> Array:
    """The discrete Fourier transform over several axes.

    Arguments:
        a: an array; narrow floating-point numbers are transformed in float32.
        s: for each axis, how many elements to transform (-1 for all): `a` is cut or continued by zeros.
        axes: the axes, by default the last ones, as many as `s` has, or all.
        norm: "backward" (the default), "ortho" or "forward", as for `fft`.

    Returns:
        An array, complex.

    Raises:
        LeafError: `a` is neither an array nor a number.
        AxisError: there is no such axis, or one is given twice. ShapeError: sizes below 1. ValueError: an unknown norm.

    Example:
        >>> pnp.fft.fftn(pnp.array([[1.0, 2.0], [3.0, 4.0]]))
        [[10.+0.j -2.+0.j]
         [-4.+0.j  0.+0.j]]:c64[2,2]:cpu(0)
    """
    return _transform("fftn", FftType.FFT, a, s, None if axes is None else several(axes), norm)


def ifftn(a: ArrayLike, s: Sequence[int] | None = None, axes: Axis = None, norm: str | None = None) -> Array:
    """The inverse of `fftn` over several axes.

    Arguments:
        a: an array; narrow floating-point numbers are transformed in float32.
        s: for each axis, how many elements to transform (-1 for all): `a` is cut or continued by zeros.
        axes: the axes, by default the last ones, as many as `s` has, or all.
        norm: "backward" (the default), "ortho" or "forward", as for `fft`.

    Returns:
        An array, complex.

    Raises:
        LeafError: `a` is neither an array nor a number.
        AxisError: there is no such axis, or one is given twice. ShapeError: sizes below 1. ValueError: an unknown norm.

    Example:
        >>> pnp.fft.ifftn(pnp.fft.fftn(pnp.array([[1.0, 2.0], [3.0, 4.0]]))).real
        [[1. 2.]
         [3. 4.]]:f32[2,2]:cpu(0)
    """
    return _transform("ifftn", FftType.IFFT, a, s, None if axes is None else several(axes), norm)


def rfftn(a: ArrayLike, s: Sequence[int] | None = None, axes: Axis = None, norm: str | None = None) -> Array:
    """The discrete Fourier transform of real numbers over several axes: along the last one, the frequencies from 0 to n / 2.

    Arguments:
        a: an array; narrow floating-point numbers are transformed in float32.
        s: for each axis, how many elements to transform (-1 for all): `a` is cut or continued by zeros.
        axes: the axes, by default the last ones, as many as `s` has, or all.
        norm: "backward" (the default), "ortho" or "forward", as for `fft`.

    Returns:
        An array, complex, with n // 2 + 1 elements along the last axis.

    Raises:
        LeafError: `a` is neither an array nor a number.
        DtypeError: `a` is complex.
        AxisError: there is no such axis, or one is given twice. ShapeError: sizes below 1. ValueError: an unknown norm.

    Example:
        >>> pnp.fft.rfftn(pnp.ones((2, 3, 4))).shape
        (2, 3, 3)
    """
    return _transform("rfftn", FftType.RFFT, a, s, None if axes is None else several(axes), norm)


def irfftn(a: ArrayLike, s: Sequence[int] | None = None, axes: Axis = None, norm: str | None = None) -> Array:
    """The inverse of `rfftn` over several axes: real numbers from their frequencies.

    Arguments:
        a: an array; narrow floating-point numbers are transformed in float32.
        s: for each axis, how many elements the result has; -1, and by default, all, and 2 (m - 1) along the last axis.
        axes: the axes, by default the last ones, as many as `s` has, or all.
        norm: "backward" (the default), "ortho" or "forward", as for `fft`.

    Returns:
        An array, real.

    Raises:
        LeafError: `a` is neither an array nor a number.
        AxisError: there is no such axis, or one is given twice. ShapeError: sizes below 1. ValueError: an unknown norm.

    Example:
        >>> pnp.fft.irfftn(pnp.fft.rfftn(pnp.array([[1.0, 2.0], [3.0, 4.0]])))
        [[1. 2.]
         [3. 4.]]:f32[2,2]:cpu(0)
    """
    return _transform("irfftn", FftType.IRFFT, a, s, None if axes is None else several(axes), norm)


@by_numpy(np.fft.fft2, NATIVE_COMPLEX)
def fft2(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """The discrete Fourier transform over two axes.

    Arguments:
        a: an array; narrow floating-point numbers are transformed in float32.
        s: for each axis, how many elements to transform (-1 for all): `a` is cut or continued by zeros.
        axes: the two axes.
        norm: "backward" (the default), "ortho" or "forward", as for `fft`.

    Returns:
        An array, complex.

    Raises:
        LeafError: `a` is neither an array nor a number.
        AxisError: there is no such axis, or one is given twice. ShapeError: sizes below 1. ValueError: an unknown norm.

    Example:
        >>> pnp.fft.fft2(pnp.ones((3, 2, 2)))[0]
        [[4.+0.j 0.+0.j]
         [0.+0.j 0.+0.j]]:c64[2,2]:cpu(0)
    """
    return _transform("fft2", FftType.FFT, a, s, several(axes), norm)


@by_numpy(np.fft.ifft2, NATIVE_COMPLEX)
def ifft2(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """The inverse of `fft2` over two axes.

    Arguments:
        a: an array; narrow floating-point numbers are transformed in float32.
        s: for each axis, how many elements to transform (-1 for all): `a` is cut or continued by zeros.
        axes: the two axes.
        norm: "backward" (the default), "ortho" or "forward", as for `fft`.

    Returns:
        An array, complex.

    Raises:
        LeafError: `a` is neither an array nor a number.
        AxisError: there is no such axis, or one is given twice. ShapeError: sizes below 1. ValueError: an unknown norm.

    Example:
        >>> pnp.fft.ifft2(pnp.ones((2, 2)))
        [[1.+0.j 0.+0.j]
         [0.+0.j 0.+0.j]]:c64[2,2]:cpu(0)
    """
    return _transform("ifft2", FftType.IFFT, a, s, several(axes), norm)


@by_numpy(np.fft.rfft2, NATIVE_FLOATS)
def rfft2(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """The discrete Fourier transform of real numbers over two axes: along the last of them, the frequencies from 0 to n / 2.

    Arguments:
        a: an array; narrow floating-point numbers are transformed in float32.
        s: for each axis, how many elements to transform (-1 for all): `a` is cut or continued by zeros.
        axes: the two axes.
        norm: "backward" (the default), "ortho" or "forward", as for `fft`.

    Returns:
        An array, complex, with n // 2 + 1 elements along the last axis.

    Raises:
        LeafError: `a` is neither an array nor a number.
        DtypeError: `a` is complex.
        AxisError: there is no such axis, or one is given twice. ShapeError: sizes below 1. ValueError: an unknown norm.

    Example:
        >>> pnp.fft.rfft2(pnp.ones((3, 5, 6))).shape
        (3, 5, 4)
    """
    return _transform("rfft2", FftType.RFFT, a, s, several(axes), norm)


@by_numpy(np.fft.irfft2, NATIVE_COMPLEX)
def irfft2(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """The inverse of `rfft2` over two axes: real numbers from their frequencies.

    Arguments:
        a: an array; narrow floating-point numbers are transformed in float32.
        s: for each axis, how many elements the result has; -1, and by default, all, and 2 (m - 1) along the last axis.
        axes: the two axes.
        norm: "backward" (the default), "ortho" or "forward", as for `fft`.

    Returns:
        An array, real.

    Raises:
        LeafError: `a` is neither an array nor a number.
        AxisError: there is no such axis, or one is given twice. ShapeError: sizes below 1. ValueError: an unknown norm.

    Example:
        >>> pnp.fft.irfft2(pnp.ones((3, 5, 4))).shape
        (3, 5, 6)
    """
    return _transform("irfft2", FftType.IRFFT, a, s, several(axes), norm)


def fftfreq(n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike = None, device: Any = None) -> Array:
    """The frequencies that `fft` of n samples gives, in cycles per unit: from 0 up, then the negative ones.

    Arguments:
        n: how many samples there are. d: the distance between them, a number.
        dtype: a floating-point or complex dtype, by default that of `d`. device: where to put the result.

    Returns:
        An array of n elements.

    Raises:
        ShapeError: n is no int, or less than 1, or `d` is no single number. DtypeError: a dtype of integers, or a complex `d`.

    Example:
        >>> pnp.fft.fftfreq(4, 0.5)
        [ 0.   0.5 -1.  -0.5]:f32[4]:cpu(0)
    """
    return _frequencies("fftfreq", n, d, False, dtype, device)


def rfftfreq(n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike = None, device: Any = None) -> Array:
    """The frequencies that `rfft` of n samples gives, in cycles per unit: from 0 to the highest.

    Arguments:
        n: how many samples there are. d: the distance between them, a number.
        dtype: a floating-point or complex dtype, by default that of `d`. device: where to put the result.

    Returns:
        An array of n // 2 + 1 elements.

    Raises:
        ShapeError: n is no int, or less than 1, or `d` is no single number. DtypeError: a dtype of integers, or a complex `d`.

    Example:
        >>> pnp.fft.rfftfreq(4, 0.5)
        [0.  0.5 1. ]:f32[3]:cpu(0)
    """
    return _frequencies("rfftfreq", n, d, True, dtype, device)


def _frequencies(name: str, n: Any, d: Any, half: bool, dtype: DTypeLike, device: Any) -> Array:
    try:
        count = operator.index(n)
    except TypeError:
        if isinstance(n, Tracer):
            raise
        raise ShapeError(f"{name} takes an int as n, the number of samples, not {brief(n)}.{at_user_line()}") from None
    spacing = number_or_operand(d, name, "d")
    python = spacing.__class__ in PYTHON_SCALARS
    if count < 1 or (not python and spacing.type.shape):
        raise ShapeError(f"{name} takes n of 1 or more samples, a number d apart; not n={n} and d={d}.{at_user_line()}")
    own = default_dtype("f") if python else to_inexact(spacing, name).type.dtype
    wanted = own if dtype is None else requested(dtype)
    if kind(wanted) not in "fc" or kind(own) != "f" or spacing.__class__ is complex:
        raise DtypeError(
            f"{name} takes a real d and makes an array of a floating or complex dtype, not of {wanted}.{at_user_line()}"
        )
    numbers = np.arange(count // 2 + 1) if half else (np.arange(count) + count // 2) % count - count // 2
    if python:
        return asarray(numbers / (count * spacing), wanted, device=device)
    return in_dtype(true_divide(asarray(numbers, own, device=device), multiply(spacing, count)), wanted)


def fftshift(x: ArrayLike, axes: Axis = None) -> Array:
    """Frequencies in rising order: the second half of each axis in front of the first, so that 0 is in the middle.

    Arguments:
        x: an array. axes: the axes; all by default.

    Returns:
        An array of the shape and dtype of x.

    Raises:
        LeafError: x is neither an array nor a number.
        AxisError: there is no such axis.

    Example:
        >>> pnp.fft.fftshift(pnp.fft.fftfreq(4))
        [-0.5  -0.25  0.    0.25]:f32[4]:cpu(0)
    """
    return _shifted(operand(x, "fftshift"), axes, "fftshift", lambda size: size // 2)


def ifftshift(x: ArrayLike, axes: Axis = None) -> Array:
    """The inverse of `fftshift`.

    Arguments:
        x: an array. axes: the axes; all by default.

    Returns:
        An array of the shape and dtype of x.

    Raises:
        LeafError: x is neither an array nor a number.
        AxisError: there is no such axis.

    Example:
        >>> pnp.fft.ifftshift(pnp.array([-2, -1, 0, 1]))
        [ 0  1 -2 -1]:i32[4]:cpu(0)
    """
    return _shifted(operand(x, "ifftshift"), axes, "ifftshift", lambda size: -(size // 2))


def _shifted(x: Array, axes: Any, name: str, by: Any) -> Array:
    chosen = normal_axes(axes, x.type, name)
    return roll(x, [by(x.type.shape[axis]) for axis in chosen], chosen) if chosen else x
