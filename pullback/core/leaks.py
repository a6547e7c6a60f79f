"""Traced values that outlive the call for which they were made: looked for at its end, where the mode says so (`checks_leaks`).

Without it such a value is an error when it is used (`EscapedTracerError`), which may be much later, or never.
"""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from types import FrameType
from typing import Any, TypeVar

from pullback.core.context import setting
from pullback.core.errors import CheckWarning, EscapedTracerError
from pullback.core.modes import current_mode
from pullback.core.source import forget_callers, warn
from pullback.core.tracing import Trace, Tracer

F = TypeVar("F", bound=Callable[..., Any])

_begun: ContextVar[list[weakref.ref[Trace]] | None] = ContextVar("pullback_trace_begun", default=None)


def note(trace: Trace) -> None:
    """Have a trace looked for at the end of the call that began it. Those that rules begin meanwhile are theirs to keep."""
    if current_mode().checks_leaks and (begun := _begun.get()) == []:
        begun.append(weakref.ref(trace))


def leak_checked(function: F) -> F:
    """A function that begins a trace as one that raises `EscapedTracerError` if a value of that outlives it, or warns."""

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        choice = current_mode().checks_leaks
        if not choice:
            return function(*args, **kwargs)
        begun: list[weakref.ref[Trace]] = []
        with setting(_begun, begun):
            out = function(*args, **kwargs)
        forget_callers()  # frames of the user's, which hold what their variables do
        gc.collect()  # what refers to itself is still there without anybody's doing
        if begun and (trace := begun[0]()) is not None:
            story = _story(trace)
            if choice is True:
                raise EscapedTracerError(story)
            warn(story, category=CheckWarning)
        return out

    return checked  # type: ignore[return-value]


def _story(trace: Trace) -> str:
    """Which values of a trace are still there, and what refers to them."""
    tracers = [one for one in gc.get_referrers(trace) if isinstance(one, Tracer) and one.owner is trace]
    told = []
    for tracer in tracers[:3]:
        made = tracer.where()
        holders = [one for one in gc.get_referrers(tracer) if one is not tracers and not isinstance(one, FrameType)]
        kinds = sorted({type(one).__name__ for one in holders})
        kept = f", kept by a {' and a '.join(kinds)}" if kinds else ""
        told.append(f"one of type {tracer.type}{f' ({made})' if made else ''}{kept}")
    more = f" and {len(tracers) - 3} more" if len(tracers) > 3 else ""
    return (
        f"Leaked trace of {trace.describe()}: it has returned, but values that stood for others in it are still there:"
        f" {'; '.join(told) or 'some that only C code holds'}{more}. Return what is needed outside, and store nothing else."
    )
