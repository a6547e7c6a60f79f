"""Every reduction in every form (axis, keepdims, where, initial, dtype), held against NumPy; and what has no value."""

import itertools
import warnings

import numpy as np
import pytest

import pullback as pb
from pullback import numpy as pnp
from pullback.core.dtypes import DTYPES, FLOAT8_NAMES
from pullback.core.errors import ShapeError

nan = np.nan
NUMBERS = {
    "float64": np.array([[1.5, -2.25, 3.0], [0.5, 4.0, -1.0]]),
    "int32": np.array([[3, -2, 5], [1, 4, -6]], np.int32),
    "bool": np.array([[True, False, True], [False, True, True]]),
    "complex128": np.array([[1 + 2j, 2 - 1j, 2 + 3j], [0.5j, -1.0, 1 - 2j]]),
}
MASK = np.array([[True, False, True], [False, True, True]])
START = {"sum", "prod", "max", "min"}
MASKED = {*START, "any", "all", "mean", "var", "std"}
FORMS = list(itertools.product([None, 0, -1, (0, 1), ()], [False, True], [False, True], [False, True]))


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("name", [*sorted(MASKED), "ptp"])
def test_forms(name, dtype):
    x = NUMBERS[dtype]
    for axis, keepdims, masked, started in FORMS:
        if (started and name not in START) or (masked and name not in MASKED):
            continue
        if dtype == "bool" and name in ("ptp", "max", "min", "var", "std"):
            continue
        options = {"axis": axis, "keepdims": keepdims}
        if started or (masked and name in ("max", "min")):
            options["initial"] = 2
        given = {**options, "where": MASK} if masked else options
        if name in ("var", "std") and masked and axis == ():
            continue
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of means of nothing
            expected = getattr(np, name)(x, **given)
        found = getattr(pnp, name)(pnp.asarray(x), **{**options, "where": pnp.asarray(MASK)} if masked else options)
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6, err_msg=str(given))
        assert found.shape == np.shape(expected) and not found.type.weak


def test_the_dtype_asked_for_is_the_dtype_that_comes():
    ints, floats = np.array([1, 2, 4], np.int32), np.array([1.5, 2.5, 3.5])
    for function, reference, x, options in [
        (pnp.sum, np.sum, ints, {"initial": 0.7}), (pnp.sum, np.sum, floats, {"dtype": "int32", "initial": 0.7}),
        (pnp.sum, np.sum, floats, {"dtype": "int32"}), (pnp.prod, np.prod, ints, {"initial": 0.5}),
        (pnp.max, np.max, ints, {"initial": 5.5}), (pnp.min, np.min, ints, {"initial": 0.5}),
        (pnp.mean, np.mean, ints, {"dtype": "int32"}), (pnp.mean, np.mean, floats, {"dtype": "int32"}),
        (pnp.mean, np.mean, ints, {"dtype": "float64"}), (pnp.mean, np.mean, floats, {"dtype": "float16"}),
        (pnp.var, np.var, floats, {"dtype": "float32"}), (pnp.std, np.std, ints, {"dtype": "float64"}),
    ]:  # fmt: skip
        for how in (lambda f: f, pb.jit):
            found = how(lambda v: function(v, **options))(pnp.asarray(x))
            expected = reference(x, **options)
            np.testing.assert_allclose(np.asarray(found).astype(float), float(expected), rtol=1e-6)
            assert found.dtype == np.dtype(options.get("dtype", x.dtype))


def test_variance_of_no_degrees_of_freedom_is_nan():
    x = pnp.asarray(np.array([[1.0, 2.0], [3.0, 5.0]]))
    for function in (pnp.var, pnp.std, pnp.nanvar, pnp.nanstd):
        for less in (2, 3, 2.5):
            assert np.isnan(np.asarray(function(x, axis=0, ddof=less))).all()
    mask = pnp.asarray(np.array([[True, True], [True, False]]))
    np.testing.assert_allclose(pnp.var(x, axis=0, ddof=1, where=mask), [2.0, nan])
    slopes = pb.grad(lambda x: pnp.sum(pnp.var(x, axis=0, ddof=1, where=mask)))(x)
    np.testing.assert_allclose(np.asarray(slopes), [[-2.0, nan], [2.0, 0.0]])
    with pytest.raises(ValueError, match="ddof or correction"):
        pnp.var(x, ddof=1, correction=2)


