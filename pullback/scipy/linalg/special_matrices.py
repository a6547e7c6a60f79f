"""Matrices of a pattern, made of vectors or of their size alone."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.dtypes import DTypeLike, default_dtype, kind, requested
from pullback.core.errors import DtypeError, ShapeError
from pullback.numpy.arithmetic import abs as absolute
from pullback.numpy.complexes import conj
from pullback.numpy.creation import array, zeros, zeros_like
from pullback.numpy.promotion import (
    at_user_line,
    broadcast,
    broadcast_shapes,
    operand,
    strong,
    to_common_dtype,
    to_inexact,
)
from pullback.numpy.shaping import concatenate
from pullback.ops.scipy_functions import linalg


def _vectors(x: Any, name: str, least: int = 0) -> Any:
    """Vectors along the last axis; a number is a vector of one element."""
    x = strong(operand(x, name))
    x = x.reshape(-1) if x.type.ndim == 0 else x
    if x.type.shape[-1] < least:
        raise ShapeError(f"{name} takes vectors of at least {least} elements, but got {x.type}.{at_user_line()}")
    return x


def _two(name: str, x: Any, y: Any) -> list[Any]:
    """Vectors of one dtype, and of the same axes in front."""
    both = to_common_dtype(name, _vectors(x, name), _vectors(y, name))
    front = broadcast_shapes(name, *[one.type.shape[:-1] for one in both])
    return [broadcast(one, (*front, one.type.shape[-1])) for one in both]


def _placed(vectors: Any, places: Any) -> Any:
    """Matrices of the elements of vectors: of element 0, 1, 2, ... in places 2, 3, 4, ..., with numbers 0 and 1 in those."""
    numbers = broadcast(array([0, 1], vectors.dtype), (*vectors.type.shape[:-1], 2))
    return concatenate([numbers, vectors], -1)[..., places]


def block_diag(*arrs: ArrayLike) -> Array:
    """Matrices along the diagonal of one matrix.

    Arguments:
        arrs: matrices; a vector is a row, and a number a matrix of one element.

    Returns:
        A matrix in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: an operand has more than two axes.
        DtypeError: the dtypes have no common one.

    Example:
        >>> pb.scipy.linalg.block_diag(pnp.array([[1, 2]]), 3)
        [[1 2 0]
         [0 0 3]]:i32[2,3]:cpu(0)
    """
    if not arrs:
        return zeros((1, 0))
    given = to_common_dtype("block_diag", *arrs)
    if any(x.type.ndim > 2 for x in given):
        raise ShapeError(f"block_diag takes matrices, but got {', '.join([str(x.type) for x in given])}.{at_user_line()}")
    blocks = [x.reshape((1,) * (2 - x.type.ndim) + x.type.shape) for x in given]
    width, before, rows = sum([x.shape[1] for x in blocks]), 0, []
    for block in blocks:
        height, own = block.shape
        rest = width - before - own
        parts = [zeros((height, before), block.dtype), block, zeros((height, rest), block.dtype)]
        rows.append(concatenate(parts, 1))
        before += own
    return concatenate(rows, 0)


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The matrix that is constant along its diagonals.

    Arguments:
        c: an array (..., m): the first column.
        r: an array (..., n): the first row, but for its first element; by default conj(c).

    Returns:
        An array (..., m, n).

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the axes in front do not broadcast.
        DtypeError: the dtypes have no common one.

    Example:
        >>> pb.scipy.linalg.toeplitz(pnp.array([1, 2, 3]), pnp.array([1, 4]))
        [[1 4]
         [2 1]
         [3 2]]:i32[3,2]:cpu(0)
    """
    column, row = _two("toeplitz", c, conj(c) if r is None else r)
    m, n = column.shape[-1], row.shape[-1]
    values = concatenate([column[..., ::-1], row[..., 1:]], -1)
    if not values.shape[-1]:
        return zeros((*column.shape, n), column.dtype)
    return values[..., m - 1 - np.arange(m)[:, None] + np.arange(n)]


