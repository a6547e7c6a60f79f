"""The one place that knows jaxlib: versions, missing parts, and sharing a process with jax."""

import _thread
import functools
import gc
import importlib.util
import operator
import threading
import types

import pytest
from processes import run

import pullback as pb
from pullback.core.lazy import uninterrupted
from pullback.engine import jaxlib


def test_versions():
    assert jaxlib.parse_version("0.10.2") == (0, 10, 2)
    assert jaxlib.parse_version("0.11.2.dev20260101") == (0, 11, 2)
    assert jaxlib.parse_version("1.0rc1") >= (1, 0)


@pytest.mark.parametrize("version", ["0.10.1", "0.12.0", "1.0.0"])
def test_other_versions_are_refused(version, monkeypatch):
    monkeypatch.setattr("jaxlib.version.__version__", version)
    with pytest.raises(pb.errors.UnsupportedJaxlib, match=version):
        jaxlib.Jaxlib()


def test_a_missing_part_is_named(monkeypatch):
    real = importlib.import_module("jaxlib._jax")
    lacking = types.SimpleNamespace(**{name: getattr(real, name) for name in dir(real) if name != "batched_device_put"})
    find = jaxlib.importlib.import_module
    monkeypatch.setattr(jaxlib.importlib, "import_module", lambda name: lacking if name == "jaxlib._jax" else find(name))
    with pytest.raises(pb.errors.UnsupportedJaxlib, match=r"jaxlib\._jax\.batched_device_put"):
        jaxlib.Jaxlib()


def test_no_jaxlib(monkeypatch):
    def fail(name):
        raise ImportError("none here")

    monkeypatch.setattr(jaxlib.importlib, "import_module", fail)
    with pytest.raises(pb.errors.UnsupportedJaxlib, match="pip install jaxlib"):
        jaxlib.Jaxlib()


def test_importing_pullback_loads_no_jaxlib():
    found = run("import sys, pullback as pb; pb.numpy.sin(1.0); print([m for m in sys.modules if m.startswith('jax')])")
    assert found.stdout == "[]\n", found.stderr


USE = """
f = pb.jit(lambda x: pb.numpy.sum(pb.numpy.sin(x)))
for dtype in (np.float32, np.float64, np.int64):
    x = np.arange(3).astype(dtype)
    for _ in range(3):
        out = f(x)
        assert str(out.device) == "cpu(0)" and str(pb.device_put(x).device) == "cpu(0)"
        assert abs(float(out) - np.sin(np.arange(3)).sum()) < 1e-5, out
    assert pb.jit(lambda x: x + x)(x).dtype == dtype
assert pb.jit(lambda x, y: [x, y])(pb.numpy.ones(3), None)[0].shape == (3,)
"""
JAX = """
g = jax.jit(lambda x: jax.numpy.sum(jax.numpy.sin(x)))
assert abs(float(g(np.arange(3.0))) - np.sin(np.arange(3)).sum()) < 1e-5
assert g(np.arange(3.0)).dtype == np.float32  # jax's own switch is as jax set it
"""
ORDERS = {
    "jax first": "import numpy as np, jax, jax.numpy\n" + JAX + "import pullback as pb\n" + USE + JAX,
    "pullback first": "import numpy as np, pullback as pb\n" + USE + "import jax, jax.numpy\n" + JAX + USE,
}


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")
@pytest.mark.parametrize("order", ORDERS)
def test_with_jax_in_the_same_process(order):
    found = run(ORDERS[order] + "print('done')")
    assert found.stdout == "done\n", found.stderr


