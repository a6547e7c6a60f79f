"""A step of SGD on a linen network with batch normalization and dropout."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from common import KEY, X, Y, measure
from flax import linen as nn


class Network(nn.Module):
    @nn.compact
    def __call__(self, x: Any, training: bool) -> Any:
        for _ in range(2):
            x = nn.relu(nn.BatchNorm(use_running_average=not training)(nn.Dense(128)(x)))
            x = nn.Dropout(0.1, deterministic=not training)(x)
        return nn.Dense(1)(x)


network = Network()
variables = network.init(KEY, X, False)
optimizer = optax.sgd(1e-2, momentum=0.9)


@jax.jit
def step(variables: Any, state: Any, key: Any) -> Any:
    def loss(params: Any) -> Any:
        out, changed = network.apply({**variables, "params": params}, X, True, mutable=["batch_stats"], rngs={"dropout": key})
        return jnp.mean((out - Y) ** 2), changed

    (value, changed), gradients = jax.value_and_grad(loss, has_aux=True)(variables["params"])
    updates, state = optimizer.update(gradients, state)
    return {"params": optax.apply_updates(variables["params"], updates), **changed}, state, value


kept = [variables, optimizer.init(variables["params"])]


def call() -> Any:
    kept[0], kept[1], value = step(*kept, KEY)
    return value


measure(call)
