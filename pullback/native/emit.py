"""The operations of a graph as code: what each makes of the arrays that it is given."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pullback.native import elementwise
from pullback.native.arrays import (
    Array,
    Formula,
    Memory,
    Place,
    Places,
    Registers,
    at,
    broadcast,
    concatenated,
    filled,
    fits,
    in_memory,
    in_registers,
    reshaped,
    scalar,
    settled,
    sliced,
    spilled,
    store,
    store_region,
    transposed,
)
from pullback.native.graph import Graph, Node, Refused, element
from pullback.native.ir import Code, Index, Value, size_of
from pullback.native.reduce import SHORT, contraction, reduced
from pullback.stablehlo.writer import Value as Name

Arrays = dict[str, Array]
Targets = dict[str, Value]  # where values are to be written, by their names

DEEPEST = 64  # so many formulas may read one another: each is a call in Python while code is written
COSTLY = 4.0  # a formula that costs more, and that several roots read, is computed once, into memory

_VIEWS = {"broadcast_in_dim", "reshape", "transpose", "slice", "reverse", "iota", "dynamic_slice", "gather"}


class Emitter:
    """Writes graphs.

    Attributes:
        constants: the arrays that the code finds in memory, by the names of the values that are them.
        sorting: how much of the weight is that of sorts.
    """

    def __init__(self, code: Code, constants: Arrays) -> None:
        self.code = code
        self.constants = constants
        self.sorting = 0.0

    def read(self, name: Name, arrays: Arrays, graph: Graph) -> Array:
        found = arrays.get(name.name)
        if found is not None:
            return found
        number = graph.constants[name.name]
        if number.shape == () and number.size:
            made: Array = filled(self.code, name.shape, kind_of(name), number.item())
        elif not number.size:
            made = filled(self.code, name.shape, kind_of(name), 0)
        else:
            made = self.constants[name.name]
        arrays[name.name] = made
        return made

    def emit(self, graph: Graph, arrays: Arrays, targets: Targets | None = None) -> list[Array]:
        """The outputs of a graph, given its inputs; those that have targets are written there."""
        targets = targets or {}
        roots = _roots(graph, targets)
        for node in graph.nodes:
            operands = [self.read(name, arrays, graph) for name in node.operands]
            made = self.node(node, operands, targets)
            for name, array in zip(node.results, made, strict=True):
                arrays[name.name] = self._kept(array, targets.get(name.name), len(roots.get(name.name, ())))
        return [self.read(name, arrays, graph) for name in graph.outputs]

    def _kept(self, array: Array, target: Value | None, readers: int) -> Array:
        """What is remembered of a result: a small one is computed now, and so is a costly one that several roots read."""
        if target is not None:
            if isinstance(array, Memory) and array.pointer is target:
                return array
            if fits(array.shape, array.kind):
                array = in_registers(self.code, array)
                store(self.code, array, target)
                return array
            return in_memory(self.code, array, target)
        if not isinstance(array, Formula):
            return array
        if fits(array.shape, array.kind):
            return in_registers(self.code, array)
        return in_memory(self.code, array) if array.depth > DEEPEST or (array.cost > COSTLY and readers > 1) else array

    def node(self, node: Node, operands: list[Array], targets: Targets) -> list[Array]:
        """The results of one operation."""
        if 0 in node.results[0].shape and not node.graphs:
            return [filled(self.code, name.shape, kind_of(name), 0) for name in node.results]
        rule = _RULES.get(node.name)
        if rule is not None:
            found = rule(self, node, operands, targets)
            return found if isinstance(found, list) else [found]
        if elementwise.is_known(node.name):
            return [self.elementwise(node, operands)]
        raise Refused(f"there is no {node.name} in native code, which {node.source} needs")

    def elementwise(self, node: Node, operands: list[Array]) -> Array:
        code, kind, params = self.code, kind_of(node.results[0]), node.params

        def element(places: Places, lanes: int | None) -> Value:
            values = [at(code, x, places, lanes) if x.shape else scalar(code, x) for x in operands]
            return elementwise.apply(code, node.name, values, params, kind)

        return Formula(node.results[0].shape, kind, element, operands, elementwise.weight(node.name))

    def applied(self, body: Graph, values: Sequence[Value]) -> list[Value]:
        """What a graph of numbers makes of these, which may be vectors."""
        outs = self.emit(body, body.given([Registers((), value.kind, None, [value]) for value in values]))
        return [scalar(self.code, out) for out in outs]


def kind_of(name: Name) -> str:
    kind = element(name.dtype)
    assert kind is not None, name
    return kind


def _roots(graph: Graph, targets: Targets) -> dict[str, set[Any]]:
    """For each value by which roots it is read: operations that need it in memory, or outputs. Formulas only pass it on."""
    found: dict[str, set[Any]] = {name.name: {("output", name.name)} for name in graph.outputs}
    for node in reversed(graph.nodes):
        passes = len(node.results) == 1 and (is_formula(node) or is_short(node)) and node.results[0].name not in targets
        result = node.results[0]
        through = passes and not fits(result.shape, kind_of(result))
        readers = found.get(result.name, set()) if through else {id(node)}
        if through and node.name in _VIEWS:  # at other places it is computed again
            often = node.operands and math.prod(result.shape) > SHORT * math.prod(node.operands[0].shape)
            readers = {(id(node), i) for i in range(2 if often or len(readers) > 1 else 1)}
        for name in node.operands:
            known = found.setdefault(name.name, set())
            if len(known) < 2:  # more are not told apart
                known.update(readers)
    return found


def is_formula(node: Node) -> bool:
    """Whether an operation's result is computed where it is used, unless it is small."""
    return node.name in _VIEWS or elementwise.is_known(node.name)


