"""Functions of square matrices, the polar factor, and Sylvester's equation, each differentiated through what it is."""

from __future__ import annotations

import numpy as np

from pullback.core.brief import brief
from pullback.core.errors import GradientError, NotLinear, ShapeError
from pullback.core.primitive import primitive
from pullback.core.source import at_user_line
from pullback.core.tracing import type_of
from pullback.core.types import is_unknown
from pullback.core.zero import ZERO
from pullback.ops.arithmetic import add, sub
from pullback.ops.convert import convert_element_type
from pullback.ops.families import (
    of_products,
    on_host,
)
from pullback.ops.matrices import (
    OfMatrices,
    adjoint,
    check_matrices,
    flipped,
    in_columns,
    in_rows,
    of_factors,
    of_stack,
    one_by_one,
    product,
)
from pullback.ops.scipy_functions import linalg
from pullback.ops.spectra import by_columns, outside, over_gap, svd


class OnHost(OfMatrices):
    """Computed by SciPy in compiled programs too."""

    lower = on_host


@primitive
class matrix_function(OnHost):
    """f(x), given the name of a function of matrices in scipy.linalg; with directions, f's derivative along all of them.

    D^k f(x)[E_1, ..., E_k] is a block of f of one matrix of 2^k blocks. As a function of E_i its transpose is the transpose of
    the derivative along the others and the transposed cotangent. Source: Higham and Relton, "Higher order Frechet derivatives
    of matrix functions and the level-2 condition number" (2014).
    """

    symbolic_zeros = True
    quiet = False  # `function` may be a user's, which may call pullback

    def result_type(primitive, x, *directions, function):
        check_matrices(primitive, x, *directions, square=True)
        return x.strong()

    def evaluate(primitive, x, *directions, function):
        compute = linalg(function) if isinstance(function, str) else lambda one: _by_parlett(one, function)
        size = x.shape[-1]

        def one(x, *directions):
            x = x.astype(np.result_type(x, np.float64))
            for count, direction in enumerate(directions):
                change = np.kron(np.eye(1 << count, dtype=x.dtype), direction)
                x = np.block([[x, change], [np.zeros_like(x), x]])
            with np.errstate(all="ignore"):
                return compute(x)[:size, x.shape[-1] - size :] if np.isfinite(x).all() else None

        return one_by_one(primitive, one, x, *directions, function=function)

    def jvp(primals, tangents, *, function):
        x, *directions = primals
        if not isinstance(function, str):
            raise GradientError(
                f"funm of {brief(getattr(function, '__name__', function))} has no derivative. Use expm, logm or sqrtm, which"
                f" have derivatives of every order.{at_user_line()}"
            )
        terms = [] if tangents[0] is ZERO else [matrix_function(*primals, tangents[0], function=function)]
        for i, t in enumerate(tangents[1:]):
            if t is not ZERO:
                terms.append(matrix_function(x, *directions[:i], t, *directions[i + 1 :], function=function))
        total, *others = terms
        for term in others:
            total = add(total, term)
        return matrix_function(*primals, function=function), total

    def transpose(cotangent, x, *directions, function):
        unknown = [i for i, one in enumerate((x, *directions)) if is_unknown(one)]
        if unknown == [0] or len(unknown) != 1:
            raise NotLinear(
                f"{function} of a matrix is linear in one direction of its derivative alone. Transpose its derivative (pb.vjp)"
                f" instead.{at_user_line()}"
            )
        at = unknown[0] - 1
        known = (x, *directions[:at], flipped(cotangent), *directions[at + 1 :])
        found = flipped(matrix_function(*known, function=function))
        return tuple([found if i == unknown[0] else None for i in range(len(known))])

    @of_products
    def cost(operands, results, *, function):
        return 30 * operands[0].size * operands[0].shape[-1] * 4 ** (len(operands) - 1)

    def samples(rng):
        x = 0.3 * rng.normal(size=(3, 3)) + 2 * np.eye(3)
        yield (x,), {"function": "expm"}
        yield (x, rng.normal(size=(3, 3))), {"function": "expm"}
        yield (np.stack([x, x.T]) + 0j,), {"function": "sqrtm"}
        yield (x + 0j,), {"function": "logm"}


