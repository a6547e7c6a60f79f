"""Which calls a fast path takes: of inputs that nothing reads, containers, static arguments, by whatever is around them."""

from __future__ import annotations

import collections
import dataclasses
import gc
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.api import compiled

X = pnp.arange(4.0)
LARGE = np.arange(100_000, dtype=np.float32)


@pytest.fixture
def slow_calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list to which each call adds for which no fast path was found."""
    found: list[Any] = []
    call = compiled.Jitted._call
    monkeypatch.setattr(compiled.Jitted, "_call", lambda self, *given: found.append(given) or call(self, *given))
    return found


def values(tree: Any) -> Any:
    leaves, structure = pb.tree.flatten(tree)
    return structure, [np.asarray(leaf).tolist() for leaf in leaves]


def check(jitted: Any, plain: Callable[..., Any], make: Callable[[], Any], slow_calls: list[Any], path: bool = True) -> None:
    """Five calls give what the plain function gives, and the last three go by a fast path."""
    for turn in range(5):
        args, kwargs = make()
        slow_calls.clear()
        found = jitted(*args, **kwargs)
        args, kwargs = make()
        assert values(found) == values(plain(*args, **kwargs))
        assert len(slow_calls) == (turn < 2 or not path)


# ---- inputs that nothing reads --------------------------------------------------------------------------------------------

KEPT = pnp.arange(1000.0)

UNREAD = {
    "the last": (lambda x, y: x + 1.0, {}, lambda: ((X, X), {})),
    "the first": (lambda x, y: y + 1.0, {}, lambda: ((pnp.ones(3), X), {})),
    "all": (lambda x, y: 3.0, {}, lambda: ((X, 2.0), {})),
    "of a result": (lambda x, y: y, {}, lambda: ((X, X), {})),
    "by name": (lambda *, x, y: x * 2.0, {}, lambda: ((), {"y": X, "x": X})),
    "in trees": (lambda t: [t["a"][0], t["a"][0] * 2.0], {}, lambda: (({"a": (X, X), "b": [X]},), {})),
    "of many": (lambda *xs: xs[0] + xs[-1], {}, lambda: (tuple([X] * 100), {})),
    "of very many": (lambda xs: xs[0] + xs[-1], {}, lambda: (([X] * 150,), {})),
    "numbers": (lambda x, y, z: x + z, {}, lambda: ((1.0, 2.0, 3), {})),
    "of NumPy": (lambda x, y: x + 1.0, {}, lambda: ((np.ones(3), np.ones(4)), {})),
    "large ones of NumPy": (lambda x, y: x + 1.0, {}, lambda: ((LARGE[:3], LARGE), {})),
    "large ones of NumPy and a callback": (
        lambda x, y: (pb.debug.callback(lambda v: None, x), x + 1.0)[1], {}, lambda: ((LARGE[:3], LARGE), {}),
    ),
    "beside constants": (lambda x, y: y + KEPT[:4].sum() * KEPT.sum(), {}, lambda: ((X, X), {})),
    "beside static ones": (lambda x, n, y: y * n, {"static_argnums": 1}, lambda: ((X, 3, X), {})),
    "beside donated ones": (lambda x, y, z: z + x, {"donate_argnums": 0}, lambda: ((X * 1.0, X, X), {})),
    "donated ones": (lambda x, y: y + 1.0, {"donate_argnums": 0}, lambda: ((X * 1.0, X), {})),
    "donated trees": (
        lambda s, y: {"a": s["a"] + 1.0, "b": s["a"] * 2.0}, {"donate_argnums": 0},
        lambda: (({"a": X * 1.0, "b": X * 1.0}, X), {}),
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("which", UNREAD)
def test_inputs_that_nothing_reads(which: str, keep: bool, slow_calls: list[Any]) -> None:
    function, options, make = UNREAD[which]
    copied = keep and which == "large ones of NumPy and a callback"  # it is read while Python code runs
    check(pb.jit(function, keep_unused=keep, **options), function, make, slow_calls, not copied)


@pytest.mark.parametrize(("keep", "count"), [(False, 1), (True, 3)])
def test_the_compiled_program_takes_what_it_reads(keep: bool, count: int) -> None:
    made = pb.jit(lambda x, y, z: y * 2.0, keep_unused=keep).lower(X, X, X)
    head = next(line for line in made.as_text().splitlines() if "@main" in line)
    assert head.count("%arg") == count
    assert made.compile()(X, X + 1.0, X).tolist() == [2.0, 4.0, 6.0, 8.0]


@pytest.mark.parametrize("calls", [0, 3])
@pytest.mark.parametrize("count", [1, 150])
def test_an_array_that_is_gone_is_refused_though_nothing_reads_it(calls: int, count: int) -> None:
    f = pb.jit(lambda x, others: x + 1.0)
    for _ in range(calls):
        f(X, [X] * count)
    gone = X * 1.0
    gone.delete()
    for _ in range(2):
        with pytest.raises(pb.errors.DonatedBufferError, match=r"others\[0\]"):
            f(X, [gone] * count)


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
def test_what_is_donated_is_gone_though_nothing_reads_it() -> None:
    f = pb.jit(lambda x, y: y + 1.0, donate_argnums=0)
    for _ in range(4):
        given = X * 1.0
        f(given, np.ones(2, np.float32))
        assert given.is_deleted()


# ---- containers -----------------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    first: Any
    second: Any


class Empty(NamedTuple):
    pass


class Backwards(NamedTuple):
    first: Any
    second: Any

    def __iter__(self) -> Any:
        return iter((self[1], self[0]))


class Named(Pair):
    """Its parts are those of the tuple, whatever it calls them."""

    @property
    def first(self) -> Any:  # type: ignore[override]
        return 7.0


@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any


@dataclasses.dataclass
class Counted:
    weight: Any
    made: Any = dataclasses.field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.made = 1.0


@dataclasses.dataclass(frozen=True)
class Inner:
    layers: Any
    extra: Any = None


@dataclasses.dataclass
class Labelled:
    weight: Any
    label: str = dataclasses.field(default="a", metadata={"static": True})


TREES = {
    "NamedTuple": lambda: Pair(X, {"b": X, "a": 2.0}),
    "NamedTuple of nothing": lambda: (Empty(), X),
    "NamedTuple with an order of its own": lambda: Backwards(X, 2.0),
    "NamedTuple with a name of its own": lambda: Named(X, 2.0),
    "dataclass": lambda: Layer(X, np.ones(2, np.float32)),
    "dataclass that adds": lambda: Counted(X),
    "frozen dataclass": lambda: Inner([Layer(X, 1.0), Layer(2.0, X)], Pair(None, X)),
    "dataclass with metadata": lambda: Labelled(X, "b"),
    "dict in an order of its own": lambda: {"b": X, "a": Layer(X, X), "c": {"z": X, "y": X}},
    "others inside": lambda: Pair(collections.OrderedDict(b=X, a=X), Layer(collections.deque([X]), 1.0)),
    "many": lambda: Pair([X] * 150, tuple([X] * 200)),
}


@pytest.mark.parametrize("which", TREES)
def test_containers(which: str, slow_calls: list[Any]) -> None:
    def function(tree: Any) -> Any:
        return pb.tree.map(lambda x: x * 2.0, tree)

    jitted = pb.jit(function)
    check(jitted, function, lambda: ((TREES[which](),), {}), slow_calls)
    again = jitted(TREES[which]())
    assert again.__class__ is TREES[which]().__class__
    if isinstance(again, dict):
        assert list(again) == ["b", "a", "c"] and list(again["c"]) == ["z", "y"]
    assert getattr(again, "made", 1.0) == 1.0


def test_containers_of_other_classes_and_with_other_metadata() -> None:
    f = pb.jit(lambda tree: (len(repr(pb.tree.structure(tree))), pb.tree.leaves(tree)))
    trees = [Pair(X, X), (X, X), [X, X], Named(X, X), Backwards(X, X), Layer(X, X), Labelled(X), Labelled(X, "longer")]
    wanted = [len(repr(pb.tree.structure(tree))) for tree in trees]
    for _ in range(4):
        assert [int(f(tree)[0]) for tree in trees] == wanted


# ---- static arguments -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Config:
    width: Any = 2
    rate: Any = 0.5
    note: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True)
class Other(Config):
    pass


class Text(str):
    __slots__ = ()


NAN = float("nan")
STATICS = [
    1, 1.0, True, np.int64(1), 0.0, -0.0, NAN, None, "1", Text("1"), b"1", 1j,
    (1, 2), (1.0, 2), (True, 2), (1, 2, 3), (), (1, (2, "x")), (1, (2.0, "x")), (1, (2, None)), Pair(1, 2), Pair(1.0, 2),
    Config(), Config(2.0), Config(2, -0.0), Config(2, 0.0), Config(Config(1)), Config(Config(1.0)), Other(), (Config(), 1),
    (Other(), 1), Config((1, 2)), Config(frozenset({1})), slice(1, 2), slice(1.0, 2),
]  # fmt: skip


def test_static_arguments_that_are_nearly_equal() -> None:
    """The function's result says which of them it was traced for."""
    for first in range(len(STATICS)):  # eight have fast paths at a time
        group = [(first + step) % len(STATICS) for step in (0, 1, 2, 3, 5, 8)]
        by_form = {(type(STATICS[i]), repr(STATICS[i])): i for i in range(len(STATICS))}
        assert len(by_form) == len(STATICS)
        f = pb.jit(lambda x, which: x + by_form[type(which), repr(which)], static_argnums=1)
        for _ in range(3):
            assert [int(f(0, STATICS[i])) for i in group] == group


