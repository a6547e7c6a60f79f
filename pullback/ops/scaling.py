"""Linear combinations, as forward and reverse mode build them: sum_i value_i * multiplier_i.

A multiplier is an array or a Python integer, which means itself: 1 and -1 cost no multiplication.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.core.tracing import bind
from pullback.core.types import ArrayType
from pullback.core.zero import ZERO
from pullback.ops.arithmetic import add, mul, neg
from pullback.ops.broadcast import broadcast_in_dim
from pullback.ops.literals import literal

NO_PARAMETERS: dict[str, Any] = {}


def scaled(value: Any, multiplier: Any) -> Any:
    """value * multiplier."""
    if multiplier.__class__ is int:
        if multiplier == 1:
            return value
        if multiplier == -1:
            return neg(value)
        multiplier = literal(multiplier, value)
    return bind(mul, (value, multiplier), NO_PARAMETERS)


def combine(terms: Sequence[tuple[Any, Any]], type: ArrayType) -> Any:
    """The sum over `terms` of value * multiplier, in the shape of `type`; ZERO if there are none."""
    if len(terms) == 1:
        ((value, multiplier),) = terms
        total: Any = scaled(value, multiplier)
        if total.type is type or not type.shape or total.type.shape:
            return total
        return broadcast_in_dim(total, shape=type.shape, broadcast_dimensions=())
    total = ZERO
    for value, multiplier in terms:
        step = scaled(value, multiplier)
        total = step if total is ZERO else add(total, step)
    if total is not ZERO and total.type is not type and type.shape and not total.type.shape:
        total = broadcast_in_dim(total, shape=type.shape, broadcast_dimensions=())
    return total
