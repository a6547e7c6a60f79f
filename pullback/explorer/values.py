"""The values that equations have, from a replay of each stage, and the first NaN among them.

What a stage before a `vmap` was called with is one element of the batch: that of the first NaN, or the first one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pullback.api.applied import (
    Applied,
    Apply,
    Static,
    apply_transformations,
    static_arguments,
    transformations,
    untraced_arguments,
)
from pullback.api.functions import Function, standing_for
from pullback.api.traced import call_paths
from pullback.core.array import Array
from pullback.core.errors import LeafError
from pullback.core.tracing import Tracer
from pullback.core.trees import array_leaf, kind_of, unflatten
from pullback.core.types import ArrayType
from pullback.diagnose.again import without_effects
from pullback.diagnose.finding import Finding, first_nan
from pullback.diagnose.recording import Recording
from pullback.diagnose.stats import Stats
from pullback.diagnose.walk import host_array, walk
from pullback.explorer.page_data import PageData
from pullback.explorer.stages import ProgramStage

# These hand their arguments on as they are, and trace the function, so that nothing could be seen of the values.
PASSING = ("jit", "checkpoint")


def add_values(
    page: PageData,
    stages: Sequence[ProgramStage],
    function: Function,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    apply: Apply,
) -> None:
    """Note in the rows of each stage that is called what its values are, and on the page where the first NaN is made."""
    called = [stage for stage in stages if stage.called]
    call = concrete_call(function, args, kwargs, apply)
    given = call.leaves
    finding = _first(called[-1], given)
    element = () if finding is None else finding.batch
    calls = _calls(function, call, transformations(apply), element)
    made = {stage["id"]: stage for stage in page.data["stages"]}
    for stage, leaves in [*zip(called, calls), (stages[-1], given)]:  # the last one is the simplified one
        if leaves is None or stage.program.axis_names:
            why = "a batch without elements" if leaves is None else "its values depend on the whole batch"
            made[stage.id]["deltas"].append(f"No values are shown here: {why}.")
            continue
        recording = Recording()
        walk(without_effects(stage.program), leaves, recording)
        inputs = [row for row in made[stage.id]["rows"] if "arg" in row]
        constants = [host_array(array) for _, array in stage.program.constants]
        for row, leaf in zip(inputs, [*leaves, *constants]):
            stats = Stats(leaf.type)
            stats.add(leaf)
            row["value"] = _data(stats)
        for id, recorded in recording.recorded.items():
            for row in page.rows[stage.id].get(id, ()):
                values = [_data(recorded.stats[out]) for out in page.results[row["id"]]]
                row["value"] = values[0] if len(values) == 1 else values
        made[stage.id]["values"] = True
    rows = [] if finding is None or finding.equation is None else page.found(called[-1].id, finding.equation)
    if rows:
        page.data["find"] = {"row": rows[0]["id"], "text": str(finding)}


def _first(stage: ProgramStage, leaves: Sequence[Array]) -> Finding | None:
    """Where the first NaN, or else the first infinity, is made.

    Of all runs for a page, the first one here alone has effects.
    """
    paths, program = stage.parts[0].paths, stage.program
    return first_nan(program, leaves, paths) or first_nan(without_effects(program), leaves, paths, infinity=True)


def _data(stats: Stats) -> dict[str, Any]:
    """A value as docs/explorer-format.md has it."""
    found = stats.data()
    given = {
        name: found[name] for name in ("min", "max", "mean", "nan", "inf") if not isinstance(found[name], (list, type(None)))
    }
    sample = [value for value in found["sample"] if not isinstance(value, list)]
    return {**given, "count": found["size"], **({"sample": sample} if sample else {})}


class Call(NamedTuple):
    """A call of a function with values.

    Attributes:
        args, kwargs: the arguments, with an array for each leaf of those that are not static. static: which are.
        leaves: the leaves of the others.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    static: Static
    leaves: list[Array]


def concrete_call(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any], apply: Apply) -> Call:
    """The call of the transformed function, whose arguments must have values."""
    trees = kind_of(function)
    static = static_arguments(apply_transformations(function, apply), args, kwargs)
    dynamic, named = trees.without_float0(static.dynamic(args, kwargs))
    leaves, structure = trees.flatten((dynamic, named))
    paths = call_paths(function, dynamic, named, trees)
    for leaf, path in zip(leaves, paths):
        if isinstance(leaf, ArrayType):
            raise LeafError(
                f"explore runs the function for values and times, but argument {path} is a type, {leaf}. Pass an array."
            )
    found = [host_array(array_leaf(leaf, lambda path=path: f"argument {path}")) for leaf, path in zip(leaves, paths)]  # type: ignore[misc]
    return Call(*static.restored(args, kwargs, unflatten(structure, found)), static, found)


def _calls(function: Function, call: Call, applied: Sequence[Applied], element: Sequence[int]) -> list[list[Array] | None]:
    """The leaves of the arguments with which the function, and what each transformation makes of it, is called; None where
    there is no element of a batch that it could be called with.

    Arguments:
        call: that of the transformed function. element: which element of each batch to take, the outermost first; of others,
            the first one.
    """
    functions = [function]
    for one in applied:
        functions.append(one(functions[-1]))
    found: list[list[Array] | None] = [call.leaves]
    elements = iter(element)
    for number in reversed(range(len(applied))):
        if applied[number].kind not in PASSING:
            index = next(elements, 0) if applied[number].kind == "vmap" else 0
            try:
                call = _inside(applied[number], functions[number], call, index)
            except _NoElement:
                return [*[None] * (number + 1), *found]
        found.insert(0, call.leaves)
    return found


class _Called(BaseException):
    """The function was called; nothing else is to be known."""


class _NoElement(BaseException):
    """A batch has no elements."""


def _inside(one: Applied, function: Function, outer: Call, index: int) -> Call:
    """What a transformed function calls the function with: of a batch, the element of that number."""
    seen: list[Call] = []
    trees = kind_of(function)

    @standing_for(function)
    def looked(*args: Any, **kwargs: Any) -> Any:
        static = untraced_arguments(function, args, kwargs)
        leaves, structure = trees.flatten(trees.without_float0(static.dynamic(args, kwargs)))
        found = [_value(leaf, index) for leaf in leaves]
        seen.append(Call(*static.restored(args, kwargs, unflatten(structure, found)), static, found))
        raise _Called

    with contextlib.suppress(_Called):
        one(looked)(*outer.args, **outer.kwargs)
    return seen[0]


def _value(leaf: Any, index: int) -> Array:
    """The value that a traced one stands for: the primal one of a dual number, one element of a batch."""
    while isinstance(leaf, Tracer):
        if hasattr(leaf, "primal"):
            leaf = leaf.primal
        elif hasattr(leaf, "value"):
            if not leaf.value.shape[0]:
                raise _NoElement
            leaf = leaf.value[index]
        else:
            raise LeafError(
                f"explore(values=True): {leaf.owner.describe()} stages the function before its values are known. Leave"
                " values=True out."
            )
    return host_array(array_leaf(leaf, lambda: "argument"))
