"""Explorer panes in the pages: each marker becomes a page of the explorer's, made by the code that stands above it."""

from __future__ import annotations

import pathlib
import re

import build
import pytest
from website import panes
from website.markup import Names, html
from website.pages import DOCS, Page, SiteError, place_of

SHOWN = [path for path in sorted(DOCS.rglob("*.md")) if panes.MARKER.search(path.read_text())]


def test_transformations_are_shown() -> None:
    """Each course has a pane on its first page, and every marker has its end, with text between for who reads the Markdown."""
    assert {path.name[:3] for path in SHOWN} >= {"101", "201", "301", "401", "501"}
    for path in SHOWN:
        text = path.read_text()
        between = re.findall(r"^<!-- explore: .*? -->\n(.*?)\n<!-- /explore -->$", text, re.M | re.S)
        assert len(between) == len(panes.MARKER.findall(text)) == text.count("<!-- explore") == text.count("/explore -->")
        assert all(50 < len(words) < 400 for words in between), path.name


def test_a_marker_is_read() -> None:
    pane = panes.parsed("f, x, *rest; apply=grad,vmap(in_axes=(None, 0)); panes=base,grad; height=300")
    assert pane == ("f, x, *rest", "grad,vmap(in_axes=(None, 0))", "base,grad", "300")
    assert pane.call == 'pb.explore(f, x, *rest, apply="grad,vmap(in_axes=(None, 0))")'
    shown = panes.figure(pane, "a.pane-1.html")
    assert 'src="a.pane-1.html?embed#panes=base,grad"' in shown and 'height="300"' in shown
    assert panes.parsed("f, x").call == "pb.explore(f, x)"


@pytest.mark.parametrize("text", ["f, x; aply=grad", "f; pane=base", "; apply=grad"])
def test_a_marker_that_cannot_be_read(text: str) -> None:
    with pytest.raises(SiteError, match=r"somewhere: an explorer pane takes arguments, then apply, panes, height"):
        panes.parsed(text, "somewhere")


PAGE = """# A page

```python
import pullback as pb

f = pb.numpy.sin
```

<!-- explore: f, 1.0; apply=grad; panes=base,grad -->
*Instead.*
<!-- /explore -->

After.

```python
raise RuntimeError("this is not needed by the pane")
```
"""


def written(tmp_path: pathlib.Path, text: str) -> Page:
    (tmp_path / "page.md").write_text(text)
    page = Page(DOCS / "tutorials" / "README.md", "tutorials/page.html", text)
    page.source = tmp_path / "page.md"
    return page


def test_a_pane_is_made_by_the_code_above_it(tmp_path: pathlib.Path) -> None:
    page = written(tmp_path, PAGE)
    ((place, text),) = panes.made([page]).items()
    assert place == "tutorials/page.pane-1.html"
    assert text.startswith("<!doctype html>") and "grad(sin)" in text
    assert "connect-src" not in text and "default-src 'none'" in text  # it can load nothing
    assert panes.made([page]) == {place: text}  # and is the same when it is made again


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("f = pb.numpy.sin", "f = 1 / 0", "ZeroDivisionError"),
        ("f, 1.0;", "g, 1.0;", "NameError: name 'g'"),
        ("panes=base,grad", "panes=base,gard", "page.md:9: the panes of .* are source, base, .*, not base,gard"),
    ],
)
def test_code_that_fails(old: str, new: str, said: str, tmp_path: pathlib.Path) -> None:
    page = written(tmp_path, PAGE.replace(old, new))
    with pytest.raises(SiteError, match=said):
        panes.made([page])


def test_with_and_without_panes() -> None:
    page = Page(DOCS / "errors.md", place_of(DOCS / "errors.md"), PAGE)
    without = html(page, Names([]))
    assert "<em>Instead.</em>" in without and "explore:" not in without
    shown = html(page, Names([]), ["<figure>F</figure>\n"])
    assert "<figure>F</figure>" in shown and "Instead" not in shown and "<p>After.</p>" in shown


def test_the_command(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    build.main([str(tmp_path / "out"), "--no-panes"])
    assert capsys.readouterr().out.endswith(f"pages: open {tmp_path / 'out' / 'index.html'}\n")
    assert not list((tmp_path / "out").rglob("*.pane-*"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    with pytest.raises(SystemExit, match="no site that this program built"):
        build.main([str(tmp_path / "mine")])
