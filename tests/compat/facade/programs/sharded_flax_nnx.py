"""flax.nnx on eight devices: a data-parallel training step, and one whose parameters and moments are divided (FSDP)."""

import json
import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
results = {}


class Network(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.hidden = nnx.Linear(16, 32, rngs=rngs)
        self.out = nnx.Linear(32, 8, rngs=rngs)

    def __call__(self, x):
        return self.out(nnx.relu(self.hidden(x)))


@nnx.jit
def train_step(model, optimizer, x, y):
    def loss(model):
        return jnp.mean((model(x) - y) ** 2)

    value, grads = nnx.value_and_grad(loss)(model)
    optimizer.update(model, grads)
    return value


def divided(leaf):
    """Along the first axis that eight devices can divide."""
    spec = P("data") if leaf.ndim and leaf.shape[0] % 8 == 0 else P()
    return jax.device_put(leaf, NamedSharding(mesh, spec))


x = jax.device_put(jax.random.normal(jax.random.key(1), (32, 16)), NamedSharding(mesh, P("data")))
y = jax.device_put(jnp.sin(x[:, :8]), NamedSharding(mesh, P("data")))
for name, place in (("replicated", lambda leaf: jax.device_put(leaf, NamedSharding(mesh, P()))), ("divided", divided)):
    model = Network(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
    for module in (model, optimizer):
        nnx.update(module, jax.tree.map(place, nnx.state(module)))
    losses = [float(train_step(model, optimizer, x, y)) for _ in range(4)]
    kernel = model.hidden.kernel[...]
    results[name] = {
        "losses": losses,
        "kernel": np.asarray(kernel)[:2, :4].tolist(),
        "shard": list(kernel.sharding.shard_shape(kernel.shape)),
        "devices": len(kernel.sharding.device_set),
    }
print(json.dumps(results))
