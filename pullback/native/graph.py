"""A Program as a graph of simple operations: StableHLO's, recorded instead of written as text.

Programs become graphs in `record.py`; here graphs are made simpler.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from pullback.core.dtypes import DTYPES, kind
from pullback.stablehlo.writer import Value

T = TypeVar("T")

_ELEMENTS = {
    DTYPES[name]: kind
    for name, kind in {
        "bool": "i1", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
        **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)}, **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    }.items()
}  # fmt: skip


def element(dtype: np.dtype[Any]) -> str | None:
    """The kind of number that elements of a dtype are; of random keys whole words. None if the tier has none."""
    if kind(dtype) == "k":
        return {4: "u32", 8: "u64"}.get(dtype.itemsize)
    return _ELEMENTS.get(dtype)


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

    def spelled_params(self) -> str:
        """The parameters as text, numbers in full: NumPy would print eight digits."""
        plain = {
            key: (x.dtype.name, x.tobytes()) if isinstance(x, np.ndarray | np.generic) else x for key, x in self.params.items()
        }
        return repr(sorted(plain.items()))


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

    def given(self, arguments: Iterable[T]) -> dict[str, T]:
        """What the first inputs are, by their names."""
        return dict(zip([value.name for value in self.inputs], arguments))

    def free(self) -> list[Value]:
        """The values of around that are used here."""
        bound = {value.name for value in self.inputs} | {value.name for node in self.nodes for value in node.results}
        found: dict[str, Value] = {}
        for value in [value for node in self.nodes for value in node.operands] + self.outputs:
            if value.name not in bound and value.name not in self.constants:
                found.setdefault(value.name, value)
        return list(found.values())

    def operation(self) -> str | None:
        """The one operation of two numbers that this is; None if it is anything else."""
        if len(self.nodes) != 1 or len(self.inputs) != 2:
            return None
        (node,) = self.nodes
        names = [value.name for value in node.operands]
        plain = names == [value.name for value in self.inputs] and node.results[0].name == self.outputs[0].name
        return node.name if plain else None


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
            key = (
                kept.name,
                tuple([value.name for value in operands]),
                kept.spelled_params(),
                tuple([value.type for value in kept.results]),
            )
            if key in seen:
                same.update((value.name, old) for value, old in zip(kept.results, seen[key]))
                continue
            seen[key] = kept.results
        nodes.append(kept)
    return _living(graph, nodes, [same.get(value.name, value) for value in graph.outputs])


def _living(graph: Graph, nodes: Sequence[Node], outputs: Sequence[Value]) -> Graph:
    """The graph with these outputs, of those of these nodes that they need."""
    used = {value.name for value in outputs}
    live = []
    for node in reversed(nodes):
        if any([value.name in used for value in node.results]):
            wanted = _without_unused(node, used)
            live.append(wanted)
            used |= {value.name for value in wanted.operands}
    return Graph(graph.inputs, live[::-1], outputs, graph.constants)


def hoisted(graph: Graph) -> Graph:
    """The graph with what is the same in each step of a loop computed once, before the loop; arrays that are constants are
    given to a loop as what is computed before it, so that a block of rows can have its rows of them."""
    nodes = []
    for node in graph.nodes:
        inner = [hoisted(part) for part in node.graphs]
        if node.name not in ("while", "scan"):
            nodes.append(Node(node.name, node.operands, node.results, node.params, inner, node.source))
            continue
        consts = node.params["consts"]
        given = [part.given(node.operands[:consts]) for part in inner]
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
        for part in inner:
            for x in [x for step in part.nodes for x in step.operands] + part.outputs:
                if x.shape and x.name in graph.constants and graph.constants[x.name].shape:
                    moved[x.name] = x
        extra = list(moved.values())
        inner = [Graph([*extra, *part.inputs], part.nodes, part.outputs, part.constants) for part in inner]
        params = {**node.params, "consts": consts + len(extra)}
        nodes.append(Node(node.name, [*extra, *node.operands], node.results, params, inner, node.source))
    return Graph(graph.inputs, nodes, graph.outputs, graph.constants)


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
    smaller = _living(body, body.nodes, [body.outputs[i] for i in kept])
    return Node(node.name, node.operands, [node.results[i] for i in kept], node.params, [smaller], node.source)
