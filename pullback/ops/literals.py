"""Numbers written inside rules and by users: 0-d arrays of the dtype of what they meet, weak so that they decide nothing."""

from __future__ import annotations

from typing import Any

from pullback.core.array import Array, constant, from_python
from pullback.core.bounded import Bounded
from pullback.core.dtypes import DType
from pullback.core.tracing import type_of

_literals: Bounded[tuple[Any, type, DType], Array] = Bounded(4096)


def literal_of(value: Any, dtype: DType) -> Array:
    """A number as a weak 0-d array of a dtype; made once."""
    # by its text where an equal number may have a zero of the other sign, or where it is not equal to itself
    name = value if value and value == value and value.__class__ is not complex else repr(value)
    key = (name, value.__class__, dtype)
    found = _literals.get(key)
    return _literals.setdefault(key, constant(from_python(value, dtype))) if found is None else found


def literal(value: complex, like: Any) -> Array:
    """A number as a weak 0-d array of the dtype of `like`: a bare Python number would be of the default dtype."""
    return literal_of(value, type_of(like).dtype)
