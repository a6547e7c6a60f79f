"""Shardings: which part of an array each device holds. Pure arithmetic: nothing here knows XLA."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from pullback.core.brief import brief, counted
from pullback.core.devices import Device
from pullback.core.errors import AxisUsedTwice, NotLocal, ShardingError, UnevenShard, UnknownAxis
from pullback.core.interned import Interned
from pullback.core.meshes import AbstractMesh, Mesh, current_mesh, place_of
from pullback.core.source import api_class
from pullback.core.types import ArrayType

Index = tuple[slice, ...]


class _Unconstrained:
    """In a spec: the compiler decides how an axis is divided."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "UNCONSTRAINED"


UNCONSTRAINED = _Unconstrained()


def names_of(part: Any) -> tuple[str, ...]:
    """The mesh axes that one entry of a spec names."""
    return () if part is None or part is UNCONSTRAINED else (part,) if isinstance(part, str) else tuple(part)


def _entry(part: Any) -> Any:
    """An entry of a spec in its plainest form."""
    if part is None or part is UNCONSTRAINED or isinstance(part, str):
        return part
    if isinstance(part, (tuple, list)) and all([isinstance(name, str) for name in part]):
        return None if not part else part[0] if len(part) == 1 else tuple(part)
    raise TypeError(
        "An entry of a PartitionSpec is None, the name of a mesh axis, a tuple of names or UNCONSTRAINED, but got"
        f" {brief(part)}."
    )


@api_class
class PartitionSpec(tuple[Any, ...]):
    """For each axis of an array the mesh axes along which it is divided: a name, a tuple of names (the first changes slowest),
    or None. Axes that it does not reach are not divided; so `P("data")` and `P("data", None)` are equal.

    Arguments:
        partitions: an entry for each axis.

    Raises:
        TypeError: an entry is something else.

    Example:
        >>> import pullback as pb
        >>> pb.P("data", None, ("model", "expert"))
        P('data', None, ('model', 'expert'))
        >>> pb.P("data", None) == pb.P("data")
        True
    """

    __slots__ = ()
    UNCONSTRAINED = UNCONSTRAINED

    def __new__(cls, *partitions: Any) -> Self:
        return super().__new__(cls, map(_entry, partitions))

    @property
    def trimmed(self) -> tuple[Any, ...]:
        """The entries without what is None at the end.

        Example:
            >>> import pullback as pb
            >>> pb.P("data", None).trimmed
            ('data',)
        """
        end = len(self)
        while end and self[end - 1] is None:
            end -= 1
        return tuple(self[:end])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSpec) and self.trimmed == other.trimmed

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.trimmed)

    def __add__(self, other: Any) -> PartitionSpec:
        return PartitionSpec(*self, *other)

    def __repr__(self) -> str:
        return f"P({', '.join(map(repr, self))})"

    def __reduce__(self) -> Any:
        return PartitionSpec, tuple(self)


P = PartitionSpec


