"""The generators of random numbers: how each makes keys of seeds and of keys, and random bits of keys.

They are formulas, of words of uint32 that are NumPy arrays or are being written. Most count: number n of a key's is the hash of
its words and n, so that each is computed by itself. Sources: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy
as 1, 2, 3" (SC 2011), for the hashes. Which words go where, and which words become which bits, is JAX's. The
generator `rbg` takes its bits from XLA's own: on a CPU Philox with a counter of 128 bits, whose blocks follow each other.
"""

from __future__ import annotations

from functools import reduce
from operator import xor
from typing import Any, NamedTuple

import numpy as np

from pullback.core.dtypes import KEYS, DType

UINT32, UINT64 = np.dtype(np.uint32), np.dtype(np.uint64)
FEW = 200  # blocks of threefry2x32, up to which one integer of Python's that holds them all is faster than NumPy (8 to 43 us)
_PARITY = 0x1BD11BDA  # with which the words of the key are mixed, so that no key of zeros leaves the counter as it is
_ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
_ROTATIONS_OF_FOUR = (10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20)


ZERO = np.zeros(1, UINT32)  # the upper word of numbers that are counted
_SHIFTS = [np.array(distance, UINT32) for distance in range(32)]  # which NumPy takes in half the time of a number
_LOW = 0xFFFFFFFF
_ONES = sum(1 << 64 * block for block in range(FEW))
_COUNTED = sum(block << 64 * block for block in range(FEW))


def _mixed(x, y, distances):
    """Steps of threefry: two words of two."""
    for distance in distances:
        x = x + y
        y = (y << distance | y >> (32 - distance)) ^ x
    return x, y


def _mixed_in_place(x, y, distances):
    for distance in distances:
        x += y
        turned = y >> _SHIFTS[32 - distance]
        y <<= _SHIFTS[distance]
        y |= turned
        y ^= x
    return x, y


def _rounds(key, x, y, mixed=_mixed, one=1, low=lambda word: word):
    """threefry2x32 of a counter of two words, x and y. `one` is a number 1 for each block, and `low` keeps the bits of words
    whose upper bits must be 0."""
    schedule = (*key, key[0] ^ key[1] ^ _PARITY * one)
    x, y = x + key[0], low(y + key[1])
    for step in range(5):
        x, y = mixed(x, y, _ROTATIONS[step % 2])
        x, y = x + schedule[(step + 1) % 3], low(y + schedule[(step + 2) % 3] + (step + 1) * one)
    return x, y


def threefry2x32(key, counter):
    """Two words of random bits, of two words of a key and two of a counter, all uint32."""
    if not isinstance(counter[1], np.ndarray):
        return _rounds(key, *counter)
    blocks = np.broadcast(*key, *counter)
    if 0 < blocks.size <= FEW:
        words = [_packed(word, blocks) for word in (*key, *counter)]
        return [_unpacked(word, blocks.size, UINT32)[::2].reshape(blocks.shape) for word in _of_integers(blocks.size, *words)]
    counter = [np.broadcast_to(word, blocks.shape) if word.size < blocks.size else word for word in counter]
    return _rounds(key, *counter, _mixed_in_place)


def _of_integers(count, *words):
    """The same of integers of Python's that hold the words of all blocks, that of block n in the bits from 64 n. What overflows
    its 32 bits stays in the upper half, or is taken away before it is turned into the lower one."""
    ones = _ONES & (1 << 64 * count) - 1
    mask = _LOW * ones

    def mixed(x, y, distances):
        for distance in distances:
            x += y
            turned = y << distance
            y = ((turned | turned >> 32) ^ x) & mask
        return x, y

    *key, x, y = words
    x, y = _rounds(key, x, y, mixed, ones, mask.__and__)
    return x & mask, y


def _first(keys, count):
    """The same of few keys, which are a row for each of their words, each key with the counters from 0."""
    blocks = (1 << 64 * count) - 1
    ones, counted = _ONES & blocks, _COUNTED & blocks
    words = [0, 0, 0, 0]
    for high, low in reversed(list(zip(*keys.tolist()))):
        words = [word << 64 * count | own for word, own in zip(words, (high * ones, low * ones, 0, counted))]
    return _of_integers(count * keys.shape[1], *words)


def _packed(word, blocks):
    """An array of words, broadcast to the shape of the blocks, as such an integer."""
    if word.size == 1:
        return int(word.item()) * (_ONES & (1 << 64 * blocks.size) - 1)
    lanes = np.empty(blocks.shape, UINT64)
    lanes[...] = word
    return int.from_bytes(lanes.tobytes(), "little")


def _unpacked(word, count, dtype):
    """Such an integer as an array of a dtype."""
    return np.frombuffer(word.to_bytes(8 * count, "little"), dtype)


def threefry4x32(key, counter):
    """Four words of random bits, of four words of a key and four of a counter."""
    schedule = (*key, reduce(xor, key) ^ _PARITY)
    words = [word + own for word, own in zip(counter, key)]
    for step in range(20):
        for pair, distance in zip(((0, 3), (2, 1)) if step % 2 else ((0, 1), (2, 3)), _ROTATIONS_OF_FOUR[step % 8]):
            words[pair[0]], words[pair[1]] = _mixed(words[pair[0]], words[pair[1]], (distance,))
        if step % 4 == 3:
            turn = step // 4 + 1
            words = [word + schedule[(turn + i) % 5] for i, word in enumerate(words)]
            words[3] = words[3] + turn
    return tuple(words)


