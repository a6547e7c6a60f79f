"""Matrices as products of triangular and orthonormal ones: Cholesky, LU, QR.

Each operation works on stacks of matrices, evaluates by NumPy or SciPy, and lowers to LAPACK's kernels. A matrix that has no
such factors gives NaN. Source of the derivatives: Giles, "An extended collection of matrix derivative results for forward and
reverse mode automatic differentiation" (2008); Walter and Lehmann, "Algorithmic differentiation of linear algebra functions"
(2010), for QR.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.core.dtypes import INT32, kind
from pullback.core.errors import GradientError, ShapeError
from pullback.core.primitive import primitive
from pullback.core.source import at_user_line
from pullback.core.tracing import type_of
from pullback.ops.arithmetic import add, mul, sub
from pullback.ops.complex import complex as joined
from pullback.ops.complex import conj, imag
from pullback.ops.convert import convert_element_type
from pullback.ops.literals import literal
from pullback.ops.matrices import (
    Factorization,
    OfMatrices,
    adjoint,
    call_lapack,
    check_matrices,
    checked,
    diagonal,
    diagonal_matrix,
    elimination,
    identity_like,
    nan_on_failure,
    of_stack,
    one_by_one,
    product,
    real_part,
    reflections,
    scaled_columns,
    scaled_rows,
    stack_type,
    status_type,
    triangle_written,
    upper,
)
from pullback.ops.matrices import lower as lower_part
from pullback.ops.scipy_functions import routine
from pullback.ops.shape import concatenate, pad
from pullback.ops.shape import slice as slice_of
from pullback.ops.triangular import lu_pivots_to_permutation, permutation_written, permuted_rows, triangular_solve
from pullback.stablehlo.writer import TensorType


def self_adjoint(t, below):
    """The Hermitian matrices whose lower (or upper) triangles are those of t, and whose diagonals are its real parts."""
    part = lower_part(t, -1) if below else upper(t, 1)
    on_diagonal = convert_element_type(real_part(diagonal(t)), new_dtype=type_of(t).dtype)
    return add(add(part, adjoint(part)), diagonal_matrix(on_diagonal, t))


def spread_matrix(rng, *shape):
    """Well-conditioned matrices, whose eigenvalues and singular values lie apart."""
    x = 0.3 * rng.normal(size=shape)
    k = min(shape[-2:])
    x[..., range(k), range(k)] += np.arange(1, k + 1)
    return x


# ---- Cholesky and LU -------------------------------------------------------------------------------------------------------


_cholesky_or_nan = nan_on_failure(np.linalg.cholesky)


@primitive
class cholesky(OfMatrices):
    """Lower triangular L with positive diagonal and L L^H = x, whose lower triangle is read; NaN there if there is none."""

    def result_type(primitive, x):
        check_matrices(primitive, x, square=True)
        return x.strong()

    def evaluate(primitive, x):
        return np.tril(_cholesky_or_nan(primitive, x))

    def lower(write, x):
        out, status = call_lapack(write, "potrf", [x], [x.type, status_type(x)], len(x.shape) - 2, {0: 0}, uplo="L")
        return triangle_written(write, *checked(write, status, out), below=True)

    def jvp(primals, tangents):
        # L^-1 dx L^-H = L^-1 dL + (L^-1 dL)^H, of which the first term is lower triangular
        factor, tangent = cholesky(*primals), self_adjoint(tangents[0], below=True)
        inner = triangular_solve(factor, tangent, left_side=True, lower=True)
        inner = triangular_solve(factor, inner, left_side=False, lower=True, transpose_a=True, conjugate_a=True)
        halves = mul(diagonal(inner), literal(0.5, inner))
        return factor, product(factor, add(lower_part(inner, -1), diagonal_matrix(halves, inner)))

    def cost(operands, results):
        return of_stack(results[0], results[0].shape[-1] ** 3 / 3)

    def samples(rng):
        yield (rng.normal(size=(3, 3)) * 0.3 + 2 * np.eye(3),), {}
        yield (rng.normal(size=(2, 2, 2)) * 0.3 + 2 * np.eye(2),), {}
        yield (np.zeros((0, 0)),), {}
        yield (rng.normal(size=(0, 2, 2)),), {}


@primitive
class lu(Factorization):
    """L and U in one matrix, with x[permutation] = L U, where L has ones on its diagonal, which are left out; the rows with
    which each was exchanged in turn; and the permutation."""

    def result_type(primitive, x):
        check_matrices(primitive, x)
        rows = x.shape[-2]
        return x.strong(), stack_type(x, min(x.shape[-2:]), dtype=INT32), stack_type(x, rows, dtype=INT32)

    def evaluate(primitive, x):
        factor = routine("getrf", x.dtype)
        made, pivots, _ = one_by_one(primitive, lambda one: (*factor(one)[:2], 0), x)
        return made, pivots, lu_pivots_to_permutation.evaluate(pivots, permutation_size=x.shape[-2])

    def lower(write, x):
        *kernel, permuted = write.result_types
        out, pivots, _ = call_lapack(write, "getrf", [x], [*kernel, status_type(x)], len(x.shape) - 2, {0: 0})
        if all(x.shape):  # the kernel counts from 1
            pivots = write.elementwise("stablehlo.subtract", pivots, write.like(pivots, 1))
        return out, pivots, permutation_written(write, pivots, permuted)

    def jvp(primals, tangents):
        # P dx = dL U + L dU, and L^-1 P dx U^-1 = L^-1 dL + dU U^-1, of which only the first is strictly lower
        made, pivots, permutation = lu(*primals)
        left, right = unpacked(made)
        below, above = _completed(left, -1), _completed(right, -2)
        inner = triangular_solve(below, permuted_rows(tangents[0], permutation), left_side=True, lower=True)
        inner = triangular_solve(above, inner, left_side=False, lower=False)
        tangent = add(product(below, lower_part(inner, -1)), product(upper(inner), above))
        return (made, pivots, permutation), (tangent, None, None)

    def cost(operands, results):
        return elimination(operands[0])

    def samples(rng):
        yield (spread_matrix(rng, 3, 3),), {}
        yield (spread_matrix(rng, 2, 4, 2),), {}
        yield (spread_matrix(rng, 2, 3),), {}
        yield (np.zeros((3, 0)),), {}


def leading(x: Any, rows: int, columns: int) -> Any:
    """The first rows and columns of matrices."""
    *stack, height, width = type_of(x).shape
    if (rows, columns) == (height, width):
        return x
    return slice_of(x, start_indices=(0,) * (len(stack) + 2), limit_indices=(*stack, rows, columns))


def unpacked(made: Any) -> tuple[Any, Any]:
    """L and U, of the matrix that `lu` keeps them in."""
    rows, columns = type_of(made).shape[-2:]
    k = min(rows, columns)
    below = leading(made, rows, k)
    return add(lower_part(below, -1), identity_like(below)), upper(leading(made, k, columns))


def _completed(x, axis):
    """A triangular matrix with more rows than columns (axis -1), or the reverse, made square by columns, or rows, of the
    identity."""
    *stack, rows, columns = type_of(x).shape
    if rows == columns:
        return x
    whole, start = identity_like(x, max(rows, columns)), [0] * (len(stack) + 2)
    start[axis] = min(rows, columns)
    rest = slice_of(whole, start_indices=tuple(start), limit_indices=type_of(whole).shape)
    return concatenate(x, rest, dimension=len(stack) + 2 + axis)


# ---- QR --------------------------------------------------------------------------------------------------------------------


@primitive
class geqrf(Factorization):
    """R, with what makes Q below its diagonal: the vectors v_i, whose first element is 1 and left out; and the numbers tau_i of
    the reflections I - tau_i v_i v_i^H whose product Q is."""

    def result_type(primitive, x):
        check_matrices(primitive, x)
        return x.strong(), stack_type(x, min(x.shape[-2:]))

    def evaluate(x):
        made, taus = np.linalg.qr(x, mode="raw")
        return made.swapaxes(-1, -2), taus

    def lower(write, x):
        return call_lapack(write, "geqrf", [x], write.result_types, len(x.shape) - 2, {0: 0})

    def cost(operands, results):
        return reflections(operands[0])

    def samples(rng):
        yield (rng.normal(size=(4, 3)),), {}
        yield (rng.normal(size=(2, 2, 3)),), {}
        yield (np.zeros((2, 0)),), {}


def householder_product(made: Any, taus: Any) -> Any:
    """The first columns of the product of reflections, as many as `made` has: I - V T V^H with T = D (I + U D)^-1, where D is
    diag(taus) and U the strictly upper part of V^H V. Source: Schreiber and Van Loan, "A storage-efficient WY representation
    for products of Householder transformations" (1989)."""
    rows, columns = type_of(made).shape[-2:]
    count = type_of(taus).shape[-1]
    vectors, _ = unpacked(leading(made, rows, count))
    inner = product(adjoint(vectors), vectors)
    factor = add(identity_like(inner), scaled_columns(upper(inner, 1), taus))
    first = adjoint(leading(vectors, min(rows, columns), count))
    weighted = scaled_rows(taus, triangular_solve(factor, first, left_side=True, lower=False, unit_diagonal=True))
    return sub(identity_like(made), product(vectors, weighted))


