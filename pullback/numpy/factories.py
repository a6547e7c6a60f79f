"""How the elementwise functions and the operators are made: a fast path for plain Arrays, and the general path behind it.

The fast path is for Arrays whose values lie in NumPy memory, outside any staging: one NumPy call and one `Array`. It is
taken only for dtypes where NumPy's result is what the primitive's type rule says. Everything else, tracers too, is promoted
and handed to `bind`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike, find_converter
from pullback.core.dtypes import BOOL, DTYPES, DType, in_words, is_inexact, kind
from pullback.core.source import trim
from pullback.core.tracing import Tracer, _quiet_numpy, bind, innermost_staging
from pullback.core.types import array_type
from pullback.numpy.promotion import (
    NATIVE_FLOATS,
    NATIVE_INEXACT,
    NATIVE_NUMBERS,
    literal_of,
    operand,
    to_common_dtype,
    to_common_shape,
    to_inexact,
)
from pullback.ops import compare, reduce
from pullback.ops.convert import bitcast_convert_type

Function = Callable[..., Any]
Unary = Callable[[ArrayLike], Array]
Binary = Callable[[ArrayLike, ArrayLike], Array]
NO_PARAMS: dict[str, Any] = {}
_fast_scalars = frozenset({float, int})
FLOATING = "; integers and bools become the default floating dtype."
COMMON = ", in the common dtype."


# What `help` shows: inside, operands are of any class until they have been looked at.
_OPERANDS = {"x": "ArrayLike", "y": "ArrayLike"}


def named(function: Function, name: str, doc: str, sections: str = "", module: str = "pullback.numpy") -> Function:
    """Give a function made by a factory its own name and documentation.

    Arguments:
        doc: what it does, and an example, as in the docstring of a function that is written out.
        sections: the arguments, results and errors that the factory's functions share; they go between the two, unless `doc`
            has its own.
    """
    if sections and "Arguments:" not in doc:
        summary, _, example = doc.partition("\n\n    Example:")
        doc = f"{summary}\n\n{sections}\n\n    Example:{example}" if example else f"{summary}\n\n{sections}\n"
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    function.__module__ = module
    if sections and function.__annotations__.keys() - {"return"} <= _OPERANDS.keys():
        function.__annotations__ = {name: _OPERANDS.get(name, "Array") for name in function.__annotations__}
    return function


def about(operands: int, result: str, refused: str = "", promotes: bool = True, out: bool = False) -> str:
    """The sections on arguments, results and errors of an elementwise function of one operand or two.

    Arguments:
        result: what is to be said of the result's dtype.
        refused: the numbers that it does not take: "complex".
        promotes: whether operands meet in a common dtype.
        out: whether there is an argument of that name.
    """
    one = operands == 1
    nothing = "\n        out: None: arrays are immutable." if out else ""
    given = "x: an array or a number, of any shape." if one else "x, y: arrays or numbers whose shapes broadcast."
    shape = "An array of the shape of x" if one else "An array of the broadcast shape"
    x = "x" if one else "x or y"
    errors = [f"LeafError: {x} is neither an array nor a number."]
    errors += [f"DtypeError: {x} is {refused}."] if refused else []
    errors += ["DtypeError: the dtypes have no common one."] if promotes and not one else []
    errors += [] if one else ["ShapeError: the shapes do not broadcast."]
    errors += ["TypeError: `out` is not None."] if out else []
    return sections(given + nothing, shape + result, errors)


def sections(arguments: str, returns: str, errors: list[str]) -> str:
    """Those three sections of a docstring."""
    raises = "\n        ".join(errors)
    return f"    Arguments:\n        {arguments}\n\n    Returns:\n        {returns}\n\n    Raises:\n        {raises}"


def refused_by(primitive: Any, inexact: bool) -> str:
    """The numbers that an elementwise primitive has no rule for; where `inexact`, integers and bools are converted first."""
    return in_words("".join([letter for letter in ("fc" if inexact else "biufc") if letter not in primitive.kinds]))


def _fast_path(primitive: Any, dtypes: frozenset[DType]) -> tuple[Any, frozenset[DType]]:
    """NumPy's function for a primitive, and for which of some dtypes it is that: for none, where it is none of NumPy's."""
    ufunc = getattr(primitive.evaluate, "of_floats", primitive.evaluate)
    letters = primitive.kinds if ufunc is primitive.evaluate else "f"
    return ufunc, frozenset([dtype for dtype in dtypes if kind(dtype) in letters and isinstance(ufunc, np.ufunc)])


def unary(name: str, primitive: Any, doc: str, *, inexact: bool = True) -> Unary:
    """An elementwise function of one array; where `inexact`, integers and bools become the default floating dtype first."""
    ufunc, fast = _fast_path(primitive, NATIVE_INEXACT)
    prepare = to_inexact if inexact else operand

    def function(x: Any, /) -> Any:
        if x.__class__ is Array:
            type = x.type
            host = x._host
            if type.dtype in fast and host is not None and innermost_staging() is None:
                return Array(type, _quiet_numpy.run(ufunc, host))
        try:
            if isinstance(x, Tracer) and x.type.dtype in NATIVE_INEXACT:
                return bind(primitive, (x,), NO_PARAMS)
            return bind(primitive, (prepare(x, name),), NO_PARAMS)
        except BaseException as error:
            trim(error)
            raise

    function.is_boundary = id(function)  # type: ignore[attr-defined]
    return named(function, name, doc, about(1, FLOATING if inexact else ", in its dtype.", refused_by(primitive, inexact)))


_WORDS = {4: DTYPES["uint32"], 8: DTYPES["uint64"]}
_OF_KEYS = frozenset({compare.eq, compare.ne})


def _compared_keys(primitive: Any, x: Any, y: Any) -> Any:
    """Where keys are equal, that is all of their words, or differ."""
    size = x.type.dtype.itemsize
    words = [bitcast_convert_type(keys, new_dtype=_WORDS[size % 16 or 4]) for keys in (x, y)]
    found = bind(primitive, tuple(to_common_shape(primitive.name, *words)), NO_PARAMS)
    combine = reduce.reduce_and if primitive is compare.eq else reduce.reduce_or
    return found if size <= 8 else combine(found, axes=(found.type.ndim - 1,))


def apply_binary(name: str, primitive: Any, x: Any, y: Any, inexact: bool) -> Any:
    """The general path of an operation on two operands: promote, broadcast, bind."""
    if isinstance(x, (Array, Tracer)):
        x_type = x.type
        if isinstance(y, (Array, Tracer)):
            y_type = y.type
            if x_type.dtype is y_type.dtype and not (inexact and not is_inexact(x_type.dtype)):
                if not (x_type is y_type or x_type.shape == y_type.shape or not x_type.shape or not y_type.shape):
                    x, y = to_common_shape(name, x, y)
                if primitive in _OF_KEYS and kind(x_type.dtype) == "k":
                    return _compared_keys(primitive, x, y)
                return bind(primitive, (x, y), NO_PARAMS)
        elif y.__class__ in _fast_scalars and x_type.dtype in NATIVE_FLOATS:
            return bind(primitive, (x, literal_of(y, x_type.dtype)), NO_PARAMS)
    elif x.__class__ in _fast_scalars and isinstance(y, (Array, Tracer)) and y.type.dtype in NATIVE_FLOATS:
        return bind(primitive, (literal_of(x, y.type.dtype), y), NO_PARAMS)
    return bind(primitive, to_common_shape(name, *to_common_dtype(name, x, y, inexact=inexact)), NO_PARAMS)


def binary(
    name: str, primitive: Any, doc: str, *, inexact: bool = False, compares: bool = False, operator: bool = False
) -> Binary:
    """An elementwise function of two arrays; its attribute `as_operator` makes the method of a name that does the same.

    Arguments:
        inexact: whether integers and bools are converted to the default floating dtype first (division).
        compares: whether the result is bool.
        operator: made for a method: it returns NotImplemented for an operand that is neither array nor number.
    """
    ufunc, fast = _fast_path(primitive, NATIVE_FLOATS if inexact else NATIVE_NUMBERS)
    floats = fast & NATIVE_FLOATS
    called = name.strip("_")  # an operator's error speaks of add, not of __add__

    def function(x: Any, y: Any, /) -> Any:
        if x.__class__ is Array:
            x_host = x._host
            x_type = x.type
            if y.__class__ is Array:
                y_type = y.type
                dtype = x_type.dtype
                if (x_type is y_type or dtype is y_type.dtype) and dtype in fast:
                    y_host = y._host
                    if x_host is not None and y_host is not None and innermost_staging() is None:
                        if x_type is y_type:
                            out = _quiet_numpy.run(ufunc, x_host, y_host)
                            return Array(array_type(x_type.shape, BOOL) if compares else x_type, out)
                        if x_type.shape == y_type.shape or not x_type.shape or not y_type.shape:
                            out = _quiet_numpy.run(ufunc, x_host, y_host)
                            return Array(array_type(out.shape, out.dtype, x_type.weak and y_type.weak and not compares), out)
            elif y.__class__ in _fast_scalars and x_type.dtype in floats and x_host is not None and innermost_staging() is None:
                try:
                    out = _quiet_numpy.run(ufunc, x_host, y)
                except OverflowError:  # an integer beyond all floating-point numbers
                    return apply_binary(called, primitive, x, y, inexact)
                return Array(array_type(x_type.shape, BOOL) if compares else x_type, out)
        elif y.__class__ is Array and x.__class__ in _fast_scalars and y.type.dtype in floats:
            y_host = y._host
            if y_host is not None and innermost_staging() is None:
                try:
                    out = _quiet_numpy.run(ufunc, x, y_host)
                except OverflowError:
                    return apply_binary(called, primitive, x, y, inexact)
                return Array(array_type(y.type.shape, BOOL) if compares else y.type, out)
        try:
            if operator and y.__class__ not in _plain_operands and not is_operand(y):
                return no_operand(y, name)
            return apply_binary(called, primitive, x, y, inexact)
        except BaseException as error:
            trim(error)
            raise

    def as_operator(name: str) -> Binary:
        return binary(name, primitive, doc, inexact=inexact, compares=compares, operator=True)

    function.is_boundary, function.as_operator = id(function), as_operator  # type: ignore[attr-defined]
    dtype = ", of bools." if compares else ", in the common dtype; integers and bools become floating." if inexact else COMMON
    return named(function, name, doc, about(2, dtype, refused_by(primitive, inexact)))


_plain_operands = frozenset({Array, float, int, np.ndarray, list, tuple})


def no_operand(value: Any, name: str) -> Any:
    """The answer of the operator of a name to what `is_operand` is not true of. None has no operators of its own to ask."""
    return operand(value, "An operator") if value is None and name not in ("__eq__", "__ne__") else NotImplemented


def is_operand(value: Any) -> bool:
    """Whether an operator deals with a value: an array or a number, which it takes, or a list or tuple, which it refuses.

    For anything else, None or a string, it leaves the answer to the other operand and to Python: `x == None` is False. So it
    does for what has operators of its own for arrays, as it says by NumPy's protocol: its `__array_ufunc__` is None.
    """
    if value.__class__ in _plain_operands:
        return True
    return find_converter(type(value)) is not None and getattr(value, "__array_ufunc__", False) is not None
