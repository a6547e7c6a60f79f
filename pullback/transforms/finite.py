"""Looking at every result as it is computed: NaN, or infinity, where there was none to be is an error at its operation.

The trace that does it stands where a Program would be recorded: whatever no transformation handles comes to it, and nothing
takes a fast path past it. It records nothing: it evaluates, and looks. A compiled function is looked at when it has returned;
if a result is no number, its Program is run again, one operation at a time, to find the one that is to blame.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from pullback.core.array import Array, host_of
from pullback.core.dtypes import is_inexact
from pullback.core.source import at_user_line
from pullback.core.tracing import Trace, evaluate, innermost_staging, staging
from pullback.program.provenance import Recorder


class Checker(Recorder):
    """Evaluates operations, and looks at what they give. Threads may share one: it keeps nothing.

    Attributes:
        nan, inf: what it raises `FloatingPointError` for.
    """

    __slots__ = ("inf", "nan")
    transformation = "check"
    evaluates = True
    attributed = made = property(lambda self: None, lambda self, value: None)
    scope = property(lambda self: (), lambda self, value: None)

    def __init__(self, nan: bool, inf: bool) -> None:
        super().__init__()
        self.recording = None
        self.serial = 0  # older than every transformation
        self.nan, self.inf = nan, inf

    def process(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        with staging.setting(None):
            out = evaluate(primitive, args, params)
        outs = out if primitive.multiple_results else (out,)
        found = next(filter(None, map(self.wrong, outs)), None)
        if found is not None:
            raise self.error(found, primitive, args, params)
        return out

    def error(self, found: str, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> FloatingPointError:
        """The error for what was found in an operation's result. That of a compiled function's own operation is raised."""
        says, program = f"invalid value ({found}) encountered in ", params.get("program")
        if program is None or primitive.expand is None:
            return FloatingPointError(f"{says}{primitive.name}.{at_user_line()}")
        says += f"jit({program.name}). Its operations did not give it when they were run one by one: "
        if any(map(self.wrong, args)):
            return FloatingPointError(f"{says}it is in an input already.{at_user_line()}")
        primitive.expand(*args, **params)
        return FloatingPointError(f"{says}it is a literal of the function, or what compiling made of it.{at_user_line()}")

    def wrong(self, value: Any) -> str | None:
        """What is in an array that should not be there, in a word."""
        if not isinstance(value, Array) or not is_inexact(value.type.dtype):
            return None
        host = np.asarray(host_of(value))
        if self.nan and np.any(np.isnan(host)):
            return "nan"
        return "inf" if self.inf and np.any(np.isinf(host)) else None


def checker(nan: bool, inf: bool) -> Checker | None:
    """What raises `FloatingPointError` for a result that holds NaN, or infinity; None where neither is looked for."""
    return Checker(nan, inf) if nan or inf else None


class _Results:
    """The trace that looks at results: that of the process, as its `default`, or of a block in a thread."""

    @property
    def default(self) -> Trace | None:
        return staging.default

    @default.setter
    def default(self, trace: Checker | None) -> None:
        before, staging.default = staging.default, trace
        if innermost_staging() is before:  # an interrupt, or `ensure_compile_time_eval`, has left it in this thread
            staging.variable.set(trace)

    def setting(self, trace: Checker | None) -> AbstractContextManager[None]:
        """The block. Where a function is traced nothing is looked at: its results are, when it runs."""
        around = innermost_staging()
        return staging.setting(trace) if around is None or isinstance(around, Checker) else nullcontext()

    def replace(self, trace: Checker | None) -> None:
        """In the block that this thread is in, look for something else."""
        around = innermost_staging()
        if around is None or isinstance(around, Checker):
            staging.variable.set(trace)


results = _Results()
