"""Costs: each primitive's rule against what XLA counts of it, and against the counts of textbooks."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.core.primitive import Primitive
from pullback.program.cost import Cost, cost, equation_cost
from pullback.testing import all_primitives

# ---- against XLA ------------------------------------------------------------


def words(text: str) -> set[str]:
    return set(text.split())


# What XLA counts as one operation, or as one transcendental function, of each element or pair: its numbers are ours.
SAME = words(
    "abs add ceil clamp clz eq floor ge gt is_finite le lt max min mul ne neg not_ and_ or_ xor population_count"
    " one_minus_square rem round select shift_left shift_right_arithmetic shift_right_logical sign square sub weigh"
    " hold atan atan2 cbrt cos erf exp exp2 expm1 log log1p pow rsqrt sin sqrt tan tanh reduce_and reduce_max"
    " reduce_min reduce_or reduce_prod reduce_sum reduce_xor reduce_window_max reduce_window_min reduce_window_prod"
    " reduce_window_sum conv_general_dilated broadcast_in_dim concatenate dynamic_slice dynamic_update_slice iota"
    " optimization_barrier pad reduce_precision reshape rev slice squeeze stop_gradient transpose variation"
)
# Made of several operations: what ours says of each element is an estimate, which XLA's count of these operations confirms.
FORMULAS = words(
    "acos acosh asin asinh atanh bessel_i betaln cosh cosine_of cumlogsumexp digamma draw erfc erf_inv erfcx"
    " erfcx_slope exprel floor_divide fold_in folded gamma gaussian hypot lgamma linear_scan log1p_ratio log_factorial"
    " log_ndtr logaddexp logaddexp2 logistic logit ndtr nextafter normal_excess normal_hazard over_gap quantile"
    " rel_entr remainder rng_bit_generator scaled_slope scatter_add scatter_max scatter_min scatter_mul sech_squared"
    " sinc sinh spread xlog1py xlogy div dot_general"
)
# Not comparable, and why.
APART = {
    "LAPACK computes it, of which XLA knows nothing": "cholesky cofactors det eig eigh geqrf hessenberg lu pinv pivots_of_qr"
    " polar_factor qr schur slogdet solve svd triangular_solve tridiagonal tridiagonal_solve",
    "the host computes it, of which XLA knows nothing": "bessel_j beta_density beta_sensitivity betainc betaincc betaincinv"
    " binomial cosine_integral dawsn dawsn_slope exp1 expi expn fresnel_c fresnel_s gamma_density gamma_sensitivity gammaincinv"
    " hyp1f1 hyp2f1 igamma igammac legendre matrix_function ndtri owens_t poch polygamma sine_integral spence sylvester_solve"
    " wofz zeta digamma_gap",
    "XLA counts a loop once, or what compares and moves indices": "argmax argmin cummax cummin cumprod cumsum gather gcd"
    " lu_pivots_to_permutation order scatter search seeded sort window_argmax integer_pow",
    "XLA counts numbers, and ours are operations on real ones": "bitcast_convert_type complex conj convert_element_type fft"
    " imag real",
    "it needs a mesh, or says nothing": "aligned all_gather all_to_all axis_index pmax pmin ppermute psum psum_over_varying"
    " psum_scatter pvary pvary_over_varying sharding_constraint",
}


def samples_of(primitive: Primitive) -> list[tuple[list[Any], dict[str, Any]]]:
    """Two samples, of dtypes that the primitive takes, and of real numbers where it takes these."""
    found = []
    for args, params in list(primitive.samples(np.random.default_rng(0)))[:2]:  # type: ignore[misc]
        arrays = []
        for arg in args:
            array = np.asarray(arg)
            if "f" not in primitive.kinds and array.dtype == np.float64:
                array = array.astype(np.int32)
            elif array.dtype == np.float64:
                array = array.astype(np.float32)
            arrays.append(array if not isinstance(arg, pb.Array) else arg)
        found.append((arrays, params))
    return found


def by_xla(primitive: Primitive, args: Any, params: dict[str, Any]) -> tuple[float, float]:
    """The operations and the transcendental functions that XLA counts."""
    found = pb.jit(lambda *xs: primitive(*xs, **params)).lower(*args).compile().cost_analysis()
    return found.get("flops", 0.0), found.get("transcendentals", 0.0)


BY_NAME = {p.name: p for p in all_primitives()}


def test_each_primitive_with_samples_is_in_one_of_the_tables() -> None:
    apart = words(" ".join(APART.values()))
    shown = {p.name for p in all_primitives() if p.samples is not None and list(p.samples(np.random.default_rng(0)))}
    assert not SAME & FORMULAS and not SAME & apart and not FORMULAS & apart
    assert shown - SAME - FORMULAS - apart == set()
    assert (SAME | FORMULAS | apart) - BY_NAME.keys() == set()


@pytest.mark.parametrize("name", sorted(SAME))
def test_xla_counts_the_same(name: str) -> None:
    primitive = BY_NAME[name]
    for args, params in samples_of(primitive):
        program = pb.xpr(lambda *xs: primitive(*xs, **params), *args)
        own = cost(program)
        assert (own.flops, own.transcendentals) == by_xla(primitive, args, params), [x.shape for x in args]


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_estimates_are_of_the_size_that_xla_counts(name: str) -> None:
    primitive = BY_NAME[name]
    for args, params in samples_of(primitive):
        own = cost(pb.xpr(lambda *xs: primitive(*xs, **params), *args))
        flops, functions = by_xla(primitive, args, params)
        theirs = flops + 10 * functions
        assert theirs / 6 <= own.work <= 3 * theirs, (own, flops, functions)


MATRICES = np.ones((4, 6), "float32"), np.ones((6, 5), "float32")


def test_a_program_without_fusion_costs_what_xla_says() -> None:
    def layer(x: Any, w: Any) -> Any:
        return pnp.tanh(x @ w)

    found = cost(pb.xpr(layer, *MATRICES))
    theirs = pb.jit(layer).lower(*MATRICES).compile().cost_analysis()
    assert (found.flops, found.transcendentals) == (theirs["flops"], theirs["transcendentals"]) == (240, 20)


# ---- against textbooks ------------------------------------------------------------

N = 50
SQUARE = pb.ArrayType((N, N), "float32")
TALL = pb.ArrayType((80, N), "float32")
C64 = pb.ArrayType((N, N), "complex64")
TEXTBOOK: dict[str, tuple[Any, tuple[Any, ...], float]] = {
    "product": (lambda a, b: a @ b, (pb.ArrayType((7, 3, 4)), pb.ArrayType((7, 4, 5))), 2 * 7 * 3 * 4 * 5),
    "product of complex numbers": (lambda a, b: a @ b, (C64, C64), 8 * N**3),
    "sum of complex numbers": (pnp.add, (C64, C64), 2 * N**2),
    "elementwise product of complex numbers": (pnp.multiply, (C64, C64), 6 * N**2),
    "elementwise quotient of complex numbers": (pnp.divide, (C64, C64), 11 * N**2),
    "elementwise quotient": (pnp.divide, (SQUARE, SQUARE), N**2),
    "products of complex numbers up to each": (pnp.cumprod, (C64,), 6 * N**2),
    "sums of complex numbers up to each": (pnp.cumsum, (C64,), 2 * N**2),
    "what Python computes": (lambda x: pb.pure_callback(np.sin, SQUARE, x), (SQUARE,), 0),
    "sum": (pnp.sum, (SQUARE,), N**2 - 1),
    "sum of rows": (lambda x: pnp.sum(x, 1), (SQUARE,), N * (N - 1)),
    "sum of nothing": (pnp.sum, (pb.ArrayType((0, 3)),), 0),
    "transposed": (pnp.transpose, (SQUARE,), 0),
    "taken": (lambda x: x[3:10:2, ::-1], (SQUARE,), 0),
    "cube": (lambda x: x**3, (SQUARE,), 2 * N**2),
    "tenth power": (lambda x: x**10, (SQUARE,), 4 * N**2),
    "inverse square": (lambda x: x**-2, (SQUARE,), 2 * N**2),
    "cholesky": (lax.linalg.cholesky, (SQUARE,), N**3 / 3),
    "lu": (lambda x: lax.linalg.lu(x)[0], (SQUARE,), 2 * N**3 / 3),
    "lu, tall": (lambda x: lax.linalg.lu(x)[0], (TALL,), 80 * N**2 - N**3 / 3),
    "triangular solve": (
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True),
        (SQUARE, pb.ArrayType((N, 3))),
        3 * N**2,
    ),
    "solve": (pnp.linalg.solve, (SQUARE, pb.ArrayType((N, 3))), 2 * N**3 / 3 + 6 * N**2),
    "qr": (lambda x: pnp.linalg.qr(x), (TALL,), 2 * (2 * 80 * N**2 - 2 * N**3 / 3)),
    "eigenvalues of a symmetric matrix": (pnp.linalg.eigvalsh, (SQUARE,), 4 * N**3 / 3),
    "singular values": (lambda x: pnp.linalg.svd(x, compute_uv=False), (TALL,), 4 * 80 * N**2 - 4 * N**3 / 3),
    "fft": (pnp.fft.fft, (pb.ArrayType((3, 64), "complex64"),), 5 * 3 * 64 * 6),
    "fft of real numbers": (pnp.fft.rfft, (pb.ArrayType((3, 64), "float32"),), 2.5 * 3 * 64 * 6),
    "fft along two axes": (pnp.fft.fft2, (pb.ArrayType((8, 8), "complex64"),), 5 * 64 * 6),
    "sort": (pnp.sort, (pb.ArrayType((3, 64), "float32"),), 3 * 64 * 6),
}


@pytest.mark.parametrize(
    "method, dtype, each",
    [("add", "float32", 1), ("add", "complex64", 2), ("multiply", "complex64", 6), ("set", "complex64", 0)],
)
def test_what_is_scattered_is_combined_in_real_numbers(method: str, dtype: str, each: int) -> None:
    x, updates = pb.ArrayType((10, 3), dtype), pb.ArrayType((4, 3), dtype)
    program = pb.xpr(lambda x, u: getattr(x.at[np.array([1, 2, 3, 1])], method)(u), x, updates)
    (one,) = [one for one in program.equations if one.primitive.name.startswith("scatter")]
    assert equation_cost(one).flops == each * updates.size


def test_what_is_printed_costs_no_arithmetic() -> None:
    def told(x: Any) -> Any:
        pb.debug.print("{}", x)
        return x + 1.0

    assert cost(pb.xpr(told, SQUARE)).flops == cost(pb.xpr(lambda x: x + 1.0, SQUARE)).flops


@pytest.mark.parametrize("name", TEXTBOOK)
def test_textbooks(name: str) -> None:
    function, types, operations = TEXTBOOK[name]
    program = pb.xpr(function, *types)
    main = max([equation_cost(one).flops for one in program.equations])  # the others sign, scale and cut
    assert main == pytest.approx(operations, rel=0.02)


CONVOLUTIONS = [
    {"window_strides": (1, 1), "padding": "SAME"},
    {"window_strides": (2, 3), "padding": "VALID"},
    {"window_strides": (2, 2), "padding": ((3, 0), (0, 4))},
    {"window_strides": (1, 2), "padding": ((-1, 2), (1, -1))},
    {"window_strides": (1, 1), "padding": ((2, 2), (1, 1)), "lhs_dilation": (2, 3)},
    {"window_strides": (2, 3), "padding": ((2, 1), (4, 1)), "lhs_dilation": (4, 2), "rhs_dilation": (1, 2)},
    {"window_strides": (3, 1), "padding": ((0, 0), (9, 9)), "rhs_dilation": (2, 1)},
]


@pytest.mark.parametrize("params", CONVOLUTIONS, ids=str)
def test_a_convolution_counts_what_meets(params: dict[str, Any]) -> None:
    """An all-ones convolution counts for each result how many pairs of elements meet there."""
    x, kernel = np.ones((2, 3, 7, 6), "float32"), np.ones((4, 3, 3, 2), "float32")
    total = float(pnp.sum(lax.conv_general_dilated(x, kernel, **params)))
    found = cost(pb.xpr(lambda x, k: lax.conv_general_dilated(x, k, **params), x, kernel))
    assert found.flops == 2 * total


# ---- bytes ------------------------------------------------------------

LONG = pb.ArrayType((1000, 4), "float32")  # 16,000 bytes
BYTES: dict[str, tuple[Any, float]] = {
    "all operands and results": (lambda x: x + x[:1], 16000 * 2 + 16000),
    "an alias": (lambda x: x.reshape(4, 1000), 0),
    "a slice is read and written": (lambda x: x[10:20], 2 * 160),
    "rows that are gathered": (lambda x: lax.dynamic_slice(x, (pnp.int32(3), pnp.int32(0)), (2, 4)), 2 * 32 + 8),
    "a block that is written": (lambda x: lax.dynamic_update_slice(x, x[:2], (pnp.int32(3), pnp.int32(0))), 2 * 32 + 8),
    "what is added at some places": (lambda x: x.at[pnp.array([5, 7])].add(1.0), 3 * 2 * 16 + 8),
}


@pytest.mark.parametrize("name", BYTES)
def test_bytes(name: str) -> None:
    function, wanted = BYTES[name]
    assert equation_cost(pb.xpr(function, LONG).equations[-1]).bytes == wanted


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "int8", "bool", "complex64"])
def test_bytes_are_of_the_dtype(dtype: str) -> None:
    x = pb.ArrayType((8,), dtype)
    program = pb.xpr(lambda x: pnp.concatenate([x, x]), x)
    size = np.dtype(getattr(ml_dtypes, dtype, dtype)).itemsize
    assert cost(program).bytes == (8 + 16) * size  # what is an operand twice is read once


# ---- loops, branches, custom functions, solvers ------------------------------------------------------------


def test_a_scan_counts_its_steps() -> None:
    x = pb.ArrayType((4, 4), "float32")
    program = pb.xpr(lambda x: lax.scan(lambda c, _: (c @ c, None), x, None, length=12)[0], x)
    assert cost(program) == Cost(12 * 128, 12 * 2 * 64, 0, 12 * 128)


def test_nested_scans_multiply() -> None:
    def step(c: Any, _: Any) -> Any:
        return lax.fori_loop(0, 5, lambda i, c: pnp.sin(c), c), None

    assert cost(pb.xpr(lambda x: lax.scan(step, x, None, length=3)[0], pb.ArrayType((2,)))).transcendentals == 3 * 5 * 2


def test_a_scan_of_no_steps_costs_nothing() -> None:
    assert cost(pb.xpr(lambda x: lax.scan(lambda c, _: (c @ c, None), x, None, length=0)[0], SQUARE)).work == 0


def test_of_a_while_loop_one_step_counts_and_it_says_so() -> None:
    program = pb.xpr(lambda x: lax.while_loop(lambda c: pnp.sum(c) < 9.0, lambda c: c @ c, x), pb.ArrayType((4, 4)))
    assert cost(program) == Cost(15 + 1 + 128, 68 + 9 + 128, 0, 144, 0, 1)
    twice = pb.xpr(lambda x: lax.scan(lambda c, _: (program(c), None), x, None, length=3)[0], pb.ArrayType((4, 4)))
    assert cost(twice).flops == 3 * 144 and cost(twice).loops == 1


def test_of_branches_the_most_expensive_counts() -> None:
    def f(x: Any) -> Any:
        return lax.switch(1, [lambda x: x, lambda x: x @ x @ x, lambda x: x @ x], x)

    program = pb.xpr(f, SQUARE)
    inner = next((e for e in program.equations if e.primitive.name == "cond"), None)
    assert (equation_cost(inner).flops if inner is not None else cost(program).flops) == 4 * N**3


def test_custom_functions_cost_what_they_compute() -> None:
    @pb.custom_vjp
    def f(x: Any) -> Any:
        return pnp.sin(x)

    def forward(x: Any) -> Any:
        return pnp.sin(x), x

    def backward(x: Any, cotangent: Any) -> Any:
        return (cotangent * pnp.cos(x) * 2.0,)

    f.defvjp(forward, backward)
    assert cost(pb.xpr(f, pb.ArrayType((8,)))).transcendentals == 8
    gradient = pb.grad(lambda x: pnp.sum(f(x)))
    assert cost(pb.xpr(gradient, pb.ArrayType((8,)))).transcendentals >= 8


def test_of_a_linear_solve_the_solver_counts_alone() -> None:
    def f(a: Any, b: Any) -> Any:
        return pb.custom_linear_solve(lambda x: a @ x, b, lambda matvec, b: pnp.linalg.solve(a, b), symmetric=True)

    found = cost(pb.xpr(f, SQUARE, pb.ArrayType((N,), "float32")))
    assert found.flops == pytest.approx(2 * N**3 / 3 + 2 * N**2, rel=0.01)


def test_jit_costs_what_it_holds_and_checkpoint_what_it_does_again() -> None:
    def f(x: Any) -> Any:
        return pnp.sum(pnp.sin(pnp.sin(x)))

    x = pb.ArrayType((100,))
    assert cost(pb.xpr(pb.jit(f), x)) == cost(pb.xpr(f, x))
    plain, again = cost(pb.xpr(pb.value_and_grad(f), x)), cost(pb.xpr(pb.value_and_grad(pb.checkpoint(f)), x))
    assert again.transcendentals > plain.transcendentals


# ---- collectives ------------------------------------------------------------

SENT = {
    "psum": (lambda x: lax.psum(x, "i"), 4 * 2 * 3 / 4 * 32),
    "pmax": (lambda x: lax.pmax(x, "i"), 4 * 2 * 3 / 4 * 32),
    "all_gather": (lambda x: lax.all_gather(x, "i"), 4 * 3 * 32),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "i", tiled=True), 4 * 3 / 4 * 32),
    "ppermute": (lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 3), (3, 0)]), 4 * 32),
    "ppermute of some": (lambda x: lax.ppermute(x, "i", [(0, 1), (2, 2), (3, 0)]), 2 * 32),
    "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True), 4 * 3 / 4 * 32),
    "axis_index": (lambda x: x * lax.axis_index("i").astype(x.dtype), 0),
    "two of them in a loop": (
        lambda x: lax.scan(lambda c, _: (lax.psum(c, "i") * 0.5, None), x, None, length=2)[0],
        2 * 4 * 48,
    ),
}


@pytest.mark.parametrize("name", SENT)
def test_bytes_sent(name: str) -> None:
    function, wanted = SENT[name]
    mesh = pb.sharding.AbstractMesh((4,), ("i",))
    mapped = pb.shard_map(function, mesh=mesh, in_specs=pb.P("i"), out_specs=pb.P("i"), check_vma=False)
    found = cost(pb.xpr(mapped, pb.ArrayType((32,), "float32")))
    assert found.sent == wanted


def test_along_a_vmap_nothing_is_sent() -> None:
    def summed(x: Any) -> Any:
        return lax.psum(x, "i")

    program = pb.xpr(pb.vmap(summed, axis_name="i"), pb.ArrayType((4, 8), "float32"))
    assert cost(program).sent == 0 and cost(program).flops == 24


def test_what_devices_do_with_their_shards_counts_for_all() -> None:
    mesh = pb.sharding.AbstractMesh((4,), ("i",))
    mapped = pb.shard_map(lambda x: x * 2.0, mesh=mesh, in_specs=pb.P("i"), out_specs=pb.P("i"))
    assert cost(pb.xpr(mapped, pb.ArrayType((32,), "float32"))).flops == 32


def test_rules_that_say_no_number_are_errors() -> None:
    for field in ("cost", "traffic"):
        wrong: Any = pb.Primitive("wrong", result_type=lambda x: x, evaluate=lambda x: x, **{field: lambda *types: "many"})
        with pytest.raises(pb.errors.ProgramError, match=f"The {field} rule of primitive 'wrong' must return a number"):
            cost(pb.xpr(wrong, 1.0))


def test_counts_are_finite_for_zero_sizes() -> None:
    for function in (pnp.sum, lambda x: x @ x.T, pnp.sort, lambda x: pnp.fft.fft(x, 4), lambda x: pnp.linalg.svd(x.T @ x)):
        assert math.isfinite(cost(pb.xpr(function, pb.ArrayType((0, 3), "float32"))).work)
