"""Factorizations, under SciPy's signatures."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.api.loops import fori_loop
from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.errors import ShapeError
from pullback.lax import linalg as lax_linalg
from pullback.numpy import linalg as numpy_linalg
from pullback.numpy.arithmetic import abs as absolute
from pullback.numpy.complexes import conj, real
from pullback.numpy.creation import arange, diag, triu, zeros_like
from pullback.numpy.elementary import sqrt
from pullback.numpy.linalg.matrices import matrices, system
from pullback.numpy.logic import where
from pullback.numpy.products import matmul
from pullback.numpy.promotion import at_user_line, broadcast, broadcast_shapes, operand, pair, strong, to_common_dtype
from pullback.numpy.shaping import concatenate, reshape, stack
from pullback.numpy.taking import take
from pullback.ops import matrix_functions
from pullback.ops.factorizations import self_adjoint, unpacked
from pullback.ops.formulas import COMPLEX_DTYPE
from pullback.ops.matrices import adjoint, identity_like
from pullback.ops.triangular import inverse_permutation, permuted_rows


def unused(*flags: Any) -> None:
    """Test flags that have no effect here for truth: what is neither true nor false is refused."""
    for flag in flags:
        bool(flag)


def cholesky(a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The triangular factor of positive definite Hermitian matrices: U^H U = a, or L L^H = a.

    Arguments:
        a: an array (..., n, n), of which the triangle of the result is read, and has the derivatives.
        lower: whether to return L, lower triangular, in place of U.
        overwrite_a, check_finite: without effect.

    Returns:
        An array of the shape of `a`.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: a dtype that LAPACK does not know.
        LinAlgError: a known matrix is not positive definite.

    Example:
        >>> pb.scipy.linalg.cholesky(pnp.array([[4.0, 2.0], [2.0, 5.0]]))
        [[2. 1.]
         [0. 2.]]:f32[2,2]:cpu(0)
    """
    unused(overwrite_a, check_finite)
    a = matrices(a, "cholesky")
    out = numpy_linalg.cholesky(a if lower else adjoint(a), symmetrize_input=False)
    return out if lower else adjoint(out)


def cho_factor(a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, bool]:
    """The Cholesky factor for `cho_solve`.

    Arguments:
        a: an array (..., n, n) of positive definite Hermitian matrices, of which the triangle of the factor is read.
        lower: whether the factor is lower triangular, not upper.
        overwrite_a, check_finite: without effect.

    Returns:
        The factor, and `lower`.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: a dtype that LAPACK does not know.
        LinAlgError: a known matrix is not positive definite.

    Example:
        >>> factor = pb.scipy.linalg.cho_factor(pnp.array([[4.0, 2.0], [2.0, 5.0]]))
        >>> pb.scipy.linalg.cho_solve(factor, pnp.array([8.0, 8.0]))
        [1.5 1. ]:f32[2]:cpu(0)
    """
    return cholesky(a, lower, overwrite_a, check_finite), bool(lower)


def cho_solve(c_and_lower: tuple[ArrayLike, bool], b: ArrayLike, overwrite_b: bool = False, check_finite: bool = True) -> Array:
    """The x with a x = b, given the Cholesky factor of a.

    Arguments:
        c_and_lower: what `cho_factor` returned for a (..., n, n).
        b: an array (..., n, k), or (..., n). The axes in front broadcast.
        overwrite_b, check_finite: without effect.

    Returns:
        An array of the shape of b, its axes in front broadcast with those of a.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not fit.
        DtypeError: a dtype that LAPACK does not know.

    Example:
        >>> factor = pb.scipy.linalg.cho_factor(2.0 * pnp.eye(2))
        >>> pnp.round(pb.scipy.linalg.cho_solve(factor, pnp.array([2.0, 4.0])), 4)
        [1. 2.]:f32[2]:cpu(0)
    """
    unused(overwrite_b, check_finite)
    factor, lower = pair("cho_solve", "c_and_lower", c_and_lower)
    c, x, shape = columns("cho_solve", factor, b)
    for transposed in (not lower, bool(lower)):
        x = lax_linalg.triangular_solve(c, x, left_side=True, lower=bool(lower), transpose_a=transposed, conjugate_a=transposed)
    return reshape(x, shape)


