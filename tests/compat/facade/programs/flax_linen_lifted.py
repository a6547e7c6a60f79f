"""flax.linen's lifted transformations: scan over time and over layers, remat, vmap, jit; attention, recurrence, tabulate."""

import functools
import json

import jax
import jax.numpy as jnp
from flax import linen as nn

results = {}
key = jax.random.key(0)


def total(tree):
    return [float(jnp.sum(leaf)) for leaf in jax.tree.leaves(tree)]


class Recurrent(nn.Module):
    features: int

    @nn.compact
    def __call__(self, x):
        cell = nn.scan(nn.LSTMCell, variable_broadcast="params", split_rngs={"params": False}, in_axes=1, out_axes=1)(
            self.features
        )
        carry = cell.initialize_carry(jax.random.key(0), x[:, 0].shape)
        _, y = cell(carry, x)
        return nn.Dense(1)(y)


x = jax.random.normal(key, (2, 5, 3))
recurrent = Recurrent(4)
params = recurrent.init(key, x)
results["lstm"] = recurrent.apply(params, x).ravel().tolist()
results["lstm's slopes"] = total(jax.jit(jax.grad(lambda p: jnp.sum(recurrent.apply(p, x) ** 2)))(params))
rnn = nn.RNN(nn.GRUCell(4), time_major=False)
results["gru"] = rnn.apply(rnn.init(key, x), x)[:, -1].ravel().tolist()
both = nn.Bidirectional(nn.RNN(nn.OptimizedLSTMCell(2)), nn.RNN(nn.OptimizedLSTMCell(2)))
results["bidirectional"] = both.apply(both.init(key, x), x)[:, 0].ravel().tolist()


class Layer(nn.Module):
    @nn.compact
    def __call__(self, x, _):
        h = nn.MultiHeadDotProductAttention(num_heads=2, dropout_rate=0.1, deterministic=False)(nn.LayerNorm()(x))
        x = x + h
        return x + nn.Dense(x.shape[-1])(nn.silu(nn.Dense(8)(nn.RMSNorm()(x)))), None


class Deep(nn.Module):
    layers: int = 3

    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(11, 4)(tokens)
        stack = nn.scan(
            nn.remat(Layer, prevent_cse=False),
            variable_axes={"params": 0},
            split_rngs={"params": True, "dropout": True},
            length=self.layers,
        )
        x, _ = stack()(x, None)
        return nn.Dense(11)(x)


tokens = jnp.array([[1, 2, 3, 4], [5, 6, 7, 8]])
deep = Deep()
params = deep.init({"params": key, "dropout": key}, tokens)
results["deep's shapes"] = [float(leaf.size) for leaf in jax.tree.leaves(params)]


@functools.partial(jax.jit, static_argnames="train")
def apply(params, tokens, key, train=True):
    return deep.apply(params, tokens, rngs={"dropout": key})


results["deep"] = apply(params, tokens, jax.random.key(1))[0, 0].tolist()
results["deep's slopes"] = total(jax.grad(lambda p: jnp.mean(apply(p, tokens, jax.random.key(1)) ** 2))(params))

Ensemble = nn.vmap(nn.Dense, in_axes=None, out_axes=0, axis_size=3, variable_axes={"params": 0}, split_rngs={"params": True})
ensemble = Ensemble(2)
results["ensemble"] = ensemble.apply(ensemble.init(key, jnp.ones(3)), jnp.ones(3)).ravel().tolist()


class Compiled(nn.Module):
    @nn.jit
    @nn.compact
    def __call__(self, x):
        count = self.variable("counts", "calls", lambda: jnp.zeros((), jnp.int32))
        count.value += 1
        self.sow("intermediates", "input", x)
        return nn.Dense(2, param_dtype=jnp.bfloat16)(x)


compiled = Compiled()
params = compiled.init(key, jnp.ones((1, 3)))
y, changed = compiled.apply(params, jnp.ones((1, 3)), mutable=["counts", "intermediates"])
results["compiled"] = [*y.ravel().tolist(), *total(changed)]
bound = nn.Dense(2).bind({"params": {"kernel": jnp.ones((3, 2)), "bias": jnp.zeros(2)}})
results["bound"] = bound(jnp.arange(3.0)).tolist()
results["bound slopes"] = total(jax.grad(lambda v: jnp.sum(bound(v)))(jnp.arange(3.0)))
table = nn.tabulate(Deep(), {"params": key, "dropout": key}, console_kwargs={"width": 120})(tokens)
results["tabulate"] = [float("Embed" in table)]
results["conv"] = total(
    nn.ConvTranspose(2, (3,), strides=2).apply(
        {"params": {"kernel": jnp.ones((3, 1, 2)), "bias": jnp.zeros(2)}}, jnp.arange(4.0).reshape(1, 4, 1)
    )
)
groups = nn.GroupNorm(num_groups=2)
results["groups"] = groups.apply(groups.init(key, x[..., :2]), x[..., :2]).ravel().tolist()[:4]
normed = nn.WeightNorm(nn.Dense(2))
results["weight norm"] = normed.apply(normed.init(key, jnp.ones(3)), jnp.ones(3)).tolist()
print(json.dumps(results))
