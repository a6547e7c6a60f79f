"""Devices: which there are, and moving arrays between them and the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from pullback.api.shardings import places_as_leaves
from pullback.core.array import Array, PlacedArray, ShardedArray, as_array, find_converter, host_of
from pullback.core.brief import brief
from pullback.core.devices import Device, processes
from pullback.core.errors import DeviceError, LeafError, ShardingError
from pullback.core.shardings import NamedSharding, SingleDeviceSharding, as_sharding
from pullback.core.source import api_boundary
from pullback.core.tracing import Tracer
from pullback.core.trees import OWN_TREES, array_leaves, flatten, structure_paths, unflatten, without_float0
from pullback.engine.backend import Backend, placement
from pullback.engine.place import current_default_device, default_place
from pullback.engine.plugins import platform_named
from pullback.engine.spmd import spread_array
from pullback.ops.constrain import sharding_constraint

T = TypeVar("T")


def _platform(name: str | None) -> Backend:
    wanted = current_default_device().platform if name is None else name
    if not isinstance(wanted, str):
        raise TypeError(f'A platform goes by its name, as "cpu", but got {brief(name)}.')
    return platform_named(wanted)


@api_boundary
def devices(platform: str | None = None) -> list[Device]:
    """The devices of a platform, those of all processes; the environment variable `PULLBACK_CPU_DEVICES` sets how many a CPU
    is divided into, or else XLA's own flag in `XLA_FLAGS`, `--xla_force_host_platform_device_count`.

    Arguments:
        platform: `"cpu"`, or one that a plugin or `register_platform` made known; by default, the default device's.

    Returns:
        A list of `Device`s.

    Raises:
        DeviceError: there is no such platform.

    Example:
        >>> import pullback as pb
        >>> pb.devices("cpu")[0]
        cpu(0)
    """
    there = _platform(platform)
    shared = len(processes.owners.get(there.platform, ()))
    return [Device(there.platform, number) for number in range(shared)] if shared else list(there.devices)


@api_boundary
def local_devices(platform: str | None = None) -> list[Device]:
    """Those of `devices` that belong to this process.

    Arguments:
        platform: as for `devices`.

    Returns:
        A list of `Device`s.

    Raises:
        DeviceError: there is no such platform.

    Example:
        >>> import pullback as pb
        >>> pb.local_devices()[0]
        cpu(0)
    """
    return list(_platform(platform).devices)


@api_boundary
def device_count(platform: str | None = None) -> int:
    """How many devices a platform has.

    Arguments:
        platform: as for `devices`.

    Returns:
        An int.

    Raises:
        DeviceError: there is no such platform.

    Example:
        >>> import pullback as pb
        >>> pb.device_count() >= 1
        True
    """
    return len(devices(platform))


def find_device(device: Any) -> tuple[Backend, int]:
    """The platform's backend and the position there of a Device. Raises `DeviceError` if it does not exist."""
    if not isinstance(device, Device):
        raise TypeError(f"A device is one of pb.devices(), but got {brief(device)}.")
    there = _platform(device.platform)
    if device not in there.devices and not device.is_local:
        raise DeviceError(
            f"{device} belongs to process {device.process_index}, and this is process {processes.index}: put the array on one"
            " of pb.local_devices(), or divide it over devices of several processes."
        )
    if device not in there.devices:
        raise DeviceError(
            f"There is no device {device}; platform {device.platform!r} has {', '.join(map(str, there.devices))}."
        )
    return there, there.devices.index(device)


@api_boundary
def device_put(x: T, device: Any = None) -> T:
    """The arrays of a tree on a device, or divided among the devices of a mesh, where computations with them then happen.

    Arguments:
        x: a tree of arrays and numbers. Traced values in it stay as they are where `device` is one device, since a compiled
            function runs in one place; a sharding constrains them (`pb.lax.with_sharding_constraint`).
        device: one of `pb.devices()`, a sharding, a `PartitionSpec` inside `with mesh:`, or a tree of these that is a prefix of
            `x`; by default, the arrays are put on the default device, and may be moved from there.

    Returns:
        The tree, with an Array on `device` for each leaf. One that is there already shares its
        memory with the array returned, until either is donated.

    Raises:
        DeviceError: there is no such device.
        ShardingError: an array cannot be divided so (`UnevenShard`), or the mesh has no devices (`NotLocal`).

    Example:
        >>> import pullback as pb
        >>> pb.device_put({"w": 1.0}, pb.devices()[0])
        {'w': 1.0:f32[]:cpu(0)}
    """
    plain = without_float0(x)
    leaves, structure = array_leaves(plain, lambda: "x")
    if device is None or isinstance(device, Device):
        there, index = find_device(current_default_device() if device is None else device)
        placed = [leaf if isinstance(leaf, Tracer) else _put(leaf, there, index, device is not None) for leaf in leaves]
        return unflatten(structure, placed)  # type: ignore[no-any-return]
    places = OWN_TREES.broadcast_prefix(places_as_leaves(device, "device_put's device"), plain, "device_put's device", "x")

    def path(i: int) -> str:
        return structure_paths(structure, "x")[i]

    placed = [_put_as(leaf, place, lambda i=i: path(i)) for i, (leaf, place) in enumerate(zip(leaves, places))]  # type: ignore[misc]
    return unflatten(structure, placed)  # type: ignore[no-any-return]


