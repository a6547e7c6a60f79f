"""JAX's pytrees in pullback's functions: a tree of JAX's goes through these as one container of its leaves.

JAX's rules of what is a container differ from pullback's (dataclasses are leaves unless they are registered, dicts are ordered
by their keys or refused...), and users' classes are registered with JAX's functions. So functions of this package flatten trees
as JAX does, by jaxlib's own registry, and hand pullback `Packed` trees: its functions take those apart, and put them together,
without knowing what is in them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

from pullback.compat.jax.tree_util import (
    default_registry,
    keystr,
    structure_differences,
    tree_flatten_with_path,
)
from pullback.core.source import named_after
from pullback.core.trees import Trees, Trivial, register_as_it_is, with_float0

F = TypeVar("F", bound=Callable[..., Any])

flatten: Callable[..., tuple[list[Any], Any]] = default_registry.flatten  # (tree, is_leaf)


class Packed:
    """A tree of JAX's, as a container of pullback's.

    Attributes:
        leaves: what is in it. structure: jaxlib's PyTreeDef.
    """

    __slots__ = ("leaves", "structure")

    def __init__(self, tree: Any) -> None:
        self.leaves, self.structure = flatten(tree, None)

    @property
    def tree(self) -> Any:
        """The tree itself."""
        return self.structure.unflatten(self.leaves)

    @classmethod
    def of(cls, structure: Any, leaves: Iterable[Any]) -> Packed:
        """The tree of a structure with these leaves."""
        made = cls.__new__(cls)
        made.structure, made.leaves = structure, list(leaves)
        return made

    def leaf_paths(self, root: str) -> list[str]:
        """Of each leaf, for errors."""
        try:
            return JAX_TREES.paths(self.tree, root)
        except Exception:  # a user's class cannot be made of these leaves
            return [f"{root}[<flat index {i}>]" for i in range(len(self.leaves))]

    def differences(self, other: Packed, root: str) -> Iterator[tuple[str, str, str]]:
        """In which places two trees differ in structure, and what they have there."""
        return structure_differences(self.structure, other.structure, root)


register_as_it_is(Packed, lambda packed: (packed.leaves, packed.structure), Packed.of)


class JaxTrees(Trees):
    """How `jax.jit` takes trees apart."""

    flatten = staticmethod(default_registry.flatten)

    def node(self, structure: Any) -> tuple[type | None, Sequence[Any], Sequence[Any]]:
        kind, keys = structure.node_data() or (None, ())
        return kind, keys if kind is dict else (), structure.children()

    def unflatten(self, structure: Any, leaves: Iterable[Any]) -> Any:
        return structure.unflatten(leaves)

    def without_float0(self, tree: Any) -> Any:
        return with_float0(tree, Trivial, self)

    def flattener(self) -> Callable[[Any], tuple[list[Any], Any]]:
        return self.flatten

    def paths(self, tree: Any, root: str) -> list[str]:
        return [f"{root}{keystr(path)}" for path, _ in tree_flatten_with_path(tree)[0]]

    def differs(self, given: Any, wanted: Any, root: str, other: str) -> str:
        if given is None or wanted is None:
            return f"{root} is {'missing' if given is None else given} where {other} {wanted or 'nothing'}"
        for place, own, expected in structure_differences(given, wanted, root):
            return f"{place} is {own} where {other} {expected}"
        return f"{root} is {given} where {other} {wanted}"


JAX_TREES = JaxTrees()


def standing_for(function: Callable[..., Any], *names: str) -> Callable[[F], F]:
    """Name a function after a user's one that it calls, with parameters of its own."""

    def named(made: F) -> F:
        named_after(function)(made)
        parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
        made.__signature__ = inspect.Signature(parameters or [_ANY])  # type: ignore[attr-defined]
        return made

    return named


_ANY = inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)


# What identifies the innermost transformation around a function of the user's; `jax.extend.core.get_opaque_trace_state` asks.
level: ContextVar[object] = ContextVar("pullback_compat_jax_level", default=None)


def on_a_level(function: F) -> F:
    """The function, called in a transformation of its own."""

    @functools.wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        before = level.set(object())
        try:
            return function(*args, **kwargs)
        finally:
            level.reset(before)

    return inside  # type: ignore[return-value]


def packed(function: Callable[..., Any]) -> Callable[..., Packed]:
    """A function of JAX's trees as one of Packed trees, which returns one; it takes other values as they are."""

    @named_after(function)
    @on_a_level
    def of_packed(*args: Any, **kwargs: Any) -> Packed:
        return Packed(function(*unpack(args), **dict(zip(kwargs, unpack(kwargs.values())))))

    return of_packed


def pack(trees: Sequence[Any]) -> list[Packed]:
    """Each of several trees by itself."""
    return [Packed(tree) for tree in trees]


def unpack(trees: Iterable[Any]) -> tuple[Any, ...]:
    """The trees themselves; other values as they are."""
    return tuple([tree.tree if tree.__class__ is Packed else tree for tree in trees])
