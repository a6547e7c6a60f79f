"""Whether results are weak, for every function: a weak dtype gives way where it meets another, so a wrong one is a wrong dtype.

The rule, which is JAX's: the result of an elementwise function, or an array made like another or of a number, is weak if the
common dtype of its operands is; that of a reduction, or of a choice of dtype by the function or its caller, is not. Bools are
never weak.
"""

import functools
import inspect

import numpy as np
import pytest
from surface_tables import is_listed

import pullback as pb
from pullback import lax, nn
from pullback import numpy as pnp

WEAK, WEAK_INT, WEAK_COMPLEX = pnp.asarray(0.5), pnp.asarray(2), pnp.asarray(0.5 + 1j)
STRONG, INTS = pnp.asarray(np.array([0.5, 0.25], "f4")), pnp.asarray(np.array([1, 2], "i4"))
HALF, BOOLS = pnp.asarray(np.array([1.0, 2.0], "f2")), pnp.asarray(np.array([True, False]))

KEEPING = [
    "abs",
    "absolute",
    "fabs",
    "negative",
    "positive",
    "sign",
    "sqrt",
    "cbrt",
    "square",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "sin",
    "cos",
    "tan",
    "arcsin",
    "arccos",
    "arctan",
    "sinh",
    "cosh",
    "tanh",
    "arcsinh",
    "arctanh",
    "deg2rad",
    "rad2deg",
    "sinc",
    "floor",
    "ceil",
    "rint",
    "trunc",
    "round",
    "reciprocal",
    "real",
    "conj",
    "ravel",
    "squeeze",
    "transpose",
]
DECIDING = [
    "log2",
    "log10",
    "nan_to_num",
    "sum",
    "prod",
    "max",
    "min",
    "mean",
    "var",
    "std",
    "ptp",
    "average",
    "nansum",
    "nanprod",
    "nanmax",
    "nanmin",
    "nanmean",
    "nanvar",
    "nanstd",
    "argmax",
    "argmin",
    "count_nonzero",
    "any",
    "all",
    "isnan",
    "isfinite",
    "isinf",
    "isposinf",
    "isneginf",
    "signbit",
    "logical_not",
]


@pytest.mark.parametrize("how", ["eager", "jit"])
def test_functions_of_one_array(how):
    for value in (WEAK, WEAK_INT, WEAK_COMPLEX, 0.5, STRONG):
        for name in KEEPING + DECIDING:
            if value is WEAK_COMPLEX and name in ("cbrt", "floor", "ceil", "trunc", "signbit", "fabs", "isposinf", "isneginf"):
                continue
            if value is WEAK_INT and name == "nan_to_num":  # there is nothing to replace in integers
                continue
            function = getattr(pnp, name)
            out = (pb.jit(function) if how == "jit" else function)(value)
            assert out.type.weak == (name in KEEPING and value is not STRONG), (name, value)


BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "floor_divide",
    "remainder",
    "fmod",
    "power",
    "float_power",
    "hypot",
    "logaddexp",
    "logaddexp2",
    "arctan2",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "copysign",
    "heaviside",
    "nextafter",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "isclose",
    "array_equal",
]
OF_BOOL = BINARY[BINARY.index("equal") :]
PAIRS = [
    (WEAK, WEAK, True), (0.5, 0.5, True), (WEAK, 2, True), (WEAK, WEAK_INT, True), (INTS, 0.5, True), (WEAK, STRONG, False),
    (0.5, STRONG, False), (STRONG, 0.5, False), (HALF, 0.5, False), (WEAK, True, True), (WEAK_INT, True, True),
    (STRONG, True, False), (STRONG, INTS, False), (STRONG, STRONG, False),
]  # fmt: skip


def test_functions_of_two_arrays():
    for name in BINARY:
        for x, y, weak in PAIRS:
            out = getattr(pnp, name)(x, y)
            assert out.type.weak == (weak and name not in OF_BOOL), (name, x, y)
    for x, y in ((2, INTS), (INTS, 2), (2.0, INTS)):
        assert not pnp.power(x, y).type.weak and not (x**y).type.weak
    assert not pnp.where(BOOLS, WEAK, STRONG).type.weak and pnp.where(BOOLS, WEAK, 0.5).type.weak
    assert not pnp.array_equal(INTS, 2).type.weak


