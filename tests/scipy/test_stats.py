"""The distributions against SciPy's: values in and out of the support, compiled, in both precisions, and their derivatives."""

import inspect

import numpy as np
import pytest
import scipy.special as sc
import scipy.stats as st

import pullback as pb
import pullback.numpy as pnp
from pullback.core.modes import overriding
from pullback.scipy import stats

R = np.random.default_rng(5)
X = np.array([-30.0, -2.3, -0.4, 0.0, 0.2, 0.7, 1.0, 1.7, 4.5, 40.0])
Q = np.array([0.0, 1e-10, 0.1, 0.25, 0.6, 0.99, 1.0])
# Shape parameters to try, and the functions of each: those that jax.scipy.stats has, at least.
ALL = "pdf logpdf cdf logcdf sf logsf ppf isf"
SHAPES = {
    "norm": ((), ALL), "uniform": ((), ALL), "expon": ((), ALL), "laplace": ((), ALL), "logistic": ((), ALL),
    "cauchy": ((), ALL),
    "gumbel_l": ((), ALL), "gumbel_r": ((), ALL), "gamma": ((2.5,), ALL), "chi2": ((3.0,), ALL), "beta": ((2.5, 1.5), ALL),
    "t": ((3.5,), ALL), "pareto": ((2.5,), ALL), "gennorm": ((1.75,), "pdf logpdf cdf sf"),
    "vonmises": ((1.5,), "pdf logpdf"), "wrapcauchy": ((0.375,), "pdf logpdf"),
    "truncnorm": ((-0.75, 2.5), "pdf logpdf cdf logcdf sf logsf"),
}  # fmt: skip
CALLS = [(name, method) for name, (_, methods) in SHAPES.items() for method in methods.split()]
K = np.array([-1.0, 0.0, 1.0, 2.0, 3.5, 5.0, 6.0, 40.0])
DISCRETE = {
    "bernoulli": ((0.25,), "pmf logpmf cdf"), "binom": ((5.0, 0.25), "pmf logpmf"),
    "betabinom": ((5.0, 2.5, 1.5), "pmf logpmf"),
    "geom": ((0.25,), "pmf logpmf"), "nbinom": ((4.0, 0.25), "pmf logpmf"), "poisson": ((2.5,), "pmf logpmf cdf sf"),
}  # fmt: skip


def close(found, expected, dtype="float64", rtol=1e-11):
    np.testing.assert_allclose(found, expected, rtol=rtol if dtype == "float64" else 3e-5, atol=1e-30)


def of_scipy(name, method, at, shapes, loc, scale):
    if name != "vonmises":
        with np.errstate(all="ignore"):
            return getattr(getattr(st, name), method)(at, *shapes, loc, scale)
    expected = getattr(st.vonmises, method)((at - loc) / scale, *shapes)  # SciPy's has no density beyond pi
    return expected / scale if method == "pdf" else expected - np.log(scale)


@pytest.mark.parametrize("name, method", CALLS)
def test_a_continuous_distribution(name, method):
    shapes, _ = SHAPES[name]
    f = getattr(getattr(stats, name), method)
    points = Q if method in ("ppf", "isf") else np.linspace(-1.5, 1.5, 9) if name == "vonmises" else X
    for loc, scale in ((0.0, 1.0), (0.25, 2.0)):
        at = points if method in ("ppf", "isf") else points * scale + loc
        for dtype in ("float64", "float32"):
            x = at.astype(dtype)
            expected = of_scipy(name, method, x.astype("float64"), shapes, loc, scale)
            expected = np.where(np.abs(expected) < 1e-37, 0, expected) if dtype == "float32" else expected
            tries = [f(x, *shapes, loc, scale)] + [pb.jit(f)(x, *shapes, loc=loc, scale=scale)] * (loc > 0)
            for found in tries:
                assert found.dtype == dtype
                found = np.where(np.abs(found) < 1e-37, 0, found) if dtype == "float32" else found
                close(found, expected, dtype)


@pytest.mark.parametrize("name", DISCRETE)
def test_a_discrete_distribution(name):
    shapes, methods = DISCRETE[name]
    for method in methods.split():
        expected = getattr(getattr(st, name), method)(K, *shapes)
        f = getattr(getattr(stats, name), method)
        for found in (f(K, *shapes), pb.jit(f)(K + 2, *shapes, loc=2)):
            close(found, expected, rtol=1e-10)


@pytest.mark.parametrize("name", SHAPES)
def test_derivatives_of_a_distribution(name):
    shapes, methods = SHAPES[name]
    for method in methods.split():
        if method in ("pdf", "isf"):
            continue
        at = (
            np.array([0.3, 0.8])
            if method in ("ppf", "isf")
            else np.array([1.3, 2.2])
            if name == "pareto"
            else np.array([0.2, 0.7])
        )
        f = getattr(getattr(stats, name), method)
        args = [at, *[np.array(shape) for shape in shapes], np.array(0.1), np.array(1.3)]
        pb.testing.check_gradients(f, args, order=1)


