"""Operations on the bits of integers; on bools, logic."""

from __future__ import annotations

import numpy as np

from pullback.core.primitive import primitive
from pullback.ops.pointwise import Formula


class Bitwise(Formula):
    """An operation on bits: no derivative, since its results are integers or bools."""

    kinds = "biu"

    def samples(rng):
        yield (rng.integers(-9, 9, (2, 3)) * 1.0, rng.integers(-9, 9, (2, 3)) * 1.0), {}
        yield (rng.integers(-9, 9, (2, 3)) * 1.0, np.array(5.0)), {}


@primitive
class and_(Bitwise):
    """The bits that x and y both have."""

    evaluate = np.bitwise_and


@primitive
class or_(Bitwise):
    """The bits that x or y have."""

    evaluate = np.bitwise_or


@primitive
class xor(Bitwise):
    """The bits that only one of x and y has."""

    evaluate = np.bitwise_xor


class OfOne(Bitwise):
    """An operation on the bits of one number."""

    def samples(rng):
        yield (rng.integers(-9, 99, (2, 3)) * 1.0,), {}


@primitive
class not_(OfOne):
    """The bits that x does not have."""

    evaluate = np.invert


@primitive
class population_count(OfOne):
    """How many bits of x are set."""

    kinds = "iu"
    lower = "stablehlo.popcnt"

    def evaluate(x):
        return np.bitwise_count(_unsigned(x)).astype(x.dtype)


@primitive
class clz(OfOne):
    """How many bits of x above the highest that is set are not; of 0, all of them."""

    kinds = "iu"
    lower = "stablehlo.count_leading_zeros"

    def evaluate(x):
        width = 8 * x.dtype.itemsize
        below = _unsigned(x)
        for distance in (1, 2, 4, 8, 16, 32):  # every bit below the highest becomes set
            below = below | below >> min(distance, width - 1)
        return (width - np.bitwise_count(below)).astype(x.dtype)


class Shift(Formula):
    """Moves bits; y is taken as unsigned, and a y as large as the width moves them all out."""

    kinds = "iu"

    def samples(rng):
        yield (rng.integers(-99, 99, (2, 3)) * 1.0, rng.integers(0, 7, (2, 3)) * 1.0), {}
        yield (rng.integers(-99, 99, (2, 3)) * 1.0, np.array(3.0)), {}
        yield (rng.integers(-99, 99, (2, 2)) * 1.0, np.array([[64.0, 100.0], [-1.0, 0.0]])), {}


@primitive
class shift_left(Shift):
    """x moved y bits up; zeros come in."""

    evaluate = np.left_shift


@primitive
class shift_right_arithmetic(Shift):
    """x moved y bits down; copies of its sign bit come in, of unsigned dtypes too, since the bits decide."""

    lower = "stablehlo.shift_right_arithmetic"

    def evaluate(x, y):
        return np.right_shift(_signed(x), _signed(y)).view(x.dtype)


@primitive
class shift_right_logical(Shift):
    """x moved y bits down; zeros come in."""

    lower = "stablehlo.shift_right_logical"

    def evaluate(x, y):
        return np.right_shift(_unsigned(x), _unsigned(y)).view(x.dtype)


def _unsigned(x):
    return x.view(f"u{x.dtype.itemsize}")


def _signed(x):
    return x.view(f"i{x.dtype.itemsize}")
