"""Functions of square matrices. In compiled code it is SciPy that computes them; they have derivatives of every order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.source import at_user_line
from pullback.numpy.creation import triu
from pullback.numpy.linalg.matrices import matrices
from pullback.numpy.promotion import strong, to_common_dtype
from pullback.ops.matrix_functions import matrix_function
from pullback.scipy.linalg.factors import as_complex, unused


def expm(A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """The exponential of square matrices, sum_k A^k / k!.

    Arguments:
        A: an array (..., n, n).
        upper_triangular: whether the upper triangle is read only.
        max_squarings: without effect: as many are done as are needed.

    Returns:
        An array of the shape of A.

    Raises:
        LeafError: A is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: a dtype that LAPACK does not know.

    Example:
        >>> pnp.round(pb.scipy.linalg.expm(pnp.array([[0.0, 1.0], [0.0, 0.0]])), 4)
        [[1. 1.]
         [0. 1.]]:f32[2,2]:cpu(0)

    Source: Al-Mohy and Higham, "A new scaling and squaring algorithm for the matrix exponential" (2009).
    """
    unused(max_squarings)
    x = matrices(A, "expm")
    return matrix_function(triu(x) if upper_triangular else x, function="expm")


def expm_frechet(A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True) -> Any:
    """The derivative of `expm` at A along E.

    Arguments:
        A, E: arrays (..., n, n).
        method: None, "SPS" or "blockEnlarge", which all do the same here.
        compute_expm: whether to return expm(A) too.

    Returns:
        expm(A) and the derivative, or the derivative alone.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the matrices are not square, or of different sizes.
        DtypeError: a dtype that LAPACK does not know, or no common one.
        ValueError: an unknown method.

    Example:
        >>> pb.scipy.linalg.expm_frechet(pnp.zeros((2, 2)), pnp.eye(2), compute_expm=False)
        [[1. 0.]
         [0. 1.]]:f32[2,2]:cpu(0)
    """
    if method not in (None, "SPS", "blockEnlarge"):
        raise ValueError(f"expm_frechet takes method=None, 'SPS' or 'blockEnlarge', not {brief(method)}.{at_user_line()}")
    x, direction = map(strong, to_common_dtype("expm_frechet", A, E, inexact=True))
    change = matrix_function(x, direction, function="expm")
    return (matrix_function(x, function="expm"), change) if compute_expm else change


def logm(A: ArrayLike, disp: bool = True) -> Array:
    """The principal logarithm of square matrices without eigenvalues on the closed negative real axis: expm of it is A.

    Arguments:
        A: an array (..., n, n).
        disp: without effect.

    Returns:
        An array of the shape of A, complex, since that of a real matrix may be.

    Raises:
        LeafError: A is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: a dtype that LAPACK does not know.

    Example:
        >>> pnp.round(pb.scipy.linalg.logm(pnp.array([[1.0, 1.0], [0.0, 1.0]])).real, 4)
        [[0. 1.]
         [0. 0.]]:f32[2,2]:cpu(0)

    Source: Al-Mohy and Higham, "Improved inverse scaling and squaring algorithms for the matrix logarithm" (2012).
    """
    unused(disp)
    return matrix_function(as_complex(matrices(A, "logm")), function="logm")


def sqrtm(A: ArrayLike, blocksize: int = 1) -> Array:
    """The principal square root of square matrices.

    Arguments:
        A: an array (..., n, n).
        blocksize: without effect.

    Returns:
        An array of the shape of A, complex, since that of a real matrix may be.

    Raises:
        LeafError: A is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: a dtype that LAPACK does not know.

    Example:
        >>> pnp.round(pb.scipy.linalg.sqrtm(pnp.array([[4.0, 4.0], [0.0, 4.0]])).real, 4)
        [[2. 1.]
         [0. 2.]]:f32[2,2]:cpu(0)

    Source: Björck and Hammarling, "A Schur method for the square root of a matrix" (1983).
    """
    unused(blocksize)
    return matrix_function(as_complex(matrices(A, "sqrtm")), function="sqrtm")


def funm(A: ArrayLike, func: Callable[[Array], Array], disp: bool = True) -> Array:
    """A function of square matrices, given the function of numbers, by Parlett's recurrence. It has no derivative.

    Arguments:
        A: an array (..., n, n), whose eigenvalues differ.
        func: takes an array of complex numbers to one of the same shape.
        disp: True: there is no estimate of the error.

    Returns:
        An array of the shape of A, complex.

    Raises:
        LeafError: A is neither an array nor a number.
        ShapeError: the matrices are not square.
        DtypeError: a dtype that LAPACK does not know.
        ValueError: an estimate is asked for.
        TypeError: `func` is not a function.

    Example:
        >>> pnp.round(pb.scipy.linalg.funm(pnp.array([[1.0, 1.0], [0.0, 2.0]]), lambda x: x * x).real, 4)
        [[1. 3.]
         [0. 4.]]:f32[2,2]:cpu(0)
    """
    if not disp:
        raise ValueError(f"funm takes disp=True: it does not estimate its error.{at_user_line()}")
    if not callable(func):
        raise TypeError(f"funm takes a function of numbers, but got {brief(func)}.{at_user_line()}")
    return matrix_function(as_complex(matrices(A, "funm")), function=func)
