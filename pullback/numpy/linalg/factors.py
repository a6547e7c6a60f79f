"""Cholesky, QR, eigenvalues and singular values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.numpy.linalg.matrices import eagerly, matrices
from pullback.numpy.promotion import at_user_line
from pullback.ops import factorizations, spectra
from pullback.ops.matrices import adjoint, flipped


class QRResult(NamedTuple):
    """What `qr` returns.

    Attributes:
        Q: orthonormal columns. R: an upper triangular matrix.

    Example:
        >>> pnp.linalg.qr(pnp.eye(2)).R.shape
        (2, 2)
    """

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """What `svd` returns.

    Attributes:
        U: left singular vectors, as columns. S: singular values, in falling order. Vh: right singular vectors, as conjugate
            rows.

    Example:
        >>> pnp.linalg.svd(pnp.eye(2)).S
        [1. 1.]:f32[2]:cpu(0)
    """

    U: Array
    S: Array
    Vh: Array


class EigResult(NamedTuple):
    """What `eig` returns.

    Attributes:
        eigenvalues: the eigenvalues. eigenvectors: their vectors, as columns.

    Example:
        >>> pnp.linalg.eig(pnp.eye(2)).eigenvalues
        [1.+0.j 1.+0.j]:c64[2]:cpu(0)
    """

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """What `eigh` returns.

    Attributes:
        eigenvalues: the eigenvalues, in rising order. eigenvectors: their vectors, as columns.

    Example:
        >>> pnp.linalg.eigh(pnp.eye(2)).eigenvalues
        [1. 1.]:f32[2]:cpu(0)
    """

    eigenvalues: Array
    eigenvectors: Array


def half(a: Any, name: str, symmetrize: bool) -> Any:
    """The square matrices a, or (a + a^H) / 2."""
    x = matrices(a, name)
    factorizations.check_square(x, name)
    if not symmetrize:
        return x
    out = eagerly(name, lambda x: (x + x.conj().swapaxes(-1, -2)) * x.dtype.type(0.5), x)
    return factorizations.halved_sum(x, name) if out is None else out


def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """The triangular factor of positive definite Hermitian matrices: L L^H = a, or U^H U = a.

    Arguments:
        a: an array (..., n, n).
        upper: whether to return U, upper triangular, in place of L.
        symmetrize_input: whether `a` is replaced by (a + a^H) / 2 first, which makes derivatives Hermitian too; if not, its
            lower triangle is read, and has the derivatives.

    Returns:
        An array of the shape of `a`, with a positive diagonal.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: a dtype that LAPACK does not know.
        LinAlgError: a known matrix is not positive definite.

    Example:
        >>> pnp.linalg.cholesky(pnp.array([[4.0, 2.0], [2.0, 5.0]]))
        [[2. 0.]
         [1. 2.]]:f32[2,2]:cpu(0)
    """
    x = half(a, "cholesky", symmetrize_input)
    out = eagerly("cholesky", np.linalg.cholesky, x)
    out = factorizations.cholesky(x) if out is None else out
    return adjoint(out) if upper else out


def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """Q with orthonormal columns and the upper triangular R, with Q R = a.

    Arguments:
        a: an array (..., m, n).
        mode: "reduced" for Q (..., m, k) and R (..., k, n), with k = min(m, n); "complete" for Q (..., m, m) and R (..., m, n),
            which have no derivative where m > n; "r" for R of the first; "raw" for what LAPACK returns; "full", NumPy's older
            name for "reduced".

    Returns:
        A `QRResult`; for "r" an array; for "raw" the transposed reflections (..., n, m) and their numbers (..., k).

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: `a` has fewer than two axes.
        DtypeError: a dtype that LAPACK does not know.
        ValueError: an unknown mode.

    Example:
        >>> q, r = pnp.linalg.qr(pnp.array([[0.0, 1.0], [2.0, 3.0]]))
        >>> pnp.round(pnp.abs(q @ r), 5)
        [[0. 1.]
         [2. 3.]]:f32[2,2]:cpu(0)
    """
    if mode not in ("reduced", "full", "complete", "r", "raw"):
        raise ValueError(f"qr takes mode='reduced', 'complete', 'r' or 'raw', not {brief(mode)}.{at_user_line()}")
    x = matrices(a, "qr")
    if mode == "raw":
        made, taus = factorizations.geqrf(x)
        return flipped(made), taus
    found = QRResult(*factorizations.qr(x, full_matrices=mode == "complete"))
    return found.R if mode == "r" else found


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """Singular values and vectors: U diag(S) Vh = a. `pullback.lax.linalg.svd` says what derivatives they have.

    Arguments:
        a: an array (..., m, n).
        full_matrices: whether U is (m, m) and Vh (n, n), or they are (m, k) and (k, n), with k = min(m, n). Where the first are
            larger, they have no derivative.
        compute_uv: whether to return the vectors too.
        hermitian: whether `a` is replaced by (a + a^H) / 2 first.
        subset_by_index: (start, end), to return the singular values of these indices only, with their vectors.

    Returns:
        An `SVDResult`, or S alone.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: `a` has fewer than two axes.
        DtypeError: a dtype that LAPACK does not know.
        ValueError: a subset that does not exist, or of full matrices.

    Example:
        >>> pnp.linalg.svd(pnp.array([[0.0, 2.0], [3.0, 0.0]])).S
        [3. 2.]:f32[2]:cpu(0)
    """
    x = half(a, "svd", True) if hermitian else matrices(a, "svd")
    return singular(x, bool(full_matrices), bool(compute_uv), subset_by_index)


def singular(x: Any, full: bool, vectors: bool, subset: Any) -> Any:
    """The singular values of a subset, or all, with their vectors."""
    values, *found = spectra.svd(x, full_matrices=full, vectors=vectors)
    if subset is not None:
        if full and vectors:
            raise ValueError(f"svd with subset_by_index needs full_matrices=False, or compute_uv=False.{at_user_line()}")
        part = chosen(subset, values.type.shape[-1], "svd")
        values, found = values[..., part], [found[0][..., part], found[1][..., part, :]] if vectors else []
    return SVDResult(found[0], values, found[1]) if vectors else values


def chosen(subset: Any, size: int, name: str) -> slice:
    """Which of the values are wanted, in rising order of their numbers."""
    start, end = (0, size) if subset is None else subset
    if not 0 <= start <= end <= size:
        raise ValueError(
            f"{name} takes subset_by_index=(start, end) with 0 <= start <= end <= {size}, not {subset}.{at_user_line()}"
        )
    return slice(start, end)


def svdvals(x: ArrayLike, /) -> Array:
    """The singular values, in falling order.

    Arguments:
        x: an array (..., m, n).

    Returns:
        An array (..., min(m, n)), real.

    Raises:
        LeafError: x is neither an array nor a number.
        ShapeError: x has fewer than two axes.
        DtypeError: a dtype that LAPACK does not know.

    Example:
        >>> pnp.linalg.svdvals(pnp.array([[0.0, 2.0], [3.0, 0.0]]))
        [3. 2.]:f32[2]:cpu(0)
    """
    return spectra.svd(matrices(x, "svdvals"), full_matrices=False, vectors=False)[0]


def eig(a: ArrayLike) -> EigResult:
    """Eigenvalues and right eigenvectors of square matrices, complex: a v = w v.

    Each vector is of length 1, and its largest element is real; so it has a derivative where its eigenvalue is a simple one.

    Arguments:
        a: an array (..., n, n).

    Returns:
        An `EigResult`.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: a dtype that LAPACK does not know.

    Example:
        >>> pnp.linalg.eig(pnp.array([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues
        [0.+1.j 0.-1.j]:c64[2]:cpu(0)
    """
    return EigResult(*spectra.eig(matrices(a, "eig"), left=False, right=True))


def eigvals(a: ArrayLike) -> Array:
    """The eigenvalues of square matrices, complex.

    Arguments:
        a: an array (..., n, n).

    Returns:
        An array (..., n).

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: a dtype that LAPACK does not know.

    Example:
        >>> pnp.linalg.eigvals(pnp.array([[1.0, 2.0], [0.0, 3.0]]))
        [1.+0.j 3.+0.j]:c64[2]:cpu(0)
    """
    return spectra.eig(matrices(a, "eigvals"), left=False, right=False)[0]


def _hermitian(name: str, a: ArrayLike, triangle: str | None, symmetrize: bool, vectors: bool) -> Any:
    if triangle not in (None, "L", "U", "l", "u"):
        raise ValueError(f"{name} takes UPLO='L', 'U' or None, not {brief(triangle)}.{at_user_line()}")
    return spectra.eigh(half(a, name, symmetrize), lower=triangle not in ("U", "u"), vectors=vectors)


def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Eigenvalues, in rising order, and orthonormal eigenvectors of Hermitian matrices.

    Where eigenvalues are equal to the last bit, what is symmetric in them has a derivative, as has what does not depend on how
    their vectors turn into each other; other derivatives of vectors are infinite or NaN there.

    Arguments:
        a: an array (..., n, n).
        UPLO: which triangle is read, "L" (also None) or "U".
        symmetrize_input: whether `a` is replaced by (a + a^H) / 2 first, which makes derivatives Hermitian too.

    Returns:
        An `EighResult`; the eigenvalues are real.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: a dtype that LAPACK does not know.
        ValueError: an unknown triangle.

    Example:
        >>> pnp.linalg.eigh(pnp.array([[2.0, 1.0], [1.0, 2.0]])).eigenvalues
        [1. 3.]:f32[2]:cpu(0)
    """
    return EighResult(*_hermitian("eigh", a, UPLO, symmetrize_input, True)[::-1])


def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """The eigenvalues of Hermitian matrices, in rising order.

    Arguments:
        a: an array (..., n, n).
        UPLO: which triangle is read, "L" or "U".
        symmetrize_input: whether `a` is replaced by (a + a^H) / 2 first, which makes derivatives Hermitian too.

    Returns:
        An array (..., n), real.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: a dtype that LAPACK does not know.
        ValueError: an unknown triangle.

    Example:
        >>> pnp.linalg.eigvalsh(pnp.array([[2.0, 1.0], [1.0, 2.0]]))
        [1. 3.]:f32[2]:cpu(0)
    """
    return _hermitian("eigvalsh", a, UPLO, symmetrize_input, False)[0]
