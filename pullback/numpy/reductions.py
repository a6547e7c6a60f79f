"""Reductions: sums, products, extremes, means and the like, over all axes or some."""

from __future__ import annotations

import functools
import math
from typing import Any, Protocol, TypeVar

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.dtypes import BOOL, DType, DTypeLike, accumulation_dtype, default_dtype, is_inexact, kind, requested
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.modes import current_mode
from pullback.core.tracing import Tracer, bind
from pullback.core.types import ArrayType
from pullback.numpy.arithmetic import add, divide, maximum, minimum, multiply, subtract
from pullback.numpy.axes import Axis, normal_axes, normal_axis, several
from pullback.numpy.complexes import conj, imag, real
from pullback.numpy.eager import by_numpy
from pullback.numpy.elementary import sqrt
from pullback.numpy.factories import Function, named
from pullback.numpy.logic import as_predicate, isnan, where
from pullback.numpy.promotion import (
    NATIVE_FLOATS,
    at_user_line,
    broadcast,
    broadcast_shapes,
    float_for,
    in_dtype,
    literal_of,
    number_or_operand,
    operand,
    real_dtype,
    refuse_out,
    strong,
    to_common_dtype,
)
from pullback.ops import broadcast as sums
from pullback.ops import powers, reduce
from pullback.ops import shape as shapes
from pullback.ops.convert import convert_element_type
from pullback.ops.families import MANY

Mask = ArrayLike | None


class Sum(Protocol):
    def __call__(
        self, a: ArrayLike, axis: Axis = None, dtype: DTypeLike = None, out: None = None, keepdims: bool = False,
        initial: ArrayLike | None = None, where: Mask = None, promote_integers: bool = True,
    ) -> Array: ...  # fmt: skip


class Extreme(Protocol):
    def __call__(
        self, a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None,
        where: Mask = None,
    ) -> Array: ...  # fmt: skip


class Logical(Protocol):
    def __call__(
        self, a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, where: Mask = None
    ) -> Array: ...


class Position(Protocol):
    def __call__(self, a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool = False) -> Array: ...


class Spread(Protocol):
    def __call__(
        self, a: ArrayLike, axis: Axis = None, dtype: DTypeLike = None, out: None = None, ddof: float = 0,
        keepdims: bool = False, where: Mask = None, mean: ArrayLike | None = None, *, correction: float | None = None,
    ) -> Array: ...  # fmt: skip


F = TypeVar("F", bound=Function)

_ARGUMENTS = """    Arguments:
        a: an array of any shape.
        axis: the axis or axes to reduce; all of them by default.
        {}out: None: arrays are immutable.
        keepdims: keep the reduced axes, of size 1.
        where: bools that broadcast to the shape of `a`; elements where they are false are left out.

    Returns:
        An array without the reduced axes, {}

    Raises:
        LeafError: `a` is neither an array nor a number.
        AxisError: an axis that the array does not have, or one given twice.
        TypeError: `out` is not None.
        ShapeError: `where` does not broadcast to the shape of `a`{}"""
_INITIAL = "initial: a number to start from.\n        "
_DTYPE = """dtype: the dtype to reduce in; by default the array's own, or the default integers for narrow ones and bools.
        promote_integers: False to reduce narrow integers in their own dtype.
        """
_OF_MEAN = "dtype: the dtype to compute in; by default the array's own, or the default floating dtype for integers.\n        "
_DDOF = """ddof, correction: two names of what is subtracted from the number of elements n that the sum is divided by: 1 gives
            the unbiased estimate. NaN where n is no larger.
        mean: the mean, with the reduced axes of size 1, where it is known already.
        """
_COMPLEX = ".\n        DtypeError: a real `dtype` for complex numbers."
_NOTHING = """; or there are no elements, and no `initial`.
        ValueError: `where` without `initial`: there may be no element that it chooses."""
