"""jax.config, and the context managers that override one of its options for a block.

What operators have to know becomes fields of pullback's mode (`core/modes.py`). Other options are context variables of
pullback's with a default of the process (`core/context.py`); the rest is kept for programs that read it: it tunes JAX's own
machinery, or names what is always so here.
"""

from __future__ import annotations

import contextlib
import enum
import os
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from types import MappingProxyType
from typing import Any, NoReturn

from pullback.core import reports, source
from pullback.core.devices import DEFAULT_DEVICE
from pullback.core.lazy import lazy_module
from pullback.core.modes import Mode, overriding, set_process_mode
from pullback.core.source import warn

finite, keys = lazy_module("pullback.transforms.finite"), lazy_module("pullback.random.keys")
devices, place = lazy_module("pullback.api.devices"), lazy_module("pullback.engine.place")
backends, xla = lazy_module("pullback.engine.backend"), lazy_module("pullback.engine.xla")
Read = Callable[[str], Any]  # the value of an option
_MISSING = object()
_blocks: ContextVar[Mapping[str, Any]] = ContextVar("pullback_jax_options", default=MappingProxyType({}))  # overridden here
_before: list[Mode] = []  # the mode of the process, before the façade changed it
STATES: dict[str, State] = {}


class State:
    """One option: its value, and, called with another one, the block in which it has that.

    Arguments:
        name: by which `jax.config` knows it.
        choices: the values that it may have; None for any, but one whose default is a bool is a bool. Or a function that
            refuses others.
        fields: the field of pullback's mode that has its value; or a function that gives fields, of one that reads options.
        variable: two functions: one gives the context variable of pullback's that has its value, the other that value, of a
            function that reads options.
    """

    def __init__(
        self,
        name: str,
        default: Any,
        choices: Any = None,
        fields: Callable[[Read], dict[str, Any]] | str | None = None,
        variable: tuple[Callable[[], Any], Callable[[Read], Any]] | None = None,
    ) -> None:
        choices = bool if default.__class__ is bool and choices is None else choices
        self._name, self._choices, self.default, self.variable = name, choices, default, variable
        self.fields = _named(fields, name) if isinstance(fields, str) else fields
        given = os.environ.get(name.upper())
        self._global = default if given is None else self.checked(_from_text(name.upper(), given, default))
        STATES[name] = self

    @property
    def value(self) -> Any:
        """The value that holds here."""
        return _blocks.get().get(self._name, self._global)

    def get_global(self) -> Any:
        """The value of the process, which blocks override."""
        return self._global

    def checked(self, value: Any) -> Any:
        """A value that the option may have. Raises ValueError for another."""
        if callable(self._choices):
            return self._choices(value)
        if isinstance(self._choices, tuple) and value is not None and str(value) not in self._choices:
            raise ValueError(
                f"The option {self._name} is one of {', '.join(map(repr, self._choices))}, but got {value!r} of type"
                f" {type(value).__name__}."
            )
        return value

    def set_global(self, value: Any) -> None:
        """Give the process's option a value."""
        before, self._global = self._global, self.checked(value)
        try:
            self.apply()
        except BaseException:
            self._global = before
            self.apply()
            raise

    def apply(self) -> None:
        """Make the value of the process hold in pullback."""
        if not _before:  # nobody uses the façade
            return
        if self.fields is not None:
            set_process_mode(**self.fields(lambda name: STATES[name]._global))
        self.hand_on(lambda name: STATES[name]._global)
        self.renew()

    def hand_on(self, read: Callable[[str], Any]) -> None:
        """Give the variable, if there is one, the value that it has where `read` gives those of the options."""
        if self.variable is not None:
            of, meaning = self.variable
            of().default = meaning(read)

    def renew(self) -> None:
        """Let a block that sets one of two options which are looked for together follow the other."""
        if self.variable is _CHECKS and any([STATES[name].variable is _CHECKS for name in _blocks.get()]):
            finite.results.replace(_CHECKS[1](lambda name: STATES[name].value))

    def __call__(self, new_val: Any = _MISSING) -> Block:
        if new_val is _MISSING:
            if self.default.__class__ is not bool:
                raise TypeError(
                    f"The option {self._name} has no value to take by itself: give the one that it has in the block."
                )
            new_val = True
        return Block(self._name, self.checked(new_val))

    def __bool__(self) -> NoReturn:
        raise TypeError(f"bool() of the option {self._name} itself; read its value, jax.config.{self._name}.")


