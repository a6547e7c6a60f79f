"""jax.monitoring: what a program records reaches the listeners that it registers. pullback records nothing by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.compat.jax.facade import facade

_listeners: dict[str, list[Callable[..., Any]]] = {"event": [], "duration": [], "span": [], "scalar": []}


def _recorder(kind: str) -> Callable[..., None]:
    def record(event: str, *values: Any, **metadata: Any) -> None:
        for listener in list(_listeners[kind]):
            listener(event, *values, **metadata)

    return record


def _registrar(kind: str) -> Callable[..., None]:
    def register(callback: Callable[..., Any]) -> None:
        _listeners[kind].append(callback)

    return register


def _remover(kind: str) -> Callable[..., None]:
    def unregister(callback: Callable[..., Any]) -> None:
        if callback not in _listeners[kind]:
            raise AssertionError(f"{callback!r} is no listener: it was not registered.")
        _listeners[kind].remove(callback)

    return unregister


record_event, record_event_duration_secs = _recorder("event"), _recorder("duration")
record_event_time_span, record_scalar = _recorder("span"), _recorder("scalar")
register_event_listener, register_event_duration_secs_listener = _registrar("event"), _registrar("duration")
register_event_time_span_listener, register_scalar_listener = _registrar("span"), _registrar("scalar")
unregister_event_listener, unregister_event_duration_listener = _remover("event"), _remover("duration")
unregister_event_time_span_listener, unregister_scalar_listener = _remover("span"), _remover("scalar")


def clear_event_listeners() -> None:
    for listeners in _listeners.values():
        listeners.clear()


facade(globals())
