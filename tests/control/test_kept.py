"""A checkpoint's policy holds inside of loops and branches, and changes no value."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.program.program import Program, programs_in

RNG = np.random.default_rng(0)
W = RNG.normal(size=(3, 3))
X = RNG.normal(size=(3,))


def layer(x: Any, w: Any) -> Any:
    return pnp.sin(pb.checkpoint_name(x @ w, "product"))


def loop(x: Any, w: Any) -> Any:
    return pb.lax.scan(lambda c, s: (layer(c, w) * s, pnp.sin(c)), x, pnp.arange(3.0) + 1.0, reverse=True)


def stacked(x: Any, w: Any) -> Any:
    return pb.lax.scan(lambda c, _: ((y := layer(c, w)), y), x, None, length=3)


def branches(x: Any, w: Any) -> Any:
    return pb.lax.cond(pnp.sum(x) > 5.0, lambda x: layer(x, w), lambda x: layer(layer(x, w), w), x)


def three_branches(x: Any, w: Any) -> Any:
    return pb.lax.switch(1, [lambda x: x, lambda x: layer(x, w), lambda x: pnp.cos(x)], x)


def nested(x: Any, w: Any) -> Any:
    def step(c: Any, s: Any) -> Any:
        inner = pb.lax.scan(lambda c, _: (layer(c, w), None), c * s, None, length=2)[0]
        return pb.lax.cond(s > 1.5, lambda c: pb.jit(layer)(c, w), lambda c: 2.0 * c, inner), inner

    return pb.lax.scan(step, x, pnp.arange(2.0) + 1.0)


def keeping(*names: str) -> Any:
    return lambda primitive, *types, **params: primitive.name in names


def counted(program: Program, found: Counter[str]) -> Counter[str]:
    for equation in program.equations:
        found[equation.primitive.name] += 1
        for inner in programs_in(equation.params):
            counted(inner, found)
    return found


def again(function: Any, policy: Any) -> Counter[str]:
    """How many operations there are in the map of tangents, those that compute something again among them."""
    push = pb.linearize(pb.checkpoint(lambda x: function(x, W), policy=policy), X)[1]
    return counted(pb.xpr(push, X), Counter())


POLICIES = {
    "nothing": None,
    "sin": keeping("sin"),
    "cos": keeping("cos"),
    "products": pb.checkpoint_policies.dots_saveable,
    "names": pb.checkpoint_policies.save_only_these_names("product"),
    "all but names": pb.checkpoint_policies.save_anything_except_these_names("product"),
    "all": pb.checkpoint_policies.everything_saveable,
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("function", [loop, stacked, branches, three_branches, nested])
def test_values_and_derivatives_are_those_of_the_function(function: Any, policy: str) -> None:
    def loss(f: Any) -> Any:
        return lambda x, w: sum(pnp.sum(leaf**2) for leaf in pb.tree.leaves(f(x, w)))

    saving = pb.checkpoint(function, policy=POLICIES[policy])
    for transform in (
        lambda f: pb.grad(f, (0, 1)),
        lambda f: pb.jit(pb.grad(f, (0, 1))),
        lambda f: lambda x, w: pb.vmap(pb.grad(f), (0, None))(pnp.stack([x, 2.0 * x]), w),
        lambda f: lambda x, w: pb.jvp(lambda x: pb.grad(f)(x, w), (x,), (X,)),
    ):
        found, expected = transform(loss(saving))(X, W), transform(loss(function))(X, W)
        for one, other in zip(pb.tree.leaves(found), pb.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("function", "policy", "operation", "count"),
    [
        (loop, "nothing", "sin", 1),
        (loop, "sin", "sin", 0),
        (loop, "cos", "cos", 0),
        (loop, "products", "dot_general", 1),
        (stacked, "sin", "sin", 0),
        (branches, "nothing", "sin", 1),
        (branches, "sin", "sin", 0),
        (branches, "cos", "cos", 0),
        (branches, "products", "dot_general", 3),
        (three_branches, "cos", "cos", 0),
        (nested, "nothing", "sin", 2),
        (nested, "sin", "sin", 0),
        (nested, "cos", "cos", 0),
        (nested, "products", "dot_general", 2),
        (nested, "names", "dot_general", 2),
        (nested, "all", "sin", 0),
    ],
)
def test_what_is_kept_inside_is_not_computed_again(function: Any, policy: str, operation: str, count: int) -> None:
    assert again(function, POLICIES[policy])[operation] == count


def test_what_is_kept_of_steps_is_stacked() -> None:
    function = pb.checkpoint(lambda x: pnp.sum(loop(x, W)[0]), policy=POLICIES["products"])
    shapes = [residual.type.shape for residual in pb.saved_residuals(function, X)]
    assert shapes == [(3, 3)]  # the products: from these the states are computed again, and not from x


def test_what_has_an_effect_happens_once() -> None:
    seen: list[float] = []

    def step(c: Any, _: Any) -> Any:
        pb.debug.callback(lambda c: seen.append(float(c)), c)
        return pnp.sin(c), None

    f = pb.checkpoint(lambda x: pb.lax.scan(step, x, None, length=3)[0], policy=keeping("cos"))
    np.testing.assert_allclose(pb.grad(f)(0.0), 1.0)
    assert seen == [0.0] * 3


LOOPS = {
    "scan": lambda x: pb.lax.scan(lambda c, s: (pnp.sin(c) * s, None), x, pnp.arange(3.0) + 1.0)[0],
    "in a scan": lambda x: pb.lax.scan(
        lambda c, _: (pb.lax.scan(lambda c, s: (pnp.sin(c) * s, None), c, pnp.arange(3.0))[0], None), x, None, length=2
    )[0],
    "fori_loop": lambda x: pb.lax.fori_loop(0, 3, lambda i, c: pnp.sin(c) * 2.0, x),
}


@pytest.mark.parametrize("name", LOOPS)
def test_what_a_loop_keeps_is_of_the_line_in_its_body_that_made_it(name: str) -> None:
    stacked = [one for one in pb.saved_residuals(LOOPS[name], X) if one.type.ndim > X.ndim]
    assert "cos" in {one.made_by for one in stacked} <= {"cos", "sin", "convert_element_type"}
    assert all("pnp.sin(c)" in one.source for one in stacked)


def chooses(x: Any) -> Any:
    """What the argmax looks at has a tangent, which leads nowhere."""
    return x[pnp.argmax(x / (x + 1.0))] * 2.0


def chooses_in_a_loop(x: Any) -> Any:
    def step(c: Any, seen: Any) -> Any:
        return c * 2.0 + seen, c[pnp.argmax(c / (seen + 1.0))]

    return pnp.sum(pb.lax.scan(step, x, pnp.ones((6, 5)))[1])


@pytest.mark.parametrize(("function", "type"), [(chooses, "i32[]"), (chooses_in_a_loop, "i32[6]")])
def test_what_only_serves_tangents_that_lead_nowhere_is_not_kept(function: Any, type: str) -> None:
    x = pb.ArrayType((5,), "float32")
    kept = pb.saved_residuals(function, x)
    assert [str(one.type) for one in kept] == [type]
    assert kept.bytes == sum([one.bytes for one in pb.memory(function, x, apply="grad", backend=False).residuals])


def test_a_result_without_a_tangent_keeps_nothing() -> None:
    def f(x: Any) -> Any:
        return pb.lax.stop_gradient(pnp.sin(x) * pnp.exp(x)), pnp.round(x * x)

    assert pb.saved_residuals(f, pb.ArrayType((5,), "float32")) == []
