"""The interpreter of Programs: one walk over the equations, and a hook that says what becomes of each.

Running a Program and tracing it again under a transformation (`run`), writing it as StableHLO (`engine.lower`) and putting
called Programs in the place of their calls (`control.call.inlined`) are this walk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pullback.core.axes import bind_named
from pullback.core.tracing import Tracer
from pullback.program.batching import BatchAxes, batch_axes_of
from pullback.program.equation import Equation, Graph, Literal, Variable
from pullback.program.provenance import recorder

Handle = Callable[[Equation, list[Any]], Any]


def interpret(program: Graph, args: Iterable[Any], handle: Handle) -> tuple[Any, ...]:
    """Go through a Program with a value for each input; returns what its outputs come to.

    Arguments:
        args: values of any kind, one for each input.
        handle: `(equation, operands)` -> the result, or a sequence of them where the primitive has several. Captured arrays and
            literals come as the Arrays that they are.

    Example:
        >>> import pullback as pb
        >>> program = pb.xpr(lambda x: x * 2.0 + x, 1.0)
        >>> interpret(program, ["x"], lambda equation, operands: f"{equation.primitive}({', '.join(map(str, operands))})")
        ('add(mul(x, 2.0:f32[]:cpu(0)), x)',)
    """
    values: dict[Any, Any] = dict(program.constants)
    values.update(zip(program.inputs, args, strict=True))
    for equation in program.equations:
        out = handle(equation, [values[atom] if atom.__class__ is not Literal else atom.value for atom in equation.inputs])
        if equation.primitive.multiple_results:
            values.update(zip(equation.outputs, out, strict=True))
        else:
            values[equation.outputs[0]] = out
    # What is done to a result, such as donating it, is not done to the literal of the Program
    return tuple([values[atom] if atom.__class__ is not Literal else atom.value.alias() for atom in program.outputs])


def bind_equation(equation: Equation, operands: list[Any]) -> Any:
    """Apply an equation's operation to other operands."""
    return bind_named(equation.primitive, operands, equation.params)


def run(program: Graph, args: Iterable[Any], apply: Handle = bind_equation) -> tuple[Any, ...]:
    """Apply a Program to a value for each input, by binding its equations in order: any transformation can watch.

    Whatever is staged meanwhile is attributed to the equation that it comes from.

    Arguments:
        apply: what else to do with an equation than to bind it.
    """
    recording = recorder()
    if recording is None:
        return _owned(program, interpret(program, args, apply))

    args, axes = list(args), batch_axes_of(program) if program.batch_axes else {}

    def attribute_and_apply(equation: Equation, operands: list[Any]) -> Any:
        recording.attributed = equation
        out = apply(equation, operands)
        if axes:
            _note(axes, equation.outputs, out if equation.primitive.multiple_results else (out,))
        return out

    before = recording.attributed
    _note(axes, program.inputs, args)
    try:
        return _owned(program, interpret(program, args, attribute_and_apply))
    finally:
        recording.attributed = before


def _owned(program: Graph, outs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Results of which none is an Array that the Program holds."""
    held = {id(array) for _, array in program.constants}
    return tuple([out.alias() if id(out) in held else out for out in outs]) if held else outs


def _note(axes: BatchAxes, variables: Sequence[Variable], values: Sequence[Any]) -> None:
    """The batch axes of these variables that are known stay known of the values that stand for them."""
    for variable, value in zip(variables, values):
        if variable in axes and isinstance(value, Tracer):
            value.note_batch(axes[variable])
