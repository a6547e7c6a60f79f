"""What the tests of the native tier share: a function run eagerly, by XLA or natively, and the benchmark's programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from workloads import WORKLOADS, Library, PythonLoops, Workload, like_jax

import pullback as pb
import pullback.numpy as pnp
from pullback.native.choice import choose, native_mode

__all__ = ["COMPILED", "LOOPED", "OURS", "WORKLOADS", "Workload", "compiled", "leaves", "looped", "refusal", "unlike"]

Function = Callable[..., Any]
COMPILED = {"xla": "off", "native": "always"}  # with what mode


def refusal(program: Any) -> str | None:
    """Why the tier cannot take a Program, whatever it would cost; None if it can."""
    with native_mode("always"):
        found = choose(program)
    return None if found.tier == "native" else found.reason


def compiled(function: Function, how: str) -> Function:
    """A function as it is ("eager"), compiled by XLA ("xla"), or by the native tier wherever that can ("native")."""
    if how == "eager":
        return function
    run = pb.jit(function)

    def call(*args: Any) -> Any:
        with native_mode(COMPILED[how]):
            return run(*args)

    return call


def unlike() -> Any:
    """A primitive whose rules for the two back ends differ: XLA negates, native code takes the absolute value."""

    @pb.primitive
    class unlike:
        elementwise = True

        def result_type(x: Any) -> Any:
            return x

        def lower(write: Any, x: Any) -> Any:
            return write.elementwise("stablehlo.negate", x)

        platforms = {"native": lambda write, x: write.elementwise("stablehlo.abs", x)}  # noqa: RUF012

    return unlike


def looped(function: Function, in_axes: Any = 0) -> Function:
    """What vmap does, in a loop."""

    def over(*args: Any) -> Any:
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
        size = next(len(x) for x, axis in zip(args, axes) if axis is not None)
        rows = [function(*[x if axis is None else x[i] for x, axis in zip(args, axes)]) for i in range(size)]
        return pb.tree.map(lambda *leaves: pnp.stack(leaves), *rows)

    return over


OURS: Library = like_jax(pb, pnp)
LOOPED = OURS._replace(lax=PythonLoops(pnp), vmap=looped, jit=lambda function: function)
"""Pullback without its loops, batches and compiled code: every operation by itself, on NumPy."""


def leaves(values: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(x) for x in pb.tree.leaves(values)]
