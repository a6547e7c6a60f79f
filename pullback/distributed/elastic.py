"""Going on when processes are lost or are to end: stopping together, and forming a smaller world.

A program that can go on writes down its state now and then, begins from what was written last, and does this when a peer is
lost:

    try:
        train(...)
    except pb.errors.PeerLost:
        pb.distributed.elastic.reform()  # does not return: the program begins again, in a smaller world
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import sys
import threading
import time
from typing import Any

from pullback.core.errors import PeerLost, WorldError
from pullback.core.source import make_public
from pullback.parallel.world import current, is_initialized

__all__ = ["epoch", "reform", "should_stop", "stop", "stop_on_signal"]

STANDARD = 3  # so many file descriptors go to the program that begins again

_alone = threading.Event()  # whether a process that is alone is to stop


def epoch() -> int:
    """How often the world has been formed anew, since processes were lost.

    Returns:
        An int, 0 at first.

    Example:
        >>> pb.distributed.elastic.epoch()
        0
    """
    return current().place.epoch if is_initialized() else 0


def stop() -> None:
    """All processes are to stop at one step, the same for all (`should_stop`). Of a process that is alone: at the next.

    Raises:
        PeerLost: there is no world any more to tell.

    Example:
        >>> pb.distributed.elastic.should_stop(7)
        False
    """
    if is_initialized():
        current().stopping.ask_all()
    else:
        _alone.set()


def stop_on_signal(number: int = signal.SIGTERM) -> None:
    """When this process gets a signal, all processes are to stop at one step, as `stop` says. To be called in the main thread.

    Arguments:
        number: of the signal; `SIGTERM` is what batch systems send to who must end soon.

    Raises:
        ValueError: this is not the main thread.

    Example:
        >>> import signal
        >>> before = signal.getsignal(signal.SIGTERM)
        >>> pb.distributed.elastic.stop_on_signal()
        >>> _ = signal.signal(signal.SIGTERM, before)
    """

    signal.signal(number, _on_signal)


def _on_signal(number: int, frame: Any) -> None:
    _thread.start_new_thread(_stop, ())  # what the main thread was doing may hold the locks that this takes


def _stop() -> None:
    with contextlib.suppress(PeerLost):  # there is nobody to stop with: the main thread meets that by itself
        stop()


def should_stop(step: int) -> bool:
    """Whether the processes stop before this step; to be called by all of them, at the beginning of each.

    If one of them has been told to end, all stop before the same step: none has begun it, and all have done those before.

    Arguments:
        step: its number, the same in all processes; it grows.

    Returns:
        A bool.

    Raises:
        PeerLost: another process is lost, where that is to be found out now.
        Fenced: this one was taken for lost.

    Example:
        >>> any(pb.distributed.elastic.should_stop(step) for step in range(3))
        False
    """
    return current().stopping.reached(step) if is_initialized() else _alone.is_set()


def reform(minimum: int = 1, timeout: float = 30.0) -> None:
    """Form a smaller world of the processes that are left, which all call this; it does not return.

    The program begins again, in the same process, with the same arguments, and a new number: `initialize` then finds the others
    in it, whatever it is given. Nothing in memory is left, nor any value by a key: what is to be kept has to be written
    down before. Threads that are no daemons, as those of `save_async`, are waited for, for half of the time at most.

    Arguments:
        minimum: with fewer processes there is no point in going on.
        timeout: seconds in which all that are left have to call this; those that do not are lost as well.

    Raises:
        Fenced: the others have gone on without this process.
        WorldError: fewer than `minimum` are left; or this process is alone.

    Example:
        >>> pb.distributed.elastic.reform()
        Traceback (most recent call last):
            ...
        pullback.core.errors.WorldError: This process is alone: pb.distributed.initialize lets it join others...
    """
    world = current()
    end = time.monotonic() + timeout / 2
    for thread in threading.enumerate():
        if thread not in (threading.current_thread(), threading.main_thread()) and not thread.daemon:
            thread.join(max(end - time.monotonic(), 0.0))
    found, _ = world.link.ask({"op": "reform"}, timeout=timeout)
    if found["count"] < minimum:
        raise WorldError(
            f"{found['count']} processes are left, of at least {minimum} that were wanted. Start more, or ask for fewer."
        )
    os.environ.update(
        PULLBACK_COORDINATOR=world.place.address,
        PULLBACK_PROCESS_ID=str(found["rank"]),
        PULLBACK_NUM_PROCESSES=str(found["count"]),
        PULLBACK_EPOCH=str(found["epoch"]),
    )
    sys.stdout.flush()
    sys.stderr.flush()
    for name in os.listdir("/dev/fd"):  # so that the others see that the connections have ended
        if int(name) >= STANDARD:
            with contextlib.suppress(OSError):  # that of this listing is gone
                os.set_inheritable(int(name), False)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


make_public(globals())
