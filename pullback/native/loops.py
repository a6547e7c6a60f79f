"""Loops and branches: what small values they carry is in registers, larger ones in memory.

A large carry has two buffers, of which each step reads one and writes the other; or one, if a step reads nothing of it after it
has begun to write: where it is read once, element by element, or a part of it is replaced.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from pullback.native import elementwise, flow
from pullback.native.arrays import (
    Array,
    Memory,
    Registers,
    fits,
    in_memory,
    in_registers,
    prepared,
    ready,
    room,
    scalar,
    settled,
    spilled,
    store,
    view,
)
from pullback.native.emit import Arrays, Emitter, Targets, add_rule, is_short, kind_of
from pullback.native.graph import Graph, Node
from pullback.native.ir import Code, Index, Value, size_of
from pullback.stablehlo.writer import Value as Name


class Carried:
    """The carry of a loop: how each part of it is held.

    Attributes:
        fixed: the parts that no step changes. spare: of the others in memory the second buffer; None where one suffices.
    """

    def __init__(self, it: Emitter, body: Graph, first: int, starts: Sequence[Array], targets: Sequence[Value | None]) -> None:
        self.it, self.code = it, it.code
        self.names = body.inputs[first : first + len(starts)]
        self.outputs = body.outputs[: len(starts)]
        self.fixed = [name.name == out.name for name, out in zip(self.names, self.outputs)]
        self.parts: list[Array] = []
        self.spare: list[Value | None] = []
        for k, (start, target) in enumerate(zip(starts, targets)):
            spare = None
            if self.fixed[k]:
                part = settled(self.code, start)
            elif fits(start.shape, start.kind):
                part = in_registers(self.code, start)
            else:
                size = start.size * size_of(start.kind)
                alone = _in_place(body, first + k, k)
                pointer = target if alone and target is not None else self.code.allocate(size)
                part = in_memory(self.code, start, pointer)
                spare = None if alone else self.code.allocate(size)
            self.parts.append(part)
            self.spare.append(spare)

    def packed(self, parts: Sequence[Array], spare: Sequence[Value | None]) -> list[Value]:
        """What changes from step to step, as values."""
        out = []
        for part, other, fixed in zip(parts, spare, self.fixed):
            if not fixed and isinstance(part, Registers):
                out += part.flat
            elif other is not None:
                assert isinstance(part, Memory)
                out += [part.pointer, other]
        return out

    def start(self) -> list[Value]:
        return self.packed(self.parts, self.spare)

    def unpacked(self, values: Sequence[Value]) -> tuple[list[Array], list[Value | None]]:
        """The carry, and where the next one is to be written."""
        given = iter(values)
        parts: list[Array] = []
        spare: list[Value | None] = []
        for part, other, fixed in zip(self.parts, self.spare, self.fixed):
            second = None
            if fixed:
                made = part
            elif isinstance(part, Registers):
                made = part.holding(given)
            elif other is not None:
                made, second = Memory(next(given), part.shape, part.kind), next(given)
            else:
                assert isinstance(part, Memory)
                made = Memory(part.pointer, part.shape, part.kind)
            parts.append(made)
            spare.append(second)
        return parts, spare

    def targets(self, parts: Sequence[Array], spare: Sequence[Value | None]) -> Targets:
        """Where a step is to write what it carries on."""
        inputs = {name.name for name in self.names}
        found: Targets = {}
        for name, part, other, fixed in zip(self.outputs, parts, spare, self.fixed):
            if fixed or isinstance(part, Registers) or name.name in inputs:
                continue
            assert isinstance(part, Memory)
            found.setdefault(name.name, part.pointer if other is None else other)
        return found

    def stepped(self, parts: Sequence[Array], spare: Sequence[Value | None], outs: Sequence[Array]) -> list[Value]:
        """The values of the carry after a step, of which these are the results."""
        after: list[Array] = []
        swapped: list[Value | None] = []
        for part, other, out, fixed in zip(parts, spare, outs, self.fixed):
            second = None
            if fixed:
                made: Array = part
            elif isinstance(part, Registers):
                made = in_registers(self.code, out)
            else:
                assert isinstance(part, Memory)
                pointer = part.pointer if other is None else other
                written = isinstance(out, Memory) and out.pointer is pointer
                made = out if written else in_memory(self.code, out, pointer)
                second = None if other is None else part.pointer
            after.append(made)
            swapped.append(second)
        return self.packed(after, swapped)


def _in_place(body: Graph, place: int, out: int) -> bool:
    """Whether a step may write a part of the carry over the one that it reads: the operation that makes the new one is the last
    that reads the old one, itself or by formulas of it, and reads of it only what it replaces, or before it begins to write."""
    name, result = body.inputs[place].name, body.outputs[out].name
    outputs = [other.name for other in body.outputs]
    last = next((node for node in body.nodes if result in [made.name for made in node.results]), None)
    if last is None or outputs.count(result) != 1 or [operand.name for operand in last.operands].count(name) != 1:
        return False
    old = {name}  # the carry, its views, and what is computed from it only where it is used
    seen = False
    for node in body.nodes:
        reads = [operand.name for operand in node.operands if operand.name in old]
        if node is last:
            seen = True
            if reads != [name] and node.name != "dynamic_update_slice":
                return False
            continue
        if result in [operand.name for operand in node.operands]:
            return False
        if reads and seen:
            return False
        if reads and not _is_copy(node):
            old.update([made.name for made in node.results if not fits(made.shape, kind_of(made))])
    if old & set(outputs):
        return False
    if last.name in _REPLACING:
        return last.operands[0].name == name
    return elementwise.is_known(last.name)


def _is_copy(node: Node) -> bool:
    """Whether the results of an operation are computed where it is written: none is a view or a formula of its operands."""
    if node.name == "dot_general":
        used = node.params["dot_dimension_numbers"].get("lhs_contracting_dimensions", ())
        return bool(math.prod([node.operands[0].shape[axis] for axis in used]) > 1)
    if node.name == "reduce":
        return not is_short(node)
    return node.name in _COPYING


_COPYING = ("ordered", "accumulate", "reduce_together", "scatter", "case", "if")
_REPLACING = ("dynamic_update_slice", "scatter")  # they write elements of their first operand, when the others are known


def _scan(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> list[Array]:
    code, params = it.code, node.params
    (body,) = node.graphs
    consts, count, length = params["consts"], params["carry"], params["length"]
    fixed, stacked = ready(code, operands[:consts]), operands[consts + count :]
    for x in stacked:
        prepared(code, x)
    stacked = [spilled(code, x) if isinstance(x, Registers) else x for x in stacked]
    wanted = [targets.get(name.name) for name in node.results]
    carried = Carried(it, body, consts, operands[consts : consts + count], wanted[:count])
    stacks = [room(code, name.shape, kind_of(name), at) for name, at in zip(node.results[count:], wanted[count:])]

    def step(index: Index, values: list[Value]) -> list[Value]:
        at = index
        if params["reverse"]:
            at = length - 1 - index if isinstance(index, int) else code.binary("sub", code.index(length - 1), index)
        parts, spare = carried.unpacked(values)
        slices = [view(code, x, x.shape[1:], lambda places: ((at, 0), *places)) for x in stacked]
        arrays: Arrays = body.given([*fixed, *parts, *slices])
        aims = carried.targets(parts, spare)
        late: list[Value | None] = []
        for name, stack in zip(body.outputs[count:], stacks):
            pointer = code.offset(stack.pointer, [(at, math.prod(stack.shape[1:]) * size_of(stack.kind))])
            if name.name in aims or name.name in arrays or name.name in body.constants:
                late.append(pointer)
            else:
                aims[name.name] = pointer
                late.append(None)
        outs = it.emit(body, arrays, aims)
        for out, aim in zip(outs[count:], late):
            if aim is not None:
                store(code, out, aim)
        return carried.stepped(parts, spare, outs[:count])

    last = flow.loop(code, 0, length, 1, carried.start(), step)
    return [*carried.unpacked(last)[0], *stacks]


def _while(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> list[Array]:
    code, consts = it.code, node.params["consts"]
    test, body = node.graphs
    fixed = ready(code, operands[:consts])
    wanted = [targets.get(name.name) for name in node.results]
    carried = Carried(it, body, consts, operands[consts:], wanted)

    def holds(values: list[Value]) -> Value:
        parts, _ = carried.unpacked(values)
        (out,) = it.emit(test, test.given([*fixed, *parts]))
        return scalar(code, out)

    def step(values: list[Value]) -> list[Value]:
        parts, spare = carried.unpacked(values)
        arrays: Arrays = body.given([*fixed, *parts])
        outs = it.emit(body, arrays, carried.targets(parts, spare))
        return carried.stepped(parts, spare, outs)

    return carried.unpacked(flow.repeat_while(code, carried.start(), holds, step))[0]


def _case(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> list[Array]:
    code = it.code
    which, given = operands[0], ready(code, operands[1:])
    buffers = [_buffer(code, name, targets) for name in node.results]
    made: list[list[Array]] = []

    def branch(graph: Graph) -> list[Value]:
        outs = it.emit(graph, graph.given(given))
        held: list[Array] = [
            in_registers(code, out) if buffer is None else in_memory(code, out, buffer) for out, buffer in zip(outs, buffers)
        ]
        made.append(held)
        return [value for part in held if isinstance(part, Registers) for value in part.flat]

    graphs = node.graphs
    index = scalar(code, which)
    if node.name == "if":
        graphs = graphs[::-1]  # the first region is that of true, which is 1
    chosen = elementwise.convert(code, index, "i64")
    values = iter(flow.choose(code, chosen, [functools.partial(branch, graph) for graph in graphs]))
    return [
        part.holding(values) if isinstance(part, Registers) else Memory(part.pointer, part.shape, part.kind)
        for part in made[-1]
        if isinstance(part, (Registers, Memory))
    ]


def _buffer(code: Code, name: Name, targets: Targets) -> Value | None:
    if fits(name.shape, kind_of(name)):
        return None
    return room(code, name.shape, kind_of(name), targets.get(name.name)).pointer


add_rule("scan", _scan)
add_rule("while", _while)
add_rule("case", _case)
add_rule("if", _case)
