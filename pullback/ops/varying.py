"""What is the same along an axis of a mesh, and what differs: how cotangents become so too.

In a shard_map a value may be the same on all devices along an axis (a replicated parameter, a sum over the axis), or vary. What
devices compute with a value that they share varies, and its derivative with respect to that value is the sum of theirs. So
where an operation has operands that vary and others that do not, the tangents of those are made to vary first (`pvary`), which
changes no value; its transpose is the sum over the axis. A cotangent then varies along those axes alone along which its value
does.

Along which axes that is is found out once a function has been traced as a whole (`parallel/varying.py`). Until then the
operations here stand for what depends on it: they name values whose variation decides, by a `variation` of each, so that no
value is kept for it. They are each other's transposes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core.axes import told_axes
from pullback.core.dtypes import BOOL
from pullback.core.primitive import Rules, primitive
from pullback.core.tracing import Tracer, innermost_staging
from pullback.core.types import array_type
from pullback.core.zero import ZERO


@primitive
class variation(Rules):
    """What varies as x does, and has no elements."""

    cost = 0

    def result_type(x):
        return array_type((0,), BOOL)

    def evaluate(x):
        return np.empty(0, bool)

    def lower(write, x):
        return write.constant(np.empty(0, bool))

    def jvp(primals, tangents):
        return variation(*primals), ZERO

    def vectorize(size, args, batch_axes):
        return variation(*args), None

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {}


class ByVariation(Rules):
    """An operation on its first operand, along those of the mesh axes `axes` along which any of the others but the last one
    varies, and the last one, `like`, does not."""

    symbolic_zeros = True
    cost = 0

    def result_type(x, *others, axes):
        return x

    def jvp(primitive, primals, tangents, *, axes):
        out = primitive(*primals, axes=axes)
        return out, ZERO if tangents[0] is ZERO else primitive(tangents[0], *primals[1:], axes=axes)

    def vectorize(primitive, size, args, batch_axes, *, axes):
        return primitive(*args, axes=axes), batch_axes[0]

    def samples(rng):
        return iter(())


@primitive
class psum_over_varying(ByVariation):
    """The sum over these axes."""

    def transpose(cotangent, x, *others, axes):
        return (pvary_over_varying(cotangent, *others, axes=axes), *[None] * len(others))


@primitive
class pvary_over_varying(ByVariation):
    """x, taken to differ along these axes."""

    def transpose(cotangent, x, *others, axes):
        return (psum_over_varying(cotangent, *others, axes=axes), *[None] * len(others))


@primitive
class aligned(ByVariation):
    """x, whose cotangent is made to vary along the axes along which `like` does."""

    def transpose(cotangent, x, like, *, axes):
        total = psum_over_varying(cotangent, variation(cotangent), like, axes=axes)
        return (pvary_over_varying(total, like, variation(total), axes=axes), None)


BY_VARIATION: frozenset[Any] = frozenset({psum_over_varying, pvary_over_varying, aligned})


def align(values: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    """Values whose cotangents vary along mesh axes as other values do; themselves outside of a shard_map."""
    axes = told_axes()
    return [aligned(x, variation(one), axes=axes) for x, one in zip(values, like)] if axes else list(values)


def vary_as(tangents: Sequence[Any], like: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Tangents of values, as what varies along mesh axes as others do too; themselves outside of a shard_map."""
    axes = told_axes()
    return [vary(t, [other], x, axes) for t, x, other in zip(tangents, like, others)] if axes else list(tangents)


def vary(tangent: Any, others: Sequence[Any], like: Any, axes: Any) -> Any:
    """The tangent of `like`, as what varies along the axes along which other values do."""
    recording = innermost_staging()
    known = recording is not None and not recording.evaluates  # a constant of what is recorded is the same everywhere
    others = [one for one in others if one is not like and (isinstance(one, Tracer) or not known)]
    if tangent is ZERO or not others:
        return tangent
    return pvary_over_varying(tangent, *map(variation, others), variation(like), axes=axes)
