"""Pooling: what is in each window of the spatial axes, as one element, by Flax's names and signatures."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import counted
from pullback.core.dtypes import kind
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.types import Shape
from pullback.lax.convolutions import Padding, ints
from pullback.lax.windows import reduce_window
from pullback.numpy.arithmetic import true_divide
from pullback.numpy.promotion import at_user_line, operand, to_inexact
from pullback.ops import arithmetic
from pullback.ops.create import full
from pullback.ops.reduce import highest, lowest


def pool(
    inputs: ArrayLike, init: ArrayLike, reduce_fn: Callable[[Any, Any], Any], window_shape: Sequence[int],
    strides: Sequence[int] | None, padding: Padding,
) -> Array:  # fmt: skip
    """The elements in each window of the spatial axes combined by a function of two: `lax.reduce_window`.

    Arguments:
        inputs: an array (batch ..., spatial ..., features), with as many spatial axes as `window_shape` has numbers.
        init: what a reduction begins with, and what is around the array.
        reduce_fn: an associative function of two numbers.
        window_shape: the sizes of a window.
        strides: how far apart windows begin; None for 1.
        padding: "VALID", "SAME", "SAME_LOWER", or a pair of ints (before, after) for each spatial axis.

    Returns:
        An array (batch ..., places of the windows ..., features).

    Raises:
        LeafError: `inputs` is neither an array nor a number. DtypeError: an initial value of another dtype.
        ShapeError: numbers that are not one for each spatial axis. ValueError: a padding that is none.

    Example:
        >>> nn.pool(pnp.array([[1.0], [2.0], [4.0], [8.0]]), 0.0, lax.add, (2,), (2,), "VALID")[:, 0]
        [ 3. 12.]:f32[2]:cpu(0)
    """
    return _pooled("pool", operand(inputs, "pool"), init, reduce_fn, window_shape, strides, padding)


def _pooled(name: str, x: Array, init: Any, combine: Any, window_shape: Any, strides: Any, padding: Any) -> Array:
    widths: Shape = tuple(map(operator.index, window_shape))
    batch = x.type.ndim - len(widths) - 1
    if batch < 0:
        raise ShapeError(
            f"{name} with {counted(len(widths), 'spatial axis')} takes an array of more axes, not {x.type}.{at_user_line()}"
        )
    apart = ints(strides, len(widths), "strides")
    if not isinstance(padding, str):
        padding = [*[(0, 0)] * batch, *padding, (0, 0)]
    ones = (1,) * batch
    return reduce_window(x, init, combine, (*ones, *widths, 1), (*ones, *apart, 1), padding)  # type: ignore[no-any-return]


def avg_pool(
    inputs: ArrayLike, window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Padding = "VALID",
    count_include_pad: bool = True,
) -> Array:  # fmt: skip
    """The mean of each window of the spatial axes.

    Arguments:
        inputs: an array (batch ..., spatial ..., features).
        window_shape: the sizes of a window. strides: how far apart windows begin; None for 1.
        padding: "VALID", "SAME", "SAME_LOWER", or a pair of ints (before, after) for each spatial axis: zeros.
        count_include_pad: whether these zeros count as elements.

    Returns:
        An array (batch ..., places of the windows ..., features), floating or complex.

    Raises:
        LeafError: `inputs` is neither an array nor a number.
        ShapeError: numbers that are not one for each spatial axis. ValueError: a padding that is none.

    Example:
        >>> nn.avg_pool(pnp.array([[1.0], [2.0], [4.0]]), (2,), padding="SAME", count_include_pad=False)[:, 0]
        [1.5 3.  4. ]:f32[3]:cpu(0)
    """
    x = to_inexact(inputs, "avg_pool")
    out = _pooled("avg_pool", x, 0, arithmetic.add, window_shape, strides, padding)
    if count_include_pad:
        return true_divide(out, math.prod(map(operator.index, window_shape)))
    batch = x.type.ndim - 1 - len(window_shape)
    ones = full((*(1,) * batch, *x.type.shape[batch:-1], 1), 1, x.type.dtype)
    return true_divide(out, _pooled("avg_pool", ones, 0, arithmetic.add, window_shape, strides, padding))


def max_pool(
    inputs: ArrayLike, window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Padding = "VALID"
) -> Array:
    """The largest element of each window of the spatial axes; of several, the first has the derivative.

    Arguments:
        inputs: an array (batch ..., spatial ..., features), real.
        window_shape: the sizes of a window. strides: how far apart windows begin; None for 1.
        padding: "VALID", "SAME", "SAME_LOWER", or a pair of ints (before, after) for each spatial axis: none is the largest.

    Returns:
        An array (batch ..., places of the windows ..., features) of the dtype of the inputs.

    Raises:
        LeafError: `inputs` is neither an array nor a number. DtypeError: it is complex.
        ShapeError: numbers that are not one for each spatial axis. ValueError: a padding that is none.

    Example:
        >>> nn.max_pool(pnp.array([[1.0], [5.0], [2.0], [3.0]]), (2,), strides=(2,))[:, 0]
        [5. 3.]:f32[2]:cpu(0)
    """
    return _extreme_pool("max_pool", inputs, arithmetic.max, lowest, window_shape, strides, padding)


def min_pool(
    inputs: ArrayLike, window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Padding = "VALID"
) -> Array:
    """The smallest element of each window of the spatial axes; of several, the first has the derivative.

    Arguments:
        inputs: an array (batch ..., spatial ..., features), real.
        window_shape: the sizes of a window. strides: how far apart windows begin; None for 1.
        padding: "VALID", "SAME", "SAME_LOWER", or a pair of ints (before, after) for each spatial axis: none is the smallest.

    Returns:
        An array (batch ..., places of the windows ..., features) of the dtype of the inputs.

    Raises:
        LeafError: `inputs` is neither an array nor a number. DtypeError: it is complex.
        ShapeError: numbers that are not one for each spatial axis. ValueError: a padding that is none.

    Example:
        >>> nn.min_pool(pnp.array([[1.0], [5.0], [2.0], [3.0]]), (2,), strides=(2,))[:, 0]
        [1. 2.]:f32[2]:cpu(0)
    """
    return _extreme_pool("min_pool", inputs, arithmetic.min, highest, window_shape, strides, padding)


def _extreme_pool(name: str, inputs: Any, combine: Any, start: Any, *window: Any) -> Array:
    x = operand(inputs, name)
    if kind(x.type.dtype) == "c":
        raise DtypeError(f"{name} takes real numbers, but got {x.type}.{at_user_line()}")
    return _pooled(name, x, np.asarray(start(x.type.dtype)), combine, *window)
