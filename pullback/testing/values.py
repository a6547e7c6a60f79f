"""Values for checks: comparing them, and making samples of other dtypes, random tangents and batches out of given ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, as_array
from pullback.core.dtypes import DTYPES, DType, is_inexact, kind
from pullback.core.error_pages import Explained
from pullback.core.tracing import type_of

Flat = Callable[..., Sequence[Any]]

# How far two computations of the same value may differ, relative to the size of the values: some units in the last place.
TOLERANCES = {
    "float16": 1e-2,
    "bfloat16": 6e-2,
    "float32": 5e-5,
    "float64": 2e-12,
    "complex64": 1e-4,
    "complex128": 4e-12,
}

DTYPES_OF_KIND = {
    "b": ("bool",),
    "i": ("int8", "int32", "int64"),
    "u": ("uint8", "uint32"),
    "f": ("float16", "bfloat16", "float32", "float64"),
    "c": ("complex64", "complex128"),
}


class CheckFailure(Explained, AssertionError):
    """A check of `pb.testing` has failed. The message says which one, on what, and shows both values.

    Fails: a derivative that is not that of the function, since a part of it is hidden.
        >>> import pullback as pb
        >>> square = pb.custom_jvp(lambda x: x * x)
        >>> square.defjvps(lambda tangent, out, x: tangent * x)
        >>> pb.testing.check_gradients(square, (3.0,))
        Traceback (most recent call last):
            ...
        pullback.testing.CheckFailure: ...

    Cure: the rule whose figures differ, or the function.
        >>> square.defjvps(lambda tangent, out, x: 2.0 * tangent * x)
        >>> pb.testing.check_gradients(square, (3.0,)) is None
        True
    """

    __module__ = "pullback.testing"


def host(value: Any) -> np.ndarray[Any, Any]:
    """A value as a NumPy array."""
    return np.asarray(as_array(value).host)


def wide(value: Any) -> np.ndarray[Any, Any]:
    """A value in the widest dtype of its kind, for arithmetic on it in a check."""
    array = host(value)
    letter = kind(array.dtype)
    return array.astype({"f": np.float64, "c": np.complex128}.get(letter, array.dtype))


def assert_same(got: Any, expected: Any, claim: str, tolerance: float | None = None) -> None:
    """Raise `CheckFailure` unless two lists of arrays agree in shapes, dtypes and values."""
    for i, (one, other) in enumerate(zip(got, expected, strict=True)):
        one_type, other_type = type_of(one), type_of(other)
        where = f", result {i}" if len(expected) > 1 else ""
        if one_type.shape != other_type.shape or one_type.dtype != other_type.dtype:
            raise CheckFailure(f"{claim}{where}: the types differ: {one_type} against {other_type}.")
        assert_close(one, other, claim + where, tolerance)


def assert_close(got: Any, expected: Any, claim: str, tolerance: float | None = None) -> None:
    """Raise `CheckFailure` unless two arrays of one shape have nearly equal values; integers must be equal."""
    a, b = wide(got), wide(expected)
    if a.size == 0:
        return
    dtype = host(expected).dtype
    if not is_inexact(dtype):
        agree = np.array_equal(a, b)
    else:
        rtol = TOLERANCES[dtype.name] if tolerance is None and dtype.name in TOLERANCES else tolerance or 1e-1
        finite = np.abs(b[np.isfinite(b)])
        atol = rtol * max(1.0, float(finite.max()) if finite.size else 1.0)
        agree = a.shape == b.shape and bool(np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True))
    if not agree:
        raise CheckFailure(f"{claim}:\n{a}\nagainst\n{b}")


def in_dtype(args: Sequence[Any], dtype: DType) -> list[Array] | None:
    """A sample's arguments with those that are float64 or complex128 in another dtype; None if that makes no sense."""
    made = []
    for arg in args:
        array = np.asarray(arg)
        if array.dtype == np.complex128 and kind(dtype) != "c":
            return None
        made.append(_cast(array, dtype) if array.dtype in (np.float64, np.complex128) else array)
    return [as_array(array) for array in made]


def is_generic(args: Sequence[Any]) -> bool:
    """Whether a sample leaves the dtype open, by holding float64 or complex128 values."""
    return any(np.asarray(arg).dtype in (np.float64, np.complex128) for arg in args)


def _cast(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    letter = kind(dtype)
    if array.dtype == np.complex128 or letter == "f":
        return array.astype(dtype)
    if letter == "c":
        return np.asarray(array + 0.3j * np.roll(array, 1)).astype(dtype)
    if letter == "b":
        return array > 0
    whole = np.round(array) if np.array_equal(array, np.round(array)) else np.round(3 * array)
    return np.asarray(np.abs(whole) if letter == "u" else whole).astype(np.int64).astype(dtype)


def random_like(rng: np.random.Generator, value: Any) -> Array:
    """A random array of a value's type, such as a tangent; complex where it is."""
    type = type_of(value)
    array = rng.normal(size=type.shape)
    if kind(type.dtype) == "c":
        array = array + 1j * rng.normal(size=type.shape)
    return as_array(np.asarray(array).astype(type.dtype))


def batch_of(value: Any, size: int = 3) -> Array:
    """`size` different variants of an array, along a new first axis: all are in the domain that it is in."""
    array = host(value)
    rows = []
    for i in range(size):
        if is_inexact(array.dtype):
            rows.append((array * array.dtype.type(1 - 0.0625 * i)).astype(array.dtype))
        elif array.ndim:
            rows.append(np.roll(array, i))
        else:
            rows.append(np.asarray(array ^ (i % 2 == 1) if array.dtype == bool else array + array.dtype.type(i)))
    return as_array(np.stack(rows))


def parse_dtypes(names: Sequence[Any] | None, kinds: str) -> list[DType]:
    """The dtypes to check: those named, or the usual ones of each kind."""
    if names is None:
        names = [name for letter in kinds for name in DTYPES_OF_KIND[letter]]
    return [DTYPES[name] if isinstance(name, str) else np.dtype(name) for name in names]
