"""The README's program runs, and its links lead somewhere."""

from __future__ import annotations

import operator
import pathlib
import re

import numpy as np
import pytest
from test_layering import FILES, lines_of_code

import pullback as pb
import pullback.numpy as pnp

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text()


def test_the_program_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", TEXT, re.S):
        exec(compile(block, "README.md", "exec"), names)
    assert capsys.readouterr().out.startswith("{ lambda (a:f32[3]:cpu(0), b:f32[8,3]:cpu(0), c:f32[8]:cpu(0)) ;")
    step, per_example = names["step"], names["per_example"]
    assert callable(step) and callable(per_example)
    w, x, y = np.ones(3, np.float32), np.ones((8, 3), np.float32), np.zeros(8, np.float32)
    value, gradient = step(w, x, y)
    np.testing.assert_allclose(float(value), np.tanh(3.0) ** 2, rtol=1e-6)
    np.testing.assert_allclose(
        np.asarray(per_example(w, x, y)).mean(0), np.asarray(gradient), rtol=1e-4
    )  # 1 - tanh(3)^2 cancels


PAGES = {name: (ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md")}
LINKS = [(page, link) for page, text in PAGES.items() for link in re.findall(r"\]\((?!http)(.*?)\)", text)]


@pytest.mark.parametrize("page, link", LINKS)
def test_links(page: str, link: str) -> None:
    assert (ROOT / link).exists()


def test_files_named_in_contributing_exist() -> None:
    for file in re.findall(r"`((?:core|transforms|api|ops|tests|program)/[\w/.]*)`", PAGES["CONTRIBUTING.md"]):
        assert (ROOT / file).exists() or (ROOT / "pullback" / file).exists(), file


ROWS = re.findall(r"^\| (`.*) \| (.*) \|$", TEXT.partition("| JAX | here |")[2], re.M)


@pytest.mark.parametrize("theirs, ours", ROWS)
def test_what_is_not_there_and_what_is_in_its_place(theirs: str, ours: str) -> None:
    room = ""
    for name in re.findall(r"`(.*?)`", theirs):
        if "." in name:  # a name without a module is of the one before
            found, _, name = name.rpartition(".")
            room = found.replace("jax", "pb").replace("jnp", "pb.numpy") if found != "lax" else "pb.lax"
        if room.startswith("pb.experimental"):
            room, name = "pb", "experimental"
        with pytest.raises(AttributeError, match=f"no attribute '{name}': "):
            eval(f"{room}.{name}", {"pb": pb})
    for path in re.findall(r"pb\.([\w.]*\w)", ours):
        assert operator.attrgetter(path)(pb) is not None


# ---- numbers: every one in the README's prose is counted here ----------------------------------------------------------

WORDS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
CORE = re.findall(r"`(\w+\.py)`", TEXT.split("How it works is in")[1].split("All of")[0])


def core_files() -> list[pathlib.Path]:
    return [
        next(file for part in ("core", "transforms") if (file := ROOT / "pullback" / part / name).exists()) for name in CORE
    ]


def lines(files: list[pathlib.Path]) -> int:
    return sum(lines_of_code(file.read_text()) for file in files)


def setting(bits: int) -> int:
    with pb.default_bits(bits):
        return pnp.asarray(1.0).dtype.itemsize * 8


COURSES = sorted(path.name for path in (ROOT / "docs/tutorials").glob("[0-9][0-9][0-9]-*.md"))
SAID = {  # what stands around a number: what the number must be, and how far off a rounded one may be, in percent
    r"in (\d+) files": (lambda: len(CORE), 0),
    r"of about (\d+) lines": (lambda: lines(core_files()), 10),
    r"has about (\d+) lines": (lambda: lines(FILES), 10),
    r"(\w+) courses": (lambda: len(COURSES), 0),
    r"from (\d+)": (lambda: int(COURSES[0][:3]), 0),
    r" to (\d+), of pages that run": (lambda: int(COURSES[-1][:3]), 0),
    r"Python 3\.(\d+) or later": (lambda: int(re.search(r">=3\.(\d+)", (ROOT / "pyproject.toml").read_text())[1]), 0),
    r"switch for (\d+) bits": (lambda: setting(64), 0),
    r"numbers are (\d+) bits wide": (lambda: pnp.asarray(1.0).dtype.itemsize * 8, 0),
    r"a float(\d+) array stays": (lambda: pnp.asarray(np.ones(2)).dtype.itemsize * 8, 0),
}


@pytest.mark.parametrize("pattern", SAID)
def test_numbers(pattern: str) -> None:
    (said,) = re.findall(pattern, TEXT)
    number = WORDS.get(said) or int(said)
    counted, percent = SAID[pattern]
    assert abs(number - counted()) <= percent / 100 * number, f"README says {said}, counted {counted()}"


def test_every_number_is_counted() -> None:
    prose = re.sub(r"```.*?```|^    .*?$|`[^`]*`|\]\([^)]*\)|\(http\S*\)|Apache-2.0", "", TEXT, flags=re.S | re.M)
    for pattern in SAID:
        prose = re.sub(pattern, "", prose)
    left = re.findall(r"\b(?:\d[\d.,]*|" + "|".join(WORDS) + r")\b", re.sub(r"float64|3\.", "", prose))
    assert left == []
