"""Solutions of linear systems, determinants and pseudoinverses, each differentiated through what it is, not through the steps
that find it."""

from __future__ import annotations

import numpy as np

from pullback.core.dtypes import INT32, kind
from pullback.core.errors import ShapeError
from pullback.core.primitive import primitive
from pullback.core.tracing import type_of
from pullback.core.zero import ZERO
from pullback.ops import compare
from pullback.ops.arithmetic import add, div, mul, neg, sub
from pullback.ops.broadcast import broadcast_in_dim, reduce_sum
from pullback.ops.complex import abs as absolute
from pullback.ops.complex import complex as joined
from pullback.ops.complex import imag, sign
from pullback.ops.convert import convert_element_type
from pullback.ops.create import iota
from pullback.ops.exponential import log
from pullback.ops.factorizations import lu
from pullback.ops.literals import literal
from pullback.ops.matrices import (
    Factorization,
    OfMatrices,
    adjoint,
    check_matrices,
    conjugate,
    diagonal,
    diagonal_matrix,
    elimination,
    flipped,
    identity_like,
    in_columns,
    in_rows,
    mask,
    nan_on_failure,
    of_factors,
    of_stack,
    part_dtype,
    product,
    product_from_the_right,
    real_part,
    scaled_columns,
    stack_type,
    where,
)
from pullback.ops.reduce import reduce_max, reduce_or, reduce_prod
from pullback.ops.shape import in_front
from pullback.ops.spectra import svd
from pullback.ops.triangular import (
    check_system,
    inverse_permutation,
    joined_columns,
    permuted_rows,
    separated_columns,
    triangular_solve,
)


@primitive
class solve(OfMatrices):
    """The x with a x = b, or, if `transposed`, with a^T x = b; NaN where a is singular to the last bit."""

    linear = ("b",)

    def result_type(primitive, a, b, *, transposed=False):
        check_system(primitive, a, b)
        return b.strong()

    @nan_on_failure
    def evaluate(a, b, *, transposed=False):
        return np.linalg.solve(a.swapaxes(-1, -2) if transposed else a, b)

    def expand(a, b, *, transposed=False):
        made, _, permutation = lu(a)
        if transposed:
            inner = triangular_solve(made, b, left_side=True, lower=False, transpose_a=True)
            inner = triangular_solve(made, inner, left_side=True, lower=True, transpose_a=True, unit_diagonal=True)
            out = permuted_rows(inner, inverse_permutation(permutation))
        else:
            inner = triangular_solve(made, permuted_rows(b, permutation), left_side=True, lower=True, unit_diagonal=True)
            out = triangular_solve(made, inner, left_side=True, lower=False)
        pivots = diagonal(made)
        singular = reduce_or(compare.eq(pivots, literal(0, pivots)), axes=(type_of(pivots).ndim - 1,))
        shape = type_of(out).shape
        spread = broadcast_in_dim(singular, shape=shape, broadcast_dimensions=tuple(range(len(shape) - 2)))
        return compare.select(spread, literal(np.nan, out), out)

    def jvp(primals, tangents, *, transposed=False):
        (a, _), (ta, tb) = primals, tangents
        x = solve(*primals, transposed=transposed)
        return x, solve(a, sub(tb, product(flipped(ta) if transposed else ta, x)), transposed=transposed)

    def transpose(cotangent, a, b, *, transposed=False):
        return None, solve(a, cotangent, transposed=not transposed)

    def vectorize(size, args, axes, *, transposed=False):
        a, b = args
        if axes == [None, 0]:
            return separated_columns(solve(a, joined_columns(b, -1), transposed=transposed), -1, b), 0
        return solve(in_front(a, axes[0], size), in_front(b, axes[1], size), transposed=transposed), 0

    def cost(operands, results, *, transposed=False):
        a, b = operands
        return elimination(a) + of_stack(a, 2 * a.shape[-1] ** 2 * b.shape[-1])

    def samples(rng):
        yield (rng.normal(size=(3, 3)) + 3 * np.eye(3), rng.normal(size=(3, 2))), {}
        yield (rng.normal(size=(2, 2, 2)) + 3 * np.eye(2), rng.normal(size=(2, 2, 1))), {"transposed": True}
        yield (np.zeros((0, 0)), np.zeros((0, 2))), {}


# ---- determinants ----------------------------------------------------------------------------------------------------------


