"""The greatest common divisor."""

from __future__ import annotations

import numpy as np

from pullback.core.primitive import primitive
from pullback.ops.formulas import lowered
from pullback.ops.pointwise import Formula


def _one_step(x, y):
    """A step of Euclid's algorithm, (x, y) -> (y, x mod y), where y is not yet zero."""
    done = y == 0
    return np.where(done, x, y), np.where(done, y, np.fmod(x, np.where(done, 1, y)))


def _one_place(place):
    return lowered(lambda x, y: _one_step(x, y)[place])


@primitive
class gcd(Formula):
    """The greatest whole number that divides x and y; gcd(x, 0) is |x|. Source: Euclid's algorithm."""

    cost = 40
    kinds = "iu"
    evaluate = np.gcd

    def lower(write, x, y):
        shape = write.result_type.shape
        start = [value if value.shape == shape else write.broadcast(value, shape) for value in (x, y)]

        def goes_on(pair):
            unfinished = write.compare("NE", pair[1], write.like(pair[1], 0))
            return write.reduce("stablehlo.or", unfinished, False, range(len(shape)))

        def step(pair):
            return [_one_place(place)(write, *pair) for place in (0, 1)]

        found, _ = write.while_loop(start, goes_on, step)
        return lowered(np.abs)(write, found)

    def samples(rng):
        yield (rng.integers(-99, 99, (2, 3)) * 1.0, rng.integers(-99, 99, (2, 3)) * 1.0), {}
        yield (rng.integers(-99, 99, (2, 3)) * 1.0, np.array(12.0)), {}
