"""Locks that a fork waits for, so that the child does not find them held by threads that it has not got."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable


def lock_across_forks() -> threading.RLock:
    """A lock for what the child of a fork may do as well. It is reentrant, since a signal's handler, or a collection of
    garbage, may come in between and do the same."""
    lock = threading.RLock()
    held_across_forks(lock.acquire, lock.release)
    return lock


def held_across_forks(acquire: Callable[[], object], release: Callable[[], object]) -> None:
    """Have forks hold a lock.

    They acquire first what they were told of last. So it is for a module whose lock is acquired inside those of others to tell
    of it before they do, which is when it is imported.
    """

    def release_if_held() -> None:
        with contextlib.suppress(RuntimeError):  # a Ctrl-C may have come before it was acquired
            release()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=acquire, after_in_parent=release_if_held, after_in_child=release_if_held)
