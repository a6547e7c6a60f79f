"""Combining the elements along axes: products, extremes, logic, and where the extremes are."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from pullback.core.dtypes import INT32, accumulation_dtype, canonical, kind
from pullback.core.errors import ShapeError
from pullback.core.primitive import primitive
from pullback.core.tracing import type_of
from pullback.core.types import array_type
from pullback.core.zero import ZERO
from pullback.ops.arithmetic import add, div, mul
from pullback.ops.barrier import computed_once
from pullback.ops.bitwise import or_
from pullback.ops.broadcast import broadcast_in_dim, reduce_sum
from pullback.ops.compare import eq, ne, select
from pullback.ops.convert import convert_element_type
from pullback.ops.families import Reduction, check_kinds, reducing, without
from pullback.ops.formulas import Written
from pullback.ops.literals import literal
from pullback.ops.ordering import extreme
from pullback.ops.shape import concatenate, reshape, transpose
from pullback.ops.shape import slice as slice_of
from pullback.stablehlo.writer import TensorType


@primitive
class reduce_prod(Reduction):
    """Product over `axes`, which vanish. Integers wrap around as their dtype does."""

    kinds = "iufc"
    accumulation = accumulation_dtype
    evaluate, lower = reducing(np.multiply, "stablehlo.multiply", 1)

    def jvp(primals, tangents, *, axes):
        (x,), (t,) = primals, tangents
        return reduce_prod(x, axes=axes), product_rule(gathered(x, axes), gathered(t, axes))

    def samples(rng):
        yield (rng.normal(size=(2, 3, 4)),), {"axes": (0, 2)}
        yield (np.array([1.5, 0.0, -2.0, 0.5, 3.0]),), {"axes": (0,)}
        yield (np.array([[1.5, 0.0, 0.0], [0.0, 2.0, 3.0]]),), {"axes": (1,)}
        yield (rng.normal(size=(2, 0)),), {"axes": (1,)}
        yield (rng.normal(size=(2, 3)),), {"axes": ()}


def gathered(x, axes):
    """x with the axes `axes` in front and merged into one."""
    shape = type_of(x).shape
    kept = tuple([axis for axis in range(len(shape)) if axis not in axes])
    front = transpose(x, permutation=(*axes, *kept))
    return reshape(front, new_sizes=(math.prod([shape[axis] for axis in axes]), *[shape[axis] for axis in kept]))


def product_rule(x, t):
    """The tangent of the product over axis 0, by halving: every factor but one, without ever dividing by the one."""
    count, *rest = type_of(x).shape
    if count == 0:
        return ZERO
    while count > 1:
        half = count // 2
        a, b, rest_x = (_rows(x, start, end) for start, end in ((0, half), (half, 2 * half), (2 * half, count)))
        ta, tb, rest_t = (_rows(t, start, end) for start, end in ((0, half), (half, 2 * half), (2 * half, count)))
        x, t = mul(a, b), add(mul(ta, b), mul(a, tb))
        if count % 2:
            x, t = concatenate(x, rest_x, dimension=0), concatenate(t, rest_t, dimension=0)
        count -= half
    return reshape(t, new_sizes=tuple(rest))


def _rows(x, start, end):
    shape = type_of(x).shape
    return slice_of(x, start_indices=(start, *[0] * (len(shape) - 1)), limit_indices=(end, *shape[1:]), strides=None)


def lowest(dtype):
    """The smallest value of a dtype: -inf, or the least finite number where there is no infinity; the least integer; False."""
    return _limit(dtype, -np.inf, "min", False)


def highest(dtype):
    """The largest value of a dtype: inf, or the largest finite number where there is no infinity; the largest integer; True."""
    return _limit(dtype, np.inf, "max", True)


def _limit(dtype, infinity, name, truth):
    if kind(dtype) == "c":
        return np.asarray(complex(infinity, infinity), dtype)
    if kind(dtype) == "f":
        limit = np.asarray(infinity, dtype)
        return limit if limit == infinity else np.asarray(getattr(ml_dtypes.finfo(dtype), name), dtype)
    return np.asarray(truth if kind(dtype) == "b" else getattr(np.iinfo(dtype), name), dtype)


# Extremes of so many floating-point numbers, and more, the native tier takes out of XLA's programs: see `engine/strategy.py`.
MANY = 4096


def _natively(write, x):
    """What the rule's operation makes of x as code of our own, where XLA takes long for it; else None."""
    if kind(x.dtype) != "f" or math.prod(x.shape) < MANY:
        return None
    found = write.offload([x])
    return None if found is None else found[0]


