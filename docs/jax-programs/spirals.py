"""Two spirals told apart by a small network: JAX and optax."""

import jax
import jax.numpy as jnp
import optax


def spirals(key, count):
    """Points on two spirals, and which one each is on."""
    turns, noise, side = jax.random.split(key, 3)
    label = jax.random.bernoulli(side, 0.5, (count,))
    angle = 3.0 * jnp.pi * jnp.sqrt(jax.random.uniform(turns, (count,)))
    radius = angle / (3.0 * jnp.pi) * jnp.where(label, 1.0, -1.0)
    points = radius[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
    return points + 0.02 * jax.random.normal(noise, points.shape), label.astype(jnp.float32)


def init(key, sizes=(2, 64, 64, 1)):
    """Weights and biases of the layers."""
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        {"w": jax.random.normal(k, (m, n)) * jnp.sqrt(2.0 / m), "b": jnp.zeros(n)} for k, m, n in zip(keys, sizes, sizes[1:])
    ]


def logits(params, x):
    for layer in params[:-1]:
        x = jax.nn.silu(x @ layer["w"] + layer["b"])
    return (x @ params[-1]["w"] + params[-1]["b"])[:, 0]


def loss(params, x, y):
    return optax.sigmoid_binary_cross_entropy(logits(params, x), y).mean()


optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(1e-2, 400)))


@jax.jit
def step(params, state, x, y):
    value, gradient = jax.value_and_grad(loss)(params, x, y)
    updates, state = optimizer.update(gradient, state, params)
    return optax.apply_updates(params, updates), state, value


if __name__ == "__main__":
    data, start = jax.random.split(jax.random.key(0))
    x, y = spirals(data, 512)
    params = init(start)
    state = optimizer.init(params)
    for number in range(401):
        params, state, value = step(params, state, x, y)
        if number % 100 == 0:
            right = jnp.mean((logits(params, x) > 0.0) == (y > 0.5))
            print(f"step {number}: loss {value:.4f}, {100.0 * right:.1f} % right")
