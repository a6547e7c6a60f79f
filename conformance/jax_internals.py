"""What stands for JAX's internals under its own tests: this is the harness's, and no part of pullback.

Tables: public modules in which names of internal ones are sought (`HOMES`), modules of jaxlib's (`JAXLIB`), objects made here
(`MADE`), and what is corrected in modules of the checkout's (`mend`). What counts or switches is honest: it counts what
pullback does, or it is absent.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import importlib
import os
from collections.abc import Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

FACADE = "pullback.compat.jax"
NOTHING = object()

# internal module: public modules whose names it exports
HOMES = {
    "jax._src": "jax",
    "jax._src.api": "jax jax.transformations",
    "jax._src.api_util": "jax.api_util",
    "jax._src.ad_checkpoint": "jax jax.ad_checkpoint",
    "jax._src.ad_util": "jax.interpreters.ad jax.custom_derivatives",
    "jax._src.array": "jax",
    "jax._src.basearray": "jax",
    "jax._src.checkify": "jax.experimental.checkify",
    "jax._src.core": "jax.core jax.extend.core jax.errors jax",
    "jax._src.custom_api": "jax.custom_batching jax.custom_derivatives jax",
    "jax._src.custom_batching": "jax.custom_batching",
    "jax._src.custom_derivatives": "jax.custom_derivatives jax",
    "jax._src.custom_transpose": "jax.custom_transpose",
    "jax._src.debugging": "jax.debug",
    "jax._src.dlpack": "jax.dlpack",
    "jax._src.dtypes": "jax.dtypes jax.numpy jax",
    "jax._src.errors": "jax.errors",
    "jax._src.export": "jax.export",
    "jax._src.flatten_util": "jax.flatten_util",
    "jax._src.hijax": "jax.experimental.hijax",
    "jax._src.image": "jax.image",
    "jax._src.image.scale": "jax.image",
    "jax._src.interpreters.ad": "jax.interpreters.ad",
    "jax._src.interpreters.batching": "jax.interpreters.batching",
    "jax._src.interpreters.mlir": "jax.interpreters.mlir",
    "jax._src.interpreters.partial_eval": "jax.interpreters.partial_eval",
    "jax._src.interpreters.pxla": "jax.interpreters.pxla",
    "jax._src.lax": "jax.lax",
    "jax._src.lax.lax": "jax.lax",
    "jax._src.lax.ann": "jax.lax",
    "jax._src.lax.control_flow": "jax.lax",
    "jax._src.lax.convolution": "jax.lax",
    "jax._src.lax.fft": "jax.lax",
    "jax._src.lax.linalg": "jax.lax.linalg jax.lax",
    "jax._src.lax.other": "jax.lax",
    "jax._src.lax.parallel": "jax.lax",
    "jax._src.lax.slicing": "jax.lax",
    "jax._src.lax.special": "jax.lax",
    "jax._src.lax.windowed_reductions": "jax.lax",
    "jax._src.linear_util": "jax.extend.linear_util",
    "jax._src.mesh": "jax.sharding",
    "jax._src.named_sharding": "jax.sharding",
    "jax._src.partition_spec": "jax.sharding",
    "jax._src.sharding": "jax.sharding",
    "jax._src.sharding_impls": "jax.sharding jax",
    "jax._src.monitoring": "jax.monitoring",
    "jax._src.nn": "jax.nn",
    "jax._src.nn.functions": "jax.nn",
    "jax._src.nn.initializers": "jax.nn.initializers",
    "jax._src.numpy": "jax.numpy",
    "jax._src.numpy.array_constructors": "jax.numpy",
    "jax._src.numpy.einsum": "jax.numpy",
    "jax._src.numpy.fft": "jax.numpy.fft",
    "jax._src.numpy.indexing": "jax.numpy",
    "jax._src.numpy.lax_numpy": "jax.numpy",
    "jax._src.numpy.linalg": "jax.numpy.linalg",
    "jax._src.numpy.reductions": "jax.numpy",
    "jax._src.numpy.setops": "jax.numpy",
    "jax._src.numpy.sorting": "jax.numpy",
    "jax._src.numpy.ufuncs": "jax.numpy",
    "jax._src.numpy.vectorize": "jax.numpy",
    "jax._src.pjit": "jax jax.experimental.pjit",
    "jax._src.prng": "jax.extend.random",
    "jax._src.random": "jax.random",
    "jax._src.random.core": "jax.random",
    "jax._src.random.threefry2x32": "jax.extend.random",
    "jax._src.random.rbg": "jax.extend.random",
    "jax._src.random.prng": "jax.extend.random",
    "jax._src.scipy": "jax.scipy",
    "jax._src.scipy.linalg": "jax.scipy.linalg",
    "jax._src.scipy.sparse": "jax.scipy.sparse",
    "jax._src.scipy.sparse.linalg": "jax.scipy.sparse.linalg",
    "jax._src.scipy.special": "jax.scipy.special",
    "jax._src.shard_map": "jax",
    "jax._src.source_info_util": "jax.extend.source_info_util",
    "jax._src.stages": "jax.stages",
    "jax._src.state": "jax",
    "jax._src.tree_util": "jax.tree_util",
    "jax._src.typing": "jax.typing jax",
    "jax._src.xla_bridge": "jax.extend.backend jax",
}

# internal module: the module of jaxlib's that it is
JAXLIB = {
    "jax._src.lib.mlir.ir": "jaxlib.mlir.ir",
    "jax._src.lib.mlir.dialects.hlo": "jaxlib.mlir.dialects.stablehlo",
    "jax._src.lib.mlir.dialects.chlo": "jaxlib.mlir.dialects.chlo",
}
_OF_JAXLIB = "_jax xla_client lapack utils weakref_lru_cache gpu_solver"
JAXLIB |= {f"jax._src.lib.{name}": f"jaxlib.{name}" for name in _OF_JAXLIB.split()}


def public_homes(module: str) -> list[str]:
    """The modules of pullback's façade whose names an internal module of JAX's exports."""
    return [FACADE + home.removeprefix("jax") for home in HOMES.get(module, "").split()]


def real_module(module: str) -> ModuleType | None:
    """The module of jaxlib's that an internal name means."""
    home = JAXLIB.get(module)
    return None if home is None else importlib.import_module(home)


