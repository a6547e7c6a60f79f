"""Optimized HLO as text: which collectives it has, over which devices, with how many bytes, and how often they run.

What is not understood is refused: a guess would make a plan worthless. Source of the text forms: XLA's operation semantics and
its HLO printer (openxla.org/xla).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from pullback.core.brief import brief
from pullback.core.errors import ProgramError

# Of so many bytes that each device puts in, how many it sends, where k devices take part, by the algorithm of the ring.
_SENT = {
    "all-reduce": lambda size, k: 2 * size * (k - 1) / k,
    "all-gather": lambda size, k: size * (k - 1),
    "reduce-scatter": lambda size, k: size * (k - 1) / k,
    "all-to-all": lambda size, k: size * (k - 1) / k,
    "collective-permute": lambda size, k: size,
    "collective-broadcast": lambda size, k: size,
}
_UNREADABLE = ("ragged-all-to-all", "send", "recv")  # how much they move, or to whom, their text does not say

_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.\-]+) .*\{$")
_INSTRUCTION = re.compile(r"\s+(ROOT )?%?([\w.\-]+) = (.*)")
_OPERATION = re.compile(r" ([\w\-]+)\(")
_ARRAY = re.compile(r"\b([a-z]+[a-z0-9]*)\[([\d,<= ]*)\]")
_CALLED = re.compile(r"\b(calls|to_apply|body|condition|true_computation|false_computation)=%?([\w.\-]+)")
_CALLED_LISTS = re.compile(r"\b(?:branch_computations|called_computations|async_computations)=\{([^}]*)\}")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


class Collective(NamedTuple):
    """One kind of communication of a program, as often as it occurs.

    Attributes:
        kind: `all-reduce`, `all-gather`, `reduce-scatter`, `all-to-all`, `collective-permute` or `collective-broadcast`.
        groups: an integer array; each row holds the numbers of the devices that communicate with each other, or in a
            `collective-permute` one that sends and the one that receives.
        bytes: how many bytes each device puts in, once. trips: how often it runs in a call of the program; None: in a loop of
            which it is not known how often it runs.
        conditional: whether it is in a branch that may not be taken. number: how many of them there are in the text.
    """

    kind: str
    groups: Any
    bytes: int
    trips: int | None
    conditional: bool
    number: int = 1

    @property
    def group_size(self) -> int:
        """How many devices communicate with each other."""
        return int(self.groups.shape[1])

    @property
    def sent(self) -> float:
        """How many bytes each device sends when all of them run once, by the algorithm of the ring."""
        return float(_SENT[self.kind](self.bytes, self.group_size)) * self.number

    @property
    def wire(self) -> float | None:
        """How many bytes each device sends in a call of the program; None if that is not known."""
        return None if self.trips is None else self.sent * self.trips


class _Instruction(NamedTuple):
    """An instruction of HLO: `%name = type operation(operands), attributes`; `given` is what stands in the parentheses."""

    type: str
    operation: str
    operands: list[str]
    attributes: str
    given: str
    is_root: bool


def collectives(text: str) -> list[Collective]:
    """The collectives of an optimized HLO module, equal ones together, in the order in which they are first met.

    Arguments:
        text: the module, as XLA prints it.

    Raises:
        ProgramError: something in it cannot be read.

    Example:
        >>> found = collectives('''HloModule m, num_partitions=4
        ...
        ... ENTRY %main (x: f32[256]) -> f32[256] {
        ...   %x = f32[256]{0} parameter(0)
        ...   ROOT %s = f32[256]{0} all-reduce(%x), channel_id=1, replica_groups=[2,2]<=[4], use_global_device_ids=true
        ... }
        ... ''')
        >>> [(one.kind, one.groups.tolist(), one.bytes, one.trips) for one in found]
        [('all-reduce', [[0, 1], [2, 3]], 1024, 1)]
    """
    lines = text.splitlines()
    header = lines[0] if lines and lines[0].startswith("HloModule") else ""
    if not header:
        raise ProgramError("This is no HLO module: its first line does not begin with HloModule.")
    sizes = [int(found[1]) if (found := re.search(rf"\b{name}=(\d+)", header)) else 1 for name in _HEADER]
    computations, entry = _computations(lines)
    counted: Counter[Any] = Counter()
    kept: dict[Any, Collective] = {}
    for one in _walk(computations, entry, 1, False, (sizes[0], sizes[1])):
        key = (one.kind, one.groups.tobytes(), one.groups.shape, one.bytes, one.trips, one.conditional)
        kept.setdefault(key, one)
        counted[key] += 1
    return [one._replace(number=counted[key]) for key, one in kept.items()]


_HEADER = ("replica_count", "num_partitions")


def _computations(lines: list[str]) -> tuple[dict[str, dict[str, _Instruction]], str]:
    """The computations of a module by name, each with its instructions by name, and the name of the entry."""
    found: dict[str, dict[str, _Instruction]] = {}
    entry, here = "", None
    for line in lines[1:]:
        if line.startswith("}"):
            here = None
        elif here is None and (opened := _COMPUTATION.match(line)):
            here = found[opened[2]] = {}
            entry = opened[2] if opened[1] else entry
        elif here is not None and (made := _INSTRUCTION.match(line)):
            here[made[2]] = _instruction(made[3], bool(made[1]))
    if entry not in found:
        raise ProgramError("This HLO module has no ENTRY computation.")
    return found, entry


def _instruction(text: str, is_root: bool) -> _Instruction:
    end = _closing(text, 0) if text.startswith("(") else 0  # the type of a tuple has spaces and parentheses
    operation = _OPERATION.search(text, end)
    if operation is None:
        raise ProgramError(f"This line of HLO cannot be read: {text[:200]!r}.")
    close = _closing(text, operation.end() - 1)
    given = text[operation.end() : close]
    operands = re.findall(r"%([\w.\-]+)", given)
    return _Instruction(text[: operation.start()], operation[1], operands, text[close + 1 :], given, is_root)


def _closing(text: str, start: int) -> int:
    """Where the parenthesis that opens at `start` closes."""
    depth = 0
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place
    raise ProgramError(f"This line of HLO ends inside of parentheses: {text[:200]!r}.")


def _walk(
    computations: dict[str, dict[str, _Instruction]], name: str, trips: int | None, conditional: bool, sizes: tuple[int, int]
) -> Iterator[Collective]:
    """The collectives that a computation runs when it runs so often, those of the computations that it calls too."""
    if name not in computations:
        raise ProgramError(f"This HLO module calls a computation {name!r}, which it does not have.")
    for one in computations[name].values():
        kind = one.operation.removesuffix("-start")
        if kind in _UNREADABLE:
            raise ProgramError(f"A plan cannot be made of {one.operation}: how much it moves is not known before it runs.")
        if kind in _SENT:
            types = [computations[name][operand].type for operand in one.operands]
            groups = device_groups(one, *sizes)
            if groups.size and groups.shape[1] > 1:
                yield Collective(kind, groups, sum(map(bytes_of, types)), trips, conditional)
            continue  # what it applies is no communication
        if one.operation in ("async-update", "async-done"):
            continue  # the start has been counted
        yield from _called(computations, name, one, trips, conditional, sizes)


def _called(
    computations: dict[str, dict[str, _Instruction]],
    name: str,
    one: _Instruction,
    trips: int | None,
    conditional: bool,
    sizes: tuple[int, int],
) -> Iterator[Collective]:
    names = [name for listed in _CALLED_LISTS.findall(one.attributes) for name in re.findall(r"%?([\w.\-]+)", listed)]
    by_role = [*_CALLED.findall(one.attributes), *[("calls", name) for name in names]]
    if one.operation == "while":
        known = _TRIPS.search(one.attributes)
        count = int(known[1]) if known else _counted_trips(computations, computations[name], one, dict(by_role))
        times = {"body": count, "condition": None if count is None else count + 1}
    else:
        times = {}
    for role, called in by_role:
        each = times.get(role, 1)
        often = 0 if 0 in (trips, each) else None if trips is None or each is None else trips * each
        yield from _walk(computations, called, often, conditional or one.operation == "conditional", sizes)


def _counted_trips(
    computations: dict[str, dict[str, _Instruction]], here: dict[str, _Instruction], loop: _Instruction, parts: dict[str, str]
) -> int | None:
    """How often a loop runs that XLA says nothing of: one that counts, from a known number to below a known number, by a known
    step, and in no other way; None for all others. XLA for TPUs leaves it at that."""
    condition, body = [computations.get(parts.get(role, ""), {}) for role in ("condition", "body")]
    asks, turns = [next((one for one in part.values() if one.is_root), None) for part in (condition, body)]
    if asks is None or asks.operation != "compare" or "direction=LT" not in asks.attributes or len(asks.operands) != 2:
        return None
    place, end = _carried(condition, asks.operands[0]), _number(condition, asks.operands[1])
    start, turned = _source(here, loop.operands[0]), turns
    if place is None or end is None or start is None or turned is None or {start.operation, turned.operation} != {"tuple"}:
        return None
    first, after = _number(here, start.operands[place]), _source(body, turned.operands[place])
    if first is None or after is None or after.operation != "add" or len(after.operands) != 2:
        return None
    for counter, step in (after.operands, after.operands[::-1]):
        by = _number(body, step)
        if _carried(body, counter) == place and by is not None and by > 0:
            return max(0, -(-(end - first) // by))
    return None


def _source(part: dict[str, _Instruction], name: str) -> _Instruction | None:
    """What makes a value, behind copies of it."""
    while (one := part.get(name)) is not None and one.operation in ("copy", "bitcast") and len(one.operands) == 1:
        name = one.operands[0]
    return one


def _number(part: dict[str, _Instruction], name: str) -> int | None:
    """The integer that a value is, if it is a constant."""
    one = _source(part, name)
    known = one is not None and one.operation == "constant" and re.fullmatch(r"[su]\d+\[\].*", one.type)
    return int(one.given) if one is not None and known and re.fullmatch(r"-?\d+", one.given) else None


def _carried(part: dict[str, _Instruction], name: str) -> int | None:
    """The number of the value of a loop's carry that a value in one of its computations is."""
    one = _source(part, name)
    if one is None or one.operation != "get-tuple-element" or (found := re.search(r"\bindex=(\d+)", one.attributes)) is None:
        return None
    source = _source(part, one.operands[0])
    return int(found[1]) if source is not None and source.operation == "parameter" else None


