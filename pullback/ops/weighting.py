"""Values times weights that level off: `x * w(x)` where w is 0 from -bound downwards and 1 from bound upwards, to the last bit.

At an infinity such a product would be 0 * inf, in its value or in a derivative. `hold` keeps what w is made of within the
bounds, and `weigh` the value that meets the 0. Where they hold x, every derivative of w is 0, so their own need no mask.
"""

from __future__ import annotations

import numpy as np

from pullback.core.primitive import primitive
from pullback.ops.pointwise import Formula


@primitive
class hold(Formula):
    """x within -bound and bound, for what is flat beyond them: its derivative is 1 everywhere."""

    cost = 1
    kinds = "f"

    def evaluate(x, *, bound):
        return np.minimum(np.maximum(x, x.dtype.type(-bound)), x.dtype.type(bound))

    def partials(out, x, *, bound):
        return (1,)

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {"bound": 8.0}


@primitive
class weigh(Formula):
    """x * weight, for a weight that is 0 where x is less than -bound, and 1 where it is more than bound."""

    cost = 2
    kinds = "f"

    def evaluate(x, weight, *, bound):
        return np.maximum(x, x.dtype.type(-bound)) * weight

    def partials(out, x, weight, *, bound):
        return weight, lambda: hold(x, bound=bound)

    def samples(rng):
        yield (rng.normal(size=(2, 3)), rng.random((2, 3))), {"bound": 8.0}
