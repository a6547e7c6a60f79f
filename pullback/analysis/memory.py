"""`pb.memory`: what a function takes of memory, where it takes most, and what is kept for the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from pullback.analysis.compiled import Taken, compiled_figures, devices_of, traced_by_jit
from pullback.analysis.counting import maker_of, place_of, source_of
from pullback.analysis.tables import Column, Table, Written, size
from pullback.api.applied import Apply, apply_transformations
from pullback.api.compiled import Jitted, jit
from pullback.api.functions import Argnums, Function, check_callable, check_flags
from pullback.core.brief import counted
from pullback.core.source import api_boundary, describe
from pullback.core.types import ArrayType
from pullback.program.equation import Equation, Made, Variable
from pullback.program.liveness import Liveness, constants_of, liveness, waiting
from pullback.program.printing import heading
from pullback.program.program import Program
from pullback.program.running import Run, runs_of

MOST_ROWS = 16  # that are shown of a table; the lists have all


class Value(NamedTuple):
    """A value in memory.

    Attributes:
        made_by: the operation that it is the result of; "argument w"; or "constant".
        type: its ArrayType. bytes: what it takes. role: "primal", "tangent", "cotangent" or "residual".
        file, line, text: the user's line with the operation; empty, and 0, where there is none.
        wanted_by: of what is kept for the backward pass, the rules that need it: "transpose of dot_general".
        id: the equation's, if there is one.

    Example:
        >>> import pullback as pb
        >>> f = pb.grad(lambda x, w: pb.numpy.sum(pb.numpy.tanh(x @ w)))
        >>> table = pb.memory(f, pb.ArrayType((9, 8), "float32"), pb.ArrayType((8, 4), "float32"), backend=False)
        >>> [(one.made_by, one.bytes, one.wanted_by) for one in table.residuals]
        [('sech_squared', 144, ('transpose of dot_general',)), ('argument w', 128, ('transpose of dot_general',))]
    """

    made_by: str
    type: ArrayType
    bytes: int
    role: str
    file: str
    line: int
    text: str
    wanted_by: tuple[str, ...]
    id: int | None


class Donated(NamedTuple):
    """A donated argument.

    Attributes:
        name: how the argument is called. type: its ArrayType. bytes: what it takes.
        result: the number of the result that takes its memory, among the leaves of what the function returns; None if none can.

    Example:
        >>> import pullback as pb
        >>> pb.memory(lambda x: x + 1.0, pb.ArrayType((8,), "float32"), donate_argnums=0, backend=False).donated
        [Donated(name='x', type=f32[8], bytes=32, result=0)]
    """

    name: str
    type: ArrayType
    bytes: int
    result: int | None


class MemoryTable(Written):
    """What a function takes of memory: `print(table)` shows it.

    Attributes:
        program: the Program, simplified, as it is compiled.
        peak: the bytes of all that is in memory where most is.
        held: those of arguments and constants, which are there throughout.
        equation: the equation where most is in memory; None if there is none.
        values: what is in memory there, the largest first, arguments and constants too.
        residuals: what is kept for the backward pass, if there is one, the largest first.
        donated: the donated arguments, with the results that take their memory.
        overwritten: how many results take the memory of an operand that nobody reads any more.
        liveness: for each equation what is live while it runs, by its id.
        compiled: what XLA says of what it compiled, a dict; None if it was not compiled.

    Example:
        >>> import pullback as pb
        >>> table = pb.memory(lambda x: pb.numpy.sum(x @ x), pb.ArrayType((100, 100), "float32"), backend=False)
        >>> table.peak, table.held, table.equation.primitive.name
        (80004, 40000, 'reduce_sum')
    """

    format = "pullback.memory"

    def __init__(self, taken: Taken, compiled: dict[str, Any] | None, why: str) -> None:
        self.program = program = taken.program
        self.donated = _donated(taken)
        usable = [i for i, one in zip(sorted(taken.donated), self.donated) if one.result is not None]
        self.liveness: Liveness = liveness(program, usable)
        self.peak = self.liveness.total
        self.held = self.liveness.held
        self.equation = self.liveness.peak_equation
        self.values = sorted([*_held(taken, usable), *_waiting(program, taken.names, usable)], key=lambda one: -one.bytes)
        self.residuals = sorted(_residuals(program, taken.names, set()), key=lambda one: -one.bytes)
        self.overwritten = sum(map(len, self.liveness.reused.values()))
        self.compiled = compiled
        self._why = why

    def tables(self) -> list[Table]:
        """What it shows: what is in memory at the peak, what is kept for the backward pass, what is donated.

        Returns:
            A list of tables, each with a `title`, `columns`, `rows` and `notes`.

        Example:
            >>> import pullback as pb
            >>> len(pb.memory(lambda x: x + 1.0, 1.0, backend=False).tables())
            1
        """
        found = [self._at_the_peak()]
        if self.residuals:
            title = f"kept for the backward pass: {_many(self.residuals, 'value')}"
            found.append(_table(title, self.residuals, ("made by", "at", "wanted by")))
        if self.donated:
            taken = ["no result can take its memory" if one.result is None else f"result {one.result}" for one in self.donated]
            rows = [[one.name, str(one.type), size(one.bytes), by] for one, by in zip(self.donated, taken)]
            found.append(
                Table("donated", [Column("argument"), Column("type"), Column("bytes", True), Column("taken by")], rows)
            )
        return [*found[:-1], found[-1]._replace(notes=[*found[-1].notes, *self._notes()])]

    def _at_the_peak(self) -> Table:
        parts = f"{size(self.held)} of arguments and constants, {size(self.peak - self.held)} of values"
        title = f"{heading(self.program)}: {size(self.peak)} at the peak, {parts}"
        if self.equation is None:
            return Table(title, [], [])
        source = source_of(self.equation)
        at = "" if source is None else f" at {place_of(source.file, source.line)}: {source.text}"
        return _table(f"{title}\nmost is in memory in {self.equation.primitive.name}{at}", self.values, ("what", "role", "at"))

    def _notes(self) -> list[str]:
        notes = []
        if self.overwritten:
            notes.append(f"{counted(self.overwritten, 'result')} overwritten in place: an operand that nobody reads any more")
        if self.compiled is None:
            return notes if self._why == "backend=False" else [*notes, f"XLA was not asked, since {self._why}"]
        names = {"argument": "arguments", "output": "results", "temp": "temporaries", "alias": "results in donated memory"}
        sizes = {text: self.compiled.get(f"{name}_size_in_bytes", 0) for name, text in names.items()}
        whole = sizes["arguments"] + sizes["results"] + sizes["temporaries"] - sizes["results in donated memory"]
        parts = [f"{size(number)} of {text}" for text, number in sizes.items() if number or text != names["alias"]]
        many = devices_of(self.program)
        notes.append(f"compiled by XLA{f', on each of {many} devices' if many > 1 else ''}: {size(whole)}, {', '.join(parts)}")
        notes.append("XLA fuses operations, whose values never lie in memory then, runs them in another order, and may copy")
        return notes

    def records(self) -> dict[str, Any]:
        def plain(records: Sequence[Any]) -> list[dict[str, Any]]:
            return [{**one._asdict(), "type": str(one.type)} for one in records]

        return {
            "peak": self.peak,
            "held": self.held,
            "equation": None if self.equation is None else self.equation.id,
            "live": dict(self.liveness.live),
            "values": plain(self.values),
            "residuals": plain(self.residuals),
            "donated": plain(self.donated),
            "overwritten": self.overwritten,
            "compiled": self.compiled,
        }


@api_boundary
def memory(
    fun: Function,
    *args: Any,
    apply: Apply = "",
    donate_argnums: Argnums | None = None,
    backend: bool | None = None,
    **kwargs: Any,
) -> MemoryTable:
    """What a function takes of memory for arguments like these: the peak, what is there then, what the backward pass waits for.

    Nothing is computed. The values of the Program are followed from where they are made to their last reader, in its order,
    before anything is compiled; beside that stands what XLA says of the program that it compiles.

    Arguments:
        fun: a function of arrays and pytrees; any transformation of one.
        args, kwargs: what to call it with, or what is made of it by `apply`; an `ArrayType` serves for an array.
        apply: transformations to apply to it first, as text, `"grad,vmap"`, or as a list of functions.
        donate_argnums: the numbers of arguments whose memory may be taken for results, as for `pb.jit`. A function that is
            jitted already says that itself.
        backend: whether to compile the function for XLA's figures. By default, if it has no more than 500 equations.

    Returns:
        A `MemoryTable`, which prints.

    Raises:
        LeafError: a leaf of the arguments is neither an array, nor a number, nor an ArrayType. TypeError: `backend` is no bool.
        ValueError: `donate_argnums` is given for a jitted function, or `apply` cannot be read.

    Example:
        >>> import pullback as pb
        >>> def loss(w, x):
        ...     return pb.numpy.sum(pb.numpy.tanh(x @ w) ** 2)
        >>> w, x = pb.ArrayType((64, 64), "float32"), pb.ArrayType((1000, 64), "float32")
        >>> table = pb.memory(pb.grad(loss), w, x)
        >>> [(one.made_by, one.bytes) for one in table.residuals]
        [('mul', 256000), ('sech_squared', 256000), ('argument x', 256000)]
    """
    check_callable(fun, "memory")
    if backend is not None:
        check_flags("memory", backend=backend)
    fun = apply_transformations(fun, apply)
    if isinstance(fun, Jitted):
        if donate_argnums is not None:
            raise ValueError(
                f"memory takes donate_argnums of functions that are not jitted, but {describe(fun)} is: jit says there what it"
                " donates, as in pb.jit(f, donate_argnums=0)."
            )
        taken = traced_by_jit(fun, args, kwargs)
    else:
        taken = traced_by_jit(jit(fun, donate_argnums=donate_argnums), args, kwargs)
    return MemoryTable(taken, *compiled_figures(taken, backend, "memory_analysis"))


# ---- what is in memory -------------------------------------------------------------------------------------------------------


def _value(made_by: str, type: ArrayType, bytes: int, equation: Equation | None, wanted: tuple[str, ...] = ()) -> Value:
    source = source_of(equation)
    place = ("", 0, "") if source is None else (source.file, source.line, source.text)
    role, number = ("primal", None) if equation is None else (equation.role, equation.id)
    return Value(made_by, type, bytes, role, *place, wanted, number)


def _held(taken: Taken, released: Sequence[int]) -> Iterator[Value]:
    """The arguments that are there throughout, and the constants."""
    for number, variable in enumerate(taken.program.inputs):
        if number not in released:
            yield _value(_called(taken.names, number), variable.type, variable.type.nbytes, None)
    for array in constants_of(taken.program):
        yield _value("constant", array.type, array.type.nbytes, None)


def _waiting(program: Program, names: Sequence[str], released: Sequence[int]) -> Iterator[Value]:
    """What else is in memory where most is."""
    numbers = {variable: number for number, variable in enumerate(program.inputs)}
    for one in waiting(program, released):
        if one.equation is not None:
            maker = _innermost(one.variable, one.equation) or one.equation
            yield _value(maker.primitive.name, one.variable.type, one.bytes, maker)
        elif one.within:  # an input of a Program that is held: its carry, what it is passed
            yield _value(f"what {one.within[-1].primitive.name} carries", one.variable.type, one.bytes, one.within[-1])
        else:
            yield _value(_called(names, numbers[one.variable]), one.variable.type, one.bytes, None)


def _called(names: Sequence[str], number: int) -> str:
    return f"argument {names[number]}"


def _donated(taken: Taken) -> list[Donated]:
    """The donated arguments, each with a result of its shape and dtype, which takes its memory."""
    free = {number: (type.shape, type.dtype) for number, type in enumerate(taken.program.output_types)}
    found = []
    for number in sorted(taken.donated):
        type = taken.program.inputs[number].type
        result = next((i for i, key in free.items() if key == (type.shape, type.dtype)), None)
        free.pop(result, None)  # type: ignore[arg-type]
        found.append(Donated(taken.names[number], type, type.nbytes, result))
    return found


# ---- what is kept for the backward pass --------------------------------------------------------------------------------------


def _residuals(program: Program, names: Sequence[str], seen: set[int]) -> Iterator[Value]:
    """What the forward pass made, or was given, and the backward pass reads; both may lie in a Program that is held."""
    seen.add(id(program))
    makers = maker_of(program)
    numbers = {variable: number for number, variable in enumerate(program.inputs)}
    wanted: dict[Variable, dict[str, None]] = {}
    for equation in program.equations:
        if equation.role != "cotangent":
            for run in runs_of(equation):
                if id(run.program) not in seen:
                    inner = [f"{number} of {equation.primitive.name}" for number, _ in enumerate(run.program.inputs)]
                    yield from _residuals(run.program, inner, seen)
            continue
        for place, atom in enumerate(equation.inputs):
            maker = makers.get(atom)  # type: ignore[arg-type]
            if maker is None and atom not in numbers and _begins(equation, place):
                continue  # the zeros with which a sum of cotangents begins
            if isinstance(atom, Variable) and (maker is None or maker.role in ("primal", "residual")):
                wanted.setdefault(atom, {}).update(dict.fromkeys(_rules(equation, place)))
    for variable, rules in wanted.items():
        maker = _innermost(variable, makers.get(variable))
        if maker is not None:
            made_by = maker.primitive.name
        else:
            made_by = _called(names, numbers[variable]) if variable in numbers else "constant"
        yield _value(made_by, variable.type, variable.type.nbytes, maker, tuple(rules))


def _begins(equation: Equation, place: int) -> bool:
    """Whether an operand is what a loop carries at first."""
    return any([run.loop and run.consts <= place - run.lead < run.consts + run.carry for run in runs_of(equation)])


def _rules(reader: Equation, place: int) -> Iterator[str]:
    """The rules in the backward pass that read an operand, in the Programs that an equation runs too."""
    for one in list(_readers(reader, place)) or [reader]:
        made = _made_as("cotangent", one)
        yield one.primitive.name if made is None or made.primitive is None else f"{made.rule} of {made.primitive.name}"


def _made_as(role: str, equation: Equation | None) -> Made | None:
    """The rule that gave an equation, or the one that it was derived from, a role."""
    while equation is not None:
        made = equation.made
        while made is not None:
            if made.role == role:
                return made
            made = made.within
        equation = equation.origin
    return None


def _readers(equation: Equation, place: int) -> Iterator[Equation]:
    """The innermost equations that read an operand of one that runs Programs."""
    for run in runs_of(equation):
        number = place - run.lead
        if 0 <= number < len(run.program.inputs):
            variable = run.program.inputs[number]
            for one in run.program.equations:
                for inner, atom in enumerate(one.inputs):
                    if atom is variable:
                        yield from (list(_readers(one, inner)) or [one])


def _innermost(variable: Variable, maker: Equation | None) -> Equation | None:
    """The equation, in what an equation runs, that made one of its results."""
    while maker is not None:
        run: Run | None = next((run for run in runs_of(maker) if not run.test), None)
        if run is None:
            return maker
        out = run.program.outputs[maker.outputs.index(variable)]
        inner = maker_of(run.program).get(out)  # type: ignore[arg-type]
        if inner is None or not isinstance(out, Variable):
            return maker
        variable, maker = out, inner
    return None


# ---- as tables ---------------------------------------------------------------------------------------------------------------


def _many(values: Sequence[Value], what: str) -> str:
    return f"{counted(len(values), what)}, {size(sum([one.bytes for one in values]))}"


def _table(title: str, values: Sequence[Value], headings: tuple[str, ...]) -> Table:
    """Values as rows, those that are alike as one, the first ones of them."""
    read: dict[str, Callable[[Value], str]] = {
        "what": lambda one: one.made_by,
        "made by": lambda one: one.made_by,
        "role": lambda one: "" if one.made_by.startswith(("argument", "constant")) else one.role,
        "at": lambda one: place_of(one.file, one.line),
        "wanted by": lambda one: ", ".join(one.wanted_by),
    }
    columns = [Column("bytes", True), Column("type"), *map(Column, headings), Column("code", code=True)]
    alike: dict[tuple[str, ...], list[Value]] = {}
    for one in values:
        alike.setdefault((str(one.type), *[read[heading](one) for heading in headings], one.text), []).append(one)
    groups = sorted(alike.items(), key=lambda group: -sum([one.bytes for one in group[1]]))
    rows = []
    for (type, *cells), group in groups[:MOST_ROWS]:
        many = f"{len(group)} x " if len(group) > 1 else ""
        rows.append([size(sum([one.bytes for one in group])), f"{many}{type}", *cells])
    rest = [one for _, group in groups[MOST_ROWS:] for one in group]
    notes = [f"... and {_many(rest, 'more value')}"] if rest else []
    return Table(title, columns, rows, notes).without_empty()
