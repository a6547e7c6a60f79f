"""Cost grows linearly: tracing, grad, and nestings four deep, over functions of 10 to 10000 equations.

    python benchmarks/growth.py

Prints microseconds per equation; a row that is linear stays level (or falls, while fixed costs wear off).
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import pullback as pb
import pullback.numpy as pnp

SIZES = (10, 100, 1000, 10000)


def chain(length: int) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        for i in range(length - 1):
            x = pnp.sin(x) if i % 2 else x * 1.01
        return pnp.sum(x)

    return function


def once(function: Callable[[], Any]) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best


def jvp_of(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: pb.jvp(f, (x,), (x,))[1]


def vjp_of(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: pnp.sum(pb.vjp(f, x)[1](pnp.ones((), x.dtype))[0])


def vmap_of(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: pnp.sum(pb.vmap(f)(pnp.stack([x, x])))


def main() -> None:
    x = pnp.asarray(np.linspace(0.1, 1.0, 4, dtype=np.float32))
    rows: dict[str, Callable[[Callable[[Any], Any]], Callable[[], Any]]] = {
        "trace": lambda f: lambda: pb.xpr(f, x),
        "eager grad": lambda f: lambda: pb.grad(f)(x),
        "trace grad": lambda f: lambda: pb.xpr(pb.grad(f), x),
        "grad of jit, traced": lambda f: lambda: pb.xpr(pb.grad(pb.jit(f)), x),
        "jvp vjp vmap jvp, eager": lambda f: lambda: jvp_of(vjp_of(vmap_of(jvp_of(f))))(x),
        "jvp vjp vmap jvp, traced": lambda f: lambda: pb.xpr(jvp_of(vjp_of(vmap_of(jvp_of(f)))), x),
        "vjp of vjp of vjp of vjp, traced": lambda f: lambda: pb.xpr(vjp_of(vjp_of(vjp_of(vjp_of(f)))), x),
        "print": lambda f: functools.partial(str, pb.xpr(f, x)),
    }
    print(f"{'microseconds per equation':34}" + "".join(f"{size:>10}" for size in SIZES))
    for name, make in rows.items():
        figures = [once(make(chain(size))) / size * 1e6 for size in SIZES]
        print(f"{name:34}" + "".join(f"{figure:10.2f}" for figure in figures), flush=True)


if __name__ == "__main__":
    main()