def _put_as(leaf: Any, place: Any, path: Callable[[], str]) -> Any:
    """An array where a device or a sharding says."""
    sharding = SingleDeviceSharding(current_default_device()) if place is None else as_sharding(place, "device_put's device")
    if isinstance(sharding, NamedSharding):
        try:
            if isinstance(leaf, Tracer) or _exchanges(leaf, sharding):
                return sharding_constraint(leaf, sharding=sharding)
            return spread_array(leaf, sharding)
        except ShardingError as error:
            error.args = (f"device_put of {path()}: {error}",)
            raise
    there, index = find_device(sharding.devices[0])
    return leaf if isinstance(leaf, Tracer) else _put(leaf, there, index, place is not None)


def _exchanges(array: Array, sharding: NamedSharding) -> bool:
    """Whether devices are to exchange parts of an array among themselves: where no process sees them all, and where they have
    memory of their own."""
    if not isinstance(array, ShardedArray) or array.sharding is sharding or array.sharding.mesh is not sharding.mesh:
        return False
    return not array.is_fully_addressable or sharding.devices[0].platform != "cpu"


def _put(array: Array, there: Backend, index: int, committed: bool) -> Array:
    wanted = PlacedArray if committed and placement.several else Array
    if array._buffer is not None and array.device == there.devices[index]:
        return wanted(array.type, array._host, array._buffer)
    return wanted(array.type, None, there.put(host_of(array), array.type, index, copy=True))


@api_boundary
def device_get(x: Any) -> Any:
    """The values of a tree's arrays as NumPy arrays, read-only, without a copy where memory allows; other leaves as they are.

    Arguments:
        x: any tree.

    Returns:
        The tree, with NumPy arrays for Arrays and numbers.

    Raises:
        LeafError: a leaf is traced, so that it has no values yet.

    Example:
        >>> import pullback as pb
        >>> pb.device_get({"w": pb.numpy.ones(2)})
        {'w': array([1., 1.], dtype=float32)}
    """
    leaves, structure = flatten(x)
    for leaf in leaves:
        if isinstance(leaf, Tracer):
            raise LeafError(
                f"device_get was given a traced value of type {leaf.type}, which has no values to get yet. Return it from the"
                " traced function, and get that."
            )
    others = [isinstance(leaf, np.ndarray) or find_converter(type(leaf)) is None for leaf in leaves]
    return unflatten(structure, [leaf if other else as_array(leaf).view() for leaf, other in zip(leaves, others)])


@api_boundary
def block_until_ready(x: T) -> T:
    """The tree itself, once the values of all of its arrays have been computed: what a long compiled call returns may still be
    on its way. Leaves that are no Arrays are passed on.

    Arguments:
        x: any tree.

    Returns:
        The tree itself.

    Raises:
        what a Python function that was called by a compiled one raised.

    Example:
        >>> import pullback as pb
        >>> pb.block_until_ready({"w": pb.jit(lambda x: x + 1.0)(1.0)})
        {'w': 2.0:f32[]:cpu(0)}
    """
    _wait_for(x)
    return x


def _wait_for(tree: Any) -> None:
    if tree.__class__ in (tuple, list):  # what most results are made of; to flatten them takes longer than the waiting
        for part in tree:
            _wait_for(part)
    else:
        for leaf in flatten(tree)[0]:
            if isinstance(leaf, Array) and leaf._host is None:  # values that NumPy has seen are there
                leaf.block_until_ready()


@contextmanager
def default_device(device: Device) -> Iterator[None]:
    """Run compiled functions on `device` inside the `with` block, unless their arguments were put on another.

    Arguments:
        device: one of `pb.devices()`.

    Returns:
        A context manager.

    Raises:
        DeviceError: there is no such device.

    Example:
        >>> import pullback as pb
        >>> with pb.default_device(pb.devices()[0]):
        ...     pb.jit(lambda x: x + 1.0)(2.0).device
        cpu(0)
    """
    find_device(device)
    with default_place.setting(device):
        yield
