"""Waiting for XLA so that Ctrl-C is heard, and so that the process can end.

A thread that waits inside XLA hears no signal, and ends the process with an error if the interpreter ends meanwhile. So threads
wait at a lock, and another thread waits inside XLA and then releases it. Looking at the result from time to time instead took
3 % of the processor while it multiplied matrices for 10 ms, and ended up to 1 ms late.

A handler's exception may come between any two steps of the main thread. So whatever has to be put right after a wait, the other
thread does.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from pullback.core.errors import ProgramsDiffer
from pullback.core.progress import interrupted
from pullback.engine.backend import spanning

SHORT_PAUSE, LONG_PAUSE = 2e-5, 1e-3  # seconds between two looks at a result that other processes compute as well
HEARD_OF = 2.0  # seconds in which it is known why such a result failed
RESULT = "what the processes compute together"

LISTENING = 0.1  # seconds: so often a thread that waits looks whether there was a Ctrl-C, which may come just before it sleeps


def is_ready(raw: Any) -> bool:
    """Whether a buffer has been computed, or is gone, which is asked first: one that is crashes at other questions."""
    return bool(raw.is_deleted() or raw.is_ready())


class _Watcher:
    """A thread that waits for one result after another.

    Attributes:
        given: results, each with the lock that is released when it has been computed. inside: held by the thread inside XLA.
    """

    def __init__(self) -> None:
        self.given: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
        self.inside = threading.RLock()
        _thread.start_new_thread(self.work, ())
        _watchers.append(self)

    def work(self) -> None:
        while True:
            raw, done = self.given.get()
            with self.inside, contextlib.suppress(Exception):  # whoever waits asks for the result again, and meets it
                raw.block_until_ready()
            del raw
            _idle.append(self)
            done.release()


_watchers: list[_Watcher] = []  # as many as calls of `wait_for` ever ran, or were interrupted, at once
_idle: list[_Watcher] = []
_left = False  # whether the watchers are gone: what ends later is not waited for


def wait_for(raw: Any) -> None:
    """Return when a buffer has been computed, has failed or is gone; raises what a handler of a signal does. It returns at once
    where no watcher is to be had, since the process ends or has too many threads: then the caller waits inside XLA itself."""
    if _left:
        return
    try:
        watcher = _idle.pop()
    except IndexError:
        try:
            watcher = _Watcher()
        except RuntimeError:
            return
    done = _thread.allocate_lock()
    done.acquire()
    watcher.given.put((raw, done))
    try:
        while not done.acquire(timeout=LISTENING):
            pass
    except BaseException:
        interrupted()
        raise


def wait_for_peers(raw: Any) -> None:
    """Return when a buffer has been computed together with other processes; raises `PeerLost` if one of them is lost. It looks
    from time to time: a thread inside XLA, which may wait there for ever, would not let this process end."""
    began = time.monotonic()
    while not is_ready(raw):
        spanning.peers.check_waiting(RESULT)
        waited = time.monotonic() - began
        time.sleep(min(max(waited / 8, SHORT_PAUSE), LONG_PAUSE))  # so that it is seen hardly later than it comes
    if raw.is_deleted():
        return
    try:
        raw.block_until_ready()
    except Exception:
        _hear_of_losses()
        raise


def _hear_of_losses() -> None:
    """Raise if a process is lost: that its connections end is seen before others are told why."""
    until = time.monotonic() + HEARD_OF
    while time.monotonic() < until:
        spanning.peers.check_waiting(RESULT)
        time.sleep(LONG_PAUSE)


class _Launch:
    """A call that another thread makes.

    Attributes:
        done: released when it has returned. outcome: what it returned, or the exception that it raised.
    """

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call, self.done = call, _thread.allocate_lock()
        self.outcome: Any = None
        self.done.acquire()


class _Launcher:
    """The thread that starts programs which processes run together, one after the other.

    XLA runs short programs in the thread that calls it, also on a client that is asynchronous. There that thread would wait for
    the other processes, and hear neither of a Ctrl-C nor of a loss.
    """

    def __init__(self) -> None:
        self.given: queue.SimpleQueue[_Launch] = queue.SimpleQueue()
        _thread.start_new_thread(self.work, ())

    def work(self) -> None:
        while True:
            launch = self.given.get()
            try:
                launch.outcome = launch.call()
            except Exception as error:
                launch.outcome = error
            launch.done.release()
            del launch


_launchers: list[_Launcher] = []  # one, when the first such program is run


def run_with_peers(call: Callable[[], Any]) -> Any:
    """What a call returns that starts a program which processes run together; raises `PeerLost` if one of them is lost. A
    Ctrl-C ends the wait for it, not the call, on which the other processes count."""
    if not _launchers:
        _launchers.append(_Launcher())
    launch = _Launch(call)
    _launchers[0].given.put(launch)
    while not launch.done.acquire(timeout=LISTENING):
        spanning.peers.check_waiting(RESULT)
        spanning.peers.check_begun()
    if isinstance(launch.outcome, Exception):
        if not isinstance(launch.outcome, ProgramsDiffer):
            _hear_of_losses()
        raise launch.outcome
    return launch.outcome


def acquire_at_end(locks: Sequence[Any]) -> None:
    """Acquire reentrant locks when the process ends, though handlers of signals raise exceptions; then raise the last of these.
    After the first one Ctrl-C ends the process at once, for what holds the locks may never end."""
    raised: BaseException | None = None
    for lock in locks:
        held = False
        while not held:
            try:
                held = lock.acquire(timeout=LISTENING)
            except BaseException as error:
                raised = error
                if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if raised is not None:
        raise raised


@atexit.register
def _leave() -> None:
    """No watcher may be inside XLA when the interpreter ends, nor enter it from then on."""
    global _left
    _left = True
    acquire_at_end([watcher.inside for watcher in _watchers])


def _forget() -> None:
    """The child of a fork has no such threads."""
    _watchers.clear()
    _idle.clear()
    _launchers.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
