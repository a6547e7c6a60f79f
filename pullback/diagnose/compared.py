"""A Program run by NumPy and as compiled code: the first equation whose values differ.

The compiled Program is made to return what its equations compute, besides its results (`watched.py`). To return a value keeps
the compiler from fusing it with what uses it; so the results of the Program as it is are compared as well, and reported by
themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.core.array import Array, host_of
from pullback.core.dtypes import kind
from pullback.core.source import Source
from pullback.core.types import ArrayType
from pullback.diagnose.stats import numbers_of, short_text
from pullback.diagnose.walk import Visitor, walk
from pullback.diagnose.watched import Value, watched_program
from pullback.engine.compile import run_program
from pullback.numpy.dtypes import finfo
from pullback.ops.arithmetic import add, sub
from pullback.program.equation import Equation, Variable
from pullback.program.program import Program

BITS_OF_TOLERANCE = 0.6  # of the digits of a dtype, those in which values must agree by default


MOST_LOOKED_AT = 256  # of the equations whose values differ, the first ones, that are run again by themselves


def tolerance_for(type: ArrayType) -> float:
    """How far apart values may be by default, as a part of the largest of them: 7e-5 in float32, 4e-10 in float64."""
    letter = kind(type.dtype)
    if letter not in "fc":
        return 0.0
    eps = float(finfo(type.dtype).eps)
    return float(eps**BITS_OF_TOLERANCE) if eps < 1e-3 else 4 * eps


class Difference(NamedTuple):
    """Values that differ.

    Attributes:
        equation: which computes them; None of a result of the Program as it is.
        number: of the output of the equation, or of the Program.
        error: the largest difference, as a part of the largest value; NaN or infinity where one has NaN that the other has not.
        element: where that is. replayed, compiled: the values there.
        steps: the numbers of the steps of the loops around, of the first step that differs.
    """

    equation: Equation | None
    number: int
    error: float
    element: tuple[int, ...]
    replayed: str
    compiled: str
    steps: tuple[int, ...] = ()

    @property
    def source(self) -> Source | None:
        """The user's line."""
        return None if self.equation is None else self.equation.source

    def __str__(self) -> str:
        what = f"result {self.number}" if self.equation is None else f"#{self.equation.id} {self.equation.primitive.name}"
        at = f" at {list(self.element)}" if self.element else ""
        steps = f", in step {', '.join(map(str, self.steps))}" if self.steps else ""
        text = f"{what}: {self.replayed} on NumPy, {self.compiled} compiled{at}{steps} (relative difference {self.error:.2g})"
        return text if self.source is None else f"{text}\n  line: {self.source}"


class Comparison(NamedTuple):
    """What a comparison with compiled code came to; true if an equation or a result differs.

    Attributes:
        first: the first equation for which compiled code computes something else than NumPy does from the same operands; None
            where there is none.
        grown: else, the first equation whose values differ all the same, since its operands differ in their last digits. Where
            no result differs, these are values that are small beside those that they are computed from.
        results: the results that differ, of the Program compiled as it is.
        compared: how many equations were compared. skipped: those that were not, since they are in a loop of unknown
            length, in another loop or a branch, or its test.
        worst: the largest difference that was within the tolerance.
    """

    first: Difference | None
    grown: Difference | None
    results: tuple[Difference, ...]
    compared: int
    skipped: int
    worst: float

    def __bool__(self) -> bool:
        return self.first is not None or bool(self.results)

    def __str__(self) -> str:
        within = f"relative differences up to {self.worst:.2g}"
        said = f"compiled code: {self.compared} equations compared"
        if self.skipped:
            said += f", and {self.skipped} in loops of unknown length by the loops' results alone"
        if not self:
            small = "" if self.grown is None else f", except for rounding where numbers nearly cancel, first in {self.grown}"
            return f"{said}; all agree ({within}){small}"
        lines = [said]
        if self.first is not None:
            lines.append(f"the first that differs is {self.first}")
        elif self.grown is not None:
            lines.append(
                "from the same operands all compute the same, but rounding grows: the first values that differ are those of"
            )
            lines.append(str(self.grown))
        else:
            lines.append(f"they agree ({within}), as long as the compiler must return each value; compiled as it is,")
        return "\n".join([*lines, *[str(result) for result in self.results]])


# ---- the comparison --------------------------------------------------------------------------------------------------------


def compare(program: Program, leaves: Sequence[Array], outs: Sequence[Array], tolerance: float | None = None) -> Comparison:
    """Compare the values of a Program on NumPy with those of compiled code.

    Arguments:
        leaves: its inputs. outs: its results on NumPy.
        tolerance: how far apart values may be, as a part of the largest element; by default that of `tolerance_for`.
    """
    watched, watching = watched_program(program, leaves)
    labels, own = watching.labels, len(program.outputs)
    replayed = walk(watched, leaves, Visitor())[own:]
    compiled = run_program(watched, list(leaves))[own:]
    at = {id(label): value for label, value in zip(labels, compiled, strict=True)}
    starts: dict[int, int] = {}  # where the values begin that are computed in a loop
    apart: list[tuple[Any, Value, Difference]] = []
    worst = 0.0
    for number, (label, one, other) in enumerate(zip(labels, replayed, compiled)):
        if label.levels:
            starts.setdefault(label.levels[0].id, number)
        if label.equation is None:
            continue
        found = difference(one, other, label, tolerance)
        if found.error > _allowed(one, tolerance):
            apart.append((_when(label, found.steps, starts, number), label, found))
        else:
            worst = max(worst, found.error)
    apart.sort(key=lambda one: one[0])
    alone = [_alone(label, found, at, tolerance) for _, label, found in apart[:MOST_LOOKED_AT]]
    first = next((one for one in alone if one is not None), None)
    grown = apart[0][2] if apart and first is None else None
    plain = run_program(program, list(leaves))
    last = [difference(one, other, number, tolerance) for number, (one, other) in enumerate(zip(outs, plain, strict=True))]
    results = [one for one, out in zip(last, outs) if one.error > _allowed(out, tolerance)]
    worst = max([worst, *[one.error for one in last if one not in results]])
    compared = {label.equation.id for label in labels if label.equation is not None}
    return Comparison(first, grown, tuple(results), len(compared), watching.skipped, worst)


