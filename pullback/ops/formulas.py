"""Formulas in NumPy's names, which compute on arrays or write StableHLO: one text for eager and compiled code.

`lowered(formula)` is the lowering rule that calls the formula with `Written` values. Complex functions are written by their
parts, since XLA's own lose signed zeros, infinities, and small numbers; the sign of a zero tells on which side of a branch cut
its number lies. Source: C99, Annex G.6; Kahan, "Branch cuts for complex elementary functions" (1987).
"""

from __future__ import annotations

import functools
import math

import numpy as np

from pullback.core.dtypes import COMPLEX64, COMPLEX128, FLOAT32, FLOAT64
from pullback.stablehlo.writer import TensorType

PART_DTYPE = {COMPLEX64: FLOAT32, COMPLEX128: FLOAT64}
COMPLEX_DTYPE = {part: whole for whole, part in PART_DTYPE.items()}


class Written(np.lib.mixins.NDArrayOperatorsMixin):
    """A value in a function that is being written. Numbers that it meets become constants of its type."""

    def __init__(self, write, value):
        self.write, self.value, self.dtype = write, value, value.dtype

    @property
    def real(self):
        return self._part("real")

    @property
    def imag(self):
        return self._part("imag")

    def _part(self, name):
        return Written(self.write, self.write.op(f"stablehlo.{name}", [self.value], part_type(self.value)))

    def __array_ufunc__(self, ufunc, method, *operands):
        operation, values = OPERATIONS[ufunc], self._values(operands)
        if isinstance(operation, str):
            return Written(self.write, self.write.elementwise(operation, *values))
        return Written(self.write, operation(self.write, *values))

    def __array_function__(self, function, types, args, kwargs):
        if function is np.ones_like:
            return Written(self.write, self.write.like(self.value, 1))
        assert function is np.where, function
        which, *choices = args
        like = next(choice for choice in choices if isinstance(choice, Written))
        return Written(self.write, self.write.select(which.value, *like._values(choices)))

    def _values(self, operands):
        return [x.value if isinstance(x, Written) else self.write.like(self.value, x) for x in operands]

    def astype(self, dtype):
        return Written(self.write, self.write.convert(self.value, np.dtype(dtype)))


def lowered(formula):
    """The lowering rule that writes a formula."""

    def rule(write, *values, **params):
        return formula(*[Written(write, value) for value in values], **params).value

    return rule


def wide(formula):
    """The formula, computed in float32 and rounded once where its operands are narrower floats."""

    @functools.wraps(formula)
    def computed(*operands, **params):
        dtype = operands[0].dtype
        if dtype.itemsize > 2 or dtype.kind not in "fV":
            return formula(*operands, **params)
        return formula(*[operand.astype(np.float32) for operand in operands], **params).astype(dtype)

    computed.nin = formula.__code__.co_argcount  # of a ufunc: how many operands it takes
    return computed


def part_type(value):
    """The type of a part of a complex value."""
    return TensorType(value.shape, PART_DTYPE[value.dtype])


def joined(re, im):
    """The complex number with these parts: `re + 1j * im` would lose the signs of zeros."""
    if isinstance(re, Written):
        whole = TensorType(re.value.shape, COMPLEX_DTYPE[re.dtype])
        return Written(re.write, re.write.op("stablehlo.complex", [re.value, im.value], whole))
    out = np.empty(np.broadcast_shapes(re.shape, im.shape), COMPLEX_DTYPE[re.dtype])
    out.real, out.imag = re, im
    return out


def _absolute(write, x):
    if x.dtype.kind != "c":
        return x if x.dtype.kind == "u" else write.elementwise("stablehlo.abs", x)
    size = write.op("stablehlo.abs", [x], part_type(x))
    infinity = write.like(size, np.inf)  # where a part is infinite, whatever the other one is
    part = Written(write, x)
    return write.select((np.isinf(part.real) | np.isinf(part.imag)).value, infinity, size)


