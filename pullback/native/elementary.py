"""Exponentials, logarithms, powers and angles as vector code, for float64 and, of those that need no more digits, float32.

The methods are those of Muller, "Elementary Functions" (2016), if nothing else is said; the polynomials stand in
`math_tables.py`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

from pullback.native import math_tables as tables
from pullback.native.lanes import Lanes, Pair, by_vectors, fused, looked_up, polynomial, product, rarely, smooth, total, where

MANTISSA = {"f32": 23, "f64": 52}
BIAS = {"f32": 127, "f64": 1023}
TINY = {"f32": 2.0**-126, "f64": 2.0**-1022}  # the least normal number
HUGE = 2.0**1023 * (2 - 2.0**-52)
SMALL = {"f32": 2.0**-26, "f64": 2.0**-56}  # the next term of a series does not count beside 1
EXP_RANGE = {"f32": (-87.33654022216797, 88.72283172607422), "f64": (-708.3964185322641, 709.782712893384)}  # exp is normal
# Two parts, of which the first has so few bits that its product with any exponent is exact.
LOG_2 = {"f32": (0.693145751953125, 1.4286068203094173e-06), "f64": (0.693147180559663, 2.8235290563031577e-13)}
# In parts, of which the product of the first with a number of quarters is exact; those for float32 need fused multiply-add.
HALF_PI = {
    "f32": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    "f64": (1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32),
}
PI = (3.141592653589793, 1.2246467991473532e-16)
FAR = {"f32": 2.0**15, "f64": 2.0**20}  # multiples of pi / 2 beyond need more bits


def _bits_of(number: float, kind: str) -> int:
    formats = ("<f", "<i") if kind == "f32" else ("<d", "<q")
    bits: int = struct.unpack(formats[1], struct.pack(formats[0], number))[0]
    return bits


# ---- exponentials ---------------------------------------------------------------------------------------------------


def _rounded(x: Lanes, scale: float = 1.0) -> Pair:
    """The whole number nearest to x * scale, and bits that end in its own: those of its sum with a number of suitable size."""
    magic = 1.5 * 2.0 ** MANTISSA[x.kind]
    shifted = fused(x, scale, magic)
    return shifted - magic, shifted.bits()


def less_logs(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """x - n log 2 as a pair, and bits that end in those of n."""
    high, low = LOG_2[x.kind]
    n, bits = _rounded(x, 1 / math.log(2))
    left = fused(n, -high, x)
    r = fused(n, -low, left)
    return r, fused(n, -low, left - r), bits


def scaled(x: Lanes, bits: Lanes) -> Lanes:
    """x 2^n for bits that end in those of n, where x is about 1 and the result is normal."""
    return (x.bits() + (bits << MANTISSA[x.kind])).reread(x.kind)


def near_exp(r: Lanes, precise: str = "") -> Lanes:
    """exp(r) - 1, for |r| <= log(2) / 2, for results of the dtype `precise`."""
    return fused(r * r, polynomial(r, tables.EXP[precise or r.kind]), r)


def exp_inside(x: Lanes, precise: str = "") -> Lanes:
    """exp(x) of numbers that are known not to leave its range."""
    r, _, bits = less_logs(x)
    return (1 + near_exp(r, precise)) * scaled(x.like(1.0), bits)  # a product, so that NaN stays


def _near_exp_pair(r: Lanes, r_low: Lanes) -> Pair:
    near, low = total(r, r * r * polynomial(r, tables.EXP[r.kind]))
    return near, low + r_low


def _exp_reduced(near: Lanes, bits: Lanes, x: Lanes, least: float, greatest: float) -> Lanes:
    """exp(x) = 2^n (1 + near), which is 0 below `least` and infinite beyond `greatest`."""
    out = scaled(1 + near, bits)
    out = where(x > greatest, math.inf, where(x < least, 0.0, out))
    return where(x.is_nan(), x, out)


def exp(x: Lanes) -> Lanes:
    r, _, bits = less_logs(x)
    return _exp_reduced(near_exp(r), bits, x, *EXP_RANGE[x.kind])


def exp2(x: Lanes) -> Lanes:
    n, bits = _rounded(x)
    bias = BIAS[x.kind]
    below = math.nextafter(bias + 1, 0) if x.kind == "f64" else bias + 1 - 2.0**-17
    return _exp_reduced(near_exp((x - n) * math.log(2)), bits, x, 1.0 - bias, below)


def _bounded(x: Lanes, least: float, greatest: float) -> Lanes:
    """x between bounds; NaN stays."""
    x = where(x < least, least, x)
    return where(x > greatest, greatest, x)


def exp_pair(high: Lanes, low: Lanes) -> Lanes:
    """exp(high + low)."""
    r, r_low, bits = less_logs(_bounded(high, -709.0, 710.0))
    near, near_low = _near_exp_pair(r, r_low)
    out = scaled(1 + (near + (near_low + fused(low, near, low))), bits)
    # Outside the range the exponent runs into the sign, or is the greatest.
    out = where(out < TINY[r.kind], 0.0, out)
    out = where(out <= HUGE, out, math.inf)
    return where(high.is_nan(), high, out)


def _quarter_expm1(x: Lanes) -> Pair:
    """(exp(x) - 1) / 4, for numbers that are not too small."""
    r, r_low, bits = less_logs(_bounded(x, -40.0, 710.6 if x.kind == "f64" else 89.0))
    near, near_low = _near_exp_pair(r, r_low)
    quarter = scaled(r.like(0.25), bits)
    high = fused(quarter, near, quarter - 0.25)
    return high, fused(quarter, near, (quarter - 0.25) - high) + quarter * near_low


def expm1(x: Lanes) -> Lanes:
    high, low = _quarter_expm1(x)
    return where(abs(x) < SMALL[x.kind], x, ((high + low) * 2.0) * 2.0)


def by_pieces(x: Lanes, width: float, table: Sequence[Sequence[float]]) -> Lanes:
    """An odd function by a polynomial in x - k w on each of the pieces around 0, w, 2 w, ...; beyond them it is 1."""
    size = abs(x)
    n, bits = _rounded(size, 1 / width)
    t = fused(n, -width, size)
    first, *others = [looked_up(bits, numbers, x.kind) for numbers in table]
    out = fused(t, smooth(t, others), where(n.equals(0.0), size, first))
    return where(size > width * (len(table[0]) - 0.51), 1.0, out).with_sign_of(x)


def tanh(x: Lanes) -> Lanes:
    """A polynomial near 0; elsewhere 1 - 2 / (exp(2x) + 1)."""
    if x.kind == "f32" and x.code.module.avx512:
        return by_pieces(x, *tables.TANH_PIECES)
    edge, end = (1.0, 20.0) if x.kind == "f32" else (0.625, 44.0)
    size = abs(x)
    z = x * x
    near = fused(size * z, polynomial(z, tables.TANH[x.kind]), size)
    far = 1 - 2 / (exp_inside(where(size > 0.5 * end, end, size + size)) + 1)
    return where(size < edge, near, far).with_sign_of(x)


def quotient(above: Lanes, above_low: Lanes, below: Lanes, below_low: Lanes) -> Lanes:
    """The quotient of two pairs."""
    inverse = 1 / below
    out = above * inverse
    return fused(_remainder_of(out, above, below) + fused(-out, below_low, above_low), inverse, out)


def _remainder_of(out: Lanes, above: Lanes, below: Lanes) -> Lanes:
    """above - out * below."""
    if out.code.module.fma:
        return fused(-out, below, above)
    back, back_low = product(out, below)
    return (above - back) - back_low


def logistic(x: Lanes) -> Lanes:
    """n / (1 + e), where e = exp(-|x|) and n is 1 or e; with the remainder of the division."""
    decaying = -abs(x)
    r, r_low, bits = less_logs(decaying)
    near, near_low = _near_exp_pair(r, r_low)
    e = _exp_reduced(near + near_low, bits, decaying, *EXP_RANGE[x.kind])
    above = where(x < 0.0, e, 1.0)
    below, below_low = total(1.0, e)
    return quotient(above, above.like(0.0), below, below_low)


def sinh(x: Lanes) -> Lanes:
    """h + h / (2h + 1), where h = (exp(x) - 1) / 2."""
    half = _quarter_expm1(abs(x))[0] * 2.0
    out = where(half > 2.0**60, half, half + half / (half + half + 1))
    return where(abs(x) < SMALL[x.kind], x, out.with_sign_of(x))


def cosh(x: Lanes) -> Lanes:
    r, _, bits = less_logs(where(abs(x) > 711.0, 711.0, abs(x)))
    half = scaled(0.5 + 0.5 * near_exp(r), bits)
    half = where(abs(x) > 710.4758600739439, math.inf, half)
    return where(x.is_nan(), x, half + 0.25 / half)


# ---- logarithms -----------------------------------------------------------------------------------------------------


def _split(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """x = 2^e m with sqrt(1/2) <= m < sqrt(2), of a positive normal number: e, m, and the bits of 2^e less those of 1."""
    places, bias = MANTISSA[x.kind], BIAS[x.kind]
    least = _bits_of(math.sqrt(0.5), x.kind)
    shifted = x.bits() + ((bias << places) - least)
    whole = 2.0**places
    e = ((shifted >> places) | _bits_of(whole, x.kind)).reread(x.kind) - (whole + bias)
    m = ((shifted & ((1 << places) - 1)) + least).reread(x.kind)
    return e, m, (shifted & -(1 << places)) - (bias << places)


def _log_near(f: Lanes, e: Lanes) -> Lanes:
    """log(1 + f) + e log(2): with s = f / (2 + f) it is 2 artanh(s) = f - s f + (s^3 and higher powers)."""
    high, low = LOG_2[f.kind]
    s = f / (f + 2)
    squared, half = s * s, 0.5 * f * f
    rest = fused(squared, polynomial(squared, tables.LOG[f.kind]), half)
    return fused(e, high, f - (half - fused(s, rest, e * low)))


def _logarithmic(x: Lanes, y: Lanes) -> Lanes:
    """log(x), given what it is for normal positive numbers."""
    tiny = TINY[x.kind]
    y = where(x < math.inf, y, x)
    return where(x < tiny, where(x <= -tiny, x.like(math.nan), -math.inf), y)


def log(x: Lanes) -> Lanes:
    e, m, _ = _split(x)
    return _logarithmic(x, _log_near(m - 1, e))


def log1p(x: Lanes) -> Lanes:
    """log(u) with u = 1 + x, whose rounding error is added to the m of u = 2^e m."""
    u = 1 + x
    lost = x - (u - 1)
    e, m, bits = _split(u)
    unit = where(x < 2.0**60, (x.like(1.0).bits() - bits).reread(x.kind), 0.0)  # 2^-e, as far as that is felt
    y = _log_near(fused(lost, unit, m - 1), e).with_sign_of(x)
    y = where(x < math.inf, y, x)
    return where(x <= -1.0, where(x < -1.0, x.like(math.nan), -math.inf), y)


def log_pair(x: Lanes) -> Pair:
    """log(x), with an error of 2^-65 of it: 2s + s^3 (2/3 + s^2 (...)), where all but the last part are pairs."""
    e, m, _ = _split(x)
    f = m - 1
    d, d_low = total(1.0, m)
    inverse = 1 / d
    s = f * inverse
    back, back_low = product(s, d)
    s_low = ((f - back) - back_low - s * d_low) * inverse
    z, z_low = product(s, s)
    z_low = fused(s + s, s_low, z_low)
    t, t_low = total(2 / 3, z * polynomial(z, tables.LOG_REST))
    t_low = t_low + 3.700743415417188e-17  # of 2/3
    u, u_low = product(z, t)
    u_low = u_low + fused(z, t_low, z_low * t)
    cubic, cubic_low = product(s, u)
    cubic_low = cubic_low + fused(s, u_low, s_low * u)
    near, near_low = total(s + s, cubic)
    near_low = near_low + (cubic_low + (s_low + s_low))
    high, low = total(e * LOG_2["f64"][0], near)
    high, low = total(high, low + fused(e, LOG_2["f64"][1], near_low))
    return _logarithmic(x, high), low


def asinh(x: Lanes) -> Lanes:
    """log(1 + a + a^2 / (1 + sqrt(1 + a^2))), where a = |x|; where a^2 would be infinite log(a) + log(2)."""
    size = abs(x)
    far, squared = size > 2.0**500, size * size
    inner = where(far, size, size + squared / (1 + sqrt(1 + squared)))
    return (log1p(inner) + where(far, size.like(math.log(2)), 0.0)).with_sign_of(x)


def acosh(x: Lanes) -> Lanes:
    far, t = x > 2.0**500, x - 1
    inner = where(far, x, t + sqrt(t * (t + 2)))
    return where(x < 1.0, math.nan, log1p(inner) + where(far, x.like(math.log(2)), 0.0))


def atanh(x: Lanes) -> Lanes:
    size = abs(x)
    return (0.5 * log1p((size + size) / (1 - size))).with_sign_of(x)


# ---- powers ---------------------------------------------------------------------------------------------------------


def sqrt(x: Lanes) -> Lanes:
    return x.function("sqrt")


def rsqrt(x: Lanes) -> Lanes:
    return inverse_root(x, lambda: 1 / sqrt(x))


# The first terms of (1 - e)^-p - 1, divided by e.
_OF_ROOT = {
    1: {"f32": (1 / 2, 3 / 8), "f64": (1 / 2, 3 / 8, 5 / 16, 35 / 128)},
    3: {"f32": (3 / 2, 15 / 8), "f64": (3 / 2, 15 / 8, 35 / 16, 315 / 128)},
}


def inverse_root(x: Lanes, plain: Callable[[], Lanes], power: int = 1) -> Lanes:
    """x^(-p/2) for a `power` p of 1 or 3; what `plain` writes where AVX-512 has no estimate y of x^(-1/2), or x is not between
    2^-600 and 2^600 (2^-60 and 2^60). Of y so many bits are kept that e = 1 - x y^2 is rounded once: y^p (1 - e)^(-p/2)."""
    if not x.code.module.avx512:
        return plain()
    double = x.kind == "f64"
    all_lanes = ["<8 x double> zeroinitializer", "i8 -1"] if double else ["<16 x float> zeroinitializer", "i16 -1"]
    estimate = by_vectors(x, f"llvm.x86.avx512.rsqrt14.{'pd' if double else 'ps'}.512", ["x", *all_lanes], x.kind)
    y = (estimate.bits() & (-1 << (36 if double else 12))).reread(x.kind)
    squared = y * y
    e = fused(-squared, x, 1.0)
    scale = y if power == 1 else squared * y
    out = fused(scale * e, polynomial(e, _OF_ROOT[power][x.kind]), scale)
    least, greatest = [_bits_of(2.0**n, x.kind) for n in ((-600, 600) if double else (-60, 60))]
    return rarely((x.bits() - least).reread(f"u{x.kind[1:]}") > greatest - least, out, plain)


def cbrt(x: Lanes) -> Lanes:
    """m r^2 for x = 8^k m, where r = m^(-1/3) by one step of fourth order, and a step of Newton's with the exact residual."""
    size = abs(x)
    bits = size.bits()
    exponent = ((bits >> 52) | _bits_of(2.0**52, "f64")).reread("f64") - (2.0**52 + 1023)
    third, third_bits = _rounded(exponent - 1, 1 / 3)
    rest = exponent - 3 * third  # 0, 1 or 2
    one = ((bits & ((1 << 52) - 1)) | _bits_of(1.0, "f64")).reread("f64")
    m = one * where(rest > 1.5, 4.0, where(rest > 0.5, rest.like(2.0), 1.0))
    start = where(rest > 1.5, 4 ** (-1 / 3), where(rest > 0.5, rest.like(2 ** (-1 / 3)), 1.0))
    r = polynomial(one, tables.INVERSE_CUBE_ROOT) * start
    h = 1 - m * r * r * r
    r = fused(r * h, polynomial(h, (1 / 3, 2 / 9, 14 / 81)), r)
    y = m * (r * r)
    squared, squared_low = product(y, y)
    cube, cube_low = product(squared, y)
    residual = (cube - m) + fused(squared_low, y, cube_low)
    y = fused(residual * (r * r), -1 / 3, y)
    out = scaled(y, third_bits).with_sign_of(x)
    return where((size < TINY["f64"]) | (size < math.inf).equals(0), x, out)


