"""Functions of jax.lax that take trees, of JAX's kind: pullback's do the work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pullback as pb
from pullback.compat.jax.facade import adapter
from pullback.compat.jax.trees import Packed, packed


def is_leaf(packed: Packed) -> bool:
    """Whether a tree is no container."""
    return len(packed.leaves) == 1 and packed.leaves[0] is packed.tree


@adapter
def of_tree(function: Callable[..., Any], x: Any, *args: Any, **kwargs: Any) -> Any:
    """A function whose first argument is a tree, for JAX's trees."""
    return function(Packed(x), *args, **kwargs).tree


def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    if isinstance(x, (bool, int, float, complex)):
        return pb.lax.psum(x, axis_name, axis_index_groups=axis_index_groups)
    return pb.lax.psum(Packed(x), axis_name, axis_index_groups=axis_index_groups).tree


def all_gather(
    x: Any, axis_name: Any, *, axis_index_groups: Any = None, axis: int = 0, tiled: bool = False, to: str = "varying"
) -> Any:
    return pb.lax.all_gather(Packed(x), axis_name, axis_index_groups=axis_index_groups, axis=axis, tiled=tiled).tree


def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """x: what JAX says here of a mesh of devices is always so on one."""
    return x


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """x: on one device, all shardings are the same."""
    return x


def reduce(
    operands: Any, init_values: Any, computation: Callable[..., Any], dimensions: Sequence[int], out_sharding: Any = None
) -> Any:
    given = Packed(operands)
    if is_leaf(given):
        return pb.lax.reduce(operands, init_values, computation, dimensions)
    return pb.lax.reduce(given, Packed(init_values), packed(computation), dimensions).tree


def reduce_window(operand: Any, init_value: Any, computation: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    given = Packed(operand)
    if is_leaf(given):
        return pb.lax.reduce_window(operand, init_value, computation, *args, **kwargs)
    return pb.lax.reduce_window(given, Packed(init_value), packed(computation), *args, **kwargs).tree