def _product(x, factor):
    """The higher and the lower word of the product of a word and a number."""
    product = x.astype(UINT64) * factor
    return (product >> 32).astype(UINT32), product.astype(UINT32)


def philox2x32(key, counter):
    """Two words of random bits, of one word of a key and two of a counter."""
    (own,), (x, y) = key, counter
    for step in range(10):
        if step:
            own = own + 0x9E3779B9
        high, low = _product(x, 0xD256D193)
        x, y = high ^ y ^ own, low
    return x, y


def philox4x32(key, counter):
    """Four words of random bits, of two words of a key and four of a counter."""
    (first, second), (x, y, z, w) = key, counter
    for step in range(10):
        if step:
            first, second = first + 0x9E3779B9, second + 0xBB67AE85
        (high, low), (other_high, other_low) = _product(x, 0xD2511F53), _product(z, 0xCD9E8D57)
        x, y, z, w = other_high ^ y ^ first, other_low, high ^ w ^ second, low
    return x, y, z, w


def joined(low, high):
    """Two words as one number of 64 bits."""
    return high.astype(UINT64) << 32 | low.astype(UINT64)


class Generator(NamedTuple):
    """A generator that counts.

    Attributes:
        name: what users call it.
        dtype: that of its keys.
        hash: words of random bits, of the words of a key and of a counter.
        width: how many words a counter has.
        streams: whether it does not count.
        defined: whether a program defines it: then it has functions of arrays in place of these formulas (`random/defined.py`).
    """

    name: str
    dtype: DType
    hash: Any
    width: int
    streams: bool = False
    defined: bool = False

    @property
    def size(self):
        """How many words a key has."""
        return self.dtype.itemsize // 4

    @property
    def shape(self):
        """The shape of a key's words."""
        return (self.size,)

    def seeded(self, high, low):
        """The words of the key of a seed of two words."""
        zero = low ^ low
        if self.name.startswith("threefry"):
            key = high, low, zero, zero
            return key[:2] if self.size == 2 else self.hash(key, [zero] * 4)
        return self.hash([zero] * self.size, (high, low, zero, zero)[: self.width])[: self.size]

    def child(self, key, high, low):
        """The words of a key's key of a number of two words."""
        zero = low ^ low
        return self.hash(key, (zero, zero, high, low)[-self.width :])[: self.size]

    def bits(self, key, high, low, dtype):
        """Random bits of an unsigned dtype, those of a number of two words."""
        zero = low ^ low
        out = self.hash(key, (high, low, zero, zero)[: self.width])
        if dtype.itemsize < 8:
            return reduce(xor, out).astype(dtype)
        if self.hash is threefry4x32:
            out = out[0] ^ out[2], out[1] ^ out[3]
        return joined(out[1], out[0])

    def drawn(self, keys, count, dtype):
        """The first random bits of known keys, which are a row for each of their words."""
        if not self._few(keys, count):
            return self.bits(keys[..., None], ZERO, np.arange(count, dtype=UINT32), dtype)
        x, y = _first(keys, count)
        size = count * keys.shape[1]
        if dtype.itemsize < 8:
            return _unpacked(x ^ y, size, UINT32)[::2].astype(dtype)
        return _unpacked(x << 32 | y, size, dtype)

    def children(self, keys, count):
        """The words of the first keys of known ones, those of each side by side."""
        if not self._few(keys, count):
            return np.stack(self.child(keys[..., None], ZERO, np.arange(count, dtype=UINT32)), -1)
        x, y = _first(keys, count)
        return _unpacked(x | y << 32, count * keys.shape[1], UINT32)

    def _few(self, keys, count):
        return self.hash is threefry2x32 and 0 < keys.shape[1] <= 4 and 0 < count * keys.shape[1] <= FEW


class Stream(Generator):
    """XLA's generator: how many bits come before depends on the whole shape. Its keys are two of threefry's, side by side."""

    __slots__ = ()

    def seeded(self, high, low):
        return high, low, high, low

    def child(self, key, high, low):
        return (*threefry2x32(key[:2], (high, low)), *threefry2x32(key[2:], (high, low)))

    def drawn(self, key, count, dtype):
        """The first random bits of a key, a known one, as XLA makes them on a CPU."""
        blocks = np.arange(-(-count * max(4, dtype.itemsize) // 16), dtype=UINT64)
        start, above = joined(*key[2:]), joined(*key[:2])
        low = start + blocks
        counter = [(half >> shift).astype(UINT32) for half in (low, above + (low < start)) for shift in (0, 32)]
        words = np.stack(philox4x32(key[:2], counter), -1).reshape(-1)
        return (words.view(dtype) if dtype.itemsize == 8 else words.astype(dtype))[:count]


_GENERATORS = (
    Generator("threefry2x32", KEYS["fry"], threefry2x32, 2),
    Generator("threefry4x32", KEYS["fry4"], threefry4x32, 4),
    Generator("philox2x32", KEYS["phx2"], philox2x32, 2),
    Generator("philox4x32", KEYS["phx4"], philox4x32, 4),
    Stream("rbg", KEYS["rbg"], None, 0, True),
    Stream("unsafe_rbg", KEYS["urbg"], None, 0, True),
)
GENERATORS = {generator.name: generator for generator in _GENERATORS}
BY_DTYPE = {generator.dtype: generator for generator in _GENERATORS}
