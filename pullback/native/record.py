"""From a Program to a graph: StableHLO's operations, recorded instead of written as text.

The recorder is the writer that a primitive's lowering rule gets. So each primitive, a user's too, is known to this tier by the
rule that it has for XLA; what is better said another way has a rule of its own (`platforms = {"native": rule}`).

A complex number is a *pair* of real ones in a graph, and so is a random key of four words, which its rules carry as a complex
number. Only rules see it as one value: each operation on pairs is recorded as operations on their parts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from pullback.core.dtypes import FLOAT32, FLOAT64, kind
from pullback.core.fields import Rule
from pullback.core.primitive import Primitive
from pullback.engine.lower import Lowering, Module
from pullback.native import elementwise, pairs
from pullback.native.graph import Graph, Node, Refused, element, hoisted, simplified
from pullback.program.equation import Equation
from pullback.program.program import Program
from pullback.stablehlo.writer import Region, TensorType, Value, i64s

_NUMBERS = re.compile(r"(\w+) = (?:\[([^\]]*)\]|(\d+))")

# Operations that do the same to both parts of a pair; their other operands serve for both.
_PART_BY_PART = {
    "reshape", "transpose", "slice", "broadcast_in_dim", "reverse", "concatenate", "pad", "dynamic_slice", "gather", "select",
    "dynamic_update_slice", "add", "subtract", "negate",
}  # fmt: skip
_TOGETHER = {"while", "case", "if", "optimization_barrier", "reduce_together", "accumulate", "reduce_window", "ordered", "scan"}


def _is_pair(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "c" or (kind(dtype) == "k" and dtype.itemsize == 16)


def _part(type: TensorType) -> TensorType:
    return TensorType(type.shape, FLOAT32 if type.dtype.itemsize == 8 else FLOAT64)


class Recorder(Lowering):
    """Records what lowering rules write. Its `lines` are nodes.

    Attributes:
        known: constants, by the names of their values. source: the primitive whose rule writes.
    """

    def __init__(self) -> None:
        super().__init__(Module("native"), {})
        self.lines: list[Any] = []
        self.known: dict[str, np.ndarray[Any, Any]] = {}
        self.source = ""
        self._parts: dict[str, list[Value]] = {}  # of pairs, by their names

    # ---- pairs ----

    def value(self, type: TensorType) -> Value:
        """A new value; that of a pair has new parts."""
        made = self.fresh(type)
        if _is_pair(type.dtype):
            self._parts[made.name] = [self.fresh(_part(type)) for _ in range(2)]
        elif element(type.dtype) is None:
            name = "random keys" if kind(type.dtype) == "k" else type.dtype.name
            raise Refused(f"{self.source} computes in {name}" if self.source else f"the program takes {name}")
        return made

    def parts(self, value: Value) -> list[Value]:
        return self._parts.get(value.name) or [value]

    def flat(self, values: Sequence[Value]) -> list[Value]:
        """Values with the parts of pairs in their place."""
        return [part for value in values for part in self.parts(value)]

    def pair(self, parts: Sequence[Value], dtype: np.dtype[Any]) -> Value:
        """Two real values as a pair."""
        made = self.fresh(TensorType(parts[0].shape, dtype))
        self._parts[made.name] = list(parts)
        return made

    def _of_pairs(self, name: str, operands: list[Value], result: TensorType, attributes: dict[str, Any]) -> Value:
        def op(name: str, *values: Value) -> Value:
            return self.many(name, values, [part], **attributes)[0]

        part = _part(result) if _is_pair(result.dtype) else result
        given = [self.parts(value) for value in operands]
        (a, *b), (c, *d) = given[0], given[-1]
        if name in _PART_BY_PART:
            return self.pair([op(name, *[own[i % len(own)] for own in given]) for i in (0, 1)], result.dtype)
        if name in ("real", "imag"):
            return given[0][name == "imag"]
        if name == "complex":
            return self.pair([a, c], result.dtype)
        if name == "convert":
            real = op(name, a)
            if part is result:
                return real
            return self.pair([real, op(name, *b) if b else self.constant(0, part)], result.dtype)
        if name in ("multiply", "dot_general"):
            real = self.elementwise("subtract", op(name, a, c), op(name, *b, *d))
            return self.pair([real, self.elementwise("add", op(name, a, *d), op(name, *b, c))], result.dtype)
        if name == "is_finite":
            return self.elementwise("and", op(name, a), op(name, *b))
        if name in pairs.FUNCTIONS and all([len(own) == 2 for own in given]):
            found = pairs.written(self, name, self.flat(operands))
            return found[0] if part is result else self.pair(found, result.dtype)
        raise Refused(f"{self.source} uses StableHLO's {name} of complex numbers, for which there is no native code")

    # ---- what rules call ----

    def elementwise(self, name: str, *operands: Value, result: TensorType | None = None) -> Value:
        return self.many(name, operands, [result or operands[0].type])[0]

    def many(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[TensorType],
        regions: Sequence[Any] = (),
        note: Any = "",
        **attributes: Any,
    ) -> list[Value]:
        name = name.removeprefix("stablehlo.")
        paired = any([_is_pair(type.dtype) for type in (*results, *[value.type for value in operands])])
        if paired and name == "scatter":
            return [self._scatter_of_pairs(operands, results[0], regions[0], attributes)]
        if paired and name not in _TOGETHER:
            return [self._of_pairs(name, list(operands), results[0], attributes)]
        self._check(name, operands, results, attributes)
        outs = [self.value(type) for type in results]
        params = {key: _numbers(text) for key, text in attributes.items()}
        operands = self.flat(operands)
        if regions and name in ("while", "case", "if"):  # what they use from around becomes an operand
            free = list({value.name: value for region in regions for value in region.free()}.values())
            lead = 0 if name == "while" else 1
            inputs = [[*free, *region.inputs] for region in regions]
            regions = [Graph(given, r.nodes, r.outputs, r.constants) for given, r in zip(inputs, regions)]
            operands = [*operands[:lead], *free, *operands[lead:]]
            params["consts"] = len(free)
        if name == "reduce_window" and len(outs) == 1 and operands[1].name in self.known and regions[0].operation():
            params |= {"how": regions[0].operation(), "init": self.known[operands[1].name]}
        self.lines.append(Node(name, operands, self.flat(outs), params, regions, self.source))
        return outs

    def rule(self, primitive: Primitive) -> Rule | str | None:
        """A rule of a user's for the CPU holds here too, if there is none for this tier."""
        return (primitive.platforms or {}).get("native") or primitive.lowering("cpu")

    def _check(self, name: str, operands: Sequence[Value], results: Sequence[TensorType], params: dict[str, Any]) -> None:
        """Leave what a rule wrote wrong to XLA, which says so: an elementwise operation of operands that it does not take. A
        comparison that `compare` did not write is left to XLA as well."""
        if not elementwise.is_known(name):
            return
        shapes = {value.shape for value in operands if value.shape} | {type.shape for type in results}
        dtypes = {value.dtype for value in operands}
        if name != "bitcast_convert" and (len(shapes) > 1 or (len(dtypes) > 1 and name != "select")):
            raise Refused(f"{self.source} writes {name} of unlike operands")
        if not elementwise.takes(name, [element(value.dtype) for value in operands]) or len(results) != 1:
            raise Refused(f"{self.source} writes {name} of {', '.join([str(value.type) for value in operands])}")
        if name == "compare" and "predicate" not in params:
            raise Refused(f"{self.source} writes compare without its own method of the writer")

    def _scatter_of_pairs(self, operands: Sequence[Value], result: TensorType, body: Graph, attributes: Any) -> Value:
        """A scatter whose rule does the same to both parts, each by itself."""
        made = []
        for i, part in enumerate(zip(*[self.parts(value) * (2 // len(self.parts(value))) for value in operands])):
            own = simplified(Graph(body.inputs[i::2], body.nodes, body.outputs[i : i + 1], body.constants))
            if own.free():
                raise Refused(f"{self.source} combines complex numbers")
            made += self.many("scatter", part, [_part(result)], [own], **attributes)
        return self.pair(made, result.dtype)

    def constant(self, value: Any, type: TensorType | None = None) -> Value:
        array = np.asarray(value) if type is None else np.asarray(value, type.dtype)
        type = type or TensorType(array.shape, array.dtype)
        if kind(type.dtype) == "k":
            array = array.view(np.complex128 if array.dtype.itemsize == 16 else f"u{array.dtype.itemsize}")
        if array.size and array.shape:
            flat = array.reshape(-1)
            first = flat[:1].tobytes()
            if first == flat[-1:].tobytes() and flat.tobytes() == first * array.size:
                array = flat[0].reshape(())
        key = (array.tobytes(), type)
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = self.value(type)
            both = (array.real, array.imag) if _is_pair(type.dtype) else (array,)
            for part, own in zip(self.parts(found), both):
                self.known[part.name] = own
        return found

    def compare(self, direction: str, x: Value, y: Value) -> Value:
        result = TensorType(x.shape, np.dtype(bool))
        if not _is_pair(x.dtype):
            return self.many("compare", [x, y], [result], predicate=direction.lower())[0]
        if direction not in ("EQ", "NE"):
            raise Refused(f"{self.source} puts complex numbers in order")
        both = [self.compare(direction, a, b) for a, b in zip(self.parts(x), self.parts(y))]
        return self.elementwise("and" if direction == "EQ" else "or", *both)

    def reduce(self, name: str | Callable[..., Value], value: Value, init: Any, axes: Sequence[int]) -> Value:
        if callable(name):
            return self.reduce_together(name, [value], [np.asarray(init, value.dtype)], axes)[0]
        how = name.removeprefix("stablehlo.")
        init = np.asarray(init, value.dtype)
        if _is_pair(value.dtype) and how != "add":
            return self.reduce(lambda write, x, y: write.elementwise(how, x, y), value, init, axes)
        if _is_pair(value.dtype):
            firsts = (init.real, init.imag)
            parts = [self.reduce(how, part, first, axes) for part, first in zip(self.parts(value), firsts)]
            return self.pair(parts, value.dtype)
        result = TensorType(tuple([size for axis, size in enumerate(value.shape) if axis not in axes]), value.dtype)
        return self.many("reduce", [value], [result], dimensions=tuple(axes), how=how, init=init)[0]

    def reduce_together(
        self, rule: Callable[..., Any], values: Sequence[Value], firsts: Sequence[Any], axes: Sequence[int]
    ) -> list[Value]:
        """Several arrays without `axes`: `rule(write, *before, *elements)` combines one of each with another one of each."""
        with self.region([TensorType((), value.dtype) for value in (*values, *values)]) as region:
            out = rule(self, *region.arguments)
            region.returns(*(out if isinstance(out, (list, tuple)) else [out]))
        results = [TensorType(tuple([s for i, s in enumerate(x.shape) if i not in axes]), x.dtype) for x in values]
        starts = [self.constant(first, TensorType((), x.dtype)) for first, x in zip(firsts, values)]
        return self.many("reduce_together", [*values, *starts], results, [region.text], dimensions=tuple(axes))

    def accumulate(
        self,
        rule: Callable[..., Value],
        first: Any,
        wide: np.dtype[Any],
        operands: Sequence[Value],
        axis: int,
        reverse: bool,
    ) -> Value:
        """What `rule(write, before, *elements)` makes of the elements up to each one along an axis, in the dtype `wide`."""
        with self.region([TensorType((), wide)] * (1 + len(operands))) as region:
            region.returns(rule(self, *region.arguments))
        graph: Any = region.text
        number = np.asarray(first, wide)
        starts = (number.real, number.imag) if _is_pair(wide) else (number,)
        params = {"axis": axis, "reverse": reverse, "starts": starts, "how": graph.operation()}
        return self.many("accumulate", operands, [operands[0].type], [graph], **params)[0]

    @contextmanager
    def region(self, types: Sequence[TensorType]) -> Iterator[Region]:
        outer, self.lines = self.lines, []  # constants are the same everywhere
        region: Any = Region([self.value(type) for type in types])
        try:
            yield region
            region.text = Graph(self.flat(region.arguments), self.lines, self.flat(region.results), self.known)
        finally:
            self.lines = outer

    def call(self, program: Program, *args: Value) -> list[Value]:
        return self.inline(program, *args)

    def scan(
        self,
        body: Program,
        consts: Sequence[Value],
        carry: Sequence[Value],
        stacked: Sequence[Value],
        length: int,
        reverse: bool,
    ) -> list[Value]:
        """A loop of known length that stacks what its steps return: what `control.scan` is. Its body is a Program."""
        types = [TensorType(x.shape[1:], x.dtype) for x in stacked]
        results = list(self.result_types)
        with self.region([value.type for value in [*consts, *carry]] + types) as region:
            region.returns(*self.inline(body, *region.arguments))
        graph: Any = region.text
        free = graph.free()
        graph.inputs[:0] = free
        counts = {"consts": len(free) + len(self.flat(consts)), "carry": len(self.flat(carry))}
        operands = [*free, *consts, *carry, *stacked]
        return self.many("scan", operands, results, [graph], length=length, reverse=reverse, **counts)

    def host_call(self, *given: Any, **options: Any) -> list[Value]:
        raise Refused(f"{self.source} calls a Python function")

    def refuse(self, why: str) -> NoReturn:
        raise Refused(f"{self.source} {why}")

    def _equation(self, equation: Equation, atoms: Sequence[Any]) -> Any:
        outer, results = self.source, self.result_types
        self.source = equation.primitive.name
        out = super()._equation(equation, atoms)
        self.source, self.result_types = outer, results
        return out


def _numbers(text: Any) -> Any:
    """An attribute's text as numbers: a tuple of an array, a dict of what has names; else as it is."""
    if not isinstance(text, str):
        return text
    if text.startswith("array<i64"):
        return tuple([int(part) for part in text[9:-1].lstrip(":").split(",") if part.strip()])
    if text.endswith((" : i64", " : i32")):
        return int(text[:-6])
    if text.startswith("dense<"):
        return tuple(np.array(ast.literal_eval(text[6 : text.index(">")] or "()")).reshape(-1, 2).tolist())
    if text.startswith("#stablehlo.conv<"):
        sides = [side.split(", ") for side in re.findall(r"\[([^\]]*)\]", text)]
        return [[int(axis) if axis.isdigit() else axis for axis in side] for side in sides]
    if text.startswith("#stablehlo."):
        found = _NUMBERS.findall(text)
        return {key: int(one) if one else tuple([int(p) for p in many.split(",") if p.strip()]) for key, many, one in found}
    return text


def record(program: Program) -> Graph:
    """A Program as a graph. Raises `Refused` where there is a primitive or dtype that the tier does not know.

    A complex input or output is an array of real numbers with one more axis, of size 2, as it lies in memory.
    """
    recorder = Recorder()
    inputs, values = [], []
    for type in program.input_types:
        value = recorder.value(TensorType(type.shape, type.dtype))
        values.append(value)
        parts = recorder.parts(value)
        if len(parts) == 1:
            inputs.append(value)
            continue
        own = parts[0].type
        whole = recorder.value(TensorType((*own.shape, 2), own.dtype))
        inputs.append(whole)
        cut = TensorType((*own.shape, 1), own.dtype)
        for i, part in enumerate(parts):
            lead = [0] * len(own.shape)
            given = {"start_indices": i64s([*lead, i]), "limit_indices": i64s([*own.shape, i + 1])}
            sliced = recorder.op("slice", [whole], cut, strides=i64s([1] * len(cut.shape)), **given)
            recorder.lines.append(Node("reshape", [sliced], [part], {}, (), ""))
    outputs = []
    for value in recorder.inline(program, *values):
        parts = recorder.parts(value)
        if len(parts) == 2:
            own = parts[0].type
            rows = [recorder.op("reshape", [part], TensorType((*own.shape, 1), own.dtype)) for part in parts]
            parts = [recorder.op("concatenate", rows, TensorType((*own.shape, 2), own.dtype), dimension=len(own.shape))]
        outputs += parts
    if not all([line.__class__ is Node for line in recorder.lines]):
        raise Refused("a rule writes text of its own")
    return simplified(hoisted(Graph(inputs, recorder.lines, outputs, recorder.known)))
