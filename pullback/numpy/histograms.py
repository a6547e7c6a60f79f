"""Counting: how often each number comes, and how many lie in each bin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike, host_of
from pullback.core.brief import counted
from pullback.core.dtypes import default_dtype, is_inexact, kind
from pullback.core.errors import ConcretizationError, DtypeError, ShapeError
from pullback.core.modes import current_mode
from pullback.core.tracing import Tracer
from pullback.numpy.arithmetic import maximum
from pullback.numpy.axes import whole
from pullback.numpy.creation import array, asarray, zeros
from pullback.numpy.logic import where
from pullback.numpy.promotion import at_user_line, flags, in_dtype, operand, refuse_complex, strong, to_inexact
from pullback.numpy.reductions import max as largest
from pullback.numpy.reductions import min as smallest
from pullback.numpy.reductions import sum as total
from pullback.numpy.scans import diff
from pullback.numpy.shaping import ravel, stack
from pullback.numpy.sorting import searchsorted
from pullback.numpy.spaces import linspace

Bins = int | str | ArrayLike | Sequence[Any]


def _refuse_traced(name: str, value: Any, cure: str) -> None:
    if isinstance(value, Tracer):
        raise ConcretizationError(
            f"The size of {name}'s result depends on the values, but they are traced, of type {value.type}, in"
            f" {value.owner.describe()}. {cure}{at_user_line()}"
        )


def bincount(x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0, *, length: int | None = None) -> Array:
    """How often each of the numbers 0, 1, 2, ... comes; or the sums of the weights of where it comes.

    Arguments:
        x: a vector of integers that are not negative. (Traced ones that are negative count as 0, as JAX has it.)
        weights: a vector as long as x.
        minlength: how long the result is at least, if there is no `length`.
        length: how long it is; larger numbers are left out. None for the largest number and one, which has to be known.

    Returns:
        A vector of the dtype of the weights, or of the default integers.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: x are no integers.
        ShapeError: it is no vector, or the weights are not as many.
        ValueError: a known number is negative.
        ConcretizationError: x is traced, and there is no `length`.

    Example:
        >>> pnp.bincount(pnp.array([1, 3, 1]))
        [0 2 0 1]:i32[4]:cpu(0)
        >>> pb.jit(lambda x: pnp.bincount(x, length=3))(pnp.array([1, 3, 1]))
        [0 2 0]:i32[3]:cpu(0)
    """
    x = operand(x, "bincount")
    if kind(x.type.dtype) not in "biu":
        raise DtypeError(f"bincount takes integers, but got {x.type}. Convert with .astype(int).{at_user_line()}")
    if x.type.ndim != 1:
        raise ShapeError(f"bincount takes a vector, but got {x.type}. Flatten it with ravel().{at_user_line()}")
    least = whole(minlength, "bincount's minlength")
    if not isinstance(x, Tracer):
        host = np.asarray(host_of(x))
        if host.size and host.min() < 0 and not current_mode().clamps:
            raise ValueError(f"bincount takes numbers that are not negative, but got {host.min()}.{at_user_line()}")
    if length is None:
        _refuse_traced("bincount", x, "Say how long it is to be, bincount(x, length=n).")
        length = max(int(host.max()) + 1 if host.size else 0, least)
    x = maximum(in_dtype(x, default_dtype("i")), 0)
    return _added(x, weights, whole(length, "bincount's length"), "bincount")


def _added(places: Any, weights: Any, length: int, name: str) -> Any:
    """For each place below `length` the sum of the weights of those that point there, or their number."""
    if weights is None:
        return zeros(length, default_dtype("i")).at[places].add(1, mode="drop")
    weights = strong(ravel(operand(weights, name, "weights")))
    if weights.type.size != places.type.size:
        raise ShapeError(
            f"{name} takes a weight for each of {counted(places.type.size, 'value')}, but got {weights.type}.{at_user_line()}"
        )
    return zeros(length, weights.type.dtype).at[places].add(weights, mode="drop")


def histogram_bin_edges(
    a: ArrayLike, bins: Bins = 10, range: Sequence[ArrayLike] | None = None, weights: ArrayLike | None = None
) -> Array:
    """The edges of the bins of a histogram.

    Arguments:
        a: an array of real numbers.
        bins: how many of one width; or their edges; or how NumPy is to choose ("auto", "fd", "sturges", ...), for known values.
        range: the ends of the first and of the last bin; by default the smallest and the largest of the numbers.
        weights: how much each number counts, which decides nothing here.

    Returns:
        A vector in rising order, floating.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: it is complex.
        ShapeError: the edges are no vector.
        ValueError: there is no bin, or the range is not finite or does not rise.
        ConcretizationError: the values are traced, and NumPy is to choose.

    Example:
        >>> pnp.histogram_bin_edges(pnp.array([1.0, 5.0, 2.0]), bins=4)
        [1. 2. 3. 4. 5.]:f32[5]:cpu(0)
    """
    if weights is not None:
        operand(weights, "histogram_bin_edges", "weights")
    return _edges("histogram_bin_edges", operand(a, "histogram_bin_edges"), bins, range)


def _edges(name: str, a: Any, bins: Any, range: Any) -> Any:
    refuse_complex(name, a)
    a = ravel(to_inexact(a, name))
    if isinstance(bins, str):
        _refuse_traced(name, a, "Say how many bins there are, bins=n.")
        known = np.asarray(host_of(a))
        ends = None if range is None else (float(range[0]), float(range[1]))
        return asarray(np.histogram_bin_edges(known, bins, ends).astype(known.dtype))
    given = array(bins, copy=False)
    if given.type.shape:
        if given.type.ndim != 1:
            raise ShapeError(f"{name} takes a vector of edges, but got {given.type}.{at_user_line()}")
        return strong(given)
    if isinstance(bins, Tracer):
        _refuse_traced(name, bins, "Pass a Python int.")
    count = whole(bins, f"{name}'s bins")
    if count < 1:
        raise ValueError(f"{name} needs a bin at least, but got bins={count}.{at_user_line()}")
    if range is not None:
        low, high = [in_dtype(operand(end, name, "range"), a.type.dtype) for end in range]
    elif a.type.size:
        low, high = smallest(a), largest(a)
    else:
        low, high = [in_dtype(operand(end, name), a.type.dtype) for end in (0.0, 1.0)]
    if not isinstance(low, Tracer) and not isinstance(high, Tracer):
        ends = float(host_of(low)), float(host_of(high))
        if not (math.isfinite(ends[0]) and math.isfinite(ends[1]) and ends[0] <= ends[1]):
            raise ValueError(f"{name} takes a finite range that rises, but got {ends}.{at_user_line()}")
    width = where(low == high, 0.5, 0.0)
    return strong(linspace(low - width, high + width, count + 1, dtype=a.type.dtype))


def _bins_of(x: Any, edges: Any) -> Any:
    """The number of the bin in which each value lies, the last with its upper end; as many as there are where it is in none."""
    count = edges.type.size - 1
    found = searchsorted(edges, x, side="right") - 1
    found = where(x == edges[-1], count - 1, found)
    return where((found < 0) | (found >= count), count, found)


def histogram(
    a: ArrayLike,
    bins: Bins = 10,
    range: Sequence[ArrayLike] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array]:
    """How many numbers lie in each bin, or the sum of their weights.

    A bin holds its lower end, and the last one its upper end too.

    Arguments:
        a: an array of real numbers.
        bins, range: see `histogram_bin_edges`.
        weights: how much each number counts, of the shape of `a`.
        density: whether to divide such that the integral over all bins is 1.

    Returns:
        The counts, of the default integers; of the dtype of the weights, if there are any, and floating as a density. And the
        edges of the bins.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: it is complex.
        ShapeError: the weights are not as many, or the edges are no vector.
        ValueError: there is no bin, or the range is not finite or does not rise.

    Example:
        >>> pnp.histogram(pnp.array([1.0, 2.0, 1.0, 4.0]), bins=3)
        ([2 1 1]:i32[3]:cpu(0), [1. 2. 3. 4.]:f32[4]:cpu(0))
    """
    x = operand(a, "histogram")
    edges = _edges("histogram", x, bins, range)
    counts = _added(_bins_of(ravel(x), edges), weights, edges.type.size - 1, "histogram")
    return (_as_density(counts, [edges]) if density and flags("histogram", density=density) else counts), edges


def _as_density(counts: Any, edges: Sequence[Any]) -> Any:
    counts = counts if is_inexact(counts.type.dtype) else in_dtype(counts, to_inexact(edges[0], "histogram").type.dtype)
    counts = counts / total(counts)
    for axis, each in enumerate(edges):
        counts = counts / diff(each).reshape(-1, *[1] * (len(edges) - 1 - axis))
    return counts


def histogramdd(
    sample: ArrayLike | Sequence[ArrayLike],
    bins: Bins = 10,
    range: Sequence[Sequence[ArrayLike] | None] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, list[Array]]:
    """How many points lie in each bin of a grid, or the sum of their weights.

    Arguments:
        sample: a matrix with a row for each point; or a sequence of vectors, one for each coordinate.
        bins: how many along each axis, or for each axis their number or edges.
        range: for each axis the ends of the first and of the last bin, or None.
        weights: how much each point counts, a vector.
        density: whether to divide such that the integral over all bins is 1.

    Returns:
        The counts, an array with an axis for each coordinate (see `histogram`), and a list of the edges along each.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: it is complex.
        ShapeError: the weights are not as many, or `bins` or `range` has not one for each coordinate.
        ValueError: there is no bin, or a range is not finite or does not rise.

    Example:
        >>> counts, edges = pnp.histogramdd(pnp.array([[0.0, 0.0], [1.0, 3.0], [1.0, 2.0]]), bins=(2, 3))
        >>> counts
        [[1 0 0]
         [0 0 2]]:i32[2,3]:cpu(0)
    """
    name = "histogramdd"
    points = stack([operand(x, name) for x in sample], -1) if isinstance(sample, (tuple, list)) else operand(sample, name)
    points = points.reshape(-1, 1) if points.type.ndim == 1 else points
    return _grid(name, [points[:, i] for i in np.arange(points.type.shape[1])], bins, range, weights, density)


def _grid(name: str, columns: list[Any], bins: Any, range: Any, weights: Any, density: Any) -> tuple[Any, list[Any]]:
    axes = len(columns)
    each = list(bins) if isinstance(bins, (tuple, list)) or np.ndim(bins) else [bins] * axes
    ranges = [None] * axes if range is None else list(range)
    if not len(each) == len(ranges) == axes:
        raise ShapeError(f"{name} of {counted(axes, 'coordinate')} takes bins and a range for each of them.{at_user_line()}")
    edges = [_edges(name, x, one, ends) for x, one, ends in zip(columns, each, ranges)]
    shape = tuple([one.type.size - 1 for one in edges])
    place, inside = 0, True
    for x, one, count in zip(columns, edges, shape):
        found = _bins_of(x, one)
        place, inside = place * count + found, inside & (found < count)
    counts = _added(where(inside, place, math.prod(shape)), weights, math.prod(shape), name).reshape(shape)
    return (_as_density(counts, edges) if density and flags(name, density=density) else counts), edges


def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: Bins = 10,
    range: Sequence[Sequence[ArrayLike] | None] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array, Array]:
    """How many points of a plane lie in each bin of a grid, or the sum of their weights.

    Arguments:
        x, y: the coordinates of the points, vectors.
        bins: how many along both axes, or the edges along both; or a pair of these.
        range: for each axis the ends of the first and of the last bin, or None.
        weights: how much each point counts, a vector.
        density: whether to divide such that the integral over all bins is 1.

    Returns:
        The counts (see `histogram`), x along the first axis; and the edges along both.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: it is complex.
        ShapeError: x and y, or the weights, are not as many.
        ValueError: there is no bin, or a range is not finite or does not rise.

    Example:
        >>> pnp.histogram2d(pnp.array([0.0, 1.0, 1.0]), pnp.array([0.0, 3.0, 2.0]), bins=2)[0]
        [[1 0]
         [0 2]]:i32[2,2]:cpu(0)
    """
    columns = [operand(x, "histogram2d"), operand(y, "histogram2d")]
    if columns[0].type.ndim != 1 or columns[0].type.shape != columns[1].type.shape:
        raise ShapeError(
            f"histogram2d takes two vectors of one size, but got {columns[0].type}, {columns[1].type}.{at_user_line()}"
        )
    pair = (isinstance(bins, (tuple, list)) and len(bins) in (1, 2)) or np.ndim(bins) == 0
    counts, (first, second) = _grid("histogram2d", columns, bins if pair else [bins, bins], range, weights, density)
    return counts, first, second
