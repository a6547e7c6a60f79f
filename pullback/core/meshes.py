"""Meshes: devices in an array whose axes have names, along which arrays are divided."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from pullback.core.brief import brief, counted
from pullback.core.devices import Device
from pullback.core.errors import ShardingError
from pullback.core.interned import Interned
from pullback.core.modes import current_mode, overriding
from pullback.core.source import api_class

Names = tuple[str, ...]


@api_class
class AbstractMesh:
    """The names and sizes of a mesh's axes, without devices: enough to trace, to print and to plan with.

    Two of the same axes are one object, so meshes compare by identity.

    Arguments:
        axis_sizes: the size of each axis. axis_names: the name of each, a string.

    Attributes:
        axis_sizes, axis_names: those. shape: an ordered dict of sizes by name. size: the number of places for devices.

    Raises:
        ShardingError: names that are no strings, or used twice; sizes that are not positive; or more of one than of the other.

    Example:
        >>> import pullback as pb
        >>> mesh = pb.sharding.AbstractMesh((2, 4), ("data", "model"))
        >>> mesh, mesh.size, mesh.shape["model"]
        (AbstractMesh(data=2, model=4), 8, 4)
    """

    __slots__ = ("__weakref__", "axis_names", "axis_sizes", "key", "shape", "size")
    axis_names: Names
    axis_sizes: tuple[int, ...]
    shape: OrderedDict[str, int]
    size: int
    key: tuple[Any, ...]

    def __new__(cls, axis_sizes: Iterable[int] = (), axis_names: str | Iterable[str] = ()) -> Self:
        return cls._one(axis_sizes, axis_names)

    @classmethod
    def _one(cls, axis_sizes: Iterable[int], axis_names: str | Iterable[str], devices: Any = None, **more: Any) -> Self:
        """The mesh of these axes and devices: the one that is alive, or a new one. `more` has further attributes that tell
        meshes of a subclass apart."""
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        sizes = tuple(axis_sizes)
        _check_axes(cls.__name__, sizes, names)
        sizes = tuple(map(int, sizes))
        key = (cls, sizes, names, None if devices is None else tuple(devices.flat), *more.values())

        def make() -> Any:
            fields: dict[str, Any] = {"axis_names": names, "axis_sizes": sizes, "key": key}
            fields |= more | {"shape": OrderedDict(zip(names, sizes)), "size": math.prod(sizes)}
            fields |= {} if devices is None else {"devices": devices}
            made = object.__new__(cls)
            for name, value in fields.items():
                object.__setattr__(made, name, value)
            return made

        return _alive.the_one(key, make)  # type: ignore[return-value]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"A mesh's {name} cannot be set: make another mesh.")

    def __reduce__(self) -> Any:
        return AbstractMesh, (self.axis_sizes, self.axis_names)

    @property
    def empty(self) -> bool:
        """Whether there are no axes.

        Example:
            >>> import pullback as pb
            >>> pb.sharding.AbstractMesh().empty
            True
        """
        return not self.axis_names

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The axes alone.

        Example:
            >>> import pullback as pb
            >>> pb.make_mesh((1,), ("data",)).abstract_mesh
            AbstractMesh(data=1)
        """
        return AbstractMesh(self.axis_sizes, self.axis_names)

    def sizes_of(self, names: Iterable[str]) -> list[int]:
        """The sizes of some axes.

        Arguments:
            names: names of axes.

        Returns:
            A list of ints.

        Example:
            >>> import pullback as pb
            >>> pb.sharding.AbstractMesh((2, 4), ("data", "model")).sizes_of(["model"])
            [4]
        """
        return [self.shape[name] for name in names]

    def __enter__(self) -> Self:
        block = overriding(mesh=self)
        block.__enter__()
        _entered.blocks.append(block)
        return self

    def __exit__(self, *error: object) -> None:
        _entered.blocks.pop().__exit__(*error)

    def __repr__(self) -> str:
        axes = ", ".join(f"{name}={size}" for name, size in self.shape.items())
        return f"{type(self).__name__}({axes})"


