"""Complex numbers and their parts; absolute value and sign, which are real functions of complex numbers.

Transposition is with respect to the pairing Re(cotangent * tangent), so that multiplication transposes to multiplication by the
same number, not by its conjugate.
"""

from __future__ import annotations

import numpy as np

from pullback.core.dtypes import kind
from pullback.core.errors import DtypeError
from pullback.core.primitive import primitive
from pullback.core.tracing import type_of
from pullback.core.types import is_unknown
from pullback.core.zero import ZERO
from pullback.ops.arithmetic import div, mul, neg
from pullback.ops.compare import eq, select
from pullback.ops.families import check_kinds
from pullback.ops.formulas import COMPLEX_DTYPE, PART_DTYPE, joined, sign_by_parts, wide
from pullback.ops.literals import literal
from pullback.ops.pointwise import Formula, Function, OfTwo, operand_shape, same_dtype


def _real_type(primitive, x):
    """The type of a real number made from x."""
    check_kinds(primitive, x)
    return x.with_dtype(PART_DTYPE.get(x.dtype, x.dtype), x.weak)


class Part(Formula):
    """A real number made from a complex one; linear over the reals."""

    cost = 0
    kinds = "c"
    linear = True
    result_type = _real_type

    def samples(rng):
        yield (rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3)),), {}


@primitive
class real(Part):
    """The real part of x."""

    def evaluate(x):
        return x.real

    def transpose(cotangent, x):
        return (complex(cotangent, literal(0, cotangent)),)


@primitive
class imag(Part):
    """The imaginary part of x."""

    def evaluate(x):
        return x.imag

    def transpose(cotangent, x):
        return (complex(literal(0, cotangent), neg(cotangent)),)


@primitive
class complex(OfTwo):
    """x + iy."""

    cost = 0
    kinds = "f"
    linear = True
    evaluate = joined

    def result_type(x, y):
        both = same_dtype("complex", (x, y))
        if both.dtype not in COMPLEX_DTYPE:
            raise DtypeError(f"complex takes float32 or float64 operands, but got {x}, {y}. Convert with .astype().")
        return both.with_shape(operand_shape("complex", (x, y))).with_dtype(COMPLEX_DTYPE[both.dtype], both.weak)

    def transpose(cotangent, x, y):
        return (real(cotangent) if is_unknown(x) else None, neg(imag(cotangent)) if is_unknown(y) else None)


@primitive
class conj(Function):
    """The complex conjugate of x."""

    kinds = "c"
    linear = True

    def evaluate(x):
        return joined(x.real, -x.imag)

    def transpose(cotangent, x):
        return (conj(cotangent),)


@primitive
class sign(Function):
    """-1, 0 or 1 as x is negative, zero or positive; of a complex number, x / |x|, or 0."""

    kinds = "iufc"
    symbolic_zeros = True

    @wide
    def evaluate(x):
        if x.dtype.kind == "c":
            return sign_by_parts(x)
        if x.dtype.kind == "u":
            return np.minimum(x, 1)
        return np.sign(x)

    def jvp(primals, tangents):
        (x,), (t,) = primals, tangents
        out = sign(x)
        if kind(type_of(x).dtype) != "c":
            return out, ZERO
        # s = x / |x| can only turn: ds = i s Im(conj(s) dx) / |x|
        turn = imag(mul(conj(out), t))
        size = abs(x)
        zero = literal(0, turn)
        rate = div(turn, select(eq(size, zero), literal(np.inf, size), size))
        return out, mul(out, complex(zero, rate))


@primitive
class abs(Function):
    """The absolute value of x; of a complex number, its distance from 0, which is real."""

    kinds = "iufc"
    symbolic_zeros = True
    evaluate = np.absolute
    result_type = _real_type

    def jvp(primals, tangents):
        (x,), (t,) = primals, tangents
        if kind(type_of(x).dtype) != "c":
            return abs(x), mul(t, sign(x))
        return abs(x), real(mul(conj(sign(x)), t))
