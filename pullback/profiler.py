"""pb.profiler: what a program did when, on each thread and device, in files for Perfetto and XProf; and what memory holds."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar

from pullback.api.devices import devices
from pullback.api.functions import check_callable
from pullback.core.brief import brief
from pullback.core.lazy import lazy_module
from pullback.core.source import api_boundary, api_class, make_public, name_of
from pullback.engine.backend import Backend, backend
from pullback.engine.jaxlib import profiler, running_profiler
from pullback.engine.place import current_default_device

gzip = lazy_module("gzip")
json = lazy_module("json")

__all__ = [
    "StepTraceAnnotation", "TraceAnnotation", "annotate_function", "device_memory_profile", "save_device_memory_profile",
    "start_trace", "stop_trace", "trace",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

PERFETTO = "perfetto_trace.json.gz"


def _started(platform: str | None) -> Backend:
    """The back end of a platform, by default that of the default device."""
    name = current_default_device().platform if platform is None else platform
    devices(name)  # makes those of plugins known
    return backend(name)


class _Trace:
    """The trace that is running in this process; there is one at a time."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.session: Any = None
        self.folder = Path()
        self.number = 0


_trace = _Trace()


@api_boundary
def start_trace(log_dir: str | os.PathLike[str], *, python_frames: bool = True, host_level: int = 2) -> None:
    """Begin to record what this process does: compiled programs and their operations, transfers, annotations, Python's calls.

    Arguments:
        log_dir: the directory for `stop_trace` to write to; made if it does not exist.
        python_frames: whether to record each call of a Python function, too, which slows them down.
        host_level: how much of what happens on the host is recorded: 1 (annotations), 2 or 3; 0 for nothing.

    Raises:
        RuntimeError: a trace is running already.

    Example:
        >>> import tempfile
        >>> import pullback as pb
        >>> with tempfile.TemporaryDirectory() as log_dir:
        ...     pb.profiler.start_trace(log_dir)
        ...     y = pb.jit(lambda x: x + 1.0)(1.0)
        ...     folder = pb.profiler.stop_trace()
    """
    directory = Path(os.fspath(log_dir))
    if isinstance(host_level, bool) or host_level not in (0, 1, 2, 3):
        raise ValueError(f"start_trace takes a host_level of 0, 1, 2 or 3, not {brief(host_level)}.")
    if not isinstance(python_frames, bool):
        raise TypeError(f"start_trace takes python_frames as True or False, not {brief(python_frames)}.")
    with _trace.lock:
        if _trace.session is not None:
            raise RuntimeError("A trace is running already: end it with pb.profiler.stop_trace() first.")
        directory.mkdir(parents=True, exist_ok=True)
        _started(None)  # a platform adds its own recorder when it starts
        options = profiler().ProfileOptions()
        options.python_tracer_level, options.host_tracer_level = int(python_frames), host_level
        options.raise_error_on_start_failure = True
        _trace.number += 1
        options.session_id = f"{time.strftime('%Y_%m_%d_%H_%M_%S')}_{os.getpid()}_{_trace.number}"
        _trace.folder = directory / "plugins" / "profile" / options.session_id
        _trace.session = profiler().ProfilerSession(options)


