"""Combining the elements in each window of an array, as pooling does; and which of them is extreme.

A window has `window_dimensions` elements, `window_dilation` apart; windows begin `window_strides` apart, in the array with
`base_dilation` - 1 holes between its elements and `padding` (before, after) around it. What is not in the array does not count.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from pullback.core.brief import counted
from pullback.core.dtypes import INT32, INT64, accumulation_dtype
from pullback.core.errors import ShapeError
from pullback.core.primitive import Rules, primitive
from pullback.core.tracing import type_of
from pullback.core.types import array_type
from pullback.core.zero import ZERO
from pullback.ops.arithmetic import min as min_of
from pullback.ops.arithmetic import mul, neg, sub
from pullback.ops.convolve import dilated, window_count
from pullback.ops.create import full, iota
from pullback.ops.families import all_but, check_kinds
from pullback.ops.formulas import Written
from pullback.ops.index import take
from pullback.ops.literals import literal
from pullback.ops.reduce import gathered, highest, lowest, product_rule
from pullback.ops.shape import pad, reshape, transpose
from pullback.stablehlo.writer import TensorType, i64s


class Window(NamedTuple):
    """The parameters of windows, a number or pair for each axis of an array."""

    window_dimensions: tuple[int, ...]
    window_strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    base_dilation: tuple[int, ...]
    window_dilation: tuple[int, ...]

    def counts(self, shape):
        """How many windows there are along each axis of an array of this shape."""
        rows = zip(shape, *self)
        return tuple([
            window_count(dilated(size, hole) + low + high, dilated(width, gap), stride)
            for size, width, stride, (low, high), hole, gap in rows
        ])  # fmt: skip

    def steps(self):
        """For each axis its number, and the width, stride and dilation of a window."""
        return list(zip(range(len(self.padding)), self.window_dimensions, self.window_strides, self.window_dilation))

    def pads(self):
        """The configuration of the `pad` that puts the holes and the padding there."""
        return tuple([(low, high, hole - 1) for (low, high), hole in zip(self.padding, self.base_dilation)])

    def written(self):
        """The attributes of StableHLO's reduce_window."""
        pairs = [list(pair) for pair in self.padding]
        return {
            "window_dimensions": i64s(self.window_dimensions),
            "window_strides": i64s(self.window_strides),
            "base_dilations": i64s(self.base_dilation),
            "window_dilations": i64s(self.window_dilation),
            "padding": f"dense<{pairs or ''}> : tensor<{len(pairs)}x2xi64>",
        }


def _check(name, x, window):
    for field, given in zip(Window._fields, window):
        if len(given) != x.ndim or (field != "padding" and any(number < 1 for number in given)):
            what = "a pair of ints" if field == "padding" else "an int of 1 or more"
            raise ShapeError(f"{name} takes as {field} {what} for each of the {counted(x.ndim, 'axis')} of {x}, not {given}.")
    if any(dilated(size, hole) + low + high < 0 for size, hole, (low, high) in zip(x.shape, window[3], window[2])):
        raise ShapeError(
            f"{name} cannot cut more off {x} than it has: padding={window.padding}. Its negative numbers must be smaller."
        )


class OfWindows(Rules):
    """Something of each window. `start` is the neutral element, or makes it for a dtype."""

    quiet = True
    start: Any

    def result_type(primitive, x, **params):
        check_kinds(primitive, x)
        window = Window(**params)
        _check(primitive.name, x, window)
        return x.with_shape(window.counts(x.shape))

    def vectorize(primitive, size, args, axes, **params):
        return primitive(*args, **_with_batch(params)), 0

    def axis_map(x, **params):
        plain = (1, 1, (0, 0), 1, 1)
        return (all_but(x, [axis for axis, row in enumerate(zip(*Window(**params))) if row != plain]),)

    def cost(operands, results, **params):
        return results[0].size * (math.prod(params["window_dimensions"]) - 1)

    def samples(rng):
        yield (rng.normal(size=(2, 5, 4)),), _window((1, 3, 2), (1, 2, 1), ((0, 0), (1, 1), (0, 1)))
        yield (rng.normal(size=(5,)),), _window((2,), (3,), ((-1, 4),), (2,), (2,))
        yield (rng.normal(size=(2, 0)),), _window((1, 2), (1, 1), ((0, 0), (1, 1)))
        yield (rng.normal(size=(2, 1)),), _window((1, 2), (1, 1), ((0, 0), (0, 0)))


