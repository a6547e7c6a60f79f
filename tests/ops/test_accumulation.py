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


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64", "float64"])
@pytest.mark.parametrize(
    ("make", "axis"),
    [
        (lambda x: x, 0),
        (lambda x: x, None),
        (lambda x: x.T, -1),
        (lambda x: x[:, ::2], (0, 1)),
        (lambda x: x.reshape(400, 1000, 3), (0, 1)),
        (lambda x: x.reshape(400, 3, 1000), (0, 2)),
    ],
    ids=["rows", "all", "transposed", "strided", "two axes", "first and last axis"],
)
def test_long_sums_along_any_axes_are_right_to_the_last_digits(make: Any, axis: Any, dtype: str) -> None:
    """NumPy adds one number after another where memory is not contiguous: 3 percent were lost."""
    x = make(np.full((400_000, 3), 0.1).astype(DTYPES[dtype]))
    expected = np.sum(x.astype("complex128"), axis).real
    mean = np.mean(x.astype("complex128"), axis).real
    precision = {"float16": 2e-3, "bfloat16": 2e-2}.get(dtype, 5e-5)
    with np.errstate(over="ignore"):
        rounded = expected.astype(dtype) if dtype == "float16" else expected
    for sum_, mean_ in (
        (pnp.sum, pnp.mean),
        (pb.jit(pnp.sum, static_argnames="axis"), pb.jit(pnp.mean, static_argnames="axis")),
    ):
        found = np.asarray(sum_(x, axis=axis)).astype("complex128").real
        np.testing.assert_allclose(found, rounded, rtol=precision)
        np.testing.assert_allclose(np.asarray(mean_(x, axis=axis)).astype("complex128").real, mean, rtol=precision)


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
