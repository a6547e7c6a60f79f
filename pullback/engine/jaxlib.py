"""jaxlib: the only module that loads it, and checks that it is one that is known. Versions differ here and nowhere else."""

from __future__ import annotations

import ctypes
import functools
import gc
import importlib
import importlib.util
import operator
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pullback.core.errors import UnsupportedJaxlib
from pullback.core.lazy import uninterrupted

SUPPORTED_JAXLIB = ((0, 10, 2), (0, 12, 0))  # from the first, up to but not including the second

# Everything of jaxlib that is called here: looked up once, before anything else, so that a jaxlib that lacks one is refused
# by name instead of failing somewhere in the middle.
_CALLED = {
    "jaxlib.xla_client": (
        "make_cpu_client",
        "CompileOptions",
        "HloSharding.replicate",
        "HloSharding.iota_tile",
        "HloSharding.from_proto",
        "OpSharding.Type.REPLICATED",
        "register_custom_call_target",
    ),
    "jaxlib._jax": (
        "GSPMDSharding",
        "DeviceList",
        "DeviceAssignment.create",
        "CompileOptions.ParseFromString",
        "LoadedExecutable.execute_sharded",
        "LoadedExecutable.hlo_modules",
        "LoadedExecutable.get_output_shardings",
        "ArrayImpl",
        "Client.compile_and_load",
        "Client.serialize_executable",
        "Client.deserialize_executable",
        "batched_device_put",
        "array_result_handler",
        "get_distributed_runtime_service",
        "get_distributed_runtime_client",
        "make_gloo_tcp_collectives",
        "collect_garbage",
        "set_tracebacks_enabled",
        "mlir.mlir_module_to_xla_computation",
        "config.Config",
        "jax_jit.set_enable_x64_state",
        "jax_jit.set_disable_jit_state",
        "jax_jit.set_post_hook_state",
    ),
}

# The same for plugins, looked up when one is loaded.
_CALLED_FOR_PLUGINS = {
    "jaxlib.xla_client": (
        "register_custom_call_handler",
        "register_custom_type",
        "register_custom_type_handler",
        "make_c_api_client",
        "make_c_api_device_topology",
    ),
    "jaxlib._jax": (
        "load_pjrt_plugin",
        "initialize_pjrt_plugin",
        "pjrt_plugin_initialized",
        "pjrt_plugin_loaded",
        "DeviceTopology._make_compile_only_devices",
    ),
}

# Options of a compilation that are fields of its own, and not among the flags that XLA_FLAGS has.
_EFFORTS = ("exec_time_optimization_effort", "memory_fitting_effort", "memory_fitting_level", "optimization_level")

# Environment variables that XLA, LLVM and their thread pools read when they start, by the beginnings of their names.
_READ_AT_START = ("XLA_", "TF_XLA_", "TF_ENABLE_", "LIBTPU_", "LLVM_", "NPROC", "OMP_NUM_THREADS")