def _with_batch(params):
    return {name: ((0, 0) if name == "padding" else 1, *given) for name, given in params.items()}


def _window(sizes, strides, padding, holes=None, gaps=None):
    ones = (1,) * len(sizes)
    return Window(sizes, strides, padding, holes or ones, gaps or ones)._asdict()


def _along(x, axis, first, count, step):
    """`count` elements of a NumPy array along an axis."""
    return x[(slice(None),) * axis + (slice(first, first + (count - 1) * step + 1 if count else first, step),)]


def combining(combine, name, start):
    """Kinds apart, the evaluation and the lowering rule of a reduction of windows, by a ufunc and by the operation's name."""

    def neutral(dtype):
        return start(dtype) if callable(start) else np.asarray(start, dtype)

    def evaluate(primitive, x, **params):
        window, own = Window(**params), x.dtype
        wide = primitive.accumulation(own) if primitive.accumulation else own
        x = pad.evaluate(x.astype(wide, copy=False), neutral(wide), padding_config=window.pads())
        # axis by axis, the first elements of all windows, then the second ones, ...
        for axis, size, stride, gap in window.steps():
            count = window_count(x.shape[axis], dilated(size, gap), stride)
            out = _along(x, axis, 0, count, stride).copy()
            for place in range(1, size):
                combine(out, _along(x, axis, place * gap, count, stride), out=out)
            x = out
        return x.astype(own, copy=False)

    def lower(primitive, write, x, **params):
        result = write.result_type
        wide = primitive.accumulation(x.dtype) if primitive.accumulation else x.dtype
        if 0 in (*x.shape, *result.shape):
            return write.constant(neutral(x.dtype), result)
        first, shape = write.constant(neutral(wide), TensorType((), wide)), TensorType(result.shape, wide)
        operands, region = [write.convert(x, wide), first], write.combiner(name, wide)
        (out,) = write.many("stablehlo.reduce_window", operands, [shape], [region], **Window(**params).written())
        return write.convert(out, x.dtype)

    return evaluate, lower


@primitive
class reduce_window_sum(OfWindows):
    """The sum of each window."""

    kinds = "iufc"
    linear = True
    accumulation = accumulation_dtype
    evaluate, lower = combining(np.add, "stablehlo.add", 0)

    def transpose(cotangent, x, **params):
        # an element is in the windows that begin up to a window's width before it
        window = Window(**params)
        rows = zip(x.shape, type_of(cotangent).shape, *window)
        config = []
        for size, count, width, stride, (low, _), hole, gap in rows:
            before = dilated(width, gap) - 1 - low
            config.append((before, dilated(size, hole) + low - dilated(count, stride), stride - 1))
        spread = pad(cotangent, literal(0, cotangent), padding_config=tuple(config))
        none, ones = ((0, 0),) * len(config), (1,) * len(config)
        turned = Window(window.window_dimensions, window.base_dilation, none, ones, window.window_dilation)
        return (reduce_window_sum(spread, **turned._asdict()),)


@primitive
class reduce_window_prod(OfWindows):
    """The product of each window."""

    kinds = "iufc"
    accumulation = accumulation_dtype
    evaluate, lower = combining(np.multiply, "stablehlo.multiply", 1)

    def jvp(primals, tangents, **params):
        (x,), (t,) = primals, tangents
        factors, changes = (windows(each, fill, **params) for each, fill in ((x, 1), (t, 0)))
        inner = tuple(range(type_of(x).ndim, 2 * type_of(x).ndim))
        return reduce_window_prod(x, **params), product_rule(gathered(factors, inner), gathered(changes, inner))


class ExtremeOfWindows(OfWindows):
    """The extreme element of each window; the first of several that are equal has the derivative, as in XLA's
    select_and_scatter."""

    kinds = "biuf"

    def jvp(primitive, primals, tangents, **params):
        (x,), (t,) = primals, tangents
        signed, size = x if primitive is reduce_window_max else neg(x), type_of(x).size
        if size == 0:
            return primitive(x, **params), ZERO
        # where a window has nothing of the array, the number is out of bounds
        flat = reshape(t, new_sizes=(size,))
        return primitive(x, **params), take(flat, window_argmax(signed, **params), 0, "fill", 0)


