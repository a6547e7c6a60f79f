"""A step of Adam on eqx.nn.MLP by filter_jit and filter_value_and_grad."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from common import KEY, X, Y, measure

model = eqx.nn.MLP(32, 1, 128, 2, key=KEY)
optimizer = optax.adam(1e-3)


@eqx.filter_value_and_grad
def loss(model: Any, x: Any, y: Any) -> Any:
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


@eqx.filter_jit
def step(model: Any, state: Any, x: Any, y: Any) -> Any:
    value, gradients = loss(model, x, y)
    updates, state = optimizer.update(gradients, state, model)
    return eqx.apply_updates(model, updates), state, value


kept = [model, optimizer.init(eqx.filter(model, eqx.is_array))]


def call() -> Any:
    kept[0], kept[1], value = step(*kept, X, Y)
    return value


measure(call)
