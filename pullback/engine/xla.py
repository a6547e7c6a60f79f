"""XLA through jaxlib: the only module that knows it. Clients, compilation, buffers, serialized executables.

jaxlib is loaded at the first use, by `backend()`, never by `import pullback`. What differs between the versions that are
supported is detected here. A platform other than the CPU is a registration (`register_platform`), not a rewrite.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.core import array as array_module
from pullback.core.array import Array, PlacedArray, aligned_empty, host_of, immutable_memory
from pullback.core.devices import DEFAULT_DEVICE, Device
from pullback.core.dtypes import DType, carrier
from pullback.core.errors import DeviceError, UnsupportedJaxlib
from pullback.core.types import ArrayType

# Up to this many bytes host memory is copied to the CPU device before `put` returns. More is copied in the background (from
# 100 kB on, as seen) unless it is waited for: the caller could write to it meanwhile, and a call that takes it end too late.
COPIED_AT_ONCE = 1 << 15

SUPPORTED_JAXLIB = ((0, 10, 2), (0, 12, 0))  # from the first, up to but not including the second

# Everything of jaxlib that is called here: looked up once, before anything else, so that a jaxlib that lacks one is refused
# by name instead of failing somewhere in the middle.
_CALLED = {
    "jaxlib.xla_client": ("make_cpu_client", "CompileOptions", "HloSharding.replicate"),
    "jaxlib._jax": (
        "GSPMDSharding",
        "DeviceList",
        "DeviceAssignment.create",
        "CompileOptions.ParseFromString",
        "LoadedExecutable.execute_sharded",
        "LoadedExecutable.hlo_modules",
        "Client.compile_and_load",
        "Client.serialize_executable",
        "Client.deserialize_executable",
        "batched_device_put",
        "array_result_handler",
        "config.Config",
        "jax_jit.set_enable_x64_state",
        "jax_jit.set_disable_jit_state",
        "jax_jit.set_post_hook_state",
    ),
}


class Jaxlib:
    """The parts of jaxlib that are used, loaded and checked."""

    def __init__(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # read when jaxlib is loaded: else its clients chatter on stderr
        try:
            self.client_module = importlib.import_module("jaxlib.xla_client")
            self.jax = importlib.import_module("jaxlib._jax")
        except ImportError as error:
            raise UnsupportedJaxlib(
                f"Compiling needs jaxlib, which cannot be imported ({error}): pip install jaxlib."
            ) from error
        self.version = importlib.import_module("jaxlib.version").__version__  # importlib.metadata would take 28 ms
        self._check({"jaxlib.xla_client": self.client_module, "jaxlib._jax": self.jax})
        if "jax" not in sys.modules:
            self._set_global_states()
        # jaxlib 0.11.2 dropped the handler's last argument.
        self._handler_extra = (True,) if "_skip_checks" in (self.jax.array_result_handler.__doc__ or "") else ()
        self.replicated = self.client_module.HloSharding.replicate()

    def _check(self, modules: dict[str, Any]) -> None:
        low, high = SUPPORTED_JAXLIB
        wanted = f"pip install 'jaxlib>={spell(low)},<{spell(high)}'"
        if not low <= parse_version(self.version) < high:
            raise UnsupportedJaxlib(
                f"jaxlib {self.version} is installed, but pullback was tested with {spell(low)} up to (not including)"
                f" {spell(high)}: {wanted}."
            )
        for module, names in _CALLED.items():
            for name in names:
                found = modules[module]
                for part in name.split("."):
                    found = getattr(found, part, None)
                if found is None:
                    raise UnsupportedJaxlib(f"jaxlib {self.version} has no {module}.{name}, which pullback calls: {wanted}.")

    def _set_global_states(self) -> None:
        """Dispatch reads three process-wide states; where jax is imported too, it sets its own, which serve as well."""
        config, jit = self.jax.config.Config, self.jax.jax_jit
        jit.set_enable_x64_state(config("enable_x64", True, include_in_jit_key=True))
        jit.set_disable_jit_state(config("disable_jit", False))
        jit.set_post_hook_state(config("post_hook", None))

    def result_handler(self, aval: Any, sharding: Any) -> Any:
        return self.jax.array_result_handler(aval, sharding, True, *self._handler_extra)

    def compile_options(self, overrides: tuple[tuple[str, Any], ...], extra: tuple[tuple[str, Any], ...], device: Any) -> Any:
        """XLA's options. Its debug options have no Python field by name; their bytes take those named in `extra`.

        Source of the field numbers: CompileOptionsProto.executable_build_options = 3, its debug_options = 3, and there
        xla_backend_extra_options = 500, a map<string, string>.
        """
        options = self.client_module.CompileOptions()
        if extra:
            entries = [_field(500, _field(1, key.encode()) + _field(2, str(value).encode())) for key, value in extra]
            data = options.SerializeAsString() + _field(3, _field(3, b"".join(entries)))
            options = self.jax.CompileOptions.ParseFromString(data)
        if overrides:
            options.env_option_overrides = list(overrides)
        options.device_assignment = self.jax.DeviceAssignment.create(np.array([[device.id]], np.int32))
        return options

    @functools.cached_property
    def _mlir(self) -> tuple[Any, Any]:
        """MLIR's bindings and a context that knows StableHLO."""
        ir = importlib.import_module("jaxlib.mlir.ir")
        stablehlo = importlib.import_module("jaxlib.mlir.dialects.stablehlo")
        registrations = importlib.import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext")
        context, registry = ir.Context(), ir.DialectRegistry()
        registrations.register_dialects(registry)
        context.append_dialect_registry(registry)
        context.load_all_available_dialects()
        stablehlo.register_dialect(context)
        return ir, context

    def parse(self, text: str) -> Any:
        """A StableHLO module as an object of MLIR's: the only form that compiles with host callbacks."""
        with _lock:
            ir, context = self._mlir
            with context, ir.Location.unknown():
                return ir.Module.parse(text)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(number: int, data: bytes) -> bytes:
    """A length-delimited field of a protocol buffer."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def parse_version(text: str) -> tuple[int, ...]:
    """`0.10.2` -> (0, 10, 2); anything after the third number is ignored."""
    numbers = []
    for part in text.split(".")[:3]:
        digits = "".join(letter for letter in part if letter.isdigit())
        numbers.append(int(digits or 0))
    return tuple(numbers)


def spell(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


_jaxlib: Jaxlib | None = None
_lock = threading.RLock()


def jaxlib() -> Jaxlib:
    """jaxlib, loaded now if it was not yet."""
    global _jaxlib
    if _jaxlib is None:
        with _lock:
            if _jaxlib is None:
                _jaxlib = Jaxlib()
    return _jaxlib


class Aval:
    """What jaxlib wants to know of an array: any object with these three attributes."""

    __slots__ = ("dtype", "shape", "weak_type")

    def __init__(self, type: ArrayType, dtype: DType) -> None:
        self.shape = type.shape
        self.dtype = dtype
        self.weak_type = False


class BufferAccess:
    """How `core.array` reaches values that lie in device buffers (jaxlib's array objects)."""

    def to_host(self, raw: Any, type: ArrayType) -> np.ndarray[Any, Any]:
        """The values as NumPy sees them: the same memory on the CPU, a copy elsewhere."""
        if type.size == 0:
            return np.empty(type.shape, type.dtype)
        if raw.platform() != "cpu":
            return np.asarray(raw._single_device_array_to_np_array_did_copy()[0])
        seen = np.asarray(memoryview(raw))
        return seen if seen.dtype is type.dtype else seen.view(type.dtype)

    def device_of(self, raw: Any) -> Device:
        return _device_of_sharding[id(raw._sharding)]


class Loan(NamedTuple):
    """Host memory and the device buffer that shares it: what is written to the one is read from the other.

    A small NumPy argument of a compiled call is copied into one that is kept for it, which takes a tenth of the time that
    making a buffer takes. It is lent to one call at a time, which has ended, and read it, before it is lent again.
    """

    host: np.ndarray[Any, Any]
    raw: Any


class Backend:
    """One platform's client and devices."""

    def __init__(self, platform: str, client: Any) -> None:
        lib = jaxlib()
        self.platform = platform
        self.client = client
        self.version = f"{lib.version} {client.platform} {client.platform_version}"
        self.raw_devices = client.local_devices()
        self.devices = [Device(platform, raw.id) for raw in self.raw_devices]
        self.shardings = [lib.jax.GSPMDSharding(lib.jax.DeviceList((raw,)), lib.replicated) for raw in self.raw_devices]
        _device_of_sharding.update(zip(map(id, self.shardings), self.devices, strict=True))
        self._batched_put = lib.jax.batched_device_put
        immutable_memory.add(lib.jax.ArrayImpl)
        self._avals: dict[ArrayType, Aval] = {}
        self._handlers: dict[tuple[ArrayType, int], Any] = {}

    def aval(self, type: ArrayType) -> Aval:
        try:
            return self._avals[type]
        except KeyError:
            return self._avals.setdefault(type, Aval(type, self.carrier(type.dtype)))

    def carrier(self, dtype: DType) -> DType:
        """The dtype of this platform's buffers for values of a dtype."""
        return carrier(dtype) if self.platform == "cpu" else dtype

    def handler(self, type: ArrayType, index: int) -> Any:
        """What makes an array object of an executable's result."""
        key = (type, index)
        if key not in self._handlers:
            self._handlers[key] = jaxlib().result_handler(self.aval(type), self.shardings[index])
        return self._handlers[key]

    def put(self, host: np.ndarray[Any, Any] | np.generic, type: ArrayType, index: int = 0, copy: bool = False) -> Any:
        """Host values in a buffer on a device. On the CPU aligned memory is shared unless `copy`: nobody may write to it while
        the buffer is in use."""
        if not isinstance(host, np.ndarray):
            host = np.asarray(host)
        carried = self.carrier(type.dtype)
        if carried is not type.dtype:
            host = host.view(carried)
        raw = self._batched_put(
            self.aval(type),
            self.shardings[index],
            [host],
            [self.raw_devices[index]],
            True,
            copy,
            enable_x64=True,  # 64-bit dtypes stay, whatever jax's switch says where it is imported too
        )
        return raw if type.nbytes <= COPIED_AT_ONCE else raw.block_until_ready()

    def putter(self, type: ArrayType) -> Callable[[np.ndarray[Any, Any]], Any]:
        """`put` for NumPy arrays of one type, on the first device, with all that can be known beforehand known."""
        if type.nbytes > COPIED_AT_ONCE or self.carrier(type.dtype) is not type.dtype:
            return lambda host: self.put(host, type)
        put, aval, sharding, devices = self._batched_put, self.aval(type), self.shardings[0], [self.raw_devices[0]]
        if type.dtype.itemsize > 4:
            return lambda host: put(aval, sharding, [host], devices, True, enable_x64=True)
        return lambda host: put(aval, sharding, [host], devices)

    def lend(self, type: ArrayType) -> Loan | None:
        """A buffer on the first device that shares host memory to write to; None where the device has its own memory."""
        host = aligned_empty(type.shape, type.dtype)
        raw = self.put(host, type)
        if self.platform != "cpu" or not host.size or np.asarray(memoryview(raw)).ctypes.data != host.ctypes.data:
            return None
        return Loan(host, raw)

    def compile(
        self, text: str, index: int = 0, callbacks: Sequence[Callable[..., Any]] = (), quick: bool = False, **extra: Any
    ) -> Any:
        """A StableHLO module compiled for one device: XLA's loaded executable.

        Arguments:
            callbacks: Python functions that the module calls. quick: at a low optimization level.
            extra: XLA's debug options for this platform, by name.
        """
        lib, device = jaxlib(), self.raw_devices[index]
        overrides = (("xla_backend_optimization_level", 0),) if quick else ()
        options = lib.compile_options(overrides, tuple(extra.items()), device)
        if callbacks:
            return self.client.compile_and_load(lib.parse(text), lib.jax.DeviceList((device,)), options, list(callbacks))
        return self.client.compile_and_load(text, [device], options)

    def serialize(self, raw: Any) -> bytes:
        """A loaded executable as bytes that `deserialize` takes in a process with the same jaxlib, on a like machine."""
        return bytes(self.client.serialize_executable(raw))

    def deserialize(self, blob: bytes, index: int = 0) -> Any:
        return self.client.deserialize_executable(blob, [self.raw_devices[index]])


# ---- platforms --------------------------------------------------------------------------------------------------------

# By the identity of the sharding, which the backend keeps: its hash is another one once jax has been imported too.
_device_of_sharding: dict[int, Device] = {}
_backends: dict[str, Backend] = {}
_kept: list[Backend] = []  # all that were ever started: arrays may still be on them


def _make_cpu_client() -> Any:
    # Synchronous: two to three times faster on small graphs, and what a call reads is not needed after it returns.
    count = os.environ.get("PULLBACK_CPU_DEVICES", "1")
    if not count.isdigit() or int(count) < 1:
        raise ValueError(f"The environment variable PULLBACK_CPU_DEVICES must be a positive integer, not {count!r}.")
    return jaxlib().client_module.make_cpu_client(asynchronous=False, num_devices=int(count))


_platforms: dict[str, Callable[[], Any]] = {"cpu": _make_cpu_client}


def register_platform(name: str, make_client: Callable[[], Any]) -> None:
    """Make a platform known: `make_client` returns its PJRT client when it is first needed."""
    _platforms[name] = make_client


def platforms() -> list[str]:
    """The platforms that are known, started or not."""
    return list(_platforms)


def backend(platform: str = "cpu") -> Backend:
    """A platform's backend, started now if it was not yet.

    Raises:
        DeviceError: there is no such platform.
    """
    try:
        return _backends[platform]
    except KeyError:
        pass
    if platform not in _platforms:
        raise DeviceError(f"There is no platform {platform!r}; known are {', '.join(map(repr, _platforms))}.")
    with _lock:
        if platform not in _backends:
            _backends[platform] = made = Backend(platform, _platforms[platform]())
            _kept.append(made)
            placement.several = len(_backends) > 1 or len(made.devices) > 1
    return _backends[platform]


def make_plugin_client(name: str, library: str) -> Any:
    """The PJRT client of a plugin, given the path of its shared library."""
    lib = jaxlib()
    if not lib.jax.pjrt_plugin_loaded(name):
        lib.jax.load_pjrt_plugin(name, library, None)
    if not lib.jax.pjrt_plugin_initialized(name):
        lib.jax.initialize_pjrt_plugin(name)
    return lib.client_module.make_c_api_client(name, {}, None)


class _Placement:
    """Whether there is any choice of where to compute: only then do calls look at where their arguments are."""

    several = False


placement = _Placement()

array_module.buffer_access = BufferAccess()


# ---- executables ------------------------------------------------------------------------------------------------------


class Executable:
    """A compiled Program. Calling it takes and returns Arrays; their types must be those it was compiled for.

    XLA checks nothing of what it is given: whoever calls must have compared the types with `input_types`.
    """

    __slots__ = (
        "_execute",
        "backend",
        "constants",
        "donated",
        "failures",
        "handlers",
        "index",
        "input_types",
        "output_types",
        "raw",
        "result_class",
        "text",
        "watched",
    )

    def __init__(
        self,
        backend: Backend,
        raw: Any,
        text: str,
        input_types: tuple[ArrayType, ...],
        output_types: tuple[ArrayType, ...],
        constants: Sequence[Array] = (),
        donated: Sequence[int] = (),
        index: int = 0,
        committed: bool = False,
        failures: list[BaseException] | None = None,
        calls_host: bool = False,
    ) -> None:
        self.backend = backend
        self.raw = raw
        self.text = text
        self.input_types = input_types
        self.output_types = output_types
        self.index = index
        self.donated = tuple(donated)
        self.constants = [buffer_of(array, backend, index) for array in constants]
        self.handlers = [backend.handler(type, index) for type in output_types]
        self.result_class = PlacedArray if committed else Array
        self.failures = failures if failures is not None else []
        self.watched = calls_host
        self._execute = raw.execute_sharded

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """Run on Arrays."""
        if self.donated:
            return self._call_donating(arrays)
        if placement.several:
            return self.run([buffer_of(array, self.backend, self.index) for array in arrays])
        return self.run([b if (b := a._buffer) is not None else buffer_of(a, self.backend, self.index) for a in arrays])

    def run(self, buffers: list[Any]) -> list[Array]:
        """Run on device buffers."""
        if self.constants:
            buffers = [*self.constants, *buffers]
        try:
            outs = self._execute(buffers).consume_with_handlers(self.handlers)
        except Exception:
            if self.failures:
                raise self.failures.pop() from None
            raise
        made = self.result_class
        return [made(type, None, out) for type, out in zip(self.output_types, outs)]

    def single_runner(self) -> Callable[[list[Any]], Array]:
        """`run` for an executable with one result."""
        if self.constants or self.watched:
            return lambda buffers: self.run(buffers)[0]
        execute, handlers, made, (type,) = self._execute, self.handlers, self.result_class, self.output_types

        new = object.__new__

        def run(buffers: list[Any]) -> Array:
            array = new(made)  # without `__init__`, which takes as long again
            array.type = type
            array._host = None
            array._buffer = execute(buffers).consume_with_handlers(handlers)[0]
            return array

        return run

    def _call_donating(self, arrays: Sequence[Array]) -> list[Array]:
        """Run, giving away the memory of donated Arrays, which nobody can use afterwards.

        XLA will write to that memory, so an Array gives its own only if nothing else can see it: no host array, no other
        Array, no constant. Otherwise it gives a copy.
        """
        given = set(self.donated)
        buffers = []
        for i, array in enumerate(arrays):
            if i not in given:
                buffers.append(buffer_of(array, self.backend, self.index))
                continue
            once = sum([other is array for other in arrays]) == 1
            if array._host is None and once and sys.getrefcount(array._buffer) <= 2:  # the Array's reference, and this call's
                buffers.append(array._buffer)
            else:
                buffers.append(self.backend.put(host_of(array), array.type, self.index, copy=True))
        try:
            outs = self.run(buffers)
        finally:
            for i in given:
                arrays[i].delete()
        return outs

    def optimized_text(self) -> str:
        """The program after XLA's optimizations, as HLO text."""
        return "\n".join(module.to_string() for module in self.raw.hlo_modules())

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate of the work."""
        return dict(self.raw.cost_analysis())

    def memory_analysis(self) -> dict[str, int]:
        """XLA's account of memory: what it calls `..._in_bytes`, by name."""
        stats = self.raw.get_compiled_memory_stats()
        names = [name for name in dir(stats) if name.endswith("_in_bytes")]
        return {name: int(getattr(stats, name)) for name in names}


def buffer_of(array: Array, where: Backend | None = None, index: int = 0) -> Any:
    """The buffer of an Array on a device, made from its host values if need be. An Array that has none yet keeps it."""
    there = backend() if where is None else where
    buffer = array._buffer
    if buffer is None:
        buffer = there.put(host_of(array), array.type, index)
        if there.devices[index] == DEFAULT_DEVICE:  # elsewhere it would decide where the array seems to be
            array._buffer = buffer
    elif placement.several and array.device != there.devices[index]:
        buffer = there.put(host_of(array), array.type, index, copy=True)
    return buffer
