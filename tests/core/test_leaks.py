"""Traced values that outlive their call are found at its end, where the mode says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core.modes import overriding

kept: list[Any] = []
X = pnp.arange(3.0)


@pytest.fixture(autouse=True)
def _checks() -> Iterator[None]:
    with overriding(checks_leaks=True):
        yield
    kept.clear()


def keeps(x: Any) -> Any:
    kept.append(x * 2.0)
    return x


def keeps_inside(x: Any) -> Any:
    inner: list[Any] = []
    return pb.jit(lambda y: inner.append(y) or y)(x)


LEAKS = {
    "jit": (pb.jit(keeps), "jit of keeps"),
    "vmap": (pb.vmap(keeps), "vmap of keeps"),
    "scan": (lambda x: pb.lax.scan(lambda c, a: (keeps(c), a), 0.0, x), "scan of <lambda>"),
    "while_loop": (lambda x: pb.lax.while_loop(lambda c: keeps(c) < 3, lambda c: c + 1, 0.0), "while_loop of <lambda>"),
    "a jit in a jit": (pb.jit(keeps_inside), "jit of keeps_inside"),
    "a jit of a vmap": (pb.jit(pb.vmap(keeps)), "vmap of keeps"),
    "xpr": (lambda x: pb.xpr(keeps, x), "of keeps"),
}


@pytest.mark.parametrize("case", LEAKS)
def test_a_value_that_is_kept_is_found(case: str) -> None:
    f, of = LEAKS[case]
    with pytest.raises(pb.errors.EscapedTracerError, match=rf"Leaked trace of .*{of}.*one of type .*kept by a list"):
        f(X)
    kept.clear()
    with overriding(checks_leaks=False):
        f(X)


def _cyclic(x: Any) -> Any:
    loop: list[Any] = [x]
    loop.append(loop)
    return x * 2.0


def _with_callbacks(x: Any) -> Any:
    pb.debug.callback(repr, x)
    return pb.pure_callback(np.sin, x, x, vmap_method="sequential") * 2.0


NONE = {
    "jit": pb.jit(lambda x: x * 2.0),
    "vmap": pb.vmap(pb.jit(lambda x: x * 2.0)),
    "a cycle": pb.jit(_cyclic),
    "grad of jit": lambda x: pb.grad(lambda x: pb.jit(pnp.sum)(x * x))(x),
    "jit of grad": pb.jit(pb.grad(lambda x: pnp.sum(x * x))),
    "a vjp that is returned": pb.jit(lambda x: pb.vjp(pb.checkpoint(lambda x: pnp.sin(x)), x)),
    "loops": lambda x: pb.vmap(lambda a: pb.lax.scan(lambda c, _: (c * 2.0, c), a, None, length=2))(x),
    "branches": pb.jit(lambda x: pb.lax.cond(x[0] > 0, lambda x: x, lambda x: -x, x)),
    "jvp of a scan": lambda x: pb.jvp(lambda x: pb.lax.scan(lambda c, _: (c, None), x, None, length=1), (x,), (x,)),
    "custom_jvp": pb.jit(lambda x: pnp.linalg.norm(x) + pb.nn.relu(x).sum()),
    "a jacobian": pb.jacfwd(lambda x: x * x),
    "a ref": lambda x: pb.jit(lambda ref: ref[...] * 2.0)(pb.new_ref(x)),
    "callbacks of a batch": pb.jit(pb.vmap(_with_callbacks)),
    "closed over": pb.jit(lambda x: pb.jit(lambda y: x * y)(2.0)),
}


@pytest.mark.parametrize("case", NONE)
def test_what_keeps_nothing_is_left_alone(case: str) -> None:
    found = NONE[case](X)
    with overriding(checks_leaks=False):
        for one, other in zip(pb.tree.leaves(found), pb.tree.leaves(NONE[case](X)), strict=True):
            np.testing.assert_allclose(one, other)


def test_an_error_of_the_function_s_own_is_the_one_that_is_raised() -> None:
    def fails(x: Any) -> Any:
        kept.append(x)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        pb.jit(fails)(X)
