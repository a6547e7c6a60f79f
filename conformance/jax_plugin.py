"""The pytest plugin by which `jax_tests.py` runs JAX's tests: it puts pullback in JAX's place, and writes what each test did.

What it is to do comes in the environment, as JSON in PULLBACK_JAX_TESTS: `checkout`, `report` (the file to write), `shard`
[i, n], `seconds` (the longest that a test may take), `done` (tests to leave out, by their ids).
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax_checkout
import jax_internals
import pytest
from jax_checkout import Absent, State

TASK = json.loads(os.environ["PULLBACK_JAX_TESTS"])
REPORT = open(TASK["report"], "a", buffering=1)  # noqa: SIM115  (it is written until the process ends, however it ends)
NOT_PROVIDED = re.compile(r"(?:^|\s)(jax[\w.]*(?:'s [^.]*?)?) is not provided by pullback")
NO_SUCH_IMPORT = re.compile(r"cannot import name '(\w+)' from '(?:pullback\.compat\.)?(jax[\w.]*)'")
PRIVATE = re.compile(r"(\w+' object has no attribute '_(?!_)\w+)'$")
# assertRaisesRegex says so once the error was of the expected class
OTHER_WORDS = re.compile(r'^AssertionError: ".*" does not match "', re.DOTALL)
LONGEST_DETAIL = 300


def write(**fields: Any) -> None:
    REPORT.write(json.dumps(fields) + "\n")


def name_of(item: Any) -> str:
    return item.nodeid.rpartition("/")[2]


class TooLong(BaseException):
    """A test took longer than it may."""


def _interrupt(number: int, frame: Any) -> None:
    raise TooLong(f"it took longer than {TASK['seconds']} s")


def pytest_configure(config: Any) -> None:
    jax_checkout.install(Path(TASK["checkout"]))
    signal.signal(signal.SIGALRM, _interrupt)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[Any]) -> None:
    which, of = TASK["shard"]
    done = frozenset(TASK["done"])
    items[:] = [item for number, item in enumerate(items) if number % of == which and name_of(item) not in done]


def pytest_collection_finish(session: Any) -> None:
    jax_internals.refuse_counts()
    State.collecting = False
    write(collected=len(session.items))


def pytest_collectreport(report: Any) -> None:
    if report.failed:
        text = str(report.longrepr).strip()
        write(broken=report.nodeid.rpartition("/")[2], detail=text.splitlines()[-1][:LONGEST_DETAIL], text=text[-6000:])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: Any, nextitem: Any) -> Iterator[None]:
    write(started=name_of(item))
    State.used.clear()
    signal.alarm(TASK["seconds"])
    try:
        return (yield)
    finally:
        signal.alarm(0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Iterator[Any]:
    report = yield
    if report.when == "call" or not report.passed:
        outcome, detail = report.outcome, ""
        if report.skipped:
            detail = str(report.longrepr[-1]) if isinstance(report.longrepr, tuple) else ""
        elif report.failed:
            detail = f"{type(call.excinfo.value).__name__}: {call.excinfo.value}"
            absent = missing_name(call.excinfo.value)
            if absent is not None:
                outcome, detail = "internal" if absent.startswith("jax._src") else "absent", absent
            elif OTHER_WORDS.search(detail):
                outcome = "text"
        write(test=name_of(item), outcome=outcome, detail=detail[:LONGEST_DETAIL], seconds=round(call.duration, 2))
    return report


def missing_name(error: BaseException | None) -> str | None:
    """The name of JAX's whose absence made a test fail; None if it failed by itself."""
    if State.used:
        return State.used[0]
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, Absent):
            return str(error)
        if found := NOT_PROVIDED.search(str(error)):
            return found[1]
        if isinstance(error, AttributeError) and (found := PRIVATE.search(str(error))):
            return f"jax._src: {found[1]}"
        if isinstance(error, ImportError) and (found := NO_SUCH_IMPORT.search(str(error))):
            return f"{found[2]}.{found[1]}"
        error = error.__cause__ or error.__context__
    return None
