"""What a back end is: it compiles Programs for the devices of one platform, holds arrays there, and explains what it made.

`engine/xla.py` is one. Another one implements these two classes and registers itself; nothing else needs to know it.
"""

from __future__ import annotations

import os
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from pullback.core.array import Array, ShardedArray, host_of
from pullback.core.devices import DEFAULT_DEVICE, Device, processes
from pullback.core.errors import DeviceError, NotLocal
from pullback.core.meshes import place_of
from pullback.core.source import Source
from pullback.core.types import ArrayType
from pullback.program.program import Program
from pullback.program.provenance import Naming


class CompileOptions(NamedTuple):
    """How to compile a Program.

    Attributes:
        device: the device to compile for.
        committed: whether results must stay on that device; else they may go where other arguments are.
        quick: sooner done, slower to run. tiered: quick, unless the best code is there already; `tiers.py` has it made later.
        show_graph: print the StableHLO and the optimized program when they are made.
        flags: options of the back end's own, with their values.
        keep_unused: give the compiled program inputs that it does not read, too. native: whether another tier may run it.
    """

    device: Device = DEFAULT_DEVICE
    committed: bool = False
    quick: bool = False
    tiered: bool = False
    show_graph: bool = False
    flags: tuple[tuple[str, Any], ...] = ()
    native: bool = True
    keep_unused: bool = False


DEFAULT_OPTIONS = CompileOptions()


class Executable(ABC):
    """A compiled Program. Whoever runs it has compared the types of the arguments with those it was compiled for.

    Attributes:
        result_class: of which class the Arrays are that it returns: whether they must stay where they are.
        copies: whether it may read its arguments after other Python code has run, so that memory that others can write to is
            to be copied: a call may return before it has run, or calls Python functions.
        kept: the numbers of the inputs whose buffers it takes, where it does not read the others; None if it takes all.
        installs: whether calls of a function can reach it by themselves, without Python in between.
        quick: whether it was compiled quickly, so that there may be a better one.
        spread: whether it runs on the devices of a mesh.
    """

    __slots__ = ("copies", "result_class")
    copies: bool
    result_class: type[Array]
    kept: Sequence[int] | None = None
    installs = False
    quick = False
    spread = False

    @abstractmethod
    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """Run on Arrays, wherever their values are."""

    @abstractmethod
    def runner(self) -> Callable[[list[Any]], Sequence[Any]] | None:
        """What runs it on buffers of its own device, those that it keeps, and returns buffers: for calls of which all else is
        known beforehand. In the places of donated arguments it takes Arrays. None if it is to be called on Arrays only."""

    def inlined(self) -> tuple[str, dict[str, Any]] | None:
        """What `runner` returns, applied to a list called `buffers`: the source of an expression, and what its names mean. One
        call of a Python function less."""
        run = self.runner()
        return None if run is None else ("run(buffers)", {"run": run})

    def install(self, into: Any, makes_tuple: bool, calls: Any = None) -> bool:
        """Let calls of a function with flat arguments, those of this executable, reach it by themselves; False if they cannot.

        Arguments:
            into: the function, a `native.entry.NativeCallable`.
            makes_tuple: whether the function returns the tuple of the results; else it returns the one that there is.
            calls: a word of memory, as a NumPy array, in which each such call is counted.
        """
        return False

    def call_or(self, otherwise: Any, calls: Any = None) -> Callable[..., Any] | None:
        """What runs it on leaves as users pass them, and returns a tuple of Arrays, or `otherwise` if they are of other types.
        None if it runs on Arrays and buffers only. Each call is counted in `calls`, as by `install`."""
        return None

    def best(self) -> Executable:
        """The best executable of the same Program, where this one is `quick`: compiled now."""
        return self

    @abstractmethod
    def optimized_text(self) -> str:
        """The program as the back end has optimized it, with the names and the lines of the function it was made from."""

    @abstractmethod
    def cost_analysis(self) -> dict[str, float]:
        """The back end's estimate of the work: `flops`, `bytes accessed`, ..."""

    @abstractmethod
    def memory_analysis(self) -> dict[str, int]:
        """The back end's account of memory in bytes, by name."""


class Relay(Executable):
    """Runs other executables, and answers as one of them does.

    Attributes:
        shown: that one.
    """

    __slots__ = ("shown",)

    def __init__(self, shown: Executable) -> None:
        self.shown = shown
        self.copies, self.result_class = shown.copies, shown.result_class

    def runner(self) -> None:
        return None

    def optimized_text(self) -> str:
        return self.shown.optimized_text()

    def cost_analysis(self) -> dict[str, float]:
        return self.shown.cost_analysis()

    def memory_analysis(self) -> dict[str, int]:
        return self.shown.memory_analysis()


