"""The order of the pages: the sections of docs/README.md, and below the index of a folder the pages that lie in it: its
README.md, or the page beside it that has its name."""

from __future__ import annotations

import pathlib
import re
from typing import NamedTuple

from website.pages import DOCS

ITEM = re.compile(r"^(?:## (?P<section>.+)|\s*(?:- |\d+\. |\| )\[(?P<text>.+?)\]\((?P<path>[^)#]+\.md)\).*)$", re.MULTILINE)


class Place(NamedTuple):
    """A page in the order: its section, its file, what indexes call it, and that of its folder if it stands below one."""

    section: str
    source: pathlib.Path
    label: str = ""
    below: pathlib.Path | None = None


def listed(index: pathlib.Path) -> list[Place]:
    """The pages that an index names at the start of list items and rows, each with the section in which it does."""
    section, found = "", []
    for item in ITEM.finditer(index.read_text()):
        section = item["section"] or section
        if item["path"]:
            found.append(Place(section, (index.parent / item["path"]).resolve(), item["text"].replace("`", "")))
    return found


def contents(sources: set[pathlib.Path]) -> list[Place]:
    """The pages under docs/ in their order; those that no index names come last, in a section of their own."""
    home = DOCS / "README.md"
    named = listed(home)
    apart = {place.source for place in named}
    order = {home: Place("", home, "Home")}
    for place in named:
        order.setdefault(place.source, place)
        folder = place.source.parent if place.source.name == "README.md" else place.source.with_suffix("")
        if place.source.is_relative_to(DOCS) and folder.is_dir():
            inside = [*listed(place.source), *(Place("", source) for source in sorted(sources))]
            for one in inside:
                if one.source.parent == folder and one.source not in apart:
                    order.setdefault(one.source, Place(place.section, one.source, one.label, place.source))
    for source in sorted(sources):
        order.setdefault(source, Place("More", source))
    return [place for place in order.values() if place.source in sources]
