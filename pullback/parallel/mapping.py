"""shard_map: a function that every device of a mesh applies to its own shards of arrays, and that may let them communicate."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any

from pullback.api.compiled import jit
from pullback.api.functions import argument_name, check_callable, check_flags, returned_leaves, wrapped
from pullback.core.array import ShardedArray, as_array
from pullback.core.axes import MeshAxis, axes_around, mesh_axes
from pullback.core.brief import brief, counted
from pullback.core.errors import ShardingError, StructureError, UnknownAxis
from pullback.core.meshes import AbstractMesh, alike, current_mesh
from pullback.core.modes import current_mode, overriding
from pullback.core.shardings import NamedSharding, PartitionSpec, names_of
from pullback.core.source import api_boundary, at_user_line, describe, name_of
from pullback.core.tracing import Tracer, innermost_staging, type_of
from pullback.core.trees import OWN_TREES, array_leaf, kind_of, structure_paths, unflatten
from pullback.core.types import ArrayType
from pullback.parallel.manual import Over, bind_map, check_outputs, on_devices
from pullback.parallel.stepwise import by_turns
from pullback.parallel.varying import settled
from pullback.transforms.simplify import drop_dead_code
from pullback.transforms.stage import stage


@api_boundary
def shard_map(
    f: Callable[..., Any] | None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any,
    mesh: AbstractMesh | None = None,
    axis_names: Collection[str] = frozenset(),
    check_vma: bool = True,
    debug: bool = False,
) -> Callable[..., Any]:
    """A function that every device of a mesh applies to its own shards of the arguments; the shards of its results are joined.

    Inside, the mesh's axes are named axes: `pb.lax.psum(x, "data")` adds over the devices along one, and `axis_index`,
    `all_gather`, `ppermute` and the like work between them. Derivatives know which values all devices along an axis share:
    the gradient with respect to a parameter that is the same everywhere is summed over the devices, inside and outside.

    Outside of `jit` it is compiled, as by `jit`, and kept for arguments of these types.

    Arguments:
        f: a function of shards: of arrays as large as `in_specs` leave them. Without it, a decorator is returned.
        in_specs: how the arguments, all passed by position, are divided: a `PartitionSpec` for all, or a tree of them that is a
            prefix of the tuple of arguments. An axis of the mesh that a spec does not name finds the same value on all devices.
        out_specs: how the results are joined, a prefix of the output.
        mesh: the mesh; by default that of `with mesh:`, or of the shard_map around this one.
        axis_names: those axes of the mesh that `f` works along; all by default. The others are left to the partitioner, as in
            `jit`, and specs do not name them.
        check_vma: whether to refuse a result that may differ between devices whose spec does not say so. Without it nobody says
            what devices share: a gradient inside `f` is each device's own, and a `psum` in it its own transpose, as in `pmap`;
            and where a branch or loop in which devices communicate has a predicate that may differ, it is looked at each call
            whether it does, on the CPU.
        debug: run it in Python instead, for one device after another, so that `print` and pdb show values; so it does wherever
            nothing is compiled. Only the branches of a `cond` between which devices choose differently are traced.

    Returns:
        A function of whole arrays, with results that are divided among the devices.

    Raises:
        When the function is called: ShardingError: no mesh, or a spec that does not fit: UnknownAxis, AxisUsedTwice,
        UnevenShard.
        ShardingError also, without `check_vma`: devices take different branches, or other numbers of steps, where they meet.
        VaryingOutput: a result differs between devices along an axis that its spec does not name.
        StructureError: the specs are no prefix of the arguments or of the output.

    Example:
        >>> import pullback as pb
        >>> mesh = pb.make_mesh((1,), ("data",))
        >>> @pb.shard_map(mesh=mesh, in_specs=(pb.P(), pb.P("data")), out_specs=pb.P())
        ... def loss(w, x):
        ...     return pb.lax.pmean(pb.numpy.mean((x * w) ** 2), "data")
        >>> pb.grad(loss)(3.0, pb.numpy.ones(4))
        6.0:f32[]@():cpu(0)
    """
    if f is None:
        return functools.partial(
            shard_map,
            out_specs=out_specs,
            in_specs=in_specs,
            mesh=mesh,
            axis_names=axis_names,
            check_vma=check_vma,
            debug=debug,
        )
    check_callable(f, "shard_map")
    check_flags("shard_map", check_vma=check_vma, debug=debug)
    if mesh is not None and not isinstance(mesh, AbstractMesh):
        raise TypeError(f"shard_map takes a mesh (pb.make_mesh), but got {brief(mesh)} of type {type(mesh).__name__}.")
    mapping = Mapping(f, mesh, in_specs, out_specs, axis_names, check_vma, debug)
    return wrapped(f, "shard_map", mapping)


class Asked:
    """A spec as it was given, a leaf of a tree."""

    __slots__ = ("spec",)

    def __init__(self, spec: PartitionSpec) -> None:
        self.spec = spec


class Mapping:
    """What `shard_map` was given."""

    def __init__(
        self,
        f: Any,
        mesh: AbstractMesh | None,
        in_specs: Any,
        out_specs: Any,
        names: Any,
        check: bool,
        debug: bool,
        donated: tuple[int, ...] = (),
    ) -> None:
        self.f, self.mesh, self.in_specs, self.out_specs = f, mesh, in_specs, out_specs
        self.names, self.check, self.debug = names, check, debug
        self.trees = kind_of(f)

        def traced(*args: Any) -> Any:
            return self.map(args)

        self.compiled = jit(wrapped(f, "shard_map", traced), donate_argnums=donated)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise TypeError(
                f"shard_map of {describe(self.f)} takes arguments by position, as in_specs lists them, but was given"
                f" {', '.join(kwargs)} by name."
            )
        leaves, structure = self.trees.flatten(args)
        traced = innermost_staging() is not None or any([isinstance(leaf, Tracer) for leaf in leaves])
        if self.debug or traced or axes_around() or not current_mode().compiles:
            return self.map(args)
        if leaves and all([leaf.__class__ is ShardedArray for leaf in leaves]):
            return self.compiled(*args)  # what is traced then is checked, and arrays that are divided stay as they are
        over = self.over()
        specs = self.of_arguments(over, args, leaves)
        placed = [on_devices(as_array(leaf), NamedSharding(over.mesh, spec)) for leaf, spec in zip(leaves, specs)]
        return self.compiled(*unflatten(structure, placed))

    def over(self) -> Over:
        """The mesh and the axes. Raises `ShardingError` if there is none."""
        outer = [owner for owner in axes_around().values() if isinstance(owner, MeshAxis)]
        mesh = self.mesh or current_mesh() or (outer[0].mesh if outer else None)
        if mesh is None:
            raise ShardingError(
                f"shard_map of {describe(self.f)} was given no mesh: pass mesh=pb.make_mesh(...), or use `with mesh:`."
            )
        taken = [owner.axis.name for owner in outer]
        names = [self.names] if isinstance(self.names, str) else [*self.names]
        manual = tuple(
            [name for name in mesh.axis_names if name in (names or mesh.axis_names) and (names or name not in taken)]
        )
        for name in names:
            if name not in mesh.shape:
                raise UnknownAxis(f"shard_map's axis_names has {name!r}, but {mesh} has the axes {', '.join(mesh.axis_names)}.")
        for name in manual:
            if name in taken:
                raise ShardingError(
                    f"shard_map of {describe(self.f)} works along the axis {name!r}, but is inside another that does: there a"
                    " device has only its own shard. Name other axes (axis_names)."
                )
        if outer and not alike(outer[0].mesh, mesh):
            raise ShardingError(f"shard_map over {mesh} is inside one over {outer[0].mesh}: both must be over the same mesh.")
        return Over(mesh, manual, self.check)

    def specs(self, over: Over, given: Any, tree: Any, which: str, root: str) -> list[PartitionSpec]:
        """A spec for each leaf of a tree, as it was given."""
        what = f"shard_map's {which} for {describe(self.f)}"

        def leaf(part: Any) -> Any:
            if part is None or isinstance(part, PartitionSpec):
                found = NamedSharding(over.mesh, PartitionSpec() if part is None else part)
                wrong = [name for one in found.spec for name in names_of(one) if name not in over.manual]
                if wrong or any([one is PartitionSpec.UNCONSTRAINED for one in found.spec]):
                    raise UnknownAxis(
                        f"{part} names {wrong[0] if wrong else 'UNCONSTRAINED'!r}, along which this shard_map does not work:"
                        f" its axes are {', '.join(over.manual) or '(none)'}."
                    )
                return Asked(PartitionSpec() if part is None else part)
            if isinstance(part, NamedSharding):
                return leaf(part.spec)
            if isinstance(part, dict):
                return {key: leaf(value) for key, value in part.items()}
            if isinstance(part, (tuple, list)):
                return type(part)(*map(leaf, part)) if hasattr(part, "_fields") else type(part)(map(leaf, part))
            return part

        try:
            plain = leaf(given) if self.trees is OWN_TREES else given  # in other trees a spec is a leaf
            found = [leaf(one) for one in self.trees.broadcast_prefix(plain, tree, what, root)]
        except ShardingError as error:
            error.args = (f"{what}: {error}{at_user_line()}",)
            raise
        except StructureError as error:
            error.args = (f"{error}{at_user_line()}",)
            raise
        for one in found:
            if not isinstance(one, Asked):
                raise TypeError(f"{what} must be a tree of PartitionSpecs (pb.P), but {brief(one)} is in it.")
        return [one.spec for one in found]

    def of_arguments(self, over: Over, args: Any, leaves: Sequence[Any]) -> list[PartitionSpec]:
        """A spec for each leaf of the arguments. Raises unless it divides the leaf."""
        given = tuple(self.in_specs) if isinstance(self.in_specs, list) else self.in_specs
        specs = self.specs(over, given, args, "in_specs", "arguments")
        types = [type_of(array_leaf(leaf, lambda i=i: self.path(args, i))) for i, leaf in enumerate(leaves)]  # type: ignore[misc]
        return self.fitting(over, "in_spec", over.shard, types, specs, lambda i: self.path(args, i))

    def fitting(
        self,
        over: Over,
        what: str,
        fit: Callable[[ArrayType, PartitionSpec], ArrayType],
        types: Sequence[ArrayType],
        specs: Sequence[PartitionSpec],
        path: Callable[[int], str],
    ) -> list[PartitionSpec]:
        """The specs without the Nones at their ends. Raises unless each fits the array of its type."""
        for i, (type, spec) in enumerate(zip(types, specs, strict=True)):
            try:
                if len(spec) > type.ndim:
                    raise ShardingError(
                        f"{spec} has {counted(len(spec), 'entry')}, but the array, {type}, has {counted(type.ndim, 'axis')}."
                    )
                fit(type, spec)
            except ShardingError as error:
                error.args = (f"shard_map of {describe(self.f)}: {path(i)} with the {what} {spec}: {error}{at_user_line()}",)
                raise
        return [NamedSharding(over.mesh, spec).spec for spec in specs]

    def path(self, args: tuple[Any, ...], number: int) -> str:
        """How errors call a leaf of the arguments."""
        for place, arg in enumerate(args):
            leaves, structure = self.trees.flatten(arg)
            if number < len(leaves):
                return f"argument {self.trees.structure_paths(structure, argument_name(self.f, place))[number]}"
            number -= len(leaves)
        raise IndexError(number)

    def map(self, args: tuple[Any, ...]) -> Any:
        """The results for arguments that may be traced."""
        over = self.over()
        leaves, structure = self.trees.flatten(args)
        specs = self.of_arguments(over, args, leaves)
        leaves = [array_leaf(leaf, lambda i=i: self.path(args, i)) for i, leaf in enumerate(leaves)]  # type: ignore[misc]
        out_structure: Any = None
        out_specs: list[PartitionSpec] = []

        def of_shards(*shards: Any) -> list[Any]:
            nonlocal out_structure, out_specs
            with overriding(mesh=over.mesh):  # which specs mean there that name none
                out = self.f(*unflatten(structure, shards))
            outs, out_structure = returned_leaves(self.f, out)
            out_specs = self.specs(over, self.out_specs, out, "out_specs", "output")
            types, names = [type_of(one) for one in outs], self.names_of(out_structure)
            out_specs = self.fitting(over, "out_spec", over.whole, types, out_specs, names.__getitem__)
            return outs

        if self.debug or not current_mode().compiles:
            outs = by_turns(over, of_shards, leaves, specs, lambda: out_specs, self.f, lambda: self.names_of(out_structure))
            return unflatten(out_structure, outs)
        with mesh_axes(over.mesh, over.manual, over.check):
            types = [over.shard(leaf.type, spec) for leaf, spec in zip(leaves, specs)]
            names = [self.path(args, i).removeprefix("argument ") for i in range(len(leaves))]
            program, captures = stage(
                of_shards, types, name=name_of(self.f), described=self.f, arguments=names, transformation="shard_map"
            )
            program = drop_dead_code(program)
        specs = [*[PartitionSpec()] * len(captures), *specs]
        if over.check:
            found = settled(program, over.manual, tuple([over.axes_of(spec) for spec in specs]), over.check)
            check_outputs(over, found, out_specs, self.names_of(out_structure), describe(self.f))
        return unflatten(out_structure, bind_map(over, program, [*captures, *leaves], specs, out_specs))

    def names_of(self, structure: Any) -> Sequence[str]:
        """How errors call the leaves of the output."""
        return structure_paths(structure, "output")
