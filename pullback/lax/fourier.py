"""The Fourier transform, by the name and signature that it is known by."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.dtypes import kind
from pullback.core.errors import DtypeError
from pullback.numpy.fft.transforms import to_transform
from pullback.numpy.promotion import at_user_line, in_dtype
from pullback.ops import fourier
from pullback.ops.formulas import COMPLEX_DTYPE
from pullback.ops.fourier import FftType


def fft(x: ArrayLike, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Array:
    """The discrete Fourier transform over the last axes.

    Arguments:
        x: an array. RFFT takes real numbers, the others complex ones, to which real ones are converted.
        fft_type: an `FftType`, or its name: "FFT", "IFFT", "RFFT" or "IRFFT".
        fft_lengths: the sizes of the last axes, at most 3; of IRFFT, those of the result, whose last n comes from n // 2 + 1.

    Returns:
        An array, complex, or real from IRFFT.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: RFFT of complex numbers. ShapeError: sizes that x does not have. ValueError: no such transform.

    Example:
        >>> lax.fft(pnp.array([1.0, 2.0, 3.0, 4.0]), "RFFT", (4,))
        [10.+0.j -2.+2.j -2.+0.j]:c64[3]:cpu(0)
    """
    try:
        which = fft_type if isinstance(fft_type, FftType) else FftType[fft_type.upper()]
    except (KeyError, AttributeError):
        raise ValueError(f"fft takes as fft_type FFT, IFFT, RFFT or IRFFT, not {brief(fft_type)}.{at_user_line()}") from None
    lengths = tuple(map(operator.index, fft_lengths))
    value = to_transform(x, "fft")
    if which is FftType.RFFT and kind(value.type.dtype) == "c":
        raise DtypeError(f"RFFT takes real numbers, but got {value.type}; FFT takes complex ones.{at_user_line()}")
    if which is not FftType.RFFT:
        value = in_dtype(value, COMPLEX_DTYPE.get(value.type.dtype, value.type.dtype), value.type.weak)
    return fourier.fft(value, fft_type=which, fft_lengths=lengths) if lengths else value
