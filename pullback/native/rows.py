"""A graph that does the same for each row of a batch, as one loop over blocks of rows.

The leading axes of the largest arrays are the rows. Whatever is computed row by row is computed for one block after another, in
registers, and what is not used afterwards never reaches memory. Sums over all rows are kept in registers meanwhile. A loop that
runs until the last row has ended becomes one for each block, if rows that have ended stand still.

A graph for a block is the graph itself with other shapes: its rows are one axis of the block's length. So each operation needs
to say only whether it does the same for every row, and what becomes of its parameters (`_MAPPED`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pullback.native import elementwise
from pullback.native.arrays import REGISTER_BYTES
from pullback.native.emit import kind_of
from pullback.native.graph import Graph, Node
from pullback.native.ir import size_of
from pullback.stablehlo.writer import Value

Shape = tuple[int, ...]

ROWS, SUM = "rows", "sum"  # what a value is: one for each row, or known only when all rows are done; else it is known before

MIN_ELEMENTS = 128  # of the largest array, for rows to be worth it
MIN_ROWS = 32
LARGEST_BEFORE = 4096  # elements of an array that is computed before the loop, and of which the loop would be a second pass
SMALL_END = 4  # elements of a row's results, if large rows are taken several at a time
BLOCK_VECTORS = 4  # of one computed value of a block; four times as many where there are contractions or sorts


class NotByRows(Exception):
    """An operation needs several rows at once."""


class Plan(NamedTuple):
    """How a graph is computed by rows.

    Attributes:
        prefix: the leading axes that are rows. flags: what each value is. block: how many rows are computed at a time.
    """

    prefix: Shape
    flags: dict[str, str]
    block: int

    @property
    def rows(self) -> int:
        return math.prod(self.prefix)


def plan(graph: Graph, vector_bytes: int) -> Plan | None:
    """How to compute a graph by rows; None if it is better computed as it is."""
    values = [*graph.inputs, *[value for node in graph.nodes for value in node.results]]
    if not values:
        return None
    largest = max(values, key=lambda value: math.prod(value.shape))
    if math.prod(largest.shape) < MIN_ELEMENTS:
        return None
    shapes = {value.shape for value in (*graph.outputs, largest, *graph.inputs)}
    prefixes = {shape[:k] for shape in shapes for k in range(1, len(shape) + 1)}
    for prefix in sorted(prefixes, key=lambda shape: (-len(shape), -math.prod(shape))):
        if math.prod(prefix) < MIN_ROWS:
            continue
        try:
            flags = Analysis(prefix).graph(graph, {})
        except NotByRows:
            continue
        if _worth(graph, flags) and not _large_before(graph, flags):
            block = _block(graph, prefix, flags, vector_bytes)
            if not _across_lines(graph, prefix, flags, block):
                return Plan(prefix, flags, block)
    return None


def _across_lines(graph: Graph, prefix: Shape, flags: dict[str, str], block: int) -> bool:
    """Whether blocks go beyond a line of rows in views, of which each element would be looked for. In a loop that is little."""
    if len(prefix) == 1 or prefix[-1] % block == 0 or any([node.graphs for node in graph.nodes]):
        return False
    read = {value.name for node in graph.nodes if node.results[0].name in flags for value in node.operands}
    views = [node for node in graph.nodes if node.name in _MOVES and node.results[0].name not in flags]
    return any([node.results[0].name in read and node.results[0].shape[: len(prefix)] == prefix for node in views])


def _worth(graph: Graph, flags: dict[str, str]) -> bool:
    """Whether something is computed row by row, or reductions are all that there is: products of matrices are left alone."""
    if ROWS in flags.values():
        return True
    sums = [node for node in graph.nodes if flags.get(node.results[0].name) == SUM]
    return bool(sums) and not any([node.name == "dot_general" for node in sums])


def _large_before(graph: Graph, flags: dict[str, str]) -> bool:
    """Whether something large is computed before the loop."""
    for node in graph.nodes:
        for value in node.results:
            if value.name not in flags and node.name not in _MOVES and math.prod(value.shape) > LARGEST_BEFORE:
                return True
    return False


def _block(graph: Graph, prefix: Shape, flags: dict[str, str], vector_bytes: int) -> int:
    outputs = {value.name for value in graph.outputs}
    computed = [value for node in graph.nodes for value in node.results if flags.get(value.name) == ROWS]
    if not computed:
        computed = [value for node in graph.nodes for value in node.operands if value.shape[: len(prefix)] == prefix]
    inner = [value for value in computed if value.name not in outputs] or computed
    sizes = [math.prod(value.shape[len(prefix) :]) * max(4, size_of(kind_of(value))) for value in inner]
    if not sizes:
        return 1
    if max(sizes) > REGISTER_BYTES:  # several rows share what they read, if little remains of each
        ends = [math.prod(value.shape[len(prefix) :]) for value in graph.outputs if flags.get(value.name) == ROWS]
        return 4 if ends and max(ends) <= SMALL_END and math.prod(prefix) % 4 == 0 else 1
    wide = ("dot_general", "ordered")
    several = any([node.name in wide and flags.get(node.results[0].name) == ROWS for node in graph.nodes])
    limit = vector_bytes * BLOCK_VECTORS * (4 if several else 1)
    rows = 1
    while 2 * rows * max(sizes) <= limit and 2 * rows <= math.prod(prefix):
        rows *= 2
    return rows


# ---- which values there are for each row -------------------------------------------------------------------------------


class Analysis:
    """Which values there are for each row.

    Attributes: inner, whether this is within a loop, where rows can be taken of nothing that is known whole.
    """

    def __init__(self, prefix: Shape, inner: bool = False) -> None:
        self.prefix = prefix
        self.count = len(prefix)
        self.inner = inner

    def starts(self, value: Value) -> bool:
        return value.shape[: self.count] == self.prefix

    def has_rows(self, value: Value, mark: str | None) -> bool:
        """Whether a block can have its rows of a value."""
        return mark == ROWS or (not self.inner and self.starts(value))

    def graph(self, graph: Graph, flags: dict[str, str]) -> dict[str, str]:
        """What each value of a graph is, given what some of its inputs are. Raises `NotByRows`."""
        flags = dict(flags)
        makers: dict[str, Node] = {}
        for node in graph.nodes:
            given = [flags.get(value.name) for value in node.operands]
            if SUM in given:
                if ROWS in given:
                    raise NotByRows(node.name)
                found: str | None = SUM
                marks: list[str | None] = [found] * len(node.results)
            elif node.name in ("while", "scan"):
                marks = self.loop(node, flags, makers)
            else:
                known = [value.name in graph.constants for value in node.operands]
                marks = [self.node(node, given, known)] * len(node.results)
            flags.update((value.name, mark) for value, mark in zip(node.results, marks) if mark)
            makers.update((value.name, node) for value in node.results)
        return flags

    def node(self, node: Node, given: Sequence[str | None], known: Sequence[bool]) -> str | None:
        """What the results of an operation are; `known`, which operands are constants: within a loop these are numbers, as each
        array that is a constant is an operand of the loop."""
        mapped = ROWS in given
        result = node.results[0]
        if elementwise.is_known(node.name):
            pairs = [(value, mark, number) for value, mark, number in zip(node.operands, given, known) if value.shape]
            own = [self.has_rows(value, mark) for value, mark, _ in pairs]
            if not mapped and not (self.starts(result) and any(own)):
                return None
            if not all([one or (number and self.starts(value)) for one, (value, _, number) in zip(own, pairs)]):
                raise NotByRows(node.name)
            return ROWS
        rule = _MAPPED.get(node.name)
        found = None if rule is None else rule(self, node, given)
        if mapped and found is None:
            raise NotByRows(node.name)
        return found

    def loop(self, node: Node, flags: dict[str, str], makers: dict[str, Node]) -> list[str | None]:
        """What a loop's results are: its carry may come to be of rows, over the least fixed point; `makers`, what made values
        around it."""
        given = [flags.get(value.name) for value in node.operands]
        consts = node.params["consts"]
        carried = node.params.get("carry", len(node.operands) - consts)
        carry = node.operands[consts : consts + carried]
        if ROWS not in given and not any([self.starts(value) for value in node.results[:carried]]):
            return [None] * len(node.results)
        marks = [ROWS if self.has_rows(value, flags.get(value.name)) else flags.get(value.name) for value in carry]
        body = node.graphs[-1]
        if node.name == "scan" and (ROWS in given[consts + carried :] or len(node.results) > carried):
            raise NotByRows("scan")
        while True:
            inner = self.inside(body, node, marks, flags)
            after = [mark or inner.get(out.name) for mark, out in zip(marks, body.outputs)]
            if after == marks:
                break
            marks = after
        if SUM in marks or SUM in [inner.get(out.name) for out in body.outputs]:
            raise NotByRows(node.name)
        if node.name == "scan":
            if None in marks:
                raise NotByRows(node.name)
            return list(marks)
        test = self.inside(node.graphs[0], node, marks, flags)
        if test.get(node.graphs[0].outputs[0].name) != SUM or not _stand_still(node, makers):
            raise NotByRows(node.name)
        if None in marks:
            raise NotByRows(node.name)
        return list(marks)

    def inside(self, graph: Graph, node: Node, marks: Sequence[str | None], flags: dict[str, str]) -> dict[str, str]:
        """What the values in a loop are, if its carry is as marked."""
        consts = node.params["consts"]
        found = {}
        for name, value in zip(graph.inputs[:consts], node.operands[:consts]):
            if self.has_rows(value, flags.get(value.name)):
                found[name.name] = ROWS
        found.update((name.name, mark) for name, mark in zip(graph.inputs[consts:], marks) if mark)
        return Analysis(self.prefix, True).graph(graph, found)


def _broadcast(it: Analysis, node: Node, given: Sequence[str | None]) -> str | None:
    axes, n = node.params["broadcast_dimensions"], it.count
    (x,), result = node.operands, node.results[0]
    own = axes[:n] == tuple(range(n)) and it.starts(x) and it.has_rows(x, given[0])
    alike = ROWS not in given and not any([axis < n for axis in axes])  # each row has the whole operand
    return ROWS if it.starts(result) and (own or alike) else None


def _reshape(it: Analysis, node: Node, given: Sequence[str | None]) -> str | None:
    return ROWS if ROWS in given and it.starts(node.operands[0]) and it.starts(node.results[0]) else None


def _reduce(it: Analysis, node: Node, given: Sequence[str | None]) -> str | None:
    axes, n = node.params["dimensions"], it.count
    if not it.has_rows(node.operands[0], given[0]):
        return None
    within = [axis for axis in axes if axis < n]
    if not within:
        return ROWS
    return SUM if len(within) == n else None


def _dot(it: Analysis, node: Node, given: Sequence[str | None]) -> str | None:
    numbers = node.params["dot_dimension_numbers"]
    (x, y), (of_x, of_y) = node.operands, given
    x_used, y_used = numbers.get("lhs_contracting_dimensions", ()), numbers.get("rhs_contracting_dimensions", ())
    x_batch, y_batch = numbers.get("lhs_batching_dimensions", ()), numbers.get("rhs_batching_dimensions", ())
    if it.count == 1:
        both = it.has_rows(x, of_x) and it.has_rows(y, of_y)
        if not x_batch and x_used == (0,) and y_used == (0,) and both:
            return SUM
        if x_batch and x_batch[0] == 0 and y_batch[0] == 0 and both:
            return ROWS
        if not x_batch and of_y is None and 0 not in x_used and it.has_rows(x, of_x):
            return ROWS
        if not x_batch and of_y == ROWS and of_x is None and 0 not in y_used and len(x_used) == len(x.shape):
            return ROWS
    return None


def _ordered(it: Analysis, node: Node, given: Sequence[str | None]) -> str | None:
    whole = all([it.has_rows(x, mark) for x, mark in zip(node.operands, given)])
    return ROWS if whole and node.params["dimension"] >= it.count else None


def _if_first_stays(stays: Callable[[Node], bool]) -> Callable[[Analysis, Node, Sequence[str | None]], str | None]:
    def rule(it: Analysis, node: Node, given: Sequence[str | None]) -> str | None:
        own = all([it.has_rows(value, mark) for value, mark in zip(node.operands, given) if value.shape])
        return ROWS if ROWS in given and own and it.count == 1 and stays(node) else None

    return rule


def _whole(node: Node) -> bool:
    params, size = node.params, node.operands[0].shape[0]
    return bool(params["start_indices"][0] == 0 and params["limit_indices"][0] == size and params["strides"][0] == 1)


def _own_windows(node: Node) -> bool:
    """Whether a gather takes windows of a row for that row: the first axes of operand, indices and result go together."""
    numbers = node.params["dimension_numbers"]
    paired = [numbers.get(name) for name in ("operand_batching_dims", "start_indices_batching_dims")]
    return paired == [(0,), (0,)] and 0 not in numbers.get("offset_dims", ())


# What the results are; None: known before the loop over rows, which no result is whose operands have rows.
_MAPPED: dict[str, Callable[[Analysis, Node, Sequence[str | None]], str | None]] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "reduce": _reduce,
    "dot_general": _dot,
    "transpose": _if_first_stays(lambda node: bool(node.params["permutation"][0] == 0)),
    "slice": _if_first_stays(_whole),
    "concatenate": _if_first_stays(lambda node: bool(node.params["dimension"] > 0)),
    "ordered": _ordered,
    "reverse": _if_first_stays(lambda node: 0 not in node.params["dimensions"]),
    "pad": _if_first_stays(
        lambda node: not any([node.params[key][0] for key in ("edge_padding_low", "edge_padding_high", "interior_padding")])
    ),
    "gather": _if_first_stays(_own_windows),
}

_MOVES = {"broadcast_in_dim", "reshape", "transpose", "slice", "reverse", "iota", "concatenate", "pad", "gather"}


# ---- loops that end row by row -----------------------------------------------------------------------------------------


def _stand_still(node: Node, makers: dict[str, Node]) -> bool:
    """Whether the rows of a block can be left alone as soon as the loop's test fails for all of them.

    The test has to be that some element of one part p of the carry holds. Where p is false, a step must not change the rest of
    the carry; and p must be a function of the rest, before the loop as after each step, so that it stays false too.
    """
    test, body = node.graphs
    consts = node.params["consts"]
    last = next((made for made in test.nodes if test.outputs[0].name in [value.name for value in made.results]), None)
    names = [value.name for value in test.inputs[consts:]]
    if last is None or last.name != "reduce" or last.params["how"] != "or" or last.operands[0].name not in names:
        return False
    which = names.index(last.operands[0].name)
    inside = {value.name: made for made in body.nodes for value in made.results}
    given = body.inputs[consts + which].name

    def settled(value: Value) -> str:
        """The value that another one is where p is false."""
        made = inside.get(value.name)
        if made is not None and made.name == "select" and _is_false(made.operands[0]):
            return settled(made.operands[2])
        return value.name

    def _is_false(value: Value) -> bool:
        made = inside.get(value.name)
        if value.name == given:
            return True
        if made is None:
            return False
        if made.name == "and":
            return any([_is_false(operand) for operand in made.operands])
        return made.name in ("broadcast_in_dim", "reshape", "transpose") and _is_false(made.operands[0])

    rest = [(k, out) for k, out in enumerate(body.outputs) if k != which]
    if not all([settled(out) == body.inputs[consts + k].name for k, out in rest]):
        return False
    before = _Spelling(makers, body.constants, {})
    after = _Spelling(inside, body.constants, {})
    pairs = [(out, node.operands[consts + k]) for k, out in rest] + [*zip(body.inputs[:consts], node.operands[:consts])]
    for own, outer in pairs:
        after.leaves[own.name] = functools.partial(before, outer)
    start = node.operands[consts + which]
    axes = tuple(range(len(start.shape)))
    return bool(after(body.outputs[which], axes) == before(start, axes))


class _Spelling:
    """Spells what a value is computed from, with every broadcast taken to the values that nothing is known of.

    Attributes:
        makers: what made the values. leaves: how to spell those that are given.
    """

    def __init__(self, makers: dict[str, Node], constants: dict[str, Any], leaves: dict[str, Any]) -> None:
        self.makers, self.constants, self.leaves = makers, constants, leaves
        self.seen: dict[Any, Any] = {}

    def __call__(self, value: Value, axes: tuple[int, ...]) -> Any:
        """The value, whose axis i is axis `axes[i]` of what is spelled."""
        key = value.name, axes
        if key not in self.seen:
            self.seen[key] = self._spelled(value, axes)
        return self.seen[key]

    def _spelled(self, value: Value, axes: tuple[int, ...]) -> Any:
        if value.name in self.leaves:
            return self.leaves[value.name](axes)
        number = self.constants.get(value.name)
        if number is not None:
            return number.dtype.name, number.tobytes(), axes if number.shape else ()
        node = self.makers.get(value.name)
        if node is None or node.graphs or len(node.results) > 1:
            return value.name, axes
        if node.name == "broadcast_in_dim":
            (inner,) = node.operands
            own = node.params["broadcast_dimensions"]
            if all([size == value.shape[axis] for size, axis in zip(inner.shape, own)]):
                return self(inner, tuple([axes[axis] for axis in own]))
        if not elementwise.is_known(node.name):
            return value.name, axes
        parts = [self(operand, axes if operand.shape else ()) for operand in node.operands]
        return node.name, node.spelled_params(), node.results[0].dtype.name, *parts