def _parity(pivots):
    """1 or -1: the sign of the permutation that exchanging row i with row `pivots[i]`, for one i after the other, makes."""
    last = type_of(pivots).ndim - 1
    places = iota(dtype=type_of(pivots).dtype, shape=type_of(pivots).shape, dimension=last)
    same = compare.eq(pivots, places)
    ones = broadcast_in_dim(literal(1, pivots), shape=type_of(pivots).shape, broadcast_dimensions=())
    return reduce_prod(compare.select(same, ones, neg(ones)), axes=(last,))


@primitive
class det(OfMatrices):
    """The determinant. Its derivative is the matrix of cofactors, which every matrix has, a singular one too."""

    def result_type(primitive, x):
        check_matrices(primitive, x, square=True)
        return stack_type(x)

    def evaluate(x):
        return np.asarray(np.linalg.det(x))

    def expand(x):
        made, pivots, _ = lu(x)
        out = reduce_prod(diagonal(made), axes=(type_of(x).ndim - 2,))
        return mul(out, convert_element_type(_parity(pivots), new_dtype=type_of(x).dtype))

    def jvp(primals, tangents):
        ndim = type_of(primals[0]).ndim
        return det(*primals), reduce_sum(mul(cofactors(*primals), tangents[0]), axes=(ndim - 2, ndim - 1))

    def cost(operands, results):
        return elimination(operands[0])

    def samples(rng):
        yield (rng.normal(size=(3, 3)),), {}
        yield (rng.normal(size=(2, 2, 2)),), {}
        yield (np.outer(np.arange(1.0, 4), [1, -1, 2]) + np.diag([0, 0, 1.0]),), {}
        yield (np.zeros((1, 1)),), {}
        yield (np.zeros((2, 0, 0)),), {}


def _without_one_and_two(values):
    """Of s_1, s_2, ... in falling order of size: the products of all but one; and, in row i and column j, of all but two.

    Nothing is divided by the smallest two, a and b. With r_k = 1 / s_k for the others, and r_k = 0 for a and b, the products of
    all but two are that of the others times p q^T + q p^T - a b r r^T, where p = a r + e_a and q = b r + e_b.
    """
    *stack, count = type_of(values).shape
    last = len(stack)
    rank = iota(dtype=INT32, shape=(*stack, count), dimension=last)
    small = compare.ge(rank, literal(count - 2, rank))
    large = compare.select(small, literal(1, values), values)
    inverse = where(compare.ne(large, literal(0, large)), div(literal(1, large), large), 0)
    inverse = compare.select(small, literal(0, inverse), inverse)
    at = [compare.eq(rank, literal(count - which, rank)) for which in (2, 1)]
    one_hot = [convert_element_type(here, new_dtype=type_of(values).dtype) for here in at]
    a, b = (_repeated(reduce_sum(mul(values, one), axes=(last,)), count) for one in one_hot)
    rest, both = _repeated(reduce_prod(large, axes=(last,)), count), mul(a, b)
    p, q = add(mul(a, inverse), one_hot[0]), add(mul(b, inverse), one_hot[1])
    without_one = sub(add(mul(b, p), mul(a, q)), mul(both, inverse))
    shape = (*stack, count, count)
    crossed = [mul(in_rows(x, shape), in_columns(y, shape)) for x, y in ((p, q), (q, p), (mul(both, inverse), inverse))]
    without_two = sub(add(crossed[0], crossed[1]), crossed[2])
    return mul(rest, without_one), mul(in_rows(rest, shape), without_two)


def _repeated(x, count):
    """Numbers, repeated along a new last axis."""
    shape = type_of(x).shape
    return broadcast_in_dim(x, shape=(*shape, count), broadcast_dimensions=tuple(range(len(shape))))


def _turned(left, right, inner):
    """det(U V^H) conj(U) inner V^T, given U and V^H: what the cofactors become when a matrix is turned by U and V."""
    turn = mul(det(left), det(right))
    scale = broadcast_in_dim(turn, shape=type_of(inner).shape, broadcast_dimensions=tuple(range(type_of(turn).ndim)))
    return product(conjugate(left), mul(scale, inner), conjugate(right))


