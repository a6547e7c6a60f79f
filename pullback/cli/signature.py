"""Argument types as they are written on the command line.

    type  = array | "(" types ")" | "[" types "]" | "{" names "}"
    array = ["~"] dtype "[" [size {"," size}] "]"       f32[64,10]   i32[]   ~f32[]: a Python float
    types = [type {"," type} [","]]                     (f32[2], f32[3])   a tuple, (f32[2],) too; in brackets, a list
    names = [name ":" type {"," name ":" type} [","]]   {w: f32[3], b: f32[]}   a dict

A dtype goes by the short name with which Programs print it. Where a list begins, `[`, and an array's sizes begin cannot be
confused: sizes follow a dtype.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from pullback.cli.usage import UsageError, suggestion
from pullback.core.dtypes import BY_SHORT_NAME
from pullback.core.types import ArrayType

T = TypeVar("T")

_TOKEN = re.compile(r"\s*(?P<token>[A-Za-z_]\w*|\d+|[~\[\](){},:]|\S|$)")


def parse_type(text: str) -> Any:
    """The type that a text says: an `ArrayType`, or a tuple, list or dict of types.

    Arguments:
        text: one argument's type, such as `f32[64,10]` or `{w: f32[3], b: f32[]}`.

    Returns:
        A pytree with an `ArrayType` for each array.

    Raises:
        UsageError: the text breaks the grammar; the message says where, and what belongs there.

    Example:
        >>> parse_type("f32[2,3]")
        f32[2,3]
        >>> parse_type("{w: f32[3], b: (i32[], ~f32[])}")
        {'w': f32[3], 'b': (i32[], ~f32[])}
    """
    reader = _Reader(text)
    found = reader.type()
    if reader.next:
        reader.fail("the end (each argument's type is quoted by itself)")
    return found


class _Reader:
    """Reads one type from the left; `next` is the token that comes, empty at the end.

    `comma` says whether the list that was read last had a comma before its end, as a tuple of one item has.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.after = 0
        self.next = ""
        self.comma = False
        self.advance()

    def advance(self) -> str:
        """Go past the token that comes, and return it."""
        taken = self.next
        match = _TOKEN.match(self.text, self.after)
        assert match is not None
        self.next, self.at, self.after = match["token"], match.start("token"), match.end()
        return taken

    def fail(self, expected: str, hint: str = "") -> NoReturn:
        met = repr(self.next) if self.next else "the end"
        raise UsageError(f"type {self.text!r}: expected {expected} at character {self.at + 1}, but found {met}.{hint}")

    def accept(self, token: str) -> bool:
        if self.next == token:
            self.advance()
            return True
        return False

    def type(self) -> Any:
        if self.accept("("):
            items = self.listed(")", self.type)
            return items[0] if len(items) == 1 and not self.comma else tuple(items)
        if self.accept("["):
            return self.listed("]", self.type)
        if self.accept("{"):
            return dict(self.listed("}", self.named))
        return self.array()

    def array(self) -> ArrayType:
        weak = self.accept("~")
        if self.next not in BY_SHORT_NAME:
            near = suggestion(self.next, BY_SHORT_NAME) or " Types look like f32[64,10], i32[], {w: f32[3], b: f32[]}."
            self.fail("a dtype (f32, i32, bool, ...)" if weak else "a dtype (f32, i32, bool, ...), '(', '[' or '{'", near)
        dtype = self.advance()
        if not self.accept("["):
            self.fail(f"'[' and the sizes of the axes after {dtype}", f" A single number is {dtype}[].")
        return ArrayType(self.listed("]", self.size), BY_SHORT_NAME[dtype], weak)

    def size(self) -> int:
        if not self.next.isdecimal():
            self.fail("the size of an axis, a whole number")
        return int(self.advance())

    def named(self) -> tuple[str, Any]:
        if not self.next.isidentifier():
            self.fail("a name")
        name = self.advance()
        if not self.accept(":"):
            self.fail(f"':' and the type of {name}")
        return name, self.type()

    def listed(self, end: str, item: Callable[[], T]) -> list[T]:
        """Items separated by commas, up to `end`; one more comma may stand before it."""
        found: list[T] = []
        comma = False
        while not self.accept(end):
            found.append(item())
            comma = self.accept(",")
            if not comma and self.next != end:
                self.fail(f"',' or {end!r}")
        self.comma = comma
        return found
