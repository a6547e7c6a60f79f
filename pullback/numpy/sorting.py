"""Sorting and searching."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike, host_of
from pullback.core.brief import brief
from pullback.core.dtypes import DTypeLike, accumulation_dtype, default_dtype, is_inexact, kind, requested
from pullback.core.errors import AxisError, DtypeError, ShapeError
from pullback.core.tracing import Tracer, innermost_staging
from pullback.core.types import array_type
from pullback.numpy.arithmetic import subtract
from pullback.numpy.axes import normal_axis, whole
from pullback.numpy.creation import array
from pullback.numpy.eager import by_numpy
from pullback.numpy.logic import where
from pullback.numpy.promotion import (
    NATIVE_FLOATS,
    NATIVE_NUMBERS,
    at_user_line,
    flags,
    float_for,
    in_dtype,
    operand,
    to_common_dtype,
)
from pullback.numpy.shaping import flip, ravel
from pullback.numpy.taking import take
from pullback.ops import sort as sorts
from pullback.ops.formulas import COMPLEX_DTYPE


def along(a: Any, axis: Any, name: str) -> tuple[Array, int]:
    """An operand, flattened if there is no axis, and the axis counted from the front."""
    a = operand(a, name)
    if axis is None:
        return ravel(a), 0
    if not a.type.ndim:
        raise AxisError(f"{name} goes along an axis, but got {a.type}, which has none. Pass axis=None.{at_user_line()}")
    return a, normal_axis(axis, a.type.ndim, name)


_KINDS = (None, "quicksort", "mergesort", "heapsort", "stable")


def _check_kind(name: str, kind: Any, order: Any, stable: Any) -> None:
    if kind not in _KINDS:
        raise ValueError(
            f"{name} takes kind=None or one of {_KINDS[1:]}, not {brief(kind)}; all are stable here.{at_user_line()}"
        )
    if order is not None:
        raise ValueError(f"{name} takes no order={brief(order)}: arrays have no fields.{at_user_line()}")
    if stable is not None:
        flags(name, stable=stable)


def _on_host(primitive: Any) -> Any:
    """What a primitive computes on NumPy's arrays, along an axis."""

    def compute(a: Any, axis: int | None = -1) -> Any:
        params = {} if primitive is sorts.sort else {"index_dtype": default_dtype("i")}
        return primitive.evaluate(a.ravel() if axis is None else a, dimension=axis % a.ndim if axis else 0, **params)

    return compute


@by_numpy(_on_host(sorts.sort), NATIVE_FLOATS)
def sort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: str | None = None,
    order: None = None,
    stable: bool | None = True,
    descending: bool = False,
) -> Array:
    """The elements in rising order along an axis, NaN last; complex numbers by their real parts, then by their imaginary ones.

    Arguments:
        a: an array of any dtype.
        axis: the axis; None for the flattened array.
        kind, stable: how NumPy is to sort, and whether equal elements have to keep their order; they always do.
        order: None; arrays have no fields.
        descending: whether in falling order, NaN first.

    Returns:
        An array of the same dtype.

    Raises:
        LeafError: `a` is neither an array nor a number.
        AxisError: the array has no such axis.
        ValueError: an unknown `kind`, or an `order`.

    Example:
        >>> pnp.sort(pnp.array([3.0, pnp.nan, 1.0]))
        [ 1.  3. nan]:f32[3]:cpu(0)
        >>> pnp.sort(pnp.array([[3, 1], [0, 2]]), axis=None, descending=True)
        [3 2 1 0]:i32[4]:cpu(0)
        >>> pb.jacrev(pnp.sort)(pnp.array([3.0, 1.0]))
        [[0. 1.]
         [1. 0.]]:f32[2,2]:cpu(0)
    """
    _check_kind("sort", kind, order, stable)
    a, place = along(a, axis, "sort")
    out = sorts.sort(a, dimension=place)
    return flip(out, place) if flags("sort", descending=descending)[0] else out


