"""Builds the site of the documentation: static pages that open from the disk, without a network.

python docs/build.py OUT              # from the Markdown under docs/ and what it leads to; needs pip install 'pullback[docs]'
python docs/build.py OUT --no-panes   # in a second, without the explorer panes, for which the tutorials are run

OUT is made if it is not there, and taken if it is empty or holds a site that was built before.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import sys

from website.contents import contents
from website.layout import Layout
from website.markup import Names, html
from website.pages import DOCS, ROOT, Page, SiteError, collect, place_of, relative
from website.panes import figure, made, panes_of, place
from website.search import index

FILES = ("style.css", "site.js", "icon.svg")
MARK = "website/search-index.js"  # by it a folder is known as one of ours


def build(out: pathlib.Path, panes: bool = True) -> list[str]:
    """Write the site into a folder.

    Arguments:
        out: the folder.
        panes: whether to make the explorer panes; else the pages have the text that stands for them on GitHub.

    Returns:
        The places of its pages, in their order.

    Raises:
        SiteError: a link leads nowhere, a page has HTML or a marker that cannot be read, code of a page failed, or the folder
            holds something else.
    """
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / MARK).exists())):
        raise SiteError(f"{out} is there, and is no site that this program built: choose another folder, or empty it.")
    sources = sorted(DOCS.rglob("*.md"))
    starts = [Page(source, place_of(source)) for source in [*sources, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]]
    pages, images = collect(starts)
    order = contents({source for source in pages if source.suffix == ".md"})
    layout, names = Layout(order, pages), Names(list(pages.values()))
    shown = {page.source: panes_of(page) for page in pages.values()}
    built = made([page for page in pages.values() if shown[page.source]]) if panes else {}
    files = {where: one.text for where, one in built.items()}
    for page in pages.values():
        places = [(pane, place(page, i + 1)) for i, pane in enumerate(shown[page.source])]
        figures = [figure(pane, relative(at, page.place), built[at].state) for pane, at in places] if panes else None
        files[page.place] = layout.framed(page, html(page, names, figures))
    files[MARK] = index([(pages[one.source], one.section) for one in order])
    if out.exists():
        shutil.rmtree(out)
    for name, text in files.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text, encoding="utf-8")
    for name in FILES:
        shutil.copyfile(DOCS / "website" / name, out / "website" / name)
    for image in sorted(images):
        (out / place_of(image)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(image, out / place_of(image))
    return [pages[one.source].place for one in order]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path, help="the folder to write to")
    parser.add_argument("--no-panes", action="store_true", help="leave the explorer panes out")
    given = parser.parse_args(arguments)
    try:
        built = build(given.out, panes=not given.no_panes)
    except SiteError as error:
        sys.exit(str(error))
    print(f"{len(built)} pages: open {given.out / 'index.html'}")


if __name__ == "__main__":
    main(sys.argv[1:])
