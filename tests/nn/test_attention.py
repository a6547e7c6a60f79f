"""Attention against its definition, one head at a time, in NumPy; and block-scaled products."""

import numpy as np
import pytest
import scipy.special

import pullback as pb
from pullback import nn
from pullback import numpy as pnp
from pullback.core.modes import overriding

rng = np.random.default_rng(3)
B, T, S, N, K, H = 2, 5, 7, 4, 2, 3
Q, KEYS, VALUES = rng.normal(size=(B, T, N, H)), rng.normal(size=(B, S, K, H)), rng.normal(size=(B, S, K, H))
AT, TO = np.arange(T)[:, None], np.arange(S)
SOME = rng.random((B, 1, T, S)) > 0.4
SOME[0, 0, 2] = False  # a position that may attend to nothing
BIAS = rng.normal(size=(B, N, T, S))
LENGTHS, SPANS = np.array([3, 5], np.int32), np.array([7, 2], np.int32)
EVERY = np.ones((T, S), bool)


def by_definition(q, k, v, allowed, bias=None, scale=H**-0.5):
    """The result and the logarithms of the denominators."""
    out, residual = np.zeros(q.shape), np.zeros(q.shape[:-1])
    allowed = np.broadcast_to(allowed, (B, N, T, S))
    for b in range(B):
        for n in range(N):
            own = n // (N // k.shape[2])
            logits = scale * q[b, :, n] @ k[b, :, own].T + (0 if bias is None else np.broadcast_to(bias, (B, N, T, S))[b, n])
            logits = np.where(allowed[b, n], logits, -1e30)
            out[b, :, n] = scipy.special.softmax(logits, axis=-1) @ v[b, :, own]
            residual[b, :, n] = scipy.special.logsumexp(logits, axis=-1)
    return out, residual


BEFORE = (LENGTHS[:, None] > np.arange(T))[:, None, :, None]
CASES = {
    "plain": ({}, EVERY),
    "causal": ({"is_causal": True}, AT >= TO),
    "mask": ({"mask": SOME}, SOME),
    "bias": ({"bias": BIAS, "scale": 0.3}, EVERY),
    "bias of one head, mask of each": ({"bias": BIAS[:1, :1], "mask": BIAS > 0}, BIAS > 0),
    "window": ({"local_window_size": (1, 2)}, (TO >= AT - 1) & (TO <= AT + 2)),
    "window, causal": ({"local_window_size": 1, "is_causal": True}, (abs(TO - AT) <= 1) & (AT >= TO)),
    "lengths": (
        {"query_seq_lengths": LENGTHS, "key_value_seq_lengths": SPANS}, BEFORE & (SPANS[:, None, None, None] > TO),
    ),
}  # fmt: skip


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("name", CASES)
def test_as_defined(name, heads):
    options, allowed = CASES[name]
    k, v = (np.concatenate([x, x[:, ::-1]], axis=2)[:, :, :heads] for x in (KEYS, VALUES))
    expected, residual = by_definition(Q, k, v, allowed, options.get("bias"), options.get("scale", H**-0.5))
    if "lengths" in name:
        expected = np.where(np.swapaxes(BEFORE, 1, 2), expected, 0)
    for how in (lambda f: f, pb.jit):
        out, denominators = how(lambda q: nn.dot_product_attention(q, k, v, **options, return_residual=True))(Q)
        np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-13)
        nothing = residual < -1e20
        np.testing.assert_allclose(np.asarray(denominators)[~nothing], residual[~nothing], rtol=1e-12)
        assert (np.asarray(denominators)[nothing] < -1e20).all()


@pytest.mark.parametrize("name", CASES)
def test_one_sequence_without_the_batch_axis_is_a_batch_of_one(name):
    options, _ = CASES[name]
    own = {key: value[:1] if np.ndim(value) == 4 or key.endswith("lengths") else value for key, value in options.items()}
    out = nn.dot_product_attention(Q[0], KEYS[0], VALUES[0], **own)
    np.testing.assert_allclose(out, nn.dot_product_attention(Q[:1], KEYS[:1], VALUES[:1], **own)[0], rtol=1e-14)


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name):
    options, _ = CASES[name]
    x = [pnp.asarray(a) for a in (Q, KEYS, VALUES)]
    pb.testing.check_gradients(lambda q, k, v: nn.dot_product_attention(q, k, v, **options), x, order=2)


