"""Activation functions, and what depends on whole axes. At zero and infinity: tests/ops/test_derivatives_at_edges.py."""

import numpy as np
from cases import FLOATS, NARROW, case, entry

DTYPES = (*FLOATS, *NARROW)
X = np.array([[-1e4, -5.0, -2.5, -0.25], [0.25, 1.5, 2.0, 30.0]])
POSITIVE = np.array([[0.1, 0.3, 0.69], [0.75, 4.0, 30.0]])
M = np.random.default_rng(0).normal(size=(3, 4))
MASK = np.random.default_rng(1).random((3, 4)) > 0.3
NONE = np.zeros((0, 4))


def celu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha))


def squareplus(x, b=4.0):
    root = np.sqrt(x * x + b)
    return np.where(x < 0, b / 2 / (root - x), (x + root) / 2)


def glu(x, axis=-1):
    values, gates = np.split(x, 2, axis)
    return values / (1 + np.exp(-gates))


def logmeanexp(x, axis=None, where=True, keepdims=False):
    return np.log(np.mean(np.exp(x), axis, where=where, keepdims=keepdims))


def standardize(x, axis=-1, mean=None, variance=None, epsilon=1e-5, where=True):
    mean = np.mean(x, axis, where=where, keepdims=True) if mean is None else mean
    variance = np.mean((x - mean) ** 2, axis, where=where, keepdims=True) if variance is None else variance
    return (x - mean) / np.sqrt(variance + epsilon)


def activation(reference, *cases, **options):
    return entry(reference, *(cases or (case(X), case(NONE))), dtypes=DTYPES, wrt=(0,), weak=True, **options)


HARD = activation(lambda x: x * np.clip(x + 3, 0, 6) / 6)
TABLE = {
    "nn.mish": activation(lambda x: x * np.tanh(np.logaddexp(x, 0))),
    "nn.identity": activation(lambda x: x),
    "nn.hard_tanh": activation(lambda x: np.clip(x, -1, 1), case(X), case(np.array([-3, 0, 3], np.int8)), case(NONE)),
    "nn.hard_sigmoid": activation(lambda x: np.clip(x + 3, 0, 6) / 6),
    "nn.hard_silu": HARD,
    "nn.hard_swish": HARD,
    "nn.celu": entry(celu, case(X), case(X, X[0] ** 2), case(NONE, 2.0), dtypes=DTYPES, wrt=(0, 1), weak=True),
    "nn.selu": activation(lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))),
    "nn.soft_sign": activation(lambda x: x / (1 + abs(x))),
    "nn.squareplus": entry(
        squareplus, case(X), case(X[1], POSITIVE[:, :1]), case(NONE, 2.0), dtypes=DTYPES, wrt=(0, 1), weak=True
    ),
    "nn.sparse_plus": activation(lambda x: np.where(x >= 1, x, np.square(np.clip(x, -1, 1) + 1) / 4)),
    "nn.sparse_sigmoid": activation(lambda x: (np.clip(x, -1, 1) + 1) / 2),
    "nn.log1mexp": activation(lambda x: np.log(-np.expm1(-x)), case(POSITIVE), case(NONE)),
    "nn.glu": activation(glu, case(X[:, 1:3]), case(M, -1), case(np.zeros((3, 0)))),
    "nn.logmeanexp": entry(
        logmeanexp,
        case(M), case(M, (0, 1), MASK, True), case(M, axis=-1, where=MASK), case(np.zeros((3, 0)), 0),
        dtypes=DTYPES, wrt=(0,),
    ),
    "nn.standardize": entry(
        standardize,
        case(M), case(M, None, where=MASK), case(M, (0, 1), epsilon=0.5), case(M, 0, mean=M[0], variance=abs(M)), case(NONE),
        dtypes=DTYPES, wrt=(0,),
    ),
}  # fmt: skip

ELSEWHERE = {"nn.dot_product_attention": "tests/nn/test_attention.py", "nn.scaled_matmul": "tests/nn/test_attention.py"}
