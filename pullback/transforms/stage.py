"""Staging: run a Python function on tracers that record, and get a Program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pullback.core.array import Array, as_array
from pullback.core.axes import youngest_owner
from pullback.core.primitive import Primitive
from pullback.core.source import Source, user_source
from pullback.core.tracing import Trace, Tracer, bind, escaped, staging
from pullback.core.types import ArrayType
from pullback.program.batching import BatchAxes, batch_axes_of
from pullback.program.interpret import interpret
from pullback.program.program import Atom, Equation, Literal, Program, Variable, axis_names


class Staged(Tracer):
    """A value of a Program under construction: it has a type, and a Variable, but no number."""

    __slots__ = ("argument", "source", "variable")
    owner: StagingTrace

    def __init__(self, trace: StagingTrace, variable: Variable, source: Source | None = None, argument: str = "") -> None:
        self.owner = trace
        self.variable = variable
        self.source = source
        self.argument = argument  # the path of the argument that it is, when it is one

    @property
    def type(self) -> ArrayType:  # type: ignore[override]
        return self.variable.type

    def note_batch(self, axes: frozenset[int]) -> None:
        known = self.owner.batch_axes
        before = known.get(self.variable, axes)
        known[self.variable] = axes if before is axes else before | axes

    def where(self) -> str:
        return f"argument {self.argument}" if self.argument else str(self.source) if self.source is not None else ""


class StagingTrace(Trace):
    """Records equations. Arrays and older tracers that the function closes over become constants and captures."""

    __slots__ = ("batch_axes", "captures", "constants", "equations", "transformation")

    def __init__(self, function: Callable[..., Any] | None = None, transformation: str = "jit") -> None:
        super().__init__(function)
        self.transformation = transformation
        self.equations: list[Equation] = []
        self.constants: dict[int, tuple[Variable, Array]] = {}
        self.captures: dict[int, tuple[Variable, Tracer]] = {}
        self.batch_axes: dict[Variable, frozenset[int]] = {}  # as far as vmap has said so

    def atom(self, value: Any) -> Atom:
        """The Variable or Literal that stands for a value in this Program."""
        if isinstance(value, Tracer):
            if isinstance(value, Staged) and value.owner is self:
                return value.variable
            if not value.owner.open:
                raise escaped(value)
            return self.captures.setdefault(id(value), (Variable(value.type), value))[0]
        array = as_array(value)
        if not array.type.shape:
            return Literal(array)
        return self.constants.setdefault(id(array), (Variable(array.type), array))[0]

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if primitive.result_type is None and primitive.expand is not None:
            return primitive.expanded(args, params)
        if primitive.named_axes or primitive.on_arrays:  # a vmap begun since may own a named axis that this refers to
            owner = youngest_owner(axis_names(primitive, params))
            if owner is not None and owner.birth > self.birth:
                return owner.process(primitive, tuple(args), params)
        atoms = tuple([arg.variable if arg.__class__ is Staged and arg.owner is self else self.atom(arg) for arg in args])
        result_type = primitive.infer(tuple([atom.type for atom in atoms]), params)
        origin = replayed()
        source = user_source() if origin is None else origin.source
        if primitive.multiple_results:
            outputs = tuple([Variable(type) for type in result_type])
            self.equations.append(Equation(primitive, atoms, outputs, params, source, origin))
            return tuple([Staged(self, variable, source) for variable in outputs])
        variable = Variable(result_type)
        self.equations.append(Equation(primitive, atoms, (variable,), params, source, origin))
        return Staged(self, variable, source)


# While an equation of a Program is replayed under a transformation, what is staged came from it, not from our own loop.
_replayed: ContextVar[Equation | None] = ContextVar("pullback_replayed_equation", default=None)
replayed = _replayed.get


@contextmanager
def replaying(equation: Equation) -> Iterator[None]:
    """Attribute what is staged in this block to `equation`."""
    token = _replayed.set(equation)
    try:
        yield
    finally:
        _replayed.reset(token)


def replay(program: Program, args: Iterable[Any]) -> tuple[Any, ...]:
    """`run` a Program, attributing whatever is staged meanwhile to the equation that it comes from."""
    token = _replayed.set(None)
    handle = _apply_again
    if program.batch_axes:
        args, axes = list(args), batch_axes_of(program)
        _note(axes, program.inputs, args)
        handle = _keeping(axes)
    try:
        return interpret(program, args, handle)
    finally:
        _replayed.reset(token)


def _apply_again(equation: Equation, operands: list[Any]) -> Any:
    _replayed.set(equation)
    return bind(equation.primitive, operands, equation.params)


def _keeping(axes: BatchAxes) -> Callable[[Equation, list[Any]], Any]:
    """`_apply_again` where some axes are known to be a batch's: those of the results stay known."""

    def apply_again(equation: Equation, operands: list[Any]) -> Any:
        out = _apply_again(equation, operands)
        _note(axes, equation.outputs, out if equation.primitive.multiple_results else (out,))
        return out

    return apply_again


def _note(axes: BatchAxes, variables: Sequence[Variable], values: Sequence[Any]) -> None:
    for variable, value in zip(variables, values):
        if variable in axes and isinstance(value, Tracer):
            value.note_batch(axes[variable])


def stage(
    function: Callable[..., Sequence[Any]],
    types: Sequence[ArrayType],
    *,
    name: str = "main",
    described: Callable[..., Any] | None = None,
    arguments: Sequence[str] = (),
    transformation: str = "jit",
) -> tuple[Program, tuple[Tracer, ...]]:
    """Record a flat function of values of the given types, which returns a sequence of values.

    Tracers of older traces that it closes over become extra inputs of the Program, in front of the others; they are the
    second result, to be passed for those inputs.

    Arguments:
        name: what the Program is called. described: the user's function, for error messages.
        arguments: how error messages call each argument. transformation: what they say is being done to the function.
    """
    trace = StagingTrace(described or function, transformation)
    inputs = [Variable(type) for type in types]
    names = arguments or [""] * len(inputs)
    tracers = [Staged(trace, variable, None, argument) for variable, argument in zip(inputs, names, strict=True)]
    with staging(trace):
        outputs = [trace.atom(value) for value in function(*tracers)]
    captured = list(trace.captures.values())
    inputs = [*(variable for variable, _ in captured), *inputs]
    program = Program(inputs, trace.equations, outputs, trace.constants.values(), name, trace.batch_axes)
    return program, tuple([tracer for _, tracer in captured])