def is_short(node: Node) -> bool:
    """Whether an operation is a sum, or the like, of so few terms that it is computed where it is used."""
    return node.name == "reduce" and math.prod([node.operands[0].shape[axis] for axis in node.params["dimensions"]]) <= SHORT


# ---- what moves elements -----------------------------------------------------------------------------------------------


def _broadcast(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> Array:
    return broadcast(it.code, operands[0], node.results[0].shape, node.params["broadcast_dimensions"])


def _reshape(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> Array:
    return reshaped(it.code, operands[0], node.results[0].shape)


def _transpose(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> Array:
    return transposed(it.code, operands[0], node.params["permutation"])


def _slice(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> Array:
    params = node.params
    return sliced(it.code, operands[0], params["start_indices"], params["strides"], node.results[0].shape)


def _reverse(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> Array:
    (x,), turned = operands, node.params["dimensions"]
    starts = [size - 1 if i in turned else 0 for i, size in enumerate(x.shape)]
    return sliced(it.code, x, starts, [-1 if i in turned else 1 for i in range(len(x.shape))], x.shape)


def _iota(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> Array:
    axis, code, kind = node.params["iota_dimension"], it.code, kind_of(node.results[0])

    def element(places: Places, lanes: int | None) -> Value:
        index, step = places[axis]
        return elementwise.convert(code, place_value(code, index, step, lanes), kind)

    return Formula(node.results[0].shape, kind, element)


def place_value(code: Code, index: Index, step: int, lanes: int | None) -> Value:
    """A place as numbers, one in each lane."""
    first = code.index(index)
    if not step or lanes is None:
        return first
    return code.binary("add", code.spread(first, lanes), code.count_lanes(lanes, step))


def _concatenate(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> Array:
    result = node.results[0]
    return concatenated(it.code, operands, node.params["dimension"], result.shape, targets.get(result.name))


def _start(code: Code, index: Array, most: int) -> Index:
    """A start index from 0 to `most`."""
    if not most:
        return 0
    value = scalar(code, index)
    if value.number is not None:
        return min(max(int(value.number), 0), most)
    return clamped(code, value, most)


def clamped(code: Code, index: Value, most: int) -> Value:
    """Integers between 0 and `most`, as i64."""
    limit = code.constant(most, index.kind, index.lanes) if most < 1 << 31 else None
    if limit is None or index.kind in ("i8", "u8", "i16", "u16"):
        index = elementwise.convert(code, index, "i64")
        limit = code.constant(most, "i64", index.lanes)
    signed = index.kind[0] == "i"
    if signed:
        index = code.intrinsic("smax", index, code.constant(0, index.kind, index.lanes))
    return elementwise.convert(code, code.intrinsic("smin" if signed else "umin", index, limit), "i64")


def _dynamic_slice(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> Array:
    x, *starts = operands
    shape = node.results[0].shape
    places = [_start(it.code, start, size - part) for start, size, part in zip(starts, x.shape, shape)]
    if isinstance(x, Registers) and not all([isinstance(place, int) for place in places]):
        x = spilled(it.code, x)
    return sliced(it.code, x, places, [1] * len(places), shape)


def _dynamic_update_slice(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> Array:
    x, part, *starts = operands
    places = [_start(it.code, start, size - own) for start, size, own in zip(starts, x.shape, part.shape)]
    return updated(it.code, x, part, places, targets.get(node.results[0].name))


def updated(code: Code, x: Array, part: Array, places: Sequence[Index], pointer: Value | None) -> Array:
    """`x` with `part` in it, from these places on."""
    if not part.size:
        return x
    if fits(x.shape, x.kind):
        return in_registers(code, _masked(code, x, part, places))
    if isinstance(x, Memory) and x.pointer is pointer:  # a loop writes into its own carry, of which the part may be made
        whole, part = Memory(x.pointer, x.shape, x.kind), in_memory(code, part) if isinstance(part, Formula) else part
    else:
        whole = in_memory(code, x, pointer or code.allocate(x.size * size_of(x.kind)))
    store_region(code, whole, part, places)
    return Memory(whole.pointer, x.shape, x.kind)


def _masked(code: Code, x: Array, part: Array, places: Sequence[Index]) -> Array:
    """A small array of which each element is that of `x`, or, if it lies in the part, that of the part."""
    cut = [axis for axis, size in enumerate(part.shape) if size != x.shape[axis]]
    if any([part.shape[axis] > 1 and not isinstance(places[axis], int) for axis in cut]):
        part = spilled(code, in_registers(code, part))

    def element(at_places: Places, lanes: int | None) -> Value:
        inside = None
        own: list[Place] = list(at_places)
        for axis in cut:
            index, step = at_places[axis]
            size, start = part.shape[axis], code.index(places[axis])
            here = place_value(code, index, step, lanes)
            tests = [("eq", start)] if size == 1 else [("ge", start), ("lt", code.index(code.plus(places[axis], size)))]
            for predicate, bound in tests:
                bound = code.spread(bound, here.lanes)
                test = code.compare(predicate, here, bound)
                inside = test if inside is None else code.binary("and", *elementwise.alike(code, inside, test))
            if size == 1:
                own[axis] = (0, 0)
        before = at(code, x, at_places, lanes)
        wide = [axis for axis in cut if part.shape[axis] > 1]
        if wide:
            found = [_one_inside(code, part, own, places, wide, lane) for lane in range(lanes or 1)]
            value = found[0] if lanes is None else code.joined(found)
        else:
            value = at(code, part, tuple(own), lanes)
        if inside is None:
            return value
        return code.select(*elementwise.alike(code, inside, value, before))

    return Formula(x.shape, x.kind, element, [x, part])


def _one_inside(
    code: Code, part: Array, own: Sequence[Place], starts: Sequence[Index], wide: Sequence[int], lane: int
) -> Value:
    """An element of the part, at the nearest place that it has."""
    index: list[Index] = []
    for axis, (first, step) in enumerate(own):
        here = code.plus(first, step * lane)
        if axis in wide:
            start = starts[axis]
            if isinstance(here, int) and isinstance(start, int):
                here = min(max(here - start, 0), part.shape[axis] - 1)
            else:
                apart = code.binary("sub", code.index(here), code.index(start))
                here = clamped(code, apart, part.shape[axis] - 1)
        index.append(here)
    return scalar(code, part, *index)


def _bitcast(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> Array:
    """The bits of elements as elements of another width, through memory; one axis more or less tells which is which."""
    (x,), (result,) = operands, node.results
    if size_of(x.kind) == size_of(kind_of(result)):
        return it.elementwise(node, operands)
    memory = in_memory(it.code, x)
    return Memory(memory.pointer, result.shape, kind_of(result), memory.constant)


def _barrier(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> list[Array]:
    return [settled(it.code, x) if x.size else x for x in operands]


# ---- what computes -----------------------------------------------------------------------------------------------------


def _reduce(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> Array:
    params = node.params
    target = targets.get(node.results[0].name)
    return reduced(it.code, operands[0], params["dimensions"], params["how"], params["init"], target, now=False)


def _dot_general(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> Array:
    result = node.results[0]
    if not all([x.size for x in operands]):
        return filled(it.code, result.shape, kind_of(result), 0)
    numbers = node.params["dot_dimension_numbers"]
    x, y = operands
    return contraction(it.code, x, y, numbers, kind_of(result), targets.get(result.name))


_RULES: dict[str, Callable[[Emitter, Node, list[Array], Targets], Any]] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "reverse": _reverse,
    "iota": _iota,
    "concatenate": _concatenate,
    "bitcast_convert": _bitcast,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "optimization_barrier": _barrier,
    "reduce": _reduce,
    "dot_general": _dot_general,
}


def add_rule(name: str, rule: Callable[[Emitter, Node, list[Array], Targets], Any]) -> None:
    """Make known what an operation is in code; for the modules that build on this one."""
    _RULES[name] = rule
