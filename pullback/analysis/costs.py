"""`pb.cost`: what a function costs, by the user's lines, by equations, by scopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

from pullback.analysis.compiled import compiled_figures, in_words, traced
from pullback.analysis.counting import EquationCost, Ran, equation_costs, place_of
from pullback.analysis.tables import Column, Table, Written, count, duration, part, size
from pullback.api.applied import Apply, apply_transformations
from pullback.api.functions import Function, check_callable, check_flags
from pullback.core.brief import brief, counted
from pullback.core.errors import LeafError
from pullback.core.source import api_boundary
from pullback.core.types import ArrayType
from pullback.diagnose.replay import replay
from pullback.program.cost import Cost, total
from pullback.program.printing import heading
from pullback.program.program import Program

MOST_ROWS = 24  # that are shown of a table; `rows` has all


class CostRow(NamedTuple):
    """A row of a table of costs.

    Attributes:
        name: what it is the cost of: a line (`model.py:12`), an operation, a scope, ... code: the code of that line.
        file, line: where that is; empty, and 0, where a row is no line.
        equations: how many equations there are. times: how often each runs, at least and at most.
        flops, transcendentals, bytes, sent: what they cost together. work: the FLOPs, and those of transcendental functions.
        share_of_work, share_of_bytes: fractions of the total.
        seconds: how long it took on NumPy; None if it was not measured.
        open: whether some of it is in a loop whose number of steps only running it tells: one step is counted.
        depth: how far the row is part of one before it, whose figures include its own.
        id: in a table by equations, the equation's.

    Example:
        >>> import pullback as pb
        >>> row = pb.cost(lambda x: x @ x, pb.ArrayType((8, 8), "float32")).rows[0]
        >>> row.flops, row.bytes, round(row.intensity, 2)
        (1024.0, 512.0, 2.0)
    """

    name: str
    code: str
    file: str
    line: int
    equations: int
    times: tuple[int, int]
    flops: float
    transcendentals: float
    work: float
    bytes: float
    sent: float
    share_of_work: float
    share_of_bytes: float
    seconds: float | None
    open: bool
    depth: int
    id: int | None

    @property
    def intensity(self) -> float:
        """Operations for each byte that is read or written: `work` over `bytes`.

        Example:
            >>> import pullback as pb
            >>> pb.cost(lambda x: x + x, pb.ArrayType((4,), "float32")).rows[0].intensity
            0.125
        """
        return self.work / self.bytes if self.bytes else 0.0


Key = Callable[[EquationCost], tuple[str, str, int, str]]


def _by_line(one: EquationCost) -> tuple[str, str, int, str]:
    return place_of(one.file, one.line) or "(no line of yours)", one.file, one.line, one.text


def _named(read: Callable[[EquationCost], str]) -> Key:
    return lambda one: (read(one), "", 0, "")


# What a row stands for, with the heading of its name.
VIEWS: dict[str, tuple[str, Key]] = {
    "line": ("line", _by_line),
    "equation": ("operation", _by_line),
    "scope": ("scope", _named(lambda one: "/".join(one.scope))),
    "function": ("function", _named(lambda one: one.function or "(no function of yours)")),
    "primitive": ("operation", _named(lambda one: one.primitive)),
    "role": ("role", _named(lambda one: one.role)),
}


class CostTable(Written):
    """What a function costs: `print(table)` shows it by the user's lines, `table.by("equation")` in another way.

    Attributes:
        program: the Program that is counted, as `pb.xpr` shows it.
        total: a record with `flops`, `bytes`, `transcendentals`, `work`, `sent` and `loops` of the whole.
        equations: for each equation a record: its `id`, `primitive`, `file`, `line`, `scope`, `role`, `times`, `cost`, ...
        compiled: what XLA counts of what it made of the function, a dict; None if it was not compiled.
        seconds: how long its operations took on NumPy; None if that was not measured.
        view: by what the rows are.

    Example:
        >>> import pullback as pb
        >>> table = pb.cost(lambda x: pb.numpy.sum(pb.numpy.sin(x)), pb.ArrayType((1000,), "float32"), backend=False)
        >>> table.total.flops, table.total.transcendentals, table.total.bytes
        (999.0, 1000.0, 12004.0)
        >>> [row.name for row in table.by("primitive").rows]
        ['sin', 'reduce_sum']
    """

    format = "pullback.cost"

    def __init__(
        self, program: Program, equations: tuple[EquationCost, ...], compiled: dict[str, float] | None, why: str, view: str
    ) -> None:
        self.program = program
        self.equations = equations
        self.compiled = compiled
        measured = any([one.seconds is not None for one in equations])
        self.total: Cost = total([one.cost for one in equations if not one.depth])
        self.seconds = sum([one.seconds or 0.0 for one in equations if not one.holds]) if measured else None
        self.view = view
        self._why = why

    @api_boundary
    def by(self, view: str) -> Self:
        """The same costs in other rows.

        Arguments:
            view: "line" of the user's code; "equation", in their order, with those that it holds below; "scope", by
                `pb.named_scope`; "function" of the user's; "primitive"; or "role", which says what the backward pass takes.

        Returns:
            A `CostTable`.

        Raises:
            ValueError: there is no such view.

        Example:
            >>> import pullback as pb
            >>> table = pb.cost(pb.grad(lambda x: pb.numpy.sin(x) ** 2), 1.0, backend=False)
            >>> [(row.name, row.equations) for row in table.by("role").rows]
            [('primal', 1), ('residual', 2), ('cotangent', 1)]
        """
        if view not in VIEWS:
            raise ValueError(f"CostTable.by takes one of {', '.join(map(repr, VIEWS))}, but got {brief(view)}.")
        return type(self)(self.program, self.equations, self.compiled, self._why, view)

    @property
    def rows(self) -> list[CostRow]:
        """The rows as records, all of them: those that cost most first; equations and scopes in their order.

        Example:
            >>> import pullback as pb
            >>> [row.flops for row in pb.cost(lambda x: x + x * 2.0, 1.0, backend=False).by("equation").rows]
            [1.0, 1.0]
        """
        if self.view == "equation":
            return [self._row((one,), _label(one), one.depth, one.id) for one in self.equations]
        parts = [one for one in self.equations if not one.holds and one.times]
        if self.view == "scope":
            return self._by_scope(parts)
        key = VIEWS[self.view][1]
        groups: dict[Any, list[EquationCost]] = {}
        for one in parts:
            groups.setdefault(key(one), []).append(one)
        rows = [self._row(tuple(group), name, 0, None) for (name, *_), group in groups.items()]
        return rows if self.view == "role" else sorted(rows, key=lambda row: -max(row.share_of_work, row.share_of_bytes))

    def _by_scope(self, parts: list[EquationCost]) -> list[CostRow]:
        """Scopes in the order in which they are first met, each before those inside it, which it includes."""
        groups: dict[tuple[str, ...], list[EquationCost]] = {}
        for one in parts:
            for length in range(1, len(one.scope) + 1):
                groups.setdefault(one.scope[:length], []).append(one)
        ordered: list[tuple[str, ...]] = []

        def add(below: tuple[str, ...]) -> None:
            for scope in groups:
                if scope[:-1] == below:
                    ordered.append(scope)
                    add(scope)

        add(())
        rows = [self._row(tuple(groups[scope]), scope[-1], len(scope) - 1, None) for scope in ordered]
        rest = [one for one in parts if not one.scope]
        return [*rows, *([self._row(tuple(rest), "(no scope)", 0, None)] if rest else [])]

    def _row(self, group: tuple[EquationCost, ...], name: str, depth: int, id: int | None) -> CostRow:
        found = total([one.cost for one in group])
        line = self.view in ("line", "equation")
        file, number, text = (group[0].file, group[0].line, group[0].text) if line else ("", 0, "")
        times = [one.times for one in group]
        of_work = found.work / self.total.work if self.total.work else 0.0
        of_bytes = found.bytes / self.total.bytes if self.total.bytes else 0.0
        figures = found.flops, found.transcendentals, found.work, found.bytes, found.sent
        seconds = None if self.seconds is None else sum([one.seconds or 0.0 for one in group])
        is_open = any([one.open for one in group])
        span = min(times), max(times)
        return CostRow(name, text, file, number, len(group), span, *figures, of_work, of_bytes, seconds, is_open, depth, id)

    def tables(self) -> list[Table]:
        """What it shows.

        Returns:
            A list of one table, with a `title`, `columns`, `rows` and `notes`.

        Example:
            >>> import pullback as pb
            >>> pb.cost(lambda x: x + 1.0, 1.0, backend=False).tables()[0].title
            '<lambda>(~f32[]): 1 FLOP, 12 B read and written'
        """
        rows = self.rows
        shown = rows[:MOST_ROWS] if self.view != "equation" else rows[: 10 * MOST_ROWS]
        numbers = ("FLOPs", "transc.", "bytes", "sent", "FLOPs/byte", "of work", "of bytes", "time", "times")
        at = "at" if self.view == "equation" else ""
        columns = [
            Column(VIEWS[self.view][0]),
            *[Column(name, True) for name in numbers],
            Column(at),
            Column("code", code=True),
        ]
        notes = [f"... and {counted(len(rows) - len(shown), 'row')} more: .rows has all"] if len(shown) < len(rows) else []
        if self.total.loops:
            notes.append("+ in a loop whose number of steps only running it tells: one step is counted")
        if any([one.times == 0 for one in self.equations]) and self.view == "equation":
            why = "does not count, since another one takes more" if self.seconds is None else "was not taken"
            notes.append(f"x0: in a branch that {why}")
        if self.seconds is not None:
            notes.append(
                f"time: on NumPy, one operation after the other, {duration(self.seconds)} in all; compiled code takes less"
            )
        notes += in_words(self.compiled, self._why, self.program, self.total)
        cells = [_cells(row, self.view) for row in shown]
        strong = frozenset([i for i, row in enumerate(shown) if i + 1 < len(shown) and shown[i + 1].depth > row.depth])
        return [Table(self._title(), columns, cells, notes, strong).without_empty()]

    def _title(self) -> str:
        whole = self.total
        parts = [f"{count(whole.flops)} FLOP{'' if whole.flops == 1 else 's'}"]
        if whole.transcendentals:
            values = "value" if whole.transcendentals == 1 else "values"
            parts.append(f"{count(whole.transcendentals)} {values} of transcendental functions")
        parts.append(f"{size(whole.bytes)} read and written")
        if whole.sent:
            parts.append(f"{size(whole.sent)} sent between devices")
        return f"{heading(self.program)}: {', '.join(parts)}"

    def records(self) -> dict[str, Any]:
        equations = [{**one._asdict(), "cost": one.cost._asdict()} for one in self.equations]
        return {"total": self.total._asdict(), "equations": equations, "compiled": self.compiled}


def _label(one: EquationCost) -> str:
    return f"{one.types} = {one.primitive}" if one.types else one.primitive


def _cells(row: CostRow, view: str) -> list[str]:
    low, high = row.times
    times = str(high) if low == high else f"{low}-{high}"
    times = f"{times}+" if row.open else "" if high == 1 else f"x{times}"
    name = "  " * row.depth + row.name
    at = place_of(row.file, row.line) if view == "equation" else ""
    intensity = count(row.intensity) if row.intensity else ""
    figures = [text if text != "0" else "" for text in (count(row.flops), count(row.transcendentals))]
    moved = [size(number) if number else "" for number in (row.bytes, row.sent)]
    return [
        name,
        *figures,
        *moved,
        intensity,
        part(row.share_of_work),
        part(row.share_of_bytes),
        duration(row.seconds or None),
        times,
        at,
        row.code,
    ]


@api_boundary
def cost(
    fun: Function, *args: Any, apply: Apply = "", backend: bool | None = None, measure: bool = False, **kwargs: Any
) -> CostTable:
    """What a function costs for arguments like these: operations, bytes and their ratio, by the user's lines.

    Costs follow from the types, by one rule for each operation (docs/costs.md says which). The steps of loops are counted, of
    branches the one that takes most. Beside these stands what XLA counts of the program that it compiles. Nothing is computed,
    unless it is measured.

    Arguments:
        fun: a function of arrays and pytrees; any transformation of one.
        args, kwargs: what to call it with, or what is made of it by `apply`; an `ArrayType` serves for an array.
        apply: transformations to apply to it first, as text, `"grad,vmap"`, or as a list of functions.
        backend: whether to compile the function for XLA's figures. By default, if it has no more than 500 equations.
        measure: whether to run it, by `pb.replay` on NumPy, operation by operation, for the time that each takes. Then the
            steps that its loops take for these arguments count, and the branches that are taken.

    Returns:
        A `CostTable`. It prints by the user's lines; `.by("equation")` and others show it in other ways, `.rows` are records.

    Raises:
        LeafError: a leaf of the arguments is neither an array, nor a number, nor an ArrayType; or has no values, which
            measuring takes. TypeError: `backend` or `measure` is no bool. ValueError: `apply` cannot be read.

    Example:
        >>> import pullback as pb
        >>> f32 = pb.ArrayType((64, 64), "float32")
        >>> table = pb.cost(pb.vmap(lambda x, w: pb.numpy.tanh(x @ w), in_axes=(0, None)), f32, f32)
        >>> table.total.flops == 2 * 64**3, table.total.transcendentals == 64**2
        (True, True)
        >>> table.compiled["flops"] == table.total.flops
        True
    """
    check_callable(fun, "cost")
    check_flags("cost", measure=measure, **({} if backend is None else {"backend": backend}))
    taken = traced("cost", apply_transformations(fun, apply), args, kwargs)
    ran: dict[tuple[int, int], Ran] = {}
    if measure:
        for name, leaf in zip(taken.names, taken.leaves):
            if isinstance(leaf, ArrayType):
                raise LeafError(
                    f"cost with measure=True runs the function, but argument {name} is the type {leaf}, which has no values."
                    " Pass an array, or leave measure out."
                )
        run = replay(taken.program, *taken.leaves)
        ran = {(place, one.id): Ran(*found) for one in run.equations for place, found in one.within.items()}
    found, why = compiled_figures(taken, backend)
    return CostTable(taken.program, tuple(equation_costs(taken.program, ran)), found, why, "line")
