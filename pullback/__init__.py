"""pullback: composable function transformations over NumPy-like arrays, compiled by XLA.

`import pullback as pb`: the transformations (`pb.grad`, `pb.jvp`, `pb.vmap`, `pb.jit`, ...), and NumPy's functions on its
arrays (`pb.sin`, `pb.sum`, ..., all of `pb.numpy`). Every transformation is a function from a function to a function.
"""

from __future__ import annotations

# fmt: off
# ruff: noqa: I001  (the lists of names are packed)

import importlib
from typing import TYPE_CHECKING, Any

from pullback import numpy
from pullback.api.derivatives import grad, jvp, linear_transpose, linearize, value_and_grad, vjp
from pullback.api.mapping import vmap
from pullback.core import errors
from pullback.core import execution as _execution
from pullback.core.array import Array
from pullback.core.devices import Device
from pullback.core.dtypes import default_bits, float0
from pullback.core.primitive import Primitive, primitive
from pullback.core.source import named_scope
from pullback.program.program import Program
from pullback.core.tracing import Tracer, ensure_compile_time_eval
from pullback.core.types import ArrayType, is_unknown
from pullback.numpy import (
    allclose, isin, abs, absolute, acos, acosh, add, all, amax, amin, angle, any, append, arange, arccos, arccosh, arcsin,
    arcsinh, arctan, arctan2, arctanh, argmax, argmin, around, array, array_equal, array_split, asarray, asin, asinh, astype,
    atan, atan2, atanh, atleast_1d, atleast_2d, atleast_3d, average, bfloat16, bitwise_and, bitwise_count, bitwise_invert,
    bitwise_left_shift, bitwise_not, bitwise_or, bitwise_right_shift, bitwise_xor, bool_, broadcast_arrays, broadcast_shapes,
    broadcast_to, can_cast, cbrt, ceil, clip, column_stack, complex64, complex128, complexfloating, compress, concat,
    concatenate, conj, conjugate, copysign, cos, cosh, count_nonzero, cross, deg2rad, degrees, diag, diagflat, diagonal,
    divide, divmod, dot, dsplit, dstack, dtype, e, einsum, empty, empty_like, equal, euler_gamma, exp, exp2, expand_dims,
    expm1, eye, fabs, finfo, fix, flip, fliplr, flipud, float8_e3m4, float8_e4m3, float8_e4m3b11fnuz, float8_e4m3fn,
    float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu, float16, float32, float64, float_power, floating, floor,
    floor_divide, fmax, fmin, fmod, from_dlpack, full, full_like, greater, greater_equal, heaviside, hsplit, hstack, hypot,
    identity, iinfo, imag, indices, inexact, inf, inner, int8, int16, int32, int64, integer, invert, isclose, iscomplexobj,
    isdtype, isfinite, isinf, isnan, isneginf, isposinf, isrealobj, isscalar, issubdtype, kron, left_shift, less, less_equal,
    linspace, log, log1p, log2, log10, logaddexp, logaddexp2, logical_and, logical_not, logical_or, logical_xor, logspace,
    matmul, matrix_transpose, max, maximum, mean, meshgrid, min, minimum, mod, modf, moveaxis, multiply, nan, nan_to_num,
    nanmax, nanmean, nanmin, nanprod, nanstd, nansum, nanvar, negative, newaxis, nextafter, not_equal, ones, ones_like, outer,
    pad, permute_dims, pi, positive, pow, power, prod, promote_types, ptp, rad2deg, radians, ravel, real, reciprocal,
    remainder, repeat, reshape, result_type, right_shift, rint, roll, rollaxis, rot90, round, sign, signbit, sin, sinc, sinh,
    split, sqrt, square, squeeze, stack, std, subtract, sum, swapaxes, take, take_along_axis, tan, tanh, tensordot, tile,
    trace, transpose, tri, tril, triu, true_divide, trunc, uint8, uint16, uint32, uint64, unstack, var, vdot, vecdot, vsplit,
    vstack, where, zeros, zeros_like,
)
from pullback.ops.pointwise import Elementwise

__version__ = "0.1.0"
ShapeDtypeStruct = ArrayType

