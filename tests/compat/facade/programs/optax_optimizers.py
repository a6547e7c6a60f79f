"""Twelve optimizers of optax, each ten steps on the same small network."""

import json

import jax
import jax.numpy as jnp
import optax

key = jax.random.key(0)
first, second, data = jax.random.split(key, 3)
parameters = {
    "hidden": {"w": 0.5 * jax.random.normal(first, (3, 8)), "b": jnp.zeros(8)},
    "out": {"w": 0.5 * jax.random.normal(second, (8, 1)), "b": jnp.zeros(1)},
}
x = jax.random.normal(data, (32, 3))
y = jnp.sin(x[:, :1]) + 0.5 * x[:, 1:2] * x[:, 2:]


def predict(params, x):
    hidden = jnp.tanh(x @ params["hidden"]["w"] + params["hidden"]["b"])
    return hidden @ params["out"]["w"] + params["out"]["b"]


def loss(params, x, y):
    return jnp.mean(optax.l2_loss(predict(params, x), y))


OPTIMIZERS = {
    "sgd": optax.sgd(0.1, momentum=0.9, nesterov=True),
    "adam": optax.adam(0.05),
    "adamw": optax.adamw(0.05, weight_decay=0.01),
    "adamax": optax.adamax(0.05),
    "adabelief": optax.adabelief(0.05),
    "adagrad": optax.adagrad(0.1),
    "adafactor": optax.adafactor(0.05),
    "lamb": optax.lamb(0.05),
    "lion": optax.lion(0.01),
    "nadam": optax.nadam(0.05),
    "rmsprop": optax.rmsprop(0.02, centered=True),
    "yogi": optax.yogi(0.05),
}


def train(optimizer):
    @jax.jit
    def step(params, state, x, y):
        value, gradients = jax.value_and_grad(loss)(params, x, y)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    params, state = parameters, optimizer.init(parameters)
    for _ in range(10):
        params, state, value = step(params, state, x, y)
    return [float(value), float(optax.global_norm(params))]


print(json.dumps({name: train(optimizer) for name, optimizer in OPTIMIZERS.items()}))
