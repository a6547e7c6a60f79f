"""The first elements in an order, without ordering the others.

Candidates are gathered in a buffer that has room for several times as many as are wanted. When it is full it is sorted, stably,
and all but the wanted ones are dropped: from then on only what goes before the last of these is a candidate, and most vectors
have none. At worst, of falling numbers of which the least are wanted, that is a sort or two of all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pullback.native import elementwise, flow
from pullback.native.arrays import Array, Places, block_lanes, sliced
from pullback.native.emit import Emitter, Targets, add_rule
from pullback.native.graph import Node
from pullback.native.ir import Index, Value, size_of
from pullback.native.lanes import in_any_lane
from pullback.native.sorting import Records, Sort, Span
from pullback.stablehlo.writer import TensorType
from pullback.stablehlo.writer import Value as Name

LEAST = 256  # candidates that the buffer holds: no fewer than four times as many as are wanted, and the root of the length
SHORT = 3  # rows of fewer times as many elements are sorted
_SELDOM = 0.05  # the share of the vectors with candidates in them, when it is weighed


def _ordered(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> list[Array]:
    """Some operands in the order of the others, the keys, which come first; the results may have only the first elements."""
    axis, before = node.params["dimension"], it.code.weight
    length, count = operands[0].shape[axis], node.results[0].shape[axis]
    if count == length:
        made = Sort(it, node, operands, targets).results()
    elif node.params["keys"] == 1 and count and length >= SHORT * _room(length, count):
        made = _Selection(it, node, operands, targets).results()
    else:
        types = [TensorType(x.shape, y.dtype) for x, y in zip(operands[node.params["keys"] :], node.results, strict=True)]
        results = [Name(f"{y.name}.whole", type) for y, type in zip(node.results, types)]
        whole = Sort(it, Node(node.name, node.operands, results, node.params, (), node.source), operands, {}).results()
        ones, shape = [1] * len(results[0].shape), node.results[0].shape
        made = [sliced(it.code, x, [0 for _ in ones], ones, shape) for x in whole]
    it.sorting += it.code.weight - before
    return made


def _room(length: int, count: int) -> int:
    return max(LEAST, 1 << (4 * count - 1).bit_length(), 1 << (math.isqrt(length) - 1).bit_length())


class _Selection(Sort):
    """One operation with one key, as it is written.

    Attributes:
        candidates: the buffer; ranks: of one vector, where there are some.
    """

    def __init__(self, it: Emitter, node: Node, operands: list[Array], targets: Targets) -> None:
        super().__init__(it, node, operands, targets)
        code, (kind,) = self.code, self.ranks
        self.count = node.results[0].shape[self.axis]
        self.room = _room(self.length, self.count)
        self.lanes = min(block_lanes(code, self.length, kind), LEAST // 2)
        self.records = Records(code, self.room, [kind, "u32" if self.length < 1 << 32 else "u64"])
        self.candidates, self.other = code.allocate((self.room + 1) * self.records.size), self.records.buffer()
        self.vector = code.allocate(self.lanes * size_of(kind))

    def results(self) -> list[Array]:
        self.each_row(self.selected)
        return self.made()

    def selected(self, row: Places) -> None:
        code, (kind,) = self.code, self.ranks
        end = code.constant(self.length, "i64")

        def goes_on(carry: list[Value]) -> Value:
            return code.compare("lt", carry[0], end)

        def filled(carry: list[Value]) -> list[Value]:
            """Candidates are gathered until the buffer is full, or there are no more elements; and reduced to the best."""
            full = code.constant(self.room - self.lanes, "i64")

            def has_room(inner: list[Value]) -> Value:
                return code.binary("and", goes_on(inner), code.compare("le", inner[1], full))

            index, held = flow.repeat_while(
                code,
                carry[:2],
                has_room,
                lambda inner: self.gathered(row, inner[0], inner[1], carry[2]),
                self.length / self.lanes,
            )
            last = self.reduced(held)
            best = code.compare("eq", last, code.constant(0, kind))  # nothing goes before it
            limit = code.binary("sub", last, code.constant(1, kind))
            return [code.select(best, end, index), code.constant(self.count, "i64"), limit]

        zero = code.constant(0, "i64")
        flow.repeat_while(code, [zero, zero, code.constant(-1, kind)], goes_on, filled, 1)

        def write(index: Index, none: list[Value]) -> list[Value]:
            place = self.records.numbers(self.candidates, index)[1]
            place = code.convert_integer(place, "u64").as_kind("i64")
            self.write(self.read(row, (place, 0), None)[1], row, (index, 0))
            return none

        flow.loop(code, 0, self.count, 1, [], write)

    def gathered(self, row: Places, index: Value, held: Value, limit: Value) -> list[Value]:
        """Add the candidates of one vector, whose ranks are no more than the limit. The last one begins with elements that the
        one before had as well."""
        code, kind = self.code, limit.kind
        start = code.intrinsic("smin", index, code.constant(self.length - self.lanes, "i64"))
        (ranks,), _ = self.read(row, (start, 1), self.lanes)
        some = in_any_lane(code, code.compare("le", ranks, code.spread(limit, self.lanes)))

        def added() -> list[Value]:
            code.store(ranks, self.vector)

            def one(lane: Index, carry: list[Value]) -> Sequence[Value]:
                rank = code.load(code.offset(self.vector, [(lane, size_of(kind))]), kind)
                place = code.convert_integer(code.index(code.plus(start, lane)), self.records.kinds[1])
                self.records.put([rank, place], self.candidates, carry[0])
                taken = elementwise.convert(code, code.compare("le", rank, limit), "i64")
                return [code.binary("add", carry[0], taken)]

            with code.scope(_SELDOM):
                return flow.loop(code, code.binary("sub", index, start), self.lanes, 1, [held], one, self.lanes)

        (held,) = flow.choose(code, elementwise.convert(code, some, "i64"), [lambda: [held], added])
        return [code.index(code.plus(start, self.lanes)), held]

    def reduced(self, held: Value) -> Value:
        """Leave the best of so many candidates, in order; the rank of the last of them."""
        code, records, (kind,) = self.code, self.records, self.ranks
        first = records.rank(self.candidates, 0, 0)

        def compared(index: Index, carry: list[Value]) -> list[Value]:
            rank = records.rank(self.candidates, index, 0)
            differ, least, most = carry
            differ = code.binary("or", differ, code.binary("xor", rank, first))
            return [differ, code.intrinsic("umin", least, rank), code.intrinsic("umax", most, rank)]

        start = [code.constant(0, kind), first, first]
        span = Span(*flow.loop(code, code.constant(0, "i64"), held, 1, start, compared, self.room))

        def padded(index: Index, none: list[Value]) -> list[Value]:
            records.put([span.most, code.constant(0, records.kinds[1])], self.candidates, index)
            return none

        flow.loop(code, held, self.room, 1, [], padded, 1)
        found = records.sorted(self.candidates, self.other, [span])

        def kept(index: Index, none: list[Value]) -> list[Value]:
            records.put(records.words(found, index), self.candidates, index)
            return none

        flow.loop(code, 0, self.count, 1, [], kept)
        return records.rank(self.candidates, self.count - 1, 0)


add_rule("ordered", _ordered)
