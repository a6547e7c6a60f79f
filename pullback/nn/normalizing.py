"""Exponentials in proportion to their sum, and other results that depend on whole axes."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.dtypes import DTypeLike, accumulation_dtype, default_dtype, kind, requested
from pullback.core.errors import ShapeError
from pullback.core.tracing import type_of
from pullback.lax.collectives import axis_index, axis_size
from pullback.nn.activations import narrow, wide
from pullback.numpy.arithmetic import add, maximum, sign
from pullback.numpy.axes import Axis, normal_axes, normal_axis, whole
from pullback.numpy.complexes import real
from pullback.numpy.elementary import exp, log
from pullback.numpy.logic import isfinite
from pullback.numpy.logic import where as choose
from pullback.numpy.promotion import (
    at_user_line,
    common_dtype,
    in_dtype,
    literal_of,
    number_or_operand,
    operand,
    real_dtype,
    refuse_complex,
    to_common_dtype,
    to_common_shape,
    to_inexact,
)
from pullback.numpy.reductions import Mask, count_of
from pullback.numpy.reductions import max as maximum_of
from pullback.numpy.reductions import mean as average
from pullback.numpy.reductions import sum as total
from pullback.ops import broadcast as broadcasts
from pullback.ops import compare, powers
from pullback.ops import shape as shapes
from pullback.ops.convert import convert_element_type
from pullback.ops.create import iota
from pullback.ops.stop_gradient import stop_gradient


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
    if b is None:
        a = to_inexact(a, "logsumexp")
    else:
        a, b = to_common_dtype("logsumexp", a, b, inexact=True)
    axes = normal_axes(axis, a.type, "logsumexp")
    counts = where
    if b is not None:
        a, b = to_common_shape("logsumexp", a, b)
        counts = b != 0 if where is None else (b != 0) & where  # exp(a) may overflow where it counts for nothing
    given, a = a, wide(a)
    shifted, shift = _shifted(a, axes, counts)
    if b is not None:  # of a factor 0 the derivative is that of any other, where it does not overflow
        small = real(a) - shift < 1
        shifted = choose(small if where is None else small & where, a - shift, shifted)
    terms = exp(shifted) if b is None else exp(shifted) * wide(b)
    summed = total(terms, axes, keepdims=keepdims)
    if shift.type.shape and not keepdims:
        shift = shapes.squeeze(shift, dimensions=axes)
    if return_sign:
        return narrow(log(abs(summed)) + shift, given), narrow(sign(summed), given)
    return narrow(log(summed) + shift, given)


def _shifted(a: Any, axes: tuple[int, ...], where: Any, finite: bool = True) -> tuple[Any, Any]:
    """a without its largest elements along `axes` (if `finite`, without those that are), and these, as constants, the axes kept
    of size 1.

    What is computed from the pair does not depend on them, so that neither do its derivatives of any order.
    """
    if where is not None:
        a = choose(where, a, -math.inf)
    if 0 in [a.type.shape[i] for i in axes]:
        return a, literal_of(0, a.type.dtype)
    peak = maximum_of(real(stop_gradient(a)), axes, keepdims=True)
    shift = choose(isfinite(peak), peak, 0.0) if finite else peak
    return a - shift, shift


def _softmax_parts(name: str, x: Any, axis: Axis, where: Mask) -> tuple[Array, Array, Array]:
    """The elements without the largest, their exponentials and the sum of these; a sum over no elements counts as 1."""
    axes = normal_axes(axis, x.type, name)
    shifted, _ = _shifted(x, axes, where, finite=where is not None)
    terms = exp(shifted)
    summed = total(terms, axes, keepdims=True)
    return shifted, terms, summed if where is None else choose(summed == 0, 1.0, summed)


def softmax(x: ArrayLike, axis: Axis = -1, where: Mask = None) -> Array:
    """exp(x) / sum(exp(x)) along an axis, or axes, without overflow; 0 where `where` is false.

    NaN along an axis with an element that is plus infinity, or of elements that are all minus infinity.

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
    _, terms, summed = _softmax_parts("softmax", wide(x), axis, where)
    return narrow(terms / summed, x)


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
    shifted, _, summed = _softmax_parts("log_softmax", wide(x), axis, where)
    return narrow(shifted - log(summed), x)


