"""Where two trees must be alike and are not, the error names the first place that differs, and nothing else of the trees."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import lax
from pullback.api import history
from pullback.core.errors import DtypeError, ShapeError, StructureError
from pullback.core.trees import difference

Tree = dict[str, dict[str, Any]]
PARAMETERS: Tree = {f"layer{i}": {"w": np.ones(2), "b": np.ones(3), "bn": [np.ones(1), np.ones(())]} for i in range(8)}
AXES = pb.tree.map(lambda _: 0, PARAMETERS)
STACKS = pb.tree.map(lambda leaf: np.stack([leaf] * 4), PARAMETERS)
TIMES = np.arange(3.0)


def changed(tree: Tree, **parts: Any) -> Tree:
    """The tree with other parts in layer5; None takes one out."""
    layer = {key: part for key, part in {**tree["layer5"], **parts}.items() if part is not None}
    return {**tree, "layer5": layer}


# What is changed in layer5 of a tree, and what is then said of it: its path in the layer, what is there, and what should be.
CHANGES: dict[str, tuple[Callable[[Tree], Tree], tuple[str, str, str]]] = {
    "missing": (lambda tree: changed(tree, b=None), ("['b']", "missing", "a leaf")),
    "one too many": (lambda tree: changed(tree, d=1.0), ("['d']", "a leaf", "nothing")),
    "renamed": (lambda tree: changed(tree, b=None, d=1.0), ("", "a dict of keys 'bn', 'd', 'w'", "keys 'b', 'bn', 'w'")),
    "length": (lambda tree: changed(tree, bn=[1.0]), ("['bn']", "a list of 1 element", "2 elements")),
    "container": (lambda tree: changed(tree, bn=tuple(tree["layer5"]["bn"])), ("['bn']", "a tuple", "a list")),
    "shape": (lambda tree: changed(tree, b=np.ones(4)), ("['b']", "f64[4]", "f64[3]")),
    "dtype": (lambda tree: changed(tree, b=tree["layer5"]["b"].astype("float32")), ("['b']", "f32[3]", "f64[3]")),
}
ERRORS = {"shape": ShapeError, "dtype": DtypeError}
Change = Callable[[Tree], Tree]


def with_jvp(rule: Callable[..., Any]) -> Any:
    f = pb.custom_jvp(lambda p: p)
    f.defjvp(rule)
    return pb.jvp(f, (PARAMETERS,), (PARAMETERS,))


def with_vjp(forward: Change, backward: Change) -> Any:
    f = pb.custom_vjp(lambda p: p)
    f.defvjp(lambda p: (forward(p), None), lambda _, ct: (backward(ct),))
    return pb.vjp(f, PARAMETERS)[1](PARAMETERS)


def same(tree: Any) -> Any:
    return tree


# How each function that takes a tree like another is given one, and how it calls it.
TAKERS: dict[str, tuple[Callable[[Change], Any], str]] = {
    "scan": (lambda g: lax.scan(lambda c, x: (g(c), x), PARAMETERS, TIMES), "carry"),
    "while_loop": (lambda g: lax.while_loop(lambda c: False, g, PARAMETERS), "value"),
    "fori_loop": (lambda g: lax.fori_loop(0, 2, lambda _, c: g(c), PARAMETERS), "value"),
    "custom_root": (lambda g: pb.custom_root(g, PARAMETERS, lambda f, x: x, lambda f, y: y), "output"),
    "its solve": (lambda g: pb.custom_root(same, PARAMETERS, lambda f, x: g(x), lambda f, y: y), "output"),
    "its tangent_solve": (lambda g: pb.custom_root(same, PARAMETERS, lambda f, x: x, lambda f, y: g(y)), "output"),
    "custom_linear_solve": (lambda g: pb.custom_linear_solve(g, PARAMETERS, lambda f, y: y), "output"),
    "its solver": (lambda g: pb.custom_linear_solve(same, PARAMETERS, lambda f, y: g(y)), "output"),
    "closure_convert": (lambda g: pb.closure_convert(same, PARAMETERS)[0](g(PARAMETERS)), "args[0]"),
    "compiled": (lambda g: pb.jit(lambda x, p: x).lower(1.0, PARAMETERS).compile()(1.0, g(PARAMETERS)), "p"),
    "jvp rule": (lambda g: with_jvp(lambda p, t: (g(p[0]), t[0])), "output"),
    "jvp rule's tangent": (lambda g: with_jvp(lambda p, t: (p[0], g(t[0]))), "tangent"),
    "fwd": (lambda g: with_vjp(g, same), "output"),
    "bwd": (lambda g: with_vjp(same, g), "cotangents[0]"),
    # what follows says of types that they must be equal, in its own words, or converts them
    "cond": (lambda g: lax.cond(True, g, same, PARAMETERS), "output"),
    "switch": (lambda g: lax.switch(1, [same, same, g], PARAMETERS), "output"),
    "jvp": (lambda g: pb.jvp(same, (PARAMETERS,), (g(PARAMETERS),)), "tangents[0]"),
    "linearize": (lambda g: pb.linearize(same, PARAMETERS)[1](g(PARAMETERS)), "tangents[0]"),
    "vjp": (lambda g: pb.vjp(same, PARAMETERS)[1](g(PARAMETERS)), "cotangent"),
    "linear_transpose": (lambda g: pb.linear_transpose(same, PARAMETERS)(g(PARAMETERS)), "cotangent"),
    "odeint": (lambda g: pb.odeint(lambda y, t: g(y), PARAMETERS, TIMES), "output"),
    "pure_callback": (lambda g: pb.pure_callback(g, pb.eval_shape(same, PARAMETERS), PARAMETERS), "output"),
    "associative_scan": (lambda g: lax.associative_scan(lambda a, b: g(a), STACKS), "output"),
    "tree.map": (lambda g: pb.tree.map(lambda a, b: a, PARAMETERS, PARAMETERS, g(PARAMETERS)), "rest[1]"),
    "vmap": (lambda g: pb.vmap(same, in_axes=(AXES,))(g(PARAMETERS)), "tree"),
}
TYPES_TOO = list(TAKERS)[: list(TAKERS).index("cond")]


CASES = [(taker, change) for taker in TAKERS for change in CHANGES if change not in ERRORS or taker in TYPES_TOO]


@pytest.mark.parametrize(("taker", "change"), CASES)
def test_the_first_place_that_differs_is_named(taker: str, change: str) -> None:
    call, root = TAKERS[taker]
    change_tree, (path, own, wanted) = CHANGES[change]
    with pb.default_bits(64), pytest.raises(ERRORS.get(change, StructureError)) as caught:
        call(change_tree)
    said = str(caught.value)
    assert f"{root}['layer5']{path} is {own} where " in said and re.search(rf" {re.escape(wanted)}(, |\.)", said), said
    assert "layer4" not in said and "layer6" not in said and "PyTreeSpec" not in said and len(said) < 500


@pytest.mark.parametrize("call", ["jvp", "linearize", "vjp"])
@pytest.mark.parametrize("change", ERRORS)
def test_types_of_tangents_are_named_by_path(call: str, change: str) -> None:
    function, root = TAKERS[call]
    change_tree, (path, own, wanted) = CHANGES[change]
    with pb.default_bits(64), pytest.raises(pb.errors.PullbackError) as caught:
        function(change_tree)
    assert f"{root}['layer5']{path} has type {own}, " in str(caught.value) and wanted in str(caught.value)


Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Layer:
    weight: Any
    name: str = dataclasses.field(default="", metadata={"static": True})


LONG = {f"k{i}": i for i in range(20)}
# A tree, the one that it must be like, and the difference; each is what is said of the first alone.
PAIRS: list[tuple[Any, Any, str]] = [
    ({"a": {"x": 1}, "b": {"d": 1}}, {"a": {"x": 1}, "b": {"c": 1}}, "t['b'] is a dict of keys 'd' where init has keys 'c'"),
    ((1, [2]), [1, [2]], "t is a tuple where init has a list"),
    ([(1, 2), (3, 4)], [(1, 2), (3,)], "t[1] is a tuple of 2 elements where init has 1 element"),
    (1, (1, 1), "t is a leaf where init has a tuple"),
    (None, 1, "t is None where init has a leaf"),
    ({}, {"a": 1}, "t['a'] is missing where init has a leaf"),
    ({"a": {}}, {}, "t['a'] is a dict where init has nothing"),
    (Point(1, (2,)), Point(1, 2), "t.y is a tuple where init has a leaf"),
    (Point(1, 2), (1, 2), "t is a Point where init has a tuple"),
    (Layer([1]), Layer([1, 2]), "t.weight is a list of 1 element where init has 2 elements"),
    (Layer(1, "new"), Layer(1, "old"), "t is a Layer with static parts ('new',) where init has static parts ('old',)"),
    (Layer([1], "new"), Layer(1, "old"), "t.weight is a list where init has a leaf"),
    (collections.OrderedDict(a=1), {"a": 1}, "t is an OrderedDict where init has a dict"),
    (collections.OrderedDict(a=1, b=(1,)), {"a": 1, "b": 1}, "t['b'] is a tuple where init has a leaf"),
    ({**LONG, "new": 1}, {**LONG, "old": 1}, "t is a dict of keys 'new' where init has keys 'old'"),
    (LONG, {key.upper(): 1 for key in LONG}, "t is a dict of keys 'k0', 'k1', 'k10', 'k11', 'k12', 'k13' and 14 more where"),
    ([collections.deque([1])], [[1]], "t[0] is a deque where init has a list"),
    (collections.deque([1], maxlen=1), collections.deque([1], maxlen=2), "maxlen=1) where init has deque([*], maxlen=2)"),
]


@pytest.mark.parametrize(("given", "wanted", "says"), PAIRS, ids=range(len(PAIRS)))
def test_differences(given: Any, wanted: Any, says: str) -> None:
    assert says in difference(pb.tree.structure(given), pb.tree.structure(wanted), "t", "init has")


def test_the_path_is_of_the_part_that_differs() -> None:
    x, tree = np.ones(3), {"a": [np.ones(3)], "b": {"c": np.ones(3)}}
    with pytest.raises(StructureError, match=r"tree\['b'\] is a dict of keys 'c' where the entry for it has keys 'd'"):
        pb.vmap(same, in_axes=({"a": [0], "b": {"d": 0}},))(tree)
    with pytest.raises(StructureError, match=r"output\['b'\] is a dict of keys 'c' where the entry for it has keys 'd'"):
        pb.vmap(lambda _: tree, out_axes={"a": [None], "b": {"d": None}})(x)


def test_integers_and_parts_without_a_derivative_may_be_none() -> None:
    tree = {"n": 3, "x": (2.0, 3.0)}
    _, tangent = pb.jvp(lambda t: t["x"][0] * t["n"], (tree,), ({"n": None, "x": (1.0, 0.0)},))
    assert float(tangent) == 3.0
    f = pb.custom_vjp(lambda t: t["x"][0] * t["n"])
    f.defvjp(lambda t: (t["x"][0] * t["n"], t["n"]), lambda n, ct: ({"n": None, "x": None},))
    assert [float(leaf) for leaf in pb.tree.leaves(pb.grad(f, allow_int=True)(tree)["x"])] == [0.0, 0.0]


def test_leaves_that_are_too_few_or_too_many() -> None:
    structure = pb.tree.structure(PARAMETERS)
    with pytest.raises(
        StructureError, match=r"(?m)of which there are 32, but got 31: there is none for tree\['layer7'\]\['w'\]\.$"
    ):
        pb.tree.unflatten(structure, range(31))
    with pytest.raises(StructureError, match=r"(?m)of which there are 32, but got 33\.$"):
        pb.tree.unflatten(structure, range(33))


def test_arguments_of_what_was_compiled_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    compiled = pb.jit(lambda x, scale=1.0: x).lower(1.0, scale=2.0).compile()
    for args, says in [
        ((1.0,), r"scale \(passed by name\) is missing where it was compiled for a leaf"),
        ((1.0, 2.0), r"scale \(passed by name\) is missing where"),
    ]:
        with pytest.raises(StructureError, match=f"was compiled for other arguments: {says}"):
            compiled(*args)
    with pytest.raises(StructureError, match="x is passed by name where it was compiled for one that is passed by position"):
        compiled(x=1.0, scale=2.0)
    f = pb.jit(lambda p: p["layer1"]["w"], explain_misses=True)
    f(PARAMETERS)
    f(changed(PARAMETERS, b=None))
    said = capsys.readouterr().out
    assert said.endswith("Compared with the nearest:\n  argument p['layer5']['b'] is missing where before it was a leaf\n")


def test_a_miss_is_explained_while_other_threads_add_signatures(monkeypatch, capsys):
    f = pb.jit(lambda x: x + 1, explain_misses=True)
    f(1.0)
    compared = history.distance

    def meanwhile(*args):
        f._signatures.setdefault(("another", len(f._signatures)), None)
        return compared(*args)

    monkeypatch.setattr(history, "distance", meanwhile)
    f(1)
    f._signatures.clear()
    assert "traced again" in capsys.readouterr().out


# ---- dicts of several kinds -------------------------------------------------------------------------------------------

ORDERED = collections.OrderedDict


def scaled(p: Any) -> Any:
    return ORDERED(w=p["w"] * 2, b=p["b"] * 3)


def custom(rule: Callable[..., Any]) -> Any:
    f = pb.custom_vjp(lambda p: p["w"] * 2 + p["b"] * 3)
    f.defvjp(lambda p: (f(p), None), lambda _, ct: (rule(ct * 2, ct * 3),))
    return pb.grad(f)(ORDERED(w=1.0, b=1.0))


ROWS = np.arange(4.0).reshape(2, 2)
KINDS: dict[str, Callable[..., Any]] = {
    "another order": lambda w, b: ORDERED(b=b, w=w),
    "a dict": lambda w, b: dict(w=w, b=b),
    "a defaultdict": lambda w, b: collections.defaultdict(int, w=w, b=b),
}
BY_KEY: dict[str, tuple[Callable[[Any], Any], tuple[Any, Any]]] = {
    "vjp": (lambda kind: pb.vjp(scaled, ORDERED(w=1.0, b=1.0))[1](kind(1.0, 10.0))[0], (2.0, 30.0)),
    "jvp": (lambda kind: pb.jvp(scaled, (ORDERED(w=1.0, b=1.0),), (kind(1.0, 10.0),))[1], (2.0, 30.0)),
    "linear_transpose": (lambda kind: pb.linear_transpose(scaled, ORDERED(w=1.0, b=1.0))(kind(1.0, 10.0))[0], (2.0, 30.0)),
    "custom_vjp": (custom, (2.0, 3.0)),
    "in_axes": (lambda kind: pb.vmap(lambda p: p, in_axes=(kind(0, 1),))(ORDERED(w=ROWS, b=ROWS)), (ROWS, ROWS.T)),
    "out_axes": (lambda kind: pb.vmap(lambda x: ORDERED(w=x, b=x), out_axes=kind(0, 1))(ROWS), (ROWS, ROWS.T)),
    "in_axes of a dict": (lambda kind: pb.vmap(lambda p: p, in_axes=(ORDERED(w=0, b=1),))(kind(ROWS, ROWS)), (ROWS, ROWS.T)),
}


@pytest.mark.parametrize("case", BY_KEY)
@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_dicts_go_by_their_keys_and_not_by_their_order(case: str, kind: str) -> None:
    call, (w, b) = BY_KEY[case]
    found = call(KINDS[kind])
    np.testing.assert_array_equal(found["w"], w)
    np.testing.assert_array_equal(found["b"], b)
