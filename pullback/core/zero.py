"""Tangents and cotangents that are known without their elements: ZERO, and ONES, which live inside the transformations.

Rules of users get real arrays, unless they ask for ZERO.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.core.array import Array, constant
from pullback.core.bounded import Bounded
from pullback.core.types import ArrayType


class Symbol:
    """The type of ZERO and ONES."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


ZERO = Symbol("ZERO")
# The cotangent with which staged reverse mode begins: each element is 1, and what it scales is itself.
ONES = Symbol("ONES")

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
