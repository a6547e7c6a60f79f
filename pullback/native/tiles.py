"""A graph for one block of rows, and the loop over the blocks."""

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
    filled,
    fits,
    in_memory,
    in_registers,
    indices,
    settled,
    store,
)
from pullback.native.emit import Arrays, Emitter, Targets, kind_of
from pullback.native.graph import Graph, Node
from pullback.native.ir import Code, Index, Value, size_of
from pullback.native.loops import registers
from pullback.native.reduce import neutral, reduced
from pullback.native.rows import ROWS, SUM, Plan, analysed
from pullback.stablehlo.writer import TensorType
from pullback.stablehlo.writer import Value as Name


class Tiling:
    """The graph of a block.

    Attributes:
        views: the values of which each block sees its rows, by what the block calls them.
        sums: of the sums over all rows, by their names, how the block's part of each is called, and how parts are joined.
    """

    def __init__(self, plan: Plan, rows: int) -> None:
        self.plan, self.rows = plan, rows
        self.views: dict[str, tuple[Name, Name]] = {}
        self.sums: dict[str, tuple[Name, str, int]] = {}

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
            if by_rows and self.starts(value) and value.shape and not inner:
                view = Name(f"{value.name}.rows", self.type(value))
                self.views[value.name] = view, value
                return view
            if by_rows and inner and self.starts(value) and value.name in graph.constants:  # one number, in fewer places
                own = Name(f"{value.name}.rows", self.type(value))
                constants[own.name] = graph.constants[value.name]
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
                results, params = [self.part(node)], self._kept_rows(node, params)
            nodes.append(Node(node.name, operands, results, params, graphs, node.source))
        outputs = [read(value, True) for value in graph.outputs] if inner else []
        return Graph(inputs, nodes, outputs, constants)

    def inside(self, graph: Graph, node: Node, flags: dict[str, str], inner: bool) -> Graph:
        """The Program of a loop, for a block. What each of its inputs is follows from the operands and the results. `inner`:
        the loop is itself within one."""
        consts = node.params["consts"]
        given = {}
        for name, value in zip(graph.inputs[:consts], node.operands[:consts]):
            if flags.get(value.name) == ROWS or (not inner and self.starts(value)):
                given[name.name] = ROWS
        for name, value in zip(graph.inputs[consts:], node.results):
            if flags.get(value.name) == ROWS:
                given[name.name] = ROWS
        return self.graph(graph, analysed(graph, self.plan.prefix, given, True), True)

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
        elif node.name == "slice" and mapped:
            params["limit_indices"] = (self.rows, *params["limit_indices"][1:])
        return params

    def part(self, node: Node) -> Name:
        """What a block adds to a sum over all rows; that of a reduction keeps the rows apart, as lanes, until the end."""
        value = node.results[0]
        apart = node.name == "reduce"
        shape = (self.rows, *value.shape)
        apart = apart and fits((self.plan.block, *value.shape), kind_of(value))  # the last rows are as the others
        name = Name(f"{value.name}.part", TensorType(shape if apart else value.shape, value.dtype))
        self.sums[value.name] = name, node.params.get("how", "add"), int(apart)
        return name

    def _kept_rows(self, node: Node, params: dict[str, Any]) -> dict[str, Any]:
        _, how, apart = self.sums[node.results[0].name]
        if node.name == "reduce":
            params = {**params, "init": node.params["init"].dtype.type(neutral(how, kind_of(node.results[0])))}
            if apart:
                params["dimensions"] = params["dimensions"][1:]
        return params


