"""The page on checks runs, and prints what it shows."""

from __future__ import annotations

import pathlib

from running import runner

TESTS = pathlib.Path(__file__).parent.parent


def test_the_page_on_checks_runs() -> None:
    runner().check(TESTS.parent / "docs" / "checking.md")