def _when(label: Value, steps: Sequence[int], starts: dict[int, int], number: int) -> Any:
    """When a value was computed, to be compared with when others were: in a loop, by steps."""
    times = [-step if level.params.get("reverse") else step for step, level in zip(steps, label.levels)]
    return starts[label.levels[0].id] if label.levels else number, times, number


def _alone(label: Value, found: Difference, compiled: dict[int, Array], tolerance: float | None) -> Difference | None:
    """How the result of an equation differs from what NumPy makes of the same operands; None if it does not, but for rounding.

    What holds other equations, which have been compared, differs by these. Where many numbers are added, rounding is a part of
    these, not of their sum.
    """
    equation = label.equation
    assert equation is not None
    if label.opened:
        return None
    operands: list[Array] = []
    for operand in label.operands:
        if operand is None:
            return found
        value = operand if isinstance(operand, Array) else compiled[id(operand)]
        steps = () if isinstance(operand, Array) else found.steps[: len(operand.levels)]
        operands.append(_part(value, steps))
    inputs = [Variable(operand.type) for operand in operands]
    single = Program(inputs, [equation.replace(inputs=tuple(inputs))], equation.outputs)
    one = walk(single, operands, Visitor())[label.number]
    other = _part(compiled[id(label)], found.steps)
    added = equation.primitive.accumulation is not None or equation.primitive in (add, sub)
    scale = max([0.0, *[_largest(x) for x in operands if kind(x.dtype) in "fc"]]) if added else 0.0
    own = difference(one, other, label.number, tolerance, scale)
    return own._replace(equation=equation, steps=found.steps) if own.error > _allowed(one, tolerance) else None


def _allowed(array: Array, tolerance: float | None) -> float:
    return tolerance_for(array.type) if tolerance is None or kind(array.dtype) not in "fc" else tolerance


def _part(array: Array, steps: tuple[int, ...]) -> Array:
    """The value in a step of the loops by which it is stacked."""
    host = np.asarray(host_of(array))
    return Array(array.type.with_shape(array.type.shape[len(steps) :]), np.asarray(host[steps])) if steps else array


def difference(one: Array, other: Array, what: Value | int, tolerance: float | None = None, scale: float = 0.0) -> Difference:
    """How a value on NumPy and the compiled one differ, the most or, in loops, in the first step that differs too much; as a
    part of the largest element, or of `scale`."""
    label = what if isinstance(what, Value) else None
    a, b = _numbers(one), _numbers(other)
    levels = () if label is None else label.levels
    errors = _errors(a, b, len(levels), scale)
    index: tuple[int, ...] = ()
    if errors.size:
        flat = int(np.argmax(errors))
        over = np.argwhere(errors > _allowed(one, tolerance))
        if levels and len(over):  # steps are stacked by their numbers, also of a loop that runs backwards
            order = [over[:, axis] * (-1 if level.params.get("reverse") else 1) for axis, level in enumerate(levels)]
            flat = int(np.ravel_multi_index(tuple(over[np.lexsort(order[::-1])[0]]), errors.shape))
        index = tuple(map(int, np.unravel_index(flat, errors.shape)))
    error = float(errors[index]) if errors.size else 0.0
    text, other_text = [_text(array, index) for array in (one, other)] if errors.size else ["", ""]
    steps, element = index[: len(levels)], index[len(levels) :]
    equation = None if label is None else label.equation
    number = what.number if isinstance(what, Value) else what
    return Difference(equation, number, error, element, text, other_text, steps)


def _numbers(array: Array) -> Any:
    numbers = numbers_of(array)
    if numbers is not None:
        return np.asarray(numbers)
    host = np.asarray(host_of(array))  # of keys the words
    words = np.ascontiguousarray(host).reshape(-1).view(np.uint8)
    return words.reshape(*host.shape, host.dtype.itemsize)


def _errors(a: Any, b: Any, levels: int, least: float) -> Any:
    """How far elements are apart, as a part of the largest one of the value; infinity where one only is NaN, or infinite."""
    if a.dtype.kind not in "fc":
        return np.where(a == b, 0.0, np.inf)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        sizes = np.where(np.isfinite(a), np.abs(a), 0.0).astype(np.float64)
        axes = tuple(range(levels, a.ndim))
        scale = np.max(sizes, axis=axes, keepdims=True, initial=least)
        apart = np.abs(a - b).astype(np.float64) / np.where(scale == 0, 1.0, scale)
        return np.where(same, 0.0, np.where(np.isfinite(a) & np.isfinite(b), apart, np.inf))


def _text(array: Array, index: tuple[int, ...]) -> str:
    host = np.asarray(host_of(array))
    if kind(array.dtype) == "k":
        return "random keys"
    return short_text(Array(array.type.with_shape(()), np.asarray(host[index])))


def _largest(array: Array) -> float:
    """The largest absolute value of the finite elements."""
    numbers = np.asarray(numbers_of(array))
    with np.errstate(all="ignore"):
        return float(np.max(np.where(np.isfinite(numbers), np.abs(numbers), 0.0), initial=0.0))
