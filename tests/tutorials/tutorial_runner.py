"""Runs the tutorials, and `OTHERS`: Markdown files whose ```python blocks share a namespace, each followed
by what it prints, as ```text.

    python tests/tutorials/tutorial_runner.py --update [name ...]

writes the output blocks anew where they differ (read each afterwards), and the figures that the tutorials save. A page that
begins with `<!-- PULLBACK_CPU_DEVICES=8 -->` runs in a process of its own, in which the CPU is divided into so many devices;
`--check name` runs a page as the tests do.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
UNNUMBERED = "sharp-bits.md"  # names so many of its own lines that each change would touch all outputs: `...` stands for them
OTHERS = ("README.md", "explorer.md", "four-questions.md", "sharp-bits.md")
PAGES = [*sorted(FOLDER.glob("[0-9]-*.md")), *sorted(FOLDER.glob("[1-5]01-*.md")), *(FOLDER.parent / name for name in OTHERS)]
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Step(NamedTuple):
    """A block of code, and the output that the page shows for it: None if the code prints nothing."""

    code: str
    line: int  # of the first line of the code, in the page
    expected: str | None
    end: int  # where in the page the code block ends
    span: tuple[int, int] | None  # where the text of the output block stands in the page


def steps(page: str) -> list[Step]:
    """The code blocks of a page in order, each with the output block that comes next before any other code."""
    found = list(BLOCK.finditer(page))
    made = []
    for block, after in zip(found, [*found[1:], None]):
        if block[1] != "python":
            continue
        shown = after if after is not None and after[1] == "text" else None
        line = page.count("\n", 0, block.start(2)) + 1
        made.append(Step(block[2], line, shown and shown[2], block.end(), shown and shown.span(2)))
    return made


def matches(expected: str, printed: str) -> bool:
    """Whether an output is the expected one, but for spaces at the ends of lines; `...` stands for anything in a line, and
    on a line of its own for any lines."""
    lines = ["(?:.|\n)*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") for line in tidy(expected)]
    return re.fullmatch("\n".join(lines), "\n".join(tidy(printed))) is not None


def tidy(text: str) -> list[str]:
    """The lines of a text without spaces at their ends, nor empty lines at its end."""
    return [line.rstrip() for line in text.rstrip().split("\n")]


def outputs(path: Path) -> Iterator[tuple[Step, str]]:
    """Run a tutorial in the current folder: each step with what it printed. A warning is an error."""
    namespace: dict[str, Any] = {"__name__": "tutorial"}
    for step in steps(path.read_text()):
        text = "\n" * (step.line - 1) + step.code  # so that tracebacks show the page's own lines
        code = compile(text, str(path), "exec", dont_inherit=True)  # a page has no `from __future__`, as this file has
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(code, namespace)
        yield step, printed.getvalue().replace(str(path), path.name)  # errors name the page


def updated(path: Path) -> str:
    """The page with each output block that did not match written anew, and added where one was missing."""
    page = path.read_text()
    changes = []
    for step, printed in outputs(path):
        shown = "\n".join(tidy(printed))
        if path.name == UNNUMBERED:
            shown = re.sub(rf"(?<={re.escape(path.name)}:)\d+", "...", shown)
        if step.expected is None:
            if printed:
                changes.append((step.end, step.end, f"\n\n```text\n{shown}\n```"))
        elif not matches(step.expected, printed):
            changes.append((*step.span, shown + "\n"))
    for start, end, text in reversed(changes):
        page = page[:start] + text + page[end:]
    return page


def devices_of(path: Path) -> int:
    """Into how many devices the CPU is to be divided for a page."""
    said = re.match(r"<!-- PULLBACK_CPU_DEVICES=(\d+) -->", path.read_text())
    return int(said[1]) if said else 1


def check(path: Path) -> None:
    """Run a page in the current folder, and raise AssertionError where it prints something else than it shows."""
    for step, printed in outputs(path):
        where = f"{path.name}:{step.line}"
        if step.expected is None:
            assert printed == "", f"{where} prints, but the page shows no output:\n{printed}"
        else:
            assert matches(step.expected, printed), f"{where} printed\n{printed}\nbut the page shows\n{step.expected}"


def run_apart(task: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Run this file for one page in a process of its own, with its devices."""
    given = {**os.environ, "PULLBACK_CPU_DEVICES": str(devices_of(path))}
    return subprocess.run([sys.executable, __file__, task, path.name], env=given, capture_output=True, text=True)


def main(arguments: list[str]) -> None:
    if arguments[:1] not in (["--update"], ["--check"]):
        sys.exit(__doc__)
    for path in PAGES:
        if arguments[1:] and not any(name in path.name for name in arguments[1:]):
            continue
        if arguments[0] == "--check":
            check(path)
            continue
        if devices_of(path) > 1 and "PULLBACK_CPU_DEVICES" not in os.environ:
            done = run_apart("--update", path)
            print(done.stdout, done.stderr, sep="", end="")
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            for _ in range(3):  # outputs that name a line of the page have moved it
                page = updated(path)
                if page == path.read_text():
                    break
                path.write_text(page)
                linecache.checkcache()
            else:
                sys.exit(f"{path.name} prints something else each time")
            for figure in sorted(Path(folder).glob("*.png")):
                shutil.copy(figure, FOLDER / "images" / figure.name)
        print(f"{path.name}: {len(steps(page))} blocks")


if __name__ == "__main__":
    main(sys.argv[1:])
