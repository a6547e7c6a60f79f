"""Pages: the files of the repository that the site shows, what is in each, and where it lies in the site."""

from __future__ import annotations

import os
import pathlib
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

DOCS = pathlib.Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")
OUTSIDE = re.compile(r"^(https?:|mailto:)")
ENTRY = re.compile(r"([A-Za-z_]\w*(?:\.\w+)*)(\(.*\))?$")


class SiteError(Exception):
    """The site cannot be built: what is wrong, in which file."""


class Heading(NamedTuple):
    """A heading, of level 1 to 6, and its name in addresses. `code`: it names an entry of the reference."""

    level: int
    text: str
    anchor: str
    code: bool


class Page:
    """A file that the site shows: Markdown, or a source file.

    Attributes:
        source: the file.
        place: where it lies in the site, as `reference/pullback.html`.
        tokens: its Markdown, parsed; of another file, none.
        headings: in order; the first is the title.
    """

    def __init__(self, source: pathlib.Path, place: str, text: str | None = None) -> None:
        self.source, self.place = source, place
        self.text = source.read_text() if text is None else text
        self.is_markdown = source.suffix == ".md"
        self.tokens: list[Token] = MARKDOWN.parse(self.text) if self.is_markdown else []
        self.headings = list(self._headings())
        self.title = self.headings[0].text if self.headings else str(source.relative_to(ROOT))
        self.anchors = {heading.anchor for heading in self.headings}

    @property
    def is_reference(self) -> bool:
        """Whether it is the page of a namespace, with an entry for each name."""
        return self.source.parent == DOCS / "reference" and self.source.name != "README.md"

    def _headings(self) -> Iterator[Heading]:
        used: Counter[str] = Counter()
        for opening, inline in zip(self.tokens, self.tokens[1:]):
            if opening.type != "heading_open":
                continue
            text = plain(inline)
            codes = [token.type for token in inline.children or ()] == ["code_inline"]
            entry = ENTRY.match(text) if self.is_reference and codes and opening.tag != "h1" else None
            anchor = entry[1] if entry else slug(text)
            used[anchor] += 1
            if used[anchor] > 1:
                anchor += f"-{used[anchor] - 1}"
            opening.attrSet("id", anchor)
            if entry:
                opening.meta["entry"] = inline.children[0].meta["entry"] = True
            yield Heading(int(opening.tag[1]), text, anchor, entry is not None)


def slug(text: str) -> str:
    """The anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")


def plain(inline: Token) -> str:
    """The text of a heading or paragraph, without marks."""
    kinds = {"softbreak": " ", "hardbreak": " "}
    return "".join(
        kinds.get(token.type, "" if token.type == "html_inline" else token.content) for token in inline.children or ()
    )


def links(page: Page) -> Iterator[tuple[Token, str, int]]:
    """Each link and image of a page: its token, the attribute that has the address, and the line of its paragraph."""
    for block in page.tokens:
        for token in block.children or ():
            if token.type in ("link_open", "image"):
                yield token, "href" if token.type == "link_open" else "src", (block.map or [0])[0] + 1


def place_of(source: pathlib.Path) -> str:
    """Where a file lies in the site: pages of docs/ as there, other files of the repository under repository/."""
    inside = source.is_relative_to(DOCS)
    path = source.relative_to(DOCS) if inside else pathlib.Path("repository") / source.relative_to(ROOT)
    if source.suffix == ".md":
        name = "index.html" if inside and source.name == "README.md" else f"{source.stem}.html"
        return path.with_name(name).as_posix()
    return path.as_posix() if source.suffix in (".png", ".svg") else f"{path.as_posix()}.html"


def relative(place: str, start: str) -> str:
    """The address of one file of the site in another one."""
    return os.path.relpath(place, os.path.dirname(start) or ".").replace(os.sep, "/")


def collect(pages: list[Page]) -> tuple[dict[pathlib.Path, Page], set[pathlib.Path]]:
    """The pages with those that they lead to, and the images; each link is changed into that of the built page.

    Raises:
        SiteError: links that lead nowhere, each with its file and line.
    """
    found = {page.source: page for page in pages}
    images: set[pathlib.Path] = set()
    waiting, dead, resolved = list(pages), [], []
    while waiting:
        page = waiting.pop()
        for token, attribute, line in links(page):
            address = str(token.attrs[attribute])
            if OUTSIDE.match(address):
                continue
            path, _, anchor = unquote(address).partition("#")
            source = (page.source.parent / path).resolve() if path else page.source
            where = f"{page.source.relative_to(ROOT)}:{line}: {address}"
            if source.is_dir():
                source = source / "README.md"
            if not source.is_relative_to(ROOT) or not source.is_file():
                dead.append(f"{where} (no such file)")
            elif source.suffix in (".png", ".svg"):
                images.add(source)
                token.attrs[attribute] = relative(place_of(source), page.place)
            else:
                if source not in found:
                    found[source] = Page(source, place_of(source))
                    waiting.append(found[source])
                resolved.append((token, attribute, page, source, anchor, where))
    for token, attribute, page, source, anchor, where in resolved:
        target = found[source]
        if anchor and anchor not in target.anchors:
            dead.append(f"{where} (no such heading)")
        own = "" if target is page and anchor else relative(target.place, page.place)
        token.attrs[attribute] = own + (f"#{anchor}" if anchor else "")
    if dead:
        raise SiteError("These links lead nowhere:\n" + "\n".join(sorted(dead)))
    return found, images
