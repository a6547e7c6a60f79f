"""jax.ref: mutable arrays, and functions for what indexing does."""

from __future__ import annotations

from typing import Any

import pullback as pb
from pullback.compat.jax.facade import facade


def new_ref(init_val: Any, *, memory_space: None = None, kind: None = None) -> pb.Ref:
    if memory_space is not None or kind is not None:
        raise NotImplementedError(
            f"new_ref makes a Ref in the one memory that there is: memory_space and kind must be None, but are {memory_space!r}"
            f" and {kind!r}."
        )
    return pb.new_ref(init_val)


def empty_ref(ty: Any, memory_space: None = None) -> pb.Ref:
    """A Ref of the shape and dtype that a struct has, with zeros."""
    return new_ref(pb.numpy.zeros(ty.shape, ty.dtype), memory_space=memory_space)


def free_ref(ref: pb.Ref) -> None:
    """The end of a Ref."""
    ref.freeze()


def get(ref: pb.Ref, idx: Any = None) -> pb.Array:
    return ref[... if idx is None else idx]


def set(ref: pb.Ref, idx: Any, value: Any) -> None:
    ref[... if idx is None else idx] = value


def swap(ref: pb.Ref, idx: Any, value: Any) -> pb.Array:
    before = get(ref, idx)
    set(ref, idx, value)
    return before


def addupdate(ref: pb.Ref, idx: Any, x: Any) -> None:
    ref.addupdate(x, ... if idx is None else idx)


facade(globals(), own={"pullback": "Ref freeze", "structs": "AbstractRef"})
