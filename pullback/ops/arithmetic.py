"""Sum, difference, product, quotient, remainder, larger and smaller: the arithmetic of two numbers."""

from __future__ import annotations

import math

import numpy as np

from pullback.core.array import Array
from pullback.core.dtypes import kind
from pullback.core.primitive import primitive
from pullback.core.tracing import evaluate, innermost_staging
from pullback.core.types import is_unknown
from pullback.core.zero import ZERO
from pullback.ops import rounding
from pullback.ops.compare import eq, gt, lt, select
from pullback.ops.formulas import by_kind, quotient_by_parts
from pullback.ops.literals import literal
from pullback.ops.pointwise import Function, OfTwo, where_nonzero


@primitive
class add(OfTwo):
    """x + y. Of bools, their disjunction."""

    linear = True
    evaluate = np.add

    def partials(out, x, y):
        return 1, 1

    def transpose(cotangent, x, y):
        return cotangent, cotangent


@primitive
class sub(OfTwo):
    """x - y."""

    kinds = "iufc"
    linear = True
    evaluate = np.subtract

    def partials(out, x, y):
        return 1, -1

    def transpose(cotangent, x, y):
        return cotangent, neg(cotangent)


@primitive
class mul(OfTwo):
    """x * y. Of bools, their conjunction."""

    bilinear = True
    evaluate = np.multiply

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


@primitive
class neg(Function):
    """-x."""

    kinds = "iufc"
    linear = True
    evaluate = np.negative

    def transpose(cotangent, x):
        return (neg(cotangent),)

    def simplify(equation, known):
        inner = known.maker(equation.inputs[0], neg)
        return inner.inputs[0] if inner is not None and inner.inputs[0].type is equation.outputs[0].type else None


def _without_one(equation, known, x, y):
    """x, if x * y and x / y are x, to the last bit: y is one, or an array of ones, and no part of x is multiplied by zero."""
    same = x.type is equation.outputs[0].type and x.type.dtype.kind != "c"
    return x if same and known.number(y) == 1 else None


def _one_over(y):
    """1 / y; in a Program a number, not a division, if y is a known number, such as the count of a mean."""
    one = literal(1, y)
    known = innermost_staging() is not None and y.__class__ is Array and not y.type.shape
    return evaluate(div, (one, y), {}) if known else div(one, y)


def _whole_quotient(x, y):
    floor = np.floor_divide(x, y)
    if x.dtype.kind == "i":
        floor = floor + ((floor * y != x) & ((x < 0) != (y < 0)))
    return np.where(y == 0, np.int64(-1).astype(x.dtype), floor)


@primitive
class div(OfTwo):
    """x / y. Of integers, the quotient rounded toward zero; x / 0 is then -1 (the largest unsigned number), as XLA has it."""

    kinds = "iufc"
    linear = ("x",)
    symbolic_zeros = True
    evaluate = by_kind(np.true_divide, quotient_by_parts, _whole_quotient)
    lower = "stablehlo.divide"

    def cost(operands, results):
        # x conj(y), a product; |y|^2, two products and a sum; the two parts of the one by the other
        return results[0].size * (11 if kind(results[0].dtype) == "c" else 1)

    def partials(out, x, y):
        return lambda: _one_over(y), lambda: neg(div(out, y))

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
class rem(OfTwo):
    """What the division of x by y, rounded toward zero, leaves; it has the sign of x. Of integers, rem(x, 0) is x."""

    kinds = "iuf"
    evaluate = _remainder
    lower = "stablehlo.remainder"

    def partials(out, x, y):
        return 1, lambda: neg(rounding.round(div(sub(x, out), y), rounding_method="to_nearest_even"))

    def samples(rng):
        yield (5 * rng.normal(size=(2, 3)), 1 + rng.random((2, 3))), {}
        yield (5 * rng.normal(size=(2, 3)), -1 - rng.random()), {}


def shares(wins):
    """The partial derivatives of an extreme of two: 1 for the operand that wins, half for each of two that are equal.

    The operands are compared with each other, not with the result: compiled code may round an operand differently where it is
    compared than where the result was chosen, and would then find no winner.
    """

    def partials(out, x, y):
        zero, half, one = literal(0, out), literal(0.5, out), literal(1, out)

        def share(own, other):
            return select(eq(x, y), half, select(wins(own, other), one, zero))

        return lambda: share(x, y), lambda: share(y, x)

    return partials


@primitive
class max(OfTwo):
    """The larger of x and y; NaN if one is. Where they are equal, each gets half of the derivative; at NaN, neither."""

    evaluate = np.maximum
    partials = shares(gt)


@primitive
class min(OfTwo):
    """The smaller of x and y; NaN if one is. Where they are equal, each gets half of the derivative; at NaN, neither."""

    evaluate = np.minimum
    partials = shares(lt)


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
