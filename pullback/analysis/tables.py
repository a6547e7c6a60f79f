"""Tables as plain text, in colour on a terminal, and as HTML; and numbers in few digits."""

from __future__ import annotations

import html
import json
import unicodedata
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, TextIO

from pullback.core.bars import output, print_table
from pullback.program.program import Program


class Column(NamedTuple):
    """A column: its heading, whether it holds numbers, which stand on the right, and whether its cells are code."""

    heading: str
    number: bool = False
    code: bool = False


class Table(NamedTuple):
    """A title, columns, rows of texts, and sentences below. `strong` are the numbers of the rows that sum up the others."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    strong: frozenset[int] = frozenset()

    def without_empty(self) -> Table:
        """The table without the columns in which nothing stands."""
        kept = [i for i, _ in enumerate(self.columns) if any([row[i] for row in self.rows])]
        rows = [[row[i] for i in kept] for row in self.rows]
        return self._replace(columns=[self.columns[i] for i in kept], rows=rows)


LONGEST = 76  # characters of a cell of plain text


def plain(table: Table) -> str:
    """A table as text, its columns aligned.

    Example:
        >>> print(plain(Table("Sizes", [Column("name"), Column("bytes", True)], [["x", "8"], ["weights", "1,024"]])))
        Sizes
        name     bytes
        x            8
        weights  1,024
    """
    rows = [[column.heading for column in table.columns], *[[_cut(one) for one in row] for row in table.rows]]
    widths = [max([cell_width(row[i]) for row in rows]) for i in range(len(table.columns))]
    lines = []
    for row in rows:
        blanks = [" " * (width - cell_width(text)) for text, width in zip(row, widths)]
        cells = [blank + text if column.number else text + blank for text, blank, column in zip(row, blanks, table.columns)]
        lines.append("  ".join(cells).rstrip())
    title = [table.title] if table.title else []
    return "\n".join([*title, *(lines if table.columns else ()), *table.notes])


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def cell_width(text: str) -> int:
    """How many cells of a terminal a text takes: characters of East Asia two, accents that join the letter before none.

    Example:
        >>> cell_width("layer"), cell_width("层一")
        (5, 4)
    """
    if text.isascii():
        return len(text)
    wide = sum([unicodedata.east_asian_width(one) in "WF" for one in text])
    return len(text) + wide - sum([unicodedata.combining(one) > 0 for one in text])


def as_html(table: Table) -> str:
    """A table as HTML, for notebooks; its styles say how cells are aligned, and which of them stay in one line."""
    head = "".join([f'<th style="{_style(column, True)}">{html.escape(column.heading)}</th>' for column in table.columns])
    body = []
    for number, row in enumerate(table.rows):
        cells = []
        for column, text in zip(table.columns, row):
            inner = html.escape(text)
            inner = f"<code>{inner}</code>" if column.code and text else inner
            inner = f"<b>{inner}</b>" if number in table.strong else inner
            cells.append(f'<td style="{_style(column, column.number)}">{inner}</td>')
        body.append(f"<tr>{''.join(cells)}</tr>")
    sentences = [html.escape(line) for line in table.title.split("\n")]
    title = f"<caption>{'<br>'.join(sentences)}</caption>" if table.title else ""
    notes = "".join([f"<p>{html.escape(note)}</p>" for note in table.notes])
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>{notes}"


def _style(column: Column, one_line: bool) -> str:
    """Of a cell; a figure and its unit stay in one line."""
    side = "right" if column.number else "left"
    return f"text-align:{side};white-space:nowrap" if one_line else f"text-align:{side}"


def show(tables: Sequence[Table], color: bool | None, file: TextIO | None) -> None:
    """Print tables: on a terminal, or if `color` says so, in colour and as wide as that; elsewhere as plain text."""
    out, colored = output(file, color)
    for number, table in enumerate(tables):
        if number:
            print(file=out)
        if not colored:
            print(plain(table), file=out)
        else:
            headings = [(column.heading, column.number, column.code) for column in table.columns]
            rows = [[one if column.code else _cut(one) for one, column in zip(row, table.columns)] for row in table.rows]
            print_table(table.title, headings, rows, table.notes, table.strong, out)


class Shown:
    """What prints as tables: the class defines `tables`."""

    def tables(self) -> list[Table]:
        """The tables that it shows.

        Returns:
            A list of tables.

        Example:
            >>> import pullback as pb
            >>> len(pb.cost(lambda x: x, 1.0, backend=False).tables())
            1
        """
        raise NotImplementedError

    def text(self) -> str:
        """The tables as plain text, which `print` shows.

        Returns:
            A string.

        Example:
            >>> import pullback as pb
            >>> pb.cost(lambda x: x + 1.0, 1.0, backend=False).by("primitive").text().split("\\n")[1:]
            ['operation  FLOPs  bytes  FLOPs/byte  of work  of bytes', 'add            1   12 B      0.0833   100.0%    100.0%']
        """
        return "\n\n".join([plain(table) for table in self.tables()])

    def __repr__(self) -> str:
        return self.text()

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return "".join([as_html(table) for table in self.tables()])

    def show(self, color: bool | None = None, file: TextIO | None = None) -> None:
        """Print it: on a terminal in colour, and no wider than that.

        Arguments:
            color: whether to print it so; by default, where `file` is a terminal.
            file: where to print it; by default, standard output.

        Example:
            >>> import pullback as pb
            >>> pb.cost(lambda x: x, 1.0, backend=False).show()
            <lambda>(~f32[]): 0 FLOPs, 0 B read and written
        """
        show(self.tables(), color, file)


class Written(Shown):
    """What is data, too: the class says the `format`, by which it is known, and defines `records`."""

    format: ClassVar[str]
    program: Program

    def records(self) -> dict[str, Any]:
        """What the JSON says besides the format, its version, and the name of the function.

        Returns:
            A dict of numbers, texts, lists and dicts; docs/costs.md says which.

        Example:
            >>> import pullback as pb
            >>> pb.cost(lambda x: x + 1.0, 1.0, backend=False).records()["total"]["flops"]
            1.0
            >>> pb.memory(lambda x: x + 1.0, 1.0, backend=False).records()["peak"]
            8
        """
        raise NotImplementedError

    def to_json(self) -> str:
        """All of it as JSON, in the form that docs/costs.md describes: the whole, and a record for each equation or value.

        Returns:
            A string.

        Example:
            >>> import json
            >>> import pullback as pb
            >>> f32 = pb.ArrayType((3,), "float32")
            >>> found = json.loads(pb.cost(lambda x: x + 1.0, f32, backend=False).to_json())
            >>> found["total"]["flops"], found["equations"][0]["primitive"]
            (3.0, 'add')
            >>> json.loads(pb.memory(lambda x: x + 1.0, f32, backend=False).to_json())["peak"]
            24
        """
        head = {"format": self.format, "version": 1, "name": self.program.name}
        return json.dumps({**head, **self.records()})


# ---- numbers ---------------------------------------------------------------------------------------------------------------


_SCALES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"))


def count(number: float) -> str:
    """A count: exactly up to 99,999; above in three digits.

    Example:
        >>> count(1234), count(2_345_678), count(999_960), count(0), count(1.5)
        ('1,234', '2.35 M', '1 M', '0', '1.5')
    """
    return _scaled(number, "", 100_000)


def size(number: float) -> str:
    """A number of bytes, likewise.

    Example:
        >>> size(40_960), size(40_960_000)
        ('40,960 B', '41 MB')
    """
    return _scaled(number, "B", 100_000)


def _scaled(number: float, unit: str, exact_below: int) -> str:
    if abs(number) < exact_below:
        return f"{f'{number:,.0f}' if number == int(number) else _three(number)} {unit}".rstrip()
    scale, letter = next(((scale, letter) for scale, letter in _SCALES if abs(number) >= ROUNDED * scale), (1e3, "k"))
    return f"{_three(number / scale)} {letter}{unit}"


ROUNDED = 0.9995  # what is no less is 1 in three digits


def _three(number: float) -> str:
    """A number in three digits, and all of those before the point."""
    return f"{number:.3g}" if abs(number) < 1000 * ROUNDED else f"{number:,.0f}"


def part(fraction: float) -> str:
    """A fraction in per cent.

    Example:
        >>> part(0.5), part(0.00001), part(0.0), part(1.0)
        ('50.0%', '<0.1%', '', '100.0%')
    """
    return "" if fraction == 0 else "<0.1%" if fraction < 0.001 else f"{100 * fraction:.1f}%"


def duration(seconds: float | None) -> str:
    """A time in three digits; nothing if there is none.

    Example:
        >>> duration(0.0123), duration(0.00000456), duration(1234.5), duration(0.0), duration(None)
        ('12.3 ms', '4.56 us', '1,234 s', '0', '')
    """
    if not seconds:
        return "" if seconds is None else "0"
    units = ((1, "s"), (1e-3, "ms"))
    scale, unit = next(((scale, unit) for scale, unit in units if seconds >= ROUNDED * scale), (1e-6, "us"))
    return f"{_three(seconds / scale)} {unit}"


Records = list[dict[str, Any]]
