"""Sorts of the native tier against NumPy's stable ones, to the bit, at the sizes where the method changes."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
from kernels import kernel_of, native

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.core.array import as_array
from pullback.core.dtypes import DTYPES
from pullback.native.choice import native_mode
from pullback.native.kernel import PARALLEL
from pullback.native.selection import LEAST, SHORT
from pullback.native.sorting import COUNTED, EXCHANGED, MANY
from pullback.ops import sort as orders
from pullback.testing.values import host

Host = np.ndarray[Any, Any]
SIZES = (1, 2, EXCHANGED, EXCHANGED + 1, 100, COUNTED, COUNTED + 1, 1000, MANY - 1, MANY + 5)
FLOATS = ("float16", "bfloat16", "float32", "float64")
WHOLE = ("bool", *[f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)])
ODD = {  # bits of zeros, NaNs of both signs and several payloads, infinities, the least and the largest denormal number
    "float16": (0, 0x8000, 0x7E00, 0xFE01, 0x7E05, 0x7C00, 0xFC00, 1, 0x83FF),
    "bfloat16": (0, 0x8000, 0x7FC0, 0xFFC1, 0x7FD5, 0x7F80, 0xFF80, 1, 0x807F),
    "float32": (0, 1 << 31, 0x7FC00000, 0xFFC00001, 0x7FC12345, 0x7F800000, 0xFF800000, 1, 0x807FFFFF),
    "float64": (
        0,
        1 << 63,
        0x7FF8 << 48,
        (0xFFF8 << 48) + 1,
        (0x7FF8 << 48) + 7,
        0x7FF0 << 48,
        0xFFF0 << 48,
        1,
        2**63 + 2**52 - 1,
    ),
}


def drawn(name: str, size: int, how: str) -> Host:
    """Elements of a dtype, as `how` says."""
    rng = np.random.default_rng(zlib.crc32(f"{name} {size} {how}".encode()))
    dtype = DTYPES[name]
    if how == "bits":
        return (
            rng.integers(0, 256, size * dtype.itemsize, np.uint8).view(dtype)
            if name != "bool"
            else rng.integers(0, 2, size) > 0
        )
    x = {
        "normal": lambda: rng.normal(size=size) * 100,
        "few": lambda: rng.integers(-3, 4, size),
        "rising": lambda: np.sort(rng.normal(size=size) * 100),
        "falling": lambda: np.sort(rng.normal(size=size) * 100)[::-1],
        "constant": lambda: np.full(size, 3.0),
        "close": lambda: 1 + rng.integers(0, 1 << 18, size) * 2.0**-52,  # of 64 bits, only low ones differ
        "two heaps": lambda: np.where(rng.random(size) < 0.5, 1, -1e9) * (1 + rng.integers(0, 1 << 25, size) * 2.0**-52),
        "odd": lambda: rng.normal(size=size),
    }[how]()
    if name in WHOLE:
        return np.abs(x).astype(dtype) if name[0] == "u" else x.astype(dtype)
    x = x.astype(dtype)
    if how == "odd":
        odd = np.array(ODD[name], f"u{dtype.itemsize}").view(dtype)
        x = np.where(rng.random(size) < 0.6, rng.choice(odd, size), x)
    return x


def stable_order(x: Host, descending: bool = False) -> Host:
    """The places of the elements of a vector in order, found by Python's sort."""
    with np.errstate(invalid="ignore"):  # of signalling NaNs
        number = x.astype(np.float64) if x.dtype.kind in "fV" else x

    def key(i: int) -> Any:
        return (bool(number[i] != number[i]), 0 if number[i] != number[i] else number[i].item())

    places = sorted(range(len(x)), key=key) if not descending else sorted(range(len(x)), key=key, reverse=True)
    return np.array(places, np.int32)


def bits(x: Host) -> Host:
    return x.view(f"u{x.dtype.itemsize}")


ROWS = [(name, how) for name in FLOATS for how in ("normal", "few", "odd", "bits")]
ROWS += [(name, how) for name in WHOLE for how in ("normal", "few", "bits")]
ROWS += [(name, how) for name in ("float32", "float64", "int64") for how in ("rising", "falling", "constant")]
ROWS += [("float64", "close"), ("float64", "two heaps")]