class Jaxlib:
    """The parts of jaxlib that are used, loaded and checked.

    Attributes:
        version: its version. build: which build of that version it is. environment: the variables that XLA read at its start.
    """

    def __init__(self) -> None:
        _quiet()
        self.environment = {name: value for name, value in sorted(os.environ.items()) if name.startswith(_READ_AT_START)}
        try:
            self.client_module = _import_module("jaxlib.xla_client")
            self.jax = _import_module("jaxlib._jax")
        except ImportError as error:
            raise UnsupportedJaxlib(
                f"Compiling needs jaxlib, which cannot be imported ({error}): pip install jaxlib."
            ) from error
        about = _import_module("jaxlib.version")  # importlib.metadata would take 28 ms
        self.version = about.__version__
        self.build = f"{getattr(about, '_git_hash', '')} {library_bytes(getattr(self.client_module, '__file__', None))}"
        self._check(_CALLED)
        if getattr(sys.modules.get("jax"), "__name__", "") != "jax":  # pullback.compat.jax may stand there under that name
            self._set_global_states()
        # jaxlib 0.11.2 dropped the handler's last argument.
        self._handler_extra = (True,) if "_skip_checks" in (self.jax.array_result_handler.__doc__ or "") else ()
        self.replicated = self.client_module.HloSharding.replicate()
        self._plugins: dict[str, Any] = {}

    def _check(self, called: Mapping[str, tuple[str, ...]]) -> None:
        low, high = SUPPORTED_JAXLIB
        wanted = f"pip install 'jaxlib>={spell(low)},<{spell(high)}'"
        if not low <= parse_version(self.version) < high:
            raise UnsupportedJaxlib(
                f"jaxlib {self.version} is installed, but pullback was tested with {spell(low)} up to (not including)"
                f" {spell(high)}: {wanted}."
            )
        modules = {"jaxlib.xla_client": self.client_module, "jaxlib._jax": self.jax}
        for module, names in called.items():
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
        if "jax" in sys.modules or importlib.util.find_spec("jax") is None:  # pullback stands in its place, or there is none
            # At each call jaxlib would keep the stack, for JAX, which takes a tenth of a small call. To switch it while another
            # thread is in a call makes that one fail.
            self.jax.set_tracebacks_enabled(False)

    def register_handler(self, name: str, address: int) -> None:
        """Let programs for the CPU call the machine code at an address, a handler of XLA's foreign function interface, by a
        name. That is for ever: the code must stay."""
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        self.client_module.register_custom_call_target(name, make(address, None, None), platform="cpu", api_version=1)

    def result_handler(self, aval: Any, sharding: Any) -> Any:
        """What makes an array object of an executable's result."""
        return self.jax.array_result_handler(aval, sharding, True, *self._handler_extra)

    def debug_options(self) -> bytes:
        """XLA's debug options as they stand for every compilation: what XLA made of `XLA_FLAGS`, a file named there too."""
        options = self.client_module.CompileOptions()
        _ = options.executable_build_options.debug_options  # serialized only once it has been read
        return bytes(options.SerializeAsString())

    def compile_options(self, overrides: tuple[tuple[str, Any], ...], extra: dict[str, Any], devices: Sequence[Any]) -> Any:
        """XLA's options for a module on these devices, one partition on each. Those in `extra` are known to one platform only,
        by name; jaxlib has no field for them, and its `env_option_overrides` refuses maps, so they are appended to the bytes of
        the options, which do take them.

        Source of the field numbers: CompileOptionsProto.executable_build_options = 3, its debug_options = 3, and there
        xla_backend_extra_options = 500, a map<string, string>.
        """
        options = self.client_module.CompileOptions()
        if extra:
            entries = [_field(500, _field(1, key.encode()) + _field(2, str(value).encode())) for key, value in extra.items()]
            data = options.SerializeAsString() + _field(3, _field(3, b"".join(entries)))
            options = self.jax.CompileOptions.ParseFromString(data)
        efforts = {name: value for name, value in overrides if name in _EFFORTS}
        for name, value in efforts.items():
            setattr(options.executable_build_options, name, value)
        if len(overrides) > len(efforts):
            options.env_option_overrides = [(name, value) for name, value in overrides if name not in efforts]
        options.device_assignment = self.jax.DeviceAssignment.create(np.array([[raw.id for raw in devices]], np.int32))
        if len(devices) > 1:
            options.num_partitions = options.executable_build_options.num_partitions = len(devices)
            options.executable_build_options.use_spmd_partitioning = True
            options.executable_build_options.use_shardy_partitioner = True
        return options

    @functools.cached_property
    def _mlir(self) -> tuple[Any, Any]:
        """MLIR's bindings and a context that knows the dialects that lowering rules write."""
        ir = _import_module("jaxlib.mlir.ir")
        registrations = _import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext")
        context, registry = ir.Context(), ir.DialectRegistry()
        registrations.register_dialects(registry)
        context.append_dialect_registry(registry)
        context.load_all_available_dialects()
        for dialect in ("stablehlo", "chlo", "sdy"):
            _import_module(f"jaxlib.mlir.dialects.{dialect}").register_dialect(context)
        return ir, context

    def parse(self, text: str) -> Any:
        """A StableHLO module as an object of MLIR's: the only form that compiles with host callbacks."""
        with _lock:
            ir, context = self._mlir
            with context, ir.Location.unknown():
                return ir.Module.parse(text)

    def hlo(self, text: str) -> str:
        """A StableHLO module as the HLO that XLA begins with."""
        return str(self.jax.mlir.mlir_module_to_xla_computation(text).as_hlo_text())

    @functools.cached_property
    def stablehlo_version(self) -> str:
        """The version of StableHLO in which modules are written for others: that of twelve weeks before this jaxlib."""
        dialect = _import_module("jaxlib.mlir.dialects.stablehlo")
        wanted = dialect.StablehloCompatibilityRequirement.WEEK_12
        return str(dialect.get_version_from_compatibility_requirement(wanted))

    def to_portable(self, text: str) -> bytes:
        """A StableHLO module in the form that later versions read."""
        with _lock:
            ir, context = self._mlir
            dialect = _import_module("jaxlib.mlir.dialects.stablehlo")
            with context, ir.Location.unknown():
                return bytes(dialect.serialize_portable_artifact(ir.Module.parse(text), self.stablehlo_version, True))

    def from_portable(self, data: bytes, prefix: str = "") -> tuple[str, list[tuple[str, str]]]:
        """The text of such a module, and that of each of its functions, with its name; these are private, and have names that
        begin with `prefix`."""
        with _lock:
            ir, context = self._mlir
            with context, ir.Location.unknown():
                read = _import_module("jaxlib.mlir.dialects.stablehlo").deserialize_portable_artifact(context, data)
                text = str(read)
                functions = [one for one in read.body.operations if one.operation.name == "func.func"]
                for function in functions:
                    name = ir.StringAttr(function.attributes["sym_name"]).value
                    function.attributes["sym_name"] = ir.StringAttr.get(prefix + name)
                    function.attributes["sym_visibility"] = ir.StringAttr.get("private")
                    for notes in ("arg_attrs", "res_attrs"):  # where they lie on a mesh, which the caller says
                        if notes in function.attributes:
                            del function.attributes[notes]

                def call(operation: Any) -> Any:
                    if operation.name == "func.call":
                        name = ir.FlatSymbolRefAttr(operation.attributes["callee"]).value
                        operation.attributes["callee"] = ir.FlatSymbolRefAttr.get(prefix + name)
                    return ir.WalkResult.ADVANCE

                read.operation.walk(call)
                written = []
                for function in functions:
                    name = ir.StringAttr(function.attributes["sym_name"]).value
                    # The generic form writes the names of other libraries' functions in quotes, as our own text does
                    written.append((name, function.operation.get_asm(print_generic_op_form=True, use_local_scope=True)))
                return text, written

    @functools.cached_property
    def lapack(self) -> tuple[str, ...]:
        """The names of LAPACK's kernels, which programs for the CPU may call from now on: without the library's start, which
        finds SciPy's LAPACK, a call would kill the process."""
        with _lock:
            kernels = _import_module("jaxlib.cpu._lapack")
            found = {name: kernel for name, kernel in kernels.registrations().items() if name.endswith("_ffi")}
            for name, kernel in found.items():
                self.client_module.register_custom_call_target(name, kernel, platform="cpu", api_version=1)
            kernels.initialize()
            return tuple(found)

    def join(self, address: str, rank: int, host: str) -> tuple[Any, dict[str, Any]]:
        """Join the processes that the coordination service at an address serves: what keeps this process among them, and the
        arguments of a CPU client that computes with the others by gloo, whose connections end at `host` here.

        All of them must be there, and come by different numbers: else this ends the process.
        """
        client = self.jax.get_distributed_runtime_client(
            address,
            rank,
            heartbeat_timeout=NEVER,  # at which XLA would end the process; we have heartbeats of our own
            shutdown_on_destruction=False,
            use_compression=True,
        )
        client.connect()
        collectives = self.jax.make_gloo_tcp_collectives(client, hostname=host)
        return client, {"distributed_client": client, "node_id": rank, "collectives": collectives}

    def prepare_lapack(self, text: str) -> None:
        """What a module needs that calls LAPACK, compiled before or not."""
        if '"lapack_' in text:
            _ = self.lapack

    def plugin(self, name: str, library: str, prepare: Callable[[Any], None]) -> Any:
        """PJRT's interface of a plugin, given the path of its shared library; None if someone else has loaded it here. When it
        is loaded, `prepare` is called with it."""
        with _lock:
            if name not in self._plugins:
                self._check(_CALLED_FOR_PLUGINS)
                other = self.jax.pjrt_plugin_loaded(name)  # jax, where it is imported too; then it has registered all as well
                loaded = None if other else self.jax.load_pjrt_plugin(name, library, None)
                if not self.jax.pjrt_plugin_initialized(name):
                    self.jax.initialize_pjrt_plugin(name)
                if loaded is not None:
                    prepare(loaded)
                self._plugins[name] = loaded
            return self._plugins[name]

    def register_extension(self, platform: str, extension: Any, interface: Any) -> None:
        """Let programs for a platform use the types and call the kernels of a plugin's extension module."""
        module = self.client_module
        module.register_custom_type_handler(platform, functools.partial(extension.register_custom_type, interface))
        module.register_custom_call_handler(platform, functools.partial(extension.register_custom_call_target, interface))
        for name, value in extension.ffi_types().items():
            module.register_custom_type(name, value, platform=platform)
        for name, value in extension.ffi_handlers().items():
            module.register_custom_call_target(name, value, platform=platform, api_version=1)

    def plugin_client(self, name: str, options: dict[str, Any]) -> Any:
        """The PJRT client of a plugin that is loaded."""
        return self.client_module.make_c_api_client(name, options, None)

    def absent_devices(self, interface: Any, name: str, **given: str) -> list[Any]:
        """The devices of a topology that a plugin compiles for, and that need not be there."""
        found = self.client_module.make_c_api_device_topology(interface, name, **given)
        return list(found._make_compile_only_devices())

    def compile_absent(self, text: str, devices: Sequence[Any], options: Any) -> Any:
        """A StableHLO module compiled for such devices: an executable that can be looked at, and not run."""
        return devices[0].client.compile(self.parse(text), self.jax.DeviceList(tuple(devices)), options)