def _by_parlett(x, function):
    """A function of a matrix, given the function of numbers, which takes and returns arrays."""
    return linalg("funm")(x, lambda numbers: np.asarray(function(numbers)), disp=False)[0]


@primitive
class polar_factor(OfMatrices):
    """The U of x = U P, with orthonormal columns (rows, where x has fewer rows), that is nearest to x.

    dU = W K V^H + (I - U U^H) dx P^-1, where x = W diag(s) V^H, and K_ij = (M - M^H)_ij / (s_i + s_j) with M = W^H dx V.
    """

    def result_type(primitive, x):
        check_matrices(primitive, x)
        return x.strong()

    def expand(x):
        _, left, right = svd(x, full_matrices=False, vectors=True)
        return product(left, right)

    def jvp(primals, tangents):
        (x,), (t,) = primals, tangents
        rows, columns = type_of(x).shape[-2:]
        if rows < columns:
            return polar_factor(x), adjoint(polar_factor.jvp((adjoint(x),), (adjoint(t),))[1])
        values, left, right = svd(x, full_matrices=False, vectors=True)
        basis = adjoint(right)
        inner = product(adjoint(left), t, basis)
        shape = type_of(inner).shape
        sums = add(in_columns(values, shape), in_rows(values, shape))
        turn = over_gap(sub(inner, adjoint(inner)), convert_element_type(sums, new_dtype=type_of(x).dtype))
        change = product(left, turn)
        if rows > columns:
            change = add(change, by_columns(outside(left, product(t, basis)), values))
        return polar_factor(x), product(change, right)

    def cost(operands, results):
        return of_factors(operands[0])

    def samples(rng):
        yield (rng.normal(size=(3, 3)) + 2 * np.eye(3),), {}
        yield (rng.normal(size=(2, 3, 2)),), {}
        yield (rng.normal(size=(2, 3)),), {}
        yield (np.zeros((0, 2)),), {}


@primitive
class sylvester_solve(OnHost):
    """The x with a x + x b = c; NaN where a has an eigenvalue of -b."""

    linear = ("c",)

    def result_type(primitive, a, b, c):
        check_matrices(primitive, a, b, c, square=True)
        if b.shape[-2:] != b.shape[-1:] * 2 or c.shape != (*a.shape[:-1], b.shape[-1]) or b.shape[:-2] != a.shape[:-2]:
            raise ShapeError(
                f"sylvester_solve of {a}, {b} and {c}: the sizes do not fit. The first two must be square, with as many rows as"
                " the third has rows and columns."
            )
        return c.strong()

    def evaluate(primitive, a, b, c):
        def one(*given):
            try:
                return linalg("solve_sylvester")(*given) if all([np.isfinite(each).all() for each in given]) else None
            except np.linalg.LinAlgError:
                return None

        return one_by_one(primitive, one, a, b, c)

    def jvp(primals, tangents):
        (a, b, _), (ta, tb, tc) = primals, tangents
        x = sylvester_solve(*primals)
        return x, sylvester_solve(a, b, sub(tc, add(product(ta, x), product(x, tb))))

    def transpose(cotangent, a, b, c):
        return None, None, sylvester_solve(flipped(a), flipped(b), cotangent)

    def cost(operands, results):
        a, _, c = operands
        n, m = c.shape[-2:]  # two Schur forms, four products with their vectors, and the triangular system
        return of_stack(a, 25 * (n**3 + m**3) + 5 * n * m * (n + m))

    def samples(rng):
        yield (rng.normal(size=(3, 3)) + 3 * np.eye(3), rng.normal(size=(2, 2)) + 3 * np.eye(2), rng.normal(size=(3, 2))), {}
