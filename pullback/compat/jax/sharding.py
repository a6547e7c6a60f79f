"""jax.sharding: the names of meshes and of how arrays lie on them, of which there is one kind here: whole, on one device.

Meshes, specifications and shardings can be made, compared and asked; arrays are put where a sharding has one device, and
constraints change nothing. A sharding over several devices is refused where an array would have to be split.
"""

from __future__ import annotations

import contextlib
import enum
import inspect
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, Self

import numpy as np

import pullback as pb
from pullback.compat.jax.facade import adapter, facade
from pullback.core.devices import DEFAULT_DEVICE, Device
from pullback.program.equality import Keyed


class AxisType(enum.Enum):
    """Who decides how arrays are split along an axis of a mesh."""

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name


class AbstractDevice(NamedTuple):
    """A kind of device."""

    device_kind: str
    num_cores: int | None = None
    platform: str | None = None


class _Mesh(Keyed):
    """What meshes of devices, and of none, share."""

    def __init__(self, names: Any, sizes: Sequence[int], types: Any, devices: Iterable[Device] = ()) -> None:
        self.axis_names = (names,) if isinstance(names, str) else tuple(names)
        self.axis_sizes = tuple(sizes)
        types = AxisType.Auto if types is None else types
        self.axis_types = tuple(types) if isinstance(types, Sequence) else (types,) * len(self.axis_names)
        if any(name is None for name in self.axis_names):
            raise ValueError(f"Each axis of a mesh has a name, but axis_names={self.axis_names} has None among them.")
        if not len(self.axis_names) == len(self.axis_sizes) == len(self.axis_types):
            raise ValueError(
                f"A mesh of {len(self.axis_sizes)} axes has as many names and types, but got axis_names={self.axis_names} and"
                f" axis_types={self.axis_types}."
            )
        self.key = self.axis_names, self.axis_sizes, self.axis_types, tuple(devices)

    shape = property(lambda self: OrderedDict(zip(self.axis_names, self.axis_sizes)))
    shape_tuple = property(lambda self: tuple(self.shape.items()))
    empty = property(lambda self: not self.axis_names)
    size = property(lambda self: 0 if self.empty else math.prod(self.axis_sizes))
    auto_axes = property(lambda self: self._of_type(AxisType.Auto))
    explicit_axes = property(lambda self: self._of_type(AxisType.Explicit))
    manual_axes = property(lambda self: self._of_type(AxisType.Manual))
    are_all_axes_auto = property(lambda self: len(self.auto_axes) == len(self.axis_names) > 0)
    are_all_axes_explicit = property(lambda self: len(self.explicit_axes) == len(self.axis_names) > 0)
    are_all_axes_manual = property(lambda self: len(self.manual_axes) == len(self.axis_names) > 0)

    def _of_type(self, kind: AxisType) -> tuple[Any, ...]:
        return tuple([name for name, one in zip(self.axis_names, self.axis_types) if one is kind])

    def _updated(self, first: str, given: Any, axis_names: Any, axis_types: Any, **more: Any) -> Self:
        """One that differs in what is not None: `first` is the name of its first argument."""
        changed = {first: given, "axis_names": axis_names, "axis_types": axis_types}
        return type(self)(**{name: getattr(self, name) if value is None else value for name, value in changed.items()}, **more)

    def __str__(self) -> str:
        axes = ", ".join(f"'{name}': {size}" for name, size in self.shape.items())
        return f"{type(self).__name__}({axes}, axis_types={self.axis_types})" if axes else f"{type(self).__name__}()"

    def __repr__(self) -> str:
        types = "" if self.empty else f", axis_types={self.axis_types}"
        return f"{type(self).__name__}(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}{types})"


