"""jax.tree: jax.tree_util under short names."""

from __future__ import annotations

import dataclasses
from typing import Any

from pullback.compat.jax.facade import facade


def static(**kwargs: Any) -> Any:
    """dataclasses.field of a field that register_dataclass takes as metadata."""
    return dataclasses.field(**{**kwargs, "metadata": {"static": True, **(kwargs.get("metadata") or {})}})


_NAMES = (
    "all broadcast flatten flatten_with_path leaves leaves_with_path map map_with_path reduce reduce_associative structure"
    " transpose unflatten"
)

facade(globals(), own={"tree_util": " ".join([f"{name}=tree_{name}" for name in _NAMES.split()])})
