"""Whether results are weak, for every function: a weak dtype gives way where it meets another, so a wrong one is a wrong dtype.

The rule, which is JAX's: the result of an elementwise function is weak if the common dtype of its operands is; that of a
reduction, or of a choice of dtype by the function, is not. Bools are never weak here.
"""

import numpy as np
import pytest

import pullback as pb
from pullback import lax, nn
from pullback import numpy as pnp

WEAK, WEAK_INT, WEAK_COMPLEX = pnp.asarray(0.5), pnp.asarray(2), pnp.asarray(0.5 + 1j)
STRONG, INTS = pnp.asarray(np.array([0.5, 0.25], "f4")), pnp.asarray(np.array([1, 2], "i4"))
HALF, BOOLS = pnp.asarray(np.array([1.0, 2.0], "f2")), pnp.asarray(np.array([True, False]))

KEEPING = [
    "abs",
    "absolute",
    "fabs",
    "negative",
    "positive",
    "sign",
    "sqrt",
    "cbrt",
    "square",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "sin",
    "cos",
    "tan",
    "arcsin",
    "arccos",
    "arctan",
    "sinh",
    "cosh",
    "tanh",
    "arcsinh",
    "arctanh",
    "deg2rad",
    "rad2deg",
    "sinc",
    "floor",
    "ceil",
    "rint",
    "trunc",
    "round",
    "reciprocal",
    "real",
    "conj",
    "ravel",
    "squeeze",
    "transpose",
]
DECIDING = [
    "log2",
    "log10",
    "nan_to_num",
    "sum",
    "prod",
    "max",
    "min",
    "mean",
    "var",
    "std",
    "ptp",
    "average",
    "nansum",
    "nanprod",
    "nanmax",
    "nanmin",
    "nanmean",
    "nanvar",
    "nanstd",
    "argmax",
    "argmin",
    "count_nonzero",
    "any",
    "all",
    "isnan",
    "isfinite",
    "isinf",
    "signbit",
    "logical_not",
]


@pytest.mark.parametrize("how", ["eager", "jit"])
def test_functions_of_one_array(how):
    for value in (WEAK, WEAK_INT, WEAK_COMPLEX, 0.5, STRONG):
        for name in KEEPING + DECIDING:
            if value is WEAK_COMPLEX and name in ("cbrt", "floor", "ceil", "rint", "trunc", "signbit", "fabs"):
                continue
            if value is WEAK_INT and name == "nan_to_num":  # there is nothing to replace in integers
                continue
            function = getattr(pnp, name)
            out = (pb.jit(function) if how == "jit" else function)(value)
            assert out.type.weak == (name in KEEPING and value is not STRONG), (name, value)


BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "floor_divide",
    "remainder",
    "fmod",
    "power",
    "float_power",
    "hypot",
    "logaddexp",
    "logaddexp2",
    "arctan2",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "copysign",
    "heaviside",
    "nextafter",
    "equal",
    "less",
    "logical_and",
    "isclose",
    "array_equal",
]
OF_BOOL = ("equal", "less", "logical_and", "isclose", "array_equal")
PAIRS = [
    (WEAK, WEAK, True), (0.5, 0.5, True), (WEAK, 2, True), (WEAK, WEAK_INT, True), (INTS, 0.5, True), (WEAK, STRONG, False),
    (0.5, STRONG, False), (STRONG, 0.5, False), (HALF, 0.5, False), (STRONG, INTS, False), (STRONG, STRONG, False),
]  # fmt: skip


def test_functions_of_two_arrays():
    for name in BINARY:
        for x, y, weak in PAIRS:
            out = getattr(pnp, name)(x, y)
            assert out.type.weak == (weak and name not in OF_BOOL), (name, x, y)
    for x, y in ((2, INTS), (INTS, 2), (2.0, INTS)):
        assert not pnp.power(x, y).type.weak and not (x**y).type.weak
    assert not pnp.where(BOOLS, WEAK, STRONG).type.weak and pnp.where(BOOLS, WEAK, 0.5).type.weak
    assert not pnp.array_equal(INTS, 2).type.weak


def test_lax_and_nn():
    for name in [
        "neg",
        "sqrt",
        "rsqrt",
        "cbrt",
        "sign",
        "abs",
        "floor",
        "exp",
        "log",
        "logistic",
        "erf",
        "lgamma",
        "sin",
        "acos",
        "tanh",
        "square",
        "reciprocal",
    ]:
        assert getattr(lax, name)(WEAK).type.weak and not getattr(lax, name)(STRONG).type.weak, name
    for name in ["add", "sub", "mul", "div", "rem", "max", "min", "pow", "atan2", "nextafter"]:
        function = getattr(lax, name)
        assert function(WEAK, WEAK).type.weak and not function(0.5, STRONG).type.weak, name
    for name in ["relu", "relu6", "sigmoid", "log_sigmoid", "silu", "softplus", "gelu", "elu", "leaky_relu"]:
        assert getattr(nn, name)(WEAK).type.weak and not getattr(nn, name)(STRONG).type.weak, name
    for name in ("softmax", "log_softmax", "logsumexp"):
        assert not getattr(nn, name)(STRONG).type.weak and getattr(nn, name)(HALF).dtype == np.float16, name
