"""check_program: the grammar of Programs, executable. Whatever makes or changes a Program is held to it in every test."""

from __future__ import annotations

import functools
import inspect
import typing
from types import FunctionType, UnionType
from typing import Any, NamedTuple, NoReturn

import numpy as np

from pullback.core.array import Array
from pullback.core.brief import counted
from pullback.core.errors import ProgramError, PullbackError
from pullback.core.source import source_text
from pullback.core.tracing import Tracer
from pullback.core.types import ArrayType
from pullback.program.equation import PLAIN, Equation, Graph, Literal, Variable, parts_of, remembered
from pullback.program.printing import equation_text


@remembered
def check_program(program: Graph) -> None:
    """Raise `ProgramError` unless a Program, and every Program inside it, keeps the rules of the IR.

    Each variable is defined once, and before it is used. Literals are 0-d; they and the constants are Arrays of the type that
    their place has. Parameters can be hashed; they are those that the primitive's rules take, all that these need, and of the
    kinds that the type rule's annotations say. No traced value is left anywhere. The results of each equation have the types
    that its primitive's type rule gives; operands of an elementwise operation have one shape, or none; those of `call` fit
    the Program that is called.

    Takes time linear in the number of equations, and only once for each Program.

    Arguments:
        program: what to check.
    Raises:
        ProgramError: a rule is broken; the message shows the equation and the user's line that it came from.

    Example:
        >>> import pullback as pb
        >>> from pullback.program.program import Program, Variable
        >>> x, y = (Variable(pb.ArrayType((3,), "float32")) for _ in range(2))
        >>> check_program(Program([x], [], [x]))
        >>> check_program(Program([x], [], [y]))
        Traceback (most recent call last):
            ...
        pullback.core.errors.ProgramError: In Program main: its output 0 is a variable of type f32[3] that nothing defines...
    """
    _Checker(program).check()


class _Checker:
    """Goes through one Program in order, keeping what has been defined."""

    def __init__(self, program: Graph) -> None:
        self.program = program
        self.defined: set[Variable] = set()

    def check(self) -> None:
        program = self.program
        for place, variable in enumerate(program.inputs):
            self.define(variable, f"its input {place}", None)
        for place, (variable, array) in enumerate(program.constants):
            self.define(variable, f"its constant {place}", None)
            self.value(array, variable.type, f"its constant {place}", None)
        for equation in program.equations:
            self.equation(equation)
        for place, atom in enumerate(program.outputs):
            self.atom(atom, f"its output {place}", None)

    def fail(self, what: str, equation: Equation | None) -> NoReturn:
        message = f"In Program {self.program.name}: {what}."
        if equation is not None:
            if all(isinstance(atom, (Variable, Literal)) for atom in equation.inputs):
                message += f"\n    {equation_text(self.program, equation)}"
            if equation.source is not None:
                message += f"\n    which comes from {source_text(equation.source)}"
        raise ProgramError(message)

    def define(self, variable: Any, what: str, equation: Equation | None) -> None:
        if not isinstance(variable, Variable):
            self.fail(f"{what} is not a Variable but {type(variable).__name__}", equation)
        if not isinstance(variable.type, ArrayType):
            self.fail(f"{what} has no ArrayType but {variable.type!r}", equation)
        if variable in self.defined:
            self.fail(f"{what} is a variable that is defined before", equation)
        self.defined.add(variable)

    def value(self, array: Any, declared: ArrayType, what: str, equation: Equation | None) -> None:
        if isinstance(array, Tracer):
            self.fail(f"{what} is a traced value, of {array.owner.describe()}", equation)
        if not isinstance(array, Array):
            self.fail(f"{what} is not an Array but {type(array).__name__}", equation)
        if array.type is not declared:
            self.fail(f"{what} is declared as {declared}, but the array is of type {array.type}", equation)

    def atom(self, atom: Any, what: str, equation: Equation | None) -> None:
        if isinstance(atom, Literal):
            self.value(atom.value, atom.type, what, equation)
            if atom.type.shape:
                self.fail(f"{what} is a literal with axes, of type {atom.type}; arrays belong to the constants", equation)
        elif isinstance(atom, Variable):
            if atom not in self.defined:
                self.fail(f"{what} is a variable of type {atom.type} that nothing defines", equation)
        elif isinstance(atom, Tracer):
            self.fail(f"{what} is a traced value, of {atom.owner.describe()}", equation)
        else:
            self.fail(f"{what} is neither a Variable nor a Literal but {type(atom).__name__}", equation)

    def equation(self, equation: Equation) -> None:
        primitive = equation.primitive
        for place, atom in enumerate(equation.inputs):
            self.atom(atom, f"operand {place} of {primitive.name}", equation)
        self.parameters(equation)
        for name, value in equation.params.items():
            if value.__class__ not in PLAIN:
                self.param(value, f"parameter {name!r} of {primitive.name}", equation)
        self.types(equation)
        for place, variable in enumerate(equation.outputs):
            self.define(variable, f"result {place} of {primitive.name}", equation)

    def param(self, value: Any, what: str, equation: Equation) -> None:
        for item in parts_of(value):
            if isinstance(item, Graph):
                check_program(item)
            elif isinstance(item, Tracer):
                self.fail(f"{what} holds a traced value, of {item.owner.describe()}", equation)
        try:
            hash(value)
        except TypeError:
            self.fail(f"{what} cannot be hashed: it is of type {type(value).__name__}", equation)

    def parameters(self, equation: Equation) -> None:
        """There are as many operands as the rules take, and the parameters that they take, of the kinds that they say."""
        primitive, given = equation.primitive, equation.params
        stated = _stated(
            len(equation.inputs), primitive.result_type, primitive.evaluate, primitive.lower, primitive.expand, *given
        )
        if stated.wrong:
            self.fail(f"{primitive.name} {stated.wrong}", equation)
        for param, wanted in stated.kinds:
            if not _is_of(given[param], wanted):
                said = f"must be {wanted.__name__ if isinstance(wanted, type) else wanted}, but it is {given[param]!r}"
                self.fail(f"parameter {param!r} of {primitive.name} {said}", equation)

    def types(self, equation: Equation) -> None:
        """What the operands' types are to each other, and what the results' types are to them."""
        primitive = equation.primitive
        types = tuple([atom.type for atom in equation.inputs])
        if primitive.elementwise:
            shapes = {type.shape for type in types if type.shape}
            if len(shapes) > 1:
                self.fail(f"{primitive.name} is elementwise, but its operands have the shapes {sorted(shapes)}", equation)
        if primitive.result_type is None:
            self.fail(f"{primitive.name} has no type rule; operations without one are expanded when they are staged", equation)
        try:
            inferred = primitive.infer(types, equation.params)
        except Exception as error:  # whatever a type rule raises of what it does not take
            self.fail(f"{primitive.name} refuses its operands: {reason(error)}", equation)
        expected = inferred if primitive.multiple_results else (inferred,)
        declared = tuple([variable.placed_type for variable in equation.outputs])
        if declared != expected:
            self.fail(f"{primitive.name} returns {_list(expected)}, but its results are declared {_list(declared)}", equation)