def reflected(made: Any, taus: Any, x: Any, transposed: bool) -> Any:
    """Q x, or Q^H x, where Q is the product of reflections, all of it, which is never made: Q = I - V T V^H, as above."""
    vectors, _ = unpacked(leading(made, type_of(made).shape[-2], type_of(taus).shape[-1]))
    inner = product(adjoint(vectors), vectors)
    factor = add(identity_like(inner), scaled_columns(upper(inner, 1), taus))
    parts, how = product(adjoint(vectors), x), {"left_side": True, "lower": False, "unit_diagonal": True}
    if transposed:
        scaled = scaled_rows(conj(taus) if kind(type_of(taus).dtype) == "c" else taus, parts)
        weighted = triangular_solve(factor, scaled, transpose_a=True, conjugate_a=True, **how)
    else:
        weighted = scaled_rows(taus, triangular_solve(factor, parts, **how))
    return sub(x, product(vectors, weighted))


@primitive
class qr(Factorization):
    """Q with orthonormal columns and the upper triangular R with x = Q R; Q is square if `full_matrices`."""

    def result_type(primitive, x, *, full_matrices):
        check_matrices(primitive, x)
        rows, columns = x.shape[-2:]
        inner = rows if full_matrices else min(rows, columns)
        return stack_type(x, rows, inner), stack_type(x, inner, columns)

    def evaluate(x, *, full_matrices):
        return tuple(np.linalg.qr(x, mode="complete" if full_matrices else "reduced"))

    def expand(x, *, full_matrices):
        *_, rows, columns = type_of(x).shape
        inner = rows if full_matrices else min(rows, columns)
        if not rows * columns:
            return leading(identity_like(x, rows), rows, inner), leading(x, inner, columns)
        made, taus = geqrf(x)
        basis = leading(made, rows, min(rows, inner, columns))
        if inner > columns:
            basis = pad(
                basis, literal(0, basis), padding_config=(*[(0, 0, 0)] * (type_of(x).ndim - 1), (0, inner - columns, 0))
            )
        return householder_product(basis, taus), upper(leading(made, inner, columns))

    def jvp(primals, tangents, *, full_matrices):
        # of the first k columns: dx R^-1 = dQ + Q dR R^-1, where Q^H dQ is skew, and the other term upper triangular
        (x,), (t,) = primals, tangents
        *_, rows, columns = type_of(x).shape
        if full_matrices and rows > columns:
            raise GradientError(
                f"qr of {type_of(x)} with full_matrices=True has no derivative: the last {rows - columns} columns of Q may be"
                f" any orthonormal ones. Ask for the reduced Q (full_matrices=False, or mode='reduced').{at_user_line()}"
            )
        basis, rest = qr(x, full_matrices=full_matrices)
        k = min(rows, columns)
        change = triangular_solve(leading(rest, k, k), leading(t, rows, k), left_side=False, lower=False)
        inner = product(adjoint(basis), change)
        below = lower_part(inner, -1)
        turn = sub(below, adjoint(below))
        if kind(type_of(x).dtype) == "c":
            angles = imag(diagonal(inner))
            turn = add(turn, diagonal_matrix(joined(literal(0, angles), angles), turn))
        basis_change = add(product(basis, sub(turn, inner)), change)
        return (basis, rest), (basis_change, upper(product(adjoint(basis), sub(t, product(basis_change, rest)))))

    def cost(operands, results, *, full_matrices):
        *_, m, n = operands[0].shape
        k, made = min(m, n), results[0].shape[-1]  # R, then the columns of Q
        return reflections(operands[0]) + of_stack(operands[0], 4 * m * made * k - 2 * (m + made) * k**2 + 4 * k**3 / 3)

    def samples(rng):
        yield (spread_matrix(rng, 4, 3),), {"full_matrices": False}
        yield (spread_matrix(rng, 2, 3, 3),), {"full_matrices": True}
        yield (spread_matrix(rng, 2, 3),), {"full_matrices": False}
        yield (np.zeros((0, 0)),), {"full_matrices": True}


