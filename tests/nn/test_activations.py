"""What activation functions do with dtypes, axes and masks; tests/ops/test_derivatives_at_edges.py has their derivatives."""

import numpy as np
import pytest

import pullback as pb
from pullback import nn

FLOATING = ["mish", "hard_sigmoid", "hard_silu", "celu", "selu", "soft_sign", "squareplus", "sparse_plus", "sparse_sigmoid"]


@pytest.mark.parametrize("name", FLOATING)
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
    for how in (lambda f: f, pb.jit):
        np.testing.assert_allclose(how(nn.squareplus)(np.finfo("float64").max), np.finfo("float64").max)


def test_one_hot_vectors_along_a_named_axis():
    found = pb.vmap(lambda _: nn.one_hot(np.array([0, 2, 7]), 3, axis="i"), axis_name="i")(np.zeros(3))
    np.testing.assert_array_equal(found, np.asarray(nn.one_hot(np.array([0, 2, 7]), 3)).T)
    with pytest.raises(pb.errors.ShapeError, match="axis 'i' has size 3, not num_classes=4"):
        pb.vmap(lambda _: nn.one_hot(1, 4, axis="i"), axis_name="i")(np.zeros(3))


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


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "logmeanexp"])
def test_the_largest_element_is_not_differentiated(name):
    """It cancels: nothing is computed for its derivative, nor kept from being fused."""
    x = np.array([0.5, 2.0, -1.0], np.float32)
    program = pb.xpr(lambda x, t: pb.jvp(getattr(nn, name), (x,), (t,)), x, x)
    names = [equation.primitive.name for equation in program.equations]
    assert "reduce_max" in names and "optimization_barrier" not in names
