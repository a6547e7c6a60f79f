"""Programs as StableHLO that runs without this process, and functions of such modules in the module of another Program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pullback.core.array import host_of
from pullback.core.errors import ExportError
from pullback.engine.jaxlib import jaxlib
from pullback.engine.lower import Lowering, Module, identifier, passed_constants, tensor_type
from pullback.engine.partition import FIRST_ALONE, joined, mesh_of, mesh_text, note_of, partitions_text, sharding_of
from pullback.program.cost import Cost, cost, largest
from pullback.program.program import Program
from pullback.stablehlo.writer import Value, function, module


class PortableModule(NamedTuple):
    """A Program as StableHLO for one platform, and what XLA's options for a module are chosen by, which the module does not
    show (`engine/strategy.py`).

    Attributes:
        data: the module, in the form that other versions of StableHLO read.
        facts: what each step of its loops costs, whether its barriers are to last, whether
            something of it runs on the first device of its mesh alone, the bytes of its largest array, and what running it
            costs: data for JSON.
    """

    data: bytes
    facts: dict[str, Any]

    def functions(self, prefix: str) -> list[tuple[str, str]]:
        """The text of its functions with their names, which begin with `prefix`; one is called `prefix` and "main"."""
        try:
            return jaxlib().from_portable(self.data, prefix)[1]
        except ValueError as error:
            raise unreadable(error) from error

    def text(self) -> str:
        """The module as text."""
        try:
            return jaxlib().from_portable(self.data)[0]
        except ValueError as error:
            raise unreadable(error) from error


def versions() -> dict[str, str]:
    """What modules are made with now."""
    return {"jaxlib": jaxlib().version, "stablehlo": jaxlib().stablehlo_version}


def unreadable(error: Exception) -> ExportError:
    """The error for StableHLO that this jaxlib does not take."""
    return ExportError(
        f"jaxlib {jaxlib().version} cannot read this exported StableHLO: {error}. A jaxlib reads what those of the years before"
        " it wrote, and what newer ones wrote for some weeks: install a newer one, or export again."
    )


def portable_module(program: Program, platform: str) -> PortableModule:
    """A Program as StableHLO for a platform, which need not be here. It has all inputs of the Program, in their own dtypes, and
    the arrays that the function closes over are in it.

    Raises:
        ExportError: it has effects, calls Python, or names axes of a vmap around it.
    """
    if program.axis_names:
        named = ", ".join(map(repr, sorted(map(str, program.axis_names))))
        raise ExportError(f"it computes along axes that a vmap around it names ({named}). Export the function with that vmap.")
    mesh = mesh_of(program)
    made = Module(platform, mesh=mesh, portable=True)
    body = made.name_of(program)
    if lost := program.effects - {"agreement"}:  # that is not looked at where nothing can call Python
        raise ExportError(f"it has effects ({', '.join(sorted(lost))}), which would be lost. Leave them out of it.")
    write = Lowering(made, {})
    arguments = [Value(f"%arg{i}", tensor_type(type)) for i, type in enumerate(program.input_types)]
    constants = [write.constant(host_of(array)) for array in passed_constants(program)]
    results = write.many("func.call", [*constants, *arguments], list(map(tensor_type, program.output_types)), callee=f"@{body}")
    takes, gives, header, declared = [], [], "", []
    if mesh is not None and mesh.size > 1:
        takes = [joined([note_of(one.sharding, one.type.ndim)]) for one in program.inputs]
        gives = [joined([note_of(sharding_of(one), one.type.ndim, is_open=True)]) for one in program.outputs]
        header, declared = partitions_text(mesh), [mesh_text(mesh)]
    declared += [FIRST_ALONE] if made.first_alone else []
    main = function("main", arguments, write, results, True, takes, gives)
    text = module(f"pullback_{identifier(program.name)}", [*declared, main, *made.functions], header)
    facts = {
        "loops": [[one.work, one.bytes] for one in made.loops],
        "barriers": made.barriers,
        "first_alone": made.first_alone,
        "largest": int(max(largest(program), made.largest)),
        "cost": [cost(program).work, cost(program).bytes],
    }
    return PortableModule(jaxlib().to_portable(text), facts)


def include(write: Lowering, portable: PortableModule, prefix: str, operands: Sequence[Value]) -> list[Value]:
    """Call the main function of a module from the one that is being written, of which it becomes a part. All of its functions
    get names that begin with `prefix`."""
    made = write.module
    made.include(portable.functions(prefix))
    made.loops += [Cost(work=one[0], bytes=one[1]) for one in portable.facts["loops"]]
    made.barriers |= portable.facts["barriers"]
    made.first_alone |= portable.facts["first_alone"]
    made.largest = max(made.largest, portable.facts["largest"])
    return write.many("func.call", operands, write.result_types, callee=f"@{prefix}main")