def columns(name: str, a: ArrayLike, b: ArrayLike) -> tuple[Any, Any, tuple[int, ...]]:
    """Square matrices and right-hand sides in one dtype and stack, where vectors are made columns; and the solution's shape."""
    x, y = operand(a, name), operand(b, name)
    if y.type.ndim == 1 or y.type.shape == x.type.shape[:-1]:
        y = y[..., None]
        x, y = system(name, x, y)
        return x, y, y.type.shape[:-1]
    x, y = system(name, x, y)
    return x, y, y.type.shape


def lu(
    a: ArrayLike,
    permute_l: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
    p_indices: bool = False,
) -> tuple[Array, ...]:
    """P L U = a: P is a permutation, L has ones on its diagonal, and U is upper triangular.

    Arguments:
        a: an array (..., m, n).
        permute_l: whether to return P L and U only.
        overwrite_a, check_finite: without effect.
        p_indices: whether P is given by the row of L for each row of `a`, in place of a matrix.

    Returns:
        P (..., m, m), which is real, L (..., m, k) and U (..., k, n), with k = min(m, n); or P L and U.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: `a` has fewer than two axes.
        DtypeError: a dtype that LAPACK does not know.

    Example:
        >>> p, l, u = pb.scipy.linalg.lu(pnp.array([[1.0, 2.0], [4.0, 4.0]]))
        >>> p @ l @ u
        [[1. 2.]
         [4. 4.]]:f32[2,2]:cpu(0)
    """
    unused(overwrite_a, check_finite)
    made, _, permutation = lax_linalg.lu(matrices(a, "lu"))
    left, right = unpacked(made)
    order = inverse_permutation(permutation)
    if permute_l:
        return permuted_rows(left, order), right
    return order if p_indices else permuted_rows(identity_like(real(made), made.shape[-2]), order), left, right


def lu_factor(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, Array]:
    """L and U in one array, and the pivots, for `lu_solve`.

    Arguments:
        a: an array (..., m, n).
        overwrite_a, check_finite: without effect.

    Returns:
        L and U in one array of the shape of `a`, and the rows with which each was exchanged in turn, of int32.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: `a` has fewer than two axes.
        DtypeError: a dtype that LAPACK does not know.

    Example:
        >>> pb.scipy.linalg.lu_factor(pnp.array([[1.0, 2.0], [4.0, 4.0]]))[1]
        [1 1]:i32[2]:cpu(0)
    """
    unused(overwrite_a, check_finite)
    return lax_linalg.lu(matrices(a, "lu_factor"))[:2]


