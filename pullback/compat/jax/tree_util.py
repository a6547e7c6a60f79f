"""jax.tree_util: JAX's own pytrees, which are jaxlib's C++ and need no jax; the only module of the façade that names them.

The registry is one of our own, not jaxlib's default one, so that a real jax in the same process is not disturbed.
"""

from __future__ import annotations

import collections
import dataclasses
import difflib
import functools
import operator
import textwrap
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pullback.compat.jax.facade import facade
from pullback.engine.jaxlib import pytrees

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "all_leaves",
    "default_registry",
    "flatten_one_level",
    "flatten_one_level_with_keys",
    "is_tree_node",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]

pytree = pytrees()

KeyEntry = Any
KeyPath = tuple[Any, ...]
IsLeaf = Callable[..., bool] | None

PyTreeDef: Any = pytree.PyTreeDef
SequenceKey: Any = pytree.SequenceKey
DictKey: Any = pytree.DictKey
GetAttrKey: Any = pytree.GetAttrKey
FlattenedIndexKey: Any = pytree.FlattenedIndexKey


def _registry_named(name: str, **options: bool) -> Any:
    """A registry that pickles as the variable of this module that holds it: structures name their registry."""
    registry: Any = pytree.PyTreeRegistry(**options)
    registry.__module__, registry.__name__ = __name__, name
    return registry


default_registry = _registry_named("default_registry")
none_leaf_registry = _registry_named("none_leaf_registry", enable_none=False)
dispatch_registry = tracing_registry = default_registry


class _Entry(NamedTuple):
    """How values of a registered class are taken apart and put together."""

    to_iter: Callable[..., Any]
    from_iter: Callable[..., Any]


_registry: dict[type, _Entry] = {
    tuple: _Entry(lambda node: (node, None), lambda _, children: tuple(children)),
    list: _Entry(lambda node: (node, None), lambda _, children: list(children)),
    dict: _Entry(
        lambda node: ([node[key] for key in sorted(node)], tuple(sorted(node))),
        lambda keys, children: dict(zip(keys, children, strict=True)),
    ),
    type(None): _Entry(lambda node: ((), None), lambda _, children: None),
}
"""Which classes are containers (flax asks so); what flattens is the registries of jaxlib."""


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


generate_key_paths = tree_leaves_with_path


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
    if is_leaf is None:
        return pytree.all_leaves(default_registry, iterable)
    items = list(iterable)
    leaves = tree_leaves(items, is_leaf)
    return len(leaves) == len(items) and all([item is leaf for item, leaf in zip(items, leaves)])


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


def treedef_is_strict_leaf(treedef: Any) -> bool:
    """Whether it is that of a leaf."""
    return treedef.num_nodes == 1 and treedef.num_leaves == 1


# Functions of trees


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """`f` of each leaf, and of what stands in its place in the `rest`, of which `tree` is a prefix."""
    leaves, treedef = default_registry.flatten(tree, is_leaf)
    others = [_up_to(treedef, tree, other, is_leaf, "tree_map tree") for other in rest]
    return treedef.unflatten(map(f, leaves, *others))


def tree_map_with_path(
    f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None, is_leaf_takes_path: bool = False
) -> Any:
    """tree_map of a function that is given the path of each leaf first."""
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    asked = (lambda node: is_leaf((), node)) if is_leaf_takes_path and is_leaf is not None else is_leaf
    others = [_up_to(treedef, tree, other, asked, "tree_map_with_path tree") for other in rest]
    return treedef.unflatten(map(f, *zip(*pairs), *others) if pairs else ())


def _up_to(treedef: Any, tree: Any, other: Any, is_leaf: IsLeaf, name: str) -> list[Any]:
    """What `other` has in the places of the leaves of `tree`."""
    try:
        return treedef.flatten_up_to(other)
    except Exception as error:
        found = next(_prefix_errors((), tree, other, is_leaf), None)
        raise (error if found is None else found(name)) from None


class Unspecified:
    """What stands for an argument that is not given."""


_UNSPECIFIED = Unspecified()


def tree_reduce(function: Callable[[Any, Any], Any], tree: Any, initializer: Any = _UNSPECIFIED, is_leaf: IsLeaf = None) -> Any:
    """functools.reduce over the leaves."""
    return functools.reduce(function, tree_leaves(tree, is_leaf), *[first for first in (initializer,) if not _absent(first)])


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any], tree: Any, *, identity: Any = _UNSPECIFIED, is_leaf: IsLeaf = None
) -> Any:
    """An associative function over the leaves, by halves: in logarithmic depth."""
    leaves = tree_leaves(tree, is_leaf)
    if not leaves and _absent(identity):
        raise TypeError("tree_reduce_associative of a tree without leaves needs its argument identity.")
    return _by_halves(operation, leaves) if leaves else identity


