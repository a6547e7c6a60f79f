"""Where rules have a Program, or one operation, compiled and run: the engine, which is loaded at the first use.

Nothing above the engine imports it. Whoever assembles the package says how it is loaded (`pullback/__init__.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Engine(Protocol):
    """What compiles and runs."""

    def run_program(self, program: Any, arrays: Sequence[Any]) -> list[Any]:
        """A Program's results on Arrays; compiled at the first use."""
        ...

    def run_operation(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """One operation's result on arrays and numbers; compiled once for each combination of types and parameters."""
        ...

    def memory_stats(self, device: Any) -> dict[str, int] | None:
        """How much of a device's memory is in use, where its platform counts that."""
        ...


class _Loader:
    load: Callable[[], Engine]


loader = _Loader()


@functools.cache
def engine() -> Engine:
    """The engine, loaded now if it was not yet."""
    return loader.load()
