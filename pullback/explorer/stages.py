"""The Programs that a page shows: the user's function, and what each transformation makes of it, each made from the one before.

Each transformation is applied to the Program of the stage before it, so that every equation names the equation there that it
came from (`Equation.origin`). The last Program equals the one of the transformed function itself, traced at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pullback.api.applied import Applied, Apply, Stage, stages, transformations
from pullback.api.functions import Function, normalize_argnums, standing_for
from pullback.api.traced import TracedCall
from pullback.core.dtypes import is_inexact
from pullback.core.errors import PullbackError
from pullback.core.source import innermost, name_of
from pullback.core.trees import kind_of, unflatten
from pullback.core.types import ArrayType
from pullback.program.equation import Equation
from pullback.program.program import Program, Variable, run
from pullback.transforms.derive import linearize_program, pushed_program
from pullback.transforms.simplify import drop_dead_code, simplify

NAMES = {
    "grad": "Gradient",
    "value_and_grad": "Value and gradient",
    "vmap": "Vectorized",
    "jvp": "Forward mode",
    "vjp": "Reverse mode",
    "jacfwd": "Jacobian, forward",
    "jacrev": "Jacobian, reverse",
    "hessian": "Hessian",
    "checkpoint": "Checkpointed",
    "jit": "Jitted",
}
# The ids of our own stages, and of what the page makes of them.
RESERVED = frozenset([*NAMES, "source", "base", "linearize", "simplify", "stablehlo", "optimized", "costs", "profile"])


class Part(NamedTuple):
    """A Program of a stage.

    Attributes:
        program: it. paths: what each input is called. label: what stands above its rows, if the stage has several parts.
        made_by: the equations by which values that come in as inputs were made, by place; and for inputs that are those of the
            part before, the place there.
        kept: the variables that are kept for what comes behind this part.
    """

    program: Program
    paths: Sequence[str]
    label: str = ""
    made_by: Sequence[Equation | int | None] = ()
    kept: frozenset[Variable] = frozenset()

    @property
    def unread(self) -> list[str]:
        """What those inputs are called that nothing reads that serves a result."""
        program = drop_dead_code(self.program)
        read = {atom for equation in program.equations for atom in equation.inputs} | set(program.outputs)
        return [path for path, variable in zip(self.paths, program.inputs) if variable not in read]


class ProgramStage(NamedTuple):
    """A pane of equations.

    Attributes:
        id: by which other panes name it. name: its heading. by: how it was made. of: the id of the stage it was made from.
        parts: its Programs; of a linearization two, else one.
        called: whether a call of a function on the way runs it; else it is there to explain the one that is.
        through: the id of the linearization that a gradient transposes. flat: the arguments of which the linear map of a
            linearization takes a tangent that it does not read: a gradient with respect to them is zero.
        batch: how many elements vmap took at a time.
        donated: the numbers of the inputs whose memory results may take. notes: what else a reader should know, sentences.
    """

    id: str
    name: str
    by: str
    of: str
    parts: tuple[Part, ...]
    called: bool = True
    through: str = ""
    flat: tuple[str, ...] = ()
    batch: int | None = None
    donated: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def program(self) -> Program:
        return self.parts[0].program


def _transformed_before(function: Function) -> tuple[str, ...]:
    """What to say of a function that is a gradient, or a batch of another one: its steps are not seen from outside."""
    inner, left, names = innermost(function), name_of(function), []
    while (name := next((one for one in NAMES if left.startswith(f"{one}_")), None)) is not None:
        names.append(name)
        left = left.removeprefix(f"{name}_")
    if inner is function or not names:
        return ()
    apply = ",".join(reversed(names))
    return (f"It is transformed already: to see the steps, explore {name_of(inner)} with apply='{apply}'.",)


def program_stages(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any], apply: Apply) -> list[ProgramStage]:
    """The stages from a function to the transformed one, and what simplification makes of that.

    Arguments:
        function: the user's function.
        args, kwargs: the arguments of the transformed function; an `ArrayType` serves for an array.
        apply: the transformations, as `pb.replay` takes them.
    """
    calls, applied = stages(function, args, kwargs, apply), transformations(apply)
    jitted: Applied | None = None
    if applied and applied[-1].kind == "jit":  # what it does is shown by the stages behind: simplified, lowered, optimized
        *applied, jitted = applied
    before = calls[0].traced("explore", function)
    part, notes = Part(before.traced.program, before.paths), _transformed_before(function)
    found = [ProgramStage("base", "Program", f"pb.xpr({name_of(function)})", "", (part,), notes=notes)]
    for called, one, call in zip(calls, applied, calls[1:]):
        of, through = found[-1].id, ""
        if one.kind in ("grad", "value_and_grad"):
            found += _explained(of, before, _differentiated(before, called, one), found)
            through = found[-1].id
        made = call.traced("explore", one(_replayed(before, called, function)))
        batch = None
        if one.kind == "vmap" and (batch := one.options.get("axis_size")) is None:
            batch = _batch_size(before.types, made.types)
        by = str(one) if batch is None else f"{one}, {batch} at a time"
        own = one.name.replace("-", "_")  # behind a hyphen stands which one of the name it is
        own = f"own_{own}" if own in RESERVED else own  # whose name says nothing of what it does
        id, name = _new_id(one.kind or own, found), NAMES.get(one.kind, one.name)
        part = Part(drop_dead_code(made.traced.program), made.paths)
        flat = found[-1].flat if through else ()
        found.append(ProgramStage(id, name, by, of, (part,), through=through, batch=batch, flat=flat))
        before = made
    part = Part(simplify(drop_dead_code(before.traced.program)), before.paths)
    donated: tuple[int, ...] = ()
    if jitted is not None and any([name.startswith("donate") for name in jitted.options]):
        flags = jitted(_replayed(before, calls[-2], function)).trace(*args, **kwargs).donated  # type: ignore[attr-defined]
        donated = tuple([i for i, flag in enumerate(flags) if flag])
    of = found[-1].id
    found.append(ProgramStage("simplify", "Simplified", "before compiling", of, (part,), False, donated=donated))
    return found


def _replayed(before: TracedCall, call: Stage, function: Function) -> Function:
    """A traced function again as a function of trees, which runs its Program; what was static is in that."""
    program, structure, trees = drop_dead_code(before.traced.program), before.traced.structure, kind_of(function)

    @standing_for(function)
    def replayed(*args: Any, **kwargs: Any) -> Any:
        leaves, _ = trees.flatten(trees.without_float0(call.static.dynamic(args, kwargs)))
        return unflatten(structure, run(program, leaves))

    return replayed


def _new_id(name: str, found: Sequence[ProgramStage]) -> str:
    """A transformation's name, with a number behind it where it is not the first of that name."""
    count = sum([stage.id.partition("-")[0] == name for stage in found])
    return name if not count else f"{name}-{count + 1}"


