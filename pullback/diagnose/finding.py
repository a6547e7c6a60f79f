"""What is said of a NaN: which equation made it, from which values, at which line, by which rule, and what helps."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

from pullback.control.custom_function import custom_function, custom_pullback
from pullback.core.array import Array
from pullback.core.source import Source, rule_call_of
from pullback.diagnose.compared import Difference, compare
from pullback.diagnose.hints import hint_of
from pullback.diagnose.nan import Found, Origin, counts, hunted
from pullback.diagnose.trap import Trap, rule_of, trap_of
from pullback.engine.compile import run_program
from pullback.program.batching import batch_axes_of
from pullback.program.equation import Equation, Made
from pullback.program.program import Program

WIDTH = 100  # of lines of prose
HUGE = 1e300  # no relative difference of finite values is as large
_PHASES = {
    "primal": "in the forward pass",
    "tangent": "in forward mode",
    "cotangent": "in the backward pass",
    "residual": "in a derivative rule",
}


class Finding(NamedTuple):
    """A NaN, or an infinity, and where it comes from. Printed, it says all of it.

    Attributes:
        program: the Program that was run.
        origin: what made it. reaches: whether a result is NaN; if not, it was dropped, or made something else of.
        trap: the `where` whose gradient it is, if it is one.
        difference: of what compiled code alone makes NaN, how its values differ from those on NumPy.
        given: an argument that has NaN too, from the start.
        returned: whether no result is NaN, but what the function itself returns, of which a derivative is taken.
    """

    program: Program
    origin: Origin
    reaches: bool = True
    trap: Trap | None = None
    difference: Difference | None = None
    given: Origin | None = None
    returned: bool = False

    @property
    def kind(self) -> str:
        """`"nan"` or `"inf"`."""
        return "nan" if self.origin.nan else "inf"

    @property
    def equation(self) -> Equation | None:
        """The equation that made it; None where an argument had it."""
        return self.origin.equation

    @property
    def source(self) -> Source | None:
        """The user's line."""
        return self.origin.source

    @property
    def role(self) -> str:
        """Of what it is a part: "primal", "tangent", "cotangent" or "residual"."""
        return "primal" if self.equation is None else self.equation.role

    @property
    def batch(self) -> tuple[int, ...]:
        """The number of the batch element along each batch axis of the equation's result that is known."""
        equation = self.equation
        if equation is None or self.origin.what != "equation":
            return ()
        axes = [sorted(batch_axes_of(self.program).get(out, ())) for out in equation.outputs[:1]]
        return tuple([self.origin.element[axis] for row in axes for axis in row if axis < len(self.origin.element)])

    def message(self) -> str:
        """All that is known, in a few lines.

        Example:
            >>> finding = pb.find_nan(lambda x: pnp.log(x), -1.0)
            >>> print(finding.message().split("\\n")[0])
            NaN made by log in the forward pass: log(-1.0) = nan
        """
        word = "NaN" if self.origin.nan else "infinity"
        if self.difference is not None:
            return (
                f"{word} is made by compiled code alone; run on NumPy, operation by operation, there is none.\n"
                f"  first in {self.difference}"
            )
        lines = _lines(self.origin, self.batch)
        cause = self.origin.cause
        if cause is not None:
            first, *rest = _lines(cause, ())
            same = [f"  {line}" for line in rest if line not in lines]
            lines += [f"  before it, {first}", *same]
        if self.given is not None and self.origin.what == "constant":  # a solver may give NaN where it fails
            lines.append(f"  {_lines(self.given, ())[0].replace(' is in', ' is also in', 1)}, and may be the cause of that")
        if self.returned:
            lines.append(f"  The function itself returns {word}; no result of its derivative is {word}.")
        elif not self.reaches:
            lines.append(f"  No result is {word}: what uses it drops it, or makes something else of it.")
        if self.trap is not None:
            lines += _trap_lines(self.trap)
        elif self.reaches or self.returned:
            said, code = hint_of(self.origin)
            lines += textwrap.wrap(said, WIDTH, initial_indent="  ", subsequent_indent="  ")
            lines += [f"    {line}" for line in code]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.message()

    def __repr__(self) -> str:
        return self.message()