# ---- configuration ----------------------------------------------------------------------------------------------------


def jax() -> Any:
    """The façade."""
    return importlib.import_module(FACADE)


def states() -> Any:
    """The façade's options by name, each with its value, and a context manager when it is called with another one."""
    return importlib.import_module(f"{FACADE}.configuration").STATES


class Flag:
    """A flag of the tests' own."""

    def __init__(self, name: str, default: Any, *args: Any, **kwargs: Any) -> None:
        self.name, self.value = name, default
        flags[name] = self


flags: dict[str, Flag] = {}


def read_option(name: str) -> Any:
    """The value of an option, or of a flag of the tests' own."""
    return flags[name].value if name in flags else getattr(jax().config, name)


def parse_flags_with_absl() -> None:
    """Absl's flags are those of the tests' runner, which has none."""
    absl_flags().mark_as_parsed()


def absl_flags() -> Any:
    return importlib.import_module("absl.flags").FLAGS


def bool_env(name: str, default: bool) -> bool:
    return os.environ.get(name, str(default)).lower() in ("1", "true", "yes", "on", "y", "t")


def int_env(name: str, default: int) -> int:
    return int(os.environ.get(name, default))


class ExplicitX64Mode(enum.StrEnum):
    """What becomes of a dtype of 64 bits that is asked for while there are none."""

    WARN, ERROR, ALLOW = "warn", "error", "allow"


class NumpyDtypePromotion(enum.StrEnum):
    """Whether dtypes promote."""

    STANDARD, STRICT = "standard", "strict"


# ---- what is counted --------------------------------------------------------------------------------------------------