@pytest.mark.parametrize(("name", "how"), ROWS, ids=[f"{name}-{how}" for name, how in ROWS])
def test_sorts_and_orders_are_stable(name: str, how: str) -> None:
    every = (name, how) in (("float32", "odd"), ("int8", "bits"))
    sizes = SIZES if every else SIZES[zlib.crc32(f"{name} {how}".encode()) % 4 :: 4]
    falls = len(how) % 2 == 0
    for size in sizes:
        x = drawn(name, size, how)
        if name == "float16":  # a signalling NaN becomes a quiet one on its way
            x = np.where(np.isnan(x), bits(x) | 0x200, bits(x)).astype(np.uint16).view(np.float16)
        with native_mode("always"):
            sort, order = [np.asarray(out) for out in pb.jit(lambda x: (pnp.sort(x), pnp.argsort(x, descending=falls)))(x)]
        np.testing.assert_array_equal(bits(sort), bits(x[stable_order(x)]), f"{size}")
        np.testing.assert_array_equal(order, stable_order(x, falls), f"{size}")


FIRST = [
    (SHORT * LEAST, 1),
    (SHORT * LEAST + 1, LEAST // 4),
    (3 * SHORT * LEAST, LEAST),
    (LEAST * LEAST * 3, 7),
    (200, 3),
    (9, 9),
]


@pytest.mark.parametrize(("name", "how"), ROWS, ids=[f"{name}-{how}" for name, how in ROWS])
def test_the_first_elements_in_order(name: str, how: str) -> None:
    """Of few among many, by selection; of others, from the sorted ones."""
    every = (name, how) in (("float32", "odd"), ("int8", "bits"))
    for turn, (size, count) in enumerate(FIRST):
        if not every and turn % 3 != zlib.crc32(f"{name} {how}".encode()) % 3:
            continue
        x, falls = drawn(name, size, how), (turn + len(how)) % 2 == 0
        with native_mode("always"):
            got = pb.jit(lambda x: orders.order(x, dimension=0, index_dtype=np.int32, descending=falls, count=count))(x)
        np.testing.assert_array_equal(np.asarray(got), stable_order(x, falls)[:count], f"{size} {count}")


@pytest.mark.parametrize("shape", [(3, 2000), (40, 1000), (1000, 3), (2, 900, 5), (0, 900), (2, 3, 1000)])
def test_the_largest_along_axes(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(-99, 99, shape).astype(np.float32)
    for axis in [axis for axis, size in enumerate(shape) if size > 10]:
        for count in (0, 1, 10):
            values, places = native(lambda y, axis=axis, count=count: lax.top_k(y, count, axis=axis), x)
            expected = np.take(np.argsort(-x, axis, kind="stable"), range(count), axis)
            np.testing.assert_array_equal(places, expected)
            np.testing.assert_array_equal(values, np.take_along_axis(x, expected, axis))


def test_the_largest_ten_are_not_a_sort() -> None:
    x = np.zeros(100_000, np.float32)
    assert kernel_of(lambda x: lax.top_k(x, 10), x).weight < kernel_of(lambda x: [pnp.argsort(x)], x).weight / 20


@pytest.mark.parametrize("size", [10, 100, 1000])
def test_every_byte_read_and_written_is_ours(size: int) -> None:
    """In memory that ends where nobody may read, by the code for any processor."""
    for name in ("float16", "float64", "uint8"):
        x = drawn(name, size, "few")
        sort, places, largest = native(lambda y: [pnp.sort(y), pnp.argsort(y), lax.top_k(y, 10)[1]], x)
        np.testing.assert_array_equal(largest, stable_order(x, True)[:10])
        np.testing.assert_array_equal(places, stable_order(x))
        np.testing.assert_array_equal(bits(sort), bits(x[stable_order(x)]))


@pytest.mark.parametrize("size", [12, 200, 600])
def test_several_keys(size: int) -> None:
    rng = np.random.default_rng(size)
    keys = [rng.integers(-2, 3, size).astype(kind) for kind in ("float32", "int8", "float64")]
    value = rng.normal(size=size)
    found = native(lambda *xs: lax.sort(xs, num_keys=3), *keys, value)
    places = np.lexsort(keys[::-1])
    for got, x in zip(found, [*keys, value], strict=True):
        np.testing.assert_array_equal(got, x[places])


@pytest.mark.parametrize("size", [12, 200, 600])
def test_complex_numbers(size: int) -> None:
    rng = np.random.default_rng(size)
    x = rng.choice([0.0, -0.0, 1.0, -1.5, np.nan, np.inf], (2, size)).astype(np.float32)
    z = np.ascontiguousarray(x.T).view(np.complex64)[:, 0]
    sort, places = native(lambda y: [pnp.sort(y), pnp.argsort(y)], z)
    np.testing.assert_array_equal(places, np.argsort(z, kind="stable"))
    np.testing.assert_array_equal(sort.view(np.float32), z[places].view(np.float32))


@pytest.mark.parametrize(
    "shape", [(40, 9), (9, 40), (33, 70), (3, 300), (300, 3), (2, 3, 280), (40, 2, 17), (0, 5), (5, 0), ()]
)
def test_axes_and_batches(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    for axis in range(len(shape)) or [None]:
        got = native(lambda y, axis=axis: [pnp.sort(y, axis), pnp.argsort(y, axis)], x)
        np.testing.assert_array_equal(got[0], np.sort(x, axis))
        np.testing.assert_array_equal(got[1], np.argsort(x, axis, kind="stable"))


def test_rows_are_divided_among_threads() -> None:
    x = np.random.default_rng(0).normal(size=(64, 1000)).astype(np.float32)
    kernel = kernel_of(lambda y: [pnp.sort(y, 1)], x)
    assert kernel.blocks == 64 and kernel.weight > PARALLEL
    np.testing.assert_array_equal(np.asarray(pb.jit(lambda y: pnp.sort(y, 1))(x)), np.sort(x, 1))


def test_what_goes_before_and_after() -> None:
    x = np.random.default_rng(0).normal(size=5000)

    def function(x: Any) -> Any:
        largest, places = lax.top_k(pnp.sin(x), 5)
        return [largest, places, pnp.sort(x * 2)[::-1] + 1, pnp.median(x)]

    for got, want in zip(native(function, x), function(as_array(x)), strict=True):
        np.testing.assert_allclose(got, host(want), rtol=1e-14)


def test_derivatives_and_loops() -> None:
    x, weights = np.random.default_rng(0).normal(size=(2, 3000))
    gradient = pb.grad(lambda x: (pnp.sort(x) * weights).sum())
    expected = np.empty(3000)
    expected[np.argsort(x)] = weights
    np.testing.assert_allclose(native(lambda x: [gradient(x)], x)[0], expected)
    (got,) = native(lambda x: [lax.fori_loop(0, 3, lambda i, x: pnp.sort(x)[::-1] - i, x)], x)
    np.testing.assert_allclose(got, (np.sort(np.sort(np.sort(x)[::-1])[::-1] - 1)[::-1] - 2))


def test_sorts_in_programs_of_xlas_are_native() -> None:
    x = np.random.default_rng(0).normal(size=(150, 150)).astype(np.float32)

    def function(x: Any) -> Any:
        return pnp.sort((x @ x).ravel())

    explained = pb.jit(function).explain(x)
    assert (explained.tier, explained.parts) == ("mixed", ("sort",))
    np.testing.assert_array_equal(np.asarray(pb.jit(function)(x)), np.sort(np.asarray(pb.jit(lambda x: (x @ x).ravel())(x))))
    with native_mode("off"):
        assert pb.jit(function).explain(x).tier == "xla"
        assert np.asarray(pb.jit(function)(x)).shape == (22500,)


def test_signals_are_asked_for_in_long_sorts() -> None:
    assert "%poll()" in kernel_of(lambda x: [pnp.argsort(x)], np.zeros(1 << 21)).source
    assert "%poll()" not in kernel_of(lambda x: [pnp.sort(x)], np.zeros(100)).source
