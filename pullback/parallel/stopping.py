"""Stopping together: one process is told to end, and all of them stop at the same step.

Whoever hears that one is to end begins no further step until all have said which one they began last, which a thread of each
does, so that one that waits for a result of a step is heard too. They stop before the step after the last of these.
"""

from __future__ import annotations

import threading
from typing import Any

from pullback.parallel.liveness import LISTENING, Link


class Stopping:
    """Whether the processes are to stop.

    Attributes:
        at: the step before which they do; None if they go on.
    """

    def __init__(self, link: Link) -> None:
        self.link = link
        self.at: int | None = None
        self._step = -1
        self._lock = threading.Lock()
        self._free = threading.Event()
        self._free.set()

    def ask_all(self) -> None:
        """All processes are to stop."""
        self.link.ask({"op": "preempt"})

    def reached(self, step: int) -> bool:
        """Whether to stop before this step."""
        while True:
            with self._lock:
                if self.at is not None or self._free.is_set():
                    self._step = max(self._step, step)
                    return self.at is not None and step >= self.at
            while not self._free.wait(LISTENING):
                self.link.check()

    def pushed(self, header: dict[str, Any]) -> None:
        """What the keeper says."""
        if header["push"] == "hold":
            with self._lock:
                self._free.clear()
                step = self._step
            self.link.channel.send({"op": "step", "id": 0, "step": step})
        elif header["push"] == "stop":
            with self._lock:
                self.at = header["step"]
            self._free.set()
