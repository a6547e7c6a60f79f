"""Effects in a batch: what a batch element does not run, it does not do either."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.core.errors import MissingRule

X = np.arange(4, dtype=np.float32)
seen: list[tuple[float, ...]] = []


def note(*values: Any, sign: float = 1.0) -> None:
    seen.append((sign, *map(float, values)))


def noting(x: Any, sign: float = 1.0) -> Any:
    pb.debug.callback(note, x, sign=sign)
    return x


def counted(x: Any) -> Any:
    """Twice x, by a function that is told of."""

    def function(x: Any) -> Any:
        note(x)
        return 2 * x

    return pb.io_callback(function, pb.ArrayType((), np.float32), x)


def both(x: Any) -> Any:
    return lax.cond(x > 1, lambda x: noting(x) * 2, lambda x: noting(x, -1.0) + 1, x)


def steps(x: Any, **options: Any) -> Any:
    return lax.while_loop(lambda y: y < 3, lambda y: noting(y) + 1, x, **options)


CASES: dict[str, Callable[[Any], Any]] = {
    "both branches": both,
    "one of three": lambda x: lax.switch(x.astype("int32"), [lambda x: x, noting, lambda x: counted(x)], x),
    "nothing to tell": lambda x: lax.cond(x > 1, lambda: pb.debug.callback(note), lambda: None) or x,
    "results": lambda x: lax.cond(x > 1, counted, lambda x: x, x),
    "steps": steps,
    "bounded steps": lambda x: steps(x, max_steps=9),
    "tests": lambda x: lax.while_loop(lambda y: noting(y) < 3, lambda y: y + 1, x),
    "bounded tests": lambda x: lax.while_loop(lambda y: noting(y) < 3, lambda y: 1.5 * y + 1, x, max_steps=9),
    "tests of many steps": lambda x: lax.while_loop(lambda y: noting(y) < 3, lambda y: 1.5 * y + 1, x, max_steps=40),
    "tests by a callback": lambda x: lax.while_loop(lambda y: counted(y) < 5, lambda y: y + 1, x),
    "a loop in a branch": lambda x: lax.cond(x > 1, steps, lambda x: lax.fori_loop(0, 2, lambda i, y: counted(y), x), x),
    "a branch in a loop": lambda x: lax.while_loop(lambda y: y < 9, lambda y: both(y) + 1, x),
    "a branch in a branch": lambda x: lax.cond(x < 3, both, noting, x),
    "a jitted function": lambda x: lax.cond(x > 1, pb.jit(noting), pb.checkpoint(lambda x: pnp.sin(noting(x, -1.0))), x),
    "a batch of its own": lambda x: lax.cond(x > 1, lambda x: pnp.sum(pb.vmap(both)(x + pnp.arange(3.0))), lambda x: x, x),
}


@pytest.fixture(autouse=True)
def empty() -> None:
    seen.clear()


def told() -> list[tuple[float, ...]]:
    found = sorted(seen)
    seen.clear()
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_batch_does_what_a_loop_over_its_elements_does(name: str) -> None:
    function = CASES[name]
    expected = [float(function(x)) for x in X]
    done = told()
    assert done
    for run in (pb.vmap(function), pb.jit(pb.vmap(function)), pb.vmap(pb.jit(function)), pb.vmap(function, strategy="map")):
        np.testing.assert_allclose(run(X), expected, rtol=1e-6)
        assert told() == done
    square = pb.vmap(pb.vmap(function))(X.reshape(2, 2))
    np.testing.assert_allclose(square.ravel(), expected, rtol=1e-6)
    assert told() == done


DIFFERENTIABLE = [
    "both branches",
    "bounded steps",
    "bounded tests",
    "tests of many steps",
    "a jitted function",
    "a branch in a branch",
]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_do_it_once(name: str) -> None:
    function = CASES[name]
    for x in X:
        function(x)
    done = told()
    expected = [float(pb.grad(function)(x)) for x in X]
    assert told() == done
    gradient = pb.grad(lambda x: pnp.sum(pb.vmap(function)(x)))
    for run in (gradient, pb.jit(gradient), pb.vmap(pb.grad(function)), pb.jit(pb.vmap(pb.grad(function)))):
        np.testing.assert_allclose(run(X), expected, rtol=1e-6)
        assert told() == done
    values, tangents = pb.jvp(pb.vmap(function), (X,), (np.ones_like(X),))
    np.testing.assert_allclose(tangents, expected, rtol=1e-6)
    assert values.shape == X.shape and told() == done


def test_steps_come_one_after_another(capfd: pytest.CaptureFixture[str]) -> None:
    def f(n: Any) -> Any:
        def step(i: Any) -> Any:
            pb.debug.print("{} of {}", i, n, ordered=True)
            return i + 1

        return lax.while_loop(lambda i: i < n, step, 0)

    for run in (pb.vmap(f), pb.jit(pb.vmap(f))):
        np.testing.assert_array_equal(run(np.array([1, 3, 2])), [1, 3, 2])
        lines = capfd.readouterr().out.splitlines()
        assert lines == ["0 of 1", "0 of 3", "0 of 2", "1 of 3", "1 of 2", "2 of 3"]


def test_rules_of_users_are_not_rewritten() -> None:
    loud = pb.custom_jvp(noting)
    loud.defjvp(lambda primals, tangents: (loud(*primals), tangents[0]))
    mapped = lambda **options: pb.vmap(lambda x: lax.cond(x > 1, loud, lambda x: x, x), **options)(X)  # noqa: E731
    with pytest.raises(MissingRule, match=r'custom_function has an effect.*test_effects.*strategy="map"'):
        mapped()
    np.testing.assert_array_equal(mapped(strategy="map"), X)
    assert told() == [(1.0, 2.0), (1.0, 3.0)]
