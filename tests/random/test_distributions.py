"""Each distribution against SciPy's, by a test with fixed keys; derivatives with the bits held fast; batches; limits."""

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import pullback as pb
import pullback.numpy as pnp
from pullback import errors, random

KEY = random.key(20)
N = 20_000

MEAN, COV = pnp.array([1.0, -1.0]), pnp.array([[2.0, 0.5], [0.5, 2.0]])

# A call, and the distribution that it draws from.
CONTINUOUS = {
    "uniform": (lambda k, n: random.uniform(k, n), st.uniform()),
    "uniform between": (lambda k, n: random.uniform(k, n, minval=-1.0, maxval=3.0), st.uniform(-1, 4)),
    "normal": (lambda k, n: random.normal(k, n), st.norm()),
    "normal, real part": (lambda k, n: pnp.real(random.normal(k, n, "complex64")), st.norm(scale=math.sqrt(0.5))),
    "normal, imaginary part": (lambda k, n: pnp.imag(random.normal(k, n, "complex64")), st.norm(scale=math.sqrt(0.5))),
    "truncated_normal": (lambda k, n: random.truncated_normal(k, -1.0, 2.5, n), st.truncnorm(-1, 2.5)),
    "exponential": (lambda k, n: random.exponential(k, n), st.expon()),
    "laplace": (lambda k, n: random.laplace(k, n), st.laplace()),
    "logistic": (lambda k, n: random.logistic(k, n), st.logistic()),
    "cauchy": (lambda k, n: random.cauchy(k, n), st.cauchy()),
    "gumbel": (lambda k, n: random.gumbel(k, n), st.gumbel_r()),
    "gumbel, high": (lambda k, n: random.gumbel(k, n, mode="high"), st.gumbel_r()),
    "lognormal": (lambda k, n: random.lognormal(k, 0.7, n), st.lognorm(0.7)),
    "pareto": (lambda k, n: random.pareto(k, 2.5, n), st.pareto(2.5)),
    "rayleigh": (lambda k, n: random.rayleigh(k, 1.7, n), st.rayleigh(scale=1.7)),
    "triangular": (lambda k, n: random.triangular(k, -1.0, 0.5, 3.0, n), st.triang(1.5 / 4, -1, 4)),
    "wald": (lambda k, n: random.wald(k, 1.7, n), st.invgauss(1.7)),
    "weibull_min": (lambda k, n: random.weibull_min(k, 2.0, 1.5, n), st.weibull_min(1.5, scale=2)),
    "maxwell": (lambda k, n: random.maxwell(k, n), st.maxwell()),
    "gamma": (lambda k, n: random.gamma(k, 2.3, n), st.gamma(2.3)),
    "gamma, small shape": (lambda k, n: random.gamma(k, 0.3, n), st.gamma(0.3)),
    "loggamma": (lambda k, n: random.loggamma(k, 0.4, n), st.loggamma(0.4)),
    "beta": (lambda k, n: random.beta(k, 0.7, 2.0, n), st.beta(0.7, 2)),
    "dirichlet": (lambda k, n: random.dirichlet(k, pnp.array([0.5, 1.5, 2.0]), n)[..., 1], st.beta(1.5, 2.5)),
    "chisquare": (lambda k, n: random.chisquare(k, 3.5, n), st.chi2(3.5)),
    "f": (lambda k, n: random.f(k, 3.5, 6.0, n), st.f(3.5, 6)),
    "t": (lambda k, n: random.t(k, 3.5, n), st.t(3.5)),
    "generalized_normal": (lambda k, n: random.generalized_normal(k, 3.0, n), st.gennorm(3)),
    "ball": (lambda k, n: pnp.sum(random.ball(k, 3, 2, n) ** 2, axis=-1) ** 1.5, st.uniform()),
    "multivariate_normal": (lambda k, n: random.multivariate_normal(k, MEAN, COV, n)[..., 1], st.norm(-1, math.sqrt(2))),
    "orthogonal": (lambda k, n: random.orthogonal(k, 3, n)[..., 2, 1], st.uniform(-1, 2)),  # of a unit vector in space
    "double_sided_maxwell": (lambda k, n: pnp.abs(random.double_sided_maxwell(k, 0.0, 2.0, n)), st.maxwell(scale=2)),
}

