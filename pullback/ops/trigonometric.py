"""Sine, cosine, tangent, and the angles that have them."""

from __future__ import annotations

import math

import numpy as np

from pullback.core.primitive import primitive
from pullback.core.tracing import type_of
from pullback.ops.arithmetic import add, div, neg
from pullback.ops.formulas import ratio, wide
from pullback.ops.literals import literal
from pullback.ops.pointwise import Function, OfFraction, OfTwo
from pullback.ops.powers import cosine_of, hypot, one_minus_square, rsqrt, square


@primitive
class sin(Function):
    """Sine of x, in radians."""

    cost = 12
    transcendental = True
    evaluate = np.sin

    def partials(out, x):
        return (cos(x),)


@primitive
class cos(Function):
    """Cosine of x, in radians."""

    cost = 12
    transcendental = True
    evaluate = np.cos

    def partials(out, x):
        return (neg(sin(x)),)


@primitive
class tan(Function):
    """Tangent of x, in radians."""

    cost = 16
    transcendental = True
    evaluate = np.tan

    def partials(out, x):
        return (add(literal(1, out), square(out)),)


@primitive
class asin(OfFraction):
    """The angle between -pi/2 and pi/2 whose sine is x."""

    cost = 16
    transcendental = True
    evaluate = np.arcsin

    def partials(out, x):
        return (rsqrt(one_minus_square(x)),)


@primitive
class acos(OfFraction):
    """The angle between 0 and pi whose cosine is x."""

    cost = 16
    transcendental = True
    evaluate = np.arccos

    def partials(out, x):
        return (neg(rsqrt(one_minus_square(x))),)


@primitive
class atan(Function):
    """The angle between -pi/2 and pi/2 whose tangent is x."""

    cost = 16
    transcendental = True
    evaluate = np.arctan

    def partials(out, x):
        one = literal(1, x)
        if type_of(x).dtype.kind == "c":
            return (div(one, add(one, square(x))),)
        return (square(div(one, hypot(x, one))),)


@primitive
class atan2(OfTwo):
    """The angle of the point (x, y) with the x axis, between -pi and pi; y is the first operand."""

    cost = 16
    transcendental = True
    kinds = "f"
    evaluate = np.arctan2

    def partials(out, y, x):
        return lambda: div(cosine_of(x, y), hypot(x, y)), lambda: neg(div(cosine_of(y, x), hypot(x, y)))


def _sinc_series(n, radius):
    """The coefficients of S, the n-th derivative of sin(u) / u, in powers of u^2: S = u^(n mod 2) sum_k c_k u^2k."""
    found = []
    for k in range((n + 1) // 2, 500):
        power = 2 * k - n
        found.append((-1) ** k / (math.factorial(power) * (2 * k + 1)))
        if radius**power / math.factorial(power) < 1e-18:
            return found
    raise AssertionError(n)


def _of_half_turns(x):
    """sin(pi x) and cos(pi x); of real numbers by their distance from a whole number, so that they are exact there."""
    if x.dtype.kind == "c":
        return np.sin(x * math.pi), np.cos(x * math.pi)
    whole = np.rint(x)
    angle = math.pi * (x - whole)
    odd = whole != 2 * np.floor(0.5 * whole)
    return tuple([np.where(odd, -part, part) for part in (np.sin(angle), np.cos(angle))])


@primitive
class sinc(Function):
    """The n-th derivative of sin(pi x) / (pi x), which is 1 at 0.

    Where |pi x| is small, it is the Taylor series of S(u) = sin(u) / u; the function itself needs that at 0 only, but where the
    parts of a complex number are of different sizes. Elsewhere it follows from u S = sin(u), differentiated n times: u S_n +
    n S_(n-1) is the n-th derivative of sine. Solving for S_n multiplies an error by n / u, so u > n.
    """

    cost = 30

    @wide
    def evaluate(x, *, n):
        u = x * math.pi
        sine, cosine = _of_half_turns(x)
        far = ratio(sine, u)
        for k in range(1, n + 1):
            far = ratio((sine, cosine, -sine, -cosine)[k % 4] - k * far, u)
        radius = max(2, n) if n or x.dtype.kind == "c" else 0
        *rest, near = _sinc_series(n, radius)
        near, squared = near + 0 * u, np.square(u)
        for coefficient in reversed(rest):
            near = near * squared + coefficient
        near = near * u if n % 2 else near
        out = np.where(np.abs(u) <= radius, near, far)
        return out * math.pi**n if n else out  # 1 times an infinite complex number has NaN in it

    def partials(out, x, *, n):
        return (sinc(x, n=n + 1),)

    def samples(rng):
        for n in range(4):
            yield (np.array([[0.0, 1e-4, -0.3], [0.7, -1.5, 4.0]]),), {"n": n}
