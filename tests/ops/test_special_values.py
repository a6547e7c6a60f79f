"""Infinities, NaN, signed zeros, and the edges of domains: the same on NumPy and compiled."""

import cmath
import math

import ml_dtypes
import mpmath
import numpy as np
import pytest

from pullback import lax, nn
from pullback.ops import arithmetic as a
from pullback.ops import compare as c
from pullback.ops import complex as z
from pullback.ops import error_functions as e
from pullback.ops import exponential as x
from pullback.ops import gamma_functions as g
from pullback.ops import hyperbolic as h
from pullback.ops import powers as p
from pullback.ops import rounding as r
from pullback.ops import trigonometric as t

inf, nan = np.inf, np.nan

CASES = [
    (x.exp, [-inf, inf, nan, 1000.0, -1000.0, -0.0], [0.0, inf, nan, inf, 0.0, 1.0]),
    (x.expm1, [-inf, inf, -0.0, 0.0], [-1.0, inf, -0.0, 0.0]),
    (x.log, [0.0, -0.0, -1.0, inf, 1.0], [-inf, -inf, nan, inf, 0.0]),
    (x.log1p, [-1.0, -2.0, inf, -0.0], [-inf, nan, inf, -0.0]),
    (h.logistic, [-inf, inf, nan, 0.0], [0.0, 1.0, nan, 0.5]),
    (p.sqrt, [-1.0, 0.0, -0.0, inf], [nan, 0.0, -0.0, inf]),
    (p.rsqrt, [0.0, -1.0, inf], [inf, nan, 0.0]),
    (p.cbrt, [-8.0, -0.0, -inf], [-2.0, -0.0, -inf]),
    (t.asin, [1.0, -1.0, 1.5, nan], [np.pi / 2, -np.pi / 2, nan, nan]),
    (t.acos, [1.0, -1.0, -1.5], [0.0, np.pi, nan]),
    (t.atan, [inf, -inf, -0.0], [np.pi / 2, -np.pi / 2, -0.0]),
    (t.sin, [inf, -0.0, nan], [nan, -0.0, nan]),
    (h.tanh, [inf, -inf, -0.0], [1.0, -1.0, -0.0]),
    (h.atanh, [1.0, -1.0, 2.0, -0.0], [inf, -inf, nan, -0.0]),
    (h.acosh, [1.0, 0.5, inf], [0.0, nan, inf]),
    (h.asinh, [inf, -inf, -0.0], [inf, -inf, -0.0]),
    (e.erf, [inf, -inf, nan], [1.0, -1.0, nan]),
    (e.erfc, [inf, -inf, nan], [0.0, 2.0, nan]),
    (e.erf_inv, [1.0, -1.0, 1.5], [inf, -inf, nan]),
    (g.lgamma, [0.0, -1.0, inf], [inf, inf, inf]),
    (r.floor, [-0.5, -0.0, inf, nan], [-1.0, -0.0, inf, nan]),
    (r.ceil, [-0.5, 0.5, -inf], [-0.0, 1.0, -inf]),
    (r.round, [0.5, 1.5, 2.5, -0.5, 0.49999999999999994], [0.0, 2.0, 2.0, -0.0, 0.0]),
    (
        lambda v: r.round(v, rounding_method="away_from_zero"),
        [0.5, 1.5, 2.5, -0.5, -2.5, 0.49999999999999994, inf],
        [1.0, 2.0, 3.0, -1.0, -3.0, 0.0, inf],
    ),
    (z.sign, [-inf, 0.0, 3.0, nan], [-1.0, 0.0, 1.0, nan]),
    (z.abs, [-0.0, -inf, nan], [0.0, inf, nan]),
    (p.square, [-inf, 1e200], [inf, inf]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: getattr(case[0], "name", "away_from_zero"))
def test_one_operand(case, both):
    function, points, expected = case
    for values in both(function, np.array(points)):
        np.testing.assert_allclose(values, expected, rtol=1e-13)
        finite = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(values)[finite], np.signbit(expected)[finite])


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_squares_of_complex_numbers_keep_their_difference(dtype, both):
    """x^2 - y^2 of equal parts is 0, and of large ones has the sign of the larger."""
    huge = np.finfo(dtype).max
    points = [1.1e-5 + 1.1e-5j, 88550680 - 88550680j, huge + huge * 1j, huge + 1e30j, 1e30 + huge * 1j, 3 + 4j, 0.0 - 0.0j, inf]
    real = [0, 0, 0, inf, -inf, -7, 0, inf]
    for values in both(p.square, np.array(points, dtype)):
        np.testing.assert_array_equal(values.real, real)
        np.testing.assert_array_equal(values.imag[2:5], [inf, inf, inf])


