"""What goes along an axis: scans, reductions by a rule of their own, sorting.

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
    Shape,
    at,
    at_first,
    block_lanes,
    fits,
    in_registers,
    prepared,
    scalar,
    settled,
    store,
    strides,
    view,
)
from pullback.native.emit import Emitter, Targets, add_rule, kind_of
from pullback.native.graph import Graph, Node, Refused
from pullback.native.ir import Code, Index, Value, size_of
from pullback.native.reduce import neutral

NETWORK = 16  # so many elements are sorted by exchanges of neighbours, all of them written out
MERGED = 512  # more elements are left to XLA and NumPy, whose sorts are quicker
_ASSOCIATIVE = ("add", "multiply", "maximum", "minimum")


class _Along:
    """Arrays of one shape, of which some axes are gone through one element after another, the others in any order."""

    def __init__(self, it: Emitter, arrays: Sequence[Array], axes: Sequence[int]) -> None:
        self.it, self.code = it, it.code
        self.arrays = [settled(self.code, x) for x in arrays]
        for x in self.arrays:
            prepared(self.code, x)
        self.shape = arrays[0].shape
        self.axes = list(axes)
        self.kept = [axis for axis in range(len(self.shape)) if axis not in self.axes]

    def whole(self, kept: Sequence[Place], gone: Sequence[Place]) -> Places:
        places: list[Place] = [(0, 0)] * len(self.shape)
        for axis, place in [*zip(self.kept, kept), *zip(self.axes, gone)]:
            places[axis] = place
        return tuple(places)

    def read(self, places: Places, lanes: int | None, kinds: Sequence[str]) -> list[Value]:
        found = [at(self.code, x, places, lanes) for x in self.arrays]
        return [self.code.spread(elementwise.convert(self.code, x, kind), lanes) for x, kind in zip(found, kinds)]

    def each(self, kinds: Sequence[str], body: Callable[[list[Place], int | None], None], narrow: bool = False) -> None:
        """`body(places, lanes)` for all places of the kept axes, some vectors along one of them at a time; `narrow`: one."""
        code = self.code
        sizes = [self.shape[axis] for axis in self.kept]
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
            places = [*at_first(*row[:along]), (start, 1 if lanes > 1 else 0), *at_first(*row[along:])]
            body(places, lanes if lanes > 1 else None)

        others = [size for i, size in enumerate(sizes) if i != along]
        flow.nest(code, others, lambda row: flow.each_block(code, sizes[along], lanes, lambda *at: block(row, *at)))


def _write(code: Code, memory: Memory, value: Value, places: Places) -> None:
    """Store a vector at its places, which may be apart."""
    size, apart = size_of(memory.kind), strides(memory.shape)
    pointer = code.offset(memory.pointer, [(index, stride * size) for (index, _), stride in zip(places, apart)])
    step = sum([step * stride for (_, step), stride in zip(places, apart)])
    if value.lanes is None or step == 1:
        code.store(value, pointer)
    else:
        for lane in range(value.lanes):
            code.store(code.lane(value, lane), code.offset(pointer, [(lane * step, size)]))


def _room(code: Code, shape: Shape, kind: str, pointer: Value | None = None) -> Memory:
    return Memory(pointer or code.allocate(math.prod(shape) * size_of(kind)), shape, kind)


def _result(code: Code, memory: Memory) -> Array:
    return in_registers(code, memory) if fits(memory.shape, memory.kind) else memory


# ---- scans -------------------------------------------------------------------------------------------------------------


def _accumulate(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> list[Array]:
    code, params, (body,) = it.code, node.params, node.graphs
    axis, reverse = params["axis"], params["reverse"]
    shape = operands[0].shape
    outs = []
    for name in node.results:
        target = None if fits(shape, kind_of(name)) else targets.get(name.name)
        outs.append(_room(code, shape, kind_of(name), target))
    if not math.prod(shape):
        return list(outs)
    count = len(outs)
    kinds = [kind_of(name) for name in body.inputs]
    starts = [code.constant(start.item(), kind) for start, kind in zip(params["starts"], kinds)]
    along = _Along(it, operands, [axis])

    def write(values: Sequence[Value], places: Places) -> None:
        for memory, value in zip(outs, values):
            _write(code, memory, elementwise.convert(code, value, memory.kind), places)

    def scanned(kept: list[Place], lanes: int | None) -> None:
        def step(index: flow.Row, carry: list[Value]) -> list[Value]:
            where = code.plus(shape[axis] - 1, code.times(index[0], -1)) if reverse else index[0]
            places = along.whole(kept, [(where, 0)])
            after = it.applied(body, [*carry, *along.read(places, lanes, kinds[count:])])
            write(after, places)
            return after

        begin = [code.spread(start, lanes) for start in starts]
        flow.fold(code, [shape[axis]], begin, step, None, 8)

    def within(kept: list[Place], lanes: int | None) -> None:
        (kind, start), length = (kinds[0], starts[0]), shape[axis]
        most = max(2, code.module.vector_bytes // size_of(kind))

        def block(first: Index, width: int, carry: Value) -> Value:
            where = code.plus(length - width, code.times(first, -1)) if reverse else first
            lanes = width if width > 1 else None
            places = along.whole(kept, [(where, 1 if lanes else 0)])
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
        flow.nest(code, [shape[i] for i in along.kept], lambda row: within(list(at_first(*row)), None))
    else:
        along.each(kinds, scanned)
    return [_result(code, memory) for memory in outs]


# ---- reductions by a rule ----------------------------------------------------------------------------------------------


def combined(it: Emitter, body: Graph, arrays: Sequence[Array], firsts: Sequence[Array], axes: Sequence[int]) -> list[Array]:
    """Arrays without `axes`, along which a rule combines all of them at once, whatever their order."""
    code = it.code
    kinds = [x.kind for x in arrays]
    along = _Along(it, arrays, axes)
    shape = tuple([along.shape[axis] for axis in along.kept])
    sizes = [along.shape[axis] for axis in along.axes]
    outs = [_room(code, shape, kind) for kind in kinds]
    starts = [scalar(code, first) for first in firsts]
    if not math.prod(shape):
        return list(outs)

    def folded(sizes: Sequence[int], begin: Sequence[Value], read: Callable[[flow.Row], list[Value]]) -> list[Value]:
        return flow.fold(code, sizes, begin, lambda row, carry: it.applied(body, [*carry, *read(row)]), None, 8)

    def column(kept: list[Place], lanes: int | None) -> None:
        begin = [code.spread(start, lanes) for start in starts]
        found = folded(sizes, begin, lambda row: along.read(along.whole(kept, at_first(*row)), lanes, kinds))
        for memory, value in zip(outs, found):
            _write(code, memory, value, tuple(kept))

    def row(kept: flow.Row) -> None:
        """Vectors lie along the last axis that is reduced; their lanes are combined at the end."""
        step = block_lanes(code, sizes[-1], "f64" if any([size_of(kind) == 8 for kind in kinds]) else "f32")
        lanes = step = 1 << step.bit_length() - 1
        whole = sizes[-1] // step

        def read(start: Index, index: flow.Row, lanes: int | None) -> list[Value]:
            gone = (*at_first(*index[:-1]), (start, 1 if lanes else 0))
            return along.read(along.whole(at_first(*kept), gone), lanes, kinds)

        begin = [code.spread(start, step) for start in starts]
        found = folded([*sizes[:-1], whole], begin, lambda at: read(code.times(at[-1], step), at, step))
        while lanes > 1:
            lanes //= 2
            halves = [[code.shuffle(x, range(i, i + lanes)) for x in found] for i in (0, lanes)]
            found = it.applied(body, [*halves[0], *halves[1]])
        found = [code.lane(value, 0) for value in found]
        rest = [*sizes[:-1], sizes[-1] % step]
        found = folded(rest, found, lambda at: read(code.plus(at[-1], whole * step), at, None))
        for memory, value in zip(outs, found):
            _write(code, memory, value, at_first(*kept))

    if max(shape, default=1) >= 4 or not sizes or sizes[-1] < 8:
        along.each(kinds, column)
    else:
        flow.nest(code, shape, row)
    return [_result(code, memory) for memory in outs]


def _reduce_together(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> list[Array]:
    count = len(node.results)
    return combined(it, node.graphs[0], operands[:count], operands[count:], node.params["dimensions"])


# ---- sorting -----------------------------------------------------------------------------------------------------------


def _sort(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> list[Array]:
    """The operands in the order that a rule of pairs says, equal ones in the order in which they are."""
    code, (body,), axis = it.code, node.graphs, node.params["dimension"]
    shape, length = operands[0].shape, operands[0].shape[axis]
    outs = [_room(code, shape, x.kind) for x in operands]
    if not math.prod(shape):
        return list(outs)
    if length > MERGED:
        raise Refused(f"{node.source} sorts more than {MERGED} elements")
    along = _Along(it, operands, [axis])
    kinds = [x.kind for x in operands]

    def before(x: Sequence[Value], y: Sequence[Value]) -> Value:
        (first,) = it.applied(body, [value for pair in zip(x, y) for value in pair])
        return first

    def exchanged(kept: list[Place], lanes: int | None) -> None:
        rows = [along.read(along.whole(kept, [(i, 0)]), lanes, kinds) for i in range(length)]
        for turn in range(length):
            for i in range(turn % 2, length - 1, 2):
                x, y = rows[i : i + 2]
                turned = before(y, x)
                rows[i] = [code.select(turned, b, a) for a, b in zip(x, y)]
                rows[i + 1] = [code.select(turned, a, b) for a, b in zip(x, y)]
        for i, row in enumerate(rows):
            for memory, value in zip(outs, row):
                _write(code, memory, value, along.whole(kept, [(i, 0)]))

    if length <= NETWORK:
        along.each(kinds, exchanged, narrow=True)
        return [_result(code, memory) for memory in outs]
    buffers = [[_room(code, (length,), kind) for kind in kinds] for _ in range(2)]

    def one_row(row: flow.Row) -> None:
        for x, memory in zip(along.arrays, buffers[0]):
            line = view(code, x, (length,), lambda places: along.whole(at_first(*row), places))
            store(code, line, memory.pointer)
        sources = [memory.pointer for memory in buffers[0]]
        others = [memory.pointer for memory in buffers[1]]
        start = [code.constant(1, "i64"), *sources, *others]
        merged = flow.repeat_while(
            code,
            start,
            lambda carry: code.compare("lt", carry[0], code.constant(length, "i64")),
            lambda carry: _merge(code, before, kinds, length, carry),
        )
        for x, memory, pointer in zip(along.arrays, outs, merged[1:]):
            source = Memory(pointer, (length,), x.kind)

            def moved(index: flow.Row, source: Memory = source, memory: Memory = memory) -> None:
                _write(code, memory, scalar(code, source, *index), along.whole(at_first(*row), at_first(*index)))

            flow.nest(code, [length], moved)

    flow.nest(code, [shape[i] for i in along.kept], one_row)
    return [_result(code, memory) for memory in outs]


def _merge(
    code: Code,
    before: Callable[[Sequence[Value], Sequence[Value]], Value],
    kinds: Sequence[str],
    length: int,
    carry: list[Value],
) -> list[Value]:
    """Pairs of neighbouring runs of sorted elements become runs of twice the width, in the other buffer."""
    count = len(kinds)
    width, sources, others = carry[0], carry[1 : 1 + count], carry[1 + count :]
    whole = code.constant(length, "i64")
    both = code.binary("shl", width, code.constant(1, "i64"))
    pairs = code.binary("udiv", code.binary("add", code.binary("add", whole, both), code.constant(-1, "i64")), both)

    def least(x: Value, y: Value) -> Value:
        return code.intrinsic("smin", x, y)

    def element(index: Value) -> list[Value]:
        index = least(index, code.constant(length - 1, "i64"))  # behind a run lies another one, whose element is not used
        return [code.load(code.offset(p, [(index, size_of(kind))]), kind) for p, kind in zip(sources, kinds)]

    def pair(number: Index, none: list[Value]) -> list[Value]:
        low = code.binary("mul", code.index(number), both)
        middle = least(code.binary("add", low, width), whole)
        high = least(code.binary("add", low, both), whole)

        def take(place: Index, heads: list[Value]) -> list[Value]:
            i, j = heads
            x, y = element(i), element(j)
            some = code.compare("lt", j, high)
            right = code.select(code.compare("ge", i, middle), some, code.binary("and", some, before(y, x)))
            for a, b, pointer, kind in zip(x, y, others, kinds):
                code.store(code.select(right, b, a), code.offset(pointer, [(place, size_of(kind))]))
            step = code.pure(f"zext {right} to i64", "i64")
            j = code.binary("add", j, step)
            return [code.binary("sub", code.index(code.plus(place, 1)), code.binary("sub", j, middle)), j]

        # after `place`, i - low + j - middle elements are taken
        flow.loop(code, low, high, 1, [low, middle], lambda place, heads: take(place, heads))
        return none

    flow.loop(code, 0, pairs, 1, [], pair)
    return [both, *others, *sources]


_RULES = {"accumulate": _accumulate, "reduce_together": _reduce_together, "sort": _sort}
for _name, _rule in _RULES.items():
    add_rule(_name, _rule)
