"""Eigenvalues and singular values, and the forms that lead to them: Schur, Hessenberg, tridiagonal.

Where two eigenvalues or singular values are equal to the last bit, their vectors have a derivative only along what does not
turn them into each other: the others are infinite or NaN. Source of the derivatives: Giles, "An extended collection of matrix
derivative results for forward and reverse mode automatic differentiation" (2008); Townsend, "Differentiating the singular
value decomposition" (2016).
"""

from __future__ import annotations

import numpy as np

from pullback.core.dtypes import INT32, kind
from pullback.core.errors import GradientError
from pullback.core.primitive import primitive
from pullback.core.source import at_user_line
from pullback.core.tracing import type_of
from pullback.ops import compare, reduce
from pullback.ops.arithmetic import add, div, mul, sub
from pullback.ops.broadcast import reduce_sum
from pullback.ops.complex import abs as absolute
from pullback.ops.complex import complex as joined
from pullback.ops.complex import imag, sign
from pullback.ops.convert import convert_element_type
from pullback.ops.create import iota
from pullback.ops.factorizations import inverse, self_adjoint, spread_matrix
from pullback.ops.formulas import COMPLEX_DTYPE
from pullback.ops.literals import literal
from pullback.ops.matrices import (
    Factorization,
    adjoint,
    call_lapack,
    check_matrices,
    checked,
    conjugate,
    diagonal,
    diagonal_matrix,
    flipped,
    identity_written,
    in_columns,
    in_rows,
    mask,
    nan_on_failure,
    of_stack,
    one_by_one,
    part_dtype,
    product,
    real_part,
    scaled_columns,
    singular,
    stack_type,
    status_type,
    where,
)
from pullback.ops.pointwise import OfTwo
from pullback.ops.scipy_functions import linalg, routine
from pullback.stablehlo.writer import TensorType


@primitive
class over_gap(OfTwo):
    """x / y, but 0 / 0 is 0: vectors of equal eigenvalues that nothing turns into each other have finite derivatives."""

    cost = 5
    kinds = "fc"
    linear = ("x",)

    def evaluate(x, y):
        nothing = (x == 0) & (y == 0)
        return np.where(nothing, x, x / np.where(nothing, 1, y))

    def jvp(primals, tangents):
        (_, y), (tx, ty) = primals, tangents
        out = over_gap(*primals)
        return out, over_gap(sub(tx, mul(out, ty)), y)

    def transpose(cotangent, x, y):
        return over_gap(cotangent, y), None

    def samples(rng):
        yield (rng.normal(size=(2, 3)), 1 + rng.random((2, 3))), {}


def turned(x, values):
    """x_ij / (w_j - w_i), and 0 on the diagonal."""
    shape = type_of(x).shape
    gaps = sub(in_columns(values, shape), in_rows(values, shape))
    apart = mask(compare.ne, shape)
    return over_gap(where(apart, x, 0), convert_element_type(where(apart, gaps, 1), new_dtype=type_of(x).dtype))


# ---- eigenvalues -----------------------------------------------------------------------------------------------------------


@primitive
class eigh(Factorization):
    """The eigenvalues w, in rising order, of Hermitian matrices whose lower (or upper) triangle is x's; if `vectors`, behind
    the orthonormal matrix V of eigenvectors. The derivative of an eigenvector has no part along itself."""

    def result_type(primitive, x, *, lower, vectors):
        check_matrices(primitive, x, square=True)
        values = stack_type(x, x.shape[-1], dtype=part_dtype(x.dtype))
        return (x.strong(), values) if vectors else (values,)

    @nan_on_failure
    def evaluate(x, *, lower, vectors):
        triangle = "L" if lower else "U"
        return tuple(np.linalg.eigh(x, triangle))[::-1] if vectors else (np.linalg.eigvalsh(x, triangle),)

    def lower(write, x, *, lower, vectors):
        types = [x.type, write.result_types[-1], status_type(x)]
        flags = {"mode": "V" if vectors else "N", "uplo": "L" if lower else "U"}
        basis, values, status = call_lapack(write, "syevd", [x], types, len(x.shape) - 2, {0: 0}, **flags)
        return checked(write, status, basis, values)[not vectors :]

    def jvp(primals, tangents, *, lower, vectors):
        # V^H dx V = diag(dw) + (V^H dV) diag(w) - diag(w) (V^H dV)
        basis, values = eigh(*primals, lower=lower, vectors=True)
        inner = product(adjoint(basis), self_adjoint(tangents[0], lower), basis)
        change = real_part(diagonal(inner))
        if not vectors:
            return (values,), (change,)
        return (basis, values), (product(basis, turned(inner, values)), change)

    def cost(operands, results, *, lower, vectors):
        return of_stack(operands[0], (9 if vectors else 4 / 3) * operands[0].shape[-1] ** 3)

    def samples(rng):
        yield (spread_matrix(rng, 3, 3).real,), {"lower": True, "vectors": False}
        yield (np.zeros((0, 0)),), {"lower": True, "vectors": True}
        yield (np.zeros((2, 0, 0)),), {"lower": False, "vectors": False}


