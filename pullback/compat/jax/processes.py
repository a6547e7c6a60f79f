"""jax.experimental.multihost_utils and shard_map: over pullback's world of processes and its shard_map."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import pullback as pb
from pullback.compat.jax.placement import make_array_from_process_local_data
from pullback.compat.jax.sharding import P
from pullback.compat.jax.tree_util import broadcast_prefix, tree_map
from pullback.compat.jax.trees import flatten, of_function
from pullback.core.array import Array
from pullback.core.devices import processes
from pullback.core.shardings import NamedSharding


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether all processes are to stop before this step, since one was told to end."""
    return pb.distributed.elastic.should_stop(step_id)


def sync_global_devices(name: str) -> None:
    if pb.distributed.is_initialized():
        pb.distributed.barrier(name)


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """The tree with NumPy arrays: those of process 0, or of that which says that it is the source."""
    leaves, structure = flatten(tree_map(np.asarray, in_tree), None)
    if processes.count > 1:
        sources = [0] if is_source is None else np.flatnonzero(process_allgather(np.asarray(bool(is_source)))).tolist()
        if len(sources) != 1:
            raise ValueError(f"broadcast_one_to_all has one source, but is_source was True in the processes {sources}.")
        leaves = pb.distributed.broadcast(leaves, sources[0])
    return structure.unflatten(leaves)


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """The tree with NumPy arrays that hold what all processes have: along a new axis, or, if `tiled`, along the first one.
    Arrays that the processes share already are whole."""
    return tree_map(lambda x: _gathered(x, tiled), in_tree)


def _gathered(x: Any, tiled: bool) -> Any:
    if isinstance(x, Array) and not x.is_fully_addressable:
        return pb.parallel.gather(x)
    own = np.asarray(x) if tiled and np.ndim(x) else np.asarray(x)[None]
    if processes.count == 1:
        return own
    devices = np.array(pb.devices(), object)
    mesh = pb.sharding.Mesh(devices.reshape(processes.count, -1), ("processes", "devices"))
    return pb.parallel.gather(pb.make_array_from_process_local_data(NamedSharding(mesh, P("processes")), own))


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Raise AssertionError unless all processes have what process 0 has."""
    own, wanted = [flatten(tree, None)[0] for tree in (tree_map(np.asarray, in_tree), broadcast_one_to_all(in_tree))]
    if not all([np.array_equal(*pair) for pair in zip(own, wanted, strict=True)]):
        raise AssertionError(f"{fail_message} Process 0 has {wanted}, and process {processes.index} has {own}.".lstrip())


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Any, pspecs: Any) -> Any:
    """Arrays of which each process has its part, put together."""
    specs = broadcast_prefix(pspecs, local_inputs, is_leaf=lambda one: one is None)
    leaves, structure = flatten(local_inputs, None)
    lie = [NamedSharding(global_mesh, P() if spec is None else spec) for spec in specs]
    return structure.unflatten([make_array_from_process_local_data(one, x) for x, one in zip(leaves, lie, strict=True)])


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Any, pspecs: Any) -> Any:
    """Each process's own part of arrays."""
    specs = broadcast_prefix(pspecs, global_inputs, is_leaf=lambda one: one is None)
    leaves, structure = flatten(global_inputs, None)
    lie = [NamedSharding(global_mesh, P() if spec is None else spec) for spec in specs]
    return structure.unflatten([_local(pb.reshard(x, one)) for x, one in zip(leaves, lie, strict=True)])


def _local(x: Any) -> Any:
    """The block that this process's devices hold, as an array of its own."""
    shards = x.addressable_shards
    first = [min([shard.index[axis].start for shard in shards]) for axis in range(x.ndim)]
    last = [max([shard.index[axis].stop for shard in shards]) for axis in range(x.ndim)]
    block = np.empty([stop - start for start, stop in zip(first, last)], x.dtype)
    for shard in shards:
        block[tuple([slice(one.start - start, one.stop - start) for one, start in zip(shard.index, first)])] = shard.data
    return pb.numpy.asarray(block)


# ---- shard_map --------------------------------------------------------------------------------------------------------

_shard_map = of_function(pb.shard_map)


def shard_map(
    f: Callable[..., Any] | None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any,
    mesh: Any = None,
    axis_names: Any = frozenset(),
    check_vma: bool = True,
) -> Any:
    """As pb.shard_map."""
    options = {"out_specs": out_specs, "in_specs": in_specs, "mesh": mesh, "axis_names": axis_names, "check_vma": check_vma}
    return functools.partial(shard_map, **options) if f is None else _shard_map(f, **options)


def shard_map_of_old(f: Any, mesh: Any, in_specs: Any, out_specs: Any, check_rep: bool = True, auto: Any = frozenset()) -> Any:
    """`shard_map` of jax.experimental.shard_map: `auto` has the axes along which it does not work."""
    names = frozenset(mesh.axis_names) - frozenset(auto)
    return shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, axis_names=names, check_vma=check_rep)
