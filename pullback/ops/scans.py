"""Scans along an axis: cumulative sums, products, extremes and sums of exponentials, and the linear recurrence that is in all
of their derivatives.

A compiled scan is a loop that takes `_BLOCK` elements at a time: on two cores a cumulative sum of a million float32
numbers takes 1.8 ms so, 9 by log2(n) passes over the array (as `associative_scan` does it), and 5 by a call of NumPy.
"""

from __future__ import annotations

import numpy as np

from pullback.core.dtypes import COMPLEX64, COMPLEX128, FLOAT32, FLOAT64, DType, accumulation_dtype
from pullback.core.primitive import Rules, primitive
from pullback.core.tracing import type_of
from pullback.ops.arithmetic import add, div, mul, sub
from pullback.ops.barrier import computed_once
from pullback.ops.compare import eq, select
from pullback.ops.complex import real
from pullback.ops.convert import convert_element_type
from pullback.ops.exponential import exp, log
from pullback.ops.families import all_but, check_axes, check_kinds, in_reals
from pullback.ops.formulas import OPERATIONS
from pullback.ops.hyperbolic import logaddexp
from pullback.ops.literals import literal
from pullback.ops.pointwise import same_dtype
from pullback.ops.reduce import highest, lowest
from pullback.ops.rounding import is_finite
from pullback.ops.shape import in_front, pad
from pullback.ops.stop_gradient import stop_gradient
from pullback.stablehlo.writer import TensorType, i64s

_BLOCK = 8
_PIECE = 32768
_WIDER = {FLOAT32: FLOAT64, COMPLEX64: COMPLEX128}


def running_dtype(dtype: DType) -> DType:
    """The dtype in which a scan accumulates, to be rounded in each element of the result: float64 for float32, complex128 for
    complex64, float32 for narrower floats. It costs nothing, since each element waits for the one before it anyway."""
    return _WIDER.get(dtype, accumulation_dtype(dtype))


def _written_scan(write, combine, start, wide, operands, axis, reverse):
    """The loop: `combine(write, before, *elements)` for one element of each operand after the other, from a number `start`, in
    the dtype `wide`."""
    if write.platform == "native":
        return write.accumulate(combine, start, wide, operands, axis, reverse)
    shape, dtype = operands[0].shape, operands[0].dtype
    size = shape[axis]
    out = write.constant(0, operands[0].type)
    if not np.prod(shape):
        return out

    def like(width, dtype):
        return TensorType((*shape[:axis], width, *shape[axis + 1 :]), dtype)

    def ahead(values, width):
        """The next elements, `width` of them along the axis."""
        done, before, out = values
        first = write.elementwise("stablehlo.subtract", write.constant(np.int32(size - width)), done) if reverse else done
        at = [first if i == axis else write.constant(np.int32(0)) for i in range(len(shape))]
        sizes = i64s(like(width, dtype).shape)
        blocks = [write.op("stablehlo.dynamic_slice", [x, *at], like(width, dtype), slice_sizes=sizes) for x in operands]
        blocks = [write.convert(block, wide) for block in blocks]
        found = []
        for place in range(width)[:: -1 if reverse else 1]:
            low = [place if i == axis else 0 for i in range(len(shape))]
            high = [place + 1 if i == axis else n for i, n in enumerate(shape)]
            cut = {"start_indices": i64s(low), "limit_indices": i64s(high), "strides": i64s([1] * len(shape))}
            before = combine(write, before, *[write.op("stablehlo.slice", [b], like(1, wide), **cut) for b in blocks])
            found.append(before)
        joined = write.op("stablehlo.concatenate", found[:: -1 if reverse else 1], like(width, wide), dimension=f"{axis} : i64")
        out = write.op("stablehlo.dynamic_update_slice", [out, write.convert(joined, dtype), *at], out.type)
        return [write.elementwise("stablehlo.add", done, write.constant(np.int32(width))), before, out]

    values = [write.constant(np.int32(0)), write.constant(start, like(1, wide)), out]
    if size >= 2 * _BLOCK:
        touched = np.prod(like(_BLOCK, wide).shape) * wide.itemsize * (1 + len(operands))
        write.note_step(touched, touched)
        end = write.constant(np.int32(size - size % _BLOCK))
        values = write.while_loop(values, lambda v: write.compare("LT", v[0], end), lambda v: ahead(v, _BLOCK))
        size %= _BLOCK
    return (ahead(values, size) if size else values)[-1]


