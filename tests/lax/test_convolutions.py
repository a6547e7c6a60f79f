"""Convolutions and pooling where a table does not reach: their dimensions, errors, and special values."""

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import lax, nn
from pullback.ops import convolve

RNG = np.random.default_rng(0)
X, K = RNG.normal(size=(2, 3, 6)), RNG.normal(size=(4, 3, 2))


def test_conv_dimension_numbers_follow_the_order_of_the_kernel():
    found = lax.conv_dimension_numbers((2, 5, 6, 3), (2, 2, 3, 4), ("NWHC", "HWIO", "CNHW"))
    assert found == lax.ConvDimensionNumbers((0, 3, 2, 1), (3, 2, 0, 1), (1, 0, 2, 3))
    assert lax.conv_dimension_numbers((2, 3, 6), (4, 3, 2), None).out_spec == (0, 1, 2)
    assert lax.conv_dimension_numbers((2, 3, 6), (4, 3, 2), found) is found
    for wrong in (("NHC", "HIO", "NHW"), ("NHC", "HIO"), "NHC", ("NHC", "HIO", "NCWH"), ("NHC", "WIO", "NHC"), 3):
        with pytest.raises(ValueError, match="dimension_numbers"):
            lax.conv_dimension_numbers((2, 3, 6), (4, 3, 2), wrong)


def test_padtype_to_pads():
    assert lax.padtype_to_pads((5, 6), (2, 3), (1, 2), "SAME") == [(0, 1), (0, 1)]
    assert lax.padtype_to_pads((5, 6), (2, 3), (1, 2), "same_lower") == [(1, 0), (1, 0)]
    assert lax.padtype_to_pads((5, 6), (2, 3), (1, 2), "VALID") == [(0, 0), (0, 0)]
    with pytest.raises(ValueError, match="'SAME'"):
        lax.padtype_to_pads((5,), (2,), (1,), "FULL")


def test_the_gradient_of_a_convolution_is_a_transposed_one():
    images, kernel = RNG.normal(size=(2, 6, 7, 3)), RNG.normal(size=(3, 2, 3, 4))
    numbers = ("NHWC", "HWIO", "NHWC")
    for padding in ("SAME", "VALID"):
        f = lambda x: lax.conv_general_dilated(x, kernel, (2, 1), padding, dimension_numbers=numbers)  # noqa: E731
        out, pull = pb.vjp(f, images)
        found = lax.conv_transpose(out, kernel, (2, 1), padding, transpose_kernel=True)
        (expected,) = pull(out)
        if found.shape == expected.shape:
            np.testing.assert_allclose(found, expected, atol=1e-12)
    consistent = lax.conv_transpose(images, kernel, (1, 1), [(1, 1), (0, 1)], use_consistent_padding=True)
    assert consistent.shape == (2, 6, 7, 4)


def test_groups_of_the_batch():
    x, k = RNG.normal(size=(4, 3, 6)), RNG.normal(size=(2, 3, 2))
    params = {"window_strides": (1,), "padding": "VALID"}
    found = lax.conv_general_dilated(x, k, batch_group_count=2, **params)
    halves = [lax.conv_general_dilated(x[2 * i : 2 * i + 2], k[i : i + 1], **params) for i in range(2)]
    np.testing.assert_allclose(found, np.concatenate(halves, axis=1))


def test_infinity_stays_in_its_patches():
    x = pnp.array([[[1.0, pnp.inf, 3.0, 4.0]]])
    assert not np.isnan(np.asarray(lax.conv_general_dilated_patches(x, (2,), (1,), "VALID"))).any()


def test_narrow_dtypes_are_accumulated_wide():
    x = pnp.full((1, 1, 4096), 1.0, pnp.bfloat16)
    assert float(lax.conv(x, x, (1,), "VALID")[0, 0, 0]) == 4096.0
    assert float(pb.jit(lambda x: lax.conv(x, x, (1,), "VALID"))(x)[0, 0, 0]) == 4096.0
    bytes_ = pnp.full((1, 1, 4), 100, pnp.int8)
    for f in (lax.conv, pb.jit(lax.conv, static_argnums=(2, 3, 4, 5))):
        assert f(bytes_, bytes_, (1,), "VALID", None, "int32")[0, 0, 0] == 40000


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"rhs": K[:, :2]}, pb.errors.ShapeError, "3 features"),
        ({"rhs": K[0]}, pb.errors.ShapeError, "as many axes"),
        ({"rhs": K.astype(np.float32)}, pb.errors.DtypeError, "dtype"),
        ({"lhs": X > 0}, pb.errors.DtypeError, "bool"),
        ({"window_strides": (1, 1)}, pb.errors.ShapeError, "window_strides"),
        ({"window_strides": (0,)}, pb.errors.ShapeError, "1 or more"),
        ({"padding": ((1,),)}, pb.errors.ShapeError, "pair"),
        ({"padding": "SAME", "lhs_dilation": (2,)}, ValueError, "conv_transpose"),
        ({"feature_group_count": 2}, pb.errors.ShapeError, "groups"),
        ({"batch_group_count": 3}, pb.errors.ShapeError, "groups"),
        ({"feature_group_count": 3, "batch_group_count": 2}, pb.errors.ShapeError, "groups"),
        ({"precision": "great"}, ValueError, "precision"),
        ({"preferred_element_type": "complex64"}, pb.errors.DtypeError, "complex64"),
    ],
)
def test_errors_say_what_does_not_fit(change, error, message):
    call = {"lhs": X, "rhs": K, "window_strides": (1,), "padding": "VALID", **change}
    with pytest.raises(error, match=message):
        lax.conv_general_dilated(**call)


