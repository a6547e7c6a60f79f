"""Compiling in two tiers: quickly for the first call, and, for a Program that is called often, as well as can be, meanwhile.

A Program that XLA runs is compiled quickly (`xla.QUICK`) when it is first called, unless its best executable is there already:
in memory, on disk, or as machine code of our own. Its calls are counted and timed. When they have taken as long as the quick
compilation did (the other one takes several times as long), or are many, the best executable is compiled by one thread that
serves all functions; the next call of the function after that finds it (`Tiered.replacement`), and the quick one is gone.

The thread lives while there is something to compile. It is no daemon: a thread in the middle of XLA must not meet the end of
the interpreter, which therefore waits for a compilation that has begun, Ctrl-C or not, and forgets those that have not. A fork
waits for it as well, so that the child finds no lock held that nobody will release; what was waiting waits there for its next
call.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic, perf_counter

from pullback.core.array import Array
from pullback.core.modes import Mode, current_mode, overriding
from pullback.core.source import warn
from pullback.engine.backend import CompileOptions, Executable, Relay
from pullback.engine.compile import kept_executable, make_executable
from pullback.engine.waiting import LISTENING, acquire_at_end
from pullback.program.cost import cost
from pullback.program.program import Program

MANY_CALLS = 100
LEAST_SECONDS = 0.1  # of calls, where the quick executable took less long to make: it may have come from the disk
SPEED = 5e10  # floating-point operations, or bytes, in a second: calls that return before they have run take as long


def compile_in_tiers(program: Program, options: CompileOptions, donated: tuple[bool, ...]) -> Executable:
    """A Program's best executable, if it is there already; else a quick one that has the best one made when that pays."""
    best = options._replace(tiered=False)
    start = perf_counter()
    made = make_executable(program, options, donated)
    took = perf_counter() - start
    if not made.quick:
        return kept_executable(program, best, donated, lambda: made)
    make = functools.partial(kept_executable, program, best, donated, made.best)
    return Tiered(made, make, program.name, max(took, LEAST_SECONDS), max(cost(program)[:4]) / SPEED)


class Tiered(Relay):
    """What runs a Program until its best executable is there: the one that was made quickly, with an account of its calls.

    Attributes:
        shown: that executable. make: compiles the best one, in this `mode`. name: the Program's.
        worth: how many seconds of calls make the best one worth its while. least: how many seconds a call takes at least.
        calls, seconds: of calls so far; threads that call at once may forget some of each other's.
        begun: whether the best one is being compiled, or is to be. failure: why it could not be.
    """

    __slots__ = ("__weakref__", "_best", "_done", "_told", "begun", "calls", "failure", "least", "make", "mode", "name",
                 "seconds", "worth")  # fmt: skip

    def __init__(self, quick: Executable, make: Callable[[], Executable], name: str, worth: float, least: float) -> None:
        super().__init__(quick)
        self.make, self.name, self.worth, self.least = make, name, worth, least
        self.mode = current_mode()
        self.calls, self.seconds = 0, 0.0
        self.begun = self._told = False
        self.failure: str | None = None
        self._best: Executable | None = None
        self._done = threading.Event()

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        start = perf_counter()
        outs = self.shown(arrays)
        self.calls += 1
        self.seconds += max(perf_counter() - start, self.least)
        if not self.begun and (self.calls >= MANY_CALLS or self.seconds >= self.worth):
            self.begin()
        return outs

    def replacement(self) -> Executable | None:
        """The best executable, if it is there. Warns, once, if it could not be made."""
        if self.failure is not None and not self._told:
            self._told = True
            warn(
                f"The best code of jit({self.name}) could not be compiled, so calls go on with the code that was compiled"
                f" quickly: {self.failure.rstrip('.')}. `.lower(...).compile()` raises the error itself."
            )
        return self._best

    def begin(self) -> None:
        """Have the best executable made now, once."""
        _background.submit(self)

    def wait(self, until: float) -> bool:
        """Have the best executable made now, and wait for it, or its failure. False if `monotonic` is at `until` before."""
        self.begin()
        while not self._done.wait(min(LISTENING, max(until - monotonic(), 0.0))):
            if monotonic() >= until:
                return False
        return True

    def finish(self, best: Executable | None, failure: str | None = None) -> None:
        """Say what has become of the best executable."""
        self._best, self.failure = best, failure
        self._done.set()

    def again(self) -> None:
        """Forget that the best one was to be made."""
        self.begun, self._done = False, threading.Event()


