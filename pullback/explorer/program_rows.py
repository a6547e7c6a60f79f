"""A stage of equations as rows: names, types, batch axes, origins, costs and memory; what loops and branches hold, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pullback.control.cond import cond_as_select
from pullback.core.source import Source
from pullback.explorer.folding import FORWARD, Unit, arranged
from pullback.explorer.lines import scope_of
from pullback.explorer.page_data import PageData, Row
from pullback.explorer.stages import Part, ProgramStage
from pullback.ops.broadcast import broadcast_in_dim
from pullback.ops.shape import reshape, squeeze, transpose
from pullback.program.cost import Cost, equation_cost, total
from pullback.program.equation import Atom, Equation, Graph, Literal, Variable
from pullback.program.liveness import liveness
from pullback.program.printing import literal_text, name_variables, parameter_text
from pullback.program.program import Program, programs_in
from pullback.program.running import runs_of

# Operations that only bring values into another shape: where vmap put them in, they are its plumbing.
PLUMBING: Any = (broadcast_in_dim, transpose, reshape, squeeze)  # the decorator has made Primitives of them


class Inside(NamedTuple):
    """Where a Program is, on the page.

    Attributes:
        times: how often it counts, as in `pb.cost`: as often as it runs in all, on all devices; a loop of which only running it
            tells the steps is one step, and what only says how an operation is transformed counts never. counted: whether it
            runs just so often. held: the bytes that wait outside for the backward pass. around: those in memory outside that
            its own part does not count. scope: the named scopes and functions of what holds it. holder: the row that holds it.
    """

    times: int = 1
    counted: bool = True
    held: int = 0
    around: int = 0
    scope: tuple[str, ...] = ()
    holder: Row | None = None


def add_stage(page: PageData, stage: ProgramStage, dead: frozenset[int] = frozenset()) -> dict[str, Any]:
    """Add a stage to a page.

    Arguments:
        dead: the ids of equations that serve no result.
    """
    made = page.stage(stage.id, name=stage.name, by=stage.by, kind="program", vars=[], rows=[])
    rows: list[Row] = []
    inputs: list[Row] = []
    costs: list[Cost] = []
    for part in stage.parts:
        writer = _Rows(page, stage, part, made["vars"], dead)
        inside = Inside()
        if rows:  # behind the values of a linearization: what is kept of them waits meanwhile
            waiting = sum([one.type.nbytes for one in stage.parts[0].kept.difference(stage.parts[0].program.inputs)])
            inside = Inside(held=waiting, around=waiting)
        own = writer.program(part.program, inside, top=True)
        if part.label:
            rows.append(page.row(head="part", label=part.label, span=len(own)))
        rows += own
        inputs += writer.inputs
        costs.append(total(writer.costs))
    made["rows"] = rows if len(stage.parts) > 1 else _halves(page, rows)
    made["inputs"] = [row["id"] for row in inputs[: len(stage.parts[0].paths)]]
    equations = [row for row in rows if "op" in row]
    made["count"] = len(equations)
    made["flops"], made["bytes"] = sum([one.work for one in costs]), sum([one.bytes for one in costs])
    if equations:
        top = max(equations, key=lambda row: row["live"])
        made["peak"] = [top["id"], top["live"]]
    return made


def _halves(page: PageData, rows: list[Row]) -> list[Row]:
    """The rows of a gradient under two headings, where its forward and its backward pass lie one behind the other."""
    starts = _outermost(rows)
    roles = {i: _roles(rows, i) for i in starts}
    turned = [i for i in starts if "cotangent" in roles[i]]
    first = next((i for i in starts if "op" in rows[i] or "head" in rows[i]), 0)
    if not turned or turned[0] == first:
        return rows
    at = turned[0]
    if any([roles[i] & FORWARD for i in starts if i >= at]):
        return rows
    last = starts[-1] if "ret" in rows[starts[-1]] else len(rows)
    forward, backward = rows[first:at], rows[at:last]
    return [
        *rows[:first],
        page.row(head="part", label="forward", span=len(forward)),
        *forward,
        page.row(head="part", label="backward", span=len(backward)),
        *backward,
        *rows[last:],
    ]


def _outermost(rows: list[Row]) -> list[int]:
    """The places of the rows that no other one holds."""
    found, i = [], 0
    while i < len(rows):
        found.append(i)
        i += 1 + rows[i].get("span", 0)
    return found


def _roles(rows: list[Row], place: int) -> set[str]:
    """The role of an equation, or those of the equations under a heading."""
    row = rows[place]
    if "head" not in row:
        return {row["role"]} if "role" in row else set()
    held = rows[place + 1 : place + 1 + row["span"]]
    return {role for i in _outermost(held) for role in _roles(held, i)}


class _Rows:
    """Writes one part of a stage.

    Attributes:
        inputs: the rows of the part's own inputs. costs: what each equation of the part itself costs.
        before: the stage that this one was made from, if it was made from one.
    """

    def __init__(
        self, page: PageData, stage: ProgramStage, part: Part, variables: list[list[Any]], dead: frozenset[int]
    ) -> None:
        self.page, self.stage, self.part, self.dead = page, stage, part, dead
        self.before = next((one for one in page.data["stages"] if one["id"] == stage.of), None)
        self.variables = variables
        self.numbers: dict[Variable, int] = {}
        self.inputs: list[Row] = []
        self.costs: list[Cost] = []
        memory = liveness(part.program, stage.donated)
        self.live, self.reused = memory.live, memory.reused
        self.taken: dict[Atom, int] = {}  # what is in the memory of a donated input: the id of its row
        page.note_batch_axes(part.program)
        self.kept = part.kept if len(stage.parts) > 1 else _kept(part.program)  # a linearization says what it keeps
        self.transformation = {"value_and_grad": "grad"}.get(stage.id.partition("-")[0], stage.id.partition("-")[0])

    # ---- a Program ----

    def program(self, program: Graph, inside: Inside, top: bool = False) -> list[Row]:
        names = name_variables(program)
        rows = [self.input(variable, i, names, top) for i, variable in enumerate(program.inputs)]
        if top:
            self.inputs = rows[:]
        rows += [self.constant(variable, names) for variable, _ in program.constants]
        held = _waiting(program, self.kept)
        units = []
        for place, equation in enumerate(program.equations):
            made = self.equation(equation, names, inside, inside.held + held[place])
            scope = scope_of(self.source(equation))
            if scope[: len(inside.scope)] == inside.scope:
                scope = scope[len(inside.scope) :]
            units.append(Unit(scope, self.token(made), made))
        rows += arranged(units, self.page.row)
        rows.append(self.page.row(ret=[self.atom(atom) for atom in program.outputs]))
        return rows

    def input(self, variable: Variable, place: int, names: Mapping[Variable, str], top: bool) -> Row:
        row = self.page.row(arg=self.part.paths[place] if top else "", out=[self.declare(variable, names)])
        if variable in self.kept:
            row["kept"] = [0]
        if top and place in self.stage.donated:
            row["donated"] = True
            self.taken[variable] = row["id"]
        if top and (origin := self.origin_of_input(place)):
            row["from"] = [[id, -1] for id in origin]
        return row

    def origin_of_input(self, place: int) -> list[int]:
        """The rows that an input of the stage is, in the stage before."""
        made_by: Equation | int | None = place
        if self.part.made_by:
            made_by = self.part.made_by[place]
        if isinstance(made_by, Equation):
            return [row["id"] for row in self.page.found(self.stage.id, made_by)]
        if self.before is None or made_by is None or made_by >= len(self.before["inputs"]):
            return []
        return [self.before["inputs"][made_by]]

    def constant(self, variable: Variable, names: Mapping[Variable, str]) -> Row:
        return self.page.row(arg="captured", out=[self.declare(variable, names)])

    def declare(self, variable: Variable, names: Mapping[Variable, str]) -> int:
        """The place of a variable in the stage's list, where it is put now."""
        entry: list[Any] = [names.get(variable, "_"), str(variable.placed_type)]
        if axes := self.page.axes.get(variable):
            entry.append(sorted(axes))
        self.numbers[variable] = len(self.variables)
        self.variables.append(entry)
        return self.numbers[variable]

    def atom(self, atom: Atom) -> int | str:
        return literal_text(atom.value, [atom.type]) if isinstance(atom, Literal) else self.numbers[atom]

    def token(self, rows: list[Row]) -> Any:
        """What is the same for equations that do the same at the same line."""
        first = rows[0]
        types = tuple([self.variables[number][1] for number in first["out"]])
        return first["op"], str(first.get("params")), types, first.get("line"), len(rows)

    # ---- an equation ----

    def equation(self, equation: Equation, names: Mapping[Variable, str], inside: Inside, held: int) -> list[Row]:
        """The row of an equation, and behind it those of the Programs that it holds."""
        row = self.page.row(op=equation.primitive.name)
        row["in"] = [self.atom(atom) for atom in equation.inputs]
        row["out"] = [self.declare(variable, names) for variable in equation.outputs]
        bodies = _bodies(equation)
        if shown := [[name, parameter_text(value)] for name, value in equation.params.items() if name not in bodies]:
            row["params"] = shown
        if (line := self.page.lines.row_of(self.source(equation))) is not None:
            row["line"] = line
        parents = self.parents(equation)
        row["role"] = self.role(equation, parents)
        row["from"] = self.origins(equation, parents)
        if not row["from"] and inside.holder is not None:  # what is put in for an operation that holds nothing but its results
            row["role"], row["from"] = inside.holder["role"], [[id, -1] for id, _ in inside.holder["from"]]
        if kept := [i for i, variable in enumerate(equation.outputs) if variable in self.kept]:
            row["kept"] = kept
        own = equation_cost(equation)
        if inside.holder is None:
            self.costs.append(own)
        row["flops"], row["bytes"] = own.work * inside.times, own.bytes * inside.times
        row["live"] = self.live.get(equation.id, 0) + inside.around
        if held:  # those that share the memory of an argument take none
            row["held"] = min(held, row["live"])
        if inside.times > 1 and inside.counted:
            row["times"] = inside.times
        if equation.primitive is cond_as_select:
            row["note"] = (
                "vmap turned a cond into this select: all branches run for every batch element, and one result is taken."
            )
        for result, operand in self.reused.get(equation.id, ()):
            if (donor := self.taken.get(equation.inputs[operand])) is not None:
                row["donated"] = self.taken[equation.outputs[result]] = donor
        self.page.placed(self.stage.id, equation, row)
        if not bodies:
            return [row]
        rows = self.held(equation, bodies, row, inside, held)
        row["span"] = len(rows)
        return [row, *rows]

    def held(
        self, equation: Equation, bodies: Mapping[str, Sequence[Program]], row: Row, inside: Inside, held: int
    ) -> list[Row]:
        """The rows of the Programs that an equation holds."""
        runs = {id(run.program): run for run in runs_of(equation)}
        flat = [(name, body) for name, programs in bodies.items() for body in programs]
        rows: list[Row] = []
        for number, (name, body) in enumerate(flat):
            run = runs.get(id(body))
            if run is not None and run.steps not in (None, 1):
                row["trips"] = run.steps
            often = 0 if run is None else (1 if run.steps is None else run.steps) * run.at_once
            counted = inside.counted and (run is None or run.steps is not None)
            scope = (*inside.scope, *scope_of(self.source(equation))[len(inside.scope) :])
            within = Inside(often * inside.times, counted, held, inside.around, scope, row)
            own = self.program(body, within)
            if len(flat) > 1:
                own = [self.page.row(head="body", label=_label(equation, name, number), span=len(own)), *own]
            rows += own
        return rows

    def parents(self, equation: Equation) -> list[Row]:
        """The rows of the stage before that an equation came from; of a gradient's, those of the linearization."""
        rows = self.page.found(self.stage.of, equation)
        if self.stage.through:
            backward = equation.role == "cotangent"
            linearized = [
                row
                for row in self.page.derived(self.stage.through, rows)
                if (row["role"] == "tangent") == backward and (backward or row["op"] == equation.primitive.name)
            ]
            rows = linearized or rows
        return rows

    def origins(self, equation: Equation, parents: list[Row]) -> list[list[int]]:
        """`from`: the rows that an equation came from, each with the rule that was applied; of the user's own, the lines."""
        if parents:
            rule = self.rule(equation)
            return [[row["id"], rule] for row in parents]
        lines = self.page.lines.callers(self.source(equation))
        if not lines and self.before is not None:  # what the transformation does by itself, before or after the function
            return [[next(row["id"] for row in reversed(self.before["rows"]) if "ret" in row), -1]]
        return [[id, -1] for id in lines]

    def source(self, equation: Equation) -> Source | None:
        """The user's line; None where a transformation, called for the page, did something by itself."""
        by_itself = self.before is not None and equation.origin is None and self.page.lines.is_outside(equation.source)
        return None if by_itself else self.page.lines.inside(equation.source)

    def rule(self, equation: Equation) -> int:
        """The rule by which an equation was made of one of the stage before, by its place on the page; -1 where that one was
        carried over. What is derived and then run again, as the body of a loop, was made when it was derived."""
        before = self.page.rows[self.stage.of]
        at: Equation | None = equation
        while at is not None and at.id not in before:
            if at.made is not None:
                return self.page.rule(at.made, at)
            at = at.origin
        return -1

    def role(self, equation: Equation, parents: list[Row]) -> str:
        if equation.id in self.dead:
            return "dead"
        if self.transformation == "vmap" and self.is_plumbing(equation, parents):
            return "batch"
        if self.stage.id == "simplify" and parents and parents[0]["role"] != "dead":
            return str(parents[0]["role"])
        own = equation.role
        carried = own == "primal" and parents and parents[0].get("op") == equation.primitive.name
        return "batch" if carried and parents[0]["role"] == "batch" else own

    def is_plumbing(self, equation: Equation, parents: list[Row]) -> bool:
        """Whether vmap put an equation in only to bring a batch axis into place."""
        if equation.primitive not in PLUMBING:
            return False
        batched, given = [len(self.page.axes.get(atom, ())) for atom in (equation.outputs[0], equation.inputs[0])]  # type: ignore[arg-type]
        repeats = equation.primitive is broadcast_in_dim and batched > given
        return repeats or all([row["op"] != equation.primitive.name for row in parents])


