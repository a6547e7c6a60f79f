"""The parts of a fast path (`dispatch.py`) that are about arrays on the devices of a mesh."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, ShardedArray, as_array, host_of, is_deleted
from pullback.engine.spmd import SpmdExecutable
from pullback.program.program import Program

_BUFFER = "b if (b := {0}._later) is not None else host_of({0})"  # which raises


def found_on_mesh(
    program: Program,
    donations: tuple[bool, ...],
    executable: SpmdExecutable,
    leaves: Sequence[Any],
    names: Sequence[str],
    scope: dict[str, Any],
) -> list[str]:
    """Source that sees whether leaves are of the types of a Program's inputs and lie as these do, and lists their `buffers`.

    Arguments:
        donations: which leaves are donated; empty if none are.
        leaves: those of a call like the ones to come. names: what they are called in the source.
        scope: what the source refers to, to which this adds.
    """
    lines, buffers = [], []
    donated = donations or (False,) * len(leaves)
    takes = dict(zip(range(len(leaves)) if executable.kept is None else executable.kept, executable.takes, strict=True))
    for i, (name, leaf, variable) in enumerate(zip(names, leaves, program.inputs, strict=True)):
        kind = leaf.__class__
        scope |= {f"t{i}": variable.placed_type, f"k{i}": kind}
        lines.append(f"if {name}.__class__ is not k{i}: break")
        if kind is ShardedArray:
            lines.append(f"if {name}.placed_type is not t{i}: break")
            buffer = name if donated[i] else _BUFFER.format(name)
        else:
            if kind is np.ndarray:
                scope |= {f"s{i}": leaf.shape, f"d{i}": leaf.dtype}
                lines.append(f"if {name}.shape != s{i} or {name}.dtype != d{i}: break")
            elif kind is Array:
                lines.append(f"if {name}.type is not p{i}: break")
                scope[f"p{i}"] = leaf.type
            if donated[i]:
                buffer = f"as_array({name})"
            elif i in takes:
                scope[f"put{i}"] = functools.partial(executable.put, takes[i])
                buffer = f"put{i}({name})"
        if i in takes:
            buffers.append(buffer)
        elif kind in (Array, ShardedArray):
            lines.append(f"if is_deleted({name}): break")
    scope |= {"as_array": as_array, "host_of": host_of, "is_deleted": is_deleted}
    return [*lines, f"buffers = [{', '.join(buffers)}]"]


def made_on_mesh(executable: SpmdExecutable, names: Sequence[str], scope: dict[str, Any]) -> list[str]:
    """Source that makes Arrays, each with a buffer, ones that lie as an executable's results do."""
    lines = []
    for name, sharding, placed in zip(names, executable.gives, executable.placed_types, strict=True):
        scope |= {f"{name}_sharding": sharding, f"{name}_placed": placed}
        lines.append(f"{name}._later = {name}._buffer; {name}._buffer = None; {name}.lent = False")
        lines.append(
            f"{name}.sharding = {name}_sharding; {name}.placed_type = {name}_placed; {name}.computed = {executable.is_short}"
        )
    return lines


def lay_on_mesh(executable: SpmdExecutable, arrays: Sequence[Any]) -> None:
    """As `made_on_mesh`, of many."""
    for array, sharding, placed in zip(arrays, executable.gives, executable.placed_types, strict=True):
        array._later, array._buffer, array.lent = array._buffer, None, False
        array.sharding, array.placed_type, array.computed = sharding, placed, executable.is_short
