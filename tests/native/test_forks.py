"""Children of forks compile natively, whatever other threads of the parent were doing."""

from __future__ import annotations

import os

import pytest
from processes import run

# A thread holds a lock until the process is about to fork: then the fork has to wait for it.
HEAD = """
import os, sys, threading, warnings
import numpy as np
import pullback as pb
from llvmlite.binding import ffi
from pullback.engine import cache
from pullback.native import compile, entry, handler, pool
from pullback.native.choice import native_mode
pnp, x = pb.numpy, np.ones((3000, 100))
warnings.simplefilter("ignore")
held, forking = threading.Event(), threading.Event()

def call(factor):
    function = pb.jit(lambda x: pnp.exp(pnp.sin(x) * factor).sum(axis=1))  # divided among threads
    return [function(x) for _ in range(2)][1]

def hold(lock):
    with lock:
        held.set()
        forking.wait()

with native_mode("always"):
    call(2.0)
    os.register_at_fork(before=forking.set)  # whoever asks last is told first
"""
FORK = """
    threading.Thread(target=hold, args=({lock},)).start()
    held.wait()
    child = os.fork()
    if child == 0:
        here = call(3.0)
        os._exit(0 if np.allclose(here, 100 * np.exp(np.sin(1.0) * 3.0)) else 1)
    assert os.waitpid(child, 0)[1] == 0
    call(4.0)
"""
LOCKS = ("compile._lock", "ffi.lib._lock", "entry._lock", "entry._changing", "pool._lock", "handler._lock", "cache._lock")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("lock", LOCKS)
def test_a_fork_waits_for_locks(lock: str) -> None:
    done = run(HEAD + FORK.format(lock=lock))
    assert (done.returncode, done.stderr) == (0, "")
