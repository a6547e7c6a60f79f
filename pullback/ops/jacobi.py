"""Eigenvalues of Hermitian matrices and singular values in plain operations, for devices that have no LAPACK: what its kernels
`syevd` and `gesdd` return.

Rotations of pairs of columns make all columns of a matrix B orthogonal: B V = U diag(s). In a round each column is in one pair,
so that all pairs turn at once; rounds go as in a tournament, where each of 2h columns has met each other one after 2h - 1.
Sources: Hestenes, "Inversion of matrices by biorthogonalization and related results" (1958); Brent and Luk, "The solution of
singular-value and symmetric eigenvalue problems on multiprocessor arrays" (1985).
"""

from __future__ import annotations

import numpy as np

from pullback.ops.formulas import Written
from pullback.ops.plain_matrices import Stack, as_dtype, conjugate, qr, real, transposed
from pullback.stablehlo.writer import TensorType, i64s

SWEEPS = 30  # at most; it takes some 6 to 10


def eigh(write, x, results, mode, uplo):
    """As `syevd`: the eigenvectors, the eigenvalues in rising order, and a status. The columns that become orthogonal are those
    of x + c, which has no negative eigenvalue."""
    at = Stack(write, x.value.shape)
    rows, columns = at.places(-2), at.places(-1)
    other = conjugate(transposed(x))
    x = np.where(rows >= columns, x, other) if uplo == "L" else np.where(rows <= columns, x, other)
    given, x = x, np.where(rows == columns, as_dtype(real(x), x.dtype), x)
    most, x = _scaled(at, x)
    shift = _over(write, "maximum", at.reduced("stablehlo.add", np.abs(x), 0, (-1,)))
    _, basis = _orthogonal(write, np.where(rows == columns, x + as_dtype(at.spread(shift, None), x.dtype), x))
    values = at.reduced("stablehlo.add", real(conjugate(basis) * _product(write, x, basis)), 0, (-2,))
    values, basis = _sorted(write, values, [basis], falling=False)
    return [basis, values * at.along(most, values), _status(write, given, results[2])]


def svd(write, x, results, mode):
    """As `gesdd`: x, which says nothing, the singular values in falling order, U, V^H, and a status."""
    rows, columns = x.value.shape[-2:]
    if rows < columns:  # x^H = V diag(s) U^H
        values, right, left = _decomposed(write, conjugate(transposed(x)), results[3].shape[-2])
    else:
        values, left, right = _decomposed(write, x, results[2].shape[-1])
    return [x, values, left, conjugate(transposed(right)), _status(write, x, results[4])]


def _decomposed(write, x, count):
    """The singular values of matrices that have no more columns than rows, so many columns of U, and V."""
    at = Stack(write, x.value.shape)
    most, x = _scaled(at, x)
    made, basis = _orthogonal(write, x)
    values, made, basis = _sorted(write, np.sqrt(_squares(at, made)), [made, basis], falling=True)
    return values * at.along(most, values), _completed(write, made, count), basis


def _scaled(at, x):
    """The largest sizes of elements, and matrices that are divided by them, so that no square overflows."""
    most = at.reduced("stablehlo.maximum", np.abs(x), 0, (-2, -1))
    most = np.where(most == 0, 1, most)
    return most, x / as_dtype(at.spread(most, None), x.dtype)