def test_what_is_not_compared_makes_no_difference(slow_calls: list[Any]) -> None:
    f = pb.jit(lambda x, config: x * config.width, static_argnames="config")
    for note in ("one", "two", "three", "four"):
        slow_calls.clear()
        assert float(f(2.0, config=Config(3, note=note))) == 6.0
    assert not slow_calls


# ---- calls ----------------------------------------------------------------------------------------------------------------


def test_each_of_eight_signatures_has_its_fast_path_and_others_are_right(slow_calls: list[Any]) -> None:
    f = pb.jit(lambda *xs, **named: sum([x.sum() for x in (*xs, *named.values())]))
    calls = [((X,) * count, named) for count in range(1, 5) for named in ({}, {"a": X})]
    for _ in range(2):
        for args, named in calls:
            f(*args, **named)
    slow_calls.clear()
    for _ in range(3):
        for args, named in calls:
            assert float(f(*args, **named)) == 6.0 * (len(args) + len(named))
    assert not slow_calls
    assert float(f(X, b=X)) == 12.0 and float(f(a=X)) == 6.0


@pytest.mark.parametrize("args", [(), (X, X, X)])
def test_a_wrong_number_of_arguments(args: Any) -> None:
    f = pb.jit(lambda x, y: x + y)
    for _ in range(3):
        f(X, X)
    with pytest.raises(TypeError, match="argument"):
        f(*args)
    with pytest.raises(TypeError, match="argument"):
        f(X, X, z=X)
    assert f(y=X, x=X).tolist() == f(X, y=X).tolist() == f(X, X).tolist()


