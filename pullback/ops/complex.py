"""Complex numbers and their parts; absolute value and sign, which are real functions of complex numbers.

Transposition is with respect to the pairing Re(cotangent * tangent), so that multiplication transposes to multiplication by the
same number, not by its conjugate.
"""

from __future__ import annotations

import numpy as np

from pullback.core.dtypes import COMPLEX64, COMPLEX128, FLOAT32, FLOAT64, kind
from pullback.core.errors import DtypeError
from pullback.core.primitive import primitive
from pullback.core.tracing import type_of
from pullback.core.types import is_unknown
from pullback.core.zero import ZERO
from pullback.ops.arithmetic import div, mul, neg
from pullback.ops.branch_cuts import parts
from pullback.ops.compare import eq, select
from pullback.ops.families import check_kinds
from pullback.ops.literals import literal
from pullback.ops.pointwise import Elementwise, operand_shape, same_dtype
from pullback.stablehlo.writer import TensorType

PART_DTYPE = {COMPLEX64: FLOAT32, COMPLEX128: FLOAT64}
COMPLEX_DTYPE = {part: whole for whole, part in PART_DTYPE.items()}


class Part(Elementwise):
    """A real number made from a complex one; linear over the reals."""

    kinds = "c"
    linear = True

    def result_type(primitive, x):
        check_kinds(primitive.name, "c", x)
        return x.with_dtype(PART_DTYPE[x.dtype], x.weak)

    def samples(rng):
        yield (rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3)),), {}


@primitive
class real(Part):
    """The real part of x."""

    evaluate = np.real

    def lower(write, x):
        return write.op("stablehlo.real", [x])

    def transpose(cotangent, x):
        return (complex(cotangent, literal(0, cotangent)),)


@primitive
class imag(Part):
    """The imaginary part of x."""

    evaluate = np.imag

    def lower(write, x):
        return write.op("stablehlo.imag", [x])

    def transpose(cotangent, x):
        return (complex(literal(0, cotangent), neg(cotangent)),)


@primitive
class complex(Elementwise):
    """x + iy."""

    kinds = "f"
    linear = True

    def result_type(x, y):
        both = same_dtype("complex", (x, y))
        if both.dtype not in COMPLEX_DTYPE:
            raise DtypeError(f"complex takes float32 or float64 operands, but got {x}, {y}. Convert with .astype().")
        return both.with_shape(operand_shape("complex", (x, y))).with_dtype(COMPLEX_DTYPE[both.dtype], both.weak)

    def evaluate(x, y):
        out = np.empty(x.shape or y.shape, COMPLEX_DTYPE[x.dtype])
        out.real = x
        out.imag = y
        return out

    def lower(write, x, y):
        return write.op("stablehlo.complex", [x, y])

    def transpose(cotangent, x, y):
        return (real(cotangent) if is_unknown(x) else None, neg(imag(cotangent)) if is_unknown(y) else None)

    def samples(rng):
        yield (rng.normal(size=(2, 3)), rng.normal(size=(2, 3))), {}
        yield (rng.normal(size=(2, 3)), rng.normal()), {}
        yield (rng.normal(), rng.normal(size=(2, 3))), {}


@primitive
class conj(Elementwise):
    """The complex conjugate of x."""

    kinds = "c"
    linear = True
    evaluate = np.conjugate

    def lower(write, x):
        part = TensorType(x.shape, PART_DTYPE[x.dtype])
        re = write.op("stablehlo.real", [x], part)
        im = write.op("stablehlo.imag", [x], part)
        return write.op("stablehlo.complex", [re, write.elementwise("stablehlo.negate", im)])

    def transpose(cotangent, x):
        return (conj(cotangent),)

    def samples(rng):
        yield (rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3)),), {}


@primitive
class sign(Elementwise):
    """-1, 0 or 1 as x is negative, zero or positive; of a complex number, x / |x|, or 0."""

    kinds = "iufc"
    symbolic_zeros = True
    evaluate = np.sign

    def lower(write, x):
        if x.dtype.kind == "u":
            return write.elementwise("stablehlo.minimum", x, write.constant(1, x.type))
        out = write.elementwise("stablehlo.sign", x)
        return write.select(write.compare("EQ", x, write.like(x, 0)), write.like(x, 0), out) if x.dtype.kind != "i" else out

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

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {}


@primitive
class abs(Elementwise):
    """The absolute value of x; of a complex number, its distance from 0, which is real."""

    kinds = "iufc"
    symbolic_zeros = True
    evaluate = np.absolute

    def result_type(x):
        check_kinds("abs", "iufc", x)
        return x.with_dtype(PART_DTYPE[x.dtype], x.weak) if x.dtype in PART_DTYPE else x

    def lower(write, x):
        if x.dtype.kind == "u":
            return x
        size = write.op("stablehlo.abs", [x])
        if x.dtype.kind != "c":
            return size
        infinity = write.like(size, np.inf)  # where a part is infinite, whatever the other one is
        sides = [write.compare("EQ", write.elementwise("stablehlo.abs", part), infinity) for part in parts(write, x)]
        return write.select(write.elementwise("stablehlo.or", *sides), infinity, size)

    def jvp(primals, tangents):
        (x,), (t,) = primals, tangents
        if kind(type_of(x).dtype) != "c":
            return abs(x), mul(t, sign(x))
        return abs(x), real(mul(conj(sign(x)), t))

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {}