def bool_state(name: str, default: bool, help: str = "", **_: Any) -> State:
    """An option of a program's own, true or false."""
    return State(name, default)


def enum_state(name: str, enum_values: Sequence[str], default: str, help: str = "", **_: Any) -> State:
    """An option of a program's own, with one of several values."""
    return State(name, default, tuple(enum_values))


_OWN = "user_context_"  # how the names of options begin that programs make to be a part of what their functions are traced for


def make_user_context(default_value: Any = None) -> State:
    """An option of a program's own: its compiled functions are traced for each value of it, which can be hashed."""
    return State(f"{_OWN}{len(STATES)}", default_value, lambda value: value, _values_of_own)


def _values_of_own(read: Read) -> dict[str, Any]:
    return {"own": tuple([read(name) for name in STATES if name.startswith(_OWN)])}


class ExplicitX64Mode(enum.StrEnum):
    """What is done where 64 bits are asked for by name, and values are 32 bits wide."""

    WARN = "warn"
    ERROR = "error"
    ALLOW = "allow"


class NumpyDtypePromotion(enum.StrEnum):
    """Whether arrays of two dtypes meet in a third."""

    STANDARD = "standard"
    STRICT = "strict"


class Block(contextlib.ContextDecorator):
    """A block, or a function, in which an option has another value. It may be entered again."""

    def __init__(self, name: str, value: Any) -> None:
        self._name, self._value = name, value
        self._entered: list[tuple[Token[Mapping[str, Any]], contextlib.ExitStack]] = []

    def __enter__(self) -> None:
        state, opened = STATES[self._name], contextlib.ExitStack()
        token = _blocks.set({**_blocks.get(), self._name: self._value})
        try:
            if state.fields is not None:
                opened.enter_context(overriding(**state.fields(lambda name: STATES[name].value)))
            if state.variable is not None:
                of, meaning = state.variable
                opened.enter_context(of().setting(meaning(lambda name: STATES[name].value)))
        except BaseException:
            _blocks.reset(token)
            raise
        self._entered.append((token, opened))

    def __exit__(self, *error: object) -> None:
        token, opened = self._entered.pop()
        _blocks.reset(token)
        opened.close()
        STATES[self._name].renew()

    def _recreate_cm(self) -> Block:
        return Block(self._name, self._value)


_TRUE, _FALSE = ("1", "true", "t", "yes", "y", "on"), ("0", "false", "f", "no", "n", "off", "")


def _from_text(name: str, text: str, default: Any) -> Any:
    """The value that an environment variable gives an option."""
    if default.__class__ is bool:
        if text.lower() not in (*_TRUE, *_FALSE):
            raise ValueError(f"The environment variable {name} must be a truth value such as 0 or 1, not {text!r}.")
        return text.lower() in _TRUE
    return type(default)(text) if isinstance(default, (int, float)) else text


# ---- what options mean here -------------------------------------------------------------------------------------------


def _width(read: Read) -> dict[str, Any]:
    if read("jax_enable_x64"):
        return {"bits": 64, "narrows": False}
    return {"bits": 32, "narrows": {"warn": "warn", "error": "raise", "allow": "values"}[str(read("jax_explicit_x64_dtypes"))]}


def _named(field: str, option: str) -> Callable[[Read], dict[str, Any]]:
    """A field of the mode that has an option's value."""
    return lambda read: {field: value if (value := read(option)).__class__ is bool else str(value)}


