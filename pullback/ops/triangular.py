"""Systems of equations with triangular and tridiagonal matrices, and the permutations that pivoting makes."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.core.dtypes import INT32, kind
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.primitive import primitive
from pullback.core.tracing import type_of
from pullback.core.types import array_type
from pullback.ops.arithmetic import add, mul, sub
from pullback.ops.families import of_products
from pullback.ops.index import gather
from pullback.ops.literals import literal
from pullback.ops.matrices import (
    OfMatrices,
    call_lapack,
    check_matrices,
    checked,
    conjugate,
    flipped,
    in_rows,
    one_by_one,
    product,
    status_type,
    upper,
)
from pullback.ops.matrices import lower as lower_part
from pullback.ops.scipy_functions import routine
from pullback.ops.shape import in_front, pad, reshape, transpose
from pullback.ops.sort import order
from pullback.ops.windows import GatherDimensionNumbers
from pullback.stablehlo.writer import TensorType


def check_system(primitive, a, b, left_side=True):
    """Raise an error unless a is a square matrix, and b as many rows (or columns), in stacks of one shape."""
    check_matrices(primitive, a, b, square=True)
    if a.shape[:-2] != b.shape[:-2] or b.ndim < 2 or b.shape[-2 if left_side else -1] != a.shape[-1]:
        raise ShapeError(
            f"{primitive.name} of {a} and {b}: the sizes of the matrix and of the right-hand side do not fit. The right-hand"
            " side must have as many rows as the matrix."
        )


def joined_columns(b, axis):
    """A batch of matrices, its axis in front, as one wide matrix (axis -1), or as one tall matrix (axis -2)."""
    shape = type_of(b).shape
    ndim = len(shape)
    order = (*range(1, ndim - 1), 0, ndim - 1) if axis == -1 else (*range(1, ndim - 2), 0, ndim - 2, ndim - 1)
    sizes = list(shape[1:])
    sizes[axis] *= shape[0]
    return reshape(transpose(b, permutation=order), new_sizes=tuple(sizes))


def separated_columns(x, axis, like):
    """The batch of matrices, of the shape of `like`, that one wide, or tall, matrix is made of, as `joined_columns` does it."""
    sizes = list(type_of(x).shape)
    at = len(sizes) + axis
    sizes[at : at + 1] = [type_of(like).shape[0], type_of(like).shape[axis]]
    out = reshape(x, new_sizes=tuple(sizes))
    return transpose(out, permutation=(at, *[i for i in range(len(sizes)) if i != at]))


@primitive
class triangular_solve(OfMatrices):
    """The x with A x = b, or x A = b unless `left_side`, where A is a triangle of a, or the transpose of one, or its conjugate.

    `lower` says which triangle of a is read; with `unit_diagonal`, its diagonal is not, but taken as ones.
    """

    linear = ("b",)

    def result_type(primitive, a, b, *, left_side, lower, transpose_a=False, conjugate_a=False, unit_diagonal=False):
        check_system(primitive, a, b, left_side)
        return b.strong()

    def evaluate(primitive, a, b, *, left_side, lower, transpose_a=False, conjugate_a=False, unit_diagonal=False):
        solve, params = routine("trsm", b.dtype), dict(left_side=left_side, lower=lower)
        if conjugate_a:
            a = a.conj()
        return one_by_one(
            primitive,
            lambda a, b: solve(1, a, b, side=not left_side, lower=lower, trans_a=transpose_a, diag=unit_diagonal),
            a,
            b,
            **params,
        )

    def lower(write, a, b, *, left_side, lower, transpose_a=False, conjugate_a=False, unit_diagonal=False):
        if conjugate_a and not transpose_a and a.dtype.kind == "c":
            a = conjugate_written(write, a)
        transposition = "C" if conjugate_a and transpose_a else "T" if transpose_a else "N"
        flags = {"side": "L" if left_side else "R", "uplo": "L" if lower else "U", "trans_x": transposition}
        flags["diag"] = "U" if unit_diagonal else "N"
        return call_lapack(write, "trsm", [a, b], [b.type], len(a.shape) - 2, {1: 0}, **flags)[0]

    def jvp(primals, tangents, *, left_side, **params):
        (a, _), (ta, tb) = primals, tangents
        x = triangular_solve(*primals, left_side=left_side, **params)
        moved = _read(ta, **params)
        change = product(moved, x) if left_side else product(x, moved)
        return x, triangular_solve(a, sub(tb, change), left_side=left_side, **params)

    def transpose(cotangent, a, b, *, transpose_a=False, **params):
        return None, triangular_solve(a, cotangent, transpose_a=not transpose_a, **params)

    def vectorize(size, args, axes, *, left_side, **params):
        a, b = args
        if axes == [0, 0]:
            return triangular_solve(a, b, left_side=left_side, **params), 0
        if axes[0] is None:
            along = -1 if left_side else -2
            out = triangular_solve(a, joined_columns(b, along), left_side=left_side, **params)
            return separated_columns(out, along, b), 0
        return triangular_solve(a, in_front(b, axes[1], size), left_side=left_side, **params), 0

    @of_products
    def cost(operands, results, **params):
        return results[0].size * operands[0].shape[-1]

    def samples(rng):
        a = rng.normal(size=(3, 3)) * 0.3 + 2 * np.eye(3)
        yield (a, rng.normal(size=(3, 2))), {"left_side": True, "lower": True}
        yield (a, rng.normal(size=(2, 3))), {"left_side": False, "lower": False, "transpose_a": True, "conjugate_a": True}
        given = {"left_side": True, "lower": False, "conjugate_a": True, "unit_diagonal": True}
        yield (0.5 * rng.normal(size=(2, 2, 2)), rng.normal(size=(2, 2, 1))), given
        yield (np.zeros((0, 0)), np.zeros((0, 2))), {"left_side": True, "lower": True}


def conjugate_written(write, x):
    """The conjugate of a complex value."""
    part = TensorType(x.shape, np.dtype(f"f{x.dtype.itemsize // 2}"))
    re, im = (write.op(f"stablehlo.{name}", [x], part) for name in ("real", "imag"))
    return write.op("stablehlo.complex", [re, write.elementwise("stablehlo.negate", im)], x.type)


def _read(a, *, lower, transpose_a=False, conjugate_a=False, unit_diagonal=False):
    """The matrix that `triangular_solve` makes of a, but zero in place of a unit diagonal, which has no derivative."""
    offset = int(unit_diagonal)
    out = lower_part(a, -offset) if lower else upper(a, offset)
    out = flipped(out) if transpose_a else out
    return conjugate(out) if conjugate_a else out


@primitive
class tridiagonal_solve(OfMatrices):
    """The x with A x = b, where A has the diagonals dl (whose first element is not read), d, and du (the last one is not)."""

    linear = ("b",)

    def result_type(primitive, dl, d, du, b):
        check_matrices(primitive, b, dl, d, du)
        if not dl.shape == d.shape == du.shape == b.shape[:-1]:
            raise ShapeError(
                f"tridiagonal_solve takes three vectors of as many elements as b has rows, but got {dl}, {d}, {du}, {b}."
            )
        return b.strong()

    def evaluate(primitive, dl, d, du, b):
        solve = routine("gtsv", b.dtype)

        def one(dl, d, du, b):
            if d.size == 1:
                return b / d if d else None
            *_, x, info = solve(dl[1:], d, du[:-1], b)
            return None if info else x

        return one_by_one(primitive, one, dl, d, du, b, core=1)

    def lower(write, dl, d, du, b):
        types, aliases = [dl.type, d.type, du.type, b.type, status_type(b)], {0: 0, 1: 1, 2: 2, 3: 3}
        *_, out, status = call_lapack(write, "gtsv", [dl, d, du, b], types, len(b.shape) - 2, aliases)
        return checked(write, status, out)[0]

    def jvp(primals, tangents):
        x = tridiagonal_solve(*primals)
        change = _tridiagonal_product(*tangents[:3], x)
        return x, tridiagonal_solve(*primals[:3], sub(tangents[3], change))

    def transpose(cotangent, dl, d, du, b):
        return None, None, None, tridiagonal_solve(_moved(du, 1, 0), d, _moved(dl, -1, 0), cotangent)

    @of_products
    def cost(operands, results):
        return 3 * operands[1].size + 5 * results[0].size  # elimination, once, and two substitutions

    def samples(rng):
        yield (rng.normal(size=4), 4 + rng.random(4), rng.normal(size=4), rng.normal(size=(4, 2))), {}
        yield (rng.normal(size=(2, 3)), 4 + rng.random((2, 3)), rng.normal(size=(2, 3)), rng.normal(size=(2, 3, 1))), {}
        yield (np.ones(1), 2 * np.ones(1), np.ones(1), np.ones((1, 2))), {}


def _moved(x, by, after):
    """x moved along its last axis but `after`, with zeros in the places that become free."""
    ndim = type_of(x).ndim
    config = [(by, -by, 0) if axis == ndim - 1 - after else (0, 0, 0) for axis in range(ndim)]
    return pad(x, literal(0, x), padding_config=tuple(config))


def _tridiagonal_product(dl, d, du, x):
    """A x, where A has the diagonals dl, d and du."""
    shape = type_of(x).shape
    terms = [mul(in_rows(v, shape), part) for v, part in ((dl, _moved(x, 1, 1)), (d, x), (du, _moved(x, -1, 1)))]
    return add(add(terms[0], terms[1]), terms[2])


@primitive
class lu_pivots_to_permutation(OfMatrices):
    """The permutation that exchanging row i with row `pivots[i]`, for one i after the other, makes."""

    cost = 0
    kinds = "iu"

    def result_type(pivots, *, permutation_size):
        if kind(pivots.dtype) not in "iu":
            raise DtypeError(f"lu_pivots_to_permutation takes integer pivots, but got {pivots}.")
        if not pivots.ndim or pivots.shape[-1] > permutation_size:
            raise ShapeError(
                f"lu_pivots_to_permutation takes at most permutation_size={permutation_size} pivots, but got {pivots}."
            )
        return array_type((*pivots.shape[:-1], permutation_size), INT32)

    def evaluate(pivots, *, permutation_size):
        out = np.empty((*pivots.shape[:-1], permutation_size), np.int32)
        for index in np.ndindex(pivots.shape[:-1]):
            rows = list(range(permutation_size))
            for i, other in enumerate(pivots[index].tolist()):
                rows[i], rows[other] = rows[other], rows[i]
            out[index] = rows
        return out

    def lower(write, pivots, *, permutation_size):
        return permutation_written(write, write.convert(pivots, np.dtype(np.int32)), write.result_type)

    def samples(rng):
        yield (np.array([2, 2, 3], np.int32),), {"permutation_size": 4}
        yield (np.array([[1, 1], [0, 1]], np.int64),), {"permutation_size": 2}
        yield (np.zeros((2, 0), np.int32),), {"permutation_size": 3}


def permutation_written(write, pivots, type):
    """The lowering of `lu_pivots_to_permutation`: a loop of exchanges, each in a pass over the permutation."""
    last = len(type.shape) - 1
    places = write.op("stablehlo.iota", [], type, iota_dimension=f"{last} : i64")
    if not pivots.shape[-1]:
        return places
    number = TensorType((), np.dtype(np.int32))
    small, spread = TensorType(pivots.shape, pivots.dtype), range(last)
    steps = write.op("stablehlo.iota", [], small, iota_dimension=f"{last} : i64")

    def chosen(which, values):
        return write.reduce("stablehlo.add", write.select(which, values, write.like(values, 0)), 0, (last,))

    def step(values):
        i, rows = values
        other = chosen(write.compare("EQ", steps, write.broadcast(i, small.shape)), pivots)
        here = write.compare("EQ", places, write.broadcast(i, type.shape))
        there = write.compare("EQ", places, write.broadcast(other, type.shape, spread))
        mine, its = (write.broadcast(chosen(which, rows), type.shape, spread) for which in (here, there))
        return write.elementwise("stablehlo.add", i, write.like(i, 1)), write.select(here, its, write.select(there, mine, rows))

    count = write.constant(pivots.shape[-1], number)
    write.note_loop()  # each step of it costs next to nothing
    return write.while_loop([write.constant(0, number), places], lambda v: write.compare("LT", v[0], count), step)[1]


def permuted_rows(x: Any, permutation: Any) -> Any:
    """x[permutation], for each matrix of a stack."""
    batch = tuple(range(type_of(x).ndim - 2))
    rows = len(batch)
    if not type_of(x).size:
        return x
    numbers = GatherDimensionNumbers((rows + 1,), (rows,), (rows,), batch, batch)
    indices = reshape(permutation, new_sizes=(*type_of(permutation).shape, 1))
    sizes = (*[1] * (rows + 1), type_of(x).shape[-1])
    return gather(x, indices, dimension_numbers=numbers, slice_sizes=sizes, mode="promise_in_bounds")


def inverse_permutation(permutation: Any) -> Any:
    """The permutations that undo permutations."""
    return order(permutation, dimension=type_of(permutation).ndim - 1, index_dtype=INT32)
