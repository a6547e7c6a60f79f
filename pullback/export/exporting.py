"""export: a jitted function, for arguments like those of one call, as StableHLO; and deserialize, which reads it again."""

from __future__ import annotations

import copyreg
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pullback.api.compiled import Jitted, jit
from pullback.api.derivatives import vjp
from pullback.core.brief import brief
from pullback.core.bundles import unpack
from pullback.core.dtypes import is_inexact
from pullback.core.errors import ExportError
from pullback.core.meshes import AbstractMesh
from pullback.core.shardings import NamedSharding
from pullback.core.source import api_boundary, describe
from pullback.core.spec_forms import Shardings, shardings_of_data
from pullback.core.tree_forms import tree_of_data
from pullback.core.trees import TreeDef
from pullback.engine.backend import platforms as known_platforms
from pullback.engine.partition import mesh_of, placed_program, sharding_of
from pullback.engine.place import current_default_device
from pullback.engine.portable import PortableModule, portable_module, versions
from pullback.export.exported import Exported
from pullback.export.operation import constrained
from pullback.export.programs import program_of_data
from pullback.program.interpret import run
from pullback.program.program import Program
from pullback.program.serialization import read_type

PLATFORMS = ("cpu", "cuda", "rocm", "tpu", "metal")  # for which StableHLO can be written without having them


@api_boundary
def export(fun: Jitted, *, platforms: Sequence[str] | None = None) -> Callable[..., Exported]:
    """A jitted function as StableHLO, to be run without its source: in another process, on another machine, by another tool.

    Arguments:
        fun: what `pb.jit` returned.
        platforms: for which platforms to write StableHLO, such as ("cpu", "cuda"); they need not be here. By default, that of
            the default device.

    Returns:
        A function of `fun`'s arguments, or of `ArrayType`s in their place, that returns an `Exported`. Static arguments are in
        it, and so are the arrays that `fun` closes over. Donation and `compiler_options` stay behind.

    Raises:
        TypeError: `fun` is not jitted. ValueError: a platform is not known.
        ExportError: it calls Python (docs/export.md lists the functions that do), or for another platform what only LAPACK has.

    Example:
        >>> import pullback as pb
        >>> f = pb.jit(lambda params, x: pb.numpy.tanh(x @ params["w"]))
        >>> exported = pb.export.export(f)({"w": pb.ArrayType((4, 2), "float32")}, pb.ArrayType((8, 4), "float32"))
        >>> exported
        <exported <lambda>: (f32[4,2], f32[8,4]) -> (f32[8,2]), for cpu>
        >>> pb.export.deserialize(exported.serialize()).call({"w": pb.numpy.ones((4, 2))}, pb.numpy.ones((8, 4))).shape
        (8, 2)
    """
    if not isinstance(fun, Jitted):
        raise TypeError(f"export takes a jitted function, but got {brief(fun)}: write export(pb.jit(f)).")
    chosen = chosen_platforms(platforms)

    @api_boundary
    def exporting(*args: Any, **kwargs: Any) -> Exported:
        traced = fun.trace(*args, **kwargs).lower()
        try:
            return export_program(traced.program, traced._dynamic_tree(), traced.out_tree, chosen)
        except ExportError as error:
            raise ExportError(f"jit of {describe(fun)} cannot be exported, since {error}") from None

    return exporting


def chosen_platforms(platforms: Sequence[str] | None) -> tuple[str, ...]:
    """The platforms for which to write StableHLO. Raises ValueError unless they are known."""
    chosen = (current_default_device().platform,) if platforms is None else platforms
    chosen = tuple(dict.fromkeys((chosen,) if isinstance(chosen, str) or not isinstance(chosen, Iterable) else chosen))
    known = [*PLATFORMS, *known_platforms()]
    if not chosen or not all([name in known for name in chosen]):
        raise ValueError(f"export takes platforms among {', '.join(map(repr, dict.fromkeys(known)))}, not {brief(platforms)}.")
    return chosen


