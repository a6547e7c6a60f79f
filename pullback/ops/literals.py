"""Numbers written inside rules and by users: 0-d arrays of the dtype of what they meet, weak so that they decide nothing."""

from __future__ import annotations

from typing import Any

from pullback.core.array import Array, constant, from_python
from pullback.core.bounded import Bounded
from pullback.core.dtypes import DType, default_dtype, integer_limits, kind
from pullback.core.modes import current_mode
from pullback.core.tracing import type_of

_literals: Bounded[tuple[Any, type, DType], Array] = Bounded(4096)


def literal_of(value: Any, dtype: DType) -> Array:
    """A number as a weak 0-d array of a dtype; made once."""
    # by its text where an equal number may have a zero of the other sign, or where it is not equal to itself
    name = value if value and value == value and value.__class__ is not complex else repr(value)
    key = (name, value.__class__, dtype)
    found = _literals.get(key)
    if found is not None:
        return found
    cut = within(value, dtype)
    return _literals.setdefault(key, constant(from_python(value, dtype))) if cut is value else literal_of(cut, dtype)


def within(value: Any, dtype: DType) -> Any:
    """A number that an array of a dtype meets; where the mode truncates, the low bits of an integer of the default dtype."""
    if value.__class__ is not int or not current_mode().truncates or kind(dtype) not in "iu":
        return value
    limits, widest = integer_limits(dtype), integer_limits(default_dtype("i"))
    if limits.min <= value <= limits.max or not widest.min <= value <= widest.max:
        return value
    span = limits.max - limits.min + 1
    return (value - limits.min) % span + limits.min


def literal(value: complex, like: Any) -> Array:
    """A number as a weak 0-d array of the dtype of `like`: a bare Python number would be of the default dtype."""
    return literal_of(value, type_of(like).dtype)
