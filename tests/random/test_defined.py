"""Generators that a program defines: here one of two keys of threefry, side by side, of which the first draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.compat.jax as jax
import pullback.compat.jax.extend.random as extend
from pullback.core.dtypes import KEYS

random, pnp = pb.random, pb.numpy


def of_both(function: Any) -> Any:
    """A function of a key, of the words of two."""
    return lambda words, *args: pnp.stack([random.key_data(function(random.wrap_key_data(row), *args)) for row in words], -2)


def seed(number: Any) -> Any:
    return pnp.stack([random.key_data(random.key(number)), random.key_data(random.key(number ^ 3))])


def bits(words: Any, width: int, shape: Any) -> Any:
    return random.bits(random.wrap_key_data(words[0]), shape, f"uint{width}")


@pytest.fixture(scope="module")
def two() -> str:
    return random.define_generator(
        "two", (2, 2), seed=seed, split=of_both(random.split), bits=bits, fold_in=of_both(random.fold_in)
    )


DRAWN = {
    "bits": lambda key: random.bits(key, (3,), "uint8"),
    "uniform": lambda key: random.uniform(key, (2, 2)),
    "normal": lambda key: random.normal(key, (3,)),
    "randint": lambda key: random.randint(key, (3,), 0, 100),
    "gamma": lambda key: random.gamma(key, 2.0),
    "permutation": lambda key: random.permutation(key, 5),
    "of a split": lambda key: random.uniform(random.split(key, 3)[1]),
    "of a batch": lambda key: pb.vmap(random.uniform)(random.split(key, (3,))),
    "of what is folded in": lambda key: random.exponential(random.fold_in(key, 7)),
    "of batches of both": lambda key: pb.vmap(random.uniform)(pb.vmap(random.fold_in)(random.split(key), pnp.arange(2))),
    "in a loop": lambda key: pb.lax.scan(lambda key, _: (random.fold_in(key, 1), random.uniform(key)), key, None, 3)[1],
}


@pytest.mark.parametrize("name", DRAWN)
def test_all_functions_draw_by_it(name: str, two: str) -> None:
    drawn = DRAWN[name]
    expected = np.asarray(drawn(random.key(42)))
    own = random.key(42, impl=two)
    np.testing.assert_array_equal(np.asarray(drawn(own)), expected)
    np.testing.assert_allclose(np.asarray(pb.jit(drawn)(own)), expected, rtol=1e-6)


def test_the_words_of_its_keys_have_the_shape_that_they_were_given(two: str) -> None:
    key = random.key(42, impl=two)
    assert np.asarray(random.key_data(key)).tolist() == [[0, 42], [0, 41]] and key.shape == ()
    keys = random.split(key, (3, 1))
    assert random.key_data(keys).shape == (3, 1, 2, 2) and random.key_impl(keys) == two
    again = random.wrap_key_data(random.key_data(keys), impl=two)
    assert again.dtype is keys.dtype is random.key_dtype(two) and np.array_equal(random.key_data(again), random.key_data(keys))
    assert str(key.type) == "key<two>[]" and "key<two>[]" in str(pb.xpr(random.uniform, key))
    with pytest.raises(pb.errors.LeafError, match="whose shape ends with 2, 2, but got"):
        random.wrap_key_data(np.zeros(2, np.uint32), impl=two)


def test_seeds_are_of_the_default_width() -> None:
    wide = []
    name = random.define_generator(
        "wide", (2,), seed=lambda number: wide.append(number.dtype) or number + pnp.zeros(2, "uint32"),
        split=of_both, bits=bits, fold_in=of_both,
    )  # fmt: skip
    for width in (32, 64):
        with pb.default_bits(width), pytest.raises(pb.errors.ShapeError, match="of the generator 'wide', must return"):
            random.key(1, impl=name)
    assert wide == [np.int32, np.int64]


@pytest.mark.parametrize(
    ("name", "shape", "says"), [("rbg", (2,), "has a generator 'rbg' itself"), ("three", (3,), "1, 2 or 4 words.* has 3")]
)
def test_what_is_no_generator_is_refused(name: str, shape: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        random.define_generator(name, shape, seed=seed, split=of_both, bits=bits, fold_in=of_both)
    assert ("three" in KEYS) is False


def test_a_name_may_mean_another_one_later() -> None:
    def defined(seed: Any) -> Any:
        name = random.define_generator("later", (2,), seed=seed, split=of_both, bits=bits, fold_in=of_both)
        return random.key(5, impl=name)

    first = defined(lambda number: random.key_data(random.key(number)))
    other = defined(lambda number: random.key_data(random.key(number + 1)))
    assert [random.key_data(key)[1] for key in (first, other)] == [5, 6] and first.dtype != other.dtype
    assert (str(first.type), str(other.type)) == ("key<later>[]", "key<later2>[]")


def test_jax_names_for_it() -> None:
    own = extend.threefry_prng_impl._replace(name="<unnamed>", tag="same")
    spec = extend.define_prng_impl(**own._asdict())
    expected = jax.random.normal(jax.random.key(3), (2,))
    for key in (jax.random.key(3, impl=spec), extend.random_seed(3, own), extend.seed_with_impl(own, 3)):
        assert jax.random.key_impl(key) == "same" and np.array_equal(jax.random.normal(key, (2,)), expected)
    other = jax.random.key(3, impl=own._replace(fold_in=lambda words, data: words))
    assert jax.random.key_impl(other) == "same2"  # another one of this tag
    assert np.array_equal(jax.random.key_data(jax.random.fold_in(other, 1)), jax.random.key_data(other))
