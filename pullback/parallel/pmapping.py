"""pmap: a batch whose elements are on devices, one on each, as a shard_map over one axis."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from pullback.api.devices import device_put
from pullback.api.devices import devices as all_devices
from pullback.api.functions import INTEGERS, argument_name, check_callable, chosen_arguments, returned_leaves, wrapped
from pullback.core.array import Array, ShardedArray
from pullback.core.axes import MeshAxis, axes_around
from pullback.core.bounded import Bounded
from pullback.core.brief import brief, counted
from pullback.core.devices import Device
from pullback.core.errors import AxisError, ShardingError, StaticArgumentError
from pullback.core.meshes import Mesh
from pullback.core.shardings import NamedSharding, P
from pullback.core.source import api_boundary, describe
from pullback.core.trees import array_leaf, kind_of, structure_paths, unflatten
from pullback.core.types import ArrayType
from pullback.numpy.axes import normal_axis
from pullback.numpy.shaping import expand_dims, moveaxis, squeeze
from pullback.parallel.mapping import Mapping
from pullback.program.equality import param_key

MAX_SIGNATURES = 64  # types, structures and static arguments for which one pmap keeps what it made
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
        ShardingError: there are fewer devices than batch elements; or they take different branches, or other numbers of steps,
            where they communicate.
        StructureError: `in_axes` or `out_axes` do not fit the arguments or the output.

    Example:
        >>> import pullback as pb
        >>> pb.pmap(lambda x: x / pb.lax.psum(x, "i"), axis_name="i")(pb.numpy.array([[1.0, 4.0]]))
        [[1. 1.]]:f32[1,2]@(·,·):cpu(0)
    """
    check_callable(fun, "pmap")
    static, _ = chosen_arguments(fun, static_broadcasted_argnums, None, "pmap's static_broadcasted")
    donated, _ = chosen_arguments(fun, donate_argnums, None, "pmap's donate")
    if both := {*static} & {*donated}:
        raise StaticArgumentError(
            f"pmap of {describe(fun)}: argument {min(both)} is both static and donated. Choose one of the two."
        )
    if axis_size is not None and (not isinstance(axis_size, INTEGERS) or isinstance(axis_size, bool) or axis_size < 1):
        raise AxisError(f"pmap's axis_size must be a positive integer, but is {brief(axis_size)}.")
    if axis_name is not None and not isinstance(axis_name, str):
        raise AxisError(f"pmap's axis_name is that of the axis of a mesh, a string, but is {brief(axis_name)}.")
    given = (tuple(in_axes) if isinstance(in_axes, list) else in_axes), out_axes, axis_size
    found = None if devices is None else tuple(devices)
    return wrapped(fun, "pmap", Parallel(fun, axis_name or AXIS, given, found, static, donated))


class _Plan:
    """What a pmap is for arguments of one structure and types, and the same static ones.

    Attributes:
        mapping: the shard_map. inputs: for each of its arguments, which axis the batch is along, and how it is to lie.
        out_structure, out_axes: of the result, as the function was traced; the batch axis of each leaf, or None.
    """

    out_structure: Any
    out_axes: list[int | None]

    def __init__(self, mapping: Mapping, inputs: list[tuple[int | None, NamedSharding]]) -> None:
        self.mapping, self.inputs = mapping, inputs


