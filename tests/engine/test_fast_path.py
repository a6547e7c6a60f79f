"""The fast path of compiled functions: taken from the third call of a kind on, with the results of the plain function."""

from __future__ import annotations

import collections
import dataclasses
import enum
from typing import Any, NamedTuple

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.api import compiled
from pullback.core import trees
from pullback.core.array import Array


class State(NamedTuple):
    params: Any
    step: Any


@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any
    name: Any = dataclasses.field(default="layer", metadata={"static": True})


@dataclasses.dataclass(frozen=True)
class Config:
    width: int = 2
    rate: float = 0.5
    sizes: Any = ()


@dataclasses.dataclass(unsafe_hash=True)
class Changing:
    value: Any


class Mode(enum.Enum):
    ADD = 1
    SCALE = 2


class Node:
    """Registered with metadata that is handed over as it is."""

    def __init__(self, left: Any, right: Any, tag: Any = None) -> None:
        self.left, self.right, self.tag = left, right, tag


pb.tree.register_node(Node, lambda node: ((node.left, node.right), node.tag), lambda tag, both: Node(*both, tag))


class ByHash:
    """A static argument whose equality and hash are its own."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByHash) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"ByHash({self.value})"


def computed(size: int = 3, value: float = 2.0) -> Array:
    """An array in a device buffer that nothing else holds."""
    return _double(np.full(size, value / 2, np.float32))


_double = pb.jit(lambda x: x * 2.0)


def known(x: Any) -> Any:
    return np.asarray(x).dtype, getattr(getattr(x, "type", None), "weak", None), np.asarray(x).tolist()


def result_of(call: Any) -> Any:
    """A result in a form that tells structures, dtypes, weakness and values apart."""
    leaves, structure = pb.tree.flatten(call())
    return structure, [known(x) for x in leaves]


@pytest.fixture
def slow_calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list to which each call adds for which no fast path was found."""
    found: list[Any] = []
    call = compiled.Jitted._call
    monkeypatch.setattr(compiled.Jitted, "_call", lambda self, *given: found.append(given) or call(self, *given))
    return found


X = pnp.arange(4.0)


def on_leaves(tree: Any, *more: Any) -> Any:
    return pb.tree.map(lambda x: x * 2.0 + len(more), tree)


def spent(tree: Any, x: Any = 1.0) -> Any:
    return pb.tree.map(lambda leaf: leaf * 2.0 + x, tree)


def scaled(x: Any, by: Any = 3, *rest: Any, **named: Any) -> Any:
    return x * (by.value if hasattr(by, "value") else by) + len(rest) + len(named)


