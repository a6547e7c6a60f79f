"""`pb.profile`: how long the operations of a compiled function take, by what XLA's profiler records, and whose they are."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, Self

from pullback.analysis.compiled import devices_of
from pullback.analysis.counting import EquationCost, equation_costs, place_of, source_of
from pullback.analysis.measuring import Measured, Part, measured_alone, measured_by_xla
from pullback.analysis.tables import Column, Shown, Table, count, duration, part, size
from pullback.api.applied import Apply, apply_transformations
from pullback.api.compiled import Jitted, jit
from pullback.api.devices import block_until_ready
from pullback.api.functions import INTEGERS, Function, check_callable, check_flags
from pullback.api.traced import call_paths
from pullback.core.brief import brief, counted
from pullback.core.errors import LeafError
from pullback.core.source import Source, api_boundary
from pullback.core.tracing import Tracer
from pullback.core.trees import kind_of
from pullback.core.types import ArrayType, ShapeDtypeStruct
from pullback.ops.contract import dot_general
from pullback.ops.shape import transpose
from pullback.program.cost import total
from pullback.program.equation import Atom, Equation
from pullback.program.printing import heading, share_counts
from pullback.program.program import Program
from pullback.program.running import runs_of

MOST_ROWS = 24  # that are shown of a table; `rows` has all
RUNS, SECONDS, LEAST = 20, 2.0, 3  # how often a function runs by default: so often, or for so long, but so often at least
UNKNOWN, COPY = "unknown", "a copy"
VIEWS = ("operation", "line")


class Timing(NamedTuple):
    """How long something took, in seconds: the shortest time, and the median."""

    min: float
    median: float


class ProfileRow(NamedTuple):
    """A row of a profile.

    Attributes:
        name: XLA's name of the operation, or the user's line. what: the primitives that it comes from; "a copy", which XLA
            makes for itself; or "unknown".
        equations: the ids of the equations that it comes from; several where XLA merged them, none where it does not tell.
        file, line, code: the user's line, if it is one; else empty, and 0.
        times: how often it ran in a run. min, median: how long it took in a run, in seconds. share: of all operations.
        flops: the work by the model of `pb.cost`; None where it is not known. bytes: of operands and results, each time that it
            ran; None where other operations move them, or only a part is touched.

    Example:
        >>> import pullback as pb
        >>> row = pb.profile(lambda x: x @ x, pb.numpy.ones((64, 64)), runs=2).rows[0]
        >>> row.what, row.flops == 64 * 64 * 127, row.flops_per_second > 0.0
        ('dot_general', False, True)
    """

    name: str
    what: str
    equations: tuple[int, ...]
    file: str
    line: int
    code: str
    times: float
    min: float
    median: float
    share: float
    flops: float | None
    bytes: float | None

    @property
    def flops_per_second(self) -> float | None:
        """`flops` over the median time; None where these are not known.

        Example:
            >>> import pullback as pb
            >>> pb.profile(lambda x: x + 1.0, pb.numpy.ones(64), runs=2).rows[0].flops_per_second > 0.0
            True
        """
        return None if self.flops is None or not self.median else self.flops / self.median


class Profile(Shown):
    """Where the time of a function goes: `print(profile)` shows it by XLA's operations, `profile.by("line")` by your lines.

    Attributes:
        program: the Program that ran. total: how long a call takes, without the profiler: `min` and `median`, in seconds.
        by_jit: likewise, of a call as jit runs it, where that is with code of pullback's own; None where XLA's code runs.
        runs: how often it ran under the profiler. alone: whether equations were measured one by one, each compiled by itself.
        view: by what the rows are.

    Example:
        >>> import pullback as pb
        >>> found = pb.profile(lambda x: pb.numpy.tanh(x @ x), pb.numpy.ones((64, 64)), runs=3)
        >>> print(sorted([row.what for row in found.rows if row.equations]))
        ['dot_general', 'tanh']
        >>> found.total.median > 0.0
        True
    """

    def __init__(
        self, program: Program, total: Timing, by_jit: Timing | None, measured: Measured, notes: Sequence[str], view: str
    ) -> None:
        self.program, self.total, self.by_jit, self.view = program, total, by_jit, view
        self.runs, self.alone = measured.runs, measured.alone
        self._measured, self._notes = measured, tuple(notes)
        self._equations = {one.id: one for inner in share_counts(program)[0] for one in inner.equations}
        self._makers: dict[Atom, Equation] = {out: one for one in self._equations.values() for out in one.outputs}
        self._costs = _by_id(equation_costs(program))
        self.calls: dict[int, list[str]] = {}
        _note_paths(program, [], self.calls)

    @api_boundary
    def by(self, view: str) -> Self:
        """The same times in other rows.

        Arguments:
            view: "operation", as they were measured, or "line", of the user's code; what XLA merged of several lines is a row.

        Returns:
            A `Profile`.

        Raises:
            ValueError: there is no such view.

        Example:
            >>> import pullback as pb
            >>> [row.what for row in pb.profile(lambda x: x * x, pb.numpy.ones(8), runs=2).by("line").rows]
            ['mul']
        """
        if view not in VIEWS:
            raise ValueError(f"Profile.by takes one of {', '.join(map(repr, VIEWS))}, but got {brief(view)}.")
        return type(self)(self.program, self.total, self.by_jit, self._measured, self._notes, view)

    @property
    def rows(self) -> list[ProfileRow]:
        """The rows as records, all of them, those that take most time first.

        Example:
            >>> import pullback as pb
            >>> rows = pb.profile(lambda x: x * x, pb.numpy.ones(8), runs=2).rows
            >>> round(sum([row.share for row in rows]), 3)
            1.0
        """
        found = self._operations()
        if self.view == "line":
            groups: dict[Any, list[ProfileRow]] = {}
            for row in found:
                groups.setdefault(self._lines(row.equations), []).append(row)
            found = [self._of_lines(lines, group) for lines, group in groups.items()]
        return sorted(found, key=lambda row: -row.median)

    def _operations(self) -> list[ProfileRow]:
        named = {id for one in self._measured.parts for id in one.equations}
        parts = [self._with_product(one, named) for one in self._measured.parts]
        medians = [statistics.median(one.seconds) for one in parts]
        whole = sum(medians) or 1.0
        largest: dict[int, int] = {}  # by equation, the part in which most of its time goes: there it is counted
        for i, one in enumerate(parts):
            for id in one.equations:
                if id not in largest or medians[i] > medians[largest[id]]:
                    largest[id] = i
        rows = []
        for i, (one, median) in enumerate(zip(parts, medians)):
            known = [id for id in one.equations if id in self._equations]
            lines = self._lines(known)
            flops = self._flops([id for id in known if largest[id] == i]) if known else None
            file, line, code = lines[0] if len(lines) == 1 else ("", 0, "")
            what = self._words(known) if known else COPY if one.opcode == "copy" else UNKNOWN
            whose = one.name, what, tuple(known), file, line, code
            rows.append(ProfileRow(*whose, one.times, min(one.seconds), median, median / whole, flops, one.bytes))
        return rows

    def _with_product(self, one: Part, named: set[int]) -> Part:
        """A matrix product that bears the name of a transposition alone, which XLA made part of it, with its own equation."""
        found = [self._equations[id] for id in one.equations if id in self._equations]
        if one.opcode != "dot" or not found or any([equation.primitive is not transpose for equation in found]):
            return one
        makers = [self._makers.get(equation.inputs[0]) for equation in found]
        products = [made.id for made in makers if made is not None and made.primitive is dot_general and made.id not in named]
        return one._replace(equations=(*products, *one.equations))

    def _flops(self, ids: Sequence[int]) -> float | None:
        """What equations cost together; None if that depends on how many steps a loop took."""
        found = [self._costs[id] for id in ids if id in self._costs]
        costs = [one for one in found if self.alone or not one.holds]  # those that are held are rows of their own
        return None if any([one.open or one.cost.loops for one in costs]) else sum([_work(one) for one in costs])

    def _inner(self, ids: Iterable[int]) -> list[Equation]:
        """The equations of these ids, without those that hold others of them."""
        found = [self._equations[id] for id in ids if id in self._equations]
        return [one for one in found if not (one.id in self._costs and self._costs[one.id].holds)] or found

    def _words(self, ids: Sequence[int]) -> str:
        """The primitives of equations."""
        inner = self._inner(ids)
        names = list(dict.fromkeys([str(one.primitive) for one in inner]))
        shown = ", ".join(names[:4]) + (f", {len(names) - 4} more" if len(names) > 4 else "")
        return f"{shown} (merged)" if len(inner) > 1 else shown

    def _lines(self, ids: Iterable[int]) -> tuple[tuple[str, int, str], ...]:
        """The user's lines of equations, each once."""
        sources = [source_of(one) for one in self._inner(ids)]
        return tuple(dict.fromkeys([(one.file, one.line, one.text) for one in sources if one is not None]))

    def _of_lines(self, lines: tuple[tuple[str, int, str], ...], group: Sequence[ProfileRow]) -> ProfileRow:
        name = _places(lines)
        ids = tuple(dict.fromkeys([id for row in group for id in row.equations]))
        file, line, code = lines[0] if len(lines) == 1 else ("", 0, "; ".join([text for *_, text in lines[:3]]))
        # the sums of medians, not the median of sums: a line's operations are rows of the other view
        least, median, share = [sum([getattr(row, field) for row in group]) for field in ("min", "median", "share")]
        times = max([row.times for row in group])
        known = [row.flops for row in group if row.flops is not None]
        moved = [row.bytes * row.times for row in group if row.bytes is not None]
        flops, bytes = sum(known) if known else None, sum(moved) if len(moved) == len(group) else None
        what = self._words(ids) if ids else ", ".join(sorted({row.what for row in group}))
        whose = name or what, what, ids, file, line, code
        return ProfileRow(*whose, times, least, median, share, flops, bytes)

    # ---- shown ----

    def tables(self) -> list[Table]:
        """What it shows.

        Returns:
            A list of one table, with a `title`, `columns`, `rows` and `notes`.

        Example:
            >>> import pullback as pb
            >>> (table,) = pb.profile(lambda x: x + 1.0, pb.numpy.ones(8), runs=2).tables()
            >>> dict(zip([column.heading for column in table.columns], table.rows[0]))["of"]
            'add'
        """
        rows = self.rows
        at = [_places(self._lines(row.equations)) if self.view == "operation" else "" for row in rows[:MOST_ROWS]]
        cells = [_cells(row, self.view, place) for row, place in zip(rows, at)]
        heads = ("operation", "of") if self.view == "operation" else ("line", "of")
        columns = [
            Column("time", True), Column("min", True), Column("of all", True), Column("times", True), Column(heads[0]),
            Column(heads[1]), Column("FLOP/s", True), Column("B/s", True), Column("at"), Column("code", code=True),
        ]  # fmt: skip
        notes = [f"... and {len(rows) - len(cells):,} more: .rows has all"] if len(cells) < len(rows) else []
        if any([row.what == UNKNOWN for row in rows]):
            notes.append("unknown: XLA does not tell of which equation it made the operation")
        takes = f"{duration(self.total.median)}, {duration(self.total.min)} at least"
        if self.by_jit is not None:
            takes = f"{duration(self.by_jit.median)} as jit runs it, with code of pullback's own; with XLA's {takes}"
        return [Table(f"{heading(self.program)}: a call takes {takes}", columns, cells, [*notes, *self._notes]).without_empty()]

    def flame(self) -> dict[str, Any]:
        """The times as a flame graph: the user's functions that called one another, their lines, and in these the operations.

        Returns:
            `{"unit": "s", "total": seconds, "rows": [...]}`, as docs/explorer-format.md says. Each row has a `name`, a `time`,
            which includes that of the deeper rows behind it, a `depth`, and `from`: the ids of equations.

        Example:
            >>> import pullback as pb
            >>> def f(x):
            ...     return pb.numpy.sum(x * x)
            >>> rows = pb.profile(f, pb.numpy.ones(8), runs=2).flame()["rows"]
            >>> [(row["depth"], row["name"].split(":")[0]) for row in rows][:2]
            [(0, 'f'), (1, 'f')]
        """
        root = _Frame(self.program.name)
        for row in self._operations():
            frame = root
            for name in self._path(row.equations):
                frame = frame.inside.setdefault(name, _Frame(name))
            label = f"{row.what} [{row.name}]" if row.what != row.name else row.name
            frame.inside[label, row.name] = _Frame(label, row.median, row.equations)
        rows = list(root.rows(0))
        return {"unit": "s", "total": rows[0]["time"], "rows": rows}

    def _path(self, ids: Sequence[int]) -> list[str]:
        """The calls, outermost first, in which all of these equations stand."""
        paths = [self.calls[id] for id in ids]
        if not paths:
            return [UNKNOWN]
        levels = zip(*paths)  # as many as the shortest has
        return [names[0] for names in itertools.takewhile(lambda names: len(set(names)) == 1, levels)]

    def save_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Write what ran when to a file for Perfetto (ui.perfetto.dev) and Chrome (about:tracing), with lines and equations.

        Arguments:
            path: the file, which is replaced; compressed if its name ends with `.gz`.

        Example:
            >>> import json, pathlib, tempfile
            >>> import pullback as pb
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     file = pathlib.Path(folder, "trace.json")
            ...     pb.profile(lambda x: x * x, pb.numpy.ones(8), runs=2).save_perfetto(file)
            ...     events = json.loads(file.read_text())["traceEvents"]
            >>> {event["args"]["equations"] for event in events if event["ph"] == "X"}
            {'mul'}
        """
        told = {row.name: row for row in self._operations()}
        events: list[dict[str, Any]] = [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": heading(self.program)}}]
        for number in sorted({one.thread for one in self._measured.events}):
            events.append({"ph": "M", "pid": 1, "tid": number, "name": "thread_name", "args": {"name": f"thread {number}"}})
        for one in self._measured.events:
            row = told[one.name]
            args = {"equations": row.what, "ids": list(row.equations), "run": one.run}
            args |= {"line": f"{place_of(row.file, row.line)}: {row.code}"} if row.line else {}
            times = {"ts": one.start / 1e3, "dur": one.duration / 1e3}
            events.append({"ph": "X", "pid": 1, "tid": one.thread, "name": one.name, "args": args, **times})
        text = json.dumps({"displayTimeUnit": "ns", "traceEvents": events})
        file = Path(os.fspath(path))
        file.write_bytes(gzip.compress(text.encode()) if file.name.endswith(".gz") else text.encode())


class _Frame:
    """A frame of a flame graph, with those that it called."""

    def __init__(self, name: str, time: float = 0.0, equations: Sequence[int] = ()) -> None:
        self.name, self.own, self.equations = name, time, equations
        self.inside: dict[Any, _Frame] = {}

    @property
    def time(self) -> float:
        return self.own + sum([one.time for one in self.inside.values()])

    def rows(self, depth: int) -> Iterable[dict[str, Any]]:
        below = [row for one in sorted(self.inside.values(), key=lambda one: -one.time) for row in one.rows(depth + 1)]
        ids = list(dict.fromkeys([*self.equations, *[id for row in below for id in row["from"]]]))
        return [{"name": self.name, "time": self.time, "depth": depth, "from": ids}, *below]


def _note_paths(program: Program, around: list[str], paths: dict[int, list[str]]) -> None:
    """The calls in which each equation of a Program stands, and those of the Programs in it."""
    for equation in program.equations:
        own = _calls(source_of(equation))
        path = own if own[: len(around)] == around else [*around, *own]
        if paths.setdefault(equation.id, path) is path:
            for run in runs_of(equation):
                _note_paths(run.program, path, paths)


def _calls(source: Source | None) -> list[str]:
    """The lines of the user's that called one another, the outermost first."""
    found: list[str] = []
    while source is not None:
        scope = f" in {'/'.join(source.scope)}" if source.scope else ""
        found.append(f"{source.function}:{source.line}{scope}  {source.text}")
        source = source.caller
    return found[::-1] or [UNKNOWN]


