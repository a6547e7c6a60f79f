"""Factorizations in plain operations, for code that cannot call LAPACK: what its kernels return. The native tier takes them for
small matrices, other platforms than the CPU for all.

Each takes one step a column, in which a whole matrix changes at once; a stack of matrices takes them together. Source: Golub
and Van Loan, "Matrix Computations" (4th edition, 2013), algorithms 3.1.3, 3.4.1, 4.2.1 and 5.2.1; reflections are made as by
LAPACK's `larfg`.
"""

from __future__ import annotations

import numpy as np

from pullback.core.dtypes import INT32
from pullback.ops.formulas import Written, joined
from pullback.stablehlo.writer import TensorType, i64s

UNROLLED = 4  # columns, up to which each step is written by itself
LARGEST = {4: 64, 8: 48}  # columns natively, by the bytes of a real number; with more of them LAPACK is quicker by far


class Stack:
    """How matrices of one shape are taken apart, and vectors made such matrices. The axes in front are a stack's."""

    def __init__(self, write, shape):
        self.write, self.shape, self.last = write, shape, len(shape) - 1
        self.stack = range(len(shape) - 2)
        self.counts = TensorType(shape, INT32)

    def places(self, axis):
        """For each element the number of its row (axis -2) or its column (axis -1)."""
        given = f"{len(self.shape) + axis} : i64"
        return Written(self.write, self.write.op("stablehlo.iota", [], self.counts, iota_dimension=given))

    def line(self, x, place, axis):
        """Row number `place` of each matrix (axis -2), or column (axis -1)."""
        axis += len(self.shape)
        sizes = [1 if i == axis else size for i, size in enumerate(self.shape)]
        part = TensorType(tuple(sizes), x.dtype)
        if isinstance(place, int):
            low = [place if i == axis else 0 for i in range(len(sizes))]
            high = [place + 1 if i == axis else size for i, size in enumerate(self.shape)]
            given = {"start_indices": i64s(low), "limit_indices": i64s(high), "strides": i64s([1] * len(sizes))}
            out = self.write.op("stablehlo.slice", [x.value], part, **given)
        else:
            starts = [place if i == axis else self.write.constant(0, place.type) for i in range(len(sizes))]
            out = self.write.op("stablehlo.dynamic_slice", [x.value, *starts], part, slice_sizes=i64s(sizes))
        kept = tuple([size for i, size in enumerate(self.shape) if i != axis])
        return Written(self.write, self.write.op("stablehlo.reshape", [out], TensorType(kept, x.dtype)))

    def entry(self, line, place):
        """Element number `place` of vectors."""
        row = self.write.op("stablehlo.reshape", [line.value], _with_row(line.value.type))
        out = Stack(self.write, row.shape).line(Written(self.write, row), place, -1).value
        return Written(self.write, self.write.op("stablehlo.reshape", [out], TensorType(row.shape[:-2], row.dtype)))

    def along(self, number, line):
        """A number for each vector of a stack, as vectors of it."""
        return Written(self.write, self.write.broadcast(number.value, line.value.shape, self.stack))

    def spread(self, vector, axis):
        """Vectors as matrices, with their elements along an axis; or numbers, with none."""
        axes = [*self.stack] if axis is None else [*self.stack, len(self.shape) + axis]
        return Written(self.write, self.write.broadcast(vector.value, self.shape, axes))

    def number(self, place):
        """A place as matrices of it."""
        return place if isinstance(place, int) else Written(self.write, self.write.broadcast(place, self.shape))

    def numbers(self, place, like):
        """A place as vectors of it."""
        return place if isinstance(place, int) else Written(self.write, self.write.broadcast(place, like.value.shape))

    def reduced(self, name, x, init, axes):
        return Written(self.write, self.write.reduce(name, x.value, init, [len(self.shape) + axis for axis in axes]))

    def steps(self, count, carry, step):
        """The carry after `step(place, carry)` for each place below `count`."""
        values = [x.value for x in carry]

        def stepped(place, values):
            return [x.value for x in step(place, [Written(self.write, value) for value in values])]

        if count <= UNROLLED:
            for place in range(count):
                values = stepped(place, values)
        else:
            end, one = self.write.constant(np.int32(count)), self.write.constant(np.int32(1))
            _, *values = self.write.while_loop(
                [self.write.constant(np.int32(0)), *values],
                lambda v: self.write.compare("LT", v[0], end),
                lambda v: [self.write.elementwise("stablehlo.add", v[0], one), *stepped(v[0], v[1:])],
            )
        return [Written(self.write, value) for value in values]