def lu_solve(
    lu_and_piv: tuple[Array, ArrayLike], b: ArrayLike, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True
) -> Array:
    """The x with a x = b, given the LU factors of a.

    Arguments:
        lu_and_piv: what `lu_factor` returned for a (..., n, n).
        b: an array (..., n, k), or (..., n). The axes in front broadcast.
        trans: 0 for a, 1 for its transpose, 2 for its conjugate transpose.
        overwrite_b, check_finite: without effect.

    Returns:
        An array of the shape of b, its axes in front broadcast with those of a.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not fit.
        DtypeError: a dtype that LAPACK does not know.
        ValueError: an unknown `trans`.

    Example:
        >>> factors = pb.scipy.linalg.lu_factor(pnp.array([[2.0, 0.0], [1.0, 4.0]]))
        >>> pb.scipy.linalg.lu_solve(factors, pnp.array([2.0, 9.0]))
        [1. 2.]:f32[2]:cpu(0)
    """
    unused(overwrite_b, check_finite)
    if trans not in (0, 1, 2):
        raise ValueError(f"lu_solve takes trans=0, 1 or 2, not {brief(trans)}.{at_user_line()}")
    made, pivots = pair("lu_solve", "lu_and_piv", lu_and_piv)
    made, x, shape = columns("lu_solve", made, b)
    if made.type.ndim < 2 or x.type.shape[-2:-1] != made.type.shape[-1:]:
        raise ShapeError(f"lu_solve: {x.type} has not as many rows as {made.type}: it must have.{at_user_line()}")
    order = lax_linalg.lu_pivots_to_permutation(pivots, made.type.shape[-1])
    order = broadcast(order, made.type.shape[:-1])
    steps: Any = ({"lower": True, "unit_diagonal": True}, {"lower": False})
    flags: Any = {"left_side": True, "transpose_a": trans > 0, "conjugate_a": trans == 2}
    x = permuted_rows(x, order) if trans == 0 else x
    for step in steps if trans == 0 else steps[::-1]:
        x = lax_linalg.triangular_solve(made, x, **step, **flags)
    x = permuted_rows(x, inverse_permutation(order)) if trans else x
    return reshape(x, shape)


def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Array, ...]:
    """Q with orthonormal columns and the upper triangular R, with Q R = a.

    Arguments:
        a: an array (..., m, n).
        overwrite_a, lwork, check_finite: without effect.
        mode: "full" for Q (..., m, m); "economic" for Q (..., m, k) and R (..., k, n), with k = min(m, n); "r" for R alone.
        pivoting: whether to take the columns in an order p in which R's diagonal falls, and return it last.

    Returns:
        A tuple of Q, unless the mode is "r", R, and p, of int32, if `pivoting`.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: `a` has fewer than two axes.
        DtypeError: a dtype that LAPACK does not know.
        ValueError: an unknown mode.

    Example:
        >>> (r,) = pb.scipy.linalg.qr(pnp.array([[0.0, 1.0], [2.0, 3.0]]), mode="r")
        >>> pnp.abs(r)
        [[2. 3.]
         [0. 1.]]:f32[2,2]:cpu(0)
    """
    unused(overwrite_a, lwork, check_finite)
    if mode not in ("full", "r", "economic"):
        raise ValueError(f"qr takes mode='full', 'economic' or 'r', not {brief(mode)}.{at_user_line()}")
    found = lax_linalg.qr(matrices(a, "qr"), pivoting=pivoting, full_matrices=mode != "economic")
    return found[mode == "r" :]


def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Array, ...]:
    """The product of a matrix with the Q of a = Q R, and R.

    Arguments:
        a: an array (..., m, n). Q is (m, k) and R (k, n), with k = min(m, n).
        c: an array (..., l, m) for c Q, or (..., k, l) for Q c.
        mode: "right" for c Q, "left" for Q c.
        pivoting: whether to take the columns of `a` in an order p in which R's diagonal falls, and return it last.
        conjugate: whether to conjugate Q.
        overwrite_a, overwrite_c: without effect.

    Returns:
        The product, R, and p, of int32, if `pivoting`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not fit.
        DtypeError: a dtype that LAPACK does not know, or no common one.
        ValueError: an unknown mode.

    Example:
        >>> product, r = pb.scipy.linalg.qr_multiply(pnp.array([[0.0, 1.0], [2.0, 3.0]]), pnp.eye(2))
        >>> pnp.round(product @ r, 4)
        [[0. 1.]
         [2. 3.]]:f32[2,2]:cpu(0)
    """
    unused(overwrite_a, overwrite_c)
    if mode not in ("right", "left"):
        raise ValueError(f"qr_multiply takes mode='right' or 'left', not {brief(mode)}.{at_user_line()}")
    x, other = map(strong, to_common_dtype("qr_multiply", a, c, inexact=True))
    basis, *rest = lax_linalg.qr(x, pivoting=pivoting, full_matrices=False)
    basis = conj(basis) if conjugate else basis
    return matmul(other, basis) if mode == "right" else matmul(basis, other), *rest


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """Singular values and vectors: U diag(s) Vh = a.

    Arguments:
        a: an array (..., m, n).
        full_matrices, compute_uv: as `pullback.numpy.linalg.svd` takes them.
        overwrite_a, check_finite: without effect.
        lapack_driver: "gesdd", or "gesvd", which gives the same.

    Returns:
        U, s and Vh, or s alone.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: `a` has fewer than two axes.
        DtypeError: a dtype that LAPACK does not know.
        ValueError: an unknown driver.

    Example:
        >>> pb.scipy.linalg.svd(pnp.array([[0.0, 2.0], [3.0, 0.0]]), compute_uv=False)
        [3. 2.]:f32[2]:cpu(0)
    """
    unused(overwrite_a, check_finite)
    if lapack_driver not in ("gesdd", "gesvd"):
        raise ValueError(f"svd takes lapack_driver='gesdd' or 'gesvd', not {brief(lapack_driver)}.{at_user_line()}")
    found = numpy_linalg.svd(a, full_matrices, compute_uv)
    return tuple(found) if compute_uv else found


