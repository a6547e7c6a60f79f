"""stop_gradient: the identity, with a derivative of zero."""

from __future__ import annotations

from pullback.core.primitive import Rules, primitive
from pullback.core.zero import ZERO


@primitive
class stop_gradient(Rules):
    """x, treated as a constant by differentiation."""

    cost = 0
    alias = True
    symbolic_zeros = True

    def result_type(x):
        return x

    def evaluate(x):
        return x

    def lower(write, x):
        return x

    def jvp(primals, tangents):
        return stop_gradient(*primals), ZERO

    def transpose(cotangent, x):
        return (cotangent,)  # it is linear in its values: only its derivative is another one

    def vectorize(size, args, axes):
        return stop_gradient(*args), axes[0]

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {}
