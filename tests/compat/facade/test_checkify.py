"""jax.experimental.checkify, jax.test_util, and pmap on one device."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import pullback.compat.jax as jax
import pullback.compat.jax.numpy as jnp
from pullback.compat.jax import checkify
from pullback.compat.jax.differences import check_grads


def checked(x: Any) -> Any:
    checkify.check(x.sum() > 0, "must be positive, but is {sum}", sum=x.sum())

    def step(carry: Any, value: Any) -> Any:
        checkify.check(value < 5, "{} is too large", value)
        return carry + value, value

    return jax.lax.scan(step, 0.0, x)[0]


@pytest.mark.parametrize("form", ["eager", "compiled", "of a compiled one"])
def test_a_failed_check_is_a_value(form: str) -> None:
    run = {"eager": checkify.checkify(checked), "compiled": jax.jit(checkify.checkify(checked))}.get(form)
    run = run or checkify.checkify(jax.jit(checked))
    error, _ = run(jnp.array([1.0, 2.0]))
    assert error.get() is None
    error.throw()
    error, _ = jax.tree.map(jnp.asarray, run(jnp.array([1.0, 7.0])))
    assert error.get() == "7.0 is too large (`check` failed)"
    assert isinstance(error.get_exception(), checkify.FailedCheckError)
    with pytest.raises(checkify.JaxRuntimeError, match="too large"):
        checkify.check_error(error)


def test_checks_that_nothing_notes() -> None:
    with pytest.raises(checkify.JaxRuntimeError, match=r"must be positive, but is -1\.0"):
        checked(jnp.array([-1.0]))
    checkify.debug_check(jnp.array(False), "left out")


@pytest.mark.parametrize("modes", [["fwd"], ["rev"], ["lin"]])
def test_check_grads_finds_wrong_derivatives(modes: list[str]) -> None:
    x = jnp.array([0.3, 0.7])
    check_grads(lambda x: jnp.sin(x) * x, (x,), order=2, modes=modes)
    check_grads(lambda x, n: jnp.sin(x) * x + n, (x, 2), order=1, modes=modes)
    check_grads(lambda z: z * jnp.exp(z), (jnp.array([0.3 + 0.2j]),), order=1, modes=modes)

    @jax.custom_jvp
    def wrong(x: Any) -> Any:
        return jnp.sin(x)

    wrong.defjvp(lambda primals, tangents: (wrong(*primals), 1.5 * tangents[0]))
    with pytest.raises(AssertionError):
        check_grads(wrong, (x,), order=1, modes=modes)


def test_pmap_on_one_device() -> None:
    @jax.pmap
    def double(x: Any) -> Any:
        return 2 * x

    np.testing.assert_array_equal(double(jnp.ones((1, 3))), np.full((1, 3), 2.0))
    with pytest.raises(ValueError, match="of which this process has 1"):
        double(jnp.ones((2, 3)))

    def scaled(x: Any, count: int, y: Any) -> Any:
        assert isinstance(count, int)
        return x * count + jax.lax.psum(y, "i")

    scale = jax.pmap(scaled, axis_name="i", static_broadcasted_argnums=1, in_axes=(0, None, None))
    np.testing.assert_array_equal(scale(jnp.ones((1, 3)), 5, 2.0), np.full((1, 3), 7.0))
    with pytest.raises(ValueError, match="axis"):
        double(1.0)


def test_a_compiled_function_has_the_signature_of_its_function() -> None:
    assert str(inspect.signature(jax.jit(lambda x, y=2: x))) == "(x, y=2)"


def test_other_platforms_are_unknown_backends() -> None:
    with pytest.raises(RuntimeError, match="Unknown backend 'tpu'"):
        jax.devices("tpu")


def test_checks_that_nobody_asked_for_are_not_reported() -> None:
    def f(x: Any) -> Any:
        checkify.check(x > 0, "must be positive")
        return x

    assert checkify.checkify(f, errors=set())(jnp.array(-1.0))[0].get() is None
    assert "positive" in checkify.checkify(f)(jnp.array(-1.0))[0].get()


def test_options_of_debugging_in_a_call_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    jax.jit(lambda x: jax.debug.print(ordered=True)("x is {x}", x=x))(3)
    seen: list[Any] = []
    jax.debug.callback(ordered=True)(seen.append, 4)
    jax.effects_barrier()
    assert capsys.readouterr().out == "x is 3\n" and seen == [4]
    with pytest.raises(TypeError, match="in a second call"):
        jax.debug.print(ordered=True, x=3)
    with pytest.raises(TypeError, match="in a second call"):
        jax.debug.callback(None, 3)


@pytest.mark.parametrize("form", [lambda f: f, jax.jit])
def test_operations_are_checked(form: Any) -> None:
    def f(x: Any, i: Any) -> Any:
        checkify.check(i < 7, "too large")
        return jnp.sin(1.0 / x[i])

    x = jnp.array([1.0, 0.0, jnp.inf])
    assert checkify.checkify(form(f), errors=checkify.all_checks)(x, 0)[0].get() is None
    error, _ = checkify.checkify(form(f), errors=checkify.all_checks)(x, 1)
    assert isinstance(error.get_exception(), checkify.DivisionByZeroError)
    error, _ = checkify.checkify(form(f), errors=checkify.nan_checks)(x, 1)
    assert error.get().startswith("NaN made by sin")
    error, _ = checkify.checkify(form(f), errors=checkify.automatic_checks)(x, 7)
    assert "index 7 along axis 0 with size 3" in error.get()
    error, _ = checkify.checkify(form(lambda x: x[5]), errors=checkify.index_checks)(x)
    assert isinstance(error.get_exception(), checkify.OOBError) and "index 5" in error.get()
