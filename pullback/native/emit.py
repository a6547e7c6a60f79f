"""The operations of a graph as code: what each makes of the arrays that it is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    broadcast,
    concatenated,
    filled,
    fits,
    in_memory,
    in_registers,
    prepared,
    reshaped,
    scalar,
    settled,
    sliced,
    spilled,
    store,
    store_region,
    strides,
    transposed,
    view,
)
from pullback.native.graph import ELEMENTS, Graph, Node, Refused
from pullback.native.ir import Code, Index, Value, size_of
from pullback.native.reduce import contraction, reduced
from pullback.stablehlo.writer import Value as Name

Arrays = dict[str, Array]
Targets = dict[str, Value]  # where values are to be written, by their names

COSTLY = 4.0  # a formula that costs more, and that several roots read, is computed once, into memory

_VIEWS = {"broadcast_in_dim", "reshape", "transpose", "slice", "reverse", "iota", "dynamic_slice", "gather"}


class Emitter:
    """Writes graphs. `constants` are the arrays that the code finds in memory, by the names of the values that are them."""

    def __init__(self, code: Code, constants: Arrays) -> None:
        self.code = code
        self.constants = constants

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
        return in_memory(self.code, array) if array.cost > COSTLY and readers > 1 else array

    def node(self, node: Node, operands: list[Array], targets: Targets) -> list[Array]:
        """The results of one operation."""
        if 0 in node.results[0].shape and not node.graphs:
            return [filled(self.code, name.shape, kind_of(name), 0) for name in node.results]
        rule = _RULES.get(node.name)
        if rule is not None:
            found = rule(self, node, operands, targets)
            return found if isinstance(found, list) else [found]
        if elementwise.is_known(node.name):
            return [self._elementwise(node, operands)]
        raise Refused(f"there is no {node.name} in native code, which {node.source} needs")

    def _elementwise(self, node: Node, operands: list[Array]) -> Array:
        code, kind, params = self.code, kind_of(node.results[0]), node.params

        def element(places: Places, lanes: int | None) -> Value:
            values = [at(code, x, places, lanes) if x.shape else scalar(code, x) for x in operands]
            return elementwise.apply(code, node.name, values, params, kind)

        return Formula(node.results[0].shape, kind, element, operands, elementwise.weight(node.name))

    def combined(self, body: Graph, x: Value, y: Value) -> Value:
        """What a graph of two numbers makes of them."""
        empty = np.empty((), object)
        given = []
        for value in (x, y):
            held = empty.copy()
            held[()] = value
            given.append(Registers((), value.kind, None, held))
        (out,) = self.emit(body, dict(zip([name.name for name in body.inputs], given)))
        return scalar(self.code, out)


def kind_of(name: Name) -> str:
    return ELEMENTS[name.dtype.name]


def _roots(graph: Graph, targets: Targets) -> dict[str, set[Any]]:
    """For each value by which roots it is read: operations that need it in memory, or outputs. Formulas only pass it on."""
    found: dict[str, set[Any]] = {name.name: {("output", name.name)} for name in graph.outputs}
    for node in reversed(graph.nodes):
        passes = len(node.results) == 1 and is_formula(node) and node.results[0].name not in targets
        result = node.results[0]
        through = passes and not fits(result.shape, kind_of(result))
        readers = found.get(result.name, set()) if through else {id(node)}
        for name in node.operands:
            found.setdefault(name.name, set()).update(readers)
    return found


def is_formula(node: Node) -> bool:
    """Whether an operation's result is computed where it is used, unless it is small."""
    return node.name in _VIEWS or elementwise.is_known(node.name)


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


