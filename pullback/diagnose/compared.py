"""A Program run by NumPy and as compiled code: the first equation whose values differ.

The compiled Program is made to return what its equations compute, besides its results: that of what it calls too, and of the
steps of a loop of known length, stacked. What a branch or a loop of unknown length computes inside is not compared, only what
comes out of it. To return a value keeps the compiler from fusing it with what uses it; so the results of the Program as it is
are compared as well, and reported by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.control.cond import cond
from pullback.control.holder import bind_holder, held_by
from pullback.core.array import Array, host_of
from pullback.core.dtypes import kind
from pullback.core.source import Source
from pullback.core.types import ArrayType
from pullback.diagnose.stats import numbers_of, short_text
from pullback.diagnose.walk import Visitor, is_opened, walk
from pullback.engine.compile import run_program
from pullback.numpy.dtypes import finfo
from pullback.program.equation import Equation
from pullback.program.interpret import bind_equation, run
from pullback.program.program import Program
from pullback.transforms.derive import stage_closed

BITS_OF_TOLERANCE = 0.6  # of the digits of a dtype, those in which values must agree by default


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
    """What a comparison with compiled code came to.

    Attributes:
        first: the first equation that differs; None where none does.
        results: the results that differ, of the Program compiled as it is.
        compared: how many equations were compared. skipped: those that were not, since they run in a branch or a loop of
            unknown length.
        worst: the largest difference that was within the tolerance.
    """

    first: Difference | None
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
            said += f", {self.skipped} in branches or loops of unknown length not, but for what comes out"
        if not self:
            return f"{said}; all agree ({within})"
        lines = [said]
        if self.first is not None:
            lines.append(f"the first that differs is {self.first}")
        elif self.results:
            lines.append(f"they agree ({within}), as long as the compiler must return each value; compiled as it is,")
        return "\n".join([*lines, *[str(result) for result in self.results]])


# ---- the Program that returns what it computes -----------------------------------------------------------------------------


class Watched(NamedTuple):
    """An output of the watched Program: that of an equation, of `levels` loops around it, the outermost first."""

    equation: Equation
    number: int
    levels: tuple[Equation, ...]


def watched_program(program: Program) -> tuple[Program, list[Watched], int]:
    """The Program that also returns what its equations compute, what these outputs are, and how many equations are left out."""
    labels: list[Watched] = []
    skipped = [0]

    def whole(*args: Any) -> list[Any]:
        labels.clear()
        skipped[0] = 0
        extra: list[Any] = []
        outs = run(program, args, lambda equation, operands: _watch(equation, operands, extra, labels, skipped, ()))
        return [*outs, *extra]

    return stage_closed(whole, program.input_types, program.name, program), labels, skipped[0]


def _watch(
    equation: Equation,
    operands: list[Any],
    extra: list[Any],
    labels: list[Watched],
    skipped: list[int],
    levels: tuple[Equation, ...],
) -> Any:
    """Apply an equation, and add what it and the Programs that it holds compute to what is returned."""
    primitive, params = equation.primitive, equation.params
    held = held_by(primitive, params) if is_opened(equation) else None
    if held is None:
        outs = bind_equation(equation, operands)
    elif held.test is not None or primitive is cond:
        skipped[0] += sum([_count(one) for one in (*held.programs, *([held.test] if held.test else []))])
        outs = bind_equation(equation, operands)
    elif held.wiring.carry is None:
        outs = run(held.programs[0], operands, lambda one, given: _watch(one, given, extra, labels, skipped, levels))
    else:
        inner_labels: list[Watched] = []

        def step(*args: Any) -> list[Any]:
            inner_labels.clear()
            found: list[Any] = []
            results = run(
                held.programs[0],
                args,
                lambda one, given: _watch(one, given, found, inner_labels, skipped, (*levels, equation)),
            )
            return [*results, *found]

        body = stage_closed(step, held.programs[0].input_types, held.programs[0].name, held.programs[0])
        found = bind_holder(primitive, *operands, **held.on([body]))
        outs = tuple(found[: len(equation.outputs)])
        extra += found[len(equation.outputs) :]
        labels += inner_labels
    for number, out in enumerate(outs if primitive.multiple_results else (outs,)):
        extra.append(out)
        labels.append(Watched(equation, number, levels))
    return outs


def _count(program: Program) -> int:
    return len(program.equations) + sum([_count(inner) for inner in program.subprograms()])


# ---- the comparison --------------------------------------------------------------------------------------------------------


def compare(program: Program, leaves: Sequence[Array], outs: Sequence[Array], tolerance: float | None = None) -> Comparison:
    """Compare the values of a Program on NumPy with those of compiled code.

    Arguments:
        leaves: its inputs. outs: its results on NumPy.
        tolerance: how far apart values may be, as a part of the largest element; by default that of `tolerance_for`.
    """
    watched, labels, skipped = watched_program(program)
    count = len(program.outputs)
    replayed = walk(watched, leaves, Visitor())[count:]
    compiled = run_program(watched, list(leaves))[count:]
    first, worst = None, 0.0
    for label, one, other in zip(labels, replayed, compiled, strict=True):
        found = difference(one, other, label, tolerance)
        if found.error > _allowed(one, tolerance):
            first = first or found
        else:
            worst = max(worst, found.error)
    plain = run_program(program, list(leaves))
    apart = [difference(one, other, number, tolerance) for number, (one, other) in enumerate(zip(outs, plain, strict=True))]
    results = [one for one, out in zip(apart, outs) if one.error > _allowed(out, tolerance)]
    worst = max([worst, *[one.error for one, out in zip(apart, outs) if one not in results]])
    return Comparison(first, tuple(results), len({label.equation.id for label in labels}), skipped, worst)


def _allowed(array: Array, tolerance: float | None) -> float:
    return tolerance_for(array.type) if tolerance is None or kind(array.dtype) not in "fc" else tolerance


def difference(one: Array, other: Array, what: Watched | int, tolerance: float | None = None) -> Difference:
    """How a value on NumPy and the compiled one differ, the most or, in loops, in the first step that differs too much."""
    label = what if isinstance(what, Watched) else None
    a, b = _numbers(one), _numbers(other)
    levels = () if label is None else label.levels
    errors = _errors(a, b, len(levels))
    index: tuple[int, ...] = ()
    if errors.size:
        flat = int(np.argmax(errors))
        over = np.argwhere(errors > _allowed(one, tolerance))
        if levels and len(over):  # steps are stacked by their numbers, also of a loop that runs backwards
            order = [over[:, axis] * (-1 if level.params["reverse"] else 1) for axis, level in enumerate(levels)]
            flat = int(np.ravel_multi_index(tuple(over[np.lexsort(order[::-1])[0]]), errors.shape))
        index = tuple(map(int, np.unravel_index(flat, errors.shape)))
    error = float(errors[index]) if errors.size else 0.0
    text, other_text = [_text(array, index) for array in (one, other)] if errors.size else ["", ""]
    steps, element = index[: len(levels)], index[len(levels) :]
    equation = None if label is None else label.equation
    number = what.number if isinstance(what, Watched) else what
    return Difference(equation, number, error, element, text, other_text, steps)


def _numbers(array: Array) -> Any:
    numbers = numbers_of(array)
    if numbers is not None:
        return np.asarray(numbers)
    host = np.asarray(host_of(array))  # of keys the words
    words = host.view(np.uint8).reshape(*host.shape, -1)
    return words


def _errors(a: Any, b: Any, levels: int) -> Any:
    """How far elements are apart, as a part of the largest one of the value; infinity where one only is NaN, or infinite."""
    if a.dtype.kind not in "fc":
        return np.where(a == b, 0.0, np.inf)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        sizes = np.where(np.isfinite(a), np.abs(a), 0.0).astype(np.float64)
        axes = tuple(range(levels, a.ndim))
        scale = np.max(sizes, axis=axes, keepdims=True, initial=0.0)
        apart = np.abs(a - b).astype(np.float64) / np.where(scale == 0, 1.0, scale)
        return np.where(same, 0.0, np.where(np.isfinite(a) & np.isfinite(b), apart, np.inf))


def _text(array: Array, index: tuple[int, ...]) -> str:
    host = np.asarray(host_of(array))
    if kind(array.dtype) == "k":
        return "random keys"
    return short_text(Array(array.type.with_shape(()), np.asarray(host[index])))
