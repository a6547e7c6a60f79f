"""Collectives over a named vmap axis, under every order of transformations."""

import numpy as np
import pytest

from pullback.control.call import bind_call
from pullback.core.array import as_array
from pullback.core.errors import AxisError, ShapeError
from pullback.core.tracing import type_of
from pullback.ops import collective as c
from pullback.ops.arithmetic import add, mul
from pullback.ops.broadcast import reduce_sum
from pullback.ops.convert import convert_element_type
from pullback.ops.literals import literal
from pullback.ops.trigonometric import sin
from pullback.testing.checks import batched, check_adjoint, check_numerically, check_staged
from pullback.transforms.jvp import jvp_flat
from pullback.transforms.linearize import linearize_flat
from pullback.transforms.stage import stage

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 3))
SQUARES = RNG.normal(size=(4, 4, 2))


def vmap(function, name="i", size=4):
    """vmap of a function of one argument and result, over a named axis."""
    over = batched(lambda *xs: [function(*xs)], [True], size, name)
    return lambda x: over(as_array(x) if isinstance(x, np.ndarray) else x)[0]


def jit(function):
    """A function of one argument, staged and called as one operation."""

    def called(x):
        program, captures = stage(lambda y: [function(y)], [type_of(x)])
        return bind_call(program, (*captures, x))[0]

    return called


def host(x):
    return np.asarray(as_array(x).host)


def same(x):
    return np.broadcast_to(x, (4, *np.shape(x)))


