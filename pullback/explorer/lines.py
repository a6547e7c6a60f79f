"""The user's lines: the functions that a Program's equations come from, as rows, and which row a line is."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any

from pullback.core.source import CodeSource, Source, innermost, is_ours, shown_file

AROUND = 2  # lines that are shown on each side of one that is in no function


class SourceLines:
    """Which row shows which of the user's lines.

    Attributes:
        title: the file, or the number of files. outside: the call of `pb.explore`, by which what the transformations do by
            themselves is reached: nothing of the function is there. entry: where the function begins, if it is the user's.
    """

    def __init__(self, outside: CodeSource | None = None, entry: CodeSource | None = None) -> None:
        self.title = ""
        self.outside, self.entry = outside, entry
        self.places: dict[tuple[str, int], int] = {}  # the row of a line of a file

    def read(self, sources: Sequence[Source], new: Callable[..., dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows for the functions that hold lines, and those that called them, file by file, the function's own first."""
        used: dict[str, set[int]] = {}
        for source in sources:
            for one in chain(source):
                used.setdefault(one.file, set()).add(one.line)
        told = {(one.file, one.line): one.text for source in sources for one in chain(source)}
        self.title = shown_file(next(iter(used))) if len(used) == 1 else f"{len(used)} files" if used else ""
        rows: list[dict[str, Any]] = []
        for file in sorted(used, key=lambda file: self.entry is None or file != self.entry.file):
            lines = used[file]
            linecache.checkcache(file)  # it may have been saved since, or another one has its name now
            text = linecache.getlines(file)
            if rows:
                rows.append(new(text=""))
            if len(used) > 1:
                rows.append(new(text=f"# {shown_file(file)}"))
            named = {"file": shown_file(file)} if len(used) > 1 else {}
            if not text:  # typed in, or made by exec: what is known of it are the lines themselves
                blocks: list[list[tuple[int, str]]] = [
                    [(line, told[file, line] or f"line {line} of {shown_file(file)}")] for line in sorted(lines)
                ]
            else:
                blocks = [[(n, text[n - 1].rstrip("\n")) for n in range(*block)] for block in _blocks(text, lines)]
            for i, block in enumerate(blocks):
                rows += [new(text="")] if i else []
                for number, line in block:
                    row = new(text=line, line=number, **named)
                    self.places[file, number] = row["id"]
                    rows.append(row)
        return rows

    def row_of(self, source: Source | None) -> int | None:
        """The id of the row that shows a line, if it is shown."""
        return None if source is None else self.places.get((source.file, source.line))

    def is_outside(self, source: Source | None) -> bool:
        """Whether a line is that of the call of `pb.explore`."""
        outside = self.outside
        if outside is None or not isinstance(source, CodeSource):
            return False
        return source.code is outside.code and source.instruction == outside.instruction

    def inside(self, source: Source | None) -> Source | None:
        """A line; in place of the call of `pb.explore`, as of a function that is jitted, the one where the function begins."""
        return self.entry or source if self.is_outside(source) else source

    def callers(self, source: Source | None) -> list[int]:
        """The ids of the rows of a line and of the calls that led to it, the innermost first, each once."""
        if source is None:
            return []
        found = [self.row_of(one) for one in chain(source)]
        return list(dict.fromkeys([id for id in found if id is not None]))


def start_of(function: Callable[..., Any]) -> CodeSource | None:
    """Where a function of the user's begins; None of one that is not written in Python, or is ours."""
    inner = innermost(function)
    code = getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
    return CodeSource(code, 0) if isinstance(code, CodeType) and not is_ours(code.co_filename) else None


def chain(source: Source) -> Iterator[Source]:
    """A line, and the calls that led to it, the innermost first."""
    at: Source | None = source
    while at is not None:
        yield at
        at = at.caller


def scope_of(source: Source | None) -> tuple[str, ...]:
    """The named scopes of a line, and the functions that were called to get there, inside the first one."""
    if source is None:
        return ()
    names = [one.function.rpartition(".")[2] for one in chain(source)][:-1]
    return (*source.scope, *[name for name in reversed(names) if not name.startswith("<")])


def _blocks(text: Sequence[str], lines: set[int]) -> list[tuple[int, int]]:
    """Ranges of line numbers: the outermost functions around the lines, and a few lines around what is in none."""
    try:
        functions = sorted(_functions(ast.parse("".join(text))))
    except SyntaxError:  # a notebook's cell with a magic command
        functions = []
    found: list[tuple[int, int]] = []
    for line in sorted(lines):
        if found and line < found[-1][1]:
            continue
        around = [(start, end) for start, end in functions if start <= line < end]
        start, end = around[0] if around else (max(1, line - AROUND), min(len(text), line + AROUND) + 1)
        if found and start <= found[-1][1]:  # they touch
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _functions(tree: ast.AST) -> Iterator[tuple[int, int]]:
    """The first line of each outermost function, or of what decorates it, and the line behind its last one."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *[one.lineno for one in node.decorator_list]])
            yield first, (node.end_lineno or node.lineno) + 1
        else:
            yield from _functions(node)
