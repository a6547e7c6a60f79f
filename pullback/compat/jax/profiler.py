"""jax.profiler: traces and profiles of memory, by pullback's."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from pullback import profiler
from pullback.compat.jax.facade import facade


def start_trace(
    log_dir: str | os.PathLike[str],
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: Any = None,
) -> None:
    """Begin a trace, which `stop_trace` writes for XProf and Perfetto."""
    if create_perfetto_link or profiler_options is not None:
        raise NotImplementedError(
            "start_trace serves no links and takes no ProfileOptions: open perfetto_trace.json.gz, which is in log_dir, at"
            " ui.perfetto.dev; pullback.profiler.start_trace has options of its own."
        )
    profiler.start_trace(log_dir)


def stop_trace() -> None:
    """End the trace, and write it."""
    profiler.stop_trace()


@contextlib.contextmanager
def trace(log_dir: str | os.PathLike[str], *options: Any, **more: Any) -> Iterator[None]:
    """Record what happens in the `with` block."""
    start_trace(log_dir, *options, **more)
    try:
        yield
    finally:
        stop_trace()


def device_memory_profile(backend: str | None = None) -> bytes:
    """What the memory of a platform's devices holds, as pprof reads it."""
    return profiler.device_memory_profile(backend)


def save_device_memory_profile(filename: str | os.PathLike[str], backend: str | None = None) -> None:
    """Write `device_memory_profile` to a file."""
    profiler.save_device_memory_profile(filename, backend)


facade(globals(), "pullback.profiler")
