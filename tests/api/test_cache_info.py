"""What a jitted function says of its calls: how many found their signature, whichever way they took, and why others did not."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import pullback as pb
from pullback import numpy as pnp
from pullback.api import history

WAYS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "kernel": (lambda x: x + 1.0, (pnp.ones(3),), {}),
    "kernel and a number": (lambda x: x + 1.0, (2.0,), {}),
    "kernel and a tree": (lambda p: {"y": p["x"] + 1.0}, ({"x": pnp.ones(3)},), {}),
    "by name": (lambda x: x + 1.0, (), {"x": pnp.ones(3)}),
    "XLA": (lambda x: x @ x, (pnp.ones((300, 300)),), {}),
    "XLA and NumPy": (lambda x: x @ x, (np.ones((300, 300), np.float32),), {}),
    "XLA and a tree": (lambda p: [p["x"] @ p["x"]], ({"x": pnp.ones((300, 300))},), {}),
    "a Ref": (lambda ref: ref[...] + 1.0, (pb.new_ref(pnp.ones(3)),), {}),
    "an empty tree": (lambda p: pnp.ones(3), ((),), {}),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("native", [True, False])
def test_each_call_is_counted_once(way: str, native: bool) -> None:
    function, args, kwargs = WAYS[way]
    history._jitted.clear()
    jitted = pb.jit(function, native=native)
    for number in range(12):
        jitted(*args, **kwargs)
        info = jitted.cache_info()
        assert (info.hits, info.misses, info.size) == (number, 1, 1)
    assert [miss.reason for miss in info.explained] == [history.FIRST]
    jitted.clear_cache()
    assert jitted.cache_info() == (0, 0, 0, ())


def doubled(x: Any) -> Any:
    return x * 2.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: pb.jit(lambda x: x * 2.0),
        lambda: pb.jit(doubled),
        lambda: pb.jit(pb.grad(doubled)),
        lambda: pb.jit(functools.partial(doubled)),
    ],
)
def test_a_function_that_is_jitted_again_is_told_so(make: Callable[[], Any]) -> None:
    history._jitted.clear()
    reasons = []
    for _ in range(3):
        jitted = make()
        jitted(1.0)
        reasons += [miss.reason for miss in jitted.cache_info().explained]
    assert reasons == [history.FIRST, history.ANEW, history.ANEW]


def test_other_functions_and_forgotten_ones_are_not_taken_for_jitted_again() -> None:
    history._jitted.clear()
    one, other = pb.jit(lambda x: x * 3.0), pb.jit(lambda x: x * 3.5)
    for jitted in (one, other, pb.jit(doubled), pb.jit(pb.grad(doubled)), pb.jit(pb.vmap(doubled))):
        for _ in range(2):
            jitted(pnp.ones(())) if jitted.__name__ != "vmap_doubled" else jitted(pnp.ones(3))
            assert [miss.reason for miss in jitted.cache_info().explained] == [history.FIRST], jitted
            jitted.clear_cache()


def test_calls_of_several_signatures_are_counted_together() -> None:
    jitted = pb.jit(lambda x: x * 2.0)
    for size in (1, 2, 3, 2, 1, 3, 3):
        jitted(pnp.ones(size))
    assert jitted.cache_info()[:3] == (4, 3, 3)


def test_calls_inside_other_transformations_are_counted() -> None:
    jitted = pb.jit(lambda x: x * 2.0)
    pb.grad(jitted)(pnp.ones(()))
    pb.vmap(jitted)(pnp.ones(3))
    jitted.lower(pnp.ones(3))
    assert jitted.cache_info()[:2] == (1, 2)


def test_a_call_that_raises_is_counted() -> None:
    def fails(x: Any) -> Any:
        raise ValueError("not today")

    jitted = pb.jit(fails)
    for _ in range(2):
        with pytest.raises(ValueError, match="not today"):
            jitted(1.0)
    info = jitted.cache_info()
    assert (info.hits, info.misses, info.size) == (0, 2, 0)
    assert [miss.reason for miss in info.explained] == [history.FIRST, history.RAISED]


def last(jitted: Any) -> history.Miss:
    return jitted.cache_info().explained[-1]  # type: ignore[no-any-return]


BASE = ({"w": pnp.ones((2, 3)), "b": pnp.ones(3)}, pnp.ones(()))
CHANGES = {
    "shape": (({"w": pnp.ones((2, 3)), "b": pnp.ones(4)}, BASE[1]), "params['b']", "was f32[3], is now f32[4]"),
    "dtype": (({"w": pnp.ones((2, 3)), "b": pnp.ones(3, int)}, BASE[1]), "params['b']", "was f32[3], is now i32[3]"),
    "weak": ((BASE[0], 1.0), "x", "was f32[], is now ~f32[]: it is now weak, as Python's numbers are, and was not"),
    "structure": (({"w": pnp.ones((2, 3)), "c": pnp.ones(3)}, BASE[1]), "params", ""),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_of_an_argument_is_told_by_its_path(kind: str) -> None:
    def f(params: Any, x: Any) -> Any:
        return x

    args, path, text = CHANGES[kind]
    jitted = pb.jit(f)
    jitted(*BASE)
    jitted(*args)
    (change,) = last(jitted).differences
    assert change.kind == kind and change.argument.startswith(path) and text in change.text
    assert str(change) in str(jitted.cache_info())


def test_a_static_value_is_told_by_its_name() -> None:
    jitted = pb.jit(lambda x, n, how="up": x * n, static_argnums=1, static_argnames="how")
    jitted(1.0, 2)
    jitted(1.0, 3)
    assert last(jitted).differences == (("static value", "n", "static argument n: was 2, is now 3"),)
    jitted(1.0, 3, how="down")
    assert last(jitted).differences == (("static value", "how", "static argument how: was not passed, is now 'down' by name"),)
    assert last(jitted).signature == "(x: ~f32[], n=3, how='down')"
    assert last(jitted).nearest == "(x: ~f32[], n=3)"


@dataclasses.dataclass(frozen=True)
class Config:
    width: int
    activation: Any


@dataclasses.dataclass
class WithHash:
    sizes: list[int]

    def __hash__(self) -> int:
        return hash(tuple(self.sizes))


class Pair(NamedTuple):
    one: int
    two: float


class Text(str):
    __slots__ = ()


STATICS: dict[str, tuple[Any, Any, str]] = {
    "a dataclass": (Config(2, "relu"), Config(2, Config(3, 0.5)), "was {}, is now {}"),
    "one with its own hash": (WithHash([1]), WithHash([2]), "was {}, is now {}"),
    "a NumPy number": (2, np.int64(3), "was {}, is now {}"),
    "NumPy numbers": (np.float32(1.5), np.float32(2.5), "was {}, is now {}"),
    "a date": (np.datetime64("2020-01-01"), np.datetime64("2021-01-01"), "was {}, is now {}"),
    "complex numbers": (1 + 2j, 2j, "was {}, is now {}"),
    "slices": (slice(0, 2), slice(0, 2.5), "was {}, is now {}"),
    "sets": (frozenset({1}), frozenset(), "was {}, is now {}"),
    "tuples": ((1,), (), "was {}, is now {}"),
    "tuples with names": (Pair(1, 2.0), Pair(1, 3.0), "was Pair(1, 2.0), is now Pair(1, 3.0)"),
    "another class": (Text("a"), "a", "was 'a' of class Text, is now one of class str"),
    "True for 1": (1, True, "was {}, is now {}"),
    "zeros": (0.0, -0.0, "was {}, is now {}"),
}


@pytest.mark.parametrize("kind", STATICS)
def test_static_values_are_shown_as_users_write_them(kind: str) -> None:
    one, other, says = STATICS[kind]
    jitted = pb.jit(lambda x, n: x, static_argnums=1)
    jitted.trace(1.0, one)
    jitted.trace(1.0, other)
    (change,) = last(jitted).differences
    assert change.text == f"static argument n: {says.format(repr(one), repr(other))}"


def test_calls_that_left_no_signature_are_compared_with_too() -> None:
    @pb.jit
    def refusing(x: Any) -> Any:
        if x.shape == (3,):
            raise ValueError("not today")
        return x

    with pytest.raises(ValueError, match="not today"):
        refusing(pnp.ones(3))
    refusing(pnp.ones(4))
    assert last(refusing).reason == history.UNLIKE
    assert [change.text for change in last(refusing).differences] == ["argument x: was f32[3], is now f32[4]"]


def test_what_has_been_forgotten_is_not_said_to_be_new() -> None:
    jitted = pb.jit(lambda x, n: x, static_argnums=1)
    jitted._signatures.limit, jitted._signatures.on_full = 8, None
    for n in range(history.MAX_MISSES + 1):
        jitted.trace(1.0, n)
    assert last(jitted).reason == history.UNLIKE
    jitted.trace(1.0, 0)  # neither its signature is kept, nor its miss remembered
    assert last(jitted).reason == history.UNKNOWN


def test_a_block_like_another_is_told_as_another() -> None:
    jitted = pb.jit(lambda x: x + 1.0)
    for _ in range(2):
        with pb.checking(leaks="warn"):
            jitted(1.0)
    assert last(jitted).differences[0].text == (
        "the mode: pb.checking was <leaks='warn'>, is now another block of <leaks='warn'>"
    )


def test_a_mode_is_told_in_the_words_that_users_write() -> None:
    jitted = pb.jit(lambda x: x + 1)
    jitted(pnp.ones(3))
    with pb.default_bits(64):
        jitted(pnp.ones(3, "float32"))
    assert last(jitted).differences == (("mode", "", "the mode: default_bits was 32, is now 64"),)
    with pb.native_mode("off"):
        jitted(pnp.ones(3))
    assert last(jitted).differences == (("mode", "", "the mode: native_mode was 'on', is now 'off'"),)


def test_which_arguments_are_refs_is_told() -> None:
    jitted = pb.jit(lambda x, p: x)
    jitted(1.0, {"w": pnp.ones(3), "b": pb.new_ref(pnp.ones(3))})
    jitted(1.0, {"w": pb.new_ref(pnp.ones(3)), "b": pnp.ones(3)})
    assert last(jitted).differences == (
        ("refs", "p['b']", "argument p['b']: was a Ref, and is now an array"),
        ("refs", "p['w']", "argument p['w']: is now a Ref, and was an array"),
    )


def test_the_nearest_signature_differs_least_and_is_the_last_of_several() -> None:
    def f(x: Any, y: Any, n: int) -> Any:
        return x

    jitted = pb.jit(f, static_argnums=2)
    for args in ((pnp.ones(3), pnp.ones(3), 1), (pnp.ones(3, int), pnp.ones(4), 1), (pnp.ones(3), pnp.ones(3), 2)):
        jitted(*args)
    jitted(pnp.ones(3), pnp.ones(4), 1)  # one step from the first, and one from the second
    assert last(jitted).nearest == "(x: i32[3], y: f32[4], n=1)"
    jitted(pnp.ones(3), pnp.ones(3, int), 2)
    assert last(jitted).nearest == "(x: f32[3], y: f32[3], n=2)"


def test_what_closes_over_traced_values_says_so() -> None:
    made = []

    def outer(y: Any) -> Any:
        made.append(pb.jit(lambda x: x * y))
        return made[0](1.0) + made[0](2.0)

    pb.grad(outer)(3.0)
    info = made[0].cache_info()
    assert (info.hits, info.misses, info.size) == (0, 2, 0)
    assert info.explained[1].reason == history.CLOSED and info.explained[1].differences == ()
    assert str(info.explained[1]) == f"traced again, since {history.CLOSED}."


def test_a_signature_that_made_room_says_so() -> None:
    jitted = pb.jit(lambda x: x)
    jitted._signatures.limit, jitted._signatures.on_full = 2, None
    for size in (1, 2, 3, 1):
        jitted.trace(pnp.ones(size))
    assert last(jitted).reason == history.FORGOTTEN
    assert jitted.cache_info()[:3] == (0, 4, 2)


def test_misses_are_remembered_up_to_a_bound() -> None:
    jitted = pb.jit(lambda x, n: x, static_argnums=1)
    for n in range(history.MAX_MISSES + 5):
        jitted.trace(1.0, n)
    info = jitted.cache_info()
    assert info.misses == history.MAX_MISSES + 5 and len(info.explained) == history.MAX_MISSES
    assert str(info).splitlines()[1].startswith("miss 6, (x: ~f32[], n=5): traced again")


class Odd:
    """A static value that compares with nothing."""

    def __init__(self, hashed: int) -> None:
        self.hashed = hashed

    def __hash__(self) -> int:
        return self.hashed

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        raise ValueError("cannot be compared")


def test_static_values_that_cannot_be_compared_differ() -> None:
    jitted = pb.jit(lambda x, n: x, static_argnums=1)
    for odd in (Odd(1), Odd(2)):
        jitted(1.0, odd)
    assert [change.kind for change in last(jitted).differences] == ["static value"]


def test_threads_count_together() -> None:
    jitted = pb.jit(lambda x: x + 1.0)
    x = pnp.ones(3)
    jitted(x)

    def work() -> None:
        for _ in range(500):
            jitted(x)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert jitted.cache_info()[:2] == (2000, 1)


def test_the_environment_variable_explains_every_function(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PULLBACK_EXPLAIN", "1")
    jitted = pb.jit(lambda x: x + 1.0)
    jitted(pnp.ones(3))
    jitted(pnp.ones(4))
    said = capsys.readouterr().out
    assert said.endswith("Compared with the nearest:\n  argument x: was f32[3], is now f32[4]\n")
    assert str(last(jitted)) in said
    pb.jit(lambda x: x, explain_misses=False)(1.0)
    assert capsys.readouterr().out == ""


def test_figures_of_one_are_singular() -> None:
    jitted = pb.jit(lambda x: x)
    jitted(1.0), jitted(1.0)
    assert str(jitted.cache_info()).splitlines()[0] == "1 hit, 1 miss, 1 signature kept"
    jitted(np.ones(2))
    assert str(jitted.cache_info()).splitlines()[0] == "1 hit, 2 misses, 2 signatures kept"


def test_named_axes_are_told() -> None:
    jitted = pb.jit(lambda x: pb.lax.psum(x, "rows"))
    for size in (3, 4):
        pb.vmap(jitted, axis_name="rows")(pnp.ones(size))
    (change,) = last(jitted).differences
    assert change == ("axes", "", "named axes: were 'rows' of size 3, are now 'rows' of size 4")


def test_of_several_structures_the_nearest_is_the_one_of_most_alike_leaves() -> None:
    jitted = pb.jit(lambda *xs: sum(xs))
    for count in (1, 4, 5):
        jitted(*[1.0] * count)
    (change,) = last(jitted).differences
    assert change.argument == "args[4]"


def test_a_block_of_checks_is_told_as_the_mode_that_it_is() -> None:
    jitted = pb.jit(lambda x: x + 1.0)
    jitted(1.0)
    with pb.checking(leaks="warn"):
        jitted(1.0)
    assert last(jitted).differences == (("mode", "", "the mode: pb.checking was None, is now <leaks='warn'>"),)
    assert [miss.reason for miss in jitted.cache_info().explained] == [history.FIRST, history.UNLIKE]


def test_a_static_argument_that_cannot_be_shown_breaks_no_call() -> None:
    class Shy:
        def __repr__(self) -> str:
            raise RuntimeError("not today")

    jitted = pb.jit(lambda x, how: x, static_argnums=1, explain_misses=True)
    jitted(1.0, Shy())
    jitted(1.0, Shy())
    assert "static argument how: was <Shy, whose repr raises RuntimeError>" in str(jitted.cache_info())
