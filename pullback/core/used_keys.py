"""The watch on random keys that are used twice: which have been used, in a block that looks for that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from pullback.core.context import Inherited
from pullback.core.errors import KeyReuseError
from pullback.core.modes import current_mode

T = TypeVar("T")


class Use(NamedTuple):
    """What is known of a key: what has used it up, or "" if it may be used; how often it may be used besides that, since it was
    cloned; and a reference to it, if it is traced."""

    by: str
    spare: int
    key: Any


UNUSED = Use("", 0, None)


class UsedKeys(dict[Any, Use]):
    """The keys that were used in a block: known ones by their words, traced ones by their identity, for as long as they live.

    Attributes:
        asks: whether the block that checks (`pb.checking`) decides what is said of a second use; else it is an error.
    """

    __slots__ = ("asks",)

    def __init__(self, asks: bool = False) -> None:
        super().__init__()
        self.asks = asks

    def by(self, mark: Any) -> str:
        """What has used a key up; "" if nothing has."""
        return self.get(mark, UNUSED).by

    def use(self, mark: Any, name: str, key: Any = None) -> None:
        """A key is used, by what is called `name`."""
        spare = self.get(mark, UNUSED).spare
        self[mark] = Use("", spare - 1, key) if spare else Use(name, 0, key)

    def allow(self, mark: Any, key: Any = None) -> None:
        """A key may be used once more than it may be now."""
        known = self.get(mark, UNUSED)
        self[mark] = Use("", known.spare if known.by else known.spare + 1, key)

    def tell(self, error: KeyReuseError) -> None:
        """Say that a key is used again."""
        checks = current_mode().checks
        if not self.asks or checks is None:
            raise error
        checks.tell("keys", str(error))

    def living(self) -> dict[Any, Use]:
        """Those that are there still."""
        return {mark: use for mark, use in self.items() if use.key is None or use.key() is not None}


used_keys: Inherited[UsedKeys | None] = Inherited("pullback_used_keys", None)  # None: nobody watches


def undoing() -> Callable[[], None]:
    """What makes the keys that are used up from now on unused again."""
    used = used_keys.get()
    before = {} if used is None else used.living()

    def undo() -> None:
        if used is not None:
            used.clear()
            used.update({mark: use for mark, use in before.items() if use.key is None or use.key() is not None})

    return undo


@contextmanager
def drawing_nothing() -> Iterator[None]:
    """In this block functions are traced, and not run: what they use up was not used before, nor is it afterwards."""
    used = used_keys.get()
    with used_keys.setting(None if used is None else UsedKeys(used.asks)):
        yield


def marks_used() -> frozenset[Any]:
    """What the keys are recognized by that have been used up."""
    used = used_keys.get()
    return frozenset() if used is None else frozenset([mark for mark, use in used.items() if use.by])


def as_alternatives(runs: Iterable[Callable[[], T]]) -> list[T]:
    """Call functions that stand for branches, of which one will run: what one of them uses up, the others may use as well.

    Example:
        >>> as_alternatives([lambda: 1, lambda: 2])
        [1, 2]
    """
    used = used_keys.get()
    if used is None:
        return [run() for run in runs]
    undo = undoing()
    after = UsedKeys()
    found = []
    for run in runs:
        found.append(run())
        after.update({mark: use for mark, use in used.items() if use.by or mark not in after})
        undo()
    used.update(after.living())
    return found
