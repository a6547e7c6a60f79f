"""pullback: composable function transformations over NumPy-like arrays, compiled by XLA.

`import pullback as pb` gives the transformations (`pb.grad`, `pb.jvp`, `pb.vmap`, `pb.jit`, ...), each a function from a
function to a function; `import pullback.numpy as pnp` gives NumPy's functions on pullback's arrays (`pnp.sin`, `pnp.sum`, ...).
"""

from __future__ import annotations

import importlib
from typing import Any

from pullback import numpy  # noqa: F401  (what eager arrays need; all else is found when it is first used)
from pullback.core.execution import loader
from pullback.core.namespaces import open_namespace

__version__ = "0.1.0"

open_namespace(globals())


def _load_engine() -> Any:
    """The engine: loaded when something is compiled for the first time."""
    importlib.import_module("pullback.native.choice")  # it is asked before XLA
    return importlib.import_module("pullback.engine.compile")


loader.load = _load_engine
