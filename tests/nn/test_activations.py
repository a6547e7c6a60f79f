"""What activation functions do with dtypes, axes and masks; tests/ops/test_derivatives_at_edges.py has their derivatives."""

import ml_dtypes
import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback import numpy as pnp

X = np.array([-1e4, -5.0, -3.0, -1.0, -0.25, 0.0, 0.25, 1.0, 2.0, 3.0, 7.5, 1e4])

DEFINITIONS = {
    "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hard_silu": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "celu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0))),
    "soft_sign": lambda x: x / (1 + abs(x)),
    "squareplus": lambda x: np.where(x < 0, 2 / (np.sqrt(x * x + 4) - x), (x + np.sqrt(x * x + 4)) / 2),
    "sparse_plus": lambda x: np.where(x >= 1, x, np.square(np.clip(x, -1, 1) + 1) / 4),
    "sparse_sigmoid": lambda x: (np.clip(x, -1, 1) + 1) / 2,
    "identity": lambda x: x,
    "swish": lambda x: x / (1 + np.exp(-np.maximum(x, -700))),
}


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", DEFINITIONS)
def test_as_defined(name, dtype):
    x = pnp.asarray(X, dtype=dtype)
    eps = float(ml_dtypes.finfo(x.dtype).eps)
    expected = DEFINITIONS[name](np.asarray(x).astype(np.float64))
    for how in (lambda f: f, pb.jit, pb.vmap):
        out = how(getattr(nn, name))(x)
        assert out.dtype == x.dtype and not out.type.weak
        found = np.asarray(out).astype(np.float64)
        np.testing.assert_allclose(found, expected, rtol=4 * eps, atol=eps / 8 if name in ("swish", "mish") else 2 * eps)
    assert getattr(nn, name)(0.5).type.weak
    assert getattr(nn, name)(x[:0]).shape == (0,)


@pytest.mark.parametrize("name", sorted(set(DEFINITIONS) - {"identity", "hard_tanh"}))
def test_integers_become_the_default_floats(name):
    assert getattr(nn, name)(np.array([1, 2], np.int32)).dtype == np.float32
    with pb.default_bits(64):
        assert getattr(nn, name)(np.array([True])).dtype == np.float64


def test_where_they_keep_integers():
    assert nn.hard_tanh(np.array([-3, 0, 3], np.int8)).dtype == np.int8
    assert nn.hard_tanh(np.array([-3, 0, 3], np.int8)).tolist() == [-1, 0, 1]
    assert nn.identity([1][0]).dtype == np.int32


def test_complex_numbers():
    z = np.array([1 + 2j, -0.5j])
    np.testing.assert_allclose(nn.mish(z), z * np.tanh(np.log(1 + np.exp(z))), rtol=1e-14)
    np.testing.assert_allclose(nn.soft_sign(z), z / (1 + abs(z)), rtol=1e-14)


def test_one_number_overflows_no_square():
    large = np.array([1e200, -1e200])
    np.testing.assert_allclose(nn.squareplus(large), [1e200, 1e-200], rtol=1e-15)
    np.testing.assert_allclose(nn.squareplus(np.finfo("float64").max), np.finfo("float64").max)


def test_gated_linear_units():
    x = np.arange(24.0).reshape(2, 3, 4)
    for axis in (0, 2, -1):
        a, b = np.split(x, 2, axis)
        np.testing.assert_allclose(nn.glu(x, axis), a / (1 + np.exp(-b)), rtol=1e-15)
    with pytest.raises(pb.errors.ShapeError, match="odd size"):
        nn.glu(x, 1)


WHERE = np.random.default_rng(0).random((3, 4)) > 0.3
M = np.random.default_rng(1).normal(size=(3, 4))


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
@pytest.mark.parametrize("where", [None, WHERE])
def test_means_of_exponentials(axis, where):
    expected = np.log(np.mean(np.exp(M), axis, where=True if where is None else where, keepdims=True))
    np.testing.assert_allclose(nn.logmeanexp(M, axis, where, True), expected, rtol=1e-12)
    np.testing.assert_allclose(nn.logmeanexp(M + 1000, axis, where, True), expected + 1000, rtol=1e-13)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
@pytest.mark.parametrize("where", [None, WHERE])
def test_standardizing(axis, where):
    which = True if where is None else where
    mean, variance = np.mean(M, axis, where=which, keepdims=True), np.var(M, axis, where=which, keepdims=True)
    for shift in (0.0, 1e6):  # which the difference of two means of squares would not survive
        out = nn.standardize(M + shift, axis, where=where)
        np.testing.assert_allclose(out, (M - mean) / np.sqrt(variance + 1e-5), rtol=1e-8 if shift else 1e-13, atol=1e-9)
    given = nn.standardize(M, axis, mean=0.5, variance=variance, epsilon=0.1, where=where)
    np.testing.assert_allclose(given, (M - 0.5) / np.sqrt(variance + 0.1), rtol=1e-13)
    about = {
        "fast": np.maximum(np.mean(M * M, axis, where=which, keepdims=True) - 0.25, 0),
        "stable": np.mean((M - 0.5) ** 2, axis, where=which, keepdims=True),
    }
    for algorithm, expected in about.items():
        out = nn.standardize(M, axis, mean=0.5, where=where, algorithm=algorithm)
        np.testing.assert_allclose(out, (M - 0.5) / np.sqrt(expected + 1e-5), rtol=1e-12)


def test_narrow_floats_are_standardized_in_float32():
    x = np.array([300.0, 500.0, 700.0], np.float16)  # whose squares overflow
    out = nn.standardize(x)
    assert out.dtype == np.float16
    np.testing.assert_allclose(out, np.array([-1, 0, 1]) * 1.5**0.5, rtol=1e-3)
    with pytest.raises(ValueError, match="algorithm"):
        nn.standardize(x, algorithm="exact")
