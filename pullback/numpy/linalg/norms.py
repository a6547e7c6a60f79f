"""Norms, condition numbers, ranks; and products under the names that the Array API gives them here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.dtypes import DTypeLike
from pullback.core.errors import ShapeError
from pullback.core.tracing import innermost_staging
from pullback.numpy import creation, products
from pullback.numpy.arithmetic import abs as absolute
from pullback.numpy.axes import Axis, normal_axes, normal_axis, several
from pullback.numpy.complexes import imag, real
from pullback.numpy.elementary import sqrt
from pullback.numpy.linalg.factors import half, svdvals
from pullback.numpy.linalg.matrices import matrices
from pullback.numpy.linalg.solving import relative_cutoff
from pullback.numpy.logic import isnan, where
from pullback.numpy.promotion import at_user_line, operand, to_inexact
from pullback.numpy.reductions import any as any_of
from pullback.numpy.reductions import max as largest
from pullback.numpy.reductions import min as smallest
from pullback.numpy.reductions import sum as total
from pullback.numpy.shaping import expand_dims, moveaxis
from pullback.ops import systems
from pullback.ops.matrices import identity_like


def _root(power: Any, x: Any) -> Any:
    """power(x), and 0 with all derivatives 0 where x is 0: no norm has a direction there."""
    if x.__class__ is Array and innermost_staging() is None:  # nobody asks for its derivative
        return power(x)
    zero = x == 0
    return where(zero, 0, power(where(zero, 1, x)))


def _extreme(order: float, x: Any, axes: Axis, keepdims: bool = False) -> Any:
    """The largest of sizes, which is 0 where there are none; or, of a negative order, the least."""
    if order < 0:
        return smallest(x, axes, keepdims=keepdims)
    return largest(x, axes, keepdims=keepdims, initial=None if x.type.size else 0)


def _vector_norm(x: Any, order: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if order == 2:
        squares = real(x) ** 2 + imag(x) ** 2 if x.type.dtype.kind == "c" else x * x
        return _root(sqrt, total(squares, axes, keepdims=keepdims))
    if isinstance(order, str):
        raise ValueError(f"A norm of vectors takes a number as ord, not {brief(order)}.{at_user_line()}")
    size = absolute(x)
    if order in (math.inf, -math.inf):
        return _extreme(order, size, axes, keepdims)
    if order == 0:
        return total(size != 0, axes, dtype=size.type.dtype, keepdims=keepdims)
    if order == 1:
        return total(size, axes, keepdims=keepdims)
    return _root(lambda s: s ** (1 / order), total(size**order, axes, keepdims=keepdims))


def _matrix_norm(x: Any, order: Any, axes: tuple[int, int], keepdims: bool) -> Any:
    rows, columns = axes
    if order == "fro":
        return _vector_norm(x, 2, axes, keepdims)
    if order in (1, -1, math.inf, -math.inf):
        summed, other = (rows, columns) if order in (1, -1) else (columns, rows)
        sums = total(absolute(x), summed, keepdims=True)
        out = _extreme(order, sums, other, True)
        return out if keepdims else out.squeeze(axes)
    if order not in ("nuc", 2, -2):
        raise ValueError(
            f"A norm of matrices takes ord='fro', 'nuc', 1, -1, 2, -2, inf or -inf, not {brief(order)}.{at_user_line()}"
        )
    values = svdvals(moveaxis(x, axes, (-2, -1)))
    out = total(values, -1) if order == "nuc" else _extreme(order, values, -1)
    return expand_dims(out, tuple(sorted(axes))) if keepdims else out


def norm(x: ArrayLike, ord: int | float | str | None = None, axis: Axis = None, keepdims: bool = False) -> Array:
    """A norm of vectors or of matrices. Where it is 0, its derivative is taken to be 0.

    Arguments:
        x: an array.
        ord: of vectors a number p, for (sum |x|^p)^(1/p), with the limits for inf and -inf, and the count of nonzero elements
            for 0; of matrices "fro" (the root of the sum of squares), "nuc" (the sum of singular values), 2 and -2 (the largest
            and the least of them), 1 and -1 (the largest and the least sum of a column), inf and -inf (of a row). None for the
            root of the sum of squares.
        axis: the axis of vectors, or the two axes of matrices; None for all, of an array of one or two axes.
        keepdims: whether these axes stay, with size 1.

    Returns:
        An array without these axes, real.

    Raises:
        LeafError: x is neither an array nor a number.
        AxisError: there is no such axis.
        ShapeError: no axis is given, but a norm, and x has neither one axis nor two; or more than two are given.
        ValueError: an unknown norm.

    Example:
        >>> pnp.linalg.norm(pnp.array([3.0, 4.0]))
        5.0:f32[]:cpu(0)
        >>> pnp.linalg.norm(pnp.array([[1.0, 2.0], [3.0, 4.0]]), 1)
        6.0:f32[]:cpu(0)
    """
    x, keepdims = to_inexact(x, "norm"), bool(keepdims)
    axes = normal_axes(axis, x.type, "norm")
    if axis is None and ord is None:
        return _vector_norm(x, 2, axes, keepdims)
    if len(axes) == 1:
        return _vector_norm(x, 2 if ord is None else ord, axes, keepdims)
    if len(axes) != 2:
        raise ShapeError(f"norm takes one axis or two, but got axis={axis} for {x.type}.{at_user_line()}")
    rows, columns = axes if axis is None else [normal_axis(one, x.type.ndim, "norm") for one in several(axis)]
    return _matrix_norm(x, "fro" if ord is None else ord, (rows, columns), keepdims)


def vector_norm(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, ord: int | float = 2) -> Array:
    """A norm of vectors, (sum |x|^p)^(1/p). Where it is 0, its derivative is taken to be 0.

    Arguments:
        x: an array.
        axis: the axes along which the vectors lie; None for all.
        keepdims: whether these axes stay, with size 1.
        ord: p; inf and -inf for the largest and the least size, 0 for the count of nonzero elements.

    Returns:
        An array without these axes, real.

    Raises:
        LeafError: x is neither an array nor a number.
        AxisError: there is no such axis.
        ValueError: `ord` is no number.

    Example:
        >>> pnp.linalg.vector_norm(pnp.array([[3.0, 4.0], [6.0, 8.0]]), axis=1)
        [ 5. 10.]:f32[2]:cpu(0)
    """
    x = to_inexact(x, "vector_norm")
    return _vector_norm(x, ord, normal_axes(axis, x.type, "vector_norm"), bool(keepdims))


def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: int | float | str = "fro") -> Array:
    """A norm of the matrices in the last two axes.

    Arguments:
        x: an array (..., m, n).
        keepdims: whether the last two axes stay, with size 1.
        ord: "fro", "nuc", 1, -1, 2, -2, inf or -inf, as `norm` has them.

    Returns:
        An array (...), real.

    Raises:
        LeafError: x is neither an array nor a number.
        ShapeError: x has fewer than two axes.
        ValueError: an unknown norm.

    Example:
        >>> pnp.linalg.matrix_norm(pnp.array([[3.0, 0.0], [0.0, 4.0]]), ord="nuc")
        7.0:f32[]:cpu(0)
    """
    a = _two_axes(to_inexact(x, "matrix_norm"), "matrix_norm")
    return _matrix_norm(a, ord, (a.type.ndim - 2, a.type.ndim - 1), bool(keepdims))


def _two_axes(x: Any, name: str) -> Any:
    if x.type.ndim < 2:
        raise ShapeError(f"{name} takes a matrix, or a stack of them, but got {x.type}.{at_user_line()}")
    return x


def cond(x: ArrayLike, p: int | float | str | None = None) -> Array:
    """The condition number of matrices: norm(x) norm(inv(x)); infinite for singular ones.

    Arguments:
        x: an array (..., m, n); square, unless p is None, 2 or -2.
        p: the norm, as `norm` takes it; None for 2.

    Returns:
        An array (...), real.

    Raises:
        LeafError: x is neither an array nor a number.
        ShapeError: x has fewer than two axes, or the matrices are not square.
        DtypeError: a dtype that LAPACK does not know.
        ValueError: an unknown norm.

    Example:
        >>> pnp.linalg.cond(pnp.array([[2.0, 0.0], [0.0, 0.5]]))
        4.0:f32[]:cpu(0)
    """
    a = _two_axes(matrices(x, "cond"), "cond")
    if p in (None, 2, -2):
        values = svdvals(a)
        ratio = values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    else:
        ratio = matrix_norm(a, ord=p) * matrix_norm(systems.solve(a, identity_like(a)), ord=p)
    lost = isnan(ratio) & ~any_of(isnan(a), (-2, -1))
    return where(lost, math.inf, ratio)


def matrix_rank(M: ArrayLike, rtol: ArrayLike | None = None, *, hermitian: bool = False, tol: ArrayLike | None = None) -> Array:
    """How many singular values are not too small to count.

    Arguments:
        M: an array (..., m, n); of fewer axes it is 1 if there is an element that is not 0.
        rtol: the part of the largest singular value up to which others count as 0: a number, or an array (...); by default
            max(m, n) eps.
        hermitian: whether M is replaced by (M + M^H) / 2 first.
        tol: the size up to which they count as 0, in place of `rtol`.

    Returns:
        An array (...) of the default integers.

    Raises:
        LeafError: M is neither an array nor a number.
        DtypeError: a dtype that LAPACK does not know.
        ValueError: both `rtol` and `tol` are given.

    Example:
        >>> pnp.linalg.matrix_rank(pnp.array([[1.0, 2.0], [2.0, 4.0]]))
        1:i32[]:cpu(0)
    """
    a = matrices(M, "matrix_rank")
    if rtol is not None and tol is not None:
        raise ValueError(f"matrix_rank takes one of rtol and tol.{at_user_line()}")
    if a.type.ndim < 2:
        return any_of(a != 0).astype(int)
    a = half(a, "matrix_rank", True) if hermitian else a
    values = svdvals(a)
    if tol is not None:
        limit = operand(tol, "matrix_rank")[..., None]
    else:
        limit = relative_cutoff(a, rtol, None, 1, "matrix_rank")[..., None] * largest(values, -1, keepdims=True, initial=0)
    return total(values > limit, -1)


def multi_dot(arrays: Sequence[ArrayLike], *, precision: Any = None) -> Array:
    """The product of several matrices, in the order that takes the fewest operations.

    Arguments:
        arrays: matrices; the first may be a vector, a row, and the last one too, a column.
        precision: checked, and without effect: products are computed in the full precision of their dtype.

    Returns:
        A matrix; without the axes that vectors lack.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the sizes do not fit, or another operand is no matrix.
        ValueError: fewer than two arrays.

    Example:
        >>> pnp.linalg.multi_dot([pnp.ones((2, 9)), pnp.ones((9, 9)), pnp.ones(9)])
        [81. 81.]:f32[2]:cpu(0)
    """
    given: list[Any] = [operand(x, "multi_dot") for x in arrays]
    if len(given) < 2:
        raise ValueError(f"multi_dot takes at least two arrays, but got {len(given)}.{at_user_line()}")
    ndims = [x.type.ndim for x in given]
    if any(ndim != 2 for ndim in ndims[1:-1]) or not all(1 <= ndim <= 2 for ndim in ndims):
        raise ShapeError(
            f"multi_dot takes matrices, and vectors as first and last, but got {[str(x.type) for x in given]}.{at_user_line()}"
        )
    numbers = [[i, i + 1] for i in range(len(given))]
    numbers[0], numbers[-1] = numbers[0][-ndims[0] :], numbers[-1][: ndims[-1]]
    result = [*numbers[0][:-1], *numbers[-1][1:]]
    operands: list[Any] = [each for pair in zip(given, numbers) for each in pair]
    return products.einsum(*operands, result, precision=precision)


# ---- under the Array API's signatures ---------------------------------------------------------------------------------------


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The matrix of all products of the elements of two vectors.

    Arguments:
        x1, x2: vectors (n,) and (m,).

    Returns:
        A matrix (n, m).

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: an operand is no vector.
        DtypeError: the dtypes have no common one.

    Example:
        >>> pnp.linalg.outer(pnp.array([1, 2]), pnp.array([10, 1]))
        [[10  1]
         [20  2]]:i32[2,2]:cpu(0)
    """
    x1, x2 = operand(x1, "outer"), operand(x2, "outer")
    if x1.type.ndim != 1 or x2.type.ndim != 1:
        raise ShapeError(f"linalg.outer takes vectors, but got {x1.type} and {x2.type}.{at_user_line()}")
    return products.outer(x1, x2)


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """The vector product of vectors of 3 elements along an axis.

    Arguments:
        x1, x2: arrays, with 3 elements along the axis; the other axes broadcast.
        axis: the axis.

    Returns:
        An array of vectors.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the vectors have not 3 elements, or the other axes do not broadcast.
        AxisError: there is no such axis.
        DtypeError: the dtypes have no common one.

    Example:
        >>> pnp.linalg.cross(pnp.array([1, 0, 0]), pnp.array([0, 1, 0]))
        [0 0 1]:i32[3]:cpu(0)
    """
    x1, x2 = operand(x1, "cross"), operand(x2, "cross")
    for x in (x1, x2):
        if x.type.ndim and x.type.shape[normal_axes(axis, x.type, "cross")[0]] != 3:
            raise ShapeError(f"linalg.cross takes vectors of 3 elements, but got {x.type}, axis={axis}.{at_user_line()}")
    return products.cross(x1, x2, axis=axis)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The diagonals of the matrices in the last two axes.

    Arguments:
        x: an array (..., m, n).
        offset: which diagonal; positive ones lie above the main one.

    Returns:
        An array (..., k).

    Raises:
        LeafError: x is neither an array nor a number.
        AxisError: x has fewer than two axes.

    Example:
        >>> pnp.linalg.diagonal(pnp.array([[1, 2], [3, 4]]), offset=1)
        [2]:i32[1]:cpu(0)
    """
    return creation.diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike = None) -> Array:
    """The sums of the diagonals of the matrices in the last two axes.

    Arguments:
        x: an array (..., m, n).
        offset: which diagonal; positive ones lie above the main one.
        dtype: the dtype to sum in; by default that of x, or the default integers for narrow ones and bools.

    Returns:
        An array (...).

    Raises:
        LeafError: x is neither an array nor a number.
        AxisError: x has fewer than two axes.

    Example:
        >>> pnp.linalg.trace(pnp.array([[1, 2], [3, 4]]))
        5:i32[]:cpu(0)
    """
    return products.trace(x, offset, -2, -1, dtype)