def _batch_size(before: Sequence[ArrayType], after: Sequence[ArrayType]) -> int | None:
    """How many batch elements there are, by the types of a function's arguments without and with them."""
    for a, b in zip(before, after):
        for axis, size in enumerate(b.shape):
            if (*b.shape[:axis], *b.shape[axis + 1 :]) == a.shape:
                return size
    return None


def _differentiated(before: TracedCall, call: Stage, one: Applied) -> tuple[int, ...]:
    """Which leaves of a call's arguments a gradient is taken with respect to."""
    chosen = normalize_argnums(call.function, one.options.get("argnums", 0), len(call.args), call.kwargs, one.name)
    trees = kind_of(call.function)
    args, _ = trees.without_float0(call.static.dynamic(call.args, call.kwargs))
    flags: list[int] = []
    for i, arg in enumerate(args):
        flags += [int(i in chosen)] * len(trees.flatten(arg)[0])
    flags += [0] * (len(before.types) - len(flags))
    return tuple([int(flag and is_inexact(type.dtype)) for flag, type in zip(flags, before.types)])


def _explained(of: str, before: TracedCall, active: tuple[int, ...], found: Sequence[ProgramStage]) -> list[ProgramStage]:
    """How a gradient comes about: forward mode, and the linearization, whose second half is transposed."""
    program, paths = drop_dead_code(before.traced.program), before.paths
    tangents = [f"d {path}" for path, flag in zip(paths, active) if flag]
    own: list[Equation | int | None] = [*range(len(paths))]
    moving: list[Equation | int | None] = [i for i, flag in enumerate(active) if flag]
    made: list[ProgramStage] = []
    notes: tuple[str, ...] = ()
    try:
        forward = Part(pushed_program(program, None, active)[0], [*paths, *tangents], made_by=[*own, *moving])
    except PullbackError as error:  # a function with a vjp rule alone has none
        notes = (f"It has no forward mode: {error}",)
    else:
        made.append(ProgramStage(_new_id("jvp", found), "Forward mode", "jvp", of, (forward,), False))
    split = linearize_program(program, active)
    makers = {variable: one for one in split.forward.equations for variable in one.outputs}
    variables = [(split.forward.outputs if where == "output" else split.forward.inputs)[i] for where, i in split.residuals]
    waiting = [paths[i] if where == "input" else "kept" for where, i in split.residuals]
    kept = [
        i if where == "input" or not isinstance(variable, Variable) else makers.get(variable)
        for (where, i), variable in zip(split.residuals, variables)
    ]
    residuals = frozenset([variable for variable in variables if isinstance(variable, Variable)])
    parts = (
        Part(split.forward, paths, "values, and what is kept", own, residuals),
        Part(split.tangent, [*waiting, *tangents], "the linear map of tangents", [*kept, *moving]),
    )
    id, flat = _new_id("linearize", found), [path.removeprefix("d ") for path in parts[1].unread if path in tangents]
    return [*made, ProgramStage(id, "Linearized", "linearize", of, parts, False, flat=tuple(flat), notes=notes)]
