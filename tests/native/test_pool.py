"""Work that is divided among threads: all of it is done once, whoever calls, stops, forks or has no memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from handwritten_kernels import at_once, call_of, endless, kernel_text, needs_entry, squares

import pullback as pb
from pullback.native import pool
from pullback.native.kernel import Kernel

pytestmark = needs_entry


@pytest.fixture(autouse=True)
def three_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_THREADS", "3")


def _numbers(blocks: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(blocks).integers(-(2**31), 2**31, 1000 * blocks)


@pytest.mark.parametrize("workspace", [0, 64, 100_000])
@pytest.mark.parametrize("blocks", [1, 2, 3, 12, 13, 101])
def test_each_block_is_done(blocks: int, workspace: int) -> None:
    """A worker that shared another's workspace would square a number that is not its own."""
    call, x = call_of(squares(blocks, max(workspace, 64))), _numbers(blocks)
    for _ in range(20):
        assert (call(x)[0].host == x * x).all()


def counting(blocks: int, stop_at: int = -1) -> Kernel:
    """Each block counts itself in the first operand, which is written to; one of them says that it is to stop."""
    body = f"""
  br label %head
head:
  %i = phi i64 [%begin, %entry], [%i.next, %go]
  %more = icmp ult i64 %i, %end
  br i1 %more, label %body, label %out
body:
  %a = getelementptr i64, ptr %x0, i64 %i
  %before = atomicrmw add ptr %a, i64 1 seq_cst
  %stops = icmp eq i64 %i, {stop_at}
  br i1 %stops, label %stop, label %go
go:
  %i.next = add i64 %i, 1
  br label %head
stop:
  ret i32 1
out:
  store i64 0, ptr %y0
  ret i32 0
"""
    result = pb.ArrayType((), "int64")
    return Kernel(kernel_text(body), (pb.ArrayType((blocks,), "int64"),), (result,), blocks=blocks, weight=1e9)


@pytest.mark.parametrize("blocks", [2, 5, 4000, 4095, 4096, 100_000])
def test_no_block_is_done_twice(blocks: int) -> None:
    call, counts = call_of(counting(blocks)), np.zeros(blocks, np.int64)
    for turn in range(1, 6):
        call(counts)
        assert (counts == turn).all()


def test_a_block_that_stops_ends_the_call() -> None:
    blocks = 3000
    call, counts = call_of(counting(blocks, stop_at=0)), np.zeros(blocks, np.int64)
    with pytest.raises(KeyboardInterrupt):
        call(counts)
    assert counts[0] == 1 and counts.max() == 1 and counts.sum() < blocks
    again = np.zeros(blocks, np.int64)
    call_of(counting(blocks))(again)  # the slot is free, and nothing of the other call is left in it
    assert (again == 1).all()


def test_ctrl_c_is_heard_by_all_that_work() -> None:
    call = call_of(endless(weight=1e9, blocks=12))
    for _ in range(3):
        threading.Timer(0.02, signal.raise_signal, (signal.SIGINT,)).start()
        with pytest.raises(KeyboardInterrupt):
            call(np.float32(0))
    x = _numbers(12)
    assert (call_of(squares(12))(x)[0].host == x * x).all()


def test_more_callers_than_there_are_slots() -> None:
    call, wrong = call_of(squares(24, 40_000)), []

    def work(seed: int) -> None:
        x = _numbers(24) + seed
        for _ in range(100):
            if not (call(x)[0].host == x * x).all():
                wrong.append(seed)

    at_once(work, 2 * pool.SLOTS)
    assert wrong == []


def test_lack_of_memory_in_a_worker_is_an_error() -> None:
    """The caller's own workspace may be had when a worker's cannot; here neither can."""
    kernel = squares(12, 1 << 60)
    with pytest.raises(MemoryError):
        call_of(kernel)(_numbers(12))
    x = _numbers(12)
    assert (call_of(squares(12))(x)[0].host == x * x).all()


def test_light_work_and_one_thread_are_not_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_THREADS", "1")
    assert pool.share() == 0
    x = _numbers(7)
    assert (call_of(squares(7))(x)[0].host == x * x).all()
    monkeypatch.setenv("PULLBACK_THREADS", "3")
    assert pool.share() != 0
    assert (call_of(squares(7, weight=1.0))(x)[0].host == x * x).all()


def test_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    monkeypatch.delenv("PULLBACK_THREADS")
    assert pool.thread_count() == usable
    for given, expected in [("5", 5), ("100000", pool.MAX_THREADS)]:
        monkeypatch.setenv("PULLBACK_THREADS", given)
        assert pool.thread_count() == expected
    for given in ("0", "many", "-1"):
        monkeypatch.setenv("PULLBACK_THREADS", given)
        with pytest.warns(RuntimeWarning, match="PULLBACK_THREADS"):
            assert pool.thread_count() == usable


def test_what_threads_cannot_be_started_are_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of the number of processes: of the two workers of a new pool the second one cannot be started."""
    start, asked = pool._thread.start_new_thread, []

    def refusing(*args: Any) -> Any:
        asked.append(args)
        if len(asked) > 1:
            raise RuntimeError("can't start new thread")
        return start(*args)

    monkeypatch.setattr(pool, "_pools", [pool._Pool()])
    monkeypatch.setattr(pool, "_thread", SimpleNamespace(start_new_thread=refusing))
    with pytest.warns(RuntimeWarning, match="on 2 threads in place of 3: can't start new thread"):
        call = call_of(squares(12))
    x = _numbers(12)
    assert len(asked) == 2 and all([(call(x)[0].host == x * x).all() for _ in range(20)])


FORKS = """
import os, sys, threading
from handwritten_kernels import call_of, squares
import numpy as np
call, x = call_of(squares(24)), np.arange(24000)
busy = threading.Thread(target=lambda: [call(x) for _ in range(300)])
busy.start()
right = True
for turn in range(8):
    child = os.fork()
    if child == 0:
        fine = (call(x)[0].host == x * x).all() and (call_of(squares(24, 128))(x)[0].host == x * x).all()
        fine = fine and (call(x)[0].host == x * x).all()
        os._exit(0 if fine else 1)
    right = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 and right
busy.join()
print(right and bool((call(x)[0].host == x * x).all()))
"""


# In the child one thread works when another one makes the first kernel ready for which there are workers again.
FORKS_WHILE_WORKING = """
import os, sys, threading
from handwritten_kernels import call_of, squares
import numpy as np
call, x = call_of(squares(400)), np.arange(400000)
call(x)
right = True
for turn in range(12):
    child = os.fork()
    if child == 0:
        wrong = []
        def work():
            for _ in range(60):
                if not (call(x)[0].host == x * x).all():
                    wrong.append(1)
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        call_of(squares(24, 128 + turn))
        for thread in threads:
            thread.join()
        os._exit(len(wrong))
    right = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 and right
print(right)
"""


@pytest.mark.parametrize("source", [FORKS, FORKS_WHILE_WORKING], ids=["alone", "while others work"])
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_process_works_without_its_parents_threads(source: str) -> None:
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths}
    out = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", source], capture_output=True, text=True, check=True, env=environment, timeout=120
    )
    assert out.stdout.strip() == "True"
