"""Operations of the native tier that are more than one expression for each element: by table, in every dtype and shape, against
eager evaluation."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
import scipy.linalg
from kernels import kernel_of, native

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.core.array import as_array
from pullback.core.dtypes import DTYPES
from pullback.native.choice import native_mode
from pullback.native.graph import Node, Refused
from pullback.ops.reduce_window import reduce_window_max
from pullback.testing.values import assert_close, host

FLOATS = ("float16", "bfloat16", "float32", "float64")
REAL = ("int8", "uint32", "int64", *FLOATS)
COMPLEX = ("complex64", "complex128")
ALL = ("bool", "uint8", "int32", *REAL, *COMPLEX)
LINES = [(1,), (2,), (5,), (16,), (67,), (300,), (3, 5), (2, 3, 4), (40, 17), (5, 1), (0, 3), (2, 0)]


class Case(NamedTuple):
    """What is tried: a function of one array, in some dtypes and shapes."""

    function: Callable[[Any], Any]
    dtypes: tuple[str, ...] = REAL
    shapes: Any = tuple(LINES)


def filled(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray[Any, Any]:
    """Random numbers with ties, of both signs, small enough for any dtype."""
    rng = np.random.default_rng(seed)
    whole = rng.integers(-6, 7, shape)
    if dtype == "bool":
        return whole > 0
    if dtype.startswith(("int", "uint")):
        return (np.abs(whole) if dtype[0] == "u" else whole).astype(dtype)
    out = whole * 0.25
    if dtype.startswith("complex"):
        return (out + 0.5j * rng.integers(-3, 4, shape)).astype(dtype)
    return out.astype(DTYPES[dtype])


def over(function: Any, *args: Any, least: int = 1, **params: Any) -> Callable[[Any], Any]:
    """A function along the last axis, of which there are `least` elements."""

    def applied(x: Any) -> Any:
        return function(x, *args, **params)

    applied.least = least  # type: ignore[attr-defined]
    return applied


def pooled(x: Any, combine: Any, first: Any) -> Any:
    ones = (1,) * (x.ndim - 1)
    return lax.reduce_window(
        x, np.asarray(first, x.dtype), combine, (*ones, 3), (*ones, 2), [(0, 0)] * (x.ndim - 1) + [(1, 2)], (*ones, 2)
    )


def convolved(x: Any, **params: Any) -> Any:
    kernel = as_array(filled((4, x.shape[1] // params.get("feature_group_count", 1), 3), x.dtype.name, 1))
    return lax.conv_general_dilated(x, kernel, window_strides=(2,), padding=[(1, 2)], **params)


TABLE = {
    "cumsum": Case(lambda x: pnp.cumsum(x, x.ndim - 1), (*REAL, *COMPLEX)),
    "cumsum of columns": Case(lambda x: pnp.cumsum(x, 0)),
    "reverse cumsum": Case(lambda x: lax.cumsum(x, x.ndim - 1, reverse=True), (*REAL, *COMPLEX)),
    "cumprod": Case(lambda x: pnp.cumprod(x, 0), ("int32", *FLOATS, *COMPLEX), [(1,), (5,), (20,), (4, 9)]),
    "cummax": Case(lambda x: lax.cummax(x, x.ndim - 1), REAL),
    "cummin": Case(lambda x: lax.cummin(x, 0, reverse=True), REAL),
    "cumlogsumexp": Case(lambda x: lax.cumlogsumexp(x, x.ndim - 1), FLOATS),
    "argmax": Case(lambda x: pnp.argmax(x, -1), ("bool", *REAL), [shape for shape in LINES if shape[-1]]),
    "argmin of columns": Case(lambda x: pnp.argmin(x, 0), REAL, [shape for shape in LINES if shape[0]]),
    "argmax of all": Case(lambda x: pnp.argmax(x), FLOATS, [shape for shape in LINES if 0 not in shape]),
    "product": Case(lambda x: pnp.prod(x, 0), ("int32", *FLOATS, *COMPLEX)),
    "largest": Case(lambda x: pnp.max(x, 0, initial=0), ("bool", *REAL)),
    "sort": Case(lambda x: pnp.sort(x, -1), ALL),
    "sort of columns": Case(lambda x: pnp.sort(x, 0), ALL),
    "argsort": Case(lambda x: pnp.argsort(x, -1), ALL),
    "top_k": Case(lambda x: lax.top_k(x, 2)[1], REAL, [(2,), (5,), (40,), (3, 20)]),
    "searchsorted": Case(lambda x: pnp.searchsorted(pnp.sort(x), x), REAL, [(1,), (5,), (67,)]),
    "sums of windows": Case(lambda x: pooled(x, lax.add, 0), (*REAL, *COMPLEX)),
    "largest of windows": Case(lambda x: pooled(x, lax.max, -6 if x.dtype.kind != "u" else 0), REAL),
    "pad between": Case(lambda x: lax.pad(x, np.zeros((), x.dtype), [(1, -1, 2)] + [(-1, 2, 1)] * (x.ndim - 1)), ALL),
    "convolution": Case(convolved, FLOATS + COMPLEX, [(1, 1, 4), (2, 3, 9), (2, 2, 40)]),
    "convolution of groups": Case(over(convolved, feature_group_count=2), FLOATS, [(2, 4, 9)]),
    "bits of halves": Case(lambda x: lax.bitcast_convert_type(x, "uint16"), ("float32", "int64", "float16", "bfloat16")),
    "bits of bytes": Case(lambda x: lax.bitcast_convert_type(x, "uint8"), ("float64", "uint32")),
    "bits together": Case(lambda x: lax.bitcast_convert_type(x, "uint32"), ("uint8", "int8"), [(4,), (3, 4), (0, 4)]),
    "fewer bits": Case(lambda x: lax.reduce_precision(x / 7, 5, 4), [dtype for dtype in FLOATS if dtype != "float16"]),
    "outer product": Case(lambda x: x[..., None] * x[..., None, :], ALL),
    "matrix product": Case(lambda x: x @ x.T, ALL, [(1, 1), (3, 5), (20, 4), (0, 3), (2, 0)]),
    "gather": Case(lambda x: x[..., pnp.array([0, -1, 0])], ALL, [(1,), (5,), (300,), (3, 5), (40, 17)]),
    "gather, filled": Case(lambda x: x.at[..., pnp.array([0, 7000])].get(mode="fill", fill_value=1), ALL, [(5,), (40, 17)]),
    "scatter": Case(lambda x: x.at[..., pnp.array([0, 1, 7000])].set(1, mode="drop"), ALL, [(5,), (300,), (40, 17)]),
    "scatter of sums": Case(lambda x: x.at[pnp.array([0, 1, 0])].add(1), (*REAL, *COMPLEX), [(5,), (300,), (40, 17)]),
    "many branches": Case(lambda x: lax.switch(3, [over(pnp.multiply, k) for k in range(9)], x), ("int32", "float32")),
    "complex functions": Case(lambda x: pnp.sqrt(x) + pnp.exp(x) / (x * x + 3) + pnp.tanh(pnp.log(x + 2j)), COMPLEX),
    "complex parts": Case(lambda x: (pnp.abs(x) + x.real * x.imag, pnp.conj(x) == x, pnp.angle(x)), COMPLEX),
    "a loop of complex numbers": Case(
        lambda x: lax.scan(lambda c, y: (c * 0.5 + y, c * y), x[0], x), COMPLEX, [(1,), (5,), (3, 5), (9, 40)]
    ),
    "a complex loop that ends": Case(
        lambda x: lax.while_loop(lambda c: pnp.max(pnp.abs(c)) < 9, lambda c: c * 1.5 + 1j, x), COMPLEX, [(), (3,), (40,)]
    ),
}


def leaves(values: Any) -> list[Any]:
    return pb.tree.leaves(values)  # type: ignore[no-any-return]


ROWS = [(name, dtype) for name, case in TABLE.items() for dtype in case.dtypes]


@pytest.mark.parametrize(("name", "dtype"), ROWS, ids=[f"{name}-{dtype}" for name, dtype in ROWS])
def test_operations(name: str, dtype: str) -> None:
    case = TABLE[name]
    turn = case.dtypes.index(dtype)
    for shape in case.shapes if dtype == "float32" else case.shapes[turn % 3 :: 3]:
        x = as_array(filled(shape, dtype))
        expected = leaves(case.function(x))
        for got, want in zip(native(lambda y: leaves(case.function(y)), x), expected, strict=True):
            assert (got.shape, got.dtype) == (host(want).shape, host(want).dtype)
            assert_close(got, want, f"{name} of {dtype}{list(shape)}")


SPECIAL = np.array([np.nan, 1.0, -np.inf, np.inf, -0.0, 0.0, np.nan, 3.0, -2.0, 0.0, -0.0, np.inf, 1.0, -3.0, 2.0, 0.5, 7.0])


@pytest.mark.parametrize("count", [2, 5, 8, 16, 17])
@pytest.mark.parametrize("name", ["argmax of all", "argmin of columns", "sort", "argsort", "cummax", "cummin", "cumsum"])
def test_nan_infinities_and_zeros(name: str, count: int) -> None:
    function = TABLE[name].function
    for start, dtype in itertools.product(range(len(SPECIAL) - count + 1), ("float32", "float16")):
        x = SPECIAL[start : start + count].astype(dtype)
        (got,) = native(lambda y: [function(y)], x)
        np.testing.assert_array_equal(got, host(function(as_array(x))))


ENDS = [0.0, -0.0, 0.5, -0.5, 1.9, -1.9, np.nan, np.inf, -np.inf, 3e38, -3e38]
ENDS += [
    sign * (2.0**bits + apart) for bits in (7, 8, 15, 16, 31, 32, 63, 64) for sign in (1, -1) for apart in (-0.5, 0, 0.5, -1, 1)
]


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_floats_become_the_nearest_integers_there_are(name: str) -> None:
    """By vectors and one by one, cut towards zero; NaN becomes 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        x = np.array(ENDS).astype(DTYPES[name])
        numbers = [float(number) for number in x]
    kinds = [np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]
    whole = native(lambda y: [y.astype(kind) for kind in kinds], x)
    single = native(lambda y: [y.astype(kind) for kind in kinds], x[-1:])
    for kind, got, last in zip(kinds, whole, single, strict=True):
        least, most = np.iinfo(kind).min, np.iinfo(kind).max
        cut = [0 if number != number else max(min(number, 2.0**70), -(2.0**70)) for number in numbers]
        assert got.tolist() == [min(max(int(number), least), most) for number in cut], kind
        assert last[0] == got[-1]


