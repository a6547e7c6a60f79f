"""jax.flatten_util: pullback's, of JAX's trees."""

from __future__ import annotations

from typing import Any

import pullback as pb
from pullback.compat.jax.facade import facade
from pullback.compat.jax.trees import Packed


def ravel_pytree(pytree: Any) -> tuple[Any, Unravel]:
    vector, restore = pb.flatten_util.ravel_pytree(Packed(pytree))
    return vector, Unravel(restore)


class Unravel:
    """From a vector to the tree. Those of trees of one structure with arrays of the same types are equal."""

    def __init__(self, restore: Any) -> None:
        self._restore = restore

    def __call__(self, vector: Any) -> Any:
        return self._restore(vector).tree

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unravel) and self._restore == other._restore

    def __hash__(self) -> int:
        return hash(self._restore)


facade(globals())