def _pad(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> Array:
    x, value = operands
    code, params, result = it.code, node.params, node.results[0]
    sides = zip(params["edge_padding_low"], params["edge_padding_high"], params["interior_padding"])
    for axis, (low, high, between) in enumerate(sides):
        if between:
            raise Refused(f"{node.source} pads between elements")
        size = x.shape[axis]
        if low < 0 or high < 0:
            cut = x.shape[:axis] + (size + min(low, 0) + min(high, 0),) + x.shape[axis + 1 :]
            starts = [max(-low, 0) if i == axis else 0 for i in range(len(x.shape))]
            x = sliced(code, x, starts, [1] * len(starts), cut)
        around = []
        for count in (max(low, 0), max(high, 0)):
            shape = x.shape[:axis] + (count,) + x.shape[axis + 1 :]
            around.append(view(code, value, shape, lambda places: ()))
        last = axis == len(x.shape) - 1
        shape = x.shape[:axis] + (x.shape[axis] + max(low, 0) + max(high, 0),) + x.shape[axis + 1 :]
        target = targets.get(result.name) if last and shape == result.shape else None
        x = concatenated(code, [around[0], x, around[1]], axis, shape, target)
    return x


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
                inside = test if inside is None else code.binary("and", *_alike(code, inside, test))
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
        lanes_of = next((v.lanes for v in (inside, value, before) if v.lanes), None)
        return code.select(*[code.spread(v, lanes_of) for v in (inside, value, before)])

    return Formula(x.shape, x.kind, element, [x, part])


def _alike(code: Code, x: Value, y: Value) -> tuple[Value, Value]:
    lanes = x.lanes or y.lanes
    return code.spread(x, lanes), code.spread(y, lanes)


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


def _barrier(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> list[Array]:
    return [settled(it.code, x) if x.size else x for x in operands]


# ---- what computes -----------------------------------------------------------------------------------------------------


def _reduce(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> Array:
    params = node.params
    target = targets.get(node.results[0].name)
    return reduced(it.code, operands[0], params["dimensions"], params["how"], params["init"], target)


def _dot_general(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> Array:
    result = node.results[0]
    if not all([x.size for x in operands]):
        return filled(it.code, result.shape, kind_of(result), 0)
    numbers = node.params["dot_dimension_numbers"]
    if kind_of(result) == "i1":
        raise Refused(f"{node.source} of bools")
    x, y = operands
    return contraction(it.code, x, y, numbers, kind_of(result), targets.get(result.name))


def _gather(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> Array:
    x, starts = operands
    code, numbers, sizes = it.code, node.params["dimension_numbers"], node.params["slice_sizes"]
    offsets, collapsed = numbers.get("offset_dims", ()), numbers.get("collapsed_slice_dims", ())
    batched, start_batched = numbers.get("operand_batching_dims", ()), numbers.get("start_indices_batching_dims", ())
    mapped, along = numbers.get("start_index_map", ()), numbers["index_vector_dim"]
    window = [axis for axis in range(len(x.shape)) if axis not in (*collapsed, *batched)]
    if along != len(starts.shape) - 1 and along != len(starts.shape):
        raise Refused(f"{node.source} has the numbers of its indices along an axis that is not the last")

    def index_of(batch: Sequence[Place], number: int, lanes: int | None) -> Value:
        places = (*batch, (number, 0)) if along < len(starts.shape) else tuple(batch)
        return at(code, starts, places, lanes)

    def element(places: Places, lanes: int | None) -> Value:
        moving = [axis for axis, (_, step) in enumerate(places) if step]
        if lanes is not None and not all([axis in offsets for axis in moving]):
            batch = [place for axis, place in enumerate(places) if axis not in offsets]
            wanted = {}
            for number, axis in enumerate(mapped):
                wanted[axis] = clamped(code, code.spread(index_of(batch, number, lanes), lanes), x.shape[axis] - sizes[axis])
            found = []
            for lane in range(lanes):
                own = [code.plus(index, step * lane) for index, step in places]
                found.append(scalar(code, x, *_gathered(code, own, lambda axis: code.lane(wanted[axis], lane))))
            return code.joined(found)
        batch = [(index, 0) for axis, (index, _) in enumerate(places) if axis not in offsets]
        chosen = {
            axis: clamped(code, index_of(batch, number, None), x.shape[axis] - sizes[axis])
            for number, axis in enumerate(mapped)
        }
        first = _gathered(code, [index for index, _ in places], lambda axis: chosen[axis])
        steps = [0] * len(x.shape)
        for axis, place in zip(window, offsets):
            steps[axis] = places[place][1]
        return at(code, x, tuple(zip(first, steps)), lanes)

    def _gathered(code: Code, index: Sequence[Index], start: Callable[[int], Value]) -> list[Index]:
        batch = [one for axis, one in enumerate(index) if axis not in offsets]
        out: list[Index] = [0] * len(x.shape)
        for axis, place in zip(window, offsets):
            out[axis] = index[place]
        for axis, number in zip(batched, start_batched):
            out[axis] = batch[number]
        for axis in mapped:
            begin = start(axis)
            out[axis] = code.plus(out[axis], begin if begin.number is None else int(begin.number))
        return out

    if isinstance(x, Registers):
        x = spilled(code, x)
    x = settled(code, x) if x.cost > COSTLY else x
    return Formula(node.results[0].shape, x.kind, element, [x, starts], 8.0)


def _scatter(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> Array:
    """Windows one after another, in the order of their indices; those that do not lie within the operand are left out."""
    x, starts, updates = operands
    code, numbers = it.code, node.params["scatter_dimension_numbers"]
    (body,) = node.graphs
    window_axes, inserted = numbers.get("update_window_dims", ()), numbers.get("inserted_window_dims", ())
    batched, start_batched = numbers.get("input_batching_dims", ()), numbers.get("scatter_indices_batching_dims", ())
    mapped, along = numbers.get("scatter_dims_to_operand_dims", ()), numbers["index_vector_dim"]
    own = [axis for axis in range(len(x.shape)) if axis not in (*inserted, *batched)]
    order = [axis for axis in range(len(updates.shape)) if axis not in window_axes]
    if along != len(starts.shape) - 1 and along != len(starts.shape):
        raise Refused(f"{node.source} has the numbers of its indices along an axis that is not the last")
    result = node.results[0]
    memory = in_memory(code, x, targets.get(result.name) or code.allocate(x.size * size_of(x.kind)))
    starts, updates = settled(code, starts), settled(code, updates)
    prepared(code, starts)
    prepared(code, updates)
    windows = [updates.shape[axis] for axis in window_axes]
    fixed = isinstance(body.outputs[0], Name) and body.outputs[0].name == body.inputs[-1].name

    def each(batch: Sequence[Index]) -> None:
        index = {}
        inside = None
        for number, axis in enumerate(mapped):
            places = (*batch, number) if along < len(starts.shape) else tuple(batch)
            index[axis] = elementwise.convert(code, scalar(code, starts, *places), "i64")
            size = 1 if axis in inserted else windows[own.index(axis)]
            unsigned = index[axis].as_kind("u64")
            test = code.compare("le", unsigned, code.constant(x.shape[axis] - size, "u64"))
            inside = test if inside is None else code.binary("and", inside, test)

        def write() -> list[Value]:
            def one(window: Sequence[Index]) -> None:
                place: list[Index] = [0] * len(x.shape)
                for axis, here in zip(own, window):
                    place[axis] = here
                for axis, number in zip(batched, start_batched):
                    place[axis] = batch[number]
                for axis, start in index.items():
                    place[axis] = code.plus(place[axis], start)
                source: list[Index] = [0] * len(updates.shape)
                for axis, here in [*zip(window_axes, window), *zip(order, batch)]:
                    source[axis] = here
                new = scalar(code, updates, *source)
                parts = [(i, n * size_of(x.kind)) for i, n in zip(place, strides(x.shape))]
                pointer = code.offset(memory.pointer, parts)
                if not fixed:
                    old = code.load(pointer, x.kind)
                    new = it.combined(body, old, new)
                code.store(new, pointer)

            flow.nest(code, windows, one)
            return []

        if inside is None:
            write()
        else:
            chosen = code.pure(f"zext {inside} to i64", "i64")
            flow.choose(code, chosen, [list, write])

    flow.nest(code, [updates.shape[axis] for axis in order], each)
    return Memory(memory.pointer, x.shape, x.kind)


_RULES: dict[str, Callable[[Emitter, Node, list[Array], Targets], Any]] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "reverse": _reverse,
    "iota": _iota,
    "concatenate": _concatenate,
    "pad": _pad,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "optimization_barrier": _barrier,
    "reduce": _reduce,
    "dot_general": _dot_general,
    "gather": _gather,
    "scatter": _scatter,
}


def add_rule(name: str, rule: Callable[[Emitter, Node, list[Array], Targets], Any]) -> None:
    """Make known what an operation is in code; for the modules that build on this one."""
    _RULES[name] = rule