class Parallel:
    """What `pmap` was given, and what it became for calls with other arguments."""

    def __init__(self, fun: Any, name: str, given: Any, devices: Any, static: Sequence[int], donated: Sequence[int]) -> None:
        self.fun, self.name, self.devices, self.static, self.donated = fun, name, devices, static, donated
        self.in_axes, self.out_axes, self.size = given
        self.trees = kind_of(fun)
        self._plans: Bounded[Any, _Plan] = Bounded(MAX_SIGNATURES)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if any([isinstance(owner, MeshAxis) for owner in axes_around().values()]):
            raise ShardingError(
                f"pmap of {describe(self.fun)} is inside another pmap or a shard_map: it has one device for what it maps over."
                " Use pb.vmap inside; or one pb.shard_map over a mesh that has both axes."
            )
        fixed = {number % len(args) for number in self.static if -len(args) <= number < len(args)}
        values = tuple([arg for i, arg in enumerate(args) if i not in fixed]) if fixed else args
        leaves, structure = self.trees.flatten((values, kwargs))
        for i, leaf in enumerate(leaves):
            if not isinstance(leaf, Array):
                leaves[i] = array_leaf(leaf, lambda i=i: f"argument {self.paths(args, kwargs, fixed)[i][0]}")  # type: ignore[misc]
        types = tuple([leaf.type for leaf in leaves])
        there = tuple(all_devices()) if self.devices is None else self.devices
        key = structure, types, there, tuple([(i, param_key(args[i])) for i in fixed]), len(args)
        try:
            plan = self._plans.get(key)
        except TypeError as error:
            statics = {i: args[i] for i in fixed}
            what = f"an argument's structure must be hashable: {error}"
            if statics:
                what = f"static arguments must be hashable, but one of them is not: {statics!r}"
            raise StaticArgumentError(f"pmap of {describe(self.fun)}: {what}.") from error
        if plan is None:
            plan = self._plans.setdefault(key, self.plan(args, kwargs, fixed, structure, types, there))
        for i, (axis, sharding) in enumerate(plan.inputs):
            leaf = moveaxis(leaves[i], axis, 0) if axis else leaves[i]
            # what lies on another mesh, of other devices or by other names, is moved to this one
            elsewhere = leaf.__class__ is ShardedArray and leaf.sharding.mesh is not sharding.mesh
            leaves[i] = device_put(leaf, sharding) if elsewhere else leaf
        mapped, whole = plan.mapping(*leaves)
        rest = [iter(whole), iter(mapped)]
        outs = [next(rest[axis is not None]) for axis in plan.out_axes]
        return unflatten(plan.out_structure, [moveaxis(x, 0, axis) if axis else x for x, axis in zip(outs, plan.out_axes)])

    def paths(self, args: tuple[Any, ...], kwargs: dict[str, Any], fixed: Collection[int]) -> list[tuple[str, bool]]:
        """How errors call each leaf of the arguments that are not static, and whether it is donated."""
        donated = {number % len(args) for number in self.donated if -len(args) <= number < len(args)}
        roots = [(arg, argument_name(self.fun, i), i in donated) for i, arg in enumerate(args) if i not in fixed]
        roots += [(kwargs[name], name, False) for name in sorted(kwargs)]  # as dicts are flattened
        rows = [(self.trees.structure_paths(self.trees.flatten(tree)[1], root), gone) for tree, root, gone in roots]
        return [(path, gone) for paths, gone in rows for path in paths]

    def plan(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        fixed: Collection[int],
        structure: Any,
        types: Sequence[ArrayType],
        there: Sequence[Device],
    ) -> _Plan:
        """What calls with arguments of these types become: the function as a shard_map of their leaves."""
        fun, trees, axes, count = self.fun, self.trees, self.in_axes, len(args)
        numbers = [i for i in range(count) if i not in fixed]
        statics = {i: args[i] for i in fixed}
        if isinstance(axes, tuple):
            if len(axes) != count:
                raise AxisError(
                    f"pmap of {describe(fun)} has in_axes={brief(axes)}, of length {len(axes)}, but"
                    f" {counted(count, 'argument')}."
                )
            axes = tuple([axes[i] for i in numbers])
        values = tuple([args[i] for i in numbers])
        each = trees.broadcast_prefix(axes, values, f"pmap's in_axes for {describe(fun)}", "arguments")
        each += [0] * (len(types) - len(each))
        rows = self.paths(args, kwargs, fixed)
        places = [
            None if axis is None else normal_axis(axis, type.ndim, f"pmap of {describe(fun)}, argument {path}")
            for type, axis, (path, _) in zip(types, each, rows, strict=True)
        ]
        sizes = {path: type.shape[i] for type, i, (path, _) in zip(types, places, rows) if i is not None}
        mesh = self.mesh(sizes, there)
        specs = tuple([P() if place is None else P(self.name) for place in places])

        def of_shards(*shards: Any) -> tuple[list[Any], list[Any]]:
            elements = [x if place is None else squeeze(x, 0) for x, place in zip(shards, places)]
            values, named = unflatten(structure, elements)
            rest = iter(values)
            out = fun(*[statics[i] if i in statics else next(rest) for i in range(count)], **named)
            outs, plan.out_structure = returned_leaves(fun, out)
            wanted = trees.broadcast_prefix(self.out_axes, out, f"pmap's out_axes for {describe(fun)}", "output")
            labels = structure_paths(plan.out_structure, "output")
            plan.out_axes = [
                None if axis is None else normal_axis(axis, x.type.ndim + 1, f"pmap of {describe(fun)}, {label}")
                for x, axis, label in zip(outs, wanted, labels, strict=True)
            ]
            mapped = [expand_dims(x, 0) for x, i in zip(outs, plan.out_axes) if i is not None]
            return mapped, [x for x, i in zip(outs, plan.out_axes) if i is None]

        gone = tuple([i for i, (_, flag) in enumerate(rows) if flag])
        function = wrapped(fun, "pmap", of_shards)
        function.__signature__ = inspect.signature(of_shards)  # type: ignore[attr-defined] # the leaves are its arguments
        mapping = Mapping(function, mesh, specs, (P(self.name), P()), (), False, False, gone)
        plan = _Plan(mapping, [(place, NamedSharding(mesh, spec)) for place, spec in zip(places, specs)])
        return plan

    def mesh(self, sizes: dict[str, int], there: Sequence[Device]) -> Mesh:
        """The devices, one for each batch element. Raises unless all arguments agree on how many there are."""
        size = self.size if self.size is not None else next(iter(sizes.values()), None)
        if size is None:
            raise AxisError(
                f"pmap of {describe(self.fun)} has no mapped argument, so the number of batch elements is unknown: map an"
                " argument by in_axes, or pass axis_size."
            )
        if wrong := {path: own for path, own in sizes.items() if own != size}:
            listed = "; ".join([f"argument {path} has {own} elements" for path, own in wrong.items()])
            raise AxisError(f"pmap of {describe(self.fun)} maps over {counted(size, 'batch element')}, but {listed}.")
        if not 0 < size <= len(there):
            raise ShardingError(
                f"pmap of {describe(self.fun)} was given {counted(size, 'batch element')}, one for each device, of"
                f" which this process has {len(there)}. pb.vmap takes any number; PULLBACK_CPU_DEVICES divides the CPU."
            )
        return Mesh(np.array(there[:size], object), (self.name,))
