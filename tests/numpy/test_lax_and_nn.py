"""The lax functions against NumPy's, and activation functions with their derivatives at the kinks."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import scipy.special

import pullback as pb
import pullback.numpy as pnp
from pullback import lax, nn

X = np.array([-2.0, -0.5, 0.0, 0.5, 7.0], np.float32)
M = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize(
    "got,expected",
    [
        (lambda: lax.add(M, 1), M + 1),
        (lambda: lax.sub(1.0, M), 1 - M),
        (lambda: lax.max(M, 3), np.maximum(M, 3)),
        (lambda: lax.integer_pow(M, 3), M**3),
        (lambda: lax.round(X), [-2, -1, 0, 1, 7]),
        (lambda: lax.reciprocal(M + 1), 1 / (M + 1)),
        (lambda: lax.select(M > 3, M, 0.0), np.where(M > 3, M, 0)),
        (lambda: lax.stack(pnp.asarray(M)), M),
        (lambda: lax.select_n(M > 3, M, -M), np.where(M > 3, -M, M)),
        (lambda: lax.select_n(np.array([0, 1, 2]), X[:3], X[1:4], X[2:5]), [-2, 0, 7]),
        (lambda: lax.clamp(0.0, X, 1.0), np.clip(X, 0, 1)),
        (lambda: lax.reshape(M, (4, 3)), M.reshape(4, 3)),
        (lambda: lax.reshape(M, (12,), (1, 0)), M.T.reshape(12)),
        (lambda: lax.transpose(M, (1, 0)), M.T),
        (lambda: lax.squeeze(M[:1], (0,)), M[0]),
        (lambda: lax.expand_dims(M, (0, 3)), M[None, :, :, None]),
        (lambda: lax.concatenate([M, M], 1), np.concatenate([M, M], 1)),
        (lambda: lax.broadcast(M, (2,)), np.stack([M, M])),
        (lambda: lax.broadcast_in_dim(X[:4], (3, 4), (1,)), np.tile(X[:4], (3, 1))),
        (lambda: lax.convert_element_type(X, int), X.astype(int)),
        (lambda: lax.iota("int32", 3), [0, 1, 2]),
        (lambda: lax.bitcast_convert_type(X, "int32"), X.view("int32")),
        (lambda: lax.broadcasted_iota("int32", (2, 3), 1), [[0, 1, 2]] * 2),
        (lambda: lax.full((2,), 3), [3, 3]),
        (lambda: lax.pad(X, 0.0, ((1, 2, 0),)), np.pad(X, (1, 2))),
        (lambda: lax.rev(M, (1,)), M[:, ::-1]),
        (lambda: lax.slice(M, (0, 1), (3, 4), (2, 1)), M[0:3:2, 1:4]),
        (lambda: lax.slice_in_dim(M, 1, None, axis=1), M[:, 1:]),
        (lambda: lax.slice_in_dim(M, -3, -1, axis=1), M[:, -3:-1]),
        (lambda: lax.index_in_dim(M, -1, 1, False), M[:, -1]),
        (lambda: lax.dynamic_slice(M, (1, 9), (2, 2)), M[1:3, 2:4]),
        (lambda: lax.dynamic_slice_in_dim(M, -2, 2, 1), M[:, 2:]),
        (lambda: lax.dynamic_index_in_dim(M, np.int32(2), 0, False), M[2]),
        (lambda: lax.dynamic_update_slice(M, np.zeros((1, 4), "f"), (0, 0)), np.concatenate([np.zeros((1, 4)), M[1:]])),
        (lambda: lax.dynamic_update_index_in_dim(M, np.zeros(4, "f"), 0, 0), np.concatenate([np.zeros((1, 4)), M[1:]])),
        (lambda: lax.dot(M, X[:4]), M @ X[:4]),
        (lambda: lax.dot_general(M, M, (([1], [1]), ([], []))), M @ M.T),
        (lambda: lax.batch_matmul(M[None], M.T[None]), (M @ M.T)[None]),
        (lambda: lax.reduce_sum(M, (0,)), M.sum(0)),
        (lambda: lax.reduce_max(M, (0, 1)), M.max()),
        (lambda: lax.argmax(M, 1, "int32"), M.argmax(1)),
        (lambda: lax.population_count(np.array([7, 8], np.int32)), [3, 1]),
        (lambda: lax.erf(X), scipy.special.erf(X)),
    ],
)
def test_lax_as_numpy(got, expected):
    np.testing.assert_allclose(np.asarray(got()), expected, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(pb.jit(got)()), expected, rtol=1e-6)


def test_lax_neither_promotes_nor_broadcasts():
    with pytest.raises(pb.errors.ShapeError, match=r"pb\.numpy"):
        lax.add(M, X[:4])
    with pytest.raises(pb.errors.DtypeError, match=r"pb\.numpy"):
        lax.add(M, M.astype(int))


@pytest.mark.parametrize("call", [lambda: lax.concatenate([], 0), lambda: lax.broadcast(X, (-1,))])
def test_lax_refuses_shapes_in_its_own_words(call):
    with pytest.raises(pb.errors.ShapeError, match=r"^(concatenate|broadcast)"):
        call()


def test_stop_gradient():
    assert float(pb.grad(lambda x: x * pb.stop_gradient(x))(3.0)) == 3.0
    assert float(pb.grad(lambda x: pb.stop_gradient({"a": x})["a"])(3.0)) == 0.0
    assert pb.jit(pb.vmap(pb.grad(lambda x: x**2 * lax.stop_gradient(x))))(X).tolist() == (2 * X * X).tolist()
    assert float(pb.jvp(lax.stop_gradient, (2.0,), (1.0,))[1]) == 0.0
    assert float(pb.grad(lambda x: pb.jit(lambda y: y * lax.stop_gradient(y))(x))(3.0)) == 3.0


def test_collectives():
    def f(x):
        return {"sum": lax.psum(x, "i"), "mean": lax.pmean(x, "i"), "max": lax.pmax(x, "i"), "at": lax.axis_index("i")}

    got = pb.vmap(f, axis_name="i")(X)
    assert got["sum"].tolist() == [5.0] * 5 and got["mean"].tolist() == [1.0] * 5 and got["max"].tolist() == [7.0] * 5
    assert got["at"].tolist() == [0, 1, 2, 3, 4]
    shifted = pb.vmap(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 0)]), axis_name="i")(X[:2])
    assert shifted.tolist() == [-0.5, -2.0]
    assert pb.vmap(lambda x: lax.all_gather(x, "i"), axis_name="i")(X).shape == (5, 5)
    with pytest.raises(pb.errors.AxisError, match="axis_name"):
        lax.psum(1.0, "nobody")


SLOPES = {
    "relu": [0, 0, 0, 1, 1],
    "relu6": [0, 0, 0, 1, 0],
    "leaky_relu": [0.01, 0.01, 1, 1, 1],
    "elu": [*np.exp(X[:2]), 1, 1, 1],
    "sigmoid": scipy.special.expit(X) * scipy.special.expit(-X),
    "softplus": scipy.special.expit(X),
}
VALUES = {
    "relu": np.maximum(X, 0),
    "relu6": np.clip(X, 0, 6),
    "leaky_relu": np.where(X >= 0, X, 0.01 * X),
    "elu": np.where(X > 0, X, np.expm1(X)),
    "sigmoid": scipy.special.expit(X),
    "softplus": np.log1p(np.exp(X)),
    "silu": X * scipy.special.expit(X),
    "tanh": np.tanh(X),
    "softmax": scipy.special.softmax(X),
    "log_softmax": scipy.special.log_softmax(X),
    "logsumexp": scipy.special.logsumexp(X),
    "log_sigmoid": scipy.special.log_expit(X),
}


@pytest.mark.parametrize("name", VALUES)
def test_activations(name):
    function = getattr(nn, name)
    np.testing.assert_allclose(np.asarray(function(pnp.asarray(X))), VALUES[name], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.asarray(pb.jit(function)(X)), VALUES[name], rtol=1e-5, atol=1e-6)
    if name in SLOPES:
        np.testing.assert_allclose(np.asarray(pb.vmap(pb.grad(function))(X)), SLOPES[name], rtol=1e-5, atol=1e-6)


def test_gelu():
    exact = X * (1 + scipy.special.erf(X / np.sqrt(2))) / 2
    np.testing.assert_allclose(np.asarray(nn.gelu(X, approximate=False)), exact, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.asarray(nn.gelu(X)), exact, atol=1e-3)


def test_logsumexp_at_the_extremes():
    assert np.isneginf(float(nn.logsumexp(np.float32([-np.inf, -np.inf]))))
    assert np.isposinf(float(nn.logsumexp(np.float32([np.inf, 1]))))
    np.testing.assert_allclose(np.asarray(nn.logsumexp(M * 100, axis=1)), scipy.special.logsumexp(M * 100, axis=1))
    np.testing.assert_allclose(np.asarray(nn.logsumexp(X, b=X**2)), scipy.special.logsumexp(X, b=X**2), rtol=1e-6)
    value, sign = nn.logsumexp(X, b=-np.ones(5, np.float32), return_sign=True)
    np.testing.assert_allclose([float(value), float(sign)], [scipy.special.logsumexp(X), -1], rtol=1e-6)
    np.testing.assert_allclose(np.asarray(pb.grad(nn.logsumexp)(pnp.asarray(X))), scipy.special.softmax(X), rtol=1e-5)
    assert nn.softmax(np.float32([1.0, 5.0]), where=np.array([True, False])).tolist() == [1, 0]


def test_one_hot():
    assert nn.one_hot(np.array([0, 2, 5]), 3).tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]
    assert nn.one_hot(np.array([0, 2]), 3, axis=0, dtype=int).tolist() == [[1, 0], [0, 0], [0, 1]]
    assert nn.one_hot(1, 3).tolist() == [0, 1, 0]
    for dtype in ("uint8", "int8", "int16", "float16", "bfloat16"):  # which cannot count to 70,000
        places = pnp.asarray([0, 4, -2]).astype(dtype)
        for found in (nn.one_hot(places, 70_000), pb.jit(nn.one_hot, static_argnums=1)(places, 70_000)):
            assert found.sum(1).tolist() == [1, 1, dtype == "uint8"] and found[1, 4] == 1


def test_where_nothing_counts_the_softmax_is_zero_and_so_are_its_derivatives():
    x = pnp.asarray([[1.0, 2.0, 3.0], [1.0, -1.0, 0.0]])
    mask = np.array([[False, False, False], [True, False, True]])
    weights = np.exp([1.0, 0.0]) / np.exp([1.0, 0.0]).sum()
    np.testing.assert_allclose(pb.nn.softmax(x, where=mask), [[0, 0, 0], [weights[0], 0, weights[1]]], rtol=1e-6)
    np.testing.assert_allclose(pb.nn.log_softmax(x, where=mask)[0], [-np.inf] * 3)
    for loss in (lambda v: (pb.nn.softmax(v, where=mask) ** 2).sum(), lambda v: pb.nn.log_softmax(v, where=mask)[1, 0]):
        gradient = np.asarray(pb.grad(loss)(x))
        assert (gradient[~mask] == 0).all() and (gradient[mask] != 0).all()


@pytest.mark.parametrize("how", ["eager", "jit"])
def test_softplus_of_complex_numbers(how):
    """log(1 + e^z), by its principal value; its derivative is the logistic function."""
    points = np.array([0.3 + 1j, -2.0 - 0.5j, 1.5 + 20j, 4.0 + 3j])
    function, derivative = nn.softplus, pb.vmap(pb.grad(nn.softplus, holomorphic=True))
    if how == "jit":
        function, derivative = pb.jit(function), pb.jit(derivative)
    np.testing.assert_allclose(function(points), np.log1p(np.exp(points)), rtol=1e-14)
    np.testing.assert_allclose(nn.log_sigmoid(points), -np.log1p(np.exp(-points)), rtol=1e-13)
    np.testing.assert_allclose(derivative(points), 1 / (1 + np.exp(-points)), rtol=1e-14)


@pytest.mark.parametrize("dtype, precision", [("complex64", 3e-5), ("complex128", 1e-12)])
@pytest.mark.parametrize("how", ["eager", "jit"])
def test_softplus_of_large_angles(how, dtype, precision):
    """The angle is that of 1 + e^z, whatever multiple of 2 pi lies beside it."""
    function = pb.jit(nn.softplus) if how == "jit" else nn.softplus
    with mpmath.workdps(60):
        for real in (-5.0, -0.1, 0.0, 1.0, 30.0):
            for imag in (0.5, 3.2, 1e3, 1e5, -1e6, 1e8, 1e20):
                z = np.array(complex(real, imag), dtype)
                expected = complex(mpmath.log(1 + mpmath.exp(mpmath.mpc(z.item()))))
                found = complex(function(z).item())
                assert abs(found - expected) <= precision * abs(expected), (z, found, expected)


def test_conversion_of_an_integer_that_is_wider_than_integers_are_by_default():
    """An integer out of range wraps, whether it is a number or an element of an array."""
    for dtype in ("int64", "uint32", "int32", "uint8", "float32", "bfloat16"):
        for number in (2**40 + 3, -(2**40) + 3, 2**31):
            expected = np.asarray(number).astype(pnp.dtype(dtype))
            found = lax.convert_element_type(number, dtype)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(np.asarray(found), expected)
    with pytest.raises(OverflowError, match="does not fit"):
        lax.convert_element_type(2**64, "int32")


def test_a_permutation_may_be_an_array():
    assert lax.transpose(pnp.ones((2, 3)), pnp.array([1, 0])).shape == (3, 2)


@pytest.mark.parametrize("function", [lax.argmin, lax.argmax])
@pytest.mark.parametrize("dtype", ["float32", "bool", "complex64"])
def test_indices_are_integers(function, dtype):
    with pytest.raises(pb.errors.DtypeError, match=f"index_dtype is a dtype of integers, not {dtype}"):
        function(M, 0, dtype)


def test_places_that_int32_cannot_number_are_refused():
    """They would be wrong without a word."""
    with pytest.raises(ValueError, match="would overflow"):
        pb.eval_shape(lambda x: lax.top_k(x, 3), pb.ShapeDtypeStruct((2**31 + 1,), np.float32))
    assert pb.eval_shape(lambda x: lax.top_k(x, 3), pb.ShapeDtypeStruct((2**31,), np.float32))[1].shape == (3,)


@pytest.mark.parametrize("error", [TypeError, ValueError])
def test_what_is_no_axis_is_an_error_of_either_class(error):
    with pytest.raises(error, match="squeeze takes an int as axis, but None"):
        lax.squeeze(M, (None,))
    with pytest.raises(error, match=r"fft takes an int as axis, but \[1, 1\]"):
        pnp.fft.fft(M, axis=[1, 1])


def test_relu_of_bools_is_of_integers():
    assert nn.relu(pnp.array([True, False])).dtype == pnp.array([1]).dtype and nn.relu(True).tolist() == 1
