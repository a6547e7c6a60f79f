"""Makes the pictures of explorer panes that stand in the Markdown, by a headless Chromium: of markers that name an `image`.

python docs/screenshots.py             # all of them
python docs/screenshots.py questions   # those of the pages whose names contain that
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
import tempfile

from website.pages import DOCS, Page, place_of
from website.panes import made, panes_of, place

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SIZE = "1280,760"


def take(browser: str, address: str, image: pathlib.Path) -> None:
    """Take a picture of a page."""
    with tempfile.TemporaryDirectory() as profile:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}"]
        options += [f"--window-size={SIZE}", "--virtual-time-budget=4000", f"--screenshot={image}"]
        subprocess.run([browser, *options, address], check=True, capture_output=True)


def main(names: list[str]) -> None:
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        sys.exit(f"There is no browser: none of {', '.join(BROWSERS)} is on the path.")
    pages = [Page(source, place_of(source)) for source in sorted(DOCS.rglob("*.md"))]
    pages = [page for page in pages if not names or any(name in page.source.name for name in names)]
    pages = [page for page in pages if any(pane.image for pane in panes_of(page))]
    built = made(pages)
    with tempfile.TemporaryDirectory() as folder:
        for page in pages:
            for i, pane in enumerate(panes_of(page)):
                if pane.image:
                    one = built[place(page, i + 1)]
                    file = pathlib.Path(folder, "pane.html")
                    file.write_text(one.text)
                    image = page.source.parent / pane.image
                    image.parent.mkdir(exist_ok=True)
                    take(browser, f"{file.as_uri()}#{one.state}&theme=light", image)
                    print(image)


if __name__ == "__main__":
    main(sys.argv[1:])