def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The matrix that is constant along its antidiagonals.

    Arguments:
        c: an array (..., m): the first column.
        r: an array (..., n): the last row, but for its first element; by default zeros, as many as c has.

    Returns:
        An array (..., m, n).

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the axes in front do not broadcast.
        DtypeError: the dtypes have no common one.

    Example:
        >>> pb.scipy.linalg.hankel(pnp.array([1, 2, 3]))
        [[1 2 3]
         [2 3 0]
         [3 0 0]]:i32[3,3]:cpu(0)
    """
    column, row = _two("hankel", c, zeros_like(operand(c, "hankel")) if r is None else r)
    m, n = column.shape[-1], row.shape[-1]
    if not m or not n:
        return zeros((*column.shape, n), column.dtype)
    return concatenate([column, row[..., 1:]], -1)[..., np.arange(m)[:, None] + np.arange(n)]


def circulant(c: ArrayLike) -> Array:
    """The square matrix each column of which is the one before it, rotated down by one.

    Arguments:
        c: an array (..., n): the first column.

    Returns:
        An array (..., n, n).

    Raises:
        LeafError: c is neither an array nor a number.

    Example:
        >>> pb.scipy.linalg.circulant(pnp.array([1, 2, 3]))
        [[1 3 2]
         [2 1 3]
         [3 2 1]]:i32[3,3]:cpu(0)
    """
    c = strong(operand(c, "circulant"))
    c = c.reshape(-1) if c.ndim == 0 else c
    n = c.shape[-1]
    return c[..., (np.arange(n)[:, None] - np.arange(n)) % max(n, 1)]


def companion(a: ArrayLike) -> Array:
    """The matrix whose characteristic polynomial has these coefficients, the highest power's first.

    Arguments:
        a: an array (..., n) of n >= 2 coefficients.

    Returns:
        An array (..., n - 1, n - 1), of floating or complex numbers.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: there are fewer than two coefficients.

    Example:
        >>> pb.scipy.linalg.companion(pnp.array([1.0, -3.0, 2.0]))
        [[ 3. -2.]
         [ 1.  0.]]:f32[2,2]:cpu(0)
    """
    vectors = to_inexact(_vectors(a, "companion", 2), "companion")
    places = np.eye(vectors.shape[-1] - 1, k=-1, dtype=int)
    places[0] = np.arange(2, vectors.shape[-1] + 1)
    return _placed(-vectors[..., 1:] / vectors[..., :1], places)


def fiedler_companion(a: ArrayLike) -> Array:
    """A matrix of five diagonals whose characteristic polynomial has these coefficients, the highest power's first.

    Arguments:
        a: an array (..., n) of coefficients, the first of which is not 0.

    Returns:
        An array (..., n - 1, n - 1), of floating or complex numbers.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: there are no coefficients.

    Example:
        >>> pb.scipy.linalg.fiedler_companion(pnp.array([1.0, -6.0, 11.0, -6.0]))
        [[  6. -11.   1.]
         [  1.   0.   0.]
         [  0.   6.   0.]]:f32[3,3]:cpu(0)

    Source: Fiedler, "A note on companion matrices" (2003).
    """
    given = _vectors(a, "fiedler_companion")
    n = given.shape[-1] - 1
    if n < 0:
        raise ShapeError(f"fiedler_companion takes nonzero many coefficients, but got {given.type}.{at_user_line()}")
    coefficients = to_inexact(given, "fiedler_companion")
    places, rows = np.zeros((n, n), int), np.arange(n)
    places[rows[:1], rows[:1]] = 2
    places[rows[1:2], rows[:1][: n - 1]] = 1
    places[rows[0 : n - 1 : 2], rows[1::2]] = np.arange(3, n + 2, 2)
    places[rows[2::2], rows[1 : n - 1 : 2]] = np.arange(4, n + 2, 2)
    places[rows[0 : max(n - 2, 0) : 2], rows[2::2]] = 1
    places[rows[3::2], rows[1 : max(n - 2, 0) : 2]] = 1
    return _placed(-coefficients[..., 1:] / coefficients[..., :1], places)


def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """The Leslie matrix of a population: fecundities in its first row, survival rates below the diagonal.

    Arguments:
        f: an array (..., n). s: an array (..., n - 1).

    Returns:
        An array (..., n, n) in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the sizes do not fit.
        DtypeError: the dtypes have no common one.

    Example:
        >>> pb.scipy.linalg.leslie(pnp.array([0.0, 2.0]), pnp.array([0.5]))
        [[0.  2. ]
         [0.5 0. ]]:f32[2,2]:cpu(0)
    """
    first, below = _two("leslie", f, s)
    n = first.shape[-1]
    if n < 2 or below.shape[-1] != n - 1:
        raise ShapeError(
            f"leslie takes at least two fecundities, and one survival rate less, but got {first.type}, {below.type}."
            + at_user_line()
        )
    places = np.diag(np.arange(n + 2, 2 * n + 1), -1)
    places[0] = np.arange(2, n + 2)
    return _placed(concatenate([first, below], -1), places)


def fiedler(a: ArrayLike) -> Array:
    """The matrix of the distances |a_i - a_j|.

    Arguments:
        a: an array (..., n).

    Returns:
        An array (..., n, n).

    Raises:
        LeafError: `a` is neither an array nor a number.

    Example:
        >>> pb.scipy.linalg.fiedler(pnp.array([1, 4]))
        [[0 3]
         [3 0]]:i32[2,2]:cpu(0)
    """
    vectors = _vectors(a, "fiedler")
    return absolute(vectors[..., :, None] - vectors[..., None, :])


def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """The matrix A with A @ v = convolve(a, v, mode) for vectors v of n elements.

    Arguments:
        a: an array (..., m).
        n: an int above 0.
        mode: "full", "same" or "valid".

    Returns:
        An array (..., k, n), with k = m + n - 1, max(m, n), or max(m, n) - min(m, n) + 1.

    Raises:
        LeafError: `a` is neither an array nor a number.
        ShapeError: `a` has no elements.
        ValueError: n is not positive, or an unknown mode.

    Example:
        >>> pb.scipy.linalg.convolution_matrix(pnp.array([1, 2]), 2)
        [[1 0]
         [2 1]
         [0 2]]:i32[3,2]:cpu(0)
    """
    vectors, n = _vectors(a, "convolution_matrix", 1), operator.index(n)
    if n <= 0 or mode not in ("full", "same", "valid"):
        raise ValueError(
            f"convolution_matrix takes n > 0, and mode='full', 'same' or 'valid', not {n}, {brief(mode)}.{at_user_line()}"
        )
    m = vectors.shape[-1]
    rest = zeros((*vectors.shape[:-1], n - 1), vectors.dtype)
    whole = toeplitz(concatenate([vectors, rest], -1), concatenate([vectors[..., :1], rest], -1))
    rows = {"full": m + n - 1, "same": max(m, n), "valid": max(m, n) - min(m, n) + 1}[mode]
    start = (m + n - 1 - rows) // 2
    return whole[..., start : start + rows, :]


def _made(name: str, *args: Any, **kwargs: Any) -> Any:
    """SciPy's matrix of that name as an array of the default dtype of its kind."""
    made = np.asarray(linalg(name)(*args, **kwargs))
    return array(made.astype(default_dtype(kind(made.dtype).replace("u", "i"))))


