"""XLA: Programs compiled by it, through jaxlib, for the CPU or for a platform whose PJRT client is registered."""

from __future__ import annotations

import contextlib
import ctypes
import operator
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from pullback.core import array as array_module
from pullback.core.array import (
    Array,
    HostArray,
    ShardedArray,
    aligned_empty,
    host_of,
    immutable_memory,
    later_buffer,
)
from pullback.core.bounded import Bounded
from pullback.core.brief import brief
from pullback.core.context import Inherited
from pullback.core.devices import Device, processes
from pullback.core.dtypes import DType, carrier
from pullback.core.errors import DeviceError, ProgramError
from pullback.core.forks import lock_across_forks
from pullback.core.shardings import NamedSharding
from pullback.core.types import ArrayType
from pullback.engine import cache, disk
from pullback.engine.backend import (
    Backend,
    BorrowedBuffer,
    CompileOptions,
    Executable,
    backend_over,
    buffer_of,
    placement,
    ranks_over,
    register_backend,
)
from pullback.engine.executables import LONG_BYTES, LONG_FLOPS, XlaExecutable, kept_inputs
from pullback.engine.jaxlib import jaxlib
from pullback.engine.lower import Lowered, lower_program
from pullback.engine.partition import devices_of
from pullback.engine.processor import processor, usable_processors
from pullback.engine.spmd import SpmdExecutable, gathered, pieces_of
from pullback.engine.waiting import is_ready, wait_for, wait_for_peers
from pullback.program.cost import cost
from pullback.program.program import Program
from pullback.program.provenance import Naming, name_stack, numbered_name

# Up to this many bytes host memory is copied to the CPU device before `put` returns. More is copied in the background (from
# 100 kB on, as seen) unless it is waited for: the caller could write to it meanwhile, and a call that takes it end too late.
COPIED_AT_ONCE = 1 << 15

# What takes XLA less long than this is not worth a file: reading it back would take as long.
KEPT_SECONDS = 0.02

MAX_TYPES = 4096  # of which a back end keeps what jaxlib wants to know

# What makes XLA for the CPU compile quickly: LLVM without optimization, kernels written as LLVM at once instead of through
# MLIR, and one module for all of them. Processor time of a compilation (jaxlib 0.10.2, ms) with all, with the first two, with
# the first, and with none: training step of a transformer of 4 blocks 220, 341, 858, 1603; of 9 dense layers 59, 124, 174, 337;
# gradient of a GRU 66, 101, 345, 578; convolution 12, 17, 93, 158. The code takes one to eight times as long to run. LLVM's
# level 1, no "expensive passes", narrower vectors and an effort of -1 gain nothing more, or little of it.
QUICK: tuple[tuple[str, Any], ...] = (
    ("xla_backend_optimization_level", 0),
    ("xla_cpu_use_fusion_emitters", False),
    ("xla_cpu_parallel_codegen_split_count", 1),
)

# Those of them that this jaxlib turns out to lack, and how XLA says so. Compiling is slower without them.
_missing: set[str] = set()
_MISSING = re.compile(r"No such compile option: '(\w+)'")

# The line of a module that XLA complains of, and what it says; and what stands behind a line of a located module.
_REFUSED = re.compile(r'-"?:(\d+):\d+: (?:error: )?(.*)')
_PLACE = re.compile(r'"(?:.*?/)*([^/]*?)"\("(.*?)":(\d+)')