def _with_row(type):
    return TensorType((*type.shape[:-1], 1, type.shape[-1]), type.dtype)


def conjugate(x):
    return joined(x.real, -x.imag) if x.dtype.kind == "c" else x


def real(x):
    return x.real if x.dtype.kind == "c" else x


def as_dtype(x, dtype):
    return x if x.dtype == dtype else x.astype(dtype)


def _cholesky(write, x, results, uplo):
    at = Stack(write, x.value.shape)
    rows, columns = at.places(-2), at.places(-1)
    count = x.value.shape[-1]

    def step(j, carry):
        (a,) = carry
        own = at.line(a, j, -1)
        pivot = as_dtype(np.sqrt(real(at.entry(own, j))), x.dtype)
        line = own / at.along(pivot, own)
        own, here = at.spread(line, -2), at.number(j)
        product = own * conjugate(at.spread(line, -1))
        return [np.where(columns == here, own, np.where(columns > here, a - product, a))]

    def real_diagonal(a):
        return np.where(rows == columns, as_dtype(real(a), a.dtype), a) if a.dtype.kind == "c" else a

    (out,) = at.steps(count, [real_diagonal(x)], step)
    fine = at.reduced("stablehlo.and", (rows != columns) | (real(out) > 0), True, (-2, -1))
    return [real_diagonal(out), np.where(fine, *[Written(write, write.constant(n, results[1])) for n in (0, 1)])]


def _triangular(write, a, b, results, side, uplo, trans_x, diag):
    left, lower = side == "L", uplo == "L"
    if trans_x == "C":
        a = conjugate(a)
    if (trans_x != "N") == left:  # with x on the right, x a = b is a^T x^T = b^T
        a, lower = transposed(a), not lower
    b = b if left else transposed(b)
    at, of_a, count = Stack(write, b.value.shape), Stack(write, a.value.shape), a.value.shape[-1]
    rows = at.places(-2)

    def step(turn, carry):
        (x,) = carry
        j = turn
        if not lower:
            last = count - 1
            j = last - turn if isinstance(turn, int) else (last - Written(write, turn)).value
        column, own = of_a.line(a, j, -1), at.line(x, j, -2)
        if diag == "N":
            own = own / at.along(of_a.entry(column, j), own)
        here, solved = at.number(j), at.spread(own, -1)
        left_over = x - at.spread(column, -2) * solved
        return [np.where(rows == here, solved, np.where(rows > here if lower else rows < here, left_over, x))]

    (out,) = at.steps(count, [b], step)
    return [out if left else transposed(out)]


def transposed(x):
    order = [*range(len(x.value.shape) - 2), len(x.value.shape) - 1, len(x.value.shape) - 2]
    shape = tuple([x.value.shape[axis] for axis in order])
    return Written(x.write, x.write.op("stablehlo.transpose", [x.value], TensorType(shape, x.dtype), permutation=i64s(order)))


def lu(write, x, results):
    at, (_, pivots, status) = Stack(write, x.value.shape), results
    rows, columns = at.places(-2), at.places(-1)
    turns = Written(write, write.op("stablehlo.iota", [], pivots, iota_dimension=f"{len(pivots.shape) - 1} : i64"))

    def step(j, carry):
        a, found = carry
        here, column = at.number(j), at.line(a, j, -1)
        size = np.abs(column.real) + np.abs(column.imag) if x.dtype.kind == "c" else np.abs(column)
        below = at.line(rows, 0, -1)
        size = np.where(below >= at.numbers(j, below), size, -1)
        other = _first_largest(write, size)
        chosen = rows == at.spread(other, None)
        up = at.spread(at.reduced("stablehlo.add", np.where(chosen, a, 0), 0, (-2,)), -1)
        down = at.spread(at.line(a, j, -2), -1)
        a = np.where(rows == here, up, np.where(chosen, down, a))
        pivot = at.spread(at.entry(at.line(a, j, -1), j), None)
        own = at.spread(at.line(a, j, -1), -2)
        own = np.where(pivot == 0, own, own / pivot)
        rest = np.where(columns == here, own, np.where(columns > here, a - own * up, a))
        return [np.where(rows > here, rest, a), np.where(turns == at.numbers(j, turns), at.along(other + 1, found), found)]

    start = [x, Written(write, write.constant(0, pivots))]
    return [*at.steps(pivots.shape[-1], start, step), Written(write, write.constant(0, status))]


