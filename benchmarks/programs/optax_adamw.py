"""A step of AdamW on a network of three layers, in dicts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from common import KEY, X, Y, measure

sizes = [32, 128, 128, 1]
keys = jax.random.split(KEY, 3)
params = [{"w": jax.random.normal(key, (m, n)) / m**0.5, "b": jnp.zeros(n)} for key, m, n in zip(keys, sizes, sizes[1:])]
optimizer = optax.adamw(1e-3)


def loss(params: Any, x: Any, y: Any) -> Any:
    for layer in params[:-1]:
        x = jax.nn.gelu(x @ layer["w"] + layer["b"])
    return jnp.mean((x @ params[-1]["w"] + params[-1]["b"] - y) ** 2)


@jax.jit
def step(params: Any, state: Any, x: Any, y: Any) -> Any:
    value, gradients = jax.value_and_grad(loss)(params, x, y)
    updates, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, value


kept = [params, optimizer.init(params)]


def call() -> Any:
    kept[0], kept[1], value = step(*kept, X, Y)
    return value


measure(call)
