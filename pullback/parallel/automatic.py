"""Automatic partitioning: what the user says of where values lie inside a compiled function."""

from __future__ import annotations

from typing import Any, TypeVar

from pullback.api.shardings import constrained, spread_prefix
from pullback.core.errors import ShardingError
from pullback.core.source import api_boundary
from pullback.core.trees import OWN_TREES, array_leaves, structure_paths, unflatten

T = TypeVar("T")


@api_boundary
def with_sharding_constraint(x: T, shardings: Any) -> T:
    """The values of a tree, of which it is said how they are divided among devices. What is computed is the same.

    Arguments:
        x: a tree of arrays, most often traced ones in a function that `jit` compiles.
        shardings: a sharding (`NamedSharding`, or a `PartitionSpec` inside `with mesh:`), or a tree of them that is a prefix of
            `x`. An entry `UNCONSTRAINED` of a spec leaves an axis to the partitioner; None leaves a value to it.

    Returns:
        The tree. The derivative constrains cotangents alike; under `vmap` the batch axis is left to the partitioner.

    Raises:
        ShardingError: a value cannot be divided so, or a spec names an unknown axis.

    Example:
        >>> import pullback as pb
        >>> mesh = pb.make_mesh((1,), ("data",))
        >>> @pb.jit
        ... def f(x):
        ...     return pb.lax.with_sharding_constraint(2.0 * x, pb.NamedSharding(mesh, pb.P("data")))
        >>> f(pb.numpy.ones(2))
        [2. 2.]:f32[2]@(data):cpu(0)
    """
    leaves, structure = array_leaves(x, lambda: "with_sharding_constraint's argument")
    wanted = spread_prefix(OWN_TREES, shardings, x, "with_sharding_constraint's shardings", "x")
    found = []
    for number, (leaf, one) in enumerate(zip(leaves, wanted, strict=True)):
        try:
            found.append(constrained(leaf, one))
        except ShardingError as error:
            error.args = (f"with_sharding_constraint of {structure_paths(structure, 'x')[number]}: {error}",)
            raise
    return unflatten(structure, found)  # type: ignore[no-any-return]
