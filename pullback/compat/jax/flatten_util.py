"""jax.flatten_util: pullback's, of JAX's trees."""

from __future__ import annotations

from typing import Any

import pullback as pb
from pullback.compat.jax.facade import facade
from pullback.compat.jax.trees import Packed
from pullback.program.equality import Keyed


def ravel_pytree(pytree: Any) -> tuple[Any, Unravel]:
    vector, restore = pb.flatten_util.ravel_pytree(Packed(pytree))
    return vector, Unravel(restore)


class Unravel(Keyed):
    """From a vector to the tree. Those of trees of one structure with arrays of the same types are equal."""

    def __init__(self, restore: Any) -> None:
        self.key = restore

    def __call__(self, vector: Any) -> Any:
        return self.key(vector).tree


facade(globals())
