"""StableHLO as text: types, constants, operations, regions, functions, modules. Knows nothing of pullback.

Text rather than MLIR's Python bindings: the bindings change from release to release, the text format does not. Source of the
operations and their attributes: the StableHLO specification (openxla.org/stablehlo/spec).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

_ELEMENTS = {
    "bool": "i1",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"ui{bits}" for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    "bfloat16": "bf16",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
    **dict.fromkeys(("int2", "int4"), "i8"),  # of which the bits above count for nothing: see `narrowed`
    **dict.fromkeys(("uint2", "uint4"), "ui8"),
}
_KEYS = {4: "ui32", 8: "ui64", 16: "complex<f64>"}  # the dtypes of random keys, by size: their first word is the lower half


def element_type(dtype: np.dtype[Any]) -> str:
    """A dtype as StableHLO writes it: `f32`; of the float8 kinds, which NumPy calls `float8_e4m3fn`, `f8E4M3FN`."""
    if dtype.name.startswith("prng_key"):
        return _KEYS[dtype.itemsize]
    return _ELEMENTS.get(dtype.name) or f"f8{dtype.name.removeprefix('float8_').upper()}"


class TensorType:
    """A tensor type, `tensor<2x3xf32>`: a shape and a NumPy dtype. Interned, so equal types are one object."""

    __slots__ = ("__weakref__", "dtype", "element", "shape", "text")
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    element: str
    text: str

    def __new__(cls, shape: tuple[int, ...], dtype: np.dtype[Any]) -> TensorType:
        try:
            return _tensor_types[shape, dtype]
        except KeyError:
            made = object.__new__(cls)
            made.shape, made.dtype, made.element = shape, dtype, element_type(dtype)
            made.text = f"tensor<{''.join(f'{size}x' for size in shape)}{made.element}>"
            return _tensor_types.setdefault((shape, dtype), made)

    def of(self, dtype: np.dtype[Any] | None = None, shape: tuple[int, ...] | None = None) -> TensorType:
        """The type with another dtype or shape."""
        return TensorType(self.shape if shape is None else shape, self.dtype if dtype is None else dtype)

    def __repr__(self) -> str:
        return self.text


_tensor_types: WeakValueDictionary[tuple[tuple[int, ...], np.dtype[Any]], TensorType] = WeakValueDictionary()


class Value:
    """A result of an operation or an argument: its name in the text, and its type."""

    __slots__ = ("name", "type")

    def __init__(self, name: str, type: TensorType) -> None:
        self.name = name
        self.type = type

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.type.dtype

    def __repr__(self) -> str:
        return f"{self.name}: {self.type}"


def i64s(numbers: Iterable[int]) -> str:
    """An `array<i64: ...>` attribute."""
    listed = ", ".join(map(str, numbers))
    return f"array<i64: {listed}>" if listed else "array<i64>"


def listed(numbers: Iterable[int]) -> str:
    """`[0, 1]`, as dimension-number attributes spell it."""
    return f"[{', '.join(map(str, numbers))}]"


def pairs(rows: Iterable[Sequence[int]]) -> str:
    """Rows of numbers as the constant that attributes spell them by: shorter rows end in -1."""
    table = [list(row) for row in zip(*itertools.zip_longest(*rows, fillvalue=-1))]
    return (
        f"dense<{table}> : tensor<{len(table)}x{len(table[0]) if table else 2}xi64>" if table else "dense<> : tensor<0x2xi64>"
    )


class Writer:
    """Writes the body of one function. Lowering rules get one as `write`, and add operations to it.

    Attributes:
        lines: the text so far.
        location: where in the user's program the next operations come from, as `location` writes it; empty for nowhere.
        result_types: the types that the operation being lowered must return; `result_type` is the first.
        partitioned: whether a partitioner divides what is written among several devices.
    """

    partitioned = False

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.location = ""
        self.result_types: Sequence[TensorType] = ()
        self._count = 0
        self._constants: dict[tuple[bytes, TensorType], Value] = {}

    @property
    def result_type(self) -> TensorType:
        return self.result_types[0]

    def fresh(self, type: TensorType) -> Value:
        """A value with a name not used before in this function."""
        self._count = count = self._count + 1
        return Value(f"%{count}", type)

    # ---- operations ----

    def elementwise(self, name: str, *operands: Value, result: TensorType | None = None) -> Value:
        """An operation whose operands and result all have one type, as `stablehlo.add`; of the `chlo` dialect too."""
        if name.startswith("chlo."):  # that dialect is written in the generic form
            return self.op(name, operands, result or operands[0].type)
        out = self.fresh(result or operands[0].type)
        self.lines.append(
            f"{out.name} = {name} {', '.join([value.name for value in operands])} : {out.type.text}{self.location}"
        )
        return out

    def op(self, name: str, operands: Sequence[Value], result: TensorType | None = None, **attributes: Any) -> Value:
        """Any operation with one result, in MLIR's generic form; attributes are given as their text."""
        return self.many(name, operands, [result or self.result_type], **attributes)[0]

    def many(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[TensorType],
        regions: Sequence[str] = (),
        note: str = "",
        **attributes: str,
    ) -> list[Value]:
        """Any operation with any number of results and regions, in MLIR's generic form; `note` holds attributes that are none
        of its own."""
        outs = [self.fresh(type) for type in results]
        bound = f"{', '.join([out.name for out in outs])} = " if outs else ""
        given = f" <{{{', '.join([f'{key} = {text}' for key, text in attributes.items()])}}}>" if attributes else ""
        inside = f" ({', '.join(regions)})" if regions else ""
        besides = f" {{{note}}}" if note else ""
        types_in = ", ".join([value.type.text for value in operands])
        types_out = ", ".join([type.text for type in results])
        names = ", ".join([value.name for value in operands])
        self.lines.append(f'{bound}"{name}"({names}){given}{inside}{besides} : ({types_in}) -> ({types_out}){self.location}')
        return outs

    def constant(self, value: Any, type: TensorType | None = None) -> Value:
        """A constant tensor: an array, or one number to fill `type` with. Written once per function."""
        array = np.asarray(value) if type is None else np.asarray(value, type.dtype)
        type = type or TensorType(array.shape, array.dtype)
        key = (array.tobytes(), type)
        if key not in self._constants:
            out = self.fresh(type)
            self.lines.append(f"{out.name} = stablehlo.constant dense<{dense(array)}> : {type.text}{self.location}")
            self._constants[key] = out
        return self._constants[key]

    def like(self, value: Value, number: Any) -> Value:
        """A constant of one number, of the type of `value`."""
        return self.constant(number, value.type)

    def broadcast(self, value: Value, shape: Sequence[int], axes: Sequence[int] = ()) -> Value:
        """`value` in a larger shape: its axis i becomes axis `axes[i]`, and it is repeated along the others."""
        result = TensorType(tuple(shape), value.dtype)
        return self.op("stablehlo.broadcast_in_dim", [value], result, broadcast_dimensions=i64s(axes))

    def reshaped(self, value: Value, shape: tuple[int, ...]) -> Value:
        """`value` in another shape of as many elements."""
        return value if value.shape == shape else self.op("stablehlo.reshape", [value], value.type.of(shape=shape))

    def convert(self, value: Value, dtype: np.dtype[Any], operation: str = "stablehlo.convert") -> Value:
        """`value` in another dtype."""
        return value if value.dtype == dtype else self.op(operation, [value], TensorType(value.shape, dtype))

    def bitcast(self, value: Value, dtype: np.dtype[Any]) -> Value:
        """`value`'s bits as another dtype of the same width."""
        return self.convert(value, dtype, "stablehlo.bitcast_convert")

    def bitcast_words(self, value: Value) -> Value:
        """`value`'s bits as what is being written is of; those of 128 bits, which are complex numbers here, by their halves."""
        result = self.result_type
        halves = TensorType(value.shape, np.dtype(np.float64))
        if value.type.element == result.element:
            return Value(value.name, result)
        if value.type.element == "complex<f64>":
            size = 8 // result.dtype.itemsize
            part = TensorType((*value.shape, size), result.dtype)
            parts = [self.op(f"stablehlo.{name}", [value], halves) for name in ("real", "imag")]
            parts = [self.op("stablehlo.bitcast_convert", [one], part) for one in parts]
            return self.op("stablehlo.concatenate", parts, result, dimension=f"{len(value.shape)} : i64")
        if result.element == "complex<f64>":
            half = value.shape[-1] // 2
            lead = [0] * (len(value.shape) - 1)
            part = TensorType((*value.shape[:-1], half), value.dtype)
            given = [
                {
                    "start_indices": i64s([*lead, start]),
                    "limit_indices": i64s([*value.shape[:-1], start + half]),
                    "strides": i64s([1] * len(value.shape)),
                }
                for start in (0, half)
            ]
            parts = [self.op("stablehlo.slice", [value], part, **one) for one in given]
            parts = [
                self.op("stablehlo.bitcast_convert", [one], TensorType(result.shape, np.dtype(np.float64))) for one in parts
            ]
            return self.op("stablehlo.complex", parts, result)
        return self.op("stablehlo.bitcast_convert", [value])

    def narrowed(self, value: Value, dtype: np.dtype[Any]) -> Value:
        """Whole numbers of 8 bits, modulo 2^n, as those of a dtype of n bits; they are carried by numbers of 8 bits."""
        bits, unsigned = int(dtype.name.lstrip("uint")), dtype.name[0] == "u"
        result = TensorType(value.shape, dtype)
        if unsigned:
            return self.elementwise("stablehlo.and", value, self.like(value, 2**bits - 1), result=result)
        shift = self.like(value, 8 - bits)
        up = self.elementwise("stablehlo.shift_left", value, shift)
        return self.elementwise("stablehlo.shift_right_arithmetic", up, shift, result=result)

    def compare(self, direction: str, x: Value, y: Value) -> Value:
        """x `EQ|NE|LT|LE|GT|GE` y; floats compare as IEEE 754 says."""
        unsigned = x.dtype.kind == "b" or x.type.element.startswith("u")
        how = "UNSIGNED" if unsigned else "FLOAT" if x.dtype.kind in "fcV" else "SIGNED"
        result = TensorType(x.shape, np.dtype(bool))
        out = self.fresh(result)
        self.lines.append(
            f"{out.name} = stablehlo.compare {direction}, {x.name}, {y.name}, {how}"
            f" : ({x.type.text}, {y.type.text}) -> {result.text}{self.location}"
        )
        return out

    def select(self, which: Value, on_true: Value, on_false: Value) -> Value:
        """on_true where `which`, else on_false; `which` has their shape, or is 0-d."""
        return self.op("stablehlo.select", [which, on_true, on_false], on_true.type)

    def reduce(self, name: str | Callable[..., Value], value: Value, init: Any, axes: Sequence[int]) -> Value:
        """Combine the elements along `axes`, which vanish, with a binary operation, or by a rule that writes it, whose neutral
        element is `init`."""
        axes = tuple(axes)
        result = TensorType(tuple(s for axis, s in enumerate(value.shape) if axis not in axes), value.dtype)
        start = self.constant(init, TensorType((), value.dtype))
        if callable(name):
            body = self.combiner(name, value.dtype)
            return self.many("stablehlo.reduce", [value, start], [result], [body], dimensions=i64s(axes))[0]
        out = self.fresh(result)
        self.lines.append(
            f"{out.name} = stablehlo.reduce({value.name} init: {start.name}) applies {name} across dimensions = {listed(axes)}"
            f" : ({value.type.text}, {start.type.text}) -> {result.text}{self.location}"
        )
        return out

    @contextmanager
    def region(self, types: Sequence[TensorType]) -> Iterator[Region]:
        """Write a region: a block with its own arguments, ended by `region.returns`. Constants stay local to it."""
        outer_lines, outer_constants = self.lines, self._constants
        self.lines, self._constants = [], {}
        region = Region([self.fresh(type) for type in types])
        try:
            yield region
            arguments = ", ".join([f"{value.name}: {value.type.text}" for value in region.arguments])
            head = f"^bb0({arguments}):\n" if region.arguments else ""
            body = "\n".join([*self.lines, _return(region.ends, region.results)])
            region.text = f"{{\n{head}{body}\n}}"
        finally:
            self.lines, self._constants = outer_lines, outer_constants

    def at(self, stack: Value, index: Value) -> Value:
        """stack[index], for a 0-d `index` within bounds."""
        shape = stack.shape
        starts = [index, *[self.constant(0, index.type)] * (len(shape) - 1)]
        one = (1, *shape[1:])
        piece = self.op("stablehlo.dynamic_slice", [stack, *starts], TensorType(one, stack.dtype), slice_sizes=i64s(one))
        return self.op("stablehlo.reshape", [piece], TensorType(shape[1:], stack.dtype))

    def put(self, stack: Value, value: Value, index: Value) -> Value:
        """`stack` with `value` at position `index`."""
        piece = self.op("stablehlo.reshape", [value], TensorType((1, *value.shape), value.dtype))
        starts = [index, *[self.constant(0, index.type)] * len(value.shape)]
        return self.op("stablehlo.dynamic_update_slice", [stack, piece, *starts], stack.type)

    def hidden_zero(self, source: Value) -> Value:
        """A 0 of int32 of which XLA cannot know that it is one, so that what depends on it stays where it is.

        n (n + 1) is even, whatever n, an element of `source`, is."""
        first = tuple([1] * len(source.shape))
        if first:
            given = {"start_indices": i64s([0] * len(first)), "limit_indices": i64s(first), "strides": i64s(first)}
            source = self.op("stablehlo.slice", [source], TensorType(first, source.dtype), **given)
            source = self.op("stablehlo.reshape", [source], TensorType((), source.dtype))
        n = self.convert(source, np.dtype(np.int32))
        one = self.constant(1, n.type)
        product = self.elementwise("stablehlo.multiply", n, self.elementwise("stablehlo.add", n, one))
        return self.elementwise("stablehlo.and", product, one)

    def while_loop(
        self,
        start: Sequence[Value],
        condition: Callable[[Sequence[Value]], Value],
        step: Callable[[Sequence[Value]], Sequence[Value]],
    ) -> list[Value]:
        """Repeat `step` on values while `condition` of them, a 0-d bool, holds. Both may use values from around the loop."""
        types = [value.type for value in start]
        with self.region(types) as test:
            test.returns(condition(test.arguments))
        with self.region(types) as body:
            body.returns(*step(body.arguments))
        return self.many("stablehlo.while", start, types, regions=[test.text, body.text])

    def combiner(self, name: str | Callable[..., Value] | None, dtype: np.dtype[Any]) -> str:
        """A region that combines two scalars with a binary operation, or by a rule that writes it, or takes the second one."""
        scalar = TensorType((), dtype)
        with self.region([scalar, scalar]) as region:
            x, y = region.arguments
            region.returns(name(self, x, y) if callable(name) else self.elementwise(name, x, y) if name else y)
        return region.text


