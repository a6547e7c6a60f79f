"""Random numbers have no reference that returns the same ones: their tests are statistical, and against numbers of JAX's."""

from __future__ import annotations

from cases import Entry

KEYS = "PRNGKey checked_keys clone fold_in key key_data key_dtype key_impl prng_key split wrap_key_data"
DRAWS = """
    ball bernoulli beta binomial bits categorical cauchy chisquare choice dirichlet double_sided_maxwell exponential f gamma
    generalized_normal geometric gumbel laplace loggamma logistic lognormal maxwell multinomial multivariate_normal normal
    orthogonal pareto permutation poisson rademacher randint rayleigh t triangular truncated_normal uniform wald weibull_min
"""
INITIALIZERS = """
    Initializer constant delta_orthogonal glorot_normal glorot_uniform he_normal he_uniform kaiming_normal kaiming_uniform
    lecun_normal lecun_uniform normal ones orthogonal truncated_normal uniform variance_scaling xavier_normal xavier_uniform
    zeros
"""

TABLE: dict[str, Entry] = {}
ELSEWHERE = {
    "lax.rng_bit_generator": "tests/random/test_facts.py",
    "random.define_generator": "tests/random/test_defined.py",
    **{f"random.{name}": "tests/random/test_keys.py" for name in KEYS.split()},
    **{f"random.{name}": "tests/random/test_distributions.py" for name in DRAWS.split()},
    **{f"nn.initializers.{name}": "tests/nn/test_initializers.py" for name in INITIALIZERS.split()},
}
