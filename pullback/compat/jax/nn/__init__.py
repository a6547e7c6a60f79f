"""jax.nn: pullback.nn."""

from __future__ import annotations

import warnings
from typing import Any

from pullback import nn as own
from pullback import numpy as pnp
from pullback.compat.jax.errors import ConcretizationTypeError
from pullback.compat.jax.facade import facade
from pullback.core.source import api_boundary
from pullback.core.tracing import Tracer


@api_boundary
def one_hot(x: Any, num_classes: Any, *, dtype: Any = None, axis: Any = -1) -> Any:
    """pullback.nn.one_hot, which takes lists as well, and warns of indices that are no integers."""
    if isinstance(num_classes, Tracer):
        raise ConcretizationTypeError(
            num_classes, "The number of classes has to be known in jax.nn.one_hot argument `num_classes`."
        )
    x = pnp.asarray(x)
    if not pnp.issubdtype(x.dtype, pnp.integer):
        text = f"jax.nn.one_hot takes numbers of classes, which are integers, but got {x.dtype}; convert with .astype(int)"
        warnings.warn(text, DeprecationWarning, stacklevel=3)
    return own.one_hot(x, num_classes, dtype=dtype, axis=axis)


facade(globals(), "pullback.nn")
