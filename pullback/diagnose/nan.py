"""Where the first NaN, or infinity, of a Program comes from.

The Program runs on NumPy, equation by equation. Each value that is not finite is noted with what made it: the equation that
made it of finite operands, an argument, or a number that the function itself holds. So a NaN in a result is followed back to
where it was made, however it went there; and one that nothing uses in the end is told from one that matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.core.array import Array, host_of
from pullback.core.dtypes import is_inexact
from pullback.core.source import Source
from pullback.diagnose.stats import finite, numbers_of, short_text
from pullback.diagnose.walk import Frame, Steps, Visitor, host_array, is_opened, walk_noted
from pullback.ops.arithmetic import div, mul
from pullback.ops.compare import select
from pullback.program.equation import Equation, Graph, Variable


class Origin(NamedTuple):
    """What first was not finite.

    Attributes:
        what: "equation", "argument" or "constant". name: of the argument, if it has one.
        number: how many equations had run before. nan: whether it is NaN, or else infinite.
        equation: which made it, or first used the constant; None of an argument. frame: where that ran.
        element: the index of the first element of the result that is so; of a whole stack of steps for the loop's own.
        values: of each operand, the element that this one comes from, or the whole in short. result: what came out, likewise.
        cause: of a NaN that is made from infinite operands, where the first of these comes from.
    """

    what: str
    number: int
    nan: bool
    element: tuple[int, ...]
    result: str
    name: str = ""
    equation: Equation | None = None
    frame: Frame | None = None
    values: tuple[str, ...] = ()
    cause: Origin | None = None

    @property
    def source(self) -> Source | None:
        """The user's line."""
        return None if self.equation is None else self.equation.source


class Meeting(NamedTuple):
    """Where, in the backward pass, a zero met what is not finite: zero times infinity is not a number.

    Attributes:
        equation: which multiplied them. frame: where it ran. zero: the operand that was zero.
        other: what made the other operand, or None, where this equation divides zero by zero.
        dropped: the ids of the selects of the backward pass that had dropped a cotangent before, which then is zero.
    """

    equation: Equation
    frame: Frame
    zero: Variable
    other: Origin | None
    dropped: frozenset[int] = frozenset()


def returned(*arrays: Any) -> None:
    """Nothing: a callback of this has as operands what a function returns of which a derivative is taken, for a `Hunt`."""


class Hunt(Visitor):
    """Notes of each value that is not finite where that comes from.

    Attributes:
        first: the first equation that made NaN (with `infinity`, or infinity) from what is finite or infinite.
        meeting: where first a zero cotangent met something that is not finite.
        value: where NaN (or infinity) comes from that the function returns of which a derivative is taken (see `returned`).
    """

    def __init__(self, infinity: bool = False) -> None:
        self.infinity = infinity
        self.first: Origin | None = None
        self.meeting: Meeting | None = None
        self.value: Origin | None = None
        self.dropped: set[int] = set()  # selects, as a `Meeting` has them
        self.count = 0

    def before(self, equation: Equation, operands: Sequence[Any], frame: Frame) -> None:
        self.count += 1

    def after(self, equation: Equation, operands: Sequence[Any], results: Sequence[Any], frame: Frame) -> None:
        if is_opened(equation):
            return  # what it holds has been seen
        if equation.params.get("function") is returned:
            self.seen(operands, frame)
        if equation.primitive is select and equation.role == "cotangent" and _drops(operands[1:], results[0]):
            self.dropped.add(equation.id)
        for result in results:
            if is_inexact(result.dtype) and not finite(numbers_of(result)):
                self.found(equation, operands, result, frame)

    def found(self, equation: Equation, operands: Sequence[Any], result: Array, frame: Frame) -> None:
        """Note where a result that is not finite comes from."""
        values = numbers_of(result)
        nan = np.isnan(values)
        bad = [x for x in operands if is_inexact(x.dtype) and not finite(numbers_of(x))]
        bad_nan = [x for x in bad if np.isnan(numbers_of(x)).any()]
        aligned = equation.primitive.elementwise
        made_nan = nan
        for x in bad_nan:  # where no operand is NaN already
            made_nan = made_nan & ~np.isnan(numbers_of(x)) if aligned else np.zeros_like(made_nan)
        if made_nan.any():
            there = tuple(np.argwhere(made_nan)[0])
            notes = [_noted(frame, x) for x in bad if not aligned or not _finite_at(x, there)]
            cause = next((note for note in notes if note is not None and not note.nan), None)
            origin = self.made(equation, operands, result, frame, made_nan, True, cause)
            if self.first is None or (not self.first.nan and not self.infinity):
                self.first = origin
            if bad_nan and not np.array_equal(made_nan, nan):  # another element has a NaN that was made before
                origin = self.earliest(equation, bad_nan, frame)
        elif bad:
            origin = self.earliest(equation, bad_nan if nan.any() and bad_nan else bad, frame)
        else:
            origin = self.made(equation, operands, result, frame, ~np.isfinite(values), False, None)
            if self.infinity and self.first is None:
                self.first = origin
        if nan.any() and self.meeting is None and equation.role == "cotangent":
            self.meeting = self.met(equation, operands, np.argwhere(nan)[0], frame)
        frame.notes[id(result)] = origin

    def seen(self, values: Sequence[Any], frame: Frame) -> None:
        """Note where what the function itself returns comes from."""
        bad = [x for x in values if counts(x, self.infinity)]
        if bad and self.value is None:
            notes = [_noted(frame, x) or self.given("constant", "", x) for x in bad]
            self.value = min(notes, key=lambda note: note.number)

    def earliest(self, equation: Equation, operands: Sequence[Any], frame: Frame) -> Origin:
        """Where that comes from which first was not finite, of operands that are not."""
        notes = [_noted(frame, x) or self.constant(equation, x, frame) for x in operands]
        return min(notes, key=lambda note: note.number)

    def made(
        self,
        equation: Equation,
        operands: Sequence[Any],
        result: Array,
        frame: Frame,
        where: Any,
        nan: bool,
        cause: Origin | None,
    ) -> Origin:
        """The origin of what this equation made."""
        element = tuple(map(int, np.argwhere(where)[0]))
        values = tuple([_element_text(x, element, equation.primitive.elementwise) for x in operands])
        text = _element_text(result, element, True)
        return Origin("equation", self.count, nan, element, text, "", equation, frame, values, cause)

    def constant(self, equation: Equation, value: Array, frame: Frame) -> Origin:
        """The origin of a value that nothing made: the function holds it."""
        return self.given("constant", "", value)._replace(equation=equation, frame=frame)

    def given(self, what: str, name: str, value: Array) -> Origin:
        """The origin of a value that was there from the start."""
        values = numbers_of(value)
        nan = bool(np.isnan(values).any())
        element = tuple(map(int, np.argwhere(np.isnan(values) if nan else np.isinf(values))[0]))
        return Origin(what, self.count, nan, element, _element_text(value, element, True), name)

    def met(self, equation: Equation, operands: Sequence[Any], index: Any, frame: Frame) -> Meeting | None:
        """The meeting of a zero with what is not finite, if an equation is one."""
        if equation.primitive not in (mul, div):
            return None
        pair = [np.asarray(numbers_of(x)) for x in operands]
        a, b = [x[tuple(index)] if x.ndim else x[()] for x in pair]
        for zero, other, place in ((a, b, 0), (b, a, 1)):
            atom = equation.inputs[place]
            if zero != 0 or not isinstance(atom, Variable):
                continue
            if not np.isfinite(other):
                return Meeting(equation, frame, atom, _noted(frame, operands[1 - place]), frozenset(self.dropped))
            if equation.primitive is div and place == 0 and other == 0:
                return Meeting(equation, frame, atom, None, frozenset(self.dropped))
        return None


