"""Programs as text, one typed equation a line; `program/parsing.py` reads it back. docs/program-format.md has the grammar."""

from __future__ import annotations

import enum
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pullback.core.array import Array
from pullback.core.devices import DEFAULT_DEVICE, Device
from pullback.core.dtypes import SHORT_NAMES, kind
from pullback.core.lazy import lazy_module
from pullback.core.primitive import Primitive
from pullback.core.types import ArrayType
from pullback.program.equation import Atom, Equation, Literal, Variable
from pullback.program.literals import base64_text, implied_literal_type, nested_text, number_text, parameter_text, written_kind

if TYPE_CHECKING:
    import dataclasses
    import html

    from pullback.program.program import Program
else:
    html = lazy_module("html")
    dataclasses = lazy_module("dataclasses")

LETTERS = "abcdefghijklmnopqrstuvwxyz"

# Constants of up to this many elements are written as numbers. Larger ones are written in base64, or, in the text that is
# only to be looked at, not at all.
NUMBERS_SHOWN = 64

RESERVED = frozenset({"in", "inf", "lambda", "let", "nan", "where"})


class Style(NamedTuple):
    """How text is marked: what stands around the sizes of batch axes and of other axes, and how the rest is escaped."""

    batch: tuple[str, str]
    axis: tuple[str, str]
    escape: Callable[[str], str]


def _escaped(text: str) -> str:
    return html.escape(text)


PLAIN = Style(("", ""), ("", ""), str)
ANSI = Style(("\x1b[34m", "\x1b[0m"), ("\x1b[95m", "\x1b[0m"), str)
HTML = Style(('<span style="color:#1f6feb">', "</span>"), ('<span style="color:#d6409f">', "</span>"), _escaped)


def program_text(
    program: Program,
    *,
    constants: str = "full",
    sources: bool = False,
    style: Style = PLAIN,
    batch_axes: Mapping[Variable, int] | None = None,
    device: Device = DEFAULT_DEVICE,
) -> str:
    """A Program as text, in time linear in the number of its equations.

    Arguments:
        constants: `"full"` writes every captured array so that it reads back exactly; `"short"` writes only the size of
            those with more than 64 elements, and such text does not parse.
        sources: end each equation with the user's line that it comes from, as a comment.
        style: `PLAIN`, `ANSI` or `HTML`: the colours of batch axes and of other axes.
        batch_axes: how many leading axes of a variable are batch axes, in place of what the Programs know of it themselves.
        device: what is printed as the place of each value.
    Returns:
        the text, without a newline at its end.
    Raises:
        ValueError: `constants` is neither of the two words.

    Example:
        >>> from pullback.program.program import Program, Variable
        >>> x = Variable(ArrayType((3,), "float32"))
        >>> print(program_text(Program([x], [], [x])))
        { lambda (a:f32[3]:cpu(0)) ;
          let
          in a }
    """
    if constants not in ("full", "short"):
        raise ValueError(f"constants must be 'full' or 'short', not {constants!r}.")
    return _Printer(program, constants == "full", sources, style, batch_axes or {}, device).program(program, "")


def variable_names() -> Iterator[str]:
    """a, b, ..., z, aa, ab, ...: without the words of the grammar."""
    for length in itertools.count(1):
        for letters in itertools.product(LETTERS, repeat=length):
            name = "".join(letters)
            if name not in RESERVED:
                yield name


def name_variables(program: Program) -> dict[Variable, str]:
    """The names of a Program's variables, in order; results that nothing uses have none, and are printed `_`."""
    fresh = variable_names()
    used = {atom for equation in program.equations for atom in equation.inputs} | set(program.outputs)
    names: dict[Variable, str] = {}
    for variable in (*program.inputs, *[variable for variable, _ in program.constants]):
        if variable not in names:
            names[variable] = next(fresh)
    for equation in program.equations:
        for variable in equation.outputs:
            if variable in used and variable not in names:
                names[variable] = next(fresh)
    return names


