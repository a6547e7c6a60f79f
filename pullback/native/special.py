"""Error functions and the gamma function's as vector code, for float64; erf for float32 too."""

from __future__ import annotations

import math

from pullback.native import math_tables as tables
from pullback.native.elementary import by_pieces, exp_inside, exp_pair, log, log_pair, quotient, sqrt
from pullback.native.lanes import Lanes, fused, polynomial, product, rarely, smooth, total, where

# ---- error functions ------------------------------------------------------------------------------------------------


def erf(x: Lanes) -> Lanes:
    """x + x P(x^2) between -1 and 1; beyond 1 - exp(Q(|x|))."""
    if x.code.module.avx512:
        return by_pieces(x, *tables.ERF_PIECES[x.kind])
    end = 4.0 if x.kind == "f32" else 6.0
    size = abs(x)
    near = fused(size, polynomial(size * size, tables.ERF[x.kind]), size)
    far = 1 - exp_inside(polynomial(where(size > end, end, size) - 1, tables.LOG_ERFC[x.kind]))
    return where(size < 1.0, near, far).with_sign_of(x)


def erfc(x: Lanes) -> Lanes:
    """1 - erf(x) for |x| < 1/2; else exp(-x^2), of which the exponent is a pair, times a smooth function, and 2 less that."""
    near = 0.5 - fused(x, polynomial(x * x, tables.ERF["f64"]), x - 0.5)
    size = where(abs(x) > 28.0, 28.0, abs(x))
    high, low = product(size, size)
    t = (size - 3.75) / (size + 3.75)
    above = total(tables.ERFC[0], t * polynomial(t, tables.ERFC[1:]) + tables.ERFC_LOW)
    far = exp_pair(-high, -low) * quotient(*above, *total(size + size, size.like(1.0)))
    return where(abs(x) < 0.5, near, where(x < 0.0, 2 - far, far))


def short_erfc(x: Lanes) -> Lanes:
    """erfc to the digits of float32."""
    near = 0.5 - fused(x, polynomial(x * x, tables.ERF["f32"]), x - 0.5)
    size = where(abs(x) > 12.0, 12.0, abs(x))
    inverse = 1 / (size + 3)
    far = exp_inside(-(size * size), "f32") * (inverse * polynomial(inverse, tables.SHORT_ERFC))
    return where(abs(x) < 0.5, near, where(x < 0.0, 2 - far, far))


def erf_inv(x: Lanes) -> Lanes:
    """x P(w), where w = -log(1 - x^2). Source of the variable: Giles, "Approximating the erfinv function" (2012)."""
    w = -log((1 - x) * (1 + x))
    usual = x * smooth(w - 3.125, tables.ERF_INVERSE)

    def near_one() -> Lanes:
        s = sqrt(w)
        tail = x * (s * smooth(s - 4.3, tables.ERF_INVERSE_TAIL))
        return where(w.equals(math.inf), x * math.inf, tail)

    return rarely(w > 6.25, usual, near_one)


# ---- the gamma function ---------------------------------------------------------------------------------------------


def _sine_pi(x: Lanes) -> Lanes:
    """sin(pi x), for |x| <= 1/2."""
    return x * smooth(x * x, tables.SINE_PI)


def lgamma(x: Lanes) -> Lanes:
    """log |Gamma(x)|: between 1.25 and 2.25 by a polynomial, up to 5.25 by Gamma(x + 1) = x Gamma(x), beyond by Stirling's
    series; of negative numbers by reflection, with an absolute error of some units in the last place of the terms.
    Source: DLMF 5.5, 5.11.
    """
    size = abs(x)
    small = size < 5.25
    base, passed = where(small, size, 2.0), size.like(1.0)
    for _ in range(3):
        far = base >= 2.25
        base = where(far, base - 1, base)
        passed = where(far, passed * base, passed)
    low, least = size < 1.25, size < 0.25
    passed = where(low, where(least, size * (size + 1), size), passed)
    off = where(least, size, where(low, size - 1, base - 2))
    log_high, log_low = log_pair(where(small, passed, size))
    sign = where(low, size.like(-1.0), 1.0)
    # Below 1.46 the terms are several times as large as the result: the first two are pairs.
    first, second, *others = tables.LOG_GAMMA
    inner, inner_low = total(second, off * polynomial(off, others))
    outer, outer_low = product(off, inner)
    factor, factor_low = total(first, outer)
    factor_low = factor_low + fused(off, inner_low + tables.LOG_GAMMA_LOW, outer_low)
    rest = fused(off, factor_low, where(passed > 0.0, sign * log_low, 0.0))
    near = fused(off, factor, sign * log_high) + rest
    less, less_low = total(log_high, size.like(-1.0))
    shifted, inverse = size - 0.5, 1 / size
    high, high_low = product(shifted, less)
    rest = fused(polynomial(inverse * inverse, tables.STIRLING), inverse, 0.4189385332046727)  # log(2 pi) / 2 - 1/2
    rest = fused(shifted, less_low + log_low, high_low) + rest
    out = where(small, near, where(high < 2.0**990, high + rest, high))

    def reflected() -> Lanes:
        sine = abs(_sine_pi(size - size.function("rint")))
        return where((size < 2.0**-60) | out.equals(math.inf), out, log(math.pi / (sine * size)) - out)

    return rarely(x < 0.0, out, reflected)


def digamma(x: Lanes) -> Lanes:
    """The derivative of log Gamma: from the polynomial around its root by steps of 1, beyond 5.25 by Stirling's series; of
    negative numbers by reflection, with an absolute error as lgamma's. Source: DLMF 5.5, 5.11.
    """
    whole = where(x < 0.0, 1 - x, x)
    small = whole < 5.25
    base = where(small, whole, 1.5)
    up = whole < 1.0
    above, below = where(up, base.like(-1.0), 0.0), where(up, base, 1.0)
    base = where(up, base + 1, base)
    for _ in range(3):
        far = base >= 2.25
        base = where(far, base - 1, base)
        above = where(far, fused(above, base, below), above)
        below = where(far, below * base, below)
    off = (base - tables.DIGAMMA_ROOT[0]) - tables.DIGAMMA_ROOT[1]
    near = fused(off, smooth(base - 1.625, tables.DIGAMMA), above / below)
    inverse = 1 / whole
    z = inverse * inverse
    far_out = log(whole) - fused(z, polynomial(z, tables.DIGAMMA_REST), 0.5 * inverse)
    out = where(small, near, far_out)

    def reflected() -> Lanes:
        off = x - x.function("rint")
        cotangent = math.pi * _sine_pi(0.5 - abs(off)) / _sine_pi(off)
        return where(off.equals(0.0), math.nan, out - cotangent)

    out = rarely(x < 0.0, out, reflected)
    return where(x.equals(0.0), x.like(math.inf).with_sign_of(-x), out)
