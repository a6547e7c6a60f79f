"""jax.tree_util: JAX's own pytrees, which are jaxlib's C++ and need no jax; the only module of the façade that names them.

The registry is one of our own, not jaxlib's default one, so that a real jax in the same process is not disturbed.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from pullback.compat.jax.facade import facade
from pullback.core.trees import tell_of_nodes
from pullback.engine.jaxlib import pytrees

__all__ = [
    "DictKey", "FlattenedIndexKey", "GetAttrKey", "KeyEntry", "KeyPath", "Partial", "PyTreeDef", "SequenceKey", "all_leaves",
    "default_registry", "flatten_one_level", "flatten_one_level_with_keys", "is_tree_node", "keystr", "register_dataclass",
    "register_pytree_node", "register_pytree_node_class", "register_pytree_with_keys", "register_pytree_with_keys_class",
    "register_static", "tree_all", "tree_broadcast", "tree_flatten", "tree_flatten_with_path", "tree_leaves",
    "tree_leaves_with_path", "tree_map", "tree_map_with_path", "tree_reduce", "tree_reduce_associative", "tree_structure",
    "tree_transpose", "tree_unflatten", "treedef_children", "treedef_is_leaf", "treedef_tuple",
]  # fmt: skip

pytree = pytrees()

KeyEntry = Any
KeyPath = tuple[Any, ...]
IsLeaf = Callable[..., bool] | None
Difference = tuple[KeyPath, str, str, str]

PyTreeDef: Any = pytree.PyTreeDef
SequenceKey: Any = pytree.SequenceKey
DictKey: Any = pytree.DictKey
GetAttrKey: Any = pytree.GetAttrKey
FlattenedIndexKey: Any = pytree.FlattenedIndexKey

default_registry: Any = pytree.PyTreeRegistry()
default_registry.__module__, default_registry.__name__ = __name__, "default_registry"  # by which structures pickle it


tell_of_nodes(lambda cls, flatten, unflatten: default_registry.register_node(cls, lambda node: flatten(node)[:2], unflatten))


class _Registry:
    """Which classes are containers, as flax asks."""

    def __contains__(self, kind: type) -> bool:
        return bool(default_registry.is_node(kind))


_registry = _Registry()
dispatch_registry = default_registry


# Taking apart and putting together


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], Any]:
    """The leaves and the structure of a tree."""
    return default_registry.flatten(tree, is_leaf)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree."""
    return default_registry.flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> Any:
    """The structure of a tree."""
    return default_registry.flatten(tree, is_leaf)[1]


def tree_unflatten(treedef: Any, leaves: Iterable[Any]) -> Any:
    """The tree of a structure and leaves."""
    return treedef.unflatten(leaves)


def tree_flatten_with_path(
    tree: Any, is_leaf: IsLeaf = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], Any]:
    """Pairs of path and leaf, and the structure; `is_leaf` is given a path too, if `is_leaf_takes_path`."""
    asked = is_leaf if is_leaf is None or is_leaf_takes_path else lambda _, node: is_leaf(node)
    return default_registry.flatten_with_path(tree, asked)


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None, is_leaf_takes_path: bool = False) -> list[tuple[KeyPath, Any]]:
    """Pairs of path and leaf."""
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def flatten_one_level(tree: Any) -> tuple[Iterable[Any], Hashable]:
    """The children of a container, and its metadata."""
    return _is_container(tree, default_registry.flatten_one_level(tree))


def flatten_one_level_with_keys(tree: Any) -> tuple[Iterable[tuple[Any, Any]], Hashable]:
    """Pairs of key and child of a container, and its metadata."""
    return _is_container(tree, default_registry.flatten_one_level_with_keys(tree))


def _is_container(tree: Any, parts: Any) -> Any:
    if parts is None:
        raise ValueError(
            f"A value of {type(tree)} is a leaf, where a container is needed: give a tuple, list or dict, or make the class a"
            " container with jax.tree_util.register_pytree_node."
        )
    return parts


