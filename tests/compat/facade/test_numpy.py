"""jax.numpy, where it differs from pullback.numpy."""

from __future__ import annotations

import io
from collections.abc import Hashable

import numpy as np
import pytest
import scipy.integrate

from pullback.compat import jax

jnp = jax.numpy
x = np.arange(6.0, dtype="float32").reshape(2, 3)


@pytest.mark.parametrize(
    "text",
    [
        "a[[0, 1]]", "a[range(2)]", "a.at[[0, 1]].set(0)", "a.at[[True, False]].add(1)", "jnp.take(a, [0])",
        "jnp.ix_([0], [1])", "jnp.concatenate([[1, 2], [3]])", "jnp.stack([[1], [2]])", "jnp.append([1], [2])",
        "jnp.atleast_1d([1])",        "jnp.unravel_index([1], (2, 2))", "jnp.insert(a, 0, [1, 2, 3])",
        "jnp.ravel_multi_index([[1], [1]], (2, 2))",
    ],
)  # fmt: skip
def test_lists_are_refused_where_jax_refuses_them(text) -> None:
    with pytest.raises(TypeError, match="array"):
        eval(text, {"a": jnp.asarray(x), "jnp": jnp})


def test_files_keep_all_digits_of_what_is_not_of_jax() -> None:
    for value in (1e-9, np.float64(1e-9), np.array([1e-9]), jnp.array(1e-9)):
        jnp.save(file := io.BytesIO(), value)
        jnp.savez(files := io.BytesIO(), x=value)
        file.seek(0), files.seek(0)
        assert np.load(file) == np.asarray(value) and np.load(files)["x"] == np.asarray(value)


def test_arrays_of_numpy_are_reshaped_as_such() -> None:
    found = []
    jax.jit(lambda: found.append(jnp.reshape(x, (3, -1), order="F")))()
    assert type(found[0]) is np.ndarray and np.array_equal(found[0], x.reshape((3, 2), order="F"))
    assert isinstance(jnp.reshape(jnp.asarray(x), 6), jax.Array) and jnp.reshape(2.0, (1,)).shape == (1,)


def test_questions_about_what_is_no_array_of_numbers() -> None:
    assert jnp.shape(np.array(["a", "b"])) == (2,)
    assert (jnp.shape(None), jnp.ndim(None), jnp.size(None)) == ((), 0, 1)
    assert not isinstance(jnp.ones(2), Hashable)
    assert jnp.array_equal(jax.random.key(0), jax.random.key(0), equal_nan=True)
    assert [jnp.iscomplexobj(kind) for kind in (jnp.float32, jnp.complex64)] == [False, True]
    number = type("Number", (), {"__jax_array__": lambda self: jnp.float32(3), "shape": (), "dtype": np.dtype("float32")})()
    assert jnp.isscalar(number) and not jnp.isscalar([1])


def test_asarray_without_a_copy_takes_what_cannot_be_shared_too() -> None:
    for given in (x, x.astype(np.float32), [1, 2], 3.0, jnp.asarray(x)):
        found = jnp.asarray(given, copy=False)
        assert isinstance(found, jax.Array) and np.array_equal(found, given)
    assert jnp.asarray(x, "int32", copy=False).dtype == np.int32


def test_lists_inside_tuples_are_indices() -> None:
    a = jnp.asarray(x)
    assert np.array_equal(a[[0, 1], [2, 0]], x[[0, 1], [2, 0]]) and np.array_equal(a[[0], :], x[[0], :])
    assert np.array_equal(a[[0, 1],], x) and np.array_equal(a.at[[0, 1],].set(0), 0 * x)
    slope = jax.grad(lambda a: (a[[0, 0],] ** 2).sum())(a)
    assert np.array_equal(slope, [4 * x[0], 0 * x[1]])
    assert np.array_equal(jnp.concatenate([a, a]), np.concatenate([x, x]))


def test_places_in_row_major_order_have_the_dtype_of_the_indices() -> None:
    i = jnp.array([0, 1], "int8")
    assert jnp.ravel_multi_index((i, i), (2, 3), mode="wrap").dtype == np.int8


def test_take_along_axis_by_one_hot_vectors_gives_0_out_of_bounds() -> None:
    found = jnp.take_along_axis(jnp.asarray(x), jnp.array([[1, 5], [0, -1]]), axis=1, mode="one_hot")
    assert np.array_equal(found, [[1.0, 0.0], [3.0, 5.0]])


def test_a_mean_of_complex_numbers_in_a_real_dtype_is_that_of_the_real_parts() -> None:
    assert jnp.mean(jnp.array([1 + 2j, 3]), dtype="float32") == 2
    with pytest.raises(ValueError, match="takes a complex dtype"):
        jnp.var(jnp.array([1 + 2j, 3]), dtype="float32")


def test_scipy_asks_arrays_for_their_namespace() -> None:
    a = jnp.linspace(0.0, 1.0, 5)
    assert a.__array_namespace__("2024.12") is jnp
    with pytest.raises(ValueError, match=r"2019\.01"):
        a.__array_namespace__("2019.01")
    assert str(jnp.__array_namespace_info__().default_dtypes()["real floating"]) == "float32"
    found = scipy.integrate.cumulative_trapezoid(a, dx=0.25, initial=0)
    assert np.allclose(found, [0, 0.03125, 0.125, 0.28125, 0.5])


def test_eigh_of_scipy_takes_both_triangles() -> None:
    a = np.array([[4.0, 1.0, 2.0], [3.0, 5.0, 7.0], [1.0, 0.0, 6.0]], np.float32) + np.float32([[0], [0], [2]]) * 1j
    expected = np.linalg.eigvalsh((a + a.conj().T) / 2)
    for found in (
        jax.scipy.linalg.eigh(a)[0],
        jax.scipy.linalg.eigh(a, lower=False)[0],
        jax.scipy.linalg.eigh(a, eigvals_only=True),
        jax.jit(jax.scipy.linalg.eigh)(a)[0],
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_histogram_counts_in_the_floats_that_it_is_of() -> None:
    assert jnp.histogram(np.ones(3, "float16"))[0].dtype == np.float16
    assert jnp.histogram(np.ones(3, "int8"))[0].dtype == np.float32


@pytest.mark.parametrize(("name", "expected"), [("fmax", 6), ("fmin", 4), ("gcd", 2), ("lcm", 12)])
def test_operands_by_name(name, expected) -> None:
    assert getattr(jnp, name)(x1=4, x2=6).tolist() == expected == getattr(jnp, name)(4, 6).tolist()


def test_issubdtype_by_name() -> None:
    assert jnp.issubdtype(arg1=jnp.float32, arg2=jnp.floating)
