"""Threads of our own, among which the blocks of a kernel are divided.

A call that has work for several takes a *slot*, divides its blocks into pieces, and wakes workers that are idle; then it does
pieces itself until none is left. A piece is taken by raising a number in the slot's *ticket*, which also holds how many there
are, and which job it is: so a worker that comes too late takes nothing, and nobody waits for one that has not begun. Whoever
has taken a piece knows that the job lasts until it has done it, and reads the rest of the slot only then. Pieces are ranges of
blocks, and a block's results do not depend on them.

Workers are Python's threads, parked in machine code without the interpreter's lock, each at a lock of its own.
"""

from __future__ import annotations

import _thread
import ctypes
import os

from pullback.core.forks import lock_across_forks
from pullback.core.source import warn, warn_of_variable
from pullback.engine.processor import usable_processors
from pullback.native import compile as compiling
from pullback.native.shorthand import expanded, flushing

SLOTS = 4  # calls that use the pool at once; a further one does its work alone
MAX_THREADS = 256
PIECES = 4  # for each thread: one that comes late leaves less to wait for
MAX_PIECES = 4095  # 12 bits of the ticket; 12 more say how many were taken, and 40 number the job

SLOT = ("ticket", "done", "stop", "busy", "kernel", "results", "operands", "size", "blocks", *[f"free{i}" for i in range(7)])
WORKER = ("lock", "idle", *[f"free{i}" for i in range(14)])  # two cache lines each: neighbours do not wait for each other
TABLE = ("PyThread_acquire_lock", "PyThread_release_lock", "PyMem_RawMalloc", "PyMem_RawFree", "sched_yield", "workers")

# What a worker's kernel is given to poll: whether the call that it works for was told to stop.
_STOP = """
define internal i32 @stopping_{i}() {{
  %stop = load atomic i64, ptr getelementptr (i8, ptr @slots, i64 {place}) monotonic, align 8
  %stops = icmp ne i64 %stop, 0
  %rc = zext i1 %stops to i32
  ret i32 %rc
}}
"""


def pool_text(triple: str) -> str:
    """The LLVM text of the pool."""
    slot_bytes, worker_bytes = 8 * len(SLOT), 8 * len(WORKER)
    intel = triple.startswith("x86_64")
    places = dict(
        table=len(TABLE),
        slots=SLOTS,
        slot_words=SLOTS * len(SLOT),
        worker_words=MAX_THREADS * len(WORKER),
        slot_bytes=slot_bytes,
        worker_bytes=worker_bytes,
        pieces=PIECES,
        max_pieces=MAX_PIECES,
        stops="".join([_STOP.format(i=i, place=i * slot_bytes + 8 * SLOT.index("stop")) for i in range(SLOTS)]),
        stop_names=", ".join([f"ptr @stopping_{i}" for i in range(SLOTS)]),
        **flushing(triple),
        pause="call void @llvm.x86.sse2.pause()" if intel else "call void @llvm.aarch64.hint(i32 1)",
        declarations="declare void @llvm.x86.sse2.pause()" if intel else "declare void @llvm.aarch64.hint(i32)",
    )
    return expanded("pool.ll", TABLE, {"SLOT": SLOT, "WORKER": WORKER}, places)


def thread_count() -> int:
    """How many threads may work at once: `PULLBACK_THREADS`, else as many as there are processors for this process."""
    chosen = os.environ.get("PULLBACK_THREADS", "")
    if chosen.isascii() and chosen.isdecimal() and int(chosen):
        return min(int(chosen), MAX_THREADS)
    usable = usable_processors()
    if chosen:
        warn_of_variable("PULLBACK_THREADS", "a positive number in digits", f"it counts as {usable}")
    return min(usable, MAX_THREADS)


class _Pool:
    """The machine code of the pool, with its table filled in. It is never unloaded: workers are parked in it."""

    def __init__(self) -> None:
        self.code = compiling.loaded(pool_text(compiling.host().triple), ("share", "work", "table", "slots", "workers"))
        self.addresses = self.code.addresses
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.code))
        self.workers = 0
        self.owner = 0  # the process that has the workers: a child has none of its parent's threads

    def address(self, workers: int) -> int:
        """Where `share` is, once there are workers in this process."""
        if self.owner != os.getpid():
            self._start(workers)
        found: int = self.addresses["share"]
        return found

    def _start(self, workers: int) -> None:
        allocate = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThread_allocate_lock", ctypes.pythonapi))
        acquire = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(("PyThread_acquire_lock", ctypes.pythonapi))
        work = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.addresses["work"])
        libc = ctypes.CDLL(None)
        known = {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in TABLE[:4]}
        known |= {"sched_yield": ctypes.cast(libc.sched_yield, ctypes.c_void_p).value, "workers": workers}
        (ctypes.c_uint64 * len(TABLE)).from_address(self.addresses["table"])[:] = [known[name] or 0 for name in TABLE]
        started, why = 0, ""
        for i in range(workers):
            place = self.addresses["workers"] + 8 * len(WORKER) * i
            lock = allocate()
            acquire(lock, 0)  # a worker sleeps until it is released
            ctypes.c_uint64.from_address(place).value = lock
            try:
                _thread.start_new_thread(work, (place,))
            except RuntimeError as error:  # the system has a limit; those that are there do the work
                why = str(error)
                break
            started += 1
        self.workers, self.owner = started, os.getpid()
        if why:
            warn(f"Native code runs on {started + 1} threads in place of {workers + 1}: {why}.", once=True)

    def lose_workers(self) -> None:
        """In a child process forget what its parent was doing: calls do their work alone, until the next kernel is made ready.

        Nobody works there yet. Later others may, without the interpreter's lock, and then nothing may be forgotten.
        """
        ctypes.memset(self.addresses["slots"], 0, 8 * len(SLOT) * SLOTS)
        ctypes.memset(self.addresses["workers"], 0, 8 * len(WORKER) * MAX_THREADS)


_lock = lock_across_forks()
_pools: list[_Pool] = []


def share() -> int:
    """The address of the function that divides a kernel's blocks among threads; 0 if there is one thread only.

    It is `i32 (ptr kernel, ptr results, ptr operands, ptr workspace, i64 workspace bytes, ptr poll, i64 blocks)`, to be called
    without the interpreter's lock; it returns what a kernel does, or 2 for lack of memory.
    """
    workers = thread_count() - 1
    if workers < 1 or not hasattr(os, "fork"):
        return 0
    with _lock:
        if not _pools:
            _pools.append(_Pool())
            os.register_at_fork(after_in_child=_pools[0].lose_workers)
        return _pools[0].address(workers)