class AbstractMesh(_Mesh):
    """A mesh of which only the axes are known."""

    def __init__(
        self, axis_sizes: Any = (), axis_names: Any = (), axis_types: Any = None, *, abstract_device: Any = None
    ) -> None:
        super().__init__(axis_names, axis_sizes, axis_types)
        self.abstract_device = abstract_device

    abstract_mesh = property(lambda self: self)

    def update(self, axis_sizes: Any = None, axis_names: Any = None, axis_types: Any = None, **more: Any) -> AbstractMesh:
        return self._updated("axis_sizes", axis_sizes, axis_names, axis_types, **more)


class Mesh(_Mesh, contextlib.ContextDecorator):
    """An array of devices with named axes."""

    def __init__(self, devices: Any, axis_names: Any, axis_types: Any = None) -> None:
        self.devices: Any = np.asarray(devices, object)
        super().__init__(axis_names, self.devices.shape, axis_types, self.devices.flat)

    device_ids = property(lambda self: np.reshape([device.id for device in self.devices.flat], self.devices.shape))
    local_devices = property(lambda self: list(self.devices.flat))
    local_mesh = property(lambda self: self)
    abstract_mesh = property(lambda self: AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types))

    def update(self, devices: Any = None, axis_names: Any = None, axis_types: Any = None) -> Mesh:
        return self._updated("devices", devices, axis_names, axis_types)

    def __enter__(self) -> Self:
        _physical.set((*_physical.get(), self))
        return self

    def __exit__(self, *error: object) -> None:
        _physical.set(_physical.get()[:-1])

    def __reduce__(self) -> Any:
        return Mesh, (self.devices, self.axis_names, self.axis_types)


_physical: ContextVar[tuple[Mesh, ...]] = ContextVar("pullback_jax_meshes", default=())
_abstract: ContextVar[AbstractMesh] = ContextVar("pullback_jax_abstract_mesh")
_NO_MESH = AbstractMesh()


def get_abstract_mesh() -> AbstractMesh:
    return _abstract.get(_NO_MESH)


def get_mesh() -> Mesh:
    return (Mesh(np.empty((), object), ()), *_physical.get())[-1]


class set_mesh:
    """The mesh from here on, or in a `with` block."""

    def __init__(self, mesh: Mesh) -> None:
        if not isinstance(mesh, Mesh):
            raise ValueError(f"set_mesh takes a jax.sharding.Mesh, but got {mesh!r} of type {type(mesh).__name__}.")
        self._before = _physical.get(), _abstract.get(_NO_MESH)
        _physical.set((*_physical.get(), mesh))
        _abstract.set(mesh.abstract_mesh)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        _physical.set(self._before[0])
        _abstract.set(self._before[1])


@contextlib.contextmanager
def use_abstract_mesh(mesh: AbstractMesh) -> Iterator[None]:
    token = _abstract.set(mesh)
    try:
        yield
    finally:
        _abstract.reset(token)


def make_mesh(
    axis_shapes: Sequence[int], axis_names: Sequence[str], axis_types: Any = None, *, devices: Sequence[Device] | None = None
) -> Mesh:
    there = list(pb.devices() if devices is None else devices)
    if math.prod(axis_shapes) > len(there):
        raise ValueError(
            f"A mesh of axis_shapes={tuple(axis_shapes)} has {math.prod(axis_shapes)} devices, but there are {len(there)}:"
            " pullback computes on one device. Give each axis the size 1."
        )
    made = np.asarray(there[: math.prod(axis_shapes)], object).reshape(tuple(axis_shapes))
    return Mesh(made, axis_names, AxisType.Explicit if axis_types is None else axis_types)


# ---- how arrays lie on them -------------------------------------------------------------------------------------------


class _Unconstrained:
    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> Any:
        return "UNCONSTRAINED"


UNCONSTRAINED = _Unconstrained()


def _names(part: Any) -> Any:
    """The names of the axes of a mesh along which an axis of an array is split: None, a name or a tuple of several."""
    if isinstance(part, (tuple, list)):
        return None if not part else part[0] if len(part) == 1 else tuple(part)
    return part