def is_tree_node(typ: type) -> bool:
    """Whether values of a class are containers."""
    return default_registry.is_node(typ)


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf = None) -> bool:
    """Whether all of these are leaves."""
    items = list(iterable)
    leaves = tree_leaves(items, is_leaf)
    return len(leaves) == len(items) and all(map(operator.is_, items, leaves))


# Structures


def treedef_tuple(treedefs: Iterable[Any]) -> Any:
    """The structure of a tuple of trees of these structures."""
    return pytree.treedef_tuple(default_registry, list(treedefs))


def treedef_children(treedef: Any) -> list[Any]:
    """The structures of the children."""
    return treedef.children()


def treedef_is_leaf(treedef: Any) -> bool:
    """Whether it has one node: a leaf, or an empty container."""
    return treedef.num_nodes == 1


# Functions of trees


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """`f` of each leaf, and of what stands in its place in the `rest`, of which `tree` is a prefix."""
    leaves, treedef = default_registry.flatten(tree, is_leaf)
    others = [up_to(treedef, tree, other, is_leaf, "tree_map tree") for other in rest]
    return treedef.unflatten(map(f, leaves, *others))


def tree_map_with_path(
    f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None, is_leaf_takes_path: bool = False
) -> Any:
    """tree_map of a function that is given the path of each leaf first."""
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    asked = functools.partial(is_leaf, ()) if is_leaf_takes_path and is_leaf is not None else is_leaf
    others = [up_to(treedef, tree, other, asked, "tree_map_with_path tree") for other in rest]
    return treedef.unflatten(map(f, *zip(*pairs), *others) if pairs else ())


def up_to(treedef: Any, tree: Any, other: Any, is_leaf: IsLeaf, name: str) -> list[Any]:
    """What `other` has in the places of the leaves of `tree`."""
    try:
        return treedef.flatten_up_to(other)
    except Exception as error:
        found = prefix_errors(tree, other, is_leaf)
        raise (found[0](name) if found else error) from None


_MISSING = object()


def tree_reduce(function: Callable[[Any, Any], Any], tree: Any, initializer: Any = _MISSING, is_leaf: IsLeaf = None) -> Any:
    """functools.reduce over the leaves."""
    return functools.reduce(function, tree_leaves(tree, is_leaf), *[] if initializer is _MISSING else [initializer])


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any], tree: Any, *, identity: Any = _MISSING, is_leaf: IsLeaf = None
) -> Any:
    """An associative function over the leaves, by halves: in logarithmic depth."""
    leaves = tree_leaves(tree, is_leaf)
    if not leaves and identity is _MISSING:
        raise TypeError("tree_reduce_associative of a tree without leaves needs its argument identity.")
    return _by_halves(operation, leaves) if leaves else identity


def _by_halves(operation: Callable[[Any, Any], Any], items: list[Any]) -> Any:
    if len(items) == 1:
        return items[0]
    half = len(items) // 2
    return operation(_by_halves(operation, items[:half]), _by_halves(operation, items[half:]))


