"""shard_map where nothing is compiled: Python runs the function for one device after another, so that print and pdb show
values.

The devices take turns. Each has a thread, of which one runs at a time, until it comes to an operation between devices; when
those that communicate in it have all come, it is computed for them, as along the axis of a vmap, and they go on. While they
run, it is noted of each value along which axes it varies, which a compiled function is asked for as a whole
(`parallel/varying.py`).
"""

from __future__ import annotations

import contextvars
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core.axes import Axis, mesh_axes, own_axes, rows_along
from pullback.core.errors import ShardingError
from pullback.core.meshes import AbstractMesh
from pullback.core.modes import overriding
from pullback.core.primitive import Primitive
from pullback.core.shardings import NamedSharding, PartitionSpec
from pullback.core.source import describe, user_source
from pullback.core.tracing import bind, evaluate, innermost_staging, staging, type_of
from pullback.ops.collective import psum
from pullback.ops.shape import concatenate, reshape
from pullback.ops.varying import BY_VARIATION, psum_over_varying, pvary_over_varying
from pullback.parallel.manual import Over, on_devices, refuse_varying
from pullback.program.equality import param_key
from pullback.program.program import programs_in
from pullback.program.provenance import Recorder


def another(value: Any) -> Any:
    """The same value as another object, of which other things are noted."""
    return reshape(value, new_sizes=type_of(value).shape)


SUM: Any = psum  # the decorator has made it a Primitive


class Ended(BaseException):
    """Raised in the threads of the other devices when one has failed."""


