"""`apply=` of `pb.cost`, `pb.memory` and `pb.profile`: as if the function had been transformed by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp


def loss(w: Any, x: Any) -> Any:
    return pnp.sum(pnp.tanh(x @ w))


W, X = np.ones((3, 2), np.float32), np.ones((5, 4, 3), np.float32)
LOOKS: dict[str, Callable[..., Any]] = {
    "cost": lambda fun, *args, **options: pb.cost(fun, *args, backend=False, **options).total,
    "memory": lambda fun, *args, **options: pb.memory(fun, *args, backend=False, **options).values,
    "profile": lambda fun, *args, **options: str(pb.profile(fun, *args, runs=1, **options)).partition(":")[0],
}
APPLIED: dict[str, tuple[Any, Callable[..., Any], tuple[Any, ...]]] = {
    "nothing": ("", loss, (W, X[0])),
    "a gradient": ("grad", pb.grad(loss), (W, X[0])),
    "options": ("grad(argnums=1),jit", pb.jit(pb.grad(loss, argnums=1)), (W, X[0])),
    "a batch": ("vmap(in_axes=(None, 0))", pb.vmap(loss, in_axes=(None, 0)), (W, X)),
    "functions": ([pb.grad, pb.jit], pb.jit(pb.grad(loss)), (W, X[0])),
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("what", APPLIED)
def test_as_transformed_by_hand(look: str, what: str) -> None:
    apply, by_hand, args = APPLIED[what]
    found, expected = LOOKS[look](loss, *args, apply=apply), LOOKS[look](by_hand, *args)
    if look == "memory":  # equations have ids of their own
        found, expected = [[(one.made_by, one.type, one.role, one.line) for one in values] for values in (found, expected)]
    assert found == expected


@pytest.mark.parametrize("look", LOOKS)
def test_what_cannot_be_applied(look: str) -> None:
    with pytest.raises(ValueError, match=r"apply='gard': 'gard' is no transformation. Did you mean 'grad'\?"):
        LOOKS[look](loss, W, X[0], apply="gard")