_POSITIONS = """    Arguments:
        a: an array of any shape.
        axis: the axis to look along; by default the array is flattened first.
        out: None: arrays are immutable.
        keepdims: keep that axis, of size 1.

    Returns:
        Indices, of the default integer dtype.

    Raises:
        LeafError: `a` is neither an array nor a number.
        AxisError: the array has no such axis.
        TypeError: `out` is not None.
        ShapeError: there are no elements along it."""
_SUMS = _ARGUMENTS.format(_DTYPE + _INITIAL, "in `dtype`.", ".")
_EXTREMES = _ARGUMENTS.format(_INITIAL, "in the dtype of `a`.", _NOTHING)
_MEANS = _ARGUMENTS.format(_OF_MEAN, "in `dtype`; NaN where no element counts.", _COMPLEX)
_SPREADS = _ARGUMENTS.format(_OF_MEAN + _DDOF, "real, in the precision of `dtype`.", _COMPLEX) + (
    "\n        ValueError: both `ddof` and `correction`."
)


def summed_dtype(dtype: DType, promotes: bool = True) -> DType:
    """The dtype in which sums and products of a dtype are taken: bools in integers, and integers in those that are at least as
    wide as the default ones, where that `promotes`."""
    letter = kind(dtype)
    if letter in "bs":
        return default_dtype("i")
    if promotes and letter in "iu" and dtype.itemsize < default_dtype(letter).itemsize:
        return default_dtype(letter)
    return dtype


