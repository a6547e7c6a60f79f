"""XLA's generator of random bits."""

from __future__ import annotations

import enum
from typing import Any

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.dtypes import DTypeLike, requested
from pullback.core.types import ShapeLike
from pullback.numpy.creation import checked_shape
from pullback.numpy.promotion import operand
from pullback.ops import random


class RandomAlgorithm(enum.IntEnum):
    """The algorithms of `rng_bit_generator`: the platform's own, threefry or Philox.

    Example:
        >>> lax.RandomAlgorithm.RNG_PHILOX.name
        'RNG_PHILOX'
    """

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


def rng_bit_generator(
    key: ArrayLike,
    shape: ShapeLike,
    dtype: DTypeLike = "uint32",
    algorithm: RandomAlgorithm | int = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: Any = None,
) -> tuple[Array, Array]:
    """Random bits by XLA's own generator, and the key to draw the next ones with.

    What is drawn depends on the platform where `algorithm` is RNG_DEFAULT, and on the whole shape: keys of a batch are taken
    one after the other. `pb.random.bits` draws the same everywhere.

    Arguments:
        key: four words, an array of uint32 and shape (4,).
        shape: the shape of the bits.
        dtype: uint8, uint16, uint32 or uint64.
        algorithm: a `RandomAlgorithm`.
        out_sharding: None.

    Returns:
        The next key, and an array of random unsigned integers.

    Raises:
        LeafError: `key` is no array.
        DtypeError: `key` is not four words, or `dtype` is not unsigned.
        ShapeError: the shape has a negative size.
        ValueError: an unknown algorithm; a sharding.

    Example:
        >>> key, bits = lax.rng_bit_generator(np.array([1, 2, 3, 4], np.uint32), (3,), algorithm=lax.RandomAlgorithm.RNG_PHILOX)
        >>> bits
        [ 512747620 1298009047 1267190206]:u32[3]:cpu(0)

    Source: the StableHLO specification, rng_bit_generator.
    """
    if out_sharding is not None:
        raise ValueError(f"rng_bit_generator takes out_sharding=None, not {brief(out_sharding)}.")
    chosen = RandomAlgorithm(algorithm).name.removeprefix("RNG_")
    sizes = checked_shape(shape, "rng_bit_generator")
    return random.rng_bit_generator(operand(key, "rng_bit_generator"), shape=sizes, dtype=requested(dtype), algorithm=chosen)
