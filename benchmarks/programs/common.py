"""What the programs here share: data, and the loop that times them."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

KEY = jax.random.key(0)
X = jax.random.normal(KEY, (64, 32))
Y = jnp.sin(X[:, :1])


def measure(call: Callable[[], Any]) -> None:
    """Print the seconds of a first call; then, for each number on standard input, those of a call, on average over so many."""
    start = time.perf_counter()
    jax.block_until_ready(call())
    print(time.perf_counter() - start, flush=True)
    for line in sys.stdin:
        gc.collect()
        start = time.perf_counter()
        for _ in range(int(line)):
            out = call()
        jax.block_until_ready(out)
        print((time.perf_counter() - start) / int(line), flush=True)
