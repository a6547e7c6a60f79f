"""Special functions where the tables of tests/surface do not look: integers, edges, refusals, and known faults of others."""

import mpmath as mp
import numpy as np
import pytest
import scipy.special as sc

import pullback as pb
import pullback.numpy as pnp
from pullback.scipy import special

INTEGERS = (
    "gamma",
    "gammaln",
    "digamma",
    "erf",
    "erfc",
    "ndtr",
    "log_ndtr",
    "i0",
    "i1e",
    "expi",
    "spence",
    "expit",
    "factorial",
)


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_become_the_default_floating_dtype(name):
    found = getattr(special, name)(pnp.array([1, 2, 3]))
    assert found.dtype == "float32"
    np.testing.assert_allclose(found, getattr(sc, name)(np.array([1.0, 2, 3])), rtol=1e-6)


def test_binomial_coefficients_of_integers():
    np.testing.assert_array_equal(special.comb(5, pnp.array([0, 2, 6, -1])), [1, 10, 0, 0])
    assert special.comb(5, 2, repetition=True) == 15


def test_logsumexp_has_a_derivative_at_a_factor_that_is_0():
    a, b = np.array([0.3, -1.0, 2.0]), np.array([0.0, 2.0, 0.5])
    slope = pb.grad(lambda b: special.logsumexp(a, b=b))(pnp.asarray(b))
    np.testing.assert_allclose(slope, np.exp(a) / (b * np.exp(a)).sum(), rtol=1e-12)
    assert special.logsumexp(pnp.array([1e9, 0.0]), b=pnp.array([0.0, 1.0])) == 0  # and exp(a) may overflow there


def test_logsumexp_and_sinc_are_those_of_nn_and_numpy():
    assert special.logsumexp(pnp.arange(2.0)) == pb.nn.logsumexp(pnp.arange(2.0)) and special.sinc(0.3) == pnp.sinc(0.3)


inf, nan = np.inf, np.nan
# function, points, first derivatives there
SLOPES = {
    "xlogy at the corner": (lambda x: special.xlogy(x, x), [0.0], [0.0]),
    "xlogy in y at 0": (lambda y: special.xlogy(0.0, y), [0.0, 2.0], [0.0, 0.0]),
    "xlog1py in y": (lambda y: special.xlog1py(0.0, y), [-1.0, 2.0], [0.0, 0.0]),
    "power at the corner": (lambda x: pnp.power(x, 0.0), [0.0], [0.0]),
    "entr": (special.entr, [0.0], [inf]),
    "spence": (special.spence, [1.0, 1 + 1e-7, 1 - 1e-7], [-1.0, -1.0, -1.0]),
    "ndtri": (special.ndtri, [0.0, 1.0], [inf, inf]),
    "erfinv": (special.erfinv, [-1.0, 1.0], [inf, inf]),
    "log_ndtr": (special.log_ndtr, [-inf, -1e10, -1e3, 40.0, inf], [inf, 1e10, 1000.00099999800, 0.0, 0.0]),
    "ndtr": (special.ndtr, [-inf, inf], [0.0, 0.0]),
    "erf": (special.erf, [-inf, inf, 1e30], [0.0, 0.0, 0.0]),
    "logit": (special.logit, [0.0, 1.0, 0.5], [inf, inf, 4.0]),
    "sinc": (pnp.sinc, [0.0, 1e-8, 1e-300], [0.0, -(np.pi**2) / 3 * 1e-8, 0.0]),
    "exprel": (special.exprel, [0.0, 1e-9], [0.5, 0.5]),
    "i0e": (special.i0e, [0.0], [0.0]),
    "i1": (special.i1, [0.0], [0.5]),
    "boxcox at 0": (lambda lmbda: special.boxcox(2.0, lmbda), [0.0, 1e-12], [np.log(2) ** 2 / 2] * 2),
}


@pytest.mark.parametrize("name", SLOPES)
def test_derivatives_where_others_fail(name):
    f, at, expected = SLOPES[name]
    with pb.default_bits(64):
        for grad in (pb.vmap(pb.grad(f)), pb.jit(pb.vmap(pb.grad(f)))):
            np.testing.assert_allclose(grad(np.array(at)), expected, rtol=1e-6, atol=1e-290)


