"""Reading and writing windows of an array at places that are known when the code runs: gather and scatter.

The dimension numbers are XLA's, see `ops/windows.py`. What reads moves a window inside; what writes leaves one out that does
not lie inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pullback.native import elementwise, flow
from pullback.native.arrays import (
    Array,
    Formula,
    Memory,
    Place,
    Places,
    Registers,
    Shape,
    at,
    at_first,
    in_memory,
    pointer_to,
    ready,
    reshaped,
    room,
    scalar,
    settled,
    spilled,
)
from pullback.native.emit import COSTLY, Emitter, Targets, add_rule, clamped
from pullback.native.graph import Node, Refused
from pullback.native.ir import Code, Index, Value

# What gather and scatter call the same numbers: the axes of the windows among those of all windows, the axes of the array of
# which a window has one place, those that go along with axes of the indices, these, and those along which windows begin.
_GATHER = "offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims", "start_index_map"
_SCATTER = (
    "update_window_dims", "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims",
    "scatter_dims_to_operand_dims",
)  # fmt: skip


class _Windows:
    """Windows of an array, one for each index of the array `starts`.

    Attributes:
        window: of an array of all windows, the axes along which a window goes. batch: its others.
        axes: of the array that they are windows of, the axes along which a window goes. mapped: those along which it begins.
    """

    def __init__(self, code: Code, node: Node, key: str, names: Sequence[str], shape: Shape, starts: Array, rank: int) -> None:
        numbers = node.params[key]
        self.window, single, self.batched, self.start_batched, self.mapped = [numbers.get(name, ()) for name in names]
        self.code, self.shape = code, shape
        self.axes = [axis for axis in range(len(shape)) if axis not in (*single, *self.batched)]
        self.batch = [axis for axis in range(rank) if axis not in self.window]
        along = numbers["index_vector_dim"]
        if along == len(starts.shape):  # each is one number
            starts = reshaped(code, starts, (*starts.shape, 1))
        elif along != len(starts.shape) - 1:
            raise Refused(f"{node.source} has the numbers of its indices along an axis that is not the last")
        self.numbers = starts

    def starts(self, batch: Sequence[Place], lanes: int | None) -> dict[int, Value]:
        """Where windows begin, by the axes of the array, as the indices say."""
        found = [at(self.code, self.numbers, (*batch, (number, 0)), lanes) for number in range(len(self.mapped))]
        return dict(zip(self.mapped, found))

    def index(self, place: Sequence[Index], starts: Mapping[int, Value]) -> list[Index]:
        """The index in the array of what has an index among all windows."""
        out: list[Index] = [0] * len(self.shape)
        for axis, own in zip(self.axes, self.window):
            out[axis] = place[own]
        for axis, number in zip(self.batched, self.start_batched):
            out[axis] = place[self.batch[number]]
        for axis, start in starts.items():
            out[axis] = self.code.plus(out[axis], start if start.number is None else int(start.number))
        return out

    def along(self, numbers: Sequence[int], other: int) -> list[int]:
        """Numbers of the axes of all windows, by the axes of the array; `other` where a window does not go along one."""
        out = [other] * len(self.shape)
        for axis, own in zip(self.axes, self.window):
            out[axis] = numbers[own]
        return out


def _gather(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> Array:
    x, starts = operands
    code, shape, sizes = it.code, node.results[0].shape, node.params["slice_sizes"]
    windows = _Windows(code, node, "dimension_numbers", _GATHER, x.shape, starts, len(shape))

    def inside(batch: Sequence[Place], lanes: int | None) -> dict[int, Value]:
        found = windows.starts(batch, lanes)
        most = {axis: x.shape[axis] - sizes[axis] for axis in found}
        return {axis: clamped(code, code.spread(start, lanes), most[axis]) for axis, start in found.items()}

    def rule(places: Places, lanes: int | None) -> Value:
        steps = [step for _, step in places]
        if lanes is None or not any([steps[axis] for axis in windows.batch]):
            first = [index for index, _ in places]
            start = windows.index(first, inside(at_first(*[first[axis] for axis in windows.batch]), None))
            return at(code, x, tuple(zip(start, windows.along(steps, 0))), lanes)
        begin = inside([places[axis] for axis in windows.batch], lanes)
        found = []
        for lane in range(lanes):
            own = [code.plus(index, step * lane) for index, step in places]
            found.append(scalar(code, x, *windows.index(own, {axis: code.lane(one, lane) for axis, one in begin.items()})))
        return code.joined(found)

    if isinstance(x, Registers):
        x = spilled(code, x)
    x = settled(code, x) if x.cost > COSTLY else x
    return Formula(shape, x.kind, rule, [x, starts], 8.0)


def _scatter(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> Array:
    """Windows one after another, in the order of their indices; those that do not lie within the operand are left out."""
    x, starts, updates = operands
    code, (body,), (result,) = it.code, node.graphs, node.results
    memory = in_memory(code, x, room(code, x.shape, x.kind, targets.get(result.name)).pointer)
    starts, updates = ready(code, [starts, updates])
    windows = _Windows(code, node, "scatter_dimension_numbers", _SCATTER, x.shape, starts, len(updates.shape))
    sizes = windows.along(updates.shape, 1)
    replaces = body.outputs[0].name == body.inputs[-1].name

    def each(batch: Sequence[Index]) -> None:
        begin = {axis: elementwise.convert(code, n, "i64") for axis, n in windows.starts(at_first(*batch), None).items()}
        inside = None
        for axis, start in begin.items():
            most = code.constant(x.shape[axis] - sizes[axis], "u64")
            test = code.compare("le", start.as_kind("u64"), most)
            inside = test if inside is None else code.binary("and", inside, test)

        def one(window: Sequence[Index]) -> None:
            placed = dict(zip([*windows.window, *windows.batch], [*window, *batch]))
            source = [placed[axis] for axis in range(len(placed))]
            pointer = pointer_to(code, memory, windows.index(source, begin))
            new = scalar(code, updates, *source)
            if not replaces:
                (new,) = it.applied(body, [code.load(pointer, x.kind), new])
            code.store(new, pointer)

        def write() -> list[Value]:
            flow.nest(code, [updates.shape[axis] for axis in windows.window], one)
            return []

        if inside is None:
            write()
        else:
            flow.choose(code, elementwise.convert(code, inside, "i64"), [list, write])

    flow.nest(code, [updates.shape[axis] for axis in windows.batch], each)
    return Memory(memory.pointer, x.shape, x.kind)


add_rule("gather", _gather)
add_rule("scatter", _scatter)
