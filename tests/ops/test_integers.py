"""Integer arithmetic, at every pair of 8-bit numbers, against Python's own integers."""

import numpy as np
import pytest

import pullback as pb
from pullback.ops import arithmetic as a
from pullback.ops import bitwise as b
from pullback.ops import powers as p


def pairs(dtype):
    info = np.iinfo(dtype)
    every = np.arange(info.min, info.max + 1).astype(dtype)
    return np.repeat(every, len(every)), np.tile(every, len(every))


def wrapped(value, dtype):
    """An integer modulo 2^8."""
    return np.array([value], object).astype(np.int64).astype(dtype)[0]


def truncated(x, y, dtype):
    if y == 0:
        return wrapped(-1, dtype)
    return wrapped(abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1), dtype)


def remainder(x, y, dtype):
    return wrapped(x if y == 0 else abs(x) % abs(y) * (-1 if x < 0 else 1), dtype)


def left(x, y, dtype):
    return wrapped((x << y) & 255 if 0 <= y < 8 else 0, dtype)


def logical(x, y, dtype):
    return wrapped((x & 255) >> y if 0 <= y < 8 else 0, dtype)


def arithmetic(x, y, dtype):
    signed = (x & 255) - 256 if x & 128 else x & 255
    return wrapped(signed >> (y if 0 <= y < 8 else 8), dtype)


EXACT = {
    a.div: truncated,
    a.rem: remainder,
    b.shift_left: left,
    b.shift_right_logical: logical,
    b.shift_right_arithmetic: arithmetic,
    a.mul: lambda x, y, dtype: wrapped(x * y, dtype),
    a.max: lambda x, y, dtype: wrapped(max(x, y), dtype),
    b.xor: lambda x, y, dtype: wrapped(x ^ y, dtype),
}


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("operation", EXACT, ids=lambda operation: operation.name)
def test_every_pair(operation, dtype, both):
    x, y = pairs(dtype)
    exact = EXACT[operation]
    expected = np.array([exact(int(i), int(j), dtype) for i, j in zip(x, y)], dtype)
    for values in both(operation, x, y):
        np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_the_extremes_of_wide_integers(dtype, both):
    low = np.iinfo(dtype).min
    x, y = np.array([low, low, 7, -7, 7], dtype), np.array([-1, 0, -2, 2, 0], dtype)
    for values in both(a.div, x, y):
        assert values.tolist() == [low, -1, -3, -3, -1]
    for values in both(a.rem, x, y):
        assert values.tolist() == [0, low, 1, -1, 7]


def test_population_count_and_not(both):
    x = np.array([0, 1, -1, 127, -128], np.int8)
    for values in both(b.population_count, x):
        assert values.tolist() == [0, 1, 8, 7, 1]
    for values in both(b.clz, x):
        assert values.tolist() == [8, 7, 0, 1, 0]
    for dtype in (np.uint16, np.int32, np.uint64):
        powers = np.array([2**i for i in range(8 * np.dtype(dtype).itemsize - 1)], dtype)
        for values in both(b.clz, powers):
            assert values.tolist() == list(range(len(powers), 0, -1))
    for dtype in ("int8", "int64", "uint8", "uint64", "bool"):  # NumPy's function counts the bits of the absolute value
        y = np.array([0, 1, 127, 200, -1, -128, -127]).astype(dtype)
        for found in (pb.numpy.bitwise_count(y), pb.jit(pb.numpy.bitwise_count)(y)):
            assert found.dtype == np.uint8
            np.testing.assert_array_equal(found, y if dtype == "bool" else np.bitwise_count(y))
    for values in both(b.not_, x):
        assert values.tolist() == [-1, -2, 0, -128, 127]


def test_integer_pow_wraps(both):
    for values in both(p.integer_pow, np.array([3, -2, 100], np.int8), y=7):
        assert values.tolist() == [int(np.int64(v**7).astype(np.int8)) for v in (3, -2, 100)]


def test_bools(both):
    x, y = np.array([True, True, False]), np.array([True, False, False])
    for operation, expected in (
        (b.and_, x & y),
        (b.or_, x | y),
        (b.xor, x ^ y),
        (a.add, x | y),
        (a.mul, x & y),
        (a.max, x | y),
    ):
        for values in both(operation, x, y):
            np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_negative_powers_are_zero_unless_the_base_is_one_or_minus_one(dtype):
    info = np.iinfo(dtype)  # modulo its range, the squares of its largest number and of the negative of that are 1 as well
    bases = np.array([info.min, info.min + 1, -2, -1, 1, 2, info.max - 1, info.max], dtype)
    for power in (-1, -2, -3, info.min):
        expected = [{1: 1, -1: 1 if power % 2 == 0 else -1}.get(int(base), 0) for base in bases]
        for way in (pb.numpy.power, pb.jit(pb.numpy.power)):
            np.testing.assert_array_equal(way(bases, np.full(len(bases), power, dtype)), expected)
