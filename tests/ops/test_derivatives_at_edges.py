"""Derivatives of several orders at the places where a stable formula has a seam: ties, zeros, infinities, and where it changes.

The derivative must be that of the function, not of the formula. The truth is mpmath's numerical derivative, to 60 digits.
"""

import mpmath
import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback import numpy as pnp

inf, nan = np.inf, np.nan


def value(x):
    return pnp.asarray(np.float64(x))


def derivatives(function, x, orders):
    """The derivatives of orders 0, 1, ...: in reverse mode, in forward mode, compiled, and batched."""
    found = []
    for order in range(orders):
        reverse, forward = function, function
        for _ in range(order):
            reverse = pb.grad(reverse)
            forward = (lambda f: lambda v: pb.jvp(f, (v,), (value(1.0),))[1])(forward)
        batched = pb.vmap(reverse)(pnp.asarray(np.array([x, x])))
        found.append([float(reverse(value(x))), float(forward(value(x))), float(pb.jit(reverse)(value(x))), float(batched[1])])
    return np.array(found)


def softplus(v):
    return mpmath.log(1 + mpmath.exp(v))


def normal(v):
    return mpmath.erfc(-v / mpmath.sqrt(2)) / 2


def tanh_gelu(v):
    return v * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (v + mpmath.mpf(0.044715) * v**3))) / 2


def mish(v):
    return v * mpmath.tanh(softplus(v))


def log1mexp(v):
    return mpmath.log(-mpmath.expm1(-v))


