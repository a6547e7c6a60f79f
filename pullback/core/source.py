"""Where in the user's program something happened, and tracebacks without our own frames in them."""

from __future__ import annotations

import functools
import linecache
import os
import sys
from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import Any, NamedTuple, TypeVar

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# What runs as the user's program although it lies in the package: the tour and the tutorial data.
_USERS_OWN = (os.path.join(PACKAGE, "__main__.py"),)


@functools.cache
def is_ours(filename: str) -> bool:
    """Whether a file belongs to pullback itself, so that its frames say nothing to a user."""
    return filename.startswith(PACKAGE) and filename not in _USERS_OWN


class Source(NamedTuple):
    """A place in the user's program, kept as cheaply as it can be: the line is looked up when somebody asks."""

    code: CodeType
    instruction: int

    @property
    def file(self) -> str:
        return self.code.co_filename

    @property
    def line(self) -> int:
        for start, end, line in self.code.co_lines():
            if start <= self.instruction < end and line is not None:
                return line
        return self.code.co_firstlineno

    @property
    def text(self) -> str:
        """The line of code itself, stripped; empty where the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        text = self.text
        return f"{self.file}:{self.line} ({self.code.co_name})" + (f": {text}" if text else "")


def user_source() -> Source | None:
    """The innermost frame that is not ours, or None when there is none (a call straight from C)."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not is_ours(code.co_filename):
            return Source(code, frame.f_lasti)
        frame = frame.f_back
    return None


def describe(function: Callable[..., Any]) -> str:
    """A function named for an error message: its name, file and first line."""
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    inner = inspect_unwrap(inner)
    name = getattr(inner, "__qualname__", None) or getattr(inner, "__name__", None) or repr(inner)
    code = getattr(inner, "__code__", None)
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code is not None else str(name)


def inspect_unwrap(function: Any) -> Any:
    """The function under any stack of decorators that set `__wrapped__`."""
    seen = set()
    while hasattr(function, "__wrapped__") and id(function) not in seen:
        seen.add(id(function))
        function = function.__wrapped__
    return function


# ---- tracebacks -----------------------------------------------------------------------------------------------------


def full_tracebacks() -> bool:
    """Whether the user asked, with `PULLBACK_FULL_TRACEBACKS=1`, to see our frames as well."""
    return os.environ.get("PULLBACK_FULL_TRACEBACKS", "0") not in ("", "0")


def trim(error: BaseException) -> BaseException:
    """Take our frames out of the traceback of `error`; the user's own stay, in order."""
    if full_tracebacks():
        return error
    kept: list[TracebackType] = []
    step = error.__traceback__
    while step is not None:
        if not is_ours(step.tb_frame.f_code.co_filename):
            kept.append(step)
        step = step.tb_next
    rebuilt: TracebackType | None = None
    for step in reversed(kept):
        rebuilt = TracebackType(rebuilt, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return error.with_traceback(rebuilt)


F = TypeVar("F", bound=Callable[..., Any])


def api_boundary(function: F) -> F:
    """Mark a function that users call: an exception that leaves it carries the user's frames, not ours."""

    @functools.wraps(function)
    def boundary(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            trim(error)
            raise

    return boundary  # type: ignore[return-value]