PAIRS = [
    (a.max, [(nan, 1.0), (1.0, nan), (2.0, 3.0), (-inf, inf)], [nan, nan, 3.0, inf]),
    (a.min, [(nan, 1.0), (1.0, nan), (2.0, 3.0), (-inf, inf)], [nan, nan, 2.0, -inf]),
    (a.div, [(1.0, 0.0), (-1.0, 0.0), (0.0, 0.0), (1.0, -0.0), (1.0, inf)], [inf, -inf, nan, -inf, 0.0]),
    (a.rem, [(5.5, 2.0), (-5.5, 2.0), (5.5, -2.0), (1.0, 0.0), (1.0, inf), (inf, 1.0)], [1.5, -1.5, 1.5, nan, 1.0, nan]),
    (p.pow, [(0.0, 0.0), (0.0, -1.0), (-8.0, 1 / 3), (-2.0, 3.0), (nan, 0.0), (2.0, inf)], [1.0, inf, nan, -8.0, 1.0, inf]),
    (t.atan2, [(0.0, -1.0), (-0.0, -1.0), (0.0, 0.0), (inf, inf)], [np.pi, -np.pi, 0.0, np.pi / 4]),
    (p.nextafter, [(1.0, 2.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)], [1 + 2**-52, 1 - 2**-53, 5e-324, 1.0]),
]


@pytest.mark.parametrize("case", PAIRS, ids=lambda case: case[0].name)
def test_two_operands(case, both):
    function, points, expected = case
    left, right = np.array(points).T.copy()
    for values in both(function, left, right):
        np.testing.assert_allclose(values, expected, rtol=1e-13)


def test_comparisons_with_nan(both):
    left, right = np.array([nan, 1.0, 1.0]), np.array([nan, nan, 1.0])
    expected = {"eq": [0, 0, 1], "ne": [1, 1, 0], "lt": [0, 0, 0], "le": [0, 0, 1], "gt": [0, 0, 0], "ge": [0, 0, 1]}
    for name, answer in expected.items():
        for values in both(getattr(c, name), left, right):
            assert values.dtype == bool and values.tolist() == [bool(v) for v in answer], name


def test_clamp(both):
    points = np.array([-2.0, 0.5, 9.0, nan])
    for values in both(c.clamp, np.array(0.0), points, np.array(1.0)):
        np.testing.assert_array_equal(values, [0.0, 0.5, 1.0, nan])
    for values in both(c.clamp, np.array([1.0, 5.0]), np.array([0.0, 0.0]), np.array([2.0, 3.0])):
        np.testing.assert_array_equal(values, [1.0, 3.0])  # hi wins


def test_select_takes_no_part_of_the_other_branch(both):
    for values in both(c.select, np.array([True, False]), np.array([1.0, nan]), np.array([inf, 2.0])):
        np.testing.assert_array_equal(values, [1.0, 2.0])


@pytest.mark.parametrize("y", [-3, -1, 0, 1, 2, 5, 16])
def test_integer_pow(y, both):
    points = np.array([-2.0, -0.5, 1.5, 3.0])
    for values in both(p.integer_pow, points, y=y):
        np.testing.assert_allclose(values, points**y, rtol=1e-14)


CUTS = {
    "sqrt": (p.sqrt, cmath.sqrt), "log": (x.log, cmath.log), "asin": (t.asin, cmath.asin), "acos": (t.acos, cmath.acos),
    "atan": (t.atan, cmath.atan), "asinh": (h.asinh, cmath.asinh), "acosh": (h.acosh, cmath.acosh),
    "atanh": (h.atanh, cmath.atanh),
}  # fmt: skip
SIDES = [
    complex(*point)
    for size in (0.0, 0.5, 2.0, 1e150, inf)
    for a in (size, -size)
    for b in (0.0, -0.0, 0.25, -0.25)
    for point in ((a, b), (b, a))
]


