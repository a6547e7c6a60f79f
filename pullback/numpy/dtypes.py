"""The dtypes by name, and questions about them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.devices import DEFAULT_DEVICE, Device
from pullback.core.dtypes import (
    BOOL,
    DTYPES,
    DType,
    DTypeLike,
    canonical,
    check_strict,
    default_dtype,
    entering,
    integer_limits,
    kind,
)
from pullback.core.dtypes import promote as join
from pullback.core.source import api_class
from pullback.core.tracing import Tracer
from pullback.core.types import ArrayType
from pullback.numpy.promotion import PYTHON_SCALARS, operand, weak_pair

bool_ = np.bool_
int8, int16, int32, int64 = np.int8, np.int16, np.int32, np.int64
uint8, uint16, uint32, uint64 = np.uint8, np.uint16, np.uint32, np.uint64
float16, float32, float64 = np.float16, np.float32, np.float64
complex64, complex128 = np.complex64, np.complex128
single, double, csingle, cdouble = float32, float64, complex64, complex128
int_, float_, complex_ = int, float, complex  # which name the default dtypes
bfloat16 = ml_dtypes.bfloat16
int2, int4, uint2, uint4 = ml_dtypes.int2, ml_dtypes.int4, ml_dtypes.uint2, ml_dtypes.uint4
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
    if isinstance(value, ArrayType):
        return value.dtype, value.weak
    if isinstance(value, (np.ndarray, np.generic)):
        return entering(canonical(value.dtype)), False
    return entering(canonical(value)), False


def result_type(*args: Any) -> DType:
    """The dtype that operands meet in.

    Arguments:
        args: arrays, ArrayTypes, numbers, dtypes, or names of dtypes. Python numbers (and `int`, `float`, `complex`) are weak.

    Returns:
        A dtype.

    Raises:
        DtypeError: there is none (float8 with another floating type).
        TypeError: no argument.

    Example:
        >>> pnp.result_type(pnp.int32, pnp.float32)
        dtype('float32')
        >>> pnp.result_type(pnp.array([1], pnp.int8), 2.5), pnp.result_type(pnp.float16, 2.5)
        (dtype('float32'), dtype('float16'))
    """
    if not args:
        raise TypeError("result_type takes at least one array or dtype.")
    found = _pair(args[0])
    for arg in args[1:]:
        pair = _pair(arg)
        check_strict(found, pair)
        found = join(found, pair)
    return found[0]


def promote_types(a: DTypeLike, b: DTypeLike) -> DType:
    """The dtype that two dtypes meet in, as `result_type`.

    Arguments:
        a, b: dtypes, or names of dtypes.

    Returns:
        A dtype.

    Raises:
        DtypeError: there is none (float8 with another floating type).

    Example:
        >>> pnp.promote_types("int16", "bfloat16")
        dtype(bfloat16)
    """
    found, other = _pair(a), _pair(b)
    check_strict(found, other)
    return join(found, other)[0]


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """Whether a dtype, or an array's, can be converted to another under NumPy's rule `casting`.

    Arguments:
        from_: a dtype, or an array of one.
        to: a dtype.
        casting: "no", "equiv", "safe", "same_kind" or "unsafe".

    Returns:
        A bool.

    Raises:
        DtypeError: `from_` or `to` is no dtype.
        ValueError: another `casting`.

    Example:
        >>> pnp.can_cast("int32", "float64"), pnp.can_cast("float64", "float32", casting="same_kind")
        (True, True)
    """
    source = from_.dtype if isinstance(from_, (Array, Tracer, np.ndarray, np.generic)) else canonical(from_)
    return bool(np.can_cast(source, canonical(to), casting))  # type: ignore[arg-type]


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether a dtype belongs to another or to a class of them (`pb.numpy.floating`); bfloat16 and float8 are floating.

    Arguments:
        arg1: a dtype, or a class of them.
        arg2: a dtype, or a class of them.

    Returns:
        A bool.

    Raises:
        DtypeError: `arg1` is neither.

    Example:
        >>> pnp.issubdtype(pnp.bfloat16, pnp.floating), pnp.issubdtype("int32", pnp.inexact)
        (True, False)
    """
    if isinstance(arg1, type) and issubclass(arg1, np.generic) and arg1.__module__ == "numpy" and arg1 not in _CONCRETE:
        return bool(np.issubdtype(arg1, arg2))
    found = canonical(arg1)
    if isinstance(arg2, type) and issubclass(arg2, np.generic) and kind(found) == "f" and found.kind == "V":
        return arg2 in (np.floating, np.inexact, np.number, np.generic) or arg2 is found.type
    if kind(found) == "s":
        own = np.unsignedinteger if found.name[0] == "u" else np.signedinteger
        wanted = arg2 if isinstance(arg2, type) and issubclass(arg2, np.generic) else np.dtype(arg2).type
        return wanted is found.type or bool(np.issubdtype(own, wanted))
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
    """Whether a dtype is another one, or of a kind.

    Arguments:
        dtype: a dtype.
        kind: another one; or a kind as the Array API names them: "bool", "signed integer", "unsigned integer", "integral",
            "real floating", "complex floating", "numeric"; or a tuple of these, for any of them.

    Returns:
        A bool.

    Raises:
        DtypeError: `dtype` or `kind` is neither.

    Example:
        >>> pnp.isdtype(pnp.int8, "integral"), pnp.isdtype(pnp.bfloat16, ("bool", "real floating"))
        (True, True)
    """
    found = canonical(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(found, one) for one in kind)
    if isinstance(kind, str) and kind in _KIND_LETTERS:
        return (found.name[0] if _kind(found) == "s" else _kind(found)) in _KIND_LETTERS[kind]
    return found == canonical(kind)


