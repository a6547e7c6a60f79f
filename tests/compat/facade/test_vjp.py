"""What jax.vjp returns keeps arguments, which may be replaced, and adds cotangents to Refs."""

from __future__ import annotations

import numpy as np
import pytest

import pullback.compat.jax as jax
from pullback.compat.jax import numpy as jnp
from pullback.compat.jax import ref


def test_arguments_that_a_derivative_keeps_may_be_replaced() -> None:
    _, pulled = jax.vjp(lambda x, y: x * y["a"], 2.0, {"a": 3.0, "b": 4.0})
    x, y = pulled.args_res
    assert float(x) == 2.0 and float(y["a"]) == 3.0 and type(y["b"]).__name__ == "NotNeeded"
    assert not pulled.opaque_residuals
    pulled.args_res = [10.0, {"a": 20.0, "b": None}]
    assert pulled(1.0) == (20.0, {"a": 10.0, "b": 0.0})
    again = jax.jit(lambda pulled: pulled)(pulled)
    assert again(1.0) == (20.0, {"a": 10.0, "b": 0.0})
    again.args_res[0] = 5.0
    assert jax.jit(lambda pulled: pulled(1.0))(again) == (20.0, {"a": 5.0, "b": 0.0})
    assert jax.vjp(jnp.sin, 1.0)[1].opaque_residuals
    with pytest.raises(TypeError, match="takes one cotangent"):
        pulled(1.0, 2.0)


def test_cotangents_are_added_to_refs() -> None:
    x = jnp.arange(3.0)
    _, pulled = jax.vjp(lambda x, y, z: jnp.sum(x * y * z), x, x + 1.0, x + 2.0)
    total = jax.new_ref(jnp.ones(3))
    for _ in range(2):
        found = pulled.with_refs(total, jax.ad.DontWant(), jax.ad.GradValue())(1.0)
        assert found[:2] == (jax.ad.GradRef(), jax.ad.DidntWant())
        np.testing.assert_array_equal(found[2], x * (x + 1.0))
    np.testing.assert_array_equal(ref.get(total), 1.0 + 2.0 * (x + 1.0) * (x + 2.0))
    assert ref.swap(total, 0, 7.0) == 5.0
    ref.addupdate(total, 0, 1.0)
    assert float(ref.get(total, 0)) == 8.0


def test_a_transposed_function_is_returned_and_taken_by_compiled_functions() -> None:
    made = jax.jit(lambda x: jax.linear_transpose(lambda y: 2.0 * y, x))(1.0)
    assert jax.jit(lambda f, x: f(x))(made, 3.0) == (6.0,)


def test_the_type_of_a_ref_says_that_it_is_one() -> None:
    found = jax.typeof(jax.new_ref(jnp.ones(3)))
    assert isinstance(found, ref.AbstractRef) and found == ref.AbstractRef(jax.typeof(jnp.ones(3)))
    assert (found.shape, str(found)) == ((3,), "Ref{float32[3]}")


def test_a_linear_function_takes_tangents_of_the_dtypes_of_its_arguments() -> None:
    _, pushed = jax.linearize(lambda x: x, 1.0)
    with pytest.raises(ValueError, match="tangent"):
        pushed(1)


def test_what_is_added_to_a_ref_at_equal_places_adds_up() -> None:
    def added(x: object) -> object:
        one = jax.new_ref(jnp.zeros(3))
        ref.addupdate(one, jnp.array([0, 0, 2]), x)
        ref.addupdate(one, None, 1.0)
        return jax.freeze(one)

    for run in (added, jax.jit(added)):
        assert run(jnp.array([1.0, 2.0, 4.0])).tolist() == [4.0, 1.0, 5.0]
