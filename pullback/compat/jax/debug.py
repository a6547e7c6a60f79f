"""jax.debug: pullback's, of JAX's trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pullback as pb
from pullback.compat.jax.control_flow import called
from pullback.compat.jax.facade import facade
from pullback.compat.jax.sharding import DEFAULT_SHARDING
from pullback.compat.jax.trees import Packed
from pullback.debug import Printer, check_places


def callback(callback: Callable[..., Any], *args: Any, ordered: bool = False, partitioned: bool = False, **kwargs: Any) -> None:
    if not callable(callback):
        raise TypeError(f"debug.callback takes a function first, but got {callback!r}.")
    pb.debug.callback(called(callback), Packed((args, kwargs)), ordered=ordered)


def print(
    fmt: str, *args: Any, ordered: bool = False, partitioned: bool = False, skip_format_check: bool = False, **kwargs: Any
) -> None:
    """As pb.debug.print. `skip_format_check` prints the text as it is, with braces and all, where there are no values."""
    if not isinstance(fmt, str):
        raise TypeError(f"jax.debug.print takes a format string first, but got {fmt!r}: write print('{{}}', x).")
    if not skip_format_check:
        check_places(fmt, args, kwargs)
    callback(Printer(fmt), *args, ordered=ordered, **kwargs)


def log(fmt: str, *args: Any, **kwargs: Any) -> None:
    print(fmt, *args, **kwargs)


def inspect_array_sharding(value: Any, *, callback: Callable[[Any], None]) -> None:
    callback(getattr(value, "sharding", DEFAULT_SHARDING))


def visualize_sharding(shape: Any, sharding: Any, **how: Any) -> None:
    """Prints where an array is: all of it on one device."""
    name = f" {min(sharding.device_set)} ".upper()
    line = "─" * len(name)
    pb.debug.print("{}", f"┌{line}┐\n│{name}│\n└{line}┘")


def visualize_array_sharding(arr: Any, **how: Any) -> None:
    inspect_array_sharding(arr, callback=lambda sharding: visualize_sharding(arr.shape, sharding))


facade(globals(), own={"pullback.debug": "breakpoint"})
