"""Executables that are kept in memory, so that equal Programs compile once; those for the next process are `disk`'s."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from pullback.core.forks import lock_across_forks
from pullback.engine import disk

MAX_IN_MEMORY = 256  # executables, of about 0.3 MB each; those of live functions stay besides


class CacheInfo(NamedTuple):
    """What became of the requests for executables in this process.

    Attributes:
        hits: found in memory. disk_hits: read from disk. compiled: made by XLA. compile_seconds: the time that XLA took.
        entries: executables in memory. directory: where those on disk are; None if none are kept there.
    """

    hits: int
    disk_hits: int
    compiled: int
    compile_seconds: float
    entries: int
    directory: str | None


_memory: OrderedDict[Hashable, Any] = OrderedDict()
_lock = lock_across_forks()
_counts: dict[str, Any] = {"hits": 0, "disk_hits": 0, "compiled": 0, "compile_seconds": 0.0}


def count(what: str, amount: float = 1) -> None:
    with _lock:
        _counts[what] += amount


def cache_info() -> CacheInfo:
    """How many executables were found in memory, read from disk, or compiled, in this process.

    Returns:
        A record with the numbers of executables: `entries` in memory, and how often one was found there, read, or compiled.

    Example:
        >>> import pullback as pb
        >>> pb.cache_info().compiled >= 0
        True
    """
    found = disk.folder()
    with _lock:
        return CacheInfo(**_counts, entries=len(_memory), directory=str(found) if found else None)


# One lock for each key for which something is being made; it lives for as long as a thread holds it or waits for it.
_making: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()


def kept(key: Hashable, make: Callable[[], Any]) -> Any:
    """The executable that is kept under a key; else `make()`, which threads that ask for one key at once run only once.

    Where it fails, its own thread gets the error, and another one that waited tries again.
    """
    with _lock:
        making = _making.setdefault(key, threading.RLock())
    with making:
        with _lock:
            found = _memory.get(key)
            if found is not None:
                _memory.move_to_end(key)
                _counts["hits"] += 1
                return found
        found = make()
        with _lock:
            _memory[key] = found
            while len(_memory) > MAX_IN_MEMORY:  # the one longest unused makes room
                _memory.popitem(last=False)
        return found


def holds(key: Hashable) -> bool:
    """Whether an executable is kept under a key, in memory or, as it seems, on disk."""
    with _lock:
        return key in _memory or (isinstance(key, str) and disk.holds(key))


def forget_all() -> None:
    """Empty the memory; what is on disk stays."""
    with _lock:
        _memory.clear()