def _size(n: Any, name: str, least: int = 0) -> int:
    n = operator.index(n)
    if n < least:
        raise ValueError(f"{name} takes n >= {least}, not {n}.{at_user_line()}")
    return n


def hilbert(n: int) -> Array:
    """The matrix of 1 / (i + j + 1).

    Arguments:
        n: an int of at least 0.

    Returns:
        A matrix (n, n) of the default floats.

    Raises:
        TypeError: n is not an int.
        ValueError: n is negative.

    Example:
        >>> pb.scipy.linalg.hilbert(2)
        [[1.         0.5       ]
         [0.5        0.33333334]]:f32[2,2]:cpu(0)
    """
    return _made("hilbert", _size(n, "hilbert"))


def invhilbert(n: int) -> Array:
    """The inverse of `hilbert(n)`.

    Arguments:
        n: an int of at least 0.

    Returns:
        A matrix (n, n) of the default floats.

    Raises:
        TypeError: n is not an int.
        ValueError: n is negative.

    Example:
        >>> pb.scipy.linalg.invhilbert(2)
        [[ 4. -6.]
         [-6. 12.]]:f32[2,2]:cpu(0)
    """
    return _made("invhilbert", _size(n, "invhilbert"))


def hadamard(n: int, dtype: DTypeLike = int) -> Array:
    """The Hadamard matrix of 1 and -1, by Sylvester's construction: its columns are orthogonal.

    Arguments:
        n: a power of 2.
        dtype: the dtype of the result.

    Returns:
        A matrix (n, n).

    Raises:
        TypeError: n is not an int.
        ValueError: n is no power of 2.

    Example:
        >>> pb.scipy.linalg.hadamard(2)
        [[ 1  1]
         [ 1 -1]]:i32[2,2]:cpu(0)
    """
    return _made("hadamard", _size(n, "hadamard", 1)).astype(requested(dtype))