def emit_by_rows(it: Emitter, graph: Graph, plan: Plan, arrays: Arrays, targets: Targets, parallel: bool) -> None:
    """Write a graph as a loop over blocks of rows: first what is needed before it, last what is made of sums.

    A `parallel` one computes the blocks from `%begin` to `%end` only.
    """
    code, flags = it.code, plan.flags
    before = [node for node in graph.nodes if not any([value.name in flags for value in node.results])]
    aims = {name: pointer for name, pointer in targets.items() if name not in flags}
    it.emit(Graph(graph.inputs, before, [], graph.constants), arrays, aims)
    tiling = Tiling(plan, plan.block)
    block = tiling.graph(graph, flags, False)
    used = {value.name for node in block.nodes for value in node.operands}
    for name, array in list(arrays.items()):
        if name in used:
            arrays[name] = in_registers(code, array) if fits(array.shape, array.kind) and array.size else settled(code, array)
    if not plan.rows % plan.block:
        rest = None
    else:
        rest = Tiling(plan, plan.rows % plan.block)
    sums = {name: _Total(it, name, tiling, graph) for name in tiling.sums}
    outputs = [name for name in targets if flags.get(name) == ROWS]
    sizes = {value.name: value for node in graph.nodes for value in node.results}

    def step(tiling: Tiling, block: Graph, row: Index) -> dict[str, Array]:
        inner = dict(arrays)
        for view, whole in tiling.views.values():
            inner[view.name] = _rows_of(code, it.read(whole, arrays, graph), plan.prefix, row, tiling.rows)
        aims = {}
        for name in outputs:
            value = sizes[name]
            size = math.prod(value.shape[len(plan.prefix) :]) * size_of(kind_of(value))
            aims[name] = code.offset(targets[name], [(row, size)])
        it.emit(block, inner, aims)
        return inner

    def along(index: flow.Row, carry: list[Value]) -> list[Value]:
        given = iter(carry)
        held = {name: total.taken(given) for name, total in sums.items()}
        inner = step(tiling, block, code.times(index[0], plan.block))
        return [v for name, total in sums.items() for v in total.added(held[name], inner[tiling.sums[name][0].name])]

    blocks = plan.rows // plan.block
    start = [value for total in sums.values() for value in total.start()]
    if parallel:
        flow.loop(code, Value("%begin", "i64"), Value("%end", "i64"), 1, [], lambda i, carry: along((i,), carry))
        ended: list[Value] = []
    else:
        merge = None
        if sums and all([total.exact for total in sums.values()]):

            def merge(x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
                first, second = iter(x), iter(y)
                return [v for total in sums.values() for v in total.merged(total.taken(first), total.taken(second))]

        ended = flow.fold(code, [blocks], start, along, merge, 1)
    given = iter(ended)
    totals = {name: total.taken(given) for name, total in sums.items()}
    if rest is not None:
        last = rest.graph(graph, flags, False)

        def tail() -> list[Value]:
            with code.scope():
                inner = step(rest, last, blocks * plan.block)
                for name, total in sums.items():
                    totals[name] = total.with_rest(totals[name], inner[rest.sums[name][0].name])
            return []

        if parallel:
            ends = code.pure(f"icmp eq i64 %end, {blocks}", "i1")
            flow.choose(code, code.pure(f"zext {ends} to i64", "i64"), [list, tail])
        else:
            tail()
    for name, total in sums.items():
        arrays[name] = total.finished(totals[name], targets.get(name))
    after = [
        node
        for node in graph.nodes
        if any([flags.get(value.name) == SUM for value in node.results]) and not any([v.name in sums for v in node.results])
    ]
    late = {name: pointer for name, pointer in targets.items() if flags.get(name) == SUM and name not in sums}
    it.emit(Graph(graph.inputs, after, [], graph.constants), arrays, late)


class _Total:
    """A sum over all rows, while it is computed: in registers, or in memory."""

    def __init__(self, it: Emitter, name: str, tiling: Tiling, graph: Graph) -> None:
        self.it, self.code = it, it.code
        part, self.how, self.apart = tiling.sums[name]
        self.node = next(node for node in graph.nodes if name in [value.name for value in node.results])
        self.kind, self.shape = kind_of(part), part.shape
        self.small = fits(self.shape, self.kind)
        zero = filled(self.code, self.shape, self.kind, neutral(self.how, self.kind))
        self.begun: Array = in_registers(self.code, zero) if self.small else in_memory(self.code, zero)
        self.exact = self.small and self.how == "add"

    def start(self) -> list[Value]:
        begun = self.begun
        return [begun.values[i] for i in indices(begun.values.shape)] if isinstance(begun, Registers) else []

    def taken(self, values: Any) -> Array:
        begun = self.begun
        if isinstance(begun, Registers):
            return registers(begun, values)
        assert isinstance(begun, Memory)
        return Memory(begun.pointer, begun.shape, begun.kind)

    def sum(self, x: Array, y: Array) -> Array:
        def element(places: Places, lanes: int | None) -> Value:
            both = [at(self.code, x, places, lanes), at(self.code, y, places, lanes)]
            return elementwise.apply(self.code, self.how, both, {}, self.kind)

        return Formula(self.shape, self.kind, element, [x, y], 1.0)

    def merged(self, x: Array, y: Array) -> list[Value]:
        both = in_registers(self.code, self.sum(x, y))
        return [both.values[i] for i in indices(both.values.shape)]

    def added(self, held: Array, part: Array) -> list[Value]:
        if self.small:
            return self.merged(held, part)
        assert isinstance(held, Memory)
        store(self.code, self.sum(held, part), held.pointer)
        return []

    def with_rest(self, held: Array, part: Array) -> Array:
        """With what the last rows add, which are fewer than a block's."""
        if self.apart:
            part = reduced(self.code, part, (0,), self.how, _number(self.how, self.kind))
            self.rest = settled(self.code, part)
            return held
        if self.small:
            return in_registers(self.code, self.sum(held, part))
        self.added(held, part)
        return self.taken(iter(()))

    rest: Array | None = None

    def finished(self, held: Array, target: Value | None) -> Array:
        init = self.node.params.get("init", _number("add", self.kind))
        out: Array = held
        if self.apart:
            out = reduced(self.code, held, (0,), self.how, _number(self.how, self.kind))
        extra = [] if self.rest is None else [self.rest]
        shape = out.shape

        def element(places: Places, lanes: int | None) -> Value:
            value = at(self.code, out, places, lanes)
            for more in extra:
                value = elementwise.apply(self.code, self.how, [value, at(self.code, more, places, lanes)], {}, self.kind)
            first = self.code.constant(init.item(), self.kind, value.lanes)
            return elementwise.apply(self.code, self.how, [value, first], {}, self.kind)

        made: Array = Formula(shape, self.kind, element, [out, *extra], 1.0)
        if fits(shape, self.kind):
            made = in_registers(self.code, made)
            if target is not None:
                store(self.code, made, target)
            return made
        return in_memory(self.code, made, target or self.code.allocate(made.size * size_of(self.kind)))


def _number(how: str, kind: str) -> Any:
    return np.float64(neutral(how, kind)) if how == "add" else np.asarray(neutral(how, kind))


def _rows_of(code: Code, array: Array, prefix: tuple[int, ...], row: Index, rows: int) -> Array:
    """The rows of a block, which begins with the row of that number."""
    shape = (rows, *array.shape[len(prefix) :])
    if len(prefix) == 1:
        return Formula(
            shape,
            array.kind,
            lambda places, lanes: at(code, array, ((code.plus(places[0][0], row), places[0][1]), *places[1:]), lanes),
            [array],
        )
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
