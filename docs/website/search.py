"""The index that the search box reads: for each heading its page, its anchor, its text, and the words that stand below it."""

from __future__ import annotations

import json
import re

from website.pages import Page, plain

WORD = re.compile(r"[a-z_][a-z0-9_]{2,}")
COMMON = {
    *("the", "and", "for", "that", "with", "are", "from", "not", "its", "they", "which", "this", "one", "has", "was", "but"),
    *("can", "all", "what", "each", "other", "than", "there", "their", "here", "then", "only", "also", "into", "where", "when"),
    *("have", "does", "more", "them", "who", "how", "will", "would", "may", "such", "these", "those", "been", "were"),
}


def words(text: str) -> list[str]:
    """The words of a text that are worth finding, each once, in order."""
    return [word for word in dict.fromkeys(WORD.findall(text.lower())) if word not in COMMON]


def entries(page: Page) -> list[list[str]]:
    """Of each heading of a page: anchor, text, and the words below it; of an entry of the reference, those of its summary."""
    made: list[tuple[list[str], bool]] = []
    texts: list[list[str]] = []
    headings = iter(page.headings)
    for i, token in enumerate(page.tokens):
        if token.type == "heading_open":
            heading = next(headings)
            name = heading.anchor if heading.code else heading.text
            made.append(([heading.anchor if heading.level > 1 else "", name], heading.code))
            texts.append([])
        elif made and token.type == "inline" and page.tokens[i - 1].type != "heading_open" and not (made[-1][1] and texts[-1]):
            texts[-1].append(plain(token))
    return [[*first, " ".join(words(" ".join(text)))] for (first, _), text in zip(made, texts)]


def index(pages: list[tuple[Page, str]]) -> str:
    """A script that sets the index; each page comes with the name of its section."""
    rows = [[page.place, page.title, section, entries(page)] for page, section in pages]
    return "window.searchIndex = " + json.dumps(rows, ensure_ascii=False, separators=(",", ":")) + ";\n"
