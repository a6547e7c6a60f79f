"""A graph for one block of rows, and the loop over the blocks."""

from __future__ import annotations

import math
from typing import Any

from pullback.native import elementwise, flow
from pullback.native.arrays import (
    Array,
    Formula,
    Memory,
    Place,
    Places,
    at,
    fits,
    in_registers,
    settled,
    store,
    view,
)
from pullback.native.emit import Arrays, Emitter, Targets, kind_of
from pullback.native.graph import Graph, Node
from pullback.native.ir import Code, Index, Value, size_of
from pullback.native.reduce import neutral
from pullback.native.rows import ROWS, SUM, Analysis, Plan
from pullback.native.totals import Division, Total, sums, wait
from pullback.stablehlo.writer import TensorType
from pullback.stablehlo.writer import Value as Name


class Tiling:
    """The graph of a block.

    Attributes:
        views: the values of which each block sees its rows, by what the block calls them.
        sums: what the block adds to each sum over all rows; it has one axis more if the rows are kept apart, as lanes.
    """

    def __init__(self, plan: Plan, rows: int) -> None:
        self.plan, self.rows = plan, rows
        self.views: dict[str, tuple[Name, Name]] = {}
        self.sums: dict[str, Name] = {}

    def starts(self, value: Name) -> bool:
        return value.shape[: len(self.plan.prefix)] == self.plan.prefix

    def type(self, value: Name) -> TensorType:
        return TensorType((self.rows, *value.shape[len(self.plan.prefix) :]), value.dtype)

    def graph(self, graph: Graph, flags: dict[str, str], inner: bool) -> Graph:
        """The graph for a block. Within a loop (`inner`) its inputs are those of the block, and sums are of the block."""
        names: dict[str, Name] = {}
        constants = dict(graph.constants)

        def made(value: Name) -> Name:
            name = Name(value.name, self.type(value)) if flags.get(value.name) == ROWS else value
            names[value.name] = name
            return name

        def read(value: Name, by_rows: bool) -> Name:
            if value.name in names:
                return names[value.name]
            if by_rows and self.starts(value) and value.shape:
                own = Name(f"{value.name}.rows", self.type(value))
                number = graph.constants.get(value.name)
                if number is not None and not number.shape:  # in fewer places
                    constants[own.name] = number
                    return own
                if not inner:
                    self.views[value.name] = own, value
                    return own
            return value

        inputs = [made(value) for value in graph.inputs] if inner else []
        nodes = []
        for node in graph.nodes:
            mark = next((flags[value.name] for value in node.results if value.name in flags), None)
            if mark is None and not inner:
                continue
            if mark == SUM and not inner and any([flags.get(value.name) == SUM for value in node.operands]):
                continue  # what is made of sums comes after the loop
            operands = [read(value, wanted) for value, wanted in zip(node.operands, self.wanted(node, flags))]
            params, graphs = self.params(node, flags), node.graphs
            if node.name in ("while", "scan"):
                graphs = tuple([self.inside(inner_graph, node, flags, inner) for inner_graph in graphs])
            results = [made(value) for value in node.results]
            if mark == SUM and not inner:
                part, params = self.part(node, params)
                results = [part]
            nodes.append(Node(node.name, operands, results, params, graphs, node.source))
        outputs = [read(value, True) for value in graph.outputs] if inner else []
        return Graph(inputs, nodes, outputs, constants)

    def inside(self, graph: Graph, node: Node, flags: dict[str, str], inner: bool) -> Graph:
        """The Program of a loop, for a block. What each of its inputs is follows from the operands and the results. `inner`:
        the loop is itself within one."""
        marks = [flags.get(value.name) for value in node.results]
        return self.graph(graph, Analysis(self.plan.prefix, inner).inside(graph, node, marks, flags), True)

    def wanted(self, node: Node, flags: dict[str, str]) -> list[bool]:
        """Which operands are taken row by row, of those that are known whole."""
        every = [True] * len(node.operands)
        if node.name == "broadcast_in_dim":
            count = len(self.plan.prefix)
            return [node.params["broadcast_dimensions"][:count] == tuple(range(count))]
        if node.name == "scan":
            return [i < node.params["consts"] + node.params["carry"] for i in range(len(node.operands))]
        if node.name != "dot_general":
            return every
        numbers = node.params["dot_dimension_numbers"]
        if flags.get(node.results[0].name) == SUM or numbers.get("lhs_batching_dimensions"):
            return every
        mapped = [flags.get(value.name) == ROWS for value in node.operands]
        return mapped if any(mapped) else [True, False]

    def params(self, node: Node, flags: dict[str, str]) -> dict[str, Any]:
        """The parameters of a node for a block: axes are counted with the rows as one, and rows are as many as it has."""
        params, shift = dict(node.params), len(self.plan.prefix) - 1
        count = shift + 1
        mapped = flags.get(node.results[0].name) == ROWS
        if node.name == "broadcast_in_dim" and mapped:
            axes = params["broadcast_dimensions"]
            own = axes[:count] == tuple(range(count)) and bool(axes)
            params["broadcast_dimensions"] = ((0,) if own else ()) + tuple(
                [axis - shift for axis in axes[count if own else 0 :]]
            )
        elif node.name == "reduce" and (mapped or flags.get(node.results[0].name) == SUM):
            inner = tuple([axis - shift for axis in params["dimensions"] if axis >= count])
            params["dimensions"] = inner if mapped else (0, *inner)
        elif node.name == "ordered" and mapped:
            params["dimension"] -= shift
        elif node.name == "slice" and mapped:
            params["limit_indices"] = (self.rows, *params["limit_indices"][1:])
        return params

    def part(self, node: Node, params: dict[str, Any]) -> tuple[Name, dict[str, Any]]:
        """What a block adds to a sum over all rows, and the parameters of what computes it."""
        value = node.results[0]
        shape = value.shape
        if node.name == "reduce":
            params["init"] = value.dtype.type(neutral(params["how"], kind_of(value)))
            if fits((self.plan.block, *shape), kind_of(value)):  # the rows that are left are as the others
                shape, params["dimensions"] = (self.rows, *shape), params["dimensions"][1:]
        self.sums[value.name] = name = Name(f"{value.name}.part", TensorType(shape, value.dtype))
        return name, params


