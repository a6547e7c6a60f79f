"""Long programs run beside Python: when a call returns, when others wait, and that nothing else can be noticed."""

from __future__ import annotations

import copy
import os
import pickle
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from processes import run

import pullback as pb
from pullback.core.array import later_buffer
from pullback.engine import xla

pnp = pb.numpy
STEPS, SIZE = 1000, 64  # some 30 ms of work: a thousand times as long as a call takes to return


def long_loop(x: Any) -> Any:
    return pb.lax.fori_loop(0, STEPS, lambda i, c: c @ x, x)


def shift(places: int = 1) -> np.ndarray[Any, Any]:
    """The matrix that shifts a vector cyclically: its powers are shifts too, to the last bit."""
    return np.roll(np.eye(SIZE, dtype=np.float32), places, axis=1)


EXPECTED = shift(STEPS + 1)


def unfinished(function: Callable[..., Any], *args: Any) -> Any:
    """A result that is still being computed. Machines pause, at times for as long as a program takes: so it may need calls."""
    for _ in range(100):
        out = function(*args)
        if not out.is_ready():
            return out
    raise AssertionError("Each of 100 calls returned what had already been computed.")


@pytest.fixture
def every_program_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xla, "LONG_FLOPS", 0)


def test_a_call_of_a_long_program_returns_before_it_has_run() -> None:
    function = pb.jit(long_loop)
    x = pnp.asarray(shift())
    for _ in range(3):
        out = unfinished(function, x)
        assert out.block_until_ready() is out and out.is_ready()
        assert np.array_equal(out, EXPECTED)


def test_a_short_program_has_run_when_its_call_returns() -> None:
    out = pb.jit(lambda x: x @ x)(shift())
    assert out.is_ready() and later_buffer(out) is None


def test_one_long_program_after_another() -> None:
    """A result that is still being computed is an argument of the next call, and of calls that run at once."""
    function, short = pb.jit(long_loop), pb.jit(lambda x: x * 2.0)
    once = function(pnp.asarray(shift()))
    twice = unfinished(function, once)
    assert np.array_equal(short(once), 2 * EXPECTED)
    assert np.array_equal(short(twice), 2 * shift((STEPS + 1) ** 2))


def test_what_the_caller_writes_after_the_call_changes_nothing() -> None:
    function = pb.jit(long_loop)

    def call_and_write() -> Any:
        x = shift()
        out = function(x)
        x[:] = np.nan
        return out

    for _ in range(3):
        assert np.array_equal(unfinished(call_and_write), EXPECTED)


@pytest.mark.usefixtures("every_program_is_long")
@pytest.mark.parametrize("effect", [True, False])
def test_what_a_python_function_raises_comes_out_of_the_call(effect: bool) -> None:
    def fail(x: Any) -> Any:
        raise LookupError("of the user's")

    def body(x: Any) -> Any:
        if effect:
            pb.debug.callback(fail, x)
            return x + 1.0
        return pb.pure_callback(fail, pb.ShapeDtypeStruct((), np.float32), x)

    function = pb.jit(body)
    for _ in range(3):
        with pytest.raises(LookupError, match="of the user's"):
            function(1.0)


three = pb.jit(lambda x: pnp.zeros(8) + (pnp.sum(long_loop(x)[5]) + 2.0))

READERS: dict[str, Callable[[Any], Any]] = {
    "float": lambda x: float(x[0]),
    "item": lambda x: x[0].item(),
    "tolist": lambda x: x.tolist()[0],
    "asarray": lambda x: np.asarray(x)[0],
    "host": lambda x: x.host[0],
    "view": lambda x: x.view()[0],
    "dlpack": lambda x: np.from_dlpack(x)[0],
    "bytes": lambda x: np.frombuffer(x.tobytes(), np.float32)[0],
    "pickle": lambda x: pickle.loads(pickle.dumps(x))[0],
    "copy": lambda x: copy.deepcopy(x)[0],
    "alias": lambda x: pnp.array(x, copy=True)[0],
    "repr": lambda x: float(repr(x)[1:].split()[0]),
    "bool": lambda x: 3.0 if bool((x == 3.0).all()) else 0.0,
    "eager operator": lambda x: (x + 0.0)[0],
    "eager function": lambda x: pnp.sum(x) / x.size,
    "short program": lambda x: pb.jit(lambda y: y * 1.0)(x)[0],
    "closure": lambda x: pb.jit(lambda: x + 0.0)()[0],
    "derivative": lambda x: pb.grad(lambda y: pnp.sum(y * y) / 2)(x)[0],
    "device_get": lambda x: pb.device_get(x)[0],
    "device_put": lambda x: pb.device_put(x)[0],
    "equal programs": lambda x: 3.0 if pb.xpr(lambda y: y + x, x) == pb.xpr(lambda y: y + x, x) else 0.0,
}