def schur(a: ArrayLike, output: str = "real") -> tuple[Array, Array]:
    """The Schur form T of square matrices, and the unitary Z, with Z T Z^H = a. It has no derivative.

    Arguments:
        a: an array (..., n, n).
        output: "complex" for an upper triangular T; "real" for a real T of a real matrix, with 2x2 blocks on its diagonal where
            eigenvalues are complex.

    Returns:
        T and Z.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: a dtype that LAPACK does not know.
        ValueError: an unknown output.

    Example:
        >>> t, z = pb.scipy.linalg.schur(pnp.array([[0.0, 1.0], [-1.0, 0.0]]), "complex")
        >>> pnp.abs(t.diagonal().imag)
        [1. 1.]:f32[2]:cpu(0)
    """
    if output not in ("real", "complex"):
        raise ValueError(f"schur takes output='real' or 'complex', not {brief(output)}.{at_user_line()}")
    x = matrices(a, "schur")
    form, basis = lax_linalg.schur(as_complex(x) if output == "complex" else x)
    return form, basis


def as_complex(x: Any) -> Any:
    """An array of floating or complex numbers as complex ones."""
    return x.astype(COMPLEX_DTYPE.get(x.type.dtype, x.type.dtype))


def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """The complex Schur form, of a real one: a rotation for each block of two rows on the diagonal, from the last to the first.

    Arguments:
        T, Z: what `schur` returned, arrays (..., n, n).
        check_finite: without effect.

    Returns:
        T, upper triangular, and Z; complex.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: a dtype that LAPACK does not know.

    Example:
        >>> t, z = pb.scipy.linalg.rsf2csf(pnp.array([[0.0, 1.0], [-1.0, 0.0]]), pnp.eye(2))
        >>> pnp.abs(t.diagonal().imag)
        [1. 1.]:f32[2]:cpu(0)
    """
    unused(check_finite)
    form, basis = to_common_dtype("rsf2csf", as_complex(matrices(T, "rsf2csf")), as_complex(matrices(Z, "rsf2csf")))
    n, eps = form.type.shape[-1], float(np.finfo(form.type.dtype).eps)
    front = broadcast_shapes("rsf2csf", form.type.shape[:-2], basis.type.shape[:-2])
    if basis.type.shape[-2:] != (n, n):
        raise ShapeError(f"rsf2csf takes T and Z of one size, but got {form.type} and {basis.type}.{at_user_line()}")
    form, basis = [broadcast(one, (*front, n, n)) for one in (form, basis)]

    def step(i: Any, now: tuple[Any, Any]) -> tuple[Any, Any]:
        form, basis = now
        m = n - 1 - i
        pair, places = m - 1 + arange(2), arange(n)
        rows = take(form, pair, -2)
        block = take(rows, pair, -1)
        below, last = block[..., 1, 0], block[..., 1, 1]
        linked = absolute(below) > eps * (absolute(block[..., 0, 0]) + absolute(last))
        mu = numpy_linalg.eigvals(block)[..., 0] - last
        length = sqrt(where(linked, absolute(mu) ** 2 + absolute(below) ** 2, 1.0))
        c, s = where(linked, mu, 1.0) / length, where(linked, below, 0.0) / length
        turn = stack([stack([conj(c), s], -1), stack([-s, c], -1)], -2)
        rows = where(places >= m - 1, matmul(turn, rows), rows)
        form = form.at[..., pair, :].set(rows)
        columns = take(form, pair, -1)
        form = form.at[..., pair].set(where((places <= m)[:, None], matmul(columns, adjoint(turn)), columns))
        return form.at[..., m, m - 1].set(0.0), basis.at[..., pair].set(matmul(take(basis, pair, -1), adjoint(turn)))

    form, basis = fori_loop(0, n - 1, step, (form, basis))
    return form, basis