def _quiet() -> None:
    """jaxlib reads this when it is loaded: else its clients chatter on stderr."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")


def _import_module(name: str) -> Any:
    """A module of jaxlib's: some of them, imported in part, cannot be imported again, or end the process when they are."""
    return uninterrupted(functools.partial(importlib.import_module, name))


NEVER = 10**8  # seconds


def coordination_service(address: str, count: int) -> Any:
    """The service at which the processes that compute together find each other, for as long as the object is alive. Whoever can
    reach the address can reach it."""
    _quiet()
    module = _import_module("jaxlib._jax")
    return module.get_distributed_runtime_service(address, count, heartbeat_timeout=NEVER, shutdown_timeout=1)


def pytrees() -> Any:
    """jaxlib's pytrees, which are JAX's; nothing else of jaxlib is prepared for that."""
    _quiet()
    return _import_module("jaxlib._jax").pytree


def runtime_error() -> type[Exception]:
    """The class of the errors of XLA at run time."""
    _quiet()
    found: type[Exception] = _import_module("jaxlib._jax").JaxRuntimeError
    return found


def profiler() -> Any:
    """XLA's profiler."""
    _quiet()
    return _import_module("jaxlib._profiler")


def running_profiler() -> Any:
    """XLA's profiler if it may be recording; None if this process never loaded it."""
    return sys.modules.get("jaxlib._profiler")


