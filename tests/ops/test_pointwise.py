"""What elementwise operations have in common: dtypes, shapes, weakness; and complex numbers and their parts."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from pullback.core.array import as_array
from pullback.core.errors import DtypeError, ShapeError
from pullback.ops import arithmetic as a
from pullback.ops import bitwise as b
from pullback.ops import compare as c
from pullback.ops import complex as z
from pullback.ops import powers as p
from pullback.ops.exponential import exp, log1p
from pullback.ops.literals import literal
from pullback.ops.trigonometric import sin
from pullback.testing import all_primitives, check_gradients
from pullback.transforms.linearize import linearize_flat

BY_KIND = {"b": bool, "i": np.int32, "u": np.uint8, "f": np.float32, "c": np.complex64}
OPEN = [op for op in all_primitives() if op.elementwise and op.samples is not None and set(op.kinds) != set("biufc")]


@pytest.mark.parametrize("operation", OPEN, ids=lambda operation: operation.name)
def test_kinds_that_an_operation_does_not_take(operation):
    args, params = next(iter(operation.samples(np.random.default_rng(0))))
    for letter, dtype in BY_KIND.items():
        if letter not in operation.kinds and operation.name != "select":
            with pytest.raises(DtypeError, match=operation.name):
                operation(*[as_array(np.ones(np.shape(arg), dtype)) for arg in args], **params)


def test_two_dtypes():
    with pytest.raises(DtypeError, match=r"add takes operands of one dtype, but got f32\[\], f64\[\]"):
        a.add(as_array(np.float32(1)), as_array(np.float64(1)))
    with pytest.raises(DtypeError, match="select chooses by a bool array"):
        c.select(as_array(1), as_array(1.0), as_array(2.0))


def test_two_shapes():
    with pytest.raises(ShapeError, match=r"mul takes operands of one shape, or 0-d ones, but got f64\[3\], f64\[2\]"):
        a.mul(as_array(np.ones(3)), as_array(np.ones(2)))
    with pytest.raises(ShapeError, match=r"f64\[1,3\], f64\[3\]"):
        a.add(as_array(np.ones((1, 3))), as_array(np.ones(3)))


def test_weakness_survives_only_among_the_weak():
    assert a.add(as_array(1.0), as_array(2.0)).type.weak
    assert not a.add(as_array(1.0), as_array(np.float32(2))).type.weak
    assert exp(as_array(1.0)).type.weak
    assert p.square(a.mul(literal(2, as_array(1.0)), as_array(1.0))).type.weak


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_derivatives_stay_in_the_dtype(dtype):
    x = as_array(np.array([0.3, 0.7]).astype(dtype))
    for operation in (exp, sin, log1p, p.sqrt, lambda y: p.integer_pow(y, y=3), lambda y: a.max(y, literal(0.5, y))):
        linearized = linearize_flat(lambda y: [operation(y)], [x])
        assert linearized.pull([x])[0].type is x.type
        assert linearized.push([x])[0].type is x.type


def gradient(function, *args):
    linearized = linearize_flat(lambda *xs: [function(*xs)], [as_array(arg) for arg in args])
    ones = as_array(np.ones(linearized.values[0].shape))
    return [np.asarray(found.host).tolist() for found in linearized.pull([ones])]


def test_slopes_at_kinks():
    assert gradient(a.max, np.float64(1), np.float64(1)) == [0.5, 0.5]
    assert gradient(a.min, np.float64(1), np.float64(2)) == [1, 0]
    assert gradient(z.abs, np.array([0.0, -2.0])) == [[0, -1]]
    assert gradient(p.pow, np.float64(0), np.float64(2)) == [0, 0]
    assert gradient(lambda x: p.pow(x, literal(0, x)), np.float64(0)) == [0]
    assert gradient(c.clamp, np.float64(0), np.array([-1.0, 0.5, 2.0]), np.float64(1)) == [1, [0, 1, 0], 1]


def test_the_slope_of_a_complex_number_at_zero():
    x = as_array(np.zeros(2, complex))
    for operation in (z.sign, z.abs):
        (tangent,) = linearize_flat(lambda y: [operation(y)], [x]).push([as_array(np.ones(2, complex))])
        assert np.isfinite(np.asarray(tangent.host)).all()


def test_complex_parts(both):
    x = np.array([1 + 2j, -3 - 4j])
    for values in both(z.real, x):
        assert values.tolist() == [1, -3]
    for values in both(z.imag, x):
        assert values.tolist() == [2, -4]
    for values in both(z.conj, x):
        assert values.tolist() == [1 - 2j, -3 + 4j]
    for values in both(z.abs, x):
        np.testing.assert_allclose(values, [5**0.5, 5])
    for values in both(z.sign, np.append(x, 0)):
        np.testing.assert_allclose(values, [(1 + 2j) / 5**0.5, -0.6 - 0.8j, 0])
    for values in both(z.complex, x.real, x.imag):
        np.testing.assert_array_equal(values, x)


def test_multiplication_transposes_without_conjugation():
    factor = as_array(np.complex128(2 + 3j))
    linearized = linearize_flat(lambda x: [a.mul(x, factor)], [as_array(np.complex128(1))])
    assert linearized.pull([as_array(np.complex128(1))])[0].host == 2 + 3j


def test_gradients_of_a_long_expression():
    def f(x, y):
        return a.div(sin(a.mul(x, y)), a.add(p.sqrt(exp(x)), z.abs(a.sub(y, x))))

    check_gradients(f, (np.array([0.3, 1.2]), np.array([2.0, 0.1])), order=3)
    check_gradients(lambda x: z.abs(z.conj(p.pow(x, literal(2.5, x)))), (np.array([1 + 2j, 0.5 - 1j]),))


def test_shifts_are_not_for_bools():
    with pytest.raises(DtypeError, match="shift_left takes integer operands"):
        b.shift_left(as_array(True), as_array(True))


def test_scipy_is_loaded_by_the_first_function_that_needs_it():
    code = (
        "import sys, pullback.testing; pullback.testing.all_primitives(); assert 'scipy' not in sys.modules;"
        "from pullback.ops.error_functions import erf; erf(0.5); assert 'scipy' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
