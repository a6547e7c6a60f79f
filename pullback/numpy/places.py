"""Where elements are true: results whose size depends on the values, unless `size` says it."""

from __future__ import annotations

import math
from typing import Any, overload

import numpy as np

from pullback.core.array import Array, ArrayLike, host_of
from pullback.core.brief import brief, counted
from pullback.core.dtypes import default_dtype
from pullback.core.errors import ConcretizationError, ShapeError
from pullback.core.tracing import Tracer
from pullback.core.types import array_type
from pullback.numpy.axes import Axis, normal_axes
from pullback.numpy.creation import arange, zeros
from pullback.numpy.indexing import get_item
from pullback.numpy.logic import as_predicate
from pullback.numpy.logic import where as choose
from pullback.numpy.promotion import at_user_line, in_dtype, operand
from pullback.numpy.reductions import count_nonzero
from pullback.numpy.shaping import ravel, stack
from pullback.numpy.taking import true_places

Fill = ArrayLike | tuple[ArrayLike, ...] | None


def nonzero(a: ArrayLike, *, size: int | None = None, fill_value: Fill = None) -> tuple[Array, ...]:
    """The indices of the elements that are not 0, in row-major order.

    Arguments:
        a: an array with an axis.
        size: how many to return; None for as many as there are, whose number has to be known.
        fill_value: the index that follows the last one if there are fewer than `size`: one for all axes, or one for each; 0 by
            default.

    Returns:
        For each axis of `a` a vector of indices, of the default integers.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: it has no axis.
        TracerIntegerConversionError: it is traced, and there is no `size`.
        ValueError: not one `fill_value` for each axis, or `size` is negative.

    Example:
        >>> pnp.nonzero(pnp.array([[0, 5], [7, 0]]))
        ([0 1]:i32[2]:cpu(0), [1 0]:i32[2]:cpu(0))
        >>> pb.jit(lambda x: pnp.nonzero(x, size=3, fill_value=-1))(pnp.array([0, 5, 0, 7]))
        ([ 1  3 -1]:i32[3]:cpu(0),)
    """
    return _nonzero("nonzero", a, size, fill_value)


def _nonzero(name: str, a: Any, size: Any, fill_value: Any) -> tuple[Array, ...]:
    if size is None and isinstance(a, Array) and a.type.shape:
        dtype = default_dtype("i")
        found = [each.astype(dtype) for each in np.asarray(host_of(a)).nonzero()]
        return tuple([Array(array_type(each.shape, dtype), each) for each in found])
    mask = as_predicate(a, name)
    shape = mask.type.shape
    if not shape:
        raise ShapeError(f"{name} takes an array with an axis, but got {mask.type}. Take x[None], or any(x).{at_user_line()}")
    fills = fill_value if isinstance(fill_value, (tuple, list)) else [fill_value] * len(shape)
    if len(fills) != len(shape):
        raise ValueError(
            f"{name} takes one fill_value for each of {counted(len(shape), 'axis')}, but got {len(fills)}.{at_user_line()}"
        )
    fills = [0 if fill is None else in_dtype(operand(fill, name, "fill_value"), default_dtype("i")) for fill in fills]
    if size is None and not isinstance(mask, Tracer):
        return _nonzero(name, mask, None, None)
    places = true_places(ravel(mask), size, name)
    there = arange(places.type.size) < count_nonzero(mask)
    steps = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    found = [places // max(step, 1) % max(length, 1) for step, length in zip(steps, shape)]
    return tuple([choose(there, each, fill) for each, fill in zip(found, fills)])


def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """The indices of the elements of the flattened array that are not 0.

    Arguments:
        a: an array or a number.
        size, fill_value: see `nonzero`.

    Returns:
        A vector of the default integers.

    Raises:
        LeafError: `a` is neither an array nor a number.
        TracerIntegerConversionError: it is traced, and there is no `size`.

    Example:
        >>> pnp.flatnonzero(pnp.array([[0, 5], [7, 0]]))
        [1 2]:i32[2]:cpu(0)
    """
    return _nonzero("flatnonzero", ravel(operand(a, "flatnonzero")), size, fill_value)[0]


def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """The indices of the elements that are not 0, a row for each.

    Arguments:
        a: an array or a number.
        size, fill_value: see `nonzero`.

    Returns:
        A matrix of the default integers, with a column for each axis.

    Raises:
        LeafError: `a` is neither an array nor a number.
        TracerIntegerConversionError: it is traced, and there is no `size`.

    Example:
        >>> pnp.argwhere(pnp.array([[0, 5], [7, 0]]))
        [[0 1]
         [1 0]]:i32[2,2]:cpu(0)
    """
    x = operand(a, "argwhere")
    found = _nonzero("argwhere", x if x.type.shape else ravel(x), size, fill_value)
    return stack(found, 1) if x.type.shape else zeros((found[0].type.size, 0), default_dtype("i"))


@overload
def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike, /) -> Array: ...