def profile_data() -> Any:
    """What reads a profile of XLA's profiler."""
    profiler()
    return _import_module("jaxlib._profile_data")


def pretty_printer() -> Any:
    """jaxlib's layout of documents, by which JAX breaks the lines of Jaxprs."""
    return _import_module("jaxlib._pretty_printer")


def library_bytes(file: str | None) -> int:
    """How many bytes the shared libraries beside a file of jaxlib's have: another build of one version has another number."""
    if file is None:
        return 0
    with os.scandir(os.path.dirname(file)) as entries:
        return sum([entry.stat().st_size for entry in entries if entry.name.endswith((".so", ".pyd", ".dylib", ".dll"))])


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
    return tuple(map(int, re.findall(r"\d+", text)[:3]))


def spell(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


_lock = threading.RLock()
_loaded: list[Jaxlib] = []


class _Collector:
    """Lets go of the Python functions of executables that are gone: jaxlib only puts them aside until it is told to.

    The garbage collector's callback is `getattr(collector, phase, info)`, so that at its "stop" jaxlib's function runs without
    any code of Python's: in that a Ctrl-C could be raised, which the garbage collector would swallow.
    """

    stop = property(operator.methodcaller("collect"))

    def __init__(self, collect: Callable[[], None]) -> None:
        self.collect = collect


def jaxlib() -> Jaxlib:
    """jaxlib, loaded now if it was not yet."""
    if not _loaded:
        with _lock:
            if not _loaded:
                _loaded.append(Jaxlib())
                gc.callbacks.append(functools.partial(getattr, _Collector(_loaded[0].jax.collect_garbage)))
    return _loaded[0]