def emit_by_rows(
    it: Emitter, graph: Graph, plan: Plan, arrays: Arrays, targets: Targets, division: Division | None
) -> tuple[int, float]:
    """Write a graph as a loop over blocks of rows: first what is needed before it, last what is made of sums.

    One that is divided computes the chunks from `%begin` to `%end` only, and what follows it in the text is for the call that
    finds all chunks done. Returns how many bytes the calls share, and what that weighs which each of them does.
    """
    code, flags, blocks, weight = it.code, plan.flags, plan.rows // plan.block, it.code.weight
    early, late = ({name: at for name, at in targets.items() if flags.get(name) == mark} for mark in (None, SUM))
    before = [node for node in graph.nodes if not any([value.name in flags for value in node.results])]
    it.emit(Graph(graph.inputs, before, [], graph.constants), arrays, {} if division else early)
    weight = code.weight - weight
    tiling = Tiling(plan, plan.block)
    block = tiling.graph(graph, flags, False)
    used = {value.name for node in block.nodes for value in node.operands}
    for name, array in list(arrays.items()):
        if name in used:
            arrays[name] = in_registers(code, array) if fits(array.shape, array.kind) and array.size else settled(code, array)
    outputs = [name for name in targets if flags.get(name) == ROWS]
    sizes = {value.name: value for node in graph.nodes for value in node.results}
    chunk, left = division.chunk if division else blocks, plan.rows % plan.block
    chunks = -(-blocks // chunk)
    parts = chunks + (left > 0)
    totals = [Total(code, node, tiling.sums[node.results[0].name], parts) for node in sums(graph, flags)]
    shared = 0
    for total in totals:
        if division is not None:
            total.place(code.offset(division.shared, [(shared, 1)]))
            shared += -(-parts * total.size // 64) * 64
        elif left:
            total.place(code.allocate(parts * total.size))

    def step(tiling: Tiling, block: Graph, row: Index) -> Arrays:
        inner = dict(arrays)
        for part, whole in tiling.views.values():
            inner[part.name] = _rows_of(code, it.read(whole, arrays, graph), plan.prefix, row, tiling.rows)
        aims = {}
        for name in outputs:
            value = sizes[name]
            size = math.prod(value.shape[len(plan.prefix) :]) * size_of(kind_of(value))
            aims[name] = code.offset(targets[name], [(row, size)])
        it.emit(block, inner, aims)
        return inner

    def fresh() -> list[Value]:
        return [value for total in totals for value in total.fresh()]

    def merge(x: list[Value], y: list[Value]) -> list[Value]:
        first, second = iter(x), iter(y)
        return [value for total in totals for value in total.merged(total.taken(first), total.taken(second))]

    def along(index: Index, carry: list[Value]) -> list[Value]:
        given = iter(carry)
        held = [total.taken(given) for total in totals]
        inner = step(tiling, block, code.times(index, plan.block))
        return [value for total, x in zip(totals, held) for value in total.merged(x, inner[total.part.name])]

    def of_chunk(index: Index, nothing: list[Value]) -> list[Value]:
        start, stop = code.times(index, chunk), None
        if blocks % chunk:
            stop = code.intrinsic("smin", code.index(code.plus(start, chunk)), code.index(blocks))
        ended = iter(flow.parted(code, start, chunk, stop, fresh(), fresh, along, merge if totals else None))
        for total in totals:
            total.ended(index, total.taken(ended))
        return nothing

    def of_rest() -> list[Value]:
        rest = Tiling(plan, left)
        last = rest.graph(graph, flags, False)
        with code.scope():
            inner = step(rest, last, blocks * plan.block)
            for total in totals:
                total.ended(chunks, inner[total.part.name])
        return []

    if division is None:
        of_chunk(0, [])
        if left:
            of_rest()
    else:
        begin, end = Value("%begin", "i64"), Value("%end", "i64")
        flow.loop(code, begin, end, 1, [], of_chunk, chunks)
        if left:
            ends = code.pure(f"icmp eq {end}, {chunks}", "i1")
            flow.choose(code, elementwise.convert(code, ends, "i64"), [list, of_rest])
        if early or late or division.more:
            wait(code, division, chunks)
        for name, target in early.items():
            store(code, arrays[name], target)
    arrays.update({total.parts.name: total.whole for total in totals})
    joined = {total.node.results[0].name: total.node for total in totals}
    after = [joined.get(node.results[0].name, node) for node in graph.nodes if flags.get(node.results[0].name) == SUM]
    it.emit(Graph(graph.inputs, after, [], graph.constants), arrays, late)
    return shared, weight


def _rows_of(code: Code, array: Array, prefix: tuple[int, ...], row: Index, rows: int) -> Array:
    """The rows of a block, which begins with the row of that number."""
    shape = (rows, *array.shape[len(prefix) :])
    if len(prefix) == 1:
        return view(code, array, shape, lambda places: [(code.plus(places[0][0], row), places[0][1]), *places[1:]])
    if isinstance(array, Memory):
        flat = Memory(array.pointer, (math.prod(prefix), *array.shape[len(prefix) :]), array.kind, array.constant)
        return _rows_of(code, flat, (math.prod(prefix),), row, rows)

    def split(index: Index) -> list[Index]:
        """The indices of a row along the axes of the prefix."""
        out: list[Index] = []
        for size in reversed(prefix[1:]):
            if isinstance(index, int):
                index, rest = divmod(index, size)
                out.insert(0, rest)
            else:
                out.insert(0, code.pure(f"urem {index}, {size}", "i64", weight=4.0))
                index = code.pure(f"udiv {index}, {size}", "i64", weight=4.0)
        return [index, *out]

    def element(places: Places, lanes: int | None) -> Value:
        (index, step), *rest = places
        first = code.plus(index, row)
        if lanes is None or not step:
            return at(code, array, (*[(one, 0) for one in split(first)], *rest), lanes)
        if step == 1 and prefix[-1] % rows == 0 and lanes <= rows:  # a block lies within one line of rows
            lead: list[Place] = [(one, 0) for one in split(first)]
            return at(code, array, (*lead[:-1], (lead[-1][0], 1), *rest), lanes)
        found = []
        for lane in range(lanes):
            inner = [(code.plus(i, s * lane), 0) for i, s in rest]
            found.append(at(code, array, (*[(one, 0) for one in split(code.plus(first, step * lane))], *inner), None))
        return code.joined(found)

    return Formula(shape, array.kind, element, [array])
