"""What long loops have done so far, shown while they run: a row for each loop, on a terminal, in a notebook, or in a log.

Loops say that they begin, how many steps they have done, and that they have ended; from any thread. What is shown is drawn anew
at most ten times a second. An exception that comes out of a program ends the rows of all loops in programs (`interrupted`), so
that no terminal is left with half a bar; what a loop says afterwards is ignored until it begins again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Protocol, TextIO

from pullback.core.bars import TerminalScreen
from pullback.core.brief import counted
from pullback.core.forks import lock_across_forks
from pullback.core.reports import report

PAUSE = 0.1  # seconds between two drawings
LOG_PAUSE = 60.0  # and between two lines in a log
WIDTH = 20  # characters of a bar in a notebook

clock = time.perf_counter


class Row:
    """A loop that runs.

    Attributes:
        in_python: whether it is Python's, which ends its row by itself, whatever happens.
        label: what it is called. total: how many steps it takes; None where that is not known. done: those that it has taken.
        began: when. ended: when, or None.
    """

    def __init__(self, label: str, total: int | None, in_python: bool) -> None:
        self.label, self.total, self.done, self.in_python = label, total, 0, in_python
        self.began = clock()
        self.ended: float | None = None

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return (clock() if self.ended is None else self.ended) - self.began

    @property
    def left(self) -> float | None:
        """How long it will still take, if its steps go on as they did; None where that cannot be told."""
        return None if not self.done or self.total is None else self.seconds / self.done * (self.total - self.done)


def duration(seconds: float) -> str:
    """A time for people.

    Example:
        >>> duration(3.14159), duration(83.0), duration(7384.0)
        ('3.1 s', '1:23', '2:03:04')
    """
    if seconds < 60.0:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


def row_text(row: Row, width: int = 0) -> str:
    """A row in one line: `train |#####-----| 50/100, 1.2 s, 1.2 s left`; the bar of that many characters, if any."""
    steps = counted(row.done, "step") if row.total is None else f"{row.done:,}/{row.total:,}"
    filled = width if not row.total else min(width * row.done // row.total, width)
    bar = f"|{'#' * filled}{'-' * (width - filled)}|" if width and row.total is not None else ""
    rest = f", {duration(row.left)} left" if row.ended is None and row.left is not None else ""
    if row.ended is not None and row.total is not None and row.done < row.total:
        rest = ", stopped"
    return f"{' '.join([part for part in (row.label, bar, steps) if part])}, {duration(row.seconds)}{rest}"


class Screen(Protocol):
    """Where rows are shown."""

    def draw(self, rows: Sequence[Row]) -> None:
        """Show the rows as they are now."""

    def close(self, rows: Sequence[Row]) -> None:
        """Show them for the last time: all have ended."""


class LineScreen:
    """One line that is written again and again: a notebook knows how to go back to its beginning, and little else."""

    def __init__(self, file: TextIO) -> None:
        self.file, self.longest = file, 0

    def draw(self, rows: Sequence[Row], end: str = "") -> None:
        """Write the line anew."""
        text = "   ".join([row_text(row, WIDTH) for row in rows])
        self.longest = max(self.longest, len(text))
        self.file.write(f"\r{text.ljust(self.longest)}{end}")
        self.file.flush()

    def close(self, rows: Sequence[Row]) -> None:
        """Write it for the last time."""
        self.draw(rows, "\n")


class LogScreen:
    """Lines of a log: one a minute, and one when a loop that no other holds has ended."""

    def __init__(self, file: TextIO) -> None:
        self.file, self.written = file, clock()

    def draw(self, rows: Sequence[Row]) -> None:
        """Write a line if the last one is long ago."""
        if clock() - self.written >= LOG_PAUSE:
            self.written = clock()
            self.close(rows)

    def close(self, rows: Sequence[Row]) -> None:
        """Write a line."""
        self.file.write(f"{'; '.join([row_text(row) for row in rows])}\n")
        self.file.flush()


def screen() -> Screen:
    """Where this process shows what it does: on standard error, in a notebook on standard output."""
    if type(sys.stdout).__module__.partition(".")[0] in ("ipykernel", "marimo"):
        return LineScreen(sys.stdout)
    return TerminalScreen(sys.stderr) if TerminalScreen.fits(sys.stderr) else LogScreen(sys.stderr)


class Display:
    """The rows of the loops that run in this process, outer ones first."""

    def __init__(self) -> None:
        self.lock = lock_across_forks()
        self.rows: dict[Hashable, Row] = {}
        self.screen: Screen | None = None
        self.drawn = 0.0

    def begin(self, key: Hashable, label: str, total: int | None, in_python: bool = False) -> None:
        """A loop begins; one of the same key has ended before, or was left."""
        with self.lock:
            self.rows[key] = Row(label, total, in_python)
            if self.screen is None:
                self.screen, self.drawn = screen(), 0.0
            if clock() - self.drawn >= PAUSE:
                self._draw()

    def step(self, key: Hashable, done: int) -> None:
        """A loop has taken so many steps."""
        row = self.rows.get(key)
        if row is None:
            return
        row.done = done
        if clock() - self.drawn >= PAUSE:
            with self.lock:
                self._draw()

    def exhausted(self, key: Hashable, done: int) -> None:
        """A loop of Python's has no more steps than it has taken, whatever was said before."""
        with self.lock:
            row = self.rows.get(key)
            if row is not None and row.total is not None:
                row.total = done

    def end(self, key: Hashable, done: int | None = None) -> None:
        """A loop has ended after so many steps, or is left."""
        with self.lock:
            row = self.rows.get(key)
            if row is not None and row.ended is None:
                row.done, row.ended = row.done if done is None else done, clock()
                self._close()

    def interrupted(self) -> None:
        """The loops in programs are left."""
        with self.lock:
            for row in self.rows.values():
                if row.ended is None and not row.in_python:
                    row.ended = clock()
            self._close()

    def _close(self) -> None:
        """Leave the screen if all loops have ended."""
        rows = [*self.rows.values()]
        if all([row.ended is not None for row in rows]) and self.screen is not None:
            shown, self.screen = self.screen, None
            self.rows.clear()
            self._show(shown.close, rows)

    def _draw(self) -> None:
        if self.screen is not None:
            self._show(self.screen.draw, [*self.rows.values()])
            self.drawn = clock()

    def _show(self, show: Callable[[Sequence[Row]], None], rows: Sequence[Row]) -> None:
        """A computation does not fail because nobody can see how far it is."""
        try:
            show(rows)
        except (OSError, ValueError, AttributeError) as error:  # the terminal is gone, the file closed, or there is none
            report("Progress cannot be shown: %s", error)


display = Display()
interrupted = display.interrupted