class BorrowedBuffer(NamedTuple):
    """Host memory and the device buffer that shares it: what is written to the one is read from the other.

    A small NumPy argument of a compiled call is copied into one that is kept for it, which takes a tenth of the time that
    making a buffer takes. It is in use by one call at a time, which has ended, and read it, before the next one gets it.
    """

    host: np.ndarray[Any, Any]
    raw: Any


class Backend(ABC):
    """One platform: its devices, and what compiles for them.

    Attributes:
        platform: its name. devices: its devices, in order.
    """

    platform: str
    devices: list[Device]

    @abstractmethod
    def compile(self, program: Program, options: CompileOptions, donated: tuple[bool, ...]) -> Executable:
        """A Program compiled for one device; the memory of `donated` arguments may be reused for its results."""

    @abstractmethod
    def source_text(self, program: Program, options: CompileOptions, donated: tuple[bool, ...], located: Naming | None) -> str:
        """What is compiled for a Program, as text; if `located`, with the user's lines, and operations named by it."""

    def numbered(self, program: Program, options: CompileOptions) -> tuple[Executable, str]:
        """A Program compiled now, and kept nowhere, to be profiled: its operations bear the ids of equations, as in the text of
        what the compiler made. Raises `DeviceError` of a back end that has no profiler."""
        raise DeviceError(f"Platform {self.platform!r} does not say what its operations come from. Profile on the CPU.")

    @abstractmethod
    def put(self, host: np.ndarray[Any, Any] | np.generic, type: ArrayType, index: int = 0, copy: bool = False) -> Any:
        """Host values in a buffer on a device. Memory may be shared unless `copy`: nobody may write to it while the buffer is
        in use."""

    def memory_stats(self, index: int) -> dict[str, int] | None:
        """How much of a device's memory is in use, and what else the platform counts; None if it does not."""
        return None

    def memory_profile(self) -> bytes:
        """What the memory of the devices holds, as pprof reads it. Raises `DeviceError` if the platform does not know."""
        raise DeviceError(
            f"Platform {self.platform!r} does not say what its memory holds. Call memory_stats of its devices for what is in"
            " use."
        )

    def putter(self, type: ArrayType) -> Callable[[np.ndarray[Any, Any]], Any]:
        """`put` for NumPy arrays of one type, on the first device, with all that can be known beforehand known."""
        return lambda host: self.put(host, type)

    def borrow(self, type: ArrayType) -> BorrowedBuffer | None:
        """A buffer on the first device that shares host memory to write to; None where the device has its own memory."""
        return None


class Part(NamedTuple):
    """An operation as machine code that XLA calls.

    Attributes:
        target: the name by which XLA knows the code, once it is registered. It says all that the code is.
        register: compiles the code and registers it, where that has not been done; before a program that calls it is compiled.
        constants: arrays that it takes after its operands. workspace: how many bytes of memory it wants for itself.
    """

    target: str
    register: Callable[[], None]
    constants: tuple[np.ndarray[Any, Any], ...]
    workspace: int


Compile = Callable[[Program, CompileOptions, tuple[bool, ...]], Executable | None]


class _Preferred:
    """What compiles before the back end of the CPU is asked.

    Attributes:
        compile: returns None for Programs that it leaves to the back end. key: what its choice depends on besides the Program.
        grouped, part: of a Program that the back end compiles, to run it in this process: it is what `grouped` makes of it, and
            of each loop or group in it, as a Program, `part` says what the back end is to call instead, or returns None.
    """

    compile: Compile | None = None
    key: Callable[[], Any] = staticmethod(lambda: None)
    grouped: Callable[[Program], Program] = staticmethod(lambda program: program)
    part: Callable[[Program], Part | None] = staticmethod(lambda program: None)


preferred = _Preferred()


# ---- platforms --------------------------------------------------------------------------------------------------------

_platforms: dict[str, Callable[[], Backend]] = {}
_backends: dict[str, Backend] = {}
_lock = threading.RLock()


# Where what is on no device in particular is computed, as the environment says when pullback is imported.
DEFAULT_PLATFORM = os.environ.get("PULLBACK_PLATFORM") or DEFAULT_DEVICE.platform


class _Placement:
    """Whether there is any choice of where to compute: only then do calls look at where their arguments are."""

    __slots__ = ("several",)  # which machine code reads, too

    def __init__(self) -> None:
        self.several = DEFAULT_DEVICE.platform != DEFAULT_PLATFORM


placement = _Placement()


