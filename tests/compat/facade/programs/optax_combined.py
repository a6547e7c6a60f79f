"""What optax builds out of optimizers: schedules, chains, masks, parts with optimizers of their own, line searches, losses."""

import json

import jax
import jax.numpy as jnp
import optax

results = {}
schedules = {
    "warmup cosine": optax.warmup_cosine_decay_schedule(0.0, 1.0, 10, 100, 0.1),
    "exponential": optax.exponential_decay(1.0, 20, 0.5, staircase=True),
    "piecewise": optax.piecewise_constant_schedule(1.0, {10: 0.5, 50: 0.1}),
    "joined": optax.join_schedules([optax.linear_schedule(0.0, 1.0, 20), optax.constant_schedule(0.3)], [40]),
}
for name, schedule in schedules.items():
    results[name] = [float(schedule(step)) for step in (0, 5, 25, 60, 99)]


def rosenbrock(params):
    x = jnp.concatenate([params["a"], params["b"].ravel()])
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


start = {"a": jnp.array([-1.2, 1.0]), "b": jnp.full((2, 2), 0.5)}


def run(optimizer, steps=20, **extra):
    optimizer = optax.with_extra_args_support(optimizer)

    @jax.jit
    def step(params, state):
        value, gradients = jax.value_and_grad(rosenbrock)(params)
        given = {name: value if given is None else given for name, given in extra.items()}
        updates, state = optimizer.update(gradients, state, params, **given)
        return optax.apply_updates(params, updates), state

    params, state = start, optimizer.init(start)
    for _ in range(steps):
        params, state = step(params, state)
    return [float(rosenbrock(params)), *[float(jnp.sum(leaf)) for leaf in jax.tree.leaves(params)]]


results["chain"] = run(optax.chain(optax.clip_by_global_norm(1.0), optax.add_decayed_weights(1e-3), optax.adam(0.02)))
results["scheduled"] = run(optax.adam(schedules["warmup cosine"]))
results["masked"] = run(optax.chain(optax.masked(optax.clip(0.1), {"a": True, "b": False}), optax.sgd(1e-3)))
results["parts"] = run(optax.multi_transform({"slow": optax.sgd(1e-4), "fast": optax.adam(0.02)}, {"a": "slow", "b": "fast"}))
results["several steps"] = run(optax.MultiSteps(optax.adam(0.05), every_k_schedule=4).gradient_transformation())
results["lookahead of finite"] = run(optax.apply_if_finite(optax.adam(0.02), max_consecutive_errors=3))
results["plateau"] = run(optax.chain(optax.adam(0.05), optax.contrib.reduce_on_plateau(patience=3)), value=None)

injected = optax.inject_hyperparams(optax.adamw)(learning_rate=optax.linear_schedule(0.1, 0.01, 10), weight_decay=0.01)
results["injected"] = run(injected)
state = injected.init(start)
results["learning rate"] = [float(state.hyperparams["learning_rate"])]

# Fast and slow weights.
lookahead = optax.lookahead(optax.sgd(1e-3), sync_period=5, slow_step_size=0.5)
params = optax.LookaheadParams.init_synced(start)
state = lookahead.init(params)
for _ in range(10):
    updates, state = lookahead.update(jax.grad(rosenbrock)(params.fast), state, params)
    params = optax.apply_updates(params, updates)
results["lookahead"] = [float(rosenbrock(params.slow)), float(rosenbrock(params.fast))]

# L-BFGS with its zoom line search, in a compiled loop.
lbfgs = optax.lbfgs()
value_and_grad = optax.value_and_grad_from_state(rosenbrock)


def continues(carry):
    _, state = carry
    count = optax.tree.get(state, "count")
    gradient = optax.tree.get(state, "grad")
    return (count == 0) | ((count < 100) & (optax.tree.norm(gradient) > 1e-3))


def lbfgs_step(carry):
    params, state = carry
    value, gradients = value_and_grad(params, state=state)
    updates, state = lbfgs.update(gradients, state, params, value=value, grad=gradients, value_fn=rosenbrock)
    return optax.apply_updates(params, updates), state


found, _ = jax.jit(lambda params: jax.lax.while_loop(continues, lbfgs_step, (params, lbfgs.init(params))))(start)
results["lbfgs"] = [float(jnp.round(leaf, 3).sum()) for leaf in jax.tree.leaves(found)]

logits = jax.random.normal(jax.random.key(1), (6, 4))
labels = jnp.array([0, 1, 2, 3, 0, 1])
results["losses"] = [
    float(jnp.mean(value))
    for value in (
        optax.softmax_cross_entropy_with_integer_labels(logits, labels),
        optax.softmax_cross_entropy(logits, optax.smooth_labels(jax.nn.one_hot(labels, 4), 0.1)),
        optax.sigmoid_binary_cross_entropy(logits, jax.nn.one_hot(labels, 4)),
        optax.huber_loss(logits, 0.0),
        optax.cosine_similarity(logits, jnp.ones((6, 4))),
        optax.log_cosh(logits),
        optax.losses.hinge_loss(logits, 2.0 * jax.nn.one_hot(labels, 4) - 1.0),
        optax.ctc_loss(logits[None], jnp.zeros((1, 6)), jnp.array([[1, 2, 3]]), jnp.zeros((1, 3))),
    )
]
print(json.dumps(results))
