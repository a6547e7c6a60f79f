"""Finds the error messages in pullback's source: where each error is made, and what it says, as far as the source tells."""

from __future__ import annotations

import ast
import builtins
import functools
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

from pullback.cli.pages import classes

ROOT = pathlib.Path(__file__).resolve().parents[2] / "pullback"
BUILTIN = {name for name, one in vars(builtins).items() if isinstance(one, type) and issubclass(one, Exception)}
ERRORS = {*classes(), *BUILTIN, "LinAlgError", "UsageError"}


class Message(NamedTuple):
    """What an error says where it is made: alternatives behind each other, and what the call puts in, in braces."""

    file: str
    line: int
    error: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.error}: {self.text}"


@functools.cache
def tree_of(file: pathlib.Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@functools.cache
def constants(file: pathlib.Path) -> dict[str, list[ast.expr]]:
    """What a module binds at its top level to names, its own and those that it imports from another module of ours."""
    found: dict[str, list[ast.expr]] = {}
    for node in tree_of(file).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = [node.value]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pullback."):
            home = ROOT.parent.joinpath(*str(node.module).split(".")).with_suffix(".py")
            for alias in node.names if home.exists() else ():
                if alias.name.isupper() or alias.name.startswith("_"):
                    found[alias.asname or alias.name] = constants(home).get(alias.name, [])
    return found


class Reader:
    """Reads the messages in one file."""

    def __init__(self, file: pathlib.Path) -> None:
        self.file = file
        self.scopes: list[dict[str, list[ast.expr]]] = [constants(file)]

    def messages(self) -> Iterator[Message]:
        yield from self.visit(tree_of(self.file))

    def visit(self, node: ast.AST) -> Iterator[Message]:
        inner = isinstance(node, (ast.FunctionDef, ast.Lambda))
        if inner:
            self.scopes.append(self.bound(node))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ERRORS and node.args:
            where = str(self.file.relative_to(ROOT))
            yield Message(where, node.lineno, ast.unparse(node.func), self.text(node.args[0]))
        for child in ast.iter_child_nodes(node):
            yield from self.visit(child)
        if inner:
            self.scopes.pop()

    def bound(self, function: ast.AST) -> dict[str, list[ast.expr]]:
        """What a function gives to the names in it."""
        args = function.args  # type: ignore[attr-defined]
        pairs = [*zip(args.args[len(args.args) - len(args.defaults) :], args.defaults), *zip(args.kwonlyargs, args.kw_defaults)]
        found = {
            one.arg: [default] for one, default in pairs if isinstance(default, ast.Constant) and " " in str(default.value)
        }
        for node in ast.walk(function):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
            for target in targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)  # type: ignore[attr-defined]
                elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):  # type: ignore[attr-defined]
                    for one, value in zip(target.elts, node.value.elts):  # type: ignore[attr-defined]
                        if isinstance(one, ast.Name):
                            found.setdefault(one.id, []).append(value)
        return found

    def text(self, node: ast.expr, within: frozenset[str] = frozenset()) -> str:
        """What an expression says: text as it is, alternatives joined, the rest in braces."""
        again = functools.partial(self.text, within=within)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.JoinedStr):
            return "".join(map(again, node.values))
        if isinstance(node, ast.FormattedValue):
            return again(node.value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return again(node.left) + again(node.right)
        if isinstance(node, ast.IfExp):
            return f"{again(node.body)} | {again(node.orelse)}"
        if isinstance(node, ast.BoolOp):
            return " | ".join(map(again, node.values))
        if isinstance(node, ast.Subscript):  # of a table of texts
            tables = [table for table in self.values(node.value) if isinstance(table, ast.Dict)]
            if tables:
                return " | ".join(map(again, tables[0].values))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
            return again(node.func.value)
        if isinstance(node, ast.Name) and node.id not in within and (values := self.values(node)):
            return " | ".join([self.text(value, within | {node.id}) for value in values])
        return f"{{{ast.unparse(node)}}}"

    def values(self, node: ast.expr) -> list[ast.expr]:
        """What a name stands for, in the innermost scope that binds it."""
        if isinstance(node, ast.Name):
            for scope in reversed(self.scopes):
                if node.id in scope:
                    return scope[node.id]
        return []


def messages() -> list[Message]:
    """All messages, in the order of files and lines."""
    return [message for file in sorted(ROOT.rglob("*.py")) for message in Reader(file).messages()]