@pytest.mark.parametrize("name", SHAPES)
def test_a_density_has_no_nan_in_its_gradient_outside_the_support(name):
    shapes, _ = SHAPES[name]
    f = getattr(stats, name).logpdf
    for x in (-5.0, 0.0, 1.0, 60.0):
        assert not np.isnan(pb.grad(f)(x, *shapes)), x


def test_signatures_are_those_of_scipy():
    assert list(inspect.signature(stats.norm.logpdf).parameters) == ["x", "loc", "scale"]
    assert list(inspect.signature(stats.beta.cdf).parameters) == ["x", "a", "b", "loc", "scale"]
    assert list(inspect.signature(stats.poisson.logpmf).parameters) == ["k", "mu", "loc"]
    assert list(inspect.signature(stats.norm.ppf).parameters) == ["q", "loc", "scale"]
    assert stats.gamma.pdf.__doc__.startswith("The density at x. The gamma distribution")
    assert repr(stats.norm) == "<distribution norm>" and repr(stats.dirichlet) == "<distribution dirichlet>"
    assert not hasattr(stats.vonmises, "ppf")


def test_parameters_out_of_range_give_nan():
    assert (
        np.isnan(stats.norm.pdf(0.0, 0.0, -1.0))
        and np.isnan(stats.gamma.cdf(1.0, -1.0))
        and np.isnan(stats.binom.pmf(1, 3, 1.5))
    )
    assert np.isnan(stats.norm.ppf(1.5)) and np.isnan(stats.expon.cdf(np.nan))


def test_integers_and_python_numbers():
    assert stats.norm.cdf(1).dtype == "float32" and stats.poisson.pmf(pnp.array([1, 2]), 3).dtype == "float32"
    close(stats.norm.logcdf(-100), st.norm.logcdf(-100), "float32")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_numbers_and_parameters_that_are_pythons(dtype):
    """These meet as a weak number of 16 bits, half of which is one of 32."""
    x = pnp.array([0.25, 0.5], dtype)
    for name, method in CALLS:
        f, shapes = getattr(getattr(stats, name), method), SHAPES[name][0]
        found = f(x, *shapes)
        assert found.dtype == dtype, (name, method)
        np.testing.assert_allclose(
            np.float32(found), f(np.float32(x), *shapes), rtol=0.05, atol=0.05, err_msg=f"{name} {method}"
        )
    assert all(getattr(stats, name).pmf(x, *DISCRETE[name][0]).dtype == dtype for name in DISCRETE)


def test_tails_keep_their_digits():
    with pb.default_bits(64):
        for name, x in (
            ("norm", 38.0),
            ("logistic", 700.0),
            ("gumbel_r", 40.0),
            ("cauchy", 1e20),
            ("expon", 700.0),
            ("pareto", 1e50),
        ):
            shapes = (2.5,) if name == "pareto" else ()
            close(getattr(stats, name).sf(x, *shapes), getattr(st, name).sf(x, *shapes), rtol=1e-12)
        close(stats.gumbel_r.logsf(800.0), -800.0)
        close(stats.gumbel_l.logcdf(np.array([-800.0, -1.0, 1.0])), [-800.0, *st.gumbel_l.logcdf([-1.0, 1.0])])
        close(stats.truncnorm.logpdf(31.0, 30.0, 40.0), -np.log(0.0333) + st.norm.logpdf(31) - st.norm.logpdf(30), rtol=1e-3)


@pytest.mark.parametrize("mu", [0.01, 1.0, 9.0, 49.0, 51.0, 200.0])
def test_the_entropy_of_poisson_and_others(mu):
    with pb.default_bits(64):
        close(stats.poisson.entropy(mu), st.poisson(mu).entropy(), rtol=1e-7)
        for name in ("norm", "uniform", "expon", "laplace", "logistic", "cauchy", "gumbel_l", "gumbel_r"):
            close(getattr(stats, name).entropy(scale=mu), getattr(st, name).entropy(scale=mu))


def test_entropies_have_the_shape_of_all_parameters():
    """As SciPy's, though they do not depend on where a distribution is."""
    loc, scale = np.ones((3, 1)), np.array([1.0, 2.0])
    for name in ("norm", "uniform", "expon"):
        close(getattr(stats, name).entropy(loc, scale), getattr(st, name).entropy(loc, scale))
        assert getattr(stats, name).entropy(loc).shape == (3, 1)
    assert stats.poisson.entropy(2.0, loc).shape == (3, 1)


