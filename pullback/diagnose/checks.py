"""What a `pb.checking` block looks for, and what is told of what it finds. The mode holds it, and the layers below ask it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from pullback.api.traced import Traced
from pullback.core.bounded import Bounded
from pullback.core.callers import asked_by_user
from pullback.core.context import setting
from pullback.core.dtypes import DType, kind
from pullback.core.dtypes import promote as join
from pullback.core.errors import (
    CheckWarning,
    DtypeWidened,
    EscapedTracerError,
    ImpureFunction,
    KeyReuseError,
    LargeConstant,
    NotFinite,
    PullbackError,
    RankPromoted,
    UnusedArgument,
)
from pullback.core.modes import Mode
from pullback.core.source import Source, at_line, at_user_line, describe, innermost, name_of, source_text, warn
from pullback.core.types import Shape
from pullback.core.used_keys import marks_used
from pullback.core.zero import ZERO
from pullback.diagnose.differing import Difference, difference
from pullback.program.program import Program, Variable
from pullback.random.keys import use_up_by, used_among, used_keys
from pullback.transforms.simplify import drop_dead_code

# What is raised where an option is "error"
ERRORS: dict[str, type[PullbackError]] = {
    "purity": ImpureFunction,
    "constants": LargeConstant,
    "keys": KeyReuseError,
    "leaks": EscapedTracerError,
    "unused": UnusedArgument,
    "widening": DtypeWidened,
    "rank_promotion": RankPromoted,
    "nan": NotFinite,
    "infinity": NotFinite,
}
MAX_MODES = 64  # that differ in something else, inside one block
_SHOWN = 5  # lines or arguments that a message lists

# Whether a function is being traced a second time, to be compared with the first
_again: ContextVar[bool] = ContextVar("pullback_tracing_again", default=False)
# Whether it is compared with the first, or something around it is, its parts included
_compared: ContextVar[bool] = ContextVar("pullback_traces_compared", default=False)
# Whether a derivative is taken in what is being traced: a list that is empty if not
_derivatives: ContextVar[list[None] | None] = ContextVar("pullback_traced_derivatives", default=None)


class Checks:
    """The options of a block, those of the blocks around it included.

    Attributes:
        actions: for each option that is on, "warn" or "error". constant_bytes: what a function may close over.
        modes: the modes of this block, which live as long as it does.
    """

    __slots__ = ("__weakref__", "actions", "constant_bytes", "modes")

    def __init__(self, actions: Mapping[str, str], constant_bytes: int) -> None:
        self.actions = {option: action for option, action in actions.items() if action}
        self.constant_bytes = constant_bytes
        self.modes: Bounded[tuple[Any, ...], Mode] = Bounded(MAX_MODES)

    def __repr__(self) -> str:
        return f"<{', '.join([f'{option}={action!r}' for option, action in self.actions.items()])}>"

    def wants(self, option: str) -> bool:
        """Whether something is looked for now."""
        return option in self.actions and not _again.get()

    def tell(self, option: str, message: str, cause: Exception | None = None) -> None:
        """Say what was found: a warning, or an error."""
        if self.actions[option] == "error":
            raise ERRORS[option](message) from cause
        warn(message, category=CheckWarning)

    # ---- what operations are asked for ----

    def meets(self, name: str, one: tuple[DType, bool], other: tuple[DType, bool]) -> None:
        """Two operands meet, each given as its dtype and whether it is weak: say so if that converts an array of the user's."""
        if not self.wants("widening") or "b" in (kind(one[0]), kind(other[0])):
            return
        dtype = join(one, other)[0]
        narrow = next((given for given, weak in (one, other) if given is not dtype and not weak), None)
        if narrow is not None and asked_by_user():
            wide, weak = other if narrow is one[0] else one
            met = f"a number of Python's, which is {wide.name}" if weak else wide.name
            self.tell(
                "widening",
                f"{name} converts {narrow.name} to {dtype.name}, since it meets {met}. Convert one of them with"
                f" .astype().{at_user_line()}",
            )

    def broadcasts(self, name: str, shapes: Sequence[Shape]) -> None:
        """Arrays of different numbers of axes are broadcast."""
        if self.wants("rank_promotion") and asked_by_user():
            listed = " and ".join(dict.fromkeys([str(shape) for shape in shapes if shape]))
            self.tell(
                "rank_promotion",
                f"{name} broadcasts shapes {listed}, of which one gets axes in front. Say where they go, as in"
                f" x[None, :].{at_user_line()}",
            )

    # ---- what traces are asked for ----

    def traces_again(self) -> bool:
        """Whether a function is being traced a second time, for which nothing that was kept serves."""
        return _again.get()

    def trace(
        self, transformation: str, fun: Any, paths: Sequence[str], record: Callable[[], Traced], state: Sequence[int] = ()
    ) -> Traced:
        """Trace a function, by `record`, and look at what it gives. What it is traced as a second time is compared with that
        around it, if there is any; but what jit keeps is not traced again with that. `state`: which leaves are there to be
        written to."""
        again = _again.get()
        derivatives: list[None] = []
        around = _derivatives.get()
        compares = "purity" in self.actions and not again and (transformation == "jit" or not _compared.get())
        with setting(_derivatives, derivatives), setting(_compared, compares or _compared.get()):
            traced, other = self._traces(record, compares)
        if derivatives and around is not None:
            around.append(None)
        if again:
            return traced
        name = f"{transformation} of {_described(fun)}"
        if other is not None:
            self._compare(name, traced, other)
        if "constants" in self.actions:
            self._weigh(name, traced.program)
        if "unused" in self.actions and transformation in ("jit", "xpr"):
            self._find_unused(name, paths, traced, bool(derivatives), state)
        return traced

    def keys_used(self, arguments: Sequence[Any]) -> Sequence[int]:
        """Which arguments of a function that has been traced are keys that it uses up."""
        return used_among(arguments)

    def uses_keys(self, name: str, keys: Sequence[Any]) -> None:
        """What is called `name` is given keys that it uses up."""
        use_up_by(name, keys)

    def repeats_keys(self, name: str, traced: Traced, before: frozenset[Any], carried: range) -> None:
        """A loop of several steps has been traced. At each step it would draw the same bits from a key that it closes over, or
        that it hands on as it is.

        Arguments:
            before: the marks of the keys that had been used up before it was traced. carried: the leaves that are the carry.
        """
        if not self.wants("keys"):
            return
        own = {id(one) for one in traced.captures}
        closed = any([mark in own or isinstance(mark, bytes) for mark in marks_used() - before])
        given = traced.program.inputs[len(traced.captures) :]
        results = traced.program.outputs[len(traced.written) :]
        handed_on = any([i in carried and results[i - carried.start] is given[i] for i in traced.keys])
        if closed or handed_on:
            how = "that it closes over" if closed else "that it hands on to the next as it is"
            self.tell(
                "keys",
                f"{name} uses up a key {how}: each step would draw the same bits. Divide the key for all steps at once,"
                " pb.random.split(key, steps), and loop over the parts; divide one that is carried, key, other ="
                f" pb.random.split(key); or fold in the number of the step, pb.random.fold_in(key, i).{at_user_line()}",
            )

    def differentiates(self) -> None:
        """A derivative is taken."""
        if (derivatives := _derivatives.get()) == []:
            derivatives.append(None)

    def _traces(self, record: Callable[[], Traced], twice: bool) -> tuple[Traced, Traced | Exception | None]:
        """What a function is traced as, and the second time, or the error that it then raised. Both times it is called from
        one line, since a function may keep who called it."""
        found: list[Traced] = []
        for again in (_again.get(), True)[: 1 + twice]:
            try:
                with setting(_again, again), used_keys.setting(None if again else used_keys.get()):
                    found.append(record())
            except Exception as error:
                if not found:
                    raise
                return found[0], error
        return found[0], found[1] if twice else None

    def _compare(self, name: str, traced: Traced, other: Traced | Exception) -> None:
        cause = other if isinstance(other, Exception) else None
        if isinstance(other, Exception):
            found: Difference | None = Difference(
                f"the second trace raised {type(other).__name__}: {str(other).removesuffix('.')}", ""
            )
        else:
            found = difference(traced, other)
        if found is None:
            return
        usual = f" The usual cause is {found.cause}." if found.cause else ""
        self.tell(
            "purity",
            f"{name} gave a different program when it was traced again: {found.what}.{usual} A function is traced once, and its"
            " program replayed, so what it reads besides its arguments is read once. Pass it as an argument (for random"
            f" numbers, a key of pb.random).{at_line(found.source)}",
            cause,
        )

    def _weigh(self, name: str, program: Program) -> None:
        total = sum([array.type.nbytes for _, array in program.constants])
        if not program.constants or total <= self.constant_bytes:
            return
        lines = lines_of_use(program, {variable for variable, _ in program.constants})
        largest = sorted(program.constants, key=lambda pair: -pair[1].type.nbytes)
        listed = [f"{a.type} ({a.type.nbytes:,} bytes){_used_at(lines[variable])}" for variable, a in largest[:_SHOWN]]
        self.tell(
            "constants",
            f"{name} closes over {total:,} bytes, more than constant_bytes={self.constant_bytes:,}: {'; '.join(listed)}"
            f"{_more(largest)}. They are constants of its program, compiled into it. Pass them as arguments.",
        )

    def _find_unused(self, name: str, paths: Sequence[str], traced: Traced, derivative: bool, state: Sequence[int]) -> None:
        program = traced.program
        inputs = program.inputs[len(program.inputs) - len(paths) :]
        used = _read(drop_dead_code(program))
        if derivative:
            used |= _read(program)  # the derivative of what is linear in an argument does not depend on it, as it should be
        unused = [path for i, (one, path) in enumerate(zip(inputs, paths)) if one not in used and i not in state]
        cure = (
            "Leave it out; or, where that is meant, or its shape is all that is needed, begin the parameter's name with an"
            " underscore."
        )
        self._tell_unused(f"The result of {name} does not depend on", unused, cure)

    def gradients(self, transformation: str, fun: Any, paths: Callable[[], Sequence[str]], found: Sequence[Any]) -> None:
        """Cotangents were found, one for each leaf of the arguments of `fun`, None for those that are not differentiated."""
        if self.wants("unused") and any([one is ZERO for one in found]):
            what = f"The result of {transformation} of {describe(fun)}"
            self._tell_unused(
                f"{what} does not depend, or not by anything that has a derivative, on",
                [path for path, one in zip(paths(), found) if one is ZERO],
                "The gradient is zero: comparisons, indices, integers, rounding and stop_gradient have no derivative. What is"
                " of no use, leave out, or begin the parameter's name with an underscore.",
            )

    def _tell_unused(self, what: str, paths: Sequence[str], cure: str) -> None:
        paths = [path for path in paths if not path.startswith("_")]
        if paths:
            s = "s" if len(paths) > 1 else ""
            self.tell(
                "unused",
                f"{what} the value{s} of argument{s} {', '.join(paths[:_SHOWN])}{_more(paths)}. {cure}{at_user_line()}",
            )