class Scan(Rules):
    """What the elements up to each one along `axis` make together; with `reverse`, those from each one on."""

    quiet = True

    def result_type(primitive, *operands, axis: int, reverse: bool = False):
        check_kinds(primitive, *operands)
        check_axes(primitive.name, (axis,), operands[0])
        return same_dtype(primitive.name, operands)

    def axis_map(*operands, axis, reverse=False):
        return [all_but(x, (axis,)) for x in operands]

    def vectorize(primitive, size, args, axes, *, axis, reverse=False):
        args = [in_front(arg, batch, size) for arg, batch in zip(args, axes)]
        return primitive(*args, axis=axis + 1, reverse=reverse), 0

    def samples(rng):
        yield (rng.normal(size=(2, 5)),), {"axis": 1, "reverse": False}
        yield (rng.normal(size=(19,)),), {"axis": 0, "reverse": True}
        yield (rng.normal(size=(0, 2)),), {"axis": 0, "reverse": False}


def _in_pieces(combine, x, wide):
    """The scan of a vector in a wider dtype, as much at a time as stays in the processor's cache; rounded."""
    out, piece = np.empty(x.shape, x.dtype), np.empty(min(x.size, _PIECE), wide)
    for start in range(0, x.size, _PIECE):
        before, piece = piece[-1:].copy(), piece[: x.size - start]
        piece[...] = x[start : start + _PIECE]
        piece[:1] = combine(before, piece[:1]) if start else piece[:1]
        out[start : start + _PIECE] = combine.accumulate(piece, 0, None, piece)
    return out


def scanning(combine, written, start):
    """The evaluation and the lowering rule of a scan by a ufunc, and by the operation of that name, or the rule that writes it;
    `start` is its neutral element, or makes it for a dtype."""
    rule = written if callable(written) else lambda write, x, y: write.elementwise(written, x, y)

    def evaluate(primitive, x, *, axis, reverse=False):
        wide = primitive.accumulation(x.dtype) if primitive.accumulation else x.dtype
        x = np.flip(x, axis) if reverse else x
        out = _in_pieces(combine, x, wide) if x.ndim == 1 and wide is not x.dtype else combine.accumulate(x, axis, wide)
        return np.flip(out, axis).astype(x.dtype, copy=False) if reverse else out.astype(x.dtype, copy=False)

    def lower(primitive, write, x, *, axis, reverse=False):
        wide = primitive.accumulation(x.dtype) if primitive.accumulation else x.dtype
        return _written_scan(write, rule, start(wide) if callable(start) else start, wide, [x], axis, reverse)

    return evaluate, lower


def _before(x, neutral, axis, reverse):
    """Of a scan, the result for the elements before each one: the neutral element where there are none."""
    step = (-1, 1, 0) if reverse else (1, -1, 0)
    around = tuple([step if i == axis else (0, 0, 0) for i in range(type_of(x).ndim)])
    return pad(x, literal(neutral, x), padding_config=around) if type_of(x).shape[axis] else x


@primitive
class linear_scan(Scan):
    """y where y[i] = a[i] y[i-1] + b[i] along `axis`, and y is 0 before the first; with `reverse`, behind the last."""

    cost = 2
    kinds = "iufc"
    accumulation = running_dtype

    def evaluate(a, b, *, axis, reverse=False):
        wide, order = running_dtype(a.dtype), slice(None, None, -1 if reverse else 1)
        out = _solved(*[np.moveaxis(x, axis, 0)[order].astype(wide) for x in (a, b)])
        return np.moveaxis(out[order], 0, axis).astype(a.dtype)

    def lower(write, a, b, *, axis, reverse=False):
        def combine(write, before, a, b):
            return write.elementwise("stablehlo.add", write.elementwise("stablehlo.multiply", a, before), b)

        counted = TensorType(a.shape, np.dtype(np.int32))
        place = write.op("stablehlo.iota", [], counted, iota_dimension=f"{axis} : i64")
        first = write.compare("EQ", place, write.constant(max(a.shape[axis] - 1, 0) if reverse else 0, counted))
        a = write.select(first, write.like(a, 0), a)  # what it says there may be infinite
        return _written_scan(write, combine, 0, running_dtype(a.dtype), [a, b], axis, reverse)

    def jvp(primals, tangents, *, axis, reverse=False):
        (a, b), (ta, tb) = primals, tangents
        out = linear_scan(a, b, axis=axis, reverse=reverse)
        step = add(mul(ta, _before(out, 0, axis, reverse)), tb)
        return out, linear_scan(a, step, axis=axis, reverse=reverse)

    def transpose(cotangent, a, b, *, axis, reverse=False):
        return None, linear_scan(_before(a, 0, axis, not reverse), cotangent, axis=axis, reverse=not reverse)

    def samples(rng):
        for (a,), params in Scan.samples(rng):
            yield (a, rng.normal(size=a.shape)), params


