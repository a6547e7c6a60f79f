"""jax.lax: what it has besides pullback.lax, and trees of JAX's kind."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback.compat.jax as jax
from pullback.compat.jax import lax
from pullback.compat.jax import numpy as jnp
from pullback.compat.jax.tree_util import register_pytree_node

Pair = collections.namedtuple("Pair", ("a", "b"))


class Box:
    def __init__(self, inside: object) -> None:
        self.inside = inside


register_pytree_node(Box, lambda box: ((box.inside,), None), lambda _, children: Box(*children))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (lambda: lax.conv_shape_tuple((2, 3, 8, 8), (5, 3, 3, 3), (1, 2), "SAME"), (2, 5, 8, 4)),
        (lambda: lax.conv_general_permutations(("NHWC", "HWIO", "NHWC")), ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))),
        (
            lambda: lax.conv_general_shape_tuple((2, 8, 8, 3), (3, 3, 3, 5), (1, 1), "VALID", ("NHWC", "HWIO", "NHWC")),
            (2, 6, 6, 5),
        ),
        (
            lambda: lax.conv_transpose_shape_tuple((2, 8, 8, 3), (3, 3, 3, 5), (2, 2), "SAME", ("NHWC", "HWIO", "NHWC")),
            (2, 16, 16, 5),
        ),
        (lambda: lax.reduce_window_shape_tuple((4, 5), (2, 2), (1, 1), ((0, 0), (1, 1)), (2, 2)), (6, 10)),
        (lambda: tuple(lax.shape_as_value((2, 3))), (2, 3)),
    ],
)
def test_shapes(found, expected) -> None:
    assert found() == expected


def test_trees_are_those_of_jax() -> None:
    box = lax.stop_gradient(Box(Pair(1.0, 2.0)))
    assert isinstance(box, Box) and box.inside == Pair(1.0, 2.0)
    summed = jax.vmap(lambda x: lax.psum(Box(x), "i").inside, axis_name="i")(jnp.arange(3))
    assert summed.tolist() == [3, 3, 3]
    first, second = lax.reduce(
        Pair(jnp.arange(3.0), jnp.ones(3)), Pair(0.0, 0.0), lambda p, q: Pair(p.a + q.a, p.b + q.b), (0,)
    )
    assert (first, second) == (3.0, 3.0)
    windows = lax.reduce_window(Pair(jnp.arange(3.0), jnp.ones(3)), Pair(0.0, 0.0), _both, (2,), (1,), "VALID")
    assert [x.tolist() for x in windows] == [[1.0, 3.0], [2.0, 2.0]]


def _both(p: Pair, q: Pair) -> Pair:
    return Pair(p.a + q.a, p.b + q.b)


def test_a_number_is_counted_in_a_named_axis() -> None:
    sizes = []
    jax.vmap(lambda x: sizes.append(lax.psum(1, "i")) or x, axis_name="i")(np.zeros(5))
    assert sizes == [5]


def test_hints_change_nothing() -> None:
    doubled = lax.composite(lambda x, factor: x * factor, "my.scale")
    assert doubled(jnp.arange(3), factor=2).tolist() == [0, 2, 4]
    assert lax.with_sharding_constraint({"a": 1}, None) == {"a": 1}
    assert lax.after_all(lax.create_token(), lax.create_token()).shape == (0,)
    assert lax.stage(2).shape == ()
    assert lax.dce_sink(jnp.arange(3)) is None
    assert lax.reduce_sum(jnp.ones((2, 3)), (1,), out_sharding=None).tolist() == [3, 3]


@pytest.mark.parametrize(
    ("module", "name"),
    [("scipy.special", "betaincinv"), ("scipy.linalg", "norm"), ("numpy.linalg", "QRResult"), ("lax", "psend")],
)
def test_names_that_jax_has_not_or_that_are_not_there(module, name) -> None:
    home = jax
    for part in module.split("."):
        home = getattr(home, part)
    assert name not in dir(home)
    with pytest.raises(AttributeError, match=f"jax.{module}.{name} is not provided"):
        getattr(home, name)


def test_functions_of_scipy_promote_inside_whatever_is_promoted_outside() -> None:
    x = jnp.ones((3, 4))
    with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        assert jax.scipy.special.logsumexp(x, b=jnp.ones((1, 4))).shape == ()
        with pytest.raises(TypeError, match="promotion is strict"):
            jax.scipy.special.logsumexp(x, b=jnp.ones((1, 4), int))
        assert (
            jax.scipy.special.logsumexp(np.array([-1000, -2]), b=np.array([1, 0])) == -1000
        )  # ints, which become floats together
        assert jax.scipy.fft.dct(x).shape == (3, 4)
        assert jax.scipy.fft.dct.__name__ == "dct"
        with pytest.raises(ValueError, match="rank promotion"):
            x * jnp.ones(4)


@pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres"])
def test_krylov_solvers_take_trees_of_jax(name) -> None:
    class Twice:
        def __matmul__(self, x: Pair) -> Pair:
            return Pair(2 * x.a, 2 * x.b)

    solve = getattr(jax.scipy.sparse.linalg, name)
    for operator in (Twice(), Twice().__matmul__):
        x, _info = solve(operator, Pair(jnp.ones(2), jnp.ones(3)), Pair(jnp.zeros(2), jnp.zeros(3)), M=lambda x: x, tol=1e-6)
        np.testing.assert_allclose(np.concatenate([x.a, x.b]), 0.5, rtol=1e-5)
    x, _ = solve(2 * jnp.eye(2), jnp.ones(2))
    np.testing.assert_allclose(x, 0.5, rtol=1e-5)
    box, _ = solve(lambda box: Box(2 * box.inside), Box(jnp.ones(2)))
    np.testing.assert_allclose(box.inside, 0.5, rtol=1e-5)


def test_derivatives_leave_out_what_was_read_out_of_bounds() -> None:
    """As in JAX, where reading without a mode promises that there is nothing."""
    x, i = jnp.arange(4.0), jnp.array([0, 0, 9, -1, -7])
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    reads: list[tuple[Callable[[Any], Any], list[float]]] = [
        (lambda x: x[i], [2, 0, 0, 1]),
        (lambda x: x.at[i].get(), [2, 0, 0, 1]),
        (lambda x: x.at[i].get(mode="clip"), [3, 0, 0, 2]),
        (lambda x: x.at[i].get(mode="fill", fill_value=0.0), [2, 0, 0, 1]),
        (lambda x: x[jnp.array([9])], [0, 0, 0, 0]),
        (lambda x: x[jnp.int32(9)], [0, 0, 0, 1]),
        (lambda x: x.reshape(2, 2)[jnp.array([0, 3]), jnp.array([1, 1])], [0, 1, 0, 0]),
        (lambda x: lax.gather(x, i[:, None], numbers, (1,)), [2, 0, 0, 0]),
        (lambda x: lax.gather(x, i[:, None], numbers, (1,), mode="clip"), [4, 0, 0, 1]),
    ]
    for read, wanted in reads:
        for derivative in (jax.grad(lambda x: read(x).sum()), jax.jit(jax.grad(lambda x: read(x).sum()))):
            np.testing.assert_array_equal(derivative(x), wanted)
    np.testing.assert_array_equal(x[i], [0, 0, 3, 3, 0])
    np.testing.assert_array_equal(jax.jit(lambda x, i: x[i])(x, i), [0, 0, 3, 3, 0])


def test_associative_scan_takes_leaves_in_other_containers() -> None:
    elems = Pair(jnp.full(4, 2.0), jnp.arange(4.0))
    found = lax.associative_scan(lambda x, y: [x.a * y.a, x.b + y.b], elems)
    assert isinstance(found, Pair)
    assert np.array_equal(found.a, [2, 4, 8, 16])
    assert np.array_equal(found.b, [0, 1, 3, 6])
    with pytest.raises(TypeError, match="associative_scan's"):
        lax.associative_scan(lambda x, y: (x.a,), elems)