def power(x: Lanes, y: Lanes, exact: bool = True) -> Lanes:
    """exp(y log |x|), with the sign that C99 gives it; `exact` to the last bits of float64."""
    size = abs(x)
    if exact:
        log_high, log_low = log_pair(size)
        high, low = product(y, log_high)
        low = where(abs(high) < 1000.0, fused(y, log_low, low), 0.0)
        out = exp_pair(where(size.equals(1.0), 0.0, high), low)
    else:
        out = exp(where(size.equals(1.0), 0.0, y * log(size)))
    half = 0.5 * y
    whole = y.function("floor").equals(y)
    odd = whole & half.function("floor").differs(half)
    out = where((x <= -TINY[x.kind]) & (x > -math.inf) & whole.equals(0), math.nan, out)
    out = where(odd, out.with_sign_of(x), out)
    return where(y.equals(0.0), 1.0, out)


def remainder(x: Lanes, y: Lanes) -> Lanes:
    """x - y trunc(x / y), which is a number: one fused multiply-add finds it, if the quotient is right but for 1."""

    def by_library() -> Lanes:
        return Lanes(x.code, x.code.pure(f"frem {x.value}, {y.value.text}", x.kind, x.value.lanes, 40.0 * (x.value.lanes or 1)))

    if not x.code.module.fma:
        return by_library()
    size, by = abs(x), abs(y)
    quotient = (size / by).function("trunc")
    left = fused(-quotient, by, size)
    left = where(left < 0.0, left + by, left)
    left = where(size < by, size, left).with_sign_of(x)
    return rarely(quotient >= 2.0**52, left, by_library)


