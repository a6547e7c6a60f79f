"""ZERO: a tangent or cotangent known to be zero. It lives inside the transformations; users' rules get real zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.core.array import Array, constant
from pullback.core.bounded import Bounded
from pullback.core.types import ArrayType


class Zero:
    """The type of ZERO."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ZERO"


ZERO = Zero()

_zeros: Bounded[ArrayType, Array] = Bounded(1024)


def zeros(type: ArrayType) -> Array:
    """An Array of zeros of a type; small ones are made once."""
    try:
        return _zeros[type]
    except KeyError:
        made = Array(type, np.zeros(type.shape, type.dtype))
        if type.size <= 64:
            _zeros[type] = constant(made)
        return made


def instantiate(tangent: Any, type: ArrayType) -> Any:
    """A real array of zeros of a type where `tangent` is ZERO, else `tangent`."""
    return zeros(type.strong()) if tangent is ZERO else tangent
