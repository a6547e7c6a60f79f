"""Programs as text for people, one typed equation a line. JSON (`program/serialization.py`) is the form that is read back."""

from __future__ import annotations

import enum
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pullback.core.array import Array, HostArray, plain_number
from pullback.core.devices import DEFAULT_DEVICE
from pullback.core.dtypes import BOOL, COMPLEX64, FLOAT32, INT32, SHORT_NAMES, kind
from pullback.core.lazy import lazy_module
from pullback.core.meshes import AbstractMesh
from pullback.core.primitive import Primitive
from pullback.core.shardings import NamedSharding, PartitionSpec
from pullback.core.types import ArrayType, array_type
from pullback.program.batching import BatchAxes, batch_axes_of
from pullback.program.equation import Atom, Equation, Graph, Literal, Variable, is_record, parts_of, record_fields

if TYPE_CHECKING:
    import html
else:
    html = lazy_module("html")

LETTERS = "abcdefghijklmnopqrstuvwxyz"

# Constants of up to this many elements are written as numbers; of larger ones only the size is shown.
NUMBERS_SHOWN = 64

RESERVED = frozenset({"in", "inf", "lambda", "let", "nan", "where"})


class Style(NamedTuple):
    """How text is marked: what stands around the sizes of batch axes and of other axes, and how the rest is escaped."""

    batch: tuple[str, str]
    axis: tuple[str, str]
    escape: Callable[[str], str]


PLAIN = Style(("", ""), ("", ""), str)
ANSI = Style(("\x1b[34m", "\x1b[0m"), ("\x1b[95m", "\x1b[0m"), str)
_BLUE, _PINK = ((f'<span style="color:{colour}">', "</span>") for colour in ("#1f6feb", "#d6409f"))
HTML = Style(_BLUE, _PINK, lambda text: html.escape(text))


def heading(program: Graph) -> str:
    """A Program's name with the types of what it takes.

    Example:
        >>> import pullback as pb
        >>> heading(pb.xpr(lambda x: x, pb.ArrayType((3,), "float32")))
        '<lambda>(f32[3])'
    """
    types = ", ".join(map(str, program.input_types))
    return f"{program.name}({types if len(types) <= 60 else f'{len(program.inputs)} arrays'})"


def program_text(program: Graph, *, sources: bool = False, style: Style = PLAIN, batch_axes: BatchAxes | None = None) -> str:
    """A Program as text, in time linear in the number of its equations.

    Arguments:
        sources: end each equation with the place of the user's line that it comes from, and its named scopes, as a comment.
        style: `PLAIN`, `ANSI` or `HTML`: the colours of batch axes and of other axes.
        batch_axes: which axes of a variable are batch axes, in place of what the Programs know of it themselves.
    Returns:
        the text, without a newline at its end.

    Example:
        >>> from pullback.program.program import Program, Variable
        >>> x = Variable(ArrayType((3,), "float32"))
        >>> print(program_text(Program([x], [], [x])))
        { lambda (a:f32[3]:cpu(0)) ;
          let
          in a }
    """
    return Printer(program, sources, style, batch_axes or {}).program(program, "")


def variable_names() -> Iterator[str]:
    """a, b, ..., z, aa, ab, ...: without the words of the grammar."""
    for length in itertools.count(1):
        for letters in itertools.product(LETTERS, repeat=length):
            name = "".join(letters)
            if name not in RESERVED:
                yield name


def name_variables(program: Graph) -> dict[Variable, str]:
    """The names of a Program's variables, in order; results that nothing uses have none, and are printed `_`."""
    used = {atom for equation in program.equations for atom in equation.inputs} | set(program.outputs)
    results = [variable for equation in program.equations for variable in equation.outputs if variable in used]
    named = dict.fromkeys([*program.inputs, *[variable for variable, _ in program.constants], *results])
    return dict(zip(named, variable_names()))


def equation_text(program: Graph, equation: Equation) -> str:
    """One equation of a Program as its text has it, on one line: a Program inside it is cut short.

    Variables that nothing defines are shown as `?`.
    """
    printer = Printer(program, False, PLAIN, {})
    lines = printer.equation(equation, name_variables(program), "").split("\n")
    return lines[0] if len(lines) == 1 else f"{lines[0]} ... {lines[-1].strip()}"