_kind = kind


@api_class
class finfo:
    """The limits of a floating dtype, bfloat16 and float8 included: Python's numbers, which are weak and widen nothing.

    Arguments:
        dtype: a floating or complex dtype, or an array of one.

    Attributes:
        dtype: the floating dtype; that of the parts, of a complex one.
        bits, nmant, nexp, precision, machep, negep, iexp, maxexp, minexp: as NumPy's, whole numbers.
        eps, epsneg, max, min, tiny, smallest_normal, smallest_subnormal, resolution: floats.

    Raises:
        DtypeError: not a dtype.
        ValueError: the dtype is not floating.

    Example:
        >>> pnp.finfo(pnp.float32).eps
        1.1920928955078125e-07
        >>> pnp.finfo(pnp.bfloat16).bits
        16
    """

    def __init__(self, dtype: Any) -> None:
        found = _of(dtype)
        if kind(found) not in "fc":
            raise ValueError(f"finfo takes a floating-point or complex dtype, but got {found.name}: iinfo tells of integers.")
        info: Any = np.finfo(found) if found.isbuiltin == 1 else ml_dtypes.finfo(found)
        self.dtype = DTYPES[info.dtype.name]
        for name in _INTEGERS_OF_FLOATS:
            setattr(self, name, int(getattr(info, name)))
        for name in _LIMITS_OF_FLOATS:
            setattr(self, name, float(getattr(info, name)))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"finfo has no attribute {name!r}; it has {', '.join(vars(self))}.")

    def __repr__(self) -> str:
        return f"finfo(resolution={self.resolution}, min={self.min}, max={self.max}, dtype={self.dtype.name})"


_INTEGERS_OF_FLOATS = ("bits", "nmant", "nexp", "precision", "machep", "negep", "iexp", "maxexp", "minexp")
_LIMITS_OF_FLOATS = ("eps", "epsneg", "max", "min", "tiny", "smallest_normal", "smallest_subnormal", "resolution")


def iinfo(int_type: Any, /) -> Any:
    """The limits of an integer dtype: min, max, bits.

    Arguments:
        int_type: an integer dtype, or an array of one.

    Returns:
        An object with the limits as attributes.

    Raises:
        DtypeError: not a dtype.
        ValueError: the dtype is not one of integers.

    Example:
        >>> pnp.iinfo(pnp.int8).min, pnp.iinfo(pnp.int8).max
        (-128, 127)
    """
    return integer_limits(_of(int_type))


def _of(dtype: Any) -> DType:
    return dtype.dtype if isinstance(dtype, (Array, Tracer, np.ndarray, np.generic)) else canonical(dtype)


