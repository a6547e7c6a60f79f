"""Functions of jax.lax that take trees, of JAX's kind: pullback's do the work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pullback as pb
from pullback.compat.jax.facade import adapter
from pullback.compat.jax.sharding import over_mesh
from pullback.compat.jax.trees import JAX_TREES, flatten, of_jax_trees


@adapter
def of_tree(function: Callable[..., Any], x: Any, *args: Any, **kwargs: Any) -> Any:
    """A function whose first argument is a tree, for JAX's trees."""
    leaves, structure = flatten(x, None)
    if len(leaves) == 1 and leaves[0] is x:
        return function(x, *args, **kwargs)
    return structure.unflatten(function(leaves, *args, **kwargs))


psum = of_tree(pb.lax.psum)
_all_gather = of_tree(pb.lax.all_gather)


def all_gather(
    x: Any, axis_name: Any, *, axis_index_groups: Any = None, axis: int = 0, tiled: bool = False, to: str = "varying"
) -> Any:
    if to != "varying":
        raise NotImplementedError(f"all_gather gives values that vary over {axis_name!r} (to='varying'), not to={to!r}.")
    return _all_gather(x, axis_name, axis_index_groups=axis_index_groups, axis=axis, tiled=tiled)


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    leaves, structure = flatten(x, None)
    places = [*map(over_mesh, JAX_TREES.broadcast_prefix(shardings, x, "with_sharding_constraint's shardings", "x"))]
    return structure.unflatten([*pb.lax.with_sharding_constraint(leaves, places)])


def reduce(
    operands: Any, init_values: Any, computation: Callable[..., Any], dimensions: Sequence[int], out_sharding: Any = None
) -> Any:
    return pb.lax.reduce(operands, init_values, of_jax_trees(computation), dimensions)


def reduce_window(operand: Any, init_value: Any, computation: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return pb.lax.reduce_window(operand, init_value, of_jax_trees(computation), *args, **kwargs)