def one_hot(x: ArrayLike, num_classes: int, *, dtype: DTypeLike = None, axis: int | str = -1) -> Array:
    """Indices as vectors of zeros with a one at the index; of zeros alone, where it is out of bounds.

    Arguments:
        x: integers, an array of any shape.
        num_classes: the length of the vectors.
        dtype: of the result; by default the default floating dtype.
        axis: where the vectors lie in the result; or the name of an axis of vmap, of size num_classes, along which they lie.

    Returns:
        An array with one axis more than x; of the shape of x, if the axis is a named one.

    Raises:
        LeafError: x is neither an array nor a number.
        AxisError: the result has no such axis.
        ShapeError: the named axis has another size.

    Example:
        >>> nn.one_hot(pnp.array([0, 2, 9]), 3)
        [[1. 0. 0.]
         [0. 0. 1.]
         [0. 0. 0.]]:f32[3,3]:cpu(0)
        >>> nn.one_hot(1, 3, dtype=bool)
        [False  True False]:bool[3]:cpu(0)
    """
    x, num_classes = operand(x, "one_hot"), whole(num_classes, "one_hot's num_classes")
    if x.type.dtype.itemsize < 4:  # in which there may be fewer numbers than classes
        x = convert_element_type(x, new_dtype=default_dtype("f" if kind(x.type.dtype) == "f" else "i"))
    wanted = default_dtype("f") if dtype is None else requested(dtype)
    if isinstance(axis, str):
        if axis_size(axis) != num_classes:
            raise ShapeError(f"one_hot: axis {brief(axis)} has size {axis_size(axis)}, not {num_classes=}.{at_user_line()}")
        return convert_element_type(compare.eq(x, in_dtype(axis_index(axis), x.type.dtype)), new_dtype=wanted)
    ndim = type_of(x).ndim + 1
    along = normal_axis(axis, ndim, "one_hot")
    shape = (*x.type.shape[:along], num_classes, *x.type.shape[along:])
    spread = broadcasts.broadcast_in_dim(x, shape=shape, broadcast_dimensions=tuple(i for i in range(ndim) if i != along))
    same = compare.eq(spread, iota(dtype=x.type.dtype, shape=shape, dimension=along))
    return convert_element_type(same, new_dtype=wanted)


def logmeanexp(x: ArrayLike, axis: Axis = None, where: Mask = None, keepdims: bool = False) -> Array:
    """log(mean(exp(x))), without overflow.

    Arguments:
        x: an array of any shape.
        axis: the axis or axes to average over; all by default.
        where: bools that broadcast with x; elements where they are false are left out.
        keepdims: keep these axes, of size 1.

    Returns:
        An array without the axes, of a floating or complex dtype; NaN where no element counts.

    Raises:
        LeafError: x is neither an array nor a number.
        AxisError: an axis that the array does not have, or one given twice.
        ShapeError: x and `where` do not broadcast.

    Example:
        >>> nn.logmeanexp(pnp.array([1000.0, 1000.0]))
        1000.0:f32[]:cpu(0)
        >>> nn.logmeanexp(pnp.array([0.0, 5.0]), where=pnp.array([True, False]))
        0.0:f32[]:cpu(0)
    """
    given = to_inexact(x, "logmeanexp")
    x = in_dtype(given, accumulation_dtype(given.type.dtype), given.type.weak)
    summed = logsumexp(x, axis, None, keepdims, where=where)
    count = count_of("logmeanexp", x, normal_axes(axis, x.type, "logmeanexp"), where, keepdims)
    return in_dtype(summed - log(in_dtype(count, real_dtype(x.type.dtype))), given.type.dtype)


def standardize(
    x: ArrayLike,
    axis: Axis = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: Mask = None,
    *,
    algorithm: str = "fast",
) -> Array:
    """(x - mean) / sqrt(variance + epsilon), with the mean and the variance along axes.

    Arguments:
        x: an array of any shape, real; floats of 16 bits and fewer are standardized in float32, and rounded once.
        axis: the axis or axes along which the results have mean 0 and variance 1; None for all.
        mean, variance: in the place of those of x: numbers, or arrays that broadcast with it.
        epsilon: what is added to the variance.
        where: bools that broadcast to the shape of x; elements where they are false do not count in mean and variance.
        algorithm: "stable", for the mean of the squared distances from the mean as variance; or "fast", which is the same here,
            except for a `mean` that is given: its square is then subtracted from the mean of the squares, as JAX's does.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: an axis that the array does not have, or one given twice.
        ShapeError: the shapes do not fit.
        DtypeError: x is complex.
        ValueError: an unknown `algorithm`.

    Example:
        >>> nn.standardize(pnp.array([1.0, 3.0]), epsilon=0.0)
        [-1.  1.]:f32[2]:cpu(0)
        >>> nn.standardize(pnp.array([10001.0, 10003.0], "float32"), epsilon=0.0)
        [-1.  1.]:f32[2]:cpu(0)
    """
    if algorithm not in ("fast", "stable"):
        raise ValueError(f"standardize takes algorithm='fast' or 'stable', not {brief(algorithm)}.{at_user_line()}")
    x = to_inexact(x, "standardize")
    refuse_complex("standardize", x)
    given = [number_or_operand(each, "standardize") for each in (x, mean, variance, epsilon) if each is not None]
    dtype, weak = common_dtype(given, "standardize")
    x = in_dtype(x, accumulation_dtype(x.type.dtype))
    axes = normal_axes(axis, x.type, "standardize")
    center = average(x, axes, keepdims=True, where=where) if mean is None else mean
    centered = x - center
    if variance is None and mean is not None and algorithm == "fast":
        variance = maximum(
            average(powers.square(x), axes, keepdims=True, where=where) - powers.square(operand(mean, "standardize", "mean")),
            0.0,
        )
    elif variance is None:
        variance = average(powers.square(centered), axes, keepdims=True, where=where)
    return in_dtype(centered * powers.rsqrt(to_inexact(add(variance, epsilon), "standardize")), dtype, weak)