def test_a_window_with_a_nan_is_nan_and_the_nan_has_the_derivative():
    x = np.array([[np.nan, 1.0, -np.inf], [-np.inf, -np.inf, 3.0]])
    for combine, start in ((lax.max, -np.inf), (lax.min, np.inf)):
        f = lambda x: lax.reduce_window(x, start, combine, (2, 2), (1, 1), ((0, 1), (0, 1)))[0, 0]  # noqa: E731
        for g in (f, pb.jit(f)):
            assert np.isnan(float(g(x)))
            np.testing.assert_array_equal(pb.grad(g)(x), [[1, 0, 0], [0, 0, 0]])


def test_the_first_of_equal_extremes_has_the_derivative():
    x = pnp.ones((1, 4, 1))
    np.testing.assert_array_equal(pb.grad(lambda x: nn.max_pool(x, (2,), (2,)).sum())(x)[0, :, 0], [1, 0, 1, 0])
    batch = pnp.stack([x, -x])
    np.testing.assert_array_equal(pb.vmap(pb.grad(lambda x: nn.min_pool(x, (2,), (2,)).sum()))(batch)[1, 0, :, 0], [1, 0, 1, 0])


def test_a_window_outside_the_array_has_no_derivative():
    f = lambda x: lax.reduce_window(x, -np.inf, lax.max, (1,), (1,), ((2, 0),))  # noqa: E731
    for g in (f, pb.jit(f)):
        np.testing.assert_array_equal(pb.jacrev(g)(np.ones(1)), [[0], [0], [1]])


def test_reductions_of_several_operands():
    best = lambda a, b: {"at": pnp.where(a["x"] >= b["x"], a["at"], b["at"]), "x": pnp.maximum(a["x"], b["x"])}  # noqa: E731
    x = RNG.normal(size=(3, 7)).astype(np.float32)
    at = np.broadcast_to(np.arange(7, dtype=np.int32), x.shape)
    start = {"x": -np.inf, "at": 0}
    for f in (lax.reduce, pb.jit(lax.reduce, static_argnums=(2, 3))):
        found = f({"x": x, "at": at}, start, best, (1,))
        np.testing.assert_array_equal(found["at"], x.argmax(1))
        assert found["at"].dtype == np.int32
    windows = lax.reduce_window({"x": x, "at": at}, start, best, (1, 3), None, "VALID")
    np.testing.assert_array_equal(windows["at"], np.lib.stride_tricks.sliding_window_view(x, 3, 1).argmax(-1) + np.arange(5))
    empty = lax.reduce({"x": x[:, :0], "at": at[:, :0]}, start, best, (1,))
    assert np.isneginf(empty["x"]).all()


def test_reductions_that_are_refused():
    x = np.ones((2, 3), np.float32)
    with pytest.raises(pb.errors.StructureError, match="initial values"):
        lax.reduce((x, x), 0.0, lambda a, b: a, (0,))
    with pytest.raises(pb.errors.DtypeError, match="to begin with"):
        lax.reduce(x, np.zeros(2, np.float32), lax.add, (0,))
    with pytest.raises(pb.errors.DtypeError, match="to begin with"):
        lax.reduce(x, np.float64(0), lax.add, (0,))
    with pytest.raises(pb.errors.StructureError, match="returns what it is given"):
        lax.reduce(x, 0.0, lambda a, b: a > b, (0,))
    with pytest.raises(pb.errors.ShapeError, match="one shape"):
        lax.reduce((x, x[0]), (0.0, 0.0), lambda a, b: a, (0,))
    with pytest.raises(pb.errors.AxisError):
        lax.reduce(x, 0.0, lax.add, (2,))
    with pytest.raises(pb.errors.ShapeError, match="window_dimensions"):
        lax.reduce_window(x, 0.0, lax.add, (2,), None, "VALID")
    with pytest.raises(pb.errors.ShapeError, match="1 or more"):
        lax.reduce_window(x, 0.0, lax.add, (2, 0), None, "VALID")


def test_a_start_that_is_not_neutral_is_combined_once():
    x = np.arange(6.0).reshape(2, 3)
    assert float(lax.reduce(x, 10.0, lax.add, (0, 1))) == 25.0
    assert float(pb.grad(lambda s: lax.reduce(x, s, lax.mul, (0, 1)))(np.float64(2.0))) == 0.0
    np.testing.assert_array_equal(lax.reduce_window(x, 10.0, lax.add, (1, 2), None, "VALID"), [[11, 13], [17, 19]])


