"""What is traced and compiled, said to Python's logging, by the logger "pullback": at DEBUG, or louder where somebody asks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pullback.core.context import setting
from pullback.core.lazy import lazy_module

logging = lazy_module("logging")
DEBUG, WARNING = 10, 30  # logging's own numbers

_level: ContextVar[int] = ContextVar("pullback_report_level", default=DEBUG)
_explaining: ContextVar[bool] = ContextVar("pullback_explaining_misses", default=False)
explains_misses = _explaining.get  # whether jit says why it traces: `explaining_misses`


def report(message: str, *values: Any) -> None:
    """Log a message, %-formatted. Where nobody has loaded logging, nobody listens."""
    if "logging" in sys.modules:
        logging.getLogger("pullback").log(_level.get(), message, *values)


def explain(message: str) -> None:
    """Log why something had to be traced."""
    logging.getLogger("pullback").warning(message)


@contextmanager
def reporting(loudly: bool = True) -> Iterator[None]:
    """In this block and thread, what is traced and compiled is logged as warnings."""
    if loudly:
        logging.getLogger("pullback")  # loads it, so that reports are made
    with setting(_level, WARNING if loudly else DEBUG):
        yield


@contextmanager
def explaining_misses(on: bool = True) -> Iterator[None]:
    """In this block and thread, jit logs as a warning why it traces a function."""
    with setting(_explaining, on):
        yield
