"""Complex functions on both sides of their branch cuts: there the sign of a zero tells on which side its number lies.

XLA's code loses that sign in places. These functions are symmetric, f(conj z) = conj f(z), and some are odd, so the signs of
their results follow from those of z. Source: C99, Annex G.6; Kahan, "Branch cuts for complex elementary functions" (1987).
"""

from __future__ import annotations

import numpy as np

from pullback.stablehlo.writer import TensorType


def parts(write, z):
    """The real and the imaginary part of a complex value."""
    part = TensorType(z.shape, np.dtype(f"f{z.dtype.itemsize // 2}"))
    return [write.op(f"stablehlo.{which}", [z], part) for which in ("real", "imag")]


def copysign(write, size, sign, turned=False):
    """|size| with the sign of `sign`, of zeros too; with the other one if `turned`."""
    bits = write.bitcast(sign, np.dtype(f"i{sign.dtype.itemsize}"))
    negative = write.compare("GE" if turned else "LT", bits, write.like(bits, 0))
    size = write.elementwise("stablehlo.abs", size)
    return write.select(negative, write.elementwise("stablehlo.negate", size), size)


def with_signs(lower, *, real=None, imag="same"):
    """The lowering rule that is `lower` (a rule, or the name of an operation) with the signs of a complex result made right.

    Arguments:
        real: "same" if its real part has the sign of z's, "positive" if it is never negative; None to leave it.
        imag: "same" if its imaginary part has the sign of z's; "other" if it has the other one.
    """

    def rule(write, z):
        out = write.elementwise(lower, z) if isinstance(lower, str) else lower(write, z)
        if z.dtype.kind != "c":
            return out
        (x, y), (u, v) = parts(write, z), parts(write, out)
        if real is not None:
            u = copysign(write, u, x) if real == "same" else write.elementwise("stablehlo.abs", u)
        return write.op("stablehlo.complex", [u, copysign(write, v, y, imag == "other")], out.type)

    return rule
