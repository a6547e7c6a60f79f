"""What it costs to record where equations come from: tracing as it is, and with nothing kept but the user's line, in turns.

    python benchmarks/provenance.py

Prints the CPU time of tracing one operation of the user's function with and without it, and by how much scopes, calls,
parents and rules add to it: they are to stay under 5 %.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType
from typing import Any
from unittest import mock

import numpy as np

import pullback as pb
import pullback.numpy as pnp
from pullback.core.source import CodeSource, is_users
from pullback.program import interpret
from pullback.transforms import batch, jvp, stage, transpose

OPERATIONS = 60
ROUNDS = 150


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


def line_alone(depth: int) -> CodeSource | None:
    """The innermost frame of the user's, and nothing of those that called it."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else CodeSource(frame.f_code, frame.f_lasti)


def lines_alone() -> ExitStack:
    """Tracing with no more than the user's lines, as long as this is entered."""
    patches = ExitStack()
    for module in (batch, jvp, transpose, interpret):
        patches.enter_context(mock.patch.object(module, "is_recording", bool))
    patches.enter_context(mock.patch.multiple(stage, user_source=line_alone, attributed={}.clear, made_by={}.clear))
    return patches


def seconds(trace: Callable[[], Any]) -> float:
    start = time.process_time()
    trace()
    return time.process_time() - start


def main() -> None:
    x, m, xs = np.float32(0.5), np.ones((3, 3), np.float32), np.ones(3, np.float32)
    cases: dict[str, Callable[[], Any]] = {
        "chain": lambda: pb.xpr(chain, x),
        "grad of the chain": lambda: pb.xpr(pb.grad(chain), x),
        "vmap of grad of the chain": lambda: pb.xpr(pb.vmap(pb.grad(chain)), xs),
        "layers": lambda: pb.xpr(layers, m),
        "grad of jit of layers": lambda: pb.xpr(pb.grad(pb.jit(lambda m: layers(m))), m),
    }
    print(f"{'':28}{'all':>12}{'lines':>12}{'more':>10}")
    for name, trace in cases.items():
        best = {True: float("inf"), False: float("inf")}
        for _ in range(ROUNDS):
            best[True] = min(best[True], seconds(trace))
            with lines_alone():
                best[False] = min(best[False], seconds(trace))
        with_it, without = (best[kept] / OPERATIONS * 1e6 for kept in (True, False))
        print(f"{name:28}{with_it:9.2f} us{without:9.2f} us{with_it / without - 1:9.1%}")


if __name__ == "__main__":
    main()
