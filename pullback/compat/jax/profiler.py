"""jax.profiler: names of parts of a program, which are taken, and profiles, which pullback does not write."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from pullback.compat.jax.facade import facade


class TraceAnnotation(contextlib.ContextDecorator, contextlib.nullcontext[Any]):
    """Names a part of a program for a profile."""

    def __init__(self, name: str, **metadata: Any) -> None:
        super().__init__(self)
        self.name = name


class StepTraceAnnotation(TraceAnnotation):
    """Names a step of a program for a profile."""


def annotate_function(func: Callable[..., Any] | None = None, name: str | None = None, **metadata: Any) -> Any:
    return functools.partial(annotate_function, name=name) if func is None else func


def start_trace(log_dir: Any, *options: Any, **more: Any) -> None:
    _warn(3)


def _warn(level: int) -> None:
    text = "pullback writes no profiles: jax.profiler.start_trace and trace do nothing. Use a profiler of Python's."
    warnings.warn(text, stacklevel=level)


def stop_trace() -> None:
    return None


@contextlib.contextmanager
def trace(log_dir: Any, *options: Any, **more: Any) -> Iterator[None]:
    _warn(4)
    yield


facade(globals())
