"""jax.nn, where it differs from pullback.nn."""

from __future__ import annotations

import pytest

import pullback.compat.jax as jax
from pullback.compat.jax import nn
from pullback.compat.jax import numpy as jnp


def test_one_hot() -> None:
    assert nn.one_hot([0, 2], 3).tolist() == [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    with pytest.warns(DeprecationWarning, match="numbers of classes, which are integers, but got float32"):
        assert nn.one_hot(jnp.array([1.0]), 2).tolist() == [[0.0, 1.0]]
    with pytest.raises(jax.errors.ConcretizationTypeError, match=r"in jax\.nn\.one_hot argument `num_classes`"):
        jax.jit(nn.one_hot)(3, 5)