@pytest.mark.parametrize("calls", [0, 1, 3])
def test_its_call_outlives_the_function(calls: int) -> None:
    """As a method would; and the function itself is gone as soon as nobody holds it."""
    traced = []
    f = pb.jit(lambda x: (traced.append(x), x + 1.0)[1])
    for _ in range(calls):
        f(X)
    call = f.__call__
    alive = len([one for one in compiled._instances.values() if one is f])
    del f
    gc.collect()
    count = len(traced)
    for given in (X, pnp.ones(2), 1.0, X):
        assert np.array_equal(np.asarray(call(given)), np.asarray(given) + 1.0)
    assert alive == 1 and len(traced) <= count + 3
    gone = X * 1.0
    gone.delete()
    with pytest.raises(pb.errors.DonatedBufferError, match="Argument x of"):
        call(gone)


@pytest.mark.parametrize("forms", [0, 1, 4])
def test_an_error_shows_no_frames_of_ours(forms: int) -> None:
    fail = []

    def fails(x: Any) -> None:
        if fail:
            raise KeyError("mine")

    f = pb.jit(lambda x: (pb.debug.callback(fails, x), x)[1])
    given = [pnp.ones(size) for size in range(1, 5)]
    for x in given[:forms]:
        for _ in range(3):
            f(x)
    fail.append(True)
    for x in [*given, "neither array nor number"]:
        with pytest.raises((KeyError, TypeError)) as caught:
            f(x)
        assert {frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)} == {__file__}


def test_a_named_axis_around_the_call() -> None:
    def function(x: Any) -> Any:
        try:
            return x + pb.lax.axis_size("i")
        except pb.errors.AxisNameError:
            return x

    f = pb.jit(function)
    for _ in range(3):
        assert float(f(1.0)) == 1.0
    found = pb.vmap(lambda y: y + f(1.0), axis_name="i")(pnp.zeros(5))
    assert found.tolist() == [6.0] * 5 and float(f(1.0)) == 1.0