SMOOTH = {
    "mish": (nn.mish, mish, [0.0, -40.0, 2.0, -3.0, 30.0]),
    "log1mexp": (nn.log1mexp, log1mexp, [1e-9, 0.3, 0.6931471805599453, 0.7, 5.0, 40.0, 700.0]),
    "soft_sign": (nn.soft_sign, lambda v: v / (1 + abs(v)), [1e-9, -0.5, 1.0, -1.0, 3.0, 1e6, -1e12]),
    "squareplus": (nn.squareplus, lambda v: (v + mpmath.sqrt(v * v + 4)) / 2, [0.0, 1e-9, -3.0, 2.0, -1e5, 1e5, -1e12]),
    "squareplus, b": (lambda v: nn.squareplus(-3.0, v), lambda v: (mpmath.sqrt(9 + v) - 3) / 2, [1.0, 1e5]),
    "celu": (lambda v: nn.celu(v, 2.0), lambda v: 2 * mpmath.expm1(v / 2), [-1e-9, -3.0, -80.0]),
    "celu, alpha": (lambda v: nn.celu(-3.0, v), lambda v: v * mpmath.expm1(-3 / v), [0.5, 2.0, 1e3]),
    "selu": (nn.selu, lambda v: 1.0507009873554805 * mpmath.mpf(1.6732632423543772) * mpmath.expm1(v), [-1e-9, -3.0, -40.0]),
    "sparse_plus": (nn.sparse_plus, lambda v: (v + 1) ** 2 / 4, [0.0, -0.99, 0.5]),
    "logmeanexp": (
        lambda v: nn.logmeanexp(pnp.stack([v, 1.0 + 0 * v])), lambda v: mpmath.log((mpmath.exp(v) + mpmath.e) / 2), [1.0, 0.0],
    ),
    "standardize": (
        lambda v: nn.standardize(pnp.stack([v, -v]))[0], lambda v: v / mpmath.sqrt(v * v + mpmath.mpf(1e-5)), [0.0, 1e-3, 2.0],
    ),
    "softplus": (nn.softplus, softplus, [0.0, 1e-9, -40.0, 3.0]),
    "log_sigmoid": (nn.log_sigmoid, lambda v: -softplus(-v), [0.0, 40.0]),
    "sigmoid": (nn.sigmoid, lambda v: 1 / (1 + mpmath.exp(-v)), [0.0, -40.0, 40.0, 1e-9]),
    "silu": (nn.silu, lambda v: v / (1 + mpmath.exp(-v)), [0.0, -40.0, 2.0, 700.0]),
    "gelu": (nn.gelu, tanh_gelu, [0.0, -3.0, 2.0]),
    "gelu, exact": (lambda v: nn.gelu(v, approximate=False), lambda v: v * normal(v), [0.0, -3.0, 2.0]),
    "logaddexp, tie": (lambda v: pnp.logaddexp(v, 0.5), lambda v: mpmath.log(mpmath.exp(v) + mpmath.exp(0.5)), [0.5, 2.0]),
    "logaddexp, second": (lambda v: pnp.logaddexp(0.5, v), lambda v: mpmath.log(mpmath.exp(v) + mpmath.exp(0.5)), [0.5]),
    "logaddexp2, tie": (lambda v: pnp.logaddexp2(v, 0.5), lambda v: mpmath.log(2**v + mpmath.sqrt(2), 2), [0.5, -1.0]),
    "hypot, tie": (lambda v: pnp.hypot(v, 1.0), lambda v: mpmath.sqrt(v * v + 1), [1.0, -1.0, 0.0, 1e-9]),
    "hypot, second": (lambda v: pnp.hypot(2.0, v), lambda v: mpmath.sqrt(4 + v * v), [2.0, 0.0]),
    "sinc": (pnp.sinc, lambda v: mpmath.sinc(mpmath.pi * v), [0.0, 1e-9, 1e-4, -0.01, 0.6366, 0.64, 1.0, -2.5, 7.25]),
    "logsumexp, tie": (
        lambda v: nn.logsumexp(pnp.stack([v, 1.0 + 0 * v])), lambda v: mpmath.log(mpmath.exp(v) + mpmath.e), [1.0, 0.0],
    ),
    "softmax, tie": (
        lambda v: nn.softmax(pnp.stack([v, 1.0 + 0 * v]))[0], lambda v: 1 / (1 + mpmath.exp(1 - v)), [1.0, 3.0],
    ),
    "log_softmax, tie": (
        lambda v: nn.log_softmax(pnp.stack([v, 1.0 + 0 * v]))[0], lambda v: -mpmath.log(1 + mpmath.exp(1 - v)), [1.0, 3.0],
    ),
    "erf": (pb.lax.erf, mpmath.erf, [0.0, 2.0]),
    "power, base": (lambda v: v**2.0, lambda v: v**2, [0.0, -1.5]),
    "power, cube": (lambda v: pnp.power(v, value(3.0)), lambda v: v**3, [0.0, -1.5]),
    "power, exponent": (lambda v: pnp.power(value(0.5), v), lambda v: mpmath.mpf(0.5) ** v, [0.0, 1.0, -2.0]),
    "tanh": (nn.tanh, mpmath.tanh, [0.0, 3.0, 1e-9, 25.0, -25.0]),
    "expm1": (pnp.expm1, mpmath.expm1, [1e-9, -40.0]),
    "arctan": (pnp.arctan, mpmath.atan, [1e-9, 1e5, -0.5]),
    "arctan2": (lambda v: pnp.arctan2(v, 2.0), lambda v: mpmath.atan(v / 2), [1e-9, 1e5, -0.5]),
    "arcsinh": (pnp.arcsinh, mpmath.asinh, [1e-9, 1e5, -0.5]),
    "arctanh": (pnp.arctanh, mpmath.atanh, [1e-9, 0.999, -0.5]),
    "arcsin": (pnp.arcsin, mpmath.asin, [1e-9, 0.999, -0.5]),
    "arccosh": (pnp.arccosh, mpmath.acosh, [1.001, 1e5]),
    "hypot, one side far longer": (lambda v: pnp.hypot(v, 1.0), lambda v: mpmath.sqrt(v * v + 1), [1e5, -1e5]),
}  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth(name):
    function, exact, points = SMOOTH[name]
    for x in points:
        found = derivatives(function, x, 4)
        with mpmath.workdps(60):
            expected = [float(mpmath.diff(exact, mpmath.mpf(x), n)) for n in range(4)]
        for order, truth in enumerate(expected):
            np.testing.assert_allclose(
                found[order], truth, rtol=1e-10, atol=0 if abs(truth) > 1e-40 else 1e-15, err_msg=f"order {order} at {x}"
            )


