"""Values of an image between its elements."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.dtypes import INT32, is_inexact
from pullback.core.errors import ShapeError
from pullback.numpy.arithmetic import abs as absolute
from pullback.numpy.arithmetic import floor, trunc
from pullback.numpy.logic import clip, where
from pullback.numpy.promotion import at_user_line, in_dtype, operand, refuse_complex, to_inexact
from pullback.ops.complex import sign


def _mirror(index: Any, size: int) -> Any:
    last = size - 1
    return absolute((index + last) % (2 * last) - last) if last else index * 0


# For each mode, the index that stands for one; where there is none, a constant does.
_MODES: dict[str, Callable[[Any, int], Any] | None] = {
    "constant": None,
    "nearest": lambda index, size: clip(index, 0, size - 1),
    "wrap": lambda index, size: index % size,
    "mirror": _mirror,
    "reflect": lambda index, size: (_mirror(2 * index + 1, 2 * size + 1) - 1) // 2,
}
_MODES |= {"grid-wrap": _MODES["wrap"], "grid-constant": None, "grid-mirror": _MODES["reflect"]}


def map_coordinates(
    input: ArrayLike, coordinates: Sequence[ArrayLike], order: int, mode: str = "constant", cval: ArrayLike = 0.0
) -> Array:
    """The values of an array at any places, from its elements around them.

    Arguments:
        input: an array of n axes.
        coordinates: n arrays of one shape, or an array of n rows: for each axis the places along it.
        order: 0 for the nearest element (halves are rounded away from 0), 1 for linear interpolation.
        mode: what is outside: "constant" and "grid-constant" (`cval`), "nearest" (the outermost element), "wrap" and
            "grid-wrap" (the other end), "reflect" and "grid-mirror" (the mirror image), "mirror" (without the outermost
            element). As in JAX, "constant" and "wrap" are those that SciPy calls "grid-constant" and "grid-wrap".
        cval: the constant.

    Returns:
        An array of the shape of the coordinates and the dtype of `input`; for integers, rounded.

    Raises:
        LeafError: an operand is neither an array nor a number. DtypeError: complex coordinates.
        ShapeError: not n coordinates. ValueError: an unknown mode. NotImplementedError: another order.

    Example:
        >>> pb.scipy.ndimage.map_coordinates(pnp.array([1.0, 2.0, 4.0]), [pnp.array([0.5, 1.25, 3.0])], order=1)
        [1.5 2.5 0. ]:f32[3]:cpu(0)
    """
    x = operand(input, "map_coordinates")
    dtype = x.type.dtype
    if not isinstance(mode, str) or mode not in _MODES:
        raise ValueError(f"map_coordinates takes as mode one of {', '.join(_MODES)}; not {brief(mode)}.{at_user_line()}")
    if operator.index(order) not in (0, 1):
        raise NotImplementedError(f"map_coordinates interpolates with order 0 or 1, not {brief(order)}.{at_user_line()}")
    places = [operand(each, "map_coordinates", "coordinates") for each in coordinates]
    if len(places) != x.type.ndim or 0 in x.type.shape:
        raise ShapeError(
            f"map_coordinates of {x.type} takes an array of places for each axis, not {len(places)}.{at_user_line()}"
        )
    refuse_complex("map_coordinates", *places)
    outside = in_dtype(operand(cval, "map_coordinates", "cval"), dtype)
    fixed, sides = _MODES[mode], []
    near: list[tuple[Any, Any]]
    for place, size in zip(places, x.type.shape):
        place = to_inexact(place, "map_coordinates")
        if order == 0:
            near = [(in_dtype(_rounded(place), INT32), 1)]
        else:
            low = floor(place)
            near = [(in_dtype(low, INT32), 1 - (place - low)), (in_dtype(low, INT32) + 1, place - low)]
        sides.append([
            (index if fixed is None else fixed(index, size), fixed is not None or (index >= 0) & (index < size), weight)
            for index, weight in near
        ])  # fmt: skip
    out: Any = 0
    for corner in itertools.product(*sides):
        indices, inside, weights = zip(*corner)
        value = x.at[indices].get(mode="clip")
        if fixed is None:
            value = where(reduce(lambda a, b: a & b, inside), value, outside)
        out = out + reduce(lambda a, b: a * b, weights) * value
    return in_dtype(out if is_inexact(dtype) else _rounded(out), dtype)


def _rounded(x: Any) -> Any:
    """To the nearest integer, halves away from 0."""
    return trunc(x + sign(x) * 0.5) if is_inexact(x.type.dtype) else x
