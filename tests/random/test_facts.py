"""Numbers that JAX 0.10.2 draws on the CPU, with its default generator and 32-bit dtypes, from `key(42)`: ours are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb

# Function, arguments after the key, and what jax.random returns. Floats are compared to a few units in the last place, since
# these depend on the processor; all bits are the same on one processor.
FACTS: list[tuple[str, tuple[Any, ...], Any]] = [
    ("split", (3,), [[1832780943, 270669613], [64467757, 2916123636], [2465931498, 255383827]]),
    ("bits", ((3,), "uint8"), [162, 217, 249]),
    ("bits", ((3,), "uint32"), [2098992034, 2919706841, 2646866425]),
    ("uniform", ((3,),), [0.48870957, 0.6797972, 0.6162715]),
    ("uniform", ((3,), "float16", -1.0, 2.0), [-0.771484375, -0.4287109375, 1.92578125]),
    ("normal", ((3,),), [-0.028304616, 0.46713185, 0.29570296]),
    ("normal", ((2,), "bfloat16"), [0.34375, 1.015625]),
    ("exponential", ((3,),), [0.6708175, 1.1388006, 0.95782]),
    ("gumbel", ((3,),), [0.3340934, 0.95201945, 0.72553056]),
    ("laplace", ((3,),), [0.022839652, -0.44565356, -0.2646729]),
    ("logistic", ((3,),), [-0.045169413, 0.7528398, 0.47375232]),
    ("cauchy", ((3,),), [-0.03548463, 0.6337261, 0.38244057]),
    ("truncated_normal", (-1.0, 2.0, (3,)), [0.14770006, 0.5684449, 0.4210255]),
    ("randint", ((5,), -7, 100), [56, 62, 23, 71, 45]),
    ("randint", ((3,), 0, 200, "uint8"), [44, 114, 71]),
    ("permutation", (8,), [7, 4, 2, 5, 3, 6, 0, 1]),
    ("choice", (9, (4,), False), [7, 4, 2, 5]),
    ("bernoulli", (0.3, (6,)), [False, False, False, False, False, False]),
    ("categorical", (np.array([0.1, 1.0, 2.0], np.float32), -1, (8,)), [2, 2, 2, 2, 1, 2, 1, 2]),
    ("rademacher", ((6,),), [1, -1, -1, -1, 1, -1]),
    ("gamma", (2.5, (3,)), [4.378075, 1.5007864, 4.1941113]),
    ("loggamma", (0.1, (3,)), [-4.5498757, -2.5233011, -1.8362768]),
    ("beta", (0.5, 2.0, (3,)), [0.27497146, 0.15737295, 0.5494622]),
    ("poisson", (3.0, (5,)), [6, 2, 2, 1, 5]),
    ("poisson", (30.0, (5,)), [34, 35, 24, 26, 22]),
    ("binomial", (20.0, 0.3, (5,)), [5.0, 7.0, 4.0, 5.0, 10.0]),
    ("geometric", (0.2, (5,)), [4, 2, 3, 3, 4]),
    ("t", (3.0, (3,)), [0.08987478, -1.7357467, 2.352019]),
    ("wald", (np.float32(2.0), (3,)), [2.2265885, 3.9277124, 0.38947535]),
    ("triangular", (0.0, 1.0, 3.0, (3,)), [1.2485027, 1.6139203, 1.4826434]),
]


@pytest.mark.parametrize("name, args, expected", [pytest.param(*fact, id=f"{fact[0]}-{i}") for i, fact in enumerate(FACTS)])
def test_the_numbers_are_jaxs(name: str, args: tuple[Any, ...], expected: Any) -> None:
    found = getattr(pb.random, name)(pb.random.key(42), *args)
    found = pb.random.key_data(found) if name == "split" else found
    exact = found.dtype.kind != "f"
    assert not found.type.weak
    values = np.asarray(found).astype(np.float64)
    np.testing.assert_allclose(values, expected, rtol=0 if exact else 2e-6)


def test_xlas_own_generator_draws_what_jax_draws_with_it() -> None:
    """Recorded from jax 0.10.2 on a CPU."""
    key = np.array([1, 2, 3, 4], np.uint32)
    for algorithm, after, expected in (
        (pb.lax.RandomAlgorithm.RNG_THREE_FRY, [1, 2, 5, 4], [1576285164, 2249660814, 740599976]),
        (pb.lax.RandomAlgorithm.RNG_PHILOX, [1, 2, 4, 4], [512747620, 1298009047, 1267190206]),
    ):
        for draw in (pb.lax.rng_bit_generator, pb.jit(pb.lax.rng_bit_generator, static_argnames=("shape", "algorithm"))):
            state, bits = draw(key, shape=(3,), algorithm=algorithm)
            assert state.tolist() == after and bits.tolist() == expected
    with pytest.raises(pb.errors.DtypeError, match="four words"):
        pb.lax.rng_bit_generator(key[:2], (3,))
    with pytest.raises(pb.errors.DtypeError, match="unsigned"):
        pb.lax.rng_bit_generator(key, (3,), "int32")
    batch = pb.vmap(lambda key: pb.lax.rng_bit_generator(key, (3,))[1])(np.stack([key, key]))
    assert batch.tolist() == [[512747620, 1298009047, 1267190206]] * 2
