"""A Program as a graph of simple operations: StableHLO's, recorded instead of written as text.

The recorder is the writer that a primitive's lowering rule gets. So each primitive, a user's too, is known to this tier by the
rule that it has for XLA; what is better said another way has a rule of its own (`platforms = {"native": rule}`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pullback.core.dtypes import kind as kind_of
from pullback.engine.lower import Lowering, Module
from pullback.program.equation import Equation
from pullback.program.program import Program
from pullback.stablehlo.writer import Region, TensorType, Value

ELEMENTS = {
    "bool": "i1", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)}, **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
}  # fmt: skip

_NUMBERS = re.compile(r"(\w+) = (?:\[([^\]]*)\]|(\d+))")


class Refused(Exception):
    """The tier does not take a Program. The text says why: what it lacks, by the primitive's name."""


class Node:
    """One operation of a graph.

    Attributes:
        name: StableHLO's, without the dialect. params: its attributes, as numbers. graphs: its regions.
        source: the name of the primitive whose rule wrote it.
    """

    __slots__ = ("graphs", "name", "operands", "params", "results", "source")

    def __init__(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[Value],
        params: dict[str, Any],
        graphs: Sequence[Graph],
        source: str,
    ) -> None:
        self.name = name
        self.operands = list(operands)
        self.results = list(results)
        self.params = params
        self.graphs = tuple(graphs)
        self.source = source


class Graph:
    """Nodes in the order in which they can be computed. Values are known by their names.

    Attributes:
        constants: arrays, by the names of the values that are them; a 0-d array fills its value.
    """

    def __init__(
        self, inputs: Sequence[Value], nodes: list[Node], outputs: Sequence[Value], constants: dict[str, np.ndarray[Any, Any]]
    ) -> None:
        self.inputs = list(inputs)
        self.nodes = nodes
        self.outputs = list(outputs)
        self.constants = constants

    def free(self) -> list[Value]:
        """The values of around that are used here."""
        bound = {value.name for value in self.inputs} | {value.name for node in self.nodes for value in node.results}
        found: dict[str, Value] = {}
        for value in [value for node in self.nodes for value in node.operands] + self.outputs:
            if value.name not in bound and value.name not in self.constants:
                found.setdefault(value.name, value)
        return list(found.values())


