"""Programs as JSON, to be kept or sent. docs/program-format.md says what every field means.

Unlike the text, JSON also keeps the names of Programs, and for each equation the user's line that it came from.
"""

from __future__ import annotations

import binascii
import enum
import functools
import itertools
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from pullback.core.array import Array, plain_number
from pullback.core.brief import brief
from pullback.core.dtypes import BY_SHORT_NAME, SHORT_NAMES
from pullback.core.errors import ProgramError
from pullback.core.lazy import lazy_module
from pullback.core.primitive import Primitive
from pullback.core.source import RecordedSource, Source
from pullback.core.types import ArrayType, array_type
from pullback.program.checking import check_program
from pullback.program.equation import Atom, Equation, Graph, Literal, Made, Variable, is_record, record_fields
from pullback.program.printing import value_text

if TYPE_CHECKING:
    import base64
    import json
else:
    base64 = lazy_module("base64")
    json = lazy_module("json")

P = TypeVar("P", bound=Graph)

FORMAT = "pullback.program"
VERSION = 2


def to_json(program: Graph) -> str:
    """A Program as JSON text; `from_json` makes an equal one of it.

    Arguments:
        program: what to write. Programs that it holds several times are written once.
    Returns:
        one JSON object, as docs/program-format.md describes it; the last of its "programs" is `program`.
    Raises:
        ProgramError: an equation has a parameter that is not data: a function, or an object of a class that is none of the
            known kinds.

    Example:
        >>> import pullback as pb
        >>> from pullback.program.program import Program, Variable
        >>> x = Variable(pb.ArrayType((3,), "float32"))
        >>> program = Program([x], [], [x])
        >>> from_json(to_json(program), {}, Program) == program
        True
    """
    writer = _Writer()
    writer.program(program)
    ancestors = writer.ancestors()
    written = {"sources": [list(source) for source in writer.sources], "ancestors": ancestors, "programs": writer.programs}
    return json.dumps({"format": FORMAT, "version": VERSION, **written}, allow_nan=False)


def from_json(text: str, primitives: Mapping[str, Primitive], kind: type[P], classes: Mapping[str, type] | None = None) -> P:
    """The Program that `to_json` wrote.

    Arguments:
        text: the JSON text.
        primitives: the operations that it may use, by name.
        kind: the class to make, `Program`.
        classes: enums, NamedTuples and dataclasses that stand in parameters, by name. Those that are names in the module
            that defines a primitive need not be given.
    Returns:
        a Program equal to the one that was written, with the same names of Programs and sources of equations.
    Raises:
        TypeError: `primitives` or `classes` are no dict.
        ProgramError: the text is not such JSON, is of a version that this one does not read, uses something unknown, or is of a
            Program that breaks a rule of Programs, as one does whose results have other types than their operations give.
    """
    for name, given in (("primitives", primitives), ("classes", {} if classes is None else classes)):
        if not isinstance(given, Mapping):
            raise TypeError(f"from_json takes {name} as a dict by their names, but got {brief(given)}.")
    try:
        data = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise ProgramError(f"This is not JSON: {error}. Pass the text that to_json gave, as it is.") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ProgramError(f'This JSON is not a Program: it has no "format": "{FORMAT}". Pass what to_json gave.')
    if data.get("version") != VERSION:
        raise ProgramError(
            f"This Program was written in version {data.get('version')!r} of the format; this pullback reads version {VERSION}."
            " Write it again."
        )
    reader = _Reader(primitives, kind, classes or {})
    try:
        reader.provenance(data["sources"], data["ancestors"])
        for entry in data["programs"]:
            reader.programs.append(reader.program(entry))
        for equation, origin in reader.origins:  # which may be any equation of the text, a later one too
            equation.origin = reader.equations[origin]
        found = reader.programs[-1]
        check_program(found)
        return found
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, ProgramError):
            raise
        raise ProgramError(
            f"This JSON is not a Program as version {VERSION} writes it: {error!r}. Pass what to_json gave."
        ) from error