VALUES = {
    "gamma": [(0.0, inf), (-0.0, -inf), (-1.0, nan), (inf, inf), (171.0, sc.gamma(171.0)), (172.0, inf)],
    "gammaln": [(0.0, inf), (-1.0, inf), (inf, inf), (-inf, inf), (1.0, 0.0), (2.0, 0.0)],
    "digamma": [(0.0, -inf), (-1.0, nan), (inf, inf), (-inf, nan)],
    "erfcx": [(-inf, inf), (inf, 0.0), (1e300, 1e-300 / np.sqrt(np.pi))],
    "log_ndtr": [(-inf, -inf), (inf, 0.0), (-1e10, -5e19)],
    "ndtri": [(0.0, -inf), (1.0, inf), (-0.1, nan), (1.1, nan), (nan, nan), (0.5, 0.0), (1e-300, sc.ndtri(1e-300))],
    "i0": [(inf, inf), (-inf, inf), (0.0, 1.0), (710.0, sc.iv(0, 710.0))],
    "i1e": [(inf, 0.0), (-0.0, -0.0), (nan, nan)],
    "exprel": [(-inf, 0.0), (inf, inf), (0.0, 1.0)],
    "logit": [(0.0, -inf), (1.0, inf), (2.0, nan), (0.5, 0.0)],
    "entr": [(0.0, 0.0), (-1.0, -inf), (1.0, 0.0), (nan, nan)],
    "gammasgn": [(0.0, 1.0), (-0.0, -1.0), (-1.0, nan), (-0.5, -1.0), (inf, 1.0), (-inf, nan)],
}


@pytest.mark.parametrize("name", VALUES)
def test_values_at_edges(name):
    at, expected = np.array(VALUES[name]).T
    f = getattr(special, name)
    for found in (f(at), pb.jit(f)(at)):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_what_has_no_derivative_says_so():
    for f, args in ((special.hyp1f1, (1.0, 2.0, 0.5)), (special.expn, (2.0, 0.5)), (special.hyp2f1, (1.0, 2.0, 3.0, 0.5))):
        with pytest.raises(pb.errors.GradientError, match="stop_gradient"):
            pb.grad(f)(*args)
        assert np.isfinite(pb.grad(f, len(args) - 1)(*args))


def test_what_is_not_there_says_so():
    with pytest.raises(NotImplementedError, match=r"math\.factorial"):
        special.factorial(3, exact=True)
    with pytest.raises(NotImplementedError, match=r"pb\.grad"):
        special.sph_harm_y(1, 0, 0.5, 0.5, diff_n=1)
    with pytest.raises(pb.errors.DtypeError):
        special.gammaln(1j)


def test_orders_of_derivatives_of_the_incomplete_functions():
    """The third derivative of gammainc with respect to a, by finite differences of the second."""
    with pb.default_bits(64):
        f = pb.grad(pb.grad(special.gammainc))
        third = pb.grad(f)(2.5, 1.5)
        np.testing.assert_allclose(third, (f(2.5 + 1e-4, 1.5) - f(2.5 - 1e-4, 1.5)) / 2e-4, rtol=1e-6)
        g = pb.grad(pb.grad(special.betainc, 0), 1)
        np.testing.assert_allclose(
            pb.grad(g, 1)(2.5, 1.5, 0.3), (g(2.5, 1.5 + 1e-4, 0.3) - g(2.5, 1.5 - 1e-4, 0.3)) / 2e-4, rtol=1e-6
        )


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    "name, points",
    [
        ("erfinv", [0.9999, 0.999999, -0.9999999, 0.99999999, 1 - 1e-12, 0.7]),
        ("gammaln", [-1e-300, -1e-200, -1e-31, 1e-300]),
        ("gamma", [-1e-300, -1e-200, -1e-31, 1e-300]),
        ("digamma", [-0.9999999, -20.000001, -3.05, -1e-300]),
    ],
)
def test_near_poles_and_ends(name, points, compiled):
    exact = {"erfinv": mp.erfinv, "gammaln": lambda x: mp.log(abs(mp.gamma(x))), "gamma": mp.gamma, "digamma": mp.digamma}[name]
    f = getattr(pb.scipy.special, name)
    with pb.default_bits(64), mp.workdps(40):
        found = np.asarray((pb.jit(f) if compiled else f)(np.array(points)))
        np.testing.assert_allclose(found, [float(exact(mp.mpf(x))) for x in points], rtol=2e-15)