class PartitionSpec(tuple[Any, ...]):
    """For each axis of an array the axes of a mesh along which it is split."""

    UNCONSTRAINED = UNCONSTRAINED
    unreduced: frozenset[Any]
    reduced: frozenset[Any]

    def __new__(cls, *partitions: Any, unreduced: Any = frozenset(), reduced: Any = frozenset()) -> PartitionSpec:
        made = super().__new__(cls, map(_names, partitions))
        for name, given in (("unreduced", unreduced), ("reduced", reduced)):
            if not isinstance(given, (set, frozenset)):
                raise TypeError(
                    f"PartitionSpec takes {name} as a set of names, but got {given!r} of type {type(given).__name__}."
                )
            setattr(made, name, frozenset(given))
        return made

    partitions = property(tuple)
    _parts = property(lambda self: (tuple(self), self.unreduced, self.reduced))

    def update(self, partitions: Any = None, unreduced: Any = None, reduced: Any = None) -> PartitionSpec:
        return _spec(*[own if given is None else given for own, given in zip(self._parts, (partitions, unreduced, reduced))])

    def __repr__(self) -> str:
        sets = [f"{name}={set(found)!r}" for name in ("unreduced", "reduced") if (found := getattr(self, name))]
        return f"P({', '.join([*map(repr, self), *sets])}{',' if len(self) == 1 and not sets else ''})"

    def __reduce__(self) -> Any:
        return _spec, self._parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSpec) and bool(self._parts == other._parts)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._parts)

    def __add__(self, other: Any) -> PartitionSpec:
        if not isinstance(other, tuple):
            raise NotImplementedError
        more = other if isinstance(other, PartitionSpec) else PartitionSpec(*other)
        return _spec([*self, *more], self.unreduced | more.unreduced, self.reduced | more.reduced)

    def __radd__(self, other: Any) -> PartitionSpec:
        return PartitionSpec(*other) + self

    def index(self, value: Any, *within: Any) -> int:
        return super().index(_names(value), *within)

    def count(self, value: Any) -> int:
        return super().count(_names(value))


def _spec(partitions: Any, unreduced: Any, reduced: Any) -> PartitionSpec:
    return PartitionSpec(*partitions, unreduced=unreduced, reduced=reduced)


P = PartitionSpec


class Sharding(Keyed):
    """Where the elements of an array are."""

    _fields: dict[str, Any]
    device_set: set[Device]
    is_fully_addressable = True
    is_fully_replicated = True

    def __init__(self, **fields: Any) -> None:
        self._fields, self.key = fields, tuple(fields.values())
        vars(self).update(fields)

    def update(self, **changed: Any) -> Self:
        return type(self)(**{**self._fields, **changed})

    def with_memory_kind(self, kind: str) -> Self:
        return self.update(memory_kind=kind)

    def __repr__(self) -> str:
        shown = {name: repr(value) if name == "device" else value for name, value in self._fields.items() if value is not None}
        return f"{type(self).__name__}({', '.join([f'{name}={value}' for name, value in shown.items()])})"

    addressable_devices = property(lambda self: self.device_set)
    num_devices = property(lambda self: len(self.device_set))
    _device_assignment = _addressable_device_assignment = property(lambda self: tuple(sorted(self.device_set)))  # orbax asks

    def devices_indices_map(self, global_shape: Any) -> dict[Device, tuple[slice, ...]]:
        check_whole(self)
        return dict.fromkeys(sorted(self.device_set), (slice(None),) * len(global_shape))

    addressable_devices_indices_map = devices_indices_map

    def shard_shape(self, global_shape: Any) -> tuple[int, ...]:
        check_whole(self)
        return tuple(global_shape)

    def is_equivalent_to(self, other: Any, ndim: int) -> bool:
        return isinstance(other, Sharding) and self.device_set == other.device_set and self._whole and other._whole

    _whole = property(lambda self: self.is_fully_replicated)


def check_whole(sharding: Any) -> None:
    if isinstance(sharding, Sharding) and not sharding.is_fully_replicated:
        raise NotImplementedError(f"pullback computes on one device, and splits no array over several, as {sharding} does.")