def test_the_hessian_of_a_logistic_loss_at_zero_weights():
    rows = np.array([[1.0, 2.0], [-1.0, 0.5], [3.0, -1.0]])
    hessian = pb.hessian(lambda w: pnp.sum(nn.softplus(pnp.asarray(rows) @ w)))(pnp.asarray(np.zeros(2)))
    np.testing.assert_allclose(hessian, rows.T @ rows / 4, rtol=1e-12)


def test_cube_roots_at_zero_and_infinity():
    for x, second, third in [(0.0, -inf, inf), (inf, 0.0, 0.0), (8.0, -2 / 9 * 8 ** (-5 / 3), 10 / 27 * 8 ** (-8 / 3))]:
        found = derivatives(pnp.cbrt, x, 4)
        np.testing.assert_allclose(found[2], second, rtol=1e-13)
        np.testing.assert_allclose(found[3], third, rtol=1e-13)


def test_mixed_derivatives_of_power():
    """d^2 (a^b) / da db = a^(b - 1) (1 + b log a): at exponent 0 too, in either order."""
    power = pnp.power
    for a, b in [(0.5, 0.0), (2.0, 0.0), (0.5, 1.0), (3.0, -2.0), (1.5, 2.5)]:
        exact = a ** (b - 1) * (1 + b * np.log(a))
        for outer, inner in [(1, 0), (0, 1)]:
            mixed = pb.grad(pb.grad(power, inner), outer)
            for made in (mixed, pb.jit(mixed)):
                np.testing.assert_allclose(made(value(a), value(b)), exact, rtol=1e-13)
    assert float(pb.grad(power)(value(0.0), value(0.0))) == 0
    assert float(pb.grad(power)(value(0.0), value(1.0))) == 1
    assert float(pb.grad(power)(value(-2.0), value(3.0))) == 12
    assert float(pb.grad(pb.grad(pb.grad(power)))(value(0.0), value(3.0))) == 6


# function, then at -inf and at inf: its value, and its first derivative; those of higher order are 0
AT_INFINITY = {
    "silu": (nn.silu, (0.0, 0.0), (inf, 1.0)),
    "gelu": (nn.gelu, (0.0, 0.0), (inf, 1.0)),
    "gelu, exact": (lambda v: nn.gelu(v, approximate=False), (0.0, 0.0), (inf, 1.0)),
    "softplus": (nn.softplus, (0.0, 0.0), (inf, 1.0)),
    "log_sigmoid": (nn.log_sigmoid, (-inf, 1.0), (0.0, 0.0)),
    "sigmoid": (nn.sigmoid, (0.0, 0.0), (1.0, 0.0)),
    "tanh": (nn.tanh, (-1.0, 0.0), (1.0, 0.0)),
    "erf": (pb.lax.erf, (-1.0, 0.0), (1.0, 0.0)),
    "erfc": (pb.lax.erfc, (2.0, 0.0), (0.0, 0.0)),
    "mish": (nn.mish, (0.0, 0.0), (inf, 1.0)),
    "celu": (nn.celu, (-1.0, 0.0), (inf, 1.0)),
    "selu": (nn.selu, (-1.7580993408473766, 0.0), (inf, 1.0507009873554805)),
    "soft_sign": (nn.soft_sign, (-1.0, 0.0), (1.0, 0.0)),
    "squareplus": (nn.squareplus, (0.0, 0.0), (inf, 1.0)),
    "sparse_plus": (nn.sparse_plus, (0.0, 0.0), (inf, 1.0)),
    "sparse_sigmoid": (nn.sparse_sigmoid, (0.0, 0.0), (1.0, 0.0)),
    "hard_sigmoid": (nn.hard_sigmoid, (0.0, 0.0), (1.0, 0.0)),
    "hard_silu": (nn.hard_silu, (0.0, 0.0), (inf, 1.0)),
    "hard_tanh": (nn.hard_tanh, (-1.0, 0.0), (1.0, 0.0)),
    "relu": (nn.relu, (0.0, 0.0), (inf, 1.0)),
    "relu6": (nn.relu6, (0.0, 0.0), (6.0, 0.0)),
    "elu": (nn.elu, (-1.0, 0.0), (inf, 1.0)),
    "leaky_relu": (nn.leaky_relu, (-inf, 0.01), (inf, 1.0)),
}


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", AT_INFINITY)
def test_at_infinity(name, dtype):
    function, *ends = AT_INFINITY[name]
    orders = [function, pb.grad(function), pb.grad(pb.grad(function)), pb.grad(pb.grad(pb.grad(function)))]
    for x, (at, slope) in zip((-inf, inf), ends):
        for expected, made in zip((at, slope, 0.0, 0.0), orders):
            for how in (made, pb.jit(made)):
                np.testing.assert_allclose(float(how(pnp.asarray(x, dtype=dtype))), expected, rtol=1e-2)
    for made in orders[: 1 if any(part in name for part in ("elu", "erf", "hard", "sparse")) else 4]:
        assert np.isnan(float(made(pnp.asarray(nan, dtype=dtype))))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_the_ends_of_log1mexp(dtype):
    for x, expected in [(0.0, (-inf, inf, -inf)), (inf, (0.0, 0.0, 0.0)), (-1.0, (nan,))]:
        for made, truth in zip((nn.log1mexp, pb.grad(nn.log1mexp), pb.grad(pb.grad(nn.log1mexp))), expected):
            for how in (made, pb.jit(made)):
                np.testing.assert_array_equal(float(how(pnp.asarray(x, dtype=dtype))), truth)


