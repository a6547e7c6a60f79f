"""haiku: a network with batch normalization and dropout, trained by optax; recurrence, summaries, lifted transformations."""

import json

import haiku as hk
import jax
import jax.numpy as jnp
import optax

results = {}
images = jax.random.normal(jax.random.PRNGKey(0), (8, 10, 10, 1))
labels = jnp.arange(8) % 3


class Network(hk.Module):
    def __init__(self, classes, name=None):
        super().__init__(name=name)
        self.classes = classes

    def __call__(self, x, training):
        x = hk.Conv2D(4, 3, stride=2, with_bias=False)(x)
        x = hk.BatchNorm(create_scale=True, create_offset=True, decay_rate=0.9)(x, training)
        x = hk.max_pool(jax.nn.relu(x), 2, 2, "VALID")
        x = hk.Flatten()(x)
        if training:
            x = hk.dropout(hk.next_rng_key(), 0.2, x)
        x = hk.LayerNorm(-1, True, True)(hk.nets.MLP([16, 8])(x))
        return hk.Linear(self.classes, w_init=hk.initializers.VarianceScaling(2.0))(x)


network = hk.transform_with_state(lambda x, training: Network(3)(x, training))
params, state = network.init(jax.random.PRNGKey(1), images, True)
results["parameters"] = [float(hk.data_structures.tree_size(params)), float(optax.global_norm(params))]
optimizer = optax.adam(1e-2)


def loss(params, state, key):
    logits, state = network.apply(params, state, key, images, True)
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), state


@jax.jit
def step(params, state, moments, key):
    (value, state), gradients = jax.value_and_grad(loss, has_aux=True)(params, state, key)
    updates, moments = optimizer.update(gradients, moments)
    return optax.apply_updates(params, updates), state, moments, value


moments, losses = optimizer.init(params), []
for key in hk.PRNGSequence(2).take(5):
    params, state, moments, value = step(params, state, moments, key)
    losses.append(float(value))
results["losses"] = losses
results["averages"] = [float(jnp.sum(leaf)) for leaf in jax.tree.leaves(state)]
logits, _ = network.apply(params, state, None, images, False)
results["logits"] = logits[0].tolist()


# Recurrence over time, in a scan.
def recurrent(x):
    core = hk.LSTM(5)
    outputs, last = hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))
    gru = hk.GRU(4)
    again, _ = hk.static_unroll(gru, outputs, gru.initial_state(x.shape[1]))
    return again, last


lstm = hk.without_apply_rng(hk.transform(recurrent))
series = jax.random.normal(jax.random.PRNGKey(3), (6, 2, 3))
weights = lstm.init(jax.random.PRNGKey(4), series)
results["recurrent"] = lstm.apply(weights, series)[0][-1].ravel().tolist()
slopes = jax.grad(lambda w: jnp.sum(lstm.apply(w, series)[0] ** 2))(weights)
results["slopes"] = [float(optax.global_norm(slopes))]


# A stack of equal layers, and haiku's own transformations inside.
def stacked(x):
    x = hk.experimental.layer_stack(3)(lambda h: jnp.tanh(hk.Linear(4)(h)))(x)
    scale = hk.get_parameter("scale", [4], init=jnp.ones)
    x = hk.vmap(lambda row: row * scale, split_rng=False)(x)
    attention = hk.MultiHeadAttention(2, 3, w_init=hk.initializers.TruncatedNormal(0.5))
    x = hk.remat(lambda v: attention(v, v, v))(x[None])[0]
    projection = hk.Linear(2)
    projection(x[0])
    _, ys = hk.scan(lambda carry, row: (carry + row, projection(carry)), jnp.zeros(6), x)
    return ys + hk.Embed(5, 2)(jnp.array([1, 2]))


deep = hk.without_apply_rng(hk.transform(stacked))
weights = deep.init(jax.random.PRNGKey(5), jnp.ones((2, 4)))
results["stacked"] = deep.apply(weights, jnp.ones((2, 4))).ravel().tolist()
results["summary"] = [float(len(hk.experimental.tabulate(deep)(jnp.ones((2, 4)))) > 100)]
print(json.dumps(results))
