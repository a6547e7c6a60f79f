"""numpyro and distrax where they walk a function's Jaxpr: which inputs a result depends on, and the inverse of a function."""

import json

import distrax
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist
from numpyro.infer.inspect import get_dependencies
from numpyro.ops.provenance import eval_provenance

results = {}
x = np.ones(3, np.float32)


def several(x, y, z):
    chosen = jax.lax.cond(True, lambda: x, lambda: z)
    return {"a": jnp.sin(x) + y, "b": z, "c": jax.jit(lambda v: v * 2)(x), "d": chosen}


found = eval_provenance(several, x=x, y=x, z=x)
results["provenance"] = {name: [float(letter in inputs) for letter in "xyz"] for name, inputs in found.items()}


def model(x):
    a = numpyro.sample("a", dist.Normal(0, 1))
    b = numpyro.sample("b", dist.Normal(a, 1))
    numpyro.sample("o", dist.Normal(b, 1), obs=x)


prior = get_dependencies(model, (jnp.array(1.0),))["prior_dependencies"]
results["dependencies"] = {name: [float(letter in of) for letter in "abo"] for name, of in prior.items()}

bijector = distrax.Lambda(lambda x: jnp.exp(2 * x) + 1)
results["inverse"] = [
    float(bijector.inverse(jnp.array(3.0))),
    float(bijector.forward_log_det_jacobian(jnp.array(0.5))),
    float(bijector.inverse_log_det_jacobian(jnp.array(3.0))),
]
squashed = distrax.Transformed(distrax.Normal(0.0, 1.0), distrax.Lambda(jnp.tanh))
results["transformed"] = float(squashed.log_prob(0.3))
print(json.dumps(results))
