"""How two Programs differ: rows of data, and a text like that of `diff -u`, in colour on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from pullback.core.bars import output
from pullback.core.brief import counted
from pullback.core.lazy import lazy_module
from pullback.core.source import Source
from pullback.program.equality import structure_of
from pullback.program.equation import Atom, Equation, Graph, Variable, is_record, parts_of, record_fields
from pullback.program.matching import Matching, constant_key, hashable_key, longest_increasing
from pullback.program.opening import matched
from pullback.program.printing import PLAIN, Printer, heading, name_variables

if TYPE_CHECKING:
    import html
else:
    html = lazy_module("html")

SAME, CHANGED, ADDED, REMOVED, MOVED = "same", "changed", "added", "removed", "moved"
CONTEXT = 2  # lines around a difference that are shown as they are
MARKS = {SAME: " ", ADDED: "+", REMOVED: "-", MOVED: "~"}
_ANSI = {"+": "\x1b[32m", "-": "\x1b[31m", "~": "\x1b[33m", "@": "\x1b[36m"}
_HTML = {"+": "#1a7f37", "-": "#cf222e", "~": "#9a6700", "@": "#0969da"}


class DiffRow(NamedTuple):
    """A part of two Programs, side by side.

    Attributes:
        kind: "same", "changed", "added", "removed", or "moved", which is what comes at another place and is the same.
        part: what it is: "input", "constant", "equation" or "output".
        what: of a changed one, in what: a tuple of names, "primitive", "operands", "types", "value" or parameters' names. Of
            one that was added or removed, ("wrapper",) if what it runs is in the other Program by itself, and follows here.
        before, after: it in each of the Programs, as text, in the names of the second; empty where it is not there.
        depth: how many equations hold the Program in which it is. id_before, id_after: the ids of equations.
        source: the user's line of an equation, of one that is in both that in the second; None where there is none.
        source_before: of one that is in both, that in the first.

    Example:
        >>> import pullback as pb
        >>> (row,) = [row for row in pb.program_diff(lambda x: x * 2.0, lambda x: x * 3.0, 1.0).rows if row.kind != "same"]
        >>> row.kind, row.what, row.before, row.after
        ('changed', ('operands',), 'b:~f32[]:cpu(0) = mul a 2.0', 'b:~f32[]:cpu(0) = mul a 3.0')
    """

    kind: str
    part: str
    what: tuple[str, ...]
    before: str
    after: str
    depth: int
    id_before: int | None = None
    id_after: int | None = None
    source: Source | None = None
    source_before: Source | None = None


class ProgramDiff:
    """How two Programs differ. It is false if they do not: if they are equal up to the names of variables, and sources.

    Attributes:
        before, after: the Programs.

    Example:
        >>> import pullback as pb
        >>> difference = pb.program_diff(lambda x: pb.numpy.sin(x) * 2.0, lambda x: pb.numpy.cos(x) * 2.0, 1.0)
        >>> print(difference)
        --- <lambda>(~f32[])
        +++ <lambda>(~f32[])
          a:~f32[]:cpu(0)
        - b:~f32[]:cpu(0) = sin a
        + b:~f32[]:cpu(0) = cos a
          c:~f32[]:cpu(0) = mul b 2.0
          return c
        1 changed, 1 alike
        >>> bool(difference), bool(pb.program_diff(difference.before, difference.before))
        (True, False)
    """

    def __init__(self, before: Graph, after: Graph) -> None:
        self.before, self.after = before, after
        self._rows: list[DiffRow] | None = None

    @property
    def rows(self) -> list[DiffRow]:
        """All parts of both Programs in an order that serves both, those that are the same as well.

        Example:
            >>> import pullback as pb
            >>> [(row.kind, row.part) for row in pb.program_diff(lambda x: x, lambda x: x + 1.0, 1.0).rows]
            [('same', 'input'), ('added', 'equation'), ('changed', 'output')]
        """
        if self._rows is None:
            self._rows = list(_Rows(self.before, self.after).of(self.before, self.after, 0))
        return self._rows

    @property
    def counts(self) -> dict[str, int]:
        """How many equations there are of each kind.

        Example:
            >>> import pullback as pb
            >>> pb.program_diff(lambda x: x * 2.0, lambda x: x * 2.0 + 1.0, 1.0).counts
            {'same': 1, 'added': 1}
        """
        found: dict[str, int] = {}
        for row in self.rows:
            if row.part == "equation":
                found[row.kind] = found.get(row.kind, 0) + 1
        return found

    def __bool__(self) -> bool:
        return structure_of(self.before) is not structure_of(self.after)

    def text(self, context: int | None = CONTEXT, *, sources: bool = False) -> str:
        """The difference as text: lines that begin with `-` are of the first Program, with `+` of the second, with `~` of both,
        at different places.

        Arguments:
            context: how many lines around each difference are shown that are the same; None for all.
            sources: end the lines that differ with the user's line, as a comment.

        Returns:
            A string; an empty one where there is no difference.

        Example:
            >>> import pullback as pb
            >>> print(pb.program_diff(lambda x: x * 2.0, lambda x: x * 3.0, 1.0).text(context=0))
            --- <lambda>(~f32[])
            +++ <lambda>(~f32[])
            @@ 1 line alike @@
            - b:~f32[]:cpu(0) = mul a 2.0
            + b:~f32[]:cpu(0) = mul a 3.0
            @@ 1 line alike @@
            1 changed
        """
        return "\n".join([line for _, line in self._lines(context, sources)])

    def _lines(self, context: int | None, sources: bool) -> Iterator[tuple[str, str]]:
        """The lines, each with the mark by which it is coloured."""
        if not self:
            return
        yield "-", f"--- {heading(self.before)}"
        yield "+", f"+++ {heading(self.after)}"
        rows = self.rows
        near = _near(rows, len(rows) if context is None else context)
        hidden = 0
        for row, shown in zip(rows, near):
            if not shown:
                hidden += 1
                continue
            if hidden:
                yield "@", _hidden(hidden)
            hidden = 0
            yield from _row_lines(row, sources)
        if hidden:
            yield "@", _hidden(hidden)
        yield " ", self._summary()

    def _summary(self) -> str:
        """How many equations of each kind there are, and how many other parts that differ."""
        counts = self.counts
        words = {CHANGED: "changed", ADDED: "added", REMOVED: "removed", MOVED: "moved", SAME: "alike"}
        parts = [f"{counts[kind]} {word}" for kind, word in words.items() if counts.get(kind)]
        others = Counter([(row.part, row.kind) for row in self.rows if row.part != "equation" and row.kind != SAME])
        parts += [f"{counted(many, part)} {words[kind]}" for (part, kind), many in others.items()]
        return ", ".join(parts)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        counts = ", ".join([f"{count} {kind}" for kind, count in self.counts.items()]) or "no equations"
        return f"<ProgramDiff of {self.before.name} and {self.after.name}: {counts}>"

    def _repr_html_(self) -> str:
        lines = []
        for mark, line in self._lines(CONTEXT, True):
            escaped = html.escape(line)
            lines.append(f'<span style="color:{_HTML[mark]}">{escaped}</span>' if mark in _HTML else escaped)
        return f"<pre>{chr(10).join(lines) or 'no difference'}</pre>"

    def show(
        self, color: bool | None = None, *, context: int | None = CONTEXT, sources: bool = True, file: TextIO | None = None
    ) -> None:
        """Print it.

        Arguments:
            color: whether to colour it; by default, when `file` is a terminal. context, sources: as for `text`.
            file: where to print it; by default, standard output.

        Example:
            >>> import pullback as pb
            >>> pb.program_diff(lambda x: x * 2.0, lambda x: x * 2.0, 1.0).show()
            no difference
        """
        out, colored = output(file, color)
        lines = list(self._lines(context, sources)) or [(" ", "no difference")]
        print(
            "\n".join([f"{_ANSI[mark]}{text}\x1b[0m" if colored and mark in _ANSI else text for mark, text in lines]), file=out
        )


def _hidden(count: int) -> str:
    return f"@@ {counted(count, 'line')} alike @@"


def _near(rows: Sequence[DiffRow], context: int) -> list[bool]:
    """Which rows are at most so far from one that differs; and those that hold them."""
    shown = [False] * len(rows)
    last = -context - 1
    for i, row in enumerate(rows):
        last = i if row.kind != SAME else last
        shown[i] = i - last <= context
    following = len(rows) + context + 1
    for i in reversed(range(len(rows))):
        following = i if rows[i].kind != SAME else following
        shown[i] = shown[i] or following - i <= context
    for i, near in enumerate(shown):  # to say that one line is left out takes a line
        shown[i] = near or (context > 0 and all([shown[j] for j in (i - 1, i + 1) if 0 <= j < len(rows)]))
    return shown


def _row_lines(row: DiffRow, sources: bool) -> Iterator[tuple[str, str]]:
    indent = "    " * row.depth
    comment, comment_before = [f"  # {one}" if sources and one is not None else "" for one in (row.source, row.source_before)]
    if row.kind == CHANGED and row.what == ("programs",):  # the rows that follow say in what
        yield " ", f"  {indent}{row.after}"
    elif row.kind == CHANGED:
        yield "-", f"- {indent}{row.before}{comment_before}"
        yield "+", f"+ {indent}{row.after}{comment}"
    else:
        mark = MARKS[row.kind]
        yield mark, f"{mark} {indent}{row.after or row.before}{comment if row.kind != SAME else ''}"


# ---- the rows ----------------------------------------------------------------------------------------------------------


class _Brief(Printer):
    """Writes equations without the Programs in them."""

    def nested(self, program: Graph, indent: str) -> str:
        return f"{{{program.name}}}"


class _Rows:
    """Compares Programs, and those in their equations."""

    def __init__(self, before: Graph, after: Graph) -> None:
        self.printers = _Brief(before, False, PLAIN, {}), _Brief(after, False, PLAIN, {})
        self.seen: set[tuple[int, int]] = set()  # pairs of Programs that have been compared

    def of(self, before: Graph, after: Graph, depth: int) -> Iterator[DiffRow]:
        """The rows of two Programs."""
        found, *opened = matched(before, after)
        heads = opened[0].heads | opened[1].heads
        before, after = found.before, found.after
        names = name_variables(after)
        others = {x: names[y] for x, y in found.values.items() if y in names}
        for x, name in name_variables(before).items():
            others.setdefault(x, f"{name}'")  # a name that the second Program has not
        texts = _Texts(self.printers, others, names, heads)
        yield from self._inputs(found, texts, depth)
        yield from self._constants(found, texts, depth)
        yield from self._equations(found, texts, depth)
        yield self._outputs(found, texts, depth)

    def _inputs(self, found: Matching, texts: _Texts, depth: int) -> Iterator[DiffRow]:
        left = iter(found.before.inputs)
        images = {y: x for x, y in found.values.items()}
        given = set(found.before.inputs)
        for y in found.after.inputs:
            partner = images.get(y)
            if partner is None or partner not in given:
                yield DiffRow(ADDED, "input", (), "", texts.of(1, y), depth)
                continue
            for x in left:
                if x is partner:
                    break
                yield DiffRow(REMOVED, "input", (), texts.of(0, x), "", depth)
            same = partner.placed_type is y.placed_type
            kind, what = (SAME, ()) if same else (CHANGED, ("types",))
            yield DiffRow(kind, "input", what, texts.of(0, partner), texts.of(1, y), depth)
        for x in left:
            yield DiffRow(REMOVED, "input", (), texts.of(0, x), "", depth)

    def _constants(self, found: Matching, texts: _Texts, depth: int) -> Iterator[DiffRow]:
        before, after = dict(found.before.constants), dict(found.after.constants)
        images = {y: x for x, y in found.values.items() if x in before}
        for x, array in before.items():
            if found.values.get(x) not in after:
                yield DiffRow(REMOVED, "constant", (), texts.constant(0, x, array), "", depth)
        for y, array in after.items():
            shown, partner = texts.constant(1, y, array), images.get(y)
            if partner is None:
                yield DiffRow(ADDED, "constant", (), "", shown, depth)
                continue
            same = constant_key(partner, before[partner]) == constant_key(y, array)
            kind, what = (SAME, ()) if same else (CHANGED, ("value",))
            yield DiffRow(kind, "constant", what, texts.constant(0, partner, before[partner]), shown, depth)

    def _equations(self, found: Matching, texts: _Texts, depth: int) -> Iterator[DiffRow]:
        places = {a: i for i, a in enumerate(found.before.equations)}
        partner = found.partner
        in_order = longest_increasing([places[partner[b]] for b in found.after.equations if b in partner])
        taken = {a: b for b, a in partner.items()}
        left = [a for a in found.before.equations if a not in taken]
        next_left = 0
        for b in found.after.equations:
            a = partner.get(b)
            if a is not None and places[a] in in_order:
                while next_left < len(left) and places[left[next_left]] < places[a]:
                    yield self._alone(REMOVED, left[next_left], texts, depth)
                    next_left += 1
            if a is None:
                yield self._alone(ADDED, b, texts, depth)
            else:
                yield from self._pair(a, b, places[a] in in_order, found, texts, depth)
        for a in left[next_left:]:
            yield self._alone(REMOVED, a, texts, depth)

    def _alone(self, kind: str, equation: Equation, texts: _Texts, depth: int) -> DiffRow:
        what = ("wrapper",) if equation in texts.heads else ()
        if kind == ADDED:
            return DiffRow(kind, "equation", what, "", texts.equation(1, equation), depth, None, equation.id, equation.source)
        return DiffRow(kind, "equation", what, texts.equation(0, equation), "", depth, equation.id, None, equation.source)

    def _pair(self, a: Equation, b: Equation, in_order: bool, found: Matching, texts: _Texts, depth: int) -> Iterator[DiffRow]:
        what = _differences(a, b, found)
        inner = list(zip(_held(a), _held(b))) if "programs" in what else []
        kind = CHANGED if what else SAME if in_order else MOVED
        after = texts.equation(1, b)
        shown = texts.equation(0, a) if what else after, after
        yield DiffRow(kind, "equation", what, *shown, depth, a.id, b.id, b.source, a.source)
        for one, other in inner:
            key = id(one), id(other)
            if key not in self.seen and structure_of(one) is not structure_of(other):
                self.seen.add(key)
                yield from self.of(one, other, depth + 1)

    def _outputs(self, found: Matching, texts: _Texts, depth: int) -> DiffRow:
        before, after = found.before.outputs, found.after.outputs
        same = len(before) == len(after) and all([found.same(x, y) for x, y in zip(before, after)])
        first, second = [
            f"return {', '.join([texts.atom(i, atom) for atom in atoms])}" for i, atoms in enumerate((before, after))
        ]
        kind, what = (SAME, ()) if same else (CHANGED, ("operands",))
        return DiffRow(kind, "output", what, first, second, depth)


class _Texts:
    """Writes parts of the two Programs: of the first one with the names that its values have in the second."""

    def __init__(
        self,
        printers: tuple[_Brief, _Brief],
        first: Mapping[Variable, str],
        second: Mapping[Variable, str],
        heads: Mapping[Equation, Equation],
    ) -> None:
        self.printers, self.names, self.heads = printers, (first, second), heads

    def of(self, which: int, variable: Variable) -> str:
        return self.printers[which].declaration(variable, self.names[which])

    def constant(self, which: int, variable: Variable, array: Any) -> str:
        return f"{self.of(which, variable)} = {self.printers[which].constant(array)}"

    def equation(self, which: int, equation: Equation) -> str:
        return self.printers[which].equation(self.heads.get(equation, equation), self.names[which], "")

    def atom(self, which: int, atom: Atom) -> str:
        return self.printers[which].atom(atom, self.names[which], [])


def _differences(a: Equation, b: Equation, found: Matching) -> tuple[str, ...]:
    """In what two equations differ that stand for each other."""
    what = [] if a.primitive is b.primitive else ["primitive"]
    if len(a.inputs) != len(b.inputs) or not all([found.same(x, y) for x, y in zip(a.inputs, b.inputs)]):
        what.append("operands")
    if [x.placed_type for x in a.outputs] != [y.placed_type for y in b.outputs]:
        what.append("types")
    for name in dict.fromkeys([*a.params, *b.params]) if a.primitive is b.primitive else ():
        if name not in a.params or name not in b.params:
            what.append(name)
        elif hashable_key(a.params[name]) != hashable_key(b.params[name]):
            holds = [[part for part in parts_of(one.params[name]) if isinstance(part, Graph)] for one in (a, b)]
            alike = len(holds[0]) == len(holds[1]) and _without_programs(a.params[name]) == _without_programs(b.params[name])
            what += ["programs"] if holds[0] and alike else [name]
    return tuple(dict.fromkeys(what))


def _without_programs(value: Any) -> Any:
    """A key of a parameter, whatever the Programs in it are."""
    if isinstance(value, Graph):
        return None
    if is_record(type(value)):
        return type(value), tuple([_without_programs(item) for _, item in record_fields(value)])
    if type(value) is tuple:
        return tuple([_without_programs(item) for item in value])
    return hashable_key(value)


def _held(equation: Equation) -> list[Graph]:
    return [part for value in equation.params.values() for part in parts_of(value) if isinstance(part, Graph)]