def _signbit(write, x):
    bits = write.bitcast(x, np.dtype(f"i{x.dtype.itemsize}"))
    return write.compare("LT", bits, write.like(bits, 0))


def _in_order(direction, first, last):
    """x `LT|LE|GT|GE` y; complex numbers are compared `first` by their real parts, then, where these are equal, `last` by their
    imaginary ones, and never if one is NaN (as NumPy)."""

    def compare(write, x, y):
        if x.dtype.kind != "c":
            return write.compare(direction, x, y)
        x, y = Written(write, x), Written(write, y)
        known = (x.imag == x.imag) & (y.imag == y.imag)
        return (first(x.real, y.real) & known | (x.real == y.real) & last(x.imag, y.imag)).value

    return compare


# ---- complex functions ----------------------------------------------------------------------------------------------


def by_kind(real, of_complex, of_integers=None):
    """The formula `of_complex` of complex numbers, `of_integers` of integers, if that is given, and `real` of all others."""
    rules = {"c": of_complex, "i": of_integers or real, "u": of_integers or real}

    def formula(*operands):
        return rules.get(operands[0].dtype.kind, real)(*operands)

    formula.nin, formula.of_floats = of_complex.__code__.co_argcount, real
    return formula


def by_parts(real, formula):
    """The lowering rule that is `real` (a rule, or the name of an operation) on real numbers, and writes a formula on complex
    ones."""
    of_complex = lowered(formula)

    def rule(write, *operands):
        if operands[0].dtype.kind == "c":
            return of_complex(write, *operands)
        return write.elementwise(real, *operands) if isinstance(real, str) else real(write, *operands)

    return rule


def operation(name, z):
    """An operation that NumPy lacks, or one that is put right here, on a value that is being written."""
    return Written(z.write, z.write.elementwise(name, z.value))


def _swapped(formula):
    """-i f(iz), of an f with f(conj z) = conj f(z): f with the parts of z exchanged, and then those of the result."""

    def turned(z):
        out = formula(joined(z.imag, z.real))
        return joined(out.imag, out.real)

    return turned


def _grown(power, base, x, factor):
    """base^x * factor, infinite only if the product is."""
    limit = int(math.log(float(np.finfo(x.dtype).max), base)) - 1
    far = x > limit
    out = power(np.where(far, x - limit, x)) * factor
    return np.where(far, out * base**limit, out)


def _exponential(power, base):
    """base^z = base^x (cos(y log base) + i sin(y log base)), given the real power."""

    def formula(z):
        x, y = z.real, z.imag * math.log(base)
        u, v = _grown(power, base, x, np.cos(y)), _grown(power, base, x, np.sin(y))
        lost = np.isinf(x) & ~np.isfinite(y)
        v = np.where(lost & (x < 0), np.copysign(0, y), v)
        return joined(np.where(lost, np.maximum(x, 0), u), np.where(y == 0, y, v))

    return formula


exp2_by_parts = _exponential(np.exp2, 2)


def _half_exponential(function, x, factor, odd):
    """sinh(x) or cosh(x) times a factor, infinite only if the product is."""
    size = np.abs(x)
    far = _grown(np.exp, math.e, size, np.copysign(0.5, x) * factor if odd else 0.5 * factor)
    return np.where(size > 80, far, function(x) * factor)


def _sinh(z):
    x, y = z.real, z.imag
    lost = ((x == 0) | np.isinf(x)) & ~np.isfinite(y)
    u = np.where(lost, np.where(x == 0, x, np.inf), _half_exponential(np.sinh, x, np.cos(y), True))
    return joined(u, np.where(y == 0, y, _half_exponential(np.cosh, x, np.sin(y), False)))


def _cosh(z):
    x, y = z.real, z.imag
    u = np.where(np.isinf(x) & ~np.isfinite(y), np.inf, _half_exponential(np.cosh, x, np.cos(y), False))
    v = _half_exponential(np.sinh, x, np.sin(y), True)
    v = np.where((x == 0) & ~np.isfinite(y), 0, v)
    return joined(u, np.where(y == 0, np.copysign(1, x) * y, v))


