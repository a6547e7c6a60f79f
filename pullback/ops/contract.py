"""Sums of products along axes of two arrays: matrix products and everything like them."""

from __future__ import annotations

import math

import numpy as np

from pullback.core.dtypes import accumulation_dtype, canonical, kind
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.primitive import Rules, primitive
from pullback.core.tracing import type_of
from pullback.core.types import array_type, is_unknown
from pullback.core.zero import ZERO
from pullback.ops.arithmetic import add
from pullback.ops.convert import convert_element_type
from pullback.ops.families import check_kinds, numbered, of_products, up, without
from pullback.ops.pointwise import same_dtype
from pullback.ops.shape import inverse, transpose
from pullback.stablehlo.writer import TensorType, listed

MOST_PAIRS = 100_000_000  # of elements of a product and of an operand, that its sparsity rule lists

_PLAIN = (((1,), (0,)), ((), ()))


class Bilinear(Rules):
    """Linear in each of two operands. Needs `evaluate`, `lower`, `transpose`."""

    quiet = True
    bilinear = True
    symbolic_zeros = True

    def jvp(primitive, primals, tangents, **params):
        (x, y), (tx, ty) = primals, tangents
        out = primitive(x, y, **params)
        terms = [primitive(*pair, **params) for t, pair in ((tx, (tx, y)), (ty, (x, ty))) if t is not ZERO]
        return out, terms[0] if len(terms) == 1 else add(*terms)


