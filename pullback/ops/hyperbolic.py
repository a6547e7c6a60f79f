"""The hyperbolic functions and their inverses."""

from __future__ import annotations

import numpy as np

from pullback.core.primitive import primitive
from pullback.ops.arithmetic import add, div, mul, sub
from pullback.ops.literals import literal
from pullback.ops.pointwise import Elementwise
from pullback.ops.powers import rsqrt, square


@primitive
class sinh(Elementwise):
    """Hyperbolic sine."""

    kinds = "fc"
    evaluate = np.sinh
    lower = "chlo.sinh"

    def partials(out, x):
        return (cosh(x),)

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {}


@primitive
class cosh(Elementwise):
    """Hyperbolic cosine."""

    kinds = "fc"
    evaluate = np.cosh
    lower = "chlo.cosh"

    def partials(out, x):
        return (sinh(x),)

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {}


@primitive
class tanh(Elementwise):
    """Hyperbolic tangent."""

    kinds = "fc"
    evaluate = np.tanh
    lower = "stablehlo.tanh"

    def partials(out, x):
        return (mul(sub(literal(1, out), out), add(literal(1, out), out)),)

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {}


@primitive
class asinh(Elementwise):
    """The number whose hyperbolic sine is x."""

    kinds = "fc"
    evaluate = np.arcsinh
    lower = "chlo.asinh"

    def partials(out, x):
        return (rsqrt(add(square(x), literal(1, x))),)

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {}


@primitive
class acosh(Elementwise):
    """The number, at least 0, whose hyperbolic cosine is x."""

    kinds = "fc"
    evaluate = np.arccosh
    lower = "chlo.acosh"

    def partials(out, x):
        return (mul(rsqrt(sub(x, literal(1, x))), rsqrt(add(x, literal(1, x)))),)

    def samples(rng):
        yield (1.5 + rng.random((2, 3)),), {}


@primitive
class atanh(Elementwise):
    """The number whose hyperbolic tangent is x."""

    kinds = "fc"
    evaluate = np.arctanh
    lower = "chlo.atanh"

    def partials(out, x):
        return (div(literal(1, x), mul(sub(literal(1, x), x), add(literal(1, x), x))),)

    def samples(rng):
        yield (1.6 * rng.random((2, 3)) - 0.8,), {}
