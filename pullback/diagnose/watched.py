"""A Program that returns what its equations compute, besides its results.

What is called stands in the place of the calls. The body of a scan returns its values as further ys, which are stacked. A loop
of unknown length, of which a run has told the number of steps, becomes a scan of that length. A branch returns its values, and
zeros in the places of the values of others. A loop of unknown length inside of a loop or a branch is left as it is: how many
steps it takes may differ from time to time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.control.cond import cond
from pullback.control.holder import Held, bind_holder, held_by
from pullback.control.scan import scan
from pullback.core.array import Array
from pullback.core.dtypes import is_key
from pullback.core.types import ArrayType
from pullback.diagnose.walk import Frame, Visitor, is_opened, walk
from pullback.program.equation import Equation
from pullback.program.interpret import bind_equation, run
from pullback.program.program import Program
from pullback.transforms.derive import stage_closed
from pullback.transforms.stage import replay
from pullback.transforms.zeros import zero_of


class Value:
    """An output of a watched Program.

    Attributes:
        levels: the loops by which it is stacked, the outermost first.
        equation, number: whose result it is, and which; of what begins a loop's step, None.
        operands: those of the equation: a `Value`, which may be of fewer levels, an Array, or None for what is not known.
        opened: whether the values of equations that it holds are there as well.
    """

    __slots__ = ("equation", "levels", "number", "opened", "operands")

    def __init__(
        self,
        levels: tuple[Equation, ...],
        equation: Equation | None = None,
        number: int = 0,
        operands: Sequence[Value | Array | None] = (),
        opened: bool = False,
    ) -> None:
        self.levels = levels
        self.equation = equation
        self.number = number
        self.operands = operands
        self.opened = opened


class Trips(Visitor):
    """Counts the steps of those loops of unknown length that are in no loop and in no branch.

    Attributes:
        counts: the numbers of steps, in the order in which the loops begin.
    """

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.places: dict[tuple[int, int], int] = {}  # of the latest run of each loop

    def before(self, equation: Equation, operands: Sequence[Any], frame: Frame) -> None:
        if frame.outer is not None and frame.equation is not None:
            place = self.places.get((id(frame.outer), frame.equation.id))
            if place is not None:
                self.counts[place] = max(self.counts[place], frame.number + (frame.part == "step"))
        if is_open_loop(equation) and is_outside(frame):
            self.places[id(frame), equation.id] = len(self.counts)
            self.counts.append(0)


def is_open_loop(equation: Equation) -> bool:
    """Whether an equation is a loop of unknown length."""
    wiring = equation.primitive.wiring
    return wiring is not None and wiring.test is not None


def is_outside(frame: Frame | None) -> bool:
    """Whether a run is in no loop and in no branch."""
    while frame is not None and frame.part == "program":
        frame = frame.outer
    return frame is None


class Watching:
    """Applies equations, and collects what they compute.

    Attributes:
        values: what they computed, and what begins the steps of loops. labels: what each is.
        skipped: how many equations are left as they are.
    """

    def __init__(self, trips: list[int] | None = None, levels: tuple[Equation, ...] = ()) -> None:
        self.trips = trips  # of the loops of unknown length that come; None in a loop or a branch
        self.levels = levels
        self.values: list[Any] = []
        self.labels: list[Value] = []
        self.skipped = 0
        self.known: dict[int, tuple[Any, Value | Array | None]] = {}  # by the ids of values, which are kept

    def label(self, value: Any) -> Value | Array | None:
        """What a value is that is used."""
        if isinstance(value, Array):
            return value
        if id(value) not in self.known:
            self.add(value, Value(self.levels))
        return self.known[id(value)][1]

    def know(self, values: Sequence[Any], labels: Sequence[Value | Array | None]) -> None:
        """These values are those of outside."""
        self.known.update({id(value): (value, label) for value, label in zip(values, labels)})

    def add(self, value: Any, label: Value) -> None:
        """Collect a value."""
        self.values.append(value)
        self.labels.append(label)
        self.known.setdefault(id(value), (value, label))

    def apply(self, equation: Equation, operands: list[Any]) -> Any:
        """Apply an equation, and collect what it and the Programs that it holds compute."""
        several = equation.primitive.multiple_results
        used = [self.label(operand) for operand in operands]
        opened = is_opened(equation) and not (is_open_loop(equation) and self.trips is None)
        if not is_opened(equation):
            outs = bind_equation(equation, operands)
        else:
            outs = self._opened(equation, operands, held_by(equation.primitive, equation.params))
        for number, out in enumerate(outs if several else (outs,)):
            self.add(out, Value(self.levels, equation, number, used, opened))
        return outs

    def _opened(self, equation: Equation, operands: list[Any], held: Held) -> Sequence[Any]:
        if equation.primitive is cond:
            return self._branches(equation, operands, held)
        if held.test is None and held.wiring.carry is None:
            return run(held.programs[0], operands, self.apply)
        length = equation.params.get("length")
        if held.test is not None:
            if self.trips is None:
                self.skipped += sum([count(one) for one in (held.test, *held.programs)])
                found: Sequence[Any] = bind_equation(equation, operands)
                return found
            length = self.trips.pop(0)
            self.skipped += count(held.test)
        known = [self.label(operand) for operand in operands[: held.consts]]
        inner, body = _watched(held.programs[0], (*self.levels, equation), known)
        params = {"num_consts": held.consts, "num_carry": held.carry, "length": length, "reverse": False, "unroll": 1}
        params = {**params, "body": body} if held.test is not None else held.on([body])
        return self._collected(bind_holder(scan, *operands, **params), len(equation.outputs), [inner])

    def _branches(self, equation: Equation, operands: list[Any], held: Held) -> Sequence[Any]:
        own = len(equation.outputs)
        known = [self.label(operand) for operand in operands[1:]]
        made = [_without_keys(*_watched(branch, self.levels, known), own) for branch in held.programs]
        rows = [body.output_types[own:] for _, body in made]
        branches = [_with_zeros(body, own, rows, number) for number, (_, body) in enumerate(made)]
        return self._collected(bind_holder(cond, *operands, **held.on(branches)), own, [inner for inner, _ in made])

    def _collected(self, outs: Sequence[Any], own: int, inside: Sequence[Watching]) -> Sequence[Any]:
        """An operation's own results, of those that it has now."""
        self.values += outs[own:]
        for inner in inside:
            self.labels += inner.labels
            self.skipped += inner.skipped
        return tuple(outs[:own])


