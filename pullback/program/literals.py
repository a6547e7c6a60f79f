"""Numbers as the text of a Program has them: every value reads back to the very same bits.

Printer and parser share this file, so that what one leaves out, the other puts back.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.core.dtypes import BOOL, COMPLEX64, COMPLEX128, DTYPES, FLOAT32, FLOAT64, INT32, DType, kind
from pullback.core.lazy import lazy_module
from pullback.core.types import ArrayType, array_type

if TYPE_CHECKING:
    import base64
else:
    base64 = lazy_module("base64")


HostArray = np.ndarray[Any, Any]

REAL = r"(?:nan|inf|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
NUMBER = rf"[-+]?{REAL}(?:[-+]{REAL}j)?(?![\w.])"
_COMPLEX = re.compile(rf"([-+]?{REAL})([-+]{REAL})j")
_INTEGER = re.compile(r"[-+]?\d+")

# A literal is written in one of four kinds; unsigned integers are written as integers.
_WRITTEN_KINDS = {"b": "b", "i": "i", "u": "i", "f": "f", "c": "c"}
_UNTYPED = {"b": BOOL, "i": INT32, "f": FLOAT32, "c": COMPLEX64}
_PARTS = {COMPLEX64: FLOAT32, COMPLEX128: FLOAT64}


def written_kind(text: str) -> str:
    """The kind of a number as it is written: `b` for True and False, `i`, `f` or `c`."""
    if text in ("True", "False"):
        return "b"
    if _INTEGER.fullmatch(text):
        return "i"
    return "c" if text.endswith("j") else "f"


def implied_literal_type(written: str, operand_types: Sequence[ArrayType]) -> ArrayType:
    """The type of a literal that is printed without one.

    It is weak, and has the dtype of the equation's first operand that is not a literal if that is of the kind in which the
    literal is written; else the 32-bit dtype of its own kind (complex64).

    Arguments:
        written: the kind, `b`, `i`, `f` or `c`, as `written_kind` finds it.
        operand_types: types of those operands of the equation that are not literals.

    Example:
        >>> from pullback.core.dtypes import FLOAT64
        >>> implied_literal_type("f", [array_type((3,), FLOAT64)])
        ~f64[]
        >>> implied_literal_type("i", [array_type((3,), FLOAT64)])
        ~i32[]
    """
    if operand_types and _WRITTEN_KINDS[kind(operand_types[0].dtype)] == written:
        return array_type((), operand_types[0].dtype, True)
    return array_type((), _UNTYPED[written], True)


def number_text(value: HostArray | np.generic) -> str | None:
    """The shortest text that `read_number` turns back into the same bits; None if there is none (a NaN with a payload)."""
    value = np.asarray(value)
    letter = kind(value.dtype)
    if letter == "b":
        return "True" if value else "False"
    if letter in "iu":
        return str(int(value))
    if letter == "c":
        real, imaginary = number_text(value.real), number_text(value.imag)
        if real is None or imaginary is None:
            return None
        return f"{real}{'' if imaginary.startswith('-') else '+'}{imaginary}j"
    short = str(value[()])
    if _INTEGER.fullmatch(short):
        short += ".0"
    for text in (short, f"-{short}", repr(float(value))):
        if read_number(text, value.dtype).tobytes() == value.tobytes():
            return text
    return None


def parameter_text(value: float | complex) -> str:
    """A Python number as `read_number` reads it. A NaN is a NaN: of a parameter its payload is not kept."""
    if isinstance(value, complex):
        real, imaginary = parameter_text(value.real), parameter_text(value.imag)
        return f"{real}{'' if imaginary.startswith('-') else '+'}{imaginary}j"
    return number_text(np.asarray(value)) or repr(value)


def read_number(text: str, dtype: DType) -> HostArray:
    """The 0-d NumPy array that a number's text means in a dtype.

    Raises:
        ValueError: the text is of a kind that the dtype cannot hold, or the number is too large for it.
    """
    letter, written = kind(dtype), written_kind(text)
    if "bifc".index(written) > "bifc".index(_WRITTEN_KINDS[letter]) or (written == "b") != (letter == "b"):
        raise ValueError(f"{text} is not a value of dtype {dtype.name}")
    if written == "b":
        return np.asarray(text == "True")
    if letter in "iu":
        bounds = np.iinfo(dtype)
        if not bounds.min <= int(text) <= bounds.max:
            raise ValueError(f"{text} does not fit into {dtype.name}")
        return np.asarray(int(text), dtype)
    with np.errstate(all="ignore"):
        if letter == "f":
            return np.asarray(float(text)).astype(dtype)
        parts = _COMPLEX.fullmatch(text)
        out = np.zeros((), dtype)
        out.real = read_number(parts[1] if parts else text, _PARTS[dtype])
        out.imag = read_number(parts[2] if parts else "0.0", _PARTS[dtype])
        return out


def base64_text(value: HostArray | np.generic) -> str:
    """The bytes of an array, row by row and little-endian, in base64."""
    return base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()


def read_base64(text: str, type: ArrayType) -> HostArray:
    """The array of a type whose bytes are in `text`.

    Raises:
        ValueError: `text` is not base64, or holds another number of bytes than the type needs.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"this is not base64 text: {error}") from None
    if len(data) != type.nbytes:
        raise ValueError(f"these are {len(data)} bytes, but {type} takes {type.nbytes}")
    return np.frombuffer(data, type.dtype).reshape(type.shape).copy()


def nested_text(value: HostArray) -> str | None:
    """An array's numbers in nested brackets, `[[1.0, 2.0], [3.0, 4.0]]`; None if one of them has no text."""
    if value.size == 0:
        return "[]"
    if value.ndim == 0:
        return number_text(value)
    rows = [nested_text(row) for row in value]
    return None if None in rows else f"[{', '.join(map(str, rows))}]"


assert set(_WRITTEN_KINDS) >= {kind(dtype) for dtype in DTYPES.values()}