def test_relative_entropy_of_numbers_whose_quotient_is_no_double():
    with pb.default_bits(64):
        p, q = np.array([1e-300, 1e300]), np.array([1e10, 1e-300])
        np.testing.assert_allclose(pb.jit(pb.scipy.special.rel_entr)(p, q), p * (np.log(p) - np.log(q)), rtol=1e-14)
        np.testing.assert_allclose(pb.jit(pb.scipy.special.kl_div)(p, q), [1e10, p[1] * (np.log(p[1]) - np.log(q[1]) - 1)])


def test_power_transforms_at_their_ends():
    nan, inf = np.nan, np.inf
    x, power = np.array([0.0, 0.0, inf, inf, inf, 0.0]), np.array([nan, 2.0, -2.0, 0.0, 2.0, -2.0])
    wanted = [nan, -0.5, 0.5, inf, inf, -inf]
    np.testing.assert_array_equal(pb.scipy.special.boxcox(x, power), wanted)
    np.testing.assert_array_equal(pb.scipy.special.boxcox1p(np.where(x == 0, -1.0, x), power), wanted)


def test_beta_of_infinite_numbers_zeros_and_poles():
    a = np.array([0.1, 0.0, 5.0, -2.0, -2.0, -2.0, -1.5, 12.5, 12.5, -0.5])
    b = np.array([np.inf, 0.0, np.inf, 1.0, 2.0, 0.5, 0.5, -11.9, -12.5, 1e5])
    expected = [0.0, np.inf, 0.0, -0.5, 0.5, np.inf, 0.0, 2.509758904693270, 0.0, -1120.994039530043]
    with pb.default_bits(64), np.errstate(divide="ignore"):
        for beta, betaln in (
            (pb.scipy.special.beta, pb.scipy.special.betaln),
            map(pb.jit, (pb.scipy.special.beta, pb.scipy.special.betaln)),
        ):
            np.testing.assert_allclose(beta(a, b), expected, rtol=1e-11)
            np.testing.assert_allclose(betaln(a, b), np.log(np.abs(expected)), rtol=1e-11)


@pytest.mark.parametrize("b, dtype", [(1e5, "float32"), (1e7, "float32"), (1e10, "float64"), (4.0, "float64")])
def test_the_slope_of_betaln_where_its_terms_are_close(b, dtype):
    a, b = np.asarray(2.5, dtype), np.asarray(b, dtype)
    with mp.workdps(40):
        exact = mp.digamma(float(b)) - mp.digamma(mp.mpf(float(b)) + 2.5)
    np.testing.assert_allclose(pb.grad(pb.scipy.special.betaln, 1)(a, b), float(exact), rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name, factor, power", [
    ("erfcx", 2 / np.sqrt(np.pi), 3), ("i0e", 0.75 / np.sqrt(2 * np.pi), 2.5), ("i1e", 0.75 / np.sqrt(2 * np.pi), 2.5),
    ("dawsn", 1, 3),
])  # fmt: skip
def test_second_derivatives_far_out(name, factor, power, dtype):
    f = pb.grad(pb.grad(getattr(special, name)))
    x = np.asarray(1e8, dtype)
    for found in (f(x), pb.jit(f)(x)):
        np.testing.assert_allclose(found, factor * float(x) ** -power, rtol=2e-7)
    assert f(np.asarray(np.inf, dtype)) == 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name, args, wrt, exact", [
    ("spence", (1e-20,), 0, lambda x: mp.log(x) / (1 - x)),
    ("boxcox", (1e-4, 2.0), 0, lambda x, power: x ** (power - 1)),
    ("boxcox1p", (-0.9375, 20.0), 0, lambda x, power: (1 + x) ** (power - 1)),
    ("poch", (1e6, 0.75), 0, lambda z, m: mp.rf(z, m) * (mp.digamma(z + m) - mp.digamma(z))),
    ("comb", (1e6, 2.5), 0, lambda n, k: mp.binomial(n, k) * (mp.digamma(n + 1) - mp.digamma(n - k + 1))),
])  # fmt: skip
def test_slopes_in_which_nothing_cancels(name, args, wrt, exact, dtype):
    f, args = pb.grad(getattr(special, name), wrt), [np.asarray(each, dtype) for each in args]
    with mp.workdps(40):
        expected = float(exact(*[mp.mpf(float(each)) for each in args]))
    for found in (f(*args), pb.jit(f)(*args)):
        np.testing.assert_allclose(found, expected, rtol=2e-5 if dtype == "float32" else 1e-9)


