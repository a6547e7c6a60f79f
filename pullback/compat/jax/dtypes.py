"""jax.dtypes: what a dtype becomes in the current mode, and questions about dtypes and values."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from pullback.compat.jax.facade import facade
from pullback.core.array import Array
from pullback.core.dtypes import SHORT_NAMES, DType, canonical, entering, is_key, kind
from pullback.core.dtypes import extended as extended
from pullback.core.dtypes import float0 as float0
from pullback.core.dtypes import prng_key as prng_key
from pullback.core.errors import DtypeError
from pullback.core.modes import default_bits
from pullback.core.tracing import Tracer
from pullback.core.types import ArrayType, array_type
from pullback.numpy import dtypes as own
from pullback.numpy.promotion import common_dtype

bfloat16 = ml_dtypes.bfloat16
finfo, iinfo = ml_dtypes.finfo, ml_dtypes.iinfo  # whose limits are NumPy's numbers, not weak as pullback's
TypePromotionError = DtypeError

_SCALARS = {"b": bool, "i": int, "u": int, "s": int, "f": float, "c": complex}


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> DType:
    """The dtype that one becomes in the current mode: of 32 bits without `jax_enable_x64`. Python's types are of 64 bits."""
    if is_key(dtype):
        if not allow_extended_dtype:
            raise ValueError(f"canonicalize_dtype takes the dtype {dtype} of keys only with allow_extended_dtype=True.")
        return dtype
    try:
        found = np.dtype(dtype)
    except TypeError:
        raise TypeError(f"canonicalize_dtype takes a dtype, but {dtype!r} names none.") from None
    return entering(canonical(found)) if found in SHORT_NAMES else found


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether a dtype belongs to another or to a class of them. As in NumPy, Python's types stand for 64 bits."""
    a, b = _class_of(arg1), _class_of(arg2)
    if isinstance(a, np.dtype) and a in SHORT_NAMES:
        return own.issubdtype(a, b)
    return bool(np.issubdtype(a, b))


def _class_of(dtype: Any) -> Any:
    """A NumPy scalar class that no dtype has, such as `floating`, as it is; else the dtype that is meant."""
    if isinstance(dtype, type) and issubclass(dtype, np.generic) and (dtype in _CLASSES or issubclass(dtype, extended)):
        return dtype
    return np.dtype(dtype)


_CLASSES = frozenset(
    (np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger, np.inexact, np.floating, np.complexfloating)
    + (np.flexible, np.character)
)


def stand_in(value: Any) -> Any:
    """What has a shape and a dtype but no values (a ShapeDtypeStruct, an aval) as an ArrayType; any other value as it is."""
    if isinstance(value, (Array, Tracer, np.ndarray, np.generic, type, np.dtype)) or not hasattr(value, "dtype"):
        return value
    if not hasattr(value, "shape") or hasattr(type(value), "__jax_array__"):
        return value
    dtype = value.dtype if is_key(value.dtype) else canonicalize_dtype(value.dtype)
    return array_type(tuple(value.shape), dtype, bool(getattr(value, "weak_type", False)))


def lattice_result_type(*args: Any) -> tuple[DType, bool]:
    """The dtype in which arrays, numbers, dtypes and structs meet, and whether it is weak."""
    return common_dtype([_typed(arg) for arg in args], "result_type", converts=False)


class _Typed:
    def __init__(self, type: ArrayType) -> None:
        self.type = type


def _typed(value: Any) -> Any:
    value = stand_in(value)
    if isinstance(value, ArrayType):
        return _Typed(value)
    return value if isinstance(value, (Array, Tracer)) else _Typed(array_type((), *own._pair(value)))


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """The dtype in which arrays, numbers, dtypes and structs meet; with `return_weak_type_flag`, whether it is weak as well."""
    if not args:
        raise ValueError("result_type takes at least one array or dtype.")
    dtype, weak = lattice_result_type(*args)
    return (dtype, weak) if return_weak_type_flag else dtype


def promote_types(a: Any, b: Any) -> DType:
    """The dtype in which two dtypes meet: of 64 bits if one of them is, whether or not arrays can be in the current mode."""
    with default_bits(64):
        found, given = own.promote_types(a, b), (canonical(a), canonical(b))
    return found if any(entering(each) is not each for each in given) else entering(found)


def dtype(x: Any) -> DType:
    """The dtype of a value, or that a dtype becomes in the current mode."""
    if x is None:
        raise ValueError("dtype takes a value or a dtype, but got None.")
    return lattice_result_type(x)[0]


def scalar_type_of(x: Any) -> type:
    """The Python type of numbers that a value, or a dtype, holds."""
    found = dtype(x)
    if kind(found) not in _SCALARS:
        raise TypeError(f"scalar_type_of takes numbers, but got {x!r}.")
    return _SCALARS[kind(found)]


def itemsize_bits(dtype: Any) -> int:
    """The bits of an element, which are fewer than those of its memory for the narrow dtypes."""
    if dtype is None:
        raise ValueError("itemsize_bits takes a dtype, but got None.")
    found = np.dtype(dtype)
    return int(iinfo(found).bits) if found.name.strip("u").startswith("int") else 8 * found.itemsize


facade(globals())
