"""How the page is put together: one file that asks for nothing, whose parts are small and do not get in each other's way."""

from __future__ import annotations

import collections
import html.parser
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from browser import find_browser
from samples import small

import pullback
from pullback.core.errors import ProgramError
from pullback.explorer.page import page_html

ROOT = Path(pullback.__file__).parent
FOLDER = ROOT / "explorer" / "page"
MODULES = {file.name: file.read_text(encoding="utf-8") for file in sorted(FOLDER.glob("*.js"))}
TOP_LEVEL = re.compile(r"^(?:export )?(?:const|let|function|class|async function) (.*)$", re.MULTILINE)
IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+\.js)";$', re.MULTILINE)


def names_of(text: str) -> list[str]:
    """What a module defines at its top level: one name a statement."""
    return [name for line in TOP_LEVEL.findall(text) for name in re.findall(r"^\w+", line)]


class Reader(html.parser.HTMLParser):
    """The elements of a page, and what their attributes lead to."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: collections.Counter[str] = collections.Counter()
        self.links: list[str] = []
        self.data = ""
        self.inside = False

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.links += [value or "" for name, value in attributes if name in ("src", "href", "srcset", "action", "data")]
        self.inside = ("id", "data") in attributes

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.data += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    return reader


def test_it_is_one_file_that_asks_for_nothing() -> None:
    page = page_html(small())
    reader = read(page)
    assert reader.links == []
    assert reader.tags["script"] == 2 and reader.tags["style"] == 1 and reader.tags["link"] == reader.tags["img"] == 0
    assert "default-src 'none'" in page and not re.search(r"https?://|@import|url\(", page)
    assert json.loads(reader.data) == small()


def test_older_browsers_show_the_light_colours() -> None:
    style = page_html(small()).split("<style>")[1].split("</style>")[0]
    sheet, fallback = style.split("@supports not (color: light-dark(#000, #fff))")
    colours = dict(re.findall(r"(--[\w-]+): light-dark\((#\w+), #\w+\);", sheet))
    assert len(colours) >= 20 and sheet.count("light-dark(") == len(colours)
    assert dict(re.findall(r"(--[\w-]+): (#\w+);", fallback)) == colours


HOSTILE = [
    "</script><script>window.hacked = 1</script>", "<!-- <script>", "<!--{script}-->", "]]>", "\u2028\u2029\x00\x7f",
    "\ud800 alone",
    "\\u003c/script>", "'\"`${window.hacked = 1}", "שלום 日本 🎈",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_any_text_stays_a_text(text: str) -> None:
    data = {**small(), "title": text}
    data["stages"][0]["rows"][0]["text"] = text
    page = page_html(data)
    page.encode()  # it can be written
    reader = read(page)
    assert reader.tags == read(page_html(small())).tags
    assert json.loads(reader.data) == data


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "Out of range float values"),
        (float("inf"), "Out of range"),
        ({1, 2}, "type set"),
        (Path("."), "not JSON"),
    ],
)
def test_what_is_not_json_is_refused(value: Any, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        page_html({**small(), "title": value})


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_one_idea(name: str) -> None:
    text = MODULES[name]
    assert text.startswith("/** "), "it says what it is for"
    assert len(text.splitlines()) <= 240
    assert "</" + "script" not in text and "<!--" not in text and "\r" not in text
    assert not re.search(r"\bfetch\(|XMLHttpRequest|localStorage|eval\(|document\.write|console\.", text)
    assert max(map(len, text.splitlines())) <= 128


@pytest.mark.parametrize("name", MODULES)
def test_modules_import_what_others_export_and_they_use(name: str) -> None:
    for names, other in IMPORT.findall(MODULES[name]):
        exported = {
            found
            for found in names_of(MODULES[other])
            if re.search(rf"^export [^\n]*\b{found}\b", MODULES[other], re.MULTILINE)
        }
        imported = {found.strip() for found in names.split(",")}
        assert imported <= exported, f"{name}: {imported - exported} of {other}"
        body = IMPORT.sub("", MODULES[name])
        assert [found for found in imported if not re.search(rf"\b{found}\b", body)] == []


def test_nothing_is_exported_or_defined_in_vain() -> None:
    imported = {found.strip() for text in MODULES.values() for names, _ in IMPORT.findall(text) for found in names.split(",")}
    exported = {name for text in MODULES.values() for name in re.findall(r"^export \w+ (\w+)", text, re.MULTILINE)}
    assert exported - imported == set()
    everything = "".join(MODULES.values())
    assert [
        name for text in MODULES.values() for name in names_of(text) if len(re.findall(rf"\b{name}\b", everything)) < 2
    ] == []
    style = re.sub(r"\{[^}]*\}", "", (FOLDER / "page.css").read_text())
    used = everything + (FOLDER / "page.html").read_text()
    classes = {name for name in re.findall(r"\.([a-z][\w-]*)", style) if not name.startswith("is-")}  # roles
    assert [name for name in classes if not re.search(rf"\b{name}\b", used)] == []


def test_modules_share_one_scope_without_a_clash() -> None:
    names = collections.Counter(name for text in MODULES.values() for name in names_of(text))
    assert [name for name, count in names.items() if count > 1] == []
    reached = re.findall(r"^// ==== (\w+\.js)$", page_html(small()), re.MULTILINE)
    assert sorted(reached) == sorted(MODULES), "every module is in the page, once"
    for name, text in MODULES.items():  # each after those that it imports
        assert all(reached.index(other) < reached.index(name) for _, other in IMPORT.findall(text))


def test_the_parts_are_installed() -> None:
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["pullback"]
    installed = {file for pattern in patterns for file in ROOT.glob(pattern)}
    assert set(FOLDER.iterdir()) <= installed


def test_a_browser_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_CHROMIUM", "no-such-browser")
    with pytest.raises(FileNotFoundError, match="'no-such-browser', which is not a program"):
        find_browser()
    monkeypatch.delenv("PULLBACK_CHROMIUM")
    monkeypatch.setenv("PATH", "")
    assert find_browser() is None
