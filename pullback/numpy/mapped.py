"""Functions applied along axes of an array, or piece by piece."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.api.branches import switch
from pullback.api.mapping import vmap
from pullback.core.array import Array, ArrayLike, host_of
from pullback.core.brief import counted
from pullback.core.dtypes import BOOL, default_dtype
from pullback.core.errors import ShapeError
from pullback.core.tracing import Tracer
from pullback.numpy.axes import normal_axis, several
from pullback.numpy.creation import array, zeros
from pullback.numpy.logic import where
from pullback.numpy.promotion import at_user_line, broadcast, in_dtype, number_or_operand, operand, strong
from pullback.numpy.shaping import expand_dims, moveaxis, reshape, unstack


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any) -> Array:
    """`func1d` of each vector along an axis.

    Arguments:
        func1d: a function of a vector, which returns an array or a number; it is traced once, as by `vmap`.
        axis: the axis.
        arr: an array.
        args, kwargs: what else `func1d` is given.

    Returns:
        An array with the axes of what `func1d` returns in the place of the axis.

    Raises:
        LeafError: `arr` is neither an array nor a number.
        AxisError: the array has no such axis.

    Example:
        >>> pnp.apply_along_axis(lambda v: v - v.mean(), 1, pnp.array([[1.0, 3.0], [2.0, 6.0]]))
        [[-1.  1.]
         [-2.  2.]]:f32[2,2]:cpu(0)
    """
    x = operand(arr, "apply_along_axis")
    along = normal_axis(axis, x.type.ndim, "apply_along_axis")
    mapped: Callable[..., Any] = lambda vector: func1d(vector, *args, **kwargs)  # noqa: E731
    for _ in range(x.type.ndim - 1):
        mapped = vmap(mapped)
    out = mapped(moveaxis(x, along, -1))
    behind, new = x.type.ndim - 1 - along, out.type.ndim - (x.type.ndim - 1)
    last = tuple(range(out.type.ndim - new, out.type.ndim))
    return moveaxis(out, last, tuple(range(along, along + new))) if behind and new else out


def apply_over_axes(func: Callable[[Any, int], Any], a: ArrayLike, axes: int | Sequence[int]) -> Array:
    """`func(array, axis)` for one axis after the other, of what it returned before; an axis that vanishes is kept, of size 1.

    Arguments:
        func: a function of an array and an axis, such as `pnp.sum`.
        a: an array.
        axes: an int or a sequence of ints.

    Returns:
        An array of as many axes.

    Raises:
        LeafError: `a` is neither an array nor a number.
        AxisError: the array has no such axis.
        ShapeError: `func` returned an array with another number of axes.

    Example:
        >>> pnp.apply_over_axes(pnp.sum, pnp.ones((2, 3, 4)), (0, 2))
        [[[8.]
          [8.]
          [8.]]]:f32[1,3,1]:cpu(0)
    """
    x = operand(a, "apply_over_axes")
    for axis in several(axes):
        along = normal_axis(axis, x.type.ndim, "apply_over_axes")
        out = operand(func(x, along), "apply_over_axes", "what func returns")
        if x.type.ndim - out.type.ndim not in (0, 1):
            raise ShapeError(
                f"apply_over_axes: func returned {out.type} of {x.type}. It must keep the number of axes, or drop the one that"
                f" it is given.{at_user_line()}"
            )
        x = out if out.type.ndim == x.type.ndim else expand_dims(out, along)
    return x


def piecewise(x: ArrayLike, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Array:
    """A function that is defined piece by piece: at each place, that of the last condition that holds there.

    Only the function that is chosen counts for the derivative, even where another one's is infinite.

    Arguments:
        x: an array or a number.
        condlist: conditions (numbers count as true unless they are 0), which broadcast to x; or one alone.
        funclist: for each of them an elementwise function or a number; and perhaps one more, for where none holds, which is 0
            by default.
        args, kw: what else the functions are given.

    Returns:
        An array of the shape and dtype of x.

    Raises:
        LeafError: x is neither an array nor a number.
        ShapeError: a condition does not broadcast to x.
        ValueError: not a function for each condition.

    Example:
        >>> x = pnp.array([-2.0, 0.0, 4.0])
        >>> pnp.piecewise(x, [x < 0, x >= 0], [lambda x: -x, pnp.sqrt])
        [2. 0. 2.]:f32[3]:cpu(0)
    """
    x = operand(x, "piecewise")
    conditions = condlist
    if not isinstance(condlist, (list, tuple)):
        whole = operand(condlist, "piecewise")
        conditions = [whole] if whole.type.ndim <= x.type.ndim else unstack(whole)
    elif x.type.ndim and not any([isinstance(one, Tracer) or np.ndim(one) for one in condlist]):
        conditions = [condlist]  # bools, as one condition
    count = len(conditions)
    if len(funclist) not in (count, count + 1):
        raise ValueError(
            f"piecewise takes a function for each of {counted(count, 'condition')}, and perhaps one more, not"
            f" {len(funclist)}.{at_user_line()}"
        )
    functions = [funclist[count] if len(funclist) > count else 0, *funclist[:count]]
    which = zeros(x.type.shape, default_dtype("i"))
    for number, condition in enumerate(conditions, 1):
        holds = array(condition)
        which = where(broadcast(in_dtype(holds, BOOL), x.type.shape), number, which)

    def value(function: Any, one: Any) -> Any:
        found = function(one, *args, **kw) if callable(function) else function
        found = in_dtype(number_or_operand(found, "piecewise", "what a function returns"), x.type.dtype)
        return found if x.type.weak else strong(found)

    branches = [functools.partial(value, function) for function in functions]
    numbers, flat = reshape(which, -1), reshape(x, -1)
    if isinstance(numbers, Tracer):
        return reshape(vmap(lambda number, one: switch(number, branches, one))(numbers, flat), x.type.shape)
    for number, branch_of in enumerate(branches):
        (places,) = np.nonzero(host_of(numbers) == number)
        if places.size:
            flat = flat.at[places].set(vmap(branch_of)(reshape(x, -1)[places]), unique_indices=True)
    return reshape(flat, x.type.shape)