@pytest.mark.parametrize("reader", READERS)
def test_whoever_asks_for_values_waits(reader: str) -> None:
    out = unfinished(three, shift())
    assert out.device == pb.devices()[0] and out.shape == (8,)
    assert READERS[reader](out) == 3.0


@pytest.mark.usefixtures("every_program_is_long")
def test_arguments_of_every_kind() -> None:
    function = pb.jit(lambda tree, x, y: {"out": tree["a"] * x + y, "same": tree["a"], "none": None})
    for given in (np.ones(3, np.float32), pnp.ones(3), pb.jit(lambda: pnp.ones(3))(), [1.0, 1.0, 1.0][0]):
        for _ in range(3):
            out = function({"a": given}, 2, pnp.asarray(1.0))
            assert np.all(np.asarray(out["out"]) == 3) and np.all(np.asarray(out["same"]) == 1) and out["none"] is None
    for dtype in ("bfloat16", "float8_e4m3fn", "bool", "complex64", "int8"):
        x = pnp.ones(3, dtype)
        assert pb.jit(lambda x: x)(x).tolist() == x.tolist()
    assert pb.jit(lambda x: x)(pnp.zeros((0, 3))).shape == (0, 3)


@pytest.mark.usefixtures("every_program_is_long")
def test_derivatives_and_batches_of_long_programs() -> None:
    function = pb.jit(lambda x: pnp.sin(x) * x)
    x = np.linspace(0.0, 1.0, 5, dtype=np.float32)
    expected = np.cos(x) * x + np.sin(x)
    np.testing.assert_allclose(np.asarray(pb.vmap(pb.grad(function))(x)), expected, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(pb.jit(pb.vmap(pb.grad(function)))(x)), expected, rtol=1e-5)
    np.testing.assert_allclose([float(pb.grad(function)(one)) for one in x], expected, rtol=1e-5)


def test_donation_of_what_is_still_being_computed() -> None:
    step = pb.jit(long_loop, donate_argnums=0)
    state = pb.jit(long_loop)(pnp.asarray(shift()))
    other = state.copy()
    new = step(state)
    with pytest.raises(pb.errors.DonatedBufferError):
        np.asarray(state)
    newest = step(new)
    with pytest.raises(pb.errors.DonatedBufferError):
        step(new)
    assert np.array_equal(other, EXPECTED)
    assert np.array_equal(newest, shift((STEPS + 1) ** 3))


@pytest.mark.usefixtures("every_program_is_long")
def test_donated_memory_that_somebody_sees_is_not_overwritten() -> None:
    double = pb.jit(lambda x: x + x, donate_argnums=0)
    for make in (lambda: pb.jit(lambda: pnp.full(1000, 2.0))(), lambda: pnp.full(1000, 2.0), lambda: np.full(1000, 2.0, "f4")):
        given = make()
        seen = np.asarray(given)
        out = double(given)
        assert np.all(seen == 2) and np.all(np.asarray(out) == 4)
        again = double(out)
        assert np.all(seen == 2) and np.all(np.asarray(again) == 8)


@pytest.mark.usefixtures("every_program_is_long")
def test_threads_share_results() -> None:
    function, wrong = pb.jit(lambda x, y: x @ y), []
    shared = [function(pnp.eye(32) * i, pnp.eye(32)) for i in range(8)]

    def work(seed: int) -> None:
        for i in range(60):
            number = (seed + i) % 8
            out = function(shared[number], np.full((32, 32), i, np.float32))
            if not np.all(np.asarray(out) == number * i):
                wrong.append((seed, i))

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))  # raises what a thread has raised
    assert not wrong


def test_a_thread_that_reads_what_another_one_has_just_donated() -> None:
    for out in (unfinished(pb.jit(long_loop), pnp.asarray(shift())), pb.jit(lambda: pnp.ones(3))()):
        (out._buffer if later_buffer(out) is None else later_buffer(out)).delete()  # as XLA does, before the Array gives it up
        with pytest.raises(pb.errors.DonatedBufferError):
            np.asarray(out)