def _device(read: Read) -> Any:
    device = read("jax_default_device")
    if device is None:
        return DEFAULT_DEVICE
    device = devices.devices(device)[0] if isinstance(device, str) else device
    devices.find_device(device)
    return device


_CHECKS = (lambda: finite.results, lambda read: finite.checker(nan=read("jax_debug_nans"), inf=read("jax_debug_infs")))


def _only(name: str, value: bool) -> Callable[[Any], bool]:
    """The value of an option that can have no other, since programs would miss what that means."""

    def checked(given: Any) -> bool:
        if bool(given) is not value:
            raise NotImplementedError(f"{name}={given!r} is not provided by pullback, only {value}.")
        return value

    return checked


def _cpus(count: Any) -> int:
    """Into how many devices the CPU is divided; -1 where it is not said."""
    if count.__class__ is not int or (count < 1 and count != -1):
        raise ValueError(f"jax_num_cpu_devices is a positive integer, but got {count!r} of type {type(count).__name__}.")
    if count != -1 and backends.is_started("cpu") and count != (there := len(backends.backend("cpu").devices)):
        raise RuntimeError(
            f"jax_num_cpu_devices={count} comes too late: the CPU has been used, and has {there} device{'s' * (there > 1)}."
            " Set the option before the first array, jax.devices() and the like, or the environment variable"
            " JAX_NUM_CPU_DEVICES."
        )
    return count


def _partitionable(on: Any) -> bool:
    if not on:
        warn("jax_threefry_partitionable=False: random bits are those of True, which is JAX's default.", category=UserWarning)
    return bool(on)


# What tracebacks show of the library's own frames; None for what pullback's environment variable says
_FILTERS = {"off": "all", "tracebackhide": "marked", "remove_frames": "caused", "quiet_remove_frames": "noted", "auto": None}


_PRECISIONS = (
    "default high highest bfloat16 tensorfloat32 float32 ANY_F8_ANY_F8_F32 ANY_F8_ANY_F8_F32_FAST_ACCUM ANY_F8_ANY_F8_ANY"
    " ANY_F8_ANY_F8_ANY_FAST_ACCUM F16_F16_F16 F16_F16_F32 BF16_BF16_BF16 BF16_BF16_F32 BF16_BF16_F32_X3 BF16_BF16_F32_X6"
    " BF16_BF16_F32_X9 TF32_TF32_F32 TF32_TF32_F32_X3 F32_F32_F32 F64_F64_F64"
)
_GUARDS = ("allow", "log", "disallow", "log_explicit", "disallow_explicit")
_GENERATORS = ("threefry2x32", "threefry4x32", "rbg", "unsafe_rbg", "philox2x32", "philox4x32")

