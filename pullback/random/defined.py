"""Generators of random numbers that a program defines, by functions of keys' words."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pullback.api.mapping import vmap
from pullback.api.traced import xpr
from pullback.core.array import Array
from pullback.core.brief import brief
from pullback.core.dtypes import KEYS, DType, new_key_dtype
from pullback.core.errors import ShapeError
from pullback.core.source import api_boundary, describe
from pullback.core.types import ArrayType, Shape
from pullback.ops.generators import BY_DTYPE, GENERATORS, UINT32, Generator
from pullback.random.keys import keys_of, words_of

Function = Callable[..., Any]


class _Functions(NamedTuple):
    """What a program says of its generator; see `define_generator`."""

    shape: Shape
    seed: Function
    split: Function
    bits: Function
    fold_in: Function


class Defined(Generator):
    """A generator that a program defines; its `hash` are the functions."""

    __slots__ = ()

    @property
    def shape(self) -> Shape:
        """The shape of a key's words."""
        found: Shape = self.hash.shape
        return found

    def key_of(self, seed: Array) -> Array:
        """The key of a seed."""
        return self._keys(self.hash.seed, (seed,))

    def children_of(self, key: Array, sizes: Shape) -> Array:
        """New keys from one."""
        return self._keys(self.hash.split, (self._words(key), sizes), sizes)

    def child_of(self, key: Array, number: Array) -> Array:
        """The key of a key and a number."""
        return self._keys(self.hash.fold_in, (self._words(key), number))

    def drawn(self, keys: ArrayType, sizes: Shape, dtype: DType) -> Any:
        """The Program that makes, of keys, an array of random bits each."""

        def bits(key: Array) -> Any:
            return self._made(self.hash.bits, (self._words(key), 8 * dtype.itemsize, sizes), dtype, sizes)

        def every(given: Array) -> Any:
            return vmap(bits)(given.reshape(-1)).reshape((*keys.shape, *sizes)) if keys.shape else bits(given)

        return xpr(every, keys)

    def _words(self, key: Array) -> Array:
        return words_of(key).reshape(self.shape)

    def _keys(self, function: Function, args: tuple[Any, ...], outer: Shape = ()) -> Array:
        made = self._made(function, args, UINT32, (*outer, *self.shape))
        return keys_of(made.reshape((*outer, self.size)), self.dtype)

    def _made(self, function: Function, args: tuple[Any, ...], dtype: DType, shape: Shape) -> Any:
        """What a function returns, if it is an array as it must be."""
        made = function(*args)
        if getattr(made, "dtype", None) != dtype or made.shape != shape:
            raise ShapeError(
                f"{describe(function)}, of the generator {self.name!r}, must return an array of {dtype} of shape {shape}, but"
                f" returned {brief(made)}."
            )
        return made


@api_boundary
def define_generator(
    name: str, key_shape: Sequence[int], *, seed: Function, split: Function, bits: Function, fold_in: Function
) -> str:
    """Define a generator of random numbers, whose keys all functions of `pb.random` take.

    The functions are of the words of one key; `pb.vmap` makes the batches. Where a program has defined one of that name before,
    the name means the new one from here on, and keys of the other remain what they are.

    Arguments:
        name: what it is called, as where `key` takes `impl`.
        key_shape: the shape of a key's words of uint32: 1, 2 or 4 of them.
        seed: from an integer to the words of a key.
        split: from the words of a key, and a shape, to the words of as many keys: an array of that shape and the words' behind.
        bits: from the words of a key, a width (8, 16, 32, 64) and a shape to unsigned integers of that width.
        fold_in: from the words of a key, and a number of uint32, to the words of another key.

    Returns:
        The name.

    Raises:
        ValueError: the name is that of one of pullback's generators, or a key has another number of words.
        ShapeError, when a function is used: it returned something else.

    Example:
        >>> import pullback as pb
        >>> twice = pb.random.wrap_key_data  # a generator that is threefry2x32 under another name
        >>> name = pb.random.define_generator(
        ...     "mine",
        ...     (2,),
        ...     seed=lambda seed: pb.random.key_data(pb.random.key(seed)),
        ...     split=lambda words, shape: pb.random.key_data(pb.random.split(twice(words), shape)),
        ...     bits=lambda words, width, shape: pb.random.bits(twice(words), shape, f"uint{width}"),
        ...     fold_in=lambda words, data: pb.random.key_data(pb.random.fold_in(twice(words), data)),
        ... )
        >>> pb.random.key_impl(pb.random.key(7, impl=name))
        'mine'
        >>> pb.random.uniform(pb.random.key(7, impl=name)) == pb.random.uniform(pb.random.key(7))
        True:bool[]:cpu(0)
    """
    shape = tuple(key_shape)
    words = math.prod(shape)
    if name in GENERATORS and not GENERATORS[name].defined:
        raise ValueError(f"pullback has a generator {name!r} itself: give yours another name.")
    if words not in (1, 2, 4):
        raise ValueError(f"The keys of a generator have 1, 2 or 4 words, but key_shape={shape} has {words}.")
    tags = itertools.chain([name], (f"{name}{number}" for number in itertools.count(2)))
    tag = next(tag for tag in tags if tag not in KEYS)
    made = Defined(name, new_key_dtype(tag, words), _Functions(shape, seed, split, bits, fold_in), 0, defined=True)
    GENERATORS[name] = BY_DTYPE[made.dtype] = made
    return name
