"""Programs of JAX's packages, unmodified, on pullback and on JAX: their first calls, and the calls after these.

Each contestant is a process of its own; the two take turns.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from timing import ROUNDS, SLICE, report

HERE = Path(__file__).parent
CONTESTANTS = {"pullback": ["-m", "pullback.compat.jax"], "jax": []}
# How many times longer JAX is to take: for the first call, and for those after it.
PROMISES = {
    "optax_adamw": (1.2, 1.0),
    "equinox_mlp": (1.2, 1.0),
    "flax_linen": (1.2, 1.0),
    "diffrax_solve": (1.2, 1.0),
    "numpyro_nuts": (None, 1.0),
}
STARTS = 2  # processes of each contestant, whose first calls are timed


def started(arguments: list[str], name: str) -> tuple[subprocess.Popen[str], float]:
    """A process that has made the first call of a program, and the seconds that this took; no cache on disk helped."""
    with tempfile.TemporaryDirectory() as empty:
        process = subprocess.Popen(
            [sys.executable, *arguments, str(HERE / "programs" / f"{name}.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(HERE.parent), "PULLBACK_CACHE_DIR": empty, "JAX_PLATFORMS": "cpu"},
        )
        return process, answer(process)


def answer(process: subprocess.Popen[str]) -> float:
    assert process.stdout is not None
    return float(process.stdout.readline())


def calls(process: subprocess.Popen[str], count: int) -> float:
    """The seconds that a call takes, on average over some."""
    assert process.stdin is not None
    process.stdin.write(f"{count}\n")
    process.stdin.flush()
    return answer(process)


def compare(name: str) -> None:
    first: dict[str, list[float]] = {label: [] for label in CONTESTANTS}
    later: dict[str, list[float]] = {label: [] for label in CONTESTANTS}
    for start in range(STARTS):
        processes = {}
        for label, arguments in CONTESTANTS.items():
            processes[label], seconds = started(arguments, name)
            first[label].append(seconds)
        if start == STARTS - 1:
            count = max(1, int(SLICE / calls(processes["jax"], 1)))
            for _ in range(ROUNDS):
                for label, process in processes.items():
                    later[label].append(calls(process, count))
        for process in processes.values():
            process.communicate()
    report(f"{name}, first call", first, PROMISES[name][0])
    report(name, later, PROMISES[name][1])


if __name__ == "__main__":
    if unknown := [name for name in sys.argv[1:] if name not in PROMISES]:
        sys.exit(f"There is no benchmark {unknown[0]!r}. usage: python benchmarks/ecosystem.py [{'] ['.join(PROMISES)}]")
    for chosen in sys.argv[1:] or PROMISES:
        compare(chosen)
