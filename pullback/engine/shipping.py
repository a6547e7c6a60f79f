"""XLA's executables as bytes, for other processes on machines like this one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.core.array import Array
from pullback.core.brief import MOST
from pullback.core.devices import Device
from pullback.core.errors import DeviceError, ExportError, ForeignExecutable
from pullback.core.meshes import Mesh
from pullback.core.primitive import Primitive
from pullback.core.shardings import NamedSharding
from pullback.core.spec_forms import Shardings, shardings_of_data, specs_data
from pullback.core.types import ArrayType
from pullback.engine import disk
from pullback.engine.backend import CompileOptions, Executable, backend
from pullback.engine.executables import XlaExecutable
from pullback.engine.jaxlib import jaxlib
from pullback.engine.lower import Lowered, lower_program
from pullback.engine.partition import devices_of, sharding_of
from pullback.engine.spmd import SpmdExecutable, spread_array
from pullback.engine.xla import XlaBackend, generation_inputs
from pullback.program.equation import Equation, PlacedVariable, Variable
from pullback.program.program import Program

# Of what generated code depends on, what must be the same where it is to run; the rest concerns its speed.
_DECISIVE = ("jaxlib", "jaxlib build", "platform", "client", "device kind", "processor")

_NOTHING = Lowered("", [], [], {}, {})

# Stands for what an executable computes that came without its Program. Nothing can be made of it, so it has no rules.
shipped = Primitive("shipped", multiple_results=True)


class Shipped(NamedTuple):
    """An executable that takes all inputs of its Program.

    Attributes:
        code: what XLA made. constants: the arrays to pass in front of the inputs.
        facts: the rest, as JSON data: whether it calls LAPACK, the `fingerprint` of the machines for which it was made, and, of
            one that runs on a mesh, the mesh with its devices, and how inputs, results and constants lie on it.
    """

    code: bytes
    constants: list[Array]
    facts: dict[str, Any]


def _xla(options: CompileOptions) -> XlaBackend:
    there = backend(options.device.platform)
    if not isinstance(there, XlaBackend):
        raise ExportError(
            f"executables of platform {options.device.platform!r} are not XLA's. Export the function as StableHLO"
            " (pb.export.export)."
        )
    return there


def fingerprint(there: XlaBackend, options: CompileOptions) -> dict[str, str]:
    """What a machine and its jaxlib must have in common with those by which an executable was made."""
    inputs = generation_inputs(there, _NOTHING, options)
    return {name: inputs[name] for name in _DECISIVE}


def _code(there: XlaBackend, lowered: Lowered, options: CompileOptions) -> bytes:
    """What XLA makes of a module, as bytes: those on disk, or else compiled now. Of an executable that came from bytes itself,
    jaxlib (0.10.2) makes bytes, too, but those lack functions when they run."""
    found = disk.read(disk.digest(generation_inputs(there, lowered, options)))
    return bytes(there.client.serialize_executable(there.translate(lowered, options))) if found is None else found


def ship(program: Program, options: CompileOptions, donated: tuple[bool, ...], made: Executable) -> Shipped:
    """A Program's executable for other processes, read from disk or compiled now.

    Arguments:
        made: what runs it in this process, which may take fewer inputs, and call Python.

    Raises:
        ExportError: it has to call Python.
    """
    if isinstance(made, LandedExecutable):
        return made.found
    there = _xla(options)
    lowered = lower_program(program, there.platform, donated, portable=True)
    facts: dict[str, Any] = {"lapack": '"lapack_' in lowered.text, "fingerprint": fingerprint(there, options), "mesh": None}
    if lowered.mesh is not None:
        mesh = devices_of(lowered.mesh)
        devices = [[device.platform, device.id] for device in mesh.devices.flat]
        facts["mesh"] = [list(mesh.axis_sizes), list(mesh.axis_names), devices]
        facts["in_specs"] = specs_data([variable.sharding for variable in program.inputs])
        facts["out_specs"] = specs_data(list(map(sharding_of, program.outputs)))
        facts["constant_specs"] = specs_data([getattr(one, "sharding", None) for one in lowered.constants])
    return Shipped(_code(there, lowered, options), lowered.constants, facts)


def land(
    found: Shipped,
    name: str,
    types: tuple[Sequence[ArrayType], Sequence[ArrayType]],
    options: CompileOptions,
    donated: tuple[bool, ...],
) -> tuple[Program, XlaExecutable]:
    """The executable of a function, given the types of its inputs and results, and a Program that stands for its own.

    Raises:
        ForeignExecutable: it was made for another machine, by another jaxlib, or for a device that is not here.
    """
    try:
        there = _xla(options)
    except DeviceError as error:
        raise ForeignExecutable(
            f"This executable of {name} was made for a platform that is not here: {error}. Export the function as StableHLO"
            " (pb.export.export), which is compiled where it is loaded."
        ) from None
    facts = found.facts
    places = [options.device] if facts["mesh"] is None else [Device(*one) for one in facts["mesh"][2]]
    for device in places:
        if device not in there.devices:
            here = ", ".join(map(str, there.devices))
            raise ForeignExecutable(f"This executable of {name} was made for {device}; here there are only {here}.")
    own = fingerprint(there, options)
    for what, value in facts["fingerprint"].items():
        if own.get(what) != value:
            raise ForeignExecutable(
                f"This executable of {name} was made for another machine: its {what} was {_unlike(value, own.get(what))}, and"
                f" here it is {_unlike(own.get(what), value)}. Make it here, or send what"
                " pb.export.export(f)(*args).serialize() writes, which any machine compiles."
            )
    if facts["lapack"]:
        _ = jaxlib().lapack
    raw = there.client.deserialize_executable(found.code, [there.raw_of[device] for device in places])
    lowered, kind = _NOTHING._replace(constants=found.constants), LandedExecutable
    ends: list[Shardings] = [[None] * len(some) for some in types]
    if facts["mesh"] is not None:
        mesh = Mesh(np.array(places, object).reshape(facts["mesh"][0]), facts["mesh"][1])
        *ends, lie = [shardings_of_data(mesh, facts[f"{what}_specs"]) for what in ("in", "out", "constant")]
        spread = [one if own is None else spread_array(one, own) for one, own in zip(found.constants, lie)]
        lowered, kind = lowered._replace(constants=spread, mesh=mesh), LandedSpmdExecutable
    inputs, outputs = (tuple(map(_variable, *pair)) for pair in zip(types, ends))
    program = Program(inputs, [Equation(shipped, inputs, outputs, {})], outputs, name=name)
    executable = kind(there, raw, lowered, program, options, donated)
    executable.found = found
    return program, executable


def _variable(type: ArrayType, sharding: NamedSharding | None) -> Variable:
    return Variable(type) if sharding is None else PlacedVariable(type, sharding)


class LandedExecutable(XlaExecutable):
    """An executable that was made in another process.

    Attributes:
        found: as what it came.
    """

    found: Shipped

    def optimized_text(self) -> str:
        return "\n".join([module.to_string() for module in self.raw.hlo_modules()])


class LandedSpmdExecutable(LandedExecutable, SpmdExecutable):
    """One that runs on the devices of a mesh."""


def _unlike(one: Any, other: Any) -> str:
    """A value beside another one; of a long list, such as a processor's features, what the other has not."""
    words = str(one).split()
    if len(words) <= MOST:
        return str(one)
    only = [word for word in words if word not in str(other).split()]
    more = f" and {len(only) - MOST} others" if len(only) > MOST else ""
    return f"one with {' '.join(only[:MOST])}{more}" if only else "one without these"
