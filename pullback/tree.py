"""Pytrees: nested containers (tuples, lists, dicts, namedtuples, dataclasses, None, registered classes) of leaves.

A leaf is anything that is not a container. Dicts are walked in the order of their sorted keys.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from pullback.core import trees
from pullback.core.brief import brief
from pullback.core.errors import StructureError
from pullback.core.source import make_public
from pullback.core.trees import TreeDef, register_dataclass, register_node

__all__ = [
    "all", "broadcast", "flatten", "flatten_with_path", "leaves", "leaves_with_path", "map", "map_with_path", "reduce",
    "register_dataclass", "register_node", "structure", "transpose", "unflatten",
]  # fmt: skip

IsLeaf = Callable[[Any], bool] | None
R = TypeVar("R")


def flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeDef]:
    """A tree's leaves, from left to right, and its structure, which `unflatten` takes.

    Arguments:
        tree: any tree.
        is_leaf: says of a container that it is to be kept whole, as a leaf.

    Returns:
        The list of leaves, and the structure.

    Example:
        >>> leaves, structure = pb.tree.flatten({"a": (1, None), "b": 2})
        >>> leaves
        [1, 2]
        >>> pb.tree.unflatten(structure, ["x", "y"])
        {'a': ('x', None), 'b': 'y'}
    """
    return trees.flatten(tree, is_leaf)


def leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """A tree's leaves, from left to right.

    Arguments:
        tree: any tree.
        is_leaf: says of a container that it is to be kept whole, as a leaf.

    Returns:
        A list.

    Example:
        >>> tree.leaves([1, (2, {"a": 3}), None])
        [1, 2, 3]
        >>> tree.leaves([1, (2, 3)], is_leaf=lambda x: isinstance(x, tuple))
        [1, (2, 3)]
    """
    return trees.flatten(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: IsLeaf = None) -> TreeDef:
    """A tree's structure: it without its leaves. Structures compare and hash.

    Arguments:
        tree: any tree.
        is_leaf: says of a container that it is to be kept whole, as a leaf.

    Returns:
        The structure, with the number of leaves as `num_leaves`.

    Example:
        >>> tree.structure((1, 2)) == tree.structure(("a", "b"))
        True
        >>> tree.structure({"a": 1, "b": [2, 3]}).num_leaves
        3
    """
    return trees.flatten(tree, is_leaf)[1]


def unflatten(structure: TreeDef, leaves: Iterable[Any]) -> Any:
    """The tree of a structure with these leaves.

    Arguments:
        structure: what `structure` or `flatten` returned.
        leaves: as many values as it has places.

    Returns:
        The tree.

    Raises:
        StructureError: there are more leaves, or fewer, than the structure has places.
        TypeError: `structure` is none.

    Example:
        >>> tree.unflatten(tree.structure([0, (0, 0)]), "abc")
        ['a', ('b', 'c')]
    """
    if not isinstance(leaves, Iterable):
        raise TypeError(f"tree.unflatten takes its leaves as a list, or what can be iterated over, but got {brief(leaves)}.")
    found = list(leaves)
    if len(found) != (count := _count("unflatten", "structure", structure)):
        first = trees.structure_paths(structure, "tree")[len(found) :][:1]
        without = f": there is none for {first[0]}" if first else ""
        raise StructureError(
            f"tree.unflatten takes the leaves of the structure, of which there are {count}, but got {len(found)}{without}."
        )
    return trees.unflatten(structure, found)


def map(function: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """The tree of `function(leaf, ...)`: of every leaf of `tree`, with what stands at its place in the other trees.

    Arguments:
        function: a function of a leaf of each tree.
        tree: any tree.
        rest: trees of which `tree` is a prefix.
        is_leaf: says of a container in `tree` that it is to be kept whole, as a leaf.

    Returns:
        A tree of the structure of `tree`.

    Raises:
        StructureError: another tree does not have what `tree` has.

    Example:
        >>> tree.map(lambda x, y: x + y, {"a": 1, "b": (2, 3)}, {"a": 10, "b": (20, 30)})
        {'a': 11, 'b': (22, 33)}
    """
    found, shape = trees.flatten(tree, is_leaf)
    columns = [found, *[_up_to(shape, other, i) for i, other in enumerate(rest)]]
    return trees.unflatten(shape, [function(*row) for row in zip(*columns, strict=True)])


def _up_to(shape: Any, other: Any, position: int) -> list[Any]:
    """What stands in another tree of `map` at the places of the leaves of the first."""
    return _subtrees(
        shape, other, f"rest[{position}]", "the first tree has", "Every other tree must have what the first one has"
    )


def _subtrees(shape: Any, other: Any, root: str, has: str, rule: str) -> list[Any]:
    """What stands in `other` at the places of the leaves of a structure; `rule` is broken where there is no such place."""
    if shape is trees.LEAF:
        return [other]
    try:
        found: list[Any] = shape.flatten_up_to(other)
    except ValueError:
        where = trees.difference(structure(other), shape, root, has, trees.leaf_for_anything)
        raise StructureError(f"{rule}, but {where}.") from None
    return found


def broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> Any:
    """A tree like another one, whose leaves are those of a tree that ends earlier: each where the other goes on below it.

    Arguments:
        prefix_tree: a tree that is like `full_tree` up to its leaves.
        full_tree: any tree.
        is_leaf: says of a container, in either, that it is to be kept whole, as a leaf.

    Returns:
        A tree with the structure of `full_tree`.

    Raises:
        StructureError: `full_tree` has not what `prefix_tree` has, naming the first place where.

    Example:
        >>> tree.broadcast({"a": 1, "b": 2}, {"a": 0, "b": [0, {"c": 0}]})
        {'a': 1, 'b': [2, {'c': 2}]}
    """
    values, shape = trees.flatten(prefix_tree, is_leaf)
    below = _subtrees(shape, full_tree, "full_tree", "prefix_tree has", "full_tree must have what prefix_tree has")
    counts = [structure(part, is_leaf).num_leaves for part in below]
    spread = [value for value, count in zip(values, counts, strict=True) for _ in range(count)]
    return trees.unflatten(structure(full_tree, is_leaf), spread)


def all(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether every leaf is true.

    Arguments:
        tree: any tree.
        is_leaf: says of a container that it is to be kept whole, as a leaf.

    Returns:
        A bool; true of a tree without leaves.

    Example:
        >>> tree.all({"a": True, "b": [1, 0]}), tree.all({})
        (False, True)
    """
    return builtins.all(leaves(tree, is_leaf))


