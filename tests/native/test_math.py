"""The functions of the native tier against mpmath, in units in the last place; and their values at the ends of their domains
against NumPy's and SciPy's."""

from __future__ import annotations

import ctypes
import functools
import math

import ml_dtypes
import mpmath
import numpy as np
import pytest
import scipy.special

from pullback.native.compile import LoadedCode, Target, host, object_code
from pullback.native.elementary import TINY
from pullback.native.ir import Code, Module
from pullback.native.math import FUNCTIONS, apply, weight

DTYPES = {"f64": np.dtype("f8"), "f32": np.dtype("f4"), "f16": np.dtype("f2"), "bf16": np.dtype(ml_dtypes.bfloat16)}
BINARY = ("power", "atan2", "remainder", "chlo.next_after")
FLUSH = 0x8040  # of MXCSR: denormal numbers count as zeros, and none is computed


HEAD = "define void @run(ptr %operand0, ptr %operand1, ptr %out, i64 %bytes, i32 %mode)"
BODY = """
entry:
  %before = alloca i32
  %during = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %before)
  %control = load i32, ptr %before
  %changed = or i32 %control, %mode
  store i32 %changed, ptr %during
  call void @llvm.x86.sse.ldmxcsr(ptr %during)
  br label %loop
loop:
  %at = phi i64 [0, %entry], [%next, %{last}]
{body}
  %next = add i64 %at, {step}
  %more = icmp ult i64 %next, %bytes
  br i1 %more, label %loop, label %done
done:
  call void @llvm.x86.sse.ldmxcsr(ptr %before)
  ret void
"""
REST = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
attributes #0 = { nounwind }
attributes #1 = { noinline nounwind }
attributes #2 = { alwaysinline nounwind }
"""


@functools.cache
def kernel(name, kind, lanes, fma=True, avx512=True, constants=()):
    """A function of arrays that applies one of the tier's; operands whose number stands in `constants` are that."""
    code = Code(Module(64, fma, fma and avx512 and host().avx512))
    code.block = "loop"
    operands = []
    for i in range(2 if name in BINARY else 1):
        if i < len(constants) and constants[i] is not None:
            operands.append(code.constant(constants[i], kind, lanes if name not in BINARY else None))
        else:
            at = code.pure(f"getelementptr i8, ptr %operand{i}, i64 %at", "ptr")
            operands.append(code.load(at, kind, lanes))
    out = apply(code, name, operands)
    out = code.rounded(out, kind) if kind in ("f16", "bf16") else out
    code.store(out, code.pure("getelementptr i8, ptr %out, i64 %at", "ptr"))
    dtype, per_step = DTYPES[kind], lanes or 1
    body = "\n".join([*code.allocated, *code.lines])
    text = code.module.text(HEAD, BODY.format(body=body, last=code.block, step=per_step * dtype.itemsize)) + REST
    loaded = LoadedCode(object_code(text, host() if fma else Target(host().triple, "x86-64-v2"), kept=False), ("run",))
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64, ctypes.c_int32)(loaded.addresses["run"])

    def call(*arrays, flush=True):
        arrays = np.broadcast_arrays(*[np.asarray(array, dtype) for array in arrays])
        count = arrays[0].size
        filled = [np.resize(array, -(-count // per_step) * per_step) for array in arrays]
        out = np.empty_like(filled[0])
        run(filled[0].ctypes.data, filled[-1].ctypes.data, out.ctypes.data, out.nbytes, FLUSH if flush else 0)
        return out[:count]

    call.code, call.text = loaded, text  # which must live as long
    return call


# ---- what is true ---------------------------------------------------------------------------------------------------


def real_cbrt(x):
    return mpmath.sign(x) * mpmath.cbrt(abs(x))


TRUTH = {
    "exponential": mpmath.exp,
    "exponential_minus_one": mpmath.expm1,
    "log": mpmath.log,
    "log_plus_one": mpmath.log1p,
    "logistic": lambda x: 1 / (1 + mpmath.exp(-x)),
    "tanh": mpmath.tanh,
    "sine": mpmath.sin,
    "cosine": mpmath.cos,
    "tan": mpmath.tan,
    "cbrt": real_cbrt,
    "power": lambda x, y: mpmath.power(x, y),
    "atan2": mpmath.atan2,
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "remainder": lambda x, y: mpmath.mpf(math.fmod(x, y)),
    "chlo.acos": mpmath.acos,
    "chlo.acosh": mpmath.acosh,
    "chlo.asin": mpmath.asin,
    "chlo.asinh": mpmath.asinh,
    "chlo.atan": mpmath.atan,
    "chlo.atanh": mpmath.atanh,
    "chlo.cosh": mpmath.cosh,
    "chlo.digamma": mpmath.digamma,
    "chlo.erf": mpmath.erf,
    "chlo.erf_inv": mpmath.erfinv,
    "chlo.erfc": mpmath.erfc,
    "chlo.lgamma": lambda x: mpmath.re(mpmath.loggamma(x)),
    "chlo.sinh": mpmath.sinh,
}

SPREAD = ("spread", 1e-300, 1e300)  # of float64; of float32 the range of that
POSITIVE, NEAR_ONE = ("positive", 1e-300, 1e300), (0.5, 2.0)
# Where each function is tested: between two numbers, or over their powers of ten (of both signs, unless only positive ones).
REGIONS = {
    "exponential": [(-708.39, 709.78), (-1, 1), ("spread", 1e-20, 600.0)],
    "exponential_minus_one": [(-45, 709.78), (-1.5, 1.5), ("spread", 1e-300, 600.0)],
    "log": [POSITIVE, NEAR_ONE, (0.99, 1.01)],
    "log_plus_one": [(-1, 3), (-0.01, 0.01), ("spread", 1e-300, 0.9), POSITIVE],
    "logistic": [(-708, 40), (-3, 3), ("spread", 1e-20, 300.0)],
    "tanh": [(-23, 23), (-1, 1), SPREAD],
    "sine": [(-10, 10), (-0.8, 0.8), (-1e6, 1e6), SPREAD, "turns"],
    "cosine": [(-10, 10), (-0.8, 0.8), (-1e6, 1e6), SPREAD, "turns"],
    "tan": [(-10, 10), (-0.8, 0.8), (-1e6, 1e6), SPREAD, "turns"],
    "cbrt": [SPREAD, (1, 8), (-1, 1)],
    "sqrt": [POSITIVE, (1, 4)],
    "rsqrt": [POSITIVE, (1, 4)],
    "chlo.acos": [(-1, 1), ("spread", 1e-20, 1.0), (0.999, 1)],
    "chlo.acosh": [("positive", 1.0, 1e300), (1, 2), (1, 1.001)],
    "chlo.asin": [(-1, 1), ("spread", 1e-300, 1.0), (0.999, 1)],
    "chlo.asinh": [SPREAD, (-3, 3)],
    "chlo.atan": [SPREAD, (-3, 3), (0.9, 1.1)],
    "chlo.atanh": [(-1, 1), ("spread", 1e-300, 1.0)],
    "chlo.cosh": [(-710, 710), (-2, 2)],
    "chlo.digamma": [("positive", 1e-300, 1e300), (0, 8), (1.4, 1.5), (2.2, 2.3), (5, 20)],
    "chlo.erf": [(-6.5, 6.5), (-1.2, 1.2), SPREAD],
    "chlo.erf_inv": [(-1, 1), ("spread", 1e-300, 1.0), (0.99, 1), "ends"],
    "chlo.erfc": [(-6.5, 26.5), (-1, 1), (0.4, 2), ("spread", 1e-20, 1.0)],
    "chlo.lgamma": [("positive", 1e-300, 1e300), (0, 7), (0.9, 1.1), (1.9, 2.1), (0.45, 0.55), (5, 20)],
    "chlo.sinh": [(-710, 710), (-2, 2), ("spread", 1e-300, 600.0)],
}
ENDS = {"f32": (1e-37, 3e38), "f64": (1e-307, 1.7e308)}
NARROW = {"exponential": (-87.3, 88.7), "exponential_minus_one": (-20, 88.7), "logistic": (-87, 20), "chlo.cosh": (-89, 89)}
NARROW |= {"chlo.sinh": (-89, 89), "chlo.erfc": (-4, 9.1)}


def region(rng, where, kind, count, name):
    """Random numbers of a region."""
    if where == "turns":  # next to multiples of pi / 2
        turns = np.concatenate([np.arange(count // 2), rng.integers(0, 2**19, count - count // 2)])
        return turns * (math.pi / 2)
    if where == "ends":  # next to 1
        return (1 - 2.0 ** -rng.uniform(1, 23 if kind == "f32" else 52, count)) * rng.choice([-1, 1], count)
    if len(where) == 2:
        low, high = NARROW[name] if kind == "f32" and name in NARROW and where[1] - where[0] > 10 else where
        return rng.uniform(low, high, count)
    which, low, high = where
    low, high = max(low, ENDS[kind][0]), min(high, ENDS[kind][1])
    if name in NARROW and which == "spread" and kind == "f32":
        high = min(high, NARROW[name][1])
    sizes = np.exp(rng.uniform(math.log(low), math.log(high), count))
    return sizes if which == "positive" else sizes * rng.choice([-1, 1], count)


def points(name, kind, count=500):
    rng = np.random.default_rng(3)
    if name not in BINARY:
        return [np.concatenate([region(rng, where, kind, count, name) for where in REGIONS[name]]).astype(DTYPES[kind])]
    low, high = ENDS[kind]
    over = region(rng, ("spread", low, high), kind, 2 * count, name)
    near = rng.normal(size=2 * count)
    if name == "power":  # of results from one end to the other: log x = r / y
        base = np.concatenate([abs(near), region(rng, ("positive", low, high), kind, 2 * count, name), 1 + 0.001 * near])
        base = base.astype(DTYPES[kind]).astype(float)
        limit = 700 if kind == "f64" else 87
        exponent = rng.uniform(-limit, limit, base.size) / np.where(base == 1, 1, np.log(base))
        whole = rng.integers(-30, 30, 2 * count)
        return [np.r_[base, near].astype(DTYPES[kind]), np.r_[exponent, whole].astype(DTYPES[kind])]
    if name == "remainder":
        small = over[abs(over) < high * 1e-3]
        pair = np.r_[over, near, small * rng.uniform(1, 900, small.size)], np.r_[rng.permutation(over), near[::-1], small]
    else:
        pair = np.r_[over, near, near], np.r_[rng.permutation(over), near[::-1], 1e-5 * near]
    return [array.astype(DTYPES[kind]) for array in pair]


@functools.cache
def true_values(name, kind, count=500):
    arrays = points(name, kind, count)
    with mpmath.workprec(140 if kind == "f64" else 80):
        return arrays, [TRUTH[name](*map(mpmath.mpf, map(float, numbers))) for numbers in zip(*arrays)]


def errors(name, kind, count=500, **how):
    """The errors in units in the last place, and the points. A number below the least normal one may be 0."""
    arrays, exact = true_values(name, kind, count)
    got = kernel(name, kind, 8, **how)(*arrays)
    tiny, places = TINY[kind], 53 if kind == "f64" else 24
    found = []
    for value, true in zip(got.tolist(), exact):
        if isinstance(true, mpmath.mpc):
            found.append(0.0 if math.isnan(value) else math.inf)
        elif abs(true) < tiny:
            found.append(0.0 if abs(value) <= tiny else math.inf)
        elif not math.isfinite(value):
            found.append(0.0 if abs(true) >= np.finfo(DTYPES[kind]).max else math.inf)
        else:
            unit = mpmath.ldexp(1, mpmath.frexp(true)[1] - places)
            found.append(float(abs(value - true) / unit))
    return np.array(found), arrays


NAMES = sorted(TRUTH)


@pytest.mark.parametrize("kind", ["f64", "f32"])
@pytest.mark.parametrize("name", NAMES)
def test_errors_are_within_their_bounds(name, kind):
    found, arrays = errors(name, kind)
    worst = int(np.argmax(found))
    assert found[worst] <= FUNCTIONS[name].ulps[kind == "f32"], [array[worst].item() for array in arrays]


def test_every_function_has_a_truth_to_be_tested_against():
    assert {*TRUTH, "chlo.next_after"} == set(FUNCTIONS)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("name", NAMES)
def test_numbers_of_16_bits_are_the_same_one_by_one(name, kind):
    """LLVM rounded the operand of which arccosine took the sign from 64 bits to 16, by a function that no library has."""
    numbers = np.linspace(-1.5, 1.5, 56)
    found = [kernel(name, kind, lanes)(*[numbers] * (1 + (name in BINARY))) for lanes in (None, 8)]
    np.testing.assert_array_equal(*[x.astype(np.float32) for x in found])


@pytest.mark.parametrize("name", ["chlo.erf", "rsqrt", "tanh"])
def test_without_avx512_errors_are_within_the_same_bounds(name):
    for kind in ("f64", "f32"):
        found, arrays = errors(name, kind, avx512=False)
        worst = int(np.argmax(found))
        assert found[worst] <= FUNCTIONS[name].ulps[kind == "f32"], (kind, [array[worst].item() for array in arrays])


@pytest.mark.parametrize("name", NAMES)
def test_without_fused_multiply_add_errors_are_at_most_twice_as_large(name):
    for kind in ("f64", "f32"):
        found, arrays = errors(name, kind, fma=False)
        worst = int(np.argmax(found))
        assert found[worst] <= 2 * FUNCTIONS[name].ulps[kind == "f32"], (kind, [array[worst].item() for array in arrays])


def same(x, y):
    return np.array_equal(np.where(np.isnan(x), 0, 1), np.where(np.isnan(y), 0, 1)) and np.array_equal(
        np.where(np.isnan(x), x.dtype.type(0), x).view(f"i{x.itemsize}"),
        np.where(np.isnan(y), y.dtype.type(0), y).view(f"i{x.itemsize}"),
    )


@pytest.mark.parametrize("lanes", [None, 1, 3, 16, 40])
@pytest.mark.parametrize("name", NAMES)
def test_results_do_not_depend_on_the_number_of_lanes(name, lanes):
    for kind in ("f64", "f32"):
        arrays = points(name, kind, 40)
        assert same(kernel(name, kind, lanes)(*arrays), kernel(name, kind, 8)(*arrays)), kind


# ---- the ends of the domains ----------------------------------------------------------------------------------------

NUMPY = {
    "exponential": np.exp,
    "exponential_minus_one": np.expm1,
    "log": np.log,
    "log_plus_one": np.log1p,
    "logistic": scipy.special.expit,
    "tanh": np.tanh,
    "sine": np.sin,
    "cosine": np.cos,
    "tan": np.tan,
    "cbrt": np.cbrt,
    "power": np.power,
    "atan2": np.arctan2,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "remainder": np.fmod,
    "chlo.acos": np.arccos,
    "chlo.acosh": np.arccosh,
    "chlo.asin": np.arcsin,
    "chlo.asinh": np.arcsinh,
    "chlo.atan": np.arctan,
    "chlo.atanh": np.arctanh,
    "chlo.cosh": np.cosh,
    "chlo.digamma": scipy.special.psi,
    "chlo.erf": scipy.special.erf,
    "chlo.erf_inv": lambda x: np.copysign(scipy.special.erfinv(x), x),  # SciPy's loses the sign of zero
    "chlo.erfc": scipy.special.erfc,
    "chlo.lgamma": lambda x: np.where(x == -np.inf, np.inf, scipy.special.gammaln(x)),  # as C99 has it
    "chlo.sinh": np.sinh,
}
PLAIN = [0.0, 1.0, 2.0, 3.0, 4.0, 0.5, 1.5, 7.25, 1e-30, 1e30, math.inf]
SPECIAL = np.array([*PLAIN, *[-x for x in PLAIN], math.nan])


@pytest.mark.parametrize("flush", [True, False])
@pytest.mark.parametrize("kind", ["f64", "f32"])
@pytest.mark.parametrize("name", NAMES)
def test_special_values_are_those_of_numpy(name, kind, flush):
    dtype = DTYPES[kind]
    info = np.finfo(dtype)
    special = np.r_[SPECIAL, info.tiny, -info.tiny, info.max, info.min].astype(dtype)
    arrays = [special]
    if name in BINARY:
        arrays = [array.ravel() for array in np.meshgrid(special, special)]
    with np.errstate(all="ignore"):
        expected = NUMPY[name](*[array.astype(float) for array in arrays]).astype(dtype)
    got = kernel(name, kind, 8)(*arrays, flush=flush)
    for *numbers, value, true in zip(*arrays, got, expected):
        if abs(true) < info.tiny:
            assert value == 0 or abs(value) <= info.tiny, (numbers, value)
            assert np.signbit(value) == np.signbit(true), (numbers, value)
        else:
            np.testing.assert_array_max_ulp(value, true, maxulp=4) if np.isfinite(true) else np.testing.assert_equal(
                value, true
            )


@pytest.mark.parametrize("avx512", [True, False])
@pytest.mark.parametrize("kind", ["f64", "f32"])
@pytest.mark.parametrize("name", ["chlo.erf", "tanh"])
def test_limits_are_reached(name, kind, avx512):
    """To the bit: what is to be 1 is often compared with it, or taken from it."""
    x = np.array([9.25 if kind == "f32" else 20.0, 50.0, 1e30, math.inf], DTYPES[kind])
    np.testing.assert_array_equal(kernel(name, kind, 4, avx512=avx512)(np.r_[x, -x]), [1] * 4 + [-1] * 4)


@pytest.mark.parametrize("name", NAMES)
def test_denormal_arguments_count_as_zeros_where_they_are_flushed(name):
    for kind in ("f64", "f32"):
        tiny = np.array([1.0, -1.0, 0.25, -0.25], DTYPES[kind]) * TINY[kind] / 2
        one = np.ones_like(tiny)

        def flushed(array):
            return np.where(abs(array) < TINY[kind], np.copysign(0, array), array).astype(array.dtype)

        for arrays in [(tiny,)] if name not in BINARY else [(tiny, tiny[::-1]), (tiny, one), (one, tiny)]:
            got = kernel(name, kind, 4)(*arrays)
            assert same(flushed(got), kernel(name, kind, 4)(*map(flushed, arrays))), (kind, arrays)


def test_reflected_values_have_an_absolute_error_of_some_units_of_the_terms():
    x = np.r_[-np.random.default_rng(0).uniform(0, 30, 1500), -np.arange(1, 20) + 1e-9]
    for name, truth, term in [
        (
            "chlo.lgamma",
            lambda x: mpmath.re(mpmath.loggamma(x)),
            lambda x: abs(mpmath.loggamma(-x)) + abs(mpmath.loggamma(x)) + 1,
        ),
        ("chlo.digamma", mpmath.digamma, lambda x: abs(mpmath.pi * mpmath.cot(mpmath.pi * x)) + abs(mpmath.digamma(1 - x))),
    ]:
        got = kernel(name, "f64", 8)(x)
        with mpmath.workprec(120):
            units = [
                float(abs(value - truth(mpmath.mpf(at))) / term(mpmath.mpf(at))) * 2**53
                for at, value in zip(x.tolist(), got.tolist())
            ]
        assert max(units) < 8, (name, x[int(np.argmax(units))])


# ---- other dtypes, constants, weights -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("name", [name for name in NAMES if name not in BINARY])
def test_numbers_of_16_bits_are_rounded_once(name, kind):
    """All of them, but for those below float32's least normal number."""
    x = np.arange(1 << 16, dtype=np.uint16).view(DTYPES[kind])
    with np.errstate(all="ignore"):
        wide = x.astype(float)
        x, wide = (array[(abs(wide) >= TINY["f32"]) | (wide == 0) | np.isnan(wide)] for array in (x, wide))
        true = NUMPY[name](wide)
        got = kernel(name, kind, 16)(x)
        # The neighbours are as far away or farther; float32 may fall to the other side of a tie.
        error = abs(got.astype(float) - true)
        others = [abs(np.nextafter(got, np.array(end, x.dtype)).astype(float) - true) for end in (np.inf, -np.inf)]
        near = (error <= others[0] * 1.002) & (error <= others[1] * 1.002)
    largest = float(ml_dtypes.finfo(x.dtype).max)
    near |= (got == true) | (np.isinf(got) & (abs(true) >= largest)) | ((abs(true) < TINY["f32"]) & (abs(got) <= TINY["f32"]))
    near |= np.isnan(got) & np.isnan(true)
    assert near.all(), [array[~near][:5] for array in (x, got, true)]


@pytest.mark.parametrize("kind", DTYPES)
def test_next_after_is_numpys_in_every_dtype(kind):
    dtype = DTYPES[kind]
    near = np.array([0.0, -0.0, 1.0, -1.0, 1.5, 3e4, -3e4, np.inf, -np.inf, np.nan, 2.0**-14], dtype)
    bits = np.array([1, 2, 0x3FF, 0x400], f"i{dtype.itemsize}").view(dtype)
    values = np.r_[near, bits, -bits]
    x, y = [array.ravel() for array in np.meshgrid(values, values)]
    expected = np.where(x == y, y, np.nextafter(x, y))  # NumPy's float16 would keep x, a zero of the other sign
    for flush in (True, False):
        assert same(kernel("chlo.next_after", kind, 8)(x, y, flush=flush), expected)


@pytest.mark.parametrize("name", NAMES)
def test_constant_operands(name):
    for kind in ("f64", "f32"):
        number = 0.75
        array = np.full(8, number, DTYPES[kind])
        both = (array, np.linspace(0.5, 3, 8).astype(DTYPES[kind])) if name in BINARY else (array,)
        assert same(kernel(name, kind, 8, constants=(number,))(*both), kernel(name, kind, 8)(*both))


def test_powers_of_2_have_a_function_of_their_own():
    rng = np.random.default_rng(1)
    for kind, end in (("f64", 1022.0), ("f32", 126.0)):
        y = np.r_[rng.uniform(-end, end + 1.99, 1000), rng.normal(size=500), np.arange(-126, 127)].astype(DTYPES[kind])
        call = kernel("power", kind, 8, constants=(2.0,))
        assert "exp2" in call.text
        with mpmath.workprec(120):
            true = [mpmath.mpf(2) ** mpmath.mpf(at) for at in y.tolist()]
            units = [
                abs(a - b) / mpmath.ldexp(1, mpmath.frexp(b)[1] - (53 if kind == "f64" else 24))
                for a, b in zip(call(y, y).tolist(), true)
            ]
        assert max(units) <= 1.5
        ends = np.array([np.inf, -np.inf, np.nan, end + 2, -end - 1, 0.0, -0.0], DTYPES[kind])
        np.testing.assert_equal(call(ends, ends), np.array([np.inf, 0, np.nan, np.inf, 0, 1, 1], DTYPES[kind]))


def test_large_angles_do_not_change_what_their_neighbours_are():
    x = np.linspace(-3, 3, 8)
    far = x.copy()
    far[3] = 1e200
    for name in ("sine", "cosine", "tan"):
        call = kernel(name, "f64", 8)
        assert np.array_equal(np.delete(call(far), 3), np.delete(call(x), 3)), name


def test_the_weights_in_the_table_are_what_the_code_weighs():
    for name in FUNCTIONS:
        code = Code(Module(64))
        operands = [
            code.load(code.pure(f"getelementptr i8, ptr %{i}, i64 0", "ptr"), "f64", 8) for i in range(1 + (name in BINARY))
        ]
        before = code.weight
        apply(code, name, operands)
        assert code.weight - before == pytest.approx(weight(name), rel=0.1), name
