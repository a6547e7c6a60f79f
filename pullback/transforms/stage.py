"""Staging: run a Python function on tracers that record, and get a Program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, as_array, captured
from pullback.core.axes import youngest_owner
from pullback.core.errors import RefError
from pullback.core.leaks import note
from pullback.core.primitive import Primitive
from pullback.core.refs import Ref
from pullback.core.source import CodeSource, Source, ends_calls, forget_callers, user_source
from pullback.core.tracing import Tracer, escaped, staging
from pullback.core.types import ArrayType
from pullback.program.equation import Made, variable_of
from pullback.program.interpret import run as replay
from pullback.program.program import Atom, Equation, Literal, Program, Variable, axis_names
from pullback.program.provenance import Recorder, in_role, placed, without

__all__ = ["Staged", "StagingTrace", "primal_after_all", "replay", "residual_before_tangents", "stage"]


class Staged(Tracer):
    """A value of a Program under construction: it has a type, and a Variable, but no number."""

    __slots__ = ("argument", "equation", "type", "variable")
    owner: StagingTrace

    def __init__(self, trace: StagingTrace, variable: Variable, equation: Equation | None = None, argument: str = "") -> None:
        self.owner = trace
        self.variable = variable
        self.type = variable.type
        self.equation = equation  # that it is a result of
        self.argument = argument  # the path of the argument that it is, when it is one

    def note_batch(self, axes: frozenset[int]) -> None:
        known = self.owner.batch_axes
        before = known.get(self.variable, axes)
        known[self.variable] = axes if before is axes else before | axes

    def where(self) -> str:
        source = None if self.equation is None else self.equation.source
        return f"argument {self.argument}" if self.argument else str(source) if source is not None else ""


class StagingTrace(Recorder):
    """Records equations. Arrays and older tracers that the function closes over become constants and captures."""

    __slots__ = ("batch_axes", "captures", "constants", "equations", "kept", "places", "seen", "transformation", "zeros")

    def __init__(self, function: Callable[..., Any] | None = None, transformation: str = "jit") -> None:
        super().__init__(function)
        note(self)
        self.transformation = transformation
        self.equations: list[Equation] = []
        self.constants: dict[int, tuple[Variable, Array]] = {}
        self.kept: Collection[int] = ()  # ids of Arrays that become captures, as if they were traced
        self.captures: dict[int, tuple[Variable, Tracer | Array]] = {}
        self.batch_axes: dict[Variable, frozenset[int]] = {}  # as far as vmap has said so
        self.zeros: set[Variable] = set()  # as `is_zero` has found them
        self.places: dict[Ref, tuple[Staged, Ref]] = {}  # of Refs of outside: the value at the start, and the Ref here
        self.seen = (0, 0)  # among how many of the constants and equations

    def atom(self, value: Any) -> Atom:
        """The Variable or Literal that stands for a value in this Program."""
        if isinstance(value, Tracer):
            if isinstance(value, Staged) and value.owner is self:
                return value.variable
            if not value.owner.open:
                raise escaped(value)
            return self.captures.setdefault(id(value), (Variable(value.type), value))[0]
        array = as_array(value)
        if id(array) in self.kept:
            return self.captures.setdefault(id(array), (Variable(array.type), array))[0]
        if array is value:  # else it was made of that just now
            array = captured(array)
        if not array.type.shape:
            return Literal(array)
        known = self.constants.get(id(array))
        if known is None:
            for variable, other in self.constants.values():  # a NumPy array is copied at each use: the Program has it once
                if other.type is array.type and _alike(other, array):
                    return variable
            known = self.constants[id(array)] = Variable(array.type), array
        return known[0]

    def place(self, ref: Ref) -> Ref:
        """What stands here for a Ref that was made outside."""
        if ref not in self.places:
            start = Staged(self, Variable(ref.type))
            self.places[ref] = start, Ref(start, self.serial)
        return self.places[ref][1]

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if primitive.result_type is None and primitive.expand is not None:
            return primitive.expanded_without("result_type", self.transformation, args, params)
        if primitive.named_axes or primitive.on_arrays:  # a vmap begun since may own a named axis that this refers to
            owner = youngest_owner(axis_names(primitive, params))
            if owner is not None and owner.serial > self.serial:
                return owner.process(primitive, tuple(args), params)
        atoms: list[Atom] = []
        types: list[ArrayType] = []
        for arg in args:
            if arg.__class__ is Staged and arg.owner is self:
                atoms.append(arg.variable)
                types.append(arg.type)
            else:
                atom = self.atom(arg)
                atoms.append(atom)
                types.append(atom.type)
        key = tuple(types)
        result_type = primitive.infer(key, params) if params else primitive.inferred.get(key) or primitive.infer(key, params)
        origin = self.attributed
        source: Source | None
        if origin is None:
            source = user_source(3, self.scope)  # above `process` and `bind`
        elif origin.__class__ is CodeSource:
            source, origin = origin, None
        elif origin.__class__ is Equation:
            source = origin.source
        else:
            source, origin = placed(origin)
        if primitive.multiple_results:
            outputs = tuple([variable_of(type) for type in result_type])
            equation = Equation(primitive, tuple(atoms), outputs, params, source, origin, self.made)
            self.equations.append(equation)
            return tuple([Staged(self, variable, equation) for variable in outputs])
        variable = Variable(result_type) if result_type.sharding is None else variable_of(result_type)
        equation = Equation(primitive, tuple(atoms), (variable,), params, source, origin, self.made)
        self.equations.append(equation)
        return Staged(self, variable, equation)


def _alike(one: Array, other: Array) -> bool:
    """Whether two arrays of one type, whose values are here and nowhere in particular, have the same bits."""
    a, b = one._host, other._host
    if a is None or b is None or not (one.__class__ is other.__class__ is Array):
        return False
    if not (a.flags.c_contiguous and b.flags.c_contiguous):
        return False
    a, b = a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8)
    return a[:64].tobytes() == b[:64].tobytes() and np.array_equal(a, b)


def primal_after_all(equations: Sequence[Equation], outs: Any, made: Made) -> None:
    """Of the equations that a rule made, take it back of those that lead to the results that the rule made them: they are the
    user's own values. A batch of them was made by a rule of vmap's, during that one. So is an operation without results, which
    has an effect, repeated by its own rule."""
    needed: set[Atom] = set()
    for out in outs if isinstance(outs, (tuple, list)) else (outs,):
        while out.__class__ is not Staged and isinstance(out, Tracer):
            out = getattr(out, "value", None) if hasattr(out, "value") else getattr(out, "primal", None)
        if out.__class__ is Staged:
            needed.add(out.variable)
    for equation in reversed(equations):
        if not needed.isdisjoint(equation.outputs) or (not equation.outputs and equation.primitive is made.primitive):
            equation.made = without(equation.made, made)
            needed.update(equation.inputs)


def residual_before_tangents(equations: Sequence[Equation], made: Made, tangents: Sequence[Any]) -> None:
    """Of the equations that a rule made of values and tangents, those that depend on no tangent are what the tangents need."""
    reached: set[Atom] = set()
    for tangent in tangents:
        _add_staged_in(tangent, reached)
    for equation in equations:
        if reached.isdisjoint(equation.inputs):
            equation.made = in_role(equation.made, made, "residual")
        elif equation.primitive.depends is None:
            reached.update(equation.outputs)
        else:
            flags = tuple([int(atom in reached) for atom in equation.inputs])
            depends = equation.primitive.depends(flags, **equation.params)
            found = [out for out, flag in zip(equation.outputs, depends, strict=True) if flag]
            reached.update(found)
            if not found:
                equation.made = in_role(equation.made, made, "residual")


def _add_staged_in(value: Any, found: set[Atom]) -> None:
    """Add the variables that a value, a batch or a dual number stands for."""
    if value.__class__ is Staged:
        found.add(value.variable)
    elif hasattr(value, "value"):
        _add_staged_in(value.value, found)
    elif hasattr(value, "primal"):
        _add_staged_in(value.primal, found)
        _add_staged_in(getattr(value, "tangent", None), found)  # which a series has none of


@ends_calls
def stage(
    function: Callable[..., Sequence[Any]],
    types: Sequence[ArrayType],
    *,
    name: str = "main",
    described: Callable[..., Any] | None = None,
    arguments: Sequence[str] = (),
    transformation: str = "jit",
    refs: list[Ref] | None = None,
    kept: Collection[Array] = (),
) -> tuple[Program, tuple[Any, ...]]:
    """Record a flat function of values of the given types, which returns a sequence of values.

    Tracers of older traces that it closes over become extra inputs of the Program, in front of the others, and behind them the
    values of the Refs that it uses, those last that it writes to; they are the second result, to be passed for those inputs.
    What it leaves in the Refs that it writes to comes first among the outputs.

    Arguments:
        name: what the Program is called. described: the user's function, for error messages.
        arguments: how error messages call each argument. transformation: what they say is being done to the function.
        refs: where to put the Refs, in the order of their values. Without it a function that writes to one is refused.
        kept: Arrays that become extra inputs where the function uses them, as older tracers do, in the order of first use.
    """
    trace = StagingTrace(described or function, transformation)
    if kept:
        trace.kept = {id(array) for array in kept}
    inputs = [variable_of(type) for type in types]
    names = arguments or [""] * len(inputs)
    tracers = [Staged(trace, variable, None, argument) for variable, argument in zip(inputs, names, strict=True)]
    before = staging.variable.set(trace)
    try:  # twice: where an interrupt skips the reset, `bind` finds that the trace has ended
        try:
            outputs = [trace.atom(value) for value in function(*tracers)]
            written = {ref: place._value for ref, (start, place) in trace.places.items() if place._value is not start}
            outputs = [*[trace.atom(value) for value in written.values()], *outputs]
        finally:
            trace.open = False
            forget_callers()
    finally:
        staging.variable.reset(before)
    if written and refs is None:
        raise RefError(
            f"{trace.describe()} writes to a Ref of type {next(iter(written)).type} that was made outside of it. Here only"
            " its results come out: return the value, or make the Ref (pb.new_ref) in the function."
        )
    used = sorted(trace.places, key=written.__contains__)
    captured = [*trace.captures.values(), *[(trace.places[ref][0].variable, ref[...]) for ref in used]]
    if refs is not None:
        refs += used
    inputs = [*(variable for variable, _ in captured), *inputs]
    program = Program(inputs, trace.equations, outputs, trace.constants.values(), name, trace.batch_axes)
    return program, tuple([value for _, value in captured])