# The arguments of `State` by the option's name
_OPTIONS: dict[str, tuple[Any, ...]] = {
    "jax_explicit_x64_dtypes": ("warn", tuple(ExplicitX64Mode), _width),
    "jax_enable_x64": (False, None, _width),
    "jax_numpy_dtype_promotion": ("standard", tuple(NumpyDtypePromotion), "promotion"),
    "jax_numpy_rank_promotion": ("allow", ("allow", "warn", "raise"), "rank_promotion"),
    "jax_disable_jit": (False, None, lambda read: {"compiles": not read("jax_disable_jit")}),
    "jax_check_static_indices": (False, None, lambda read: {"clamps": not read("jax_check_static_indices")}),
    "jax_check_tracer_leaks": (False, None, "checks_leaks"),
    "jax_debug_nans": (False, None, None, _CHECKS),
    "jax_debug_infs": (False, None, None, _CHECKS),
    "jax_debug_key_reuse": (
        False,
        None,
        None,
        (lambda: keys.used_keys, lambda read: keys.UsedKeys() if read("jax_debug_key_reuse") else None),
    ),
    "jax_log_compiles": (
        False,
        None,
        None,
        (lambda: reports.level, lambda read: reports.WARNING if read("jax_log_compiles") else reports.DEBUG),
    ),
    "jax_explain_cache_misses": (
        False,
        None,
        None,
        (lambda: reports.explaining, lambda read: read("jax_explain_cache_misses")),
    ),
    "jax_no_tracing": (False, None, None, (lambda: reports.refusing, lambda read: read("jax_no_tracing"))),
    "jax_num_cpu_devices": (
        -1,
        _cpus,
        None,
        (lambda: xla.cpu_devices, lambda read: count if (count := read("jax_num_cpu_devices")) > 0 else None),
    ),
    "jax_default_device": (None, None, None, (lambda: place.default_place, _device)),
    "jax_traceback_filtering": (
        "auto",
        tuple(_FILTERS),
        None,
        (lambda: source.tracebacks, lambda read: _FILTERS[read("jax_traceback_filtering")]),
    ),
    "jax_default_matmul_precision": (None, tuple(_PRECISIONS.split())),  # all are satisfied
    "jax_default_prng_impl": ("threefry2x32", _GENERATORS, "generator"),
    "jax_threefry_partitionable": (True, _partitionable),
    "jax_legacy_prng_key": ("allow", ("allow", "warn", "error")),
    "jax_array_garbage_collection_guard": (None, ("allow", "log", "fatal")),
    "jax_transfer_guard": (None, _GUARDS),  # nothing is transferred
    "jax_transfer_guard_host_to_device": (None, _GUARDS),
    "jax_transfer_guard_device_to_device": (None, _GUARDS),
    "jax_transfer_guard_device_to_host": (None, _GUARDS),
}
for _name, _row in _OPTIONS.items():
    State(_name, *_row)
for _name in ("jax_high_dynamic_range_gumbel", "jax_no_execution", "jax_thread_guard"):
    State(_name, False, _only(_name, False))
State("jax_allow_f16_reductions", True, _only("jax_allow_f16_reductions", True))

# Options about JAX's own machinery, that programs set or read: here they have no effect, since there is none of it.
_KEPT: dict[str, Any] = {
    "jax_enable_checks": False, "jax_enable_custom_prng": False, "jax_random_seed_offset": 0, "jax_softmax_custom_jvp": False,
    "jax_use_direct_linearize": True, "jax_auto_pcast": True,
    "jax2tf_associative_scan_reductions": False, "jax_remove_size_one_mesh_axis_from_type": False,
    "jax_platforms": "", "jax_platform_name": "", "jax_backend_target": "", "jax_xla_backend": "",
    "jax_compilation_cache_dir": None, "jax_enable_compilation_cache": True, "jax_compilation_cache_max_size": -1,
    "jax_persistent_cache_min_compile_time_secs": 1.0, "jax_persistent_cache_min_entry_size_bytes": 0,
    "jax_persistent_cache_enable_xla_caches": "", "jax_raise_persistent_cache_errors": False,
    "jax_compilation_cache_include_metadata_in_key": False, "jax_compiler_enable_remat_pass": True,
    "jax_captured_constants_warn_bytes": 2000000000, "jax_captured_constants_report_frames": 0,
    "jax_cpu_enable_async_dispatch": True, "jax_cpu_collectives_implementation": "gloo", "jax_cuda_visible_devices": "all",
    "jax_custom_vjp3": False, "jax_debug_log_modules": "", "jax_disable_bwd_checks": False,
    "jax_disable_vmap_shmap_error": False,
    "jax_disable_most_optimizations": False, "jax_dump_ir_to": "", "jax_dump_ir_modes": "stablehlo", "jax_enable_pgle": False,
    "jax_exec_time_optimization_effort": 0.0, "jax_memory_fitting_effort": 0.0, "jax_optimization_level": "UNKNOWN",
    "jax_memory_fitting_level": "O2", "jax_include_full_tracebacks_in_locations": True, "jax_include_debug_info_in_dumps": True,
    "jax_traceback_in_locations_limit": 10, "jax_hlo_source_file_canonicalization_regex": None, "jax_logging_level": "NOTSET",
    "jax_log_checkpoint_residuals": False, "jax_mutable_array_checks": True, "jax_pprint_use_color": True,
    "jax_send_traceback_to_runtime": "off", "jax_serialization_version": 0, "jax_scan3": False,
    "jax_remat3": False, "jax_refs_to_pins": False, "jax_tracer_error_num_traceback_frames": 5, "jax_use_magma": "auto",
    "jax_use_shardy_partitioner": True, "jax_use_simplified_jaxpr_constants": False, "jax_xla_profile_version": 0,
    "jax_error_checking_behavior_nan": "ignore", "jax_error_checking_behavior_divide": "ignore",
    "jax_error_checking_behavior_oob": "ignore", "jax_embedded_constants_max_bytes": 32, "eager_constant_folding": False,
    "jax_ragged_dot_use_ragged_dot_instruction": True, "jax_disallow_mesh_context_manager": False, "check_vma": False,
    "jax_distributed_debug": False, "jax_export_calling_convention_version": 10, "jax_bcoo_cusparse_lowering": False,
    "jax_pallas_use_mosaic_gpu": True, "jax_export_ignore_forward_compatibility": False,
}  # fmt: skip
for _name, _default in _KEPT.items():
    State(_name, _default)