def _solved(a, b):
    """The recurrence along axis 0, by that of half the length for every second element."""
    if len(b) < 2:
        return b
    out = np.empty_like(b)
    out[0] = b[0]
    out[1::2] = odd = _solved(a[1::2] * a[:-1:2], a[1::2] * b[:-1:2] + b[1::2])
    out[2::2] = a[2::2] * odd[: (len(b) - 1) // 2] + b[2::2]
    return out


@primitive
class cumsum(Scan):
    """The sum of the elements up to each one."""

    kinds = "iufc"
    linear = True
    accumulation = running_dtype
    evaluate, lower = scanning(np.add, "stablehlo.add", 0)

    def transpose(cotangent, x, *, axis, reverse=False):
        return (cumsum(cotangent, axis=axis, reverse=not reverse),)


@primitive
class cumprod(Scan):
    """The product of the elements up to each one."""

    kinds = "iufc"
    accumulation = running_dtype
    evaluate, lower = scanning(np.multiply, "stablehlo.multiply", 1)

    def cost(operands, results, **along):
        return operands[0].size * in_reals(operands[0], product=True)

    def jvp(primals, tangents, **along):
        (x,), (t,) = primals, tangents
        out = cumprod(x, **along)  # p[i] = x[i] p[i-1], so p'[i] = x[i] p'[i-1] + p[i-1] x'[i]: nothing is divided by a zero
        return out, linear_scan(x, mul(_before(out, 1, **{"reverse": False, **along}), t), **along)

    def samples(rng):
        yield from Scan.samples(rng)
        yield (np.array([[1.5, 0.0, -2.0, 0.5], [0.0, 2.0, 0.0, 3.0]]),), {"axis": 1}


class Running(Scan):
    """The extreme of the elements up to each one; those that share it share its derivative. From the first NaN on, NaN. Complex
    numbers are in the order of their real parts, then of their imaginary ones."""

    def jvp(primitive, primals, tangents, *, axis, reverse=False):
        (x,), (t,) = primals, tangents
        x = computed_once(x)
        out, along = primitive(x, axis=axis, reverse=reverse), {"axis": axis, "reverse": reverse}
        dtype = type_of(x).dtype
        same, chosen = [
            convert_element_type(found, new_dtype=dtype) for found in (eq(out, _before(out, 0, **along)), eq(x, out))
        ]
        count = linear_scan(same, chosen, **along)
        return out, div(linear_scan(same, mul(chosen, t), **along), count)


@primitive
class cummax(Running):
    """The largest of the elements up to each one; NaN from the first NaN on."""

    evaluate, lower = scanning(np.maximum, OPERATIONS[np.maximum], lowest)


@primitive
class cummin(Running):
    """The smallest of the elements up to each one; NaN from the first NaN on."""

    evaluate, lower = scanning(np.minimum, OPERATIONS[np.minimum], highest)


@primitive
class cumlogsumexp(Scan):
    """The logarithm of the sum of the exponentials of the elements up to each one."""

    kinds = "f"
    cost = 40
    accumulation = running_dtype
    evaluate, lower = scanning(np.logaddexp, logaddexp.lower, -np.inf)

    def jvp(primals, tangents, *, axis, reverse=False):
        (x,), (t,) = primals, tangents
        out, along = cumlogsumexp(x, axis=axis, reverse=reverse), {"axis": axis, "reverse": reverse}
        level = select(eq(out, literal(-np.inf, out)), literal(0, out), out)
        kept = exp(sub(_before(out, -np.inf, **along), level))
        return out, linear_scan(kept, mul(exp(sub(x, level)), t), **along)


def complex_logsumexp(x, **along):
    """`cumlogsumexp` of complex numbers: sums of exponentials, each divided by that of the largest real part so far."""
    peak, dtype = cummax(real(stop_gradient(x)), **along), type_of(x).dtype
    level = select(is_finite(peak), peak, literal(0, peak))
    kept = convert_element_type(exp(sub(_before(peak, -np.inf, **along), level)), new_dtype=dtype)
    level = convert_element_type(level, new_dtype=dtype)
    return add(log(linear_scan(kept, exp(sub(x, level)), **along)), level)
