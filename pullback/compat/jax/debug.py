"""jax.debug: pullback's, of JAX's trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pullback as pb
from pullback.compat.jax.control_flow import called
from pullback.compat.jax.facade import facade
from pullback.core.devices import DEFAULT_DEVICE
from pullback.core.shardings import SingleDeviceSharding
from pullback.core.tracing import Tracer
from pullback.debug import Printer, check_places


def callback(
    callback: Callable[..., Any] | None = None, *args: Any, ordered: bool = False, partitioned: bool = False, **kwargs: Any
) -> Any:
    """As pb.debug.callback. With options alone, a function of the rest."""
    if callback is None:
        _alone("callback", args, kwargs)
        return lambda callback, *args, **kwargs: _call(callback, args, kwargs, ordered)
    return _call(callback, args, kwargs, ordered)


def _call(callback: Callable[..., Any], args: Any, kwargs: Any, ordered: bool) -> None:
    if not callable(callback):
        raise TypeError(f"debug.callback takes first what is callable, a function, but got {callback!r}.")
    pb.debug.callback(called(callback), *args, ordered=ordered, **kwargs)


def _alone(name: str, args: Any, kwargs: Any) -> None:
    if args or kwargs:
        raise TypeError(
            f"debug.{name} was given options and values: debug.{name}(ordered=True) takes the values in a second call."
        )


def print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Any:
    """As pb.debug.print. `skip_format_check` prints the text as it is, with braces and all, where there are no values. With
    options alone, a function of the rest."""
    if fmt is None:
        _alone("print", args, kwargs)
        return lambda fmt, *args, **kwargs: _print(fmt, args, kwargs, ordered, skip_format_check)
    return _print(fmt, args, kwargs, ordered, skip_format_check)


def _print(fmt: str, args: Any, kwargs: Any, ordered: bool, skip_format_check: bool) -> None:
    if not isinstance(fmt, str):
        raise TypeError(f"jax.debug.print takes a format string first, but got {fmt!r}: write print('{{}}', x).")
    if not skip_format_check:
        check_places(fmt, args, kwargs)
    _call(Printer(fmt), args, kwargs, ordered)


def log(fmt: str, *args: Any, **kwargs: Any) -> None:
    print(fmt, *args, **kwargs)


def breakpoint(
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: Any = None,
    **kwargs: Any,
) -> Any:
    """As pb.debug.breakpoint, in the caller's frame, and in the order of the program. Returns the token."""
    if backend not in (None, "cli"):
        raise NotImplementedError(f"debug.breakpoint's backend is None or 'cli', Python's debugger, but got {backend!r}.")
    pb.debug.breakpoint(**kwargs)
    return token


def inspect_array_sharding(value: Any, *, callback: Callable[[Any], None]) -> None:
    """Raises NotImplementedError for a traced value: how that lies on several devices is decided once it is compiled."""
    if isinstance(value, Tracer) and len(pb.devices()) > 1:
        raise NotImplementedError(
            f"How a traced value of type {value.type} lies on devices is decided when all is compiled: return it, and look at"
            " the result's .sharding."
        )
    callback(getattr(value, "sharding", None) or SingleDeviceSharding(DEFAULT_DEVICE))


def visualize_sharding(shape: Any, sharding: Any, **how: Any) -> None:
    """Prints which devices have which parts of an array of one or two axes."""
    if not 1 <= len(shape) <= 2:
        raise ValueError(f"visualize_sharding shows arrays of one or two axes, but got the shape {tuple(shape)}.")
    parts = sharding.parts(len(shape))
    rows, columns = (1, *parts)[-2:]
    owners: dict[Any, list[str]] = {}
    for device, place in zip(sharding.devices, sharding.places(parts)):
        owners.setdefault((0, *[one.start for one in place])[-2:], []).append(str(device.id))
    platform = sharding.devices[0].platform.upper()
    names = [[f" {platform} {','.join(owners[i, j])} " for j in range(columns)] for i in range(rows)]
    width = max([len(name) for row in names for name in row])
    lines = [start + mid.join(["─" * width] * columns) + end for start, mid, end in ("┌┬┐", "├┼┤", "└┴┘")]
    boxes = f"\n{lines[1]}\n".join([f"│{'│'.join([name.center(width) for name in row])}│" for row in names])
    pb.debug.print("{}", f"{lines[0]}\n{boxes}\n{lines[2]}")


def visualize_array_sharding(arr: Any, **how: Any) -> None:
    inspect_array_sharding(arr, callback=lambda sharding: visualize_sharding(arr.shape, sharding))


facade(globals())