__all__ = [
    "Array", "ArrayType", "CustomVJPPrimal", "Device", "Elementwise", "Primitive", "Program", "ShapeDtypeStruct",
    "SymbolicZero", "Tracer", "abs", "absolute", "acos", "acosh", "add", "all", "allclose", "amax", "amin", "angle", "any",
    "append", "arange", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax", "argmin", "around",
    "array", "array_equal", "array_split", "asarray", "asin", "asinh", "astype", "atan", "atan2", "atanh", "atleast_1d",
    "atleast_2d", "atleast_3d", "average", "bfloat16", "bitwise_and", "bitwise_count", "bitwise_invert", "bitwise_left_shift",
    "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "bool_", "broadcast_arrays", "broadcast_shapes",
    "broadcast_to", "cache_info", "can_cast", "cbrt", "ceil", "checkpoint", "checkpoint_name", "checkpoint_policies",
    "clear_caches", "clip", "closure_convert", "column_stack", "complex64", "complex128", "complexfloating", "compress",
    "concat", "concatenate", "conj", "conjugate", "copysign", "cos", "cosh", "count_nonzero", "cross", "custom_gradient",
    "custom_jvp", "custom_linear_solve", "custom_root", "custom_vjp", "custom_vmap", "default_bits", "default_device",
    "deg2rad", "degrees", "device_count", "device_get", "device_put", "devices", "diag", "diagflat", "diagonal", "divide",
    "divmod", "dot", "dsplit", "dstack", "dtype", "e", "einsum", "empty", "empty_like", "ensure_compile_time_eval", "equal",
    "errors", "euler_gamma", "eval_shape", "exp", "exp2", "expand_dims", "expm1", "eye", "fabs", "finfo", "fix", "flip",
    "fliplr", "flipud", "float0", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float16", "float32", "float64", "float_power", "floating", "floor",
    "floor_divide", "fmax", "fmin", "fmod", "from_dlpack", "full", "full_like", "grad", "greater", "greater_equal", "heaviside",
    "hessian", "hsplit", "hstack", "hvp", "hypot", "identity", "iinfo", "imag", "indices", "inexact", "inf", "inner", "int8",
    "int16", "int32", "int64", "integer", "invert", "io_callback", "is_unknown", "isclose", "iscomplexobj", "isdtype",
    "isfinite", "isin", "isinf", "isnan", "isneginf", "isposinf", "isrealobj", "isscalar", "issubdtype", "jacfwd", "jacrev",
    "jet", "jit", "jvp", "kron", "lax", "left_shift", "less", "less_equal", "linear_transpose", "linearize", "linspace",
    "local_devices", "log", "log1p", "log2", "log10", "logaddexp", "logaddexp2", "logical_and", "logical_not", "logical_or",
    "logical_xor", "logspace", "matmul", "matrix_transpose", "max", "maximum", "mean", "meshgrid", "min", "minimum", "mod",
    "modf", "moveaxis", "multiply", "named_scope", "nan", "nan_to_num", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd",
    "nansum", "nanvar", "negative", "newaxis", "nextafter", "not_equal", "nth_derivative",
    "numpy", "odeint", "ones", "ones_like", "outer", "pad",
    "permute_dims", "pi", "positive", "pow", "power", "primitive", "prod", "promote_types", "ptp", "pure_callback", "rad2deg",
    "radians", "ravel", "real", "reciprocal", "register_platform", "remainder", "remat", "repeat", "reshape", "result_type",
    "right_shift", "rint", "roll", "rollaxis", "rot90", "round", "saved_residuals", "sign", "signbit", "sin", "sinc", "sinh",
    "split", "sqrt", "square", "squeeze", "stack", "std", "stop_gradient", "subtract", "sum", "swapaxes", "take",
    "take_along_axis", "tan", "tanh", "tensordot", "tile", "trace", "transpose", "tree", "tri", "tril", "triu", "true_divide",
    "trunc", "uint8", "uint16", "uint32", "uint64", "unstack", "value_and_grad", "var", "vdot", "vecdot", "vjp", "vmap",
    "vsplit", "vstack", "where", "xpr", "zeros", "zeros_like",
]  # fmt: skip

if TYPE_CHECKING:  # what is loaded when it is first used: eager work needs none of it
    from pullback import lax, tree
    from pullback.api.callbacks import io_callback, pure_callback
    from pullback.api.compiled import cache_info, clear_caches, jit
    from pullback.api.custom import closure_convert, custom_gradient, custom_jvp, custom_vjp, custom_vmap
    from pullback.api.devices import default_device, device_count, device_get, device_put, devices, local_devices
    from pullback.api.inspection import eval_shape, xpr
    from pullback.api.jacobians import hessian, hvp, jacfwd, jacrev
    from pullback.api.memory import checkpoint, checkpoint_name, checkpoint_policies, remat, saved_residuals
    from pullback.api.solvers import custom_linear_solve, custom_root
    from pullback.api.taylor import jet, nth_derivative
    from pullback.api.user_rules import CustomVJPPrimal, SymbolicZero
    from pullback.engine.xla import register_platform
    from pullback.lax import stop_gradient
    from pullback.ode import odeint

_HOMES = {
    "api.callbacks": ("io_callback", "pure_callback"),
    "api.compiled": ("cache_info", "clear_caches", "jit"),
    "api.custom": ("closure_convert", "custom_gradient", "custom_jvp", "custom_vjp", "custom_vmap"),
    "api.devices": ("default_device", "device_count", "device_get", "device_put", "devices", "local_devices"),
    "api.inspection": ("eval_shape", "xpr"),
    "api.jacobians": ("hessian", "hvp", "jacfwd", "jacrev"),
    "api.memory": ("checkpoint", "checkpoint_name", "checkpoint_policies", "remat", "saved_residuals"),
    "api.solvers": ("custom_linear_solve", "custom_root"),
    "api.taylor": ("jet", "nth_derivative"),
    "api.user_rules": ("CustomVJPPrimal", "SymbolicZero"),
    "engine.xla": ("register_platform",),
    "lax": ("stop_gradient",),
    "ode": ("odeint",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_ROOMS = frozenset(
    {"compat", "debug", "explore", "fft", "lax", "linalg", "nn", "parallel", "random", "sparse", "special", "testing", "tree"}
)


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"pullback.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'pullback' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"pullback.{_HOME_OF[name]}"), name)
    globals()[name] = found
    return found


def _load_engine() -> Any:
    """The engine: loaded when something is compiled for the first time."""
    return importlib.import_module("pullback.engine.compile")


_execution.loader.load = _load_engine


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS, "__version__"})
