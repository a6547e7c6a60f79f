"""Powers and roots."""

from __future__ import annotations

import numpy as np

from pullback.core.dtypes import kind
from pullback.core.errors import DtypeError
from pullback.core.primitive import primitive
from pullback.core.zero import ZERO
from pullback.ops.arithmetic import div, leibniz, mul, neg, product, quotient, sub
from pullback.ops.compare import eq, select
from pullback.ops.exponential import log
from pullback.ops.families import check_kinds, in_reals
from pullback.ops.formulas import by_kind, by_parts, joined, lowered, power_by_parts, ratio, rsqrt_by_parts, wide
from pullback.ops.literals import literal
from pullback.ops.pointwise import Formula, Function, OfPositive, OfTwo


def _square_by_parts(z):
    """(x + y) (x - y) + 2 i x y: x^2 - y^2 would lose the digits, or where both overflow the sign, of the difference."""
    total, rest, half = z.real + z.imag, z.real - z.imag, z.real * z.imag
    return joined(np.where((total == 0) | (rest == 0), 0, total * rest), half + half)


@primitive
class square(Function):
    """x * x."""

    kinds = "iufc"
    evaluate = by_kind(np.square, _square_by_parts)

    def partials(out, x):
        return (mul(literal(2, x), x),)


@primitive
class one_minus_square(Function):
    """1 - x^2, to the last digits near 1 as well."""

    cost = 3

    @wide
    def evaluate(x):
        return (1 - x) * (1 + x)

    def partials(out, x):
        return (mul(literal(-2, x), x),)


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
class integer_pow(Formula):
    """x to the power of a fixed whole number y."""

    kinds = "iufc"
    symbolic_zeros = True

    def result_type(primitive, x, *, y: int):
        check_kinds(primitive, x)
        if y < 0 and kind(x.dtype) in "iu":
            raise DtypeError(f"integer_pow cannot raise {x} to {y}: that is no integer. Make it floating point with .astype().")
        return x

    def evaluate(x, *, y):
        if y == 0:
            return np.ones_like(x)
        power = _by_squaring(x, abs(y), np.multiply)
        return power if y > 0 else ratio(x.dtype.type(1), power)

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

    def cost(operands, results, *, y):
        multiplications = max(abs(y).bit_length() - 1 + abs(y).bit_count() - 1, 0) + (y < 0)
        return results[0].size * multiplications * in_reals(results[0])

    def samples(rng):
        for y in (0, 1, 2, 3, 7):
            yield (rng.normal(size=(2, 3)),), {"y": y}
        yield (0.5 + rng.random((2, 3)),), {"y": -2}


def _power(x, y):
    out = np.power(x, y)
    if x.shape == y.shape and y.size > 1 and y.flags.c_contiguous:
        return out
    half = y == 0.5
    if half.any():  # of one exponent for all, NumPy may take square roots: -0 at -0, NaN at -inf
        out = np.where(half & ((x == 0) | (x == -np.inf)), np.abs(x), out)
    return out


def _complex_power(x, y):
    """NumPy multiplies where y is a whole number, which is exact, but NaN where infinities meet."""
    finite = np.isfinite(x) & np.isfinite(y)
    return np.power(x, y) if finite.all() else np.where(finite, np.power(x, y), power_by_parts(x, y))


@primitive
class pow(OfTwo):
    """x to the power of y; NaN where x is negative and y is not whole."""

    cost = 20
    transcendental = True
    kinds = "fc"
    evaluate = by_kind(_power, _complex_power)
    lower = by_parts("stablehlo.power", power_by_parts)

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


@primitive
class sqrt(OfPositive):
    """The square root of x; NaN of a negative real number."""

    cost = 4
    transcendental = True
    symbolic_zeros = True
    evaluate = np.sqrt

    def partials(out, x):
        return (div(literal(0.5, out), out),)

    def jet(primals, series):
        root = _root([primals[0], *series[0]])
        return root[0], root[1:]


def _root(x):
    """The square root of a series: x = r r solved for r^(k). Source: Griewank and Walther, table 13.1, in derivatives."""
    out = [sqrt(x[0])]
    for k in range(1, len(x)):
        rest = leibniz(k, out, out, among=range(1, k))
        known = x[k] if rest is ZERO else neg(rest) if x[k] is ZERO else sub(x[k], rest)
        out.append(ZERO if known is ZERO else div(mul(known, literal(0.5, known)), out[0]))
    return out


@primitive
class rsqrt(OfPositive):
    """1 / sqrt(x)."""

    cost = 4
    transcendental = True
    symbolic_zeros = True
    evaluate = by_kind(lambda x: np.reciprocal(np.sqrt(x)), rsqrt_by_parts)
    lower = by_parts("stablehlo.rsqrt", rsqrt_by_parts)

    def partials(out, x):
        return (mul(literal(-0.5, out), div(out, x)),)

    def jet(primals, series):
        (x,), (terms,) = primals, series
        one = integer_pow(x, y=0)
        return rsqrt(x), quotient([one, *[ZERO] * len(terms)], _root([x, *terms]))[1:]


@primitive
class cbrt(Function):
    """The cube root of x, of negative numbers too."""

    cost = 16
    transcendental = True
    kinds = "f"
    evaluate = np.cbrt

    def partials(out, x):
        return (mul(literal(1 / 3, out), integer_pow(out, y=-2)),)

    def samples(rng):
        yield (0.5 + rng.random((2, 3)),), {}
        yield (-0.5 - rng.random((2, 3)),), {}


def _hypot(x, y):
    """m sqrt(1 + (n / m)^2), where m is the larger one and n the smaller; infinite where one of them is."""
    x, y = np.abs(x), np.abs(y)
    large = np.maximum(x, y)
    ratio = np.minimum(x, y) / np.where(large == 0, 1, large)
    return np.where((x == np.inf) | (y == np.inf), np.inf, large * np.sqrt(1 + ratio * ratio))


@primitive
class hypot(OfTwo):
    """sqrt(x^2 + y^2), without overflow on the way. At the origin its derivative is 0, as that of |z| is at z = 0."""

    cost = 20
    kinds = "f"
    evaluate = np.hypot
    lower = lowered(_hypot)

    def partials(out, x, y):
        return lambda: cosine_of(x, y), lambda: cosine_of(y, x)


@primitive
class cosine_of(OfTwo):
    """x / hypot(x, y), the cosine of the angle of (x, y); 0 at the origin, and 1 or -1 where x is infinite and y is not."""

    cost = 30
    kinds = "f"

    @wide
    def evaluate(x, y):
        size = _hypot(x, y)
        inside = x / np.where(size == 0, 1, size)
        return np.where(np.isinf(x) & np.isfinite(y), np.copysign(1, x), inside)

    def partials(out, x, y):
        size = select(eq(hypot(x, y), literal(0, x)), literal(np.inf, x), hypot(x, y))
        sine = cosine_of(y, x)
        return lambda: div(square(sine), size), lambda: neg(div(mul(out, sine), size))


@primitive
class nextafter(OfTwo):
    """The number of x's dtype that comes next after x on the way to y."""

    cost = 20
    kinds = "f"
    lower = "chlo.next_after"

    def evaluate(x, y):
        return np.where(x == y, y, np.nextafter(x, y))  # NumPy's float16 would keep x, a zero of the other sign
