"""What a replay notes of each equation: the values that it had, how long it took, and which of them were asked to be caught."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from pullback.core.array import Array
from pullback.core.dtypes import is_inexact, kind
from pullback.core.source import Source
from pullback.diagnose.stats import Stats, numbers_of, short_text
from pullback.diagnose.walk import Frame, Visitor, is_opened
from pullback.program.equation import Equation, Graph, Literal, Variable, remembered
from pullback.program.printing import literal_text, name_variables, primitive_text

Watch = Callable[[Equation, tuple[Array, ...]], Any]
CAUGHT, NAN = "caught", "nan"  # what can be told: what `watch` or `limits` catch, and NaN where it is made
MOST_CAUGHT = 1000  # values that are kept of those that were caught


@remembered
def _names(program: Graph) -> dict[Variable, str]:
    return name_variables(program)


def equation_line(program: Graph, equation: Equation) -> str:
    """An equation in short, `c:f32[3] = add a 1.0`, without its parameters."""
    names = _names(program)
    outs = ", ".join([f"{names.get(out, '_')}:{out.type}" for out in equation.outputs])
    types = [atom.type for atom in equation.inputs if isinstance(atom, Variable)]
    operands = [literal_text(x.value, types) if isinstance(x, Literal) else names.get(x, "?") for x in equation.inputs]
    return " ".join([outs or "()", "=", primitive_text(equation.primitive), *operands])


class Recorded:
    """An equation, and the values that it had.

    Where a function is called several times, dead code may have left copies of an equation that have fewer results: they are
    the same equation, and results are told apart by their variables.

    Attributes:
        equation: it, the first copy of those with most results. program: the Program that this is in.
        depth: how many equations are around it. stats: `Stats` of each result of any copy, by its variable.
        times: how often it ran. seconds: how long it took, in all.
        within: the same two of each Program that it is in, by `id(program)`: what was pruned shares equations with the whole.
        place: where that was, in loops and branches, when it ran first.
    """

    __slots__ = ("depth", "equation", "place", "program", "seconds", "stats", "times", "within")

    def __init__(self, equation: Equation, frame: Frame) -> None:
        self.equation = equation
        self.program = frame.program
        self.depth = frame.depth
        self.place = frame.place()
        self.stats = {out: Stats(out.type) for out in equation.outputs}
        self.times = 0
        self.seconds = 0.0
        self.within: dict[int, tuple[int, float]] = {}

    def ran(self, program: Graph, seconds: float) -> None:
        """Note a run of it, in one of the Programs that it is in."""
        self.times += 1
        self.seconds += seconds
        times, before = self.within.get(id(program), (0, 0.0))
        self.within[id(program)] = times + 1, before + seconds

    def meet(self, copy: Equation, program: Graph) -> None:
        """The equation runs again, or a copy of it does."""
        if copy is self.equation:
            return
        if len(copy.outputs) > len(self.equation.outputs):
            self.equation, self.program = copy, program
        for out in copy.outputs:
            if out not in self.stats:
                self.stats[out] = Stats(out.type)

    @property
    def outputs(self) -> tuple[Stats, ...]:
        """`Stats` of each result."""
        return tuple([self.stats[out] for out in self.equation.outputs])

    @property
    def id(self) -> int:
        """The id of the equation."""
        return self.equation.id

    @property
    def source(self) -> Source | None:
        """The user's line."""
        return self.equation.source

    def data(self) -> dict[str, Any]:
        """As data for JSON: how often and how long it ran, and the `data` of each result's `Stats`."""
        return {"times": self.times, "seconds": self.seconds, "outputs": [stats.data() for stats in self.outputs]}

    def __str__(self) -> str:
        return f"#{self.id} {equation_line(self.program, self.equation)}: {'; '.join(map(str, self.outputs))}"

    __repr__ = __str__


class Caught(NamedTuple):
    """A value that was asked to be caught.

    Attributes:
        equation: what made it. why: what asked. place: where in loops and branches. values: the results in short.
    """

    equation: Equation
    why: str
    place: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        place = f", {self.place}" if self.place else ""
        line = f"\n  line: {self.equation.source}" if self.equation.source is not None else ""
        return f"{self.why}: #{self.equation.id} {self.equation.primitive.name} = {', '.join(self.values)}{place}{line}"


class Recording(Visitor):
    """Notes what each equation computes.

    Attributes:
        recorded: by the id of each equation, in the order in which they first ran.
        caught: what was asked to be caught; of more than `MOST_CAUGHT`, the first. all_caught: how many in all.
    """

    def __init__(
        self,
        show: Callable[[str], None] | None = None,
        watch: Watch | None = None,
        limits: tuple[float, float] | None = None,
        tell: Callable[[Caught], None] | None = None,
    ) -> None:
        self.show = show
        self.watch = watch
        self.limits = limits
        self.tell = tell
        self.told: frozenset[str] = frozenset()  # of what it tells: NAN, which is caught for that alone, CAUGHT
        self.recorded: dict[int, Recorded] = {}
        self.caught: list[Caught] = []
        self.all_caught = 0
        self._started: list[float] = []

    def before(self, equation: Equation, operands: Sequence[Any], frame: Frame) -> None:
        recorded = self.recorded.get(equation.id)
        if recorded is None:
            self.recorded[equation.id] = Recorded(equation, frame)
        else:
            recorded.meet(equation, frame.program)
        self._started.append(perf_counter())

    def after(self, equation: Equation, operands: Sequence[Any], results: Sequence[Any], frame: Frame) -> None:
        recorded = self.recorded[equation.id]
        recorded.ran(frame.program, perf_counter() - self._started.pop())
        for out, result in zip(equation.outputs, results):
            recorded.stats[out].add(result)
        if self.show is not None:
            self.show(_shown(equation, results, frame))
        if NAN in self.told and makes_nan(equation, operands, results):
            self._catch(equation, "NaN is made", results, frame, NAN)
        if self.limits is not None and not all([_within(result, self.limits) for result in results]):
            self._catch(equation, f"outside {self.limits[0]} .. {self.limits[1]}", results, frame)
        if self.watch is not None and self.watch(equation, tuple(results)):
            self._catch(equation, "watched", results, frame)

    def _catch(self, equation: Equation, why: str, results: Sequence[Any], frame: Frame, kind: str = CAUGHT) -> None:
        caught = Caught(equation, why, frame.place(), tuple(map(short_text, results)))
        self.all_caught += 1
        if len(self.caught) < MOST_CAUGHT:
            self.caught.append(caught)
        if self.tell is not None and kind in self.told:
            self.tell(caught)


def makes_nan(equation: Equation, operands: Sequence[Any], results: Sequence[Any]) -> bool:
    """Whether an operation makes NaN of operands without any. What holds others makes nothing itself."""
    return not is_opened(equation) and any(map(_has_nan, results)) and not any(map(_has_nan, operands))


def _has_nan(array: Array) -> bool:
    return is_inexact(array.dtype) and bool(np.isnan(numbers_of(array)).any())


def _within(array: Array, limits: tuple[float, float]) -> bool:
    numbers = numbers_of(array)
    if numbers is None or kind(array.dtype) == "b":
        return True
    with np.errstate(all="ignore"):
        sizes = np.abs(numbers) if numbers.dtype.kind == "c" else numbers
        return bool(((sizes >= limits[0]) & (sizes <= limits[1])).all())


def _shown(equation: Equation, results: Sequence[Any], frame: Frame) -> str:
    place = f"  # {frame.place()}" if frame.place() else ""
    values = "; ".join(map(short_text, results))
    return f"{'  ' * frame.depth}{equation_line(frame.program, equation)}    {values}{place}"
