"""Loops next to JAX's: the same programs in both libraries, in one process, taking turns.

    python benchmarks/loops.py [word ...]

Only the rows whose names contain one of the words. Every row shows the time of a call, and how many times longer JAX takes, by
the least and the median ratio of the rounds (our calls return when the results are there), with the ratio that the project
promises; `first` rows are tracing, compilation and the first call together, without the disk cache. Needs jax, which nothing
else does.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ.setdefault("PULLBACK_CACHE_DIR", "")

import jax
import jax.numpy as jnp
import numpy as np
from timing import race, report

import pullback as pb
import pullback.numpy as pnp

jax.config.update("jax_enable_x64", True)
FIRST_ROUNDS = 5


class Library(NamedTuple):
    """What the programs use of a library."""

    np: Any
    lax: Any
    grad: Any
    vmap: Any
    jit: Any


OURS = Library(pb.numpy, pb.lax, pb.grad, pb.vmap, pb.jit)
JAX = Library(jnp, jax.lax, jax.grad, jax.vmap, jax.jit)
rng = np.random.default_rng(0)
Program = Callable[..., Any]


# ---- programs -----------------------------------------------------------------------------------------------------------


def inverse(np: Any, a: Any, n: int) -> Any:
    """The inverse of a small positive definite matrix by Gauss and Jordan, without pivots, row by row."""
    rows = [np.concatenate([a[i], np.eye(n, dtype=a.dtype)[i]]) for i in range(n)]
    for i in range(n):
        rows[i] = rows[i] / rows[i][i]
        rows = [row if j == i else row - row[i] * rows[i] for j, row in enumerate(rows)]
    return np.stack(rows)[:, n:]


def kalman(lib: Library, steps: int = 1000) -> Program:
    """A filter with four states and four observations."""

    def filtered(F: Any, H: Any, Q: Any, R: Any, zs: Any) -> Any:
        np = lib.np

        def step(carry: Any, z: Any) -> tuple[Any, Any]:
            x, P = carry
            x, P = F @ x, F @ P @ F.T + Q
            K = P @ H.T @ inverse(np, H @ P @ H.T + R, 4)
            x = x + K @ (z - H @ x)
            return (x, P - K @ H @ P), x

        start = np.zeros(4, F.dtype), np.eye(4, dtype=F.dtype)
        return lib.np.sum(lib.lax.scan(step, start, zs)[1] ** 2)

    return filtered


def kalman_args(dtype: str, steps: int = 1000) -> tuple[Any, ...]:
    F = np.eye(4) * 0.95 + 0.02 * rng.normal(size=(4, 4))
    return tuple(x.astype(dtype) for x in (F, np.eye(4), 0.1 * np.eye(4), 0.5 * np.eye(4), rng.normal(size=(steps, 4))))


def lorenz(lib: Library, steps: int) -> Program:
    def velocity(s: Any, p: Any) -> Any:
        x, y, z = s
        return p[0] * (y - x), x * (p[1] - z) - y, x * y - p[2] * z

    def along(s: Any, k: Any, h: float) -> Any:
        return tuple(a + h * b for a, b in zip(s, k))

    def final(state: Any, p: Any) -> Any:
        def step(s: Any, _: Any) -> tuple[Any, None]:
            h = 0.005
            k1 = velocity(s, p)
            k2 = velocity(along(s, k1, h / 2), p)
            k3 = velocity(along(s, k2, h / 2), p)
            k4 = velocity(along(s, k3, h), p)
            return tuple(a + h / 6 * (b + 2.0 * c + 2.0 * d + e) for a, b, c, d, e in zip(s, k1, k2, k3, k4)), None

        s, _ = lib.lax.scan(step, (state[0], state[1], state[2]), None, length=steps)
        return s[0] + s[1] * 0.5 - s[2]

    return final


def lorenz_args(dtype: str) -> tuple[Any, ...]:
    return np.array([1.0, 1.0, 1.0], dtype), np.array([10.0, 28.0, 8.0 / 3.0], dtype)


def lstm(lib: Library) -> Program:
    def run(w: Any, u: Any, b: Any, xs: Any) -> Any:
        np, n = lib.np, u.shape[0]

        def step(carry: Any, x: Any) -> tuple[Any, Any]:
            h, c = carry
            gates = x @ w + h @ u + b
            i, f, g, o = (gates[k * n : (k + 1) * n] for k in range(4))
            sigmoid = lambda v: 1.0 / (1.0 + np.exp(-v))  # noqa: E731
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            return (h, c), h

        zero = np.zeros(n, u.dtype)
        return lib.np.sum(lib.lax.scan(step, (zero, zero), xs)[1] ** 2)

    return run


def lstm_args(dtype: str, n: int = 32, steps: int = 200) -> tuple[Any, ...]:
    shapes = (n, 4 * n), (n, 4 * n), (4 * n,), (steps, n)
    return tuple((rng.normal(size=shape) * 0.2).astype(dtype) for shape in shapes)


def gru(lib: Library) -> Program:
    def run(w: Any, u: Any, v: Any, xs: Any) -> Any:
        np, n = lib.np, u.shape[0]
        sigmoid = lambda v: 1.0 / (1.0 + np.exp(-v))  # noqa: E731

        def step(h: Any, x: Any) -> tuple[Any, None]:
            gates = x @ w
            update, reset = (sigmoid(gates[:, k * n : (k + 1) * n] + (h @ u)[:, k * n : (k + 1) * n]) for k in range(2))
            candidate = np.tanh(gates[:, 2 * n :] + (reset * h) @ v)
            return (1.0 - update) * h + update * candidate, None

        h, _ = lib.lax.scan(step, np.zeros((xs.shape[1], n), u.dtype), xs)
        return np.sum(h * h)

    return run


def gru_args(dtype: str, n: int = 128, batch: int = 32, steps: int = 50) -> tuple[Any, ...]:
    shapes = (n, 3 * n), (n, 2 * n), (n, n), (steps, batch, n)
    return tuple((rng.normal(size=shape) * 0.1).astype(dtype) for shape in shapes)


def newton(lib: Library) -> Program:
    """Newton's method for a root of x^3 - a, halving the step until the residual falls."""

    def root(a: Any) -> Any:
        def residual(x: Any) -> Any:
            return x * x * x - a

        def step(state: Any) -> Any:
            x, n = state
            full = residual(x) / (3.0 * x * x + 1e-3)
            before = abs(residual(x))
            size = lib.lax.while_loop(
                lambda t: (abs(residual(x - t * full)) > before) & (t > 1e-6), lambda t: t * 0.5, a * 0 + 1.0
            )
            return x - size * full, n + 1

        x, _ = lib.lax.while_loop(lambda s: (abs(residual(s[0])) > 1e-5) & (s[1] < 50), step, (a * 0 + 0.1, 0))
        return x

    return root


