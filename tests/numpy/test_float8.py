"""Functions of float8, of which some kinds have no infinities, and one reaches no further than 15.5, against float32."""

import ml_dtypes
import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core.dtypes import DTYPES, FLOAT8_NAMES

SIGNED = [name for name in FLOAT8_NAMES if name != "float8_e8m0fnu"]
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 4.0, -4.0, 15.0, -15.0]
LARGE = [30.0, -30.0, 100.0, -100.0, 240.0, -240.0]  # each in some kinds only


def pair(dtype, numbers):
    """Numbers in a dtype, and the same in float32."""
    narrow = np.asarray(numbers, DTYPES[dtype])
    return narrow, narrow.astype(np.float32)


@pytest.mark.parametrize("how", [lambda f: f, pb.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("dtype", SIGNED)
def test_activations_of_float8(dtype, how):
    narrow, wide = pair(dtype, [*NUMBERS, *LARGE, np.inf, -np.inf])
    names = ["silu", "gelu", "sigmoid", "softplus", "relu", "elu"]
    got = how(lambda x: [getattr(pb.nn, name)(x) for name in names])(narrow)
    eps, tiny = (float(getattr(ml_dtypes.finfo(DTYPES[dtype]), name)) for name in ("eps", "tiny"))
    for name, out in zip(names, got):
        expected = np.asarray(getattr(pb.nn, name)(wide))
        np.testing.assert_allclose(np.asarray(out).astype(np.float32), expected, rtol=2 * eps, atol=4 * tiny, err_msg=name)


@pytest.mark.parametrize("dtype", SIGNED)
def test_nan_is_left_out_of_extremes_of_float8(dtype):
    narrow, wide = pair(dtype, [[np.nan, -15.0, -1.0], [np.nan, np.nan, np.nan], [3.0, np.nan, 15.0]])
    for name, truth in (("nanmax", np.fmax), ("nanmin", np.fmin)):
        out = getattr(pnp, name)(narrow, axis=1)
        assert out.dtype is DTYPES[dtype]
        np.testing.assert_array_equal(np.asarray(out).astype(np.float32), truth.reduce(wide, axis=1))


@pytest.mark.parametrize("how", [lambda f: f, pb.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("dtype", SIGNED)
def test_the_sign_of_a_zero_of_float8(dtype, how):
    narrow, wide = pair(dtype, NUMBERS)
    np.testing.assert_array_equal(how(pnp.signbit)(narrow), np.signbit(wide))
    out = how(pnp.copysign)(np.ones_like(narrow), narrow)
    np.testing.assert_array_equal(np.asarray(out).astype(np.float32), np.copysign(np.float32(1), wide))


@pytest.mark.parametrize("dtype", FLOAT8_NAMES)
def test_the_complementary_error_function_of_float8_is_compiled(dtype):
    narrow, _ = pair(dtype, [0.5, 1.0, 2.0])
    eager, compiled = (np.asarray(way(narrow)).astype(np.float32) for way in (pb.lax.erfc, pb.jit(pb.lax.erfc)))
    np.testing.assert_allclose(compiled, eager, rtol=float(ml_dtypes.finfo(DTYPES[dtype]).eps))


@pytest.mark.parametrize("how", [lambda f: f, pb.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("dtype", SIGNED)
def test_what_is_left_out_of_a_softmax_of_float8(dtype, how):
    narrow, wide = pair(dtype, [1.0, 2.0, 4.0])
    where = np.array([True, True, False])
    softmax, logsumexp, log_softmax = how(
        lambda x: [getattr(pb.nn, name)(x, where=where) for name in ("softmax", "logsumexp", "log_softmax")]
    )(narrow)
    terms, eps = np.exp(wide[:2]), float(ml_dtypes.finfo(DTYPES[dtype]).eps)
    results = [
        (softmax[:2], terms / terms.sum()),
        (logsumexp, np.log(terms.sum())),
        (log_softmax[:2], np.log(terms / terms.sum())),
    ]
    assert softmax[2] == 0
    for out, expected in results:
        assert out.dtype is DTYPES[dtype]
        np.testing.assert_allclose(np.asarray(out).astype(np.float32), expected, rtol=eps)