def hessenberg(a: ArrayLike, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The Hessenberg form H of square matrices, zero below the first subdiagonal: Q H Q^H = a. It has no derivative.

    Arguments:
        a: an array (..., n, n).
        calc_q: whether to return Q too.
        overwrite_a, check_finite: without effect.

    Returns:
        H, or H and Q.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: a dtype that LAPACK does not know.

    Example:
        >>> h, q = pb.scipy.linalg.hessenberg(pnp.ones((3, 3)), calc_q=True)
        >>> pnp.allclose(q @ h @ q.T, 1.0, atol=1e-5)
        True:bool[]:cpu(0)
    """
    unused(overwrite_a, check_finite)
    made, taus = lax_linalg.hessenberg(matrices(a, "hessenberg"))
    form = triu(made, -1)
    if not calc_q:
        return form
    inner = lax_linalg.householder_product(made[..., 1:, :-1], taus) if made.shape[-1] > 1 else made[..., 1:, :-1]
    first, column = identity_like(made)[..., :1, :], zeros_like(made)[..., 1:, :1]
    return form, concatenate([first, concatenate([column, inner], -1)], -2)


def polar(
    a: ArrayLike, side: str = "right", *, method: str = "svd", eps: float | None = None, max_iterations: int | None = None
) -> tuple[Array, Array]:
    """The U with orthonormal columns and the positive semidefinite P, with U P = a (side "right") or P U = a ("left").

    Arguments:
        a: an array (..., m, n).
        side: on which side P stands.
        method, eps, max_iterations: JAX's names for how to iterate; without effect, since it is done by singular values.

    Returns:
        U, of the shape of `a`, and P.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: `a` has fewer than two axes.
        DtypeError: a dtype that LAPACK does not know.
        ValueError: an unknown side or method.

    Example:
        >>> u, p = pb.scipy.linalg.polar(pnp.array([[0.0, -2.0], [2.0, 0.0]]))
        >>> pnp.round(u, 4), pnp.round(p, 4)
        ([[ 0. -1.]
         [ 1.  0.]]:f32[2,2]:cpu(0), [[2. 0.]
         [0. 2.]]:f32[2,2]:cpu(0))
    """
    if side not in ("left", "right") or method not in ("svd", "qdwh"):
        raise ValueError(
            f"polar takes side='left' or 'right', and method='svd', not {brief(side)}, {brief(method)}.{at_user_line()}"
        )
    unused(eps, max_iterations)
    x = matrices(a, "polar")
    turn = matrix_functions.polar_factor(x)
    stretch = matmul(adjoint(turn), x) if side == "right" else matmul(x, adjoint(turn))
    return turn, (stretch + adjoint(stretch)) / 2


def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """Eigenvalues, in rising order, and eigenvectors of Hermitian matrices; or, given b, of a v = w b v.

    Arguments:
        a: an array (..., n, n).
        b: None, or an array (..., n, n) of positive definite Hermitian matrices.
        lower: whether the lower triangles are read, not the upper ones.
        eigvals_only: whether to return the eigenvalues only.
        overwrite_a, overwrite_b, turbo, check_finite: without effect.
        eigvals: not supported; None.
        type: 1, for a v = w b v.

    Returns:
        w, real, and v; or w alone. With b, the vectors have v^H b v = 1.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: a dtype that LAPACK does not know.
        LinAlgError: a known b is not positive definite.
        ValueError: another `type`, or some `eigvals` only.

    Example:
        >>> w, v = pb.scipy.linalg.eigh(pnp.array([[2.0, 1.0], [1.0, 2.0]]))
        >>> w
        [1. 3.]:f32[2]:cpu(0)
    """
    unused(overwrite_a, overwrite_b, turbo, check_finite)
    if type != 1 or eigvals is not None:
        raise ValueError(f"eigh takes type=1 and eigvals=None, not {brief(type)} and {brief(eigvals)}.{at_user_line()}")
    triangle = "L" if lower else "U"
    if b is None:
        if eigvals_only:
            return numpy_linalg.eigvalsh(a, triangle, symmetrize_input=False)
        return tuple(numpy_linalg.eigh(a, triangle, symmetrize_input=False))
    x, y = map(strong, to_common_dtype("eigh", a, b, inexact=True))
    x, y = [self_adjoint(each, bool(lower)) for each in (x, y)]
    factor = numpy_linalg.cholesky(y)
    solve: Any = {"lower": True, "conjugate_a": True}
    inner = lax_linalg.triangular_solve(factor, x, left_side=True, lower=True)
    inner = lax_linalg.triangular_solve(factor, inner, left_side=False, transpose_a=True, **solve)
    if eigvals_only:
        return numpy_linalg.eigvalsh(inner)
    values, vectors = numpy_linalg.eigh(inner)
    return values, lax_linalg.triangular_solve(factor, vectors, left_side=True, transpose_a=True, **solve)


def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[int, int] | None = None,
    tol: float | None = None,
    key: Any = None,
) -> Any:
    """Eigenvalues, in rising order, and eigenvectors of a Hermitian tridiagonal matrix.

    Arguments:
        d, e: vectors (n,) and (n - 1,): the diagonal, real, and the subdiagonal.
        eigvals_only: whether to return the eigenvalues only.
        select: "a" for all, "i" for those whose indices are in `select_range`, both ends included.
        select_range: two ints, where `select` is "i".
        tol, key: without effect: the matrix is solved as a full one.

    Returns:
        w and v, or w alone.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the sizes do not fit.
        DtypeError: a dtype that LAPACK does not know.
        ValueError: a choice that is not known, or whose size would depend on values (select="v").

    Example:
        >>> pb.scipy.linalg.eigh_tridiagonal(pnp.array([2.0, 2.0]), pnp.array([1.0]), eigvals_only=True)
        [1. 3.]:f32[2]:cpu(0)
    """
    unused(tol, key)
    on, below = map(strong, to_common_dtype("eigh_tridiagonal", d, e, inexact=True))
    if on.type.ndim != 1 or below.type.shape != (on.type.size - 1,):
        raise ShapeError(f"eigh_tridiagonal takes vectors (n,) and (n - 1,), but got {on.type}, {below.type}.{at_user_line()}")
    if select not in ("a", "i") or (select == "i") != (select_range is not None):
        raise ValueError(
            f"eigh_tridiagonal takes select='a', or 'i' with a select_range, not {brief(select)},"
            f" {select_range}.{at_user_line()}"
        )
    first, last = (0, on.type.size - 1) if select_range is None else map(int, select_range)
    part = slice(first, last + 1)
    found = eigh(diag(on) + diag(below, -1), eigvals_only=eigvals_only)
    return found[part] if eigvals_only else (found[0][part], found[1][:, part])
