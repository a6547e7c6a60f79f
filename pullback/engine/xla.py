"""XLA through jaxlib: the only module that knows it. Clients, compilation, buffers, serialized executables.

jaxlib is loaded at the first use, by `backend()`, never by `import pullback`. What differs between the versions that are
supported is detected here. A platform other than the CPU is a registration (`register_platform`), not a rewrite.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core import array as array_module
from pullback.core.array import Array
from pullback.core.devices import Device
from pullback.core.errors import UnsupportedJaxlib
from pullback.core.types import ArrayType

SUPPORTED_JAXLIB = ((0, 10, 2), (0, 12, 0))  # from the first, up to but not including the second
ALIGNMENT = 64  # bytes: host memory so aligned goes to the CPU device without a copy


class Jaxlib:
    """The parts of jaxlib that are used, loaded and checked."""

    def __init__(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # read when jaxlib is loaded: else its clients chatter on stderr
        try:
            self.client_module = importlib.import_module("jaxlib.xla_client")
            self.jax = importlib.import_module("jaxlib._jax")
        except ImportError as error:
            raise UnsupportedJaxlib(f"Compiling needs jaxlib, which cannot be imported ({error}): pip install jaxlib.") from error
        self.version = importlib.metadata.version("jaxlib")
        low, high = SUPPORTED_JAXLIB
        if not low <= parse_version(self.version) < high:
            raise UnsupportedJaxlib(
                f"jaxlib {self.version} is installed, but pullback was tested with {spell(low)} up to (not including)"
                f" {spell(high)}: pip install 'jaxlib>={spell(low)},<{spell(high)}'."
            )
        self._set_global_states()
        # jaxlib 0.11.2 dropped the handler's last argument.
        self._handler_extra = (True,) if "_skip_checks" in (self.jax.array_result_handler.__doc__ or "") else ()
        self.replicated = self.client_module.HloSharding.replicate()

    def _set_global_states(self) -> None:
        """Dispatch reads three process-wide states; where jax is imported too, it has set its own, which serve as well."""
        config, jit = self.jax.config.Config, self.jax.jax_jit
        jit.set_enable_x64_state(config("enable_x64", True, include_in_jit_key=True))
        jit.set_disable_jit_state(config("disable_jit", False))
        jit.set_post_hook_state(config("post_hook", None))

    def result_handler(self, aval: Any, sharding: Any) -> Any:
        return self.jax.array_result_handler(aval, sharding, True, *self._handler_extra)


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

    def __init__(self, type: ArrayType) -> None:
        self.shape = type.shape
        self.dtype = type.dtype
        self.weak_type = False


class _Window:
    """A device buffer's memory, described so that NumPy can look at it; keeps the buffer alive."""

    def __init__(self, raw: Any, shape: tuple[int, ...], typestr: str) -> None:
        self.raw = raw
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": typestr, "data": (raw.unsafe_buffer_pointer(), True)}


class BufferAccess:
    """How `core.array` reaches values that lie in device buffers (jaxlib's array objects)."""

    def to_host(self, raw: Any, type: ArrayType) -> np.ndarray[Any, Any]:
        """The values as NumPy sees them: the same memory on the CPU, a copy elsewhere."""
        if type.size == 0:
            return np.empty(type.shape, type.dtype)
        if raw.platform() != "cpu":
            return np.asarray(raw._single_device_array_to_np_array_did_copy()[0])
        if type.dtype.kind != "V":
            return np.asarray(memoryview(raw))
        # bfloat16 and the float8 kinds have no buffer protocol: look at integers of the same width
        return np.asarray(_Window(raw, type.shape, f"<u{type.dtype.itemsize}")).view(type.dtype)

    def device_of(self, raw: Any) -> Device:
        return _device_of_sharding[raw._sharding]


class Backend:
    """One platform's client and devices."""

    def __init__(self, platform: str, client: Any) -> None:
        lib = jaxlib()
        self.platform = platform
        self.client = client
        self.raw_devices = client.local_devices()
        self.devices = [Device(platform, raw.id) for raw in self.raw_devices]
        self.shardings = [
            lib.jax.GSPMDSharding(lib.jax.DeviceList((raw,)), lib.replicated) for raw in self.raw_devices
        ]
        _device_of_sharding.update(zip(self.shardings, self.devices, strict=True))
        self._avals: dict[ArrayType, Aval] = {}
        self._handlers: dict[tuple[ArrayType, int], Any] = {}

    def aval(self, type: ArrayType) -> Aval:
        try:
            return self._avals[type]
        except KeyError:
            return self._avals.setdefault(type, Aval(type))

    def handler(self, type: ArrayType, index: int) -> Any:
        """What makes an array object of an executable's result."""
        key = (type, index)
        if key not in self._handlers:
            self._handlers[key] = jaxlib().result_handler(self.aval(type), self.shardings[index])
        return self._handlers[key]

    def put(self, host: np.ndarray[Any, Any] | np.generic, type: ArrayType, index: int = 0) -> Any:
        """Host values in a buffer on a device. On the CPU aligned memory is shared, so nobody may write to it later."""
        return jaxlib().jax.batched_device_put(
            self.aval(type), self.shardings[index], [np.asarray(host)], [self.raw_devices[index]], True
        )

    def compile(self, text: str, index: int = 0, options: Any = None) -> Any:
        """A StableHLO module compiled for one device: XLA's loaded executable."""
        return self.client.compile_and_load(text, [self.raw_devices[index]], options or jaxlib().client_module.CompileOptions())


_device_of_sharding: dict[Any, Device] = {}
_backends: dict[str, Backend] = {}


def _make_cpu_client() -> Any:
    # Synchronous: two to three times faster on small graphs, and what a call reads is not needed after it returns.
    return jaxlib().client_module.make_cpu_client(asynchronous=False)


_platforms: dict[str, Callable[[], Any]] = {"cpu": _make_cpu_client}


def register_platform(name: str, make_client: Callable[[], Any]) -> None:
    """Make a platform known: `make_client` returns its PJRT client when it is first needed."""
    _platforms[name] = make_client


def backend(platform: str = "cpu") -> Backend:
    """A platform's backend, started now if it was not yet."""
    try:
        return _backends[platform]
    except KeyError:
        pass
    if platform not in _platforms:
        raise ValueError(f"There is no platform {platform!r}; known are {', '.join(map(repr, _platforms))}.")
    with _lock:
        if platform not in _backends:
            _backends[platform] = Backend(platform, _platforms[platform]())
    return _backends[platform]


array_module.buffer_access = BufferAccess()


class Executable:
    """A compiled Program. Calling it takes and returns Arrays; their types must be those it was compiled for."""

    __slots__ = ("_execute", "backend", "constants", "donated", "handlers", "index", "input_types", "output_types", "raw", "text")

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
        self._execute = raw.execute_sharded

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """Run on Arrays whose types the caller has checked against `input_types`."""
        buffers = [*self.constants] if self.constants else []
        for array in arrays:
            buffer = array._buffer
            buffers.append(buffer if buffer is not None else buffer_of(array, self.backend, self.index))
        outs = self._execute(buffers).consume_with_handlers(self.handlers)
        return [Array(type, None, out) for type, out in zip(self.output_types, outs)]


def buffer_of(array: Array, backend: Backend, index: int = 0) -> Any:
    """The device buffer of an Array, made from its host values if need be, and kept with it."""
    if array._buffer is None:
        array._buffer = backend.put(array.host, array.type, index)
    return array._buffer
