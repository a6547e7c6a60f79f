"""Powers whose exponent is known while code is written, against NumPy's; and functions at whole numbers beyond 2^52."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from programs import compiled

import pullback as pb
import pullback.numpy as pnp
from pullback import lax, scipy

BASES = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("exponent", [np.inf, -np.inf, np.nan, 0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, -2.0, 2.5, 3.0, 1e38])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("how", ["eager", "native"])
def test_known_exponents(dtype: str, exponent: float, how: str) -> None:
    x = np.array(BASES, dtype)
    number = np.asarray(exponent, dtype)
    with np.errstate(all="ignore"):
        expected = np.power(x, np.full(x.shape, number))  # of one number NumPy takes the root, which is less exact about -inf
    found = np.asarray(compiled(lambda x: pnp.power(x, pnp.asarray(number)), how)(pnp.asarray(x)))
    np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype == "float32" else 1e-14)
    np.testing.assert_array_equal(np.signbit(found[expected == 0]), np.signbit(expected[expected == 0]))


@pytest.mark.parametrize("exponent", [-0.5, -1.5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_inverse_roots(dtype: str, exponent: float) -> None:
    """Three roundings at most, where the processor's estimate serves as where it would leave its range."""
    rng, limit = np.random.default_rng(0), {"float32": 80, "float64": 680}[dtype]
    x = np.exp2(np.concatenate([rng.uniform(-limit, limit, 4000), rng.uniform(-2, 2, 4000)])).astype(dtype)
    wide = x.astype(np.longdouble)
    truth = 1 / np.sqrt(wide) if exponent == -0.5 else 1 / (wide * np.sqrt(wide))
    assert np.finfo(np.longdouble).nmant > 60  # else it is no truth for float64
    found = np.asarray(compiled(lambda x: pnp.power(x, pnp.asarray(np.asarray(exponent, dtype))), "native")(pnp.asarray(x)))
    assert float(np.max(np.abs(found - truth) / np.spacing(truth.astype(dtype)))) < 2.0


@pytest.mark.parametrize("function, expected", [(lax.lgamma, np.inf), (lax.digamma, np.nan), (scipy.special.gamma, np.nan)])
@pytest.mark.parametrize("how", ["eager", "xla", "native"])
def test_poles_where_a_half_is_below_the_last_place(function: Any, expected: float, how: str) -> None:
    """The nearest whole number of x is not floor(x + 0.5) there, for the sum is rounded."""
    x = -np.array([2.0**52 - 1, 2.0**52, 2.0**52 + 1, 2.0**52 + 3, 2.0**53 - 1, 1e300, np.finfo(np.float64).max])
    with pb.default_bits(64):
        np.testing.assert_array_equal(compiled(function, how)(x), np.full(len(x), expected))


@pytest.mark.parametrize("how", ["eager", "xla", "native"])
def test_sines_of_half_turns_are_exact_beyond_2_to_the_52(how: str) -> None:
    x = 2.0**52 + np.arange(-3.0, 9.0)
    with pb.default_bits(64):
        np.testing.assert_array_equal(compiled(pnp.sinc, how)(np.concatenate([x, -x])), np.zeros(2 * len(x)))