STATIC, GIVEN = {"static_argnums": 1}, {"donate_argnums": 0}
# A function, the options of jit, and calls: each makes its arguments, positional and named
KINDS: dict[str, tuple[Any, dict[str, Any], list[Any]]] = {
    "static numbers": (scaled, STATIC, [lambda n=n: ((X, n), {}) for n in (2, 2.0, True, np.int64(2), 0.0, -0.0)]),
    "static by name": (scaled, {"static_argnames": "by"}, [lambda n=n: ((X,), {"by": n}) for n in (1, 2, 1.0)]),
    "static by default": (scaled, STATIC, [lambda: ((X,), {}), lambda: ((X, 3), {}), lambda: ((X,), {"by": 3})]),
    "static, the last": (
        lambda *xs: xs[0] * xs[-1], {"static_argnums": -1},
        [lambda: ((X, 2), {}), lambda: ((X, X, 2), {}), lambda: ((X, X, 3), {})],
    ),
    "all static": (lambda a, b: pnp.ones(a) * b, {"static_argnums": (0, 1)}, [lambda: ((2, 3), {}), lambda: ((3, 2), {})]),
    "static None": (lambda x, n: x if n is None else x + n, STATIC, [lambda: ((X, None), {}), lambda: ((X, 1), {})]),
    "static tuples": (
        lambda x, n: x.reshape([int(size) for size in n]) * n[0], STATIC,
        [lambda n=n: ((X, n), {}) for n in ((2, 2), (2.0, 2), (4, 1), (np.int32(2), 2))],
    ),
    "static configurations": (
        lambda x, c: x * c.rate + c.width + len(c.sizes), STATIC,
        [lambda c=c: ((X, dataclasses.replace(c)), {}) for c in (Config(), Config(3), Config(sizes=(1, (2.0,))))],
    ),
    "static members": (scaled, STATIC, [lambda: ((X, Mode.ADD), {}), lambda: ((X, Mode.SCALE), {})]),
    "static functions": (lambda x, f: f(x), STATIC, [lambda f=f: ((X, f), {}) for f in (pnp.negative, pnp.square, scaled)]),
    "static objects": (scaled, STATIC, [lambda n=n: ((X, ByHash(n)), {}) for n in (2, 3)]),
    "static among others": (
        lambda s, n, k: spent(s, n * k), {"static_argnames": ("n",)},
        [lambda n=n, k=k: ((State(X, 1.0), n), {"k": k}) for n in (2, 3) for k in (1.0, np.float32(2.0))],
    ),
    "by name": (lambda x, y=2.0: x - y, {}, [lambda: ((X,), {}), lambda: ((X,), {"y": X}), lambda: ((), {"y": X, "x": X})]),
    "namedtuples": (
        on_leaves, {}, [lambda: ((State(X, 1.0),), {}), lambda: ((State((X, None), X),), {}), lambda: (((X, 1.0),), {})],
    ),
    "dataclasses": (on_leaves, {}, [lambda n=n: ((Layer(X, {"b": [X, 2]}, n),), {}) for n in ("a", "b", ["list"])]),
    "nodes": (on_leaves, {}, [lambda t=t: (([Node(X, X, t), 1.0], X), {}) for t in (None, 1, "1", (1, 2))]),
    "kinds of dict": (
        on_leaves, {},
        [lambda c=c: ((c,), {}) for c in (
            {1: X, 0: 2.0}, {"b": X, "a": 2.0}, collections.OrderedDict(b=X, a=2.0), collections.OrderedDict(a=2.0, b=X),
            collections.defaultdict(list, b=X, a=2.0), collections.deque([X, 2.0]),
        )],
    ),
    "nodes by name": (lambda *, s: on_leaves(s), {}, [lambda: ((), {"s": State(X, 1)}), lambda: ((), {"s": State(X, X)})]),
    "empty nodes": (lambda s, x: (s, x), {}, [lambda: ((State((), None), X), {}), lambda: ((Node({}, []), X), {})]),
    "nodes of NumPy arrays": (
        on_leaves, {}, [lambda n=n: ((State(np.ones(n, np.float32), np.int32(n)),), {}) for n in (2, 3, 50_000)],
    ),
    "nodes of many": (on_leaves, {}, [lambda n=n: ((State([X] * n, {"k": [X] * n}),), {}) for n in (100, 150)]),
    "many with others": (
        lambda s, x: (s[-1] * x, len(s)), {},
        [lambda: (([X] * 200, np.float32(2.0)), {}), lambda: (([X] * 200, 2.0), {})],
    ),
    "donated": (spent, GIVEN, [lambda n=n: ((computed(n),), {}) for n in (2, 3)]),
    "donated trees": (spent, GIVEN, [lambda: (({"w": [computed(), computed(2)]},), {}), lambda: ((computed(),), {"x": X[:3]})]),
    "donated nodes": (
        spent, GIVEN,
        [lambda: ((Layer(computed(), computed(2), "n"), X[0]), {}), lambda: ((State(computed(), 1.0), 2.0), {})],
    ),
    "donated by name": (spent, {"donate_argnames": "tree"}, [lambda: ((), {"tree": computed(), "x": computed()})]),
    "donated many": (spent, GIVEN, [lambda: (([computed(2) for _ in range(150)], X[0]), {})]),
    "donated of NumPy": (
        spent, GIVEN,
        [lambda: ((np.arange(3.0, dtype=np.float32), X[:3]), {}), lambda: ((np.float32(2.0), 1.0), {})],
    ),
    "donated, large": (spent, GIVEN, [lambda: ((np.ones(40_000, np.float32), np.float32(1.0)), {})]),
    "donated numbers": (spent, GIVEN, [lambda: ((2.0, X), {}), lambda: ((2, X), {}), lambda: ((1j, X), {})]),
    "donated and static": (
        lambda s, n: spent(s, n), {**GIVEN, **STATIC},
        [lambda n=n: ((State(computed(), computed()), n), {}) for n in (1, 1.0, 2)],
    ),
    "donated in host memory": (spent, GIVEN, [lambda: ((pnp.asarray([1.0, 2.0]), 1.0), {})]),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_call_is_recognised_and_right(kind: str, slow_calls: list[Any]) -> None:
    function, options, calls = KINDS[kind]
    jitted = pb.jit(function, **options)
    expected = []
    for make in calls:
        args, kwargs = make()
        expected.append(result_of(lambda: pb.jit(function, **options)(*args, **kwargs)))
        args, kwargs = make()
        plain = result_of(lambda: function(*args, **kwargs))
        assert expected[-1][0] == plain[0] and [one[-1] for one in expected[-1][1]] == [one[-1] for one in plain[1]]
    for turn in range(5):
        for make, wanted in zip(calls, expected, strict=True):
            args, kwargs = make()
            slow_calls.clear()
            assert result_of(lambda: jitted(*args, **kwargs)) == wanted
            assert len(slow_calls) == (turn < 2), "the first call traces, the second one makes a path, the others take it"


# ---- static arguments -----------------------------------------------------------------------------------------------------


def prepared(function: Any, make: Any, **options: Any) -> Any:
    """Compiled, and called with the arguments that `make` makes often enough to have a fast path."""
    jitted = pb.jit(function, **options)
    for _ in range(3):
        jitted(*make())
    assert len(jitted._fast_paths) == 1
    return jitted


@pytest.mark.parametrize("static", [ByHash(2), Changing(2), Changing((2,)), Changing(ByHash(2))], ids=repr)
def test_a_static_argument_that_is_changed_in_place_is_another_one(static: Any) -> None:
    def value(of: Any) -> Any:
        while not isinstance(of, int):
            of = of[0] if isinstance(of, tuple) else of.value
        return of

    times = prepared(lambda x, n: x * value(n), lambda: (X, static), static_argnums=1)
    inner = static.value if isinstance(static.value, ByHash) else static
    inner.value = (5,) if isinstance(static.value, tuple) else 5
    for _ in range(3):
        assert times(X, static).tolist() == [0.0, 5.0, 10.0, 15.0]
    inner.value = [5]
    for _ in range(3):
        with pytest.raises(pb.errors.StaticArgumentError, match=r"Argument n of .* must be hashable"):
            times(X, static)


class Refuses:
    error: BaseException | None = None

    def __eq__(self, other: object) -> bool:
        for one in (self, other):
            if isinstance(one, Refuses) and one.error is not None:
                raise one.error
        return isinstance(other, Refuses)

    def __hash__(self) -> int:
        return 1


@pytest.mark.parametrize("error", [ValueError, TypeError, KeyError, AttributeError, ZeroDivisionError, KeyboardInterrupt])
def test_what_a_comparison_raises_is_raised_as_without_a_fast_path(error: type[BaseException]) -> None:
    same = prepared(lambda x, n: x, lambda: (X, Refuses()), static_argnums=1)
    again = Refuses()
    again.error = error("mine")
    wanted = pb.errors.StaticArgumentError if error in (ValueError, TypeError) else error
    for _ in range(2):
        with pytest.raises(wanted):
            same(X, again)
    assert same(X, Refuses()).tolist() == X.tolist()


@pytest.mark.parametrize("static", [[1], np.ones(2), X, {1: 2}, (1, [2])], ids=repr)
def test_what_cannot_be_hashed_is_refused_after_others_too(static: Any) -> None:
    same = prepared(lambda x, n: x, lambda: (X, 1), static_argnums=1)
    with pytest.raises(pb.errors.StaticArgumentError, match=r"Argument n of .* must be hashable"):
        same(X, static)


def test_a_static_argument_is_not_taken_apart() -> None:
    @dataclasses.dataclass(frozen=True)
    class Unknown:
        size: int

    prepared(lambda x, n: x * n.size, lambda: (X, Unknown(2)), static_argnums=1)
    assert Unknown not in trees._dataclasses


def test_what_the_function_changes_in_its_static_argument_while_it_runs() -> None:
    static = Changing(1)
    seen = []

    @pb.jit
    def ignored(x: Any) -> Any:
        return x

    def function(x: Any, n: Any) -> Any:
        pb.debug.callback(lambda: setattr(static, "value", static.value + 1))
        return ignored(x) * n.value

    times = pb.jit(function, static_argnums=1)
    for turn in range(1, 6):
        static.value = turn % 2
        seen.append(float(times(X, static)[1]))
    assert seen == [1.0, 0.0, 1.0, 0.0, 1.0]


# ---- containers of users' ----------------------------------------------------------------------------------------------


def test_metadata_is_compared_with_that_of_the_first_call() -> None:
    """Not with that of the call for which the path was made, which may be changed in place without notice."""
    traced = []
    tags = pb.jit(lambda node: traced.append(list(node.tag)) or node.left)
    first, second = Node(X, X, [1]), Node(X, X, [1])
    tags(first), tags(second), tags(second)
    second.tag.append(2)
    tags(second), tags(first), tags(second)
    assert traced == [[1], [1, 2]]


class Fails:
    error: BaseException | None = None


def take_apart(value: Fails) -> tuple[Any, None]:
    if value.error is not None:
        raise value.error
    return (X,), None


pb.tree.register_node(Fails, take_apart, lambda _, children: Fails())


@pytest.mark.parametrize("error", [ValueError, KeyError, AttributeError, StopIteration, ZeroDivisionError, KeyboardInterrupt])
def test_what_taking_apart_raises_comes_out(error: type[BaseException]) -> None:
    two = prepared(lambda fails: 2.0, lambda: (Fails(),))
    given = Fails()
    given.error = error("mine")
    for _ in range(2):
        with pytest.raises(error, match="mine"):
            two(given)
    assert float(two(Fails())) == 2.0


def test_leaves_of_another_kind_in_the_same_container() -> None:
    double = prepared(lambda s: s.params * 2.0, lambda: (State(X, 1.0),))
    for params in (X, np.ones(4, np.float32), 3.0, 3, np.float64(2.0), X[:2], X > 1.0):
        for _ in range(3):
            found, plain = double(State(params, 1.0)), pnp.asarray(params) * 2.0
            assert found.dtype == plain.dtype and np.array_equal(found, plain)
    with pytest.raises(pb.errors.LeafError, match=r"s\.params"):
        double(State("text", 1.0))


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
def test_under_every_transformation() -> None:
    def function(s: Any, n: Any) -> Any:
        return pnp.sum(s.params**n)

    power = prepared(function, lambda: (State(computed(4), 1.0), 3), static_argnums=1, donate_argnums=0)
    x = pnp.arange(4.0)
    for _ in range(2):
        assert pb.grad(lambda x: power(State(x, 1.0), 3))(x).tolist() == [0.0, 3.0, 12.0, 27.0]
        assert pb.vmap(lambda x: power(State(x, 1.0), 3), axis_name="i")(x).tolist() == [0.0, 1.0, 8.0, 27.0]
        assert float(pb.jit(lambda x: power(State(x, 1.0), 2))(x)) == 14.0
        with pb.default_bits(64):
            assert power(State(3.0, 1.0), 3).dtype == np.float64
        assert power(State(3.0, 1.0), 3).dtype == np.float32


# ---- donation ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: State(x, 1.0), lambda x: [x] * 1], ids=["array", "node", "list"])
def test_donated_memory_is_reused_and_the_array_is_gone(wrap: Any, slow_calls: list[Any]) -> None:
    step = pb.jit(spent, donate_argnums=0)
    state = wrap(computed(1000))
    for turn in range(6):
        given = pb.tree.leaves(state)[0]
        where = given._buffer.unsafe_buffer_pointer()
        slow_calls.clear()
        state = step(state)
        assert len(slow_calls) == (turn < 2)
        assert pb.tree.leaves(state)[0]._buffer.unsafe_buffer_pointer() == where
        with pytest.raises(pb.errors.DonatedBufferError):
            given + 1.0


def shared(x: Array) -> Array:
    return Array(x.type, x._host, x._buffer)


# What else sees the memory of a donated array: it must keep its values
SEEN = {
    "nothing": lambda x: None,
    "another array": shared,
    "an alias": lambda x: x.alias(),
    "a view": lambda x: x.view(),
    "a NumPy array": np.asarray,
    "a memoryview": lambda x: memoryview(x._buffer),
}


@pytest.mark.parametrize("which", SEEN)
def test_what_else_sees_donated_memory_keeps_its_values(which: str, slow_calls: list[Any]) -> None:
    step = prepared(lambda x, y: x * 2.0 + y, lambda: (computed(), 1.0), donate_argnums=0)
    slow_calls.clear()
    for value in (2.0, 3.0):
        x = computed(value=value)
        seen = SEEN[which](x)
        assert step(x, 1.0).tolist() == [2.0 * value + 1.0] * 3
        assert seen is None or np.asarray(seen).tolist() == [value] * 3
        with pytest.raises(pb.errors.DonatedBufferError):
            np.asarray(x)
    assert not slow_calls


TWICE = {
    "donated twice": lambda x: ((x, x), {"z": 1.0}),
    "donated and not": lambda x: ((x, 1.0), {"z": x}),
    "three times": lambda x: ((x, x), {"z": x}),
    "its other, donated": lambda x: ((x, shared(x)), {"z": 1.0}),
    "its other, not": lambda x: ((x, 1.0), {"z": shared(x)}),
}


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
@pytest.mark.parametrize("which", TWICE)
def test_an_array_that_is_passed_twice(which: str) -> None:
    def function(x: Any, y: Any, *, z: Any) -> Any:
        return x * 2.0 + y, y * 3.0 + z, z - x

    step = pb.jit(function, donate_argnums=(0, 1))
    for value in (1.0, 2.0, 3.0, 4.0, 5.0):
        args, kwargs = TWICE[which](computed(value=value))
        plain, named = TWICE[which](pnp.full(3, value))
        found = [np.asarray(y).tolist() for y in step(*args, **kwargs)]
        assert found == [np.asarray(y).tolist() for y in function(*plain, **named)]
    assert len(step._fast_paths) == 1


def test_constants_are_never_given_away() -> None:
    step = pb.jit(lambda x: x * 2.0, donate_argnums=0)
    for _ in range(5):
        one = pb.grad(lambda a: a)(1.0)
        assert float(step(one)) == 2.0 and float(one) == 1.0 and float(pb.grad(lambda a: a)(3.0)) == 1.0


def test_what_is_donated_of_numpys_stays() -> None:
    step = pb.jit(lambda x: x * 2.0, donate_argnums=0)
    for size in (3, 100_000):
        x = np.ones(size, np.float32)
        for _ in range(5):
            assert float(step(x)[0]) == 2.0 and x[0] == 1.0


def test_an_argument_that_was_donated_before_is_named_and_costs_the_others_nothing() -> None:
    step = prepared(lambda s, x: spent(s, x), lambda: (State(computed(), computed()), computed()), donate_argnums=0)
    gone = computed()
    gone.delete()
    calls = [(State(computed(), gone), computed(), r"s\.step"), (State(computed(), computed()), gone, "x")]
    for state, x, path in calls:
        with pytest.raises(pb.errors.DonatedBufferError, match=f"Argument {path} of .* donated before"):
            step(state, x)
        assert state.params.tolist() == [2.0] * 3


def test_a_failure_in_the_middle_of_a_donating_call() -> None:
    fail = []

    def check(x: Any) -> None:
        if fail:
            raise KeyError("mine")

    def function(x: Any) -> Any:
        pb.debug.callback(check, x)
        return x * 2.0

    step = prepared(function, lambda: (computed(),), donate_argnums=0)
    fail.append(True)
    x = computed()
    with pytest.raises(KeyError, match="mine"):
        step(x)
    with pytest.raises(pb.errors.DonatedBufferError):
        np.asarray(x)
    fail.clear()
    assert step(computed()).tolist() == [4.0] * 3
