"""jax.numpy: pullback.numpy, with JAX's scalar types, and the arguments that only JAX's functions take."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import numpy as own
from pullback.compat.jax.dtypes import result_type, stand_in
from pullback.compat.jax.facade import facade
from pullback.compat.jax.numpy.scalars import SCALAR_TYPES
from pullback.compat.jax.sharding import with_sharding
from pullback.core.array import Array
from pullback.core.dtypes import kind
from pullback.core.source import api_boundary
from pullback.numpy.promotion import operand, to_common_dtype

Function = Callable[..., Any]


def of_structs(function: Function) -> Function:
    """A function whose first argument may be a ShapeDtypeStruct."""

    @functools.wraps(function)
    @api_boundary
    def with_structs(a: Any, *args: Any, **options: Any) -> Any:
        return function(a if a.__class__ is Array else stand_in(a), *args, **options)

    return with_structs


def keeping_integers(function: Function) -> Function:
    """A scan whose results have the dtype of its operand, where NumPy's are of wide integers."""

    @functools.wraps(function)
    @api_boundary
    def scan(a: Any, axis: Any = None, dtype: Any = None, **options: Any) -> Any:
        if dtype is None and kind(operand(a, function.__name__).type.dtype) in "iu":
            dtype = result_type(a)
        return function(a, axis=axis, dtype=dtype, **options)

    return scan


def in_floats(function: Function, operands: int) -> Function:
    """A function that computes in floats, whatever its operands are."""

    @functools.wraps(function)
    @api_boundary
    def of_floats(*args: Any, **options: Any) -> Any:
        return function(*to_common_dtype(function.__name__, *args[:operands], inexact=True), *args[operands:], **options)

    return of_floats


def by_own_products(function: Function) -> Function:
    """einsum, which contracts by pullback's own products, whatever function of JAX's is named."""

    @functools.wraps(function)
    @api_boundary
    def einsum(*args: Any, _dot_general: Any = None, **options: Any) -> Any:
        if not (getattr(_dot_general, "__module__", None) or "pullback").startswith("pullback"):
            raise NotImplementedError(f"einsum contracts by lax.dot_general here, not by another function: {_dot_general!r}.")
        return function(*args, **options)

    return with_sharding(einsum)


_SHARDED = (
    "arange array asarray bincount broadcast_to dot empty eye full linspace matmul ones percentile ravel repeat reshape"
    " tensordot zeros"
)
_OF_STRUCTS = "empty_like full_like ones_like zeros_like shape ndim size"
_SCANS = "cumsum cumprod nancumsum nancumprod cumulative_prod"
_IN_FLOATS = {"convolve": 2, "correlate": 2, "polymul": 2, "polyder": 1, "rint": 1}


dtype = np.dtype
can_cast = np.can_cast
character, flexible, object_ = np.character, np.flexible, np.object_
ComplexWarning = np.exceptions.ComplexWarning


@api_boundary
def histogram(a: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None) -> Any:
    """As pullback's; the counts are floats."""
    (weights,) = to_common_dtype("histogram", own.ones_like(a, float) if weights is None else weights, inexact=True)
    return own.histogram(a, bins, range, weights, density)


@api_boundary
def iscomplexobj(x: Any) -> bool:
    """As pullback's, of structs, lists and None too."""
    x = stand_in(x)
    return x is not None and own.iscomplexobj(own.asarray(x) if isinstance(x, (list, tuple)) else x)


@api_boundary
def isrealobj(x: Any) -> bool:
    """As pullback's, of structs, lists and None too."""
    return not iscomplexobj(x)


@api_boundary
def put(a: Any, ind: Any, v: Any, mode: str | None = None, *, inplace: bool = True) -> Any:
    """As pullback's; indices out of bounds are moved inside."""
    return own.put(a, ind, v, mode or "clip", inplace=inplace)


@api_boundary
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """As pullback's, of lists too."""
    return own.array_equal(own.asarray(a1), own.asarray(a2), equal_nan=equal_nan)


@api_boundary
def array_equiv(a1: Any, a2: Any) -> Any:
    """As pullback's, of lists too."""
    return own.array_equiv(own.asarray(a1), own.asarray(a2))


facade(
    globals(),
    "pullback.numpy",
    "fix __array_api_version__ __array_namespace_info__",
    own={
        "pullback.core.abstract": "ndarray=Array",
        "dtypes": "finfo iinfo issubdtype result_type",
        "pullback.compat.jax.numpy.scalars": " ".join(SCALAR_TYPES),
    },
    adapted={
        **dict.fromkeys(_SHARDED.split(), with_sharding),
        **dict.fromkeys(_OF_STRUCTS.split(), lambda function: of_structs(with_sharding(function))),
        **dict.fromkeys(_SCANS.split(), keeping_integers),
        "einsum": by_own_products,
        **{name: functools.partial(in_floats, operands=operands) for name, operands in _IN_FLOATS.items()},
    },
)
