"""Activation functions, and what goes with them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pullback.core.array import Array, ArrayLike
from pullback.core.dtypes import FLOAT32, DTypeLike, default_dtype, kind, requested
from pullback.core.source import make_public
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

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape and dtype of x.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> nn.relu(pnp.array([-1.0, 2.0, pnp.nan]))
        [ 0.  2. nan]:f32[3]:cpu(0)
        >>> pb.grad(nn.relu)(0.0)
        0.0:f32[]:cpu(0)
    """
    x = operand(x, "relu")
    zero = literal_of(0, x.type.dtype)
    positive = compare.gt(x, zero)
    nan = compare.ne(x, x)
    return compare.select(positive | nan if kind(x.type.dtype) == "f" else positive, x, zero)


def relu6(x: ArrayLike) -> Array:
    """min(max(x, 0), 6), with derivative 0 at 0 and at 6.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape and dtype of x.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> nn.relu6(pnp.array([-1.0, 2.0, 9.0]))
        [0. 2. 6.]:f32[3]:cpu(0)

    Source: Krizhevsky, "Convolutional Deep Belief Networks on CIFAR-10" (2010).
    """
    x = operand(x, "relu6")
    return compare.clamp(literal_of(0, x.type.dtype), x, literal_of(6, x.type.dtype))


