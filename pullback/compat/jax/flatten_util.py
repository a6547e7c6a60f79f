"""jax.flatten_util: pullback's, of JAX's trees."""

from __future__ import annotations

from typing import Any

import pullback as pb
from pullback.compat.jax.facade import facade
from pullback.compat.jax.trees import flatten
from pullback.program.equality import Keyed


def ravel_pytree(pytree: Any) -> tuple[Any, Unravel]:
    leaves, structure = flatten(pytree, None)
    vector, restore = pb.flatten_util.ravel_pytree(leaves)
    return vector, Unravel(structure, restore)


class Unravel(Keyed):
    """From a vector to the tree. Those of trees of one structure with arrays of the same types are equal."""

    def __init__(self, structure: Any, restore: Any) -> None:
        self.key = structure, restore

    def __call__(self, vector: Any) -> Any:
        structure, restore = self.key
        return structure.unflatten(restore(vector))


facade(globals())
