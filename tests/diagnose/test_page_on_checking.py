"""The page on checks runs, and prints what it shows."""

from __future__ import annotations

import importlib.util
import pathlib
from typing import Any

TESTS = pathlib.Path(__file__).parent.parent


def test_the_page_on_checks_runs() -> None:
    found = importlib.util.spec_from_file_location("tutorial_runner", TESTS / "tutorials" / "tutorial_runner.py")
    assert found is not None and found.loader is not None
    running: Any = importlib.util.module_from_spec(found)
    found.loader.exec_module(running)
    running.check(TESTS.parent / "docs" / "checking.md")