def test_lax_and_nn():
    for name in [
        "neg",
        "sqrt",
        "rsqrt",
        "cbrt",
        "sign",
        "abs",
        "floor",
        "exp",
        "log",
        "logistic",
        "erf",
        "lgamma",
        "sin",
        "acos",
        "tanh",
        "square",
        "reciprocal",
    ]:
        assert getattr(lax, name)(WEAK).type.weak and not getattr(lax, name)(STRONG).type.weak, name
    for name in ["add", "sub", "mul", "div", "rem", "max", "min", "pow", "atan2", "nextafter"]:
        function = getattr(lax, name)
        assert function(WEAK, WEAK).type.weak and not function(0.5, STRONG).type.weak, name
    for name in ["relu", "relu6", "sigmoid", "log_sigmoid", "silu", "softplus", "gelu", "elu", "leaky_relu"]:
        assert getattr(nn, name)(WEAK).type.weak and not getattr(nn, name)(STRONG).type.weak, name
    for name in ("softmax", "log_softmax", "logsumexp"):
        assert not getattr(nn, name)(STRONG).type.weak and getattr(nn, name)(HALF).dtype == np.float16, name


V, M = pnp.broadcast_to(WEAK, (3,)), pnp.broadcast_to(WEAK, (3, 3))
WEAK_OF_WEAK = {
    pnp.take: lambda: pnp.take(V, 0),
    pnp.take_along_axis: lambda: pnp.take_along_axis(V, np.array([0]), 0),
    pnp.compress: lambda: pnp.compress(np.array([True, False, True]), V),
    pnp.where: lambda: pnp.where(np.array(True), WEAK, WEAK),
    pnp.clip: lambda: pnp.clip(WEAK, 0, 1),
    pnp.select: lambda: pnp.select([np.array(True)], [WEAK], 0.5),
    pnp.dot: lambda: pnp.dot(V, V),
    pnp.einsum: lambda: pnp.einsum("i,i", V, V),
    pnp.inner: lambda: pnp.inner(V, V),
    pnp.kron: lambda: pnp.kron(V, V),
    pnp.matmul: lambda: pnp.matmul(M, M),
    pnp.outer: lambda: pnp.outer(V, V),
    pnp.tensordot: lambda: pnp.tensordot(V, V, 1),
    pnp.vdot: lambda: pnp.vdot(V, V),
    pnp.vecdot: lambda: pnp.vecdot(V, V),
    pnp.array_split: lambda: pnp.array_split(V, 3)[0],
    pnp.broadcast_arrays: lambda: pnp.broadcast_arrays(V, WEAK)[1],
    pnp.broadcast_to: lambda: pnp.broadcast_to(WEAK, (3,)),
    pnp.dsplit: lambda: pnp.dsplit(M[None], 3)[0],
    pnp.expand_dims: lambda: pnp.expand_dims(V, 0),
    pnp.flip: lambda: pnp.flip(V),
    pnp.fliplr: lambda: pnp.fliplr(M),
    pnp.flipud: lambda: pnp.flipud(M),
    pnp.hsplit: lambda: pnp.hsplit(V, 3)[0],
    pnp.matrix_transpose: lambda: pnp.matrix_transpose(M),
    pnp.moveaxis: lambda: pnp.moveaxis(M, 0, 1),
    pnp.pad: lambda: pnp.pad(V, 1),
    pnp.repeat: lambda: pnp.repeat(V, 2),
    pnp.reshape: lambda: pnp.reshape(V, (3, 1)),
    pnp.roll: lambda: pnp.roll(V, 1),
    pnp.rollaxis: lambda: pnp.rollaxis(M, 1),
    pnp.rot90: lambda: pnp.rot90(M),
    pnp.split: lambda: pnp.split(V, 3)[0],
    pnp.swapaxes: lambda: pnp.swapaxes(M, 0, 1),
    pnp.tile: lambda: pnp.tile(V, 2),
    pnp.unstack: lambda: pnp.unstack(V)[0],
    pnp.vsplit: lambda: pnp.vsplit(M, 3)[0],
    pnp.array: lambda: pnp.array(WEAK),
    pnp.asarray: lambda: pnp.asarray(WEAK),
    pnp.empty_like: lambda: pnp.empty_like(V),
    pnp.full: lambda: pnp.full(2, 0.5),
    pnp.full_like: lambda: pnp.full_like(V, 0.5),
    pnp.ones_like: lambda: pnp.ones_like(V),
    pnp.zeros_like: lambda: pnp.zeros_like(V),
    pnp.imag: lambda: pnp.imag(WEAK),
    lax.full: lambda: lax.full((2,), 0.5),
    lax.full_like: lambda: lax.full_like(V, 0.5),
    pnp.copy: lambda: pnp.copy(WEAK),
    pnp.diag: lambda: pnp.diag(V),
    pnp.diagflat: lambda: pnp.diagflat(V),
    pnp.diagonal: lambda: pnp.diagonal(M),
    pnp.meshgrid: lambda: pnp.meshgrid(V, V)[0],
    pnp.tril: lambda: pnp.tril(M),
    pnp.triu: lambda: pnp.triu(M),
    pnp.divmod: lambda: pnp.divmod(WEAK, WEAK)[0],
    pnp.modf: lambda: pnp.modf(WEAK)[0],
    pnp.conjugate: lambda: pnp.conjugate(WEAK),
    pnp.arccosh: lambda: pnp.arccosh(WEAK + 1),
    pnp.bitwise_and: lambda: pnp.bitwise_and(2, 2),
    pnp.bitwise_or: lambda: pnp.bitwise_or(2, 2),
    pnp.bitwise_xor: lambda: pnp.bitwise_xor(2, 2),
    pnp.bitwise_invert: lambda: pnp.bitwise_invert(2),
    pnp.left_shift: lambda: pnp.left_shift(2, 2),
    pnp.right_shift: lambda: pnp.right_shift(2, 2),
    pnp.append: lambda: pnp.append(V, V),
    pnp.atleast_1d: lambda: pnp.atleast_1d(WEAK),
    pnp.atleast_2d: lambda: pnp.atleast_2d(WEAK),
    pnp.atleast_3d: lambda: pnp.atleast_3d(WEAK),
    pnp.column_stack: lambda: pnp.column_stack([V, V]),
    pnp.concatenate: lambda: pnp.concatenate([V, V]),
    pnp.dstack: lambda: pnp.dstack([V, V]),
    pnp.hstack: lambda: pnp.hstack([V, V]),
    pnp.stack: lambda: pnp.stack([V, V]),
    pnp.vstack: lambda: pnp.vstack([V, V]),
    lax.reshape: lambda: lax.reshape(V, (3, 1)),
    lax.transpose: lambda: lax.transpose(M, (1, 0)),
    lax.squeeze: lambda: lax.squeeze(V[None], (0,)),
    lax.expand_dims: lambda: lax.expand_dims(V, (0,)),
    lax.concatenate: lambda: lax.concatenate([V, V], 0),
    lax.broadcast: lambda: lax.broadcast(V, (2,)),
    lax.broadcast_in_dim: lambda: lax.broadcast_in_dim(V, (2, 3), (1,)),
    lax.pad: lambda: lax.pad(V, 0.5, [(1, 0, 0)]),
    lax.rev: lambda: lax.rev(V, (0,)),
    lax.slice: lambda: lax.slice(V, (0,), (2,)),
    lax.slice_in_dim: lambda: lax.slice_in_dim(V, 0, 2),
    lax.index_in_dim: lambda: lax.index_in_dim(V, 0),
    lax.dynamic_slice: lambda: lax.dynamic_slice(V, (0,), (2,)),
    lax.dynamic_slice_in_dim: lambda: lax.dynamic_slice_in_dim(V, 0, 2),
    lax.dynamic_index_in_dim: lambda: lax.dynamic_index_in_dim(V, 0),
    lax.dynamic_update_slice: lambda: lax.dynamic_update_slice(V, V, (0,)),
    lax.dynamic_update_slice_in_dim: lambda: lax.dynamic_update_slice_in_dim(V, V, 0, 0),
    lax.dynamic_update_index_in_dim: lambda: lax.dynamic_update_index_in_dim(V, WEAK, 0, 0),
    lax.dot: lambda: lax.dot(V, V),
    lax.dot_general: lambda: lax.dot_general(V, V, (((0,), (0,)), ((), ()))),
    lax.batch_matmul: lambda: lax.batch_matmul(M[None], M[None]),
    lax.reduce_sum: lambda: lax.reduce_sum(V, (0,)),
    lax.reduce_prod: lambda: lax.reduce_prod(V, (0,)),
    lax.reduce_max: lambda: lax.reduce_max(V, (0,)),
    lax.reduce_min: lambda: lax.reduce_min(V, (0,)),
    lax.integer_pow: lambda: lax.integer_pow(WEAK, 2),
    lax.round: lambda: lax.round(WEAK),
    lax.clamp: lambda: lax.clamp(0.0, WEAK, 1.0),
    lax.select: lambda: lax.select(np.array(True), WEAK, WEAK),
    lax.select_n: lambda: lax.select_n(np.array(True), WEAK, WEAK),
    lax.stop_gradient: lambda: lax.stop_gradient(WEAK),
    lax.complex: lambda: lax.complex(WEAK, WEAK),
    lax.conj: lambda: lax.conj(WEAK),
    lax.real: lambda: lax.real(lax.complex(WEAK, WEAK)),
    lax.imag: lambda: lax.imag(lax.complex(WEAK, WEAK)),
    lax.digamma: lambda: lax.digamma(WEAK),
    lax.bitwise_not: lambda: lax.bitwise_not(2),
    lax.population_count: lambda: lax.population_count(2),
    lax.bitwise_and: lambda: lax.bitwise_and(2, 2),
    lax.shift_left: lambda: lax.shift_left(2, 2),
    lax.shift_right_logical: lambda: lax.shift_right_logical(2, 2),
    lax.shift_right_arithmetic: lambda: lax.shift_right_arithmetic(2, 2),
    lax.scan: lambda: lax.scan(lambda c, x: (c, x), WEAK, V)[0],
    lax.map: lambda: lax.map(lambda x: x, V),
    lax.while_loop: lambda: lax.while_loop(lambda x: x < 0, lambda x: x, WEAK),
    lax.fori_loop: lambda: lax.fori_loop(0, 2, lambda i, x: x, WEAK),
    lax.cond: lambda: lax.cond(True, lambda x: x, lambda x: x, WEAK),
    lax.switch: lambda: lax.switch(0, [lambda x: x] * 2, WEAK),
    lax.associative_scan: lambda: lax.associative_scan(lambda a, b: a + b, V),
}
NEVER_WEAK = {
    pnp.choose: lambda: pnp.choose(np.array([1, 0]), [WEAK, 2.0]),
    pnp.cross: lambda: pnp.cross(V, V),
    pnp.trace: lambda: pnp.trace(M),
    pnp.allclose: lambda: pnp.allclose(V, V),
    pnp.isin: lambda: pnp.isin(V, V),
    pnp.arange: lambda: pnp.arange(3.0),
    pnp.from_dlpack: lambda: pnp.from_dlpack(V),
    pnp.astype: lambda: pnp.astype(WEAK, "float32"),
    pnp.empty: lambda: pnp.empty(2),
    pnp.eye: lambda: pnp.eye(2),
    pnp.identity: lambda: pnp.identity(2),
    pnp.indices: lambda: pnp.indices((2,)),
    pnp.linspace: lambda: pnp.linspace(0.0, 1.0),
    pnp.logspace: lambda: pnp.logspace(0.0, 1.0),
    pnp.ones: lambda: pnp.ones(2),
    pnp.tri: lambda: pnp.tri(2),
    pnp.zeros: lambda: pnp.zeros(2),
    pnp.angle: lambda: pnp.angle(WEAK),
    pnp.bitwise_count: lambda: pnp.bitwise_count(2),
    lax.convert_element_type: lambda: lax.convert_element_type(WEAK, "float32"),
    lax.bitcast_convert_type: lambda: lax.bitcast_convert_type(WEAK, "int32"),
    lax.iota: lambda: lax.iota("float32", 2),
    lax.broadcasted_iota: lambda: lax.broadcasted_iota("float32", (2,), 0),
    lax.argmax: lambda: lax.argmax(V, 0, "int32"),
    lax.argmin: lambda: lax.argmin(V, 0, "int32"),
    lax.is_finite: lambda: lax.is_finite(WEAK),
    lax.eq: lambda: lax.eq(WEAK, WEAK),
}
# What decides a dtype decides weakness too: an argument `dtype`, a list, another array's dtype.
DECIDED = {
    "array of a list": lambda: pnp.array([WEAK, 0.5]),
    "asarray of a list": lambda: pnp.asarray([0.5]),
    "array of a bool": lambda: pnp.array(True),
    "array, dtype": lambda: pnp.array(WEAK, "float32"),
    "asarray, dtype": lambda: pnp.asarray(0.5, float),
    "full, dtype": lambda: pnp.full(2, WEAK, "float32"),
    "full of a strong number": lambda: pnp.full(2, np.float32(1)),
    "full_like, dtype": lambda: pnp.full_like(V, 0.5, "float32"),
    "full_like of a strong array": lambda: pnp.full_like(STRONG, 0.5),
    "full_like with an array": lambda: pnp.full_like(V, np.ones(3, "f4")),
    "zeros_like, dtype": lambda: pnp.zeros_like(V, "float32"),
    "ones_like of a strong array": lambda: pnp.ones_like(STRONG),
    "lax.full, dtype": lambda: lax.full((2,), 0.5, "float32"),
    "imag of a strong array": lambda: pnp.imag(STRONG),
}
OF_NUMBERS = (
    "abs acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erf_inv erfc exp exp2 expm1 floor lgamma log log1p logistic"
    " neg reciprocal rsqrt sign sin sinh sqrt square tan tanh"
)
OF_PAIRS = "add atan2 div max min mul nextafter pow rem sub"
OF_WHOLE = "bitwise_or bitwise_xor"
COMPARE = "ge gt le lt ne"
OF_AXES = "all_gather all_to_all pmax pmean pmin ppermute pshuffle psum psum_scatter pswapaxes"  # test_collectives
# These return no array of the library's making: dtypes, shapes, Python numbers, or what functions of the user's return.
OTHERS = {"broadcast_shapes", "can_cast", "finfo", "iinfo", "iscomplexobj", "isdtype", "isrealobj", "isscalar", "issubdtype"}
OTHERS |= {"promote_types", "result_type", "__array_namespace_info__", "axis_index", "axis_size", "custom_root", "gather"}
OTHERS |= {"custom_linear_solve", "GatherDimensionNumbers", "ScatterDimensionNumbers", "reduce_and", "reduce_or", "reduce_xor"}
OTHERS |= {"with_sharding_constraint", "pcast", "pvary"}  # they need a mesh: tests/parallel


