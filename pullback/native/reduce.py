"""Sums, products, extremes along axes; and contractions, which are sums of products that are never stored.

Vectors lie along the result, or along what is reduced: both are written, and the lighter is kept. Results are taken in tiles,
so that what several of them read is read once. The order of a sum depends on the shape alone (`flow.fold`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.native import elementwise, flow
from pullback.native.arrays import (
    Array,
    Formula,
    Memory,
    Place,
    Places,
    Registers,
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
    spliced,
    view,
)
from pullback.native.flow import Row
from pullback.native.ir import Code, Index, Value, is_float, is_signed, limits, size_of

SUM_VECTORS = 16  # that are summed at a time, when several sums are taken: half of the registers
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


class Reduction:
    """One reduction: `array` along `axes`, by the operation `how`, from `init` on."""

    def __init__(self, code: Code, array: Array, axes: Sequence[int], how: str, init: Any) -> None:
        self.code, self.array, self.how, self.init = code, array, how, init
        self.kind = array.kind
        self.axes = sorted(axes)
        self.kept = [axis for axis in range(len(array.shape)) if axis not in self.axes]
        self.sizes = [array.shape[axis] for axis in self.axes]
        self.count = math.prod(self.sizes)
        self.shape = tuple([array.shape[axis] for axis in self.kept])

    def whole(self, kept: Sequence[Place], reduced: Sequence[Place]) -> Places:
        return spliced((self.kept, kept), (self.axes, reduced))

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
                for row, value in zip(rows, self._rows(axis, [((*row, *behind), start, lanes) for row in rows], 4)):
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

        def part(blocks: int, lanes: int, first: int) -> list[Value]:
            vector = block_place(0, lanes)[1]

            def step(index: Row, carry: list[Value]) -> list[Value]:
                start = code.plus(code.times(index[-1], lanes), first)
                reduced = list(at_first(*index[:-1]))
                reduced.insert(along, block_place(start, lanes)[0])
                found = [at(code, self.array, self.whole(at_first(*row), reduced), vector) for row in rows]
                return [self.combine(value, code.spread(other, vector)) for value, other in zip(carry, found)]

            begin = [code.constant(neutral(self.how, kind), kind, vector)] * len(rows)
            if math.prod(outer) * blocks > 8:
                prepared(code, self.array)
            found = flow.fold(code, [*outer, blocks], begin, step, self.merging, 8)
            return [self.across(value) for value in found]

        whole = length // lanes
        totals = part(whole, lanes, 0)
        if length % lanes:
            totals = self.merge(totals, part(1, length % lanes, whole * lanes))
        return [self.started(value) for value in totals]


def reduced(code: Code, array: Array, axes: Sequence[int], how: str, init: Any, pointer: Value | None = None) -> Array:
    """`array` without `axes`, along which its elements are combined; written to `pointer` if that is given."""
    it = Reduction(code, array, axes, how, init)
    if not it.count:
        return filled(code, it.shape, it.kind, init)
    if not math.prod(it.shape):
        return filled(code, it.shape, it.kind, 0)
    if it.count == 1:
        flat = view(code, array, it.shape, lambda places: it.whole(places, [(0, 0)] * len(it.axes)))
        one = Formula(it.shape, it.kind, lambda places, lanes: it.started(at(code, flat, places, lanes)), [flat])
        return in_registers(code, one) if fits(it.shape, it.kind) else one
    if fits(it.shape, it.kind):
        pointer = None
    elif pointer is None:
        pointer = room(code, it.shape, it.kind).pointer
    if it.count > 64 or pointer is not None:  # in this scope, for both ways
        prepared(code, array)
    ways = []
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
