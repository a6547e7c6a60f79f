"""Operators: every operand kind on either side, the dtypes of the lattice, and Python's meaning of // and %."""

from __future__ import annotations

import itertools
import math
import operator

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core.dtypes import DTYPES, FLOAT8_NAMES, promote

X = np.array([1.5, -2.5, 3.0, 0.5], np.float32)
Y = np.array([2.0, 0.5, -1.5, 4.0], np.float32)
N = np.array([7, -7, 3, 0], np.int32)
M = np.array([2, 2, -4, 5], np.int32)
ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
BITS = [operator.and_, operator.or_, operator.xor]


def check(got, expected):
    assert isinstance(got, pb.Array)
    assert got.shape == np.shape(expected)
    np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-6)


@pytest.mark.parametrize("op", ARITHMETIC + COMPARISONS, ids=lambda op: op.__name__)
def test_every_operand_kind_on_both_sides(op):
    a, b = pnp.asarray(X), pnp.asarray(Y)
    for left, right in ((a, b), (a, Y), (X, b), (a, 2.0), (2.0, a), (a, 2), (2, b), (a, np.float32(2)), (np.float32(2), b)):
        expected = op(np.asarray(left), np.asarray(right))
        got = op(left, right)
        check(got, expected)
        assert got.dtype == (np.bool_ if op in COMPARISONS else np.float32)
        if isinstance(left, pb.Array):
            check(pb.jit(lambda x: op(x, right))(left), expected)
            check(pb.vmap(lambda x: op(x, 2.0))(left), op(X, np.float32(2)))
        else:
            check(pb.jit(lambda x: op(left, x))(right), expected)


@pytest.mark.parametrize("op", [*ARITHMETIC, *COMPARISONS, *BITS], ids=lambda op: op.__name__)
def test_integers(op):
    a, b = pnp.asarray(N), pnp.asarray(M)
    for left, right in ((a, b), (a, M), (N, b), (a, 2), (9, b)):
        got = op(left, right)
        check(got, op(np.asarray(left), np.asarray(right)))
        assert got.dtype == (np.bool_ if op in COMPARISONS else np.float32 if op is operator.truediv else np.int32)
    check(pb.jit(op)(a, b), op(N, M))