def test_a_batch_of_calls_is_a_loop():
    def attend(q, bias):
        return nn.dot_product_attention(q, KEYS, VALUES, bias)

    queries, biases = np.stack([Q, 2 * Q, -Q]), np.stack([BIAS, -BIAS, BIAS])
    expected = [np.asarray(attend(q, bias)) for q, bias in zip(queries, biases)]
    np.testing.assert_allclose(pb.vmap(attend)(queries, biases), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_logits_of_narrow_floats_are_float32(dtype):
    """Products that overflow float16, and sums of which bfloat16 keeps no digit, are as in float32 up to one rounding."""
    q, k, v = (pnp.asarray(200 * x, dtype=dtype) for x in (Q, KEYS, VALUES / 200))
    for how in (lambda f: f, pb.jit):
        out = how(nn.dot_product_attention)(q, k, v)
        assert out.dtype == q.dtype
        exact, _ = by_definition(*[np.asarray(x).astype(np.float64) for x in (q, k, v)], EVERY)
        np.testing.assert_allclose(
            np.asarray(out).astype(np.float64), exact, rtol=0, atol=0.02 if dtype == "bfloat16" else 2e-3
        )


def test_dtypes_of_results():
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        out, residual = nn.dot_product_attention(
            *[pnp.asarray(x, dtype=dtype) for x in (Q, KEYS, VALUES)], return_residual=True
        )
        assert str(out.dtype) == str(residual.dtype) == dtype
    assert nn.dot_product_attention(Q.astype(np.float32), KEYS, VALUES).dtype == np.float64
    assert nn.dot_product_attention(Q, KEYS[:, :0], VALUES[:, :0]).tolist() == np.zeros(Q.shape).tolist()


@pytest.mark.parametrize(
    "error, words, change",
    [
        (pb.errors.ShapeError, "multiple of K", {"key": KEYS[:, :, :1].repeat(3, 2), "value": VALUES[:, :, :1].repeat(3, 2)}),
        (pb.errors.ShapeError, "takes a query of shape", {"value": VALUES[:, 1:]}),
        (pb.errors.ShapeError, r"broadcast", {"mask": np.ones((3, T, S), bool)}),
        (pb.errors.ShapeError, r"broadcast", {"bias": np.ones((1, 1, 1, 1, S))}),
        (pb.errors.ShapeError, r"query_seq_lengths of shape \(2,\)", {"query_seq_lengths": 3}),
        (pb.errors.DtypeError, "integers as key_value_seq_lengths", {"key_value_seq_lengths": np.ones(2)}),
        (pb.errors.DtypeError, "mask of bools", {"mask": BIAS}),
        (ValueError, "implementation", {"implementation": "cudnn"}),
        (ValueError, "local_window_size", {"local_window_size": -1}),
    ],
)
def test_what_is_refused(error, words, change):
    with pytest.raises(error, match=words):
        nn.dot_product_attention(**{"query": Q, "key": KEYS, "value": VALUES, **change})


def test_products_of_scaled_blocks():
    a, b = rng.normal(size=(2, 3, 8)), rng.normal(size=(2, 5, 8))
    a_scales, b_scales = rng.random((2, 3, 2)), rng.random((2, 5, 4))
    expected = np.einsum("bmk,bnk->bmn", a * a_scales.repeat(4, 2), b * b_scales.repeat(2, 2))
    for how in (lambda f: f, pb.jit):
        np.testing.assert_allclose(how(nn.scaled_matmul)(a, b, a_scales, b_scales), expected, rtol=1e-5, atol=1e-6)
        narrow = how(nn.scaled_matmul)(*[pnp.asarray(x, dtype="float8_e4m3fn") for x in (a, b, a_scales, b_scales)])
        np.testing.assert_allclose(narrow, expected, rtol=0, atol=0.5)
    assert nn.scaled_matmul(a, b, a_scales, b_scales).dtype == np.float32
    assert nn.scaled_matmul(a, b, a_scales, b_scales, "float64").dtype == np.float64
    with pytest.raises(pb.errors.ShapeError, match="scaled_matmul takes"):
        nn.scaled_matmul(a, b, a_scales[:, :, :1].repeat(3, 2), b_scales)


def test_masks_need_no_promotion_of_ranks() -> None:
    with overriding(rank_promotion="raise"):
        out = nn.dot_product_attention(
            Q, KEYS, VALUES, is_causal=True, local_window_size=2, query_seq_lengths=LENGTHS, key_value_seq_lengths=SPANS
        )
        assert out.shape == Q.shape and [x.shape for x in pnp.broadcast_arrays(pnp.zeros(3), pnp.zeros((2, 3)))] == [(2, 3)] * 2