class SingleDeviceSharding(Sharding):
    """On one device."""

    def __init__(self, device: Device, *, memory_kind: str | None = None) -> None:
        super().__init__(device=device, memory_kind=memory_kind)

    device_set = property(lambda self: {self.device})


def make_single_device_sharding(device: Device, *, memory_kind: str | None = None) -> SingleDeviceSharding:
    return SingleDeviceSharding(device, memory_kind=memory_kind)


DEFAULT_SHARDING = SingleDeviceSharding(DEFAULT_DEVICE)


class NamedSharding(Sharding):
    """On the devices of a mesh, as a specification says."""

    spec: PartitionSpec

    def __init__(self, mesh: Any, spec: PartitionSpec, *, memory_kind: str | None = None) -> None:
        if not isinstance(spec, PartitionSpec):
            raise TypeError(f"NamedSharding takes a PartitionSpec as spec, but got {spec!r} of type {type(spec).__name__}.")
        super().__init__(mesh=mesh, spec=spec, memory_kind=memory_kind)
        for name in self._split:
            if name not in mesh.axis_names:
                raise ValueError(
                    f"NamedSharding got {spec}, which names an axis {name!r}, but the mesh has the axes"
                    f" {tuple(mesh.axis_names)}."
                )
        repeated = [name for name in self._split if self._split.count(name) > 1]
        if repeated:
            raise ValueError(
                f"An axis of a mesh splits one axis of an array, but NamedSharding got {spec}, with {repeated[0]!r} twice."
            )

    @property
    def _split(self) -> list[Any]:
        parts = [part if isinstance(part, tuple) else (part,) for part in self.spec]
        return [name for part in parts for name in part if name is not None and name is not UNCONSTRAINED]

    device_set = property(lambda self: set(self.mesh.devices.flat))
    num_devices = property(lambda self: self.mesh.size)
    is_fully_replicated = property(lambda self: math.prod([self.mesh.shape[name] for name in self._split]) == 1)

    def update(self, **changed: Any) -> NamedSharding:
        if "spec" in changed and not isinstance(changed["spec"], PartitionSpec):
            changed["spec"] = PartitionSpec(*changed["spec"])
        return super().update(**changed)


def reshard(xs: Any, out_shardings: Any) -> Any:
    """The arrays themselves: they lie whole on one device, in every sharding that there is."""
    check_whole(out_shardings)
    return xs


def _whatever_axes(fun: Callable[..., Any] | None = None, **how: Any) -> Any:
    return (lambda fun: fun) if fun is None else fun


auto_axes = explicit_axes = _whatever_axes


class Format(NamedTuple):
    """How the elements lie in memory, and where."""

    layout: Any = None
    sharding: Any = None


def device_of(place: Any) -> Device | None:
    """The one device that a Device, a Sharding, a Format or None means."""
    if isinstance(place, Format):
        place = place.sharding
    if isinstance(place, Sharding):
        check_whole(place)
        found: Device = min(place.device_set)
        return found
    if place is None or isinstance(place, Device):
        return place
    raise ValueError(f"Where an array goes is said by a Device, a Sharding, a Format or None, but got {place!r}.")


def with_sharding(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which takes JAX's `out_sharding` as well, and whose signature says so."""
    made, signature = _with_sharding(function), inspect.signature(function)
    own = {**signature.parameters, "out_sharding": _OUT_SHARDING}
    made.__signature__ = signature.replace(parameters=sorted(own.values(), key=lambda one: one.kind))
    return made


_OUT_SHARDING = inspect.Parameter("out_sharding", inspect.Parameter.KEYWORD_ONLY, default=None)


@adapter
def _with_sharding(function: Callable[..., Any], *args: Any, out_sharding: Any = None, device: Any = None, **more: Any) -> Any:
    """A function that takes JAX's `out_sharding` as well: the result is on one device, whatever it says; and as `device` a
    sharding."""
    return function(*args, **more) if device is None else function(*args, device=device_of(device), **more)


facade(globals())
