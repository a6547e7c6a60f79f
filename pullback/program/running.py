"""Which Programs an equation runs, how often, and how its operands reach them: read from its primitive's `wiring`."""

from __future__ import annotations

import math
from typing import NamedTuple

from pullback.program.equation import Equation
from pullback.program.program import Program, programs_in


class Run(NamedTuple):
    """A Program that an equation runs.

    Attributes:
        program: it. lead: how many operands of the equation come before those that it takes.
        steps: how often it runs, one after the other; None where only running it tells.
        at_once: on how many devices it runs, each time.
        loop: whether it is a step of a loop, or its test; then the first `consts` of its inputs are the same in each step, the
            next `carry` are carried, and the others are those of one step. test: whether it is the test of a loop.
    """

    program: Program
    lead: int = 0
    steps: int | None = 1
    at_once: int = 1
    loop: bool = False
    consts: int = 0
    carry: int = 0
    test: bool = False


def runs_of(equation: Equation) -> list[Run]:
    """The Programs that an equation runs: of branches, of which one is run, all. Programs that only say how it is to be
    transformed, or what it solves, are not among them.

    Example:
        >>> import pullback as pb
        >>> program = pb.xpr(lambda x: pb.lax.scan(lambda c, _: (c + x, None), x, length=5), 1.0)
        >>> [(run.steps, run.consts, run.carry) for run in runs_of(program.equations[0])]
        [(5, 1, 1)]
    """
    wiring, params = equation.primitive.wiring, equation.params
    if wiring is None:
        return [Run(program) for program in programs_in(params)]
    held = params[wiring.programs]
    programs = [one for one in (held if isinstance(held, tuple) else (held,)) if isinstance(one, Program)]
    at_once = math.prod([params["mesh"].shape[name] for name in params.get("manual", ())])
    if wiring.consts is None:
        return [Run(program, wiring.lead, 1, at_once) for program in programs]
    consts = params[wiring.consts]
    carry = len(equation.inputs) - consts if wiring.carry is None else params[wiring.carry]
    steps = None if wiring.test is not None else params["length"]
    found = [Run(program, wiring.lead, steps, at_once, True, consts, carry) for program in programs]
    if wiring.test is not None:
        found.append(Run(params[wiring.test], wiring.lead, steps, at_once, True, consts, carry, True))
    return found
