"""The site: every link in it leads somewhere, it needs no network, and building it twice makes the same files."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import subprocess
from collections import Counter
from html.parser import HTMLParser
from urllib.parse import quote, unquote, urlsplit

import build
import pytest
from website import pages, search
from website.contents import contents
from website.markup import Names, code
from website.pages import DOCS, ROOT, Page, SiteError

VOID = {"meta", "link", "img", "input", "br", "hr"}


class Parsed(HTMLParser):
    """A page as a browser reads it: what it names, what it leads to, and whether its elements are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: Counter[str] = Counter()
        self.links: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if "id" in given:
            self.ids[given["id"] or ""] += 1
        self.links += [(tag, given[name] or "") for name in ("href", "src") if name in given]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    out = tmp_path_factory.mktemp("site") / "out"
    build.build(out)
    return out


@pytest.fixture(scope="module")
def parsed(site: pathlib.Path) -> dict[pathlib.Path, Parsed]:
    return {file: Parsed(file.read_text()) for file in site.rglob("*.html") if ".pane-" not in file.name}


def test_every_link_leads_somewhere(site: pathlib.Path, parsed: dict[pathlib.Path, Parsed]) -> None:
    dead = []
    for file, page in parsed.items():
        for tag, address in page.links:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                assert tag == "a", f"{file.name} loads {address}"  # a link may lead out; nothing is loaded from there
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if not target.is_file() or not target.is_relative_to(site.resolve()):
                dead.append(f"{file.relative_to(site)}: {address}")
            elif ".pane-" in target.name:
                assert parts.fragment.startswith("panes=") or not parts.fragment  # which of its panes are open
            elif parts.fragment and not parsed[site / target.relative_to(site.resolve())].ids[unquote(parts.fragment)]:
                dead.append(f"{file.relative_to(site)}: {address} (no such anchor)")
    assert dead == []
    assert sum(len(page.links) for page in parsed.values()) > 5000


def test_ids_are_unique(parsed: dict[pathlib.Path, Parsed]) -> None:
    for file, page in parsed.items():
        assert [name for name, count in page.ids.items() if count > 1] == [], file.name


def test_nothing_is_left_of_the_markdown(parsed: dict[pathlib.Path, Parsed]) -> None:
    for file in parsed:
        body = re.sub(r"<(pre|code)\b.*?</\1>", "", file.read_text(), flags=re.S)
        assert not re.search(r'href="[^":]*\.md["#]|\]\(|<!--', body), file.name


def test_two_builds_are_the_same(tmp_path: pathlib.Path) -> None:
    """The panes apart, of which tests/docs/test_panes.py says it."""
    files = []
    for out in (tmp_path / "one", tmp_path / "two"):
        build.build(out, panes=False)
        files.append({file.relative_to(out): file.read_bytes() for file in out.rglob("*") if file.is_file()})
    assert files[0] == files[1]


# ---- the Markdown as it is read on GitHub -----------------------------------------------------------------------------


def anchors(text: str) -> set[str]:
    found: Counter[str] = Counter()
    made = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        name = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).replace("`", "").lower()
        name = "".join(letter for letter in name if letter.isalnum() or letter in " -_").replace(" ", "-")
        made.add(name if not found[name] else f"{name}-{found[name]}")
        found[name] += 1
    return made


MARKDOWN = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")])


