"""Planning without hardware: what a program takes on many devices that need not be there.

The program is compiled for them, and the optimized HLO says which collectives it has; the compiler says what memory it takes.
Seconds are a model's: each device sends over its link what the algorithm of the ring has it send, one collective after the
other, and none of it while something is computed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.api.compiled import Jitted, jit
from pullback.api.functions import Function
from pullback.core.array import Array, placed_type
from pullback.core.brief import brief
from pullback.core.errors import ShardingError
from pullback.core.meshes import AbstractMesh, alike
from pullback.core.shardings import PartitionSpec, names_of
from pullback.core.source import api_boundary, describe
from pullback.core.types import ArrayType
from pullback.engine.lower import passed_constants
from pullback.engine.partition import mesh_of
from pullback.engine.topologies import TARGETS, Compiled, Target, compile_for
from pullback.parallel.hlo import Collective, collectives
from pullback.program.cost import cost
from pullback.program.program import Program

DEFAULT_LINKS = ("100Gbit/s", "400Gbit/s")
_WIDTH = 40  # columns of the longest bar
_SHOWN = 8  # how many arguments are listed by name
_WORTHWHILE = 0.01  # of the bytes that are too many, a saving that is advised


class Memory(NamedTuple):
    """What a program takes of the memory of each device, in bytes.

    Attributes:
        arguments, outputs, temporaries, code: what they are. reused: how much of the outputs lies where donated arguments were.
        capacity: how much the device has; None if that is not limited.
    """

    arguments: int
    outputs: int
    temporaries: int
    code: int
    reused: int
    capacity: int | None

    @property
    def total(self) -> int:
        """All of it.

        Example:
            >>> from pullback.parallel.planning import Memory
            >>> Memory(100, 60, 30, 0, 50, None).total
            140
        """
        return self.arguments + self.outputs + self.temporaries + self.code - self.reused

    @property
    def fits(self) -> bool:
        """Whether that is no more than the device has.

        Example:
            >>> from pullback.parallel.planning import Memory
            >>> Memory(100, 60, 30, 0, 50, 120).fits
            False
        """
        return self.capacity is None or self.total <= self.capacity


class Argument(NamedTuple):
    """An array that a program is given: what it is called, its type with its sharding, and how many bytes of it each device
    holds."""

    name: str
    type: ArrayType
    bytes: int


class Plan:
    """What a program takes on the devices of a mesh: `print(plan)` shows it all.

    Attributes:
        program: the Program, with the shardings of its arguments. mesh: the axes over which it is divided.
        target: the name of the kind of device. compiled_by: which compiler made it. exact: whether that is the target's own.
        collectives: a list of records with `kind`, `groups`, `bytes`, `trips`, `number`, `sent` and `wire`.
        memory: a record of bytes: `arguments`, `outputs`, `temporaries`, `code`, `reused`, `capacity`, `total`, `fits`.
        arguments: for each array that it is given, or closes over, a record with `name`, `type` and the `bytes` that each
            device holds.
        flops: floating-point operations of each device, by our own model of costs, if all of them are divided evenly.

    Example:
        >>> import pullback as pb
        >>> x = pb.ArrayType((8, 2), "float32")
        >>> found = pb.parallel.plan(lambda x: x.sum(), x, mesh={"data": 4}, in_shardings=pb.P("data"), target="cpu")
        >>> [(one.kind, one.bytes, one.group_size) for one in found.collectives]
        [('all-reduce', 4, 4)]
    """

    def __init__(self, program: Program, names: Sequence[str], mesh: AbstractMesh, target: Target, made: Compiled) -> None:
        self.program = program
        self.mesh = mesh
        self.target = target.name
        self.compiled_by, self.exact = made.by, made.exact
        self.collectives = collectives(made.text)
        stats = made.stats
        code, reused = stats["generated_code"], stats["alias"]
        self.memory = Memory(stats["argument"], stats["output"], stats["temp"], code, reused, target.memory)
        self.arguments = [_argument(name, one) for name, one in zip(names, program.inputs, strict=True)]
        self.arguments += [_captured(one) for one in passed_constants(program)]
        self.flops = cost(program).flops / mesh.size
        self._target = target

    def axes_of(self, collective: Collective) -> str:
        """Over which axes of the mesh devices communicate in a collective; or how many devices, if that are not all of an axis.

        Arguments:
            collective: one of the plan's.

        Returns:
            A string.

        Example:
            >>> import pullback as pb
            >>> x = pb.ArrayType((8, 2), "float32")
            >>> found = pb.parallel.plan(lambda x: x.sum(), x, mesh={"data": 4}, in_shardings=pb.P("data"), target="cpu")
            >>> found.axes_of(found.collectives[0])
            'data'
        """
        if self.mesh.size <= int(collective.groups.max()):
            return f"{collective.group_size} devices"
        places = np.stack(np.unravel_index(collective.groups, self.mesh.axis_sizes))  # axis, group, member
        differ = (places != places[:, :, :1]).any(axis=(1, 2)).tolist()
        axes = [name for name, along in zip(self.mesh.axis_names, differ) if along]
        whole = collective.kind == "collective-permute" or math.prod(self.mesh.sizes_of(axes)) == collective.group_size
        return ", ".join(axes) if whole else f"{collective.group_size} of {', '.join(axes)}"

    def seconds(self, link: str | float) -> float | None:
        """How long the collectives take in a call of the program, one after the other, where nothing else is done meanwhile.

        Arguments:
            link: how fast each device sends to other hosts: `"400Gbit/s"`, `"50GB/s"`, or a number of bytes a second. Inside of
                a host devices use their own link, if the target has one.

        Returns:
            A float; None if a collective is in a loop of which it is not known how often it runs.

        Raises:
            ValueError: `link` is no speed.

        Example:
            >>> import pullback as pb
            >>> x = pb.ArrayType((8, 1000), "float32")
            >>> found = pb.parallel.plan(lambda x: x.sum(0), x, mesh={"data": 4}, in_shardings=pb.P("data"), target="cpu")
            >>> found.seconds("1MB/s")  # 2 * 3/4 of 4000 bytes
            0.006
        """
        speed = link_speed(link)
        times = [self._seconds_of(one, speed) for one in self.collectives]
        return None if None in times else math.fsum(times)  # type: ignore[arg-type]

    def _seconds_of(self, one: Collective, speed: float) -> float | None:
        inside, host = self._target.inside, self._target.host
        hosts = one.groups // host
        crosses = inside is None or bool((hosts != hosts[:, :1]).any())
        return None if one.wire is None else one.wire / (speed if crosses or inside is None else inside)

    @property
    def computing(self) -> float | None:
        """How many seconds the products of matrices take at least, at the speed that the device has at its best, if all of the
        work is divided; None where that speed is not known.

        Example:
            >>> import pullback as pb
            >>> pb.parallel.plan(lambda x: x, 1.0, mesh={"data": 4}, target="cpu").computing is None
            True
        """
        wide = any([one.type.dtype.kind == "f" and one.type.dtype.itemsize > 2 for one in self.arguments])
        peak = self._target.flops32 if wide and self._target.flops32 else self._target.flops
        return None if peak is None else self.flops / peak

    @property
    def advice(self) -> list[str]:
        """What helps where the memory does not suffice: a line for each thing to do, the largest array first; empty if it fits.

        The rule: of the arguments, those of which a device holds the most come first. One is divided further along the largest
        axis of the mesh that its spec does not name yet and that divides one of its axes, the largest of them, evenly; until it
        would all fit; those that would save less than a hundredth of what is too much are not named. Where that is not enough,
        temporaries are to be made smaller.

        Example:
            >>> import pullback as pb
            >>> pb.parallel.plan(lambda x: x, 1.0, mesh={"data": 4}, target="cpu").advice
            []
        """
        if self.memory.fits or self.memory.capacity is None:
            return []
        lines, excess = [], self.memory.total - self.memory.capacity
        for one in sorted(self.arguments, key=lambda one: -one.bytes):
            spec, bytes = _divided(one, self.mesh) or (None, one.bytes)
            if excess > 0 and (saved := one.bytes - bytes) > excess * _WORTHWHILE:
                excess -= saved
                lines.append(
                    f"{one.name} takes {in_bytes(one.bytes)} on each device as {one.type}; divided as {spec} it would take"
                    f" {in_bytes(bytes)}."
                )
        if excess > 0:
            lines.append(
                f"{in_bytes(excess)} too many remain. Temporaries take {in_bytes(self.memory.temporaries)}: loop over layers"
                " (pb.lax.scan), compute intermediate values again in the backward pass (pb.checkpoint), donate what is"
                " replaced, divide the batch among more devices."
            )
        return lines

    def text(self, links: Sequence[str] = DEFAULT_LINKS, program: bool = True) -> str:
        """The plan as text, as `print` shows it.

        Arguments:
            links: speeds of links, for each of which seconds are estimated.
            program: whether the Program is shown.

        Returns:
            A string of lines.

        Raises:
            ValueError: one of `links` is no speed.

        Example:
            >>> import pullback as pb
            >>> found = pb.parallel.plan(lambda x: x, 1.0, mesh={"data": 4}, target="cpu")
            >>> found.text().splitlines()[0]
            'plan of <lambda> for 4 devices (data=4): devices into which a CPU is divided'
        """
        axes = ", ".join(f"{name}={size}" for name, size in self.mesh.shape.items())
        count = "1 device" if self.mesh.size == 1 else f"{self.mesh.size} devices"
        lines = [f"plan of {self.program.name} for {count} ({axes}): {self._target.title}"]
        lines.append(f"compiled by {self.compiled_by}")
        if not self.exact:
            lines.append(
                "Collectives and memory are near to those of the target, and not the same: its own compiler fuses, combines and"
                " schedules otherwise. It is used where its plugin is installed: pip install 'pullback[cuda]'."
            )
        lines += ["", str(self.program)] if program else []
        lines += ["", *self._memory_lines(), "", *self._collective_lines(), "", *self._time_lines(links)]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Plan of {self.program.name} for {self.mesh.size} devices of {self.target}>"

    def _memory_lines(self) -> list[str]:
        memory = self.memory
        full = max(memory.total, memory.capacity or 0, 1)
        rows = [("arguments", memory.arguments), ("outputs", memory.outputs), ("reused", -memory.reused)]
        rows += [("temporaries", memory.temporaries), ("code", memory.code), ("total", memory.total)]
        lines = ["memory of each device"]
        lines += [f"  {name:12}{in_bytes(size):>10}  {bar(abs(size), full)}".rstrip() for name, size in rows if size]
        if memory.capacity is not None:
            says = "fits" if memory.fits else "DOES NOT FIT"
            share = f"{memory.total / memory.capacity:.1%}"
            lines.append(f"  {'the device':12}{in_bytes(memory.capacity):>10}  {bar(memory.capacity, full)}  {says}: {share}")
        by_size = sorted(self.arguments, key=lambda one: -one.bytes)
        lines += [f"    {in_bytes(one.bytes):>10}  {one.name}: {one.type}" for one in by_size[:_SHOWN]]
        if len(by_size) > _SHOWN:
            rest = sum([one.bytes for one in by_size[_SHOWN:]])
            lines.append(f"    {in_bytes(rest):>10}  {len(by_size) - _SHOWN} other arguments")
        return lines + [f"  {line}" for line in self.advice]

    def _collective_lines(self) -> list[str]:
        if not self.collectives:
            return ["no communication"]
        lines = ["communication           over               each device puts in   times   and sends in all"]
        for one in self.collectives:
            often = "unknown" if one.trips is None else str(one.trips * one.number)
            wire = "unknown" if one.wire is None else in_bytes(one.wire)
            note = "  (in a branch)" if one.conditional else ""
            lines.append(f"  {one.kind:22}{self.axes_of(one):20}{in_bytes(one.bytes):>18}{often:>8}{wire:>19}{note}")
        return lines

    def _time_lines(self, links: Sequence[str]) -> list[str]:
        lines = ["seconds of a call, at least"]
        if self.computing is not None:
            lines.append(
                f"  computing        {in_seconds(self.computing)} for {self.flops:.3g} operations, at the device's best"
            )
        target = self._target
        own = f"{in_bytes(target.inside)}/s inside of a host" if target.inside else ""
        crossing = not own or self.mesh.size > target.host
        for link in links if crossing else links[:1]:
            found = self.seconds(link)
            shown = "an unknown time" if found is None else in_seconds(found)
            speeds = ", ".join(filter(None, [link if crossing else "", own]))
            lines.append(f"  communicating    {shown} at {speeds}")
        if any([one.trips is None for one in self.collectives]):
            lines.append("  A loop communicates of which the compiled program does not say how often it runs.")
        return lines


def _argument(name: str, variable: Any) -> Argument:
    sharding, type = variable.sharding, variable.type
    shape = type.shape if sharding is None else sharding.shard_shape(type.shape)
    return Argument(name, variable.placed_type, type.with_shape(shape).nbytes)


def _captured(array: Array) -> Argument:
    type, sharding = placed_type(array), getattr(array, "sharding", None)
    shape = type.shape if sharding is None else sharding.shard_shape(type.shape)
    return Argument("an array that it closes over", type, type.with_shape(shape).nbytes)


def _divided(one: Argument, mesh: AbstractMesh) -> tuple[PartitionSpec, int] | None:
    """A spec by which an argument is divided further, and how many bytes each device would hold; None if there is none."""
    sharding: Any = one.type.sharding
    entries = list(sharding.entries(one.type.ndim)) if sharding is not None else [None] * one.type.ndim
    shape = one.type.shape if sharding is None else sharding.shard_shape(one.type.shape)
    used = {name for entry in entries for name in names_of(entry)}
    for name in sorted(set(mesh.axis_names) - used, key=lambda name: (-mesh.shape[name], mesh.axis_names.index(name))):
        fitting = [axis for axis, size in enumerate(shape) if size and size % mesh.shape[name] == 0]
        if fitting and mesh.shape[name] > 1:
            axis = max(fitting, key=lambda axis: shape[axis])
            entries[axis] = (*names_of(entries[axis]), name)
            return PartitionSpec(*entries), one.bytes // mesh.shape[name]
    return None


@api_boundary
def plan(
    function: Function,
    *args: Any,
    mesh: AbstractMesh | Mapping[str, int] | None = None,
    in_shardings: Any = None,
    out_shardings: Any = None,
    donate_argnums: int | Sequence[int] = (),
    target: str = "h100",
) -> Plan:
    """What a function takes on the devices of a mesh, which need not be there: memory, communication, time.

    NVIDIA's devices are compiled for by the CUDA plugin, if it is installed (it needs no GPU for that), else by the CPU's
    compiler, for up to 2048 devices; `plan.compiled_by` says which. TPUs need `libtpu`. How to read a plan: docs/planning.md.

    Arguments:
        function: of arrays. One that is jitted keeps its own shardings.
        args: its arguments: `ArrayType`s, with shardings or without, or arrays; trees of them.
        mesh: an `AbstractMesh`, or a dict of the sizes of its axes; by default that on which the arguments lie.
        in_shardings, out_shardings, donate_argnums: as for `jit`. Specs mean `mesh`.
        target: `"h100"`, `"h200"`, `"a100"`, `"tpu-v5e"`, `"tpu-v5p"`, `"tpu-v6e"` or `"cpu"`.

    Returns:
        A `Plan`, which can be printed.

    Raises:
        ValueError: there is no such target; or no mesh is given, by the arguments either.
        ShardingError: an array cannot be divided so. PluginMissing: no compiler for these devices is installed.
        DeviceError: there cannot be so many of them. ProgramError: a collective of the compiled program cannot be read.

    Example:
        >>> import pullback as pb
        >>> x, w = pb.ArrayType((64, 32), "float32"), pb.ArrayType((32, 32), "float32")
        >>> found = pb.parallel.plan(
        ...     lambda x, w: pb.grad(lambda w: pb.numpy.mean((x @ w) ** 2))(w), x, w,
        ...     mesh={"data": 8}, in_shardings=(pb.P("data"), None), target="cpu")
        >>> [(one.kind, one.bytes, found.axes_of(one)) for one in found.collectives]
        [('all-reduce', 4096, 'data')]
        >>> found.memory.arguments  # an eighth of x, and w
        5120
    """
    if target not in TARGETS:
        raise ValueError(f"plan has no target {brief(target)}; there are {', '.join(TARGETS)}.")
    if isinstance(mesh, Mapping):
        mesh = AbstractMesh(tuple(mesh.values()), tuple(mesh))
    elif mesh is not None and not isinstance(mesh, AbstractMesh):
        raise TypeError(
            f"plan takes a mesh, or the sizes of its axes by name, as in mesh={{'data': 8}}, but got {brief(mesh)}."
        )
    if isinstance(function, Jitted):
        if in_shardings is not None or out_shardings is not None or np.size(donate_argnums):
            raise ValueError(f"{describe(function)} is jitted: give jit the shardings and what is donated, and not plan.")
        jitted = function
    else:
        shardings = {"in_shardings": in_shardings, "out_shardings": out_shardings}
        jitted = jit(function, donate_argnums=donate_argnums, **shardings)
    if mesh is None:
        traced = jitted.trace(*args)
    else:
        with mesh:
            traced = jitted.trace(*args)
    program, signature = traced.program, traced._signature
    own = mesh_of(program)
    if mesh is None and own is None:
        raise ValueError("plan needs a mesh: mesh={'data': 8}, or arguments with shardings.")
    if mesh is not None and own is not None and not alike(own, mesh):
        raise ShardingError(f"{program.name} computes on {own}, but plan was given {mesh}.")
    over: Any = own if mesh is None else mesh
    count = 1 if own is None else over.size  # where nothing is divided, each device does the same
    made = compile_for(TARGETS[target], program, signature.donated, count)
    names = jitted._paths(*jitted._split(args, {})[1])
    return Plan(program, names, over.abstract_mesh, TARGETS[target], made)


# ---- quantities as text -----------------------------------------------------------------------------------------------------

_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SPEED = re.compile(r"([\d.]+)\s*([kKMGT]?)(bit|b|B)(?:/s|ps)")


def link_speed(link: str | float) -> float:
    """How many bytes a second a link carries.

    Arguments:
        link: `400Gbit/s`, `50GB/s`, or a number of bytes a second.

    Example:
        >>> link_speed("400Gbit/s"), link_speed("50GB/s"), link_speed(1e9)
        (50000000000.0, 50000000000.0, 1000000000.0)
    """
    found = _SPEED.fullmatch(link.strip()) if isinstance(link, str) else None
    try:
        speed = float(found[1]) * _PREFIXES[found[2]] / (1 if found[3] == "B" else 8) if found else float(link)
    except (TypeError, ValueError):
        speed = math.nan
    if not 0 < speed < math.inf or (isinstance(link, str) and not found):
        raise ValueError(f"A link's speed is written as 400Gbit/s or 50GB/s, and is positive; not {brief(link)}.")
    return speed


def in_bytes(size: float) -> str:
    """A number of bytes in three digits.

    Example:
        >>> in_bytes(84_942_979_072), in_bytes(512), in_bytes(-2500)
        ('84.9 GB', '512 B', '-2.5 kB')
    """
    sign, size = ("-" if size < 0 else ""), abs(size)
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if size < 999.5 or unit == "PB":
            return f"{sign}{size:.3g} {unit}"
        size /= 1000
    raise AssertionError


def in_seconds(time: float) -> str:
    """A time in three digits.

    Example:
        >>> in_seconds(0.0021), in_seconds(12.0), in_seconds(3e-6), in_seconds(0.0)
        ('2.1 ms', '12 s', '3 us', '0 us')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if time >= size:
            return f"{time / size:.3g} {unit}"
    return f"{time * 1e6:.3g} us"


def bar(size: float, full: float) -> str:
    """A bar of blocks, one of the longest length for `full`; of what is not nothing at least a thin one.

    Example:
        >>> bar(1, 2), bar(1, 10**9), bar(0, 1)
        ('████████████████████', '▏', '')
    """
    eighths = max(round(_WIDTH * 8 * size / full), 1 if size else 0)
    return "█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8] if eighths % 8 else "")
