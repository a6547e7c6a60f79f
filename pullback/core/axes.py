"""Named axes: which vmap owns the batch axis that a collective operation refers to by name."""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pullback.core.context import setting
from pullback.core.errors import AxisError, AxisNameError
from pullback.core.source import at_user_line
from pullback.core.tracing import Trace, bind, bind_at

if TYPE_CHECKING:
    from pullback.core.primitive import Primitive


class Axis(NamedTuple):
    """A batch axis. Who carries it is not a part of it: the trace that does, its owner, has it as its `axis`.

    Attributes:
        size: the number of batch elements.
        name: what collective operations call the axis; None if they cannot refer to it.
        strategy: what a cond or while_loop does whose predicate differs between the batch elements: "select" among the
            results for all of them, or "map" it over the elements.
        spmd: the mesh axes along which the batch is divided among devices.
    """

    size: int
    name: Hashable | None = None
    strategy: str = "select"
    spmd: tuple[str, ...] = ()


class AxisOwner(Trace):
    """A trace that carries a batch axis, as that of a vmap does."""

    __slots__ = ("axis",)
    axis: Axis
    told: bool = False
    """Whether what is the same along the axis is told from what differs, and cotangents are so too: those of a shard_map."""

    @property
    def key(self) -> Any:
        """What of it, besides the axis, decides what is traced inside."""
        return None

    def lower(self, primitive: Primitive, write: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """A collective operation over this axis in StableHLO, for an axis that still exists in compiled code."""
        raise AxisError(
            f"{primitive.name} over the axis {self.axis.name!r} cannot be compiled inside {self.describe()}, which carries that"
            " axis: it is computed when the compiled function is batched."
        )


class MeshAxis(AxisOwner):
    """An axis of a mesh, inside a shard_map. It is older than all that is traced there, so operations over it are recorded.

    Several axes, named by a tuple, are as one of the product of their sizes, along which the last one varies fastest.

    Attributes:
        mesh: the mesh. told: see `AxisOwner`.
        index: while the function is written, the number along the axis, if that cannot be had from the device's own number.
        steps: where nothing is compiled, what computes for one device of several that take turns.
    """

    __slots__ = ("index", "mesh", "steps", "told")
    transformation = "shard_map"

    def __init__(self, mesh: Any, name: Hashable, told: bool, steps: Trace | None = None) -> None:
        super().__init__()
        self.axis = Axis(math.prod(mesh.sizes_of(single_names(name))), name)
        self.mesh = mesh
        self.told = told
        self.index: Any = None
        self.steps = steps

    @property
    def key(self) -> Any:
        return self.mesh, self.told

    def block(self) -> tuple[Any, bool, int]:
        """What axes have in common that are as one where they are named together."""
        return self.mesh, self.told, id(self.steps)

    def groups(self, parts: Sequence[Sequence[int]] | None = None) -> list[list[int]]:
        """The numbers of the devices that differ in this axis alone, in its order; or of those in one of its `parts`."""
        rows = rows_along(self.mesh.axis_names, self.mesh.axis_sizes, self.axis.name)
        return [row[list(part)].tolist() for row in rows for part in (parts or [range(self.axis.size)])]

    def lower(self, primitive: Primitive, write: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        assert primitive.across is not None
        return primitive.across(write, self, *args, **{name: params[name] for name in params if name != "axis_name"})

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if self.steps is None:
            raise AxisError(
                f"{primitive.name} over the mesh axis {self.axis.name!r} is not known while a shard_map's function is traced:"
                " leave it out of pb.ensure_compile_time_eval()."
            )
        return self.steps.process(primitive, args, params)


@contextmanager
def mesh_axes(mesh: Any, names: Iterable[Hashable], told: bool, steps: Trace | None = None) -> Iterator[list[MeshAxis]]:
    """The block in which operations refer to axes of a mesh by name, as in a shard_map over them."""
    owners = [MeshAxis(mesh, name, told, steps) for name in names]
    with setting(_named_axes, {**axes_around(), **{owner.axis.name: owner for owner in owners}}):
        yield owners


def rows_along(names: Sequence[Hashable], sizes: Sequence[int], name: Hashable) -> Any:
    """The numbers of the places in a grid with these axes: in each row those that differ along one axis, or several, alone."""
    along = [names.index(one) for one in single_names(name)]
    numbers = np.moveaxis(np.arange(math.prod(sizes)).reshape(sizes), along, range(-len(along), 0))
    return numbers.reshape(-1, math.prod([sizes[place] for place in along]))


def single_names(name: Hashable) -> tuple[Hashable, ...]:
    """The axes that an operation's `axis_name` names: several are in a tuple."""
    return name if name.__class__ is tuple else (name,)


def own_axes(primitive: Primitive, params: dict[str, Any]) -> list[Hashable]:
    """The named axes that an operation itself refers to, apart from the Programs that it holds."""
    return [name for field in primitive.named_axes for name in single_names(params[field])]


def as_one(names: Sequence[Hashable]) -> list[Hashable]:
    """Names of axes with those that follow each other and are of one mesh joined in a tuple, as one axis of that. Raises
    `AxisError` for a name that is there twice."""
    if len({*names}) < len(names):
        raise AxisError(f"A collective names each axis once, not axis_name={tuple(names)!r}.")
    found: list[Hashable] = []
    for name in names:
        owner, before = axis_owner(name), axis_owner(found[-1]) if found else None
        if isinstance(owner, MeshAxis) and isinstance(before, MeshAxis) and owner.block() == before.block():
            found[-1] = (*single_names(found[-1]), name)
        else:
            found.append(name)
    return found


def told_axes() -> tuple[Hashable, ...]:
    """The named axes around this call along which what is the same is told from what differs."""
    axes = axes_around()
    return tuple([name for name, owner in axes.items() if owner.told]) if axes else ()


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
    if name.__class__ is tuple:
        owners = [axis_owner(one) for one in name]
        first = owners[0]
        assert isinstance(first, MeshAxis)
        joined = MeshAxis(first.mesh, name, first.told, first.steps)
        joined.serial = max([owner.serial for owner in owners])
        return joined
    if name not in axes:
        known = (
            f"those around this call are {', '.join(map(repr, axes))}" if axes else "no vmap or shard_map is around this call"
        )
        raise AxisNameError(
            f"There is no axis named {name!r} here: {known}. Name it with pb.vmap(..., axis_name={name!r}), or apply"
            f" pb.shard_map over a mesh that has it.{at_user_line()}"
        )
    return axes[name]


def youngest_owner(names: Iterable[Hashable]) -> AxisOwner | None:
    """Of the traces that own these axes here, the youngest: the one to handle an operation that names them all."""
    axes = axes_around()
    owners = [axes[name] for name in names if name in axes]
    return max(owners, key=lambda owner: owner.serial, default=None)


def bind_named(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """`bind`, also where of the traces around only the owner of a named axis is concerned: what all batch elements share may be
    traced further out than the vmap that knows the axis."""
    if not primitive.named_axes:
        return bind(primitive, args, params)
    return bind_at(youngest_owner(own_axes(primitive, params)), primitive, args, params)


def axis_sizes() -> tuple[tuple[Hashable, int, Any], ...]:
    """The named axes around this call, their sizes, and what else of them decides what is traced, as part of a cache key."""
    axes = axes_around()
    return tuple([(name, owner.axis.size, owner.key) for name, owner in axes.items()]) if axes else ()
