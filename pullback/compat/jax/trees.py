"""JAX's pytrees in pullback's functions.

JAX's rules of what is a container differ from pullback's (dataclasses are leaves unless they are registered, dicts are ordered
by their keys or refused...), and users' classes are registered with JAX's functions. So a user's function that goes to one of
pullback's says that it takes JAX's trees (`of_jax_trees`); these are jaxlib's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from types import FunctionType
from typing import Any

from pullback.api.progress import Reported
from pullback.compat.jax.facade import adapter
from pullback.compat.jax.tree_util import (
    PyTreeDef,
    broadcast_prefix,
    default_registry,
    keystr,
    structure_differences,
    tree_flatten_with_path,
)
from pullback.core.errors import StructureError
from pullback.core.source import named_after
from pullback.core.trees import LEAF, Allowed, Trees, taking

Function = Callable[..., Any]

flatten: Callable[..., tuple[list[Any], Any]] = default_registry.flatten  # (tree, is_leaf)
_LEAF = flatten(0, None)[1]


def _jaxlibs(structure: Any) -> Any:
    return _LEAF if structure is LEAF else structure


class JaxTrees(Trees):
    """How JAX takes trees apart."""

    @staticmethod
    def flatten(tree: Any) -> tuple[list[Any], Any]:
        leaves, structure = flatten(tree, None)
        return leaves, LEAF if len(leaves) == 1 and leaves[0] is tree else structure

    def node(self, structure: Any) -> tuple[type | None, Sequence[Any], Sequence[Any]]:
        kind, keys = _jaxlibs(structure).node_data() or (None, ())
        return kind, keys if kind is dict else (), _jaxlibs(structure).children()

    def parts(self, structure: Any) -> Sequence[Any]:
        own = _jaxlibs(structure)
        return [own.node_data(), *own.children()]

    def keys_in_order(self, structure: Any) -> list[Any]:
        return list(self.node(structure)[1])

    def fields(self, structure: Any) -> tuple[str, ...] | None:
        return None  # jaxlib does not say whether a class was registered

    def flattener(self) -> Callable[[Any], tuple[list[Any], Any]]:
        return flatten

    def paths(self, tree: Any, root: str) -> list[str]:
        return [f"{root}{keystr(path)}" for path, _ in tree_flatten_with_path(tree)[0]]

    def structure_paths(self, structure: Any, root: str) -> list[str]:
        try:
            return self.paths(_jaxlibs(structure).unflatten(range(structure.num_leaves)), root)
        except Exception:  # a user's class cannot be made of these leaves
            return [f"{root}[<flat index {i}>]" for i in range(structure.num_leaves)]

    def difference(self, given: Any, wanted: Any, root: str, other: str, allowed: Allowed | None = None) -> str:
        if given is None or wanted is None:
            return f"{root} is {'missing' if given is None else _jaxlibs(given)} where {other} {_jaxlibs(wanted) or 'nothing'}"
        for place, own, expected in structure_differences(_jaxlibs(given), _jaxlibs(wanted), root):
            return f"{place} is {own} where {other} {expected}"
        return f"{root} is {_jaxlibs(given)} where {other} {_jaxlibs(wanted)}"

    def fits(self, given: Any, wanted: Any, allowed: Allowed) -> bool:
        if allowed(given, wanted):
            return True
        given, wanted = _jaxlibs(given), _jaxlibs(wanted)
        parts = given.children(), wanted.children()
        return given.node_data() == wanted.node_data() and all(self.fits(*pair, allowed) for pair in zip(*parts, strict=True))

    def broadcast_prefix(self, prefix: Any, tree: Any, what: str, root: str) -> list[Any]:
        try:
            return broadcast_prefix(prefix, tree, lambda value: value is None, "the prefix")
        except ValueError as error:
            raise StructureError(f"{what} does not fit {root}: each value in it is for a leaf or a part. {error}") from None


JAX_TREES = JaxTrees(PyTreeDef)

# What identifies the innermost transformation around a function of the user's; `jax.extend.core.get_opaque_trace_state` asks.
level: ContextVar[object] = ContextVar("pullback_compat_jax_level", default=None)


def of_jax_trees(function: Any) -> Any:
    """A user's function for one of pullback's: as one that takes JAX's trees, and that is called in a transformation."""
    if not callable(function):  # pullback says so
        return function
    if isinstance(function, Reported):  # a body whose steps a bar shows
        return function.of(of_jax_trees(function.function))

    @taking(JAX_TREES)
    @named_after(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        before = level.set(object())
        try:
            return function(*args, **kwargs)
        finally:
            level.reset(before)

    return inside


def like(fun: Any) -> Callable[[Any], Any]:
    """Give what is made of a user's function its name, and all else that it has."""

    def named(made: Any) -> Any:
        made.__dict__ = {**getattr(fun, "__dict__", {}), **vars(made)}
        return named_after(fun)(made)

    return named


@adapter
def of_function(function: Function, fun: Any, *args: Any, reduce_axes: Any = (), **kwargs: Any) -> Any:
    """A function of pullback's whose first argument is a user's one; nothing is made of `reduce_axes`."""
    found = function(of_jax_trees(fun), *args, **kwargs)
    return like(fun)(found) if found.__class__ is FunctionType else found
