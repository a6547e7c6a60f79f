"""Partitioned Programs: for which mesh a Program is, and how StableHLO says where its arrays lie.

Nothing but the Program says that it runs on several devices: the types of its inputs and outputs, the arrays that it closes
over, and operations that name a mesh. XLA's partitioner (Shardy) finds out the rest. Source of the text forms: the Shardy
dialect (openxla.org/shardy).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pullback.core.array import ShardedArray
from pullback.core.errors import ShardingError
from pullback.core.meshes import AbstractMesh, Mesh, alike
from pullback.core.shardings import UNCONSTRAINED, NamedSharding, PartitionSpec, names_of
from pullback.program.equation import PlacedVariable, Variable, remembered
from pullback.program.program import Atom, Program


@remembered
def mesh_of(program: Program) -> AbstractMesh | None:
    """The mesh that a Program is for; None for one device.

    Raises:
        ShardingError: arrays or operations of it are on different meshes.
    """
    found: AbstractMesh | None = None
    for mesh in _meshes(program):
        if found is None or (alike(found, mesh) and not isinstance(found, Mesh)):
            found = mesh
        elif not alike(found, mesh):
            raise ShardingError(
                f"{program.name} computes on two meshes, {found} and {mesh}, but a program runs on one: move what it is given"
                " to one of them (pb.device_put(x, pb.NamedSharding(mesh, spec))), and name that one in constraints."
            )
    return found


def _meshes(program: Program) -> Iterator[AbstractMesh]:
    """The meshes that a Program names, those with devices first where that is known."""
    for variable in program.inputs:
        if variable.sharding is not None:
            yield variable.sharding.mesh
    for _, array in program.constants:
        if isinstance(array, ShardedArray):
            yield array.sharding.mesh
    for equation in program.equations:
        for value in equation.params.values():
            if isinstance(value, NamedSharding):
                yield value.mesh
            elif isinstance(value, AbstractMesh):
                yield value
    for inner in program.subprograms():
        mesh = mesh_of(inner)
        if mesh is not None:
            yield mesh


def devices_of(mesh: AbstractMesh) -> Mesh:
    """A mesh that has devices. Raises `ShardingError` for one that has none."""
    if not isinstance(mesh, Mesh):
        raise ShardingError(
            f"Nothing can run on {mesh}, which has no devices. Put an argument on a mesh of these axes that has some:"
            f" pb.device_put(x, pb.NamedSharding(pb.make_mesh({mesh.axis_sizes}, {mesh.axis_names}), pb.P()))."
        )
    return mesh


@remembered
def placed_program(program: Program, shardings: tuple[Any, ...]) -> Program:
    """The Program of inputs that lie as these say; None of one that lies nowhere in particular."""
    pairs = zip(program.inputs, shardings, strict=True)
    new: dict[Atom, Variable] = {one: one if own is None else PlacedVariable(one.type, own) for one, own in pairs}
    equations = [one.replace(inputs=tuple([new.get(atom, atom) for atom in one.inputs])) for one in program.equations]
    outputs = [new.get(atom, atom) for atom in program.outputs]
    return Program([*new.values()], equations, outputs, program.constants, program.name, program.batch_axes)


def sharding_of(out: Atom) -> NamedSharding | None:
    """How an output is to lie, if that is said, in all of its parts."""
    found: NamedSharding | None = getattr(out, "sharding", None)
    return found if found is not None and UNCONSTRAINED not in found.spec else None


def mesh_text(mesh: AbstractMesh) -> str:
    """The declaration of a mesh, in front of the functions of a module."""
    axes = ", ".join([f'"{name}"={size}' for name, size in mesh.shape.items()])
    return f"sdy.mesh @mesh = <[{axes}]>"


# The declaration of a mesh of the first device, for what runs on that alone.
FIRST_ALONE = "sdy.mesh @first = <[], device_ids=[0]>"


def partitions_text(mesh: AbstractMesh) -> str:
    """What stands behind the name of a module that is for a mesh."""
    return f"attributes {{mhlo.num_partitions = {mesh.size} : i32, mhlo.num_replicas = 1 : i32}} "


def spec_text(sharding: NamedSharding | None, ndim: int) -> str:
    """A sharding as attributes spell it; None leaves it to the partitioner."""
    if sharding is None:
        return f"<@mesh, [{', '.join(['{?}'] * ndim)}]>"
    return f"<@mesh, [{', '.join(map(_part_text, sharding.entries(ndim)))}]>"


def _part_text(part: Any) -> str:
    if part is UNCONSTRAINED:
        return "{?}"
    names = ", ".join([f'"{name}"' for name in names_of(part)])
    return f"{{{names}}}"


def note_of(sharding: NamedSharding | None, ndim: int, is_open: bool = False) -> str:
    """The attribute of an argument or result of the module; one of which nothing is said is whole on each device, unless
    `is_open`: then the partitioner decides."""
    if sharding is None and not is_open:
        return f"sdy.sharding = #sdy.sharding<@mesh, [{', '.join(['{}'] * ndim)}]>"
    return f"sdy.sharding = #sdy.sharding{spec_text(sharding, ndim)}"


def joined(notes: Sequence[str]) -> str:
    """Several attributes of one argument as one text."""
    given = [note for note in notes if note]
    return f"{{{', '.join(given)}}}" if given else ""


def manual_text(
    mesh: AbstractMesh,
    manual: Sequence[str],
    around: Sequence[str],
    ins: Sequence[tuple[PartitionSpec, int]],
    outs: Sequence[tuple[PartitionSpec, int]],
) -> dict[str, str]:
    """The attributes of an operation that every device does by itself along the axes `manual`, in one along those `around`.

    Axes that are left to the partitioner may divide operands further.
    """
    is_open = len({*manual, *around}) < len(mesh.axis_names)

    def text(spec: PartitionSpec, ndim: int) -> str:
        entries = [*spec, *[None] * (ndim - len(spec))]
        used = [name for part in entries for name in names_of(part)]
        parts = [", ".join([*[f'"{name}"' for name in names_of(part)], *["?"] * is_open]) for part in entries]
        whole = ", ".join([f'"{name}"' for name in mesh.axis_names if name in manual and name not in used])
        rest = f", replicated={{{whole}}}" if whole and is_open else ""
        return f"<@mesh, [{', '.join([f'{{{part}}}' for part in parts])}]{rest}>"

    names = ", ".join([f'"{name}"' for name in mesh.axis_names if name in manual])
    given = {
        name: f"#sdy.sharding_per_value<[{', '.join([text(*one) for one in some])}]>"
        for name, some in (("in_shardings", ins), ("out_shardings", outs))
    }
    return {**given, "manual_axes": f"#sdy<manual_axes{{{names}}}>"}