def __getattr__(name: str) -> State:
    """An option by its name, with or without `jax_` in front: called with a value, the block in which it has that."""
    if (found := STATES.get(f"jax_{name}", STATES.get(name))) is None:
        raise AttributeError(name)
    return found


def disable_jit(disable: bool = True) -> Block:
    """In this block jit does nothing, and loops and branches are Python's own."""
    return STATES["jax_disable_jit"](disable)


def disable_x64() -> Block:
    """In this block values are 32 bits wide."""
    return STATES["jax_enable_x64"](False)


def checking_leaks() -> Block:
    """In this block a traced value that outlives its trace is an error."""
    return STATES["jax_check_tracer_leaks"](True)


# ---- jax.config -------------------------------------------------------------------------------------------------------


class Config:
    """The options, as attributes by the names that start with jax_."""

    def __getattr__(self, name: str) -> Any:
        if name in STATES:
            return STATES[name].value
        raise AttributeError(f"'Config' object has no attribute {name!r}", name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"Options are set by jax.config.update({name!r}, {value!r}).")

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *STATES})

    @property
    def x64_enabled(self) -> bool:
        """Whether 64 bits are the default here."""
        return bool(self.jax_enable_x64)

    @property
    def values(self) -> dict[str, Any]:
        """The process's values by name, of JAX's options."""
        return {name: state.get_global() for name, state in STATES.items() if not name.startswith(_OWN)}

    def update(self, name: str, val: Any) -> None:
        """Set an option of the process."""
        if name not in STATES:
            raise AttributeError(f"jax.config has no option {name!r}: its options are the names in jax.config.values.")
        STATES[name].set_global(val)

    def _read(self, name: str) -> Any:
        return getattr(self, name)

    read = _read

    def parse_flags_with_absl(self) -> None:
        """Options are set by `update` and the environment: absl's flags define none."""

    config_with_absl = parse_flags_with_absl
    complete_absl_config = parse_flags_with_absl


config = Config()


# ---- whether they hold ------------------------------------------------------------------------------------------------


def adopt() -> None:
    """Let the options hold in this process: its mode becomes JAX's."""
    if not _before:
        _before.append(set_process_mode(clamps=True, truncates=True, lists=False, floats="own"))
        for state in STATES.values():
            if state.variable is None or state.get_global() != state.default:  # what is so anyway loads no module
                state.apply()


def release() -> None:
    """Give the process the mode and the defaults back that it had before `adopt`."""
    if _before:
        mode = _before.pop()
        set_process_mode(**{name: getattr(mode, name) for name in mode.fields})
        for state in STATES.values():
            if state.get_global() != state.default:
                state.hand_on(lambda name: STATES[name].default)
