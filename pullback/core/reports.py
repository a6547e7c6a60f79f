"""What is traced and compiled, said to Python's logging, by the logger "pullback": at DEBUG, or louder where somebody asks."""

from __future__ import annotations

import sys
from typing import Any

from pullback.core.context import Inherited
from pullback.core.lazy import lazy_module

logging = lazy_module("logging")
DEBUG, WARNING = 10, 30  # logging's own numbers

level = Inherited("pullback_report_level", DEBUG)  # at which what is traced and compiled is logged
explaining = Inherited("pullback_explaining_misses", False)  # whether jit logs why it traces a function, as a warning
explains_misses = explaining.get
refusing = Inherited("pullback_refusing_traces", False)  # whether jit refuses to trace, where all is to have been traced before
refuses_traces = refusing.get


def report(message: str, *values: Any) -> None:
    """Log a message, %-formatted. Where nobody has loaded logging or asked for reports, nobody listens."""
    if (loudness := level.get()) > DEBUG or "logging" in sys.modules:
        logging.getLogger("pullback").log(loudness, message, *values)


def explain(message: str) -> None:
    """Log why something had to be traced."""
    logging.getLogger("pullback").warning(message)
