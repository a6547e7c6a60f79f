"""Arrays as sets: their different elements, in rising order, and what two of them have in common.

Each function sorts, marks which of the sorted elements count, and takes these: as many as there are, or `size` of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pullback.core.array import Array, ArrayLike, host_of
from pullback.core.brief import brief
from pullback.core.dtypes import default_dtype, is_inexact
from pullback.core.tracing import innermost_staging
from pullback.numpy.axes import normal_axis
from pullback.numpy.creation import arange, array, ones, zeros
from pullback.numpy.eager import by_numpy
from pullback.numpy.logic import logical_not, where
from pullback.numpy.promotion import (
    NATIVE_NUMBERS,
    at_user_line,
    fill_number,
    flags,
    in_dtype,
    literal_of,
    operand,
    storable,
    to_common_dtype,
)
from pullback.numpy.reductions import any as any_of
from pullback.numpy.reductions import count_nonzero
from pullback.numpy.scans import cumsum, diff
from pullback.numpy.shaping import broadcast_to, concatenate, cut, moveaxis, ravel
from pullback.numpy.sorting import searchsorted
from pullback.numpy.taking import take, true_places
from pullback.ops import sort as sorts


class UniqueAllResult(NamedTuple):
    """The different elements, where each is first, which one each element is, and how often there is each."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCountsResult(NamedTuple):
    """The different elements, and how often there is each."""

    values: Array
    counts: Array


class UniqueInverseResult(NamedTuple):
    """The different elements, and which one each element of the array is."""

    values: Array
    inverse_indices: Array


def _sorted_rows(rows: Any, equal_nan: bool = True) -> tuple[Any, Any, Any]:
    """The places that sort the rows of a matrix, or a vector; the rows, sorted; which of these differ from the one before."""
    count, *rest = rows.type.shape
    keys = [rows] if not rest else [cut(rows, 1, i, i + 1).ravel() for i in range(rest[0])] or [zeros(count)]
    places = sorts.order(*keys, dimension=0, index_dtype=default_dtype("i"))
    ordered = take(rows, places, 0, mode="clip") if rows.type.size else rows
    later, earlier = cut(ordered, 0, min(count, 1), count), cut(ordered, 0, 0, max(count - 1, 0))
    differs = later != earlier
    if equal_nan and is_inexact(rows.type.dtype):
        differs = differs & ((later == later) | (earlier == earlier))
    return places, ordered, concatenate([ones(min(count, 1), bool), any_of(differs, 1) if rest else differs])


def _chosen(name: str, values: Any, mask: Any, size: Any, fill_value: Any) -> Any:
    """The values where a mask holds; beyond these, if `size` is larger, the fill value, or else the first of them."""
    if size is None:
        return take(values, true_places(mask, None, name), 0) if values.type.shape[0] else values
    places = true_places(mask, size, name)
    row = getattr(fill_value, "ndim", 0) == 1
    if not values.type.shape[0]:
        return zeros((*places.type.shape, *values.type.shape[1:]), values.type.dtype) + (fill_value if row else fill_value or 0)
    there = arange(places.type.size) < count_nonzero(mask)
    first = take(values, true_places(mask, 1, name), 0, mode="clip")
    if row:
        filling = fill_value
    elif fill_value is None:
        filling = first
    else:
        filling = literal_of(fill_number(fill_value, values.type.dtype, name), values.type.dtype)
    return where(there.reshape(-1, *[1] * (values.type.ndim - 1)), take(values, places, 0, mode="clip"), filling)


def _by_numpy(x: Any, equal_nan: bool) -> Any:
    """The fast path: the different elements of a vector in NumPy's memory."""
    ordered = sorts.sort.evaluate(x, dimension=0)
    differs = np.ones(x.shape, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=differs[1:])
    if equal_nan and x.dtype.kind in "fcV":
        differs[1:] &= (ordered[1:] == ordered[1:]) | (ordered[:-1] == ordered[:-1])
    return ordered[differs]


