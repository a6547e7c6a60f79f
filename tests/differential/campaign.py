"""Compares random programs under random stacks with JAX; needs the extra `compare` (jax).

    python tests/differential/campaign.py --cases 20000 --seed 0 --processes 2 --expected expected/
    python tests/differential/campaign.py --only 1234           # one case, in full

Every case runs in JAX, compiled; and here, as it is, and either recorded and replayed or, each fourth one, compiled. What
counts as a disagreement: another value, shape or dtype, or an exception on one side alone, unless JAX without compilation
sides with us (rounding breaks ties). JAX takes most of the time; what it finds is kept in the folder `--expected`.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import multiprocessing
import os
import pathlib
import pickle
import sys
import time
import warnings
from typing import Any

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from generate import Case, draw, stacked

# Of float64 and float32: what rounding may leave after up to three derivatives of a short program.
TOLERANCE = {"float64": 1e-7, "float32": 2e-3}

# Cases in which jax is wrong, and why.
NOT_OURS = {
    (0, 1186): "the value of a scan whose body has a custom_jvp loses the rule in jax: its gradient is that of the function",
    (0, 12800): "the same, with a Hessian; with the scan unrolled, jax gives what is found here",
    (0, 14662): "the same, with two derivatives",
    (0, 18660): "the same, with jacrev of value_and_grad",
    (0, 19468): "the same: the rule that jax's sinc has at 0",
    (1, 142): "the same, with value_and_grad of a Hessian; with the scan unrolled, jax gives what is found here",
    (0, 16610): "hypot of two equal numbers, whose second derivative has a kink in jax",
    (0, 14883): "a tie that rounding breaks; jax with disable_jit gives what is found here",
    (0, 4975): "the third derivative of sinc near 0 is wrong in jax, in float32: 1.86 at 0.006 where 0.117 is right",
}


def library(name: str) -> Any:
    """pullback, or jax with 64-bit dtypes."""
    module = importlib.import_module(name)
    if name == "jax":
        module.config.update("jax_enable_x64", True)
    return module


def outcome(library: Any, case: Case, way: str = "eager") -> Any:
    """The case's value as a NumPy array, or the exception that it raised, as text."""
    function = stacked(library, case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            x = library.numpy.asarray(case.x)
            run = {
                "eager": lambda: function,
                "compiled": lambda: library.jit(function),
                "recorded": lambda: library.xpr(function, x),
            }
            return np.asarray(run[way]()(x))
        except Exception as error:
            return f"{type(error).__name__}: {error}"


def difference(found: Any, expected: Any) -> str:
    """How two outcomes differ, in words; empty if they agree."""
    if isinstance(expected, str) or isinstance(found, str):
        if isinstance(expected, str) and isinstance(found, str):
            return ""
        side, error = ("pullback", found) if isinstance(found, str) else ("jax", expected)
        return f"only {side} raises {error[:300]}"
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype}{found.shape} where jax has {expected.dtype}{expected.shape}"
    tolerance = TOLERANCE[str(expected.dtype)]
    if not np.allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True):
        return f"{found} where jax has {expected}"
    return ""


def expected_of(seed: int, numbers: range, folder: str | None) -> list[Any]:
    """What JAX finds for some cases: read, if it was kept."""
    file = pathlib.Path(folder, f"{seed}-{numbers.start}-{numbers.stop}.pickle") if folder else None
    if file is not None and file.exists():
        kept: list[Any] = pickle.loads(file.read_bytes())
        return kept
    jax = library("jax")
    found = [outcome(jax, draw(seed, number), "compiled") for number in numbers]
    jax.clear_caches()
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(pickle.dumps(found))
    return found


def compare(case: Case, expected: Any, pullback: Any) -> list[str]:
    """Every disagreement of one case."""
    found = []
    for way in ("eager", "recorded" if case.number % 4 else "compiled"):
        with pullback.default_bits(64):
            told = difference(outcome(pullback, case, way), expected)
        if told:
            found.append(f"{way}: {told}")
    return found


def run_block(seed: int, numbers: range, folder: str | None, record: bool) -> tuple[int, list[str]]:
    """Compare some cases; how many there were, and what disagreed."""
    kept = expected_of(seed, numbers, folder)
    if record:
        return len(numbers), []
    pullback = library("pullback")
    lines = []
    for number, expected in zip(numbers, kept, strict=True):
        case = draw(seed, number)
        found = compare(case, expected, pullback)
        if found and (seed, number) not in NOT_OURS and compare(case, outcome(library("jax"), case), pullback):
            lines.append(f"{case}\n    " + "\n    ".join(found))
    pullback.clear_caches()
    return len(numbers), lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--block", type=int, default=100, help="cases that one task of a process compares")
    parser.add_argument("--expected", help="folder that keeps what JAX finds")
    parser.add_argument("--record", action="store_true", help="only fill that folder")
    parser.add_argument("--only", type=int, help="run one case, and show the exceptions whole")
    options = parser.parse_args()
    os.environ["PULLBACK_CACHE_DIR"] = ""  # nothing of this is worth a file
    if options.only is not None:
        return show(options.seed, options.only)
    start, total, disagreements = time.perf_counter(), 0, 0
    blocks = [
        range(at, min(at + options.block, options.first + options.cases))
        for at in range(options.first, options.first + options.cases, options.block)
    ]
    context = multiprocessing.get_context("spawn")
    block_runner = functools.partial(run_block, options.seed, folder=options.expected, record=options.record)
    with context.Pool(options.processes, maxtasksperchild=20) as pool:  # jax's own caches grow with every case
        for count, lines in pool.imap_unordered(block_runner, blocks):
            total += count
            disagreements += len(lines)
            for line in lines:
                print(line, flush=True)
            if total % 1000 < count:
                print(f"# {total} cases, {disagreements} disagree, {time.perf_counter() - start:.0f} s", flush=True)
    print(f"{total} cases, {disagreements} disagree.")
    return 1 if disagreements else 0


def show(seed: int, number: int) -> int:
    """One case in full."""
    case = draw(seed, number)
    print(case)
    for name, way in (("jax", "eager"), ("pullback", "eager"), ("pullback", "recorded"), ("pullback", "compiled")):
        module = library(name)
        with library("pullback").default_bits(64):
            print(f"{name}, {way}: {outcome(module, case, way)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
