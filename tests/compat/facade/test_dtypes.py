"""jax.dtypes and jax.numpy's scalar types: each expectation is what JAX 0.10.2 gives."""

import ml_dtypes
import numpy as np
import pytest

import pullback as pb
import pullback.compat.jax as jax
from pullback.compat.jax import dtypes, lax
from pullback.compat.jax import numpy as jnp
from pullback.core.modes import default_bits, narrowing, overriding

SCALARS = ["bool_", "int8", "int32", "uint64", "float16", "float32", "float64", "complex64", "bfloat16", "float8_e5m2", "int4"]


@pytest.mark.parametrize("name", SCALARS)
@default_bits(64)
def test_scalar_types_are_dtypes_and_make_arrays(name):
    scalar, plain = getattr(jnp, name), getattr(np, name, None) or getattr(ml_dtypes, name)
    assert scalar.dtype == np.dtype(scalar) == np.dtype(plain)
    assert scalar == plain and hash(scalar) == hash(plain) and scalar != np.int16
    assert {plain: 1}[scalar] == 1
    assert scalar.__name__ == plain.__name__
    assert isinstance(plain(1), scalar) and not isinstance(np.int16(1), scalar)
    made = scalar(1)
    assert isinstance(made, pb.Array) and made.dtype == scalar and not made.weak_type
    assert jnp.zeros(2, scalar).dtype == made.dtype
    assert jnp.issubdtype(made.dtype, scalar) and not jnp.issubdtype(jnp.int16, scalar)


def test_scalar_types_take_arrays():
    assert jnp.float32("-inf") == -np.inf and jnp.int8("3").dtype == jnp.int8
    assert np.array_equal(jnp.int32([1.5, 2.5]), [1, 2])
    assert pb.jit(lambda x: jnp.float16(x))(1).dtype == jnp.float16


def test_aliases():
    assert jnp.single is jnp.float32 and jnp.double is jnp.float64 is jnp.float_ and jnp.csingle is jnp.complex64
    assert jnp.int_ is jnp.int64 and jnp.uint is jnp.uint64 and jnp.bool is jnp.bool_
    assert jnp.dtype is np.dtype and jnp.floating is np.floating and jnp.character is np.character


def test_ndarray_is_every_array_and_every_traced_value():
    assert jnp.ndarray is pb.Array and isinstance(jnp.zeros(2), jnp.ndarray)
    assert pb.jit(lambda x: isinstance(x, jnp.ndarray))(1.0)


def test_canonical_dtypes_follow_the_mode():
    with narrowing():
        assert dtypes.canonicalize_dtype(np.float64) == np.float32 and dtypes.canonicalize_dtype(int) == np.int32
        assert dtypes.canonicalize_dtype("complex128") == np.complex64 and dtypes.canonicalize_dtype("int8") == np.int8
    with default_bits(64):
        assert dtypes.canonicalize_dtype(np.float64) == np.float64 and dtypes.canonicalize_dtype(int) == np.int64
    key = pb.random.key(0).dtype
    assert dtypes.canonicalize_dtype(key, allow_extended_dtype=True) is key
    with pytest.raises(ValueError, match="allow_extended_dtype"):
        dtypes.canonicalize_dtype(key)
    with pytest.raises(TypeError, match="names none"):
        dtypes.canonicalize_dtype("no such dtype")


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (jnp.bfloat16, jnp.floating, True),
        (np.float32, jnp.float32, True),
        (int, np.int64, True),
        (int, jnp.int32, False),
        (float, "float64", True),
        (jnp.int4, jnp.signedinteger, True),
        (jnp.uint4, jnp.signedinteger, False),
        (jnp.int4, object, False),
        (np.floating, np.inexact, True),
        (dtypes.float0, np.floating, False),
        (np.dtype("O"), np.number, False),
        (np.dtype("U3"), np.character, True),
        (pb.random.key(0).dtype, dtypes.prng_key, True),
        (pb.random.key(0).dtype, dtypes.extended, True),
        (dtypes.prng_key, dtypes.extended, True),
        (pb.random.key(0).dtype, np.number, False),
        (np.uint32, dtypes.prng_key, False),
        (np.uint32, dtypes.extended, False),
    ],
)
def test_issubdtype(a, b, expected):
    assert jnp.issubdtype(a, b) is dtypes.issubdtype(a, b) is expected


