"""Setting a context variable for a block: a default, a mode, or what else holds for a while in one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def setting(variable: ContextVar[T], value: T) -> Iterator[None]:
    """In this block the variable has a value; behind it, what it had before."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