def _by_id(found: Iterable[EquationCost]) -> dict[int, EquationCost]:
    """What equations cost, by their ids; one that several Programs share, in all of these together."""
    costs: dict[int, EquationCost] = {}
    for one in found:
        if (before := costs.get(one.id)) is not None:
            one = one._replace(cost=total([before.cost, one.cost]), open=before.open or one.open)
        costs[one.id] = one
    return costs


def _work(one: EquationCost) -> float:
    return one.cost.work


def _places(lines: Sequence[tuple[str, int, str]]) -> str:
    """Where lines are, the first few of them: `model.py:3, model.py:5`."""
    return ", ".join([place_of(file, line) for file, line, _ in lines[:3]]) + (", ..." if len(lines) > 3 else "")


def _cells(row: ProfileRow, view: str, at: str) -> list[str]:
    moved = None if row.bytes is None or not row.median else row.bytes * (row.times if view == "operation" else 1) / row.median
    rates = [count(row.flops_per_second) if row.flops_per_second else "", size(moved).removesuffix("B") if moved else ""]
    times = f"x{row.times:,.4g}" if row.times != 1 else ""
    return [duration(row.median), duration(row.min), part(row.share), times, row.name, row.what, *rates, at, row.code]


def _timed(run: Callable[[], object], runs: int | None) -> tuple[Timing, int]:
    """How long a call takes, and how often it was made."""
    times: list[float] = []
    while len(times) < (RUNS if runs is None else runs):
        if runs is None and len(times) >= LEAST and sum(times) > SECONDS:
            break
        began = perf_counter()
        block_until_ready(run())
        times.append(perf_counter() - began)
    return Timing(min(times), statistics.median(times)), len(times)