def sigmoid(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x)).

    Arguments:
        x: an array or a number, of any shape.

    Returns:
        An array of the shape of x, of a floating or complex dtype.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> nn.sigmoid(pnp.array([0.0, -200.0, 200.0]))
        [0.5 0.  1. ]:f32[3]:cpu(0)
    """
    return hyperbolic.logistic(to_inexact(x, "sigmoid"))


def log_sigmoid(x: ArrayLike) -> Array:
    """log(sigmoid(x)), without overflow.

    Arguments:
        x: an array or a number, of any shape.

    Returns:
        An array of the shape of x, of a floating or complex dtype.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> nn.log_sigmoid(pnp.array([0.0, -200.0]))
        [  -0.6931472 -200.       ]:f32[2]:cpu(0)
        >>> pnp.log(nn.sigmoid(-200.0))
        -inf:f32[]:cpu(0)
    """
    return -softplus(-to_inexact(x, "log_sigmoid"))


def _weighted(x: Any, weight: Callable[[Any], Any], bound: float) -> Array:
    """x times a weight that rises from 0 to 1, and is 0 or 1 to the last bit beyond x = -bound and bound, where x is held.

    So no infinity meets a 0, neither in the value nor in a derivative of any order.
    """
    dtype = x.type.dtype
    if dtype.itemsize == 1:  # float8 reaches neither the bounds nor what the weight is computed from
        return convert_element_type(_weighted(convert_element_type(x, new_dtype=FLOAT32), weight, bound), new_dtype=dtype)
    low, high = literal_of(-bound, dtype), literal_of(bound, dtype)
    held = compare.clamp(low, x, high)
    return compare.select(compare.ge(x, high), x, arithmetic.mul(held, weight(held)))


def silu(x: ArrayLike) -> Array:
    """x * sigmoid(x): 0 at minus infinity.

    Arguments:
        x: an array or a number, of any shape.

    Returns:
        An array of the shape of x, of a floating or complex dtype.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> nn.silu(pnp.array([1.0, 0.0, -pnp.inf]))
        [ 0.7310586  0.        -0.       ]:f32[3]:cpu(0)

    Source: Elfwing, Uchibe and Doya, "Sigmoid-Weighted Linear Units for Neural Network Function Approximation in Reinforcement
        Learning", arXiv:1702.03118.
    """
    x = to_inexact(x, "silu")
    if kind(x.type.dtype) == "c":
        return arithmetic.mul(x, hyperbolic.logistic(x))
    return _weighted(x, hyperbolic.logistic, 800.0)


swish = silu


def softplus(x: ArrayLike) -> Array:
    """log(1 + exp(x)), without overflow.

    Arguments:
        x: an array or a number, of any shape.

    Returns:
        An array of the shape of x, of a floating or complex dtype.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> nn.softplus(pnp.array([0.0, 200.0]))
        [  0.6931472 200.       ]:f32[2]:cpu(0)
        >>> pb.grad(pb.grad(nn.softplus))(0.0)
        0.25:f32[]:cpu(0)
    """
    return logaddexp(to_inexact(x, "softplus"), 0.0)


def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """x times the normal distribution function at x, 0 at minus infinity; approximated by a tanh unless `approximate` is false.

    Arguments:
        x: an array or a number, of any shape, real.
        approximate: whether to use the formula with tanh.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> nn.gelu(1.0), nn.gelu(1.0, approximate=False)
        (0.841192:f32[]:cpu(0), 0.8413447:f32[]:cpu(0))

    Source: Hendrycks and Gimpel, "Gaussian Error Linear Units", arXiv:1606.08415.
    """
    x = to_inexact(x, "gelu")
    if not approximate:
        return _weighted(x, lambda x: error_functions.erfc(-x * math.sqrt(0.5)) * 0.5, 40.0)
    # (1 + tanh(u)) / 2 = sigmoid(2 u), which keeps its digits where it is small
    return _weighted(x, lambda x: hyperbolic.logistic((x * x * 0.044715 + 1.0) * x * (2 * math.sqrt(2 / math.pi))), 40.0)


def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """x where it is positive, else alpha * (exp(x) - 1).

    Arguments:
        x: an array or a number, of any shape, real.
        alpha: a number, or an array that broadcasts with x.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> nn.elu(pnp.array([2.0, -1.0, -pnp.inf]))
        [ 2.         -0.63212055 -1.        ]:f32[3]:cpu(0)

    Source: Clevert, Unterthiner and Hochreiter, "Fast and Accurate Deep Network Learning by Exponential Linear Units (ELUs)",
        arXiv:1511.07289.
    """
    x = to_inexact(x, "elu")
    positive = compare.gt(x, literal_of(0, x.type.dtype))
    safe = compare.select(positive, literal_of(0, x.type.dtype), x)
    below = expm1(safe)  # 1 times an infinite complex number has NaN in it
    return choose(positive, x, below if alpha.__class__ in (int, float) and alpha == 1 else alpha * below)


def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 0.01) -> Array:
    """x where it is 0 or more, else negative_slope * x.

    Arguments:
        x: an array or a number, of any shape, real.
        negative_slope: a number, or an array that broadcasts with x.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> nn.leaky_relu(pnp.array([2.0, -1.0]))
        [ 2.   -0.01]:f32[2]:cpu(0)
        >>> nn.leaky_relu(-1.0, negative_slope=0.2)
        -0.2:f32[]:cpu(0)

    Source: Maas, Hannun and Ng, "Rectifier Nonlinearities Improve Neural Network Acoustic Models", ICML (2013).
    """
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
        a: an array of any shape.
        axis: the axis or axes to sum over; all by default.
        b: factors that broadcast with a.
        keepdims: keep these axes, of size 1.
        where: bools that broadcast with a; elements where they are false are left out.
        return_sign: return log|sum| and the sign of the sum.

    Returns:
        An array without the axes, of a floating or complex dtype; or a pair of such.

    Raises:
        LeafError: a or b is neither an array nor a number.
        AxisError: an axis that the array does not have, or one given twice.
        ShapeError: a, b and `where` do not broadcast.

    Example:
        >>> nn.logsumexp(pnp.array([1000.0, 1000.0]))
        1000.6932:f32[]:cpu(0)
        >>> nn.logsumexp(pnp.array([0.0, 1.0]), b=pnp.array([1.0, -1.0]), return_sign=True)
        (0.541325:f32[]:cpu(0), -1.0:f32[]:cpu(0))
        >>> nn.logsumexp(pnp.zeros(0))
        -inf:f32[]:cpu(0)

    Source: Blanchard, Higham and Higham, "Accurately computing the log-sum-exp and softmax functions", IMA J. Numer. Anal. 41
        (2021).
    """
    a = to_inexact(a, "logsumexp")
    axes = normal_axes(axis, a.type, "logsumexp")
    if b is not None:
        a, b = to_common_shape("logsumexp", *to_common_dtype("logsumexp", a, b, inexact=True))
        where = b != 0 if where is None else (b != 0) & where  # exp(a) may overflow where it counts for nothing
    narrow = a
    a = _wide(a)
    shifted, shift = _shifted(a, axes, where)
    terms = exp(shifted) if b is None else exp(shifted) * _wide(b)
    summed = total(terms, axes, keepdims=keepdims)
    if shift.type.shape and not keepdims:
        shift = shapes.squeeze(shift, dimensions=axes)
    if return_sign:
        return _narrow(log(abs(summed)) + shift, narrow), _narrow(sign(summed), narrow)
    return _narrow(log(summed) + shift, narrow)


