"""A Lotka-Volterra system by Tsit5 with adaptive steps, and its gradient."""

from __future__ import annotations

from typing import Any

import diffrax
import jax
import jax.numpy as jnp
from common import measure


@jax.jit
@jax.grad
def gradient(rates: Any) -> Any:
    term = diffrax.ODETerm(lambda t, y, r: jnp.stack([r[0] * y[0] - r[1] * y[0] * y[1], y[0] * y[1] - r[2] * y[1]]))
    control = diffrax.PIDController(rtol=1e-5, atol=1e-5)
    start = jnp.array([10.0, 10.0])
    out = diffrax.diffeqsolve(term, diffrax.Tsit5(), 0.0, 3.0, 0.01, start, rates, stepsize_controller=control)
    return jnp.sum(out.ys)


rates = jnp.array([1.1, 0.4, 0.4])


measure(lambda: gradient(rates))