# ---- types and groups -----------------------------------------------------------------------------------------------------

_BITS = {"pred": 8, "bf16": 16, "token": 0, "tf32": 32}


def bytes_of(type: str) -> int:
    """How many bytes the arrays of a type take: `f32[2,3]{1,0}`, or a tuple of such.

    Example:
        >>> bytes_of("(f32[2,3]{1,0}, bf16[8]{0:T(256)})")
        40
    """
    total = 0
    for dtype, sizes in _ARRAY.findall(type):
        bits = _BITS.get(dtype)
        if bits is None:
            if not (found := re.fullmatch(r"[fsuc](\d+)(?:e\d+m\d+\w*)?", dtype)):
                raise ProgramError(f"The dtype {brief(dtype)} in {type!r} is not known.")
            bits = int(found[1])
        if "<" in sizes:
            raise ProgramError(f"{type!r} has a size that is known only when the program runs.")
        total += (math.prod(map(int, filter(None, sizes.split(",")))) * bits + 7) // 8
    return total


_LIST = re.compile(r"replica_groups=\{((?:\{[\d,]*\},?)*)\}")
_IOTA = re.compile(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(r"replica_groups=@?mesh\[([^\]]*)\](.*?)\{([^}]*)\}")
_ORDER = re.compile(r"device_ids=\(\[([\d,]+)\](?:T\(([\d,]+)\))?\)")
_ORDER_LIST = re.compile(r"device_ids=\(([\d,]+)\)")
_PAIRS = re.compile(r"source_target_pairs=\{((?:\{\d+,\d+\},?)*)\}")
_AXIS = re.compile(r"'([^']+)'(?::\((\d+)\)(\d+))?")


def device_groups(one: Any, replicas: int, partitions: int) -> Any:
    """Which devices communicate with each other in a collective: an integer array, a group a row.

    Arguments:
        one: the instruction. replicas, partitions: how many there are of each.

    Raises:
        ProgramError: the text does not say it in a way that is known.
    """
    if one.operation.startswith("collective-permute"):
        if (pairs := _PAIRS.search(one.attributes)) is None:
            raise ProgramError(f"This collective-permute has no pairs that can be read: {one.attributes[:200]!r}.")
        return np.array(re.findall(r"\d+", pairs[1]), int).reshape(-1, 2)
    found = _groups(one)
    total = replicas * partitions
    channel, by_device = "channel_id=" in one.attributes, "use_global_device_ids=true" in one.attributes
    if found is None:  # all of them
        whole = one.operation.startswith(("all-to-all", "collective-broadcast")) and channel
        count = partitions if whole else total if channel else replicas
        return np.arange(count).reshape(1, count)
    if channel and not by_device and one.operation.startswith(("all-reduce", "all-gather", "reduce-scatter")):
        # groups of replicas, of each of which all partitions take part
        found = (found[:, :, None] * partitions + np.arange(partitions)).reshape(len(found), -1)
    if found.size and found.max() >= total:
        raise ProgramError(f"A group of devices goes beyond the {total} that there are: {one.attributes[:200]!r}.")
    return found


def _groups(one: Any) -> Any:
    """The groups that are written in an instruction; None where that means all devices."""
    text = one.attributes
    if listed := _LIST.search(text):
        rows = [[int(number) for number in row.split(",") if number] for row in re.findall(r"\{([\d,]*)\}", listed[1])]
        if len({*map(len, rows)}) > 1:
            raise ProgramError(f"Groups of different sizes cannot be planned with: {listed[0]!r}.")
        return np.array(rows, int) if rows else None
    if iota := _IOTA.search(text):
        shape, sizes, order = [[int(n) for n in part.split(",")] if part else None for part in iota.groups()]
        if shape is None or sizes is None or len(shape) != 2 or math.prod(shape) != math.prod(sizes):
            raise ProgramError(f"These groups cannot be read: {iota[0]!r}.")
        return np.arange(math.prod(sizes)).reshape(sizes).transpose(order).reshape(shape)
    if meshed := _MESH.search(text):
        return _mesh_groups(*meshed.groups())
    raise ProgramError(f"The groups of this {one.operation} cannot be read: {text[:200]!r}.")


def _order(text: str, count: int) -> Any:
    """The devices of a mesh as they follow each other in it: listed, or `[4,2]T(1,0)`, which are the numbers from 0 on in a
    [4,2] array that is transposed."""
    if not text.strip(" ,"):
        return np.arange(count)
    if iota := _ORDER.fullmatch(text.strip(" ,")):
        shape, order = [[int(n) for n in part.split(",")] if part else None for part in iota.groups()]
        if shape is not None and math.prod(shape) == count:
            return np.arange(count).reshape(shape).transpose(order).reshape(-1)
    if listed := _ORDER_LIST.fullmatch(text.strip(" ,")):
        devices = np.array([int(n) for n in listed[1].split(",")])
        if sorted(devices) == [*range(count)]:
            return devices
    raise ProgramError(f"These groups of a mesh have an order of devices that cannot be read: {text!r}.")


def _mesh_groups(axes: str, between: str, chosen: str) -> Any:
    """The groups along some axes of a mesh, or along parts of axes: `'x':(2)4` is the part of x, of size 4, that is inside of a
    first part of size 2."""
    names = {name: int(size) for name, size in re.findall(r"'([^']+)'=(\d+)", axes)}
    wanted = _AXIS.findall(chosen)
    parts: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
    for name, before, size in wanted:
        if name not in names:
            raise ProgramError(f"These groups go along an axis {name!r} that their mesh does not have.")
        parts[name].append((int(before or 1), int(size or names[name])))
    sizes: list[int] = []
    numbers: dict[tuple[str, int], int] = {}  # of each part of an axis, by where it begins: its place among the sizes
    for name, size in names.items():
        reached = 1
        for before, part in sorted(parts[name]):
            if before % reached or size % (before * part):
                raise ProgramError(f"The axis {name!r} of size {size} has no part ({before}){part}.")
            sizes += [before // reached, part]
            numbers[name, before] = len(sizes) - 1
            reached = before * part
        sizes.append(size // reached)
    last = [numbers[name, int(before or 1)] for name, before, _ in wanted]
    order = [axis for axis in range(len(sizes)) if axis not in last] + last
    count = math.prod(sizes[axis] for axis in last)
    return _order(between, math.prod(sizes)).reshape(sizes).transpose(order).reshape(-1, count)
