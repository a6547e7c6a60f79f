"""Modules that are slow to load and seldom needed, loaded when something in them is first asked for."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Any


class LazyModule:
    """Stands for a module until an attribute of it is wanted."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(importlib.import_module(self._name), attribute)
        setattr(self, attribute, found)
        return found


def lazy_module(name: str) -> Any:
    """A module to be loaded at the first use of one of its attributes."""
    return LazyModule(name)


def uninterrupted(work: Callable[[], Any]) -> Any:
    """What a function returns that must not end in the middle, as when a module is loaded that can be loaded once. Handlers of
    signals, which may raise, run in the main thread: so it runs in another one, and goes on if they do."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    returned: list[Any] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            returned.append(work())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    try:
        thread.start()
    except RuntimeError:  # none is to be had
        return work()
    thread.join()
    for error in raised:
        raise error
    return returned[0]