def _extreme(combine, name, start):
    """As `reducing`, of an extreme."""
    evaluate, plain = reducing(combine, name, start)

    def lower(primitive, write, x, *, axes):
        if write.partitioned and kind(x.dtype) == "f":
            return extreme(write, name, x, start(x.dtype), axes)
        found = _natively(write, x)
        return plain(primitive, write, x, axes=axes) if found is None else found

    return evaluate, lower


class Extreme(Reduction):
    """The extreme element along `axes`; where several share it, they share the derivative equally. Where it is NaN, so is the
    derivative with respect to every element, in forward and in reverse mode. Complex numbers are in the order of their real
    parts, then of their imaginary ones."""

    def jvp(primitive, primals, tangents, *, axes):
        (x,), (t,) = primals, tangents
        x = computed_once(x)
        out = primitive(x, axes=axes)
        shape = type_of(x).shape
        kept = tuple([axis for axis in range(len(shape)) if axis not in axes])
        missing = ne(out, out)
        extreme, all_missing = [broadcast_in_dim(a, shape=shape, broadcast_dimensions=kept) for a in (out, missing)]
        chosen = or_(eq(x, extreme), all_missing)
        count = reduce_sum(convert_element_type(chosen, new_dtype=INT32), axes=axes)
        shares = select(missing, literal(np.nan, out), convert_element_type(count, new_dtype=type_of(out).dtype))
        return out, div(reduce_sum(select(chosen, t, literal(0, x)), axes=axes), shares)

    def samples(rng):
        yield (rng.normal(size=(2, 3, 4)),), {"axes": (0, 2)}
        yield (rng.normal(size=(3,)),), {"axes": (0,)}
        yield (rng.normal(size=(2, 0)),), {"axes": (0,)}
        yield (rng.normal(size=(2, 3)),), {"axes": ()}


@primitive
class reduce_max(Extreme):
    """The largest element along `axes`, which vanish; NaN if there is one; of none, the smallest value of the dtype."""

    evaluate, lower = _extreme(np.maximum, "stablehlo.maximum", lowest)


@primitive
class reduce_min(Extreme):
    """The smallest element along `axes`, which vanish; NaN if there is one; of none, the largest value of the dtype."""

    evaluate, lower = _extreme(np.minimum, "stablehlo.minimum", highest)


class Logic(Reduction):
    """Combines bits along `axes`."""

    kinds = "biu"

    def samples(rng):
        yield (rng.integers(-9, 9, (2, 3, 4)) * 1.0,), {"axes": (0, 2)}
        yield (rng.integers(-9, 9, (2, 0)) * 1.0,), {"axes": (1,)}


@primitive
class reduce_and(Logic):
    """The bits that all elements along `axes` have; of bools, whether all are true."""

    evaluate, lower = reducing(np.bitwise_and, "stablehlo.and", lambda dtype: np.invert(np.zeros((), dtype)))


@primitive
class reduce_or(Logic):
    """The bits that some element along `axes` has; of bools, whether any is true."""

    evaluate, lower = reducing(np.bitwise_or, "stablehlo.or", 0)


