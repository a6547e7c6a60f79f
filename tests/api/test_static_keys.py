"""Static arguments: two calls share a trace if and only if their static arguments are equal, of the same type, throughout."""

import dataclasses
import enum
import itertools
from collections import namedtuple
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pullback as pb
from pullback.program.equality import param_key

ARRAY = pb.numpy.ones(2)


@dataclasses.dataclass(frozen=True)
class Plain:
    value: object


@dataclasses.dataclass(frozen=True)
class Initial:
    """State that `__init__` takes and that is no field."""

    value: object = 1
    seed: dataclasses.InitVar[int] = 0
    doubled: object = dataclasses.field(init=False, default=0)

    def __post_init__(self, seed):
        object.__setattr__(self, "doubled", 2 * seed)


@dataclasses.dataclass(eq=False)
class Identity:
    value: object


@dataclasses.dataclass(frozen=True)
class Unnoticed:
    value: object
    note: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True)
class OwnEquality:
    value: float
    cached: list = dataclasses.field(default_factory=list)

    def __eq__(self, other):
        return type(other) is OwnEquality and self.value == other.value

    def __hash__(self):
        return hash(self.value)


@dataclasses.dataclass(frozen=True)
class OwnHash:
    """Of lists, which Python hashes not."""

    values: object

    def __hash__(self):
        return len(self.values)


class Metres(float):
    def __repr__(self):
        return f"Metres({float(self)!r})"


class Count(int):
    def __repr__(self):
        return f"Count({int(self)})"


class Pair(tuple):
    __slots__ = ()

    def __repr__(self):
        return f"Pair({tuple(self)!r})"


class Level(enum.IntEnum):
    LOW = 1


Point = namedtuple("Point", "x y")
Place = namedtuple("Place", "x y")

DIFFERENT = [
    (1, True), (1, 1.0), (1.0, 1 + 0j), (0.0, -0.0), (0j, complex(0.0, -0.0)), (1, Count(1)), (1.0, Metres(1.0)),
    (1, Level.LOW), (Metres(0.0), Metres(-0.0)), (2.0, np.float64(2)), (2, np.int64(2)), (np.int32(2), np.int64(2)),
    (np.float32(0.0), np.float32(-0.0)), (True, np.True_), ((1,), Pair((1,))), ((1, 2), Point(1, 2)),
    (Point(1, 2), Place(1, 2)), (Point(1, 2), Point(1.0, 2)), (Pair((1,)), Pair((1.0,))), ((1, (2, 3)), (1, (2, 3.0))),
    (frozenset({1}), frozenset({1.0})), (frozenset({(0.0,)}), frozenset({(-0.0,)})), (Plain(1), Plain(1.0)),
    (Plain((1,)), Plain((True,))), (Initial(seed=1), Initial(seed=2)), (Identity(1), Identity(1)), ("a", b"a"),
    (slice(1), slice(1.0)), (Fraction(1), 1), (None, ()), (np.datetime64(1, "s"), np.datetime64(1, "ms")),
    (OwnHash([1]), OwnHash([1.0])), (OwnHash({"a": [0.0]}), OwnHash({"a": [-0.0]})),
]  # fmt: skip

SAME = [
    lambda: float("nan"), lambda: np.float32("nan"), lambda: (1, "a", (2.5, None)), lambda: Point(1, 2), lambda: Plain((1, 2)),
    lambda: Initial(seed=3), lambda: Unnoticed(1, str(next(counter))), lambda: OwnEquality(2.0, [next(counter)]),
    lambda: frozenset({"a"}), lambda: Metres(1.5), lambda: Level.LOW, lambda: np.float64(2), lambda: slice(1, 2),
    lambda: Fraction(1, 3), lambda: 10**400, lambda: range(3), lambda: np.dtype("float32"), lambda: float,
    lambda: OwnHash([1, {"a": 2.0}]),
]  # fmt: skip
counter = itertools.count()


def traces(*values):
    """How often a jitted function is traced for these values of its static argument."""
    seen = []

    @partial(pb.jit, static_argnums=1)
    def f(x, static):
        seen.append(static)
        return x

    for value in values:
        f(ARRAY, value)
    return len(seen)


@pytest.mark.parametrize("first, second", DIFFERENT, ids=repr)
def test_values_that_differ_in_type_or_state_are_traced_apart(first, second):
    assert traces(first, second) == 2
    assert traces((first,), (second,)) == 2
    assert traces(first, first, second, second) == 2


@pytest.mark.parametrize("make", SAME)
def test_equal_values_of_one_type_share_a_trace(make):
    assert traces(make(), make()) == 1


@pytest.mark.parametrize(
    "value", [[1], {"a": 1}, {1}, (1, [2]), Plain([1]), Point([1], 2), np.ones(2), ARRAY, slice([1], 2)], ids=repr
)
def test_what_cannot_be_hashed_is_refused_by_name(value):
    with pytest.raises(pb.errors.StaticArgumentError, match=r"Argument static of .* is static, so it must be hashable"):
        traces(value)


numbers = st.one_of(
    st.integers(-2, 2),
    st.booleans(),
    st.floats(-2, 2, width=16).map(lambda x: round(x)).map(float),
    st.sampled_from(
        [0.0, -0.0, float("nan"), 1j, complex(0, -0.0), np.float64(1), np.int32(1), np.int64(1), Metres(1), Count(1)]
    ),
)
values = st.recursive(
    numbers,
    lambda inner: st.one_of(
        st.tuples(inner),
        st.tuples(inner, inner),
        st.tuples(inner).map(Pair),
        st.tuples(inner, inner).map(lambda xy: Point(*xy)),
        inner.map(lambda x: frozenset({x})),
        inner.map(Plain),
    ),
    max_leaves=4,
)


@settings(max_examples=500, deadline=None)
@given(values, values)
def test_equal_keys_mean_equal_reprs(a, b):
    """repr tells these values apart completely, so it is the truth that keys are held against."""
    same_key = param_key(a) == param_key(b)
    assert same_key == ((type(a), repr(a)) == (type(b), repr(b)))
    if same_key:
        assert hash(param_key(a)) == hash(param_key(b))


@pytest.mark.parametrize("first, second", [(2, 2.0), (2.0, 2), (True, 1), ((2,), (2.0,))])
def test_the_type_of_an_operation_follows_the_type_of_its_parameter(first, second):
    def result_type(x, *, n):
        inner = n[0] if isinstance(n, tuple) else n
        return pb.ArrayType(x.shape, {int: "int32", float: "float32", bool: "bool"}[type(inner)])

    like = pb.Primitive("like", result_type=result_type, evaluate=lambda x, *, n: x)
    for n in (first, second):
        program = pb.xpr(lambda x, n=n: like(x, n=n), pb.ArrayType((), "float32"))
        assert program.output_types[0] is result_type(program.input_types[0], n=n)


def test_an_equality_of_the_users_in_code_without_a_file_is_asked() -> None:
    names = {"__name__": __name__}
    exec(  # as code is that is given to `python -c`
        "import dataclasses\n"
        "@dataclasses.dataclass\n"
        "class Scale:\n"
        "    name: str\n"
        "    def __post_init__(self): self.factor = 1.0\n"
        "    def __eq__(self, other): return self.factor == other.factor\n"
        "    def __hash__(self): return hash(self.name)\n",
        names,
    )
    one, two = names["Scale"]("s"), names["Scale"]("s")
    two.factor = 2.0
    f = pb.jit(lambda x, s: x * s.factor, static_argnums=1)
    assert [float(f(3.0, s)) for s in (one, two, one, two)] == [3.0, 6.0, 3.0, 6.0]
