"""How much work a call is, without a clock: the number of Python and C functions that it calls, the same on any machine."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def calls_made(function: Callable[..., Any], *args: Any) -> int:
    """The calls that `function(*args)` makes; none of them is one of the garbage collector's, which comes when it likes."""
    count = 0

    def seen(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before, collecting = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(seen)
    try:
        function(*args)
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()
    return count
