"""Products of matrices and of other arrays, all of them sums of products along axes: `dot_general`."""

from __future__ import annotations

import functools
from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief, counted
from pullback.core.dtypes import BOOL, INT32, DTypeLike, requested
from pullback.core.errors import ShapeError
from pullback.core.lazy import lazy_module
from pullback.core.tracing import _quiet_numpy, innermost_staging
from pullback.core.types import Shape, array_type
from pullback.numpy.arithmetic import multiply, subtract
from pullback.numpy.axes import normal_axis, several
from pullback.numpy.complexes import conj
from pullback.numpy.creation import diagonal, zeros_like
from pullback.numpy.eager import by_numpy
from pullback.numpy.promotion import (
    NATIVE_FLOATS,
    NATIVE_INEXACT,
    at_user_line,
    broadcast,
    broadcast_shapes,
    check_precision,
    in_dtype,
    operand,
    pair,
    refuse_out,
    strong,
    to_common_dtype,
)
from pullback.numpy.reductions import any as any_of
from pullback.numpy.reductions import sum as total
from pullback.numpy.shaping import broadcast_arrays, moveaxis, ravel, stack, transpose, unstack
from pullback.ops import shape as shapes
from pullback.ops.contract import dot_general
from pullback.ops.convert import convert_element_type

opt_einsum = lazy_module("opt_einsum")

Numbers = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]


def contract(a: Any, b: Any, numbers: Numbers, preferred: Any = None) -> Any:
    """`dot_general` of operands of one dtype; bools are counted, and the count is compared with 0."""
    dtype = a.type.dtype
    if dtype is BOOL:
        found = dot_general(in_dtype(a, INT32), in_dtype(b, INT32), dimension_numbers=numbers)
        return convert_element_type(found, new_dtype=BOOL)
    if preferred is None:
        return dot_general(a, b, dimension_numbers=numbers)
    return dot_general(a, b, dimension_numbers=numbers, preferred_element_type=requested(preferred))


def _mismatch(name: str, a: Any, b: Any, why: str) -> ShapeError:
    return ShapeError(f"{name} of {a.type} and {b.type}: {why}.{at_user_line()}")


@by_numpy(np.matmul, NATIVE_INEXACT)
def matmul(a: ArrayLike, b: ArrayLike, /, *, precision: Any = None, preferred_element_type: DTypeLike = None) -> Array:
    """The matrix product of the last two axes; leading axes broadcast. A vector is a row on the left, a column on the right.

    Arguments:
        a: an array (..., n, k), or (k,). b: an array (..., k, m), or (k,).
        preferred_element_type: the dtype to accumulate in, and of the result.
        precision: checked, and without effect: products are computed in the full precision of their dtype.

    Returns:
        An array (..., n, m), without n or m where a vector was given.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one.
        ShapeError: an operand is 0-d, the sizes k differ, or the leading axes do not broadcast.
        ValueError: an unknown `precision`.

    Example:
        >>> pnp.matmul(pnp.array([[1.0, 2.0], [3.0, 4.0]]), pnp.array([1.0, 1.0]))
        [3. 7.]:f32[2]:cpu(0)
        >>> pnp.matmul(pnp.ones((5, 2, 3)), pnp.ones((3, 4))).shape
        (5, 2, 4)
        >>> pnp.matmul(pnp.array([100], pnp.int8), pnp.array([2], pnp.int8), preferred_element_type=pnp.int32)
        200:i32[]:cpu(0)
    """
    if precision is None and preferred_element_type is None and (out := _plain_matmul(a, b)) is not None:
        return out
    check_precision(precision, "matmul")
    a, b = to_common_dtype("matmul", a, b)
    x, y = a.type, b.type
    if not x.shape or not y.shape:
        raise _mismatch("matmul", a, b, "a 0-d operand is no matrix; multiply with *")
    k_axis = y.ndim - 2 if y.ndim > 1 else 0
    if x.shape[-1] != y.shape[k_axis]:
        which = "the only one" if y.ndim == 1 else "the last but one"
        raise _mismatch(
            "matmul", a, b, f"the last axis of the first has size {x.shape[-1]}, but {which} of the second {y.shape[k_axis]}"
        )
    if y.ndim <= 2:  # (..., n, k) by one matrix: no batch axes are needed
        return contract(a, b, (((x.ndim - 1,), (k_axis,)), ((), ())), preferred_element_type)
    lead = broadcast_shapes("matmul", x.shape[:-2], y.shape[:-2])
    a, b = [broadcast(one, (*lead, *one.type.shape[-2:])) for one in (a, b)]
    batch = tuple(range(len(lead)))
    return contract(a, b, (((a.type.ndim - 1,), (len(lead),)), (batch, batch)), preferred_element_type)