class Struct:
    """As jax.ShapeDtypeStruct: something with a shape and a dtype, and no values."""

    def __init__(self, shape, dtype, weak_type=False):
        self.shape, self.dtype, self.weak_type = shape, np.dtype(dtype), weak_type


def test_result_type_takes_structs_and_says_what_is_weak():
    assert jnp.result_type(Struct((2,), "int8"), 1.0) == np.float32
    assert jnp.result_type(Struct((), "float32", True), jnp.float16) == np.float16
    assert dtypes.result_type(1, 2.0, return_weak_type_flag=True) == (np.dtype("float32"), True)
    assert dtypes.result_type(jnp.int8, 2, return_weak_type_flag=True) == (np.dtype("int8"), False)
    with narrowing():
        assert jnp.result_type(np.ones(3), jnp.float16) == np.float32 == jnp.result_type("float64")


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("float64", "int32", "float64"),
        ("complex64", "float64", "complex128"),
        ("uint32", "int32", "int32"),
        (int, float, "float64"),
        (int, "int8", "int8"),
    ],
)
def test_dtypes_meet_in_64_bits_where_arrays_have_32(a, b, expected):
    with narrowing():
        assert jnp.promote_types(a, b) == jnp.promote_types(b, a) == np.dtype(expected)


def test_none_has_no_dtype():
    with pytest.raises(ValueError, match="got None"):
        dtypes.dtype(None)


def test_functions_of_the_shape_take_structs():
    struct = Struct((2, 3), "complex64")
    assert jnp.shape(struct) == (2, 3) and jnp.ndim(struct) == 2 and jnp.size(struct) == 6 and jnp.size(struct, 1) == 3
    assert jnp.iscomplexobj(struct) and not jnp.isrealobj(struct)
    assert jnp.zeros_like(struct).dtype == np.complex64 and jnp.ones_like(struct, shape=(1,)).shape == (1,)
    assert jnp.full_like(Struct((2,), "float32", True), 2).weak_type


def test_scalar_type_of_and_bits():
    assert dtypes.scalar_type_of(jnp.bfloat16) is float and dtypes.scalar_type_of(jnp.zeros(2, bool)) is bool
    assert dtypes.scalar_type_of(jnp.int4) is int and dtypes.scalar_type_of(1j) is complex
    assert dtypes.itemsize_bits(jnp.int4) == 4 and dtypes.itemsize_bits(bool) == 8 and dtypes.itemsize_bits("float32") == 32


def test_limits_are_of_their_dtype_as_numpys():
    assert type(jnp.finfo(jnp.float32).eps) is np.float32 and jnp.iinfo(jnp.int8).max == 127
    assert (jnp.ones(1, jnp.float16) * jnp.finfo(jnp.float32).eps).dtype == np.float32


def test_sharding_hints_change_nothing():
    assert jnp.arange(3, out_sharding=None).shape == (3,)
    assert np.array_equal(jnp.dot(jnp.ones(3), jnp.ones(3), out_sharding=None), 3)


def test_functions_whose_results_are_of_other_dtypes_than_numpys():
    x = jnp.array([1, 2], "int8")
    for scan in (jnp.cumsum, jnp.cumprod, jnp.nancumsum, jnp.nancumprod, jnp.cumulative_prod):
        assert scan(x).dtype == np.int8 and scan(x, dtype="int32").dtype == np.int32 and scan(x > 1).dtype == np.int32
    assert np.array_equal(jnp.cumsum(x, 0), [1, 3])
    for product in (jnp.convolve, jnp.correlate, jnp.polymul):
        assert product(x, x).dtype == np.float32
    assert np.array_equal(jnp.convolve(x, x, mode="same"), np.convolve([1, 2], [1, 2], "same"))
    assert jnp.polyder(x).dtype == jnp.rint(x).dtype == np.float32
    counts, edges = jnp.histogram(x, 2)
    assert counts.dtype == np.float32 and np.array_equal(counts, [1, 1]) and edges.shape == (3,)
    assert jnp.histogram(x, bins=2, weights=x)[0].dtype == np.float32


def test_arguments_that_only_jaxs_functions_take():
    assert jnp.array_equal([1], [1]) and jnp.array_equiv([[1], [1]], [1])


