"""Objects of which there is one for each key, so that they compare by identity."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Interned(Generic[Key, Value]):
    """The objects that something holds, and no others, by their keys."""

    __slots__ = ("_alive", "_lock")

    def __init__(self) -> None:
        self._alive: WeakValueDictionary[Key, Any] = WeakValueDictionary()
        self._lock = threading.RLock()  # reentrant, since a collection of garbage may come in between

    def __len__(self) -> int:
        return len(self._alive)

    def the_one(self, key: Key, make: Callable[[], Value]) -> Value:
        """The object of a key: the one that is alive, or a new one."""
        found: Value | None = self._alive.get(key)
        if found is None:
            made = make()
            with self._lock:
                found = self._alive.setdefault(key, made)
        return found
