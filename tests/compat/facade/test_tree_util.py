"""jax.tree_util and jax.tree: JAX's pytrees."""

from __future__ import annotations

import collections
import dataclasses
import functools
import pickle
from typing import Any

import pytest

import pullback as pb
import pullback.compat.jax as jax
from pullback.compat.jax import numpy as jnp
from pullback.compat.jax import tree, tree_util
from pullback.compat.jax.tree_util import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey

Point = collections.namedtuple("Point", ("x", "y"))


@tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any = None
    name: str = tree.static(default="dense")


@tree_util.register_pytree_node_class
class Pair:
    def __init__(self, one: Any, two: Any) -> None:
        self.one, self.two = one, two

    def tree_flatten(self) -> Any:
        return (self.one, self.two), None

    @classmethod
    def tree_unflatten(cls, _: Any, children: Any) -> Pair:
        return cls(*children)


@tree_util.register_static
class Size(int):
    pass


TREES = [
    (None, 0, "PyTreeDef(None)"),
    (1, 1, "PyTreeDef(*)"),
    ([1, (2, None), {"b": 3, "a": ()}], 3, "PyTreeDef([*, (*, None), {'a': (), 'b': *}])"),
    (Point(1, [2]), 2, "PyTreeDef(CustomNode(namedtuple[Point], [*, [*]]))"),
    (Layer(1, 2, "first"), 2, "PyTreeDef(CustomNode(Layer[('first',)], [*, *]))"),
    (collections.OrderedDict(b=1, a=2), 2, "PyTreeDef(CustomNode(OrderedDict[('b', 'a')], [*, *]))"),
    (collections.defaultdict(int, b=1, a=2), 2, None),
    (Size(3), 0, "PyTreeDef(CustomNode(Size[3], []))"),
    (collections.deque([1]), 1, "PyTreeDef(*)"),
]


@pytest.mark.parametrize(("value", "count", "text"), TREES, ids=[type(value).__name__ for value, _, _ in TREES])
def test_leaves_structure_and_back(value: Any, count: int, text: str | None) -> None:
    leaves, structure = tree.flatten(value)
    assert len(leaves) == count == structure.num_leaves
    assert text is None or str(structure) == text
    again = tree.unflatten(structure, iter(leaves))
    assert again == value and type(again) is type(value)
    assert pickle.loads(pickle.dumps(structure)) == structure and hash(structure) == hash(tree.structure(value))


def test_dictionaries_are_sorted_and_keys_must_be() -> None:
    assert tree.leaves({"b": 1, "a": 2}) == [2, 1]
    assert tree.structure({"a": 1}) != tree.structure(collections.OrderedDict(a=1))
    with pytest.raises(ValueError, match=r"'<' not supported|Comparator raised"):
        tree.leaves({"a": 1, 2: 3})


def test_paths() -> None:
    value = [Point(1, {"k": 2}), Layer(3, 4), Pair(5, 6)]
    pairs, structure = tree.flatten_with_path(value)
    assert [tree_util.keystr(path) for path, _ in pairs] == [
        "[0].x",
        "[0].y['k']",
        "[1].weight",
        "[1].bias",
        "[2][<flat index 0>]",
        "[2][<flat index 1>]",
    ]
    assert pairs[1][0] == (SequenceKey(0), GetAttrKey("y"), DictKey("k")) and pairs[4][0][-1] == FlattenedIndexKey(0)
    assert tree_util.keystr(pairs[1][0], simple=True, separator="/") == "0/y/k"
    assert structure == tree.structure(value)
    shallow = tree.leaves_with_path(value, is_leaf=lambda path, _: len(path) == 1, is_leaf_takes_path=True)
    assert [leaf for _, leaf in shallow] == value
    assert tree.map_with_path(lambda path, x, y: (path[0].idx, x, y), [1, 2], [3, (4,)]) == [(0, 1, 3), (1, 2, (4,))]


def test_functions_of_trees() -> None:
    assert tree.map(lambda x, y: (x, y), {"a": 1, "b": None}, {"a": [2], "b": None}) == {"a": (1, [2]), "b": None}
    assert tree.reduce(lambda x, y: x + y, [1, (2, 3)], 10) == 16
    assert tree.reduce(lambda x, y: f"({x}{y})", list("abcd")) == "(((ab)c)d)"
    assert tree.reduce_associative(lambda x, y: f"({x}{y})", list("abcd")) == "((ab)(cd))"
    assert tree.reduce_associative(max, [], identity=0) == 0
    with pytest.raises(TypeError, match="identity"):
        tree.reduce_associative(max, [])
    assert tree.all([1, (2, 3)]) and not tree.all([1, (0,)])
    assert tree.broadcast((1, 2, None), (0, {"a": 0, "b": [0, 0]}, None)) == (1, {"a": 2, "b": [2, 2]}, None)
    inner = tree.structure((0, 0))
    assert tree.transpose(tree.structure([0, 0]), inner, [(1, 2), (3, 4)]) == ([1, 3], [2, 4])
    assert tree.transpose(tree.structure([0, 0]), None, [(1, 2), (3, 4)]) == ([1, 3], [2, 4])
    with pytest.raises(TypeError, match=r"(?s)takes as pytree_to_transpose .*4 leaves are not 3 times 2"):
        tree.transpose(tree.structure([0, 0, 0]), inner, [(1, 2), (3, 4)])
    assert tree_util.broadcast_prefix((1, 2), (0, [0, 0])) == [1, 2, 2]


