"""Transcendental functions against mpmath, in units of the last place (of machine epsilon times the value)."""

import ml_dtypes
import mpmath
import numpy as np
import pytest

from pullback.ops import error_functions as e
from pullback.ops import exponential as x
from pullback.ops import gamma_functions as g
from pullback.ops import hyperbolic as h
from pullback.ops import powers as p
from pullback.ops import trigonometric as t
from pullback.ops.literals import literal
from pullback.testing import check_gradients

TINY = (1e-10, -1e-10, 1e-4, -1e-4, 1e-3)


def between(low, high, *more):
    random = np.random.default_rng(0).uniform(low, high, 25)
    return np.concatenate([np.linspace(low, high, 25), random, more])


# function, its value in mpmath, where, and how many ulps XLA's code may miss it by: in float64, in float32
CASES = {
    "exp": (x.exp, mpmath.exp, between(-80, 80, *TINY), (4, 4)),
    "exp2": (x.exp2, lambda v: mpmath.power(2, v), between(-120, 120, *TINY), (4, 4)),
    "expm1": (x.expm1, mpmath.expm1, between(-10, 10, *TINY), (4, 4)),
    "log": (x.log, mpmath.log, np.exp(between(-80, 80, *TINY)), (4, 4)),
    "log1p": (x.log1p, mpmath.log1p, between(-0.99, 5, 1e20, *TINY), (4, 4)),
    "logistic": (h.logistic, lambda v: 1 / (1 + mpmath.exp(-v)), between(-80, 80, *TINY), (4, 4)),
    "sin": (t.sin, mpmath.sin, between(-10, 10, 1e5, 3e4, *TINY), (4, 4)),
    "cos": (t.cos, mpmath.cos, between(-10, 10, 1e5, 3e4, *TINY), (4, 4)),
    "tan": (t.tan, mpmath.tan, between(-10, 10, 1e4, *TINY), (4, 4)),
    "asin": (t.asin, mpmath.asin, between(-0.999, 0.999, *TINY), (4, 4)),
    "acos": (t.acos, mpmath.acos, between(-0.999, 0.999, *TINY), (4, 4)),
    "atan": (t.atan, mpmath.atan, between(-10, 10, 1e30, *TINY), (4, 4)),
    "sinh": (h.sinh, mpmath.sinh, between(-10, 10, 80, *TINY), (15, 20)),
    "cosh": (h.cosh, mpmath.cosh, between(-10, 10, 80, *TINY), (15, 20)),
    "tanh": (h.tanh, mpmath.tanh, between(-10, 10, *TINY), (4, 4)),
    "asinh": (h.asinh, mpmath.asinh, between(-10, 10, 1e30, -1e30, *TINY), (4, 4)),
    "acosh": (h.acosh, mpmath.acosh, between(1.001, 10, 1e30), (4, 4)),
    "atanh": (h.atanh, mpmath.atanh, between(-0.99, 0.99, *TINY), (4, 4)),
    "erf": (e.erf, mpmath.erf, between(-5, 5, *TINY), (4, 4)),
    "erfc": (e.erfc, mpmath.erfc, between(-5, 9, *TINY), (40, 50)),
    "erf_inv": (e.erf_inv, mpmath.erfinv, between(-0.99, 0.99, *TINY), (40, 4)),
    "lgamma": (g.lgamma, lambda v: mpmath.loggamma(v).real, between(2.5, 30, 0.125, 0.5), (40, 40)),
    "digamma": (g.digamma, mpmath.digamma, between(2, 30, 0.125, 0.5), (20, 10)),
    "cbrt": (p.cbrt, lambda v: mpmath.sign(v) * mpmath.cbrt(abs(v)), between(-10, 10, 1e30), (4, 4)),
    "sqrt": (p.sqrt, mpmath.sqrt, np.exp(between(-80, 80)), (1, 1)),
    "rsqrt": (p.rsqrt, lambda v: 1 / mpmath.sqrt(v), np.exp(between(-80, 80)), (4, 4)),
    "logaddexp": (
        lambda v: h.logaddexp(v, literal(-1.0, v)),
        lambda v: mpmath.log(mpmath.exp(v) + mpmath.exp(-1)),
        between(-9, -3, -1, 2, 9),
        (4, 4),
    ),
    "logaddexp2": (
        lambda v: h.logaddexp2(v, literal(0.0, v)),
        lambda v: mpmath.log(2**v + 1, 2),
        between(-20, 9, *TINY),
        (8, 16),
    ),
    "polygamma": (lambda v: g.polygamma(v, n=1), lambda v: mpmath.polygamma(1, v), between(0.125, 30), (20, 20)),
}
LEAST = {"erfc": 30, "lgamma": 8, "polygamma": 4}  # SciPy's own misses in float64, where more than 2


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_accuracy(name, dtype, both):
    function, exact, points, limits = CASES[name]
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    info = ml_dtypes.finfo(dtype)
    points = points[np.abs(points) < float(info.max)].astype(dtype)
    if name in ("log", "sqrt", "rsqrt"):
        points = points[points > 0]
    eager, compiled = both(function, points)
    limit = {8: limits[0], 4: limits[1], 2: 2}[dtype.itemsize]
    checked = 0
    with mpmath.workdps(50):
        for point, *values in zip(points, eager, compiled):
            expected = exact(mpmath.mpf(float(point)))
            if not float(info.smallest_normal) < abs(expected) < float(info.max):
                continue
            ulp = abs(expected) * float(info.eps)
            checked += 1
            for value, allowed in zip(values, (LEAST.get(name, 2) if dtype.itemsize == 8 else 2, limit)):
                assert abs(mpmath.mpf(float(value)) - expected) <= allowed * ulp, (name, point, value, expected)
    assert checked > 5


REAL_ONLY = {"erf", "erfc", "erf_inv", "lgamma", "digamma", "polygamma", "cbrt", "logaddexp", "logaddexp2"}
COMPLEX = [name for name in CASES if name not in REAL_ONLY]


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_derivatives(name):
    """On both sides of every branch cut."""
    rng = np.random.default_rng(3)
    points = np.concatenate([rng.uniform(-3, 3, 20) + 1j * rng.uniform(-3, 3, 20), [-2 + 0.1j, -2 - 0.1j, 2 + 0.1j, 0.1 + 2j]])
    check_gradients(CASES[name][0], (points,), order=1)


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_accuracy(name, dtype, both):
    function, exact, *_ = CASES[name]
    rng = np.random.default_rng(1)
    points = (rng.uniform(-3, 3, 40) + 1j * rng.uniform(-3, 3, 40)).astype(dtype)
    tolerance = 1e-13 if dtype == "complex128" else 1e-5
    with mpmath.workdps(30):
        expected = np.array([complex(exact(mpmath.mpc(complex(point)))) for point in points])
    for values in both(function, points):
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)


def test_atan2_and_pow_against_numpy(both):
    rng = np.random.default_rng(2)
    y, v = rng.normal(size=(2, 50))
    for values in both(t.atan2, y, v):
        np.testing.assert_allclose(values, np.arctan2(y, v), rtol=1e-14)
    for values in both(p.pow, np.abs(y), v):
        np.testing.assert_allclose(values, np.abs(y) ** v, rtol=1e-13)