@by_numpy(_on_host(sorts.order), NATIVE_FLOATS)
def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: str | None = None,
    order: None = None,
    stable: bool | None = True,
    descending: bool = False,
    dtype: DTypeLike = None,
) -> Array:
    """The indices that sort an array along an axis; of equal elements the first comes first.

    Arguments:
        a: an array of any dtype.
        axis: the axis; None for the flattened array.
        kind, stable: how NumPy is to sort, and whether equal elements have to keep their order; they always do.
        order: None; arrays have no fields.
        descending: whether in falling order, NaN first; equal elements keep their order then, too.
        dtype: that of the indices; by default the default integers.

    Returns:
        An array of indices.

    Raises:
        LeafError: `a` is neither an array nor a number.
        AxisError: the array has no such axis.
        ValueError: an unknown `kind`, or an `order`.
        DtypeError: `dtype` is no dtype of integers.

    Example:
        >>> pnp.argsort(pnp.array([3, 1, 2, 1]))
        [1 3 2 0]:i32[4]:cpu(0)
        >>> pnp.argsort(pnp.array([3, 1, 2, 1]), descending=True)
        [0 2 1 3]:i32[4]:cpu(0)
    """
    _check_kind("argsort", kind, order, stable)
    a, place = along(a, axis, "argsort")
    (falling,) = flags("argsort", descending=descending)
    return sorts.order(a, dimension=place, index_dtype=_index_dtype(dtype, "argsort"), descending=falling)


def _index_dtype(dtype: Any, name: str) -> Any:
    wanted = default_dtype("i") if dtype is None else requested(dtype)
    if kind(wanted) not in "iu":
        raise DtypeError(f"{name} returns indices, which are integers; dtype={wanted.name} is not.{at_user_line()}")
    return wanted


def _parted(name: str, a: Any, kth: Any, axis: Any, ordered: Any) -> Any:
    a, place = along(a, axis, name)
    size = a.type.shape[place]
    for one in kth if isinstance(kth, (tuple, list)) else (kth,):
        if not -size <= whole(one, f"{name}'s kth") < size:
            raise ValueError(
                f"{name} of {a.type} along axis {axis} has no place kth={one}. Count from 0 to the size less 1.{at_user_line()}"
            )
    many = size > 256  # few are sorted as fast
    if not many or a.__class__ is not Array or a.type.dtype not in NATIVE_NUMBERS or innermost_staging() is not None:
        return ordered(a, place)
    found = getattr(np, name)(host_of(a), kth, place)
    dtype = default_dtype("i")
    return Array(a.type, found) if name == "partition" else Array(array_type(found.shape, dtype), found.astype(dtype))


def partition(a: ArrayLike, kth: int | Sequence[int], axis: int | None = -1) -> Array:
    """The elements along an axis such that the kth is where sorting puts it, smaller ones come before and larger ones behind.

    Where there are many, and they are known, NumPy partitions them; else they are sorted.

    Arguments:
        a: an array of any dtype.
        kth: an int, or several; negative ones count from the end.
        axis: the axis; None for the flattened array.

    Returns:
        An array of the same dtype.

    Raises:
        LeafError: `a` is neither an array nor a number.
        AxisError: the array has no such axis.
        ValueError: there are not so many elements.

    Example:
        >>> pnp.partition(pnp.array([7, 1, 9, 3]), 1)
        [1 3 7 9]:i32[4]:cpu(0)
    """
    return _parted("partition", a, kth, axis, lambda a, place: sorts.sort(a, dimension=place))


def argpartition(a: ArrayLike, kth: int | Sequence[int], axis: int | None = -1) -> Array:
    """The indices that partition an array; see `partition`.

    Arguments:
        a: an array of any dtype.
        kth: an int, or several; negative ones count from the end.
        axis: the axis; None for the flattened array.

    Returns:
        An array of the default integers.

    Raises:
        LeafError: `a` is neither an array nor a number.
        AxisError: the array has no such axis.
        ValueError: there are not so many elements.

    Example:
        >>> pnp.argpartition(pnp.array([7, 1, 9, 3]), 1)
        [1 3 0 2]:i32[4]:cpu(0)
    """
    dtype = default_dtype("i")
    return _parted("argpartition", a, kth, axis, lambda a, place: sorts.order(a, dimension=place, index_dtype=dtype))


def lexsort(keys: ArrayLike | Sequence[ArrayLike], axis: int = -1) -> Array:
    """The indices that sort by several keys: by the last one, where that is equal by the one before it, and so on.

    Arguments:
        keys: a sequence of arrays of one shape, or an array whose rows are the keys.
        axis: the axis of the keys to sort along.

    Returns:
        An array of the default integers.

    Raises:
        LeafError: a key is neither an array nor a number.
        AxisError: the keys have no such axis.
        ShapeError: their shapes differ, or there are none.

    Example:
        >>> pnp.lexsort((pnp.array([1, 0, 2]), pnp.array([5, 5, 4])))
        [2 1 0]:i32[3]:cpu(0)
    """
    given = list(keys) if isinstance(keys, (list, tuple)) else list(array(keys, copy=False))
    rows = [operand(key, "lexsort") for key in given]
    if not rows or any(key.type.shape != rows[0].type.shape for key in rows):
        raise ShapeError(f"lexsort takes keys of one shape, but got {[str(key.type) for key in rows]}.{at_user_line()}")
    if not rows[0].type.shape:
        return array(0, default_dtype("i"))  # as NumPy has it
    place = along(rows[0], axis, "lexsort")[1]
    return sorts.order(*rows[::-1], dimension=place, index_dtype=default_dtype("i"))