def test_subgradients_at_kinks():
    """At a kink the derivative is one that a one-sided difference could give, or the mean of both: as documented."""
    table = [
        (nn.relu, 0.0, 0.0), (nn.relu6, 0.0, 0.0), (nn.relu6, 6.0, 0.0), (nn.leaky_relu, 0.0, 1.0), (nn.elu, 0.0, 1.0),
        (nn.celu, 0.0, 1.0), (nn.hard_tanh, 1.0, 1.0), (nn.hard_tanh, -1.0, 1.0), (nn.soft_sign, 0.0, 1.0),
        (nn.hard_silu, -3.0, 0.0), (nn.hard_silu, 3.0, 1.0), (nn.sparse_plus, -1.0, 0.0), (nn.sparse_plus, 1.0, 1.0),
        (nn.hard_sigmoid, 3.0, 0.0), (nn.sparse_sigmoid, 1.0, 0.25), (lambda v: nn.squareplus(v, 0.0), 0.0, 0.5),
        (pnp.abs, 0.0, 0.0), (lambda v: pnp.maximum(v, 1.0), 1.0, 0.5), (lambda v: pnp.minimum(v, 1.0), 1.0, 0.5),
        (lambda v: pnp.hypot(v, 0.0), 0.0, 0.0), (lambda v: pnp.clip(v, 0.0, 1.0), 0.0, 0.5),
    ]  # fmt: skip
    for function, x, expected in table:
        assert float(pb.grad(function)(value(x))) == expected
        assert float(pb.jvp(function, (value(x),), (value(1.0),))[1]) == expected


@pytest.mark.parametrize("function", [pnp.max, pnp.min], ids=["max", "min"])
def test_extremes_share_ties_and_pass_nan_on_in_both_modes(function):
    for values, expected in [([1.0, 1.0, 1.0], [1 / 3] * 3), ([2.0, nan, 5.0], [nan] * 3), ([nan, nan, nan], [nan] * 3)]:
        x = pnp.asarray(np.array(values))
        for how in (lambda f: f, pb.jit):
            reverse = how(pb.grad(function))(x)
            columns = [how(lambda x, t: pb.jvp(function, (x,), (t,))[1])(x, pnp.asarray(row)) for row in np.eye(3)]
            np.testing.assert_allclose(reverse, expected, rtol=1e-15)
            np.testing.assert_allclose([float(column) for column in columns], expected, rtol=1e-15)