@pytest.mark.parametrize(("name", "slope"), [("xlogy", 1 / 3), ("xlog1py", 1 / 4)])
def test_mixed_second_derivatives_where_x_is_0(name, slope):
    f = getattr(pb.scipy.special, name)
    (_, first), (second, last) = pb.hessian(f, (0, 1))(0.0, 3.0)
    np.testing.assert_allclose([first, second, last], [slope, slope, 0.0], rtol=1e-6)
    assert pb.grad(f, 1)(0.0, 1.0 if name == "xlogy" else 0.0) == 0.0


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
@pytest.mark.parametrize("name", ["gamma", "loggamma", "erfcx"])
def test_functions_of_complex_numbers(name, dtype):
    """On a grid, on both sides of the branch along the negative axis, near poles, and far away."""
    x, y = np.meshgrid(np.linspace(-20.3, 20, 30), np.linspace(-15, 15, 21))
    axis = np.linspace(-6.3, 9, 50) + 0j
    near = [0.5, 1e-8j, 1 + 1e-9j, -2.5 + 1e-12j, -2.5 - 1e-12j, -3 + 1e-6j, -12.5 + 8j, 100 + 5j, -30.5 + 40j]
    z = np.concatenate([(x + 1j * y).ravel(), axis, axis.conj(), near]).astype(dtype)
    z = z[abs(z) < 30] if name == "erfcx" else z
    f, wanted = getattr(special, name), getattr(sc, name)(z.astype("complex128"))
    there = (abs(wanted) < 1e30) & (abs(wanted) > 1e-30)
    assert there.sum() > 400
    for found in (f(z), pb.jit(f)(z)):
        assert found.dtype == dtype
        error = abs(np.asarray(found) - wanted)[there] / np.maximum(abs(wanted), name == "loggamma")[there]
        assert error.max() < 300 * np.finfo(dtype).eps


@pytest.mark.parametrize("z", [0.3 + 0.4j, -2.6 + 0.3j, -2.6 - 0.3j, 4 + 1j, -1 + 0.5j, -3.5 + 9j])
def test_derivatives_of_complex_gamma_functions(z):
    slope = sc.digamma(z)
    np.testing.assert_allclose(pb.grad(special.loggamma, holomorphic=True)(np.array(z)), slope, rtol=1e-12)
    np.testing.assert_allclose(pb.grad(special.gamma, holomorphic=True)(np.array(z)), sc.gamma(z) * slope, rtol=1e-12)
    np.testing.assert_allclose(
        pb.grad(special.erfcx, holomorphic=True)(np.array(z)), 2 * z * sc.erfcx(z) - 2 / np.sqrt(np.pi), rtol=1e-12
    )


def test_poles_of_the_complex_gamma_function():
    poles = np.array([0, -1, -2, -5]) + 0j
    for f in (special.gamma, special.loggamma):
        assert np.isnan(np.asarray(f(poles)).real).all() and np.isnan(np.asarray(f(poles)).imag).all()
