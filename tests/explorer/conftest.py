"""The browser of these tests: one for each process, started when a test needs it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import NAMES, Browser, browsing, find_browser

from pullback.explorer.page import page_html


@pytest.fixture(scope="session")
def one_browser() -> Iterator[Browser]:
    path = find_browser()
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is on the path, and PULLBACK_CHROMIUM is not set")
    with browsing(path) as browser:
        yield browser


@pytest.fixture
def browser(one_browser: Browser) -> Iterator[Browser]:
    """A page must not fail, warn, or ask the network for anything, whatever the test does."""
    one_browser.faults.clear()
    one_browser.view()
    yield one_browser
    assert one_browser.faults == []


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Callable[..., Browser]:
    """Opens the page of some data, at a state of its address."""

    def opened(data: dict[str, Any], state: str = "") -> Browser:
        path = tmp_path / f"{re.sub(r'[^a-z]+', '-', str(data.get('title', 'page')).lower())[:30]}.html"
        path.write_text(page_html(data), encoding="utf-8")
        browser.path = path
        browser.open(path, state)
        return browser

    return opened
