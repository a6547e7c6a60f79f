"""JAX's mode holds in the tests of this folder, and in no other: importing the façade lets it hold in the whole process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import pullback.compat.jax  # noqa: F401  (first of all, so that what is said below comes after it)
from pullback.compat.jax import configuration

configuration.release()


@pytest.fixture(autouse=True)
def jax_mode() -> Iterator[None]:
    configuration.adopt()
    yield
    configuration.release()
