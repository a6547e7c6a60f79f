"""What each equation of a Program costs, with how often it runs, in the Programs that it holds as well."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from pullback.core.source import Source
from pullback.program.cost import Cost, Sizes, counted_runs, equation_cost, inner_sizes
from pullback.program.equation import Equation, Variable
from pullback.program.program import Program
from pullback.program.running import runs_of


class EquationCost(NamedTuple):
    """What an equation costs, in all runs of it together.

    Attributes:
        id: the equation's. primitive: the name of the operation. types: those of its results, as text.
        role: what its results are: "primal", "tangent", "cotangent" or "residual".
        file, line, function, text: the user's line that it comes from; empty, and 0, where there is none.
        scope: the named scopes around that.
        times: how often it runs; 0 in a branch that does not count. open: whether it is in a loop whose number of steps only
            running it tells, of which one step is counted.
        depth: how many equations hold it. holds: whether it holds others, whose costs it repeats.
        cost: a record with `flops`, `bytes`, `transcendentals`, `work` and `sent`.
    """

    id: int
    primitive: str
    types: str
    role: str
    file: str
    line: int
    function: str
    text: str
    scope: tuple[str, ...]
    times: int
    open: bool
    depth: int
    holds: bool
    cost: Cost


class _Runs(NamedTuple):
    """How often a Program runs, whether that is known, and the mesh axes around it."""

    times: int
    open: bool
    sizes: Sizes


def equation_costs(program: Program) -> list[EquationCost]:
    """What each equation costs, those in Programs that an equation runs behind it. What runs in several places is there once.

    Example:
        >>> import pullback as pb
        >>> program = pb.xpr(lambda x: pb.lax.scan(lambda c, _: (pb.numpy.sin(c), None), x, length=5)[0], pb.ArrayType((3,)))
        >>> [(one.primitive, one.times, one.depth, one.cost.transcendentals) for one in equation_costs(program)]
        [('scan', 1, 0, 15.0), ('sin', 5, 1, 15.0)]
    """
    found = _how_often(program)
    seen: set[int] = set()

    def walk(program: Program, depth: int) -> Iterator[EquationCost]:
        seen.add(id(program))
        times, is_open, sizes = found[id(program)]
        for equation in program.equations:
            runs = runs_of(equation)
            own = equation_cost(equation, sizes).times(times)
            yield _record(equation, times, is_open, depth, bool(runs), own)
            for run in runs:
                if id(run.program) not in seen:
                    yield from walk(run.program, depth + 1)

    return list(walk(program, 0))


def _how_often(program: Program) -> dict[int, _Runs]:
    """How often a Program, and each that it runs, is run."""
    order: dict[int, Program] = {}

    def visit(one: Program) -> None:
        for equation in one.equations:
            for run in runs_of(equation):
                if id(run.program) not in order:
                    visit(run.program)
        order[id(one)] = one

    visit(program)
    found = {key: _Runs(0, False, ()) for key in order}
    found[id(program)] = _Runs(1, False, ())
    for key, holder in reversed(order.items()):  # each before those that it runs
        times, is_open, sizes = found[key]
        for equation in holder.equations:
            if not (runs := runs_of(equation)):
                continue
            inside = inner_sizes(equation, sizes)
            for run in counted_runs(runs, equation, sizes):
                before = found[id(run.program)]
                more = times * (1 if run.steps is None else run.steps) * run.at_once
                found[id(run.program)] = _Runs(before.times + more, before.open or is_open or run.steps is None, inside)
    return found


def _record(equation: Equation, times: int, is_open: bool, depth: int, holds: bool, cost: Cost) -> EquationCost:
    source = source_of(equation)
    place = ("", 0, "", "", ()) if source is None else (source.file, source.line, source.function, source.text, source.scope)
    types = ", ".join([str(variable.type) for variable in equation.outputs])
    return EquationCost(equation.id, equation.primitive.name, types, equation.role, *place, times, is_open, depth, holds, cost)


def source_of(equation: Equation | None) -> Source | None:
    """The user's line that an equation comes from, or that which it was derived from does."""
    while equation is not None:
        if equation.source is not None:
            return equation.source
        equation = equation.origin
    return None


def place_of(file: str, line: int) -> str:
    """A line as it is shown: by a path from here, if the file lies below, else by the file's name."""
    if not file:
        return ""
    here = os.getcwd() + os.sep
    return f"{file.removeprefix(here) if file.startswith(here) else os.path.basename(file)}:{line}"


def heading(program: Program) -> str:
    """A Program's name with the types of what it takes."""
    types = ", ".join(map(str, program.input_types))
    return f"{program.name}({types if len(types) <= 60 else f'{len(program.inputs)} arrays'})"


def count_equations(program: Program) -> int:
    """The equations of a Program and of those that it runs, each once."""
    found = {id(program): program}
    for one in (held := [program]):  # which grows meanwhile
        for run in [run for equation in one.equations for run in runs_of(equation)]:
            if id(run.program) not in found:
                found[id(run.program)] = run.program
                held.append(run.program)
    return sum([len(one.equations) for one in held])


def maker_of(program: Program) -> dict[Variable, Equation]:
    """By each variable of a Program, the equation that makes it."""
    return {variable: equation for equation in program.equations for variable in equation.outputs}
