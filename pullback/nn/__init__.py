"""Activation functions, and what goes with them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pullback.core.array import Array, ArrayLike
from pullback.core.dtypes import DTypeLike, default_dtype, kind, requested
from pullback.core.source import make_boundaries
from pullback.core.tracing import type_of
from pullback.numpy.arithmetic import sign
from pullback.numpy.axes import Axis, normal_axes, normal_axis
from pullback.numpy.complexes import real
from pullback.numpy.elementary import exp, expm1, log, logaddexp, tanh
from pullback.numpy.logic import isfinite
from pullback.numpy.logic import where as choose
from pullback.numpy.promotion import literal_of, operand, to_common_dtype, to_common_shape, to_inexact
from pullback.numpy.reductions import Mask
from pullback.numpy.reductions import max as maximum_of
from pullback.numpy.reductions import sum as total
from pullback.ops import arithmetic, compare, error_functions, hyperbolic
from pullback.ops import broadcast as broadcasts
from pullback.ops import shape as shapes
from pullback.ops.convert import convert_element_type
from pullback.ops.create import iota
from pullback.ops.stop_gradient import stop_gradient

__all__ = [
    "elu", "gelu", "leaky_relu", "log_sigmoid", "log_softmax", "logsumexp", "one_hot", "relu", "relu6", "sigmoid", "silu",
    "softmax", "softplus", "swish", "tanh",
]  # fmt: skip


def relu(x: ArrayLike) -> Array:
    """max(x, 0), with derivative 0 at 0.

    Example:
        >>> import pullback as pb
        >>> pb.nn.relu(pb.numpy.asarray([-1.0, 2.0]))
        [0. 2.]:f32[2]:cpu(0)
    """
    x = operand(x, "relu")
    zero = literal_of(0, x.type.dtype)
    positive = compare.gt(x, zero)
    nan = compare.ne(x, x)
    return compare.select(positive | nan if kind(x.type.dtype) == "f" else positive, x, zero)


def relu6(x: ArrayLike) -> Array:
    """min(max(x, 0), 6), with derivative 0 at 0 and at 6."""
    x = operand(x, "relu6")
    return compare.clamp(literal_of(0, x.type.dtype), x, literal_of(6, x.type.dtype))


def sigmoid(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x)).

    Example:
        >>> import pullback as pb
        >>> pb.nn.sigmoid(0.0)
        0.5:f32[]:cpu(0)
    """
    return hyperbolic.logistic(to_inexact(x, "sigmoid"))


def log_sigmoid(x: ArrayLike) -> Array:
    """log(sigmoid(x)), without overflow."""
    return -softplus(-to_inexact(x, "log_sigmoid"))


def _weighted(x: Any, weight: Callable[[Any], Any], bound: float) -> Array:
    """x times a weight that rises from 0 to 1, and is 0 or 1 to the last bit beyond x = -bound and bound, where x is held.

    So no infinity meets a 0, neither in the value nor in a derivative of any order.
    """
    low, high = literal_of(-bound, x.type.dtype), literal_of(bound, x.type.dtype)
    held = compare.clamp(low, x, high)
    return compare.select(compare.ge(x, high), x, arithmetic.mul(held, weight(held)))


def silu(x: ArrayLike) -> Array:
    """x * sigmoid(x): 0 at minus infinity."""
    x = to_inexact(x, "silu")
    if kind(x.type.dtype) == "c":
        return arithmetic.mul(x, hyperbolic.logistic(x))
    return _weighted(x, hyperbolic.logistic, 800.0)


swish = silu


def softplus(x: ArrayLike) -> Array:
    """log(1 + exp(x)), without overflow."""
    return logaddexp(to_inexact(x, "softplus"), 0.0)


def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """x times the normal distribution function at x, 0 at minus infinity; approximated by a tanh unless `approximate` is false.

    Source: Hendrycks and Gimpel, "Gaussian Error Linear Units", arXiv:1606.08415.
    """
    x = to_inexact(x, "gelu")
    if not approximate:
        return _weighted(x, lambda x: error_functions.erfc(-x * math.sqrt(0.5)) * 0.5, 40.0)
    # (1 + tanh(u)) / 2 = sigmoid(2 u), which keeps its digits where it is small
    return _weighted(x, lambda x: hyperbolic.logistic((x * x * 0.044715 + 1.0) * x * (2 * math.sqrt(2 / math.pi))), 40.0)


def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """x where it is positive, else alpha * (exp(x) - 1)."""
    x = to_inexact(x, "elu")
    positive = compare.gt(x, literal_of(0, x.type.dtype))
    safe = compare.select(positive, literal_of(0, x.type.dtype), x)
    below = expm1(safe)  # 1 times an infinite complex number has NaN in it
    return choose(positive, x, below if alpha.__class__ in (int, float) and alpha == 1 else alpha * below)


