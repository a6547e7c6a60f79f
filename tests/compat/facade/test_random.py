"""jax.random: JAX's names for generators, its options of raw keys, and jax.extend.random."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import pullback.compat.jax as jax
from pullback.compat.jax import numpy as jnp
from pullback.compat.jax import random
from pullback.compat.jax.extend import random as generators


def test_generators_are_named_as_in_jax() -> None:
    key = random.key(3)
    for given in ("threefry2x32", key.dtype, generators.threefry_prng_impl, None):
        assert random.key_data(random.key(3, impl=given)).tolist() == [0, 3]
        assert random.key_dtype(given) is key.dtype
    assert (
        random.key_impl(key) == "threefry2x32"
        and random.wrap_key_data(random.key_data(key), dtype=key.dtype).dtype is key.dtype
    )
    spec = random.PRNGSpec(generators.rbg_prng_impl)
    assert random.key_impl(random.key(0, impl="rbg")) == "rbg" and repr(spec) == "PRNGSpec('rbg')"
    assert random.key_data(random.key(3, impl=spec)).tolist() == [0, 3, 0, 3] == generators.rbg_prng_impl.seed(3).tolist()
    with pytest.raises(ValueError, match="'other' is no generator"):
        random.PRNGKey(0, impl="other")
    with pytest.raises(TypeError, match="name of a generator"):
        random.key(0, impl=3)
    with pytest.raises(ValueError, match="but got both"):
        random.key(0, impl="threefry2x32", dtype=key.dtype)
    with jax.default_prng_impl("unsafe_rbg"):
        assert random.key(0).dtype is random.key_dtype("unsafe_rbg")
        raw = random.PRNGKey(3)
        assert raw.tolist() == [0, 3, 0, 3] and random.split(raw).shape == (2, 4)
        drawn = random.bits(raw, (3,))
    np.testing.assert_array_equal(drawn, random.bits(random.key(3, impl="unsafe_rbg"), (3,)))


def test_raw_keys_follow_the_options() -> None:
    raw = random.PRNGKey(0)
    assert raw.dtype == np.uint32 and raw.shape == (2,)
    draws = (
        lambda: random.normal(raw),
        lambda: random.normal(key=raw),
        lambda: random.split(raw),
        lambda: random.key_data(keys=raw),
    )
    for draw in draws:
        draw()
        with jax.legacy_prng_key("error"), pytest.raises(ValueError, match="The key is an array of uint32"):
            draw()
        with jax.legacy_prng_key("warn"), pytest.warns(UserWarning, match="The key is an array of uint32"):
            draw()
    with jax.enable_custom_prng(True):
        assert random.PRNGKey(0).dtype is random.key(0).dtype
        with pytest.warns(FutureWarning, match="Raw keys"):
            random.normal(raw)
    with jax.legacy_prng_key("error"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert random.normal(random.key(0)) == random.normal(jax.jit(random.key)(0))
    with pytest.raises(TypeError, match="takes a key, but got"):
        random.normal(3)  # type: ignore[arg-type]


def test_seeds() -> None:
    with pytest.raises(TypeError, match="but got a PRNG key already"):
        random.key(random.key(0))
    with pytest.raises(TypeError, match="takes a scalar seed, one number, but got an array"):
        random.PRNGKey(jnp.arange(2))
    jax.config.update("jax_random_seed_offset", 5)
    try:
        assert random.PRNGKey(2).tolist() == [0, 7]
    finally:
        jax.config.update("jax_random_seed_offset", 0)


def test_names_are_those_of_jax() -> None:
    assert not {"checked_keys", "prng_key"} & set(dir(random)) and {"ball", "key", "weibull_min"} <= set(dir(random))
    assert random.normal.__name__ == "normal" and random.normal.__doc__


def test_the_generator_by_itself() -> None:
    # known answers of Random123's threefry2x32 with 20 rounds
    most = np.uint32(0xFFFFFFFF)
    found = generators.threefry_2x32((np.uint32(0), np.uint32(0)), np.zeros(2, np.uint32))
    assert [hex(x) for x in found.tolist()] == ["0x6b200159", "0x99ba4efe"]
    found = generators.threefry_2x32((most, most), np.full(2, most))
    assert [hex(x) for x in found.tolist()] == ["0x1cb996fc", "0xbb002be7"]
    odd = generators.threefry_2x32(random.PRNGKey(1), np.arange(3, dtype=np.uint32))
    even = generators.threefry_2x32(random.PRNGKey(1), np.array([0, 1, 2, 0], np.uint32))
    assert odd.tolist() == even.tolist()[:3]
    with pytest.raises(TypeError, match="requires uint32 arguments, got"):
        generators.threefry_2x32((0, 0), np.arange(2))


def test_keys_as_values() -> None:
    keys = jnp.broadcast_to(random.key(1), (2,))
    assert repr(keys) == "Array((2,), dtype=key<fry>) overlaying:\n[[0 1]\n [0 1]]"
    assert jax.device_get(keys) is keys and repr(random.key(1)).endswith("[0 1]")


def test_draws_need_no_promotion_of_ranks() -> None:
    with jax.numpy_rank_promotion("raise"):
        assert random.categorical(random.key(0), jnp.zeros(3), shape=(4,)).shape == (4,)
        assert random.multivariate_normal(random.key(0), jnp.zeros(2), jnp.eye(2), shape=(5,)).shape == (5, 2)


def test_limits_of_randint_beyond_the_widest_dtype_stand_for_all_numbers() -> None:
    key = jax.random.key(0)
    for dtype in ("uint8", "int16", "int32", "uint32"):
        limits = np.iinfo(dtype)
        expected = jax.random.randint(key, (9,), int(limits.min), int(limits.max) + 1, dtype)
        found = jax.random.randint(key, (9,), -(1 << 40), 1 << 40, dtype)
        assert len(set(found.tolist())) > 1 and found.tolist() == expected.tolist()


def test_a_limit_of_many_bits_beside_an_array_is_refused() -> None:
    key = jax.random.key(0)
    for limits in ((jnp.arange(3), 2**32), (-(2**40), jnp.arange(3))):
        with pytest.raises(OverflowError, match="which 32 bits do not hold"):
            jax.random.randint(key, (3,), *limits)
        with jax.enable_x64(True):
            assert jax.random.randint(key, (3,), *limits).dtype == jnp.int64


def test_samples_lie_as_a_type_says_of_which_nothing_is_said() -> None:
    @jax.jit
    def dropped(x: Any) -> Any:
        return x * jax.random.bernoulli(jax.random.key(0), 0.5, x.shape, out_sharding=jax.typeof(x).sharding)

    assert np.array_equal(dropped(jnp.ones(5)), jax.random.bernoulli(jax.random.key(0), 0.5, (5,)))