def iscomplexobj(x: ArrayLike) -> bool:
    """Whether a value's dtype is complex.

    Arguments:
        x: an array or a number; or an ArrayType.

    Returns:
        A bool.

    Raises:
        LeafError: an operand is neither an array nor a number.

    Example:
        >>> pnp.iscomplexobj(pnp.array([1 + 0j])), pnp.iscomplexobj(1.0)
        (True, False)
    """
    dtype = getattr(x, "dtype", None)  # types of scalars and of arrays have one, too
    return kind(dtype if isinstance(dtype, np.dtype) else operand(x, "iscomplexobj").type.dtype) == "c"


def isrealobj(x: ArrayLike) -> bool:
    """Whether a value's dtype is not complex.

    Arguments:
        x: an array or a number; or an ArrayType.

    Returns:
        A bool.

    Raises:
        LeafError: an operand is neither an array nor a number.

    Example:
        >>> pnp.isrealobj(pnp.array([1 + 0j])), pnp.isrealobj(1.0)
        (False, True)
    """
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Whether a value is a number, a string, or an array of no axes.

    Arguments:
        element: anything.

    Returns:
        A bool.

    Example:
        >>> pnp.isscalar(3.0), pnp.isscalar(pnp.array(3.0)), pnp.isscalar(pnp.array([3.0])), pnp.isscalar("3")
        (True, True, False, True)
    """
    return element.__class__ in PYTHON_SCALARS or isinstance(element, (str, bytes)) or getattr(element, "shape", None) == ()


class ArrayNamespaceInfo:
    """What this namespace can do, as the Array API asks (`__array_namespace_info__`).

    Example:
        >>> info = pnp.__array_namespace_info__()
        >>> info.default_dtypes()["real floating"]
        dtype('float32')
    """

    def capabilities(self) -> dict[str, Any]:
        """What the namespace can do with arrays whose values are known; while tracing, no shape depends on data.

        Returns:
            A dict.

        Example:
            >>> pnp.__array_namespace_info__().capabilities()["data-dependent shapes"]
            True
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """The device on which arrays are made.

        Returns:
            A device.

        Example:
            >>> pnp.__array_namespace_info__().default_device()
            cpu(0)
        """
        return DEFAULT_DEVICE

    def devices(self) -> list[Device]:
        """The devices on which this namespace makes arrays. `pb.devices` lists all; `pb.device_put` moves arrays.

        Returns:
            A list of devices.

        Example:
            >>> pnp.__array_namespace_info__().devices()
            [cpu(0)]
        """
        return [DEFAULT_DEVICE]

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The dtypes of new arrays.

        Arguments:
            device: of no effect: they are the same on each.

        Returns:
            A dict of dtypes by the names of their kinds.

        Example:
            >>> pnp.__array_namespace_info__().default_dtypes()["integral"]
            dtype('int32')
        """
        return {
            "real floating": default_dtype("f"),
            "complex floating": default_dtype("c"),
            "integral": default_dtype("i"),
            "indexing": default_dtype("i"),
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The Array API's dtypes, all or those of a kind.

        Arguments:
            device: of no effect: they are the same on each.
            kind: as for `isdtype`; None for all.

        Returns:
            A dict of dtypes by their names.

        Raises:
            DtypeError: an unknown `kind`.

        Example:
            >>> pnp.__array_namespace_info__().dtypes(kind="complex floating")
            {'complex64': dtype('complex64'), 'complex128': dtype('complex128')}
        """
        names = [name for name in DTYPES if not name.startswith("float8") and name not in ("bfloat16", "float16")]
        return {name: DTYPES[name] for name in names if kind is None or isdtype(DTYPES[name], kind)}


def __array_namespace_info__() -> ArrayNamespaceInfo:
    """What this namespace can do, as the Array API asks.

    Returns:
        An object with the methods `capabilities`, `default_device`, `default_dtypes` and `dtypes`.

    Example:
        >>> sorted(pnp.__array_namespace_info__().dtypes(kind="real floating"))
        ['float32', 'float64']
    """
    return ArrayNamespaceInfo()


assert BOOL.type is bool_