@pytest.mark.parametrize("size", [1000, 70_000])
def test_long_sums_are_as_exact_as_a_wider_one(size: int) -> None:
    x = np.random.default_rng(1).normal(size=size).astype(np.float32)
    (got,) = native(lambda y: [pnp.cumsum(y)], x)
    exact = np.cumsum(x.astype(np.float64))
    assert np.abs(got - exact).max() <= np.spacing(np.abs(exact).max().astype(np.float32))


def nearest(x: np.ndarray[Any, Any], digits: int) -> np.ndarray[Any, Any]:
    """x rounded to so many binary digits, half to even."""
    part, exponent = np.frexp(x)
    return np.ldexp(np.rint(np.ldexp(part, digits)), exponent - digits)


@pytest.mark.parametrize(("dtype", "digits"), [("float16", 11), ("bfloat16", 8)])
def test_float64_is_rounded_once(dtype: str, digits: int) -> None:
    half = 1 + np.arange(64) * 2.0 ** (1 - digits) + 2.0**-digits  # between two numbers
    x = np.concatenate([half, half + 2.0**-40, half - 2.0**-40, -half, [0.0, -0.0, np.inf, -np.inf, np.nan]])
    (got,) = native(lambda y: [y.astype(dtype)], x)
    np.testing.assert_array_equal(got.astype(np.float64), nearest(x, digits))
    assert (np.signbit(got.astype(np.float64)) == np.signbit(x)).all()


