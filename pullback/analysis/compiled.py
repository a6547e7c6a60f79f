"""The Program that is looked at, and what XLA says of it when it has compiled it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pullback.analysis.counting import count_equations
from pullback.analysis.tables import count, size
from pullback.api.compiled import Jitted, jit
from pullback.api.functions import Function
from pullback.api.stages import Lowered
from pullback.api.traced import call_paths, xpr
from pullback.core.errors import PullbackError
from pullback.core.trees import kind_of, unflatten
from pullback.program.cost import Cost
from pullback.program.equation import remembered
from pullback.program.program import Program
from pullback.program.running import runs_of

MOST_EQUATIONS = 500  # XLA takes about a second for so many: by default no more are compiled


class Taken(NamedTuple):
    """A function for arguments of some types: its Program, how its inputs are called, which are donated, how to lower it, and
    the arguments themselves."""

    program: Program
    names: list[str]
    donated: frozenset[int]
    lower: Callable[[], Lowered]
    leaves: list[Any]


def traced(what: str, fun: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Taken:
    """The Program of a function, as `pb.xpr` shows it; of a jitted one that which it compiles, with static arguments in it."""
    if isinstance(fun, Jitted):
        return traced_by_jit(fun, args, kwargs)
    program = xpr(fun, *args, **kwargs)
    types = [variable.placed_type for variable in program.inputs]
    names = call_paths(fun, args, kwargs, kind_of(fun))
    return Taken(program, names, frozenset(), lambda: jit(program).lower(*types), _leaves(fun, (args, kwargs)))


def traced_by_jit(jitted: Jitted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Taken:
    """The Program that a jitted function compiles."""
    stage = jitted.trace(*args, **kwargs)
    own_args, own_kwargs = unflatten(stage.in_tree, stage.in_types)
    names = call_paths(jitted, own_args, own_kwargs, kind_of(jitted))
    donated = frozenset([i for i, flag in enumerate(stage.donated) if flag])
    return Taken(stage.program, names, donated, stage.lower, _leaves(jitted, jitted._split(args, kwargs)[1]))


def _leaves(fun: Function, tree: Any) -> list[Any]:
    """The arguments that a Program of a function takes."""
    trees = kind_of(fun)
    return list(trees.flatten(trees.without_float0(tree))[0])


def compiled_figures(taken: Taken, backend: bool | None, read: str = "cost_analysis") -> tuple[dict[str, Any] | None, str]:
    """What XLA says, and why it says nothing, where it was not asked.

    Arguments:
        backend: whether to compile; None, if the Program is small. read: the method of a `Compiled` that is asked.
    """
    if backend is False:
        return None, "backend=False"
    many = count_equations(taken.program)
    if backend is None and many > MOST_EQUATIONS:
        return None, f"it has {many:,} equations, for which XLA takes long: backend=True, or --compile always, compiles it"
    try:
        return dict(getattr(taken.lower().compile(), read)()), ""
    except (PullbackError, NotImplementedError) as error:
        if backend:
            raise
        return None, f"it cannot be compiled here: {str(error).splitlines()[0]}"


def in_words(found: Mapping[str, float] | None, why: str, program: Program, own: Cost) -> list[str]:
    """What XLA counts, and why that is something else than our own count of a Program, if it is."""
    if found is None:
        return [] if why == "backend=False" else [f"XLA was not asked, since {why}"]
    figures = [
        ("flops", count, "FLOP" if found.get("flops") == 1 else "FLOPs"),
        ("transcendentals", count, f"value{'' if found.get('transcendentals') == 1 else 's'} of transcendental functions"),
        ("bytes accessed", size, "read and written"),
    ]
    parts = [f"{write(found[key]) if found[key] >= 0 else 'unknown'} {what}" for key, write, what in figures if key in found]
    lines = [f"compiled by XLA: {', '.join(parts) or 'it counts nothing'}"]
    if (own.flops, own.transcendentals, own.bytes) != tuple([found.get(key, 0.0) for key, *_ in figures]):
        lines.append("XLA counts what it has fused: values within a fusion never lie in memory, and some are computed twice")
        lines[-1] += "; of a loop it counts one step" if has_loops(program) else ""
        lines[-1] += f"; it counts what one of {many} devices does" if (many := devices_of(program)) > 1 else ""
    return lines


@remembered
def devices_of(program: Program) -> int:
    """On how many devices a Program runs."""
    meshes: list[int] = [variable.sharding.mesh.size for variable in program.inputs if variable.sharding is not None]
    runs = [run for equation in program.equations for run in runs_of(equation)]
    return max([1, *meshes, *[max(run.at_once, devices_of(run.program)) for run in runs]])


def has_loops(program: Program) -> bool:
    """Whether a Program has a loop in it, or in what it runs."""
    runs = [run for equation in program.equations for run in runs_of(equation)]
    return any([run.loop for run in runs]) or any(
        [has_loops(one) for one in {id(run.program): run.program for run in runs}.values()]
    )
