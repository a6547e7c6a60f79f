"""Named axes: which vmap owns the batch axis that a collective operation refers to by name."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pullback.core.errors import AxisError
from pullback.core.tracing import Trace


class AxisSize(int):
    """How many examples a batch has, an int; and the batch axis's name, for the rules of operations that ask for it.

    `strategy` is what a cond does whose predicate differs between the examples: "select" among the results of all branches,
    or "map" the cond over the examples.
    """

    name: Hashable | None = None
    strategy: str = "select"

    @classmethod
    def named(cls, size: int, name: Hashable | None, strategy: str = "select") -> AxisSize:
        made = cls(size)
        made.name = name
        made.strategy = strategy
        return made


class AxisOwner(Trace):
    """A trace that carries a batch axis, as vmap's does."""

    __slots__ = ("size",)
    size: AxisSize


_named_axes: ContextVar[dict[Hashable, AxisOwner]] = ContextVar("pullback_named_axes")
_NONE: dict[Hashable, AxisOwner] = {}


@contextmanager
def named_axis(name: Hashable, owner: AxisOwner) -> Iterator[None]:
    """Let collective operations refer to the owner's batch axis by `name` inside the block."""
    token = _named_axes.set({**_named_axes.get(_NONE), name: owner})
    try:
        yield
    finally:
        _named_axes.reset(token)


def axis_owner(name: Hashable) -> Any:
    """The trace that owns a named axis. Raises `AxisError` when there is none of that name."""
    axes = _named_axes.get(_NONE)
    if name not in axes:
        known = f"those around this call are {', '.join(map(repr, axes))}" if axes else "no vmap around this call names one"
        raise AxisError(f"There is no axis named {name!r} here: {known}. Name it with pb.vmap(..., axis_name={name!r}).")
    return axes[name]


def youngest_owner(names: Iterable[Hashable]) -> AxisOwner | None:
    """Of the traces that own these axes here, the youngest: the one to handle an operation that names them all."""
    axes = _named_axes.get(_NONE)
    owners = [axes[name] for name in names if name in axes]
    return max(owners, key=lambda owner: owner.birth, default=None)


def axis_sizes() -> tuple[tuple[Hashable, int], ...]:
    """The named axes around this call and their sizes, as part of a cache key."""
    axes = _named_axes.get(_NONE)
    return tuple([(name, int(owner.size)) for name, owner in axes.items()]) if axes else ()