def _drops(operands: Sequence[Array], result: Array) -> bool:
    """Whether a select has zero where what it does not take is another number."""
    zero = numbers_of(result) == 0
    return any([bool((zero & (numbers_of(x) != 0)).any()) for x in operands])


def _finite_at(operand: Array, element: tuple[Any, ...]) -> bool:
    """Whether the element of an operand that a result's element is made of is finite; of a 0-d one, the only one."""
    values = numbers_of(operand)
    return bool(np.isfinite(values[element] if values.ndim else values))


def _noted(frame: Frame, value: Array) -> Origin | None:
    """Where a value that is not finite comes from; None where that is not noted."""
    return _first_of(frame.notes.get(id(value)), bool(np.isnan(numbers_of(value)).any()))


def _first_of(note: Any, nan: bool) -> Origin | None:
    """An origin that is noted; of a stack the first of those of its steps, and if it has NaN, the first that is NaN."""
    if not isinstance(note, Steps):
        return note  # type: ignore[no-any-return]
    found = [one for step in note if (one := _first_of(step, nan)) is not None]
    return min(found, key=lambda one: (nan and not one.nan, one.number), default=None)


def _element_text(array: Array, element: tuple[int, ...], aligned: bool) -> str:
    """The element that stands at an index, or the whole in short."""
    if aligned and array.ndim in (0, len(element)):
        host = np.asarray(host_of(array))
        return short_text(Array(array.type.with_shape(()), np.asarray(host[element] if array.ndim else host)))
    return short_text(array)


# ---- what is found -----------------------------------------------------------------------------------------------------


class Found(NamedTuple):
    """What a run of a Program came to.

    Attributes:
        outs: the results. origin: what the NaN among these comes from, or else what made a NaN that is not among them.
        reaches: whether a result is NaN (with `infinity`, or infinite).
        meeting: where a zero cotangent met what is not finite.
        given: an argument that has NaN (with `infinity`, or infinity) from the start.
        returned: whether no result is, but what the function returns of which a derivative is taken.
    """

    outs: tuple[Any, ...]
    origin: Origin | None
    reaches: bool
    meeting: Meeting | None
    given: Origin | None = None
    returned: bool = False


def counts(array: Array, infinity: bool) -> bool:
    """Whether an array has NaN, or, if that counts as well, infinity."""
    values = numbers_of(array) if is_inexact(array.dtype) else None
    return values is not None and bool(not finite(values) if infinity else np.isnan(values).any())


def hunted(program: Graph, args: Sequence[Any], names: Sequence[str] = (), infinity: bool = False) -> Found:
    """Run a Program, and find where what is not finite comes from.

    Arguments:
        args: an Array for each input. names: how to call each.
        infinity: whether infinity counts as well as NaN.
    """
    hunt, args = Hunt(infinity), [host_array(arg) for arg in args]
    given: list[Origin | None] = [None] * len(args)
    for number, arg in enumerate(args):
        if is_inexact(arg.dtype) and not finite(numbers_of(arg)):
            name = names[number] if number < len(names) else ""
            given[number] = hunt.given("argument", name, arg)
    outs, notes = walk_noted(program, args, hunt, given)
    origins: list[Origin] = []
    for out, note in zip(outs, notes):
        if counts(out, infinity):
            nan = bool(np.isnan(numbers_of(out)).any())
            origins.append(_first_of(note, nan) or hunt.given("constant", "", out))
    if origins:
        first = next((one for one in given if one is not None and (one.nan or infinity)), None)
        return Found(tuple(outs), min(origins, key=lambda origin: origin.number), True, hunt.meeting, first)
    return Found(tuple(outs), hunt.value or hunt.first, False, hunt.meeting, returned=hunt.value is not None)