class _Writer:
    """Makes JSON data of Programs; those inside others come before them in `programs`."""

    def __init__(self) -> None:
        self.programs: list[dict[str, Any]] = []
        self.places: dict[int, int] = {}
        self.sources: dict[tuple[Any, ...], int] = {}
        self.origins: list[Equation] = []  # equations from which others come
        self.numbers: dict[int, int] = {}  # by the ids of equations, those that they have in the text
        self.placed: set[int] = set()  # of those, the numbers of equations in `programs`
        self.next_number = itertools.count().__next__

    def program(self, program: Graph) -> int:
        """The place of a Program in the list, where it is put at its first use."""
        if id(program) in self.places:
            return self.places[id(program)]
        numbers: dict[Variable, int] = {}

        def declare(variable: Variable) -> list[Any]:
            if variable.sharding is not None:
                raise ProgramError(
                    f"A value of this Program lies on devices, as {variable.placed_type}, of which JSON says nothing. Write the"
                    " Program of arrays that lie on one device; pb.export writes a function with its shardings."
                )
            numbers[variable] = len(numbers)
            return [numbers[variable], str(variable.type)]

        def atom(atom: Atom) -> Any:
            return numbers[atom] if isinstance(atom, Variable) else array_data(atom.value)

        written: dict[str, Any] = {"name": program.name}
        written["inputs"] = [declare(variable) for variable in program.inputs]
        written["constants"] = [[*declare(variable), array_data(array)] for variable, array in program.constants]
        written["equations"] = []
        for equation in program.equations:
            params = {name: self.value(value, equation, name) for name, value in equation.params.items()}
            entry: dict[str, Any] = {"primitive": equation.primitive.name, "params": params}
            entry["inputs"] = [atom(operand) for operand in equation.inputs]
            entry["outputs"] = [declare(variable) for variable in equation.outputs]
            written["equations"].append({**entry, **self.provenance(equation, self.place(equation))})
        written["outputs"] = [atom(output) for output in program.outputs]
        batches = [[numbers[variable], sorted(axes)] for variable, axes in program.batch_axes.items() if variable in numbers]
        if batches:
            written["batch_axes"] = batches
        self.programs.append(written)
        place = self.places[id(program)] = len(self.programs) - 1
        return place

    def place(self, equation: Equation) -> int:
        """The number of an equation in `programs`, which no other has: copies of one equation have the id of that."""
        number = self.numbers.get(equation.id)
        if number is None or number in self.placed:
            number = self.next_number()
            self.numbers.setdefault(equation.id, number)
        self.placed.add(number)
        return number

    def ancestors(self) -> list[dict[str, Any]]:
        """Of the equations of earlier Programs, and of those that they come from in turn, where they come from."""
        return [
            {"primitive": one.primitive.name, **self.provenance(one, self.numbers[one.id])}
            for one in self.origins  # which grows meanwhile
            if self.numbers[one.id] not in self.placed
        ]

    def provenance(self, equation: Equation, number: int) -> dict[str, Any]:
        """Where an equation comes from."""
        found: dict[str, Any] = {"id": number}
        if equation.source is not None:
            found["source"] = self.source(equation.source)
        if equation.made is not None:
            made: list[Made] = [equation.made]
            while made[-1].within is not None:
                made.append(made[-1].within)
            found["made"] = [[*one[:3], *([one.primitive.name] if one.primitive is not None else [])] for one in made]
        origin = equation.origin
        if origin is not None:
            if origin.id not in self.numbers:
                self.numbers[origin.id] = self.next_number()
                self.origins.append(origin)
            found["origin"] = self.numbers[origin.id]
        return found

    def source(self, source: Source) -> int:
        """The place of a user's line in the list of sources, as it is at the time of writing; its callers stand before it."""
        chain = [source]
        while chain[-1].caller is not None:
            chain.append(chain[-1].caller)
        at: int | None = None
        for one in reversed(chain):
            at = self.sources.setdefault((one.file, one.line, one.function, one.text, one.scope, at), len(self.sources))
        assert at is not None
        return at

    def value(self, value: Any, equation: Equation, name: str) -> Any:
        """A parameter: JSON's own null, booleans, integers and strings as they are, all else as an object of one key."""
        if isinstance(value, Graph):
            return {"program": self.program(value)}
        if isinstance(value, enum.Enum):
            return {"enum": [type(value).__name__, value.name]}
        value = plain_number(value.item() if isinstance(value, np.generic) else value)
        if value is None or isinstance(value, (bool, int, str)):
            return value
        for tag, (kind, write, _) in _AS_TEXT.items():
            if isinstance(value, kind) and (tag != "dtype" or value in SHORT_NAMES):
                return {tag: write(value)}
        if is_record(type(value)):
            fields = {field: self.value(item, equation, name) for field, item in record_fields(value)}
            return {"record": [type(value).__name__, fields]}
        if type(value) is tuple:
            return {"tuple": [self.value(item, equation, name) for item in value]}
        raise ProgramError(
            f"Parameter {name!r} of {equation.primitive.name} is a {type(value).__name__}, which is not data, so this Program"
            " cannot be written as JSON. Programs that hold Python functions (callbacks, rules of custom functions) can only be"
            " run."
        )