@pytest.mark.parametrize("name", CUTS)
def test_both_sides_of_branch_cuts(name, both):
    """Signed zeros tell the sides apart, as C99 has it: its implementation is Python's cmath."""
    function, exact = CUTS[name]
    points = np.array([z for z in SIDES if z or name != "log"])
    expected = np.array([exact(z) for z in points])
    for values in both(function, points):
        for found, truth in ((values.real, expected.real), (values.imag, expected.imag)):
            np.testing.assert_allclose(found, truth, rtol=1e-13, atol=1e-300)
            far = (truth != 0) & ~np.isnan(truth)
            np.testing.assert_array_equal(np.signbit(found)[far], np.signbit(truth)[far])


def test_complex_powers_of_zero_and_to_zero(both):
    base = np.array([0j, 0j, 0j, 0j, 2 + 1j, 0j])
    exponent = np.array([1 + 1j, 2.0, -1.0, 1j, 0j, 0j])
    expected = np.array([0j, 0j, complex(nan, nan), complex(nan, nan), 1, 1])
    for values in both(p.pow, base, exponent):
        np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_poles_of_gamma_and_its_derivatives(dtype, both):
    table = [
        (g.digamma, [0.0, -0.0, -1.0, inf], [-inf, inf, nan, inf]),
        (g.lgamma, [-inf, inf, 0.0, -2.0, 1.0], [inf, inf, inf, inf, 0.0]),
        (e.erf_inv, [0.0, -0.0, 1.0, -1.0], [0.0, -0.0, inf, -inf]),
    ]
    for function, points, expected in table:
        for values in both(function, np.array(points).astype(getattr(ml_dtypes, dtype, dtype))):
            np.testing.assert_allclose(values.astype(np.float64), expected, atol=1e-6)
            known = ~np.isnan(expected) & (np.abs(expected) != 0 if function is g.lgamma else True)
            np.testing.assert_array_equal(np.signbit(values)[known], np.signbit(expected)[known])


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_powers_to_one_half_are_no_square_roots(dtype, both):
    """C99: only sqrt gives -0 at -0 and NaN at -inf."""
    points = np.array([-inf, -0.0, 0.0, inf, -1.0, 4.0]).astype(getattr(ml_dtypes, dtype, dtype))
    for half in (np.full(6, 0.5), np.array(0.5), np.broadcast_to(0.5, (6,))):
        for values in both(p.pow, points, half.astype(points.dtype)):
            values = values.astype(np.float64)
            np.testing.assert_array_equal(values, [inf, 0.0, 0.0, inf, nan, 2.0])
            assert not np.signbit(values[:4]).any()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_after_a_zero_on_the_way_to_the_other_zero_comes_that_one(dtype, both):
    zeros = np.array([0.0, -0.0, 0.0, -0.0]).astype(getattr(ml_dtypes, dtype, dtype))
    others = np.array([-0.0, 0.0, 0.0, -0.0]).astype(zeros.dtype)
    for values in both(p.nextafter, zeros, others):
        np.testing.assert_array_equal(np.signbit(values.astype(np.float64)), np.signbit(others.astype(np.float64)))


# eager NumPy is the C library's, which follows C99, Annex G; it has no log1p, expm1 and logistic of complex numbers that do
COMPLEX = {
    "exp": (x.exp, np.exp), "log": (x.log, np.log), "sqrt": (p.sqrt, np.sqrt), "sin": (t.sin, np.sin), "cos": (t.cos, np.cos),
    "tan": (t.tan, np.tan), "sinh": (h.sinh, np.sinh), "cosh": (h.cosh, np.cosh), "tanh": (h.tanh, np.tanh),
    "asin": (t.asin, np.arcsin), "acos": (t.acos, np.arccos), "atan": (t.atan, np.arctan), "asinh": (h.asinh, np.arcsinh),
    "acosh": (h.acosh, np.arccosh), "atanh": (h.atanh, np.arctanh), "sign": (z.sign, np.sign), "conj": (z.conj, np.conj),
    "expm1": (x.expm1, x.expm1.evaluate), "log1p": (x.log1p, x.log1p.evaluate), "logistic": (h.logistic, h.logistic.evaluate),
    "exp2": (x.exp2, x.exp2.evaluate), "rsqrt": (p.rsqrt, p.rsqrt.evaluate), "abs": (z.abs, np.abs),
    "reciprocal": (lax.reciprocal, lambda v: _annex_g(_divided_by, 1, v)), "elu": (nn.elu, lambda v: nn.elu(v).host),
    "sinc": (lambda v: t.sinc(v, n=0), lambda v: t.sinc.evaluate(v, n=0)),
    "cube": (lambda v: p.integer_pow(v, y=3), lambda v: p.integer_pow.evaluate(v, y=3)),
}  # fmt: skip


