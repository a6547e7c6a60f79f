"""Where NumPy's functions end: narrow index dtypes, masks, places out of bounds, dtypes that cannot hold a value."""

import array

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.core.modes import narrowing

X = np.arange(600.0, dtype=np.float32).reshape(200, 3)
CUBE = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
COMPLEX = np.array([1 + 2j, 1 - 2j], np.complex64)
INTS = np.array([-7, 0, 1, 100], np.int32)
REFUSED = (TypeError, ValueError, pb.errors.PullbackError)


@pytest.mark.parametrize("how", [lambda f: f, pb.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int64"])
def test_narrow_indices_reach_everywhere(how, dtype):
    places = (np.arange(600).reshape(200, 3) % 3).astype(dtype)
    got = how(lambda x, i: pnp.take_along_axis(x, i, 1))(X, places)
    np.testing.assert_array_equal(np.asarray(got), np.take_along_axis(X, places.astype(int), 1))
    long, few = np.arange(300.0, dtype=np.float32), np.array([0, 5, 100], dtype)
    got = how(lambda x, i: pnp.take(x, i, mode="wrap"))(long, few)
    np.testing.assert_array_equal(np.asarray(got), long[[0, 5, 100]])


def test_take_along_axis_broadcasts_or_refuses():
    for shape in ((2, 1, 4), (1, 5, 1), (2, 0, 4)):
        places = np.zeros(shape, int)
        np.testing.assert_array_equal(
            np.asarray(pnp.take_along_axis(CUBE, places, 1)),
            np.take_along_axis(CUBE, np.broadcast_to(places, (2, shape[1], 4)), 1),
        )
    with pytest.raises(pb.errors.ShapeError, match="take_along_axis"):
        pnp.take_along_axis(CUBE, np.zeros((3, 1, 4), int), 1)


def test_masks_are_checked_against_their_axes():
    rows, columns, both = np.array([True, False]), np.array([True, False, False, True]), np.arange(12).reshape(3, 4) % 5 == 0
    for index in (
        (..., columns), (rows, ...), (..., both), (rows, ..., 1), (None, rows), (..., None, columns), (slice(1), ..., columns),
        (rows, both), (0, both), (..., both, None), (np.array([1]), ..., columns[:1].repeat(4)), (both[None].repeat(2, 0),),
    ):  # fmt: skip
        np.testing.assert_array_equal(np.asarray(pnp.asarray(CUBE)[index]), CUBE[index])
    for index in ((..., rows), (columns, ...), (..., both[:2]), (rows, ..., rows), (both, ...)):
        with pytest.raises(IndexError):
            CUBE[index]
        with pytest.raises(IndexError, match="mask"):
            pnp.asarray(CUBE)[index]


def test_compress_takes_a_condition_of_one_axis_that_fits():
    for condition, axis in (([True], 0), ([0, 1, 1], 1), ([1] * 24, None), ([False, True, False, False, False], None)):
        np.testing.assert_array_equal(np.asarray(pnp.compress(condition, CUBE, axis)), np.compress(condition, CUBE, axis))
    with pytest.raises(IndexError, match="out of bounds"):
        pnp.compress([0, 0, 0, 0, 1], pnp.arange(3.0))
    with pytest.raises(pb.errors.ShapeError, match="one axis"):
        pnp.compress([[1, 0]], CUBE)


def test_a_mode_is_obeyed_at_single_places_too():
    x = pnp.arange(5.0)
    assert x.at[7].set(1.0, mode="drop").tolist() == x.tolist()
    assert (
        np.isnan(x.at[-7].get(mode="fill"))
        and x.at[7].get(mode="clip") == 4.0
        and x.at[7].get(fill_value=9.0, mode="fill") == 9
    )
    assert pnp.asarray(CUBE).at[1, 9].add(1.0, mode="clip").tolist() == pnp.asarray(CUBE).at[1, 2].add(1.0).tolist()
    for call in (lambda: x.at[7].set(1.0), lambda: x.at[-7].get(), lambda: x[7]):
        with pytest.raises(IndexError):
            call()
    got = pb.jit(lambda i: x.at[[i, 1]].set(5.0))(3)
    assert got.tolist() == [0, 5, 2, 5, 4]


@pytest.mark.parametrize(
    "call",
    [
        lambda: pnp.fabs(COMPLEX),
        lambda: pnp.isneginf(COMPLEX),
        lambda: pnp.isposinf(COMPLEX),
        lambda: pnp.signbit(COMPLEX),
        lambda: pnp.copysign(X[0], np.complex64(1j)),
        lambda: pnp.heaviside(np.complex64(1j), 0.5),
        lambda: pnp.hypot(COMPLEX, 1.0),
        lambda: pnp.var(COMPLEX, dtype="float32"),
        lambda: pnp.std(COMPLEX, dtype="float32"),
        lambda: pnp.mean(COMPLEX, dtype="float32"),
        lambda: pnp.asarray(1j, "float32"),
        lambda: pnp.asarray([1j], "float32"),
        lambda: pnp.array([1, 2j], "int32"),
        lambda: pnp.select([], []),
        lambda: pnp.split(X, 0),
        lambda: lax.add(INTS, 1.5),
        lambda: lax.lt(INTS, 0.5),
        lambda: lax.max(INTS, 0.5),
        lambda: lax.clamp(0.5, INTS, 2.7),
        lambda: lax.select(INTS > 0, INTS, 1.5),
        lambda: lax.pad(INTS, 0.5, [(1, 0, 0)]),
        lambda: lax.eq(np.array([True, False]), 2),
        lambda: lax.add(X[0], 1j),
        lambda: lax.iota("int32", -1),
        lambda: lax.conj(INTS),
        lambda: lax.argmax(np.arange(300.0), 0, np.uint8),
        lambda: pnp.full(2, 1j, "float32"),
        lambda: pnp.full_like(X, 1j),
    ],
)
def test_what_would_be_silently_wrong_is_refused(call):
    with pytest.raises(REFUSED):
        call()


def test_numbers_that_do_not_fit():
    with pytest.raises(OverflowError, match="int32"):
        pnp.arange(2**31, 2**31 + 2)
    with pb.default_bits(64):
        assert pnp.arange(2**31, 2**31 + 2).tolist() == [2**31, 2**31 + 1]
    assert pnp.append(np.ones(3, "u1"), 1).dtype == np.uint8 == pnp.concatenate([np.ones(3, "u1"), np.ones(1, "u1")]).dtype
    assert pnp.asarray([1.5], None).astype(None).dtype == np.float32 == pnp.zeros(2, None).dtype
    assert pnp.rint(COMPLEX * 1.4).tolist() == np.rint(COMPLEX * 1.4).tolist()
    assert pnp.asarray(array.array("d", [1.0, 2.0])).tolist() == [1, 2] and pnp.asarray(bytearray(b"ab")).tolist() == [97, 98]
    assert pnp.zeros(4).reshape(2, 2, copy=True).shape == (2, 2)


def test_errors_name_the_function_that_was_called():
    for name in ("count_nonzero", "ptp", "nansum", "nanmax", "nanmean", "nanvar", "sum", "std"):
        with pytest.raises(pb.errors.AxisError, match=f"^{name} "):
            getattr(pnp, name)(X, axis=5)


def test_requests_for_wide_dtypes_are_narrowed_everywhere():
    with narrowing():
        made = (
            lax.convert_element_type(1.0, "float64"), lax.iota("int64", 2), lax.argmax(X, 0, np.int64),
            lax.full((2,), 1, "uint64"),
            lax.dot(X, X.T, preferred_element_type="float64"), pnp.add(np.int32(1), np.uint32(1)),
        )  # fmt: skip
        assert all(one.dtype.itemsize == 4 for one in made)
        assert pnp.result_type("float64") == np.float32 and pnp.promote_types("int32", "uint32") == np.int32


def test_lax_conj_makes_real_numbers_complex_as_jax_does():
    assert lax.conj(X).dtype == np.complex64 and lax.conj(2.0).type.weak
    assert lax.conj(COMPLEX).tolist() == COMPLEX.conj().tolist()
    assert pb.grad(lambda x: lax.real(lax.conj(x)))(1.0) == 1.0


def test_vecdot_takes_its_axis_of_each_operand() -> None:
    x, y = np.arange(8.0).reshape(2, 2, 2), np.arange(4.0).reshape(2, 2)
    np.testing.assert_array_equal(pnp.vecdot(x, y, axis=0), np.vecdot(x, y, axis=0))


def test_the_transform_of_no_elements_is_empty():
    assert pnp.fft.fft(pnp.zeros((2, 0))).shape == pnp.fft.ifft(pnp.zeros((2, 0))).shape == (2, 0)
    with pytest.raises(pb.errors.ShapeError, match="of 1 or more"):
        pnp.fft.fft(pnp.zeros(3), 0)


def test_a_cosine_transform_takes_no_more_sizes_than_axes():
    with pytest.raises(pb.errors.ShapeError, match="at most 1 size "):
        pb.scipy.fft.dctn(pnp.ones(3), s=(3, 3))


def test_the_cross_spectrum_of_a_signal_with_itself_is_complex():
    x = np.random.default_rng(0).normal(size=64)
    alone, same = pb.scipy.signal.csd(x, None, nperseg=16)[1], pb.scipy.signal.csd(x, x, nperseg=16)[1]
    assert (alone.dtype, same.dtype) == (np.float64, np.complex128)
    np.testing.assert_allclose(np.asarray(same), np.asarray(alone))


def test_pad_by_a_function_and_by_medians():
    def ends(vector, widths, axis, options):
        vector[: widths[0]], vector[len(vector) - widths[1] :] = options["low"] + axis, 9

    def traced(vector, widths, axis, options):
        vector = vector.at[: widths[0]].set(options["low"] + axis)
        return vector.at[vector.shape[0] - widths[1] :].set(9)

    whole = np.arange(6).reshape(2, 3)
    for widths in (2, ((1, 2), (0, 1))):
        expected = np.pad(whole, widths, ends, low=5)
        assert np.array_equal(pnp.pad(whole, widths, traced, low=5), expected)
        assert np.array_equal(pb.jit(lambda x, w=widths: pnp.pad(x, w, traced, low=5))(whole), expected)
        assert np.array_equal(pnp.pad(whole, widths, "median"), np.pad(whole, widths, "median"))
    with pytest.raises(TypeError, match="pad with mode='edge' takes no low"):
        pnp.pad(whole, 1, "edge", low=5)


def test_grids_of_nothing_and_sizes_that_are_traced():
    assert pnp.mgrid[:].shape == pnp.ogrid[:].shape == pnp.mgrid[()].shape == (0,) and pnp.ogrid[()] == ()
    assert pnp.mgrid[:].dtype == pnp.mgrid[()].dtype == pnp.arange(0).dtype
    for order in ("C", "F"):
        found = pb.jit(lambda i, shape, order=order: pnp.unravel_index(i, shape, order))(np.array([2, 3, -1, 99]), (2, 3))
        assert np.array_equal(found, np.unravel_index([2, 3, 5, 5], (2, 3), order))


def test_nothing_is_taken_from_an_axis_without_elements():
    assert pnp.take(np.ones((2, 0)), np.zeros(0, int), axis=1).shape == (2, 0)
    with pytest.raises(IndexError, match="from an axis without any"):
        pnp.take(np.ones((2, 0)), np.array([0]), axis=1)


def test_a_slice_fills_what_unique_has_not():
    rows = np.array([[1, 2], [1, 2], [3, 4]])
    for dtype in ("float32", "int8"):
        fill = pnp.array([7, 8], dtype)
        found, *places = pnp.unique(rows.astype(dtype), True, True, True, axis=0, size=4, fill_value=fill)
        assert np.array_equal(found, [[1, 2], [3, 4], [7, 8], [7, 8]]) and found.dtype == dtype
        assert [place.dtype for place in places] == [pnp.arange(1).dtype] * 3


def test_keys_are_close_where_they_are_equal():
    keys = pb.random.split(pb.random.key(0))
    assert np.array_equal(pnp.isclose(keys, keys[::-1]), [False, False]) and pnp.allclose(keys, keys)


def test_values_that_replace_others_get_the_dtype_of_the_array():
    assert pnp.nan_to_num(pnp.ones(2, "float16"), nan=np.float64(2.0)).dtype == np.float16


def test_a_shape_is_any_sequence():
    class Sizes:
        def __len__(self):
            return 2

        def __getitem__(self, i):
            return (2, 3)[i]

    assert pnp.arange(6).reshape(Sizes()).shape == pnp.zeros(Sizes()).shape == (2, 3)
    assert pnp.zeros(np.array(4)).shape == pnp.zeros(np.int32(4)).shape == (4,)


def test_axes_may_be_a_range() -> None:
    assert pnp.expand_dims(pnp.ones(3), range(2)).shape == (1, 1, 3)
    assert pnp.sum(pnp.ones((2, 3, 4)), axis=range(2)).tolist() == [6.0] * 4
