"""Convolutions: windows of one array, each summed with the weights of another.

An operand has a batch axis, a feature axis and any number of spatial ones, in the order that the dimension numbers say. Source
of the parameters: the StableHLO specification, convolution (openxla.org/stablehlo/spec).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pullback.core.array import Array, host_of
from pullback.core.brief import counted
from pullback.core.dtypes import accumulation_dtype, canonical, in_words, kind
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.execution import engine
from pullback.core.primitive import primitive
from pullback.core.tracing import type_of
from pullback.core.types import array_type, is_unknown
from pullback.ops.contract import Bilinear
from pullback.ops.convert import convert_element_type
from pullback.ops.create import full
from pullback.ops.families import of_products
from pullback.ops.formulas import part_type
from pullback.ops.pointwise import same_dtype
from pullback.ops.shape import pad, reshape, rev, transpose
from pullback.stablehlo.writer import TensorType, i64s

MOST_COLUMNS = 1 << 24  # elements of windows that are copied at a time, to be multiplied as one matrix
WORTH_COMPILING = 1 << 26  # operations: beyond, XLA takes a fifth of the time that copying the windows and NumPy's product take
LONG = 64  # from so many taps on, the convolution of one signal with one kernel goes tap by tap, not window by window


class ConvDimensionNumbers(NamedTuple):
    """Which axes are which in a convolution.

    Attributes:
        lhs_spec: the batch axis of the left operand, its feature axis, and its spatial axes.
        rhs_spec: the axis of the right operand, the kernel, for the features of the result, the one for those of the left
            operand, and its spatial axes.
        out_spec: of the result, as `lhs_spec`.

    Example:
        >>> lax.conv_dimension_numbers((1, 9, 9, 3), (3, 3, 3, 8), ("NHWC", "HWIO", "NHWC"))
        ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """

    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]


def dilated(size: int, dilation: int) -> int:
    """The size of an axis with `dilation` - 1 holes between its elements."""
    return (size - 1) * dilation + 1 if size else 0


def window_count(size: int, window: int, stride: int) -> int:
    """How many windows of a size, `stride` apart, fit into an axis."""
    return max(0, (size - window) // stride + 1)


def _met(sizes, stride, padding, lhs_dilation, rhs_dilation):
    """How often an element of the kernel meets one of the operand along an axis, and neither a zero beside nor one between."""
    size, width = sizes
    last = (size - 1) * lhs_dilation
    spread = max((width - 1) * rhs_dilation + 1, 0)
    windows = window_count(max(last + 1, 0) + sum(padding), spread, stride)
    common = math.gcd(stride, lhs_dilation)
    period = lhs_dilation // common  # every so many windows this element of the kernel meets one of the operand's
    found = 0
    for place in range(-padding[0], spread - padding[0], rhs_dilation):  # where window i begins, i stride further
        if place % common == 0 and windows:
            first = max(-(place // stride), 0)
            end = min((last - place) // stride, windows - 1)
            start = -(place // common) * pow(stride // common, -1, period) % period if period > 1 else 0
            found += max((end - start) // period - (first - 1 - start) // period, 0)
    return found


@primitive
class conv_general_dilated(Bilinear):
    """Each window of the left operand, summed with the weights of the right one, the kernel, for each feature of the result.

    Windows begin `window_strides` apart, in the operand with `lhs_dilation` - 1 zeros between its elements and `padding`
    zeros (before, after) around it; the elements of the kernel lie `rhs_dilation` apart. With groups of features, each part of
    the left operand's features makes a part of the result's; with groups of a batch, each part of the batch does.
    """

    kinds = "iufc"
    accumulation = accumulation_dtype

    def result_type(lhs, rhs, *, dimension_numbers, **params):
        common = same_dtype("conv_general_dilated", (lhs, rhs))
        if kind(common.dtype) not in "iufc":
            raise DtypeError(f"conv_general_dilated takes {in_words('iufc')} operands, but got {lhs}, {rhs}.")
        check_numbers(lhs, rhs, dimension_numbers, params)
        lhs_spec, rhs_spec, out_spec = dimension_numbers
        batch, features = lhs.shape[lhs_spec[0]] // params["batch_group_count"], rhs.shape[rhs_spec[0]]
        rows = zip(_spans(lhs.shape, lhs_spec, params["lhs_dilation"]), _spans(rhs.shape, rhs_spec, params["rhs_dilation"]))
        padded = zip(rows, params["padding"], params["window_strides"])
        spatial = [window_count(size + low + high, width, stride) for (size, width), (low, high), stride in padded]
        shape = placed((batch, features, *spatial), out_spec)
        wanted = params.get("preferred_element_type")
        if wanted is None:
            return common.with_shape(shape)
        if (kind(canonical(wanted)) == "c") != (kind(common.dtype) == "c"):
            raise DtypeError(
                f"conv_general_dilated of {lhs} and {rhs} cannot be accumulated in {canonical(wanted).name}. Choose a"
                " preferred_element_type of their kind."
            )
        return array_type(shape, canonical(wanted))

    def evaluate(lhs, rhs, *, dimension_numbers, preferred_element_type=None, precision=None, **params):
        given = {"dimension_numbers": dimension_numbers, "preferred_element_type": preferred_element_type, **params}
        dtype = lhs.dtype if preferred_element_type is None else preferred_element_type
        operands = [array_type(x.shape, x.dtype) for x in (lhs, rhs)]
        work = conv_general_dilated.cost(operands, [conv_general_dilated.result_type(*operands, **given)], **given)
        if work > WORTH_COMPILING:
            arrays = [Array(type, x) for type, x in zip(operands, (lhs, rhs))]
            return host_of(engine().run_operation(conv_general_dilated, arrays, {**given, "precision": precision}))
        wide = conv_general_dilated.accumulation(dtype)
        _, rhs_spec, out_spec = dimension_numbers
        views = windows_of(lhs.astype(wide, copy=False), rhs.shape, dimension_numbers, **params)  # [group, n, *out, c, *kernel]
        kernel = rhs.astype(wide, copy=False).transpose(rhs_spec)
        kernel = kernel.reshape(views.shape[0], len(kernel) // views.shape[0], *kernel.shape[1:])
        out = _products(views, kernel).astype(dtype, copy=False)  # [group, n, *out, features of a group]
        out = np.moveaxis(out, (0, -1), (1, 2))
        out = out.reshape(out.shape[0], rhs.shape[rhs_spec[0]], *out.shape[3:])
        return out.transpose(np.argsort(out_spec))

    def lower(write, lhs, rhs, *, dimension_numbers, preferred_element_type=None, precision=None, **params):
        result = write.result_type
        if 0 in (*lhs.shape, *rhs.shape, *result.shape):
            return write.constant(0, result)
        wide = conv_general_dilated.accumulation(result.dtype)
        pads = params["padding"]
        given = {name: i64s(params[name]) for name in ("window_strides", "lhs_dilation", "rhs_dilation")}
        given |= {name: f"{params[name]} : i64" for name in ("feature_group_count", "batch_group_count")}
        given["padding"] = f"dense<{[list(pair) for pair in pads] if pads else ''}> : tensor<{len(pads)}x2xi64>"
        given["dimension_numbers"] = _written(dimension_numbers)
        if precision is not None:
            given["precision_config"] = f"[#stablehlo<precision {precision}>, #stablehlo<precision {precision}>]"

        def convolve(x, y):
            out = TensorType(result.shape, x.dtype)
            if write.crossed:  # XLA's partitioner adds up over all devices where both are divided along their windows
                y = write.whole(y, dimension_numbers[1][2:])
            return write.op("stablehlo.convolution", [x, y], out, **given)

        if wide.kind != "c":
            return write.convert(convolve(write.convert(lhs, wide), write.convert(rhs, wide)), result.dtype)
        # XLA has no complex ones on the CPU
        values = [write.convert(x, wide) for x in (lhs, rhs)]
        (a, b), (c, d) = ([write.op(f"stablehlo.{part}", [x], part_type(x)) for part in ("real", "imag")] for x in values)
        real = write.elementwise("stablehlo.subtract", convolve(a, c), convolve(b, d))
        imag = write.elementwise("stablehlo.add", convolve(a, d), convolve(b, c))
        return write.convert(write.op("stablehlo.complex", [real, imag], TensorType(result.shape, wide)), result.dtype)

    def transpose(cotangent, lhs, rhs, *, dimension_numbers, preferred_element_type=None, **params):
        unknown, known = (lhs, rhs) if is_unknown(lhs) else (rhs, lhs)
        dtype = type_of(cotangent).dtype
        if type_of(known).dtype is not dtype:
            known = convert_element_type(known, new_dtype=dtype)
        solve = _with_respect_to_lhs if is_unknown(lhs) else _with_respect_to_rhs
        out = solve(cotangent, unknown, known, dimension_numbers, **params)
        out = out if dtype is unknown.dtype else convert_element_type(out, new_dtype=unknown.dtype)
        return (out, None) if is_unknown(lhs) else (None, out)

    def vectorize(size, args, axes, *, dimension_numbers, feature_group_count, batch_group_count, **params):
        (lhs, rhs), (lhs_batched, rhs_batched) = args, [axis == 0 for axis in axes]
        (n, c, *_), (o, *_), (out_n, out_c, *_) = dimension_numbers
        groups = feature_group_count * batch_group_count
        counts = {"feature_group_count": feature_group_count, "batch_group_count": batch_group_count}
        if size == 0:  # of which nothing can be taken out
            each = [type_of(x).without((0,) if axis == 0 else ()) for x, axis in zip(args, axes)]
            out = conv_general_dilated.result_type(*each, dimension_numbers=dimension_numbers, **counts, **params)
            return full((0, *out.shape), 0, out.dtype), 0
        if lhs_batched and rhs_batched:  # the batch elements are groups
            rhs = put_in(rhs, o)
            if batch_group_count > 1:
                lhs, counts["batch_group_count"] = put_in(lhs, n), batch_group_count * size
            else:
                lhs, counts["feature_group_count"] = put_in(lhs, c), feature_group_count * size
            axis, before = out_c, 1
        elif lhs_batched:
            lhs, axis, before = put_in(lhs, n, batch_group_count), out_n, 1
        else:
            rhs, axis, before = put_in(rhs, o, groups), out_c, groups
        out = conv_general_dilated(lhs, rhs, dimension_numbers=dimension_numbers, **counts, **params)
        return taken_out(out, axis, size, before), 0

    def axis_map(lhs, rhs, *, dimension_numbers, feature_group_count, batch_group_count, **params):
        (n, *_), (o, *_), (out_n, out_c, *_) = dimension_numbers
        plain = feature_group_count == batch_group_count == 1
        return {n: out_n} if batch_group_count == 1 else {}, {o: out_c} if plain else {}

    @of_products
    def cost(operands, results, *, dimension_numbers, window_strides, padding, lhs_dilation, rhs_dilation, **params):
        (lhs, rhs), (lhs_spec, rhs_spec, out_spec) = operands, dimension_numbers
        sizes = [(lhs.shape[i], rhs.shape[k]) for i, k in zip(lhs_spec[2:], rhs_spec[2:])]
        out_n, out_c, *_ = out_spec
        pairs = [_met(*row) for row in zip(sizes, window_strides, padding, lhs_dilation, rhs_dilation)]
        return 2 * results[0].shape[out_n] * results[0].shape[out_c] * rhs.shape[rhs_spec[1]] * math.prod(pairs)

    def samples(rng):
        def with_(**params):
            return {
                "window_strides": (1,), "padding": ((0, 0),), "lhs_dilation": (1,), "rhs_dilation": (1,),
                "dimension_numbers": ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2)),
                "feature_group_count": 1, "batch_group_count": 1, **params,
            }  # fmt: skip

        yield (rng.normal(size=(2, 2, 7)), rng.normal(size=(2, 2, 3))), with_(window_strides=(2,), padding=((1, 2),))
        dilations = {"lhs_dilation": (2,), "rhs_dilation": (2,), "padding": ((-1, 3),)}
        yield (rng.normal(size=(2, 4, 4)), rng.normal(size=(4, 2, 2))), with_(feature_group_count=2, **dilations)
        yield (rng.normal(size=(4, 1, 4)), rng.normal(size=(2, 1, 2))), with_(batch_group_count=2, window_strides=(2,))
        image = ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
        plane = {"window_strides": (1, 2), "padding": ((1, 0), (0, 1)), "lhs_dilation": (1, 1), "rhs_dilation": (1, 1)}
        yield (rng.normal(size=(1, 3, 4, 2)), rng.normal(size=(2, 2, 2, 3))), with_(dimension_numbers=image, **plane)
        yield (rng.normal(size=(0, 1, 4)), rng.normal(size=(2, 1, 2))), with_()
        yield (rng.normal(size=(1, 0, 4)), rng.normal(size=(2, 0, 2))), with_()
        yield (rng.normal(size=(1, 1, 2)), rng.normal(size=(1, 1, 3))), with_()


_SPATIAL = ("window_strides", "lhs_dilation", "rhs_dilation", "padding")


def check_numbers(lhs, rhs, numbers, params):
    """Raise `ShapeError` unless the parameters of a convolution fit its operands."""
    name = "conv_general_dilated"
    ndim = lhs.ndim
    if rhs.ndim != ndim or ndim < 2 or any(sorted(spec) != list(range(ndim)) for spec in numbers):
        raise ShapeError(
            f"{name} takes two operands of a batch, a feature and n spatial axes, and the places of these; but got {lhs},"
            f" {rhs} and {numbers}."
        )
    for each in _SPATIAL:
        if len(params[each]) != ndim - 2:
            raise ShapeError(f"{name} of {lhs} takes {ndim - 2} {each}, one a spatial axis, not {params[each]}.")
        if each != "padding" and any(number < 1 for number in params[each]):
            raise ShapeError(f"{name} takes {each} of 1 or more, not {params[each]}.")
    features, batches = params["feature_group_count"], params["batch_group_count"]
    if features < 1 or batches < 1 or (features > 1 and batches > 1):
        raise ShapeError(f"{name} takes groups of features or of the batch, not {features} and {batches}.")
    (n, c, *_), (o, i, *_) = numbers.lhs_spec, numbers.rhs_spec
    if lhs.shape[c] != rhs.shape[i] * features:
        raise ShapeError(
            f"{name}: the left operand, {lhs}, has {lhs.shape[c]} features (axis {c}), but the kernel, {rhs}, takes"
            f" {rhs.shape[i]} (axis {i}) in {'each of ' if features > 1 else ''}{counted(features, 'group')}."
        )
    if rhs.shape[o] % (features * batches) or lhs.shape[n] % batches:
        raise ShapeError(
            f"{name}: {features * batches} groups do not divide the {rhs.shape[o]} features that {rhs} makes (axis {o}), as"
            " they must" + (f", or not the batch of {lhs.shape[n]}." if batches > 1 else ".")
        )


def placed(sizes, spec):
    """Sizes in the order (batch, feature, spatial ...) as a shape whose axes are where `spec` says."""
    return tuple([sizes[spec.index(axis)] for axis in range(len(spec))])


def windows_of(
    lhs, kernel_shape, numbers, *, window_strides, padding, lhs_dilation, rhs_dilation, feature_group_count, batch_group_count
):
    """The windows of a NumPy array that a convolution sums, without copying them: [group, n, *out, features, *kernel]."""
    lhs_spec, rhs_spec, _ = numbers
    holes = [(low, high, dilation - 1) for (low, high), dilation in zip(padding, lhs_dilation)]
    x = lhs.transpose(lhs_spec)
    if any(map(any, holes)):
        x = pad.evaluate(x, 0, padding_config=((0, 0, 0), (0, 0, 0), *holes))
    sizes = [kernel_shape[axis] for axis in rhs_spec[2:]]
    spans = [dilated(size, gap) for size, gap in zip(sizes, rhs_dilation)]
    outs = [window_count(size, span, stride) for size, span, stride in zip(x.shape[2:], spans, window_strides)]
    n, f = x.shape[0] // batch_group_count, x.shape[1] // feature_group_count
    shape = (batch_group_count, n, feature_group_count, f, *outs, *sizes)
    steps = x.strides[2:]
    strides = (
        x.strides[0] * n, x.strides[0], x.strides[1] * f, x.strides[1],
        *[step * stride for step, stride in zip(steps, window_strides)],
        *[step * gap for step, gap in zip(steps, rhs_dilation)],
    )  # fmt: skip
    if 0 in shape:
        views = np.zeros(shape, x.dtype)
    else:
        views = np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)
    count = len(outs)
    views = views.transpose(0, 2, 1, *range(4, 4 + count), 3, *range(4 + count, 4 + 2 * count))
    return views.reshape(batch_group_count * feature_group_count, *views.shape[2:])


def _products(views, kernel):
    """The sums of windows [group, n, *out, c, *kernel] with kernels [group, o, c, *kernel]: [group, n, *out, o]."""
    group, o, *inner = kernel.shape
    outer = views.shape[1 : views.ndim - len(inner)]
    if kernel.size == inner[-1] >= LONG and len(inner) == 2 and outer[0] == 1 and views.strides[2] == views.strides[-1]:
        return _long_product(views, kernel).reshape(group, *outer, o)
    # copied into a matrix in the order in which the elements lie in memory, as many windows at a time as make some 100 MB
    first = 1 + len(outer)
    order = sorted(range(first, views.ndim), key=lambda axis: -views.strides[axis])
    views = views.transpose(*range(first), *order)
    weights = kernel.transpose(0, *[axis - first + 2 for axis in order], 1).reshape(group, math.prod(inner), o)
    out = np.empty((group, *outer, o), np.result_type(views, weights))
    along = 1 + max(range(len(outer)), key=lambda axis: outer[axis])
    size = views.shape[along]
    step = max(1, size * MOST_COLUMNS // max(views.size, 1))
    for start in range(0, size, step):
        part = (slice(None),) * along + (slice(start, start + step),)
        chosen = views[part]
        rows = chosen.reshape(group, math.prod(chosen.shape[1:first]), weights.shape[1])
        out[part] = (rows @ weights).reshape(out[part].shape)
    return out


def _long_product(views, kernel):
    """One signal with one long kernel: NumPy's own, which copies no windows. Narrow integers would be added in themselves."""
    count, taps = views.shape[2], kernel.size
    signal = np.lib.stride_tricks.as_strided(views, (count + taps - 1,), (views.strides[2],), writeable=False)
    return np.correlate(signal, kernel.reshape(-1).conj(), "valid")


