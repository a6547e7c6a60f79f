"""Linear combinations, as forward and reverse mode build them: sum_i value_i * multiplier_i.

A multiplier is an array or a Python integer, which means itself: 1 and -1 cost no multiplication.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, constant, host_of
from pullback.core.bounded import Bounded
from pullback.core.tracing import bind
from pullback.core.types import ArrayType
from pullback.core.zero import ONES, ZERO
from pullback.ops.arithmetic import add, mul, neg
from pullback.ops.broadcast import broadcast_in_dim
from pullback.ops.convert import convert_element_type
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


# ---- a cotangent known to be one in each element ----------------------------------------------------------------------

_ones: Bounded[ArrayType, Array] = Bounded(1024)


def ones(type: ArrayType) -> Any:
    """An array of ones."""
    scalar = type.with_shape(())
    try:
        one = _ones[scalar]
    except KeyError:
        one = _ones.setdefault(scalar, constant(Array(scalar, np.ones((), type.dtype))))
    return broadcast_in_dim(one, shape=type.shape, broadcast_dimensions=()) if type.shape else one


def real_ones(cotangent: Any, type: ArrayType) -> Any:
    """An array of ones of a type where a cotangent is ONES."""
    return ones(type) if cotangent is ONES else cotangent


def ones_times(multiplier: Any, type: ArrayType, operand: ArrayType) -> Any:
    """The cotangent of an operand that was scaled, if each element of that of the result, of a type, is one: without a product
    it is the multiplier, in the type of the result."""
    if multiplier.__class__ is int:
        if multiplier == 1 and operand.shape == type.shape:
            return ONES
        multiplier = literal(multiplier, type)
    if multiplier.type.weak and not type.weak:
        if multiplier.__class__ is Array:
            multiplier = Array(multiplier.type.strong(), host_of(multiplier))
        else:
            multiplier = convert_element_type(multiplier, new_dtype=type.dtype)
    if multiplier.type.shape == type.shape:
        return multiplier
    return broadcast_in_dim(multiplier, shape=type.shape, broadcast_dimensions=())