class BufferAccess:
    """How `core.array` reaches values that lie in device buffers (jaxlib's array objects).

    Another thread may donate a buffer at any moment; to ask it then for anything but `is_deleted` crashes.
    """

    def gathered(self, array: Any) -> HostArray | None:
        return gathered(backend_of(array), array)

    def parts_of(self, array: Any) -> dict[Device, Array]:
        return pieces_of(backend_of(array), array)

    def to_host(self, raw: Any, type: ArrayType) -> np.ndarray[Any, Any] | None:
        """The values as NumPy sees them: the same memory on the CPU, a copy elsewhere."""
        if type.size == 0:
            return np.empty(type.shape, type.dtype)
        if raw.is_deleted():
            return None
        if raw.platform() != "cpu":
            return np.asarray(raw._single_device_array_to_np_array_did_copy()[0])
        seen = np.asarray(memoryview(raw))
        return seen if seen.dtype is type.dtype else seen.view(type.dtype)

    def device_of(self, raw: Any) -> Device:
        there, index = _places[id(raw._sharding)]
        return there.devices[index]

    def pending(self, array: Array) -> Sequence[Any]:
        if array._buffer is not None and not placement.several:  # of the CPU's own client, whose calls return when it is there
            return ()
        if isinstance(array, ShardedArray) and array.computed:
            return ()
        return [raw for raw in (array._buffer, later_buffer(array)) if hasattr(raw, "is_ready")]

    def wait(self, raw: Any) -> None:
        if not raw._sharding._internal_device_list.is_fully_addressable:
            return wait_for_peers(raw)
        if not is_ready(raw):
            place = _places.get(id(raw._sharding))
            started = (there for there, _ in _places.values() if there.client.platform == raw.platform())
            (next(started) if place is None else place[0]).check_threads()  # one that is spread lies in no one place
            wait_for(raw)
        if not raw.is_deleted():
            raw.block_until_ready()  # raises what went wrong

    def is_ready(self, raw: Any) -> bool:
        return is_ready(raw)