class Device(Recorder):
    """Computes for one device: evaluates operations, and notes which values vary; at operations between devices it waits.

    Attributes:
        names: the mesh axes. place: its number along each. around: the trace to which operations go.
        flags: of values that vary, by their ids, the axes; with the values, so that an id is not used again.
        asked: the operation between devices at which it waits. answer: what that gave it.
        result: what its function returned. error: what that raised.
    """

    __slots__ = ("answer", "around", "asked", "error", "flags", "go", "names", "place", "result", "team")
    transformation = "shard_map"
    evaluates = True
    attributed = made = property(lambda self: None, lambda self, value: None)
    scope = property(lambda self: (), lambda self, value: None)

    def __init__(self, team: Team, place: tuple[int, ...]) -> None:
        super().__init__()
        self.recording = None
        self.team, self.names, self.place, self.around = team, team.over.manual, place, innermost_staging()
        self.flags: dict[int, tuple[Any, frozenset[Any]]] = {}
        self.asked: tuple[Primitive, tuple[Any, ...], dict[str, Any], Any] | None = None
        self.answer: Any = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.go = threading.Semaphore(0)

    def __str__(self) -> str:
        return ", ".join([f"{name}={number}" for name, number in zip(self.names, self.place)])

    def varying(self, value: Any) -> frozenset[Any]:
        """The axes along which a value varies."""
        return self.flags[id(value)][1] if id(value) in self.flags else frozenset()

    def note(self, value: Any, axes: frozenset[Any]) -> Any:
        if axes:
            self.flags[id(value)] = value, axes
        return value

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if self.team.ended:
            raise Ended
        if primitive in BY_VARIATION:
            return self.by_variation(primitive, args, params)
        if any([name in self.names for name in own_axes(primitive, params)]):
            return self.between(primitive, args, params)
        if primitive.wiring is not None and primitive.evaluate is not None and programs_in(params):
            lead = primitive.wiring.lead
            axes = frozenset().union(*map(self.varying, args[:lead]))  # along which devices take other branches
            args = [*args[:lead], *self.varied(args[lead:], axes)]
            return self.varied(evaluate(primitive, args, params), axes)  # whose operations come here too
        with staging.setting(self.around):
            out = bind(primitive, args, params)
        axes = frozenset().union(*map(self.varying, args))
        for one in out if primitive.multiple_results else (out,):
            self.note(one, axes)
        return out

    def varied(self, values: Sequence[Any], axes: frozenset[Any]) -> Sequence[Any]:
        """Values, as other objects, of which it is noted that they vary along these axes too."""
        if not axes:
            return values
        with staging.setting(self.around):
            others = [another(value) for value in values]
        return [self.note(other, self.varying(value) | axes) for other, value in zip(others, values)]

    def between(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """An operation between devices: all of them must come to it."""
        self.asked = primitive, tuple(args), params, user_source(3, ())
        self.team.back.release()
        self.go.acquire()
        if self.team.ended:
            raise Ended
        out, self.answer, self.asked = self.answer, None, None
        axes = frozenset().union(*map(self.varying, args))
        own = frozenset(own_axes(primitive, params))
        agrees = primitive.agrees is not None and primitive.agrees(**params)
        return self.note(out, axes - own if agrees else axes | own)

    def by_variation(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        value, *others, like = args
        axes = frozenset().union(*map(self.varying, others)) - self.varying(like)
        before = self.varying(value)
        rest = tuple([name for name in params["axes"] if name not in self.names])
        if primitive is psum_over_varying:
            for name in self.names:
                if name in axes:
                    value = self.between(SUM, (value,), {"axis_name": name})
            before = self.varying(value)
        if rest and isinstance(self.around, Device):
            with staging.setting(self.around):
                value = bind(primitive, (value, *others, like), {"axes": rest})
        elif value is args[0]:
            value = another(value)
        return self.note(value, before | axes if primitive is pvary_over_varying else before)

    def run(self, function: Callable[[], Any], owners: Any) -> None:
        """Run the function, in a thread of its own, when it is this device's turn."""
        self.go.acquire()
        try:
            if not self.team.ended:
                with owners, overriding(compiles=False), staging.setting(self):
                    self.result = function()
        except BaseException as error:
            self.error = error
        finally:
            self.team.back.release()


class Team:
    """The devices of a shard_map, which take turns.

    Attributes:
        ended: whether one has failed, so that the others end too. back: released when the one whose turn it is waits or ends.
    """

    def __init__(self, over: Over, function: Any) -> None:
        self.over, self.function = over, function
        self.ended = False
        self.back = threading.Semaphore(0)
        self.sizes = over.mesh.sizes_of(over.manual)
        self.devices = [Device(self, place) for place in np.ndindex(*self.sizes)]

    def run(self, functions: Sequence[Callable[[], Any]]) -> list[Any]:
        """What each device's function returns."""
        threads = []
        for device, function in zip(self.devices, functions, strict=True):
            owners = mesh_axes(self.over.mesh, self.over.manual, self.over.check, device)
            context = contextvars.copy_context()
            threads.append(threading.Thread(target=context.run, args=(device.run, function, owners), daemon=True))
        try:
            for thread in threads:
                thread.start()
            running = self.devices
            while running:
                for device in running:
                    self.turn(device)
                running = self.exchange([device for device in self.devices if device.asked is not None])
        finally:
            self.ended = True
            for device in self.devices:
                device.go.release()
        for thread in threads:
            thread.join()
        return [device.result for device in self.devices]

    def turn(self, device: Device) -> None:
        """Let a device go on until it waits or has ended."""
        device.asked = None
        device.go.release()
        self.back.acquire()
        if device.error is not None:
            device.error.add_note(f"(on the device {device} of {self.over.mesh})")
            raise device.error

    def exchange(self, waiting: Sequence[Device]) -> list[Device]:
        """Compute the operations at which all devices wait that communicate in them. These go on, and are returned."""
        answered: list[Device] = []
        for device in waiting:
            members = self.members(device)
            if device is members[0] and all([self.key(one) == self.key(device) for one in members]):
                self.answer(members)
                answered += members
        if waiting and not answered:
            first = waiting[0]
            raise self.apart(first, next(one for one in self.members(first) if self.key(one) != self.key(first)))
        return answered

    def members(self, device: Device) -> list[Device]:
        """The devices that communicate in the operation at which one waits."""
        rows = rows_along(self.over.manual, self.sizes, device.asked[2]["axis_name"])  # type: ignore[index]
        number = self.devices.index(device)
        return [self.devices[one] for one in next(row for row in rows if number in row)]

    def answer(self, members: Sequence[Device]) -> None:
        """Compute the operation at which devices wait."""
        primitive, args, params, _ = members[0].asked  # type: ignore[misc]
        axis = Axis(len(members), params["axis_name"])
        columns = list(zip(*[device.asked[1] for device in members]))  # type: ignore[index]
        stacks = [concatenate(*[reshape(x, new_sizes=(1, *type_of(x).shape)) for x in one], dimension=0) for one in columns]
        out, batched = primitive.vectorize(axis, stacks, [0] * len(args), **params)  # type: ignore[misc]
        for number, device in enumerate(members):
            device.answer = out if batched is None else out[number]
            if batched is None:
                device.answer = another(out)

    def key(self, device: Device) -> Any:
        """What must be the same for all devices in an operation between them. None for one that has returned."""
        if device.asked is None:
            return None
        primitive, args, params, _ = device.asked
        return primitive, tuple([type_of(arg).strong() for arg in args]), param_key(tuple(sorted(params.items())))

    def apart(self, one: Device, other: Device) -> ShardingError:
        def where(device: Device) -> str:
            if device.asked is None:
                return f"device {device} has returned"
            primitive, args, params, source = device.asked
            types = ", ".join([str(type_of(arg)) for arg in args])
            return f"device {device} is at {primitive.name} of ({types}) over {params['axis_name']!r} at {source}"

        return ShardingError(
            f"shard_map of {describe(self.function)}: {where(one)}, but {where(other)}. All devices must come to the same"
            " operations between them, in the same order: let nothing that differs between them decide which are done."
        )


def by_turns(
    over: Over,
    of_shards: Callable[..., list[Any]],
    leaves: Sequence[Any],
    specs: Sequence[PartitionSpec],
    out_specs: Callable[[], Sequence[PartitionSpec]],
    function: Any,
    names: Callable[[], Sequence[str]],
) -> list[Any]:
    """The results of a shard_map whose function of shards runs for one device after another.

    Raises:
        ShardingError: the devices come to different operations between them, or return shards of different types.
    """
    team = Team(over, function)
    mesh = AbstractMesh(team.sizes, over.manual)
    rows = [shards(leaf, NamedSharding(mesh, spec)) for leaf, spec in zip(leaves, specs)]
    for number, device in enumerate(team.devices):
        for row, spec in zip(rows, specs):
            device.note(
                row[number], frozenset([name for name in over.manual if over.axes_of(spec) >> over.manual.index(name) & 1])
            )
    calls = [lambda number=number: of_shards(*[row[number] for row in rows]) for number in range(len(team.devices))]
    outs = team.run(calls)
    joined = []
    for number, (spec, name) in enumerate(zip(out_specs(), names(), strict=True)):
        column = [out[number] for out in outs]
        types = {type_of(one).strong() for one in column}
        if len(types) > 1:
            raise ShardingError(
                f"shard_map of {describe(function)}: {name} is of types {', '.join(map(str, types))} on devices."
            )
        if over.check:
            varying = frozenset().union(*[device.varying(one) for device, one in zip(team.devices, column)])
            refuse_varying(over, name, type_of(column[0]), varying, spec, describe(function))
        whole = join(column, NamedSharding(mesh, spec))
        joined.append(on_devices(whole, NamedSharding(over.mesh, spec)))
    return joined


def shards(x: Any, sharding: NamedSharding) -> list[Any]:
    """The shards of an array, an object of its own for each device."""
    shape = type_of(x).shape
    return [reshape(x[place], new_sizes=sharding.shard_shape(shape)) for place in sharding.places(shape)]


def join(pieces: Sequence[Any], sharding: NamedSharding) -> Any:
    """The array that shards make up."""
    parts = sharding.parts(type_of(pieces[0]).ndim)
    grid = np.empty(parts, object)
    for piece, place in zip(pieces, sharding.places(parts)):
        grid[tuple([one.start for one in place])] = piece
    for axis in reversed(range(len(parts))):
        rows = grid.reshape(-1, parts[axis])
        grid = np.empty(math.prod(parts[:axis]), object)
        for number, row in enumerate(rows):
            grid[number] = concatenate(*row, dimension=axis) if len(row) > 1 else row[0]
    return grid.reshape(-1)[0]