def test_links_in_the_markdown_lead_somewhere() -> None:
    dead = []
    texts = {file: re.sub(r"^```.*?^```$", "", file.read_text(), flags=re.S | re.M) for file in MARKDOWN}
    for file, text in texts.items():
        for address in re.findall(r"(?<!\\)\]\(([^()\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
            path, _, anchor = address.partition("#")
            target = (file.parent / path).resolve() if path else file
            if urlsplit(address).scheme:
                continue
            if not target.exists() or (anchor and anchor not in anchors(texts[target])):
                dead.append(f"{file.relative_to(ROOT)}: {address}")
    assert dead == []


def test_every_page_stands_in_an_index() -> None:
    order = contents(set(DOCS.rglob("*.md")))
    assert [place.source.name for place in order if place.section == "More"] == [], "list them in docs/README.md"
    assert order[0].source == DOCS / "README.md"
    assert len({place.source for place in order}) == len(order) == len(list(DOCS.rglob("*.md")))


# ---- what the builder refuses ------------------------------------------------------------------------------------------


def page(text: str, name: str = "errors.md") -> Page:
    return Page(DOCS / name, pages.place_of(DOCS / name), text)


@pytest.mark.parametrize(
    "text, said",
    [
        ("# A\n\n[x](nowhere.md)\n", r"docs/errors.md:3: nowhere.md \(no such file\)"),
        ("# A\n\n[x](../README.md#nothing)\n", r"docs/errors.md:3: ../README.md#nothing \(no such heading\)"),
        ("# A\n\n[x](#b)\n", r"docs/errors.md:3: #b \(no such heading\)"),
        ("# A\n\n![x](nowhere.png)\n", "nowhere.png"),
        ("# A\n\n[x](../../../../../../../etc/passwd)\n", "no such file"),
    ],
)
def test_a_dead_link_is_an_error(text: str, said: str) -> None:
    with pytest.raises(SiteError, match=said):
        pages.collect([page(text)])


def test_html_in_markdown_is_an_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(SiteError, match="HTML in Markdown"):
        build.html(page("# A\n\n<div>x</div>\n"), Names([]))


def test_a_folder_with_something_else_is_left_alone(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(SiteError, match="no site that this program built"):
        build.build(tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_site_is_built_anew(site: pathlib.Path, tmp_path: pathlib.Path) -> None:
    shutil.copytree(site, tmp_path / "out")
    (tmp_path / "out" / "old.html").write_text("a page that is gone")
    build.build(tmp_path / "out", panes=False)
    assert not (tmp_path / "out" / "old.html").exists()


# ---- links, code, search -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, address",
    [
        ("pb.vmap", "reference/pullback.html#vmap"),
        ("pb.lax.scan(f, init, xs)", "reference/pullback.lax.html#scan"),
        ("pnp.clip", "reference/pullback.numpy.html#clip"),
        ("pb.linalg.det", "reference/pullback.numpy.linalg.html#det"),
        ("pb.sparse", "reference/pullback.sparse.html"),
        ("pb.Program.to_json", "reference/pullback.html#Program.to_json"),
        ("pb.nothing", None),
        ("pb.vmap(f)(x)", None),
        ("x.vmap", None),
    ],
)
def test_names_in_running_text_lead_to_the_reference(text: str, address: str | None) -> None:
    reference = [Page(file, pages.place_of(file)) for file in (DOCS / "reference").glob("*.md")]
    assert Names(reference).address(text, page("# A\n")) == address


def test_programs_have_colours() -> None:
    shown = code("{ lambda (a:f32[5]:cpu(0)) ;\n  let\n    b:f32[5]:cpu(0) = mul a 2.0\n  in b }\n", "text")
    assert '<span class="kt">f32[5]</span>' in shown
    assert '<span class="nf">mul</span>' in shown
    assert re.sub(r"<.*?>", "", shown).startswith("{ lambda (a:f32[5]:cpu(0)) ;\n  let\n")


def test_the_index_has_every_entry_of_the_reference(site: pathlib.Path) -> None:
    text = (site / build.MARK).read_text()
    rows = json.loads(text.removeprefix("window.searchIndex = ").removesuffix(";\n"))
    found = {place: {entry[1] for entry in entries} for place, _, _, entries in rows}
    assert {"grad", "vmap", "jit", "Program.to_json"} <= found["reference/pullback.html"]
    assert len(text) < 600_000
    assert search.words("The trace of one Trace, and of x.") == ["trace"]


# ---- readable ----------------------------------------------------------------------------------------------------------


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """By the Web Content Accessibility Guidelines 2.1."""
    light, dark = sorted([luminance(one), luminance(other)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


COLOURS = {
    name: both
    for name, *both in re.findall(r"--(\w+): light-dark\((#\w{6}), (#\w{6})\)", (DOCS / "website" / "style.css").read_text())
}


@pytest.mark.parametrize("text", ["ink", "faint", "link", "keyword", "string", "number", "function", "type"])
@pytest.mark.parametrize("ground", ["paper", "panel", "code", "mark"])
def test_contrast(text: str, ground: str) -> None:
    for scheme in (0, 1):
        assert contrast(COLOURS[text][scheme], COLOURS[ground][scheme]) >= (3 if ground == "mark" else 4.5)


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")


def shown(address: str, profile: pathlib.Path) -> str:
    """A page as a browser has it, once its scripts have run; they may not say anything on the console."""
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", "--enable-logging=stderr"]
    command = [CHROMIUM, *options, "--virtual-time-budget=5000", "--dump-dom", address]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.findall(r"CONSOLE.*", done.stderr) == []
    return done.stdout


@in_a_browser
@pytest.mark.parametrize(
    "query, first",
    [
        ("vmap", "reference/pullback.html#vmap"),
        ("pb.lax.scan", "reference/pullback.lax.html#scan"),
        ("sharp bits", "sharp-bits.html"),
        ("where gradient", None),
    ],
)
def test_search(site: pathlib.Path, query: str, first: str | None, tmp_path: pathlib.Path) -> None:
    address = (site / "tutorials" / "index.html").as_uri() + f"?q={quote(query)}"
    results = shown(address, tmp_path).partition('<div class="results">')[2].partition("</header>")[0]
    found = re.findall(r'<a href="([^"]+)"', results)
    assert found and all((site / "tutorials" / urlsplit(address).path).exists() for address in found)
    if first is not None:
        assert found[0] == f"../{first}"


@in_a_browser
@pytest.mark.parametrize("place", ["index.html", "four-questions.html", "primitives.html", "reference/pullback.numpy.html"])
def test_scripts_run(site: pathlib.Path, place: str, tmp_path: pathlib.Path) -> None:
    page = shown((site / place).as_uri(), tmp_path)
    assert page.count('class="copy"') == len(re.findall(r'<pre class="code"', page))
    assert '<a href="#' in page.partition('<nav class="outline"')[2]
