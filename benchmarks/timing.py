"""Side-by-side timing: the contestants take turns in one process, and what is believed is the ratio of each turn.

Machines are shared and noisy, and drift; two things measured a moment apart drift together. A row is printed with the
minimum and the median of each contestant, and of the ratios to the first one (ours): how many times longer the other took.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping

ROUNDS = 15
SLICE = 0.02  # seconds that one contestant's turn takes, about


def _repeats(function: Callable[[], object]) -> int:
    function()
    start = time.perf_counter()
    function()
    once = max(time.perf_counter() - start, 1e-7)
    return max(1, int(SLICE / once))


def race(
    name: str, contestants: Mapping[str, Callable[[], object]], at_least: float | None = None, rounds: int = ROUNDS
) -> float:
    """Time the contestants in turns and print a row; returns the median ratio of the second to the first.

    Arguments:
        contestants: ours first, then the peers; each is called with nothing.
        at_least: the least ratio that the project promises, printed with whether it was met.
    """
    return report(name, turns(contestants, rounds), at_least)


def turns(
    contestants: Mapping[str, Callable[[], object]], rounds: int = ROUNDS, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """The seconds that a call of each contestant takes, in each of its turns; by `time.process_time`, those of the processor,
    which other processes do not lengthen. Every other round goes the other way, since threads and caches are as the one before
    left them."""
    repeats = {label: _repeats(function) for label, function in contestants.items()}
    times: dict[str, list[float]] = {label: [] for label in contestants}
    order = list(contestants)
    gc.collect()
    gc.disable()
    try:
        for i in range(rounds):
            for label in order[:: -1 if i % 2 else 1]:
                function, count = contestants[label], repeats[label]
                start = clock()
                for _ in range(count):
                    function()
                times[label].append((clock() - start) / count)
    finally:
        gc.enable()
    return times


def report(name: str, times: Mapping[str, list[float]], at_least: float | None = None) -> float:
    """Print a row for times taken in turns, in seconds; the first label is ours."""
    ours, *peers = times
    cells = [f"{label} {seconds(min(found))}/{seconds(statistics.median(found))}" for label, found in times.items()]
    first = 0.0
    for peer in peers:
        ratios = [theirs / mine for theirs, mine in zip(times[peer], times[ours], strict=True)]
        median = statistics.median(ratios)
        verdict = ""
        if peer == peers[0]:
            first = median
            if at_least is not None:
                verdict = f" (at least {at_least:g}: {'met' if median >= at_least else 'MISSED'})"
        cells.append(f"vs {peer} x{min(ratios):.2f}/{median:.2f}{verdict}")
    print(f"{name:34} {'  '.join(cells)}", flush=True)
    return first


def seconds(value: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g}{unit}"
    return f"{value / 1e-9:.3g}ns"
