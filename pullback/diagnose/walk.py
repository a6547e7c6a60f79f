"""A Program run on NumPy, equation by equation, into the Programs that its equations hold: loops step by step, the branch
that is taken, what is called. A visitor sees each equation, with its values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pullback.control.holder import Held, held_by, split
from pullback.control.scan import stacked_type
from pullback.core.array import Array, host_of
from pullback.core.tracing import staging
from pullback.program.equation import Equation, Graph
from pullback.program.interpret import bind_equation, run

Noted = tuple[Sequence[Any], Sequence[Any]]  # values, and what is noted of each


class Steps(tuple[Any, ...]):
    """What is noted of a stack: a note for each step, or None."""

    __slots__ = ()


class Frame:
    """One run of a Program.

    Attributes:
        program: it.
        outer: the run around it; None at the top. equation: the equation of that one which holds the Program.
        part: "step", "test", "branch" or "program", what it is to that equation. number: of the step, or of the branch.
        depth: how many runs are around it. args: the values of the inputs.
        notes: what a visitor notes about values, by their ids, which live as long as this runs. Notes go along with values
            into the Programs that equations hold, and out of them.
    """

    __slots__ = ("args", "depth", "equation", "notes", "number", "outer", "part", "program")

    def __init__(
        self,
        program: Graph,
        outer: Frame | None = None,
        equation: Equation | None = None,
        part: str = "program",
        number: int = 0,
    ) -> None:
        self.program = program
        self.outer = outer
        self.equation = equation
        self.part = part
        self.number = number
        self.depth: int = 0 if outer is None else outer.depth + 1
        self.args: Sequence[Any] = ()
        self.notes: dict[int, Any] = {}

    def notes_of(self, values: Sequence[Any]) -> list[Any]:
        """What is noted of each of these values; None where nothing is."""
        return [self.notes.get(id(value)) for value in values]

    def keep_notes(self, values: Sequence[Any], notes: Sequence[Any]) -> None:
        """Note something about each of these values, but for None."""
        self.notes.update({id(value): note for value, note in zip(values, notes) if note is not None})

    def place(self) -> str:
        """Where in loops and branches this is, from the outermost on: `step 3 of scan, branch 1 of cond`; empty at the top."""
        parts: list[str] = []
        frame: Frame | None = self
        while frame is not None and frame.equation is not None:
            if frame.part != "program":
                number = f" {frame.number}" if frame.part != "test" else f" before step {frame.number}"
                parts.append(f"{frame.part}{number} of {frame.equation.primitive.name}")
            frame = frame.outer
        return ", ".join(parts[::-1])


class Visitor:
    """What happens at each equation; by default nothing."""

    def before(self, equation: Equation, operands: Sequence[Any], frame: Frame) -> None:
        """Called before an equation runs."""

    def after(self, equation: Equation, operands: Sequence[Any], results: Sequence[Any], frame: Frame) -> None:
        """Called with an equation's results; for one that holds Programs, once these have run."""

    def ended(self) -> None:
        """Called when all has run."""


def is_opened(equation: Equation) -> bool:
    """Whether what an equation holds is run equation by equation. What runs on the devices of a mesh is run as a whole."""
    return equation.primitive.wiring is not None and equation.primitive.binds is None


def walk(program: Graph, args: Iterable[Any], visitor: Visitor) -> tuple[Any, ...]:
    """Run a Program on NumPy.

    Arguments:
        args: an Array for each input, or what is one to `host_array`.
        visitor: is told of each equation.

    Returns:
        An Array for each output: to the last bit what the function gives that is evaluated without being compiled.
    """
    return tuple(walk_noted(program, [host_array(arg) for arg in args], visitor, ())[0])


def walk_noted(program: Graph, args: Sequence[Any], visitor: Visitor, notes: Sequence[Any]) -> Noted:
    """As `walk`, of Arrays in NumPy memory, with what is noted of each from the start; also returns what then is noted of each
    result."""
    frame = Frame(program)
    frame.keep_notes(args, notes)
    with staging.setting(None):  # also while something else is recorded
        outs = _run(frame, args, visitor)
    return outs, frame.notes_of(outs)


