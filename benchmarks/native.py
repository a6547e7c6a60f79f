"""Small programs, loops and a few large ones, compiled by pullback, by JAX and, where they apply, by Numba and in PyTorch.

    python benchmarks/native.py [--first | --calls] [word ...]

Only the workloads (`workloads.py`) whose names, with the dtype behind them, contain one of the words; `--first` times first
calls alone, `--calls` those that follow alone. A row shows how many times our time JAX takes, by the least and by the median
times, and the floor that the project promises for the former; the least and the median time of each contestant; and how far our
values are from JAX's in float64, relative to the largest of them (for integers, the share that differs).

All contestants run in this process, in turns, on as many threads as each likes. Where JAX's call takes longer than a few
microseconds, results are waited for. First calls are tracing, compilation and the first run, with all caches cleared and none
on disk. The last line names the floors that were missed. Needs jax; numba and torch (eager, with torch.func) take part where
they are installed.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

os.environ.setdefault("PULLBACK_CACHE_DIR", "")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # PyTorch's and Numba's threads shall not spin while others are timed

import jax
import jax.numpy as jnp
import jax.scipy
import numpy as np
from timing import seconds, turns
from workloads import F32, F64, WORKLOADS, Library, PythonLoops, Workload, like_jax

import pullback as pb
import pullback.numpy as pnp
import pullback.scipy

jax.config.update("jax_enable_x64", True)

FIRST_FLOOR, FIRST_ROUNDS = 1.5, 5
SHORT = 20e-6  # what JAX does in less, it does within the call: its results are there when it returns, as ours are
FARTHEST = {F32: 2e-3, F64: 1e-9}


OURS, JAX = like_jax(pb, pnp), like_jax(jax, jnp)


@functools.cache
def torch() -> tuple[Library, Callable[[Any], Any]] | None:
    """PyTorch, and what makes a tensor of an array; None where it is not installed."""
    if not importlib.util.find_spec("torch"):
        return None
    torch = importlib.import_module("torch")

    def vmap(function: Callable[..., Any], in_axes: Any = 0) -> Callable[..., Any]:
        return torch.func.vmap(function, in_dims=in_axes)  # type: ignore[no-any-return]

    convolve = functools.partial(torch.nn.functional.conv2d, padding=1)
    lax, sort = PythonLoops(torch), lambda x: torch.sort(x).values
    return Library(torch, lax, torch.func.grad, vmap, lambda f: f, torch.erf, sort, convolve), torch.from_numpy


@functools.cache
def numba() -> Mapping[str, Any]:
    """The workloads as Numba's functions; none where it is not installed."""
    return importlib.import_module("with_numba").PROGRAMS if importlib.util.find_spec("numba") else {}


def contestants(name: str, work: Workload, host: tuple[Any, ...]) -> dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]:
    """For each contestant, ours first: a call of it, and what waits for results."""
    ours, theirs = [pnp.asarray(x) for x in host], [jnp.asarray(x) for x in host]
    found: dict[str, Any] = {
        "pullback": (functools.partial(pb.jit(work.make(OURS, work.size)), *ours), pb.block_until_ready),
        "jax": (functools.partial(jax.jit(work.make(JAX, work.size)), *theirs), jax.block_until_ready),
    }
    if name in numba():
        found["numba"] = functools.partial(numba()[name](work.size), *[x[()] for x in host]), None
    if work.torch and (made := torch()) is not None:
        library, place = made
        found["torch"] = functools.partial(work.make(library, work.size), *[place(np.asarray(x)) for x in host]), None
    return found


def waiting(call: Callable[[], Any], wait: Callable[[Any], Any] | None) -> Callable[[], Any]:
    return call if wait is None else lambda: wait(call())


def is_short(call: Callable[[], Any], wait: Callable[[Any], Any]) -> bool:
    def once() -> float:
        start = time.perf_counter()
        wait(call())
        return time.perf_counter() - start

    return min(once() for _ in range(5)) < SHORT


