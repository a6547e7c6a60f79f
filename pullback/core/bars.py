"""What is drawn on a terminal by rich: progress bars, tables, lines in colour, pages in Markdown."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO


def output(file: TextIO | None, color: bool | None) -> tuple[TextIO, bool]:
    """Where to print, by default standard output; and whether in colour, by default on a terminal, unless NO_COLOR is set."""
    out = sys.stdout if file is None else file
    return out, bool(out.isatty() and not os.environ.get("NO_COLOR")) if color is None else color


@contextlib.contextmanager
def progress_bar(what: str, total: int, columns: tuple[str, ...], **console: Any) -> Iterator[Callable[[int], None]]:
    """A bar that shows how much of `total` is done; inside the block, a function says how much more.

    Arguments:
        what: what is being done, in a word or two. columns: the classes of rich's columns that follow the bar.
        console: how wide it is (`width`).
    """
    rich: Any = importlib.import_module("rich.progress")
    shown = (rich.TextColumn(what), rich.BarColumn(None), *[getattr(rich, name)() for name in columns])
    with rich.Progress(*shown, console=importlib.import_module("rich.console").Console(**console)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda more: bar.advance(task, more)


COLUMNS = ("MofNCompleteColumn", "TimeElapsedColumn", "TimeRemainingColumn")


class TerminalScreen:
    """The last lines of a terminal, above which what is printed meanwhile appears.

    The cursor stays visible, and no thread draws: whatever happens to the program, there is nothing to put right.
    """

    def __init__(self, file: TextIO) -> None:
        rich: Any = importlib.import_module("rich.progress")
        console = importlib.import_module("rich.console").Console(file=file)
        console.show_cursor = lambda show=True: False
        shown = (rich.TextColumn("{task.description}"), rich.BarColumn(), *[getattr(rich, name)() for name in COLUMNS])
        # what is printed goes above the bars, unless it goes elsewhere
        self.bars = rich.Progress(*shown, console=console, auto_refresh=False, redirect_stdout=self.fits(sys.stdout))
        self.tasks: dict[Any, Any] = {}
        self.bars.start()
        atexit.register(self.bars.stop)

    @staticmethod
    def fits(file: TextIO) -> bool:
        """Whether a file is a terminal that can move its cursor."""
        try:
            return file.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        except (AttributeError, ValueError):  # no file, or a closed one
            return False

    def draw(self, rows: Sequence[Any]) -> None:
        """Show the rows as they are now."""
        tasks = {}
        for row in rows:
            task = self.tasks.pop(row, None)
            if task is None:
                task = self.bars.add_task(row.label, total=row.total)
            unknown = row.total is None and row.ended is not None  # until now
            self.bars.update(task, completed=row.done, total=row.done if unknown else row.total)
            tasks[row] = task
        for task in self.tasks.values():  # of loops that have begun again
            self.bars.remove_task(task)
        self.tasks = tasks
        self.bars.refresh()

    def close(self, rows: Sequence[Any]) -> None:
        """Show them for the last time, and leave the terminal."""
        try:
            self.draw(rows)
        finally:
            self.bars.stop()
            atexit.unregister(self.bars.stop)


GAP = 2  # between the columns of a table
LEAST_CODE = 12  # characters of the user's code that are worth a column


def print_table(
    title: str,
    columns: Sequence[tuple[str, bool, bool]],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str],
    strong: Container[int],
    file: TextIO,
) -> None:
    """Print a table in colour, as wide as the terminal. Where there is not room enough, code is cut, and then left out; figures
    never are.

    Arguments:
        columns: the heading of each, whether it holds numbers, and whether its cells are code. rows: their cells.
        notes: sentences below. strong: the numbers of the rows that stand out. file: where to print it.
    """
    table_of, text_of, console_of = [
        getattr(importlib.import_module(f"rich.{module}"), name)
        for module, name in (("table", "Table"), ("text", "Text"), ("console", "Console"))
    ]
    # A file that is no terminal gets colours too: whoever asks for them says so.
    console = console_of(file=file, force_terminal=True, highlight=False, soft_wrap=False)
    widths = _widths(columns, rows, console.width)
    table = table_of(box=None, header_style="bold", pad_edge=False)
    for i, width in widths.items():
        heading, number, code = columns[i]
        justify, style = "right" if number else "left", "cyan" if code else ""
        table.add_column(text_of(heading), justify=justify, style=style, no_wrap=True, overflow="ellipsis", width=width)
    for place, row in enumerate(rows):
        table.add_row(*[text_of(row[i]) for i in widths], style="bold" if place in strong else "")
    if title:
        console.print(text_of(title), style="bold")
    if columns:
        needed = max(console.width, sum(widths.values()) + GAP * (len(widths) - 1))
        console_of(file=file, force_terminal=True, highlight=False, width=needed).print(table)
    for note in notes:
        console.print(text_of(note), style="dim")


def _widths(columns: Sequence[tuple[str, bool, bool]], rows: Sequence[Sequence[str]], room: int) -> dict[int, int]:
    """The columns of a table that are shown, each with its width: all, or where there is no room those that are no code."""
    cell_width = importlib.import_module("rich.cells").cell_len
    widest = {i: max([cell_width(text) for text in (columns[i][0], *[row[i] for row in rows])]) for i in range(len(columns))}
    codes = [i for i, (*_, code) in enumerate(columns) if code]
    left = room - sum([width + GAP for i, width in widest.items() if i not in codes]) + GAP
    each = left // len(codes) - GAP if codes else 0
    kept = widest if each >= LEAST_CODE else [i for i in widest if i not in codes]
    return {i: min(widest[i], each) if i in codes else widest[i] for i in kept}


def print_markdown(text: str, **console: Any) -> None:
    """Print a text in Markdown, laid out and coloured.

    Arguments:
        text: the text. console: how wide it is (`width`).
    """
    markdown = importlib.import_module("rich.markdown").Markdown(text, code_theme="ansi_dark")
    importlib.import_module("rich.console").Console(**console).print(markdown)


def print_lines(lines: Iterable[Sequence[tuple[str, str]]], styles: Mapping[str, str], file: TextIO) -> None:
    """Print lines in colour, continued where they are longer than the terminal is wide.

    Arguments:
        lines: each a row of pieces, a text and the name of a style. styles: what each name means to rich.
    """
    console = importlib.import_module("rich.console").Console(file=file, force_terminal=True)
    text: Any = importlib.import_module("rich.text").Text
    for line in lines:
        console.print(text.assemble(*[(part, styles.get(name, "")) for part, name in line]))
