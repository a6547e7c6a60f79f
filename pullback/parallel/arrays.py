"""Arrays that are divided among devices: made of their parts, and put together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from pullback.api.compiled import jit
from pullback.api.devices import device_put, devices
from pullback.core.array import Array, ShardedArray, as_array, host_of
from pullback.core.brief import brief, counted
from pullback.core.devices import Device
from pullback.core.dtypes import is_key
from pullback.core.errors import NotLocal, ShapeError, ShardingError
from pullback.core.meshes import Mesh
from pullback.core.shardings import Index, NamedSharding, PartitionSpec, Sharding
from pullback.core.source import api_boundary
from pullback.core.trees import array_leaves, unflatten
from pullback.core.types import ArrayType, array_type
from pullback.engine.backend import backend_over, spanning
from pullback.engine.spmd import from_pieces
from pullback.numpy.axes import whole

T = TypeVar("T")


@api_boundary
def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[str],
    *,
    devices: Sequence[Device] | None = None,
    platform: str | None = None,
) -> Mesh:
    """A mesh of the first devices that there are.

    Arguments:
        axis_shapes: the size of each axis. One may be -1: what is left then is its size.
        axis_names: the name of each axis.
        devices: the devices to take; by default `pb.devices(platform)`.
        platform: whose devices are taken by default.

    Returns:
        A `Mesh`.

    Raises:
        ShardingError: there are fewer devices than the mesh has places.

    Example:
        >>> import pullback as pb
        >>> pb.make_mesh((1, 1), ("data", "model"))
        Mesh(data=1, model=1, cpu(0))
    """
    there = list(_devices(platform) if devices is None else devices)
    sizes = tuple([whole(size, "Each of make_mesh's axis_shapes") for size in axis_shapes])
    if sizes.count(-1) == 1:
        rest = math.prod([size for size in sizes if size != -1])
        sizes = tuple([max(len(there) // max(rest, 1), 1) if size == -1 else size for size in sizes])
    count = math.prod(sizes)
    if count > len(there):
        raise ShardingError(
            f"A mesh of axis_shapes={tuple(axis_shapes)} has {counted(count, 'device')}, of which this process has"
            f" {len(there)}. The environment variable PULLBACK_CPU_DEVICES says into how many devices the CPU is divided."
        )
    return Mesh(np.array(there[:count], object).reshape(sizes), axis_names)


_devices = devices


def _divided(shape: Any, sharding: Any, what: str) -> tuple[tuple[int, ...], NamedSharding]:
    """A shape as a tuple, and a sharding over devices by which it can be divided."""
    if not isinstance(sharding, NamedSharding):
        raise TypeError(f"{what} takes a pb.NamedSharding, but got {brief(sharding)} of type {type(sharding).__name__}.")
    if not isinstance(sharding.mesh, Mesh):
        raise NotLocal(f"{what} needs a mesh of devices (pb.make_mesh), but got {sharding.mesh}.")
    if not any([device.is_local for device in sharding.devices]):
        raise NotLocal(f"{what} in a process to which no device of {sharding.mesh} belongs: only those that have one call it.")
    sizes = tuple(map(int, shape))
    sharding.shard_shape(sizes)
    return sizes, sharding


@api_boundary
def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Sharding, arrays: Sequence[Array], *, dtype: Any = None
) -> Array:
    """An array of which these are the parts, each on its device already.

    Arguments:
        shape: the shape of the whole.
        sharding: which part is on which device.
        arrays: one array for each device of this process, in any order: its part, on it.
        dtype: None; the arrays have it.

    Returns:
        An Array, without a copy.

    Raises:
        ShardingError: a device has no array, or several, or an array is on none of the devices.
        ShapeError: an array is of another shape or dtype than its part.

    Example:
        >>> import pullback as pb
        >>> sharding = pb.NamedSharding(pb.make_mesh((1,), ("data",)), pb.P("data"))
        >>> pb.make_array_from_single_device_arrays((3,), sharding, [pb.numpy.arange(3)])
        [0 1 2]:i32[3]@(data):cpu(0)
    """
    sizes, spread = _divided(shape, sharding, "make_array_from_single_device_arrays")
    given = [as_array(array) for array in arrays]
    local = [device for device in spread.devices if device.is_local]
    by_device = {array.device: array for array in given if not isinstance(array, ShardedArray)}
    if len(by_device) < len(given) or {*by_device} != {*local}:
        raise ShardingError(
            f"make_array_from_single_device_arrays takes one array on each of {', '.join(map(str, local))}, but got arrays on"
            f" {', '.join([str(array.device) for array in given]) or 'none'}."
        )
    wanted = array_type(spread.shard_shape(sizes), given[0].dtype if dtype is None else np.dtype(dtype))
    for array in given:
        if (array.shape, array.dtype) != (wanted.shape, wanted.dtype):
            raise ShapeError(f"The part of an array of shape {sizes} on {array.device} is {wanted}, but got {array.type}.")
    there: Any = backend_over(spread.devices)
    if there is spanning.backend:  # which shares the memory of what this process computes by itself
        buffers = [np.asarray(host_of(by_device[device])) for device in local]
    else:
        buffers = [there.buffer_of(by_device[device], there.devices.index(device)) for device in local]
    whole = wanted.with_shape(sizes)
    return ShardedArray(whole, spread, from_pieces(there, buffers, whole, spread), lent=True)


@api_boundary
def make_array_from_callback(
    shape: Sequence[int], sharding: Sharding, data_callback: Callable[[Index], Any], dtype: Any = None
) -> Array:
    """An array of which each part is made by a function of where it lies; a part that several devices hold is made once.

    Arguments:
        shape: the shape of the whole.
        sharding: which part is on which device.
        data_callback: a function that takes a tuple of slices, and returns that part as an array or a NumPy array.
        dtype: None; the parts have it.

    Returns:
        An Array. Each process makes the parts of its own devices.

    Raises:
        ShapeError: the function returned a part of another shape or dtype.

    Example:
        >>> import numpy as np, pullback as pb
        >>> sharding = pb.NamedSharding(pb.make_mesh((1,), ("data",)), pb.P("data"))
        >>> pb.make_array_from_callback((4,), sharding, lambda index: np.arange(4)[index] * 10)
        [ 0 10 20 30]:i64[4]@(data):cpu(0)
    """
    sizes, spread = _divided(shape, sharding, "make_array_from_callback")
    made: dict[Any, Array] = {}
    pieces = []
    for device, place in zip(spread.devices, spread.places(sizes)):
        if device.is_local:
            key = tuple([(one.start, one.stop) for one in place])
            if key not in made:
                made[key] = as_array(data_callback(place))
            pieces.append(made[key])
    return _of_pieces(sizes, spread, pieces, None if dtype is None else np.dtype(dtype), "data_callback")


def _of_pieces(sizes: tuple[int, ...], spread: NamedSharding, pieces: Sequence[Array], dtype: Any, what: str) -> Array:
    wanted = array_type(spread.shard_shape(sizes), pieces[0].dtype if dtype is None else dtype)
    for piece in pieces:
        if (piece.shape, piece.dtype) != (wanted.shape, wanted.dtype):
            raise ShapeError(f"{what} made a part of type {piece.type} of an array of shape {sizes}, where {wanted} is needed.")
    there: Any = backend_over(spread.devices)
    whole = wanted.with_shape(sizes)
    hosts = [np.asarray(host_of(piece)) for piece in pieces]
    return ShardedArray(whole, spread, from_pieces(there, hosts, whole, spread), lent=True)


@api_boundary
def make_array_from_process_local_data(sharding: Sharding, local_data: Any, global_shape: Sequence[int] | None = None) -> Array:
    """An array of what each process has of it: the parts of its own devices, put together.

    Arguments:
        sharding: which part is on which device.
        local_data: this process's part: a NumPy array or an Array; in a single process the whole.
        global_shape: the shape of the whole; by default, axes that are divided among processes are as much longer.

    Returns:
        An Array.

    Raises:
        ShardingError: the parts of this process's devices do not form a block. ShapeError: it has another shape.

    Example:
        >>> import numpy as np, pullback as pb
        >>> sharding = pb.NamedSharding(pb.make_mesh((1,), ("data",)), pb.P("data"))
        >>> pb.make_array_from_process_local_data(sharding, np.ones(4, "float32"))
        [1. 1. 1. 1.]:f32[4]@(data):cpu(0)
    """
    local = as_array(local_data)
    if not isinstance(sharding, NamedSharding):
        raise TypeError(f"A sharding over a mesh (pb.NamedSharding) is needed, but got {brief(sharding)}.")
    parts = sharding.parts(local.ndim)
    own = [place for device, place in zip(sharding.devices, sharding.places(parts)) if device.is_local]
    if not own:
        raise ShardingError(
            f"No device of {sharding.mesh} belongs to this process. Make the mesh of devices of all processes that use it."
        )
    first = [min([place[axis].start for place in own]) for axis in range(local.ndim)]
    last = [max([place[axis].stop for place in own]) for axis in range(local.ndim)]
    counts = [stop - start for start, stop in zip(first, last)]
    if len({tuple([one.start for one in place]) for place in own}) != math.prod(counts):
        raise ShardingError(
            f"The parts that this process's devices hold of {sharding} are no block. Order the mesh's devices by processes, or"
            " use make_array_from_callback."
        )
    shape = [size * count // own for size, count, own in zip(local.shape, parts, counts)]
    shape = shape if global_shape is None else list(map(int, global_shape))
    sizes, spread = _divided(shape, sharding, "make_array_from_process_local_data")
    shard = spread.shard_shape(sizes)
    wanted = tuple([size * count for size, count in zip(shard, counts)])
    if wanted != local.shape:
        raise ShapeError(f"This process's part of an array of shape {sizes} has the shape {wanted}, but got {local.type}.")
    offsets = [start * size for start, size in zip(first, shard)]
    host = np.asarray(host_of(local))
    pieces = []
    for device, place in zip(spread.devices, spread.places(sizes)):
        if device.is_local:
            here = tuple([slice(one.start - offset, one.stop - offset) for one, offset in zip(place, offsets)])
            pieces.append(host[here])
    there: Any = backend_over(spread.devices)
    whole: ArrayType = array_type(sizes, local.dtype)
    return ShardedArray(whole, spread, from_pieces(there, pieces, whole, spread), lent=True)


from_process_data = make_array_from_process_local_data


@api_boundary
def reshard(x: T, out_shardings: Any) -> T:
    """The arrays of a tree, divided in another way: `device_put` to shardings alone.

    Arguments:
        x: a tree of arrays. Traced values are constrained.
        out_shardings: a sharding, a `PartitionSpec` inside `with mesh:`, or a tree of them that is a prefix of `x`.

    Returns:
        The tree.

    Raises:
        ShardingError: an array cannot be divided so.

    Example:
        >>> import pullback as pb
        >>> with pb.make_mesh((1,), ("data",)):
        ...     pb.reshard(pb.numpy.arange(2), pb.P("data"))
        [0 1]:i32[2]@(data):cpu(0)
    """
    if out_shardings is None:
        raise TypeError("reshard takes a sharding, a PartitionSpec, or a tree of them, but got None.")
    return device_put(x, out_shardings)


@api_boundary
def gather(x: Any) -> Any:
    """The whole arrays of a tree, as NumPy arrays, in this process; of arrays that several processes hold, in each of them.

    Arguments:
        x: a tree of arrays. All processes that hold a part call this.

    Returns:
        The tree, with a NumPy array, which can be written to, for each array; keys stay Arrays.

    Raises:
        LeafError: a leaf is neither an array nor a number.

    Example:
        >>> import pullback as pb
        >>> sharding = pb.NamedSharding(pb.make_mesh((1,), ("data",)), pb.P("data"))
        >>> pb.parallel.gather(pb.device_put(pb.numpy.arange(3), sharding))
        array([0, 1, 2], dtype=int32)
    """
    leaves, structure = array_leaves(x, lambda: "x")
    return unflatten(structure, [_whole(leaf) for leaf in leaves])


def _whole(array: Any) -> Any:
    if isinstance(array, ShardedArray) and not (array.is_fully_addressable or array.is_fully_replicated):
        array = _replicated(array)
    whole = np.array(host_of(array))
    return Array(array.type, whole) if is_key(array.dtype) else whole


def _replicated(array: ShardedArray) -> Any:
    """The array, whole on each device: the devices exchange their parts."""
    return jit(lambda x: x, out_shardings=NamedSharding(array.sharding.mesh, PartitionSpec()))(array)