def parameter_text(value: Any) -> str:
    """A parameter of an equation that holds no Program, as the text has it."""
    return Printer(Graph((), (), ()), False, PLAIN, {}).value(value, "")


def share_counts(program: Graph) -> tuple[list[Graph], Counter[int]]:
    """`program` and every Program inside it, once each; and how often each of these (by id) is held by an equation."""
    counts: Counter[int] = Counter()
    found = [program]
    for outer in found:  # which grows meanwhile
        values = [value for equation in outer.equations for value in equation.params.values()]
        for inner in [part for value in values for part in parts_of(value) if isinstance(part, Graph)]:
            counts[id(inner)] += 1
            if counts[id(inner)] == 1:
                found.append(inner)
    return found, counts


def primitive_text(primitive: Primitive) -> str:
    """A primitive's name; in quotes if it is not a plain word."""
    return primitive.name if re.fullmatch(r"[A-Za-z_][\w.]*", primitive.name) else repr(primitive.name)


def byte_size(count: int) -> str:
    """A number of bytes for people: `4.0 kB`.

    Example:
        >>> byte_size(999), byte_size(4000), byte_size(999_960)
        ('999 B', '4.0 kB', '1.0 MB')
    """
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if round(size, 1) < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


class Printer:
    """Writes one Program and those inside it. Each Program names its variables afresh."""

    def __init__(self, root: Graph, sources: bool, style: Style, batch_axes: BatchAxes) -> None:
        self.sources = sources
        self.style = style
        found, self.counts = share_counts(root)
        self.batch_axes: dict[Variable, frozenset[int]] = {}
        if style is not PLAIN:
            for program in reversed(found):  # what the outer ones know of the inner ones comes last
                self.batch_axes.update(batch_axes_of(program))
            self.batch_axes.update(batch_axes)
        self.labels: dict[int, str] = {}
        lie = [variable.sharding for variable in root.inputs if variable.sharding is not None]
        self.is_planned = not all([getattr(one, "devices", ()) for one in lie])  # for devices that are not there

    def program(self, program: Graph, indent: str) -> str:
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
            return f":{variable.placed_type}{self.place(variable)}"
        batch = self.batch_axes.get(variable, ())
        sizes = []
        for axis, size in enumerate(type.shape):
            before, after = self.style.batch if axis in batch else self.style.axis
            sizes.append(f"{before}{size}{after}")
        name = f"{'~' if type.weak else ''}{SHORT_NAMES[type.dtype]}"
        return f":{name}[{','.join(sizes)}]{self.style.escape(variable.placed_type.place)}{self.place(variable)}"

    def place(self, variable: Variable) -> str:
        """The devices that hold a value, as text, `:cpu(0)`; nothing where the program is for devices that are not there."""
        if variable.sharding is not None and variable.sharding.devices:
            return f":{variable.sharding.place}"
        return "" if self.is_planned else f":{DEFAULT_DEVICE}"

    def constant(self, array: Array) -> str:
        if array.size <= NUMBERS_SHOWN:
            return nested_text(np.asarray(array.host))
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
            scope = f" in {'/'.join(equation.source.scope)}" if equation.source.scope else ""
            written.append(self.style.escape(f"  # {equation.source.file}:{equation.source.line}{scope}"))
        return "".join(written)

    def atom(self, atom: Atom, names: Mapping[Variable, str], operand_types: list[ArrayType]) -> str:
        if isinstance(atom, Literal):
            return literal_text(atom.value, operand_types)
        return names.get(atom, "?")  # a variable that nothing defines, which check_program reports

    def value(self, value: Any, indent: str) -> str:
        """A parameter. What is not data is shown in <angle brackets>."""
        if isinstance(value, Graph):
            return self.nested(value, indent)
        if isinstance(value, NamedSharding):
            return self.style.escape(str(value.spec))
        if isinstance(value, (AbstractMesh, PartitionSpec)):
            return self.style.escape(str(value))
        if is_record(type(value)):
            fields = [f"{name}={self.value(item, indent)}" for name, item in record_fields(value)]
            return f"{type(value).__name__}({', '.join(fields)})"
        if isinstance(value, tuple) and type(value) is tuple:
            items = [self.value(item, indent) for item in value]
            return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
        return self.style.escape(value_text(value))

    def nested(self, program: Graph, indent: str) -> str:
        """A Program inside another. One that is held several times is written once, under a label, and then referred to."""
        if self.counts[id(program)] < 2:
            return self.program(program, indent)
        if id(program) in self.labels:
            return self.labels[id(program)]
        label = self.labels[id(program)] = f"@{len(self.labels)}"
        return f"{label} {self.program(program, indent)}"


