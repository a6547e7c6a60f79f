"""The page in a browser: what it shows, and what pointing, keys, folding and the search do."""

from __future__ import annotations

from collections.abc import Callable

from browser import Browser
from samples import generated, small

Show = Callable[..., Browser]


def test_it_opens(show: Show) -> None:
    browser = show(small())
    assert browser.texts(".pane h2") != []
    assert [browser.js(f"document.querySelectorAll('.pane')[{k}].dataset.stage") for k in range(4)] == [
        "source",
        "base",
        "grad",
        "vmap",
    ]
    assert browser.text("#title").startswith("Tiny classifier")
    assert browser.count(".row") > 30


def test_ten_thousand_equations_are_virtual(show: Show) -> None:
    browser = show(generated(10_000))
    assert browser.js("explorer.model.count") > 70_000
    assert browser.count(".row") < 250
