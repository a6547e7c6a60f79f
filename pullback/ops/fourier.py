"""Discrete Fourier transforms over the last axes of an array."""

from __future__ import annotations

import enum
import math

import numpy as np

from pullback.core.dtypes import COMPLEX64, COMPLEX128, FLOAT32, FLOAT64
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.primitive import primitive
from pullback.core.tracing import type_of
from pullback.ops.arithmetic import mul
from pullback.ops.broadcast import broadcast_in_dim
from pullback.ops.complex import conj
from pullback.ops.families import Linear
from pullback.ops.formulas import COMPLEX_DTYPE, PART_DTYPE
from pullback.stablehlo.writer import i64s


class FftType(enum.Enum):
    """Which transform: of complex numbers there and back, FFT and IFFT; of real numbers there, RFFT, and back to them, IRFFT.

    Example:
        >>> lax.FftType("RFFT")
        <FftType.RFFT: 'RFFT'>
    """

    FFT = "FFT"
    IFFT = "IFFT"
    RFFT = "RFFT"
    IRFFT = "IRFFT"


_ON_HOST = {FftType.FFT: "fftn", FftType.IFFT: "ifftn", FftType.RFFT: "rfftn", FftType.IRFFT: "irfftn"}


@primitive
class fft(Linear):
    """The transform of the last axes, of the sizes `fft_lengths`: X_k = sum over n of x_n exp(-2 pi i k n / N).

    A transform back has the other sign, and divides by N. Of what is real, the last axis has the frequencies up to N / 2 only:
    those above are the conjugates of these.
    """

    kinds = "fc"

    def result_type(x, *, fft_type: FftType, fft_lengths: tuple[int, ...]):
        takes = (FLOAT32, FLOAT64) if fft_type is FftType.RFFT else (COMPLEX64, COMPLEX128)
        if x.dtype not in takes:
            raise DtypeError(f"{fft_type.name} takes {takes[0].name} or {takes[1].name} operands, but got {x}.")
        count = len(fft_lengths)
        given = fft_lengths
        if fft_type is FftType.IRFFT:
            given = (*given[:-1], *[length // 2 + 1 for length in given[-1:]])
        if not 1 <= count <= 3 or min(given) < 1 or x.shape[-count:] != given:
            raise ShapeError(
                f"{fft_type.name} of {x} over its last axes takes 1 to 3 fft_lengths, their sizes, not {fft_lengths}."
            )
        if fft_type is FftType.RFFT:
            last = (fft_lengths[-1] // 2 + 1,)
            return x.with_shape((*x.shape[:-1], *last)).with_dtype(COMPLEX_DTYPE[x.dtype], x.weak)
        if fft_type is FftType.IRFFT:
            return x.with_shape((*x.shape[:-1], fft_lengths[-1])).with_dtype(PART_DTYPE[x.dtype], x.weak)
        return x

    def evaluate(x, *, fft_type, fft_lengths):
        return getattr(np.fft, _ON_HOST[fft_type])(x, fft_lengths, range(-len(fft_lengths), 0))

    def lower(write, x, *, fft_type, fft_lengths):
        if 0 in x.shape:
            return write.constant(0, write.result_type)
        return write.op("stablehlo.fft", [x], fft_type=f"#stablehlo<fft_type {fft_type.name}>", fft_length=i64s(fft_lengths))

    def transpose(cotangent, x, *, fft_type, fft_lengths):
        if fft_type in (FftType.FFT, FftType.IFFT):  # a symmetric matrix
            return (fft(cotangent, fft_type=fft_type, fft_lengths=fft_lengths),)
        # the other way, where each frequency counts as often as it stands in the whole transform
        total, last = math.prod(fft_lengths), fft_lengths[-1]
        often = np.full(last // 2 + 1, 2.0)
        often[0] = often[-1 if last % 2 == 0 else 0] = 1.0
        if fft_type is FftType.RFFT:
            scaled = _scaled(conj(cotangent), total / often)
            return (fft(scaled, fft_type=FftType.IRFFT, fft_lengths=fft_lengths),)
        return (conj(_scaled(fft(cotangent, fft_type=FftType.RFFT, fft_lengths=fft_lengths), often / total)),)

    def axis_map(x, *, fft_type, fft_lengths):
        return ({axis: axis for axis in range(x.ndim - len(fft_lengths))},)

    def vectorize(size, args, axes, *, fft_type, fft_lengths):
        return fft(*args, fft_type=fft_type, fft_lengths=fft_lengths), 0

    def cost(operands, results, *, fft_type, fft_lengths):
        count = math.prod(fft_lengths)  # 5 n log2 n real operations of n complex numbers, half as many of n real ones
        half = 0.5 if fft_type in (FftType.RFFT, FftType.IRFFT) else 1
        stacked = results[0] if fft_type is FftType.IRFFT else operands[0]
        return half * 5 * stacked.size * math.log2(max(count, 1))

    def samples(rng):
        z = rng.normal(size=(2, 3, 4)) + 1j * rng.normal(size=(2, 3, 4))
        for fft_type in (FftType.FFT, FftType.IFFT):
            yield (z,), {"fft_type": fft_type, "fft_lengths": (4,)}
            yield (z,), {"fft_type": fft_type, "fft_lengths": (3, 4)}
        yield (z[:0],), {"fft_type": FftType.FFT, "fft_lengths": (4,)}
        for length in (4, 5, 1):
            x = rng.normal(size=(2, 3, length))
            half = z[..., : length // 2 + 1]
            yield (x,), {"fft_type": FftType.RFFT, "fft_lengths": (2, 3, length)}
            yield (half,), {"fft_type": FftType.IRFFT, "fft_lengths": (length,)}
            yield (half,), {"fft_type": FftType.IRFFT, "fft_lengths": (3, length)}


def _scaled(x, factors):
    """Each row of x times real factors."""
    type = type_of(x)
    factors = broadcast_in_dim(factors.astype(type.dtype), shape=type.shape, broadcast_dimensions=(type.ndim - 1,))
    return mul(x, factors)
