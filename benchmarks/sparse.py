"""Sparse Jacobians and Hessians against dense ones: what coloring saves.

    python benchmarks/sparse.py

Each row is a compiled function; the ratio is how many times longer the dense one takes. The pattern is found and colored once,
when the function is compiled; what that costs is printed by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from timing import race

import pullback as pb
import pullback.numpy as pnp
from pullback.sparse.derivatives import _hessian_plan, _jacobian_plan


def tridiagonal(x: Any) -> Any:
    y = pnp.pad(x, 1)
    return y[2:] - 2.0 * y[1:-1] + y[:-2] + pnp.sin(x)


def stencil(u: Any) -> Any:
    p = pnp.pad(u, 1)
    return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4.0 * u + u**3


def chain(x: Any) -> Any:
    return pnp.sum((x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def jacobians(name: str, function: Callable[[Any], Any], x: Any, at_least: float | None = None) -> None:
    sparse, dense = pb.jit(pb.sparse.jacobian(function)), pb.jit(pb.jacfwd(function))
    race(name, {"sparse": lambda: np.asarray(sparse(x).data), "dense": lambda: np.asarray(dense(x))}, at_least)


def hessians(name: str, function: Callable[[Any], Any], x: Any, at_least: float | None = None) -> None:
    sparse, dense = pb.jit(pb.sparse.hessian(function)), pb.jit(pb.hessian(function))
    race(name, {"sparse": lambda: np.asarray(sparse(x).data), "dense": lambda: np.asarray(dense(x))}, at_least)


def seconds(make: Callable[[], Any]) -> float:
    start = time.perf_counter()
    make()
    return time.perf_counter() - start


def main() -> None:
    rng = np.random.default_rng(0)
    x = pnp.asarray(rng.normal(size=1000))
    u = pnp.asarray(rng.normal(size=(30, 30)))
    jacobians("jacobian, tridiagonal, n = 1000", tridiagonal, x, at_least=20.0)
    jacobians("jacobian, five-point stencil, n = 900", stencil, u, at_least=5.0)
    hessians("hessian, chain, n = 1000", chain, x, at_least=20.0)
    for n in (1000, 10_000, 100_000):
        point = np.zeros(n)
        found = seconds(lambda point=point: pb.sparse.jacobian_pattern(tridiagonal, point))
        pattern = pb.sparse.jacobian_pattern(tridiagonal, point)
        colored = seconds(lambda pattern=pattern: _jacobian_plan(pattern, None))
        symmetric = pb.sparse.hessian_pattern(chain, point)
        star = seconds(lambda symmetric=symmetric: _hessian_plan(symmetric))
        print(f"n = {n}: pattern {found * 1e3:.1f} ms, coloring {colored * 1e3:.1f} ms, star coloring {star * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