def _orthogonal(write, x):
    """B V, whose columns are orthogonal, and V, for matrices B that have no more columns than rows."""
    *stack, rows, columns = x.value.shape
    half = (columns + 1) // 2
    tolerance = 2 * np.sqrt(rows) * np.finfo(x.dtype).eps
    unit = _identity(write, (*stack, columns, columns), x.dtype)
    halves = _joined([x, unit], -2)  # what turns the columns of one turns those of the other
    padding = Written(write, write.constant(0, TensorType((*stack, rows + columns, 2 * half - columns), x.dtype)))
    pair = [_part(halves, -1, 0, half), _joined([_part(halves, -1, half, columns), padding], -1)]
    at, top = Stack(write, (*stack, rows + columns, half)), Stack(write, (*stack, rows, half))

    def meet(_, carry):
        moved, left, right = carry
        a, b = _part(left, -2, 0, rows), _part(right, -2, 0, rows)
        p, q, inner = _squares(top, a), _squares(top, b), top.reduced("stablehlo.add", conjugate(a) * b, 0, (-2,))
        size = np.abs(inner)
        turns = size > tolerance * np.sqrt(p) * np.sqrt(q)
        size = np.where(turns, size, 1)
        phase = np.where(turns, inner, 1) / as_dtype(size, x.dtype)
        ratio = (q - p) / (2 * size)
        tangent = np.where(ratio < 0, -1, np.ones_like(ratio)) / (np.abs(ratio) + np.sqrt(1 + ratio * ratio))
        cosine = np.where(turns, 1 / np.sqrt(1 + tangent * tangent), 1)
        sine = as_dtype(np.where(turns, cosine * tangent, 0), x.dtype)
        cosine = at.spread(as_dtype(cosine, x.dtype), -1)
        up, down = at.spread(conjugate(phase) * sine, -1), at.spread(phase * sine, -1)
        left, right = cosine * left - up * right, down * left + cosine * right
        moved = moved | Written(write, write.reduce("stablehlo.or", turns.value, False, range(len(turns.value.shape))))
        return [moved, *_next_round(left, right, half)]

    def sweep(values):
        start = [Written(write, value) for value in (write.constant(False), *values[2:])]
        moved, *pair = at.steps(2 * half - 1, start, meet)
        return [
            write.elementwise("stablehlo.add", values[0], write.constant(np.int32(1))),
            moved.value,
            *[x.value for x in pair],
        ]

    def goes_on(values):
        some = write.compare("LT", values[0], write.constant(np.int32(SWEEPS)))
        return write.elementwise("stablehlo.and", some, values[1])

    start = [write.constant(np.int32(0)), write.constant(True), *[x.value for x in pair]]
    _, _, *pair = write.while_loop(start, goes_on, sweep)
    out = _part(_joined([Written(write, value) for value in pair], -1), -1, 0, columns)
    return _part(out, -2, 0, rows), _part(out, -2, rows, rows + columns)


def _next_round(left, right, half):
    """The columns as they meet next: all but the first of them go on by one place around the table."""
    if half == 1:
        return left, right
    first, others, last = (_part(left, -1, *ends) for ends in ((0, 1), (1, half - 1), (half - 1, half)))
    new, rest = _part(right, -1, 0, 1), _part(right, -1, 1, half)
    return _joined([first, new, others], -1), _joined([rest, last], -1)


def _sorted(write, values, matrices, falling):
    """Numbers in order, and the columns of matrices with them."""
    count = values.value.shape[-1]
    at = Stack(write, (*values.value.shape, count))
    one, other = at.spread(values, -2), at.spread(values, -1)  # the number of a row, and of a column
    before = one > other if falling else one < other
    first = before | (one == other) & (at.places(-2) < at.places(-1))
    places = at.reduced("stablehlo.add", np.where(first, 1, at.places(-1) * 0), 0, (-2,))  # how many come before each
    goes = at.spread(places, -2) == at.places(-1)
    out = at.reduced("stablehlo.add", np.where(goes, one, 0), 0, (-2,))
    return [out, *[_product(write, x, as_dtype(goes, x.dtype)) for x in matrices]]


