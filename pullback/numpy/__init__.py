"""The NumPy namespace: NumPy's functions, by their names and signatures, on Arrays and traced values.

Every function takes Arrays, traced values, NumPy arrays and Python numbers; Python numbers take the dtype of the arrays that
they meet. Importing this package gives Array and tracers their operators and methods.

In examples `pb` is pullback, `pnp` this module and `np` NumPy: `import pullback as pb, pullback.numpy as pnp, numpy as np`.
"""

from __future__ import annotations

# fmt: off
# ruff: noqa: I001  (the lists of names are packed)

import math
import sys

from pullback.core.source import make_public
from pullback.numpy import methods
from pullback.numpy.arithmetic import (
    abs, absolute, add, around, ceil, divide, divmod, fabs, fix, floor, floor_divide, fmax, fmin, fmod, maximum, minimum, mod,
    modf, multiply, negative, positive, reciprocal, remainder, rint, round, sign, subtract, true_divide, trunc,
)
from pullback.numpy.complexes import (
    angle, conj, conjugate, imag, real,
)
from pullback.numpy.creation import (
    arange, array, asarray, astype, copy, diag, diagflat, diagonal, empty, empty_like, eye, from_dlpack, full, full_like,
    identity, indices, linspace, logspace, meshgrid, ones, ones_like, tri, tril, triu, zeros, zeros_like,
)
from pullback.numpy.dtypes import (
    __array_namespace_info__, bfloat16, bool_, can_cast, complex64, complex128, complexfloating, dtype, finfo, float8_e3m4,
    float8_e4m3, float8_e4m3b11fnuz, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu, float16,
    float32, float64, floating, generic, iinfo, inexact, int8, int16, int32, int64, integer, iscomplexobj, isdtype, isrealobj,
    isscalar, issubdtype, number, promote_types, result_type, signedinteger, uint8, uint16, uint32, uint64, unsignedinteger,
)
from pullback.numpy.elementary import (
    acos, acosh, arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh, asin, asinh, atan, atan2, atanh, cbrt, cos, cosh,
    deg2rad, degrees, exp, exp2, expm1, float_power, hypot, log, log1p, log2, log10, logaddexp, logaddexp2, pow, power,
    rad2deg, radians, sin, sinc, sinh, sqrt, square, tan, tanh,
)
from pullback.numpy.indexing import (
    compress, take, take_along_axis,
)
from pullback.numpy.logic import (
    select, bitwise_and, bitwise_count, bitwise_invert, bitwise_left_shift, bitwise_not, bitwise_or, bitwise_right_shift,
    bitwise_xor, clip, copysign, equal, greater, greater_equal, heaviside, invert, isclose, isfinite, isinf, isnan, isneginf,
    isposinf, left_shift, less, less_equal, logical_and, logical_not, logical_or, logical_xor, nan_to_num, nextafter,
    not_equal, right_shift, signbit, where,
)
from pullback.numpy.padding import pad
from pullback.numpy.products import (
    cross, dot, einsum, inner, kron, matmul, outer, tensordot, trace, vdot, vecdot,
)
from pullback.numpy.reductions import (
    all, allclose, isin, amax, amin, any, argmax, argmin, array_equal, average, count_nonzero, max, mean, min, nanmax,
    nanmean, nanmin, nanprod, nanstd, nansum, nanvar, prod, ptp, std, sum, var,
)
from pullback.numpy.shaping import (
    append, array_split, atleast_1d, atleast_2d, atleast_3d, broadcast_arrays, broadcast_shapes, broadcast_to, column_stack,
    concat, concatenate, dsplit, dstack, expand_dims, flip, fliplr, flipud, hsplit, hstack, matrix_transpose, moveaxis,
    permute_dims, ravel, repeat, reshape, roll, rollaxis, rot90, split, squeeze, stack, swapaxes, tile, transpose, unstack,
    vsplit, vstack,
)

__all__ = [
    "__array_namespace_info__", "abs", "absolute", "acos", "acosh", "add", "all", "allclose", "amax", "amin", "angle", "any",
    "append", "arange", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax", "argmin",
    "around", "array", "array_equal", "array_split", "asarray", "asin", "asinh", "astype", "atan", "atan2", "atanh",
    "atleast_1d", "atleast_2d", "atleast_3d", "average", "bfloat16", "bitwise_and", "bitwise_count", "bitwise_invert",
    "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "bool", "bool_",
    "broadcast_arrays", "broadcast_shapes", "broadcast_to", "can_cast", "cbrt", "ceil", "clip", "column_stack", "complex64",
    "complex128", "complexfloating", "compress", "concat", "concatenate", "conj", "conjugate", "copy", "copysign", "cos",
    "cosh", "count_nonzero", "cross", "deg2rad", "degrees", "diag", "diagflat", "diagonal", "divide", "divmod", "dot",
    "dsplit", "dstack", "dtype", "e", "einsum", "empty", "empty_like", "equal", "euler_gamma", "exp", "exp2", "expand_dims",
    "expm1", "eye", "fabs", "finfo", "fix", "flip", "fliplr", "flipud", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float16", "float32", "float64",
    "float_power", "floating", "floor", "floor_divide", "fmax", "fmin", "fmod", "from_dlpack", "full", "full_like", "generic",
    "greater", "greater_equal", "heaviside", "hsplit", "hstack", "hypot", "identity", "iinfo", "imag", "indices", "inexact",
    "inf", "inner", "int8", "int16", "int32", "int64", "integer", "invert", "isclose", "iscomplexobj", "isdtype", "isfinite",
    "isin", "isinf", "isnan", "isneginf", "isposinf", "isrealobj", "isscalar", "issubdtype", "kron", "left_shift", "less",
    "less_equal", "linspace", "log", "log1p", "log2", "log10", "logaddexp", "logaddexp2", "logical_and", "logical_not",
    "logical_or", "logical_xor", "logspace", "matmul", "matrix_transpose", "max", "maximum", "mean", "meshgrid", "min",
    "minimum", "mod", "modf", "moveaxis", "multiply", "nan", "nan_to_num", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd",
    "nansum", "nanvar", "negative", "newaxis", "nextafter", "not_equal", "number", "ones", "ones_like", "outer", "pad",
    "permute_dims", "pi", "positive", "pow", "power", "prod", "promote_types", "ptp", "rad2deg", "radians", "ravel", "real",
    "reciprocal", "remainder", "repeat", "reshape", "result_type", "right_shift", "rint", "roll", "rollaxis", "rot90",
    "round", "select", "sign", "signbit", "signedinteger", "sin", "sinc", "sinh", "split", "sqrt", "square", "squeeze",
    "stack", "std", "subtract", "sum", "swapaxes", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "trace",
    "transpose", "tri", "tril", "triu", "true_divide", "trunc", "uint8", "uint16", "uint32", "uint64", "unsignedinteger",
    "unstack", "var", "vdot", "vecdot", "vsplit", "vstack", "where", "zeros", "zeros_like",
]  # fmt: skip

pi, e, euler_gamma, inf, nan = math.pi, math.e, 0.5772156649015329, math.inf, math.nan
newaxis = None
bool = bool_

make_public(globals())
methods.install(sys.modules[__name__])
