"""Bounded: a dict that makes room, so that nothing kept for speed grows for as long as the process runs.

Every cache of the package is one of these, is bounded by something else that docs/architecture.md names, or dies with the
object that it belongs to.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Bounded(dict[Key, Value], Generic[Key, Value]):
    """A dict of at most `limit` entries: the one that was added first makes room for a new one. Reading is a dict's own.

    Arguments:
        limit: how many entries it may have.
        on_full: called with nothing when an entry has to go.
    """

    __slots__ = ("limit", "on_full")

    def __init__(self, limit: int, on_full: Callable[[], Any] | None = None) -> None:
        self.limit = limit
        self.on_full = on_full

    def __setitem__(self, key: Key, value: Value) -> None:
        self.setdefault(key, value)
        super().__setitem__(key, value)

    def setdefault(self, key: Key, value: Value) -> Value:
        """`dict.setdefault`, with room made for the entry."""
        kept = super().setdefault(key, value)
        if len(self) > self.limit:
            while len(self) > self.limit:
                with contextlib.suppress(RuntimeError, StopIteration):  # another thread has just changed or emptied it
                    self.pop(next(iter(self)), None)
            if self.on_full is not None:
                self.on_full()
        return kept
