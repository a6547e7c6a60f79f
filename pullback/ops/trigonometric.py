"""Sine, cosine, tangent, and the angles that have them."""

from __future__ import annotations

import numpy as np

from pullback.core.primitive import primitive
from pullback.ops.arithmetic import add, div, mul, neg, sub
from pullback.ops.literals import literal
from pullback.ops.pointwise import Elementwise
from pullback.ops.powers import rsqrt, square


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
    lower = "chlo.asin"

    def partials(out, x):
        return (_reciprocal_leg(x),)

    def samples(rng):
        yield (1.6 * rng.random((2, 3)) - 0.8,), {}


@primitive
class acos(Elementwise):
    """The angle between 0 and pi whose cosine is x."""

    cost = 16
    kinds = "fc"
    evaluate = np.arccos
    lower = "chlo.acos"

    def partials(out, x):
        return (neg(_reciprocal_leg(x)),)

    def samples(rng):
        yield (1.6 * rng.random((2, 3)) - 0.8,), {}


@primitive
class atan(Elementwise):
    """The angle between -pi/2 and pi/2 whose tangent is x."""

    cost = 16
    kinds = "fc"
    evaluate = np.arctan
    lower = "chlo.atan"

    def partials(out, x):
        return (div(literal(1, x), add(literal(1, x), square(x))),)

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {}


def _reciprocal_leg(x):
    """1 / sqrt(1 - x^2), the factors apart: near 1 the difference of squares would lose half of the digits."""
    one = literal(1, x)
    return rsqrt(mul(sub(one, x), add(one, x)))


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
