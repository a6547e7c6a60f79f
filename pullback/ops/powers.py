"""Powers and roots."""

from __future__ import annotations

import numpy as np

from pullback.core.dtypes import kind
from pullback.core.errors import DtypeError
from pullback.core.primitive import primitive
from pullback.core.zero import ZERO
from pullback.ops.arithmetic import div, leibniz, mul, neg, product, quotient, sub
from pullback.ops.branch_cuts import parts, with_signs
from pullback.ops.compare import eq, select
from pullback.ops.exponential import log
from pullback.ops.families import check_kinds
from pullback.ops.literals import literal
from pullback.ops.pointwise import Elementwise


@primitive
class square(Elementwise):
    """x * x."""

    kinds = "iufc"
    evaluate = np.square

    def lower(write, x):
        return write.elementwise("stablehlo.multiply", x, x)

    def partials(out, x):
        return (mul(literal(2, x), x),)

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {}


@primitive
class one_minus_square(Elementwise):
    """1 - x^2, to the last digits near 1 as well."""

    cost = 3
    kinds = "fc"

    def evaluate(x):
        one = x.dtype.type(1)
        return (one - x) * (one + x)

    def lower(write, x):
        one = write.like(x, 1)
        below, above = write.elementwise("stablehlo.subtract", one, x), write.elementwise("stablehlo.add", one, x)
        return write.elementwise("stablehlo.multiply", below, above)

    def partials(out, x):
        return (mul(literal(-2, x), x),)

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {}


def vanishing(rate, x):
    """rate(x), which goes to zero with all its derivatives where x goes to infinity: there no zero is multiplied by x."""
    if kind(x.type.dtype) == "c":
        return rate(x)
    zero = literal(0, x)
    far = eq(square(x), literal(np.inf, x))
    return select(far, zero, rate(select(far, zero, x)))


def _by_squaring(x, exponent, multiply):
    """x to a positive whole exponent in at most 2 log2(exponent) multiplications."""
    result = None
    while True:
        if exponent & 1:
            result = x if result is None else multiply(result, x)
        exponent >>= 1
        if not exponent:
            return result
        x = multiply(x, x)


@primitive
class integer_pow(Elementwise):
    """x to the power of a fixed whole number y."""

    kinds = "iufc"
    symbolic_zeros = True

    def result_type(x, *, y: int):
        check_kinds("integer_pow", "iufc", x)
        if y < 0 and kind(x.dtype) in "iu":
            raise DtypeError(f"integer_pow cannot raise {x} to {y}: that is no integer. Make it floating point with .astype().")
        return x

    def evaluate(x, *, y):
        if y == 0:
            return np.ones(x.shape, x.dtype)
        power = _by_squaring(x, abs(y), np.multiply)
        return power if y > 0 else x.dtype.type(1) / power

    def lower(write, x, *, y):
        one = write.constant(1, x.type)
        if y == 0:
            return one
        power = _by_squaring(x, abs(y), lambda a, b: write.elementwise("stablehlo.multiply", a, b))
        return power if y > 0 else write.elementwise("stablehlo.divide", one, power)

    def partials(out, x, *, y):
        if y in (0, 1):
            return (ZERO if y == 0 else 1,)
        return (mul(literal(y, x), x if y == 2 else integer_pow(x, y=y - 1)),)

    def jet(primals, series, *, y):
        (x,), (terms,) = primals, series
        if y == 0:
            return integer_pow(x, y=0), ZERO
        power = _by_squaring([x, *terms], abs(y), product)
        if y < 0:
            power = quotient([integer_pow(x, y=0), *[ZERO] * len(terms)], power)
        return power[0], power[1:]

    def samples(rng):
        for y in (0, 1, 2, 3, 7):
            yield (rng.normal(size=(2, 3)),), {"y": y}
        yield (0.5 + rng.random((2, 3)),), {"y": -2}


def _power(x, y):
    out = np.power(x, y)
    half = y == 0.5
    if half.any() and x.dtype.kind != "c":  # NumPy may take square roots: -0 at -0, NaN at -inf
        out = np.where(half & ((x == 0) | (x == -np.inf)), np.abs(x), out)
    return out


@primitive
class pow(Elementwise):
    """x to the power of y; NaN where x is negative and y is not whole."""

    cost = 20
    kinds = "fc"
    evaluate = _power

    def lower(write, x, y):
        out = write.elementwise("stablehlo.power", x, y)
        if x.dtype.kind != "c":
            return out
        # as NumPy: z**0 is 1; 0**y is 0 if the real part of y is positive, else NaN
        y_real, _ = parts(write, y)
        zero, one = write.like(x, 0), write.like(x, 1)
        of_zero = write.select(write.compare("GT", y_real, write.like(y_real, 0)), zero, write.like(x, complex(np.nan, np.nan)))
        out = write.select(write.compare("EQ", x, zero), of_zero, out)
        return write.select(write.compare("EQ", y, zero), one, out)

    def partials(out, x, y):
        zero, one = literal(0, out), literal(1, out)

        def by_base():
            # x**0 is 1 for every x, and its slope 0 at x = 0 too, where x**-1 is infinite. Only there is y - 1 replaced:
            # elsewhere the slope at y = 0 goes on to vary with y, at the rate x**-1.
            less = sub(y, one)
            return mul(y, pow(x, select(eq(x, zero), select(eq(y, zero), one, less), less)))

        def by_exponent():
            return mul(log(select(eq(x, zero), one, x)), out)  # 0**y is 0 for every y > 0: its slope is 0, not 0 * -inf

        return by_base, by_exponent

    def samples(rng):
        yield (0.5 + rng.random((2, 3)), rng.normal(size=(2, 3))), {}
        yield (0.5 + rng.random((2, 3)), rng.normal()), {}
        yield (0.5 + rng.random(), rng.normal(size=(2, 3))), {}


