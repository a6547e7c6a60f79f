"""Named axes: which vmap owns the batch axis that a collective operation refers to by name."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from pullback.core.context import setting
from pullback.core.errors import AxisError, AxisNameError
from pullback.core.tracing import Trace

if TYPE_CHECKING:
    from pullback.core.primitive import Primitive


class Axis(NamedTuple):
    """A batch axis. Who carries it is not a part of it: the trace that does, its owner, has it as its `axis`.

    Attributes:
        size: the number of batch elements.
        name: what collective operations call the axis; None if they cannot refer to it.
        strategy: what a cond or while_loop does whose predicate differs between the batch elements: "select" among the
            results for all of them, or "map" it over the elements.
    """

    size: int
    name: Hashable | None = None
    strategy: str = "select"


class AxisOwner(Trace):
    """A trace that carries a batch axis, as that of a vmap does."""

    __slots__ = ("axis",)
    axis: Axis

    def lower(self, primitive: Primitive, write: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """A collective operation over this axis in StableHLO, for an axis that still exists in compiled code."""
        raise AxisError(
            f"{primitive.name} over the axis {self.axis.name!r} cannot be compiled inside {self.describe()}, which carries that"
            " axis: it is computed when the compiled function is batched."
        )


_named_axes: ContextVar[dict[Hashable, AxisOwner]] = ContextVar("pullback_named_axes")
_NONE: dict[Hashable, AxisOwner] = {}
axes_around = functools.partial(_named_axes.get, _NONE)
"""The named axes around this call, with the traces that own them."""


def named_axis(name: Hashable, owner: AxisOwner) -> AbstractContextManager[None]:
    """Let collective operations refer to the owner's batch axis by `name` inside the block."""
    return setting(_named_axes, {**axes_around(), name: owner})


def axis_owner(name: Hashable) -> AxisOwner:
    """The trace that owns a named axis. Raises `AxisNameError` when there is none of that name."""
    axes = axes_around()
    if name not in axes:
        known = f"those around this call are {', '.join(map(repr, axes))}" if axes else "no vmap around this call names one"
        raise AxisNameError(f"There is no axis named {name!r} here: {known}. Name it with pb.vmap(..., axis_name={name!r}).")
    return axes[name]


def youngest_owner(names: Iterable[Hashable]) -> AxisOwner | None:
    """Of the traces that own these axes here, the youngest: the one to handle an operation that names them all."""
    axes = axes_around()
    owners = [axes[name] for name in names if name in axes]
    return max(owners, key=lambda owner: owner.serial, default=None)


def axis_sizes() -> tuple[tuple[Hashable, int], ...]:
    """The named axes around this call and their sizes, as part of a cache key."""
    axes = axes_around()
    return tuple([(name, owner.axis.size) for name, owner in axes.items()]) if axes else ()
