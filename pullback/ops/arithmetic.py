"""Sum, difference, product, quotient, powers, absolute value: the elementwise arithmetic."""

from __future__ import annotations

import numpy as np

from pullback.core.primitive import primitive
from pullback.core.types import is_unknown
from pullback.ops.pointwise import Elementwise


@primitive
class add(Elementwise):
    """x + y. Of bools, their disjunction."""

    linear = True
    evaluate = np.add
    lower = "stablehlo.add"

    def partials(out, x, y):
        return None, None

    def transpose(cotangent, x, y):
        return cotangent, cotangent

    def samples(rng):
        yield (rng.normal(size=(2, 3)), rng.normal(size=(2, 3))), {}
        yield (rng.normal(size=(2, 3)), rng.normal()), {}


@primitive
class sub(Elementwise):
    """x - y."""

    kinds = "iufc"
    linear = True
    evaluate = np.subtract
    lower = "stablehlo.subtract"

    def partials(out, x, y):
        return None, -1

    def transpose(cotangent, x, y):
        return cotangent, neg(cotangent)

    def samples(rng):
        yield (rng.normal(size=(2, 3)), rng.normal(size=(2, 3))), {}
        yield (rng.normal(), rng.normal(size=(2, 3))), {}


@primitive
class mul(Elementwise):
    """x * y. Of bools, their conjunction."""

    evaluate = np.multiply
    lower = "stablehlo.multiply"

    def partials(out, x, y):
        return y, x

    def transpose(cotangent, x, y):
        if is_unknown(x):
            return mul(cotangent, y), None
        return None, mul(x, cotangent)

    def samples(rng):
        yield (rng.normal(size=(2, 3)), rng.normal(size=(2, 3))), {}
        yield (rng.normal(size=(2, 3)), rng.normal()), {}


@primitive
class neg(Elementwise):
    """-x."""

    kinds = "iufc"
    linear = True
    evaluate = np.negative
    lower = "stablehlo.negate"

    def transpose(cotangent, x):
        return (neg(cotangent),)

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {}
