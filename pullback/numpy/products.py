"""Products of matrices and of other arrays, all of them sums of products along axes: `dot_general`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array
from pullback.core.dtypes import BOOL, canonical, requested
from pullback.core.errors import ShapeError
from pullback.core.tracing import _quiet_numpy, innermost_staging
from pullback.core.types import array_type
from pullback.numpy.arithmetic import multiply, subtract
from pullback.numpy.axes import normal_axis
from pullback.numpy.complexes import conj
from pullback.numpy.creation import diagonal
from pullback.numpy.promotion import (
    NATIVE_FLOATS,
    at_user_line,
    broadcast,
    broadcast_shapes,
    check_precision,
    in_dtype,
    to_common_dtype,
)
from pullback.numpy.reductions import any as any_of
from pullback.numpy.reductions import sum as total
from pullback.ops import bitwise
from pullback.ops import shape as shapes
from pullback.ops.contract import dot_general
from pullback.ops.convert import convert_element_type

Numbers = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]


def contract(name: str, a: Any, b: Any, numbers: Numbers, preferred: Any = None) -> Any:
    """`dot_general` of operands of one dtype; bools are counted, and the count is compared with 0."""
    dtype = a.type.dtype
    if dtype is BOOL:
        found = dot_general(in_dtype(a, canonical("int32")), in_dtype(b, canonical("int32")), dimension_numbers=numbers)
        return convert_element_type(found, new_dtype=BOOL)
    if preferred is None:
        return dot_general(a, b, dimension_numbers=numbers)
    return dot_general(a, b, dimension_numbers=numbers, preferred_element_type=requested(preferred))


def _mismatch(name: str, a: Any, b: Any, why: str) -> ShapeError:
    return ShapeError(f"{name} of {a.type} and {b.type}: {why}.{at_user_line()}")


def matmul(a: Any, b: Any, /, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """The matrix product of the last two axes; leading axes broadcast. A vector is a row on the left, a column on the right.

    Arguments:
        a: an array (..., n, k), or (k,). b: an array (..., k, m), or (k,).
        preferred_element_type: the dtype to accumulate in, and of the result.

    Returns:
        An array (..., n, m), without n or m where a vector was given.

    Raises:
        ShapeError: an operand is 0-d, the sizes k differ, or the leading axes do not broadcast.

    Example:
        >>> import pullback as pb
        >>> pb.numpy.matmul(pb.numpy.asarray([[1.0, 2.0], [3.0, 4.0]]), pb.numpy.asarray([1.0, 1.0]))
        [3. 7.]:f32[2]:cpu(0)
    """
    if a.__class__ is Array and b.__class__ is Array and preferred_element_type is None and innermost_staging() is None:
        x, y = a.type, b.type
        plain = (
            precision is None
            and x.dtype is y.dtype
            and x.dtype in NATIVE_FLOATS
            and a._host is not None
            and b._host is not None
        )
        if plain and 1 <= x.ndim <= 2 and 1 <= y.ndim <= 2 and x.shape[-1] == y.shape[0]:
            out = _quiet_numpy.run(np.matmul, a._host, b._host)  # type: ignore[arg-type]
            return Array(array_type(out.shape, x.dtype, x.weak and y.weak), out)
    check_precision(precision, "matmul")
    a, b = to_common_dtype("matmul", a, b)
    x, y = a.type, b.type
    if not x.shape or not y.shape:
        raise _mismatch("matmul", a, b, "a 0-d operand is no matrix; multiply with *")
    k_axis = y.ndim - 2 if y.ndim > 1 else 0
    if x.shape[-1] != y.shape[k_axis]:
        raise _mismatch(
            "matmul", a, b, f"the last axis of the first has size {x.shape[-1]}, but that of the second {y.shape[k_axis]}"
        )
    if x.ndim <= 2 and y.ndim <= 2:
        return contract("matmul", a, b, (((x.ndim - 1,), (k_axis,)), ((), ())), preferred_element_type)
    if y.ndim <= 2:  # (..., n, k) by one matrix: no batch axes are needed
        return contract("matmul", a, b, (((x.ndim - 1,), (k_axis,)), ((), ())), preferred_element_type)
    a_lead, b_lead = x.shape[:-2], y.shape[:-2]
    lead = broadcast_shapes("matmul", a_lead, b_lead)
    if x.ndim > 1:
        a = broadcast(a, (*lead, *x.shape[-2:]))
    else:
        a = broadcast(a, (*lead, x.shape[0]))
    b = broadcast(b, (*lead, *y.shape[-2:]))
    batch = tuple(range(len(lead)))
    return contract("matmul", a, b, (((a.type.ndim - 1,), (len(lead),)), (batch, batch)), preferred_element_type)


def dot(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """The sum of products over the last axis of a and the last but one of b (a vector's only one); of numbers, the product.

    Example:
        >>> import pullback as pb
        >>> pb.numpy.dot(pb.numpy.asarray([1.0, 2.0]), pb.numpy.asarray([3.0, 4.0]))
        11.0:f32[]:cpu(0)
    """
    check_precision(precision, "dot")
    a, b = to_common_dtype("dot", a, b)
    if not a.type.shape or not b.type.shape:
        return multiply(a, b)
    k_axis = b.type.ndim - 2 if b.type.ndim > 1 else 0
    if a.type.shape[-1] != b.type.shape[k_axis]:
        raise _mismatch("dot", a, b, f"the sizes {a.type.shape[-1]} and {b.type.shape[k_axis]} of the summed axes differ")
    return contract("dot", a, b, (((a.type.ndim - 1,), (k_axis,)), ((), ())), preferred_element_type)


def vdot(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """The sum of conj(a) * b over all elements, taken in row-major order."""
    check_precision(precision, "vdot")
    a, b = to_common_dtype("vdot", a, b)
    flat = [shapes.reshape(x, new_sizes=(x.type.size,)) for x in (conj(a), b)]
    return dot(*flat, preferred_element_type=preferred_element_type)


def inner(a: Any, b: Any) -> Any:
    """The sum of products over the last axes of a and b."""
    a, b = to_common_dtype("inner", a, b)
    if not a.type.shape or not b.type.shape:
        return multiply(a, b)
    if a.type.shape[-1] != b.type.shape[-1]:
        raise _mismatch("inner", a, b, "their last axes have different sizes")
    return contract("inner", a, b, (((a.type.ndim - 1,), (b.type.ndim - 1,)), ((), ())))


def outer(a: Any, b: Any) -> Any:
    """The matrix of all products a_i * b_j; the operands are flattened."""
    a, b = to_common_dtype("outer", a, b)
    column = shapes.reshape(a, new_sizes=(a.type.size, 1))
    row = shapes.reshape(b, new_sizes=(1, b.type.size))
    return (
        bitwise.and_(*[broadcast(x, (a.type.size, b.type.size)) for x in (column, row)])
        if a.type.dtype is BOOL
        else multiply(column, row)
    )


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The sum of conj(x1) * x2 along one axis; the others broadcast."""
    x1, x2 = to_common_dtype("vecdot", x1, x2)
    shape = broadcast_shapes("vecdot", x1.type.shape, x2.type.shape)
    x1, x2 = broadcast(x1, shape), broadcast(x2, shape)
    along = normal_axis(axis, len(shape), "vecdot")
    batch = tuple(i for i in range(len(shape)) if i != along)
    return contract("vecdot", conj(x1), x2, (((along,), (along,)), (batch, batch)))


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """The sum of products over pairs of axes.

    Arguments:
        axes: an int n for the last n axes of a with the first n of b; or a pair of axes, or of sequences of axes.
    """
    a, b = to_common_dtype("tensordot", a, b)
    if isinstance(axes, int):
        if axes > min(a.type.ndim, b.type.ndim):
            raise _mismatch("tensordot", a, b, f"they do not both have {axes} axes")
        left, right = tuple(range(a.type.ndim - axes, a.type.ndim)), tuple(range(axes))
    else:
        first, second = [(one,) if isinstance(one, int) else tuple(one) for one in axes]
        left = tuple(normal_axis(axis, a.type.ndim, "tensordot") for axis in first)
        right = tuple(normal_axis(axis, b.type.ndim, "tensordot") for axis in second)
    if len(left) != len(right) or [a.type.shape[i] for i in left] != [b.type.shape[i] for i in right]:
        raise _mismatch("tensordot", a, b, f"axes {left} and {right} do not have the same sizes")
    return contract("tensordot", a, b, ((left, right), ((), ())))


def kron(a: Any, b: Any) -> Any:
    """The Kronecker product: blocks of b, scaled by the elements of a."""
    a, b = to_common_dtype("kron", a, b)
    ndim = max(a.type.ndim, b.type.ndim)
    a_shape = (1,) * (ndim - a.type.ndim) + a.type.shape
    b_shape = (1,) * (ndim - b.type.ndim) + b.type.shape
    a = shapes.reshape(a, new_sizes=tuple(size for n in a_shape for size in (n, 1)))
    b = shapes.reshape(b, new_sizes=tuple(size for n in b_shape for size in (1, n)))
    return shapes.reshape(multiply(a, b), new_sizes=tuple(m * n for m, n in zip(a_shape, b_shape)))


def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    """The sum of a diagonal of the matrices that lie in two axes.

    Example:
        >>> import pullback as pb
        >>> pb.numpy.trace(pb.numpy.asarray([[1.0, 2.0], [3.0, 4.0]]))
        5.0:f32[]:cpu(0)
    """
    return total(diagonal(a, offset, axis1, axis2), -1, dtype)


def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """The vector product of vectors of 3 elements (2 elements: the third is taken as 0) along an axis of each operand."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = to_common_dtype("cross", a, b)
    parts = []
    for x, along in ((a, axisa), (b, axisb)):
        where = normal_axis(along, x.type.ndim, "cross")
        if x.type.shape[where] not in (2, 3):
            raise _mismatch("cross", a, b, "the vectors must have 2 or 3 elements")
        pieces = [_piece(x, where, i) for i in range(x.type.shape[where])]
        parts.append(pieces)
    (a0, a1, *a2), (b0, b1, *b2) = parts
    third = subtract(multiply(a0, b1), multiply(a1, b0))
    if not a2 and not b2:
        return third
    first = multiply(a1, b2[0]) if b2 else None
    second = multiply(a0, b2[0]) if b2 else None
    if a2:
        first = subtract(0 if first is None else first, multiply(a2[0], b1))
        second = subtract(multiply(a2[0], b0), 0 if second is None else second)
    else:
        second = subtract(0, second)
    rows = [broadcast(x, third.type.shape) for x in (first, second, third)]
    joined = shapes.concatenate(*[shapes.reshape(x, new_sizes=(*x.type.shape, 1)) for x in rows], dimension=third.type.ndim)
    target = normal_axis(axisc, joined.type.ndim, "cross")
    order = [*range(target), joined.type.ndim - 1, *range(target, joined.type.ndim - 1)]
    return shapes.transpose(joined, permutation=tuple(order)) if order != list(range(joined.type.ndim)) else joined


def _piece(x: Any, axis: int, index: int) -> Any:
    starts = tuple(index if i == axis else 0 for i in range(x.type.ndim))
    stops = tuple(index + 1 if i == axis else size for i, size in enumerate(x.type.shape))
    return shapes.squeeze(shapes.slice(x, start_indices=starts, limit_indices=stops, strides=None), dimensions=(axis,))


# ---- einsum ---------------------------------------------------------------------------------------------------------


def einsum(
    subscripts: str, /, *operands: Any, optimize: Any = "greedy", precision: Any = None, preferred_element_type: Any = None
) -> Any:
    """Sums of products of arrays, their axes named by letters: `einsum("ij,jk->ik", a, b)` is the matrix product.

    A letter that the result does not name is summed over; a letter that an operand has twice takes its diagonal; `...`
    stands for leading axes that broadcast. Without `->`, the result has the letters that occur once, in alphabetical order.
    Operands are contracted two at a time, each time the pair whose result is smallest.

    Arguments:
        subscripts: the letters of each operand, separated by commas, and of the result.
        operands: as many arrays.
        optimize: accepted for NumPy's sake; the order of contraction is chosen in the same way for all its values.
        precision: accepted for JAX's sake; products are computed in full.

    Raises:
        ShapeError: the letters do not fit the operands.

    Example:
        >>> import pullback as pb
        >>> a = pb.numpy.asarray([[1.0, 2.0], [3.0, 4.0]])
        >>> pb.numpy.einsum("ij->i", a)
        [3. 7.]:f32[2]:cpu(0)
    """
    if not isinstance(subscripts, str):
        raise TypeError(f"einsum takes its subscripts as a string first, as in einsum('ij,jk->ik', a, b); got {subscripts!r}.")
    check_precision(precision, "einsum")
    if not isinstance(optimize, bool) and optimize not in ("greedy", "optimal", "auto"):
        raise ValueError(f"einsum takes optimize=True, False, 'greedy', 'optimal' or 'auto', not {optimize!r}.{at_user_line()}")
    preferred = None if preferred_element_type is None else requested(preferred_element_type)
    values = list(to_common_dtype("einsum", *operands))
    names, result = _parse(subscripts, values)
    terms = [_with_diagonals(value, letters, subscripts) for value, letters in zip(values, names)]
    sizes: dict[str, int] = {}
    for value, letters in terms:
        for letter, size in zip(letters, value.type.shape):
            if sizes.setdefault(letter, size) != size and 1 not in (size, sizes[letter]):
                raise ShapeError(f"einsum {subscripts!r}: {letter!r} has sizes {sizes[letter]} and {size}.{at_user_line()}")
            sizes[letter] = max(sizes[letter], size) if size != 0 and sizes[letter] != 0 else 0
    while len(terms) > 1:
        i, j = _cheapest(terms, result, sizes) if len(terms) > 2 else (0, 1)
        left, right = terms[i], terms[j]
        rest = [term for k, term in enumerate(terms) if k not in (i, j)]
        needed = set(result).union(*[set(letters) for _, letters in rest])
        terms = [*rest, _pairwise(left, right, needed, sizes, preferred)]
    value, letters = _sum_out(terms[0], set(result), sizes)
    value = value if preferred is None else in_dtype(value, preferred)
    order = tuple(letters.index(letter) for letter in result)
    return value if order == tuple(range(len(order))) else shapes.transpose(value, permutation=order)


Term = tuple[Any, str]


def _parse(subscripts: str, values: Sequence[Any]) -> tuple[list[str], str]:
    """The letters of each operand and of the result, with private letters in place of `...`."""
    text = subscripts.replace(" ", "")
    inputs, arrow, result = text.partition("->")
    names = inputs.split(",")
    if len(names) != len(values):
        raise ShapeError(f"einsum {subscripts!r} names {len(names)} operands, but got {len(values)}.{at_user_line()}")
    free = iter(chr(code) for code in range(0x3B1, 0x3B1 + 64))
    longest = max(
        [value.type.ndim - len(name.replace("...", "")) for name, value in zip(names, values) if "..." in name], default=0
    )
    dots = "".join(next(free) for _ in range(longest))
    out = []
    for name, value in zip(names, values):
        extra = value.type.ndim - len(name.replace("...", ""))
        if extra < 0 or (extra and "..." not in name):
            raise ShapeError(f"einsum {subscripts!r}: {name!r} does not fit an operand of type {value.type}.{at_user_line()}")
        out.append(name.replace("...", dots[len(dots) - extra :]))
    letters = "".join(out)
    if not arrow:
        plain = sorted({letter for letter in letters if letters.count(letter) == 1 and letter not in dots})
        result = dots + "".join(plain)
    else:
        result = result.replace("...", dots)
    unknown = [letter for letter in result if letter not in letters]
    if unknown or len(set(result)) != len(result) or not all(c.isalpha() for c in letters + result):
        raise ShapeError(f"einsum {subscripts!r}: the result must name letters of the operands, each once.{at_user_line()}")
    return out, result


def _with_diagonals(value: Any, letters: str, subscripts: str) -> Term:
    """Take the diagonal for each letter that occurs twice."""
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            if value.type.shape[first] != value.type.shape[second]:
                raise ShapeError(
                    f"einsum {subscripts!r}: {letter!r} names axes of different sizes in {value.type}.{at_user_line()}"
                )
            value = diagonal(value, 0, first, second)
            letters = "".join(c for i, c in enumerate(letters) if i not in (first, second)) + letter
    return value, letters


def _sum_out(term: Term, needed: set[str], sizes: dict[str, int]) -> Term:
    """Sum over the axes that nobody needs any more."""
    value, letters = term
    gone = tuple(i for i, letter in enumerate(letters) if letter not in needed)
    if not gone:
        return term
    summed = any_of(value, gone) if value.type.dtype is BOOL else total(value, gone, value.type.dtype)
    return summed, "".join(letter for letter in letters if letter in needed)


def _cheapest(terms: Sequence[Term], result: str, sizes: dict[str, int]) -> tuple[int, int]:
    """The pair of terms whose product is smallest, measured against the operands that it replaces; then the cheapest one."""

    def cost(i: int, j: int) -> tuple[int, int]:
        others = set(result).union(*[set(letters) for k, (_, letters) in enumerate(terms) if k not in (i, j)])
        letters = set(terms[i][1]) | set(terms[j][1])
        growth = math.prod(sizes[x] for x in letters & others) - sum(math.prod(sizes[x] for x in terms[k][1]) for k in (i, j))
        return growth, math.prod(sizes[x] for x in letters)

    pairs = [(i, j) for i in range(len(terms)) for j in range(i + 1, len(terms))]
    return min(pairs, key=lambda pair: cost(*pair))


def _pairwise(left: Term, right: Term, needed: set[str], sizes: dict[str, int], preferred: Any) -> Term:
    """The product of two terms, summed over the letters that nothing else needs."""
    (x, x_letters), (y, y_letters) = (_without_units(term, other[1], sizes) for term, other in ((left, right), (right, left)))
    x, x_letters = _sum_out((x, x_letters), needed | set(y_letters), sizes)
    y, y_letters = _sum_out((y, y_letters), needed | set(x_letters), sizes)
    shared = [letter for letter in x_letters if letter in y_letters]
    batch = [letter for letter in shared if letter in needed]
    summed = [letter for letter in shared if letter not in needed]

    def places(letters: str, wanted: list[str]) -> tuple[int, ...]:
        return tuple(letters.index(letter) for letter in wanted)

    numbers = (
        (places(x_letters, summed), places(y_letters, summed)),
        (places(x_letters, batch), places(y_letters, batch)),
    )
    rest = [letter for letters in (x_letters, y_letters) for letter in letters if letter not in shared]
    return contract("einsum", x, y, numbers, preferred), "".join([*batch, *rest])


def _without_units(term: Term, other: str, sizes: dict[str, int]) -> Term:
    """Drop axes of size 1 that broadcast against larger ones of the other operand."""
    value, letters = term
    units = tuple(i for i, letter in enumerate(letters) if value.type.shape[i] == 1 and sizes[letter] != 1 and letter in other)
    if not units:
        return term
    return shapes.squeeze(value, dimensions=units), "".join(c for i, c in enumerate(letters) if i not in units)