# ---- angles ---------------------------------------------------------------------------------------------------------


def _reduced_angle(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """r = x - n pi / 2 as a pair, and bits that end in those of n."""
    n, bits = _rounded(x, 2 / math.pi)
    largest, second, *others = HALF_PI[x.kind]
    first = fused(n, -largest, x)
    step = n * second
    r = first - step
    low = (first - r) - step
    low = low - fused(n, second, -step) if x.kind == "f32" else low
    for part in others:
        low = fused(n, -part, low)
    high = r + low
    left = high - r
    return high, (r - (high - left)) + (low - left), bits


def _near_cosine(z: Lanes) -> Pair:
    """cos(r), given z = r^2, for |r| <= pi / 4."""
    half = 0.5 * z
    high = 1 - half
    return high, fused(z * z, polynomial(z, tables.COSINE[z.kind]), (1 - high) - half)


def _beyond(name: str, x: Lanes, usual: Lanes) -> Lanes:
    """The C library's function of angles that are too large for `usual`."""
    return rarely(abs(x) > FAR["f64"], usual, lambda: Lanes(x.code, x.code.call_outside(name, "f64", [x.value])))


def sin(x: Lanes, quarter: int = 0) -> Lanes:
    """The sine of x + quarter * pi / 2."""

    def in_double() -> Lanes:
        return sin(x.converted("f64"), quarter).converted("f32")

    if x.kind == "f32" and not x.code.module.fma:
        return in_double()
    r, r_low, bits = _reduced_angle(x)
    z = r * r
    sine = r + fused(r * z, polynomial(z, tables.SINE[x.kind]), r_low)
    high, low = _near_cosine(z)
    turned = bits + quarter
    out = where((turned & 1).differs(0), high + low, sine)
    out = (out.bits() ^ ((turned & 2) << (30 if x.kind == "f32" else 62))).reread(x.kind)
    out = out if quarter else where(x.equals(0.0), x, out)
    return rarely(abs(x) > FAR["f32"], out, in_double) if x.kind == "f32" else _beyond("cos" if quarter else "sin", x, out)


def cos(x: Lanes) -> Lanes:
    return sin(x, 1)


def tan(x: Lanes) -> Lanes:
    """Sine over cosine, of which each is a pair, or minus the inverse of that."""
    r, r_low, bits = _reduced_angle(x)
    z = r * r
    cosine, cosine_low = total(*_near_cosine(z))
    sine, sine_low = total(r, r * z * polynomial(z, tables.SINE["f64"]))
    sine_low, cosine_low = fused(r_low, cosine, sine_low), fused(r, -r_low, cosine_low)
    odd = (bits & 1).differs(0)
    above, above_low = where(odd, -cosine, sine), where(odd, -cosine_low, sine_low)
    below, below_low = where(odd, sine, cosine), where(odd, sine_low, cosine_low)
    out = quotient(above, above_low, below, below_low)
    return _beyond("tan", x, where(abs(x) < SMALL["f64"], x, out))


def _turned(y: Lanes, x: Lanes, precise: str) -> Lanes:
    """The angle of (x, |y|): the arctangent of the smaller over the larger of |x| and |y|, which is turned into the octant."""
    across, along = abs(x), abs(y)
    steep = along > across
    small, large = where(steep, across, along), where(steep, along, across)
    endless = small.equals(math.inf) & large.equals(math.inf)
    t = where(endless, 1.0, small / where(large.equals(0.0), 1.0, large))
    z = t * t
    angle = fused(t * z, polynomial(z, tables.ARCTANGENT[precise]), t)
    left = x.bits() < 0
    flat = where(left, PI[0] - (angle - PI[1]), angle)
    return where(steep, 0.5 * PI[0] - (where(left, -angle, angle) - 0.5 * PI[1]), flat)  # one rounding, on either side


def atan2(y: Lanes, x: Lanes, precise: str = "f64") -> Lanes:
    return _turned(y, x, precise).with_sign_of(y)


def atan(x: Lanes, precise: str = "f64") -> Lanes:
    return atan2(x, x.like(1.0), precise)


def asin(x: Lanes, precise: str = "f64") -> Lanes:
    return atan2(x, sqrt((1 - x) * (1 + x)), precise)


def acos(x: Lanes, precise: str = "f64") -> Lanes:
    return _turned(sqrt((1 - x) * (1 + x)), x, precise)
