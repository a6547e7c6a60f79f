"""Trends and spectra of signals, from Fourier transforms of overlapping segments.

Source: P. Welch, "The use of fast Fourier transform for the estimation of power spectra" (1967); the definitions are SciPy's.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief, counted
from pullback.core.dtypes import kind
from pullback.core.errors import ShapeError
from pullback.core.source import warn
from pullback.numpy.axes import normal_axis
from pullback.numpy.complexes import conj, imag, real
from pullback.numpy.creation import arange, zeros
from pullback.numpy.fft import transforms
from pullback.numpy.logic import where
from pullback.numpy.padding import pad
from pullback.numpy.products import matmul
from pullback.numpy.promotion import at_user_line, in_dtype, operand, real_dtype, to_common_dtype, to_inexact
from pullback.numpy.quantiles import median
from pullback.numpy.reductions import mean
from pullback.numpy.reductions import sum as total
from pullback.numpy.shaping import concatenate, moveaxis
from pullback.numpy.taking import take
from pullback.ops.complex import complex as join
from pullback.ops.scipy_functions import signal_window

Detrend = str | bool | Callable[[Any], Any]
_BOUNDARIES = {
    "zeros": ("constant", {}), "constant": ("edge", {}), "even": ("reflect", {}), "odd": ("reflect", {"reflect_type": "odd"}),
}  # fmt: skip


def detrend(
    data: ArrayLike, axis: int = -1, type: str = "linear", bp: int | Sequence[int] = 0, overwrite_data: None = None
) -> Array:
    """A signal without its mean, or without the line that fits it best.

    Arguments:
        data: an array. axis: the axis of the signal.
        type: "linear" or "constant".
        bp: where one line ends and the next begins: indices along the axis.
        overwrite_data: None: arrays are immutable.

    Returns:
        An array of the shape of the data, floating or complex.

    Raises:
        LeafError: `data` is neither an array nor a number. AxisError: there is no such axis.
        ShapeError: places outside the signal. ValueError: an unknown type, or an attempt to overwrite.

    Example:
        >>> pb.scipy.signal.detrend(pnp.array([1.0, 2.0, 3.0, 5.0])).round(2)
        [ 0.2 -0.1 -0.4  0.3]:f32[4]:cpu(0)
    """
    if type not in ("linear", "constant") or overwrite_data is not None:
        raise ValueError(
            "detrend takes type='linear' or 'constant', and overwrites nothing, so overwrite_data is None; not"
            f" {brief(type)} and {brief(overwrite_data)}.{at_user_line()}"
        )
    x = to_inexact(data, "detrend")
    along = normal_axis(axis, x.type.ndim, "detrend")
    x = moveaxis(x, along, -1)
    size = x.type.shape[-1]
    places = sorted({0, size, *map(operator.index, np.atleast_1d(np.asarray(bp)).tolist())})
    if places[0] < 0 or places[-1] > size:
        raise ShapeError(f"detrend takes bp between 0 and {size}, not {bp}.{at_user_line()}")
    pieces = []
    for start, end in [(0, size)] if type == "constant" else itertools.pairwise(places):
        steps = np.stack([np.ones(end - start), np.linspace(-1, 1, end - start)][: 1 + (type == "linear")], -1)
        basis = np.linalg.qr(steps)[0].astype(x.type.dtype)  # orthonormal: what lies along it is the trend
        piece = x[..., start:end]
        pieces.append(piece - matmul(matmul(piece, basis), basis.T))
    return moveaxis(concatenate(pieces, -1) if pieces else x, -1, along)


class _Segments(NamedTuple):
    """How a signal is cut: the weights of a segment's elements, its size, from one to the next, and that of its transform."""

    window: Array
    size: int
    step: int
    transform: int

    def places(self, length: int) -> Any:
        """The indices of each segment's elements."""
        return np.arange(0, length - self.size + 1, self.step)[:, None] + np.arange(self.size)


