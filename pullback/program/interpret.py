"""The interpreter of Programs: one walk over the equations, and a hook that says what becomes of each.

Running a Program and tracing it again under a transformation (`run`), writing it as StableHLO (`engine.lower`) and putting
called Programs in the place of their calls (`control.call.inlined`) are this walk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pullback.core.tracing import Tracer, bind
from pullback.program.batching import BatchAxes, batch_axes_of
from pullback.program.equation import Equation, Graph, Variable
from pullback.program.provenance import attribute, attribute_again, is_recording

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
        out = handle(equation, [values[atom] if atom.__class__ is Variable else atom.value for atom in equation.inputs])  # type: ignore[union-attr]
        if equation.primitive.multiple_results:
            values.update(zip(equation.outputs, out, strict=True))
        else:
            values[equation.outputs[0]] = out
    # What is done to a result, such as donating it, is not done to the literal of the Program
    return tuple([values[atom] if atom.__class__ is Variable else atom.value.alias() for atom in program.outputs])  # type: ignore[union-attr]


def run(program: Graph, args: Iterable[Any], apply: Handle | None = None) -> tuple[Any, ...]:
    """Apply a Program to a value for each input, by binding its equations in order: any transformation can watch.

    Whatever is staged meanwhile is attributed to the equation that it comes from.

    Arguments:
        apply: what to do with an equation in place of binding it.
    """
    if not is_recording():
        return interpret(program, args, apply or bind_equation)
    handle = _attribute_and_bind if apply is None else _attributing(apply)
    if program.batch_axes:
        args, axes = list(args), batch_axes_of(program)
        _note(axes, program.inputs, args)
        handle = _keeping(axes, handle)
    token = attribute(None)
    try:
        return interpret(program, args, handle)
    finally:
        attribute_again(token)


def bind_equation(equation: Equation, operands: list[Any]) -> Any:
    """Apply an equation's operation to other operands."""
    return bind(equation.primitive, operands, equation.params)


def _attribute_and_bind(equation: Equation, operands: list[Any]) -> Any:
    attribute(equation)
    return bind(equation.primitive, operands, equation.params)


def _attributing(apply: Handle) -> Handle:
    def attribute_and_apply(equation: Equation, operands: list[Any]) -> Any:
        attribute(equation)
        return apply(equation, operands)

    return attribute_and_apply


def _keeping(axes: BatchAxes, apply: Handle) -> Handle:
    """The same where some axes are known to be a batch's: those of the results stay known."""

    def apply_and_note(equation: Equation, operands: list[Any]) -> Any:
        out = apply(equation, operands)
        _note(axes, equation.outputs, out if equation.primitive.multiple_results else (out,))
        return out

    return apply_and_note


def _note(axes: BatchAxes, variables: Sequence[Variable], values: Sequence[Any]) -> None:
    for variable, value in zip(variables, values):
        if variable in axes and isinstance(value, Tracer):
            value.note_batch(axes[variable])
