"""Convolutions and correlations of arrays with any number of axes, directly and by Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.dtypes import kind
from pullback.core.errors import ShapeError
from pullback.numpy.axes import normal_axis, several
from pullback.numpy.complexes import conj
from pullback.numpy.convolution import around, check_mode, sliding_products
from pullback.numpy.fft.transforms import fftn, ifftn, irfftn, rfftn
from pullback.numpy.padding import pad
from pullback.numpy.promotion import at_user_line, check_precision, operand, to_common_dtype
from pullback.numpy.shaping import cut, flip

_BOUNDARIES = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}


def _operands(name: str, in1: Any, in2: Any, mode: Any, inexact: bool = False, ndim: int | None = None) -> tuple[Array, Array]:
    check_mode(name, mode)
    x, y = to_common_dtype(name, in1, in2, inexact=inexact)
    if x.type.ndim != y.type.ndim or 0 in (x.type.size, y.type.size) or (ndim is not None and x.type.ndim != ndim):
        many = "one number of axes" if ndim is None else f"{ndim} axes"
        raise ShapeError(f"{name} takes arrays of {many}, with elements, not {x.type} and {y.type}.{at_user_line()}")
    return x, y


def _ordered(name: str, x: Array, y: Array, axes: Sequence[int], mode: str) -> tuple[Array, Array]:
    """The two with the larger one first, if only what overlaps completely is wanted."""
    sizes = [(x.type.shape[axis], y.type.shape[axis]) for axis in axes]
    if mode != "valid" or all(a >= b for a, b in sizes):
        return x, y
    if all(a <= b for a, b in sizes):
        return y, x
    raise ShapeError(
        f"{name} with mode='valid' takes arrays of which one is no smaller along any axis, not {x.type}, {y.type}."
    )


def _direct(name: str, x: Array, y: Array, mode: str) -> Array:
    x, y = _ordered(name, x, y, range(x.type.ndim), mode)
    return sliding_products(x, flip(y), [around(mode, size) for size in y.type.shape])


def fftconvolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: Sequence[int] | int | None = None) -> Array:
    """The convolution of two arrays as the product of their Fourier transforms: for large ones much faster than `convolve`.

    Arguments:
        in1, in2: arrays with as many axes, and elements.
        mode: "full", "same" (the middle, as large as `in1`), or "valid" (where one lies within the other).
        axes: the axes to convolve along; all by default. Along the others the sizes are equal, or 1.

    Returns:
        An array, floating or complex.

    Raises:
        LeafError: an operand is neither an array nor a number. DtypeError: the dtypes have no common one.
        AxisError: there is no such axis. ShapeError: sizes that do not fit. ValueError: an unknown mode.

    Example:
        >>> pb.scipy.signal.fftconvolve(pnp.array([1.0, 2.0, 3.0]), pnp.array([0.0, 1.0, 10.0])).round(3)
        [ 0.  1. 12. 23. 30.]:f32[5]:cpu(0)
    """
    x, y = _operands("fftconvolve", in1, in2, mode, inexact=True)
    along = [normal_axis(axis, x.type.ndim, "fftconvolve") for axis in (range(x.type.ndim) if axes is None else several(axes))]
    for axis, (a, b) in enumerate(zip(x.type.shape, y.type.shape)):
        if axis not in along and a != b and 1 not in (a, b):
            raise ShapeError(
                f"fftconvolve of {x.type} and {y.type} along {along}: axis {axis} is not of one size. Sizes must agree along"
                f" the other axes, or be 1.{at_user_line()}"
            )
    x, y = _ordered("fftconvolve", x, y, along, mode)
    sizes = [x.type.shape[axis] + y.type.shape[axis] - 1 for axis in along]
    there, back = (fftn, ifftn) if kind(x.type.dtype) == "c" else (rfftn, irfftn)
    out = back(there(x, sizes, along) * there(y, sizes, along), sizes, along) if along else x * y
    for axis in along:
        n, m = x.type.shape[axis], y.type.shape[axis]
        first, count = {"full": (0, n + m - 1), "same": ((m - 1) // 2, n), "valid": (m - 1, n - m + 1)}[mode]
        out = cut(out, axis, first, first + count)
    return out.astype(x.type.dtype)


def convolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto", precision: Any = None) -> Array:
    """The convolution of two arrays with any number of axes.

    Arguments:
        in1, in2: arrays with as many axes, and elements.
        mode: "full", "same" (the middle, as large as `in1`), or "valid" (where one lies within the other).
        method: "direct"; "fft" for `fftconvolve`; "auto" is the first.
        precision: checked, and without effect: products are computed in the full precision of their dtype.

    Returns:
        An array, in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number. DtypeError: the dtypes have no common one.
        ShapeError: sizes that do not fit. ValueError: an unknown mode, method or precision.

    Example:
        >>> pb.scipy.signal.convolve(pnp.array([[1, 2], [3, 4]]), pnp.array([[1, 10]]), mode="same")
        [[ 1 12]
         [ 3 34]]:i32[2,2]:cpu(0)
    """
    return _convolved("convolve", in1, in2, mode, method, precision)


def _convolved(name: str, in1: Any, in2: Any, mode: str, method: str, precision: Any) -> Array:
    check_precision(precision, name)
    if method not in ("auto", "direct", "fft"):
        raise ValueError(f"{name} takes method='auto', 'direct' or 'fft', not {brief(method)}.{at_user_line()}")
    x, y = _operands(name, in1, in2, mode)
    return fftconvolve(x, y, mode) if method == "fft" else _direct(name, x, y, mode)


def correlate(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto", precision: Any = None) -> Array:
    """The correlation of two arrays with any number of axes: the convolution with the second one reversed and conjugated.

    Arguments:
        in1, in2: arrays with as many axes, and elements.
        mode, method, precision: as for `convolve`.

    Returns:
        An array, in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number. DtypeError: the dtypes have no common one.
        ShapeError: sizes that do not fit. ValueError: an unknown mode, method or precision.

    Example:
        >>> pb.scipy.signal.correlate(pnp.array([1, 2, 3]), pnp.array([1, 10]), mode="valid")
        [21 32]:i32[2]:cpu(0)
    """
    return _convolved("correlate", in1, flip(conj(operand(in2, "correlate"))), mode, method, precision)


def convolve2d(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill", fillvalue: ArrayLike = 0, precision: Any = None
) -> Array:
    """The convolution of two images.

    Arguments:
        in1, in2: arrays of two axes.
        mode: "full", "same" (the middle, as large as `in1`), or "valid" (where one lies within the other).
        boundary: what is around `in1`: "fill" (`fillvalue`), "wrap" (the image again), or "symm" (its mirror image).
        fillvalue: a number.
        precision: checked, and without effect: products are computed in the full precision of their dtype.

    Returns:
        An array of two axes, in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number. DtypeError: the dtypes have no common one.
        ShapeError: sizes that do not fit. ValueError: an unknown mode, boundary or precision.

    Example:
        >>> pb.scipy.signal.convolve2d(pnp.array([[1, 2, 3]]), pnp.array([[1, 1]]), boundary="wrap")
        [[4 3 5 4]]:i32[1,4]:cpu(0)
    """
    return _of_images("convolve2d", in1, in2, mode, boundary, fillvalue, precision, 0)


def _of_images(name: str, in1: Any, in2: Any, mode: str, boundary: str, fillvalue: Any, precision: Any, before: int) -> Array:
    """`before`: whether, of an even number of elements, the middle one counts as that before the middle or the next."""
    check_precision(precision, name)
    if boundary not in _BOUNDARIES:
        raise ValueError(f"{name} takes boundary='fill', 'wrap' or 'symm', not {brief(boundary)}.{at_user_line()}")
    x, y = _operands(name, in1, in2, mode, ndim=2)
    if mode == "valid":
        return _direct(name, x, y, mode)
    given = {"constant_values": fillvalue} if boundary == "fill" else {}
    sizes = [(n - 1, n - 1) if mode == "full" else ((n - before) // 2, (n - 1 + before) // 2) for n in y.type.shape]
    return sliding_products(pad(x, sizes, _BOUNDARIES[boundary], **given), flip(y), ((0, 0), (0, 0)))


def correlate2d(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill", fillvalue: ArrayLike = 0, precision: Any = None
) -> Array:
    """The correlation of two images: the convolution with the second one reversed and conjugated.

    Arguments:
        in1, in2: arrays of two axes.
        mode, boundary, fillvalue, precision: as for `convolve2d`.

    Returns:
        An array of two axes, in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number. DtypeError: the dtypes have no common one.
        ShapeError: sizes that do not fit. ValueError: an unknown mode, boundary or precision.

    Example:
        >>> pb.scipy.signal.correlate2d(pnp.array([[1, 2, 3]]), pnp.array([[1, 10]]), mode="valid")
        [[21 32]]:i32[1,2]:cpu(0)
    """
    return _of_images("correlate2d", in1, flip(conj(operand(in2, "correlate2d"))), mode, boundary, fillvalue, precision, 1)