def _segments(name: str, window: Any, nperseg: Any, noverlap: Any, nfft: Any, length: int, dtype: Any) -> _Segments:
    named = isinstance(window, (str, tuple))
    if named:
        size = 256 if nperseg is None else operator.index(nperseg)
        if size > length:
            warn(f"{name}: nperseg={size} is more than the {length} elements of the signal, so it is taken as {length}.")
            size = length
        weights: Any = signal_window(window, size)
    else:
        weights = operand(window, name, "window")
        size = weights.shape[0] if weights.ndim == 1 else -1
        if nperseg is not None and operator.index(nperseg) != size:
            raise ShapeError(f"{name} takes a window of one axis and nperseg elements, not {weights.type}.{at_user_line()}")
    overlap = size // 2 if noverlap is None else operator.index(noverlap)
    transform = size if nfft is None else operator.index(nfft)
    if not 1 <= size <= max(length, 1) or not 0 <= overlap < size or transform < size:
        raise ShapeError(
            f"{name} takes segments of 1 to {counted(length, 'element')}, an overlap that is smaller and a transform that is"
            " no smaller;"
            f" not nperseg={size}, noverlap={overlap}, nfft={transform}.{at_user_line()}"
        )
    return _Segments(in_dtype(operand(weights, name), dtype), size, size - overlap, transform)


def _transformed(x: Array, cutting: _Segments, trend: Detrend, onesided: bool) -> Array:
    """The transforms of the segments along the last axis: an axis of segments, then one of frequencies."""
    pieces = take(x, cutting.places(x.type.shape[-1]), -1)
    if trend:
        pieces = trend(pieces) if callable(trend) else detrend(pieces, type=trend)  # type: ignore[arg-type]
    return (transforms.rfft if onesided else transforms.fft)(pieces * cutting.window, cutting.transform)


def _frequencies(cutting: _Segments, fs: Any, onesided: bool, dtype: Any) -> Array:
    found = (transforms.rfftfreq if onesided else transforms.fftfreq)(cutting.transform, dtype=dtype)
    return found * in_dtype(operand(fs, "the sampling frequency"), dtype)


def _real_signals(name: str, onesided: bool, *signals: Array) -> bool:
    if onesided and any(kind(x.type.dtype) == "c" for x in signals):
        warn(f"{name} of complex signals has all frequencies: return_onesided=True is taken as False.")
        return False
    return bool(onesided)