@primitive
class cofactors(OfMatrices):
    """The derivatives of the determinant with respect to the elements, by singular values, as a singular matrix has them too.
    Their derivatives are exact for every matrix; their second derivatives where singular values differ."""

    def result_type(primitive, x):
        check_matrices(primitive, x, square=True)
        return x.strong()

    def expand(x):
        if type_of(x).shape[-1] < 2:
            return identity_like(x)
        values, left, right = svd(x, full_matrices=False, vectors=True)
        products = convert_element_type(_without_one_and_two(values)[0], new_dtype=type_of(x).dtype)
        return _turned(left, right, diagonal_matrix(products, x))

    def jvp(primals, tangents):
        (x,), (t,) = primals, tangents
        if type_of(x).shape[-1] < 2:
            return cofactors(x), ZERO
        values, left, right = svd(x, full_matrices=False, vectors=True)
        change = product(adjoint(left), t, adjoint(right))
        pairs = where(mask(compare.ne, type_of(x).shape), _without_one_and_two(values)[1], 0)
        pairs = convert_element_type(pairs, new_dtype=type_of(x).dtype)
        own = mul(pairs, in_columns(diagonal(change), type_of(x).shape))
        own = diagonal_matrix(reduce_sum(own, axes=(type_of(x).ndim - 1,)), x)
        return cofactors(x), _turned(left, right, sub(own, flipped(mul(pairs, change))))

    def cost(operands, results):
        return of_factors(operands[0])

    def samples(rng):
        yield (rng.normal(size=(3, 3)),), {}
        yield (np.outer(np.arange(1.0, 4), [1, -1, 2]) + np.diag([0, 0, 1.0]),), {}
        yield (rng.normal(size=(2, 1, 1)),), {}


@primitive
class slogdet(Factorization):
    """The sign of the determinant, of length 1 where it is complex, or 0; and the logarithm of its size."""

    def result_type(primitive, x):
        check_matrices(primitive, x, square=True)
        return stack_type(x), stack_type(x, dtype=part_dtype(x.dtype))

    def evaluate(x):
        return tuple(map(np.asarray, np.linalg.slogdet(x)))

    def expand(x):
        made, pivots, _ = lu(x)
        pivot, axes = diagonal(made), (type_of(x).ndim - 2,)
        turn = mul(reduce_prod(sign(pivot), axes=axes), convert_element_type(_parity(pivots), new_dtype=type_of(x).dtype))
        return turn, reduce_sum(log(absolute(pivot)), axes=axes)

    def jvp(primals, tangents):
        (x,), (t,) = primals, tangents
        turn, size = slogdet(x)
        change = reduce_sum(diagonal(solve(x, t)), axes=(type_of(x).ndim - 2,))
        if kind(type_of(x).dtype) != "c":
            return (turn, size), (ZERO, change)
        angle = imag(change)
        return (turn, size), (mul(turn, joined(literal(0, angle), angle)), real_part(change))

    def cost(operands, results):
        return elimination(operands[0])

    def samples(rng):
        yield (rng.normal(size=(3, 3)) + 3 * np.eye(3),), {}
        yield (rng.normal(size=(2, 2, 2)) - 3 * np.eye(2),), {}
        yield (np.zeros((2, 0, 0)),), {}


# ---- the pseudoinverse -----------------------------------------------------------------------------------------------------


@primitive
class pinv(OfMatrices):
    """The Moore-Penrose inverse; singular values up to `cutoff` times the largest count as 0, and stay so where x changes.

    Source of the derivative: Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems
    whose variables separate" (1973).
    """

    def result_type(primitive, x, cutoff):
        check_matrices(primitive, x)
        if cutoff.shape != x.shape[:-2]:
            raise ShapeError(f"pinv takes a cutoff for each matrix, but got {cutoff} for {x}.")
        return stack_type(x, x.shape[-1], x.shape[-2])

    def expand(x, cutoff):
        if not type_of(x).size:
            return flipped(x)
        values, left, right = svd(x, full_matrices=False, vectors=True)
        last = type_of(values).ndim - 1
        limit = _repeated(mul(real_part(cutoff), reduce_max(values, axes=(last,))), type_of(values).shape[-1])
        counts = compare.gt(values, limit)
        inverse = where(counts, div(literal(1, values), where(counts, values, 1)), 0)
        return product(scaled_columns(adjoint(right), inverse), adjoint(left))

    def jvp(primals, tangents):
        (x, _), t = primals, tangents[0]
        out = pinv(*primals)
        back, turned = adjoint(out), adjoint(t)
        # No product has two sides of the longer size of x, which may be very long.
        times = product if type_of(x).shape[-2] >= type_of(x).shape[-1] else product_from_the_right
        rows, columns = times(out, back, turned), times(turned, back, out)
        outside = add(sub(rows, times(rows, x, out)), sub(columns, times(out, x, columns)))
        return out, sub(outside, times(out, t, out))

    def cost(operands, results):
        return of_factors(operands[0])

    def samples(rng):
        yield (rng.normal(size=(3, 2)), np.asarray(1e-6)), {}
        yield (rng.normal(size=(2, 2, 3)), np.full(2, 1e-6)), {}
        yield (np.zeros((0, 2)), np.asarray(1e-6)), {}
