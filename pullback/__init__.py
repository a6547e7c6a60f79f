"""pullback: composable function transformations over NumPy-like arrays, compiled by XLA.

`import pullback as pb` gives the transformations (`pb.grad`, `pb.jvp`, `pb.vmap`, `pb.jit`, ...), each a function from a
function to a function; `import pullback.numpy as pnp` gives NumPy's functions on pullback's arrays (`pnp.sin`, `pnp.sum`, ...).
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from pullback import numpy  # noqa: F401  (what eager arrays need; all else is found when it is first used)
from pullback.core.absent import absent
from pullback.core.execution import loader

__version__ = "0.1.0"

# The public names and their modules stand in the stub, where type checkers read them, and nowhere else (SPEC 1 of Scientific
# Python): `from <module> import <name> as <name>`, each on a line of its own.
with open(os.path.splitext(__file__)[0] + ".pyi", encoding="utf-8") as _stub:
    _HOME_OF = {words[3]: words[1] for words in map(str.split, _stub) if words[:1] == ["from"]}
__all__ = list(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise absent("pullback", name)
    if _HOME_OF[name] == "pullback":
        return importlib.import_module(f"pullback.{name}")
    found = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = found
    return found


def _load_engine() -> Any:
    """The engine: loaded when something is compiled for the first time."""
    return importlib.import_module("pullback.engine.compile")


loader.load = _load_engine


def __dir__() -> list[str]:
    return sorted(__all__)
