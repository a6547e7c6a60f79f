"""What random keys, bits and draws are, against JAX's with its default generator; skipped where jax is not installed.

Both run on one processor here, so that bits are compared as bits. A law that is a formula in its numbers may differ in the last
places, where we round less often; `ULPS` says by how many.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from campaign import library

import pullback as pb

pytestmark = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")

F32 = np.float32
CUBE, LOGITS = np.arange(24, dtype=F32).reshape(2, 3, 4), np.log(np.arange(1, 25, dtype=F32)).reshape(2, 3, 4)
CHANCE, COVARIANCE = np.array([0.2, 0.3, 0.5], F32), np.array([[2.0, 0.5], [0.5, 1.0]], F32)
SHAPES: tuple[Any, ...] = ((), 5, (0,), [2, 3])

# Of a function the arguments after the key.
DRAWS: dict[str, list[tuple[Any, ...]]] = {
    "split": [(3,), ((2, 3),)],
    "fold_in": [(7,), (2**32 - 1,)],
    "bits": [((7,), f"uint{width}") for width in (8, 16, 32, 64)],
    **{
        name: [(shape, dtype) for shape in SHAPES for dtype in ("float16", "bfloat16", "float32", "float64")]
        for name in ("uniform", "normal", "gumbel", "exponential", "laplace", "logistic", "cauchy")
    },
    "rademacher": [(shape, dtype) for shape in SHAPES for dtype in ("int8", "int32", "float16", "float32")],
    "randint": [
        ((3,), low, high, dtype)
        for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
        for low, high in ((0, 10), (5, 5), (9, 3), (0, 256), (0, 2**31 - 1), (np.arange(3, dtype="i4"), np.full(3, 9, "i4")))
    ],
    "permutation": [(5,), *[(CUBE, axis, rows) for axis in (0, 1, -1) for rows in (False, True)]],
    "choice": [
        (CUBE, shape, replace, None if even else np.arange(1, n + 1, dtype=F32) / (n * (n + 1) / 2), axis)
        for axis, n in ((0, 2), (1, 3), (-1, 4)) for shape in ((), (2,)) for replace in (True, False) for even in (True, False)
    ],
    "bernoulli": [(p, (3, 2), mode) for p in (0.3, 0.0, 1.5, np.float16(0.3)) for mode in ("low", "high")],
    "categorical": [(LOGITS, 0), (LOGITS, -1, (5, 2, 3)), (LOGITS, 1, (2, 2, 4), False)],
    "truncated_normal": [(low, high, (4,), dtype) for low, high in ((-2, 2), (0, np.inf)) for dtype in ("float16", "float32")],
    "gamma": [(a, (4,)) for a in (1e-4, 0.1, 1.0, 2.5, 1e4)],
    "loggamma": [(a, (4,)) for a in (1e-4, 0.1, 1.0, 2.5, 1e4)],
    "beta": [(0.5, 2.0, (4,))], "dirichlet": [(np.array([0.1, 1, 2], F32),), (CHANCE, (2,))],
    "chisquare": [(3.0, (4,))], "t": [(3.0, (4,))], "f": [(3.0, 5.0, (4,))],
    "generalized_normal": [(1.5, (4,))], "ball": [(3, 2.0, (2,))],
    "poisson": [(rate, (4,)) for rate in (0.0, 0.5, 9.99, 10.0, 50.0, 1e3, -1.0, np.nan)],
    "binomial": [(n, p, (4,)) for n in (0, 5, 100, 1e6) for p in (0.0, 1e-3, 0.5, 0.9, 1.0)],
    "multinomial": [(100, CHANCE)], "geometric": [(0.2, (4,)), (1.0, (4,))],
    "pareto": [(3.0, (4,))], "rayleigh": [(2.0, (4,))], "lognormal": [(0.5, (4,))], "weibull_min": [(2.0, 1.5, (4,))],
    "triangular": [(-1.0, 0.5, 2.0, (4,))], "wald": [(1.0, (4,))], "maxwell": [((4,),)],
    "double_sided_maxwell": [(1.0, 2.0, (4,))],
    "multivariate_normal": [(np.zeros(2, F32), COVARIANCE, (3,))], "orthogonal": [(3,)],
}  # fmt: skip
ULPS = {
    "beta": 2, "chisquare": 2, "f": 32, "t": 4, "ball": 8, "dirichlet": 2, "pareto": 4, "lognormal": 2, "weibull_min": 2,
    "triangular": 4, "wald": 16, "maxwell": 1, "double_sided_maxwell": 2, "generalized_normal": 4,
}  # fmt: skip


def _words(module: Any, name: str, bits: int, args: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    key = module.random.fold_in(module.random.key(42), bits)
    out = getattr(module.random, name)(key, *args)
    return np.asarray(module.random.key_data(out) if name in ("split", "fold_in") else out)


@pytest.mark.parametrize("bits", [32, pytest.param(64, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_jaxs(name: str, bits: int) -> None:
    jax = library("jax")
    for args in DRAWS[name]:
        if bits == 32 and str(args[-1]) in ("float64", "int64", "uint64"):
            continue
        with jax.enable_x64(bits == 64), pb.default_bits(bits):
            found, expected = _words(pb, name, bits, args), _words(jax, name, bits, args)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape), args
        if name in ("multivariate_normal", "orthogonal"):  # by another LAPACK
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
        elif name in ULPS:
            np.testing.assert_array_max_ulp(found, expected, ULPS[name])
        else:
            np.testing.assert_array_equal(found.view(f"u{found.itemsize}"), expected.view(f"u{expected.itemsize}"), str(args))


@pytest.mark.parametrize("name", ["gamma", "loggamma"])
def test_derivatives_in_the_shape_parameter_are_jaxs(name: str) -> None:
    jax = library("jax")
    for a in (0.05, 0.7, 3.0, 200.0):
        with jax.enable_x64(True), pb.default_bits(64):
            found, expected = [
                float(module.grad(lambda a: getattr(module.random, name)(module.random.key(1), a))(a)) for module in (pb, jax)
            ]
        assert found == pytest.approx(expected, rel=1e-6)