class XlaBackend(Backend):
    """One platform's PJRT client and devices.

    Attributes:
        later: whether calls return before they have run: of the CPU's asynchronous client, whose buffers Arrays keep apart.
        forked: whether the client is that of the process from which this one was forked, without the client's threads.
        spans: whether it knows devices of other processes, too.
    """

    forked = False

    def __init__(self, platform: str, client: Any, later: bool = False) -> None:
        lib = jaxlib()
        self.platform = platform
        self.client = client
        self.later = later
        self.debug_options = lib.debug_options().hex()
        self.raw_devices, everywhere = client.local_devices(), sorted(client.devices(), key=operator.attrgetter("id"))
        self.spans = len(everywhere) > len(self.raw_devices)
        if self.spans:  # XLA's own numbers leave gaps
            processes.owners[platform] = [raw.process_index for raw in everywhere]
        first = 0 if self.spans else processes.first(platform)
        self.raw_of = {Device(platform, first + i): raw for i, raw in enumerate(everywhere)}
        self.devices = [device for device, raw in self.raw_of.items() if raw in self.raw_devices]
        self.shardings = [lib.jax.GSPMDSharding(lib.jax.DeviceList((raw,)), lib.replicated) for raw in self.raw_devices]
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._lose_threads)
        self.batched_put = lib.jax.batched_device_put
        self.spread: Bounded[tuple[NamedSharding, int], Any] = Bounded(MAX_TYPES)  # shardings over meshes as jaxlib's objects
        self.launching = lock_across_forks()  # programs on several devices run one after the other
        self.running: Any = None  # the last result of the last of them
        immutable_memory.add(lib.jax.ArrayImpl)
        self._avals: Bounded[ArrayType, Any] = Bounded(MAX_TYPES)
        _places.update((id(sharding), (self, i)) for i, sharding in enumerate(self.shardings))

    def _lose_threads(self) -> None:
        self.forked = True
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.client))  # the end of a client waits for its threads

    def check_threads(self) -> None:
        """Raise where XLA would wait for ever."""
        if self.forked:
            raise DeviceError(
                "This process was forked from one in which pullback had compiled something, and XLA's threads are missing here:"
                " nothing can be compiled, and what was still being computed never will be. Start processes with"
                " multiprocessing's 'spawn' or 'forkserver' instead, or fork before the first compilation."
            )

    def aval(self, type: ArrayType) -> Any:
        """What jaxlib wants to know of an array: any object with these three attributes."""
        found = self._avals.get(type)
        if found is None:
            aval = SimpleNamespace(shape=type.shape, dtype=self.carrier(type.dtype), weak_type=False)
            found = self._avals.setdefault(type, aval)
        return found

    def carrier(self, dtype: DType) -> DType:
        """The dtype of this platform's buffers for values of a dtype."""
        return carrier(dtype) if self.platform == "cpu" else dtype

    def put(self, host: np.ndarray[Any, Any] | np.generic, type: ArrayType, index: int = 0, copy: bool = False) -> Any:
        """Host values in a buffer on a device. On the CPU aligned memory is shared unless `copy`: nobody may write to it while
        the buffer is in use."""
        if not isinstance(host, np.ndarray):
            host = np.asarray(host)
        carried = self.carrier(type.dtype)
        if carried is not type.dtype:
            host = host.view(carried)
        # 64-bit dtypes stay, whatever jax's switch says where it is imported too
        aval, sharding, devices = self.aval(type), self.shardings[index], [self.raw_devices[index]]
        raw = self.batched_put(aval, sharding, [host], devices, True, copy, enable_x64=True)
        return raw if type.nbytes <= COPIED_AT_ONCE else raw.block_until_ready()

    def putter(self, type: ArrayType) -> Callable[[np.ndarray[Any, Any]], Any]:
        """`put` for NumPy arrays of one type, on the first device, with all that can be known beforehand known."""
        if type.nbytes > COPIED_AT_ONCE or self.carrier(type.dtype) is not type.dtype:
            return lambda host: self.put(host, type)
        put, aval, sharding, devices = self.batched_put, self.aval(type), self.shardings[0], [self.raw_devices[0]]
        if type.dtype.itemsize > 4:
            return lambda host: put(aval, sharding, [host], devices, True, enable_x64=True)
        return lambda host: put(aval, sharding, [host], devices)

    def borrow(self, type: ArrayType) -> BorrowedBuffer | None:
        host = aligned_empty(type.shape, type.dtype)
        raw = self.put(host, type)
        if self.platform != "cpu" or not host.size or np.asarray(memoryview(raw)).ctypes.data != host.ctypes.data:
            return None
        return BorrowedBuffer(host, raw)

    def memory_stats(self, index: int) -> dict[str, int] | None:
        found = self.raw_devices[index].memory_stats()
        return None if found is None else {name: int(number) for name, number in found.items()}

    def memory_profile(self) -> bytes:
        return bytes(self.client.heap_profile())

    def buffer_of(self, array: Array, index: int) -> Any:
        """The buffer of an Array on a device of this client, made if need be."""
        if not self.later:
            return buffer_of(array, self, index)
        if later_buffer(array) is None:
            array._later = self.put(host_of(array), array.type)
        return array._later

    def source_text(self, program: Program, options: CompileOptions, donated: tuple[bool, ...], located: Naming | None) -> str:
        return self.lower(program, options._replace(native=False), donated, located).text

    def optimized_text(
        self, program: Program, options: CompileOptions, donated: tuple[bool, ...], located: Naming | None
    ) -> str:
        raw = self.translate(self.lower(program, options, donated, located), options)
        return "\n".join(module.to_string() for module in raw.hlo_modules())

    def numbered(self, program: Program, options: CompileOptions) -> tuple[Executable, str]:
        lowered = self.lower(program, options, (), numbered_name)
        there = self if lowered.mesh is None else backend_over(devices_of(lowered.mesh).devices.flat)
        if there.spans:
            raise DeviceError(
                "A program that several processes run together is not profiled: profile what one of them computes."
            )
        there.check_threads()
        jaxlib().prepare_lapack(lowered.text)
        raw = there.translate(lowered, options)
        kind = XlaExecutable if lowered.mesh is None else SpmdExecutable
        text = "\n".join(module.to_string() for module in raw.hlo_modules())
        return kind(there, raw, lowered, program, options, ()), text

    def lower(
        self, program: Program, options: CompileOptions, donated: tuple[bool, ...], located: Naming | None = None
    ) -> Lowered:
        """A Program as a module that takes the inputs that the Program reads: an input costs XLA 0.15 us a call."""
        kept = kept_inputs(program, options, donated)
        given = tuple([donated[i] for i in kept]) if donated else ()
        made = lower_program(program.rearranged(kept), self.platform, given, located, options.native)
        for part in made.parts:
            part.register()
        return made

    def compile(self, program: Program, options: CompileOptions, donated: tuple[bool, ...]) -> Executable:
        lowered = self.lower(program, options, donated)
        there = _asynchronous() if self._may_run_later(program, lowered) else self
        if lowered.mesh is not None:
            there = backend_over(devices_of(lowered.mesh).devices.flat)
        if there.spans:  # all processes run the same code at the same time
            options = options._replace(tiered=False)
        if options.tiered:
            best = options._replace(tiered=False)
            kept = not lowered.callbacks and cache.holds(disk.digest(generation_inputs(there, lowered, best)))
            options = best if kept else options._replace(quick=True)
        return there.executable(lowered, program, options, donated)

    def executable(
        self, lowered: Lowered, program: Program, options: CompileOptions, donated: tuple[bool, ...]
    ) -> XlaExecutable:
        """What XLA makes of a Program's module."""
        self.check_threads()
        if self.spans:
            ranks_over([*devices_of(lowered.mesh).devices.flat])  # type: ignore[arg-type]
        try:
            loaded = self._load(lowered, options)
        except Exception as error:
            ours = {**dict(QUICK if options.quick else ()), **lowered.options}.keys() - dict(options.flags)
            if (missing := _MISSING.search(str(error))) and missing[1] in ours:
                _missing.add(missing[1])
                return self.executable(lowered, program, options, donated)
            if (refusal := self._refusal(error, program, options, donated)) is None:
                raise
            raise refusal from error
        kind = XlaExecutable if lowered.mesh is None else SpmdExecutable
        made = kind(self, loaded, lowered, program, options, donated)
        if self.spans and isinstance(made, SpmdExecutable):
            inputs = generation_inputs(self, lowered, options)
            made.join_peers(disk.digest({name: inputs[name] for name in ("module", "settings", "optimization", "device")}))
        return made

    def _may_run_later(self, program: Program, lowered: Lowered) -> bool:
        """Whether a call of a program may return before it has run: it takes long, and calls no Python function, which could
        fail. Only where there is one device: Arrays on others are told apart by their buffers."""
        if self.platform != "cpu" or lowered.callbacks or placement.several or lowered.mesh is not None:
            return False
        takes = cost(program)
        return takes.work >= LONG_FLOPS or takes.bytes >= LONG_BYTES

    def _refusal(
        self, error: Exception, program: Program, options: CompileOptions, donated: tuple[bool, ...]
    ) -> ProgramError | None:
        """What to say where XLA does not take a line of StableHLO: which lowering rule wrote it, and for which of the user's
        lines. None for another error."""
        said = _REFUSED.search(str(error))
        if said is None:
            return None
        line = self.lower(program, options, donated, name_stack).text.splitlines()[int(said[1]) - 1]
        written, _, place = line.partition(" loc(")
        at = _PLACE.match(place)
        return ProgramError(
            f"XLA does not take the StableHLO that the lowering rule of primitive {at[1]!r} wrote: {said[2]}, in {written!r}."
            f" At {at[2]}:{at[3]}. Correct its `lower` rule, or write `expand` in its place."
            if at
            else f"XLA does not take the StableHLO of this program: {said[2]}, in {written!r}."
        )

    def sharding_of(self, device: Device) -> Any:
        """What says that an array is on one device of this process."""
        return self.shardings[self.devices.index(device)]

    def runs_on(self, lowered: Lowered, options: CompileOptions) -> list[Any]:
        """The devices on which a module runs, as XLA knows them."""
        devices = [options.device] if lowered.mesh is None else devices_of(lowered.mesh).devices.flat
        return [self.raw_of[device] for device in devices]

    def _load(self, lowered: Lowered, options: CompileOptions) -> Any:
        """XLA's executable for a module: from memory, from disk, or compiled now."""
        jaxlib().prepare_lapack(lowered.text)
        if lowered.callbacks:  # it holds Python functions, so it is nobody else's
            return self.translate(lowered, options)
        key = disk.digest(generation_inputs(self, lowered, options))
        return cache.kept(key, lambda: self._make(key, lowered, options))

    def _make(self, key: str, lowered: Lowered, options: CompileOptions) -> Any:
        if self.spans:  # what is read from disk is not known to be made for the same processes
            return self.translate(lowered, options)
        blob = disk.read(key)
        if blob is not None:
            with contextlib.suppress(Exception):  # whatever jaxlib finds wrong with it: it is made again
                made = self.client.deserialize_executable(blob, self.runs_on(lowered, options))
                cache.count("disk_hits")
                return made
        start = time.perf_counter()
        made = self.translate(lowered, options)
        if time.perf_counter() - start >= KEPT_SECONDS and disk.directory() is not None:
            disk.write(key, bytes(self.client.serialize_executable(made)))
        return made

    def translate(self, lowered: Lowered, options: CompileOptions) -> Any:
        """A StableHLO module compiled for its devices, now: XLA's loaded executable."""
        start = time.perf_counter()
        lib, devices = jaxlib(), self.runs_on(lowered, options)
        given = lib.compile_options(xla_flags(self, lowered, options), lowered.extra, devices)
        if lowered.callbacks:  # only this form takes them
            module, placed = lib.parse(lowered.text), lib.jax.DeviceList(tuple(devices))
            made = self.client.compile_and_load(module, placed, given, list(lowered.callbacks))
        else:
            made = self.client.compile_and_load(lowered.text, devices, given)
        cache.count("compiled")
        cache.count("compile_seconds", time.perf_counter() - start)
        return made


