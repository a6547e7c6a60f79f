"""Devices and arrays on them, at jax's top level."""

from __future__ import annotations

import gc
import platform as python_platform
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pullback as pb
from pullback.compat.jax.sharding import device_of, place_of
from pullback.compat.jax.tree_util import broadcast_prefix, keystr, tree_flatten_with_path
from pullback.compat.jax.trees import flatten
from pullback.compat.jax.version import __version__
from pullback.core.array import Array, find_converter, is_deleted
from pullback.core.devices import Device, processes
from pullback.core.dtypes import is_key
from pullback.core.shardings import PartitionSpec, Sharding, SingleDeviceSharding, as_sharding
from pullback.core.tracing import Tracer
from pullback.core.trees import array_leaf
from pullback.engine.jaxlib import jaxlib
from pullback.ops.convert import convert_element_type


def devices(backend: Any = None) -> list[Device]:
    try:
        return list(pb.devices(getattr(backend, "platform", backend)))
    except pb.errors.DeviceError as error:
        raise RuntimeError(f"Unknown backend {backend!r}. {error}") from None


def local_devices(process_index: int | None = None, backend: Any = None, host_id: int | None = None) -> list[Device]:
    index = processes.index if process_index is None else process_index
    if index not in range(processes.count):
        raise ValueError(f"Unknown process_index {process_index}: there are {processes.count}, counted from 0.")
    return [device for device in devices(backend) if device.process_index == index]


def device_count(backend: Any = None) -> int:
    return len(devices(backend))


def local_device_count(backend: Any = None) -> int:
    return len(local_devices(backend=backend))


def default_backend() -> str:
    return str(pb.devices()[0].platform)


def get_backend(platform: str | None = None) -> Any:
    client: Any = devices(platform)[0].client  # type: ignore[attr-defined] # which arrays.py puts there
    return client


def process_index(backend: Any = None) -> int:
    return processes.index


def process_count(backend: Any = None) -> int:
    return processes.count


def process_indices(backend: Any = None) -> list[int]:
    return list(range(processes.count))


host_id, host_count, host_ids = process_index, process_count, process_indices


# ---- arrays on them ---------------------------------------------------------------------------------------------------


def _array(leaf: Any, where: Callable[[], str]) -> Any:
    return leaf if isinstance(leaf, np.ndarray) and leaf.dtype == pb.float0 else array_leaf(leaf, where)


def device_put(x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None) -> Any:
    """As pb.device_put, to what a Device, a Sharding or a Format means, or a tree of these for parts of the tree."""
    if may_alias and donate is True:
        raise ValueError("device_put either shares the memory of x (may_alias) or gives it away (donate), not both.")
    leaves, structure = flatten(x, None)
    places = [device] * len(leaves)
    if device.__class__ in (tuple, list, dict):
        places = broadcast_prefix(device, x, is_leaf=lambda place: place is None)
    given = broadcast_prefix(donate, x)
    put = []
    for i, (leaf, place) in enumerate(zip(leaves, places)):
        array = _array(leaf, lambda i=i: f"device_put's x{keystr(tree_flatten_with_path(x)[0][i][0])}")  # type: ignore[misc]
        donated = given[i] and isinstance(leaf, Array)
        put.append(_put(array.alias() if donated or may_alias is False else array, place))
        if donated:
            leaf.delete()
    return structure.unflatten(put)


def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Array:
    return pb.numpy.from_dlpack(external_array, device=device_of(device), copy=copy)


def is_supported_dtype(dtype: Any) -> bool:
    """Whether arrays of a dtype go through DLPack: those that NumPy has by itself."""
    return np.dtype(dtype).isbuiltin == 1 and np.dtype(dtype).kind in "biufc"


def _put(array: Any, place: Any) -> Any:
    """An array where it is to be: itself, if it is there already."""
    place = place_of(place)
    if isinstance(place, PartitionSpec):
        place = as_sharding(place, "device_put's device")
    if isinstance(array, Array) and not is_deleted(array):
        there = array.sharding == place if isinstance(place, Sharding) else place is None or array.device == place
        if there and (place is None or array.committed or len(pb.devices()) == 1):
            return array
    return pb.device_put(array, place)


def reshard(xs: Any, out_shardings: Any) -> Any:
    return device_put(xs, out_shardings)


def device_get(x: Any) -> Any:
    """The tree with NumPy arrays in the place of arrays; the rest as it is."""
    leaves, structure = flatten(x, None)
    return structure.unflatten([_fetched(leaf) for leaf in leaves])


