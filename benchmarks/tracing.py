"""Tracing: how long it takes to make a Program, and to lower it, against JAX's jaxprs and lowering.

python benchmarks/tracing.py
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from eager import chain
from timing import race

import pullback as pb
import pullback.numpy as pnp

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    raise SystemExit("This benchmark compares with jax: pip install jax") from None

rng = np.random.default_rng(0)
WIDTHS = (64, 128, 128, 10)


def parameters() -> list[dict[str, np.ndarray[Any, Any]]]:
    return [
        {"w": rng.normal(size=(a, b)).astype(np.float32) / 8, "b": np.zeros(b, np.float32)}
        for a, b in itertools.pairwise(WIDTHS)
    ]


def training_step(numpy: Any, value_and_grad: Callable[[Any], Any], tree_map: Callable[..., Any]) -> Callable[..., Any]:
    """One step of gradient descent on a classifier of three layers."""

    def loss(params: Any, x: Any, y: Any) -> Any:
        for layer in params[:-1]:
            x = numpy.tanh(x @ layer["w"] + layer["b"])
        logits = x @ params[-1]["w"] + params[-1]["b"]
        shifted = logits - numpy.max(logits, axis=1, keepdims=True)
        log_probabilities = shifted - numpy.log(numpy.sum(numpy.exp(shifted), axis=1, keepdims=True))
        return -numpy.mean(numpy.sum(log_probabilities * y, axis=1))

    def step(params: Any, x: Any, y: Any) -> Any:
        value, gradient = value_and_grad(loss)(params, x, y)
        return value, tree_map(lambda p, g: p - 0.1 * g, params, gradient)

    return step


def batch() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return rng.normal(size=(32, 64)).astype(np.float32), np.eye(10, dtype=np.float32)[rng.integers(0, 10, 32)]


def main() -> None:
    x, y = batch()
    params = parameters()
    our_x, their_x = pnp.asarray(x[0, :4]), jnp.asarray(x[0, :4])
    f, g = chain(pnp), chain(jnp)
    # make_jaxpr of a fresh function, since JAX remembers what it has traced
    race(
        "trace a chain of 80",
        {"pullback": lambda: pb.xpr(f, our_x), "jax": lambda: jax.make_jaxpr(lambda v: g(v))(their_x)},
        at_least=5,
    )
    race(
        "trace its gradient",
        {"pullback": lambda: pb.xpr(pb.grad(f), our_x), "jax": lambda: jax.make_jaxpr(jax.grad(lambda v: g(v)))(their_x)},
        at_least=8,
    )
    ours = training_step(pnp, pb.value_and_grad, pb.tree.map)
    theirs = training_step(jnp, jax.value_and_grad, jax.tree.map)
    race(
        "trace a training step",
        {"pullback": lambda: pb.xpr(ours, params, x, y), "jax": lambda: jax.make_jaxpr(lambda *a: theirs(*a))(params, x, y)},
        at_least=4,
    )
    race(
        "trace and lower it to StableHLO",
        {
            "pullback": lambda: pb.jit(ours).lower(params, x, y).as_text(),
            "jax": lambda: jax.jit(lambda *a: theirs(*a)).lower(params, x, y).as_text(),
        },
        at_least=4,
    )


if __name__ == "__main__":
    main()