@overload
def where(condition: ArrayLike, /, *, size: int | None = None, fill_value: Fill = None) -> tuple[Array, ...]: ...


def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: Fill = None,
) -> Any:
    """x where the condition holds, else y, elementwise; of the condition alone, the indices where it holds, as `nonzero`.

    The derivative with respect to the operand that was not chosen is 0; but if computing that operand gave NaN or an infinite
    derivative, 0 times that is NaN: replace the operand's input by a safe one inside, too.

    Arguments:
        condition: bools (numbers count as true unless 0). x, y: arrays or numbers. All three broadcast.
        size, fill_value: of the condition alone: see `nonzero`.

    Returns:
        An array of the broadcast shape, in the common dtype of x and y; or a tuple of vectors of indices.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not broadcast.
        DtypeError: the dtypes have no common one.
        TypeError: only one of x and y is given; or `size` or `fill_value` with them.
        TracerIntegerConversionError: the condition alone is traced, and there is no `size`.

    Example:
        >>> x = pnp.array([-1.0, 2.0])
        >>> pnp.where(x > 0, x, 0.0), pnp.where(x > 0)
        ([0. 2.]:f32[2]:cpu(0), ([1]:i32[1]:cpu(0),))
        >>> pb.grad(lambda x: pnp.where(x > 0, pnp.sqrt(x), 0.0))(0.0)  # the derivative of sqrt at 0 is infinite
        nan:f32[]:cpu(0)
        >>> pb.grad(lambda x: pnp.where(x > 0, pnp.sqrt(pnp.where(x > 0, x, 1.0)), 0.0))(0.0)
        0.0:f32[]:cpu(0)
    """
    if x is None and y is None:
        return _nonzero("where", condition, size, fill_value)
    if size is not None or fill_value is not None:
        raise TypeError(f"where takes size and fill_value with the condition alone, which returns indices.{at_user_line()}")
    return choose(condition, x, y)


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: Axis = None) -> Array:
    """Without the zeros at the ends of an array, along one axis or all.

    Arguments:
        filt: an array, whose values must be known.
        trim: "f" for the front, "b" for the back, "fb" for both.
        axis: the axis or axes; all of them by default.

    Returns:
        A part of the array.

    Raises:
        LeafError: `filt` is neither an array nor a number.
        ConcretizationError: it is traced: how large the result is depends on its values.
        ValueError: another `trim`.
        AxisError: the array has no such axis.

    Example:
        >>> pnp.trim_zeros(pnp.array([0, 0, 1, 0, 2, 0]))
        [1 0 2]:i32[3]:cpu(0)
    """
    x = operand(filt, "trim_zeros")
    letters = trim.lower() if isinstance(trim, str) else trim
    if letters not in ("f", "b", "fb", "bf"):
        raise ValueError(f"trim_zeros takes trim='f', 'b' or 'fb', not {brief(trim)}.{at_user_line()}")
    if isinstance(x, Tracer):
        raise ConcretizationError(
            f"The size of trim_zeros' result depends on the values, but they are traced, of type {x.type}, in"
            f" {x.owner.describe()}. To know them, {x.cure()}.{at_user_line()}"
        )
    places = np.nonzero(np.atleast_1d(host_of(x)))
    index = [slice(None)] * x.type.ndim
    for place in normal_axes(axis, x.type, "trim_zeros"):
        found = places[place]
        first, last = (int(found.min()), int(found.max()) + 1) if found.size else (x.type.shape[place], 0)
        index[place] = slice(first if "f" in letters else None, max(last, 0) if "b" in letters else None)
    return get_item(x, tuple(index))
