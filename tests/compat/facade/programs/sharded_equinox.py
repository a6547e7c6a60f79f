"""equinox on eight devices: a data-parallel training step with filter_shard, and one with divided parameters, by optax."""

import json
import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
whole, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-2))
results = {}

linear, ones = eqx.nn.Linear(4, 2, key=jax.random.key(0)), jnp.ones((8, 4))
assert jnp.allclose(eqx.filter_pmap(lambda f, x: f(x), in_axes=(None, 0))(linear, ones), jax.vmap(linear)(ones), atol=1e-5)


@eqx.filter_value_and_grad
def compute_loss(model, x, y):
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


def step_of(where):
    @eqx.filter_jit(donate="all")
    def step(model, state, x, y):
        model, state = where(model), where(state)
        x, y = eqx.filter_shard((x, y), rows)
        value, grads = compute_loss(model, x, y)
        updates, state = optimizer.update(grads, state, eqx.filter(model, eqx.is_array))
        return where(eqx.apply_updates(model, updates)), where(state), value

    return step


def divided(tree):
    def place(leaf):
        fits = eqx.is_array(leaf) and leaf.ndim == 2 and leaf.shape[0] % 2 == 0
        return eqx.filter_shard(leaf, NamedSharding(mesh, P("model") if fits else P()))

    return jax.tree.map(place, tree)


for name, where in (("replicated", lambda tree: eqx.filter_shard(tree, whole)), ("divided", divided)):
    model = eqx.nn.MLP(4, 2, 16, 2, key=jax.random.key(0))
    state = optimizer.init(eqx.filter(model, eqx.is_array))
    model, state = where(model), where(state)
    step, losses = step_of(where), []
    for number in range(4):
        x = jax.random.normal(jax.random.key(number), (16, 4))
        y = jnp.stack([x.sum(1), x.prod(1)], 1)
        model, state, value = step(model, state, jax.device_put(x, rows), jax.device_put(y, rows))
        losses.append(float(value))
    weight = model.layers[1].weight
    results[name] = {
        "losses": losses,
        "weight": np.asarray(weight)[:2, :3].tolist(),
        "shard": list(weight.sharding.shard_shape(weight.shape)),
    }
print(json.dumps(results))
