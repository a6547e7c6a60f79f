"""jax.experimental.checkify, jax.test_util, and pmap on one device."""

from __future__ import annotations

import inspect
from collections.abc import Callable
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


FORMS: dict[str, Callable[[], Any]] = {
    "eager": lambda: checkify.checkify(checked),
    "compiled": lambda: jax.jit(checkify.checkify(checked)),
    "of a compiled one": lambda: checkify.checkify(jax.jit(checked)),
    "of a gradient": lambda: checkify.checkify(jax.grad(checked)),
    "of a branch": lambda: checkify.checkify(lambda x: jax.lax.cond(True, checked, jnp.sum, x)),
    "twice": lambda: lambda x: checkify.checkify(raising_again)(x),
}


def raising_again(x: Any) -> Any:
    error, out = jax.jit(checkify.checkify(checked))(x)
    checkify.check_error(error)
    return out


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("x", "text"),
    [([1.0, 2.0], None), ([-1.0, -2.0], "must be positive, but is -3.0"), ([1.0, 7.0], "7.0 is too large")],
    ids=["good", "negative", "large"],
)
def test_a_failed_check_is_a_value(form: str, x: list[float], text: str | None) -> None:
    error, _ = FORMS[form]()(jnp.array(x))
    assert error.get() == (None if text is None else f"{text} (`check` failed)")
    if text is None:
        error.throw()
    else:
        with pytest.raises(ValueError, match=text):
            checkify.check_error(error)


def test_checks_in_a_batch() -> None:
    error, out = checkify.checkify(jax.vmap(lambda x: checked(jnp.stack([x, x]))))(jnp.array([1.0, 7.0, 8.0]))
    assert error.get() == "7.0 is too large (`check` failed)"
    np.testing.assert_array_equal(out, [2.0, 14.0, 16.0])


def test_checks_that_nothing_notes() -> None:
    with pytest.raises(checkify.JaxRuntimeError, match=r"must be positive, but is -1\.0"):
        checked(jnp.array([-1.0]))
    with pytest.raises(ValueError, match=r"no checkify\.checkify is around it"):
        jax.jit(lambda x: checkify.check(x > 0, "no"))(1.0)
    checkify.debug_check(jnp.array(False), "left out")
    with pytest.raises(TypeError, match="a bool of no axes"):
        checkify.check(jnp.ones(2) > 0, "no")
    with pytest.raises(TypeError, match="puts arrays into its message"):
        checkify.check(False, "no {}", "text")
    with pytest.raises(NotImplementedError, match="debug_nans"):
        checkify.checkify(checked, errors=checkify.float_checks)


def test_an_exception_leaves_no_checkify_behind() -> None:
    def fails(x: Any) -> Any:
        raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        checkify.checkify(fails)(1.0)
    with pytest.raises(checkify.JaxRuntimeError, match="no"):
        checkify.check(False, "no")


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
    with pytest.raises(ValueError, match="the number of devices is 1"):
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
