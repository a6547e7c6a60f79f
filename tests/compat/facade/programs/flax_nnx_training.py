"""flax.nnx: modules with state, trained by nnx.Optimizer; nnx.jit, grad, vmap, scan, remat, cond; splitting and merging."""

import json

import jax
import jax.numpy as jnp
import optax
from flax import nnx

results = {}


class Network(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.conv = nnx.Conv(1, 4, kernel_size=(3, 3), strides=2, use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(4, momentum=0.9, rngs=rngs)
        self.dropout = nnx.Dropout(0.2, rngs=rngs)
        self.hidden = nnx.Linear(4 * 9, 16, rngs=rngs)
        self.out = nnx.Linear(16, 3, kernel_init=nnx.initializers.he_normal(), rngs=rngs)

    def __call__(self, x):
        x = nnx.avg_pool(nnx.relu(self.norm(self.conv(x))), (2, 2), strides=(2, 2))
        x = x.reshape(x.shape[0], -1)
        return self.out(self.dropout(nnx.gelu(self.hidden(x))))


images = jax.random.normal(jax.random.key(0), (8, 12, 12, 1))
labels = jnp.arange(8) % 3
model = Network(nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adamw(1e-2), wrt=nnx.Param)
metrics = nnx.MultiMetric(accuracy=nnx.metrics.Accuracy(), loss=nnx.metrics.Average("loss"))


@nnx.jit
def step(model, optimizer, metrics, images, labels):
    def loss(model):
        logits = model(images)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), logits

    (value, logits), gradients = nnx.value_and_grad(loss, has_aux=True)(model)
    metrics.update(loss=value, logits=logits, labels=labels)
    optimizer.update(model, gradients)
    return value


model.train()
results["losses"] = [float(step(model, optimizer, metrics, images, labels)) for _ in range(5)]
results["metrics"] = [float(value) for value in metrics.compute().values()]
model.eval()
results["logits"] = model(images)[0].tolist()
results["averages"] = [float(jnp.sum(model.norm.mean[...])), float(jnp.sum(model.norm.var[...]))]

graph, params, rest = nnx.split(model, nnx.Param, ...)
results["parameters"] = [float(leaf.size) for leaf in jax.tree.leaves(params)]
merged = nnx.merge(graph, jax.tree.map(lambda leaf: leaf * 0.5, params), rest)
results["merged"] = merged(images)[0].tolist()


class Counter(nnx.Variable):
    pass


class Layer(nnx.Module):
    def __init__(self, size, rngs):
        self.linear = nnx.Linear(size, size, rngs=rngs)
        self.norm = nnx.LayerNorm(size, rngs=rngs)
        self.calls = Counter(jnp.array(0))

    def __call__(self, x):
        self.calls[...] += 1
        return x + nnx.tanh(self.linear(self.norm(x)))


@nnx.vmap(in_axes=0, out_axes=0)
def make(key):
    return Layer(4, nnx.Rngs(key))


@nnx.scan(in_axes=(0, nnx.Carry), out_axes=nnx.Carry)
def forward(layer, x):
    return nnx.remat(lambda layer, x: layer(x))(layer, x)


layers = make(jax.random.split(jax.random.key(1), 3))
x = jax.random.normal(jax.random.key(2), (2, 4))
results["stacked"] = [float(value) for value in layers.linear.kernel[...].sum((1, 2))]
results["scanned"] = forward(layers, x).ravel().tolist()
results["calls"] = layers.calls[...].astype(float).tolist()
gradients = nnx.grad(lambda layers, x: jnp.sum(forward(layers, x) ** 2))(layers, x)
results["slopes"] = [float(jnp.sum(leaf)) for leaf in jax.tree.leaves(gradients)]

cell = nnx.RNN(nnx.LSTMCell(4, 3, rngs=nnx.Rngs(3)))
results["lstm"] = cell(jax.random.normal(jax.random.key(4), (1, 5, 4)))[0, -1].tolist()
attention = nnx.MultiHeadAttention(num_heads=2, in_features=4, decode=False, rngs=nnx.Rngs(5))
results["attention"] = attention(x[None])[0, 0].tolist()
results["branch"] = nnx.cond(True, lambda layer, x: layer(x), lambda layer, x: x, Layer(4, nnx.Rngs(6)), x)[0].tolist()
embedding = nnx.Embed(5, 3, rngs=nnx.Rngs(7))
results["embedding"] = embedding(jnp.array([1, 4])).ravel().tolist()
results["keys"] = [float(value) for value in jax.random.uniform(nnx.Rngs(params=0, dropout=1).dropout(), (3,))]
shapes = nnx.eval_shape(lambda: Network(nnx.Rngs(0)))
results["shapes"] = [float(leaf.size) for leaf in jax.tree.leaves(nnx.state(shapes, nnx.Param))]
lora = nnx.LoRA(4, 2, 3, rngs=nnx.Rngs(8))
results["lora"] = lora(x)[0].tolist()
print(json.dumps(results))