# operation, example, and what all examples together give
CASES = {
    "psum": (lambda x: c.sum_over(x, "i"), X, lambda x: same(x.sum(0))),
    "pmean": (lambda x: c.mean_over(x, "i"), X, lambda x: same(x.mean(0))),
    "pmax": (lambda x: c.max_over(x, "i"), X, lambda x: same(x.max(0))),
    "pmin": (lambda x: c.min_over(x, "i"), X, lambda x: same(x.min(0))),
    "all_gather": (lambda x: c.gather_over(x, "i"), X, same),
    "all_gather_1": (lambda x: c.gather_over(x, "i", 1), X, lambda x: same(x.T)),
    "ppermute": (
        lambda x: c.permute_over(x, "i", [(0, 1), (1, 2), (3, 0)]),
        X,
        lambda x: np.stack([x[3], x[0], x[1], 0 * x[0]]),
    ),
    "all_to_all": (lambda x: c.exchange_over(x, "i", 0, 0), SQUARES, lambda x: x.transpose(1, 0, 2)),
    "all_to_all_01": (lambda x: c.exchange_over(x, "i", 0, 1), SQUARES, lambda x: x.transpose(1, 2, 0)),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    operation, x, expected = CASES[name]
    np.testing.assert_allclose(host(vmap(operation)(x)), expected(x), rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_derivatives_of_the_whole(name):
    operation, x, _ = CASES[name]
    check_numerically(lambda y: [vmap(operation)(y)], [as_array(x)], RNG, name)
    check_adjoint(lambda y: [vmap(operation)(y)], [as_array(x)], RNG, name)
    check_adjoint(lambda y: [vmap(lambda z: sin(operation(mul(z, z))))(y)], [as_array(x)], RNG, name)


@pytest.mark.parametrize("name", CASES)
def test_staged(name):
    operation, x, expected = CASES[name]
    check_staged(lambda y: [vmap(operation)(y)], [as_array(x)], name)  # vmap inside jit
    np.testing.assert_allclose(host(vmap(jit(operation))(x)), expected(x), rtol=1e-12)  # jit inside vmap
    np.testing.assert_allclose(host(vmap(jit(jit(operation)))(x)), expected(x), rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_another_vmap_inside_and_outside(name):
    operation, x, expected = CASES[name]
    many = np.stack([x, 2 * x, x - 1])
    wanted = np.stack([expected(y) for y in many])
    np.testing.assert_allclose(host(vmap(vmap(operation), "j", 3)(many)), wanted, rtol=1e-12)
    inside = vmap(vmap(operation, "j", 3))(np.moveaxis(many, 0, 1))
    np.testing.assert_allclose(host(inside), np.moveaxis(wanted, 0, 1), rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("pmax", "pmin")])
def test_the_transpose_within_each_example(name):
    """Per example, J^T w is the adjoint of the map of all examples at once, since cotangents travel between them."""
    operation, x, expected = CASES[name]
    w = RNG.normal(size=np.shape(expected(x)))
    weights = as_array(w)

    def pull(y, v):
        return linearize_flat(lambda z: [operation(z)], [y]).pull([v])[0]

    over = batched(lambda y, v: [pull(y, v)], [True, True], 4, "i")
    back = host(over(as_array(x), weights)[0])
    v = RNG.normal(size=np.shape(x))
    np.testing.assert_allclose((back * v).sum(), (w * expected(v)).sum(), rtol=1e-10)


def test_constants_are_seen_by_the_owner():
    def count(x):
        return add(x, c.sum_over(literal(1, x), "i"))

    np.testing.assert_allclose(host(vmap(count)(X)), X + 4)
    np.testing.assert_allclose(host(vmap(jit(count))(X)), X + 4)
    check_staged(lambda x: [vmap(count)(x)], [as_array(X)], "constant")
    check_staged(lambda x: [vmap(jit(count))(x)], [as_array(X)], "constant")


def test_tangents_of_constants_are_seen_by_the_owner():
    def inner(x):
        one = as_array(np.float64(3.0))
        value, tangent = jvp_flat(lambda y: [c.sum_over(mul(y, y), "i")], [one], [as_array(np.float64(1.0))])
        return add(x, add(value[0], tangent[0]))

    expected = X + 4 * 9 + 4 * 6
    np.testing.assert_allclose(host(vmap(inner)(X)), expected)
    check_staged(lambda x: [vmap(inner)(x)], [as_array(X)], "jvp of a constant")


def test_axis_index():
    def index(x):
        return mul(x, convert_element_type(c.index_along("i"), new_dtype=np.dtype(np.float64)))

    expected = X * np.arange(4.0)[:, None]
    np.testing.assert_allclose(host(vmap(index)(X)), expected)
    np.testing.assert_allclose(host(vmap(jit(index))(X)), expected)
    check_staged(lambda x: [vmap(index)(x)], [as_array(X)], "axis_index")
    check_staged(lambda x: [vmap(jit(index))(x)], [as_array(X)], "axis_index")
    check_adjoint(lambda x: [vmap(index)(x)], [as_array(X)], RNG, "axis_index")


def test_extremes_share_the_derivative():
    x = as_array(np.array([1.0, 3.0, 3.0, 2.0]))
    linearized = linearize_flat(lambda y: [reduce_sum(vmap(lambda z: c.max_over(z, "i"))(y), axes=(0,))], [x])
    np.testing.assert_allclose(host(linearized.pull([as_array(np.float64(1.0))])[0]), [0, 2, 2, 0])


def test_a_name_that_no_vmap_owns():
    with pytest.raises(AxisError, match="no axis named 'k'"):
        c.sum_over(as_array(1.0), "k")
    with pytest.raises(AxisError, match="no axis named 'k' here: those around this call are 'i'"):
        vmap(lambda x: c.sum_over(x, "k"))(X)


def test_wrong_arguments():
    with pytest.raises(ShapeError, match="at most once"):
        vmap(lambda x: c.permute_over(x, "i", [(0, 1), (0, 2)]))(X)
    with pytest.raises(ShapeError, match="split_axis=0 must have that size"):
        vmap(lambda x: c.exchange_over(x, "i", 0, 0))(X)
    with pytest.raises(AxisError, match="new axis at 5"):
        vmap(lambda x: c.gather_over(x, "i", 5))(X)