def _lower_sqrt(write, x):
    """Of complex numbers: infinite where a part is, whatever the other one is (C99, G.6.4.2)."""
    out = write.elementwise("stablehlo.sqrt", x)
    if x.dtype.kind != "c":
        return out
    re, im = parts(write, x)
    infinity = write.like(re, np.inf)
    steep = write.compare("EQ", write.elementwise("stablehlo.abs", im), infinity)
    flat = write.elementwise("stablehlo.and", write.compare("EQ", re, infinity), write.compare("NE", im, im))
    either = write.elementwise("stablehlo.or", steep, flat)
    return write.select(either, write.op("stablehlo.complex", [infinity, im], x.type), out)


@primitive
class sqrt(Elementwise):
    """The square root of x; NaN of a negative real number."""

    cost = 4
    kinds = "fc"
    symbolic_zeros = True
    evaluate = np.sqrt
    lower = with_signs(_lower_sqrt, real="positive")

    def partials(out, x):
        return (div(literal(0.5, out), out),)

    def jet(primals, series):
        root = _root([primals[0], *series[0]])
        return root[0], root[1:]

    def samples(rng):
        yield (0.5 + rng.random((2, 3)),), {}


def _root(x):
    """The square root of a series: x = r r solved for r^(k). Source: Griewank and Walther, table 13.1, in derivatives."""
    out = [sqrt(x[0])]
    for k in range(1, len(x)):
        rest = leibniz(k, out, out, among=range(1, k))
        known = x[k] if rest is ZERO else neg(rest) if x[k] is ZERO else sub(x[k], rest)
        out.append(ZERO if known is ZERO else div(mul(known, literal(0.5, known)), out[0]))
    return out


def _reciprocal_root(x):
    return np.reciprocal(np.sqrt(x))


@primitive
class rsqrt(Elementwise):
    """1 / sqrt(x)."""

    cost = 4
    kinds = "fc"
    symbolic_zeros = True
    evaluate = _reciprocal_root
    lower = "stablehlo.rsqrt"

    def partials(out, x):
        return (mul(literal(-0.5, out), div(out, x)),)

    def jet(primals, series):
        (x,), (terms,) = primals, series
        one = integer_pow(x, y=0)
        return rsqrt(x), quotient([one, *[ZERO] * len(terms)], _root([x, *terms]))[1:]

    def samples(rng):
        yield (0.5 + rng.random((2, 3)),), {}


@primitive
class cbrt(Elementwise):
    """The cube root of x, of negative numbers too."""

    cost = 16
    kinds = "f"
    evaluate = np.cbrt
    lower = "stablehlo.cbrt"

    def partials(out, x):
        return (mul(literal(1 / 3, out), integer_pow(out, y=-2)),)

    def samples(rng):
        yield (0.5 + rng.random((2, 3)),), {}
        yield (-0.5 - rng.random((2, 3)),), {}


def _lower_hypot(write, x, y):
    """m sqrt(1 + (n / m)^2), where m is the larger one and n the smaller; infinite where one of them is."""
    x, y = write.elementwise("stablehlo.abs", x), write.elementwise("stablehlo.abs", y)
    large, small = write.elementwise("stablehlo.maximum", x, y), write.elementwise("stablehlo.minimum", x, y)
    one, infinity = write.like(x, 1), write.like(x, np.inf)
    nothing = write.compare("EQ", large, write.like(x, 0))
    ratio = write.elementwise("stablehlo.divide", small, write.select(nothing, one, large))
    below = write.elementwise("stablehlo.add", one, write.elementwise("stablehlo.multiply", ratio, ratio))
    length = write.elementwise("stablehlo.multiply", large, write.elementwise("stablehlo.sqrt", below))
    either = write.elementwise("stablehlo.or", write.compare("EQ", x, infinity), write.compare("EQ", y, infinity))
    return write.select(either, infinity, length)


@primitive
class hypot(Elementwise):
    """sqrt(x^2 + y^2), without overflow on the way. At the origin its derivative is 0, as that of |z| is at z = 0."""

    kinds = "f"
    evaluate = np.hypot
    lower = _lower_hypot

    def partials(out, x, y):
        size = select(eq(out, literal(0, out)), literal(np.inf, out), out)
        return lambda: div(x, size), lambda: div(y, size)

    def samples(rng):
        yield (rng.normal(size=(2, 3)), rng.normal(size=(2, 3))), {}
        yield (rng.normal(size=(2, 3)), rng.normal()), {}


@primitive
class nextafter(Elementwise):
    """The number of x's dtype that comes next after x on the way to y."""

    kinds = "f"
    lower = "chlo.next_after"

    def evaluate(x, y):
        return np.where(x == y, y, np.nextafter(x, y))  # NumPy's float16 would keep x, a zero of the other sign

    def samples(rng):
        yield (rng.normal(size=(2, 3)), rng.normal(size=(2, 3))), {}
