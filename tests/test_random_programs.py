"""Random programs under random stacks of transformations, eager and compiled.

A program is a few random steps over a pool of values, 0-d to 2-d, in float64; a stack is up to four transformations, each of
which keeps the signature f32[n] -> scalar or array that the next one needs. The truth is the same stack built from what none of
our derivative or batching code touches: finite differences of the plain function, and Python loops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pullback as pb
import pullback.numpy as pnp

LENGTH = 3
Vector = Any

# ---- random programs: a list of instructions over a growing pool of values --------------------------------------------

UNARY: dict[str, Callable[[Any, Any], Any]] = {
    "sin": lambda m, x: m.sin(x),
    "cos": lambda m, x: m.cos(x),
    "tanh": lambda m, x: m.tanh(x),
    "exp of tanh": lambda m, x: m.exp(m.tanh(x)),
    "log of 2 + square": lambda m, x: m.log(2.0 + x * x),
    "sqrt of 1 + square": lambda m, x: m.sqrt(1.0 + x * x),
    "negate": lambda m, x: -x,
    "scale": lambda m, x: 0.7 * x,
    "reciprocal of 2 + square": lambda m, x: 1.0 / (2.0 + x * x),
    "cube": lambda m, x: x**3 * 0.1,
    "sum all": lambda m, x: m.sum(x),
    "mean of last axis": lambda m, x: m.mean(x, axis=-1) if x.ndim else x,
    "reverse": lambda m, x: x[::-1] if x.ndim else x,
    "first": lambda m, x: x[0] if x.ndim else x,
    "outer": lambda m, x: x[:, None] * m.sin(x)[None, :] if x.ndim == 1 else x,
    "transpose": lambda m, x: x.T,
    "pad front": lambda m, x: m.concatenate([x[:1] * 2.0, x[:-1]]) if x.ndim else x,
    "where": lambda m, x: m.where(x > 0.3, x * x, m.sin(x)),
    "clip": lambda m, x: m.minimum(m.maximum(x, -5.0), 5.0),
    "reshape": lambda m, x: m.reshape(x, (-1,))[:LENGTH] if x.ndim == 2 else x,
}
BINARY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda m, x, y: x + y,
    "sub": lambda m, x, y: x - y,
    "mul": lambda m, x, y: x * m.tanh(y),
    "div": lambda m, x, y: x / (2.0 + y * y),
    "matmul": lambda m, x, y: x @ m.tanh(y) if x.ndim and y.ndim else x * y * 0.5,
    "maximum": lambda m, x, y: m.maximum(x, y + 0.01),
}

Instruction = tuple[str, int, int]
instructions = st.lists(
    st.tuples(st.sampled_from([*UNARY, *BINARY]), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6
)


def program(steps: list[Instruction], m: Any) -> Callable[[Vector], Any]:
    """The function R^LENGTH -> R that the instructions are, over the NumPy namespace `m`."""

    def function(x: Vector) -> Any:
        pool = [x, x[0] * 0.5, m.sin(x) * 0.9]
        for name, i, j in steps:
            left, right = pool[i % len(pool)], pool[j % len(pool)]
            pool.append(UNARY[name](m, left) if name in UNARY else BINARY[name](m, left, right))
        return sum((m.sum(m.tanh(value)) for value in pool[1:]), m.sum(pool[0]))

    return function


# ---- stacks: each layer takes f: R^n -> R and gives another such function, ours and the truth ---------------------------

H = 1e-4
DIRECTION = np.linspace(1.0, -0.5, LENGTH)


def difference(f: Callable[[Vector], Any], x: Vector, direction: Vector) -> Any:
    """The directional derivative by central differences of fourth order: error of order H^4."""
    near = f(x + H * direction) - f(x - H * direction)
    far = f(x + 2 * H * direction) - f(x - 2 * H * direction)
    return (8 * near - far) / (12 * H)


def numeric_gradient(f: Callable[[Vector], Any], x: Vector) -> Vector:
    return np.array([difference(f, x, unit) for unit in np.eye(LENGTH)])


def ones_like_output() -> Any:
    return pnp.asarray(np.float64(1.0))


OURS: dict[str, Callable[[Callable[[Vector], Any]], Callable[[Vector], Any]]] = {
    "grad": lambda f: lambda x: pnp.sum(pb.grad(f)(x) * DIRECTION),
    "vjp": lambda f: lambda x: pnp.sum(pb.vjp(f, x)[1](ones_like_output())[0] * DIRECTION),
    "jvp": lambda f: lambda x: pb.jvp(f, (x,), (pnp.asarray(DIRECTION),))[1],
    "linearize": lambda f: lambda x: pb.linearize(f, x)[1](pnp.asarray(DIRECTION)),
    "jacfwd": lambda f: lambda x: pnp.sum(pb.jacfwd(f)(x) * DIRECTION),
    "vmap": lambda f: lambda x: pnp.sum(pb.vmap(f)(pnp.stack([x, x * 0.5, -x]))),
    "vmap of last axis": lambda f: lambda x: pnp.sum(pb.vmap(f, in_axes=-1)(pnp.stack([x, x * 0.5], axis=1))),
    "vmap of a scale": lambda f: (
        lambda x: pnp.sum(pb.vmap(lambda s, y: f(s * y), in_axes=(0, None))(pnp.asarray([1.0, 0.3]), x))
    ),
    "jit": lambda f: pb.jit(f),
}
DERIVATIVES = ("grad", "vjp", "jvp", "linearize", "jacfwd")
TRUTH: dict[str, Callable[[Callable[[Vector], Any]], Callable[[Vector], Any]]] = {
    **{name: lambda f: lambda x: difference(f, x, DIRECTION) for name in DERIVATIVES},
    "vmap": lambda f: lambda x: f(x) + f(x * 0.5) + f(-x),
    "vmap of last axis": lambda f: lambda x: f(x) + f(x * 0.5),
    "vmap of a scale": lambda f: lambda x: f(x) + f(0.3 * x),
    "jit": lambda f: f,
}
stacks = st.lists(st.sampled_from(list(OURS)), min_size=1, max_size=4)
points = st.lists(st.floats(-1.5, 1.5, allow_nan=False), min_size=LENGTH, max_size=LENGTH).map(
    lambda values: np.round(np.array(values), 3) + np.array([0.011, 0.023, 0.037])  # away from kinks, which have no derivative
)


def apply(stack: list[str], table: dict[str, Any], f: Callable[[Vector], Any]) -> Callable[[Vector], Any]:
    for name in stack:
        f = table[name](f)
    return f


def numerically(stack: list[str], f: Callable[[Vector], Any], x: Vector) -> float:
    """The truth by finite differences; of high derivatives the innermost are taken by complex-free nested differences."""
    return float(apply(stack, TRUTH, f)(x))


TOLERANCE = {0: 1e-9, 1: 1e-6}


def near_a_kink(steps: list[Instruction]) -> bool:
    """Whether a program has kinks: derivatives by differences are then meaningless close to them."""
    return any(name in ("where", "maximum", "clip") for name, _, _ in steps)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(instructions, stacks, points)
def test_random_stack(steps: list[Instruction], stack: list[str], x: Vector) -> None:
    check(steps, stack, x)


@pytest.mark.campaign
@settings(max_examples=5000, deadline=None, suppress_health_check=list(HealthCheck))
@given(instructions, stacks, points)
def test_random_stack_campaign(steps: list[Instruction], stack: list[str], x: Vector) -> None:
    check(steps, stack, x)


def check(steps: list[Instruction], stack: list[str], x: Vector) -> None:
    order = sum(name in DERIVATIVES for name in stack)
    with pb.default_bits(64):
        ours = apply(stack, OURS, program(steps, pnp))
        eager = np.asarray(ours(pnp.asarray(x)))
        compiled = np.asarray(pb.jit(ours)(pnp.asarray(x)))
        staged = np.asarray(pb.xpr(ours, pnp.asarray(x))(pnp.asarray(x)))
    scale = 1.0 + abs(float(eager))
    assert eager.dtype == np.float64 and eager.shape == ()
    assert abs(float(compiled) - float(eager)) <= 1e-9 * scale, "compiled and eager disagree"
    assert abs(float(staged) - float(eager)) <= 1e-9 * scale, "the Program and eager disagree"
    if near_a_kink(steps) and order:
        return
    if order <= 1:
        truth = numerically(stack, program(steps, np), x)
        assert abs(float(eager) - truth) <= TOLERANCE[order] * (scale + abs(truth)), "the loop or the differences disagree"
    else:
        # one finite difference of the stack without its outermost derivative, which has been checked by itself
        outermost = max(i for i, name in enumerate(stack) if name in DERIVATIVES)
        with pb.default_bits(64):
            inner = apply(stack[:outermost], OURS, program(steps, pnp))

            def plain(y: Vector) -> float:
                return float(inner(pnp.asarray(y)))

            truth = float(apply(stack[outermost:], TRUTH, plain)(x))
        assert abs(float(eager) - truth) <= 1e-5 * (scale + abs(truth)), "finite differences of the stack disagree"