@api_class
class Mesh(AbstractMesh):
    """Devices in an array whose axes have names.

    Arguments:
        devices: an array, or nested lists, of devices, each once.
        axis_names: a name for each of its axes.

    Attributes:
        devices: the NumPy array of devices.
        axis_names, axis_sizes, shape, size: as of an `AbstractMesh`.

    Inside `with mesh:`, specs without a mesh mean this one.

    Raises:
        ShardingError: as `AbstractMesh`; or a device is there twice.

    Example:
        >>> import pullback as pb
        >>> pb.sharding.Mesh([pb.devices()[0]], ("data",))
        Mesh(data=1, cpu(0))
    """

    __slots__ = ("devices",)
    devices: Any

    def __new__(cls, devices: Any, axis_names: str | Iterable[str]) -> Self:
        placed = np.array(devices, object)
        if not all([isinstance(device, Device) for device in placed.flat]):
            raise TypeError(f"Mesh takes an array of devices (pb.devices()), but got {brief(devices)}.")
        if len({*placed.flat}) < placed.size:
            raise ShardingError(f"A device is in a mesh once, but got {', '.join(map(str, placed.flat))}.")
        placed.flags.writeable = False
        return cls._one(placed.shape, axis_names, placed)

    def __reduce__(self) -> Any:
        return Mesh, (self.devices, self.axis_names)

    @property
    def device_ids(self) -> Any:
        """The numbers of the devices, as an array of ints.

        Example:
            >>> import pullback as pb
            >>> pb.make_mesh((1, 1), ("data", "model")).device_ids.tolist()
            [[0]]
        """
        return np.reshape([device.id for device in self.devices.flat], self.axis_sizes)

    def __repr__(self) -> str:
        axes = super().__repr__()[:-1]
        return f"{axes}, {place_of(tuple(self.devices.flat))})" if self.size else f"{axes})"


def alike(one: AbstractMesh, other: AbstractMesh) -> bool:
    """Whether two meshes have the same axes, and the same devices unless one has none. What subclasses say besides of axes
    makes meshes differ, but not where a program runs."""
    if one is other:
        return True
    placed = [mesh.devices for mesh in (one, other) if isinstance(mesh, Mesh)]
    return [*one.shape.items()] == [*other.shape.items()] and (len(placed) < 2 or np.array_equal(*placed))


class _Entered(threading.local):
    """The blocks of meshes in which this thread is."""

    def __init__(self) -> None:
        self.blocks: list[overriding] = []


_entered = _Entered()
_alive: Interned[tuple[Any, ...], AbstractMesh] = Interned()


def _check_axes(kind: str, sizes: tuple[Any, ...], names: tuple[Any, ...]) -> None:
    if len(sizes) != len(names):
        raise ShardingError(f"{kind} takes a name for each of its {counted(len(sizes), 'axis')}, but got axis_names={names}.")
    if not all([isinstance(name, str) for name in names]) or len({*names}) < len(names):
        raise ShardingError(f"{kind} takes different strings as the names of its axes, but got axis_names={names}.")
    if not all([isinstance(size, (int, np.integer)) for size in sizes]):
        raise ShardingError(f"{kind} takes integers as the sizes of its axes, but got {sizes}.")
    if sizes and min(sizes) < 1:
        raise ShardingError(f"Each axis of a mesh has at least one device, but {kind} got the sizes {sizes}.")


def place_of(devices: Sequence[Device]) -> str:
    """Devices as text, consecutive ones in short: `cpu(0-7)`."""
    first, last = devices[0], devices[-1]
    numbers = [device.id for device in devices]
    if numbers == list(range(first.id, last.id + 1)):
        return f"{first.platform}({first.id}-{last.id})" if len(numbers) > 1 else str(first)
    return f"{first.platform}({','.join(map(str, numbers))})"


def current_mesh() -> AbstractMesh | None:
    """The mesh that specs mean here which name none: that of the innermost `with mesh:` or `set_mesh`."""
    found: AbstractMesh | None = current_mode().mesh
    return found


def get_mesh() -> AbstractMesh:
    """The mesh of the innermost `with mesh:` or `set_mesh`; one without axes where there is none.

    Returns:
        A `Mesh` or an `AbstractMesh`.

    Example:
        >>> import pullback as pb
        >>> with pb.make_mesh((1,), ("data",)):
        ...     pb.sharding.get_mesh()
        Mesh(data=1, cpu(0))
    """
    return current_mesh() or AbstractMesh()


@api_class
class set_mesh:
    """Let specs that name no mesh mean this one: from here on in this thread, or inside the `with` block.

    Arguments:
        mesh: a `Mesh` or an `AbstractMesh`.

    Raises:
        TypeError: `mesh` is something else.

    Example:
        >>> import pullback as pb
        >>> with pb.set_mesh(pb.make_mesh((1,), ("data",))):
        ...     pb.sharding.get_mesh()
        Mesh(data=1, cpu(0))
    """

    def __init__(self, mesh: AbstractMesh) -> None:
        if not isinstance(mesh, AbstractMesh):
            raise TypeError(f"set_mesh takes a mesh (pb.make_mesh), but got {brief(mesh)} of type {type(mesh).__name__}.")
        self.mesh = mesh
        self._block = overriding(mesh=mesh)
        self._block.__enter__()

    def __enter__(self) -> AbstractMesh:
        return self.mesh

    def __exit__(self, *error: object) -> None:
        self._block.__exit__(*error)
