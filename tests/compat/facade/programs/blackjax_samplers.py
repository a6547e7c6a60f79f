"""blackjax: steps of NUTS and of HMC on a normal model, each from its own key, as its README takes them."""

import json

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats

observed = np.random.default_rng(0).normal(10, 20, size=1000)
start = {"loc": 1.0, "scale": 2.0}
results = {}


def log_density(x):
    return jnp.sum(stats.norm.logpdf(observed, x["loc"], x["scale"]))


samplers = {
    "nuts": blackjax.nuts(log_density, 1e-3, jnp.ones(2)),
    "hmc": blackjax.hmc(log_density, 1e-3, jnp.ones(2), num_integration_steps=5),
}
for name, sampler in samplers.items():
    state, step = sampler.init(start), jax.jit(sampler.step)
    for i in range(10):
        state, _ = step(jax.random.fold_in(jax.random.key(0), i), state)
    results[name] = [float(x) for x in (state.position["loc"], state.position["scale"])]
print(json.dumps(results))
