"""x.at[index]: every update against NumPy's, for every dtype, shape of index and way to run it."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core.errors import ShapeError
from pullback.core.modes import overriding

# What each method does to the elements, in NumPy, where operands are promoted as this library does.
METHODS: dict[str, Callable[[Any, Any], Any]] = {
    "set": lambda old, new: np.broadcast_to(new, old.shape),
    "add": lambda old, new: old + new,
    "subtract": lambda old, new: old - new,
    "multiply": lambda old, new: old * new,
    "divide": lambda old, new: old / new,
    "power": lambda old, new: old**new,
    "min": np.minimum,
    "max": np.maximum,
}
COMPILED = ("int32", "bfloat16", "float64")  # the dtypes that are tried compiled, too
DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64"]
RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2, "c": 3}


def rank(dtype: Any) -> int:
    return RANK[pnp.asarray(np.zeros(1, dtype)).dtype.kind if isinstance(dtype, str) else np.dtype(dtype).kind]


def run(method: str, x: Any, index: Any, values: Any, compiled: bool = True) -> list[Any]:
    """The update eagerly, and compiled with everything traced."""
    traced = pb.jit(lambda x, v: getattr(x.at[index], method)(v))
    return [getattr(x.at[index], method)(values), *([traced(x, values)] if compiled else [])]


@pytest.mark.filterwarnings("ignore:.* lost")
@pytest.mark.parametrize("values", [2, 2.0, np.float32(2.0), np.float64(2.0), np.int32(2), np.asarray([2, 3, 2], np.int64)])
@pytest.mark.parametrize("method", [name for name in METHODS if name != "set"])
@pytest.mark.parametrize("dtype", [name for name in DTYPES if name != "bool"])
def test_values_and_elements_meet_in_their_common_dtype(dtype: str, method: str, values: Any) -> None:
    if method in ("min", "max") and dtype.startswith("complex"):
        return
    x = pnp.asarray(np.asarray([4, 5, 6, 7])).astype(dtype)
    wide = np.asarray([4, 5, 6, 7], "complex128" if "complex" in dtype else "float64")
    expected = wide.copy()
    expected[:3] = METHODS[method](wide[:3], np.asarray(values))
    compiled = dtype in COMPILED and values.__class__ in (int, float, np.float32)
    for index in (slice(0, 3), np.asarray([0, 1, 2])):
        out = run(method, x, index, values, compiled)[-1]
        assert out.type is x.type  # dtype and weakness stay
        got = np.asarray(out.astype("complex128" if "complex" in dtype else "float64"))
        want = expected if rank(dtype) > 1 else np.trunc(expected)
        np.testing.assert_allclose(got, want, rtol=1e-2)


UPDATES_OF_INTEGERS: list[tuple[str, Any, list[int]]] = [
    ("multiply", 0.5, [2, 5, 6]),
    ("multiply", np.float32(0.5), [2, 5, 6]),
    ("multiply", np.float64([0.5]), [2, 5, 6]),
    ("add", -0.9, [3, 5, 6]),
    ("add", 0.9, [4, 5, 6]),
    ("subtract", 0.9, [3, 5, 6]),
    ("divide", 2, [2, 5, 6]),
    ("divide", 8, [0, 5, 6]),
    ("divide", 0.5, [8, 5, 6]),
    ("power", 0.5, [2, 5, 6]),
    ("power", 2, [16, 5, 6]),
    ("min", 0.5, [0, 5, 6]),
    ("max", 4.9, [4, 5, 6]),
    ("set", 2.0, [2, 5, 6]),
    ("set", True, [1, 5, 6]),
]


@pytest.mark.filterwarnings("ignore:.* lost")
@pytest.mark.parametrize(("method", "values", "expected"), UPDATES_OF_INTEGERS)
def test_floats_meet_integers(method: str, values: Any, expected: list[int]) -> None:
    x = pnp.array([4, 5, 6])
    for index in (0, slice(0, 1), [0], np.array([True, False, False]), pnp.array([True, False, False])):
        for out in run(method, x, index, values, method != "set"):
            assert out.tolist() == expected and out.type is x.type


def test_elements_that_are_not_updated_stay_exactly() -> None:
    x = pnp.array([16777217, 16777217])  # no float32 has this value
    with pytest.warns(RuntimeWarning, match="lost"):
        for out in run("multiply", x, 0, 0.5) + run("add", x, [0], 0.5) + run("divide", x, np.array([True, False]), 2):
            assert out.tolist()[1] == 16777217
    with pytest.warns(RuntimeWarning, match="lost"):
        assert pnp.asarray(np.int64([2**60 + 1, 1])).at[1].multiply(1.5).tolist() == [2**60 + 1, 1]


INTS, AT = np.arange(1, 4, dtype="int32"), np.asarray([0, 2])
LOSSES: dict[str, tuple[Any, str, list[int]]] = {
    "fraction": (lambda x: x.at[0].add(1.5), "int32, in which part of that is lost", [2, 2, 3]),
    "fraction, scattered": (lambda x: x.at[AT].subtract(0.5), "is lost", [0, 2, 2]),
    "fraction, masked": (lambda x: x.at[x > 2].multiply(0.5), "is lost", [1, 2, 1]),
    "quotient": (lambda x: x.at[1:].divide(4), "is lost", [1, 0, 0]),
    "array": (lambda x: x.at[0].max(np.float32(1.5)), "is lost", [1, 2, 3]),
    "traced": (pb.jit(lambda x: x.at[0].add(1.5)), "may be lost", [2, 2, 3]),
    "traced values": (lambda x: pb.vmap(lambda v: x.at[0].add(v))(np.ones(1))[0], "may be lost", [2, 2, 3]),
    "exact": (lambda x: x.at[0].multiply(np.float32(2.0)), "", [2, 2, 3]),
    "exact number": (lambda x: x.at[0].add(2.0), "", [3, 2, 3]),
    "exact number, traced": (pb.jit(lambda x: x.at[0].add(2.0)), "", [3, 2, 3]),
    "exact quotient": (lambda x: x.at[1].divide(2), "", [1, 1, 3]),
}


@pytest.mark.parametrize("name", LOSSES)
def test_an_update_that_loses_something_says_so(name: str) -> None:
    update, message, expected = LOSSES[name]
    with pytest.warns(RuntimeWarning, match=message) if message else contextlib.nullcontext():
        out = update(pnp.asarray(INTS))
    assert out.dtype == np.int32 and out.tolist() == expected


def test_python_numbers_are_exact_in_wide_arrays() -> None:
    zeros = pnp.zeros(2, "float64")
    for method, expected in (("set", 0.1), ("add", 0.1), ("subtract", -0.1), ("max", 0.1), ("min", 0.0)):
        for out in run(method, zeros, slice(None), 0.1, False) + run(method, zeros, [0, 1], 0.1, False):
            assert out.tolist() == [expected] * 2 and out.type is zeros.type and not out.type.weak
            assert (out + pnp.ones(2, "float32")).dtype == np.float64
    assert pnp.ones(2, "float64").at[:].multiply(0.1).tolist() == [0.1, 0.1]
    weak = pnp.asarray(1.0)
    assert weak.at[...].set(np.float32(2.0)).type is weak.type


LOSSY: list[tuple[str, Any]] = [
    ("int32", 1.7),
    ("int32", np.float32(1.0)),
    ("int32", [1.5]),
    ("int32", 1j),
    ("uint8", 0.5),
    ("bool", 2),
    ("bool", np.int32(1)),
    ("float32", 1j),
    ("float32", np.complex64(1)),
    ("int32", float("nan")),
    ("int32", float("inf")),
]


@pytest.mark.parametrize(("dtype", "values"), LOSSY)
def test_set_refuses_values_that_the_array_cannot_hold(dtype: str, values: Any) -> None:
    x = pnp.zeros(3, dtype)
    for index in (0, slice(None), [0], pnp.array([True, False, True])):
        with warnings.catch_warnings(), pytest.raises(pb.errors.DtypeError, match=r"astype"):
            warnings.simplefilter("error")
            x.at[index].set(values)
    for index in (0, [0]):
        with pytest.raises(pb.errors.DtypeError, match=r"set of .* in an array of " + dtype):
            pb.jit(lambda x, index=index: x.at[index].set(values))(x)
    with pytest.raises(pb.errors.DtypeError):
        x.at[:].apply(lambda old: old + 0.5 if dtype != "float32" else old * 1j)


INDICES: dict[str, Any] = {
    "int": 1,
    "negative": -1,
    "slice": slice(1, None),
    "step": slice(None, None, 2),
    "backward": slice(None, None, -1),
    "empty slice": slice(2, 2),
    "ellipsis": ...,
    "pair": (1, 2),
    "row and slice": (slice(None), 1),
    "array": np.array([0, 2]),
    "array of one": np.array(1),
    "empty array": np.array([], int),
    "matrix of indices": np.array([[0, 1], [2, 0]]),
    "two arrays": (np.array([0, 1]), np.array([1, 2])),
    "array and slice": (np.array([0, 2]), slice(1, 3)),
    "slice and array": (slice(1, 3), np.array([0, 2])),
    "mask": np.array([True, False, True]),
    "empty mask": np.array([False, False, False]),
    "whole mask": np.arange(9).reshape(3, 3) % 2 == 0,
    "uint8": np.array([0, 2], np.uint8),
    "int8": np.array([0, -1], np.int8),
    "new axis": (None, 1),
}


@pytest.mark.parametrize("dtype", [*DTYPES, "float8_e5m2"])
@pytest.mark.parametrize("name", INDICES)
def test_every_index_reads_and_sets_every_dtype(name: str, dtype: str) -> None:
    index = INDICES[name]
    x = pnp.asarray((np.arange(9) % 5).reshape(3, 3)).astype(dtype)
    host = np.array(x)
    read = host[index]
    changed = host.copy()
    changed[index] = 1
    for f in (lambda f: f, pb.jit) if dtype in COMPILED else (lambda f: f,):
        got = f(lambda x: x[index])(x)
        assert got.dtype == x.dtype and got.shape == read.shape and got.tolist() == read.tolist()
        out = f(lambda x: x.at[index].set(1))(x)
        assert out.type is x.type and out.tolist() == changed.tolist()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (1, 1, 1), (), (2, 1, 0, 4)])
def test_arrays_without_elements_and_without_axes(shape: tuple[int, ...]) -> None:
    host = np.zeros(shape, np.float32)
    x = pnp.asarray(host)
    for index in (..., (..., None), (slice(None),) * len(shape), (slice(0, 0),) * len(shape), np.zeros(shape, bool)):
        if isinstance(index, np.ndarray) and not shape:
            continue
        expected = host[index]
        for got in (x[index], pb.jit(lambda x, index=index: x[index])(x)):
            assert got.shape == expected.shape
        for method in METHODS:
            for out in run(method, x, index, 1.0, method == "add"):
                changed = host.copy()
                with np.errstate(all="ignore"):
                    changed[index] = METHODS[method](expected, np.float32(1.0))
                assert out.shape == shape and out.tolist() == changed.tolist(), (index, method)
    if shape and shape[0] == 0:
        none = np.zeros((2, 0), int)
        assert x[none].shape == host[none].shape and x.at[none].set(1.0).shape == shape
        for touch in (lambda: x[0], lambda: x[[0]], lambda: x.at[[0]].set(1.0), lambda: x.at[0].set(1.0)):
            with pytest.raises(IndexError):
                touch()


def test_repeated_indices_apply_all() -> None:
    index = np.array([0, 0, 2])
    x = np.asarray([1.0, 2.0, 3.0], np.float32)
    values = np.asarray([2.0, 4.0, 8.0], np.float32)
    ufuncs = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "power": np.power}
    for method, ufunc in {**ufuncs, "min": np.minimum, "max": np.maximum}.items():
        expected = x.copy()
        ufunc.at(expected, index, values)  # type: ignore[attr-defined]
        for out in run(method, pnp.asarray(x), index, values):
            np.testing.assert_allclose(np.asarray(out), expected)
    with pytest.warns(RuntimeWarning, match="lost"):
        assert pnp.array([1, 2, 3]).at[index].add(0.6).tolist() == [2, 2, 3]  # 1 + 0.6 + 0.6, and only then a whole number


def test_derivatives_of_updates() -> None:
    x, v = np.asarray([1.0, 2.0, 3.0]), np.asarray([2.0, 0.5])
    for method in METHODS:
        for index in (slice(0, 2), np.array([2, 0])):
            pb.testing.check_gradients(
                lambda x, v, index=index, method=method: getattr(x.at[index], method)(v, unique_indices=True), (x, v)
            )


def test_factors_that_each_meet_an_element_of_their_own_have_derivatives() -> None:
    """One scalar index in each batch element, which cannot repeat."""
    x, u = np.arange(1.0, 13.0).reshape(3, 4), np.array([2.0, 3.0, 4.0])

    def each(at: Any) -> Any:
        return pb.grad(lambda u: pb.vmap(lambda x, i, u: x.at[i].multiply(u))(x, at, u).sum())

    for how in (lambda f: f, pb.jit):
        assert how(each(np.array([0, 1, 2])))(u).tolist() == [1.0, 6.0, 11.0]
        assert how(pb.grad(lambda u: pb.vmap(lambda x, u: x.at[1].multiply(u))(x, u).sum()))(u).tolist() == [2.0, 6.0, 10.0]
    with pytest.raises(pb.errors.GradientError, match="unique_indices"):
        each(np.array([[0, 0], [1, 2], [3, 3]]))(u)


PLACES: list[tuple[Any, Any]] = [(-1, 0), (np.array([-1, 1]), [0, 1]), (np.array([[-1], [1]]), [[0], [1]])]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("index", "clipped"), PLACES, ids=str)
def test_negative_indices_may_be_out_of_bounds(method: str, index: Any, clipped: Any) -> None:
    x = pnp.asarray([2.0, 4.0, 8.0])
    traced = pb.jit(lambda x, index, mode: getattr(x.at[index], method)(3.0, mode=mode, **how), static_argnames="mode")
    how: dict[str, Any] = {"wrap_negative_indices": False, "indices_are_sorted": True, "unique_indices": True}
    inside = np.asarray(index)[np.asarray(index) >= 0]
    for update in (lambda mode: getattr(x.at[index], method)(3.0, mode=mode, **how), lambda mode: traced(x, index, mode)):
        for mode, places in (("drop", inside), ("fill", inside), ("clip", clipped)):
            assert update(mode).tolist() == getattr(x.at[places], method)(3.0).tolist()
    with pytest.raises(IndexError, match="out of bounds"):
        getattr(x.at[index], method)(3.0, **how)


def test_options_of_reading() -> None:
    x = pnp.asarray([2.0, 4.0, 8.0])
    how: dict[str, Any] = {"wrap_negative_indices": False, "indices_are_sorted": True, "unique_indices": True}
    assert x.at[np.array([-1, 1])].get(mode="fill", fill_value=7.0, **how).tolist() == [7.0, 4.0]
    assert x.at[-1].get(mode="clip", **how) == 2.0 and x.at[-1:].get(mode="clip", **how).tolist() == [8.0]
    assert x.at[np.array([-1, 1])].apply(lambda y: y + 1, mode="drop", **how).tolist() == [2.0, 5.0, 8.0]
    for wrong in (lambda: x.at[0].get(fill=1), lambda: x.at[0].add(1, modes="clip")):
        with pytest.raises(TypeError, match=r"\.at\[\] takes no argument"):
            wrong()


def test_a_float_beyond_the_integers_is_no_python_integer() -> None:
    with pytest.raises(pb.errors.DtypeError, match=r"1e\+20 in an array of int32"):
        pnp.arange(3).at[0].set(1e20)


@pytest.mark.parametrize("method", ["set", "add", "subtract", "multiply", "max"])
@pytest.mark.parametrize(
    ("index", "values"),
    [
        (np.array([1, 1, -1]), 2),
        (np.array([[-4, 3], [1, -3]]), np.array([1, 2])),  # whose sum `np.add.at` of NumPy 2.4 gets wrong
        ((np.array([0, 0]), slice(1, 3)), np.array([5, 7])),
        ((slice(None), np.array([0, 0])), np.ones((1, 1, 2))),
        (np.array(2), 3),
    ],
)
def test_known_places_are_updated_as_traced_ones(method: str, index: Any, values: Any) -> None:
    x = pnp.asarray(np.arange(12.0).reshape(4, 3)[:, : 3 if isinstance(index, tuple) else 2].astype(np.float32))
    values = pnp.asarray(np.asarray(values, np.float32))
    traced = pb.jit(lambda x, values: getattr(x.at[index], method)(values))(x, values)
    np.testing.assert_array_equal(getattr(x.at[index], method)(values), traced)


def test_known_places_out_of_bounds_are_refused_where_nothing_is_written() -> None:
    nobody = np.zeros(0, np.int32)
    for method in ("set", "add"):
        with pytest.raises(IndexError, match="out of bounds"):
            getattr(pnp.zeros((3, 3)).at[np.array([5]), nobody], method)(1.0)


def test_values_of_too_many_elements_for_a_place_name_the_shapes() -> None:
    with pytest.raises(ShapeError, match=r"broadcast to \(\), but got c64\[2\]"):
        pnp.zeros(3, "complex64").at[1].set(pnp.asarray(np.ones(2, np.complex64)))


# Complex numbers are ordered by their real parts, then by their imaginary ones; NaN stays, as in NumPy.
COMPLEX_PAIRS = np.asarray(
    [(5 - 1j, 5), (5 + 1j, 5), (6 + 3j, 6 - 4j), (2, 3), (3, 2), (np.nan, 5), (complex(1, np.nan), 5), (5, np.nan)]
)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("method", ["min", "max"])
def test_extremes_of_complex_numbers_are_those_of_numpy(method: str, dtype: str) -> None:
    old, new = COMPLEX_PAIRS.T.astype(dtype)
    expected = METHODS[method](old, new)
    for out in run(method, pnp.asarray(old), np.arange(len(old)), new):
        np.testing.assert_array_equal(np.asarray(out), expected)


@pytest.mark.parametrize("shape", [(1,), (1, 1), (1, 2), (1, 1, 2)])
@pytest.mark.parametrize("method", ["set", "add"])
def test_a_mask_takes_values_with_axes_of_one_in_front(method: str, shape: tuple[int, ...]) -> None:
    mask = np.asarray([True, False, True])
    x = np.arange(3.0) if shape[-1] == 1 else np.arange(6.0).reshape(3, 2)
    values = np.full(shape, 7.0)
    expected = x.copy()
    expected[mask] = METHODS[method](x[mask], values.reshape(shape[-1:]))
    for out in run(method, pnp.asarray(x), mask, values):
        np.testing.assert_array_equal(np.asarray(out), expected)
    np.testing.assert_array_equal(pb.jit(lambda m: getattr(pnp.asarray(x).at[m], method)(values))(mask), expected)


@pytest.mark.parametrize("method", ["set", "add", "multiply", "max"])
def test_a_mask_takes_values_that_broadcast_to_its_rows(method: str) -> None:
    mask = np.asarray([True, False, True])
    for values in (np.full((2, 1, 2), 7.0), np.full((2, 3, 1), 7.0), np.full((2, 1, 1), 7.0), np.full((1, 3, 1), 7.0)):
        x = np.arange(18.0).reshape(3, 3, 2)
        expected = x.copy()
        expected[mask] = METHODS[method](x[mask], values)
        for out in run(method, pnp.asarray(x), mask, values):
            np.testing.assert_array_equal(np.asarray(out), expected)
    with pytest.raises(ShapeError):
        getattr(pnp.zeros((3, 2)).at[mask], method)(np.ones((3, 1)))


@pytest.mark.parametrize("method", ["set", "add"])
def test_true_and_false_choose_all_elements_or_none(method: str) -> None:
    for x in (np.arange(3.0), np.asarray(2.0)):
        for index in (True, False):
            expected = x.copy()
            expected[index] = METHODS[method](x[index], 5.0)
            for out in run(method, pnp.asarray(x), index, 5.0):
                np.testing.assert_array_equal(np.asarray(out), expected)


@pytest.mark.parametrize("far", [2**31, 2**40, 2**70])
def test_numbers_far_out_of_bounds_are_left_out_or_clipped(far: int) -> None:
    x = pnp.asarray([1.0, 2.0, 3.0])
    for sign, last in ((1, 2), (-1, 0)):
        for how in ({}, {"wrap_negative_indices": False}):
            np.testing.assert_array_equal(x.at[sign * far].set(9.0, mode="drop", **how), x)
            np.testing.assert_array_equal(x.at[sign * far].add(9.0, mode="clip", **how), x.at[last].add(9.0))
            assert np.isnan(x.at[sign * far].get(mode="fill", **how))


MASKED: dict[str, tuple[Any, Any, Any]] = {  # an index by a mask of x, the mask's part of x, and values
    "rows": (lambda m: (slice(None), m), lambda x: x[0] > 1, 5.0),
    "last": (lambda m: (..., m), lambda x: x[0] > 1, np.float32([[7.0], [8.0]])),
    "behind an int": (lambda m: (1, m), lambda x: x[1] > 5, 5.0),
    "in front of a slice": (lambda m: (m, slice(1, None)), lambda x: x[:, 0] > 1, np.float32([1.0, 2.0, 3.0])),
    "new axis": (lambda m: (None, m, slice(None, None, -2)), lambda x: x[:, 0] > 1, np.float32([[[1.0, 2.0]]])),
    "in the middle": (lambda m: (slice(None), m, None, ...), lambda x: x[0] > 1, np.float32([[[2.0]], [[3.0]]])),
    "whole": (lambda m: m, lambda x: x > 4, 2.0),
    "True": (lambda m: (True, slice(None), m), lambda x: x[0] > 1, 5.0),
}


@pytest.mark.parametrize("name", MASKED)
@pytest.mark.parametrize("method", ["set", "add", "multiply", "divide", "power", "min", "max"])
def test_traced_masks_among_other_entries(name: str, method: str) -> None:
    make, mask_of, values = MASKED[name]
    x = np.arange(8, dtype=np.float32).reshape(2, 4) + 1
    mask = mask_of(x)
    expected = x.copy()
    expected[make(mask)] = METHODS[method](x[make(mask)], np.float32(values))

    def f(x: Any, mask: Any) -> Any:
        return getattr(x.at[make(mask)], method)(values)

    if name != "True":
        np.testing.assert_allclose(np.asarray(pb.jit(f)(x, mask)), expected, rtol=1e-6)
        batched = pb.vmap(f, in_axes=(None, 0))(x, np.stack([mask, mask]))
        np.testing.assert_allclose(np.asarray(batched), [expected] * 2, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(f(pnp.asarray(x), mask)), expected, rtol=1e-6)


def test_values_for_each_element_that_a_traced_mask_chooses() -> None:
    x = np.arange(6, dtype=np.float32)
    with pytest.raises(pb.errors.TracerIntegerConversionError, match=r"pb\.numpy\.nonzero\(mask, size=n"):
        pb.jit(lambda x: x.at[x > 2].set(np.float32([1, 2, 3])))(x)
    cure = pb.jit(lambda x: x.at[pnp.nonzero(x > 2, size=3, fill_value=x.size)].set(np.float32([7, 8, 9]), mode="drop"))
    assert cure(x).tolist() == [0, 1, 2, 7, 8, 9]
    with pytest.raises(pb.errors.ConcretizationError, match=r"pb\.numpy\.compress\(mask, x, size=n\)"):
        pb.jit(lambda x: x[x > 2])(x)
    assert pb.jit(lambda x: x.at[x > 2].apply(lambda v: -v))(x).tolist() == [0, 1, 2, -3, -4, -5]
    assert pnp.asarray(x).at[True].set(1.0).tolist() == [1.0] * 6 and pnp.asarray(x).at[False].add(1.0).tolist() == x.tolist()


def test_what_does_not_fit_is_converted_in_the_mode_that_truncates():
    with overriding(truncates=True):
        for x, value, expected in ((pnp.arange(3), 1.5, [1, 1, 2]), (pnp.arange(3), pnp.float32(2.5), [2, 1, 2])):
            for write in (lambda x, v: x.at[0].set(v), lambda x, v: x.at[0].multiply(0).at[0].add(v)):
                with pytest.warns(FutureWarning, match="lost|loses part of it"):
                    assert np.array_equal(write(x, value), expected)
        with pytest.warns(FutureWarning, match="of complex64, loses part of it in an array of float32"):
            assert np.array_equal(pnp.ones(2).at[0].set(1j), [0, 1])