def test_structures() -> None:
    structure = tree.structure((1, [2, 3]))
    assert tree_util.treedef_tuple(structure.children()) == structure
    assert [tree_util.treedef_is_leaf(child) for child in tree_util.treedef_children(structure)] == [True, False]
    assert tree_util.treedef_is_leaf(tree.structure(()))
    assert tree_util.all_leaves([1, 2]) and not tree_util.all_leaves([1, [2]])
    assert tree_util.all_leaves([1, (2,)], is_leaf=lambda node: isinstance(node, tuple))
    assert tree_util.flatten_one_level({"b": [1], "a": 2}) == ((2, [1]), ("a", "b"))
    with pytest.raises(ValueError, match="<class 'int'> is a leaf, where a container"):
        tree_util.flatten_one_level(3)


def test_what_differs_is_named_with_its_place() -> None:
    cases = [
        ((1, 2), [1, 2], "in_axes is <class 'tuple'>, but .* in that place <class 'list'>"),
        ([[1]], [[2, 3]], r"in_axes\[0\] is <class 'list'> of 1, .* <class 'list'> of 2: only one of them has \[1\]\. Write"),
        ({"a": 1}, {"a": 2, "b": 3}, r"of 1, .* of 2: only one of them has \['b'\]\. Write"),
        ([{1: 2}], [{3: 4}], r"in_axes\[0\] is .*'dict'> with the metadata .*: their metadata differ\. Write"),
        (Pair(1, [2]), Pair(3, 4), r"in_axes\[<flat index 1>\] is <class 'list'>"),
    ]
    for prefix, full, message in cases:
        (error,) = tree_util.prefix_errors(prefix, full)
        with pytest.raises(ValueError, match="(?s)" + message):
            raise error("in_axes")
    assert tree_util.prefix_errors((1, 2), ((3, 4), 2)) == []
    with pytest.raises(ValueError, match=r"tree_map tree is .* of 2, but"):
        tree.map(max, (1, 2), (1, 2, 3))
    structures = [tree.structure([{"a": 1}]), tree.structure([{"a": 1, "b": 2}]), tree.structure((1, 2))]
    assert list(tree_util.structure_differences(*structures[:2], "x")) == [
        ("x[0]", "<class 'dict'> of 1", "<class 'dict'> of 2 (only one of them has ['b'])")
    ]
    assert list(tree_util.structure_differences(*structures[1:], "x")) == [
        ("x", "<class 'list'>", "<class 'tuple'> (they are of two classes)")
    ]


def test_partial_is_a_container_of_its_arguments() -> None:
    partial = tree_util.Partial(max, 1, key=2)
    leaves, structure = tree.flatten(partial)
    assert leaves == [1, 2]
    again = tree.unflatten(structure, [3, 4])
    assert (again.func, again.args, again.keywords) == (max, (3,), {"key": 4})
    inner = functools.partial(max, 1)
    outer = tree_util.Partial(inner, 2)
    assert outer.args == (2,) and outer() == 2 and outer.func == inner == outer.func
    assert hash(outer.func) == hash(tree_util.Partial(inner, 2).func)


def test_registering_names_what_is_wrong() -> None:
    class Plain:
        pass

    @dataclasses.dataclass
    class Fields:
        x: int
        y: int

    with pytest.raises(TypeError, match="which is no dataclass that says them"):
        tree_util.register_dataclass(Plain)
    with pytest.raises(TypeError, match="takes data_fields and meta_fields, or neither"):
        tree_util.register_dataclass(Fields, data_fields=["x"])
    with pytest.raises(ValueError, match=r"In neither is \{'y'\}"):
        tree_util.register_dataclass(Fields, data_fields=["x"], meta_fields=[])
    with pytest.raises(ValueError, match=r"was given \{'x'\} in data_fields and in"):
        tree_util.register_dataclass(Fields, data_fields=["x", "y"], meta_fields=["x"])
    assert not tree_util.is_tree_node(Fields) and Fields not in tree_util._registry
    tree_util.register_dataclass(Fields, ["x"], ["y"])
    assert tree.map(lambda x: x + 1, Fields(1, 1)) == Fields(2, 1)
    for kind in (Fields, tuple, list, dict, type(None), collections.OrderedDict, collections.defaultdict):
        assert kind in tree_util._registry


def test_containers_of_pullback_are_containers_here() -> None:
    interpolate = jax.scipy.interpolate.RegularGridInterpolator([jnp.arange(3.0)], jnp.arange(3.0))
    assert len(tree.leaves(interpolate)) > 1
    assert jax.jit(lambda f, x: f(x))(interpolate, jnp.full((1, 1), 1.5)) == 1.5

    class Later:
        def __init__(self, part: Any) -> None:
            self.part = part

    pb.tree.register_node(Later, lambda one: ((one.part,), None), lambda _, parts: Later(*parts))
    assert tree.leaves([Later({"x": 1}), 2]) == [1, 2]
