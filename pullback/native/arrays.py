"""Arrays as they are known while code is written: in memory, in registers, or as a formula that gives any element.

An element, or a vector of elements, is asked for by its *places*: for each axis the index of lane 0, and by how much the index
grows from lane to lane. So views cost nothing: they are arithmetic on places. What fits into registers is computed at once, one
vector a row, and its indices are known numbers; what is larger stays a formula until something needs it in memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from pullback.native import flow
from pullback.native.graph import Refused
from pullback.native.ir import Code, Index, Value, size_of

Shape = tuple[int, ...]
Place = tuple[Index, int]  # of an axis: the index of lane 0, and the step from lane to lane
Places = tuple[Place, ...]

REGISTER_BYTES = 512  # an array of up to so many bytes, and so many rows, is kept in registers
REGISTER_ROWS = 16
SCALARS = 4  # up to so many elements are separate numbers
BLOCK_VECTORS = 4  # of one value in the body of a loop over elements: two compile sooner, and take 6 to 10 % longer
UNROLLED = 64  # up to so many steps of a nest of loops over known indices are written one after the other

_serial = itertools.count()


class Array:
    """Attributes: cost, the vector instructions for an element; sources, the arrays that it reads; depth, how many of them
    one after another."""

    __slots__ = ("cost", "depth", "kind", "serial", "shape", "sources")
    cost: float

    def __init__(self, shape: Shape, kind: str, cost: float = 0.0, sources: Sequence[Array] = ()) -> None:
        self.shape = shape
        self.kind = kind
        self.cost = cost + sum([source.cost for source in sources])
        self.sources = tuple(sources)
        self.depth: int = 1 + max([source.depth for source in sources], default=0)
        self.serial = next(_serial)

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Memory(Array):
    """In memory, in row-major order, as its contents are at one time; `constant` if they stay while the function runs."""

    __slots__ = ("constant", "pointer")

    def __init__(self, pointer: Value, shape: Shape, kind: str, constant: bool = False) -> None:
        super().__init__(shape, kind)
        self.pointer = pointer
        self.constant = constant


class Registers(Array):
    """In registers: one vector for each index of the axes besides `axis`; without an axis, one number for each index.

    They are the next ones of `values`, in row-major order.
    """

    __slots__ = ("axis", "values")

    def __init__(self, shape: Shape, kind: str, axis: int | None, values: Iterable[Value]) -> None:
        super().__init__(shape, kind)
        self.axis = axis
        rows = shape if axis is None else shape[:axis] + shape[axis + 1 :]
        self.values = np.fromiter(values, object, math.prod(rows)).reshape(rows)

    @property
    def flat(self) -> list[Value]:
        return self.values.ravel().tolist()

    def holding(self, values: Iterable[Value]) -> Registers:
        """Other values, held as these are."""
        return Registers(self.shape, self.kind, self.axis, values)


class Formula(Array):
    """Computed where it is needed, by `rule(places, lanes)`; or `written` to a pointer, if there is a better way to do that."""

    __slots__ = ("rule", "written")

    def __init__(
        self,
        shape: Shape,
        kind: str,
        rule: Callable[[Places, int | None], Value],
        sources: Sequence[Array] = (),
        cost: float = 0.0,
        written: Callable[[Value], Array] | None = None,
    ) -> None:
        super().__init__(shape, kind, cost, sources)
        self.rule, self.written = rule, written


def strides(shape: Shape) -> list[int]:
    """How many elements apart neighbours along each axis are."""
    out = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        out[i] = out[i + 1] * shape[i + 1]
    return out


def lane_axis(shape: Shape) -> int:
    """The axis along which vectors lie: the last one, or one that is much longer."""
    long = [i for i, size in enumerate(shape) if size > 1]
    if not long:
        return len(shape) - 1
    largest = max(long, key=lambda i: shape[i])
    return largest if shape[long[-1]] < 4 and shape[largest] >= 4 * shape[long[-1]] else long[-1]


def fits(shape: Shape, kind: str) -> bool:
    """Whether an array is kept in registers."""
    size = math.prod(shape)
    rows = size // max(1, shape[lane_axis(shape)]) if shape else 1
    return size * max(4, size_of(kind)) <= REGISTER_BYTES and rows <= REGISTER_ROWS


def block_lanes(code: Code, length: int, kind: str) -> int:
    """How many elements of a row the body of a loop takes at a time."""
    return max(1, min(length, BLOCK_VECTORS * code.module.vector_bytes // max(4, size_of(kind))))


def at_first(*index: Index) -> Places:
    return tuple([(one, 0) for one in index])


def block_place(start: Index, lanes: int) -> tuple[Place, int | None]:
    """Where so many neighbours are along an axis, and as how many lanes they are asked for: one is a number."""
    return ((start, 1), lanes) if lanes > 1 else ((start, 0), None)


class Split:
    """The axes of a shape: those that are gone through, and those that are kept.

    Attributes:
        axes, sizes: the former, in order. kept, shape: the latter.
    """

    def __init__(self, shape: Shape, axes: Sequence[int]) -> None:
        self.axes = sorted(axes)
        self.kept = [axis for axis in range(len(shape)) if axis not in self.axes]
        self.sizes = [shape[axis] for axis in self.axes]
        self.shape = tuple([shape[axis] for axis in self.kept])

    def whole(self, kept: Sequence[Place], gone: Sequence[Place]) -> Places:
        """The places of all axes."""
        placed = dict(zip([*self.kept, *self.axes], [*kept, *gone], strict=True))
        return tuple([placed[axis] for axis in range(len(placed))])


def indices(shape: Shape) -> Iterator[tuple[int, ...]]:
    return itertools.product(*map(range, shape))


# ---- reading -----------------------------------------------------------------------------------------------------------


def at(code: Code, array: Array, places: Places, lanes: int | None) -> Value:
    """The elements at these places."""
    spelled = tuple([(index if isinstance(index, int) else index.text, step) for index, step in places])
    key = (array.serial, spelled, lanes)
    found: Value | None = code.known(key)
    if found is None:
        if isinstance(array, Formula):
            found = array.rule(places, lanes)
        elif isinstance(array, Registers):
            found = _in_registers(code, array, places, lanes)
        else:
            assert isinstance(array, Memory)
            found = _in_memory(code, array, places, lanes)
        code.scopes[-1][key] = found
    return found


def scalar(code: Code, array: Array, *index: Index) -> Value:
    """One element."""
    return at(code, array, at_first(*index), None)


def _in_memory(code: Code, array: Memory, places: Places, lanes: int | None) -> Value:
    apart, size = strides(array.shape), size_of(array.kind)
    step = sum([step * stride for (_, step), stride in zip(places, apart)])
    parts = [(index, stride * size) for (index, _), stride in zip(places, apart)]
    pointer = code.offset(array.pointer, parts)

    def read(pointer: Value, lanes: int | None) -> Value:
        return code.load(pointer, array.kind, lanes, array.constant)

    if lanes is None or step == 0:
        return read(pointer, None)
    if step == 1:
        return read(pointer, lanes)
    if step == -1:
        return code.shuffle(read(code.offset(pointer, [(1 - lanes, size)]), lanes), range(lanes)[::-1])
    if 1 < step <= 4:
        phase, span = 0, (lanes - 1) * step + 1
        if len(apart) > 1 and apart[-2:] == [step, 1] and places[-2][1] == 1 and isinstance(places[-1][0], int):
            phase, span = places[-1][0], lanes * step  # whole rows of a few elements: what lies between them is theirs too
            pointer = code.offset(array.pointer, parts[:-1])
        return _every(code, pointer, read, array.kind, range(phase, phase + (lanes - 1) * step + 1, step), span)
    return code.joined([read(code.offset(pointer, [(lane * step, size)]), None) for lane in range(lanes)])


def _every(code: Code, pointer: Value, read: Callable[[Value, int], Value], kind: str, wanted: range, span: int) -> Value:
    """The elements at these places, of `span` that may be read, by vectors of the machine: each is read once."""
    size = size_of(kind)
    wide = code.module.vector_bytes // size

    def whole(first: int) -> Value:
        """The elements from the vector's first one on, and anything where there are no more."""
        count = min(wide, span - first)
        part = read(code.offset(pointer, [(first, size)]), count)
        return code.shuffle(part, [min(i, count - 1) for i in range(wide)])

    found = []
    for start in range(0, len(wanted), wide):
        piece = wanted[start : start + wide]
        out: Value | None = None
        for first in range(piece[0] // wide * wide, piece[-1] + 1, wide):
            inside = [first <= place < first + wide for place in piece]
            if out is None:
                out = code.shuffle(whole(first), [min(place - first, wide - 1) for place in piece] + [0] * (wide - len(piece)))
            else:
                taken = [wide + place - first if own else i for i, (own, place) in enumerate(zip(inside, piece))]
                out = code.shuffle(out, taken + [0] * (wide - len(piece)), whole(first))
        assert out is not None
        found.append(code.shuffle(out, range(len(piece))))
    return code.joined(found)


def _in_registers(code: Code, array: Registers, places: Places, lanes: int | None) -> Value:
    if not all([isinstance(index, int) for index, _ in places]):
        return at(code, spilled(code, array), places, lanes)
    first: list[Any] = [index for index, _ in places]
    steps = [step for _, step in places]
    moving = [axis for axis, step in enumerate(steps) if step]
    axis = array.axis
    if axis is None:
        if not moving:
            return array.values[tuple(first)]  # type: ignore[no-any-return]
        return code.joined([array.values[tuple([i + s * lane for i, s in zip(first, steps)])] for lane in range(lanes or 1)])
    row = tuple([index for i, index in enumerate(first) if i != axis])
    if not moving:
        return code.lane(array.values[row], first[axis])
    if moving == [axis]:
        return code.shuffle(array.values[row], [first[axis] + steps[axis] * lane for lane in range(lanes or 1)])
    one_by_one = [at_first(*[i + s * lane for i, s in zip(first, steps)]) for lane in range(lanes or 1)]
    return code.joined([at(code, array, each, None) for each in one_by_one])


# ---- making ------------------------------------------------------------------------------------------------------------


def filled(code: Code, shape: Shape, kind: str, number: Any) -> Formula:
    return Formula(shape, kind, lambda places, lanes: code.constant(number, kind))


def view(code: Code, array: Array, shape: Shape, places_of: Callable[[Places], Sequence[Place]]) -> Array:
    """An array whose elements are those of another at other places."""
    return Formula(shape, array.kind, lambda places, lanes: at(code, array, tuple(places_of(places)), lanes), [array])


def in_registers(code: Code, array: Array) -> Registers:
    """The array in registers; each of its elements is computed now."""
    shape = array.shape
    scalars = array.size <= SCALARS
    if isinstance(array, Registers) and (array.axis is None) == scalars:
        return array
    if scalars:
        return Registers(shape, array.kind, None, [scalar(code, array, *index) for index in indices(shape)])
    axis = lane_axis(shape)
    rows = [(*at_first(*row[:axis]), (0, 1), *at_first(*row[axis:])) for row in indices(shape[:axis] + shape[axis + 1 :])]
    values = [code.spread(at(code, array, row, shape[axis]), shape[axis]) for row in rows]
    return Registers(shape, array.kind, axis, values)


def settled(code: Code, array: Array) -> Array:
    """The array as something that may be read often: in registers, in memory, or a view of either."""
    if not isinstance(array, Formula):
        return array
    if fits(array.shape, array.kind):
        return in_registers(code, array)
    return in_memory(code, array) if array.cost else array


def in_memory(code: Code, array: Array, pointer: Value | None = None) -> Memory:
    """The array in memory; at a pointer, if one is given."""
    if isinstance(array, Memory) and pointer is None:
        return array
    made = room(code, array.shape, array.kind, pointer)
    if isinstance(array, Formula) and array.written:
        array.written(made.pointer)
    else:
        store(code, array, made.pointer)
    return made


def room(code: Code, shape: Shape, kind: str, pointer: Value | None = None) -> Memory:
    """Memory of which nothing is written yet; at a pointer, if one is given."""
    return Memory(pointer or code.allocate(math.prod(shape) * size_of(kind)), shape, kind)


def spilled(code: Code, array: Registers) -> Memory:
    """A copy in memory of what is in registers, for indices that are not known."""
    key = ("spilled", array.serial)
    found: Memory | None = code.known(key)
    if found is None:
        code.scopes[-1][key] = found = in_memory(code, array)
    return found


def prepared(code: Code, array: Array) -> None:
    """Spill now what the array reads from registers, before a loop begins in which its indices are not known."""
    waiting, seen = [array], {array.serial}
    while waiting:
        array = waiting.pop()
        if isinstance(array, Registers):
            spilled(code, array)
        fresh = {source.serial: source for source in array.sources if source.serial not in seen}
        seen.update(fresh)
        waiting += fresh.values()


def ready(code: Code, arrays: Sequence[Array]) -> list[Array]:
    """Arrays `settled`, and `prepared` for a loop."""
    made = [settled(code, array) for array in arrays]
    for array in made:
        prepared(code, array)
    return made


def pointer_to(code: Code, array: Memory, index: Sequence[Index], apart: Sequence[int] | None = None) -> Value:
    """Where an element is; neighbours along each axis lie so many elements `apart`, if not as row-major order has it."""
    apart = strides(array.shape) if apart is None else apart
    return code.offset(array.pointer, [(one, stride * size_of(array.kind)) for one, stride in zip(index, apart)])


def store(code: Code, array: Array, pointer: Value, apart: Sequence[int] | None = None) -> None:
    """Write each element of an array to memory: one after another, or neighbours along each axis so many elements `apart`."""
    if not array.size:
        return
    shape = array.shape
    if apart is None and fits(shape, array.kind):
        _store_registers(code, in_registers(code, array), pointer)
        return
    apart, target = strides(shape) if apart is None else apart, Memory(pointer, shape, array.kind)
    if not shape:
        code.store(scalar(code, array), pointer)
        return
    prepared(code, array)
    axis = max([i for i, length in enumerate(shape) if length > 1 and apart[i] == 1], default=len(shape) - 1)
    length = shape[axis]
    lanes = block_lanes(code, length, array.kind)

    def block(row: tuple[Index, ...], start: Index, lanes: int) -> None:
        place, vector = block_place(start, lanes)
        value = at(code, array, (*at_first(*row[:axis]), place, *at_first(*row[axis:])), vector)
        code.store(code.spread(value, vector), pointer_to(code, target, (*row[:axis], start, *row[axis:]), apart))

    def along(row: tuple[Index, ...]) -> None:
        flow.each_block(code, length, lanes, lambda start, lanes: block(row, start, lanes))

    flow.nest(code, shape[:axis] + shape[axis + 1 :], along)


def _store_registers(code: Code, array: Registers, pointer: Value) -> None:
    shape = array.shape
    if array.axis is None:
        code.store(array.flat[0] if array.size == 1 else code.joined(array.flat), pointer)
        return
    if strides(shape)[array.axis] == 1:
        target = Memory(pointer, shape, array.kind)
        for row in indices(array.values.shape):
            code.store(array.values[row], pointer_to(code, target, (*row[: array.axis], 0, *row[array.axis :])))
        return
    rows = code.joined(array.flat)
    order = np.moveaxis(np.arange(array.size).reshape((*array.values.shape, shape[array.axis])), -1, array.axis)
    code.store(code.shuffle(rows, order.ravel().tolist()), pointer)


# ---- views -------------------------------------------------------------------------------------------------------------


def broadcast(code: Code, array: Array, shape: Shape, axes: Sequence[int]) -> Array:
    """Axis i becomes axis `axes[i]`."""
    same = [array.shape[i] == shape[axis] for i, axis in enumerate(axes)]
    return view(code, array, shape, lambda p: [p[axis] if own else (0, 0) for axis, own in zip(axes, same)])


def transposed(code: Code, array: Array, permutation: Sequence[int]) -> Array:
    shape = tuple([array.shape[axis] for axis in permutation])
    places = [list(permutation).index(axis) for axis in range(len(shape))]
    return view(code, array, shape, lambda p: [p[place] for place in places])


def sliced(code: Code, array: Array, starts: Sequence[Index], steps: Sequence[int], shape: Shape) -> Array:
    """Every so manieth element along each axis from a start on; the starts may be known when the code runs."""

    def places_of(places: Places) -> list[Place]:
        return [(code.plus(code.times(index, by), start), step * by) for (index, step), start, by in zip(places, starts, steps)]

    return view(code, array, shape, places_of)


def reshaped(code: Code, array: Array, shape: Shape) -> Array:
    """The same elements in another shape: of what is in memory nothing changes, and axes of size 1 come and go."""
    own = [i for i, size in enumerate(array.shape) if size != 1]
    new = [i for i, size in enumerate(shape) if size != 1]
    if [array.shape[i] for i in own] == [shape[i] for i in new]:

        def places_of(places: Places) -> list[Place]:
            out: list[Place] = [(0, 0)] * len(array.shape)
            for i, j in zip(own, new):
                out[i] = places[j]
            return out

        return view(code, array, shape, places_of)
    if isinstance(array, Memory):
        return Memory(array.pointer, shape, array.kind, array.constant)
    if fits(shape, array.kind) and fits(array.shape, array.kind):
        held = in_registers(code, array)

        def rule(places: Places, lanes: int | None) -> Value:
            if not all([isinstance(index, int) for index, _ in places]):
                moved = Memory(spilled(code, held).pointer, shape, array.kind)
                return at(code, moved, places, lanes)
            known: list[Any] = [(index, step, apart) for (index, step), apart in zip(places, strides(shape))]
            flat = [sum([(index + step * lane) * apart for index, step, apart in known]) for lane in range(lanes or 1)]
            found = [scalar(code, held, *map(int, np.unravel_index(n, array.shape))) for n in flat]
            return found[0] if lanes is None else code.joined(found)

        return Formula(shape, array.kind, rule, [held])
    moved = in_memory(code, array)
    return Memory(moved.pointer, shape, array.kind, moved.constant)


def concatenated(code: Code, parts: Sequence[Array], axis: int, shape: Shape, pointer: Value | None = None) -> Array:
    """Arrays one behind another along an axis: those that do not fit into registers are written to memory, each to its part."""
    kind = parts[0].kind
    parts = [part for part in parts if part.shape[axis]]
    if not parts:
        return filled(code, shape, kind, 0)
    if len(parts) == 1:
        return parts[0]
    offsets = np.cumsum([0] + [part.shape[axis] for part in parts]).tolist()
    if not fits(shape, kind):
        whole = room(code, shape, kind, pointer)
        for part, offset in zip(parts, offsets):
            starts = [offset if i == axis else 0 for i in range(len(shape))]
            store_region(code, whole, part, starts)
        return whole
    held = [in_registers(code, part) for part in parts]

    def rule(places: Places, lanes: int | None) -> Value:
        if not isinstance(places[axis][0], int):
            raise Refused("an index of a small concatenation is not known")
        found = []
        for lane in range(lanes or 1):
            index: list[Any] = [code.plus(i, s * lane) for i, s in places]
            which = max([i for i, offset in enumerate(offsets[:-1]) if offset <= index[axis]])
            index[axis] -= offsets[which]
            found.append(scalar(code, held[which], *index))
        return found[0] if lanes is None else code.joined(found)

    return in_registers(code, Formula(shape, kind, rule, held))


def store_region(code: Code, whole: Memory, part: Array, starts: Sequence[Index]) -> None:
    """Write an array into a part of a larger one in memory."""
    store(code, part, pointer_to(code, whole, starts), strides(whole.shape))
