"""An exported function as one operation: `call_exported`, whose only rules are those that need nothing but its StableHLO, or
`call_transformable`, of which there is the Program as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.api.scans import map as map_in_loop
from pullback.core.axes import MeshAxis, axes_around
from pullback.core.errors import ShapeError, ShardingError
from pullback.core.execution import engine
from pullback.core.meshes import AbstractMesh, current_mesh
from pullback.core.primitive import Rules, primitive
from pullback.engine.portable import include
from pullback.native.graph import Refused
from pullback.ops.constrain import sharding_constraint
from pullback.program.interpret import run


def _recorded(write, *values, function, **params):
    """For the native tier, which leaves the program to XLA."""
    raise Refused(f"{function.fun_name} was exported as StableHLO, which XLA alone reads")


class OfStableHLO(Rules):
    """Runs the StableHLO of an exported function on the leaves of its arguments; `mesh` is the one that it computes on, or
    None."""

    multiple_results = True
    on_arrays = True

    def cost(operands, results, *, function, **params):
        return function._module(function.platforms[0]).facts["cost"][0]

    def result_type(*types, function, **params):
        if [type.strong() for type in types] != [type.strong() for type in function.in_types]:
            raise ShapeError(f"{function.fun_name} was exported for arguments {function.in_types}, but got {types}.")
        return function.out_types

    def evaluate(primitive, *arrays, **params):
        return engine().run_operation(primitive, arrays, params)

    def lower(write, *values, function, **params):
        return include(write, function._module(write.platform), f"exported_{function.digest[:32]}_", values)

    platforms = {"native": _recorded}  # noqa: RUF012  (a rule, not a default)


@primitive
class call_transformable(OfStableHLO):
    """Apply an exported function of which there is the Program: what transformations make is made of that."""

    def expand(*args, function, program, mesh):
        return run(program, args)


@primitive
class call_exported(OfStableHLO):
    """Apply an exported function of which there is nothing but StableHLO."""

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


def call_flat(function: Any, *leaves: Any) -> tuple[Any, ...]:
    """Call an exported function, whose arguments and results lie as it was exported for."""
    given, mesh = constrained(leaves, function.in_shardings), _mesh_here(function)
    if function.program is None:
        outs = call_exported(*given, function=function, mesh=mesh)
    else:
        outs = call_transformable(*given, function=function, program=function.program, mesh=mesh)
    return tuple(constrained(outs, function.out_shardings))


def _mesh_here(function: Any) -> AbstractMesh | None:
    """The mesh that an exported function computes on: with the devices of the innermost `with mesh:`, if its axes are those.

    Raises:
        ShardingError: a shard_map around it works along axes of its mesh.
    """
    mesh: AbstractMesh | None = function.mesh
    if mesh is None:
        return None
    taken = {owner.axis.name for owner in axes_around().values() if isinstance(owner, MeshAxis)}.intersection(mesh.axis_names)
    if taken:
        raise ShardingError(
            f"{function.fun_name} was exported to divide its arrays over {mesh}, and so cannot be called in a shard_map along"
            f" {', '.join(sorted(map(repr, taken)))}: call it outside, or export the function of one device's shards."
        )
    here = current_mesh()
    return here if here is not None and here.abstract_mesh is mesh else mesh