@api_boundary
def stop_trace() -> str:
    """End the trace, and write it.

    Returns:
        The folder that was made for it, `log_dir/plugins/profile/...`, where XProf and TensorBoard look for it. In it are
        `*.xplane.pb`, for XProf, and `perfetto_trace.json.gz`, for Perfetto (ui.perfetto.dev).

    Raises:
        RuntimeError: no trace is running.

    Example:
        >>> import os, tempfile
        >>> import pullback as pb
        >>> with tempfile.TemporaryDirectory() as log_dir:
        ...     pb.profiler.start_trace(log_dir, python_frames=False)
        ...     "perfetto_trace.json.gz" in os.listdir(pb.profiler.stop_trace())
        True
    """
    with _trace.lock:
        session, _trace.session = _trace.session, None
        if session is None:
            raise RuntimeError("No trace is running: begin one with pb.profiler.start_trace(log_dir).")
        folder = _trace.folder
        session.stop_and_export(str(folder.parents[2]))
    for found in folder.glob("*.trace.json.gz"):  # one, named after the machine
        with gzip.open(found, "rt", encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        with gzip.open(folder / PERFETTO, "wt", encoding="utf-8") as file:
            json.dump({"displayTimeUnit": "ns", "traceEvents": [event for event in events if event]}, file)
    return str(folder)


@contextlib.contextmanager
def trace(log_dir: str | os.PathLike[str], *, python_frames: bool = True, host_level: int = 2) -> Iterator[None]:
    """Record what happens in the `with` block: `start_trace`, and at its end, also if it is left by an exception, `stop_trace`.

    Calls return before long programs have been computed: take their results in the block, with `pb.block_until_ready`.

    Arguments:
        log_dir, python_frames, host_level: as for `start_trace`.

    Returns:
        A context manager.

    Raises:
        RuntimeError: a trace is running already.

    Example:
        >>> import tempfile
        >>> import pullback as pb
        >>> with tempfile.TemporaryDirectory() as log_dir, pb.profiler.trace(log_dir):
        ...     with pb.profiler.TraceAnnotation("addition"):
        ...         y = pb.block_until_ready(pb.jit(lambda x: x + 1.0)(1.0))
    """
    start_trace(log_dir, python_frames=python_frames, host_level=host_level)
    try:
        yield
    finally:
        stop_trace()


@api_class
class TraceAnnotation(contextlib.ContextDecorator):
    """Names what happens in a `with` block, or in a function that it decorates, in the traces that are running.

    Arguments:
        name: the name. metadata: what else to say of it, shown with it: numbers and strings.

    Example:
        >>> import pullback as pb
        >>> with pb.profiler.TraceAnnotation("load", batch=3):
        ...     y = pb.numpy.ones(3)
    """

    def __init__(self, name: str, **metadata: Any) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{type(self).__name__} takes a name, but got {brief(name)}.")
        self.name, self.metadata = name, metadata
        self._open: Any = None

    def _recreate_cm(self) -> Self:  # a function that it decorates may be running several times at once
        return type(self)(self.name, **self.metadata)

    def __enter__(self) -> Self:
        if (found := running_profiler()) is not None:
            self._open = found.TraceMe(self.name, **self.metadata)
            self._open.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            opened.__exit__(*error)


@api_class
class StepTraceAnnotation(TraceAnnotation):
    """Names a step of a training loop, so that XProf shows its time step by step.

    Arguments:
        name: the name of all steps. metadata: `step_num=i`, the number of this one, and what else to say of it.

    Example:
        >>> import pullback as pb
        >>> for i in range(2):
        ...     with pb.profiler.StepTraceAnnotation("train", step_num=i):
        ...         y = pb.numpy.ones(3)
    """

    def __init__(self, name: str, **metadata: Any) -> None:
        super().__init__(name, **{"_r": 1, **metadata})


def annotate_function(fun: F | None = None, name: str | None = None, **metadata: Any) -> Any:
    """A decorator that names each call of a function in the traces that are running.

    Arguments:
        fun: the function; left out, `annotate_function(...)` is a decorator.
        name: the name; by default the function's. metadata: as for `TraceAnnotation`.

    Returns:
        The function, decorated.

    Raises:
        TypeError: `fun` cannot be called.

    Example:
        >>> import pullback as pb
        >>> @pb.profiler.annotate_function
        ... def load():
        ...     return pb.numpy.ones(2)
        >>> load()
        [1. 1.]:f32[2]:cpu(0)
    """
    if fun is None:
        return functools.partial(annotate_function, name=name, **metadata)
    check_callable(fun, "annotate_function")
    return TraceAnnotation(name_of(fun) if name is None else name, **metadata)(fun)


@api_boundary
def device_memory_profile(platform: str | None = None) -> bytes:
    """What the memory of a platform's devices holds: which arrays and executables, of how many bytes.

    Arguments:
        platform: the platform's name; by default that of the default device.

    Returns:
        A profile as `pprof` reads it (github.com/google/pprof).

    Raises:
        DeviceError: there is no such platform.

    Example:
        >>> import pullback as pb
        >>> x = pb.jit(lambda x: x + 1.0)(pb.numpy.ones(1000))
        >>> len(pb.profiler.device_memory_profile()) > 0
        True
    """
    return _started(platform).memory_profile()


@api_boundary
def save_device_memory_profile(filename: str | os.PathLike[str], platform: str | None = None) -> None:
    """Write `device_memory_profile` to a file, for `pprof --web FILE`.

    Arguments:
        filename: the file, which is replaced. platform: as for `device_memory_profile`.

    Raises:
        DeviceError: there is no such platform.

    Example:
        >>> import os, tempfile
        >>> import pullback as pb
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     pb.profiler.save_device_memory_profile(os.path.join(directory, "memory.prof"))
    """
    Path(os.fspath(filename)).write_bytes(device_memory_profile(platform))


make_public(globals())
