"""Names of other libraries over pullback, for programs that were written for those: Nabla's; and JAX's, in `compat.jax`."""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["nabla"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__ or name == "jax":
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return sorted(__all__)
