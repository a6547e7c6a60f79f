"""The watch on random keys that are used twice: which have been used, in a block that looks for that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from pullback.core.context import Inherited
from pullback.core.errors import KeyReuseError
from pullback.core.modes import current_mode

T = TypeVar("T")


class UsedKeys(dict[Any, tuple[str, Any]]):
    """The keys that were used in a block: known ones by their words, traced ones by their identity, for as long as they live;
    each with what used it.

    Attributes:
        asks: whether the block that checks (`pb.checking`) decides what is said of a second use; else it is an error.
    """

    __slots__ = ("asks",)

    def __init__(self, asks: bool = False) -> None:
        super().__init__()
        self.asks = asks

    def tell(self, error: KeyReuseError) -> None:
        """Say that a key is used again."""
        checks = current_mode().checks
        if not self.asks or checks is None:
            raise error
        checks.tell("keys", str(error))

    def living(self) -> dict[Any, tuple[str, Any]]:
        """Those that are there still."""
        return {mark: (name, key) for mark, (name, key) in self.items() if key is None or key() is not None}


used_keys: Inherited[UsedKeys | None] = Inherited("pullback_used_keys", None)  # None: nobody watches


def as_alternatives(runs: Iterable[Callable[[], T]]) -> list[T]:
    """Call functions that stand for branches, of which one will run: what one of them uses up, the others may use as well.

    Example:
        >>> as_alternatives([lambda: 1, lambda: 2])
        [1, 2]
    """
    used = used_keys.get()
    if used is None:
        return [run() for run in runs]
    before = used.living()
    after = UsedKeys()
    found = []
    for run in runs:
        found.append(run())
        after.update(used)
        used.clear()
        used.update(before)
    used.update(after.living())
    return found
