"""Text -> Program: reads what `program/printing.py` writes. The grammar is in docs/program-format.md; line breaks mean nothing.

Types are checked as they are read: each equation's results must be what its primitive's type rule says.
"""

from __future__ import annotations

import enum
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

import numpy as np

from pullback.core.array import Array
from pullback.core.dtypes import BY_SHORT_NAME
from pullback.core.errors import ProgramError, PullbackError
from pullback.core.lazy import lazy_module
from pullback.core.primitive import Primitive
from pullback.core.types import ArrayType, array_type
from pullback.program.equation import Atom, Equation, Literal, Variable
from pullback.program.literals import NUMBER, implied_literal_type, read_base64, read_number, written_kind
from pullback.program.printing import RESERVED

if TYPE_CHECKING:
    import ast
    import difflib

    from pullback.program.program import Program
else:
    ast = lazy_module("ast")
    difflib = lazy_module("difflib")

T = TypeVar("T")

_TOKENS = re.compile(
    rf"""
    (?P<space>   (?: \s+ | \#[^\n]* )+ )
  | (?P<base64>  base64"[^"\n]*" )
  | (?P<string>  b? (?: '(?:[^'\\\n]|\\.)*' | "(?:[^"\\\n]|\\.)*" ) )
  | (?P<opaque>  <[^<>\n]*> )
  | (?P<number>  {NUMBER} )
  | (?P<name>    [A-Za-z_][\w.]* )
  | (?P<symbol>  [{{}}()\[\],;:=@~] )
    """,
    re.VERBOSE,
)


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def parse_program(
    text: str, primitives: Mapping[str, Primitive], kind: type[Program], classes: Mapping[str, type] | None = None
) -> Program:
    """The Program that a text says.

    Arguments:
        text: what `program.text()` returned, or what somebody wrote in the same form. Places (`:cpu(0)`) and comments may be
            left out; they are not part of a Program.
        primitives: the operations that it may use, by name.
        kind: the class to make, `Program`.
        classes: enums, NamedTuples and dataclasses that stand in parameters, by name. Those that are names in the module
            that defines a primitive need not be given.
    Returns:
        a Program equal to the one that was printed.
    Raises:
        ProgramError: the text breaks the grammar, or a rule of the IR; the message shows the place.

    Example:
        >>> import pullback as pb
        >>> from pullback.program.program import Program
        >>> print(Program.parse("{ lambda (a:f32[3]) ; let in (a, 1.0) }", {}))
        { lambda (a:f32[3]:cpu(0)) ;
          let
          in (a, 1.0) }
    """
    parser = _Parser(text, primitives, kind, classes or {})
    program = parser.program()
    if parser.token.kind != "end":
        parser.fail(f"the Program ends before {parser.token.text!r}")
    return program