def test_narrow_floats_are_averaged_wide():
    for dtype in ("float16", "bfloat16"):
        x = pnp.asarray(np.full(3000, 60.0), dtype=dtype)
        for how in (lambda f: f, pb.jit):
            assert float(how(pnp.mean)(x)) == 60.0 and float(how(pnp.var)(x)) == 0.0
            assert how(pnp.mean)(x).dtype == DTYPES[dtype]


def test_what_is_computed_wide_is_rounded_once():
    """Squares and weighted sums overflow narrow dtypes where their roots and means do not."""
    spread, sixties = np.array([-6e4, 6e4, 0], np.float16), np.full(3000, 60, np.float16)
    for how in (lambda f: f, pb.jit):
        for function in (pnp.std, pnp.nanstd):
            found = how(function)(pnp.asarray(spread))
            assert found.dtype == np.float16 and float(found) == np.float16(np.std(spread.astype(np.float64)))
        found = how(lambda x: pnp.average(x, weights=pnp.ones_like(x)))(pnp.asarray(sixties))
        assert found.dtype == np.float16 and float(found) == 60


HUNDREDS = np.array([100, 100], np.int8)


@pytest.mark.parametrize(
    ("a", "options"),
    [
        (HUNDREDS, {"weights": np.array([2, 2], np.int8)}), (np.arange(3), {"weights": np.array([1, 2, 3])}),
        (np.arange(3), {"weights": np.array([True, False, True])}), (np.arange(6.0).reshape(2, 3), {"axis": 1}),
        (np.arange(6, dtype=np.float32).reshape(2, 3), {}),
        (np.arange(6.0).reshape(2, 3), {"weights": np.arange(3), "axis": 1}),
        (np.arange(24.0).reshape(2, 3, 4), {"weights": np.arange(8.0).reshape(4, 2), "axis": (2, 0)}),
        (np.arange(24.0).reshape(2, 3, 4), {"weights": np.arange(6.0).reshape(2, 3), "axis": (0, -2)}),
    ],
)  # fmt: skip
def test_averages_with_the_sum_of_weights(a, options):
    with pb.default_bits(64):
        for found, expected in zip(pnp.average(a, **options, returned=True), np.average(a, **options, returned=True)):
            np.testing.assert_allclose(found, expected)
            assert found.dtype == expected.dtype and not found.type.weak


def test_sums_and_products_of_bools():
    for values, how in itertools.product(([], [0.0, 2.0], [0, 0], [True, False]), (lambda f: f, pb.jit)):
        for name in ("sum", "prod", "nansum", "nanprod"):
            found = how(lambda v: getattr(pnp, name)(v, dtype=bool))(pnp.asarray(np.array(values)))
            expected = getattr(np, name)(np.array(values), dtype=bool)
            assert found.dtype == expected.dtype == bool and bool(found) == expected
    assert bool(pnp.sum(pnp.asarray([0, 0]), dtype=bool, initial=3))


def test_leaving_nan_out_of_chosen_elements():
    x = np.array([[1.0, nan, 3.0], [nan, 5.0, nan]])
    for name in ("nanmean", "nanvar", "nanstd"):
        found = getattr(pnp, name)(pnp.asarray(x), axis=1, where=pnp.asarray(MASK))
        np.testing.assert_allclose(found, getattr(np, name)(x, axis=1, where=MASK))
    for name, initial in itertools.product(("nanmax", "nanmin"), (2.0, -7.0)):
        x[1, 1] = nan
        expected = getattr(np, name[3:])(np.where(np.isnan(x), initial, x), axis=1, initial=initial)
        np.testing.assert_array_equal(getattr(pnp, name)(pnp.asarray(x), axis=1, initial=initial), expected)


def test_a_mask_larger_than_the_array_is_refused():
    with pytest.raises(ShapeError, match="where="):
        pnp.sum(pnp.asarray(np.ones(3)), where=pnp.asarray(np.ones((2, 3), bool)))


@pytest.mark.parametrize("dtype", FLOAT8_NAMES)
def test_extremes_of_float8(dtype):
    """Most of the float8 kinds have no infinity: extremes start from the largest and smallest finite numbers."""
    numbers = np.array([[0.5, 2.0, -1.0, 4.0], [1.0, 4.0, 0.25, -3.0]])
    numbers = (np.abs(numbers) if dtype == "float8_e8m0fnu" else numbers).astype(DTYPES[dtype])
    exact = numbers.astype(np.float64)
    for name, axis in itertools.product(["max", "min", "argmax", "argmin"], [None, 0, 1]):
        for how in (lambda f: f, pb.jit):
            found = how(lambda v: getattr(pnp, name)(v, axis=axis))(pnp.asarray(numbers))
            np.testing.assert_array_equal(np.asarray(found).astype(float), getattr(np, name)(exact, axis=axis))
    assert np.isfinite(np.asarray(pnp.nan_to_num(pnp.asarray(numbers))).astype(float)).all()
    assert float(pnp.finfo(dtype).max) > 1


