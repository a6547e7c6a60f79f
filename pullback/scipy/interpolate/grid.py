"""Functions through values on a grid."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.errors import ShapeError
from pullback.core.tracing import Tracer
from pullback.core.trees import register_node
from pullback.numpy.logic import clip, where
from pullback.numpy.promotion import at_user_line, fill_number, in_dtype, operand, to_inexact
from pullback.numpy.shaping import broadcast_arrays, expand_dims, flip, reshape, stack
from pullback.numpy.sorting import searchsorted


class RegularGridInterpolator:
    """A function through values on a grid, of any number n of axes. It is a tree: of its grid and its values.

    Arguments:
        points: n vectors of 2 or more numbers that all rise, or all fall: the places along each axis of the grid.
        values: an array whose first n axes are those of the grid.
        method: "linear", or "nearest" (the lower of two that are as near).
        bounds_error: False: places that are traced are not known.
        fill_value: the value outside of the grid; None to continue the function there.

    Raises:
        LeafError: an operand is neither an array nor a number. DtypeError: a fill value that the values cannot hold.
        ShapeError: the grid is not that of the values. ValueError: an unknown method. NotImplementedError: `bounds_error`.

    Example:
        >>> f = pb.scipy.interpolate.RegularGridInterpolator((pnp.array([0.0, 1.0, 3.0]),), pnp.array([0.0, 2.0, 4.0]))
        >>> f(pnp.array([0.5, 2.0, 4.0])), pb.grad(lambda x: f(x)[0])(pnp.array([2.0]))
        ([ 1.  3. nan]:f32[3]:cpu(0), [1.]:f32[1]:cpu(0))
    """

    grid: tuple[Array, ...]
    values: Array
    method: str
    fill_value: Any

    def __init__(
        self, points: Sequence[ArrayLike], values: ArrayLike, method: str = "linear", bounds_error: bool = False,
        fill_value: ArrayLike | None = np.nan,
    ) -> None:  # fmt: skip
        if bounds_error is not False:
            raise NotImplementedError(
                f"RegularGridInterpolator takes bounds_error=False, not {brief(bounds_error)}.{at_user_line()}"
            )
        self.grid = tuple([to_inexact(operand(each, "RegularGridInterpolator"), "points") for each in points])
        self.values = to_inexact(operand(values, "RegularGridInterpolator"), "values")
        self.method = _checked(method)
        sizes = tuple([each.type.size for each in self.grid])
        if any(each.type.ndim != 1 or each.type.size < 2 for each in self.grid) or self.values.shape[: len(sizes)] != sizes:
            raise ShapeError(
                "RegularGridInterpolator takes a vector of 2 places or more for each of the first axes of its values, not"
                f" {[each.type for each in self.grid]} for {self.values.type}.{at_user_line()}"
            )
        for axis, each in enumerate(self.grid):  # one that falls is turned around
            falls = each[-1] < each[0]
            self.values = where(falls, flip(self.values, axis), self.values)
            self.grid = (*self.grid[:axis], where(falls, flip(each), each), *self.grid[axis + 1 :])
        dtype = self.values.type.dtype
        if isinstance(fill_value, Array | Tracer):
            self.fill_value = in_dtype(fill_value, dtype)
        else:
            self.fill_value = None if fill_value is None else fill_number(fill_value, dtype, "RegularGridInterpolator")

    def __call__(self, xi: ArrayLike | tuple[ArrayLike, ...], method: str | None = None) -> Array:
        """The values at places.

        Arguments:
            xi: an array whose last axis has the n coordinates of a place; or n arrays that broadcast. A vector has the
                coordinates of one place after the other.
            method: in place of the function's own.

        Returns:
            An array of the shape of the places, and the axes of the values that are not of the grid.

        Raises:
            LeafError: `xi` is neither an array nor a number. ShapeError: not n coordinates. ValueError: an unknown method.

        Example:
            >>> grid = (pnp.arange(3.0), pnp.arange(2.0))
            >>> f = pb.scipy.interpolate.RegularGridInterpolator(grid, pnp.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]))
            >>> f(pnp.array([[0.5, 0.5], [2.0, 1.0]])), f((0.5, pnp.array([0.0, 1.0])), method="nearest")
            ([1.5 5. ]:f32[2]:cpu(0), [0. 1.]:f32[2]:cpu(0))
        """
        how, n = self.method if method is None else _checked(method), len(self.grid)
        places = stack(broadcast_arrays(*xi), -1) if isinstance(xi, tuple) else operand(xi, "RegularGridInterpolator", "xi")
        if places.ndim < 2 and places.size % n == 0 and not isinstance(xi, tuple):
            places = reshape(places, (-1, n))
        if places.shape[-1:] != (n,):
            raise ShapeError(f"This interpolator takes places of {n} coordinates, but got {places.type}.{at_user_line()}")
        sides: list[Any] = []
        outside: Any = False
        for axis, points in enumerate(self.grid):
            x = places[..., axis]
            low = clip(searchsorted(points, x) - 1, 0, points.type.size - 2)
            part = (x - points[low]) / (points[low + 1] - points[low])
            outside = outside | (x < points[0]) | (x > points[-1])
            sides.append(
                [(where(part <= 0.5, low, low + 1), where(x == x, 1.0, np.nan))]
                if how == "nearest"
                else [(low, 1 - part), (low + 1, part)]
            )
        out: Any = 0
        rest = tuple(range(places.type.ndim - 1, places.type.ndim - 1 + self.values.type.ndim - n))
        for corner in itertools.product(*sides):
            weight: Any = 1
            for _, each in corner:
                weight = weight * each
            out = out + expand_dims(weight, rest) * self.values[tuple([index for index, _ in corner])]
        return out if self.fill_value is None else where(expand_dims(outside, rest), self.fill_value, out)


def _checked(method: Any) -> str:
    if method not in ("linear", "nearest"):
        raise ValueError(f"RegularGridInterpolator takes method='linear' or 'nearest', not {brief(method)}.{at_user_line()}")
    return method


def _rebuilt(metadata: Any, children: Any) -> RegularGridInterpolator:
    made = object.__new__(RegularGridInterpolator)
    (made.method, known), (made.grid, made.values, given) = metadata, children
    made.fill_value = known if given is None else given
    return made


def _parts(it: RegularGridInterpolator) -> Any:
    given = isinstance(it.fill_value, Array | Tracer)
    fills = (None, it.fill_value) if given else (it.fill_value, None)
    return (it.grid, it.values, fills[1]), (it.method, fills[0])


register_node(RegularGridInterpolator, _parts, _rebuilt)
