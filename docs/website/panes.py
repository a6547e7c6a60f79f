"""Explorer panes: pages of `pb.explore` of what a page of Markdown defines, each in a file beside the page that shows it.

In the Markdown, after the code that it needs:

    <!-- explore: loss, params, x; apply=grad,vmap(in_axes=(None, 0)); panes=base,grad,vmap -->
    *What GitHub shows in its place.*
    <!-- /explore -->

First come the arguments of `pb.explore`, then options: `apply`; `values=yes`, to have the values of all operations;
`panes`, those that are open (else the explorer chooses); `at`, the operation that is chosen in the last of them, or `find`, the
one that makes the first NaN; `height`, in CSS pixels; and `image`, a picture of it for GitHub, which `python
docs/screenshots.py` makes. The page's code is run from its top to the last marker, in a process of its own.

    python -m website.panes PAGE.md OUT     # what the builder runs: writes OUT/1.html, ... and prints the state of each as JSON
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
OPTIONS = ("apply", "values", "panes", "at", "height", "image")


class Pane(NamedTuple):
    """What a marker asks for."""

    arguments: str
    apply: str = ""
    values: str = ""
    panes: str = ""
    at: str = ""
    height: str = "560"
    image: str = ""

    @property
    def call(self) -> str:
        options = [f'apply="{self.apply}"'] if self.apply else []
        return f"pb.explore({', '.join([self.arguments, *options, *(['values=True'] if self.values else [])])})"


def parsed(text: str, where: str = "") -> Pane:
    """A marker's text.

    Raises:
        SiteError: an option that is not known.
    """
    arguments, *options = [part.strip() for part in text.split(";")]
    given = dict(option.partition("=")[::2] for option in options)
    if not arguments or set(given) - set(OPTIONS) or given.get("values", "yes") != "yes":
        raise SiteError(f"{where}: an explorer pane takes arguments, then {', '.join(OPTIONS)}, but was given {text!r}.")
    return Pane(arguments, **given)


def panes_of(page: Page) -> list[Pane]:
    """The panes of a page, in order."""
    return [parsed(text, str(page.source.relative_to(ROOT))) for text in MARKER.findall(page.text)] if page.is_markdown else []


class Made(NamedTuple):
    """The page of a pane, and the state in which it is opened, as its address says it."""

    text: str
    state: str


def figure(pane: Pane, address: str, state: str) -> str:
    """The HTML that stands for a pane. The page in it is loaded when it comes into view."""
    opened = escape(f"#{state}" if state else "")
    caption = f'<code>{escape(pane.call, quote=False)}</code> <a href="{escape(address)}{opened}">open on a page of its own</a>'
    return (
        f'<figure class="pane"><figcaption>{caption}</figcaption>\n<iframe loading="lazy" src="{escape(address)}?embed{opened}"'
        f' height="{escape(pane.height)}" title="Explorer of {escape(pane.arguments)}"></iframe></figure>\n'
    )


def place(page: Page, number: int) -> str:
    """Where the file of a pane lies in the site."""
    return page.place.removesuffix(".html") + f".pane-{number}.html"


def made(pages: list[Page]) -> dict[str, Made]:
    """Each pane by its place in the site. Pages of Markdown run in processes of their own, as many as there are cores.

    Raises:
        SiteError: the code of a page failed; with its error.
    """
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        folders = [pathlib.Path(folder, str(i)) for i in range(len(pages))]
        states = list(pool.map(run_apart, pages, folders))
        return {
            place(page, i + 1): Made((out / f"{i + 1}.html").read_text(), state)
            for page, out, found in zip(pages, folders, states)
            for i, state in enumerate(found)
        }


def run_apart(page: Page, out: pathlib.Path) -> list[str]:
    """Run a page in a process of its own, which writes the panes' pages; their states."""
    devices = re.match(r"<!-- PULLBACK_CPU_DEVICES=(\d+) -->", page.text)
    path = os.pathsep.join([str(ROOT / "docs"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    given = {**os.environ, "PYTHONPATH": path, "PULLBACK_CPU_DEVICES": devices[1] if devices else "1"}
    command = [sys.executable, "-m", "website.panes", str(page.source), str(out)]
    done = subprocess.run(command, env=given, capture_output=True, text=True)
    if done.returncode:
        raise SiteError(f"The explorer panes of {page.source} could not be made:\n{done.stderr}")
    return json.loads(done.stdout)


def state_of(pane: Pane, data: dict[str, Any], where: str) -> str:
    """The state that a pane asks for, as an address says it: which panes are open, and which row is chosen.

    Raises:
        SiteError: there is no such pane, or no such operation in the last of them.
    """
    if not pane.panes:
        return ""
    by_id = {stage["id"]: stage for stage in data["stages"]}
    names = pane.panes.split(",")
    if not set(names) <= {*by_id, "costs"}:
        raise SiteError(f"{where}: the panes of {pane.call} are {', '.join([*by_id, 'costs'])}, not {pane.panes}.")
    if not pane.at:
        return f"panes={pane.panes}"
    rows = [row["id"] for row in by_id[names[-1]]["rows"] if row.get("op") == pane.at]
    if pane.at == "find" and "find" in data:
        rows = [data["find"]["row"]]
    if not rows:
        raise SiteError(f"{where}: there is no operation {pane.at} in the pane {names[-1]} of {pane.call}.")
    return f"panes={pane.panes}&at={rows[0]}"


def code_of(text: str) -> str:
    """The code of a page, each line at its place, and nothing else: what the pane of the source shows."""
    lines = [""] * (text.count("\n") + 1)
    for found in BLOCK.finditer(text):
        if found[1] is not None:
            first = text.count("\n", 0, found.start()) + 1
            code = found[1].splitlines()
            lines[first : first + len(code)] = code
    return "\n".join(lines) + "\n"


def run(path: pathlib.Path, out: pathlib.Path) -> list[str]:
    """Run a page's code down to its last pane, and write each pane's page; their states."""
    import pullback as pb  # noqa: PLC0415, in the process that runs a page alone

    text = path.read_text()
    last = max(marker.end() for marker in MARKER.finditer(text))
    names: dict[str, Any] = {"__name__": "tutorial"}
    states: list[str] = []
    out.mkdir(parents=True)
    (out / path.name).write_text(code_of(text[:last]))  # where it runs, so that lines name the page alone
    os.chdir(out)
    for found in BLOCK.finditer(text, 0, last):
        line = text.count("\n", 0, found.start())
        if found[1] is not None:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile("\n" * (line + 1) + found[1], path.name, "exec", dont_inherit=True), names)
            continue
        pane = parsed(found[2], f"{path.name}:{line + 1}")
        call = f"explore({pane.arguments}, apply={pane.apply!r}, values={pane.values == 'yes'}, compile=False)"
        explorer = eval(compile("\n" * line + call, path.name, "eval"), {**names, "explore": pb.explore})
        states.append(state_of(pane, explorer.data, f"{path.name}:{line + 1}"))
        explorer.save(out / f"{len(states)}.html")
    return states


if __name__ == "__main__":
    print(json.dumps(run(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))))
