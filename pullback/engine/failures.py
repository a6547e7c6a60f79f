"""Exceptions of Python functions that compiled code calls, on their way out of it.

XLA passes on nothing of an exception but its text. So the exception is kept here under a number of its own, one that carries
this number is raised into XLA in its place, and whoever ran the code finds the number in the text of XLA's error. Calls from
several threads, of one executable or of many, never see each other's.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core.bounded import Bounded
from pullback.core.errors import DeviceError
from pullback.core.progress import interrupted

# Only one failure of a call is reported; those of other host calls of the same call that ran at once stay until room is needed.
MAX_WAITING = 64

_waiting: Bounded[int, BaseException] = Bounded(MAX_WAITING)
_postponed: deque[BaseException] = deque(maxlen=MAX_WAITING)  # programs in which devices wait for each other run in turn
_numbers = itertools.count()
_MARK = re.compile(r"HostCallFailed: pullback's failure number (\d+)$", re.MULTILINE)
_INTERRUPTED = re.compile(r"^KeyboardInterrupt\b", re.MULTILINE)


class HostCall(threading.local):
    """The host call that this thread is in.

    Attributes:
        by_several: whether it is one of a program on several devices.
    """

    by_several = False

    def check_free(self) -> None:
        """Raise if a program on several devices waits for this thread: another one would wait for that for ever."""
        if self.by_several:
            raise DeviceError(
                "A Python function that a program on several devices calls is to run another one, which runs when the first has"
                " ended: they would wait for each other. Compute that before, or in the program itself."
            )


host_call = HostCall()


class HostCallFailed(Exception):
    """Stands for another exception inside XLA."""


def stand_in(error: BaseException) -> HostCallFailed:
    """Keep an exception, and return the one to raise into XLA in its place."""
    number = next(_numbers)
    _waiting[number] = error
    return HostCallFailed(f"pullback's failure number {number}")


def postpone(error: BaseException) -> None:
    """Keep an exception of a host call until the program has ended, which goes on: devices wait for each other in it."""
    _postponed.append(error)


def guard(function: Callable[..., Any], made_up: Sequence[Any] | None) -> Callable[..., Any]:
    """What XLA calls in place of a function, so that what that raises is raised as itself.

    Arguments:
        made_up: of a program on several devices, in shape and dtype, what is returned where the function fails.
    """

    def guarded(*values: Any) -> Any:
        outer = host_call.by_several
        try:
            host_call.by_several = outer or made_up is not None
            return function(*values)
        except BaseException as error:
            if made_up is None:
                raise stand_in(error) from None
            postpone(error)  # the other devices would wait for this one for ever
            return tuple([np.zeros(one.shape, one.dtype) for one in made_up])
        finally:
            host_call.by_several = outer

    return guarded


def postponed() -> BaseException | None:
    """The first exception that was kept since it was last asked for one, if there is any."""
    found = list(_postponed)
    _postponed.clear()
    if found:
        interrupted()
    return found[0] if found else None


def original(error: BaseException) -> BaseException | None:
    """The exception of the host call that made XLA raise `error`; None if it was no host call's."""
    interrupted()
    text = str(error)
    found = _MARK.findall(text)
    if found:
        return _waiting.pop(int(found[-1]), None)
    # Ctrl-C just before or after the host call's own code
    return KeyboardInterrupt() if "CpuCallback" in text and _INTERRUPTED.search(text) else None
