"""What each equation of a Program costs, with how often it runs, in the Programs that it holds as well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from pullback.core.source import Source, shown_file
from pullback.program.cost import Cost, Sizes, counted_runs, equation_cost, inner_sizes, total
from pullback.program.equation import Equation, Variable
from pullback.program.program import Program
from pullback.program.running import Run, runs_of


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
        seconds: how long it took, all runs together, if it was run.
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
    seconds: float | None = None


class Ran(NamedTuple):
    """How often an equation ran in a Program, and how long that took in all."""

    times: int
    seconds: float


Seen = Mapping[tuple[int, int], Ran]
"""Of a run, what is known of each equation that ran, by the Program that it is in, `id(program)`, and its own id."""


class _Held:
    """A Program in all places where it is run.

    Attributes:
        runs: of each equation that runs Programs, by its number, these. costs: what each equation costs, in all runs.
        times: how often it runs, if nothing was seen. open: whether that is not known. sizes: the mesh axes around it.
        seen: whether it ran where that was seen; then each of its equations is known by itself.
    """

    def __init__(self, program: Program, ran: Seen) -> None:
        self.program = program
        found = [(number, runs_of(equation)) for number, equation in enumerate(program.equations)]
        self.runs = {number: runs for number, runs in found if runs}
        self.costs: list[Cost] = []
        self.times = 0
        self.open = False
        self.sizes: Sizes = ()
        self.seen = bool(ran) and any([(id(program), equation.id) in ran for equation in program.equations])

    def times_of(self, equation: Equation, ran: Seen) -> int:
        """How often one of its equations runs."""
        if not self.seen:
            return self.times
        key = id(self.program), equation.id
        return ran[key].times if key in ran else 0


def equation_costs(program: Program, ran: Seen = MappingProxyType({})) -> list[EquationCost]:
    """What each equation costs, those in Programs that an equation runs behind it. What runs in several places is there once.

    Arguments:
        program: a Program.
        ran: of a run of it, what is known of each equation that ran: then this counts, and no model of loops and branches.

    Example:
        >>> import pullback as pb
        >>> program = pb.xpr(lambda x: pb.lax.scan(lambda c, _: (pb.numpy.sin(c), None), x, length=5)[0], pb.ArrayType((3,)))
        >>> [(one.primitive, one.times, one.depth, one.cost.transcendentals) for one in equation_costs(program)]
        [('scan', 1, 0, 15.0), ('sin', 5, 1, 15.0)]
    """
    held = _how_often(program, ran)
    for one in held.values():  # each after those that it runs
        for number, equation in enumerate(one.program.equations):
            times = one.times_of(equation, ran)
            if ran and number in one.runs:
                counted = _counted(one.runs[number], equation, one.sizes, held)
                one.costs.append(total([_share(held[id(run.program)], run, times) for run in counted]))
            else:
                one.costs.append(equation_cost(equation, one.sizes).times(times))
    met: set[int] = set()

    def walk(one: _Held, depth: int) -> Iterator[EquationCost]:
        met.add(id(one.program))
        is_open = one.open and not one.seen
        for number, (equation, own) in enumerate(zip(one.program.equations, one.costs)):
            runs = one.runs.get(number, ())
            key = id(one.program), equation.id
            seconds = ran[key].seconds if key in ran else None
            yield _record(equation, one.times_of(equation, ran), is_open, depth, bool(runs), own, seconds)
            for run in runs:
                if id(run.program) not in met:
                    yield from walk(held[id(run.program)], depth + 1)

    return list(walk(held[id(program)], 0))


def _counted(runs: list[Run], equation: Equation, sizes: Sizes, held: dict[int, _Held]) -> list[Run]:
    """Those of the Programs that an equation runs that were seen to run, or that count where nothing was seen."""
    return [run for run in runs if held[id(run.program)].seen] or counted_runs(runs, equation, sizes)


def _share(inner: _Held, run: Run, times: int) -> Cost:
    """What one of the equations that run a Program has of what that costs."""
    weight = times * (1 if run.steps is None else run.steps) * run.at_once
    return total(inner.costs).times(weight / inner.times) if inner.times else Cost()


def _how_often(program: Program, ran: Seen) -> dict[int, _Held]:
    """How often a Program, and each that it runs, is run; each after those that it runs."""
    held: dict[int, _Held] = {}

    def visit(one: Program) -> None:
        made = _Held(one, ran)
        for run in [run for runs in made.runs.values() for run in runs]:
            if id(run.program) not in held:
                visit(run.program)
        held[id(one)] = made

    visit(program)
    held[id(program)].times = 1
    for one in reversed(held.values()):  # each before those that it runs
        for number, runs in one.runs.items():
            equation = one.program.equations[number]
            times = one.times_of(equation, ran)
            for run in _counted(runs, equation, one.sizes, held):
                inner = held[id(run.program)]
                inner.times += times * (1 if run.steps is None else run.steps) * run.at_once
                inner.open = inner.open or one.open or run.steps is None
                inner.sizes = inner_sizes(equation, one.sizes)
    return held


def _record(
    equation: Equation, times: int, is_open: bool, depth: int, holds: bool, cost: Cost, seconds: float | None
) -> EquationCost:
    source = source_of(equation)
    place = ("", 0, "", "", ()) if source is None else (source.file, source.line, source.function, source.text, source.scope)
    types = ", ".join([str(variable.type) for variable in equation.outputs])
    name = equation.primitive.name
    return EquationCost(equation.id, name, types, equation.role, *place, times, is_open, depth, holds, cost, seconds)


def source_of(equation: Equation | None) -> Source | None:
    """The user's line that an equation comes from, or that which it was derived from does."""
    while equation is not None:
        if equation.source is not None:
            return equation.source
        equation = equation.origin
    return None


def place_of(file: str, line: int) -> str:
    """A line as it is shown; nothing if there is none."""
    return f"{shown_file(file)}:{line}" if file else ""


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
