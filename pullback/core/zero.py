"""Tangents and cotangents that are known without their elements: ZERO, and ONES, which live inside the transformations.

Rules of primitives may return ZERO, which is `pb.ZERO` to users, and get real arrays, unless they ask for ZERO.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.core.array import Array, constant
from pullback.core.bounded import Bounded
from pullback.core.types import ArrayType


class Symbol:
    """The type of ZERO and ONES; each is the only one of its name, copied and pickled too.

    Example:
        >>> import pullback as pb
        >>> @pb.primitive
        ... class first(pb.Elementwise):
        ...     "x, whatever y is."
        ...     def evaluate(x, y): return x
        ...     def partials(out, x, y): return 1, pb.ZERO
        >>> pb.grad(first, (0, 1))(3.0, 4.0)
        (1.0:f32[]:cpu(0), 0.0:f32[]:cpu(0))
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
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
