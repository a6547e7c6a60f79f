"""The workloads that Numba can run, as one would write them for it: loops over numbers, in threads where its `prange` helps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, prange


@njit
def add_one(x: Any) -> Any:
    return x + x.dtype.type(1.0)


@njit
def kalman(F: Any, H: Any, Q: Any, R: Any, zs: Any) -> Any:
    x, P, total = np.zeros(4, F.dtype), np.eye(4).astype(F.dtype), 0.0
    for z in zs:
        x, P = F @ x, F @ P @ F.T + Q
        K = P @ H.T @ np.linalg.inv(H @ P @ H.T + R)
        x = x + K @ (z - H @ x)
        P = P - K @ H @ P
        total += np.sum(x**2)
    return total


@njit
def lorenz(state: Any, p: Any, steps: int) -> Any:
    h = state.dtype.type(0.005)
    half, sixth, two = h / 2, h / 6, state.dtype.type(2.0)
    x, y, z = state
    for _ in range(steps):
        ax, ay, az = p[0] * (y - x), x * (p[1] - z) - y, x * y - p[2] * z
        u, v, w = x + half * ax, y + half * ay, z + half * az
        bx, by, bz = p[0] * (v - u), u * (p[1] - w) - v, u * v - p[2] * w
        u, v, w = x + half * bx, y + half * by, z + half * bz
        cx, cy, cz = p[0] * (v - u), u * (p[1] - w) - v, u * v - p[2] * w
        u, v, w = x + h * cx, y + h * cy, z + h * cz
        dx, dy, dz = p[0] * (v - u), u * (p[1] - w) - v, u * v - p[2] * w
        x += sixth * (ax + two * bx + two * cx + dx)
        y += sixth * (ay + two * by + two * cy + dy)
        z += sixth * (az + two * bz + two * cz + dz)
    return x + y * state.dtype.type(0.5) - z


@njit
def newton(a: Any) -> Any:
    x = 0.1
    for _ in range(50):
        residual = x * x * x - a
        if abs(residual) <= 1e-5:
            break
        full, t = residual / (3.0 * x * x + 1e-3), 1.0
        while abs((x - t * full) ** 3 - a) > abs(residual) and t > 1e-6:
            t *= 0.5
        x -= t * full
    return x


@njit(parallel=True)
def mandelbrot(xs: Any, ys: Any) -> Any:
    out, two, four = np.empty((len(ys), len(xs)), np.int32), xs.dtype.type(2.0), xs.dtype.type(4.0)
    for i in prange(len(ys)):
        for j in range(len(xs)):
            x, y, n = xs.dtype.type(0.0), xs.dtype.type(0.0), 0
            while x * x + y * y < four and n < 50:
                x, y, n = x * x - y * y + xs[j], two * x * y + ys[i], n + 1
            out[i, j] = n
    return out


@njit(parallel=True)
def black_scholes(spot: Any, strike: Any, time: Any, rate: Any, volatility: Any) -> Any:
    out = np.empty_like(spot)
    for i in prange(len(spot)):
        spread = volatility * math.sqrt(time[i])
        d1 = (math.log(spot[i] / strike[i]) + (rate + 0.5 * volatility * volatility) * time[i]) / spread
        first, second = (1.0 + math.erf(d1 * 0.7071067811865476)), (1.0 + math.erf((d1 - spread) * 0.7071067811865476))
        out[i] = 0.5 * (spot[i] * first - strike[i] * math.exp(-rate * time[i]) * second)
    return out


@njit(parallel=True)
def nbody(x: Any, mass: Any) -> Any:
    out, soft, one = np.zeros_like(x), x.dtype.type(1e-3), x.dtype.type(1.0)
    for i in prange(len(x)):
        for j in range(len(x)):
            a, b, c = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1], x[j, 2] - x[i, 2]
            square = a * a + b * b + c * c + soft
            weight = mass[j] * (one / (square * np.sqrt(square)))
            out[i, 0] += a * weight
            out[i, 1] += b * weight
            out[i, 2] += c * weight
    return out


@njit(parallel=True)
def layernorm(x: Any, scale: Any, shift: Any) -> Any:
    out = np.empty_like(x)
    for i in prange(len(x)):
        centred = x[i] - np.mean(x[i])
        out[i] = centred / np.sqrt(np.mean(centred * centred) + 1e-5) * scale + shift
    return out


@njit(parallel=True)
def softmax(x: Any) -> Any:
    out = np.empty_like(x)
    for i in prange(len(x)):
        powers = np.exp(x[i] - np.max(x[i]))
        out[i] = powers / np.sum(powers)
    return out


@njit
def cumsum(x: Any) -> Any:
    return np.cumsum(x)


@njit
def sort(x: Any) -> Any:
    return np.sort(x)


# Each takes the arguments of the workload of its name; the size comes last where it is none of an array's.
PROGRAMS: dict[str, Callable[[int], Callable[..., Any]]] = {
    "x + 1": lambda _: add_one,
    "kalman": lambda _: kalman,
    "lorenz": lambda steps: lambda state, p: lorenz(state, p, steps),
    "newton": lambda _: newton,
    "mandelbrot": lambda _: mandelbrot,
    "black-scholes": lambda _: black_scholes,
    "n-body": lambda _: nbody,
    "layernorm": lambda _: layernorm,
    "softmax": lambda _: softmax,
    "cumsum": lambda _: cumsum,
    "sort": lambda _: sort,
}
