"""Functions as LLVM text: values, instructions, loops, branches. Knows nothing of arrays.

A value is a number or a vector of `lanes` numbers. Its kind is a dtype by its short name: `f32`, `u8`, `i1` for bool; or `ptr`.
Indices are `i64`. Numbers of 16-bit floating dtypes are held as float32, and rounded after each operation, as NumPy does.

Each instruction without effects is written once in the block that dominates its uses: the text is its own key. Each adds to the
*weight* of what is written, which counts vector instructions, times the trips of the loops around them: some 0.15 ns each.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

BITS = {
    "i1": 1,
    **{f"{sign}{bits}": bits for sign in "iu" for bits in (8, 16, 32, 64)},
    "f16": 16,
    "bf16": 16,
    "half": 16,
    "f32": 32,
    "f64": 64,
}
_LLVM = {
    **{kind: f"i{bits}" for kind, bits in BITS.items()},
    **dict.fromkeys(("f16", "bf16", "f32"), "float"),
    "f64": "double",
    "half": "half",
    "ptr": "ptr",
}
MEMORY_KINDS = {"i1": "u8", "f16": "u16", "bf16": "u16"}  # of what lies in memory, where it is not what is computed with
_MEMORY = _LLVM | {kind: _LLVM[raw] for kind, raw in MEMORY_KINDS.items()}
_SHORT = {"f16": "f32", "bf16": "f32"}  # in which kind numbers are held

UNKNOWN_TRIPS = 16  # of a loop of which nobody knows how often it runs, when it is weighed
# The weights of a division and a root in float32, and of integers' divisions, by a number that is known and by others.
SLOW = {"fdiv": 4.0, "sqrt": 10.0, "known div": 8.0, "div": 20.0}
ON_STACK, STACK = 1 << 12, 1 << 16  # arrays of up to so many bytes lie on the stack, and all of them take so many at most
MOST_LINES = 20_000  # of a function: LLVM takes 20 us for each
INLINED = 500  # lines of internal functions that are written where they are called: LLVM takes 100 us for each
POLLED_WEIGHT = 1 << 22  # a long loop asks about every so many instructions, some 1 ms, whether it is to stop


def size_of(kind: str) -> int:
    """The bytes that an element takes in memory."""
    return 8 if kind == "ptr" else max(8, BITS[kind]) // 8


def is_float(kind: str) -> bool:
    return kind in ("f16", "bf16", "f32", "f64")


def is_signed(kind: str) -> bool:
    return kind[0] == "i" and kind != "i1"


def limits(kind: str) -> tuple[Any, Any]:
    """The least and the largest number of a kind; infinities of floating ones."""
    if is_float(kind):
        return -math.inf, math.inf
    if is_signed(kind):
        return -(1 << BITS[kind] - 1), (1 << BITS[kind] - 1) - 1
    return 0, (1 << BITS[kind]) - 1


class Value:
    """A number, or a vector of `lanes` numbers: how the text calls it, and its kind."""

    __slots__ = ("kind", "lanes", "number", "text")

    def __init__(self, text: str, kind: str, lanes: int | None = None, number: Any = None) -> None:
        self.text = text
        self.kind = kind
        self.lanes = lanes
        self.number = number  # of a constant: what each lane is

    @property
    def type(self) -> str:
        return _LLVM[self.kind] if self.lanes is None else f"<{self.lanes} x {_LLVM[self.kind]}>"

    @property
    def mangled(self) -> str:
        """The type as it stands in the names of LLVM's functions."""
        spelled = {"float": "f32", "double": "f64"}.get(_LLVM[self.kind], _LLVM[self.kind])
        return spelled if self.lanes is None else f"v{self.lanes}{spelled}"

    def as_kind(self, kind: str) -> Value:
        """The same value under the name of another kind that is held alike."""
        return Value(self.text, kind, self.lanes, self.number)

    def __repr__(self) -> str:
        return f"{self.type} {self.text}"


class TooLong(Exception):
    """A function has so many instructions that compiling it takes too long."""


class _TooHeavy(Exception):
    """An alternative weighs more than another one."""