class JointCall(NamedTuple):
    """A call of a program that several processes run together.

    Attributes:
        program: its name, types and digest, in words. digest: of its code. ranks: of the processes.
        exchanges: whether they exchange values in it, so that none ends it before all have begun it.
        values: of the arguments that each process brings by itself, the types and digests of their values.
        source: the user's line that called it.
    """

    program: str
    digest: bytes
    ranks: tuple[int, ...]
    exchanges: bool
    values: tuple[tuple[str, bytes], ...]
    source: Source | None


class Peers(Protocol):
    """The other processes, as what computes with them knows them."""

    def agree_among(self, subject: str, value: str, among: Sequence[int]) -> None:
        """Raise `ProgramsDiffer` if not all of some processes say the same of a subject."""

    def begin(self, call: JointCall, meanwhile: Callable[[], None]) -> None:
        """Return when all processes of a call are about to make the same one, before which `meanwhile` is called here; raise
        `ProgramsDiffer` if they make another one. Calls that exchange nothing are compared when the next one does."""

    def failures(self, call: JointCall, own: str) -> str:
        """How Python functions failed that a program has called, by process, given how those of this one did; empty if none."""

    def check_waiting(self, what: str) -> None:
        """Raise if what is waited for, which is given by name, needs a process that is lost."""

    def check_begun(self) -> None:
        """Raise `TimeoutError` if a call waits for processes that make it for longer than it may."""


class _Spanning:
    """What computes on the devices of several processes.

    Attributes:
        backend: None where this process is alone. peers: the other processes.
    """

    backend: Any = None
    peers: Peers


spanning = _Spanning()


class _Plugins:
    """How platforms are found that are not known yet (`plugins.py` says it): makes one known, if its plugin is installed."""

    look_for: Callable[[str], None]


plugins = _Plugins()


def ranks_over(devices: Sequence[Device]) -> tuple[int, ...]:
    """The processes that have a part in a computation over devices.

    Raises:
        NotLocal: this process has none.
    """
    ranks = tuple(sorted({device.process_index for device in devices}))
    if processes.index not in ranks:
        raise NotLocal(
            f"No device of {place_of(devices)} belongs to this process, which is number {processes.index}. Make the mesh of"
            " devices of all processes that run the program."
        )
    return ranks


def register_backend(platform: str, make: Callable[[], Backend]) -> None:
    """Make a platform known: `make` returns its back end when it is first needed."""
    _platforms[platform] = make


def platforms() -> list[str]:
    """The platforms that are known, started or not."""
    return list(_platforms)


def is_started(platform: str) -> bool:
    """Whether a platform's devices have been asked for."""
    return platform in _backends


def backend(platform: str = "cpu") -> Backend:
    """A platform's back end, started now if it was not yet.

    Raises:
        DeviceError: there is no such platform. PluginMissing: its plugin is not installed. NoDevices: it has no device.
    """
    try:
        return _backends[platform]
    except KeyError:
        pass
    if platform not in _platforms:
        plugins.look_for(platform)
    if platform not in _platforms:
        raise DeviceError(f"There is no platform {platform!r}; known are {', '.join(map(repr, _platforms))}.")
    with _lock:
        if platform not in _backends:
            if not _backends:
                os.register_at_fork(before=_warn_of_fork)
            made = _platforms[platform]()
            made = _backends.setdefault(platform, made)  # a signal's handler may have needed it meanwhile
            placement.several |= len(_backends) > 1 or made.devices != [DEFAULT_DEVICE]
    return _backends[platform]


def backend_over(devices: Sequence[Device]) -> Any:
    """The back end of arrays that are spread over these devices."""
    across, platform = spanning.backend, devices[0].platform
    if across is not None and across.platform == platform and not all([device.is_local for device in devices]):
        return across
    return backend(platform)


def buffer_of(array: Array, where: Backend | None = None, index: int = 0) -> Any:
    """The buffer of an Array on a device, made from its host values if need be. An Array that has none yet keeps it."""
    if isinstance(array, ShardedArray):
        raise ValueError(
            f"An array that lies as {array.placed_type} has no buffer of one device. Move it to one with pb.device_put, or take"
            " one of its addressable_shards."
        )
    there = backend() if where is None else where
    buffer = array._buffer
    if buffer is None:
        buffer = there.put(host_of(array), array.type, index)
        if there.devices[index] == DEFAULT_DEVICE:  # elsewhere it would decide where the array seems to be
            array._buffer = buffer
    elif placement.several and array.device != there.devices[index]:
        buffer = there.put(host_of(array), array.type, index, copy=True)
    return buffer


def _warn_of_fork() -> None:
    warnings.warn(
        "This process forks after pullback has compiled something. XLA's threads do not exist in the child, where compiled"
        " functions can hang; start processes with multiprocessing's 'spawn' or 'forkserver' instead, or fork before the first"
        " compilation.",
        RuntimeWarning,
        stacklevel=3,
    )