def _described(fun: Any) -> str:
    """A function in words; of what a transformation made of it, the name of that as well."""
    inner = innermost(fun)
    made = name_of(fun, name_of(inner))
    return describe(fun) if made == name_of(inner) else f"{made}, made of {describe(fun)}"


def _more(things: Sequence[Any]) -> str:
    return f" and {len(things) - _SHOWN} more" if len(things) > _SHOWN else ""


def _read(program: Program) -> set[Any]:
    """What the equations of a Program read, and what it returns."""
    return {atom for equation in program.equations for atom in equation.inputs} | set(program.outputs)


def lines_of_use(program: Program, variables: set[Variable]) -> dict[Variable, list[Source]]:
    """The user's lines at which variables of a Program are used, each once."""
    lines: dict[Variable, dict[tuple[str, int], Source]] = {variable: {} for variable in variables}
    for equation in program.equations:
        for atom in equation.inputs:
            if isinstance(atom, Variable) and atom in lines and (source := equation.source) is not None:
                lines[atom].setdefault((source.file, source.line), source)
    return {variable: [*found.values()] for variable, found in lines.items()}


def _used_at(sources: Sequence[Source]) -> str:
    if not sources:
        return ""
    return f", used at {', '.join(map(source_text, sources[:_SHOWN]))}{_more(sources)}"