@primitive
class svd(Factorization):
    """The singular values s, in falling order; if `vectors`, then the orthonormal columns of U and the rows of V^H, with
    x = U diag(s) V^H: as many as there are singular values, or all if `full_matrices`."""

    def result_type(primitive, x, *, full_matrices, vectors):
        check_matrices(primitive, x)
        rows, columns = x.shape[-2:]
        k = min(rows, columns)
        values = stack_type(x, k, dtype=part_dtype(x.dtype))
        if not vectors:
            return (values,)
        left, right = (rows, columns) if full_matrices else (k, k)
        return values, stack_type(x, rows, left), stack_type(x, right, columns)

    @nan_on_failure
    def evaluate(x, *, full_matrices, vectors):
        x = x + 0 * x  # NaN for infinities, of which LAPACK never ends
        if not vectors:
            return (np.linalg.svd(x, compute_uv=False),)
        left, values, right = np.linalg.svd(x, full_matrices)
        return values, left, right

    def lower(write, x, *, full_matrices, vectors):
        rows, columns = x.shape[-2:]
        k = min(rows, columns)
        full = full_matrices or not rows * columns
        shapes = ((rows, rows), (columns, columns)) if full else ((rows, k), (k, columns))
        stack, values = x.shape[:-2], write.result_types[0]
        left, right = (TensorType((*stack, *shape), x.dtype) for shape in shapes)
        types = [x.type, values, left, right, status_type(x)]
        mode = "N" if not vectors else "A" if full_matrices else "S"
        x = write.elementwise(
            "stablehlo.add", x, write.elementwise("stablehlo.multiply", x, write.like(x, 0))
        )  # as in `evaluate`
        _, *found, status = call_lapack(write, "gesdd", [x], types, len(stack), {0: 0}, mode=mode)
        if not rows * columns:
            found[1:] = [identity_written(write, type) for type in write.result_types[1:]]
        return checked(write, status, *found[: 1 + 2 * vectors])

    def jvp(primals, tangents, *, full_matrices, vectors):
        # M = U^H dx V = (U^H dU) S + dS + S (dV^H V), where the first factor and the last are skew. So U^H dU (s_j - s_i) is
        # N + N^H, where N_ij = M_ij s_j / (s_i + s_j): a share, for squares of singular values may be out of range
        (x,), (t,) = primals, tangents
        *_, rows, columns = type_of(x).shape
        if vectors and full_matrices and rows != columns:
            raise GradientError(
                f"svd of {type_of(x)} with full_matrices=True has no derivative: the last {abs(rows - columns)} singular"
                " vectors on one side may be any orthonormal ones. Ask for the reduced ones (full_matrices=False)."
                + at_user_line()
            )
        values, left, right = svd(x, full_matrices=False, vectors=True)
        basis = adjoint(right)
        inner = product(adjoint(left), t, basis)
        change = real_part(diagonal(inner))
        if not vectors:
            return (values,), (change,)
        shape = (*type_of(values).shape, type_of(values).shape[-1])
        sums = add(in_columns(values, shape), in_rows(values, shape))
        share = convert_element_type(over_gap(in_columns(values, shape), sums), new_dtype=type_of(x).dtype)
        after, before = mul(inner, share), mul(inner, flipped(share))
        turn = turned(add(after, adjoint(after)), values)
        if kind(type_of(x).dtype) == "c":
            angles = over_gap(imag(diagonal(inner)), values)
            turn = add(turn, diagonal_matrix(joined(literal(0, angles), angles), turn))
        left_change, basis_change = product(left, turn), product(basis, turned(add(before, adjoint(before)), values))
        if rows > columns:
            left_change = add(left_change, by_columns(outside(left, product(t, basis)), values))
        if columns > rows:
            basis_change = add(basis_change, by_columns(outside(basis, product(adjoint(t), left)), values))
        return (values, left, right), (change, left_change, adjoint(basis_change))

    def cost(operands, results, *, full_matrices, vectors):
        return singular(operands[0], vectors, full_matrices)

    def samples(rng):
        for shape in ((3, 3), (2, 4, 2), (2, 3)):
            yield (spread_matrix(rng, *shape),), {"full_matrices": False, "vectors": False}
        yield (np.zeros((0, 0)),), {"full_matrices": True, "vectors": True}