def tree_all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Whether all leaves are true."""
    return all(tree_leaves(tree, is_leaf))


def tree_transpose(outer_treedef: Any, inner_treedef: Any, pytree_to_transpose: Any) -> Any:
    """An outer tree of inner trees as an inner tree of outer trees."""
    leaves, treedef = tree_flatten(pytree_to_transpose)
    if inner_treedef is None:
        inner_treedef = tree_structure(outer_treedef.flatten_up_to(pytree_to_transpose)[0])
    outer, inner = outer_treedef.num_leaves, inner_treedef.num_leaves
    if treedef.num_leaves != outer * inner:
        raise TypeError(
            "tree_transpose takes as pytree_to_transpose an outer tree of inner trees, so of the structure\n"
            f"    {outer_treedef.compose(inner_treedef)}\nbut was given one of\n    {treedef}\n"
            f"Its {treedef.num_leaves} leaves are not {outer} times {inner}: give the outer_treedef and inner_treedef it has."
        )
    return inner_treedef.unflatten([outer_treedef.unflatten(leaves[place::inner]) for place in range(inner)])


def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> Any:
    """A tree of the structure of `full_tree`, with each leaf of the prefix in all places below it."""
    return tree_structure(full_tree).unflatten(broadcast_prefix(prefix_tree, full_tree, is_leaf))


def broadcast_prefix(
    prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None, name: str = "broadcast_prefix prefix_tree"
) -> list[Any]:
    """The leaves of tree_broadcast; `name` is how errors call the prefix."""
    leaves, treedef = tree_flatten(prefix_tree, is_leaf)
    parts = up_to(treedef, prefix_tree, full_tree, is_leaf, name)
    return _repeated(leaves, parts)


def broadcast_flattened_prefix_with_treedef(prefix_leaves: list[Any], prefix_treedef: Any, full_treedef: Any) -> list[Any]:
    """broadcast_prefix of trees that are given as leaves and structures."""
    return _repeated(prefix_leaves, prefix_treedef.flatten_up_to(full_treedef.unflatten([_PLACE] * full_treedef.num_leaves)))


def _repeated(leaves: list[Any], parts: list[Any]) -> list[Any]:
    """Each leaf as often as the part that it stands for has leaves."""
    return [leaf for leaf, part in zip(leaves, parts) for _ in tree_leaves(part)]


class _Whole:
    """A functools.partial as the function of a Partial, which would else take it apart; equal to it, and hashed as it."""

    def __init__(self, fun: functools.partial[Any]) -> None:
        self.fun = fun

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fun(*args, **kwargs)

    def __hash__(self) -> int:
        return hash(self.fun)

    def __eq__(self, other: object) -> bool:
        return bool(self.fun == (other.fun if isinstance(other, _Whole) else other))

    def __repr__(self) -> str:
        return repr(self.fun)


class Partial(functools.partial):  # type: ignore[type-arg]
    """functools.partial as a container: its arguments are children, the function is part of the structure."""

    def __new__(cls, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Partial:
        return super().__new__(cls, _Whole(func) if isinstance(func, functools.partial) else func, *args, **kwargs)


# Paths


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """A path as text: `[0].name['key']`, or if `simple` its keys alone, with a separator between them."""
    return separator.join([_simple(key) if simple else str(key) for key in keys])


def _simple(key: Any) -> str:
    match key:
        case SequenceKey(idx=part) | DictKey(key=part) | GetAttrKey(name=part) | FlattenedIndexKey(key=part):
            return str(part)
    return str(key)


# What two trees do not agree in


def prefix_errors(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> list[Callable[[str], ValueError]]:
    """For each place where the first tree is no prefix of the other, a function from the argument's name to an error."""

    def error(difference: Difference, name: str) -> ValueError:
        path, has, wanted, why = difference
        return ValueError(
            f"{name}{keystr(path)} is {has}, but the tree that it goes with has in that place {wanted}: {why}. Write the same"
            " containers as there, or a single leaf for all of that part."
        )

    found = _differences((), prefix_tree, full_tree, is_leaf, True)
    return [functools.partial(error, difference) for difference in found]


def structure_differences(one: Any, two: Any, root: str) -> Iterator[tuple[str, str, str]]:
    """For each place where two structures differ: the place, what the first has there, and what the second."""
    trees = [structure.unflatten([_PLACE] * structure.num_leaves) for structure in (one, two)]
    for path, has, wanted, why in _differences((), trees[0], trees[1], None, False):
        yield f"{root}{keystr(path)}", has, f"{wanted} ({why})"


_PLACE = object()  # any leaf, where only structures are known


def _differences(path: KeyPath, one: Any, two: Any, is_leaf: IsLeaf, prefix: bool) -> Iterator[Difference]:
    """For each place where two trees differ, or where the first is no `prefix` of the other: what differs."""
    leaves = [all_leaves([tree], is_leaf) for tree in (one, two)]
    if leaves[0] if prefix else all(leaves):
        return
    kinds = ["a leaf" if tree is _PLACE else str(type(tree)) for tree in (one, two)]
    if type(one) is not type(two):
        yield path, *kinds, "they are of two classes"  # type: ignore[misc]
        return
    levels = [flatten_one_level_with_keys(tree) for tree in (one, two)]
    children = [list(pairs) for pairs, _ in levels]
    if len(children[0]) != len(children[1]):
        keys, others = [[str(key) for key, _ in pairs] for pairs in children]
        unshared = " ".join(sorted({*keys} ^ {*others}))
        yield path, f"{kinds[0]} of {len(keys)}", f"{kinds[1]} of {len(others)}", f"only one of them has {unshared}"
    elif levels[0][1] != levels[1][1]:
        yield path, *[f"{kinds[0]} with the metadata {meta}" for _, meta in levels], "their metadata differ"  # type: ignore[misc]
    else:
        for (key, child), (_, other) in zip(*children):
            yield from _differences((*path, key), child, other, is_leaf, prefix)


