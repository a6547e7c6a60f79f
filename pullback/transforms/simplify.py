"""Simplification: what a Program does not need is taken out before it is compiled, kept or printed."""

from __future__ import annotations

from pullback.core.program import Program, Variable


def simplify(program: Program) -> Program:
    """The Program that is compiled: without dead code."""
    return drop_dead_code(program)


def drop_dead_code(program: Program) -> Program:
    """The Program without the equations whose results nobody uses, those with an effect apart."""
    needed = {atom for atom in program.outputs if isinstance(atom, Variable)}
    kept = []
    for equation in reversed(program.equations):
        if equation.primitive.effect is not None or any(out in needed for out in equation.outputs):
            kept.append(equation)
            needed.update(atom for atom in equation.inputs if isinstance(atom, Variable))
    if len(kept) == len(program.equations):
        return program
    constants = [(variable, array) for variable, array in program.constants if variable in needed]
    return Program(program.inputs, reversed(kept), program.outputs, constants, program.name)
