"""jax.tree: jax.tree_util under short names."""

from __future__ import annotations

import dataclasses
from typing import Any

from pullback.compat.jax import tree_util
from pullback.compat.jax.facade import facade

__all__ = [
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "static",
    "structure",
    "transpose",
    "unflatten",
]

all = tree_util.tree_all
broadcast = tree_util.tree_broadcast
flatten = tree_util.tree_flatten
flatten_with_path = tree_util.tree_flatten_with_path
leaves = tree_util.tree_leaves
leaves_with_path = tree_util.tree_leaves_with_path
map = tree_util.tree_map
map_with_path = tree_util.tree_map_with_path
reduce = tree_util.tree_reduce
reduce_associative = tree_util.tree_reduce_associative
structure = tree_util.tree_structure
transpose = tree_util.tree_transpose
unflatten = tree_util.tree_unflatten


def static(**kwargs: Any) -> Any:
    """dataclasses.field of a field that register_dataclass takes as metadata."""
    return dataclasses.field(**{**kwargs, "metadata": {"static": True, **(kwargs.get("metadata") or {})}})


facade(globals())