def _tanh(z):
    x, y, out = z.real, z.imag, operation("stablehlo.tanh", z)
    end = (y == 0) | np.isinf(x) & ~np.isfinite(y)
    return joined(np.where(x == 0, x, out.real), np.where(end, np.copysign(0, y), out.imag))


def tanh_by_parts(z):
    """Where x is infinite, 1 with the sign of x, and a zero with the sign of y, as the Array API has it."""
    out = np.tanh(z)
    return joined(out.real, np.where(np.isinf(z.real), np.copysign(0, z.imag), out.imag))


def expm1_by_parts(z):
    """e^x cos(y) - 1 + i e^x sin(y); near 0 the real part is expm1(x) cos(y) - 2 sin(y/2)^2."""
    x, y, grown = z.real, z.imag, np.exp(z)
    near = np.expm1(x) * np.cos(y) - 2 * np.square(np.sin(0.5 * y))
    u = np.where(np.abs(x) < 1, near, grown.real - 1)
    return joined(np.where((x == 0) & (y == 0), 0, u), grown.imag)


def log1p_by_parts(z):
    """log |1 + z| + i arg(1 + z); on NumPy arrays, where |1 + z| is near 1, of |1 + z|^2 = 1 + x (2 + x) + y^2."""
    if isinstance(z, Written):
        return np.log1p(z)
    x, y = z.real.astype(np.float64), z.imag.astype(np.float64)
    size = np.hypot(1 + x, y)
    near = 0.5 * np.log1p(x * (2 + x) + y * y)
    return joined(np.where((size > 0.5) & (size < 2), near, np.log(size)), np.arctan2(y, 1 + x)).astype(z.dtype)


def _logarithm(name):
    """A logarithm of XLA's, infinite where a part is, whatever the other one is (C99, G.6.3.2)."""

    def formula(z):
        out = operation(name, z)
        return joined(np.where(np.isinf(z.real) | np.isinf(z.imag), np.inf, out.real), out.imag)

    return formula


def _sqrt(z):
    """Infinite where a part is, whatever the other one is (C99, G.6.4.2)."""
    x, y, out = z.real, z.imag, operation("stablehlo.sqrt", z)
    u = np.where(np.isinf(y) | (x == np.inf), np.inf, np.abs(out.real))
    v = np.where(np.isinf(y) | (x == np.inf) & np.isnan(y), y, np.copysign(out.imag, y))
    return joined(u, np.where((x == -np.inf) & np.isnan(y), np.inf, v))


def _boxed(z):
    """The parts of z, and whether it is infinite: there a part that is so becomes 1, the other one 0, with their signs."""
    far = np.isinf(z.real) | np.isinf(z.imag)

    def part(x):
        return np.where(far, np.where(np.isinf(x), np.copysign(1, x), np.copysign(0, x)), x)

    return (part(z.real), part(z.imag)), far


def _settled(part, against):
    """A part of a factor, 0 for NaN where the other factor is infinite."""
    return np.where(against & np.isnan(part), np.copysign(0, part), part)


def product_by_parts(z, w):
    """z w, infinite where a factor is and the other is not zero. Source: C99, G.5.1, example 1."""
    u, v = z.real * w.real - z.imag * w.imag, z.real * w.imag + z.imag * w.real
    ((a, b), z_far), ((c, d), w_far) = _boxed(z), _boxed(w)
    a, b, c, d = _settled(a, w_far), _settled(b, w_far), _settled(c, z_far), _settled(d, z_far)
    lost = np.isnan(u) & np.isnan(v) & (z_far | w_far)
    return joined(np.where(lost, np.inf * (a * c - b * d), u), np.where(lost, np.inf * (a * d + b * c), v))