@primitive
class reduce_window_max(ExtremeOfWindows):
    """The largest element of each window; NaN if there is one."""

    evaluate, lower = combining(np.maximum, "stablehlo.maximum", lowest)


@primitive
class reduce_window_min(ExtremeOfWindows):
    """The smallest element of each window; NaN if there is one."""

    evaluate, lower = combining(np.minimum, "stablehlo.minimum", highest)


@primitive
class window_argmax(OfWindows):
    """The number, in row-major order of the whole array, of the first largest element of each window; a NaN counts as larger
    than all others. The number of elements, if a window has none."""

    kinds = "f"
    axis_map = None  # type: ignore[assignment]  # numbers count along all axes

    def result_type(x, **params):
        dtype = INT32 if x.size <= np.iinfo(np.int32).max else INT64
        return array_type(OfWindows.result_type(window_argmax, x, **params).shape, dtype)

    def evaluate(x, **params):
        window, none = Window(**params), x.size
        numbers = np.arange(none).astype(INT32 if none <= np.iinfo(np.int32).max else INT64).reshape(x.shape)
        x = pad.evaluate(x, lowest(x.dtype), padding_config=window.pads())
        numbers = pad.evaluate(numbers, none, padding_config=window.pads())
        for axis, size, stride, gap in window.steps():
            count = window_count(x.shape[axis], dilated(size, gap), stride)
            rows = [[_along(each, axis, place * gap, count, stride) for each in (x, numbers)] for place in range(size)]
            x, numbers = functools.reduce(lambda best, other: _further(*best, *other), rows)
        return numbers

    def lower(write, x, **params):
        result, none = write.result_type, math.prod(x.shape)
        if 0 in (*x.shape, *result.shape):
            return write.constant(none, result)
        flat = write.op("stablehlo.iota", [], TensorType((none,), result.dtype), iota_dimension="0 : i64")
        numbers = write.op("stablehlo.reshape", [flat], TensorType(x.shape, result.dtype))
        scalars = [TensorType((), x.dtype), TensorType((), result.dtype)]
        with write.region([*scalars, *scalars]) as region:
            region.returns(*[each.value for each in _further(*[Written(write, value) for value in region.arguments])])
        firsts = [write.constant(lowest(x.dtype), scalars[0]), write.constant(none, scalars[1])]
        shapes = [TensorType(result.shape, x.dtype), result]
        given = Window(**params).written()
        return write.many("stablehlo.reduce_window", [x, numbers, *firsts], shapes, [region.text], **given)[1]

    def vectorize(size, args, axes, **params):
        out = window_argmax(*args, **_with_batch(params))
        each, type = type_of(args[0]).size // (size or 1), type_of(out)
        first = iota(dtype=type.dtype, shape=type.shape, dimension=0)
        return min_of(sub(out, mul(first, literal(each, first))), literal(each, out)), 0


def _further(best, where, x, at):
    """The larger of two elements, with its number: of two that are equal, or NaN, the one of the smaller number."""
    same = (x == best) | ((x != x) & (best != best))
    better = (x > best) | ((x != x) & (best == best)) | (same & (at < where))
    return np.where(better, x, best), np.where(better, at, where)


def windows(x: Any, fill: Any, **params: Any) -> Any:
    """All windows of x, with the axes of x counting them and then as many for the elements in each; `fill` where x has none."""
    window, ndim = Window(**params), type_of(x).ndim
    counts = window.counts(type_of(x).shape)
    if 0 in counts:
        return full((*counts, *window.window_dimensions), 0, type_of(x).dtype)
    if any(map(any, window.pads())):
        x = pad(x, fill if hasattr(fill, "shape") else literal(fill, x), padding_config=window.pads())
    for axis, size, stride, gap in window.steps():
        shape = type_of(x).shape
        if size == stride == 1:
            x = reshape(x, new_sizes=(*shape[: 2 * axis + 1], 1, *shape[2 * axis + 1 :]))
        else:
            places = np.arange(counts[axis])[:, None] * stride + np.arange(size) * gap
            x = take(x, places.astype(np.int32), 2 * axis)
    return transpose(x, permutation=(*range(0, 2 * ndim, 2), *range(1, 2 * ndim, 2))) if ndim > 1 else x
