"""Functions of JAX's trees and of pullback's, within each other: each takes apart what it is given as its own kind."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

import pullback as pb
import pullback.compat.jax as jax
import pullback.compat.jax.numpy as jnp
from pullback.core.trees import OWN_TREES, kind_of


@dataclasses.dataclass
class Plain:
    """A container to pullback, a leaf to JAX."""

    x: Any


class Registered:
    """A container to JAX, a leaf to pullback."""

    def __init__(self, x: Any) -> None:
        self.x = x


jax.tree_util.register_pytree_node(Registered, lambda one: ((one.x,), None), lambda _, parts: Registered(*parts))


def square(tree: Any) -> Any:
    return tree.x * tree.x


OF_JAX: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: lambda t: jax.grad(f)(t).x,
    "value_and_grad": lambda f: lambda t: jax.value_and_grad(f)(t)[1].x,
    "jacfwd": lambda f: lambda t: jax.jacfwd(f)(t).x,
    "jacrev": lambda f: lambda t: jax.jacrev(f)(t).x,
    "jvp": lambda f: lambda t: jax.jvp(f, (t,), (Registered(1.0),))[1],
    "vjp": lambda f: lambda t: jax.vjp(f, t)[1](jnp.ones_like(f(t)))[0].x,
    "linearize": lambda f: lambda t: jax.linearize(f, t)[1](Registered(1.0)),
    "jit": lambda f: lambda t: jax.jit(jax.grad(f))(t).x,
    "checkpoint": lambda f: lambda t: jax.grad(jax.checkpoint(f))(t).x,
    "scan": lambda f: lambda t: jax.grad(lambda t: f(jax.lax.scan(lambda c, _: (c, None), t, None, 2)[0]))(t).x,
    "cond": lambda f: lambda t: jax.grad(lambda t: jax.lax.cond(True, f, lambda t: 0.0, t))(t).x,
}
OF_PULLBACK: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: lambda t: pb.grad(f)(t).x,
    "jvp": lambda f: lambda t: pb.jvp(f, (t,), (Plain(1.0),))[1],
    "vmap": lambda f: lambda t: pb.vmap(pb.grad(f))(Plain(pb.numpy.ones(2) * t.x)).x[0],
    "jit": lambda f: lambda t: pb.jit(pb.grad(f))(t).x,
    "scan": lambda f: lambda t: pb.grad(lambda t: f(pb.lax.scan(lambda c, _: (c, None), t, None, 2)[0]))(t).x,
}


@pytest.mark.parametrize("inner", OF_PULLBACK)
@pytest.mark.parametrize("outer", OF_JAX)
def test_functions_of_pullback_within_those_of_jax(outer: str, inner: str) -> None:
    """The derivative of x -> x d/dx x^2 = 2 x^2."""
    derivative = OF_PULLBACK[inner](square)
    assert float(OF_JAX[outer](lambda t: t.x * derivative(Plain(t.x)))(Registered(3.0))) == 12.0


@pytest.mark.parametrize("outer", OF_PULLBACK)
@pytest.mark.parametrize("inner", OF_JAX)
def test_functions_of_jax_within_those_of_pullback(outer: str, inner: str) -> None:
    derivative = OF_JAX[inner](square)
    assert float(OF_PULLBACK[outer](lambda t: t.x * derivative(Registered(t.x)))(Plain(3.0))) == 12.0


TRANSFORMS = [pb.grad, pb.value_and_grad, pb.jacfwd, pb.jit, pb.vmap, pb.checkpoint, pb.custom_jvp, pb.custom_gradient]


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("of", [jax.grad, jax.jit, jax.vmap, jax.checkpoint, jax.custom_jvp, jax.custom_vjp])
def test_what_is_made_of_a_function_of_jax_takes_its_trees(transform: Any, of: Any) -> None:
    assert kind_of(transform(of(square))) is kind_of(jax.grad(square)) is not OWN_TREES
    assert kind_of(transform(square)) is OWN_TREES


def test_a_transformation_of_a_function_of_jax() -> None:
    assert pb.vmap(jax.grad(square))(Registered(pb.numpy.ones(2))).x.tolist() == [2.0, 2.0]
    assert pb.grad(jax.jit(square))(Registered(3.0)).x == 6.0
    with pytest.raises(TypeError, match=r"argument tree is Plain\(x=3.0\) .* neither an array nor a number"):
        jax.grad(square)(Plain(3.0))
    with pytest.raises(TypeError, match=r"argument tree is <.*Registered.* neither an array nor a number"):
        pb.grad(square)(Registered(3.0))


def test_attributes_of_any_name_say_nothing_of_trees() -> None:
    class Anything:
        def __getattr__(self, name: str) -> Any:
            return self

        def __call__(self, x: Any) -> Any:
            return x * x

    assert kind_of(Anything()) is OWN_TREES and pb.grad(Anything())(3.0) == 6.0
