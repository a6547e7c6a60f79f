"""What the functions of this namespace do with their operands."""

from __future__ import annotations

from typing import Any

from pullback.core.array import Array
from pullback.numpy.promotion import refuse_complex, to_common_dtype, to_common_shape, to_inexact


def real_operand(x: Any, name: str) -> Array:
    """An operand of a function of real numbers alone; integers and bools become floating."""
    x = to_inexact(x, name)
    refuse_complex(name, x)
    return x


def elementwise(name: str, primitive: Any, *args: Any, **params: Any) -> Any:
    """A primitive applied to operands in their common floating dtype and shape."""
    values = to_common_shape(name, *to_common_dtype(name, *args, inexact=True))
    if "c" not in primitive.kinds:
        refuse_complex(name, *values)
    return primitive(*values, **params)
