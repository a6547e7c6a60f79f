"""What programs for several processes or devices do, of which there is one of each."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.api.functions import wrapped
from pullback.compat.jax.sharding import get_mesh, make_mesh
from pullback.compat.jax.transformations import vmap
from pullback.compat.jax.tree_util import tree_map
from pullback.core.devices import Device


def reached_preemption_sync_point(step_id: int) -> bool:
    """False: nobody stops the process from outside."""
    return False


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """The tree with NumPy arrays."""
    return tree_map(np.asarray, in_tree)


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """The tree with NumPy arrays, with one axis more, for the one process, unless `tiled`."""
    return tree_map(lambda x: np.asarray(x) if tiled else np.asarray(x)[None], in_tree)


def create_device_mesh(mesh_shape: Sequence[int], devices: Sequence[Device] | None = None, **how: bool) -> Any:
    """The devices as an array of this shape."""
    return make_mesh(mesh_shape, [str(axis) for axis in range(len(mesh_shape))], devices=devices).devices


def shard_map(
    f: Any = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = None,
    mesh: Any = None,
    axis_names: Any = frozenset(),
    check_vma: bool = True,
) -> Any:
    """On one device: the function of the whole arrays, in which the axes of the mesh, each of size 1, have their names."""
    if f is None:
        options = {"out_specs": out_specs, "in_specs": in_specs, "mesh": mesh, "axis_names": axis_names, "check_vma": check_vma}
        return functools.partial(shard_map, **options)

    def on_devices(*args: Any) -> Any:
        there = mesh or get_mesh()
        if there.empty:
            raise ValueError("shard_map needs a mesh: pass mesh=jax.make_mesh((1,), ('x',)), or call it under jax.set_mesh.")
        if there.size != 1:
            raise NotImplementedError(f"shard_map computes on one device here, but the mesh has {there.size}: {there}.")
        called, names = f, axis_names or there.axis_names
        for name in names:
            called = vmap(called, None, 0, name, 1)
        return tree_map(lambda x: x[(0,) * len(names)], called(*args))

    return wrapped(f, "shard_map", on_devices)


def shard_map_of_old(f: Any, mesh: Any, in_specs: Any, out_specs: Any, check_rep: bool = True) -> Any:
    """`shard_map` of jax.experimental.shard_map, which has its arguments in another order."""
    return shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
