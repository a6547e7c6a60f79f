"""jaxtyping: annotations of shapes and dtypes that are checked at run time, on arrays and on traced values."""

import json

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray, PyTree, Shaped

results = {}
x = jnp.ones((3, 4))
results["arrays"] = [
    float(isinstance(value, kind))
    for value, kind in (
        (x, Float[Array, "3 4"]),
        (x, Float[Array, "3 5"]),
        (x, Int[Array, "3 4"]),
        (x, Float[Array, "n n"]),
        (jnp.ones((4, 4)), Float[Array, "n n"]),
        (jnp.arange(3), Int[Array, "..."]),
        (x, Shaped[Array, "*batch 4"]),
        (jax.random.PRNGKey(0), PRNGKeyArray),
        (jax.random.key(0), PRNGKeyArray),
        (1.0, ArrayLike),
        ("text", ArrayLike),
        ({"a": x, "b": (x,)}, PyTree[Float[Array, "3 4"]]),
        ({"a": x, "b": (1,)}, PyTree[Float[Array, "3 4"]]),
        ([jnp.ones(2), jnp.ones(3)], PyTree[Float[Array, " ?n"], "T"]),
    )
]


@jax.jit
def traced(x):
    return 2.0 * isinstance(x, Float[Array, "3 4"]) + isinstance(x, Float[Array, "4 3"]) + x.sum() * 0


results["traced"] = [float(traced(x)), float(traced(x.T))]
results["vmapped"] = [float(jax.vmap(lambda row: isinstance(row, Float[Array, " 4"]) + 0 * row[0])(x)[0])]
print(json.dumps(results))
