"""Running a function to see how long its parts take: XLA's operations under its profiler, or equations one by one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NamedTuple

from pullback.analysis.events import Event, events_of, record
from pullback.analysis.hlo import operations_of
from pullback.api.devices import block_until_ready
from pullback.api.stages import Lowered, leaves_of, numbered_run
from pullback.core.execution import engine
from pullback.program.equation import Equation
from pullback.program.interpret import interpret

MOST_EVENTS = 20_000  # of a run; where there are more, one run is recorded
_MODULE = re.compile(r"HloModule ([\w.\-]+)")


class Part(NamedTuple):
    """A part of a program that was measured.

    Attributes:
        name: the operation's, or the equation's. opcode: what XLA calls such operations; empty for an equation.
        equations: the ids of those that it comes from.
        times: how often it ran in a run. seconds: for each run, how long it took, without what ran inside of it.
        bytes: those that it touches each time; None where that is not known.
    """

    name: str
    opcode: str
    equations: tuple[int, ...]
    times: float
    seconds: tuple[float, ...]
    bytes: float | None


class Measured(NamedTuple):
    """What was measured: the parts, in how many runs, whether each was alone, and what ran when."""

    parts: tuple[Part, ...]
    runs: int
    alone: bool
    events: Sequence[Event]


def measured_by_xla(
    lowered: Lowered, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[[], object], Callable[[int], Measured]]:
    """What runs the program that XLA makes of a function; and what measures it, in so many runs."""
    run, text = numbered_run(lowered, args, kwargs)
    found = _MODULE.match(text)
    module, operations = found[1] if found else "", operations_of(text)

    def several(runs: int) -> list[Event]:
        return events_of(record(lambda: [block_until_ready(run()) for _ in range(runs)]), module)

    def measure(runs: int) -> Measured:
        events = several(1)
        if runs > 1 and len(events) <= MOST_EVENTS:
            events = several(runs)
        numbers = sorted({one.run for one in events})
        own: dict[str, dict[int, list[float]]] = {}
        for one in events:
            own.setdefault(one.name, {}).setdefault(one.run, []).append(one.own)
        parts = []
        for name, by_run in own.items():
            known = operations.get(name)
            times = sum([len(found) for found in by_run.values()]) / len(numbers)
            spent = tuple([sum(by_run.get(number, ())) / 1e9 for number in numbers])
            opcode, equations, moved = (known.opcode, known.equations, known.bytes) if known else ("", (), None)
            parts.append(Part(name, opcode, equations, times, spent, moved))
        return Measured(tuple(parts), len(numbers), False, events)

    return run, measure


def measured_alone(lowered: Lowered, args: tuple[Any, ...], kwargs: dict[str, Any], runs: int) -> Measured:
    """The equations of a function's Program one by one, each compiled and run by itself."""
    parts: list[Part] = []
    events: list[Event] = []
    began = perf_counter()

    def handle(equation: Equation, operands: list[Any]) -> Any:
        def apply() -> Any:
            out = engine().run_operation(equation.primitive, operands, equation.params)
            return block_until_ready(out)

        name, times = f"{equation.primitive}.{equation.id}", []
        out = apply()  # it is compiled
        for number in range(runs):
            start = perf_counter()
            out = apply()
            times.append(perf_counter() - start)
            events.append(Event(name, number, 1, (start - began) * 1e9, times[-1] * 1e9, times[-1] * 1e9))
        moved = sum([atom.type.nbytes for atom in (*equation.inputs, *equation.outputs)])
        parts.append(Part(name, "", (equation.id,), 1.0, tuple(times), moved))
        return out

    interpret(lowered.program, leaves_of(lowered, args, kwargs), handle)
    return Measured(tuple(parts), runs, True, events)
