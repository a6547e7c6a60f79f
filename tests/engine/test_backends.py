"""Another back end needs nothing but the two classes of `engine/backend.py`: here one that runs Programs on NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from processes import run

import pullback as pb
from pullback.core.array import Array
from pullback.core.devices import Device
from pullback.engine import backend as backends
from pullback.engine.backend import Backend, CompileOptions, Executable, register_backend
from pullback.engine.compile import compile_program
from pullback.program.program import Program

pnp = pb.numpy


class Interpreted(Executable):
    result_class = Array
    copies = False

    def __init__(self, program: Program) -> None:
        self.program = program
        self.runs = 0

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        self.runs += 1
        out = self.program(*[Array(array.type, array.host) for array in arrays])
        return list(out) if isinstance(out, tuple) else [out]

    def runner(self) -> Callable[[list[Any]], Sequence[Any]]:
        raise NotImplementedError

    def optimized_text(self) -> str:
        return str(self.program)

    def cost_analysis(self) -> dict[str, float]:
        return {"equations": float(len(self.program.equations))}

    def memory_analysis(self) -> dict[str, int]:
        return {}


class Interpreter(Backend):
    def __init__(self) -> None:
        self.platform = "numpy"
        self.devices = [Device("numpy", 0)]
        self.made: list[Interpreted] = []

    def compile(self, program: Program, options: CompileOptions, donated: tuple[bool, ...]) -> Executable:
        self.made.append(Interpreted(program))
        return self.made[-1]

    def source_text(self, program: Program, options: CompileOptions, donated: tuple[bool, ...], located: Any) -> str:
        return str(program)

    def put(self, host: Any, type: Any, index: int = 0, copy: bool = False) -> Any:
        return np.array(host)


@pytest.fixture
def interpreter(monkeypatch: pytest.MonkeyPatch) -> Interpreter:
    monkeypatch.setattr(backends, "_platforms", dict(backends._platforms))
    monkeypatch.setattr(backends, "_backends", dict(backends._backends))
    monkeypatch.setattr(backends.placement, "several", backends.placement.several)
    made = Interpreter()
    register_backend("numpy", lambda: made)
    return made


def test_it_is_found_compiles_and_explains(interpreter: Interpreter) -> None:
    assert list(map(str, pb.devices("numpy"))) == ["numpy(0)"]
    program = pb.xpr(lambda x: pnp.sin(x) * 2.0, np.ones(3, np.float32))
    options = CompileOptions(Device("numpy", 0))
    executable = compile_program(program, options)
    assert compile_program(program, options) is executable and len(interpreter.made) == 1
    (out,) = executable([pb.numpy.asarray(np.arange(3, dtype=np.float32))])
    np.testing.assert_allclose(np.asarray(out), np.sin(np.arange(3)) * 2, rtol=1e-6)
    assert executable.cost_analysis() == {"equations": 2.0} and "sin" in executable.optimized_text()


def test_jit_runs_there_under_default_device(interpreter: Interpreter) -> None:
    (device,) = pb.devices("numpy")
    with pb.default_device(device):
        assert float(pb.jit(lambda x: x * 3.0)(2.0)) == 6.0
    assert interpreter.made[0].runs == 1
    assert pb.jit(lambda x: x * 3.0)(2.0).device == pb.devices("cpu")[0]


def test_a_back_end_that_lacks_a_method_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="abstract"):

        class Half(Backend):
            pass

        Half()  # type: ignore[abstract]


def test_forking_after_the_first_compilation_warns() -> None:
    script = """
import os, warnings
import pullback as pb
def fork():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
    return [str(one.message) for one in caught if "pullback" in str(one.message)]
print(len(fork()))
float(pb.numpy.sin(1.0)); print(len(fork()))
pb.jit(pb.numpy.sin)(1.0); found = fork()
print(len(found), "spawn" in found[0])
"""
    done = run(script)
    assert done.stdout.split() == ["0", "0", "1", "True"], done.stderr


REENTRANT = """
import numpy as np
import pullback as pb
from pullback.engine import backend, xla

function = pb.jit(lambda x: pb.lax.fori_loop(0, 2000, lambda i, c: c @ x, x))
short = pb.jit(lambda x: x + 1.0, native=False)
real, seen, made = xla.make_cpu_client, [], []

def interrupted(asynchronous=False):
    client = real(asynchronous)
    if asynchronous not in seen:
        seen.append(asynchronous)
        made.append(call())
    return client

def call():
    return function(x), short(x)

backend._platforms["cpu"] = lambda: xla.XlaBackend("cpu", interrupted())
xla.make_cpu_client = interrupted
x = np.eye(64, dtype=np.float32)
made.append(call())
assert seen == [False, True] and len(made) == 3
for long, one in made:
    for again in (function(long), short(one), short(long), function(one)):
        assert again.shape == (64, 64)
    assert float(np.asarray(function(long)).sum()) == 64.0 and float(np.asarray(short(one))[0, 0]) == 3.0
assert len({id(there) for there, _ in xla._places.values() if there.later}) == 2
"""


def test_a_handler_of_a_signal_starts_a_back_end_while_it_is_started() -> None:
    done = run(REENTRANT)
    assert (done.returncode, done.stderr) == (0, "")