class Compilations:
    """JAX's cache of operations compiled one by one: pullback's compilations are counted instead."""

    def cache_info(self) -> Any:
        return SimpleNamespace(misses=importlib.import_module("pullback").cache_info().compiled)

    def cache_clear(self) -> None:
        return None


def reset_trace_state() -> bool:
    """Whether no function is being staged, as it should be between tests."""
    innermost = importlib.import_module("pullback.core.tracing").innermost_staging()
    return innermost is None or innermost.transformation == "check"  # which jax_debug_nans leaves open


class Backend:
    """The CPU, as JAX's tests ask for it."""

    platform = "cpu"
    platform_version = "cpu"

    def devices(self) -> Any:
        return jax().devices()

    def local_devices(self) -> Any:
        return jax().devices()

    def device_count(self) -> int:
        return len(jax().devices())


@functools.lru_cache
def get_backend(platform: Any = None) -> Backend:
    return Backend()


def local_devices(process_index: Any = None, backend: Any = None, host_id: Any = None) -> Any:
    if backend not in (None, "cpu"):
        raise RuntimeError(f"Unknown backend {backend}")
    return jax().devices()


# ---- tables -----------------------------------------------------------------------------------------------------------


def absence(name: str) -> Any:
    return importlib.import_module("jax_checkout").Absence(name)


def unzip2(pairs: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    both = list(pairs)
    return tuple(a for a, _ in both), tuple(b for _, b in both)


class Generators(Mapping[str, Any]):
    """JAX's generators by name."""

    names = ("threefry2x32", "threefry4x32", "philox2x32", "philox4x32", "rbg", "unsafe_rbg")

    def __getitem__(self, name: str) -> Any:
        if name not in self.names:
            raise KeyError(name)
        return importlib.import_module(f"{FACADE}.extend.random")._implementations[name]

    def __iter__(self) -> Any:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


class _OfKeys(type):
    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, jax().Array) and importlib.import_module("pullback.core.dtypes").is_key(value.dtype)


class PRNGKeyArray(metaclass=_OfKeys):
    """Typed keys are arrays like others here."""


MADE: dict[str, dict[str, Any]] = {
    "jax._src.random.prng": {"prngs": Generators(), "PRNGKeyArray": PRNGKeyArray},
    "jax._src.config": {
        "ExplicitX64Mode": ExplicitX64Mode, "NumpyDtypePromotion": NumpyDtypePromotion,
        "bool_env": bool_env, "int_env": int_env, "_read": read_option,
        "update": lambda name, value: jax().config.update(name, value), "read": read_option,
        "parse_flags_with_absl": parse_flags_with_absl,
        "bool_flag": Flag, "int_flag": Flag, "string_flag": Flag, "float_flag": Flag, "enum_flag": Flag,
    },
    "jax._src.cloud_tpu_init": {"running_in_cloud_tpu_vm": False, "cloud_tpu_init": lambda: None},
    "jax._src.compilation_cache": {"_cache": None, "is_persistent_cache_enabled": lambda: False},
    "jax._src.dispatch": {"runtime_tokens": SimpleNamespace(clear=lambda: None, block_until_ready=lambda: None),
        "xla_primitive_callable": Compilations()},
    "jax._src.debugging": {
        "debug_print": lambda *args, **kwargs: jax().debug.print(*args, **kwargs),
        "debug_callback": lambda *args, **kwargs: jax().debug.callback(*args, **kwargs),
    },
    "jax._src.core": {"reset_trace_state": reset_trace_state},
    "jax._src.interpreters.mlir": {"_platforms_with_donation": ("cpu", "cuda", "rocm", "tpu")},
    "jax._src.lib": {"jaxlib_extension_version": 10**6, "cuda_versions": None, "version": (0, 10, 2), "version_str": "0.10.2"},
    "jax._src.xla_bridge": {
        "get_backend": get_backend, "num_cpu_devices": SimpleNamespace(value=10**6), "local_devices": local_devices,
        "devices": local_devices, "device_count": lambda backend=None: len(local_devices(None, backend)),
        "backend_pjrt_c_api_version": lambda platform=None: None, "backend_stablehlo_version": lambda platform=None: None,
    },
    "jax._src.traceback_util": {
        "api_boundary": lambda function, **options: function, "register_exclusion": lambda path: None,
    },
}  # fmt: skip