def _kept(program: Graph) -> frozenset[Variable]:
    """The values that are made before the backward pass, and read in it."""
    made = {variable for one in program.equations if one.role != "cotangent" for variable in one.outputs}
    made.update(program.inputs)
    read = {atom for one in program.equations if one.role == "cotangent" for atom in one.inputs}
    return frozenset([atom for atom in read if atom in made and isinstance(atom, Variable)])


def _waiting(program: Graph, kept: frozenset[Variable]) -> list[int]:
    """While each equation runs, the bytes of those values made so far that are kept for the backward pass."""
    last: dict[Atom, int] = {}
    for place, equation in enumerate(program.equations):
        last.update(dict.fromkeys(equation.inputs, place))
    last.update(dict.fromkeys(program.outputs, len(program.equations)))
    change = [0] * (len(program.equations) + 2)
    for place, equation in enumerate(program.equations):
        for variable in equation.outputs:
            if variable in kept:
                change[place] += variable.type.nbytes
                change[last.get(variable, place) + 1] -= variable.type.nbytes
    total, found = 0, []
    for each in change:
        total += each
        found.append(total)
    return found


def _bodies(equation: Equation) -> dict[str, list[Program]]:
    """The Programs that an equation holds, by the name of the parameter that has them."""
    if not programs_in(equation.params):  # as most of them
        return {}
    held = {name: programs_in({name: value}) for name, value in equation.params.items()}
    return {name: programs for name, programs in held.items() if programs}


def _label(equation: Equation, name: str, number: int) -> str:
    """What stands above one of several Programs that an equation holds."""
    return f"branch {number}" if isinstance(equation.params[name], tuple) else name
