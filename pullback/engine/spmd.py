"""Arrays and executables that are spread over the devices of a mesh.

XLA checks neither the shapes of the shards that it is given nor where they lie: another layout of as many bytes gives wrong
numbers. So everything here goes by NamedShardings, which are compared before anything runs.
"""

from __future__ import annotations

import hashlib
import math
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core.array import (
    Array,
    HostArray,
    PlacedArray,
    ShardedArray,
    aligned_empty,
    as_array,
    host_of,
    is_deleted,
    later_buffer,
    placed_type,
)
from pullback.core.devices import Device
from pullback.core.errors import DeviceError, NotLocal, ProgramsDiffer, ShardingError, ShardingMismatch, WorldError
from pullback.core.forks import lock_across_forks
from pullback.core.meshes import Mesh
from pullback.core.shardings import UNCONSTRAINED, Index, NamedSharding, PartitionSpec, names_of, sharding_of_tiles
from pullback.core.source import at_user_line, running_source
from pullback.core.types import ArrayType, array_type
from pullback.engine.backend import CompileOptions, Executable, JointCall, backend, backend_over, ranks_over, spanning
from pullback.engine.executables import LONG_BYTES, LONG_FLOPS, XlaExecutable
from pullback.engine.failures import host_call, original, postponed
from pullback.engine.jaxlib import jaxlib
from pullback.engine.lower import DONE, Lowered
from pullback.engine.partition import devices_of, sharding_of
from pullback.engine.waiting import is_ready, run_with_peers, wait_for, wait_for_peers
from pullback.program.cost import cost

# How XLA calls what devices do together. A program without any of these needs no other process.
_EXCHANGE = re.compile(r" (?:all|collective|ragged|reduce-scatter|send|recv)[a-z-]*\(")


def _is_local(mesh: Mesh) -> bool:
    return all([device.is_local for device in mesh.devices.flat])


# ---- shardings as XLA knows them ----------------------------------------------------------------------------------------


def raw_sharding(there: Any, sharding: NamedSharding, ndim: int) -> Any:
    """A sharding of arrays of so many axes as jaxlib's object."""
    found = there.spread.get((sharding, ndim))
    if found is None:
        lib, mesh = jaxlib(), devices_of(sharding.mesh)
        devices = lib.jax.DeviceList(tuple([there.raw_of[device] for device in mesh.devices.flat]))
        found = there.spread.setdefault((sharding, ndim), lib.jax.GSPMDSharding(devices, _hlo_sharding(sharding, ndim)))
    return found


def _hlo_sharding(sharding: NamedSharding, ndim: int) -> Any:
    lib, mesh = jaxlib(), sharding.mesh
    used = [name for part in sharding.entries(ndim) for name in names_of(part)]
    if math.prod(mesh.sizes_of(used)) == 1:
        return lib.replicated
    rest = [name for name in mesh.axis_names if name not in used]
    order = [mesh.axis_names.index(name) for name in [*used, *rest]]
    parts, copies = list(sharding.parts(ndim)), math.prod(mesh.sizes_of(rest))
    kinds = [lib.client_module.OpSharding.Type.REPLICATED] if copies > 1 else []
    return lib.client_module.HloSharding.iota_tile([*parts, copies][: ndim + len(kinds)], list(mesh.axis_sizes), order, kinds)


def named_sharding(mesh: Mesh, found: Any, ndim: int) -> NamedSharding | None:
    """What jaxlib says of a result as a sharding over the mesh's axes; None if they cannot say it."""
    if found.is_replicated():
        return NamedSharding(mesh, PartitionSpec())
    tiles = np.reshape(found.tile_assignment_devices(), found.tile_assignment_dimensions())
    places = np.empty((mesh.size, tiles.ndim), np.int64)
    places[tiles.reshape(-1)] = np.indices(tiles.shape).reshape(tiles.ndim, -1).T  # for each device its tile
    return sharding_of_tiles(mesh, places[:, :ndim], tiles.shape[:ndim])


# ---- arrays -------------------------------------------------------------------------------------------------------------


def spread_out(there: Any, host: HostArray | np.generic, type: ArrayType, sharding: NamedSharding) -> Any:
    """Host values in buffers on the devices of this process, each its part. On the CPU contiguous aligned parts are shared:
    nobody may write to that memory."""
    host = np.asarray(host)
    places = sharding.places(type.shape)
    pieces = [host[place] for device, place in zip(sharding.devices, places) if device.is_local]
    return from_pieces(there, pieces, type, sharding)


