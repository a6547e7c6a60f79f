"""What running a Program costs, from the types of its equations and the `cost` of their primitives: the one model of it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pullback.program.equation import Equation, remembered
from pullback.program.program import Program, programs_in


class Cost(NamedTuple):
    """What running a Program once costs: floating-point operations, and bytes read and written by its operations."""

    flops: float
    bytes: float


@remembered
def cost(program: Program) -> Cost:
    """The cost of a Program; remembered."""
    costs = [equation_cost(equation) for equation in program.equations]
    return Cost(sum([one.flops for one in costs]), sum([one.bytes for one in costs]))


@remembered
def largest(program: Program) -> int:
    """The bytes of the largest array in a Program and in those in it; remembered."""
    types = [variable.type for equation in program.equations for variable in equation.outputs]
    own = [type.nbytes for type in (*program.input_types, *types)]
    return max([*own, *[largest(inner) for inner in program.subprograms()]], default=0)


def equation_cost(equation: Equation) -> Cost:
    """The cost of one equation. An inner loop counts its steps, if their number is known; of branches the most expensive one
    counts; what each device does with its shards counts for all of them."""
    operands = [atom.type for atom in equation.inputs]
    results = [variable.type for variable in equation.outputs]
    held = [cost(program) for program in programs_in(equation.params)]
    if held:
        params = equation.params
        times = params.get("length", 1) * math.prod([params["mesh"].shape[name] for name in params.get("manual", ())])
        return Cost(times * max([one.flops for one in held]), times * max([one.bytes for one in held]))
    rule = equation.primitive.cost
    if callable(rule):
        flops = rule(operands, results, **equation.params)
        if not isinstance(flops, (int, float, np.number)):
            raise equation.primitive.malformed("cost", "a number", flops)
    else:
        flops = rule * max([type.size for type in (*operands, *results)], default=0)
    return Cost(float(flops), float(sum([type.nbytes for type in (*operands, *results)])))
