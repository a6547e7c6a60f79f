"""What the command line has in common: its errors, where it writes (width, colours, a progress bar), the versions."""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import platform
import shutil
import sys
import textwrap
import warnings
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import TextIO, TypeVar

import pullback as pb
from pullback.core.bars import progress_bar
from pullback.core.source import is_ours
from pullback.program.program import Program

T = TypeVar("T")

WIDEST = 88  # longer lines of prose are hard to read
NARROWEST = 24
_BOLD, _DIM, _END = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def is_terminal() -> bool:
    """Whether standard output is a terminal that can move its cursor and show colours."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def use_color(choice: str = "auto") -> bool:
    """Whether to write colours: as `choice` says, `always` or `never`; with `auto`, on a terminal, unless NO_COLOR is set."""
    return choice == "always" or (choice == "auto" and is_terminal() and not os.environ.get("NO_COLOR"))


def width() -> int:
    """How many columns text may fill."""
    return max(NARROWEST, min(WIDEST, shutil.get_terminal_size((80, 24)).columns))


def heading(text: str) -> None:
    """Print the title of a step, with room above."""
    line = f"{text}\n{'-' * min(len(text), width())}"
    print(f"\n{_BOLD}{line}{_END}\n" if use_color() else f"\n{line}\n")


def say(text: str) -> None:
    """Print a paragraph, filled to the width; line breaks and indentation in `text` mean nothing."""
    print(textwrap.fill(" ".join(text.split()), width()) + "\n")


def quote(text: str, cut: bool = False) -> None:
    """Print code or numbers indented, as they are where they fit.

    Arguments:
        text: the lines.
        cut: whether lines that do not fit are cut, which an ellipsis shows, rather than continued on the next line.
    """
    room = width() - 4
    for line in textwrap.dedent(text).strip("\n").split("\n"):
        indent = " " * (len(line) - len(line.lstrip()))
        if len(line) <= room:
            parts = [line]
        elif cut:
            parts = [line[: room - 3] + "..."]
        else:
            parts = textwrap.wrap(line, room, subsequent_indent=indent + "    ", drop_whitespace=True)
        print("\n".join([f"    {part}".rstrip() for part in parts]))
    print()


def quote_program(program: Program) -> None:
    """Print a Program, indented, its axes in colours where there are colours."""
    text = io.StringIO()
    program.show(color=use_color(), file=text)
    print(textwrap.indent(text.getvalue(), "    "))


def remark(text: str) -> None:
    """Print a line that is beside the point, dim where that can be done."""
    print(f"{_DIM}{text}{_END}" if use_color() else text)


def progress(items: Iterable[T], total: int, what: str) -> Iterator[T]:
    """The items, while a bar shows how many are done; on a terminal only.

    Arguments:
        items: what to go through.
        total: how many there are.
        what: what is being done, in a word or two.
    """
    if not is_terminal():
        yield from items
        return
    with progress_bar(what, total, ("MofNCompleteColumn", "TimeElapsedColumn"), width=width()) as advance:
        for item in items:
            yield item
            advance(1)
    print()


# ---- warnings and errors of one line ------------------------------------------------------------------------------------


class UsageError(Exception):
    """Something on the command line is wrong; the message is one line that names it and the cure."""


class Found(Exception):
    """A command has found what it looks for, and the caller wants to know it by the exit code."""


@contextlib.contextmanager
def warnings_of_one_line() -> Iterator[None]:
    """In this block warnings that come from no line of the user's name none of ours either."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if is_ours(filename):
            print(f"pullback: {category.__name__}: {one_line(str(message))}", file=file or sys.stderr)
        else:
            shown(message, category, filename, lineno, file, line)

    with warnings.catch_warnings():
        shown, warnings.showwarning = warnings.showwarning, show
        yield


def suggestion(word: str, known: Iterable[str]) -> str:
    """The end of an error message about an unknown word: ` Did you mean 'x'?`, or nothing where no known word is near.

    Example:
        >>> suggestion("gard", ["grad", "vmap"])
        " Did you mean 'grad'?"
    """
    near = difflib.get_close_matches(word, list(known), 1)
    return f" Did you mean {near[0]!r}?" if near else ""


def one_line(text: str) -> str:
    """A message without its line breaks."""
    return " ".join(text.split())


# ---- `python -m pullback version`: what a bug report needs to say ---------------------------------------------------------


def show_versions() -> None:
    """Print the versions of pullback and of the packages under it, and the devices."""
    print(f"{'pullback':10}{_version('pullback')}")
    for package in ("jaxlib", "numpy", "ml_dtypes", "optree"):
        print(f"{package:10}{_version(package)}")
    print(f"{'python':10}{platform.python_version()} on {platform.system()} {platform.machine()}")
    print(f"{'devices':10}{', '.join(map(str, pb.devices()))}")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
