"""Signals, images and functions through points: what SciPy says; of images of other sizes, sums over pixels."""

import numpy as np
import scipy.fft
import scipy.ndimage
import scipy.signal
from cases import FLOATS, INEXACT, NARROW, case, entry

RNG = np.random.default_rng(0)
A, V = RNG.normal(size=7), RNG.normal(size=4)
X, Y = RNG.normal(size=(4, 5)), RNG.normal(size=(2, 3))
SIGNAL, OTHER = RNG.normal(size=(2, 20)), RNG.normal(size=(2, 17))
WHOLE, WEIGHTS = np.array([3, -1, 4, 1, 5], np.int32), np.array([1, 0, -2], np.int32)
PLACES = np.array([[-2.75, 0.25, 1.4, 3.2, 9.3], [0.3, 4.25, -3.3, 2.9, 1.75]])
MODES = [case(A, V, "full"), case(V, A, "same"), case(A, V, mode="valid")]
PLANES = [case(X, Y), case(X, Y, "same"), case(X, Y, mode="valid")]


def signals(reference, *cases, **options):
    return entry(reference, *cases, dtypes=INEXACT, wrt=(0, 1), weak=True, **options)


def without_option(reference):
    """Without what NumPy does not take."""
    return lambda *args, precision=None, preferred_element_type=None, **given: reference(*args, **given)


def on_grids(name):
    """SciPy's `map_coordinates`, whose names for two modes are others."""
    other = {"constant": "grid-constant", "wrap": "grid-wrap"}

    def reference(x, places, order, mode="constant", cval=0.0):
        return scipy.ndimage.map_coordinates(x, np.asarray(places), order=order, mode=other.get(mode, mode), cval=cval)

    return reference


def kernel(method, x):
    if method == "area":
        raise NotImplementedError
    a = -0.75 if method == "cubic-pytorch" else -0.5
    if method == "linear":
        return np.maximum(0, 1 - x)
    if method.startswith("lanczos"):
        r = int(method[-1])
        return np.where(x > r, 0, np.sinc(x) * np.sinc(x / r))
    return np.where(x < 1, (a + 2) * x**3 - (a + 3) * x**2 + 1, np.where(x < 2, a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a, 0))


def resized(x, shape, method, antialias=True, precision=None):
    """Pixel by pixel: each is a mean of the old ones, weighted by the kernel of their distances."""
    for axis, (old, new) in enumerate(zip(x.shape, shape)):
        if old == new:
            continue
        rows = np.zeros((new, old))
        for i in range(new):
            middle, step = (i + 0.5) * old / new - 0.5, old / new
            if method == "nearest":
                rows[i, int(middle + 0.5)] = 1
            elif method == "area":
                low, high = i * step, (i + 1) * step
                rows[i] = [max(0, min(high, j + 1) - max(low, j)) for j in range(old)]
            else:
                whole = method == "cubic-pytorch" and not antialias
                shown = "cubic" if method == "cubic-pytorch" and antialias else method
                for j in range(-2 * whole, old + 2 * whole):
                    distance = abs(middle - j) / (max(step, 1) if antialias else 1)
                    rows[i, min(max(j, 0), old - 1)] += kernel(shown, distance)
            rows[i] /= rows[i].sum()
        x = np.moveaxis(np.tensordot(x, rows, (axis, 1)), -1, axis)
    return x


def moved(x, shape, dims, scale, shift, method):
    (axis,) = dims
    rows = np.zeros((shape[axis], x.shape[axis]))
    for i in range(shape[axis]):
        middle = (i + 0.5 - shift[0]) / scale[0] - 0.5
        weights = kernel(method, abs(middle - np.arange(x.shape[axis])) / max(1 / scale[0], 1))
        rows[i] = weights / weights.sum() if -0.5 <= middle <= x.shape[axis] - 0.5 else 0
    return np.moveaxis(np.tensordot(x, rows, (axis, 1)), -1, axis)


IMAGES = [case(X, (6, 3), method) for method in ("linear", "cubic", "cubic-pytorch", "lanczos3", "lanczos5", "area", "nearest")]
IMAGES += [case(X, (6, 3), "cubic-pytorch", antialias=False), case(X, (2, 5), "linear", False), case(X[:0], (0, 3), "linear")]
SPECTRA = [case(SIGNAL, nperseg=8), case(SIGNAL.T, 2.0, nperseg=7, noverlap=3, nfft=9, axis=0)]
PAIRS = [case(SIGNAL, OTHER, nperseg=8), case(SIGNAL, SIGNAL[::-1].copy(), scaling="spectrum", nperseg=5, detrend="linear")]
PIECES = np.fft.rfft(RNG.normal(size=(2, 5, 8))).swapaxes(1, 2)


