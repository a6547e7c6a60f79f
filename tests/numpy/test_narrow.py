"""Integers of 2 and 4 bits: made, moved about, converted and printed, eagerly and compiled; nothing computes in them."""

from __future__ import annotations

import pickle

import ml_dtypes
import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import lax

NARROW = ["int2", "int4", "uint2", "uint4"]
WAYS = {"eager": lambda f: f, "jit": pb.jit}


def all_of(dtype: str) -> np.ndarray:
    limits = ml_dtypes.iinfo(dtype)
    return np.arange(limits.min, limits.max + 1).astype(dtype)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", NARROW)
def test_they_are_moved_about(dtype: str, way: str) -> None:
    x, how = all_of(dtype), WAYS[way]
    for f in (
        lambda x: x,
        lambda x: x[::-1],
        lambda x: x[np.array([1, 0, 1])],
        lambda x: x.reshape(2, -1).T,
        lambda x: (
            pnp.concatenate([x, pnp.asarray([0, 1], dtype)])
            if isinstance(x, pb.Array)
            else np.concatenate([x, np.array([0, 1]).astype(dtype)])
        ),
        lambda x: x[1],
    ):
        got = np.asarray(how(f)(pnp.asarray(x)))
        assert got.dtype == np.dtype(dtype) and got.tolist() == f(x).tolist()
    x = pnp.asarray(x)
    assert how(lambda x: pnp.concatenate([x, x[:1]]))(x).tolist() == [*x.tolist(), x.tolist()[0]]
    assert how(lambda x: pnp.where(pnp.arange(x.size) % 2 == 0, x, x[::-1]))(x).tolist()[:2] == [x.tolist()[0], x.tolist()[-2]]
    assert how(lambda x: x.at[0].set(1))(x).tolist() == [1, *x.tolist()[1:]]
    assert how(pb.vmap(lambda x: pnp.stack([x, x])))(x).shape == (len(x), 2)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", NARROW)
def test_they_are_converted(dtype: str, way: str) -> None:
    x, how, limits = all_of(dtype), WAYS[way], ml_dtypes.iinfo(dtype)
    narrow = how(lambda x: x.astype(dtype))
    for other in ("bool", "int8", "uint8", "int32", "int64", "bfloat16", "float32", "float64", "complex64"):
        got = np.asarray(how(lambda x, other=other: x.astype(other))(pnp.asarray(x)))
        np.testing.assert_array_equal(got, x.astype(np.int8).astype(pnp.dtype(other)))
    numbers = np.array([-300.0, -9.0, -2.7, -0.5, 0.0, 1.0, 2.7, 7.0, 15.0, 16.0, 300.0, np.inf, -np.inf, np.nan])
    for source in ("float32", "float64", "float16"):
        got = np.asarray(narrow(pnp.asarray(numbers.astype(source)))).astype(int)
        np.testing.assert_array_equal(
            got, np.clip(np.trunc(np.nan_to_num(numbers, posinf=99, neginf=-99)), limits.min, limits.max)
        )
    whole = np.arange(-40, 40)
    got = np.asarray(narrow(pnp.asarray(whole))).astype(int)
    np.testing.assert_array_equal(got, (whole - limits.min) % 2**limits.bits + limits.min)
    assert how(pnp.sum)(x).tolist() == x.astype(int).sum() and how(pnp.mean)(pnp.asarray(x)).dtype == np.float32


def test_what_they_are() -> None:
    assert pnp.iinfo(pnp.int4).max == 7 and pnp.iinfo("uint2").max == 3
    assert pnp.issubdtype(pnp.int4, pnp.signedinteger) and pnp.issubdtype("uint4", pnp.integer)
    assert pnp.issubdtype(pnp.int4, np.dtype(pnp.int4)) and not pnp.issubdtype(pnp.int4, "uint4")
    assert not pnp.issubdtype(pnp.int4, pnp.unsignedinteger) and pnp.isdtype(pnp.uint4, "unsigned integer")
    x = pnp.array([1, -2], pnp.int4)
    assert repr(x) == "[ 1 -2]:i4[2]:cpu(0)" and pickle.loads(pickle.dumps(x)).tolist() == [1, -2]
    assert pnp.result_type(pnp.int4, int) == pnp.int4 and x.nbytes == 2


@pytest.mark.parametrize(
    "make", [pnp.array, pnp.asarray, lambda x, dtype: pnp.array([x], dtype), lambda x, dtype: pnp.full(2, x, dtype)]
)
def test_what_they_cannot_hold_is_refused(make: object) -> None:
    for value in (8, -9):
        with pytest.raises(OverflowError, match="does not fit into int4"):
            make(value, "int4")  # type: ignore[operator]


def test_nothing_computes_in_them() -> None:
    x = pnp.array([1, -2], pnp.int4)
    for f in (lambda x: x + x, lambda x: x * 2, lambda x: -x, lambda x: x @ x, pnp.sort, lambda x: x < x):
        for way in WAYS.values():
            with pytest.raises(pb.errors.DtypeError, match=r"i4\[2\].*Convert with .astype\(\)"):
                way(f)(x)
    with pytest.raises(pb.errors.DtypeError, match="integers of 2 or 4 bits are for storage"):
        x + 1.5


@pytest.mark.parametrize("narrow", ["int2", "uint2", "int4", "uint4"])
@pytest.mark.parametrize("wide", ["int8", "uint8", "float16", "int32", "float64"])
def test_bits_of_packed_integers(narrow, wide):
    """The first of those in a byte lies in its lowest bits."""
    bits = int(narrow[-1])
    dtype = np.dtype(wide)
    x = np.random.default_rng(0).integers(0, 256, (3, 2 * dtype.itemsize), np.uint8).view(dtype)
    for read in (lax.bitcast_convert_type, pb.jit(lax.bitcast_convert_type, static_argnums=1)):
        parts = read(x, narrow)
        assert parts.dtype == pnp.dtype(narrow) and parts.shape == (3, 2, 8 * dtype.itemsize // bits)
        words = x.view(f"u{dtype.itemsize}").astype(object)
        expected = [[[int(w) >> (bits * i) & (2**bits - 1) for i in range(parts.shape[-1])] for w in row] for row in words]
        np.testing.assert_array_equal(np.asarray(lax.convert_element_type(parts, "uint8")) & (2**bits - 1), expected)
        assert np.asarray(read(parts, wide)).tobytes() == x.tobytes()
    np.testing.assert_array_equal(pb.vmap(lambda row: lax.bitcast_convert_type(row, narrow))(x), parts)


def test_bits_that_do_not_fit():
    x = pnp.zeros((2, 4), "int4")
    assert int(lax.bitcast_convert_type(pnp.array(-1, "int4"), "uint4")) == 15
    with pytest.raises(pb.errors.ShapeError, match="a last axis of size 2"):
        lax.bitcast_convert_type(x, "int8")
    with pytest.raises(pb.errors.DtypeError, match="whole bytes"):
        lax.bitcast_convert_type(pnp.zeros((2, 2), "int2"), "int4")
    with pytest.raises(pb.errors.DtypeError, match="integers and floats"):
        lax.bitcast_convert_type(pnp.zeros(2, bool), "int4")
