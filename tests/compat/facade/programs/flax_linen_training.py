"""flax.linen: a convolutional network with batch normalization and dropout, trained with a TrainState."""

import json
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from flax import serialization, traverse_util
from flax.training import train_state

results = {}


class TrainState(train_state.TrainState):
    batch_stats: Any


class Block(nn.Module):
    features: int

    @nn.compact
    def __call__(self, x, training):
        x = nn.Conv(self.features, (3, 3), strides=(2, 2), use_bias=False)(x)
        x = nn.BatchNorm(use_running_average=not training, momentum=0.9)(x)
        return nn.relu(x)


class Network(nn.Module):
    classes: int = 3

    @nn.compact
    def __call__(self, x, training=False):
        x = Block(4, name="first")(x, training)
        x = Block(8)(x, training)
        x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        x = x.reshape((x.shape[0], -1))
        x = nn.Dropout(0.25, deterministic=not training)(nn.gelu(nn.Dense(16)(x)))
        x = nn.LayerNorm()(x)
        return nn.Dense(self.classes, kernel_init=nn.initializers.he_normal())(x)


images = jax.random.normal(jax.random.key(0), (8, 12, 12, 1))
labels = jnp.arange(8) % 3
network = Network()
variables = network.init(jax.random.key(1), images)
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(1e-2, 10)))
state = TrainState.create(
    apply_fn=network.apply, params=variables["params"], tx=optimizer, batch_stats=variables["batch_stats"]
)
results["norms"] = {
    "/".join(path): float(jnp.linalg.norm(leaf)) for path, leaf in traverse_util.flatten_dict(state.params).items()
}


@jax.jit
def step(state, images, labels, key):
    def loss(params):
        logits, updates = state.apply_fn(
            {"params": params, "batch_stats": state.batch_stats},
            images,
            training=True,
            mutable=["batch_stats"],
            rngs={"dropout": jax.random.fold_in(key, state.step)},
        )
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), (updates, logits)

    (value, (updates, logits)), gradients = jax.value_and_grad(loss, has_aux=True)(state.params)
    state = state.apply_gradients(grads=gradients, batch_stats=updates["batch_stats"])
    return state, value, jnp.mean(jnp.argmax(logits, -1) == labels)


losses = []
for _ in range(5):
    state, value, accuracy = step(state, images, labels, jax.random.key(2))
    losses.append(float(value))
results["losses"] = [*losses, float(accuracy), float(state.step)]
logits = network.apply({"params": state.params, "batch_stats": state.batch_stats}, images)
results["logits"] = logits[0].tolist()
results["averages"] = [float(jnp.sum(leaf)) for leaf in jax.tree.leaves(state.batch_stats)]
restored = serialization.from_bytes(state, serialization.to_bytes(state))
results["restored"] = [float(optax.global_norm(restored.params) - optax.global_norm(state.params))]
results["shapes"] = [float(leaf.size) for leaf in jax.tree.leaves(jax.eval_shape(network.init, jax.random.key(0), images))]
print(json.dumps(results))