class _Parser:
    """Reads tokens one by one; every method leaves `token` at the first one that it did not use."""

    def __init__(
        self, text: str, primitives: Mapping[str, Primitive], kind: type[Program], classes: Mapping[str, type]
    ) -> None:
        self.text = text
        self.primitives = primitives
        self.kind = kind
        self.classes = classes
        self.labels: dict[str, Program] = {}
        self.tokens = self.split(text)
        self.position = 0

    def split(self, text: str) -> list[_Token]:
        found, at = [], 0
        while at < len(text):
            match = _TOKENS.match(text, at)
            if match is None:
                self.fail(f"{text[at]!r} begins nothing that a Program can contain", _Token("", text[at], at))
            if match.lastgroup != "space":
                found.append(_Token(str(match.lastgroup), match[0], at))
            at = match.end()
        return [*found, _Token("end", "the end of the text", len(text)), _Token("end", "", len(text))]

    # ---- tokens ----

    @property
    def token(self) -> _Token:
        return self.tokens[self.position]

    @property
    def following(self) -> str:
        """The text of the token after the current one."""
        return self.tokens[min(self.position + 1, len(self.tokens) - 1)].text

    def fail(self, message: str, token: _Token | None = None) -> NoReturn:
        """Raise ProgramError, with the line that `token` is in and a caret under it."""
        at = (token or self.token).at
        start = self.text.rfind("\n", 0, at) + 1
        end = self.text.find("\n", at)
        line = self.text[start : len(self.text) if end < 0 else end]
        number, column = self.text.count("\n", 0, at) + 1, at - start + 1
        raise ProgramError(
            f"Line {number}, column {column}: {message}{'' if message.endswith('?') else '.'}\n{line}\n{' ' * (column - 1)}^"
        )

    def take(self) -> _Token:
        taken = self.token
        self.position += 1
        return taken

    def accept(self, text: str) -> bool:
        if self.token.text == text and self.token.kind in ("symbol", "name"):
            self.position += 1
            return True
        return False

    def expect(self, text: str, after: str) -> _Token:
        if self.token.text != text or self.token.kind not in ("symbol", "name"):
            self.fail(f"expected {text!r} {after}, but found {self.token.text!r}")
        return self.take()

    def take_kind(self, kind: str, what: str) -> _Token:
        if self.token.kind != kind:
            self.fail(f"expected {what}, but found {self.token.text!r}")
        return self.take()

    def listed(self, end: str, item: Callable[[], T], what: str) -> list[T]:
        """Items between commas, up to and with the symbol `end`."""
        items: list[T] = []
        while not self.accept(end):
            if items:
                self.expect(",", f"or {end!r} after {what}")
            items.append(item())
        return items

    # ---- Programs ----

    def program(self) -> Program:
        names: dict[str, Variable] = {}
        self.expect("{", "at the beginning of a Program")
        self.expect("lambda", "after '{'")
        self.expect("(", "before the inputs")
        inputs = self.listed(")", lambda: self.declaration(names), "an input")
        self.expect(";", "after the inputs")
        constants = []
        if self.accept("where"):
            while self.token.text != "let":
                variable = self.declaration(names)
                self.expect("=", "after a constant's type")
                constants.append((variable, self.constant(variable.type)))
        self.expect("let", "before the equations")
        equations = []
        while self.token.text != "in":
            equations.append(self.equation(names))
        self.expect("in", "before the outputs")
        if self.accept("("):
            outputs = self.listed(")", lambda: self.atom(names, []), "an output")
        else:
            outputs = [self.atom(names, [])]
        self.expect("}", "after the outputs")
        return self.kind(inputs, equations, outputs, constants)

    def declaration(self, names: dict[str, Variable]) -> Variable:
        """A new variable with its type and, perhaps, its place: `a:f32[5]:cpu(0)`."""
        name = self.take_kind("name", "the name of a variable")
        if name.text in RESERVED or "." in name.text:
            self.fail(f"{name.text!r} cannot be the name of a variable", name)
        if name.text in names:
            self.fail(f"{name.text} is defined twice", name)
        self.expect(":", f"and a type after {name.text}")
        variable = Variable(self.type())
        if self.accept(":"):
            self.take_kind("name", "a place, as cpu(0)")
            self.expect("(", "after a platform")
            self.take_kind("number", "the number of a device")
            self.expect(")", "after the number of a device")
        if name.text != "_":
            names[name.text] = variable
        return variable

    def type(self) -> ArrayType:
        """A type, `f32[3,5]`, or `~f32[]` where it is weak."""
        weak = self.accept("~")
        name = self.take_kind("name", "a type, as f32[3]")
        if name.text not in BY_SHORT_NAME:
            self.fail(f"{name.text!r} is not the short name of a dtype{_close(name.text, BY_SHORT_NAME)}", name)
        self.expect("[", "after a dtype")
        return array_type(tuple(self.listed("]", self.size, "a size")), BY_SHORT_NAME[name.text], weak)

    def size(self) -> int:
        token = self.take_kind("number", "the size of an axis")
        if not token.text.isdigit():
            self.fail(f"the size of an axis is a whole number, not {token.text}", token)
        return int(token.text)

    def constant(self, type: ArrayType) -> Array:
        """A captured array: nested brackets of numbers, or base64."""
        start = self.token
        if start.kind == "opaque":
            self.fail("the values of this constant were left out; print with program.text(constants='full')")
        if start.kind == "base64":
            return self.read_base64(self.take(), type)
        numbers: list[np.ndarray[Any, Any]] = []

        def read(shape: tuple[int, ...]) -> None:
            if not shape:
                numbers.append(self.number(type))
                return
            opening = self.expect("[", f"before the {shape[0]} rows of a constant of type {type}")
            rows = len(self.listed("]", lambda: read(shape[1:]), "a row"))
            if rows != shape[0]:
                self.fail(f"a constant of type {type} has {shape[0]} entries here, but these are {rows}", opening)

        if type.size == 0:
            self.expect("[", "for a constant without elements")
            self.expect("]", "for a constant without elements")
        else:
            read(type.shape)
        return Array(type, np.array(numbers, type.dtype).reshape(type.shape))

    def read_base64(self, token: _Token, type: ArrayType) -> Array:
        try:
            return Array(type, read_base64(token.text[len('base64"') : -1], type))
        except ValueError as error:
            self.fail(str(error), token)

    def number(self, type: ArrayType) -> np.ndarray[Any, Any]:
        token = self.take()
        if not _is_number(token):
            self.fail(f"expected a number, but found {token.text!r}", token)
        return self.read_number(token, type)

    def read_number(self, token: _Token, type: ArrayType) -> np.ndarray[Any, Any]:
        try:
            return read_number(token.text, type.dtype)
        except ValueError as error:
            self.fail(str(error), token)

    # ---- equations ----

    def equation(self, names: dict[str, Variable]) -> Equation:
        start = self.token
        outputs: list[tuple[str, Variable]] = []
        if self.accept("("):
            self.expect(")", "for an equation without results")
        else:
            while not outputs or self.accept(","):
                declared = self.token
                if declared.text in names:
                    self.fail(f"{declared.text} is defined twice")
                outputs.append((declared.text, self.declaration({})))
        self.expect("=", "after the results of an equation")
        named = self.take()
        primitive = self.primitive(named)
        params: dict[str, Any] = {}
        if self.accept("["):
            params = self.params("]", primitive, "a parameter")
        inputs = self.operands(names)
        results = tuple([variable for _, variable in outputs])
        self.check_types(start, named, primitive, inputs, results, params)
        for name, variable in outputs:
            if name in names:
                self.fail(f"{name} is defined twice", start)
            if name != "_":
                names[name] = variable
        return Equation(primitive, inputs, results, params)

    def primitive(self, token: _Token) -> Primitive:
        if token.kind not in ("name", "string"):
            self.fail(f"expected the name of a primitive, but found {token.text!r}", token)
        name = token.text if token.kind == "name" else ast.literal_eval(token.text)
        if name not in self.primitives:
            self.fail(f"there is no primitive {name!r} among those given{_close(name, self.primitives)}", token)
        return self.primitives[name]

    def check_types(
        self,
        start: _Token,
        named: _Token,
        primitive: Primitive,
        inputs: tuple[Atom, ...],
        outputs: tuple[Variable, ...],
        params: dict[str, Any],
    ) -> None:
        """Hold the declared types of an equation's results against the primitive's type rule."""
        if primitive.result_type is None:
            return
        try:
            inferred = primitive.infer(tuple([atom.type for atom in inputs]), params)
        except Exception as error:  # whatever a type rule raises of what it does not take
            message = str(error) if isinstance(error, PullbackError) else f"{type(error).__name__}: {error}"
            self.fail(f"{primitive.name} refuses these operands: {message.removesuffix('.')}", named)
        expected = inferred if primitive.multiple_results else (inferred,)
        if tuple([variable.type for variable in outputs]) != expected:
            declared = ", ".join(str(variable.type) for variable in outputs)
            self.fail(f"{primitive.name} returns {', '.join(map(str, expected))} here, not {declared or 'nothing'}", start)

    def operands(self, names: Mapping[str, Variable]) -> tuple[Atom, ...]:
        first = self.position
        # A literal without a type takes that of the first operand that has one, which may come after it.
        types: list[ArrayType] = []
        while self.is_operand():
            token = self.take()
            if self.accept(":"):
                self.type()
            elif token.text in names:
                types.append(names[token.text].type)
        self.position = first
        atoms = []
        while self.is_operand():
            atoms.append(self.atom(names, types))
        return tuple(atoms)

    def is_operand(self) -> bool:
        token = self.token
        if token.kind == "base64" or _is_number(token):
            return True
        return token.kind == "name" and token.text != "in" and self.following != ":"

    def atom(self, names: Mapping[str, Variable], operand_types: list[ArrayType]) -> Atom:
        """A variable, or a literal: `2.0`, `2.0:f64[]`, `base64"AAA="`:f32[]."""
        token = self.token
        if token.kind == "base64":
            self.position += 1
            self.expect(":", "and a type after a literal in base64")
            return Literal(self.read_base64(token, self.scalar_type()))
        if _is_number(token):
            self.position += 1
            explicit = self.accept(":")
            type = self.scalar_type() if explicit else implied_literal_type(written_kind(token.text), operand_types)
            return Literal(Array(type, self.read_number(token, type)))
        name = self.take_kind("name", "a variable or a number")
        if name.text not in names:
            self.fail(f"{name.text} is not defined{_close(name.text, names)}", name)
        return names[name.text]

    def scalar_type(self) -> ArrayType:
        start = self.token
        type = self.type()
        if type.shape:
            self.fail(f"a literal has no axes, so it cannot be of type {type}", start)
        return type

    # ---- parameters ----

    def params(self, end: str, primitive: Primitive, what: str) -> dict[str, Any]:
        """Names with values, `axes=(0,), dtype=f32`, up to and with the symbol `end`."""
        found: dict[str, Any] = {}

        def one() -> None:
            name = self.take_kind("name", "the name of a parameter")
            if name.text in found:
                self.fail(f"{name.text} is given twice", name)
            self.expect("=", f"after {name.text}")
            found[name.text] = self.value(primitive)

        self.listed(end, one, what)
        return found

    def value(self, primitive: Primitive) -> Any:
        """A parameter's value. The primitive's module is where the classes of records and enums are looked up."""
        token = self.token
        if token.text == "{":
            return self.program()
        if token.text == "~" or (token.text in BY_SHORT_NAME and self.following == "["):
            return self.type()
        self.position += 1
        if token.kind == "opaque":
            self.fail(f"{token.text} stands for an object that has no text form, so this Program cannot be read back", token)
        if token.kind == "number":
            written = written_kind(token.text)
            return int(token.text) if written == "i" else read_number(token.text, _PYTHON[written]).item()
        if token.kind == "string":
            return ast.literal_eval(token.text)
        if token.text == "@":
            return self.labelled()
        if token.text == "(":
            return tuple(self.tuple_items(primitive))
        if token.kind == "name":
            return self.named_value(token, primitive)
        self.fail(f"expected the value of a parameter, but found {token.text!r}", token)

    def tuple_items(self, primitive: Primitive) -> list[Any]:
        items: list[Any] = []
        while not self.accept(")"):
            items.append(self.value(primitive))
            if not self.accept(","):
                if len(items) == 1 and self.token.text == ")":
                    self.fail("a tuple of one item needs a comma: (x,)")
                self.expect(")", "or ',' after an item of a tuple")
                break
        return items

    def labelled(self) -> Program:
        """A Program that is held several times: `@0 { lambda ... }` at first, `@0` from then on."""
        label = self.take_kind("number", "the number of a Program, as @0")
        if self.token.text == "{":
            if label.text in self.labels:
                self.fail(f"@{label.text} is defined twice", label)
            self.labels[label.text] = self.program()
        if label.text not in self.labels:
            self.fail(f"@{label.text} is not defined before this", label)
        return self.labels[label.text]

    def named_value(self, token: _Token, primitive: Primitive) -> Any:
        if token.text in _CONSTANTS:
            return _CONSTANTS[token.text]
        if token.text in BY_SHORT_NAME:
            return BY_SHORT_NAME[token.text]
        name, _, member = token.text.partition(".")
        found = find_class(name, primitive, self.classes)
        if found is None:
            self.fail(
                f"{token.text!r} names no value, and no enum, NamedTuple or dataclass in the module of {primitive.name};"
                " give it as classes={...}",
                token,
            )
        if self.accept("("):
            fields = self.params(")", primitive, "a field")
            try:
                return found(**fields)
            except (TypeError, ValueError) as error:
                self.fail(f"{name} refuses these fields: {error}", token)
        try:
            return found[member]
        except (KeyError, TypeError):
            self.fail(f"{name} has no member {member!r}", token)


_CONSTANTS = {"True": True, "False": False, "None": None}
_PYTHON = {"f": np.dtype("float64"), "c": np.dtype("complex128")}


def find_class(name: str, primitive: Primitive, classes: Mapping[str, type]) -> type[Any] | None:
    """The enum, NamedTuple or dataclass of a name: among `classes`, else in the module that defines `primitive`."""
    found = classes.get(name) or getattr(sys.modules.get(primitive.__module__), name, None)
    if isinstance(found, type) and (issubclass(found, enum.Enum) or is_record_class(found)):
        return found
    return None


def is_record_class(found: type[Any]) -> bool:
    """Whether instances of a class are records: NamedTuples or dataclasses."""
    return hasattr(found, "__dataclass_fields__") or (issubclass(found, tuple) and hasattr(found, "_fields"))


def _is_number(token: _Token) -> bool:
    return token.kind == "number" or (token.kind == "name" and token.text in ("True", "False"))


def _close(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