def from_pieces(there: Any, pieces: Sequence[Any], type: ArrayType, sharding: NamedSharding) -> Any:
    """The buffer of an array of which these are the parts, NumPy arrays or buffers, on the devices of this process in order."""
    raws = [there.raw_of[device] for device in sharding.devices if device.is_local]
    carried = there.carrier(type.dtype)
    given = [np.asarray(one).view(carried) if isinstance(one, (np.ndarray, np.generic)) else one for one in pieces]
    aval, raw = there.aval(type), raw_sharding(there, sharding, type.ndim)
    return there.batched_put(aval, raw, given, raws, True, False, enable_x64=True)


def parts_of(raw: Any) -> Sequence[Any]:
    """The buffers of the parts of a buffer. jaxlib makes the list at the first question, and lets other threads run
    meanwhile: of two that ask at once each would put all parts into it, for good."""
    with _dividing:
        found: Sequence[Any] = raw._arrays
        return found


_dividing = lock_across_forks()


def pieces_of(there: Any, array: ShardedArray) -> dict[Device, Array]:
    """The parts of an array that devices of this process hold, as Arrays."""
    lib, raw = jaxlib(), later_buffer(array)
    if raw is None or raw.is_deleted():
        host_of(array)  # raises
    type = array.type.with_shape(array.sharding.shard_shape(array.type.shape))
    held: dict[Device, Array] = {}
    local = [device for device in array.sharding.devices if device.is_local]
    if there is spanning.backend:  # what this process computes by itself it computes by another client, in the same memory
        wait_for_peers(raw)
        alone = backend(there.platform)
        for device, piece in zip(local, parts_of(raw), strict=True):
            own = alone.put(_seen(there, piece, type), type, alone.devices.index(device))
            held[device] = PlacedArray(type, None, own)
        return held
    for device, piece in zip(local, parts_of(raw), strict=True):
        own = lib.jax.ArrayImpl(there.aval(type), there.sharding_of(device), [piece], True, _skip_checks=True)
        held[device] = PlacedArray(type, None, own)
    return held


def copied(there: Any, array: ShardedArray) -> Any:
    """The buffer of a copy of an array, part by part: jaxlib cannot copy several at once."""
    held = pieces_of(there, array)
    pieces = [there.put(host_of(one), one.type, there.devices.index(device), copy=True) for device, one in held.items()]
    return from_pieces(there, pieces, array.type, array.sharding)


def gathered(there: Any, array: ShardedArray) -> HostArray | None:
    """All values of an array in NumPy memory of their own; None if another thread has just donated it."""
    type, sharding, raw = array.type, array.sharding, later_buffer(array)
    if raw is None or raw.is_deleted():
        return None
    if not (sharding.is_fully_addressable or sharding.is_fully_replicated):
        raise NotLocal(
            f"The values of {placed_type(array)} on {sharding.place} are not all in this process: take the parts that are"
            " (x.addressable_shards), or have all processes call pb.parallel.gather(x)."
        )
    if type.size == 0:
        return np.empty(type.shape, type.dtype)
    local = [place for device, place in zip(sharding.devices, sharding.places(type.shape)) if device.is_local]
    if sharding.is_fully_replicated:
        return _seen(there, parts_of(raw)[0], type).copy()
    out = np.empty(type.shape, type.dtype)
    for place, piece in zip(local, parts_of(raw), strict=True):
        out[place] = _seen(there, piece, type)
    return out


def _seen(there: Any, piece: Any, type: ArrayType) -> HostArray:
    """The values of one part, as NumPy sees them."""
    if type.size == 0:
        return np.empty(type.shape, type.dtype)
    seen = np.asarray(memoryview(piece)) if there.platform == "cpu" else np.asarray(piece)
    return seen if seen.dtype is type.dtype else seen.view(type.dtype)


