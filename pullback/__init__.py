"""pullback: composable function transformations over NumPy-like arrays, compiled by XLA.

`import pullback as pb` gives the transformations (`pb.grad`, `pb.jvp`, `pb.vmap`, `pb.jit`, ...), each a function from a
function to a function; `import pullback.numpy as pnp` gives NumPy's functions on pullback's arrays (`pnp.sin`, `pnp.sum`, ...).
"""

from __future__ import annotations

# fmt: off
# ruff: noqa: I001  (the lists of names are packed)

import importlib
from typing import TYPE_CHECKING, Any

from pullback import numpy
from pullback.core import errors
from pullback.core.absent import absent
from pullback.core.execution import loader

__version__ = "0.1.0"

__all__ = [
    "ZERO", "Array", "ArrayType", "CustomVJPPrimal", "Device", "Elementwise", "Primitive", "Program", "ShapeDtypeStruct",
    "SymbolicZero", "Tracer", "block_until_ready", "cache_info", "checkpoint", "checkpoint_name", "checkpoint_policies",
    "clear_caches", "closure_convert", "compat", "custom_gradient", "custom_jvp", "custom_linear_solve", "custom_root",
    "custom_vjp", "custom_vmap", "data", "debug", "default_bits", "default_device", "device_count", "device_get",
    "device_put", "devices", "ensure_compile_time_eval", "errors", "eval_shape", "float0", "grad", "hessian", "hvp",
    "io_callback", "is_unknown", "jacfwd", "jacrev", "jet", "jit", "jvp", "lax", "linear_transpose", "linearize",
    "local_devices", "named_scope", "nn", "nth_derivative", "numpy", "odeint", "primitive", "pure_callback",
    "register_platform", "remat", "saved_residuals", "sparse", "stop_gradient", "testing", "tree", "value_and_grad", "vjp",
    "vmap", "xpr",
]  # fmt: skip

if TYPE_CHECKING:
    from pullback import data, debug, lax, nn, sparse, testing, tree
    from pullback.api.callbacks import io_callback, pure_callback
    from pullback.api.compiled import cache_info, clear_caches, jit
    from pullback.api.custom import closure_convert, custom_gradient, custom_jvp, custom_vjp, custom_vmap
    from pullback.api.derivatives import grad, jvp, linear_transpose, linearize, value_and_grad, vjp
    from pullback.api.devices import block_until_ready, default_device, device_count, device_get, device_put, devices
    from pullback.api.devices import local_devices
    from pullback.api.traced import eval_shape, xpr
    from pullback.api.jacobians import hessian, hvp, jacfwd, jacrev
    from pullback.api.mapping import vmap
    from pullback.api.memory import checkpoint, checkpoint_name, checkpoint_policies, remat, saved_residuals
    from pullback.api.solvers import custom_linear_solve, custom_root
    from pullback.api.taylor import jet, nth_derivative
    from pullback.api.user_rules import CustomVJPPrimal, SymbolicZero
    from pullback.core.abstract import Array
    from pullback.core.devices import Device
    from pullback.core.dtypes import default_bits, float0
    from pullback.core.primitive import Primitive, primitive
    from pullback.program.provenance import named_scope
    from pullback.core.tracing import Tracer, ensure_compile_time_eval
    from pullback.core.types import ArrayType, ShapeDtypeStruct, is_unknown
    from pullback.core.zero import ZERO
    from pullback.engine.xla import register_platform
    from pullback.lax import stop_gradient
    from pullback.ode import odeint
    from pullback.ops.pointwise import Elementwise
    from pullback.program.program import Program

# Importing pullback loads what eager arrays need (`pullback.numpy`); every other name is found, with its module, when it is
# first used.
_HOMES = {
    "api.callbacks": ("io_callback", "pure_callback"),
    "api.compiled": ("cache_info", "clear_caches", "jit"),
    "api.custom": ("closure_convert", "custom_gradient", "custom_jvp", "custom_vjp", "custom_vmap"),
    "api.derivatives": ("grad", "jvp", "linear_transpose", "linearize", "value_and_grad", "vjp"),
    "api.devices": (
        "block_until_ready", "default_device", "device_count", "device_get", "device_put", "devices", "local_devices",
    ),
    "api.traced": ("eval_shape", "xpr"),
    "api.jacobians": ("hessian", "hvp", "jacfwd", "jacrev"),
    "api.mapping": ("vmap",),
    "api.memory": ("checkpoint", "checkpoint_name", "checkpoint_policies", "remat", "saved_residuals"),
    "api.solvers": ("custom_linear_solve", "custom_root"),
    "api.taylor": ("jet", "nth_derivative"),
    "api.user_rules": ("CustomVJPPrimal", "SymbolicZero"),
    "core.abstract": ("Array",),
    "core.devices": ("Device",),
    "core.dtypes": ("default_bits", "float0"),
    "core.primitive": ("Primitive", "primitive"),
    "core.tracing": ("Tracer", "ensure_compile_time_eval"),
    "core.types": ("ArrayType", "ShapeDtypeStruct", "is_unknown"),
    "core.zero": ("ZERO",),
    "engine.xla": ("register_platform",),
    "lax": ("stop_gradient",),
    "ode": ("odeint",),
    "ops.pointwise": ("Elementwise",),
    "program.program": ("Program",),
    "program.provenance": ("named_scope",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = frozenset({"compat", "data", "debug", "lax", "nn", "sparse", "testing", "tree"})


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"pullback.{name}")
    if name not in _HOME_OF:
        raise absent("pullback", name)
    found = getattr(importlib.import_module(f"pullback.{_HOME_OF[name]}"), name)
    globals()[name] = found
    return found


def _load_engine() -> Any:
    """The engine: loaded when something is compiled for the first time."""
    return importlib.import_module("pullback.engine.compile")


loader.load = _load_engine


def __dir__() -> list[str]:
    return sorted(__all__)