# Registering containers


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Values of a class are containers from now on."""
    default_registry.register_node(nodetype, flatten_func, unflatten_func, flatten_with_keys_func)


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """register_pytree_node of a class whose children have keys."""

    def without_keys(node: Any) -> tuple[Iterable[Any], Any]:
        pairs, meta = flatten_with_keys(node)
        return [child for _, child in pairs], meta

    register_pytree_node(nodetype, flatten_func or without_keys, unflatten_func, flatten_with_keys)


def register_pytree_node_class(cls: Any) -> Any:
    """A decorator of classes with methods tree_flatten and tree_unflatten."""
    register_pytree_node(cls, operator.methodcaller("tree_flatten"), cls.tree_unflatten)
    return cls


def register_pytree_with_keys_class(cls: Any) -> Any:
    """A decorator of classes with methods tree_flatten_with_keys and tree_unflatten."""
    flatten = operator.methodcaller("tree_flatten") if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(cls, operator.methodcaller("tree_flatten_with_keys"), cls.tree_unflatten, flatten)
    return cls


def register_static(cls: Any) -> Any:
    """A decorator of classes whose values are metadata: containers without children."""
    register_pytree_with_keys(cls, lambda node: ((), node), lambda node, _: node)
    return cls


def register_dataclass(
    nodetype: Any,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Any:
    """Dataclasses as containers: their fields are children, or metadata if jax.tree.static made them."""
    fields = dataclasses.fields(nodetype) if dataclasses.is_dataclass(nodetype) else None
    if (data_fields is None) != (meta_fields is None):
        raise TypeError(
            f"register_dataclass takes data_fields and meta_fields, or neither, but got {data_fields=} and {meta_fields=}."
        )
    if data_fields is None and fields is None:
        raise TypeError(
            f"register_dataclass needs data_fields and meta_fields of {nodetype!r}, which is no dataclass that says them."
        )
    static = {field.name: field.metadata.get("static", False) for field in fields or ()}
    data = [name for name in static if not static[name]] if data_fields is None else list(data_fields)
    meta = [name for name in static if static[name]] if meta_fields is None else list(meta_fields)
    if fields is not None:
        wanted = {field.name for field in fields if field.init} - set(drop_fields)
        missing, unexpected = wanted - {*data, *meta}, {*data, *meta} - wanted
        if missing or unexpected:
            raise ValueError(
                "register_dataclass takes each field that the class is made with in data_fields or meta_fields."
                + (f" In neither is {missing}; what is to be left out belongs in drop_fields." if missing else "")
                + (f" No such field is {unexpected}." if unexpected else "")
            )
    if overlap := {*data} & {*meta}:
        raise ValueError(f"register_dataclass was given {overlap} in data_fields and in meta_fields.")
    default_registry.register_dataclass_node(nodetype, data, meta)
    return nodetype


register_pytree_with_keys(
    collections.OrderedDict,
    lambda node: (tuple([(DictKey(key), child) for key, child in node.items()]), tuple(node)),
    lambda keys, children: collections.OrderedDict(zip(keys, children, strict=True)),
)
register_pytree_with_keys(
    collections.defaultdict,
    lambda node: (tuple([(DictKey(key), node[key]) for key in sorted(node)]), (node.default_factory, tuple(sorted(node)))),
    lambda meta, children: collections.defaultdict(meta[0], zip(meta[1], children, strict=True)),
)
register_pytree_node(
    Partial,
    lambda node: ((node.args, node.keywords), node.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
)


facade(globals())
