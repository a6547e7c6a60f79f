"""Arrays made larger at their edges: `pad`, with NumPy's modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief, counted
from pullback.core.dtypes import INT64, DType, entering, kind
from pullback.core.errors import ShapeError
from pullback.core.source import describe
from pullback.core.tracing import Tracer
from pullback.numpy import reductions
from pullback.numpy.arithmetic import add, floor_divide, multiply, rint, subtract, true_divide
from pullback.numpy.mapped import apply_along_axis
from pullback.numpy.promotion import at_user_line, broadcast, float_for, in_dtype, number_or_operand, operand, storable
from pullback.numpy.quantiles import median
from pullback.numpy.shaping import concatenate, cut, flip
from pullback.numpy.taking import take
from pullback.ops import shape as shapes

# Each mode, and the argument that it takes beside the widths.
_MODES: dict[str, str | None] = {
    "constant": "constant_values",
    "edge": None,
    "empty": None,
    "linear_ramp": "end_values",
    "maximum": "stat_length",
    "mean": "stat_length",
    "median": "stat_length",
    "minimum": "stat_length",
    "reflect": "reflect_type",
    "symmetric": "reflect_type",
    "wrap": None,
}
_STATISTICS: dict[str, Any] = {"maximum": reductions.max, "mean": reductions.mean, "median": median, "minimum": reductions.min}


def pad(
    array: ArrayLike,
    pad_width: int | Sequence[Any],
    mode: str | Callable[..., Any] = "constant",
    *,
    constant_values: Any = None,
    end_values: Any = None,
    stat_length: Any = None,
    reflect_type: str | None = None,
    **kwargs: Any,
) -> Array:
    """An array made larger at its edges.

    Arguments:
        array: an array or a number.
        pad_width: how many elements to add: an int, a pair (before, after), or such a pair for each axis.
        mode: "constant" (with `constant_values`), "edge" (the outermost elements), "linear_ramp" (from these to
            `end_values`), "maximum", "mean", "median", "minimum" (of the outermost
            `stat_length` elements), "reflect" and "symmetric"
            (the mirror image, without and with the outermost elements), "wrap" (the other end), or "empty" (anything; here
            zeros). Or a function of a vector that is wider already, the pair of its widths, its axis and a dict of `kwargs`,
            which returns the vector with its ends as they are to be; it is called along one axis after the other.
        constant_values, end_values: a number; or, like `pad_width`, a pair, or a pair for each axis. 0 by default.
        stat_length: how many elements, given likewise; all by default, and at most.
        kwargs: what a function gets.
        reflect_type: "even" for the mirror image itself, the default; "odd" for twice the outermost element minus it.

    Returns:
        An array of the dtype of the given one.

    Raises:
        LeafError: `array` is neither an array nor a number.
        ShapeError: a negative width; or no elements to extend, in any mode but "constant" and "empty".
        ValueError: an unknown mode, or an argument that the mode has no use for.

    Example:
        >>> pnp.pad(pnp.array([1, 2]), 1)
        [0 1 2 0]:i32[4]:cpu(0)
        >>> pnp.pad(pnp.array([1, 2, 4]), (0, 2), "reflect", reflect_type="odd")
        [1 2 4 6 7]:i32[5]:cpu(0)
        >>> pnp.pad(pnp.array([[1, 2]]), ((0, 1), (2, 0)), "edge")
        [[1 1 1 2]
         [1 1 1 2]]:i32[2,4]:cpu(0)
    """
    a = operand(array, "pad")
    if callable(mode):
        return _by_function(a, _widths(pad_width, a), mode, kwargs)
    if kwargs:
        raise TypeError(f"pad with mode={brief(mode)} takes no {min(kwargs)}: leave it out.{at_user_line()}")
    if not isinstance(mode, str) or mode not in _MODES:
        raise ValueError(f"pad takes as mode one of {', '.join(_MODES)}; not {brief(mode)}.{at_user_line()}")
    given = dict(constant_values=constant_values, end_values=end_values, stat_length=stat_length, reflect_type=reflect_type)
    option = given.pop(_MODES[mode] or "", None)
    if wrong := [name for name, value in given.items() if value is not None]:
        raise ValueError(f"pad with mode={brief(mode)} takes no {wrong[0]}: leave it out.{at_user_line()}")
    widths = _widths(pad_width, a)
    if mode in ("reflect", "symmetric"):
        if option not in (None, "even", "odd"):
            raise ValueError(f"pad takes reflect_type='even' or 'odd', not {brief(option)}.{at_user_line()}")
        option = option == "odd"
    elif option is None and mode not in _STATISTICS:
        option = 0
    options = _pairs(option, a.type.ndim, _MODES[mode] or "")
    first = options[0][0] if options else 0
    if mode in ("constant", "empty") and all([value is first for pair in options for value in pair]):
        fill = _given(first, "constant_values", a.type.dtype)
        return shapes.pad(a, fill, padding_config=tuple([(before, after, 0) for before, after in widths]))
    for axis, (before, after) in enumerate(widths):
        if (before or after) and mode != "constant" and a.type.shape[axis] == 0:
            raise ShapeError(
                f"pad with mode={brief(mode)} has nothing to extend along axis {axis} of {a.type}. Use mode='constant'"
                f" there.{at_user_line()}"
            )
        start = [_side(a, axis, before, mode, options[axis][0], 0)] if before else []
        end = [_side(a, axis, after, mode, options[axis][1], -1)] if after else []
        a = concatenate([*start, a, *end], axis)
    return a


def _widths(given: Any, a: Array) -> Any:
    """The widths to add at both ends of each axis."""
    widths = _pairs(given, a.type.ndim, "pad_width")
    if not all([isinstance(width, (int, np.integer)) and width >= 0 for pair in widths for width in pair]):
        raise ShapeError(f"pad takes as widths ints of 0 or more, but got {brief(given)}.{at_user_line()}")
    return widths


def _by_function(a: Array, widths: Any, function: Callable[..., Any], options: dict[str, Any]) -> Array:
    """Padded with zeros, which a function replaces along one axis after the other."""

    def with_ends(vector: Array, *rest: Any) -> Any:
        found = function(vector, *rest)
        if np.shape(found) != vector.shape:
            raise ShapeError(
                f"pad takes as mode a function that returns the vector that it was given with other ends; {describe(function)}"
                f" returned {brief(found)} for one of {counted(vector.shape[0], 'element')}.{at_user_line()}"
            )
        return found

    a = shapes.pad(a, _given(0, "zeros", a.type.dtype), padding_config=tuple([(*pair, 0) for pair in widths]))
    for axis, pair in enumerate(widths):
        a = apply_along_axis(with_ends, axis, a, pair, axis, options)
    return a


def _pairs(given: Any, ndim: int, what: str) -> Any:
    """A number, a pair, or a pair for each axis, as a pair for each axis."""
    if not isinstance(given, (tuple, list)) and not getattr(given, "ndim", 0):
        return [(given, given)] * ndim
    if isinstance(given, Tracer):
        rows: Any = [list(row) if row.ndim else row for row in given]
    else:
        rows = given if isinstance(given, (tuple, list)) else given.tolist()
    if not any(isinstance(row, (tuple, list)) for row in rows):
        rows = (rows,)
    rows = [row if isinstance(row, (tuple, list)) else (row,) for row in rows]
    if len(rows) not in (1, ndim) or not all(1 <= len(row) <= 2 for row in rows):
        raise ShapeError(
            f"pad takes {what} as a number, a pair, or a pair for each of {counted(ndim, 'axis')}, but got"
            f" {brief(given)}.{at_user_line()}"
        )
    return [(row[0], row[-1]) for row in rows] * (ndim if len(rows) == 1 else 1)


def _given(value: Any, what: str, dtype: DType) -> Array:
    """A value that pads an array, in its dtype, without loss."""
    return in_dtype(storable(number_or_operand(value, "pad", what), dtype, f"pad with {what}={{}}"), dtype)


def _outermost(a: Array, axis: int, at: int, count: int, skip: int = 0) -> Array:
    """`count` elements at the start (at = 0) or the end (-1) of an axis, without the `skip` first or last ones."""
    size = a.type.shape[axis]
    return cut(a, axis, skip, skip + count) if at == 0 else cut(a, axis, size - skip - count, size - skip)


def _side(a: Array, axis: int, width: int, mode: str, option: Any, at: int) -> Array:
    """What extends an axis by `width` elements at its start (at = 0) or end (-1)."""
    size, dtype = a.type.shape[axis], a.type.dtype
    whole = kind(dtype) in "iu"  # a bool is true where what it is made of is not 0
    shape = (*a.type.shape[:axis], width, *a.type.shape[axis + 1 :])
    if mode == "constant":
        return broadcast(_given(option, "constant_values", dtype), shape)
    if mode == "wrap":
        return take(a, np.arange(-width, 0) % size if at == 0 else np.arange(width) % size, axis, mode="clip")
    if mode in ("reflect", "symmetric") and size > 1:
        return _mirrored(a, axis, width, int(mode == "reflect"), option, at)
    edge = _outermost(a, axis, at, 1)
    if mode in _STATISTICS:
        count = size if option is None else option
        if not isinstance(count, (int, np.integer)) or count < 1:
            raise ValueError(f"pad takes as stat_length ints of 1 or more, but got {brief(option)}.{at_user_line()}")
        edge = _STATISTICS[mode](_outermost(a, axis, at, int(count) if count < size else size), axis, keepdims=True)
        edge = in_dtype(rint(edge) if whole else edge, dtype)
    if mode != "linear_ramp":
        return broadcast(edge, shape)
    edge = in_dtype(edge, entering(INT64) if whole else float_for(dtype))
    end = _given(option, "end_values", edge.type.dtype)
    unit = tuple([width if i == axis else 1 for i in range(a.type.ndim)])
    steps = np.arange(width).reshape(unit).astype(edge.type.dtype)
    divide = floor_divide if whole else true_divide
    ramp = in_dtype(add(end, divide(multiply(subtract(edge, end), steps), width)), dtype)
    return ramp if at == 0 else flip(ramp, axis)


def _mirrored(a: Array, axis: int, width: int, skip: int, odd: bool, at: int) -> Array:
    """The mirror image of `a`, and of that together with `a`, until it is wide enough; `skip` leaves the outermost one out."""
    size = a.type.shape[axis]
    while (missing := width + size - a.type.shape[axis]) > 0:
        most = a.type.shape[axis] - skip
        part = flip(_outermost(a, axis, at, most if most < missing else missing, skip), axis)
        if odd:
            part = subtract(multiply(_outermost(a, axis, at, 1), in_dtype(2, a.type.dtype)), part)
        a = concatenate([part, a] if at == 0 else [a, part], axis)
    return _outermost(a, axis, at, width)
