"""What the functions of linear algebra make of their operands, and how they compute on known ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.core.array import Array, host_of
from pullback.core.modes import current_mode
from pullback.core.source import at_user_line
from pullback.core.tracing import _quiet_numpy, innermost_staging
from pullback.core.types import array_type
from pullback.numpy.promotion import NATIVE_INEXACT, broadcast, broadcast_shapes, strong, to_common_dtype, to_inexact

LinAlgError = np.linalg.LinAlgError


def matrices(x: Any, name: str) -> Any:
    """An operand as an array of floating or complex numbers, not weak."""
    return strong(to_inexact(x, name))


def system(name: str, a: Any, b: Any, columns: bool = True) -> tuple[Any, Any]:
    """A matrix and the right-hand side, in one dtype, with the same stack in front; where `columns`, b is of matrices too."""
    a, b = map(strong, to_common_dtype(name, a, b, inexact=True))
    behind = 2 if columns else 1
    lead = broadcast_shapes(name, a.type.shape[:-2], b.type.shape[: b.type.ndim - behind])
    rest = b.type.shape[b.type.ndim - behind :]
    return broadcast(a, (*lead, *a.type.shape[-2:])), broadcast(b, (*lead, *rest))


def eagerly(name: str, function: Callable[..., Any], *arrays: Any) -> Any:
    """A function of NumPy's on known arrays, whose LinAlgError names our function and the user's line; None if one is
    traced, or where nothing that is known of values only is an error (the mode that clamps)."""
    fits = all([x.__class__ is Array and x.type.dtype in NATIVE_INEXACT and x.type.ndim > 1 for x in arrays])
    if not fits or innermost_staging() is not None:
        return None
    try:
        out = _quiet_numpy.run(function, *map(host_of, arrays))
    except LinAlgError as error:
        if current_mode().clamps:
            return None
        raise LinAlgError(
            f"{name}: {error}. Add to its diagonal, or use pinv or lstsq. (Of a traced matrix the result is"
            f" NaN.){at_user_line()}"
        ) from None
    return Array(array_type(out.shape, out.dtype), out)
