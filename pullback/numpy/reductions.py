"""Reductions: sums, products, extremes, means and the like, over all axes or some."""

from __future__ import annotations

import functools
import math
from typing import Any, Protocol, TypeVar

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.dtypes import DType, DTypeLike, accumulation_dtype, default_dtype, is_inexact, kind, requested
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.tracing import Tracer, _quiet_numpy, bind, innermost_staging
from pullback.core.types import ArrayType, array_type
from pullback.numpy.arithmetic import add, divide, maximum, minimum, multiply, subtract
from pullback.numpy.axes import Axis, normal_axes, normal_axis
from pullback.numpy.complexes import conj, imag, real
from pullback.numpy.elementary import sqrt
from pullback.numpy.factories import Function, named
from pullback.numpy.logic import as_predicate, isclose, isnan, logical_not, where
from pullback.numpy.promotion import (
    NATIVE_FLOATS,
    at_user_line,
    broadcast,
    broadcast_shapes,
    in_dtype,
    literal_of,
    number_or_operand,
    operand,
    real_dtype,
    strong,
    to_common_dtype,
)
from pullback.ops import broadcast as sums
from pullback.ops import complex as complexes
from pullback.ops import powers, reduce
from pullback.ops import shape as shapes
from pullback.ops.convert import convert_element_type

Mask = ArrayLike | None


class Sum(Protocol):
    def __call__(
        self, a: ArrayLike, axis: Axis = None, dtype: DTypeLike = None, *,
        keepdims: bool = False, initial: ArrayLike | None = None, where: Mask = None,
    ) -> Array: ...  # fmt: skip


class Extreme(Protocol):
    def __call__(
        self, a: ArrayLike, axis: Axis = None, *, keepdims: bool = False, initial: ArrayLike | None = None, where: Mask = None
    ) -> Array: ...


class Logical(Protocol):
    def __call__(self, a: ArrayLike, axis: Axis = None, *, keepdims: bool = False, where: Mask = None) -> Array: ...


