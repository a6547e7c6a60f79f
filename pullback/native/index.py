"""Reading and writing windows of an array at places that are known when the code runs: gather and scatter.

The dimension numbers are XLA's, see `ops/windows.py`. What reads moves a window inside; what writes leaves one out that does
not lie inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pullback.native import elementwise, flow
from pullback.native.arrays import (
    Array,
    Formula,
    Memory,
    Place,
    Places,
    Registers,
    at,
    in_memory,
    pointer_to,
    ready,
    scalar,
    settled,
    spilled,
)
from pullback.native.emit import COSTLY, Emitter, Targets, add_rule, clamped
from pullback.native.graph import Node, Refused
from pullback.native.ir import Code, Index, Value, size_of
from pullback.stablehlo.writer import Value as Name


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

    def rule(places: Places, lanes: int | None) -> Value:
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
    return Formula(node.results[0].shape, x.kind, rule, [x, starts], 8.0)


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
    starts, updates = ready(code, [starts, updates])
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
                pointer = pointer_to(code, memory, place)
                if not fixed:
                    old = code.load(pointer, x.kind)
                    (new,) = it.applied(body, [old, new])
                code.store(new, pointer)

            flow.nest(code, windows, one)
            return []

        if inside is None:
            write()
        else:
            flow.choose(code, elementwise.convert(code, inside, "i64"), [list, write])

    flow.nest(code, [updates.shape[axis] for axis in order], each)
    return Memory(memory.pointer, x.shape, x.kind)


add_rule("gather", _gather)
add_rule("scatter", _scatter)
