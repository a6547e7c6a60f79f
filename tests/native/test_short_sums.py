"""Sums of a few terms, which are added up where they are read; and long ones whose length no vector divides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernels import kernel_of
from programs import native_mode

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.native.compile import host

rng = np.random.default_rng(8)


def accelerations(np: Any, x: Any, y: Any) -> Any:
    apart = x[None, :, :] - x[:, None, :]
    square = np.sum(apart * apart, axis=-1) + 0.1
    return np.sum(apart * (square**-1.5)[:, :, None], axis=1)


def unit_rows(np: Any, x: Any, y: Any) -> Any:
    return x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True))


def read_by_columns(np: Any, x: Any, y: Any) -> Any:
    """One number for each row, which all columns read."""
    return np.cumsum(y * np.exp(-np.sum(x * x, axis=-1))[:, None], axis=0)


def read_twice(np: Any, x: Any, y: Any) -> Any:
    square = np.sum(x * x, axis=-1)
    return np.sum(square[:, None] + square[None, :], axis=0) + np.max(square)


def sum_of_sums(np: Any, x: Any, y: Any) -> Any:
    return np.sum(np.sum(x * x, axis=-1) * np.max(x, axis=1))


def along_the_first_axis(np: Any, x: Any, y: Any) -> Any:
    return np.cumsum(np.min(y.reshape(4, -1, y.shape[1]), axis=0)[::-1] - np.sum(y[:3], axis=0))


PROGRAMS: list[Callable[..., Any]] = [
    accelerations,
    unit_rows,
    read_by_columns,
    read_twice,
    sum_of_sums,
    along_the_first_axis,
]


@pytest.mark.parametrize("rows", [4, 60, 132])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_values_are_numpys(program: Callable[..., Any], dtype: str, rows: int) -> None:
    x, y = rng.standard_normal((rows, 3)).astype(dtype), rng.standard_normal((rows, 50)).astype(dtype)
    with native_mode("always"):
        found = pb.jit(lambda x, y: program(pnp, x, y))(x, y)
    expected = program(np, x, y)
    np.testing.assert_allclose(found, expected, rtol=1e-4 if dtype == "float32" else 1e-12, atol=1e-4 * np.abs(expected).max())


def test_what_is_read_once_takes_no_memory() -> None:
    x = np.ones((1000, 3), "float32")
    assert kernel_of(lambda x: [accelerations(pnp, x, None)], x).workspace == 0


def test_what_is_read_often_is_computed_once() -> None:
    x, y = np.ones((1000, 3), "float32"), np.ones((1000, 50), "float32")
    kernel = kernel_of(lambda x, y: [read_by_columns(pnp, x, y)], x, y)
    assert kernel.workspace >= 4 * 1000


def test_a_loop_that_writes_over_what_was_summed() -> None:
    """The sums are those of the carry before it was changed."""

    def step(x: Any, i: Any) -> Any:
        square = pnp.sum(x * x, axis=-1)
        x = lax.dynamic_update_slice(x, 2 * x[:7], (3 * i, 0))
        return x, square[::-1] + 1

    x = rng.standard_normal((300, 3))
    with native_mode("always"):
        found = pb.jit(lambda x: lax.scan(step, x, pnp.arange(5)))(x)
    squares = []
    for i in range(5):
        squares.append((x * x).sum(-1)[::-1] + 1)
        x = x.copy()
        x[3 * i : 3 * i + 7] = 2 * x[:7]
    np.testing.assert_allclose(found[0], x, rtol=1e-14)
    np.testing.assert_allclose(found[1], squares, rtol=1e-14)


HOWS = ["sum", "max", "min", "prod", "any", "all", "argmax"]
SHAPES: list[tuple[tuple[int, ...], Any]] = [
    ((1000,), 0),
    ((999,), 0),
    ((8, 1037), 1),
    ((3, 577, 2), (1, 2)),
    ((1100, 3), 0),
    ((12, 1001, 3), 1),
]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint64", "bool"])
def test_lengths_that_no_vector_divides(dtype: str, how: str) -> None:
    for shape, axis in SHAPES:
        x = rng.choice([1, -1] if how == "prod" else [0, 1, 2, 3], shape).astype(dtype)
        if how in ("max", "min", "argmax") and isinstance(axis, int):  # the last element alone decides
            x = -x if how == "min" and dtype[0] in "fi" else x
            np.moveaxis(x, axis, -1)[..., -1] = -5 if how == "min" and dtype[0] in "fi" else 5
        if how == "argmax" and not isinstance(axis, int):
            continue
        with native_mode("always"):
            found = np.asarray(pb.jit(lambda x: getattr(pnp, how)(x, axis=axis))(x))
        wide = x.astype(np.float64) if dtype == "float16" and how in ("sum", "prod") else x
        np.testing.assert_array_equal(found, getattr(np, how)(wide, axis=axis).astype(found.dtype))


@pytest.mark.skipif(not host().avx512, reason="without masks the rest is a second loop")
def test_the_rest_of_a_row_is_no_second_text() -> None:
    texts = [kernel_of(lambda x: [pnp.sum(x, axis=1)], np.ones((4, n), "float32")).source for n in (1024, 1037)]
    assert texts[1].count("@llvm.vector.reduce.fadd") == texts[0].count("@llvm.vector.reduce.fadd")