def xla_flags(there: XlaBackend, lowered: Lowered, options: CompileOptions) -> tuple[tuple[str, Any], ...]:
    """XLA's options: those of a module, those that ours stand for, and those that the user gave."""
    quick = (QUICK if there.platform == "cpu" else QUICK[:1]) if options.quick else ()
    return (*[own for own in (*lowered.options.items(), *quick) if own[0] not in _missing], *options.flags)


# ---- what an executable depends on ----------------------------------------------------------------------------------------


def generation_inputs(there: XlaBackend, lowered: Lowered, options: CompileOptions) -> dict[str, str]:
    """Everything that the code which XLA generates for a module depends on, by name. Its digest is the executable's key.

    The names of functions and the user's lines are not among it: equal Programs share an executable, which is why what is
    shown of one is made anew (`XlaExecutable.optimized_text`).
    """
    lib = jaxlib()
    return {
        "module": lowered.text.partition("\n")[2],  # without the first line, which holds the function's name
        "settings": repr(sorted(lowered.extra.items())),
        "optimization": repr(xla_flags(there, lowered, options)),
        "device": repr([raw.id for raw in there.runs_on(lowered, options)]),
        "devices": repr(len(there.devices)),
        "platform": there.platform,
        "client": f"{there.client.platform} {there.client.platform_version} {there.client.runtime_type} {there.later}",
        "device kind": str(there.runs_on(lowered, options)[0].device_kind),
        "jaxlib": lib.version,
        "jaxlib build": lib.build,
        "debug options": there.debug_options,
        "environment": repr(lib.environment),
        "processor": processor(),
        "processors": repr(usable_processors()),
    }


