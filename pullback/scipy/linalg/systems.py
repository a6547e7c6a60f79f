"""Linear systems, under SciPy's signatures."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.lax import linalg as lax_linalg
from pullback.numpy import linalg as numpy_linalg
from pullback.numpy.arithmetic import absolute
from pullback.numpy.logic import where
from pullback.numpy.promotion import at_user_line, broadcast, broadcast_shapes, strong, to_common_dtype
from pullback.numpy.reductions import any as some
from pullback.numpy.shaping import reshape
from pullback.ops import matrix_functions
from pullback.ops.stop_gradient import stop_gradient
from pullback.scipy.linalg.factors import cho_factor, cho_solve, columns, unused


def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """The x with a x = b.

    Arguments:
        a: an array (..., n, n).
        b: an array (..., n, k), or a vector (n,).
        lower: whether the lower triangle of a positive definite matrix is read, not the upper one.
        overwrite_a, overwrite_b, debug, check_finite: without effect.
        assume_a: "pos" for positive definite Hermitian matrices, which are solved by Cholesky factors; "gen", "sym", "her".

    Returns:
        An array of the shape of b.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the matrices are not square, or the shapes do not fit.
        DtypeError: a dtype that LAPACK does not know, or no common one.
        LinAlgError: a known matrix is singular, or not positive definite.
        ValueError: an unknown `assume_a`.

    Example:
        >>> pb.scipy.linalg.solve(pnp.array([[2.0, 0.0], [1.0, 4.0]]), pnp.array([2.0, 9.0]))
        [1. 2.]:f32[2]:cpu(0)
    """
    unused(overwrite_a, overwrite_b, debug, check_finite)
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ValueError(f"solve takes assume_a='gen', 'sym', 'her' or 'pos', not {brief(assume_a)}.{at_user_line()}")
    return cho_solve(cho_factor(a, lower), b) if assume_a == "pos" else numpy_linalg.solve(a, b)


def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Array:
    """The x with A x = b, where A is a triangle of a.

    Arguments:
        a: an array (..., n, n).
        b: an array (..., n, k), or (..., n). The axes in front broadcast.
        trans: 0 or "N" for A, 1 or "T" for its transpose, 2 or "C" for its conjugate transpose.
        lower: whether the lower triangle is read, not the upper one.
        unit_diagonal: whether the diagonal is taken as ones, and not read.
        overwrite_b, debug, check_finite: without effect.

    Returns:
        An array of the shape of b.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the matrices are not square, or the shapes do not fit.
        DtypeError: a dtype that LAPACK does not know, or no common one.
        ValueError: an unknown `trans`.

    Example:
        >>> pb.scipy.linalg.solve_triangular(pnp.array([[2.0, 0.0], [1.0, 4.0]]), pnp.array([2.0, 9.0]), lower=True)
        [1. 2.]:f32[2]:cpu(0)
    """
    unused(overwrite_b, debug, check_finite)
    if trans not in (0, 1, 2, "N", "T", "C"):
        raise ValueError(f"solve_triangular takes trans=0, 1, 2, 'N', 'T' or 'C', not {brief(trans)}.{at_user_line()}")
    x, y, shape = columns("solve_triangular", a, b)
    flags: Any = {"transpose_a": trans not in (0, "N"), "conjugate_a": trans in (2, "C"), "unit_diagonal": unit_diagonal}
    return reshape(lax_linalg.triangular_solve(x, y, left_side=True, lower=lower, **flags), shape)


def solve_sylvester(A: ArrayLike, B: ArrayLike, C: ArrayLike, *, method: str = "schur", tol: float = 1e-8) -> Array:
    """The X with A X + X B = C. In compiled code it is SciPy that computes it.

    Arguments:
        A: an array (..., m, m). B: an array (..., n, n). C: an array (..., m, n). The axes in front broadcast.
        method: JAX's name for how it is found; without effect, since it is done by Schur forms.
        tol: how near to an eigenvalue of -B one of A may be; nearer ones make the result NaN. Of 0, only equal ones do.

    Returns:
        An array of the shape of C; NaN where A has an eigenvalue of -B, or almost.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not fit.
        DtypeError: a dtype that LAPACK does not know, or no common one.
        ValueError: an unknown method.

    Example:
        >>> pb.scipy.linalg.solve_sylvester(pnp.eye(2), 3.0 * pnp.eye(2), 8.0 * pnp.eye(2))
        [[2. 0.]
         [0. 2.]]:f32[2,2]:cpu(0)
    """
    if method not in ("schur", "eigen"):
        raise ValueError(f"solve_sylvester takes method='schur' or 'eigen', not {brief(method)}.{at_user_line()}")
    given = [strong(one) for one in to_common_dtype("solve_sylvester", A, B, C, inexact=True)]
    if all([one.type.ndim > 1 for one in given]):
        front = broadcast_shapes("solve_sylvester", *[one.type.shape[:-2] for one in given])
        given = [broadcast(one, (*front, *one.type.shape[-2:])) for one in given]
    solved = matrix_functions.sylvester_solve(*given)
    if tol.__class__ in (int, float) and tol <= 0:
        return solved
    of_a, of_b = [numpy_linalg.eigvals(stop_gradient(one)) for one in given[:2]]
    apart = absolute(of_a[..., :, None] + of_b[..., None, :])
    return where(some(apart < tol, axis=(-2, -1), keepdims=True), math.nan, solved)


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The determinants of square matrices.

    Arguments:
        a: an array (..., n, n).
        overwrite_a, check_finite: without effect.

    Returns:
        An array (...).

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: a dtype that LAPACK does not know.

    Example:
        >>> pb.scipy.linalg.det(pnp.array([[1.0, 2.0], [3.0, 4.0]]))
        -2.0:f32[]:cpu(0)
    """
    unused(overwrite_a, check_finite)
    return numpy_linalg.det(a)


def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The inverses of square matrices.

    Arguments:
        a: an array (..., n, n).
        overwrite_a, check_finite: without effect.

    Returns:
        An array of the shape of `a`.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: a dtype that LAPACK does not know.
        LinAlgError: a known matrix is singular.

    Example:
        >>> pb.scipy.linalg.inv(pnp.array([[2.0, 0.0], [0.0, 4.0]]))
        [[0.5  0.  ]
         [0.   0.25]]:f32[2,2]:cpu(0)
    """
    unused(overwrite_a, check_finite)
    return numpy_linalg.inv(a)
