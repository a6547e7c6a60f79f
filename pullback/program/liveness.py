"""How much memory the values of a Program take while each of its equations runs, before anything is compiled.

The model: equations run in their order, a value's memory is taken when its equation begins and released after the last equation
that reads it, and the results stay. Three things take no memory of their own:

    an alias         a result with the elements of an operand in their order (`Fields.alias`: reshape, stop_gradient); also what
                     a call returns of its operands
    in place         a result of as many bytes as an operand that nobody reads afterwards, where the operation can overwrite it
                     (`Fields.in_place`; every elementwise operation can)
    what is passed   to a Program that runs once, and is read nowhere else, is released in there

A loop keeps its stacked operands and results throughout, has one copy of its carry, and of one step what that step makes.
Of branches the one that takes most counts. Compilers do better, since they fuse operations whose results then never lie in
memory, and reorder them: the compiled figures are often less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pullback.core.array import Array
from pullback.program.equation import Atom, Equation, Variable, remembered
from pullback.program.program import Program
from pullback.program.running import Run, runs_of

Numbers = frozenset[int]
_NONE: Numbers = frozenset()


class Liveness(NamedTuple):
    """The memory of a Program's values, in bytes, while it runs.

    Attributes:
        live: by the `id` of each equation, in the Program and in those that it runs, what the values take while it runs that
            were made so far and are still needed, its own results among them. Donated arguments count until their last reader;
            other arguments and constants do not.
        held: what arguments that are not donated, and constants, take all the time.
        peak: the largest of `live`. peak_equation: the innermost equation where that is; None if there is no equation.
        path: the equations that hold it, the outermost first.
        reused: the equations that overwrite an operand, by `id`: for each such result its number and that of the operand.
    """

    live: Mapping[int, int]
    held: int
    peak: int
    peak_equation: Equation | None
    path: tuple[Equation, ...]
    reused: Mapping[int, tuple[tuple[int, int], ...]]

    @property
    def total(self) -> int:
        """All memory at the peak: what is held, and what is live there."""
        return self.held + self.peak


class Waiting(NamedTuple):
    """A value that is in memory while an equation runs.

    Attributes:
        variable: it. bytes: what it takes. equation: that by which it was made; None for a donated argument, or an input of a
            Program that is held, whose memory that one releases.
        within: the equations that hold the Program that it is in, the outermost first.
    """

    variable: Variable
    bytes: int
    equation: Equation | None
    within: tuple[Equation, ...]


def liveness(program: Program, donated: Iterable[int] = ()) -> Liveness:
    """The memory of the values of a Program while each equation runs; found in one pass, once.

    Arguments:
        program: a Program.
        donated: the numbers of the inputs whose memory may be taken for other values after their last reader.

    Example:
        >>> import pullback as pb
        >>> program = pb.xpr(lambda x: pb.numpy.sum(x @ x), pb.ArrayType((10, 10)))
        >>> found = liveness(program)
        >>> list(found.live.values()), found.held, found.peak_equation.primitive.name
        ([400, 404], 400, 'reduce_sum')
    """
    return _liveness(program, frozenset(donated))


def waiting(program: Program, donated: Iterable[int] = ()) -> list[Waiting]:
    """The values in memory where a Program takes most, the largest first.

    Arguments:
        program, donated: as `liveness` takes them.

    Example:
        >>> import pullback as pb
        >>> program = pb.xpr(lambda x: pb.numpy.sum(x @ x), pb.ArrayType((10, 10)))
        >>> [(one.equation.primitive.name, one.bytes) for one in waiting(program)]
        [('dot_general', 400), ('reduce_sum', 4)]
    """
    found: list[Waiting] = []
    within: tuple[Equation, ...] = ()
    times = 1
    top = _flow(program, frozenset(donated))
    if not top.rows:  # donated arguments that are results
        found += [Waiting(one.owners[0][1], one.bytes, None, ()) for one in top.buffers if one.bytes]
    for flow, place in _to_the_peak(top):
        row = flow.rows[place]
        inside = row.released if row.deepest is None else row.deepest.inside
        for number, one in enumerate(flow.buffers):
            if one.start <= place <= one.last and one.bytes and number not in inside:
                _, variable, maker = one.owner(place)
                found.append(Waiting(variable, one.bytes * times, maker, within))
        within = (*within, row.equation)
        for variable in () if row.deepest is None else row.deepest.carried:
            found.append(Waiting(variable, variable.type.nbytes * times, None, within))
        times *= 1 if row.deepest is None else row.deepest.at_once
    return sorted(found, key=lambda one: -one.bytes)


@remembered
def _liveness(program: Program, donated: Numbers) -> Liveness:
    live: dict[int, int] = {}
    reused: dict[int, tuple[tuple[int, int], ...]] = {}
    outside = {(id(program), donated): (0, 1)}  # the most that is live around a Program, and how many run at once
    flows = _holders_first(program, donated)
    for key, flow in flows.items():
        base, times = outside[key]
        for row in flow.rows:
            number = row.equation.id
            live[number] = max(base + times * row.live, live.get(number, 0))
            if row.reused:
                reused[number] = row.reused
            for part in row.parts:
                most, count = outside.get(part.key, (0, 1))
                outside[part.key] = max(most, base + times * part.around), max(count, times * part.at_once)
    top = _flow(program, donated)
    path = [flow.rows[place].equation for flow, place in _to_the_peak(top)]
    held = sum([array.type.nbytes for array in constants_of(program)])
    held += sum([variable.type.nbytes for i, variable in enumerate(program.inputs) if i not in donated])
    return Liveness(live, held, top.peak, path[-1] if path else None, tuple(path[:-1]), reused)


def constants_of(program: Program) -> list[Array]:
    """The arrays that a Program and those that it runs close over, each once."""
    held = {id(program): program}
    found: dict[int, Array] = {}
    for one in (order := [program]):  # which grows meanwhile
        found |= {id(array): array for _, array in one.constants}
        for run in [run for equation in one.equations for run in runs_of(equation)]:
            if id(run.program) not in held:
                held[id(run.program)] = run.program
                order.append(run.program)
    return list(found.values())


def _holders_first(program: Program, donated: Numbers) -> dict[tuple[int, Numbers], _Flow]:
    """What is live in a Program and in each that it runs, each after all that hold it."""
    found: dict[tuple[int, Numbers], _Flow] = {}

    def visit(key: tuple[int, Numbers], flow: _Flow) -> None:
        for row in flow.rows:
            for part in row.parts:
                if part.key not in found:
                    visit(part.key, part.flow)
        found[key] = flow

    visit((id(program), donated), _flow(program, donated))
    return dict(reversed(found.items()))


def _to_the_peak(flow: _Flow) -> Iterator[tuple[_Flow, int]]:
    """From a Program to the one where most is live, by way of those between: each with the number of the row where that is."""
    while flow.at_peak is not None:
        yield flow, flow.at_peak
        part = flow.rows[flow.at_peak].deepest
        if part is None:
            return
        flow = part.flow


# ---- one Program by itself -----------------------------------------------------------------------------------------------


Owner = tuple[int, Variable, Equation | None]


class _Buffer:
    """Memory that variables share, from equation number `start` to `last`. What is kept outside has no bytes here.

    Attributes:
        owners: what has it, one after the other: from which equation on, the variable, and by which equation it is made.
        input: the number of the input that it is.
    """

    __slots__ = ("bytes", "input", "last", "owners", "start")

    def __init__(self, owner: Owner, bytes: int, last: int, input: int | None) -> None:
        self.owners = [owner]
        self.bytes = bytes
        self.start = owner[0]
        self.last = last
        self.input = input

    def owner(self, place: int) -> Owner:
        """Whose memory it is while an equation runs."""
        return next(owner for owner in reversed(self.owners) if owner[0] <= place)


class _Part(NamedTuple):
    """A Program that an equation runs, and what is live in it.

    Attributes:
        released: the inputs that it may release. around: what is live outside meanwhile. at_once: on how many devices it runs.
        inside: the buffers outside whose memory is counted in it. carried: what it reads that is needed afterwards, and is no
            value outside: the carry, for the test of a loop.
    """

    program: Program
    released: Numbers
    around: int
    at_once: int
    inside: Numbers
    carried: tuple[Variable, ...]

    @property
    def key(self) -> tuple[int, Numbers]:
        return id(self.program), self.released

    @property
    def flow(self) -> _Flow:
        return _flow(self.program, self.released)

    @property
    def live(self) -> int:
        return self.around + self.at_once * self.flow.peak


class _Row(NamedTuple):
    """An equation, and what is live while it runs: in the Program `deepest`, if most is live in one that it runs; else with its
    results, when the buffers `released` are no longer needed."""

    equation: Equation
    live: int
    parts: tuple[_Part, ...] = ()
    deepest: _Part | None = None
    reused: tuple[tuple[int, int], ...] = ()
    released: Numbers = _NONE


class _Flow(NamedTuple):
    """What is live in one Program; not what is live around it.

    Attributes:
        at_peak: the number of the row of the peak. passed: for each output the number of the input that it is, if it is one.
    """

    rows: tuple[_Row, ...]
    peak: int
    at_peak: int | None
    passed: tuple[int | None, ...]
    buffers: tuple[_Buffer, ...]


@remembered
def _flow(program: Program, released: Numbers) -> _Flow:
    return _Walk(program, released).flow()


class _Walk:
    """A walk through the equations of a Program, in which values get memory and release it."""

    def __init__(self, program: Program, released: Numbers) -> None:
        self.program = program
        self.live = 0
        self.buffers: list[_Buffer] = []
        self.place: dict[Any, int] = {}  # the number of the buffer of each variable
        self.last: dict[Any, int] = {}  # the number of the last equation that reads each variable
        for i, equation in enumerate(program.equations):
            self.last.update(dict.fromkeys(equation.inputs, i))
        self.last.update(dict.fromkeys(program.outputs, len(program.equations)))
        for variable, _ in program.constants:
            self.allot(variable, 0, -1)
        for i, variable in enumerate(program.inputs):
            self.allot(variable, variable.type.nbytes if i in released else 0, -1, input=i)

    def allot(
        self, variable: Variable, bytes: int, start: int, maker: Equation | None = None, input: int | None = None
    ) -> None:
        """Give a variable memory of its own."""
        self.place[variable] = len(self.buffers)
        self.buffers.append(_Buffer((start, variable, maker), bytes, self.last.get(variable, max(start, 0)), input))
        self.live += bytes

    def share(self, variable: Variable, number: int) -> None:
        """Give a variable the memory that another one has."""
        self.place[variable] = number
        buffer = self.buffers[number]
        buffer.last = max(buffer.last, self.last.get(variable, 0))

    def flow(self) -> _Flow:
        rows = []
        ending: dict[int, list[int]] = {}  # by the number of an equation, the buffers that may be released after it
        for number, buffer in enumerate(self.buffers):
            ending.setdefault(buffer.last, []).append(number)
        for i, equation in enumerate(self.program.equations):
            runs = runs_of(equation)
            rows.append(self.running(i, equation, runs) if runs else self.computing(i, equation))
            for number in {self.place[variable] for variable in equation.outputs}:
                ending.setdefault(self.buffers[number].last, []).append(number)
            for number in set(ending.pop(i, ())):
                if self.buffers[number].last == i:
                    self.live -= self.buffers[number].bytes
        places = [self.place[atom] if isinstance(atom, Variable) else None for atom in self.program.outputs]
        passed = tuple([None if number is None else self.buffers[number].input for number in places])
        at_peak = max(range(len(rows)), key=lambda n: rows[n].live) if rows else None
        peak = self.live if at_peak is None else rows[at_peak].live
        return _Flow(tuple(rows), peak, at_peak, passed, tuple(self.buffers))

    def computing(self, i: int, equation: Equation) -> _Row:
        """An operation by itself."""
        reused = []
        taken: set[int] = set()
        for index, variable in enumerate(equation.outputs):
            if equation.primitive.alias and isinstance(operand := equation.inputs[index], Variable):
                self.share(variable, self.place[operand])
            elif (found := self.overwritten(i, equation, variable, taken)) is not None:
                reused.append((index, found))
                taken.add(number := self.place[equation.inputs[found]])
                self.share(variable, number)
                self.buffers[number].owners.append((i, variable, equation))
            else:
                self.allot(variable, variable.type.nbytes, i, equation)
        return _Row(equation, self.live, reused=tuple(reused))

    def overwritten(self, i: int, equation: Equation, result: Variable, taken: set[int]) -> int | None:
        """The number of the operand whose memory a result takes."""
        primitive = equation.primitive
        for operand in range(len(equation.inputs)) if primitive.elementwise else primitive.in_place:
            number = self.place.get(equation.inputs[operand])
            if number is not None and number not in taken:
                buffer = self.buffers[number]
                if buffer.last == i and 0 < buffer.bytes == result.type.nbytes:
                    return operand
        return None

    def running(self, i: int, equation: Equation, runs: list[Run]) -> _Row:
        """An operation that runs Programs."""
        given = self.given(i, equation, runs[0])
        freed = sum([self.buffers[number].bytes for number in given.values()])
        before, first, loop = self.live, len(self.buffers), runs[0].loop
        stacked = []
        passed: tuple[int | None, ...] = ()
        if len(runs) == 1 and runs[0].at_once == 1 and not loop:
            passed = _flow(runs[0].program, frozenset(given)).passed
        for index, variable in enumerate(equation.outputs):
            operand = passed[index] if passed else None
            atom = None if operand is None else equation.inputs[runs[0].lead + operand]
            if isinstance(atom, Variable):
                self.share(variable, self.place[atom])
            else:
                self.allot(variable, variable.type.nbytes, i, equation)
                if loop and index >= runs[0].carry:
                    stacked.append(len(self.buffers) - 1)
        inside = frozenset(given.values()).union(range(first, len(self.buffers))).difference(stacked)
        around = before - freed + sum([self.buffers[number].bytes for number in stacked])
        parts = []
        for run in runs:
            own = range(run.consts, len(run.program.inputs)) if loop else given
            released = _NONE if run.test else frozenset(own)
            carried = run.program.inputs[run.consts : run.consts + run.carry] if run.test else ()
            more = sum([variable.type.nbytes for variable in carried])
            parts.append(_Part(run.program, released, around + more, run.at_once, inside, carried))
        deepest = max([part for part in parts if part.flow.rows], key=lambda part: part.live, default=None)
        gone = frozenset(given.values()).difference([self.place[variable] for variable in equation.outputs])
        after = self.live - sum([self.buffers[number].bytes for number in gone])
        if deepest is None or deepest.live < after:
            return _Row(equation, after, tuple(parts), released=gone)
        return _Row(equation, deepest.live, tuple(parts), deepest)

    def given(self, i: int, equation: Equation, run: Run) -> dict[int, int]:
        """The inputs of the Program that is run whose memory it has for itself, since nothing else needs the operands any more,
        each with the number of its buffer."""
        if run.at_once != 1:
            return {}
        operands: tuple[Atom, ...] = equation.inputs[run.lead :]
        numbers = [self.place.get(atom) for atom in operands]
        uses = Counter(numbers)
        found = {}
        for place, number in enumerate(numbers):
            if run.loop and not run.consts <= place < run.consts + run.carry:
                continue
            if number is not None and uses[number] == 1 and self.buffers[number].last == i and self.buffers[number].bytes:
                found[place] = number
        return found
