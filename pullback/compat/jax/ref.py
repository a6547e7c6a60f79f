"""jax.ref: mutable arrays, and functions for what indexing does."""

from __future__ import annotations

from typing import Any

import pullback as pb
from pullback.compat.jax.facade import facade


def get(ref: pb.Ref, idx: Any = None) -> pb.Array:
    return ref[... if idx is None else idx]


def set(ref: pb.Ref, idx: Any, value: Any) -> None:
    ref[... if idx is None else idx] = value


def swap(ref: pb.Ref, idx: Any, value: Any) -> pb.Array:
    before = get(ref, idx)
    set(ref, idx, value)
    return before


def addupdate(ref: pb.Ref, idx: Any, x: Any) -> None:
    set(ref, idx, get(ref, idx) + x)


facade(globals(), own={"pullback": "Ref freeze new_ref", "structs": "AbstractRef"})