def quotient_by_parts(z, w):
    """z / w, infinite where z is infinite or w is zero, and zero where w is infinite, as XLA has it; NumPy's is NaN there.
    Source: C99, G.5.1, example 2."""
    out = np.true_divide(z, w)
    if (out.write.platform != "native") if isinstance(out, Written) else np.isfinite(out).all():
        return out
    ((a, b), z_far), ((c, d), w_far) = _boxed(z), _boxed(w)
    size = np.where(w_far, 0.0, np.inf + 0 * c)
    lost = np.isnan(out.real) & np.isnan(out.imag) & np.where(w_far, np.isfinite(z), z_far & np.isfinite(w))
    u, v = np.where(lost, size * (a * c + b * d), out.real), np.where(lost, size * (b * c - a * d), out.imag)
    none = (w == 0) & ~(np.isnan(z.real) & np.isnan(z.imag))
    pole = np.copysign(np.inf, w.real)
    u, v = np.where(none, pole * z.real, u), np.where(none, pole * z.imag, v)
    return joined(u, v).astype(out.dtype)


ratio = by_kind(np.divide, quotient_by_parts)


def power_by_parts(z, w):
    """z^w = exp(w log z), as in C99; z^0 is 1, z^1 is z, and 0^w is 0 where the real part of w is positive, else NaN."""
    of_zero = np.where(w.real > 0, 0, np.nan * w.real)
    power = np.where(z == 0, joined(of_zero, of_zero), np.exp(product_by_parts(w, np.log(z))))
    return np.where(w == 0, 1, np.where(w == 1, z, power))


def rsqrt_by_parts(z):
    """1 / w = conj(w) / |w|^2, where w = sqrt(z)."""
    w = np.sqrt(z)
    size = np.abs(w)
    u, v = w.real / size / size, -w.imag / size / size
    end = np.isinf(size)
    u, v = np.where(end, 0, u), np.where(end, np.copysign(0, v), v)
    return joined(np.where(size == 0, np.inf, u), v)


def sign_by_parts(z):
    """z / |z|, or 0; of an infinite number the direction of the part that is infinite, NaN if both are."""
    size, x, y = np.abs(z), z.real, z.imag
    nothing, far = size == 0, np.isinf(size)
    divisor = np.where(nothing, 1, size)

    def part(own, other):
        end = np.where(np.isinf(own), np.where(np.isinf(other), np.nan, np.copysign(1, own)), np.copysign(0, own))
        return np.where(nothing, 0, np.where(far, end, own / divisor))

    return joined(part(x, y), part(y, x))


def _unclear(z):
    """Whether a part of z is NaN, and none is infinite."""
    return (np.isnan(z.real) | np.isnan(z.imag)) & ~np.isinf(z.real) & ~np.isinf(z.imag)


def _asinh(z):
    x, y, out, unclear = z.real, z.imag, operation("chlo.asinh", z), _unclear(z)
    v = np.where(unclear, np.where(y == 0, y, np.nan), np.copysign(out.imag, y))
    return joined(np.where(unclear, np.nan, np.copysign(out.real, x)), v)


def _atanh(z):
    x, y, out, unclear = z.real, z.imag, operation("chlo.atanh", z), _unclear(z)
    u = np.where(unclear, np.where(x == 0, x, np.nan), np.copysign(out.real, x))
    return joined(u, np.where(unclear | np.isnan(y), np.nan, np.copysign(out.imag, y)))


def _acos(z):
    x, y, out, unclear = z.real, z.imag, operation("chlo.acos", z), _unclear(z)
    u = np.where(unclear, np.where(x == 0, math.pi / 2, x + np.nan), out.real)
    return joined(u, np.where(unclear, np.nan, np.copysign(out.imag, -y)))


def _acosh(z):
    angle = _acos(z)
    return joined(np.abs(angle.imag), np.copysign(angle.real, z.imag))


@wide
def _real_sinh(x):
    """(e + e / (1 + e)) / 2, where e = exp(x) - 1; of large numbers by exp(x / 2), which overflows later than the result."""
    size = np.abs(x)
    grown, half = np.expm1(np.minimum(size, 20)), np.exp(0.5 * size)
    return np.copysign(np.where(size < 20, 0.5 * (grown + grown / (1 + grown)), (0.5 * half) * half), x)