def _written(numbers):
    """Dimension numbers as StableHLO has them, `#stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>`."""
    spatial = [str(axis) for axis in range(len(numbers.lhs_spec) - 2)]
    texts = [f"[{', '.join(placed([*names, *spatial], spec))}]" for names, spec in zip(("bf", "oi", "bf"), numbers)]
    return f"#stablehlo.conv<{texts[0]}x{texts[1]}->{texts[2]}>"


# ---- axes within axes -------------------------------------------------------------------------------------------------


def put_in(x, axis, before=1):
    """x without its axis 0, which becomes part of another one, `axis` of what is left: behind its first `before` parts."""
    size, *shape = type_of(x).shape
    rest = shape[axis] // before
    if before > 1:
        x = reshape(x, new_sizes=(size, *shape[:axis], before, rest, *shape[axis + 1 :]))
    at = axis + (before > 1)
    ndim = len(type_of(x).shape)
    x = transpose(x, permutation=(*range(1, at + 1), 0, *range(at + 1, ndim))) if at else x
    return reshape(x, new_sizes=(*shape[:axis], before * size * rest, *shape[axis + 1 :]))


def taken_out(x, axis, size, before=1):
    """What `put_in` undoes: x with an axis of `size` in front, taken out of the axis `axis` behind its first `before` parts."""
    shape = type_of(x).shape
    rest = shape[axis] // (size * before)
    head, tail = shape[:axis], shape[axis + 1 :]
    x = reshape(x, new_sizes=(*head, before, size, rest, *tail))
    at = axis + 1
    x = transpose(x, permutation=(at, *[i for i in range(len(shape) + 2) if i != at]))
    return reshape(x, new_sizes=(size, *head, before * rest, *tail))


