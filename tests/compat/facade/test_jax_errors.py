"""jax.errors: which class is raised where; each expectation is what JAX 0.10.2 does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback.compat.jax as jax
import pullback.compat.jax.numpy as jnp
from pullback.compat.jax import errors
from pullback.compat.jax.facade import PACKAGE

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