def _as_jit_runs_it(jitted: Jitted, args: tuple[Any, ...], kwargs: dict[str, Any], runs: int) -> Timing:
    """How long a call takes where code of our own runs it."""
    for _ in range(LEAST):
        block_until_ready(jitted(*args, **kwargs))
    return _timed(lambda: jitted(*args, **kwargs), runs)[0]


@api_boundary
def profile(
    fun: Function, *args: Any, apply: Apply = "", runs: int | None = None, alone: bool = False, **kwargs: Any
) -> Profile:
    """How long the operations of a compiled function take, and of which of your lines and equations they are: measured.

    The function is compiled by XLA as jit compiles it, except that each operation bears the ids of the equations that it comes
    from. It runs some times by itself, and then under XLA's profiler. An operation that XLA merged of several equations says
    so, and one of which it does not tell where it is from is "unknown". docs/profiles.md shows how to read it.

    Arguments:
        fun: a function of arrays and pytrees; any transformation of one. It is called with these arguments several times, and
            what it does besides returning values is done each time.
        args, kwargs: what to call it with, or what is made of it by `apply`. None of them is donated.
        apply: transformations to apply to it first, as text, `"grad,vmap"`, or as a list of functions.
        runs: how often it runs, in each of the two ways; by default 20 times, or for two seconds.
        alone: whether to measure each equation by itself, compiled alone, rather than what XLA makes of all of them together;
            also where XLA's profiler records no operations.

    Returns:
        A `Profile`: it prints as a table; `.rows` are records, `.by("line")` shows lines, `.flame()` is a flame graph for
        `pb.explore`, `.save_perfetto(path)` writes a trace.

    Raises:
        LeafError: an argument is a type, or a traced value: nothing can run. ValueError: `runs` is not 1 or more, or
            `apply` cannot be read.
        RuntimeError: another profile is being recorded (`pb.profiler.start_trace`).

    Example:
        >>> import pullback as pb
        >>> found = pb.profile(pb.grad(lambda x: pb.numpy.sum(pb.numpy.sin(x @ x))), pb.numpy.ones((32, 32)), runs=3)
        >>> {row.file.split("/")[-1] for row in found.rows if row.line} == {found.rows[0].file.split("/")[-1]}
        True
    """
    check_callable(fun, "profile")
    fun = apply_transformations(fun, apply)
    check_flags("profile", alone=alone)
    if runs is not None and (isinstance(runs, bool) or not isinstance(runs, INTEGERS) or runs < 1):
        raise ValueError(f"profile takes runs as a number of runs, 1 or more, but got {brief(runs)}.")
    trees = kind_of(fun)
    for i, leaf in enumerate(trees.flatten((args, kwargs))[0]):
        if isinstance(leaf, (ArrayType, ShapeDtypeStruct, Tracer)):
            traced = isinstance(leaf, Tracer)
            cure = "Call it outside of transformations." if traced else "pb.cost takes types."
            raise LeafError(
                f"profile runs the function, so it needs arrays, but argument {call_paths(fun, args, kwargs, trees)[i]} is"
                f" {brief(leaf)}, {'a traced value' if traced else 'a type'}. {cure}"
            )
    jitted = fun if isinstance(fun, Jitted) else jit(fun)
    stage = jitted.trace(*args, **kwargs)
    lowered = stage.lower()
    measured: Measured | None = None
    by_jit: Timing | None = None
    notes: list[str] = []
    if not alone:
        run, make = measured_by_xla(lowered, args, kwargs)
        block_until_ready(run())
        total, many = _timed(run, runs)
        measured = make(many)
        tier = jitted.explain(*args, **kwargs)
        if tier.tier != "xla":
            notes.append(f"these are the operations of XLA's code; jit runs code of pullback's own, which has none ({tier})")
            if any(stage.donated):
                notes.append("the time of a call is that of XLA's code, too: as jit runs it, it uses up what is donated")
            else:
                by_jit = _as_jit_runs_it(jitted, args, kwargs, many)
        if not measured.parts:
            notes.append("XLA's profiler recorded no operations here: equations were measured one by one")
    if measured is None or not measured.parts:
        compiled = jitted.lower(*args, **kwargs).compile()
        block_until_ready(compiled(*args, **kwargs))
        total, many = _timed(lambda: compiled(*args, **kwargs), runs)
        measured = measured_alone(lowered, args, kwargs, many)
        notes.append("each equation was compiled and run by itself; in one program XLA merges them, and a call costs less")
    spent = sum([statistics.median(one.seconds) for one in measured.parts])
    many = devices_of(stage.program)
    added = f", on {many} devices added up" if many > 1 else ""
    notes.append(f"{counted(measured.runs, 'run')}; operations take {duration(spent)} together{added}")
    return Profile(stage.program, total, by_jit, measured, notes, "operation")