# ---- platforms --------------------------------------------------------------------------------------------------------

# Every back end that was ever started, as arrays may still be on it, with the number of its device. By the identity of the
# sharding: its hash is another one once jax has been imported too.
_places: dict[int, tuple[XlaBackend, int]] = {}


# Into how many devices the CPU is divided; None: as the environment says. It is read when the CPU is first needed.
cpu_devices: Inherited[int | None] = Inherited("pullback_cpu_devices", None)


def make_cpu_client(asynchronous: bool = False) -> Any:
    count, given = cpu_devices.default, os.environ.get("PULLBACK_CPU_DEVICES")
    if count is None and given is not None:
        if not given.isdecimal() or int(given) < 1:
            raise ValueError(f"The environment variable PULLBACK_CPU_DEVICES must be a positive integer, not {brief(given)}.")
        count = int(given)
    return jaxlib().client_module.make_cpu_client(asynchronous=asynchronous, num_devices=count)


def register_platform(name: str, make_client: Callable[[], Any]) -> None:
    """Make a platform known for which XLA compiles: `make_client` returns its PJRT client when it is first needed.

    Arguments:
        name: what it is called, as in `pb.devices(name)`.
        make_client: a function without arguments that returns a PJRT client of jaxlib's.

    Example:
        >>> import pullback as pb
        >>> pb.register_platform("imaginary", lambda: None)  # its client is made when it is first used
    """
    register_backend(name, lambda: XlaBackend(name, make_client()))


def backend_of(array: Any) -> XlaBackend:
    """The back end of the devices over which an array is spread."""
    found: XlaBackend = backend_over(array.sharding.devices)
    return found


_starting = threading.RLock()


def _asynchronous() -> XlaBackend:
    """The CPU by a client whose calls return before they have run; started when a program needs it."""
    with _starting:
        while (found := next((there for there, _ in _places.values() if there.later), None)) is None:
            XlaBackend("cpu", make_cpu_client(asynchronous=True), later=True)  # a signal's handler may have made the first one
        return found


register_platform("cpu", make_cpu_client)
array_module.buffer_access = BufferAccess()