def spread_array(array: Array, sharding: NamedSharding) -> Array:
    """An Array divided as a sharding says; itself in other words, if it lies so already."""
    if isinstance(array, ShardedArray) and array.sharding is sharding and not is_deleted(array):
        return array.alias()
    mesh = sharding.mesh
    if not isinstance(mesh, Mesh):
        raise NotLocal(f"{mesh} has no devices on which an array could lie: make a mesh of devices (pb.make_mesh).")
    if UNCONSTRAINED in sharding.spec:
        raise ShardingError(f"{sharding.spec} leaves it open how an array lies; only constraints in compiled functions may.")
    there: Any = backend_over(sharding.devices)
    type = array.type
    sharding.shard_shape(type.shape)
    if isinstance(array, ShardedArray) and not is_deleted(array):
        if array.sharding.is_equivalent_to(sharding, type.ndim):  # the same parts by another name
            pieces = [piece._buffer for piece in pieces_of(there, array).values()]
            array.lent = True
            return ShardedArray(type, sharding, from_pieces(there, pieces, type, sharding), lent=True)
        if array.is_fully_addressable:
            return ShardedArray(type, sharding, from_pieces(there, _redivided(array, sharding), type, sharding), lent=True)
    host = host_of(array)
    if there.spans and spanning.backend and not isinstance(array, ShardedArray):  # each takes its part of what all should have
        ranks = ranks_over(sharding.devices)
        digest = hashlib.sha256(np.ascontiguousarray(host).reshape(-1).view(np.uint8).data).hexdigest()
        what = f"values of {type} on {sharding.place} with digest {digest[:16]}"
        spanning.peers.agree_among("what they put on devices", what, ranks)
    return ShardedArray(type, sharding, spread_out(there, host, type, sharding), lent=True)