@primitive
class pivots_of_qr(OfMatrices):
    """The order of the columns in which each is the longest, of those that are left, in what is orthogonal to those before."""

    def result_type(primitive, x):
        check_matrices(primitive, x)
        return stack_type(x, x.shape[-1], dtype=INT32)

    def evaluate(primitive, x):
        factor = routine("geqp3", x.dtype)
        return one_by_one(primitive, lambda one: factor(one)[1] - 1, x)

    def lower(write, x):
        pivots = write.result_type
        if not all(x.shape):
            return write.op("stablehlo.iota", [], pivots, iota_dimension=f"{len(pivots.shape) - 1} : i64")
        types = [x.type, pivots, TensorType((*x.shape[:-2], min(x.shape[-2:])), x.dtype)]
        found = call_lapack(write, "geqp3", [x, write.constant(0, pivots)], types, len(x.shape) - 2, {0: 0, 1: 1})[1]
        return write.elementwise("stablehlo.subtract", found, write.like(found, 1))

    def cost(operands, results):
        return reflections(operands[0])

    def samples(rng):
        yield (rng.normal(size=(4, 3)),), {}
        yield (rng.normal(size=(2, 2, 3)),), {}


def inverse(x):
    """The inverses of matrices."""
    made, _, permutation = lu(x)
    left, right = unpacked(made)
    inner = triangular_solve(left, permuted_rows(identity_like(x), permutation), left_side=True, lower=True)
    return triangular_solve(right, inner, left_side=True, lower=False)


def halved_sum(x: Any, name: str) -> Any:
    """(x + x^H) / 2, for an operation of that name."""
    check_square(x, name)
    return mul(add(x, adjoint(x)), literal(0.5, x))


def check_square(x: Any, name: str) -> None:
    """Raise an error unless x is a stack of square matrices."""
    if type_of(x).ndim < 2 or type_of(x).shape[-1] != type_of(x).shape[-2]:
        raise ShapeError(f"{name} takes a square matrix, or a stack of them, but got {type_of(x)}.{at_user_line()}")