def helmert(n: int, full: bool = False) -> Array:
    """The Helmert matrix, orthogonal to a vector of ones.

    Arguments:
        n: an int of at least 1.
        full: whether the row of equal elements stands in front.

    Returns:
        A matrix (n - 1, n), or (n, n) if `full`, of the default floats.

    Raises:
        TypeError: n is not an int.
        ValueError: n is less than 1.

    Example:
        >>> pb.scipy.linalg.helmert(2)
        [[ 0.70710677 -0.70710677]]:f32[1,2]:cpu(0)
    """
    return _made("helmert", _size(n, "helmert", 1), full=bool(full))


def pascal(n: int, kind: str | None = None) -> Array:
    """The matrix of Pascal's triangle, symmetric or triangular.

    Arguments:
        n: an int of at least 0.
        kind: "symmetric", "upper" or "lower"; None for "symmetric".

    Returns:
        A matrix (n, n) of the default floats.

    Raises:
        TypeError: n is not an int.
        ValueError: n is negative, or an unknown kind.

    Example:
        >>> pb.scipy.linalg.pascal(3)
        [[1. 1. 1.]
         [1. 2. 3.]
         [1. 3. 6.]]:f32[3,3]:cpu(0)
    """
    return _pascal("pascal", n, kind)


def invpascal(n: int, kind: str | None = None) -> Array:
    """The inverse of the matrix of Pascal's triangle, symmetric or triangular.

    Arguments:
        n: an int of at least 0.
        kind: "symmetric", "upper" or "lower"; None for "symmetric".

    Returns:
        A matrix (n, n) of the default floats.

    Raises:
        TypeError: n is not an int.
        ValueError: n is negative, or an unknown kind.

    Example:
        >>> pb.scipy.linalg.invpascal(2)
        [[ 2. -1.]
         [-1.  1.]]:f32[2,2]:cpu(0)
    """
    return _pascal("invpascal", n, kind)


def _pascal(name: str, n: int, kind: str | None) -> Array:
    if kind not in (None, "symmetric", "upper", "lower"):
        raise ValueError(f"{name} takes kind='symmetric', 'upper', 'lower' or None, not {brief(kind)}.{at_user_line()}")
    made = linalg(name)(_size(n, name), kind or "symmetric", exact=False) if n else np.zeros((0, 0))
    return array(np.asarray(made, default_dtype("f")))


def dft(n: int, scale: str | None = None, *, dtype: DTypeLike = None) -> Array:
    """The matrix of the discrete Fourier transform.

    Arguments:
        n: an int of at least 1.
        scale: "sqrtn" to divide by the root of n, "n" by n, None by nothing.
        dtype: the dtype of the result, complex; by default the default complex numbers.

    Returns:
        A matrix (n, n).

    Raises:
        TypeError: n is not an int.
        ValueError: n is less than 1, or an unknown scale.
        DtypeError: a dtype of real numbers.

    Example:
        >>> pb.scipy.linalg.dft(2).real
        [[ 1.  1.]
         [ 1. -1.]]:f32[2,2]:cpu(0)
    """
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f"dft takes scale='sqrtn', 'n' or None, not {brief(scale)}.{at_user_line()}")
    made = _made("dft", _size(n, "dft"), scale)
    if dtype is None:
        return made
    asked = requested(dtype)
    if kind(asked) != "c":
        raise DtypeError(f"dft gives complex numbers: its dtype must be complex64 or complex128, not {asked}.{at_user_line()}")
    return made.astype(asked)
