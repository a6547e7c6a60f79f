"""Small programs and loops, each written once for every library: what `native.py` times and `tests/native` checks.

A workload is made for a `Library` and a size, and takes NumPy arrays of one dtype, drawn from the same random numbers always.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Program = Callable[..., Any]
F32, F64 = "float32", "float64"


class Library(NamedTuple):
    """What the programs use of a library."""

    np: Any
    lax: Any
    grad: Any
    vmap: Any
    jit: Any
    erf: Any
    sort: Any
    convolve: Any


def like_jax(library: Any, np: Any) -> Library:
    """JAX, or a library that has JAX's names, with its module of NumPy's functions."""

    def convolve(x: Any, kernel: Any) -> Any:
        return library.lax.conv_general_dilated(x, kernel, (1, 1), "SAME")

    return Library(np, library.lax, library.grad, library.vmap, library.jit, library.scipy.special.erf, np.sort, convolve)


class PythonLoops:
    """The loops of `lax` in Python: for libraries that have none, and as a truth for those that have."""

    def __init__(self, np: Any) -> None:
        self.np = np

    def scan(self, step: Program, carry: Any, xs: Any, length: int | None = None) -> tuple[Any, Any]:
        rows: Any = [None] * length if length is not None else xs
        seen = []
        for row in rows:
            carry, y = step(carry, row)
            seen.append(y)
        return carry, None if seen[0] is None else self.np.stack(seen)

    def while_loop(self, condition: Program, step: Program, state: Any) -> Any:
        while condition(state):
            state = step(state)
        return state


class Workload(NamedTuple):
    """A program and its arguments.

    Fields:
        make: (library, size) -> the program.
        args: (generator, dtype, size) -> its arguments.
        size, small: for timing, and for tests.
        floors: how many times jax.jit's time we promise to take at most, in float32 and float64; None where it is not run.
        torch: whether PyTorch can run it, loops being Python's, in less than a second.
    """

    make: Callable[[Library, int], Program]
    args: Callable[[np.random.Generator, str, int], tuple[Any, ...]]
    size: int
    small: int
    floors: tuple[float | None, float | None]
    torch: bool = True

    def arguments(self, dtype: str, size: int) -> tuple[Any, ...]:
        return self.args(np.random.default_rng(0), dtype, size)


def sigmoid(np: Any, x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def normal(rng: np.random.Generator, dtype: str, *shape: int, scale: float = 1.0) -> Any:
    return (rng.normal(size=shape) * scale).astype(dtype)


# ---- loops ----------------------------------------------------------------------------------------------------------------


def inverse(np: Any, a: Any, n: int) -> Any:
    """The inverse of a small positive definite matrix by Gauss and Jordan, without pivots, row by row."""
    rows = [np.concatenate([a[i], np.eye(n, dtype=a.dtype)[i]]) for i in range(n)]
    for i in range(n):
        rows[i] = rows[i] / rows[i][i]
        rows = [row if j == i else row - row[i] * rows[i] for j, row in enumerate(rows)]
    return np.stack(rows)[:, n:]


def kalman(lib: Library, steps: int) -> Program:
    """A filter with four states and four observations."""
    np = lib.np

    def filtered(F: Any, H: Any, Q: Any, R: Any, zs: Any) -> Any:
        def step(carry: Any, z: Any) -> tuple[Any, Any]:
            x, P = carry
            x, P = F @ x, F @ P @ F.T + Q
            K = P @ H.T @ inverse(np, H @ P @ H.T + R, 4)
            x = x + K @ (z - H @ x)
            return (x, P - K @ H @ P), x

        start = np.zeros(4, dtype=F.dtype), np.eye(4, dtype=F.dtype)
        return np.sum(lib.lax.scan(step, start, zs)[1] ** 2)

    return filtered


def kalman_args(rng: np.random.Generator, dtype: str, steps: int) -> tuple[Any, ...]:
    F = np.eye(4) * 0.95 + 0.02 * rng.normal(size=(4, 4))
    return tuple(x.astype(dtype) for x in (F, np.eye(4), 0.1 * np.eye(4), 0.5 * np.eye(4), rng.normal(size=(steps, 4))))


def lorenz(lib: Library, steps: int) -> Program:
    """Lorenz's equations by Runge and Kutta's method of fourth order."""

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


def lorenz_args(rng: np.random.Generator, dtype: str, steps: int) -> tuple[Any, ...]:
    """Below the onset of chaos, where errors of rounding do not grow: so results can be compared."""
    return np.array([1.0, 1.0, 1.0], dtype), np.array([10.0, 14.0, 8.0 / 3.0], dtype)


def lstm(lib: Library, steps: int) -> Program:
    def run(w: Any, u: Any, b: Any, xs: Any) -> Any:
        np, n = lib.np, u.shape[0]

        def step(carry: Any, x: Any) -> tuple[Any, Any]:
            h, c = carry
            gates = x @ w + h @ u + b
            i, f, g, o = (gates[k * n : (k + 1) * n] for k in range(4))
            c = sigmoid(np, f) * c + sigmoid(np, i) * np.tanh(g)
            h = sigmoid(np, o) * np.tanh(c)
            return (h, c), h

        zero = np.zeros(n, dtype=u.dtype)
        return np.sum(lib.lax.scan(step, (zero, zero), xs)[1] ** 2)

    return run


def lstm_args(rng: np.random.Generator, dtype: str, steps: int, n: int = 32) -> tuple[Any, ...]:
    return tuple(normal(rng, dtype, *shape, scale=0.2) for shape in ((n, 4 * n), (n, 4 * n), (4 * n,), (steps, n)))


def gru(lib: Library, steps: int) -> Program:
    def run(w: Any, u: Any, v: Any, xs: Any) -> Any:
        np, n = lib.np, u.shape[0]

        def step(h: Any, x: Any) -> tuple[Any, None]:
            gates, turned = x @ w, h @ u
            update, reset = (sigmoid(np, (gates[:, : 2 * n] + turned)[:, k * n : (k + 1) * n]) for k in range(2))
            candidate = np.tanh(gates[:, 2 * n :] + (reset * h) @ v)
            return (1.0 - update) * h + update * candidate, None

        h, _ = lib.lax.scan(step, np.zeros((xs.shape[1], n), dtype=u.dtype), xs)
        return np.sum(h * h)

    return run


def gru_args(rng: np.random.Generator, dtype: str, steps: int, n: int = 128, batch: int = 32) -> tuple[Any, ...]:
    return tuple(normal(rng, dtype, *shape, scale=0.1) for shape in ((n, 3 * n), (n, 2 * n), (n, n), (steps, batch, n)))


def oscillators(lib: Library, steps: int) -> Program:
    """A chain of them, each a number of its own in the carry."""

    def run(x: Any) -> Any:
        def step(c: Any, _: Any) -> tuple[Any, None]:
            return tuple(c[i] * 0.99 + 0.01 * lib.np.sin(c[i - 1]) for i in range(len(c))), None

        c, _ = lib.lax.scan(step, tuple(x[i] for i in range(x.shape[0])), None, length=steps)
        return sum(c)

    return run


def newton(lib: Library, _: int) -> Program:
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


def mandelbrot(lib: Library, _: int) -> Program:
    def escape(cx: Any, cy: Any) -> Any:
        def step(state: Any) -> Any:
            x, y, n = state
            return x * x - y * y + cx, 2.0 * x * y + cy, n + 1

        def inside(state: Any) -> Any:
            return (state[0] * state[0] + state[1] * state[1] < 4.0) & (state[2] < 50)

        return lib.lax.while_loop(inside, step, (cx * 0, cy * 0, 0))[2]

    return lib.vmap(lib.vmap(escape, in_axes=(0, None)), in_axes=(None, 0))


def mandelbrot_args(rng: np.random.Generator, dtype: str, n: int) -> tuple[Any, ...]:
    return np.linspace(-2, 1, n).astype(dtype), np.linspace(-1.5, 1.5, n).astype(dtype)


# ---- elementwise work, sums, networks ----------------------------------------------------------------------------------------


def black_scholes(lib: Library, _: int) -> Program:
    """The prices of European calls: spot, strike and time are arrays, the rate and the volatility numbers."""
    np = lib.np

    def cumulative(x: Any) -> Any:
        return 0.5 * (1.0 + lib.erf(x * 0.7071067811865476))

    def prices(spot: Any, strike: Any, time: Any, rate: Any, volatility: Any) -> Any:
        spread = volatility * np.sqrt(time)
        d1 = (np.log(spot / strike) + (rate + 0.5 * volatility * volatility) * time) / spread
        return spot * cumulative(d1) - strike * np.exp(-rate * time) * cumulative(d1 - spread)

    return prices


def black_scholes_gradient(lib: Library, n: int) -> Program:
    """Of the sum of all prices, with respect to every argument."""
    prices = black_scholes(lib, n)
    return lib.grad(lambda *args: lib.np.sum(prices(*args)), tuple(range(5)))


def black_scholes_args(rng: np.random.Generator, dtype: str, n: int) -> tuple[Any, ...]:
    spot, strike, time = 50 + 100 * rng.random(n), 50 + 100 * rng.random(n), 0.1 + 2 * rng.random(n)
    return tuple(np.asarray(x, dtype) for x in (spot, strike, time, 0.02, 0.3))


def nbody(lib: Library, _: int) -> Program:
    """The accelerations of bodies that attract each other, all pairs."""
    np = lib.np

    def accelerations(x: Any, mass: Any) -> Any:
        apart = x[None, :, :] - x[:, None, :]
        square = np.sum(apart * apart, axis=-1) + 1e-3
        return np.sum(apart * (mass[None, :] * square**-1.5)[:, :, None], axis=1)

    return accelerations


def nbody_args(rng: np.random.Generator, dtype: str, n: int) -> tuple[Any, ...]:
    return normal(rng, dtype, n, 3), rng.random(n).astype(dtype) / np.asarray(n, dtype)


def network(np: Any) -> Program:
    """The loss of a network with two hidden layers for one batch element, or a batch of them."""

    def loss(w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, x: Any, y: Any) -> Any:
        return np.sum((np.tanh(np.tanh(x @ w1 + b1) @ w2 + b2) @ w3 - y) ** 2)

    return loss


WEIGHTS = (0, 1, 2, 3, 4)


def network_gradient(lib: Library, _: int) -> Program:
    return lib.grad(network(lib.np), WEIGHTS)


def per_example_gradients(lib: Library, _: int) -> Program:
    return lib.vmap(lib.grad(network(lib.np), WEIGHTS), in_axes=(None,) * 5 + (0, 0))


def network_args(rng: np.random.Generator, dtype: str, batch: int) -> tuple[Any, ...]:
    shapes = (8, 16), (16,), (16, 16), (16,), (16, 4), (batch, 8), (batch, 4)
    return tuple(normal(rng, dtype, *shape, scale=0.5) for shape in shapes)


def layernorm(lib: Library, _: int) -> Program:
    np = lib.np

    def normalized(x: Any, scale: Any, shift: Any) -> Any:
        centred = x - np.mean(x, axis=-1, keepdims=True)
        return centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + 1e-5) * scale + shift

    return normalized


def softmax(lib: Library, _: int) -> Program:
    np = lib.np

    def weights(x: Any) -> Any:
        powers = np.exp(x - np.amax(x, axis=-1, keepdims=True))
        return powers / np.sum(powers, axis=-1, keepdims=True)

    return weights


def logistic_regression(lib: Library, _: int) -> Program:
    """The gradient of the mean log-likelihood, for labels -1 and 1."""
    np = lib.np
    return lib.grad(lambda w, b, x, y: np.mean(np.log1p(np.exp(-y * (x @ w + b)))), (0, 1))


def logistic_regression_args(rng: np.random.Generator, dtype: str, rows: int) -> tuple[Any, ...]:
    x = normal(rng, dtype, rows, 64)
    return normal(rng, dtype, 64, scale=0.1), np.zeros((), dtype), x, np.sign(normal(rng, dtype, rows))


def convolution(lib: Library, _: int) -> Program:
    return lib.convolve


# ---- the table ------------------------------------------------------------------------------------------------------------


def gradient(make: Callable[[Library, int], Program], argnums: Any = 0) -> Callable[[Library, int], Program]:
    return lambda lib, size: lib.grad(make(lib, size), argnums)


def rows_of_256(rng: np.random.Generator, dtype: str, n: int) -> tuple[Any, ...]:
    return (normal(rng, dtype, n, 256),)


def one_vector(rng: np.random.Generator, dtype: str, n: int) -> tuple[Any, ...]:
    return (normal(rng, dtype, n),)


WORKLOADS: dict[str, Workload] = {
    "x + 1": Workload(lambda lib, _: lambda x: x + 1.0, one_vector, 8, 8, (30, 30)),
    "kalman": Workload(kalman, kalman_args, 1000, 5, (60, 40)),
    "kalman gradient": Workload(gradient(kalman), kalman_args, 1000, 5, (60, 60), torch=False),
    "lorenz": Workload(lorenz, lorenz_args, 10000, 7, (1.5, 1.5), torch=False),
    "lorenz gradient": Workload(gradient(lorenz, (0, 1)), lorenz_args, 1000, 7, (2, 35), torch=False),
    "lstm": Workload(lstm, lstm_args, 100, 5, (1.5, 1.5)),
    "lstm gradient": Workload(gradient(lstm, (0, 1, 2)), lstm_args, 100, 5, (3.5, 3)),
    "gru gradient": Workload(gradient(gru, (0, 1, 2)), gru_args, 50, 3, (1.0, None)),
    "40 oscillators gradient": Workload(
        gradient(oscillators), lambda rng, dtype, _: (np.linspace(0, 1, 40).astype(dtype),), 1000, 3, (10, None), torch=False
    ),
    "newton": Workload(newton, lambda rng, dtype, _: (np.asarray(7.0, dtype),), 1, 1, (12, 12), torch=False),
    "mandelbrot": Workload(mandelbrot, mandelbrot_args, 512, 9, (40, 40), torch=False),
    "black-scholes": Workload(black_scholes, black_scholes_args, 1_000_000, 37, (2, 5.5)),
    "black-scholes gradient": Workload(black_scholes_gradient, black_scholes_args, 1_000_000, 37, (7, 7)),
    "n-body": Workload(nbody, nbody_args, 1000, 13, (30, 30)),
    "per-example gradients": Workload(per_example_gradients, network_args, 64, 5, (2, 2)),
    "network gradient": Workload(network_gradient, network_args, 1, 1, (10, 10)),
    "layernorm": Workload(
        layernorm, lambda rng, dtype, n: (normal(rng, dtype, n, 256), *normal(rng, dtype, 2, 256)), 4096, 3, (1.2, 1.2)
    ),
    "softmax": Workload(softmax, rows_of_256, 4096, 3, (1.0, 1.0)),
    "logistic regression gradient": Workload(logistic_regression, logistic_regression_args, 4096, 11, (1.0, 1.0)),
    "sort": Workload(lambda lib, _: lib.sort, one_vector, 1_000_000, 50, (30, 30)),
    "cumsum": Workload(lambda lib, _: lambda x: lib.np.cumsum(x, axis=0), one_vector, 1_000_000, 50, (4, 4)),
    "matmul": Workload(lambda lib, _: lambda x: x @ x, lambda rng, dtype, n: (normal(rng, dtype, n, n),), 1024, 9, (1.0, 1.0)),
    "convolution": Workload(
        convolution,
        lambda rng, dtype, n: (normal(rng, dtype, n, 32, 56, 56), normal(rng, dtype, 32, 32, 3, 3)),
        8,
        1,
        (1.0, 1.0),
    ),
}
