"""What it costs to record where equations come from: tracing as it is, and with nothing kept but the user's line.

    python benchmarks/provenance.py

Prints the work of tracing one operation of the user's function with and without it, and by how much scopes, calls, parents and
rules add to it: they are to stay under 5 %. The work is counted, not timed, so that it is the same on each machine: executed
bytecodes, and calls, each of which takes as long as some six of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import CodeType, FrameType
from typing import Any
from unittest import mock

import numpy as np

import pullback as pb
import pullback.numpy as pnp
from pullback.core.source import CodeSource, _users_files
from pullback.core.tracing import Trace, next_serial
from pullback.program import interpret
from pullback.transforms import stage, transpose

OPERATIONS = 60


def chain(x: Any) -> Any:
    for _ in range(OPERATIONS // 3):
        x = pnp.sin(x) * 1.5 + x
    return x


def layers(x: Any) -> Any:
    for _ in range(OPERATIONS // 3):
        x = layer(x)
    return pnp.sum(x)


def layer(x: Any) -> Any:
    return pnp.tanh(x @ x) - x


_places: dict[tuple[CodeType, int], CodeSource] = {}


def line_alone(depth: int, scope: tuple[str, ...]) -> CodeSource | None:
    """The innermost frame of the user's, found as fast as it can be, and nothing of those that called it."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and not _users_files[frame.f_code.co_filename]:
        frame = frame.f_back
    if frame is None:
        return None
    key = frame.f_code, frame.f_lasti
    found = _places.get(key)
    if found is None:
        found = _places[key] = CodeSource(*key)
    return found


def without_recorder(self: Trace, function: Callable[..., Any] | None = None) -> None:
    self.serial, self.open, self.function, self.recording = next_serial(), True, function, None


def lines_alone() -> ExitStack:
    """Tracing with no more than the user's lines, as long as this is entered."""
    patches = ExitStack()
    for module in (transpose, interpret):
        patches.enter_context(mock.patch.object(module, "recorder", {}.clear))
    patches.enter_context(mock.patch.object(Trace, "__init__", without_recorder))
    patches.enter_context(mock.patch.object(stage, "user_source", line_alone))
    return patches


CALL = 6  # bytecodes that take as long as a call does


def work(trace: Callable[[], Any]) -> int:
    """Bytecodes and calls, of Python's functions and of C's, when something is traced that has been traced before."""
    trace()
    bytecodes = calls = 0

    def inside(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal bytecodes
        bytecodes += event == "opcode"
        return inside

    def entered(frame: FrameType, event: str, argument: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return inside

    def called(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    for start, observer in ((sys.settrace, entered), (sys.setprofile, called)):
        start(observer)
        try:
            trace()
        finally:
            start(None)
    return bytecodes + CALL * calls


def measured() -> dict[str, tuple[float, float]]:
    """By case: the work of tracing one operation with all that is recorded, and with the lines alone."""
    x, m, xs = np.float32(0.5), np.ones((3, 3), np.float32), np.ones(3, np.float32)
    cases: dict[str, Callable[[], Any]] = {
        "chain": lambda: pb.xpr(chain, x),
        "grad of the chain": lambda: pb.xpr(pb.grad(chain), x),
        "vmap of grad of the chain": lambda: pb.xpr(pb.vmap(pb.grad(chain)), xs),
        "layers": lambda: pb.xpr(layers, m),
        "grad of jit of layers": lambda: pb.xpr(pb.grad(pb.jit(lambda m: layers(m))), m),
    }
    found = {}
    for name, trace in cases.items():
        with_it = work(trace) / OPERATIONS
        with lines_alone():
            found[name] = with_it, work(trace) / OPERATIONS
    return found


def main() -> None:
    print(f"{'':28}{'all':>12}{'lines':>12}{'more':>10}")
    for name, (with_it, without) in measured().items():
        print(f"{name:28}{with_it:12.0f}{without:12.0f}{with_it / without - 1:10.1%}")


if __name__ == "__main__":
    main()
