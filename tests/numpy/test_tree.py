"""Every kind of tree, and every property that all trees have."""

from __future__ import annotations

import collections
import copy
import dataclasses
import threading
import types
from typing import Any, NamedTuple

import numpy as np
import pytest

import pullback as pb
from pullback import tree


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any
    name: str = dataclasses.field(default="layer", metadata={"static": True})


class Pair:
    def __init__(self, left, right):
        self.left, self.right = left, right

    def __eq__(self, other):
        return isinstance(other, Pair) and (self.left, self.right) == (other.left, other.right)

    __hash__ = None


tree.register_node(Pair, lambda pair: ((pair.left, pair.right), None), lambda _, children: Pair(*children))

TREES = [
    1,
    "leaf",
    None,
    (),
    [],
    {},
    (1,),
    [1, 2],
    {"b": 1, "a": 2},
    (1, [2, {"c": 3, "d": (4, None)}]),
    Point(1, (2, 3)),
    collections.OrderedDict([("z", 1), ("a", 2)]),
    collections.deque([1, 2]),
    collections.defaultdict(list, {"k": 1}),
    Layer(1, [2, 3]),
    [Layer(1, Point(2, 3), "other")],
    Pair(1, {"a": Pair(2, 3)}),
    (None, None, 1),
]


@pytest.mark.parametrize("value", TREES, ids=lambda value: type(value).__name__)
def test_properties(value):
    leaves, structure = tree.flatten(value)
    assert tree.unflatten(structure, leaves) == value
    assert tree.leaves(value) == leaves and tree.structure(value) == structure
    assert hash(tree.structure(value)) == hash(structure)
    assert structure.num_leaves == len(leaves)
    doubled = tree.map(lambda x: x * 2, value)
    assert tree.leaves(doubled) == [x * 2 for x in leaves] and tree.structure(doubled) == structure
    assert (
        tree.leaves(tree.map(lambda x, y: (x, y), value, doubled), is_leaf=lambda x: isinstance(x, tuple) and len(x) == 2)
        or not leaves
    )
    with_paths, other = tree.flatten_with_path(value)
    assert [leaf for _, leaf in with_paths] == leaves and other == structure
    assert len({path for path, _ in with_paths}) == len(leaves)
    assert tree.leaves(tree.map_with_path(lambda path, x: x, value)) == leaves
    assert tree.leaves_with_path(value) == with_paths
    assert tree.all(value) == all(leaves)
    assert tree.reduce(lambda total, _: total + 1, value, 0) == len(leaves)
    with pytest.raises(pb.errors.StructureError, match="leaves"):
        tree.unflatten(structure, [*leaves, 1])


def test_leaves_chosen_by_the_caller():
    assert tree.leaves([1, (2, 3)], is_leaf=lambda x: isinstance(x, tuple)) == [1, (2, 3)]
    assert tree.map(lambda x: x, {"a": None}, is_leaf=lambda x: x is None) == {"a": None}


def test_structures_that_differ():
    with pytest.raises(
        pb.errors.StructureError, match=r"rest\[0\] is a list of 3 elements where the first tree has 2 elements"
    ):
        tree.map(lambda x, y: x, [1, 2], [1, 2, 3])
    with pytest.raises(
        pb.errors.StructureError, match=r"rest\[1\]\['a'\] is a leaf where the first tree has a tuple"
    ) as caught:
        tree.map(lambda x, y, z: x, {"a": (1, 2)}, {"a": (1, 2)}, {"a": np.ones(1000)})
    assert "1., 1." not in str(caught.value)  # no values of the tree
    with pytest.raises(pb.errors.StructureError, match=r"rest\[0\]\['a'\] is missing where the first tree has a leaf"):
        tree.map_with_path(lambda path, x, y: x, {"a": 1}, {})
    with pytest.raises(pb.errors.StructureError, match="2 x 3"):
        tree.transpose(tree.structure((0, 0)), tree.structure([0, 0, 0]), [1])
    assert tree.structure([1, 2]) != tree.structure((1, 2))


def test_transpose():
    outer, inner = tree.structure({"a": 0, "b": 0}), tree.structure((0, [0]))
    assert tree.transpose(tree.structure(()), tree.structure([0]), ()) == [()]
    assert tree.transpose(outer, inner, {"a": (1, [2]), "b": (3, [4])}) == ({"a": 1, "b": 3}, [{"a": 2, "b": 4}])


def test_transformations_go_through_trees():
    params = Layer(np.float32(2.0), [np.float32(1.0)])
    gradient = pb.grad(lambda p, x: p.weight**2 * x + p.bias[0])(params, 3.0)
    assert (
        isinstance(gradient, Layer)
        and float(gradient.weight) == 12.0
        and float(gradient.bias[0]) == 1.0
        and gradient.name == "layer"
    )
    assert float(pb.jit(lambda pair: pair.left - pair.right)(Pair(3.0, 1.0))) == 2.0


def test_register_dataclass_by_fields():
    @dataclasses.dataclass
    class Model:
        size: int
        data: Any

    tree.register_dataclass(Model, data_fields=["data"], meta_fields=["size"])
    assert tree.leaves(Model(3, [1, 2])) == [1, 2]
    with pytest.raises(pb.errors.StructureError, match="fields"):

        @dataclasses.dataclass
        class Other:
            a: Any
            b: Any

        tree.register_dataclass(Other, data_fields=["a"], meta_fields=[])


