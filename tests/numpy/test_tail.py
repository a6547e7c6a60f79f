"""NumPy's long tail, where a table of values does not do: files, text, exact bits, errors."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp


@pytest.mark.parametrize("dtype", ["float32", "int8", "complex64", "bool", "bfloat16", "float64"])
def test_save_and_load(dtype: str, tmp_path: Any) -> None:
    x = pnp.asarray([[0, 1, 3]], dtype)
    pnp.save(tmp_path / "x.npy", x)
    back = pnp.load(tmp_path / "x.npy")
    assert back.type is x.type and bool(pnp.array_equal(back, x))
    if dtype != "bfloat16":
        pnp.savez(tmp_path / "x.npz", x, named=x)
        assert {name: values.tolist() for name, values in pnp.load(tmp_path / "x.npz").items()} == dict.fromkeys(
            ("named", "arr_0"), x.tolist()
        )


def test_what_no_file_can_hold_is_refused() -> None:
    with pytest.raises(pb.errors.DtypeError, match=r"save cannot write float8_e5m2: .*bitcast_convert_type\(x, 'uint8'\)"):
        pnp.save(io.BytesIO(), pnp.ones(2, "float8_e5m2"))
    with pytest.raises(pb.errors.DtypeError, match=r"savez cannot write bfloat16: "):
        pnp.savez(io.BytesIO(), pnp.ones(2, "bfloat16"))
    with pytest.raises(pb.errors.TracerArrayConversionError):
        pb.jit(lambda x: pnp.save(io.BytesIO(), x))(1.0)
    with pytest.raises(ValueError, match="pickle"):
        file = io.BytesIO()
        np.save(file, np.array([None]))
        file.seek(0)
        pnp.load(file)


def test_from_memory_text_and_iterables(tmp_path: Any) -> None:
    numbers = np.arange(6.0, dtype=np.float32)
    assert pnp.frombuffer(numbers.tobytes(), count=2, offset=4).tolist() == [1.0, 2.0]
    assert pnp.frombuffer(bytearray(b"\x01\x02"), pnp.uint8).dtype == np.uint8
    assert pnp.frombuffer(b"\x80\x3f", pnp.bfloat16).tolist() == [1.0]
    for big in (">i2", np.dtype(">i2")):
        assert pnp.frombuffer(b"\x00\x01\x00\x02", big).tolist() == [1, 2]
    numbers.tofile(tmp_path / "numbers")
    assert pnp.fromfile(tmp_path / "numbers", offset=8).tolist() == [2.0, 3.0, 4.0, 5.0]
    np.arange(3, dtype=">i4").tofile(tmp_path / "big")
    assert pnp.fromfile(tmp_path / "big", ">i4").tolist() == [0, 1, 2]
    assert pnp.fromiter(iter([1, 2, 3]), "int8", 2).tolist() == [1, 2]
    assert pnp.fromstring("1;2.5", sep=";").dtype == np.float32
    with pb.default_bits(64):
        assert pnp.fromstring("1;2.5", sep=";").dtype == np.float64
    memory = bytearray(b"\x01\x02")
    made = pnp.frombuffer(memory, pnp.uint8)
    memory[0] = 9
    assert made.tolist() == [1, 2]


def test_text() -> None:
    x = pnp.array([1.0, 2.123456789])
    assert pnp.array_str(x, precision=2) == "[1.   2.12]" and pnp.array_repr(x, precision=2) == (
        "array([1.  , 2.12], dtype=float32)"
    )
    with pnp.printoptions(precision=2):
        assert repr(x).startswith("[1.   2.12]") and pnp.get_printoptions()["precision"] == 2
    options = pnp.get_printoptions()
    try:
        pnp.set_printoptions(precision=1)
        assert repr(x).startswith("[1.  2.1]")
    finally:
        pnp.set_printoptions(**options)
    with pytest.raises(pb.errors.TracerArrayConversionError):
        pb.jit(pnp.array_str)(x)


def test_iterable_and_einsum_path() -> None:
    assert [pnp.iterable(each) for each in (pnp.ones(2), pnp.array(1.0), [1], 1, "a")] == [True, False, True, False, True]
    assert pb.jit(lambda x: pnp.ones(1) if pnp.iterable(x) else pnp.zeros(1))(pnp.ones(3)).tolist() == [1.0]
    a, b = np.ones((2, 9)), np.ones((9, 9))
    path, info = pnp.einsum_path("ij,jk,kl->il", a, b, b)
    assert path == [(0, 1), (0, 1)] and "Complete contraction" in str(info)
    assert pnp.einsum("ij,jk,kl->il", a, b, b, optimize=path).shape == (2, 9)
    with pytest.raises(pb.errors.ShapeError):
        pnp.einsum_path("ij,jk", a, a)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_bits_of_floating_point_numbers(dtype: str) -> None:
    """frexp, ldexp and spacing to the last bit, at the ends of the range too; compiled code has no subnormal numbers."""
    info = np.finfo(dtype)
    hard = [0.0, -0.0, 1.0, -1.5, 8.0, 0.1, info.max, -info.max, info.tiny, 2 * info.tiny, np.inf, np.nan]
    subnormal = [info.smallest_subnormal, info.tiny / 2, info.tiny / 2 * (1 + 2 * float(info.eps))]
    n = np.array([-3000, -1100, -160, -140, -126, -20, -1, 0, 1, 20, 127, 150, 1023, 2000, 2**31 - 1], np.int32)[:, None]
    for x, ways in ((hard + subnormal, (lambda f: f,)), (hard, (pb.jit,))):
        x = np.asarray(x, dtype)
        for way in ways:
            with np.errstate(all="ignore"):
                expected, distance = np.ldexp(x, n), np.spacing(np.abs(x))
            for got, true in zip(way(pnp.frexp)(x), np.frexp(x)):
                np.testing.assert_array_equal(got, true)
            np.testing.assert_array_equal(np.abs(way(pnp.spacing)(x)), distance)
            got = np.asarray(way(pnp.ldexp)(x, n))
            seen = np.ones(got.shape, bool) if way is not pb.jit else (np.abs(expected) >= info.tiny) | (expected == 0)
            np.testing.assert_array_equal(got[seen], expected[seen])


def test_leading_zeros_are_dropped_where_they_are_known() -> None:
    p, q = pnp.array([0.0, 0.0, 1.0, 2.0]), pnp.array([1.0, 2.0])
    assert pnp.polymul(p, q, trim_leading_zeros=True).tolist() == [1.0, 4.0, 4.0]
    assert [each.tolist() for each in pnp.polydiv(p, q, trim_leading_zeros=True)] == [[0.0, 0.0, 1.0], [0.0]]
    with pytest.raises(pb.errors.ConcretizationError, match="polymul with trim_leading_zeros=True drops zeros in front"):
        pb.jit(lambda p: pnp.polymul(p, p, trim_leading_zeros=True))(p)


def test_zeros_of_polynomials() -> None:
    for p in ([0, 0, 1, -3, 2, 0], [2, 1], [3], [0, 0], [], [0, 5, 0, 0], [1, 0, 1]):
        found, expected = np.asarray(pnp.roots(np.array(p, float))), np.roots(p)
        assert found.dtype == np.complex128
        np.testing.assert_allclose(np.sort_complex(found), np.sort_complex(expected.astype(complex)), atol=1e-12)
    assert pnp.roots(pnp.array([1.0, 2.0])).dtype == np.complex64
    with pytest.raises(pb.errors.ConcretizationError, match="strip_zeros=False"):
        pb.jit(pnp.roots)(pnp.array([1.0, 2.0]))
    known = np.array([0.0, 1.0, -3.0, 0.0])  # known coefficients are known within a trace, too
    np.testing.assert_allclose(pb.jit(lambda: pnp.roots(known))(), np.roots(known))
    for p in ([0.0, 0.0, 1.0, -3.0, 2.0, 0.0], [0.0, 3.0, 6.0], [1.0, -3.0, 2.0], [0.0, 0.0, 5.0], [0.0, 40.0, 0.0, -1.0]):
        padded, expected = np.asarray(pb.jit(lambda p: pnp.roots(p, strip_zeros=False))(np.array(p))), np.roots(p)
        assert np.isnan(padded[len(expected) :]).all() and len(padded) == len(p) - 1
        found = np.sort_complex(padded[: len(expected)])
        np.testing.assert_allclose(found, np.sort_complex(expected.astype(complex)), atol=1e-12)
    # the derivative of a simple zero z with respect to the coefficient of z^k is -z^k / p'(z)
    slope = pb.jacfwd(lambda p: pnp.roots(p, strip_zeros=False)[:1].real)(pnp.array([1.0, -3.0, 2.0]))
    np.testing.assert_allclose(np.abs(slope[0]), [4.0, 2.0, 1.0], rtol=1e-4)


def test_what_polyfit_finds_on_the_way() -> None:
    x, y = np.arange(6.0), np.array([1.0, 0.0, 2.0, 5.0, 4.0, 9.0])
    for got, true in zip(pnp.polyfit(x, y, 2, full=True), np.polyfit(x, y, 2, full=True)):
        np.testing.assert_allclose(got, true, rtol=1e-6)
    with pytest.raises(ValueError, match="needs more than 3 points, but got 3"):
        pnp.polyfit(x[:3], y[:3], 2, cov=True)
    with pytest.raises(pb.errors.ShapeError, match="a vector x and ordinates and weights as long"):
        pnp.polyfit(x, y[:3], 1)


def test_lines_go_on_where_that_is_asked_for() -> None:
    xp, fp = pnp.array([0.0, 1.0, 2.0]), pnp.array([0.0, 10.0, 40.0])
    assert pnp.interp(pnp.array([-1.0, 3.0, np.nan]), xp, fp, "extrapolate", "extrapolate").tolist()[:2] == [-10.0, 70.0]
    with pytest.raises(ValueError, match="'extrapolate' as left and right, not 'nearest'"):
        pnp.interp(1.0, xp, fp, left="nearest")
    with pytest.raises(ValueError, match="a period other than 0"):
        pnp.interp(1.0, xp, fp, period=0.0)


def test_infinite_points_and_zeros_meet_no_zero() -> None:
    i, x, xp = np.inf, np.array([-1, 0, 0.5, 1, 1.5, 2, 3]), np.array([0.0, 1, 2])
    for fp in ([i, 1, np.nan], [-i, 1, 2], [1, -i, 2], [1, 2, -i], [np.nan, 1, 2]):
        for how in (lambda f: f, pb.jit):
            np.testing.assert_allclose(how(pnp.interp)(x, xp, np.array(fp, float)), np.interp(x, xp, fp))
    np.testing.assert_array_equal(pnp.interp(2.0, np.array([0.0, 2, 2]), xp), 2.0)  # the last of two points there
    np.testing.assert_array_equal(pnp.poly(pnp.array([1.0, i])), [1, -i, i])
    for how in (lambda f: f, pb.jit):
        for name in ("log2", "log10"):
            np.testing.assert_array_equal(how(getattr(pnp, name))(np.array([0j, i + 1j])).real, [-i, i])
            np.testing.assert_array_equal(how(getattr(pnp, name))(np.array([0j, i + 1j])).imag, [0, 0])
    with pytest.raises(pb.errors.AxisError, match="takes an int as axis, but True cannot be one"):
        pnp.sum(xp, axis=True)
    assert pnp.cov(np.ones(4, np.float16), aweights=np.ones(4)).dtype == np.float64


def test_nan_that_is_left_out_has_no_derivative() -> None:
    x, there = np.array([1.0, np.nan, 3.0, 4.0]), np.array([True, False, True, True])
    for how in (lambda f: f, pb.jit):
        for function, options in (
            (pnp.var, {}), (pnp.std, {}), (pnp.mean, {}), (pnp.prod, {}), (pnp.hypot.reduce, {"initial": 0.0}),
            (pnp.logaddexp.reduce, {"initial": -np.inf}),
        ):  # fmt: skip
            found = how(pb.grad(lambda x, f=function, o=options: f(x, where=there, **o)))(x)
            expected = pb.grad(lambda x, f=function, o=options: f(x, **o))(x[there])
            np.testing.assert_allclose(found[there], expected)
            assert found[1] == 0
        for function, plain in ((pnp.nanvar, pnp.var), (pnp.nanstd, pnp.std)):
            np.testing.assert_allclose(how(pb.grad(function))(x)[there], pb.grad(plain)(x[there]))


def test_parts_of_infinite_numbers_and_narrow_folds() -> None:
    for how in (lambda f: f, pb.jit):
        fraction, whole = how(pnp.modf)(np.array([np.inf, -np.inf, np.nan, -2.5]))
        np.testing.assert_array_equal(fraction, [0, 0, np.nan, -0.5])
        np.testing.assert_array_equal(whole, [np.inf, -np.inf, np.nan, -2])
    # with constant factors, XLA multiplied by one that float32 does not have
    found = pb.jit(lambda x: pnp.ldexp(x, 200))(np.array([2.0**-100, 0], np.float32))
    np.testing.assert_array_equal(found, [2.0**100, 0])
    assert pnp.add.reduceat(np.array([-128, -127, 1], np.int8), np.array([0, 2])).tolist() == [-255, 1]
    assert int(pnp.gcd.reduce(np.array([12, 18, 27]))) == 3 and int(pnp.lcm.reduce(np.array([2, 3, 4]))) == 12


def test_zero_times_infinity_in_products_of_one_number() -> None:
    for function, a, b in ((pnp.dot, (), (3,)), (pnp.inner, (), (3,)), (pnp.dot, (1, 1), (1, 3)), (pnp.inner, (1, 1), (3, 1))):
        function(pnp.ones(a), pnp.ones(b))  # from the second call on, NumPy might compute it
        assert np.isnan(np.asarray(function(pnp.zeros(a), pnp.full(b, np.inf)))).all()
        infinite = pnp.full(b, np.inf).T if function is pnp.dot else pnp.full(b, np.inf)
        assert np.isnan(np.asarray(function(infinite, pnp.zeros(a)))).all()
