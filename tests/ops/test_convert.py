"""Conversions: saturation, NaN, storage-only dtypes, bits."""

import ml_dtypes
import numpy as np
import pytest

from pullback.core.array import as_array
from pullback.core.dtypes import DTYPES, FLOAT8_NAMES
from pullback.core.errors import DtypeError, ShapeError
from pullback.ops.convert import bitcast_convert_type, convert_element_type
from pullback.ops.rounding import reduce_precision

FLOATS = ["float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("wanted", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("source", FLOATS)
def test_floats_become_the_nearest_integer_in_range(source, wanted, both):
    limits = np.iinfo(wanted)
    points = np.array([0.0, 1.9, -1.9, 127.0, -128.0, 300.0, -300.0, 5e4, -5e4, np.inf, -np.inf, np.nan, 255.5, -0.5])
    points = points.astype(DTYPES[source])
    expected = [
        0
        if np.isnan(v)
        else limits.max
        if v == np.inf
        else limits.min
        if v == -np.inf
        else min(max(int(v), limits.min), limits.max)
        for v in points.astype(np.float64)
    ]
    for values in both(convert_element_type, points, new_dtype=DTYPES[wanted]):
        assert values.tolist() == expected


def test_the_edges_of_64_bit_integers(both):
    points = np.array([2.0**63, -(2.0**63), 2.0**62, 9.3e18])
    for values in both(convert_element_type, points, new_dtype=DTYPES["int64"]):
        assert values.tolist() == [2**63 - 1, -(2**63), 2**62, 2**63 - 1]


@pytest.mark.parametrize("stored", FLOAT8_NAMES)
@pytest.mark.parametrize("working", [*FLOATS, "int32", "complex64"])
def test_float8_is_for_storage(stored, working, both):
    points = np.array([1.0, 2.0, 4.0]).astype(DTYPES[working])
    for values in both(convert_element_type, points, new_dtype=DTYPES[stored]):
        assert values.dtype == DTYPES[stored]
        assert values.astype(np.float64).tolist() == [1.0, 2.0, 4.0]
    for values in both(convert_element_type, points.real.astype(DTYPES[stored]), new_dtype=DTYPES[working]):
        assert values.dtype == DTYPES[working] and values.tolist() == [1.0, 2.0, 4.0]


@pytest.mark.parametrize("source", [*FLOATS, "int8", "uint32", "complex64"])
def test_to_bool(source, both):
    points = np.array([0, 1, 0, 3]).astype(DTYPES[source])
    for values in both(convert_element_type, points, new_dtype=DTYPES["bool"]):
        assert values.tolist() == [False, True, False, True]


def test_complex_keeps_its_real_part(both):
    points = np.array([1 + 2j, -3.7 - 1j])
    for values in both(convert_element_type, points, new_dtype=DTYPES["float32"]):
        np.testing.assert_array_equal(values, np.float32([1, -3.7]))
    for values in both(convert_element_type, points, new_dtype=DTYPES["int32"]):
        assert values.tolist() == [1, -3]


def test_rounding_to_bfloat16(both):
    points = np.linspace(-3, 3, 1001)
    for values in both(convert_element_type, points.astype(np.float32), new_dtype=DTYPES["bfloat16"]):
        np.testing.assert_array_equal(values, points.astype(np.float32).astype(ml_dtypes.bfloat16))


def test_weak_results():
    x = as_array(np.float32(1.0))
    assert convert_element_type(x, new_dtype=DTYPES["float32"], weak=True).type.weak
    assert not convert_element_type(as_array(1.0), new_dtype=DTYPES["float32"]).type.weak


def test_bits(both):
    for values in both(bitcast_convert_type, np.array([1.0, -0.0, np.inf], np.float32), new_dtype=DTYPES["uint32"]):
        assert values.tolist() == [0x3F800000, 0x80000000, 0x7F800000]
    for values in both(bitcast_convert_type, np.array([0x01020304], np.uint32), new_dtype=DTYPES["uint8"]):
        assert values.tolist() == [[4, 3, 2, 1]]
    for values in both(bitcast_convert_type, np.array([4, 3, 2, 1], np.uint8), new_dtype=DTYPES["uint32"]):
        assert values.shape == () and values == 0x01020304


def test_what_has_no_bits():
    with pytest.raises(DtypeError, match="integers and floats"):
        bitcast_convert_type(as_array(np.array([True])), new_dtype=DTYPES["uint8"])
    with pytest.raises(ShapeError, match="last axis of size 4"):
        bitcast_convert_type(as_array(np.zeros(3, np.uint8)), new_dtype=DTYPES["uint32"])


@pytest.mark.parametrize(("stored", "bits"), [("float16", (5, 10)), ("bfloat16", (8, 7)), ("float32", (8, 23))])
def test_fewer_bits(stored, bits, both):
    rng = np.random.default_rng(0)
    points = np.concatenate(
        [rng.normal(size=200), [0.0, -0.0, np.inf, -np.inf, np.nan, 65519.0, 1 + 2.0**-11, 1 + 3 * 2.0**-11]]
    )
    expected = points.astype(np.float32).astype(DTYPES[stored]).astype(np.float32)
    for values in both(reduce_precision, points.astype(np.float32), exponent_bits=bits[0], mantissa_bits=bits[1]):
        np.testing.assert_array_equal(values, expected)
        np.testing.assert_array_equal(np.signbit(values), np.signbit(expected))
    points = np.array([3.0, 1.5, -0.75, 2.0**-24, 5 * 2.0**-24], np.float16)
    for exponent_bits, mantissa_bits, expected in [
        (5, 10, points), (5, 0, [2.0, 2.0, -0.5, 0.0, 0.0]), (8, 1, [3.0, 1.5, -0.75, 2.0**-24, 4 * 2.0**-24]),
    ]:  # fmt: skip
        for values in both(reduce_precision, points, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits):
            np.testing.assert_array_equal(values, expected)
    for values in both(reduce_precision, np.array([1e39, 1e-39, -1e-39, -1e39]), exponent_bits=8, mantissa_bits=23):
        assert values.tolist() == [np.inf, 0.0, 0.0, -np.inf] and np.signbit(values).tolist() == [False, False, True, True]