def _first_largest(write, x):
    """The place of the first largest element of vectors."""
    counts, last = TensorType(x.value.shape, INT32), len(x.value.shape) - 1
    places = Written(write, write.op("stablehlo.iota", [], counts, iota_dimension=f"{last} : i64"))
    most = write.broadcast(write.reduce("stablehlo.maximum", x.value, -np.inf, (last,)), x.value.shape, range(last))
    found = np.where(x == Written(write, most), places, x.value.shape[-1] - 1)
    return Written(write, write.reduce("stablehlo.minimum", found.value, np.iinfo(np.int32).max, (last,)))


def qr(write, x, results):
    at, taus = Stack(write, x.value.shape), results[1]
    rows, columns = at.places(-2), at.places(-1)
    below = at.line(rows, 0, -1)
    turns = Written(write, write.op("stablehlo.iota", [], taus.of(INT32), iota_dimension=f"{len(taus.shape) - 1} : i64"))

    def step(j, carry):
        a, found = carry
        here = at.number(j)
        place, turn = (
            j if isinstance(j, int) else Written(write, write.broadcast(j, one.value.shape)) for one in (below, turns)
        )
        own = at.line(a, j, -1)
        first, rest = at.entry(own, j), np.where(below > place, own, 0)
        length = _length(write, np.where(below >= place, own, 0))
        done = _length(write, rest) == 0
        if x.dtype.kind == "c":
            done = done & (first.imag == 0)
        end = as_dtype(np.where(done, real(first), -np.copysign(length, real(first))), x.dtype)
        tau = np.where(done, 0, (end - first) / np.where(done, 1, end))
        vector = np.where(below == place, 1, rest / at.along(np.where(done, 1, first - end), rest))
        spread = at.spread(vector, -2)
        inner = at.spread(at.reduced("stablehlo.add", conjugate(spread) * a, 0, (-2,)), -1)
        changed = a - at.spread(conjugate(tau), None) * spread * inner
        kept = np.where(rows == here, at.spread(end, None), np.where(rows > here, spread, a))
        a = np.where(columns == here, kept, np.where(columns > here, changed, a))
        return [a, np.where(turns == turn, at.along(tau, found), found)]

    return at.steps(taus.shape[-1], [x, Written(write, write.constant(0, taus))], step)


def _length(write, x):
    """The Euclidean lengths of vectors, scaled so that no square overflows."""
    last = (len(x.value.shape) - 1,)
    size = np.abs(x)
    most = Written(write, write.reduce("stablehlo.maximum", size.value, 0, last))
    most = np.where(most == 0, 1, most)
    scaled = size / Written(write, write.broadcast(most.value, size.value.shape, range(last[0])))
    return most * np.sqrt(Written(write, write.reduce("stablehlo.add", (scaled * scaled).value, 0, last)))


_KERNELS = {"potrf": _cholesky, "trsm": _triangular, "getrf": lu}


def written(write, name, operands, results, flags):
    """The results of LAPACK's kernel `name` on the native tier, of matrices that are small enough."""
    if name not in _KERNELS:
        write.refuse(f"calls LAPACK's {name}")
    largest = LARGEST[operands[0].dtype.itemsize // (2 if operands[0].dtype.kind == "c" else 1)]
    if max(operands[0].shape[-2:]) > largest:
        write.refuse(f"is of matrices of more than {largest} columns")
    given = [Written(write, value) for value in operands]
    return [x.value for x in _KERNELS[name](write, *given, results, **flags)]
