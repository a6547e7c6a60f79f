"""Which names of the user's own stand for the values of equations, as far as that can be told from the source.

The value of an expression that a name is assigned to has that name; what a function returns is the value of the call; and a
parameter is the argument of the call that stands in its place. All else has no name here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from pullback.api.functions import parameter_names
from pullback.core.source import CodeSource, Source, innermost
from pullback.diagnose.expressions import Span, Syntax, span, span_of, syntax_of
from pullback.program.equation import Equation


class Scope:
    """The names and the values of expressions in one call of a function of the user's."""

    __slots__ = ("caller", "code", "expressions", "names")

    def __init__(self, code: CodeType, caller: CodeSource | None) -> None:
        self.code = code
        self.caller = caller
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

    def scope(self, source: CodeSource) -> Scope:
        """The one that a place is in."""
        key = id(source.code), id(source.caller)  # both are kept by the scope
        found = self.scopes.get(key)
        if found is None:
            found = self.scopes[key] = Scope(source.code, source.caller)
            found.names.update(self._parameters(found))
        return found

    def _parameters(self, scope: Scope) -> dict[str, Any]:
        if scope.caller is None:
            return dict(self.arguments) if scope.code is self.code else {}
        outer, at = self.scope(scope.caller), span_of(scope.caller)
        call = None if at is None else self.syntax(scope.caller.file).calls.get(at)
        count = scope.code.co_argcount
        if call is None or count - len(call.args) not in (0, 1):
            return {}
        names = scope.code.co_varnames[count - len(call.args) : count]  # of a method, without the object
        found = {}
        for name, node in zip(names, call.args):
            value = outer.expressions.get(span(node), outer.names.get(getattr(node, "id", "")))
            if value is not None:
                found[name] = value
        return found

    def learn(self, equation: Equation, results: Sequence[Any]) -> None:
        """Learn the names of an equation's results, if they are values of the user's own function."""
        if equation.role == "primal" and isinstance(equation.source, CodeSource):
            self._learn(equation.source, results)

    def _learn(self, source: CodeSource, results: Sequence[Any]) -> None:
        at = span_of(source)
        if at is None or not results:
            return
        scope, syntax = self.scope(source), self.syntax(source.file)
        if len(results) == 1:
            scope.expressions[at] = results[0]
        names = syntax.assigned.get(at, ())
        if len(names) == len(results):
            scope.names.update(zip(names, results))
        if at in syntax.returned and source.caller is not None:
            self._learn(source.caller, results)

    def at(self, source: Source) -> dict[str, Any]:
        """The names that are known where a place is."""
        return dict(self.scope(source).names) if isinstance(source, CodeSource) else {}
