"""Options of the suite."""

from __future__ import annotations

import os
import pathlib
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest

# Of NumPy's and SciPy's BLAS, which reads it when it is loaded: on matrices as small as the suite's its threads only wait for
# each other, with all their might, since each core has a worker of pytest-xdist's already.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import rendered

from pullback.core import source
from pullback.program.checking import check_program
from pullback.program.program import Program

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a process that a shell runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def every_program_keeps_the_rules() -> Iterator[None]:
    """Whatever Program the transformations make in a test is held to the grammar of the IR."""
    make = Program.__init__

    def checked(self: Program, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        if sys._getframe(1).f_globals["__name__"].startswith("pullback.transforms."):
            check_program(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Program, "__init__", checked)
        yield


reader = rendered.Reader()
FACADE = pathlib.Path(__file__).parent / "compat" / "facade"


@pytest.fixture(autouse=True, scope="session")
def every_error_is_read() -> Iterator[None]:
    """Whatever error pullback raises in a test is held to the rules of messages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "_show", reader)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test fails in which an error breaks one of those rules; but for those of the façade, whose messages are JAX's. Of
    one that fails for another reason, or is skipped, that is told instead; nothing is left for which the next one is blamed."""
    try:
        yield
    finally:
        wrong = reader.take()
    if wrong and not item.path.is_relative_to(FACADE):
        pytest.fail("\n".join(wrong), pytrace=False)


pytest_runtest_setup = pytest_runtest_teardown = pytest_runtest_call


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--campaign", action="store_true", help="also run the long campaigns of random programs")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if unstable := [item.nodeid for item in items if " at 0x" in item.nodeid]:  # another one in each worker of pytest-xdist
        raise pytest.UsageError(f"This test is named by an address: {unstable[0]}. Give ids.")
    if not config.getoption("--campaign"):
        chosen = [item for item in items if item.get_closest_marker("campaign") is None]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A module that imports JAX's façade has begun JAX's habits in the whole process: they end before the next one is imported,
    and its tests begin them for themselves."""
    if (package := sys.modules.get("pullback.compat.jax.facade")) is not None:
        package.end_habits()
