"""Every tutorial runs from top to bottom, prints what it shows, and asserts the facts that it tells.

Where an output has changed for the better, `python tests/tutorials/tutorial_runner.py --update` writes it anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tutorial_runner import FOLDER, PAGES, check, devices_of, matches, run_apart, steps

import pullback as pb

TUTORIALS = [path for path in PAGES if path.parent == FOLDER]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_tutorial(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if devices_of(path) > 1:
        done = run_apart("--check", path)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    else:
        check(path)
    drawn = re.sub(r"^<!-- explore: .*?^<!-- /explore -->$", "", path.read_text(), flags=re.M | re.S)
    for figure in re.findall(r"\]\(images/(.+?)\)", drawn):
        assert (path.parent / "images" / figure).stat().st_size > 1000
        assert (tmp_path / figure).stat().st_size > 1000, f"{path.name} shows {figure}, but does not draw it"


def test_index_lists_every_tutorial_once_and_the_courses_in_order() -> None:
    listed = re.findall(r"^\d+\. \[.+?\]\((\d+-[\w-]+\.md)\)", (FOLDER / "README.md").read_text(), re.M)
    assert sorted(listed) == sorted(path.name for path in TUTORIALS)
    assert [name[:3] for name in listed if name[1:3] == "01"] == ["101", "201", "301", "401", "501"]


def test_every_environment_variable_is_described() -> None:
    package = Path(pb.__file__).parent
    read = {name for file in package.rglob("*.py") for name in re.findall(r"[\"'](PULLBACK_[A-Z_]+)[\"']", file.read_text())}
    assert read == set(re.findall(r"^\| `(PULLBACK_\w+)` \|", (FOLDER / "7-looking-inside.md").read_text(), re.M))


def test_an_ellipsis_stands_for_part_of_a_line_or_for_whole_lines() -> None:
    assert matches("a ... c\n", "a b c\n")
    assert not matches("a ... c", "a b\nc")
    assert matches("a\n...\nc", "a\nb\nb\nc")
    assert not matches("a.c", "abc")


def test_output_belongs_to_the_code_before_it() -> None:
    page = "```python\nx = 1\n```\n\n```python\nprint(x)\n```\nthat is\n\n```text\n1\n```\n"
    silent, loud = steps(page)
    assert (silent.expected, loud.expected, loud.line) == (None, "1\n", 6)