def _plain_matmul(a: Any, b: Any) -> Array | None:
    """NumPy's own product, of matrices and vectors in its memory; None where that is not what is given."""
    if a.__class__ is Array and b.__class__ is Array and innermost_staging() is None:
        x, y = a.type, b.type
        fits = 1 <= x.ndim <= 2 and 1 <= y.ndim <= 2 and x.shape[-1] == y.shape[0]
        if fits and x.dtype is y.dtype and x.dtype in NATIVE_FLOATS and a._host is not None and b._host is not None:
            out = _quiet_numpy.run(np.matmul, a._host, b._host)
            return Array(array_type(out.shape, x.dtype, x.weak and y.weak), out)
    return None


def _of_many(function: Any) -> Any:
    """NumPy's function of two arrays; none if one has one element, with which its BLAS takes 0 times infinity for 0."""

    def on_host(a: Any, b: Any) -> Any:
        if a.size == 1 or b.size == 1:
            raise ValueError
        return function(a, b)

    return on_host


@by_numpy(_of_many(np.dot), NATIVE_INEXACT)
def dot(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike = None) -> Array:
    """The sum of products over the last axis of a and the last but one of b (a vector's only one); of numbers, the product.

    Arguments:
        a, b: arrays or numbers.
        precision: checked, and without effect: products are computed in the full precision of their dtype.
        preferred_element_type: the dtype to accumulate in, and of the result; by default the common one.

    Returns:
        An array without the two axes that are summed over, those of `a` first.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one.
        ShapeError: the sizes of the summed axes differ.
        ValueError: an unknown `precision`.

    Example:
        >>> pnp.dot(pnp.array([1.0, 2.0]), pnp.array([3.0, 4.0]))
        11.0:f32[]:cpu(0)
        >>> pnp.dot(pnp.ones((2, 3)), pnp.ones((4, 3, 5))).shape
        (2, 4, 5)
    """
    check_precision(precision, "dot")
    a, b = to_common_dtype("dot", a, b)
    if not a.type.shape or not b.type.shape:
        return multiply(a, b)
    k_axis = b.type.ndim - 2 if b.type.ndim > 1 else 0
    if a.type.shape[-1] != b.type.shape[k_axis]:
        raise _mismatch("dot", a, b, f"the sizes {a.type.shape[-1]} and {b.type.shape[k_axis]} of the summed axes differ")
    return contract(a, b, (((a.type.ndim - 1,), (k_axis,)), ((), ())), preferred_element_type)


@by_numpy(np.vdot, NATIVE_INEXACT)
def vdot(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike = None) -> Array:
    """The sum of conj(a) * b over all elements, taken in row-major order.

    Arguments:
        a, b: arrays of as many elements.
        precision: checked, and without effect: products are computed in the full precision of their dtype.
        preferred_element_type: the dtype to accumulate in, and of the result; by default the common one.

    Returns:
        A 0-d array, in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one.
        ShapeError: the numbers of elements differ.
        ValueError: an unknown `precision`.

    Example:
        >>> pnp.vdot(pnp.array([1j, 2]), pnp.array([1j, 2]))
        (5+0j):c64[]:cpu(0)
    """
    check_precision(precision, "vdot")
    a, b = to_common_dtype("vdot", a, b)
    return dot(ravel(conj(a)), ravel(b), preferred_element_type=preferred_element_type)


