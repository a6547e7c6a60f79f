"""Where nothing is compiled: functions that jit would compile, loops and branches run in Python, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core.modes import overriding

X = pnp.arange(4.0)


def _double_until(limit: Any, x: Any, seen: list[Any] | None = None) -> Any:
    def body(x: Any) -> Any:
        if seen is not None:
            seen.append(x)
        return 2.0 * x

    return pb.lax.while_loop(lambda x: x < limit, body, x)


CASES = {
    "jit": pb.jit(lambda x: pnp.sin(x) * 2.0),
    "scan": lambda x: pb.lax.scan(lambda c, a: (c + a, {"y": c * a}), 0.0, x),
    "a scan of a tree": lambda x: pb.lax.scan(lambda c, a: ((c[0] * a["x"], c[0]), c), (1.0, 2.0), {"x": x}),
    "scan from the end": lambda x: pb.lax.scan(lambda c, a: (c + a, c), 0.0, x, reverse=True),
    "a scan without xs": lambda x: pb.lax.scan(lambda c, _: (c * 2.0, c), x, None, length=3),
    "a scan of no step": lambda x: pb.lax.scan(lambda c, a: (c + a, c), 0.0, x[:0]),
    "while_loop": lambda x: _double_until(50.0, x[1]),
    "while_loop with a bound": lambda x: pb.lax.while_loop(lambda x: x < 50.0, lambda x: x * 2.0, x[1], max_steps=3),
    "fori_loop": lambda x: pb.lax.fori_loop(1, 4, lambda i, x: x * i, x),
    "fori_loop with a traced bound": lambda x: pb.jit(lambda n: pb.lax.fori_loop(0, n, lambda i, x: x + i, x))(3),
    "cond": lambda x: pb.lax.cond(x[0] > 0, lambda x: x + 1.0, lambda x: x - 1.0, x),
    "switch": lambda x: [pb.lax.switch(i, [pnp.sin, pnp.cos, pnp.exp], x) for i in (-1, 1, 7)],
    "map": lambda x: pb.lax.map(lambda a: a * a, x),
    "a derivative": lambda x: pb.grad(lambda x: pb.lax.scan(lambda c, a: (c * pnp.cos(a), a), 1.0, x)[0])(x),
    "a derivative of a branch": lambda x: pb.grad(lambda a: pb.lax.cond(a > 0, lambda: a * a, lambda: a))(2.0),
    "a batch": lambda x: pb.vmap(lambda a: pb.lax.cond(a > 1, lambda: a * a, lambda: -a))(x),
    "a batch of loops": lambda x: pb.vmap(lambda a: _double_until(10.0, a + 1.0))(x),
    "a traced function": lambda x: pb.xpr(lambda x: pb.lax.scan(lambda c, a: (c + a, a), 0.0, x), x)(x),
}


@pytest.mark.parametrize("case", CASES)
def test_the_results_are_the_same(case: str) -> None:
    wanted, structure = pb.tree.flatten(CASES[case](X))
    with overriding(compiles=False):
        found, own = pb.tree.flatten(CASES[case](X))
    assert own == structure
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        np.testing.assert_allclose(one.view(), other.view(), rtol=1e-6)


def test_bodies_see_values_in_every_step() -> None:
    seen: list[Any] = []
    with overriding(compiles=False):
        pb.jit(lambda x: _double_until(4.0, x, seen))(pnp.asarray(1.0))
        pb.lax.scan(lambda c, a: (c, seen.append(float(a))), 0.0, X)
        pb.lax.cond(True, lambda: seen.append("then"), lambda: seen.append("else"))
    assert seen == [1.0, 2.0, 0.0, 1.0, 2.0, 3.0, "then"]
    compiled = pb.jit(lambda x: seen.append(x))
    compiled(1.0)
    assert isinstance(seen[-1], pb.Tracer)
    with overriding(compiles=False):
        compiled(1.0)
    assert seen[-1] == 1.0 and not isinstance(seen[-1], pb.Tracer)


def test_what_is_wrong_with_a_body_is_said() -> None:
    with overriding(compiles=False):
        with pytest.raises(pb.errors.StructureError, match=r"must return a pair \(carry, y\)"):
            pb.lax.scan(lambda c, a: c, 0.0, X)
        with pytest.raises(pb.errors.StructureError, match="differ"):
            pb.lax.scan(lambda c, a: (c, [1.0] * int(a)), 0.0, X)