@pytest.mark.parametrize("how", ["eager", "jit"])
def test_other_functions(how):
    for table, weak in ((WEAK_OF_WEAK, True), (NEVER_WEAK, False), (DECIDED, False)):
        out = (
            pb.jit(lambda table=table: [call() for call in table.values()])() if how == "jit" else [c() for c in table.values()]
        )
        assert [function for function, one in zip(table, out) if one.type.weak != weak] == []
    for name in OF_NUMBERS.split():
        assert getattr(lax, name)(pnp.asarray(1) * 0.5 if name != "acosh" else pnp.asarray(1.5)).type.weak, name
    for name in OF_PAIRS.split():
        assert getattr(lax, name)(WEAK, 0.5).type.weak and not getattr(lax, name)(STRONG, 0.5).type.weak, name
    for name in OF_WHOLE.split():
        assert getattr(lax, name)(WEAK_INT, 1).type.weak and not getattr(lax, name)(INTS, 1).type.weak, name
    for name in COMPARE.split():
        assert not getattr(lax, name)(WEAK, 0.5).type.weak, name


def test_every_public_function_is_in_a_table():
    listed = {getattr(pnp, name) for name in KEEPING + DECIDING + BINARY} | set(WEAK_OF_WEAK) | set(NEVER_WEAK)
    listed |= {getattr(lax, name) for names in (OF_NUMBERS, OF_PAIRS, OF_WHOLE, COMPARE, OF_AXES) for name in names.split()}
    for room, module in (("numpy", pnp), ("lax", lax)):
        names = [name for name in module.__all__ if name not in OTHERS and not is_listed(f"{room}.{name}")]
        functions = {name: getattr(module, name) for name in names}
        missing = [name for name, found in functions.items() if inspect.isfunction(found) and found not in listed]
        assert not missing, f"add {missing} of {module.__name__} to a table: is the result weak where the operands are?"


ALONG_NUMBERS = {
    "jvp": lambda f, x: pb.jvp(f, (x,), (1.0,))[1],
    "vjp": lambda f, x: pb.vjp(f, x)[1](1.0)[0],
    "linearize": lambda f, x: pb.linearize(f, x)[1](1.0),
    "linear_transpose": lambda f, x: pb.linear_transpose(f, x)(1.0)[0],
    "jvp of grad": lambda f, x: pb.jvp(pb.grad(lambda x: f(x) * x), (x,), (1.0,))[1],
}


@pytest.mark.parametrize("how", ["eager", "jit"])
@pytest.mark.parametrize("transformation", ALONG_NUMBERS)
def test_a_derivative_along_a_python_number_is_as_strong_as_what_it_is_the_derivative_of(transformation, how):
    for x, weak in ((STRONG[0], False), (WEAK, True)):
        call = functools.partial(ALONG_NUMBERS[transformation], lambda x: 2.0 * x)
        out = pb.jit(call)(x) if how == "jit" else call(x)
        assert out.type.weak == weak and out.type.dtype == "float32"
