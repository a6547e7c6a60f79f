"""What stands around the content of a page: the contents, the way to it, the page before and after, its outline."""

from __future__ import annotations

import pathlib
import re
from html import escape
from itertools import groupby
from string import Template

from website.contents import Place
from website.pages import DOCS, ROOT, Page, relative

TEMPLATE = Template((pathlib.Path(__file__).parent / "page.html").read_text())

WIDE = re.compile(r"<tr>\s*(<th>[^\n]*</th>\s*){8}")  # a table of so many columns


class Layout:
    """The site's pages in their order, from which the frame of each page is made."""

    def __init__(self, order: list[Place], pages: dict[pathlib.Path, Page]) -> None:
        self.order, self.pages = order, pages
        self.at = {place.source: i for i, place in enumerate(order)}

    def label(self, source: pathlib.Path) -> str:
        """What a page is called in the contents."""
        label = self.order[self.at[source]].label if source in self.at else ""
        return label or self.pages[source].title

    def link(self, source: pathlib.Path, page: Page, attributes: str = "") -> str:
        """A link from a page to another one."""
        target = self.pages[source]
        shown = escape(self.label(source), quote=False)
        return f'<a href="{escape(relative(target.place, page.place))}"{attributes}>{shown}</a>'

    def contents(self, page: Page) -> str:
        """The pages by sections; the section of this page is open, and so is the folder in which it lies."""
        here = self.order[self.at[page.source]] if page.source in self.at else None
        folder = here and (here.below or here.source)
        made = []
        for section, group in groupby(self.order[1:], lambda place: place.section):
            rows = []
            for place in group:
                if place.below is not None and place.below != folder:
                    continue
                current = ' aria-current="page"' if place.source == page.source else ""
                kind = ' class="below"' if place.below else ""
                rows.append(f"<li{kind}>{self.link(place.source, page, attributes=current)}</li>")
            opened = " open" if here is None or here.section in (section, "") else ""
            items = "\n".join(rows)
            made.append(f"<details{opened}><summary>{escape(section, quote=False)}</summary><ul>\n{items}\n</ul></details>")
        return "\n".join(made)

    def crumbs(self, page: Page) -> str:
        """The way to a page."""
        home = DOCS / "README.md"
        if page.source == home:
            return ""
        steps = [self.link(home, page)]
        if page.source not in self.at:
            steps.append("Repository")
        else:
            place = self.order[self.at[page.source]]
            steps.append(escape(place.section, quote=False))
            if place.below:
                steps.append(self.link(place.below, page))
        steps.append(escape(self.label(page.source), quote=False))
        return ' <span aria-hidden="true">&rsaquo;</span> '.join(steps)

    def turn(self, page: Page) -> str:
        """The page before this one, and the one after it."""
        if page.source not in self.at:
            return ""
        i = self.at[page.source]
        made = ""
        if i > 0:
            made += self.link(self.order[i - 1].source, page, attributes=' rel="prev"')
        if i + 1 < len(self.order):
            made += self.link(self.order[i + 1].source, page, attributes=' rel="next"')
        return made

    def outline(self, page: Page) -> str:
        """The headings of a page below its title; of a page of the reference, the names on it."""
        rows = []
        for heading in page.headings[1:]:
            if heading.level > 3 or (heading.level == 3 and not heading.code and len(page.headings) > 120):
                continue
            text = heading.anchor if heading.code else heading.text
            kind = ' class="inner"' if heading.level == 3 and not heading.code else ""
            rows.append(f'<li{kind}><a href="#{escape(heading.anchor)}">{escape(text, quote=False)}</a></li>')
        return "<p>On this page</p><ul>\n" + "\n".join(rows) + "\n</ul>" if rows else ""

    def names(self, page: Page) -> str:
        """The entries of a page of the reference, as a list in columns."""
        rows = [heading.anchor for heading in page.headings if heading.code and heading.level == 3]
        links = "\n".join(f'<li><a href="#{escape(name)}"><code>{escape(name)}</code></a></li>' for name in rows)
        return f'<ul class="names">\n{links}\n</ul>\n' if len(rows) > 3 else ""

    def framed(self, page: Page, body: str) -> str:
        """The whole page, as it is written to its file."""
        title = "pullback" if page.source == DOCS / "README.md" else f"{page.title} - pullback"
        return TEMPLATE.substitute(
            title=escape(title, quote=False),
            root="../" * page.place.count("/"),
            contents=self.contents(page),
            crumbs=self.crumbs(page),
            kind=' class="wide"' if WIDE.search(body) else "",
            body=body.replace('<h3 id="', f'{self.names(page)}<h3 id="', 1),
            turn=self.turn(page),
            footer=f"Made of <code>{escape(str(page.source.relative_to(ROOT)))}</code> by <code>python docs/build.py</code>.",
            outline=self.outline(page),
        )
