"""Eager work: single operations, and the transformations un-jitted, against JAX (and autograd, MLX where installed).

    python benchmarks/eager.py

Prints for each row the minimum and median time, and the ratio of each peer's to ours.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
from timing import race

import pullback as pb
import pullback.numpy as pnp

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    raise SystemExit("This benchmark compares with jax: pip install jax") from None

host = np.linspace(0.1, 1.0, 4, dtype=np.float32)
ours, theirs = pnp.asarray(host), jnp.asarray(host)
batch, their_batch = pnp.asarray(np.tile(host, (3, 1))), jnp.asarray(np.tile(host, (3, 1)))


def ready(function: Callable[[], Any]) -> Callable[[], Any]:
    """A JAX call that is finished when it returns."""
    return lambda: jax.block_until_ready(function())


def small(numpy: Any) -> Callable[[Any], Any]:
    return lambda x: numpy.sum(numpy.sin(x) * 2 + 1)


def chain(numpy: Any) -> Callable[[Any], Any]:
    """80 operations on 4 elements, then a sum."""

    def function(x: Any) -> Any:
        for _ in range(40):
            x = numpy.sin(x)
            x = x * 1.01
        return numpy.sum(x)

    return function


def total_gradient(grad: Callable[[Any], Any], numpy: Any) -> Callable[[Any], Any]:
    return lambda x: numpy.sum(grad(chain(numpy))(x))


def peers(make: Callable[[Any, Any], Callable[[], Any]]) -> dict[str, Callable[[], Any]]:
    """The same program in the other eager libraries that are installed."""
    found: dict[str, Callable[[], Any]] = {}
    if importlib.util.find_spec("autograd"):
        autograd = __import__("autograd")
        numpy = importlib.import_module("autograd.numpy")
        found["autograd"] = make(autograd.grad, numpy)
    if importlib.util.find_spec("mlx"):
        mlx = importlib.import_module("mlx.core")
        call = make(mlx.grad, mlx)

        def evaluated() -> Any:
            out = call()
            mlx.eval(out)
            return out

        found["mlx"] = evaluated
    return found


def on(numpy: Any) -> Any:
    return numpy.array(host)


def main() -> None:
    print("eager operations on 4 float32")
    race("x + x", {"pullback": lambda: ours + ours, "jax": ready(lambda: theirs + theirs)}, at_least=5)
    race("x * 2.0", {"pullback": lambda: ours * 2.0, "jax": ready(lambda: theirs * 2.0)}, at_least=5)
    race("sin(x)", {"pullback": lambda: pnp.sin(ours), "jax": ready(lambda: jnp.sin(theirs))}, at_least=3)

    print("transformations of sum(sin(x) * 2 + 1), eager")
    f, g = small(pnp), small(jnp)
    grad, their_grad = pb.grad(f), jax.grad(g)
    race("grad", {"pullback": lambda: grad(ours), "jax": ready(lambda: their_grad(theirs))}, at_least=15)
    race(
        "jvp",
        {"pullback": lambda: pb.jvp(f, (ours,), (ours,)), "jax": ready(lambda: jax.jvp(g, (theirs,), (theirs,)))},
        at_least=15,
    )
    mapped, their_mapped = pb.vmap(f), jax.vmap(g)
    race("vmap", {"pullback": lambda: mapped(batch), "jax": ready(lambda: their_mapped(their_batch))}, at_least=15)

    print("a chain of 80 operations, eager")
    grad, their_grad = pb.grad(chain(pnp)), jax.grad(chain(jnp))
    others = peers(lambda grad, numpy: functools.partial(grad(chain(numpy)), on(numpy)))
    race("grad", {"pullback": lambda: grad(ours), "jax": ready(lambda: their_grad(theirs)), **others}, at_least=30)
    twice, their_twice = pb.grad(total_gradient(pb.grad, pnp)), jax.grad(total_gradient(jax.grad, jnp))
    others = peers(lambda grad, numpy: functools.partial(grad(total_gradient(grad, numpy)), on(numpy)))
    race("grad of grad", {"pullback": lambda: twice(ours), "jax": ready(lambda: their_twice(theirs)), **others}, at_least=40)


if __name__ == "__main__":
    main()