class Position(Protocol):
    def __call__(self, a: ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> Array: ...


class Spread(Protocol):
    def __call__(
        self, a: ArrayLike, axis: Axis = None, dtype: DTypeLike = None, *,
        ddof: float = 0, correction: float | None = None, keepdims: bool = False, where: Mask = None,
    ) -> Array: ...  # fmt: skip


F = TypeVar("F", bound=Function)

_ARGUMENTS = """
    Arguments:
        a: an array.
        axis: the axis or axes to reduce; all of them by default.
        {extra}keepdims: keep the reduced axes, of size 1.
        initial: a value to start from. where: bools; elements where they are false are left out.

    Returns:
        An array without the reduced axes{result}.

    Raises:
        AxisError: an axis that the array does not have, or one given twice.
"""


def summed_dtype(dtype: DType) -> DType:
    """The dtype in which sums and products of a dtype are taken: integers at least as wide as the default ones."""
    letter = kind(dtype)
    if letter == "b":
        return default_dtype("i")
    if letter in "iu" and dtype.itemsize < default_dtype(letter).itemsize:
        return default_dtype(letter)
    return dtype


def kept_shape(type: ArrayType, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with `axes` of size 1."""
    return tuple([1 if axis in axes else size for axis, size in enumerate(type.shape)])


_where = where


def _by_numpy(ufunc: np.ufunc, a: Any, axis: Any, keepdims: Any) -> Array | None:
    """The fast path: a reduction of floating-point numbers in NumPy memory along axes that there are; None if it is another."""
    if a.__class__ is Array and keepdims.__class__ is bool and innermost_staging() is None:
        type, host = a.type, a._host
        if host is not None and type.dtype in NATIVE_FLOATS and not type.weak and type.shape and 0 not in type.shape:
            ndim = type.ndim
            axes = () if axis is None else axis if axis.__class__ is tuple else (axis,)
            if len({i % ndim for i in axes if i.__class__ is int and -ndim <= i < ndim}) == len(axes):
                out = _quiet_numpy.run(ufunc.reduce, host, axis, None, None, keepdims)  # type: ignore[call-arg]
                return Array(array_type(out.shape, type.dtype), out)
    return None


def _reduced(primitive: Any, a: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    out = primitive(a, axes=axes) if axes or primitive is not sums.reduce_sum else a
    return shapes.reshape(out, new_sizes=kept_shape(a.type, axes)) if keepdims and axes else out


def _masked(name: str, a: Any, where_: Any, neutral: Any) -> Any:
    """`a` with the neutral element of a reduction where the mask is false."""
    return a if where_ is None else where(_mask(name, where_, a.type.shape), a, neutral)


def _mask(name: str, where_: Any, shape: tuple[int, ...]) -> Any:
    """`where` as bools of the array's shape, to which it must broadcast."""
    mask = as_predicate(where_, name)
    if broadcast_shapes(name, shape, mask.type.shape) != shape:
        raise ShapeError(f"{name}: where={mask.type} does not broadcast to the array's shape, {shape}.{at_user_line()}")
    return broadcast(mask, shape)


def _start(name: str, initial: Any, dtype: DType) -> Any:
    """`initial` in the dtype of the reduction, which it does not widen."""
    return in_dtype(number_or_operand(initial, name, "initial"), dtype)


def _sum_like(name: str, primitive: Any, ufunc: np.ufunc, neutral: int, combine: Function, doc: str) -> Sum:
    def function(
        a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = None
    ) -> Any:
        if dtype is initial is where is None:
            if (out := _by_numpy(ufunc, a, axis, keepdims)) is not None:
                return out
            if axis is None and not keepdims and isinstance(a, Tracer):
                type = a.type
                if type.dtype in NATIVE_FLOATS and not type.weak and type.shape:
                    return bind(primitive, (a,), {"axes": tuple(range(type.ndim))})
        a = operand(a, name)
        wanted = summed_dtype(a.type.dtype) if dtype is None else requested(dtype)
        a = _masked(name, in_dtype(a, wanted), where, neutral)
        a = in_dtype(a, default_dtype("i")) if kind(wanted) == "b" else a  # of bools, whether any, or all, are true
        out = _reduced(primitive, a, normal_axes(axis, a.type, name), keepdims)
        return strong(in_dtype(out if initial is None else combine(out, _start(name, initial, wanted)), wanted))

    extra = (
        "dtype: the dtype to sum in; by default the array's own, or the default integers for narrow ones and bools.\n        "
    )
    return named(function, name, doc + "\n" + _ARGUMENTS.format(extra=extra, result=""))


sum = _sum_like("sum", sums.reduce_sum, np.add, 0, add, "The sum of elements; 0 where there are none.")
prod = _sum_like("prod", reduce.reduce_prod, np.multiply, 1, multiply, "The product of elements; 1 where there are none.")


def _extreme(name: str, primitive: Any, ufunc: np.ufunc, combine: Function, doc: str) -> Extreme:
    def function(a: Any, axis: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = None) -> Any:
        if initial is where is None and (found := _by_numpy(ufunc, a, axis, keepdims)) is not None:
            return found
        a = operand(a, name)
        axes = normal_axes(axis, a.type, name)
        if where is not None and initial is None:
            raise ValueError(
                f"{name} with `where` needs an `initial` value, for the case that nothing is chosen.{at_user_line()}"
            )
        if initial is None and 0 in [a.type.shape[i] for i in axes] and a.type.without(axes).size:
            raise ShapeError(f"{name} of no elements has no value: {a.type} along {axis}. Pass `initial`.{at_user_line()}")
        if initial is not None:
            initial = _start(name, initial, a.type.dtype)
        a = _masked(name, a, where, initial)
        reduced = _complex_extreme if kind(a.type.dtype) == "c" else _reduced
        out = reduced(primitive, a, axes, keepdims)
        return strong(out if initial is None else combine(out, initial))

    return named(function, name, doc + "\n" + _ARGUMENTS.format(extra="", result=""))


def _complex_extreme(primitive: Any, a: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The extreme complex number as NumPy orders them: by real parts, then by imaginary ones; NaN if there is one."""
    chosen = _extreme_places(primitive, a, axes)
    parts = [_reduced(primitive, where(chosen, part, _worst(primitive, part)), axes, keepdims) for part in (real(a), imag(a))]
    return complexes.complex(*parts)


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


max = _extreme("max", reduce.reduce_max, np.maximum, maximum, "The largest element; NaN if one of them is.")
min = _extreme("min", reduce.reduce_min, np.minimum, minimum, "The smallest element; NaN if one of them is.")
amax, amin = max, min


def _logical(name: str, primitive: Any, neutral: bool, doc: str) -> Logical:
    def function(a: Any, axis: Any = None, *, keepdims: bool = False, where: Any = None) -> Any:
        a = as_predicate(a, name)
        a = _masked(name, a, where, neutral)
        return _reduced(primitive, a, normal_axes(axis, a.type, name), keepdims)

    text = _ARGUMENTS.format(extra="", result="; bool").replace("initial: a value to start from. ", "")
    return named(function, name, doc + "\n" + text)


any = _logical("any", reduce.reduce_or, False, "Whether an element is true; false where there are none.")
all = _logical("all", reduce.reduce_and, True, "Whether all elements are true; true where there are none.")


def _index(name: str, primitive: Any, doc: str) -> Position:
    def function(a: Any, axis: int | None = None, *, keepdims: bool = False) -> Any:
        a = operand(a, name)
        original = a.type
        if axis is None:
            a = shapes.reshape(a, new_sizes=(a.type.size,))
        along = 0 if axis is None else normal_axis(axis, a.type.ndim, name)
        if a.type.shape[along] == 0:
            raise ShapeError(f"{name} of no elements has no value: {original} along {axis}.{at_user_line()}")
        if kind(a.type.dtype) == "c":  # the first place that is extreme
            best = reduce.reduce_max if primitive is reduce.argmax else reduce.reduce_min
            out = reduce.argmax(_extreme_places(best, a, (along,)), axis=along, index_dtype=default_dtype("i"))
        else:
            out = primitive(a, axis=along, index_dtype=default_dtype("i"))
        if keepdims:
            axes = tuple(range(original.ndim)) if axis is None else (along,)
            out = shapes.reshape(out, new_sizes=kept_shape(original, axes))
        return out

    text = (
        "    Arguments:\n        a: an array. axis: the axis to look along; by default the array is flattened first.\n"
        "        keepdims: keep that axis, of size 1.\n\n    Returns:\n        Indices, of the default integer dtype.\n"
    )
    return named(function, name, f"{doc}\n\n{text}")


argmax = _index("argmax", reduce.argmax, "The index of the first largest element; of the first NaN, if there is one.")
argmin = _index("argmin", reduce.argmin, "The index of the first smallest element; of the first NaN, if there is one.")


def _count(name: str, a: Any, axes: tuple[int, ...], where_: Any, keepdims: bool) -> Any:
    """How many elements each result of a reduction is made of: a Python float, or an array where a mask decides."""
    if where_ is None:
        return float(math.prod([a.type.shape[axis] for axis in axes]))
    counted = sum(_mask(name, where_, a.type.shape), axes, keepdims=keepdims)
    return convert_element_type(counted, new_dtype=real_dtype(a.type.dtype if is_inexact(a.type.dtype) else default_dtype("f")))


def _averaged(name: str, a: Any, asked: Any) -> tuple[Array, DType]:
    """What is averaged, and the dtype of the mean: the one asked for, or the array's own, or the default floating one.

    Floats of less than 32 bits are averaged in float32: their sums overflow, or lose what is small beside them.
    """
    a = operand(a, name)
    own = a.type.dtype
    wanted = requested(asked) if asked is not None else own if is_inexact(own) else default_dtype("f")
    if kind(own) == "c" and kind(wanted) != "c":
        raise DtypeError(f"{name} of complex numbers takes a complex dtype, but got {wanted.name}.{at_user_line()}")
    a = in_dtype(a, wanted)
    return in_dtype(a, accumulation_dtype(wanted)), wanted


def mean(a: ArrayLike, axis: Axis = None, dtype: DTypeLike = None, *, keepdims: bool = False, where: Mask = None) -> Array:
    """The arithmetic mean; NaN where there are no elements.

    Arguments:
        a: an array; integers are averaged in the default floating dtype.
        axis: the axis or axes to average over; all by default.
        dtype: the dtype to compute in. keepdims: keep the reduced axes, of size 1. where: which elements count.

    Returns:
        An array without the reduced axes.

    Example:
        >>> import pullback as pb
        >>> pb.numpy.mean(pb.numpy.asarray([1.0, 2.0, 4.0]))
        2.3333333:f32[]:cpu(0)
    """
    if dtype is None and where is None and (total := _by_numpy(np.add, a, axis, keepdims)) is not None:
        return divide(total, a.size / total.size)  # type: ignore[union-attr]
    a, wanted = _averaged("mean", a, dtype)
    axes = normal_axes(axis, a.type, "mean")
    total = sum(a, axes, a.type.dtype, keepdims=keepdims, where=where)
    return strong(in_dtype(divide(total, _count("mean", a, axes, where, keepdims)), wanted))


def _spread(name: str, finish: Function, doc: str) -> Spread:
    def function(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        *,
        ddof: Any = 0,
        correction: Any = None,
        keepdims: Any = False,
        where: Any = None,
    ) -> Any:
        if correction is not None and ddof != 0:
            raise ValueError(
                f"{name} takes ddof or correction, two names of one thing; got {ddof} and {correction}.{at_user_line()}"
            )
        a, wanted = _averaged(name, a, dtype)  # a square may overflow the dtype that the result is to have
        axes = normal_axes(axis, a.type, name)
        center = mean(a, axes, None if is_inexact(wanted) else default_dtype("f"), keepdims=True, where=where)
        centered = subtract(a, center)
        squares = real(multiply(centered, conj(centered))) if kind(wanted) == "c" else powers.square(centered)
        total = sum(squares, axes, keepdims=keepdims, where=where)
        count = _count(name, a, axes, where, keepdims) - (ddof if correction is None else correction)
        if isinstance(count, float):
            count = count if count > 0 else math.nan
        else:
            count = _where(count > 0, count, math.nan)
        return strong(in_dtype(finish(divide(total, count)), real_dtype(wanted)))

    return named(function, name, doc)


var = _spread(
    "var",
    lambda variance: variance,
    """The variance: the mean of |a - mean|^2.

    Arguments:
        a: an array. axis: the axis or axes to reduce; all by default.
        ddof, correction: the sum is divided by n minus this (two names of one thing); 1 gives the unbiased estimate, and NaN
            where n is no larger.
        dtype, keepdims, where: as for `mean`.

    Example:
        >>> import pullback as pb
        >>> pb.numpy.var(pb.numpy.asarray([1.0, 3.0]))
        1.0:f32[]:cpu(0)
    """,
)
std = _spread("std", sqrt, "The standard deviation: the square root of `var`, with the same arguments.")


def ptp(a: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Peak to peak: the largest element minus the smallest."""
    a = operand(a, "ptp")
    axes = normal_axes(axis, a.type, "ptp")
    return subtract(max(a, axes, keepdims=keepdims), min(a, axes, keepdims=keepdims))


def count_nonzero(a: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """How many elements differ from 0."""
    a = as_predicate(a, "count_nonzero")
    return sum(a, normal_axes(axis, a.type, "count_nonzero"), keepdims=keepdims)


def average(
    a: ArrayLike, axis: Axis = None, weights: ArrayLike | None = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    """The weighted mean: sum(a * weights) / sum(weights).

    Arguments:
        weights: of the shape of `a`; or a vector as long as `a` is along `axis`. None for equal weights.
        returned: whether to return the sum of the weights as well.
    """
    a = operand(a, "average")
    if weights is None:
        out = mean(a, axis, keepdims=keepdims)
        total: Any = in_dtype(divide(a.type.size, float(out.type.size or 1)), out.type.dtype)
    else:
        weights = operand(weights, "average")
        if weights.type.shape != a.type.shape:
            if axis is None or isinstance(axis, (tuple, list)) or weights.type.ndim != 1:
                raise ShapeError(f"average: weights of type {weights.type} do not fit {a.type} along {axis}.{at_user_line()}")
            along = normal_axis(axis, a.type.ndim, "average")
            unit = tuple(weights.type.size if i == along else 1 for i in range(a.type.ndim))
            weights = broadcast(shapes.reshape(weights, new_sizes=unit), a.type.shape)
        a, weights = to_common_dtype("average", a, weights, inexact=True)
        wanted = a.type.dtype
        a, weights = [in_dtype(one, accumulation_dtype(wanted)) for one in (a, weights)]
        total = sum(weights, axis, keepdims=keepdims)
        out = strong(in_dtype(divide(sum(multiply(a, weights), axis, keepdims=keepdims), total), wanted))
        total = in_dtype(total, wanted)
    return (out, broadcast(strong(total), out.type.shape)) if returned else out


# ---- leaving NaN out ------------------------------------------------------------------------------------------------


def _without_nan(name: str, neutral: float, reduce_: F, doc: str) -> F:
    @functools.wraps(reduce_)
    def function(a: Any, axis: Any = None, *args: Any, **options: Any) -> Any:
        a = operand(a, name)
        axis = normal_axes(axis, a.type, name)
        if not is_inexact(a.type.dtype):
            return reduce_(a, axis, *args, **options)
        missing = isnan(a)
        out = reduce_(where(missing, neutral, a), axis, *args, **options)
        if neutral in (0, 1) or options.get("initial") is not None:
            return out
        return where(all(missing, axis, keepdims=options.get("keepdims", False)), math.nan, out)

    return named(function, name, f"{doc} Arguments are those of `{name.removeprefix('nan')}`.")  # type: ignore[return-value]


nansum = _without_nan("nansum", 0.0, sum, "The sum of the elements that are not NaN.")
nanprod = _without_nan("nanprod", 1.0, prod, "The product of the elements that are not NaN.")
nanmax = _without_nan("nanmax", -math.inf, max, "The largest element that is not NaN; NaN if there is none.")
nanmin = _without_nan("nanmin", math.inf, min, "The smallest element that is not NaN; NaN if there is none.")


def _of_present(name: str, reduce_: F, doc: str) -> F:
    @functools.wraps(reduce_)
    def function(a: Any, axis: Any = None, *args: Any, where: Any = None, **options: Any) -> Any:
        a = operand(a, name)
        if is_inexact(a.type.dtype):
            where = a == a if where is None else (a == a) & as_predicate(where, name)
        return reduce_(a, normal_axes(axis, a.type, name), *args, where=where, **options)

    return named(function, name, f"{doc} Arguments are those of `{name.removeprefix('nan')}`.")  # type: ignore[return-value]


nanmean = _of_present("nanmean", mean, "The mean of the elements that are not NaN.")
nanvar = _of_present("nanvar", var, "The variance of the elements that are not NaN.")
nanstd = _of_present("nanstd", std, "The standard deviation of the elements that are not NaN.")


def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Whether two arrays have one shape and equal elements; a 0-d bool."""
    a1, a2 = operand(a1, "array_equal"), operand(a2, "array_equal")
    if a1.type.shape != a2.type.shape:
        return strong(operand(False, "array_equal"))
    same = a1 == a2
    if equal_nan:
        same = same | (isnan(a1) & isnan(a2))
    return all(same)


def allclose(a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-5, atol: ArrayLike = 1e-8, equal_nan: bool = False) -> Array:
    """Whether all elements are close, as `isclose` has it; a 0-d bool."""
    return all(isclose(a, b, rtol, atol, equal_nan))


def isin(element: ArrayLike, test_elements: ArrayLike, *, invert: bool = False) -> Array:
    """Whether each element is one of `test_elements`."""
    a, b = to_common_dtype("isin", element, test_elements)
    spread = shapes.reshape(a, new_sizes=(*a.type.shape, 1))
    found = any(spread == shapes.reshape(b, new_sizes=(b.type.size,)), -1)
    return logical_not(found) if invert else found