def test_float64_beyond_the_range_is_infinite() -> None:
    x = np.array([65519.99, 65520.0, 1e300, -1e300, 1e-300])
    np.testing.assert_array_equal(native(lambda y: [y.astype("float16")], x)[0], [65504, np.inf, np.inf, -np.inf, 0])
    huge = np.array([3.389e38, 3.4e38, 1e39, -1e300])
    (got,) = native(lambda y: [y.astype("bfloat16")], huge)
    largest = float(ml_dtypes.finfo("bfloat16").max)
    np.testing.assert_array_equal(got.astype(np.float64), [largest, np.inf, np.inf, -np.inf])


# ---- matrices ----------------------------------------------------------------------------------------------------------


def matrices(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Positive definite ones."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype.startswith("c") else 0)
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + shape[-1] * np.eye(shape[-1])).astype(dtype)


SIZES = [(1, 1), (3, 3), (4, 4), (5, 5), (12, 12), (33, 33), (2, 3, 3), (3, 9, 9), (0, 2, 2), (0, 0)]
FACTORS: dict[str, Callable[[Any], Any]] = {
    "cholesky": pnp.linalg.cholesky,
    "solve": lambda a: pnp.linalg.solve(a, a[..., :1] * 2 + 1),
    "inverse": pnp.linalg.inv,
    "determinant": pnp.linalg.det,
    "triangular": lambda a: lax.linalg.triangular_solve(a, a + 1, left_side=True, lower=True),
    "triangular, right": lambda a: lax.linalg.triangular_solve(a, a + 1, left_side=False, lower=False, unit_diagonal=True),
    "triangular, transposed": lambda a: lax.linalg.triangular_solve(
        a, a + 1, left_side=True, lower=False, transpose_a=True, conjugate_a=True
    ),
    "lu": lambda a: lax.linalg.lu(a),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("name", FACTORS)
def test_small_matrices(name: str, dtype: str) -> None:
    for shape in SIZES if dtype == "float64" else SIZES[len(dtype) % 2 :: 2]:
        a = as_array(matrices(shape, dtype) / max(1, shape[-1]))
        expected = leaves(FACTORS[name](a))
        for got, want in zip(native(lambda x: leaves(FACTORS[name](x)), a), expected, strict=True):
            assert_close(got, want, f"{name} of {dtype}{list(shape)}", 2e-4 if dtype in ("float32", "complex64") else 1e-11)


def test_rows_are_exchanged_as_lapack_does() -> None:
    a = np.random.default_rng(3).normal(size=(20, 9))
    found = native(lambda x: leaves(lax.linalg.lu(x)), a)
    factors, pivots, _ = scipy.linalg.lapack.dgetrf(a)
    np.testing.assert_allclose(found[0], factors, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found[1], pivots)


def test_what_has_no_factor_is_nan() -> None:
    bad = np.array([[[1.0, 2.0], [2.0, 1.0]], [[2.0, 1.0], [1.0, 2.0]]])
    (got,) = native(lambda x: [pnp.linalg.cholesky(x)], bad)
    assert np.isnan(got[0][np.tril_indices(2)]).all()
    np.testing.assert_allclose(got[1], np.linalg.cholesky(bad[1]))


# ---- random keys -------------------------------------------------------------------------------------------------------

DRAWS: dict[str, Callable[[Any], Any]] = {
    "split": lambda key: pb.random.key_data(pb.random.split(key, 5)),
    "fold_in": lambda key: pb.random.key_data(pb.random.fold_in(key, 3)),
    "bits": lambda key: pb.random.bits(key, (3, 7)),
    "small bits": lambda key: pb.random.bits(key, (3, 7), "uint8"),
    "uniform": lambda key: pb.random.uniform(key, (70,)),
    "integers": lambda key: pb.random.randint(key, (9,), 0, 1000),
    "one of two": lambda key: pb.random.bernoulli(key, 0.3, (40,)),
    "permutation": lambda key: pb.random.permutation(key, 20),
}


@pytest.mark.parametrize("generator", ["threefry2x32", "threefry4x32", "philox2x32", "philox4x32"])
@pytest.mark.parametrize("name", DRAWS)
def test_random_numbers_are_the_same_to_the_last_bit(name: str, generator: str) -> None:
    key = pb.random.key(7, impl=generator)
    (got,) = native(lambda k: [DRAWS[name](k)], key)
    np.testing.assert_array_equal(got, host(DRAWS[name](key)))


# ---- what is refused, and why ------------------------------------------------------------------------------------------

KEY = functools.partial(pb.random.key, 0)
REFUSED: dict[str, tuple[Callable[[Any], Any], Any, str]] = {
    "fewer bits of halves": (lambda x: lax.reduce_precision(x, 5, 4), np.zeros(3, np.float16), "reduce_precision of float16"),
    "a law of XLA's": (lambda _: pb.random.normal(KEY(), (3,)), 0.0, r"draw \(normal\) must give the last bits"),
    "singular values": (lambda x: pnp.linalg.svd(x)[1], np.eye(3), "svd calls LAPACK's gesdd"),
    "large matrices": (pnp.linalg.cholesky, np.eye(65), "cholesky is of matrices of more than 64"),
    "Fourier transform": (lambda x: pnp.fft.fft(x).real, np.arange(4.0), "there is no fft in native code with complex"),
    "callbacks": (lambda x: pb.pure_callback(np.sin, x, x), np.arange(4.0), "calls a Python function"),
    "float8": (lambda x: x.astype("float8_e4m3fn"), np.arange(4.0), "convert_element_type computes in float8_e4m3fn"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_why(name: str) -> None:
    function, x, why = REFUSED[name]
    with pytest.raises(Refused, match=why):
        kernel_of(lambda y: leaves(function(y)), x)


def test_bytes_that_numpy_views_as_bool_are_true_unless_0() -> None:
    functions = [
        lambda x: ~x,
        lambda x: pnp.where(x, 1, 2),
        lambda x: x.sum(),
        lambda x: pnp.cumsum(x),
        lambda x: x & x[::-1],
        lambda x: x.astype("float32"),
        lambda x: lax.scan(lambda c, v: (c + pnp.where(v, 1, 3), c), 0, x)[1],
        lambda x: lax.cond(x[3], lambda: 1, lambda: 2),
    ]
    odd = np.array([0, 1, 255, 2, 128, 0, 4], np.uint8)
    with native_mode("always"):
        for number, function in enumerate(functions):
            found, expected = pb.jit(function)(odd.view(np.bool_)), pb.jit(function)(odd != 0)
            assert np.asarray(found).tolist() == np.asarray(expected).tolist(), number


@pytest.mark.parametrize("kinds", [("float32", "float16"), ("float16", "float32"), ("int32", "uint32"), ("uint32", "int32")])
def test_kinds_that_are_held_alike_are_told_apart(kinds: tuple[str, str]) -> None:
    """An instruction that is there for a number of one kind serves for the other, but it gives a number of that other kind."""
    numbers = [np.array([3, 1, 2], kind) for kind in kinds]

    def both(*xs: Any) -> Any:
        zero, one, two = ([pnp.asarray(n, x.dtype) for x in xs] for n in (0, 1, 2))
        return [(a - x) // b > c for a, b, c, x in zip(one, two, zero, xs)]

    with native_mode("always"):
        found = pb.jit(both)(*numbers)
    for one, x in zip(found, numbers):
        with np.errstate(over="ignore"):
            assert np.array_equal(np.asarray(one), (x.dtype.type(1) - x) // x.dtype.type(2) > 0)


def test_windows_of_two_widths_of_numbers_at_once() -> None:
    window = {"window_dimensions": (3,), "window_strides": (1,), "padding": ((1, 1),)}
    window |= {"base_dilation": (1,), "window_dilation": (1,)}
    numbers = [np.array([5, -3, 2, 7, 1], kind) for kind in ("float32", "float16")]
    with native_mode("always"):
        found = pb.jit(lambda *xs: [reduce_window_max(x, **window) for x in xs])(*numbers)
    for one in found:
        assert np.asarray(one).tolist() == [5, 5, 7, 7, 7]


def test_parameters_that_are_printed_alike_are_told_apart() -> None:
    one, other = (Node("reduce", [], [], {"init": np.float64(n)}, (), "") for n in (0.123456789, 0.123456788))
    alike = Node("reduce", [], [], {"init": np.array(0.123456789)}, (), "")
    assert one.spelled_params() == alike.spelled_params() != other.spelled_params()
