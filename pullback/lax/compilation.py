"""What is said to the compiler: what it may not move, and what is computed on which platform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pullback.api.devices import devices
from pullback.core.trees import array_leaves, unflatten
from pullback.numpy.promotion import at_user_line
from pullback.ops import barrier

T = TypeVar("T")


def optimization_barrier(operand: T, /) -> T:
    """A tree of arrays, as it is: in compiled code, all of them have been computed before any is used further on.

    XLA for the CPU takes barriers out before it optimizes. The derivative has a barrier of its own.

    Arguments:
        operand: a tree of arrays and numbers.

    Returns:
        The same tree.

    Raises:
        LeafError: a leaf is neither an array nor a number.

    Example:
        >>> pb.jit(lambda x: lax.optimization_barrier((x, 2.0 * x)))(3.0)
        (3.0:f32[]:cpu(0), 6.0:f32[]:cpu(0))
    """
    leaves, structure = array_leaves(operand, lambda: "optimization_barrier's argument")
    return unflatten(structure, barrier.optimization_barrier(*leaves) if leaves else [])


def platform_dependent(*args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]) -> Any:
    """A function of its own for a platform, chosen when the code around it is traced, by the default device.

    Arguments:
        args: what the functions take.
        default: the function for all other platforms.
        per_platform: functions by the names of platforms: `cpu=...`, `cuda=...`.

    Returns:
        What the function returns.

    Raises:
        NotImplementedError: there is none for the platform.

    Example:
        >>> lax.platform_dependent(3.0, cpu=lambda x: x + 1.0, default=lambda x: x)
        4.0
    """
    platform = devices()[0].platform
    chosen = per_platform.get(platform, default)
    if chosen is None:
        raise NotImplementedError(
            f"platform_dependent has no function for platform {platform!r}: give {platform}=, or default=.{at_user_line()}"
        )
    return chosen(*args)
