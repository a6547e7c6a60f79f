"""Quantiles, and where the extremes are when NaN is left out."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike, host_of
from pullback.core.brief import brief
from pullback.core.dtypes import DTYPES, kind
from pullback.core.dtypes import promote as join
from pullback.core.errors import ShapeError
from pullback.core.tracing import Tracer
from pullback.numpy.arithmetic import ceil, floor
from pullback.numpy.arithmetic import round as rounded
from pullback.numpy.axes import Axis, normal_axes, normal_axis
from pullback.numpy.creation import asarray
from pullback.numpy.eager import by_numpy
from pullback.numpy.factories import Function, named
from pullback.numpy.logic import clip, isinf, isnan, where
from pullback.numpy.promotion import (
    NATIVE_FLOATS,
    at_user_line,
    broadcast,
    flags,
    in_dtype,
    operand,
    refuse_complex,
    refuse_out,
    strong,
    to_inexact,
    weak_pair,
)
from pullback.numpy.reductions import all as all_of
from pullback.numpy.reductions import argmax, argmin, count_nonzero
from pullback.numpy.scans import cumsum
from pullback.numpy.shaping import moveaxis
from pullback.numpy.taking import take
from pullback.ops import sort as sorts
from pullback.ops.sort import take_along

# Where the quantile lies among n sorted elements, counted from 0, for the probability q: between the two elements around that
# place, in proportion. `m` has the functions, of NumPy's or of ours. Source, and the numbers of the first nine: Hyndman and
# Fan, "Sample quantiles in statistical packages" (1996).
_PLACES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "interpolated_inverted_cdf": lambda m, n, q: n * q - 1,  # 4
    "hazen": lambda m, n, q: n * q - 0.5,  # 5
    "weibull": lambda m, n, q: (n + 1) * q - 1,  # 6
    "linear": lambda m, n, q: (n - 1) * q,  # 7
    "median_unbiased": lambda m, n, q: (n + 1 / 3) * q - 2 / 3,  # 8
    "normal_unbiased": lambda m, n, q: (n + 1 / 4) * q - 5 / 8,  # 9
    "inverted_cdf": lambda m, n, q: m.ceil(n * q) - 1,  # 1
    "averaged_inverted_cdf": lambda m, n, q: m.where(n * q == m.floor(n * q), n * q - 0.5, m.ceil(n * q) - 1),  # 2
    "closest_observation": lambda m, n, q: m.round(n * q) - 1,  # 3
    "lower": lambda m, n, q: m.floor((n - 1) * q),
    "higher": lambda m, n, q: m.ceil((n - 1) * q),
    "midpoint": lambda m, n, q: (m.floor((n - 1) * q) + m.ceil((n - 1) * q)) / 2,
    "nearest": lambda m, n, q: m.round((n - 1) * q),
}
_OURS = SimpleNamespace(ceil=ceil, floor=floor, where=where, round=rounded, clip=clip)


def _merged(a: Any, axes: tuple[int, ...]) -> Any:
    """An array with some axes moved to the end and merged into one."""
    kept = a.type.without(axes).shape
    return moveaxis(a, axes, tuple(range(-len(axes), 0))).reshape(*kept, math.prod([a.type.shape[axis] for axis in axes]))


def _between(ordered: Any, places: Any, count: Any) -> Any:
    """The elements along the last axis at places between the first `count`, in proportion; at NaN and behind, NaN."""
    last, dtype = ordered.type.ndim - 1, ordered.type.dtype
    known = isinstance(places, np.ndarray)
    m = np if known else _OURS
    low = m.clip(m.floor(places), 0, m.clip(count - 1, 0, None))
    high, share = m.clip(low + 1, None, m.clip(count - 1, 0, None)), m.clip(places - low, 0, 1)
    if known:
        below, above = [take(ordered, at.astype(np.int32), last, mode="clip") for at in (low, high)]
        if not share.any():
            return below
        if (share == 0.5).all():
            return 0.5 * below + 0.5 * above  # as NumPy's median, but that it does not overflow
        share = asarray(share.astype(dtype).reshape([1] * last + [-1]))
    else:
        below, above = [take_along(ordered, in_dtype(at, DTYPES["int32"]), last) for at in (low, high)]
        share = in_dtype(share, dtype)
    step = above - below
    far = isinf(below) | isinf(above)
    weighed = where(share == 0, below, (1 - share) * below + share * above)
    return where(far, weighed, below + share * where(far, 0, step))


def _quantiles(
    name: str, a: Any, q: Any, axis: Any, method: str, keepdims: bool, without_nan: bool, weights: Any = None, scale: float = 1
) -> Any:
    if method not in _PLACES:
        raise ValueError(f"{name} takes a method of {', '.join(_PLACES)}; not {brief(method)}.{at_user_line()}")
    a, q, exact = operand(a, name), operand(q, name, "q"), q  # a Python number is known in double precision
    refuse_complex(name, a, q)
    if isinstance(q, Tracer):
        share: Any = in_dtype(q, DTYPES["float64"]) / scale
    else:
        share = np.asarray(exact if isinstance(exact, float) else host_of(q)).astype(np.float64) / scale
        if (outside := share[~((share >= 0) & (share <= 1))]).size:
            raise ValueError(f"{name} takes q between 0 and {scale}, but got {outside[0] * scale:g}.{at_user_line()}")
    axes = normal_axes(axis, a.type, name)
    kept_dims = tuple([1 if i in axes else n for i, n in enumerate(a.type.shape)])
    original = a
    a = to_inexact(a, name)
    wanted = join(weak_pair(a), weak_pair(q))[0]  # however strict promotion is: q is another quantity
    a = in_dtype(a, wanted)
    a = _merged(a, axes)
    *kept, size = a.type.shape
    if not size:
        raise ShapeError(
            f"{name} of no elements has no value: {original.type} along {axis}. Pass an array that has elements"
            f" there.{at_user_line()}"
        )
    shares: Any = share.reshape(-1)
    if weights is not None or without_nan or isinstance(q, Tracer):
        shares = broadcast(asarray(shares), (*kept, shares.size))
    if weights is None:
        ordered = sorts.sort(a, dimension=len(kept))
        count = in_dtype(count_nonzero(a == a, -1, keepdims=True), DTYPES["float64"]) if without_nan else float(size)
        m = np if isinstance(shares, np.ndarray) else _OURS
        out = _between(ordered, _PLACES[method](m, count, shares), count)
    else:
        out, ordered = _weighted(name, a, _merged(_like(weights, original, axes, name), axes), shares, method, without_nan)
    if not without_nan:
        out = where(isnan(ordered[..., -1:]), math.nan, out)
    out = moveaxis(out, -1, 0).reshape(*share.shape, *(kept_dims if flags(name, keepdims=keepdims)[0] else kept))
    return strong(in_dtype(out, wanted))


def _like(weights: Any, a: Any, axes: tuple[int, ...], name: str) -> Any:
    """Weights in the shape of the array: of that shape, or of the shape of the reduced axes."""
    weights = operand(weights, name, "weights")
    if weights.type.shape == tuple([a.type.shape[axis] for axis in axes]):
        weights = weights.reshape([n if i in axes else 1 for i, n in enumerate(a.type.shape)])
    return broadcast(weights, a.type.shape)


def _weighted(name: str, a: Any, weights: Any, shares: Any, method: str, without_nan: bool) -> tuple[Any, Any]:
    """The smallest elements up to which a share of all weight lies."""
    if method != "inverted_cdf":
        raise ValueError(f"{name} takes weights with method='inverted_cdf' alone, not {brief(method)}.{at_user_line()}")
    last = a.type.ndim - 1
    if without_nan:
        weights = where(isnan(a), 0, weights)
    order = sorts.order(a, dimension=last, index_dtype=DTYPES["int32"])
    ordered = take_along(a, order, last)
    running = cumsum(in_dtype(take_along(weights, order, last), DTYPES["float64"]), -1)
    running = running / running[..., -1:]
    running = where(running == 0, -1, running)  # what weighs nothing is no quantile, that of 0 neither
    places = count_nonzero(running[..., None, :] < shares[..., None], -1)
    return take_along(ordered, clip(places, 0, a.type.shape[-1] - 1), last), ordered


_ARGUMENTS = """    Arguments:
        a: an array of real numbers; integers become the default floating dtype.
        {}axis: the axis or axes; all of them by default.
        out: None: arrays are immutable.
        overwrite_input: whether NumPy may write to `a`; nothing is written here.
        {}keepdims: keep the reduced axes, of size 1.{}

    Returns:
        An array {}without the reduced axes, floating.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: it is complex.
        AxisError: the array has no such axis, or one is given twice.
        ShapeError: there are no elements.{}
        TypeError: `out` is given."""
_METHOD = """method: what lies between two elements: "linear", "lower", "higher", "nearest", "midpoint", or one of Hyndman and
            Fan's ("inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen",
            "weibull", "median_unbiased", "normal_unbiased").
        """
_WEIGHTS = """
        weights: how much each element counts, of the shape of `a` or of the reduced axes; for method="inverted_cdf"."""
_Q = "q: which of them, between 0 and {}; a number or an array.\n        "
_OF_Q = _ARGUMENTS.format(
    "{}",
    _METHOD,
    _WEIGHTS,
    "of the shape of q, then of `a` ",
    "\n        ValueError: q is out of range, or `method` is unknown.",
)


def _no_out(name: str, out: Any, overwrite_input: Any) -> None:
    flags(name, overwrite_input=overwrite_input)
    refuse_out(name, out)


def _quantile(name: str, scale: int, without_nan: bool, doc: str) -> Function:
    def function(
        a: ArrayLike,
        q: ArrayLike,
        axis: Axis = None,
        out: None = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: bool = False,
        *,
        weights: ArrayLike | None = None,
    ) -> Array:
        _no_out(name, out, overwrite_input)
        return _quantiles(name, a, q, axis, method, keepdims, without_nan, weights, scale)

    return named(function, name, doc, _OF_Q.format(_Q.format(scale)))


def _median(name: str, without_nan: bool, doc: str) -> Function:
    def function(
        a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
    ) -> Array:
        _no_out(name, out, overwrite_input)
        return _quantiles(name, a, 0.5, axis, "midpoint", keepdims, without_nan)

    def on_host(a: Any, axis: Any = None) -> Any:
        place = 0 if axis is None else axis
        ordered = sorts.sort.evaluate(a.reshape(-1) if axis is None else a, dimension=place)
        size = ordered.shape[place]
        below, above, last = [ordered.take(at, place) for at in ((size - 1) // 2, size // 2, size - 1)]
        return np.where(last == last, below if size % 2 else 0.5 * below + 0.5 * above, np.nan).astype(a.dtype)

    found = named(function, name, doc, _ARGUMENTS.format("", "", "", "", ""))
    return found if without_nan else by_numpy(on_host, NATIVE_FLOATS)(found)


# fmt: off
median = _median("median", False, """The middle element, or the mean of the two in the middle; NaN if there is a NaN.

    Example:
        >>> pnp.median(pnp.array([[7.0, 1.0, 3.0], [2.0, 4.0, 9.0]]), axis=1)
        [3. 4.]:f32[2]:cpu(0)
        >>> pb.grad(pnp.median)(pnp.array([7.0, 1.0, 3.0, 5.0]))
        [0.  0.  0.5 0.5]:f32[4]:cpu(0)
    """)
nanmedian = _median("nanmedian", True, """The middle one of the elements that are not NaN; NaN if there is none.

    Example:
        >>> pnp.nanmedian(pnp.array([7.0, pnp.nan, 3.0]))
        5.0:f32[]:cpu(0)
    """)
quantile = _quantile("quantile", 1, False, """The elements below which given shares of all elements lie; NaN if there is a NaN.

    Example:
        >>> pnp.quantile(pnp.array([1.0, 2.0, 4.0]), pnp.array([0.5, 0.75]))
        [2. 3.]:f32[2]:cpu(0)
        >>> pnp.quantile(pnp.array([1.0, 2.0, 4.0]), 0.75, method="lower")
        2.0:f32[]:cpu(0)
    """)
nanquantile = _quantile("nanquantile", 1, True, """The elements below which given shares lie of those that are not NaN.

    Example:
        >>> pnp.nanquantile(pnp.array([1.0, pnp.nan, 4.0]), 0.5)
        2.5:f32[]:cpu(0)
    """)
percentile = _quantile("percentile", 100, False, """The elements below which q per cent of all lie; NaN if there is a NaN.

    Example:
        >>> pnp.percentile(pnp.array([1.0, 2.0, 4.0]), 75)
        3.0:f32[]:cpu(0)
    """)
nanpercentile = _quantile("nanpercentile", 100, True, """The elements below which q per cent lie of those that are not NaN.

    Example:
        >>> pnp.nanpercentile(pnp.array([1.0, pnp.nan, 4.0]), 50)
        2.5:f32[]:cpu(0)
    """)
# fmt: on

_POSITIONS = """    Arguments:
        a: an array of any shape.
        axis: the axis to look along; by default the array is flattened first.
        out: None: arrays are immutable.
        keepdims: keep that axis, of size 1.

    Returns:
        Indices, of the default integer dtype; -1 where all elements are NaN.

    Raises:
        LeafError: `a` is neither an array nor a number.
        AxisError: the array has no such axis.
        ShapeError: there are no elements along it.
        TypeError: `out` is given."""


def _position(name: str, find: Function, worst: float, doc: str) -> Function:
    def function(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool = False) -> Array:
        _no_out(name, out, False)
        x = operand(a, name)
        along = None if axis is None else normal_axis(axis, x.type.ndim, name)
        if kind(x.type.dtype) not in "fc":
            return find(x, along, keepdims=keepdims)
        missing = isnan(x)
        found = find(where(missing, worst, x), along, keepdims=keepdims)
        return where(all_of(missing, along, keepdims=keepdims), -1, found)

    return named(function, name, doc, _POSITIONS)


# fmt: off
nanargmax = _position("nanargmax", argmax, -math.inf, """The index of the first largest element that is not NaN.

    Example:
        >>> pnp.nanargmax(pnp.array([1.0, pnp.nan, 3.0]))
        2:i32[]:cpu(0)
    """)
nanargmin = _position("nanargmin", argmin, math.inf, """The index of the first smallest element that is not NaN.

    Example:
        >>> pnp.nanargmin(pnp.array([pnp.nan, 2.0, 3.0]))
        1:i32[]:cpu(0)
    """)
# fmt: on
