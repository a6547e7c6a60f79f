"""jax.numpy: pullback.numpy, with JAX's scalar types, and the arguments that only JAX's functions take."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import numpy as own
from pullback.compat.jax.dtypes import result_type, stand_in
from pullback.compat.jax.facade import adapter, facade
from pullback.compat.jax.numpy.scalars import SCALAR_TYPES
from pullback.compat.jax.sharding import with_sharding
from pullback.core.array import Array
from pullback.core.dtypes import kind
from pullback.core.source import api_boundary
from pullback.numpy.promotion import at_user_line, operand, to_common_dtype

Function = Callable[..., Any]


@adapter
def of_structs(function: Function, a: Any, *args: Any, **options: Any) -> Any:
    """A function whose first argument may be a ShapeDtypeStruct."""
    return function(a if a.__class__ is Array else stand_in(a), *args, **options)


@adapter
def of_none(function: Function, a: Any, *args: Any, **options: Any) -> Any:
    """shape, ndim or size, for which None is one thing without axes: libraries ask of arguments that were not given."""
    return function(0 if a is None else a, *args, **options)


@adapter
def copied_if_needed(function: Function, a: Any, dtype: Any = None, order: Any = None, **options: Any) -> Any:
    """asarray, to which copy=False says that an array may share memory, not that it must."""
    return function(a, dtype, order, copy=options.pop("copy", None) or None, **options)


@adapter
def keeping_numpy(function: Function, a: Any, shape: Any, order: Any = "C", **options: Any) -> Any:
    """reshape, which leaves NumPy's arrays such, as JAX's does: so their values are known in a function that is traced."""
    if isinstance(a, np.ndarray) and options.get("out_sharding") is None:
        return a.reshape(shape, order=order)
    return function(a, shape, order, **options)


@adapter
def of_x1_and_x2(function: Function, x1: Any, x2: Any) -> Any:
    """A function of two operands that JAX's takes by name, too."""
    return function(x1, x2)


@adapter
def keeping_integers(function: Function, a: Any, axis: Any = None, dtype: Any = None, **options: Any) -> Any:
    """A scan whose results have the dtype of its operand, where NumPy's are of wide integers."""
    if dtype is None and kind(operand(a, function.__name__).type.dtype) in "iu":
        dtype = result_type(a)
    return function(a, axis=axis, dtype=dtype, **options)


@adapter
def in_floats(function: Function, *args: Any, operands: int, **options: Any) -> Any:
    """A function that computes in floats, whatever its operands are."""
    return function(*to_common_dtype(function.__name__, *args[:operands], inexact=True), *args[operands:], **options)


@adapter
def without_lists(function: Function, *args: Any, operands: int | None, inside: bool = False, **options: Any) -> Any:
    """A function whose first operands, or the items of the first one, may be no lists."""
    given = args[0] if inside and args and isinstance(args[0], (list, tuple)) else args[:operands]
    if found := [each for each in given if each.__class__ is list or each.__class__ is tuple]:
        name = function.__name__
        raise TypeError(f"{name} takes arrays and numbers, not {found[0]!r}: make an array of it first.{at_user_line()}")
    return function(*args, **options)


@adapter
def in_dtype_of_indices(function: Function, multi_index: Any, *args: Any, dtype: Any = None, **options: Any) -> Any:
    """ravel_multi_index, whose results have the dtype of its operands."""
    return function(multi_index, *args, dtype=dtype or own.result_type(*multi_index), **options)


@adapter
def by_one_hot(
    function: Function, arr: Any, indices: Any, axis: Any = -1, mode: Any = None, fill_value: Any = None, **options: Any
) -> Any:
    """take_along_axis, which reads by indices in the mode "one_hot" too: what is out of bounds is 0."""
    if mode == "one_hot":
        mode, fill_value = "fill", 0
    return function(arr, indices, axis, mode=mode, fill_value=fill_value, **options)


@adapter
def by_own_products(function: Function, *args: Any, _dot_general: Any = None, **options: Any) -> Any:
    """einsum, which contracts by pullback's own products, whatever function of JAX's is named."""
    if not (getattr(_dot_general, "__module__", None) or "pullback").startswith("pullback"):
        raise NotImplementedError(f"einsum contracts by lax.dot_general here, not by another function: {_dot_general!r}.")
    return function(*args, **options)


_SHARDED = (
    "arange array bincount broadcast_to dot empty eye full linspace matmul ones percentile ravel repeat reshape tensordot zeros"
)
_OF_STRUCTS = "empty_like full_like ones_like zeros_like"
_SCANS = "cumsum cumprod nancumsum nancumprod cumulative_prod"
_WITHOUT_LISTS: dict[str, int | None] = {
    "take": 2,
    "unravel_index": 1,
    "insert": 3,
    "delete": 2,
    "append": 2,
    "choose": 1,
    "fill_diagonal": 2,
    **dict.fromkeys(("atleast_1d", "atleast_2d", "atleast_3d", "ix_")),
}
_WITHOUT_LISTS_INSIDE = "concatenate stack hstack vstack dstack column_stack"
_IN_FLOATS = {"convolve": 2, "correlate": 2, "polymul": 2, "polyder": 1, "rint": 1}


dtype = np.dtype
can_cast = np.can_cast
character, flexible, object_ = np.character, np.flexible, np.object_
ComplexWarning = np.exceptions.ComplexWarning


@api_boundary
def histogram(a: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None) -> Any:
    """As pullback's; the counts are floats, of the dtype of `a` if that is one."""
    (weights,) = to_common_dtype("histogram", own.ones_like(a) if weights is None else weights, inexact=True)
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
    "fix",
    own={
        "pullback.numpy": "__array_api_version__ __array_namespace_info__",
        "pullback.core.abstract": "ndarray=Array",
        "dtypes": "finfo iinfo issubdtype promote_types result_type",
        "pullback.compat.jax.numpy.scalars": " ".join(SCALAR_TYPES),
    },
    adapted={
        **dict.fromkeys(_SHARDED.split(), with_sharding),
        **dict.fromkeys(_OF_STRUCTS.split(), lambda function: of_structs(with_sharding(function))),
        **dict.fromkeys(("shape", "ndim", "size"), lambda function: of_none(of_structs(function))),
        **dict.fromkeys(_SCANS.split(), keeping_integers),
        **dict.fromkeys(("fmax", "fmin", "gcd", "lcm"), of_x1_and_x2),
        **{name: functools.partial(without_lists, operands=operands) for name, operands in _WITHOUT_LISTS.items()},
        **dict.fromkeys(_WITHOUT_LISTS_INSIDE.split(), functools.partial(without_lists, operands=None, inside=True)),
        "asarray": lambda function: copied_if_needed(with_sharding(function)),
        "reshape": lambda function: keeping_numpy(with_sharding(function)),
        "ravel_multi_index": lambda function: without_lists(in_dtype_of_indices(function), operands=None, inside=True),
        "take_along_axis": by_one_hot,
        "einsum": lambda function: with_sharding(by_own_products(function)),
        **{name: functools.partial(in_floats, operands=operands) for name, operands in _IN_FLOATS.items()},
    },
)
