"""Explorer panes: pages of `pb.explore` of what a page of Markdown defines, each in a file beside the page that shows it.

In the Markdown, after the code that it needs:

    <!-- explore: loss, params, x; apply=grad,vmap(in_axes=(None, 0)); panes=base,grad,vmap -->
    *What GitHub shows in its place.*
    <!-- /explore -->

First come the arguments of `pb.explore`, then options: `apply`, `panes` (those that are open; else the explorer chooses) and
`height` (in CSS pixels). The page's code is run from its top to the last marker, in a process of its own.

    python -m website.panes PAGE.md OUT     # what the builder runs: writes OUT/1.html, ... and prints their names as JSON
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from html import escape
from typing import Any, NamedTuple

from website.pages import ROOT, Page, SiteError

MARKER = re.compile(r"^<!-- explore: (.*?) -->$", re.MULTILINE)
BLOCK = re.compile(r"^```python\n(.*?)^```$|^<!-- explore: (.*?) -->$", re.MULTILINE | re.DOTALL)
OPTIONS = ("apply", "panes", "height")


class Pane(NamedTuple):
    """What a marker asks for."""

    arguments: str
    apply: str = ""
    panes: str = ""
    height: str = "560"

    @property
    def call(self) -> str:
        return f"pb.explore({self.arguments}" + (f', apply="{self.apply}")' if self.apply else ")")


def parsed(text: str, where: str = "") -> Pane:
    """A marker's text.

    Raises:
        SiteError: an option that is not known.
    """
    arguments, *options = [part.strip() for part in text.split(";")]
    given = dict(option.partition("=")[::2] for option in options)
    unknown = [name for name in given if name not in OPTIONS]
    if unknown or not arguments:
        raise SiteError(f"{where}: an explorer pane takes arguments, then {', '.join(OPTIONS)}, but was given {text!r}.")
    return Pane(arguments, **given)


def panes_of(page: Page) -> list[Pane]:
    """The panes of a page, in order."""
    return [parsed(text, str(page.source.relative_to(ROOT))) for text in MARKER.findall(page.text)] if page.is_markdown else []


def figure(pane: Pane, address: str) -> str:
    """The HTML that stands for a pane. The page in it is loaded when it comes into view."""
    opened = f"#panes={pane.panes}" if pane.panes else ""
    caption = f'<code>{escape(pane.call, quote=False)}</code> <a href="{escape(address + opened)}">open by itself</a>'
    return (
        f'<figure class="pane"><figcaption>{caption}</figcaption>\n<iframe loading="lazy" src="{escape(address)}?embed{opened}"'
        f' height="{escape(pane.height)}" title="Explorer of {escape(pane.arguments)}"></iframe></figure>\n'
    )


def place(page: Page, number: int) -> str:
    """Where the file of a pane lies in the site."""
    return page.place.removesuffix(".html") + f".pane-{number}.html"


def made(pages: list[Page]) -> dict[str, str]:
    """The text of each pane's page by its place. Pages of Markdown run in processes of their own, as many as there are cores.

    Raises:
        SiteError: the code of a page failed; with its error.
    """
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        folders = [pathlib.Path(folder, str(i)) for i in range(len(pages))]
        numbers = list(pool.map(run_apart, pages, folders))
        return {
            place(page, number): (out / f"{number}.html").read_text()
            for page, out, found in zip(pages, folders, numbers)
            for number in found
        }


def run_apart(page: Page, out: pathlib.Path) -> list[int]:
    """Run a page in a process of its own, which writes the panes' pages; their numbers."""
    devices = re.match(r"<!-- PULLBACK_CPU_DEVICES=(\d+) -->", page.text)
    path = os.pathsep.join([str(ROOT / "docs"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    given = {**os.environ, "PYTHONPATH": path, "PULLBACK_CPU_DEVICES": devices[1] if devices else "1"}
    command = [sys.executable, "-m", "website.panes", str(page.source), str(out)]
    done = subprocess.run(command, env=given, capture_output=True, text=True)
    if done.returncode:
        raise SiteError(f"The explorer panes of {page.source} could not be made:\n{done.stderr}")
    return json.loads(done.stdout)


def run(path: pathlib.Path, out: pathlib.Path) -> list[int]:
    """Run a page's code down to its last pane, and write each pane's page."""
    import pullback as pb  # noqa: PLC0415, in the process that runs a page alone

    text = path.read_text()
    last = max(marker.end() for marker in MARKER.finditer(text))
    names: dict[str, Any] = {"__name__": "tutorial"}
    numbers: list[int] = []
    out.mkdir(parents=True)
    os.chdir(out)
    for found in BLOCK.finditer(text, 0, last):
        line = text.count("\n", 0, found.start())
        if found[1] is not None:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile("\n" * (line + 1) + found[1], str(path), "exec", dont_inherit=True), names)
            continue
        pane = parsed(found[2], f"{path.name}:{line + 1}")
        numbers.append(len(numbers) + 1)
        call = f"explore({pane.arguments}, apply={pane.apply!r}, compile=False)"
        explorer = eval(compile("\n" * line + call, str(path), "eval"), {**names, "explore": pb.explore})
        stages = [stage["id"] for stage in explorer.data["stages"]]
        if pane.panes and not set(pane.panes.split(",")) <= set(stages):
            raise SiteError(f"{path.name}:{line + 1}: the panes of {pane.call} are {', '.join(stages)}, not {pane.panes}.")
        explorer.save(out / f"{numbers[-1]}.html")
    return numbers


if __name__ == "__main__":
    print(json.dumps(run(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))))