ORDERED = np.array([[1 + 5j, 2 - 1j, 2 + 3j, 0.5j], [2 + 3j, 2 + 3j, -1.0, 1 - 2j], [complex(nan, 1), 5.0, 2j, 3.0]])


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_complex_extremes_are_those_of_numpy(name):
    x = pnp.asarray(ORDERED)
    for axis, rows in itertools.product([None, 0, 1], [slice(None), slice(0, 2)]):
        for how in (lambda f: f, pb.jit):
            found = how(lambda v: getattr(pnp, name)(v[rows], axis=axis))(x)
            np.testing.assert_array_equal(np.asarray(found), getattr(np, name)(ORDERED[rows], axis=axis))


def test_the_derivative_of_a_complex_extreme_is_shared_by_those_that_are_extreme():
    slopes = pb.grad(lambda v: pnp.real(pnp.max(v)))(pnp.asarray(ORDERED[1]))
    np.testing.assert_allclose(slopes, [0.5, 0.5, 0.0, 0.0])


def test_the_fast_path_of_sum_is_taken_for_plain_arrays_only():
    x = np.arange(6.0).reshape(2, 3)
    plain = pnp.sum(pnp.asarray(x))
    assert plain.type is pnp.sum(pnp.asarray(x), axis=(0, 1)).type and float(plain) == 15
    assert float(pb.vmap(pnp.sum)(pnp.asarray(x))[1]) == 12
    assert "reduce_sum" in str(pb.xpr(pnp.sum, pnp.asarray(x)))


def test_complex_numbers_are_ordered_as_numpy_orders_them():
    left, right = [grid.ravel() for grid in np.meshgrid(ORDERED[2], [*ORDERED[0], complex(1, nan)])]
    for name in ("less", "less_equal", "greater", "greater_equal", "maximum", "minimum"):
        for how in (lambda f: f, pb.jit):
            found = how(getattr(pnp, name))(pnp.asarray(left), pnp.asarray(right))
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(np.asarray(found), getattr(np, name)(left, right))


def test_einsum_of_bools():
    rng = np.random.default_rng(0)
    x, y = rng.random((3, 4)) > 0.6, rng.random((4, 2)) > 0.5
    for subscripts, operands in [
        ("ij->i", (x,)), ("ij->", (x,)), ("ij->ji", (x,)), ("ij,jk->ik", (x, y)), ("ij,jk->k", (x, y)), ("ij,jk->", (x, y)),
        ("ij,ij->ij", (x, x)), ("ij,jk,ik->i", (x, y, x @ y)),
    ]:  # fmt: skip
        for how in (lambda f: f, pb.jit):
            found = how(lambda *o: pnp.einsum(subscripts, *o))(*map(pnp.asarray, operands))
            assert found.dtype == bool
            np.testing.assert_array_equal(np.asarray(found), np.einsum(subscripts, *operands))


def test_dtypes_that_are_asked_for_or_kept() -> None:
    x = np.arange(5.0, dtype=np.float32)
    for name in ("var", "std", "nanvar", "nanstd"):  # NumPy's, too
        assert getattr(pnp, name)(x, dtype="complex64").dtype == np.complex64
        assert getattr(pnp, name)(x * 1j, dtype="complex64").dtype == np.complex64
        assert getattr(pnp, name)(x * 1j).dtype == np.float32
    assert pnp.sum(x > 1, promote_integers=False) == 3  # as JAX has it
    assert pnp.sum(x.astype("int8"), promote_integers=False).dtype == np.int8


def test_reductions_start_from_one_number() -> None:
    for reduce in (pnp.sum, pnp.prod, pnp.max, pnp.min):
        with pytest.raises(ValueError, match="takes one number as initial, but got f32"):
            reduce(pnp.ones((2, 3)), initial=pnp.ones(3), axis=0)


def test_setxor1d_of_what_is_promised_to_be_unique() -> None:
    for a, b in (([1, 2, 3], [1, 7, 3]), ([1, 2, 3, 3], [1, 7, 7, 3]), ([], [2, 2, 4]), ([], [])):
        expected = np.setxor1d(np.array(a, int), np.array(b, int), assume_unique=True)
        assert np.array_equal(pnp.setxor1d(np.array(a, int), np.array(b, int), assume_unique=True), expected)