THREE = st.rv_discrete(values=(range(3), (0.2, 0.3, 0.5)))


def permuted(key, sizes):
    rows = random.permutation(key, pnp.broadcast_to(pnp.arange(5), (*sizes, 5)), axis=len(sizes), independent=True)
    return rows[..., 1]


DISCRETE = {
    "bernoulli": (lambda k, n: random.bernoulli(k, 0.3, n), st.bernoulli(0.3)),
    "bernoulli, high": (lambda k, n: random.bernoulli(k, 0.3, n, mode="high"), st.bernoulli(0.3)),
    "bits": (lambda k, n: random.bits(k, n, "uint8"), st.randint(0, 256)),
    "randint": (lambda k, n: random.randint(k, n, -3, 9), st.randint(-3, 9)),
    "randint of 8 bits": (lambda k, n: random.randint(k, n, 0, 256, "uint8"), st.randint(0, 256)),
    "rademacher": (lambda k, n: (random.rademacher(k, n) + 1) // 2, st.bernoulli(0.5)),
    "poisson": (lambda k, n: random.poisson(k, 3.5, n), st.poisson(3.5)),
    "poisson, large mean": (lambda k, n: random.poisson(k, 35.0, n), st.poisson(35)),
    "binomial": (lambda k, n: random.binomial(k, 15, 0.3, n), st.binom(15, 0.3)),
    "binomial, many trials": (lambda k, n: random.binomial(k, 150, 0.7, n), st.binom(150, 0.7)),
    "multinomial": (
        lambda k, n: random.multinomial(k, 12, pnp.array([0.2, 0.3, 0.5]), shape=(*n, 3))[..., 1],
        st.binom(12, 0.3),
    ),
    "permutation": (lambda k, n: permuted(k, n), st.randint(0, 5)),
    "choice": (lambda k, n: random.choice(k, pnp.arange(5) + 2, n), st.randint(2, 7)),
    "choice with p": (lambda k, n: random.choice(k, 3, n, p=pnp.array([0.2, 0.3, 0.5])), THREE),
    "geometric": (lambda k, n: random.geometric(k, 0.3, n), st.geom(0.3)),
    "categorical": (
        lambda k, n: random.categorical(k, pnp.log(pnp.array([0.1, 0.2, 0.3, 0.4])), shape=n),
        st.rv_discrete(values=(range(4), (0.1, 0.2, 0.3, 0.4))),
    ),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_a_continuous_distribution(name) -> None:
    sample, truth = CONTINUOUS[name]
    drawn = np.asarray(sample(KEY, (N,)))
    assert drawn.dtype == np.float32 and st.kstest(drawn, truth.cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", DISCRETE)
def test_a_discrete_distribution(name) -> None:
    sample, truth = DISCRETE[name]
    drawn = np.asarray(sample(KEY, (N,))).astype(int)
    values, counts = np.unique(drawn, return_counts=True)
    expected = N * truth.pmf(values)
    kept = expected > 5
    rest = N - expected[kept].sum()
    counts, expected = counts[kept], expected[kept]
    if rest > 1e-6:
        counts, expected = np.append(counts, N - counts.sum()), np.append(expected, rest)
    assert st.chisquare(counts, expected).pvalue > 1e-3


# Those for which a batch of keys is tried: each way in which numbers are made, once.
BATCHED = [
    "uniform between", "truncated_normal", "wald", "triangular", "gamma", "ball", "multivariate_normal", "randint",
    "categorical", "poisson, large mean", "binomial", "permutation", "choice with p",
]  # fmt: skip


@pytest.mark.parametrize("name", BATCHED)
def test_a_batch_of_keys_draws_as_a_loop_does(name) -> None:
    sample = {**CONTINUOUS, **DISCRETE}[name][0]
    keys = random.split(KEY, 3)
    one_by_one = np.stack([np.asarray(sample(key, (4,))) for key in keys])
    for batched in (pb.vmap(lambda k: sample(k, (4,))), pb.jit(pb.vmap(lambda k: sample(k, (4,))))):
        np.testing.assert_allclose(batched(keys), one_by_one, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("name", {**CONTINUOUS, **DISCRETE})
def test_no_numbers_and_one_number(name) -> None:
    sample = {**CONTINUOUS, **DISCRETE}[name][0]
    assert sample(KEY, (2, 0)).shape == (2, 0) and sample(KEY, ()).shape == ()


SIMPLE = ["uniform", "normal", "exponential", "laplace", "logistic", "cauchy", "gumbel", "maxwell"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", SIMPLE)
def test_every_floating_dtype(name, dtype) -> None:
    drawn = getattr(random, name)(KEY, (1000,), dtype)
    assert drawn.dtype == pnp.dtype(dtype) and bool(pnp.isfinite(drawn.astype("float64")).all())
    assert drawn.type.weak is False


def test_the_default_dtypes() -> None:
    assert random.normal(KEY).dtype == np.float32 and random.randint(KEY, (), 0, 9).dtype == np.int32
    with pb.default_bits(64):
        assert random.normal(KEY).dtype == np.float64 and random.randint(KEY, (), 0, 9).dtype == np.int64
        assert random.bits(KEY).dtype == np.uint64


# Functions of parameters in which the numbers that are drawn are smooth.
SMOOTH = {
    "uniform": (lambda a, b: random.uniform(KEY, (5,), "float64", a, a + b), (0.3, 2.0)),
    "truncated_normal": (lambda a, b: random.truncated_normal(KEY, -a, b, (5,), "float64"), (1.3, 2.0)),
    "lognormal": (lambda a: random.lognormal(KEY, a, (5,), "float64"), (0.7,)),
    "pareto": (lambda a: random.pareto(KEY, a, (5,), "float64"), (2.7,)),
    "rayleigh": (lambda a: random.rayleigh(KEY, a, (5,), "float64"), (2.7,)),
    "triangular": (lambda a, b, c: random.triangular(KEY, a, b, c, (5,), "float64"), (0.1, 1.3, 2.5)),
    "wald": (lambda a: random.wald(KEY, a, (5,), "float64"), (1.7,)),
    "weibull_min": (lambda a, b: random.weibull_min(KEY, a, b, (5,), "float64"), (1.7, 2.1)),
    "double_sided_maxwell": (lambda a, b: random.double_sided_maxwell(KEY, a, b, (5,), "float64"), (1.7, 2.1)),
    "multivariate_normal": (
        lambda m, c: random.multivariate_normal(KEY, m, c @ c.T),
        (np.ones(2), np.eye(2) + 0.5),
    ),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_with_the_bits_held_fast(name) -> None:
    function, at = SMOOTH[name]
    with pb.default_bits(64):
        pb.testing.check_gradients(lambda *xs: pnp.sum(function(*xs)), at)


def test_limits_are_kept() -> None:
    assert float(pnp.min(random.gumbel(KEY, (100_000,)))) > -3.5
    bounded = random.truncated_normal(KEY, -0.1, 0.2, (100_000,))
    assert float(bounded.min()) > np.float32(-0.1) and float(bounded.max()) < np.float32(0.2)
    assert (random.randint(KEY, (9,), 5, 5) == 5).all() and (random.randint(KEY, (9,), 5, 2) == 5).all()
    for dtype, low, high in (("uint32", 0, 2**32), ("int32", -(2**31), 2**31), ("int8", -128, 128)):
        drawn = np.asarray(random.randint(KEY, (N,), low, high, dtype)).astype(float)
        assert st.kstest((drawn - low) / (high - low), "uniform").pvalue > 1e-3


def test_parameters_broadcast() -> None:
    assert random.pareto(KEY, pnp.array([1.0, 2.0])).shape == (2,)
    assert random.triangular(KEY, 0.0, pnp.ones((3, 1)), pnp.full((2,), 2.0)).shape == (3, 2)
    assert random.bernoulli(KEY, pnp.full((3,), 0.5), (2, 3)).shape == (2, 3)
    assert random.randint(KEY, (2, 3), pnp.array([0, 5, 9]), 10).shape == (2, 3)
    for dtype in ("int8", "uint16", "int32", "uint32"):  # limits that are Python's numbers take a shorter path
        for limits in ((0, 10), (-200, 300), (-(1 << 31), (1 << 31) - 1), (70_000, 100), (3, 3)):
            known = random.randint(KEY, (5,), *limits, dtype)
            assert known.tolist() == random.randint(KEY, (5,), *map(np.int32, limits), dtype).tolist()
            assert known.tolist() == pb.jit(lambda k, a=limits, d=dtype: random.randint(k, (5,), *a, d))(KEY).tolist()
    assert random.categorical(KEY, pnp.zeros((3, 4)), axis=0, shape=(2, 4)).shape == (2, 4)


def test_what_is_refused() -> None:
    refused = [
        (lambda: random.uniform(KEY, (3,), "int32"), errors.DtypeError),
        (lambda: random.bits(KEY, (3,), "int32"), errors.DtypeError),
        (lambda: random.randint(KEY, (3,), 0, 5, "float32"), errors.DtypeError),
        (lambda: random.bernoulli(KEY, 1), errors.DtypeError),
        (lambda: random.normal(KEY, (-1,)), errors.ShapeError),
        (lambda: random.normal(KEY, (2.5,)), errors.ShapeError),
        (lambda: random.pareto(KEY, pnp.ones(3), (2,)), errors.ShapeError),
        (lambda: random.pareto(KEY, pnp.ones(3), ()), errors.ShapeError),
        (lambda: random.pareto(KEY, 1j), errors.DtypeError),
        (lambda: random.gumbel(KEY, mode="middle"), ValueError),
        (lambda: random.bernoulli(KEY, mode="middle"), ValueError),
        (lambda: random.normal(KEY, (), out_sharding="x"), NotImplementedError),
        (lambda: random.categorical(KEY, pnp.zeros((3, 4)), shape=(2,)), errors.ShapeError),
    ]
    for call, error in refused:
        with pytest.raises(error):
            call()


# ---- the gamma distribution's derivative, at a fixed probability -----------------------------------------------------------


@pytest.mark.parametrize("a", [0.05, 0.4, 1.0, 3.7, 60.0])
def test_the_derivative_of_gamma_numbers_is_that_of_the_quantile(a) -> None:
    with pb.default_bits(64):
        drawn, slope = pb.jvp(lambda a: random.gamma(KEY, a, (20,)), (a,), (1.0,))
        logarithm, of_logarithm = pb.jvp(lambda a: random.loggamma(KEY, a, (20,)), (a,), (1.0,))
    drawn, slope, logarithm, of_logarithm = map(np.asarray, (drawn, slope, logarithm, of_logarithm))
    kept = drawn > 1e-290
    probability = st.gamma(a).cdf(drawn)
    h = 1e-5 * a
    expected = (st.gamma(a + h).ppf(probability) - st.gamma(a - h).ppf(probability)) / (2 * h)
    np.testing.assert_allclose(slope[kept], expected[kept], rtol=2e-4)
    far = logarithm > -600
    probability = st.gamma(a).cdf(np.exp(logarithm))
    quantiles = [np.log(st.gamma(at).ppf(probability)) for at in (a + h, a - h)]
    np.testing.assert_allclose(of_logarithm[far], ((quantiles[0] - quantiles[1]) / (2 * h))[far], rtol=5e-4, atol=1e-4)
    assert np.isfinite(of_logarithm).all()


def test_what_is_made_of_gamma_numbers_has_their_derivatives() -> None:
    def means(a):
        keys = random.split(KEY, 4)
        shape = (20_000,)
        return pnp.stack(
            [
                random.gamma(keys[0], a, shape).mean(),
                random.chisquare(keys[1], a, shape).mean(),
                random.beta(keys[2], a, 2.0, shape).mean(),
                random.dirichlet(keys[3], pnp.stack([a, a, 2 * a]), shape)[:, 0].mean(),
            ]
        )

    _, slopes = pb.jvp(means, (pnp.asarray(1.5),), (pnp.asarray(1.0),))
    np.testing.assert_allclose(slopes, [1.0, 1.0, 2.0 / 3.5**2, 0.0], atol=0.03)
    second = pb.grad(pb.grad(lambda a: random.gamma(KEY, a, (20_000,)).mean()))(1.5)
    assert abs(float(second)) < 0.05


# ---- choosing ----------------------------------------------------------------------------------------------------------------


def test_permutations_have_each_element_once() -> None:
    x = pnp.arange(24).reshape(2, 3, 4)
    for axis in (0, 1, -1):
        whole = np.asarray(random.permutation(KEY, x, axis))
        assert sorted(whole.ravel()) == list(range(24))
        assert {tuple(row) for row in np.moveaxis(whole, axis, 0).reshape(x.shape[axis], -1)} == {
            tuple(row) for row in np.moveaxis(np.asarray(x), axis, 0).reshape(x.shape[axis], -1)
        }
        rows = np.asarray(random.permutation(KEY, x, axis, independent=True))
        np.testing.assert_array_equal(np.sort(rows, axis), np.asarray(x))
    assert random.permutation(KEY, 0).shape == (0,) and random.permutation(KEY, random.split(KEY, 3)).dtype == KEY.dtype
    assert pb.grad(lambda y: (random.permutation(KEY, y) * pnp.arange(3.0)).sum())(pnp.ones(3)).sum() == 3.0


def test_without_replacement_nothing_comes_twice() -> None:
    for sample in (
        random.choice(KEY, 10, (2, 5), replace=False),
        random.choice(KEY, 10, (2, 5), replace=False, p=pnp.arange(1.0, 11.0) / 55),
    ):
        assert sorted(np.ravel(sample)) == list(range(10))
    drawn = np.asarray(random.categorical(KEY, pnp.zeros((3, 5)), shape=(5, 3), replace=False))
    np.testing.assert_array_equal(np.sort(drawn, 0), np.broadcast_to(np.arange(5)[:, None], (5, 3)))
    assert random.choice(KEY, pnp.ones((2, 5, 3)), (4, 2), axis=1).shape == (2, 4, 2, 3)
    for call in (
        lambda: random.choice(KEY, 3, (4,), replace=False),
        lambda: random.choice(KEY, 0, (4,)),
        lambda: random.choice(KEY, 3, (2,), replace=False, p=pnp.array([1.0, 0.0, 0.0])),
        lambda: random.categorical(KEY, pnp.zeros(3), shape=(4,), replace=False),
    ):
        with pytest.raises(ValueError, match="cannot draw"):
            call()


def test_counts_at_the_ends_of_their_domains() -> None:
    assert random.poisson(KEY, pnp.array([0.0, pnp.nan, -1.0, pnp.inf])).tolist() == [0, -1, -1, 2**31 - 1]
    counted = random.binomial(
        KEY, pnp.array([0.0, 5.0, 5.0, -1.0, 5.0, pnp.inf]), pnp.array([0.5, 0.0, 1.0, 0.5, pnp.nan, 0.5])
    )
    np.testing.assert_array_equal(counted, [0, 0, 5, np.nan, np.nan, np.inf])
    assert float(random.multinomial(KEY, 100, pnp.array([0.0, 0.5, 0.5])).sum()) == 100.0


def test_orthogonal_matrices() -> None:
    for n, m, dtype in ((3, 3, "float32"), (4, 2, "float32"), (2, 4, "complex64")):
        x = np.asarray(random.orthogonal(KEY, n, (2,), dtype, m))
        product = x @ x.conj().swapaxes(-1, -2) if n < m else x.conj().swapaxes(-1, -2) @ x
        np.testing.assert_allclose(product, np.broadcast_to(np.eye(min(n, m)), product.shape), atol=1e-6)


@pytest.mark.parametrize("method", ["cholesky", "eigh", "svd"])
def test_the_covariance_of_normal_vectors(method) -> None:
    drawn = np.asarray(random.multivariate_normal(KEY, MEAN, COV, (N,), method=method))
    np.testing.assert_allclose(np.cov(drawn.T), COV, atol=0.06)
    np.testing.assert_allclose(drawn.mean(0), MEAN, atol=0.04)


# Where a formula that is right would have none of its digits left in float32, and JAX's has none.
EXTREME = {
    "wald of a large mean": (lambda k: random.wald(k, 1e6, (N,)), st.invgauss(1e6).cdf),
    "truncated_normal, right": (lambda k: random.truncated_normal(k, 6.0, 7.0, (N,)), st.truncnorm(6, 7).cdf),
    "truncated_normal, left": (lambda k: random.truncated_normal(k, -math.inf, -12.0, (N,)), st.truncnorm(-math.inf, -12).cdf),
    "poisson of a large mean": (lambda k: random.poisson(k, 1e9, (N,)), st.norm(1e9, math.sqrt(1e9)).cdf),
    "binomial of many trials": (lambda k: random.binomial(k, 1e9, 0.5, (N,)), st.norm(5e8, math.sqrt(2.5e8)).cdf),
    "f of few degrees": (lambda k: pnp.log(random.f(k, 0.2, 0.2, (N,))), lambda y: st.f(0.2, 0.2).cdf(np.exp(y))),
    "generalized_normal, flat": (lambda k: pnp.abs(random.generalized_normal(k, 1e4, (N,))), st.uniform().cdf),
}


@pytest.mark.parametrize("name", EXTREME)
def test_extreme_parameters(name) -> None:
    sample, cdf = EXTREME[name]
    assert st.kstest(np.asarray(sample(KEY), np.float64), cdf).pvalue > 1e-3


def test_no_infinity_comes_of_bits_that_are_zero() -> None:
    assert np.isfinite(np.asarray(random.rayleigh(KEY, 1.0, (N,), "bfloat16"), np.float32)).all()
    assert np.isfinite(np.asarray(random.t(KEY, 0.1, (N,)))).mean() > 0.999
    assert float(random.truncated_normal(KEY, -math.inf, 2.0, (N,), "bfloat16").min()) > -4


@pytest.mark.parametrize("limits", [(-2.0, 2.0), (np.float32(-1), np.array([2.5, 2.75], "float32"))])
def test_limits_known_to_lie_in_no_tail_take_no_tail(limits: tuple[Any, Any]) -> None:
    def drawn(key: Any) -> Any:
        return random.truncated_normal(key, *limits, (3, 2), "float32")

    assert "f64" not in pb.jit(drawn).lower(KEY).as_text()
    of_any = pb.jit(lambda key, lower, upper: random.truncated_normal(key, lower, upper, (3, 2), "float32"))
    np.testing.assert_array_max_ulp(drawn(KEY), of_any(KEY, *[np.asarray(limit, "float32") for limit in limits]), 2)


def test_derivatives_in_the_tail() -> None:
    with pb.default_bits(64):
        for limits in ((6.0, 7.0), (-7.0, -5.0)):
            pb.testing.check_gradients(lambda a, b: random.truncated_normal(KEY, a, b), limits, order=2)
