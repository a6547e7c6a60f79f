"""Batches of no elements, and functions of arrays that hold none: types as ever, and derivatives that are empty too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.core.array import Array, as_array
from pullback.core.dtypes import kind
from pullback.core.primitive import Primitive
from pullback.core.tracing import type_of
from pullback.testing import all_primitives
from pullback.testing.checks import active_arguments, batched, check_adjoint, check_staged, differentiable, pulled, pushed
from pullback.testing.values import host, in_dtype, is_generic, random_like
from pullback.transforms.jvp import has_derivative


def arguments(p: Primitive, args: Any) -> list[Array] | None:
    if not is_generic(args):
        return [as_array(np.asarray(arg)) for arg in args]
    return in_dtype(args, np.dtype("float64" if "f" in p.kinds else "complex128" if "c" in p.kinds else "int32"))


@pytest.mark.parametrize("p", [p for p in all_primitives() if p.samples is not None], ids=lambda p: p.name)
def test_a_batch_of_no_elements(p: Primitive) -> None:
    """Compiled it is of the type that it has eagerly ; so are its derivatives."""
    rng = np.random.default_rng(0)
    for sample, params in p.samples(rng):  # type: ignore[misc]
        args = arguments(p, sample)
        if not args:
            continue

        def function(*xs: Any, params: dict[str, Any] = params) -> Any:
            out = p(*xs, **params)
            return out if p.multiple_results else [out]

        over_batch = batched(function, [True] * len(args), 0)
        empty = [as_array(np.zeros((0, *arg.shape), arg.dtype)) for arg in args]
        check_staged(over_batch, empty, p.name)
        if has_derivative(p) and differentiable(function, args):
            check_adjoint(over_batch, empty, rng, p.name)
            flags = active_arguments(args)
            push, pull = pushed(over_batch, flags), pulled(over_batch, flags)
            tangents = [random_like(rng, arg) for arg, flag in zip(empty, flags) if flag]
            cotangents = [random_like(rng, out) for out in push(*empty, *tangents)]
            check_staged(pull, [*empty, *cotangents], p.name)
            found = batched(pulled(function, flags), [True] * (len(args) + len(cotangents)), 0)(*empty, *cotangents)
            assert [type_of(one).shape for one in found] == [arg.shape for arg, flag in zip(empty, flags) if flag]


NONE = np.zeros((0, 3), "float32")
INDEX = np.zeros(0, "int32")

# functions of one batch element, here of shape (3,), which return one array
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "index": (lambda x, i: x[i], (NONE, INDEX)),
    "slice": (lambda x: x[::-1][1:], (NONE,)),
    "mask": (lambda x: x[np.array([True, False, True])], (NONE,)),
    "at set": (lambda x, i: x.at[i].set(2.0), (NONE, INDEX)),
    "at multiply": (lambda x, i: x.at[i].mul(2.0), (NONE, INDEX)),
    "at max": (lambda x, i: x.at[i].max(x[0]), (NONE, INDEX)),
    "take_along_axis": (lambda x, i: pnp.take_along_axis(x, i, axis=0), (NONE, np.zeros((0, 2), "int32"))),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i,), (2,)), (NONE, INDEX)),
    "dynamic_update_slice": (lambda x, i: lax.dynamic_update_slice(x, x[:1], (i,)), (NONE, INDEX)),
    "max": (lambda x: pnp.max(x), (NONE,)),
    "argmax": (lambda x: x * pnp.argmax(x), (NONE,)),
    "var": (lambda x: pnp.var(x), (NONE,)),
    "dot": (lambda x: x @ x, (NONE,)),
    "dot with what is not batched": (lambda x: x @ np.ones((3, 2), "float32"), (NONE,)),
    "scan": (lambda x: lax.scan(lambda c, y: (c + y, c * y), 0.0, x)[1], (NONE,)),
    "fori_loop": (lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2 + i, x), (NONE,)),
    "cond": (lambda x: lax.cond(x[0] > 0, lambda c: c * c, lambda c: c - 1, x), (NONE,)),
    "switch": (lambda x, i: lax.switch(i, [pnp.sin, pnp.cos], x), (NONE, INDEX)),
    "map": (lambda x: lax.map(lambda y: y * 2, x), (NONE,)),
    "checkpoint": (pb.checkpoint(lambda x: pnp.sin(x) * x), (NONE,)),
    "jit": (pb.jit(lambda x: pnp.sin(x) * x), (NONE,)),
    "psum": (lambda x: lax.psum(x, "batch"), (NONE,)),
    "pmax": (lambda x: lax.pmax(x, "batch"), (NONE,)),
    "all_gather": (lambda x: lax.all_gather(x, "batch", axis=-1), (NONE,)),
    "ppermute": (lambda x: lax.ppermute(x, "batch", []), (NONE,)),
    "axis_index": (lambda x: x * lax.axis_index("batch"), (NONE,)),
}


@pytest.mark.parametrize("strategy", ["select", "map"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_vmap_of_no_elements(name: str, strategy: str) -> None:
    function, args = FUNCTIONS[name]
    one = [np.zeros(arg.shape[1:], arg.dtype) for arg in args]
    size = 3 if name != "all_gather" else 0
    like = pb.vmap(function, axis_name="batch")(
        *[np.stack([x] * size) if size else np.zeros((0, *x.shape), x.dtype) for x in one]
    )
    over_batch = pb.vmap(function, axis_name="batch", strategy=strategy)
    for f in (over_batch, pb.jit(over_batch)):
        found = f(*args)
        assert (found.shape, found.dtype) == ((0, *like.shape[1:]), like.dtype)

    def loss(x: Any, *rest: Any) -> Any:
        return pnp.sum(over_batch(x, *rest))

    for gradient in (pb.grad(loss), pb.jit(pb.grad(loss))):
        assert gradient(*args).shape == (0, 3)
    assert float(loss(*args)) == 0.0


def test_a_while_loop_of_no_elements() -> None:
    over_batch = pb.vmap(lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: c + 1, x))
    for f in (over_batch, pb.jit(over_batch)):
        assert f(NONE).shape == (0, 3)


EMPTY = [(0,), (0, 3), (2, 0), ()]
OF_ARRAYS: dict[str, Callable[[Any], Any]] = {
    "square": lambda x: x * x,
    "sin": pnp.sin,
    "sum": lambda x: pnp.sum(pnp.sin(x) ** 2),
    "product": lambda x: pnp.prod(x) * pnp.sum(x),
    "constant": lambda x: 3.0,
    "its size": lambda x: pnp.ones((2,)) * x.size,
    "reshape": lambda x: pnp.reshape(x, (-1,))[::-1] if x.size else pnp.ravel(x),
    "dot": lambda x: pnp.dot(pnp.ravel(x), pnp.ravel(x)),
    "concatenate": lambda x: pnp.concatenate([pnp.ravel(x), pnp.ravel(x) * 2]),
    "scan": lambda x: lax.scan(lambda c, y: (c + y, c * y), 0.0, pnp.ravel(x))[0],
    "where": lambda x: pnp.where(x > 0, x, -x * x),
}


@pytest.mark.parametrize("shape", EMPTY, ids=str)
@pytest.mark.parametrize("name", OF_ARRAYS)
def test_derivatives_of_functions_of_empty_and_of_0d_arrays(name: str, shape: tuple[int, ...]) -> None:
    f = OF_ARRAYS[name]
    x = np.full(shape, 0.5, "float32")
    out = pnp.asarray(f(pnp.asarray(x)))
    for wrap in (lambda f: f, pb.jit):
        value, tangent = wrap(lambda x: pb.jvp(f, (x,), (x,)))(x)
        assert value.shape == tangent.shape == out.shape
        assert wrap(lambda x: pb.vjp(f, x)[1](pnp.ones_like(f(x)))[0])(x).shape == shape
        for jacobian in (pb.jacfwd, pb.jacrev):
            assert wrap(jacobian(f))(x).shape == (*out.shape, *shape)
        assert wrap(pb.hessian(f))(x).shape == (*out.shape, *shape, *shape)
        if not out.shape:
            assert wrap(pb.grad(f))(x).shape == shape
            assert wrap(pb.grad(lambda x: pnp.sum(pb.grad(f)(x))))(x).shape == shape
    assert pb.vmap(f, axis_size=2, in_axes=None)(x).shape == (2, *out.shape)
    assert kind(host(out).dtype) == "f"
