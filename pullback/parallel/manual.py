"""shard_map as an operation: every device of a mesh runs one Program on its shards of the operands.

The types of the operands and results are those of whole arrays; those of the Program are of shards. `in_specs` and `out_specs`
say how one becomes the other, over the axes `manual` of the mesh; the others are left to the partitioner. Inside, these axes
are named ones, over which operations work between devices (`ops/collective.py`).

Every transformation derives another Program, in which it is found out anew what varies (`parallel/varying.py`), and applies
shard_map to that. What a derivative keeps for later becomes a result: a shard that varies along axes lies in a whole array that
has these in front. With `check` cotangents are the same wherever values are. Without it nobody says what is the same: the
cotangent of a result that a spec says is the same is divided among the devices, and that of such an operand is summed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.api.devices import device_put
from pullback.control.holder import Wiring, at_flags, bind_holder
from pullback.core.array import Array
from pullback.core.axes import MeshAxis, axes_around, mesh_axes
from pullback.core.dtypes import INT32
from pullback.core.errors import ShapeError, ShardingError, VaryingOutput
from pullback.core.execution import engine
from pullback.core.meshes import AbstractMesh, Mesh
from pullback.core.primitive import Rules, primitive
from pullback.core.shardings import NamedSharding, PartitionSpec, names_of
from pullback.core.source import at_user_line
from pullback.core.types import ArrayType, is_unknown
from pullback.core.zero import ZERO
from pullback.engine.lower import passed_constants
from pullback.engine.partition import manual_text
from pullback.ops.arithmetic import div
from pullback.ops.collective import axis_index
from pullback.ops.literals import literal
from pullback.ops.shape import reshape, squeeze
from pullback.parallel.varying import Names, Settled, flags_of, names_in, settled, summed_outputs, varied_outputs
from pullback.program.program import Program
from pullback.program.provenance import finishing
from pullback.stablehlo.writer import TensorType
from pullback.transforms.derive import (
    LinearizedProgram,
    active_terms,
    batch_program,
    dependent_outputs,
    linearize_program,
    nonzero_orders,
    pruned_program,
    pushed_program,
    series_of,
    stage_closed,
    transpose_program,
)
from pullback.transforms.simplify import drop_dead_code
from pullback.transforms.stage import replay
from pullback.transforms.transpose import Linear

Specs = tuple[PartitionSpec, ...]


class Over(NamedTuple):
    """The axes over which a Program is mapped: `manual` ones of a mesh; and whether it is checked what varies along them."""

    mesh: AbstractMesh
    manual: Names
    check: bool

    def axes_of(self, spec: PartitionSpec) -> int:
        """The axes that a spec names, as flags."""
        return flags_of(self.manual, [name for part in spec for name in names_of(part)])

    def count(self, flags: int) -> int:
        """How many devices differ in these axes alone."""
        return math.prod(self.mesh.sizes_of(names_in(self.manual, flags)))

    def shard(self, type: ArrayType, spec: PartitionSpec) -> ArrayType:
        """The type of the shards of a whole array."""
        return type.with_shape(NamedSharding(self.mesh, spec).shard_shape(type.shape))

    def whole(self, type: ArrayType, spec: PartitionSpec) -> ArrayType:
        """The type of the array that shards make up."""
        parts = NamedSharding(self.mesh, spec).parts(type.ndim)
        return type.with_shape(tuple([size * count for size, count in zip(type.shape, parts)]))


def bind_map(over: Over, program: Program, args: Sequence[Any], in_specs: Sequence[Any], out_specs: Sequence[Any]) -> Any:
    """Map a Program over shards of its operands.

    Raises:
        VaryingOutput: with `check`, a result varies along an axis that its spec does not name.
    """
    found = settled(program, over.manual, tuple([over.axes_of(spec) for spec in in_specs]), over.check)
    made = found.program
    if over.check:
        check_outputs(over, found, out_specs)
        made = varied_outputs(found, over.manual, [over.axes_of(spec) for spec in out_specs])
    params = {"in_specs": tuple(in_specs), "out_specs": tuple(out_specs), **over._asdict()}
    return bind_holder(shard_map, *args, program=made, **params)


def check_outputs(
    over: Over, found: Settled, out_specs: Sequence[PartitionSpec], names: Sequence[str] = (), function: str = ""
) -> None:
    """Raise `VaryingOutput` for a result that differs along an axis that its spec does not name."""
    for number, (flags, spec) in enumerate(zip(found.outs, out_specs, strict=True)):
        name = names[number] if names else f"result {number}"
        varying = frozenset(names_in(over.manual, flags))
        refuse_varying(over, name, found.program.outputs[number].type, varying, spec, function or found.program.name)


def refuse_varying(over: Over, name: str, type: ArrayType, varying: frozenset[Any], spec: PartitionSpec, function: str) -> None:
    """Raise `VaryingOutput` if a result varies along an axis that its spec does not name."""
    wrong = [axis for axis in over.manual if axis in varying and not over.axes_of(spec) & flags_of(over.manual, [axis])]
    if wrong:
        listed = ", ".join(map(repr, wrong))
        raise VaryingOutput(
            f"shard_map of {function}: {name}, of type {type.placed(None, varying)} on each device, may differ between devices"
            f" along {listed}, but its out_spec is {spec}, by which they share one value. Name {listed} in the out_spec, so"
            " that the shards are joined; or make them agree first (pb.lax.psum, pmean, pmax); or, if you know that they"
            f" agree, pass check_vma=False.{at_user_line()}"
        )


@primitive
class shard_map(Rules):
    """Apply `program` on every device to its shards of the operands."""

    wiring = Wiring("program")
    binds = "manual"
    multiple_results = True
    on_arrays = True
    needs_axis = True
    symbolic_zeros = True

    def result_type(*types, program, in_specs, out_specs, **over):
        over = Over(**over)
        for number, (type, spec, own) in enumerate(zip(types, in_specs, program.input_types, strict=True)):
            if over.shard(type, spec).strong() is not own.strong():
                raise ShapeError(f"shard_map takes shards {own} as operand {number}, but {spec} makes others of {type}.")
        return tuple([over.whole(type, spec) for type, spec in zip(program.output_types, out_specs, strict=True)])

    def evaluate(*arrays, in_specs, mesh, **params):
        placed = [on_devices(x, NamedSharding(mesh, spec)) for x, spec in zip(arrays, in_specs)]
        return engine().run_operation(shard_map, placed, {"in_specs": in_specs, "mesh": mesh, **params})

    def lower(write, *values, program, in_specs, out_specs, **over):
        over = Over(**over)
        with mesh_axes(over.mesh, over.manual, over.check) as owners:
            if over.mesh.size == 1:
                return write.inline(program, *values)
            return written(write, over, owners, program, values, in_specs, out_specs)

    def jvp(primals, tangents, **params):
        live = [tangent for tangent in tangents if tangent is not ZERO]
        if any([tangent.__class__ is Linear for tangent in live]):
            outs, push = shard_map.linearize(primals, tuple([t is not ZERO for t in tangents]), **params)
            return outs, push(*live)
        outs, series = pushed(None, primals, [(tangent,) for tangent in tangents], **params)
        return outs, tuple([tangent for (tangent,) in series])

    def jet(primals, series, **params):
        return pushed(len(series[0]), primals, series, **params)

    def linearize(primals, active, *, program, in_specs, out_specs, **over):
        over = Over(**over)
        with inside(over):
            halves = linearized(over, program, in_specs, active)
            forward, specs = stacked_residuals(over, halves.forward, in_specs, len(out_specs))
            tangent = unstacked_residuals(over, halves, specs, len(out_specs))
        found = bind_map(over, forward, primals, in_specs, (*out_specs, *specs))
        outs = found[: len(out_specs)]
        known, known_specs = [], []
        for place, index in halves.residuals:
            known.append(primals[index] if place == "input" else found[index])
            known_specs.append(in_specs[index] if place == "input" else specs[index - len(out_specs)])
        active_specs = [spec for spec, flag in zip(in_specs, active) if flag]
        tangent_specs = [spec for spec, flag in zip(out_specs, halves.nonzero) if flag]

        def push(*tangents):
            pushed = bind_map(over, tangent, [*known, *tangents], [*known_specs, *active_specs], tangent_specs)
            return at_flags(pushed, halves.nonzero)

        return tuple(outs), push

    def transpose(cotangents, *operands, program, in_specs, out_specs, **over):
        over = Over(**over)
        unknown = tuple([int(is_unknown(operand)) for operand in operands])
        with inside(over):
            back, nonzero = transpose_program(program, unknown)
            known_specs = [spec for spec, flag in zip(in_specs, unknown) if not flag]
            solved_specs = [spec for spec, flag in zip(in_specs, unknown) if flag]
            solved_specs = [spec for spec, flag in zip(solved_specs, nonzero) if flag]
            if not over.check:
                back = with_shares(over, back, len(known_specs), out_specs)
            specs = [*known_specs, *out_specs]
            allowed = [over.axes_of(spec) for spec in solved_specs]
            found = settled(back, over.manual, tuple([over.axes_of(spec) for spec in specs]), over.check)
            if not over.check:  # each has a share, also where nothing says that it differs
                found = found._replace(outs=tuple([flags_of(over.manual, over.manual)] * len(allowed)))
            back = summed_outputs(found, over.manual, allowed)
        known = [operand for operand in operands if not is_unknown(operand)]
        solved = iter(at_flags(bind_map(over, back, [*known, *cotangents], specs, solved_specs), nonzero))
        return tuple([next(solved) if flag else None for flag in unknown])

    def vectorize(batch, args, axes, *, program, in_specs, out_specs, **over):
        over = Over(**over)
        divided = [name for name in batch.spmd if name in over.manual]
        parts = math.prod(over.mesh.sizes_of(divided))
        if batch.size % parts:
            raise ShardingError(
                f"vmap's batch of {batch.size} cannot be divided along {batch.spmd} into {parts} parts. Its size must be a"
                " multiple of that."
            )
        flags = tuple([int(axis == 0) for axis in axes])
        with inside(over):
            mapped, carried = batch_program(program, batch._replace(size=batch.size // parts), flags)

        def with_batch(specs, flags):
            return [PartitionSpec(tuple(divided), *spec) if flag else spec for spec, flag in zip(specs, flags, strict=True)]

        outs = bind_map(over, mapped, args, with_batch(in_specs, flags), with_batch(out_specs, carried))
        return outs, tuple([0 if flag else None for flag in carried])

    def prune(wanted, *, program, in_specs, out_specs, **over):
        smaller, used = pruned_program(program, tuple([int(flag) for flag in wanted]))
        if all(used) and all(wanted):
            return None
        inputs, outputs = ([i for i, flag in enumerate(flags) if flag] for flags in (used, wanted))
        params = {"in_specs": tuple([in_specs[i] for i in inputs]), "out_specs": tuple([out_specs[i] for i in outputs])}
        return {"program": smaller.rearranged(inputs), **params, **over}, inputs, outputs

    def depends(flags, *, program, **params):
        return dependent_outputs(program, tuple(flags))

    def samples(rng):
        return iter(())


def inside(over: Over) -> Any:
    """The block in which Programs are derived from that of a shard_map."""
    return mesh_axes(over.mesh, over.manual, over.check)


def on_devices(x: Array, sharding: NamedSharding) -> Array:
    """An array that lies nowhere in particular, divided as it will be needed."""
    return device_put(x, sharding) if x.__class__ is Array and isinstance(sharding.mesh, Mesh) else x


# ---- derivatives --------------------------------------------------------------------------------------------------------


def pushed(order: Any, primals: Any, series: Any, *, program: Program, in_specs: Specs, out_specs: Specs, **over: Any) -> Any:
    """The results and their derivatives: tangents, or those of the orders up to `order`."""
    own = Over(**over)
    active = nonzero_orders(series)
    with inside(own):
        made, nonzero = pushed_program(program, order, active)
    pairs = ((in_specs, active), (out_specs, nonzero))
    specs = [[spec for spec, flags in zip(row, kinds) for _ in range(flags.bit_count())] for row, kinds in pairs]
    operands = [*primals, *active_terms(primals, series, active)]
    found = bind_map(own, made, operands, [*in_specs, *specs[0]], [*out_specs, *specs[1]])
    return tuple(found[: len(out_specs)]), series_of(found[len(out_specs) :], nonzero, order)


def linearized(over: Over, program: Program, in_specs: Specs, active: Sequence[bool]) -> LinearizedProgram:
    """`linearize_program`, which keeps only what the tangent half reads once it is known what varies."""
    halves = linearize_program(program, tuple([int(flag) for flag in active]))
    ins = [over.axes_of(spec) for spec in in_specs]
    outs = settled(halves.forward, over.manual, tuple(ins), over.check).outs
    flags = [(ins if place == "input" else outs)[index] for place, index in halves.residuals]
    flags += [own for own, flag in zip(ins, active) if flag]
    tangent, used = pruned_program(
        settled(halves.tangent, over.manual, tuple(flags), over.check).program, (1,) * len(halves.tangent.outputs)
    )
    kept = [i for i in range(len(halves.residuals)) if used[i]]
    tangent = tangent.rearranged([*kept, *range(len(halves.residuals), len(used))])
    own, residuals = [*range(len(halves.nonzero))], []
    for place, index in [halves.residuals[i] for i in kept]:
        if place == "output":
            own.append(index)
        residuals.append((place, len(own) - 1 if place == "output" else index))
    forward = drop_dead_code(halves.forward.rearranged(range(len(ins)), own))
    return halves._replace(forward=forward, tangent=tangent, residuals=tuple(residuals))


def stacked_residuals(over: Over, forward: Program, in_specs: Specs, count: int) -> tuple[Program, list[PartitionSpec]]:
    """A forward half whose residuals, its outputs from number `count` on, have an axis in front if they vary; and their
    specs."""
    flags = settled(forward, over.manual, tuple([over.axes_of(spec) for spec in in_specs]), over.check).outs[count:]
    specs = [PartitionSpec(tuple(names_in(over.manual, own))) if own else PartitionSpec() for own in flags]

    def stacking(*args: Any) -> list[Any]:
        outs = replay(forward, args)
        with finishing("residual"):
            residuals = [
                reshape(x, new_sizes=(1, *type.shape)) if own else x
                for x, own, type in zip(outs[count:], flags, forward.output_types[count:])
            ]
        return [*outs[:count], *residuals]

    return stage_closed(stacking, forward.input_types, forward.name, forward), specs


def unstacked_residuals(over: Over, halves: Any, specs: Sequence[PartitionSpec], count: int) -> Program:
    """A tangent half that takes residuals as `stacked_residuals` returns them."""
    tangent: Program = halves.tangent
    stacked = [place == "output" and index >= count and bool(specs[index - count]) for place, index in halves.residuals]
    stacked += [False] * (len(tangent.inputs) - len(stacked))
    types = [type.with_shape((1, *type.shape)) if flag else type for type, flag in zip(tangent.input_types, stacked)]

    def taking(*args: Any) -> Any:
        with finishing("residual"):
            given = [squeeze(x, dimensions=(0,)) if flag else x for x, flag in zip(args, stacked)]
        return replay(tangent, given)

    return stage_closed(taking, types, tangent.name, tangent)


def with_shares(over: Over, back: Program, known: int, out_specs: Specs) -> Program:
    """A transposed Program in which each device starts from its share of the cotangents of what all have in common."""
    counts = [over.count(~over.axes_of(spec)) for spec in out_specs]

    def sharing(*args: Any) -> Any:
        with finishing("cotangent"):
            shares = [ct if count == 1 else div(ct, literal(count, ct)) for ct, count in zip(args[known:], counts, strict=True)]
        return replay(back, [*args[:known], *shares])

    return stage_closed(sharing, back.input_types, back.name, back)


# ---- StableHLO ------------------------------------------------------------------------------------------------------------


def asks_for_index(program: Program) -> bool:
    """Whether a Program, or one in it, asks for numbers along axes."""
    return any([one.primitive is axis_index for one in program.equations]) or any(map(asks_for_index, program.subprograms()))


def written(
    write: Any, over: Over, owners: list[MeshAxis], program: Program, values: Any, in_specs: Specs, out_specs: Specs
) -> Any:
    """The operation as StableHLO. What it uses from around it are operands: large constants, and, where a device's own number
    cannot be had because some axes are left to the partitioner, numbers along the axes."""
    values, specs = list(values), list(in_specs)
    constants = passed_constants(program)
    values += [write.passed[id(array)] for array in constants]
    specs += [PartitionSpec()] * len(constants)
    indexed: list[MeshAxis] = []
    around = [owner for owner in axes_around().values() if isinstance(owner, MeshAxis) and owner not in owners]
    if asks_for_index(program) and (around or len(over.manual) < len(over.mesh.axis_names)):
        for owner in [*owners, *around]:
            if owner in owners:
                values.append(write.constant(np.arange(owner.axis.size, dtype=np.int32)))
                specs.append(PartitionSpec(owner.axis.name))
            elif owner.index is not None:
                values.append(write.reshaped(owner.index, (1,)))
                specs.append(PartitionSpec())
            else:
                continue
            indexed.append(owner)
    types = [value.type.of(shape=NamedSharding(over.mesh, spec).shard_shape(value.shape)) for value, spec in zip(values, specs)]
    before, indices = dict(write.passed), [owner.index for owner in indexed]
    with write.region(types) as region:
        region.ends = "sdy.return"
        given = iter(region.arguments)
        taken = [next(given) for _ in program.inputs]
        write.passed.update((id(array), next(given)) for array in constants)
        for owner in indexed:
            owner.index = write.op("stablehlo.reshape", [next(given)], TensorType((), INT32))
        region.returns(*write.inline(program, *taken))
    write.passed = before
    for owner, index in zip(indexed, indices):
        owner.index = index
    ins = [(spec, len(value.shape)) for spec, value in zip(specs, values)]
    outs = [(spec, type.ndim) for spec, type in zip(out_specs, program.output_types)]
    text = manual_text(over.mesh, over.manual, [str(owner.axis.name) for owner in around], ins, outs)
    results = [TensorType(over.whole(type, spec).shape, type.dtype) for type, spec in zip(program.output_types, out_specs)]
    return write.many("sdy.manual_computation", values, results, [region.text], **text)