def literal_text(array: Array, operand_types: Sequence[ArrayType]) -> str:
    """A literal: a plain number where its type is the implied one, else with its type, `2.0:f64[]`."""
    if not isinstance(array, Array) or array.type.shape:  # which check_program reports, in these words
        return f"<{type(array).__name__} {array.type}>"
    text = number_text(array.host)
    return text if implied_literal_type(array.type, operand_types) is array.type else f"{text}:{array.type}"


# By a dtype's kind, the dtype that a number written as those of that kind has by itself.
_UNTYPED = {"b": BOOL, "i": INT32, "u": INT32, "f": FLOAT32, "c": COMPLEX64}


def implied_literal_type(type: ArrayType, operand_types: Sequence[ArrayType]) -> ArrayType:
    """The type that a literal of `type` is taken to have when it is printed without one.

    It is weak, and has the dtype of the equation's first operand that is not a literal if both are bools, or integers, or real,
    or complex; else the 32-bit dtype of its own kind (complex64).

    Example:
        >>> from pullback.core.dtypes import FLOAT64
        >>> implied_literal_type(array_type((), FLOAT32), [array_type((3,), FLOAT64)])
        ~f64[]
        >>> implied_literal_type(array_type((), INT32), [array_type((3,), FLOAT64)])
        ~i32[]
    """
    untyped = _UNTYPED.get(kind(type.dtype), type.dtype)  # keys and small integers are written with their own
    same = bool(operand_types) and _UNTYPED.get(kind(operand_types[0].dtype)) is untyped
    return array_type((), operand_types[0].dtype if same else untyped, True)


def number_text(value: HostArray | np.generic) -> str:
    """The shortest text of a number that tells it from all others of its dtype."""
    value = np.asarray(value)
    letter = kind(value.dtype)
    if letter == "b":
        return "True" if value else "False"
    if letter in "ius":
        return str(int(value))
    if letter == "c":
        return complex_text(number_text(value.real), number_text(value.imag))
    text = str(value[()])
    return f"{text}.0" if text.lstrip("-").isdigit() else text


def complex_text(real: str, imaginary: str) -> str:
    """A complex number of the texts of its parts: unlike Python's own, both always stand there."""
    return f"{real}{'' if imaginary.startswith('-') else '+'}{imaginary}j"


def nested_text(value: HostArray) -> str:
    """An array's numbers in nested brackets, `[[1.0, 2.0], [3.0, 4.0]]`."""
    if value.size == 0:
        return "[]"
    return number_text(value) if value.ndim == 0 else f"[{', '.join([nested_text(row) for row in value])}]"


def value_text(value: Any) -> str:
    """A parameter that holds no Program and no tuple."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, np.generic) and value.dtype in SHORT_NAMES and kind(value.dtype) in "biufc":
        value = value.item()
    value = plain_number(value)
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return repr(value)
    if isinstance(value, complex):
        return complex_text(repr(value.real), repr(value.imag))
    if isinstance(value, ArrayType):
        return str(value)
    if isinstance(value, np.dtype) and value in SHORT_NAMES:
        return SHORT_NAMES[value]
    if callable(value):
        name = getattr(value, "__qualname__", None) or type(value).__qualname__
        return f"<function {re.sub('[<>]', '', name)}>"
    return f"<{re.sub('[<>]', '', getattr(value, 'printed', type(value).__qualname__))}>"