def test_a_neutral_python_number_begins_a_reduction_of_any_dtype():
    x = np.array([[1, 4], [2, 3]])
    np.testing.assert_array_equal(lax.reduce_window(x, -np.inf, lax.max, (2, 1), None, [(1, 0), (0, 0)]), [[1, 4], [2, 4]])
    np.testing.assert_array_equal(lax.reduce(x, np.inf, lax.min, (0,)), [1, 3])
    with pytest.raises(pb.errors.DtypeError, match="to begin with"):
        lax.reduce(x, np.inf, lax.max, (0,))


def test_transforms_keep_single_precision_and_refuse_complex_numbers():
    x = np.ones(4, np.float32)
    assert pnp.fft.fft(x).dtype == np.complex64 and pnp.fft.irfft(x).dtype == np.float32
    assert pnp.fft.fft(pnp.ones(4, "bfloat16")).dtype == np.complex64 and pnp.fft.rfft(np.arange(4)).dtype == np.complex64
    for f in (pnp.fft.rfft, pnp.fft.ihfft, pnp.fft.rfftn):
        with pytest.raises(pb.errors.DtypeError, match="real"):
            f(x + 1j)
    with pytest.raises(pb.errors.ShapeError, match="n of 1 or more"):
        pnp.fft.fft(x, n=0)
    assert pnp.fft.fft(np.zeros((2, 0), np.float32)).shape == (2, 0)
    with pytest.raises(pb.errors.AxisError, match="a repeated axis"):
        pnp.fft.fftn(np.ones((2, 2)), axes=(0, 0))
    with pytest.raises(pb.errors.ShapeError, match="a size for each"):
        pnp.fft.fftn(np.ones((2, 2)), s=(2,), axes=(0, 1))
    assert pnp.fft.fftfreq(3, np.float64(1)).dtype == np.float64
    assert pnp.fft.fftfreq(3, dtype="float16").dtype == np.float16
    np.testing.assert_array_equal(pnp.fft.fftfreq(3, dtype="complex64"), np.fft.fftfreq(3).astype("complex64"))
    np.testing.assert_array_equal(pnp.fft.rfftfreq(4, pnp.array(2.0), dtype="complex64"), np.fft.rfftfreq(4, 2.0) + 0j)
    with pytest.raises(ValueError, match="fftfreq takes an int as n"):
        pnp.fft.fftfreq([1, 2])
    with pytest.raises(pb.errors.ConcretizationError):
        pb.jit(pnp.fft.fftfreq)(3)
    with pytest.raises(pb.errors.DtypeError, match="floating"):
        pnp.fft.fftfreq(3, dtype="int32")


def test_pullback_fft_is_numpy_fft():
    assert pb.fft is pnp.fft


def test_transforms_over_more_than_three_axes():
    x = RNG.normal(size=(2, 3, 2, 3, 4))
    for name in ("fftn", "ifftn", "rfftn"):
        for f in (getattr(pnp.fft, name), pb.jit(getattr(pnp.fft, name))):
            np.testing.assert_allclose(f(x), getattr(np.fft, name)(x), atol=1e-12)
    np.testing.assert_allclose(pb.jit(pnp.fft.irfftn)(pnp.fft.rfftn(x)), x, atol=1e-12)


def test_a_convolution_of_bools_says_whether_any_product_holds():
    x, kernel = np.array([[[1, 0, 0, 0, 1]]], bool), np.array([[[1, 0, 1]]], bool)
    expected = lax.conv_general_dilated(x.astype(int), kernel.astype(int), (1,), "SAME") != 0
    for f in (lax.conv_general_dilated, pb.jit(lax.conv_general_dilated, static_argnums=(2, 3))):
        out = f(x, kernel, (1,), "SAME")
        assert out.dtype == bool and out.tolist() == expected.tolist() == [[[False, True, False, True, False]]]
    alone = lax.conv_general_dilated(np.ones((3, 2), bool), np.eye(2, dtype=bool), (), ())
    assert alone.dtype == bool and alone.shape == (3, 2)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int32", "bfloat16"])
def test_a_large_convolution_is_compiled_and_agrees_with_numpys_product(monkeypatch, dtype):
    x, w = pb.numpy.arange(2 * 3 * 7 * 6).reshape(2, 3, 7, 6), pb.numpy.arange(4 * 3 * 2 * 3).reshape(4, 3, 2, 3)
    x, w = ((a % 7 - 3).astype(dtype) for a in (x, w))  # whose sums are exact

    def f(x, w):
        return pb.lax.conv_general_dilated(x, w, (1, 2), ((1, 0), (0, 2)), rhs_dilation=(2, 1))

    small = f(x, w)
    monkeypatch.setattr(convolve, "WORTH_COMPILING", 0)
    large = f(x, w)
    assert large.type is small.type
    assert np.array_equal(np.asarray(large), np.asarray(small))
