"""Eight schools, and what their coaching is worth: numpyro."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS
from numpyro.infer.reparam import TransformReparam

EFFECT = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERROR = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def model(error, effect=None):
    mean = numpyro.sample("mean", dist.Normal(0.0, 5.0))
    spread = numpyro.sample("spread", dist.HalfCauchy(5.0))
    with numpyro.plate("schools", len(error)), numpyro.handlers.reparam(config={"worth": TransformReparam()}):
        worth = numpyro.sample(
            "worth", dist.TransformedDistribution(dist.Normal(0.0, 1.0), dist.transforms.AffineTransform(mean, spread))
        )
    numpyro.sample("seen", dist.Normal(worth, error), obs=effect)


if __name__ == "__main__":
    sampler = MCMC(NUTS(model), num_warmup=500, num_samples=1000, progress_bar=False)
    sampler.run(jax.random.key(0), ERROR, effect=EFFECT)
    draws = sampler.get_samples()
    for name in ("mean", "spread"):
        print(f"{name}: {draws[name].mean():.2f} (standard deviation {draws[name].std():.2f})")
    print("worth:", " ".join(f"{value:.1f}" for value in draws["worth"].mean(axis=0)))