@by_numpy(_of_many(np.inner), NATIVE_INEXACT)
def inner(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike = None) -> Array:
    """The sum of products over the last axes of a and b.

    Arguments:
        a, b: arrays or numbers.
        precision: checked, and without effect: products are computed in the full precision of their dtype.
        preferred_element_type: the dtype to accumulate in, and of the result; by default the common one.

    Returns:
        An array without the last axes, those of `a` first; in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one.
        ShapeError: the sizes of the last axes differ.
        ValueError: an unknown `precision`.

    Example:
        >>> pnp.inner(pnp.array([[1, 2], [3, 4]]), pnp.array([10, 1]))
        [12 34]:i32[2]:cpu(0)
    """
    check_precision(precision, "inner")
    a, b = to_common_dtype("inner", a, b)
    if not a.type.shape or not b.type.shape:
        return multiply(a, b)
    if a.type.shape[-1] != b.type.shape[-1]:
        raise _mismatch("inner", a, b, "their last axes have different sizes")
    return contract(a, b, (((a.type.ndim - 1,), (b.type.ndim - 1,)), ((), ())), preferred_element_type)


@by_numpy(np.outer)
def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """The matrix of all products a_i * b_j; the operands are flattened.

    Arguments:
        a, b: arrays or numbers, of n and m elements.
        out: None: arrays are immutable.

    Returns:
        A matrix of shape (n, m), in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one.
        TypeError: `out` is not None.

    Example:
        >>> pnp.outer(pnp.array([1, 2]), pnp.array([10, 1, 0]))
        [[10  1  0]
         [20  2  0]]:i32[2,3]:cpu(0)
    """
    refuse_out("outer", out)
    a, b = to_common_dtype("outer", a, b)
    return multiply(shapes.reshape(a, new_sizes=(a.type.size, 1)), shapes.reshape(b, new_sizes=(1, b.type.size)))


def vecdot(
    x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1, precision: Any = None, preferred_element_type: DTypeLike = None
) -> Array:
    """The sum of conj(x1) * x2 along one axis; the others broadcast.

    Arguments:
        x1, x2: arrays whose shapes broadcast.
        axis: the axis to sum over, of each of them.
        precision: checked, and without effect: products are computed in the full precision of their dtype.
        preferred_element_type: the dtype to accumulate in, and of the result; by default the common one.

    Returns:
        An array without that axis, in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not broadcast, or the sizes along the axis differ.
        DtypeError: the dtypes have no common one.
        AxisError: there is no such axis.
        ValueError: an unknown `precision`.

    Example:
        >>> pnp.vecdot(pnp.array([[1, 2], [3, 4]]), pnp.array([10, 1]))
        [12 34]:i32[2]:cpu(0)
    """
    check_precision(precision, "vecdot")
    x1, x2 = given = to_common_dtype("vecdot", x1, x2)
    x1, x2 = [moveaxis(one, axis, -1) if axis != -1 or not one.type.ndim else one for one in given]
    if x1.type.shape[-1] != x2.type.shape[-1]:
        raise _mismatch("vecdot", given[0], given[1], f"they do not have vectors of one size along axis {axis}")
    shape = broadcast_shapes("vecdot", x1.type.shape, x2.type.shape)
    x1, x2 = broadcast(x1, shape), broadcast(x2, shape)
    last = len(shape) - 1
    batch = tuple(range(last))
    return contract(conj(x1), x2, (((last,), (last,)), (batch, batch)), preferred_element_type)


def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The products of matrices and vectors; leading axes broadcast.

    Arguments:
        x1: an array (..., n, k). x2: an array (..., k).

    Returns:
        An array (..., n), in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one.
        ShapeError: the sizes k differ, the leading axes do not broadcast, or there are too few axes.

    Example:
        >>> pnp.matvec(pnp.array([[1, 2], [3, 4]]), pnp.array([[1, 1], [1, 0]]))
        [[3 7]
         [1 3]]:i32[2,2]:cpu(0)
    """
    x1, x2 = _matrix_and_vector("matvec", x1, x2, 0)
    return shapes.squeeze(matmul(x1, x2[..., None]), dimensions=(max(x1.type.ndim, x2.type.ndim + 1) - 1,))


def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The products of conjugated vectors and matrices; leading axes broadcast.

    Arguments:
        x1: an array (..., k). x2: an array (..., k, m).

    Returns:
        An array (..., m), in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one.
        ShapeError: the sizes k differ, the leading axes do not broadcast, or there are too few axes.

    Example:
        >>> pnp.vecmat(pnp.array([1, 1]), pnp.array([[1, 2], [3, 4]]))
        [4 6]:i32[2]:cpu(0)
    """
    x1, x2 = _matrix_and_vector("vecmat", x1, x2, 1)
    return shapes.squeeze(matmul(conj(x1)[..., None, :], x2), dimensions=(max(x1.type.ndim + 1, x2.type.ndim) - 2,))