@dataclasses.dataclass
class Settings:
    size: int


@dataclasses.dataclass
class Options:
    sizes: list


@dataclasses.dataclass(frozen=True)
class Frozen:
    sizes: list


class Sizes(list):
    pass


CHANGES = {
    "list": ([1, 2], lambda value: value.append(3)),
    "list in a tuple": (([1, 2], "x"), lambda value: value[0].append(3)),
    "dict": ({"size": 1}, lambda value: value.update(size=2)),
    "list in a dict": ({"sizes": [1]}, lambda value: value["sizes"].append(2)),
    "set": ({1}, lambda value: value.add(2)),
    "dataclass": (Settings(1), lambda value: setattr(value, "size", 2)),
    "list in a dataclass": (Options([1]), lambda value: value.sizes.append(2)),
    "list in a frozen dataclass": (Frozen([1]), lambda value: value.sizes.append(2)),
    "list in a namedtuple": (Point([1], 0), lambda value: value.x.append(2)),
    "list in a list of another class": (Sizes([[1]]), lambda value: value[0].append(2)),
    "list in a defaultdict": (collections.defaultdict(list, a=[1]), lambda value: value["a"].append(2)),
    "list in an OrderedDict": (collections.OrderedDict(a=[1]), lambda value: value["a"].append(2)),
    "list in a deque": (collections.deque([[1]]), lambda value: value[0].append(2)),
    "list in a namespace": (types.SimpleNamespace(sizes=[1]), lambda value: value.sizes.append(2)),
    "dataclass in a tuple": ((Settings(1),), lambda value: setattr(value[0], "size", 2)),
}


class Node:
    def __init__(self, weight, name):
        self.weight, self.name = weight, name


tree.register_node(Node, lambda node: ((node.weight,), node.name), lambda name, children: Node(*children, name))


@pytest.mark.parametrize(
    "make", [lambda static: Layer(1.0, 0.0, static), lambda static: Node(1.0, static)], ids=["field", "node"]
)
@pytest.mark.parametrize("kind", CHANGES)
def test_a_static_part_that_is_changed_in_place_is_another_one(kind, make):
    static, change = CHANGES[kind]
    static = copy.deepcopy(static)
    traced = []

    @pb.jit
    def f(layer):
        traced.append(repr(layer.name))
        return layer.weight

    layer = make(static)
    before = tree.structure(layer)
    assert tree.structure(tree.unflatten(before, tree.leaves(layer))) == before
    f(layer)
    f(layer)
    assert traced == [repr(static)]
    change(static)
    f(layer)
    assert traced[1:] == [repr(static)]
    assert tree.structure(layer) != before


class ByElements:
    """Compares as arrays do."""

    def __init__(self):
        self.array = np.arange(3.0)

    def __eq__(self, other):
        return self.array == other.array


class Unpicklable(Settings):
    def __reduce_ex__(self, protocol):
        raise TypeError("it has no copies")


HOLDING_ITSELF = [1]
HOLDING_ITSELF.append(HOLDING_ITSELF)
WITHOUT_COPIES = {
    "mappingproxy": types.MappingProxyType({"size": 1}),
    "keys of a dict": {"size": 1}.keys(),
    "lock in a list": [threading.Lock()],
    "array": np.arange(3.0),
    "array in a list": [np.arange(3.0)],
    "Array in a dict": {"a": pb.numpy.arange(3.0)},
    "compared by elements": ByElements(),
    "refuses to be copied": Unpicklable(1),
    "list that holds itself": HOLDING_ITSELF,
}


@pytest.mark.parametrize("kind", WITHOUT_COPIES)
def test_a_static_field_may_hold_what_has_no_copy(kind):
    layer = Layer(np.arange(3.0, dtype=np.float32), 1.0, WITHOUT_COPIES[kind])
    doubled = tree.map(lambda x, y: x + y, layer, layer)
    np.testing.assert_array_equal(doubled.weight, [0, 2, 4])
    carry, _ = pb.lax.scan(lambda carry, _: (tree.map(lambda x: x * 2, carry), None), layer, None, length=2)
    np.testing.assert_array_equal(carry.weight, [0, 4, 8])
    f = pb.jit(lambda layer: layer.weight * layer.bias)
    for _ in range(2):
        np.testing.assert_array_equal(f(layer), [0, 1, 2])


def test_broadcast():
    full = {"a": [0, (0, None)], "b": Pair(0, Point(0, 0))}
    assert tree.broadcast({"a": 1, "b": 2}, full) == {"a": [1, (1, None)], "b": Pair(2, Point(2, 2))}
    assert tree.broadcast(7, full) == tree.map(lambda _: 7, full)
    assert tree.broadcast(full, full) == full
    assert tree.broadcast((1, (2, 3)), (0, [(0, 0), 0]), is_leaf=lambda x: x == (2, 3) or x == (0, 0)) == (1, [(2, 3), (2, 3)])
    with pytest.raises(pb.errors.StructureError, match=r"full_tree\['b'\]"):
        tree.broadcast({"a": 1, "b": (2, 3, 4)}, full)
