"""jax.numpy: pullback.numpy, with JAX's scalar types, and the arguments that only JAX's functions take."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import numpy as own
from pullback.compat.jax.dtypes import stand_in
from pullback.compat.jax.facade import facade
from pullback.compat.jax.numpy.scalars import SCALAR_TYPES
from pullback.core.array import Array
from pullback.core.source import api_boundary

SHARDED = (
    "arange array asarray bincount broadcast_to dot einsum empty full matmul ones percentile ravel repeat reshape tensordot"
    " zeros"
)
OF_STRUCTS = "empty_like full_like ones_like zeros_like shape ndim size iscomplexobj isrealobj"


def sharded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that takes JAX's `out_sharding` as well: the result is on one device, whatever it says."""

    @functools.wraps(function)
    @api_boundary
    def with_sharding(*args: Any, out_sharding: Any = None, **options: Any) -> Any:
        return function(*args, **options)

    return with_sharding


def of_structs(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose first argument may be a ShapeDtypeStruct."""

    @functools.wraps(function)
    @api_boundary
    def with_structs(a: Any, *args: Any, out_sharding: Any = None, **options: Any) -> Any:
        return function(a if a.__class__ is Array else stand_in(a), *args, **options)

    return with_structs


globals().update(SCALAR_TYPES)
globals().update({name: sharded(getattr(own, name)) for name in SHARDED.split()})
globals().update({name: of_structs(getattr(own, name)) for name in OF_STRUCTS.split()})


@sharded
@functools.wraps(own.einsum)
@api_boundary
def einsum(*args: Any, _dot_general: Any = None, **options: Any) -> Any:
    if not (getattr(_dot_general, "__module__", None) or "pullback").startswith("pullback"):
        raise NotImplementedError(f"einsum contracts by lax.dot_general here, not by another function: {_dot_general!r}.")
    return own.einsum(*args, **options)


dtype = np.dtype
can_cast = np.can_cast
character, flexible, object_ = np.character, np.flexible, np.object_
ComplexWarning = np.exceptions.ComplexWarning

facade(
    globals(),
    "pullback.numpy",
    "fix __array_api_version__ __array_namespace_info__",
    own={"pullback.core.abstract": "ndarray=Array", "dtypes": "finfo iinfo issubdtype result_type"},
)
