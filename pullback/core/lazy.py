"""Modules that are slow to load and seldom needed, loaded when something in them is first asked for."""

from __future__ import annotations

import importlib
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
