"""Both tiers at once: what PULLBACK_NATIVE=check runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, host_of
from pullback.core.dtypes import FLOAT8_NAMES
from pullback.core.errors import TierMismatch
from pullback.engine.backend import Executable

# By how much results may differ, in units of the largest element of each: roundings differ, and so do sums' orders.
TOLERANCE = {
    "float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-3, "float64": 1e-9, "complex64": 1e-3, "complex128": 1e-9
}  # fmt: skip
FLOAT8 = 0.5  # of any of these, whose neighbours are as far apart


class CheckedExecutable(Executable):
    """Runs a Program natively and by XLA, compares, and returns what the native code gave.

    Attributes:
        native, other: the two. name: what the Program is called.
    """

    __slots__ = ("name", "native", "other", "quick")

    def __init__(self, native: Executable, other: Executable, name: str) -> None:
        self.native, self.other, self.name = native, other, name
        self.copies, self.result_class = other.copies, native.result_class
        self.quick = native.quick or other.quick

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        found, expected = self.native(arrays), self.other(arrays)
        compare(self.name, [np.asarray(host_of(x)) for x in found], [np.asarray(host_of(x)) for x in expected])
        return found

    def runner(self) -> None:
        return None

    def optimized_text(self) -> str:
        return self.native.optimized_text()

    def cost_analysis(self) -> dict[str, float]:
        return self.other.cost_analysis()

    def memory_analysis(self) -> dict[str, int]:
        return self.other.memory_analysis()


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
        scale = np.max(np.abs(np.where(finite, y, 0.0)))
        with np.errstate(invalid="ignore"):
            far = np.abs(x - y) > allowed * scale
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
