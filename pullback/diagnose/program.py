"""A call of a user's function as a Program and the values of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pullback.api.applied import static_arguments
from pullback.api.functions import Function, check_callable
from pullback.api.traced import check_closed, traced_call
from pullback.core.array import Array, as_array
from pullback.core.brief import counted
from pullback.core.errors import EscapedTracerError
from pullback.core.source import describe
from pullback.core.tracing import Tracer
from pullback.core.trees import TreeDef, unflatten
from pullback.program.program import Program
from pullback.transforms.simplify import drop_dead_code


class Staged(NamedTuple):
    """A call, staged.

    Attributes:
        program: the function, of the leaves of its arguments. leaves: their values, where they are. paths: their names in
            messages.
        structure: that of the result; None where the function is a Program, which returns its one output, or a tuple.
    """

    program: Program
    leaves: Sequence[Array]
    paths: Sequence[str]
    structure: TreeDef | None

    def result(self, outs: Sequence[Any]) -> Any:
        """The function's result, of what the Program returns."""
        if self.structure is None:
            return outs[0] if len(outs) == 1 else tuple(outs)
        return unflatten(self.structure, outs)


def staged(what: str, fun: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Staged:
    """Trace a function for the arguments of a call, which have values.

    Raises:
        LeafError: an argument is a type, without values. EscapedTracerError: one is traced.
    """
    check_callable(fun, what)
    if isinstance(fun, Program) and not kwargs:
        if len(args) != len(fun.inputs):
            raise TypeError(f"{what}: this Program takes {counted(len(fun.inputs), 'array')}, but got {len(args)}.")
        leaves, program, structure = [as_array(arg) for arg in args], fun, None
        paths = [f"input {i}" for i in range(len(args))]
    else:
        call = traced_call(what, fun, args, kwargs, *static_arguments(fun, args, kwargs))
        check_closed(what, fun, call.traced.captures)
        leaves, paths, structure = call.leaves, call.paths, call.traced.structure
        program = drop_dead_code(call.traced.program)
    for leaf, path in zip(leaves, paths):
        if isinstance(leaf, Tracer):
            raise EscapedTracerError(
                f"{what} of {describe(fun)} runs on values, but argument {path} is a traced one. Call it outside of"
                f" {leaf.owner.describe()}."
            )
    return Staged(program, leaves, paths, structure)