class Region:
    """A block under construction: `arguments` to compute with, and what it `returns`, by an operation that `ends` it."""

    ends = "stablehlo.return"

    def __init__(self, arguments: list[Value]) -> None:
        self.arguments = arguments
        self.results: list[Value] = []
        self.text = ""

    def returns(self, *values: Value) -> None:
        self.results = list(values)


def quoted(text: str) -> str:
    """A string as MLIR writes it. File names that are not UTF-8 are spelled out."""
    safe = [
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}"
        for byte in text.encode(errors="backslashreplace")
    ]
    return f'"{"".join(safe)}"'


def location(name: str, file: str, line: int) -> str:
    """Where an operation comes from, as it stands behind the operation: what it is called, and a line of a file."""
    return f" loc({quoted(name)}({quoted(file)}:{line}:0))"


def _return(name: str, values: Sequence[Value]) -> str:
    if not values:
        return name
    return f"{name} {', '.join([v.name for v in values])} : {', '.join([v.type.text for v in values])}"


def dense(array: np.ndarray[Any, Any]) -> str:
    """The text of a constant's elements: a number that fills it, or its bytes in hexadecimal."""
    if array.size == 0:
        return ""
    if array.dtype.name in ("int2", "int4", "uint2", "uint4"):
        array = array.astype(np.int8)
    if array.dtype.kind == "b" or (array.size == 1 and array.dtype.kind in "iu"):
        return str(array.item() if array.size == 1 else array.tolist()).lower()
    return f'"0x{np.ascontiguousarray(array).tobytes().hex().upper()}"'


def function(
    name: str,
    arguments: Sequence[Value],
    body: Writer,
    results: Sequence[Value],
    public: bool,
    attributes: Sequence[str] = (),
    of_results: Sequence[str] = (),
) -> str:
    """A whole function; `attributes` are those of its arguments (`{tf.aliasing_output = 0 : i32}`), and `of_results` those of
    its results, one text each."""
    notes = attributes or [""] * len(arguments)
    given = ", ".join([f"{v.name}: {v.type.text} {note}".rstrip() for v, note in zip(arguments, notes, strict=True)])
    lines = "\n".join([*body.lines, _return("return", results)])
    own = of_results or [""] * len(results)
    returned = ", ".join([f"{value.type.text} {note}".rstrip() for value, note in zip(results, own, strict=True)])
    return f"func.func {'public' if public else 'private'} @{name}({given}) -> ({returned}) {{\n{lines}\n}}"


def module(name: str, functions: Iterable[str], attributes: str = "") -> str:
    """A module of functions, of which `@main` is called."""
    return "\n".join([f"module @{name} {attributes}{{", *functions, "}\n"])
