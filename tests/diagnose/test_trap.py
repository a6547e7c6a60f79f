"""The cure for the trap of where names the right branch, for numbers too, whose cotangent is a literal as the zero is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import pullback as pb
import pullback.numpy as pnp


def first(x: Any) -> Any:
    return pnp.where(x > 0.0, pnp.sqrt(x), 0.0)


def second(x: Any) -> Any:
    return pnp.where(x <= 0.0, 0.0, pnp.sqrt(x))


@pytest.mark.parametrize("function, cure", [(first, "pnp.where(x > 0.0, x, 1.0)"), (second, "pnp.where(x <= 0.0, 1.0, x)")])
@pytest.mark.parametrize("x", [0.0, pnp.zeros(()), pnp.zeros(2)], ids=["number", "0-d", "vector"])
def test_the_branch_that_is_dropped(function: Callable[..., Any], cure: str, x: Any) -> None:
    finding = pb.find_nan(function, x)
    assert finding.trap.cure()[0] == f"safe = {cure}"
    safe = eval(cure, {"pnp": pnp, "x": x})
    assert pnp.isfinite(pb.grad(lambda x: pnp.sum(pnp.sqrt(x)))(safe)).all()
