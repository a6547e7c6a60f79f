"""Many devices next to JAX's, in one process and interleaved: steps of training, dispatch, moving arrays.

    python benchmarks/sharded.py [word ...]

The CPU is divided into eight devices for both. A line shows the least and the median time of each, and how many times faster
pullback is. Needs jax, which nothing else does.
"""

from __future__ import annotations

import os
import sys

os.environ["PULLBACK_CPU_DEVICES"] = "8"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from timing import race

import pullback as pb
import pullback.numpy as pnp

DEVICES = 8


def step(np, derive, tree_map):
    def loss(weights, x):
        return np.mean((np.tanh(x @ weights[0]) @ weights[1] - x) ** 2)

    def run(weights, x):
        value, gradient = derive(loss)(weights, x)
        return value, tree_map(lambda w, g: w - 0.1 * g, weights, gradient)

    return run


OURS = step(pnp, pb.value_and_grad, pb.tree.map)
THEIRS = step(jnp, jax.value_and_grad, jax.tree.map)
RNG = np.random.default_rng(0)


def placed(count, spec):
    """The same sharding over the first devices of both."""
    theirs = jax.sharding.Mesh(np.array(jax.devices()[:count]), ("data",))
    ours = pb.make_mesh((count,), ("data",))
    return pb.NamedSharding(ours, pb.P(*spec)), jax.sharding.NamedSharding(theirs, jax.sharding.PartitionSpec(*spec))


def steps():
    for batch, inner, outer, called in ((64, 32, 64, "small"), (1024, 256, 512, "large")):
        x = RNG.normal(size=(batch, inner)).astype("f4")
        weights = [RNG.normal(size=shape).astype("f4") / 16 for shape in ((inner, outer), (outer, inner))]
        for count in (1, 2, 4, 8):
            (rows, their_rows), (whole, their_whole) = placed(count, ("data",)), placed(count, ())
            own = pb.jit(OURS), pb.device_put(tuple(weights), whole), pb.device_put(x, rows)
            their = jax.jit(THEIRS), jax.device_put(tuple(weights), their_whole), jax.device_put(x, their_rows)
            yield (
                f"data-parallel step, {called}, {count} devices",
                lambda own=own: pb.block_until_ready(own[0](*own[1:])),
                lambda their=their: jax.block_until_ready(their[0](*their[1:])),
            )


def dispatch():
    for number in (1, 20):
        (rows, their_rows) = placed(DEVICES, ("data",))
        own = [pb.device_put(np.ones(8, "f4"), rows) for _ in range(number)]
        their = [jax.device_put(np.ones(8, "f4"), their_rows) for _ in range(number)]
        f, g = pb.jit(lambda *xs: [x + 1.0 for x in xs]), jax.jit(lambda *xs: [x + 1.0 for x in xs])
        yield (
            f"call with {number} arrays on {DEVICES} devices",
            lambda f=f, own=own: pb.block_until_ready(f(*own)),
            lambda g=g, their=their: jax.block_until_ready(g(*their)),
        )


def moves():
    host = np.zeros((4096, 4096), "f4")
    (rows, their_rows), (columns, their_columns) = placed(DEVICES, ("data",)), placed(DEVICES, (None, "data"))
    own, their = pnp.asarray(host), jnp.asarray(host)
    yield (
        "64 MB from one device into rows",
        lambda: pb.block_until_ready(pb.device_put(own, rows)),
        lambda: jax.block_until_ready(jax.device_put(their, their_rows)),
    )
    yield (
        "64 MB of NumPy's into rows",
        lambda: pb.block_until_ready(pb.device_put(host, rows)),
        lambda: jax.block_until_ready(jax.device_put(host, their_rows)),
    )
    a, b = pb.device_put(own, rows), jax.device_put(their, their_rows)
    yield (
        "64 MB from rows into columns",
        lambda: pb.block_until_ready(pb.device_put(a, columns)),
        lambda: jax.block_until_ready(jax.device_put(b, their_columns)),
    )
    yield "64 MB from rows to NumPy", lambda: np.array(a), lambda: np.array(jax.device_put(b, their_rows, may_alias=False))


def main(words: list[str]) -> None:
    for group in (dispatch, moves, steps):
        for name, ours, theirs in group():
            if not words or any(word in name for word in words):
                for run in (ours, theirs) * 3:
                    run()
                race(name, {"pullback": ours, "jax": theirs}, at_least=1.0)


if __name__ == "__main__":
    main(sys.argv[1:])
