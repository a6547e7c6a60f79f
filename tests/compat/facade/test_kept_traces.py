"""Functions of loops and branches are traced once for each kind of arguments, as under JAX; and when they are traced again."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable
from types import SimpleNamespace as Namespace
from typing import Any

import numpy as np
import pytest

import pullback.compat.jax as jax
from pullback.compat.jax import lax
from pullback.compat.jax import numpy as jnp
from pullback.compat.jax.jitting import _bodies

Function = Callable[..., Any]
XS = jnp.arange(1.0, 4.0)

# What calls a function of two values, with an array, so that its result depends on what the function does.
LOOPS: dict[str, Callable[[Function, Any], Any]] = {
    "scan": lambda f, xs: lax.scan(f, xs[0], xs)[0],
    "fori_loop": lambda f, xs: lax.fori_loop(0, 3, f, (xs[0], xs))[0],
    "while_loop": lambda f, xs: lax.while_loop(small, f, (xs[0], xs))[0],
    "cond": lambda f, xs: lax.cond(True, f, other, xs[0], xs)[0],
    "switch": lambda f, xs: lax.switch(1, [other, f], xs[0], xs)[0],
    "checkpoint": lambda f, xs: jax.checkpoint(f)(xs[0], xs)[0],
}


def small(state: Any) -> Any:
    return state[0] < 20.0


def other(a: Any, b: Any) -> Any:
    return a, b


def counted(scale: Any = 2.0) -> tuple[Function, list[Any]]:
    """A function that any of the loops can call, and the types of its last argument whenever it was traced."""
    seen: list[Any] = []

    def body(*args: Any) -> Any:
        seen.append(args)
        if len(args) == 1 or isinstance(args[1], tuple):  # the state of a while_loop, or of a fori_loop
            first, second = args[-1]
        else:
            first, second = args
        return first * scale + second.sum() * 0.0, second

    return body, seen


@pytest.mark.parametrize("name", LOOPS)
def test_a_function_is_traced_once_for_each_kind_of_arguments(name: str) -> None:
    call, (body, seen) = LOOPS[name], counted()
    first = call(body, XS)
    traced = len(seen)
    assert traced and call(body, XS + 0.0) == first and len(seen) == traced
    jax.jit(lambda xs: call(body, xs))(XS)
    assert len(seen) == traced
    call(body, XS.astype(jnp.float16))
    assert len(seen) > traced
    traced = len(seen)
    with jax.enable_x64(True):
        assert call(body, jnp.arange(1.0, 4.0)).dtype == jnp.float64
    assert len(seen) > traced


@pytest.mark.parametrize("name", LOOPS)
def test_what_closes_over_traced_values_is_traced_again(name: str) -> None:
    call, scales = LOOPS[name], []

    def body(*args: Any) -> Any:
        inner, _ = counted(scales[-1])
        return inner(*args)

    def of_scale(scale: Any) -> Any:
        scales.append(scale)
        return call(body, XS)

    for scale in (2.0, 3.0):
        expected = call(counted(scale)[0], XS)
        assert jax.jvp(of_scale, (scale,), (1.0,))[0] == jax.jit(of_scale)(scale) == expected
    assert len(scales) == 3  # jit has kept the second


def test_derivatives_and_batches_of_what_is_kept() -> None:
    body, seen = counted()

    def total(x: Any) -> Any:
        return lax.scan(body, x, XS)[0]

    for _ in range(2):
        assert jax.grad(total)(XS[0]) == 8.0 and jax.vmap(total)(XS).tolist() == [8.0, 16.0, 24.0]
    assert len(seen) == 1


def test_functions_are_told_apart_by_what_they_are_for() -> None:
    def flipped(x: Any) -> Any:
        return ~x

    for _ in range(2):  # one function as the condition, the body, and a branch
        assert lax.while_loop(flipped, flipped, jnp.asarray(False)) and lax.cond(True, flipped, flipped, jnp.asarray(False))


def test_what_is_kept_goes_with_the_function() -> None:
    def body(first: Any, second: Any) -> Any:
        return first * second, second

    assert LOOPS["scan"](body, XS) == 6.0 and len(_bodies[body]) == 1
    gone = weakref.ref(body)
    del body
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("name", LOOPS)
def test_numpy_arrays_around_a_function_may_be_written_to(name: str) -> None:
    scale = np.full((), 2.0, np.float32)
    body, _ = counted(scale)
    for value in (2.0, 3.0):
        scale[...] = value
        assert LOOPS[name](body, XS) == LOOPS[name](counted(value)[0], XS)


_TABLE = np.zeros((), np.float32)


def test_numpy_arrays_of_the_module_and_of_defaults_too() -> None:
    def of_module(first: Any, second: Any) -> Any:
        return first + _TABLE, second

    def of_default(first: Any, second: Any, table: Any = _TABLE) -> Any:
        return first + table, second

    for value in (0.0, 1.0):
        _TABLE[...] = value
        assert LOOPS["scan"](of_module, XS) == LOOPS["scan"](of_default, XS) == 1.0 + 3 * value


def _from_table(first: Any) -> Any:
    return first + _TABLE


def test_numpy_arrays_that_it_finds_elsewhere_too() -> None:
    own = np.zeros((), np.float32)

    def helper(first: Any) -> Any:
        return first + own if own.ndim == 0 else helper(first)

    def of_helper(first: Any, second: Any) -> Any:
        return helper(first), second

    def of_module(first: Any, second: Any) -> Any:
        return _from_table(first), second

    def of_inner(first: Any, second: Any) -> Any:
        return jax.checkpoint(lambda value: value + _TABLE)(first), second

    @functools.wraps(of_helper)
    def decorated(*args: Any) -> Any:
        return of_helper(*args)

    held = {"tables": [own], "owner": Namespace(table=own)}

    def of_dict(first: Any, second: Any) -> Any:
        return first + held["tables"][0], second  # type: ignore[index]

    def of_attribute(first: Any, second: Any) -> Any:
        return lax.fori_loop(0, 1, lambda i, value: value + held["owner"].table, first), second  # type: ignore[attr-defined]

    for value in (0.0, 1.0):
        own[...] = _TABLE[...] = value
        for body in (of_helper, of_module, of_inner, decorated, of_dict, of_attribute):
            assert LOOPS["scan"](body, XS) == 1.0 + 3 * value


def test_a_function_whose_code_was_replaced_is_traced_again() -> None:
    def body(first: Any, second: Any) -> Any:
        return first + 1.0, second

    def edited(first: Any, second: Any) -> Any:
        return first + 2.0, second

    assert LOOPS["scan"](body, XS) == 4.0
    body.__code__ = edited.__code__  # as what reloads edited modules does
    assert LOOPS["scan"](body, XS) == 7.0


def test_a_checkpoint_has_the_static_arguments_of_each_call() -> None:
    def scaled(n: int, x: Any, up: bool = True) -> Any:
        return x * n if up else x / n

    f = jax.checkpoint(scaled, static_argnums=0, static_argnames="up")
    assert [float(f(n, 4.0, up=up)) for n in (2, 4, 2) for up in (True, False, True)] == [8, 2, 8, 16, 1, 16, 8, 2, 8]
    assert float(jax.checkpoint(scaled, static_argnums=0)(2, 4.0)) == 8.0
