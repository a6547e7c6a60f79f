"""What a loop says of how far it is, for a bar: that it begins, that it has taken some steps, and that it has ended.

Saying so is an effect like a callback's, but one that nobody counts on: where a computation is repeated for the backward pass
it is left out (`silent`), and batch elements that go through a loop together say it once, for the one that is ahead.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.control.holder import held_by
from pullback.core.primitive import Rules, primitive
from pullback.core.progress import display
from pullback.core.types import ArrayType
from pullback.ops.reduce import reduce_max
from pullback.program.equality import Keyed
from pullback.program.equation import Equation, remembered
from pullback.program.program import Program, programs_in

EFFECT = "progress"
NOBODY = -1  # the number of steps that no batch element has taken


class Bar(Keyed):
    """A row of what is shown: that of the loops with one body, under one label."""

    __slots__ = ("label", "printed")

    def __init__(self, label: str, body: Any) -> None:
        self.key = label, body
        self.label = label
        self.printed = f"bar {label}"


@primitive
class progress(Rules):
    """Say that a loop has taken `done` of `total` steps (-1: nobody knows): `when` it begins, ends, or takes a step, if `done`
    is a multiple of `every`; if that is 0, whenever an eighth or more has been added to what was done."""

    multiple_results = True
    effect = EFFECT
    cost = 0

    def result_type(done: ArrayType, total: ArrayType, *, bar: Bar, when: str, every: int = 1):
        return ()

    def evaluate(done, total, *, bar, when, every=1):
        if done >= 0 and (done % every == 0 if every else is_round(int(done))):
            _say(bar, when, int(done), int(total))
        return ()

    def lower(write, done, total, *, bar, when, every=1):
        def call():
            return write.host_call(lambda done, total: _called(bar, when, done, total), [done, total])

        if every == 1:
            return call()
        if every:
            rest = write.elementwise("stablehlo.remainder", done, write.constant(np.asarray(every, done.dtype)))
        else:
            rest = _behind_the_first_bits(write, done)
        due = write.compare("EQ", rest, write.constant(np.asarray(0, done.dtype)))
        return write.case(write.convert(due, np.dtype(np.int32)), [list, call], [])

    def jvp(primals, tangents, **params):
        return progress(*primals, **params), ()

    def vectorize(size, args, axes, **params):
        if size == 0:
            return (), ()
        ahead = [reduce_max(x, axes=(0,)) if axis == 0 else x for x, axis in zip(args, axes)]
        return progress(*ahead, **params), ()

    def samples(rng):
        yield (np.int32(6), np.int32(8)), {"bar": Bar("samples", None), "when": "step", "every": 2}
        yield (np.int64(17), np.int64(-1)), {"bar": Bar("samples", None), "when": "step", "every": 0}


FIRST_BITS = 4


def is_round(done: int) -> bool:
    """Whether only the first four bits of a number are not zero: 0 to 16, 18, 20, ..., 32, 36, ...

    Example:
        >>> [number for number in range(40) if not is_round(number)][:6]
        [17, 19, 21, 23, 25, 27]
    """
    return done & ((1 << max(done.bit_length() - FIRST_BITS, 0)) - 1) == 0


def _behind_the_first_bits(write: Any, done: Any) -> Any:
    """The bits of a number behind its first four."""
    bits = 8 * done.dtype.itemsize
    one, zero, first = (write.constant(np.asarray(n, done.dtype)) for n in (1, 0, bits - FIRST_BITS))
    count = write.elementwise("stablehlo.subtract", first, write.elementwise("stablehlo.count_leading_zeros", done))
    power = write.elementwise("stablehlo.shift_left", one, write.elementwise("stablehlo.maximum", count, zero))
    return write.elementwise("stablehlo.and", done, write.elementwise("stablehlo.subtract", power, one))


def _called(bar: Bar, when: str, done: Any, total: Any) -> tuple[()]:
    if done >= 0:
        _say(bar, when, int(done), int(total))
    return ()


def _say(bar: Bar, when: str, done: int, total: int) -> None:
    if when == "begin":
        display.begin(bar, bar.label, None if total < 0 else total)
    elif when == "step":
        display.step(bar, done)
    else:
        display.end(bar, done)


def silent(equation: Equation) -> Equation | None:
    """An equation that says nothing of progress, for it has been said; None if it does nothing else."""
    if equation.primitive is progress:
        return None
    if equation.primitive.wiring is None or not any([EFFECT in one.effects for one in programs_in(equation.params)]):
        return equation
    held = held_by(equation.primitive, equation.params)
    test = None if held.test is None else silent_program(held.test)
    return equation.replace(params=held.on([silent_program(program) for program in held.programs], test=test))


@remembered
def silent_program(program: Program) -> Program:
    """A Program that says nothing of progress."""
    if EFFECT not in program.effects:
        return program
    kept = [one for equation in program.equations if (one := silent(equation)) is not None]
    return Program(program.inputs, kept, program.outputs, program.constants, program.name, program.batch_axes)
