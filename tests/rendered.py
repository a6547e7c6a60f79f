"""Reads what pullback's errors say when tests raise them, with all that is put into their messages.

The source of a message (`tests/core/messages.py`) shows its words, not what stands in its holes, nor the traceback above it.
So each error that leaves pullback in a test is held to the rules here, and a test in which one breaks a rule fails
(`tests/conftest.py`).
"""

from __future__ import annotations

import ast
import bdb
import functools
import linecache
import os
import pathlib
import re
from collections.abc import Iterator
from types import TracebackType

from pullback.core import error_pages, source
from pullback.core.error_pages import Explained, address
from pullback.engine.jaxlib import runtime_error

LONGEST = 800  # characters, without the lines of code that a message quotes, and without folders, which may be anywhere
FOLDER = re.compile(r"(?<!\S)[(']?/\S*/")
# What no message says, by what it would be.
NEVER = {
    "an address in memory": re.compile(r" at 0x[0-9a-f]{4}"),
    "a traced value as Python prints it": re.compile(r"Traced<"),
    "a class as Python prints it": re.compile(r"<class "),
    "a file of pullback's": re.compile(re.escape(source.PACKAGE)),
    "lines that are not set apart": re.compile(r"\n(?! {2,}\S)"),
    "a doubled space": re.compile(r"\S  +\S"),
    "a doubled or displaced mark": re.compile(
        r"(?<!\.)\.\.(?!\.)|[,;:]{2}|(?<!\.)[.,;] ?\.(?=\s|$)|(?<!\.)\s[.,;)](?=\s|$)|\( "
    ),
    "an empty hole": re.compile(r"\b(argument|named|dtype|axis|function|of|in|At) (None\b|''|\"\")(?!\w)"),
    "one of several": re.compile(
        r"(?<![\w.,\[(/=-])(?<!argument )(?<!operand )(?<!axis )(?<!row )(?<!to )(?<!= )1 (?:[a-z]+ )?"
        r"(?!(?:has|is|was|as|its|this|does|needs|gives|takes|differs|axis|basis)\b)"
        r"(?:\w+[^s\W]s|axes|indices|series)\b(?! of| at)"
    ),
    "a word that the list of words leaves out": re.compile(r"\b(dear|loan|way back|written down|nothing comes back)\b"),
}
WHOLE = ("an address in memory", "a file of pullback's", "an empty hole")  # what is not to be in anything quoted either
LAID_OUT = ("a doubled space", "a doubled or displaced mark")  # what a line that is set apart may have
LINE = re.compile(r":(?P<line>\d+) \((?P<function>[^()]*(?:\([^()]*\))?[^()]*)\): ")  # behind the name of a file
WORD = re.compile(r"(?<![^\s(])[^\s:(]")  # where one begins
QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`")
# What Python may raise inside pullback, besides XLA's errors: warnings as errors, what the system, a debugger or a consumer of
# buffers says, and that a value, or a function of the user's, is not of the kind that it is used as.
OF_OTHERS = (Warning, OSError, BufferError, bdb.BdbQuit, TypeError)


def faults(error: BaseException) -> Iterator[str]:
    """The rules that what an error says breaks, each with its words."""
    said = str(error)
    if isinstance(error, AssertionError):  # it compares values, line by line
        return
    code, words = _without_code(said)
    yield from code
    for what, pattern in NEVER.items():
        text = words if what in WHOLE else QUOTED.sub("''", words)
        text = text.partition("\n  ")[0] if what in LAID_OUT else text
        if found := pattern.search(text):
            yield f"{what}: ...{text[max(found.start() - 30, 0) : found.end() + 20]!r}..."
    length = len(FOLDER.sub("", words))
    if length > LONGEST:
        yield f"{length} characters, more than {LONGEST}"
    if isinstance(error, Explained):
        yield from _faults_of_page(error)


def _without_code(said: str) -> tuple[list[str], str]:
    """What a message says besides the lines of code that it quotes; and those that stand nowhere."""
    wrong, words, at = [], [], 0
    for place in LINE.finditer(said):
        file, line = _file_before(said, place.start(), int(place["line"])), int(place["line"])
        if place.start() < at or not file:
            continue
        code = linecache.getline(file, line).strip()
        shown = code if len(code) <= source.LONGEST_LINE else f"{code[: source.LONGEST_LINE - 3]}..."
        if not said.startswith(shown, place.end()):
            wrong.append(f"{file}:{line} is {code!r}, not what the message quotes")
        words.append(said[at : place.end() - len(": ")])
        at = place.end() + len(shown)
    return wrong, "".join(words) + said[at:]


def _file_before(said: str, end: int, line: int) -> str:
    """The file whose name ends there, and that has such a line: the shortest, as a name may have spaces in it. Else nothing."""
    beginnings = [found.start() for found in WORD.finditer(said, said.rfind("\n", 0, end) + 1, end)]
    names = [said[at:end] for at in reversed(beginnings)]
    return next((name for name in names if linecache.getline(name, line).strip()), "")


def _faults_of_page(error: Explained) -> Iterator[str]:
    note = address(type(error))
    if error.__notes__[-1:] != ([note] if note else []):
        yield "its last note is not the address of its page"
    elif note and not os.path.isfile(os.path.join(error_pages._AROUND, note.rpartition(" ")[2])):
        yield f"there is no page at {note.rpartition(' ')[2]}"


@functools.cache
def _raising_lines(file: str) -> frozenset[int]:
    tree = ast.parse(pathlib.Path(file).read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    return frozenset(line for node in found for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))


class Reader:
    """Reads each error once on its way out of pullback, and notes what is wrong with it.

    Attributes:
        found: what was wrong since somebody asked, each with the place in pullback that raised it.
    """

    def __init__(self) -> None:
        self.found: list[str] = []
        self.show = source._show
        self._last: tuple[int, str] | None = None  # the error that was read last: it leaves several functions of ours

    def __call__(self, error: BaseException, shown: str) -> None:
        """In the place of `source._show`."""
        origin = _innermost(error.__traceback__)
        read = isinstance(error, Exception) and origin is not None and source.is_ours(origin.tb_frame.f_code.co_filename)
        self.show(error, shown)
        if read and origin is not None and (this := (id(error), str(error))) != self._last:
            self._last = this
            file, line = origin.tb_frame.f_code.co_filename, origin.tb_lineno
            wrong = [*faults(error), *_accident(error, file, line), *_bare_cause(error)]
            self.found += [f"{type(error).__name__} of {file}:{line}: {one}\n  {error}" for one in wrong]

    def take(self) -> list[str]:
        """What was wrong since the last time."""
        found, self.found = self.found, []
        return found


def _accident(error: BaseException, file: str, line: int) -> Iterator[str]:
    """An error that Python raised inside pullback, where no statement of ours raises one."""
    ours = isinstance(error, Explained) or (os.path.isfile(file) and line in _raising_lines(file))
    if not ours and os.path.isfile(file) and not isinstance(error, (*OF_OTHERS, runtime_error())):
        yield "raised by Python inside pullback, not by a statement of pullback's"


def _bare_cause(error: BaseException) -> Iterator[str]:
    """An error that the traceback prints above this one, without a line of the user's."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None and cause.__traceback__ is None and isinstance(error, Explained) and isinstance(cause, Explained):
        yield f"printed below another one without a line of the user's: {type(cause).__name__}: {cause}"


def _innermost(step: TracebackType | None) -> TracebackType | None:
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step