def array_data(array: Array) -> dict[str, str]:
    """An array: its type, and its bytes, row by row and little-endian."""
    values = np.ascontiguousarray(np.asarray(array.host)).tobytes()
    return {"type": str(array.type), "base64": base64.b64encode(values).decode()}


class _Reader(Generic[P]):
    """Makes Programs of JSON data."""

    def __init__(self, primitives: Mapping[str, Primitive], kind: type[P], classes: Mapping[str, type]) -> None:
        self.primitives = primitives
        self.kind = kind
        self.classes = classes
        self.programs: list[P] = []
        self.sources: list[RecordedSource] = []
        self.equations: dict[int, Equation] = {}  # by the ids that were written
        self.origins: list[tuple[Equation, int]] = []

    def provenance(self, sources: list[list[Any]], ancestors: list[dict[str, Any]]) -> None:
        for file, line, function, text, scope, caller in sources:
            outer = None if caller is None else self.sources[caller]
            given = RecordedSource(str(file), int(line), str(function), str(text), tuple(map(str, scope)), outer)
            self.sources.append(given)
        for entry in ancestors:
            self.equation(entry, self.named(entry["primitive"]), (), (), {})

    def equation(self, entry: dict[str, Any], primitive: Primitive, inputs: Any, outputs: Any, params: Any) -> Equation:
        """An equation with where it comes from; its id is a new one, as those of another process may be taken here."""
        source = self.sources[entry["source"]] if "source" in entry else None
        made = None
        for transformation, rule, role, *of in reversed(entry.get("made", [])):
            made = Made(transformation, rule, role, made, self.named(of[0]) if of else None)
        equation = self.equations[entry["id"]] = Equation(primitive, inputs, outputs, params, source, None, made)
        if "origin" in entry:
            self.origins.append((equation, entry["origin"]))
        return equation

    def program(self, data: dict[str, Any]) -> P:
        variables: dict[int, Variable] = {}

        def declare(number: int, type: str) -> Variable:
            if number in variables:
                raise ProgramError(
                    f"Variable {number} of Program {data['name']} is defined twice. The JSON must define each once."
                )
            variable = variables[number] = Variable(read_type(type))
            return variable

        def atom(entry: Any) -> Atom:
            if isinstance(entry, dict):
                return Literal(read_array(entry))
            if entry not in variables:
                raise ProgramError(
                    f"Variable {entry} of Program {data['name']} is used before it is defined. Equations must come in the order"
                    " in which they can be computed."
                )
            return variables[entry]

        inputs = [declare(*entry) for entry in data["inputs"]]
        constants = [(declare(number, type), read_array(array)) for number, type, array in data["constants"]]
        equations = []
        for entry in data["equations"]:
            primitive = self.primitive(entry["primitive"])
            params = {key: self.value(value, primitive) for key, value in entry["params"].items()}
            operands = tuple([atom(operand) for operand in entry["inputs"]])
            outputs = tuple([declare(*output) for output in entry["outputs"]])
            equations.append(self.equation(entry, primitive, operands, outputs, params))
        results = [atom(output) for output in data["outputs"]]
        batches = {variables[number]: frozenset(map(int, axes)) for number, axes in data.get("batch_axes", [])}
        return self.kind(inputs, equations, results, constants, data["name"], batches)

    def value(self, data: Any, primitive: Primitive) -> Any:
        if not isinstance(data, dict):
            return data
        ((tag, content),) = data.items()
        if tag in _AS_TEXT:
            return _AS_TEXT[tag][2](content)
        match tag:
            case "program":
                return self.programs[content]
            case "tuple":
                return tuple([self.value(item, primitive) if isinstance(item, dict) else item for item in content])
            case "enum":
                found: Any = self.find_class(content[0], primitive)
                return found[content[1]]
            case "record":
                name, fields = content
                return self.find_class(name, primitive)(**{key: self.value(item, primitive) for key, item in fields.items()})
        raise ProgramError(
            f"A parameter of {primitive.name} is written as {tag!r}, which version {VERSION} does not know. Read it with the"
            " pullback that wrote it."
        )

    def primitive(self, name: str) -> Primitive:
        if name not in self.primitives:
            raise ProgramError(f"There is no primitive {name!r} among those given. Pass it as primitives={{{name!r}: ...}}.")
        return self.primitives[name]

    def named(self, name: str) -> Primitive:
        """What stands for a primitive that is not run, if it is not among those given."""
        return self.primitives.get(name) or Primitive(name)

    def find_class(self, name: str, primitive: Primitive) -> type[Any]:
        """The enum, NamedTuple or dataclass of a name: among `classes`, else in the module that defines `primitive`."""
        found = self.classes.get(name) or getattr(sys.modules.get(primitive.__module__), name, None)
        if isinstance(found, type) and (issubclass(found, enum.Enum) or is_record(found)):
            return found
        raise ProgramError(
            f"A parameter of {primitive.name} is of a class {name!r} that the module of {primitive.name} does not name;"
            " give it as classes={...}."
        )