def by_columns(x, values):
    """x diag(values)^-1."""
    return over_gap(x, in_columns(convert_element_type(values, new_dtype=type_of(x).dtype), type_of(x).shape))


def outside(basis, x):
    """What of the columns of x is orthogonal to the orthonormal columns of a basis."""
    return sub(x, product(basis, product(adjoint(basis), x)))


@nan_on_failure
def _right_ones(x, *, left, right):
    found = np.linalg.eig(x) if right else (np.linalg.eigvals(x),)
    return tuple([each.astype(COMPLEX_DTYPE.get(x.dtype, x.dtype), copy=False) for each in found])


@primitive
class eig(Factorization):
    """The eigenvalues w of any matrices, complex; if `left`, then the left eigenvectors, whose u^H x = w u^H; and if `right`,
    then the right ones, as columns. Each is of length 1, and its largest element is real."""

    def result_type(primitive, x, *, left, right):
        check_matrices(primitive, x, square=True)
        dtype = COMPLEX_DTYPE.get(x.dtype, x.dtype)
        return (stack_type(x, x.shape[-1], dtype=dtype), *[stack_type(x, *x.shape[-2:], dtype=dtype)] * (left + right))

    def evaluate(primitive, x, *, left, right):
        if not left:
            return _right_ones(primitive, x, left=False, right=right)

        def one(x):
            wide = x.astype(np.result_type(x, np.float64))
            return linalg("eig")(wide, left=True)[: 2 + right] if np.isfinite(x).all() else None

        return one_by_one(primitive, one, x, left=left, right=right)

    def lower(write, x, *, left, right):
        # In 64 bits, as NumPy does: so eager and compiled eigenvalues come in one order.
        results, x = write.result_types, write.convert(x, np.result_type(x.dtype, np.float64))
        values = TensorType(results[0].shape, COMPLEX_DTYPE.get(x.dtype, x.dtype))
        matrices = TensorType(x.shape, values.dtype)
        parts = [values] if x.dtype == values.dtype else [TensorType(values.shape, x.dtype)] * 2
        flags = {"compute_left": "V" if left else "N", "compute_right": "V" if right else "N"}
        types = [*parts, matrices, matrices, status_type(x)]
        *found, lefts, rights, status = call_lapack(write, "geev", [x], types, len(x.shape) - 2, **flags)
        value = found[0] if len(found) == 1 else write.op("stablehlo.complex", found, values)
        outs = checked(write, status, value, *[lefts][:left], *[rights][:right])
        return tuple([write.convert(out, result.dtype) for out, result in zip(outs, results)])

    def jvp(primals, tangents, *, left, right):
        # V^-1 dx V = diag(dw) + (V^-1 dV) diag(w) - diag(w) (V^-1 dV)
        (x,), (t,) = primals, tangents
        values, *lefts, rights = eig(x, left=left, right=True)
        change = convert_element_type(t, new_dtype=type_of(values).dtype)
        inner = product(inverse(rights), change, rights)
        found = [diagonal(inner)]
        for basis in lefts:
            other = product(inverse(basis), adjoint(change), basis)
            found.append(_settled(basis, product(basis, turned(other, conjugate(values)))))
        if right:
            found.append(_settled(rights, product(rights, turned(inner, values))))
        return (values, *lefts, rights)[: len(found)], tuple(found)

    def cost(operands, results, *, left, right):
        return of_stack(operands[0], (25 if left or right else 10) * operands[0].shape[-1] ** 3)

    def samples(rng):
        yield (spread_matrix(rng, 3, 3),), {"left": False, "right": False}
        yield (spread_matrix(rng, 2, 2, 2),), {"left": True, "right": True}
        yield (np.zeros((0, 0)),), {"left": False, "right": True}


def _settled(vectors, change):
    """A change of vectors of length 1 whose largest element is real, without that part of it which would change either."""
    shape = type_of(vectors).shape
    axis = len(shape) - 2
    if not type_of(vectors).size:
        return change
    along = real_part(reduce_sum(mul(conjugate(vectors), change), axes=(axis,)))
    sizes = absolute(vectors)
    largest = reduce.argmax(sizes, axis=axis, index_dtype=INT32)
    rows = iota(dtype=INT32, shape=shape, dimension=axis)
    here = compare.eq(rows, in_columns(largest, shape))
    angle = reduce_sum(where(here, imag(mul(change, conjugate(sign(vectors)))), 0), axes=(axis,))
    size = reduce.reduce_max(sizes, axes=(axis,))
    return sub(change, scaled_columns(vectors, joined(along, div(angle, size))))


