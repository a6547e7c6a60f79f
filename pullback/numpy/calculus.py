"""Derivatives and integrals of functions that are given by their values at some points, and values between these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.errors import ShapeError
from pullback.core.tracing import Tracer
from pullback.numpy.arithmetic import absolute, add, multiply, remainder, subtract
from pullback.numpy.axes import normal_axis, several
from pullback.numpy.logic import clip, isfinite, where
from pullback.numpy.promotion import at_user_line, in_dtype, refuse_complex, strong, to_common_dtype, to_inexact
from pullback.numpy.reductions import sum as total
from pullback.numpy.shaping import concatenate, cut, moveaxis, reshape
from pullback.numpy.sorting import argsort, searchsorted


def _slope(f: Any, h: Any, edge_order: int) -> Any:
    """The derivative along the first axis, where `h` is the distance of points, or a vector of their distances.

    The differences of second order for distances h1, h2 to the neighbours; at the edges, of `edge_order`.
    Source: Fornberg, "Generation of finite difference formulas on arbitrarily spaced grids" (1988).
    """
    if h.type.shape:
        h = reshape(h, (-1, *[1] * (f.type.ndim - 1)))
        h1, h2 = h[:-1], h[1:]
        inner = f[:-2] * (-h2 / (h1 * (h1 + h2))) + f[1:-1] * ((h2 - h1) / (h1 * h2)) + f[2:] * (h1 / (h2 * (h1 + h2)))
        edges = [(h[:1], h[1:2], f[:3]), (-h[-1:], -h[-2:-1], f[:-4:-1])]
    else:
        inner = (f[2:] - f[:-2]) / (2.0 * h)
        edges = [(h, h, f[:3]), (-h, -h, f[:-4:-1])]
    ends = []
    for h1, h2, near in edges:
        if edge_order == 1:
            ends.append((near[1:2] - near[:1]) / h1)
        else:
            far = h1 + h2
            ends.append(near[:1] * (-(h1 + far) / (h1 * far)) + near[1:2] * (far / (h1 * h2)) - near[2:] * (h1 / (h2 * far)))
    return concatenate([ends[0], inner, ends[1]])


def gradient(f: ArrayLike, *varargs: ArrayLike, axis: int | Sequence[int] | None = None, edge_order: int | None = None) -> Any:
    """The derivatives of a function along axes, by the differences of its values: of second order inside.

    Arguments:
        f: the values, an array.
        varargs: the distance of the points: one number for all axes; or for each axis a number, or the vector of the points'
            coordinates; 1 by default.
        axis: the axis or axes; all of them by default.
        edge_order: the order of the differences at the edges, 1 (by default) or 2.

    Returns:
        An array of the shape of `f`, floating or complex; a list of them, for all axes or several.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis, or one is given twice.
        ShapeError: fewer than `edge_order` + 1 points along an axis, or another number of coordinates.
        TypeError: neither one distance nor one for each axis.
        ValueError: another `edge_order`.

    Example:
        >>> pnp.gradient(pnp.array([1.0, 2.0, 4.0, 7.0]))
        [1.  1.5 2.5 3. ]:f32[4]:cpu(0)
        >>> pnp.gradient(pnp.array([0.0, 1.0, 9.0]), pnp.array([0.0, 1.0, 3.0]))
        [1. 2. 4.]:f32[3]:cpu(0)
    """
    f, *spacings = to_common_dtype("gradient", f, *varargs, inexact=True)
    order = 1 if edge_order is None else edge_order
    if order not in (1, 2):
        raise ValueError(f"gradient takes edge_order=1 or 2, not {brief(edge_order)}.{at_user_line()}")
    ndim = f.type.ndim
    axes = range(ndim) if axis is None else [normal_axis(one, ndim, "gradient") for one in several(axis)]
    if len(spacings) == 1 and not spacings[0].type.shape:
        spacings = spacings * len(axes)
    if len(spacings) not in (0, len(axes)):
        raise TypeError(f"gradient takes one distance or {len(axes)}, one for each axis, not {len(spacings)}.{at_user_line()}")
    out = []
    for along, h in zip(axes, spacings or [in_dtype(1, f.type.dtype)] * len(axes)):
        size = f.type.shape[along]
        if size < order + 1:
            raise ShapeError(f"gradient needs {order + 1} points along axis {along} of {f.type}.{at_user_line()}")
        if h.type.shape not in ((), (size,)):
            raise ShapeError(
                f"gradient takes {size} coordinates along axis {along} of {f.type}, but got {h.type}.{at_user_line()}"
            )
        slope = _slope(moveaxis(f, along, 0), h[1:] - h[:-1] if h.type.shape else h, order)
        out.append(strong(moveaxis(slope, 0, along)))
    return out[0] if len(out) == 1 else out


def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Array:
    """The integral of a function along an axis, by the trapezoidal rule.

    Arguments:
        y: the values, an array of one axis or more.
        x: the coordinates of the points: a vector, or an array that broadcasts with `y`.
        dx: the distance of the points, where `x` is not given; or distances, which broadcast with the pairs of neighbours.
        axis: the axis to integrate along.

    Returns:
        An array without that axis, floating or complex.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pnp.trapezoid(pnp.array([0.0, 1.0, 4.0]), dx=0.5)
        1.5:f32[]:cpu(0)
        >>> pnp.trapezoid(pnp.array([0.0, 1.0, 4.0]), x=pnp.array([0.0, 1.0, 3.0]))
        5.5:f32[]:cpu(0)
    """
    y = to_inexact(y, "trapezoid") if x is None else y
    y, distance = to_common_dtype("trapezoid", y, dx if x is None else x, inexact=True)
    along = normal_axis(axis, y.type.ndim, "trapezoid")
    if x is None:  # distances broadcast with y as it is
        size = y.type.shape[along]
        sums = add(cut(y, along, min(1, size), size), cut(y, along, 0, max(size - 1, 0)))
        return multiply(0.5, total(multiply(sums, distance), along))
    values, points = moveaxis(y, along, -1), distance if distance.type.ndim < 2 else moveaxis(distance, axis, -1)
    distance = subtract(points[..., 1:], points[..., :-1])
    return multiply(0.5, total(multiply(add(values[..., 1:], values[..., :-1]), distance), -1))


def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | str | None = None,
    right: ArrayLike | str | None = None,
    period: ArrayLike | None = None,
) -> Array:
    """The values of a function at some places, by straight lines between given points.

    Arguments:
        x: where: an array or a number.
        xp: the abscissas of the points, a vector; they must increase, unless there is a period.
        fp: their ordinates, a vector as long.
        left, right: the value before the first and behind the last point; the ordinates of these by default. "extrapolate"
            continues the first and the last line.
        period: the period of the function, where it has one; `left` and `right` are of no effect then.

    Returns:
        An array of the shape of x, floating or complex.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: x, `xp` or `period` is complex.
        ShapeError: `xp` and `fp` are not vectors of one length, or empty.
        ValueError: `period` is known and 0, or `left` or `right` is another string.

    Example:
        >>> pnp.interp(pnp.array([0.5, 1.5, 9.0]), pnp.array([0.0, 1.0, 2.0]), pnp.array([0.0, 10.0, 40.0]))
        [ 5. 25. 40.]:f32[3]:cpu(0)
        >>> pnp.interp(370.0, pnp.array([0.0, 90.0]), pnp.array([1.0, 10.0]), period=360.0)
        2.0:f32[]:cpu(0)
    """
    x, xp, *periods = to_common_dtype("interp", x, xp, *[] if period is None else [period], inexact=True)
    refuse_complex("interp", x)
    (fp,) = to_common_dtype("interp", fp, inexact=True)
    if xp.type.ndim != 1 or xp.type.shape != fp.type.shape or not xp.type.size:
        raise ShapeError(f"interp takes points as two vectors of one length, but got {xp.type} and {fp.type}.{at_user_line()}")
    for turn in periods:
        if not isinstance(turn, Tracer) and not turn.host:
            raise ValueError(f"interp takes a period other than 0.{at_user_line()}")
        size = absolute(turn)
        x, xp = remainder(x, size), remainder(xp, size)
        order = argsort(xp)
        xp, fp = xp[order], fp[order]
        xp, fp = concatenate([xp[-1:] - size, xp, xp[:1] + size]), concatenate([fp[-1:], fp, fp[:1]])
    behind = clip(searchsorted(xp, x, side="right"), 1, max(xp.type.size - 1, 1))
    before = behind - 1
    behind = clip(behind, 0, xp.type.size - 1)
    x0, x1, y0, y1 = xp[before], xp[behind], fp[before], fp[behind]
    flat = x0 == x1
    slope = (y1 - y0) / where(flat, 1, x1 - x0)
    from_first = ~flat & (isfinite(y0) | ~isfinite(y1))
    step, start = where(from_first, x - x0, x - x1), where(from_first, y0, y1)
    # 0 times an infinite slope adds nothing to the ordinate of a point
    out = where(flat | (step == 0) & ~isfinite(slope), start, start + step * slope)
    for outside, value, end in ((x < xp[0], left, fp[0]), (x > xp[-1], right, fp[-1])):
        if isinstance(value, str) and value != "extrapolate":
            raise ValueError(f"interp takes a number or 'extrapolate' as left and right, not {brief(value)}.{at_user_line()}")
        if period is None and not isinstance(value, str):
            out = where(outside, end if value is None else value, out)
    return where(x == x, strong(out), x)
