"""jax.sharding: pullback's meshes, specifications and shardings, with what JAX's have besides.

JAX's meshes say of each axis who decides how arrays are split along it. Here that is said and kept, but decided by the
partitioner in all cases: along an `Explicit` axis as along an `Auto` one.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ContextDecorator, contextmanager
from typing import Any, NamedTuple

import pullback as pb
from pullback.compat.jax.facade import adapter, facade
from pullback.core import meshes
from pullback.core.axes import MeshAxis, axes_around
from pullback.core.devices import Device
from pullback.core.meshes import current_mesh
from pullback.core.modes import overriding
from pullback.core.shardings import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding, check_memory

P = PartitionSpec


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


def _types(given: Any, names: Sequence[str]) -> tuple[AxisType, ...]:
    given = AxisType.Auto if given is None else given
    types = (given,) * len(names) if isinstance(given, AxisType) else tuple(given)
    if len(types) != len(names):
        raise ValueError(f"A mesh has a type for each of its axes {tuple(names)}, but got axis_types={types}.")
    return types


class AbstractMesh(meshes.AbstractMesh):
    """A mesh of which only the axes are known."""

    __slots__ = ("axis_types",)
    axis_types: tuple[AxisType, ...]

    def __new__(cls, axis_sizes: Any = (), axis_names: Any = (), axis_types: Any = None) -> AbstractMesh:
        plain = meshes.AbstractMesh(axis_sizes, axis_names)
        return cls._one(plain.axis_sizes, plain.axis_names, axis_types=_types(axis_types, plain.axis_names))

    abstract_mesh = property(lambda self: self)

    def update(self, axis_sizes: Any = None, axis_names: Any = None, axis_types: Any = None) -> AbstractMesh:
        return AbstractMesh(*_given((axis_sizes, axis_names, axis_types), self))

    def __reduce__(self) -> Any:
        return AbstractMesh, (self.axis_sizes, self.axis_names, self.axis_types)


class Mesh(meshes.Mesh, ContextDecorator):
    """An array of devices with named axes."""

    __slots__ = ("axis_types",)
    axis_types: tuple[AxisType, ...]

    def __new__(cls, devices: Any, axis_names: Any, axis_types: Any = None) -> Mesh:
        plain = meshes.Mesh(devices, axis_names)
        return cls._one(plain.axis_sizes, plain.axis_names, plain.devices, axis_types=_types(axis_types, plain.axis_names))

    abstract_mesh = property(lambda self: AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types))

    def update(self, devices: Any = None, axis_names: Any = None, axis_types: Any = None) -> Mesh:
        return Mesh(*_given((devices, axis_names, axis_types), self))

    def __reduce__(self) -> Any:
        return Mesh, (self.devices, self.axis_names, self.axis_types)


def _given(values: Sequence[Any], mesh: Any) -> list[Any]:
    """The arguments of a mesh, with its own where None is given."""
    own = [mesh.devices if isinstance(mesh, Mesh) else mesh.axis_sizes, mesh.axis_names, mesh.axis_types]
    return [one if value is None else value for value, one in zip(values, own)]


def _named(mesh: Any) -> str:
    axes = ", ".join([f"'{name}': {size}" for name, size in mesh.shape.items()])
    return f"{type(mesh).__name__}({axes}, axis_types={mesh.axis_types})" if axes else f"{type(mesh).__name__}()"


def _mesh_repr(mesh: Any) -> str:
    types = "" if mesh.empty else f", axis_types={mesh.axis_types}"
    return f"{type(mesh).__name__}(axis_sizes={mesh.axis_sizes}, axis_names={mesh.axis_names}{types})"


def _of_type(kind: AxisType) -> Any:
    return property(lambda mesh: tuple([name for name, one in zip(mesh.axis_names, mesh.axis_types) if one is kind]))


def _all_of_type(kind: AxisType) -> Any:
    return property(lambda mesh: {*mesh.axis_types} == {kind})


# What JAX's meshes have besides; put on pullback's class, since there are meshes that pullback makes
OF_MESHES: dict[str, Any] = {
    "axis_types": property(lambda mesh: (AxisType.Auto,) * len(mesh.axis_names)),
    "shape_tuple": property(lambda mesh: tuple(mesh.shape.items())),
    "is_multi_process": property(lambda mesh: len({device.process_index for device in mesh.devices.flat}) > 1),
    "local_devices": property(lambda mesh: [device for device in mesh.devices.flat if device.is_local]),
    **{f"{kind.name.lower()}_axes": _of_type(kind) for kind in AxisType},
    **{f"are_all_axes_{kind.name.lower()}": _all_of_type(kind) for kind in AxisType},
    "__repr__": _mesh_repr,
    "__str__": _named,
}

_NO_MESH = AbstractMesh()


def get_mesh() -> Any:
    return current_mesh() or _NO_MESH


def get_abstract_mesh() -> AbstractMesh:
    """The axes of the mesh that is set; inside a shard_map those along which it works are `Manual`."""
    around = [owner for owner in axes_around().values() if isinstance(owner, MeshAxis)]
    mesh: Any = around[0].mesh if around else get_mesh()
    manual = {owner.axis.name for owner in around}
    types = [AxisType.Manual if name in manual else one for name, one in zip(mesh.axis_names, mesh.axis_types)]
    return AbstractMesh(mesh.axis_sizes, mesh.axis_names, types)


@contextmanager
def use_abstract_mesh(mesh: AbstractMesh) -> Iterator[None]:
    with overriding(mesh=mesh):
        yield


def make_mesh(
    axis_shapes: Sequence[int], axis_names: Sequence[str], axis_types: Any = None, *, devices: Sequence[Device] | None = None
) -> Mesh:
    made = pb.make_mesh(axis_shapes, axis_names, devices=devices)
    return Mesh(made.devices, made.axis_names, AxisType.Explicit if axis_types is None else axis_types)


def create_device_mesh(mesh_shape: Sequence[int], devices: Sequence[Device] | None = None, **how: bool) -> Any:
    """The devices, all of them, as an array of this shape, in their order."""
    made = pb.make_mesh(mesh_shape, [str(axis) for axis in range(len(mesh_shape))], devices=devices)
    count = len(pb.devices() if devices is None else devices)
    if made.size != count:
        raise ValueError(
            f"create_device_mesh puts all {count} devices into mesh_shape, but {tuple(mesh_shape)} has {made.size}."
        )
    return made.devices


# ---- how arrays lie on them -------------------------------------------------------------------------------------------


def make_single_device_sharding(device: Device, *, memory_kind: str | None = None) -> SingleDeviceSharding:
    return SingleDeviceSharding(device, memory_kind=memory_kind)


class UnplacedSharding(NamedSharding):
    """That of a type of which nothing is said: its spec has an entry for each axis, which programs look for."""

    __slots__ = ()

    def __new__(cls, mesh: AbstractMesh, ndim: int) -> UnplacedSharding:
        made = object.__new__(cls)
        made.mesh, made.spec, made.devices, made._places = mesh, PartitionSpec(*[None] * ndim), (), {}
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedSharding) and (self.mesh, self.spec) == (other.mesh, other.spec)

    def __hash__(self) -> int:
        return hash((self.mesh, self.spec))

    def __reduce__(self) -> Any:
        return UnplacedSharding, (self.mesh, len(self.spec))


def _spec_repr(spec: PartitionSpec) -> str:
    return f"P({', '.join(map(repr, spec))}{',' * (len(spec) == 1)})"


def _sharding_repr(sharding: Any) -> str:
    named = isinstance(sharding, NamedSharding)
    what = f"mesh={sharding.mesh}, spec={sharding.spec}" if named else f"device={sharding.devices[0]!r}"
    return f"{type(sharding).__name__}({what}, memory_kind=device)"


def _updated(sharding: NamedSharding, **changed: Any) -> NamedSharding:
    given = {"mesh": sharding.mesh, "spec": sharding.spec, **changed}
    spec = given.pop("spec")
    return NamedSharding(given.pop("mesh"), spec if isinstance(spec, PartitionSpec) else PartitionSpec(*spec), **given)


def _with_memory_kind(sharding: Any, kind: str) -> Any:
    check_memory(kind)
    return sharding


_NO_AXES = property(lambda spec: frozenset())
OF_SPECS: dict[str, Any] = {"__repr__": _spec_repr, "partitions": property(tuple), "unreduced": _NO_AXES, "reduced": _NO_AXES}
OF_SHARDINGS: dict[str, Any] = {
    "memory_kind": property(lambda sharding: "device"),
    "with_memory_kind": _with_memory_kind,
    "_device_assignment": property(lambda sharding: sharding.devices),  # orbax asks for this and the next
    "_addressable_device_assignment": property(lambda sharding: tuple([one for one in sharding.devices if one.is_local])),
}
OF_NAMED: dict[str, Any] = {"__repr__": _sharding_repr, "update": _updated}
OF_SINGLE: dict[str, Any] = {"__repr__": _sharding_repr}


def _whatever_axes(fun: Callable[..., Any] | None = None, **how: Any) -> Any:
    return (lambda fun: fun) if fun is None else fun


auto_axes = explicit_axes = _whatever_axes


class Format(NamedTuple):
    """How the elements lie in memory, and where."""

    layout: Any = None
    sharding: Any = None


def device_of(place: Any) -> Device | None:
    """The one device that a Device, a Sharding, a Format or None means."""
    place = place_of(place)
    if place is None or isinstance(place, Device):
        return place
    if isinstance(place, Sharding) and place.num_devices == 1:
        return place.devices[0]
    raise ValueError(f"One device is needed, but got {place!r}.")


def place_of(place: Any) -> Any:
    """A place, that in a Format. Raises unless it is one."""
    found = place.sharding if isinstance(place, Format) else place
    if found is None or isinstance(found, (Device, Sharding, PartitionSpec)):
        return found
    raise ValueError(f"Where an array goes is said by a Device, a Sharding, a Format or None, but got {found!r}.")


def over_mesh(place: Any) -> Any:
    """What a compiled function is told of where a value lies: nothing, if that is on the one device that there is, or what the
    type of a value has of which nothing is said."""
    place = place_of(place)
    alone = isinstance(place, SingleDeviceSharding) and [*place.devices] == pb.devices()
    return None if alone or isinstance(place, UnplacedSharding) else place


def constrained(x: Any, out_sharding: Any) -> Any:
    """A result, which lies as `out_sharding` says."""
    place = over_mesh(out_sharding)
    return x if place is None else pb.device_put(x, place)


def with_sharding(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which takes JAX's `out_sharding` as well, and whose signature says so."""
    made, signature = _with_sharding(function), inspect.signature(function)
    own = {**signature.parameters, "out_sharding": _OUT_SHARDING}
    made.__signature__ = signature.replace(parameters=sorted(own.values(), key=lambda one: one.kind))
    return made


_OUT_SHARDING = inspect.Parameter("out_sharding", inspect.Parameter.KEYWORD_ONLY, default=None)


@adapter
def _with_sharding(function: Callable[..., Any], *args: Any, out_sharding: Any = None, device: Any = None, **more: Any) -> Any:
    """A function that takes JAX's `out_sharding` as well, and a sharding as `device`."""
    if device is None or isinstance(place_of(device), Device):
        return constrained(function(*args, **more if device is None else {"device": place_of(device), **more}), out_sharding)
    return constrained(function(*args, **more), device)


facade(globals(), "pullback.sharding", own={"placement": "reshard"})