def apart(found: Any, expected: Any) -> float:
    """How far results are from what they should be."""
    farthest = 0.0
    as_arrays = [[np.asarray(x) for x in (out if isinstance(out, tuple) else (out,))] for out in (found, expected)]
    for a, b in zip(*as_arrays, strict=True):
        assert a.shape == b.shape, f"{a.shape} in place of {b.shape}"
        if b.dtype.kind in "iu":
            farthest = max(farthest, float(np.mean(a != b)))
        else:
            farthest = max(farthest, float(np.max(np.abs(a - b)) / np.max(np.abs(b))))
    return farthest


def row(name: str, times: Mapping[str, list[float]], floor: float, note: str = "") -> str | None:
    """Print a row; returns what to say of its floor at the end, if it was missed."""
    ours, theirs = times["pullback"], times["jax"]
    least, median = min(theirs) / min(ours), statistics.median(theirs) / statistics.median(ours)
    met = least >= floor
    promised = f"floor {floor:<4g} {'met' if met else 'MISSED'}"
    cells = [f"{label} {seconds(min(x))}/{seconds(statistics.median(x))}" for label, x in times.items()]
    print(f"{name:36} x{least:.2f}/{median:.2f}  {promised:18} {'  '.join(cells)}{note}", flush=True)
    return None if met else f"{name} ({least:.2f} of {floor:g})"


def calls(name: str, work: Workload, dtype: str, floor: float) -> str | None:
    """Time the calls that follow a first one, whose values are compared."""
    host = work.arguments(dtype, work.size)
    wide = work.make(JAX, work.size)
    expected = jax.jit(wide)(*[jnp.asarray(x.astype(F64)) for x in host])
    found = contestants(name, work, host)
    errors = {label: apart(call(), expected) for label, (call, _) in found.items()}
    for label, error in errors.items():
        assert error <= FARTHEST[dtype], f"{name} {dtype}: the values of {label} are {error:.1e} away from JAX's in float64"
    short = is_short(*found["jax"])
    work_of = {label: waiting(call, None if short else wait) for label, (call, wait) in found.items()}
    return row(f"{name} {dtype}", turns(work_of), floor, f"  error {errors['pullback']:.0e}")


def first(name: str, work: Workload, dtype: str) -> str | None:
    """Time first calls: of functions that are made anew, by libraries that remember nothing."""
    host = work.arguments(dtype, work.size)
    times: dict[str, list[float]] = {"pullback": [], "jax": []}
    for _ in range(FIRST_ROUNDS):
        for label, lib, place, wait in (
            ("pullback", OURS, pnp.asarray, pb.block_until_ready),
            ("jax", JAX, jnp.asarray, jax.block_until_ready),
        ):
            args = [place(x) for x in host]
            wait(args)
            jax.clear_caches()
            pb.clear_caches()
            start = time.perf_counter()
            wait(lib.jit(work.make(lib, work.size))(*args))
            times[label].append(time.perf_counter() - start)
    return row(f"{name} {dtype}, first call", times, FIRST_FLOOR)


def main(arguments: list[str]) -> None:
    words = [word for word in arguments if not word.startswith("--")]
    print(f"# {platform.machine()}, {len(os.sched_getaffinity(0))} cores, jax {jax.__version__}, numpy {np.__version__}")
    missed = []
    for name, work in WORKLOADS.items():
        for dtype, floor in zip((F32, F64), work.floors, strict=True):
            if floor is None or (words and not any(word in f"{name} {dtype}" for word in words)):
                continue
            if "--first" not in arguments:
                missed.append(calls(name, work, dtype, floor))
            if "--calls" not in arguments and dtype == F32:
                missed.append(first(name, work, dtype))
    missed = [one for one in missed if one is not None]
    print(f"floors missed: {len(missed)}{': ' if missed else ''}{', '.join(missed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