def equation_text(program: Program, equation: Equation) -> str:
    """One equation of a Program as its text has it, on one line: a Program inside it is cut short.

    Variables that nothing defines are shown as `?`.
    """
    printer = _Printer(program, False, False, PLAIN, {}, DEFAULT_DEVICE)
    lines = printer.equation(equation, name_variables(program), "").split("\n")
    return lines[0] if len(lines) == 1 else f"{lines[0]} ... {lines[-1].strip()}"


def nested_programs(value: Any, kind: type) -> Iterator[Any]:
    """The Programs (instances of `kind`) in an equation's parameter: itself, or inside tuples and dataclasses."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from nested_programs(item, kind)
    elif is_record(value):
        for _, item in record_fields(value):
            yield from nested_programs(item, kind)


def is_record(value: Any) -> bool:
    """Whether a parameter is one of named fields: a NamedTuple, or a dataclass."""
    own = type(value)
    return hasattr(own, "__dataclass_fields__") or (isinstance(value, tuple) and hasattr(own, "_fields"))


def record_fields(value: Any) -> list[tuple[str, Any]]:
    """The fields of a record by name."""
    if isinstance(value, tuple):
        return list(zip(value._fields, value))  # type: ignore[attr-defined]
    return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value) if field.init]


def share_counts(program: Program) -> tuple[list[Program], dict[int, int]]:
    """`program` and every Program inside it, once each; and how often each of these (by id) is held by an equation."""
    kind = type(program)
    counts: dict[int, int] = {}
    found = [program]
    for outer in found:  # which grows meanwhile
        for equation in outer.equations:
            for value in equation.params.values():
                for inner in nested_programs(value, kind):
                    counts[id(inner)] = counts.get(id(inner), 0) + 1
                    if counts[id(inner)] == 1:
                        found.append(inner)
    return found, counts


def primitive_text(primitive: Primitive) -> str:
    """A primitive's name; in quotes if it is not a plain word."""
    return primitive.name if re.fullmatch(r"[A-Za-z_][\w.]*", primitive.name) else repr(primitive.name)


