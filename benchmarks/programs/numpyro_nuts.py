"""NUTS on the eight schools: 200 steps of warmup and 500 draws."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from common import KEY, measure
from numpyro.infer import MCMC, NUTS

effects = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
errors = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def schools() -> None:
    mean = numpyro.sample("mean", dist.Normal(0, 5))
    scale = numpyro.sample("scale", dist.HalfCauchy(5))
    with numpyro.plate("schools", 8):
        effect = numpyro.sample("effect", dist.Normal(0, 1))
        numpyro.sample("seen", dist.Normal(mean + scale * effect, errors), obs=effects)


sampler = MCMC(NUTS(schools), num_warmup=200, num_samples=500, progress_bar=False)


def call() -> Any:
    sampler.run(KEY)
    return sampler.get_samples()


measure(call)