def _by_halves(operation: Callable[[Any, Any], Any], items: list[Any]) -> Any:
    if len(items) == 1:
        return items[0]
    half = len(items) // 2
    return operation(_by_halves(operation, items[:half]), _by_halves(operation, items[half:]))


def _absent(value: Any) -> bool:
    return isinstance(value, Unspecified)


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


def broadcast_prefix(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of tree_broadcast."""
    leaves, treedef = tree_flatten(prefix_tree, is_leaf)
    parts = _up_to(treedef, prefix_tree, full_tree, is_leaf, "broadcast_prefix prefix_tree")
    return [leaf for leaf, part in zip(leaves, parts) for _ in range(tree_structure(part).num_leaves)]


def broadcast_flattened_prefix_with_treedef(prefix_leaves: list[Any], prefix_treedef: Any, full_treedef: Any) -> list[Any]:
    """broadcast_prefix of trees that are given as leaves and structures."""
    counts = _leaves_below(prefix_treedef, full_treedef)
    return [leaf for leaf, count in zip(prefix_leaves, counts) for _ in range(count)]


def _leaves_below(prefix: Any, full: Any) -> list[int]:
    """How many leaves of a structure each leaf of its prefix stands for."""
    if treedef_is_strict_leaf(prefix):
        return [full.num_leaves]
    children, full_children = prefix.children(), full.children()
    if prefix.node_data() != full.node_data() or len(children) != len(full_children):
        raise ValueError(f"The structure {prefix} is not a prefix of {full}.")
    return [count for pair in zip(children, full_children) for count in _leaves_below(*pair)]


class _Hashed:
    """A functools.partial as the function of a Partial, which would else take it apart; equal to it, and hashed as it."""

    def __init__(self, fun: functools.partial[Any]) -> None:
        self.fun, self.func, self.args, self.keywords = fun, fun.func, fun.args, fun.keywords

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fun(*args, **kwargs)

    def __hash__(self) -> int:
        return hash(self.fun)

    def __eq__(self, other: object) -> bool:
        return bool(self.fun == (other.fun if isinstance(other, _Hashed) else other))

    def __repr__(self) -> str:
        return repr(self.fun)


class Partial(functools.partial):  # type: ignore[type-arg]
    """functools.partial as a container: its arguments are children, the function is part of the structure."""

    def __new__(cls, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Partial:
        return super().__new__(cls, _Hashed(func) if isinstance(func, functools.partial) else func, *args, **kwargs)


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
    return list(_prefix_errors((), prefix_tree, full_tree, is_leaf))


def _prefix_errors(path: KeyPath, prefix: Any, full: Any, is_leaf: IsLeaf) -> Iterator[Callable[[str], ValueError]]:
    if treedef_is_strict_leaf(tree_structure(prefix, is_leaf)):
        return
    kind, name = type(prefix), type(prefix).__name__
    if kind is not type(full):
        yield _error(path, str(kind), str(type(full)))
        return
    (pairs, meta), (full_pairs, full_meta) = flatten_one_level_with_keys(prefix), flatten_one_level_with_keys(full)
    pairs, full_pairs = list(pairs), list(full_pairs)
    if len(pairs) != len(full_pairs):
        if isinstance(prefix, (list, tuple)):
            yield _error(path, f"a {name} of {len(pairs)}", f"a {name} of {len(full_pairs)}")
            return
        keys, full_keys = [key for key, _ in pairs], [key for key, _ in full_pairs]
        difference = [key for key in keys if key not in full_keys] + [key for key in full_keys if key not in keys]
        yield _error(
            path,
            f"{kind} of {len(keys)} (keys: {_spelled(keys)})",
            f"{kind} of {len(full_keys)} (keys: {_spelled(full_keys)})",
            f", and only one of them has {_spelled(difference)}. ",
        )
        return
    if meta != full_meta:
        lines = "\n".join(difflib.ndiff(str(meta).splitlines(), str(full_meta).splitlines()))
        yield _error(
            path,
            f"{kind} with the metadata {meta}",
            f"one with the metadata {full_meta}",
            f", which differ so:\n{textwrap.indent(lines, '    ')}\n",
        )
        return
    for (key, child), (_, full_child) in zip(pairs, full_pairs):
        yield from _prefix_errors((*path, key), child, full_child, is_leaf)


def _error(path: KeyPath, has: str, wanted: str, how: str = ". ") -> Callable[[str], ValueError]:
    """A function of the name of an argument: the error that says what it has in a place, and what the full tree has there."""

    def error(name: str) -> ValueError:
        return ValueError(
            f"{name}{keystr(path)} is {has}, but the tree that it goes with has in that place {wanted}{how}Write the same"
            " containers as there, or a single leaf for all of that part."
        )

    return error


def _spelled(keys: Sequence[Any]) -> str:
    return " ".join([_simple(key) for key in keys])


def equality_errors(tree1: Any, tree2: Any, is_leaf: IsLeaf = None) -> Iterable[tuple[KeyPath, str, str, str]]:
    """For each place where two trees differ in structure: its path, what each has there, and what differs."""
    return _equality_errors((), tree1, tree2, is_leaf)


def equality_errors_pytreedef(tree1: Any, tree2: Any) -> Iterable[tuple[KeyPath, str, str, str]]:
    """equality_errors of structures."""
    leaf = _PytreeLeaf()
    return equality_errors(tree1.unflatten([leaf] * tree1.num_leaves), tree2.unflatten([leaf] * tree2.num_leaves))


class _NamedInErrors(type):
    def __repr__(cls) -> str:
        return "pytree leaf"


class _PytreeLeaf(metaclass=_NamedInErrors):
    """Any leaf, where only structures are known."""


def _equality_errors(path: KeyPath, one: Any, two: Any, is_leaf: IsLeaf) -> Iterator[tuple[KeyPath, str, str, str]]:
    if all([treedef_is_strict_leaf(tree_structure(tree, is_leaf)) for tree in (one, two)]):
        return
    kind = type(one)
    if kind is not type(two):
        yield path, str(kind), str(type(two)), "they are of two classes"
        return
    (pairs, meta), (pairs2, meta2) = flatten_one_level_with_keys(one), flatten_one_level_with_keys(two)
    pairs, pairs2 = list(pairs), list(pairs2)
    if len(pairs) != len(pairs2):
        if isinstance(one, (list, tuple)):
            sizes = [f"a {kind.__name__} of {len(each)}" for each in (pairs, pairs2)]
            yield path, sizes[0], sizes[1], f"one is longer by {abs(len(pairs) - len(pairs2))}"
            return
        keys, keys2 = [key for key, _ in pairs], [key for key, _ in pairs2]
        unshared = [key for key in keys if key not in keys2] + [key for key in keys2 if key not in keys]
        named = " ".join([repr(key.key) for key in unshared if isinstance(key, DictKey)])
        counts = [f"{kind} (children: {len(each)})" for each in (pairs, pairs2)]
        yield path, counts[0], counts[1], f"only one of them has {named}" if named else "one of them has more children"
        return
    if meta != meta2:
        described = [f"{kind} of metadata {each}" for each in (meta, meta2)]
        yield path, described[0], described[1], "each has metadata of its own"
        return
    for (key, child), (_, child2) in zip(pairs, pairs2):
        yield from _equality_errors((*path, key), child, child2, is_leaf)


# Registering containers


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Values of a class are containers from now on."""
    for registry in (default_registry, none_leaf_registry):
        registry.register_node(nodetype, flatten_func, unflatten_func, flatten_with_keys_func)
    _registry[nodetype] = _Entry(flatten_func, unflatten_func)


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
    if data_fields is None and meta_fields is None:
        if fields is None:
            raise TypeError(
                f"register_dataclass needs data_fields and meta_fields of {nodetype!r}, which is no dataclass that says them."
            )
        data = [field.name for field in fields if not field.metadata.get("static", False)]
        meta = [field.name for field in fields if field.metadata.get("static", False)]
    elif data_fields is None or meta_fields is None:
        raise TypeError(
            f"register_dataclass takes data_fields and meta_fields, or neither, but got {data_fields=} and {meta_fields=}."
        )
    else:
        data, meta = list(data_fields), list(meta_fields)
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
    for registry in (default_registry, none_leaf_registry):
        registry.register_dataclass_node(nodetype, data, meta)
    _registry[nodetype] = _Entry(
        lambda node: (tuple([getattr(node, name) for name in data]), tuple([getattr(node, name) for name in meta])),
        lambda values, children: nodetype(**dict(zip(meta, values)), **dict(zip(data, children))),
    )
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
