"""The dtypes by name, and questions about them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.dtypes import BOOL, DTYPES, DType, DTypeLike, canonical, default_dtype, kind
from pullback.core.dtypes import promote as join
from pullback.core.tracing import Tracer
from pullback.numpy.promotion import PYTHON_SCALARS, operand, weak_pair

bool_ = np.bool_
int8, int16, int32, int64 = np.int8, np.int16, np.int32, np.int64
uint8, uint16, uint32, uint64 = np.uint8, np.uint16, np.uint32, np.uint64
float16, float32, float64 = np.float16, np.float32, np.float64
complex64, complex128 = np.complex64, np.complex128
bfloat16 = ml_dtypes.bfloat16
float8_e3m4, float8_e4m3, float8_e5m2 = ml_dtypes.float8_e3m4, ml_dtypes.float8_e4m3, ml_dtypes.float8_e5m2
float8_e4m3fn, float8_e4m3fnuz = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz
float8_e4m3b11fnuz = ml_dtypes.float8_e4m3b11fnuz
float8_e5m2fnuz, float8_e8m0fnu = ml_dtypes.float8_e5m2fnuz, ml_dtypes.float8_e8m0fnu
generic, number, integer, signedinteger = np.generic, np.number, np.integer, np.signedinteger
unsignedinteger, inexact, floating, complexfloating = np.unsignedinteger, np.inexact, np.floating, np.complexfloating
dtype = np.dtype


def _pair(value: Any) -> tuple[DType, bool]:
    if value.__class__ is type and value in PYTHON_SCALARS:
        return canonical(value), value is not bool
    if value.__class__ in PYTHON_SCALARS or isinstance(value, (Array, Tracer)):
        return weak_pair(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return canonical(value.dtype), False
    return canonical(value), False


def result_type(*args: Any) -> DType:
    """The dtype that operands meet in.

    Arguments:
        args: arrays, numbers, dtypes, or names of dtypes. Python numbers (and `int`, `float`, `complex`) are weak.

    Raises:
        DtypeError: there is none (float8 with another floating type).

    Example:
        >>> import pullback as pb
        >>> pb.numpy.result_type(pb.numpy.int32, pb.numpy.float32)
        dtype('float32')
    """
    if not args:
        raise TypeError("result_type takes at least one array or dtype.")
    found = _pair(args[0])
    for arg in args[1:]:
        found = join(found, _pair(arg))
    return found[0]


def promote_types(a: DTypeLike, b: DTypeLike) -> DType:
    """The dtype that two dtypes meet in, as `result_type`."""
    return result_type(a, b)


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """Whether a dtype, or an array's, can be converted to another under NumPy's rule `casting`."""
    source = from_.dtype if isinstance(from_, (Array, Tracer, np.ndarray, np.generic)) else canonical(from_)
    return bool(np.can_cast(source, canonical(to), casting))  # type: ignore[arg-type]


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether a dtype belongs to another or to a class of them (`pb.numpy.floating`); bfloat16 and float8 are floating."""
    if isinstance(arg1, type) and issubclass(arg1, np.generic) and arg1.__module__ == "numpy" and arg1 not in _CONCRETE:
        return bool(np.issubdtype(arg1, arg2))
    found = canonical(arg1)
    if isinstance(arg2, type) and issubclass(arg2, np.generic) and kind(found) == "f" and found.kind == "V":
        return arg2 in (np.floating, np.inexact, np.number, np.generic) or arg2 is found.type
    return bool(np.issubdtype(found, arg2))


_CONCRETE = frozenset(dtype.type for dtype in DTYPES.values())

_KIND_LETTERS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """Whether a dtype is another one, or of a kind named as in the Array API: "bool", "signed integer",
    "unsigned integer", "integral", "real floating", "complex floating", "numeric"; or of one of several, in a tuple."""
    found = canonical(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(found, one) for one in kind)
    if isinstance(kind, str) and kind in _KIND_LETTERS:
        return _kind(found) in _KIND_LETTERS[kind]
    return found == canonical(kind)


_kind = kind


def finfo(dtype: Any) -> Any:
    """The limits of a floating dtype: eps, max, min, tiny, bits, ...; bfloat16 and float8 included."""
    found = _of(dtype)
    return np.finfo(found) if found.isbuiltin == 1 else ml_dtypes.finfo(found)  # type: ignore[no-untyped-call]


def iinfo(dtype: Any) -> Any:
    """The limits of an integer dtype: min, max, bits."""
    return np.iinfo(_of(dtype))


def _of(dtype: Any) -> DType:
    return dtype.dtype if isinstance(dtype, (Array, Tracer, np.ndarray, np.generic)) else canonical(dtype)


def iscomplexobj(x: ArrayLike) -> bool:
    """Whether a value's dtype is complex."""
    return kind(operand(x, "iscomplexobj").type.dtype) == "c"


def isrealobj(x: ArrayLike) -> bool:
    """Whether a value's dtype is not complex."""
    return not iscomplexobj(x)


def isscalar(x: Any) -> bool:
    """Whether a value is a number, or an array of no axes."""
    return x.__class__ in PYTHON_SCALARS or getattr(x, "ndim", None) == 0


class ArrayNamespaceInfo:
    """What this namespace can do, as the Array API asks (`__array_namespace_info__`)."""

    def capabilities(self) -> dict[str, Any]:
        """Boolean indexing works on arrays whose values are known; shapes never depend on data while tracing."""
        return {"boolean indexing": True, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> None:
        """None: whichever device the library chooses."""
        return None

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The dtypes of new arrays."""
        return {
            "real floating": default_dtype("f"),
            "complex floating": default_dtype("c"),
            "integral": default_dtype("i"),
            "indexing": default_dtype("i"),
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The Array API's dtypes, all or those of a kind."""
        names = [name for name in DTYPES if not name.startswith("float8") and name not in ("bfloat16", "float16")]
        return {name: DTYPES[name] for name in names if kind is None or isdtype(DTYPES[name], kind)}


def __array_namespace_info__() -> ArrayNamespaceInfo:
    """What this namespace can do, as the Array API asks."""
    return ArrayNamespaceInfo()


assert BOOL.type is bool_