def _redivided(array: ShardedArray, sharding: NamedSharding) -> list[HostArray]:
    """The parts of an array by another sharding, each put together from those that it has: nothing is copied twice."""
    type = array.type
    sources = {_corner(piece.index): (piece.index, np.asarray(host_of(piece.data))) for piece in array.global_shards}
    made: dict[Any, HostArray] = {}
    pieces = []
    for place in sharding.places(type.shape):
        out = made.get(_corner(place))
        if out is None:
            out = made[_corner(place)] = aligned_empty(sharding.shard_shape(type.shape), type.dtype)
            for index, values in sources.values():
                shared = [(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(place, index)]
                if all([start < stop for start, stop in shared]):
                    to, of = [
                        tuple([slice(start - one.start, stop - one.start) for (start, stop), one in zip(shared, own)])
                        for own in (place, index)
                    ]
                    out[to] = values[of]
        pieces.append(out)
    return pieces


def _corner(place: Index) -> tuple[int, ...]:
    """Where a part begins, by which parts of one division differ."""
    return tuple([one.start for one in place])


# ---- what each process brings by itself ----------------------------------------------------------------------------------

COMPARED = 4096  # of so many values all are compared between processes, of more as many, evenly spread


class _Brought(threading.local):
    """What this thread has put on devices of several processes for the next call: the buffers, the types, and digests of the
    values."""

    def __init__(self) -> None:
        self.values: list[tuple[Any, str, bytes]] = []


_brought = _Brought()


def _bring(raw: Any, given: HostArray | np.generic, type: ArrayType) -> Any:
    host = np.asarray(given)
    some = host if host.size <= COMPARED else host.flat[:: host.size // COMPARED | 1]  # odd: not always of one column
    _brought.values.append((raw, str(type), hashlib.blake2b(some.tobytes(), digest_size=8).digest()))
    return raw


def _values_among(buffers: Sequence[Any]) -> tuple[tuple[str, bytes], ...]:
    """What of it these buffers are; the rest is forgotten, since the call for which it was meant has failed."""
    if not _brought.values:
        return ()
    found, _brought.values = _brought.values, []
    taken = set(map(id, buffers))
    return tuple([(type, digest) for raw, type, digest in found if id(raw) in taken])


# ---- executables --------------------------------------------------------------------------------------------------------


class SpmdExecutable(XlaExecutable):
    """What XLA made of a Program for a mesh: each device runs it on its parts of the arrays."""

    spread = True
    mesh: Mesh
    takes: list[NamedSharding]
    gives: list[NamedSharding]
    placed_types: list[ArrayType]
    is_short: bool  # so that a call returns when its results have been computed
    joint: JointCall  # of one that several processes run together, what is the same in all calls

    def result_class_of(self, options: CompileOptions) -> type[Array]:
        return ShardedArray

    def _ends(self, lowered: Lowered) -> tuple[list[Any], list[Any]]:
        there, program = self.backend, self.program()
        self.mesh = mesh = devices_of(lowered.mesh)  # type: ignore[arg-type]
        takes = cost(program)
        work = max(takes.work / LONG_FLOPS, takes.bytes / LONG_BYTES)
        self.is_short = there.platform == "cpu" and work < mesh.size and _is_local(mesh)
        whole = NamedSharding(mesh, PartitionSpec())

        def on_mesh(sharding: NamedSharding | None) -> NamedSharding:
            return whole if sharding is None else NamedSharding(mesh, sharding.spec)

        numbers = range(len(program.inputs)) if self.kept is None else self.kept
        self.takes = [on_mesh(program.inputs[i].sharding) for i in numbers]
        self.gives = []
        found = self.raw.get_output_shardings() if mesh.size > 1 else None
        for number, (type, out) in enumerate(zip(self.output_types, program.outputs)):
            if found is None or sharding_of(out) is not None:
                self.gives.append(on_mesh(sharding_of(out)))
                continue
            chosen = named_sharding(mesh, jaxlib().client_module.HloSharding.from_proto(found[number]), type.ndim)
            if chosen is None:
                raise ShardingError(
                    f"XLA divides result {number} of {program.name}, of type {type}, in a way that the axes of {mesh} cannot"
                    " say. Say how it is to be divided: out_shardings, or pb.lax.with_sharding_constraint."
                )
            self.gives.append(chosen)
        pairs = list(zip(self.output_types, self.gives))
        made = pairs or ([(array_type((), DONE.dtype), whole)] if lowered.callbacks and mesh.size > 1 else [])
        handlers = [jaxlib().result_handler(there.aval(type), raw_sharding(there, own, type.ndim)) for type, own in made]
        spread = [one.sharding if isinstance(one, ShardedArray) else None for one in lowered.constants]
        self.placed_types = [type.placed(own, type.varying) for type, own in pairs]
        constants = [self._buffer_on_mesh(one, on_mesh(own)) for one, own in zip(lowered.constants, spread)]
        return constants, handlers

    def join_peers(self, digest: str) -> None:
        """Other processes run this together with this one; the digest is that of its code."""
        program = self.program()
        given = ", ".join([str(variable.placed_type) for variable in program.inputs])
        made = ", ".join(map(str, self.placed_types))
        values = _values_among(self.constants)
        code = hashlib.sha256(digest.encode() + b"".join([one for _, one in values])).digest()
        exchanges = any([_EXCHANGE.search(module.to_string()) is not None for module in self.raw.hlo_modules()])
        about = f"{program.name}: ({given}) -> ({made}), {code.hex()[:8]}"
        self.joint = JointCall(about, code, ranks_over([*self.mesh.devices.flat]), exchanges, (), None)

    def _executor(self) -> Callable[[list[Any]], Sequence[Any]]:
        if self.backend.spans:
            return self._run_with_peers
        return self._run_in_turn if self.mesh.size > 1 and self.backend.platform == "cpu" else super()._executor()

    def _run_with_peers(self, buffers: list[Any]) -> Sequence[Any]:
        """Run when all processes that are to run it have come to this call, and the program before has ended."""
        call = self.joint._replace(values=_values_among(buffers), source=running_source())
        host_call.check_free()
        with self.backend.launching:
            postponed()  # of a call that was interrupted
            outs: Sequence[Any] = run_with_peers(lambda: self._begin(call, buffers))
            if self.calls_host:
                self._end_with_peers(call, outs[-1])
            return outs[: len(self.gives)]

    def _end_with_peers(self, call: JointCall, last: Any) -> None:
        """Wait until a program has ended that calls Python functions. If one of them raised an exception, here or in another
        process, so does this: what the others have got is made up."""
        try:
            self._end(last)
        except WorldError:
            raise
        except BaseException as error:
            spanning.peers.failures(call, f"{type(error).__name__}: {error}"[:1000])
            raise
        if others := spanning.peers.failures(call, ""):
            raise WorldError(
                f"A Python function that {call.program} calls has failed {others}. See the error there.{at_user_line()}"
            )

    def _begin(self, call: JointCall, buffers: list[Any]) -> Sequence[Any]:
        there = self.backend

        def meanwhile() -> None:
            if there.running is not None and not is_ready(there.running):
                wait_for_peers(there.running)

        spanning.peers.begin(call, meanwhile)
        outs = super()._executor()(buffers)
        there.running = outs[-1] if outs else None
        return outs

    def inlined(self) -> tuple[str, dict[str, Any]] | None:
        return Executable.inlined(self) if self.mesh.size > 1 else super().inlined()

    def _run_in_turn(self, buffers: list[Any]) -> Sequence[Any]:
        """Run when the program before has ended. Where two whose devices wait for each other run at once on the CPU, each may
        hold threads that the other one needs: then XLA ends the process. A short one has ended when this returns."""
        host_call.check_free()
        there = self.backend
        with there.launching:
            if there.running is not None and not is_ready(there.running):
                wait_for(there.running)
            postponed()  # of a call that was interrupted
            outs = super()._executor()(buffers)
            there.running = outs[-1] if outs else None
            if self.calls_host:
                self._end(outs[-1])
            elif self.is_short and outs:
                outs[-1].block_until_ready()
            else:
                return outs
            there.running = None
        return outs if self.gives else []

    def _end(self, last: Any) -> None:
        """Wait until a program has ended that calls Python functions. What one of them raised is raised as itself."""
        try:
            (wait_for_peers if self.backend.spans else wait_for)(last)
            last.block_until_ready()
        except Exception as error:
            failure = postponed() or original(error)
            if failure is None:
                raise
        else:
            failure = postponed()
        if failure is not None:
            raise failure

    def _buffer_on_mesh(self, array: Array, wanted: NamedSharding) -> Any:
        """The buffer of an Array that lies as it is wanted, made of its values if it lies nowhere in particular."""
        if isinstance(array, ShardedArray):
            if array.sharding is not wanted and not array.sharding.is_equivalent_to(wanted, array.type.ndim):
                raise ShardingMismatch(
                    f"An array lies as {placed_type(array)}, but is taken as {array.type.placed(wanted, array.type.varying)}."
                )
            found = later_buffer(array)
            return host_of(array) if found is None else found  # the former raises
        if array.__class__ is PlacedArray and self.mesh.size > 1:
            raise DeviceError(f"An array on {array.device} cannot be computed with on {self.mesh}: move it with pb.device_put.")
        host = host_of(array)
        raw = spread_out(self.backend, host, array.type, wanted)
        return _bring(raw, host, array.type) if self.backend.spans else raw

    def put(self, wanted: NamedSharding, value: Any) -> Any:
        """The buffer of a value that lies nowhere in particular, where an input is wanted. It is the caller's: copied."""
        return self._buffer_on_mesh(as_array(value), wanted)

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        if self.kept is not None:
            for array in filter(is_deleted, arrays):
                host_of(array)  # raises, though it may not be read
            arrays = [arrays[i] for i in self.kept]
        given = self.given or [False] * len(arrays)
        triples = zip(arrays, self.takes, given, strict=True)
        return self.run([array if gives else self._buffer_on_mesh(array, own) for array, own, gives in triples])

    def run(self, buffers: list[Any]) -> list[Array]:
        outs = zip(self.output_types, self.gives, self._runner()(buffers), strict=True)
        return [ShardedArray(type, sharding, out, computed=self.is_short) for type, sharding, out in outs]

    def _run_donating(self, given: list[Any]) -> Sequence[Any]:
        """Run on buffers, and on Arrays in the places of donated arguments, which nobody can use afterwards. What others may
        look at is copied first."""
        buffers, donors = [], []
        raws = [later_buffer(one) if isinstance(one, ShardedArray) else one for one in given]
        times = Counter(map(id, [*raws, *self.constants]))  # XLA ends the process if it is given a donated buffer twice
        for one, own, gives, raw in zip(given, self.takes, self.given, raws, strict=True):
            if not gives:
                buffers.append(one)
                continue
            donors.append(one)
            if isinstance(one, ShardedArray) and (one.lent or times[id(raw)] > 1):
                buffers.append(copied(self.backend, one))
            else:
                buffers.append(self._buffer_on_mesh(one, own))
        try:
            return self._executor()(buffers)
        except ProgramsDiffer:  # then it was not begun
            donors = []
            raise
        finally:
            for array in donors:
                array.delete()
