"""The façade behaves as JAX in a whole process from its import on: here only while one of its own tests runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pullback.compat.jax.facade import begin_habits, end_habits


@pytest.fixture(autouse=True)
def as_jax() -> Iterator[None]:
    begin_habits()
    yield
    end_habits()
