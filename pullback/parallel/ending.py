"""How a program ends, so that the other processes hear of it: with an exception, with an exit code, or as it should.

Python says nowhere with which code it is about to exit. So `sys.exit` is replaced by one that keeps the exception it raises;
whether that was caught is seen from the module that runs as the program: it returned, or was left by the exception. A
`raise SystemExit(3)` without `sys.exit` cannot be told from a program that has finished.
"""

from __future__ import annotations

import dis
import sys
from types import FrameType
from typing import Any, NoReturn

_RETURNS = {dis.opmap[name] for name in ("RETURN_VALUE", "RETURN_CONST") if name in dis.opmap}

_last: list[tuple[SystemExit, FrameType]] = []  # the last one, if any, and the frame of the program that called for it


def watch_exits() -> None:
    """From now on it is known with which code a program exits."""
    sys.exit = _exit


def _exit(status: Any = None, /) -> NoReturn:
    error, frame = SystemExit(status), sys._getframe().f_back
    program = getattr(sys.modules.get("__main__"), "__dict__", None)
    while frame is not None and not (frame.f_globals is program and frame.f_code.co_name == "<module>"):
        frame = frame.f_back
    if frame is not None:  # else a thread ends, not the program
        _last[:] = [(error, frame)]
    raise error


_exit.__name__ = _exit.__qualname__ = "exit"


def failure() -> str:
    """Of a program that ends: with what it failed; empty if it did not."""
    error = getattr(sys, "last_value", None)
    if error is not None:
        return f"{type(error).__name__}: {error}"[:500].removesuffix(": ")
    code = _last[0][0].code if _last and _left_program(*_last[0]) else 0
    number = (code & 0xFF) if isinstance(code, int) else int(code is not None)
    return f"exit code {number}" if number else ""


def _left_program(error: SystemExit, program: FrameType) -> bool:
    """Whether an exception left the module that runs as the program, which did not go on. An exception has a traceback only
    where a handler has met it, up to the frame of that handler: if it was caught there, that frame has returned since."""
    trace = error.__traceback__
    return not any([_has_returned(frame) for frame in (program, *([] if trace is None else [trace.tb_frame]))])


def _has_returned(frame: FrameType) -> bool:
    return frame.f_code.co_code[frame.f_lasti] in _RETURNS