class Recorder(Lowering):
    """Records what lowering rules write. Its `lines` are nodes."""

    def __init__(self) -> None:
        super().__init__(Module("native", located=False), {})
        self.lines: list[Any] = []
        self.known: dict[str, np.ndarray[Any, Any]] = {}
        self.source = ""

    # ---- what rules call ----

    def elementwise(self, name: str, *operands: Value, result: TensorType | None = None) -> Value:
        return self.many(name, operands, [result or operands[0].type])[0]

    def many(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[TensorType],
        regions: Sequence[Any] = (),
        **attributes: Any,
    ) -> list[Value]:
        outs = [self.fresh(_accepted(type, self.source)) for type in results]
        params = {key: _numbers(text) for key, text in attributes.items()}
        name = name.removeprefix("stablehlo.")
        operands = list(operands)
        if regions and name in ("while", "case", "if"):  # what they use from around becomes an operand
            free = list({value.name: value for region in regions for value in region.free()}.values())
            lead = 0 if name == "while" else 1
            inputs = [[*free, *region.inputs] for region in regions]
            regions = [Graph(given, r.nodes, r.outputs, r.constants) for given, r in zip(inputs, regions)]
            operands = [*operands[:lead], *free, *operands[lead:]]
            params["consts"] = len(free)
        self.lines.append(Node(name, operands, outs, params, regions, self.source))
        return outs

    def constant(self, value: Any, type: TensorType | None = None) -> Value:
        array = np.asarray(value) if type is None else np.asarray(value, type.dtype)
        type = type or TensorType(array.shape, array.dtype)
        if array.size and (array.shape == () or array.tobytes() == array.ravel()[:1].tobytes() * array.size):
            array = array.ravel()[0].reshape(()) if array.shape else array
        key = (array.tobytes(), type)
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = self.fresh(_accepted(type, self.source))
            self.known[found.name] = array
        return found

    def compare(self, direction: str, x: Value, y: Value) -> Value:
        result = TensorType(x.shape, np.dtype(bool))
        return self.many("stablehlo.compare", [x, y], [result], predicate=direction.lower())[0]

    def reduce(self, name: str | Callable[..., Value], value: Value, init: Any, axes: Sequence[int]) -> Value:
        axes = tuple(axes)
        result = TensorType(tuple(s for axis, s in enumerate(value.shape) if axis not in axes), value.dtype)
        how = None if callable(name) else name.removeprefix("stablehlo.")
        if how is None:
            raise Refused(f"{self.source} combines elements by a rule of its own")
        init = np.asarray(init, value.dtype)
        return self.many("stablehlo.reduce", [value], [result], dimensions=axes, how=how, init=init)[0]

    @contextmanager
    def region(self, types: Sequence[TensorType]) -> Iterator[Region]:
        outer_lines, outer_constants = self.lines, self._constants
        self.lines, self._constants = [], {}
        region: Any = Region([self.fresh(type) for type in types])
        try:
            yield region
            region.text = Graph(region.arguments, self.lines, region.results, self.known)
        finally:
            self.lines, self._constants = outer_lines, outer_constants

    def call(self, program: Program, *args: Value) -> list[Value]:
        return self.inline(program, *args)

    def scan(
        self,
        body: Program,
        consts: Sequence[Value],
        carry: Sequence[Value],
        stacked: Sequence[Value],
        length: int,
        reverse: bool,
    ) -> list[Value]:
        """A loop of known length that stacks what its steps return: what `control.scan` is. Its body is a Program."""
        types = [TensorType(x.shape[1:], x.dtype) for x in stacked]
        with self.region([value.type for value in [*consts, *carry]] + types) as region:
            region.returns(*self.inline(body, *region.arguments))
        results = list(self.result_types)
        graph: Any = region.text
        free = graph.free()
        graph.inputs[:0] = free
        consts = [*free, *consts]
        params = {"consts": len(consts), "carry": len(carry), "length": length, "reverse": reverse}
        outs = [self.fresh(_accepted(type, self.source)) for type in results]
        self.lines.append(Node("scan", [*consts, *carry, *stacked], outs, params, [graph], self.source))
        return outs

    def host_call(self, *given: Any, **options: Any) -> list[Value]:
        raise Refused(f"{self.source} calls a Python function")

    def _equation(self, equation: Equation, atoms: Sequence[Any]) -> Any:
        outer, results = self.source, self.result_types
        self.source = equation.primitive.name
        for variable in equation.outputs:
            _accepted(TensorType(variable.type.shape, variable.type.dtype), self.source)
        out = super()._equation(equation, atoms)
        self.source, self.result_types = outer, results
        return out


def _accepted(type: TensorType, source: str) -> TensorType:
    if type.dtype.name not in ELEMENTS:
        name = "random keys" if kind_of(type.dtype) == "k" else type.dtype.name
        raise Refused(f"{source} computes in {name}" if source else f"the program takes {name}")
    return type


def _numbers(text: Any) -> Any:
    """An attribute's text as numbers: a tuple of an array, a dict of what has names; else as it is."""
    if not isinstance(text, str):
        return text
    if text.startswith("array<i64"):
        return tuple([int(part) for part in text[9:-1].lstrip(":").split(",") if part.strip()])
    if text.endswith(" : i64"):
        return int(text[:-6])
    if text.startswith("#stablehlo."):
        pairs = _NUMBERS.findall(text)
        return {key: int(one) if one else tuple([int(p) for p in many.split(",") if p.strip()]) for key, many, one in pairs}
    return text


def record(program: Program) -> Graph:
    """A Program as a graph. Raises `Refused` where there is a primitive or dtype that the tier does not know."""
    recorder = Recorder()
    inputs = [recorder.fresh(_accepted(TensorType(type.shape, type.dtype), "")) for type in program.input_types]
    outputs = recorder.inline(program, *inputs)
    return simplified(hoisted(Graph(inputs, recorder.lines, outputs, recorder.known)))


