"""Sine, cosine, tangent, and the angles that have them."""

from __future__ import annotations

import math

import numpy as np

from pullback.core.primitive import primitive
from pullback.ops.arithmetic import add, div, neg
from pullback.ops.branch_cuts import with_signs
from pullback.ops.complex import PART_DTYPE
from pullback.ops.literals import literal
from pullback.ops.pointwise import Elementwise
from pullback.ops.powers import one_minus_square, rsqrt, square, vanishing
from pullback.stablehlo.writer import TensorType


@primitive
class sin(Elementwise):
    """Sine of x, in radians."""

    cost = 12
    kinds = "fc"
    evaluate = np.sin
    lower = "stablehlo.sine"

    def partials(out, x):
        return (cos(x),)

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {}


@primitive
class cos(Elementwise):
    """Cosine of x, in radians."""

    cost = 12
    kinds = "fc"
    evaluate = np.cos
    lower = "stablehlo.cosine"

    def partials(out, x):
        return (neg(sin(x)),)

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {}


@primitive
class tan(Elementwise):
    """Tangent of x, in radians."""

    cost = 16
    kinds = "fc"
    evaluate = np.tan
    lower = "stablehlo.tan"

    def partials(out, x):
        return (add(literal(1, out), square(out)),)

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {}


@primitive
class asin(Elementwise):
    """The angle between -pi/2 and pi/2 whose sine is x."""

    cost = 16
    kinds = "fc"
    evaluate = np.arcsin
    lower = with_signs("chlo.asin", real="same")

    def partials(out, x):
        return (rsqrt(one_minus_square(x)),)

    def samples(rng):
        yield (1.6 * rng.random((2, 3)) - 0.8,), {}


@primitive
class acos(Elementwise):
    """The angle between 0 and pi whose cosine is x."""

    cost = 16
    kinds = "fc"
    evaluate = np.arccos
    lower = with_signs("chlo.acos", imag="other")

    def partials(out, x):
        return (neg(rsqrt(one_minus_square(x))),)

    def samples(rng):
        yield (1.6 * rng.random((2, 3)) - 0.8,), {}


@primitive
class atan(Elementwise):
    """The angle between -pi/2 and pi/2 whose tangent is x."""

    cost = 16
    kinds = "fc"
    evaluate = np.arctan
    lower = with_signs("chlo.atan", real="same")

    def partials(out, x):
        return (vanishing(lambda x: div(literal(1, x), add(literal(1, x), square(x))), x),)

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {}


@primitive
class atan2(Elementwise):
    """The angle of the point (x, y) with the x axis, between -pi and pi; y is the first operand."""

    cost = 16
    kinds = "f"
    evaluate = np.arctan2
    lower = "stablehlo.atan2"

    def partials(out, y, x):
        return (
            lambda: div(x, add(square(x), square(y))),
            lambda: neg(div(y, add(square(x), square(y)))),
        )

    def samples(rng):
        yield (rng.normal(size=(2, 3)), rng.normal(size=(2, 3))), {}
        yield (rng.normal(size=(2, 3)), rng.normal()), {}
        yield (rng.normal(), rng.normal(size=(2, 3))), {}


_ON_HOST = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "sine": np.sin, "cosine": np.cos,
}  # fmt: skip


def _sinc_series(n, radius):
    """The coefficients of S, the n-th derivative of sin(u) / u, in powers of u^2: S = u^(n mod 2) sum_k c_k u^2k."""
    found = []
    for k in range((n + 1) // 2, 500):
        power = 2 * k - n
        found.append((-1) ** k / (math.factorial(power) * (2 * k + 1)))
        if radius**power / math.factorial(power) < 1e-18:
            return found
    raise AssertionError(n)


def _sinc_derivative(do, u, number, n):
    """S_n(u), the n-th derivative of sin(u) / u, in two forms: where |u| is small and where it is not (which needs u != 0).

    The first is the Taylor series. The second follows from u S_0 = sin(u), differentiated n times: u S_n + n S_(n-1) is the
    n-th derivative of sine. Solving for S_n multiplies an error by n / u, so it is for |u| > n.
    """
    sine, cosine = do("sine", u), do("cosine", u)
    minus = number(-1)
    turns = [sine, cosine, do("multiply", sine, minus), do("multiply", cosine, minus)]
    far = do("divide", sine, u)
    for k in range(1, n + 1):
        far = do("divide", do("subtract", turns[k % 4], do("multiply", far, number(k))), u)
    *rest, total = [number(c) for c in _sinc_series(n, sinc_radius(n))]
    squared = do("multiply", u, u)
    for coefficient in reversed(rest):
        total = do("add", do("multiply", total, squared), coefficient)
    return do("multiply", total, u) if n % 2 else total, far


def sinc_radius(n):
    """Up to which |pi x| the n-th derivative of sinc is taken from its series; the function itself needs that at 0 only."""
    return max(2, n) if n else 0


def _sinc_on_host(x, *, n):
    wide = x.astype(np.float32) if x.dtype.itemsize < 4 else x
    u = wide * wide.dtype.type(np.pi)
    near, far = _sinc_derivative(lambda name, *xs: _ON_HOST[name](*xs), u, u.dtype.type, n)
    return (np.where(np.abs(u) <= sinc_radius(n), near, far) * wide.dtype.type(np.pi**n)).astype(x.dtype)


def _lower_sinc(write, x, *, n):
    wide = write.convert(x, np.dtype(np.float32)) if x.dtype.itemsize < 4 else x
    u = write.elementwise("stablehlo.multiply", wide, write.like(wide, np.pi))
    do, number = (lambda name, *xs: write.elementwise(f"stablehlo.{name}", *xs)), (lambda value: write.like(wide, value))
    near, far = _sinc_derivative(do, u, number, n)
    size = write.op("stablehlo.abs", [u], TensorType(u.shape, PART_DTYPE.get(u.dtype, u.dtype)))
    out = write.select(write.compare("LE", size, write.like(size, sinc_radius(n))), near, far)
    return write.convert(write.elementwise("stablehlo.multiply", out, number(np.pi**n)), x.dtype)


@primitive
class sinc(Elementwise):
    """The n-th derivative of sin(pi x) / (pi x), which is 1 at 0."""

    kinds = "fc"
    evaluate = _sinc_on_host
    lower = _lower_sinc

    def partials(out, x, *, n):
        return (sinc(x, n=n + 1),)

    def samples(rng):
        for n in range(4):
            yield (np.array([[0.0, 1e-4, -0.3], [0.7, -1.5, 4.0]]),), {"n": n}