def _watched(program: Program, levels: tuple[Equation, ...], known: Sequence[Value | Array | None]) -> tuple[Watching, Program]:
    """A Program that also returns its values, and what they are; what its first inputs are is known."""
    inner = Watching(None, levels)

    def whole(*args: Any) -> list[Any]:
        inner.know(args, known)
        outs = run(program, args, inner.apply)
        return [*outs, *inner.values]

    return inner, stage_closed(whole, program.input_types, program.name, program)


def _without_keys(inner: Watching, body: Program, own: int) -> tuple[Watching, Program]:
    """Without values that are random keys, of which there are no zeros."""
    kept = [i for i, type in enumerate(body.output_types[own:]) if not is_key(type.dtype)]
    left = {id(label) for label in inner.labels} - {id(inner.labels[i]) for i in kept}
    inner.labels = [inner.labels[i] for i in kept]
    for label in inner.labels:
        label.operands = [None if id(operand) in left else operand for operand in label.operands]
    return inner, body.rearranged(range(len(body.inputs)), [*range(own), *[own + i for i in kept]])


def _with_zeros(body: Program, own: int, rows: Sequence[Sequence[ArrayType]], number: int) -> Program:
    """A branch that returns zeros in the places of the values of the other ones."""

    def whole(*args: Any) -> list[Any]:
        outs = replay(body, args)
        rest = [outs[own:] if i == number else [zero_of(type) for type in row] for i, row in enumerate(rows)]
        return [*outs[:own], *[value for row in rest for value in row]]

    return stage_closed(whole, body.input_types, body.name, body)


def watched_program(program: Program, leaves: Sequence[Array]) -> tuple[Program, Watching]:
    """The Program that also returns its values, and what they are, for inputs that lead to as many steps as these."""
    trips = Trips()
    walk(program, leaves, trips)
    watching = Watching(trips.counts)

    def whole(*args: Any) -> list[Any]:
        watching.know(args, leaves)
        outs = run(program, args, watching.apply)
        return [*outs, *watching.values]

    return stage_closed(whole, program.input_types, program.name, program), watching


def count(program: Program) -> int:
    """How many equations a Program has, with those of the Programs that they hold."""
    return len(program.equations) + sum([count(inner) for inner in program.subprograms()])