def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 0.01) -> Array:
    """x where it is 0 or more, else negative_slope * x."""
    x = to_inexact(x, "leaky_relu")
    return choose(compare.ge(x, literal_of(0, x.type.dtype)), x, x * negative_slope)


def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Mask = None,
) -> Any:
    """log(sum(b * exp(a))), without overflow: the largest element is taken out first.

    Arguments:
        a: an array. axis: the axis or axes to sum over; all by default. b: factors that broadcast with a.
        keepdims: keep these axes, of size 1. where: bools; elements where they are false are left out.
        return_sign: return log|sum| and the sign of the sum.

    Example:
        >>> import pullback as pb
        >>> pb.nn.logsumexp(pb.numpy.asarray([1000.0, 1000.0]))
        1000.6932:f32[]:cpu(0)
    """
    a = to_inexact(a, "logsumexp")
    axes = normal_axes(axis, a.type, "logsumexp")
    if b is not None:
        a, b = to_common_shape("logsumexp", *to_common_dtype("logsumexp", a, b, inexact=True))
        where = b != 0 if where is None else (b != 0) & where  # exp(a) may overflow where it counts for nothing
    shifted, shift = _shifted(a, axes, where)
    terms = exp(shifted) if b is None else exp(shifted) * b
    summed = total(terms, axes, keepdims=keepdims)
    if shift.type.shape and not keepdims:
        shift = shapes.squeeze(shift, dimensions=axes)
    return (log(abs(summed)) + shift, sign(summed)) if return_sign else log(summed) + shift


def _shifted(a: Any, axes: tuple[int, ...], where: Any) -> tuple[Any, Any]:
    """a without its largest elements along `axes` (those that are finite), and these, as constants, the axes kept of size 1.

    What is computed from the pair does not depend on them, so that neither do its derivatives of any order.
    """
    if where is not None:
        a = choose(where, a, -math.inf)
    if 0 in [a.type.shape[i] for i in axes]:
        return a, literal_of(0, a.type.dtype)
    size = real(a)
    peak = maximum_of(size, axes, keepdims=True)
    shift = stop_gradient(choose(isfinite(peak), peak, 0.0))
    return a - shift, shift


def _softmax_parts(name: str, x: ArrayLike, axis: Axis, where: Mask) -> tuple[Array, Array, Array]:
    """The elements without the largest, their exponentials and the sum of these; a sum over no elements counts as 1."""
    x = to_inexact(x, name)
    axes = normal_axes(axis, x.type, name)
    shifted, _ = _shifted(x, axes, where)
    terms = exp(shifted)
    summed = total(terms, axes, keepdims=True)
    return shifted, terms, summed if where is None else choose(summed == 0, 1.0, summed)


def softmax(x: ArrayLike, axis: Axis = -1, where: Mask = None) -> Array:
    """exp(x) / sum(exp(x)) along an axis, or axes, without overflow; 0 where `where` is false.

    Example:
        >>> import pullback as pb
        >>> pb.nn.softmax(pb.numpy.asarray([0.0, 0.0]))
        [0.5 0.5]:f32[2]:cpu(0)
    """
    _, terms, summed = _softmax_parts("softmax", x, axis, where)
    return terms / summed


def log_softmax(x: ArrayLike, axis: Axis = -1, where: Mask = None) -> Array:
    """log(softmax(x)), without overflow; minus infinity where `where` is false."""
    shifted, _, summed = _softmax_parts("log_softmax", x, axis, where)
    return shifted - log(summed)


def one_hot(x: ArrayLike, num_classes: int, *, dtype: DTypeLike = None, axis: int = -1) -> Array:
    """Indices as vectors of zeros with a one at the index; of zeros alone, where it is out of bounds.

    Arguments:
        x: integers. num_classes: the length of the vectors. axis: where they lie in the result.

    Example:
        >>> import pullback as pb
        >>> pb.nn.one_hot(pb.numpy.asarray([0, 2]), 3)
        [[1. 0. 0.]
         [0. 0. 1.]]:f32[2,3]:cpu(0)
    """
    x = operand(x, "one_hot")
    if x.type.dtype.itemsize < 4:  # in which there may be fewer numbers than classes
        x = convert_element_type(x, new_dtype=default_dtype("f" if kind(x.type.dtype) == "f" else "i"))
    ndim = type_of(x).ndim + 1
    along = normal_axis(axis, ndim, "one_hot")
    shape = (*x.type.shape[:along], num_classes, *x.type.shape[along:])
    spread = broadcasts.broadcast_in_dim(x, shape=shape, broadcast_dimensions=tuple(i for i in range(ndim) if i != along))
    same = compare.eq(spread, iota(dtype=x.type.dtype, shape=shape, dimension=along))
    return convert_element_type(same, new_dtype=default_dtype("f") if dtype is None else requested(dtype))


def __dir__() -> list[str]:
    return sorted(__all__)


make_boundaries(globals(), __all__)
