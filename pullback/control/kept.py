"""What a checkpoint's policy keeps in a Program, also inside of the loops and branches in it.

A scan whose body has something that is kept is turned into two: one that stacks the kept values besides its results, for the
forward pass, and one that takes them as further xs, and computes the rest again. A cond, in the same way, returns the kept
values of all branches, zeros for those of the branches that were not chosen.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from pullback.control.call import call
from pullback.control.cond import cond
from pullback.control.holder import held_by, with_places
from pullback.control.progress import silent
from pullback.control.scan import scan
from pullback.core.brief import brief
from pullback.core.source import describe
from pullback.program.equation import Equation, Variable
from pullback.program.program import Program
from pullback.transforms.simplify import drop_dead_code, has_effect

_OPENED = frozenset({call, cond, scan})


class Kept(NamedTuple):
    """What a policy keeps in a Program.

    Attributes:
        program: the Program; what is kept inside of its equations are further outputs of these.
        again: the equations that compute again, with what was kept inside of them, what theirs in `program` compute.
        values: the variables of `program` that are kept.
    """

    program: Program
    again: dict[Equation, Equation]
    values: Collection[Variable]


def kept_in(program: Program, policy: Any) -> Kept:
    """What a policy keeps. It is asked about each operation in a loop or a branch, and not about the loop."""
    equations: list[Equation] = []
    again: dict[Equation, Equation] = {}
    values: list[Variable] = []
    for equation in program.equations:
        quiet = silent(equation)
        if quiet is not None and equation.primitive in _OPENED and not has_effect(quiet):
            if (found := _kept_inside(equation, policy)) is not None:
                equation, later, inside = found
                again[equation] = later
                values += inside
        elif policy_keeps(policy, equation):
            values += equation.outputs
        equations.append(equation)
    if again:
        program = Program(program.inputs, equations, program.outputs, program.constants, program.name, program.batch_axes)
    return Kept(program, again, values)


def _kept_inside(equation: Equation, policy: Any) -> tuple[Equation, Equation, list[Variable]] | None:
    """An equation with what is kept inside of it among its outputs, the one that computes the rest again, and those outputs.
    None where nothing is kept."""
    held = held_by(equation.primitive, equation.params)
    parts = [kept_in(program, policy) for program in held.programs]
    places = [(part, value) for part in parts for value in dict.fromkeys(part.values)]
    if not places:
        return None
    count, size = len(equation.outputs), len(held.programs[0].inputs)
    stacked: dict[Any, Variable] = {}  # what a loop returns of each step is kept as it is
    if held.wiring.carry is not None:
        stacked = dict(zip(parts[0].program.outputs[held.carry :], equation.outputs[held.carry :]))
    new = [place for place in places if place[1] not in stacked]
    forward, backward = [], []
    for part in parts:
        row = [i for i, (other, _) in enumerate(new) if other is part]
        whole = part.program.with_outputs((*part.program.outputs, *[new[i][1] for i in row]))
        forward.append(with_places(whole, count, row, [value.type.strong() for _, value in new]))
        backward.append(_computing_the_rest(part, [v if o is part else Variable(v.type.strong()) for o, v in places]))
    params = held.on(forward)
    types = equation.primitive.infer(tuple([atom.type for atom in equation.inputs]), params)
    outputs = [Variable(type) for type in types[count:]]
    named = {**stacked, **dict(zip([value for _, value in new], outputs))}
    kept = [named[value] for _, value in places]
    read = [i for i in range(len(places)) if any([size + i in used_inputs(program) for program in backward])]
    given = [*range(size), *[size + i for i in read]]
    later = held.on([program.rearranged(given) for program in backward])
    return (
        equation.replace(outputs=(*equation.outputs, *outputs), params=params),
        equation.replace(inputs=(*equation.inputs, *[kept[i] for i in read]), params=later),
        kept,
    )


def _computing_the_rest(part: Kept, taken: list[Variable]) -> Program:
    """The Program that takes what is kept of it, and does not compute that again."""
    program, known = part.program, set(taken)
    equations = [part.again.get(one, one) for one in program.equations if not known.issuperset(one.outputs)]
    inputs = (*program.inputs, *taken)
    return drop_dead_code(Program(inputs, equations, program.outputs, program.constants, f"again_{program.name}"))


def used_inputs(program: Program) -> list[int]:
    """The numbers of the inputs that some of a Program's equations and outputs use."""
    used = {atom for equation in program.equations for atom in equation.inputs} | set(program.outputs)
    return [i for i, variable in enumerate(program.inputs) if variable in used]


def policy_keeps(policy: Any, equation: Equation) -> bool:
    """Whether a policy says to keep the results of an equation."""
    asked = f"checkpoint's policy {describe(policy)}"
    cure = (
        "A policy is a function (primitive, *types, **params) -> bool: whether to keep the results of an operation. What makes"
        " one, from names or from other policies, is called with these first."
    )
    try:
        kept = policy(equation.primitive, *[atom.type for atom in equation.inputs], **equation.params)
    except TypeError as error:
        raise TypeError(f"{asked} cannot be asked about {equation.primitive.name}: {error}. {cure}") from error
    if not isinstance(kept, (bool, np.bool_)):
        raise TypeError(f"{asked} returned {brief(kept)} for {equation.primitive.name}. {cure}")
    return bool(kept)
