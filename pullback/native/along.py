"""What goes along an axis: scans, reductions by a rule of their own.

A rule is a graph of numbers, which serves for vectors of them as well. Vectors lie along another axis where there is one that
is long enough; a scan by one operation (a sum, product or extreme) is taken within a vector, for whose last lane the next one
waits. Source of that: Hillis and Steele, "Data parallel algorithms" (1986).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pullback.native import elementwise, flow
from pullback.native.arrays import (
    Array,
    Memory,
    Place,
    Places,
    Split,
    at,
    at_first,
    block_lanes,
    block_place,
    fits,
    in_registers,
    pointer_to,
    ready,
    room,
    scalar,
    strides,
)
from pullback.native.emit import Emitter, Targets, add_rule, kind_of
from pullback.native.graph import Graph, Node
from pullback.native.ir import Code, Index, Value, size_of
from pullback.native.reduce import neutral

_ASSOCIATIVE = ("add", "multiply", "maximum", "minimum")


class Along(Split):
    """Arrays of one shape, of which some axes are gone through one element after another, the others in any order."""

    def __init__(self, it: Emitter, arrays: Sequence[Array], axes: Sequence[int]) -> None:
        super().__init__(arrays[0].shape, axes)
        self.it, self.code = it, it.code
        self.arrays = ready(self.code, arrays)

    def read(self, places: Places, lanes: int | None, kinds: Sequence[str]) -> list[Value]:
        found = [at(self.code, x, places, lanes) for x in self.arrays]
        return [self.code.spread(elementwise.convert(self.code, x, kind), lanes) for x, kind in zip(found, kinds)]

    def each(self, kinds: Sequence[str], body: Callable[[list[Place], int | None], None], narrow: bool = False) -> None:
        """`body(places, lanes)` for all places of the kept axes, some vectors along one of them at a time; `narrow`: one."""
        code, sizes = self.code, self.shape
        long = [i for i, size in enumerate(sizes) if size >= 4]
        if not long:
            flow.nest(code, sizes, lambda row: body(list(at_first(*row)), None))
            return
        along = long[-1]
        width = max([size_of(kind) for kind in kinds])
        lanes = block_lanes(code, sizes[along], "f64" if width == 8 else "f32")
        if narrow:
            lanes = min(lanes, code.module.vector_bytes // max(width, 4))

        def block(row: flow.Row, start: Index, lanes: int) -> None:
            place, vector = block_place(start, lanes)
            body([*at_first(*row[:along]), place, *at_first(*row[along:])], vector)

        others = [size for i, size in enumerate(sizes) if i != along]
        flow.nest(code, others, lambda row: flow.each_block(code, sizes[along], lanes, lambda *at: block(row, *at)))


def at_places(code: Code, memory: Memory, value: Value, places: Places) -> None:
    """Store a vector at its places, which may be apart."""
    pointer = pointer_to(code, memory, [index for index, _ in places])
    step = sum([step * stride for (_, step), stride in zip(places, strides(memory.shape))])
    if value.lanes is None or step == 1:
        code.store(value, pointer)
    else:
        for lane in range(value.lanes):
            code.store(code.lane(value, lane), code.offset(pointer, [(lane * step, size_of(memory.kind))]))


def rooms(code: Code, node: Node, targets: Targets) -> list[Memory]:
    """Memory for the results of an operation: where they are to be, but for those that are to be read from registers."""
    made = []
    for name in node.results:
        target = None if fits(name.shape, kind_of(name)) else targets.get(name.name)
        made.append(room(code, name.shape, kind_of(name), target))
    return made


def result(code: Code, memory: Memory) -> Array:
    return in_registers(code, memory) if fits(memory.shape, memory.kind) else memory


# ---- scans -------------------------------------------------------------------------------------------------------------


def _accumulate(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> list[Array]:
    code, params, (body,) = it.code, node.params, node.graphs
    axis, reverse = params["axis"], params["reverse"]
    shape = operands[0].shape
    outs = rooms(code, node, targets)
    if not math.prod(shape):
        return list(outs)
    count = len(outs)
    kinds = [kind_of(name) for name in body.inputs]
    starts = [code.constant(start.item(), kind) for start, kind in zip(params["starts"], kinds)]
    along = Along(it, operands, [axis])

    def write(values: Sequence[Value], places: Places) -> None:
        for memory, value in zip(outs, values):
            at_places(code, memory, elementwise.convert(code, value, memory.kind), places)

    def scanned(kept: list[Place], lanes: int | None) -> None:
        def step(index: flow.Row, carry: list[Value]) -> list[Value]:
            where = code.plus(shape[axis] - 1, code.times(index[0], -1)) if reverse else index[0]
            places = along.whole(kept, [(where, 0)])
            after = it.applied(body, [*carry, *along.read(places, lanes, kinds[count:])])
            write(after, places)
            return after

        begin = [code.spread(start, lanes) for start in starts]
        flow.fold(code, [shape[axis]], begin, step, None, 8)

    def within(kept: flow.Row) -> None:
        (kind, start), length = (kinds[0], starts[0]), shape[axis]
        most = max(2, code.module.vector_bytes // size_of(kind))

        def block(first: Index, width: int, carry: Value) -> Value:
            where = code.plus(length - width, code.times(first, -1)) if reverse else first
            place, lanes = block_place(where, width)
            places = along.whole(at_first(*kept), [place])
            (value,) = along.read(places, lanes, kinds[1:])
            none = code.constant(neutral(params["how"], kind), kind, lanes)
            distance = 1
            while distance < width:
                if reverse:
                    before = code.shuffle(value, range(distance, width + distance), none)
                else:
                    before = code.shuffle(none, range(width - distance, 2 * width - distance), value)
                value = elementwise.apply(code, params["how"], [before, value], {}, kind)
                distance *= 2
            value = elementwise.apply(code, params["how"], [carry, value], {}, kind)
            write([value], places)
            return code.lane(value, 0 if reverse else width - 1)

        done, width = length // most * most, most // 2
        (carry,) = flow.loop(code, 0, done, most, [start], lambda first, carry: [block(first, most, *carry)])
        while done < length:
            if length - done >= width:
                carry = block(done, width, carry)
                done += width
            else:
                width //= 2

    alone = max([shape[i] for i in along.kept if i > axis], default=1) == 1
    if params["how"] in _ASSOCIATIVE and alone and shape[axis] > 4 and kinds[0] not in ("f16", "bf16", "i1"):
        flow.nest(code, along.shape, within)
    else:
        along.each(kinds, scanned)
    return [result(code, memory) for memory in outs]


# ---- reductions by a rule ----------------------------------------------------------------------------------------------


def combined(it: Emitter, body: Graph, arrays: Sequence[Array], firsts: Sequence[Array], axes: Sequence[int]) -> list[Array]:
    """Arrays without `axes`, along which a rule combines all of them at once, whatever their order."""
    code = it.code
    kinds = [x.kind for x in arrays]
    along = Along(it, arrays, axes)
    shape, sizes = along.shape, along.sizes
    outs = [room(code, shape, kind) for kind in kinds]
    starts = [scalar(code, first) for first in firsts]
    if not math.prod(shape):
        return list(outs)

    def folded(sizes: Sequence[int], begin: Sequence[Value], read: Callable[[flow.Row], list[Value]]) -> list[Value]:
        return flow.fold(code, sizes, begin, lambda row, carry: it.applied(body, [*carry, *read(row)]), None, 8)

    def column(kept: list[Place], lanes: int | None) -> None:
        begin = [code.spread(start, lanes) for start in starts]
        found = folded(sizes, begin, lambda row: along.read(along.whole(kept, at_first(*row)), lanes, kinds))
        for memory, value in zip(outs, found):
            at_places(code, memory, value, tuple(kept))

    def row(kept: flow.Row) -> None:
        """Vectors lie along the last axis that is reduced; their lanes are combined at the end."""
        step = block_lanes(code, sizes[-1], "f64" if any([size_of(kind) == 8 for kind in kinds]) else "f32")
        step = 1 << step.bit_length() - 1
        whole = sizes[-1] // step

        def read(start: Index, index: flow.Row, lanes: int | None) -> list[Value]:
            gone = (*at_first(*index[:-1]), (start, 1 if lanes else 0))
            return along.read(along.whole(at_first(*kept), gone), lanes, kinds)

        begin = [code.spread(start, step) for start in starts]
        found = folded([*sizes[:-1], whole], begin, lambda at: read(code.times(at[-1], step), at, step))
        found = flow.across(code, found, step, lambda low, high: it.applied(body, [*low, *high]))
        rest = [*sizes[:-1], sizes[-1] % step]
        found = folded(rest, found, lambda at: read(code.plus(at[-1], whole * step), at, None))
        for memory, value in zip(outs, found):
            at_places(code, memory, value, at_first(*kept))

    if max(shape, default=1) >= 4 or not sizes or sizes[-1] < 8:
        along.each(kinds, column)
    else:
        flow.nest(code, shape, row)
    return [result(code, memory) for memory in outs]


def _reduce_together(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> list[Array]:
    count = len(node.results)
    return combined(it, node.graphs[0], operands[:count], operands[count:], node.params["dimensions"])


add_rule("accumulate", _accumulate)
add_rule("reduce_together", _reduce_together)
