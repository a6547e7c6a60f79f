"""The trace that looks at every result as it is computed, in a `pb.checking` block: NaN, or infinity, that an operation made.

An operation makes what none of its operands has. What a compiled function returns is looked at when it has run; then its
Program is run again, one operation at a time, to find the one that is to blame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from pullback.control.call import call
from pullback.core.array import Array, host_of
from pullback.core.dtypes import is_inexact, kind
from pullback.core.source import Source, at_line, running_source
from pullback.core.tracing import evaluate, staging
from pullback.diagnose.checks import Checks
from pullback.program.equation import Equation, Made
from pullback.program.interpret import bind_equation, interpret
from pullback.program.program import Program
from pullback.program.provenance import source_of
from pullback.transforms.finite import Checker

_attributed: ContextVar[Any] = ContextVar("pullback_watched_attributed", default=None)
_made: ContextVar[Made | None] = ContextVar("pullback_watched_made", default=None)
_scope: ContextVar[tuple[str, ...]] = ContextVar("pullback_watched_scope", default=())


def _kept_in(variable: ContextVar[Any]) -> Any:
    """An attribute that each context has for itself, since several threads may share a trace."""

    def keep(self: Any, value: Any) -> None:
        variable.set(value)

    return property(lambda self: variable.get(), keep)


class Watcher(Checker):
    """Evaluates operations, and tells of those that make NaN or infinity."""

    __slots__ = ("checks",)
    attributed, made, scope = _kept_in(_attributed), _kept_in(_made), _kept_in(_scope)

    def __init__(self, checks: Checks) -> None:
        super().__init__(nan="nan" in checks.actions, inf="infinity" in checks.actions)
        self.checks = checks

    def process(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        with staging.setting(None):
            out = evaluate(primitive, args, params)
            outs = out if primitive.multiple_results else (out,)
            for option in WHAT:
                if option in self.checks.actions and makes(option, args, outs):
                    self.checks.tell(option, self.story(option, primitive, args, params))
        return out

    def story(self, option: str, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> str:
        """Which operation made it, in words."""
        at: Source | None = source_of(self.attributed) or running_source()
        program = params.get("program")
        if primitive is not call or program is None:
            return f"{told(option, primitive, args, self.made)}{at_line(at)}"
        found = first_that_makes(option, program, args)
        if found is None:
            return (
                f"{program.name}, which is compiled, made {WHAT[option]}, but its operations did not when they were run one by"
                f" one: it is a literal of the function, or what compiling made of it.{at_line(at)}"
            )
        equation, operands = found
        return f"{told(option, equation.primitive, operands, equation.made)}{at_line(equation.source or at)}"


WHAT = {"nan": "NaN", "infinity": "an infinite number"}
_TESTS: dict[str, Callable[[Any], Any]] = {"nan": np.isnan, "infinity": np.isinf}


def makes(option: str, operands: Sequence[Any], results: Sequence[Any]) -> bool:
    """Whether results have what no operand has: for infinity, neither that nor NaN."""
    if not any([_has(value, _TESTS[option]) for value in results]):
        return False
    tests = [np.isnan] if option == "nan" else [np.isnan, np.isinf]
    return not any([_has(value, test) for value in operands for test in tests])


def _has(value: Any, test: Callable[[Any], Any]) -> bool:
    return isinstance(value, Array) and is_inexact(value.type.dtype) and bool(np.any(test(np.asarray(host_of(value)))))


def told(option: str, primitive: Any, operands: Sequence[Any], made: Made | None) -> str:
    """An operation that made something, in words."""
    rules = []
    while made is not None:
        rules.append(f"the {made.rule} rule of {made.transformation}")
        made = made.within
    rule = f", in {' within '.join(rules)}," if rules else ""
    given = ", ".join(map(range_of, operands))
    return f"{primitive.name}{rule} made {WHAT[option]}{f' of {given}' if given else ''}."


def range_of(value: Any) -> str:
    """A value if it is one number, else its type and how far its elements reach."""
    if not isinstance(value, Array):
        return repr(value)
    if not value.type.shape:
        return str(np.asarray(value.host).item()) if value.type.dtype.kind in "biufc" else str(value.type)
    if kind(value.type.dtype) not in "biuf" or not value.type.size:
        return str(value.type)
    host = np.asarray(host_of(value)).astype(np.float64)
    return f"{value.type} from {np.min(host):g} to {np.max(host):g}"


class _Found(BaseException):
    """The equation that is looked for. No handler of errors is to take it for one."""


def first_that_makes(option: str, program: Program, args: Sequence[Any]) -> tuple[Equation, list[Any]] | None:
    """The first equation of a Program, and of those that it calls, that makes something, with its operands."""

    def apply(equation: Equation, operands: list[Any]) -> Any:
        if equation.primitive is call:
            return interpret(equation.params["program"], operands, apply)
        out = bind_equation(equation, operands)
        if makes(option, operands, out if equation.primitive.multiple_results else (out,)):
            raise _Found(equation, operands)
        return out

    try:
        interpret(program, args, apply)
    except _Found as found:
        return found.args
    return None