class _Stated(NamedTuple):
    """What the rules of an operation say of a number of operands and of parameters of certain names: what is wrong with these,
    and, in the order of the rules, of which kinds the parameters must be."""

    wrong: str
    kinds: tuple[tuple[str, Any], ...]


@functools.lru_cache(1024)
def _stated(operands: int, result_type: Any, evaluate: Any, lower: Any, expand: Any, *given: str) -> _Stated:
    kinds: dict[tuple[str, Any], None] = {}
    rules = {"result_type": result_type, "evaluate": evaluate, "lower": lower, "expand": expand}
    for rule, declared in [(name, _declared(rule)) for name, rule in rules.items()]:
        if declared is None:
            continue
        own = [needed for name, needed in declared.places if name not in given][rule == "lower" :]  # without the writer
        if operands < sum(own) or (operands > len(own) and not declared.others):
            takes = counted(sum(own), "operand") + " or more" * (declared.others or len(own) > sum(own))
            return _Stated(f"has {counted(operands, 'operand')}, but its {rule} rule takes {takes}", ())
        if missing := declared.needed.difference(given):
            return _Stated(f"has no parameter {min(missing)!r}, which its {rule} rule needs", ())
        if declared.named is not None and (unknown := set(given).difference(declared.named)):
            return _Stated(f"has a parameter {min(unknown)!r}, which its {rule} rule does not take", ())
        kinds |= dict.fromkeys([(name, kind) for name, kind in declared.kinds.items() if name in given and kind is not Any])
    return _Stated("", tuple(kinds))


class _Declared(NamedTuple):
    """What a rule of an operation takes: the parameters that it names, or None if it takes any; those that it cannot do
    without; the annotations; the arguments that may stand by position, with whether they must be given; and whether it takes
    any number of others."""

    named: frozenset[str] | None
    needed: frozenset[str]
    kinds: dict[str, Any]
    places: tuple[tuple[str, bool], ...]
    others: bool


@functools.lru_cache(1024)
def _declared(rule: Any) -> _Declared | None:
    """What a rule declares; None if it says nothing of its parameters, as the name of an operation of StableHLO."""
    if isinstance(rule, np.ufunc):
        return _Declared(frozenset(), frozenset(), {}, (("", True),) * rule.nin, False)
    function = getattr(rule, "func", rule)
    if not isinstance(function, FunctionType):
        return None
    parameters = inspect.signature(rule).parameters.values()
    named = frozenset([one.name for one in parameters if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)])
    needed = frozenset([one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is one.empty])
    kinds = typing.get_type_hints(function) if function.__annotations__ else {}
    anything = any(one.kind is one.VAR_KEYWORD for one in parameters)
    kinds = {name: kind for name, kind in kinds.items() if name in named}
    by_position = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    places = tuple([(one.name, one.default is one.empty) for one in by_position])
    others = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    return _Declared(None if anything else named, needed, kinds, places, others)


def _is_of(value: Any, kind: Any) -> bool:
    """Whether a parameter is of the kind that an annotation says: a class, a tuple of such, or one of several."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        items = inner[:1] * len(value) if isinstance(value, tuple) and inner[1:] == (...,) else inner
        return isinstance(value, tuple) and len(value) == len(items) and all(map(_is_of, value, items))
    if origin in (typing.Union, UnionType):
        return any(_is_of(value, one) for one in inner)
    if kind is Any or (kind is int and isinstance(value, bool)):
        return kind is Any
    return isinstance(value, origin or kind)


def reason(error: Exception) -> str:
    """An error's message, to be continued; its class too, where it is none of ours."""
    text = str(error).removesuffix(".")
    return text if isinstance(error, PullbackError) else f"{type(error).__name__}: {text}"


def _list(types: tuple[ArrayType, ...]) -> str:
    return f"({', '.join(map(str, types))})"