def inverse(z, **given):
    _, signal = scipy.signal.istft(z, **given)
    return np.arange(signal.shape[-1]) * 1.0, signal  # SciPy's times are those of the first axis


TABLE = {
    "numpy.convolve": signals(without_option(np.convolve), *MODES, case(WHOLE, WEIGHTS), case(A, V, precision="highest")),
    "numpy.correlate": signals(without_option(np.correlate), *MODES, case(WEIGHTS, WHOLE, "full")),
    "scipy.signal.convolve": signals(scipy.signal.convolve, *MODES, *PLANES, case(WHOLE, WEIGHTS)),
    "scipy.signal.correlate": signals(scipy.signal.correlate, *MODES, *PLANES, case(WHOLE, WEIGHTS, "same", "direct")),
    "scipy.signal.fftconvolve": entry(scipy.signal.fftconvolve, *MODES, *PLANES, case(X, X[:3], axes=0), dtypes=INEXACT,
    wrt=(0, 1)),
    "scipy.signal.convolve2d": signals(
        scipy.signal.convolve2d, *PLANES, case(X, Y, boundary="wrap"), case(X, Y, "same", "symm"), case(X, Y, fillvalue=2.0)
    ),
    "scipy.signal.correlate2d": signals(scipy.signal.correlate2d, *PLANES, case(X, Y, boundary="wrap"), case(X, Y, "same",
    "symm")),
    "scipy.signal.detrend": entry(
        scipy.signal.detrend, case(A), case(X, 0, "constant"), case(SIGNAL, bp=[5, 12]), case(A, overwrite_data=None),
        dtypes=INEXACT, wrt=(0,),
    ),
    "scipy.signal.stft": entry(
        scipy.signal.stft, *SPECTRA, case(SIGNAL, window="blackman", nperseg=6, boundary="odd", detrend="constant"),
        case(SIGNAL, window=np.ones(6), nperseg=6, boundary=None, padded=False, return_onesided=False),
        dtypes=FLOATS, anything=("padded", "return_onesided"),
    ),
    "scipy.signal.istft": entry(
        inverse, case(PIECES), case(PIECES, nperseg=8, noverlap=5), case(PIECES, window="boxcar", input_onesided=False,
        boundary=False),
        dtypes=("complex64", "complex128"), anything=("input_onesided", "boundary"),
    ),
    "scipy.signal.csd": entry(
        scipy.signal.csd, *PAIRS, case(SIGNAL, SIGNAL[::-1], nperseg=6, average="median"), dtypes=FLOATS,
    ),
    "scipy.signal.welch": entry(
        scipy.signal.welch, *SPECTRA, case(SIGNAL, nperseg=8, detrend=False, return_onesided=False, average="mean"),
        case(SIGNAL, nperseg=5, average="median"),
        dtypes=FLOATS,
        anything=("return_onesided",),
    ),
    "scipy.ndimage.map_coordinates": entry(
        on_grids("map_coordinates"),
        *[case(X, PLACES, 1, mode) for mode in ("constant", "nearest", "wrap", "mirror", "reflect", "grid-mirror")],
        case(X, PLACES, 0, "nearest"), case(X, PLACES, order=1, mode="grid-constant", cval=1.5), case(X, PLACES[:, :0], 1),
        dtypes=FLOATS, wrt=(0, 1), weak=True, vmap=False,
    ),
    **{
        f"scipy.fft.{name}": entry(
            getattr(scipy.fft, name), case(X), case(X, norm="ortho"), *more, dtypes=INEXACT, wrt=(0,)
        )
        for name, more in {
            "dct": [case(X, 2, 7, 0)], "idct": [case(X, n=3)],
            "dctn": [case(X, s=(6, 3)), case(X, axes=(1,))], "idctn": [case(X, s=(6, 3)), case(X, axes=(1,))],
        }.items()
    },
    "image.resize": entry(
        resized, *IMAGES, case(X, (4, 9), "linear", precision=None), dtypes=(*NARROW, *INEXACT), wrt=(0,), weak=True,
        same_dtype=False, anything=("antialias", 3),
    ),
    "image.scale_and_translate": entry(
        moved, case(X, (4, 8), (1,), np.array([1.7]), np.array([0.6]), "cubic"),
        case(X, (5, 5), (0,), np.array([0.45]), np.array([-0.35]), "linear"), dtypes=FLOATS, wrt=(0, 3, 4), order=1,
    ),
    "scipy.integrate.trapezoid": entry(np.trapezoid, case(X), case(A, A**2), dtypes=INEXACT, wrt=(0,)),
}  # fmt: skip