def byte_size(count: int) -> str:
    """A number of bytes for people: `4.0 kB`."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


class _Printer:
    """Writes one Program and those inside it. Each Program names its variables afresh."""

    def __init__(
        self, root: Program, full: bool, sources: bool, style: Style, batch_axes: Mapping[Variable, int], device: Device
    ) -> None:
        self.kind = type(root)
        self.full = full
        self.sources = sources
        self.style = style
        self.place = f":{device}"
        found, self.counts = share_counts(root)
        self.batch_axes = {variable: count for program in found for variable, count in program.batch_axes.items()}
        self.batch_axes.update(batch_axes)
        self.labels: dict[int, str] = {}

    def program(self, program: Program, indent: str) -> str:
        names = name_variables(program)
        lines = [f"{{ lambda ({', '.join([self.declaration(variable, names) for variable in program.inputs])}) ;"]
        if program.constants:
            lines.append(f"{indent}  where")
            for variable, array in program.constants:
                lines.append(f"{indent}    {self.declaration(variable, names)} = {self.constant(array)}")
        lines.append(f"{indent}  let")
        inner = indent + "    "
        lines += [inner + self.equation(equation, names, inner) for equation in program.equations]
        outs = [self.atom(atom, names, []) for atom in program.outputs]
        lines.append(f"{indent}  in {outs[0] if len(outs) == 1 else '(' + ', '.join(outs) + ')'} }}")
        return "\n".join(lines)

    def declaration(self, variable: Variable, names: Mapping[Variable, str]) -> str:
        return names.get(variable, "_") + self.type(variable)

    def type(self, variable: Variable) -> str:
        """A variable's type and place, `:f32[3,5]:cpu(0)`, its axes in their colours."""
        type = variable.type
        if self.style is PLAIN:
            return f":{type}{self.place}"
        batch = self.batch_axes.get(variable, 0)
        sizes = []
        for axis, size in enumerate(type.shape):
            before, after = self.style.batch if axis < batch else self.style.axis
            sizes.append(f"{before}{size}{after}")
        return f":{'~' if type.weak else ''}{SHORT_NAMES[type.dtype]}[{','.join(sizes)}]{self.place}"

    def constant(self, array: Array) -> str:
        if array.size <= NUMBERS_SHOWN:
            text = nested_text(np.asarray(array.host))
            if text is not None:
                return text
        if self.full or array.size <= NUMBERS_SHOWN:
            return f'base64"{base64_text(array.host)}"'
        return self.style.escape(f"<{byte_size(array.type.nbytes)} not shown>")

    def equation(self, equation: Equation, names: Mapping[Variable, str], indent: str) -> str:
        outputs = ", ".join([self.declaration(variable, names) for variable in equation.outputs])
        written = [outputs or "()", " = ", self.style.escape(primitive_text(equation.primitive))]
        if equation.params:
            params = [f"{name}={self.value(value, indent)}" for name, value in equation.params.items()]
            written.append(f"[{', '.join(params)}]")
        types = [atom.type for atom in equation.inputs if isinstance(atom, Variable)]
        operands = [self.atom(atom, names, types) for atom in equation.inputs]
        written += [f" {operand}" for operand in operands]
        if self.sources and equation.source is not None:
            written.append(self.style.escape(f"  # {equation.source.file}:{equation.source.line}"))
        return "".join(written)

    def atom(self, atom: Atom, names: Mapping[Variable, str], operand_types: list[ArrayType]) -> str:
        if isinstance(atom, Literal):
            return literal_text(atom.value, operand_types)
        return names.get(atom, "?")  # a variable that nothing defines, which check_program reports

    def value(self, value: Any, indent: str) -> str:
        """A parameter. What has no text form is shown in <angle brackets>, and does not parse."""
        if isinstance(value, self.kind):
            return self.nested(value, indent)
        if is_record(value):
            fields = [f"{name}={self.value(item, indent)}" for name, item in record_fields(value)]
            return f"{type(value).__name__}({', '.join(fields)})"
        if isinstance(value, tuple) and type(value) is tuple:
            items = [self.value(item, indent) for item in value]
            return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
        return self.style.escape(value_text(value))

    def nested(self, program: Program, indent: str) -> str:
        """A Program inside another. One that is held several times is written once, under a label, and then referred to."""
        if self.counts.get(id(program), 0) < 2:
            return self.program(program, indent)
        if id(program) in self.labels:
            return self.labels[id(program)]
        label = self.labels[id(program)] = f"@{len(self.labels)}"
        return f"{label} {self.program(program, indent)}"


def literal_text(array: Array, operand_types: list[ArrayType]) -> str:
    """A literal: a plain number where its type is the implied one, else with its type, `2.0:f64[]`."""
    if not isinstance(array, Array) or array.type.shape:  # which check_program reports, in these words
        return f"<{type(array).__name__} {array.type}>"
    text = number_text(array.host)
    if text is None:
        return f'base64"{base64_text(array.host)}":{array.type}'
    return text if implied_literal_type(written_kind(text), operand_types) is array.type else f"{text}:{array.type}"


def value_text(value: Any) -> str:
    """A parameter that holds no Program and no tuple."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, np.generic) and value.dtype in SHORT_NAMES and kind(value.dtype) in "biufc":
        value = value.item()
    if value is None or isinstance(value, (bool, str, bytes)):
        return repr(value)
    if isinstance(value, int):
        return repr(int(value))
    if isinstance(value, (float, complex)):
        return parameter_text(value)
    if isinstance(value, ArrayType):
        return str(value)
    if isinstance(value, np.dtype) and value in SHORT_NAMES:
        return SHORT_NAMES[value]
    if callable(value):
        name = getattr(value, "__qualname__", None) or type(value).__qualname__
        return f"<function {re.sub('[<>]', '', name)}>"
    return f"<{re.sub('[<>]', '', getattr(value, 'printed', type(value).__qualname__))}>"
