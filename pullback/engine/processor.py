"""The processor that code is compiled for, and how much of it this process may use."""

from __future__ import annotations

import functools
import os
import platform as machine


@functools.cache
def processor() -> str:
    """The processor's model and features: code compiled for one may not run on another."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            head = file.read(8192)
    except OSError:
        return f"{machine.machine()} {machine.processor()}"
    wanted = ("model name", "flags", "Features", "CPU implementer", "CPU part")
    found: dict[str, str] = {}
    for line in head.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in wanted:
            found.setdefault(name.strip(), value.strip())
    return f"{machine.machine()} {found}"


def usable_processors() -> int:
    """How many processors this process may use: XLA divides its loops among as many threads."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