def host_array(array: Array) -> Array:
    """The Array in NumPy memory, wherever it lies."""
    return array if array.__class__ is Array and array._host is not None else Array(array.type, np.asarray(host_of(array)))


def _run(frame: Frame, args: Sequence[Any], visitor: Visitor) -> tuple[Any, ...]:
    frame.args = args

    def apply(equation: Equation, operands: list[Any]) -> Any:
        visitor.before(equation, operands, frame)
        if is_opened(equation):
            results, notes = _opened(equation, operands, frame, visitor)
            frame.keep_notes(results, notes)
        else:
            found = bind_equation(equation, operands)
            results = [host_array(x) for x in (found if equation.primitive.multiple_results else (found,))]
        visitor.after(equation, operands, results, frame)
        return results if equation.primitive.multiple_results else results[0]

    return run(frame.program, args, apply)


def _inside(
    frame: Frame, equation: Equation, program: Graph, given: Noted, visitor: Visitor, part: str, number: int = 0
) -> Noted:
    """Run what an equation holds; notes go in with the arguments, and out with the results."""
    inner = Frame(program, frame, equation, part, number)
    inner.keep_notes(*given)
    outs = _run(inner, given[0], visitor)
    return outs, inner.notes_of(outs)


def _opened(equation: Equation, operands: Sequence[Any], frame: Frame, visitor: Visitor) -> Noted:
    held = held_by(equation.primitive, equation.params)
    lead, own = split(operands, held.wiring.lead)
    notes = frame.notes_of(own)
    if held.test is not None:
        return _while(equation, held, (own, notes), frame, visitor)
    if held.wiring.carry is not None:
        return _scan(equation, held, (own, notes), frame, visitor)
    if not lead:
        return _inside(frame, equation, held.programs[0], (own, notes), visitor, "program")
    branch = min(max(int(host_of(lead[0])), 0), len(held.programs) - 1)
    return _inside(frame, equation, held.programs[branch], (own, notes), visitor, "branch", branch)


def _joined(*rows: Noted) -> Noted:
    return [x for values, _ in rows for x in values], [note for _, notes in rows for note in notes]


def _while(equation: Equation, held: Held, given: Noted, frame: Frame, visitor: Visitor) -> Noted:
    (consts, carry, _), (of_consts, of_carry, _) = map(held.split, given)
    fixed: Noted = (consts, of_consts)
    state: Noted = (carry, of_carry)
    limit, step = equation.params.get("max_steps"), 0
    while limit is None or step < limit:
        assert held.test is not None
        (going,), _ = _inside(frame, equation, held.test, _joined(fixed, state), visitor, "test", step)
        if not host_of(going):
            break
        state = _inside(frame, equation, held.programs[0], _joined(fixed, state), visitor, "step", step)
        step += 1
    return state


def _scan(equation: Equation, held: Held, given: Noted, frame: Frame, visitor: Visitor) -> Noted:
    (body,), params = held.programs, equation.params
    (consts, carry, xs), (of_consts, of_carry, of_xs) = map(held.split, given)
    hosts = [np.asarray(host_of(x)) for x in xs]
    x_types, y_types = body.input_types[held.consts + held.carry :], body.output_types[held.carry :]
    length = params["length"]
    stacks = [np.empty((length, *type.shape), type.dtype) for type in y_types]
    of_ys: list[list[Any]] = [[None] * length for _ in stacks]
    state: Noted = (carry, of_carry)
    for i in reversed(range(length)) if params["reverse"] else range(length):
        elements = [Array(type, host[i]) for type, host in zip(x_types, hosts)]
        given_xs = elements, [note[i] if isinstance(note, Steps) else note for note in of_xs]
        outs, notes = _inside(frame, equation, body, _joined((consts, of_consts), state, given_xs), visitor, "step", i)
        state = outs[: held.carry], notes[: held.carry]
        for stack, y in zip(stacks, outs[held.carry :]):
            stack[i] = host_of(y)
        for row, note in zip(of_ys, notes[held.carry :]):
            row[i] = note
    ys = [Array(stacked_type(type, length), stack) for type, stack in zip(y_types, stacks)]
    return _joined(state, (ys, [Steps(row) if any(note is not None for note in row) else None for row in of_ys]))