def test_what_is_put_beyond_the_ends_is_put_at_the_ends():
    for put in (jnp.put, jax.jit(jnp.put, static_argnames=("mode", "inplace"))):
        assert np.array_equal(put(jnp.arange(3), jnp.array([7]), 9, inplace=False), [0, 1, 9])
        assert np.array_equal(put(jnp.arange(5), jnp.array([-2, -20, 20], "int8"), 9, inplace=False), [9, 1, 2, 9, 9])
        assert np.array_equal(put(jnp.arange(5), jnp.array([-2, 1]), 9, mode="clip", inplace=False), [9, 9, 2, 3, 4])


def test_quotients_of_integers_at_places_are_floats():
    x = jnp.arange(4)
    for out in (x.at[1:3].divide(2), jax.jit(lambda x: x.at[1:3].divide(2))(x), x.at[x % 3 > 0].divide(2)):
        assert out.dtype == np.float32 and np.array_equal(out, [0, 0.5, 1, 3])
    assert jnp.ones(2, "bfloat16").at[0].divide(4).dtype == jnp.bfloat16


def test_a_sharding_over_one_device_is_a_device():
    sharding = jnp.ones(2).sharding
    for made in (jnp.ones(2, device=sharding), jnp.linspace(0, 1, 3, device=sharding), jnp.zeros_like(1.0, device=sharding)):
        assert made.sharding == sharding
    assert jnp.iscomplexobj([1j]) and not jnp.iscomplexobj(None) and jnp.isrealobj([1.0])


def test_a_python_integer_keeps_its_low_bits_where_narrow_integers_meet_it():
    narrow, unsigned = jnp.array([200, 5], jnp.uint8), jnp.array([200, 5], jnp.uint32)
    for found, expected, dtype in (
        (unsigned & -1, [200, 5], jnp.uint32),
        (-1 * unsigned, [2**32 - 200, 2**32 - 5], jnp.uint32),
        (narrow + 300, [244, 49], jnp.uint8),
        (pb.jit(lambda x: x + 300)(narrow), [244, 49], jnp.uint8),
        (jnp.zeros(1, jnp.int8) + 200, [-56], jnp.int8),
        (jnp.full(2, -1, jnp.uint32), [2**32 - 1] * 2, jnp.uint32),
        (jnp.where(narrow > 9, narrow, -1), [200, 255], jnp.uint8),
        (narrow.at[0].set(300), [44, 5], jnp.uint8),
    ):
        assert found.tolist() == expected and found.dtype == dtype
    assert np.isnan(jnp.where(narrow > 9, jnp.nan, jnp.ones(2))).tolist() == [True, False]
    for refused in (lambda: jnp.array(300, jnp.uint8), lambda: jnp.int32(1) + 2**31, lambda: jnp.uint32(-1)):
        with pytest.raises(OverflowError):
            refused()
    with overriding(truncates=False), pytest.raises(OverflowError, match="300 does not fit into uint8"):
        narrow + 300


def test_functions_that_convert_nothing_refuse_an_integer_that_is_too_large() -> None:
    narrow = jnp.array([200, 5], jnp.uint8)
    for refused in (
        lambda: lax.max(narrow, -5),
        lambda: lax.eq(300, narrow),
        lambda: pb.jit(lambda x: lax.add(x, 300))(narrow),
        lambda: lax.clamp(0, narrow, 256),
        lambda: lax.pad(narrow, -1, [(1, 1, 0)]),
    ):
        with pytest.raises(TypeError, match="beside an array of uint8, which cannot hold it"):
            refused()
    for init in (-5, 300):
        with pytest.raises(TypeError, match=f"one number of its dtype to begin with, not {init}"):
            lax.reduce(narrow, init, lax.max, (0,))
        with pytest.raises(TypeError, match=f"one number of its dtype to begin with, not {init}"):
            lax.reduce_window(narrow, init, lax.max, (2,), (1,), "VALID")
    assert lax.reduce(narrow, 255, lax.min, (0,)) == 5
    assert lax.reduce(narrow, np.uint8(7), lax.max, (0,)) == 200


def test_asking_for_the_dtype_converts_nothing():
    with pb.checking(widening="error"):
        assert jnp.result_type(jnp.ones(3), jnp.ones(3, jnp.bfloat16)) == jnp.float32
        with pytest.raises(pb.errors.DtypeWidened):
            jnp.ones(3) + jnp.ones(3, jnp.bfloat16)
