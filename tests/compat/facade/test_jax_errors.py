"""jax.errors: which class is raised where; each expectation is what JAX 0.10.2 does."""

from __future__ import annotations

import traceback
from typing import Any

import numpy as np
import pytest
from pullback.compat.jax.experimental import checkify, jet

import pullback.compat.jax as jax
import pullback.compat.jax.numpy as jnp
from pullback.compat.jax import errors
from pullback.compat.jax.facade import PACKAGE
from pullback.core.source import is_ours

kept: list[Any] = []


def _leaks() -> Any:
    jax.jit(lambda x: kept.append(x))(1.0)
    return kept.pop() + 1.0


RAISED = {
    "a branch": (lambda: jax.jit(lambda x: 1 if x > 0 else 2)(1.0), "TracerBoolConversionError", "ConcretizationTypeError"),
    "float()": (lambda: jax.jit(float)(1.0), "ConcretizationTypeError", "JAXTypeError"),
    "int()": (lambda: jax.jit(int)(1), "ConcretizationTypeError", "JAXTypeError"),
    "range()": (lambda: jax.jit(lambda n: list(range(n)))(3), "TracerIntegerConversionError", "JAXTypeError"),
    "a list's index": (lambda: jax.jit(lambda i: [1, 2, 3][i])(1), "TracerIntegerConversionError", "JAXTypeError"),
    "NumPy": (lambda: jax.jit(lambda x: np.sin(np.asarray(x)))(1.0), "TracerArrayConversionError", "JAXTypeError"),
    "a mask": (lambda: jax.jit(lambda x: x[x > 0])(jnp.arange(3.0)), "NonConcreteBooleanIndexError", "JAXIndexError"),
    "nonzero": (lambda: jax.jit(jnp.nonzero)(jnp.arange(3.0)), "ConcretizationTypeError", "JAXTypeError"),
    "a shape": (lambda: jax.jit(jnp.zeros)(3), "TracerIntegerConversionError", "JAXTypeError"),
    "an escaped value": (_leaks, "UnexpectedTracerError", "JAXTypeError"),
}


@pytest.mark.parametrize("case", RAISED)
def test_the_class_is_that_which_jax_raises(case: str) -> None:
    act, name, base = RAISED[case]
    with pytest.raises(getattr(errors, name)) as caught:
        act()
    assert isinstance(caught.value, getattr(errors, base))


def test_keys_that_are_used_twice() -> None:
    key = jax.random.key(0)
    with jax.debug_key_reuse(True), pytest.raises(errors.KeyReuseError) as caught:
        jax.random.normal(key) + jax.random.normal(key)
    assert isinstance(caught.value, TypeError)


def test_all_names_of_jax_errors_are_there_and_are_classes() -> None:
    names = (
        "ConcretizationTypeError InconclusiveDimensionOperation JAXIndexError JAXTypeError JaxRuntimeError JaxprTypeError"
        " KeyReuseError NonConcreteBooleanIndexError TracerArrayConversionError TracerBoolConversionError"
        " TracerIntegerConversionError UnexpectedTracerError"
    )
    assert dir(errors) == sorted(names.split())
    assert all(issubclass(getattr(errors, name), Exception) for name in names.split())
    assert issubclass(errors.JaxRuntimeError, RuntimeError) and errors.JaxRuntimeError.__name__ == "JaxRuntimeError"
    with pytest.raises(AttributeError, match=r"jax\.errors\.XlaError is not provided by pullback"):
        errors.XlaError  # noqa: B018
    assert errors.__name__ == f"{PACKAGE}.errors"


def wrong(*args: Any) -> Any:
    raise ValueError("the user's own")


CALLS = {
    "scan": lambda: jax.lax.scan(wrong, 1.0, None, 3),
    "while_loop": lambda: jax.lax.while_loop(lambda x: True, wrong, 1.0),
    "fori_loop": lambda: jax.lax.fori_loop(0, 3, wrong, 1.0),
    "cond": lambda: jax.lax.cond(True, wrong, wrong, 1.0),
    "switch": lambda: jax.lax.switch(0, [wrong, wrong], 1.0),
    "map": lambda: jax.lax.map(wrong, jnp.ones(3)),
    "associative_scan": lambda: jax.lax.associative_scan(wrong, jnp.ones(3)),
    "custom_root": lambda: jax.lax.custom_root(wrong, 1.0, lambda f, x: x, lambda g, y: y),
    "jvp": lambda: jax.jvp(wrong, (1.0,), (1.0,)),
    "vjp": lambda: jax.vjp(wrong, 1.0),
    "linearize": lambda: jax.linearize(wrong, 1.0),
    "vmap": lambda: jax.vmap(wrong)(jnp.ones(3)),
    "grad": lambda: jax.grad(wrong)(1.0),
    "jacfwd": lambda: jax.jacfwd(wrong)(1.0),
    "hessian": lambda: jax.hessian(wrong)(1.0),
    "jit": lambda: jax.jit(wrong)(1.0),
    "checkpoint": lambda: jax.checkpoint(wrong)(1.0),
    "eval_shape": lambda: jax.eval_shape(wrong, 1.0),
    "make_jaxpr": lambda: jax.make_jaxpr(wrong)(1.0),
    "linear_transpose": lambda: jax.linear_transpose(wrong, 1.0)(1.0),
    "pmap": lambda: jax.pmap(wrong)(jnp.ones(1)),
    "fwd_and_bwd": lambda: jax.fwd_and_bwd(wrong, 0)[0](1.0),
    "jet": lambda: jet.jet(wrong, (1.0,), ([1.0],)),
    "tree_map": lambda: jax.tree.map(wrong, {"a": 1}),
    "checkify": lambda: checkify.checkify(wrong)(1.0),
    "vectorize": lambda: jnp.vectorize(wrong)(jnp.ones(3)),
    "custom_vjp": lambda: ruled(jax.custom_vjp, lambda x: x, wrong, wrong)(1.0),
    "backward": lambda: ruled(jax.custom_vjp, lambda x: x, lambda x: (x, None), wrong)(1.0),
    "jaxpr": lambda: jax.core.eval_jaxpr(jax.make_jaxpr(jax.jit(jnp.sin))(1.0).jaxpr, [], wrong),
}


def ruled(make: Any, function: Any, *rules: Any) -> Any:
    made = make(function)
    made.defvjp(*rules)
    return jax.grad(made)


@pytest.mark.parametrize("name", CALLS)
def test_tracebacks_show_the_frames_of_the_users_alone(name: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        CALLS[name]()
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    assert [file for file in files if is_ours(file)] == []
