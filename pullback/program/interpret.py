"""The interpreter of Programs: one walk over the equations, and a hook that says what becomes of each.

Running a Program and tracing it again under a transformation (`run`), writing it as StableHLO (`engine.lower`) and putting
called Programs in the place of their calls (`control.call.inlined`) are this walk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pullback.core.tracing import bind
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
        ('add(mul(x, 2.0), x)',)
    """
    values: dict[Any, Any] = dict(program.constants)
    values.update(zip(program.inputs, args, strict=True))
    for equation in program.equations:
        out = handle(equation, [values[atom] if atom.__class__ is Variable else atom.value for atom in equation.inputs])  # type: ignore[union-attr]
        if equation.primitive.multiple_results:
            values.update(zip(equation.outputs, out, strict=True))
        else:
            values[equation.outputs[0]] = out
    return tuple([values[atom] if atom.__class__ is Variable else atom.value for atom in program.outputs])  # type: ignore[union-attr]


def run(program: Graph, args: Iterable[Any]) -> tuple[Any, ...]:
    """Apply a Program to a value for each input, by binding its equations in order: any transformation can watch.

    Whatever is staged meanwhile is attributed to the equation that it comes from.
    """
    if not is_recording():
        return interpret(program, args, _apply)
    token = attribute(None)
    try:
        return interpret(program, args, _attribute_and_apply)
    finally:
        attribute_again(token)


def _apply(equation: Equation, operands: list[Any]) -> Any:
    return bind(equation.primitive, operands, equation.params)


def _attribute_and_apply(equation: Equation, operands: list[Any]) -> Any:
    attribute(equation)
    return bind(equation.primitive, operands, equation.params)
