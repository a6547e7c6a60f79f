"""Random programs three ways: eagerly, by XLA and natively.

Two generators of other tests are used, by hypothesis, so that what fails shrinks: programs under stacks of gradients, batches,
loops and branches (`tests/differential/generate.py`), and loops and branches within each other
(`tests/control/test_random_control_flow.py`).

    PULLBACK_CAMPAIGN=10000 pytest -n 2 tests/native/test_native_random.py     # so many of each
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from generate import ALL_STEPS, LAYER_NAMES, ORDERS, SHAPES, Case, stacked
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st
from programs import COMPILED, compiled, leaves
from test_random_control_flow import blocks, numbers, with_operations

import pullback as pb
import pullback.numpy as pnp

CAMPAIGN = int(os.environ.get("PULLBACK_CAMPAIGN", "0"))
RELAXED: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}
TOLERANCE = {"float32": 2e-3, "float64": 1e-8}  # up to three derivatives, of which small differences are taken


def same(function: Any, args: list[Any]) -> None:
    """All ways lead to one result, or raise one exception."""
    found: dict[str, Any] = {}
    for how in ("eager", *COMPILED):
        try:
            found[how] = leaves(compiled(function, how)(*args))
        except (pb.errors.PullbackError, TypeError, ValueError) as error:
            found[how] = type(error)
    if not isinstance(found["eager"], type):
        note(str(pb.xpr(function, *args)))
    for how in COMPILED:
        agree(found[how], found["eager"], how)


def agree(found: Any, expected: Any, how: str) -> None:
    if isinstance(found, type) or isinstance(expected, type):
        assert found == expected, f"{how}: {found} in place of {expected}"
        return
    for a, b in zip(found, expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        tolerance = TOLERANCE.get(b.dtype.name, 0.0)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=how)


small = st.integers(0, 5)
steps = st.tuples(st.sampled_from(ALL_STEPS), st.tuples(small, small, small), st.integers(0, 8), st.integers(0, 8))
elements = st.one_of(st.integers(-2, 2), st.floats(-1.5, 1.5, width=16))
layers = st.lists(st.tuples(st.sampled_from(LAYER_NAMES), st.integers(0, 3)), max_size=3)


@st.composite
def cases(draw: Any) -> Case:
    shape, dtype = draw(st.sampled_from(SHAPES)), draw(st.sampled_from(["float64"] * 4 + ["float32"]))
    size = int(np.prod(shape))
    x = np.reshape(draw(st.lists(elements, min_size=size, max_size=size)), shape) + 0.0123  # away from most ties
    stack = draw(layers)
    order = sum(ORDERS.get(name, 0) for name, _ in stack)
    assume(order <= 2)
    return Case(0, draw(st.lists(steps, min_size=1, max_size=6 - order)), stack, np.asarray(x, dtype))


@settings(max_examples=CAMPAIGN or 120, **RELAXED)
@given(case=cases())
def test_random_stacks(case: Case) -> None:
    with pb.default_bits(64):
        same(stacked(pb, case), [pnp.asarray(case.x)])


def both(block: Any) -> Any:
    """The value of a block with its gradients."""
    weights = np.array([1.0, -2.0, 0.5])
    return pb.value_and_grad(lambda x, a: pnp.sum(pnp.sin(with_operations(block, x, a)) * weights), (0, 1))


@settings(max_examples=CAMPAIGN or 60, **RELAXED)
@given(block=blocks, x=numbers, a=numbers)
def test_random_loops_and_branches(block: Any, x: Any, a: Any) -> None:
    x, a = x + 0.01234, a + 0.04321
    same(both(block), [x, a])
    same(pb.vmap(both(block), (0, None)), [np.stack([x, -x, 2.0 * x, 0.1 * x, x + 1.0]), a])