# ---- simplification ----------------------------------------------------------------------------------------------------


def simplified(graph: Graph) -> Graph:
    """The graph without operations that do nothing, are there twice, or serve nobody."""
    same: dict[str, Value] = {}
    seen: dict[Any, list[Value]] = {}
    nodes = []
    for node in graph.nodes:
        operands = [same.get(value.name, value) for value in node.operands]
        kept = Node(node.name, operands, node.results, node.params, [simplified(inner) for inner in node.graphs], node.source)
        if _does_nothing(kept):
            same[kept.results[0].name] = operands[0]
            continue
        if not kept.graphs:
            names = tuple([_identity(value, graph.constants) for value in operands])
            key = (kept.name, names, repr(sorted(kept.params.items())), tuple([value.type for value in kept.results]))
            if key in seen:
                same.update((value.name, old) for value, old in zip(kept.results, seen[key]))
                continue
            seen[key] = kept.results
        nodes.append(kept)
    outputs = [same.get(value.name, value) for value in graph.outputs]
    used = {value.name for value in outputs}
    live = []
    for node in reversed(nodes):
        if any([value.name in used for value in node.results]):
            wanted = _without_unused(node, used)
            live.append(wanted)
            used |= {value.name for value in wanted.operands}
    return Graph(graph.inputs, live[::-1], outputs, graph.constants)


def hoisted(graph: Graph) -> Graph:
    """The graph with what is the same in each step of a loop computed once, before the loop."""
    nodes = []
    for node in graph.nodes:
        inner = [hoisted(part) for part in node.graphs]
        if node.name not in ("while", "scan"):
            nodes.append(Node(node.name, node.operands, node.results, node.params, inner, node.source))
            continue
        consts = node.params["consts"]
        given = [dict(zip([name.name for name in part.inputs[:consts]], node.operands)) for part in inner]
        moved: dict[str, Value] = {}
        for i, part in enumerate(inner):
            kept = []
            for step in part.nodes:
                outside = [given[i].get(x.name, x if x.name in graph.constants else None) for x in step.operands]
                if step.graphs or None in outside:
                    kept.append(step)
                    continue
                found = [x for x in outside if x is not None]
                nodes.append(Node(step.name, found, step.results, step.params, (), step.source))
                moved.update((value.name, value) for value in step.results)
                given[i].update((value.name, value) for value in step.results)
            inner[i] = Graph(part.inputs, kept, part.outputs, part.constants)
        extra = list(moved.values())
        inner = [Graph([*extra, *part.inputs], part.nodes, part.outputs, part.constants) for part in inner]
        params = {**node.params, "consts": consts + len(extra)}
        nodes.append(Node(node.name, [*extra, *node.operands], node.results, params, inner, node.source))
    return Graph(graph.inputs, nodes, graph.outputs, graph.constants)


def _identity(value: Value, constants: dict[str, np.ndarray[Any, Any]]) -> Any:
    array = constants.get(value.name)
    return value.name if array is None else (array.tobytes(), value.type)


def _does_nothing(node: Node) -> bool:
    if node.name == "broadcast_in_dim":
        shape = node.operands[0].shape
        return shape == node.results[0].shape and node.params["broadcast_dimensions"] == tuple(range(len(shape)))
    return node.name in ("convert", "reshape", "bitcast_convert") and node.operands[0].type == node.results[0].type


def _without_unused(node: Node, used: set[str]) -> Node:
    """A scan without the stacked results that nobody uses."""
    if node.name != "scan":
        return node
    carry = node.params["carry"]
    kept = [i for i, value in enumerate(node.results) if i < carry or value.name in used]
    if len(kept) == len(node.results):
        return node
    body = node.graphs[0]
    smaller = simplified(Graph(body.inputs, body.nodes, [body.outputs[i] for i in kept], body.constants))
    return Node(node.name, node.operands, [node.results[i] for i in kept], node.params, [smaller], node.source)
