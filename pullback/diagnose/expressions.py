"""The expression of the user's that an equation comes from: Python keeps, of each instruction, the piece of source that it is
compiled from."""

from __future__ import annotations

import ast
import itertools
import linecache
from typing import NamedTuple

from pullback.core.source import CodeSource, Source


class Span(NamedTuple):
    """A piece of a file: its lines, from 1, and its columns, in bytes from 0."""

    line: int
    end_line: int
    column: int
    end_column: int


def span_of(source: Source | None) -> Span | None:
    """Where the expression stands whose instruction a place is; None where that is not kept."""
    if not isinstance(source, CodeSource):
        return None
    found = next(itertools.islice(source.code.co_positions(), source.instruction // 2, None), None)
    if found is None or any(part is None for part in found):
        return None
    return Span(*found)  # type: ignore[arg-type]


def text_of(source: Source | None) -> str | None:
    """The expression itself, `pnp.sqrt(x)`, as it is written; None where it cannot be read."""
    at = span_of(source)
    if at is None or source is None:
        return None
    lines = [linecache.getline(source.file, number).encode() for number in range(at.line, at.end_line + 1)]
    if not all(lines):
        return None
    lines[-1] = lines[-1][: at.end_column]
    lines[0] = lines[0][at.column :]
    return b"".join(lines).decode()


def tree_of(file: str) -> ast.Module:
    """The syntax tree of a file; an empty one where it cannot be read."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


class Syntax(NamedTuple):
    """What a file's expressions are for, by where they stand.

    Attributes:
        assigned: the names to which each value is assigned. returned: the expressions that functions return. calls: the calls.
        first: of those that return a pair, as rules of derivatives do, the first expression.
    """

    assigned: dict[Span, tuple[str, ...]]
    returned: frozenset[Span]
    calls: dict[Span, ast.Call]
    first: frozenset[Span]


def syntax_of(file: str) -> Syntax:
    """The syntax of a file; empty where it cannot be read."""
    assigned: dict[Span, tuple[str, ...]] = {}
    returned: set[Span] = set()
    calls: dict[Span, ast.Call] = {}
    first: set[Span] = set()
    for node in ast.walk(tree_of(file)):
        match node:
            case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), _, ast.expr() as value):
                assigned[span(value)] = (name,)
            case ast.Assign([ast.Tuple(parts)], value) if all(isinstance(part, ast.Name) for part in parts):
                assigned[span(value)] = tuple([part.id for part in parts if isinstance(part, ast.Name)])
            case ast.AugAssign(ast.Name(name)):
                assigned[span(node)] = (name,)
            case ast.NamedExpr(ast.Name(name), value):
                assigned[span(value)] = (name,)
            case ast.Return(ast.expr() as value):
                returned.add(span(value))
            case ast.Lambda(_, ast.expr() as value):
                returned.add(span(value))
            case ast.Call():
                calls[span(node)] = node
        match node:
            case ast.Return(ast.Tuple([value, _])) | ast.Lambda(_, ast.Tuple([value, _])):
                first.add(span(value))
    return Syntax(assigned, frozenset(returned), calls, frozenset(first))


def span(node: ast.expr | ast.stmt) -> Span:
    """Where a piece of syntax stands."""
    return Span(node.lineno, node.end_lineno or node.lineno, node.col_offset, node.end_col_offset or node.col_offset)


class Named(NamedTuple):
    """A value and the name to which it is assigned."""

    name: str
    value: ast.expr


def value_with(source: Source | None) -> Named | None:
    """What is assigned to a name by the statement in which a place's expression stands; None where it is no such statement."""
    at = span_of(source)
    if at is None or source is None:
        return None
    for node in ast.walk(tree_of(source.file)):
        match node:
            case ast.Assign([ast.Name(name)], value) if _holds(span(value), at):
                return Named(name, value)
    return None


def _holds(outer: Span, inner: Span) -> bool:
    begins = (outer.line, outer.column) <= (inner.line, inner.column)
    return begins and (inner.end_line, inner.end_column) <= (outer.end_line, outer.end_column)