def test_the_modes_of_no_rows_are_none():
    assert stats.mode(pnp.zeros((0, 2)), axis=1).mode.shape == (0,)


def test_joint_distributions():
    cov = np.array([[2.0, 0.3], [0.3, 1.0]])
    x, mean = R.normal(size=(4, 2)), np.array([0.1, -0.2])
    with pb.default_bits(64):
        close(stats.multivariate_normal.logpdf(x, mean, cov), st.multivariate_normal.logpdf(x, mean, cov))
        close(stats.multivariate_normal.pdf(x, mean, 2.0), st.multivariate_normal.pdf(x, mean, 2.0))
        close(stats.multivariate_normal.logpdf(0.3, 0.0, 2.0), st.multivariate_normal.logpdf(0.3, 0.0, 2.0))
        covs = np.stack([cov, 2 * cov])
        both = stats.multivariate_normal.logpdf(x[:, None], mean, covs)
        close(both[:, 1], st.multivariate_normal.logpdf(x, mean, 2 * cov))
        pb.testing.check_gradients(lambda m, c: stats.multivariate_normal.logpdf(x, m, c), (mean, cov))
        p, alpha = np.array([0.2, 0.3, 0.5]), np.array([1.5, 2.0, 0.7])
        close(stats.dirichlet.logpdf(p, alpha), st.dirichlet.logpdf(p, alpha))
        close(stats.dirichlet.logpdf(p[:2], alpha), st.dirichlet.logpdf(p[:2], alpha))
        assert stats.dirichlet.pdf(p + 0.1, alpha) == 0
        close(stats.multinomial.logpmf(np.array([1, 2, 3]), 6, p), st.multinomial.logpmf([1, 2, 3], 6, p))
        assert stats.multinomial.pmf(np.array([1, 2, 3]), 7, p) == 0
        with overriding(promotion="strict"):  # counts are numbers of p's dtype
            assert stats.multinomial.pmf(np.array([1, 2, 3]), np.array(7), np.float32(p)) == 0
    with pytest.raises(NotImplementedError, match="Cholesky"):
        stats.multivariate_normal.logpdf(x, mean, cov, allow_singular=True)


@pytest.mark.parametrize("method", ["average", "min", "max", "dense", "ordinal"])
def test_ranks(method):
    x = R.integers(0, 5, (3, 7)).astype("float32")
    np.testing.assert_array_equal(stats.rankdata(x, method), st.rankdata(x, method).reshape(-1))
    np.testing.assert_array_equal(stats.rankdata(x, method, axis=0), st.rankdata(x, method, axis=0))
    np.testing.assert_array_equal(pb.jit(lambda x: stats.rankdata(x, method, axis=1))(x), st.rankdata(x, method, axis=1))
    assert np.isnan(stats.rankdata(pnp.array([1.0, np.nan]), method)).all()
    assert stats.rankdata(pnp.zeros(0), method).shape == (0,)
    with pytest.raises(ValueError, match="method"):
        stats.rankdata(x, "best")


def test_the_commonest_value():
    x = R.integers(0, 4, (5, 3, 2))
    for axis in (0, 1, -1, None):
        for keepdims in (False, True):
            found, expected = stats.mode(x, axis, keepdims=keepdims), st.mode(x, axis, keepdims=keepdims)
            np.testing.assert_array_equal(found.mode, expected.mode)
            np.testing.assert_array_equal(found.count, expected.count)
    with pytest.raises(pb.errors.ShapeError, match="at least one"):
        stats.mode(pnp.zeros(0))
    with pytest.raises(ValueError, match="nan_policy"):
        stats.mode(x, nan_policy="omit")


def test_the_error_of_a_mean():
    x = R.normal(size=(4, 3))
    for kwargs in ({}, {"axis": 1}, {"axis": None}, {"ddof": 0, "keepdims": True}):
        close(stats.sem(x, **kwargs), st.sem(x, **kwargs))
    x[1, 2] = np.nan
    close(stats.sem(x, nan_policy="omit"), st.sem(x, nan_policy="omit"))