def _fetched(leaf: Any) -> Any:
    if isinstance(leaf, Tracer) or leaf.__class__ in (bool, int, float, complex) or find_converter(type(leaf)) is None:
        return leaf
    if is_key(getattr(leaf, "dtype", None)):
        return leaf
    return pb.device_get(leaf)


def _reconstruct_array(fun: Any, args: Any, arr_state: Any, aval_state: dict[str, Any]) -> Any:
    """The array that JAX has put into a pickle: the parts of a NumPy array's, and what its type has besides."""
    values = fun(*args)
    values.__setstate__(arr_state)
    return convert_element_type(device_put(values), new_dtype=values.dtype, weak=aval_state.get("weak_type", False))


def block_until_ready(x: Any) -> Any:
    for leaf in flatten(x, None)[0]:
        if hasattr(leaf, "block_until_ready"):
            leaf.block_until_ready()
    return x


def copy_to_host_async(x: Any) -> Any:
    """The tree itself: arrays are fetched when their values are asked for. Others are told to begin."""
    for leaf in flatten(x, None)[0]:
        if not isinstance(leaf, Array) and (begin := getattr(leaf, "copy_to_host_async", None)) is not None:
            begin()
    return x


def effects_barrier() -> None:
    """Returns at once: what a compiled function does besides computing, it has done when the call returns."""


def live_arrays(platform: str | None = None) -> list[Any]:
    return [one for one in gc.get_objects() if isinstance(one, Array) and not is_deleted(one)]


# ---- arrays made of parts, of which each has one ----------------------------------------------------------------------


def _alone(sharding: Any) -> Device | None:
    """The device of a sharding of one device."""
    place = place_of(sharding)
    return place.devices[0] if isinstance(place, SingleDeviceSharding) else None


def _of_one(shape: Any, value: Any, device: Device) -> Any:
    if value.shape != tuple(shape):
        raise ValueError(f"An array of shape {tuple(shape)} was to be made, of one device's part, which has {value.shape}.")
    return device_put(value, device)


def make_array_from_callback(shape: Any, sharding: Any, data_callback: Callable[..., Any], dtype: Any = None) -> Any:
    if (device := _alone(sharding)) is not None:
        return _of_one(shape, pb.numpy.asarray(data_callback((slice(None),) * len(shape)), dtype), device)
    return pb.make_array_from_callback(
        shape, place_of(sharding), lambda index: pb.numpy.asarray(data_callback(index), dtype), dtype
    )


def make_array_from_process_local_data(sharding: Any, local_data: Any, global_shape: Any = None) -> Any:
    """As pb.make_array_from_process_local_data, of each array of a tree."""
    shapes = global_shape

    def made(data: Any, lies: Any, shape: Any) -> Any:
        value = pb.numpy.asarray(data)
        if (device := _alone(lies)) is not None:
            return _of_one(value.shape if shape is None else shape, value, device)
        return pb.make_array_from_process_local_data(place_of(lies), value, shape)

    leaves, structure = flatten(local_data, None)
    lie = broadcast_prefix(sharding, local_data)
    if shapes is None or (shapes.__class__ is tuple and all([isinstance(size, int) for size in shapes])):
        each = [shapes] * len(leaves)
    else:
        each = broadcast_prefix(shapes, local_data, is_leaf=lambda one: one is None or isinstance(one, tuple))
    return structure.unflatten([made(*args) for args in zip(leaves, lie, each, strict=True)])


def make_array_from_single_device_arrays(shape: Any, sharding: Any, arrays: Sequence[Any], *, dtype: Any = None) -> Any:
    device = _alone(sharding)
    if device is not None and len(arrays) == 1:
        return _of_one(shape, arrays[0], device)
    return pb.make_array_from_single_device_arrays(shape, place_of(sharding), arrays, dtype=dtype)


def print_environment_info(return_string: bool = False) -> str | None:
    """Which versions of what run."""
    text = "\n".join(
        [
            f"jax:    {__version__} (pullback {pb.__version__} in its place)",
            f"jaxlib: {jaxlib().version}",
            f"numpy:  {np.__version__}",
            f"python: {python_platform.python_version()}",
            f"device info: {', '.join(map(repr, devices()))}",
            f"process_count: {process_count()}",
            f"platform: {python_platform.uname()}",
        ]
    )
    if return_string:
        return text
    print(text)
    return None
