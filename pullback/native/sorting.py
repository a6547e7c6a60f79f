"""Sorting: rows of few elements by exchanges, of some by counting, of many digit by digit.

Each key has a *rank*, an unsigned integer in the order of its numbers: equal for equal ones, so zeros of both signs have one,
and the largest for NaN. Sorts are stable whatever the method.

Many elements are moved by one digit after another of how much their rank exceeds the least one, from the lowest on; digits that
are zero throughout are left out. A rank of 64 bits on its own is first sorted by its highest bits that differ; what then stands
in the wrong order is put right by insertion, unless that is too much. Source: Knuth, "The art of computer programming", vol. 3,
5.2.

Nanoseconds of the processor an element, normal numbers times 1e6 (one thread with AVX-512 that others used at the same time),
ours, by NumPy's stable sort, and by XLA's:

    elements in a row             10              100             1000            10^5           10^6
    sort, float32                 0.6  12   49    6    22   88    6    40  127    4   75  199    8   92  243
    sort, float64                 0.9  11   49    10   23   90    10   41  129    6   77  202    12  90  242
    argsort, float32              0.7  14   58    6    26  108    7    48  156    6   96  242    14 125  298
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pullback.native import elementwise, flow
from pullback.native.along import Along, at_places, result, rooms
from pullback.native.arrays import (
    Array,
    Formula,
    Place,
    Places,
    at_first,
    block_lanes,
    filled,
    pointer_to,
    room,
    store,
)
from pullback.native.emit import Emitter, Targets, place_value
from pullback.native.graph import Node
from pullback.native.ir import BITS, Code, Index, Value, is_float, is_signed, size_of

EXCHANGED = 16  # so many elements are sorted by exchanges of neighbours, all of them written out
COUNTED = 256  # so many by counting, for each, how many go before it
MANY = 1 << 13  # from so many elements on digits have 11 bits, else 8, whose counters are cleared sooner
WINDOW = 33  # so many of the highest bits of 64 that differ are sorted by at first
PASSES = 1  # of digits, as they are weighed: their instructions run some three at a time
_PART = 1 << 12  # elements between which a long loop may be stopped

_INFINITE = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF0000000000000}  # the bits of infinity


_Step = Callable[[Index, list[Value]], Sequence[Value]]  # of a loop: its index, and the carry


def _rank_kind(kind: str) -> str:
    return f"u{8 * size_of(kind)}"


def _rank(code: Code, value: Value, descending: bool = False) -> Value:
    kind, lanes = value.kind, value.lanes
    rank = _rank_kind(kind)
    bits = code.bitcast(value, rank)

    def number(n: int) -> Value:
        return code.constant(n, rank, lanes)

    top = 1 << BITS[rank] - 1
    if is_float(kind):
        infinite = _INFINITE[kind]
        nan = infinite + (infinite & -infinite) // 2  # the one that operations give
        negative = code.binary("ashr", bits, number(BITS[rank] - 1))
        turned = code.binary("xor", bits, code.binary("or", negative, number(top)))
        turned = code.select(code.compare("eq", bits, number(top)), number(top), turned)  # -0
        unordered = code.compare("gt", code.binary("and", bits, number(top - 1)), number(infinite))
        bits = code.select(unordered, number(nan | top), turned)
    elif is_signed(kind):
        bits = code.binary("xor", bits, number(top))
    return code.binary("xor", bits, number(2 * top - 1)) if descending else bits


def _unranked(code: Code, rank: Value, kind: str) -> Value:
    """The number of a kind that has a rank: of zeros the positive one."""

    def number(n: int) -> Value:
        return code.constant(n, rank.kind, rank.lanes)

    top = 1 << BITS[rank.kind] - 1
    if is_float(kind):
        negative = code.compare("lt", rank, number(top))
        rank = code.binary("xor", rank, code.select(negative, number(2 * top - 1), number(top)))
    elif is_signed(kind):
        rank = code.binary("xor", rank, number(top))
    return code.bitcast(rank, kind)


def _before(code: Code, x: Sequence[Value], y: Sequence[Value], how: str = "lt") -> Value:
    """Whether some ranks are before others, by the first in which they differ; "le": or the same."""
    before = code.compare(how, x[-1], y[-1])
    for a, b in zip(x[-2::-1], y[-2::-1]):
        before = code.select(code.compare("eq", a, b), before, code.compare("lt", a, b))
    return before


def _each(code: Code, length: int, carry: Sequence[Value], body: _Step) -> list[Value]:
    """`flow.loop` over so many indices, in parts, so that a step need not ask whether to stop."""

    def part(first: Index, carry: list[Value]) -> list[Value]:
        return flow.loop(code, 0, _PART, 1, carry, lambda index, carry: body(code.plus(first, index), carry))

    whole = length // _PART * _PART
    return flow.loop(code, whole, length, 1, flow.loop(code, 0, whole, _PART, carry, part), body)


class Sort:
    """Operands in the order of some of them, the keys, which come first: one operation, as it is written.

    Attributes:
        itself: whether the only key is what is to be sorted.
    """

    def __init__(self, it: Emitter, node: Node, operands: list[Array], targets: Targets) -> None:
        self.code = it.code
        self.axis, self.keys, self.descending = [node.params[name] for name in ("dimension", "keys", "descending")]
        self.along = Along(it, operands, [self.axis])
        self.shape, self.kinds = operands[0].shape, [x.kind for x in operands]
        self.length = self.shape[self.axis]
        self.itself = [x.name for x in node.operands] == [node.operands[0].name] * 2 and not self.descending
        self.ranks = [_rank_kind(kind) for kind in self.kinds[: self.keys]]
        self.outs = rooms(self.code, node, targets)

    def results(self) -> list[Array]:
        if self.length <= EXCHANGED:
            self.along.each(self.kinds, self.exchanged, narrow=True)
        else:
            one = self.counted if self.length <= COUNTED else self.by_digits
            self.each_row(one)
        return self.made()

    def each_row(self, body: Callable[[Places], None]) -> None:
        flow.nest(self.code, [self.shape[i] for i in self.along.kept], lambda row: body(at_first(*row)))

    def made(self) -> list[Array]:
        return [result(self.code, memory) for memory in self.outs]

    def read(self, row: Sequence[Place], place: Place, lanes: int | None) -> tuple[list[Value], list[Value]]:
        """The ranks of the keys at a place of a row, and what is sorted by them."""
        found = self.along.read(self.along.whole(row, [place]), lanes, self.kinds)
        return [_rank(self.code, key, self.descending) for key in found[: self.keys]], found[self.keys :]

    def write(self, values: Sequence[Value], row: Sequence[Place], place: Place) -> None:
        for memory, value in zip(self.outs, values):
            at_places(self.code, memory, value, self.along.whole(row, [place]))

    # ---- few elements ----

    def exchanged(self, row: list[Place], lanes: int | None) -> None:
        code, keys = self.code, self.keys
        found = [self.read(row, (i, 0), lanes) for i in range(self.length)]
        line = [[*ranks, *values] for ranks, values in found]
        for turn in range(self.length):
            for i in range(turn % 2, self.length - 1, 2):
                x, y = line[i : i + 2]
                turned = _before(code, y[:keys], x[:keys])
                line[i] = [code.select(turned, b, a) for a, b in zip(x, y)]
                line[i + 1] = [code.select(turned, a, b) for a, b in zip(x, y)]
        for i, record in enumerate(line):
            self.write(record[keys:], row, (i, 0))

    # ---- some elements ----

    def counted(self, row: Places) -> None:
        code, length, narrow = self.code, self.length, self.ranks[0]
        lanes = 2 * code.module.vector_bytes // size_of(narrow)
        padded = -(-length // lanes) * lanes  # what is behind the row is counted for as well, and not used
        memory = [room(code, (padded,), rank) for rank in self.ranks]
        for k, own in enumerate(memory):

            def ranked(places: Places, lanes: int | None, k: int = k) -> Value:
                return self.read(row, places[0], lanes)[0][k]

            store(code, Formula((length,), own.kind, ranked), own.pointer)
        places = room(code, (padded,), narrow)

        def load(start: Index, lanes: int | None) -> list[Value]:
            return [code.load(pointer_to(code, own, [start]), own.kind, lanes) for own in memory]

        def block(start: Index, none: list[Value]) -> list[Value]:
            own = load(start, lanes)
            here = elementwise.convert(code, place_value(code, start, 1, lanes), narrow)

            def counting(test: Callable[[list[Value], Index], Value]) -> _Step:
                def step(index: Index, carry: list[Value]) -> list[Value]:
                    other = [code.spread(rank, lanes) for rank in load(index, None)]
                    return [code.binary("add", carry[0], elementwise.convert(code, test(other, index), narrow))]

                return step

            def inside(other: list[Value], index: Index) -> Value:
                earlier = code.compare("lt", code.spread(elementwise.convert(code, code.index(index), narrow), lanes), here)
                return code.select(earlier, _before(code, other, own, "le"), _before(code, other, own))

            end = code.plus(start, lanes)
            last = min(end, length) if isinstance(end, int) else code.intrinsic("smin", end, code.constant(length, "i64"))
            count = [code.constant(0, narrow, lanes)]
            count = flow.loop(code, 0, start, 1, count, counting(lambda x, _: _before(code, x, own, "le")))
            count = flow.loop(code, start, last, 1, count, counting(inside))
            (found,) = flow.loop(code, end, length, 1, count, counting(lambda x, _: _before(code, x, own)))
            code.store(found, pointer_to(code, places, [start]))
            return none

        flow.loop(code, 0, padded, lanes, [], block)

        def move(index: Index, none: list[Value]) -> list[Value]:
            place = code.load(pointer_to(code, places, [index]), narrow)
            self.write(self.read(row, (index, 0), None)[1], row, (code.convert_integer(place, "u64").as_kind("i64"), 0))
            return none

        flow.loop(code, 0, length, 1, [], move)

    # ---- many elements ----

    def by_digits(self, row: Places) -> None:
        """Records hold ranks alone, if those say what the elements are, or nearly."""
        code, kind = self.code, self.kinds[0]
        records = Records(code, self.length, self.ranks if self.itself else [*self.ranks, *self.kinds[self.keys :]])
        neighbours = self.itself and self.axis == len(self.shape) - 1
        source, other = self.pointer(row) if neighbours else records.buffer(), records.buffer()
        spans, lost = self.packed(row, records, source)
        found = records.sorted(source, other, spans)
        if not self.itself:

            def step(index: Index, none: list[Value]) -> list[Value]:
                self.write(records.numbers(found, index)[self.keys :], row, (index, 0))
                return none

            _each(code, self.length, [], step)
            return

        def write(lanes: int | None) -> _Step:
            def step(start: Index, none: list[Value]) -> list[Value]:
                (rank,) = records.numbers(found, start, lanes)
                self.write([_unranked(code, rank, kind)], row, (start, 1 if lanes else 0))
                return none

            return step

        self.vectors([], write, [])
        if is_float(kind):
            some = code.compare("ne", lost, code.constant(0, lost.kind))
            flow.choose(code, elementwise.convert(code, some, "i64"), [list, lambda: self.restored(row)])

    def restored(self, row: Places) -> list[Value]:
        """Write zeros and NaNs as they were given, and in that order; till now all of them are the usual ones."""
        code = self.code
        usual = [_rank(code, code.constant(number, self.kinds[0])) for number in (0.0, math.nan)]

        def raised(carry: list[Value], tests: Sequence[Value]) -> list[Value]:
            return [code.binary("add", number, elementwise.convert(code, test, "i64")) for number, test in zip(carry, tests)]

        def before(index: Index, carry: list[Value]) -> list[Value]:
            (rank,), _ = self.read(row, (index, 0), None)
            return raised(carry, [code.compare("lt", rank, other) for other in usual])

        def step(index: Index, carry: list[Value]) -> list[Value]:
            (rank,), values = self.read(row, (index, 0), None)
            same = [code.compare("eq", rank, other) for other in usual]
            place = code.select(same[0], *carry)

            def put() -> list[Value]:
                self.write(values, row, (place, 0))
                return []

            flow.choose(code, elementwise.convert(code, code.binary("or", *same), "i64"), [list, put])
            return raised(carry, same)

        _each(code, self.length, _each(code, self.length, [code.constant(0, "i64")] * 2, before), step)
        return []

    def pointer(self, row: Places) -> Value:
        """Where the elements of a row go, if they are neighbours."""
        (out,) = self.outs
        return pointer_to(self.code, out, [index for index, _ in self.along.whole(row, [(0, 0)])])

    def vectors(self, carry: list[Value], step: Callable[[int | None], _Step], how: Sequence[str]) -> list[Value]:
        """A loop over a row by vectors, and one over what is left at its end; `how` the lanes of each carry are joined."""
        code = self.code
        lanes = block_lanes(code, self.length, self.ranks[0])
        lanes = 1 << lanes.bit_length() - 1
        whole = self.length // lanes * lanes
        carry = flow.loop(code, 0, whole, lanes, [code.spread(value, lanes) for value in carry], step(lanes))
        carry = flow.across(code, carry, lanes, lambda *halves: [_joined(code, *pair) for pair in zip(how, *halves)])
        return flow.loop(code, whole, self.length, 1, carry, step(None))

    def packed(self, row: Places, records: Records, pointer: Value) -> tuple[list[Span], Value]:
        """Write records. Returns between which numbers, and in which bits, the ranks of each key differ; and, where records are
        ranks alone, in which bits elements differ from those that their ranks are made into."""
        code, alone = self.code, len(records.kinds) == len(self.ranks)
        firsts, _ = self.read(row, (0, 0), None)

        def step(lanes: int | None) -> _Step:
            def body(start: Index, carry: list[Value]) -> list[Value]:
                ranks, values = self.read(row, (start, 1 if lanes else 0), lanes)
                records.put([*ranks, *values][: len(records.kinds)], pointer, start)
                found = []
                for rank, first in zip(ranks, firsts):
                    found += [code.binary("xor", rank, code.spread(first, lanes)), rank, rank]
                if alone:
                    both = values[0], _unranked(code, ranks[0], values[0].kind)
                    found.append(code.binary("xor", *[code.bitcast(x, self.ranks[0]) for x in both]))
                return [_joined(code, *pair) for pair in zip(how, carry, found)]

            return body

        how = ["or", "umin", "umax"] * self.keys + ["or"] * alone
        carry = []
        for rank, first in zip(self.ranks, firsts):
            carry += [code.constant(0, rank), first, first]
        carry += [code.constant(0, self.ranks[0])] * alone
        found = self.vectors(carry, step, how) if alone else _each(code, self.length, carry, step(None))
        return [Span(*found[3 * k : 3 * k + 3]) for k in range(self.keys)], found[-1]


def _joined(code: Code, how: str, x: Value, y: Value) -> Value:
    return code.binary(how, x, y) if how == "or" else code.intrinsic(how, x, y)


class Span(NamedTuple):
    """Where ranks lie: the bits in which they differ, the least and the largest."""

    differ: Value
    least: Value
    most: Value


class Records:
    """Rows of records, each of some numbers of these kinds, of which the first ones are ranks."""

    def __init__(self, code: Code, length: int, kinds: Sequence[str]) -> None:
        self.code, self.length, self.kinds = code, length, list(kinds)
        self.offsets = [sum(map(size_of, kinds[:k])) for k in range(len(kinds))]
        self.size = sum(map(size_of, kinds))
        self.align = self.size if len(kinds) == 1 else 1
        self.word_kinds = ["u64"] * (self.size // 8) + [f"u{8 * size}" for size in (4, 2, 1) if self.size & size]
        self.digit_bits = 11 if length >= MANY else 8
        self.counters = code.allocate(4 << self.digit_bits)

    def buffer(self) -> Value:
        return self.code.allocate(self.length * self.size)

    def numbers(self, pointer: Value, index: Index, lanes: int | None = None) -> list[Value]:
        """A record; several ones, if they are of one number each."""
        return self._read(self.kinds, pointer, index, lanes)

    def rank(self, pointer: Value, index: Index, k: int) -> Value:
        place = self.code.offset(pointer, [(index, self.size), (self.offsets[k], 1)])
        return self.code.load(place, self.kinds[k], align=self.align)

    def words(self, pointer: Value, index: Index) -> list[Value]:
        """A record in few words, to be put elsewhere."""
        return self._read(self.word_kinds, pointer, index, None)

    def _read(self, kinds: Sequence[str], pointer: Value, index: Index, lanes: int | None) -> list[Value]:
        found = []
        place = self.code.offset(pointer, [(index, self.size)])
        for kind in kinds:
            found.append(self.code.load(place, kind, lanes, align=self.align))
            place = self.code.offset(place, [(size_of(kind), 1)])
        return found

    def put(self, values: Sequence[Value], pointer: Value, index: Index) -> None:
        place = self.code.offset(pointer, [(index, self.size)])
        for value in values:
            self.code.store(value, place, align=self.align)
            place = self.code.offset(place, [(size_of(value.kind), 1)])

    def sorted(self, source: Value, other: Value, spans: Sequence[Span]) -> Value:
        """Which of two buffers has the records in order at the end; at the beginning the first one has them."""
        code = self.code
        for k, span in list(enumerate(spans))[::-1]:
            kind = self.kinds[k]
            bits = code.constant(BITS[kind], kind)
            low = self.as_i64(code.intrinsic("cttz", span.differ, extra="i1 false"))
            width = code.intrinsic("ctlz", code.binary("sub", span.most, span.least), extra="i1 false")
            high = self.as_i64(code.binary("sub", bits, width))
            if BITS[kind] <= WINDOW or len(spans) > 1:
                source, other = self.by_bits(k, span.least, low, high, source, other)
                continue
            start = code.intrinsic("smax", low, code.binary("sub", high, code.constant(WINDOW, "i64")))
            source, other = self.by_bits(k, span.least, start, high, source, other)
            rough = elementwise.convert(code, code.compare("lt", low, start), "i64")
            (moves,) = flow.choose(code, rough, [lambda: [code.constant(0, "i64")], lambda: [self.inserted(source)]])
            more = code.compare("ge", moves, code.constant(self.length, "i64"))
            source, other = self.by_bits(k, span.least, low, code.select(more, high, low), source, other)
        return source

    def as_i64(self, value: Value) -> Value:
        return self.code.convert_integer(value, "u64").as_kind("i64")

    def by_bits(self, k: int, least: Value, low: Value, high: Value, source: Value, other: Value) -> list[Value]:
        """Sort by some bits of how much a rank exceeds the least one. Returns the buffer with the records, and the other."""
        code, length, kind = self.code, self.length, self.kinds[k]
        count = 1 << self.digit_bits

        def one(carry: list[Value]) -> list[Value]:
            start, source, other = carry
            shift = code.convert_integer(start, kind)
            store(code, filled(code, (count,), "u32", 0), self.counters)

            def counter(index: Index) -> Value:
                digit = code.binary("sub", self.rank(source, index, k), least)
                digit = code.convert_integer(code.binary("lshr", digit, shift), "u64")
                digit = code.binary("and", digit, code.constant(count - 1, "u64")).as_kind("i64")
                return code.offset(self.counters, [(digit, 4)])

            def raised(pointer: Value) -> Value:
                before = code.load(pointer, "u32")
                code.store(code.binary("add", before, code.constant(1, "u32")), pointer)
                return before

            def tally(index: Index, none: list[Value]) -> list[Value]:
                raised(counter(index))
                return none

            def summed(index: Index, carry: list[Value]) -> list[Value]:
                pointer = code.offset(self.counters, [(index, 4)])
                own = code.load(pointer, "u32")
                code.store(carry[0], pointer)
                return [code.binary("add", carry[0], own)]

            def move(index: Index, none: list[Value]) -> list[Value]:
                self.put(self.words(source, index), other, self.as_i64(raised(counter(index))))
                return none

            _each(code, length, [], tally)
            flow.loop(code, 0, count, 1, [code.constant(0, "u32")], summed)
            _each(code, length, [], move)
            return [code.binary("add", start, code.constant(self.digit_bits, "i64")), other, source]

        def goes_on(carry: list[Value]) -> Value:
            return code.compare("lt", carry[0], high)

        return flow.repeat_while(code, [low, source, other], goes_on, one, PASSES)[1:]

    def inserted(self, buffer: Value) -> Value:
        """Put records into order that are nearly in order, by their only rank; the moves that it took, or as many as there are
        records, and then they are not in order."""
        code, most = self.code, self.code.constant(self.length, "i64")
        zero, one = [code.constant(n, "i64") for n in (0, 1)]

        def step(index: Index, carry: list[Value]) -> list[Value]:
            own, rank = self.words(buffer, index), self.rank(buffer, index, 0)

            def passes(carry: list[Value]) -> Value:
                place, moves = carry
                before = self.rank(buffer, code.intrinsic("smax", code.binary("sub", place, one), zero), 0)
                on = code.binary("and", code.compare("gt", place, zero), code.compare("lt", moves, most))
                return code.binary("and", on, code.compare("lt", rank, before))

            def moved(carry: list[Value]) -> list[Value]:
                before = code.binary("sub", carry[0], one)
                self.put(self.words(buffer, before), buffer, carry[0])
                return [before, code.binary("add", carry[1], one)]

            place, moves = flow.repeat_while(code, [code.index(index), *carry], passes, moved, 1)
            self.put(own, buffer, place)
            return [moves]

        (moves,) = _each(code, self.length, [zero], step)
        return moves