@primitive
class reduce_xor(Logic):
    """The bits that an odd number of the elements along `axes` have."""

    evaluate, lower = reducing(np.bitwise_xor, "stablehlo.xor", 0)


class Where(Reduction):
    """The index along `axis`, which vanishes, of the first extreme element; the first NaN counts as extreme."""

    kinds = "biuf"

    def result_type(primitive, x, *, axis, index_dtype):
        check_kinds(primitive, x)
        if not 0 <= axis < x.ndim or x.shape[axis] == 0:
            raise ShapeError(f"{primitive.name} needs an axis of {x} that has elements, but got axis={axis}.")
        return array_type(x.without((axis,)).shape, canonical(index_dtype))

    def axis_map(x, *, axis, index_dtype):
        return (without(x, (axis,)),)

    def vectorize(primitive, size, args, axes, *, axis, index_dtype):
        return primitive(*args, axis=axis + 1, index_dtype=index_dtype), 0

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {"axis": 1, "index_dtype": canonical("int32")}
        yield (np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 1.0]]),), {"axis": 0, "index_dtype": canonical("int64")}
        yield (rng.normal(size=(0, 3)),), {"axis": 1, "index_dtype": canonical("uint8")}


def _first_where(write, x, found_extreme, axis, index_dtype):
    """The least index along `axis` at which x is extreme, or NaN."""
    others = tuple([i for i in range(len(x.shape)) if i != axis])
    found = write.compare("EQ", x, write.broadcast(found_extreme, x.shape, others))
    if x.dtype.kind in "fV":
        found = write.elementwise("stablehlo.or", found, write.compare("NE", x, x))
    indices = TensorType(x.shape, np.dtype(np.int32))
    counted = write.op("stablehlo.iota", [], indices, iota_dimension=f"{axis} : i64")
    masked = write.select(found, counted, write.constant(np.iinfo(np.int32).max, indices))
    first = write.reduce("stablehlo.minimum", masked, np.iinfo(np.int32).max, (axis,))
    return write.convert(first, index_dtype)


def _found_in_one_pass(write, name, x, start, axis, index_dtype):
    """The same, of elements and their indices that are combined together, in any order."""
    size = x.shape[axis]
    counts = TensorType(x.shape, np.dtype(np.int32 if size < 1 << 31 else np.int64))

    def further(write, best, place, other, there):
        x, i, y, j = (Written(write, value) for value in (best, place, other, there))
        better, same = (y > x if name == "stablehlo.maximum" else y < x), x == y
        if x.dtype.kind in "fV":
            better, same = better | ((y != y) & (x == x)), same | ((x != x) & (y != y))
        taken = better | (same & (j < i))
        return np.where(taken, y, x).value, np.where(taken, j, i).value

    counted = write.op("stablehlo.iota", [], counts, iota_dimension=f"{axis} : i64")
    return write.convert(write.reduce_together(further, [x, counted], [start, size], (axis,))[1], index_dtype)


def finding(find, name, start):
    """The evaluation and the lowering rule of a search, by NumPy's function and by the operation that finds the extreme."""

    def evaluate(x, *, axis, index_dtype):
        return find(x, axis=axis).astype(index_dtype)

    def lower(write, x, *, axis, index_dtype):
        if write.platform == "native":
            return _found_in_one_pass(write, name, x, start(x.dtype), axis, index_dtype)
        found = _natively(write, x)
        if found is not None:
            return found
        return _first_where(write, x, extreme(write, name, x, start(x.dtype), (axis,)), axis, index_dtype)

    return evaluate, lower


@primitive
class argmax(Where):
    """The index along `axis`, which vanishes, of the first largest element; of the first NaN if there is one."""

    evaluate, lower = finding(np.argmax, "stablehlo.maximum", lowest)


@primitive
class argmin(Where):
    """The index along `axis`, which vanishes, of the first smallest element; of the first NaN if there is one."""

    evaluate, lower = finding(np.argmin, "stablehlo.minimum", highest)
