"""Random programs of nested loops and branches agree with the Python that they stand for: values and gradients, eager and
compiled, one example and a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from control_tables import looped
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pullback as pb
import pullback.numpy as pnp
from pullback import lax

# A block maps a state x of three numbers to another, with three numbers a beside it.
Block = tuple[Any, ...]
STEPS = {
    "sin": lambda x, a: pnp.sin(x) * a,
    "tanh": lambda x, a: pnp.tanh(x + a) + 0.1 * x,
    "affine": lambda x, a: 0.8 * x + 0.3 * a,
    "turn": lambda x, a: x[::-1] * 0.9 + a * x,
}
steps = st.tuples(st.sampled_from(sorted(STEPS)))


def larger(inner: st.SearchStrategy[Block]) -> st.SearchStrategy[Block]:
    return st.one_of(
        st.tuples(st.just("then"), inner, inner),
        st.tuples(st.just("cond"), inner, inner),
        st.tuples(st.just("switch"), inner, inner, steps),
        st.tuples(st.just("scan"), inner, st.integers(0, 3), st.booleans()),
        st.tuples(st.just("fori"), inner, st.integers(0, 3)),
        st.tuples(st.just("while"), inner, st.integers(0, 6), st.sampled_from([None, 1, 2])),
        st.tuples(st.just("map"), inner),
    )


blocks = st.recursive(steps, larger, max_leaves=4)


def index_of(x: Any) -> Any:
    return (x[0] > 0.0).astype("int32") + (x[1] > 0.3).astype("int32")


def unfinished(x: Any) -> Any:
    return pnp.sum(x * x) < 6.0


def with_operations(block: Block, x: Any, a: Any) -> Any:
    """The block by scan, cond, while_loop and so on."""
    kind, *parts = block

    def run(part: Block) -> Any:
        return lambda x, a: with_operations(part, x, a)

    if kind in STEPS:
        return STEPS[kind](x, a)
    if kind == "then":
        return run(parts[1])(run(parts[0])(x, a), a)
    if kind == "cond":
        return lax.cond(pnp.sum(x) > 0.2, run(parts[0]), run(parts[1]), x, a)
    if kind == "switch":
        return lax.switch(index_of(x), [run(part) for part in parts], x, a)
    if kind == "scan":
        body, length, reverse = parts
        rows = pnp.stack([a * (i + 1.0) for i in range(length)]) if length else pnp.zeros((0, 3), "float64")
        new, seen = lax.scan(lambda x, row: (run(body)(x, row), x * row), x, rows, reverse=reverse)
        return new + 0.1 * pnp.sum(seen, axis=0)
    if kind == "fori":
        body, count = parts
        return lax.fori_loop(0, count, lambda i, x: run(body)(x, a) + i * a, x)
    if kind == "while":
        body, bound, checkpoint = parts
        return lax.while_loop(unfinished, lambda x: run(body)(x, a) * 1.2 + 0.2, x, max_steps=bound, checkpoint=checkpoint)
    return pnp.sum(lax.map(lambda row: run(parts[0])(row, a), pnp.stack([x, 0.5 * x])), axis=0)


def unrolled(block: Block, x: Any, a: Any) -> Any:
    """The block in Python's own loops and branches."""
    kind, *parts = block
    if kind in STEPS:
        return STEPS[kind](x, a)
    if kind == "then":
        return unrolled(parts[1], unrolled(parts[0], x, a), a)
    if kind == "cond":
        return unrolled(parts[0] if pnp.sum(x) > 0.2 else parts[1], x, a)
    if kind == "switch":
        return unrolled(parts[int(bool(x[0] > 0.0)) + int(bool(x[1] > 0.3))], x, a)
    if kind == "scan":
        body, length, reverse = parts
        total = x * 0.0
        for i in reversed(range(length)) if reverse else range(length):
            row = a * (i + 1.0)
            total = total + x * row
            x = unrolled(body, x, row)
        return x + 0.1 * total
    if kind == "fori":
        body, count = parts
        for i in range(count):
            x = unrolled(body, x, a) + i * a
        return x
    if kind == "while":
        body, bound, _ = parts
        for _ in range(bound):
            if unfinished(x):
                x = unrolled(body, x, a) * 1.2 + 0.2
        return x
    return unrolled(parts[0], x, a) + unrolled(parts[0], 0.5 * x, a)


def agree(found: Any, expected: Any) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-8, atol=1e-8)


def check(block: Block, x: np.ndarray[Any, Any], a: np.ndarray[Any, Any]) -> None:
    def loss(interpret: Any) -> Any:
        return lambda x, a: pnp.sum(pnp.sin(interpret(block, x, a)) * np.array([1.0, -2.0, 0.5]))

    ours, python = loss(with_operations), loss(unrolled)
    both, expected = pb.value_and_grad(ours, (0, 1)), pb.value_and_grad(python, (0, 1))(x, a)
    for run in (both, pb.jit(both)):
        value, gradients = run(x, a)
        agree([value, *gradients], [expected[0], *expected[1]])
    tangents = np.cos(x), np.sin(a)
    agree(pb.jvp(ours, (x, a), tangents), pb.jvp(python, (x, a), tangents))
    xs = np.stack([x, -x, 2.0 * x])
    batched = pb.vmap(pb.grad(ours, (0, 1)), (0, None))
    rows = looped(pb.grad(python, (0, 1)), (0, None))(xs, a)
    agree(batched(xs, a), rows)
    agree(pb.jit(pb.vmap(ours, (0, None)))(xs, a)[None], looped(python, (0, None))(xs, a)[None])


numbers = st.lists(st.floats(-1.5, 1.5, width=16), min_size=3, max_size=3).map(np.array)
relaxed = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=15, **relaxed)
@given(block=blocks, x=numbers, a=numbers)
def test_random_blocks(block: Block, x: Any, a: Any) -> None:
    check(block, x + 0.01234, a + 0.04321)


@pytest.mark.campaign
@settings(max_examples=500, **relaxed)
@given(block=blocks, x=numbers, a=numbers)
def test_many_random_blocks(block: Block, x: Any, a: Any) -> None:
    check(block, x + 0.01234, a + 0.04321)


@pytest.mark.parametrize(
    "block",
    [
        ("while", ("cond", ("scan", ("sin",), 2, True), ("while", ("affine",), 3, 2)), 5, 2),
        ("scan", ("while", ("switch", ("tanh",), ("fori", ("turn",), 2), ("sin",)), 4, None), 3, False),
        ("map", ("cond", ("while", ("tanh",), 6, 1), ("then", ("sin",), ("scan", ("turn",), 0, False)))),
    ],
)
def test_deeply_nested(block: Block) -> None:
    check(block, np.array([0.3, -0.7, 0.4]), np.array([0.8, 0.5, -0.6]))
