"""Sums over all rows, and other reductions: of the chunks into which the rows are divided, and of these.

What a chunk adds is kept in its place in memory that all calls of a kernel share. The call that finds all chunks done joins
them, in an order that depends on how many there are, and on nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pullback.native import elementwise
from pullback.native.arrays import (
    Array,
    Formula,
    Memory,
    Places,
    Registers,
    at,
    broadcast,
    filled,
    fits,
    in_memory,
    in_registers,
    store,
)
from pullback.native.emit import kind_of
from pullback.native.graph import Graph, Node
from pullback.native.ir import Code, Index, Value, size_of
from pullback.native.reduce import neutral, reduced
from pullback.native.rows import SUM, Plan
from pullback.stablehlo.writer import TensorType
from pullback.stablehlo.writer import Value as Name

CHUNK_WEIGHT = 25_000  # at least, of which the partial sums are kept: some 4 us
MAX_CHUNKS = 256
SHARED_BYTES = 1 << 22  # of partial sums at most
JOINING = 0.1  # of the weight at most, to join them


class Division(NamedTuple):
    """How the rows are divided among calls that share memory.

    Attributes:
        chunk: of how many blocks. shared: where the memory is. done: where the chunks that were done are counted.
        more: whether something is to be written after all of them that is no result of the rows.
    """

    chunk: int
    shared: Value
    done: Value
    more: bool


def chunk_of(graph: Graph, plan: Plan, weight: float, vector_bytes: int) -> int:
    """How many blocks make a chunk, which is what threads take, if all rows weigh so much. Sums are added up chunk by chunk, so
    this depends on nothing else: not on how many threads there are."""
    blocks = plan.rows // plan.block
    found = [value for node in sums(graph, plan.flags) for value in node.results]
    if not found:
        return 1
    size = sum([max(math.prod(value.shape) * size_of(kind_of(value)), vector_bytes) for value in found])
    chunks = min(blocks, MAX_CHUNKS, weight / CHUNK_WEIGHT, SHARED_BYTES / size, JOINING * weight / (3 * size / vector_bytes))
    return blocks if chunks < 2 else 1 << math.ceil(math.log2(blocks / chunks))


def sums(graph: Graph, flags: dict[str, str]) -> list[Node]:
    """What adds up all rows; what is computed of such sums is not among it."""
    marked = [node for node in graph.nodes if flags.get(node.results[0].name) == SUM]
    return [node for node in marked if not any([flags.get(value.name) == SUM for value in node.operands])]


def wait(code: Code, division: Division, chunks: int) -> None:
    """What follows is for the call alone that finds all chunks done: what others have written of them is seen there."""
    mine = code.result("sub i64 %end, %begin", "i64")
    before = code.result(f"atomicrmw add {division.done}, {mine} acq_rel", "i64")
    done = code.result(f"add {before}, {mine.text}", "i64")
    last = code.result(f"icmp eq {done}, {chunks}", "i1")
    code.lines += [f"br {last}, label %last, label %others", "others:", "ret i32 0"]
    code.label("last")


class Total:
    """A sum over all rows, or another reduction: in registers or in memory while a chunk is computed, then one of the parts.

    Attributes:
        part: what a block adds. parts: what the chunks add, and the rows that are left. node: what joins the parts.
        whole: the parts, those that have ended so far.
    """

    def __init__(self, code: Code, node: Node, part: Name, count: int) -> None:
        self.code, self.part, (result,) = code, part, node.results
        self.how, self.apart = node.params.get("how", "add"), part.shape != result.shape
        self.kind = kind_of(result)
        zero = filled(code, self.part.shape, self.kind, neutral(self.how, self.kind))
        self.zero: Array = in_registers(code, zero) if fits(zero.shape, self.kind) else zero
        self.parts = Name(f"{result.name}.parts", TensorType((count, *result.shape), result.dtype))
        params = {"dimensions": (0,), "how": self.how, "init": node.params.get("init", np.zeros((), result.dtype))}
        self.node = Node("reduce", [self.parts], [result], params, (), node.source)
        self.size = math.prod(result.shape) * size_of(self.kind)
        self.whole: Array = filled(code, self.parts.shape, self.kind, neutral(self.how, self.kind))

    def place(self, pointer: Value) -> None:
        """Keep the parts in memory."""
        self.whole = Memory(pointer, self.parts.shape, self.kind)

    def fresh(self) -> list[Value]:
        if isinstance(self.zero, Registers):
            return self.zero.flat
        return [in_memory(self.code, self.zero).pointer]

    def taken(self, values: Iterator[Value]) -> Array:
        if isinstance(self.zero, Registers):
            return self.zero.holding(values)
        return Memory(next(values), self.zero.shape, self.kind)

    def merged(self, x: Array, y: Array) -> list[Value]:
        def element(places: Places, lanes: int | None) -> Value:
            both = [at(self.code, x, places, lanes), at(self.code, y, places, lanes)]
            return elementwise.apply(self.code, self.how, both, {}, self.kind)

        both = Formula(x.shape, self.kind, element, [x, y], 1.0)
        if isinstance(x, Memory):
            store(self.code, both, x.pointer)
            return [x.pointer]
        return in_registers(self.code, both).flat

    def ended(self, index: Index, held: Array) -> None:
        """Take in what the chunk of this number adds."""
        if self.apart:
            least = np.float64 if self.how == "add" else np.asarray
            held = reduced(self.code, held, (0,), self.how, least(neutral(self.how, self.kind)))
        if isinstance(self.whole, Memory):
            store(self.code, held, self.code.offset(self.whole.pointer, [(index, self.size)]))
        else:
            self.whole = broadcast(self.code, held, self.parts.shape, range(1, len(self.parts.shape)))
