"""Sums and products of many elements are accumulated wide and rounded once, the same eagerly and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core.dtypes import DTYPES, FLOAT8_NAMES, accumulation_dtype
from pullback.ops.arithmetic import add, mul
from pullback.ops.broadcast import reduce_sum
from pullback.ops.contract import dot_general
from pullback.ops.index import scatter_add, scatter_mul
from pullback.ops.reduce import reduce_prod

NARROW = ["float16", "bfloat16", *FLOAT8_NAMES]
SIZE = 1000
ROW = np.random.default_rng(0).uniform(0.25, 1.75, SIZE)

# Functions of SIZE elements that sum or multiply them, and what they are in float64.
ACCUMULATING: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "sum": (pnp.sum, np.sum),
    "sum of a matrix": (lambda x: pnp.sum(pnp.stack([x, x]), axis=1), lambda x: np.full(2, x.sum())),
    "prod": (lambda x: pnp.prod(x[:64]), lambda x: x[:64].prod()),
    "mean": (pnp.mean, np.mean),
    "var": (pnp.var, np.var),
    "dot": (lambda x: pnp.dot(x, x), lambda x: x @ x),
    "matmul": (lambda x: x[None] @ x[:, None], lambda x: x[None] @ x[:, None]),
    "scatter_add": (
        lambda x: pnp.ones(1, x.dtype).at[np.zeros(SIZE, "int32")].add(x),
        lambda x: np.array([1 + x.sum()]),
    ),
    "scatter_mul": (
        lambda x: pnp.ones(1, x.dtype).at[np.zeros(64, "int32")].multiply(x[:64]),
        lambda x: np.array([x[:64].prod()]),
    ),
    "gradient of broadcast": (
        lambda x: pb.grad(lambda s: pnp.sum(pnp.broadcast_to(s, (SIZE,)) * x))(pnp.ones((), x.dtype)),
        np.sum,
    ),
    "psum": (lambda x: pb.vmap(lambda a: pb.lax.psum(a, "i"), axis_name="i")(x)[0], np.sum),
    "pmean": (lambda x: pb.vmap(lambda a: pb.lax.pmean(a, "i"), axis_name="i")(x)[0], np.mean),
}


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize(("function", "truth"), ACCUMULATING.values(), ids=ACCUMULATING)
def test_one_rounding(dtype: str, function: Any, truth: Any) -> None:
    if dtype == "float8_e8m0fnu" and function in (ACCUMULATING["var"][0],):
        pytest.skip("powers of two alone: it has no zero and no negative numbers, so nothing can be centered")
    x = ROW.astype(DTYPES[dtype])
    with np.errstate(all="ignore"):
        expected = np.asarray(truth(x.astype("float64"))).astype("float32").astype(DTYPES[dtype]).astype("float64")
        below, above = (
            np.asarray(truth(x.astype("float64")) * (1 + e)).astype(DTYPES[dtype]).astype("float64") for e in (-1e-5, 1e-5)
        )
    for found in (function(pnp.asarray(x)), pb.jit(function)(x)):
        assert found.dtype == DTYPES[dtype]
        value = np.asarray(found).astype("float64")
        # a sum in float32 may be on the other side of the middle between two neighbors
        same = (value == expected) | (value == below) | (value == above) | (np.isnan(value) & np.isnan(expected))
        assert same.all(), (value, expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_ones_are_counted(dtype: str) -> None:
    ones = np.ones(1000, DTYPES[dtype])
    for sum_ in (pnp.sum, pb.jit(pnp.sum)):
        assert float(sum_(ones)) == 1000.0


def test_a_mean_does_not_overflow() -> None:
    x = np.full(4096, 60000.0, "float16")
    for mean in (pnp.mean, pb.jit(pnp.mean), lambda x: pb.vmap(lambda a: pb.lax.pmean(a, "i"), axis_name="i")(x)[0]):
        assert float(mean(x)) == float(np.float16(60000.0))
    assert float(pnp.var(np.array([200.0, -200.0] * 100, "float16"))) == 40000.0


def test_accumulation_is_a_field() -> None:
    for primitive in (reduce_sum, reduce_prod, dot_general, scatter_add, scatter_mul):
        assert primitive.accumulation is accumulation_dtype
    assert add.accumulation is mul.accumulation is None
    for name, dtype in DTYPES.items():
        assert accumulation_dtype(dtype).name == ("float32" if name in NARROW else name)
