"""Sums, products, extremes along axes; and contractions, which are sums of products that are never stored.

Vectors lie along the result, or along what is reduced: both are written, and the lighter is kept. Results are taken in tiles,
so that what several of them read is read once. The order of a sum depends on the shape alone (`flow.fold`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.native import elementwise, flow
from pullback.native.arrays import (
    Array,
    Formula,
    Memory,
    Places,
    Registers,
    Split,
    at,
    at_first,
    block_lanes,
    block_place,
    filled,
    fits,
    in_registers,
    indices,
    lane_axis,
    pointer_to,
    prepared,
    room,
    settled,
)
from pullback.native.flow import Row
from pullback.native.ir import Code, Index, Value, is_float, is_signed, limits, size_of

SHORT = 4  # terms of a sum that are not a loop, nor kept in memory where they are read once
UNROLLED_SUM = 8  # steps along what is summed, that are not a loop
SUM_VECTORS = 16  # that are summed at a time, when several sums are taken: half of the registers
_IDEMPOTENT = ("maximum", "minimum", "and", "or")  # the same however often an element is taken
_VECTOR = {"and": "and", "or": "or", "xor": "xor", "add": "add", "multiply": "mul"}


def neutral(how: str, kind: str) -> Any:
    """The number that changes nothing."""
    if how == "add":
        return -0.0 if is_float(kind) else 0
    if how in ("maximum", "minimum"):
        low, high = limits(kind)
        return low if how == "maximum" else high
    if how == "and":
        return -1 if is_signed(kind) else limits(kind)[1]
    return {"multiply": 1, "or": 0, "xor": 0}[how]


class Reduction(Split):
    """One reduction: `array` along `axes`, by the operation `how`, from `init` on."""

    def __init__(self, code: Code, array: Array, axes: Sequence[int], how: str, init: Any) -> None:
        super().__init__(array.shape, axes)
        self.code, self.array, self.how, self.init = code, array, how, init
        self.kind = array.kind
        self.count = math.prod(self.sizes)

    def combine(self, x: Value, y: Value) -> Value:
        return elementwise.apply(self.code, self.how, [x, y], {}, self.kind)

    def merge(self, x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
        return [self.combine(a, b) for a, b in zip(x, y)]

    @property
    def merging(self) -> Any:
        return self.merge if self.how in ("add", "multiply") and is_float(self.kind) else None

    def started(self, value: Value) -> Value:
        """With `init` taken into account."""
        least = neutral(self.how, self.kind)
        first = self.init.item()
        same = first == least and math.copysign(1, first) == math.copysign(1, least)
        if same:
            return value
        return self.combine(value, self.code.constant(first, self.kind, value.lanes))

    def across(self, value: Value) -> Value:
        """The lanes of a vector made one number."""
        if value.lanes is None:
            return value
        if value.lanes == 1:
            return self.code.lane(value, 0)
        how, kind, code = self.how, self.kind, self.code
        type = Value("", kind).type
        if how in ("maximum", "minimum"):
            name = f"f{how}" if is_float(kind) else f"{'s' if is_signed(kind) and kind != 'i1' else 'u'}{how[:3]}"
        else:
            name = ("f" if is_float(kind) else "") + _VECTOR[how]
        if kind == "i1" and how in ("maximum", "minimum", "add", "multiply"):
            name = "or" if how in ("maximum", "add") else "and"
        ordered = name in ("fadd", "fmul")
        called = f"@llvm.vector.reduce.{name}.{value.mangled}"
        code.module.declarations[called] = f"declare {type} {called}({f'{type}, ' if ordered else ''}{value.type})"
        first = f"{code.constant(neutral(how, kind), kind)}, " if ordered else ""
        text = f"call {'reassoc ' if ordered else ''}{type} {called}({first}{value})"
        out = code.pure(text, kind, None, math.log2(value.lanes) + 2)
        return code.rounded(out, kind) if kind in ("f16", "bf16") else out

    def where_read(self, written: Callable[[Value], Array] | None = None) -> Formula:
        """The result as a formula: few terms are added up where it is read, and their own operands are shared there."""

        def element(places: Places, lanes: int | None) -> Value:
            rows = indices(tuple(self.sizes))
            terms = [at(self.code, self.array, self.whole(places, at_first(*row)), lanes) for row in rows]
            return self.started(functools.reduce(self.combine, terms))

        again = (self.count - 1) * self.array.cost
        return Formula(self.shape, self.kind, element, [self.array], self.count - 1 + again, written)

    # ---- with vectors along the result ----

    def along_result(self, pointer: Value | None) -> Array:
        code, shape, kind = self.code, self.shape, self.kind
        if pointer is None:
            axis = lane_axis(shape)
            rows = list(indices(shape[:axis] + shape[axis + 1 :]))
            vectors = len(rows) * -(-shape[axis] * size_of(kind) // code.module.vector_bytes)
            unrolled = self.count if self.count * vectors <= 128 else max(1, 64 // vectors)
            if self.count > unrolled:
                prepared(code, self.array)
            return Registers(shape, kind, axis, self._rows(axis, [(row, 0, shape[axis]) for row in rows], unrolled))
        axis = max([i for i, size in enumerate(shape) if size > 1])
        lanes, target = block_lanes(code, shape[axis], kind), Memory(pointer, shape, kind)
        tile = next(n for n in (4, 3, 2, 1) if n == 1 or (axis and shape[axis - 1] % n == 0))
        behind = (0,) * (len(shape) - axis - 1)

        def tiled(outer: Row) -> None:
            rows = [(*outer[:-1], code.plus(code.times(outer[-1], tile), i)) for i in range(tile)] if outer else [()]

            def block(start: Index, lanes: int) -> None:
                for row, value in zip(rows, self._rows(axis, [((*row, *behind), start, lanes) for row in rows], SHORT)):
                    code.store(value, pointer_to(code, target, (*row, start, *behind)))

            flow.each_block(code, shape[axis], lanes, block)

        flow.nest(code, [*shape[: axis - 1], shape[axis - 1] // tile] if axis else [], tiled)
        return target

    def _rows(self, axis: int, rows: Sequence[tuple[Row, Index, int]], unrolled: int) -> list[Value]:
        """Vectors of the result along `axis`: of each the indices of the other axes, its first place and its lanes given."""

        def step(reduced: Row, carry: list[Value]) -> list[Value]:
            out = []
            for (row, start, lanes), value in zip(rows, carry):
                place, vector = block_place(start, lanes)
                kept = [*at_first(*row[:axis]), place, *at_first(*row[axis:])]
                found = at(self.code, self.array, self.whole(kept, at_first(*reduced)), vector)
                out.append(self.combine(value, self.code.spread(found, vector)))
            return out

        least = neutral(self.how, self.kind)
        begin = [self.code.constant(least, self.kind, block_place(start, lanes)[1]) for _, start, lanes in rows]
        found = flow.fold(self.code, self.sizes, begin, step, self.merging, unrolled)
        return [self.started(value) for value in found]

    # ---- with vectors along what is reduced ----

    def along_reduced(self, pointer: Value | None) -> Array:
        code, shape, kind = self.code, self.shape, self.kind
        if pointer is None and math.prod(shape) <= 16:
            return in_registers(code, Registers(shape, kind, None, self._sums(list(indices(shape)))))
        target = room(code, shape, kind, pointer)
        if pointer is None:
            prepared(code, self.array)
        tile = next(n for n in (8, 4, 3, 2, 1) if n == 1 or (shape and shape[-1] % n == 0))

        def tiled(outer: Row) -> None:
            rows = [(*outer[:-1], code.plus(code.times(outer[-1], tile), i)) for i in range(tile)] if outer else [()]
            for row, value in zip(rows, self._sums(rows)):
                code.store(value, pointer_to(code, target, row))

        flow.nest(code, [*shape[:-1], shape[-1] // tile] if shape else [], tiled)
        return in_registers(code, target) if pointer is None else target

    def _sums(self, rows: Sequence[Row]) -> list[Value]:
        """The results at these indices."""
        code, kind = self.code, self.kind
        along = max(range(len(self.sizes)), key=lambda i: (self.sizes[i] > 1, i))
        length = self.sizes[along]
        lanes = block_lanes(code, length, kind)
        while lanes > 1 and len(rows) * lanes * max(4, size_of(kind)) > SUM_VECTORS * code.module.vector_bytes:
            lanes = -(-lanes // 2)
        outer = [size for i, size in enumerate(self.sizes) if i != along]

        whole, left = divmod(length, lanes)
        # In a loop the last block takes some elements again; those that would count twice in masked lanes, free with AVX-512.
        once = self.how in _IDEMPOTENT
        again = bool(left) and (once or code.module.avx512) and math.prod(outer) * whole > UNROLLED_SUM

        def part(blocks: int, lanes: int, first: int) -> list[Value]:
            vector = block_place(0, lanes)[1]

            def step(index: Row, carry: list[Value]) -> list[Value]:
                start = code.plus(code.times(index[-1], lanes), first)
                fresh = None
                if again:
                    regular = code.index(start)
                    start = code.intrinsic("smin", regular, code.index(length - lanes))
                    if not once:
                        passed = elementwise.convert(code, code.binary("sub", regular, start), "i32")
                        fresh = code.compare("ge", code.count_lanes(lanes, kind="i32"), code.spread(passed, lanes))
                reduced = list(at_first(*index[:-1]))
                reduced.insert(along, block_place(start, lanes)[0])
                found = [at(code, self.array, self.whole(at_first(*row), reduced), vector) for row in rows]
                sums = [self.combine(value, code.spread(other, vector)) for value, other in zip(carry, found)]
                return sums if fresh is None else [code.select(fresh, *pair) for pair in zip(sums, carry)]

            begin = [code.constant(neutral(self.how, kind), kind, vector)] * len(rows)
            if math.prod(outer) * blocks > UNROLLED_SUM:
                prepared(code, self.array)
            found = flow.fold(code, [*outer, blocks], begin, step, self.merging, UNROLLED_SUM)
            return [self.across(value) for value in found]

        totals = part(whole + again, lanes, 0)
        if left and not again:
            totals = self.merge(totals, part(1, left, whole * lanes))
        return [self.started(value) for value in totals]


def reduced(
    code: Code, array: Array, axes: Sequence[int], how: str, init: Any, pointer: Value | None = None, now: bool = True
) -> Array:
    """`array` without `axes`, along which its elements are combined: written to `pointer` if that is given; few of them only
    where the result is read, if that need not be `now`."""
    it = Reduction(code, array, axes, how, init)
    if not it.count:
        return filled(code, it.shape, it.kind, init)
    if not math.prod(it.shape):
        return filled(code, it.shape, it.kind, 0)
    small = fits(it.shape, it.kind)
    if it.count == 1:
        return in_registers(code, it.where_read()) if small else it.where_read()
    if small:
        return _lighter(it, None)
    if pointer is None and not now and it.count <= SHORT:
        return it.where_read(lambda pointer: _lighter(it, pointer))
    return _lighter(it, pointer or room(code, it.shape, it.kind).pointer)


def _lighter(it: Reduction, pointer: Value | None) -> Array:
    """Computed with vectors along the result, or along what is reduced; in registers without a pointer."""
    code = it.code
    if it.count > 64 or pointer is not None:  # in this scope, for both ways
        prepared(code, it.array)
    ways: list[Callable[[], Array]] = []
    if math.prod(it.shape) > 1:
        ways.append(lambda: it.along_result(pointer))
    if max(it.sizes) > 1:
        ways.append(lambda: it.along_reduced(pointer))
    if len(ways) == 2 and it.shape[lane_axis(it.shape)] < min(max(it.sizes), code.module.vector_bytes // size_of(it.kind)):
        ways.reverse()  # the better one first: then the other one is given up sooner
    return code.best(ways)  # type: ignore[no-any-return]


def contraction(code: Code, x: Array, y: Array, numbers: dict[str, Any], kind: str, pointer: Value | None = None) -> Array:
    """A product of arrays, summed over the contracted axes, of the axes batch, of x alone, of y alone."""
    x, y = settled(code, x), settled(code, y)
    x_batch, y_batch = numbers.get("lhs_batching_dimensions", ()), numbers.get("rhs_batching_dimensions", ())
    x_used, y_used = numbers.get("lhs_contracting_dimensions", ()), numbers.get("rhs_contracting_dimensions", ())
    x_free = [i for i in range(len(x.shape)) if i not in (*x_batch, *x_used)]
    y_free = [i for i in range(len(y.shape)) if i not in (*y_batch, *y_used)]
    n, left, right = len(x_batch), len(x_free), len(y_free)
    shape = (*[x.shape[i] for i in (*x_batch, *x_free)], *[y.shape[i] for i in y_free])
    summed = tuple([x.shape[i] for i in x_used])
    x_order, y_order = [*x_batch, *x_free, *x_used], [*y_batch, *y_free, *y_used]

    def rule(places: Places, lanes: int | None) -> Value:
        of_x = [*places[: n + left], *places[n + left + right :]]
        of_y = [*places[:n], *places[n + left :]]
        a = at(code, x, tuple([of_x[x_order.index(i)] for i in range(len(x_order))]), lanes)
        b = at(code, y, tuple([of_y[y_order.index(i)] for i in range(len(y_order))]), lanes)
        a, b = elementwise.convert(code, a, kind), elementwise.convert(code, b, kind)
        return elementwise.apply(code, "multiply", [a, b], {}, kind)

    product = Formula(shape + summed, kind, rule, [x, y], 1.0)
    if not summed:
        return product
    return reduced(code, product, range(len(shape), len(shape) + len(summed)), "add", np.zeros((), np.float32), pointer)
