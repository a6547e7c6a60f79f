"""Sum, difference, product, quotient, remainder, larger and smaller: the arithmetic of two numbers."""

from __future__ import annotations

import math

import numpy as np

from pullback.core.primitive import primitive
from pullback.core.types import is_unknown
from pullback.core.zero import ZERO
from pullback.ops import rounding
from pullback.ops.compare import compare_in_order, eq, gt, lt, select
from pullback.ops.literals import literal
from pullback.ops.pointwise import Elementwise, where_nonzero


@primitive
class add(Elementwise):
    """x + y. Of bools, their disjunction."""

    linear = True
    evaluate = np.add
    lower = "stablehlo.add"

    def partials(out, x, y):
        return 1, 1

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
        return 1, -1

    def transpose(cotangent, x, y):
        return cotangent, neg(cotangent)

    def samples(rng):
        yield (rng.normal(size=(2, 3)), rng.normal(size=(2, 3))), {}
        yield (rng.normal(), rng.normal(size=(2, 3))), {}


@primitive
class mul(Elementwise):
    """x * y. Of bools, their conjunction."""

    bilinear = True
    evaluate = np.multiply
    lower = "stablehlo.multiply"

    def partials(out, x, y):
        return y, x

    def transpose(cotangent, x, y):
        if is_unknown(x):
            return mul(cotangent, y), None
        return None, mul(x, cotangent)

    def simplify(equation, known):
        x, y = equation.inputs
        return _without_one(equation, known, x, y) or _without_one(equation, known, y, x)

    def sparsity(which, operands):
        return where_nonzero(which, operands, operands[1 - which])

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

    def simplify(equation, known):
        inner = known.maker(equation.inputs[0], neg)
        return inner.inputs[0] if inner is not None and inner.inputs[0].type is equation.outputs[0].type else None

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {}


def _without_one(equation, known, x, y):
    """x, if x * y and x / y are x, to the last bit: y is one, or an array of ones, and no part of x is multiplied by zero."""
    same = x.type is equation.outputs[0].type and x.type.dtype.kind != "c"
    return x if same and known.number(y) == 1 else None


def _quotient(x, y):
    if x.dtype.kind not in "iu":
        return np.true_divide(x, y)
    floor = np.floor_divide(x, y)
    if x.dtype.kind == "i":
        floor = floor + ((floor * y != x) & ((x < 0) != (y < 0)))
    return np.where(y == 0, np.int64(-1).astype(x.dtype), floor)


@primitive
class div(Elementwise):
    """x / y. Of integers, the quotient rounded toward zero; x / 0 is then -1 (the largest unsigned number), as XLA has it."""

    cost = 4
    kinds = "iufc"
    linear = ("x",)
    symbolic_zeros = True
    evaluate = _quotient
    lower = "stablehlo.divide"

    def partials(out, x, y):
        return lambda: div(literal(1, y), y), lambda: neg(div(out, y))

    def transpose(cotangent, x, y):
        return div(cotangent, y), None

    def simplify(equation, known):
        return _without_one(equation, known, *equation.inputs)

    def jet(primals, series):
        out = quotient([primals[0], *series[0]], [primals[1], *series[1]])
        return out[0], out[1:]

    def samples(rng):
        yield (rng.normal(size=(2, 3)), 1 + rng.random((2, 3))), {}
        yield (rng.normal(size=(2, 3)), -1 - rng.random()), {}
        yield (rng.normal(), 1 + rng.random((2, 3))), {}


def _remainder(x, y):
    if x.dtype.kind not in "iu":
        return np.fmod(x, y)
    return np.where(y == 0, x, np.fmod(x, y))


@primitive
class rem(Elementwise):
    """What the division of x by y, rounded toward zero, leaves; it has the sign of x. Of integers, rem(x, 0) is x."""

    kinds = "iuf"
    evaluate = _remainder
    lower = "stablehlo.remainder"

    def partials(out, x, y):
        return 1, lambda: neg(rounding.round(div(sub(x, out), y), rounding_method="to_nearest_even"))

    def samples(rng):
        yield (5 * rng.normal(size=(2, 3)), 1 + rng.random((2, 3))), {}
        yield (5 * rng.normal(size=(2, 3)), -1 - rng.random()), {}


def _lower_extreme(write, name, direction, x, y):
    if x.dtype.kind != "c":
        return write.elementwise(name, x, y)
    wins = write.elementwise("stablehlo.or", write.compare("NE", x, x), compare_in_order(write, direction, x, y))
    return write.select(wins, x, y)


@primitive
class max(Elementwise):
    """The larger of x and y; NaN if one is. Where they are equal, each gets half of the derivative; at NaN, neither."""

    evaluate = np.maximum

    def lower(write, x, y):
        return _lower_extreme(write, "stablehlo.maximum", "GE", x, y)

    def partials(out, x, y):
        return lambda: _share(gt(x, y), eq(x, y), out), lambda: _share(gt(y, x), eq(x, y), out)

    def samples(rng):
        yield (rng.normal(size=(2, 3)), rng.normal(size=(2, 3))), {}
        yield (rng.normal(size=(2, 3)), rng.normal()), {}


@primitive
class min(Elementwise):
    """The smaller of x and y; NaN if one is. Where they are equal, each gets half of the derivative; at NaN, neither."""

    evaluate = np.minimum

    def lower(write, x, y):
        return _lower_extreme(write, "stablehlo.minimum", "LE", x, y)

    def partials(out, x, y):
        return lambda: _share(lt(x, y), eq(x, y), out), lambda: _share(lt(y, x), eq(x, y), out)

    def samples(rng):
        yield (rng.normal(size=(2, 3)), rng.normal(size=(2, 3))), {}
        yield (rng.normal(), rng.normal(size=(2, 3))), {}


def _share(wins, ties, like):
    """1 where one operand wins, 1/2 where both are equal, else 0."""
    return select(wins, literal(1, like), select(ties, literal(0.5, like), literal(0, like)))


# ---- the arithmetic of series: lists of a value and its derivatives, [x, x', x'', ...], each an array or ZERO -------------


def leibniz(k, x, y, product=mul, among=None):
    """The k-th derivative of a product, sum_j C(k, j) x^(j) y^(k-j), over all j or those in `among`; ZERO if it is zero."""
    total = ZERO
    for j in range(k + 1) if among is None else among:
        if x[j] is not ZERO and y[k - j] is not ZERO:
            term = product(x[j], y[k - j])
            count = math.comb(k, j)
            term = term if count == 1 else mul(term, literal(count, term))
            total = term if total is ZERO else add(total, term)
    return total


def product(x, y):
    """The product of two series of the same length."""
    return [leibniz(k, x, y) for k in range(len(x))]


def quotient(x, y):
    """The quotient of two series: x = q y solved for q^(k). Source: Griewank and Walther, table 13.1, in derivatives."""
    out = [div(x[0], y[0])]
    for k in range(1, len(x)):
        out.append(ZERO)  # in the place of what is solved for
        rest = leibniz(k, out, y, among=range(k))
        known = x[k] if rest is ZERO else neg(rest) if x[k] is ZERO else sub(x[k], rest)
        out[k] = ZERO if known is ZERO else div(known, y[0])
    return out