def export_program(program: Program, in_tree: TreeDef, out_tree: TreeDef, platforms: Sequence[str]) -> Exported:
    """A Program whose inputs and outputs are the leaves of trees, as StableHLO."""
    modules = {name: portable_module(program, name) for name in platforms}
    types = program.input_types, program.output_types
    mesh = mesh_of(program)
    mesh = None if mesh is None else mesh.abstract_mesh

    def without_devices(sharding: NamedSharding | None) -> NamedSharding | None:
        return None if sharding is None or mesh is None else NamedSharding(mesh, sharding.spec)

    takes = tuple([without_devices(variable.sharding) for variable in program.inputs])
    gives = tuple([without_devices(sharding_of(out)) for out in program.outputs])
    make_vjp = functools.partial(_exported_vjp, program, takes, gives, platforms)
    kept = program if mesh is None else None
    return Exported(program.name, (in_tree, out_tree), types, (takes, gives), mesh, modules, versions(), make_vjp, kept)


def _exported_vjp(program: Program, takes: Shardings, gives: Shardings, platforms: Sequence[str]) -> Exported:
    """See `Exported.vjp`."""
    types = program.input_types, program.output_types
    inexact_in, inexact_out = ([is_inexact(type.dtype) for type in some] for some in types)
    count = len(inexact_in)

    def backward(*leaves: Any) -> Any:
        def forward(*given: Any) -> Any:
            rest = iter(given)
            outs = run(program, [next(rest) if flag else leaf for leaf, flag in zip(leaves, inexact_in)])
            return tuple([out for out, flag in zip(outs, inexact_out) if flag])

        _, pull = vjp(forward, *[leaf for leaf, flag in zip(leaves, inexact_in) if flag])
        return tuple(constrained(pull(leaves[count:]), [one for one, flag in zip(takes, inexact_in) if flag]))

    backward.__name__ = f"vjp_{program.name}"
    given = [*program.input_types, *[type.strong() for type, flag in zip(program.output_types, inexact_out) if flag]]
    traced = jit(backward).trace(*given)
    lie = (*takes, *[one for one, flag in zip(gives, inexact_out) if flag])
    pulled = placed_program(traced.program, lie) if any(lie) else traced.program
    try:
        return export_program(pulled, traced.in_tree, traced.out_tree, platforms)
    except ExportError as error:
        raise ExportError(f"The derivative of {program.name} cannot be exported, since {error}") from None


@api_boundary
def deserialize(data: bytes) -> Exported:
    """The function that `Exported.serialize` made bytes of.

    What it computes is compiled here, when it is first called. It computes whatever those who wrote the bytes wanted, in
    operations of StableHLO: it reads no files and calls no Python.

    Arguments:
        data: the bytes.

    Returns:
        An `Exported`.

    Raises:
        ExportError: these are other bytes, or damaged; their version is not known; or a container has a name that no class has.

    Example:
        >>> import pullback as pb
        >>> data = pb.export.export(pb.jit(lambda x: 2.0 * x))(1.0).serialize()
        >>> pb.export.deserialize(data).call(4.0)
        8.0:f32[]:cpu(0)
    """
    header, blobs = unpack("function", data)
    facts = header["platforms"]
    modules = {name: PortableModule(blob, facts[name]) for name, blob in zip(facts, blobs)}
    further = blobs[len(modules) :]
    program = program_of_data(further.pop()) if header.get("program") else None  # which bytes of before it was there lack
    trees = tree_of_data(header["in_tree"]), tree_of_data(header["out_tree"])
    types = [read_type(one) for one in header["in_types"]], [read_type(one) for one in header["out_types"]]
    mesh = None if header["mesh"] is None else AbstractMesh(*header["mesh"])
    shardings = shardings_of_data(mesh, header["in_specs"]), shardings_of_data(mesh, header["out_specs"])
    make_vjp: functools.partial[Exported] | None = functools.partial(deserialize, further[0]) if further else None
    if program is not None and make_vjp is None:
        make_vjp = functools.partial(_exported_vjp, program, *shardings, tuple(facts))
    return Exported(header["name"], trees, types, shardings, mesh, modules, header["made_by"], make_vjp, program)


copyreg.pickle(Exported, lambda exported: (deserialize, (exported.serialize(),)))