def stft(
    x: ArrayLike, fs: ArrayLike = 1.0, window: Any = "hann", nperseg: int = 256, noverlap: int | None = None,
    nfft: int | None = None, detrend: Detrend = False, return_onesided: bool = True, boundary: str | None = "zeros",
    padded: bool = True, axis: int = -1,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The Fourier transforms of overlapping segments of a signal.

    Arguments:
        x: an array. axis: the axis of the signal.
        fs: how many elements there are in a unit of time.
        window: the weights of a segment's elements: an array, or what `scipy.signal.get_window` takes, as "hann".
        nperseg, noverlap: how many elements a segment has, and shares with the next; by default half of them.
        nfft: the size of a transform; segments are continued by zeros. By default that of a segment.
        detrend: "constant" or "linear" to take that off each segment, a function of the segments, or False.
        return_onesided: leave out negative frequencies, for a real signal.
        boundary: what continues the signal by half a segment on both sides: "zeros", "even", "odd", "constant" or None.
        padded: whether zeros continue the signal to a whole number of segments.

    Returns:
        The frequencies, the times of the segments' middles, and an array with an axis of frequencies in the place of that of
        the signal, and an axis of segments at the end.

    Raises:
        LeafError: x is neither an array nor a number. AxisError: there is no such axis.
        ShapeError: sizes that do not fit. ValueError: an unknown boundary, window or trend.

    Example:
        >>> frequencies, times, found = pb.scipy.signal.stft(pnp.ones(8), nperseg=4)
        >>> found.shape, pnp.abs(found[:, 2]).round(2)
        ((3, 5), [1.  0.5 0. ]:f32[3]:cpu(0))
    """
    if boundary is not None and boundary not in _BOUNDARIES:
        raise ValueError(
            f"stft takes boundary='zeros', 'even', 'odd', 'constant' or None, not {brief(boundary)}.{at_user_line()}"
        )
    signal = transforms.to_transform(x, "stft")
    along = normal_axis(axis, signal.type.ndim, "stft")
    signal, dtype = moveaxis(signal, along, -1), real_dtype(signal.type.dtype)
    cutting = _segments("stft", window, nperseg, noverlap, nfft, signal.type.shape[-1], dtype)
    half, others = cutting.size // 2, [(0, 0)] * (signal.type.ndim - 1)
    if boundary is not None:
        mode, given = _BOUNDARIES[boundary]
        signal = pad(signal, [*others, (half, half)], mode, **given)
    if padded:
        signal = pad(signal, [*others, (0, -(signal.type.shape[-1] - cutting.size) % cutting.step)])
    onesided = _real_signals("stft", return_onesided, signal)
    found = _transformed(signal, cutting, detrend, onesided) / total(cutting.window)
    middles = np.arange(found.type.shape[-2]) * cutting.step + (0 if boundary is not None else cutting.size / 2)
    times = in_dtype(operand(middles, "stft"), dtype) / in_dtype(operand(fs, "stft"), dtype)
    found = moveaxis(found, -1, along if along < found.type.ndim - 2 else -2)
    return _frequencies(cutting, fs, onesided, dtype), times, found


def istft(
    Zxx: ArrayLike, fs: ArrayLike = 1.0, window: Any = "hann", nperseg: int | None = None, noverlap: int | None = None,
    nfft: int | None = None, input_onesided: bool = True, boundary: bool = True, time_axis: int = -1, freq_axis: int = -2,
) -> tuple[Array, Array]:  # fmt: skip
    """The signal whose segments have given Fourier transforms: the inverse of `stft`, of least squares.

    Arguments:
        Zxx: an array with an axis of segments, `time_axis`, and one of frequencies, `freq_axis`.
        fs, window, nperseg, noverlap, nfft: as for `stft`; by default the size of a segment is what the frequencies say.
        input_onesided: whether negative frequencies are left out.
        boundary: whether half a segment was put on both sides of the signal.

    Returns:
        The times, and the signal along the axis that the segments had.

    Raises:
        LeafError: `Zxx` is neither an array nor a number. AxisError: there is no such axis, or both are one.
        ShapeError: sizes that do not fit. ValueError: an unknown window.

    Example:
        >>> _, _, transforms = pb.scipy.signal.stft(pnp.arange(8.0), nperseg=4)
        >>> pb.scipy.signal.istft(transforms)[1].round(3)
        [0. 1. 2. 3. 4. 5. 6. 7.]:f32[8]:cpu(0)
    """
    spectra = transforms.to_transform(Zxx, "istft")
    axes = [normal_axis(axis, spectra.type.ndim, "istft") for axis in (time_axis, freq_axis)]
    if axes[0] == axes[1]:
        raise ShapeError(f"istft takes two different axes, not {time_axis} and {freq_axis}.{at_user_line()}")
    spectra, dtype = moveaxis(spectra, axes, (-2, -1)), real_dtype(spectra.type.dtype)
    count, frequencies = spectra.type.shape[-2:]
    natural = 2 * (frequencies - 1) if input_onesided else frequencies
    size = natural if nperseg is None else operator.index(nperseg)
    wanted = natural + (bool(input_onesided) and size == natural + 1) if nfft is None else nfft
    cutting = _segments("istft", window, size, noverlap, wanted, size, dtype)
    pieces = (transforms.irfft if input_onesided else transforms.ifft)(spectra, cutting.transform)
    pieces = pieces[..., :size] * cutting.window * total(cutting.window)
    length = size + (count - 1) * cutting.step
    places = cutting.places(length)
    signal = zeros((*pieces.type.shape[:-2], length), pieces.type.dtype).at[..., places].add(pieces)
    weights = zeros(length, dtype).at[places].add(cutting.window * cutting.window)
    signal = signal / where(weights > 1e-10, weights, 1)
    if boundary:
        signal = signal[..., size // 2 : length - size // 2]
    times = arange(signal.type.shape[-1], dtype=dtype) / in_dtype(operand(fs, "istft"), dtype)
    return times, moveaxis(signal, -1, axes[0] - (axes[1] < axes[0]))


def _middle(products: Array) -> Array:
    """The median over the segments, of the real and the imaginary parts each, over what it is of n exponential variables of
    mean 1. Source: Allen, Anderson, Brady, Brown and Creighton, Phys. Rev. D 85 (2012), 122006, appendix B."""
    if kind(products.type.dtype) == "c":
        return join(_middle(real(products)), _middle(imag(products)))
    even = 2.0 * np.arange(1, (products.type.shape[-2] - 1) // 2 + 1)
    return median(products, -2) / float(1 + np.sum(1 / (even + 1) - 1 / even))


def csd(
    x: ArrayLike, y: ArrayLike | None, fs: ArrayLike = 1.0, window: Any = "hann", nperseg: int | None = None,
    noverlap: int | None = None, nfft: int | None = None, detrend: Detrend = "constant", return_onesided: bool = True,
    scaling: str = "density", axis: int = -1, average: str = "mean",
) -> tuple[Array, Array]:  # fmt: skip
    """The cross power spectral density of two signals, by Welch's method: of one with itself, its power spectrum.

    Arguments:
        x, y: arrays, the shorter one continued by zeros; None for x itself. axis: the axis of the signals.
        fs, window, nperseg, noverlap, nfft, detrend, return_onesided: as for `stft`; 256 elements a segment by default.
        scaling: "density" for a power a unit of frequency, "spectrum" for a power.
        average: "mean" or "median": over the segments.

    Returns:
        The frequencies, and the spectrum, along the axis of the signals: complex, or real where y is None.

    Raises:
        LeafError: an operand is neither an array nor a number. AxisError: there is no such axis.
        ShapeError: sizes that do not fit. ValueError: an unknown scaling, average, window or trend.

    Example:
        >>> frequencies, power = pb.scipy.signal.csd(pnp.array([1.0, -1.0] * 8), None, nperseg=8)
        >>> int(pnp.argmax(power)), float(frequencies[4])
        (4, 0.5)
    """
    if scaling not in ("density", "spectrum") or average not in ("mean", "median"):
        raise ValueError(
            f"csd takes scaling='density' or 'spectrum' and average='mean' or 'median', not {brief(scaling)} and"
            f" {brief(average)}.{at_user_line()}"
        )
    alone = y is None or y is x
    signals = to_common_dtype("csd", x, x if y is None else y, inexact=True)
    signals = tuple([transforms.to_transform(each, "csd") for each in signals])
    along = normal_axis(axis, signals[0].type.ndim, "csd")
    length = max(each.type.shape[along] for each in signals)
    dtype = real_dtype(signals[0].type.dtype)
    cutting = _segments("csd", window, nperseg, noverlap, nfft, length, dtype)
    onesided, found = _real_signals("csd", return_onesided, *signals), []
    for each in signals[: 1 if alone else 2]:
        row = moveaxis(each, along, -1)
        row = pad(row, [(0, 0)] * (row.type.ndim - 1) + [(0, length - row.type.shape[-1])])
        found.append(_transformed(row, cutting, detrend, onesided))
    weights = cutting.window
    square = (
        total(weights) * total(weights)
        if scaling == "spectrum"
        else total(weights * weights) * in_dtype(operand(fs, "csd"), dtype)
    )
    products = conj(found[0]) * found[-1]
    products = real(products) if y is None else products
    power = (mean(products, -2) if average == "mean" else _middle(products)) / square
    if onesided:  # the negative frequencies' power is in the positive ones'
        twice = np.full(power.type.shape[-1], 2.0, dtype)
        twice[0] = twice[-1 if cutting.transform % 2 == 0 else 0] = 1.0
        power = power * twice
    power = moveaxis(power, -1, along)
    return _frequencies(cutting, fs, onesided, dtype), power


def welch(
    x: ArrayLike, fs: ArrayLike = 1.0, window: Any = "hann", nperseg: int | None = None, noverlap: int | None = None,
    nfft: int | None = None, detrend: Detrend = "constant", return_onesided: bool = True, scaling: str = "density",
    axis: int = -1, average: str = "mean",
) -> tuple[Array, Array]:  # fmt: skip
    """The power spectral density of a signal, by Welch's method: the mean, or median, over overlapping segments.

    Arguments:
        x: an array. axis: the axis of the signal.
        fs, window, nperseg, noverlap, nfft, detrend, return_onesided: as for `stft`; 256 elements a segment by default.
        scaling: "density" for a power a unit of frequency, "spectrum" for a power.
        average: "mean" or "median": over the segments.

    Returns:
        The frequencies, and the spectrum, real, along the axis of the signal.

    Raises:
        LeafError: x is neither an array nor a number. AxisError: there is no such axis.
        ShapeError: sizes that do not fit. ValueError: an unknown scaling, average, window or trend.

    Example:
        >>> pb.scipy.signal.welch(pnp.array([1.0, -1.0] * 8), nperseg=8, scaling="spectrum")[1].round(2)
        [0.  0.  0.  0.5 1. ]:f32[5]:cpu(0)
    """
    rest = (fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)
    return csd(x, None, *rest)