def _matrix_and_vector(name: str, x1: Any, x2: Any, matrix: int) -> tuple[Array, Array]:
    """Two operands in their common dtype, of which that of number `matrix` has two axes or more, and the other one."""
    x1, x2 = pair = to_common_dtype(name, x1, x2)
    if pair[matrix].type.ndim < 2 or not pair[1 - matrix].type.shape:
        raise _mismatch(name, x1, x2, "one is to be a matrix and the other a vector, or stacks of these")
    return x1, x2


def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: int | Sequence[Any] = 2,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """The sum of products over pairs of axes.

    Arguments:
        a, b: arrays.
        axes: an int n for the last n axes of a with the first n of b; or a pair of axes, or of sequences of axes.
        precision: checked, and without effect: products are computed in the full precision of their dtype.
        preferred_element_type: the dtype to accumulate in, and of the result; by default the common one.

    Returns:
        An array of the axes that are left, those of `a` first; in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one.
        AxisError: the array has no such axis.
        ShapeError: the axes do not have the same sizes.
        ValueError: an unknown `precision`.

    Example:
        >>> pnp.tensordot(pnp.ones((2, 3, 4)), pnp.ones((3, 4, 5))).shape
        (2, 5)
        >>> pnp.tensordot(pnp.array([[1, 2], [3, 4]]), pnp.array([10, 1]), axes=(0, 0))
        [13 24]:i32[2]:cpu(0)
    """
    check_precision(precision, "tensordot")
    a, b = to_common_dtype("tensordot", a, b)
    if isinstance(axes, int):
        if axes > min(a.type.ndim, b.type.ndim):
            raise _mismatch("tensordot", a, b, f"they do not both have {axes} axes")
        left, right = tuple(range(a.type.ndim - axes, a.type.ndim)), tuple(range(axes))
    else:
        first, second = map(several, pair("tensordot", "axes", axes))
        left = tuple(normal_axis(axis, a.type.ndim, "tensordot") for axis in first)
        right = tuple(normal_axis(axis, b.type.ndim, "tensordot") for axis in second)
    if len(left) != len(right) or [a.type.shape[i] for i in left] != [b.type.shape[i] for i in right]:
        raise _mismatch("tensordot", a, b, f"axes {left} and {right} do not have the same sizes")
    return contract(a, b, ((left, right), ((), ())), preferred_element_type)


def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """The Kronecker product: blocks of b, scaled by the elements of a.

    Arguments:
        a, b: arrays or numbers.

    Returns:
        An array in the common dtype, along each axis as large as the product of the sizes.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one.

    Example:
        >>> pnp.kron(pnp.array([[1, 0], [0, 2]]), pnp.array([1, 1]))
        [[1 1 0 0]
         [0 0 2 2]]:i32[2,4]:cpu(0)
    """
    a, b = to_common_dtype("kron", a, b)
    ndim = max(a.type.ndim, b.type.ndim)
    a_shape = (1,) * (ndim - a.type.ndim) + a.type.shape
    b_shape = (1,) * (ndim - b.type.ndim) + b.type.shape
    a = shapes.reshape(a, new_sizes=tuple(size for n in a_shape for size in (n, 1)))
    b = shapes.reshape(b, new_sizes=tuple(size for n in b_shape for size in (1, n)))
    return shapes.reshape(multiply(a, b), new_sizes=tuple(m * n for m, n in zip(a_shape, b_shape)))


def trace(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike = None, out: None = None) -> Array:
    """The sum of a diagonal of the matrices that lie in two axes.

    Arguments:
        a: an array of two axes or more.
        offset: which diagonal; positive ones lie above the main one.
        axis1, axis2: the axes of the rows and of the columns.
        out: None: arrays are immutable.
        dtype: the dtype to sum in; by default that of `a`, or the default integers for narrow ones and bools.

    Returns:
        An array without the two axes.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the array has no such axis, or one is given twice.
        ShapeError: `a` has fewer than two axes.
        TypeError: `out` is not None.

    Example:
        >>> pnp.trace(pnp.array([[1.0, 2.0], [3.0, 4.0]]))
        5.0:f32[]:cpu(0)
        >>> pnp.trace(pnp.array([[1.0, 2.0], [3.0, 4.0]]), offset=1)
        2.0:f32[]:cpu(0)
    """
    refuse_out("trace", out)
    return total(diagonal(a, offset, axis1, axis2), -1, dtype)