def _wide(x: Any) -> Any:
    """An array of float8, of which some kinds have no infinity for what is left out, in float32; others as they are."""
    return convert_element_type(x, new_dtype=FLOAT32) if x.type.dtype.itemsize == 1 else x


def _narrow(out: Array, x: Any) -> Array:
    """A result of `_wide(x)` in the dtype of x."""
    return convert_element_type(out, new_dtype=x.type.dtype) if x.type.dtype.itemsize == 1 else out


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


def _softmax_parts(name: str, x: Any, axis: Axis, where: Mask) -> tuple[Array, Array, Array]:
    """The elements without the largest, their exponentials and the sum of these; a sum over no elements counts as 1."""
    axes = normal_axes(axis, x.type, name)
    shifted, _ = _shifted(x, axes, where)
    terms = exp(shifted)
    summed = total(terms, axes, keepdims=True)
    return shifted, terms, summed if where is None else choose(summed == 0, 1.0, summed)


def softmax(x: ArrayLike, axis: Axis = -1, where: Mask = None) -> Array:
    """exp(x) / sum(exp(x)) along an axis, or axes, without overflow; 0 where `where` is false.

    Arguments:
        x: an array of any shape.
        axis: the axis or axes along which the results add up to 1.
        where: bools that broadcast with x; elements where they are false are left out.

    Returns:
        An array of the shape of x, of a floating or complex dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        AxisError: an axis that the array does not have, or one given twice.
        ShapeError: x and `where` do not broadcast.

    Example:
        >>> nn.softmax(pnp.array([0.0, 0.0]))
        [0.5 0.5]:f32[2]:cpu(0)
        >>> nn.softmax(pnp.array([[1000.0, 0.0], [3.0, 3.0]]), axis=0)
        [[1.         0.04742587]
         [0.         0.95257413]]:f32[2,2]:cpu(0)
        >>> nn.softmax(pnp.array([1.0, 1.0, 5.0]), where=pnp.array([True, True, False]))
        [0.5 0.5 0. ]:f32[3]:cpu(0)

    Source: Blanchard, Higham and Higham, "Accurately computing the log-sum-exp and softmax functions", IMA J. Numer. Anal. 41
        (2021).
    """
    x = to_inexact(x, "softmax")
    _, terms, summed = _softmax_parts("softmax", _wide(x), axis, where)
    return _narrow(terms / summed, x)


def log_softmax(x: ArrayLike, axis: Axis = -1, where: Mask = None) -> Array:
    """log(softmax(x)), without overflow; minus infinity where `where` is false.

    Arguments:
        x: an array of any shape.
        axis: the axis or axes along which the exponentials of the results add up to 1.
        where: bools that broadcast with x; elements where they are false are left out.

    Returns:
        An array of the shape of x, of a floating or complex dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        AxisError: an axis that the array does not have, or one given twice.
        ShapeError: x and `where` do not broadcast.

    Example:
        >>> nn.log_softmax(pnp.array([0.0, -1000.0]))
        [    0. -1000.]:f32[2]:cpu(0)
    """
    x = to_inexact(x, "log_softmax")
    shifted, _, summed = _softmax_parts("log_softmax", _wide(x), axis, where)
    return _narrow(shifted - log(summed), x)


def one_hot(x: ArrayLike, num_classes: int, *, dtype: DTypeLike = None, axis: int = -1) -> Array:
    """Indices as vectors of zeros with a one at the index; of zeros alone, where it is out of bounds.

    Arguments:
        x: integers, an array of any shape.
        num_classes: the length of the vectors.
        dtype: of the result; by default the default floating dtype.
        axis: where the vectors lie in the result.

    Returns:
        An array with one axis more than x.

    Raises:
        LeafError: x is neither an array nor a number.
        AxisError: the result has no such axis.

    Example:
        >>> nn.one_hot(pnp.array([0, 2, 9]), 3)
        [[1. 0. 0.]
         [0. 0. 1.]
         [0. 0. 0.]]:f32[3,3]:cpu(0)
        >>> nn.one_hot(1, 3, dtype=bool)
        [False  True False]:bool[3]:cpu(0)
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


make_public(globals())