def stage(found: Executable | None) -> str:
    """Which executable of a Program that is compiled in tiers runs now, and what comes, in words."""
    if found is None:
        return "The first call compiles it quickly, unless its best code is kept from before."
    if not isinstance(found, Tiered) or found._best is not None:
        return "The best code runs it."
    if found.failure is not None:
        return f"Code that was compiled quickly runs it; the best code could not be compiled: {found.failure.rstrip('.')}."
    if found.begun:
        return "Code that was compiled quickly runs it, while the best code is compiled in the background."
    return (
        f"Code that was compiled quickly runs it; after {MANY_CALLS} calls, or {found.worth:.2g} s of them, the best code is"
        " compiled in the background."
    )


class _Background:
    """The thread that compiles, and what waits for it.

    Attributes:
        waiting: first what is being compiled, then what comes next. It keeps nothing alive: nobody misses what is gone.
        changing: held by whoever changes that. compiling: by the thread while it compiles, and by whoever forks. turn: by
            whoever waits for `compiling`, so that one who forks waits for one compilation at most.
    """

    def __init__(self) -> None:
        self.waiting: deque[weakref.ref[Tiered]] = deque()
        self.thread: threading.Thread | None = None
        # Only once there is a thread: who asks last to be told of forks is told first, and `logging`, which jaxlib loads, then
        # takes a lock that our thread may need before it can end.
        self._watches_forks = False
        self.reset()

    def reset(self) -> None:
        """Begin anew, in the child of a fork, where there is no such thread."""
        # Signals' handlers, which may submit and fork, may come in between
        self.changing, self.compiling, self.turn = threading.RLock(), threading.RLock(), threading.RLock()
        self.thread = None
        while self.waiting:
            if (tiered := self.waiting.popleft()()) is not None:
                tiered.again()

    def submit(self, tiered: Tiered) -> None:
        """Have the best executable made, once."""
        with self.changing:
            if not tiered.begun:
                self.waiting.append(weakref.ref(tiered))
                tiered.begun = True
            if not self._watches_forks and hasattr(os, "register_at_fork"):
                self._watches_forks = True
                os.register_at_fork(before=self._pause, after_in_parent=self._resume, after_in_child=self.reset)
            if self.waiting and (self.thread is None or not self.thread.is_alive()):
                self.thread = threading.Thread(target=self._work, name="pullback-compiler", daemon=False)
                try:
                    self.thread.start()
                except RuntimeError as error:  # the interpreter is ending, or there are too many threads
                    self._give_up(str(error))

    def _work(self) -> None:
        while True:
            with self.changing:
                if _is_ending():
                    self._give_up("the interpreter is ending")
                if not self.waiting:
                    self.thread = None
                    return
                first = self.waiting[0]
            self._pause()
            try:
                self.turn.release()
                _compile_best(first)
                with self.changing:
                    if self.waiting and self.waiting[0] is first:
                        self.waiting.popleft()
            finally:
                self.compiling.release()

    def _pause(self) -> None:
        """Wait until nothing is being compiled."""
        self.turn.acquire()
        self.compiling.acquire()

    def _resume(self) -> None:
        for lock in (self.compiling, self.turn):
            with contextlib.suppress(RuntimeError):  # a Ctrl-C may have come before it was acquired
                lock.release()

    def _give_up(self, why: str) -> None:
        while self.waiting:
            if (tiered := self.waiting.popleft()()) is not None:
                tiered.finish(None, why)


def _compile_best(reference: weakref.ref[Tiered]) -> None:
    """Compile for one that is still there; it may go meanwhile."""
    if (tiered := reference()) is None:
        return
    make, mode = tiered.make, tiered.mode
    del tiered
    try:
        with overriding(**{name: getattr(mode, name) for name in Mode.fields}):
            best, failure = make(), None
    except BaseException as error:  # nobody is there to catch it: the next call tells
        best, failure = None, f"{type(error).__name__}: {error}"
    if (tiered := reference()) is not None:
        tiered.finish(best, failure)


def _is_ending() -> bool:
    """Whether no other thread is left that the interpreter would wait for."""
    own = threading.current_thread()
    return not any([thread.is_alive() for thread in threading.enumerate() if thread is not own and not thread.daemon])


_background = _Background()


@atexit.register
def _leave() -> None:
    """The interpreter has waited for the thread, unless a Ctrl-C kept it from that."""
    acquire_at_end([_background.compiling])
