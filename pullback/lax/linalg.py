"""JAX's `lax.linalg`: factorizations of stacks of matrices, and systems of equations, by LAPACK.

Matrices lie in the last two axes. Nothing here raises an error for the values that it is given: where there is no such factor,
the results are NaN. `pullback.numpy.linalg` raises LinAlgError for known values.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.dtypes import kind
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.source import at_user_line, make_public
from pullback.lax.elementwise import lifted
from pullback.numpy.arithmetic import maximum
from pullback.numpy.linalg.factors import chosen, singular
from pullback.numpy.logic import isnan, where
from pullback.numpy.promotion import operand
from pullback.ops import factorizations, spectra, triangular
from pullback.ops.arithmetic import add, mul
from pullback.ops.complex import sign
from pullback.ops.factorizations import halved_sum
from pullback.ops.matrices import adjoint, diagonal, flipped, product, scaled_rows
from pullback.ops.shape import concatenate, reshape
from pullback.ops.stop_gradient import stop_gradient

__all__ = [
    "EigImplementation", "EighImplementation", "SvdAlgorithm", "cholesky", "cholesky_update", "eig", "eigh", "hessenberg",
    "householder_product", "lu", "lu_pivots_to_permutation", "ormqr", "qr", "schur", "svd", "symmetric_product",
    "triangular_solve", "tridiagonal", "tridiagonal_solve",
]  # fmt: skip


class SvdAlgorithm(enum.Enum):
    """How singular values are found. On the CPU there is LAPACK's divide and conquer, which stands for DEFAULT and QR too.

    Example:
        >>> lax.linalg.svd(pnp.eye(2), compute_uv=False, algorithm=lax.linalg.SvdAlgorithm.QR)
        [1. 1.]:f32[2]:cpu(0)
    """

    DEFAULT = "default"
    QR = "qr"
    JACOBI = "jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


class EighImplementation(enum.Enum):
    """How eigenvalues of Hermitian matrices are found. On the CPU there is LAPACK's divide and conquer, which is QR here.

    Example:
        >>> lax.linalg.eigh(pnp.eye(2), implementation=lax.linalg.EighImplementation.QR)[1]
        [1. 1.]:f32[2]:cpu(0)
    """

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class EigImplementation(enum.Enum):
    """Which library finds the eigenvalues of any matrices. On the CPU there is LAPACK.

    Example:
        >>> lax.linalg.eig(pnp.eye(2), implementation=lax.linalg.EigImplementation.LAPACK)[0]
        [1.+0.j 1.+0.j]:c64[2]:cpu(0)
    """

    LAPACK = "lapack"
    CUSOLVER = "cusolver"
    MAGMA = "magma"


def _check_choice(given: Any, name: str, known: tuple[Any, ...]) -> None:
    if given is not None and given not in known:
        names = ", ".join([str(each) for each in known])
        raise ValueError(f"{name} can be computed on the CPU by {names} or None, not {brief(given)}.{at_user_line()}")


def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Array:
    """The lower triangular L with L L^H = x; where x is not positive definite, NaN on and below the diagonal.

    Arguments:
        x: an array (..., n, n) of Hermitian matrices.
        symmetrize_input: whether x is replaced by (x + x^H) / 2 first, which makes derivatives Hermitian too; if not, its lower
            triangle is read, and has the derivatives.

    Returns:
        An array of the shape and dtype of x.

    Raises:
        LeafError: x is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: x is neither of float32, float64, complex64 nor complex128.

    Example:
        >>> lax.linalg.cholesky(pnp.array([[4.0, 2.0], [2.0, 5.0]]))
        [[2. 0.]
         [1. 2.]]:f32[2,2]:cpu(0)
    """
    x = operand(x, "cholesky")
    return factorizations.cholesky(halved_sum(x, "cholesky") if symmetrize_input else x)


def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Array:
    """The upper triangular R' with R'^H R' = R^H R + w w^H: what a Cholesky factor becomes when w w^H is added.

    Arguments:
        r_matrix: an array (..., n, n) of upper triangular matrices R.
        w_vector: an array (..., n), of its dtype.

    Returns:
        An array of the shape and dtype of `r_matrix`, with a positive diagonal.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the matrices are not square, or the vectors of another size.
        DtypeError: the dtypes differ, or are none of float32, float64, complex64 and complex128.

    Example:
        >>> lax.linalg.cholesky_update(pnp.array([[2.0, 1.0], [0.0, 2.0]]), pnp.array([0.0, 1.5]))
        [[2.  1. ]
         [0.  2.5]]:f32[2,2]:cpu(0)
    """
    r, w = lifted("cholesky_update", (r_matrix, w_vector))
    if r.type.ndim < 2 or w.type.shape != r.type.shape[:-1] or r.type.shape[-1] != r.type.shape[-2]:
        raise ShapeError(
            f"cholesky_update takes square matrices and as many vectors, but got {r.type}, {w.type}.{at_user_line()}"
        )
    rows = reshape(w, new_sizes=(*w.type.shape[:-1], 1, w.type.shape[-1]))
    row = adjoint(flipped(rows))
    made = factorizations.qr(concatenate(r, row, dimension=r.type.ndim - 2), full_matrices=False)[1]
    return scaled_rows(sign(diagonal(made)), made)


def lu(x: ArrayLike) -> tuple[Array, Array, Array]:
    """L U = x[permutation], where L has ones on its diagonal, and U is upper triangular.

    Arguments:
        x: an array (..., m, n) of matrices.

    Returns:
        L and U in one array of the shape of x, without the ones; the rows (..., min(m, n)) with which each was exchanged in
        turn; and the permutation (..., m). The last two are of int32.

    Raises:
        LeafError: x is neither an array nor a number.
        ShapeError: x has fewer than two axes.
        DtypeError: x is neither of float32, float64, complex64 nor complex128.

    Example:
        >>> made, pivots, permutation = lax.linalg.lu(pnp.array([[1.0, 2.0], [4.0, 4.0]]))
        >>> made, permutation
        ([[4.   4.  ]
         [0.25 1.  ]]:f32[2,2]:cpu(0), [1 0]:i32[2]:cpu(0))
    """
    return factorizations.lu(operand(x, "lu"))


def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: int) -> Array:
    """The permutation that exchanging row i with row `pivots[i]`, for one i after the other, makes.

    Arguments:
        pivots: an array (..., k) of integers.
        permutation_size: how many rows there are.

    Returns:
        An array (..., permutation_size) of int32.

    Raises:
        LeafError: `pivots` is neither an array nor a number.
        DtypeError: the pivots are not integers.
        ShapeError: there are more pivots than rows.

    Example:
        >>> lax.linalg.lu_pivots_to_permutation(pnp.array([2, 2]), 3)
        [2 0 1]:i32[3]:cpu(0)
    """
    pivots = operand(pivots, "lu_pivots_to_permutation")
    return triangular.lu_pivots_to_permutation(pivots, permutation_size=permutation_size)


def qr(x: ArrayLike, *, pivoting: bool = False, full_matrices: bool = True, use_magma: bool | None = None) -> tuple[Array, ...]:
    """Q with orthonormal columns and the upper triangular R, with Q R = x.

    Arguments:
        x: an array (..., m, n) of matrices.
        pivoting: whether to take the columns in an order p in which R's diagonal falls: Q R = x[..., p].
        full_matrices: whether Q is square (m, m) and R (m, n), or they are (m, k) and (k, n), with k = min(m, n). Where the
            first has more columns than the second, it has no derivative.
        use_magma: without effect on the CPU.

    Returns:
        Q and R, and p, of int32, if `pivoting`.

    Raises:
        LeafError: x is neither an array nor a number.
        ShapeError: x has fewer than two axes.
        DtypeError: x is neither of float32, float64, complex64 nor complex128.

    Example:
        >>> q, r = lax.linalg.qr(pnp.array([[0.0, 1.0], [2.0, 3.0]]))
        >>> pnp.abs(r)
        [[2. 3.]
         [0. 1.]]:f32[2,2]:cpu(0)
    """
    _check_choice(use_magma, "qr", (True, False))
    x = operand(x, "qr")
    if not pivoting:
        return factorizations.qr(x, full_matrices=bool(full_matrices))
    order = factorizations.pivots_of_qr(stop_gradient(x))
    columns = flipped(triangular.permuted_rows(flipped(x), order))
    return (*factorizations.qr(columns, full_matrices=bool(full_matrices)), order)


def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """The first n columns of the product of the reflections I - tau_i v_i v_i^H.

    Arguments:
        a: an array (..., m, n), m >= n, whose column i has v_i below the diagonal; the elements of v_i are 0 above it and 1 on
            it.
        taus: an array (..., k), k <= n, of the numbers tau_i.

    Returns:
        An array of the shape and dtype of `a`, with orthonormal columns if the v_i and tau_i are those of reflections.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not fit.
        DtypeError: the dtypes differ.

    Example:
        >>> lax.linalg.householder_product(pnp.array([[9.0], [1.0]]), pnp.array([1.0]))
        [[ 0.]
         [-1.]]:f32[2,1]:cpu(0)
    """
    a, taus = lifted("householder_product", (a, taus))
    rows, columns = a.type.shape[-2:] if a.type.ndim > 1 else (0, 1)
    if rows < columns or taus.type.shape[:-1] != a.type.shape[:-2] or not taus.type.ndim or taus.type.shape[-1] > columns:
        raise ShapeError(
            "householder_product takes matrices with at least as many rows as columns, and at most as many taus as columns,"
            f" but got {a.type} and {taus.type}.{at_user_line()}"
        )
    return factorizations.householder_product(a, taus)


def ormqr(a: ArrayLike, taus: ArrayLike, c: ArrayLike, *, left: bool = True, transpose: bool = False) -> Array:
    """A product with Q, the product of the reflections I - tau_i v_i v_i^H, which is a square matrix and is not made.

    Arguments:
        a: an array (..., m, n), whose column i has v_i below the diagonal; the elements of v_i are 0 above it and 1 on it.
        taus: an array (..., k), k <= min(m, n), of the numbers tau_i.
        c: an array (..., m, p), or (..., p, m) unless `left`.
        left: whether Q stands to the left of `c`.
        transpose: whether Q's conjugate transpose stands there in its place.

    Returns:
        An array of the shape and dtype of `c`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not fit.
        DtypeError: the dtypes differ.

    Example:
        >>> lax.linalg.ormqr(pnp.array([[9.0], [1.0]]), pnp.array([1.0]), pnp.eye(2))
        [[ 0. -1.]
         [-1.  0.]]:f32[2,2]:cpu(0)
    """
    a, taus, c = lifted("ormqr", (a, taus, c))
    shape, size, count = a.type.shape, c.type.shape, taus.type.shape[-1:]
    rows = size[-2 if left else -1 :][:1] if len(size) > 1 else ()
    fits = len(shape) > 1 and rows == shape[-2:-1] and size[:-2] == shape[:-2] == taus.type.shape[:-1] and count
    if not fits or count[0] > min(shape[-2:]):
        raise ShapeError(
            "ormqr takes matrices a, for each at most as many taus as it has rows and columns, and matrices c with as many rows"
            f" as a (columns, unless left), but got {a.type}, {taus.type} and {c.type}.{at_user_line()}"
        )
    if left:
        return factorizations.reflected(a, taus, c, transpose)
    return adjoint(factorizations.reflected(a, taus, adjoint(c), not transpose))


def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Array | tuple[Array, Array, Array]:
    """Singular values s, in falling order, and vectors, with x = U diag(s) V^H.

    Where singular values are equal to the last bit, what is symmetric in them has a derivative, as has what does not depend on
    how their vectors turn into each other; other derivatives of vectors are infinite or NaN there. The phases of complex
    vectors are not determined by x; their derivatives are those of U and V that turn as little as possible.

    Arguments:
        x: an array (..., m, n) of matrices.
        full_matrices: whether U is (m, m) and V^H (n, n), or they are (m, k) and (k, n), with k = min(m, n). Where the first
            are larger, they have no derivative.
        compute_uv: whether to return the vectors too.
        subset_by_index: (start, end), to return the singular values of these indices only, with their vectors.
        algorithm: None, or one of `SvdAlgorithm` that there is on the CPU.

    Returns:
        U, s and V^H, or s alone, which is real.

    Raises:
        LeafError: x is neither an array nor a number.
        ShapeError: x has fewer than two axes.
        DtypeError: x is neither of float32, float64, complex64 nor complex128.
        ValueError: a subset that does not exist, or of full matrices; or an unknown algorithm.

    Example:
        >>> lax.linalg.svd(pnp.array([[0.0, 2.0], [3.0, 0.0]]), compute_uv=False)
        [3. 2.]:f32[2]:cpu(0)
    """
    _check_choice(algorithm, "svd", (SvdAlgorithm.DEFAULT, SvdAlgorithm.QR, SvdAlgorithm.DIVIDE_AND_CONQUER))
    x = operand(x, "svd")
    found = singular(x, bool(full_matrices), bool(compute_uv), subset_by_index)
    return tuple(found) if compute_uv else found


def eigh(
    x: ArrayLike,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Array, Array]:
    """Eigenvectors and eigenvalues of Hermitian matrices: V diag(w) V^H = x.

    Where eigenvalues are equal to the last bit, what is symmetric in them has a derivative, as has what does not depend on how
    their vectors turn into each other; other derivatives of vectors are infinite or NaN there. The phases of complex vectors
    are not determined by x; the derivative of a vector has no part along itself.

    Arguments:
        x: an array (..., n, n) of Hermitian matrices.
        lower: whether the lower triangle is read, not the upper one.
        symmetrize_input: whether x is replaced by (x + x^H) / 2 first, which makes derivatives Hermitian too.
        sort_eigenvalues: without effect: they are in rising order.
        subset_by_index: (start, end), to return the eigenvalues of these indices only, with their vectors.
        implementation: None, or `EighImplementation.QR`.

    Returns:
        V (..., n, n), of the dtype of x, and w (..., n), which is real.

    Raises:
        LeafError: x is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: x is neither of float32, float64, complex64 nor complex128.
        ValueError: a subset that does not exist, or an unknown implementation.

    Example:
        >>> v, w = lax.linalg.eigh(pnp.array([[2.0, 1.0], [1.0, 2.0]]))
        >>> w
        [1. 3.]:f32[2]:cpu(0)
    """
    _check_choice(implementation, "eigh", (EighImplementation.QR,))
    _check_choice(sort_eigenvalues, "eigh", (True, False))
    x = operand(x, "eigh")
    vectors, values = spectra.eigh(halved_sum(x, "eigh") if symmetrize_input else x, lower=bool(lower), vectors=True)
    part = chosen(subset_by_index, values.type.shape[-1], "eigh")
    return (vectors, values) if subset_by_index is None else (vectors[..., part], values[..., part])


def eig(
    x: ArrayLike,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Array]:
    """Eigenvalues w of any square matrices, with left and right eigenvectors: u^H x = w u^H, x v = w v.

    Each vector is of length 1, and its largest element is real; so they have derivatives where the eigenvalues differ.

    Arguments:
        x: an array (..., n, n) of matrices.
        compute_left_eigenvectors, compute_right_eigenvectors: whether to return them, as columns.
        enable_eigvec_derivs: without effect: the vectors have derivatives.
        implementation: None, or `EigImplementation.LAPACK`.
        use_magma: without effect on the CPU.

    Returns:
        A list of w (..., n), and of each matrix (..., n, n) that is asked for, the left one first; all complex.

    Raises:
        LeafError: x is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: x is neither of float32, float64, complex64 nor complex128.
        ValueError: an unknown implementation.

    Example:
        >>> w, v = lax.linalg.eig(pnp.array([[0.0, 1.0], [-1.0, 0.0]]), compute_left_eigenvectors=False)
        >>> w
        [0.+1.j 0.-1.j]:c64[2]:cpu(0)
    """
    _check_choice(implementation, "eig", (EigImplementation.LAPACK,))
    for flag in (enable_eigvec_derivs, use_magma):
        _check_choice(flag, "eig", (True, False))
    left, right = bool(compute_left_eigenvectors), bool(compute_right_eigenvectors)
    return list(spectra.eig(operand(x, "eig"), left=left, right=right))


def schur(
    x: ArrayLike,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., Any] | None = None,
) -> tuple[Array, ...]:
    """The Schur form T of square matrices, and the unitary Q, with Q T Q^H = x. It has no derivative.

    Arguments:
        x: an array (..., n, n) of matrices.
        compute_schur_vectors: whether to return Q too.
        sort_eig_vals, select_callable: not supported; False and None.

    Returns:
        T, upper triangular, but with 2x2 blocks on the diagonal where a real matrix has complex eigenvalues; and Q.

    Raises:
        LeafError: x is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: x is neither of float32, float64, complex64 nor complex128.
        ValueError: the eigenvalues are to be sorted.

    Example:
        >>> t, q = lax.linalg.schur(pnp.array([[1.0, 2.0], [0.0, 3.0]]))
        >>> t
        [[1. 2.]
         [0. 3.]]:f32[2,2]:cpu(0)
    """
    if sort_eig_vals or select_callable is not None:
        raise ValueError(f"schur does not sort eigenvalues: leave sort_eig_vals and select_callable out.{at_user_line()}")
    return spectra.schur(operand(x, "schur"), vectors=bool(compute_schur_vectors))


def hessenberg(a: ArrayLike) -> tuple[Array, Array]:
    """The Hessenberg form H of square matrices, zero below the first subdiagonal: Q H Q^H = a. It has no derivative.

    Arguments:
        a: an array (..., n, n) of matrices.

    Returns:
        An array of the shape of `a` with H, and below its first subdiagonal the reflections that make Q; and their numbers
        (..., n - 1), as `householder_product` takes them.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: `a` is neither of float32, float64, complex64 nor complex128.

    Example:
        >>> made, taus = lax.linalg.hessenberg(pnp.ones((3, 3)))
        >>> pnp.round(pnp.triu(made, -1), 3)
        [[ 1.    -1.414 -0.   ]
         [-1.414  2.     0.   ]
         [ 0.     0.     0.   ]]:f32[3,3]:cpu(0)
    """
    return spectra.hessenberg(operand(a, "hessenberg"))


def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """The x with A x = b (`left_side`) or x A = b, where A is a triangle of a, or what is made of it.

    Arguments:
        a: an array (..., n, n) of matrices.
        b: an array (..., n, k), or (..., k, n) unless `left_side`, of the same dtype; or (..., n), of vectors.
        left_side: on which side of x the matrix stands.
        lower: whether the lower triangle is read, not the upper one.
        transpose_a, conjugate_a: whether A is the transpose of that triangle, and whether its conjugate.
        unit_diagonal: whether the diagonal is taken as ones, and not read.

    Returns:
        An array of the shape of b.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the matrices are not square, or the shapes do not fit.
        DtypeError: the dtypes differ, or are none of float32, float64, complex64 and complex128.

    Example:
        >>> a = pnp.array([[2.0, 0.0], [1.0, 4.0]])
        >>> lax.linalg.triangular_solve(a, pnp.array([2.0, 9.0]), left_side=True, lower=True)
        [1. 2.]:f32[2]:cpu(0)
    """
    a, b = lifted("triangular_solve", (a, b))
    shape = b.type.shape
    if b.type.ndim == a.type.ndim - 1:
        b = reshape(b, new_sizes=(*shape, 1) if left_side else (*shape[:-1], 1, *shape[-1:]))
    flags = {"transpose_a": bool(transpose_a), "conjugate_a": bool(conjugate_a), "unit_diagonal": bool(unit_diagonal)}
    out = triangular.triangular_solve(a, b, left_side=bool(left_side), lower=bool(lower), **flags)
    return reshape(out, new_sizes=shape) if out.type.shape != shape else out


def tridiagonal(a: ArrayLike, *, lower: bool = True) -> tuple[Array, Array, Array, Array]:
    """The real tridiagonal form T of Hermitian matrices: Q T Q^H = a. It has no derivative.

    Arguments:
        a: an array (..., n, n) of Hermitian matrices.
        lower: whether the lower triangle is read, not the upper one.

    Returns:
        An array of the shape of `a` with the reflections that make Q; T's diagonal (..., n) and its subdiagonal (..., n - 1),
        which are real; and the numbers (..., n - 1) of the reflections.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: `a` is neither of float32, float64, complex64 nor complex128.

    Example:
        >>> made, d, e, taus = lax.linalg.tridiagonal(pnp.ones((3, 3)))
        >>> pnp.round(d, 3), pnp.round(e, 3)
        ([1. 2. 0.]:f32[3]:cpu(0), [-1.414  0.   ]:f32[2]:cpu(0))
    """
    return spectra.tridiagonal(operand(a, "tridiagonal"), lower=bool(lower))


def tridiagonal_solve(dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike, *, perturb_singular: bool = False) -> Array:
    """The x with A x = b, where A is tridiagonal; NaN where A is singular, unless it is perturbed.

    Arguments:
        dl, d, du: arrays (..., n): A's subdiagonal, whose first element is not read; its diagonal; and its superdiagonal, whose
            last element is not read.
        b: an array (..., n, k).
        perturb_singular: whether to add to the diagonal of a singular A, times its largest element, the distance from 1 to
            the next number; to that of A = 0, this distance.

    Returns:
        An array of the shape of b.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not fit.
        DtypeError: the dtypes differ, or are none of float32, float64, complex64 and complex128.

    Example:
        >>> one = pnp.ones(3)
        >>> lax.linalg.tridiagonal_solve(one, 4.0 * one, one, pnp.array([[6.0], [12.0], [14.0]]))
        [[1.]
         [2.]
         [3.]]:f32[3,1]:cpu(0)
    """
    below, middle, above, given = lifted("tridiagonal_solve", (dl, d, du, b))
    x = triangular.tridiagonal_solve(below, middle, above, given)
    if not perturb_singular:
        return x
    known = [stop_gradient(one) for one in (below, middle, above)]
    bad = isnan(stop_gradient(x)).any(axis=(-1, -2), keepdims=True)[..., 0]
    size = functools.reduce(maximum, [abs(one).max(axis=-1, keepdims=True) for one in known])
    step = where(bad, float(np.finfo(middle.dtype).eps) * where(size == 0, 1.0, size), 0.0).astype(middle.dtype)
    return where(bad[..., None], triangular.tridiagonal_solve(below, middle + step, above, given), x)


def symmetric_product(
    a_matrix: ArrayLike, c_matrix: ArrayLike, *, alpha: float = 1.0, beta: float = 0.0, symmetrize_output: bool = False
) -> Array:
    """alpha a a^T + beta c.

    Arguments:
        a_matrix: an array (..., n, k). c_matrix: an array (..., n, n) of symmetric matrices, of its dtype.
        alpha, beta: numbers.
        symmetrize_output: without effect: the whole matrix is computed.

    Returns:
        An array of the shape of `c_matrix`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not fit.
        DtypeError: the dtypes differ, or are complex.

    Example:
        >>> lax.linalg.symmetric_product(pnp.array([[1.0], [2.0]]), pnp.eye(2), beta=1.0)
        [[2. 2.]
         [2. 5.]]:f32[2,2]:cpu(0)
    """
    _check_choice(symmetrize_output, "symmetric_product", (True, False))
    a, c = lifted("symmetric_product", (a_matrix, c_matrix))
    if kind(a.type.dtype) != "f" or a.type.dtype is not c.type.dtype:
        raise DtypeError(f"symmetric_product takes real operands of one dtype, but got {a.type} and {c.type}.{at_user_line()}")
    if a.type.ndim < 2 or c.type.shape != (*a.type.shape[:-1], a.type.shape[-2]):
        raise ShapeError(
            f"symmetric_product: {c.type} has not the shape of the product of {a.type}: it must be square, with the rows of"
            f" that.{at_user_line()}"
        )
    (first, _), (second, _) = lifted("symmetric_product", (alpha, a)), lifted("symmetric_product", (beta, a))
    return add(mul(first, product(a, flipped(a))), mul(second, c))


make_public(globals())
