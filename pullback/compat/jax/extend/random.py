"""jax.extend.random: the generator of random bits by itself."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from pullback.api.mapping import vmap
from pullback.compat.jax.facade import facade
from pullback.compat.jax.random import PRNGSpec, key, wrap_key_data
from pullback.core.dtypes import SHORT_NAMES, is_key
from pullback.core.errors import LeafError
from pullback.numpy.promotion import operand
from pullback.numpy.shaping import concatenate, ravel, reshape
from pullback.ops.generators import GENERATORS, UINT32, Generator, threefry2x32
from pullback.random import bits, fold_in, key_data, split


class PRNGImpl(NamedTuple):
    """What a generator does. A program may read it, name it where one is asked for, and make one of its own."""

    key_shape: tuple[int, ...]
    seed: Any
    split: Any
    random_bits: Any
    fold_in: Any
    name: str = "<unnamed>"
    tag: str = "?"

    def __hash__(self) -> int:
        return hash(self.tag)

    def __str__(self) -> str:
        return self.tag


def threefry_2x32(keypair: Any, count: Any) -> Any:
    """Random words of a pair of words and an array of counters, whose halves are the two words of each block's counter."""
    first, second = keypair
    words = [operand(word, "threefry_2x32") for word in (first, second, count)]
    if any(word.type.dtype is not UINT32 for word in words):
        types = ", ".join(str(word.type.dtype) for word in words)
        raise LeafError(f"threefry_2x32 requires uint32 arguments, got {types}.")
    counters = ravel(words[2])
    size = counters.type.shape[0]
    if size % 2:
        counters = concatenate([counters, operand(UINT32.type(0), "threefry_2x32").reshape(1)])
    half = counters.type.shape[0] // 2
    out = concatenate(list(threefry2x32((words[0], words[1]), (counters[:half], counters[half:]))))
    return reshape(out[:size], words[2].type.shape)


def _implementation(generator: Generator) -> PRNGImpl:
    """What a generator does, on keys' words."""
    name = generator.name

    def of_keys(function: Any) -> Any:
        def of_words(key: Any, *args: Any) -> Any:
            made = function(wrap_key_data(key, impl=name), *args)
            return key_data(made) if is_key(made.dtype) else made

        return of_words

    return PRNGImpl(
        (generator.size,),
        lambda seed: key_data(key(seed, impl=name)),
        of_keys(split),
        of_keys(lambda key, width, shape: bits(key, shape, f"uint{width}")),
        of_keys(fold_in),
        name,
        SHORT_NAMES[generator.dtype][4:-1],
    )


_implementations = {name: _implementation(generator) for name, generator in GENERATORS.items()}
threefry_prng_impl = _implementations["threefry2x32"]
rbg_prng_impl, unsafe_rbg_prng_impl = _implementations["rbg"], _implementations["unsafe_rbg"]


def define_prng_impl(**kwargs: Any) -> PRNGSpec:
    """A generator of a program's own, of the fields of PRNGImpl."""
    return PRNGSpec(PRNGImpl(**kwargs))


def random_seed(seeds: Any, impl: Any) -> Any:
    """Keys of seeds."""
    made: Any = functools.partial(key, impl=impl)
    for _ in np.shape(seeds):
        made = vmap(made)
    return made(seeds)


def seed_with_impl(impl: Any, seed: Any) -> Any:
    """A key of a seed."""
    return random_seed(seed, impl)


facade(globals())