@wide
def _real_cosh(x):
    size = np.abs(x)
    grown, half = np.exp(np.minimum(size, 20)), np.exp(0.5 * size)
    return np.where(size < 20, 0.5 * (grown + 1 / grown), (0.5 * half) * half)


OPERATIONS = {
    np.add: "stablehlo.add", np.subtract: "stablehlo.subtract", np.multiply: "stablehlo.multiply",
    np.divide: "stablehlo.divide", np.negative: "stablehlo.negate", np.power: "stablehlo.power",
    np.fmod: "stablehlo.remainder", np.rint: "stablehlo.round_nearest_even",
    np.maximum: by_parts("stablehlo.maximum", lambda x, y: np.where((x != x) | (x >= y), x, y)),
    np.minimum: by_parts("stablehlo.minimum", lambda x, y: np.where((x != x) | (x <= y), x, y)),
    np.bitwise_and: "stablehlo.and", np.bitwise_or: "stablehlo.or", np.bitwise_xor: "stablehlo.xor",
    np.sign: "stablehlo.sign", np.invert: "stablehlo.not",
    np.log1p: by_parts("stablehlo.log_plus_one", _logarithm("stablehlo.log_plus_one")),
    np.exp: by_parts("stablehlo.exponential", _exponential(np.exp, math.e)),
    np.exp2: lambda write, x: write.elementwise("stablehlo.power", write.like(x, 2), x),
    np.expm1: "stablehlo.exponential_minus_one",
    np.log: by_parts("stablehlo.log", _logarithm("stablehlo.log")),
    np.sqrt: by_parts("stablehlo.sqrt", _sqrt),
    np.sin: by_parts("stablehlo.sine", _swapped(_sinh)), np.sinh: by_parts(lowered(_real_sinh), _sinh),
    np.cos: by_parts("stablehlo.cosine", lambda z: _cosh(joined(-z.imag, z.real))),
    np.cosh: by_parts(lowered(_real_cosh), _cosh),
    np.tan: by_parts("stablehlo.tan", _swapped(_tanh)), np.tanh: by_parts("stablehlo.tanh", _tanh),
    np.arcsin: by_parts("chlo.asin", _swapped(_asinh)), np.arcsinh: by_parts("chlo.asinh", _asinh),
    np.arccos: by_parts("chlo.acos", _acos), np.arccosh: by_parts("chlo.acosh", _acosh),
    np.arctan: by_parts("chlo.atan", _swapped(_atanh)), np.arctanh: by_parts("chlo.atanh", _atanh),
    np.arctan2: "stablehlo.atan2", np.cbrt: "stablehlo.cbrt", np.floor: "stablehlo.floor", np.ceil: "stablehlo.ceil",
    np.left_shift: "stablehlo.shift_left", np.right_shift: "stablehlo.shift_right_logical",  # of unsigned integers
    np.absolute: _absolute,
    np.signbit: _signbit,
    np.copysign: lowered(lambda x, y: np.where(np.signbit(y), -np.abs(x), np.abs(x))),
    np.square: lowered(lambda x: x * x),
    np.equal: lambda write, x, y: write.compare("EQ", x, y),
    np.not_equal: lambda write, x, y: write.compare("NE", x, y),
    np.less: _in_order("LT", np.less, np.less), np.less_equal: _in_order("LE", np.less, np.less_equal),
    np.greater: _in_order("GT", np.greater, np.greater), np.greater_equal: _in_order("GE", np.greater, np.greater_equal),
    np.isnan: lambda write, x: write.compare("NE", x, x),
    np.isinf: lowered(lambda x: np.abs(x) == np.inf),
    np.isfinite: lambda write, x: write.op("stablehlo.is_finite", [x], TensorType(x.shape, np.dtype(bool))),
}  # fmt: skip