Index = int | Value  # of an element: known, or an i64


class Module:
    """What the functions of one module share.

    Attributes:
        vector_bytes: how wide the machine's vectors are.
        fma: whether it has fused multiply-add. avx512: whether it has AVX-512, whose own instructions serve some functions.
        functions: internal functions by their names, each with the kind of its result and its weight.
        declarations: of what is called from outside.
    """

    def __init__(self, vector_bytes: int = 32, fma: bool = True, avx512: bool = False) -> None:
        self.vector_bytes = vector_bytes
        self.fma = fma
        self.avx512 = avx512
        self.functions: dict[str, tuple[str, float, str]] = {}  # its kind, its weight, its text
        self.declarations: dict[str, str] = {}

    def text(self, head: str, body: str) -> str:
        """The module, whose one function for others has this body. Internal functions that are short and called
        in few places become a part of it (`#2`), for a call leaves no register of vectors as it was."""
        texts, left = [f"{head} #0 {{\n{body}\n}}"], INLINED
        for name, (_, _, text) in self.functions.items():
            lines = body.count(f"@{name}(") * text.count("\n")
            if lines <= left:
                left -= lines
                text = text.replace(" #1 {", " #2 {", 1)
            texts.append(text)
        return "\n".join([*texts, *self.declarations.values(), "!0 = !{}"]) + "\n"


class _State(NamedTuple):
    """How far a function is written: how many lines, arrays on the stack and scopes it has; and what `Code` counts."""

    lengths: tuple[int, int, int]
    names: int
    block: str
    stack: int
    workspace: int
    stops: bool
    trips: float
    weight: float


