"""call_exported: an exported function as one operation, whose only rules are those that need nothing but its StableHLO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.api.loops import map as map_in_loop
from pullback.core.errors import ShapeError
from pullback.core.execution import engine
from pullback.core.primitive import Rules, primitive
from pullback.engine.portable import include
from pullback.native.graph import Refused
from pullback.ops.constrain import sharding_constraint


def _recorded(write, *values, function, mesh):
    """For the native tier, which leaves the program to XLA."""
    raise Refused(f"{function.fun_name} was exported as StableHLO, which XLA alone reads")


@primitive
class call_exported(Rules):
    """Apply an exported function to the leaves of its arguments; `mesh` is the one that it computes on, or None."""

    multiple_results = True
    on_arrays = True

    def cost(operands, results, *, function, mesh):
        return function._module(function.platforms[0]).facts["cost"][0]

    def result_type(*types, function, mesh):
        if [type.strong() for type in types] != [type.strong() for type in function.in_types]:
            raise ShapeError(f"{function.fun_name} was exported for arguments {function.in_types}, but got {types}.")
        return function.out_types

    def evaluate(*arrays, function, mesh):
        return engine().run_operation(call_exported, arrays, {"function": function, "mesh": mesh})

    def lower(write, *values, function, mesh):
        return include(write, function._module(write.platform), f"exported_{function.key[:32]}_", values)

    platforms = {"native": _recorded}  # noqa: RUF012  (a rule, not a default)

    def jvp(primals, tangents, *, function, mesh):
        raise function._no_derivative()

    def vectorize(size, args, axes, *, function, mesh):
        batched = [arg for arg, axis in zip(args, axes) if axis is not None]

        def one(elements):
            rest = iter(elements)
            given = [arg if axis is None else next(rest) for arg, axis in zip(args, axes)]
            return call_exported(*given, function=function, mesh=mesh)

        return map_in_loop(one, tuple(batched)), (0,) * len(function.out_types)


def constrained(values: Sequence[Any], shardings: Sequence[Any]) -> list[Any]:
    """Values of which it is said how they lie on a mesh; None says nothing."""
    pairs = zip(values, shardings, strict=True)
    return [x if sharding is None else sharding_constraint(x, sharding=sharding) for x, sharding in pairs]


def call_flat(function: Any, leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Call an exported function, whose arguments and results lie as it was exported for."""
    given = constrained(leaves, function.in_shardings)
    outs = call_exported(*given, function=function, mesh=function.mesh)
    return tuple(constrained(outs, function.out_shardings))