def provided(module: str, name: str) -> Any:
    """What the harness has for an internal name; NOTHING if nothing."""
    made = MADE.get(module, {})
    if name in made:
        return made[name]
    if module == "jax._src.config":
        values = {"config": lambda: jax().config, "config_states": states, "x64_enabled": lambda: jax().config.x64_enabled}
        if name in values:
            return values[name]()
        return states().get(f"jax_{name}", getattr(importlib.import_module(f"{FACADE}.configuration"), name, NOTHING))
    if (module, name) == ("jax._src.traceback_util", "UnfilteredStackTrace"):
        return importlib.import_module("pullback.core.source").WholeTraceback
    if module == "jax._src.lib":
        return getattr(importlib.import_module("jaxlib._jax"), name, NOTHING)
    if module in ("jax._src.lax.utils", "jax._src.numpy.util"):
        return UTILITIES.get(name, NOTHING)
    return NOTHING


def promote_dtypes(*args: Any) -> list[Any]:
    """Arrays of the dtype that these have together."""
    numpy = importlib.import_module(f"{FACADE}.numpy")
    return [numpy.asarray(arg, numpy.result_type(*args)) for arg in args]


def promote_dtypes_inexact(*args: Any) -> list[Any]:
    """The same, of a floating or complex one."""
    numpy = importlib.import_module(f"{FACADE}.numpy")
    dtype = numpy.result_type(*args)
    if not numpy.issubdtype(dtype, numpy.inexact):
        dtype = numpy.result_type(float)
    return [numpy.asarray(arg, dtype) for arg in args]


def promote_dtypes_complex(*args: Any) -> list[Any]:
    """The same, of a complex one."""
    numpy = importlib.import_module(f"{FACADE}.numpy")
    wide = numpy.result_type(*args) in (numpy.float64, numpy.complex128)
    dtype = numpy.complex128 if wide else numpy.complex64
    return [numpy.asarray(arg, dtype) for arg in args]


UTILITIES: dict[str, Any] = {
    "promote_dtypes": promote_dtypes,
    "promote_dtypes_inexact": promote_dtypes_inexact,
    "promote_dtypes_complex": promote_dtypes_complex,
}


def mend(name: str, module: ModuleType) -> None:
    """Put pullback's objects into a module of the checkout's, where tests compare with them."""
    if name == "jax._src.dtypes":
        for attribute in ("float0", "prng_key", "extended"):
            with contextlib.suppress(AttributeError, ModuleNotFoundError):
                setattr(module, attribute, getattr(importlib.import_module(f"{FACADE}.dtypes"), attribute))


def prepare() -> None:
    """What is done once everything can be imported."""
    refuse_absences()


def refuse_counts() -> None:
    """JAX's counts of the misses of its caches, of its C++ calls and of its modules are of what is not here: absent, each."""
    tools = importlib.import_module("jax._src.test_util")
    for name in [name for name in vars(tools) if name.startswith("count_")] + ["collect_lowered_jaxprs"]:
        setattr(tools, name, absence(f"jax._src.test_util.{name}"))


def refuse_absences() -> None:
    """A test that expects an error of an absent class needs it."""
    unittest = importlib.import_module("unittest")
    checkout = importlib.import_module("jax_checkout")
    for method in ("assertRaises", "assertRaisesRegex", "assertIsInstance"):
        original = getattr(unittest.TestCase, method)

        def checked(self: Any, *args: Any, _original: Any = original, **kwargs: Any) -> Any:
            for arg in args[:2]:
                for one in arg if isinstance(arg, tuple) else (arg,):
                    if type(one) is checkout.Absence:
                        one()
            return _original(self, *args, **kwargs)

        setattr(unittest.TestCase, method, functools.wraps(original)(checked))
