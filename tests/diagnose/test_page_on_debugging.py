"""docs/debugging.md: its examples run, and print what it shows."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running import runner

from pullback.core.types import ArrayType
from pullback.diagnose.compared import tolerance_for

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "debugging.md"


def printed(steps: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, str]]:
    """Each block of the page, as the next lines of model.py, with what it prints; what stands behind a prompt is typed."""
    names: dict[str, Any] = {"__name__": "model"}
    text = ""
    for step in steps:
        start = text.count("\n")
        text += step.code + "\n"
        Path("model.py").write_text(text)
        linecache.checkcache()
        typed = re.findall(r"^\(Pdb\) (.*)$", step.expected or "", re.MULTILINE)
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join([*typed, ""])))
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile("\n" * start + step.code, "model.py", "exec", dont_inherit=True), names)
        yield step, out.getvalue().replace(f"{Path.cwd()}/", "").replace("(Pdb) ", "(Pdb)\n")


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    running = runner()
    steps = running.steps(PAGE.read_text())
    assert len(steps) == 8
    for step, found in printed(steps, monkeypatch):
        expected = re.sub(r"^\(Pdb\) .*$", "(Pdb)", step.expected or "", flags=re.MULTILINE)
        expected, found = (re.sub(r"(\S) {2,}", r"\1 ", re.sub(r"^ +", " ", x, flags=re.MULTILINE)) for x in (expected, found))
        expected = re.sub(r"#\d+", "#...", expected)  # ids are other ones each time, of other lengths
        assert running.matches(expected, found), f"debugging.md:{step.line} printed\n{found}"


def test_the_tolerances_are_those_that_it_names() -> None:
    said = dict(re.findall(r"(\d)e-\d+ in (float\d+)", PAGE.read_text()))
    found = {f"{tolerance_for(ArrayType((), dtype)):.0e}"[0]: dtype for dtype in ("float32", "float64")}
    assert said == found