def _divided_by(z, w):
    """z / w as C99 writes it down, G.5.1, example 2, without its scaling."""
    a, b, c, d = z.real, z.imag, w.real, w.imag
    out = z / w if w else complex(nan, nan)
    if math.isnan(out.real) and math.isnan(out.imag):
        if w == 0 and not (math.isnan(a) and math.isnan(b)):
            return complex(math.copysign(inf, c) * a, math.copysign(inf, c) * b)
        if cmath.isinf(z) and cmath.isfinite(w):
            a, b = _boxed(a), _boxed(b)
            return complex(inf * (a * c + b * d), inf * (b * c - a * d))
        if cmath.isinf(w) and cmath.isfinite(z):
            c, d = _boxed(c), _boxed(d)
            return complex(0 * (a * c + b * d), 0 * (b * c - a * d))
    return out


def _boxed(part):
    return math.copysign(1.0 if math.isinf(part) else 0.0, part)


def _annex_g(rule, *operands):
    """A rule for complex numbers of Python's, for each element."""
    values = [rule(*map(complex, each)) for each in np.broadcast(*operands)]
    return np.array(values).reshape(np.broadcast_shapes(*map(np.shape, operands)))


@pytest.mark.parametrize("dtype, small, large", [("complex128", 1e-100, 800.0), ("complex64", 1e-15, 100.0)])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_functions_of_special_values(name, dtype, small, large, both):
    function, exact = COMPLEX[name]
    axis = [sign * size for size in (0.0, small, 1e-3, 0.5, 1.0, 3.0, large, inf) for sign in (1, -1)] + [nan]
    points = np.array([complex(a, b) for a in axis for b in axis]).astype(dtype)
    rtol, atol = (1e-12, 1e-300) if dtype == "complex128" else (1e-5, 1e-37)
    with np.errstate(all="ignore"):
        expected = exact(points)
    for values in both(function, points):
        for part in ("real", "imag"):
            found, truth = getattr(values, part), getattr(expected, part)
            np.testing.assert_allclose(found, truth, rtol=rtol, atol=atol)
            # the signs of zeros are left open where an argument is not finite
            told = (np.abs(truth) > atol) | ((truth == 0) & np.isfinite(points))
            np.testing.assert_array_equal(np.signbit(found)[told], np.signbit(truth)[told])


def _grid():
    axis = [sign * size for size in (0.0, 1e-100, 1e-3, 0.5, 1.0, 3.0, 800.0, inf) for sign in (1, -1)] + [nan]
    points = np.array([complex(a, b) for a in axis for b in axis])
    return [side.reshape(-1) for side in np.meshgrid(points, points)]


def test_complex_quotients_of_special_values(both):
    left, right = _grid()
    expected = _annex_g(_divided_by, left, right)
    plain = np.isfinite(expected)
    for values in both(a.div, left, right):
        assert (np.abs(values[plain] - expected[plain]) <= 1e-15 * np.abs(expected[plain])).all()
        for part in ("real", "imag"):
            np.testing.assert_array_equal(getattr(values, part)[~plain], getattr(expected, part)[~plain])


def test_complex_powers_of_special_values(both):
    """exp(w log z) of C99, and Python's own pow where that is finite."""
    left, right = _grid()
    eager, compiled = both(p.pow, left, right)
    plain = np.isfinite(eager)
    np.testing.assert_array_equal(plain, np.isfinite(compiled))
    for part in ("real", "imag"):
        np.testing.assert_allclose(getattr(eager, part)[~plain], getattr(compiled, part)[~plain], rtol=1e-12)
    chosen = np.flatnonzero(plain & np.isfinite(left) & np.isfinite(right) & (left.imag != 0))[::7]
    with mpmath.workdps(30):
        exact = [mpmath.power(mpmath.mpmathify(complex(left[i])), mpmath.mpmathify(complex(right[i]))) for i in chosen]
    size = 1 + np.abs(right[chosen]) * (1 + np.abs(np.log(left[chosen])))  # what the exponent magnifies rounding by
    for values in (eager[chosen], compiled[chosen]):
        truth = np.array([complex(value) for value in exact])
        assert (np.abs(values - truth) <= 1e-15 * size * np.abs(truth) + 1e-300).all()
    far = {(inf + 0j, -1): 0, (complex(-inf, 1), -3): 0, (2, -inf): 0, (0.5, inf): 0, (complex(3, inf), -2 + 1j): 0}
    for (base, exponent), limit in far.items():
        for values in both(p.pow, np.array([complex(base)]), np.array([complex(exponent)])):
            assert values == limit
    for base, exponent in ((inf, 2), (complex(1, -inf), 0.5), (2, inf), (0.5, complex(-inf, nan)), (complex(nan, inf), 1)):
        for values in both(p.pow, np.array([complex(base)]), np.array([complex(exponent)])):
            assert np.isinf(values)