class Sharding:
    """Which part of an array each device holds.

    Attributes:
        devices: the devices, in order.

    Example:
        >>> import pullback as pb
        >>> isinstance(pb.numpy.zeros(3).sharding, pb.sharding.Sharding)
        True
    """

    __slots__ = ("__weakref__",)
    devices: tuple[Device, ...]

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the part that each device holds of an array.

        Arguments:
            global_shape: the array's shape.

        Returns:
            A tuple of ints.

        Raises:
            UnevenShard: an axis cannot be divided into parts of one size.

        Example:
            >>> import pullback as pb
            >>> mesh = pb.sharding.AbstractMesh((2, 4), ("data", "model"))
            >>> pb.NamedSharding(mesh, pb.P("data", "model")).shard_shape((8, 8))
            (4, 2)
        """
        raise NotImplementedError

    def places(self, global_shape: Sequence[int]) -> list[Index]:
        """Which part of an array each device holds, in the devices' order.

        Arguments:
            global_shape: the array's shape.

        Returns:
            A list of tuples of slices.

        Example:
            >>> import pullback as pb
            >>> mesh = pb.sharding.AbstractMesh((2,), ("data",))
            >>> pb.NamedSharding(mesh, pb.P("data")).places((8,))
            [(slice(0, 4, None),), (slice(4, 8, None),)]
        """
        raise NotImplementedError

    def text(self, ndim: int) -> str:
        """How types show it: `(data,·)`.

        Arguments:
            ndim: the number of axes of the array.

        Returns:
            A string.

        Example:
            >>> import pullback as pb
            >>> pb.NamedSharding(pb.sharding.AbstractMesh((2,), ("data",)), pb.P("data")).text(2)
            '(data,·)'
        """
        raise NotImplementedError

    @property
    def place(self) -> str:
        """The devices as text.

        Example:
            >>> import pullback as pb
            >>> pb.numpy.zeros(3).sharding.place
            'cpu(0)'
        """
        return place_of(self.devices)

    @property
    def device_set(self) -> set[Device]:
        """The devices.

        Example:
            >>> import pullback as pb
            >>> pb.numpy.zeros(3).sharding.device_set
            {cpu(0)}
        """
        return {*self.devices}

    @property
    def num_devices(self) -> int:
        """How many devices there are.

        Example:
            >>> import pullback as pb
            >>> pb.numpy.zeros(3).sharding.num_devices
            1
        """
        return len(self.devices)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array.

        Example:
            >>> import pullback as pb
            >>> pb.numpy.zeros(3).sharding.is_fully_replicated
            True
        """
        return self._count() == 1

    def _count(self) -> int:
        """How many different parts there are."""
        return 1

    @property
    def addressable_devices(self) -> set[Device]:
        """Those of the devices that belong to this process.

        Example:
            >>> import pullback as pb
            >>> pb.numpy.zeros(3).sharding.addressable_devices
            {cpu(0)}
        """
        return {device for device in self.devices if device.is_local}

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all of the devices belong to this process.

        Example:
            >>> import pullback as pb
            >>> pb.numpy.zeros(3).sharding.is_fully_addressable
            True
        """
        return all([device.is_local for device in self.devices])

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, Index]:
        """Which part of an array each device holds, by device.

        Arguments:
            global_shape: the array's shape.

        Returns:
            A dict of tuples of slices.

        Raises:
            ShardingError: an array cannot be divided so, or the mesh has no devices.

        Example:
            >>> import pullback as pb
            >>> pb.NamedSharding(pb.make_mesh((1,), ("data",)), pb.P("data")).devices_indices_map((8,))
            {cpu(0): (slice(0, 8, None),)}
        """
        if not self.devices:
            raise NotLocal(f"{self!r} lies on no devices: make a mesh of devices (pb.make_mesh).")
        return dict(zip(self.devices, self.places(global_shape), strict=True))

    def addressable_devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, Index]:
        """As `devices_indices_map`, of the devices of this process.

        Arguments:
            global_shape: the array's shape.

        Returns:
            A dict of tuples of slices.

        Raises:
            ShardingError: an array cannot be divided so, or the mesh has no devices.

        Example:
            >>> import pullback as pb
            >>> pb.NamedSharding(pb.make_mesh((1,), ("data",)), pb.P("data")).addressable_devices_indices_map((8,))
            {cpu(0): (slice(0, 8, None),)}
        """
        return {device: index for device, index in self.devices_indices_map(global_shape).items() if device.is_local}

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether two shardings put the same parts of an array on the same devices.

        Arguments:
            other: the other sharding.
            ndim: the number of axes of the array.

        Returns:
            A bool.

        Example:
            >>> import pullback as pb
            >>> mesh = pb.sharding.AbstractMesh((2, 1), ("data", "model"))
            >>> whole, split = [pb.NamedSharding(mesh, pb.P(name)) for name in ("model", "data")]
            >>> whole.is_equivalent_to(pb.NamedSharding(mesh, pb.P()), 1), split.is_equivalent_to(whole, 1)
            (True, False)
        """
        if self is other:
            return True
        if not isinstance(other, Sharding) or self.parts(ndim) != other.parts(ndim) or self.devices != other.devices:
            return False
        shape = self.parts(ndim)  # the smallest array that both divide
        return self.places(shape) == other.places(shape)

    def parts(self, ndim: int) -> tuple[int, ...]:
        """Into how many parts each axis of an array is divided.

        Arguments:
            ndim: the number of axes.

        Returns:
            A tuple of ints.

        Example:
            >>> import pullback as pb
            >>> pb.NamedSharding(pb.sharding.AbstractMesh((2,), ("data",)), pb.P("data")).parts(2)
            (2, 1)
        """
        return (1,) * ndim