def cross(a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Array:
    """The vector product of vectors of 3 elements (2 elements: the third is taken as 0) along an axis of each operand.

    Arguments:
        a, b: arrays of vectors; their other axes broadcast.
        axisa, axisb, axisc: the axes in which the vectors of a, b and the result lie.
        axis: in place of all three.

    Returns:
        An array of vectors of 3 elements; of numbers, where both operands have vectors of 2. In the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one.
        AxisError: the array has no such axis.
        ShapeError: vectors of neither 2 elements nor 3, or other axes that do not broadcast.

    Example:
        >>> pnp.cross(pnp.array([1, 0, 0]), pnp.array([0, 1, 0]))
        [0 0 1]:i32[3]:cpu(0)
        >>> pnp.cross(pnp.array([1, 0]), pnp.array([0, 1]))
        1:i32[]:cpu(0)
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = to_common_dtype("cross", a, b)
    parts = []
    for x, along in ((a, axisa), (b, axisb)):
        if x.type.shape[normal_axis(along, x.type.ndim, "cross")] not in (2, 3):
            raise _mismatch("cross", a, b, "the vectors must have 2 or 3 elements")
        parts.append(unstack(x, axis=along))
    (a0, a1, *a2), (b0, b1, *b2) = parts
    third = subtract(multiply(a0, b1), multiply(a1, b0))
    if not a2 and not b2:
        return strong(third)
    a_last, b_last = a2[0] if a2 else zeros_like(a0), b2[0] if b2 else zeros_like(b0)
    first = subtract(multiply(a1, b_last), multiply(a_last, b1))
    second = subtract(multiply(a_last, b0), multiply(a0, b_last))
    return strong(stack(broadcast_arrays(first, second, third), axisc))


# ---- einsum ---------------------------------------------------------------------------------------------------------


def _einsum_on_host(subscripts: str, x: Any, y: Any) -> Any:
    """What `_pairwise` comes to, of two operands without diagonals, sums of their own, or axes that broadcast."""
    swapped, numbers, order = _step_on_host(subscripts, x.shape, y.shape)
    product: Any = dot_general.evaluate
    return product(*((y, x) if swapped else (x, y)), dimension_numbers=numbers).transpose(order)


@functools.lru_cache(1024)
def _step_on_host(subscripts: str, *shapes: Shape) -> tuple[bool, Numbers, list[int]]:
    """Of such an einsum: whether the operands change places, which axes meet, and how those of the product are reordered."""
    ((places, expression),) = _steps(subscripts, shapes, "auto")
    (left, right), result = expression.partition("->")[0].split(","), expression.partition("->")[2]
    first, second = shapes if places[0] == 0 else shapes[::-1]
    sizes = dict(zip(left, first))
    plain = len(sizes) == len(left) and len({*right}) == len(right) and {*left} ^ {*right} <= {*result}
    if not plain or any([sizes.get(letter, size) != size for letter, size in zip(right, second)]):
        raise ValueError
    numbers, letters = _meeting(left, right, result)
    return places[0] == 1, numbers, [letters.index(letter) for letter in result]


@by_numpy(_einsum_on_host, NATIVE_INEXACT)
def einsum(
    subscripts: str | ArrayLike,
    /,
    *operands: ArrayLike | Sequence[Any],
    optimize: str | bool | Sequence[Any] = "auto",
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """Sums of products of arrays, their axes named by letters: `einsum("ij,jk->ik", a, b)` is the matrix product.

    A letter that the result does not name is summed over; a letter that an operand has twice takes its diagonal; `...`
    stands for leading axes that broadcast. Without `->`, the result has the letters that occur once, in alphabetical order.

    Arguments:
        subscripts: the letters of each operand, separated by commas, and of the result. Or, without letters, each operand
            followed by the list of its axes, then the list of the result's: `einsum(a, [0, 1], b, [1, 2], [0, 2])`.
        operands: as many arrays.
        optimize: how the order of contraction is chosen (by the package opt_einsum): the name of one of its algorithms,
            "auto", "greedy", "optimal", ...; True for "auto"; False for from left to right; or a path, as
            `numpy.einsum_path` gives it.
        precision: checked, and without effect: products are computed in the full precision of their dtype.
        preferred_element_type: the dtype to accumulate in, and of the result; by default the common one.

    Returns:
        An array with an axis for each letter of the result.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one.
        ShapeError: the letters do not fit the operands.
        TypeError: `subscripts` are neither a string nor an array with its axes.
        ValueError: an unknown `optimize` or `precision`.

    Example:
        >>> a = pnp.array([[1.0, 2.0], [3.0, 4.0]])
        >>> pnp.einsum("ij->i", a), pnp.einsum("ii", a)
        ([3. 7.]:f32[2]:cpu(0), 5.0:f32[]:cpu(0))
        >>> pnp.einsum("ij,jk->ik", a, a)
        [[ 7. 10.]
         [15. 22.]]:f32[2,2]:cpu(0)
    """
    check_precision(precision, "einsum")
    if not isinstance(subscripts, str):
        subscripts, operands = _with_letters(subscripts, *operands)
    preferred = None if preferred_element_type is None else requested(preferred_element_type)
    terms = list(to_common_dtype("einsum", *operands)) if operands else []
    for places, expression in _steps(subscripts, tuple([term.type.shape for term in terms]), _path(optimize)):
        inputs, _, result = expression.partition("->")
        chosen = [_with_diagonals(terms.pop(place), letters) for place, letters in zip(places, inputs.split(","))]
        terms.append(_contracted(chosen, result, preferred))
    (out,) = terms
    return out if preferred is None else in_dtype(out, preferred)


def einsum_path(
    subscripts: str | ArrayLike, /, *operands: ArrayLike | Sequence[Any], optimize: str | bool | Sequence[Any] = "auto"
) -> tuple[list[tuple[int, ...]], Any]:
    """The order in which `einsum` contracts operands.

    Arguments:
        subscripts, operands, optimize: as `einsum` takes them.

    Returns:
        The path, a list of the places of the operands that are contracted in each step; and what opt_einsum says of it, which
        prints as a table.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the letters do not fit the operands.
        ValueError: an unknown `optimize`.

    Example:
        >>> path, info = pnp.einsum_path("ij,jk,kl->il", pnp.ones((2, 9)), pnp.ones((9, 9)), pnp.ones((9, 1)))
        >>> path
        [(1, 2), (0, 1)]
    """
    if not isinstance(subscripts, str):
        subscripts, operands = _with_letters(subscripts, *operands)
    terms = [operand(each, "einsum_path").type.shape for each in operands]
    path, info = _contraction(subscripts, terms, _path(optimize))
    return [tuple(places) for places in path], info


def _with_letters(*given: Any) -> tuple[str, tuple[Any, ...]]:
    """Operands that alternate with the lists of their axes: the letters for them, and the operands alone."""
    try:
        found: tuple[str, tuple[Any, ...]] = opt_einsum.parser.convert_interleaved_input(given)
    except (TypeError, ValueError, IndexError):
        raise TypeError(
            "einsum takes its subscripts as a string first, as in einsum('ij,jk->ik', a, b), or each array followed by the list"
            f" of its axes; got {brief(given[0])} first.{at_user_line()}"
        ) from None
    return found


def _path(optimize: Any) -> Any:
    """`optimize` in a form that can be remembered; a path without the word that NumPy puts in front."""
    if not isinstance(optimize, (list, tuple)):
        return optimize
    return tuple([tuple(step) if isinstance(step, list) else step for step in optimize if step != "einsum_path"])


@functools.lru_cache(1024)
def _steps(subscripts: str, operands: tuple[Shape, ...], optimize: Any) -> list[tuple[tuple[int, ...], str]]:
    """The contractions that an einsum is made of: which of the terms that are left (the result joins them at the end), and
    their letters and its."""
    _, info = _contraction(subscripts, operands, optimize)
    return [(places, expression) for places, _, expression, *_ in info.contraction_list]


def _contraction(subscripts: str, operands: Sequence[Shape], optimize: Any) -> Any:
    """The order of contraction that opt_einsum finds for operands of some shapes, and what it says of it."""
    try:
        return opt_einsum.contract_path(subscripts, *operands, shapes=True, optimize=optimize)
    except (ValueError, IndexError) as error:
        shown, reason = ", ".join(map(str, operands)), _disagreement(subscripts, operands) or str(error).rstrip(".")
        raise ShapeError(f"einsum {subscripts!r} of arrays of shapes {shown}: {reason}.{at_user_line()}") from None
    except (TypeError, KeyError):
        raise ValueError(
            f"einsum takes optimize=True, False, 'greedy', 'optimal', 'auto' or a path, not {brief(optimize)}.{at_user_line()}"
        ) from None


def _disagreement(subscripts: str, operands: Sequence[Shape]) -> str:
    """Which letter stands for two sizes, in words; nothing where none does, or the terms have other numbers of axes."""
    met: dict[str, tuple[int, int]] = {}
    for number, (term, shape) in enumerate(zip(subscripts.replace(" ", "").partition("->")[0].split(","), operands)):
        if not term.isalpha():
            return ""
        if len(term) != len(shape):
            return f"{term!r} has {counted(len(term), 'label')}, but operand {number} has {counted(len(shape), 'axis')}"
        for letter, size in zip(term, shape):
            first, known = met.setdefault(letter, (number, size))
            if size != known:
                return (
                    f"label {letter!r} has size {known} in operand {first}, but {size} in operand {number}. One label must"
                    " stand for one size"
                )
    return ""


Term = tuple[Any, str]


def _with_diagonals(value: Any, letters: str) -> Term:
    """Take the diagonal for each letter that occurs twice."""
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            if value.type.shape[first] != value.type.shape[second]:
                raise ShapeError(
                    f"einsum: {letter!r} names axes of different sizes in {value.type}. Use another letter for one of"
                    f" them.{at_user_line()}"
                )
            value = diagonal(value, 0, first, second)
            letters = "".join(c for i, c in enumerate(letters) if i not in (first, second)) + letter
    return value, letters


def _contracted(terms: list[Term], result: str, preferred: Any) -> Any:
    """The product of terms, from left to right, summed over the letters that the result does not have."""
    while len(terms) > 1:
        left, right, *rest = terms
        needed = set(result).union(*[letters for _, letters in rest])
        terms = [_pairwise(left, right, needed, preferred), *rest]
    value, letters = _sum_out(terms[0], set(result))
    return transpose(value, [letters.index(letter) for letter in result])


def _sum_out(term: Term, needed: set[str]) -> Term:
    """Sum over the axes that nobody needs any more."""
    value, letters = term
    gone = tuple(i for i, letter in enumerate(letters) if letter not in needed)
    if not gone:
        return term
    summed = any_of(value, gone) if value.type.dtype is BOOL else total(value, gone, value.type.dtype)
    return summed, "".join(letter for letter in letters if letter in needed)


def _pairwise(left: Term, right: Term, needed: set[str], preferred: Any) -> Term:
    """The product of two terms, summed over the letters that nothing else needs."""
    (x, x_letters), (y, y_letters) = (_without_units(*pair) for pair in ((left, right), (right, left)))
    x, x_letters = _sum_out((x, x_letters), needed | set(y_letters))
    y, y_letters = _sum_out((y, y_letters), needed | set(x_letters))
    x, y = to_common_dtype("einsum", x, y)  # the product of two others may be in `preferred`
    numbers, letters = _meeting(x_letters, y_letters, needed)
    return contract(x, y, numbers, preferred), letters


def _meeting(x_letters: str, y_letters: str, needed: Container[str]) -> tuple[Numbers, str]:
    """The axes over which `contract` sums and those that it pairs, and the letters of its result."""
    shared = [letter for letter in x_letters if letter in y_letters]
    batch = [letter for letter in shared if letter in needed]
    summed = [letter for letter in shared if letter not in needed]

    def places(wanted: list[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return tuple(map(x_letters.index, wanted)), tuple(map(y_letters.index, wanted))

    rest = [letter for letter in x_letters + y_letters if letter not in shared]
    return (places(summed), places(batch)), "".join([*batch, *rest])


def _without_units(term: Term, other: Term) -> Term:
    """Drop axes of size 1 that broadcast against larger ones of the other operand."""
    value, letters = term
    sizes = dict(zip(other[1], other[0].type.shape))
    units = tuple(i for i, letter in enumerate(letters) if value.type.shape[i] == 1 != sizes.get(letter, 1))
    if not units:
        return term
    return shapes.squeeze(value, dimensions=units), "".join(c for i, c in enumerate(letters) if i not in units)