def kept_shape(type: ArrayType, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with `axes` of size 1."""
    return tuple([1 if axis in axes else size for axis, size in enumerate(type.shape)])


_where = where


def _on_host(ufunc: np.ufunc) -> Function:
    """A reduction by NumPy, in float64 where it would add many numbers one after another."""

    reduce: Function = ufunc.reduce
    adds = ufunc is np.add

    def on_host(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        if adds and a.size > MANY and not (a.flags.c_contiguous and axis in (None, -1, a.ndim - 1)):
            return np.asarray(reduce(a, axis, np.float64, None, keepdims), a.dtype)
        return reduce(a, axis, None, None, keepdims)

    return on_host


def _reduced(primitive: Any, a: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    out = primitive(a, axes=axes) if axes or primitive is not sums.reduce_sum else a
    return shapes.reshape(out, new_sizes=kept_shape(a.type, axes)) if keepdims and axes else out


def _masked(name: str, a: Any, where_: Any, neutral: Any) -> Any:
    """`a` with the neutral element of a reduction where the mask is false."""
    return a if where_ is None else where(_mask(name, where_, a.type.shape), a, neutral)


def _mask(name: str, where_: Any, shape: tuple[int, ...]) -> Any:
    """`where` as bools of the array's shape, to which it must broadcast."""
    mask = operand(where_, name, "where")
    if mask.type.dtype is not BOOL:
        raise DtypeError(f"{name} takes bools as `where`, but got {mask.type}.{at_user_line()}")
    if broadcast_shapes(name, shape, mask.type.shape) != shape:
        raise ShapeError(
            f"{name}: where={mask.type} does not broadcast to the array's shape, {shape}. Give the mask that shape, or sizes of"
            f" 1.{at_user_line()}"
        )
    return broadcast(mask, shape)


def _start(name: str, initial: Any, dtype: DType) -> Any:
    """`initial`, a number, in the dtype of the reduction, which it does not widen."""
    value = in_dtype(number_or_operand(initial, name, "initial"), dtype)
    if value.type.shape:
        raise ShapeError(f"{name} takes one number as initial, but got {value.type}.{at_user_line()}")
    return value


def _sum_like(name: str, primitive: Any, ufunc: np.ufunc, neutral: int, combine: Function, doc: str) -> Sum:
    def function(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
        promote_integers: Any = True,
    ) -> Any:
        if isinstance(a, Tracer) and dtype is out is initial is where is axis is None and not keepdims:
            type = a.type
            if type.dtype in NATIVE_FLOATS and not type.weak and type.shape:
                return bind(primitive, (a,), {"axes": tuple(range(type.ndim))})
        refuse_out(name, out)
        a = operand(a, name)
        wanted = requested(dtype) if dtype is not None else summed_dtype(a.type.dtype, promote_integers)
        a = _masked(name, in_dtype(a, wanted), where, neutral)
        a = in_dtype(a, default_dtype("i")) if kind(wanted) == "b" else a  # of bools, whether any, or all, are true
        found = _reduced(primitive, a, normal_axes(axis, a.type, name), keepdims)
        return strong(in_dtype(found if initial is None else combine(found, _start(name, initial, wanted)), wanted))

    return by_numpy(_on_host(ufunc), NATIVE_FLOATS)(named(function, name, doc, _SUMS))


# fmt: off
sum = _sum_like("sum", sums.reduce_sum, np.add, 0, add, """The sum of elements; 0 where there are none.

    Example:
        >>> x = pnp.array([[1, 2], [3, 4]])
        >>> pnp.sum(x), pnp.sum(x, axis=0), pnp.sum(x, axis=1, keepdims=True).shape
        (10:i32[]:cpu(0), [4 6]:i32[2]:cpu(0), (2, 1))
        >>> pnp.sum(pnp.array([1.0, pnp.nan]), where=pnp.array([True, False]))
        1.0:f32[]:cpu(0)
        >>> pnp.sum(pnp.array([True, True, False]))
        2:i32[]:cpu(0)
    """)
prod = _sum_like("prod", reduce.reduce_prod, np.multiply, 1, multiply, """The product of elements; 1 where there are none.

    Example:
        >>> pnp.prod(pnp.array([[1.0, 2.0], [3.0, 4.0]]), axis=1)
        [ 2. 12.]:f32[2]:cpu(0)
        >>> pnp.prod(pnp.zeros(0))
        1.0:f32[]:cpu(0)
    """)
# fmt: on


def _along(axis: Any) -> str:
    return "all axes" if axis is None else f"axis {axis}" if isinstance(axis, int) else f"axes {axis}"


def _extreme(name: str, primitive: Any, ufunc: np.ufunc, combine: Function, doc: str) -> Extreme:
    def function(
        a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None, where: Any = None
    ) -> Any:
        refuse_out(name, out)
        a = operand(a, name)
        axes = normal_axes(axis, a.type, name)
        if where is not None and initial is None:
            raise ValueError(
                f"{name} with `where` needs an `initial` value, for the case that nothing is chosen.{at_user_line()}"
            )
        if initial is None and 0 in [a.type.shape[i] for i in axes] and a.type.without(axes).size:
            raise ShapeError(
                f"{name} of no elements has no value: {a.type} along {_along(axis)}. Pass `initial`.{at_user_line()}"
            )
        if initial is not None:
            initial = _start(name, initial, a.type.dtype)
        a = _masked(name, a, where, initial)
        found = _reduced(primitive, a, axes, keepdims)
        return strong(found if initial is None else combine(found, initial))

    return by_numpy(_on_host(ufunc), NATIVE_FLOATS)(named(function, name, doc, _EXTREMES))


def _extreme_places(primitive: Any, a: Any, axes: tuple[int, ...]) -> Any:
    """Where complex numbers are extreme along `axes`; where they are NaN, if some are."""
    missing = isnan(a)
    first, second = real(a), imag(a)
    leading = first == _reduced(primitive, first, axes, True)
    leading = leading & (second == _reduced(primitive, where(leading, second, _worst(primitive, second)), axes, True))
    return where(any(missing, axes, keepdims=True), missing, leading)


def _worst(primitive: Any, like: Any) -> Any:
    """What no element is beaten by."""
    dtype = like.type.dtype
    return literal_of(-math.inf if primitive is reduce.reduce_max else math.inf, dtype)


# fmt: off
max = _extreme("max", reduce.reduce_max, np.maximum, maximum, """The largest element; NaN if one of them is.

    Example:
        >>> pnp.max(pnp.array([[1, 5], [7, 2]]), axis=0)
        [7 5]:i32[2]:cpu(0)
        >>> pnp.max(pnp.array([1.0, pnp.nan]))
        nan:f32[]:cpu(0)
        >>> pb.grad(pnp.max)(pnp.array([3.0, 3.0]))  # equal elements share the derivative
        [0.5 0.5]:f32[2]:cpu(0)
        >>> pnp.max(pnp.zeros(0), initial=-1.0)
        -1.0:f32[]:cpu(0)
    """)
min = _extreme("min", reduce.reduce_min, np.minimum, minimum, """The smallest element; NaN if one of them is.

    Example:
        >>> pnp.min(pnp.array([[1, 5], [7, 2]]), axis=1)
        [1 2]:i32[2]:cpu(0)
        >>> pnp.min(pnp.array([4.0, 1.0]), initial=9.0, where=pnp.array([True, False]))
        4.0:f32[]:cpu(0)
    """)
# fmt: on
amax, amin = max, min


def _logical(name: str, primitive: Any, neutral: bool, doc: str) -> Logical:
    def function(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, where: Any = None) -> Any:
        refuse_out(name, out)
        a = as_predicate(a, name)
        a = _masked(name, a, where, neutral)
        return _reduced(primitive, a, normal_axes(axis, a.type, name), keepdims)

    return by_numpy(getattr(np, name))(named(function, name, doc, _ARGUMENTS.format("", "of bools.", ".")))


# fmt: off
any = _logical("any", reduce.reduce_or, False, """Whether an element is true; false where there are none.

    Example:
        >>> pnp.any(pnp.array([[0, 0], [0, 3]]), axis=0)
        [False  True]:bool[2]:cpu(0)
        >>> pnp.any(pnp.zeros(0))
        False:bool[]:cpu(0)
    """)
all = _logical("all", reduce.reduce_and, True, """Whether all elements are true; true where there are none.

    Example:
        >>> pnp.all(pnp.array([[0, 1], [2, 3]]), axis=1)
        [False  True]:bool[2]:cpu(0)
        >>> pnp.all(pnp.zeros(0))
        True:bool[]:cpu(0)
    """)
# fmt: on


def _index(name: str, primitive: Any, doc: str) -> Position:
    def function(a: Any, axis: int | None = None, out: None = None, keepdims: bool = False) -> Any:
        refuse_out(name, out)
        a = operand(a, name)
        original = a.type
        if axis is None:
            a = shapes.reshape(a, new_sizes=(a.type.size,))
        along = 0 if axis is None else normal_axis(axis, a.type.ndim, name)
        if a.type.shape[along] == 0:
            raise ShapeError(
                f"{name} of no elements has no value: {original} along {_along(axis)}. Pass `initial`, or an array that has"
                f" elements there.{at_user_line()}"
            )
        if kind(a.type.dtype) == "c":  # the first place that is extreme
            best = reduce.reduce_max if primitive is reduce.argmax else reduce.reduce_min
            found = reduce.argmax(_extreme_places(best, a, (along,)), axis=along, index_dtype=default_dtype("i"))
        else:
            found = primitive(a, axis=along, index_dtype=default_dtype("i"))
        if keepdims:
            axes = tuple(range(original.ndim)) if axis is None else (along,)
            found = shapes.reshape(found, new_sizes=kept_shape(original, axes))
        return found

    def on_host(a: Any, axis: int | None = None, *, keepdims: bool = False) -> Any:
        return getattr(np, name)(a, axis, keepdims=keepdims).astype(default_dtype("i"))

    return by_numpy(on_host, NATIVE_FLOATS)(named(function, name, doc, _POSITIONS))


# fmt: off
argmax = _index("argmax", reduce.argmax, """The index of the first largest element; of the first NaN, if there is one.

    Example:
        >>> pnp.argmax(pnp.array([[1, 7], [7, 2]]))
        1:i32[]:cpu(0)
        >>> pnp.argmax(pnp.array([[1, 7], [7, 2]]), axis=0)
        [1 0]:i32[2]:cpu(0)
        >>> pnp.argmax(pnp.array([1.0, pnp.nan, 9.0]))
        1:i32[]:cpu(0)
    """)
argmin = _index("argmin", reduce.argmin, """The index of the first smallest element; of the first NaN, if there is one.

    Example:
        >>> pnp.argmin(pnp.array([3, 1, 1]))
        1:i32[]:cpu(0)
        >>> pnp.argmin(pnp.array([[3, 1], [0, 5]]), axis=1)
        [1 0]:i32[2]:cpu(0)
    """)
# fmt: on


def count_of(name: str, a: Any, axes: tuple[int, ...], where_: Any, keepdims: bool) -> Any:
    """How many elements each result of a reduction is made of: a Python float, or an array where a mask decides."""
    if where_ is None:
        return float(math.prod([a.type.shape[axis] for axis in axes]))
    counted = sum(_mask(name, where_, a.type.shape), axes, keepdims=keepdims)
    return convert_element_type(counted, new_dtype=real_dtype(float_for(a.type.dtype)))


def _averaged(name: str, a: Any, asked: Any) -> tuple[Array, DType]:
    """What is averaged, and the dtype of the mean: the one asked for, or the array's own, or the default floating one.

    Floats of less than 32 bits are averaged in float32: their sums overflow, or lose what is small beside them.
    """
    a = operand(a, name)
    own = a.type.dtype
    wanted = requested(asked) if asked is not None else float_for(own)
    truncates = name in ("mean", "nanmean") and current_mode().truncates
    if kind(own) == "c" and kind(wanted) != "c" and not truncates:
        raise DtypeError(f"{name} of complex numbers takes a complex dtype, but got {wanted.name}.{at_user_line()}")
    a = in_dtype(a, wanted)
    return in_dtype(a, accumulation_dtype(wanted)), wanted


_sum_on_host = _on_host(np.add)


def _mean_on_host(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    total = _sum_on_host(a, axis, keepdims=keepdims)
    return total / (a.size / total.size)


@by_numpy(_mean_on_host, NATIVE_FLOATS)
def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    where: Mask = None,
) -> Array:
    """The arithmetic mean; NaN where there are no elements.

    Arguments:
        a: an array of any shape; integers are averaged in the default floating dtype.
        axis: the axis or axes to average over; all by default.
        dtype: the dtype to compute in; floats of 16 bits and fewer are accumulated in float32 all the same.
        out: None: arrays are immutable.
        keepdims: keep the reduced axes, of size 1.
        where: bools that broadcast to the shape of `a`; elements where they are false are left out.

    Returns:
        An array without the reduced axes, in `dtype`.

    Raises:
        LeafError: `a` is neither an array nor a number.
        AxisError: the array has no such axis, or one is given twice.
        ShapeError: `where` does not broadcast to the shape of `a`.
        DtypeError: a real `dtype` for complex numbers.
        TypeError: `out` is not None.

    Example:
        >>> pnp.mean(pnp.array([[1, 2], [4, 8]]), axis=0)
        [2.5 5. ]:f32[2]:cpu(0)
        >>> pnp.mean(pnp.zeros(0))
        nan:f32[]:cpu(0)
    """
    refuse_out("mean", out)
    a, wanted = _averaged("mean", a, dtype)
    axes = normal_axes(axis, a.type, "mean")
    total = sum(a, axes, a.type.dtype, keepdims=keepdims, where=where)
    return strong(in_dtype(divide(total, count_of("mean", a, axes, where, keepdims)), wanted))


_mean = mean


def _spread(name: str, finish: Function, doc: str) -> Spread:
    def function(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        ddof: Any = 0,
        keepdims: Any = False,
        where: Any = None,
        mean: Any = None,
        *,
        correction: Any = None,
    ) -> Any:
        refuse_out(name, out)
        if correction is not None and ddof != 0:
            raise ValueError(
                f"{name} takes ddof or correction, two names of one thing; got {ddof} and {correction}.{at_user_line()}"
            )
        a, wanted = _averaged(name, a, dtype)  # a square may overflow the dtype that the result is to have
        axes = normal_axes(axis, a.type, name)
        center = mean
        if mean is None:
            center = _mean(a, axes, None if is_inexact(wanted) else float_for(wanted), keepdims=True, where=where)
        centered = _masked(name, subtract(a, center), where, 0)  # now, lest the derivative of a NaN's square be used
        squares = real(multiply(centered, conj(centered))) if kind(wanted) == "c" else powers.square(centered)
        total = sum(squares, axes, keepdims=keepdims)
        count = count_of(name, a, axes, where, keepdims) - (ddof if correction is None else correction)
        if not isinstance(count, float):
            total, count = multiply(total, _where(count > 0, 1.0, 0.0)), _where(count > 0, count, 0.0)  # of too few 0 / 0
        elif count <= 0:
            total, count = multiply(total, 0.0), 0.0
        # as NumPy has it, a complex dtype that was asked for is that of the result too
        return strong(in_dtype(finish(divide(total, count)), real_dtype(wanted) if dtype is None else wanted))

    def on_host(a: Any, axis: Any = None, *, ddof: int = 0, keepdims: bool = False) -> Any:
        size = a.size if axis is None else math.prod([a.shape[i] for i in ((axis,) if axis.__class__ is int else axis)])
        if ddof >= size or (axis is not None and a.size > MANY):
            raise ValueError  # NumPy divides by 0, or adds many numbers one after another
        return getattr(np.ascontiguousarray(a), name)(axis, ddof=ddof, keepdims=keepdims)

    return by_numpy(on_host, NATIVE_FLOATS)(named(function, name, doc, _SPREADS))


# fmt: off
var = _spread("var", lambda variance: variance, """The variance: the mean of |a - mean|^2.

    Example:
        >>> x = pnp.array([1.0, 3.0])
        >>> pnp.var(x), pnp.var(x, ddof=1)
        (1.0:f32[]:cpu(0), 2.0:f32[]:cpu(0))
    """)
std = _spread("std", sqrt, """The standard deviation: the square root of `var`.

    Example:
        >>> pnp.std(pnp.array([[1.0, 3.0], [2.0, 6.0]]), axis=1)
        [1. 2.]:f32[2]:cpu(0)
        >>> pnp.std(pnp.array([1.0]), ddof=1)
        nan:f32[]:cpu(0)
    """)
# fmt: on


def ptp(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """Peak to peak: the largest element minus the smallest.

    Arguments:
        a: an array of any shape, of numbers.
        axis: the axis or axes to reduce; all of them by default.
        out: None: arrays are immutable.
        keepdims: keep the reduced axes, of size 1.

    Returns:
        An array without the reduced axes, in the dtype of `a`.

    Raises:
        LeafError: `a` is neither an array nor a number.
        DtypeError: `a` is bool.
        AxisError: the array has no such axis, or one is given twice.
        ShapeError: there are no elements.
        TypeError: `out` is not None.

    Example:
        >>> pnp.ptp(pnp.array([[3, 9], [1, 2]]), axis=1)
        [6 1]:i32[2]:cpu(0)
    """
    refuse_out("ptp", out)
    a = operand(a, "ptp")
    axes = normal_axes(axis, a.type, "ptp")
    return subtract(max(a, axes, keepdims=keepdims), min(a, axes, keepdims=keepdims))


@by_numpy(lambda a, axis=None, keepdims=False: np.asarray(np.count_nonzero(a, axis, keepdims=keepdims), default_dtype("i")))
def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """How many elements differ from 0.

    Arguments:
        a: an array of any shape and dtype.
        axis: the axis or axes to reduce; all of them by default.
        keepdims: keep the reduced axes, of size 1.

    Returns:
        An array without the reduced axes, of the default integer dtype.

    Raises:
        LeafError: `a` is neither an array nor a number.
        AxisError: the array has no such axis, or one is given twice.

    Example:
        >>> pnp.count_nonzero(pnp.array([[0, 1], [2, 3]]), axis=0)
        [1 2]:i32[2]:cpu(0)
    """
    a = as_predicate(a, "count_nonzero")
    return sum(a, normal_axes(axis, a.type, "count_nonzero"), keepdims=keepdims)


def average(
    a: ArrayLike, axis: Axis = None, weights: ArrayLike | None = None, returned: bool = False, keepdims: bool = False
) -> Any:
    """The weighted mean: sum(a * weights) / sum(weights).

    Arguments:
        a: an array of any shape.
        axis: the axis or axes to average over; all of them by default.
        weights: of the shape of `a`; or of its sizes along `axis`, in that order. None for equal weights.
        returned: whether to return the sum of the weights as well.
        keepdims: keep the reduced axes, of size 1.

    Returns:
        An array without the reduced axes, of a floating or complex dtype; or a pair of such arrays.

    Raises:
        LeafError: `a` or `weights` is neither an array nor a number.
        AxisError: the array has no such axis, or one is given twice.
        ShapeError: the shape of the weights does not fit.

    Example:
        >>> pnp.average(pnp.array([1.0, 5.0]), weights=pnp.array([3, 1]))
        2.0:f32[]:cpu(0)
        >>> pnp.average(pnp.array([1.0, 5.0]), weights=pnp.array([3, 1]), returned=True)
        (2.0:f32[]:cpu(0), 4.0:f32[]:cpu(0))
    """
    a = operand(a, "average")
    if weights is None:
        out = mean(a, axis, keepdims=keepdims)
        total: Any = in_dtype(divide(a.type.size, float(out.type.size or 1)), out.type.dtype)
    else:
        weights = operand(weights, "average")
        if weights.type.shape != a.type.shape:
            along = [normal_axis(one, a.type.ndim, "average") for one in several(() if axis is None else axis)]
            if weights.type.shape != tuple([a.type.shape[i] for i in along]):
                raise ShapeError(
                    f"average: weights of type {weights.type} do not fit {a.type} along {axis}. Give one for each element of"
                    f" that axis, or of the whole array.{at_user_line()}"
                )
            order = sorted(range(len(along)), key=along.__getitem__)
            weights = shapes.transpose(weights, permutation=tuple(order))
            weights = sums.broadcast_in_dim(weights, shape=a.type.shape, broadcast_dimensions=tuple(sorted(along)))
        a, weights = to_common_dtype("average", a, weights, inexact=True)
        wanted = a.type.dtype
        a, weights = [in_dtype(one, accumulation_dtype(wanted)) for one in (a, weights)]
        total = sum(weights, axis, keepdims=keepdims)
        out = strong(in_dtype(divide(sum(multiply(a, weights), axis, keepdims=keepdims), total), wanted))
        total = in_dtype(total, wanted)
    return (out, broadcast(strong(total), out.type.shape)) if returned else out


# ---- leaving NaN out ------------------------------------------------------------------------------------------------


# The positional parameters of the functions below, after the array and the axis, as JAX has them.
_OF_EXTREMES = ("out", "keepdims", "initial", "where")
_OF_SUMS = ("dtype", *_OF_EXTREMES, "promote_integers")
_OF_MEANS = ("dtype", "out", "keepdims", "where")
_OF_SPREADS = ("dtype", "out", "ddof", "keepdims", "where", "mean")


def _options(name: str, parameters: tuple[str, ...], args: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    """All arguments of a call by their names."""
    if len(args) > len(parameters) or options.keys() & set(parameters[: len(args)]):
        raise TypeError(f"{name} takes {', '.join(parameters)}, each once.{at_user_line()}")
    return options | dict(zip(parameters, args))


def _without_nan(name: str, neutral: float, reduce_: F, sections: str, doc: str) -> F:
    @functools.wraps(reduce_)
    def function(a: Any, axis: Any = None, *args: Any, **options: Any) -> Any:
        a = operand(a, name)
        axis = normal_axes(axis, a.type, name)
        options = _options(name, _OF_EXTREMES if math.isinf(neutral) else _OF_SUMS, args, options)
        if not is_inexact(a.type.dtype):
            return reduce_(a, axis, **options)
        missing = isnan(a)
        filling = neutral
        if math.isinf(neutral) and kind(a.type.dtype) == "f":  # not every kind of float8 has infinities
            limit: Any = reduce.lowest if neutral < 0 else reduce.highest
            filling = float(limit(a.type.dtype))
        out = reduce_(where(missing, filling, a), axis, **options)
        if neutral in (0, 1) or options.get("initial") is not None:
            return out
        return where(all(missing, axis, keepdims=options.get("keepdims", False)), math.nan, out)

    return named(function, name, doc, sections)  # type: ignore[return-value]


# fmt: off
nansum = _without_nan("nansum", 0.0, sum, _SUMS, """The sum of the elements that are not NaN.

    Example:
        >>> pnp.nansum(pnp.array([1.0, pnp.nan, 2.0]))
        3.0:f32[]:cpu(0)
        >>> pnp.nansum(pnp.array([pnp.nan]))
        0.0:f32[]:cpu(0)
    """)
nanprod = _without_nan("nanprod", 1.0, prod, _SUMS, """The product of the elements that are not NaN.

    Example:
        >>> pnp.nanprod(pnp.array([[2.0, pnp.nan], [3.0, 4.0]]), axis=1)
        [ 2. 12.]:f32[2]:cpu(0)
    """)
nanmax = _without_nan("nanmax", -math.inf, max, _EXTREMES, """The largest element that is not NaN; NaN if there is none.

    Example:
        >>> pnp.nanmax(pnp.array([[1.0, pnp.nan], [pnp.nan, pnp.nan]]), axis=1)
        [ 1. nan]:f32[2]:cpu(0)
    """)
nanmin = _without_nan("nanmin", math.inf, min, _EXTREMES, """The smallest element that is not NaN; NaN if there is none.

    Example:
        >>> pnp.nanmin(pnp.array([3.0, pnp.nan, 2.0]))
        2.0:f32[]:cpu(0)
    """)
# fmt: on


def _of_present(name: str, reduce_: F, sections: str, doc: str) -> F:
    @functools.wraps(reduce_)
    def function(a: Any, axis: Any = None, *args: Any, **options: Any) -> Any:
        a = operand(a, name)
        options = _options(name, _OF_MEANS if reduce_ is mean else _OF_SPREADS, args, options)
        if is_inexact(a.type.dtype):
            chosen = options.get("where")
            options["where"] = a == a if chosen is None else (a == a) & as_predicate(chosen, name)
        return reduce_(a, normal_axes(axis, a.type, name), **options)

    return named(function, name, doc, sections)  # type: ignore[return-value]


# fmt: off
nanmean = _of_present("nanmean", mean, _MEANS, """The mean of the elements that are not NaN.

    Example:
        >>> pnp.nanmean(pnp.array([[1.0, pnp.nan, 3.0], [pnp.nan, pnp.nan, pnp.nan]]), axis=1)
        [ 2. nan]:f32[2]:cpu(0)
    """)
nanvar = _of_present("nanvar", var, _SPREADS, """The variance of the elements that are not NaN.

    Example:
        >>> pnp.nanvar(pnp.array([1.0, pnp.nan, 3.0]))
        1.0:f32[]:cpu(0)
    """)
nanstd = _of_present("nanstd", std, _SPREADS, """The standard deviation of the elements that are not NaN.

    Example:
        >>> pnp.nanstd(pnp.array([1.0, pnp.nan, 5.0]), ddof=1)
        2.828427:f32[]:cpu(0)
    """)
# fmt: on
