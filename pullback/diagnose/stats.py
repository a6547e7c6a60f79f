"""What is said of values in short: their range, their mean, how many are NaN or infinite, and the first of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.core.array import Array, HostArray, host_of
from pullback.core.dtypes import accumulation_dtype, kind
from pullback.core.types import ArrayType
from pullback.program.printing import nested_text, number_text

SAMPLE = 8  # how many elements of a value are kept
SHOWN = 6  # elements of a value that are written out as numbers


def numbers_of(array: Array) -> Any:
    """The elements as NumPy's own numbers, to be compared and summed; None of random keys, which are no numbers."""
    host = np.asarray(host_of(array))
    letter = kind(array.dtype)
    if letter == "k":
        return None
    if letter == "s":
        return host.astype(np.int8)
    return host.astype(accumulation_dtype(array.dtype), copy=False) if letter == "f" else host


def finite(numbers: Any) -> bool:
    """Whether none of the elements is NaN or infinite."""
    return numbers is None or numbers.dtype.kind not in "fc" or bool(np.isfinite(numbers).all())


class Stats:
    """The values that one result of an equation had, each time that it ran.

    Attributes:
        type: the type of the result. times: how often it was computed.
        nan, inf: how many elements were NaN, and how many infinite, in all.
        minimum, maximum: of the elements that are not NaN (of complex ones the absolute values); None where there are none.
        sample: the first elements of the first value.

    Example:
        >>> stats = Stats(pb.ArrayType((3,), "float32"))
        >>> stats.add(pnp.array([1.0, float("nan"), 3.0]))
        >>> stats.minimum, stats.maximum, stats.mean, stats.nan
        (1.0, 3.0, 2.0, 1)
        >>> print(stats)
        1.0 .. 3.0, mean 2.0, 1 NaN of 3
    """

    __slots__ = ("_count", "_finite", "_total", "inf", "maximum", "minimum", "nan", "sample", "times", "type")

    def __init__(self, type: ArrayType) -> None:
        self.type = type
        self.times = self.nan = self.inf = 0
        self.minimum: float | int | None = None
        self.maximum: float | int | None = None
        self.sample: list[Any] = []
        self._count = 0
        self._finite = 0
        self._total: float | complex = 0.0

    def add(self, array: Array) -> None:
        """Count one more value."""
        first, numbers = not self.times, numbers_of(array)
        self.times += 1
        self._count += array.size
        if numbers is None:
            return
        if first:
            self.sample = numbers.reshape(-1)[:SAMPLE].tolist()
        if numbers.size:
            with np.errstate(all="ignore"):
                self._count_numbers(numbers.reshape(-1))

    def _count_numbers(self, kept: HostArray) -> None:
        if kept.dtype.kind in "fc" and not np.isfinite(kept).all():
            nan = np.isnan(kept)
            self.nan += int(nan.sum())
            kept = kept[~nan]
            self.inf += int(np.isinf(kept).sum())
        if kept.size:
            sizes = np.abs(kept) if kept.dtype.kind == "c" else kept
            low, high = sizes.min().item(), sizes.max().item()
            self.minimum = low if self.minimum is None else min(self.minimum, low)
            self.maximum = high if self.maximum is None else max(self.maximum, high)
        if self.inf:
            kept = kept[np.isfinite(kept)]
        self._finite += kept.size
        self._total += kept.sum(dtype=np.complex128 if kept.dtype.kind == "c" else np.float64).item()

    @property
    def mean(self) -> float | complex | None:
        """Of the finite elements; None where there are none."""
        return self._total / self._finite if self._finite else None

    def data(self) -> dict[str, Any]:
        """As data for JSON, which has no NaN and no infinity: they are the texts "nan", "inf" and "-inf".

        Example:
            >>> stats = Stats(pb.ArrayType((), "float32"))
            >>> stats.add(pnp.array(float("inf")))
            >>> stats.data()["max"], stats.data()["sample"]
            ('inf', ['inf'])
        """
        return {
            "times": self.times,
            "size": self._count,
            "nan": self.nan,
            "inf": self.inf,
            "min": plain(self.minimum),
            "max": plain(self.maximum),
            "mean": plain(self.mean),
            "sample": [plain(value) for value in self.sample],
        }

    def __str__(self) -> str:
        if kind(self.type.dtype) == "k":
            return "random keys"
        if not self._count:
            return "no elements"
        parts = []
        if self._count == 1 and not self.nan:
            parts.append(_number(self.sample[0]))
        elif self.minimum is not None:
            size = "size " if kind(self.type.dtype) == "c" else ""
            parts.append(f"{size}{_number(self.minimum)} .. {_number(self.maximum)}")
            if self.mean is not None:
                parts.append(f"mean {_number(self.mean)}")
        if self.inf and self._count > 1:
            parts.append(f"{self.inf} infinite of {self._count}")
        if self.nan:
            parts.append(f"{self.nan} NaN of {self._count}" if self._count > 1 else "NaN")
        return ", ".join(parts)


def plain(value: Any) -> Any:
    """A number as JSON can hold it."""
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    return value if value is None or isinstance(value, (bool, int)) or math.isfinite(value) else str(float(value))


def _number(value: Any) -> str:
    if isinstance(value, (bool, int)):
        return str(value)
    if isinstance(value, complex):
        return f"{value.real:.4g}{value.imag:+.4g}j"
    text = f"{value:.4g}"
    return f"{text}.0" if text.lstrip("-").isdigit() else text


def short_text(array: Array) -> str:
    """A value on one line: its elements where they are few, else what is said of them.

    Example:
        >>> short_text(pnp.array([1.0, 2.0])), short_text(pnp.arange(100.0))
        ('[1.0, 2.0]', '0.0 .. 99.0, mean 49.5')
    """
    if kind(array.dtype) == "k":
        return "random keys"
    if array.size <= SHOWN:
        host = np.asarray(host_of(array))
        return number_text(host) if not array.ndim else nested_text(host)
    stats = Stats(array.type)
    stats.add(array)
    return str(stats)