def _unique(name: str, ar: Any, axis: Any, equal_nan: bool, size: Any, fill_value: Any, wanted: tuple[bool, ...]) -> list[Any]:
    """The different elements; where each is first, which of them each element is, and how often there is each, as wanted."""
    x = operand(ar, name)
    if x.__class__ is Array and axis is size is None and innermost_staging() is None:
        host = np.asarray(host_of(x))
        if True not in wanted:
            values = _by_numpy(host.reshape(-1), equal_nan)
            return [Array(x.type.with_shape(values.shape), values)]
        if x.type.dtype in NATIVE_NUMBERS and host.dtype.kind != "c":
            values, *others = np.unique(host, *wanted, equal_nan=equal_nan)  # type: ignore[call-overload]
            return [Array(x.type.with_shape(values.shape), values), *[array(one, default_dtype("i")) for one in others]]
    along = None if axis is None else normal_axis(axis, x.type.ndim, name)
    rest: tuple[int, ...] = ()
    if along is None:
        rows = ravel(x)
    else:
        rows = moveaxis(x, along, 0)
        rest = rows.type.shape[1:]
        rows = rows.reshape(rows.type.shape[0], -1) if rows.type.size else zeros((rows.type.shape[0], 0), x.type.dtype)
    places, ordered, mask = _sorted_rows(rows, equal_nan)
    count, dtype = rows.type.shape[0], default_dtype("i")
    if along is not None and size is not None and getattr(fill_value, "ndim", 0) > 0:
        fill_value = storable(operand(fill_value, name), x.type.dtype, "fill_value={}")
        fill_value = ravel(broadcast_to(in_dtype(fill_value, x.type.dtype), rest))
    values = _chosen(name, ordered, mask, size, fill_value)
    if along is not None:
        values = moveaxis(values.reshape(values.type.shape[0], *rest), 0, along)
    found = [values]
    if wanted[0]:
        found.append(_chosen(name, places, mask, size, None))
    if wanted[1]:
        which = zeros(count, dtype).at[places].set(cumsum(mask, dtype=dtype) - 1, unique_indices=True)
        found.append(which if along is not None else which.reshape(x.type.shape))
    if wanted[2]:
        starts = true_places(mask, None if size is None else size + 1, name, count)
        found.append(diff(starts, append=count if size is None else None))
    return found


def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    sorted: bool = True,
) -> Any:
    """The different elements of an array, in rising order; or its different slices along an axis.

    Arguments:
        ar: an array.
        return_index: whether to return where each is first, too.
        return_inverse: whether to return which of them each element is.
        return_counts: whether to return how often there is each.
        axis: the axis along which slices are compared; None to compare elements.
        equal_nan: whether NaN equals NaN.
        size: how many to return: the first ones; None for as many as there are, whose number has to be known.
        fill_value: what follows if there are fewer; the first one by default. Where there is none, the count is 0.
        sorted: whether they have to be in rising order; they always are.

    Returns:
        An array; or a tuple of it and what else is wanted, of the default integers.

    Raises:
        LeafError: `ar` is neither an array nor a number.
        AxisError: the array has no such axis.
        TracerIntegerConversionError: it is traced, and there is no `size`.

    Example:
        >>> pnp.unique(pnp.array([3, 1, 3]))
        [1 3]:i32[2]:cpu(0)
        >>> pnp.unique(pnp.array([3, 1, 3]), return_index=True, return_inverse=True, return_counts=True)
        ([1 3]:i32[2]:cpu(0), [1 0]:i32[2]:cpu(0), [1 0 1]:i32[3]:cpu(0), [1 2]:i32[2]:cpu(0))
        >>> pb.jit(lambda x: pnp.unique(x, size=3, fill_value=-1))(pnp.array([3, 1, 3]))
        [ 1  3 -1]:i32[3]:cpu(0)
    """
    flags("unique", sorted=sorted, equal_nan=equal_nan)
    wanted = flags("unique", return_index=return_index, return_inverse=return_inverse, return_counts=return_counts)
    found = _unique("unique", ar, axis, equal_nan, size, fill_value, wanted)
    return tuple(found) if len(found) > 1 else found[0]


