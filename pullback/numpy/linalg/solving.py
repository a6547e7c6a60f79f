"""Linear systems, inverses and determinants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.errors import ShapeError
from pullback.numpy.axes import whole
from pullback.numpy.complexes import real
from pullback.numpy.creation import zeros
from pullback.numpy.eager import by_numpy
from pullback.numpy.linalg.factors import half, svdvals
from pullback.numpy.linalg.matrices import eagerly, matrices, system
from pullback.numpy.products import matmul
from pullback.numpy.promotion import NATIVE_INEXACT, at_user_line, broadcast, in_dtype, operand, real_dtype, strong
from pullback.numpy.reductions import sum as total
from pullback.numpy.shaping import moveaxis, reshape
from pullback.ops import systems
from pullback.ops.factorizations import check_square
from pullback.ops.matrices import identity_like
from pullback.ops.stop_gradient import stop_gradient


class SlogdetResult(NamedTuple):
    """What `slogdet` returns.

    Attributes:
        sign: the sign of the determinant, of length 1 where it is complex, or 0. logabsdet: the logarithm of its size.

    Example:
        >>> pnp.linalg.slogdet(-2.0 * pnp.eye(3)).sign
        -1.0:f32[]:cpu(0)
    """

    sign: Array
    logabsdet: Array


@by_numpy(np.linalg.solve, NATIVE_INEXACT)
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """The x with a x = b.

    Arguments:
        a: an array (..., n, n).
        b: a vector (n,), or an array (..., n, k). The axes in front broadcast.

    Returns:
        An array of the shape of b, its axes in front broadcast with those of `a`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the matrices are not square, or the shapes do not fit.
        DtypeError: a dtype that LAPACK does not know, or no common one.
        LinAlgError: a known matrix is singular.

    Example:
        >>> pnp.linalg.solve(pnp.array([[2.0, 0.0], [1.0, 4.0]]), pnp.array([2.0, 9.0]))
        [1. 2.]:f32[2]:cpu(0)
    """
    a, b = operand(a, "solve"), operand(b, "solve")
    if b.type.ndim == 1 and a.type.ndim > 1:
        if a.type.shape[-2:] != b.type.shape * 2:
            raise ShapeError(f"solve takes square matrices, and as long a vector, but got {a.type}, {b.type}.{at_user_line()}")
        return reshape(solve(a, reshape(b, (-1, 1))), a.type.shape[:-1])
    if a.type.ndim < 2 or not a.type.shape[-1] == a.type.shape[-2] == b.type.shape[-2]:
        raise ShapeError(f"solve takes square matrices, and as many rows, but got {a.type} and {b.type}.{at_user_line()}")
    a, b = system("solve", a, b)
    out = eagerly("solve", np.linalg.solve, a, b)
    return systems.solve(a, b) if out is None else out


@by_numpy(np.linalg.inv, NATIVE_INEXACT)
def inv(a: ArrayLike) -> Array:
    """The inverses of square matrices.

    Arguments:
        a: an array (..., n, n).

    Returns:
        An array of the shape of `a`.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: a dtype that LAPACK does not know.
        LinAlgError: a known matrix is singular.

    Example:
        >>> pnp.linalg.inv(pnp.array([[2.0, 0.0], [0.0, 4.0]]))
        [[0.5  0.  ]
         [0.   0.25]]:f32[2,2]:cpu(0)
    """
    x = matrices(a, "inv")
    check_square(x, "inv")
    out = eagerly("inv", np.linalg.inv, x)
    return systems.solve(x, identity_like(x)) if out is None else out


def relative_cutoff(x: Any, rtol: Any, rcond: Any, factor: float, name: str) -> Any:
    """The size, relative to the largest, up to which singular values count as 0, for each matrix of a stack."""
    if rtol is not None and rcond is not None:
        raise ValueError(f"{name} takes one of rtol and rcond, which mean the same.{at_user_line()}")
    given = rcond if rtol is None else rtol
    dtype = real_dtype(x.type.dtype)
    if given is None:
        given = factor * max(x.type.shape[-2:], default=0) * float(np.finfo(dtype).eps)
    return broadcast(stop_gradient(in_dtype(operand(given, name), dtype)), x.type.shape[:-2])


def pinv(a: ArrayLike, rtol: ArrayLike | None = None, hermitian: bool = False, *, rcond: ArrayLike | None = None) -> Array:
    """The Moore-Penrose inverse, by singular values. Its derivative is that among matrices of the same rank.

    Arguments:
        a: an array (..., m, n).
        rtol, rcond: singular values up to this part of the largest count as 0: a number, or an array (...). By default
            10 max(m, n) eps.
        hermitian: whether `a` is replaced by (a + a^H) / 2 first.

    Returns:
        An array (..., n, m).

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: `a` has fewer than two axes.
        DtypeError: a dtype that LAPACK does not know.
        ValueError: both `rtol` and `rcond` are given.

    Example:
        >>> pnp.linalg.pinv(pnp.array([[2.0, 0.0], [0.0, 0.0]]))
        [[0.5 0. ]
         [0.  0. ]]:f32[2,2]:cpu(0)
    """
    x = half(a, "pinv", True) if hermitian else matrices(a, "pinv")
    return systems.pinv(x, relative_cutoff(x, rtol, rcond, 10, "pinv"))


def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Array, Array, Array, Array]:
    """The x for which |a x - b| is least, and of those the shortest.

    Arguments:
        a: a matrix (m, n).
        b: a vector (m,), or a matrix (m, k).
        rcond: singular values up to this part of the largest count as 0; by default max(m, n) eps, and so for a negative one.
        numpy_resid: whether there are no residuals where NumPy gives none: m <= n, or a rank below n, which must be known.

    Returns:
        x (n,) or (n, k); the sums of squares of the residuals (k,); the rank, of the default integers; and the singular values
        of `a`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: `a` is no matrix, or b has another number of rows.
        DtypeError: a dtype that LAPACK does not know, or no common one.
        ConcretizationError: `numpy_resid`, and `a` is traced.

    Example: a line through three points.
        >>> a = pnp.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
        >>> x, residuals, rank, values = pnp.linalg.lstsq(a, pnp.array([1.0, 3.0, 5.0]))
        >>> pnp.round(x, 4), rank
        ([1. 2.]:f32[2]:cpu(0), 2:i32[]:cpu(0))
    """
    a, b = operand(a, "lstsq"), operand(b, "lstsq")
    if a.type.ndim != 2 or b.type.ndim not in (1, 2) or a.type.shape[0] != b.type.shape[0]:
        raise ShapeError(
            f"lstsq takes a matrix, and a vector or matrix of as many rows, but got {a.type}, {b.type}.{at_user_line()}"
        )
    vector = b.type.ndim == 1
    matrix, right = system("lstsq", a, reshape(b, (-1, 1)) if vector else b)
    cutoff = relative_cutoff(matrix, None, None if rcond is not None and rcond < 0 else rcond, 1, "lstsq")
    x = matmul(systems.pinv(matrix, cutoff), right)
    values = svdvals(matrix)
    rank = total(values > cutoff * values[:1])
    rows, columns = matrix.type.shape
    if numpy_resid and (rows <= columns or int(rank) < columns):
        residuals = zeros((0,), values.type.dtype)
    else:
        off = right - matmul(matrix, x)
        residuals = total(real(off * off.conj()), 0)
    return (x[:, 0] if vector else x), residuals, rank, values


def det(a: ArrayLike) -> Array:
    """The determinants of square matrices. Their derivatives, the cofactors, are exact for singular matrices too.

    Arguments:
        a: an array (..., n, n).

    Returns:
        An array (...).

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: a dtype that LAPACK does not know.

    Example:
        >>> pnp.linalg.det(pnp.array([[1.0, 2.0], [3.0, 4.0]]))
        -2.0:f32[]:cpu(0)
        >>> pb.grad(pnp.linalg.det)(pnp.array([[1.0, 2.0], [2.0, 4.0]]))
        [[ 4. -2.]
         [-2.  1.]]:f32[2,2]:cpu(0)
    """
    return systems.det(matrices(a, "det"))


def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """The sign of the determinant, and the logarithm of its size.

    Arguments:
        a: an array (..., n, n).
        method: without effect: None, "lu" or "qr".

    Returns:
        A `SlogdetResult`. Of a singular matrix it is 0 and -inf, with NaN as derivatives.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: a dtype that LAPACK does not know.
        ValueError: an unknown method.

    Example:
        >>> pnp.linalg.slogdet(pnp.array([[1.0, 2.0], [3.0, 4.0]]))
        SlogdetResult(sign=-1.0:f32[]:cpu(0), logabsdet=0.6931472:f32[]:cpu(0))
    """
    if method not in (None, "lu", "qr"):
        raise ValueError(f"slogdet takes method=None, 'lu' or 'qr', not {brief(method)}.{at_user_line()}")
    return SlogdetResult(*systems.slogdet(matrices(a, "slogdet")))


def matrix_power(a: ArrayLike, n: int) -> Array:
    """a multiplied by itself n times; for a negative n, the inverse.

    Arguments:
        a: an array (..., m, m).
        n: an int.

    Returns:
        An array of the shape of `a`.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: the matrices are not square.
        TypeError: n is not an int.
        LinAlgError: n is negative, and a known matrix singular.

    Example:
        >>> pnp.linalg.matrix_power(pnp.array([[1, 1], [1, 0]]), 5)
        [[8 5]
         [5 3]]:i32[2,2]:cpu(0)
    """
    n = whole(n, "matrix_power's n")
    x = strong(operand(a, "matrix_power"))
    check_square(x, "matrix_power")
    if n == 0:
        return identity_like(x)
    x, n = inv(x) if n < 0 else x, abs(n)
    out: Any = None
    while n:
        if n & 1:
            out = x if out is None else matmul(out, x)
        n >>= 1
        x = matmul(x, x) if n else x
    return out


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """The inverse of a linear map between tensors: tensordot(tensorinv(a), a, ind) is the identity.

    Arguments:
        a: an array, whose first `ind` axes have as many elements as the others.
        ind: an int above 0.

    Returns:
        An array with the two groups of axes exchanged.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ValueError: `ind` is not positive.
        ShapeError: the two groups have other numbers of elements.
        LinAlgError: a known map is singular.

    Example:
        >>> pnp.linalg.tensorinv(pnp.eye(6).reshape(6, 2, 3), ind=1).shape
        (2, 3, 6)
    """
    ind = whole(ind, "tensorinv's ind")
    if ind <= 0:
        raise ValueError(f"tensorinv takes ind > 0, not {ind}.{at_user_line()}")
    x = operand(a, "tensorinv")
    first, last = x.type.shape[:ind], x.type.shape[ind:]
    return reshape(inv(reshape(x, (math.prod(first), math.prod(last)))), (*last, *first))


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """The x with tensordot(a, x, x.ndim) = b.

    Arguments:
        a: an array of shape (*b.shape, *x.shape).
        b: an array of as many elements as x.
        axes: axes of `a` to be moved to its end first.

    Returns:
        x.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not fit.
        LinAlgError: a known map is singular.

    Example:
        >>> pnp.linalg.tensorsolve(2.0 * pnp.eye(6).reshape(2, 3, 6), pnp.ones((2, 3)))
        [0.5 0.5 0.5 0.5 0.5 0.5]:f32[6]:cpu(0)
    """
    a, b = operand(a, "tensorsolve"), operand(b, "tensorsolve")
    if axes is not None:
        a = moveaxis(a, tuple(axes), tuple(range(-len(tuple(axes)), 0)))
    shape = a.type.shape[b.type.ndim :]
    return reshape(solve(reshape(a, (b.type.size, math.prod(shape))), reshape(b, (-1,))), shape)