def test_jax_is_never_imported_by_us():
    """Some of jaxlib's methods import jax behind our back where it is installed."""
    script = """
import sys, numpy as np, pullback as pb, pullback.numpy as pnp
f = pb.jit(lambda x, y: (x * 2, y))
for dtype in ("float32", "bfloat16", "float8_e4m3fn", "complex128", "bool"):
    x = np.ones((3, 2)).astype(pb.core.dtypes.DTYPES[dtype])
    for _ in range(3):
        for out in f(np.ones(4, np.float32), x) + f(pb.numpy.asarray(x).astype("float32"), np.full(100_000, 1.0)):
            np.asarray(out), str(out), out.device, out.tolist() if out.size < 10 else None
    pb.device_put(x), pb.device_get(pb.device_put(x))
pb.jit(lambda x: x + 1, donate_argnums=0)(pb.device_put(np.ones(3)))
pb.jit(pb.grad(lambda x: pnp.sum(pnp.sin(x))))(np.ones(3, np.float32))
assert "jax" not in sys.modules
"""
    done = run(script, "-W", "error")
    assert done.returncode == 0, done.stderr


class Interrupting:
    """`getattr(interrupting, phase)` is a Ctrl-C, which no Python code that runs at once can raise."""

    stop = property(operator.methodcaller("interrupt"))
    interrupt = staticmethod(_thread.interrupt_main)


def test_ctrl_c_during_garbage_collection_is_not_lost():
    pb.jit(lambda x: x + 1.0)(1.0)
    every = gc.callbacks[:]
    (ours,) = [callback for callback in every if isinstance(getattr(callback, "args", [0])[0], jaxlib._Collector)]
    gc.callbacks[:] = [functools.partial(getattr, Interrupting()), ours]
    try:
        with pytest.raises(KeyboardInterrupt):
            gc.collect()
    finally:
        gc.callbacks[:] = every


@pytest.mark.parametrize(("before", "kept"), [("sys.modules['jax'] = None", False), ("import jax", True)])
def test_stacks_are_kept_for_jax_alone(before, kept):
    program = f"import sys; {before}; import pullback as pb; float(pb.jit(lambda x: x + 1.0)(1.0))"
    asked = f"{program}; import jaxlib._jax as lib; print(lib.tracebacks_enabled())"
    if kept:
        pytest.importorskip("jax")
    found = run(asked)
    assert found.stdout.split() == [str(kept)], found.stderr


INTERRUPTED = """
import builtins, os, signal, sys
import numpy as np
import pullback as pb

real, begun = builtins.__build_class__, []

def build(function, name, *bases, **options):
    if name == "AbsOp" and not begun:  # of the dialect that has just been registered, which can be done once
        begun.append(name)
        signal.raise_signal(signal.SIGINT)
    return real(function, name, *bases, **options)

builtins.__build_class__ = build
x = np.array([3.0, 1.0, 2.0])
calls = pb.jit(lambda x: pb.pure_callback(np.sort, pb.ArrayType((3,), "float64"), x))
try:
    calls(x)
except KeyboardInterrupt:
    pass
else:
    sys.exit("not interrupted")
assert begun and calls(x).tolist() == [1.0, 2.0, 3.0]
"""


REGISTERING = """
import signal, sys
import optree
import pullback as pb

real, begun = optree.register_pytree_node, []

def register(*args, **options):
    real(*args, **options)
    if not begun:
        begun.append(args)
        signal.raise_signal(signal.SIGINT)

optree.register_pytree_node = register
double = pb.jit(lambda tree: {"a": tree["a"] * 2.0})
try:
    double({"a": 1.0})
except KeyboardInterrupt:
    pass
else:
    sys.exit("not interrupted")
assert begun and double({"a": 1.0})["a"].item() == 2.0
"""


@pytest.mark.parametrize("script", [INTERRUPTED, REGISTERING], ids=["jaxlib", "optree"])
def test_ctrl_c_while_something_is_loaded(script):
    done = run(script)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_not_interrupted(monkeypatch):
    where = []

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    def work():
        where.append(threading.current_thread())
        return 1 / len(where[2:])

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            uninterrupted(work)
    assert uninterrupted(work) == 1.0 and threading.main_thread() not in where
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert uninterrupted(work) == 0.5 and where[3] is threading.main_thread()
