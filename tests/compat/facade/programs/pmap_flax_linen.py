"""flax.linen under pmap on eight devices, as in Flax's ImageNet example: a replicated train state, gradients and statistics
that are averaged over the devices, a learning rate that changes, and an evaluation step."""

import functools
import json
import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import jax_utils
from flax.training import common_utils, train_state
from jax import lax


class Network(nn.Module):
    @nn.compact
    def __call__(self, x, train: bool = True):
        x = nn.Conv(4, (3, 3), use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=not train, momentum=0.9)(x))
        return nn.Dense(3)(x.mean((1, 2)))


class TrainState(train_state.TrainState):
    batch_stats: Any


def compute_metrics(logits, labels):
    loss = jnp.mean(optax.softmax_cross_entropy(logits, common_utils.onehot(labels, num_classes=3)))
    metrics = {"loss": loss, "accuracy": jnp.mean(jnp.argmax(logits, -1) == labels)}
    return lax.pmean(metrics, axis_name="batch")


def train_step(state, batch, learning_rate_fn):
    def loss_fn(params):
        variables = {"params": params, "batch_stats": state.batch_stats}
        logits, updated = state.apply_fn(variables, batch["image"], mutable=["batch_stats"])
        labels = common_utils.onehot(batch["label"], num_classes=3)
        decay = sum([jnp.sum(x**2) for x in jax.tree_util.tree_leaves(params) if x.ndim > 1])
        return jnp.mean(optax.softmax_cross_entropy(logits, labels)) + 0.5e-4 * decay, (updated, logits)

    (_, (updated, logits)), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    grads = lax.pmean(grads, axis_name="batch")
    metrics = compute_metrics(logits, batch["label"])
    metrics["learning_rate"] = learning_rate_fn(state.step)
    return state.apply_gradients(grads=grads, batch_stats=updated["batch_stats"]), metrics


def eval_step(state, batch):
    variables = {"params": state.params, "batch_stats": state.batch_stats}
    return compute_metrics(state.apply_fn(variables, batch["image"], train=False, mutable=False), batch["label"])


model = Network()
variables = model.init(jax.random.key(0), jnp.ones((1, 8, 8, 1)))
schedule = optax.cosine_decay_schedule(0.1, 10)
state = TrainState.create(
    apply_fn=model.apply,
    params=variables["params"],
    tx=optax.sgd(schedule, momentum=0.9, nesterov=True),
    batch_stats=variables["batch_stats"],
)
state = jax_utils.replicate(state)
p_train_step = jax.pmap(functools.partial(train_step, learning_rate_fn=schedule), axis_name="batch", donate_argnums=(0,))
p_eval_step = jax.pmap(eval_step, axis_name="batch")
cross_replica_mean = jax.pmap(lambda x: lax.pmean(x, "x"), "x")
images = np.asarray(jax.random.normal(jax.random.key(1), (32, 8, 8, 1)))
batch = {"image": images.reshape(8, 4, 8, 8, 1), "label": (np.arange(32) % 3).reshape(8, 4)}
metrics = []
for one in jax_utils.prefetch_to_device(iter([batch] * 3), 2):
    state, found = p_train_step(state, one)
    metrics.append(found)
state = state.replace(batch_stats=cross_replica_mean(state.batch_stats))
evaluated = jax.tree.map(lambda x: float(x[0]), p_eval_step(state, batch))
metrics = common_utils.get_metrics(metrics)
single = jax_utils.unreplicate(state)
results = {
    "train": {name: np.asarray(values).tolist() for name, values in metrics.items()},
    "eval": evaluated,
    "step": int(single.step),
    "kernel": np.asarray(single.params["Dense_0"]["kernel"]).tolist(),
    "statistics": np.asarray(single.batch_stats["BatchNorm_0"]["mean"]).tolist(),
}
print(json.dumps(results))