@primitive
class dot_general(Bilinear):
    """The sum of x * y over pairs of contracting axes, along pairs of batch axes.

    `dimension_numbers` is ((contracting axes of x, of y), (batch axes of x, of y)). The result has the batch axes, then the
    remaining axes of x, then those of y. It is accumulated, and returned, in `preferred_element_type` if one is given.
    """

    accumulation = accumulation_dtype

    def result_type(primitive, x, y, *, dimension_numbers, preferred_element_type=None, precision=None):
        check_kinds(primitive, x, y)
        (x_contracting, y_contracting), (x_batch, y_batch) = dimension_numbers
        common = same_dtype("dot_general", (x, y))
        for name, left, right in (("contracting", x_contracting, y_contracting), ("batch", x_batch, y_batch)):
            known = all(0 <= axis < x.ndim for axis in left) and all(0 <= axis < y.ndim for axis in right)
            if not known or len(left) != len(right) or [x.shape[i] for i in left] != [y.shape[i] for i in right]:
                raise ShapeError(
                    f"dot_general of {x} and {y}: the {name} axes {left} and {right} do not have the same sizes. Each pair of"
                    " axes must agree."
                )
        x_used, y_used = (*x_contracting, *x_batch), (*y_contracting, *y_batch)
        if len(set(x_used)) != len(x_used) or len(set(y_used)) != len(y_used):
            raise ShapeError(
                f"dot_general of {x} and {y} uses an axis twice: dimension_numbers={dimension_numbers}. Name each once."
            )
        shape = (*[x.shape[i] for i in x_batch], *x.without(x_used).shape, *y.without(y_used).shape)
        if preferred_element_type is None:
            return common.with_shape(shape)
        wanted = canonical(preferred_element_type)
        if (kind(wanted) == "c") != (kind(x.dtype) == "c"):
            raise DtypeError(
                f"dot_general of {x} and {y} cannot be accumulated in {wanted.name}. Choose a preferred_element_type of their"
                " kind."
            )
        return array_type(shape, wanted)

    def evaluate(x, y, *, dimension_numbers, preferred_element_type=None, precision=None):
        dtype = x.dtype if preferred_element_type is None else preferred_element_type
        working = dot_general.accumulation(dtype)
        if x.dtype is not working:
            x, y = x.astype(working), y.astype(working)
        out = _contract(x, y, dimension_numbers)
        return out if working is dtype else out.astype(dtype)

    def lower(write, x, y, *, dimension_numbers, preferred_element_type=None, precision=None):
        (x_contracting, y_contracting), (x_batch, y_batch) = dimension_numbers
        numbers = (
            f"#stablehlo.dot<lhs_batching_dimensions = {listed(x_batch)}, rhs_batching_dimensions = {listed(y_batch)}, "
            f"lhs_contracting_dimensions = {listed(x_contracting)}, rhs_contracting_dimensions = {listed(y_contracting)}>"
        )
        given = {"dot_dimension_numbers": numbers}
        if precision is not None:
            given["precision_config"] = f"[#stablehlo<precision {precision}>, #stablehlo<precision {precision}>]"
        if write.result_type.dtype.kind in "iu":  # XLA would accumulate narrow integers in themselves
            x, y = write.convert(x, write.result_type.dtype), write.convert(y, write.result_type.dtype)
        result = write.result_type
        wide = TensorType(result.shape, dot_general.accumulation(result.dtype))
        return write.convert(write.op("stablehlo.dot_general", [x, y], wide, **given), result.dtype)

    def transpose(cotangent, x, y, *, dimension_numbers, preferred_element_type=None, precision=None):
        (x_contracting, y_contracting), (x_batch, y_batch) = dimension_numbers
        if is_unknown(x):
            dims = (x_contracting, y_contracting, x_batch, y_batch)
            return _solve(cotangent, x, y, dims, precision, first=True), None
        dims = (y_contracting, x_contracting, y_batch, x_batch)
        return None, _solve(cotangent, y, x, dims, precision, first=False)

    def axis_map(x, y, *, dimension_numbers, preferred_element_type=None, precision=None):
        (x_contracting, y_contracting), (x_batch, y_batch) = dimension_numbers
        x_kept, y_kept = without(x, (*x_contracting, *x_batch)), without(y, (*y_contracting, *y_batch))
        x_axes = {axis: place for place, axis in enumerate((*x_batch, *x_kept))}
        y_axes = {axis: place for place, axis in enumerate(y_kept, len(x_axes))}
        return x_axes, y_axes | {axis: place for place, axis in enumerate(y_batch)}

    def vectorize(size, args, axes, *, dimension_numbers, preferred_element_type=None, precision=None):
        (x, y), (x_batched, y_batched) = args, [axis == 0 for axis in axes]
        contracting, batch = [(up(a) if x_batched else a, up(b) if y_batched else b) for a, b in dimension_numbers]
        at = len(batch[0]) if x_batched else type_of(x).ndim - len(contracting[0])  # the place of the batch axis in the result
        if x_batched and y_batched:
            batch, at = ((0, *batch[0]), (0, *batch[1])), 0
        rest = _given(preferred_element_type=preferred_element_type, precision=precision)
        out = dot_general(x, y, dimension_numbers=(contracting, batch), **rest)
        return transpose(out, permutation=(at, *without(type_of(out), (at,)))) if at else out, 0

    @of_products
    def cost(operands, results, *, dimension_numbers, preferred_element_type=None, precision=None):
        return 2 * results[0].size * math.prod([operands[0].shape[axis] for axis in dimension_numbers[0][0]])

    def sparsity(which, operands, *, dimension_numbers, preferred_element_type=None, precision=None):
        # both as [batch, free, contracting]: this operand's elements numbered, and where the other is nonzero, if that is known
        sides = []
        for i, x in enumerate(operands):
            contracting, batch = dimension_numbers[0][i], dimension_numbers[1][i]
            free = [axis for axis in range(len(x.shape)) if axis not in contracting and axis not in batch]
            values = numbered(x) if i == which else (x != 0) if isinstance(x, np.ndarray) else np.ones(x.shape, bool)
            sizes = [math.prod([x.shape[axis] for axis in axes]) for axes in (batch, free, contracting)]
            sides.append(values.transpose([*batch, *free, *contracting]).reshape(sizes))
        left, right = sides  # [b, i, k] and [b, j, k]
        if np.count_nonzero(sides[1 - which]) * sides[which].shape[1] > MOST_PAIRS:
            return None
        own, other = sides[which], sides[1 - which]
        b, j, k = np.nonzero(other)
        size = own.shape[1]
        elements = own[b, :, k]  # [nonzero of the other, free axis of this one]
        places = np.arange(size)[None, :], j[:, None]
        rows, columns = places if which == 0 else places[::-1]
        results = (b[:, None] * left.shape[1] + rows) * right.shape[1] + columns
        return np.broadcast_to(results, elements.shape).reshape(-1), elements.reshape(-1)

    def samples(rng):
        yield (rng.normal(size=(2, 3)), rng.normal(size=(3, 4))), {"dimension_numbers": _PLAIN}
        yield (rng.normal(size=(3,)), rng.normal(size=(3,))), {"dimension_numbers": (((0,), (0,)), ((), ()))}
        yield (rng.normal(size=(2,)), rng.normal(size=(3,))), {"dimension_numbers": (((), ()), ((), ()))}
        batched = (((3, 1), (0, 2)), ((0,), (3,)))
        yield (rng.normal(size=(2, 4, 3, 5)), rng.normal(size=(5, 2, 4, 2))), {"dimension_numbers": batched}
        yield (rng.normal(size=(2, 0)), rng.normal(size=(0, 3))), {"dimension_numbers": _PLAIN}


