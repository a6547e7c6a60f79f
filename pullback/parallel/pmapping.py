"""pmap: a batch whose elements are on devices, one on each, as a shard_map over one axis."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.api.devices import device_put
from pullback.api.devices import devices as all_devices
from pullback.api.functions import INTEGERS, argument_name, check_callable, chosen_arguments, returned_leaves, wrapped
from pullback.core.array import ShardedArray
from pullback.core.bounded import Bounded
from pullback.core.devices import Device
from pullback.core.errors import AxisError, ShardingError, StaticArgumentError
from pullback.core.meshes import Mesh
from pullback.core.shardings import NamedSharding, P
from pullback.core.source import api_boundary, describe
from pullback.core.trees import array_leaf, kind_of, structure_paths, unflatten
from pullback.numpy.axes import normal_axis
from pullback.numpy.shaping import expand_dims, moveaxis, squeeze
from pullback.parallel.mapping import Mapping
from pullback.program.equality import param_key

MAX_SIGNATURES = 64  # structures and static arguments for which one pmap keeps what it made
AXIS = "pmap"  # what the mesh calls its axis if the user does not name it


@api_boundary
def pmap(
    fun: Callable[..., Any],
    axis_name: str | None = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[Device] | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
) -> Callable[..., Any]:
    """A function that maps `fun` over a batch with one element on each device, compiled: a `vmap` whose elements compute apart.

    A `shard_map` over a mesh of one axis does the same to arrays that are divided in any way; it is what this is made of. As
    along a vmap, a gradient that is taken inside is each element's own, and a `psum` its own transpose.

    Arguments:
        fun: a function of single batch elements: arrays and pytrees.
        axis_name: a name by which `psum`, `pmean`, `axis_index`, ... refer to the batch axis inside `fun`.
        in_axes: which axis of each argument runs over the batch elements: an int for all, or a tuple with an entry for
            each argument, itself an int, None (all elements get the whole), or a tree of them. Arguments that are passed by
            name are mapped along axis 0.
        out_axes: where the batch axis goes in the output: an int, None for outputs that are the same for all elements, or a
            tree of them that is a prefix of the output's.
        static_broadcasted_argnums: which arguments are passed on as they are, hashable values: `fun` is traced for each.
        devices: the devices, at least as many as batch elements; by default the first ones of all.
        axis_size: the number of batch elements, needed only where no argument is mapped.
        donate_argnums: which arguments may be overwritten by the results.

    Returns:
        A function of the same arguments with batch axes added. Its results are divided among the devices.

    Raises:
        AxisError, when the returned function is called: an axis that an argument does not have, or sizes that differ.
        ShardingError: there are fewer devices than batch elements.
        StructureError: `in_axes` or `out_axes` do not fit the arguments or the output.

    Example:
        >>> import pullback as pb
        >>> pb.pmap(lambda x: x / pb.lax.psum(x, "i"), axis_name="i")(pb.numpy.array([[1.0, 4.0]]))
        [[1. 1.]]:f32[1,2]@(·,·):cpu(0)
    """
    check_callable(fun, "pmap")
    static, _ = chosen_arguments(fun, static_broadcasted_argnums, None, "pmap's static_broadcasted")
    donated, _ = chosen_arguments(fun, donate_argnums, None, "pmap's donate")
    if axis_size is not None and (not isinstance(axis_size, INTEGERS) or isinstance(axis_size, bool) or axis_size < 1):
        raise AxisError(f"pmap's axis_size must be a positive integer, but is {axis_size!r}.")
    if axis_name is not None and not isinstance(axis_name, str):
        raise AxisError(f"pmap's axis_name is that of the axis of a mesh, a string, but is {axis_name!r}.")
    given = (tuple(in_axes) if isinstance(in_axes, list) else in_axes), out_axes, axis_size
    found = None if devices is None else tuple(devices)
    return wrapped(fun, "pmap", Parallel(fun, axis_name or AXIS, given, found, static, donated))


class Parallel:
    """What `pmap` was given, and the shard_maps that it became for calls with other structures and static arguments."""

    def __init__(self, fun: Any, name: str, given: Any, devices: Any, static: Sequence[int], donated: Sequence[int]) -> None:
        self.fun, self.name, self.devices, self.static, self.donated = fun, name, devices, static, donated
        self.in_axes, self.out_axes, self.size = given
        self.trees = kind_of(fun)
        self._mappings: Bounded[Any, tuple[Mapping, list[Any]]] = Bounded(MAX_SIGNATURES)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        fun, trees = self.fun, self.trees
        fixed, donated = [
            {number % len(args) for number in numbers if -len(args) <= number < len(args)}
            for numbers in (self.static, self.donated)
        ]
        numbers = [i for i in range(len(args)) if i not in fixed]
        values, axes = tuple([args[i] for i in numbers]), self.in_axes
        if isinstance(axes, tuple):
            if len(axes) != len(args):
                raise AxisError(
                    f"pmap of {describe(fun)} has in_axes={axes!r}, of length {len(axes)}, but {len(args)} arguments."
                )
            axes = tuple([axes[i] for i in numbers])
        roots = [(args[i], argument_name(fun, i), i in donated) for i in numbers]
        roots += [(value, name, False) for name, value in kwargs.items()]
        paths, gives = [], []
        for tree, root, gone in roots:
            own = trees.structure_paths(trees.flatten(tree)[1], root)
            paths += own
            gives += [gone] * len(own)
        leaves, structure = trees.flatten((values, kwargs))
        each = trees.broadcast_prefix(axes, values, f"pmap's in_axes for {describe(fun)}", "arguments")
        each += [0] * (len(leaves) - len(each))
        leaves = [array_leaf(leaf, lambda path=path: f"argument {path}") for leaf, path in zip(leaves, paths)]  # type: ignore[misc]
        places = [
            None if axis is None else normal_axis(axis, leaf.type.ndim, f"pmap of {describe(fun)}, argument {path}")
            for leaf, axis, path in zip(leaves, each, paths, strict=True)
        ]
        mesh = self.mesh({path: leaf.type.shape[i] for leaf, i, path in zip(leaves, places, paths) if i is not None})
        leaves = [leaf if i is None else moveaxis(leaf, i, 0) for leaf, i in zip(leaves, places)]
        lie = [NamedSharding(mesh, P() if i is None else P(self.name)) for i in places]
        leaves = [moved(leaf, sharding) for leaf, sharding in zip(leaves, lie)]
        statics = {i: args[i] for i in fixed}
        key = structure, tuple(places), tuple(gives), mesh, tuple([(i, param_key(x)) for i, x in statics.items()]), len(args)
        try:
            found = self._mappings.get(key)
        except TypeError as error:
            what = f"a static argument cannot be hashed: {statics!r}" if statics else f"an argument's structure: {error}"
            raise StaticArgumentError(f"pmap of {describe(fun)}: {what}.") from error
        if found is None:
            found = self._mappings.setdefault(key, self.mapping(structure, places, gives, mesh, statics, len(args)))
        mapping, kept = found
        mapped, whole = mapping(*leaves)
        out_structure, out_places = kept
        rest = [iter(whole), iter(mapped)]
        outs = [next(rest[i is not None]) for i in out_places]
        outs = [out if not i else moveaxis(out, 0, i) for out, i in zip(outs, out_places)]
        return unflatten(out_structure, outs)

    def mapping(
        self,
        structure: Any,
        places: Sequence[int | None],
        gives: Sequence[bool],
        mesh: Mesh,
        statics: dict[int, Any],
        count: int,
    ) -> tuple[Mapping, list[Any]]:
        """The function as a shard_map of the leaves of its arguments, and where it leaves the structure of its output, and the
        batch axis of each leaf of that."""
        fun, trees = self.fun, self.trees
        kept: list[Any] = [None, None]

        def of_shards(*shards: Any) -> tuple[list[Any], list[Any]]:
            elements = [x if place is None else squeeze(x, 0) for x, place in zip(shards, places)]
            values, named = unflatten(structure, elements)
            rest = iter(values)
            out = fun(*[statics[i] if i in statics else next(rest) for i in range(count)], **named)
            outs, out_structure = returned_leaves(fun, out)
            wanted = trees.broadcast_prefix(self.out_axes, out, f"pmap's out_axes for {describe(fun)}", "output")
            labels = structure_paths(out_structure, "output")
            out_places = [
                None if axis is None else normal_axis(axis, x.type.ndim + 1, f"pmap of {describe(fun)}, {label}")
                for x, axis, label in zip(outs, wanted, labels, strict=True)
            ]
            kept[:] = out_structure, out_places
            mapped = [expand_dims(x, 0) for x, i in zip(outs, out_places) if i is not None]
            return mapped, [x for x, i in zip(outs, out_places) if i is None]

        specs = tuple([P() if place is None else P(self.name) for place in places])
        gone = tuple([i for i, flag in enumerate(gives) if flag])
        function = wrapped(fun, "pmap", of_shards)
        function.__signature__ = inspect.signature(of_shards)  # type: ignore[attr-defined] # the leaves are its arguments
        return Mapping(function, mesh, specs, (P(self.name), P()), (), False, False, gone), kept

    def mesh(self, sizes: dict[str, int]) -> Mesh:
        """The devices, one for each batch element. Raises unless all arguments agree on how many there are."""
        size = self.size if self.size is not None else next(iter(sizes.values()), None)
        if size is None:
            raise AxisError(
                f"pmap of {describe(self.fun)} has no mapped argument, so the number of batch elements is unknown: map an"
                " argument by in_axes, or pass axis_size."
            )
        if wrong := {path: own for path, own in sizes.items() if own != size}:
            listed = "; ".join([f"argument {path} has {own} elements" for path, own in wrong.items()])
            raise AxisError(f"pmap of {describe(self.fun)} maps over {size} batch elements, but {listed}.")
        there = all_devices() if self.devices is None else self.devices
        if not 0 < size <= len(there):
            raise ShardingError(
                f"pmap of {describe(self.fun)} was given {size} batch elements, one for each device, but there are {len(there)}"
                " devices. pb.vmap takes any number; PULLBACK_CPU_DEVICES divides the CPU."
            )
        return Mesh(np.array(there[:size], object), (self.name,))


def moved(x: Any, sharding: NamedSharding) -> Any:
    """An array that lies on another mesh, of other devices or by other names, moved to that of the sharding."""
    return device_put(x, sharding) if x.__class__ is ShardedArray and x.sharding.mesh is not sharding.mesh else x