def mandelbrot(lib: Library) -> Program:
    def escape(cx: Any, cy: Any) -> Any:
        def step(state: Any) -> Any:
            x, y, n = state
            return x * x - y * y + cx, 2.0 * x * y + cy, n + 1

        def inside(state: Any) -> Any:
            return (state[0] * state[0] + state[1] * state[1] < 4.0) & (state[2] < 50)

        return lib.lax.while_loop(inside, step, (cx * 0, cy * 0, 0))[2]

    over_rows = lib.vmap(escape, in_axes=(0, None))
    return lib.vmap(over_rows, in_axes=(None, 0))


def mandelbrot_args() -> tuple[Any, ...]:
    return np.linspace(-2, 1, 512).astype("float32"), np.linspace(-1.5, 1.5, 512).astype("float32")


def scalars(lib: Library, count: int = 40, steps: int = 1000) -> Program:
    """A chain of oscillators, each a number of its own in the carry."""

    def run(x: Any) -> Any:
        def step(c: Any, _: Any) -> tuple[Any, None]:
            return tuple(c[i] * 0.99 + 0.01 * lib.np.sin(c[i - 1]) for i in range(count)), None

        c, _ = lib.lax.scan(step, tuple(x[i] for i in range(count)), None, length=steps)
        return sum(c)

    return run


def gradient(program: Callable[[Library], Program]) -> Callable[[Library], Program]:
    return lambda lib: lib.grad(program(lib))


ROWS: list[tuple[str, Callable[[Library], Program], tuple[Any, ...], float]] = [
    ("kalman f32", kalman, kalman_args("float32"), 20),
    ("kalman f64", kalman, kalman_args("float64"), 12),
    ("kalman gradient f32", gradient(kalman), kalman_args("float32"), 20),
    ("lorenz 10000 f32", lambda lib: lorenz(lib, 10000), lorenz_args("float32"), 1.0),
    ("lorenz gradient 1000 f32", gradient(lambda lib: lorenz(lib, 1000)), lorenz_args("float32"), 1.0),
    ("lorenz gradient 1000 f64", gradient(lambda lib: lorenz(lib, 1000)), lorenz_args("float64"), 8),
    ("lstm f32", lstm, lstm_args("float32"), 1.5),
    ("lstm gradient f32", gradient(lstm), lstm_args("float32"), 1.5),
    ("lstm gradient f64", gradient(lstm), lstm_args("float64"), 1.3),
    ("gru 128x32 gradient f32", gradient(gru), gru_args("float32"), 1.0),
    ("newton, nested while", newton, (np.float32(7.0),), 1.0),
    ("mandelbrot 512", mandelbrot, mandelbrot_args(), 1.0),
    ("40 scalars gradient", gradient(scalars), (np.linspace(0, 1, 40).astype("float32"),), 10),
]


def main(words: list[str]) -> None:
    for name, program, args, at_least in ROWS:
        if words and not any(word in name for word in words):
            continue
        ours, theirs = pb.jit(program(OURS)), jax.jit(program(JAX))
        our_args, their_args = [pnp.asarray(x) for x in args], [jnp.asarray(x) for x in args]
        a, b = np.asarray(ours(*our_args)), np.asarray(theirs(*their_args))
        close = np.isclose(a, b, rtol=2e-3, atol=2e-3)  # iteration counts may differ in a few places, by rounding
        assert close.mean() > 0.999, f"{name}: the libraries do not agree"
        race(name, {"pullback": lambda: ours(*our_args), "jax": lambda: theirs(*their_args).block_until_ready()}, at_least)
        first(name, program, our_args, their_args)


def first(name: str, program: Callable[[Library], Program], our_args: list[Any], their_args: list[Any]) -> None:
    """Tracing, compilation and the first call."""
    times: dict[str, list[float]] = {"pullback": [], "jax": []}
    for _ in range(FIRST_ROUNDS):
        for label, lib, args in (("pullback", OURS, our_args), ("jax", JAX, their_args)):
            jax.clear_caches()
            pb.clear_caches() if hasattr(pb, "clear_caches") else None
            start = time.perf_counter()
            np.asarray(lib.jit(program(lib))(*args))
            times[label].append(time.perf_counter() - start)
    report(f"{name}, first", times, 1.3)


if __name__ == "__main__":
    main(sys.argv[1:])