class SingleDeviceSharding(Sharding):
    """On one device.

    Arguments:
        device: one of `pb.devices()`.
        memory_kind: None: arrays lie in the memory of their device.

    Example:
        >>> import pullback as pb
        >>> pb.sharding.SingleDeviceSharding(pb.devices()[0])
        SingleDeviceSharding(cpu(0))
    """

    __slots__ = ("devices",)

    def __init__(self, device: Device, *, memory_kind: str | None = None) -> None:
        check_memory(memory_kind)
        self.devices = (device,)

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        return tuple(global_shape)

    def places(self, global_shape: Sequence[int]) -> list[Index]:
        return [tuple([slice(0, size) for size in global_shape])]

    def text(self, ndim: int) -> str:
        return self.place

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleDeviceSharding) and self.devices == other.devices

    def __hash__(self) -> int:
        return hash(self.devices)

    def __repr__(self) -> str:
        return f"SingleDeviceSharding({self.place})"


@api_class
class NamedSharding(Sharding):
    """On the devices of a mesh, divided as a spec says. Two of the same mesh and an equal spec are one object.

    Arguments:
        mesh: a `Mesh`, or an `AbstractMesh` to trace and to plan with.
        spec: a `PartitionSpec`.
        memory_kind: None: arrays lie in the memory of their device.

    Raises:
        UnknownAxis: the spec names an axis that the mesh does not have. AxisUsedTwice: it names one twice.

    Example:
        >>> import pullback as pb
        >>> sharding = pb.NamedSharding(pb.make_mesh((1,), ("data",)), pb.P("data"))
        >>> pb.device_put(pb.numpy.arange(4), sharding).sharding == sharding
        True
    """

    __slots__ = ("_places", "devices", "mesh", "spec")
    mesh: AbstractMesh
    spec: PartitionSpec
    _places: dict[tuple[int, ...], list[Index]]

    def __new__(cls, mesh: AbstractMesh, spec: PartitionSpec, *, memory_kind: str | None = None) -> Self:
        if not isinstance(mesh, AbstractMesh):
            raise TypeError(f"NamedSharding takes a mesh (pb.make_mesh), but got {brief(mesh)} of type {type(mesh).__name__}.")
        if not isinstance(spec, PartitionSpec):
            raise TypeError(f"NamedSharding takes a PartitionSpec (pb.P), but got {brief(spec)} of type {type(spec).__name__}.")
        check_memory(memory_kind)

        def make() -> Any:
            check_spec(mesh, spec)
            made = object.__new__(cls)
            made.mesh, made.spec, made._places = mesh, PartitionSpec(*spec.trimmed), {}
            made.devices = tuple(mesh.devices.flat) if isinstance(mesh, Mesh) else ()
            return made

        return _alive.the_one((mesh, spec), make)  # type: ignore[return-value]

    def entries(self, ndim: int) -> tuple[Any, ...]:
        """The entries of the spec, one for each axis of an array.

        Arguments:
            ndim: the number of axes.

        Returns:
            A tuple of names, tuples of names, and None.

        Raises:
            ShardingError: the spec divides more axes than there are.

        Example:
            >>> import pullback as pb
            >>> pb.NamedSharding(pb.sharding.AbstractMesh((2,), ("data",)), pb.P("data")).entries(2)
            ('data', None)
        """
        if len(self.spec) > ndim:
            raise ShardingError(f"{self.spec} divides {counted(len(self.spec), 'axis')}, but the array has {ndim}.")
        return (*self.spec, *(None,) * (ndim - len(self.spec)))

    def parts(self, ndim: int) -> tuple[int, ...]:
        return tuple([math.prod(self.mesh.sizes_of(names_of(part))) for part in self.entries(ndim)])

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        parts = self.parts(len(global_shape))
        for axis, (size, count) in enumerate(zip(global_shape, parts)):
            if size % count:
                raise UnevenShard(
                    f"Axis {axis} of an array of shape {tuple(global_shape)} has {counted(size, 'element')}, which"
                    f" {self.text(len(parts))} would divide into {counted(count, 'part')}. Pad it to"
                    f" {-(-size // count) * count}, or leave the axis whole."
                )
        return tuple([size // count for size, count in zip(global_shape, parts)])

    def places(self, global_shape: Sequence[int]) -> list[Index]:
        shape = tuple(global_shape)
        if shape not in self._places:
            shard = self.shard_shape(shape)
            coordinates = dict(zip(self.mesh.axis_names, np.indices(self.mesh.axis_sizes).reshape(len(self.mesh.shape), -1)))
            columns: list[Any] = []
            for part, size in zip(self.entries(len(shape)), shard):
                number = np.zeros(self.mesh.size, np.int64)
                for name in names_of(part):
                    number = number * self.mesh.shape[name] + coordinates[name]
                columns.append([slice(n * size, (n + 1) * size) for n in number.tolist()])
            if len(self._places) >= MAX_SHAPES:
                self._places.clear()
            self._places[shape] = list(zip(*columns)) if columns else [()] * self.mesh.size
        return self._places[shape]

    def _count(self) -> int:
        return math.prod(self.mesh.sizes_of([name for part in self.spec for name in names_of(part)]))

    def text(self, ndim: int) -> str:
        return f"({','.join([_shown(part) for part in self.entries(ndim)])})"

    def __repr__(self) -> str:
        return f"NamedSharding({self.mesh}, {self.spec})"

    def __reduce__(self) -> Any:
        return NamedSharding, (self.mesh, self.spec)


MAX_SHAPES = 16  # of arrays, of which a sharding keeps the parts
_alive: Interned[tuple[AbstractMesh, PartitionSpec], NamedSharding] = Interned()


def _shown(part: Any) -> str:
    return "?" if part is UNCONSTRAINED else "+".join(names_of(part)) or "·"


def check_memory(kind: str | None) -> None:
    """Raise for a kind of memory that there is not."""
    if kind not in (None, "device"):
        raise NotImplementedError(
            f"Arrays lie in the memory of their device, and not in memory_kind={brief(kind)}: leave it out."
        )


def check_spec(mesh: AbstractMesh, spec: PartitionSpec) -> None:
    """Raise unless a spec names axes of the mesh, each at most once."""
    named = [name for part in spec for name in names_of(part)]
    for name in named:
        if name not in mesh.shape:
            raise UnknownAxis(
                f"{spec} names the axis {name!r}, but {mesh} has the axes {', '.join(mesh.axis_names) or '(none)'}."
            )
        if named.count(name) > 1:
            raise AxisUsedTwice(f"{spec} names the axis {name!r} twice, but a mesh axis divides an array along one axis only.")


def as_sharding(given: Any, what: str) -> Sharding:
    """A Sharding, or what a PartitionSpec or a Device stands for. `what` is how errors call it."""
    if isinstance(given, Sharding):
        return given
    if isinstance(given, Device):
        return SingleDeviceSharding(given)
    if isinstance(given, PartitionSpec):
        mesh = current_mesh()
        if mesh is None:
            raise ShardingError(
                f"{what} is {given}, which names no mesh: write it inside `with mesh:`, or give"
                f" pb.NamedSharding(mesh, {given})."
            )
        return NamedSharding(mesh, given)
    raise TypeError(
        f"{what} must be a sharding (pb.NamedSharding(mesh, pb.P(...))), a PartitionSpec or a device (pb.devices(platform)[0]),"
        f" but is {brief(given)} of type {type(given).__name__}."
    )


def sharding_of_tiles(mesh: AbstractMesh, tiles: Any, parts: tuple[int, ...]) -> NamedSharding | None:
    """The sharding over a mesh that is said by numbers; None if a spec cannot say it.

    Arguments:
        tiles: for each device a row: which part of each axis of the array it holds.
        parts: into how many parts each axis is divided.
    """
    by_axis = tiles.reshape(*mesh.axis_sizes, len(parts))
    entries = []
    for axis in range(len(parts)):
        steps = {}
        for number, (name, size) in enumerate(mesh.shape.items()):
            if size > 1 and (step := int(by_axis[tuple([int(i == number) for i in range(len(mesh.shape))])][axis])):
                steps[name] = step
        entries.append(tuple(sorted(steps, key=steps.__getitem__, reverse=True)))
    try:
        made = NamedSharding(mesh, PartitionSpec(*entries))
    except ShardingError:  # an axis of the mesh divides two axes of the array, each in part
        return None
    fits = made.parts(len(parts)) == parts and _tiles(made, parts) == tiles.tolist()
    return made if fits else None


def _tiles(sharding: Sharding, parts: tuple[int, ...]) -> list[list[int]]:
    return [[one.start for one in place] for place in sharding.places(parts)]


def on_one_mesh(types: Sequence[ArrayType]) -> tuple[ArrayType, ...]:
    """Types whose shardings are over meshes of the same devices in the same order, said by the axes of one of these; as they
    are where none of them can say them all."""
    given: list[Any] = [type.sharding for type in types]
    meshes = dict.fromkeys([own.mesh for own in given if own is not None])
    if len(meshes) > 1 and len({own.devices for own in given if own is not None}) == 1:
        for mesh in meshes:
            said = [own and _by(own, mesh, type.ndim) for own, type in zip(given, types)]
            if all([own is None or new is not None for own, new in zip(given, said)]):
                return tuple([type if new is None else type.placed(new, type.varying) for type, new in zip(types, said)])
    return tuple(types)


def _by(own: NamedSharding, mesh: AbstractMesh, ndim: int) -> NamedSharding | None:
    """A sharding by the axes of another mesh of the same devices."""
    parts = own.parts(ndim)
    return own if own.mesh is mesh else sharding_of_tiles(mesh, np.array(_tiles(own, parts)).reshape(-1, ndim), parts)


class Shard:
    """The part of an array that one device holds.

    Attributes:
        device: the device. index: which part, a tuple of slices. replica_id: 0 for one of the devices that hold the same part,
            1 for the next, ... data: the part as an Array of its own; None where another process has it.

    Example:
        >>> import pullback as pb
        >>> pb.numpy.arange(2).addressable_shards
        [Shard(cpu(0), [0:2], replica 0)]
    """

    __slots__ = ("data", "device", "index", "replica_id")

    def __init__(self, device: Device, index: Index, replica_id: int, data: Any) -> None:
        self.device = device
        self.index = index
        self.replica_id = replica_id
        self.data = data

    def __repr__(self) -> str:
        shown = ", ".join([f"{one.start}:{one.stop}" for one in self.index])
        return f"Shard({self.device}, [{shown}], replica {self.replica_id})"


def replica_numbers(places: Iterable[Index]) -> Iterator[int]:
    """For each place how many devices before it hold the same part."""
    seen: dict[Any, int] = {}
    for place in places:
        key = tuple([(one.start, one.stop) for one in place])
        seen[key] = number = seen.get(key, -1) + 1
        yield number
