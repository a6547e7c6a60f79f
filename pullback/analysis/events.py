"""What XLA's profiler recorded of runs of a program: when each operation ran, and inside of which other one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pullback.engine.jaxlib import profile_data, profiler


class Event(NamedTuple):
    """An operation that ran.

    Attributes:
        name: the operation's. run: the number of the run, from 0 on. thread: the number of the thread.
        start: nanoseconds from the first event on. duration: how long it took, with what ran inside of it. own: without that.
    """

    name: str
    run: int
    thread: int
    start: float
    duration: float
    own: float


def record(runs: Callable[[], object]) -> bytes:
    """What happens in a call, as the profiler writes it. Raises RuntimeError while another profile is being recorded."""
    options = profiler().ProfileOptions()
    options.python_tracer_level, options.host_tracer_level = 0, 2
    options.raise_error_on_start_failure = True
    try:
        session = profiler().ProfilerSession(options)
        try:
            runs()
        finally:
            found = session.stop()
    except Exception as error:
        if "ALREADY_EXISTS" not in str(error):  # it is found out at the start, or at the end
            raise
        raise RuntimeError(
            "Another profile is being recorded, and XLA records one at a time: end that first (pb.profiler.stop_trace)."
        ) from None
    return bytes(found)


def events_of(profile: bytes, module: str) -> list[Event]:
    """The operations of a module that ran, in the order in which they began.

    Arguments:
        profile: what was recorded. module: the name of the module, as its text has it.
    """
    rows: list[tuple[float, float, str, Any, int]] = []
    thread = 0
    for plane in profile_data().ProfileData.from_serialized_xspace(profile).planes:
        for line in plane.lines:
            thread += 1
            for event in line.events:
                name = event.name
                if name.startswith(("end: ", "ThreadpoolListener")):
                    continue
                stats = dict(event.stats)
                if stats.get("hlo_module") == module and "hlo_op" in stats:
                    rows.append((event.start_ns, event.duration_ns, str(stats["hlo_op"]), stats.get("run_id"), thread))
    rows.sort(key=lambda row: (row[0], -row[1]))
    first = rows[0][0] if rows else 0.0
    numbers = {run: i for i, run in enumerate(dict.fromkeys([row[3] for row in rows]))}
    inside = [0.0] * len(rows)  # how long other operations took inside of each
    opened: dict[int, list[int]] = {}  # by thread, those that have begun and not ended
    for i, (start, duration, _, _, at) in enumerate(rows):
        stack = opened.setdefault(at, [])
        while stack and rows[stack[-1]][0] + rows[stack[-1]][1] <= start:
            stack.pop()
        if stack:
            inside[stack[-1]] += duration
        stack.append(i)
    return [
        Event(name, numbers[run], at, start - first, duration, max(duration - inner, 0.0))
        for (start, duration, name, run, at), inner in zip(rows, inside)
    ]
