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


def test_pictures() -> None:
    """Each marker that names a picture shows it on GitHub, as one that `python docs/screenshots.py` has made."""
    named = 0
    for path in SHOWN:
        for marker, words in re.findall(r"^<!-- explore: (.*?) -->\n(.*?)\n<!-- /explore -->$", path.read_text(), re.M | re.S):
            pane = panes.parsed(marker)
            assert (pane.image != "") == ("![" in words)
            if pane.image:
                named += 1
                assert f"]({pane.image})" in words
                assert (path.parent / pane.image).read_bytes()[:4] == b"\x89PNG"
    assert named > 3


def test_the_chosen_row() -> None:
    stages = [
        {"id": "source", "rows": []},
        {"id": "base", "rows": [{"id": 1, "op": "mul"}]},
        {"id": "grad", "rows": [{"id": 5, "arg": "x"}, {"id": 7, "op": "mul"}]},
    ]
    data = {"stages": stages}
    assert panes.state_of(panes.parsed("f; panes=base,grad; at=mul"), data, "here") == "panes=base,grad&at=7"
    assert panes.state_of(panes.parsed("f; panes=source,costs"), data, "here") == "panes=source,costs"
    assert panes.state_of(panes.parsed("f"), data, "here") == ""
    found = {**data, "find": {"row": 8}}
    assert panes.state_of(panes.parsed("f; panes=base,grad; at=find"), found, "here") == "panes=base,grad&at=8"
    with pytest.raises(SiteError, match="here: there is no operation find"):
        panes.state_of(panes.parsed("f; panes=base,grad; at=find"), data, "here")


def test_a_marker_is_read() -> None:
    pane = panes.parsed("f, x, *rest; apply=grad,vmap(in_axes=(None, 0)); panes=base,grad; height=300")
    assert pane == ("f, x, *rest", "grad,vmap(in_axes=(None, 0))", "", "base,grad", "", "300", "")
    assert pane.call == 'pb.explore(f, x, *rest, apply="grad,vmap(in_axes=(None, 0))")'
    shown = panes.figure(pane, "a.pane-1.html", "panes=base,grad&at=7")
    assert 'src="a.pane-1.html?embed#panes=base,grad&amp;at=7"' in shown and 'height="300"' in shown
    assert panes.parsed("f, x").call == "pb.explore(f, x)"
    assert panes.parsed("f, x; values=yes").call == "pb.explore(f, x, values=True)"


@pytest.mark.parametrize("text", ["f, x; aply=grad", "f; pane=base", "; apply=grad", "f; values=no"])
def test_a_marker_that_cannot_be_read(text: str) -> None:
    with pytest.raises(SiteError, match="somewhere: an explorer pane takes arguments, then apply, values, panes"):
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
    ((place, (text, state)),) = panes.made([page]).items()
    assert (place, state) == ("tutorials/page.pane-1.html", "panes=base,grad")
    assert text.startswith("<!doctype html>") and "grad(sin)" in text
    assert str(tmp_path) not in text  # nothing says on which machine it was made
    assert "connect-src" not in text and "default-src 'none'" in text  # it can load nothing
    assert panes.made([page]) == {place: (text, state)}  # and is the same when it is made again


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("f = pb.numpy.sin", "f = 1 / 0", "ZeroDivisionError"),
        ("f, 1.0;", "g, 1.0;", "NameError: name 'g'"),
        ("panes=base,grad", "panes=base,gard", "page.md:9: the panes of .* are source, base, .*, not base,gard"),
        ("panes=base,grad", "panes=base,grad; at=mull", "page.md:9: there is no operation mull in the pane grad of"),
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


def test_the_source_of_a_pane_is_the_code_alone() -> None:
    text = "# A page\n\n```python\ndef f(x):\n    return x\n```\n\nMore:\n\n```text\n1\n```\n\n```python\ny = f(2)\n```\n"
    lines = panes.code_of(text).splitlines()
    shown = {number: line for number, line in enumerate(lines, 1) if line}
    assert shown == {4: "def f(x):", 5: "    return x", 15: "y = f(2)"} and text.splitlines()[14] == "y = f(2)"
