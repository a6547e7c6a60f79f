"""Axes as users give them, made into non-negative ints."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

from pullback.core.brief import brief
from pullback.core.errors import AxisError, ConcretizationError
from pullback.core.tracing import Tracer
from pullback.core.types import ArrayType
from pullback.numpy.promotion import at_user_line

_JOINING = ("concatenate", "concat", "stack", "append")  # whose first argument is a list

Axis = SupportsIndex | Sequence[SupportsIndex] | None  # one axis, several, or all of them


def normal_axis(axis: Any, ndim: int, name: str) -> int:
    """One axis, counted from the front. Raises `AxisError` for one that an array of `ndim` axes does not have."""
    if isinstance(axis, Tracer):
        raise AxisError(
            f"{name} was given a traced axis of type {axis.type}: axes must be Python ints. To know it, {axis.cure()}."
            + at_user_line()
        )
    try:
        if isinstance(axis, bool):
            raise TypeError
        number = operator.index(axis)
    except TypeError:
        given = f"one of type {axis.type}" if hasattr(axis, "type") else brief(axis)
        cure = f" Arrays are joined as a list: {name}([a, b])." if name in _JOINING and hasattr(axis, "type") else ""
        raise AxisError(f"{name} takes an int as axis, but {given} cannot be one.{cure}{at_user_line()}") from None
    if not -ndim <= number < ndim:
        has = f"axes 0 to {ndim - 1}" if ndim > 1 else "axis 0 alone" if ndim else "no axes"
        cure = "Count them from 0, or backwards from -1." if ndim else "It needs none: leave axis out."
        raise AxisError(f"{name} of an array with {has}: axis {number} is out of bounds. {cure}{at_user_line()}")
    return number % ndim


def whole(number: Any, what: str) -> int:
    """An argument, called `what`, that is a whole number."""
    try:
        return operator.index(number)
    except ConcretizationError:
        raise
    except TypeError:
        raise TypeError(f"{what} must be a whole number, but got {brief(number)}.{at_user_line()}") from None


def several(given: Any) -> tuple[Any, ...]:
    """One thing, or a sequence of them (or an array with axes), as a tuple."""
    listed = isinstance(given, (tuple, list, range)) or getattr(given, "ndim", 0) > 0
    return tuple(given) if listed else (given,)


def normal_axes(axis: Any, type: ArrayType, name: str) -> tuple[int, ...]:
    """`axis` as users give it (None for all axes, an int, or a sequence of ints), in rising order without repetition."""
    if axis is None:
        return tuple(range(type.ndim))
    axes = [normal_axis(one, type.ndim, name) for one in several(axis)]
    if len(set(axes)) != len(axes):
        raise AxisError(f"{name} was given a repeated axis: {axis}. Name each once.{at_user_line()}")
    return tuple(sorted(axes))