def _lines(origin: Origin, batch: tuple[int, ...]) -> list[str]:
    word = "NaN" if origin.nan else "infinity"
    element = f" at {list(origin.element)}" if origin.element else ""
    equation = origin.equation
    if origin.what == "argument":
        which = f"argument {origin.name}" if origin.name else "one of the arguments"
        return [f"{word} is in {which} from the start{element}"]
    if equation is None:
        return [f"{word} is what the function returns{element}: a number that it holds"]
    if origin.what == "constant":
        lines = [f"{word} is in a number or an array that the function holds, used by {equation.primitive.name}{element}"]
    else:
        applied = f"{equation.primitive.name}({', '.join(origin.values)}) = {origin.result}"
        lines = [f"{word} made by {equation.primitive.name} {_phase(equation)}: {applied}{element}"]
    if equation.source is not None:
        lines.append(f"  line: {equation.source}")
    if (rule := rule_text(equation)) is not None:
        lines.append(f"  rule: {rule}")
    if (call := rule_call_of(equation.source)) is not None:
        lines.append(f"  applied to: {call}")
    if batch:
        lines.append(f"  batch element: {', '.join(map(str, batch))}")
    if origin.frame is not None and (place := origin.frame.place()):
        lines.append(f"  where: {place}")
    return lines


def _phase(equation: Equation) -> str:
    """When an equation runs, in words. What rules prepare serves forward mode as well."""
    made = rule_of(equation)
    prepares = equation.role == "residual" and made is not None and made.transformation != "jvp"
    return _PHASES[equation.role] + (" that prepares the backward pass" if prepares else "")


def rule_text(equation: Equation) -> str | None:
    """The rule of a derivative that made an equation, in words; None if it is the user's own operation, batched or not."""
    made = rule_of(equation)
    return None if made is None else rule_in_words(made)


def rule_in_words(made: Made) -> str:
    """A rule, whose it is, and what applied it."""
    if " " in made.rule:  # it says whose
        return f"{made.rule}, applied by {made.transformation}"
    if made.primitive is custom_pullback:
        return f"the backward function of a custom rule, applied by {made.transformation}"
    if made.primitive is custom_function:
        return f"{made.rule} by a custom rule, applied by {made.transformation}"
    whose = f" of {made.primitive.name}" if made.primitive is not None else ""
    return f"{made.rule}{whose}, applied by {made.transformation}"


def _trap_lines(trap: Trap) -> list[str]:
    said = (
        "This is the trap of where in reverse mode: the where takes its other value here, so that the cotangent of what is"
        f" inside is 0; but the derivative of {trap.expression} is not finite there, and 0 times that is not a number."
    )
    lines = textwrap.wrap(said, WIDTH, initial_indent="  ", subsequent_indent="  ")
    if trap.inside is not None and str(trap.inside) != str(trap.where):
        lines.append(f"    inside: {trap.inside}")
    lines.append(f"    where:  {trap.where}")
    lines.append("  Cure: a second where, which gives it a harmless argument where its result is not used:")
    return [*lines, *[f"    {line}" for line in trap.cure()]]


def finding_of(program: Program, found: Found) -> Finding | None:
    """The finding that a run comes to."""
    if found.origin is None:
        return None
    trap = trap_of(found.meeting) if found.reaches else None
    return Finding(program, found.origin, found.reaches, trap, given=found.given, returned=found.returned)


def first_nan(program: Program, args: Sequence[Any], names: Sequence[str] = (), infinity: bool = False) -> Finding | None:
    """Run a Program on NumPy, equation by equation, and find the first one that makes a NaN.

    Arguments:
        program: it.
        args: an Array for each input. names: how to call each.
        infinity: whether infinity counts as well as NaN.

    Returns:
        A `Finding`; None if there is none.

    Example:
        >>> program = pb.xpr(lambda x: pnp.sum(pnp.log(x)), pnp.zeros(2))
        >>> print(first_nan(program, [pnp.array([1.0, -1.0])]).message().split("\\n")[0])
        NaN made by log in the forward pass: log(-1.0) = nan at [1]
    """
    return finding_of(program, hunted(program, args, names, infinity))


def compiled_nan(program: Program, args: Sequence[Array], outs: Sequence[Array], infinity: bool = False) -> Finding | None:
    """The NaN that compiled code makes alone; None if it makes none.

    Arguments:
        args: an Array for each input. outs: the results on NumPy, without NaN.
    """
    compiled = run_program(program, list(args))
    if not any([counts(out, infinity) for out in compiled]):
        return None
    found = compare(program, args, outs, HUGE)  # so that only what is finite in one of them alone differs
    first = found.first or found.grown or found.results[0]
    nan = any([counts(out, False) for out in compiled])
    origin = Origin("equation", 0, nan, first.element, first.compiled, "", first.equation)
    return Finding(program, origin, difference=first)
