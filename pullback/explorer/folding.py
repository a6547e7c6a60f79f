"""Rows under headings: the functions and named scopes that equations belong to, and stretches that repeat themselves."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.explorer.page_data import Row

LEAST_COPIES, LEAST_EQUATIONS = 3, 9  # that are folded into one
LONGEST_PERIOD = 600  # equations in one copy
FORWARD = frozenset(["primal", "tangent", "residual"])  # the roles of equations before the backward pass


class Unit(NamedTuple):
    """An equation with all that it holds. scope: where it belongs; token: equal for equations that do the same."""

    scope: tuple[str, ...]
    token: Any
    rows: list[Row]


def arranged(units: Sequence[Unit], new: Callable[..., Row]) -> list[Row]:
    """The rows of equations under headings: repetitions first, scopes inside and between them."""
    shared = _common([unit.scope for unit in units])
    units = [unit._replace(scope=unit.scope[len(shared) :]) for unit in units]
    turn = _turn(units)
    return [row for half in (units[:turn], units[turn:]) for row in _folded(half, new)]


def _turn(units: Sequence[Unit]) -> int:
    """Where a backward pass begins that has nothing of the forward pass behind it: no heading is to hold both."""
    roles = [unit.rows[0]["role"] for unit in units]
    turn = roles.index("cotangent") if "cotangent" in roles else 0
    return 0 if FORWARD.intersection(roles[turn:]) else turn


def _folded(units: Sequence[Unit], new: Callable[..., Row]) -> list[Row]:
    rows: list[Row] = []
    at = 0
    for start, period, count in repetitions([unit.token for unit in units]):
        rows += _scoped(units[at:start], new)
        copies: list[Row] = []
        for copy in range(count):
            inner = _scoped(units[start + copy * period : start + (copy + 1) * period], new)
            copies += [new(head="copy", label=f"{copy + 1} of {count}", span=len(inner)), *inner]
        label = _label([units[start + copy * period : start + (copy + 1) * period] for copy in range(count)], period)
        rows += [new(head="repeat", label=label, count=count, period=period, span=len(copies)), *copies]
        at = start + period * count
    return rows + _scoped(units[at:], new)


def _label(copies: Sequence[Sequence[Unit]], period: int) -> str:
    """What copies of some equations are called: by their scopes, `layer`, or where these differ, `layer 0 to layer 5`."""
    first, *others = [dict.fromkeys([unit.scope[0] for unit in copy if unit.scope]) for copy in copies]
    if not 0 < len(first) <= 3:
        return f"{period} equations"
    name, last = ", ".join(first), ", ".join(others[-1])
    return name if all([names == first for names in others]) else f"{name} to {last}"


def _scoped(units: Sequence[Unit], new: Callable[..., Row]) -> list[Row]:
    rows: list[Row] = []
    for name, group in itertools.groupby(units, lambda unit: unit.scope[:1]):
        members = list(group)
        if not name or len(members) < 2:
            rows += [row for unit in members for row in unit.rows]
            continue
        inner = _scoped([unit._replace(scope=unit.scope[1:]) for unit in members], new)
        rows += [new(head="scope", label=name[0], span=len(inner)), *inner]
    return rows


def _common(scopes: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """What all scopes begin with."""
    if not scopes:
        return ()
    low, high = min(scopes), max(scopes)
    return low[: next((i for i, (a, b) in enumerate(zip(low, high)) if a != b), min(len(low), len(high)))]


def repetitions(tokens: Sequence[Any]) -> list[tuple[int, int, int]]:
    """Stretches that are one block several times in a row: (start, length of the block, how often), apart from each other.

    Those that cover most are taken, of several periods the shortest.

    Example:
        >>> repetitions([*"xabcabcabcabcy"])
        [(1, 3, 4)]
    """
    numbers: dict[Any, int] = {}
    row = np.array([numbers.setdefault(token, len(numbers)) for token in tokens], np.int64)
    found = []
    for period in range(2, min(len(row) // LEAST_COPIES, LONGEST_PERIOD) + 1):
        same = row[:-period] == row[period:]
        if np.count_nonzero(same) < (LEAST_COPIES - 1) * period:
            continue
        edges = np.flatnonzero(np.diff(same, prepend=False, append=False)).tolist()
        for start, end in zip(edges[::2], edges[1::2]):
            count = (end - start) // period + 1
            if count >= LEAST_COPIES and count * period >= LEAST_EQUATIONS:
                found.append((count * period, -period, start, count))
    taken: list[tuple[int, int, int]] = []
    for length, period, start, count in sorted(found, reverse=True):
        if all([start + length <= first or first + p * c <= start for first, p, c in taken]):
            taken.append((start, -period, count))
    return sorted(taken)
