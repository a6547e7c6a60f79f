"""Programs that are run once more, to be looked at: what they do besides computing values has been done already."""

from __future__ import annotations

from pullback.control.holder import held_by
from pullback.program.equation import Equation, remembered
from pullback.program.program import Program, programs_in


@remembered
def without_effects(program: Program) -> Program:
    """A Program without what is there for its effect alone, such as `pb.debug.print`; a callback that returns something stays.

    Example:
        >>> program = pb.xpr(lambda x: (pb.debug.print("{}", x), x * 2.0)[1], 1.0)
        >>> [[equation.primitive.name for equation in one.equations] for one in (program, without_effects(program))]
        [['callback', 'mul'], ['mul']]
    """
    if not program.effects:
        return program
    kept = [_without(equation) for equation in program.equations if equation.outputs or equation.primitive.effect is None]
    return Program(program.inputs, kept, program.outputs, program.constants, program.name, program.batch_axes)


def _without(equation: Equation) -> Equation:
    if equation.primitive.wiring is None or not any([one.effects for one in programs_in(equation.params)]):
        return equation
    held = held_by(equation.primitive, equation.params)
    test = None if held.test is None else without_effects(held.test)
    return equation.replace(params=held.on([without_effects(one) for one in held.programs], test=test))