def _completed(write, x, count):
    """Orthonormal columns, so many, the first of which have the directions of the orthogonal columns of x, if these are not
    zero."""
    *stack, rows, columns = x.value.shape
    made, taus = qr(write, x, [None, TensorType((*stack, columns), x.dtype)])
    at, of_made = Stack(write, (*stack, rows, count)), Stack(write, (*stack, rows, columns))
    below = of_made.line(of_made.places(-2), 0, -1)

    def reflect(turn, carry):
        (out,) = carry
        j = columns - 1 - turn if isinstance(turn, int) else (columns - 1 - Written(write, turn)).value
        place = at.numbers(j, below)
        own = of_made.line(made, j, -1)
        vector = at.spread(np.where(below == place, 1, np.where(below > place, own, 0)), -2)
        inner = at.spread(at.reduced("stablehlo.add", conjugate(vector) * out, 0, (-2,)), -1)
        return [out - at.spread(at.entry(taus, j), None) * vector * inner]

    (out,) = at.steps(columns, [_identity(write, (*stack, rows, count), x.dtype)], reflect)
    diagonal = np.where(of_made.places(-2) == of_made.places(-1), made, 0)
    signs = of_made.reduced("stablehlo.add", real(diagonal), 0, (-2,))
    signs = as_dtype(np.where(signs < 0, -1, np.ones_like(signs)), x.dtype)
    spread = Stack(write, (*stack, rows, columns)).spread(signs, -1)
    rest = _part(out, -1, columns, count)
    return _joined([_part(out, -1, 0, columns) * spread, rest], -1)


def _next(write, number):
    return write.elementwise("stablehlo.add", number, write.constant(np.int32(1)))


def _status(write, x, type):
    """1 for each matrix that has an element which is not finite, else 0."""
    at = Stack(write, x.value.shape)
    fine = at.reduced("stablehlo.and", np.abs(x) < np.inf, True, (-2, -1))
    return np.where(fine, *[Written(write, write.constant(number, type)) for number in (0, 1)])


def _squares(at, x):
    """The squares of the lengths of the columns."""
    size = np.abs(x)
    return at.reduced("stablehlo.add", size * size, 0, (-2,))


def _over(write, name, x):
    """The numbers that are left of vectors."""
    return Written(write, write.reduce(f"stablehlo.{name}", x.value, 0, (len(x.value.shape) - 1,)))


def _identity(write, shape, dtype):
    at = Stack(write, shape)
    return as_dtype(at.places(-2) == at.places(-1), dtype)


def _part(x, axis, low, high):
    """Rows (axis -2), or columns (axis -1), from `low` up to `high`."""
    shape = list(x.value.shape)
    starts, ends = [0] * len(shape), list(shape)
    starts[axis], ends[axis], shape[axis] = low, high, high - low
    given = {"start_indices": i64s(starts), "limit_indices": i64s(ends), "strides": i64s([1] * len(shape))}
    return Written(x.write, x.write.op("stablehlo.slice", [x.value], TensorType(tuple(shape), x.dtype), **given))


def _joined(parts, axis):
    shape = list(parts[0].value.shape)
    shape[axis] = sum([part.value.shape[axis] for part in parts])
    values, dimension = [part.value for part in parts], f"{len(shape) + axis} : i64"
    out = parts[0].write.op("stablehlo.concatenate", values, TensorType(tuple(shape), parts[0].dtype), dimension=dimension)
    return Written(parts[0].write, out)


def _product(write, x, y):
    """The matrix product, to the full precision of its dtype."""
    batch = list(range(len(x.value.shape) - 2))
    first = len(batch)
    numbers = (
        f"#stablehlo.dot<lhs_batching_dimensions = {batch}, rhs_batching_dimensions = {batch},"
        f" lhs_contracting_dimensions = [{first + 1}], rhs_contracting_dimensions = [{first}]>"
    )
    exact = "#stablehlo<precision HIGHEST>"
    type = TensorType((*x.value.shape[:-1], y.value.shape[-1]), x.dtype)
    given = {"dot_dimension_numbers": numbers, "precision_config": f"[{exact}, {exact}]"}
    return Written(write, write.op("stablehlo.dot_general", [x.value, y.value], type, **given))
