"""Random vectors and matrices: of a normal distribution with a given covariance, and orthogonal ones."""

from __future__ import annotations

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.dtypes import DTypeLike
from pullback.core.errors import ShapeError
from pullback.core.source import at_user_line
from pullback.core.types import ShapeLike
from pullback.lax.linalg import cholesky, eigh, qr, svd
from pullback.numpy.arithmetic import sign
from pullback.numpy.creation import checked_shape, diagonal
from pullback.numpy.elementary import sqrt
from pullback.numpy.products import einsum
from pullback.numpy.promotion import broadcast, broadcast_shapes, to_common_dtype
from pullback.numpy.shaping import matrix_transpose
from pullback.random.keys import sampler
from pullback.random.sampling import checked_dtype, drawn, fitting, normal


@sampler
def multivariate_normal(
    key: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = None,
    method: str = "cholesky",
) -> Array:
    """Vectors of the normal distribution with a mean and a covariance; differentiable with respect to both.

    Arguments:
        key: a key.
        mean: a vector, or several along the axes in front.
        cov: a symmetric matrix without negative eigenvalues, or several.
        shape: the shape of the result without its last axis; by default the common one of the axes in front.
        dtype: a floating dtype; by default the common one of the mean and the covariance.
        method: by which factor of the covariance: "cholesky", which takes positive ones only, "eigh" or "svd".

    Returns:
        An array of that shape, with the mean's last axis, and dtype.

    Raises:
        LeafError: no key. ShapeError: several keys, or shapes that do not fit.
        DtypeError: another dtype. ValueError: another method.

    Example:
        >>> pb.random.multivariate_normal(pb.random.key(0), pnp.zeros(2), pnp.array([[2.0, 1.0], [1.0, 2.0]]))
        [2.2947626 3.627814 ]:f32[2]:cpu(0)
    """
    mean, cov = to_common_dtype("multivariate_normal", mean, cov, inexact=True)
    wanted = checked_dtype("multivariate_normal", mean.dtype if dtype is None else dtype)
    size, square = mean.shape[-1:], cov.shape[-2:]
    if len(size) != 1 or square != size * 2:
        raise ShapeError(
            f"multivariate_normal takes vectors and square matrices of one size, but got a mean of {mean.type} and a covariance"
            f" of {cov.type}.{at_user_line()}"
        )
    if method not in ("cholesky", "eigh", "svd"):
        raise ValueError(f"multivariate_normal takes method='cholesky', 'eigh' or 'svd', not {brief(method)}.{at_user_line()}")
    own = broadcast_shapes("multivariate_normal", mean.shape[:-1], cov.shape[:-2])
    sizes = fitting("multivariate_normal", own, shape)
    if method == "cholesky":
        factor = cholesky(cov)
    else:
        vectors, values = eigh(cov) if method == "eigh" else svd(cov)[:2]
        factor = vectors * sqrt(values)[..., None, :]
    return broadcast(mean, sizes + size) + einsum("...ij,...j->...i", factor, drawn(key, "normal", sizes + size, wanted))


@sampler
def orthogonal(key: ArrayLike, n: int, shape: ShapeLike = (), dtype: DTypeLike = None, m: int | None = None) -> Array:
    """Orthogonal matrices (complex: unitary ones), spread evenly over all of them.

    Arguments:
        key: a key.
        n: how many rows.
        shape: the shape of the result without its last two axes.
        dtype: a floating or complex dtype; by default the default floating one.
        m: how many columns; by default n. Then rows or columns, whichever are fewer, are orthonormal.

    Returns:
        An array of the shape (*shape, n, m) and of that dtype.

    Raises:
        LeafError: no key. ShapeError: several keys, or no shape.
        DtypeError: another dtype.

    Example:
        >>> pb.random.orthogonal(pb.random.key(0), 2)
        [[ 0.9661029   0.25815725]
         [-0.25815725  0.9661029 ]]:f32[2,2]:cpu(0)

    Source: Mezzadri, "How to generate random matrices from the classical compact groups" (2007).
    """
    wanted = checked_dtype("orthogonal", dtype, "fc")
    *sizes, rows, columns = checked_shape((*checked_shape(shape, "orthogonal"), n, n if m is None else m), "orthogonal")
    q, r = qr(normal(key, (*sizes, max(rows, columns), min(rows, columns)), wanted), full_matrices=False)
    q = q * sign(diagonal(r, axis1=-2, axis2=-1))[..., None, :]
    return matrix_transpose(q) if rows < columns else q