def test_unary_and_other_operators():
    a = pnp.asarray(X)
    check(-a, -X)
    check(+a, X)
    check(abs(a), abs(X))
    check(~pnp.asarray(N), ~N)
    check(~pnp.asarray(N > 0), ~(N > 0))
    check(pnp.asarray(N) << 2, N << 2)
    check(pnp.asarray(N) >> 1, N >> 1)
    check(1 << pnp.asarray(np.abs(N)), 1 << np.abs(N))
    quotient, rest = divmod(pnp.asarray(N), 4)
    check(quotient, N // 4)
    check(rest, N % 4)
    check(divmod(9, pnp.asarray(M))[1], 9 % M)
    check(round(pnp.asarray(1.26), 1), np.float32(1.3))
    check(round(pnp.asarray(np.float32([1.5, -2.5]))), np.int32([2, -2]))  # without digits, Python's round gives integers
    check(round(pnp.asarray(np.int8(3))), np.int8(3))


@pytest.mark.parametrize("function", [pnp.remainder, pnp.fmod, lambda x, y: x % y, lambda x, y: pnp.divmod(x, y)[1]])
@pytest.mark.parametrize("how", [lambda f: f, pb.jit])
def test_division_of_integers_by_zero_leaves_nothing(function, how):
    for x in (np.array([5, -7, 0, 3], "int32"), np.array([5, 200, 0, 3], "uint8")):
        for y in (np.array([0, 0, 0, 2], x.dtype), np.array(0, x.dtype)):
            expected = np.array([0, 0, 0, 1 if y.ndim else 0])
            np.testing.assert_array_equal(how(function)(pnp.asarray(x), pnp.asarray(y)), expected)
    assert how(lambda x: function(x, 0))(pnp.array([4, -4])).tolist() == [0, 0]


def test_powers_of_bools_are_of_integers_and_polynomials_keep_narrow_ones():
    bools, narrow = pnp.array([True, False]), pnp.array([1, 2], "int8")
    for out in (pnp.square(bools), pnp.power(bools, bools), bools**bools, bools**2, bools**True):
        assert out.dtype == "int32" and not out.weak_type and out[0] == 1
    assert pnp.polyval(narrow, narrow).dtype == pnp.polyval(pnp.zeros(70, "int8"), narrow).dtype == "int8"
    assert pnp.select(pnp.array([[True, False], [True, True]]), pnp.array([[1, 2], [3, 4]])).tolist() == [1, 4]
    assert pnp.logaddexp.reduce(pnp.zeros(0)) == -np.inf


def test_powers():
    a = pnp.asarray(np.abs(X))
    for exponent in (2, 3, 0, 1, -1, 2.0, 0.5, 2.5):
        check(a**exponent, np.abs(X) ** np.float32(exponent))
    check(2.0**a, 2.0 ** np.abs(X))
    check(np.float32(2) ** a, 2.0 ** np.abs(X))
    assert "pow[" in str(pb.xpr(lambda x: x**3, a)) and "square" in str(pb.xpr(lambda x: x**2, a))
    assert float(pb.grad(lambda x: x**2.0)(-3.0)) == -6.0
    assert float(pb.grad(lambda x: x**0)(0.0)) == 0.0


def test_matrix_products():
    matrix = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    check(pnp.asarray(matrix) @ X, matrix @ X)
    check(matrix @ pnp.asarray(X), matrix @ X)
    check(pb.jit(lambda x: matrix @ x)(X), matrix @ X)


def test_numpy_defers_to_arrays_and_tracers():
    assert isinstance(X * pnp.asarray(Y), pb.Array)
    assert isinstance(np.float64(2) * pnp.asarray(Y), pb.Array)
    program = pb.xpr(lambda x: X * x, Y)
    assert len(program.equations) == 1
    assert isinstance(np.sin(pnp.asarray(X)), np.ndarray)


def test_python_scalars_are_literals_of_the_arrays_dtype():
    for dtype in ("float32", "float64", "bfloat16", "float16"):
        program = pb.xpr(lambda x: 2.0 * x + 1, pb.ArrayType((3,), dtype))
        assert [equation.primitive.name for equation in program.equations] == ["mul", "add"]
        assert program.outputs[0].type.dtype == dtype


def test_python_scalars_that_do_not_fit():
    with pytest.raises(OverflowError, match="300"):
        pnp.asarray(np.array([1], np.uint8)) + 300
    assert (pnp.asarray(X) * 10**30).dtype == np.float32
    assert np.isinf(np.asarray(pnp.asarray(X) * 1e300)).all()


def test_weakness():
    weak = pnp.asarray(2.0)
    assert weak.weak_type and (weak * 3).weak_type and not (weak * pnp.asarray(X)).weak_type
    assert (pnp.asarray(N) * 2.0).dtype == np.float32 and (pnp.asarray(N) * 2.0).weak_type
    assert (pnp.asarray(np.float16(1)) * weak).dtype == np.float16
    assert (pnp.asarray(np.int8(1)) + 1).dtype == np.int8
    assert (True + pnp.asarray(1)).dtype == np.int32
    assert pb.jit(lambda x: x * pnp.asarray(np.float16(1)))(2.0).dtype == np.float16
    assert not (weak < 1.0).weak_type


def test_zero_keeps_its_sign():
    assert np.signbit(np.asarray(pnp.multiply(pnp.asarray(np.int32(1)), -0.0)))
    assert np.signbit(np.asarray(pb.jit(lambda x: x * -0.0)(np.float32(1))))
    assert not np.signbit(np.asarray(pb.jit(lambda x: x * 0.0)(np.float32(1))))


DTYPE_NAMES = [name for name in DTYPES if name not in FLOAT8_NAMES]


@pytest.mark.parametrize("left", DTYPE_NAMES)
def test_sums_have_the_dtype_of_the_lattice(left):
    for right in DTYPE_NAMES:
        expected = promote((DTYPES[left], False), (DTYPES[right], False))[0]
        a, b = pnp.ones((2,), left), pnp.ones((), right)
        got = a + b
        assert got.dtype == expected and got.shape == (2,)
        assert (b * a).dtype == expected
        assert pb.eval_shape(operator.add, a, b).dtype == expected


def test_float8_does_not_promote():
    with pytest.raises(pb.errors.DtypeError, match="float8"):
        pnp.ones((2,), pnp.float8_e4m3fn) + pnp.ones((2,), pnp.float32)


@pytest.mark.parametrize("left,right", list(itertools.product([(), (3,), (2, 3), (2, 1), (0, 3), (1,)], repeat=2)))
def test_broadcasting_as_numpy(left, right):
    x, y = np.ones(left, np.float32), np.full(right, 2, np.float32)
    try:
        expected = x + y
    except ValueError:
        with pytest.raises(pb.errors.ShapeError, match="broadcast"):
            pnp.asarray(x) + pnp.asarray(y)
        return
    check(pnp.asarray(x) + pnp.asarray(y), expected)
    check(pb.jit(operator.add)(x, y), expected)
    gradient = pb.grad(lambda x, y: pnp.sum(x * y), argnums=(0, 1))(pnp.asarray(x), pnp.asarray(y))
    assert gradient[0].shape == left and gradient[1].shape == right
    if expected.size:
        assert float(pnp.sum(gradient[0])) == 2.0 * expected.size


def test_operators_refuse_what_is_no_number():
    for other in ([1.0], "a", None, {}):
        with pytest.raises(TypeError):
            pnp.asarray(X) + other
        with pytest.raises(TypeError):
            other - pnp.asarray(X)
        with pytest.raises(TypeError):
            pnp.asarray(X) // other
    assert (pnp.asarray(X) == "a") is False and (pnp.asarray(X) != None) is True  # noqa: E711


def test_eager_derivatives_allow_python_control_flow():
    def f(x):
        return x**2 if x > 0 else -x

    assert float(pb.grad(f)(3.0)) == 6.0 and float(pb.grad(f)(-3.0)) == -1.0
    assert float(pb.grad(lambda x: x * int(x))(2.5)) == 2.0
    assert float(pb.grad(pb.grad(lambda x: x**3 if x > 1 else x))(2.0)) == 12.0
    assert float(pb.grad(lambda x: x * float(pb.lax.stop_gradient(x)))(3.0)) == 3.0
    assert float(pb.grad(lambda x, n: x * float(n))(3.0, np.int32(2))) == 2.0
    assert pb.jvp(f, (3.0,), (1.0,))[1].tolist() == 6.0


def stored(x):
    host = np.zeros(2)
    host[0] = x
    return pnp.sum(host)


@pytest.mark.parametrize(
    "transform", [pb.grad, lambda f: lambda x: pb.jvp(f, (x,), (1.0,)), lambda f: pb.grad(pb.grad(f)), pb.jacfwd]
)
@pytest.mark.parametrize(
    "convert",
    [float, complex, math.sin, lambda x: x.item(), lambda x: x.tolist(), lambda x: x.tobytes(), np.float64, np.sin, stored],
)
def test_no_number_of_python_loses_a_derivative(convert, transform):
    with pytest.raises((pb.errors.TracerArrayConversionError, ValueError)) as caught:
        transform(lambda x: x * convert(x))(2.0)
    error = caught.value if convert is not stored else caught.value.__cause__  # NumPy says that it is no number
    assert isinstance(error, pb.errors.TracerArrayConversionError)
    assert convert in (
        np.sin,
        np.float64,
    ) or "would lose its derivative. Where none is wanted, convert pb.lax.stop_gradient(x)" in str(error)


def test_operators_take_host_arrays_of_any_layout():
    wide = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    check(pnp.asarray(wide.T) + pnp.asarray(wide.T), wide.T + wide.T)
    check(pnp.asarray(wide)[:, ::2] * 2.0, wide[:, ::2] * 2)
    assert pnp.asarray(np.array([1, 2], ">f4")).dtype == np.float32


def test_signs_of_zeros_in_complex_numbers():
    """They tell the sides of branch cuts apart, and equal numbers may differ in them."""
    for sign in (0.0, -0.0):
        number = complex(-1, sign)
        np.testing.assert_allclose(pnp.log(pnp.where(True, number, 2j)), np.log(number))
        np.testing.assert_allclose(pnp.power(number, 0.5 + 0j), np.power(number, 0.5 + 0j), atol=1e-6)


@pytest.mark.parametrize("how", ["eager", "jit"])
def test_of_two_bools_comes_an_integer(how):
    x, y = np.array([True, False]), np.array([True, True])
    for name in ("floor_divide", "remainder", "fmod", "left_shift", "right_shift", "divmod"):
        function = getattr(pnp, name)
        for other in (y, True):
            found = (pb.jit(function) if how == "jit" else function)(x, other)
            expected = getattr(np, name)(x, other)
            for one, want in zip(found if name == "divmod" else [found], expected if name == "divmod" else [expected]):
                assert one.dtype == np.int32 and not one.type.weak and one.tolist() == want.tolist(), name
