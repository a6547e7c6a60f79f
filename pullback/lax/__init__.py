"""The primitives as functions, by the names that they are known by. They neither promote nor broadcast; `pb.numpy` does.

A Python number beside an array takes its dtype.
"""

# fmt: off
# ruff: noqa: I001  (the lists of names are packed)
from pullback.api.branches import cond, switch
from pullback.api.loops import associative_scan, fori_loop, map, scan, while_loop
from pullback.api.solvers import custom_linear_solve, custom_root
from pullback.core.source import make_public
from pullback.lax.arrays import (
    argmax, argmin, batch_matmul, bitcast_convert_type, broadcast, broadcast_in_dim, broadcasted_iota, concatenate,
    convert_element_type, dot, dot_general, dynamic_index_in_dim, dynamic_slice, dynamic_slice_in_dim,
    dynamic_update_index_in_dim, dynamic_update_slice, dynamic_update_slice_in_dim, expand_dims, full, full_like, gather,
    index_in_dim, iota, pad, reduce_and, reduce_max, reduce_min, reduce_or, reduce_prod, reduce_sum, reduce_xor, reshape, rev,
    slice, slice_in_dim, squeeze, stop_gradient, transpose,
)
from pullback.lax.collectives import (
    all_gather, all_to_all, axis_index, axis_size, pmax, pmean, pmin, ppermute, pshuffle, psum, psum_scatter, pswapaxes,
)
from pullback.lax.elementwise import (
    abs, acos, acosh, add, asin, asinh, atan, atan2, atanh, bitwise_and, bitwise_not, bitwise_or, bitwise_xor, cbrt, ceil,
    clamp, complex, conj, cos, cosh, digamma, div, eq, erf, erf_inv, erfc, exp, exp2, expm1, floor, ge, gt, imag, integer_pow,
    is_finite, le, lgamma, log, log1p, logistic, lt, max, min, mul, ne, neg, nextafter, population_count, pow, real,
    reciprocal, rem, round, rsqrt, select, select_n, shift_left, shift_right_arithmetic, shift_right_logical, sign, sin, sinh,
    sqrt, square, sub, tan, tanh,
)
from pullback.ops.windows import GatherDimensionNumbers, ScatterDimensionNumbers

__all__ = [
    "GatherDimensionNumbers", "ScatterDimensionNumbers", "abs", "acos", "acosh", "add", "all_gather", "all_to_all", "argmax",
    "argmin", "asin", "asinh", "associative_scan", "atan", "atan2", "atanh", "axis_index", "axis_size", "batch_matmul",
    "bitcast_convert_type", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "broadcast", "broadcast_in_dim",
    "broadcasted_iota", "cbrt", "ceil", "clamp", "complex", "concatenate", "cond", "conj", "convert_element_type", "cos",
    "cosh", "custom_linear_solve", "custom_root", "digamma", "div", "dot", "dot_general", "dynamic_index_in_dim",
    "dynamic_slice", "dynamic_slice_in_dim", "dynamic_update_index_in_dim", "dynamic_update_slice",
    "dynamic_update_slice_in_dim", "eq", "erf", "erf_inv", "erfc", "exp", "exp2", "expand_dims", "expm1", "floor", "fori_loop",
    "full", "full_like", "gather", "ge", "gt", "imag", "index_in_dim", "integer_pow", "iota", "is_finite", "le", "lgamma",
    "log", "log1p", "logistic", "lt", "map", "max", "min", "mul", "ne", "neg", "nextafter", "pad", "pmax", "pmean", "pmin",
    "population_count", "pow", "ppermute", "pshuffle", "psum", "psum_scatter", "pswapaxes", "real", "reciprocal",
    "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "reduce_sum", "reduce_xor", "rem", "reshape", "rev",
    "round", "rsqrt", "scan", "select", "select_n", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign",
    "sin", "sinh", "slice", "slice_in_dim", "sqrt", "square", "squeeze", "stop_gradient", "sub", "switch", "tan", "tanh",
    "transpose", "while_loop",
]  # fmt: skip

make_public(globals())
