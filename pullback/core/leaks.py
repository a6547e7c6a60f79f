"""Traced values that outlive the call for which they were made: looked for at its end, where the mode says so (`checks_leaks`).

Without it such a value is an error when it is used (`EscapedTracerError`), which may be much later, or never.
"""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from types import FrameType, FunctionType, ModuleType, NoneType
from typing import Any, TypeVar

from pullback.core.context import setting
from pullback.core.errors import CheckWarning, EscapedTracerError
from pullback.core.modes import current_mode
from pullback.core.source import forget_callers, warn
from pullback.core.tracing import Trace, Tracer

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

# Classes of what may keep traced values: parts of Programs, and what holds a function for its name
_keepers: set[type] = set()
_OTHERS = (ModuleType, type, str, bytes, int, float, complex, NoneType, Trace)  # lead to no traced value of theirs

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
        if begun and begun[0]() is not None:
            forget_callers()  # frames of the user's, which hold what their variables do
            gc.collect()  # what refers to itself is still there without anybody's doing
        if begun and (trace := begun[0]()) is not None:
            story = _story(trace)
            if story is None:
                return out
            if choice is True:
                raise EscapedTracerError(f"{story} {_CURE}")
            warn(f"{story} {_CURE}", category=CheckWarning)
        return out

    return checked  # type: ignore[return-value]


def keeps_values(kind: C) -> C:
    """Have objects of a class keep traced values without that being told: those that are parts of Programs, as rules of a
    user's that close over them, or that hold a user's function for its name."""
    _keepers.add(kind)
    return kind


_CURE = "Return what is needed outside, and store nothing else."


def _story(trace: Trace) -> str | None:
    """Which values of a trace are still there, and what refers to them; None if only Programs do."""
    tracers = _tracers(trace, {id(trace)})
    holders = {id(tracer): _holders(tracer, tracers) for tracer in tracers}
    kept = _kept_by_programs()
    told = [tracer for tracer in tracers if not all([id(one) in kept for one in holders[id(tracer)]])]
    if tracers and not told:
        return None
    texts = []
    for tracer in told[:3]:
        made = tracer.where()
        kinds = sorted({type(one).__name__ for one in holders[id(tracer)]})
        by = f", kept by {' and '.join([_one(kind) for kind in kinds])}" if kinds else ""
        inside = "" if tracer.owner is trace else f" of {tracer.owner.describe()} in it"
        texts.append(f"one of type {tracer.type}{f' ({made})' if made else ''}{inside}{by}")
    more = f" and {len(told) - 3} more" if len(told) > 3 else ""
    return (
        f"Leaked trace of {trace.describe()}: it has returned, but values that stood for others in it are still there:"
        f" {'; '.join(texts) or 'some that only C code holds'}{more}."
    )


def _tracers(trace: Trace, met: set[int]) -> list[Tracer]:
    """The values of a trace that are still there; or, where that has none, those of the traces in it, which keep it."""
    found = [one for one in gc.get_referrers(trace) if isinstance(one, (Tracer, Trace)) and id(one) not in met]
    own = [one for one in found if isinstance(one, Tracer) and one.owner is trace]
    inner = [one for one in found if isinstance(one, Trace)]
    met |= {id(one) for one in inner}
    return own or [tracer for one in inner for tracer in _tracers(one, met)]


def _holders(tracer: Tracer, ours: list[Tracer]) -> list[Any]:
    """What refers to a tracer, but for what runs, and our own list."""
    return [one for one in gc.get_referrers(tracer) if one is not ours and not isinstance(one, FrameType)]


def _one(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def _kept_by_programs() -> set[int]:
    """The ids of all that those parts of Programs hold that may keep traced values, as far as functions and containers go."""
    left = [one for one in gc.get_objects() if type(one) in _keepers]
    found: set[int] = set()
    while left:
        one = left.pop()
        if id(one) in found:
            continue
        found.add(id(one))
        parts = [one.__closure__, one.__defaults__, one.__dict__] if isinstance(one, FunctionType) else gc.get_referents(one)
        left += [part for part in parts if not isinstance(part, _OTHERS)]
    return found
