"""How the arguments and results of a jitted function lie on devices: its `in_shardings` and `out_shardings`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.api.functions import Function
from pullback.core.array import Array, PlacedArray, ShardedArray, placed_type
from pullback.core.axes import MeshAxis, axes_around
from pullback.core.errors import ShardingError, ShardingMismatch
from pullback.core.meshes import alike
from pullback.core.shardings import NamedSharding, PartitionSpec, Sharding, as_sharding, names_of, on_one_mesh
from pullback.core.source import at_user_line, describe
from pullback.core.tracing import Tracer
from pullback.core.trees import OWN_TREES, Trees, unflatten
from pullback.core.types import ArrayType
from pullback.ops.constrain import sharding_constraint

Wanted = Sequence[NamedSharding | None]


def constrained(x: Any, sharding: NamedSharding | None) -> Any:
    """A traced value, of which it is said how it lies; None says nothing.

    Raises:
        ShardingError: it cannot lie so; or a shard_map around it works along one of the axes.
    """
    if sharding is None:
        return x
    taken = {owner.axis.name for owner in axes_around().values() if isinstance(owner, MeshAxis)}
    for name in [name for entry in sharding.spec for name in names_of(entry) if name in taken]:
        raise ShardingError(
            f"{sharding.spec} names {name!r}, along which the shard_map around it works: there each device has a shard of its"
            " own, which is whole. Name the axes that are left to the partitioner (axis_names), or none."
        )
    return sharding_constraint(x, sharding=sharding)


def over_devices(given: Any, what: str) -> NamedSharding | None:
    """A sharding over the devices of a mesh, from what users write for it; None for None."""
    if given is None:
        return None
    found = as_sharding(given, what)
    if isinstance(found, NamedSharding):
        return found
    raise ShardingError(
        f"{what} is {found}, of one device. A compiled function runs on a mesh, or where its arguments are: give a sharding"
        " over a mesh (pb.NamedSharding), or put the arguments on the device (pb.device_put)."
    )


def spread_prefix(trees: Trees, given: Any, tree: Any, what: str, root: str) -> list[NamedSharding | None]:
    """A sharding, or None, for each leaf of a tree, from a tree of shardings and specs that is a prefix of it."""
    given = places_as_leaves(given, what) if trees is OWN_TREES else given  # in others a spec is a leaf
    return [over_devices(one, what) for one in trees.broadcast_prefix(given, tree, what, root)]


def places_as_leaves(given: Any, what: str) -> Any:
    """A tree of shardings, specs and devices in which a spec, which is a tuple, is a leaf. `what` is how errors call it."""
    if isinstance(given, PartitionSpec):
        return as_sharding(given, what)
    if isinstance(given, dict):
        return {key: places_as_leaves(value, f"{what}[{key!r}]") for key, value in given.items()}
    if isinstance(given, (tuple, list)):
        parts = [places_as_leaves(value, f"{what}[{i}]") for i, value in enumerate(given)]
        return type(given)(*parts) if hasattr(given, "_fields") else type(given)(parts)
    return given


class Shardings:
    """What a jitted function says of where its arguments and results lie.

    Attributes:
        given_in, given_out: trees of shardings and specs, prefixes of the tuple of arguments, and of the result.
    """

    def __init__(self, given_in: Any, given_out: Any) -> None:
        self.given_in = tuple(given_in) if isinstance(given_in, list) else given_in
        self.given_out = given_out

    def of_arguments(self, fun: Function, trees: Trees, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Wanted:
        """What is said of each leaf of the arguments that are not static."""
        if self.given_in is None:
            return ()
        if kwargs:
            raise ShardingError(
                f"jit of {describe(fun)} has in_shardings, which are for arguments that are passed by position, but was given"
                f" {', '.join(kwargs)} by name."
            )
        return spread_prefix(trees, self.given_in, args, f"jit's in_shardings for {describe(fun)}", "arguments")

    def of_result(self, fun: Function, trees: Trees, out: Any) -> Any:
        """The function's result, constrained."""
        if self.given_out is None:
            return out
        wanted = spread_prefix(trees, self.given_out, out, f"jit's out_shardings for {describe(fun)}", "output")
        leaves, structure = trees.array_leaves(out, lambda: "the result")
        return unflatten(structure, [constrained(leaf, one) for leaf, one in zip(leaves, wanted, strict=True)])


def lying(fun: Function, leaves: Sequence[Any], wanted: Wanted, paths: Callable[[], Sequence[str]]) -> tuple[ArrayType, ...]:
    """The types of leaves with their shardings: those that are wanted, or else those that they have.

    Raises:
        ShardingMismatch: an argument lies on devices in another way. UnevenShard: it cannot be divided so.
    """
    if not wanted:
        return on_one_mesh([*map(placed_type, leaves)])
    found = []
    for i, (leaf, want) in enumerate(zip(leaves, wanted, strict=True)):
        own = leaf.sharding if isinstance(leaf, (ShardedArray, PlacedArray)) else None
        if want is None or isinstance(leaf, Tracer):
            found.append(placed_type(leaf))
            continue
        try:
            want.shard_shape(leaf.type.shape)
        except ShardingError as error:
            error.args = (f"Argument {paths()[i]} of {describe(fun)}: {error}{at_user_line()}",)
            raise
        if own is not None and own is not want and not _same(own, want, leaf):
            taken = leaf.type.placed(want, leaf.type.varying)
            raise ShardingMismatch(
                f"Argument {paths()[i]} of {describe(fun)} lies as {placed_type(leaf)} on {_where(own)}, but in_shardings says"
                f" {taken} on {want.mesh}. Move it there first: pb.device_put(x, sharding).{at_user_line()}"
            )
        found.append(leaf.type.placed(want, leaf.type.varying))
    return on_one_mesh(found)


def _same(own: Sharding, want: NamedSharding, leaf: Array) -> bool:
    if not want.devices:  # a mesh without devices stands for any of the same axes
        return isinstance(own, NamedSharding) and alike(own.mesh, want.mesh) and own.spec == want.spec
    return own.is_equivalent_to(want, leaf.type.ndim)


def lies_as(array: ShardedArray, wanted: NamedSharding | None) -> bool:
    """Whether an array lies as an input is taken; one of which nothing is said is whole on each device."""
    if wanted is None:
        return array.is_fully_replicated
    return _same(array.sharding, wanted, array)


def _where(own: Sharding) -> str:
    return str(own.mesh) if isinstance(own, NamedSharding) else own.place