def test_kernel_density_estimates():
    data, weights = R.normal(size=(2, 20)), R.random(20)
    for width in (None, "silverman", 0.4, lambda kde: 0.3):
        found, expected = stats.gaussian_kde(data, width, weights), st.gaussian_kde(data, width, weights)
        close(found(data[:, :3]), expected(data[:, :3]))
        close(found.covariance, expected.covariance)
        close(found.logpdf(data[:, 0] + 30), expected.logpdf(data[:, 0] + 30))
    one = stats.gaussian_kde(data[0])
    close(one.integrate_box_1d(-1.0, 0.5), st.gaussian_kde(data[0]).integrate_box_1d(-1, 0.5))
    found, expected = [each.gaussian_kde(data, 0.4, weights) for each in (stats, st)]
    other, others = [each.gaussian_kde(data[::-1, :9]) for each in (stats, st)]
    close(found.integrate_kde(other), expected.integrate_kde(others))
    close(found.integrate_gaussian(data[:, 0], np.eye(2)), expected.integrate_gaussian(data[:, 0], np.eye(2)))
    close(pb.jit(lambda kde, x: kde(x))(found, data[:, :3]), expected(data[:, :3]))
    draws = stats.gaussian_kde(data, 0.1, weights).resample(pb.random.key(0), (4000,))
    np.testing.assert_allclose(np.mean(draws, axis=1), data @ weights / weights.sum(), atol=0.1)
    pb.testing.check_gradients(lambda x: stats.gaussian_kde(data)(x), (data[:, :3],), order=1)
    with pytest.raises(ValueError, match="bw_method"):
        stats.gaussian_kde(data, "best")
    with pytest.raises(pb.errors.ShapeError):
        stats.gaussian_kde(data[:, :1])
    with pytest.raises(pb.errors.ShapeError, match="dimensions"):
        stats.gaussian_kde(data)(np.zeros((3, 2)))


def test_a_power_of_0_d_operands_whatever_holds_their_values():
    """A type that NumPy's power was found to do for has its value in an array at times, at times in a NumPy scalar."""
    base, exponent = pnp.asarray(np.array(2.0)), pnp.asarray(np.array(3.0))
    for _ in range(3):
        assert base**exponent == 8 and (base * 1.0) ** (exponent + 0.0) == 8 and pnp.sum(base) ** exponent == 8


def test_beta_of_numbers_near_zero():
    with pb.default_bits(64):
        x = np.array([1e-300, 1e-10, 0.3, 0.9])
        for name in ("sf", "logcdf", "logsf"):
            found = getattr(pb.scipy.stats.beta, name)(x, 0.001, 2.0)
            np.testing.assert_allclose(found, getattr(st.beta, name)(x, 0.001, 2.0), rtol=1e-12)
        np.testing.assert_allclose(pb.scipy.stats.beta.sf(0.4, 1.0, 100.0), 0.6**100, rtol=1e-12)


def test_ranks_are_strong_in_every_method() -> None:
    for method in ("average", "min", "max", "dense", "ordinal"):
        assert not stats.rankdata(pnp.asarray([3.0, 1.0, 1.0]), method).type.weak


def test_quantiles_of_beta_near_the_ends():
    with pb.default_bits(64):
        close(stats.beta.isf(1 - 1e-10, 0.5, 0.5), st.beta.isf(1 - 1e-10, 0.5, 0.5))
        close(stats.beta.isf(0.1, 0.001, 2.0), stats.beta.ppf(0.9, 0.001, 2.0))


@pytest.mark.parametrize("df", [0.5, 3.0, 1e4, 1e10])
def test_student_of_many_degrees_of_freedom_and_far_out(df):
    y, q = np.array([0.0, -1e-10, 0.5, -2.0, 10.0, 1e5]), np.array([1e-20, 0.1, 0.3, 0.5, 0.9])
    with pb.default_bits(64):
        close(stats.t.cdf(y, df), sc.stdtr(df, y), rtol=1e-12)
        close(stats.t.sf(y, df), sc.stdtr(df, -y), rtol=1e-12)
        close(stats.t.ppf(q, df), st.t.ppf(q, df), rtol=1e-12)
        close(pb.vmap(pb.grad(stats.t.cdf), (0, None))(y, df), stats.t.pdf(y, df))
        slopes = pb.vmap(pb.grad(stats.t.ppf), (0, None))(q, df)
        close(slopes * stats.t.pdf(stats.t.ppf(q, df), df), 1.0)
        close(stats.cauchy.logpdf(1e300), -2 * np.log(1e300) - np.log(np.pi))
        close(stats.t.logpdf(1e300, 1.0), stats.cauchy.logpdf(1e300))


@pytest.mark.parametrize("name", SHAPES)
def test_the_slope_of_a_probability_in_the_middle_is_the_density(name):
    shapes, methods = SHAPES[name]
    with pb.default_bits(64):
        if "cdf" in methods:
            at = 0.5 if name in ("beta", "uniform") else 1.5 if name == "pareto" else 1e-9 if name == "gamma" else 0.0
            close(pb.grad(getattr(stats, name).cdf)(at, *shapes), getattr(stats, name).pdf(at, *shapes))
        if "ppf" in methods:
            middle = getattr(stats, name).ppf(0.5, *shapes)
            close(pb.grad(getattr(stats, name).ppf)(0.5, *shapes), 1 / getattr(stats, name).pdf(middle, *shapes))