# ---- without derivatives: Schur, Hessenberg, tridiagonal -------------------------------------------------------------------


@primitive
class schur(Factorization):
    """T, and, if `vectors`, the unitary Z with x = Z T Z^H: T is upper triangular; of a real matrix it has 2x2 blocks on its
    diagonal, one for each pair of complex eigenvalues."""

    def result_type(primitive, x, *, vectors):
        check_matrices(primitive, x, square=True)
        return (x.strong(),) * (1 + vectors)

    def evaluate(primitive, x, *, vectors):
        output = "complex" if x.dtype.kind == "c" else "real"

        def one(x):
            return linalg("schur")(x, output)[: 1 + vectors] if np.isfinite(x).all() else None

        return one_by_one(primitive, one, x, vectors=vectors)

    def lower(write, x, *, vectors):
        status, real_dtype = status_type(x), part_dtype(x.dtype)
        values = TensorType(x.shape[:-1], x.dtype)
        types = [x.type, x.type, *[values] * (1 if x.dtype != real_dtype else 2), status, status]
        flags = {"mode": "V" if vectors else "N", "sort": "N"}
        form, basis, *_, status = call_lapack(write, "gees", [x], types, len(x.shape) - 2, {0: 0}, **flags)
        return checked(write, status, form, *[basis][:vectors])

    def cost(operands, results, *, vectors):
        return of_stack(operands[0], (25 if vectors else 10) * operands[0].shape[-1] ** 3)

    def samples(rng):
        yield (rng.normal(size=(3, 3)),), {"vectors": True}
        yield (rng.normal(size=(2, 2, 2)),), {"vectors": False}
        yield (np.zeros((0, 0)),), {"vectors": True}


@primitive
class hessenberg(Factorization):
    """H, zero below its first subdiagonal, with the reflections that make the unitary Q there, as `geqrf` has them; and their
    numbers tau; x = Q H Q^H."""

    def result_type(primitive, x):
        check_matrices(primitive, x, square=True)
        return x.strong(), stack_type(x, max(x.shape[-1] - 1, 0))

    def evaluate(primitive, x):
        reduce = routine("gehrd", x.dtype)
        return one_by_one(primitive, lambda one: reduce(one)[:2] if one.size > 1 else (one, ()), x)

    def lower(write, x):
        types = [*write.result_types, status_type(x)]
        out, taus, status = call_lapack(write, "gehrd", [x], types, len(x.shape) - 2, {0: 0}, low=1, high=x.shape[-1])
        return checked(write, status, out, taus)

    def cost(operands, results):
        return of_stack(operands[0], 10 * operands[0].shape[-1] ** 3 / 3)

    def samples(rng):
        yield (rng.normal(size=(4, 4)),), {}
        yield (rng.normal(size=(2, 1, 1)),), {}


@primitive
class tridiagonal(Factorization):
    """Of a Hermitian matrix, whose lower (or upper) triangle is read: the reflections that make the unitary Q, as `geqrf` has
    them, in one matrix; and the diagonal d, the subdiagonal e, and the numbers tau; x = Q T Q^H."""

    def result_type(primitive, x, *, lower):
        check_matrices(primitive, x, square=True)
        few, dtype = max(x.shape[-1] - 1, 0), part_dtype(x.dtype)
        return x.strong(), stack_type(x, x.shape[-1], dtype=dtype), stack_type(x, few, dtype=dtype), stack_type(x, few)

    def evaluate(primitive, x, *, lower):
        reduce = routine("hetrd" if x.dtype.kind == "c" else "sytrd", x.dtype)

        def one(x):
            return reduce(x, lower=lower)[:4] if x.size > 1 else (x.real, x[0].real, (), ())

        return one_by_one(primitive, one, x, lower=lower)

    def lower(write, x, *, lower):
        types, flags = [*write.result_types, status_type(x)], {"uplo": "L" if lower else "U"}
        *found, status = call_lapack(write, "sytrd", [x], types, len(x.shape) - 2, {0: 0}, **flags)
        return checked(write, status, *found)

    def cost(operands, results, *, lower):
        return of_stack(operands[0], 4 * operands[0].shape[-1] ** 3 / 3)

    def samples(rng):
        yield (rng.normal(size=(4, 4)),), {"lower": True}
        yield (rng.normal(size=(2, 1, 1)),), {"lower": False}
