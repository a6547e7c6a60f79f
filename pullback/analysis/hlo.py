"""What XLA made of a Program: its operations by name, with the equations that each comes from and the bytes that it touches.

The program is compiled with the id of its equation behind the name of each operation (`op_name="layer/mul#12"`). XLA keeps that
through most of what it does; an operation that it made of several has theirs in the computation that it calls.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pullback.core.dtypes import BY_SHORT_NAME

_HEAD = re.compile(r"(ENTRY )?%?([\w.\-]+) \(.*\{$")
_OPERATION = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = ")
_OPCODE = re.compile(r" ?([\w\-]+)\(")
_CALLED = re.compile(
    r"(?:calls|body|condition|to_apply|branch_computations|true_computation|false_computation)=\{?((?:%[\w.\-]+(?:, )?)+)"
)
_NAMED = re.compile(r"%([\w.\-]+)")
_OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_ID = re.compile(r"#(\d+)")
_TYPE = re.compile(r"([a-z]\w*)\[([\d,]*)\]")
_MOVING = frozenset({"bitcast", "copy", "reshape", "transpose"})  # which change no value
_PARAMETER = re.compile(r"parameter\((\d+)\)")
_HLO_DTYPES = {"pred": 1, "s8": 1, "s16": 2, "s32": 4, "s64": 8, "token": 0, "opaque": 0, "s4": 1, "u4": 1, "s2": 1, "u2": 1}
HOLDERS = frozenset({"while", "call", "conditional"})  # which run other computations, whose operations read and write
# Of what these are given they touch a part, and nobody says which.
PARTIAL = frozenset({"dynamic-slice", "dynamic-update-slice", "gather", "scatter", "custom-call"})


class Operation(NamedTuple):
    """An operation of the compiled program.

    Attributes:
        name: as the profiler calls it, too. opcode: what it does: "fusion", "dot", "while".
        equations: the ids of those that it comes from, in the order in which they stand in it; empty if XLA does not tell.
        bytes: of its operands and results; None where other operations move them, or where only a part of them is touched.
    """

    name: str
    opcode: str
    equations: tuple[int, ...]
    bytes: int | None


class _Line(NamedTuple):
    name: str
    opcode: str
    type: str
    operands: tuple[str, ...]
    own: tuple[int, ...]
    called: tuple[str, ...]
    number: int = -1  # of a parameter


def computations_of(text: str) -> tuple[dict[str, list[str]], str]:
    """The lines of the operations of each computation in optimized HLO, by its name; and the name of the entry.

    Example:
        >>> computations_of("ENTRY %main (x: f32[]) -> f32[] {\\n  ROOT %x = f32[] parameter(0)\\n}")
        ({'main': ['  ROOT %x = f32[] parameter(0)']}, 'main')
    """
    found: dict[str, list[str]] = {}
    current: list[str] = []
    entry = ""
    for line in text.split("\n"):
        if head := _HEAD.match(line):
            current = found[head[2]] = []
            entry = head[2] if head[1] else entry
        elif line.startswith("  "):
            current.append(line)
    return found, entry


def called_in(line: str) -> list[str]:
    """The names of the computations that an operation calls."""
    return [name for names in _CALLED.findall(line) for name in _NAMED.findall(names)]


def operations_of(text: str) -> dict[str, Operation]:
    """The operations of optimized HLO, by name.

    Example:
        >>> text = '''ENTRY %main (x: f32[8]) -> f32[8] {
        ...   %x = f32[8]{0} parameter(0)
        ...   ROOT %sine.1 = f32[8]{0} sine(%x), metadata={op_name="layer/sin#12"}
        ... }'''
        >>> operations_of(text)["sine.1"]
        Operation(name='sine.1', opcode='sine', equations=(12,), bytes=64)
    """
    computations = {
        name: [_read(line, found) for line in lines if (found := _OPERATION.match(line))]
        for name, lines in computations_of(text)[0].items()
    }
    types = {one.name: one.type for lines in computations.values() for one in lines}
    inside: dict[str, tuple[int, ...]] = {}

    def equations(name: str) -> tuple[int, ...]:
        """Of what equations a computation is."""
        if name not in inside:
            inside[name] = ()  # a computation does not call itself
            lines = computations.get(name, [])
            inside[name] = tuple(dict.fromkeys([id for one in lines for id in of(one)]))
        return inside[name]

    def of(line: _Line) -> tuple[int, ...]:
        called = [id for name in line.called for id in equations(name)]
        return tuple(dict.fromkeys(called if line.opcode == "fusion" and called else [*called, *line.own]))

    readers: dict[str, list[_Line]] = {}
    for one in [one for lines in computations.values() for one in lines]:
        for name in one.operands:
            readers.setdefault(name, []).append(one)

    def of_readers(name: str) -> tuple[int, ...]:
        """Where XLA took the name of an operation away, what reads its result and changes no value may have it still."""
        found: list[int] = []
        for reader in readers.get(name, ()):
            if reader.opcode in _MOVING:
                found += reader.own
            elif reader.opcode == "fusion" and reader.called:
                places = {i for i, operand in enumerate(reader.operands) if operand == name}
                lines = computations.get(reader.called[0], [])
                found += [id for one in lines if one.number in places for id in of_readers(one.name)]
        return tuple(dict.fromkeys(found))

    made = {}
    for lines in computations.values():
        for one in lines:
            moved, opcodes = None, {one.opcode, *[inner.opcode for name in one.called for inner in computations.get(name, ())]}
            if opcodes.isdisjoint(HOLDERS | PARTIAL):
                moved = sum([type_bytes(types.get(name, "")) for name in one.operands]) + type_bytes(one.type)
            ids = one.own if one.opcode in ("while", "conditional") else ()  # what these run are operations of their own
            ids = ids or of(one) or (() if one.opcode in _MOVING else of_readers(one.name))
            made[one.name] = Operation(one.name, one.opcode, ids, moved)
    return made


def _read(line: str, found: re.Match[str]) -> _Line:
    rest = line[found.end() :]
    end = _end_of(rest, 0) if rest.startswith("(") else rest.find(" ")
    opcode = _OPCODE.match(rest, end)
    if opcode is None:
        return _Line(found[1], "", rest, (), (), ())
    close = _end_of(rest, opcode.end() - 1)
    behind = rest[close:]
    own = [int(number) for name in _OP_NAME.findall(behind) for number in _ID.findall(name)[-1:]]
    called = called_in(behind)
    operands = tuple(_NAMED.findall(rest[opcode.end() : close]))
    number = int(at[1]) if (at := _PARAMETER.match(rest, end + 1)) else -1
    return _Line(found[1], opcode[1], rest[:end], operands, tuple(own), tuple(called), number)


def _end_of(text: str, start: int) -> int:
    """Behind the parenthesis that closes the one at `start`."""
    depth = 0
    for i in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    return len(text)


def type_bytes(text: str) -> int:
    """The bytes of a type as HLO writes it, tuples included.

    Example:
        >>> type_bytes("f32[2,3]{1,0}"), type_bytes("(s32[], bf16[4])")
        (24, 12)
    """
    total = 0
    for name, sizes in _TYPE.findall(text):
        size = 1
        for one in sizes.split(","):
            size *= int(one) if one else 1
        total += size * _item_bytes(name)
    return total


def _item_bytes(name: str) -> int:
    if name in _HLO_DTYPES:
        return _HLO_DTYPES[name]
    ours = BY_SHORT_NAME.get(name)
    return ours.itemsize if ours is not None else 1
