"""What became of the calls of one jitted function: how many found their signature, and why the others did not."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pullback.api.functions import Function, argument_name
from pullback.api.signatures import Change, call_leaves, differ, differences, distance, static_text
from pullback.core.bounded import Bounded
from pullback.core.source import innermost, name_of
from pullback.core.trees import Trees

MAX_MISSES = 64  # that are remembered
_SHOWN = 8  # arguments that a signature in words lists

FIRST = "it is called for the first time"
ANEW = (
    f"{FIRST}. Another function of the same code was jitted and traced before: where the two are the same, call jit once,"
    " outside of the loop or the function that calls it"
)
UNLIKE = "no earlier call is like this one"
UNKNOWN = "no earlier call like this one is remembered"
CLOSED = "it closes over traced values of what encloses it, so what was traced of it serves one call only"
FORGOTTEN = "what an earlier call like this one traced has been forgotten"
RAISED = "an earlier call like this one raised an error while it was traced"


_jitted: Bounded[Any, object] = Bounded(256)  # by code, file and name of a function, what its calls were first counted for


class Miss(NamedTuple):
    """A call of a jitted function that had to be traced, and why.

    Attributes:
        reason: in words. signature: the types of the call's arguments, and its static ones, in words.
        nearest: the signature that was seen before and differs least; None at the first call.
        differences: in what they differ: `kind`, `argument` (its path) and `text` of each.
    """

    reason: str
    signature: str
    nearest: str | None
    differences: tuple[Change, ...]

    def __str__(self) -> str:
        if self.nearest is None or not self.differences:
            return f"traced{' again' if self.nearest is not None else ''}, since {self.reason}."
        listed = "\n  ".join([change.text for change in self.differences])
        return f"traced again, since {self.reason}. Compared with the nearest:\n  {listed}"


class CallInfo(NamedTuple):
    """What became of the calls of a jitted function.

    Attributes:
        hits: calls that found their signature. misses: those that were traced. size: signatures that are kept.
        explained: the last misses, of which 64 are remembered.
    """

    hits: int
    misses: int
    size: int
    explained: tuple[Miss, ...]

    def __str__(self) -> str:
        lines = [f"{_many(self.hits, 'hit')}, {_many(self.misses, 'miss', 'es')}, {_many(self.size, 'signature')} kept"]
        first = self.misses - len(self.explained) + 1
        for number, miss in enumerate(self.explained, first):
            lines.append(f"miss {number}, {miss.signature}: {miss}")
        return "\n".join(lines)


def _many(number: int, what: str, plural: str = "s") -> str:
    return f"{number} {what}{'' if number == 1 else plural}"


@dataclass(slots=True, eq=False)
class Noted:
    """A miss as it is kept: the call's key, that of the nearest signature, and the reason; and what the reason of another miss
    by a call like it would be."""

    key: Any
    hash: int
    nearest: Any
    reason: str
    after: str = RAISED


class History:
    """The calls of a jitted function, and the keys of those that missed. What is said of them is found when somebody asks.

    Arguments:
        before: the history of the same function before it was told to forget.

    Attributes:
        calls: how many calls compiled code has counted by itself: a word that it adds to.
        hit: counts a call; no two threads count the same.
        owner: what is the same for all histories of one jitted function, and of no other.
    """

    __slots__ = ("_counted", "_missed", "_misses", "calls", "hit", "owner")

    def __init__(self, before: History | None = None) -> None:
        self.owner: object = object() if before is None else before.owner
        self.calls: np.ndarray[Any, np.dtype[np.uint64]] = np.zeros(1, np.uint64)
        self._counted, self._misses = itertools.count(), itertools.count()
        self.hit = self._counted.__next__
        self._missed: deque[Noted] = deque(maxlen=MAX_MISSES)

    def miss(self, fun: Function, key: Any, seen: Sequence[Any]) -> Noted:
        """Note that a call has to be traced, given the keys that there are. Of several that are as near the last one counts."""
        before, found, missed = next(self._misses), hash(key), list(self._missed)
        again = next((one for one in reversed(missed) if one.hash == found and not differ(one.key, key)), None)
        if again is not None:
            noted = Noted(key, found, key, again.after)
        else:
            known = [*seen, *[one.key for one in missed]]  # calls that raised, or closed over traced values, left no signature
            nearest = min(reversed(known), key=lambda one: distance(one, key), default=None)
            unlike = UNLIKE if before <= max(len(missed), len(seen)) else UNKNOWN
            noted = Noted(key, found, nearest, self._first(fun) if nearest is None else unlike)
        self._missed.append(noted)
        return noted

    def _first(self, fun: Function) -> str:
        """Why the first call of a function is traced."""
        code = getattr(innermost(fun), "__code__", None)
        if code is None:
            return FIRST
        owner = _jitted.setdefault((code, code.co_filename, name_of(fun)), self.owner)
        return FIRST if owner is self.owner else ANEW

    def info(self, fun: Function, size: int, trees: Trees) -> CallInfo:
        """What became of the calls, given how many signatures are kept."""
        explained = tuple([explained_miss(fun, noted, trees) for noted in list(self._missed)])  # at once, for other threads
        return CallInfo(_count(self._counted) + int(self.calls[0]), _count(self._misses), size, explained)


def _count(counter: Any) -> int:
    """How often a counter has counted; its own text is the only thing that tells without counting."""
    return int(repr(counter)[len("count(") : -1])


def explained_miss(fun: Function, noted: Noted, trees: Trees) -> Miss:
    """A miss in words."""
    own = signature_text(fun, noted.key, trees)
    if noted.nearest is None:
        return Miss(noted.reason, own, None, ())
    changes = tuple(differences(fun, noted.nearest, noted.key, trees))
    return Miss(noted.reason, own, signature_text(fun, noted.nearest, trees), changes)


def signature_text(fun: Function, key: Any, trees: Trees) -> str:
    """A signature in words: `(x: f32[3], n=2)`."""
    parts = [f"{path}: {type}" for path, type in zip(call_leaves(fun, key[0], trees), key[1])]
    more = [f"... {len(parts) - _SHOWN} more"] if len(parts) > _SHOWN else []
    fixed = [(argument_name(fun, which) if isinstance(which, int) else which, one) for part in key[2] for which, one in part]
    statics = [f"{name}={static_text(one)}" for name, one in fixed]
    return f"({', '.join([*parts[:_SHOWN], *more, *statics])})"
