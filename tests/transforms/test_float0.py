"""Arrays of dtype float0, the tangents of integers: they come out of every transformation as they come out without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core.errors import DtypeError, LeafError

INTS = np.arange(6, dtype="int32").reshape(3, 2)
FLOATS = np.arange(6, dtype="float32").reshape(3, 2)


def loss(n: Any, x: Any) -> Any:
    return pnp.sum(pnp.sin(x) * n)


def gradient(n: Any, x: Any) -> Any:
    return pb.grad(loss, argnums=(0, 1), allow_int=True)(n, x)


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "grad": gradient,
    "in a dict with None": lambda n, x: {"gradient": gradient(n, x), "none": None},
    "alone": lambda n, x: gradient(n, x)[0],
    "vjp": lambda n, x: pb.vjp(loss, n, x)[1](1.0),
    "jvp": lambda n, x: pb.jvp(loss, (n, x), (np.zeros(n.shape, pb.float0), x)),
    "tangent of an integer": lambda n, x: pb.jvp(lambda n: n * 2, (n,), (np.zeros(n.shape, pb.float0),)),
    "jacrev": lambda n, x: pb.jacrev(lambda n: n * pnp.sum(x), allow_int=True)(n),
    "made by hand": lambda n, x: (np.zeros((4, 0), pb.float0), x),
}

WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "jit": pb.jit,
    "jit jit": lambda f: pb.jit(pb.jit(f)),
    "checkpoint": pb.checkpoint,
    "cond": lambda f: lambda n, x: pb.lax.cond(pnp.sum(x) > 0, f, f, n, x),
    "jit cond": lambda f: pb.jit(lambda n, x: pb.lax.cond(pnp.sum(x) > 0, f, f, n, x)),
}


def shapes(tree: Any) -> Any:
    return pb.tree.map(lambda leaf: (leaf.shape, str(leaf.dtype)), tree)


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_they_come_out(name: str, wrapper: str) -> None:
    f = FUNCTIONS[name]
    wrapped = WRAPPERS[wrapper](f)
    expected = f(INTS, FLOATS)
    for _ in range(2):  # the second call may take a faster path
        assert shapes(wrapped(INTS, FLOATS)) == shapes(expected)
        assert shapes(wrapped(pnp.asarray(INTS), pnp.asarray(FLOATS))) == shapes(expected)


@pytest.mark.parametrize("wrap", [lambda f: f, pb.jit], ids=["eager", "jit"])
@pytest.mark.parametrize(("out_axes", "shape"), [(0, (3, 2)), (1, (2, 3)), (-1, (2, 3)), ((None, 0), (2,))])
def test_they_come_out_of_vmap(out_axes: Any, shape: tuple[int, ...], wrap: Any) -> None:
    trivial, real = wrap(pb.vmap(gradient, out_axes=out_axes))(INTS, FLOATS)
    assert (trivial.shape, trivial.dtype) == (shape, pb.float0)
    np.testing.assert_allclose(real if real.shape == (3, 2) else real.T, np.cos(FLOATS) * INTS, rtol=1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, pb.jit], ids=["eager", "jit"])
def test_steps_of_a_loop_return_them_stacked(wrap: Any) -> None:
    trivial = np.zeros((3, 2), pb.float0)
    for loop in (
        lambda x: pb.lax.scan(lambda c, row: (c, (trivial, c)), 0.0, x)[1],
        lambda x: pb.lax.map(lambda row: (trivial, 0.0), x),
    ):
        ys, real = wrap(loop)(np.ones((4, 2), np.float32))
        assert (ys.shape, ys.dtype) == ((4, 3, 2), pb.float0) and real.shape == (4,)


def test_where_they_cannot_go_they_are_refused() -> None:
    with pytest.raises(LeafError, match="float0"):
        pb.numpy.sin(np.zeros((3, 2), pb.float0))


def test_zeros_of_nothing_are_numpys() -> None:
    for made in (pnp.zeros((2,), pb.float0), pnp.zeros_like(np.zeros(2, pb.float0)), pnp.ones(2, dtype=pb.float0)):
        assert isinstance(made, np.ndarray) and made.dtype == pb.float0 and made.shape == (2,)
    _, tangent = pb.jvp(lambda n: n, (3,), (pnp.zeros((), pb.float0),))
    assert pb.tree.map(pnp.zeros_like, tangent).dtype == pb.float0
    with pytest.raises(DtypeError):
        pnp.zeros(2, np.dtype([("a", "i4")]))
