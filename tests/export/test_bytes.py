"""Exports as bytes: damage is told, trees of every kind arrive as they were, and what cannot travel is named."""

import collections
import copy
import dataclasses
import pickle
import typing

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core.errors import ExportError

X = np.ones((3, 4), np.float32)


def travelled(f, *args):
    """A jitted function that was exported, made into bytes, and read."""
    return pb.export.deserialize(pb.export.export(f)(*args).serialize())


@pytest.mark.parametrize("make", [lambda f: pb.export.export(f)(X).serialize(), lambda f: f.lower(X).compile().serialize()])
def test_damaged_bytes_are_told(make):
    data = make(pb.jit(lambda x: x * 2.0))
    readers = [pb.export.deserialize, pb.export.load_executable]
    own, other = readers if b'"kind": "function"' in data else readers[::-1]
    own(data)
    for place in (60, len(data) // 2, len(data) - 1):
        with pytest.raises(ExportError, match="damaged"):
            own(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    with pytest.raises(ExportError, match="damaged"):
        own(data[:-7])
    with pytest.raises(ExportError, match="version 9"):
        own(data[:16] + (9).to_bytes(4, "little") + data[20:])
    with pytest.raises(ExportError, match="nothing that pullback has exported"):
        own(b"something else")
    with pytest.raises(ExportError, match="not an exported"):
        other(data)


class State(typing.NamedTuple):
    x: typing.Any
    v: typing.Any


@dataclasses.dataclass
class Layer:
    w: typing.Any
    name: typing.Any = dataclasses.field(metadata={"static": True})


class Pair:
    def __init__(self, a, b, note):
        self.a, self.b, self.note = a, b, note


pb.tree.register_node(Pair, lambda p: ((p.a, p.b), p.note), lambda note, parts: Pair(*parts, note))


class Nameless(typing.NamedTuple):
    x: typing.Any


for cls, name in ((State, "tests.State"), (Layer, "tests.Layer"), (Pair, "tests.Pair")):
    pb.export.register_container(cls, name)

TREES = [
    None,
    (),
    [[], {}, (1.0,)],
    {"b": 1.0, "a": (2.0, None)},
    {1: 2.0, 0: 1.0},
    {(1, "two", 3.5): 1.0},
    {b"bytes": 1.0},
    {(1j, 1 << 70): 1.0},
    collections.OrderedDict(z=1.0, a=2.0),
    collections.defaultdict(list, k=1.0),
    collections.deque([1.0, 2.0], maxlen=5),
    State(1.0, {"deep": [2.0]}),
    Layer(1.0, ("dense", 3, float("inf"), None, [True])),
    Pair(State(1.0, 2.0), 3.0, "note"),
    pnp.linalg.SVDResult(1.0, 2.0, 3.0),  # pullback's own need no name
    pb.optimizers.OptimizerState([(1.0, 2.0)], pb.tree.structure({"w": 0, "b": State(None, (0,))})),
]


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: type(tree).__name__)
def test_trees_travel(tree):
    f = pb.jit(lambda t: (t, {"again": t}))
    for call in (travelled(f, tree).call, pb.export.load_executable(f.lower(tree).compile().serialize())):
        assert pb.tree.structure(call(tree)) == pb.tree.structure(f(tree))
        for part in (call(tree)[0], f(tree)[0]):
            assert [float(leaf) for leaf in pb.tree.leaves(part)] == pb.tree.leaves(tree)
    if isinstance(tree, dict):
        assert list(call(tree)[0]) == list(tree)


@pytest.mark.parametrize(
    ("tree", "says"),
    [
        (Nameless(1.0), r"A Nameless in its arguments.*register_container\(Nameless, "),
        (Layer(1.0, frozenset()), "static part of a Layer in its arguments is .*frozenset"),
        (Pair(1.0, 2.0, object), "static part of a Pair"),
        (collections.defaultdict(lambda: 0, k=1.0), "A defaultdict in its arguments"),
        ({frozenset(): 1.0}, "key in its arguments"),
    ],
)
def test_trees_that_do_not_travel(tree, says):
    f = pb.jit(lambda t: pb.tree.leaves(t)[0])
    assert pb.export.export(f)(tree).call(tree) == 1.0  # in this process
    for serialize in (pb.export.export(f)(tree).serialize, f.lower(tree).compile().serialize):
        with pytest.raises(ExportError, match=says):
            serialize()


def test_static_parts_are_those_of_the_container_as_it_was():
    """This one says by which of its parts is None where a value of it is kept."""
    line = pb.scipy.interpolate.RegularGridInterpolator((np.arange(4.0),), np.arange(4.0), fill_value=0.5)
    call = travelled(pb.jit(lambda line, x: line(x)), line, np.ones(1)).call
    assert call(line, np.array([2.5])) == 2.5 and call(line, np.array([9.0])) == 0.5


def test_names_of_classes_are_unique():
    for wrong in ((3, "three"), (tuple, "")):
        with pytest.raises(TypeError):
            pb.export.register_container(*wrong)
    for cls, name in ((State, "another"), (Nameless, "tests.State")):
        with pytest.raises(ValueError, match="already"):
            pb.export.register_container(cls, name)
    assert pb.export.register_container(State, "tests.State") is State


def test_an_exported_function_is_pickled_and_copied():
    exported = travelled(pb.jit(lambda x: x + 1.0), 1.0)
    assert pickle.loads(pickle.dumps(exported)) == exported
    assert copy.copy(exported) is exported and copy.deepcopy({"f": exported})["f"] is exported


def test_a_class_that_is_defined_anew_takes_the_place_of_the_one_before():
    def define():
        class Cell(typing.NamedTuple):
            x: typing.Any

        return pb.export.register_container(Cell, "tests.Cell")

    data = pb.export.export(pb.jit(lambda t: t))(define()(1.0)).serialize()
    again = define()
    assert type(pb.export.deserialize(data).call(again(2.0))) is again