def test_many_ties_are_counted_exactly_in_narrow_dtypes():
    for dtype in ("bfloat16", "float16"):
        slopes = pb.grad(pnp.max)(pnp.asarray(np.ones(1000), dtype=dtype))
        np.testing.assert_allclose(np.asarray(slopes.astype("float32")), 1e-3, rtol=1e-2)


# function, a point, and its derivatives of orders 1, 2 and 3 there: those of one side, where there is only one
INVERSES = [
    (pnp.arcsin, 1.0, (inf, inf, inf)), (pnp.arcsin, -1.0, (inf, -inf, inf)), (pnp.arccos, 1.0, (-inf, -inf, -inf)),
    (pnp.arccos, -1.0, (-inf, inf, -inf)), (pnp.arctanh, 1.0, (inf, inf, inf)), (pnp.arctanh, -1.0, (inf, -inf, inf)),
    (pnp.arccosh, 1.0, (inf, -inf, inf)), (pnp.arccosh, inf, (0, 0, 0)), (pnp.arctanh, inf, (0, 0, 0)),
    (pnp.arctan, inf, (0, 0, 0)), (pnp.arctan, -inf, (0, 0, 0)), (pnp.arcsinh, inf, (0, 0, 0)), (pnp.arcsinh, -inf, (0, 0, 0)),
    (pnp.arcsin, 1e-9, (1.0, 1e-9, 1.0)), (pnp.arctanh, 1e-9, (1.0, 2e-9, 2.0)),
]  # fmt: skip


@pytest.mark.parametrize("function, x, expected", INVERSES)
def test_inverse_functions_at_the_ends_of_their_domains(function, x, expected):
    for order, found in enumerate(derivatives(function, x, 4)[1:]):
        np.testing.assert_allclose(found, expected[order], rtol=1e-12)


# one-sided, where the function ends
LIMITS = {
    "arcsin": (pnp.arcsin, {1.0: (np.pi / 2, inf, inf, inf), -1.0: (-np.pi / 2, inf, -inf, inf)}),
    "arccos": (pnp.arccos, {1.0: (0, -inf, -inf, -inf), -1.0: (np.pi, -inf, inf, -inf)}),
    "arccosh": (pnp.arccosh, {1.0: (0, inf, -inf, inf), inf: (inf, 0, 0, 0)}),
    "arctanh": (pnp.arctanh, {1.0: (inf, inf, inf, inf), -1.0: (-inf, inf, -inf, inf), inf: (nan, 0, 0, 0)}),
    "arcsinh": (pnp.arcsinh, {inf: (inf, 0, 0, 0), -inf: (-inf, 0, 0, 0), 1e200: (np.arcsinh(1e200), 1e-200, 0, 0)}),
    "arctan": (pnp.arctan, {inf: (np.pi / 2, 0, 0, 0), -inf: (-np.pi / 2, 0, 0, 0), 1e100: (np.pi / 2, 1e-200, -2e-300, 0)}),
    "arctan2": (lambda v: pnp.arctan2(v, 1e-100), {1e-100: (np.pi / 4, 5e99)}),
    "hypot": (lambda v: pnp.hypot(v, 1.0), {inf: (inf, 1, 0, 0), -inf: (inf, -1, 0, 0)}),
    "sqrt": (pnp.sqrt, {0.0: (0, inf, -inf, inf), inf: (inf, 0, 0, 0)}),
    "rsqrt": (pb.lax.rsqrt, {0.0: (inf, -inf, inf, -inf), inf: (0, 0, 0, 0)}),
    "log1p": (pnp.log1p, {-1.0: (-inf, inf, -inf, inf), inf: (inf, 0, 0, 0)}),
    "erf_inv": (pb.lax.erf_inv, {1.0: (inf, inf, inf, inf), -1.0: (-inf, inf, -inf, inf)}),
    "expm1": (pnp.expm1, {-inf: (-1, 0, 0, 0)}),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits(name):
    function, table = LIMITS[name]
    for x, expected in table.items():
        for order, (found, truth) in enumerate(zip(derivatives(function, x, len(expected)), expected)):
            np.testing.assert_allclose(found, truth, rtol=1e-12, err_msg=f"order {order} at {x}")
