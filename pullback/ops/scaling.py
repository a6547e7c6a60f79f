"""Linear combinations, as forward and reverse mode build them: sum_i value_i * multiplier_i.

A multiplier is an array, None for 1, or the Python integer -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.core.tracing import type_of
from pullback.core.types import ArrayType
from pullback.core.zero import ZERO
from pullback.ops.arithmetic import add, mul, neg
from pullback.ops.broadcast import broadcast_in_dim


def scaled(value: Any, multiplier: Any) -> Any:
    """value * multiplier."""
    return value if multiplier is None else neg(value) if multiplier.__class__ is int else mul(value, multiplier)


def combine(terms: Sequence[tuple[Any, Any]], type: ArrayType) -> Any:
    """The sum over `terms` of value * multiplier, in the shape of `type`; ZERO if there are none."""
    total: Any = ZERO
    for value, multiplier in terms:
        step = scaled(value, multiplier)
        total = step if total is ZERO else add(total, step)
    if total is not ZERO and type.shape and not type_of(total).shape:
        total = broadcast_in_dim(total, shape=type.shape, broadcast_dimensions=())
    return total