@pytest.mark.parametrize("base", [math.e, 2.0])
def test_complex_logarithms_of_sums(base, both):
    function = h.logaddexp if base == math.e else h.logaddexp2
    unit = math.log(base)
    rng = np.random.default_rng(0)
    x, y = [rng.normal(size=200) * 3 + 1j * rng.uniform(-9, 9, 200) for _ in range(2)]
    x[:4], y[:4] = [800 + 1j, -800 + 1j, 3 + 100j, 1e-9j], [-5 + 2j, -801 + 1j, 3 + 100j, -2e-9j]
    with mpmath.workdps(700):
        exact = [mpmath.log(mpmath.exp(mpmath.mpc(a) * unit) + mpmath.exp(mpmath.mpc(b) * unit)) / unit for a, b in zip(x, y)]
    for values in both(function, x, y):
        np.testing.assert_allclose(values, [complex(value) for value in exact], rtol=1e-13)
    ends = {(-inf, -inf): -inf, (-inf, 2 + 1j): 2 + 1j, (inf, 3j): inf, (inf, inf): inf}
    left, right = [np.array([complex(pair[i]) for pair in ends]) for i in (0, 1)]
    for values in both(function, left, right):
        np.testing.assert_array_equal(values, list(ends.values()))


LIMITS = {
    "exp": (x.exp, {complex(-inf, inf): 0, complex(inf, nan): complex(inf, nan), complex(nan, 0.0): complex(nan, 0)}),
    "expm1": (x.expm1, {-inf: -1, complex(inf, 0.0): complex(inf, 0), 1e-200: 1e-200, 1e-200j: 1e-200j}),
    "log1p": (x.log1p, {1e-200: 1e-200, -1: complex(-inf, 0), complex(nan, inf): complex(inf, nan), 1e-200j: 1e-200j}),
    "logistic": (h.logistic, {-inf: 0, inf: 1, -800 + 1j: 0, 800 - 1j: 1, 0: 0.5}),
    "rsqrt": (p.rsqrt, {complex(inf, nan): 0, complex(1, inf): 0, 0: complex(inf, nan), -4: -0.5j, 1e-200: 1e100}),
    "sin": (t.sin, {1e-200j: 1e-200j, 800j: complex(0, inf), complex(0.0, nan): complex(0, nan)}),
}


@pytest.mark.parametrize("name", LIMITS)
def test_complex_limits(name, both):
    function, table = LIMITS[name]
    for values in both(function, np.array(list(table), np.complex128)):
        np.testing.assert_allclose(values.real, np.real(list(table.values())), rtol=1e-15)
        np.testing.assert_allclose(values.imag, np.imag(list(table.values())), rtol=1e-15)


@pytest.mark.parametrize("name", ["expm1", "log1p", "logistic", "exp2", "sin", "tanh", "asinh", "log"])
def test_complex_functions_of_ordinary_and_small_values(name, both):
    functions = {"expm1": mpmath.expm1, "log1p": lambda v: mpmath.log(1 + v), "logistic": lambda v: 1 / (1 + mpmath.exp(-v))}
    functions |= {"exp2": lambda v: mpmath.mpf(2) ** v}
    exact = functions.get(name) or getattr(mpmath, name)
    axis = [sign * size for size in (1e-100, 1e-9, 0.01, 0.7, 2.5, 20.0) for sign in (1, -1)]
    points = np.array([complex(a, b) for a in axis for b in axis])
    with mpmath.workdps(300):
        expected = np.array([complex(exact(mpmath.mpmathify(complex(point)))) for point in points])
    for values in both(COMPLEX[name][0], points):
        assert (np.abs(values - expected) <= 1e-14 * np.abs(expected)).all()