class Code:
    """The body of one function, as it is written."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.lines: list[str] = []
        self.allocated: list[str] = []
        self.workspace = 0  # bytes of it that are in use
        self.stack = 0  # bytes of it that are in use
        self.weight = 0.0
        self.trips = 1.0
        self.block = "entry"
        self.scopes: list[dict[Any, Any]] = [{}]
        self.stops = False  # whether some loop may end the function early
        self._limit = math.inf  # of the weight, while an alternative is tried
        self._count = 0

    def body(self) -> str:
        return "\n".join(["entry:", *self.allocated, *self.lines])

    # ---- values ----

    def fresh(self, prefix: str = "t") -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def weigh(self, kind: str, lanes: int | None, times: float = 1.0) -> None:
        self.weight += self.trips * times * self._width(kind, lanes)
        if self.weight > self._limit:
            raise _TooHeavy
        if len(self.lines) > MOST_LINES:
            raise TooLong(f"its code takes more than {MOST_LINES} instructions")

    def _width(self, kind: str, lanes: int | None) -> int:
        """How many vectors of the machine a value takes."""
        return 1 if lanes is None else -(-lanes * size_of(_SHORT.get(kind, kind)) // self.module.vector_bytes)

    def known(self, key: Any) -> Any:
        """What is remembered under a key here or in a block that dominates this one; None if nothing is."""
        for scope in reversed(self.scopes):
            if key in scope:
                return scope[key]
        return None

    def pure(self, text: str, kind: str, lanes: int | None = None, weight: float = 1.0) -> Value:
        """The result of an instruction without effects, written once."""
        found: Value | None = self.known(text)
        if found is None:
            self.scopes[-1][text] = found = self.result(text, kind, lanes, weight)
        return found if found.kind == kind else found.as_kind(kind)  # several kinds are held alike

    def result(self, text: str, kind: str, lanes: int | None = None, weight: float = 1.0) -> Value:
        """The result of an instruction that is written now."""
        name = f"%{self.fresh()}"
        self.lines.append(f"{name} = {text}")
        self.weigh(kind, lanes, weight)
        return Value(name, kind, lanes)

    def constant(self, number: Any, kind: str, lanes: int | None = None) -> Value:
        """A number of a kind, in each lane; integers modulo 2^bits, as the dtype holds them."""
        if is_float(kind):
            number = float(np.float32(number)) if kind != "f64" else float(number)
            text = f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
        else:
            number = int(number)
            text = str(number) if kind != "i1" else str(number & 1)
        plain = Value(text, kind, None, number)
        return plain if lanes is None else Value(f"splat ({plain.type} {text})", kind, lanes, number)

    def count_lanes(self, lanes: int, step: int = 1, kind: str = "i64") -> Value:
        """step * (0, 1, 2, ...), as integers of a kind."""
        return Value(f"<{', '.join([f'{kind} {step * i}' for i in range(lanes)])}>", kind, lanes)

    def spread(self, value: Value, lanes: int | None) -> Value:
        """A number in each of so many lanes."""
        if lanes is None or value.lanes == lanes:
            return value
        if value.number is not None:
            return self.constant(value.number, value.kind, lanes)
        whole = Value("", value.kind, lanes)
        first = self.pure(f"insertelement {whole.type} poison, {value}, i64 0", value.kind, lanes, 0.0)
        return self.pure(f"shufflevector {first}, {whole.type} poison, <{lanes} x i32> zeroinitializer", value.kind, lanes)

    def shuffle(self, value: Value, places: Sequence[int], other: Value | None = None) -> Value:
        """The lanes at these places, of `value` and, behind it, `other`."""
        count = len(places)
        if other is None and count == value.lanes and list(places) == list(range(count)):
            return value
        second = f"{other}" if other is not None else f"{value.type} poison"
        chosen = ", ".join([f"i32 {place}" for place in places])
        return self.pure(f"shufflevector {value}, {second}, <{count} x i32> <{chosen}>", value.kind, count)

    def lane(self, value: Value, place: int) -> Value:
        """One lane, as a number."""
        if value.lanes is None:
            return value
        if value.number is not None:
            return self.constant(value.number, value.kind)
        return self.pure(f"extractelement {value}, i64 {place}", value.kind)

    def joined(self, values: Sequence[Value]) -> Value:
        """The lanes of all values, one after another."""
        parts: list[Value] = []
        for single, run in [(key, list(run)) for key, run in itertools.groupby(values, lambda value: value.lanes is None)]:
            parts += [self._listed(run)] if single else run
        while len(parts) > 1:
            paired = [self._pair(first, second) for first, second in zip(parts[::2], parts[1::2])]
            parts = paired + parts[len(paired) * 2 :]
        return parts[0]

    def _listed(self, numbers: Sequence[Value]) -> Value:
        """Numbers as the lanes of a vector."""
        vector = Value("poison", numbers[0].kind, len(numbers))
        for place, number in enumerate(numbers):
            vector = self.pure(f"insertelement {vector}, {number}, i64 {place}", vector.kind, vector.lanes)
        return vector

    def _pair(self, first: Value, second: Value) -> Value:
        n, m = first.lanes or 1, second.lanes or 1
        wide = max(n, m)
        first, second = (
            part if part.lanes == wide else self.shuffle(part, [min(i, (part.lanes or 1) - 1) for i in range(wide)])
            for part in (first, second)
        )
        return self.shuffle(first, [*range(n), *range(wide, wide + m)], second)

    def cut(self, values: Sequence[Value]) -> list[Value]:
        """Values, with long vectors in parts whose lanes are a power of two: others, LLVM takes apart into numbers where they
        go from block to block."""
        return [part for value in values for part in self._parts(value)]

    def uncut(self, parts: Sequence[Value], like: Sequence[Value]) -> list[Value]:
        """The values of which these are the parts, as those of `like` are cut."""
        given, out = iter(parts), []
        for value in like:
            found = [next(given) for _ in self._parts(value)]
            out.append(found[0] if len(found) == 1 else self.joined(found))
        return out

    def _parts(self, value: Value) -> list[Value]:
        if value.lanes is None:
            return [value]
        parts, start, left, wide = [], 0, value.lanes, self.module.vector_bytes // max(4, size_of(value.kind))
        while left > wide and left & (left - 1):
            count = wide << (left // wide).bit_length() - 1
            parts.append(self.shuffle(value, range(start, start + count)))
            start, left = start + count, left - count
        return [*parts, self.shuffle(value, range(start, start + left))]

    # ---- memory ----

    def allocate(self, size: int) -> Value:
        """Memory for the length of the call: on the stack if it is small and there is room, else in the workspace. A thread's
        stack may be no more than some hundred KiB."""
        if size <= ON_STACK and self.stack + size <= STACK:
            self.stack += -(-size // 64) * 64
            name = f"%{self.fresh('a')}"
            self.allocated.append(f"{name} = alloca [{max(size, 1)} x i8], align 64")
            return Value(name, "ptr")
        at = self.workspace
        self.workspace += -(-size // 64) * 64
        return self.pure(f"getelementptr i8, ptr %workspace, i64 {at}", "ptr")

    def offset(self, pointer: Value, parts: Sequence[tuple[Index, int]]) -> Value:
        """A pointer so many bytes further: the sum of index * stride."""
        known = 0
        for index, stride in parts:
            if isinstance(index, int):
                known += index * stride
            elif stride:
                pointer = self.pure(f"getelementptr i8, {pointer}, {self.times(index, stride)}", "ptr")
        return self.pure(f"getelementptr i8, {pointer}, i64 {known}", "ptr", weight=0.0) if known else pointer

    def load(
        self, pointer: Value, kind: str, lanes: int | None = None, constant: bool = False, align: int | None = None
    ) -> Value:
        """What lies at a pointer; `constant` memory is written by nobody while the function runs."""
        memory = _MEMORY[kind] if lanes is None else f"<{lanes} x {_MEMORY[kind]}>"
        note = ", !invariant.load !0" if constant else ""
        text = f"load {memory}, {pointer}, align {align or size_of(kind)}{note}"
        read = self.pure if constant else self.result
        return self.of_memory(read(text, MEMORY_KINDS.get(kind, kind), lanes), kind)

    def store(self, value: Value, pointer: Value, align: int | None = None) -> None:
        self.lines.append(f"store {self.as_memory(value)}, {pointer}, align {align or size_of(value.kind)}")
        self.weigh(value.kind, value.lanes)

    def of_memory(self, raw: Value, kind: str) -> Value:
        """Numbers of what lies in memory."""
        lanes, type = raw.lanes, Value("", kind, raw.lanes).type
        if kind == "i1":
            return self.pure(f"icmp ne {raw}, zeroinitializer", kind, lanes)  # a byte that NumPy views as bool may be 2
        if kind == "f16":
            return self.pure(f"fpext {self.reread(raw, 'half')} to {type}", kind, lanes)
        if kind == "bf16":
            wide = self.convert_integer(raw, "u32")
            return self.reread(self.binary("shl", wide, self.constant(16, "u32", lanes)), "f32").as_kind(kind)
        return raw.as_kind(kind)

    def as_memory(self, value: Value) -> Value:
        """What lies in memory of numbers."""
        lanes, kind = value.lanes, value.kind
        if kind == "i1":
            return self.pure(f"zext {value} to {Value('', 'u8', lanes).type}", "u8", lanes)
        if kind == "f16":
            return self.reread(self._halved(value), "u16")
        if kind == "bf16":
            high = self.binary("lshr", self.reread(value.as_kind("f32"), "u32"), self.constant(16, "u32", lanes))
            return self.convert_integer(high, "u16")
        return value

    # ---- instructions ----

    def binary(self, name: str, x: Value, y: Value) -> Value:
        """An instruction of LLVM's of two operands of one type."""
        return self.pure(f"{name} {x}, {y.text}", x.kind, x.lanes, self._cost(name, x, y.number is not None))

    def _cost(self, name: str, x: Value, by_known: bool = False) -> float:
        """How many usual instructions one of LLVM's takes. Processors have no division of vectors of integers; that by a number
        that is known is a multiplication."""
        if name in ("sdiv", "udiv", "srem", "urem") and by_known:
            return SLOW["known div"]
        if name in ("fdiv", "sqrt"):
            return SLOW[name] * (2.0 if x.kind == "f64" else 1.0)
        if name in ("sdiv", "udiv", "srem", "urem"):
            return SLOW["div"] * (min(x.lanes, self.module.vector_bytes // size_of(x.kind)) if x.lanes else 1)
        return 1.0

    def intrinsic(self, name: str, *operands: Value, kind: str | None = None, extra: str = "", of: str = "") -> Value:
        """One of LLVM's functions, which are overloaded by the type of their operands; `extra` operands are given as text."""
        first = operands[0]
        kind = kind or first.kind
        result = Value("", kind, first.lanes)
        called = f"@llvm.{name}.{of or result.mangled}"
        types = ", ".join([value.type for value in operands] + ([extra.split()[0]] if extra else []))
        self.module.declarations[called] = f"declare {result.type} {called}({types})"
        given = ", ".join([f"{value}" for value in operands] + ([extra] if extra else []))
        return self.pure(f"call {result.type} {called}({given})", kind, first.lanes, self._cost(name, first))

    def compare(self, predicate: str, x: Value, y: Value) -> Value:
        """`fcmp` or `icmp`, by the kind: eq ne lt le gt ge; NaN is not equal to itself, and in no order."""
        if is_float(x.kind):
            how = "fcmp " + ("une" if predicate == "ne" else f"o{predicate}")
        else:
            sign = "" if predicate in ("eq", "ne") else "s" if is_signed(x.kind) else "u"
            how = f"icmp {sign}{predicate}"
        return self.pure(f"{how} {x}, {y.text}", "i1", x.lanes)

    def select(self, which: Value, x: Value, y: Value) -> Value:
        """x where `which`, else y."""
        if which.number is not None:
            return x if which.number & 1 else y
        if x.text == y.text:
            return x
        return self.pure(f"select {which}, {x}, {y}", x.kind, x.lanes)

    def reread(self, value: Value, kind: str) -> Value:
        """The bits of each number as one of another kind, as wide."""
        to = Value("", kind, value.lanes).type
        if to == value.type:
            return value.as_kind(kind)
        return self.pure(f"bitcast {value} to {to}", kind, value.lanes, 0.0)

    def bitcast(self, value: Value, kind: str) -> Value:
        """The bits that numbers have in memory as those of numbers of another kind."""
        return self.of_memory(self.reread(self.as_memory(value), MEMORY_KINDS.get(kind, kind)), kind)

    def convert_integer(self, value: Value, kind: str) -> Value:
        """An integer in another width, modulo 2^bits."""
        have, want = BITS[value.kind], BITS[kind]
        if have == want:
            return value.as_kind(kind)
        how = "trunc" if want < have else "sext" if is_signed(value.kind) else "zext"
        return self.pure(f"{how} {value} to {Value('', kind, value.lanes).type}", kind, value.lanes)

    def _halved(self, value: Value) -> Value:
        return self.pure(f"fptrunc {value} to {Value('', 'half', value.lanes).type}", "half", value.lanes)

    def rounded(self, value: Value, kind: str) -> Value:
        """A float32 rounded to the nearest number of a 16-bit kind, even in a tie; still held as float32."""
        lanes = value.lanes
        if kind == "f16":
            return self.pure(f"fpext {self._halved(value)} to {value.type}", kind, lanes)
        bits = self.reread(value.as_kind("f32"), "u32")
        odd = self.binary("and", self.binary("lshr", bits, self.constant(16, "u32", lanes)), self.constant(1, "u32", lanes))
        up = self.binary("add", bits, self.binary("add", odd, self.constant(0x7FFF, "u32", lanes)))
        kept = self.binary("and", up, self.constant(0xFFFF0000, "u32", lanes))
        plain = self.reread(kept, "f32")
        unordered = self.compare("ne", value.as_kind("f32"), value.as_kind("f32"))
        return self.select(unordered, self.constant(math.nan, "f32", lanes), plain).as_kind(kind)

    def call_outside(self, name: str, kind: str, operands: Sequence[Value]) -> Value:
        """A function of the C library, of numbers; of vectors lane by lane."""
        lanes = operands[0].lanes
        if lanes is not None:
            calls = [self.call_outside(name, kind, [self.lane(value, i) for value in operands]) for i in range(lanes)]
            return self.joined(calls)
        types = ", ".join([value.type for value in operands])
        self.module.declarations[name] = f"declare {Value('', kind).type} @{name}({types})"
        given = ", ".join([f"{value}" for value in operands])
        return self.pure(f"call {Value('', kind).type} @{name}({given})", kind, weight=40.0)

    def call_inside(self, name: str, make: Callable[[Code, list[Value]], Value], operands: Sequence[Value]) -> Value:
        """An internal function of the module, made by `make` if it is called for the first time: code that is written once."""
        kinds = "_".join([f"{value.kind}x{value.lanes}" if value.lanes else value.kind for value in operands])
        called = f"{name}_{kinds}"
        if called not in self.module.functions:
            inner = Code(self.module)
            given = [Value(f"%x{i}", value.kind, value.lanes) for i, value in enumerate(operands)]
            out = make(inner, given)
            head = f"define internal {out.type} @{called}({', '.join([f'{value}' for value in given])}) #1"
            self.module.functions[called] = out.kind, inner.weight, f"{head} {{\n{inner.body()}\nret {out}\n}}"
        kind, weight, _ = self.module.functions[called]
        result, lanes = Value("", kind, operands[0].lanes), operands[0].lanes
        given_text = ", ".join([f"{value}" for value in operands])
        return self.pure(f"call {result.type} @{called}({given_text})", kind, lanes, weight / self._width(kind, lanes))

    # ---- scopes ----

    @contextmanager
    def scope(self, trips: float = 1.0) -> Iterator[None]:
        """A part of the text that runs so many times and does not dominate what follows: what it computes is forgotten."""
        self.scopes.append({})
        outer, self.trips = self.trips, self.trips * trips
        try:
            yield
        finally:
            self.trips = outer
            self.scopes.pop()

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    def best(self, alternatives: Sequence[Callable[[], Any]]) -> Any:
        """The result of the alternative that weighs least. Each is written, and all but that one are taken back."""
        if len(alternatives) == 1:
            return alternatives[0]()
        before, outer = self._state(), self._limit
        lightest: tuple[Any, ...] | None = None
        for write in alternatives:
            self.scopes.append({})
            try:
                result = write()
                if lightest is None or self.weight < lightest[1].weight:
                    lightest = result, self._state(), self._taken(before)
                    self._limit = min(outer, self.weight)
            except _TooHeavy:
                pass  # another one weighs less, or what this is a part of is given up
            finally:
                self._taken(before)
                self._set(before)
        self._limit = outer
        if lightest is None:
            raise _TooHeavy
        result, after, (lines, allocated, names) = lightest
        self.lines += lines
        self.allocated += allocated
        self.scopes[-1] |= names[0]
        self._set(after)
        return result

    def _state(self) -> _State:
        lengths = len(self.lines), len(self.allocated), len(self.scopes)
        return _State(lengths, self._count, self.block, self.stack, self.workspace, self.stops, self.trips, self.weight)

    def _set(self, state: _State) -> None:
        _, self._count, self.block, self.stack, self.workspace, self.stops, self.trips, self.weight = state

    def _taken(self, before: _State) -> tuple[list[Any], ...]:
        """What was written since then, which is there no more."""
        taken = []
        parts: tuple[list[Any], ...] = self.lines, self.allocated, self.scopes
        for part, length in zip(parts, before.lengths):
            taken.append(part[length:])
            del part[length:]
        return tuple(taken)

    # ---- indices ----

    def index(self, index: Index) -> Value:
        return self.constant(index, "i64") if isinstance(index, int) else index

    def plus(self, x: Index, y: Index) -> Index:
        if isinstance(x, int) and isinstance(y, int):
            return x + y
        if x == 0 or y == 0:
            return y if isinstance(x, int) and x == 0 else x
        x, y = self.index(x), self.index(y)
        return self.pure(f"add nsw {x}, {y.text}", "i64")

    def times(self, x: Index, by: int) -> Index:
        if isinstance(x, int):
            return x * by
        return x if by == 1 else 0 if by == 0 else self.pure(f"mul nsw {x}, {by}", "i64")