# ---- transposes: convolutions too -----------------------------------------------------------------------------------


def _spans(shape, spec, dilation):
    """The sizes of the spatial axes with holes between their elements."""
    return [dilated(shape[axis], hole) for axis, hole in zip(spec[2:], dilation)]


def _turned(cotangent, lhs, rhs, numbers, params):
    """The parameters of the convolution that a transpose is, and for each spatial axis the spans of the operand, the kernel and
    the result, and the padding in front."""
    strides, holes, gaps = params["window_strides"], params["lhs_dilation"], params["rhs_dilation"]
    arrays = [(lhs, numbers.lhs_spec, holes), (rhs, numbers.rhs_spec, gaps), (cotangent, numbers.out_spec, strides)]
    spans = [_spans(type_of(x).shape, spec, dilation) for x, spec, dilation in arrays]
    others = {name: value for name, value in params.items() if name == "precision"}
    return strides, holes, gaps, list(zip(*spans, [low for low, _ in params["padding"]])), others


def _with_respect_to_lhs(cotangent, lhs, rhs, numbers, **params):
    """The cotangent, with holes where windows were skipped, is convolved with the reversed kernel, its features swapped."""
    lhs_spec, rhs_spec, out_spec = numbers
    strides, holes, gaps, rows, others = _turned(cotangent, lhs, rhs, numbers, params)
    groups = params["feature_group_count"] * params["batch_group_count"]
    kernel = rev(rhs, dimensions=rhs_spec[2:])
    if groups > 1:
        kernel = put_in(taken_out(kernel, rhs_spec[0], groups), rhs_spec[1])
    out = conv_general_dilated(
        cotangent, kernel, window_strides=holes, lhs_dilation=strides, rhs_dilation=gaps,
        padding=tuple([(width - 1 - low, size + low - count) for size, width, count, low in rows]),
        dimension_numbers=ConvDimensionNumbers(out_spec, (rhs_spec[1], rhs_spec[0], *rhs_spec[2:]), lhs_spec),
        feature_group_count=groups, batch_group_count=1, **others,
    )  # fmt: skip
    if params["batch_group_count"] > 1:
        out = put_in(taken_out(out, lhs_spec[1], params["batch_group_count"]), lhs_spec[0])
    return out


def _with_respect_to_rhs(cotangent, rhs, lhs, numbers, **params):
    """The left operand is convolved with the cotangent: what was its batch is summed over, as features are."""
    strides, holes, gaps, rows, others = _turned(cotangent, lhs, rhs, numbers, params)
    order = numbers.lhs_spec, numbers.out_spec, numbers.rhs_spec
    return conv_general_dilated(
        lhs, cotangent, window_strides=gaps, lhs_dilation=holes, rhs_dilation=strides,
        padding=tuple([(low, width + count - 1 - size - low) for size, width, count, low in rows]),
        dimension_numbers=ConvDimensionNumbers(*[(second, first, *rest) for first, second, *rest in order]),
        feature_group_count=params["batch_group_count"], batch_group_count=params["feature_group_count"], **others,
    )  # fmt: skip