HEAD = """
import atexit
atexit.register(lambda: late())  # the last to be called, since whatever pullback asks for is asked for later
late = bool
import os, signal, sys, threading, warnings
import numpy as np, pullback as pb
function = pb.jit(lambda x: pb.lax.fori_loop(0, 2000, lambda i, c: c @ x, x))
x = pb.numpy.eye(256)
while (out := function(x)).is_ready():  # a paused machine
    pass
"""
# Of the threads that nobody waits for, jaxlib ends the process with those that ask it for a result just then.
WAITING = """
from pullback.core.array import later_buffer
from pullback.engine import waiting
def is_free(lock):
    if free := lock.acquire(blocking=False):
        lock.release()
    return free
threading.Thread(target=waiting.wait_for, args=(later_buffer(out),), daemon=True).start()
while not waiting._watchers or is_free(waiting._watchers[0].inside):
    if not endless and out.is_ready():
        break
"""
SCRIPTS = {
    "the process ends": "",
    "the process ends, and the result is gone": "del out",
    "the client is no longer needed": "pb.clear_caches(); del out, function",
    "a function waits when the process ends": """
out.block_until_ready()
while (last := function(x)).is_ready():
    pass
def late():
    if np.asarray(last)[0, 0] == 1.0:
        os.write(1, b"waited")
""",
    "a thread waits that nobody waits for": f"endless = False\n{WAITING}",
    "no thread is to be had": """
import _thread
def refuse(*args):
    raise RuntimeError("can't start new thread")
_thread.start_new_thread = refuse
assert np.asarray(out)[0, 0] == 1.0
from pullback.engine import waiting
assert not waiting._watchers
""",
    "Ctrl-C while waiting": """
main = threading.main_thread().ident

def interrupt(done):
    while not done and sys._current_frames()[main].f_code.co_name != "wait_for":
        pass
    if not done:
        signal.pthread_kill(main, signal.SIGINT)

for _ in range(100):
    waited, done = function(x), []
    thread = threading.Thread(target=interrupt, args=(done,))
    thread.start()
    try:
        waited.block_until_ready()
        done.append(True)
        thread.join()
    except KeyboardInterrupt:
        if not waited.is_ready():
            break
else:
    sys.exit("not interrupted")
assert float(waited[0, 0]) == float(out[0, 0]) == 1.0
""",
    "fork": """
warnings.simplefilter("ignore")
child = os.fork()
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0 and float(out[0, 0]) == 1.0 and float(function(x)[1, 0]) == 0.0
""",
    "a fork that would wait for ever": """
warnings.simplefilter("ignore")
pb.jit(pb.numpy.sin)(1.0)
child = os.fork()
if child == 0:
    refused = 0
    for attempt in (lambda: float(out[0, 0]), lambda: function(x) + 1.0, lambda: pb.jit(pb.numpy.cos)(1.0)):
        try:
            attempt()
        except pb.errors.DeviceError as error:
            refused += "spawn" in str(error)
    sys.exit(refused)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3 and float(out[0, 0]) == 1.0
""",
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_while_something_is_being_computed(script: str) -> None:
    if "fork" in script and not hasattr(os, "fork"):
        pytest.skip("there is no fork here")
    done = run(HEAD + SCRIPTS[script])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "waited" * ("function waits" in script)


INTERRUPTED = """
def interrupt(main):
    while sys._current_frames()[main].f_locals.get("lock") is not waiting._watchers[0].inside:
        pass
    signal.pthread_kill(main, signal.SIGINT)
    while signal.getsignal(signal.SIGINT) is not signal.SIG_DFL:
        pass
    if endless:
        signal.pthread_kill(main, signal.SIGINT)
threading.Thread(target=interrupt, args=(threading.main_thread().ident,), daemon=True).start()
"""
ENDLESS = "out = pb.jit(lambda x: pb.lax.fori_loop(0, 10**9, lambda i, c: c @ x, x))(x)"


@pytest.mark.parametrize("endless", [False, True])
def test_ctrl_c_while_the_process_waits_at_its_end(endless: bool) -> None:
    script = f"{HEAD}\nendless = {endless}\n{ENDLESS if endless else ''}{WAITING}{INTERRUPTED}"
    done = run(script)
    assert done.returncode == (-signal.SIGINT if endless else 0)
    assert "terminate" not in done.stderr  # what C++ says of a thread that meets the end of the interpreter inside XLA
