"""optimization_barrier: the identity, across which a compiler moves nothing."""

from __future__ import annotations

import numpy as np

from pullback.core.primitive import Rules, primitive
from pullback.core.types import is_unknown
from pullback.ops.pointwise import each_alone


def computed_once(x):
    """`x`, of which all that use it see the same bits.

    A compiler computes what is cheap again in each place that uses it, and may round it differently there (XLA fuses a
    multiplication with an addition in one kernel and not in the next): an extreme may then equal none of the elements.
    """
    return optimization_barrier(x)[0]


@primitive
class optimization_barrier(Rules):
    """Its operands, each of which a compiler is to have computed before it uses any of them."""

    cost = 0
    alias = True
    linear = True
    multiple_results = True

    def result_type(*types):
        return types

    def evaluate(*values):
        return values

    def lower(write, *values):
        return write.barrier(values)

    def transpose(cotangents, *operands):
        passed = optimization_barrier(*cotangents)
        return [cotangent if is_unknown(operand) else None for cotangent, operand in zip(passed, operands)]

    def vectorize(size, args, axes):
        return optimization_barrier(*args), axes

    def sparsity(which, operands):
        nothing = np.zeros(0, np.int64)
        return [each_alone(0, [x]) if i == which else (nothing, nothing) for i, x in enumerate(operands)]

    def samples(rng):
        yield (rng.normal(size=(2, 3)), rng.normal()), {}
