"""The trace that looks at every result as it is computed, in a `pb.checking` block: NaN, or infinity, that an operation made.

An operation makes what none of its operands has. What a compiled function, or a loop, returns is looked at when it has run;
then its Program is run again, one operation at a time (`nan.py`), to find the one that is to blame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from pullback.control.call import call
from pullback.core.array import Array, as_array, host_of
from pullback.core.dtypes import is_inexact, kind
from pullback.core.errors import PullbackError
from pullback.core.source import at_line, running_source
from pullback.core.tracing import bind, evaluate, staging
from pullback.diagnose.again import without_effects
from pullback.diagnose.checks import Checks
from pullback.diagnose.finding import Finding, compiled_nan, finding_of, rule_in_words
from pullback.diagnose.nan import hunted
from pullback.program.equation import Made
from pullback.program.provenance import source_of
from pullback.transforms.finite import Checker
from pullback.transforms.stage import stage

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
                    story = self.story(option, primitive, args, params)
                    if story is not None:
                        self.checks.tell(option, story)
        return out

    def story(self, option: str, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> str | None:
        """Which operation made it, in words; None if the function held it from the start."""
        own = told(option, primitive, args, self.made) + at_line(source_of(self.attributed) or running_source())
        if primitive.wiring is None:
            return own
        try:
            finding = found_inside(option, primitive, args, params)
        except PullbackError as error:
            return f"{own} Its operations cannot be run one by one: {error.args[0] if error.args else error}"
        if finding is None:
            return f"{own} Its operations did not, when they were run one by one."
        return None if finding.origin.what != "equation" else finding.message()


def found_inside(option: str, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Finding | None:
    """What makes it in the Programs that an operation holds."""

    def apply(*operands: Any) -> Sequence[Any]:
        out = bind(primitive, operands, params)
        return out if primitive.multiple_results else (out,)

    infinity = option == "infinity"
    given = [as_array(arg) for arg in args]
    program = params["program"] if primitive is call else stage(apply, [arg.type for arg in given], name=primitive.name)[0]
    program = without_effects(program)  # it has run
    found = hunted(program, given, infinity=infinity)
    return finding_of(program, found) if found.reaches else compiled_nan(program, given, found.outs, infinity)


WHAT = {"nan": "NaN", "infinity": "infinity"}
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
    text = f"{WHAT[option]} made by {primitive.name}: {primitive.name}({', '.join(map(range_of, operands))})."
    if made is None:
        return text
    rules, role = [], ""
    while made is not None:
        rules.append(rule_in_words(made))
        role, made = role or made.role, made.within
    text += f" Rule: {'; '.join(rules)}."
    if role == "cotangent" and option == "nan":
        text += " If this is the gradient of a where, pb.find_nan(f, *args) shows the cure."
    return text


def range_of(value: Any) -> str:
    """A value if it is one number, else its type and how far its elements reach."""
    if not isinstance(value, Array):
        return repr(value)
    if not value.type.shape:
        return str(np.asarray(value.host).item()) if kind(value.type.dtype) in "biufc" else str(value.type)
    if kind(value.type.dtype) not in "biuf" or not value.type.size:
        return str(value.type)
    host = np.asarray(host_of(value)).astype(np.float64)
    return f"{value.type} from {np.min(host):g} to {np.max(host):g}"
