"""What a structure keeps of a container besides its parts, as it was when the structure was made."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from pullback.core.array import Array
from pullback.core.tracing import Tracer


def as_it_is_now(value: Any) -> Any:
    """A value for a structure to keep: what can change, and is compared by what is in it, is copied, and so is what is in it.
    Else a structure would change with it, and be taken for that of a later instance.

    What has a hash does not change, as Python has it, or is compared by identity. Arrays are not copied, which may be large,
    nor is what has no copy that is equal to it.
    """
    if _stands_for_itself(value):
        return value
    kind = type(value)
    try:
        if kind is set:
            return value.copy()
        if kind in (list, dict) and _has_hash(tuple(value if kind is list else value.values())):
            return value.copy()
        copier = _Copier()
        copier.dump(value)
        made = copier.copy()
        return made if made == value else value
    except Exception:  # whatever the methods of the user's class raise: one that cannot be copied is kept as it is
        return value


def _has_hash(value: Any) -> bool:
    try:
        hash(value)
    except Exception:  # a TypeError, unless the class is the user's
        return False
    return True


def _stands_for_itself(value: Any) -> bool:
    return _has_hash(value) or isinstance(value, (np.ndarray, Array, Tracer))


class _Copier(pickle.Pickler):
    """Copies as pickling does, which takes any class and any cycle, but shares what stands for itself."""

    def __init__(self) -> None:
        self.written = io.BytesIO()
        self.shared: list[Any] = []
        super().__init__(self.written, pickle.HIGHEST_PROTOCOL)

    def persistent_id(self, value: Any) -> int | None:
        if not _stands_for_itself(value):
            return None
        self.shared.append(value)
        return len(self.shared) - 1

    def copy(self) -> Any:
        """What was dumped, anew."""
        self.written.seek(0)
        return _Reader(self.written, self.shared).load()


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, shared: list[Any]) -> None:
        super().__init__(file)
        self.shared = shared

    def persistent_load(self, pid: Any) -> Any:
        return self.shared[pid]
