"""jax.tree_util: pytrees, by jaxlib's own registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.compat.jax.facade import facade
from pullback.compat.jax.trees import flatten, registry
from pullback.engine.jaxlib import pytree

PyTreeDef = pytree().PyTreeDef


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Any]:
    return flatten(tree, is_leaf)


def tree_unflatten(treedef: Any, leaves: Any) -> Any:
    return treedef.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    return flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    return flatten(tree, is_leaf)[1]


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    leaves, structure = flatten(tree, is_leaf)
    return structure.unflatten(list(map(f, leaves, *[structure.flatten_up_to(other) for other in rest])))


def broadcast_prefix(prefix: Any, tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    found: list[Any] = []
    tree_map(lambda value, part: found.extend([value] * len(tree_leaves(part, is_leaf))), prefix, tree, is_leaf=is_leaf)
    return found


def register_pytree_node(nodetype: type, flatten_func: Any, unflatten_func: Any, flatten_with_keys_func: Any = None) -> None:
    registry.register_node(nodetype, flatten_func, unflatten_func)


facade(globals(), own={"tree_util": "PyTreeDef"})
