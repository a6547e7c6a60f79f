"""Numbers written inside rules: 0-d arrays of the dtype of what they meet, weak so that they decide nothing."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from pullback.core.array import Array, constant
from pullback.core.dtypes import DType
from pullback.core.tracing import type_of
from pullback.core.types import array_type


def number(value: complex, dtype: DType) -> Array:
    """A number as a weak 0-d array of a dtype."""
    return Array(array_type((), dtype, True), np.asarray(value, dtype))


@lru_cache(maxsize=1024)
def _remembered(value: complex, dtype: DType) -> Array:
    return constant(number(value, dtype))


def literal(value: complex, like: Any) -> Array:
    """A number as a weak 0-d array of the dtype of `like`: a bare Python number would be of the default dtype."""
    make = _remembered if value else number  # 0.0 and -0.0 are equal, so a cache would take one for the other
    return make(value, type_of(like).dtype)
