"""Arguments that JAX's functions take besides those of pullback's: taken, where they say nothing here, or refused by name."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import pullback.compat.jax as jax
import pullback.compat.jax.numpy as jnp

ON_ONE_DEVICE = jax.sharding.SingleDeviceSharding(jax.devices()[0])


@pytest.mark.parametrize(
    "call",
    [
        lambda: jax.new_ref(1.0, memory_space=None, kind=None)[...],
        lambda: jax.make_array_from_callback((), ON_ONE_DEVICE, lambda index: np.ones(()), np.float32),
        lambda: jax.jit(lambda x: x).lower(1.0).compile(device_assignment=None)(1.0),
    ],
)
def test_what_says_nothing_here_is_taken(call: Any) -> None:
    assert float(call()) == 1.0


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: jax.new_ref(1.0, memory_space="vmem"), "memory_space and kind must be None"),
        (lambda: jax.jit(lambda x: x).lower(1.0).compile(device_assignment=[0]), "device_assignment must be None"),
        (lambda: jax.debug.breakpoint(backend="web"), "backend is None or 'cli'.*'web'"),
        (lambda: jax.vmap(jnp.sin, sum_match=True), "no sum_match=True"),
    ],
)
def test_what_cannot_be_done_is_refused(call: Any, says: str) -> None:
    with pytest.raises(NotImplementedError, match=says):
        call()


def test_a_breakpoint_in_a_branch_gives_its_token_back() -> None:
    shown = io.StringIO()

    @jax.jit
    def f(x: Any) -> Any:
        def stop() -> Any:
            there = 2.0 * x
            return jax.debug.breakpoint(token=there, num_frames=3, stdin=io.StringIO("p there + 4.0\nc\n"), stdout=shown)

        return jax.lax.cond(x > 0.0, stop, lambda: x)

    assert f(jnp.array(3.0)) == 6.0
    assert "10.0" in shown.getvalue() and "test_options.py" in shown.getvalue()
