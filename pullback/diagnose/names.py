"""Which names of the user's own stand for the values of equations, as far as that can be told from the source.

The value of an expression that a name is assigned to has that name; what a function returns is the value of the call; a
parameter is the argument of the call that stands in its place, or the state or the element of a scan's step. All else has no
name here.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from pullback.api.functions import parameter_names
from pullback.control.scan import scan
from pullback.core.source import CodeSource, RuleCall, Source, innermost
from pullback.diagnose.expressions import Span, Syntax, span, span_of, syntax_of
from pullback.diagnose.walk import Frame
from pullback.program.equation import Equation


class Scope:
    """The names and the values of expressions in one call of a function of the user's, in one run of a Program."""

    __slots__ = ("caller", "code", "expressions", "frame", "names")

    def __init__(self, code: CodeType, caller: CodeSource | None, frame: Frame | None) -> None:
        self.code = code
        self.caller = caller
        self.frame = frame
        self.names: dict[str, Any] = {}
        self.expressions: dict[Span, Any] = {}


class Names:
    """Learns names while a Program runs.

    Arguments:
        function: the user's function. args: what it, or what is made of it, was called with.
    """

    def __init__(self, function: Callable[..., Any], args: Sequence[Any]) -> None:
        self.scopes: dict[tuple[int, int], Scope] = {}
        self.files: dict[str, Syntax] = {}
        self.code = getattr(innermost(function), "__code__", None)
        self.arguments = dict(zip(parameter_names(function), args))

    def syntax(self, file: str) -> Syntax:
        """That of a file, which is read once."""
        found = self.files.get(file)
        if found is None:
            found = self.files[file] = syntax_of(file)
        return found

    def scope(self, source: CodeSource, frame: Frame | None = None) -> Scope:
        """The one that a place is in; where it is run anew, in another frame, it begins with its parameters alone."""
        key = id(source.code), id(source.caller)  # both are kept by the scope
        found = self.scopes.get(key)
        if found is None or (frame is not None and found.frame is not frame):
            found = self.scopes[key] = Scope(source.code, source.caller, frame)
            found.names.update(self._parameters(found))
        return found

    def _parameters(self, scope: Scope) -> dict[str, Any]:
        if scope.caller is None:
            return dict(self.arguments) if scope.code is self.code else _of_a_step(scope)
        if isinstance(scope.caller, RuleCall):  # a rule has other parameters than the function that is called there
            return {}
        outer, at = self.scope(scope.caller, scope.frame), span_of(scope.caller)
        call = None if at is None else self.syntax(scope.caller.file).calls.get(at)
        if call is None or any(isinstance(node, ast.Starred) for node in call.args):
            return {}
        names = scope.code.co_varnames[: scope.code.co_argcount]
        names = names[1:] if names[:1] in (("self",), ("cls",)) else names
        given = [*zip(names, call.args), *[(one.arg, one.value) for one in call.keywords if one.arg is not None]]
        values = {name: outer.expressions.get(span(node), outer.names.get(getattr(node, "id", ""))) for name, node in given}
        return {name: value for name, value in values.items() if value is not None}

    def learn(self, equation: Equation, results: Sequence[Any], frame: Frame) -> None:
        """Learn the names of an equation's results, if they are values of the user's own function."""
        if equation.role == "primal" and isinstance(equation.source, CodeSource):
            self._learn(equation.source, results, frame)

    def _learn(self, source: CodeSource, results: Sequence[Any], frame: Frame) -> None:
        at = span_of(source)
        if at is None or not results:
            return
        scope, syntax = self.scope(source, frame), self.syntax(source.file)
        if len(results) == 1:
            scope.expressions[at] = results[0]
        names = syntax.assigned.get(at, ())
        if len(names) == len(results):
            scope.names.update(zip(names, results))
        given = syntax.first if isinstance(source.caller, RuleCall) else syntax.returned
        if at in given and source.caller is not None:
            self._learn(source.caller, results, frame)

    def at(self, source: Source) -> dict[str, Any]:
        """The names that are known where a place is."""
        return dict(self.scope(source).names) if isinstance(source, CodeSource) else {}


def _of_a_step(scope: Scope) -> dict[str, Any]:
    """The two arguments of the function of a scan's step, if each is one array."""
    code, frame = scope.code, scope.frame
    if frame is None or frame.equation is None or frame.equation.primitive is not scan or code.co_argcount != 2:
        return {}
    consts, carry = (frame.equation.params[name] for name in ("num_consts", "num_carry"))
    return dict(zip(code.co_varnames, frame.args[consts:])) if carry == 1 and len(frame.args) == consts + 2 else {}