def unique_all(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> UniqueAllResult:
    """The different elements of an array, in rising order, with where each is first, which one each element is, and how often
    there is each; each NaN is one by itself.

    Arguments:
        x: an array.
        size, fill_value: see `unique`.

    Returns:
        A NamedTuple of `values`, `indices`, `inverse_indices` and `counts`.

    Raises:
        LeafError: x is neither an array nor a number.
        TracerIntegerConversionError: it is traced, and there is no `size`.

    Example:
        >>> pnp.unique_all(pnp.array([3, 1, 3])).inverse_indices
        [1 0 1]:i32[3]:cpu(0)
    """
    return UniqueAllResult(*_unique("unique_all", x, None, False, size, fill_value, (True, True, True)))


def unique_counts(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> UniqueCountsResult:
    """The different elements of an array, in rising order, with how often there is each; each NaN is one by itself.

    Arguments:
        x: an array.
        size, fill_value: see `unique`.

    Returns:
        A NamedTuple of `values` and `counts`.

    Raises:
        LeafError: x is neither an array nor a number.
        TracerIntegerConversionError: it is traced, and there is no `size`.

    Example:
        >>> pnp.unique_counts(pnp.array([3, 1, 3])).counts
        [1 2]:i32[2]:cpu(0)
    """
    return UniqueCountsResult(*_unique("unique_counts", x, None, False, size, fill_value, (False, False, True)))


def unique_inverse(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> UniqueInverseResult:
    """The different elements of an array, in rising order, with which one each element is; each NaN is one by itself.

    Arguments:
        x: an array.
        size, fill_value: see `unique`.

    Returns:
        A NamedTuple of `values` and `inverse_indices`.

    Raises:
        LeafError: x is neither an array nor a number.
        TracerIntegerConversionError: it is traced, and there is no `size`.

    Example:
        >>> pnp.unique_inverse(pnp.array([3, 1, 3])).inverse_indices
        [1 0 1]:i32[3]:cpu(0)
    """
    return UniqueInverseResult(*_unique("unique_inverse", x, None, False, size, fill_value, (False, True, False)))


def unique_values(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """The different elements of an array, in rising order; each NaN is one by itself.

    Arguments:
        x: an array.
        size, fill_value: see `unique`.

    Returns:
        A vector of the dtype of x.

    Raises:
        LeafError: x is neither an array nor a number.
        TracerIntegerConversionError: it is traced, and there is no `size`.

    Example:
        >>> pnp.unique_values(pnp.array([3, 1, 3]))
        [1 3]:i32[2]:cpu(0)
    """
    return _unique("unique_values", x, None, False, size, fill_value, (False, False, False))[0]


def _among(x: Any, ordered: Any) -> tuple[Any, Any]:
    """Whether each element of a vector is one of a sorted vector, and where it is there."""
    at = searchsorted(ordered, x)
    return take(ordered, at, mode="clip") == x if ordered.type.size else zeros(x.type.shape, bool), at


def _alike(numpy_function: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's function of two arrays, where they are of one dtype of real numbers: of others NumPy has other rules."""

    def compute(a: Any, b: Any, **how: bool) -> Any:
        if a.dtype is not b.dtype or a.dtype.kind == "c":
            raise TypeError
        return numpy_function(a, b, **how)

    return compute


@by_numpy(_alike(np.isin))
def isin(
    element: ArrayLike, test_elements: ArrayLike, assume_unique: bool = False, invert: bool = False, *, method: str = "auto"
) -> Array:
    """Whether each element is one of `test_elements`.

    Arguments:
        element, test_elements: arrays or numbers, of any shapes.
        assume_unique: checked, and without effect, as `method` is: neither changes the result.
        invert: whether to return whether it is none of them.
        method: "auto", "compare_all", "binary_search" or "sort".

    Returns:
        An array of bools, of the shape of `element`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one.
        ValueError: another `method`.

    Example:
        >>> pnp.isin(pnp.array([[1, 2], [3, 4]]), pnp.array([2, 3]))
        [[False  True]
         [ True False]]:bool[2,2]:cpu(0)
    """
    if not isinstance(assume_unique, (bool, np.bool_)) or method not in ("auto", "compare_all", "binary_search", "sort"):
        raise ValueError(
            f"isin takes a bool as assume_unique, not {brief(assume_unique)}, and no method {brief(method)}.{at_user_line()}"
        )
    a, b = to_common_dtype("isin", element, test_elements)
    found = _among(ravel(a), sorts.sort(ravel(b), dimension=0))[0].reshape(a.type.shape)
    return logical_not(found) if invert else found


def _two(name: str, ar1: Any, ar2: Any) -> list[Any]:
    return [ravel(x) for x in to_common_dtype(name, ar1, ar2)]


def union1d(ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """The different elements of two arrays, in rising order.

    Arguments:
        ar1, ar2: arrays, of any shapes.
        size: how many to return: the first ones; None for as many as there are, whose number has to be known.
        fill_value: what follows if there are fewer; the first one by default.

    Returns:
        A vector of the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one.
        TracerIntegerConversionError: an operand is traced, and there is no `size`.

    Example:
        >>> pnp.union1d(pnp.array([3, 1]), pnp.array([1, 2]))
        [1 2 3]:i32[3]:cpu(0)
    """
    return _unique("union1d", concatenate(_two("union1d", ar1, ar2)), None, True, size, fill_value, (False,) * 3)[0]


@by_numpy(_alike(np.intersect1d))
def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Any:
    """The elements that two arrays have in common, in rising order, each once.

    Arguments:
        ar1, ar2: arrays, of any shapes.
        assume_unique: a promise that neither array has an element twice; nothing depends on it.
        return_indices: whether to return where they are first in each of the flattened arrays, too.
        size: how many to return: the first ones; None for as many as there are, whose number has to be known.
        fill_value: what follows if there are fewer; the first one by default. The indices are
            then the sizes of the arrays.

    Returns:
        A vector of the common dtype; or a tuple of it and of two vectors of indices.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one.
        TracerIntegerConversionError: an operand is traced, and there is no `size`.

    Example:
        >>> pnp.intersect1d(pnp.array([3, 1, 2]), pnp.array([2, 3, 3]), return_indices=True)
        ([2 3]:i32[2]:cpu(0), [2 0]:i32[2]:cpu(0), [0 1]:i32[2]:cpu(0))
    """
    name = "intersect1d"
    flags(name, assume_unique=assume_unique)
    a, b = _two(name, ar1, ar2)
    places, ordered, mask = _sorted_rows(a)
    others, second, _ = _sorted_rows(b)
    common, at = _among(ordered, second)
    mask = mask & common
    values = _chosen(name, ordered, mask, size, fill_value)
    if not flags(name, return_indices=return_indices)[0]:
        return values
    there = take(others, at, mode="clip") if b.type.size else at
    return values, _chosen(name, places, mask, size, a.type.size), _chosen(name, there, mask, size, b.type.size)


@by_numpy(_alike(np.setdiff1d))
def setdiff1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The elements of one array that another lacks, in rising order, each once.

    Arguments:
        ar1, ar2: arrays, of any shapes.
        assume_unique: a promise that `ar1` has no element twice: they are returned in their order then.
        size: how many to return: the first ones; None for as many as there are, whose number has to be known.
        fill_value: what follows if there are fewer; 0 by default.

    Returns:
        A vector of the dtype of `ar1`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one.
        TracerIntegerConversionError: an operand is traced, and there is no `size`.

    Example:
        >>> pnp.setdiff1d(pnp.array([3, 1, 2, 3]), pnp.array([2]))
        [1 3]:i32[2]:cpu(0)
    """
    a, b = ravel(operand(ar1, "setdiff1d")), ravel(operand(ar2, "setdiff1d"))
    ordered, mask = (a, True) if flags("setdiff1d", assume_unique=assume_unique)[0] else _sorted_rows(a)[1:]
    found, _ = _among(*to_common_dtype("setdiff1d", ordered, sorts.sort(b, dimension=0)))
    return _chosen("setdiff1d", ordered, (found == False) & mask, size, 0 if fill_value is None else fill_value)  # noqa: E712


@by_numpy(_alike(np.setxor1d))
def setxor1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The elements that only one of two arrays has, in rising order, each once.

    Arguments:
        ar1, ar2: arrays, of any shapes.
        assume_unique: a promise that neither array has an element twice: those that are there twice, in both together, are
            left out.
        size: how many to return: the first ones; None for as many as there are, whose number has to be known.
        fill_value: what follows if there are fewer; the first one by default.

    Returns:
        A vector of the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one.
        TracerIntegerConversionError: an operand is traced, and there is no `size`.

    Example:
        >>> pnp.setxor1d(pnp.array([3, 1]), pnp.array([1, 2]))
        [2 3]:i32[2]:cpu(0)
    """
    if flags("setxor1d", assume_unique=assume_unique)[0]:
        every = sorts.sort(concatenate(list(_two("setxor1d", ar1, ar2))), dimension=0)
        edges = concatenate([ones(1, bool), every[1:] != every[:-1], ones(1, bool)])
        return _chosen("setxor1d", every, edges[1:] & edges[:-1] if every.type.size else ones(0, bool), size, fill_value)
    (_, a, first), (_, b, second) = [_sorted_rows(x) for x in _two("setxor1d", ar1, ar2)]
    alone = concatenate([first & (_among(a, b)[0] == False), second & (_among(b, a)[0] == False)])  # noqa: E712
    values = concatenate([a, b])
    places = sorts.order(values, dimension=0, index_dtype=default_dtype("i"))
    return _chosen("setxor1d", take(values, places, mode="clip"), take(alone, places, mode="clip"), size, fill_value)