@functools.lru_cache(4096)
def read_type(text: str) -> ArrayType:
    """The type that `str(type)` wrote: `f32[3,5]`, `~f32[]`.

    Example:
        >>> read_type("~f32[]").weak
        True
    """
    name, bracket, sizes = text.removeprefix("~").removesuffix("]").partition("[")
    if name not in BY_SHORT_NAME or not bracket:
        raise ProgramError(f"{text!r} is not a type. Write it as f32[3,5] is written.")
    shape = tuple([int(size) for size in sizes.split(",")]) if sizes else ()
    return array_type(shape, BY_SHORT_NAME[name], text.startswith("~"))


def read_array(data: dict[str, str]) -> Array:
    """The array that `array_data` wrote.

    Raises:
        ValueError: what it has is not base64 text, or holds another number of bytes than the type needs.
    """
    type = read_type(data["type"])
    try:
        values = base64.b64decode(data["base64"], validate=True)
    except binascii.Error as error:
        raise ValueError(f"this is not base64 text: {error}") from None
    if len(values) != type.nbytes:
        raise ValueError(f"these are {len(values)} bytes, but {type} takes {type.nbytes}")
    return Array(type, np.frombuffer(values, type.dtype).reshape(type.shape).copy())


# What a parameter may be besides JSON's own and what holds others, by tag: its class, how it is written, how it is read.
_AS_TEXT: dict[str, tuple[type, Callable[[Any], str], Callable[[str], Any]]] = {
    "float": (float, value_text, float),
    "complex": (complex, value_text, complex),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "dtype": (np.dtype, SHORT_NAMES.__getitem__, BY_SHORT_NAME.__getitem__),
    "type": (ArrayType, str, read_type),
}
