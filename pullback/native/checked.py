"""Both tiers at once: what PULLBACK_NATIVE=check runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, host_of
from pullback.core.dtypes import FLOAT8_NAMES
from pullback.core.errors import TierMismatch
from pullback.engine.backend import Executable, Relay

# By how much results may differ, in units of the largest element of each: roundings differ, and so do sums' orders.
TOLERANCE = {
    "float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-3, "float64": 1e-9, "complex64": 1e-3, "complex128": 1e-9
}  # fmt: skip
# Twice the smallest normal number: each tier may take what is smaller for 0, and keep it where nothing is left to compute.
FLUSHED = {"bfloat16": 2.0**-125, "float32": 2.0**-125, "float64": 2.0**-1021, "complex64": 2.0**-125, "complex128": 2.0**-1021}
FLOAT8 = 0.5  # of any of these, whose neighbours are as far apart


class CheckedExecutable(Relay):
    """Runs a Program natively and by XLA, compares, and returns what the native code gave.

    Attributes:
        native, shown: the two; XLA's takes no donated memory. name: what the Program is called.
    """

    __slots__ = ("name", "native", "quick")

    def __init__(self, native: Executable, other: Executable, name: str) -> None:
        super().__init__(other)
        self.native, self.name = native, name
        self.result_class, self.quick = native.result_class, native.quick or other.quick

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        others = [array.alias() for array in arrays]  # what is donated is gone when the first call ends
        found, expected = self.native(arrays), self.shown(others)
        compare(self.name, [np.asarray(host_of(x)) for x in found], [np.asarray(host_of(x)) for x in expected])
        return found

    def best(self) -> Executable:
        return CheckedExecutable(self.native.best(), self.shown.best(), self.name)


def compare(name: str, found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Raise `TierMismatch` if results of the two tiers differ by more than roundings do."""
    for place, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        difference = apart(mine, theirs)
        if difference is not None:
            raise TierMismatch(
                f"Result {place} of jit({name}), of dtype {mine.dtype}, is not the same by native code as by XLA: {difference}."
                " If the function is not chaotic, report it; PULLBACK_NATIVE=off leaves everything to XLA."
            )


def apart(mine: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any]) -> str | None:
    """Where two arrays differ by more than roundings do, and by how much; None if they do not."""
    if not mine.size:
        return None
    narrow = mine.dtype.name in FLOAT8_NAMES
    allowed = FLOAT8 if narrow else TOLERANCE.get(mine.dtype.name)
    if allowed is None:
        different = mine != theirs
    else:
        paired = mine.dtype.kind == "c"
        wide = np.complex128 if paired else np.float64
        x, y = mine.astype(wide), theirs.astype(wide)
        finite = np.isfinite(x) & np.isfinite(y)
        with np.errstate(invalid="ignore", over="ignore"):
            scale = min(np.max(np.abs(np.where(finite, y, 0.0))), np.finfo(np.float64).max)
            far = np.abs(x - y) > max(allowed * scale, FLUSHED.get(mine.dtype.name, 0.0))
        alike = (x == y) | (np.isnan(x) & np.isnan(y))
        if paired:  # one part says that a number is infinite, whatever the other one is
            alike |= np.isinf(x) & np.isinf(y)
        different = np.where(finite, far, ~alike)
    if not different.any():
        return None
    first = tuple(map(int, np.argwhere(different)[0]))
    where = f"at {first}" if first else "as a number"
    values = f"{mine[first]!s}, and {theirs[first]!s} by XLA"
    return f"{int(different.sum())} of {mine.size} elements differ, the first {where}: {values}"