def _given(**params):
    """The parameters that are not None: leaving one out and passing None are one operation, and should be written as one."""
    return {name: value for name, value in params.items() if value is not None}


def _contract(x, y, dimension_numbers):
    """dot_general on NumPy arrays, by one BLAS product; where nothing is summed, by one of NumPy's."""
    if dimension_numbers == _PLAIN and x.ndim == 2 and y.ndim == 2:
        return np.matmul(x, y)
    (x_contracting, y_contracting), (x_batch, y_batch) = dimension_numbers
    x_free = [axis for axis in range(x.ndim) if axis not in x_contracting and axis not in x_batch]
    y_free = [axis for axis in range(y.ndim) if axis not in y_contracting and axis not in y_batch]
    batch = [x.shape[axis] for axis in x_batch]
    rows, columns = [x.shape[axis] for axis in x_free], [y.shape[axis] for axis in y_free]
    if not x_contracting:
        left = x.transpose([*x_batch, *x_free]).reshape([*batch, *rows, *[1] * len(columns)])
        return left * y.transpose([*y_batch, *y_free]).reshape([*batch, *[1] * len(rows), *columns])
    inner = math.prod([x.shape[axis] for axis in x_contracting])
    left = x.transpose([*x_batch, *x_free, *x_contracting]).reshape([*batch, math.prod(rows), inner])
    right = y.transpose([*y_batch, *y_contracting, *y_free]).reshape([*batch, inner, math.prod(columns)])
    return np.matmul(left, right).reshape([*batch, *rows, *columns])


def _solve(cotangent, unknown, known, dims, precision, first):
    """The cotangent of one operand: the cotangent's axes that came from the other operand are contracted with it."""
    contracting, known_contracting, batch, known_batch = dims
    known_type = type_of(known)
    free = [axis for axis in range(unknown.ndim) if axis not in contracting and axis not in batch]
    known_free = tuple([axis for axis in range(known_type.ndim) if axis not in known_contracting and axis not in known_batch])
    start = len(batch) + (len(free) if first else 0)
    from_known = tuple(range(start, start + len(known_free)))
    dtype = type_of(cotangent).dtype
    if known_type.dtype is not dtype:
        known = convert_element_type(known, new_dtype=dtype)
    out = dot_general(
        cotangent,
        known,
        dimension_numbers=((from_known, known_free), (tuple(range(len(batch))), tuple(known_batch))),
        **_given(precision=precision),
    )
    # out's axes: the batch, what is free in the unknown, then the contracted ones in the order of the known operand's axes
    by_known = [contracting[i] for i in sorted(range(len(contracting)), key=lambda i: known_contracting[i])]
    order = (*batch, *free, *by_known)
    if order != tuple(range(len(order))):
        out = transpose(out, permutation=inverse(order))
    return out if dtype is unknown.dtype else convert_element_type(out, new_dtype=unknown.dtype)
