"""equinox: its own primitives, checkpointed and bounded loops, errors at run time, filtered transformations, Jaxpr leaves."""

import json

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp

x = jnp.arange(3.0) + 1
results = {}


def refused(f, *args):
    """Whether a call raises, and the first line of what."""
    try:
        f(*args)
    except (RuntimeError, ValueError) as error:
        return float("bad" in str(error) or "Detected" in str(error) or "Unexpected" in str(error))
    return -1.0


results["unvmap"] = [
    float(value)
    for value in jax.vmap(lambda v: (eqxi.unvmap_any(v > 2), eqxi.unvmap_all(v > 0), eqxi.unvmap_max(v)), out_axes=None)(x)
]
results["unvmap in jit"] = jax.jit(jax.vmap(lambda v: jnp.where(eqxi.unvmap_any(v > 2), v, 0)))(x).tolist()
results["refused"] = [
    refused(jax.grad(lambda v: eqxi.nontraceable(v).sum()), x),
    refused(jax.vmap(eqxi.nontraceable), x),
    refused(jax.grad(lambda v: eqxi.nondifferentiable_backward(v).sum()), x),
    refused(jax.grad(lambda v: eqxi.nondifferentiable(v).sum()), x),
    refused(jax.vmap(eqxi.nonbatchable), x),
    refused(lambda v: eqx.error_if(v, v > 0, "bad"), x),
    refused(jax.jit(lambda v: eqx.error_if(v, v > 0, "bad")), x),
    refused(eqx.filter_jit(jax.vmap(lambda v: eqx.error_if(v, v > 2, "bad"))), x),
]
results["not refused"] = jax.jit(jax.vmap(jax.grad(lambda v: eqx.error_if(v, v < 0, "bad") ** 2)))(x).tolist()

for kind in ("checkpointed", "bounded"):

    def loop(y, kind=kind):
        step = lambda c: (c[0] + 1, jnp.sin(c[1]) * 1.5)  # noqa: E731
        return eqxi.while_loop(lambda c: c[0] < 5, step, (0, y), kind=kind, max_steps=16)[1]

    results[f"{kind} loop"] = [loop(x).tolist(), jax.jit(jax.vmap(jax.grad(loop)))(x).tolist()]
results["scan"] = float(
    jax.grad(lambda y: eqxi.scan(lambda c, v: (c * v + 1, c), y, jnp.arange(1.0, 5.0), kind="checkpointed", checkpoints=2)[0])(
        2.0
    )
)
noinline = eqxi.noinline(lambda a, b: jnp.sin(a) * b)
results["noinline"] = [noinline(x, 2.0).tolist(), jax.jit(jax.grad(lambda v: noinline(v, 2.0).sum()))(x).tolist()]

_, tangents = eqx.filter_jvp(lambda a, b: (a * 2, b, a > 0, "text", jax.lax.stop_gradient(a)), (x, x), (x, None))
results["filter_jvp"] = [tangents[0].tolist(), [float(t is None) for t in tangents[1:]]]


def closed(y):
    return eqx.filter_closure_convert(lambda v: v * y, x)(x).sum()


results["closure_convert"] = [float(jax.grad(closed)(2.0)), jax.vmap(closed)(x).tolist()]


@eqx.filter_custom_vjp
def squared(a):
    return a**2


@squared.def_fwd
def _(perturbed, a):
    return a**2, (a, perturbed)


@squared.def_bwd
def _(residuals, g, perturbed, a):
    assert residuals[1] is True
    return 3 * g * residuals[0]


results["custom_vjp"] = [
    jax.grad(lambda v: squared(v).sum())(x).tolist(),
    jax.jit(jax.grad(lambda v: squared(v).sum()))(x).tolist(),
]
finalised = eqxi.finalise_fn(lambda v: jnp.where(eqxi.unvmap_any(v > 2), eqxi.nonbatchable(v), 0).sum())
results["finalised"] = float(finalised(x))

mlp = eqx.nn.MLP(2, 1, 8, 2, key=jax.random.key(0))
samples = jnp.linspace(-1, 1, 8).reshape(4, 2)


@eqx.filter_jit
@eqx.filter_value_and_grad
def loss(model, x):
    return jnp.mean((jax.vmap(model)(x) - x[:, :1] ** 2) ** 2)


losses = []
for _ in range(5):
    value, gradient = loss(mlp, samples)
    mlp = eqx.apply_updates(mlp, jax.tree.map(lambda g: -0.1 * g, gradient))
    losses.append(float(value))
results["losses"] = losses
print(json.dumps(results))