_MISSING = object()


def reduce(function: Callable[[Any, Any], R], tree: Any, initializer: Any = _MISSING, is_leaf: IsLeaf = None) -> R:
    """All leaves combined by a function of two, from left to right, starting from `initializer` if one is given.

    Arguments:
        function: of what was combined so far, and the next leaf.
        tree: any tree.
        initializer: what to start from; the first leaf by default.
        is_leaf: says of a container that it is to be kept whole, as a leaf.

    Returns:
        What the function returned last.

    Raises:
        TypeError: the tree has no leaves, and there is no `initializer`.

    Example:
        >>> tree.reduce(lambda x, y: x + y, {"a": 1, "b": (2, 3)})
        6
        >>> tree.reduce(lambda x, y: x + y, [], initializer=0)
        0
    """
    found = leaves(tree, is_leaf)
    return functools.reduce(function, found) if initializer is _MISSING else functools.reduce(function, found, initializer)  # type: ignore[no-any-return]


def transpose(outer: TreeDef, inner: TreeDef, tree: Any) -> Any:
    """A tree of trees turned inside out.

    Arguments:
        outer: the structure of `tree` down to the inner trees.
        inner: the structure of each of these.
        tree: the tree of trees.

    Returns:
        A tree of structure `inner` whose leaves are trees of structure `outer`.

    Raises:
        StructureError: `tree` has another number of leaves.
        TypeError: `outer` or `inner` is no structure.

    Example:
        >>> pair, triple = tree.structure((0, 0)), tree.structure([0, 0, 0])
        >>> tree.transpose(pair, triple, ([1, 2, 3], [4, 5, 6]))
        [(1, 4), (2, 5), (3, 6)]
    """
    found = trees.flatten(tree)[0]
    rows, columns = _count("transpose", "outer", outer), _count("transpose", "inner", inner)
    if len(found) != rows * columns:
        raise StructureError(
            f"tree.transpose takes a leaf for each pair of leaves of outer and inner, {rows} x {columns}, but got {len(found)}."
        )
    return trees.unflatten(inner, [trees.unflatten(outer, found[i::columns]) for i in range(columns)])


def _count(function: str, name: str, structure: Any) -> int:
    """The number of leaves of a structure. Raises TypeError if it is none."""
    count = getattr(structure, "num_leaves", None)
    if not isinstance(count, int):
        raise TypeError(f"tree.{function} takes as its {name} what tree.structure returns, but got {brief(structure)}.")
    return count


Path = tuple[Any, ...]


def flatten_with_path(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[tuple[Path, Any]], TreeDef]:
    """As `flatten`, with the path to each leaf: a tuple of keys, indices and field names.

    Arguments:
        tree: any tree.
        is_leaf: says of a container that it is to be kept whole, as a leaf.

    Returns:
        The list of pairs (path, leaf), and the structure.

    Example:
        >>> tree.flatten_with_path({"a": [10, 20]})[0]
        [(('a', 0), 10), (('a', 1), 20)]
    """
    found, shape = trees.flatten(tree, is_leaf)
    paths: Sequence[Any] = [()] if shape is trees.LEAF else shape.paths()
    return list(zip([tuple(path) for path in paths], found, strict=True)), shape


def leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[Path, Any]]:
    """A tree's leaves, each with its path.

    Arguments:
        tree: any tree.
        is_leaf: says of a container that it is to be kept whole, as a leaf.

    Returns:
        A list of pairs (path, leaf); a path is a tuple of keys, indices and field names.

    Example:
        >>> tree.leaves_with_path({"a": [10, 20]})
        [(('a', 0), 10), (('a', 1), 20)]
    """
    return flatten_with_path(tree, is_leaf)[0]


def map_with_path(function: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """As `map`, of a function that is given each leaf's path first.

    Arguments:
        function: a function of a path, and a leaf of each tree.
        tree: any tree.
        rest: trees of which `tree` is a prefix.
        is_leaf: says of a container in `tree` that it is to be kept whole, as a leaf.

    Returns:
        A tree of the structure of `tree`.

    Raises:
        StructureError: another tree does not have what `tree` has.

    Example:
        >>> tree.map_with_path(lambda path, x: f"{path[-1]}={x}", {"a": 1, "b": 2})
        {'a': 'a=1', 'b': 'b=2'}
    """
    found, shape = flatten_with_path(tree, is_leaf)
    columns = [_up_to(shape, other, i) for i, other in enumerate(rest)]
    return trees.unflatten(shape, [function(path, leaf, *row) for (path, leaf), *row in zip(found, *columns, strict=True)])


make_public(globals())
