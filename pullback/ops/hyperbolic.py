"""The hyperbolic functions and their inverses."""

from __future__ import annotations

import numpy as np

from pullback.core.primitive import primitive
from pullback.ops.arithmetic import add, div, mul, sub
from pullback.ops.branch_cuts import with_signs
from pullback.ops.exponential import lower_log1p
from pullback.ops.literals import literal
from pullback.ops.pointwise import Elementwise
from pullback.ops.powers import one_minus_square, rsqrt, square, vanishing


@primitive
class sinh(Elementwise):
    """Hyperbolic sine."""

    cost = 12
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

    cost = 12
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

    cost = 12
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

    cost = 16
    kinds = "fc"
    evaluate = np.arcsinh
    lower = with_signs("chlo.asinh", real="same")

    def partials(out, x):
        return (vanishing(lambda x: rsqrt(add(square(x), literal(1, x))), x),)

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {}


@primitive
class acosh(Elementwise):
    """The number, at least 0, whose hyperbolic cosine is x."""

    cost = 16
    kinds = "fc"
    evaluate = np.arccosh
    lower = with_signs("chlo.acosh", real="positive")

    def partials(out, x):
        return (mul(rsqrt(sub(x, literal(1, x))), rsqrt(add(x, literal(1, x)))),)

    def samples(rng):
        yield (1.5 + rng.random((2, 3)),), {}


def _lower_atanh(write, x):
    """sign(x) log1p(2 |x| / (1 - |x|)) / 2 in float64, on the better log1p."""
    if x.dtype != np.float64:
        return write.op("chlo.atanh", [x])
    size = write.elementwise("stablehlo.abs", x)
    rest = write.elementwise("stablehlo.subtract", write.constant(1, x.type), size)
    ratio = write.elementwise("stablehlo.divide", write.elementwise("stablehlo.add", size, size), rest)
    half = write.elementwise("stablehlo.multiply", lower_log1p(write, ratio), write.constant(0.5, x.type))
    return write.elementwise("stablehlo.multiply", write.elementwise("stablehlo.sign", x), half)


@primitive
class atanh(Elementwise):
    """The number whose hyperbolic tangent is x."""

    cost = 16
    kinds = "fc"
    evaluate = np.arctanh
    lower = with_signs(_lower_atanh, real="same")

    def partials(out, x):
        return (vanishing(lambda x: div(literal(1, x), one_minus_square(x)), x),)

    def samples(rng):
        yield (1.6 * rng.random((2, 3)) - 0.8,), {}
