"""replay: a function's Program run on NumPy, equation by equation, under any stack of transformations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.api.applied import Apply, apply_transformations
from pullback.api.functions import Function, check_flags
from pullback.core.brief import brief, counted
from pullback.core.source import api_boundary, shown_file
from pullback.diagnose.again import without_effects
from pullback.diagnose.compared import Comparison
from pullback.diagnose.compared import compare as compared
from pullback.diagnose.debugger import Debugging, stops_for
from pullback.diagnose.program import staged
from pullback.diagnose.recording import CAUGHT, Caught, Recorded, Recording, Watch, equation_line
from pullback.diagnose.walk import Visitor, walk
from pullback.program.program import Program

ROWS = 200  # equations that are printed of a replay
WIDEST = 64  # characters of a column of that; what is longer moves the rest of its line


class Replay:
    """What a replay came to. Printed, it lists each equation with the values that it had.

    Attributes:
        result: what the function returned.
        program: the Program that was run.
        equations: `Recorded` of each equation that ran, in the order in which they began.
        caught: the values that `watch` or `limits` caught; the first 1000 of them. all_caught: how many there were.
        comparison: what the comparison with compiled code came to; None where that was not asked for.

    Example:
        >>> run = pb.replay(lambda x: pnp.sum(pnp.sin(x)), pnp.array([0.0, 1.0]))
        >>> run.result, [one.equation.primitive.name for one in run.equations]
        (0.84147096:f32[]:cpu(0), ['sin', 'reduce_sum'])
    """

    def __init__(
        self,
        result: Any,
        program: Program,
        equations: Sequence[Recorded],
        caught: Sequence[Caught] = (),
        all_caught: int = 0,
        comparison: Comparison | None = None,
    ) -> None:
        self.result = result
        self.program = program
        self.equations = tuple(equations)
        self.caught = tuple(caught)
        self.all_caught = all_caught
        self.comparison = comparison

    @property
    def values(self) -> dict[int, Recorded]:
        """What each equation computed, by its id.

        Example:
            >>> run = pb.replay(lambda x: x * 2.0, pnp.arange(3.0))
            >>> (equation,) = run.program.equations
            >>> run.values[equation.id].outputs[0].maximum
            4.0
        """
        return {recorded.id: recorded for recorded in self.equations}

    def data(self) -> dict[int, Any]:
        """`values` as data for JSON.

        Example:
            >>> run = pb.replay(lambda x: x * 2.0, pnp.arange(3.0))
            >>> [entry["outputs"][0]["mean"] for entry in run.data().values()]
            [2.0]
        """
        return {recorded.id: recorded.data() for recorded in self.equations}

    def __str__(self) -> str:
        rows = [row for one in self.equations[:ROWS] for row in _rows(one)]
        widths = [min(max([0, *[len(row[column]) for row in rows]]), WIDEST) for column in range(3)]
        lines = [f"replay of {self.program.name}: {counted(len(self.equations), 'equation')} ran"]
        for row in rows:
            lines.append("  ".join([*[text.ljust(width) for text, width in zip(row, widths)], row[3]]).rstrip())
        if len(self.equations) > ROWS:
            lines.append(f"... and {len(self.equations) - ROWS} more: .equations has them all")
        lines += [f"caught {caught}" for caught in self.caught[:10]]
        if self.all_caught > 10:
            lines.append(f"... {self.all_caught} caught in all")
        if self.comparison is not None:
            lines.append(str(self.comparison))
        return "\n".join(lines)

    __repr__ = __str__


def _rows(one: Recorded) -> list[tuple[str, str, str, str]]:
    """The id of an equation, the equation, its values, and the line; of several results a row for each."""
    indent = "  " * one.depth
    times = f" ({one.times} times)" if one.times > 1 else ""
    place = "" if one.source is None else f"{shown_file(one.source.file)}:{one.source.line}"
    if len(one.outputs) < 2:
        line = equation_line(one.program, one.equation)
        return [(f"#{one.id}", indent + line, "".join(map(str, one.outputs)) + times, place)]
    outs, _, made = equation_line(one.program, one.equation).partition(" = ")
    rows = [("", f"{indent}  {out}", str(stats), "") for out, stats in zip(outs.split(", "), one.outputs)]
    return [(f"#{one.id}", f"{indent}({len(rows)} results) = {made}", times.strip(), place), *rows]


@api_boundary
def replay(
    fun: Function,
    *args: Any,
    apply: Apply = "",
    stop_at: int | str | Sequence[int | str] | None = None,
    watch: Watch | None = None,
    limits: tuple[float, float] | None = None,
    show: bool = False,
    compare: bool = False,
    tolerance: float | None = None,
    debugger: Callable[[], Any] | None = None,
    **kwargs: Any,
) -> Replay:
    """Run a function on NumPy, operation by operation, as its Program has them: after all transformations, into loops (step by
    step), branches (the one that is taken) and what is jitted.

    Arguments:
        fun: a function of arrays and pytrees, or a Program.
        args, kwargs: what to call it with, or what is made of it by `apply`.
        apply: transformations to apply to it first, as text, `"grad,vmap"`, or as a list of functions.
        stop_at: lines of the user's at which to stop in the debugger, as a number, as `"model.py:12"`, or several of them;
            "nan" stops where a NaN is made, "caught" also where `watch` or `limits` catch something.
        watch: `(equation, values)` -> whether to catch it. limits: a pair; values outside are caught, NaN too.
        show: whether to print each equation as it runs.
        compare: whether to compare with compiled code, and name the first equation that differs. It is run several times then;
            what is there for its effect alone, such as `debug.print`, is done the first time.
        tolerance: how much may differ, as a part of the largest element; by default 7e-5 in float32, 4e-10 in float64.
        debugger: makes the debugger, by default a `pullback.diagnose.debugger.Debugger`, which is a `pdb.Pdb`; a class that is
            derived from that, or a function.

    Returns:
        A `Replay`.

    Raises:
        ValueError: no operation comes from a line of `stop_at`, or an option is given without the one that it belongs to.
            LeafError: an argument has no values. bdb.BdbQuit: the debugger was left by `quit`. TypeError: an option is of
            another kind.

    Example:
        >>> run = pb.replay(lambda x: pnp.exp(x) * 10.0, pnp.arange(4.0), apply="vmap", limits=(0.0, 100.0), compare=True)
        >>> print(run.caught[0].equation.primitive.name, run.caught[0].values, bool(run.comparison))
        mul ('[10.0, 27.182817, 73.890564, 200.85536]',) False
    """
    check_flags("replay", show=show, compare=compare)
    if watch is not None and not callable(watch):
        raise TypeError(f"replay's watch takes a function of an equation and its values, not {brief(watch)}.")
    bounds = None if limits is None else _limits(limits)
    if tolerance is not None and not (isinstance(tolerance, (int, float)) and tolerance >= 0):
        raise TypeError(f"replay's tolerance must be a number of 0 or more, but got {brief(tolerance)}.")
    if tolerance is not None and not compare:
        raise ValueError("replay's tolerance is for compare=True: give both, or leave it out.")
    if debugger is not None and stop_at is None:
        raise ValueError("replay's debugger is for stop_at=...: say where to stop, or leave it out.")
    call = staged("replay", apply_transformations(fun, apply), args, kwargs)
    visitor: Visitor
    visitor = recording = Recording(print if show else None, watch, bounds)
    if stop_at is not None:
        stops, words = stops_for(call.program, stop_at)
        if CAUGHT in words and watch is None and bounds is None:
            raise ValueError('replay\'s stop_at="caught" stops where watch=... or limits=... catch a value: give one of these.')
        visitor = debugging = Debugging(recording, stops, fun, args, debugger)
        recording.told, recording.tell = words, debugging.stop_here
    outs = walk(call.program, call.leaves, visitor)
    visitor.ended()
    comparison = compared(without_effects(call.program), call.leaves, outs, tolerance) if compare else None
    result = call.result(outs)
    return Replay(result, call.program, list(recording.recorded.values()), recording.caught, recording.all_caught, comparison)


def _limits(limits: Any) -> tuple[float, float]:
    if isinstance(limits, (tuple, list)) and len(limits) == 2 and all(isinstance(x, (int, float)) for x in limits):
        low, high = limits
        if low <= high:
            return low, high
    raise TypeError(f"replay's limits are a pair of numbers, the smaller one first, but got {brief(limits)}.")