def sort_complex(a: ArrayLike) -> Array:
    """The elements along the last axis as complex numbers in rising order: by their real parts, then by their imaginary ones.

    Arguments:
        a: an array of any dtype, with an axis.

    Returns:
        A complex array; complex64 unless the elements need complex128.

    Raises:
        LeafError: `a` is neither an array nor a number.
        AxisError: it has no axis.

    Example:
        >>> pnp.sort_complex(pnp.array([2.0, 1.0 + 1j, 1.0]))
        [1.+0.j 1.+1.j 2.+0.j]:c64[3]:cpu(0)
    """
    a, place = along(a, -1, "sort_complex")
    dtype = a.type.dtype
    part = accumulation_dtype(dtype) if is_inexact(dtype) else float_for(dtype)
    return sorts.sort(in_dtype(a, COMPLEX_DTYPE.get(part, dtype)), dimension=place)


def _searched(a: Any, v: Any, side: Any = "left") -> Any:
    v = v if isinstance(v, np.ndarray) else np.asarray(v, a.dtype)  # NumPy would take a Python number in 64 bits
    return np.searchsorted(a, v, side).astype(default_dtype("i"))


_SIDES = ("left", "right")
_METHODS = (None, "default", "scan", "scan_unrolled", "sort", "compare_all")


@by_numpy(_searched, NATIVE_FLOATS)
def searchsorted(
    a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None, *, method: str | None = "scan"
) -> Array:
    """Where values are to be put into a sorted vector, so that it stays sorted: how many of its elements are smaller.

    Arguments:
        a: a vector in rising order.
        v: the values, of any shape.
        side: "left" to come before elements that are equal, "right" to come behind them.
        sorter: indices that sort `a`, if it is not sorted.
        method: how JAX is to search ("scan", "sort", "compare_all", ...); it is always done by halving.

    Returns:
        Indices from 0 to the size of `a`, of the shape of `v` and the default integers. NaN is larger than all numbers.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: `a` is no vector.
        ValueError: an unknown `side` or `method`.

    Example:
        >>> pnp.searchsorted(pnp.array([1, 2, 2, 5]), pnp.array([2, 6]))
        [1 4]:i32[2]:cpu(0)
        >>> pnp.searchsorted(pnp.array([1, 2, 2, 5]), 2, side="right")
        3:i32[]:cpu(0)
    """
    if side not in _SIDES or method not in _METHODS:
        raise ValueError(
            f"searchsorted takes side='left' or 'right', and a method of {_METHODS[1:]}, not {brief(side)} and {brief(method)}."
            + at_user_line()
        )
    a, v = to_common_dtype("searchsorted", a, v)
    if a.type.ndim != 1:
        raise ShapeError(f"searchsorted searches in a vector, but got {a.type}.{at_user_line()}")
    if sorter is not None:
        a = take(a, sorter, mode="clip")
    return sorts.search(a, v, right=side == "right", index_dtype=default_dtype("i"))


def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None) -> Array:
    """The number of the bin in which each value lies: i where bins[i-1] <= x < bins[i]; 0 below all, their number above.

    Arguments:
        x: an array of real numbers.
        bins: a vector in rising or falling order.
        right: whether bins hold their upper end in place of their lower one: bins[i-1] < x <= bins[i].
        method: how JAX is to search; see `searchsorted`.

    Returns:
        Indices of the shape of x, of the default integers.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: `bins` is no vector.
        ValueError: `bins`, if known, neither rise nor fall.

    Example:
        >>> pnp.digitize(pnp.array([0.2, 6.4, 3.0]), pnp.array([0.0, 1.0, 2.5, 4.0]))
        [1 4 3]:i32[3]:cpu(0)
    """
    bins, x = operand(bins, "digitize", "bins"), operand(x, "digitize")
    size = bins.type.size
    if not isinstance(bins, Tracer):
        steps = np.sign(np.diff(np.asarray(host_of(bins)).astype(np.float64)))
        if (steps > 0).any() and (steps < 0).any():
            raise ValueError(f"digitize takes bins that rise or that fall, but these do both.{at_user_line()}")
    side = "left" if flags("digitize", right=right)[0] else "right"
    rising = searchsorted(bins, x, side, method=method)
    if size < 2:
        return rising
    falling = subtract(size, searchsorted(flip(bins, 0), x, side, method=method))
    return where(bins[0] > bins[-1], falling, rising)
